//! Why a workload waits, who is before it, and the smallest change that lets it start.
//!
//! One cycle is run for the whole fleet and watched: at the very turn of each workload that does not start, what would have
//! been without one or other obstacle is tried on the spot. Changes that also touch those before it (priority, quota, nodes)
//! are tried by running cycles up to its turn; how many is bounded in turns, never in time, so that answers are the same
//! on every machine. Beyond the bound an amount is reckoned and said to be so.

mod around;
mod change;
mod exact;
mod others;
mod reason;
mod reckon;
mod sums;
mod trial;
mod unblock;

#[cfg(test)]
mod laws;
#[cfg(test)]
mod tests;

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use model::base::{Moment, Name, SmallSort};

use super::compiled::{CompiledFleet, QueueId, WorkloadId};
use super::cycle::{self, Cycle, Watch};
use super::fit::{Miss, Relaxation};
use super::forecast::{self, Start};
use super::preempt::evicted;
use super::snapshot::{Snapshot, Status};
use super::state::State;
use model::plan::{Evicted, JobName};

pub use change::{Change, TaintName, Unblock, amount, of_flavor};
pub(super) use change::{add_nodes, add_quota, job};
pub(super) use reason::read;
pub use reason::{NodeSupply, Reason};
pub(crate) use reckon::pods_of;

use trial::Trials;

/// Turns of cycles that are spent on one workload.
const TURNS_FOR_ONE: usize = 4_000;

/// Turns of cycles that are spent on all.
const TURNS_FOR_ALL: usize = 40_000;

/// With so many nodes and workloads a turn counts twice.
const LARGE: usize = 1_000;

/// How the cycle is run that answers are about: as the cluster's own scheduler would.
pub(super) const AS_TOLD: cycle::Options<'static> = cycle::Options {
    durations: None,
    spare_all: false,
    quota_alone: false,
    spare_for_room: true,
};

/// The same for what becomes of a change: others are admitted by their quotas alone, as Kueue does, and hold what they get.
pub(super) const AS_DONE: cycle::Options<'static> = cycle::Options {
    quota_alone: true,
    ..AS_TOLD
};

/// Where a workload stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StartState {
    /// Cannot start now.
    Waiting,
    /// Would start now: nothing is in its way but those that are evicted for it ([`Explanation::victims`]).
    Ready,
    /// Runs.
    Running,
    /// Somebody holds it.
    Held,
    /// Ends.
    Ending,
}

/// The answer.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Explanation {
    /// Namespace and name.
    pub job: JobName,
    /// Its kind.
    pub kind: Name,
    /// Its queue; null where it names none.
    pub queue: Option<Name>,
    /// Its priority.
    pub priority: i32,
    /// Where it stands.
    pub state: StartState,
    /// Its place in its queue, from 1; null where it does not wait.
    pub position: Option<usize>,
    /// How many stand before it in its queue; null where not all may be seen.
    pub ahead: Option<usize>,
    /// The first of them, at most [`Explanation::MOST_NAMED`].
    pub ahead_first: Vec<JobName>,
    /// Why it waits, the most telling first.
    pub reasons: Vec<Reason>,
    /// The same, in words.
    pub reason: String,
    /// The cheapest change that lets it start; null where none of the closed list does.
    pub unblock: Option<Unblock>,
    /// Others that do, by cost.
    pub alternatives: Vec<Unblock>,
    /// Who is evicted when it starts now; none for one that fits beside all others, or does not start.
    pub victims: Vec<Evicted>,
    /// When room that is kept for it becomes free, as RFC 3339; null where none is.
    #[serde(serialize_with = "moment")]
    pub reserved_at: Option<Moment>,
}

impl Explanation {
    /// Keeps the changes that would start it of which `keep` says so.
    pub fn offers(&mut self, keep: impl Fn(&Unblock) -> bool) {
        self.alternatives.retain(&keep);
        if self.unblock.as_ref().is_some_and(|unblock| !keep(unblock)) {
            self.unblock = (!self.alternatives.is_empty()).then(|| self.alternatives.remove(0));
        }
    }
}

#[allow(clippy::ref_option, reason = "serde passes references")]
fn moment<S: serde::Serializer>(at: &Option<Moment>, out: S) -> Result<S::Ok, S::Error> {
    match at {
        Some(at) => out.serialize_some(&at.rfc3339()),
        None => out.serialize_none(),
    }
}

impl Explanation {
    /// How many of those before it are named.
    pub const MOST_NAMED: usize = 5;
}

/// The fleet with its queues, compiled once somebody asks for it.
#[derive(Debug)]
struct Queued<'p> {
    snapshot: &'p Snapshot,
    compiled: OnceCell<CompiledFleet>,
}

/// A fleet at one moment, with the cycle that would be run on it, ready to be asked.
#[derive(Debug)]
pub struct Explainer<'p> {
    /// Where it is the fleet as it is to pods behind the queues: the fleet with its queues.
    queued: Option<Queued<'p>>,
    /// As the snapshot shows it.
    state: State<'p>,
    cycle: Cycle,
    /// Those that wait, by queue, in order.
    lines: BTreeMap<QueueId, Vec<WorkloadId>>,
    /// Per workload: its place in its line.
    places: Vec<Option<usize>>,
    /// As the cycle leaves it.
    settled: State<'p>,
    /// By shape: reasons, which cost much to read.
    read: BTreeMap<(usize, Arc<[Miss]>), Vec<Reason>>,
    around: around::Arounds,
    sums: sums::Sums,
    /// By workload that had its turn in vain: what would have helped there.
    trials: BTreeMap<WorkloadId, Arc<Trials>>,
    lacks: BTreeMap<usize, Arc<reckon::Lack>>,
    /// How long each workload runs.
    durations: Arc<[Option<i64>]>,
    /// What one turn of a cycle counts for: more in a large fleet, where it costs more.
    weight: usize,
    /// What more turns of cycles may be spent.
    turns: usize,
    /// Something was not tried of the last one that was asked for, because that was too much.
    spared: bool,
    /// Nothing says that it would not help that one to go before all others.
    order_helps: bool,
    /// Somebody is admitted and has no pod on a node.
    has_let_in: bool,
    /// For so many more it is asked whom an operator may requeue.
    by_hand: usize,
    /// By queue that is stopped: who starts once it is resumed, and who is evicted for each.
    resumed: BTreeMap<QueueId, Arc<BTreeMap<WorkloadId, Vec<Evicted>>>>,
}

impl<'p> Explainer<'p> {
    /// Runs the cycle on a fleet.
    pub fn new(compiled: &'p CompiledFleet) -> Self {
        Self::of(State::new(compiled))
    }

    /// The same for the fleet as it is to pods behind the queues ([`super::explanations::past_queues`]), beside the fleet with its queues.
    pub fn past_queues(compiled: &'p CompiledFleet, queued: &'p Snapshot) -> Self {
        Self {
            queued: Some(Queued {
                snapshot: queued,
                compiled: OnceCell::new(),
            }),
            ..Self::new(compiled)
        }
    }

    /// Runs the cycle on a state, which is supposed.
    pub fn of(mut state: State<'p>) -> Self {
        let compiled = state.compiled();
        let lines = cycle::pending(&state);
        let mut places = vec![None; state.compiled().works.len()];
        for line in lines.values() {
            for (place, &work) in line.iter().enumerate() {
                places[work] = Some(place);
            }
        }
        let mut trier = trial::Trier::default();
        let mark = state.mark();
        let cycle = cycle::watched(
            &mut state,
            AS_TOLD,
            Watch {
                missed: Some(&mut |turn| trier.missed(turn)),
                ..Watch::default()
            },
        );
        let settled = state.clone();
        state.undo_to(mark);
        let has_let_in = !cycle::unplaced(&state, &[]).is_empty();
        Self {
            queued: None,
            state,
            cycle,
            settled,
            around: around::Arounds::default(),
            sums: sums::Sums::default(),
            lines,
            places,
            read: BTreeMap::new(),
            trials: trier.found,
            lacks: BTreeMap::new(),
            durations: cycle::durations(compiled),
            weight: 1 + (compiled.sites.len() + compiled.works.len()) / LARGE,
            turns: 0,
            spared: false,
            order_helps: true,
            has_let_in,
            by_hand: others::MOST_BY_HAND,
            resumed: BTreeMap::new(),
        }
    }

    /// What the cycle decides.
    pub fn cycle(&self) -> &Cycle {
        &self.cycle
    }

    /// When each waiting workload starts, by workload: after the cycle that explanations are of, which is not run again.
    pub fn forecast(&self) -> BTreeMap<WorkloadId, Start> {
        forecast::forecast_from(&self.state, (&self.settled, &self.cycle), None)
    }

    /// The same for one workload.
    pub fn forecast_one(&self, work: WorkloadId) -> Option<Start> {
        let cycle = (&self.settled, &self.cycle);
        forecast::forecast_from(&self.state, cycle, Some(work)).remove(&work)
    }

    /// Why a workload waits, and what would help.
    pub fn explain(&mut self, work: WorkloadId) -> Explanation {
        self.turns = TURNS_FOR_ONE;
        self.one(work)
    }

    /// The same for all that want to start, by workload.
    pub fn explain_all(&mut self) -> BTreeMap<WorkloadId, Explanation> {
        let waiting: Vec<WorkloadId> = self.state.waiting().collect();
        let mut left = TURNS_FOR_ALL;
        let mut out = BTreeMap::new();
        // Those before others cost least to try and matter most.
        let mut order: Vec<(usize, WorkloadId)> = waiting
            .into_iter()
            .map(|work| (self.places[work].unwrap_or(usize::MAX), work))
            .collect();
        order.small_sort();
        for (_, work) in order {
            let given = left.min(TURNS_FOR_ONE);
            self.turns = given;
            out.insert(work, self.one(work));
            left -= given - self.turns;
        }
        out
    }

    /// What is said of a workload where not all may be seen that decides: where it stands, and that no more is known.
    fn unseen(&self, work: WorkloadId, waits: bool, stand: StartState) -> Explanation {
        let compiled = self.state.compiled();
        let workload = compiled.workload(work);
        let reasons = match (waits, stand) {
            (true, _) => vec![Reason::NotVisible {
                what: compiled.snapshot.not_visible.clone(),
            }],
            (false, StartState::Held) => vec![Reason::Held],
            (false, _) => Vec::new(),
        };
        let told: Vec<String> = reasons.iter().map(Reason::sentence).collect();
        Explanation {
            job: job(&workload.key),
            kind: workload.key.kind.clone(),
            queue: workload.queue.clone(),
            priority: workload.priority,
            state: stand,
            position: None,
            ahead: None,
            ahead_first: Vec::new(),
            reason: told.join("; "),
            reasons,
            victims: Vec::new(),
            unblock: None,
            alternatives: Vec::new(),
            reserved_at: None,
        }
    }

    fn one(&mut self, work: WorkloadId) -> Explanation {
        let compiled = self.state.compiled();
        let workload = compiled.workload(work);
        let standing = self.state.standing(work).status;
        let waits = self.state.allocation(work).is_none() && standing == Status::Waiting;
        if !compiled.snapshot.not_visible.is_empty() {
            let stand = match standing {
                Status::Held => StartState::Held,
                Status::Ending => StartState::Ending,
                _ if waits => StartState::Waiting,
                _ => StartState::Running,
            };
            return self.unseen(work, waits, stand);
        }
        let misses = self.cycle.waiting.get(&work).cloned();
        let stand = match standing {
            Status::Held => StartState::Held,
            Status::Ending => StartState::Ending,
            _ if !waits => StartState::Running,
            _ if misses.is_some() => StartState::Waiting,
            _ => StartState::Ready,
        };
        let place = self.places[work].filter(|_| waits);
        let queue = compiled.works[work].queue;
        let line = queue.and_then(|queue| self.lines.get(&queue));
        let before = line.map_or(&[][..], |line| &line[..place.unwrap_or(0)]);
        let named = before.iter().take(Explanation::MOST_NAMED);
        let mut out = Explanation {
            job: job(&workload.key),
            kind: workload.key.kind.clone(),
            queue: workload.queue.clone(),
            priority: self.state.priority(work),
            state: stand,
            position: place.map(|place| place + 1),
            ahead: Some(before.len()),
            ahead_first: named
                .map(|&work| job(&compiled.workload(work).key))
                .collect(),
            reasons: Vec::new(),
            reason: String::new(),
            unblock: None,
            alternatives: Vec::new(),
            victims: victims_of(compiled, &self.cycle, work),
            reserved_at: self
                .cycle
                .reservations
                .iter()
                .find(|it| it.work == work)
                .map(|it| it.at),
        };
        match stand {
            StartState::Held => out.reasons.push(Reason::Held),
            StartState::Waiting => {
                let misses = misses.unwrap_or_else(|| Arc::new([]));
                out.reasons = self.reasons(work, &misses);
                let all = self.unblocks(work, &misses, out.reserved_at);
                let mut all = self.held_to_fleet(work, all);
                all.small_sort_by_key(|unblock| unblock.cost(compiled.snapshot.at));
                let mut all = all.into_iter();
                out.unblock = all.next();
                out.alternatives = all.collect();
            }
            StartState::Ready | StartState::Running | StartState::Ending => {}
        }
        let told: Vec<String> = out.reasons.iter().map(Reason::sentence).collect();
        out.reason = told.join("; ");
        out
    }

    /// The chain of reasons, at the end of the cycle: those of the attempt, and, where quota or order stopped it before
    /// nodes were looked at, what nodes would say.
    fn reasons(&mut self, work: WorkloadId, misses: &Arc<[Miss]>) -> Vec<Reason> {
        let shape = self.state.compiled().works[work].shape;
        let key = (shape, misses.clone());
        if let Some(known) = self.read.get(&key) {
            return known.clone();
        }
        let state = &mut self.settled;
        let mut reasons = reason::read_with(state, work, misses, &mut self.around);
        let beyond = Relaxation {
            no_quota: true,
            ..Relaxation::default()
        };
        if let Err(more) = state.find(work, &beyond) {
            for reason in reason::read_with(state, work, &more, &mut self.around) {
                if !reasons.iter().any(|known| known.code() == reason.code()) {
                    reasons.push(reason);
                }
            }
        }
        self.read.insert(key, reasons.clone());
        reasons
    }
}

/// Who goes in a cycle so that a workload starts.
fn victims_of(compiled: &CompiledFleet, cycle: &Cycle, work: WorkloadId) -> Vec<Evicted> {
    let own = cycle.preempted.iter().find(|push| push.by == work);
    own.map_or_else(Vec::new, |push| evicted(compiled, &push.victims.list))
}

/// The levels in which a workload insists on one domain, in the order of its sets.
fn job_levels(compiled: &CompiledFleet, work: WorkloadId) -> Vec<Name> {
    let sets = &compiled.workload(work).sets;
    let wishes = sets.iter().filter_map(|set| set.topology.as_ref());
    wishes
        .filter(|wish| wish.required)
        .map(|wish| wish.level.clone())
        .collect()
}
