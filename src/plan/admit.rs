//! Admit: a waiting job starts now. Nobody can let a job past its queue but its queue: so the job is put first, and
//! those in its way leave, are kept off until it has its quota, and are queued again.

use std::collections::BTreeSet;

use engine::answers::Answer;
use engine::explain::Scene;
use engine::forecast;
use engine::plant::{Plant, WorkId};
use engine::preempt::{self, Mode, Victims};
use engine::snapshot::{Snapshot, Status, System, Workload};
use engine::state::State;
use model::base::quantities::counted;
use model::plan::{
    Alternative, Effect, Intent, JobName, Lever, Plan, Refusal, RefusalCode, Undo, Until, Verb,
};

use super::effect::{Leaver, Picture, compare, news};
use super::hold::{after, already};
use super::scene::{self, fact};

/// The plan that starts a waiting job, with others taken off their devices for it where `preempt` allows.
///
/// # Errors
/// It does not wait, nothing makes it start, or its backend has no way.
pub(super) fn plan(snapshot: &Snapshot, job: &JobName, preempt: bool) -> Result<Plan, Refusal> {
    let work = scene::find(snapshot, job)?;
    let model = &snapshot.workloads[work];
    waits(model)?;
    let before = Picture::of(snapshot);
    if before.placed.contains_key(&model.key) {
        return Err(
            already(format!("{job} starts by itself: nothing stands in its way"))
                .instead("wait for the next cycle of its scheduler"),
        );
    }
    // The way must be there before anybody looks for victims.
    let first = lift(snapshot, model);
    let victims = choose(snapshot, work, preempt)?;
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
    let mut stopped = Vec::new();
    for victim in &victims.chosen {
        let other = &snapshot.workloads[*victim];
        let mut stop = scene::stop(snapshot, other)?;
        stop.reason = format!("its devices are what {job} lacks");
        plan.steps.push(stop);
        stopped.push(number(&plan));
        leavers.extend(Leaver::whole(snapshot, *victim));
        scene::displace(&mut then, *victim, false);
    }
    let kueue = matches!(scene::system(snapshot, model), System::Kueue);
    if kueue {
        let (mut step, value) = first?;
        step.needs.clone_from(&stopped);
        plan.steps.push(step);
        let admitted = number(&plan);
        then.workloads[work].priority = value;
        plan.reasons.push(format!(
            "its priority goes from {} to {value}, above all that wait for the same or leave for it",
            model.priority
        ));
        for victim in &victims.chosen {
            let mut again = scene::again(snapshot, &snapshot.workloads[*victim])?;
            again.needs = vec![admitted];
            again.reason = format!("it is queued again, behind {job}");
            plan.steps.push(again);
        }
    } else {
        if victims.chosen.is_empty() {
            let sentence = format!(
                "{job} waits behind others, and {} has no lever that puts it first",
                system_words(snapshot, model)
            );
            return Err(Refusal::new(RefusalCode::Unsupported, sentence)
                .instead("hold what is ahead of it: `plan hold NS/NAME`"));
        }
        for victim in &victims.chosen {
            then.workloads[*victim].status = Status::Held;
        }
        plan.warnings.push(
            "those that leave are held until they are resumed: nothing else keeps them from taking their devices back"
                .to_owned(),
        );
        for victim in &victims.chosen {
            let other = scene::name(&snapshot.workloads[*victim].key);
            plan.alternatives.push(Alternative {
                sentence: format!("once it runs, let {other} go on"),
                command: Some(format!("plan resume {other}")),
            });
        }
    }
    then.settle();
    let picture = Picture::of(&then);
    if !picture.placed.contains_key(&model.key) {
        let sentence = format!("{job} would not start even then: another would take its place");
        return Err(Refusal::new(RefusalCode::Infeasible, sentence)
            .instead(format!("look at what holds it: `explain job {job}`")));
    }
    plan.reasons.push(match picture.placed.get(&model.key) {
        Some(nodes) if !nodes.is_empty() => {
            let names: Vec<&str> = nodes.iter().take(8).map(|node| node.as_str()).collect();
            format!("it starts on {}", names.join(", "))
        }
        _ => "it starts".to_owned(),
    });
    plan.reasons.extend(victims.reasons);
    plan.alternatives.extend(victims.alternatives);
    plan.alternatives.insert(
        0,
        Alternative {
            sentence: match before.start(&model.key) {
                Some(at) => format!("wait: it starts by itself about {}", at.rfc3339()),
                None => "wait: nobody knows when it starts by itself".to_owned(),
            },
            command: None,
        },
    );
    let forecast = compare(snapshot, &before, &picture, leavers);
    plan.reasons.extend(news(&forecast, snapshot.at));
    plan.effect = Effect::Forecast(forecast);
    plan.undo = Undo {
        possible: true,
        notes: vec![
            "what it has started goes on; those that left come back when there is room, without the work that is lost"
                .to_owned(),
        ],
    };
    Ok(plan)
}

fn number(plan: &Plan) -> u32 {
    u32::try_from(plan.steps.len()).unwrap_or(u32::MAX)
}

fn system_words(snapshot: &Snapshot, model: &Workload) -> String {
    match scene::system(snapshot, model) {
        System::None => "a cluster without a queueing system".to_owned(),
        system => system.name().to_owned(),
    }
}

fn waits(model: &Workload) -> Result<(), Refusal> {
    let job = &model.key;
    match model.status {
        Status::Waiting => Ok(()),
        Status::Running if scene::seated(model).next().is_none() => Err(already(format!(
            "{job} has been let in by its queue already, and its pods wait for room on nodes"
        ))
        .instead(format!("what keeps them off: `explain job {job}`"))),
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

/// The step that puts a job first in Kueue's order, and its new priority: above all that wait in its cohort's reach and
/// all that may leave for it. The run waits until it has its quota.
fn lift(snapshot: &Snapshot, model: &Workload) -> Result<(model::plan::Step, i32), Refusal> {
    let object = scene::admission(model, System::Kueue).ok_or_else(|| {
        let sentence = format!("{} has no Workload of Kueue", model.key);
        Refusal::new(RefusalCode::Unknown, sentence)
    })?;
    let highest = snapshot
        .workloads
        .iter()
        .filter(|other| other.key != model.key && other.admission.is_some())
        .map(|other| other.priority)
        .max()
        .unwrap_or(0);
    let value = highest.max(model.priority).saturating_add(1);
    let lever = Lever::WorkloadPriority { value };
    let mut step = scene::step(Verb::Admit, &object, lever)?;
    step.guards
        .push(fact(&object, "/spec/priority", model.priority));
    step.waits.push(after(Until::Condition {
        name: "QuotaReserved".to_owned(),
        status: "True".to_owned(),
    }));
    step.job = Some(scene::reference(model));
    step.reason = "it goes first".to_owned();
    Ok((step, value))
}

/// Who leaves, and what is said of the choice.
#[derive(Default)]
struct Choice {
    chosen: Vec<WorkId>,
    reasons: Vec<String>,
    alternatives: Vec<Alternative>,
}

fn choose(snapshot: &Snapshot, work: WorkId, allowed: bool) -> Result<Choice, Refusal> {
    let plant = Plant::new(snapshot.clone());
    let mut state = State::new(&plant);
    // First in its queue, it may be that it fits, or that its own scheduler makes room for it.
    let highest = snapshot.workloads.iter().map(|other| other.priority).max();
    state.set_priority(work, highest.unwrap_or(0).saturating_add(1));
    let job = &snapshot.workloads[work].key;
    if state.find(work, &engine::fit::Lens::default()).is_ok() {
        return Ok(Choice::default());
    }
    let cluster = state.victims(work, Mode::AsCluster);
    let least = state.victims(work, Mode::Least);
    let stoppable = |victims: &Victims| {
        victims
            .list
            .iter()
            .all(|victim| scene::stop(snapshot, &snapshot.workloads[victim.work]).is_ok())
    };
    let words = |victims: &Victims| {
        format!(
            "{}, {:.1} device-hours of work lost",
            counted(victims.list.len() as u64, "job"),
            victims.lost_ms as f64 / 3_600_000.0
        )
    };
    let picked = match (&cluster, &least) {
        (Ok(cluster), Ok(least)) if stoppable(least) && least.lost_ms <= cluster.lost_ms => least,
        (Ok(cluster), _) if stoppable(cluster) => cluster,
        (_, Ok(least)) if stoppable(least) => least,
        (Ok(_), _) | (_, Ok(_)) => {
            let sentence = format!("{job} needs the devices of jobs that have no lever");
            return Err(Refusal::new(RefusalCode::Unsupported, sentence)
                .instead(format!("what else would help: `explain job {job}`")));
        }
        (Err(refusal), _) => return Err(hopeless(snapshot, &plant, work, refusal)),
    };
    let list: Vec<WorkId> = picked.list.iter().map(|victim| victim.work).collect();
    let names: Vec<String> = list
        .iter()
        .map(|victim| snapshot.workloads[*victim].key.to_string())
        .collect();
    if !allowed {
        let sentence = format!(
            "{job} starts only if others leave: {} ({})",
            names.join(", "),
            words(picked)
        );
        return Err(Refusal::new(RefusalCode::Policy, sentence).instead(format!(
            "take them off their devices: `plan admit {job} --preempt`"
        )));
    }
    let mut choice = Choice {
        chosen: list,
        ..Choice::default()
    };
    choice
        .reasons
        .push(format!("leaves for it: {}", words(picked)));
    if picked.proven {
        choice
            .reasons
            .push("no other set that may be taken loses less: all were looked at".to_owned());
    }
    if let (Ok(cluster), Ok(least)) = (&cluster, &least) {
        let set = |victims: &Victims| -> BTreeSet<WorkId> {
            victims.list.iter().map(|victim| victim.work).collect()
        };
        if set(cluster) != set(least) {
            choice.alternatives.push(Alternative {
                sentence: format!(
                    "leave it to the cluster's own scheduler, which would take {}",
                    words(cluster)
                ),
                command: None,
            });
        }
    }
    Ok(choice)
}

fn hopeless(
    snapshot: &Snapshot,
    plant: &Plant,
    work: WorkId,
    refusal: &preempt::Refusal,
) -> Refusal {
    let job = &snapshot.workloads[work].key;
    let (code, sentence) = match refusal {
        preempt::Refusal::Protected => (
            RefusalCode::Policy,
            format!(
                "{job} cannot start: its queue's rules and others' priorities protect all that run"
            ),
        ),
        preempt::Refusal::TooFew => (
            RefusalCode::Policy,
            format!("{job} cannot start: those that may be taken do not make enough room"),
        ),
        preempt::Refusal::Needless | preempt::Refusal::Hopeless(_) => (
            RefusalCode::Infeasible,
            format!("{job} cannot start: nothing that becomes free would let it"),
        ),
    };
    let mut out = Refusal::new(code, sentence);
    let start = forecast::forecast_one(&State::new(plant), work);
    let explained = Answer::new(Scene::new(plant).explain(work), start, snapshot.at).explanation;
    if let Some(unblock) = &explained.unblock {
        for change in &unblock.changes {
            out = out.instead(change.sentence());
        }
    }
    out
}
