//! Which kinds of object support which mutation, and the states in which none is possible.

use serde_json::Value;

use model::fleet::govern::KUEUE_QUEUE;
use model::fleet::kinds;
use model::plan::{Mutation, Object, Refusal, RefusalCode, Step, VolcanoAction};

use super::{KUEUE_CLASS, entry, has_condition, is_mirror, text};

/// The field that suspends a job owner; `None` when its kind has none.
pub(super) fn suspend_path(object: &Object) -> Option<&'static str> {
    kinds::find(&object.place.group, &object.place.plural)?.suspend
}

fn unsupported(sentence: String) -> Refusal {
    Refusal::new(RefusalCode::Unsupported, sentence)
}

/// Whether this kind of object supports this mutation. Checked before a plan is shown.
///
/// # Errors
/// It does not; with an alternative.
pub fn supports(object: &Object, mutation: &Mutation) -> Result<(), Refusal> {
    let place = (&*object.place.group, &*object.place.plural);
    let kind = &object.kind;
    let only = |allowed: &[(&str, &str)], what: &str| {
        if allowed.contains(&place) {
            Ok(())
        } else {
            Err(unsupported(format!("{object}: a {kind} has no {what}")))
        }
    };
    match mutation {
        Mutation::Suspend { .. } => {
            if suspend_path(object).is_some() {
                return Ok(());
            }
            let refusal = unsupported(format!("{object}: a {kind} cannot be suspended"));
            Err(match place {
                ("leaderworkerset.x-k8s.io", _) | ("apps", "deployments" | "statefulsets") => {
                    refusal
                        .instead("scale it to 0 replicas, and back later")
                        .instead("submit it to a queue and hold the queue")
                }
                ("batch.volcano.sh", "jobs") => {
                    refusal.instead("Volcano's AbortJob, which ResumeJob undoes")
                }
                ("ray.io", "rayservices") => {
                    refusal.instead("scale its worker groups to 0 in its rayClusterConfig")
                }
                ("", "pods") => refusal.instead("evict the pod; no controller recreates it"),
                _ => refusal.instead("act on the object that owns its pods"),
            })
        }
        Mutation::WorkloadActive { .. } | Mutation::WorkloadPriority { .. } => only(
            &[("kueue.x-k8s.io", "workloads")],
            "such field: it belongs to Kueue's Workload",
        ),
        Mutation::KueuePriorityClass { .. } => {
            if suspend_path(object).is_some() || place.0 == "apps" || place == ("", "pods") {
                Ok(())
            } else {
                Err(unsupported(format!(
                    "{object}: Kueue reads no priority class from a {kind}"
                )))
            }
        }
        Mutation::StopPolicy { .. } => match place {
            ("kueue.x-k8s.io", "clusterqueues" | "localqueues") => Ok(()),
            ("scheduling.run.ai", "queues") => Err(unsupported(format!(
                "{object}: a queue of KAI cannot be held: it has no such field"
            ))
            .instead("set its limits to 0, after which what runs may stay until it is reclaimed")
            .instead("hold its jobs one by one")),
            _ => Err(unsupported(format!(
                "{object}: a {kind} has no stop policy"
            ))),
        },
        Mutation::VolcanoCommand { action } => match action {
            VolcanoAction::AbortJob | VolcanoAction::ResumeJob | VolcanoAction::RestartJob => only(
                &[("batch.volcano.sh", "jobs")],
                "such command: it is for Volcano's own jobs",
            ),
            VolcanoAction::CloseQueue | VolcanoAction::OpenQueue => only(
                &[("scheduling.volcano.sh", "queues")],
                "such command: it is for Volcano's queues",
            ),
        },
        Mutation::VolcanoPriorityClass { .. } => only(
            &[
                ("batch.volcano.sh", "jobs"),
                ("scheduling.volcano.sh", "podgroups"),
            ],
            "priority class that Volcano reads",
        ),
        Mutation::VolcanoQueueWeight { value } => {
            if *value == 0 {
                let sentence = "the weight of a Volcano queue is at least 1";
                return Err(Refusal::new(RefusalCode::IllegalState, sentence));
            }
            only(&[("scheduling.volcano.sh", "queues")], "weight")
        }
        Mutation::KaiPriorityClass { .. } => match place {
            ("scheduling.run.ai", "podgroups") => Err(unsupported(format!(
                "{object}: KAI's pod-grouper writes the PodGroup's priority back"
            ))
            .instead("change the label priorityClassName of the workload that owns the pods")),
            _ => Ok(()),
        },
        Mutation::Evict { .. } => only(&[("", "pods")], "eviction: only pods are evicted"),
        Mutation::Ungate { .. } => only(&[("", "pods")], "scheduling gates"),
        Mutation::Cordon { .. } | Mutation::Uncordon | Mutation::Untaint { .. } => {
            only(&[("", "nodes")], "such field: it belongs to nodes")
        }
        Mutation::Taint { effect, .. } => {
            if !matches!(&**effect, "NoSchedule" | "PreferNoSchedule" | "NoExecute") {
                let sentence = format!(
                    "`{effect}` is not a taint effect: use NoSchedule, PreferNoSchedule, NoExecute"
                );
                return Err(Refusal::new(RefusalCode::IllegalState, sentence));
            }
            only(&[("", "nodes")], "taints")
        }
        Mutation::Scale { .. } => only(
            &[
                ("apps", "deployments"),
                ("apps", "statefulsets"),
                ("leaderworkerset.x-k8s.io", "leaderworkersets"),
            ],
            "number of replicas",
        ),
        Mutation::Annotate { key, .. } => {
            if key.starts_with("stokehold.dev/") {
                Ok(())
            } else {
                Err(unsupported(format!(
                    "`{key}` is not an annotation of Stokehold"
                )))
            }
        }
    }
}

/// The controller that owns an object: kind and name.
pub(super) fn controller(object: &Value) -> Option<(&str, &str)> {
    object
        .pointer("/metadata/ownerReferences")
        .and_then(Value::as_array)?
        .iter()
        .find(|owner| owner.get("controller").and_then(Value::as_bool) == Some(true))
        .map(|owner| (text(owner, "/kind"), text(owner, "/name")))
}

/// True once a job has ended: it has no allocation and cannot be restarted.
pub fn has_ended(object: &Value) -> bool {
    ["Complete", "Completed", "Failed", "Finished", "Succeeded"]
        .iter()
        .any(|name| has_condition(object, name, "True"))
        || matches!(
            text(object, "/status/jobDeploymentStatus"),
            "Complete" | "Failed" | "ValidationFailed"
        )
        || matches!(
            text(object, "/status/state/phase"),
            "Completed" | "Failed" | "Terminated"
        )
}

/// Whether [`illegal`] may refuse a mutation for something that only the object itself states. (For pods and nodes, the fleet shows it.)
pub const fn depends_on_the_object(mutation: &Mutation) -> bool {
    !matches!(
        mutation,
        Mutation::Evict { .. } | Mutation::Cordon { .. } | Mutation::Uncordon
    )
}

/// Whether the object, as it was just read, is in a state in which the mutation has no effect or would be reverted.
///
/// # Errors
/// Why, with what can be done instead.
pub fn illegal(step: &Step, object: &Value) -> Result<(), Refusal> {
    let it = &step.object;
    let place = (&*it.place.group, &*it.place.plural);
    let over = || {
        let sentence = format!("{it} has ended: there is nothing left to change");
        Err(Refusal::new(RefusalCode::IllegalState, sentence))
    };
    match &step.mutation {
        Mutation::Suspend { value } => {
            if has_ended(object) {
                return over();
            }
            if let Some((kind, name)) = controller(object) {
                let sentence = format!("{it} belongs to {kind} {name}, which would revert it");
                return Err(Refusal::new(RefusalCode::OwnedByAnother, sentence)
                    .instead(format!("act on {kind} {name}")));
            }
            if entry(object, "labels", KUEUE_QUEUE).is_some_and(|queue| !queue.is_empty()) {
                let sentence =
                    format!("{it} is managed by Kueue, which decides when it is suspended");
                return Err(Refusal::new(RefusalCode::OwnedByAnother, sentence)
                    .instead("set its Workload's spec.active"));
            }
            if let Some(by) = foreign_manager(it, object) {
                let sentence =
                    format!("{it} is managed by {by}, not by the cluster's own controller");
                return Err(Refusal::new(RefusalCode::OwnedByAnother, sentence)
                    .instead(format!("act on it where {by} runs it")));
            }
            match unsuspendable_ray(it, object).filter(|_| *value) {
                Some(refusal) => Err(refusal),
                None => Ok(()),
            }
        }
        Mutation::WorkloadActive { .. } | Mutation::WorkloadPriority { .. }
            if has_ended(object) =>
        {
            over()
        }
        Mutation::KueuePriorityClass { .. } => {
            if has_ended(object) {
                return over();
            }
            let had = entry(object, "labels", KUEUE_CLASS).is_some_and(|class| !class.is_empty());
            let suspended = suspend_path(it)
                .and_then(|path| object.pointer(path))
                .and_then(Value::as_bool)
                == Some(true);
            if had || suspended {
                return Ok(());
            }
            let sentence = format!(
                "{it} runs without a priority class, and Kueue does not allow adding one to a running job"
            );
            Err(Refusal::new(RefusalCode::IllegalState, sentence)
                .instead("set the priority of its Workload to a number"))
        }
        Mutation::VolcanoCommand { action } => {
            let phase = text(object, "/status/state/phase");
            match action {
                VolcanoAction::AbortJob | VolcanoAction::RestartJob if has_ended(object) => over(),
                VolcanoAction::ResumeJob if !matches!(phase, "Aborted" | "Aborting") => {
                    let shown = if phase.is_empty() { "unknown" } else { phase };
                    let sentence =
                        format!("{it} is not aborted (it is {shown}), so it cannot be resumed");
                    Err(Refusal::new(RefusalCode::IllegalState, sentence))
                }
                _ => Ok(()),
            }
        }
        Mutation::VolcanoPriorityClass { .. } => {
            if has_ended(object) {
                return over();
            }
            match controller(object) {
                Some(("Job", name)) if place == ("scheduling.volcano.sh", "podgroups") => {
                    let sentence =
                        format!("{it} belongs to Volcano's job {name}, which reverts it");
                    Err(Refusal::new(RefusalCode::OwnedByAnother, sentence)
                        .instead(format!("change the priority class of the job {name}")))
                }
                _ => Ok(()),
            }
        }
        Mutation::Evict { .. } => {
            if is_mirror(object) {
                let sentence = format!("{it} is a static pod: the API cannot evict it");
                return Err(Refusal::new(RefusalCode::IllegalState, sentence));
            }
            if let Some(("DaemonSet", name)) = controller(object) {
                let sentence = format!(
                    "{it} belongs to the DaemonSet {name}, which would recreate it at once"
                );
                return Err(Refusal::new(RefusalCode::OwnedByAnother, sentence)
                    .instead("leave it: DaemonSet pods stay on a drained node"));
            }
            Ok(())
        }
        Mutation::Scale { .. } => match controller(object) {
            Some((kind, name)) => {
                let sentence = format!("{it} belongs to {kind} {name}, which would scale it back");
                Err(Refusal::new(RefusalCode::OwnedByAnother, sentence)
                    .instead(format!("act on {kind} {name}")))
            }
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

/// Why a RayJob cannot be suspended; `None` for one that can, and for every other kind.
pub(super) fn unsuspendable_ray(it: &Object, now: &Value) -> Option<Refusal> {
    if (&*it.place.group, &*it.place.plural) != ("ray.io", "rayjobs") {
        return None;
    }
    let selects = now.pointer("/spec/clusterSelector");
    let (sentence, instead) = if selects.is_some_and(|it| !it.is_null()) {
        (
            format!("{it} uses a cluster that it does not own, so it cannot be suspended"),
            "suspend that RayCluster",
        )
    } else {
        let shuts = now.pointer("/spec/shutdownAfterJobFinishes");
        if shuts.and_then(Value::as_bool) == Some(true) {
            return None;
        }
        (
            format!(
                "{it} has shutdownAfterJobFinishes = false, and such a RayJob cannot be suspended"
            ),
            "set its shutdownAfterJobFinishes to true first: its RayCluster is then deleted when the job ends",
        )
    };
    Some(Refusal::new(RefusalCode::IllegalState, sentence).instead(instead))
}

/// The controller that manages an object in the place of its kind's own; nothing where its own does.
pub(super) fn foreign_manager<'a>(it: &Object, now: &'a Value) -> Option<&'a str> {
    let place = (&*it.place.group, &*it.place.plural);
    let paths = ["/spec/managedBy", "/spec/runPolicy/managedBy"];
    let controllers = paths.map(|path| text(now, path)).into_iter();
    controllers
        .filter(|by| !by.is_empty())
        .find(|by| !is_own_controller(place, by))
}

/// True for a `.spec.managedBy` value that names the cluster's own controller of this kind.
pub fn is_own_controller(place: (&str, &str), by: &str) -> bool {
    match place {
        ("batch", _) => by == "kubernetes.io/job-controller",
        ("jobset.x-k8s.io", _) => by == "jobset.sigs.k8s.io/jobset-controller",
        ("trainer.kubeflow.org", _) => by == "trainer.kubeflow.org/trainjob-controller",
        ("ray.io", _) => by == "ray.io/kuberay-operator",
        _ => by.starts_with("kubeflow.org/"),
    }
}
