//! How far a job's priority is raised to put it first in Kueue's order, and whether it is restored.

use std::collections::BTreeSet;

use engine::compiled::{CompiledFleet, WorkloadId};
use engine::snapshot::{Snapshot, Status, System, Workload};
use engine::state::State;
use model::plan::{JobName, Mutation, Refusal, RefusalCode, Step, Until, Verb};

use super::effects::effect::{FirstCycle, Then};
use super::hold::after;
use super::planner_context::{self, fact};

/// A priority above that of all workloads.
pub(super) fn above_all(snapshot: &Snapshot) -> i32 {
    let all = snapshot.workloads.iter().map(|work| work.priority);
    all.max().unwrap_or(0).saturating_add(1)
}

/// How far a job's priority is raised in Kueue's order.
pub(super) struct Raise {
    pub(super) to: i32,
    /// The job above which it is raised, where that is another one.
    above: Option<JobName>,
    /// Whether it can be restored once the job runs, or why not.
    pub(super) back: Result<(), String>,
}

impl Raise {
    /// The lowest priority with which the job starts after the victims are stopped, and keeps running once the jobs in `back`
    /// wait again; above all others where no lower one suffices.
    pub(super) fn of(then: &Snapshot, work: WorkloadId, back: &[WorkloadId]) -> Self {
        let mut settled = then.clone();
        settled.settle();
        let compiled = CompiledFleet::new(settled);
        let model = compiled.workload(work);
        let mut state = State::new(&compiled);
        let mut look = |to: i32, after: i32| {
            let mark = state.mark();
            state.set_priority(work, to);
            let later = Then {
                back,
                priority: Some((work, after)),
                ..Then::default()
            };
            let first = FirstCycle::of(&mut state, later);
            state.undo_to(mark);
            first
        };
        let waits = |other: &&Workload| {
            other.admission.is_some() && matches!(other.status, Status::Waiting | Status::Held)
        };
        let others = compiled.snapshot.workloads.iter();
        let others: BTreeSet<i32> = others
            .filter(waits)
            .map(|other| other.priority)
            .filter(|priority| *priority > model.priority)
            .collect();
        let steps: Vec<i32> = std::iter::once(model.priority)
            .chain(others)
            .map(|priority| priority.saturating_add(1))
            .collect();
        let (mut low, mut high) = (0, steps.len() - 1);
        while low < high {
            let middle = (low + high) / 2;
            match look(steps[middle], steps[middle]).starts(&compiled, work) {
                true => high = middle,
                false => low = middle + 1,
            }
        }
        let to = steps[high];
        let passed = compiled.snapshot.workloads.iter().filter(waits);
        let above = passed
            .filter(|other| other.key != model.key && other.priority.saturating_add(1) == to)
            .map(|other| planner_context::name(&other.key))
            .next()
            .filter(|_| high > 0);
        let lowered = look(to, model.priority);
        let back = match lowered.pushed(&model.key) {
            None => Ok(()),
            Some(by) => {
                let who = by.map_or_else(|| "its queue".to_owned(), |by| by.to_string());
                Err(format!(
                    "its priority stays at {to}: at {}, {who} would preempt it at once",
                    model.priority
                ))
            }
        };
        Self { to, above, back }
    }

    pub(super) fn words(&self, from: i32) -> String {
        let above = match &self.above {
            Some(other) => format!(", just above that of {other}"),
            None => String::new(),
        };
        let then = match self.back {
            Ok(()) => format!("; it is set back to {from} once the job runs"),
            Err(_) => String::new(),
        };
        format!(
            "its priority changes from {from} to {}{above}{then}",
            self.to
        )
    }
}

/// The step that raises a job in Kueue's order, so that it starts. The run waits until its quota is reserved.
pub(super) fn lift(model: &Workload, value: i32) -> Result<Step, Refusal> {
    let mut step = with_priority(model, Verb::Admit, value)?;
    step.guards
        .push(fact(&step.object, "/spec/priority", model.priority));
    step.waits.push(after(Until::Condition {
        name: "QuotaReserved".to_owned(),
        status: "True".to_owned(),
    }));
    step.reason = "so that it starts first".to_owned();
    Ok(step)
}

/// The step that restores a job's priority once it runs. It has no guard: by then the priority is no longer the current one.
pub(super) fn put_back(model: &Workload) -> Result<Step, Refusal> {
    let mut step = with_priority(model, Verb::Reprioritise, model.priority)?;
    step.reason = "it runs: its priority is set back".to_owned();
    Ok(step)
}

fn with_priority(model: &Workload, verb: Verb, value: i32) -> Result<Step, Refusal> {
    let object = planner_context::admission(model, System::Kueue).ok_or_else(|| {
        let sentence = format!("{} has no Kueue Workload", model.key);
        Refusal::new(RefusalCode::Unknown, sentence)
    })?;
    let mut step = planner_context::step(verb, &object, Mutation::WorkloadPriority { value })?;
    step.job = Some(planner_context::reference(model));
    Ok(step)
}
