//! Explains why a workload is pending, which workloads are ahead, and the smallest change that lets it start.
//!
//! One cycle is run for the whole fleet with a watch: whenever a workload does not start, each obstacle is removed on a trial
//! basis at that point. Changes that also affect workloads ahead (priority, quota, nodes) are tested by running cycles up to
//! the workload; their number is limited in turns (workloads tried by a cycle), not in time, so that answers are the same
//! on every machine. Beyond the limit an amount is an estimate and marked as such.

mod change;
mod estimates;
mod node_capacity;
mod operator_changes;
mod reason;
mod sums;
mod trials;
mod unblock;
mod verification;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_blocked;

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use model::base::{Moment, Name, SmallSort};

use super::compiled::{CompiledFleet, QueueId, WorkloadId};
use super::cycle::{self, Cycle, CycleWatch};
use super::fit::{Miss, Relaxation, Why};
use super::forecast::{self, Start};
use super::preempt::evicted;
use super::snapshot::{Snapshot, Status, Workload};
use super::state::State;
use model::plan::{Evicted, JobName};

pub use change::{TaintName, Unblock, UnblockChange, amount, of_flavor};
pub(super) use change::{add_nodes, add_quota, job};
pub(crate) use estimates::pods_of;
pub(super) use reason::read;
pub use reason::{NodeSupply, Reason};

use trials::Trials;

/// The name of nodes among what is not visible.
const NODES: &str = "nodes";

/// Turn budget for one workload.
const TURNS_FOR_ONE: usize = 4_000;

/// Turn budget for all workloads.
const TURNS_FOR_ALL: usize = 40_000;

/// A turn counts once more for every this many nodes and workloads.
const LARGE: usize = 1_000;

/// State of a workload.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StartState {
    Waiting,
    /// Starts now: nothing blocks it except the workloads that are evicted for it ([`Explanation::victims`]).
    Ready,
    Running,
    /// Suspended or on hold.
    Held,
    /// Neither a queue nor the scheduler can start it.
    Blocked,
    Ending,
}

/// Explanation of one workload.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Explanation {
    pub job: JobName,
    pub kind: Name,
    /// Queue; null if it names none.
    pub queue: Option<Name>,
    pub priority: i32,
    pub state: StartState,
    /// Position in its queue, from 1; null if it is not pending, or the order of its queue is not known.
    pub position: Option<usize>,
    /// Number of workloads ahead in its queue; null if not all of them are visible, or its order is not known.
    pub ahead: Option<usize>,
    /// The first workloads ahead, at most [`Explanation::MOST_NAMED`].
    pub ahead_first: Vec<JobName>,
    /// Reasons why it is pending, most significant first.
    pub reasons: Vec<Reason>,
    /// The same, in words.
    pub reason: String,
    /// The cheapest change that lets it start; null if no change of the closed list does.
    pub unblock: Option<Unblock>,
    /// Other changes that let it start, by cost.
    pub alternatives: Vec<Unblock>,
    /// Workloads that are evicted when it starts now; empty if it starts without eviction, or does not start.
    pub victims: Vec<Evicted>,
    /// Start of its reservation, as RFC 3339; null if it has none.
    #[serde(serialize_with = "moment")]
    pub reserved_at: Option<Moment>,
}

impl Explanation {
    /// Keeps only the proposed changes that match `keep`.
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
    /// Maximum number of workloads ahead that are named.
    pub const MOST_NAMED: usize = 5;
}

/// The fleet with its queues, compiled on first use.
#[derive(Debug)]
struct Queued<'p> {
    snapshot: &'p Snapshot,
    compiled: OnceCell<CompiledFleet>,
}

/// A fleet at one time and the cycle that would run on it, ready for queries.
#[derive(Debug)]
pub struct Explainer<'p> {
    /// The fleet with its queues, if this explains admitted pods without them.
    queued: Option<Queued<'p>>,
    /// State of the snapshot.
    state: State<'p>,
    cycle: Cycle,
    /// Pending workloads by queue, in order.
    lines: BTreeMap<QueueId, Vec<WorkloadId>>,
    /// Per workload: its position in its line.
    places: Vec<Option<usize>>,
    /// State after the cycle.
    settled: State<'p>,
    /// By shape: reasons, which are expensive to compute.
    read: BTreeMap<(usize, Arc<[Miss]>), Vec<Reason>>,
    around: node_capacity::Arounds,
    sums: sums::RequestSums,
    /// For each workload that could not start in the cycle: changes that would have started it at that point.
    trials: BTreeMap<WorkloadId, Arc<Trials>>,
    lacks: BTreeMap<usize, Arc<estimates::ShapeShortage>>,
    /// Duration of each workload.
    durations: Arc<[Option<i64>]>,
    /// Cost of one turn of a cycle: higher in a large fleet.
    weight: usize,
    /// Turns left in the budget.
    turns: usize,
    /// Some test for the last workload was skipped because of its cost.
    spared: bool,
    /// Going before all others may help the last workload: nothing excludes it.
    order_helps: bool,
    /// Some workload is admitted and has no pod on a node.
    has_reserved: bool,
    /// Remaining workloads for which evictions by an operator are searched.
    by_hand: usize,
    /// By stopped queue: workloads that start after it is resumed, with the evictions for each.
    resumed: BTreeMap<QueueId, Arc<BTreeMap<WorkloadId, Vec<Evicted>>>>,
}

impl<'p> Explainer<'p> {
    /// Runs the cycle on a fleet.
    pub fn new(compiled: &'p CompiledFleet) -> Self {
        Self::of(State::new(compiled))
    }

    /// The same for the fleet as admitted pods see it ([`super::explanations::past_queues`]), together with the fleet with its queues.
    pub fn past_queues(compiled: &'p CompiledFleet, queued: &'p Snapshot) -> Self {
        Self {
            queued: Some(Queued {
                snapshot: queued,
                compiled: OnceCell::new(),
            }),
            ..Self::new(compiled)
        }
    }

    /// Runs the cycle on a hypothetical state.
    pub fn of(mut state: State<'p>) -> Self {
        let compiled = state.compiled();
        let lines = cycle::pending(&state);
        let mut places = vec![None; state.compiled().workloads.len()];
        for line in lines.values() {
            for (place, &work) in line.iter().enumerate() {
                places[work] = Some(place);
            }
        }
        let mut trier = trials::Trier::default();
        let mark = state.mark();
        let cycle = cycle::watched(
            &mut state,
            CycleWatch {
                missed: Some(&mut |turn| trier.missed(turn)),
                ..CycleWatch::default()
            },
        );
        let settled = state.clone();
        state.undo_to(mark);
        let has_reserved = !cycle::unplaced(&state).is_empty();
        Self {
            queued: None,
            state,
            cycle,
            settled,
            around: node_capacity::Arounds::default(),
            sums: sums::RequestSums::default(),
            lines,
            places,
            read: BTreeMap::new(),
            trials: trier.found,
            lacks: BTreeMap::new(),
            durations: cycle::durations(compiled),
            weight: 1 + (compiled.nodes.len() + compiled.workloads.len()) / LARGE,
            turns: 0,
            spared: false,
            order_helps: true,
            has_reserved,
            by_hand: operator_changes::MOST_BY_HAND,
            resumed: BTreeMap::new(),
        }
    }

    /// Decisions of the cycle.
    pub fn cycle(&self) -> &Cycle {
        &self.cycle
    }

    /// Start of each pending workload, by workload, after the cycle of these explanations, which is not run again.
    pub fn forecast(&self) -> BTreeMap<WorkloadId, Start> {
        forecast::forecast_from(&self.state, (&self.settled, &self.cycle), None)
    }

    /// The same for one workload.
    pub fn forecast_one(&self, work: WorkloadId) -> Option<Start> {
        let cycle = (&self.settled, &self.cycle);
        forecast::forecast_from(&self.state, cycle, Some(work)).remove(&work)
    }

    /// Explains why a workload is pending and which changes start it.
    pub fn explain(&mut self, work: WorkloadId) -> Explanation {
        self.turns = TURNS_FOR_ONE;
        self.one(work)
    }

    /// The same for all pending workloads, by workload.
    pub fn explain_all(&mut self) -> BTreeMap<WorkloadId, Explanation> {
        let waiting: Vec<WorkloadId> = self.state.waiting().collect();
        let mut left = TURNS_FOR_ALL;
        let mut out = BTreeMap::new();
        // The first in their queues cost least to test and matter most.
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

    /// What is certain of a workload though not everything is visible: that visible nodes have too little for it even when empty.
    fn certain(&mut self, work: WorkloadId) -> Vec<Reason> {
        let hidden = &self.state.compiled().snapshot.not_visible;
        if hidden.iter().any(|what| what.as_str() == NODES) {
            return Vec::new();
        }
        let misses = self.cycle.waiting.get(&work).cloned();
        let all = self.reasons(work, &misses.unwrap_or_else(|| Arc::new([])));
        let is_certain = |reason: &Reason| matches!(reason, Reason::Absent(_));
        all.into_iter().filter(is_certain).collect()
    }

    /// Explanation of a workload if not everything relevant is visible: its state and what is certain.
    fn unseen(&mut self, work: WorkloadId, waits: bool, stand: StartState) -> Explanation {
        let certain = match waits {
            true => self.certain(work),
            false => Vec::new(),
        };
        let compiled = self.state.compiled();
        let workload = compiled.workload(work);
        let reasons = match (waits, stand) {
            (true, _) => {
                let unseen = Reason::NotVisible {
                    what: compiled.snapshot.not_visible.clone(),
                };
                certain.into_iter().chain([unseen]).collect()
            }
            (false, StartState::Held) => vec![Reason::Held],
            (false, StartState::Running) if workload.elsewhere => {
                blocked(workload).into_iter().collect()
            }
            (false, StartState::Blocked) => blocked(workload).into_iter().collect(),
            (false, _) => Vec::new(),
        };
        let sentences: Vec<String> = reasons.iter().map(Reason::sentence).collect();
        Explanation {
            job: job(&workload.key),
            kind: workload.key.kind.clone(),
            queue: workload.queue.clone(),
            priority: workload.priority,
            state: stand,
            position: None,
            ahead: None,
            ahead_first: Vec::new(),
            reason: sentences.join("; "),
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
        let standing = self.state.workload_state(work).status;
        let is_placed = self.state.allocation(work).is_some_and(|it| it.pods() > 0);
        let is_blocked = workload.blocked.is_some() && !is_placed;
        let waits =
            self.state.allocation(work).is_none() && standing == Status::Waiting && !is_blocked;
        if !compiled.snapshot.not_visible.is_empty() {
            let stand = match standing {
                Status::Held => StartState::Held,
                Status::Ending => StartState::Ending,
                _ if is_blocked && !workload.elsewhere => StartState::Blocked,
                _ if waits => StartState::Waiting,
                _ => StartState::Running,
            };
            return self.unseen(work, waits, stand);
        }
        let queue = compiled.workloads[work].queue;
        let by_usage = queue
            .and_then(|queue| compiled.snapshot.queues.get(queue))
            .is_some_and(|queue| queue.orders_by_usage && workload.not_forecast.is_some());
        let misses = match by_usage && waits {
            true => Some(self.alone(work)),
            false => self.cycle.waiting.get(&work).cloned(),
        };
        let stand = match standing {
            Status::Held => StartState::Held,
            Status::Ending => StartState::Ending,
            _ if is_blocked && !workload.elsewhere => StartState::Blocked,
            _ if !waits => StartState::Running,
            _ if misses.is_some() => StartState::Waiting,
            _ => StartState::Ready,
        };
        let place = self.places[work].filter(|_| waits && !by_usage);
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
            ahead: (!by_usage).then_some(before.len()),
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
            StartState::Blocked => out.reasons.extend(blocked(workload)),
            StartState::Running if workload.elsewhere => out.reasons.extend(blocked(workload)),
            StartState::Waiting => {
                let misses = misses.unwrap_or_else(|| Arc::new([]));
                let fits = misses.iter().any(|miss| miss.why == Why::NotForecast);
                if by_usage && !fits {
                    out.reasons = reason::read(&mut self.state, work, &misses);
                } else if !fits {
                    out.reasons = self.reasons(work, &misses);
                }
                if self.cycle.quota_reserved.contains(&work)
                    && let Some(queue) = workload.queue.clone()
                {
                    out.reasons.push(Reason::GetsQuota { queue });
                }
                match workload.not_forecast.clone() {
                    // No change is known to start it.
                    Some(why) => out.reasons.push(Reason::NotForecast { why, fits }),
                    None => self.offer(work, &misses, &mut out),
                }
            }
            StartState::Ready | StartState::Running | StartState::Ending => {}
        }
        let sentences: Vec<String> = out.reasons.iter().map(Reason::sentence).collect();
        out.reason = sentences.join("; ");
        out
    }

    /// Why a workload would not start if it came before all others.
    fn alone(&mut self, work: WorkloadId) -> Arc<[Miss]> {
        let found = self.state.find(work, &Relaxation::default());
        let misses = found.err();
        misses
            .unwrap_or_else(|| Miss::plain(Why::NotForecast))
            .into()
    }

    /// The changes that start a pending workload, the cheapest first.
    fn offer(&mut self, work: WorkloadId, misses: &Arc<[Miss]>, out: &mut Explanation) {
        let all = self.unblocks(work, misses, out.reserved_at);
        let mut all = self.held_to_fleet(work, all);
        self.add_indirect(work, &mut all);
        let now = self.state.compiled().snapshot.at;
        all.small_sort_by_key(|unblock| unblock.cost(now));
        let mut seen: Vec<Vec<UnblockChange>> = Vec::new();
        all.retain(|one| {
            let is_new = !seen.contains(&one.changes);
            seen.push(one.changes.clone());
            is_new
        });
        let mut all = all.into_iter();
        out.unblock = all.next();
        out.alternatives = all.collect();
    }

    /// Reasons at the end of the cycle: those of the attempt, and, if quota or order stopped it before
    /// nodes were checked, those of nodes.
    fn reasons(&mut self, work: WorkloadId, misses: &Arc<[Miss]>) -> Vec<Reason> {
        let shape = self.state.compiled().workloads[work].shape;
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
        let is_sure = reasons
            .iter()
            .any(|reason| matches!(reason, Reason::Ending { .. }));
        if !is_sure && let Err(more) = state.find(work, &beyond) {
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

fn blocked(workload: &Workload) -> Option<Reason> {
    let why = workload.blocked.clone()?;
    Some(Reason::Blocked { why })
}

/// Workloads that a cycle evicts so that a workload starts.
fn victims_of(compiled: &CompiledFleet, cycle: &Cycle, work: WorkloadId) -> Vec<Evicted> {
    let own = cycle.preempted.iter().find(|push| push.by == work);
    own.map_or_else(Vec::new, |push| evicted(compiled, &push.victims.list))
}

/// Topology levels that a workload requires, in the order of its sets.
fn job_levels(compiled: &CompiledFleet, work: WorkloadId) -> Vec<Name> {
    let sets = &compiled.workload(work).sets;
    let topologies = sets.iter().filter_map(|set| set.topology.as_ref());
    topologies
        .filter(|topology| topology.required)
        .map(|topology| topology.level.clone())
        .collect()
}
