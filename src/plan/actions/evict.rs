//! `evict`: evicts one pod, as its disruption budget allows; its controller recreates it.

use std::iter::once;

use clap::Args;
use engine::snapshot::{Placement, PodSet, Resident, Snapshot};
use model::base::ObjectKey;
use model::plan::{Intent, Plan, PlanEffect, Refusal, RefusalCode};

use super::{
    ActionRequest, ActionSpec, Availability, NameResolver, ObjectKind, ParseError, PlannedFrom,
    PlannerInput, Selected, SelectedObject, Values,
};
use crate::effects::effect::{Leaver, Picture, compare, news};
use crate::evictions::unanswered;
use crate::hold::SETTLE;
use crate::planner_context::{self, seated};

/// Evict one pod, as its disruption budget allows; its controller recreates it
#[derive(Args, Clone, PartialEq, Eq, Debug)]
pub struct EvictArguments {
    /// NAMESPACE/NAME; the name alone where one pod on a node has it
    pod: String,
}

pub(super) const SPEC: ActionSpec = ActionSpec {
    verb: "evict",
    planned_from: PlannedFrom::Fleet,
    completes: &[("pod", Values::Pods)],
    command: "evict",
    key: Some("E"),
    done_by: None,
    title: "evict",
    run_title: None,
    doc: "plan: evict the pod, as its disruption budget allows",
    fits: &[ObjectKind::Job],
    rights: &[("create", "", "pods", "eviction")],
    request,
    availability,
};

impl EvictArguments {
    pub(super) fn intent(&self, names: &NameResolver<'_>) -> Result<Intent, ParseError> {
        let here = names.namespace.filter(|_| !self.pod.contains('/'));
        let here = here.map(|namespace| format!("{namespace}/{}", self.pod));
        let here = here.filter(|pod| find(names.snapshot, pod).is_ok());
        let pod = here.unwrap_or_else(|| self.pod.clone());
        Ok(Intent::Evict { pod })
    }
}

fn request(selected: &Selected<'_>) -> Result<ActionRequest, String> {
    match selected.objects {
        [SelectedObject::Pod(pod)] => Ok(ActionRequest::Intent(Intent::Evict {
            pod: pod.to_string(),
        })),
        [_, _, ..] => {
            let count = selected.objects.len();
            Err(format!("one pod at a time; {count} are marked"))
        }
        _ => Err(String::from("put the cursor on a pod")),
    }
}

fn availability(selected: &Selected<'_>) -> Availability {
    match selected.objects {
        [SelectedObject::Pod(pod)] => match selected.fleet.pod(pod) {
            // A pod of a running job that has ended itself.
            Some(pod) if pod.seen.phase.is_over() => Availability::Hidden,
            _ => super::while_it_runs(selected),
        },
        _ => Availability::Hidden,
    }
}

/// A pod on a node.
enum Found<'a> {
    /// A pod of the workload at this position in the snapshot, with its pod set.
    OfWorkload(usize, &'a PodSet, &'a Placement),
    /// A pod without devices, which is in no workload.
    Resident(&'a Resident),
}

/// The pod by `NAMESPACE/NAME`, or by its name alone where only one pod has it.
///
/// # Errors
/// No pod on a node has the name, or several have it.
fn find<'a>(snapshot: &'a Snapshot, named: &str) -> Result<(ObjectKey, Found<'a>), Refusal> {
    let is_it = |key: &ObjectKey| match named.split_once('/') {
        Some((namespace, name)) => *key.namespace == *namespace && *key.name == *name,
        None => *key.name == *named,
    };
    let mut all: Vec<(ObjectKey, Found<'a>)> = Vec::new();
    for (at, work) in snapshot.workloads.iter().enumerate() {
        for (set, pod) in seated(work) {
            let key = ObjectKey {
                namespace: work.key.key.namespace.clone(),
                name: pod.pod.clone(),
            };
            if is_it(&key) {
                all.push((key, Found::OfWorkload(at, set, pod)));
            }
        }
    }
    for pod in &snapshot.residents {
        let key = planner_context::resident_name(pod);
        if is_it(&key) && all.iter().all(|(known, _)| *known != key) {
            all.push((key, Found::Resident(pod)));
        }
    }
    if let [(first, _), (second, _), ..] = all.as_slice() {
        let sentence = format!("{named} is the name of several pods: {first}, {second}");
        return Err(Refusal::new(RefusalCode::Ambiguous, sentence).instead("name its namespace"));
    }
    all.pop().ok_or_else(|| {
        let sentence = format!("no pod {named} is on a node");
        Refusal::new(RefusalCode::NotFound, sentence)
            .instead("`get pods` lists the pods that request devices")
    })
}

/// Why a pod of this owner's kind is not evicted: it belongs to its node.
fn bound_to_its_node(pod: &ObjectKey, owner: &str) -> Option<Refusal> {
    let (sentence, instead) = match owner {
        "DaemonSet" => (
            "belongs to a DaemonSet, which would recreate it at once",
            "restart it: `kubectl delete pod`",
        ),
        "Node" => (
            "is a static pod, which the kubelet runs from a file",
            "move its manifest out of the kubelet's folder on the node",
        ),
        _ => return None,
    };
    Some(Refusal::new(RefusalCode::Unsupported, format!("{pod} {sentence}")).instead(instead))
}

/// A note that names the controller which recreates an evicted pod, and where.
fn recreated(kind: &str) -> String {
    match kind {
        "Job" | "JobSet" => format!(
            "the {kind} recreates it wherever there is room, and counts a failed pod unless its failure policy ignores evictions"
        ),
        kind => format!("the {kind} recreates it wherever there is room"),
    }
}

/// Plans the eviction of one pod.
///
/// # Errors
/// No pod on a node has the name, or several have it; it is terminating already; its disruption budgets can never allow its
/// eviction; it is a static pod or a DaemonSet's.
pub(super) fn plan(on: &PlannerInput<'_>, pod: &str) -> Result<Plan, Refusal> {
    let snapshot = on.snapshot;
    let (key, found) = find(snapshot, pod)?;
    let intent = Intent::Evict {
        pod: key.to_string(),
    };
    let mut plan = Plan::new(format!("evict {key}"), intent, snapshot.at);
    let (uid, node, deleted) = match &found {
        Found::OfWorkload(_, _, pod) => (&pod.uid, &pod.node, pod.deleted),
        Found::Resident(pod) => (&pod.uid, &pod.node, pod.deleted),
    };
    if let Some(at) = deleted {
        let since = snapshot.at.since(at);
        let sentence =
            format!("{key} has already been evicted: it has been terminating for {since}");
        return Err(Refusal::new(RefusalCode::IllegalState, sentence).instead(
            "wait until it is deleted; a finalizer or an unresponsive kubelet blocks it",
        ));
    }
    let owner = match &found {
        Found::OfWorkload(at, ..) => &snapshot.workloads[*at].key.kind,
        Found::Resident(pod) => &pod.owner,
    };
    if let Some(refusal) = bound_to_its_node(&key, owner) {
        return Err(refusal);
    }
    let object = planner_context::pod(&key.namespace, &key.name, uid);
    let mut step = planner_context::evict(&object, node, SETTLE)?;
    step.reason = String::from("requested");
    if let Some(why) = planner_context::never(snapshot, &key.namespace, &key.name) {
        let sentence = format!("{key} cannot be evicted: {why}");
        return Err(Refusal::new(RefusalCode::IllegalState, sentence)
            .instead("raise the replicas, loosen the budget, or delete all budgets but one"));
    }
    let mut budgets = planner_context::budgets(snapshot, &key.namespace, &key.name);
    if let Some(budget) = budgets.find(|budget| budget.allowed == 0) {
        plan.warnings.push(format!(
            "the disruption budget {}/{} allows no eviction now: it waits up to {} minutes for one",
            budget.namespace,
            budget.name,
            SETTLE / 60
        ));
    }
    let bare = planner_context::has_no_controller(owner);
    if bare {
        plan.warnings.push(format!(
            "{key} has no controller: nothing recreates it after the eviction, and its work is lost"
        ));
    }
    plan.warnings
        .extend(unanswered::words(snapshot, &once(node).collect()));
    plan.undo.notes = vec![String::from("an eviction cannot be undone")];
    if !bare {
        step.side_effects.notes.push(recreated(owner));
    }
    match found {
        Found::Resident(_) => {
            plan.effect = PlanEffect::Unknown {
                why: String::from(
                    "it has no devices: how its eviction affects other pods is not computed",
                ),
            };
        }
        Found::OfWorkload(at, set, placement) => {
            let work = &snapshot.workloads[at];
            let loss = planner_context::loss(snapshot, work, once((set, placement)));
            step.side_effects.loss = Some(loss.clone());
            step.side_effects.gang_broken = planner_context::gang(work);
            step.job = Some(planner_context::reference_of_pod(work, set));
            let leaver = Leaver {
                key: work.key.clone(),
                devices: set.requests.device_count(),
                loss,
            };
            let before = Picture::sure(snapshot, &[]);
            let mut after = snapshot.clone();
            planner_context::take_pods(&mut after, at, |pod| pod.pod == placement.pod);
            after.settle();
            let after = Picture::sure(&after, &[]);
            if !bare {
                let moved = planner_context::key_of_moved(&work.key);
                step.side_effects.notes.push(after.where_to(&moved));
            }
            let mut forecast = compare(snapshot, &before, &after, vec![leaver]);
            after.estimate_moved(snapshot, &mut forecast);
            plan.reasons.extend(news(&forecast, snapshot.at));
            plan.effect = PlanEffect::Forecast(forecast);
        }
    }
    plan.steps.push(step);
    Ok(plan)
}
