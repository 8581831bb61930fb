//! Drawing of description lines: labels at the left, long text wrapped.

use ratatui::layout::Rect;

use crate::painter::Painter;
use crate::text;
use crate::widget::bar::bar;
use crate::widget::panel::{focusable, foot};
use crate::widget::spark::spark;
use table::role::Role;

use super::{Description, Line};

/// Cells of the labels.
pub(crate) const LABEL: u16 = 12;

/// Draws lines from `skip` on; long lines wrap. Returns the number of lines without clipping.
pub fn draw_lines(painter: &mut Painter<'_>, area: Rect, lines: &[Line], skip: usize) -> usize {
    let label = LABEL.min(area.width / 3);
    let room = area.width.saturating_sub(label);
    let graphic = room.saturating_sub(14).min(24);
    let mut at = 0usize;
    let mut slot = |height: usize| -> Vec<Option<u16>> {
        let rows = (at..at + height)
            .map(|line| {
                let y = line.checked_sub(skip)?;
                (y < usize::from(area.height)).then(|| area.y + y as u16)
            })
            .collect();
        at += height;
        rows
    };
    for line in lines {
        match line {
            Line::Gap => {
                slot(1);
            }
            Line::Words(name, words, role) => {
                let clean = text::clean(words, painter.render_style.ascii).into_owned();
                let wrapped = text::wrap(&clean, usize::from(room));
                let rows = slot(wrapped.len());
                for (part, y) in wrapped.iter().zip(rows) {
                    if let Some(y) = y {
                        painter.text_in_role(area.x + label, y, room, part, *role);
                        if std::ptr::eq(part, &wrapped[0]) {
                            painter.text_in_role(area.x, y, label, name, Role::Muted);
                        }
                    }
                }
            }
            Line::Bar(name, ratio, words, role) => {
                if let Some(y) = slot(1)[0] {
                    painter.text_in_role(area.x, y, label, name, Role::Muted);
                    let x = area.x + label;
                    if graphic >= 4 {
                        bar(painter, x, y, graphic, *ratio, *role);
                        let rest = room - graphic - 1;
                        painter.text_in_role(x + graphic + 1, y, rest, words, Role::Text);
                    } else {
                        painter.text_in_role(x, y, room, words, Role::Text);
                    }
                }
            }
            Line::Past(name, values, words) => {
                if let Some(y) = slot(1)[0] {
                    painter.text_in_role(area.x, y, label, name, Role::Muted);
                    let x = area.x + label;
                    let beside = painter.width(words) + 1;
                    // Where there is more room than points, each point is some cells wide.
                    let least = room.saturating_sub(beside);
                    let wide = (usize::from(least) / values.len().max(1)).max(1);
                    let values: Vec<Option<f32>> = values
                        .iter()
                        .flat_map(|value| std::iter::repeat_n(*value, wide))
                        .collect();
                    let cells = least.min(values.len() as u16);
                    let skip = values.len() - usize::from(cells);
                    spark(painter, x, y, &values[skip..], false);
                    painter.text_in_role(x + cells + 1, y, beside, words, Role::Text);
                }
            }
            Line::Picture(name, parts) | Line::Table(name, parts) => {
                for (at, (part, y)) in parts.iter().zip(slot(parts.len())).enumerate() {
                    let Some(y) = y else { continue };
                    if at == 0 {
                        painter.text_in_role(area.x, y, label, name, Role::Muted);
                    }
                    let role = match line {
                        Line::Picture(..) => Role::Text,
                        _ if at == 0 => Role::Muted,
                        _ => Role::Text,
                    };
                    painter.text_in_role(area.x + label, y, room, part, role);
                }
            }
            Line::Head(words) => {
                if let Some(y) = slot(1)[0] {
                    painter.text_in_role(area.x, y, area.width, words, Role::Title);
                }
            }
        }
    }
    at
}

/// From this width on, lines are in two columns.
const TWO_FROM: u16 = 116;
const BETWEEN: u16 = 4;

/// Where the second column begins and how high the higher one is; `None` where one column is drawn.
fn parting(painter: &mut Painter<'_>, width: u16, lines: &[Line]) -> Option<(usize, u16)> {
    if width < TWO_FROM || lines.len() < 8 {
        return None;
    }
    let half = (width - BETWEEN) / 2;
    let none = Rect::new(0, 0, half, 0);
    let heights: Vec<usize> = lines
        .iter()
        .map(|line| draw_lines(painter, none, std::slice::from_ref(line), 0))
        .collect();
    let whole: usize = heights.iter().sum();
    let mut above = 0;
    let mut best: Option<(usize, usize)> = None;
    for (at, height) in heights.iter().enumerate() {
        // A new column begins best with what begins anyway; never between a head and what it heads.
        let before = at.checked_sub(1).map(|at| &lines[at]);
        let high = above.max(whole - above);
        let cost = match before {
            None | Some(Line::Head(_)) => None,
            Some(Line::Gap) => Some(high),
            _ if matches!(lines[at], Line::Gap) => None,
            // A continuation of a fact stays below the fact.
            _ if matches!(&lines[at], Line::Words(label, ..) if label.is_empty()) => None,
            _ => Some(high + 3),
        };
        if let Some(cost) = cost
            && best.is_none_or(|(_, least)| cost < least)
        {
            best = Some((at, cost));
        }
        above += height;
    }
    let (at, _) = best?;
    let left: usize = heights[..at].iter().sum();
    let high = left.max(whole - left);
    // What is very uneven reads better as one column.
    (high * 4 <= whole * 3).then(|| (at, u16::try_from(high).unwrap_or(u16::MAX)))
}

/// Draws lines in two columns where the area is wide, else in one; returns the height that all would take.
pub fn draw_columns(painter: &mut Painter<'_>, area: Rect, lines: &[Line]) -> u16 {
    let Some((at, high)) = parting(painter, area.width, lines) else {
        let height = draw_lines(painter, area, lines, 0);
        return u16::try_from(height).unwrap_or(u16::MAX);
    };
    let half = (area.width - BETWEEN) / 2;
    let left = Rect {
        width: half,
        ..area
    };
    let right = Rect {
        x: area.x + half + BETWEEN,
        width: area.width - half - BETWEEN,
        ..area
    };
    draw_lines(painter, left, &lines[..at], 0);
    draw_lines(painter, right, &lines[at..], 0);
    high
}

/// Draws a panel with what is known of an object. What has no room is counted in the lower border, with the key that shows it;
/// returns how many lines that are.
pub fn draw_panel(
    painter: &mut Painter<'_>,
    area: Rect,
    table: &Description,
    focused: bool,
) -> u16 {
    let inside = focusable(painter, area, &table.title, &table.note, focused);
    let lines = draw_columns(painter, inside, &table.lines);
    let hidden = lines.saturating_sub(inside.height);
    if hidden > 0 {
        let more = text::counted(u64::from(hidden), "more line");
        foot(painter, area, &format!("{more}   . shows all"), Role::Warn);
    }
    hidden
}
