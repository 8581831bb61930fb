//! A team: its budgets, its jobs, the longest waits and the latest failures among them.

use crate::painter::Painter;
use crate::view::cost_history::budget_words;
use model::base::Name;
use model::fleet::job::{Job, JobState};
use table::role::Role;
use table::rows::jobs::{class_words, failed_latest_first};
use table::waiting;
use table::{Facts, Scope, budgets};

use super::Description;

/// The number of waiting and of failed jobs that are listed; the rest are counted.
const MOST: usize = 4;

pub(super) fn lines(
    table: &mut Description,
    facts: &Facts,
    name: &Name,
    painter: &mut Painter<'_>,
) {
    let scope = Scope {
        team: Some(name.clone()),
        ..Scope::default()
    };
    for state in facts
        .budgets()
        .filter(|state| budgets::is_of(&scope, &state.budget.scope))
    {
        let (words, role) = budget_words(state, facts.now);
        table.words("budget", words, role);
    }
    let is_own = |job: &&Job| job.team == *name && facts.has_job(job);
    // Jobs that are terminating have their devices still.
    let states: [&[JobState]; 5] = [
        &[JobState::Running, JobState::Finishing],
        &[JobState::Starting],
        &[JobState::Waiting],
        &[JobState::Suspended],
        &[JobState::Failed],
    ];
    let jobs = || facts.fleet.jobs.iter().map(|job| &**job).filter(is_own);
    let counts = states.iter().filter_map(|states| {
        let count = jobs().filter(|job| states.contains(&job.state)).count();
        (count > 0).then(|| format!("{count} {}", states[0].name()))
    });
    let counts: Vec<String> = counts.collect();
    if !counts.is_empty() {
        table.words("jobs", counts.join(", "), Role::Text);
    }
    let waiting = waiting::longest_first(facts);
    let waiting = waiting
        .iter()
        .filter_map(|at| facts.fleet.jobs.get(*at as usize));
    let waiting: Vec<&Job> = waiting.map(|job| &**job).filter(is_own).collect();
    for job in waiting.iter().take(MOST) {
        let age = painter.age(job.waiting_since.unwrap_or(job.created));
        let class = class_words(job).unwrap_or_default();
        let (key, devices) = (&job.id.key, job.devices_requested);
        let why = waiting::why(facts, job);
        table.words(
            "waiting",
            format!("{key} · {devices} {class} · {age} · {why}"),
            Role::Text,
        );
    }
    more(table, waiting.len());
    let mut failed = failed_latest_first(facts);
    failed.retain(is_own);
    for job in failed.iter().take(MOST) {
        let words = format!("{} · {}", job.id.key, waiting::why(facts, job));
        table.words("failed", words, Role::Crit);
    }
    more(table, failed.len());
}

/// Counts what is not listed.
fn more(table: &mut Description, all: usize) {
    if all > MOST {
        table.words("", format!("+{} more", all - MOST), Role::Muted);
    }
}
