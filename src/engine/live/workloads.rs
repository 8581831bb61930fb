//! Converts jobs of a live fleet to workloads: requests, placements, supported mutations.

use std::collections::BTreeMap;

use crate::snapshot::{
    DeviceRequest, Handle, OtherHandle, Placement, PodSet, Requirement, ResourceRequests, Status,
    System, TopologyRequest, WHOLE, Workload, WorkloadMutations, unit_is_milli,
};
use model::base::{Moment, Name, SmallSort};
use model::fleet::admission::{Admission, GroupSeen};
use model::fleet::device::Pod;
use model::fleet::govern::{ADMITTED, Governed};
use model::fleet::job::{Job, JobState};
use model::fleet::observe::{DevicePart, Resources, Table};
use model::fleet::queue::{PriorityKind, QueueSystem};
use model::fleet::siting::{self, ConstraintMode, Operator, Siting};
use model::fleet::{Fleet, TableState};

use super::{DevicesByPod, Titles, label_map, toleration};
use super::{counted, kueue};

/// The engine's maximum of thousandths of a core, bytes, devices, pods and sets.
const CPU: i64 = 1_000_000_000;
const MEMORY: i64 = 1 << 50;
const DEVICES: u32 = 65_535;
const PODS: u32 = 100_000;
const SETS: usize = 64;

/// KAI: pods below this priority are preemptible by default.
const KAI_FIRM: i32 = 100;

/// All jobs that request or hold resources.
pub(super) fn workloads(fleet: &Fleet, titles: &Titles, grips: &DevicesByPod<'_>) -> Vec<Workload> {
    fleet
        .jobs
        .iter()
        .filter_map(|job| workload(fleet, job, titles, grips))
        .collect()
}

fn workload(
    fleet: &Fleet,
    job: &Job,
    titles: &Titles,
    grips: &DevicesByPod<'_>,
) -> Option<Workload> {
    let bound: Vec<&Pod> = job
        .pods
        .iter()
        .map(|pod| &**pod)
        .filter(|pod| pod.holds_devices())
        .collect();
    let admission = job.admission.as_deref();
    // `govern` marks admission on the job itself.
    let governed = job
        .govern
        .as_deref()
        .filter(|_| job.queue_system == QueueSystem::Stokehold);
    let has_quota = governed.is_some_and(Governed::is_admitted)
        || admission.is_some_and(|admission| {
            admission.system() == QueueSystem::Kueue && admission.has_quota()
        });
    let mut status = match job.state {
        JobState::Done | JobState::Failed => return None,
        JobState::Finishing => Status::Ending,
        JobState::Suspended if bound.is_empty() => Status::Held,
        JobState::Suspended => Status::Ending,
        JobState::Waiting if !has_quota => Status::Waiting,
        JobState::Starting | JobState::Running if bound.is_empty() && !has_quota => Status::Waiting,
        JobState::Waiting | JobState::Starting | JobState::Running => Status::Running,
    };
    // Its pods run where MultiKueue sent it.
    let cluster = admission
        .and_then(Admission::worker_cluster)
        .filter(|_| bound.is_empty());
    let blocked = match cluster {
        Some(cluster) => Some(Name::from(format!("it runs on worker cluster {cluster}"))),
        None => blocked(job, has_quota)
            .or_else(|| kueue::held_back(fleet, job).filter(|_| bound.is_empty()))
            .or_else(|| counted::uncounted(fleet, job, has_quota)),
    };
    let mut sets = sets(fleet, job, has_quota);
    if sets.is_empty() {
        // Its requests are unknown (for example because its last pods have just ended): it keeps its allocation and is not
        // considered.
        sets.push(PodSet {
            min: 0,
            ..PodSet::default()
        });
        status = match bound.is_empty() {
            true => Status::Held,
            false => Status::Ending,
        };
    }
    place(fleet, &mut sets, &bound, grips);
    let labels = job
        .pods
        .first()
        .map(|pod| &pod.seen.labels)
        .or_else(|| admission.map(|admission| &admission.seen.labels));
    let kueue = admission
        .map(|admission| &admission.seen)
        .filter(|seen| seen.system == QueueSystem::Kueue && seen.created != Moment::default());
    let admitted_at = admission
        .and_then(|admission| admission.seen.admitted_at.or(admission.seen.reserved_at))
        .or(governed.and_then(|governed| governed.moment(ADMITTED)))
        .or(job.started)
        .filter(|_| status == Status::Running);
    Some(Workload {
        key: job.id.clone(),
        uid: job.uid.clone(),
        queue: job
            .queue
            .as_ref()
            .filter(|queue| !queue.is_empty() && !passes_by(fleet, job, status))
            .map(|queue| titles.of_job(job.queue_system, queue)),
        team: job.team.clone(),
        labels: labels.map(label_map).unwrap_or_default(),
        priority: job.priority.unwrap_or(0),
        // Kueue orders by the Workload's creation time.
        created: ordered(
            whole(kueue.map_or(job.created, |seen| seen.ordered_at.unwrap_or(seen.created))),
            admission.and_then(|admission| admission.position),
        ),
        sets,
        flavors: Vec::new(),
        estimate_ms: job
            .estimate
            .or(job.time_limit)
            .and_then(|span| i64::try_from(span.as_millis()).ok()),
        owner: fleet
            .runtimes
            .of(job)
            .map(|(group, _)| group.clone())
            .unwrap_or_default(),
        checkpoint: job.last_checkpoint.map(whole),
        deadline: None,
        preemptible: preemptible(job),
        never_preempts: never_preempts(fleet, job),
        mutations: mutations(job),
        admission: admission.and_then(handle),
        status,
        blocked,
        elsewhere: cluster.is_some(),
        not_forecast: kueue::not_forecast(fleet, job).filter(|_| status == Status::Waiting),
        admitted_at: admitted_at.map(whole),
    })
}

/// Prefixes of scheduling gates that a queueing system sets and removes.
const GATES_OF_QUEUES: [&str; 2] = ["kueue.x-k8s.io/", "scheduling.volcano.sh/"];

/// Whether it waits for a queue that admits all of its roles together, before any of their pods is created.
fn waits_for_admission(job: &Job, has_quota: bool) -> bool {
    let admits = matches!(
        job.queue_system,
        QueueSystem::Kueue | QueueSystem::Stokehold
    );
    admits && job.queue.is_some() && !has_quota
}

/// Pod sets that request devices.
fn asking(job: &Job) -> impl Iterator<Item = &siting::JobPodSet> {
    let sets = job.pod_sets.iter().filter(|set| set.count > 0);
    sets.filter(|set| set.request.wants_devices())
}

/// Whether a set's pods are created later than others of the job that request devices: they are not up to the scheduler yet.
fn comes_later(job: &Job, set: &siting::JobPodSet, has_quota: bool) -> bool {
    set.follows_role()
        && !has_quota
        && !waits_for_admission(job, has_quota)
        && asking(job).any(|other| !other.follows_role())
}

/// Why neither a queue nor the scheduler can start its pods; `None` once a pod is on a node.
fn blocked(job: &Job, has_quota: bool) -> Option<Name> {
    if job.pods.iter().any(|pod| pod.holds_devices()) {
        return None;
    }
    let is_gated = |pod: &Pod| {
        let mut gates = pod
            .seen
            .siting
            .iter()
            .flat_map(|siting| siting.gates.iter());
        gates.any(|gate| !GATES_OF_QUEUES.iter().any(|own| gate.starts_with(own)))
    };
    let mut pending = job.pods.iter().filter(|pod| !pod.seen.phase.is_over());
    if pending.clone().next().is_some() && pending.all(|pod| is_gated(pod)) {
        return Some(Name::new("its pods carry scheduling gates"));
    }
    if let Some(set) = asking(job).find(|set| !set.has_placement()) {
        return set.block_words();
    }
    if waits_for_admission(job, has_quota) || asking(job).any(|set| !set.follows_role()) {
        return None;
    }
    asking(job).find_map(siting::JobPodSet::block_words)
}

/// Whether a job bypasses the queue that it names: Kueue has no Workload for it, so it counts against no quota there.
fn passes_by(fleet: &Fleet, job: &Job, status: Status) -> bool {
    status == Status::Running
        && job.queue_system == QueueSystem::Kueue
        && job.admission.is_none()
        && *fleet.visibility(Table::KueueWorkloads) == TableState::Live
}

/// The object of a job's queueing system. Kubernetes' own pod groups support no mutation.
fn handle(admission: &Admission) -> Option<Handle> {
    let system = match admission.system() {
        QueueSystem::Kueue => System::Kueue,
        QueueSystem::Volcano => System::Volcano,
        QueueSystem::Kai => System::Kai,
        QueueSystem::Stokehold | QueueSystem::None => return None,
    };
    let seen = &admission.seen;
    (!seen.key.name.is_empty()).then(|| Handle {
        system,
        name: seen.key.name.clone(),
        uid: seen.uid.clone(),
        others: admission.others.iter().map(|one| other(one)).collect(),
    })
}

fn other(seen: &GroupSeen) -> OtherHandle {
    OtherHandle {
        name: seen.key.name.clone(),
        uid: seen.uid.clone(),
        active: seen.active,
        has_quota: seen.reserved_at.is_some(),
    }
}

/// A time with one-second resolution, with Kueue's own position of the workload in its queue as milliseconds: keeps the
/// order of workloads created in the same second.
fn ordered(at: Moment, place: Option<u32>) -> Moment {
    Moment::from_millis(at.millis() + i64::from(place.unwrap_or(0).min(999)))
}

/// Truncated to seconds, the resolution of Kubernetes timestamps.
pub(super) fn whole(at: Moment) -> Moment {
    Moment::from_seconds(at.millis().div_euclid(1000))
}

/// Whether its pods have `preemptionPolicy: Never`. The model has no policy per pod: uses that of the PriorityClass with this value.
fn never_preempts(fleet: &Fleet, job: &Job) -> bool {
    let all = fleet.priority_classes.iter();
    let mut own =
        all.filter(|class| class.kind == PriorityKind::Pod && Some(class.value) == job.priority);
    let any = own.clone().next().is_some();
    any && own.all(|class| class.never_preempts)
}

fn preemptible(job: &Job) -> bool {
    let Some(admission) = &job.admission else {
        return true;
    };
    match (admission.seen.preemptible, admission.system()) {
        (Some(stated), _) => stated,
        (None, QueueSystem::Kai) => job.priority.is_none_or(|priority| priority < KAI_FIRM),
        (None, _) => true,
    }
}

/// Mutations that the object's kind supports. Only pod eviction checks disruption budgets; suspension does not.
fn mutations(job: &Job) -> WorkloadMutations {
    let system = job.admission.as_ref().map(|admission| admission.system());
    let queued = system == Some(QueueSystem::Kueue);
    let table = Table::of_job_kind(&job.id.kind);
    let is_volcano = table == Some(Table::VolcanoJobs);
    let suspends = table.is_some_and(|table| table.api().suspend.is_some());
    let suspend = queued || suspends || is_volcano;
    WorkloadMutations {
        suspend,
        reprioritise: queued || is_volcano || system == Some(QueueSystem::Kai),
        honours_budgets: !suspend,
    }
}

/// Requests of one pod. A part that is asked for as memory is that of the smallest device that a node's labels say: it is at most that.
fn ask(fleet: &Fleet, request: &Resources) -> ResourceRequests {
    let milli = match request.part {
        None => WHOLE,
        Some(DevicePart::Milli(milli)) => i32::try_from(milli).unwrap_or(WHOLE),
        Some(DevicePart::MemoryMib(mib)) => {
            let nodes = fleet.nodes.iter();
            let labels = nodes.filter_map(|node| node.seen.labels.get("nvidia.com/gpu.memory"));
            let sizes = labels.filter_map(|label| label.parse::<u64>().ok());
            let least = sizes.filter(|size| *size >= mib).min();
            least.map_or(WHOLE, |size| {
                i32::try_from((mib.saturating_mul(1000)).div_ceil(size)).unwrap_or(WHOLE)
            })
        }
    };
    ResourceRequests {
        cpu_milli: request.cpu_milli.clamp(0, CPU),
        memory_bytes: request.memory_bytes.clamp(0, MEMORY),
        devices: request
            .devices
            .iter()
            .filter(|(_, count)| *count > 0)
            .map(|(resource, count)| DeviceRequest {
                resource: resource.clone(),
                count: (*count).min(DEVICES),
                milli: milli.clamp(1, WHOLE),
            })
            .collect(),
    }
}

/// Required node affinity: one of the lists must match. A condition on the node's name is matched by the hostname label.
fn affinity(siting: &Siting) -> Vec<Vec<Requirement>> {
    let requirement = |wanted: &siting::Expression| {
        let op = wanted.operator;
        let number = |value: &Name| value.parse::<i64>().is_ok();
        let sound = match op {
            Operator::In | Operator::NotIn => !wanted.values.is_empty(),
            Operator::Gt | Operator::Lt => {
                wanted.values.len() == 1 && wanted.values.iter().all(number)
            }
            Operator::Exists | Operator::DoesNotExist => true,
        };
        let key = match wanted.key.as_str() {
            "metadata.name" => Name::new("kubernetes.io/hostname"),
            _ => wanted.key.clone(),
        };
        sound.then(|| Requirement {
            key,
            op,
            values: wanted.values.to_vec(),
        })
    };
    let mut lists = Vec::new();
    for term in &siting.required {
        let all: Option<Vec<Requirement>> = term
            .labels
            .iter()
            .chain(&term.fields)
            .map(requirement)
            .collect();
        // Drop lists that can never match.
        lists.extend(all.filter(|all| !all.is_empty()));
    }
    if lists.is_empty() && !siting.required.is_empty() {
        lists.push(vec![Requirement {
            key: Name::new("kubernetes.io/hostname"),
            op: Operator::In,
            values: vec![Name::default()],
        }]);
    }
    lists
}

fn topology(fleet: &Fleet, job: &Job, set: &siting::JobPodSet) -> Option<TopologyRequest> {
    let requested = set.topology.as_ref()?;
    let required = match requested.mode {
        ConstraintMode::Required => true,
        ConstraintMode::Preferred => false,
        ConstraintMode::Unconstrained => {
            let is_kueue = job.queue_system == QueueSystem::Kueue;
            return is_kueue.then(|| TopologyRequest {
                level: Name::default(),
                required: false,
            });
        }
    };
    // Volcano's tiers are not labels: if none of our levels has that name, the level is unknown.
    let is_level = || {
        fleet.nodes.iter().any(|node| {
            node.seen.labels.get(&requested.level).is_some()
                || node
                    .topology
                    .iter()
                    .any(|(level, _)| *level == requested.level)
        })
    };
    let is_enforced = job.queue_system != QueueSystem::Volcano || is_level();
    (is_enforced && !requested.level.is_empty()).then(|| TopologyRequest {
        level: requested.level.clone(),
        required,
    })
}

/// Name of a pod set in the engine.
pub(super) fn set_name(set: &siting::JobPodSet) -> Name {
    match set.name.is_empty() {
        true => Name::new("main"),
        false => set.name.clone(),
    }
}

fn sets(fleet: &Fleet, job: &Job, has_quota: bool) -> Vec<PodSet> {
    let assigned = |name: &Name| {
        let all = job
            .admission
            .iter()
            .flat_map(|admission| admission.seen.assigned.iter());
        let mut found = all.filter(|assigned| assigned.name == *name);
        let flavors = found
            .next()
            .map(|assigned| assigned.flavors.iter().cloned().collect());
        flavors.unwrap_or_default()
    };
    let kueue = || {
        let own = job.admission.as_deref();
        own.filter(|admission| admission.system() == QueueSystem::Kueue)
    };
    let governed = job.govern.as_deref().filter(|it| it.is_admitted());
    let by_govern = |set: &siting::JobPodSet| -> BTreeMap<Name, Name> {
        let flavor = governed.and_then(|governed| governed.flavor(&set_name(set)));
        let resources = set.request.devices.iter().map(|(resource, _)| resource);
        flavor
            .into_iter()
            .flat_map(|flavor| {
                let resources = resources.clone();
                resources.map(move |resource| (resource.clone(), flavor.clone()))
            })
            .collect()
    };
    job.pod_sets
        .iter()
        .filter(|set| set.count > 0 && !comes_later(job, set, has_quota))
        .take(SETS)
        .filter_map(|set| {
            // Kueue releases the quota of pods that have ended.
            let ended = kueue().map_or(0, |admission| admission.reclaimable(&set_name(set)));
            let count = set.count.saturating_sub(ended).min(PODS);
            (count > 0).then_some((set, count, ended))
        })
        .map(|(set, count, ended)| {
            let siting = set.siting.as_deref();
            let tolerations = siting
                .into_iter()
                .flat_map(|siting| siting.tolerations.iter());
            PodSet {
                name: set_name(set),
                count,
                min: set.min.min(count),
                requests: ask(fleet, &set.request),
                selector: label_map(&set.node_selector),
                affinity: siting.map(affinity).unwrap_or_default(),
                tolerations: tolerations.filter_map(toleration).collect(),
                topology: topology(fleet, job, set),
                admitted: match governed {
                    Some(_) => by_govern(set),
                    None => assigned(&set.name),
                },
                quota: kueue()
                    .map(|admission| quota(&admission.seen, set, (has_quota, ended)))
                    .filter(|stated| !stated.is_empty())
                    .unwrap_or_else(|| counted::quota(fleet, job, &set.request)),
                placements: Vec::new(),
            }
        })
        .collect()
}

/// Quota usage of each pod of a set as Kueue counts it, with its transformations of resources and mappings of device classes;
/// empty if Kueue has not reported it.
fn quota(
    seen: &GroupSeen,
    set: &siting::JobPodSet,
    (has_quota, ended): (bool, u32),
) -> BTreeMap<Name, i64> {
    let name = set_name(set);
    let (amounts, pods) = if has_quota {
        let mut all = seen.assigned.iter();
        let Some(own) = all.find(|one| one.name == name) else {
            return BTreeMap::new();
        };
        (&own.usage, own.count)
    } else {
        let mut all = seen.requests.iter();
        let Some((_, amounts)) = all.find(|(own, _)| *own == name) else {
            return BTreeMap::new();
        };
        let asked = seen.pod_sets.iter().find(|own| set_name(own) == name);
        let asked = asked.map_or(set.count, |own| own.count);
        (amounts, asked.saturating_sub(ended))
    };
    let pods = i64::from(pods.max(1));
    let each = amounts.iter().map(|(resource, milli)| {
        let all = match unit_is_milli(resource) {
            true => *milli,
            false => *milli / 1000,
        };
        (resource.clone(), all / pods)
    });
    each.collect()
}

/// Assigns every bound pod to the most similar set. A set may get more pods than requested (for example in a rollout).
fn place(fleet: &Fleet, sets: &mut [PodSet], bound: &[&Pod], grips: &DevicesByPod<'_>) {
    let mut taken: BTreeMap<usize, u32> = BTreeMap::new();
    for pod in bound {
        let Some(node) = pod
            .seen
            .node
            .as_ref()
            .filter(|node| fleet.node(node).is_some())
        else {
            continue;
        };
        let asks = ask(fleet, &pod.seen.requests);
        let likeness = |at: usize, set: &PodSet| {
            let room = taken.get(&at).copied().unwrap_or(0) < set.count;
            (
                set.requests.devices == asks.devices,
                room,
                set.requests == asks,
                std::cmp::Reverse(at),
            )
        };
        let best = (0..sets.len()).max_by_key(|at| likeness(*at, &sets[*at]));
        let Some(at) = best else { return };
        let used = taken.entry(at).or_default();
        *used += 1;
        let set = &mut sets[at];
        set.count = set.count.max(*used);
        let mut held = grips.get(pod.key()).cloned().unwrap_or_default();
        held.small_sort();
        set.placements.push(Placement {
            pod: pod.key().name.clone(),
            uid: pod.seen.uid.clone(),
            deleted: pod.seen.deleted.map(whole),
            node: node.clone(),
            devices: held,
            started: pod.seen.started.or(pod.seen.scheduled).map(whole),
        });
    }
}
