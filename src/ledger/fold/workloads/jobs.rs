//! Builds a job from its workloads and pods: requests, state, allocation, reason for waiting.

use std::sync::Arc;
use std::time::Duration;

use model::base::time::parse_span;
use model::base::{Moment, Name, ObjectKey};
use model::fleet::admission::GroupSeen;
use model::fleet::device::Pod;
use model::fleet::fleet::hidden_pool;
use model::fleet::govern::Governed;
use model::fleet::job::{Gang, HeldDevice, Job, JobKey, JobState, Serving};
use model::fleet::kinds::Table;
use model::fleet::object_parts::{Labels, OwnerRef};
use model::fleet::queue::{PriorityKind, QueueSystem};
use model::fleet::run_hold::{HELD_BY_RUN, OpenRun};
use model::fleet::seen::WorkloadSeen;
use model::fleet::siting::JobPodSet;

use super::state::{JobFacts, failure, first_run, reason, state, waiting_since};
use super::{parts, sets};
use crate::fold::Ledger;

/// Builds the job of this id; `None` when none of its objects requests devices any longer.
pub(crate) fn build(ledger: &Ledger, id: &JobKey, at: Moment) -> Option<Job> {
    let workloads: Vec<&Arc<WorkloadSeen>> = ledger
        .job_workloads
        .get(id)
        .into_iter()
        .flatten()
        .filter_map(|key| ledger.workloads.get(key))
        .collect();
    let pods: Vec<&Arc<Pod>> = ledger
        .job_pods
        .get(id)
        .into_iter()
        .flatten()
        .filter_map(|key| ledger.joined.get(key))
        .collect();
    let groups: Vec<&Arc<GroupSeen>> = ledger.groups_of(id).collect();
    let top = workloads
        .iter()
        .find(|workload| workload.key == id.key && workload.kind == id.kind)
        .copied();
    let wants_devices = workloads
        .iter()
        .any(|workload| workload.total.device_count() > 0 || workload.per_pod.device_count() > 0)
        || groups
            .iter()
            .any(|group| sets::devices(&group.pod_sets) > 0);
    let govern = top.and_then(|top| Governed::of(top));
    // A governed job waits for admission whether it requests devices or not.
    let is_governed = govern.as_ref().is_some_and(|govern| govern.suspends);
    if pods.is_empty() && !wants_devices && !is_governed {
        return None;
    }
    let admission = ledger.admission(id);
    let highest = parts::highest(top, &workloads);
    let pod_sets = pod_sets(&highest, &workloads, &groups, &pods);
    let living = pods.iter().filter(|pod| !pod.seen.phase.is_over());
    let of_pods = ledger.claims.devices_of(living.copied());
    let requested = requested(top, &highest, &groups, of_pods);
    let bound: Vec<&&Arc<Pod>> = pods.iter().filter(|pod| pod.holds_devices()).collect();
    let allocated = ledger.claims.devices_of(bound.iter().map(|pod| **pod));
    let gang = gang(top, &workloads, &groups, &pod_sets);
    let pod_sets = match gang {
        Some(gang) => sets::with_minimum(pod_sets, gang.min),
        None if is_of_single_pods(&groups) => sets::of_single_pods(&pod_sets),
        None => pod_sets,
    };
    let places = places(ledger, &bound);
    let held = JobDevices::of(ledger, &bound, at);
    let own = |pod: &Pod| JobKey {
        key: pod.key().clone(),
        kind: Name::new("Pod"),
    };
    let chain_of_pods = pods
        .first()
        .map(|pod| ledger.chain(own(pod), pod.seen.owner.as_ref()));
    let labels: Vec<&Labels> = match (&chain_of_pods, pods.first()) {
        (Some(chain), Some(pod)) => chain
            .known
            .iter()
            .map(|workload| &workload.labels)
            .chain([&pod.seen.labels])
            .collect(),
        _ => top
            .into_iter()
            .chain(workloads.iter().copied())
            .map(|workload| &workload.labels)
            .chain(groups.iter().map(|group| &group.labels))
            .collect(),
    };
    let belonging = ledger.queue_and_team(id, &labels);
    let standing = JobFacts {
        top,
        workloads: &workloads,
        pods: &pods,
        admission: admission.as_ref(),
        gang,
        sets: &pod_sets,
        queue_system: belonging.queue_system,
    };
    let state = state(&standing);
    let waits = matches!(state, JobState::Waiting | JobState::Starting);
    // (A job whose Workload is held runs on until its queue has evicted it.)
    let has_ended = matches!(state, JobState::Done | JobState::Failed);
    let hold = standing.run_hold().filter(|_| !has_ended);
    let open = (hold.is_some() || (standing.suspended() && !has_ended))
        .then(|| OpenRun::holder(&ledger.open_runs, id, hold.as_ref()))
        .flatten();
    let held_words = open
        .map(OpenRun::words)
        .or_else(|| Some(hold.as_ref()?.words()));
    let (reason_code, reason) = if let Some(words) = held_words {
        (Some(HELD_BY_RUN), Name::from(words))
    } else if waits || state == JobState::Suspended {
        let ours = govern
            .as_ref()
            .filter(|_| belonging.queue_system == QueueSystem::Stokehold);
        ours.and_then(|governed| ledger.govern_reason(governed))
            .unwrap_or_else(|| reason(&standing, state, belonging.queue.as_ref()))
    } else if let Some(cluster) = standing
        .worker_cluster()
        .filter(|_| state == JobState::Running)
    {
        let words = format!("runs on worker cluster {cluster}");
        (Some("on-worker-cluster"), Name::from(words))
    } else {
        (None, Name::default())
    };
    let created = top
        .map(|top| top.created)
        .into_iter()
        .chain(groups.iter().map(|group| group.created))
        .chain(pods.iter().map(|pod| pod.seen.created))
        .min()
        .unwrap_or_default();
    let started = top
        .and_then(|top| top.started)
        // A Job's start time is when its controller first saw it, whether a pod ran or not.
        .filter(|_| state != JobState::Waiting || standing.has_run())
        // (Skipped for a finished job: its pods may be listed after its end, and deleted before it.)
        .map(|since| match state {
            JobState::Starting | JobState::Running => first_run(since, &pods).unwrap_or(since),
            _ => since,
        })
        .or_else(|| pods.iter().filter_map(|pod| pod.seen.started).min());
    let class = held
        .class
        .clone()
        .or_else(|| wanted_class(ledger, top, &pod_sets, &pods));
    let uid = top
        .map(|top| &top.uid)
        .or_else(|| {
            groups
                .iter()
                .find(|group| group.key == id.key && group.kind == id.kind)
                .map(|group| &group.uid)
        })
        .or_else(|| pods.first().map(|pod| &pod.seen.uid))
        .cloned()
        .unwrap_or_default();
    let own_labels = top.map(|top| &top.labels).or_else(|| {
        let own = groups
            .iter()
            .find(|group| group.key == id.key && group.kind == id.kind);
        own.map(|group| &group.labels)
    });
    let own_labels = own_labels.cloned();
    let mut chain = chain_of_pods.map(|chain| chain.links).unwrap_or_default();
    let is_own_pod = pods.first().is_some_and(|pod| own(pod) == *id);
    let ends_at_job = chain
        .last()
        .is_some_and(|link| link.kind == id.kind && link.name == id.key.name);
    if !ends_at_job && !is_own_pod {
        chain.push(OwnerRef {
            kind: id.kind.clone(),
            name: id.key.name.clone(),
            uid: uid.clone(),
        });
    }
    let shown = pods
        .iter()
        .filter(|pod| !pod.seen.phase.is_over() || state == JobState::Failed)
        .map(|pod| Arc::clone(pod))
        .collect();
    let annotations = JobAnnotations::by(top, &pods);
    let time_limit = admission
        .as_ref()
        .and_then(|admission| admission.seen.time_limit)
        .or_else(|| top.and_then(|top| top.time_limit))
        .map(Duration::from_secs);
    Some(Job {
        uid,
        chain: chain.into_boxed_slice(),
        labels: own_labels,
        priority: priority(ledger, &standing, &annotations),
        queue: belonging.queue,
        queue_system: belonging.queue_system,
        team: belonging.team,
        team_source: belonging.team_source,
        state,
        devices_requested: requested,
        devices_allocated: allocated,
        class,
        pools: held.pools,
        gang,
        created,
        waiting_since: (waits || state == JobState::Suspended)
            .then(|| waiting_since(&standing, created)),
        started,
        finished: top.and_then(|top| top.finished),
        reason_code,
        reason,
        failure: failure(&standing),
        pods: shown,
        places,
        util: held.util,
        idle_devices: held.idle,
        serving: served(ledger, &id.key, &pods, at),
        pod_request: (waits && pods.is_empty())
            .then(|| sets::largest(&pod_sets))
            .flatten()
            .map(|set| Arc::new((set.request.clone(), set.node_selector.clone()))),
        pod_sets,
        admission: admission.map(Arc::new),
        estimate: annotations.estimate,
        time_limit,
        last_checkpoint: annotations.last_checkpoint,
        held: hold.map(Arc::new),
        govern: govern.map(Arc::new),
        id: id.clone(),
    })
}

/// Serving metrics that its pods report.
fn served(ledger: &Ledger, job: &ObjectKey, pods: &[&Arc<Pod>], at: Moment) -> Option<Serving> {
    let pods = pods.iter().map(|pod| &***pod);
    ledger.serving.of(&ledger.policy, job, pods, at)
}

/// The job with new readings of its nodes, when nothing else changed; `None` when it must be rebuilt.
pub(crate) fn read_anew(ledger: &Ledger, old: &Job, at: Moment) -> Option<Job> {
    let pods = ledger.job_pods.get(&old.id).into_iter().flatten();
    let pods: Vec<&Arc<Pod>> = pods.filter_map(|key| ledger.joined.get(key)).collect();
    let bound: Vec<&&Arc<Pod>> = pods.iter().filter(|pod| pod.holds_devices()).collect();
    let held = JobDevices::of(ledger, &bound, at);
    // Without a class from its devices, the requested class applies.
    let class = held.class?;
    Some(Job {
        class: Some(class),
        pools: held.pools,
        places: places(ledger, &bound),
        util: held.util,
        idle_devices: held.idle,
        serving: served(ledger, &old.id.key, &pods, at),
        ..old.clone()
    })
}

/// What the owner of a job sets in our own labels and annotations.
struct JobAnnotations {
    priority: Option<i32>,
    estimate: Option<Duration>,
    last_checkpoint: Option<Moment>,
}

impl JobAnnotations {
    /// From the job's own object, else from its pods; of several checkpoints the oldest, since a gang resumes from that one.
    fn by(top: Option<&Arc<WorkloadSeen>>, pods: &[&Arc<Pod>]) -> Self {
        let texts = |key: &'static str| {
            let own = top
                .into_iter()
                .flat_map(|top| [&top.annotations, &top.labels]);
            let theirs = pods
                .iter()
                .flat_map(|pod| [&pod.seen.annotations, &pod.seen.labels]);
            own.chain(theirs)
                .filter_map(move |map| map.get(key))
                .map(Name::as_str)
        };
        Self {
            priority: texts("stokehold.dev/priority").find_map(|text| text.trim().parse().ok()),
            estimate: texts("stokehold.dev/runtime-estimate")
                .find_map(|text| parse_span(text.trim())),
            last_checkpoint: top
                .and_then(|top| top.annotations.get("stokehold.dev/last-checkpoint"))
                .and_then(|text| Moment::parse(text))
                .or_else(|| {
                    texts("stokehold.dev/last-checkpoint")
                        .filter_map(Moment::parse)
                        .min()
                }),
        }
    }
}

/// Priority that orders it in its queue, or the value of the class that its queueing system has for it, which may have been
/// changed since its pods were created; else the owner's label, its pods' priority, or the value of its own priority class.
fn priority(ledger: &Ledger, standing: &JobFacts<'_>, annotations: &JobAnnotations) -> Option<i32> {
    let class = || {
        let name = standing.top?.priority_class.as_ref()?;
        ledger.tables.priority(PriorityKind::Pod, name)
    };
    let queued_class = || {
        let name = standing.admission?.seen.priority_class.as_ref()?;
        ledger
            .tables
            .priority(PriorityKind::Workload, name)
            .or_else(|| ledger.tables.priority(PriorityKind::Pod, name))
    };
    // KAI orders by the class that its PodGroup names and never by pods': where that class is not listed, nothing says its value.
    let by_class_alone = standing.admission.is_some_and(|admission| {
        admission.system() == QueueSystem::Kai && admission.seen.priority_class.is_some()
    });
    if by_class_alone {
        return queued_class();
    }
    standing
        .admission
        .and_then(|admission| admission.seen.priority)
        .or_else(queued_class)
        .or(annotations.priority)
        .or_else(|| standing.pods.iter().map(|pod| pod.seen.priority).max())
        .or_else(class)
}

/// The job's pod sets: from its queueing system, from its owner's spec, or from its pods.
fn pod_sets(
    highest: &[&Arc<WorkloadSeen>],
    workloads: &[&Arc<WorkloadSeen>],
    groups: &[&Arc<GroupSeen>],
    pods: &[&Arc<Pod>],
) -> Arc<[JobPodSet]> {
    let mut with_sets = groups.iter().filter(|group| !group.pod_sets.is_empty());
    if let (Some(one), None) = (with_sets.next(), with_sets.next()) {
        return sets::blocked_as(&one.pod_sets, workloads);
    }
    let mut sets = sets::of_workloads(highest.iter().copied());
    if sets::devices(&sets) == 0 {
        sets = match pods.is_empty() {
            true => groups
                .iter()
                .flat_map(|group| group.pod_sets.iter().cloned())
                .collect(),
            false => sets::of_pods(pods),
        };
    }
    // A gang's own topology request applies to all its pods.
    if let Some(topology) = groups.iter().find_map(|group| group.topology.as_ref()) {
        sets = sets::with_topology(&sets, topology);
    }
    sets
}

/// The job's own total, else that of the highest workloads with a total, else that of its pods.
fn requested(
    top: Option<&Arc<WorkloadSeen>>,
    highest: &[&Arc<WorkloadSeen>],
    groups: &[&Arc<GroupSeen>],
    of_pods: u32,
) -> u32 {
    let of_workloads: u32 = highest
        .iter()
        .map(|workload| workload.total.device_count())
        .fold(0, u32::saturating_add);
    // A finished job requests nothing more, but keeps its size.
    if top.is_some_and(|top| top.outcome.is_some()) && of_workloads > 0 {
        return of_workloads;
    }
    let known = of_workloads.max(of_pods);
    if known > 0 {
        return known;
    }
    groups
        .iter()
        .map(|group| sets::devices(&group.pod_sets))
        .sum()
}

/// True if KAI starts each pod of the job on its own, for any kind of owner: every PodGroup that KAI made for it needs only one
/// pod (a batch Job has one for each pod, a JobSet one for all).
fn is_of_single_pods(groups: &[&Arc<GroupSeen>]) -> bool {
    let mut kai = groups
        .iter()
        .filter(|group| group.table == Table::KaiPodGroups)
        .peekable();
    kai.peek().is_some() && kai.all(|group| group.gang_min == Some(1))
}

/// The pods that run together or not at all: from the only group that schedules them, else from their owner's spec.
fn gang(
    top: Option<&Arc<WorkloadSeen>>,
    workloads: &[&Arc<WorkloadSeen>],
    groups: &[&Arc<GroupSeen>],
    sets: &[JobPodSet],
) -> Option<Gang> {
    if is_of_single_pods(groups) {
        return None;
    }
    // PodGroups are created from the Kubernetes Workload, so the Workload does not count again.
    let made = groups.iter().any(|group| group.table == Table::PodGroups);
    let mut gangs = groups
        .iter()
        .filter(|group| group.gang_min.is_some() && !(made && group.table == Table::Workloads));
    if let (Some(one), None) = (gangs.next(), gangs.next())
        && let Some(min) = one.gang_min.filter(|min| *min > 1)
    {
        let size = top.map_or(0, |top| top.pods).max(sets::pods(sets));
        return Some(Gang {
            size: size.max(min),
            min,
        });
    }
    let of = |workload: &Arc<WorkloadSeen>| {
        workload.gang_min.map(|min| Gang {
            size: workload.pods.max(min),
            min,
        })
    };
    let stating = parts::topmost(workloads, |workload| workload.gang_min.is_some());
    top.and_then(of).or_else(|| {
        let parts = stating.into_iter().filter_map(of);
        parts.reduce(|sum, gang| Gang {
            size: sum.size.saturating_add(gang.size),
            min: sum.min.saturating_add(gang.min),
        })
    })
}

fn places(ledger: &Ledger, bound: &[&&Arc<Pod>]) -> Box<[HeldDevice]> {
    let mut places = Vec::new();
    for pod in bound {
        let Some(node) = pod
            .seen
            .node
            .as_ref()
            .and_then(|node| ledger.nodes.get(node)?.built.as_ref())
        else {
            continue;
        };
        let is_it = |holder: &Option<Arc<Pod>>| {
            holder
                .as_ref()
                .is_some_and(|holder| holder.key() == pod.key())
        };
        for device in &node.devices {
            let place = |slice| HeldDevice {
                node: node.name().clone(),
                device: device.index,
                slice,
            };
            if is_it(&device.holder) {
                places.push(place(None));
            }
            for slice in device.slices.iter().filter(|slice| is_it(&slice.holder)) {
                places.push(place(Some(slice.name.clone())));
            }
        }
    }
    places.sort();
    places.into_boxed_slice()
}

/// A job's values from its allocated devices.
struct JobDevices {
    class: Option<Name>,
    pools: Box<[Name]>,
    util: Option<f64>,
    idle: u32,
}

impl JobDevices {
    fn of(ledger: &Ledger, bound: &[&&Arc<Pod>], at: Moment) -> Self {
        // There are one or two of each, over hundreds of devices.
        let mut classes: Vec<(&Name, u32)> = Vec::new();
        let mut pools: Vec<&Name> = Vec::new();
        let (mut sum, mut count, mut idle) = (0.0, 0u32, 0);
        let hidden = hidden_pool();
        for pod in bound {
            let Some(node) = pod
                .seen
                .node
                .as_ref()
                .and_then(|node| ledger.nodes.get(node)?.built.as_ref())
            else {
                continue;
            };
            if node.pool != hidden && !pools.contains(&&node.pool) {
                pools.push(&node.pool);
            }
            for device in &node.devices {
                if !device
                    .holders()
                    .any(|(holder, _)| holder.key() == pod.key())
                {
                    continue;
                }
                match classes
                    .iter_mut()
                    .find(|(class, _)| **class == device.class)
                {
                    Some((_, count)) => *count += 1,
                    None => classes.push((&device.class, 1)),
                }
                idle += u32::from(model::fleet::judge::is_idle(device, at, &ledger.policy));
                // Its own slice is more precise than the device that it shares.
                let own = device.slices.iter().find(|slice| {
                    slice
                        .holder
                        .as_ref()
                        .is_some_and(|holder| holder.key() == pod.key())
                });
                let util = own
                    .and_then(|slice| slice.signals.get(model::fleet::signal::Signal::Util))
                    .or_else(|| device.util());
                // A reading from before the allocation belongs to an earlier pod.
                let is_its = device.read_at >= Some(pod.held_since());
                if let Some(util) = util.filter(|_| is_its && !device.is_stale(at)) {
                    sum += util;
                    count += 1;
                }
            }
        }
        pools.sort();
        Self {
            class: classes
                .iter()
                .max_by_key(|(name, count)| (*count, std::cmp::Reverse(*name)))
                .map(|(name, _)| (*name).clone()),
            pools: pools.into_iter().cloned().collect(),
            util: (count > 0).then(|| sum / f64::from(count)),
            idle,
        }
    }
}

/// The device class that a pending job requests by node selector, if any.
fn wanted_class(
    ledger: &Ledger,
    top: Option<&Arc<WorkloadSeen>>,
    sets: &[JobPodSet],
    pods: &[&Arc<Pod>],
) -> Option<Name> {
    let selectors = top
        .map(|top| &top.node_selector)
        .into_iter()
        .chain(sets.iter().map(|set| &set.node_selector))
        .chain(pods.iter().map(|pod| &pod.seen.node_selector));
    for selector in selectors {
        for (_, value) in selector.iter() {
            if let Some(known) = ledger.policy.catalog.find(value) {
                return Some(known.class.clone());
            }
        }
    }
    None
}
