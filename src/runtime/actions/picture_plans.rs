//! Plans that are made from the picture of the fleet alone.

use engine::live;
use exec::blocking;
use exec::target_reader::Unseen;
use model::fleet::job::JobKey;
use model::plan::{Intent, KnownVictims, Plan, Refusal};
use plan::{Author, scale};
use table::Facts;
use table::actions::opens_faulty;

/// The plan for an intent that needs only the snapshot of the fleet, with warnings about what is not known;
/// `known` as for [`plan::plan_again`].
///
/// # Errors
/// The plan is refused, or the facts that it needs are not known.
pub(crate) fn plan_on(
    facts: &Facts,
    intent: &Intent,
    known: &KnownVictims,
    author: &Author,
) -> Result<Plan, Unseen> {
    let gaps = table::gaps(facts).map_err(Unseen::Failed)?;
    let fleet = live::snapshot(&facts.fleet, &facts.spend_rates);
    scale::check_owner(&fleet, intent, &facts.fleet.scaling)?;
    let mut plan = plan::plan_again(&fleet, intent, author, known)?;
    plan.warnings.extend(gaps);
    let faulty = opens_faulty(&facts.fleet.findings, &plan);
    plan.warnings.extend(faulty);
    Ok(plan)
}

/// The plan that resumes what a run holds, by what the jobs state; `None` where none states it.
pub(crate) fn end_holds(facts: &Facts, run: &str) -> Option<Result<Plan, Refusal>> {
    let jobs = facts.fleet.jobs.iter().filter(|job| {
        let hold = job.held.as_ref();
        hold.is_some_and(|hold| hold.run.as_str() == run)
    });
    let keys: Vec<&JobKey> = jobs.map(|job| &job.id).collect();
    let snapshot = || live::snapshot(&facts.fleet, &facts.spend_rates);
    (!keys.is_empty()).then(|| blocking(|| plan::end_holds(&snapshot(), run, &keys)))
}
