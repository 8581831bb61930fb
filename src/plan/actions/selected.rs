//! The objects that an action is asked for in the console, and what its key asks for.

use model::base::{Name, ObjectKey, SmallSort};
use model::fleet::Fleet;
use model::fleet::job::{Job, JobKey, JobState};
use model::fleet::node::Node;
use model::plan::{Intent, JobName};

/// What an action asks for once its objects are known.
#[derive(Clone, PartialEq, Debug)]
pub enum ActionRequest {
    Intent(Intent),
    /// Ask for a priority for this job.
    Priority(JobName),
    /// Ask for a replica count for this workload.
    Replicas(JobKey),
    /// Ask for a reason to cordon these nodes.
    Cordon(Vec<Name>),
    /// Continue the run of this name.
    Continue(String),
}

/// What an action can be offered for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ObjectKind {
    /// A job or pod without a number of replicas.
    Job,
    /// A workload with a number of replicas.
    Scalable,
    /// A node or one of its devices.
    Node,
    Pool,
    Queue,
    Run,
}

impl ObjectKind {
    /// What it is called: `workload with replicas`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Job => "job",
            Self::Scalable => "workload with replicas",
            Self::Node => "node",
            Self::Pool => "pool",
            Self::Queue => "queue",
            Self::Run => "run",
        }
    }
}

/// The object that an action is asked for.
#[derive(Clone, PartialEq, Debug)]
pub enum SelectedObject {
    Job(JobKey),
    Pod(ObjectKey),
    Node(Name),
    /// A device: node and index.
    Device(Name, u32),
    Pool(Name),
    Queue(Name),
    Run,
    /// Nothing that an action is for.
    Other,
}

impl SelectedObject {
    /// What kind it is; `None` where no action is for it.
    pub fn kind(&self) -> Option<ObjectKind> {
        Some(match self {
            Self::Job(id) if has_replicas(id) => ObjectKind::Scalable,
            Self::Job(_) | Self::Pod(_) => ObjectKind::Job,
            Self::Node(_) | Self::Device(..) => ObjectKind::Node,
            Self::Pool(_) => ObjectKind::Pool,
            Self::Queue(_) => ObjectKind::Queue,
            Self::Run => ObjectKind::Run,
            Self::Other => return None,
        })
    }
}

/// A run of the journal, as far as actions go by it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SelectedRun {
    pub name: String,
    /// Its state, in a word.
    pub state: &'static str,
    pub can_continue: bool,
    /// Which run has undone it: `undone by run-2`; `None` where none has.
    pub undone: Option<String>,
}

/// Whether an action can have an effect on the selected object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Availability {
    Available,
    /// It has none in the object's present state, for this reason.
    Idle(String),
    /// It cannot apply: it is not offered.
    Hidden,
}

/// The objects under the cursor or marked, with their known facts.
pub struct Selected<'a> {
    pub fleet: &'a Fleet,
    pub objects: &'a [SelectedObject],
    /// The selected run, else the last one.
    pub run: Option<SelectedRun>,
    /// Whether evictions are known that start a job.
    pub can_start: &'a dyn Fn(&JobKey) -> bool,
}

impl Selected<'_> {
    /// The kind of the only object.
    pub fn kind(&self) -> Option<ObjectKind> {
        match self.objects {
            [one] => one.kind(),
            _ => None,
        }
    }

    /// The selected job, the job of the selected pod, or the holder of the selected device.
    ///
    /// # Errors
    /// There is no such job, or there are several objects.
    pub(super) fn job(&self) -> Result<&Job, String> {
        let id = match self.objects {
            [SelectedObject::Job(id)] => id,
            [SelectedObject::Pod(pod)] => {
                let found = self.fleet.pod(pod);
                &found.ok_or("this pod no longer exists")?.job
            }
            [SelectedObject::Device(node, index)] => {
                let node = self.fleet.node(node).ok_or("this node no longer exists")?;
                let device = node.device(*index);
                let holder = device.and_then(|device| device.holder.as_ref());
                &holder.ok_or("this device is free")?.job
            }
            [_, _, ..] => {
                let count = self.objects.len();
                return Err(format!("one job at a time; {count} are marked"));
            }
            _ => return Err(String::from("put the cursor on a job")),
        };
        let found = self.fleet.job(id).map(|job| &**job);
        found.ok_or_else(|| format!("{id} no longer exists"))
    }

    /// As [`Selected::job`], of a job that has not ended.
    pub(super) fn unfinished_job(&self) -> Result<&Job, String> {
        let job = self.job()?;
        match has_ended(job) {
            true => Err(format!("{} has ended", job.id.key)),
            false => Ok(job),
        }
    }

    /// The name of [`Selected::unfinished_job`].
    pub(super) fn unfinished_job_name(&self) -> Result<JobName, String> {
        Ok(JobName(self.unfinished_job()?.id.key.clone()))
    }

    /// The selected job or that of the selected pod, where its state says whether an action applies.
    pub(super) fn shown_job(&self) -> Option<&Job> {
        match self.objects {
            [SelectedObject::Job(_) | SelectedObject::Pod(_)] => self.job().ok(),
            _ => None,
        }
    }

    /// The names of the selected nodes and of the nodes of selected pools, sorted, each once.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn nodes(&self) -> Result<Vec<Name>, String> {
        let mut nodes: Vec<Name> = Vec::new();
        for object in self.objects {
            match object {
                SelectedObject::Node(name) | SelectedObject::Device(name, _) => {
                    nodes.push(name.clone());
                }
                SelectedObject::Pool(pool) => {
                    let all = self.fleet.nodes.iter();
                    let own = |node: &&std::sync::Arc<Node>| {
                        node.pool == *pool && !node.devices.is_empty()
                    };
                    nodes.extend(all.filter(own).map(|node| node.name().clone()));
                }
                _ => {}
            }
        }
        nodes.small_sort();
        nodes.dedup();
        match nodes.is_empty() {
            true => Err(String::from("put the cursor on a node or a pool")),
            false => Ok(nodes),
        }
    }
}

/// True for workload kinds with a number of replicas.
pub fn has_replicas(id: &JobKey) -> bool {
    let kind = id.kind.as_str();
    matches!(kind, "Deployment" | "StatefulSet" | "LeaderWorkerSet")
}

pub(super) fn has_ended(job: &Job) -> bool {
    matches!(job.state, JobState::Done | JobState::Failed)
}

pub(super) fn is_waiting(job: &Job) -> bool {
    matches!(job.state, JobState::Waiting | JobState::Suspended)
}
