//! Pod sets of jobs, and sharing of equal values between pods.

use std::sync::Arc;

use rustc_hash::FxHashSet;

use model::base::Name;
use model::fleet::device::Pod;
use model::fleet::object_parts::Resources;
use model::fleet::seen::WorkloadSeen;
pub(crate) use model::fleet::siting::devices;
use model::fleet::siting::{JobPodSet, Siting, TopologyConstraint};

/// Sitings in use. Unreferenced ones are dropped from time to time.
#[derive(Default)]
pub(crate) struct SharedSitings {
    sitings: FxHashSet<Arc<Siting>>,
    sets: FxHashSet<Arc<[JobPodSet]>>,
    kept: usize,
}

impl SharedSitings {
    /// The shared copy of this siting.
    pub(crate) fn siting(&mut self, siting: Arc<Siting>) -> Arc<Siting> {
        if let Some(known) = self.sitings.get(&siting) {
            return Arc::clone(known);
        }
        self.prune();
        self.sitings.insert(Arc::clone(&siting));
        siting
    }

    /// The shared copy of these pod sets.
    pub(crate) fn sets(&mut self, sets: Arc<[JobPodSet]>) -> Arc<[JobPodSet]> {
        if let Some(known) = self.sets.get(&sets) {
            return Arc::clone(known);
        }
        self.prune();
        self.sets.insert(Arc::clone(&sets));
        sets
    }

    fn prune(&mut self) {
        if self.sitings.len() + self.sets.len() > self.kept.saturating_mul(2).max(1024) {
            self.sets.retain(|sets| Arc::strong_count(sets) > 1);
            self.sitings.retain(|siting| Arc::strong_count(siting) > 1);
            self.kept = self.sitings.len() + self.sets.len();
        }
    }
}

/// Pod sets of pods without a workload: pods with equal requests form a set.
pub(crate) fn of_pods(pods: &[&Arc<Pod>]) -> Arc<[JobPodSet]> {
    let mut sets: Vec<JobPodSet> = Vec::new();
    for pod in pods.iter().filter(|pod| !pod.seen.phase.is_over()) {
        let alike = sets.iter_mut().find(|set| {
            set.request == pod.seen.requests
                && set.node_selector == pod.seen.node_selector
                && set.siting == pod.seen.siting
        });
        match alike {
            Some(set) => set.count += 1,
            None => sets.push(JobPodSet {
                name: match sets.len() {
                    0 => Name::new("main"),
                    more => Name::from(format!("main-{}", more + 1)),
                },
                count: 1,
                min: 1,
                request: pod.seen.requests.clone(),
                node_selector: pod.seen.node_selector.clone(),
                siting: pod.seen.siting.clone(),
                topology: None,
                blocked: None,
            }),
        }
    }
    sets.into()
}

/// The pod sets of the highest workloads, in name order; a workload without pod sets counts by its largest pod.
pub(crate) fn of_workloads<'a>(
    workloads: impl Iterator<Item = &'a Arc<WorkloadSeen>>,
) -> Arc<[JobPodSet]> {
    let mut all: Vec<&Arc<WorkloadSeen>> = workloads.collect();
    if let [one] = &*all
        && !one.pod_sets.is_empty()
    {
        return Arc::clone(&one.pod_sets);
    }
    all.sort_by(|a, b| (&a.key, &a.kind).cmp(&(&b.key, &b.kind)));
    let mut sets = Vec::new();
    for workload in all {
        if workload.pod_sets.is_empty() && workload.per_pod.device_count() > 0 {
            sets.push(JobPodSet {
                name: Name::new("main"),
                count: workload.pods,
                min: workload.gang_min.unwrap_or(workload.pods.min(1)),
                request: workload.per_pod.clone(),
                node_selector: workload.node_selector.clone(),
                siting: None,
                topology: None,
                blocked: None,
            });
        } else {
            sets.extend(workload.pod_sets.iter().cloned());
        }
    }
    sets.into()
}

/// The same sets, each blocked as the set of its name in these workloads is: a queueing system's copy does not say it.
pub(crate) fn blocked_as(
    sets: &Arc<[JobPodSet]>,
    workloads: &[&Arc<WorkloadSeen>],
) -> Arc<[JobPodSet]> {
    let block = |name: &Name| {
        // (This copy states where their pods may run.)
        let mut own = workloads.iter().flat_map(|own| own.pod_sets.iter());
        own.find(|set| set.name == *name && set.follows_role())
            .and_then(|set| set.blocked.clone())
    };
    if !sets.iter().any(|set| block(&set.name).is_some()) {
        return Arc::clone(sets);
    }
    let blocked = sets.iter().cloned().map(|mut set| {
        set.blocked = block(&set.name);
        set
    });
    blocked.collect()
}

/// The same sets, of which together at least `min` pods start at once: shared out by their size, and never more than a set has.
pub(crate) fn with_minimum(sets: Arc<[JobPodSet]>, min: u32) -> Arc<[JobPodSet]> {
    let needed = sets.iter().map(|set| set.min).fold(0, u32::saturating_add);
    let all = pods(&sets);
    if needed >= min.min(all) {
        return sets;
    }
    let raised = sets.iter().cloned().map(|mut set| {
        let share = (u64::from(set.count) * u64::from(min)).div_ceil(u64::from(all));
        let share = u32::try_from(share).unwrap_or(u32::MAX);
        set.min = set.min.max(share).min(set.count);
        set
    });
    raised.collect()
}

/// The same sets; each pod starts on its own.
pub(crate) fn of_single_pods(sets: &[JobPodSet]) -> Arc<[JobPodSet]> {
    let alone = sets.iter().cloned().map(|mut set| {
        set.min = set.min.min(1);
        set
    });
    alone.collect()
}

/// The same sets, with this topology request where they have none.
pub(crate) fn with_topology(
    sets: &Arc<[JobPodSet]>,
    topology: &TopologyConstraint,
) -> Arc<[JobPodSet]> {
    sets.iter()
        .cloned()
        .map(|mut set| {
            set.topology = set.topology.or_else(|| Some(Box::new(topology.clone())));
            set
        })
        .collect()
}

/// Number of `min` pods that request devices, when the sets' pods start evenly.
pub(crate) fn device_pods(sets: &[JobPodSet], min: u32) -> u32 {
    let all = u64::from(pods(sets));
    let asking: u64 = sets
        .iter()
        .filter(|set| set.request.device_count() > 0)
        .map(|set| u64::from(set.count))
        .sum();
    if all == 0 || asking == 0 || asking >= all {
        return min;
    }
    let part = (u64::from(min) * asking).div_ceil(all);
    u32::try_from(part).unwrap_or(u32::MAX)
}

pub(crate) fn pods(sets: &[JobPodSet]) -> u32 {
    sets.iter()
        .map(|set| set.count)
        .fold(0, u32::saturating_add)
}

/// The pod set with the largest request per pod.
pub(crate) fn largest(sets: &[JobPodSet]) -> Option<&JobPodSet> {
    let weight = |request: &Resources| (request.device_count(), request.cpu_milli);
    sets.iter()
        .rev()
        .max_by_key(|set| weight(&set.request))
        .filter(|set| set.request.device_count() > 0)
}
