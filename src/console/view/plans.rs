//! Plans that were carried out on this cluster, and those that are: from the journal on this machine.

use model::base::Name;
use table::Facts;
use table::actions::{RunRow, RunState, StepState};
use table::cell::{Cell, Value};
use table::column::{Column, KindSpec, Row, id_of};
use table::navigation::{Destination, RowScope, Selection};
use table::role::Role;

use super::run_jobs;

/// The table of runs.
pub static KIND: KindSpec = KindSpec {
    columns: &[
        Column::words("plan", "PLAN", 0, (20, 48), |facts, row| {
            of(facts, row, |run| Value::text(run.title.as_str())).role(Role::Title)
        })
        .sign(|facts, row| run(facts, row).map_or(("–", Role::Muted), |run| sign(run.state))),
        Column::words("state", "STATE", 1, (7, 10), |facts, row| {
            let role = run(facts, row).map_or(Role::Muted, |run| sign(run.state).1);
            of(facts, row, |run| Value::text(run.state.name())).role(role)
        }),
        Column::number("steps", "STEPS", 2, 5, |facts, row| {
            of(facts, row, |run| {
                Value::Part(run.over() as u64, run.steps.len() as u64)
            })
        }),
        Column::number("begun", "STARTED", 0, 6, |facts, row| {
            of(facts, row, |run| Value::Since(run.begun))
        }),
        Column::words("by", "BY", 4, (6, 20), |facts, row| {
            of(facts, row, |run| Value::text(run.by.as_str()))
        }),
        Column::words("reason", "REASON", 5, (8, 30), |facts, row| {
            of(facts, row, |run| Value::text(run.reason.as_str())).role(Role::Muted)
        })
        .rare(),
        Column::words("now", "PROGRESS", 1, (28, 60), |facts, row| {
            of(facts, row, |run| Value::text(status_text(facts, run)))
        }),
        Column::words("run", "RUN", 6, (21, 24), |facts, row| {
            of(facts, row, |run| Value::text(run.name.as_str())).role(Role::Muted)
        }),
    ],
    collect: |facts, _: &RowScope| {
        (0..facts.acts.runs.len() as u32)
            .map(|at| (at, 0))
            .collect()
    },
    id: |facts, row| run(facts, row).map_or(0, |run| id_of(&run.name)),
    label: |_, _, _| None,
    selection: |facts, row| run(facts, row).map(|run| Selection::Run(Name::new(&run.name))),
    open: |facts, row| {
        run(facts, row).map(|run| Destination::Facts(Selection::Run(Name::new(&run.name))))
    },
    faulty: |facts, row| {
        run(facts, row).is_some_and(|run| {
            matches!(
                run.state,
                RunState::Failed | RunState::Incomplete | RunState::BrokenOff
            )
        })
    },
    worst: None,
    last: |_, _| false,
    searched: None,
    sort: None,
    none: "no runs from this machine on this cluster; capital letters open a plan",
};

fn run(facts: &Facts, row: Row) -> Option<&RunRow> {
    facts.acts.runs.get(row.0 as usize)
}

fn of<'a>(facts: &'a Facts, row: Row, make: impl FnOnce(&'a RunRow) -> Value<'a>) -> Cell<'a> {
    Cell::new(run(facts, row).map_or(Value::Unknown, make))
}

/// A run's state as a sign.
pub(super) const fn sign(state: RunState) -> (&'static str, Role) {
    match state {
        RunState::Running => ("◐", Role::Info),
        RunState::BrokenOff | RunState::Stopped | RunState::Incomplete => ("□", Role::Warn),
        RunState::Failed => ("×", Role::Crit),
        RunState::Done => ("✓", Role::Ok),
        RunState::Undone => ("↶", Role::Muted),
    }
}

/// The color of a step's state.
pub const fn color(stand: StepState) -> Role {
    match stand {
        StepState::Todo | StepState::Left => Role::Muted,
        StepState::Waiting => Role::Info,
        StepState::Unresolved => Role::Warn,
        StepState::Done | StepState::Already => Role::Ok,
        StepState::Failed => Role::Crit,
    }
}

/// Current step of the run, or why it stopped, and the state of the jobs that it has stopped.
fn status_text(facts: &Facts, run: &RunRow) -> String {
    let jobs = match run.state {
        RunState::Running => None,
        _ => run_jobs::in_sum(facts, run),
    };
    let own = at(run);
    match (own.is_empty(), jobs) {
        (_, None) => own,
        (true, Some(jobs)) => jobs,
        (false, Some(jobs)) => format!("{jobs}; {own}"),
    }
}

fn at(run: &RunRow) -> String {
    if !run.words.is_empty() {
        return run.words.clone();
    }
    let open = run.steps.iter().find(|step| !step.state.is_over());
    match (run.state, open) {
        (RunState::Done, _) | (_, None) => String::new(),
        (_, Some(step)) if step.note.is_empty() => step.words.clone(),
        (_, Some(step)) => format!("{}: {}", step.words, step.note),
    }
}
