//! Shared by planners: objects of workloads, mutations that stop and resume them, lost work, and the fleet after a plan.

use cluster::mutations::{self, fields};
use engine::compiled::WorkloadId;
use engine::explanations;
use engine::snapshot::{
    EngineHealth, HeldDevices, Placement, PodSet, Resident, Snapshot, SnapshotBudget,
    SnapshotDevice, SnapshotNode, Status, System, WHOLE, Workload,
};
use model::base::{Moment, Name, ObjectKey};
use model::cost::Money;
use model::fleet::job::JobKey;
use model::fleet::observe::Table;
use model::plan::{
    Budgets, Fact, JobName, JobRef, Loss, Mutation, Object, Refusal, RefusalCode, SideEffects,
    Step, Test, Until, Verb, VolcanoAction, Wait, WaitOrder,
};

use super::hold::{after, suspended};

/// A pod that has been terminating for this many seconds is reported as stuck.
const STUCK: u64 = 600;

/// Who requests a plan, and why; both are written where the object can keep them (a cordoned node).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Author {
    pub by: String,
    pub why: String,
}

/// How a workload is taken off its devices.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum EvictBy {
    /// Kueue's Workload is deactivated, and activated again.
    Kueue(Object),
    /// The owner is suspended, and resumed.
    Suspend(Object),
    /// Volcano's job is aborted, and resumed.
    Volcano(Object),
    /// Its pods are evicted; their owner recreates them at once.
    Pods(Object),
    /// Its pods are evicted; no controller recreates them.
    Bare(Object),
}

/// The workload of this name.
///
/// # Errors
/// There is none, or there are several.
pub(super) fn find(snapshot: &Snapshot, job: &JobName) -> Result<WorkloadId, Refusal> {
    let same: Vec<&Workload> = snapshot
        .workloads
        .iter()
        .filter(|work| work.key.key == job.0)
        .collect();
    if let [_, _, ..] = same.as_slice() {
        let kinds: Vec<&str> = same.iter().map(|work| &*work.key.kind).collect();
        let sentence = format!("several jobs are named {job}: {}", kinds.join(", "));
        return Err(Refusal::new(RefusalCode::Ambiguous, sentence)
            .instead("act on one of them with its own tool"));
    }
    explanations::find(snapshot, &job.to_string()).map_err(|sentence| {
        Refusal::new(RefusalCode::NotFound, sentence)
            .instead("`get jobs` lists the jobs with devices; this one is not among them")
    })
}

/// The name of a workload in plans.
pub(super) fn name(key: &JobKey) -> JobName {
    JobName(key.key.clone())
}

/// Why a gang of pods without a controller, which is a job by the name of its PodGroup, cannot be changed as a job.
pub fn gang_refusal(group: &str) -> Refusal {
    let sentence = format!(
        "{group} is a gang of pods without a controller: nothing can suspend or recreate them"
    );
    Refusal::new(RefusalCode::Unsupported, sentence)
        .instead("evict its pods one by one to free their devices: `plan evict NAMESPACE/POD`")
        .instead("run them from a Job or JobSet, which can be suspended")
}

/// The object that owns a workload's pods.
///
/// # Errors
/// Its kind is unknown.
pub(super) fn top(work: &Workload) -> Result<Object, Refusal> {
    let kind = work.key.kind.as_str();
    let object = match (Table::of_job_kind(kind), kind) {
        (Some(known), _) => Object::of(known, &work.key.key.name),
        (None, "Pod") => Object::of(Table::Pods, &work.key.key.name),
        (None, "PodGroup") => return Err(gang_refusal(&format!("PodGroup {}", work.key))),
        (None, _) => {
            let sentence = format!("{kind} {} has no known way to act on it", work.key);
            return Err(Refusal::new(RefusalCode::OwnedByAnother, sentence)
                .instead(format!("act on {kind} {} with its own tool", work.key)));
        }
    };
    Ok(object.within(&work.key.key.namespace).with_uid(&work.uid))
}

/// The object of a queueing system for a workload.
pub(super) fn admission(work: &Workload, of: System) -> Option<Object> {
    let handle = work.admission.as_ref().filter(|it| it.system == of)?;
    let table = match of {
        System::Kueue => Table::KueueWorkloads,
        System::Volcano => Table::VolcanoPodGroups,
        System::Kai => Table::KaiPodGroups,
        System::Stokehold | System::None => return None,
    };
    let object = Object::of(table, &handle.name);
    Some(object.within(&work.key.key.namespace).with_uid(&handle.uid))
}

/// The system that orders a workload: its queue's, or the one that has an object for it.
pub(super) fn system(snapshot: &Snapshot, work: &Workload) -> System {
    let queue = work.queue.as_ref().and_then(|name| {
        let known = snapshot.queues.iter().find(|queue| queue.name == *name);
        known.map(|queue| queue.system)
    });
    let kept = work.admission.as_ref().map(|handle| handle.system);
    kept.or(queue).unwrap_or_else(|| {
        if work.key.kind.as_str() == Table::VolcanoJobs.api().shown {
            System::Volcano
        } else if work
            .labels
            .iter()
            .any(|(key, _)| &**key == "kai.scheduler/queue")
        {
            System::Kai
        } else {
            System::None
        }
    })
}

/// How a workload is stopped.
///
/// # Errors
/// The workload cannot be stopped; the refusal names an alternative.
pub(super) fn way(snapshot: &Snapshot, work: &Workload) -> Result<EvictBy, Refusal> {
    if let Some(object) = admission(work, System::Kueue) {
        return Ok(EvictBy::Kueue(object));
    }
    let top = top(work)?;
    if system(snapshot, work) == System::Kueue {
        let sentence = format!("{top} is managed by Kueue, which has created no Workload for it");
        return Err(Refusal::new(RefusalCode::Unknown, sentence)
            .instead("look at its events: its queue or its priority class may not exist"));
    }
    if &*top.place.group == "batch.volcano.sh" {
        return Ok(EvictBy::Volcano(top));
    }
    if mutations::support(&top, &Mutation::Suspend { value: true }).is_ok() {
        return Ok(EvictBy::Suspend(top));
    }
    Ok(match work.key.kind.as_str() {
        "Pod" => EvictBy::Bare(top),
        _ => EvictBy::Pods(top),
    })
}

/// The number of pods that must start together, where that is more than one.
pub(super) fn gang(work: &Workload) -> Option<u32> {
    let least: u32 = work.sets.iter().map(|set| set.min).sum();
    (least > 1).then_some(least)
}

/// A step's reference to a workload.
pub(super) fn reference(work: &Workload) -> JobRef {
    JobRef {
        name: name(&work.key),
        devices: u32::try_from(work.device_count()).ok(),
        gang: gang(work),
    }
}

/// A step's reference to one pod of a set: the rest of the job is not affected.
pub(super) fn reference_of_pod(work: &Workload, set: &PodSet) -> JobRef {
    JobRef {
        devices: Some(set.requests.device_count()),
        ..reference(work)
    }
}

/// Its scheduled pods, each with its pod set.
pub(super) fn seated(work: &Workload) -> impl Iterator<Item = (&PodSet, &Placement)> {
    work.sets
        .iter()
        .flat_map(|set| set.placements.iter().map(move |pod| (set, pod)))
}

/// Cost of a pod's devices per hour; slices cost their share of the device. `None` where a price or that share is unknown,
/// or where the node has several prices and the pod's devices are unknown.
pub(super) fn rate(node: &SnapshotNode, set: &PodSet, pod: &Placement) -> Option<Money> {
    let count = u64::from(set.requests.device_count());
    if pod.devices.is_empty() {
        let mut prices = node.devices.iter().map(SnapshotDevice::rate);
        let first = prices.next()??;
        let alike = node.devices.iter().all(|device| device.slices.is_empty());
        let alike = alike && prices.all(|price| price == Some(first));
        return alike.then_some(first.times(count));
    }
    let of = |grip: &HeldDevices| {
        let mut devices = node.devices.iter();
        let device = devices.find(|device| device.index == grip.device)?;
        let milli = u64::try_from(grip.milli).ok()?;
        let whole = device.rate()?.share(milli, u64::from(WHOLE.unsigned_abs()));
        let Some(slice) = &grip.slice else {
            return Some(whole);
        };
        let slice = device.slices.iter().find(|one| one.name == *slice)?;
        let share = slice.share?;
        Some(whole.each(|rate| share.of(rate)))
    };
    pod.devices.iter().map(of).sum()
}

/// True for a workload on a broken device: it hangs or has failed, even if its status says otherwise.
pub(super) fn is_on_fault(snapshot: &Snapshot, work: &Workload) -> bool {
    seated(work).any(|(_, pod)| {
        let at = snapshot
            .nodes
            .binary_search_by(|node| node.name.cmp(&pod.node));
        at.is_ok_and(|at| {
            let broken = snapshot.nodes[at].devices.iter();
            let mut broken = broken.filter(|device| device.health == EngineHealth::Fault);
            broken.any(|device| pod.devices.iter().any(|grip| grip.device == device.index))
        })
    })
}

/// When it last saved a checkpoint, if it can save another: not with a pod on a node that is not ready or on a broken device.
pub(super) fn saves(snapshot: &Snapshot, work: &Workload) -> Option<Moment> {
    let nodes = &snapshot.nodes;
    let is_ready = |(_, pod): (&PodSet, &Placement)| {
        let at = nodes.binary_search_by(|node| node.name.cmp(&pod.node));
        at.is_ok_and(|at| nodes[at].ready)
    };
    work.checkpoint
        .filter(|_| seated(work).all(is_ready) && !is_on_fault(snapshot, work))
}

/// Work lost when these pods of a workload end now: each pod's work since it started, or since a later checkpoint.
pub(super) fn loss<'a>(
    snapshot: &Snapshot,
    work: &Workload,
    pods: impl Iterator<Item = (&'a PodSet, &'a Placement)>,
) -> Loss {
    let (mut device_seconds, mut micro_usd) = (Some(0_u64), Some(0_i128));
    let mut by_list = false;
    for (set, pod) in pods {
        let since = work.checkpoint.max(pod.started.or(work.admitted_at));
        let seconds = since.map(|since| snapshot.at.since(since).seconds());
        let count = u64::from(set.requests.device_count());
        device_seconds = device_seconds
            .zip(seconds)
            .map(|(sum, seconds)| sum.saturating_add(seconds.saturating_mul(count)));
        let node = snapshot
            .nodes
            .binary_search_by(|node| node.name.cmp(&pod.node));
        let rate = node.ok().and_then(|at| rate(&snapshot.nodes[at], set, pod));
        micro_usd = micro_usd
            .zip(rate.zip(seconds))
            .map(|(sum, (rate, seconds))| {
                sum + i128::from(rate.all.micros()) * i128::from(seconds) / 3_600
            });
        by_list |= rate.is_some_and(Money::is_by_list);
    }
    Loss {
        device_seconds,
        micro_usd: micro_usd.and_then(|sum| i64::try_from(sum).ok()),
        by_list,
        since: work.checkpoint,
    }
}

fn effects(snapshot: &Snapshot, work: &Workload, timer: bool, note: &str) -> SideEffects {
    if seated(work).next().is_none() && work.status != Status::Running {
        return SideEffects::default();
    }
    SideEffects {
        interrupts: true,
        budgets: Budgets::Ignored,
        timer_reset: timer,
        loss: Some(loss(snapshot, work, seated(work))),
        gang_broken: gang(work),
        overwritten_by: None,
        notes: vec![note.to_owned()],
    }
}

/// The fact that a field of an object has a value.
pub(super) fn fact(object: &Object, path: &str, value: impl Into<serde_json::Value>) -> Fact {
    Fact {
        object: object.clone(),
        test: Test::Is {
            path: path.to_owned(),
            value: value.into(),
        },
    }
}

/// A step by a mutation that its object must support.
///
/// # Errors
/// The object does not support it.
pub(super) fn step(verb: Verb, object: &Object, mutation: Mutation) -> Result<Step, Refusal> {
    mutations::support(object, &mutation)?;
    Ok(Step::new(verb, object.clone(), mutation))
}

/// True for a workload whose kind supports [`stop`].
pub(super) fn can_stop(snapshot: &Snapshot, work: WorkloadId) -> bool {
    stop(snapshot, &snapshot.workloads[work]).is_ok()
}

/// The step that takes a workload off its devices and keeps it waiting.
///
/// # Errors
/// Its kind does not support it.
pub(super) fn stop(snapshot: &Snapshot, work: &Workload) -> Result<Step, Refusal> {
    let note = "deletes its pods; ignores PodDisruptionBudgets";
    let runs = work.status == Status::Running;
    let mut step = match way(snapshot, work)? {
        EvictBy::Kueue(object) => {
            let mut step = step(
                Verb::Suspend,
                &object,
                Mutation::WorkloadActive { value: false },
            )?;
            step.guards.push(fact(&object, "/spec/active", true));
            if runs {
                step.waits.push(after(Until::Condition {
                    name: "QuotaReserved".to_owned(),
                    status: "False".to_owned(),
                }));
            }
            step.side_effects = effects(snapshot, work, true, note);
            step
        }
        EvictBy::Suspend(object) => {
            let mut step = step(Verb::Suspend, &object, Mutation::Suspend { value: true })?;
            for path in fields(&step) {
                step.guards.push(fact(&object, &path, false));
            }
            step.waits.extend(suspended(&object));
            step.side_effects = effects(snapshot, work, &*object.kind == "Job", note);
            step
        }
        EvictBy::Volcano(object) => {
            let action = VolcanoAction::AbortJob;
            let mut step = step(Verb::Suspend, &object, Mutation::VolcanoCommand { action })?;
            step.guards.push(exists(&object));
            step.waits.push(after(Until::Is {
                path: "/status/state/phase".to_owned(),
                value: "Aborted".into(),
            }));
            step.side_effects = effects(snapshot, work, true, note);
            step
        }
        EvictBy::Pods(object) | EvictBy::Bare(object) => {
            let mutation = Mutation::Suspend { value: true };
            // The error names an alternative.
            mutations::support(&object, &mutation)?;
            Step::new(Verb::Suspend, object, mutation)
        }
    };
    step.job = Some(reference(work));
    Ok(step)
}

/// The step that requeues a stopped workload.
///
/// # Errors
/// Its kind does not support it.
pub(super) fn again(snapshot: &Snapshot, work: &Workload) -> Result<Step, Refusal> {
    let mut step = match way(snapshot, work)? {
        EvictBy::Kueue(object) => step(
            Verb::Resume,
            &object,
            Mutation::WorkloadActive { value: true },
        )?,
        EvictBy::Volcano(object) => {
            let action = VolcanoAction::ResumeJob;
            step(Verb::Resume, &object, Mutation::VolcanoCommand { action })?
        }
        EvictBy::Suspend(object) | EvictBy::Pods(object) | EvictBy::Bare(object) => {
            step(Verb::Resume, &object, Mutation::Suspend { value: false })?
        }
    };
    step.job = Some(reference(work));
    Ok(step)
}

pub(super) fn exists(object: &Object) -> Fact {
    Fact {
        object: object.clone(),
        test: Test::Exists,
    }
}

pub(super) fn pod(namespace: &Name, name: &Name, uid: &Name) -> Object {
    Object::new("", "v1", "pods", "Pod", name)
        .within(namespace)
        .with_uid(uid)
}

/// The budgets that cover a pod.
pub(super) fn budgets<'a>(
    snapshot: &'a Snapshot,
    namespace: &'a Name,
    pod: &'a Name,
) -> impl Iterator<Item = &'a SnapshotBudget> {
    snapshot.budgets.iter().filter(move |budget| {
        budget.namespace == *namespace && budget.pods.binary_search(pod).is_ok()
    })
}

/// Why the server will never allow a pod's eviction with the current budgets; `None` where it may.
pub(super) fn never(snapshot: &Snapshot, namespace: &Name, pod: &Name) -> Option<String> {
    let all: Vec<&SnapshotBudget> = budgets(snapshot, namespace, pod).collect();
    match all.as_slice() {
        [] => None,
        [one] => is_firm(one).then(|| {
            format!(
                "disruption budget {}/{} allows 0 evictions and can never allow one",
                one.namespace, one.name
            )
        }),
        more => Some(format!(
            "{} disruption budgets cover it, and the server refuses to evict such a pod",
            more.len()
        )),
    }
}

/// Whether a budget never allows an eviction: all the pods that it covers must be healthy.
pub(super) const fn is_firm(budget: &SnapshotBudget) -> bool {
    budget.allowed == 0 && budget.desired_healthy as usize >= budget.pods.len()
}

/// True for the kind of a bare pod, of a gang of bare pods, and of no owner: nothing recreates the pods.
pub(super) fn has_no_controller(kind: &str) -> bool {
    matches!(kind, "" | "Pod" | "PodGroup")
}

/// Takes the pods of a workload that `leaves` returns true for off their nodes. As many wait in their place, as a workload of their
/// own ([`key_of_moved`]) without a queue, unless the workload has no controller.
pub(super) fn take_pods(
    after: &mut Snapshot,
    work: WorkloadId,
    leaves: impl Fn(&Placement) -> bool,
) {
    let now = after.at;
    let model = &mut after.workloads[work];
    let mut moved = Workload {
        key: key_of_moved(&model.key),
        queue: None,
        status: Status::Waiting,
        admitted_at: None,
        created: now,
        ..model.clone()
    };
    for (set, part) in model.sets.iter_mut().zip(&mut moved.sets) {
        part.placements
            .retain(|pod| leaves(pod) && pod.deleted.is_none());
        part.count = u32::try_from(part.placements.len()).unwrap_or(part.count);
        part.min = part.count.min(part.min);
        part.placements.clear();
        set.placements.retain(|pod| !leaves(pod));
        let placed = u32::try_from(set.placements.len()).unwrap_or(set.count);
        set.count = set.count.saturating_sub(part.count).max(placed);
        set.min = set.min.min(set.count);
    }
    moved.sets.retain(|set| set.count > 0);
    if !moved.sets.is_empty() && !has_no_controller(&model.key.kind) {
        after.workloads.push(moved);
    }
}

/// The key of a workload's evicted pods while the engine places them.
pub(super) fn key_of_moved(key: &JobKey) -> JobKey {
    JobKey {
        key: key.key.clone(),
        kind: Name::from(format!("evicted pods of {}", key.kind)),
    }
}

/// The eviction of a pod on a node. It waits for its budget, and then for the pod's end, up to `most` seconds each; a pod whose
/// budget does not allow it by then stays.
pub(super) fn evict(pod: &Object, node: &Name, most: u64) -> Result<Step, Refusal> {
    let mutation = Mutation::Evict {
        grace_seconds: None,
    };
    let mut step = step(Verb::Evict, pod, mutation)?;
    step.guards.push(fact(pod, "/spec/nodeName", node.as_str()));
    step.waits = vec![
        Wait {
            at_most_seconds: Some(most),
            go_on: true,
            ..Wait::new(WaitOrder::Before, Until::Budget)
        },
        Wait {
            at_most_seconds: Some(most),
            ..Wait::new(WaitOrder::After, Until::Gone)
        },
    ];
    step.side_effects.interrupts = true;
    step.side_effects.budgets = Budgets::Respected;
    Ok(step)
}

/// Warning about a pod that has been terminating for long.
pub(super) fn stuck(pod: &str, deleted: Option<Moment>, now: Moment) -> Option<String> {
    let since = now.since(deleted?);
    (since.seconds() >= STUCK).then(|| {
        format!(
            "{pod} has been terminating for {since}: a finalizer or a dead kubelet blocks it; eviction does not help"
        )
    })
}

/// The key of a pod without devices.
pub(super) fn resident_name(pod: &Resident) -> ObjectKey {
    ObjectKey {
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
    }
}
