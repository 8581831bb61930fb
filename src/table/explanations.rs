//! What the engine says of the work that waits: why, what would start it, when it starts by itself, and who would have to go
//! for it to start now.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use engine::compiled::{CompiledFleet, WorkloadId};
use engine::explain::{Change, Explainer, Explanation, Unblock};
use engine::explanations::{self, Answer};
use engine::live;
use engine::options;
use engine::preempt::Victims;
use engine::snapshot::{Snapshot, Status};
use engine::state::State;
use model::advice::Advice;
use model::base::quantities::{counted, first_named};
use model::base::{Moment, Name, Rate, SmallSort};
use model::cost::Burn;
use model::fleet::Fleet;
use model::fleet::job::JobKey;
use model::plan::JobName;

use super::pool_advice;

/// For so many of those that have waited longest it is asked who would have to go.
const ASKED: usize = 12;

/// Who would have to go so that a job could start now, as the plan that starts it has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Now {
    /// They, in the order of the plan.
    pub jobs: Vec<JobName>,
    /// Device-milliseconds of work that would be done again.
    pub lost_ms: i64,
    /// What that work cost; unknown where one of them has no price.
    pub lost: Option<Rate>,
    /// No smaller loss does: every set was looked at.
    pub proven: bool,
}

/// So many victims are named.
const NAMED: usize = 4;

/// `4 jobs ($212 lost): ml/a, ml/b, ml/c, ml/d`, where there is room for names.
pub fn named_victims(now: &Now) -> String {
    format!("{}: {}", victims_words(now), first_named(&now.jobs, NAMED))
}

/// `4 jobs ($212 lost)`.
pub fn victims_words(now: &Now) -> String {
    let jobs = counted(now.jobs.len() as u64, "job");
    match now.lost {
        Some(lost) => format!("{jobs} (${lost} lost)"),
        None => {
            let hours = now.lost_ms as f64 / 3_600_000.0;
            format!("{jobs} ({hours:.1} device-hours lost)")
        }
    }
}

/// What is said of one job.
#[derive(Clone, PartialEq, Debug)]
pub struct JobExplanation {
    /// Why, what helps, and when.
    pub answer: Answer,
    /// Who would have to go; `None` where nobody may be taken, or nobody has asked.
    pub now: Option<Now>,
}

impl JobExplanation {
    /// Whom the plan that starts it takes off their devices, as far as that is known.
    pub fn victims(&self) -> BTreeSet<JobName> {
        let explanation = &self.answer.explanation;
        let mut changes = explanation.unblock.iter().chain(&explanation.alternatives);
        let by_hand = || changes.find_map(preempted);
        let all = self.now.as_ref().map(|now| &now.jobs).or_else(by_hand);
        all.into_iter().flatten().cloned().collect()
    }
}

/// The jobs that a change takes off their devices, where it is no more than that.
fn preempted(unblock: &Unblock) -> Option<&Vec<JobName>> {
    match &unblock.changes[..] {
        [Change::Preempt { jobs }] => Some(jobs),
        _ => None,
    }
}

/// Keeps of the changes that would start a job those that the plan that starts it would do: whom an operator may evict by hand is
/// told where no queue preempts for it (`now` says whom the plan takes then), and where it starts once they have gone.
pub fn as_planned(
    explanation: &mut Explanation,
    now: Option<&Now>,
    starts: impl Fn(&[JobName]) -> bool,
) {
    explanation
        .offers(|unblock| preempted(unblock).is_none_or(|jobs| now.is_none() && starts(jobs)));
}

/// What is said of all that wait, of one picture of the fleet.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct JobExplanations {
    /// The fleet's moment that they are of; `None` as long as there is no answer.
    pub at: Option<Moment>,
    /// By job.
    pub jobs: BTreeMap<JobKey, JobExplanation>,
    /// Which pools to make larger or smaller.
    pub pools: Arc<[Advice]>,
}

impl JobExplanations {
    /// Asks the engine. On a fleet of thousands of nodes this takes long: it belongs off every loop.
    pub fn of(fleet: &Fleet, burn: &Burn) -> Self {
        let snapshot = live::snapshot(fleet, burn);
        let quota_reserved = snapshot
            .workloads
            .iter()
            .filter(|work| explanations::has_reserved_quota(work));
        let quota_reserved: Vec<_> = quota_reserved.cloned().collect();
        let beyond = (!quota_reserved.is_empty()).then(|| explanations::past_queues(&snapshot));
        let quota_reserved: Vec<_> = quota_reserved
            .into_iter()
            .map(|work| (options::used(&snapshot, Some(&work)), work))
            .collect();
        let whole = snapshot.clone();
        let mut jobs = told(fleet, burn, (snapshot, &whole), plan::leavers);
        if let Some(beyond) = beyond {
            let mut more = told(fleet, burn, (beyond, &whole), plan::leavers_of_nodes);
            for (used, work) in quota_reserved {
                if let Some(mut told) = more.remove(&work.key) {
                    explanations::say_let_in(&mut told.answer.explanation, &work);
                    told.answer.options = used;
                    jobs.insert(work.key.clone(), told);
                }
            }
        }
        Self {
            at: Some(fleet.at),
            jobs,
            pools: Arc::default(),
        }
    }

    /// The same with which pools to make larger or smaller; this takes as long again. No node of `spared` is advised away.
    #[must_use]
    pub fn with_pools(self, fleet: &Fleet, burn: &Burn, spared: &BTreeSet<Name>) -> Self {
        let snapshot = live::snapshot(fleet, burn);
        Self {
            pools: pool_advice::advise(fleet, &snapshot, spared),
            ..self
        }
    }

    /// Whom the plan that starts a job takes off their devices, as far as that is known.
    pub fn victims_of(&self, job: &JobName) -> BTreeSet<JobName> {
        let mut all = self.jobs.iter();
        all.find(|(key, _)| key.key == job.0)
            .map_or_else(BTreeSet::new, |(_, told)| told.victims())
    }

    /// What is said of a job.
    pub fn job(&self, key: &JobKey) -> Option<&JobExplanation> {
        self.jobs.get(key)
    }
}

/// What is said of all that wait in a picture, which is the `whole` one or of a part of who waits.
fn told(
    fleet: &Fleet,
    burn: &Burn,
    (snapshot, whole): (Snapshot, &Snapshot),
    leavers: fn(&mut State<'_>, WorkloadId) -> Option<Victims>,
) -> BTreeMap<JobKey, JobExplanation> {
    let compiled = CompiledFleet::new(snapshot);
    let mut state = State::new(&compiled);
    let mut explainer = Explainer::new(&compiled);
    let mut starts = explainer.forecast();
    let all = explainer.explain_all();
    let mut jobs: BTreeMap<JobKey, JobExplanation> = BTreeMap::new();
    let mut asked = 0;
    for (work, explanation) in all {
        let start = starts.remove(&work);
        let key = &compiled.workload(work).key;
        let answer = Answer::new(explanation, start, compiled.snapshot.at)
            .looking_later(&compiled.snapshot, key, &mut asked)
            .decided_by(&compiled.snapshot, work);
        let told = JobExplanation { answer, now: None };
        jobs.insert(key.clone(), told);
    }
    let all_visible = compiled.snapshot.not_visible.is_empty();
    let longest = longest(fleet);
    let by_hand = jobs.iter().filter(|(_, told)| !told.victims().is_empty());
    let asked: BTreeSet<JobKey> = by_hand
        .map(|(key, _)| key.clone())
        .chain(longest)
        .filter(|_| all_visible)
        .collect();
    for key in asked {
        let (Some(told), Some(work)) = (jobs.get_mut(&key), compiled.work(&key)) else {
            continue;
        };
        // What the plan would refuse is not offered.
        told.now = leavers(&mut state, work)
            .filter(|victims| {
                let victims: Vec<_> = victims.list.iter().map(|it| it.work).collect();
                plan::starts_without(whole, work, &victims)
            })
            .map(|victims| now_of(fleet, burn, &compiled, &victims));
        as_planned(&mut told.answer.explanation, told.now.as_ref(), |jobs| {
            let works = whole.workloads.iter().enumerate();
            let named = works.filter(|(_, other)| jobs.iter().any(|job| job.0 == other.key.key));
            let victims: Vec<_> = named.map(|(at, _)| at).collect();
            plan::starts_without(whole, work, &victims)
        });
    }
    jobs
}

fn now_of(fleet: &Fleet, burn: &Burn, compiled: &CompiledFleet, victims: &Victims) -> Now {
    let lost = victims.list.iter().map(|victim| {
        let key = &compiled.workload(victim.work).key;
        money_of(fleet, burn, key, victim.lost_ms)
    });
    let jobs = victims.list.iter();
    Now {
        jobs: jobs
            .map(|victim| JobName(compiled.workload(victim.work).key.key.clone()))
            .collect(),
        lost_ms: victims.lost_ms,
        lost: lost.sum(),
        proven: victims.proven,
    }
}

/// Who would have to go so that one job could start now; `None` where nobody may be taken, where it does not wait, and where
/// not all may be seen.
pub fn now(fleet: &Fleet, burn: &Burn, snapshot: &Snapshot, job: &JobKey) -> Option<Now> {
    let work = snapshot.workloads.iter().find(|work| work.key == *job)?;
    let has_quota = explanations::has_reserved_quota(work);
    if !snapshot.not_visible.is_empty() || !(has_quota || work.status == Status::Waiting) {
        return None;
    }
    let compiled = CompiledFleet::new(match has_quota {
        true => explanations::past_queues(snapshot),
        false => snapshot.clone(),
    });
    let work = compiled.work(job)?;
    let mut state = State::new(&compiled);
    let victims = match has_quota {
        true => plan::leavers_of_nodes(&mut state, work),
        false => plan::leavers(&mut state, work),
    };
    Some(now_of(fleet, burn, &compiled, &victims?))
}

/// Those that have waited longest.
fn longest(fleet: &Fleet) -> Vec<JobKey> {
    let mut all: Vec<_> = fleet
        .jobs
        .iter()
        .filter(|job| job.state == model::fleet::job::JobState::Waiting)
        .map(|job| (job.waiting_since.unwrap_or(job.created), &job.id))
        .collect();
    all.small_sort();
    all.truncate(ASKED);
    all.into_iter().map(|(_, key)| key.clone()).collect()
}

/// What device-milliseconds of a running job cost, by what its devices cost now.
fn money_of(fleet: &Fleet, burn: &Burn, key: &JobKey, lost_ms: i64) -> Option<Rate> {
    let (spend, _) = burn.jobs.get(key)?;
    let devices = i128::from(fleet.job(key)?.devices_allocated).max(1);
    let micros = i128::from(spend.burn.micros()) * i128::from(lost_ms) / devices / 3_600_000;
    Some(Rate::from_micros(i64::try_from(micros).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn what_waits_is_told_why_and_nothing_else_is_told_of() {
        let facts = sample::facts();
        let answers = JobExplanations::of(&facts.fleet, &facts.burn);
        assert_eq!(answers.at, Some(facts.fleet.at));
        for job in facts.fleet.jobs.iter() {
            let waits = job.state == model::fleet::job::JobState::Waiting;
            assert!(answers.job(&job.id).is_some() || !waits, "{}", job.id);
        }
    }

    #[test]
    fn lost_work_costs_what_its_devices_cost() {
        let facts = sample::facts();
        let (key, (spend, _)) = facts.burn.jobs.iter().next().expect("somebody burns");
        let devices = i64::from(facts.fleet.job(key).expect("there").devices_allocated);
        let hour = 3_600_000 * devices;
        let money = money_of(&facts.fleet, &facts.burn, key, hour).expect("has a price");
        assert_eq!(money, spend.burn, "an hour of all its devices");
    }
}
