//! One step of a plan: the object, the mutation, its guards, waits and side effects.

use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::base::{Moment, Name};
use crate::fleet::observed::kinds::{ApiKind, Table};

use super::{JobName, stamp};

/// One step of a plan.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// The action, in operator terms.
    pub verb: Verb,
    /// The object that it changes.
    pub object: Object,
    /// The API call that it makes.
    #[serde(rename = "lever")]
    pub mutation: Mutation,
    /// The job that it affects, if any.
    pub job: Option<JobRef>,
    /// Facts that must still be true at execution, besides the object's uid.
    pub guards: Vec<Fact>,
    /// Numbers (from 1) of earlier steps that must finish first. A step that waits blocks only its dependents.
    #[schemars(inner(range(min = 1)))]
    pub needs: Vec<u32>,
    /// Conditions to wait for, before and after the call.
    pub waits: Vec<Wait>,
    /// Side effects of the mutation.
    pub side_effects: SideEffects,
    /// Why the plan has this step.
    pub reason: String,
}

impl Step {
    /// The objects beside its own that show when it is done, or when it may begin.
    pub fn shown_by(&self, when: WaitOrder) -> impl Iterator<Item = &Object> {
        let waits = self.waits.iter().filter(move |wait| wait.when == when);
        waits.filter_map(|wait| wait.of.as_ref())
    }

    /// All objects that it names.
    pub fn objects(&self) -> impl Iterator<Item = &Object> {
        let guards = self.guards.iter().map(|fact| &fact.object);
        let shown = self.waits.iter().filter_map(|wait| wait.of.as_ref());
        std::iter::once(&self.object).chain(guards).chain(shown)
    }

    pub fn objects_mut(&mut self) -> impl Iterator<Item = &mut Object> {
        let guards = self.guards.iter_mut().map(|fact| &mut fact.object);
        let shown = self.waits.iter_mut().filter_map(|wait| wait.of.as_mut());
        std::iter::once(&mut self.object).chain(guards).chain(shown)
    }

    /// A step without waits, guarded by its object's uid alone.
    pub fn new(verb: Verb, object: Object, mutation: Mutation) -> Self {
        Self {
            verb,
            object,
            mutation,
            job: None,
            guards: Vec::new(),
            needs: Vec::new(),
            waits: Vec::new(),
            side_effects: SideEffects::default(),
            reason: String::new(),
        }
    }

    /// True where it keeps a job from starting that has no devices: it frees none.
    pub fn frees_nothing(&self) -> bool {
        self.verb == Verb::Suspend && !self.side_effects.interrupts
    }

    /// The job of the Kueue Workload that it changes. Operators know the job, not the generated name of its Workload.
    pub fn job_of_workload(&self) -> Option<&JobName> {
        let is_workload = self.object.kind.as_str() == "Workload";
        let job = self.job.as_ref().filter(|_| is_workload)?;
        Some(&job.name)
    }

    /// The step for people: `suspend Job nlp/train`, `suspend Workload of nlp/train`.
    pub fn words(&self) -> String {
        match self.job_of_workload() {
            Some(job) => format!("{} {} of {job}", self.verb.word(), self.object.kind),
            None => self.to_string(),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb.word(), self.object)
    }
}

/// The action of a step, in operator terms.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verb {
    /// Stop a job's pods and keep the job suspended.
    Suspend,
    /// Resume a suspended job.
    Resume,
    /// Evict a pod from its node.
    Evict,
    /// Mark a node unschedulable.
    Cordon,
    /// Mark a node schedulable again.
    Uncordon,
    /// Add a taint to a node.
    Taint,
    /// Remove a taint from a node.
    Untaint,
    /// Start a pending job.
    Admit,
    Reprioritise,
    Hold,
    /// Restart a stopped queue.
    Release,
    /// Change the number of replicas.
    Scale,
    /// Set an annotation on an object.
    Mark,
}

crate::words! {
    impl Verb {
        /// The verb as shown.
        pub fn word(self) {
            Suspend => "suspend", Resume => "resume", Evict => "evict", Cordon => "cordon",
            Uncordon => "uncordon", Taint => "taint", Untaint => "untaint", Admit => "admit",
            Reprioritise => "reprioritise", Hold => "hold", Release => "release", Scale => "scale",
            Mark => "mark",
        }
    }
}

/// API path of a kind of object.
#[derive(
    Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize, JsonSchema,
)]
#[serde(deny_unknown_fields)]
pub struct ApiPath {
    /// API group; empty for the core group.
    pub group: Name,
    /// Version; empty for the one that the cluster serves.
    pub version: Name,
    /// Plural resource name, as in API paths.
    #[schemars(length(min = 1))]
    pub plural: Name,
}

/// One object of the cluster.
#[derive(
    Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize, JsonSchema,
)]
#[serde(deny_unknown_fields)]
pub struct Object {
    /// Kind of the object, `Job`.
    pub kind: Name,
    /// Namespace; empty for a cluster-wide object.
    pub namespace: Name,
    /// Name of the object.
    #[schemars(length(min = 1))]
    pub name: Name,
    /// Uid: an object recreated under the same name is another object. Null is no guard.
    pub uid: Option<Name>,
    /// Where the API serves it.
    pub place: ApiPath,
}

impl Object {
    /// The object of this name in a table; without namespace, uid, and a version where the server decides.
    pub fn of(table: Table, name: &str) -> Self {
        Self::served(table.api(), table.api().version, name)
    }

    /// The object of this name in the version in which the server has its kind.
    pub fn served(of: &ApiKind, version: &str, name: &str) -> Self {
        Self::new(of.group, version, of.plural, of.kind, name)
    }

    /// A cluster-scoped object of this kind without a uid.
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

    /// The same object in a namespace.
    #[must_use]
    pub fn within(mut self, namespace: &str) -> Self {
        self.namespace = Name::new(namespace);
        self
    }

    /// The same object with its uid; an empty uid is `None`.
    #[must_use]
    pub fn with_uid(mut self, uid: &str) -> Self {
        self.uid = (!uid.is_empty()).then(|| Name::new(uid));
        self
    }

    /// True when both values name the same object; version and uid are ignored.
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

/// The job that a step affects.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobRef {
    /// Namespace and name of the job.
    pub name: JobName,
    /// Devices allocated to it, or requested while it is pending; null when not known.
    pub devices: Option<u32>,
    /// Size of its gang; null when it has none.
    pub gang: Option<u32>,
}

/// The API call of a step.
//
// `cluster::mutations` defines which objects each applies to and the exact request.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Mutation {
    /// The suspend field of a batch/v1 Job or another job owner.
    Suspend {
        /// True suspends, false resumes.
        value: bool,
    },
    /// Kueue Workload `.spec.active`: false evicts it and keeps it inactive, true requeues it.
    WorkloadActive {
        /// False evicts it, true requeues it.
        value: bool,
    },
    /// Priority of a Kueue Workload, `.spec.priority`.
    WorkloadPriority {
        /// The priority that is set.
        value: i32,
    },
    /// The label of a job under Kueue that names its WorkloadPriorityClass.
    KueuePriorityClass {
        /// Name of the WorkloadPriorityClass.
        name: String,
    },
    /// Kueue ClusterQueue or LocalQueue `.spec.stopPolicy`.
    StopPolicy {
        /// The stop policy that is set.
        value: StopPolicy,
    },
    /// A Volcano `bus.volcano.sh` Command on a vcjob or a Queue.
    VolcanoCommand {
        /// The action of the Command.
        action: VolcanoAction,
    },
    /// Volcano `.spec.priorityClassName` of a vcjob, or of the PodGroup of any other workload.
    VolcanoPriorityClass {
        /// The class; empty for none.
        name: String,
    },
    /// Weight of a Volcano Queue, `.spec.weight`.
    VolcanoQueueWeight {
        /// The new weight, from 1.
        value: u32,
    },
    /// The label `priorityClassName` on a workload under KAI, which its pod-grouper reads.
    KaiPriorityClass {
        /// The class; empty for none.
        name: String,
    },
    /// `pods/eviction`: the only mutation that respects disruption budgets.
    Evict {
        /// Grace period in seconds; null for the pod's own.
        grace_seconds: Option<u32>,
    },
    /// Node `.spec.unschedulable`, with user and reason in annotations.
    Cordon {
        /// The user who cordons it.
        by: String,
        /// The reason that is written on the node.
        why: String,
    },
    /// Clears `.spec.unschedulable` and these annotations.
    Uncordon,
    /// Adds a taint to a node.
    Taint {
        /// Key of the taint.
        key: String,
        /// Value; may be empty.
        value: String,
        /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
        effect: String,
    },
    /// Removes a taint from a node.
    Untaint {
        /// Key of the taint.
        key: String,
        /// Effect of the taint.
        effect: String,
    },
    /// Removes one of a pod's scheduling gates; removing the last one makes the pod schedulable. It cannot be undone.
    Ungate {
        /// Name of the gate.
        gate: String,
    },
    /// `.spec.replicas` of a Deployment, StatefulSet or LeaderWorkerSet.
    Scale {
        /// The new number of replicas.
        replicas: u32,
    },
    /// One of our annotations.
    Annotate {
        /// Key of the annotation, below `stokehold.dev/`.
        key: String,
        /// Value; null removes it.
        value: Option<String>,
    },
}

/// A Kueue queue's stop policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Policy")]
pub enum StopPolicy {
    /// The queue admits workloads as usual.
    None,
    /// Admits no more workloads; running ones continue.
    Hold,
    /// Admits no more workloads and evicts running ones.
    HoldAndDrain,
}

impl StopPolicy {
    pub const fn word(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Hold => "Hold",
            Self::HoldAndDrain => "HoldAndDrain",
        }
    }
}

/// The action of a Volcano Command.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub enum VolcanoAction {
    /// Evicts a vcjob's pods; the vcjob can be resumed.
    AbortJob,
    /// Resumes an aborted vcjob.
    ResumeJob,
    /// Evicts a vcjob's pods and recreates them.
    RestartJob,
    /// Closes a queue for new work; running work continues.
    CloseQueue,
    /// Opens a queue for new work.
    OpenQueue,
}

impl VolcanoAction {
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

/// A fact about an object, including its uid when it has one.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fact {
    /// The object that is read.
    pub object: Object,
    /// The condition that must hold.
    pub test: Test,
}

/// A test on an object.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "test", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Test {
    /// The object exists with this uid.
    Exists,
    /// A field has a value. An absent field counts as false, 0 or empty.
    Is {
        /// JSON pointer to the field, `/spec/suspend`.
        path: String,
        /// The value that it has.
        value: Value,
    },
    /// A field is absent.
    Absent {
        /// JSON pointer to the field, `/spec/suspend`.
        path: String,
    },
    /// The object has not been written since. Used only where a whole object is written.
    Version {
        /// The object's `metadata.resourceVersion` when it was read.
        resource_version: String,
    },
}

/// A condition that a step waits for.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Wait {
    /// Before the call, or after it before the step is done.
    pub when: WaitOrder,
    /// The object that shows it, where it is not the step's own: what a controller makes of the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Object")]
    pub of: Option<Object>,
    /// The condition that it waits for.
    pub until: Until,
    /// Timeout in seconds; null for no timeout.
    pub at_most_seconds: Option<u64>,
    /// Latest end of the wait, whenever it began: the deadline of the plan.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "stamp::optional"
    )]
    #[schemars(with = "Moment")]
    pub deadline: Option<Moment>,
    /// True to continue after the timeout; false stops the run.
    pub go_on: bool,
}

impl Wait {
    /// A wait for the step's own object, without a timeout.
    pub const fn new(when: WaitOrder, until: Until) -> Self {
        Self {
            when,
            of: None,
            until,
            at_most_seconds: None,
            deadline: None,
            go_on: false,
        }
    }

    /// The end of a wait that began at `since`; `None` for a wait without a timeout.
    pub fn limit(&self, since: Moment) -> Option<Moment> {
        let most = self.at_most_seconds.map(Duration::from_secs);
        let limit = most.map(|most| since.plus(most));
        match (limit, self.deadline) {
            (Some(limit), Some(deadline)) => Some(limit.min(deadline)),
            (limit, deadline) => limit.or(deadline),
        }
    }
}

/// When a step waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename = "When", rename_all = "kebab-case")]
pub enum WaitOrder {
    /// Before the API call is made.
    Before,
    /// After the API call was made.
    After,
}

/// A condition on an object: the step's own, or the one that the wait names.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "for", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Until {
    /// A checkpoint newer than `after` (`stokehold.dev/last-checkpoint`).
    Checkpoint {
        /// The checkpoint must be later than this.
        #[serde(with = "stamp")]
        #[schemars(with = "Moment")]
        after: Moment,
    },
    /// A disruption budget allows the eviction. Only before an eviction; the eviction call itself checks it.
    Budget,
    /// The object is deleted, or another object has its name.
    Gone,
    /// A condition has this status.
    Condition {
        /// Type of the condition, `Complete`.
        name: String,
        /// `True`, `False` or `Unknown`.
        status: String,
    },
    /// A field has this value; an absent field counts as false, 0 or empty.
    Is {
        /// JSON pointer to the field, `/spec/suspend`.
        path: String,
        /// The value that it has.
        value: Value,
    },
    /// A time is reached.
    Time {
        /// The time that is waited for.
        #[serde(with = "stamp")]
        #[schemars(with = "Moment")]
        at: Moment,
    },
    /// This time has passed since the wait began.
    Elapsed {
        /// Seconds since the wait began.
        seconds: u64,
    },
}

/// Side effects of a mutation.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SideEffects {
    /// It stops running work.
    pub interrupts: bool,
    /// Its effect on disruption budgets.
    pub budgets: Budgets,
    /// It resets the job's start time and deadline timer.
    pub timer_reset: bool,
    /// Lost work; null when nothing is interrupted or the loss is not known.
    pub loss: Option<Loss>,
    /// Size of the gang that it stops, when evicting a pod stops its whole gang.
    pub gang_broken: Option<u32>,
    /// The controller that may overwrite the field: `KAI pod-grouper`.
    pub overwritten_by: Option<String>,
    /// Other side effects, as sentences.
    pub notes: Vec<String>,
}

/// How a mutation treats disruption budgets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Budgets {
    /// It stops no pod.
    #[default]
    NotTouched,
    /// It checks the disruption budgets.
    Respected,
    /// It checks the disruption budgets, and one of them never allows it: it fails unless that budget changes.
    Refusing,
    /// It stops pods without checking them.
    Ignored,
}

/// Lost work, which has to be repeated. Unknown values are null.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Loss {
    /// Lost work in device-seconds; null where unknown.
    pub device_seconds: Option<u64>,
    /// Cost of that work, micro-USD.
    pub micro_usd: Option<i64>,
    /// True if part of that cost uses list prices, because the price paid is unknown.
    #[serde(default)]
    pub by_list: bool,
    /// The last checkpoint; null when none is known, so that the whole run counts as lost.
    #[serde(with = "stamp::optional")]
    #[schemars(with = "Option<Moment>")]
    pub since: Option<Moment>,
}
