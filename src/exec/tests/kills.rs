//! Tests: processes killed at any point, lost answers, and undo.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;

use crate::history::{Run, Trace, runs};
use crate::journal::Pages;
use crate::machine::{Machine, Note, RunCommand, RunEnd};
use crate::record::{ClusterIdentity, JournalLine, Record, Who};
use crate::response::{ResponseKind, ServerResponse};
use model::base::Moment;
use model::plan::{Plan, Until, Wait, WaitOrder};

use super::{World, evict, failed, go, plan, suspend};

/// A journal in memory, written as `run` writes it.
fn begin(plan: &Plan) -> Vec<JournalLine> {
    vec![line(Record::Begin {
        cluster: ClusterIdentity {
            context: "c".into(),
            server: String::new(),
            uid: String::new(),
        },
        who: Who {
            user: "ana".into(),
            local: "ana".into(),
        },
        reason: "why".into(),
        plan: Box::new(plan.clone()),
    })]
}

fn line(record: Record) -> JournalLine {
    JournalLine {
        at: Moment::from_seconds(1),
        run: "r".into(),
        record,
    }
}

fn past(lines: &[JournalLine]) -> Run {
    // Through JSON, as from disk.
    let lines = lines
        .iter()
        .map(|line| {
            let text = serde_json::to_string(line).expect("serializes");
            serde_json::from_str(&text).expect("reads back")
        })
        .collect();
    let pages = Pages {
        lines,
        unreadable: 0,
    };
    runs(&pages).pop().expect("a run")
}

/// Carries out a plan in several processes: each is killed after the given number of actions, except the last.
fn with_kills(
    plan: &Plan,
    world: &mut World,
    lives: &[u32],
    losses: &[bool],
) -> (RunEnd, Vec<JournalLine>) {
    let mut lines = begin(plan);
    let mut losses = losses.iter().copied().cycle();
    for life in lives.iter().copied().chain([u32::MAX]) {
        let past = past(&lines);
        let mut machine = Machine::new("r", plan, &BTreeMap::new()).with_items(past.items());
        let mut left = life;
        let mut killed = false;
        while !killed {
            // The process may be killed at each point between two lines of `run::drive`.
            killed = 'life: {
                macro_rules! point {
                    () => {
                        if left == 0 {
                            break 'life true;
                        }
                        left -= 1;
                    };
                }
                point!();
                match machine.next(world.now) {
                    RunCommand::Read(object) => {
                        let seen = world.read(&object);
                        machine.read(world.now, seen);
                    }
                    RunCommand::Write {
                        step,
                        attempt,
                        call,
                        before,
                    } => {
                        lines.push(line(Record::Intent {
                            step,
                            attempt,
                            call: (*call).clone(),
                            before,
                        }));
                        point!();
                        let lost = losses.next().unwrap_or(false);
                        let answer = world.write(&call);
                        point!();
                        let answer = if lost {
                            ServerResponse::none("reset")
                        } else {
                            answer
                        };
                        let accepted = match answer.verdict(&call) {
                            ResponseKind::Accepted => Some(true),
                            ResponseKind::Unknown(_) => None,
                            _ => Some(false),
                        };
                        lines.push(line(Record::Answer {
                            step,
                            attempt,
                            code: answer.code,
                            accepted,
                            words: String::new(),
                        }));
                        point!();
                        machine.answered(world.now, &answer);
                    }
                    RunCommand::Sleep(until) => world.now = until,
                    RunCommand::End(end) => {
                        lines.push(line(Record::End { end: end.clone() }));
                        return (end, lines);
                    }
                }
                for note in machine.notes() {
                    point!();
                    lines.push(line(match note {
                        Note::Resolved { step, done } => Record::Resolved { step, done },
                        Note::Waits { step, words } => Record::Waits { step, words },
                        Note::Finished { step, how, words } => {
                            Record::Finished { step, how, words }
                        }
                    }));
                }
                false
            };
        }
    }
    panic!("the last process is not killed")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn no_kill_or_lost_response_repeats_a_step(
        lives in prop::collection::vec(0_u32..25, 0..12),
        losses in prop::collection::vec(any::<bool>(), 1..8),
        blocked in prop::collection::vec(0_i64..400, 4),
    ) {
        let mut last = suspend("e");
        last.needs = vec![1, 3];
        let mut free = evict("a");
        free.waits.push(Wait::new(WaitOrder::Before, Until::Budget));
        let plan = plan(vec![free, suspend("b"), evict("c"), evict("d"), last]);
        let mut world = World::new(&plan);
        for (name, seconds) in ["a", "c", "d"].iter().zip(&blocked) {
            world.blocked.insert((*name).to_owned(), world.now.plus(Duration::from_secs(*seconds as u64)));
        }
        let (end, lines) = with_kills(&plan, &mut world, &lives, &losses);
        prop_assert_eq!(end, RunEnd::Done);
        let mut done = world.carried_out.clone();
        done.sort();
        prop_assert_eq!(done, ["a", "b", "c", "d", "e"], "each once");
        let past = past(&lines);
        prop_assert_eq!(&past.end, &Some(RunEnd::Done));
        for trace in &past.steps {
            prop_assert!(trace.over.is_some() && trace.has_written(), "the journal tells the truth: {:?}", trace);
        }
        prop_assert!(past.can_go_on().is_err(), "nothing is left");
    }
}

#[test]
fn undo_restores_written_fields_and_lists_what_it_cannot_restore() {
    let plan = plan(vec![suspend("a"), evict("b"), suspend("c")]);
    let mut world = World::new(&plan);
    let (_, lines) = with_kills(&plan, &mut world, &[], &[false]);
    let past = past(&lines);
    let undo = past
        .undo(Moment::from_seconds(2000))
        .expect("can be taken back");
    let objects: Vec<&str> = undo.steps.iter().map(|step| &*step.object.name).collect();
    assert_eq!(objects, ["c", "a"], "the last first");
    assert_eq!(undo.steps[1].needs, [1]);
    assert!(
        undo.warnings.iter().any(|w| w.contains("evicted pod")),
        "{:?}",
        undo.warnings
    );
    undo.validate().expect("is well formed");
    let (end, _) = go(&undo, &mut world);
    assert_eq!(end, RunEnd::Done);
    for name in ["a", "c"] {
        assert_eq!(world.objects[name]["spec"]["suspend"], false);
    }
    // Another client has resumed it: undo does not overwrite that.
    let (end, _) = go(&undo, &mut world);
    assert_eq!(failed(&end).0, 1);
    let nothing = Run {
        steps: vec![Trace::default(); 3],
        ..past
    };
    assert!(nothing.undo(Moment::from_seconds(0)).is_err());
}
