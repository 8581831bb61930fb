//! Connections of the console: the running session, and the one that is being opened to replace it.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;

use console::msg::{self, Rewind, Switch};
use model::base::{Exit, Failure, Moment, Name};
use model::object::{self, ObjectRequest};
use source::api_stats::Clock;
use table::Facts;
use table::actions::ActionState;
use table::spend::UsageFacts;
use table::timeline::Timeline;
use table::waiting::explanations::JobExplanations;

use super::actions::action_task::{ActionEvent, ActionTask};
use super::actions::past_plans::PastPlans;
use super::records::playback::{ReplayControl, ReplayEvent};
use super::records::recorder::TapeControl;
use super::session::Session;

/// Message where no cluster is connected.
pub(super) const UNCONNECTED: &str = "no cluster is connected";

/// How long to wait for a recording to end.
const PARTING: Duration = Duration::from_secs(2);

/// Cluster and namespaces to open.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ConnectionRequest {
    pub place: ClusterChoice,
    /// Only these namespaces; `None` leaves it to the settings.
    pub namespaces: Option<Vec<Name>>,
}

/// Only these namespaces; `None` uses the settings.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum ClusterChoice {
    /// The cluster of the command line.
    #[default]
    Named,
    /// A context of the kubeconfig.
    Context(Name),
    Demo,
}

impl ConnectionRequest {
    /// The request that follows from a switch.
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

/// A session with its description for the screen.
pub struct Opened {
    pub session: Session,
    /// Its context and namespaces, and the contexts that can be selected instead.
    pub about: msg::SessionInfo,
}

/// An event of the session.
pub enum ConnectionEvent {
    /// Another session runs now.
    Session(msg::SessionInfo),
    /// No session could be opened, and why.
    NoSession(String),
    /// Newer facts, if any.
    Facts(Option<Arc<Facts>>),
    /// The engine's explanations of pending jobs.
    JobExplanations(Arc<JobExplanations>),
    /// Facts from the usage ledger.
    Usage(Arc<UsageFacts>),
    /// An event of the action task.
    ActionEvent(ActionEvent),
    /// A message to the operator.
    Said(String),
    /// State of the replay of a record.
    Replay(ReplayEvent),
    /// The record of the running session is shown now: its first facts and its timeline.
    Rewound(Box<Facts>, Timeline),
    /// Answer to a view's read request.
    Read(ObjectRequest, object::ObjectNews),
}

/// Opens the requested session. Called within a tokio runtime, on a thread that may block.
pub type Open = dyn Fn(&ConnectionRequest) -> Result<Opened, Failure> + Send + Sync;

/// The running session, if any, and the one that is being opened.
pub struct Connections {
    open: Arc<Open>,
    /// The host's clock, until there is a session.
    clock: Clock,
    request: ConnectionRequest,
    pub session: Option<Session>,
    opening: Option<(ConnectionRequest, JoinHandle<Result<Opened, Failure>>)>,
    /// The record of the running session, while it is shown instead.
    past: Option<Session>,
    /// The record that is being opened.
    rewinding: Option<JoinHandle<Result<Session, Failure>>>,
    /// The last action state of the running session while its record was shown.
    acts: Option<Arc<ActionState>>,
    /// The store has ended: no more facts will come.
    ended: bool,
    /// The running session was recorded until another one was requested.
    unrecorded: bool,
    /// Why no session runs, where none ever did.
    pub fault: Option<Failure>,
}

impl Connections {
    /// No session, and none is being opened.
    pub fn idle(open: Arc<Open>, clock: Clock) -> Self {
        Self {
            open,
            clock,
            request: ConnectionRequest::default(),
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

    /// Begins to open the session of the command line.
    pub fn begin(open: Arc<Open>, clock: Clock) -> Self {
        let mut connections = Self::idle(open, clock);
        connections.switch(&Switch::Again);
        connections
    }

    /// Begins to open another session. The running one continues until the new one is open; an earlier one that was still
    /// being opened is dropped.
    pub fn switch(&mut self, switch: &Switch) {
        let request = self.request.after(switch);
        let (open, asked) = (Arc::clone(&self.open), request.clone());
        // Two sessions of one cluster cannot both record: the running one continues without recording.
        let session = self.session.as_mut();
        let recording = session.and_then(|session| session.recording.take());
        self.unrecorded |= recording.is_some();
        let handle = tokio::runtime::Handle::current();
        let task = tokio::task::spawn_blocking(move || {
            handle.block_on(ended(recording));
            open(&asked)
        });
        self.opening = Some((request, task));
    }

    /// Waits for the next event. Pends forever while no session runs and none is being opened.
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
                    // The view that requested it shows the record meanwhile.
                    ConnectionEvent::ActionEvent(_) => {}
                    other => return other,
                },
                piece = heard(shown, ended) => {
                    if let Some(news) = piece {
                        return news;
                    }
                    // The store has ended: the screen keeps the last facts, and the clock shows their age.
                    self.ended = true;
                    return ConnectionEvent::Facts(None);
                }
            }
        };
        let request = self.opening.take().map(|(request, _)| request);
        match done {
            Ok(opened) => {
                self.request = request.unwrap_or_default();
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

    /// The session on screen: the record of the running session while it is shown, else the running session.
    pub fn shown(&self) -> Option<&Session> {
        self.past.as_ref().or(self.session.as_ref())
    }

    pub(super) fn shown_mut(&mut self) -> Option<&mut Session> {
        self.past.as_mut().or(self.session.as_mut())
    }

    /// Begins to open the record of the running session, which continues.
    ///
    /// # Errors
    /// Why there is no record to open.
    pub(super) fn rewind(&mut self, to: Rewind) -> Result<(), String> {
        let session = self.session.as_ref().ok_or(UNCONNECTED)?;
        let (record, now) = (session.record.clone()?, session.clock.now());
        self.rewinding = Some(tokio::task::spawn_blocking(move || record.open(to, now)));
        Ok(())
    }

    /// Shows the record that was opened.
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
            _ => ConnectionEvent::Said("the record has no data for that time".to_owned()),
        }
    }

    /// Shows the running session again, and returns the last event of each kind that came meanwhile.
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

    /// Ends the recording: pending data is written.
    pub async fn close(&mut self) {
        let session = self.session.as_mut();
        ended(session.and_then(|session| session.recording.take())).await;
    }

    /// The time of the clock on screen: the server's, or the record's.
    pub fn now(&self) -> Moment {
        match self.shown() {
            Some(session) => session.clock.now(),
            None => (self.clock)(),
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

/// Waits for the events of a session whose record is shown: its recording and its runs. Facts wait.
async fn heard_beside(session: Option<&mut Option<Session>>) -> ConnectionEvent {
    let Some(Some(session)) = session else {
        return std::future::pending().await;
    };
    tokio::select! {
        words = recorded(&mut session.recording) => ConnectionEvent::Said(words),
        event = done(&mut session.actions) => ConnectionEvent::ActionEvent(event),
    }
}

/// Waits for newer facts or for an answer; `None` when no more facts will come.
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
        finished = done(&mut session.actions) => return Some(ConnectionEvent::ActionEvent(finished)),
        (want, news) = session.reading.next() => return Some(ConnectionEvent::Read(want, news)),
    }
    Some(ConnectionEvent::Facts(
        session.facts.borrow_and_update().clone(),
    ))
}

/// Waits for news of a recording; pends forever where nothing is recorded.
async fn recorded(recording: &mut Option<TapeControl>) -> String {
    if let Some(control) = recording
        && let Some(words) = control.news().await
    {
        return words;
    }
    std::future::pending().await
}

/// Writes the rest of a recording.
async fn ended(recording: Option<TapeControl>) {
    if let Some(mut control) = recording {
        // A hanging disk must not block the console.
        let _ = tokio::time::timeout(PARTING, control.stop()).await;
    }
}

/// Waits for an event of the replay; pends forever without one.
async fn played(replay: &mut Option<ReplayControl>) -> ReplayEvent {
    match replay {
        Some(replay) => replay.next().await,
        None => std::future::pending().await,
    }
}

/// Waits for the action task; pends forever without one.
async fn done(actions: &mut Option<ActionTask>) -> ActionEvent {
    match actions {
        Some(actions) => actions.next().await,
        None => std::future::pending().await,
    }
}

/// Waits for the plans of a record; pends forever on a live cluster.
async fn planned(plans: &mut Option<PastPlans>) -> ActionEvent {
    match plans {
        Some(plans) => plans.next().await,
        None => std::future::pending().await,
    }
}
