//! What lies over a view: help, facts, the palette, the filter line.

use ratatui::layout::{Position, Rect};

use super::app::App;
use super::brush::Brush;
use super::commands::{COMMANDS, Command, Context};
use super::filter::fuzzy;
use super::msg::KeyPress;
use super::theme::Role;
use super::view::describe::{describe, draw_lines};
use super::view::{Picked, ViewId};
use super::widget::field::Field;
use super::widget::panel::{centred, popup};

/// What is in front of the view.
pub enum Overlay {
    /// Nothing.
    None,
    /// The keys, from a line on.
    Help(usize),
    /// An object's facts, from a line on.
    Facts(Picked, usize),
    /// The palette: what is typed, and which offer is chosen.
    Palette(Field, usize),
    /// The filter: what is typed, what it was before, what is wrong with it.
    Filter(Field, String, Option<String>),
}

/// What a key in an overlay comes to.
pub enum Verdict {
    /// It stays open.
    Stay,
    /// It closes.
    Close,
    /// Copy this name; it stays open.
    Copy(String),
    /// Filter by this; stay open or not.
    Filter(String, bool),
    /// Close and do this.
    Run(Command),
    /// Close and look like this.
    Theme(String),
}

const POPUP: &[Context] = &[Context::Popup, Context::Anywhere];
const PROMPT: &[Context] = &[Context::Prompt, Context::Anywhere];

/// An offer of the palette.
struct Offer {
    label: String,
    doc: String,
    run: Run,
}

#[derive(Clone)]
enum Run {
    Command(Command),
    Theme(String),
}

impl Overlay {
    /// An empty palette.
    pub fn palette() -> Self {
        Self::Palette(Field::default(), 0)
    }

    /// The filter line with the filter as it is.
    pub fn filter(now: &str) -> Self {
        Self::Filter(Field::new(now), now.to_owned(), None)
    }

    /// Whose keys are heard while it is open.
    pub const fn contexts(&self) -> Option<&'static [Context]> {
        match self {
            Self::None => None,
            Self::Help(_) | Self::Facts(..) => Some(POPUP),
            Self::Palette(..) | Self::Filter(..) => Some(PROMPT),
        }
    }

    /// The same with what is wrong with the filter.
    #[must_use]
    pub fn with_error(self, wrong: Option<String>) -> Self {
        match self {
            Self::Filter(field, before, _) => Self::Filter(field, before, wrong),
            other => other,
        }
    }

    /// Takes pasted text.
    pub fn paste(&mut self, words: &str) -> Verdict {
        match self {
            Self::Palette(field, chosen) => {
                field.insert(words);
                *chosen = 0;
                Verdict::Stay
            }
            Self::Filter(field, ..) => {
                field.insert(words);
                Verdict::Filter(field.text().to_owned(), true)
            }
            _ => Verdict::Stay,
        }
    }

    /// Takes a key and the command it is bound to here.
    pub fn key(&mut self, press: KeyPress, command: Option<Command>, app: &App) -> Verdict {
        match self {
            Self::None => Verdict::Close,
            Self::Help(skip) => scrolled(skip, command),
            Self::Facts(picked, skip) => match command {
                Some(Command::Copy) => Verdict::Copy(picked.name()),
                other => scrolled(skip, other),
            },
            Self::Palette(field, chosen) => match command {
                Some(Command::Close) => Verdict::Close,
                Some(Command::Next) => {
                    let count = offers(app, field.text()).len().max(1);
                    *chosen = (*chosen + 1) % count;
                    Verdict::Stay
                }
                Some(Command::Previous) => {
                    let count = offers(app, field.text()).len().max(1);
                    *chosen = (*chosen + count - 1) % count;
                    Verdict::Stay
                }
                Some(Command::Accept) => {
                    let run = offers(app, field.text())
                        .into_iter()
                        .nth(*chosen)
                        .map(|offer| offer.run);
                    match run {
                        Some(Run::Command(command)) => Verdict::Run(command),
                        Some(Run::Theme(name)) => Verdict::Theme(name),
                        None => Verdict::Stay,
                    }
                }
                _ => {
                    if field.key(press) {
                        *chosen = 0;
                    }
                    Verdict::Stay
                }
            },
            Self::Filter(field, before, _) => match command {
                Some(Command::Close) => Verdict::Filter(before.clone(), false),
                Some(Command::Accept) => Verdict::Filter(field.text().to_owned(), false),
                _ => {
                    if field.key(press) {
                        Verdict::Filter(field.text().to_owned(), true)
                    } else {
                        Verdict::Stay
                    }
                }
            },
        }
    }

    /// Draws it over the view; returns where the cursor stands in what is typed.
    pub fn draw(&self, app: &App, brush: &mut Brush<'_>, area: Rect) -> Option<Position> {
        match self {
            Self::None => None,
            Self::Help(skip) => {
                draw_help(app, brush, area, *skip);
                None
            }
            Self::Facts(picked, skip) => {
                draw_facts(app, brush, area, picked, *skip);
                None
            }
            Self::Palette(field, chosen) => Some(draw_palette(app, brush, area, field, *chosen)),
            Self::Filter(field, _, wrong) => {
                Some(draw_filter(app, brush, area, field, wrong.as_deref()))
            }
        }
    }
}

/// Scrolling of popups. The far end is found when it is drawn.
fn scrolled(skip: &mut usize, command: Option<Command>) -> Verdict {
    const FAR: usize = 10_000;
    *skip = match command {
        Some(Command::Up) => skip.saturating_sub(1),
        Some(Command::Down) => (*skip + 1).min(FAR),
        Some(Command::PageUp) => skip.saturating_sub(10),
        Some(Command::PageDown) => (*skip + 10).min(FAR),
        Some(Command::Top) => 0,
        Some(Command::Bottom) => FAR,
        Some(Command::Close) => return Verdict::Close,
        _ => *skip,
    };
    Verdict::Stay
}

/// What the palette offers for what is typed, best first.
fn offers(app: &App, typed: &str) -> Vec<Offer> {
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

fn draw_palette(
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

fn draw_filter(
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

fn draw_facts(app: &App, brush: &mut Brush<'_>, area: Rect, picked: &Picked, skip: usize) {
    let Some(sheet) = describe(&app.facts, picked, brush) else {
        let frame = centred(area, 50, 3);
        let inside = popup(brush, frame, &picked.name(), "");
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

fn draw_help(app: &App, brush: &mut Brush<'_>, area: Rect, skip: usize) {
    enum Row {
        Head(&'static str),
        Key(String, &'static str),
        Gap,
    }
    let mut rows = Vec::new();
    let here = app.view().contexts();
    let rest = Context::ALL
        .iter()
        .filter(|context| !here.contains(context));
    for context in here.iter().chain(rest) {
        if !rows.is_empty() {
            rows.push(Row::Gap);
        }
        rows.push(Row::Head(context.title()));
        for (spec, keys) in app.options.keys.listed(*context) {
            let keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
            rows.push(Row::Key(keys.join(" "), spec.doc));
        }
    }
    let frame = centred(area, 96, area.height.saturating_sub(2).max(3));
    let note = format!(
        "stokehold {} · {}",
        env!("CARGO_PKG_VERSION"),
        app.options.readonly_reason
    );
    let inside = popup(brush, frame, "keys", &note);
    let height = usize::from(inside.height);
    let skip = skip.min(rows.len().saturating_sub(height));
    for (line, row) in rows.iter().skip(skip).take(height).enumerate() {
        let y = inside.y + line as u16;
        match row {
            Row::Gap => {}
            Row::Head(title) => {
                brush.say(inside.x, y, inside.width, title, Role::Title);
            }
            Row::Key(keys, doc) => {
                let width = 20.min(inside.width / 3);
                let style = brush.ink.bold(Role::Accent);
                brush.text(inside.x + 1, y, width, keys, style);
                let room = inside.width.saturating_sub(width + 2);
                brush.say(inside.x + width + 2, y, room, doc, Role::Text);
            }
        }
    }
    if rows.len() > height && frame.height > 0 {
        let words = format!(
            " {} to {} of {}   j k scroll ",
            skip + 1,
            (skip + height).min(rows.len()),
            rows.len()
        );
        brush.say(
            frame.x + 3,
            frame.bottom() - 1,
            frame.width / 2,
            &words,
            Role::Muted,
        );
    }
}
