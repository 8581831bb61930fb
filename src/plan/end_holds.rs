//! Undo of a run that the journal of this machine does not have, by what the objects state: what the run has suspended is resumed.

use engine::snapshot::Snapshot;
use model::fleet::job::JobKey;
use model::plan::{Intent, Plan, PlanEffect, Refusal, RefusalCode, Undo};

use super::{groups, planner_context};

/// The plan that resumes the jobs which state that `run` has suspended them.
///
/// # Errors
/// There is no such job, or the kind of one cannot be resumed.
pub fn end_holds(snapshot: &Snapshot, run: &str, jobs: &[&JobKey]) -> Result<Plan, Refusal> {
    let intent = Intent::Undo {
        run: run.to_owned(),
    };
    let mut plan = Plan::new(format!("resume what run {run} holds"), intent, snapshot.at);
    for key in jobs {
        let found = snapshot.workloads.iter().find(|work| work.key == **key);
        let Some(work) = found else { continue };
        let mut step = planner_context::again(snapshot, work)?;
        step.reason = format!("its annotation says that run {run} suspended it");
        plan.steps.push(step);
    }
    groups::on_all(snapshot, &mut plan);
    if plan.steps.is_empty() {
        let sentence = format!("no job has an annotation that run {run} suspended it");
        return Err(Refusal::new(RefusalCode::NotFound, sentence));
    }
    plan.reasons.push(format!(
        "run {run} is not in this machine's journal: only what its jobs' annotations record can be undone"
    ));
    plan.effect = PlanEffect::Unknown {
        why: "the scheduler decides what runs here".to_owned(),
    };
    plan.undo = Undo {
        possible: true,
        notes: vec!["work until then is lost, unless it saves a checkpoint".to_owned()],
    };
    Ok(plan)
}
