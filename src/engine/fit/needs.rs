//! What workloads need at least to start, worked out once for all of one shape and compared with what is free: who cannot start is
//! known for the price of a few sums. Nothing is said of who then does: that is tried.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::compiled::{CompiledFleet, PairId, QueueId, WorkloadId};
use crate::state::{Occupancy, State};

use super::{Gate, Relaxation};

/// One way to give flavors to a set of pods.
#[derive(Debug)]
struct Way {
    /// Its flavors take the pods at all.
    suits: bool,
    /// Quota of its fewest pods.
    least: Vec<(PairId, i64)>,
    /// Quota of all its pods, and whether that is more than its queue could ever use.
    whole: Vec<(PairId, i64, bool)>,
    /// Index of the nodes that it may use.
    spot: usize,
}

/// What a shape needs.
#[derive(Debug)]
struct Needs {
    queue: QueueId,
    /// Per set of pods: the fewest of them, and the ways, in the order in which they are tried.
    sets: Vec<(u64, Vec<Way>)>,
    /// Its first flavors that quotas allow are the first ways that they do.
    plain: bool,
}

/// Nodes that pods which ask for the same may use.
#[derive(Debug)]
struct Spot {
    want: usize,
    gate: Arc<Gate>,
    /// Ladder and level of the one domain that they must be in.
    level: Option<(usize, usize)>,
    /// In which look it was counted, and the pods for which there is room.
    counted: (u64, u64),
}

/// What is asked, number of the gate, ladder and level.
type SpotKey = (usize, u32, Option<(usize, usize)>);

/// What all shapes of a compiled fleet need. It holds for one state and what becomes of it, quotas and nodes staying as they are.
#[derive(Debug)]
pub(crate) struct Shortages {
    /// By shape, once it was needed; `Some(None)` where it can never start.
    shapes: Vec<Option<Option<Needs>>>,
    spots: Vec<Spot>,
    spot_index: FxHashMap<SpotKey, usize>,
    /// Counts the states that were looked at.
    look: u64,
    /// By queue: in which look it was counted, and what is free of each pair.
    free: Vec<(u64, Vec<i64>)>,
    /// By shape: in which look it was compared, and whether it may fit.
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

    /// Something was taken or given back since the last look.
    pub(crate) fn look_anew(&mut self) {
        self.look += 1;
    }

    /// Whether a workload may fit: if not, trying would fail.
    pub(crate) fn may_fit(&mut self, state: &mut State<'_>, work: WorkloadId) -> bool {
        let shape = state.compiled().works[work].shape;
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
                    && (state.nodes() == 0 || room(&mut spots[way.spot], state, *look) >= *need)
            })
        })
    }

    /// Whether a workload that may fit now may have its quota in some other state of the fleet.
    pub(crate) fn has_quota(
        &self,
        compiled: &CompiledFleet,
        work: WorkloadId,
        then: &Occupancy,
    ) -> bool {
        let Some(Some(needs)) = &self.shapes[compiled.works[work].shape] else {
            return true;
        };
        let free = |&(pair, each): &(PairId, i64)| then.available(needs.queue, pair) >= each;
        needs.sets.iter().all(|(_, ways)| {
            let mut ways = ways.iter();
            ways.any(|way| way.suits && way.least.iter().all(free))
        })
    }

    /// Whether something that is in use and may become free keeps one from starting that may not fit; nothing where only trying
    /// tells.
    pub(crate) fn may_pass(&mut self, state: &mut State<'_>, work: WorkloadId) -> Option<bool> {
        let shape = state.compiled().works[work].shape;
        self.learn(state, work, shape);
        let Some(Some(needs)) = &self.shapes[shape] else {
            return Some(false);
        };
        let [(_, ways)] = &needs.sets[..] else {
            return None;
        };
        let free = counted(&mut self.free, state, needs.queue, self.look);
        let passes = |way: &Way| {
            let mut short = way.whole.iter();
            // The first quota that is short says why.
            let short = short.find(|&&(pair, asked, over)| over || asked > free[pair]);
            way.suits && short.is_none_or(|(_, _, over)| !over)
        };
        Some(ways.iter().any(passes))
    }

    /// What of its queue's quotas a workload would use, as [`State::nominated`] has it.
    pub(crate) fn nominated(
        &mut self,
        state: &mut State<'_>,
        work: WorkloadId,
    ) -> Vec<(PairId, i64)> {
        let shape = state.compiled().works[work].shape;
        self.learn(state, work, shape);
        let Some(Some(needs)) = &self.shapes[shape] else {
            return state.nominated(work, &Relaxation::default());
        };
        let (true, [(_, ways)]) = (needs.plain, &needs.sets[..]) else {
            return state.nominated(work, &Relaxation::default());
        };
        let free = counted(&mut self.free, state, needs.queue, self.look);
        let allowed = |way: &&Way| {
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

    /// Works out what a shape needs; nothing where it can never start.
    fn learn(&mut self, state: &mut State<'_>, work: WorkloadId, shape: usize) {
        if self.shapes[shape].is_none() {
            let needs = self.needs(state, work);
            self.shapes[shape] = Some(needs);
        }
    }

    fn needs(&mut self, state: &mut State<'_>, work: WorkloadId) -> Option<Needs> {
        let compiled = state.compiled();
        let queue = state.gate_of_queue(work).ok()?;
        let relaxation = Relaxation::default();
        let mut sets = Vec::new();
        for (set, it) in compiled.works[work].sets.iter().enumerate() {
            let least = it.min.max(1).min(it.count);
            let mut ways = Vec::new();
            for flavors in state.options(work, set, queue, &relaxation).ok()? {
                let gate = state.gate(it.constraint, &flavors, &relaxation);
                let level = it.wish.filter(|wish| wish.2).map(|wish| (wish.0, wish.1));
                let spots = &mut self.spots;
                let spot = *self
                    .spot_index
                    .entry((it.want, gate.id, level))
                    .or_insert_with(|| {
                        spots.push(Spot {
                            want: it.want,
                            gate,
                            level,
                            counted: (0, 0),
                        });
                        spots.len() - 1
                    });
                let suits = state.flavors_suit(work, set, queue, &flavors, &relaxation);
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
                ways.push(Way {
                    suits: suits.is_ok(),
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
        let rigid = compiled.works[work]
            .sets
            .iter()
            .all(|it| it.min.max(1) >= it.count);
        Some(Needs {
            queue,
            sets,
            plain: stops && rigid,
        })
    }
}

/// What is free of each pair of a queue's tree for it.
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

/// Pods for which there is room, in the one domain that has most where they must be in one.
fn room(spot: &mut Spot, state: &mut State<'_>, look: u64) -> u64 {
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
