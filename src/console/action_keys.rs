//! Action keys (capital letters): the selected or marked object becomes an intent. Nothing here changes a cluster.

use model::base::{Name, ObjectKey, SmallSort};
use model::fleet::job::{Job, JobKey, JobState};
use model::fleet::queue::{Queue, QueueKind, QueueSystem};
use model::plan::{Intent, JobName, Known, Plan, Refusal};
use plan::grant::Confirmation;
use table::Facts;
use table::actions::RunState;
use table::navigation::Selection;

use super::commands::Command;

/// A request for a plan. The number matches an outcome to its request.
#[derive(Clone, PartialEq, Debug)]
pub struct PlanRequest {
    /// Number of the request.
    pub number: u64,
    pub intent: Intent,
    /// The victims that the operator has seen: those of the shown plan, or those on the job's page.
    pub known: Known,
}

/// The result of a plan request.
#[derive(Clone, PartialEq, Debug)]
pub enum PlanOutcome {
    /// A plan, with its checks.
    Plan(Box<Plan>),
    Refused(Refusal),
    /// Failed: no answer from the server.
    Failed(String),
}

/// A plan that its operator has confirmed.
#[derive(Clone, PartialEq, Debug)]
pub struct ConfirmedPlan {
    /// Number of the plan request.
    pub number: u64,
    /// The plan as it was shown.
    pub plan: Plan,
    /// How the operator confirmed it.
    pub confirmation: Confirmation,
}

/// What an action key requests.
#[derive(Clone, PartialEq, Debug)]
pub enum ActionRequest {
    Intent(Intent),
    /// Ask for a priority for this job.
    Priority(JobName),
    /// Ask for a replica count for this workload.
    Replicas(JobKey),
    /// Ask for a reason to cordon these nodes.
    Cordon(Vec<Name>),
    GoOn(String),
}

impl Command {
    /// True for a command that opens a plan.
    pub const fn is_deed(self) -> bool {
        matches!(
            self,
            Self::Priority
                | Self::Preempt
                | Self::Start
                | Self::Drain
                | Self::Hold
                | Self::Cordon
                | Self::Requeue
                | Self::Rebalance
                | Self::Replicas
                | Self::Undo
        )
    }
}

/// Actions that fit the selected object, most likely first.
pub fn fitting(selection: &Selection) -> &'static [Command] {
    match selection {
        Selection::Job(id) if has_replicas(id) => &[
            Command::Replicas,
            Command::Preempt,
            Command::Start,
            Command::Hold,
            Command::Requeue,
        ],
        Selection::Job(_) | Selection::Pod(_) => &[
            Command::Priority,
            Command::Preempt,
            Command::Start,
            Command::Hold,
            Command::Requeue,
        ],
        Selection::Node(_) | Selection::Device(..) => {
            &[Command::Drain, Command::Cordon, Command::Shell]
        }
        Selection::Pool(_) => &[Command::Drain, Command::Cordon, Command::Rebalance],
        Selection::Queue(_) => &[Command::Hold],
        Selection::Run(_) => &[Command::Undo, Command::Hold],
        Selection::Finding(_)
        | Selection::Source(_)
        | Selection::Cohort(_)
        | Selection::Cost(..) => &[],
    }
}

/// What an action does to an object, in a word.
pub fn title(command: Command, selection: &Selection) -> &'static str {
    match (command, selection) {
        // An interrupted or stopped run can be continued.
        (Command::Hold, Selection::Run(_)) => "continue",
        _ => command.spec().title,
    }
}

/// True for workload kinds with a replica count.
fn has_replicas(id: &JobKey) -> bool {
    let kind = id.kind.as_str();
    matches!(kind, "Deployment" | "StatefulSet" | "LeaderWorkerSet")
}

/// False where an action cannot apply: a waiting job cannot be preempted, a running one cannot be started.
pub fn makes_sense(command: Command, selection: &Selection, facts: &Facts) -> bool {
    if let Selection::Run(name) = selection {
        let run = facts.acts.run(name);
        return run.is_none_or(|run| match command {
            Command::Hold => run.state.can_go_on(),
            Command::Undo => run.state != RunState::Undone,
            _ => true,
        });
    }
    let Some(job) = job_of(selection, facts).filter(|job| !has_ended(job)) else {
        return true;
    };
    let waits = matches!(job.state, JobState::Waiting | JobState::Suspended);
    match command {
        Command::Start => waits,
        Command::Preempt | Command::Requeue => !waits,
        _ => true,
    }
}

/// Why an action would have no effect on the object in its current state; `None` where it may have one.
pub fn idle(command: Command, selection: &Selection, facts: &Facts) -> Option<String> {
    if let (Selection::Run(name), Command::Hold) = (selection, command) {
        let run = facts.acts.run(name)?;
        let stands = run.state.can_go_on();
        return (!stands).then(|| format!("it is {}: it cannot be continued", run.state.name()));
    }
    let job = job_of(selection, facts)?;
    let why = match (command, job.state) {
        _ if has_ended(job) => "it has ended",
        (Command::Start, JobState::Waiting) => {
            let quota_reserved = job
                .admission
                .as_ref()
                .is_some_and(|known| known.has_quota());
            // With known victims it can be started.
            let told = facts.answers.job(&job.id);
            let is_offered = told.is_some_and(|told| told.now.is_some());
            return (quota_reserved && !is_offered).then(|| {
                String::from("its pods wait for nodes, and no eviction is known to start it")
            });
        }
        (Command::Start, JobState::Suspended) => "it is held: press H",
        _ => return None,
    };
    Some(why.to_owned())
}

/// The selected job, or the job of the selected pod.
fn job_of<'a>(selection: &Selection, facts: &'a Facts) -> Option<&'a Job> {
    match selection {
        Selection::Job(id) => Some(facts.fleet.job(id)?),
        Selection::Pod(key) => Some(facts.fleet.job(&facts.fleet.pod(key)?.job)?),
        _ => None,
    }
}

/// The system that orders a job.
pub(crate) fn ordered_by(job: &Job) -> QueueSystem {
    let admission = job.admission.as_ref();
    admission.map_or(job.queue_system, |known| known.system())
}

/// Converts an action key on the selected objects into a request.
///
/// # Errors
/// The action does not fit; the text names what would.
pub fn action_request(
    command: Command,
    meant: &[Selection],
    facts: &Facts,
) -> Result<ActionRequest, String> {
    match command {
        Command::Drain => Ok(ActionRequest::Intent(Intent::Drain {
            nodes: nodes(meant, facts)?,
            deadline: None,
        })),
        Command::Cordon => {
            let nodes = nodes(meant, facts)?;
            let all_cordoned = nodes.iter().all(|name| {
                let node = facts.fleet.node(name);
                node.is_some_and(|node| node.cordon.is_some())
            });
            Ok(if all_cordoned {
                ActionRequest::Intent(Intent::Uncordon { nodes })
            } else {
                ActionRequest::Cordon(nodes)
            })
        }
        Command::Rebalance => Ok(ActionRequest::Intent(Intent::Rebalance {
            pool: match meant {
                [Selection::Pool(pool)] => Some(pool.clone()),
                _ => None,
            },
        })),
        Command::Undo => {
            let run = match meant {
                [Selection::Run(run)] => Some(run.to_string()),
                _ => facts.acts.runs.first().map(|run| run.name.clone()),
            };
            let run = run.ok_or("no run to undo")?;
            let undone = facts
                .acts
                .run(&run)
                .filter(|run| run.state == RunState::Undone);
            if let Some(undone) = undone {
                return Err(format!("{run} is undone already: {}", undone.words));
            }
            Ok(ActionRequest::Intent(Intent::Undo { run }))
        }
        Command::Hold => hold_request(meant, facts),
        Command::Replicas => {
            let id = &job(meant, facts)?.id;
            match has_replicas(id) {
                true => Ok(ActionRequest::Replicas(id.clone())),
                false => Err(format!(
                    "a {} has no replicas: put the cursor on a Deployment, StatefulSet or LeaderWorkerSet",
                    id.kind
                )),
            }
        }
        _ => {
            let job = going(meant, facts)?;
            let name = JobName(job.id.key.clone());
            if command == Command::Priority && ordered_by(job) == QueueSystem::None {
                return Err(format!(
                    "no queueing system orders {name}, and a pod's own priority cannot be changed"
                ));
            }
            Ok(match command {
                Command::Priority => ActionRequest::Priority(name),
                Command::Preempt => ActionRequest::Intent(Intent::Preempt { job: name }),
                Command::Requeue => ActionRequest::Intent(Intent::Requeue { job: name }),
                _ => ActionRequest::Intent(Intent::Admit {
                    job: name,
                    preempt: true,
                }),
            })
        }
    }
}

fn hold_request(meant: &[Selection], facts: &Facts) -> Result<ActionRequest, String> {
    match meant {
        [Selection::Run(name)] => {
            let run = facts.acts.run(name).ok_or("this run is not known")?;
            if !run.state.can_go_on() {
                return Err(format!(
                    "{name} is {}: it cannot be continued",
                    run.state.name()
                ));
            }
            Ok(ActionRequest::GoOn(name.to_string()))
        }
        [Selection::Queue(name)] => {
            let named = |queue: &&std::sync::Arc<Queue>| {
                queue.key.kind == QueueKind::Queue && queue.name() == name
            };
            let queue = facts.fleet.queues.iter().find(named);
            let queue = queue.ok_or_else(|| format!("no queueing system has queue {name}"))?;
            let target = format!("{}/{name}", queue.system().object_kind());
            Ok(ActionRequest::Intent(if queue.is_stopped() {
                Intent::Resume { target }
            } else {
                Intent::Hold { target }
            }))
        }
        _ => {
            let job = going(meant, facts)?;
            let JobKey { kind, key, .. } = &job.id;
            let target = format!("{kind}/{}/{}", key.namespace, key.name);
            let held = job.state == JobState::Suspended
                || job
                    .admission
                    .as_ref()
                    .is_some_and(|admission| !admission.seen.active);
            Ok(ActionRequest::Intent(if held {
                Intent::Resume { target }
            } else {
                Intent::Hold { target }
            }))
        }
    }
}

fn job<'a>(meant: &[Selection], facts: &'a Facts) -> Result<&'a Job, String> {
    let id = match meant {
        [Selection::Job(id)] => id.clone(),
        [Selection::Pod(pod)] => of_pod(pod, facts)?,
        [Selection::Device(node, index)] => {
            let node = facts.fleet.node(node).ok_or("this node no longer exists")?;
            let device = node.device(*index);
            let holder = device.and_then(|device| device.holder.as_ref());
            holder.ok_or("this device is free")?.job.clone()
        }
        [_, _, ..] => return Err(format!("one job at a time; {} are marked", meant.len())),
        _ => return Err(String::from("put the cursor on a job")),
    };
    match facts.fleet.job(&id) {
        Some(job) => Ok(job),
        None => Err(format!("{id} no longer exists")),
    }
}

/// The selected job, if it has not finished.
fn going<'a>(meant: &[Selection], facts: &'a Facts) -> Result<&'a Job, String> {
    let job = job(meant, facts)?;
    if has_ended(job) {
        return Err(format!("{} has ended", job.id.key));
    }
    Ok(job)
}

fn has_ended(job: &Job) -> bool {
    matches!(job.state, JobState::Done | JobState::Failed)
}

fn of_pod(pod: &ObjectKey, facts: &Facts) -> Result<JobKey, String> {
    let found = facts.fleet.pod(pod);
    Ok(found.ok_or("this pod no longer exists")?.job.clone())
}

fn nodes(meant: &[Selection], facts: &Facts) -> Result<Vec<Name>, String> {
    let mut nodes: Vec<Name> = Vec::new();
    for selection in meant {
        match selection {
            Selection::Node(name) | Selection::Device(name, _) => nodes.push(name.clone()),
            Selection::Pool(pool) => nodes.extend(
                facts
                    .fleet
                    .nodes
                    .iter()
                    .filter(|node| node.pool == *pool && !node.devices.is_empty())
                    .map(|node| node.name().clone()),
            ),
            _ => {}
        }
    }
    nodes.small_sort();
    nodes.dedup();
    if nodes.is_empty() {
        return Err(String::from("put the cursor on a node or a pool"));
    }
    Ok(nodes)
}
