//! Hold: a job releases its devices and waits until it is resumed; a queue stops admitting.

use serde_json::Value;

use cluster::mutations::{self, has_condition, text};
use model::base::Moment;
use model::fleet::govern::{HOLD, SUSPENDED};
use model::plan::{
    Alternative, Intent, Mutation, Object, Plan, Refusal, RefusalCode, Step, StopPolicy, Test,
    Undo, Until, Verb, VolcanoAction, Wait, WaitOrder,
};

use super::{ActionTarget, FoundObject, JobSubject, StartSystem, not_computed};

/// How long controllers may take to react, seconds.
pub(super) const SETTLE: u64 = 300;

/// A wait for a controller's reaction to a call.
pub(super) fn after(until: Until) -> Wait {
    Wait {
        at_most_seconds: Some(SETTLE),
        ..Wait::new(WaitOrder::After, until)
    }
}

pub(super) fn already(sentence: String) -> Refusal {
    Refusal::new(RefusalCode::AlreadySo, sentence)
}

/// The plan that holds a job or a queue; `named` is the name as it was typed.
///
/// # Errors
/// It is on hold already, has ended, or its kind does not support it.
pub fn plan(target: &ActionTarget, named: &str, now: Moment) -> Result<Plan, Refusal> {
    let mut plan = Plan::new(
        format!("hold {named}"),
        Intent::Hold {
            target: named.to_owned(),
        },
        now,
    );
    plan.effect = not_computed();
    let steps = match target {
        ActionTarget::Job(subject) => {
            plan.reasons.extend(subject.detour());
            let steps = job(subject, now)?;
            let waits = |step: &Step| matches!(step.mutation, Mutation::Annotate { .. });
            plan.reasons
                .extend(steps.iter().any(waits).then(|| KEPT_OUT.to_owned()));
            steps
        }
        ActionTarget::Queue(found) => vec![queue(found, &mut plan)?],
    };
    plan.undo = Undo {
        possible: true,
        notes: if steps.iter().any(|step| step.side_effects.interrupts) {
            vec![
                "other jobs may have taken its devices by then; work since the last checkpoint is lost"
                    .to_owned(),
            ]
        } else {
            Vec::new()
        },
    };
    let reads = steps.iter().flat_map(|step| step.guards.iter().cloned());
    plan.reads.extend(reads);
    plan.alternatives
        .extend(steps.first().map(|step| back(step, named)));
    plan.steps = steps;
    Ok(plan)
}

fn job(subject: &JobSubject, now: Moment) -> Result<Vec<Step>, Refusal> {
    match subject.system() {
        StartSystem::Kueue => {
            let made = subject.made_workloads()?;
            let active: Vec<&FoundObject> = made.iter().filter(|one| is_active(one)).collect();
            if active.is_empty() {
                return Err(already(format!("{} is already held", subject.top().object)));
            }
            let steps = active.into_iter().map(|one| workload(subject, one, now));
            steps.collect()
        }
        _ => Ok(vec![top(subject, now)?]),
    }
}

/// Whether Kueue may admit a Workload.
pub(super) fn is_active(workload: &FoundObject) -> bool {
    let active = workload.now.pointer("/spec/active");
    active.and_then(Value::as_bool) != Some(false)
}

/// The step that stops the admitted pods of one Workload of a job.
fn workload(subject: &JobSubject, workload: &FoundObject, now: Moment) -> Result<Step, Refusal> {
    let mut step = Step::new(
        Verb::Suspend,
        workload.object.clone(),
        Mutation::WorkloadActive { value: false },
    );
    step.guards.push(workload.same("/spec/active"));
    if has_condition(&workload.now, "QuotaReserved", "True") {
        step.waits.push(after(Until::Condition {
            name: "QuotaReserved".to_owned(),
            status: "False".to_owned(),
        }));
    }
    mutations::support(&step.object, &step.mutation)?;
    mutations::illegal(&step, &workload.now)?;
    step.side_effects = subject.stopping(Some(workload), now);
    step.job = Some(subject.reference_of(workload));
    step.reason = "requested".to_owned();
    Ok(step)
}

/// The step that stops a job by its top owner.
fn top(subject: &JobSubject, now: Moment) -> Result<Step, Refusal> {
    let top = subject.top();
    let mut step = match subject.system() {
        StartSystem::VolcanoJob => {
            let phase = text(&top.now, "/status/state/phase");
            if matches!(phase, "Aborting" | "Aborted") {
                return Err(already(format!("{} is already held", top.object)));
            }
            let mut step = Step::new(
                Verb::Suspend,
                top.object.clone(),
                Mutation::VolcanoCommand {
                    action: VolcanoAction::AbortJob,
                },
            );
            step.waits.push(after(Until::Is {
                path: "/status/state/phase".to_owned(),
                value: "Aborted".into(),
            }));
            step
        }
        _ => {
            let (verb, mutation) = match is_scaled(&top.object) {
                true => (Verb::Scale, Mutation::Scale { replicas: 0 }),
                false => (Verb::Suspend, Mutation::Suspend { value: true }),
            };
            let mut step = Step::new(verb, top.object.clone(), mutation);
            mutations::support(&step.object, &step.mutation)?;
            if mutations::is_done(&step, Some(&top.now)) {
                if subject.system() == StartSystem::Ours && govern_hold(top).is_none() {
                    return kept_out(subject, &step);
                }
                return Err(already(format!("{} is already held", top.object)));
            }
            step.guards
                .extend(mutations::fields(&step).iter().map(|path| top.same(path)));
            if matches!(step.mutation, Mutation::Suspend { .. }) {
                step.waits.extend(suspended(&top.object));
            }
            step
        }
    };
    mutations::support(&step.object, &step.mutation)?;
    mutations::illegal(&step, &top.now)?;
    step.side_effects = subject.stopping(None, now);
    if matches!(step.mutation, Mutation::Scale { .. }) {
        step.side_effects.notes.push(SCALED.to_owned());
    }
    step.job = Some(subject.reference());
    step.reason = "requested".to_owned();
    Ok(step)
}

/// What a hold does to a job that waits in a queue of `govern`.
pub(super) const KEPT_OUT: &str =
    "it is pending in its queue and has no devices: `govern` does not admit it until it is resumed";

/// The mutation that keeps a job in its queue of `govern`, or ends that.
pub(super) fn keeps_out(holds: bool) -> Mutation {
    Mutation::Annotate {
        key: HOLD.to_owned(),
        value: holds.then(|| "true".to_owned()),
    }
}

/// The hold that a job of `govern` states; `None` where it states none.
pub(super) fn govern_hold(top: &FoundObject) -> Option<&str> {
    let hold = mutations::entry(&top.now, "annotations", HOLD);
    hold.filter(|value| matches!(*value, "true" | SUSPENDED))
}

/// The step that keeps a job of `govern` in its queue: it is suspended already, which alone does not hold it. `suspends` is the
/// step that would suspend it.
fn kept_out(subject: &JobSubject, suspends: &Step) -> Result<Step, Refusal> {
    let top = subject.top();
    let mut step = Step::new(Verb::Hold, top.object.clone(), keeps_out(true));
    mutations::illegal(&step, &top.now)?;
    let fields = [mutations::fields(suspends), mutations::fields(&step)].concat();
    step.guards.extend(fields.iter().map(|path| top.same(path)));
    step.job = Some(subject.reference());
    step.reason = "requested".to_owned();
    Ok(step)
}

/// Warning for an object that is put on hold by scaling it to 0.
pub(super) const SCALED: &str = "its autoscaler may scale it up again";

/// How to resume later what a step puts on hold.
pub(super) fn back(step: &Step, named: &str) -> Alternative {
    let command = match &step.mutation {
        // Only the journal has the previous number of replicas.
        Mutation::Scale { .. } => "plan undo RUN".to_owned(),
        _ => format!("plan resume {named}"),
    };
    Alternative {
        sentence: "undo it later".to_owned(),
        command: Some(command),
    }
}

/// Whether a kind is put on hold by scaling it to 0, because it cannot be suspended.
pub(super) fn is_scaled(object: &Object) -> bool {
    let has = |mutation: Mutation| mutations::support(object, &mutation).is_ok();
    !has(Mutation::Suspend { value: true }) && has(Mutation::Scale { replicas: 0 })
}

/// A wait for the controller's condition that an object is suspended; `None` for kinds without one.
pub(super) fn suspended(top: &Object) -> Option<Wait> {
    match &*top.place.group {
        "batch" | "jobset.x-k8s.io" | "trainer.kubeflow.org" | "kubeflow.org" => {
            Some(after(Until::Condition {
                name: "Suspended".to_owned(),
                status: "True".to_owned(),
            }))
        }
        "ray.io" if &*top.place.plural == "rayjobs" => Some(after(Until::Is {
            path: "/status/jobDeploymentStatus".to_owned(),
            value: "Suspended".into(),
        })),
        _ => None,
    }
}

fn queue(found: &FoundObject, plan: &mut Plan) -> Result<Step, Refusal> {
    let mut step = match &*found.object.place.group {
        "scheduling.volcano.sh" => Step::new(
            Verb::Hold,
            found.object.clone(),
            Mutation::VolcanoCommand {
                action: VolcanoAction::CloseQueue,
            },
        ),
        _ => Step::new(
            Verb::Hold,
            found.object.clone(),
            Mutation::StopPolicy {
                value: StopPolicy::Hold,
            },
        ),
    };
    mutations::support(&step.object, &step.mutation)?;
    let policy = text(&found.now, "/spec/stopPolicy");
    if mutations::is_done(&step, Some(&found.now)) || policy == StopPolicy::HoldAndDrain.word() {
        return Err(already(format!("{} is already held", found.object)));
    }
    if matches!(step.mutation, Mutation::StopPolicy { .. }) {
        step.guards.push(found.same("/spec/stopPolicy"));
    } else {
        step.guards.push(found.fact(Test::Exists));
    }
    step.reason = "requested".to_owned();
    plan.reasons
        .push("running jobs continue; no new job is admitted".to_owned());
    Ok(step)
}
