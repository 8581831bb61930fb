//! Victims by name, for answers and plans.

use crate::compiled::CompiledFleet;
use crate::snapshot::Workload;
use model::plan::{Evicted, JobName};

use super::Victim;

/// All victims of a set by name, in order.
pub fn evicted(compiled: &CompiledFleet, victims: &[Victim]) -> Vec<Evicted> {
    let one = |victim: &Victim| {
        let work = compiled.workload(victim.work);
        evicted_for(work, victim.reason.name(), victim.lost_ms)
    };
    victims.iter().map(one).collect()
}

/// A workload that is evicted for this reason, losing so many device-milliseconds of work.
pub fn evicted_for(work: &Workload, reason: &str, lost_ms: i64) -> Evicted {
    let held = work.sets.iter().map(|set| {
        let pods = set.placements.len() as u64;
        pods * u64::from(set.requests.device_count())
    });
    let placed = work.sets.iter().any(|set| !set.placements.is_empty());
    Evicted {
        job: JobName(work.key.key.clone()),
        devices: held.sum(),
        quota_devices: if placed { 0 } else { work.device_count() },
        reason: reason.to_owned(),
        lost_device_seconds: lost_ms / 1_000,
    }
}
