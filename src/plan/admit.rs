//! Admit: a waiting job starts now. Nobody can let a job past its queue but its queue: so the job is put first, and
//! those in its way leave, are kept off until it has its quota, and are queued again.

use std::collections::BTreeSet;

use serde_json::Value;

use engine::compiled::{CompiledFleet, WorkloadId};
use engine::explanations;
use engine::forecast;
use engine::preempt::evicted;
use engine::snapshot::{Snapshot, Status, System, Workload};
use engine::state::State;
use model::base::quantities::first_named;
use model::base::{Moment, SmallSort};
use model::fleet::job::JobKey;
use model::plan::{
    Alternative, Effect, Evicted, Intent, JobName, Known, Plan, Refusal, RefusalCode, Undo, Until,
    Wait, When, evicted_words,
};

use super::choice::{self, Choice, choose, explained, hopeless, kept, lesser, lost_words};
use super::effect::{Leaver, Picture, Then, compare, news};
use super::hold::already;
use super::leavers::seat_victims;
use super::planner_context::{self, fact};
use super::raise::{Raise, lift, put_back};
use super::rivals::Rivals;

/// For so long those who left stay away once the way is free, seconds: pods end, and the job's own are placed.
const HEAD_START: u64 = 120;

/// The plan that starts a waiting job, with others taken off their devices for it where `preempt` allows. Who leaves by a plan that is
/// read leaves by this one, as long as that works; else those leave who lose least, of those that are told elsewhere and a choice made
/// anew. Where others would take what that choice frees, the other sets that are told of the job are tried.
///
/// # Errors
/// It does not wait, nothing makes it start, or its backend has no way.
pub(super) fn plan(
    snapshot: &Snapshot,
    job: &JobName,
    preempt: bool,
    known: &Known,
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
    // What is told mostly is what is chosen anew, and a plan takes its time.
    let is_another =
        !known.is_read && !known.jobs.is_empty() && !anew.as_ref().is_ok_and(takes_them);
    let told = is_another.then(as_known).flatten();
    let best = match (anew, told) {
        (Ok(anew), Some(told)) => Ok(match (lost(&told), lost(&anew)) {
            (Some(told_lost), Some(least)) if told_lost < least => told,
            _ => anew,
        }),
        (Err(_), Some(told)) => Ok(told),
        (anew, None) => anew,
    };
    let refusal = match best {
        Err(refusal) if is_of_victims(&refusal) => refusal,
        best => return best,
    };
    let work = planner_context::find(snapshot, job)?;
    let mut sets = choice::told(snapshot, work);
    if preempt {
        let refused: BTreeSet<JobName> = refusal.victims.iter().map(|it| it.job.clone()).collect();
        sets.retain(|set| *set != refused);
    }
    let mut plans = sets
        .iter()
        .filter_map(|set| with(snapshot, job, true, set).ok());
    match plans.next() {
        Some(plan) if preempt => Ok(plan),
        // Only victims with which a plan works are named.
        Some(plan) => with(snapshot, job, false, &plan.stops().cloned().collect()),
        None if preempt => Err(refusal),
        None => with(snapshot, job, true, &none),
    }
}

/// True for a refusal that hangs on who would leave.
fn is_of_victims(refusal: &Refusal) -> bool {
    refusal.code != RefusalCode::AlreadySo && !refusal.victims.is_empty()
}

/// The work that is lost by the steps of a plan, device-seconds; `None` where the loss of a step is not known.
fn lost(plan: &Plan) -> Option<u64> {
    let steps = plan
        .steps
        .iter()
        .filter(|step| step.side_effects.interrupts);
    steps
        .map(|step| step.side_effects.loss.as_ref()?.device_seconds)
        .sum()
}

/// The plan that starts a waiting job, with others taken off their devices for it where `preempt` allows: those of `known`, where
/// they still can be.
///
/// # Errors
/// It does not wait, nothing makes it start, or its backend has no way.
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
    if explanations::has_reserved_quota(model) {
        return seat(snapshot, work, (preempt, known), &before);
    }
    let victims = choose(snapshot, work, (preempt, known))?;
    let mut plan = Plan::new(
        format!("start {job}"),
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
        stop.reason = format!("its devices are what {job} lacks");
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
            again.reason = format!("it is queued again, behind {job}");
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
                "{job} waits behind others, and {} has no lever that puts it first",
                system_words(snapshot, model)
            );
            return Err(Refusal::new(RefusalCode::Unsupported, sentence)
                .instead("hold the jobs ahead in the queue: `plan hold NS/NAME`"));
        }
        for victim in &victims.chosen {
            then.workloads[*victim].status = Status::Held;
        }
        plan.warnings.push(
            "those that leave are held until they are resumed: nothing else keeps them from taking their devices back"
                .to_owned(),
        );
        for victim in &victims.chosen {
            let other = planner_context::name(&snapshot.workloads[*victim].key);
            plan.alternatives.push(Alternative {
                sentence: format!("once it runs, let {other} go on"),
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

/// The steps that keep rivals waiting until the job has its devices.
fn hold_back(
    plan: &mut Plan,
    snapshot: &Snapshot,
    rivals: &Rivals,
    job: &JobName,
) -> Result<(), Refusal> {
    for rival in &rivals.hold {
        let other = &snapshot.workloads[*rival];
        let mut hold = planner_context::stop(snapshot, other)?;
        // One that starts meanwhile is not stopped.
        let waits = fact(&hold.object, "/status/admission", Value::Null);
        hold.guards.push(waits);
        hold.reason =
            format!("it waits, and would take what {job} needs before all of that is free");
        plan.steps.push(hold);
    }
    Ok(())
}

/// The steps that let rivals go on, once these are over and the job's pods had time to be placed.
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
        again.reason = "it waits in its queue again, at its old place".to_owned();
        plan.steps.push(again);
    }
    Ok(())
}

/// What becomes of the fleet, and what could be done instead.
fn finish(
    mut plan: Plan,
    snapshot: &Snapshot,
    work: WorkloadId,
    (before, mut then, later): (&Picture, Snapshot, Then<'_>),
    (victims, leavers, held): (Choice, Vec<Leaver>, Rivals),
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
                "preempting would not help {job}: other jobs that go before it would take the freed devices"
            ),
        };
        return Err(Refusal::new(RefusalCode::Infeasible, sentence)
            .instead(format!("see what it waits for: `explain job {job}`"))
            .evicting(victims.evicted));
    }
    plan.reasons.push(match picture.placed.get(&model.key) {
        Some(nodes) if !nodes.is_empty() => {
            format!("it finds room on {}", first_named(nodes, 8))
        }
        _ => "it starts".to_owned(),
    });
    let rivals: Vec<JobName> = picture
        .placed
        .keys()
        .filter(|key| **key != model.key && !before.placed.contains_key(*key))
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
                "{} also {start} on what becomes free: {job} keeps waiting if {which} a node that it needs",
                first_named(&rivals, 5)
            ));
        }
        _ if held.more => plan.warnings.push(format!(
            "devices become free one job after the other: others that wait for them may take some before {job} can start"
        )),
        _ => plan.warnings.push(format!(
            "devices become free one job after the other: a job that is created meanwhile may take some before {job} can start"
        )),
    }
    if !held.hold.is_empty() {
        let names = held.hold.iter();
        let names: Vec<JobName> = names
            .map(|rival| planner_context::name(&snapshot.workloads[*rival].key))
            .collect();
        let verb = if names.len() == 1 { "waits" } else { "wait" };
        plan.reasons.push(format!(
            "{} {verb} until {job} has its devices, so that none of them is taken first",
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
                Some(at) => format!("wait: it starts by itself about {}", at.rfc3339()),
                None => "wait: when it starts by itself is not known".to_owned(),
            },
            command: None,
        },
    );
    let mut forecast = compare(snapshot, before, &picture, leavers);
    let own = forecast.starts.iter_mut().find(|start| start.job == job);
    if let Some(own) = own {
        own.before = by_itself;
    }
    // It is what was asked for: lists are cut at their end.
    forecast.starts.small_sort_by_key(|start| start.job != job);
    plan.reasons.extend(news(&forecast, snapshot.at));
    plan.effect = Effect::Forecast(forecast);
    let back = match later.back.is_empty() && !victims.evicted.is_empty() {
        true => "those that are held are resumed, and restart when there is room",
        false => "evicted jobs restart when there is room",
    };
    plan.undo = Undo {
        possible: true,
        notes: vec![format!(
            "jobs that it started keep running; {back}, without the lost work"
        )],
    };
    Ok(plan)
}

/// When it starts without this plan, by the forecast that is shown for it elsewhere.
fn starts_by_itself(snapshot: &Snapshot, work: WorkloadId) -> Option<Moment> {
    let fleet = match explanations::has_reserved_quota(&snapshot.workloads[work]) {
        true => explanations::past_queues(snapshot),
        false => snapshot.clone(),
    };
    let compiled = CompiledFleet::new(fleet);
    forecast::forecast_one(&State::new(&compiled), work)?.p50
}

/// It starts in the next cycle of its scheduler: with whom it evicts, where it does.
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
            let leaver = Leaver::whole(snapshot, at)?;
            Some(Evicted {
                job: planner_context::name(key),
                devices: u64::from(leaver.devices),
                reason: "preempted".to_owned(),
                lost_device_seconds: leaver.loss.device_seconds.map_or(0, u64::cast_signed),
            })
        })
        .collect();
    let sentence = match evicted_words(&victims) {
        words if words.is_empty() => format!("{job} starts by itself: nothing is in its way"),
        words => format!("{job} starts by itself, evicting {words}"),
    };
    already(sentence)
        .instead("wait for the next cycle of its scheduler")
        .evicting(victims)
}

/// The plan for one that is admitted and whose pods wait for nodes: jobs of lower priority leave theirs, and are queued again once
/// its pods are placed.
fn seat(
    snapshot: &Snapshot,
    work: WorkloadId,
    (allowed, known): (bool, &BTreeSet<JobName>),
    before: &Picture,
) -> Result<Plan, Refusal> {
    let model = &snapshot.workloads[work];
    let job = planner_context::name(&model.key);
    let compiled = CompiledFleet::new(explanations::past_queues(snapshot));
    let found = seat_victims(&mut State::new(&compiled), work);
    let found = found.map_err(|refusal| {
        let explained = explained(&compiled.snapshot, &compiled, work);
        hopeless(&compiled.snapshot, work, &refusal, &explained)
    })?;
    let least = found.clone();
    let found = kept(&compiled, found, known);
    let evicted = evicted(&compiled, &found.list);
    if !allowed {
        let sentence = format!(
            "{job} is admitted, and its pods wait for nodes: they start only if others are evicted: {}",
            evicted_words(&evicted)
        );
        return Err(Refusal::new(RefusalCode::Policy, sentence)
            .instead(format!("evict them: `plan admit {job} --preempt`"))
            .evicting(evicted));
    }
    let mut plan = Plan::new(
        format!("start {job}"),
        Intent::Admit {
            job: job.clone(),
            preempt: true,
        },
        snapshot.at,
    );
    let mut then = snapshot.clone();
    let mut leavers = Vec::new();
    let leave: Vec<WorkloadId> = found.list.iter().map(|victim| victim.work).collect();
    let rivals = Rivals::of(snapshot, work, &leave);
    hold_back(&mut plan, snapshot, &rivals, &job)?;
    let held: Vec<u32> = (1..=number(&plan)).collect();
    for victim in &found.list {
        let mut stop = planner_context::stop(snapshot, &snapshot.workloads[victim.work])?;
        stop.needs.clone_from(&held);
        stop.reason = format!("{job} is admitted and needs its nodes");
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
        again.reason = format!("it is queued again, behind {job}");
        plan.steps.push(again);
    }
    let_go_on(&mut plan, snapshot, &rivals, &stopped)?;
    let mut choice = Choice {
        chosen: Vec::new(),
        evicted,
        ..Choice::default()
    };
    choice
        .alternatives
        .extend(lesser((snapshot, work), &least, found.lost_ms));
    choice.reasons.push(format!(
        "{job} is admitted, and its pods wait for nodes; of lower priority, or as high and made later: {}",
        lost_words(&found)
    ));
    if found.proven {
        choice
            .reasons
            .push("no other set of these loses less: all were looked at".to_owned());
    }
    let changes = (choice, leavers, rivals);
    let later = Then {
        back: &back,
        ..Then::default()
    };
    finish(plan, snapshot, work, (before, then, later), changes)
}

/// Those who left are queued again only when the job's own pods had time to be placed.
fn head_start() -> Wait {
    Wait {
        when: When::Before,
        until: Until::Elapsed {
            seconds: HEAD_START,
        },
        at_most_seconds: None,
        deadline: None,
        go_on: true,
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
    match model.status {
        Status::Waiting => Ok(()),
        Status::Running if explanations::has_reserved_quota(model) => Ok(()),
        Status::Running => Err(already(format!("{job} runs already"))),
        Status::Held => {
            let sentence = format!("{job} is held");
            Err(Refusal::new(RefusalCode::IllegalState, sentence)
                .instead(format!("let it go on: `plan resume {job}`")))
        }
        Status::Ending => {
            let sentence = format!("{job} is ending");
            Err(Refusal::new(RefusalCode::IllegalState, sentence))
        }
    }
}
