//! Admit: starts a waiting job now. Only its queue can admit a job, so the job's priority is raised, the jobs in its way are
//! stopped until it has its quota, and then they are requeued.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;

use engine::compiled::WorkloadId;
use engine::explanations::{self, WaitingFleet};
use engine::forecast;
use engine::preempt::{evicted, evicted_for};
use engine::snapshot::{Snapshot, Status, System, Workload};
use engine::state::State;
use model::base::quantities::first_named;
use model::base::{Moment, SmallSort};
use model::fleet::job::JobKey;
use model::plan::{
    Alternative, Evicted, Intent, JobName, KnownVictims, Plan, PlanEffect, Refusal, RefusalCode,
    Undo, Until, Wait, WaitOrder, evicted_words,
};

use super::effects::effect::{Leaver, Picture, Then, compare, news};
use super::evictions::choice::{self, EvictionChoice, choose, hopeless, kept, lesser, lost_words};
use super::evictions::competing_jobs::Rivals;
use super::evictions::victims::seat_victims;
use super::hold::already;
use super::planner_context::{self, fact};
use super::priority_raise::{Raise, lift, put_back};

/// How long stopped jobs stay away after the job has its quota, seconds, so that their pods can end and its pods start.
const HEAD_START: u64 = 120;

/// The plan that starts a waiting job; evicts others where `preempt` allows. Keeps the victims of a plan that was already read as
/// long as that works. Otherwise takes the victims with the least lost work, of the sets shown elsewhere and a new choice. Where
/// other jobs would take what that choice frees, tries the other sets shown for the job.
///
/// # Errors
/// The job does not wait, nothing can start it, or its backend does not support it.
pub(super) fn plan(
    snapshot: &Snapshot,
    job: &JobName,
    preempt: bool,
    known: &KnownVictims,
) -> Result<Plan, Refusal> {
    let none = BTreeSet::new();
    let as_known = || with(snapshot, job, preempt, &known.jobs).ok();
    if known.is_read
        && !known.jobs.is_empty()
        && let Some(plan) = as_known()
    {
        return Ok(plan);
    }
    let anew = with(snapshot, job, preempt, &none);
    let takes_them =
        |plan: &Plan| plan.stops().collect::<BTreeSet<_>>() == known.jobs.iter().collect();
    // The shown set is usually the same as the new choice, and planning takes time.
    let is_another =
        !known.is_read && !known.jobs.is_empty() && !anew.as_ref().is_ok_and(takes_them);
    let shown = is_another.then(as_known).flatten();
    let best = match (anew, shown) {
        (Ok(anew), Some(shown)) => Ok(match (lost_work(&shown), lost_work(&anew)) {
            (Some(shown_loss), Some(least)) if shown_loss < least => shown,
            _ => anew,
        }),
        (Err(_), Some(shown)) => Ok(shown),
        (anew, None) => anew,
    };
    let refusal = match best {
        Err(refusal) if is_of_victims(&refusal) => refusal,
        best => return best,
    };
    let work = planner_context::find(snapshot, job)?;
    let mut sets = choice::eviction_candidates(snapshot, work);
    if preempt {
        let refused: BTreeSet<JobName> = refusal.victims.iter().map(|it| it.job.clone()).collect();
        sets.retain(|set| *set != refused);
    }
    let mut plans = sets
        .iter()
        .filter_map(|set| with(snapshot, job, true, set).ok());
    match plans.next() {
        Some(plan) if preempt => Ok(plan),
        // Only victims whose plan works are named.
        Some(plan) => with(snapshot, job, false, &plan.stops().cloned().collect()),
        None if preempt => Err(refusal),
        None => with(snapshot, job, true, &none),
    }
}

/// True for a refusal that depends on the choice of victims.
fn is_of_victims(refusal: &Refusal) -> bool {
    refusal.code != RefusalCode::AlreadySo && !refusal.victims.is_empty()
}

/// Work lost by the steps of a plan, device-seconds; `None` where a step's loss is unknown.
fn lost_work(plan: &Plan) -> Option<u64> {
    let steps = plan
        .steps
        .iter()
        .filter(|step| step.side_effects.interrupts);
    steps
        .map(|step| step.side_effects.loss.as_ref()?.device_seconds)
        .sum()
}

/// The plan that starts a waiting job; evicts others where `preempt` allows: the jobs in `known`, where that is still possible.
///
/// # Errors
/// The job does not wait, nothing can start it, or its backend does not support it.
pub(super) fn with(
    snapshot: &Snapshot,
    job: &JobName,
    preempt: bool,
    known: &BTreeSet<JobName>,
) -> Result<Plan, Refusal> {
    let work = planner_context::find(snapshot, job)?;
    let model = &snapshot.workloads[work];
    waits(model)?;
    let before = Picture::of(snapshot);
    if before.placed.contains_key(&model.key) {
        return Err(by_itself(snapshot, model, &before));
    }
    if before.gets_quota(&model.key) && !explanations::has_reserved_quota(model) {
        return Err(by_itself(snapshot, model, &before));
    }
    if explanations::has_reserved_quota(model) {
        return seat(snapshot, work, (preempt, known), &before);
    }
    let victims = choose(snapshot, work, (preempt, known))?;
    let mut plan = Plan::new(
        format!("admit {job}"),
        Intent::Admit {
            job: job.clone(),
            preempt,
        },
        snapshot.at,
    );
    let mut then = snapshot.clone();
    let mut leavers = Vec::new();
    let rivals = Rivals::of(snapshot, work, &victims.chosen);
    hold_back(&mut plan, snapshot, &rivals, job)?;
    let held: Vec<u32> = (1..=number(&plan)).collect();
    let mut stopped = held.clone();
    for victim in &victims.chosen {
        let other = &snapshot.workloads[*victim];
        let mut stop = planner_context::stop(snapshot, other)?;
        stop.needs.clone_from(&held);
        stop.reason = format!("{job} needs its devices");
        plan.steps.push(stop);
        stopped.push(number(&plan));
        leavers.extend(Leaver::whole(snapshot, *victim));
        then.displace(*victim, false);
    }
    let mut back = Vec::new();
    let mut priority = None;
    if planner_context::system(snapshot, model) == System::Kueue {
        back.clone_from(&victims.chosen);
        back.extend(&rivals.hold);
        let raise = Raise::of(&then, work, &back);
        then.workloads[work].priority = raise.to;
        priority = raise.back.is_ok().then_some((work, model.priority));
        let mut step = lift(model, raise.to)?;
        step.needs.clone_from(&stopped);
        plan.steps.push(step);
        let admitted = number(&plan);
        plan.reasons.push(raise.words(model.priority));
        for victim in &victims.chosen {
            let mut again = planner_context::again(snapshot, &snapshot.workloads[*victim])?;
            again.needs = vec![admitted];
            again.reason = format!("it is requeued behind {job}");
            let others_come = victims.for_nodes || victims.chosen.len() > 1;
            again.waits.extend(others_come.then(head_start));
            plan.steps.push(again);
        }
        let_go_on(&mut plan, snapshot, &rivals, &[admitted])?;
        match raise.back {
            Ok(()) => {
                let mut lower = put_back(model)?;
                lower.needs = vec![admitted];
                plan.steps.push(lower);
            }
            Err(why) => plan.warnings.push(why),
        }
    } else {
        if victims.chosen.is_empty() {
            let sentence = format!(
                "{job} is behind other jobs, and {} cannot move it to the front",
                system_words(snapshot, model)
            );
            return Err(Refusal::new(RefusalCode::Unsupported, sentence)
                .instead("hold the jobs ahead in the queue: `plan hold NS/NAME`"));
        }
        for victim in &victims.chosen {
            then.workloads[*victim].status = Status::Held;
        }
        plan.warnings.push(
            "evicted jobs stay suspended until you resume them, or they would take the devices back"
                .to_owned(),
        );
        for victim in &victims.chosen {
            let other = planner_context::name(&snapshot.workloads[*victim].key);
            plan.alternatives.push(Alternative {
                sentence: format!("once it runs, resume {other}"),
                command: Some(format!("plan resume {other}")),
            });
        }
    }
    let later = Then {
        back: &back,
        priority,
        ..Then::default()
    };
    let changes = (victims, leavers, rivals);
    finish(plan, snapshot, work, (&before, then, later), changes)
}

/// Adds the steps that keep rivals waiting until the job has its devices.
fn hold_back(
    plan: &mut Plan,
    snapshot: &Snapshot,
    rivals: &Rivals,
    job: &JobName,
) -> Result<(), Refusal> {
    for rival in &rivals.hold {
        let other = &snapshot.workloads[*rival];
        let mut hold = planner_context::stop(snapshot, other)?;
        // A rival that is admitted meanwhile is not stopped.
        let waits = fact(&hold.object, "/status/admission", Value::Null);
        hold.guards.push(waits);
        hold.reason = format!("it would take devices that {job} needs before all of them are free");
        plan.steps.push(hold);
    }
    Ok(())
}

/// Adds the steps that resume rivals, after the steps in `needs` and the head start of the job's pods.
fn let_go_on(
    plan: &mut Plan,
    snapshot: &Snapshot,
    rivals: &Rivals,
    needs: &[u32],
) -> Result<(), Refusal> {
    for rival in &rivals.hold {
        let mut again = planner_context::again(snapshot, &snapshot.workloads[*rival])?;
        again.needs = needs.to_vec();
        again.waits.push(head_start());
        again.reason = "it is requeued at its old position".to_owned();
        plan.steps.push(again);
    }
    Ok(())
}

/// Completes the plan: its effect on the fleet, warnings and alternatives.
fn finish(
    mut plan: Plan,
    snapshot: &Snapshot,
    work: WorkloadId,
    (before, mut then, later): (&Picture, Snapshot, Then<'_>),
    (victims, leavers, held): (EvictionChoice, Vec<Leaver>, Rivals),
) -> Result<Plan, Refusal> {
    let model = &snapshot.workloads[work];
    let job = planner_context::name(&model.key);
    then.settle();
    let picture = Picture::and_then(&then, later);
    let pushed = picture.preempted.get(&model.key);
    if pushed.is_some() || !picture.placed.contains_key(&model.key) {
        let sentence = match pushed {
            Some(Some(by)) => format!("{job} would start, and {by} would preempt it at once"),
            Some(None) => format!("{job} would start, and its queue would evict it at once"),
            None => format!(
                "preempting would not help {job}: other jobs ahead of it would take the freed devices"
            ),
        };
        return Err(Refusal::new(RefusalCode::Infeasible, sentence)
            .instead(format!("see what it waits for: `explain job {job}`"))
            .evicting(victims.evicted));
    }
    plan.reasons.push(match picture.placed.get(&model.key) {
        Some(nodes) if !nodes.is_empty() => {
            format!("there is room for it on {}", first_named(nodes, 8))
        }
        _ => "it starts".to_owned(),
    });
    let is_held = |key: &JobKey| {
        let mut all = held.hold.iter();
        all.any(|rival| snapshot.workloads[*rival].key == *key)
    };
    let rivals: Vec<JobName> = picture
        .placed
        .keys()
        .filter(|key| **key != model.key && !before.placed.contains_key(*key))
        .filter(|key| !is_held(key))
        .map(planner_context::name)
        .collect();
    match (victims.evicted.len(), rivals.len()) {
        (0, _) | (1, 0) => {}
        (1, rival) => {
            let (start, which) = match rival {
                1 => ("starts", "it takes"),
                _ => ("start", "one of them takes"),
            };
            plan.warnings.push(format!(
                "{} also {start} on the freed devices: {job} keeps waiting if {which} a node that it needs",
                first_named(&rivals, 5)
            ));
        }
        _ if held.more => plan.warnings.push(format!(
            "devices are freed one job at a time: other waiting jobs may take some before {job} can start"
        )),
        _ => plan.warnings.push(format!(
            "devices are freed one job at a time: a job created in the meantime may take some before {job} can start"
        )),
    }
    if !held.hold.is_empty() {
        let names = held.hold.iter();
        let names: Vec<JobName> = names
            .map(|rival| planner_context::name(&snapshot.workloads[*rival].key))
            .collect();
        let verb = if names.len() == 1 { "is" } else { "are" };
        plan.reasons.push(format!(
            "{} {verb} held back for at least {HEAD_START} s, so that {job} takes its devices first",
            first_named(&names, 5)
        ));
    }
    plan.reasons.extend(victims.reasons);
    plan.alternatives.extend(victims.alternatives);
    let works = snapshot.workloads.iter().enumerate();
    let gone: Vec<WorkloadId> = works
        .filter(|(_, other)| leavers.iter().any(|leaver| leaver.key == other.key))
        .map(|(at, _)| at)
        .collect();
    plan.warnings
        .extend(choice::overridden(snapshot, work, &gone));
    let by_itself = starts_by_itself(snapshot, work);
    plan.alternatives.insert(
        0,
        Alternative {
            sentence: match by_itself {
                Some(at) => format!("wait: it starts by itself at about {}", at.rfc3339()),
                None => "wait: it is unknown when it starts by itself".to_owned(),
            },
            command: None,
        },
    );
    let mut forecast = compare(snapshot, before, &picture, leavers);
    let waits = plan.steps.iter().flat_map(|step| &step.waits);
    let head_start = waits.filter_map(|wait| match wait.until {
        Until::Elapsed { seconds } => Some(Duration::from_secs(seconds)),
        _ => None,
    });
    if let Some(head_start) = head_start.max() {
        for one in &mut forecast.displaced {
            one.not_before(snapshot.at.plus(head_start));
        }
    }
    let own = forecast.starts.iter_mut().find(|start| start.job == job);
    if let Some(own) = own {
        own.before = by_itself;
    }
    // The job of the plan comes first: lists are cut at their end.
    forecast.starts.small_sort_by_key(|start| start.job != job);
    plan.reasons.extend(news(&forecast, snapshot.at));
    plan.effect = PlanEffect::Forecast(forecast);
    let back = match later.back.is_empty() && !victims.evicted.is_empty() {
        true => "undo resumes the held jobs, which restart when there is room",
        false => "evicted jobs restart when there is room",
    };
    plan.undo = Undo {
        possible: true,
        notes: vec![format!(
            "jobs that it started keep running; {back}; lost work stays lost"
        )],
    };
    Ok(plan)
}

/// When the job starts without this plan, by the same forecast as elsewhere.
fn starts_by_itself(snapshot: &Snapshot, work: WorkloadId) -> Option<Moment> {
    let around = WaitingFleet::around(snapshot, work);
    forecast::forecast_one(&State::new(&around.compiled), work)?.p50
}

/// The refusal because the job starts in the scheduler's next cycle; names the jobs that it preempts then.
fn by_itself(snapshot: &Snapshot, model: &Workload, before: &Picture) -> Refusal {
    let job = planner_context::name(&model.key);
    let evicts = |by: &Option<JobKey>| by.as_ref() == Some(&model.key);
    let pushed = before.preempted.iter().filter(|(_, by)| evicts(by));
    let victims: Vec<Evicted> = pushed
        .filter_map(|(key, _)| {
            let at = snapshot
                .workloads
                .iter()
                .position(|work| work.key == *key)?;
            let loss = Leaver::whole(snapshot, at).and_then(|leaver| leaver.loss.device_seconds);
            let lost_ms = loss.map_or(0, |seconds| seconds.cast_signed().saturating_mul(1_000));
            Some(evicted_for(&snapshot.workloads[at], "preempted", lost_ms))
        })
        .collect();
    let sentence = match (evicted_words(&victims), before.gets_quota(&model.key)) {
        (words, true) if words.is_empty() => {
            format!("{job} gets its quota by itself, and its pods then wait for nodes")
        }
        (words, true) => format!(
            "{job} gets its quota by itself, preempting {words}, and its pods then wait for nodes"
        ),
        (words, false) if words.is_empty() => {
            format!("{job} starts by itself: nothing blocks it")
        }
        (words, false) => format!("{job} starts by itself, preempting {words}"),
    };
    let refusal = already(sentence).evicting(victims);
    match before.gets_quota(&model.key) {
        true => refusal.instead(format!(
            "wait until it has its quota, then ask again; see what helps: `explain job {job}`"
        )),
        false => refusal.instead("wait for the next cycle of its scheduler"),
    }
}

/// The plan for an admitted job whose pods wait for nodes: jobs of lower priority are evicted, and requeued once its pods run.
fn seat(
    snapshot: &Snapshot,
    work: WorkloadId,
    (allowed, known): (bool, &BTreeSet<JobName>),
    before: &Picture,
) -> Result<Plan, Refusal> {
    let model = &snapshot.workloads[work];
    let job = planner_context::name(&model.key);
    let around = WaitingFleet::around(snapshot, work);
    let compiled = &around.compiled;
    let found = seat_victims(&mut State::new(compiled), work);
    let found = found.map_err(|refusal| {
        let explained = around.explain(work).explanation;
        hopeless(&compiled.snapshot, work, &refusal, &explained)
    })?;
    let least = found.clone();
    let found = kept(compiled, found, known);
    let evicted = evicted(compiled, &found.list);
    if !allowed {
        let sentence = format!(
            "{job} has quota but no free nodes: it starts only if others are evicted: {}",
            evicted_words(&evicted)
        );
        return Err(Refusal::new(RefusalCode::Policy, sentence)
            .instead(format!("evict them: `plan admit {job} --preempt`"))
            .evicting(evicted));
    }
    let mut plan = Plan::new(
        format!("admit {job}"),
        Intent::Admit {
            job: job.clone(),
            preempt: true,
        },
        snapshot.at,
    );
    let mut then = snapshot.clone();
    let mut leavers = Vec::new();
    let leave: Vec<WorkloadId> = found.list.iter().map(|victim| victim.work).collect();
    let rivals = Rivals::of_nodes(snapshot, work, &leave);
    hold_back(&mut plan, snapshot, &rivals, &job)?;
    let held: Vec<u32> = (1..=number(&plan)).collect();
    for victim in &found.list {
        let mut stop = planner_context::stop(snapshot, &snapshot.workloads[victim.work])?;
        stop.needs.clone_from(&held);
        stop.reason = format!("{job} has quota and needs its nodes");
        plan.steps.push(stop);
        leavers.extend(Leaver::whole(snapshot, victim.work));
        then.displace(victim.work, false);
    }
    let stopped: Vec<u32> = (1..=number(&plan)).collect();
    let back: Vec<WorkloadId> = leave.iter().chain(&rivals.hold).copied().collect();
    for victim in &found.list {
        let mut again = planner_context::again(snapshot, &snapshot.workloads[victim.work])?;
        again.needs.clone_from(&stopped);
        again.waits.push(head_start());
        again.reason = format!("it is requeued behind {job}");
        plan.steps.push(again);
    }
    let_go_on(&mut plan, snapshot, &rivals, &stopped)?;
    let mut choice = EvictionChoice {
        chosen: Vec::new(),
        evicted,
        ..EvictionChoice::default()
    };
    choice
        .alternatives
        .extend(lesser((snapshot, work), &least, found.lost_ms));
    choice.reasons.push(format!(
        "{job} has quota but no free nodes: jobs with lower (or equal, newer) priority are evicted ({})",
        lost_words(snapshot, &found)
    ));
    if found.proven {
        choice
            .reasons
            .push("this is the cheapest set to stop (all were tried)".to_owned());
    }
    let changes = (choice, leavers, rivals);
    let later = Then {
        back: &back,
        ..Then::default()
    };
    finish(plan, snapshot, work, (before, then, later), changes)
}

/// Evicted jobs are requeued only after the job's own pods had time to be scheduled.
fn head_start() -> Wait {
    Wait {
        go_on: true,
        ..Wait::new(
            WaitOrder::Before,
            Until::Elapsed {
                seconds: HEAD_START,
            },
        )
    }
}

fn number(plan: &Plan) -> u32 {
    u32::try_from(plan.steps.len()).unwrap_or(u32::MAX)
}

fn system_words(snapshot: &Snapshot, model: &Workload) -> String {
    match planner_context::system(snapshot, model) {
        System::None => "a cluster without a queueing system".to_owned(),
        system => system.name().to_owned(),
    }
}

fn waits(model: &Workload) -> Result<(), Refusal> {
    let job = &model.key;
    if let Some(why) = &model.blocked {
        let sentence = format!("no queue or scheduler can start {job}: {why}");
        return Err(Refusal::new(RefusalCode::IllegalState, sentence));
    }
    if let Some(why) = &model.not_forecast {
        let sentence = format!("it is not known whether {job} starts then: {why}");
        return Err(Refusal::new(RefusalCode::Unknown, sentence));
    }
    match model.status {
        Status::Waiting => Ok(()),
        Status::Running if explanations::has_reserved_quota(model) => Ok(()),
        Status::Running => Err(already(format!("{job} is already running"))),
        Status::Held => {
            let sentence = format!("{job} is held");
            Err(Refusal::new(RefusalCode::IllegalState, sentence)
                .instead(format!("resume it: `plan resume {job}`")))
        }
        Status::Ending => {
            let sentence = format!("{job} is ending");
            Err(Refusal::new(RefusalCode::IllegalState, sentence))
        }
    }
}
