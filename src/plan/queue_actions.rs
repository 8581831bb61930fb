//! Hold, resume and reprioritise on a snapshot of the fleet, for the console and for documents.

use std::cmp::Ordering;

use engine::compiled::{CompiledFleet, WorkloadId};
use engine::cycle;
use engine::snapshot::{QueueStop, Snapshot, SnapshotQueue, Status, System, Workload};
use engine::state::State;
use model::base::ObjectKey;
use model::base::quantities::first_named;
use model::fleet::observe::Table;
use model::plan::{
    Alternative, Intent, JobName, Mutation, Object, Plan, PlanEffect, Refusal, RefusalCode, Step,
    StopPolicy, Undo, Verb, VolcanoAction,
};

use super::effects::effect::{Leaver, NAMED, Picture, compare, news, queue_news};
use super::hold::{KEPT_OUT, SCALED, already, back, keeps_out};
use super::planner_context::{self, EvictBy, fact};
use super::reprioritise::{KAI_LATER, class};
use super::subject::SubjectPriorityClass;

enum QueueActionTarget<'a> {
    Job(WorkloadId),
    Queue(usize, &'a SnapshotQueue),
}

/// A queue by its name, or a job (`NAMESPACE/NAME`), each with or without its kind.
fn target<'a>(snapshot: &'a Snapshot, name: &str) -> Result<QueueActionTarget<'a>, Refusal> {
    let of_queue = |kind: &str| {
        let kind = kind.to_ascii_lowercase();
        matches!(
            &*kind,
            "queue" | "queues" | "clusterqueue" | "clusterqueues"
        )
    };
    let plain = match name.split_once('/') {
        Some((kind, rest)) if of_queue(kind) && !rest.contains('/') => rest,
        _ => name,
    };
    let found = snapshot
        .queues
        .iter()
        .position(|queue| queue.admits && *queue.name == *plain)
        .or_else(|| {
            let known = |queue: &SnapshotQueue| queue.admits && *queue.object == *plain;
            snapshot.queues.iter().position(known)
        });
    if let Some(at) = found {
        return Ok(QueueActionTarget::Queue(at, &snapshot.queues[at]));
    }
    let key = match name.split('/').collect::<Vec<_>>().as_slice() {
        [namespace, name] if plain.contains('/') => JobName(ObjectKey::new(*namespace, *name)),
        [kind, namespace, name] if !kind.to_ascii_lowercase().starts_with("localqueue") => {
            JobName(ObjectKey::new(*namespace, *name))
        }
        _ => {
            let all = snapshot.queues.iter().filter(|queue| queue.admits);
            let near = model::base::document::nearest(plain, all.map(|queue| queue.name.as_str()));
            let sentence = match near {
                Some(near) => format!("there is no queue `{plain}`; did you mean `{near}`?"),
                None => format!("there is no queue `{plain}`"),
            };
            return Err(Refusal::new(RefusalCode::NotFound, sentence)
                .instead("write NAMESPACE/NAME for a job"));
        }
    };
    Ok(QueueActionTarget::Job(planner_context::find(
        snapshot, &key,
    )?))
}

fn queue_object(queue: &SnapshotQueue) -> Result<Object, Refusal> {
    let name = match queue.object.is_empty() {
        true => &queue.name,
        false => &queue.object,
    };
    match queue.system {
        System::Kueue => Ok(Object::of(Table::ClusterQueues, name)),
        System::Volcano => Ok(Object::of(Table::VolcanoQueues, name)),
        System::Kai => Ok(Object::of(Table::KaiQueues, name)),
        System::Stokehold | System::None => Err(Refusal::new(
            RefusalCode::Unsupported,
            format!("queue {name} is not a Kubernetes object: it cannot be held"),
        )
        .instead("hold its jobs one by one")),
    }
}

/// Completes a plan with its facts and the engine's forecast of the fleet afterwards.
fn close(
    snapshot: &Snapshot,
    mut after: Snapshot,
    leavers: Vec<Leaver>,
    plan: &mut Plan,
) -> Picture {
    after.settle();
    let (before, then) = (Picture::sure(snapshot, &[]), Picture::sure(&after, &[]));
    let forecast = compare(snapshot, &before, &then, leavers);
    plan.reasons.extend(queue_news(snapshot, &before, &then));
    plan.reasons.extend(news(&forecast, snapshot.at));
    plan.effect = PlanEffect::Forecast(forecast);
    then
}

/// The plan that holds a job or a queue.
///
/// # Errors
/// It is on hold already, or its kind does not support it.
pub(super) fn hold(snapshot: &Snapshot, named: &str) -> Result<Plan, Refusal> {
    let target = target(snapshot, named)?;
    let mut plan = Plan::new(
        format!("hold {named}"),
        Intent::Hold {
            target: named.to_owned(),
        },
        snapshot.at,
    );
    let mut after = snapshot.clone();
    let mut leavers = Vec::new();
    let mut step = match target {
        QueueActionTarget::Job(work) => {
            let model = &snapshot.workloads[work];
            if model.status == Status::Held {
                return Err(already(format!("{} is already held", model.key)));
            }
            let step = match planner_context::way(snapshot, model)? {
                EvictBy::Pods(object) if !model.sets.is_empty() => {
                    let step = planner_context::step(
                        Verb::Scale,
                        &object,
                        Mutation::Scale { replicas: 0 },
                    )?;
                    scaled(snapshot, model, step)
                }
                // It is suspended already, which alone does not hold it.
                EvictBy::Suspend(object)
                    if model.status == Status::Waiting
                        && planner_context::system(snapshot, model) == System::Stokehold =>
                {
                    plan.reasons.push(KEPT_OUT.to_owned());
                    let mut step = planner_context::step(Verb::Hold, &object, keeps_out(true))?;
                    step.guards.push(planner_context::exists(&object));
                    step.job = Some(planner_context::reference(model));
                    step
                }
                _ => planner_context::stop(snapshot, model)?,
            };
            leavers.extend(Leaver::whole(snapshot, work));
            after.displace(work, true);
            step
        }
        QueueActionTarget::Queue(at, queue) => {
            if queue.stop != QueueStop::None {
                return Err(already(format!("the queue {} is already held", queue.name)));
            }
            let object = queue_object(queue)?;
            after.queues[at].stop = QueueStop::Hold;
            plan.reasons
                .push("running jobs continue; no new job is admitted".to_owned());
            match queue.system {
                System::Volcano => {
                    let action = VolcanoAction::CloseQueue;
                    planner_context::step(Verb::Hold, &object, Mutation::VolcanoCommand { action })?
                }
                _ => {
                    let value = StopPolicy::Hold;
                    planner_context::step(Verb::Hold, &object, Mutation::StopPolicy { value })?
                }
            }
        }
    };
    if step.guards.is_empty() {
        step.guards.push(planner_context::exists(&step.object));
    }
    step.reason = "requested".to_owned();
    plan.undo = Undo {
        possible: true,
        notes: match step.side_effects.interrupts {
            true => vec![
                "other jobs may have taken its devices by then; work since the last checkpoint is lost"
                    .to_owned(),
            ],
            false => Vec::new(),
        },
    };
    plan.alternatives.push(back(&step, named));
    plan.steps.push(step);
    close(snapshot, after, leavers, &mut plan);
    Ok(plan)
}

/// Adds the side effects of scaling a workload to 0.
fn scaled(snapshot: &Snapshot, model: &Workload, mut step: Step) -> Step {
    step.side_effects.interrupts = true;
    step.side_effects.budgets = model::plan::Budgets::Ignored;
    step.side_effects.loss = Some(planner_context::loss(
        snapshot,
        model,
        planner_context::seated(model),
    ));
    step.side_effects.gang_broken = planner_context::gang(model);
    step.side_effects.notes.push(SCALED.to_owned());
    step.job = Some(planner_context::reference(model));
    step
}

/// The plan that resumes a job or queue that is on hold.
///
/// # Errors
/// It is not on hold, or its kind does not support it.
pub(super) fn resume(snapshot: &Snapshot, named: &str) -> Result<Plan, Refusal> {
    let target = target(snapshot, named)?;
    let mut plan = Plan::new(
        format!("resume {named}"),
        Intent::Resume {
            target: named.to_owned(),
        },
        snapshot.at,
    );
    let mut after = snapshot.clone();
    let mut blocked = None;
    let mut step = match target {
        QueueActionTarget::Job(work) => {
            let model = &snapshot.workloads[work];
            blocked.clone_from(&model.blocked);
            if model.status != Status::Held {
                return Err(already(format!("{} is not held", model.key))
                    .instead(format!("look at why it waits: `explain job {}`", model.key)));
            }
            after.workloads[work].status = Status::Waiting;
            planner_context::again(snapshot, model)?
        }
        QueueActionTarget::Queue(at, queue) => {
            if queue.stop == QueueStop::None {
                return Err(already(format!("the queue {} is not held", queue.name)));
            }
            if queue.stop == QueueStop::Inactive {
                let sentence = format!(
                    "queue {} is not held: its queueing system reports it inactive",
                    queue.name
                );
                return Err(Refusal::new(RefusalCode::IllegalState, sentence).instead(
                    "see its conditions: a flavor or a check that it names may be missing",
                ));
            }
            let object = queue_object(queue)?;
            after.queues[at].stop = QueueStop::None;
            match queue.system {
                System::Volcano => {
                    let action = VolcanoAction::OpenQueue;
                    planner_context::step(
                        Verb::Release,
                        &object,
                        Mutation::VolcanoCommand { action },
                    )?
                }
                _ => {
                    let value = StopPolicy::None;
                    planner_context::step(Verb::Release, &object, Mutation::StopPolicy { value })?
                }
            }
        }
    };
    step.guards.push(planner_context::exists(&step.object));
    step.reason = "requested".to_owned();
    plan.undo.possible = true;
    plan.alternatives.push(Alternative {
        sentence: "undo it later".to_owned(),
        command: Some(format!("plan hold {named}")),
    });
    plan.steps.push(step);
    match blocked {
        Some(why) => {
            plan.effect = PlanEffect::Unknown {
                why: format!("its start is not computed: {why}"),
            };
        }
        None => {
            close(snapshot, after, Vec::new(), &mut plan);
        }
    }
    Ok(plan)
}

/// The plan that changes the priority of a job to a number or to the name of a priority class.
///
/// # Errors
/// It has that priority already, or its priority cannot be changed.
pub(super) fn reprioritise(
    snapshot: &Snapshot,
    job: &JobName,
    priority: &str,
) -> Result<Plan, Refusal> {
    let work = planner_context::find(snapshot, job)?;
    let model = &snapshot.workloads[work];
    if model.status == Status::Ending {
        let sentence = format!("{job} is ending: there is nothing left to change");
        return Err(Refusal::new(RefusalCode::IllegalState, sentence));
    }
    let number: Option<i32> = priority.parse().ok();
    let (mut step, value) = order(snapshot, model, priority, number)?;
    if value == model.priority {
        return Err(already(format!("{job} already has priority {value}")));
    }
    step.job = Some(planner_context::reference(model));
    step.reason = "requested".to_owned();
    let mut plan = Plan::new(
        format!("set priority of {job} to {priority}"),
        Intent::Reprioritise {
            job: job.clone(),
            priority: priority.to_owned(),
        },
        snapshot.at,
    );
    plan.undo = Undo {
        possible: true,
        notes: vec![
            "undo restores the old priority; it does not bring back jobs that were preempted in between"
                .to_owned(),
        ],
    };
    if matches!(step.mutation, Mutation::WorkloadPriority { .. }) {
        step.side_effects.notes.push(
            "the pods keep the priority they were created with: only Kueue's order changes"
                .to_owned(),
        );
    }
    plan.steps.push(step);
    let mut after = snapshot.clone();
    after.workloads[work].priority = value;
    plan.reasons.push(format!(
        "its priority changes from {} to {value}",
        model.priority
    ));
    plan.reasons.extend(places(snapshot, work, value));
    let position = plan.reasons.len();
    let then = close(snapshot, after, Vec::new(), &mut plan);
    let stays = own_start(snapshot, work, &plan.effect, &then);
    if let Some(words) = stays {
        plan.reasons.insert(position, words);
    }
    Ok(plan)
}

/// When a pending job starts, where the plan does not change that.
fn own_start(
    snapshot: &Snapshot,
    work: WorkloadId,
    effect: &PlanEffect,
    then: &Picture,
) -> Option<String> {
    let model = &snapshot.workloads[work];
    let job = planner_context::name(&model.key);
    let PlanEffect::Forecast(forecast) = effect else {
        return None;
    };
    let moves = forecast.starts.iter().any(|start| start.job == job);
    if model.status != Status::Waiting || moves || forecast.contested.contains(&job) {
        return None;
    }
    Some(match then.start(&model.key) {
        Some(at) if at <= snapshot.at => "it starts now, as it would anyway".to_owned(),
        Some(_) => "its own start does not change".to_owned(),
        None => format!("its own start stays unknown: `explain job {job}` shows the reason"),
    })
}

/// The position of a pending workload in its queue before and after its priority is `priority`, counted as its explanation counts it.
fn places(snapshot: &Snapshot, work: WorkloadId, priority: i32) -> Option<String> {
    if snapshot.workloads[work].status != Status::Waiting {
        return None;
    }
    let compiled = CompiledFleet::new(snapshot.clone());
    let queue = compiled.workloads[work].queue?;
    let order = |state: &State<'_>| cycle::pending(state).remove(&queue);
    let place = |all: &[WorkloadId]| all.iter().position(|other| *other == work);
    let mut state = State::new(&compiled);
    let was = order(&state)?;
    state.set_priority(work, priority);
    let is = order(&state)?;
    let (from, to) = (place(&was)?, place(&is)?);
    let words = |side: &str, passed: &[WorkloadId]| {
        let all: Vec<String> = passed
            .iter()
            .map(|other| compiled.workload(*other).key.to_string())
            .collect();
        format!(
            "it moves from position {} to {} of the jobs waiting in its queue, {side} {}",
            from + 1,
            to + 1,
            first_named(&all, NAMED)
        )
    };
    Some(match from.cmp(&to) {
        Ordering::Equal => format!(
            "it stays at position {} of the jobs waiting in its queue",
            to + 1
        ),
        Ordering::Greater => words("ahead of", &was[to..from]),
        Ordering::Less => words("behind", &was[from + 1..=to]),
    })
}

/// The step that changes a priority, and the resulting number.
fn order(
    snapshot: &Snapshot,
    model: &Workload,
    priority: &str,
    number: Option<i32>,
) -> Result<(Step, i32), Refusal> {
    let top = planner_context::top(model)?;
    let classes = |of_workloads: bool| -> Vec<SubjectPriorityClass> {
        snapshot
            .classes
            .iter()
            .filter(|class| class.of_workloads == of_workloads)
            .map(|class| SubjectPriorityClass {
                name: class.name.to_string(),
                value: i64::from(class.value),
            })
            .collect()
    };
    let pick = |of_workloads: bool, kind: &str| -> Result<(String, i32), Refusal> {
        let all = classes(of_workloads);
        let by_number = number.filter(|_| !of_workloads);
        let name = class(&all, priority, by_number, kind)?;
        let value = all.iter().find(|class| class.name == name);
        let value = value.and_then(|class| i32::try_from(class.value).ok());
        Ok((name, value.unwrap_or(0)))
    };
    match planner_context::system(snapshot, model) {
        System::Kueue => {
            let object = planner_context::admission(model, System::Kueue).ok_or_else(|| {
                let sentence =
                    format!("{top} is managed by Kueue, which has created no Workload for it");
                Refusal::new(RefusalCode::Unknown, sentence)
            })?;
            if let Some(value) = number {
                let mutation = Mutation::WorkloadPriority { value };
                let mut step = planner_context::step(Verb::Reprioritise, &object, mutation)?;
                step.guards
                    .push(fact(&object, "/spec/priority", model.priority));
                return Ok((step, value));
            }
            let (name, value) = pick(true, "WorkloadPriorityClass")?;
            let mutation = Mutation::KueuePriorityClass { name };
            let mut step = planner_context::step(Verb::Reprioritise, &top, mutation)?;
            step.guards.push(planner_context::exists(&top));
            Ok((step, value))
        }
        System::Volcano => {
            let (name, value) = pick(false, "PriorityClass")?;
            let object = match &*top.place.group {
                "batch.volcano.sh" => top,
                _ => planner_context::admission(model, System::Volcano).unwrap_or(top),
            };
            let mutation = Mutation::VolcanoPriorityClass { name };
            let mut step = planner_context::step(Verb::Reprioritise, &object, mutation)?;
            step.guards.push(planner_context::exists(&object));
            Ok((step, value))
        }
        System::Kai => {
            let (name, value) = pick(false, "PriorityClass")?;
            let mut step = planner_context::step(
                Verb::Reprioritise,
                &top,
                Mutation::KaiPriorityClass { name },
            )?;
            step.side_effects.notes.push(KAI_LATER.to_owned());
            step.guards.push(planner_context::exists(&top));
            Ok((step, value))
        }
        System::Stokehold => {
            let Some(value) = number else {
                let sentence =
                    format!("`{priority}` is not a number; stokehold.dev/priority takes a number");
                return Err(Refusal::new(RefusalCode::Unsupported, sentence));
            };
            let mutation = Mutation::Annotate {
                key: "stokehold.dev/priority".to_owned(),
                value: Some(value.to_string()),
            };
            let mut step = planner_context::step(Verb::Reprioritise, &top, mutation)?;
            step.guards.push(planner_context::exists(&top));
            Ok((step, value))
        }
        System::None => {
            let sentence = format!(
                "{top}: a pod's priority is fixed when the pod is created, and no queueing system manages this job"
            );
            Err(Refusal::new(RefusalCode::Unsupported, sentence)
                .instead("hold the jobs ahead in the queue: `plan hold NS/NAME`")
                .instead("recreate it with another priorityClassName")
                .instead("submit it to a Kueue queue, whose order can be changed"))
        }
    }
}
