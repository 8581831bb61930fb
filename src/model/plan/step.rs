//! One step of a plan: what is done to which object by which lever, what it relies on, and what it costs.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::base::{Moment, Name};

use super::{JobName, stamp};

/// One step.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// What it is, in an operator's word.
    pub verb: Verb,
    /// What it is done to.
    pub object: Object,
    /// By which API call.
    pub lever: Mutation,
    /// The job that it touches, where it is one.
    pub job: Option<JobRef>,
    /// Facts that must still hold when it is carried out, its object's uid aside.
    pub guards: Vec<Fact>,
    /// Numbers (from 1) of earlier steps that must be over first. A step that waits holds back only these.
    pub needs: Vec<u32>,
    /// What to wait for, before the call and after it.
    pub waits: Vec<Wait>,
    /// What the lever does besides.
    pub side_effects: SideEffects,
    /// Why this step.
    pub reason: String,
}

impl Step {
    /// A step that waits for nothing and relies on its object's uid alone.
    pub fn new(verb: Verb, object: Object, lever: Mutation) -> Self {
        Self {
            verb,
            object,
            lever,
            job: None,
            guards: Vec::new(),
            needs: Vec::new(),
            waits: Vec::new(),
            side_effects: SideEffects::default(),
            reason: String::new(),
        }
    }
}

/// `suspend Job nlp/train`.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb.word(), self.object)
    }
}

/// What a step is, in an operator's word.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verb {
    /// Take a job off its devices and keep it from running.
    Suspend,
    /// Let a suspended job run.
    Resume,
    /// Take a pod off its node.
    Evict,
    /// A node takes no new work.
    Cordon,
    /// A node takes new work again.
    Uncordon,
    /// Put a taint on a node.
    Taint,
    /// Take a taint off a node.
    Untaint,
    /// Let a waiting job start.
    Admit,
    /// Change a priority.
    Reprioritise,
    /// Stop a queue.
    Hold,
    /// Let a stopped queue go on.
    Release,
    /// Change a number of replicas.
    Scale,
    /// Write a mark on an object.
    Mark,
}

impl Verb {
    /// The word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Suspend => "suspend",
            Self::Resume => "resume",
            Self::Evict => "evict",
            Self::Cordon => "cordon",
            Self::Uncordon => "uncordon",
            Self::Taint => "taint",
            Self::Untaint => "untaint",
            Self::Admit => "admit",
            Self::Reprioritise => "reprioritise",
            Self::Hold => "hold",
            Self::Release => "release",
            Self::Scale => "scale",
            Self::Mark => "mark",
        }
    }
}

/// Where a kind of object stands in the API.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApiPath {
    /// API group; empty for the core group.
    pub group: Name,
    /// Version; empty for whichever the cluster serves.
    pub version: Name,
    /// Plural name, as in paths.
    pub plural: Name,
}

/// One object of the cluster.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Object {
    /// Kind.
    pub kind: Name,
    /// Namespace; empty for a cluster-wide object.
    pub namespace: Name,
    /// Name.
    pub name: Name,
    /// This incarnation of it; another under the same name is another object. Null guards nothing.
    pub uid: Option<Name>,
    /// Where it stands in the API.
    pub place: ApiPath,
}

impl Object {
    /// An object of this kind without namespace and uid.
    pub fn new(group: &str, version: &str, plural: &str, kind: &str, name: &str) -> Self {
        Self {
            kind: Name::new(kind),
            namespace: Name::default(),
            name: Name::new(name),
            uid: None,
            place: ApiPath {
                group: Name::new(group),
                version: Name::new(version),
                plural: Name::new(plural),
            },
        }
    }

    /// The same in a namespace.
    #[must_use]
    pub fn within(mut self, namespace: &str) -> Self {
        self.namespace = Name::new(namespace);
        self
    }

    /// The same with its uid; an empty one is none.
    #[must_use]
    pub fn with_uid(mut self, uid: &str) -> Self {
        self.uid = (!uid.is_empty()).then(|| Name::new(uid));
        self
    }

    /// True for another value that names the same object.
    pub fn is(&self, other: &Self) -> bool {
        self.name == other.name
            && self.namespace == other.namespace
            && self.place.group == other.place.group
            && self.place.plural == other.place.plural
    }
}

/// `Job nlp/train`, `Node a100-17`.
impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            write!(f, "{} {}", self.kind, self.name)
        } else {
            write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
        }
    }
}

/// The job that a step touches.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobRef {
    /// Which.
    pub name: JobName,
    /// Devices that it holds, or waits for; null when that is not known.
    pub devices: Option<u32>,
    /// Pods that run together or not at all.
    pub gang: Option<u32>,
}

/// The API call that a step is. `cluster::mutations` says for each which objects have it and what exactly is sent.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Mutation {
    /// A batch/v1 Job's, or another job owner's, field that suspends it.
    Suspend {
        /// Suspended or not.
        value: bool,
    },
    /// Kueue Workload `.spec.active`: false evicts and holds, true queues again.
    WorkloadActive {
        /// Active or not.
        value: bool,
    },
    /// Kueue Workload `.spec.priority`.
    WorkloadPriority {
        /// The new priority.
        value: i32,
    },
    /// The label of a job under Kueue that names its WorkloadPriorityClass.
    KueuePriorityClass {
        /// The class.
        name: String,
    },
    /// Kueue ClusterQueue or LocalQueue `.spec.stopPolicy`.
    StopPolicy {
        /// The policy.
        value: Policy,
    },
    /// A Volcano `bus.volcano.sh` Command on the object, which is a vcjob or a Queue.
    VolcanoCommand {
        /// What Volcano is to do.
        action: VolcanoAction,
    },
    /// Volcano `.spec.priorityClassName`, of a vcjob, or of the PodGroup of any other workload.
    VolcanoPriorityClass {
        /// The class; empty for none.
        name: String,
    },
    /// Volcano Queue `.spec.weight`.
    VolcanoQueueWeight {
        /// The new weight, from 1.
        value: u32,
    },
    /// The label `priorityClassName` on a workload under KAI, which its pod-grouper reads.
    KaiPriorityClass {
        /// The class; empty for none.
        name: String,
    },
    /// `pods/eviction`: the only lever that honours disruption budgets.
    Evict {
        /// Seconds that the pod gets to end; its own when null.
        grace_seconds: Option<u32>,
    },
    /// Node `.spec.unschedulable`, with who and why in annotations.
    Cordon {
        /// Who.
        by: String,
        /// Why.
        why: String,
    },
    /// Takes that back, with the annotations.
    Uncordon,
    /// Adds a taint to a node.
    Taint {
        /// Key.
        key: String,
        /// Value; may be empty.
        value: String,
        /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
        effect: String,
    },
    /// Removes a taint from a node.
    Untaint {
        /// Key.
        key: String,
        /// Effect.
        effect: String,
    },
    /// Removes one of a pod's scheduling gates, the last of which lets it be placed. There is no way back.
    Ungate {
        /// Name of the gate.
        gate: String,
    },
    /// `.spec.replicas` of a Deployment, StatefulSet or LeaderWorkerSet.
    Scale {
        /// The new number.
        replicas: u32,
    },
    /// One of our annotations.
    Annotate {
        /// Key, below `stokehold.dev/`.
        key: String,
        /// Value; null removes it.
        value: Option<String>,
    },
}

/// A Kueue queue's stop policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Policy {
    /// It admits.
    None,
    /// It admits nothing more; what runs goes on.
    Hold,
    /// It admits nothing more, and what runs is evicted.
    HoldAndDrain,
}

impl Policy {
    /// As the API spells it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Hold => "Hold",
            Self::HoldAndDrain => "HoldAndDrain",
        }
    }
}

/// What a Volcano Command asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum VolcanoAction {
    /// Evicts a vcjob's pods; it can be resumed.
    AbortJob,
    /// Resumes an aborted vcjob.
    ResumeJob,
    /// Evicts a vcjob's pods and makes them again.
    RestartJob,
    /// A queue takes nothing in; what runs goes on.
    CloseQueue,
    /// A queue takes work in again.
    OpenQueue,
}

impl VolcanoAction {
    /// As the API spells it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::AbortJob => "AbortJob",
            Self::ResumeJob => "ResumeJob",
            Self::RestartJob => "RestartJob",
            Self::CloseQueue => "CloseQueue",
            Self::OpenQueue => "OpenQueue",
        }
    }
}

/// A fact about an object. Its uid, where it has one, is a part of the fact.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fact {
    /// The object.
    pub object: Object,
    /// What must hold.
    pub test: Test,
}

/// What must hold of an object.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "test", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Test {
    /// It is there, and it is that one.
    Exists,
    /// A field has a value. A field that is absent counts as false, 0 or empty.
    Is {
        /// JSON pointer, `/spec/suspend`.
        path: String,
        /// The value.
        value: Value,
    },
    /// A field is not there.
    Absent {
        /// JSON pointer.
        path: String,
    },
    /// Nobody has written the object since. Only where a whole object is written.
    Version {
        /// `metadata.resourceVersion`.
        resource_version: String,
    },
}

/// What a step waits for.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wait {
    /// Before its call, or after it until it counts as done.
    pub when: When,
    /// For what.
    pub until: Until,
    /// How long at most, in seconds; null is as long as the run lives.
    pub at_most_seconds: Option<u64>,
    /// The moment at which it is over at the latest, whenever it began: the deadline of the plan.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "stamp::optional"
    )]
    pub deadline: Option<Moment>,
    /// Whether to go on when that time is over; else the run stops.
    pub go_on: bool,
}

impl Wait {
    /// When a wait that began at a moment is over; nothing for one that lasts as long as it takes.
    pub fn limit(&self, since: Moment) -> Option<Moment> {
        let most = self.at_most_seconds.map(Duration::from_secs);
        let limit = most.map(|most| since.plus(most));
        match (limit, self.deadline) {
            (Some(limit), Some(deadline)) => Some(limit.min(deadline)),
            (limit, deadline) => limit.or(deadline),
        }
    }
}

/// Where a wait stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum When {
    /// Before the call.
    Before,
    /// After the call.
    After,
}

/// What is waited for, on the step's own object.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "for", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Until {
    /// A checkpoint newer than this (`stokehold.dev/last-checkpoint`).
    Checkpoint {
        /// Later than this.
        #[serde(with = "stamp")]
        after: Moment,
    },
    /// A disruption budget that refuses now. Only before an eviction; the eviction itself asks.
    Budget,
    /// The object has gone, or another has its name.
    Gone,
    /// A condition has a status.
    Condition {
        /// Its type.
        name: String,
        /// `True`, `False` or `Unknown`.
        status: String,
    },
    /// A field has a value; absent counts as in [`Test::Is`].
    Is {
        /// JSON pointer.
        path: String,
        /// The value.
        value: Value,
    },
    /// A moment.
    Time {
        /// Which.
        #[serde(with = "stamp")]
        at: Moment,
    },
    /// So many seconds after its turn came.
    Elapsed {
        /// How many.
        seconds: u64,
    },
}

/// What a lever does besides what it is for.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SideEffects {
    /// It stops work that runs.
    pub interrupts: bool,
    /// What it does about disruption budgets.
    pub budgets: Budgets,
    /// The job's start time and deadline timer begin anew.
    pub timer_reset: bool,
    /// What is lost of the work; null when nothing is interrupted or nothing is known.
    pub loss: Option<Loss>,
    /// The gang of so many pods that breaks: all of it stops.
    pub gang_broken: Option<u32>,
    /// Who may write the field back: `KAI pod-grouper`.
    pub overwritten_by: Option<String>,
    /// What else is to be known.
    pub notes: Vec<String>,
}

/// What a lever does about disruption budgets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Budgets {
    /// It stops no pod.
    #[default]
    NotTouched,
    /// It asks them.
    Respected,
    /// It stops pods without asking them.
    Ignored,
}

/// Work that has to be done again. What is not known is null.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Loss {
    /// Device-seconds.
    pub device_seconds: Option<u64>,
    /// What they cost, in micro-USD.
    pub micro_usd: Option<i64>,
    /// The last checkpoint; null when none is known, so that all of the run counts as lost.
    #[serde(with = "stamp::optional")]
    pub since: Option<Moment>,
}
