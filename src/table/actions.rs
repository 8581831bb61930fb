//! What may be done to the cluster, and what was done: the right to write, and the runs of the journal.

use std::collections::BTreeMap;

use model::base::{Moment, Name};
use model::fleet::finding::Finding;
use model::fleet::job::JobState;
use model::fleet::{Fleet, checks};
use model::plan::{Intent, JobName, Mutation, Plan};

/// Whether this console may write.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum May {
    /// Nobody has looked yet.
    #[default]
    Unknown,
    /// It may.
    Yes,
    /// It may not.
    No {
        /// A few words for a greyed key: `read-only`.
        short: String,
        /// What says so and what would change it.
        sentence: String,
    },
}

/// Where a step of a run stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StepState {
    /// Nothing was sent.
    Todo,
    /// It waits before its call, or was sent and is not over.
    Waiting,
    /// Sent, and nobody knows whether it was carried out.
    Unresolved,
    /// Carried out.
    Done,
    /// It was so already.
    Already,
    /// Left undone, as its plan allows.
    Left,
    /// Failed.
    Failed,
}

impl StepState {
    /// As a person says it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Todo => "not done",
            Self::Waiting => "waits",
            Self::Unresolved => "sent, not answered",
            Self::Done => "done",
            Self::Already => "was so already",
            Self::Left => "left undone",
            Self::Failed => "failed",
        }
    }

    /// Nothing more comes of it.
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Done | Self::Already | Self::Left | Self::Failed)
    }
}

/// One step of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StepRow {
    /// What it does: `suspend Job nlp/train`.
    pub words: String,
    /// Where it stands.
    pub stand: StepState,
    /// What it waits for, or why it failed; empty otherwise.
    pub note: String,
}

/// How a run stands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum RunState {
    /// It is being carried out.
    Running,
    /// Its process has ended in the middle of it.
    BrokenOff,
    /// Its operator stopped it after a step.
    Stopped,
    /// A step failed; nothing was sent after it.
    Failed,
    /// Every step is over, and something is not as it was to be: a step was left undone, or a node is not empty.
    Incomplete,
    /// Every step is over.
    Done,
    /// Another run has taken back what it did.
    Undone,
}

impl RunState {
    /// Its word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::BrokenOff => "broken off",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
            Self::Incomplete => "incomplete",
            Self::Done => "done",
            Self::Undone => "undone",
        }
    }

    /// Whether it can be taken up again.
    pub const fn can_go_on(self) -> bool {
        matches!(self, Self::BrokenOff | Self::Stopped)
    }
}

/// One run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunRow {
    /// Its name.
    pub name: String,
    /// What was done.
    pub title: String,
    /// When it began.
    pub begun: Moment,
    /// By whom.
    pub by: String,
    /// Why; may be empty.
    pub reason: String,
    /// How it stands.
    pub state: RunState,
    /// Why it failed, or what is not as it was to be; empty otherwise.
    pub words: String,
    /// Its steps.
    pub steps: Vec<StepRow>,
    /// The nodes that it has cordoned, which its undo opens again.
    pub cordons: Vec<Name>,
    /// The job that it was to start.
    pub starts: Option<JobName>,
    /// The jobs whose work it stopped, or had its scheduler stop.
    pub stopped: Vec<JobName>,
    /// The jobs that it keeps from running until it goes on or is undone.
    pub holds: Vec<JobName>,
}

impl RunRow {
    /// Steps that are over.
    pub fn over(&self) -> usize {
        self.steps
            .iter()
            .filter(|step| step.stand.is_over())
            .count()
    }

    /// Why a job does not run, where this run keeps it from that, and how that ends.
    pub fn holding(&self, job: &JobName) -> Option<String> {
        let name = &self.name;
        let ends = match self.state {
            RunState::Running => "until its last step".to_owned(),
            RunState::BrokenOff | RunState::Stopped => format!(
                "{}: it goes on with `plan continue {name} --apply`, and is undone with `plan undo {name} --apply`",
                self.state.name()
            ),
            RunState::Failed => {
                format!("failed: it is undone with `plan undo {name} --apply`")
            }
            RunState::Incomplete | RunState::Done | RunState::Undone => return None,
        };
        let holds = self.holds.contains(job);
        holds.then(|| format!("held by run {name} ({}), {ends}", self.title))
    }
}

/// What may be done, and what was done on this cluster.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ActionState {
    /// The right to write.
    pub may: May,
    /// By command: the right that is missing for it, `patch nodes`.
    pub lacking: BTreeMap<&'static str, String>,
    /// Runs, the latest first.
    pub runs: Vec<RunRow>,
}

impl ActionState {
    /// The run of this name.
    pub fn run(&self, name: &str) -> Option<&RunRow> {
        self.runs.iter().find(|run| run.name == name)
    }

    /// Why a job does not run, where a run keeps it from that.
    pub fn holding(&self, job: &JobName) -> Option<String> {
        self.runs.iter().find_map(|run| run.holding(job))
    }

    /// Why a command would change nothing, in a few words; `None` where it may.
    pub fn barred(&self, command: &str) -> Option<String> {
        match &self.may {
            May::No { short, .. } => Some(short.clone()),
            May::Unknown | May::Yes => self
                .lacking
                .get(command)
                .map(|right| format!("needs {right}")),
        }
    }
}

/// What keeps nodes that a plan opens out of service still, one line a fault: `h100-5/gpu7 still has XID 79: undo lets work start
/// there again`.
pub fn opens_faulty(findings: &[Finding], plan: &Plan) -> Vec<String> {
    let steps = plan.steps.iter();
    let opened = steps.filter(|step| matches!(step.lever, Mutation::Uncordon));
    let nodes: Vec<Name> = opened.map(|step| step.object.name.clone()).collect();
    if matches!(plan.intent, Intent::Undo { .. }) {
        return still_faulty(findings, &nodes, "undo");
    }
    // A plan that uncordons says itself which of its nodes are not ready.
    let is_told = |finding: &&Finding| finding.code.as_str() == "node-not-ready";
    let others = findings.iter().filter(|finding| !is_told(finding));
    still_faulty(others, &nodes, "uncordon")
}

/// The same of these nodes, which `verb` opens.
pub fn still_faulty<'a>(
    findings: impl IntoIterator<Item = &'a Finding>,
    nodes: &[Name],
    verb: &str,
) -> Vec<String> {
    let told = |finding: &Finding| {
        let name = finding.subject.key.name.as_str();
        let node = match finding.subject.kind {
            "Node" => name,
            "Device" => name.rsplit_once('/')?.0,
            _ => return None,
        };
        let here = nodes.iter().any(|known| known.as_str() == node);
        let fault = here.then(|| checks::fault(&finding.code)).flatten()?;
        Some(format!(
            "{name} still {fault}: {verb} lets work start there again"
        ))
    };
    findings.into_iter().filter_map(told).collect()
}

/// What a job that was to be started waits for; `None` once all its devices are its own, and when it has ended well.
pub fn not_started(fleet: &Fleet, job: &JobName) -> Option<String> {
    let Some(job) = fleet.job_named(&job.to_string()) else {
        return Some(String::from("it is not there any more"));
    };
    let reason = match job.reason.is_empty() {
        true => String::new(),
        false => format!(": {}", job.reason),
    };
    match job.state {
        JobState::Running | JobState::Finishing | JobState::Done => None,
        JobState::Starting if job.devices_allocated >= job.devices_requested => None,
        JobState::Starting => Some(format!(
            "it has {} of its {} devices{reason}",
            job.devices_allocated, job.devices_requested
        )),
        JobState::Waiting if job.admission.as_ref().is_some_and(|it| it.has_quota()) => Some(
            format!("it has its quota, and its pods wait for nodes{reason}"),
        ),
        JobState::Waiting => Some(format!("it waits{reason}")),
        JobState::Suspended => Some(String::from("it is held")),
        JobState::Failed => Some(format!("it failed{reason}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::base::ObjectKey;
    use model::fleet::finding::{Severity, Subject};
    use model::plan::{Object, Step, Verb};

    fn finding(kind: &'static str, name: &str, code: &str) -> Finding {
        Finding {
            id: Name::new(code),
            severity: Severity::Crit,
            code: Name::new(code),
            subject: Subject {
                kind,
                key: ObjectKey::new("", name),
            },
            since: Moment::default(),
            first_seen: false,
            value: None,
            threshold: None,
            message: String::new(),
            repair: String::new(),
        }
    }

    #[test]
    fn a_plan_that_opens_a_broken_node_says_so() {
        let findings = [
            finding("Device", "h100-5/gpu7", "xid-79"),
            finding("Node", "h100-5", "node-not-ready"),
            finding("Device", "h100-5/gpu6", "idle-allocated"),
            finding("Device", "h100-50/gpu1", "xid-79"),
        ];
        let run = String::from("r1");
        let mut plan = Plan::new("undo drain", Intent::Undo { run }, Moment::default());
        assert!(opens_faulty(&findings, &plan).is_empty(), "opens nothing");
        let node = Object::new("", "v1", "nodes", "Node", "h100-5");
        let step = Step::new(Verb::Uncordon, node, Mutation::Uncordon);
        plan.steps.push(step);
        assert_eq!(
            opens_faulty(&findings, &plan),
            [
                "h100-5/gpu7 still has XID 79: undo lets work start there again",
                "h100-5 still is not ready: undo lets work start there again",
            ]
        );
    }

    #[test]
    fn a_job_that_was_started_and_lacks_devices_is_said_to_wait() {
        let mut fleet = (*crate::sample::facts().fleet).clone();
        let found = fleet
            .jobs
            .iter()
            .position(|job| job.state == JobState::Running);
        let at = found.expect("one runs");
        let name = JobName(fleet.jobs[at].id.key.clone());
        assert_eq!(not_started(&fleet, &name), None);
        let mut with = |state: JobState, held: u32, reason: &str| {
            let mut jobs = fleet.jobs.to_vec();
            let job = std::sync::Arc::make_mut(&mut jobs[at]);
            (job.state, job.devices_requested, job.devices_allocated) = (state, 8, held);
            (job.reason, job.admission) = (Name::new(reason), None);
            fleet.jobs = jobs.into();
            not_started(&fleet, &name)
        };
        assert_eq!(with(JobState::Starting, 8, ""), None);
        assert_eq!(
            with(JobState::Starting, 4, "no room").as_deref(),
            Some("it has 4 of its 8 devices: no room")
        );
        assert_eq!(with(JobState::Waiting, 0, "").as_deref(), Some("it waits"));
        let gone = JobName(ObjectKey::new("nobody", "knows"));
        assert!(not_started(&fleet, &gone).is_some());
    }
}
