//! Scale: changes the number of replicas of a Deployment, StatefulSet or LeaderWorkerSet.

use std::collections::BTreeSet;

use serde_json::Value;

use cluster::mutations;
use engine::compiled::WorkloadId;
use engine::explanations;
use engine::snapshot::{Placement, PodSet, Snapshot, Status, Workload};
use model::base::quantities::{counted, first_named};
use model::base::{Moment, Name, Names, ObjectKey, Rate};
use model::cost::Money;
use model::fleet::job::JobKey;
use model::fleet::observe::{Observation, Table};
use model::fleet::scaling::{PodScaler, ScaledObject, Scaling};
use model::plan::{
    Budgets, Intent, JobName, Mutation, Object, Plan, PlanEffect, Refusal, RefusalCode,
    SideEffects, StartChange, Step, Verb,
};

use super::effects::effect::{Picture, compare, news, queue_news};
use super::hold::already;
use super::{FoundObject, JobSubject, not_computed, planner_context};

/// Most new replicas that are placed one by one; more are not simulated.
const MOST: u32 = 200;

/// Most nodes that are named.
const NAMED: usize = 4;

/// What sets the replicas of objects.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Autoscalers {
    pub pods: Vec<PodScaler>,
    pub keda: Vec<ScaledObject>,
}

impl Autoscalers {
    fn of(scaling: &Scaling) -> Self {
        Self {
            pods: scaling
                .pod_scalers
                .iter()
                .map(|one| (**one).clone())
                .collect(),
            keda: scaling
                .scaled_objects
                .iter()
                .map(|one| (**one).clone())
                .collect(),
        }
    }

    /// The ScaledObject that sets an object's replicas; none while it is paused.
    fn keda_of(&self, object: &Object) -> Option<&ScaledObject> {
        self.keda.iter().find(|it| {
            let (kind, name) = &it.target;
            let same = it.key.namespace == object.namespace && *name == object.name;
            same && *kind == object.kind && !it.paused
        })
    }
}

/// The plan that sets the number of replicas of a freshly read object; `scalers` are those of its namespace.
///
/// # Errors
/// Its kind has no replicas, an autoscaler owns the number, or it has that many already.
pub fn plan(
    subject: &JobSubject,
    scalers: &Autoscalers,
    replicas: u32,
    now: Moment,
) -> Result<Plan, Refusal> {
    let top = subject.top();
    let mut step = step(&top.object, replicas)?;
    mutations::illegal(&step, &top.now)?;
    let was = top.now.pointer("/spec/replicas").and_then(Value::as_u64);
    let was = was.map_or(1, |was| u32::try_from(was).unwrap_or(u32::MAX));
    let owner = owner(&top.object, &scalers.pods);
    owned(&top.object, owner, was, replicas)?;
    put_back(&top.object, scalers.keda_of(&top.object), was, replicas)?;
    if mutations::is_done(&step, Some(&top.now)) {
        return Err(already(format!(
            "{} already has {}",
            top.object,
            counted(replicas.into(), "replica")
        )));
    }
    let fields = mutations::fields(&step);
    step.guards.extend(fields.iter().map(|path| top.same(path)));
    if replicas < was {
        step.side_effects = ending();
    }
    step.job = Some(subject.reference());
    let mut plan = frame(&top.object, replicas, now);
    plan.undo.notes.extend((replicas < was).then(new_pods));
    plan.effect = not_computed();
    plan.reasons.extend(subject.detour());
    plan.reasons.push(sizes(was, replicas, per_replica(top)));
    plan.warnings
        .extend(owner.map(|scaler| taken_over(scaler, replicas)));
    plan.reads.clone_from(&step.guards);
    plan.steps.push(step);
    Ok(plan)
}

/// Plans scaling on a snapshot of the fleet: which replicas start, which stay pending, and which devices become free.
///
/// # Errors
/// As [`plan`]; and where the requests of a replica are unknown.
pub(super) fn on_fleet(snapshot: &Snapshot, target: &str, replicas: u32) -> Result<Plan, Refusal> {
    let work = find(snapshot, target)?;
    let model = &snapshot.workloads[work];
    let object = planner_context::top(model)?;
    let mut step = step(&object, replicas)?;
    let was = size(model);
    let each: u32 = match was {
        0 => 0,
        _ => u32::try_from(model.device_count()).unwrap_or(u32::MAX) / was,
    };
    if each == 0 {
        let sentence =
            format!("{object} has no pods with devices: the devices per replica are unknown");
        return Err(Refusal::new(RefusalCode::Unknown, sentence));
    }
    if was == replicas {
        let replicas = counted(replicas.into(), "replica");
        return Err(already(format!("{object} already has {replicas}")));
    }
    step.guards.push(planner_context::exists(&object));
    step.job = Some(planner_context::reference(model));
    let mut plan = frame(&object, replicas, snapshot.at);
    plan.reasons.push(sizes(was, replicas, Some(each)));
    let mut after = snapshot.clone();
    let mut added = BTreeSet::new();
    match replicas.checked_sub(was) {
        Some(more) => {
            for number in 0..more.min(MOST) {
                let new = replica(model, was, was + number + 1, snapshot.at);
                added.insert(new.key.clone());
                after.workloads.push(new);
            }
            if more > MOST {
                // As a reason: reasons of the fleet's plan are shown with a plan made from objects, its warnings are not.
                plan.reasons.push(format!(
                    "only the first {MOST} new replicas are placed by this forecast, not all {more}"
                ));
            }
        }
        None => {
            step.side_effects = ending();
            plan.undo.notes.push(new_pods());
            plan.reasons.push(freed(snapshot, model, was, replicas));
            match replicas {
                0 => after.displace(work, true),
                _ => shrink(&mut after.workloads[work], was, replicas),
            }
        }
    }
    plan.steps.push(step);
    after.settle();
    let (before, then) = (Picture::sure(snapshot, &[]), Picture::sure(&after, &[]));
    let mut forecast = compare(&after, &before, &then, Vec::new());
    let is_new = |name: &JobName| added.iter().any(|key| key.key == name.0);
    let (new, others) = forecast.starts.drain(..).partition(|one| is_new(&one.job));
    forecast.starts = others;
    plan.reasons.extend(queue_news(snapshot, &before, &then));
    plan.reasons.extend(news(&forecast, snapshot.at));
    let sentences = starting(&added, &then, &after, model);
    plan.reasons.splice(1..1, sentences);
    for start in together(new, &planner_context::name(&model.key)) {
        forecast.starts.push(start);
    }
    plan.effect = PlanEffect::Forecast(forecast);
    Ok(plan)
}

/// The plan without steps and effect.
fn frame(object: &Object, replicas: u32, now: Moment) -> Plan {
    let target = object.to_string().replace(' ', "/");
    let title = format!(
        "scale {}/{} to {}",
        object.namespace,
        object.name,
        counted(replicas.into(), "replica")
    );
    let mut plan = Plan::new(title, Intent::Scale { target, replicas }, now);
    plan.undo.possible = true;
    plan
}

fn step(object: &Object, replicas: u32) -> Result<Step, Refusal> {
    let mut step = Step::new(Verb::Scale, object.clone(), Mutation::Scale { replicas });
    mutations::support(&step.object, &step.mutation).map_err(|refusal| {
        refusal.instead("name a Deployment, StatefulSet or LeaderWorkerSet: these have replicas")
    })?;
    step.reason = "requested".to_owned();
    Ok(step)
}

/// Side effects of fewer replicas.
fn ending() -> SideEffects {
    SideEffects {
        interrupts: true,
        budgets: Budgets::Ignored,
        notes: vec![
            "its controller deletes the pods and ignores PodDisruptionBudgets; requests in flight have the pods' grace period"
                .to_owned(),
        ],
        ..SideEffects::default()
    }
}

/// Note on what an undo of fewer replicas does not restore.
fn new_pods() -> String {
    "pods that ended are replaced by new ones, perhaps on other nodes".to_owned()
}

/// `3 replicas become 5: needs 8 devices more, 4 each`.
fn sizes(was: u32, replicas: u32, each: Option<u32>) -> String {
    let becomes = match was {
        1 => "becomes",
        _ => "become",
    };
    let change = format!("{} {becomes} {replicas}", counted(was.into(), "replica"));
    let Some(each) = each else { return change };
    let devices = u64::from(was.abs_diff(replicas)) * u64::from(each);
    let devices = counted(devices, "device");
    match replicas > was {
        _ if each == 0 => format!("{change}; it requests no devices"),
        true => format!("{change}: needs {devices} more, {each} each"),
        false => format!("{change}: {devices} become free, {each} each"),
    }
}

/// Devices that one replica requests, by its manifest.
fn per_replica(found: &FoundObject) -> Option<u32> {
    let table = match &*found.object.place.plural {
        "deployments" => Table::Deployments,
        "statefulsets" => Table::StatefulSets,
        "leaderworkersets" => Table::LeaderWorkerSets,
        _ => return None,
    };
    let mut one = found.now.clone();
    let spec = one.pointer_mut("/spec")?.as_object_mut()?;
    spec.insert("replicas".to_owned(), 1.into());
    match cluster::seen(table, &one, &mut Names::default())? {
        Observation::Workload(seen) => Some(seen.total.device_count()),
        _ => None,
    }
}

/// The autoscaler of an object's replicas, of those of its namespace.
fn owner<'s>(object: &Object, scalers: &'s [PodScaler]) -> Option<&'s PodScaler> {
    scalers.iter().find(|scaler| {
        let (kind, name) = &scaler.target;
        scaler.key.namespace == object.namespace && *kind == object.kind && *name == object.name
    })
}

/// Refuses where an autoscaler would revert the number. At 0 replicas an autoscaler is off until someone scales up.
fn owned(
    object: &Object,
    owner: Option<&PodScaler>,
    was: u32,
    replicas: u32,
) -> Result<(), Refusal> {
    // At 0 replicas it is off, unless it scales to none itself.
    let Some(scaler) = owner.filter(|scaler| was > 0 || scaler.min == 0) else {
        return Ok(());
    };
    let ObjectKey { namespace, name } = &scaler.key;
    let sentence = format!(
        "HorizontalPodAutoscaler {} owns the replicas of {object} and would revert them",
        scaler.key
    );
    let refusal = Refusal::new(RefusalCode::OwnedByAnother, sentence);
    if replicas == 0 && scaler.min == 0 {
        return Err(refusal.instead("it scales to 0 by itself once its metrics need no replica"));
    }
    if replicas == 0 {
        return Err(refusal.instead(format!(
            "hold it: `plan hold {}/{}` scales it to 0, which turns the autoscaler off",
            object.namespace, object.name
        )));
    }
    // To scale up, its minimum must be at least this number; to scale down, its maximum at most; a conflict with the other bound
    // moves that one, too.
    let more = replicas > was;
    let mut bounds = Vec::new();
    if more || replicas < scaler.min {
        bounds.push(format!("\"minReplicas\":{replicas}"));
    }
    if !more || scaler.max.is_some_and(|max| replicas > max) {
        bounds.push(format!("\"maxReplicas\":{replicas}"));
    }
    let mut bounds = bounds.join(",");
    // KEDA reverts the bounds of the autoscaler that it created: the ScaledObject is changed instead.
    let (what, name) = match name.strip_prefix("keda-hpa-") {
        Some(object) => {
            bounds = bounds.replace("Replicas\"", "ReplicaCount\"");
            ("--type=merge scaledobject", object)
        }
        None => ("hpa", name.as_str()),
    };
    Err(refusal.instead(format!(
        "change its bounds, which are {} to {}: kubectl -n {namespace} patch {what} {name} -p '{{\"spec\":{{{bounds}}}}}'",
        scaler.min,
        scaler.max.map_or("unknown".to_owned(), |max| max.to_string()),
    )))
}

/// Refuses where KEDA would put the number back: at 0 replicas the HorizontalPodAutoscaler is off, and KEDA itself scales between 0
/// and the minimum, by whether a trigger is active (`pkg/scaling/executor/scale_scaledobjects.go` of KEDA 2.21).
fn put_back(
    object: &Object,
    keda: Option<&ScaledObject>,
    was: u32,
    replicas: u32,
) -> Result<(), Refusal> {
    let Some(keda) = keda.filter(|_| was == 0 && replicas > 0) else {
        return Ok(());
    };
    let ObjectKey { namespace, name } = &keda.key;
    let why = match keda.active {
        Some(true) => "while a trigger is active",
        Some(false) if keda.min > 0 => "to its minimum, as no trigger is active",
        Some(false) => "to 0 after its cooldown, as no trigger is active",
        None => "by its triggers",
    };
    let sentence = format!(
        "ScaledObject {} sets the replicas of {object} and would reset them {why}",
        keda.key
    );
    Err(Refusal::new(RefusalCode::OwnedByAnother, sentence).instead(format!(
        "pause it at that number: kubectl -n {namespace} annotate scaledobject {name} autoscaling.keda.sh/paused-replicas={replicas}"
    )))
}

/// Checks that no autoscaler of the fleet owns the number that an intent sets; passes for any other intent.
///
/// # Errors
/// Names the autoscaler, and what to do instead.
pub fn check_owner(snapshot: &Snapshot, intent: &Intent, scaling: &Scaling) -> Result<(), Refusal> {
    let Intent::Scale { target, replicas } = intent else {
        return Ok(());
    };
    let model = &snapshot.workloads[find(snapshot, target)?];
    let object = planner_context::top(model)?;
    let (scalers, was) = (Autoscalers::of(scaling), size(model));
    owned(&object, owner(&object, &scalers.pods), was, *replicas)?;
    put_back(&object, scalers.keda_of(&object), was, *replicas)
}

fn taken_over(scaler: &PodScaler, replicas: u32) -> String {
    let key = &scaler.key;
    format!(
        "HorizontalPodAutoscaler {key} is off at 0 replicas; it takes over from {replicas} and keeps {} to {}",
        scaler.min,
        scaler
            .max
            .map_or("unknown".to_owned(), |max| max.to_string()),
    )
}

/// The workload of a target: `NAMESPACE/NAME`, with or without its kind.
fn find(snapshot: &Snapshot, target: &str) -> Result<WorkloadId, Refusal> {
    let (kind, namespace, name) = match target.split('/').collect::<Vec<_>>().as_slice() {
        [namespace, name] => (None, *namespace, *name),
        [kind, namespace, name] => (Some(kind.to_ascii_lowercase()), *namespace, *name),
        _ => {
            let sentence = format!("`{target}` is not a valid name");
            return Err(Refusal::new(RefusalCode::NotFound, sentence)
                .instead("write NAMESPACE/NAME or KIND/NAMESPACE/NAME"));
        }
    };
    let Some(kind) = kind else {
        return planner_context::find(snapshot, &JobName(ObjectKey::new(namespace, name)));
    };
    let found = snapshot.workloads.iter().position(|work| {
        let own = work.key.kind.to_ascii_lowercase();
        *work.key.key.namespace == *namespace
            && *work.key.key.name == *name
            && (kind == own || kind.strip_suffix('s') == Some(&*own))
    });
    found.ok_or_else(|| {
        let sentence = format!("there is no {kind} {namespace}/{name} with devices");
        Refusal::new(RefusalCode::NotFound, sentence)
            .instead("`get jobs` lists the jobs with devices; this one is not among them")
    })
}

/// Replicas of a workload: groups of a LeaderWorkerSet, of which each starts as a whole, else pods.
fn size(model: &Workload) -> u32 {
    match (model.key.kind.as_str(), model.sets.first()) {
        // (Its sets are leaders and workers, or all pods of a group where Kueue's Workload says so.)
        ("LeaderWorkerSet", Some(set)) => set.count / set.min.max(1),
        _ => model.sets.iter().map(|set| set.count).sum(),
    }
}

/// One new, pending replica of a workload that had `was`.
fn replica(model: &Workload, was: u32, number: u32, at: Moment) -> Workload {
    let sets = model.sets.iter();
    // Pods of a Deployment or StatefulSet are alike; a group of a LeaderWorkerSet has a share of each pod set.
    let sets: Vec<PodSet> = match model.key.kind.as_str() {
        "LeaderWorkerSet" => sets.map(|set| part(set, set.count / was.max(1))).collect(),
        _ => sets.take(1).map(|set| part(set, 1)).collect(),
    };
    let name = Name::from(format!("{} replica {number}", model.key.key.name));
    Workload {
        key: JobKey {
            key: ObjectKey {
                name,
                ..model.key.key.clone()
            },
            ..model.key.clone()
        },
        uid: Name::default(),
        created: at,
        sets,
        checkpoint: None,
        admission: None,
        status: Status::Waiting,
        admitted_at: None,
        ..model.clone()
    }
}

fn part(set: &PodSet, count: u32) -> PodSet {
    PodSet {
        count,
        min: count,
        placements: Vec::new(),
        admitted: Default::default(),
        ..set.clone()
    }
}

/// Removes replicas as their controller does: the highest ordinals of a StatefulSet or LeaderWorkerSet, of a Deployment first
/// those without a node, then the newest.
pub(super) fn shrink(model: &mut Workload, was: u32, replicas: u32) {
    let kind = model.key.kind.clone();
    let prefix = format!("{}-", model.key.key.name);
    let number = |pod: &Placement| -> u32 {
        let rest = pod.pod.strip_prefix(&*prefix).unwrap_or_default();
        let first = rest.split('-').next().unwrap_or_default();
        first.parse().unwrap_or(u32::MAX)
    };
    if kind.as_str() == "Deployment" {
        let mut left = replicas;
        for set in &mut model.sets {
            set.count = set.count.min(left);
            set.min = set.min.min(set.count);
            left -= set.count;
            set.placements
                .sort_by_key(|pod| (pod.deleted.is_some(), pod.started.is_none(), pod.started));
            set.placements.truncate(set.count as usize);
        }
        return;
    }
    let numbers: BTreeSet<u32> = model
        .sets
        .iter()
        .flat_map(|set| set.placements.iter().map(number))
        .collect();
    let kept: BTreeSet<u32> = numbers.into_iter().take(replicas as usize).collect();
    for set in &mut model.sets {
        set.count = (u64::from(set.count) * u64::from(replicas) / u64::from(was.max(1))) as u32;
        set.min = set.min.min(set.count);
        set.placements.retain(|pod| kept.contains(&number(pod)));
    }
}

/// Current cost of the replicas that end.
fn freed(snapshot: &Snapshot, model: &Workload, was: u32, replicas: u32) -> String {
    let pods: Vec<_> = planner_context::seated(model).collect();
    let wanted: u32 = model.sets.iter().map(|set| set.count).sum();
    let rates = pods.iter().map(|(set, pod)| {
        let at = snapshot
            .nodes
            .binary_search_by(|node| node.name.cmp(&pod.node))
            .ok()?;
        planner_context::rate(&snapshot.nodes[at], set, pod)
    });
    let whose = match model.key.kind.as_str() {
        "Deployment" => {
            "the ReplicaSet controller chooses the pods: those that are not ready, then the newest"
        }
        _ => "the highest ordinals are deleted",
    };
    let sum: Option<Money> = rates.sum();
    // Where some are unscheduled, or prices differ, it depends on which ones end.
    match sum.filter(|_| pods.len() == wanted as usize && was > 0) {
        Some(sum) => {
            let rate = sum.share(u64::from(was - replicas), u64::from(was));
            format!("the deleted pods cost about {}; {whose}", rate.per_hour())
        }
        None => format!("the deleted pods cost an unknown rate; {whose}"),
    }
}

/// Which of the new replicas start, where and at what cost, and why the rest waits.
fn starting(
    added: &BTreeSet<JobKey>,
    then: &Picture,
    after: &Snapshot,
    model: &Workload,
) -> Vec<String> {
    let (mut now, mut later, mut waiting) = (Vec::new(), 0_u64, Vec::new());
    for key in added {
        match then.start(key) {
            Some(at) if at <= after.at => now.push(key),
            Some(_) => later += 1,
            None if then.is_contested(key) => {}
            None => waiting.push(key),
        }
    }
    let replicas = |count: u64| counted(count, "new replica");
    let verb = |count: u64, one: &str| match count {
        1 => format!("{one}s"),
        _ => one.to_owned(),
    };
    let mut sentences = Vec::new();
    if !now.is_empty() {
        let nodes = now.iter().filter_map(|key| then.placed.get(*key)).flatten();
        let nodes: BTreeSet<&str> = nodes.map(Name::as_str).collect();
        let nodes: Vec<String> = nodes.into_iter().map(str::to_owned).collect();
        let count = now.len() as u64;
        let rate = match then.rate_of(|key| added.contains(key)) {
            Some(micros) => {
                let mut there = after
                    .nodes
                    .iter()
                    .filter(|node| nodes.iter().any(|one| **one == *node.name));
                let is_by_list = there.any(|node| node.devices.iter().any(|one| one.by_list));
                Money::with_source(Rate::from_micros(micros), is_by_list).per_hour()
            }
            None => "an unknown rate".to_owned(),
        };
        sentences.push(format!(
            "{} {} now on {}, for {rate}",
            replicas(count),
            verb(count, "start"),
            first_named(&nodes, NAMED)
        ));
    }
    if later > 0 {
        let verb = verb(later, "start");
        sentences.push(format!("{} {verb} later", replicas(later)));
    }
    if let Some(first) = waiting.first() {
        let count = waiting.len() as u64;
        let why = explanations::explain(after, &first.key.to_string());
        let why = why.map_or(String::new(), |answer| {
            format!(": {}", answer.explanation.reason)
        });
        sentences.push(format!(
            "{} {} waiting with no known start{why}",
            replicas(count),
            verb(count, "stay")
        ));
    }
    let missing = model.pod_count() - planner_context::seated(model).count() as u64;
    if missing > 0 && !added.is_empty() {
        let pods = counted(missing, "pod");
        sentences.push(format!(
            "{pods} of the current replicas {} not scheduled yet",
            match missing {
                1 => "is",
                _ => "are",
            }
        ));
    }
    sentences
}

/// Merges starts of new replicas into starts of their workload, by time.
fn together(new: Vec<StartChange>, job: &JobName) -> Vec<StartChange> {
    let mut all: Vec<StartChange> = Vec::new();
    for start in new {
        match all.iter_mut().find(|known| known.after == start.after) {
            Some(known) => known.devices = known.devices.saturating_add(start.devices),
            None => all.push(StartChange {
                job: job.clone(),
                ..start
            }),
        }
    }
    all
}
