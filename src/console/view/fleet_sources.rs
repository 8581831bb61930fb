//! The sources at the foot of the fleet view: how many of each kind answer, and what is wrong with those that do not.

use ratatui::layout::Rect;

use crate::painter::Painter;
use crate::theme::Role;
use crate::widget::panel::panel;
use model::fleet::observe::{SourceHealth, SourceState};
use table::Facts;

use super::sources;

/// True for a source that is not well or has something to say.
pub(super) fn speaks(source: &SourceHealth) -> bool {
    match source.state {
        // What our rights keep from us is one line above every view, not one for each kind.
        SourceState::NotVisible => false,
        SourceState::Live => !source.message.is_empty() && source.gives_readings(),
        SourceState::Stale | SourceState::Lost => true,
    }
}

/// Sources by kind: how many answer, and what is wrong with the first that does not.
pub(super) fn draw_sources(facts: &Facts, painter: &mut Painter<'_>, area: Rect) {
    let all: Vec<&SourceHealth> = facts
        .fleet
        .sources
        .iter()
        .filter(|source| source.state != SourceState::NotVisible)
        .collect();
    let hidden = facts.fleet.sources.len() - all.len();
    let live = all
        .iter()
        .filter(|source| source.state == SourceState::Live)
        .count();
    let note = if all.is_empty() {
        String::from("none has answered yet")
    } else {
        match hidden {
            0 => format!("{live} of {} live", all.len()),
            hidden => format!("{live} of {} live, {hidden} not visible to you", all.len()),
        }
    };
    let inside = panel(painter, area, "sources", &note);
    let mut kinds: Vec<(&str, usize, usize)> = Vec::new();
    for source in all.iter() {
        let at = match kinds.iter().position(|(kind, ..)| *kind == &*source.kind) {
            Some(at) => at,
            None => {
                kinds.push((&source.kind, 0, 0));
                kinds.len() - 1
            }
        };
        kinds[at].1 += usize::from(source.state == SourceState::Live);
        kinds[at].2 += 1;
    }
    let mut x = inside.x;
    for (kind, live, of) in &kinds {
        let role = if live == of { Role::Ok } else { Role::Warn };
        let counts = format!("{live}/{of}");
        let room = inside.right().saturating_sub(x);
        if room < painter.width(kind) + painter.width(&counts) + 4 {
            break;
        }
        let (sign, label) = (
            painter.render_style.fg(role),
            painter.render_style.fg(Role::Text),
        );
        let dot = if live == of { "● " } else { "◐ " };
        let muted = painter.render_style.fg(Role::Muted);
        x += painter.pieces(
            x,
            inside.y,
            room,
            &[
                (dot, sign),
                (kind, label),
                (" ", muted),
                (&counts, muted),
                ("    ", muted),
            ],
        );
    }
    let troubled = all.iter().filter(|source| speaks(source));
    for (line, source) in troubled.enumerate() {
        let y = inside.y + 1 + line as u16;
        if y >= inside.bottom() {
            break;
        }
        let (sign, role, word) = sources::state_of(source.state);
        let (style, text) = (
            painter.render_style.fg(role),
            painter.render_style.fg(Role::Text),
        );
        let muted = painter.render_style.fg(Role::Muted);
        painter.pieces(
            inside.x,
            y,
            inside.width,
            &[
                (sign, style),
                (" ", style),
                (word, style),
                ("  ", muted),
                (&source.name, text),
                ("  ", muted),
                (&source.message, muted),
            ],
        );
    }
}
