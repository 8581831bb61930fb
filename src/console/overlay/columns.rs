//! The column list: which columns are shown.

use ratatui::layout::Rect;

use crate::commands::Command;
use crate::painter::Painter;
use crate::screen::Screen;
use crate::widget::panel::{centred, popup};
use table::role::Role;

use super::verdict::Verdict;

pub(super) fn key(at: &mut usize, command: Option<Command>, screen: &dyn Screen) -> Verdict {
    let count = screen
        .view()
        .table()
        .map_or(0, |table| table.columns().len());
    match command {
        Some(Command::Up) => *at = at.saturating_sub(1),
        Some(Command::Down) => *at = (*at + 1).min(count.saturating_sub(1)),
        Some(Command::Toggle) => return Verdict::Column(*at),
        Some(Command::Close) => return Verdict::Close,
        _ => {}
    }
    Verdict::Stay
}

pub(super) fn draw(screen: &dyn Screen, painter: &mut Painter<'_>, area: Rect, at: usize) {
    let Some(table) = screen.view().table() else {
        return;
    };
    let (columns, shown) = (table.table_model.kind.columns, table.columns());
    let rows = u16::try_from(columns.len()).unwrap_or(u16::MAX);
    let frame = centred(area, 44, rows.saturating_add(2));
    let inside = popup(painter, frame, "columns", "space shows or hides");
    let height = usize::from(inside.height);
    let first = (at + 1).saturating_sub(height.max(1));
    let lines = columns.iter().zip(&shown).enumerate();
    for (line, (column, shown)) in lines.skip(first).take(height) {
        let y = inside.y + (line - first) as u16;
        if line == at {
            let ground = Rect::new(inside.x, y, inside.width, 1);
            painter.background(ground, Role::Selection);
            painter.sign(inside.x, y, "▌", painter.render_style.fg(Role::Accent));
        }
        let (sign, role) = if *shown {
            ("■", Role::Accent)
        } else {
            ("·", Role::Muted)
        };
        painter.text_in_role(inside.x + 2, y, 1, sign, role);
        let room = inside.width.saturating_sub(18);
        painter.text_in_role(inside.x + 4, y, room, column.head.title, Role::Text);
        let muted = painter.render_style.fg(Role::Muted);
        painter.text_right(inside.right(), y, 12, column.id, muted);
    }
}
