//! Volcano: queues with capacities; a gang starts whole, on nodes. Nothing is reserved. Source: `allocate`, `preempt`, `reclaim`.

use super::{SchedulerRules, kube};

pub(super) const SCHEDULER: SchedulerRules = SchedulerRules {
    by_class: true,
    ..kube::SCHEDULER
};
