//! Overlays above a view: help, facts, the palette, the filter line, and prompts.

mod columns;
mod copy;
mod facts;
mod filter_line;
mod help;
mod key_hints;
mod leaving;
pub(super) mod missing;
mod offers;
mod palette;
mod plan;
mod plan_draw;
mod plan_layout;
mod plan_pictures;
mod plan_run;
mod plan_sum;
mod plan_words;
mod port_forward;
mod priority_prompt;
pub(super) mod suppose;
mod time_prompt;
mod unknown;
mod verdict;
mod view_offers;

use ratatui::layout::{Position, Rect};

use super::action_keys::ActionRequest;
use super::commands::{Command, Context};
use super::msg::KeyPress;
use super::painter::Painter;
use super::screen::Screen;
use super::view::scroll::PopupScroll;
use super::widget::panel::above_hints;
use filter_line::FilterLine;
use help::Help;
use model::base::Moment;
use palette::Palette;
use table::actions::May;
use table::navigation::Selection;
use time_prompt::TimePrompt;
use verdict::{PROMPT, scrolled};

pub use verdict::{Navigation, Verdict};

pub enum Overlay {
    None,
    Help(Box<Help>),
    /// An object's facts, with the scroll position.
    Facts(Selection, PopupScroll),
    Palette(Box<Palette>),
    Filter(FilterLine),
    /// The prompt for a time of a record.
    Time(TimePrompt),
    Copy,
    /// The list of columns, with the cursor on one.
    Columns(usize),
    Plan(Box<plan::Dialog>),
    /// The screen of missing data, with the scroll position.
    Missing(PopupScroll),
    /// The question on leaving while this run is in progress.
    Leaving(String),
}

const POPUP: &[Context] = &[Context::Popup, Context::Anywhere];
const COPY: &[Context] = &[Context::Copy, Context::Anywhere];
const COLUMNS: &[Context] = &[Context::Columns, Context::Anywhere];
const LEAVING: &[Context] = &[Context::Leaving, Context::Anywhere];
const MISSING: &[Context] = &[Context::Missing, Context::Anywhere];

impl Overlay {
    /// The palette with this text.
    pub fn palette(screen: &dyn Screen, words: &str) -> Self {
        Self::Palette(Box::new(Palette::new(screen, words)))
    }

    /// The filter line with the current filter.
    pub fn filter(now: &str) -> Self {
        Self::Filter(FilterLine::new(now))
    }

    /// The prompt for a time of a record.
    pub fn time() -> Self {
        Self::Time(TimePrompt::new())
    }

    /// A plan dialog for a request with this number.
    pub fn plan(number: u64, request: ActionRequest, now: Moment) -> Self {
        Self::Plan(Box::new(plan::Dialog::new(number, request, now)))
    }

    /// The contexts whose keys apply while it is open.
    pub fn contexts(&self, may: &May) -> Option<&'static [Context]> {
        match self {
            Self::None => None,
            Self::Help(help) if help.types => Some(PROMPT),
            Self::Help(_) | Self::Facts(..) => Some(POPUP),
            Self::Palette(_) | Self::Filter(_) | Self::Time(_) => Some(PROMPT),
            Self::Copy => Some(COPY),
            Self::Columns(_) => Some(COLUMNS),
            Self::Plan(dialog) => Some(dialog.contexts(may)),
            Self::Missing(_) => Some(MISSING),
            Self::Leaving(_) => Some(LEAVING),
        }
    }

    /// True where nothing is typed and nothing is left to confirm: a view key closes it.
    pub fn gives_way(&self) -> bool {
        match self {
            Self::Help(help) => !help.types,
            Self::Facts(..) => true,
            Self::Plan(dialog) => dialog.gives_way(),
            _ => false,
        }
    }

    /// True for a command that has an effect now: only these are hinted.
    pub fn does(&self, command: Command, screen: &dyn Screen) -> bool {
        match self {
            Self::Plan(dialog) => dialog.does(command, screen),
            Self::Help(_) => !matches!(
                command,
                Command::Copy | Command::Yaml | Command::Events | Command::Logs | Command::Tree
            ),
            Self::Facts(..) => command != Command::Filter,
            _ => true,
        }
    }

    /// The same overlay with the filter's error.
    #[must_use]
    pub fn with_error(mut self, wrong: Option<String>) -> Self {
        if let Self::Filter(line) = &mut self {
            line.wrong = wrong;
        }
        self
    }

    pub fn paste(&mut self, words: &str, screen: &dyn Screen) -> Verdict {
        match self {
            Self::Palette(palette) => {
                palette.paste(words, screen);
                Verdict::Stay
            }
            Self::Filter(line) => line.paste(words),
            Self::Help(help) => {
                help.paste(words);
                Verdict::Stay
            }
            Self::Time(line) => {
                line.paste(words);
                Verdict::Stay
            }
            Self::Plan(dialog) => {
                dialog.paste(words, &screen.facts().acts.may);
                Verdict::Stay
            }
            _ => Verdict::Stay,
        }
    }

    /// Handles a key and the command that it is bound to here.
    pub fn key(
        &mut self,
        press: KeyPress,
        command: Option<Command>,
        screen: &dyn Screen,
    ) -> Verdict {
        match self {
            Self::None => Verdict::Close,
            Self::Help(help) => help.key(press, command),
            Self::Facts(selection, scroll) => match command {
                Some(Command::Copy) => Verdict::Copy(selection.title(screen.facts())),
                Some(
                    command @ (Command::Yaml | Command::Events | Command::Logs | Command::Tree),
                ) => Verdict::Read(command, selection.clone()),
                other => scrolled(scroll, other),
            },
            Self::Palette(palette) => palette.key(press, command, screen),
            Self::Filter(line) => line.key(press, command, screen),
            Self::Time(line) => line.key(press, command, screen),
            Self::Copy => copy::key(command),
            Self::Leaving(run) => leaving::key(run, command),
            Self::Columns(at) => columns::key(at, command, screen),
            Self::Plan(dialog) => dialog.key(press, command, screen, plan_draw::scroll_extent),
            Self::Missing(scroll) => match command {
                Some(
                    command @ (Command::Demo | Command::Retry | Command::Contexts | Command::Leave),
                ) => Verdict::Navigation(Navigation::Command(command)),
                other => scrolled(scroll, other),
            },
        }
    }

    /// Draws it over the view; returns the position of the text cursor.
    pub fn draw(
        &self,
        screen: &dyn Screen,
        painter: &mut Painter<'_>,
        area: Rect,
    ) -> Option<Position> {
        match self {
            Self::None => return None,
            Self::Help(help) => return help::draw(screen, painter, area, help),
            Self::Facts(selection, scroll) => facts::draw(screen, painter, area, selection, scroll),
            Self::Palette(palette) => return Some(palette.draw(painter, area)),
            Self::Filter(line) => return Some(line.draw(screen, painter, area)),
            Self::Time(line) => return Some(line.draw(painter, area)),
            Self::Plan(dialog) => {
                // The key hints stay visible; the view behind is dimmed.
                let area = above_hints(area);
                painter.dim(area);
                return plan_draw::draw(dialog, screen, painter, area);
            }
            Self::Copy => copy::draw(screen, painter, area),
            Self::Columns(at) => columns::draw(screen, painter, area, *at),
            Self::Missing(scroll) => missing::draw(screen, painter, area, scroll),
            Self::Leaving(run) => {
                painter.dim(above_hints(area));
                leaving::draw(screen, painter, area, run);
            }
        }
        None
    }
}
