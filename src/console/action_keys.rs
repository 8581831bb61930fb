//! Capital keys: what is under the cursor, or marked, becomes an intent. Nothing here changes a cluster.

use model::base::{Name, ObjectKey, SmallSort};
use model::fleet::job::{Job, JobKey, JobState};
use model::fleet::queue::{Queue, QueueKind};
use model::plan::{Intent, JobName, Known, Plan, Refusal};
use plan::grant::Confirmation;
use table::Facts;
use table::actions::RunState;

use super::commands::Command;
use super::view::Selection;

/// What is to be planned. Numbers tell an answer to an older question from one to this.
#[derive(Clone, PartialEq, Debug)]
pub struct PlanRequest {
    /// Number of the question.
    pub number: u64,
    /// What is wanted.
    pub intent: Intent,
    /// Whom the plan stops that is shown, or those that the job's page tells of.
    pub known: Known,
}

/// What came of it.
#[derive(Clone, PartialEq, Debug)]
pub enum PlanOutcome {
    /// A plan, with its checks.
    Plan(Box<Plan>),
    /// There is none, and what can be done instead.
    Refused(Refusal),
    /// The server did not say.
    Failed(String),
}

/// A plan that its operator has confirmed.
#[derive(Clone, PartialEq, Debug)]
pub struct ConfirmedPlan {
    /// Number of the question.
    pub number: u64,
    /// The plan as it was shown.
    pub plan: Plan,
    /// How it was agreed to.
    pub consent: Confirmation,
}

/// What a capital key comes to.
#[derive(Clone, PartialEq, Debug)]
pub enum ActionRequest {
    /// This is wanted.
    Intent(Intent),
    /// A priority has to be named for this job.
    Priority(JobName),
    /// A number of replicas has to be named for this workload.
    Replicas(JobKey),
    /// Why these nodes are to be cordoned has to be said.
    Cordon(Vec<Name>),
    /// A run that stands is to go on.
    GoOn(String),
}

impl Command {
    /// Opens a plan.
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

/// Deeds that fit what is under the cursor, the likeliest first.
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
        Selection::Finding(_) | Selection::Source(_) | Selection::Cost(..) => &[],
    }
}

/// Whether a workload is of a kind whose number of replicas is set.
fn has_replicas(id: &JobKey) -> bool {
    let kind = id.kind.as_str();
    matches!(kind, "Deployment" | "StatefulSet" | "LeaderWorkerSet")
}

/// False where a deed plainly has nothing to do: a job that waits cannot be preempted, one that runs cannot be started.
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

/// Why a deed that fits the object would do nothing to it as it stands; `None` where it may.
pub fn idle(command: Command, selection: &Selection, facts: &Facts) -> Option<String> {
    if let (Selection::Run(name), Command::Hold) = (selection, command) {
        let run = facts.acts.run(name)?;
        let stands = run.state.can_go_on();
        return (!stands).then(|| format!("it is {}: it cannot go on", run.state.name()));
    }
    let job = job_of(selection, facts)?;
    let why = match (command, job.state) {
        _ if has_ended(job) => "it has ended",
        (Command::Start, JobState::Waiting) => {
            let quota_reserved = job
                .admission
                .as_ref()
                .is_some_and(|known| known.has_quota());
            return quota_reserved.then(|| String::from("admitted: waiting for nodes"));
        }
        (Command::Start, JobState::Suspended) => "it is held: H first",
        _ => return None,
    };
    Some(why.to_owned())
}

/// The job that is meant by a job or by one of its pods.
fn job_of<'a>(selection: &Selection, facts: &'a Facts) -> Option<&'a Job> {
    match selection {
        Selection::Job(id) => Some(facts.fleet.job(id)?),
        Selection::Pod(key) => Some(facts.fleet.job(&facts.fleet.pod(key)?.job)?),
        _ => None,
    }
}

/// What a capital key asks for on what is meant.
///
/// # Errors
/// It does not fit; the words say what would.
pub fn wish(command: Command, meant: &[Selection], facts: &Facts) -> Result<ActionRequest, String> {
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
        Command::Hold => hold(meant, facts),
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

fn hold(meant: &[Selection], facts: &Facts) -> Result<ActionRequest, String> {
    match meant {
        [Selection::Run(name)] => {
            let run = facts.acts.run(name).ok_or("this run is not known")?;
            if !run.state.can_go_on() {
                return Err(format!("{name} is {}: it cannot go on", run.state.name()));
            }
            Ok(ActionRequest::GoOn(name.to_string()))
        }
        [Selection::Queue(name)] => {
            let named = |queue: &&std::sync::Arc<Queue>| {
                queue.key.kind == QueueKind::Queue && queue.name() == name
            };
            let queue = facts.fleet.queues.iter().find(named);
            let queue = queue.ok_or_else(|| format!("no queueing system knows queue {name}"))?;
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
            let node = facts.fleet.node(node).ok_or("this node has gone")?;
            let device = node.device(*index);
            let holder = device.and_then(|device| device.holder.as_ref());
            holder.ok_or("this device is free")?.job.clone()
        }
        [_, _, ..] => return Err(format!("one job at a time; {} are marked", meant.len())),
        _ => return Err(String::from("put the cursor on a job")),
    };
    match facts.fleet.job(&id) {
        Some(job) => Ok(job),
        None => Err(format!("{id} has gone")),
    }
}

/// The job that is meant, if it has not ended.
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
    Ok(found.ok_or("this pod has gone")?.job.clone())
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
