//! `run-interrupted`: a run has suspended jobs, was to resume them, and does not: its process ended, it was stopped, it failed, or
//! the time by which it was to resume them is over.

use std::collections::BTreeMap;

use model::base::quantities::counted;
use model::base::{Moment, Name, ObjectKey};
use model::fleet::fleet::TableState;
use model::fleet::run_hold::OpenRun;

use crate::checks::context::{CheckContext, FindingDraft, subject};
use crate::checks::{Check, CheckWalk, Verdict};

pub(crate) const CHECK: Check = Check {
    code: "run-interrupted",
    walk: CheckWalk::Fleet(check_fleet),
};

/// So many jobs are named.
const NAMED: usize = 3;

/// What a run holds.
#[derive(Default)]
struct Held<'a> {
    jobs: Vec<&'a ObjectKey>,
    since: Option<Moment>,
    /// The latest end that the jobs state, and the user who carries the run out.
    stated: Option<(Moment, &'a Name)>,
    /// As the journal of this machine has it.
    open: Option<&'a OpenRun>,
}

fn check_fleet(context: &mut CheckContext<'_>) {
    let fleet = context.fleet;
    let mut runs: BTreeMap<&Name, Held<'_>> = BTreeMap::new();
    for open in fleet.open_runs.iter() {
        runs.entry(&open.run).or_default().open = Some(open);
    }
    for job in fleet.jobs.iter() {
        if let Some(hold) = job.held.as_deref() {
            let held = runs.entry(&hold.run).or_default();
            held.jobs.push(&job.id.key);
            held.since = Some(held.since.map_or(hold.since, |since| since.min(hold.since)));
            let until = held
                .stated
                .map_or(hold.until, |(until, _)| until.max(hold.until));
            held.stated = Some((until, &hold.by));
        } else if let Some(open) = fleet.open_run_of(job) {
            let held = runs.entry(&open.run).or_default();
            held.jobs.push(&job.id.key);
            held.since = Some(held.since.map_or(open.since, |since| since.min(open.since)));
        }
    }
    for (run, held) in runs {
        let is_late = held.stated.is_some_and(|(until, _)| until < context.now);
        // What a run has suspended may not be visible, or not any more.
        let is_hidden = |open: &OpenRun| {
            let is_there = |key: &ObjectKey| fleet.jobs.iter().any(|job| job.id.key == *key);
            !fleet.known.values().all(TableState::is_known) && !open.jobs.iter().all(is_there)
        };
        let has_jobs = !held.jobs.is_empty();
        let verdict = match held.open {
            Some(open) if !has_jobs && is_hidden(open) => Verdict::Unknown,
            open => Verdict::when(Some(has_jobs && (open.is_some() || is_late))),
        };
        context.report_with_start(run, verdict, held.since, |_| {
            let names: Vec<String> = held.jobs.iter().map(ToString::to_string).collect();
            let (jobs, them) = match names.as_slice() {
                [one] => (format!("{one} is suspended"), "it"),
                all if all.len() <= NAMED => (format!("{} are suspended", all.join(", ")), "them"),
                all => (
                    format!("{} are suspended", counted(all.len() as u64, "job")),
                    "them",
                ),
            };
            let (why, repair) = match (held.open, held.stated) {
                (Some(open), _) => (format!("{}'s run {}", open.by, open.fate()), open.repair()),
                (None, Some((until, by))) => (
                    format!(
                        "{by}'s run should have resumed {them} by {}",
                        until.rfc3339()
                    ),
                    format!("undo it: `stokehold plan undo {run} --apply`"),
                ),
                (None, None) => (String::new(), String::new()),
            };
            FindingDraft::new(subject("Run", run), format!("{jobs}: {why}"), repair)
        });
    }
}
