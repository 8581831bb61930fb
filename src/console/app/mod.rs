//! The screen's state machine: messages in, effects out, a frame drawn from what it knows. Pure: the time comes in.

mod input;
mod memory;
mod options;
mod places;
mod plain;
mod pod_access;
mod replay;
mod shown;

use std::sync::Arc;
use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};

use model::base::{Moment, Name};
use model::cost::Burn;
use model::fleet::Fleet;
use table::timeline::Timeline;
use table::{Facts, Scope};

use super::action_keys::PlanOutcome;
use super::commands::Context;
use super::frame;
use super::missing::{Missing, missing};
use super::msg::{Effect, Msg, Session};
use super::overlay::Overlay;
use super::painter::{Painter, RenderStyle};
use super::pod_access::PortForward;
use super::summary::Summary;
use super::view::ViewId;
use memory::Memory;
use model::object::ObjectRequest;
use model::plan::{Intent, Known};
use places::Places;
use shown::Held;

pub use options::AppOptions;
pub use plain::{buffer_text, printed_text, render_text};

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
    pub(crate) options: AppOptions,
    pub(crate) render_style: RenderStyle,
    /// What is shown; its money is that of the scope.
    pub(crate) facts: Facts,
    /// The whole fleet's money, whatever the scope.
    whole: Arc<Burn>,
    pub(crate) summary: Summary,
    /// Which part of everything is worked in.
    pub(crate) scope: Scope,
    pub(crate) memory: Memory,
    /// Why no session could be opened, as long as none is.
    pub(crate) fault: Option<String>,
    held: Held,
    /// The present, whatever is shown.
    clock: Moment,
    size: (u16, u16),
    places: Places,
    pub(crate) overlay: Overlay,
    notice: Option<(String, Moment)>,
    /// A filter of a large view that is typed but not applied: the letters are drawn first.
    typed: Option<String>,
    last_key: Moment,
    on_screen: Vec<Name>,
    /// What the view in front wants read.
    wanted: Option<ObjectRequest>,
    /// Plans that were asked for.
    asked: u64,
    /// The run that was told to stop.
    stopping: Option<String>,
    /// The port-forwards that run.
    pub(crate) port_forwards: Vec<PortForward>,
    /// How the replay stands, where a record is shown.
    pub(crate) timeline: Option<Timeline>,
    /// The moment of the record that was asked for and is not shown yet.
    aim: Option<Moment>,
    /// What the session showed last, while the record of its cluster is shown in its place.
    live_facts: Option<Box<Facts>>,
}

impl App {
    /// A console that knows nothing yet.
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
            held: Held::Live,
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

    /// Takes messages for a picture that no session stands behind: its effects have nothing to be carried out on.
    pub fn picture(&mut self, messages: impl IntoIterator<Item = Msg>) {
        for msg in messages {
            let _ = self.update(msg);
        }
    }

    /// Takes a message and says what is to be done about it.
    #[must_use = "an effect that is not carried out is lost: a plan is never recomputed, a screen never redrawn"]
    pub fn update(&mut self, msg: Msg) -> Vec<Effect> {
        let mut effects = Vec::new();
        match msg {
            Msg::Key(press) => {
                self.last_key = self.clock;
                // The clock of a record may stand still: a notice stays until the next key then.
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
                // Where it could not be gone to, the next step goes from what is shown.
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
            Msg::Usage(usage) => self.told_usage(usage),
            Msg::ActionState(acts) => self.acted(acts),
            Msg::PlanOutcome(number, mut made) => {
                if let PlanOutcome::Plan(plan) = &mut made {
                    table::budgets::foretell(&self.facts, plan);
                }
                if let Overlay::Plan(dialog) = &mut self.overlay {
                    dialog.made(number, made, self.clock);
                }
            }
            Msg::Supposed(changes, supposed) => self.supposed(&changes, supposed),
            Msg::Began(number, run) => self.began(number, run),
            Msg::Read(want, news) => {
                if self.wanted.as_ref() == Some(&want) {
                    let facts = self.facts.clone();
                    self.view_mut().told(&news, &facts);
                }
            }
            Msg::Session(session) => self.session(session),
            Msg::NoSession(why) => self.no_session(why),
            Msg::Rewound(facts, timeline) => self.rewound(*facts, timeline),
            Msg::Live => self.returned(),
            Msg::Changes(name, told) => {
                Arc::make_mut(&mut self.facts.compared).put(name, told);
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
            // Whom the job's page would take the plan takes, where no others lose less by now.
            if let (false, Intent::Admit { job, .. }) = (ask.known.is_read, &ask.intent) {
                ask.known = Known::told(self.facts.answers.victims_of(job));
            }
            effects.push(Effect::Plan(ask));
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
        let mut painter = Painter::new(buf, &self.render_style, self.facts.now);
        let cursor = frame::draw(self, &mut painter, area);
        if self.view().is_unsettled() {
            let left = self.until_quiet().unwrap_or_default();
            painter.wake_in(left.as_millis().max(1) as u64);
        }
        let live = painter.wake().filter(|_| !self.is_frozen());
        let notice = self
            .notice
            .as_ref()
            .map(|(_, until)| Duration::from_millis(until.since(self.clock).millis().max(1)));
        let soon = self.typed.as_ref().map(|_| SOON);
        Drawn {
            cursor,
            wake_after: [soon, live, notice].into_iter().flatten().min(),
        }
    }

    /// The facts that are shown.
    pub const fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Which part of everything is worked in.
    pub const fn scope(&self) -> &Scope {
        &self.scope
    }

    /// What the operator is told just now.
    pub fn notice(&self) -> Option<&str> {
        self.notice.as_ref().map(|(words, _)| words.as_str())
    }

    /// Whose keys are heard.
    pub fn contexts(&self) -> &'static [Context] {
        self.overlay
            .contexts(&self.facts.acts.may)
            .unwrap_or_else(|| self.view().contexts())
    }

    /// The whole screen.
    pub(crate) fn area(&self) -> Rect {
        Rect::new(0, 0, self.size.0, self.size.1)
    }

    /// The room of the view.
    pub fn body(&self) -> Rect {
        frame::body(self.area(), self.timeline.is_some())
    }

    /// What is missing to see everything, the worst first.
    pub fn missing(&self) -> Vec<Missing> {
        missing(&self.facts, self.fault.as_deref())
    }

    fn notify(&mut self, words: String) {
        self.notice = Some((words, self.clock.plus(self.notice_stays())));
    }

    /// A session is there: what was shown of another cluster goes.
    fn session(&mut self, session: Session) {
        self.options.contexts = session.contexts;
        self.scope.namespaces = session.namespaces;
        self.fault = None;
        // Whatever was wanted is read of the new session.
        self.wanted = None;
        self.notice = None;
        if matches!(self.overlay, Overlay::Missing(_)) {
            self.overlay = Overlay::None;
        }
        // Made of another cluster's objects, it must not be confirmed on this one.
        self.close_plan();
        self.held = Held::Live;
        (self.timeline, self.aim, self.live_facts) = (None, None, None);
        self.facts = Facts {
            now: self.clock,
            ..nothing(session.context)
        };
        self.whole = Arc::clone(&self.facts.burn);
        self.keep_to_part();
        self.summarize();
        self.start_over();
        if let Some(words) = session.notice {
            self.notify(words);
        }
    }

    /// Closes a plan that is open: what comes is not what it was made of.
    fn close_plan(&mut self) {
        if matches!(self.overlay, Overlay::Plan(_)) {
            self.overlay = Overlay::None;
            self.notify(format!("the plan for {} is closed", self.facts.context));
        }
    }

    /// No session could be opened. What is shown of another one stays; where nothing is shown, the reason is, with the keys that lead on.
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

    /// True where the view has nothing to show and what is missing is why: that stands in its place, and no key goes there.
    pub(crate) fn shows_missing(&self) -> bool {
        let fleet = &self.facts.fleet;
        let nothing = fleet.nodes.is_empty() && fleet.jobs.is_empty();
        let own = matches!(self.view().id(), ViewId::Plans | ViewId::Sources);
        nothing && !own && self.missing().first().is_some_and(|first| first.grave)
    }

    /// True where the view would be made of lists that are still being read.
    pub(crate) fn is_unread(&self) -> bool {
        let own = matches!(self.view().id(), ViewId::Plans | ViewId::Sources);
        !own && self.summary.unread
    }
}

/// Facts of a cluster that has not answered yet.
fn nothing(context: Name) -> Facts {
    let fleet = Arc::new(Fleet::unknown(Arc::default()));
    Facts {
        now: Moment::default(),
        ..Facts::new(context, fleet, Arc::default())
    }
}
