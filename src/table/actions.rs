//! Write access and the runs of the journal.

use std::collections::BTreeMap;

use model::base::{Moment, Name, ObjectKey};
use model::fleet::Fleet;
use model::fleet::finding;
use model::fleet::finding::Finding;
use model::fleet::job::JobState;
use model::plan::{Intent, JobName, Mutation, Plan};

use crate::rows::lost_work::TeamLoss;

/// Whether this console may write to the cluster.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum May {
    #[default]
    Unknown,
    Yes,
    /// Writes are not allowed.
    No {
        /// A short reason beside a disabled key: `read-only`.
        short: String,
        /// What forbids it and how to change that.
        sentence: String,
    },
}

/// State of one step of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StepState {
    Todo,
    /// Waiting before its call, or sent and not finished.
    Waiting,
    /// Sent; the outcome is unknown.
    Unresolved,
    Done,
    /// The object already had the target state.
    Already,
    /// Skipped, as its plan allows.
    Left,
    Failed,
}

impl StepState {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Todo => "not done",
            Self::Waiting => "waiting",
            Self::Unresolved => "sent, not answered",
            Self::Done => "done",
            Self::Already => "unchanged",
            Self::Left => "skipped",
            Self::Failed => "failed",
        }
    }

    /// True in a final state.
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Done | Self::Already | Self::Left | Self::Failed)
    }
}

/// One step of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StepRow {
    /// What the step does: `suspend Job nlp/train`.
    pub words: String,
    pub state: StepState,
    /// When it was first sent or first waited; `None` before.
    pub began: Option<Moment>,
    /// What it waits for, or why it failed; empty otherwise.
    pub note: String,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum RunState {
    Running,
    /// Its process ended before the run did.
    BrokenOff,
    /// Stopped by its operator after a step.
    Stopped,
    /// A step failed; nothing was sent after it.
    Failed,
    /// Every step is final, but the target state was not reached: a step was skipped, or a node is not empty.
    Incomplete,
    /// Every step is final.
    Done,
    /// Another run has undone it.
    Undone,
}

impl RunState {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::BrokenOff => "interrupted",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
            Self::Incomplete => "incomplete",
            Self::Done => "done",
            Self::Undone => "undone",
        }
    }

    /// Whether the run can be continued.
    pub const fn can_go_on(self) -> bool {
        matches!(self, Self::BrokenOff | Self::Stopped)
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunRow {
    pub name: String,
    /// Title of its plan.
    pub title: String,
    pub begun: Moment,
    /// Time of its last step so far.
    pub last: Moment,
    /// User who started it.
    pub by: String,
    /// Why; may be empty.
    pub reason: String,
    pub state: RunState,
    /// Why it failed or is incomplete; empty otherwise.
    pub words: String,
    pub steps: Vec<StepRow>,
    /// Nodes that it cordoned and that its undo uncordons.
    pub cordons: Vec<Name>,
    /// For a finished run: a sentence that says why there is nothing to undo; `None` where an undo would change something.
    pub no_undo: Option<String>,
    pub starts: Option<JobName>,
    /// Jobs that it evicted, or had their scheduler preempt.
    pub stopped: Vec<JobName>,
    /// What these jobs lose by the forecast of its plan, by team; empty where it has none.
    pub losses: Vec<TeamLoss>,
    /// Pods that it evicted, each with its job.
    pub evicted: Vec<(JobName, ObjectKey)>,
    /// Jobs that it keeps suspended until it is continued or undone.
    pub suspended_jobs: Vec<JobName>,
}

impl RunRow {
    /// Number of steps in a final state.
    pub fn over(&self) -> usize {
        self.steps
            .iter()
            .filter(|step| step.state.is_over())
            .count()
    }
}

/// Write access, and the runs on this cluster.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ActionState {
    pub may: May,
    /// The missing right by command: `patch nodes`.
    pub lacking: BTreeMap<&'static str, String>,
    pub runs: Vec<RunRow>,
}

impl ActionState {
    pub fn run(&self, name: &str) -> Option<&RunRow> {
        self.runs.iter().find(|run| run.name == name)
    }

    /// Why a command is not allowed, in a few words; `None` where it is.
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

/// Faults on the nodes that a plan uncordons, one line each: `h100-5/gpu7 still has XID 79: undo lets work start there again`.
pub fn opens_faulty(findings: &[Finding], plan: &Plan) -> Vec<String> {
    let steps = plan.steps.iter();
    let opened = steps.filter(|step| matches!(step.mutation, Mutation::Uncordon));
    let nodes: Vec<Name> = opened.map(|step| step.object.name.clone()).collect();
    if matches!(plan.intent, Intent::Undo { .. }) {
        return still_faulty(findings, &nodes, "undo");
    }
    // An uncordon plan reports nodes that are not ready itself.
    let is_repeated = |finding: &&Finding| finding.code.as_str() == "node-not-ready";
    let others = findings.iter().filter(|finding| !is_repeated(finding));
    still_faulty(others, &nodes, "uncordon")
}

/// The same lines for `nodes`; `verb` names the action that uncordons them.
pub fn still_faulty<'a>(
    findings: impl IntoIterator<Item = &'a Finding>,
    nodes: &[Name],
    verb: &str,
) -> Vec<String> {
    let affected = |finding: &Finding| {
        let name = finding.subject.key.name.as_str();
        let node = match finding.subject.kind {
            "Node" => name,
            "Device" => name.rsplit_once('/')?.0,
            _ => return None,
        };
        let here = nodes.iter().any(|known| known.as_str() == node);
        let fault = here.then(|| finding::fault(&finding.code)).flatten()?;
        Some(format!(
            "{name} still {fault}: {verb} allows new pods there"
        ))
    };
    findings.into_iter().filter_map(affected).collect()
}

/// What keeps a job that a run was to start from running; `None` once it has all its devices or has ended.
pub fn not_started(fleet: &Fleet, job: &JobName) -> Option<String> {
    let Some(job) = fleet.job_named(&job.to_string()) else {
        return Some(String::from("it no longer exists"));
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
        JobState::Waiting if job.admission.as_ref().is_some_and(|it| it.has_quota()) => {
            Some(format!("it has quota, and its pods wait for nodes{reason}"))
        }
        JobState::Waiting => Some(format!("it is waiting{reason}")),
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
            at_least: false,
            value: None,
            threshold: None,
            message: String::new(),
            repair: String::new(),
            members: Box::default(),
            also: Box::default(),
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
                "h100-5/gpu7 still has XID 79: undo allows new pods there",
                "h100-5 still is not ready: undo allows new pods there",
            ]
        );
    }

    #[test]
    fn a_started_job_without_devices_is_reported_as_waiting() {
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
        assert_eq!(
            with(JobState::Waiting, 0, "").as_deref(),
            Some("it is waiting")
        );
        let gone = JobName(ObjectKey::new("nobody", "knows"));
        assert!(not_started(&fleet, &gone).is_some());
    }
}
