//! Chooses the jobs that a plan evicts to start a waiting job; explains the choice, or why there is none.

use std::collections::BTreeSet;

use engine::compiled::{CompiledFleet, WorkloadId};
use engine::explain::{Explanation, UnblockChange};
use engine::explanations::WaitingFleet;
use engine::preempt::{self, Victim, Victims, evicted, evicted_for};
use engine::snapshot::{Reclaim, Snapshot, System, Within, Workload};
use engine::state::State;
use model::base::quantities::{counted, first_named};
use model::fleet::job::JobKey;
use model::plan::{Alternative, Evicted, JobName, Refusal, RefusalCode, evicted_words};

use super::competing_jobs::starts_without;
use super::victims::Sets;
use crate::effects::effect::Leaver;
use crate::planner_context;

/// The jobs to evict, and the explanation of the choice.
#[derive(Default)]
pub(crate) struct EvictionChoice {
    pub(crate) chosen: Vec<WorkloadId>,
    /// The same, by name.
    pub(crate) evicted: Vec<Evicted>,
    /// They are evicted for nodes, not for quota.
    pub(crate) for_nodes: bool,
    pub(crate) reasons: Vec<String>,
    pub(crate) alternatives: Vec<Alternative>,
}

/// Another choice is suggested where it loses less than this share of the known one's loss.
const MUCH_LESS: f64 = 0.75;

/// The victims of a known plan, and the work that they lose, device-milliseconds. `None` where one of them can no longer be
/// evicted, or where they equal `found`. Does not check whether the job then starts.
fn known_leavers(
    compiled: &CompiledFleet,
    known: &BTreeSet<JobName>,
    found: &BTreeSet<WorkloadId>,
) -> Option<(Vec<WorkloadId>, i64)> {
    let snapshot = &compiled.snapshot;
    let state = State::new(compiled);
    let leaver = |job: &JobName| {
        let works = &snapshot.workloads;
        let work = works.iter().position(|work| work.key.key == job.0)?;
        let holds = state.allocation(work).is_some();
        (holds && planner_context::can_stop(snapshot, work)).then_some(work)
    };
    let works: Vec<WorkloadId> = known.iter().map(leaver).collect::<Option<_>>()?;
    let lost_ms: i64 = works.iter().map(|work| state.lost_ms(*work)).sum();
    let is_same = works.iter().copied().collect::<BTreeSet<_>>() == *found;
    (!works.is_empty() && !is_same).then_some((works, lost_ms))
}

/// The victims that were found, or in their place those of a known plan.
pub(crate) fn kept(compiled: &CompiledFleet, found: Victims, known: &BTreeSet<JobName>) -> Victims {
    let works = found.list.iter().map(|victim| victim.work).collect();
    let Some(first) = found.list.first() else {
        return found;
    };
    let Some((works, lost_ms)) = known_leavers(compiled, known, &works) else {
        return found;
    };
    let state = State::new(compiled);
    let list = works.into_iter().map(|work| {
        let same = found.list.iter().find(|victim| victim.work == work);
        Victim {
            work,
            reason: same.unwrap_or(first).reason,
            lost_ms: state.lost_ms(work),
        }
    });
    Victims {
        list: list.collect(),
        lost_ms,
        proven: false,
        ..found
    }
}

/// The sets of jobs that could be evicted for one, by name: those that a plan may choose, and those that `explain` shows.
pub(crate) fn eviction_candidates(snapshot: &Snapshot, work: WorkloadId) -> Vec<BTreeSet<JobName>> {
    let around = WaitingFleet::around(snapshot, work);
    let mut state = State::new(&around.compiled);
    let sets = (!around.quota_reserved).then(|| Sets::of(&mut state, work));
    let sets = sets.flatten();
    let chosen = sets.iter().flat_map(|sets| sets.all(snapshot));
    let name = |victim: &Victim| planner_context::name(&snapshot.workloads[victim.work].key);
    let mut all: Vec<BTreeSet<JobName>> = chosen
        .map(|victims| victims.list.iter().map(name).collect())
        .collect();
    let explained = around.explain(work).explanation;
    let by_hand = explained.unblock.iter().chain(&explained.alternatives);
    let by_hand = by_hand.filter_map(|unblock| match &unblock.changes[..] {
        [UnblockChange::Preempt { jobs }] => Some(jobs.iter().cloned().collect()),
        _ => None,
    });
    for set in by_hand {
        if !all.contains(&set) {
            all.push(set);
        }
    }
    all
}

pub(crate) fn choose(
    snapshot: &Snapshot,
    work: WorkloadId,
    (allowed, known): (bool, &BTreeSet<JobName>),
) -> Result<EvictionChoice, Refusal> {
    let around = WaitingFleet::around(snapshot, work);
    let compiled = &around.compiled;
    let mut state = State::new(compiled);
    let job = &snapshot.workloads[work].key;
    let Some(sets) = Sets::of(&mut state, work) else {
        return Ok(EvictionChoice::default());
    };
    if let Err(refusal @ preempt::NoPreemption::Ending(_)) = &sets.cluster {
        let explained = around.explain(work).explanation;
        return Err(hopeless(snapshot, work, refusal, &explained));
    }
    let Some(picked) = sets.picked(snapshot) else {
        return match sets.any() {
            Ok(any) => {
                let sentence = format!("{job} needs the devices of jobs that cannot be suspended");
                Err(Refusal::new(RefusalCode::Unsupported, sentence)
                    .instead(format!("see what else helps: `explain job {job}`"))
                    .evicting(evicted(compiled, &any.list)))
            }
            Err(refusal) => {
                let explained = around.explain(work).explanation;
                match by_hand(compiled, (work, known), refusal, &explained) {
                    Some(choice) if allowed => Ok(choice),
                    Some(choice) => Err(only_by_evicting(job, choice.evicted)),
                    None => Err(hopeless(snapshot, work, refusal, &explained)),
                }
            }
        };
    };
    let found = picked;
    let picked = &kept(compiled, found.clone(), known);
    let list: Vec<WorkloadId> = picked.list.iter().map(|victim| victim.work).collect();
    let evicted = evicted(compiled, &picked.list);
    if !allowed {
        return Err(only_by_evicting(job, evicted));
    }
    let mut choice = EvictionChoice {
        chosen: list,
        evicted,
        for_nodes: sets.by_hand.is_some(),
        ..EvictionChoice::default()
    };
    choice
        .alternatives
        .extend(lesser((snapshot, work), found, picked.lost_ms));
    choice
        .reasons
        .push(format!("evicted for it: {}", lost_words(snapshot, picked)));
    if picked.proven {
        choice
            .reasons
            .push("this is the cheapest set to stop (all were tried)".to_owned());
    }
    Ok(choice)
}

/// The victims of a new choice, where they lose much less by now than those of the plan that was read, and suffice.
pub(crate) fn lesser(
    (snapshot, work): (&Snapshot, WorkloadId),
    found: &Victims,
    lost_ms: i64,
) -> Option<Alternative> {
    let is_much_less = (found.lost_ms as f64) < lost_ms as f64 * MUCH_LESS;
    let victims: Vec<WorkloadId> = found.list.iter().map(|victim| victim.work).collect();
    let helps = is_much_less && starts_without(snapshot, work, &victims);
    helps.then(|| Alternative {
        sentence: format!(
            "close this plan and make a new one: it would lose less work, {}",
            lost_words(snapshot, found)
        ),
        command: Some(format!(
            "plan admit {} --preempt",
            planner_context::name(&snapshot.workloads[work].key)
        )),
    })
}

/// `3 jobs, 8.1 device-hours of work lost`: the sum of what the plan shows of each.
pub(crate) fn lost_words(snapshot: &Snapshot, victims: &Victims) -> String {
    let lost = |victim: &Victim| Some(Leaver::whole(snapshot, victim.work)?.loss.tenths());
    let tenths: Option<u64> = victims.list.iter().filter_map(lost).sum();
    let lost = tenths.map_or(String::from("an unknown amount"), |tenths| {
        format!("{}.{} device-hours", tenths / 10, tenths % 10)
    });
    let jobs = counted(victims.list.len() as u64, "job");
    format!("{jobs}, {lost} of work lost")
}

fn only_by_evicting(job: &JobKey, evicted: Vec<Evicted>) -> Refusal {
    let sentence = format!(
        "{job} starts only if others are evicted: {}",
        evicted_words(&evicted)
    );
    Refusal::new(RefusalCode::Policy, sentence)
        .instead(format!("evict them: `plan admit {job} --preempt`"))
        .evicting(evicted)
}

/// The jobs that no queue would preempt for it but an operator may evict; `explain` names them.
fn by_hand(
    compiled: &CompiledFleet,
    (work, known): (WorkloadId, &BTreeSet<JobName>),
    refusal: &preempt::NoPreemption,
    explained: &Explanation,
) -> Option<EvictionChoice> {
    let snapshot = &compiled.snapshot;
    let mut all = explained.unblock.iter().chain(&explained.alternatives);
    let (unblock, jobs) = all.find_map(|unblock| match &unblock.changes[..] {
        [UnblockChange::Preempt { jobs }] => Some((unblock, jobs)),
        _ => None,
    })?;
    let works = jobs
        .iter()
        .map(|job| planner_context::find(snapshot, job).ok());
    let mut chosen: Vec<WorkloadId> = works.collect::<Option<_>>()?;
    let mut works = chosen.iter();
    if !works.all(|work| planner_context::can_stop(snapshot, *work)) {
        return None;
    }
    let mut evicted = unblock.victims.clone();
    let found = chosen.iter().copied().collect();
    if let (Some((works, _)), Some(first)) =
        (known_leavers(compiled, known, &found), evicted.first())
    {
        let state = State::new(compiled);
        let named = works.iter().map(|work| {
            let model = &snapshot.workloads[*work];
            evicted_for(model, &first.reason, state.lost_ms(*work))
        });
        evicted = named.collect();
        chosen = works;
    }
    let mut choice = EvictionChoice {
        reasons: vec![format!("evicted by this plan: {}", evicted_words(&evicted))],
        chosen,
        evicted,
        ..EvictionChoice::default()
    };
    if matches!(refusal, preempt::NoPreemption::Protected) {
        let whose = protected(snapshot, &snapshot.workloads[work]);
        choice.reasons.push(whose);
    }
    Some(choice)
}

/// Warning that the operator overrides the preemption policy of the queue for some of the victims.
pub(crate) fn overridden(
    snapshot: &Snapshot,
    work: WorkloadId,
    leave: &[WorkloadId],
) -> Option<String> {
    let model = &snapshot.workloads[work];
    let own = model.queue.as_ref()?;
    let mut queues = snapshot.queues.iter();
    let queue = queues.find(|queue| queue.name == *own)?;
    let within = queue.preemption.within;
    let spares = |other: &Workload| {
        let came_later = || other.created > model.created;
        !within.takes(model.priority, other.priority, came_later)
    };
    let spared: Vec<JobName> = leave
        .iter()
        .map(|other| &snapshot.workloads[*other])
        .filter(|other| other.queue == model.queue && spares(other))
        .map(|other| planner_context::name(&other.key))
        .collect();
    if spared.is_empty() {
        return None;
    }
    let policy = match within {
        Within::Never => "preempts none of its own jobs",
        Within::LowerPriority => "preempts only those of its jobs that have a lower priority",
        Within::LowerOrNewerEqual => {
            "preempts only those of its jobs that have a lower priority, or the same and are newer"
        }
    };
    Some(format!(
        "queue {} {policy}: {} would not be preempted by the queue, but this plan evicts {}",
        queue.name,
        first_named(&spared, 5),
        if spared.len() == 1 { "it" } else { "them" }
    ))
}

/// The refusal where no eviction starts the job: why, who decides that, and what else helps.
pub(crate) fn hopeless(
    snapshot: &Snapshot,
    work: WorkloadId,
    refusal: &preempt::NoPreemption,
    explained: &Explanation,
) -> Refusal {
    let model = &snapshot.workloads[work];
    let job = planner_context::name(&model.key);
    let (code, sentence) = match refusal {
        preempt::NoPreemption::Protected => (
            RefusalCode::Policy,
            format!(
                "nothing may be preempted for {job}: {}",
                protected(snapshot, model)
            ),
        ),
        preempt::NoPreemption::TooFew => (
            RefusalCode::Policy,
            format!(
                "preempting would not start {job}: the jobs that it may preempt would not free enough devices"
            ),
        ),
        preempt::NoPreemption::Ending(ending) => {
            let names = ending
                .iter()
                .map(|work| planner_context::name(&snapshot.workloads[*work].key));
            let names: Vec<JobName> = names.collect();
            let names = first_named(&names, 5);
            let are = if ending.len() == 1 { "is" } else { "are" };
            let sentence = format!(
                "{job} waits for {names}, which {are} being evicted already: nobody else has to go"
            );
            (RefusalCode::Infeasible, sentence)
        }
        preempt::NoPreemption::Needless | preempt::NoPreemption::Hopeless(_) => (
            RefusalCode::Infeasible,
            format!("preempting cannot start {job}: {}", explained.reason),
        ),
    };
    let mut out = Refusal::new(code, sentence);
    for unblock in explained.unblock.iter().chain(&explained.alternatives) {
        let command = match &unblock.changes[..] {
            [one] => one.command(&job),
            _ => None,
        };
        out = out.instead(match command {
            Some(command) => format!("{}: `{command}`", unblock.sentence),
            None => unblock.sentence.clone(),
        });
    }
    out
}

/// What protects running jobs from preemption, and who decides that.
fn protected(snapshot: &Snapshot, model: &Workload) -> String {
    let own = model.queue.as_ref();
    let queue = snapshot
        .queues
        .iter()
        .find(|queue| Some(&queue.name) == own);
    let Some(queue) = queue else {
        return "no job of lower priority has the devices that it needs".to_owned();
    };
    let kueue = queue.system == System::Kueue;
    let within = match (queue.preemption.within, kueue) {
        (Within::Never, true) => "does not preempt its own jobs (withinClusterQueue: Never)",
        (Within::Never, false) => "does not preempt its own jobs",
        _ => "has no job of lower priority with the devices that it needs",
    };
    let around = match (queue.preemption.reclaim, kueue) {
        _ if queue.parent.is_none() => "is in no cohort",
        (Reclaim::Never, true) => "reclaims nothing (reclaimWithinCohort: Never)",
        (Reclaim::Never, false) => "reclaims nothing from others",
        _ => "has nothing to reclaim from others for it",
    };
    format!(
        "queue {} {within}, and {around}; the queue's administrator decides that",
        queue.name
    )
}
