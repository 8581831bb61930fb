//! Everything known of an object, over the view.

use ratatui::layout::Rect;

use crate::app::App;
use crate::brush::Brush;
use crate::theme::Role;
use crate::view::Picked;
use crate::view::describe::{describe, draw_lines};
use crate::widget::panel::{centred, popup};

pub(super) fn draw(app: &App, brush: &mut Brush<'_>, area: Rect, picked: &Picked, skip: usize) {
    let Some(sheet) = describe(&app.facts, picked, brush) else {
        let frame = centred(area, 50, 3);
        let inside = popup(brush, frame, &picked.heading(&app.facts), "");
        brush.say(inside.x, inside.y, inside.width, "has gone", Role::Warn);
        return;
    };
    let width = 84.min(area.width);
    let none = Rect::new(0, 0, width.saturating_sub(4), 0);
    let lines = draw_lines(brush, none, &sheet.lines, 0);
    let height = u16::try_from(lines + 2).unwrap_or(u16::MAX);
    let frame = centred(area, width, height);
    let inside = popup(brush, frame, &sheet.title, &sheet.note);
    let most = lines.saturating_sub(usize::from(inside.height));
    draw_lines(brush, inside, &sheet.lines, skip.min(most));
    if most > 0 && frame.height > 0 {
        let y = frame.bottom() - 1;
        brush.say(frame.x + 3, y, 20, " j k scroll ", Role::Muted);
    }
}
