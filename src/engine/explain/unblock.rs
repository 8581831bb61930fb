//! Searches for the smallest changes that let a workload start.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::compiled::{NodeId, PairId, QueueId, Quotas, WorkloadId};
use crate::cycle::{self, CycleInput, CycleWatch};
use crate::fit::{Miss, Relaxation, Why};
use crate::schedulers;
use crate::snapshot::{PodSet, least_amount};
use crate::state::State;
use model::base::{Moment, Name, SmallSort};
use model::plan::Evicted;

use super::change::{Unblock, UnblockChange};
use super::{Explainer, job_levels};

/// Maximum number of nodes that are proposed.
pub(super) const MOST_NODES: i64 = 4_096;

/// Maximum number of node shapes that are tested.
pub(super) const MOST_LIKES: usize = 4;

/// A resource that can be added in amounts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Axis {
    /// Quota of a pair for a queue, in units of the given size.
    Quota(QueueId, PairId, i64),
    /// Nodes like an existing one.
    Nodes(NodeId),
}

impl Axis {
    /// Whether the failure is a shortage of this quota.
    const fn is_short(self, why: &Why) -> bool {
        match (self, why) {
            (Self::Quota(_, own, _), Why::Quota { pair, .. } | Why::OverMost { pair, .. }) => {
                own == *pair
            }
            _ => false,
        }
    }
}

/// Node labels that pods require.
fn labels(sets: &[PodSet]) -> Vec<Name> {
    let asked = |set: &PodSet| -> Vec<Name> {
        let required = set.affinity.iter().flatten().map(|it| it.key.clone());
        set.selector.keys().cloned().chain(required).collect()
    };
    let mut keys: Vec<Name> = sets.iter().flat_map(asked).collect();
    keys.small_sort();
    keys.dedup();
    keys
}

impl Explainer<'_> {
    /// All single changes that help, cheapest first; or, if none does, several together.
    pub(super) fn unblocks(
        &mut self,
        work: WorkloadId,
        misses: &[Miss],
        reserved: Option<Moment>,
    ) -> Vec<Unblock> {
        let compiled = self.state.compiled();
        let now = self.state.now();
        self.spared = false;
        self.order_helps = true;
        if misses
            .iter()
            .any(|miss| matches!(miss.why, Why::Stopped { .. }))
        {
            return self.resume_queue(work).into_iter().collect();
        }
        if misses
            .iter()
            .any(|miss| matches!(miss.why, Why::Ending { .. }))
        {
            return Vec::new();
        }
        let final_word = misses.iter().all(|miss| {
            matches!(
                miss.why,
                Why::NoQueue | Why::Cohort | Why::NotCovered { .. }
            )
        });
        if final_word {
            return Vec::new();
        }
        let mut out: Vec<Unblock> = Vec::new();
        let mut trials = self.trials.get(&work).cloned().unwrap_or_default();
        let is_reserved = |miss: &Miss| matches!(miss.why, Why::Reserved { .. });
        if trials.by_reservations || misses.iter().any(is_reserved) {
            trials = Arc::new(self.beside_reservations(work, &trials));
        }
        let mut add = |change: UnblockChange| out.push(Unblock::new(vec![change], trials.exact));
        if let Some(taints) = trials.taints.clone() {
            add(UnblockChange::Tolerate { taints });
        }
        let level = job_levels(compiled, work).into_iter().next();
        if let Some(level) = level.filter(|_| trials.no_topology) {
            add(UnblockChange::RelaxTopology { level });
        }
        for &flavor in &trials.flavors {
            add(UnblockChange::Flavor {
                flavor: compiled.snapshot.flavors[flavor].name.clone(),
            });
        }
        out.extend(self.priority(work));
        let behind = misses
            .iter()
            .any(|miss| matches!(miss.why, Why::Behind { .. }));
        for axis in self.quota_axes(work, misses) {
            // If it does not start even with unlimited quota, no amount helps.
            let short = misses.iter().any(|miss| axis.is_short(&miss.why));
            if short && (trials.no_quota || behind) || self.goes_sooner(work, axis) {
                out.extend(self.amount(work, axis));
            }
        }
        let room = misses.iter().any(|miss| {
            matches!(
                miss.why,
                Why::Nodes { .. } | Why::Topology { .. } | Why::Reserved { .. }
            )
        });
        if misses.iter().any(|miss| miss.why.may_pass()) {
            out.extend(self.preempt(work));
        }
        // Capacity that it regains may fit workloads that are admitted before it.
        if room || behind || self.has_reserved {
            out.extend(self.uncordon(work));
            out.extend(self.nodes(work, misses));
        }
        if out.is_empty() {
            out.extend(self.together(work, misses, None));
        }
        if out.is_empty() && behind {
            // Workloads ahead may lack something that no change provides: then it must also go before them.
            let top = self.steps(work).last().copied();
            out.extend(top.and_then(|top| self.together(work, misses, Some(top))));
        }
        if out.is_empty() && trials.no_labels {
            let keys = labels(&compiled.workload(work).sets);
            out.push(Unblock::new(
                vec![UnblockChange::Labels { keys }],
                trials.exact,
            ));
        }
        if out.is_empty() {
            out.extend(self.smaller_ask(work));
        }
        if out.is_empty() && self.spared {
            out.extend(self.estimate(work));
        }
        // Waiting comes last, since it changes nothing; active changes are searched anyway.
        out.extend(reserved.map(|at| Unblock::new(vec![UnblockChange::Wait { at }], true)));
        out.small_sort_by_key(|unblock| unblock.cost(now));
        out
    }

    /// For a single pod without a queue: the largest memory request, in whole GiB, that fits some node now.
    fn smaller_ask(&mut self, work: WorkloadId) -> Option<Unblock> {
        const GIB: i64 = 1 << 30;
        let compiled = self.state.compiled();
        let [set] = &compiled.workloads[work].sets[..] else {
            return None;
        };
        let ask = &compiled.requests[set.want].ask;
        if set.count != 1 || compiled.workload(work).queue.is_some() {
            return None;
        }
        let zones = self
            .settled
            .gate(set.constraint, &[], &Relaxation::default());
        let has_devices = |node: NodeId| {
            let units = &compiled.node_shapes[self.settled.node_free(node).node_shape].units;
            let units = units.iter().zip(self.settled.left(node));
            compiled.requests[set.want]
                .devices
                .iter()
                .all(|(resource, count, milli)| {
                    let free = units.clone().filter(|(unit, left)| {
                        unit.sound && unit.resource == *resource && *left >= milli
                    });
                    free.count() >= *count as usize
                })
        };
        let nodes = (0..self.settled.nodes()).filter(|node| {
            let room = self.settled.node_free(*node);
            let allowed = room.open && zones[compiled.node_shapes[room.node_shape].zone];
            allowed && room.cpu >= ask.cpu_milli && has_devices(*node)
        });
        let most = nodes
            .map(|node| self.settled.node_free(node).memory)
            .max()?;
        let to = most / GIB * GIB;
        if to <= 0 || to >= ask.memory_bytes {
            return None;
        }
        let change = UnblockChange::Ask {
            resource: Name::from("memory"),
            from: ask.memory_bytes,
            to,
        };
        Some(self.held_one(work, change))
    }

    /// A workload's position in its line at the given priority.
    fn place_at(&self, work: WorkloadId, priority: i32) -> usize {
        let line = self.state.compiled().workloads[work].queue;
        let line = line.and_then(|queue| self.lines.get(&queue));
        let key = |other: WorkloadId, priority: i32| {
            let created = self.state.workload(other).created;
            (std::cmp::Reverse(priority), created, other)
        };
        let own = key(work, priority);
        line.map_or(0, |line| {
            line.partition_point(|&other| key(other, self.state.priority(other)) < own)
        })
    }

    /// Cost of a cycle's turns up to a workload, at the given priority.
    pub(super) fn turns_to(&self, work: WorkloadId, to: Option<i32>) -> usize {
        let place = match to {
            Some(to) => self.place_at(work, to),
            None => self.places[work].unwrap_or(0),
        };
        let turns = self.lines.values().map(|line| line.len().min(place + 1));
        turns.sum::<usize>().saturating_mul(self.weight)
    }

    /// Whether the budget covers this many tests of a workload, at its own or another priority.
    pub(super) fn affords(&mut self, work: WorkloadId, tries: usize, to: Option<i32>) -> bool {
        let affords = self.turns >= self.turns_to(work, to).saturating_mul(tries);
        self.spared |= !affords;
        affords
    }

    /// Whether a workload starts in a cycle on the modified state, at its own or another priority; if so, the workloads that
    /// are evicted for it.
    pub(super) fn starts_if(
        &mut self,
        work: WorkloadId,
        to: Option<i32>,
        suppose: impl FnOnce(&mut State<'_>),
    ) -> Option<Vec<Evicted>> {
        let mut lines = self.lines.clone();
        let queue = self.state.compiled().workloads[work].queue;
        if let (Some(to), Some(line)) = (to, queue.and_then(|queue| lines.get_mut(&queue))) {
            let place = self.place_at(work, to);
            line.retain(|other| *other != work);
            line.insert(place.min(line.len()), work);
        }
        let known = CycleInput {
            lines,
            durations: self.durations.clone(),
        };
        self.starts_with(work, to, Some(known), suppose)
    }

    /// The same, with known pending workloads; none if the change affects which workloads are pending.
    pub(super) fn starts_with(
        &mut self,
        work: WorkloadId,
        to: Option<i32>,
        known: Option<CycleInput>,
        suppose: impl FnOnce(&mut State<'_>),
    ) -> Option<Vec<Evicted>> {
        self.turns = self.turns.saturating_sub(self.turns_to(work, to));
        let mark = self.state.mark();
        if let Some(to) = to {
            self.state.set_priority(work, to);
        }
        suppose(&mut self.state);
        let watch = CycleWatch {
            until: Some(work),
            known,
            ..CycleWatch::default()
        };
        let cycle = cycle::watched(&mut self.state, watch);
        let starts = self.state.allocation(work).is_some() && !cycle.quota_reserved.contains(&work);
        self.state.undo_to(mark);
        starts.then(|| super::victims_of(self.state.compiled(), &cycle, work))
    }

    /// Priorities above its own that change the order, ascending.
    pub(super) fn steps(&mut self, work: WorkloadId) -> Vec<i32> {
        let from = self.state.priority(work);
        let all = self.priorities().iter().copied();
        let all: BTreeSet<i32> = all.filter(|priority| *priority > from).collect();
        let compiled = self.state.compiled();
        if !schedulers::of(compiled, compiled.workloads[work].queue).by_class {
            return all.into_iter().collect();
        }
        // Pods get their priority from classes only: use the lowest class that is high enough.
        let classes = compiled
            .snapshot
            .classes
            .iter()
            .filter(|class| !class.of_workloads);
        let values: BTreeSet<i32> = classes.map(|class| class.value).collect();
        let at_least = |priority: i32| values.range(priority..).next().copied();
        let known: BTreeSet<i32> = all.into_iter().filter_map(at_least).collect();
        known.into_iter().collect()
    }

    /// The lowest priority with which it starts.
    fn priority(&mut self, work: WorkloadId) -> Option<Unblock> {
        let from = self.state.priority(work);
        let steps = self.steps(work);
        let top = *steps.last()?;
        // Before all others it must fit, or it needs preemption.
        let queue = self.state.compiled().workloads[work].queue;
        let pushes = queue.is_some_and(|queue| {
            !self.state.tree().branches[queue].nameless && self.state.may_preempt(queue)
        });
        if !pushes && self.state.find(work, &Relaxation::default()).is_err() {
            self.order_helps = false;
            return None;
        }
        if !self.affords(work, 2, Some(top)) {
            return None;
        }
        let Some(mut victims) = self.starts_if(work, Some(top), |_| ()) else {
            self.order_helps = false;
            return None;
        };
        let change = |to: i32, proven: bool, victims: Vec<Evicted>| {
            Unblock::evicting(vec![UnblockChange::Priority { from, to }], proven, victims)
        };
        let (mut low, mut high) = (0, steps.len() - 1);
        while low < high {
            let middle = (low + high) / 2;
            if !self.affords(work, 1, Some(steps[middle])) {
                return Some(change(steps[high], false, victims));
            }
            match self.starts_if(work, Some(steps[middle]), |_| ()) {
                Some(fewer) => (high, victims) = (middle, fewer),
                None => low = middle + 1,
            }
        }
        Some(change(steps[high], true, victims))
    }

    /// Quotas that stopped it come first, then quotas that it would use.
    fn quota_axes(&mut self, work: WorkloadId, misses: &[Miss]) -> Vec<Axis> {
        let Some(queue) = self.state.compiled().workloads[work].queue else {
            return Vec::new();
        };
        let mut pairs: Vec<PairId> = misses
            .iter()
            .filter_map(|miss| match miss.why {
                Why::Quota { pair, .. } | Why::OverMost { pair, .. } => Some(pair),
                _ => None,
            })
            .collect();
        // Other quotas that it uses may move it forward in the order.
        let used = self.state.nominated(work, &Relaxation::default());
        pairs.extend(used.into_iter().map(|(pair, _)| pair));
        let mut seen = BTreeSet::new();
        pairs.retain(|pair| seen.insert(*pair));
        pairs
            .into_iter()
            .map(|pair| Axis::Quota(queue, pair, self.unit(queue, pair)))
            .collect()
    }

    /// Smallest unit of a pair that is allocated: a device, a core, a GiB.
    pub(super) fn unit(&self, queue: QueueId, pair: PairId) -> i64 {
        least_amount(&self.state.tree().pairs_of(queue)[pair].1)
    }

    pub(super) fn change(&self, work: WorkloadId, axis: Axis, amount: i64) -> UnblockChange {
        let snapshot = &self.state.compiled().snapshot;
        match axis {
            Axis::Quota(queue, pair, unit) => {
                let tree = self.state.tree();
                let (flavor, resource) = &tree.pairs_of(queue)[pair];
                let add = amount.saturating_mul(unit);
                UnblockChange::Quota {
                    queue: tree.branches[queue].name.clone(),
                    flavor: snapshot.flavors[*flavor].name.clone(),
                    resource: resource.clone(),
                    add,
                    nominal: tree.quota(queue, pair).nominal.saturating_add(add),
                }
            }
            Axis::Nodes(like) => {
                let node = &snapshot.nodes[like];
                UnblockChange::Nodes {
                    like: node.name.clone(),
                    instance_type: node.instance_type.clone(),
                    no_more: node.no_more.clone(),
                    pool: node.pool.clone(),
                    count: u32::try_from(amount).unwrap_or(u32::MAX),
                    devices: u32::try_from(node.devices.len()).unwrap_or(u32::MAX),
                    filled: u32::try_from(self.filled(work, like)).unwrap_or(u32::MAX),
                }
            }
        }
    }

    pub(super) fn helps(
        &mut self,
        work: WorkloadId,
        amounts: &[(Axis, i64)],
        to: Option<i32>,
    ) -> Option<Vec<Evicted>> {
        self.starts_if(work, to, |state| {
            for &(axis, amount) in amounts {
                suppose(state, axis, amount);
            }
        })
    }

    /// Requests of workloads ahead for a pair, plus its own: the maximum that may be needed.
    pub(super) fn demand(&mut self, work: WorkloadId, axis: Axis) -> i64 {
        let place = self.places[work].unwrap_or(0);
        match axis {
            Axis::Quota(queue, pair, unit) => {
                let (all, _) = self.requests_ahead(queue, pair, place);
                let root = self.state.tree().branches[queue].root;
                all.saturating_add(self.state.gross(root, pair)) / unit + 1
            }
            Axis::Nodes(_) => self.pods(place).clamp(1, MOST_NODES),
        }
    }

    /// The smallest amount of one resource that helps.
    pub(super) fn amount(&mut self, work: WorkloadId, axis: Axis) -> Option<Unblock> {
        let most = self.demand(work, axis);
        if !self.affords(work, 2, None) {
            return self.estimated_amount(work, axis);
        }
        // Exponential search until it helps, then binary search between the last two.
        let (mut no, mut yes) = (0, 1);
        let mut victims = loop {
            if let Some(victims) = self.helps(work, &[(axis, yes)], None) {
                break victims;
            }
            if yes >= most {
                return self.scan(work, axis);
            }
            if !self.affords(work, 1, None) {
                return self.estimated_amount(work, axis);
            }
            no = yes;
            yes = (yes * 2).min(most);
        };
        let mut proven = true;
        while yes - no > 1 {
            if !self.affords(work, 1, None) {
                proven = false;
                break;
            }
            let middle = (no + yes) / 2;
            match self.helps(work, &[(axis, middle)], None) {
                Some(fewer) => (yes, victims) = (middle, fewer),
                None => no = middle,
            }
        }
        let change = self.change(work, axis, yes);
        Some(Unblock::evicting(vec![change], proven, victims))
    }

    /// Nodes whose empty copy would fit a pod of each set that lacks nodes, few and different.
    pub(super) fn likes(&mut self, work: WorkloadId, misses: &[Miss]) -> Vec<NodeId> {
        let mut likes: Vec<NodeId> = Vec::new();
        let mut seen: std::collections::BTreeSet<super::sums::Alike> =
            std::collections::BTreeSet::new();
        for miss in misses {
            let level = match miss.why {
                Why::Topology { ladder, level, .. } => Some((ladder, level)),
                _ => None,
            };
            let set = match miss.why {
                Why::Nodes { set, .. } | Why::Topology { set, .. } => set,
                _ => miss.set,
            };
            for (alike, node) in self.alike(work, set, &miss.flavors, level) {
                if likes.len() < MOST_LIKES && seen.insert(alike) {
                    likes.push(node);
                }
            }
        }
        likes
    }

    /// Quota and nodes together: starts with plenty, then reduces each in turn as long as it still helps.
    fn together(
        &mut self,
        work: WorkloadId,
        misses: &[Miss],
        mut to: Option<i32>,
    ) -> Option<Unblock> {
        let queue = self.state.compiled().workloads[work].queue?;
        if !self.affords(work, 2, to) {
            return None;
        }
        let beyond = Relaxation {
            no_quota: true,
            ..Relaxation::default()
        };
        let more = match self.state.find(work, &beyond) {
            Ok(_) => Vec::new(),
            Err(more) => more,
        };
        let likes = self.likes(work, if more.is_empty() { misses } else { &more });
        let mut axes: Vec<Axis> = Vec::new();
        for (set, it) in self.state.compiled().workloads[work]
            .sets
            .iter()
            .enumerate()
        {
            let options = self.state.options(work, set, queue, &Relaxation::default());
            let flavors = options.ok()?.into_iter().next()?;
            for (pair, _) in self.state.amounts(work, set, queue, &flavors, it.count) {
                let axis = Axis::Quota(queue, pair, self.unit(queue, pair));
                if !axes.contains(&axis) {
                    axes.push(axis);
                }
            }
        }
        axes.extend(likes.into_iter().take(1).map(Axis::Nodes));
        let mut amounts: Vec<(Axis, i64)> = axes
            .iter()
            .map(|&axis| (axis, self.demand(work, axis)))
            .collect();
        let mut victims = self.helps(work, &amounts, to)?;
        // A reduction of one may change the need for another, since other workloads start or not: repeat until nothing shrinks.
        let mut proven = false;
        while !proven && self.affords(work, 1, to) {
            proven = true;
            let top = to;
            if let Some(top) = top {
                for step in self.steps(work) {
                    if step < top
                        && self.affords(work, 1, Some(step))
                        && let Some(fewer) = self.helps(work, &amounts, Some(step))
                    {
                        (to, victims) = (Some(step), fewer);
                        proven = false;
                        break;
                    }
                }
            }
            for at in 0..amounts.len() {
                let (mut no, mut yes) = (-1, amounts[at].1);
                let mut middle = yes - 1;
                while yes - no > 1 && self.affords(work, 1, to) {
                    amounts[at].1 = middle;
                    if let Some(fewer) = self.helps(work, &amounts, to) {
                        (yes, victims) = (middle, fewer);
                        proven = false;
                    } else if middle == yes - 1 {
                        break;
                    } else {
                        no = middle;
                    }
                    middle = (no + yes) / 2;
                }
                amounts[at].1 = yes;
            }
        }
        let some = amounts.iter().filter(|(_, amount)| *amount > 0);
        let mut changes: Vec<UnblockChange> = some
            .map(|&(axis, amount)| self.change(work, axis, amount))
            .collect();
        if let Some(to) = to {
            let from = self.state.priority(work);
            changes.insert(0, UnblockChange::Priority { from, to });
        }
        (!changes.is_empty()).then(|| Unblock::evicting(changes, proven, victims))
    }
}

/// Applies it to a state as [`UnblockChange::apply`] applies it to a snapshot.
fn suppose(state: &mut State<'_>, axis: Axis, amount: i64) {
    match axis {
        Axis::Quota(queue, pair, unit) => {
            let add = amount.saturating_mul(unit);
            let own = *state.tree().quota(queue, pair);
            let quotas = Quotas {
                nominal: own.nominal.saturating_add(add),
                cap: own.cap.map(|cap| cap.saturating_add(add)),
                ..own
            };
            state.set_quota(queue, pair, quotas);
        }
        Axis::Nodes(like) => {
            for _ in 0..amount {
                state.add_node(like);
            }
        }
    }
}
