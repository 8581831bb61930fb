//! How each scheduler of a cluster decides: a table of functions for each, chosen by a workload's queue. A cycle, an explanation, a
//! forecast, a what-if, sizing and a plan all ask the same table, so that they give one answer.

mod kai;
mod kube;
mod kueue;
mod on_nodes;
mod stokehold;
mod victims;
mod volcano;

use super::compiled::{CompiledFleet, FlavorId, QueueId, WorkloadId};
use super::cycle::{CycleRun, Nominated, Reservations, Started, Turn};
use super::preempt::{Holders, NoPreemption, Spared, Victims};
use super::snapshot::System;
use super::state::State;

/// How a scheduler decides.
pub(crate) struct SchedulerRules {
    /// Tries a workload whose turn it is in a cycle: whether it starts or gets its quota.
    pub(crate) turn: fn(&mut CycleRun, &mut State<'_>, &mut Turn<'_, '_>) -> bool,
    /// What it nominates for a workload before the workload's turn: who comes first depends on it.
    pub(crate) nominate: fn(&mut CycleRun, &mut State<'_>, WorkloadId) -> Nominated,
    /// Starts a workload in a timeline, where nothing is preempted. The last are workloads that are being evicted already.
    pub(crate) start:
        fn(&mut State<'_>, &mut Reservations, WorkloadId, Option<&Holders>) -> Started,
    /// The victims with which a workload starts, or gets its quota where the scheduler ignores nodes.
    pub(crate) victims:
        fn(&mut State<'_>, WorkloadId, &Holders, Spared<'_>) -> Result<Victims, NoPreemption>,
    /// Whether it admits workloads of a queue by quota in these flavors and leaves nodes to kube-scheduler.
    pub(crate) ignores_nodes: fn(&CompiledFleet, &[FlavorId]) -> bool,
    /// Whether it reserves free capacity for workloads that wait.
    pub(crate) reserves: bool,
    /// Whether a pod's priority is that of a class, so that others cannot be given.
    pub(crate) by_class: bool,
}

/// The scheduler of a queue's workloads: kube-scheduler for pods without a queue, and for queues known by name only.
pub(crate) fn of(compiled: &CompiledFleet, queue: Option<QueueId>) -> &'static SchedulerRules {
    let known = queue.and_then(|queue| compiled.snapshot.queues.get(queue));
    match known.map_or(System::None, |queue| queue.system) {
        System::Kueue => &kueue::SCHEDULER,
        System::Volcano => &volcano::SCHEDULER,
        System::Kai => &kai::SCHEDULER,
        System::Stokehold => &stokehold::SCHEDULER,
        System::None => &kube::SCHEDULER,
    }
}

/// Whether a workload of this queue may get its quota and no nodes.
pub(crate) fn ignores_nodes(compiled: &CompiledFleet, queue: QueueId) -> bool {
    let ignores = of(compiled, Some(queue)).ignores_nodes;
    let mut groups = compiled.tree.branches[queue].groups.iter();
    groups.all(|group| ignores(compiled, &group.flavors)) && ignores(compiled, &[])
}
