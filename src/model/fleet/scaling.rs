//! What makes nodes and pods come and go: Karpenter's node pools and claims, the cluster autoscaler's node groups, requests
//! for capacity, horizontal pod autoscalers.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::base::{Moment, Name, ObjectKey, SmallSort};

use super::job::Job;
use super::observe::{Labels, OwnerRef, Resources};
use super::siting::Expression;

/// The label of what belongs to a NodePool of Karpenter.
pub const NODE_POOL: &str = "karpenter.sh/nodepool";

/// Whose a scaler is.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub enum ScalerKind {
    /// Karpenter's NodePool.
    #[default]
    NodePool,
    /// A node group of the cluster autoscaler.
    NodeGroup,
}

impl ScalerKind {
    /// In words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NodePool => "Karpenter",
            Self::NodeGroup => "cluster autoscaler",
        }
    }
}

/// Where a scaler stands.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub enum ScalerState {
    /// Nothing is wrong, nothing under way.
    #[default]
    Steady,
    /// Adds nodes.
    Growing,
    /// May add no more.
    Full,
    /// Has failed to add nodes and waits before it tries again.
    Backoff,
    /// Cannot work: its own word says so.
    Broken,
}

impl ScalerState {
    /// In words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Steady => "steady",
            Self::Growing => "adding nodes",
            Self::Full => "at its limit",
            Self::Backoff => "backing off",
            Self::Broken => "broken",
        }
    }
}

/// A bound on what a node pool may have of a resource, in thousandths of its unit.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Limit {
    /// Resource; `nodes` counts nodes.
    pub resource: Name,
    /// At most.
    pub most: i64,
    /// Held now, as the scaler says.
    pub used: Option<i64>,
}

/// Something that makes nodes: a NodePool of Karpenter, a node group of the cluster autoscaler.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Scaler {
    /// Whose it is.
    pub kind: ScalerKind,
    /// Its own name; a node group's as its cloud calls it.
    pub name: Name,
    /// Pools that its nodes are in, sorted; filled in by the ledger.
    pub pools: Box<[Name]>,
    /// Nodes that it knows of.
    pub now: Option<u32>,
    /// Of these, ready.
    pub ready: Option<u32>,
    /// Nodes that it wants.
    pub target: Option<u32>,
    /// Nodes at least.
    pub min: Option<u32>,
    /// Nodes at most.
    pub max: Option<u32>,
    /// It keeps so many and scales by no demand (Karpenter's `spec.replicas`).
    pub fixed: bool,
    /// Bounds on resources.
    pub limits: Box<[Limit]>,
    /// Its rank among node pools: the higher is tried first.
    pub weight: Option<i32>,
    /// When and how its nodes may be taken away, in its own words: `WhenEmpty after 5m, 10% at a time`.
    pub disruption: Name,
    /// State, by its own word alone.
    pub state: ScalerState,
    /// Why: a word for programs and a sentence; either may be empty.
    pub why: (Name, Name),
    /// Since when it has been in this state.
    pub since: Option<Moment>,
    /// Nodes that are ready but do not offer their devices yet (mostly a driver's fault).
    pub resource_unready: u32,
    /// Nodes that it would take away.
    pub candidates: Option<u32>,
    /// When it last reported; `None` for what needs no report.
    pub reported: Option<Moment>,
    /// Labels that its nodes get.
    pub labels: Labels,
    /// What its nodes fulfil.
    pub requirements: Box<[Expression]>,
}

/// The cluster autoscaler's word on all its node groups, as it stands in one ConfigMap.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct GroupsSeen {
    /// The ConfigMap.
    pub key: ObjectKey,
    /// Node groups by name.
    pub groups: Box<[Scaler]>,
}

/// The cluster autoscaler writes its status every ten seconds; after this long without it is taken to be down, as its own
/// clients do.
pub const SILENT_AFTER_MS: u64 = 180_000;

impl Scaler {
    /// How long ago it last reported, when that is too long ago, in milliseconds.
    pub fn silent_ms(&self, now: Moment) -> Option<u64> {
        let silent = now.since(self.reported?).millis();
        (silent > SILENT_AFTER_MS).then_some(silent)
    }
}

/// How far a node has come that Karpenter makes.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub enum Stage {
    /// The machine has been asked for.
    #[default]
    Launching,
    /// There is a machine; no node yet.
    Launched,
    /// There is a node, which does not offer everything yet.
    Registered,
    /// It works.
    Ready,
    /// It is told to go.
    Leaving,
}

impl Stage {
    /// In words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Launching => "launching",
            Self::Launched => "booting",
            Self::Registered => "registered, not ready",
            Self::Ready => "ready",
            Self::Leaving => "leaving",
        }
    }
}

/// A NodeClaim: one node that Karpenter makes or has made.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeClaim {
    /// Name.
    pub name: Name,
    /// Its NodePool.
    pub node_pool: Option<Name>,
    /// Its node, once there is one.
    pub node: Option<Name>,
    /// How far it has come.
    pub stage: Stage,
    /// It cannot go on: its stage has failed rather than not been reached.
    pub failing: bool,
    /// Why it is no further: a word for programs and a sentence; either may be empty.
    pub why: (Name, Name),
    /// Since when it has been at this stage.
    pub since: Option<Moment>,
    /// When it was made.
    pub created: Moment,
    /// What the machine has, once it is known; before that what the pods ask for that it is made for.
    pub resources: Resources,
    /// Labels.
    pub labels: Labels,
    /// What it fulfils.
    pub requirements: Box<[Expression]>,
}

impl NodeClaim {
    /// True while it is to become a node and is none yet.
    pub const fn is_coming(&self) -> bool {
        matches!(
            self.stage,
            Stage::Launching | Stage::Launched | Stage::Registered
        )
    }
}

/// Where a request for capacity stands.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub enum ProvisionState {
    /// Nobody has taken it up.
    #[default]
    Pending,
    /// Somebody works on it.
    Accepted,
    /// The capacity is there.
    Provisioned,
    /// It will not be met.
    Failed,
    /// The capacity was there and was not used in time.
    BookingExpired,
    /// The capacity has been taken back.
    CapacityRevoked,
}

impl ProvisionState {
    /// In words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Accepted => "accepted",
            Self::Provisioned => "provisioned",
            Self::Failed => "failed",
            Self::BookingExpired => "booking expired",
            Self::CapacityRevoked => "capacity revoked",
        }
    }

    /// True when nothing more will come of it.
    pub const fn is_lost(self) -> bool {
        matches!(
            self,
            Self::Failed | Self::BookingExpired | Self::CapacityRevoked
        )
    }
}

/// A ProvisioningRequest: capacity that is asked for before pods are made.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Provision {
    /// Namespace and name.
    pub key: ObjectKey,
    /// Who asks: Kueue's Workload, say.
    pub owner: Option<OwnerRef>,
    /// How it is to be met: `queued-provisioning.gke.io`, say.
    pub class: Name,
    /// Pods that it is for.
    pub pods: u32,
    /// State.
    pub state: ProvisionState,
    /// Why: a word for programs and a sentence; either may be empty.
    pub why: (Name, Name),
    /// Since when it has been in this state.
    pub since: Option<Moment>,
    /// When it was made.
    pub created: Moment,
}

/// What a pod autoscaler goes by.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Metric {
    /// Its name: `cpu`, `queue_depth`.
    pub name: Name,
    /// The value aimed at, as it is written.
    pub target: Name,
    /// The value as last read.
    pub current: Option<Name>,
}

/// A HorizontalPodAutoscaler.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PodScaler {
    /// Namespace and name.
    pub key: ObjectKey,
    /// Kind and name, in the same namespace, of what it scales.
    pub target: (Name, Name),
    /// Pods at least.
    pub min: u32,
    /// Pods at most.
    pub max: Option<u32>,
    /// Pods now.
    pub current: Option<u32>,
    /// Pods that it wants.
    pub desired: Option<u32>,
    /// It wants another number than it may set: a word for programs and a sentence.
    pub limited: Option<(Name, Name)>,
    /// It cannot scale: a word for programs and a sentence.
    pub failing: Option<(Name, Name)>,
    /// When it last changed the number.
    pub scaled: Option<Moment>,
    /// What it goes by.
    pub metrics: Box<[Metric]>,
}

/// A ScaledObject of KEDA: it makes a HorizontalPodAutoscaler by its triggers, and switches between 0 pods and the least.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ScaledObject {
    /// Namespace and name.
    pub key: ObjectKey,
    /// Kind and name, in the same namespace, of what it scales.
    pub target: (Name, Name),
    /// Pods at least: below them only 0, where nothing is to be done.
    pub min: u32,
    /// Pods at most.
    pub max: u32,
    /// Types of its triggers: `prometheus`, `cron`.
    pub triggers: Box<[Name]>,
    /// Its HorizontalPodAutoscaler, as it tells.
    pub autoscaler: Option<Name>,
    /// Paused by an annotation: it scales nothing, and there is no autoscaler.
    pub paused: bool,
    /// A trigger asks for pods; `None` where it does not tell.
    pub active: Option<bool>,
    /// It scales by its fallback, for a trigger fails.
    pub fallback: bool,
    /// It does not work: a word for programs and a sentence.
    pub failing: Option<(Name, Name)>,
    /// Since when it is as it is: ready or not, active or not.
    pub since: Option<Moment>,
}

/// Everything of it, published.
#[derive(Clone, Debug)]
pub struct Scaling {
    /// Node pools of Karpenter, then node groups of the cluster autoscaler, each by name.
    pub scalers: Arc<[Scaler]>,
    /// Node claims by name.
    pub claims: Arc<[Arc<NodeClaim>]>,
    /// Requests for capacity by namespace and name.
    pub provisions: Arc<[Arc<Provision>]>,
    /// Pod autoscalers by namespace and name.
    pub pod_scalers: Arc<[Arc<PodScaler>]>,
    /// KEDA's ScaledObjects by namespace and name.
    pub scaled_objects: Arc<[Arc<ScaledObject>]>,
}

impl Default for Scaling {
    fn default() -> Self {
        Self {
            scalers: Arc::from([]),
            claims: Arc::from([]),
            provisions: Arc::from([]),
            pod_scalers: Arc::from([]),
            scaled_objects: Arc::from([]),
        }
    }
}

/// The annotations by which a pod says whose capacity it uses, the older one last.
const CONSUMES: [&str; 2] = [
    "autoscaling.x-k8s.io/consume-provisioning-request",
    "cluster-autoscaler.kubernetes.io/consume-provisioning-request",
];

impl Scaling {
    /// The scalers of which nodes are in this pool.
    pub fn of_pool<'a>(&'a self, pool: &'a str) -> impl Iterator<Item = &'a Scaler> {
        self.scalers
            .iter()
            .filter(move |scaler| scaler.pools.iter().any(|known| known.as_str() == pool))
    }

    /// The nodes that are being made for this NodePool.
    pub fn coming<'a>(&'a self, node_pool: &'a str) -> impl Iterator<Item = &'a NodeClaim> {
        self.claims
            .iter()
            .map(|claim| &**claim)
            .filter(move |claim| claim.is_coming() && claim.node_pool.as_deref() == Some(node_pool))
    }

    /// The requests for capacity that a job waits for or has used, the latest first: those of its Workload or of one of its
    /// owners, and those that its pods name.
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

    /// The pod autoscalers of a job: those of its own object, and of any above its pods.
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

    /// The pod autoscaler that a ScaledObject made.
    pub fn autoscaler_of(&self, object: &ScaledObject) -> Option<&PodScaler> {
        let mut all = self.pod_scalers.iter();
        let own = |scaler: &&Arc<PodScaler>| {
            scaler.key.namespace == object.key.namespace
                && Some(&scaler.key.name) == object.autoscaler.as_ref()
        };
        all.find(own).map(|scaler| &**scaler)
    }

    /// The nodes on their way that could take a pod of the job: they have, or are made for, what it asks for, and nothing that they
    /// must fulfil speaks against its node selector.
    pub fn coming_for(&self, job: &Job) -> Vec<&NodeClaim> {
        let pod = job
            .pods
            .iter()
            .find(|pod| pod.seen.node.is_none() && !pod.seen.phase.is_over());
        let wish = match (pod, &job.wish) {
            (Some(pod), _) => (&pod.seen.requests, &pod.seen.node_selector),
            (None, Some(wish)) => (&wish.0, &wish.1),
            (None, None) => return Vec::new(),
        };
        self.claims
            .iter()
            .map(|claim| &**claim)
            .filter(|claim| claim.is_coming() && could_take(claim, wish.0, wish.1))
            .collect()
    }
}

fn could_take(claim: &NodeClaim, wish: &Resources, selector: &Labels) -> bool {
    let has = wish
        .devices
        .iter()
        .filter(|(_, count)| *count > 0)
        .all(|(resource, count)| {
            claim
                .resources
                .device(resource)
                .is_some_and(|has| has >= *count)
        });
    let fits = |(key, value): (&Name, &Name)| {
        let mut about = claim
            .requirements
            .iter()
            .filter(|wanted| wanted.key == *key)
            .peekable();
        match (claim.labels.get(key), about.peek()) {
            (Some(label), _) => label == value,
            (None, Some(_)) => about.all(|wanted| wanted.holds(Some(value))),
            // A label that nobody promises: the node will not have it.
            (None, None) => false,
        }
    };
    wish.device_count() > 0 && has && selector.iter().all(fits)
}
