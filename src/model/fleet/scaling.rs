//! Autoscaling objects: Karpenter NodePools and NodeClaims, cluster autoscaler node groups, ProvisioningRequests,
//! HorizontalPodAutoscalers and KEDA ScaledObjects.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::base::{Moment, Name, ObjectKey, SmallSort};

use super::device::Pod;
use super::job::Job;
use super::launch_failure::LaunchFailure;
use super::observed::object_parts::{Labels, OwnerRef, Resources};
use super::queueing::siting::Expression;

/// Karpenter's label for the NodePool of an object.
pub const NODE_POOL: &str = "karpenter.sh/nodepool";

/// The autoscaler that a scaler belongs to.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub enum ScalerKind {
    #[default]
    NodePool,
    /// A node group of the cluster autoscaler.
    NodeGroup,
}

crate::words! {
    impl ScalerKind {
        /// Kind of its object, as rows show it.
        pub fn object(self) {
            NodePool => "NodePool",
            NodeGroup => "NodeGroup",
        }
    }
}

impl ScalerKind {
    pub const fn name(self) -> &'static str {
        match self {
            Self::NodePool => "Karpenter",
            Self::NodeGroup => "cluster autoscaler",
        }
    }
}

/// State of a scaler.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub enum ScalerState {
    /// No error, no scaling in progress.
    #[default]
    Steady,
    Growing,
    Full,
    /// Failed to add nodes and backs off before the next attempt.
    Backoff,
    /// Reports that it cannot work.
    Broken,
}

crate::words! {
    impl ScalerState {
        pub fn name(self) {
            Steady => "steady",
            Growing => "adding nodes",
            Full => "at its limit",
            Backoff => "backing off",
            Broken => "broken",
        }
    }
}

/// A limit of a node pool on a resource, in thousandths of its unit.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Limit {
    /// Resource; `nodes` counts nodes.
    pub resource: Name,
    pub most: i64,
    /// Current usage that the scaler reports.
    pub used: Option<i64>,
}

/// A node scaler: a Karpenter NodePool or a cluster autoscaler node group.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Scaler {
    /// The autoscaler that it belongs to.
    pub kind: ScalerKind,
    /// Name; a node group's is the cloud provider's.
    pub name: Name,
    /// Pools of its nodes, sorted; set by the ledger.
    pub pools: Box<[Name]>,
    pub now: Option<u32>,
    pub ready: Option<u32>,
    /// Target number of nodes.
    pub target: Option<u32>,
    /// Minimum number of nodes.
    pub min: Option<u32>,
    /// Maximum number of nodes.
    pub max: Option<u32>,
    /// True for a fixed size without autoscaling (Karpenter's `spec.replicas`).
    pub fixed: bool,
    pub limits: Box<[Limit]>,
    /// Weight among node pools: the highest is tried first.
    pub weight: Option<i32>,
    /// Disruption settings: `WhenEmpty after 5m, 10% at a time`.
    pub disruption: Name,
    /// State, from its own status alone.
    pub state: ScalerState,
    /// Reason code and sentence; either may be empty.
    pub why: (Name, Name),
    /// Start of this state.
    pub since: Option<Moment>,
    /// Ready nodes that do not offer their devices yet (usually a driver problem).
    pub resource_unready: u32,
    /// Nodes that it would remove.
    pub candidates: Option<u32>,
    /// Time of its last status report; `None` for a kind without reports.
    pub reported: Option<Moment>,
    /// Labels of its nodes.
    pub labels: Labels,
    /// Requirements of its nodes.
    pub requirements: Box<[Expression]>,
}

/// The cluster autoscaler's status of all its node groups, from its ConfigMap.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct GroupsSeen {
    pub key: ObjectKey,
    /// Node groups by name.
    pub groups: Box<[Scaler]>,
}

/// The cluster autoscaler writes its status every ten seconds; without one for this many milliseconds it counts as down, as its
/// own clients treat it.
pub const SILENT_AFTER_MS: u64 = 180_000;

impl Scaler {
    /// Age of the last report in milliseconds, when it is too old.
    pub fn silent_ms(&self, now: Moment) -> Option<u64> {
        let silent = now.since(self.reported?).millis();
        (silent > SILENT_AFTER_MS).then_some(silent)
    }
}

/// Stage of a node that Karpenter creates.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub enum Stage {
    /// The machine is requested.
    #[default]
    Launching,
    /// The machine is launched; the node has not joined.
    Launched,
    /// The node has joined and does not offer all its resources yet.
    Registered,
    /// The node is initialized.
    Ready,
    /// The node is being deleted.
    Leaving,
}

impl Stage {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Launching => "launching",
            Self::Launched => "booting",
            Self::Registered => "registered, not ready",
            Self::Ready => "ready",
            Self::Leaving => "terminating",
        }
    }
}

/// A NodeClaim: one node that Karpenter is creating or has created.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeClaim {
    pub name: Name,
    pub node_pool: Option<Name>,
    /// Its node, once it has joined.
    pub node: Option<Name>,
    pub stage: Stage,
    /// True when the stage has failed, rather than not been reached.
    pub failing: bool,
    /// Reason for the stage: code and sentence; either may be empty.
    pub why: (Name, Name),
    /// Start of this stage.
    pub since: Option<Moment>,
    pub created: Moment,
    /// The machine's resources once known; before that, the requests of the pods that it is created for.
    pub resources: Resources,
    pub labels: Labels,
    /// Requirements of the node.
    pub requirements: Box<[Expression]>,
}

impl NodeClaim {
    /// True while the node has not joined and is not being deleted.
    pub const fn is_coming(&self) -> bool {
        matches!(
            self.stage,
            Stage::Launching | Stage::Launched | Stage::Registered
        )
    }
}

/// State of a ProvisioningRequest.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub enum ProvisionState {
    #[default]
    Pending,
    /// Accepted; provisioning is in progress.
    Accepted,
    /// The capacity is provisioned.
    Provisioned,
    Failed,
    /// The capacity was provisioned and not used in time.
    BookingExpired,
    CapacityRevoked,
}

crate::words! {
    impl ProvisionState {
        pub fn name(self) {
            Pending => "pending",
            Accepted => "accepted",
            Provisioned => "provisioned",
            Failed => "failed",
            BookingExpired => "booking expired",
            CapacityRevoked => "capacity revoked",
        }
    }
}

impl ProvisionState {
    /// True for a final state without capacity.
    pub const fn is_lost(self) -> bool {
        matches!(
            self,
            Self::Failed | Self::BookingExpired | Self::CapacityRevoked
        )
    }
}

/// A ProvisioningRequest: capacity that is requested before its pods are created.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Provision {
    pub key: ObjectKey,
    /// Its owner, such as a Kueue Workload.
    pub owner: Option<OwnerRef>,
    /// Provisioning class, such as `queued-provisioning.gke.io`.
    pub class: Name,
    /// Pods that the capacity is for.
    pub pods: u32,
    pub state: ProvisionState,
    /// Reason code and sentence; either may be empty.
    pub why: (Name, Name),
    /// Start of this state.
    pub since: Option<Moment>,
    pub created: Moment,
}

impl Provision {
    /// The word for an accepted request whose capacity was not found: the autoscaler tries it again.
    pub const RETRIES: &str = "retrying";

    /// Whether its capacity was not found, and the autoscaler tries it again.
    pub fn is_retried(&self) -> bool {
        self.state == ProvisionState::Accepted && !matches!(self.why.0.as_str(), "" | "Accepted")
    }

    /// Its state in a word.
    pub fn state_name(&self) -> &'static str {
        match self.is_retried() {
            true => Self::RETRIES,
            false => self.state.name(),
        }
    }
}

/// What the value of a pod autoscaler's metric is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum MetricOf {
    /// The mean over the pods.
    #[default]
    Pods,
    /// CPU, the mean over the pods: pods that are not ready do not count.
    Cpu,
    Total,
    /// One value, divided by the number of replicas.
    TotalPerPod,
}

/// A metric of a pod autoscaler.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Metric {
    /// Its name: `cpu`, `queue_depth`.
    pub name: Name,
    /// What its value is of.
    pub of: MetricOf,
    /// Target value, as written in the spec.
    pub target: Name,
    /// Last value that was read.
    pub current: Option<Name>,
}

/// Which of several scaling policies applies.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum PolicySelect {
    /// The one that allows the largest change.
    #[default]
    Max,
    /// The one that allows the smallest change.
    Min,
    /// None: no scaling in this direction.
    Disabled,
}

/// The largest change of a scaling policy within its period.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ScalingPolicy {
    Pods(u32),
    /// Percent of the replicas at the start of the period.
    Percent(u32),
}

/// Scaling rules of a pod autoscaler in one direction.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ScalingRules {
    /// Tolerance of a metric around its target, in thousandths; `None` is the controller's default.
    pub tolerance_milli: Option<i64>,
    pub select: PolicySelect,
    pub policies: Box<[ScalingPolicy]>,
}

#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PodScaler {
    pub key: ObjectKey,
    /// Kind and name of the scale target, in the same namespace.
    pub target: (Name, Name),
    pub min: u32,
    pub max: Option<u32>,
    pub current: Option<u32>,
    pub desired: Option<u32>,
    /// Set when the desired number is limited by the minimum or maximum: reason code and sentence.
    pub limited: Option<(Name, Name)>,
    /// Set when it cannot scale: reason code and sentence.
    pub failing: Option<(Name, Name)>,
    /// Whether recent recommendations hold it back, in a stabilization window; `None` where the controller does not say.
    pub stabilized: Option<bool>,
    /// Time of the last scaling.
    pub scaled: Option<Moment>,
    pub metrics: Box<[Metric]>,
    /// Rules for scaling up and down, from `spec.behavior`; `None` where that is not set.
    pub behavior: Option<(ScalingRules, ScalingRules)>,
}

/// A KEDA ScaledObject: it creates a HorizontalPodAutoscaler from its triggers, and scales between 0 and the minimum itself.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ScaledObject {
    pub key: ObjectKey,
    /// Kind and name of the scale target, in the same namespace.
    pub target: (Name, Name),
    /// Minimum replicas; below it only 0, while no trigger is active.
    pub min: u32,
    pub max: u32,
    /// Types of its triggers: `prometheus`, `cron`.
    pub triggers: Box<[Name]>,
    /// Its HorizontalPodAutoscaler, from its status.
    pub autoscaler: Option<Name>,
    /// Paused by an annotation: it does not scale, and there is no autoscaler.
    pub paused: bool,
    /// True while a trigger is active; `None` where the status does not say.
    pub active: Option<bool>,
    /// True while it scales by its fallback because a trigger fails.
    pub fallback: bool,
    /// Set when it is not ready: reason code and sentence.
    pub failing: Option<(Name, Name)>,
    /// Start of the current ready and active state.
    pub since: Option<Moment>,
}

impl ScaledObject {
    /// True where it has no status: KEDA's operator has not looked at it.
    pub fn is_unseen(&self) -> bool {
        self.active.is_none()
            && self.failing.is_none()
            && self.since.is_none()
            && self.autoscaler.is_none()
    }
}

/// All autoscaling objects, as published with the fleet.
#[derive(Clone, Debug)]
pub struct Scaling {
    /// Karpenter NodePools, then cluster autoscaler node groups, each sorted by name.
    pub scalers: Arc<[Scaler]>,
    /// NodeClaims, sorted by name.
    pub claims: Arc<[Arc<NodeClaim>]>,
    /// Launches that failed for want of capacity, as long as their events are kept, sorted by the event's name.
    pub failures: Arc<[Arc<LaunchFailure>]>,
    /// ProvisioningRequests, sorted by namespace and name.
    pub provisions: Arc<[Arc<Provision>]>,
    /// HorizontalPodAutoscalers, sorted by namespace and name.
    pub pod_scalers: Arc<[Arc<PodScaler>]>,
    /// KEDA ScaledObjects, sorted by namespace and name.
    pub scaled_objects: Arc<[Arc<ScaledObject>]>,
}

impl Default for Scaling {
    fn default() -> Self {
        Self {
            scalers: Arc::from([]),
            claims: Arc::from([]),
            failures: Arc::from([]),
            provisions: Arc::from([]),
            pod_scalers: Arc::from([]),
            scaled_objects: Arc::from([]),
        }
    }
}

/// Pod annotations that name the ProvisioningRequest whose capacity the pod uses; the deprecated one last.
const CONSUMES: [&str; 2] = [
    "autoscaling.x-k8s.io/consume-provisioning-request",
    "cluster-autoscaler.kubernetes.io/consume-provisioning-request",
];

impl Scaling {
    /// The scalers with nodes in this pool.
    pub fn of_pool<'a>(&'a self, pool: &'a str) -> impl Iterator<Item = &'a Scaler> {
        self.scalers
            .iter()
            .filter(move |scaler| scaler.pools.iter().any(|known| known.as_str() == pool))
    }

    /// The NodeClaims of this NodePool whose nodes have not joined yet.
    pub fn coming<'a>(&'a self, node_pool: &'a str) -> impl Iterator<Item = &'a NodeClaim> {
        self.claims
            .iter()
            .map(|claim| &**claim)
            .filter(move |claim| claim.is_coming() && claim.node_pool.as_deref() == Some(node_pool))
    }

    /// The ProvisioningRequests of a job, newest first: those of its Workload or of one of its owners, and those that its pods name.
    pub fn provisions_of(&self, job: &Job) -> Vec<&Provision> {
        let workload = job.admission.as_ref().map(|admission| &admission.seen);
        let owned = |provision: &Provision| {
            provision.owner.as_ref().is_some_and(|owner| {
                let same = |uid: &Name| !uid.is_empty() && *uid == owner.uid;
                same(&job.uid)
                    || workload.is_some_and(|group| same(&group.uid))
                    || job.chain.iter().any(|link| same(&link.uid))
            })
        };
        let named = |provision: &Provision| {
            job.pods
                .iter()
                .any(|pod| pod.seen.annotations.first(CONSUMES) == Some(&provision.key.name))
        };
        let mut found: Vec<&Provision> = self
            .provisions
            .iter()
            .map(|provision| &**provision)
            .filter(|provision| provision.key.namespace == *job.namespace())
            .filter(|provision| owned(provision) || named(provision))
            .collect();
        found.small_sort_by_key(|provision| {
            (
                std::cmp::Reverse(provision.created),
                provision.key.name.clone(),
            )
        });
        found
    }

    /// The pod autoscalers of a job: those that target its own object or an owner of its pods.
    pub fn pod_scalers_of<'a>(&'a self, job: &'a Job) -> impl Iterator<Item = &'a PodScaler> {
        self.pod_scalers
            .iter()
            .map(|scaler| &**scaler)
            .filter(move |scaler| scaler.key.namespace == *job.namespace())
            .filter(move |scaler| {
                let (kind, name) = &scaler.target;
                (job.id.kind == *kind && job.name() == name)
                    || job
                        .chain
                        .iter()
                        .any(|link| link.kind == *kind && link.name == *name)
            })
    }

    /// The HorizontalPodAutoscaler that a ScaledObject created.
    pub fn autoscaler_of(&self, object: &ScaledObject) -> Option<&PodScaler> {
        let mut all = self.pod_scalers.iter();
        let own = |scaler: &&Arc<PodScaler>| {
            scaler.key.namespace == object.key.namespace
                && Some(&scaler.key.name) == object.autoscaler.as_ref()
        };
        all.find(own).map(|scaler| &**scaler)
    }

    /// The upcoming nodes that could run a pod of the job: their resources cover its requests, and their labels and requirements
    /// match its node selector.
    pub fn coming_for(&self, job: &Job) -> Vec<&NodeClaim> {
        let Some(request) = waiting_pod(job) else {
            return Vec::new();
        };
        self.claims
            .iter()
            .map(|claim| &**claim)
            .filter(|claim| claim.is_coming() && could_take(claim, request.0, request.1))
            .collect()
    }
}

/// What a pod of the job that has no node requests, and its node selector.
pub(super) fn waiting_pod(job: &Job) -> Option<(&Resources, &Labels)> {
    let waits = |pod: &&Arc<Pod>| pod.seen.node.is_none() && !pod.seen.phase.is_over();
    match (job.pods.iter().find(waits), &job.pod_request) {
        (Some(pod), _) => Some((&pod.seen.requests, &pod.seen.node_selector)),
        (None, Some(request)) => Some((&request.0, &request.1)),
        (None, None) => None,
    }
}

/// True where a machine with these resources has the devices that a pod requests.
pub(super) fn covers(machine: &Resources, request: &Resources) -> bool {
    request
        .devices
        .iter()
        .filter(|(_, count)| *count > 0)
        .all(|(resource, count)| machine.device(resource).is_some_and(|has| has >= *count))
}

fn could_take(claim: &NodeClaim, request: &Resources, selector: &Labels) -> bool {
    let fits = |(key, value): (&Name, &Name)| {
        let mut about = claim
            .requirements
            .iter()
            .filter(|wanted| wanted.key == *key)
            .peekable();
        match (claim.labels.get(key), about.peek()) {
            (Some(label), _) => label == value,
            (None, Some(_)) => about.all(|wanted| wanted.holds(Some(value))),
            // No label or requirement sets this key: the node will not have the label.
            (None, None) => false,
        }
    };
    request.device_count() > 0 && covers(&claim.resources, request) && selector.iter().all(fits)
}
