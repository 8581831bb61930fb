//! The copy prompt at the bottom of the screen: the form to copy in.

use ratatui::layout::Rect;

use crate::clipboard::As;
use crate::commands::{Command, Context};
use crate::painter::Painter;
use crate::screen::Screen;
use crate::text::counted;
use table::role::Role;

use super::verdict::Verdict;

pub(super) fn key(command: Option<Command>) -> Verdict {
    match command {
        Some(Command::CopyName) => Verdict::CopyAs(As::Name),
        Some(Command::CopyRow) => Verdict::CopyAs(As::Row),
        Some(Command::CopyKubectl) => Verdict::CopyAs(As::Kubectl),
        Some(Command::CopyMarkdown) => Verdict::CopyAs(As::Markdown),
        Some(Command::Close) => Verdict::Close,
        _ => Verdict::Stay,
    }
}

pub(super) fn draw(screen: &dyn Screen, painter: &mut Painter<'_>, area: Rect) {
    let y = area.bottom().saturating_sub(1);
    painter.clear(Rect::new(area.x, y, area.width, 1), Role::Panel);
    let meant = screen.meant();
    let what = match meant.as_slice() {
        [one] => one.name(),
        many => counted(many.len() as u64, "row"),
    };
    let (accent, muted) = (
        painter.render_style.bold(Role::Accent),
        painter.render_style.fg(Role::Muted),
    );
    let title = painter.render_style.fg(Role::Title);
    let mut x = area.x + 1;
    let hints: Vec<(String, &str)> = screen
        .keys()
        .listed(Context::Copy)
        .filter_map(|(spec, keys)| Some((keys.last()?.to_string(), spec.title)))
        .collect();
    let needed: u16 = hints
        .iter()
        .map(|(key, title)| painter.width(key) + painter.width(title) + 4)
        .sum();
    let room = area.width.saturating_sub(needed + 9);
    x += painter.pieces(x, y, room + 5, &[("copy ", muted), (&what, title)]) + 3;
    for (key, name) in &hints {
        let left = area.right().saturating_sub(x);
        x += painter.pieces(x, y, left, &[(key, accent), (" ", muted), (name, muted)]) + 3;
    }
}
