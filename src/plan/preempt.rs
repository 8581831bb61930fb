//! Preempt: takes a job off its devices and requeues it. Requeue: the same, for the job's own sake.

use engine::compiled::WorkloadId;
use engine::snapshot::{Placement, PodSet, Snapshot, Status};
use model::plan::{Alternative, Intent, JobName, Plan, PlanEffect, Refusal, RefusalCode, Undo};

use super::effects::effect::{Leaver, Picture, compare, news};
use super::planner_context::{self, EvictBy, seated};

/// The plan that preempts a job, with what starts instead.
///
/// # Errors
/// It has no devices allocated, or its kind does not support it.
pub(super) fn preempt(snapshot: &Snapshot, job: &JobName) -> Result<Plan, Refusal> {
    let title = format!("preempt {job}");
    let intent = Intent::Preempt { job: job.clone() };
    let (mut plan, back) = off(snapshot, job, title, intent)?;
    if back {
        plan.warnings.push(
            "no waiting job takes its place: it starts again at once; hold it to prevent that"
                .to_owned(),
        );
    }
    Ok(plan)
}

/// The plan that takes a job off its devices and requeues it.
///
/// # Errors
/// As [`preempt`].
pub(super) fn requeue(snapshot: &Snapshot, job: &JobName) -> Result<Plan, Refusal> {
    let title = format!("requeue {job}");
    let intent = Intent::Requeue { job: job.clone() };
    Ok(off(snapshot, job, title, intent)?.0)
}

/// The plan, and whether the job starts again at once.
fn off(
    snapshot: &Snapshot,
    job: &JobName,
    title: String,
    intent: Intent,
) -> Result<(Plan, bool), Refusal> {
    let work = planner_context::find(snapshot, job)?;
    let model = &snapshot.workloads[work];
    require_allocated(snapshot, work)?;
    let mut plan = Plan::new(title, intent, snapshot.at);
    let mut after = snapshot.clone();
    after.displace(work, false);
    after.settle();
    let away = match planner_context::way(snapshot, model)? {
        EvictBy::Kueue(_) => vec![model.key.clone()],
        _ => Vec::new(),
    };
    let before = Picture::sure(snapshot, &[]);
    let then = Picture::sure(&after, &away);
    let whereabouts = then.where_to(&model.key);
    match planner_context::way(snapshot, model)? {
        EvictBy::Bare(_) => {
            let sentence = format!("{job} is a pod without a controller: nothing recreates it");
            return Err(Refusal::new(RefusalCode::Unsupported, sentence)
                .instead(format!("evict it for good: `plan evict {job}`"))
                .instead("put it under a Job, which can be suspended"));
        }
        EvictBy::Pods(_) => {
            let all: Vec<(&PodSet, &Placement)> = seated(model)
                .filter(|(_, pod)| pod.deleted.is_none())
                .collect();
            for (set, pod) in all {
                let object = planner_context::pod(&model.key.key.namespace, &pod.pod, &pod.uid);
                let mut step = planner_context::evict(&object, &pod.node, super::hold::SETTLE)?;
                let one = std::iter::once((set, pod));
                step.side_effects.loss = Some(planner_context::loss(snapshot, model, one));
                step.side_effects.gang_broken = planner_context::gang(model);
                step.side_effects.notes.push(format!(
                    "the {} recreates it at once, wherever there is room",
                    model.key.kind
                ));
                step.job = Some(planner_context::reference_of_pod(model, set));
                step.reason = "requested".to_owned();
                plan.steps.push(step);
            }
            plan.alternatives.push(Alternative {
                sentence: "scale it to 0 so that it does not restart".to_owned(),
                command: Some(format!("plan hold {job}")),
            });
            plan.undo
                .notes
                .push("evictions cannot be undone; the owner recreates the pods".to_owned());
        }
        EvictBy::Kueue(_) | EvictBy::Suspend(_) | EvictBy::Volcano(_) => {
            let mut stop = planner_context::stop(snapshot, model)?;
            stop.reason = "requested".to_owned();
            stop.side_effects.notes.push(whereabouts);
            plan.steps.push(stop);
            let mut again = planner_context::again(snapshot, model)?;
            again.needs.push(1);
            again.reason = match planner_context::way(snapshot, model)? {
                EvictBy::Kueue(_) => "it is requeued at its old position within its priority",
                _ => "it may start again",
            }
            .to_owned();
            plan.steps.push(again);
            plan.alternatives.push(Alternative {
                sentence: "hold it so that it does not restart".to_owned(),
                command: Some(format!("plan hold {job}")),
            });
            plan.undo = Undo {
                possible: true,
                notes: vec!["other jobs may have taken its devices by then; work since the last checkpoint is lost".to_owned()],
            };
        }
    }
    let back = then.placed.contains_key(&model.key);
    let leavers = Leaver::whole(snapshot, work).into_iter().collect();
    let forecast = compare(snapshot, &before, &then, leavers);
    plan.reasons.extend(news(&forecast, snapshot.at));
    plan.effect = PlanEffect::Forecast(forecast);
    Ok((plan, back))
}

/// Checks that a workload has something allocated.
///
/// # Errors
/// It has not.
pub(super) fn require_allocated(snapshot: &Snapshot, work: WorkloadId) -> Result<(), Refusal> {
    let model = &snapshot.workloads[work];
    let job = &model.key;
    let refuse = |sentence: String, instead: &str| {
        Err(Refusal::new(RefusalCode::IllegalState, sentence).instead(instead))
    };
    match model.status {
        Status::Running => Ok(()),
        Status::Waiting => {
            let sentence = format!("{job} is waiting: it has no devices");
            let name = planner_context::name(job);
            Err(Refusal::new(RefusalCode::IllegalState, sentence)
                .instead(format!(
                    "evict others so that it starts: `plan admit {name} --preempt`"
                ))
                .instead("`plan hold` keeps it from starting"))
        }
        Status::Held => refuse(format!("{job} is held: it has no devices"), "`plan resume`"),
        Status::Ending => refuse(format!("{job} is ending"), "wait until it is deleted"),
    }
}
