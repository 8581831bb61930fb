//! The store: the ledger of one cluster, and what is derived from it after each batch of observations.

use std::sync::Arc;
use std::time::Duration;

use ledger::Ledger;
use ledger::checks;
use model::advice::{self, Advice};
use model::base::{Moment, Name};
use model::cost::{self, Prices, SpendRates};
use model::fleet::Fleet;
use model::fleet::history::{History, PastReading};
use model::fleet::observe::{Observation, PastPages};
use model::fleet::policy::Policy;
use model::fleet::profile::Profiles;
use model::fleet::thresholds::Thresholds;
use record::{Keyframe, Saved};
use table::Facts;

/// Shortest interval between two runs of the checks, on the server's clock, unless [`Rules::judging`] differs.
pub const JUDGING: Duration = Duration::from_secs(4);

/// Shortest interval between two samples of the history, on the server's clock.
const SAMPLING: Duration = Duration::from_secs(15);

#[derive(Clone)]
pub struct Rules {
    /// Name of the context, for the screen's header.
    pub context: Name,
    /// Rules of pools, teams and idleness.
    pub policy: Arc<Policy>,
    /// When a finding fires and clears.
    pub thresholds: Arc<Thresholds>,
    pub prices: Arc<Prices>,
    /// Shortest interval between facts after the first lists.
    pub refresh: Duration,
    /// Shortest interval between two runs of the checks, on the server's clock; zero for a single snapshot, which has no later run.
    pub judging: Duration,
    /// For a single snapshot: each reading is published as it comes.
    pub one_look: bool,
    /// Keep the last hour; off without a screen.
    pub history: bool,
}

/// The ledger, and the state derived from it.
pub struct Store {
    pub(super) rules: Rules,
    ledger: Ledger,
    judged: Option<Moment>,
    sampled: Option<Moment>,
    checks: checks::CheckStates,
    findings: Arc<[model::fleet::finding::Finding]>,
    history: History,
    advice: Arc<[Advice]>,
    /// The profiles that the advice was made from.
    advised: Arc<Profiles>,
    /// Past readings that came before the fleet was complete.
    past: Vec<PastPages>,
    /// What past readings say of now, to be recorded.
    found: Vec<Observation>,
}

/// Most past observations kept until the fleet is complete; more are dropped.
const PAST_KEPT: usize = 256;

impl Store {
    pub fn new(rules: Rules) -> Self {
        Self {
            ledger: Ledger::new(Arc::clone(&rules.policy)),
            rules,
            judged: None,
            sampled: None,
            checks: checks::CheckStates::default(),
            findings: Arc::from([]),
            history: History::default(),
            advice: Arc::default(),
            advised: Arc::default(),
            past: Vec::new(),
            found: Vec::new(),
        }
    }

    /// Applies one observation; true when something visible may have changed.
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

    /// State beyond the last observations, for a keyframe of a record.
    pub fn saved(&self) -> Saved {
        Saved {
            ledger: self.ledger.save(),
            checks: self.checks.clone(),
        }
    }

    /// Takes the state that an earlier program handed on. The store must be empty.
    pub(super) fn recall(&mut self, saved: Saved) {
        self.ledger.restore(saved.ledger);
        self.checks = saved.checks;
    }

    /// Replaces the whole state by a keyframe of a record. History begins anew.
    pub fn restore(&mut self, keyframe: Keyframe) {
        *self = Self::new(self.rules.clone());
        let at = keyframe.at;
        for observation in keyframe.observations {
            self.ledger.apply(observation);
        }
        self.ledger.restore(keyframe.saved.ledger);
        self.checks = keyframe.saved.checks;
        // A keyframe is made from facts whose checks were run: these findings stay until the next run.
        self.publish(at);
    }

    /// True when the last facts were those of `at` and the checks were run.
    pub fn has_judged(&self, at: Moment) -> bool {
        self.judged == Some(at)
    }

    /// Runs the checks at `at` without building facts, for times that are neither shown nor compared.
    pub fn judge(&mut self, at: Moment) {
        self.judged(at);
    }

    /// As [`Store::judge`], plus a history sample, for times on the way to one that is shown.
    pub fn pass(&mut self, at: Moment) {
        let fleet = self.judged(at);
        if self.is_sampled(&fleet, at) {
            let burn = cost::spend_rates(&fleet, &self.rules.prices);
            self.sample(&fleet, &burn);
        }
    }

    /// True where a history sample is due; it then counts as taken.
    fn is_sampled(&mut self, fleet: &Fleet, at: Moment) -> bool {
        let due = self.rules.history && fleet.is_complete() && due(self.sampled, at, SAMPLING);
        if due {
            self.sampled = Some(at);
        }
        due
    }

    /// The fleet at `at`; runs the checks where they are due.
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

    pub fn publish(&mut self, at: Moment) -> Facts {
        self.take_past(at);
        let fleet = self.judged(at);
        let burn = cost::spend_rates(&fleet, &self.rules.prices);
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

    /// Adds past readings to the history once the fleet is complete, and takes what they say of now.
    fn take_past(&mut self, at: Moment) {
        if self.past.is_empty() {
            return;
        }
        let fleet = self.ledger.publish(at);
        if !fleet.is_complete() {
            return;
        }
        for past in std::mem::take(&mut self.past) {
            self.remember(&fleet, &past);
        }
        let idle = self.history.idle_before(&fleet);
        if !idle.is_empty() {
            let found = Observation::IdleBefore(idle);
            self.ledger.apply(found.clone());
            self.found.push(found);
        }
    }

    /// What past readings have said of now since this was last asked. A record has it, since it has no past readings.
    pub(super) fn take_found(&mut self) -> Vec<Observation> {
        std::mem::take(&mut self.found)
    }

    /// Adds past readings to the history.
    fn remember(&mut self, fleet: &Fleet, past: &PastPages) {
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

    fn sample(&mut self, fleet: &Fleet, burn: &SpendRates) {
        self.history.record(fleet, &|pool| {
            let spend = match pool {
                None => Some(burn.total),
                Some(pool) => burn.row(cost::SpendScope::Pool, pool).map(|row| row.spend),
            };
            // A pool without a price is a gap in the history, not a line at zero.
            spend.map_or((f64::NAN, f64::NAN), |spend| {
                let idle = spend.idle().map_or(f64::NAN, model::cost::Money::usd);
                (spend.rate.usd(), idle)
            })
        });
    }
}

/// True the first time, after `spacing`, and when the clock went back.
fn due(last: Option<Moment>, at: Moment, spacing: Duration) -> bool {
    last.is_none_or(|last| at < last || at.since(last) >= spacing.into())
}
