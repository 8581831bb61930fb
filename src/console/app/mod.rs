//! The screen's state machine: messages in, effects out, frames drawn from its state. Pure: time is an input.

mod input;
mod memory;
mod options;
mod places;
mod plain;
mod pod_access;
mod replay;
mod screen;
mod shown;

use std::sync::Arc;
use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};

use model::base::{Moment, Name};
use model::cost::SpendRates;
use model::fleet::Fleet;
use table::timeline::Timeline;
use table::{Facts, Scope};

use super::action_keys::PlanOutcome;
use super::commands::Context;
use super::frame;
use super::missing::{Missing, missing};
use super::msg::{Effect, Msg, SessionInfo};
use super::overlay::Overlay;
use super::painter::{Painter, RenderStyle};
use super::pod_access::PortForward;
use super::summary::Summary;
use memory::Memory;
use model::object::ObjectRequest;
use model::plan::{Intent, KnownVictims};
use places::Places;
use shown::ShownFacts;
use table::navigation::ViewId;

pub use options::AppOptions;
pub use plain::{buffer_text, printed_text, render_text};

/// After this long without a key, rows may be reordered.
const QUIET: Duration = Duration::from_secs(10);
/// When a typed filter is applied, unless another key comes first.
const SOON: Duration = Duration::from_millis(1);
/// How long a notice is shown.
const NOTICE: Duration = Duration::from_secs(6);

/// The result of drawing a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Drawn {
    /// Where the terminal's cursor belongs while text is typed.
    pub cursor: Option<Position>,
    /// When the frame next changes by itself: send a tick and draw again by then.
    pub wake_after: Option<Duration>,
}

/// A message in the last line.
struct Notice {
    words: String,
    until: Moment,
    /// True for a hint about a key that did nothing: the next key removes it.
    of_key: bool,
}

pub struct App {
    pub(crate) options: AppOptions,
    pub(crate) render_style: RenderStyle,
    /// The facts on screen; their rates are those of the scope.
    pub(crate) facts: Facts,
    /// Rates of the whole fleet, in any scope.
    whole: Arc<SpendRates>,
    pub(crate) summary: Summary,
    pub(crate) scope: Scope,
    pub(crate) memory: Memory,
    /// Why no session could be opened, while none is open.
    pub(crate) fault: Option<String>,
    shown_facts: ShownFacts,
    /// The current time, also while an earlier moment is shown.
    clock: Moment,
    size: (u16, u16),
    places: Places,
    pub(crate) overlay: Overlay,
    notice: Option<Notice>,
    /// A typed filter of a large view that is not applied yet: the letters are drawn first.
    typed: Option<String>,
    last_key: Moment,
    on_screen: Vec<Name>,
    /// What the front view needs read.
    wanted: Option<ObjectRequest>,
    /// Number of plan requests so far.
    asked: u64,
    /// The run that is being stopped.
    stopping: Option<String>,
    pub(crate) port_forwards: Vec<PortForward>,
    /// Replay state, where a record is shown.
    pub(crate) timeline: Option<Timeline>,
    /// The requested moment of the record that is not shown yet.
    aim: Option<Moment>,
    /// The session's last facts, while the record of its cluster is shown instead.
    live_facts: Option<Box<Facts>>,
}

impl App {
    /// A console without facts.
    pub fn new(options: AppOptions) -> Self {
        let render_style = RenderStyle {
            theme: options.theme.clone(),
            depth: options.depth,
            ascii: options.ascii,
        };
        let scope = Scope {
            team: options.team.clone(),
            namespaces: options.namespaces.clone(),
        };
        let mut app = Self {
            facts: nothing(options.context.clone()),
            whole: Arc::default(),
            places: Places::new(options.view),
            options,
            render_style,
            summary: Summary::default(),
            scope,
            memory: Memory::default(),
            fault: None,
            shown_facts: ShownFacts::Live,
            clock: Moment::default(),
            size: (120, 40),
            overlay: Overlay::None,
            notice: None,
            typed: None,
            last_key: Moment::default(),
            on_screen: Vec::new(),
            wanted: None,
            asked: 0,
            stopping: None,
            port_forwards: Vec::new(),
            timeline: None,
            aim: None,
            live_facts: None,
        };
        app.keep_to_part();
        app.enter();
        app
    }

    /// Applies messages for a single frame without a session; the effects are dropped.
    pub fn picture(&mut self, messages: impl IntoIterator<Item = Msg>) {
        for msg in messages {
            let _ = self.update(msg);
        }
    }

    /// Handles a message and returns its effects.
    #[must_use = "an effect that is not carried out is lost: a plan is never recomputed, a screen never redrawn"]
    pub fn update(&mut self, msg: Msg) -> Vec<Effect> {
        let mut effects = Vec::new();
        match msg {
            Msg::Key(press) => {
                self.last_key = self.clock;
                // The clock of a record may be paused: the next key removes the notice.
                if self.timeline.is_some() {
                    self.notice = None;
                }
                self.key(press, &mut effects);
            }
            Msg::Mouse(mouse) => {
                self.last_key = self.clock;
                self.mouse(mouse, &mut effects);
            }
            Msg::Resize(width, height) => {
                self.size = (width, height);
                self.fit();
            }
            Msg::Facts(facts) => self.take(facts),
            Msg::Tick(now) => self.tick(now),
            Msg::Paste(words) => self.paste(&words, &mut effects),
            Msg::Resume => effects.push(Effect::Redraw),
            Msg::Notice(words) => {
                // After a failed jump, the next step starts from the moment on screen.
                self.aim = None;
                self.notify(words);
            }
            Msg::PortForwards(running) => self.port_forwards = running,
            Msg::Silences(silences) => {
                self.facts.silences = Arc::new(silences);
                self.summarize();
                self.refresh(true);
            }
            Msg::JobExplanations(answers) => self.answered(answers),
            Msg::Usage(usage) => self.receive_usage(usage),
            Msg::ActionState(acts) => self.acted(acts),
            Msg::PlanOutcome(number, mut made) => {
                if let PlanOutcome::Plan(plan) = &mut made {
                    table::budgets::add_forecast(&self.facts, plan);
                }
                if let Overlay::Plan(dialog) = &mut self.overlay {
                    dialog.made(number, made, self.clock);
                }
            }
            Msg::Supposed(changes, supposed) => self.supposed(&changes, supposed),
            Msg::Began(number, run) => self.began(number, run),
            Msg::Leaving(run) => self.overlay = Overlay::Leaving(run),
            Msg::Read(want, news) => {
                if self.wanted.as_ref() == Some(&want) {
                    let facts = self.facts.clone();
                    self.view_mut().on_object_news(&news, &facts);
                }
            }
            Msg::Session(session) => self.session(session),
            Msg::NoSession(why) => self.no_session(why),
            Msg::Rewound(facts, timeline) => self.rewound(*facts, timeline),
            Msg::Live => self.returned(),
            Msg::Changes(name, compared) => {
                Arc::make_mut(&mut self.facts.compared).put(name, compared);
                self.refresh(true);
            }
            Msg::Timeline(timeline) => {
                let began = self.timeline.is_none();
                self.timeline = Some(timeline);
                if began {
                    self.fit();
                }
            }
        }
        if let Overlay::Plan(dialog) = &mut self.overlay
            && let Some(mut ask) = dialog.due(self.clock)
        {
            // The plan takes the victims that the job's page names, unless others now lose less work.
            if let (false, Intent::Admit { job, .. }) = (ask.known.is_read, &ask.intent) {
                ask.known = KnownVictims::shown(self.facts.answers.victims_of(job));
            }
            effects.push(Effect::Plan(ask));
        }
        let on_screen = self.view().on_screen(&self.facts, self.body());
        if on_screen != self.on_screen {
            self.on_screen.clone_from(&on_screen);
            effects.push(Effect::OnScreen(on_screen));
        }
        if self.view().object_request() != self.wanted.as_ref() {
            self.wanted = self.view().object_request().cloned();
            effects.push(Effect::Read(self.wanted.clone()));
        }
        effects
    }

    /// Draws the frame. Equal state draws equal cells.
    pub fn draw(&self, area: Rect, buf: &mut Buffer) -> Drawn {
        let mut painter = Painter::new(buf, &self.render_style, self.facts.now);
        let cursor = frame::draw(self, &self.overlay, &mut painter, area);
        if self.view().is_unsettled() {
            let left = self.until_quiet().unwrap_or_default();
            painter.wake_in(left.as_millis().max(1) as u64);
        }
        let live = painter.wake().filter(|_| !self.is_frozen());
        let notice = self
            .notice
            .as_ref()
            .map(|notice| Duration::from_millis(notice.until.since(self.clock).millis().max(1)));
        let soon = self.typed.as_ref().map(|_| SOON);
        Drawn {
            cursor,
            wake_after: [soon, live, notice].into_iter().flatten().min(),
        }
    }

    /// The facts on screen.
    pub const fn facts(&self) -> &Facts {
        &self.facts
    }

    pub const fn scope(&self) -> &Scope {
        &self.scope
    }

    pub fn notice(&self) -> Option<&str> {
        self.notice.as_ref().map(|notice| notice.words.as_str())
    }

    /// The contexts whose keys apply.
    pub fn contexts(&self) -> &'static [Context] {
        self.overlay
            .contexts(&self.facts.acts.may)
            .unwrap_or_else(|| self.view().contexts())
    }

    pub(crate) fn area(&self) -> Rect {
        Rect::new(0, 0, self.size.0, self.size.1)
    }

    /// The area of the view.
    pub fn body(&self) -> Rect {
        frame::body(self.area(), self.timeline.is_some())
    }

    /// Missing data and connections, most severe first.
    pub fn missing(&self) -> Vec<Missing> {
        missing(&self.facts, self.fault.as_deref())
    }

    fn notify(&mut self, words: String) {
        let until = self.clock.plus(self.notice_stays());
        let of_key = false;
        self.notice = Some(Notice {
            words,
            until,
            of_key,
        });
    }

    /// Shows why a key did nothing, until the next key.
    fn hint(&mut self, words: String) {
        self.notify(words);
        if let Some(notice) = &mut self.notice {
            notice.of_key = true;
        }
    }

    /// Starts a session: facts of another cluster are dropped.
    fn session(&mut self, session: SessionInfo) {
        self.options.contexts = session.contexts;
        self.scope.namespaces = session.namespaces;
        self.fault = None;
        // Pending reads are requested again from the new session.
        self.wanted = None;
        self.notice = None;
        if matches!(self.overlay, Overlay::Missing(_)) {
            self.overlay = Overlay::None;
        }
        // A plan for another cluster must not be confirmed on this one.
        self.close_plan();
        self.shown_facts = ShownFacts::Live;
        (self.timeline, self.aim, self.live_facts) = (None, None, None);
        self.facts = Facts {
            now: self.clock,
            ..nothing(session.context)
        };
        self.whole = Arc::clone(&self.facts.spend_rates);
        self.keep_to_part();
        self.summarize();
        self.start_over();
        if let Some(words) = session.notice {
            self.notify(words);
        }
    }

    /// Closes an open plan: the facts that it was made from are gone.
    fn close_plan(&mut self) {
        if matches!(self.overlay, Overlay::Plan(_)) {
            self.overlay = Overlay::None;
            self.notify(format!("the plan for {} is closed", self.facts.context));
        }
    }

    /// Handles a session that failed to open. An existing session stays on screen; without one, the reason is shown with
    /// the keys that help.
    fn no_session(&mut self, why: String) {
        let nothing_shown = self.facts.fleet.revision == 0;
        if nothing_shown {
            self.fault = Some(why);
            if matches!(self.overlay, Overlay::None) {
                self.overlay = Overlay::Missing(Default::default());
            }
        } else {
            self.notify(why);
        }
    }

    /// True where the view is empty because data is missing: the reason is drawn in its place, and keys do not reach the view.
    pub(crate) fn shows_missing(&self) -> bool {
        let fleet = &self.facts.fleet;
        let nothing = fleet.nodes.is_empty() && fleet.jobs.is_empty();
        let own = matches!(self.view().id(), ViewId::Plans | ViewId::Sources);
        nothing && !own && self.missing().first().is_some_and(|first| first.grave)
    }

    /// True where the view depends on lists that are still being read.
    pub(crate) fn is_unread(&self) -> bool {
        let own = matches!(self.view().id(), ViewId::Plans | ViewId::Sources);
        !own && self.summary.unread
    }
}

/// Facts before the cluster's first answer.
fn nothing(context: Name) -> Facts {
    let fleet = Arc::new(Fleet::unknown(Arc::default()));
    Facts {
        now: Moment::default(),
        ..Facts::new(context, fleet, Arc::default())
    }
}
