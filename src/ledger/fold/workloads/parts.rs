//! The objects of a job as a tree of owners: which of them state something of the whole job.
//!
//! A TrainJob creates a JobSet, and that creates Jobs: each of them states the same pods again.

use std::iter::successors;
use std::sync::Arc;

use model::fleet::seen::WorkloadSeen;
use model::fleet::siting::JobPodSet;

/// The workload that owns this one, among those of its job.
fn owner<'a>(
    workloads: &[&'a Arc<WorkloadSeen>],
    of: &WorkloadSeen,
) -> Option<&'a Arc<WorkloadSeen>> {
    let owner = of.owner.as_ref()?;
    let mut all = workloads.iter();
    all.find(|workload| !owner.uid.is_empty() && workload.uid == owner.uid)
        .copied()
}

/// Workloads that state something and have no such workload above them: their statements add up.
pub(crate) fn topmost<'a>(
    workloads: &[&'a Arc<WorkloadSeen>],
    states: impl Fn(&WorkloadSeen) -> bool,
) -> Vec<&'a Arc<WorkloadSeen>> {
    let above_states = |workload: &WorkloadSeen| {
        successors(owner(workloads, workload), |above| owner(workloads, above))
            // (Owners in a circle are a mistake, and no reason to hang.)
            .take(workloads.len())
            .any(|above| states(above))
    };
    let stating = workloads.iter().filter(|workload| states(workload));
    stating
        .filter(|workload| !above_states(workload))
        .copied()
        .collect()
}

/// Whether its pod sets say where their pods may run.
fn states_placement(workload: &WorkloadSeen) -> bool {
    workload.pod_sets.iter().all(JobPodSet::has_placement)
}

/// The workloads that represent the whole job: its own object, or the highest below it that request devices and say where their
/// pods may run; where no workload requests devices, its own object, or those without a known owner.
pub(crate) fn highest<'a>(
    top: Option<&'a Arc<WorkloadSeen>>,
    workloads: &[&'a Arc<WorkloadSeen>],
) -> Vec<&'a Arc<WorkloadSeen>> {
    let asks = |workload: &WorkloadSeen| workload.total.device_count() > 0;
    if let Some(top) = top.filter(|top| asks(top) && states_placement(top)) {
        return vec![top];
    }
    let placed = topmost(workloads, |workload| {
        asks(workload) && states_placement(workload)
    });
    if !placed.is_empty() {
        return placed;
    }
    match top {
        Some(top) => vec![top],
        None => topmost(workloads, |_| true),
    }
}
