//! Nomination: the flavors and pod counts that Kueue assigns to a workload, and whom it preempts for them. Source: in
//! Kueue, `pkg/scheduler/flavorassigner` and `getInitialAssignments`.

use std::sync::Arc;

use crate::compiled::{CompiledFleet, FlavorId, PairId, QueueId, WorkloadId};
use crate::cycle::Nominated;
use crate::fit::{Miss, Relaxation, Why};
use crate::preempt::{
    Holders, NoPreemption, PreemptionReason, Spared, Victims, for_nodes, for_quota,
};
use crate::snapshot::{Borrow, FlavorPreference, Fungibility, Reclaim, Topology};
use crate::state::{Allocation, PodSetAllocation, State};

use super::ignores_nodes;

/// What preemption a flavor needs for a workload, the worst first. Source: `preemptionMode`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum FlavorFit {
    NoFit,
    /// Quota is short, and nobody may be preempted for it.
    NoCandidates,
    /// In its own queue.
    Preempt,
    /// Only in other queues.
    Reclaim,
    Fit,
}

/// How well a flavor suits. Source: `granularMode`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Mode {
    pub(super) step: FlavorFit,
    /// Height in the tree at which its queue then borrows; 0 if it does not.
    pub(super) borrow: usize,
}

impl Mode {
    const BEST: Self = Self {
        step: FlavorFit::Fit,
        borrow: 0,
    };

    /// Whether it comes before another one. Source: `isPreferred`.
    fn is_preferred(self, other: Self, fungibility: Fungibility) -> bool {
        if self.step == FlavorFit::NoFit || other.step == FlavorFit::NoFit {
            return self.step != FlavorFit::NoFit;
        }
        let has_none = |mode: Self| mode.step == FlavorFit::NoCandidates;
        if has_none(self) != has_none(other) {
            return has_none(other);
        }
        let by_step = other.step.cmp(&self.step);
        let by_borrow = self.borrow.cmp(&other.borrow);
        let order = match fungibility.preference {
            FlavorPreference::Preemption => by_borrow.then(by_step),
            FlavorPreference::Borrowing => by_step.then(by_borrow),
        };
        order.is_lt()
    }

    /// Whether the search goes on to the next flavor. Source: `shouldTryNextFlavor`.
    fn tries_next(self, fungibility: Fungibility) -> bool {
        match self.step {
            FlavorFit::NoFit | FlavorFit::NoCandidates => true,
            FlavorFit::Preempt | FlavorFit::Reclaim if !fungibility.preempt_stops => true,
            _ => self.borrow > 0 && !fungibility.borrow_stops,
        }
    }
}

/// Flavors and pod counts of each set.
pub(super) struct Assignment {
    pub(super) queue: QueueId,
    pub(super) flavors: Vec<Vec<FlavorId>>,
    pub(super) counts: Vec<u32>,
    /// Quota that it uses, each pair once.
    pub(super) usage: Vec<(PairId, i64)>,
    /// How well the worst of its flavors suits.
    pub(super) step: FlavorFit,
    /// Height in the tree at which it borrows in some flavor, at most; 0 if it does not.
    pub(super) borrow: usize,
}

impl Assignment {
    /// Its allocation before its pods have nodes.
    pub(super) fn allocation(&self, state: &State<'_>, work: WorkloadId) -> Allocation {
        let sets = self.flavors.iter().zip(&self.counts);
        let sets: Vec<PodSetAllocation> = sets
            .map(|(flavors, count)| PodSetAllocation {
                count: *count,
                flavors: flavors.clone(),
                placements: Vec::new(),
            })
            .collect();
        Allocation {
            queue: Some(self.queue),
            usage: self.usage.clone(),
            speed_milli: state.speed(work, &sets),
            sets,
        }
    }
}

/// Who may be preempted in a nomination.
pub(super) struct Evictions<'a> {
    pub(super) holders: &'a Holders,
    pub(super) spared: Spared<'a>,
}

/// What Kueue decides for a workload.
pub(super) enum Nomination {
    /// Quota suffices in flavors that ignore nodes.
    Quota(Assignment),
    /// It fits a topology.
    Placed(Arc<Allocation>),
    Evicts(Victims),
}

/// A nomination of one workload at one moment.
pub(super) struct Nominator<'a> {
    pub(super) work: WorkloadId,
    pub(super) queue: QueueId,
    /// None: nothing is preempted.
    pub(super) evictions: Option<&'a Evictions<'a>>,
    /// Why the last search found no victims.
    pub(super) refusal: Option<NoPreemption>,
    /// Flavors for all pods where quota is short and nobody may be preempted for it.
    pub(super) kept: Option<Assignment>,
    /// What the last assignment uses.
    pub(super) nominated: Nominated,
}

impl<'a> Nominator<'a> {
    pub(super) const fn new(
        work: WorkloadId,
        queue: QueueId,
        evictions: Option<&'a Evictions<'a>>,
    ) -> Self {
        Self {
            work,
            queue,
            evictions,
            refusal: None,
            kept: None,
            nominated: Nominated {
                usage: Vec::new(),
                height: 0,
            },
        }
    }

    /// Nominates all pods; or, for a workload that may start with fewer, the most with which it fits or preempts.
    pub(super) fn nominate(&mut self, state: &mut State<'_>) -> Result<Nomination, Vec<Miss>> {
        let sets = &state.compiled().workloads[self.work].sets;
        let all: Vec<u32> = sets.iter().map(|set| set.count).collect();
        let misses = match self.with(state, &all) {
            Ok(found) => return Ok(found),
            Err(misses) => misses,
        };
        let kept = self.kept.take();
        let nominated = std::mem::take(&mut self.nominated);
        // Source: `PodSetReducer`, which searches with Go's `sort.Search`.
        let spare: Vec<u64> = sets
            .iter()
            .map(|set| u64::from(set.count - set.min.max(1).min(set.count)))
            .collect();
        let steps: u64 = spare.iter().sum();
        let (mut low, mut high) = (0, steps + 1);
        let mut found = None;
        while steps > 0 && low < high {
            let step = u64::midpoint(low, high);
            let counts = all.iter().zip(&spare);
            let less = |spare: &u64| u32::try_from(spare * step / steps).unwrap_or(0);
            let counts: Vec<u32> = counts.map(|(all, spare)| all - less(spare)).collect();
            match self.with(state, &counts) {
                Ok(nomination) => {
                    found = Some((step, nomination, std::mem::take(&mut self.nominated)));
                    high = step;
                }
                Err(_) => low = step + 1,
            }
        }
        match found {
            Some((step, nomination, nominated)) if step == low => {
                // The last count that was tried need not be this one.
                self.nominated = nominated;
                Ok(nomination)
            }
            _ => {
                (self.kept, self.nominated) = (kept, nominated);
                Err(misses)
            }
        }
    }

    /// Nominates exactly this many pods of each set. Where a topology has no room, the next flavors are tried, as Kueue
    /// does cycle by cycle.
    fn with(&mut self, state: &mut State<'_>, counts: &[u32]) -> Result<Nomination, Vec<Miss>> {
        self.nominated = Nominated::default();
        let mut passed = Vec::new();
        let mut all = Vec::new();
        loop {
            let assignment = match self.assign(state, counts, &passed) {
                Ok(assignment) => assignment,
                Err(misses) if all.is_empty() => return Err(misses),
                Err(_) => return Err(all),
            };
            self.nominated = Nominated {
                usage: assignment.usage.clone(),
                height: assignment.borrow,
            };
            let compiled = state.compiled();
            let mut flavors = assignment.flavors.iter().flatten().copied();
            let placed = flavors.find(|flavor| !ignores_nodes(compiled, &[*flavor]));
            let Some(flavor) = placed.filter(|_| state.nodes() > 0) else {
                return self.by_quota(state, assignment);
            };
            match self.on_topology(state, &assignment) {
                Ok(nomination) => return Ok(nomination),
                Err(misses) => all.extend(misses),
            }
            // Kueue keeps the quota of the first flavors that it tries in a cycle.
            self.kept.get_or_insert(assignment);
            passed.push(flavor);
        }
    }

    fn by_quota(
        &mut self,
        state: &mut State<'_>,
        assignment: Assignment,
    ) -> Result<Nomination, Vec<Miss>> {
        let fits = |&(pair, amount): &(PairId, i64)| amount <= state.available(self.queue, pair);
        if assignment.step == FlavorFit::Fit {
            // A flavor that is preferred by what it borrows may lack another resource: then Kueue skips the workload.
            return match assignment.usage.iter().all(fits) {
                true => Ok(Nomination::Quota(assignment)),
                false => Err(self.short(state, &assignment)),
            };
        }
        let victims = self.evictions.map(|evictions| {
            for_quota(
                state,
                (self.work, self.queue),
                (&assignment.flavors, &assignment.counts),
                assignment.usage.clone(),
                evictions.holders,
                evictions.spared,
            )
        });
        match victims {
            Some(Ok(victims)) => Ok(Nomination::Evicts(victims)),
            other => {
                self.refusal = other.and_then(Result::err);
                let misses = self.short(state, &assignment);
                self.kept = Some(assignment);
                Err(misses)
            }
        }
    }

    /// Nominates in flavors with a topology, where nodes count.
    fn on_topology(
        &mut self,
        state: &mut State<'_>,
        assignment: &Assignment,
    ) -> Result<Nomination, Vec<Miss>> {
        let own = assignment.allocation(state, self.work);
        let misses = match state.place_as(self.work, &own, &Relaxation::default()) {
            Ok(allocation) => return Ok(Nomination::Placed(Arc::new(allocation))),
            Err(misses) => misses,
        };
        let victims = self.evictions.map(|evictions| {
            for_nodes(
                state,
                (self.work, self.queue),
                (&assignment.flavors, &assignment.counts),
                evictions.holders,
                evictions.spared,
            )
        });
        match victims {
            Some(Ok(victims)) => Ok(Nomination::Evicts(victims)),
            other => {
                self.refusal = other.and_then(Result::err);
                Err(misses)
            }
        }
    }

    /// Assigns flavors by quota, set by set. Source: `assignFlavors`.
    fn assign(
        &self,
        state: &mut State<'_>,
        counts: &[u32],
        passed: &[FlavorId],
    ) -> Result<Assignment, Vec<Miss>> {
        let mut out = Assignment {
            queue: self.queue,
            flavors: Vec::with_capacity(counts.len()),
            counts: counts.to_vec(),
            usage: Vec::new(),
            step: FlavorFit::Fit,
            borrow: 0,
        };
        let none = Relaxation::default();
        for (set, &count) in counts.iter().enumerate() {
            let lists = state.flavor_lists(self.work, set, self.queue, &none)?;
            let groups = state
                .groups_of(self.work, set, self.queue)
                .unwrap_or_default();
            let mut flavors = Vec::with_capacity(groups.len());
            for (&group, list) in groups.iter().zip(lists) {
                let left = list.iter().filter(|flavor| !passed.contains(flavor));
                let list: Vec<FlavorId> = left.copied().collect();
                let asked = (set, group, count);
                let (mode, flavor, borrow) = self.best_flavor(state, asked, &list, &out.usage)?;
                out.step = out.step.min(mode.step);
                out.borrow = out.borrow.max(borrow);
                flavors.push(flavor);
            }
            for (pair, amount) in state.amounts(self.work, set, self.queue, &flavors, count) {
                match out.usage.iter_mut().find(|(known, _)| *known == pair) {
                    Some((_, sum)) => *sum = sum.saturating_add(amount),
                    None => out.usage.push((pair, amount)),
                }
            }
            out.flavors.push(flavors);
        }
        out.usage.sort_unstable();
        Ok(out)
    }

    /// The flavor of one resource group. Source: `findFlavorForPodSets`.
    fn best_flavor(
        &self,
        state: &mut State<'_>,
        (set, group, count): (usize, usize, u32),
        flavors: &[FlavorId],
        assumed: &[(PairId, i64)],
    ) -> Result<(Mode, FlavorId, usize), Vec<Miss>> {
        let known = state.compiled().snapshot.queues.get(self.queue);
        let fungibility = known.map_or_else(Fungibility::default, |queue| queue.fungibility);
        let mut best: Option<(Mode, FlavorId, usize)> = None;
        let mut misses = Vec::new();
        for &flavor in flavors {
            let miss = |why: Why| Miss {
                set,
                flavors: vec![flavor],
                why,
            };
            if !self.suits_topology(state.compiled(), set, flavor) {
                misses.push(miss(Why::FlavorTopology { flavor }));
                continue;
            }
            let suits = state.flavors_suit(self.work, set, &[flavor], &Relaxation::default());
            if let Err(why) = suits {
                misses.push(miss(why));
                continue;
            }
            let amounts = state.amounts_in(self.work, set, self.queue, (group, flavor), count);
            let (mut mode, mut borrow) = (Mode::BEST, 0);
            for (pair, amount) in amounts {
                let before = assumed.iter().find(|(known, _)| *known == pair);
                let all = amount.saturating_add(before.map_or(0, |(_, sum)| *sum));
                let (own, why) = self.mode(state, (set, flavor), pair, all);
                if let Some(why) = why
                    && !misses.iter().any(|known: &Miss| known.flavors == [flavor])
                {
                    misses.push(miss(why));
                }
                borrow = borrow.max(own.borrow);
                if mode.is_preferred(own, fungibility) {
                    mode = own;
                }
                if mode.step == FlavorFit::NoFit {
                    break;
                }
            }
            if mode.step == FlavorFit::NoFit {
                continue;
            }
            if best.is_none_or(|(best, ..)| mode.is_preferred(best, fungibility)) {
                best = Some((mode, flavor, borrow));
            }
            if !mode.tries_next(fungibility) {
                best = Some((mode, flavor, borrow));
                break;
            }
        }
        best.ok_or(misses)
    }

    /// Whether a set of pods may use a flavor as far as topologies go: one that asks for a topology needs a flavor that has its
    /// level, and one that does not ask may use flavors with a topology only where its queue has no others.
    /// Source: `checkPodSetAndFlavorMatchForTAS` of Kueue's `tas_flavorassigner.go`.
    fn suits_topology(&self, compiled: &CompiledFleet, set: usize, flavor: FlavorId) -> bool {
        let topology_of = |flavor: &FlavorId| compiled.snapshot.flavors[*flavor].topology.as_ref();
        let own = topology_of(&flavor);
        let Some(asked) = &compiled.workload(self.work).sets[set].topology else {
            let mut groups = compiled.tree.branches[self.queue].groups.iter();
            let has_topology = |flavor: &FlavorId| topology_of(flavor).is_some();
            return own.is_none() || groups.all(|group| group.flavors.iter().all(has_topology));
        };
        let Some(own) = own else {
            return false;
        };
        let mut known = compiled.snapshot.topologies.iter();
        let levels = known.find(|topology| topology.name == *own);
        let has_level = |levels: &Topology| levels.levels.contains(&asked.level);
        asked.is_unconstrained() || levels.is_none_or(has_level)
    }

    /// How an amount of one pair fits the quota. Source: `fitsResourceQuota`.
    fn mode(
        &self,
        state: &mut State<'_>,
        (set, flavor): (usize, FlavorId),
        pair: PairId,
        amount: i64,
    ) -> (Mode, Option<Why>) {
        let quota = *state.tree().quota(self.queue, pair);
        let of = |step: FlavorFit, borrow: usize| Mode { step, borrow };
        if amount > quota.potential {
            let why = Why::OverMost {
                pair,
                asked: amount,
                most: quota.potential,
            };
            return (of(FlavorFit::NoFit, 0), Some(why));
        }
        let borrow = state.borrow_height(self.queue, pair, amount);
        if amount <= state.available(self.queue, pair) {
            return (of(FlavorFit::Fit, borrow), None);
        }
        let why = Some(state.short_of(self.queue, pair, amount));
        let rules = state.compiled().snapshot.queues[self.queue].preemption;
        let fair = state.compiled().snapshot.options.fair_sharing.is_some();
        let while_borrowing =
            rules.borrow != Borrow::Never || fair && rules.reclaim != Reclaim::Never;
        let below_top = || state.fits_below_top(self.queue, pair, amount);
        if amount > quota.nominal && !while_borrowing && !below_top() {
            return (of(FlavorFit::NoFit, borrow), why);
        }
        // Source: `SimulatePreemption`.
        let victims = self.evictions.and_then(|evictions| {
            let sets = state.compiled().workloads[self.work].sets.len();
            let mut flavors = vec![Vec::new(); sets];
            flavors[set].push(flavor);
            let found = for_quota(
                state,
                (self.work, self.queue),
                (&flavors, &vec![0; sets]),
                vec![(pair, amount)],
                evictions.holders,
                evictions.spared,
            );
            found.ok()
        });
        let Some(victims) = victims else {
            return (of(FlavorFit::NoCandidates, borrow), why);
        };
        let mark = state.mark();
        let mut inside = victims
            .list
            .iter()
            .any(|it| it.reason == PreemptionReason::InQueue);
        for work in victims.list.iter().map(|it| it.work).chain(victims.ending) {
            let held = state.evict(work);
            inside |= held.is_some_and(|held| held.queue == Some(self.queue));
        }
        let borrow = state.borrow_height(self.queue, pair, amount);
        state.undo_to(mark);
        let step = match inside {
            true => FlavorFit::Preempt,
            false => FlavorFit::Reclaim,
        };
        (of(step, borrow), why)
    }

    /// Which quotas an assignment lacks.
    fn short(&self, state: &State<'_>, assignment: &Assignment) -> Vec<Miss> {
        let mut misses = Vec::new();
        for &(pair, asked) in &assignment.usage {
            if asked <= state.available(self.queue, pair) {
                continue;
            }
            let flavor = state.tree().pairs_of(self.queue)[pair].0;
            let has = |flavors: &Vec<FlavorId>| flavors.contains(&flavor);
            misses.push(Miss {
                set: assignment.flavors.iter().position(has).unwrap_or(0),
                flavors: vec![flavor],
                why: state.short_of(self.queue, pair, asked),
            });
        }
        misses
    }
}
