//! A table: columns with a width policy and a priority; columns that do not fit are dropped. Numbers are never cut.

use ratatui::layout::Rect;

use model::base::SmallSort;

use crate::painter::Painter;
use crate::text;
use table::cell::{Cell, Value};
use table::column::{Align, ColumnHead, Width};
use table::role::Role;

use super::bar::{bar, bar_role};
use super::cell::words;
use super::spark::spark;

/// Width of the number beside a graphic, cells: ` 100%`.
const BESIDE: u16 = 5;
/// Cells that each text gets before sentences get any more.
const LITTLE: u16 = 8;
/// The bar at the left edge.
const EDGE: u16 = 2;

/// Options for drawing a table.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TableLook {
    /// The selected row within the window.
    pub selected: Option<usize>,
    /// The sorted column, and whether it falls.
    pub sorted: Option<(usize, bool)>,
    /// The order is no longer that of the values.
    pub unsettled: bool,
    /// The marked rows within the window, in order.
    pub marked: Vec<usize>,
    /// Titles from the facts, by column, in place of the columns' own.
    pub titles: Vec<(usize, String)>,
}

impl TableLook {
    fn title<'a>(&'a self, column: usize, head: &'a ColumnHead) -> &'a str {
        let given = self.titles.iter().find(|(known, _)| *known == column);
        given.map_or(head.title, |(_, title)| title.as_str())
    }
}

/// Draws header and rows. `widest` has for each column the widest text outside the window, so that columns keep their place
/// while scrolling; it may be shorter than `heads`. Returns the columns that fit.
pub fn table(
    painter: &mut Painter<'_>,
    area: Rect,
    heads: &[ColumnHead],
    widest: &[u16],
    rows: &[Vec<Cell<'_>>],
    look: &TableLook,
) -> Vec<usize> {
    if area.width <= EDGE + 1 || area.height == 0 {
        return Vec::new();
    }
    let (texts, layout) = measured(painter, area.width, heads, widest, rows, look);
    for slot in &layout {
        header(painter, area, &heads[slot.column], slot, look);
    }
    for (line, (row, words)) in rows.iter().zip(&texts).enumerate() {
        let y = area.y + 1 + line as u16;
        if y >= area.bottom() {
            break;
        }
        if look.selected == Some(line) {
            painter.background(Rect::new(area.x, y, area.width, 1), Role::Selection);
            painter.sign(area.x, y, "▌", painter.render_style.fg(Role::Accent));
        }
        if look.marked.binary_search(&line).is_ok() {
            painter.sign(area.x + 1, y, "■", painter.render_style.fg(Role::Mark));
        }
        for slot in &layout {
            if let (Some(cell), Some(words)) = (row.get(slot.column), words.get(slot.column)) {
                paint(
                    painter,
                    area.x + EDGE + slot.x,
                    y,
                    slot.width,
                    &heads[slot.column],
                    cell,
                    words,
                );
            }
        }
        if look.selected == Some(line) {
            painter.uncolor(Rect::new(area.x, y, area.width, 1));
        }
    }
    layout.iter().map(|slot| slot.column).collect()
}

/// The columns that fit into this width.
pub fn fitting(
    painter: &mut Painter<'_>,
    width: u16,
    heads: &[ColumnHead],
    widest: &[u16],
    rows: &[Vec<Cell<'_>>],
    look: &TableLook,
) -> Vec<usize> {
    let (_, layout) = measured(painter, width, heads, widest, rows, look);
    layout.iter().map(|slot| slot.column).collect()
}

/// The text of each cell, and the columns that fit.
fn measured(
    painter: &mut Painter<'_>,
    width: u16,
    heads: &[ColumnHead],
    widest: &[u16],
    rows: &[Vec<Cell<'_>>],
    look: &TableLook,
) -> (Vec<Vec<String>>, Vec<Slot>) {
    let texts = texts(painter, rows);
    let mut needs = needs(painter, heads, widest, &texts);
    for (column, title) in &look.titles {
        needs[*column] = needs[*column].max(painter.width(title));
    }
    let layout = slots(painter, heads, &needs, width);
    (texts, layout)
}

/// The text of each cell, row by row.
fn texts(painter: &mut Painter<'_>, rows: &[Vec<Cell<'_>>]) -> Vec<Vec<String>> {
    rows.iter()
        .map(|row| row.iter().map(|cell| shown(painter, cell)).collect())
        .collect()
}

/// Cells that each column would take with nothing cut.
fn needs(
    painter: &Painter<'_>,
    heads: &[ColumnHead],
    widest: &[u16],
    texts: &[Vec<String>],
) -> Vec<u16> {
    (0..heads.len())
        .map(|at| {
            let visible = texts.iter().filter_map(|words| words.get(at));
            let visible = visible.map(|words| painter.width(words));
            let beyond = widest.get(at).copied().unwrap_or(0);
            visible.max().unwrap_or(0).max(beyond)
        })
        .collect()
}

/// The columns that a table of this width shows.
fn slots(painter: &Painter<'_>, heads: &[ColumnHead], needs: &[u16], width: u16) -> Vec<Slot> {
    let gap = if width < 100 { 1 } else { 2 };
    // One cell stays free at the right.
    let room = width.saturating_sub(EDGE + 1);
    lay_out(painter, heads, needs, room, gap)
}

/// Rows whose long text wraps onto further lines.
pub struct Wrapped<'a> {
    /// The lines of each row, the first with every cell.
    pub rows: Vec<Vec<Vec<Cell<'a>>>>,
    /// What each column needs with nothing cut: handed to `table`, it keeps the columns as they were measured.
    pub widest: Vec<u16>,
}

/// Wraps the text of these columns where a table of this width would cut it.
pub fn wrapped<'a>(
    painter: &mut Painter<'_>,
    width: u16,
    heads: &[ColumnHead],
    rows: Vec<Vec<Cell<'a>>>,
    columns: &[usize],
) -> Wrapped<'a> {
    let texts = texts(painter, &rows);
    let widest = needs(painter, heads, &[], &texts);
    let slots = slots(painter, heads, &widest, width);
    let breaks = |words: &[String]| -> Vec<(usize, Vec<String>)> {
        let slots = slots.iter().filter(|slot| columns.contains(&slot.column));
        slots
            .filter_map(|slot| {
                let words = words.get(slot.column)?;
                let parts = text::wrap(words, usize::from(slot.width.max(1)));
                (parts.len() > 1).then_some((slot.column, parts))
            })
            .collect()
    };
    let rows = rows.into_iter().zip(&texts).map(|(mut row, words)| {
        let broken = breaks(words);
        let roles: Vec<Role> = row.iter().map(|cell| cell.role).collect();
        let part = |column: usize, words: &str| Cell::text(words.to_owned()).role(roles[column]);
        for (column, parts) in &broken {
            row[*column] = part(*column, &parts[0]);
        }
        let high = broken.iter().map(|(_, parts)| parts.len()).max();
        let below = (1..high.unwrap_or(1)).map(|line| {
            let mut cells: Vec<Cell<'a>> = roles.iter().map(|_| Cell::new(Value::Empty)).collect();
            for (column, parts) in &broken {
                if let Some(words) = parts.get(line) {
                    cells[*column] = part(*column, words);
                }
            }
            cells
        });
        let below: Vec<_> = below.collect();
        std::iter::once(row).chain(below).collect()
    });
    let rows = rows.collect();
    Wrapped { rows, widest }
}

/// The first lines of a row; the last one is followed by all remaining text, so that the cut is visible.
pub fn first_lines<'a>(mut lines: Vec<Vec<Cell<'a>>>, high: usize) -> Vec<Vec<Cell<'a>>> {
    let rest = lines.split_off(high.clamp(1, lines.len().max(1)).min(lines.len()));
    let Some(last) = lines.last_mut() else {
        return lines;
    };
    for line in rest {
        for (cell, more) in last.iter_mut().zip(line) {
            if let Some((_, more)) = more.value.words() {
                let words = cell.value.words().map_or("", |(_, words)| words);
                *cell = Cell::text(format!("{words} {more}")).role(cell.role);
            }
        }
    }
    lines
}

fn shown(painter: &mut Painter<'_>, cell: &Cell<'_>) -> String {
    let words = words(cell, painter);
    let mut out = String::with_capacity(words.len() + 4);
    if let Some((sign, _)) = cell.sign {
        out.push_str(sign);
        out.push(' ');
    }
    out.push_str(&words);
    if !cell.mark.is_empty() {
        out.push_str(cell.mark);
    }
    out
}

struct Slot {
    column: usize,
    x: u16,
    width: u16,
}

/// Which columns are shown, where and how wide.
fn lay_out(
    painter: &Painter<'_>,
    heads: &[ColumnHead],
    needs: &[u16],
    room: u16,
    gap: u16,
) -> Vec<Slot> {
    let span = |at: usize| -> (u16, u16) {
        let title = painter.width(heads[at].title);
        match heads[at].width {
            Width::Fit(least) => {
                let width = needs[at].max(title).max(least);
                (width, width)
            }
            Width::Cut(least, most) => {
                let most = needs[at].clamp(title.min(most), most.max(title));
                (least.max(title).min(most.max(title)), most.max(title))
            }
            Width::Graphic(least, most) => {
                ((least + BESIDE).max(title), (most + BESIDE).max(title))
            }
        }
    };
    let mut kept: Vec<usize> = (0..heads.len()).collect();
    let least = |kept: &[usize]| -> u16 {
        let widths: u16 = kept
            .iter()
            .map(|at| span(*at).0)
            .fold(0, u16::saturating_add);
        widths.saturating_add(gap * (kept.len().saturating_sub(1)) as u16)
    };
    while kept.len() > 1 && least(&kept) > room {
        let goes = kept
            .iter()
            .enumerate()
            .filter(|(_, at)| heads[**at].drop > 0)
            .max_by_key(|(place, at)| (heads[**at].drop, *place))
            .map(|(place, _)| place);
        match goes {
            Some(place) => {
                kept.remove(place);
            }
            None => {
                kept.pop();
            }
        }
    }
    // What went before a wide column comes back where that left it room.
    let mut gone: Vec<usize> = (0..heads.len()).filter(|at| !kept.contains(at)).collect();
    gone.small_sort_by_key(|at| heads[*at].drop);
    for at in gone {
        let place = kept.partition_point(|known| *known < at);
        kept.insert(place, at);
        if least(&kept) > room {
            kept.remove(place);
        }
    }
    let mut spare = room.saturating_sub(least(&kept));
    let mut widths: Vec<u16> = kept.iter().map(|at| span(*at).0).collect();
    // Names first: a whole name is worth more than anything else. Then short words that lack little, so that none is cut
    // for a long sentence; sentences share what is left. Graphics come last.
    let lacks = |place: usize| span(kept[place]).1 - span(kept[place]).0;
    let tier = |place: usize| {
        let head = &heads[kept[place]];
        match head.width {
            Width::Graphic(..) => 3,
            _ if head.drop == 0 => 0,
            _ if lacks(place) <= LITTLE => 1,
            _ => 2,
        }
    };
    let mut order: Vec<usize> = (0..kept.len()).collect();
    order.small_sort_by_key(|place| match tier(*place) {
        // The most important first; where all share, who needs least.
        tier @ (0 | 1) => (tier, u16::from(heads[kept[*place]].drop)),
        tier => (tier, lacks(*place)),
    });
    for (at, place) in order.iter().enumerate() {
        let fair = match tier(*place) {
            0 | 1 => spare,
            tier_here => {
                let peers = order[at..].iter().filter(|peer| tier(**peer) == tier_here);
                spare / u16::try_from(peers.count().max(1)).unwrap_or(1)
            }
        };
        let more = lacks(*place).min(fair);
        widths[*place] += more;
        spare -= more;
    }
    let mut x = 0;
    let mut slots = Vec::with_capacity(kept.len());
    for (place, column) in kept.into_iter().enumerate() {
        let width = widths[place].min(room.saturating_sub(x));
        slots.push(Slot { column, x, width });
        x += widths[place] + gap;
    }
    slots
}

fn header(painter: &mut Painter<'_>, area: Rect, head: &ColumnHead, slot: &Slot, look: &TableLook) {
    let arrow = match look.sorted {
        Some((column, falls)) if column == slot.column => match (falls, look.unsettled) {
            (true, false) => "↓",
            (false, false) => "↑",
            (true, true) | (false, true) => "~",
        },
        _ => "",
    };
    let x = area.x + EDGE + slot.x;
    let style = if arrow.is_empty() {
        painter.render_style.fg(Role::Muted)
    } else {
        painter.render_style.fg(Role::Accent)
    };
    let title = look.title(slot.column, head);
    let width = painter.width(title);
    let start = match head.align {
        Align::Left => x,
        Align::Right => x + slot.width.saturating_sub(width),
    };
    painter.text(start, area.y, slot.width, title, style);
    // The arrow is drawn in the gap beside the title, so that no column becomes wider.
    if !arrow.is_empty() {
        let beside = match head.align {
            Align::Left => start + width.min(slot.width),
            Align::Right => start.saturating_sub(1),
        };
        painter.sign(beside, area.y, arrow, style);
    }
}

fn paint(
    painter: &mut Painter<'_>,
    x: u16,
    y: u16,
    width: u16,
    head: &ColumnHead,
    cell: &Cell<'_>,
    words: &str,
) {
    let role = match (&cell.value, cell.stale) {
        (Value::Unknown, _) | (_, true) => Role::Muted,
        _ => cell.role,
    };
    let style = painter.render_style.fg(role);
    let graphic = width.saturating_sub(BESIDE);
    match &cell.value {
        Value::Bar(ratio) if graphic > 0 => {
            bar(painter, x, y, graphic, *ratio, bar_role(cell.stale));
            painter.text_right(x + width, y, BESIDE, words, style);
        }
        Value::Trend(values, last) if graphic > 0 => {
            let skip = values.len().saturating_sub(usize::from(graphic));
            match last {
                // Without an earlier value only the present one is shown.
                Some(ratio) if values.iter().all(Option::is_none) => {
                    bar(painter, x, y, graphic, *ratio, bar_role(cell.stale));
                }
                _ => spark(painter, x, y, &values[skip..], cell.stale),
            }
            painter.text_right(x + width, y, BESIDE, words, style);
        }
        Value::Quota(quota) => {
            let numbers = quota.numbers();
            super::quota::bar(painter, x, y, quota);
            painter.text_right(x + width, y, painter.width(&numbers), &numbers, style);
        }
        _ if head.align == Align::Right => {
            let mut number = words;
            if let Some((sign, role)) = cell.sign {
                // One below the other, whatever the width of the numbers.
                let style = painter.render_style.fg(role);
                painter.text(x, y, width, sign, style);
                number = words.strip_prefix(sign).map_or(words, str::trim_start);
            }
            painter.text_right(x + width, y, width, number, style);
        }
        _ => {
            let mut at = x;
            let mut left = width;
            if let Some((sign, role)) = cell.sign {
                let style = painter.render_style.fg(role);
                let used = painter.text(at, y, left, sign, style) + 1;
                at += used;
                left = left.saturating_sub(used);
            }
            let body = words
                .strip_prefix(cell.sign.map_or("", |(sign, _)| sign))
                .map_or(words, |tail| {
                    if cell.sign.is_some() {
                        // An indented text stays indented.
                        tail.strip_prefix(' ').unwrap_or(tail)
                    } else {
                        tail
                    }
                });
            // A mark says how sure a name is: it stays when the name is cut.
            let mark_width = painter.width(cell.mark);
            let body = body.strip_suffix(cell.mark).unwrap_or(body);
            let clean = text::clean(body, painter.render_style.ascii).into_owned();
            let room = left.saturating_sub(mark_width);
            let shown = match cell.middle {
                true => text::cut_middle(&clean, usize::from(room), painter.render_style.ascii),
                false => clean.into(),
            };
            let used = painter.text(at, y, room, &shown, style);
            if !cell.mark.is_empty() {
                let style = painter.render_style.fg(Role::Muted);
                painter.text(at + used, y, mark_width, cell.mark, style);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::painter::unseen;
    use model::base::Moment;

    #[test]
    fn a_narrow_column_comes_back_when_a_wide_one_has_gone() {
        let head = |width, drop| ColumnHead {
            title: "A",
            align: Align::Left,
            width,
            drop,
        };
        let heads = [
            head(Width::Fit(10), 0),
            head(Width::Fit(4), 5),
            head(Width::Cut(22, 40), 2),
        ];
        let shown = |room| {
            let slots = unseen(Moment::default(), |painter| {
                lay_out(painter, &heads, &[10, 4, 22], room, 1)
            });
            slots.iter().map(|slot| slot.column).collect::<Vec<_>>()
        };
        assert_eq!(shown(38), [0, 1, 2]);
        assert_eq!(shown(37), [0, 2]);
        assert_eq!(shown(20), [0, 1]);
        assert_eq!(shown(14), [0]);
    }
}
