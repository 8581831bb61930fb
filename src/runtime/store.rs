//! The store loop: the one owner of the ledger. Observations come in, facts go out: at most ten a second while
//! the first lists come, then as often as costs little.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use model::advice::{self, Advice};
use model::base::{Moment, Name};
use model::cost::{self, Burn, Prices};
use model::fleet::checks;
use model::fleet::history::{History, PastReading};
use model::fleet::observe::{Observation, Past};
use model::fleet::policy::Policy;
use model::fleet::profile::Profiles;
use model::fleet::thresholds::Thresholds;
use model::fleet::{Fleet, Ledger};
use record::{Keyframe, Saved};
use table::Facts;

use super::clock::SessionClock;
use super::tape::Tape;

/// While the first lists come in, facts are published at most once in this time: one sees them come.
const SPACING: Duration = Duration::from_millis(100);

/// With no observation at all, facts are published this often: sources and readings grow stale.
const TICK: Duration = Duration::from_secs(5);

/// Findings are judged at most once in this time, on the server's clock, unless [`Rules::judging`] says otherwise.
pub const JUDGING: Duration = Duration::from_secs(4);

/// History takes a sample at most once in this time, on the server's clock.
const SAMPLING: Duration = Duration::from_secs(15);

/// Everything that the store judges by.
#[derive(Clone)]
pub struct Rules {
    /// Name of the context, for the frame.
    pub context: Name,
    /// Pools, teams, idleness.
    pub policy: Arc<Policy>,
    /// When a finding fires and clears.
    pub thresholds: Arc<Thresholds>,
    /// Prices.
    pub prices: Arc<Prices>,
    /// Once the first lists are there, facts are published at most once in this time.
    pub refresh: Duration,
    /// Findings are judged at most once in this time, on the server's clock: zero for one look, for there is no later picture to bring
    /// them.
    pub judging: Duration,
    /// For one look: each reading is shown as it comes.
    pub one_look: bool,
    /// The last hour is kept: not where nobody looks.
    pub history: bool,
}

/// The ledger with what is derived beside it.
pub struct Store {
    rules: Rules,
    ledger: Ledger,
    judged: Option<Moment>,
    sampled: Option<Moment>,
    checks: checks::State,
    findings: Arc<[model::fleet::finding::Finding]>,
    history: History,
    advice: Arc<[Advice]>,
    /// The profiles that it was made of.
    advised: Arc<Profiles>,
    /// The past that has come before the fleet was complete.
    past: Vec<Past>,
}

/// So much of the past is kept until the fleet is complete; what comes before more of it is not missed.
const PAST_KEPT: usize = 256;

impl Store {
    /// An empty store.
    pub fn new(rules: Rules) -> Self {
        Self {
            ledger: Ledger::new(Arc::clone(&rules.policy)),
            rules,
            judged: None,
            sampled: None,
            checks: checks::State::default(),
            findings: Arc::from([]),
            history: History::default(),
            advice: Arc::default(),
            advised: Arc::default(),
            past: Vec::new(),
        }
    }

    /// Folds one observation; true when something visible may have changed.
    pub fn apply(&mut self, observation: Observation) -> bool {
        match observation {
            Observation::Past(past) => {
                if self.past.len() < PAST_KEPT {
                    self.past.push(*past);
                }
                true
            }
            observation => self.ledger.apply(observation),
        }
    }

    /// What the last observations alone do not say, for a keyframe of a record.
    pub fn saved(&self) -> Saved {
        Saved {
            ledger: self.ledger.save(),
            checks: self.checks.clone(),
        }
    }

    /// Forgets everything and takes what a record knows of one moment. History begins anew.
    pub fn restore(&mut self, keyframe: Keyframe) {
        *self = Self::new(self.rules.clone());
        let at = keyframe.at;
        for observation in keyframe.observations {
            self.ledger.apply(observation);
        }
        self.ledger.restore(keyframe.saved.ledger);
        self.checks = keyframe.saved.checks;
        // It was made of a picture that was judged: findings are those until the next judging.
        self.publish(at);
    }

    /// True when the last picture was of `at` and its checks were run.
    pub fn has_judged(&self, at: Moment) -> bool {
        self.judged == Some(at)
    }

    /// Runs the checks as of `at` without making facts: for moments that are neither shown nor compared.
    pub fn judge(&mut self, at: Moment) {
        self.judged(at);
    }

    /// As [`Store::judge`], and history takes its sample: for moments on the way to one that is shown.
    pub fn pass(&mut self, at: Moment) {
        let fleet = self.judged(at);
        if self.is_sampled(&fleet, at) {
            let burn = cost::burn(&fleet, &self.rules.prices);
            self.sample(&fleet, &burn);
        }
    }

    /// True where it is time for history to take a sample, which it is then given.
    fn is_sampled(&mut self, fleet: &Fleet, at: Moment) -> bool {
        let due = self.rules.history && fleet.is_complete() && due(self.sampled, at, SAMPLING);
        if due {
            self.sampled = Some(at);
        }
        due
    }

    /// The fleet as of `at`, judged where it is time for that.
    fn judged(&mut self, at: Moment) -> Fleet {
        let mut fleet = self.ledger.publish(at);
        if due(self.judged, at, self.rules.judging) {
            self.judged = Some(at);
            self.findings =
                checks::run(&mut self.checks, &fleet, at, &self.rules.thresholds).into();
        }
        fleet.findings = Arc::clone(&self.findings);
        fleet
    }

    /// The facts as of `at`.
    pub fn publish(&mut self, at: Moment) -> Facts {
        let fleet = self.judged(at);
        let burn = cost::burn(&fleet, &self.rules.prices);
        if fleet.is_complete() {
            for past in std::mem::take(&mut self.past) {
                self.remember(&fleet, &past);
            }
        }
        if self.is_sampled(&fleet, at) {
            self.sample(&fleet, &burn);
        }
        self.history.judge(&fleet);
        let profiles = self.history.profiles();
        if !Arc::ptr_eq(profiles, &self.advised) {
            self.advised = Arc::clone(profiles);
            self.advice = advice::advise(&fleet, &burn, profiles).into();
        }
        let context = self.rules.context.clone();
        Facts {
            history: Arc::new(self.history.clone()),
            advice: Arc::clone(&self.advice),
            now: at,
            ..Facts::new(context, Arc::new(fleet), Arc::new(burn))
        }
    }

    /// Fills history with readings of the past.
    fn remember(&mut self, fleet: &Fleet, past: &Past) {
        let mut readings = Vec::new();
        for page in &past.pages {
            for (device, reading) in self.ledger.devices_of(page) {
                readings.push(PastReading {
                    device,
                    at: page.at,
                    signals: reading.signals.clone(),
                });
            }
        }
        self.history.fill(fleet, past.step, &readings);
        if past.last {
            self.history.fill_sums(fleet);
        }
    }

    fn sample(&mut self, fleet: &Fleet, burn: &Burn) {
        self.history.record(fleet, &|pool| {
            let spend = match pool {
                None => Some(burn.total),
                Some(pool) => burn.row(cost::Scope::Pool, pool).map(|row| row.spend),
            };
            // A pool without a price is a gap in the history, not a line at zero.
            spend.map_or((f64::NAN, f64::NAN), |spend| {
                let idle = spend.idle().map_or(f64::NAN, model::base::Rate::usd);
                (spend.burn.usd(), idle)
            })
        });
    }
}

/// How long to wait after a picture that took `cost` to make. While the first lists come, at most a fifth of the
/// time goes into pictures; later a hundredth, but a change is never held back for longer than a second by it, and
/// readings, which trickle in all the time and are many seconds old by nature, for three.
fn pause(cost: Duration, complete: bool, readings_only: bool) -> Duration {
    let first = SPACING.max(cost * 4);
    if complete {
        let (share, most) = if readings_only { (300, 3) } else { (100, 1) };
        (cost * share).clamp(first, first.max(Duration::from_secs(most)))
    } else {
        first
    }
}

/// True at first, after `spacing`, and when the clock went back.
fn due(last: Option<Moment>, at: Moment, spacing: Duration) -> bool {
    last.is_none_or(|last| at < last || at.since(last) >= spacing.into())
}

/// Runs until every source has gone or nobody looks any more.
pub async fn run(
    rules: Rules,
    clock: SessionClock,
    mut tape: Option<Tape>,
    mut seen: mpsc::Receiver<Vec<Observation>>,
    out: watch::Sender<Option<Arc<Facts>>>,
) {
    let mut store = Store::new(rules);
    let mut batches: Vec<Vec<Observation>> = Vec::new();
    let (mut dirty, mut changed) = (false, false);
    let mut last = Instant::now();
    // How far pictures lie apart: after a change in the cluster, and where only readings have come.
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
                    let told = !matches!(
                        observation,
                        Observation::Page(_)
                            | Observation::Source(_)
                            | Observation::ExportersFound
                            | Observation::Skew(_)
                    );
                    let visible = store.apply(observation);
                    dirty |= visible;
                    changed |= visible && told;
                }
                if last.elapsed() < if changed { soon } else { later } {
                    continue;
                }
            }
            () = sleep_until(next) => {}
            () = stopped(&mut tape) => {
                // What is looked at goes on without being recorded.
                if let Some(mut tape) = tape.take() {
                    tape.close();
                }
            }
        }
        let begun = Instant::now();
        let facts = apart(|| {
            let now = clock.now();
            let facts = store.publish(tape.as_mut().map_or(now, |tape| tape.stamp(now)));
            if let Some(tape) = &mut tape {
                let judged = store.has_judged(facts.now);
                tape.published(&store, &facts, judged);
            }
            facts
        });
        (dirty, changed) = (false, false);
        last = Instant::now();
        // Somebody waits for one look: each reading is shown as it comes.
        let calm = facts.fleet.is_complete() && !store.rules.one_look;
        let floor = if calm { refresh } else { SPACING };
        soon = pause(last - begun, calm, false).max(floor);
        later = pause(last - begun, calm, true).max(floor);
        if out.send(Some(Arc::new(facts))).is_err() {
            break;
        }
    }
    if let Some(tape) = &mut tape {
        tape.close();
    }
}

/// Does work that takes a while without keeping others waiting: on a runtime of one thread, as under virtual time, there are none.
fn apart<T>(work: impl FnOnce() -> T) -> T {
    match tokio::runtime::Handle::current().runtime_flavor() {
        tokio::runtime::RuntimeFlavor::CurrentThread => work(),
        _ => tokio::task::block_in_place(work),
    }
}

/// Comes when the recording is to end; never where nothing is recorded.
async fn stopped(tape: &mut Option<Tape>) {
    match tape {
        Some(tape) => tape.stopped().await,
        None => std::future::pending().await,
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
