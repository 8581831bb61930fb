//! The filter line at the foot of the screen.

use ratatui::layout::{Position, Rect};

use crate::console::app::App;
use crate::console::brush::Brush;
use crate::console::theme::Role;
use crate::console::widget::field::Field;

pub(super) fn draw(
    app: &App,
    brush: &mut Brush<'_>,
    area: Rect,
    field: &Field,
    wrong: Option<&str>,
) -> Position {
    let y = area.bottom().saturating_sub(1);
    brush.clear(Rect::new(area.x, y, area.width, 1), Role::Panel);
    brush.say(area.x + 1, y, 1, "/", Role::Accent);
    let (shown, total) = app.view().counts();
    let (note, role) = match wrong {
        Some(wrong) => (wrong.to_owned(), Role::Crit),
        None => (format!("{shown} of {total}"), Role::Muted),
    };
    let note_room = area.width.saturating_sub(3) / 2;
    let style = brush.ink.fg(role);
    let used = brush.right(area.right().saturating_sub(1), y, note_room, &note, style);
    let room = area.width.saturating_sub(5 + used);
    field.draw(brush, area.x + 3, y, room)
}
