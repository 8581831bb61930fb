//! KAI: queues with quotas; a gang starts whole, on nodes. Nothing is reserved. Source: `allocate`, `reclaim`, `preempt`.

use super::{SchedulerRules, kube};

pub(super) const SCHEDULER: SchedulerRules = SchedulerRules {
    by_class: true,
    ..kube::SCHEDULER
};
