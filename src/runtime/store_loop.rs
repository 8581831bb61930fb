//! Store loop, the only owner of the ledger: takes observations, publishes facts at most ten times a second during the first
//! lists, later only as often as it is cheap.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use exec::blocking;
use model::fleet::observe::Observation;
use table::Facts;
use table::changes::ChangeLog;

use super::clock::SessionClock;
use super::records::recorder::Tape;
use super::store::{Rules, Store};

/// Shortest interval between facts during the first lists, so that progress is visible.
const SPACING: Duration = Duration::from_millis(100);

/// Interval between facts without any observation: sources and readings become stale.
const TICK: Duration = Duration::from_secs(5);

/// Runs until every source has ended or the receiver is dropped. Begins with the state that the tape's record hands on, else the record
/// in the directory `remembered`.
pub async fn run(
    rules: Rules,
    clock: SessionClock,
    mut tape: Option<Tape>,
    remembered: Option<PathBuf>,
    mut seen: mpsc::Receiver<Vec<Observation>>,
    out: watch::Sender<Option<Arc<Facts>>>,
) {
    let mut store = Store::new(rules);
    match (&mut tape, remembered) {
        (Some(tape), _) => store.recall(tape.take_recalled()),
        (None, Some(folder)) => {
            let context = store.rules.context.clone();
            store.recall(blocking(|| record::recalled(&folder, Some(&context))));
        }
        (None, None) => {}
    }
    // Of a single snapshot nothing is compared.
    let mut log = (!store.rules.one_look).then(ChangeLog::default);
    let mut before: Option<Arc<Facts>> = None;
    let mut batches: Vec<Vec<Observation>> = Vec::new();
    let (mut dirty, mut changed) = (false, false);
    let mut last = Instant::now();
    // Interval between facts: after a change in the cluster, and where only readings have come.
    let (mut soon, mut later) = (SPACING, SPACING);
    let refresh = store.rules.refresh;
    loop {
        let spacing = if changed { soon } else { later };
        let next = last + if dirty { spacing } else { TICK.max(spacing) };
        tokio::select! {
            count = seen.recv_many(&mut batches, 64) => {
                if count == 0 {
                    break;
                }
                for mut observation in batches.drain(..).flatten() {
                    if let Some(tape) = &mut tape {
                        tape.see(clock.now(), &mut observation);
                    }
                    let changes_fleet = !matches!(
                        observation,
                        Observation::Page(_)
                            | Observation::Source(_)
                            | Observation::ExportersFound
                            | Observation::Skew(_)
                    );
                    let visible = store.apply(observation);
                    dirty |= visible;
                    changed |= visible && changes_fleet;
                }
                if last.elapsed() < if changed { soon } else { later } {
                    continue;
                }
            }
            () = sleep_until(next) => {}
            () = stopped(&mut tape) => {
                // The session continues without being recorded.
                if let Some(mut tape) = tape.take() {
                    tape.close();
                }
            }
        }
        let begun = Instant::now();
        let facts = blocking(|| {
            let now = clock.now();
            let mut facts = store.publish(tape.as_mut().map_or(now, |tape| tape.stamp(now)));
            let found = store.take_found();
            if let Some(tape) = &mut tape {
                for mut one in found {
                    tape.see(now, &mut one);
                }
                let judged = store.has_judged(facts.now);
                tape.published(&store, &facts, judged);
            }
            if let Some(log) = &mut log {
                log.see(before.as_deref(), &facts);
                facts.changes = log.seen();
            }
            Arc::new(facts)
        });
        (dirty, changed) = (false, false);
        last = Instant::now();
        // For a single snapshot each reading is published as it comes.
        let calm = facts.fleet.is_complete() && !store.rules.one_look;
        let floor = if calm { refresh } else { SPACING };
        soon = pause(last - begun, calm, false).max(floor);
        later = pause(last - begun, calm, true).max(floor);
        before = log.is_some().then(|| Arc::clone(&facts));
        if out.send(Some(facts)).is_err() {
            break;
        }
    }
    if let Some(tape) = &mut tape {
        tape.close();
    }
}

/// Resolves when the recording must end; pends forever where nothing is recorded.
async fn stopped(tape: &mut Option<Tape>) {
    match tape {
        Some(tape) => tape.stopped().await,
        None => std::future::pending().await,
    }
}

/// Pause after facts that took `cost` to build. During the first lists, building takes at most a fifth of the time; later a hundredth,
/// with a longest pause of one second after a change and three seconds for readings, which arrive all the time and are seconds old anyway.
fn pause(cost: Duration, complete: bool, readings_only: bool) -> Duration {
    let first = SPACING.max(cost * 4);
    if complete {
        let (share, most) = if readings_only { (300, 3) } else { (100, 1) };
        (cost * share).clamp(first, first.max(Duration::from_secs(most)))
    } else {
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_costly_fleet_is_shown_less_often_but_never_held_back_for_long() {
        let ms = Duration::from_millis;
        assert_eq!(pause(ms(1), true, false), ms(100));
        assert_eq!(pause(ms(8), true, false), ms(800));
        assert_eq!(pause(ms(8), false, false), ms(100));
        assert_eq!(pause(ms(100), true, false), ms(1_000));
        assert_eq!(pause(ms(100), false, false), ms(400));
        assert_eq!(pause(ms(500), true, false), ms(2_000));
        // Readings alone can wait.
        assert_eq!(pause(ms(1), true, true), ms(300));
        assert_eq!(pause(ms(8), true, true), ms(2_400));
        assert_eq!(pause(ms(100), true, true), ms(3_000));
        assert_eq!(pause(ms(100), false, true), ms(400));
    }
}
