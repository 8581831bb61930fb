//! What lies over a view: help, facts, the palette, the filter line.

mod facts;
mod filter_line;
mod help;
mod palette;

use ratatui::layout::{Position, Rect};

use super::app::App;
use super::brush::Brush;
use super::commands::{Command, Context};
use super::msg::KeyPress;
use super::view::Picked;
use super::widget::field::Field;
use palette::{Run, offers};

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
    /// Close and read this of the object.
    Read(Command, Picked),
    /// Close and look like this.
    Theme(String),
}

const POPUP: &[Context] = &[Context::Popup, Context::Anywhere];
const PROMPT: &[Context] = &[Context::Prompt, Context::Anywhere];

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
                Some(command @ (Command::Yaml | Command::Events | Command::Logs)) => {
                    Verdict::Read(command, picked.clone())
                }
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
                help::draw(app, brush, area, *skip);
                None
            }
            Self::Facts(picked, skip) => {
                facts::draw(app, brush, area, picked, *skip);
                None
            }
            Self::Palette(field, chosen) => Some(palette::draw(app, brush, area, field, *chosen)),
            Self::Filter(field, _, wrong) => {
                Some(filter_line::draw(app, brush, area, field, wrong.as_deref()))
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
