//! `stokehold govern`: a workload starts when quota and nodes suffice together, and capacity is reserved for the first that wait, as
//! many as `[engine] backfill` says.

use super::{SchedulerRules, kube};

pub(super) const SCHEDULER: SchedulerRules = SchedulerRules {
    reserves: true,
    ..kube::SCHEDULER
};
