//! The palette: what it offers for what is typed, and how it is drawn.

use ratatui::layout::{Position, Rect};

use crate::console::app::App;
use crate::console::brush::Brush;
use crate::console::commands::{COMMANDS, Command};
use crate::console::filter::fuzzy;
use crate::console::theme::Role;
use crate::console::view::ViewId;
use crate::console::widget::field::Field;
use crate::console::widget::panel::{centred, popup};

/// An offer of the palette.
pub(super) struct Offer {
    pub(super) label: String,
    pub(super) doc: String,
    pub(super) run: Run,
}

#[derive(Clone)]
pub(super) enum Run {
    Command(Command),
    Theme(String),
}

/// What the palette offers for what is typed, best first.
pub(super) fn offers(app: &App, typed: &str) -> Vec<Offer> {
    let typed = typed.trim().to_ascii_lowercase();
    let views = ViewId::ALL.iter().filter_map(|id| {
        let spec = COMMANDS
            .iter()
            .find(|spec| spec.command.view() == Some(*id))?;
        Some(Offer {
            label: id.name().to_owned(),
            doc: spec.doc.to_owned(),
            run: Run::Command(spec.command),
        })
    });
    let commands = COMMANDS
        .iter()
        .filter(|spec| spec.command.view().is_none())
        .filter(|spec| {
            let here = app.view().contexts();
            spec.contexts.iter().any(|context| here.contains(context))
        })
        .filter(|spec| !matches!(spec.command, Command::Palette | Command::Leave))
        .map(|spec| Offer {
            label: spec.name.to_owned(),
            doc: spec.doc.to_owned(),
            run: Run::Command(spec.command),
        });
    let themes = app.options.themes.iter().map(|theme| Offer {
        label: format!("theme {}", theme.name),
        doc: String::from("another look"),
        run: Run::Theme(theme.name.clone()),
    });
    let mut scored: Vec<(usize, Offer)> = views
        .chain(commands)
        .chain(themes)
        .filter_map(|offer| {
            // `:q` quits, as everywhere.
            let score = if typed == "q" || typed == "q!" {
                (offer.label == "quit").then_some(0)
            } else {
                fuzzy(&offer.label, &typed)
            };
            score.map(|score| (score, offer))
        })
        .collect();
    scored.sort_by_key(|(score, _)| *score);
    scored.into_iter().map(|(_, offer)| offer).collect()
}

pub(super) fn draw(
    app: &App,
    brush: &mut Brush<'_>,
    area: Rect,
    field: &Field,
    chosen: usize,
) -> Position {
    let offers = offers(app, field.text());
    let rows = u16::try_from(offers.len().clamp(1, 12)).unwrap_or(12);
    let mut frame = centred(area, 76, rows + 4);
    frame.y = area.y + (area.height - frame.height) / 4;
    let inside = popup(brush, frame, "command", "");
    brush.say(inside.x, inside.y, 2, ":", Role::Accent);
    let room = inside.width.saturating_sub(2);
    let cursor = field.draw(brush, inside.x + 2, inside.y, room);
    let shown = usize::from(inside.height.saturating_sub(2));
    let first = (chosen + 1).saturating_sub(shown.max(1));
    if offers.is_empty() && inside.height > 2 {
        brush.say(
            inside.x,
            inside.y + 2,
            inside.width,
            "nothing is called that",
            Role::Muted,
        );
    }
    for (line, offer) in offers.iter().enumerate().skip(first).take(shown) {
        let y = inside.y + 2 + (line - first) as u16;
        let (x, width) = (inside.x, inside.width);
        if line == chosen {
            brush.ground(Rect::new(x, y, width, 1), Role::Selection);
            brush.sign(x, y, "▌", brush.ink.fg(Role::Accent));
        }
        brush.say(x + 2, y, 18, &offer.label, Role::Title);
        brush.say(x + 21, y, width.saturating_sub(21), &offer.doc, Role::Muted);
    }
    cursor
}
