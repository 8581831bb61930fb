//! The screen of missing data, with the commands that fix it.

use ratatui::layout::Rect;

use crate::commands::{Command, Context};
use crate::painter::Painter;
use crate::screen::Screen;
use crate::text::{counted, wrap};
use crate::widget::panel::{centred, panel, popup};
use model::fleet::observe::{SourceHealth, SourceState};
use table::role::Role;

use crate::view::scroll::PopupScroll;

/// One line and its indent.
struct Indented(u16, String, Role);

/// Draws it over the view.
pub(super) fn draw(
    screen: &dyn Screen,
    painter: &mut Painter<'_>,
    area: Rect,
    scroll: &PopupScroll,
) {
    let width = 92.min(area.width);
    let lines = lines(screen, usize::from(width.saturating_sub(8)).max(10));
    let hints = u16::from(area.height > 8) * 2;
    let height = u16::try_from(lines.len()).unwrap_or(u16::MAX);
    let frame = centred(area, width, height.saturating_add(2 + hints));
    let inside = popup(painter, frame, title(screen), &screen.facts().context);
    let fits = usize::from(inside.height.saturating_sub(hints));
    let skip = scroll.first(lines.len(), fits);
    draw_lines(painter, inside, &lines, skip, fits);
    if hints > 0 && inside.height > hints {
        draw_hints(screen, painter, inside);
    }
}

/// Draws it in place of an empty view, with the key that opens it.
pub(crate) fn draw_in_place(screen: &dyn Screen, painter: &mut Painter<'_>, area: Rect) {
    let width = 92.min(area.width);
    let mut lines = lines(screen, usize::from(width.saturating_sub(8)).max(10));
    let keys = screen.keys().keys(Context::Global, Command::Missing);
    if let Some(key) = keys.first() {
        lines.push(Indented(0, String::new(), Role::Text));
        let words =
            format!("{key} opens this: try again, choose another context, or open the demo");
        lines.push(Indented(0, words, Role::Muted));
    }
    let height = u16::try_from(lines.len()).unwrap_or(u16::MAX);
    let frame = centred(area, width, height.saturating_add(2));
    painter.clear(area, Role::Background);
    let inside = panel(painter, frame, title(screen), &screen.facts().context);
    draw_lines(painter, inside, &lines, 0, usize::from(inside.height));
}

fn title(screen: &dyn Screen) -> &'static str {
    match screen.missing().first() {
        Some(first) if first.grave => "nothing is visible yet",
        _ => "what is missing",
    }
}

fn draw_lines(
    painter: &mut Painter<'_>,
    inside: Rect,
    lines: &[Indented],
    skip: usize,
    fits: usize,
) {
    for (at, Indented(indent, words, role)) in lines.iter().skip(skip).take(fits).enumerate() {
        let x = inside.x + indent;
        let room = inside.width.saturating_sub(*indent);
        painter.text_in_role(x, inside.y + at as u16, room, words, *role);
    }
}

/// What is missing, why, and how to fix it, wrapped to this width.
fn lines(screen: &dyn Screen, room: usize) -> Vec<Indented> {
    let all = screen.missing();
    let mut lines: Vec<Indented> = Vec::new();
    for missing in &all {
        if !lines.is_empty() {
            lines.push(Indented(0, String::new(), Role::Text));
        }
        let role = if missing.grave {
            Role::Crit
        } else {
            Role::Warn
        };
        lines.push(Indented(0, format!("▲ {}", missing.title), role));
        for words in missing.why.lines().flat_map(|line| wrap(line, room)) {
            lines.push(Indented(2, words, Role::Text));
        }
        for mend in &missing.mends {
            for (nth, words) in wrap(mend, room - 2).into_iter().enumerate() {
                let sign = if nth == 0 { "→ " } else { "  " };
                lines.push(Indented(2, format!("{sign}{words}"), Role::Accent));
            }
        }
    }
    if all.is_empty() {
        let stale =
            |source: &&SourceHealth| source.state == SourceState::Stale && source.has_spoken();
        let stale = screen.facts().fleet.sources.iter().filter(stale).count();
        let (words, role) = match (screen.facts().fleet.is_complete(), stale) {
            (false, _) => (
                "the first lists are still being read".to_owned(),
                Role::Muted,
            ),
            (true, 0) => (
                "nothing is missing: all resources are read, and devices have readings and prices"
                    .to_owned(),
                Role::Ok,
            ),
            (true, stale) => {
                let stale = counted(stale as u64, "source");
                (
                    format!("nothing is missing, but {stale} answered late: press 0"),
                    Role::Warn,
                )
            }
        };
        lines.extend(
            wrap(&words, room)
                .into_iter()
                .map(|words| Indented(0, words, role)),
        );
    }
    lines
}

/// The available keys, the demo first: it always works.
fn draw_hints(screen: &dyn Screen, painter: &mut Painter<'_>, inside: Rect) {
    let (accent, muted) = (
        painter.render_style.bold(Role::Accent),
        painter.render_style.fg(Role::Muted),
    );
    let y = inside.bottom() - 1;
    let mut x = inside.x;
    let offered = [
        (Command::Demo, "opens the demo fleet"),
        (Command::Retry, "tries again"),
        (Command::Contexts, "chooses another context"),
        (Command::Close, "closes this"),
    ];
    for (command, words) in offered {
        if command == Command::Demo && screen.facts().context.as_str() == "demo" {
            continue;
        }
        let keys = screen.keys().keys(Context::Missing, command);
        let Some(key) = keys.first().map(ToString::to_string) else {
            continue;
        };
        let width = painter.width(&key) + 1 + painter.width(words);
        if x + width > inside.right() {
            break;
        }
        x += painter.pieces(x, y, width, &[(&key, accent), (" ", muted), (words, muted)]) + 3;
    }
}
