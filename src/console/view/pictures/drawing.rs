//! How each kind of picture is drawn.

use ratatui::layout::Rect;
use ratatui::style::Style;

use super::{AmountScale, Curve, Drawing, PartKey, SparkLine, Stack, TeamPart, TimeSpan};
use crate::painter::Painter;
use crate::text::dollars_of;
use crate::view::describe::draw_lines;
use crate::view::sparkline_strip::TrackHistory;
use crate::widget::spark::{ChartRange, area_column, axis_ends, chart_of_range, spark};
use crate::widget::team_letters::letter;
use model::base::Moment;
use table::Facts;
use table::role::Role;

/// Most cells of a name before its bar.
const NAME: u16 = 28;
/// Least cells of a line of a track beside its name and its words.
const LEAST_SPARK: u16 = 22;
/// Cells between the labels of an axis of time.
const TICK: usize = 20;

pub(super) fn draw(facts: &Facts, painter: &mut Painter<'_>, area: Rect, drawing: &Drawing) {
    if area.height == 0 || area.width < 8 {
        return;
    }
    match drawing {
        Drawing::Curve(curve) => draw_curve(facts, painter, area, curve),
        Drawing::Sparks(rows) => draw_sparks(facts, painter, area, rows),
        Drawing::Text(lines) => {
            let skipped = lines.len().saturating_sub(usize::from(area.height));
            for (y, line) in (area.y..).zip(&lines[skipped..]) {
                painter.text_in_role(area.x, y, area.width, line, Role::Text);
            }
        }
        Drawing::Lines(lines) => {
            draw_lines(painter, area, lines, 0);
        }
        Drawing::Columns(values, ends) => {
            let body = axis_ends(painter, area, ends);
            draw_columns(painter, body, values);
        }
        Drawing::Stack(stack) => draw_stack(painter, area, stack),
        Drawing::Scales(rows) => {
            for (row, y) in rows.iter().zip((area.y..area.bottom()).step_by(3)) {
                let height = 3.min(area.bottom() - y);
                draw_scale(painter, Rect { y, height, ..area }, row);
            }
            // Beside the name of the last one.
            let shown = usize::from(area.height.div_ceil(3));
            if shown < rows.len() {
                let y = area.y + 3 * (shown as u16 - 1);
                let words = format!("and {} more", rows.len() - shown);
                let muted = painter.render_style.fg(Role::Muted);
                painter.text_right(area.right(), y, area.width / 3, &words, muted);
            }
        }
        Drawing::Times(rows, end) => draw_times(facts, painter, area, rows, *end),
        Drawing::Parts(rows, legend) => {
            let keys = (legend.len().div_ceil(3) as u16).min(area.height - 1);
            let body = area.height.saturating_sub(keys).max(1);
            let (name, wide, each) = part_cells(rows);
            // In as many columns as the rows need; the last place is for how many have none.
            let places = usize::from(area.width / each.max(1)) * usize::from(body);
            let shown = if rows.len() > places {
                places.saturating_sub(1)
            } else {
                rows.len()
            };
            let place = |at: usize| {
                let (column, line) = (at as u16 / body, at as u16 % body);
                (area.x + each * column, area.y + line)
            };
            for (at, (label, parts)) in rows.iter().take(shown).enumerate() {
                let (x, y) = place(at);
                painter.text_in_role(x, y, name, label, Role::Muted);
                for (part, own) in parts.iter().enumerate() {
                    let x = x + name + 1 + wide * part as u16;
                    draw_part(painter, x, y, *own, wide.min(2), true);
                }
            }
            if shown < rows.len() {
                let (x, y) = place(shown);
                draw_more(painter, x, y, each, rows.len() - shown);
            }
            let third = area.width / 3;
            let room = third.saturating_sub(4);
            let in_full = |key: &PartKey| format!("{}{}", key.words, key.sizes);
            // The sizes of all, or of none.
            let has_room = legend
                .iter()
                .all(|key| painter.width(&in_full(key)) <= room);
            for (at, key) in legend.iter().take(3 * usize::from(keys)).enumerate() {
                let x = area.x + third * (at as u16 % 3);
                let y = area.bottom() - keys + at as u16 / 3;
                draw_part(painter, x, y, key.part, 2, true);
                let words = match has_room {
                    true => in_full(key),
                    false => key.words.clone(),
                };
                painter.text_in_role(x + 3, y, room, &words, Role::Text);
            }
        }
    }
}

/// A line for each track. Where they are too many for the height, they stand in columns; what has no room is counted.
fn draw_sparks(facts: &Facts, painter: &mut Painter<'_>, area: Rect, rows: &[SparkLine]) {
    let names = rows.iter().map(|(name, ..)| painter.width(name)).max();
    let words = rows.iter().map(|(.., words)| painter.width(words)).max();
    let (name, words) = (names.unwrap_or(0).min(NAME), words.unwrap_or(0));
    // The last line is the axis of time.
    let lines = usize::from(area.height).saturating_sub(1).max(1);
    let most = usize::from(area.width / (name + words + LEAST_SPARK)).max(1);
    let (columns, shown) = spark_columns(rows.len(), lines, most);
    let each = area.width / columns as u16;
    for (column, own) in rows[..shown].chunks(lines).enumerate() {
        let x = area.x + each * column as u16;
        let right = x + each - if column + 1 < columns { 2 } else { 0 };
        let room = (right - x).saturating_sub(name + words + 2);
        let mut axis = None;
        for (y, (label, track, most, now)) in (area.y..).zip(own) {
            painter.text_in_role(x, y, name, label, Role::Muted);
            painter.text_right(right, y, words, now, painter.render_style.fg(Role::Text));
            let Some(past) = TrackHistory::of(facts, track, room) else {
                continue;
            };
            let past = past.stretched(room);
            let share = |value: &Option<f32>| Some((*value)? / most.max(f32::MIN_POSITIVE));
            let values: Vec<Option<f32>> = past.values.iter().map(share).collect();
            spark(painter, x + name + 1, y, &values, false);
            axis = Some(past);
        }
        if let Some(past) = axis {
            let y = (area.bottom() - 1).min(area.y + lines.min(rows.len()) as u16);
            past.clocks(painter, Rect::new(x + name + 1, y, room, 1));
        }
    }
    if shown < rows.len() {
        let x = area.x + each * (columns as u16 - 1);
        let y = area.y + lines as u16 - 1;
        draw_more(painter, x, y, each, rows.len() - shown);
    }
}

/// In how many columns so many lines stand, and how many of them have room: the last place is for how many have none.
fn spark_columns(rows: usize, lines: usize, most: usize) -> (usize, usize) {
    let columns = rows.div_ceil(lines).clamp(1, most);
    let shown = match rows > columns * lines {
        true => columns * lines - 1,
        false => rows,
    };
    (columns, shown)
}

/// How many more there are than have room.
fn draw_more(painter: &mut Painter<'_>, x: u16, y: u16, width: u16, more: usize) {
    painter.text_in_role(x, y, width, &format!("and {more} more"), Role::Muted);
}

/// Cells of the name, of each part, and of a row of parts: of many rows each part is one cell.
fn part_cells(rows: &[(String, Vec<TeamPart>)]) -> (u16, u16, u16) {
    let names = rows.iter().map(|row| row.0.chars().count()).max();
    let name = (names.unwrap_or(0) as u16).min(NAME);
    let wide = if rows.len() > 16 { 1 } else { 3 };
    let most = rows.iter().map(|row| row.1.len()).max().unwrap_or(1);
    (name, wide, name + 3 + wide * most as u16)
}

/// Lines that all rows of parts take in this width.
pub(super) fn part_lines(rows: &[(String, Vec<TeamPart>)], width: u16) -> usize {
    let (.., each) = part_cells(rows);
    let columns = usize::from(width.saturating_sub(4) / each.max(1)).max(1);
    rows.len().div_ceil(columns)
}

fn draw_curve(facts: &Facts, painter: &mut Painter<'_>, area: Rect, curve: &Curve) {
    // The labels of the range take a few cells.
    let past = TrackHistory::of(facts, &curve.track, area.width.saturating_sub(9));
    let Some(past) = past.filter(|past| past.values.iter().flatten().count() > 1) else {
        let words = "no readings yet: a curve needs two";
        painter.text_in_role(area.x, area.y, area.width, words, Role::Muted);
        return;
    };
    let mut past = past;
    if let (Some(last), Some(now)) = (past.values.last_mut(), curve.now) {
        *last = Some(now);
    }
    let past = past.stretched(area.width.saturating_sub(9));
    let amount = |value: &Option<f32>| Some((*value)? * curve.scale);
    let values: Vec<Option<f32>> = past.values.iter().map(amount).collect();
    let height = area.height.saturating_sub(1).max(1);
    let range = ChartRange {
        role: curve.role,
        words: &curve.words,
        limit: curve.limit,
    };
    let body = chart_of_range(painter, Rect { height, ..area }, &values, &range);
    if area.height > 1 {
        let y = area.bottom() - 1;
        past.clocks(
            painter,
            Rect {
                y,
                height: 1,
                ..body
            },
        );
    }
}

fn draw_columns(painter: &mut Painter<'_>, area: Rect, values: &[(f64, Role)]) {
    // Wide columns of few devices, one cell each of many; of more than there are cells each column is the lowest of several.
    let count = values.len().max(1);
    let width = usize::from(area.width);
    let each = count.div_ceil(width.max(1));
    let shown = count.div_ceil(each);
    let faint = painter.render_style.fg(Role::Border);
    for (at, several) in values.chunks(each).enumerate() {
        let Some((share, role)) = several.first() else {
            continue;
        };
        let eighths = 1.0 + share.clamp(0.0, 1.0) * (f64::from(area.height) * 8.0 - 1.0);
        let high = eighths.round() as u16;
        let style = painter.render_style.fg(*role);
        let (from, to) = (at * width / shown, (at + 1) * width / shown);
        let gap = usize::from(to - from > 2);
        for cell in from..to - gap {
            area_column(
                painter,
                area,
                area.x + cell as u16,
                high,
                (
                    style,
                    match role {
                        Role::Crit => style,
                        _ => faint,
                    },
                ),
            );
        }
    }
}

fn draw_stack(painter: &mut Painter<'_>, area: Rect, stack: &Stack) {
    let sums = stack
        .days
        .iter()
        .filter_map(|day| Some(day.1.as_ref()?.iter().sum::<f64>()));
    let most = sums.chain(stack.limit).fold(0.0, f64::max);
    // The legend is at the right: a line for each team.
    let names = stack.teams.iter().map(|team| painter.width(&team.1)).max();
    let sums = stack.teams.iter().map(|team| painter.width(&team.2)).max();
    let (name, sum) = (names.unwrap_or(0), sums.unwrap_or(0));
    let legend = match stack.teams.len() {
        0 | 1 => 0,
        _ => (name + sum + 7).min(area.width / 3),
    };
    let top = dollars_of(most);
    let axis = painter.width(&top) + 1;
    let room = area.width.saturating_sub(legend + axis);
    let height = area.height.saturating_sub(1);
    let count = stack.days.len().max(1) as u16;
    let wide = (room / count).min(6);
    if wide == 0 || height == 0 || most <= 0.0 {
        return;
    }
    let muted = painter.render_style.fg(Role::Muted);
    painter.text_right(area.x + axis - 1, area.y, axis, &top, muted);
    let accent = painter.render_style.fg(Role::Text);
    let row = |amount: f64| (amount / most * f64::from(height)).round() as u16;
    if let Some(limit) = stack.limit {
        let y = area.y + height - row(limit).clamp(1, height);
        let style = painter.render_style.bold(Role::Title);
        for x in area.x + axis..area.x + axis + wide * count {
            painter.sign(x, y, "─", style);
        }
    }
    for (at, (label, parts)) in stack.days.iter().enumerate() {
        let x = area.x + axis + wide * at as u16;
        let cells = wide - u16::from(wide > 1);
        match parts {
            None => {
                let faint = painter.render_style.fg(Role::Faint);
                painter.sign(x, area.y + height - 1, "·", faint);
            }
            // What has one part needs no colors, and has its exact height.
            Some(parts) if legend == 0 => {
                let share = parts.iter().sum::<f64>() / most;
                let eighths = (share * f64::from(height) * 8.0).round().max(1.0) as u16;
                let faint = painter.render_style.fg(Role::Border);
                for cell in x..x + cells {
                    area_column(
                        painter,
                        Rect { height, ..area },
                        cell,
                        eighths,
                        (accent, faint),
                    );
                }
            }
            Some(parts) => {
                let mut sum = 0.0;
                for ((team, ..), part) in stack.teams.iter().zip(parts) {
                    let from = row(sum);
                    sum += part;
                    let to = row(sum).min(height);
                    for line in from..to {
                        let y = area.y + height - 1 - line;
                        // The uppermost line of each has its letter.
                        let is_named = line + 1 == to;
                        draw_part(painter, x, y, *team, cells, is_named);
                    }
                }
            }
        }
        if at % (5 / wide.min(5)).max(1) as usize == 0 {
            painter.text_in_role(x, area.y + height, wide.max(4), label, Role::Muted);
        }
    }
    let x = area.right().saturating_sub(legend) + 1;
    let named = stack.teams.iter().filter(|_| legend > 0);
    for (at, (part, team, sum)) in named.enumerate() {
        let y = area.y + at as u16;
        if y >= area.bottom() {
            break;
        }
        draw_part(painter, x, y, *part, 2, true);
        painter.text_in_role(x + 3, y, name, team, Role::Text);
        let room = legend.saturating_sub(name + 5);
        painter.text_right(area.right(), y, room, sum, muted);
    }
}

fn draw_scale(painter: &mut Painter<'_>, area: Rect, scale: &AmountScale) {
    painter.text_in_role(area.x, area.y, area.width, &scale.name, Role::Title);
    let used = scale.own + scale.borrowed;
    let whole = (used + scale.free)
        .max(used + scale.asked)
        .max(f64::MIN_POSITIVE);
    let cells = |amount: f64| (amount / whole * f64::from(area.width)).round() as u16;
    let ends = [
        (scale.own, "█", "#", Role::Text),
        (used, "▓", "+", Role::Info),
        // What it asks for lies over what is free, and beyond it.
        (used + scale.asked.min(scale.free), "▒", "a", Role::Ok),
        (used + scale.asked, "▚", "A", Role::Warn),
        (used + scale.free, "░", ".", Role::Faint),
    ];
    let mut x = 0;
    for (end, sign, ascii, role) in ends {
        let end = cells(end).min(area.width);
        let sign = if painter.render_style.ascii {
            ascii
        } else {
            sign
        };
        let style = painter.render_style.fg(role);
        while x < end && area.height > 1 {
            painter.sign(area.x + x, area.y + 1, sign, style);
            x += 1;
        }
    }
    if area.height > 2 {
        painter.text_in_role(area.x, area.y + 2, area.width, &scale.words, Role::Muted);
    }
}

fn draw_times(
    facts: &Facts,
    painter: &mut Painter<'_>,
    area: Rect,
    rows: &[TimeSpan],
    end: Moment,
) {
    let names = rows.iter().map(|row| painter.width(&row.name)).max();
    let words = rows.iter().map(|row| painter.width(&row.words)).max();
    let (name, words) = (
        names.unwrap_or(0).min(NAME),
        words.unwrap_or(0).min(area.width / 2),
    );
    let room = area.width.saturating_sub(name + words + 2).max(1);
    let span = end.since(facts.now).millis().max(1) as f64;
    let cell = |at: Moment| {
        let share = at.since(facts.now).millis() as f64 / span;
        ((share * f64::from(room - 1)).round() as u16).min(room - 1)
    };
    let x = area.x + name + 1;
    let (line, dot) = match painter.render_style.ascii {
        true => ("-", "o"),
        false => ("─", "●"),
    };
    // The last line is the axis of time, the one before it for how many have no room.
    let lines = usize::from(area.height - 1);
    let shown = match rows.len() > lines {
        true => lines.saturating_sub(1),
        false => rows.len(),
    };
    if shown < rows.len() {
        let y = area.y + shown as u16;
        draw_more(painter, area.x, y, area.width, rows.len() - shown);
    }
    for (y, row) in (area.y..).zip(&rows[..shown]) {
        painter.text_in_role(area.x, y, name, &row.name, Role::Title);
        let [from, expected, to] = row.times.map(cell);
        let style = painter.render_style.fg(row.role);
        for at in from..=to {
            painter.sign(x + at, y, line, style);
        }
        painter.sign(x + expected, y, dot, style);
        painter.text_in_role(area.right() - words, y, words, &row.words, Role::Text);
    }
    let y = (area.bottom() - 1).min(area.y + rows.len() as u16);
    for tick in (0..usize::from(room)).step_by(TICK) {
        let share = tick as f64 / f64::from(room.max(2) - 1);
        let at = facts
            .now
            .plus(std::time::Duration::from_millis((share * span) as u64));
        let words = match tick {
            0 => String::from("now"),
            _ => format!("+{}", at.since(facts.now)),
        };
        let left = usize::from(room) - tick;
        if left < 8 {
            break;
        }
        painter.text_in_role(
            x + tick as u16,
            y,
            left.min(TICK - 1) as u16,
            &words,
            Role::Muted,
        );
    }
}

/// A part of a device or a sum: the team's letter in the team's color. Where color tells teams apart, only what is `named` has it.
fn draw_part(painter: &mut Painter<'_>, x: u16, y: u16, part: TeamPart, wide: u16, named: bool) {
    let sign;
    let (first, rest, style) = match part {
        TeamPart::Free => ("·", "·", painter.render_style.fg(Role::Muted)),
        TeamPart::Unusable => ("/", "/", painter.render_style.fg(Role::Muted)),
        TeamPart::Fault => ("×", "×", painter.render_style.bold(Role::Crit)),
        TeamPart::Unknown => ("?", "?", painter.render_style.fg(Role::Muted)),
        TeamPart::Several => ("+", "+", painter.render_style.fg(Role::Text)),
        TeamPart::Team(_) | TeamPart::Others | TeamPart::NoTeam => {
            let muted = painter.render_style.fill(Role::Muted, false);
            let ground;
            (sign, ground) = match part {
                TeamPart::Team(at) => (letter(at).to_string(), painter.render_style.team(at)),
                TeamPart::Others => (String::from("&"), muted),
                _ => (String::from("_"), muted),
            };
            match painter.render_style.half_blocks() {
                true if named => {
                    let ink = painter.render_style.fill(Role::Background, false);
                    painter.sign(x, y, &sign, Style::new().bg(ground).fg(ink));
                    ("", "█", Style::new().fg(ground))
                }
                true => ("█", "█", Style::new().fg(ground)),
                false => (sign.as_str(), sign.as_str(), Style::new().fg(ground)),
            }
        }
    };
    for at in 0..wide {
        let sign = if at == 0 { first } else { rest };
        if !sign.is_empty() {
            painter.sign(x + at, y, sign, style);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_devices_stand_in_columns_and_those_without_room_are_counted() {
        assert_eq!(spark_columns(8, 9, 3), (1, 8));
        assert_eq!(spark_columns(8, 4, 3), (2, 8));
        assert_eq!(spark_columns(8, 3, 2), (2, 5), "and 3 more");
        assert_eq!(spark_columns(8, 3, 1), (1, 2), "and 6 more");
        assert_eq!(spark_columns(8, 1, 1), (1, 0));
    }
}
