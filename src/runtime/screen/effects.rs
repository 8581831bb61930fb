//! The console without its terminal: turns session events into messages, and carries out effects on the session.

use std::collections::VecDeque;

use console::action_keys::PlanOutcome;
use console::{App, Effect, Msg};
use model::base::Moment;
use table::Facts;
use table::what_if::Supposed;

use crate::runtime::actions::action_task::{ActionEvent, ActionTask};
use crate::runtime::actions::past_plans::{self, PastPlans, RECORDED};
use crate::runtime::connection::{ConnectionEvent, Connections, UNCONNECTED};
use crate::runtime::kubectl::Kubectl;
use crate::runtime::records::playback::ReplayEvent;

/// A session event as a message for the console; `None` when there is nothing new to show.
pub fn message(news: ConnectionEvent) -> Option<Msg> {
    match news {
        ConnectionEvent::Facts(latest) => latest.map(|facts| Msg::Facts((*facts).clone())),
        ConnectionEvent::JobExplanations(answers) => Some(Msg::JobExplanations(answers)),
        ConnectionEvent::Usage(usage) => Some(Msg::Usage(usage)),
        ConnectionEvent::ActionEvent(ActionEvent::ActionState(acts)) => {
            Some(Msg::ActionState(acts))
        }
        ConnectionEvent::ActionEvent(ActionEvent::PlanOutcome(number, made)) => {
            Some(Msg::PlanOutcome(number, made))
        }
        ConnectionEvent::ActionEvent(ActionEvent::Supposed(changes, supposed)) => {
            Some(Msg::Supposed(changes, supposed))
        }
        ConnectionEvent::ActionEvent(ActionEvent::Began(number, run)) => {
            Some(Msg::Began(number, run))
        }
        ConnectionEvent::Session(about) => Some(Msg::Session(about)),
        ConnectionEvent::NoSession(why) => Some(Msg::NoSession(why)),
        ConnectionEvent::Replay(ReplayEvent::Timeline(timeline)) => Some(Msg::Timeline(timeline)),
        ConnectionEvent::Replay(ReplayEvent::Changes(name, compared)) => {
            Some(Msg::Changes(name, compared))
        }
        ConnectionEvent::Rewound(facts, timeline) => Some(Msg::Rewound(facts, timeline)),
        ConnectionEvent::Said(words) | ConnectionEvent::Replay(ReplayEvent::Said(words)) => {
            Some(Msg::Notice(words))
        }
        ConnectionEvent::Read(want, news) => Some(Msg::Read(want, news)),
    }
}

/// The action task of the session on screen; a record has none.
fn action_task(connections: &mut Connections) -> Option<&mut ActionTask> {
    connections.shown_mut()?.actions.as_mut()
}

/// The planners of the session on screen: those of a record, or those of the cluster.
fn planner(connections: &Connections) -> (Option<&PastPlans>, Option<&ActionTask>) {
    match connections.shown() {
        Some(session) => (session.past_plans.as_ref(), session.actions.as_ref()),
        None => (None, None),
    }
}

/// Why no action is possible on the session on screen.
fn inactive(connections: &Connections) -> &'static str {
    match connections.shown() {
        Some(_) => RECORDED,
        None => UNCONNECTED,
    }
}

/// What opens shells and port-forwards on the cluster of the running session.
///
/// # Errors
/// Why neither can be opened.
pub fn kubectl(connections: &Connections) -> Result<&Kubectl, String> {
    let session = connections.shown();
    let actions = session.and_then(|session| session.actions.as_ref());
    actions.ok_or_else(|| inactive(connections))?.kubectl()
}

/// Delivers a message to the console, carries out each effect that results with `perform`, and delivers the messages of that,
/// until no effect is left. The only place where effects are carried out (`tests/repository/workspace.rs`).
///
/// # Errors
/// Those of `perform`; the remaining effects are then not carried out.
pub fn deliver<E>(
    app: &mut App,
    msg: Msg,
    mut perform: impl FnMut(Effect) -> Result<Vec<Msg>, E>,
) -> Result<(), E> {
    let mut due = VecDeque::from([msg]);
    while let Some(msg) = due.pop_front() {
        for effect in app.update(msg) {
            due.extend(perform(effect)?);
        }
    }
    Ok(())
}

/// The messages to the console after it was suspended: the terminal's size, a full repaint, and the time.
pub fn resumed(width: u16, height: u16, now: Moment) -> Vec<Msg> {
    vec![Msg::Resize(width, height), Msg::Resume, Msg::Tick(now)]
}

/// Carries out an effect on the session and returns the resulting messages. Effects on the terminal or on files (quit, shells, the
/// clipboard, screenshots, silenced findings) and port-forwards, which outlive sessions, are ignored here.
pub fn perform(connections: &mut Connections, effect: Effect) -> Vec<Msg> {
    let why = inactive(connections);
    let unconnected = || String::from(why);
    match effect {
        Effect::Switch(switch) => {
            // (The running session, even while its record is shown.)
            let session = connections.session.as_ref();
            let actions = session.and_then(|session| session.actions.as_ref());
            if let Some(run) = actions.and_then(ActionTask::goes_on) {
                return vec![Msg::Notice(format!(
                    "not now: {run} is in progress and would be interrupted; wait for its end or stop it in view 9"
                ))];
            }
            connections.switch(&switch);
        }
        Effect::Refresh => {
            let Some(session) = connections.shown_mut() else {
                return vec![Msg::Notice(unconnected())];
            };
            if let Some(actions) = &session.actions {
                actions.look();
            }
            let Some(sources) = &mut session.sources else {
                let words = "this is a record: there is nothing to read again";
                return vec![Msg::Notice(words.to_owned())];
            };
            return vec![Msg::Notice(match sources.read_again() {
                Ok(()) => String::from(
                    "reading every source again; an exporter only when it has new values",
                ),
                Err(left) => format!(
                    "every source has just been read again; possible again in {} s",
                    left.as_millis().div_ceil(1000)
                ),
            })];
        }
        Effect::Plan(ask) => match planner(connections) {
            (Some(plans), _) => plans.plan(ask),
            (None, Some(actions)) => actions.plan(ask),
            (None, None) => {
                return vec![Msg::PlanOutcome(
                    ask.number,
                    PlanOutcome::Failed(unconnected()),
                )];
            }
        },
        Effect::Suppose(changes) => match planner(connections) {
            (Some(plans), _) => plans.suppose(changes),
            (None, Some(actions)) => actions.suppose(changes),
            (None, None) => return vec![Msg::Supposed(changes, Supposed::Failed(unconnected()))],
        },
        Effect::CarryOut(order) => match action_task(connections) {
            Some(actions) => actions.carry_out(*order),
            None => return vec![Msg::Began(order.number, Err(unconnected()))],
        },
        Effect::GoOn(run) => match action_task(connections) {
            Some(actions) => actions.go_on(run),
            None => return vec![Msg::Notice(unconnected())],
        },
        Effect::Stop(run) => {
            if !action_task(connections).is_some_and(|actions| actions.stop(&run)) {
                let words = format!("{run} is not run by this console");
                return vec![Msg::Notice(words)];
            }
        }
        Effect::Replay(playback) => {
            let session = connections.shown();
            if let Some(replay) = session.and_then(|session| session.replay.as_ref()) {
                replay.send(playback);
            }
        }
        Effect::Rewind(to) => {
            if let Err(why) = connections.rewind(to) {
                return vec![Msg::Notice(why)];
            }
        }
        Effect::Live => {
            let events = connections.live();
            let now = Msg::Tick(connections.now());
            let news = events.into_iter().filter_map(message);
            return [Msg::Live, now].into_iter().chain(news).collect();
        }
        Effect::Read(want) => {
            if let Some(session) = connections.shown_mut() {
                session.reading.set_request(want);
            }
        }
        Effect::OnScreen(nodes) => {
            if let Some(session) = connections.shown() {
                let nodes = nodes.into_iter().collect();
                session.on_screen.send_if_modified(|shown| {
                    let differs = *shown != nodes;
                    if differs {
                        *shown = nodes;
                    }
                    differs
                });
            }
        }
        Effect::Quit
        | Effect::Leave
        | Effect::Suspend
        | Effect::Shell(_)
        | Effect::PortForward(..)
        | Effect::StopPortForward(_)
        | Effect::Redraw
        | Effect::Copy(_)
        | Effect::Hush(..)
        | Effect::SavePicture(_) => {}
    }
    Vec::new()
}

/// What a picture of one moment answers to an effect: plans and what-ifs on its facts. Nothing else can be carried out there.
pub fn answer(facts: &Facts, effect: Effect) -> Option<Msg> {
    match effect {
        Effect::Plan(ask) => {
            let made = past_plans::outcome(Some(facts), &ask);
            Some(Msg::PlanOutcome(ask.number, made))
        }
        Effect::Suppose(changes) => {
            let supposed = Supposed::of(facts, &changes);
            Some(Msg::Supposed(changes, supposed))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::time::Duration;

    use super::*;
    use console::msg::SessionInfo;
    use console::{AppOptions, Key, KeyPress};
    use model::base::Name;
    use model::plan::Plan;
    use table::navigation::ViewId;

    /// A console on a fleet, and the effects that it has requested. Each requested plan is made at once.
    struct Bench {
        app: App,
        done: Vec<Effect>,
    }

    impl Bench {
        fn new() -> Self {
            let mut app = App::new(AppOptions {
                view: ViewId::Nodes,
                ..AppOptions::default()
            });
            let facts = table::sample::facts();
            app.picture([
                Msg::Resize(120, 40),
                Msg::Tick(facts.now),
                Msg::Facts(facts),
            ]);
            let done = Vec::new();
            Self { app, done }
        }

        fn update(&mut self, msg: Msg) -> &mut Self {
            let (done, now) = (&mut self.done, self.app.present());
            let delivered: Result<(), Infallible> = deliver(&mut self.app, msg, |effect| {
                done.push(effect.clone());
                Ok(match effect {
                    Effect::Plan(ask) => {
                        let plan = Plan::new("drain", ask.intent, now);
                        vec![Msg::PlanOutcome(
                            ask.number,
                            PlanOutcome::Plan(Box::new(plan)),
                        )]
                    }
                    _ => Vec::new(),
                })
            });
            let Ok(()) = delivered;
            self
        }

        fn plans(&self) -> usize {
            let is_plan = |effect: &&Effect| matches!(effect, Effect::Plan(_));
            self.done.iter().filter(is_plan).count()
        }
    }

    #[test]
    fn an_open_plan_is_recomputed_on_the_next_change() {
        let mut bench = Bench::new();
        bench.update(Msg::Key(KeyPress::char('D')));
        assert_eq!(bench.plans(), 1);
        let mut facts = bench.app.facts().clone();
        let later = |seconds| bench.app.present().plus(Duration::from_secs(seconds));
        let (seven, fourteen) = (later(7), later(14));
        facts.now = fourteen;
        bench.update(Msg::Tick(seven));
        assert_eq!(bench.plans(), 2, "after seven seconds");
        // The facts advance the time; the notice would have hidden this prompt before.
        bench
            .update(Msg::Facts(facts))
            .update(Msg::Notice(String::new()));
        assert_eq!(bench.plans(), 3, "and after seven more");
        bench.update(Msg::Notice(String::new()));
        assert_eq!(bench.plans(), 3, "no sooner than that");
    }

    #[test]
    fn a_plan_for_one_cluster_is_closed_when_another_is_opened() {
        let mut bench = Bench::new();
        bench.update(Msg::Key(KeyPress::char('D')));
        bench.update(Msg::Session(SessionInfo {
            context: Name::new("other"),
            ..SessionInfo::default()
        }));
        let later = bench.app.present().plus(Duration::from_secs(7));
        bench.update(Msg::Tick(later));
        assert_eq!(bench.plans(), 1, "nothing is planned any more");
        bench.update(Msg::Key(KeyPress::plain(Key::Enter)));
        let sent = |effect: &Effect| matches!(effect, Effect::CarryOut(_));
        assert!(!bench.done.iter().any(sent), "{:?}", bench.done);
    }

    #[test]
    fn coming_back_to_the_foreground_paints_the_screen_anew() {
        let mut bench = Bench::new();
        for msg in resumed(100, 30, bench.app.present()) {
            bench.update(msg);
        }
        assert!(bench.done.contains(&Effect::Redraw), "{:?}", bench.done);
    }
}
