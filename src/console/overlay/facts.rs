//! Every field of an object, over the view.

use ratatui::layout::Rect;

use crate::painter::Painter;
use crate::screen::Screen;
use crate::view::describe::{describe, draw_lines};
use crate::widget::panel::{centred, popup};
use table::navigation::Selection;
use table::role::Role;

use crate::view::scroll::PopupScroll;

pub(super) fn draw(
    screen: &dyn Screen,
    painter: &mut Painter<'_>,
    area: Rect,
    selection: &Selection,
    scroll: &PopupScroll,
) {
    let Some(table) = describe(screen.facts(), selection, painter) else {
        let frame = centred(area, 50, 3);
        let inside = popup(painter, frame, &selection.heading(screen.facts()), "");
        painter.text_in_role(
            inside.x,
            inside.y,
            inside.width,
            "no longer exists",
            Role::Warn,
        );
        return;
    };
    let width = 84.min(area.width);
    let none = Rect::new(0, 0, width.saturating_sub(4), 0);
    let lines = draw_lines(painter, none, &table.lines, 0);
    let height = u16::try_from(lines + 2).unwrap_or(u16::MAX);
    let frame = centred(area, width, height);
    let inside = popup(painter, frame, &table.title, &table.note);
    let height = usize::from(inside.height);
    let skip = scroll.first(lines, height);
    draw_lines(painter, inside, &table.lines, skip);
    if lines > height && frame.height > 0 {
        let y = frame.bottom() - 1;
        painter.text_in_role(frame.x + 3, y, 20, " j k scroll ", Role::Muted);
    }
}
