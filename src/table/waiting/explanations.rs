//! The engine's explanation of waiting work: why it waits, what unblocks it, its estimated start, and what would have to be
//! preempted for it to start now.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use engine::compiled::{CompiledFleet, WorkloadId};
use engine::explain::{StartState, Unblock, UnblockChange};
use engine::explanations::{WaitingFleet, WorkloadExplanation};
use engine::live;
use engine::preempt::{self, Victims};
use engine::snapshot::Snapshot;
use engine::state::State;
use model::advice::Advice;
use model::base::quantities::{counted, first_named};
use model::base::{Moment, Name, Rate, SmallSort};
use model::cost::{Money, SpendRates};
use model::fleet::Fleet;
use model::fleet::job::JobKey;
use model::plan::{Evicted, Intent, JobName};
use plan::Author;

use crate::pool_advice;

/// Preemption is computed for this many of the longest-waiting jobs.
const ASKED: usize = 12;

/// The jobs that the plan for an immediate start would preempt.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Now {
    /// The victims, in the order of the plan.
    pub jobs: Vec<JobName>,
    /// Lost work, device-milliseconds.
    pub lost_ms: i64,
    /// Cost of the lost work; `None` where a victim has no price.
    pub lost: Option<Money>,
    /// True when every set was searched and no smaller loss exists.
    pub proven: bool,
    /// True when none of the victims has a pod on a node: they give back reserved quota, and no devices.
    pub only_quota: bool,
}

/// The number of victims that are named.
const NAMED: usize = 4;

/// `4 jobs ($212 lost): ml/a, ml/b, ml/c, ml/d`; at most 4 victims are named.
pub fn named_victims(now: &Now) -> String {
    format!("{}: {}", victims_words(now), first_named(&now.jobs, NAMED))
}

/// `4 jobs ($212 lost)`.
pub fn victims_words(now: &Now) -> String {
    let jobs = counted(now.jobs.len() as u64, "job");
    if now.only_quota {
        return format!("{jobs} (no devices allocated: quota is released)");
    }
    match now.lost {
        Some(lost) => format!("{jobs} ({} lost)", lost.dollars()),
        None => {
            let hours = now.lost_ms as f64 / 3_600_000.0;
            format!("{jobs} ({hours:.1} device-hours lost)")
        }
    }
}

/// The explanation of one job.
#[derive(Clone, PartialEq, Debug)]
pub struct JobExplanation {
    /// Reason, what unblocks it, and estimated start.
    pub answer: WorkloadExplanation,
    /// What an immediate start would preempt; `None` where preemption is not possible or was not computed.
    pub now: Option<Now>,
}

impl JobExplanation {
    /// The explanation of one job of a snapshot, which is of this fleet.
    pub fn of(fleet: &Fleet, burn: &SpendRates, snapshot: &Snapshot, work: WorkloadId) -> Self {
        let around = WaitingFleet::around(snapshot, work);
        let mut out = Self {
            answer: around.explain(work),
            now: None,
        };
        if out.answer.explanation.state == StartState::Waiting {
            let intent = Intent::Admit {
                job: out.answer.explanation.job.clone(),
                preempt: true,
            };
            let is_planned = plan::plan(snapshot, &intent, &Author::default()).is_ok();
            let mut state = State::new(&around.compiled);
            out.as_planned((fleet, burn), &around, &mut state, &|victims| {
                is_planned && plan::starts_without(snapshot, work, victims)
            });
        }
        out
    }

    /// Adds what an immediate start would preempt, and keeps only the unblocking changes that the plan for that start would apply.
    /// Evictions by hand are offered where no queue preempts for the job (otherwise `now` names the plan's victims). `starts` says
    /// whether the job starts once these are evicted. Nothing is concluded from a fleet that is not visible as a whole.
    fn as_planned(
        &mut self,
        (fleet, burn): (&Fleet, &SpendRates),
        around: &WaitingFleet<'_>,
        state: &mut State<'_>,
        starts: &dyn Fn(&[WorkloadId]) -> bool,
    ) {
        let explanation = &mut self.answer.explanation;
        let key = JobKey {
            key: explanation.job.0.clone(),
            kind: explanation.kind.clone(),
        };
        let compiled = &around.compiled;
        let Some(work) = compiled
            .work(&key)
            .filter(|_| around.whole.not_visible.is_empty())
            .filter(|work| compiled.workload(*work).not_forecast.is_none())
        else {
            return;
        };
        // Victim sets that the plan would refuse are skipped.
        let starts_without = |victims: &Victims| {
            let works: Vec<_> = victims.list.iter().map(|it| it.work).collect();
            starts(&works)
        };
        let victims = match around.quota_reserved {
            true => plan::leavers_of_nodes(state, work, &starts_without),
            false => plan::leavers(state, work, &starts_without),
        };
        self.now = victims.map(|victims| now_of(fleet, burn, compiled, &victims));
        let is_preempted = self.now.is_some();
        explanation.offers(|unblock| {
            preempted(unblock).is_none_or(|jobs| {
                let works = around.whole.workloads.iter().enumerate();
                let named =
                    works.filter(|(_, other)| jobs.iter().any(|job| job.0 == other.key.key));
                let works: Vec<_> = named.map(|(at, _)| at).collect();
                !is_preempted && starts(&works)
            })
        });
    }

    /// The jobs that the plan for its start preempts, where known.
    pub fn victims(&self) -> BTreeSet<JobName> {
        let explanation = &self.answer.explanation;
        let mut changes = explanation.unblock.iter().chain(&explanation.alternatives);
        let by_hand = || changes.find_map(preempted);
        let all = self.now.as_ref().map(|now| &now.jobs).or_else(by_hand);
        all.into_iter().flatten().cloned().collect()
    }
}

/// The jobs that a change preempts, where the change does nothing else.
fn preempted(unblock: &Unblock) -> Option<&Vec<JobName>> {
    match &unblock.changes[..] {
        [UnblockChange::Preempt { jobs }] => Some(jobs),
        _ => None,
    }
}

/// Explanations of all waiting jobs, from one snapshot.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct JobExplanations {
    /// The moment of that snapshot; `None` before the first result.
    pub at: Option<Moment>,
    pub jobs: BTreeMap<JobKey, JobExplanation>,
    /// Advice on growing or shrinking pools.
    pub pools: Arc<[Advice]>,
}

impl JobExplanations {
    /// Runs the engine. Takes long on a fleet of thousands of nodes: call it outside every loop.
    pub fn of(fleet: &Fleet, burn: &SpendRates) -> Self {
        let snapshot = live::snapshot(fleet, burn);
        let parts = WaitingFleet::parts(&snapshot);
        let jobs = parts
            .flat_map(|part| explained(fleet, burn, &part))
            .collect();
        Self {
            at: Some(fleet.at),
            jobs,
            pools: Arc::default(),
        }
    }

    /// Adds advice on pools; takes about as long again. Nodes in `spared` are never advised for removal.
    #[must_use]
    pub fn with_pools(self, fleet: &Fleet, burn: &SpendRates, spared: &BTreeSet<Name>) -> Self {
        let snapshot = live::snapshot(fleet, burn);
        Self {
            pools: pool_advice::advise(fleet, &snapshot, spared),
            ..self
        }
    }

    /// The jobs that the plan for a job's start preempts, where known.
    pub fn victims_of(&self, job: &JobName) -> BTreeSet<JobName> {
        let mut all = self.jobs.iter();
        all.find(|(key, _)| key.key == job.0)
            .map_or_else(BTreeSet::new, |(_, job)| job.victims())
    }

    /// The explanation of one job.
    pub fn job(&self, key: &JobKey) -> Option<&JobExplanation> {
        self.jobs.get(key)
    }
}

/// The explanations of a part of the waiting jobs; those of the longest-waiting ones with what an immediate start would preempt.
fn explained(
    fleet: &Fleet,
    burn: &SpendRates,
    part: &WaitingFleet<'_>,
) -> BTreeMap<JobKey, JobExplanation> {
    let answers = part.explain_all().into_iter();
    let without_victims = |(key, answer)| (key, JobExplanation { answer, now: None });
    let mut jobs: BTreeMap<JobKey, JobExplanation> = answers.map(without_victims).collect();
    let by_hand = jobs.iter().filter(|(_, job)| !job.victims().is_empty());
    let by_hand = by_hand.map(|(key, _)| key.clone());
    let asked: BTreeSet<JobKey> = by_hand.chain(longest(fleet)).collect();
    let mut state = State::new(&part.compiled);
    for key in asked {
        let (Some(job), Some(work)) = (jobs.get_mut(&key), part.compiled.work(&key)) else {
            continue;
        };
        job.as_planned((fleet, burn), part, &mut state, &|victims| {
            plan::starts_without(part.whole, work, victims)
        });
    }
    jobs
}

fn now_of(fleet: &Fleet, burn: &SpendRates, compiled: &CompiledFleet, victims: &Victims) -> Now {
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
        only_quota: preempt::evicted(compiled, &victims.list)
            .iter()
            .all(Evicted::only_releases_quota),
    }
}

fn longest(fleet: &Fleet) -> Vec<JobKey> {
    let mut all: Vec<_> = fleet
        .jobs
        .iter()
        .filter(|job| job.state == model::fleet::job::JobState::Waiting)
        .map(|job| (crate::rows::jobs::first_waited(job), &job.id))
        .collect();
    all.small_sort();
    all.truncate(ASKED);
    all.into_iter().map(|(_, key)| key.clone()).collect()
}

/// The cost of device-milliseconds of a running job at its current rate.
pub(super) fn money_of(
    fleet: &Fleet,
    burn: &SpendRates,
    key: &JobKey,
    lost_ms: i64,
) -> Option<Money> {
    let (spend, _) = burn.jobs.get(key)?;
    let devices = i128::from(fleet.job(key)?.devices_allocated).max(1);
    let is_by_list = spend.rate.is_by_list();
    let micros = i128::from(spend.rate.all.micros()) * i128::from(lost_ms) / devices / 3_600_000;
    let all = Rate::from_micros(i64::try_from(micros).ok()?);
    Some(Money::with_source(all, is_by_list))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn only_waiting_jobs_are_explained() {
        let facts = sample::facts();
        let answers = JobExplanations::of(&facts.fleet, &facts.spend_rates);
        assert_eq!(answers.at, Some(facts.fleet.at));
        for job in facts.fleet.jobs.iter() {
            let waits = job.state == model::fleet::job::JobState::Waiting;
            assert!(answers.job(&job.id).is_some() || !waits, "{}", job.id);
        }
    }

    #[test]
    fn a_job_alone_is_explained_as_among_all() {
        let facts = sample::facts();
        let (fleet, burn) = (&facts.fleet, &facts.spend_rates);
        let snapshot = live::snapshot(fleet, burn);
        let all = JobExplanations::of(fleet, burn).jobs;
        assert!(!all.is_empty(), "some wait");
        for (key, among_all) in &all {
            let mut works = snapshot.workloads.iter();
            let work = works.position(|work| work.key == *key).expect("there");
            let alone = JobExplanation::of(fleet, burn, &snapshot, work);
            assert_eq!(alone, *among_all, "{key}");
        }
    }

    #[test]
    fn lost_work_costs_what_its_devices_cost() {
        let facts = sample::facts();
        let (key, (spend, _)) = facts
            .spend_rates
            .jobs
            .iter()
            .next()
            .expect("somebody burns");
        let devices = i64::from(facts.fleet.job(key).expect("there").devices_allocated);
        let hour = 3_600_000 * devices;
        let money = money_of(&facts.fleet, &facts.spend_rates, key, hour).expect("has a price");
        assert_eq!(money.all, spend.rate.all, "an hour of all its devices");
    }
}
