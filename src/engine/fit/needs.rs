//! Minimum needs of workloads, computed once per shape and compared with free resources, so that workloads that cannot start are
//! ruled out with a few sums. Whether the others start is found out by trying.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::compiled::{CompiledFleet, PairId, QueueId, WorkloadId};
use crate::schedulers;
use crate::state::{Gate, Occupancy, State};

use super::Relaxation;

/// One flavor assignment of a pod set.
#[derive(Debug)]
struct FlavorNeeds {
    /// Its flavors accept the pods at all.
    suits: bool,
    /// Its scheduler admits by quota and leaves nodes to kube-scheduler.
    ignores_nodes: bool,
    /// Quota of its minimum number of pods.
    least: Vec<(PairId, i64)>,
    /// Quota of all its pods, and whether that exceeds what its queue could ever use.
    whole: Vec<(PairId, i64, bool)>,
    /// Index of its eligible nodes.
    spot: usize,
}

/// Needs of a shape.
#[derive(Debug)]
struct ShapeNeeds {
    queue: QueueId,
    /// Per pod set: its minimum, and flavor assignments in the order in which they are tried.
    sets: Vec<(u64, Vec<FlavorNeeds>)>,
    /// The first flavors that quotas allow are the first assignments that they allow.
    plain: bool,
}

/// Eligible nodes of pods with equal requests.
#[derive(Debug)]
struct EligibleNodes {
    want: usize,
    gate: Arc<Gate>,
    /// Ladder and level of the domain that they must share.
    level: Option<(usize, usize)>,
    /// Generation in which it was counted, and the pods that fit.
    counted: (u64, u64),
}

/// Pod request, number of the gate, ladder and level.
type SpotKey = (usize, u32, Option<(usize, usize)>);

/// Needs of all shapes of a compiled fleet. Valid for one state and its successors while quotas and nodes are unchanged.
#[derive(Debug)]
pub(crate) struct Shortages {
    /// By shape, computed on first use; `Some(None)` if it can never start.
    shapes: Vec<Option<Option<ShapeNeeds>>>,
    spots: Vec<EligibleNodes>,
    spot_index: FxHashMap<SpotKey, usize>,
    /// Generation: increases with every change of the state.
    look: u64,
    /// By queue: the generation in which it was counted, and the free amount of each pair.
    free: Vec<(u64, Vec<i64>)>,
    /// By shape: the generation in which it was compared, and whether it may fit.
    known: Vec<(u64, bool)>,
}

impl Shortages {
    /// For the workloads of a compiled fleet.
    pub(crate) fn new(compiled: &CompiledFleet) -> Self {
        Self {
            shapes: (0..compiled.shapes).map(|_| None).collect(),
            spots: Vec::new(),
            spot_index: FxHashMap::default(),
            look: 0,
            free: vec![(0, Vec::new()); compiled.tree.branches.len()],
            known: vec![(0, false); compiled.shapes],
        }
    }

    /// Call after resources were taken or released.
    pub(crate) fn look_anew(&mut self) {
        self.look += 1;
    }

    /// Whether a workload may fit; if not, an attempt would fail.
    pub(crate) fn may_fit(&mut self, state: &mut State<'_>, work: WorkloadId) -> bool {
        let shape = state.compiled().workloads[work].shape;
        let (look, may) = self.known[shape];
        if look == self.look {
            return may;
        }
        let may = self.compare(state, work, shape);
        self.known[shape] = (self.look, may);
        may
    }

    fn compare(&mut self, state: &mut State<'_>, work: WorkloadId, shape: usize) -> bool {
        self.learn(state, work, shape);
        let Self {
            shapes,
            spots,
            look,
            free,
            ..
        } = self;
        let Some(Some(needs)) = &shapes[shape] else {
            return false;
        };
        let free = counted(free, state, needs.queue, *look);
        needs.sets.iter().all(|(need, ways)| {
            ways.iter().any(|way| {
                way.suits
                    && way.least.iter().all(|&(pair, each)| each <= free[pair])
                    && (way.ignores_nodes
                        || state.nodes() == 0
                        || pods_that_fit(&mut spots[way.spot], state, *look) >= *need)
            })
        })
    }

    /// Whether a workload that may fit now may also have its quota in another state of the fleet.
    pub(crate) fn has_quota(
        &self,
        compiled: &CompiledFleet,
        work: WorkloadId,
        then: &Occupancy,
    ) -> bool {
        let Some(Some(needs)) = &self.shapes[compiled.workloads[work].shape] else {
            return true;
        };
        let free = |&(pair, each): &(PairId, i64)| then.available(needs.queue, pair) >= each;
        needs.sets.iter().all(|(_, ways)| {
            let mut ways = ways.iter();
            ways.any(|way| way.suits && way.least.iter().all(free))
        })
    }

    /// Whether the workload lacks resources that may become free. `None` if only an attempt can decide.
    pub(crate) fn may_pass(&mut self, state: &mut State<'_>, work: WorkloadId) -> Option<bool> {
        let shape = state.compiled().workloads[work].shape;
        self.learn(state, work, shape);
        let Some(Some(needs)) = &self.shapes[shape] else {
            return Some(false);
        };
        let [(_, ways)] = &needs.sets[..] else {
            return None;
        };
        let free = counted(&mut self.free, state, needs.queue, self.look);
        let passes = |way: &FlavorNeeds| {
            let mut short = way.whole.iter();
            // The first quota that is short is the reason.
            let short = short.find(|&&(pair, asked, over)| over || asked > free[pair]);
            way.suits && short.is_none_or(|(_, _, over)| !over)
        };
        Some(ways.iter().any(passes))
    }

    /// Quota that a workload would use in its queue, as [`State::nominated`] computes it.
    pub(crate) fn nominated(
        &mut self,
        state: &mut State<'_>,
        work: WorkloadId,
    ) -> Vec<(PairId, i64)> {
        let shape = state.compiled().workloads[work].shape;
        self.learn(state, work, shape);
        let Some(Some(needs)) = &self.shapes[shape] else {
            return state.nominated(work, &Relaxation::default());
        };
        let (true, [(_, ways)]) = (needs.plain, &needs.sets[..]) else {
            return state.nominated(work, &Relaxation::default());
        };
        let free = counted(&mut self.free, state, needs.queue, self.look);
        let allowed = |way: &&FlavorNeeds| {
            let mut whole = way.whole.iter();
            way.suits && whole.all(|&(pair, asked, _)| asked <= free[pair])
        };
        let first = ways.iter().find(allowed).or_else(|| ways.first());
        let whole = first.map_or(&[][..], |way| &way.whole[..]);
        whole
            .iter()
            .map(|&(pair, asked, _)| (pair, asked))
            .collect()
    }

    /// Computes the needs of a shape; none if it can never start.
    fn learn(&mut self, state: &mut State<'_>, work: WorkloadId, shape: usize) {
        if self.shapes[shape].is_none() {
            let needs = self.needs(state, work);
            self.shapes[shape] = Some(needs);
        }
    }

    fn needs(&mut self, state: &mut State<'_>, work: WorkloadId) -> Option<ShapeNeeds> {
        let compiled = state.compiled();
        let queue = state.gate_of_queue(work).ok()?;
        let relaxation = Relaxation::default();
        let mut sets = Vec::new();
        for (set, it) in compiled.workloads[work].sets.iter().enumerate() {
            let least = it.min.max(1).min(it.count);
            let mut ways = Vec::new();
            for flavors in state.options(work, set, queue, &relaxation).ok()? {
                let gate = state.gate(it.constraint, &flavors, &relaxation);
                let level = it
                    .topology_level
                    .filter(|topology_level| topology_level.2)
                    .map(|topology_level| (topology_level.0, topology_level.1));
                let spots = &mut self.spots;
                let spot = *self
                    .spot_index
                    .entry((it.want, gate.id, level))
                    .or_insert_with(|| {
                        spots.push(EligibleNodes {
                            want: it.want,
                            gate,
                            level,
                            counted: (0, 0),
                        });
                        spots.len() - 1
                    });
                let suits = state.flavors_suit(work, set, &flavors, &relaxation);
                let each = state.amounts(work, set, queue, &flavors, 1);
                let times = |count: u32| move |each: i64| each.saturating_mul(i64::from(count));
                let over = |(pair, each): &(PairId, i64)| {
                    let asked = times(it.count)(*each);
                    (
                        *pair,
                        asked,
                        asked > state.tree().quota(queue, *pair).potential,
                    )
                };
                ways.push(FlavorNeeds {
                    suits: suits.is_ok(),
                    ignores_nodes: (schedulers::of(compiled, Some(queue)).ignores_nodes)(
                        compiled, &flavors,
                    ),
                    whole: each.iter().map(over).collect(),
                    least: each
                        .iter()
                        .map(|&(pair, each)| (pair, times(least)(each)))
                        .collect(),
                    spot,
                });
            }
            sets.push((u64::from(least), ways));
        }
        let known = compiled.snapshot.queues.get(queue);
        let stops = known.is_none_or(|queue| queue.fungibility.borrow_stops);
        let rigid = compiled.workloads[work]
            .sets
            .iter()
            .all(|it| it.min.max(1) >= it.count);
        Some(ShapeNeeds {
            queue,
            sets,
            plain: stops && rigid,
        })
    }
}

/// Free amount of each pair of the tree for a queue.
fn counted<'f>(
    free: &'f mut [(u64, Vec<i64>)],
    state: &State<'_>,
    queue: QueueId,
    look: u64,
) -> &'f [i64] {
    let (counted, list) = &mut free[queue];
    if *counted != look || list.is_empty() {
        let pairs = 0..state.tree().width(queue);
        list.clear();
        list.extend(pairs.map(|pair| state.available(queue, pair)));
        *counted = look;
    }
    list
}

/// Pods that fit; in the largest domain if they must share one.
fn pods_that_fit(spot: &mut EligibleNodes, state: &mut State<'_>, look: u64) -> u64 {
    if spot.counted.0 == look {
        return spot.counted.1;
    }
    let ladder = spot.level.map(|level| level.0);
    let view = state.take_view(spot.want, &spot.gate, ladder, false);
    let room = spot.level.map_or(view.total, |(ladder, level)| {
        let domains = &state.compiled().ladders[ladder].domains;
        let all = view.sums(ladder).iter().zip(domains);
        let own = all.filter(|(_, domain)| domain.level == level);
        own.map(|(sum, _)| *sum).max().unwrap_or(0)
    });
    state.give_view(view);
    spot.counted = (look, room);
    room
}
