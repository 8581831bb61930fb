//! What the console looks at: the session that runs, and the one that is being opened in its place.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;

use console::msg::{self, Rewind, Switch};
use model::base::{Exit, Failure, Moment, Name};
use model::object::{self, ObjectRequest};
use table::Facts;
use table::actions::ActionState;
use table::explanations::JobExplanations;
use table::spend::UsageFacts;
use table::timeline::Timeline;

use super::action_task::{ActionEvent, ActionTask};
use super::clock;
use super::past_plans::PastPlans;
use super::playback::{ReplayControl, ReplayEvent};
use super::session::Session;
use super::tape::TapeControl;

/// Said where there is nothing to act on or to show.
pub(super) const UNCONNECTED: &str = "no cluster is connected";

/// How long the end of a recording is waited for.
const PARTING: Duration = Duration::from_secs(2);

/// What to look at.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ConnectionRequest {
    /// Which cluster.
    pub place: ClusterChoice,
    /// Only these namespaces; `None` leaves it to the settings.
    pub namespaces: Option<Vec<Name>>,
}

/// Which cluster.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum ClusterChoice {
    /// The one that the command line names.
    #[default]
    Named,
    /// This context of the kubeconfig.
    Context(Name),
    /// The simulated fleet.
    Demo,
}

impl ConnectionRequest {
    /// What is wished after a switch.
    fn after(&self, switch: &Switch) -> Self {
        match switch {
            Switch::Context(name) => Self {
                place: ClusterChoice::Context(name.clone()),
                namespaces: None,
            },
            Switch::Namespaces(names) => Self {
                place: self.place.clone(),
                namespaces: Some(names.clone()),
            },
            Switch::Demo => Self {
                place: ClusterChoice::Demo,
                namespaces: None,
            },
            Switch::Again => self.clone(),
        }
    }
}

/// A session with what the screen says of it.
pub struct Opened {
    /// The session.
    pub session: Session,
    /// Its context and namespaces, and the contexts that could be chosen instead.
    pub about: msg::Session,
}

/// What comes from the session.
pub enum ConnectionEvent {
    /// Another session runs now.
    Session(msg::Session),
    /// None could be opened, for this reason.
    NoSession(String),
    /// Newer facts, if there are any.
    Facts(Option<Arc<Facts>>),
    /// What the engine says of the work that waits.
    JobExplanations(Arc<JobExplanations>),
    /// What the usage ledger tells.
    Usage(Arc<UsageFacts>),
    /// What the action task reported.
    ActionEvent(ActionEvent),
    /// Something to tell the operator.
    Said(String),
    /// How the replay of a record stands.
    Replay(ReplayEvent),
    /// The record of the running session is shown from now on: its first picture, and how it stands.
    Rewound(Box<Facts>, Timeline),
    /// What came of what a view wanted read.
    Read(ObjectRequest, object::ObjectNews),
}

/// Opens what is wished. Called within a tokio runtime, where it may block.
pub type Open = dyn Fn(&ConnectionRequest) -> Result<Opened, Failure> + Send + Sync;

/// The session that runs, if one does, and the one that is being opened.
pub struct Connections {
    open: Arc<Open>,
    wish: ConnectionRequest,
    /// The running session.
    pub session: Option<Session>,
    opening: Option<(ConnectionRequest, JoinHandle<Result<Opened, Failure>>)>,
    /// The record of the running session, while that is shown in its place.
    past: Option<Session>,
    /// The record that is being opened.
    rewinding: Option<JoinHandle<Result<Session, Failure>>>,
    /// What the running session said last of what may be done, while its record was shown.
    acts: Option<Arc<ActionState>>,
    /// The store has ended: nothing comes any more.
    ended: bool,
    /// The running session was recorded until another was asked for.
    unrecorded: bool,
    /// Why no session runs, where none ever did.
    pub fault: Option<Failure>,
}

impl Connections {
    /// No session yet, and none is being opened.
    pub fn idle(open: Arc<Open>) -> Self {
        Self {
            open,
            wish: ConnectionRequest::default(),
            session: None,
            opening: None,
            past: None,
            rewinding: None,
            acts: None,
            ended: false,
            unrecorded: false,
            fault: None,
        }
    }

    /// Begins to open what the command line names.
    pub fn begin(open: Arc<Open>) -> Self {
        let mut connections = Self::idle(open);
        connections.switch(&Switch::Again);
        connections
    }

    /// Begins to open another session. The running one goes on until that is there; one that was being opened is
    /// forgotten.
    pub fn switch(&mut self, switch: &Switch) {
        let wish = self.wish.after(switch);
        let (open, asked) = (Arc::clone(&self.open), wish.clone());
        // Two sessions of one cluster cannot both record: the running one goes on without.
        let session = self.session.as_mut();
        let recording = session.and_then(|session| session.recording.take());
        self.unrecorded |= recording.is_some();
        let handle = tokio::runtime::Handle::current();
        let task = tokio::task::spawn_blocking(move || {
            handle.block_on(ended(recording));
            open(&asked)
        });
        self.opening = Some((wish, task));
    }

    /// Waits for what comes next. Pends for ever while no session runs and none is being opened.
    pub async fn news(&mut self) -> ConnectionEvent {
        let done = loop {
            let (shown, beside, ended) = match self.past.is_some() {
                true => (&mut self.past, Some(&mut self.session), false),
                false => (&mut self.session, None, self.ended),
            };
            tokio::select! {
                biased;
                done = finished(&mut self.opening) => break done,
                rewound = joined(&mut self.rewinding) => {
                    self.rewinding = None;
                    return self.rewound(rewound);
                }
                event = heard_beside(beside) => match event {
                    ConnectionEvent::ActionEvent(ActionEvent::ActionState(acts)) => {
                        self.acts = Some(acts);
                    }
                    ConnectionEvent::ActionEvent(ActionEvent::Began(_, Err(why))) => {
                        return ConnectionEvent::Said(why);
                    }
                    // Whoever asked for it has gone into the record meanwhile.
                    ConnectionEvent::ActionEvent(_) => {}
                    other => return other,
                },
                piece = heard(shown, ended) => {
                    if let Some(news) = piece {
                        return news;
                    }
                    // The store has ended: what is on screen stays, and the clock shows its age.
                    self.ended = true;
                    return ConnectionEvent::Facts(None);
                }
            }
        };
        let wish = self.opening.take().map(|(wish, _)| wish);
        match done {
            Ok(opened) => {
                self.wish = wish.unwrap_or_default();
                self.session = Some(opened.session);
                (self.past, self.rewinding, self.acts) = (None, None, None);
                (self.ended, self.unrecorded) = (false, false);
                self.fault = None;
                ConnectionEvent::Session(opened.about)
            }
            Err(failure) => {
                let mut message = failure.message.clone();
                if std::mem::take(&mut self.unrecorded) {
                    message.push_str("; what is shown is no longer recorded");
                }
                if self.session.is_none() {
                    self.fault = Some(failure);
                }
                ConnectionEvent::NoSession(message)
            }
        }
    }

    /// What is on screen: the record of the running session while that is shown, else the session.
    pub fn shown(&self) -> Option<&Session> {
        self.past.as_ref().or(self.session.as_ref())
    }

    /// The same, to be told something.
    pub(super) fn shown_mut(&mut self) -> Option<&mut Session> {
        self.past.as_mut().or(self.session.as_mut())
    }

    /// Begins to open the record of the running session, which goes on.
    ///
    /// # Errors
    /// Why there is none, in words.
    pub(super) fn rewind(&mut self, to: Rewind) -> Result<(), String> {
        let session = self.session.as_ref().ok_or(UNCONNECTED)?;
        let (record, now) = (session.record.clone()?, session.clock.now());
        self.rewinding = Some(tokio::task::spawn_blocking(move || record.open(to, now)));
        Ok(())
    }

    /// Takes the record that was opened.
    fn rewound(&mut self, opened: Result<Session, Failure>) -> ConnectionEvent {
        let mut session = match opened {
            Ok(session) => session,
            Err(failure) => return ConnectionEvent::Said(failure.message),
        };
        let first = session.facts.borrow_and_update().clone();
        match (first, &session.replay) {
            (Some(facts), Some(replay)) => {
                let timeline = replay.timeline.clone();
                self.past = Some(session);
                ConnectionEvent::Rewound(Box::new((*facts).clone()), timeline)
            }
            _ => ConnectionEvent::Said("the record has no picture of that moment".to_owned()),
        }
    }

    /// Shows the running session again, and gives what it said meanwhile, the last of each.
    pub(super) fn live(&mut self) -> Vec<ConnectionEvent> {
        (self.past, self.rewinding) = (None, None);
        let acts = self.acts.take().map(ActionEvent::ActionState);
        let mut events: Vec<_> = acts.map(ConnectionEvent::ActionEvent).into_iter().collect();
        if let Some(session) = &mut self.session {
            let usage = session.usage.borrow_and_update().clone();
            let answers = session.answers.borrow_and_update().clone();
            let facts = session.facts.borrow_and_update().clone();
            events.extend([
                ConnectionEvent::Usage(usage),
                ConnectionEvent::JobExplanations(answers),
                ConnectionEvent::Facts(facts),
            ]);
        }
        events
    }

    /// Ends what is recorded: what is left is written.
    pub async fn close(&mut self) {
        let session = self.session.as_mut();
        ended(session.and_then(|session| session.recording.take())).await;
    }

    /// The moment on the clock of what is on screen: the server's, or the record's.
    pub fn now(&self) -> Moment {
        match self.shown() {
            Some(session) => session.clock.now(),
            None => clock::now(),
        }
    }
}

/// Waits for the session that is being opened.
async fn finished(
    opening: &mut Option<(ConnectionRequest, JoinHandle<Result<Opened, Failure>>)>,
) -> Result<Opened, Failure> {
    let Some((_, task)) = opening else {
        return std::future::pending().await;
    };
    task.await
        .unwrap_or_else(|error| Err(Failure::new(Exit::Failed, format!("cannot start: {error}"))))
}

/// Waits for the record that is being opened.
async fn joined(
    rewinding: &mut Option<JoinHandle<Result<Session, Failure>>>,
) -> Result<Session, Failure> {
    let Some(task) = rewinding else {
        return std::future::pending().await;
    };
    task.await
        .unwrap_or_else(|error| Err(Failure::new(Exit::Failed, format!("cannot open: {error}"))))
}

/// Waits for what a session reports while its record is shown: how its recording goes and what its runs do. Facts wait.
async fn heard_beside(session: Option<&mut Option<Session>>) -> ConnectionEvent {
    let Some(Some(session)) = session else {
        return std::future::pending().await;
    };
    tokio::select! {
        words = recorded(&mut session.recording) => ConnectionEvent::Said(words),
        event = done(&mut session.actions) => ConnectionEvent::ActionEvent(event),
    }
}

/// Waits for newer facts, or for what came of a want; nothing when no facts will come any more.
async fn heard(session: &mut Option<Session>, ended: bool) -> Option<ConnectionEvent> {
    let Some(session) = session else {
        return std::future::pending().await;
    };
    let facts = &mut session.facts;
    let answers = &mut session.answers;
    let usage = &mut session.usage;
    let counted = async {
        if usage.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    let answered = async {
        if answers.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    let changed = async {
        if ended {
            return std::future::pending().await;
        }
        facts.changed().await
    };
    tokio::select! {
        biased;
        changed = changed => changed.ok()?,
        () = answered => {
            let latest = session.answers.borrow_and_update().clone();
            return Some(ConnectionEvent::JobExplanations(latest));
        }
        () = counted => {
            let latest = session.usage.borrow_and_update().clone();
            return Some(ConnectionEvent::Usage(latest));
        }
        words = recorded(&mut session.recording) => return Some(ConnectionEvent::Said(words)),
        event = played(&mut session.replay) => return Some(ConnectionEvent::Replay(event)),
        event = planned(&mut session.past_plans) => return Some(ConnectionEvent::ActionEvent(event)),
        deed = done(&mut session.actions) => return Some(ConnectionEvent::ActionEvent(deed)),
        (want, news) = session.reading.next() => return Some(ConnectionEvent::Read(want, news)),
    }
    Some(ConnectionEvent::Facts(
        session.facts.borrow_and_update().clone(),
    ))
}

/// Waits for news of a recording; forever where nothing is recorded.
async fn recorded(recording: &mut Option<TapeControl>) -> String {
    if let Some(control) = recording
        && let Some(words) = control.news().await
    {
        return words;
    }
    std::future::pending().await
}

/// Writes what is left of a recording.
async fn ended(recording: Option<TapeControl>) {
    if let Some(mut control) = recording {
        // A disk that hangs must not block the console.
        let _ = tokio::time::timeout(PARTING, control.stop()).await;
    }
}

/// Waits for a replay; forever where there is none.
async fn played(replay: &mut Option<ReplayControl>) -> ReplayEvent {
    match replay {
        Some(replay) => replay.next().await,
        None => std::future::pending().await,
    }
}

/// Waits for the action task; forever where the session has none.
async fn done(actions: &mut Option<ActionTask>) -> ActionEvent {
    match actions {
        Some(actions) => actions.next().await,
        None => std::future::pending().await,
    }
}

/// Waits for the plans of a record; forever where a cluster is looked at.
async fn planned(plans: &mut Option<PastPlans>) -> ActionEvent {
    match plans {
        Some(plans) => plans.next().await,
        None => std::future::pending().await,
    }
}
