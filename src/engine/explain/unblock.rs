//! The least changes that let a workload start.

use std::collections::BTreeSet;

use crate::compiled::{NodeId, PairId, QueueId, Quotas, WorkloadId};
use crate::cycle::{self, Known, Watch};
use crate::fit::{Miss, Relaxation, Why};
use crate::snapshot::{PodSet, System, least_amount};
use crate::state::State;
use model::base::{Moment, Name, SmallSort};
use model::plan::Evicted;

use super::change::{Change, Unblock};
use super::{Explainer, job_levels};

/// Most nodes that are proposed.
pub(super) const MOST_NODES: i64 = 4_096;

/// Most shapes of nodes that are tried.
const MOST_LIKES: usize = 4;

/// What can be had in amounts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Axis {
    /// So many units of a pair for a queue.
    Quota(QueueId, PairId, i64),
    /// So many nodes like one.
    Nodes(NodeId),
}

/// The labels of nodes that pods ask for.
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
    /// All single changes that help, cheapest first; or, where none does, several together.
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
        let trials = self.trials.get(&work).cloned().unwrap_or_default();
        let mut add = |change: Change| out.push(Unblock::new(vec![change], trials.exact));
        if let Some(taints) = trials.taints.clone() {
            add(Change::Tolerate { taints });
        }
        let level = job_levels(compiled, work).into_iter().next();
        if let Some(level) = level.filter(|_| trials.no_topology) {
            add(Change::RelaxTopology { level });
        }
        for &flavor in &trials.flavors {
            add(Change::Flavor {
                flavor: compiled.snapshot.flavors[flavor].name.clone(),
            });
        }
        out.extend(self.priority(work));
        let behind = misses
            .iter()
            .any(|miss| matches!(miss.why, Why::Behind { .. }));
        for axis in self.quota_axes(work, misses) {
            // Without any limit on its quota it would not start: then no amount of it helps.
            if trials.no_quota || behind {
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
        // What it takes back from others may be room for those that are admitted before it.
        if room || behind || self.has_let_in {
            out.extend(self.uncordon(work));
            out.extend(self.nodes(work, misses));
        }
        if out.is_empty() {
            out.extend(self.together(work, misses, None));
        }
        if out.is_empty() && behind {
            // Those before it may lack what nothing of the list gives: then it must also go before them.
            let top = self.steps(work).last().copied();
            out.extend(top.and_then(|top| self.together(work, misses, Some(top))));
        }
        if out.is_empty() && trials.no_labels {
            let keys = labels(&compiled.workload(work).sets);
            out.push(Unblock::new(vec![Change::Labels { keys }], trials.exact));
        }
        if out.is_empty() {
            out.extend(self.smaller_ask(work));
        }
        if out.is_empty() && self.spared {
            out.extend(self.reckoned(work));
        }
        // Last, since it changes nothing: what does is looked for all the same.
        out.extend(reserved.map(|at| Unblock::new(vec![Change::Wait { at }], true)));
        out.small_sort_by_key(|unblock| unblock.cost(now));
        out
    }

    /// For one pod of no queue: the most memory, in whole GiB, with which it has room somewhere now.
    fn smaller_ask(&mut self, work: WorkloadId) -> Option<Unblock> {
        const GIB: i64 = 1 << 30;
        let compiled = self.state.compiled();
        let [set] = &compiled.works[work].sets[..] else {
            return None;
        };
        let ask = &compiled.wants[set.want].ask;
        if set.count != 1 || compiled.workload(work).queue.is_some() {
            return None;
        }
        let zones = self
            .settled
            .gate(set.constraint, &[], &Relaxation::default());
        let has_devices = |node: NodeId| {
            let units = &compiled.makes[self.settled.room(node).make].units;
            let units = units.iter().zip(self.settled.left(node));
            compiled.wants[set.want]
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
            let room = self.settled.room(*node);
            let allowed = room.open && zones[compiled.makes[room.make].zone];
            allowed && room.cpu >= ask.cpu_milli && has_devices(*node)
        });
        let most = nodes.map(|node| self.settled.room(node).memory).max()?;
        let to = most / GIB * GIB;
        if to <= 0 || to >= ask.memory_bytes {
            return None;
        }
        let change = Change::Ask {
            resource: Name::from("memory"),
            from: ask.memory_bytes,
            to,
        };
        Some(self.held_one(work, change))
    }

    /// A workload's place in its line if it had this priority.
    fn place_at(&self, work: WorkloadId, priority: i32) -> usize {
        let line = self.state.compiled().works[work].queue;
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

    /// What the turns of a cycle up to a workload's count for, if it has this priority.
    fn turns_to(&self, work: WorkloadId, to: Option<i32>) -> usize {
        let place = match to {
            Some(to) => self.place_at(work, to),
            None => self.places[work].unwrap_or(0),
        };
        let turns = self.lines.values().map(|line| line.len().min(place + 1));
        turns.sum::<usize>().saturating_mul(self.weight)
    }

    /// Whether so many tries of a workload can be paid for, with another priority or its own.
    pub(super) fn affords(&mut self, work: WorkloadId, tries: usize, to: Option<i32>) -> bool {
        let affords = self.turns >= self.turns_to(work, to).saturating_mul(tries);
        self.spared |= !affords;
        affords
    }

    /// Whether a workload starts in a cycle on the state as something makes it, with another priority or its own: then who is
    /// evicted for it.
    pub(super) fn starts_if(
        &mut self,
        work: WorkloadId,
        to: Option<i32>,
        suppose: impl FnOnce(&mut State<'_>),
    ) -> Option<Vec<Evicted>> {
        let mut lines = self.lines.clone();
        let queue = self.state.compiled().works[work].queue;
        if let (Some(to), Some(line)) = (to, queue.and_then(|queue| lines.get_mut(&queue))) {
            let place = self.place_at(work, to);
            line.retain(|other| *other != work);
            line.insert(place.min(line.len()), work);
        }
        let known = Known {
            lines,
            durations: self.durations.clone(),
        };
        self.starts_with(work, to, Some(known), suppose)
    }

    /// The same, with what is known of those who wait: nothing where supposing changes who does.
    pub(super) fn starts_with(
        &mut self,
        work: WorkloadId,
        to: Option<i32>,
        known: Option<Known>,
        suppose: impl FnOnce(&mut State<'_>),
    ) -> Option<Vec<Evicted>> {
        self.turns = self.turns.saturating_sub(self.turns_to(work, to));
        let mark = self.state.mark();
        if let Some(to) = to {
            self.state.set_priority(work, to);
        }
        suppose(&mut self.state);
        if self.has_let_in {
            cycle::place(&mut self.state, &[]);
        }
        let watch = Watch {
            until: Some(work),
            known,
            ..Watch::default()
        };
        let cycle = cycle::watched(&mut self.state, super::AS_DONE, watch);
        let starts = self.state.allocation(work).is_some() && !cycle.quota_reserved.contains(&work);
        self.state.undo_to(mark);
        starts.then(|| super::victims_of(self.state.compiled(), &cycle, work))
    }

    /// Priorities above its own that change the order, from the least.
    pub(super) fn steps(&mut self, work: WorkloadId) -> Vec<i32> {
        let from = self.state.priority(work);
        let all = self.priorities().iter().copied();
        let all: BTreeSet<i32> = all.filter(|priority| *priority > from).collect();
        let snapshot = &self.state.compiled().snapshot;
        let queue = snapshot.workloads[work].queue.as_ref();
        let queue = queue.and_then(|name| snapshot.queues.iter().find(|it| it.name == *name));
        if !queue.is_some_and(|queue| matches!(queue.system, System::Volcano | System::Kai)) {
            return all.into_iter().collect();
        }
        // Theirs are of classes alone: the least class that is as high.
        let classes = snapshot.classes.iter().filter(|class| !class.of_workloads);
        let values: BTreeSet<i32> = classes.map(|class| class.value).collect();
        let at_least = |priority: i32| values.range(priority..).next().copied();
        let known: BTreeSet<i32> = all.into_iter().filter_map(at_least).collect();
        known.into_iter().collect()
    }

    /// The least priority with which it starts.
    fn priority(&mut self, work: WorkloadId) -> Option<Unblock> {
        let from = self.state.priority(work);
        let steps = self.steps(work);
        let top = *steps.last()?;
        // Before all others it must fit, or others are evicted for it.
        let queue = self.state.compiled().works[work].queue;
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
            Unblock::evicting(vec![Change::Priority { from, to }], proven, victims)
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

    /// The quotas that stopped it.
    fn quota_axes(&self, work: WorkloadId, misses: &[Miss]) -> Vec<Axis> {
        let Some(queue) = self.state.compiled().works[work].queue else {
            return Vec::new();
        };
        let mut pairs: Vec<PairId> = misses
            .iter()
            .filter_map(|miss| match miss.why {
                Why::Quota { pair, .. } | Why::OverMost { pair, .. } => Some(pair),
                _ => None,
            })
            .collect();
        let mut seen = std::collections::BTreeSet::new();
        pairs.retain(|pair| seen.insert(*pair));
        pairs
            .into_iter()
            .map(|pair| Axis::Quota(queue, pair, self.unit(queue, pair)))
            .collect()
    }

    /// The least amount of a pair that is given: a device, a core, a GiB.
    pub(super) fn unit(&self, queue: QueueId, pair: PairId) -> i64 {
        least_amount(&self.state.tree().pairs_of(queue)[pair].1)
    }

    pub(super) fn change(&self, axis: Axis, amount: i64) -> Change {
        let snapshot = &self.state.compiled().snapshot;
        match axis {
            Axis::Quota(queue, pair, unit) => {
                let tree = self.state.tree();
                let (flavor, resource) = &tree.pairs_of(queue)[pair];
                let add = amount.saturating_mul(unit);
                Change::Quota {
                    queue: tree.branches[queue].name.clone(),
                    flavor: snapshot.flavors[*flavor].name.clone(),
                    resource: resource.clone(),
                    add,
                    nominal: tree.quota(queue, pair).nominal.saturating_add(add),
                }
            }
            Axis::Nodes(like) => {
                let node = &snapshot.nodes[like];
                Change::Nodes {
                    like: node.name.clone(),
                    instance_type: node.instance_type.clone(),
                    pool: node.pool.clone(),
                    count: u32::try_from(amount).unwrap_or(u32::MAX),
                    devices: u32::try_from(node.devices.len()).unwrap_or(u32::MAX),
                }
            }
        }
    }

    fn helps(
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

    /// What those before a workload ask for of a pair besides itself: the most that may be needed.
    fn demand(&mut self, work: WorkloadId, axis: Axis) -> i64 {
        let place = self.places[work].unwrap_or(0);
        match axis {
            Axis::Quota(queue, pair, unit) => {
                let (all, _) = self.asked(queue, pair, place);
                let root = self.state.tree().branches[queue].root;
                all.saturating_add(self.state.gross(root, pair)) / unit + 1
            }
            Axis::Nodes(_) => self.pods(place).clamp(1, MOST_NODES),
        }
    }

    /// The least amount of one thing that helps.
    fn amount(&mut self, work: WorkloadId, axis: Axis) -> Option<Unblock> {
        let most = self.demand(work, axis);
        if !self.affords(work, 2, None) {
            return self.reckoned_amount(work, axis);
        }
        // Ever more until it helps, then back and forth between the last two.
        let (mut no, mut yes) = (0, 1);
        let mut victims = loop {
            if let Some(victims) = self.helps(work, &[(axis, yes)], None) {
                break victims;
            }
            if yes >= most {
                return None;
            }
            if !self.affords(work, 1, None) {
                return self.reckoned_amount(work, axis);
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
        let change = self.change(axis, yes);
        Some(Unblock::evicting(vec![change], proven, victims))
    }

    /// Nodes that an empty one of would take a pod of each set that lacks room, few and unlike.
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

    fn nodes(&mut self, work: WorkloadId, misses: &[Miss]) -> Option<Unblock> {
        let compiled = self.state.compiled();
        let mut best: Option<((bool, i64, usize), Unblock)> = None;
        for (at, like) in self.likes(work, misses).into_iter().enumerate() {
            let Some(found) = self.amount(work, Axis::Nodes(like)) else {
                continue;
            };
            let count = match &found.changes[..] {
                [Change::Nodes { count, .. }] => i64::from(*count),
                _ => continue,
            };
            let devices = compiled.snapshot.nodes[like].devices.len() as i64;
            let key = (!found.proven, count * devices.max(1), at);
            if best.as_ref().is_none_or(|best| key < best.0) {
                best = Some((key, found));
            }
        }
        best.map(|(_, found)| found)
    }

    /// Quota and nodes together: all of plenty, then less of each in turn as long as it still helps.
    fn together(
        &mut self,
        work: WorkloadId,
        misses: &[Miss],
        mut to: Option<i32>,
    ) -> Option<Unblock> {
        let queue = self.state.compiled().works[work].queue?;
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
        for (set, it) in self.state.compiled().works[work].sets.iter().enumerate() {
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
        // Less of one thing may change how much of another is needed, since others start or do not: until nothing gives.
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
        let mut changes: Vec<Change> = some
            .map(|&(axis, amount)| self.change(axis, amount))
            .collect();
        if let Some(to) = to {
            let from = self.state.priority(work);
            changes.insert(0, Change::Priority { from, to });
        }
        (!changes.is_empty()).then(|| Unblock::evicting(changes, proven, victims))
    }
}

/// Does it to a state as [`Change::apply`] does it to a snapshot.
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
