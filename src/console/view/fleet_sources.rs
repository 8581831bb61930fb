//! The sources at the foot of the fleet view: how many of each kind answer, and what is wrong with those that do not.

use ratatui::layout::Rect;

use crate::painter::Painter;
use crate::widget::panel::panel;
use model::fleet::observe::{SourceHealth, SourceState};
use table::Facts;
use table::kinds::sources::{by_kind, live_of, message, state_sign, state_words};
use table::role::Role;

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
    let sources = &facts.fleet.sources;
    let (live, ours) = live_of(sources.iter());
    let hidden = sources.len() - ours;
    let note = match (ours, hidden) {
        (0, _) => String::from("none has answered yet"),
        (_, 0) => format!("{live} of {ours} live"),
        (_, hidden) => format!("{live} of {ours} live, {hidden} not visible to you"),
    };
    let inside = panel(painter, area, "sources", &note);
    let mut x = inside.x;
    for (kind, places) in by_kind(facts) {
        let places = places.iter().map(|at| &sources[*at as usize]);
        let (live, of) = live_of(places);
        if of == 0 {
            continue;
        }
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
    let troubled = sources.iter().filter(|source| speaks(source));
    for (line, source) in troubled.enumerate() {
        let y = inside.y + 1 + line as u16;
        if y >= inside.bottom() {
            break;
        }
        let ((sign, role), word) = (state_sign(source.state), state_words(source.state));
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
                (&*message(facts, source), muted),
            ],
        );
    }
}
