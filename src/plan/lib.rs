//! What an operator may ask for, turned into a plan. One file an action.
//!
//! Pure. [`plan`] plans every intent on a snapshot of the whole fleet, which the engine simulates: it says what starts, who
//! leaves, what is lost. Holding, resuming, scaling and reprioritising can also be planned on the objects as they were just read
//! ([`Subject`], [`Found`]), which works for what the fleet does not show (a job without devices); [`foretell`] then
//! adds what the engine makes of it. A step that its object has no lever for makes a planner refuse, and say what can be
//! done instead.

mod admit;
mod caused;
mod choice;
mod contention;
mod cordon;
mod drain;
mod effect;
pub mod govern;
pub mod grant;
pub mod hold;
#[cfg(test)]
mod laws;
mod leavers;
mod places;
mod planner_context;
mod preempt;
mod queue_actions;
mod raise;
mod rebalance;
pub mod reprioritise;
mod reserved;
pub mod resume;
mod rivals;
pub mod scale;
mod subject;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_evicted;
#[cfg(test)]
mod tests_fleet;
#[cfg(test)]
mod tests_scale;
pub mod words;

pub use leavers::{leavers, leavers_of_nodes};
pub use planner_context::Author;
pub use rivals::starts_without;
pub use subject::{ActionTarget, Class, Found, Subject, System};

use engine::options;
use engine::snapshot::{Borrow, Queue, Reclaim, Snapshot, Within, Workload};
use model::plan::{Effect, Intent, Known, Plan, Refusal, RefusalCode};

/// Said of every plan that is made of objects alone: nobody has computed what the fleet will be like.
fn not_computed() -> Effect {
    Effect::Unknown {
        why: "only this object was read: what starts earlier or later is not computed".to_owned(),
    }
}

/// The plan for an intent on a fleet that is settled ([`Snapshot::settle`]). Takes up to seconds on ten thousand nodes: it
/// belongs on a thread of its own. The same input gives the same plan.
///
/// # Errors
/// Why there is none, and what can be done instead.
pub fn plan(snapshot: &Snapshot, intent: &Intent, author: &Author) -> Result<Plan, Refusal> {
    plan_again(snapshot, intent, author, &Known::default())
}

/// The same for one who knows already who would leave. Whoever leaves by a plan that is read leaves by the new one too, as long as
/// that works: least losses change places from second to second, and a plan that is read should not.
///
/// # Errors
/// As [`plan`].
pub fn plan_again(
    snapshot: &Snapshot,
    intent: &Intent,
    author: &Author,
    known: &Known,
) -> Result<Plan, Refusal> {
    let mut plan = match intent {
        Intent::Drain { nodes, deadline } => drain::plan(snapshot, nodes, *deadline, author),
        Intent::Cordon { nodes, reason } => {
            let why = if reason.is_empty() {
                &author.why
            } else {
                reason
            };
            cordon::cordon(snapshot, nodes, &author.by, why)
        }
        Intent::Uncordon { nodes } => cordon::uncordon(snapshot, nodes),
        Intent::Preempt { job } => preempt::preempt(snapshot, job),
        Intent::Requeue { job } => preempt::requeue(snapshot, job),
        Intent::Admit { job, preempt } => admit::plan(snapshot, job, *preempt, known),
        Intent::Reprioritise { job, priority } => {
            queue_actions::reprioritise(snapshot, job, priority)
        }
        Intent::Hold { target } => queue_actions::hold(snapshot, target),
        Intent::Resume { target } => queue_actions::resume(snapshot, target),
        Intent::Scale { target, replicas } => scale::on_fleet(snapshot, target, *replicas),
        Intent::Rebalance { pool } => rebalance::plan(snapshot, pool.as_ref()),
        Intent::Undo { run } => {
            let sentence = format!("what {run} did stands in the journal, not in the fleet");
            Err(Refusal::new(RefusalCode::Unknown, sentence)
                .instead(format!("`plan undo {run}` reads the journal")))
        }
    }?;
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

/// The workload that an intent is about, where it is about one.
fn work_of<'s>(snapshot: &'s Snapshot, intent: &Intent) -> Option<&'s Workload> {
    let (Intent::Preempt { job }
    | Intent::Requeue { job }
    | Intent::Admit { job, .. }
    | Intent::Reprioritise { job, .. }) = intent
    else {
        return None;
    };
    let mut all = snapshot.workloads.iter();
    all.find(|work| work.key.key == job.0)
}

/// Adds to a plan that was made of objects alone what the engine makes of its intent on the whole fleet. A plan about
/// what the fleet does not show stays as it is.
pub fn foretell(snapshot: &Snapshot, plan: &mut Plan) {
    if let Ok(told) = self::plan(snapshot, &in_full(plan), &Author::default())
        && matches!(told.effect, Effect::Forecast(_))
    {
        plan.effect = told.effect;
        plan.revision = told.revision;
        plan.options = told.options;
        for reason in told.reasons {
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

/// Whether anybody is preempted by priority in the reach of a workload's queue; true where its queue is not known.
fn priority_preempts(snapshot: &Snapshot, work: &Workload) -> bool {
    let own = work.queue.as_ref();
    let mut queues = snapshot.queues.iter();
    let Some(own) = queues.find(|queue| Some(&queue.name) == own) else {
        return true;
    };
    let by_priority = |queue: &Queue| {
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

/// The intent of a plan that was made of objects, on the object that was found: what was typed may lack its namespace.
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
