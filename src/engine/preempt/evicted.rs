//! Victims by name, for answers and plans.

use crate::compiled::CompiledFleet;
use crate::snapshot::Workload;
use model::plan::{Evicted, JobName};

use super::Victim;

/// All victims of a set by name, in order.
pub fn evicted(compiled: &CompiledFleet, victims: &[Victim]) -> Vec<Evicted> {
    let one = |victim: &Victim| {
        let work = compiled.workload(victim.work);
        Evicted {
            job: JobName(work.key.key.clone()),
            devices: devices(work),
            reason: victim.reason.name().to_owned(),
            lost_device_seconds: victim.lost_ms / 1_000,
        }
    };
    victims.iter().map(one).collect()
}

/// Devices allocated to a workload; if none of its pods has a node, the devices of its reserved quota.
fn devices(work: &Workload) -> u64 {
    let placed = work.sets.iter().any(|set| !set.placements.is_empty());
    let sets = work.sets.iter().map(|set| {
        let pods = match placed {
            true => set.placements.len() as u64,
            false => u64::from(set.count),
        };
        pods * u64::from(set.requests.device_count())
    });
    sets.sum()
}
