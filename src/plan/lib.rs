//! Planners: turn an operator's intent into a plan. One file per action.
//!
//! Pure. [`plan`] plans every intent on a snapshot of the whole fleet, which the engine simulates: it says what starts, what is
//! evicted, and what work is lost. Hold, resume, scale and reprioritise can also be planned on freshly read objects ([`JobSubject`],
//! [`FoundObject`]), which works for what the fleet does not show (a job without devices); [`add_forecast`] then adds the engine's
//! forecast. Where an object does not support a step, the planner refuses and says what can be done instead.

pub mod actions;
mod admit;
mod cordon;
mod drain;
mod effects;
mod end_holds;
mod evictions;
pub mod govern;
pub mod grant;
mod groups;
pub mod hold;
mod places;
mod planner_context;
mod preempt;
mod priority_raise;
#[cfg(test)]
mod properties;
mod queue_actions;
mod rebalance;
pub mod reprioritise;
pub mod resume;
pub mod scale;
mod subject;
#[cfg(test)]
mod tests;

pub use end_holds::end_holds;
pub use evictions::competing_jobs::starts_without;
pub use evictions::victims::{leavers, leavers_of_nodes};
pub use planner_context::{Author, gang_refusal};
pub use subject::{ActionTarget, FoundObject, JobSubject, StartSystem, SubjectPriorityClass};

use std::collections::BTreeSet;

use engine::options;
use engine::snapshot::{Borrow, Reclaim, Snapshot, SnapshotQueue, Within, Workload};
use model::plan::{Intent, JobName, KnownVictims, Plan, PlanEffect, Refusal, SideEffects};

use actions::PlannerInput;

/// The effect of a plan that is made from objects alone, without a forecast of the fleet.
fn not_computed() -> PlanEffect {
    PlanEffect::Unknown {
        why: "only this object was read: effects on other jobs are not computed".to_owned(),
    }
}

/// The plan for an intent on a settled fleet ([`Snapshot::settle`]). Takes up to seconds with 10,000 nodes: run it on a thread of
/// its own. The same input gives the same plan.
///
/// # Errors
/// No plan is possible; the refusal gives the reason and an alternative.
pub fn plan(snapshot: &Snapshot, intent: &Intent, author: &Author) -> Result<Plan, Refusal> {
    plan_again(snapshot, intent, author, &KnownVictims::default())
}

/// As [`plan`], with the victims of an earlier plan in `known`: they are kept as long as that works. The least loss changes from
/// second to second, and a plan that was read should not.
///
/// # Errors
/// As [`plan`].
pub fn plan_again(
    snapshot: &Snapshot,
    intent: &Intent,
    author: &Author,
    known: &KnownVictims,
) -> Result<Plan, Refusal> {
    let on = PlannerInput {
        snapshot,
        author,
        known,
    };
    let mut plan = actions::plan(&on, intent)?;
    groups::on_all(snapshot, &mut plan);
    plan.revision = Some(snapshot.revision);
    plan.options = options::used(snapshot, work_of(snapshot, intent));
    if plan.reads.is_empty() {
        for step in &plan.steps {
            for fact in &step.guards {
                if !plan.reads.contains(fact) {
                    plan.reads.push(fact.clone());
                }
            }
        }
    }
    Ok(plan)
}

fn work_of<'s>(snapshot: &'s Snapshot, intent: &Intent) -> Option<&'s Workload> {
    let job = intent.job()?;
    let mut all = snapshot.workloads.iter();
    all.find(|work| work.key.key == job.0)
}

/// Adds the engine's forecast on the whole fleet to a plan that was made from objects alone. A plan for other objects is unchanged.
pub fn add_forecast(snapshot: &Snapshot, plan: &mut Plan) {
    // The reason why no start is computed for a resumed object is an answer, too.
    let is_resume = matches!(plan.intent, Intent::Resume { .. });
    if let Ok(planned) = self::plan(snapshot, &in_full(plan), &Author::default())
        && (is_resume || matches!(planned.effect, PlanEffect::Forecast(_)))
    {
        plan.effect = planned.effect;
        plan.revision = planned.revision;
        plan.options = planned.options;
        add_losses(snapshot, plan);
        for reason in planned.reasons {
            if !plan.reasons.contains(&reason) {
                plan.reasons.push(reason);
            }
        }
    }
    if let Intent::Reprioritise { .. } = &plan.intent
        && let Some(work) = work_of(snapshot, &in_full(plan))
        && !priority_preempts(snapshot, work)
    {
        plan.warnings
            .retain(|warning| *warning != reprioritise::MAY_PREEMPT);
    }
}

/// Adds the lost work of the effect to the steps that stop a job; none where none of its pods is scheduled.
fn add_losses(snapshot: &Snapshot, plan: &mut Plan) {
    let PlanEffect::Forecast(forecast) = &plan.effect else {
        return;
    };
    // A job that is not visible may be running.
    let sees_all = snapshot.not_visible.is_empty();
    let (mut any_runs, mut any_waits) = (false, false);
    let mut noted: BTreeSet<JobName> = BTreeSet::new();
    for step in &mut plan.steps {
        let effects = &mut step.side_effects;
        let Some(job) = step.job.as_ref().filter(|_| effects.interrupts) else {
            continue;
        };
        let mut all = snapshot.workloads.iter();
        let model = all.find(|work| work.key.key == job.name.0);
        let has_no_nodes = |model: &Workload| planner_context::seated(model).next().is_none();
        if sees_all && model.is_some_and(has_no_nodes) {
            any_waits = true;
            *effects = SideEffects {
                notes: vec![String::from("deletes its pods, which have no nodes yet")],
                ..SideEffects::default()
            };
            continue;
        }
        any_runs = true;
        let mut displaced = forecast.displaced.iter();
        let own = displaced.find(|one| one.job == job.name);
        let is_known = effects
            .loss
            .as_ref()
            .is_some_and(|loss| loss.device_seconds.is_some());
        let is_first = noted.insert(job.name.clone());
        if let Some(own) = own.filter(|_| !is_known) {
            match job.devices {
                // One of several Workloads of the job.
                Some(part) if part < own.devices => {
                    effects.loss = Some(own.loss.part(part, own.devices));
                }
                _ if is_first => effects.loss = Some(own.loss.clone()),
                _ => {}
            }
        }
    }
    if any_waits && !any_runs && matches!(plan.intent, Intent::Hold { .. }) {
        plan.undo.notes.clear();
    }
}

/// Whether any queue within the reach of a workload's queue preempts by priority; true where its queue is unknown.
fn priority_preempts(snapshot: &Snapshot, work: &Workload) -> bool {
    let own = work.queue.as_ref();
    let mut queues = snapshot.queues.iter();
    let Some(own) = queues.find(|queue| Some(&queue.name) == own) else {
        return true;
    };
    let by_priority = |queue: &SnapshotQueue| {
        queue.preemption.reclaim == Reclaim::LowerPriority
            || queue.preemption.borrow != Borrow::Never
    };
    own.preemption.within != Within::Never
        || own.parent.is_some()
            && snapshot
                .queues
                .iter()
                .any(|queue| queue.parent.is_some() && by_priority(queue))
}

/// The intent of a plan made from objects, with the full name of the object found: the typed name may lack the namespace.
fn in_full(plan: &Plan) -> Intent {
    let Some(step) = plan.steps.first() else {
        return plan.intent.clone();
    };
    let found = || match &step.job {
        Some(job) => job.name.to_string(),
        None => step.object.to_string().replace(' ', "/"),
    };
    match plan.intent.clone() {
        Intent::Hold { .. } => Intent::Hold { target: found() },
        Intent::Resume { .. } => Intent::Resume { target: found() },
        Intent::Scale { replicas, .. } => Intent::Scale {
            target: step.object.to_string().replace(' ', "/"),
            replicas,
        },
        Intent::Reprioritise { job, priority } => Intent::Reprioritise {
            job: step.job.as_ref().map_or(job, |found| found.name.clone()),
            priority,
        },
        other => other,
    }
}
