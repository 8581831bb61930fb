//! Panels and popups: a rounded border with a title and a note.

use ratatui::layout::Rect;

use crate::painter::Painter;
use table::role::Role;

/// Paints the border and returns the area inside. The title is at the left of the border, the note at the right.
pub fn panel(painter: &mut Painter<'_>, area: Rect, title: &str, note: &str) -> Rect {
    framed(painter, area, title, note, Role::Border)
}

/// A panel that may have the focus, which is shown in the accent color.
pub fn focusable(
    painter: &mut Painter<'_>,
    area: Rect,
    title: &str,
    note: &str,
    focused: bool,
) -> Rect {
    let border = if focused { Role::Accent } else { Role::Border };
    framed(painter, area, title, note, border)
}

/// Words in the lower border of a panel; returns the cells used.
pub fn foot(painter: &mut Painter<'_>, area: Rect, words: &str, role: Role) -> u16 {
    if area.height < 3 || words.is_empty() {
        return 0;
    }
    let room = area.width.saturating_sub(6);
    painter.text_in_role(
        area.x + 3,
        area.bottom() - 1,
        room,
        &format!(" {words} "),
        role,
    )
}

/// Empties the area, paints a border in the accent, and returns the area inside.
pub fn popup(painter: &mut Painter<'_>, area: Rect, title: &str, note: &str) -> Rect {
    painter.clear(area, Role::Panel);
    framed(painter, area, title, note, Role::Accent)
}

/// The area above the line of key hints.
pub fn above_hints(area: Rect) -> Rect {
    Rect {
        height: area.height.saturating_sub(1),
        ..area
    }
}

fn framed(painter: &mut Painter<'_>, area: Rect, title: &str, note: &str, border: Role) -> Rect {
    if area.width < 4 || area.height < 2 {
        return Rect::new(area.x, area.y, 0, 0);
    }
    let style = painter.render_style.fg(border);
    let (left, right) = (area.x, area.right() - 1);
    let (top, bottom) = (area.y, area.bottom() - 1);
    for x in left + 1..right {
        painter.sign(x, top, "─", style);
        painter.sign(x, bottom, "─", style);
    }
    for y in top + 1..bottom {
        painter.sign(left, y, "│", style);
        painter.sign(right, y, "│", style);
    }
    for (x, y, corner) in [
        (left, top, "╭"),
        (right, top, "╮"),
        (left, bottom, "╰"),
        (right, bottom, "╯"),
    ] {
        painter.sign(x, y, corner, style);
    }
    let room = area.width.saturating_sub(6);
    let mut used = 0;
    if !title.is_empty() && room > 0 {
        painter.sign(left + 2, top, " ", style);
        used = painter.text_in_role(left + 3, top, room, title, Role::Title);
        painter.sign(left + 3 + used, top, " ", style);
    }
    // Where a note of several parts does not fit, its first parts stay.
    let (mut note, mut note_width) = (note, painter.width(note));
    while used + note_width + 4 > room
        && let Some((first, _)) = note.rsplit_once(" · ")
    {
        (note, note_width) = (first, painter.width(first));
    }
    if !note.is_empty() && used + note_width + 4 <= room {
        let start = right - 2 - note_width;
        painter.sign(start - 1, top, " ", style);
        painter.text_in_role(start, top, note_width, note, Role::Muted);
        painter.sign(right - 2, top, " ", style);
    }
    Rect::new(area.x + 2, area.y + 1, area.width - 4, area.height - 2)
}

/// The width of a popup of sentences: nine tenths of the screen, from `least` up to what is still read in one look.
pub fn wide(screen: u16, least: u16) -> u16 {
    up_to((screen / 10 * 9).clamp(least, 140), screen)
}

/// The width of a popup that needs no more than `most` columns: all of the screen, if fewer than 16 columns would be left beside it.
pub fn up_to(most: u16, screen: u16) -> u16 {
    const LEAST_BESIDE: u16 = 16;
    match screen < most.saturating_add(LEAST_BESIDE) {
        true => screen,
        false => most,
    }
}

/// A rectangle of at most this size in the middle of another.
pub fn centred(area: Rect, width: u16, height: u16) -> Rect {
    let (width, height) = (width.min(area.width), height.min(area.height));
    Rect::new(
        area.x + (area.width - width) / 2,
        area.y + (area.height - height) / 2,
        width,
        height,
    )
}
