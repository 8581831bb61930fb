//! The screen's state machine: messages in, effects out, a frame drawn from what it knows. Pure: the time comes in.

mod hands;
mod options;
mod places;
mod plain;
mod shown;

use std::sync::Arc;
use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};

use crate::base::{Moment, Name};
use crate::fleet::Fleet;
use crate::report::Facts;

use super::brush::{Brush, Ink};
use super::commands::Context;
use super::frame;
use super::msg::{Effect, Msg};
use super::overlay::Overlay;
use super::reading::Want;
use super::summary::Summary;
use super::view::{View, ViewId};

pub use options::AppOptions;
pub use plain::{buffer_text, render_text};

/// After so long without a key, rows may change places.
const QUIET: Duration = Duration::from_secs(10);
/// When what is typed is applied, if no other key comes before.
const SOON: Duration = Duration::from_millis(1);
/// How long a notice stays.
const NOTICE: Duration = Duration::from_secs(6);

/// What drawing learned.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Drawn {
    /// Where the terminal's cursor belongs, while something is typed.
    pub cursor: Option<Position>,
    /// When the picture next changes by itself: send a tick and draw again by then.
    pub wake_after: Option<Duration>,
}

/// The console.
pub struct App {
    pub(in crate::console) options: AppOptions,
    pub(in crate::console) ink: Ink,
    pub(in crate::console) facts: Facts,
    pub(in crate::console) summary: Summary,
    /// The newest picture, while the shown one is held still.
    frozen: Option<Option<Box<Facts>>>,
    size: (u16, u16),
    /// The views behind the tabs, made when first opened.
    tabs: Vec<Option<Box<dyn View>>>,
    tab: ViewId,
    last: ViewId,
    /// Views that were drilled into, above the tab.
    stack: Vec<Box<dyn View>>,
    pub(in crate::console) overlay: Overlay,
    notice: Option<(String, Moment)>,
    /// A filter of a large view that is typed but not applied: the letters are drawn first.
    typed: Option<String>,
    last_key: Moment,
    on_screen: Vec<Name>,
    /// What the view in front wants read.
    wanted: Option<Want>,
}
impl App {
    /// A console that knows nothing yet.
    pub fn new(options: AppOptions) -> Self {
        let ink = Ink {
            theme: options.theme.clone(),
            depth: options.depth,
            ascii: options.ascii,
        };
        let facts = Facts {
            context: options.context.clone(),
            fleet: Arc::new(Fleet::unknown(Arc::default())),
            burn: Arc::default(),
            history: Arc::default(),
            hushed: Arc::default(),
            now: Moment::default(),
        };
        let tab = options.view;
        let mut app = Self {
            options,
            ink,
            facts,
            summary: Summary::default(),
            frozen: None,
            size: (120, 40),
            tabs: ViewId::ALL.iter().map(|_| None).collect(),
            tab,
            last: tab,
            stack: Vec::new(),
            overlay: Overlay::None,
            notice: None,
            typed: None,
            last_key: Moment::default(),
            on_screen: Vec::new(),
            wanted: None,
        };
        app.show(tab);
        app
    }

    /// Takes a message and says what is to be done about it.
    pub fn update(&mut self, msg: Msg) -> Vec<Effect> {
        let mut effects = Vec::new();
        match msg {
            Msg::Key(press) => {
                self.last_key = self.facts.now;
                self.key(press, &mut effects);
            }
            Msg::Mouse(mouse) => {
                self.last_key = self.facts.now;
                self.mouse(mouse, &mut effects);
            }
            Msg::Resize(width, height) => {
                self.size = (width, height);
                self.fit();
            }
            Msg::Facts(facts) => self.take(facts),
            Msg::Tick(now) => self.tick(now),
            Msg::Paste(words) => self.paste(&words),
            Msg::Resume => effects.push(Effect::Redraw),
            Msg::Notice(words) => self.notify(words),
            Msg::Hushed(hushed) => {
                self.facts.hushed = Arc::new(hushed);
                self.summary = Summary::of(&self.facts);
                self.refresh(true);
            }
            Msg::Read(want, news) => {
                if self.wanted.as_ref() == Some(&want) {
                    let facts = self.facts.clone();
                    self.view_mut().told(&news, &facts);
                }
            }
        }
        let on_screen = self.view().on_screen(&self.facts, self.body());
        if on_screen != self.on_screen {
            self.on_screen.clone_from(&on_screen);
            effects.push(Effect::OnScreen(on_screen));
        }
        if self.view().want() != self.wanted.as_ref() {
            self.wanted = self.view().want().cloned();
            effects.push(Effect::Read(self.wanted.clone()));
        }
        effects
    }

    /// Draws the frame. The same state draws the same cells.
    pub fn draw(&self, area: Rect, buf: &mut Buffer) -> Drawn {
        let mut brush = Brush::new(buf, &self.ink, self.facts.now);
        let cursor = frame::draw(self, &mut brush, area);
        if self.view().is_unsettled() {
            let quiet = self.quiet();
            brush.wake_in(QUIET.as_millis() as u64 - quiet.min(QUIET.as_millis() as u64 - 1));
        }
        if let Some((_, until)) = &self.notice {
            brush.wake_in(until.since(self.facts.now).millis().max(1));
        }
        Drawn {
            cursor,
            wake_after: match (&self.typed, self.is_frozen()) {
                (Some(_), _) => Some(SOON),
                (None, true) => None,
                (None, false) => brush.wake(),
            },
        }
    }

    /// The facts that are shown.
    pub const fn facts(&self) -> &Facts {
        &self.facts
    }

    /// What the operator is told just now.
    pub fn notice(&self) -> Option<&str> {
        self.notice.as_ref().map(|(words, _)| words.as_str())
    }

    /// Whose keys are heard.
    pub fn contexts(&self) -> &'static [Context] {
        self.overlay
            .contexts()
            .unwrap_or_else(|| self.view().contexts())
    }

    /// The room of the view.
    pub fn body(&self) -> Rect {
        frame::body(Rect::new(0, 0, self.size.0, self.size.1))
    }

    fn notify(&mut self, words: String) {
        self.notice = Some((words, self.facts.now.plus(NOTICE)));
    }
}
