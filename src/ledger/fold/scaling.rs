//! Autoscaling objects: stored as observed, and joined to the pools of their nodes.
//!
//! Karpenter sets the NodePool's name on each node. The cluster autoscaler knows a node group by its cloud name, which is on no
//! node: it is matched by how each cloud derives it from a pool's or a node's name; without a match there is no join.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::base::{Name, ObjectKey};
use model::fleet::kinds::Table;
use model::fleet::launch_failure::LaunchFailure;
use model::fleet::node::Node;
use model::fleet::object_parts::Labels;
use model::fleet::observe::Observation;
use model::fleet::pool::PoolMode;
use model::fleet::scaling::{
    NODE_POOL, NodeClaim, PodScaler, Provision, ScaledObject, Scaler, ScalerKind, ScalerState,
    Scaling, Stage,
};
use model::fleet::seen::NodeSeen;
use model::fleet::siting::Operator;

use super::{Ledger, tables, wide};

/// All autoscaling objects, as last observed.
#[derive(Default)]
pub(super) struct ScalingTables {
    node_pools: BTreeMap<Name, Scaler>,
    groups: BTreeMap<ObjectKey, Box<[Scaler]>>,
    claims: tables::RowTable<Name, NodeClaim>,
    failures: tables::RowTable<ObjectKey, LaunchFailure>,
    provisions: tables::RowTable<ObjectKey, Provision>,
    pod_scalers: tables::RowTable<ObjectKey, PodScaler>,
    scaled_objects: tables::RowTable<ObjectKey, ScaledObject>,
    changed: bool,
    /// The nodes with devices that `published` was joined to, and their pools.
    joined: Vec<(Arc<NodeSeen>, Name)>,
    published: Scaling,
}

impl Ledger {
    /// Folds one observation of an autoscaling object; true when something visible may have changed.
    pub(super) fn see_scaling(&mut self, observation: Observation) -> bool {
        match observation {
            Observation::NodePool(pool) => {
                self.mention_wide(Table::NodePools, &pool.name);
                self.scaling.see_node_pool(*pool)
            }
            Observation::NodeClaim(claim) => {
                self.mention_wide(Table::NodeClaims, &claim.name);
                self.scaling.claims.see(claim.name.clone(), *claim)
            }
            Observation::LaunchFailure(failure) => {
                self.mention(Table::LaunchFailures, &failure.key);
                let key = failure.key.clone();
                self.scaling.failures.see(key, *failure)
            }
            Observation::NodeGroups(seen) => {
                self.mention(Table::NodeGroups, &seen.key);
                self.scaling.see_groups(seen.key, seen.groups)
            }
            Observation::Provision(provision) => {
                self.mention(Table::ProvisioningRequests, &provision.key);
                let key = provision.key.clone();
                self.scaling.provisions.see(key, *provision)
            }
            Observation::PodScaler(scaler) => {
                self.mention(Table::PodAutoscalers, &scaler.key);
                let key = scaler.key.clone();
                self.scaling.pod_scalers.see(key, *scaler)
            }
            Observation::ScaledObject(object) => {
                self.mention(Table::ScaledObjects, &object.key);
                let key = object.key.clone();
                self.scaling.scaled_objects.see(key, *object)
            }
            _ => false,
        }
    }
}

impl ScalingTables {
    fn see_node_pool(&mut self, pool: Scaler) -> bool {
        if self.node_pools.get(&pool.name) == Some(&pool) {
            return false;
        }
        self.node_pools.insert(pool.name.clone(), pool);
        self.changed = true;
        true
    }

    fn see_groups(&mut self, key: ObjectKey, groups: Box<[Scaler]>) -> bool {
        if self.groups.get(&key) == Some(&groups) {
            return false;
        }
        self.groups.insert(key, groups);
        self.changed = true;
        true
    }

    pub(super) fn keys_of(&self, table: Table) -> Vec<ObjectKey> {
        match table {
            Table::NodePools => self.node_pools.keys().map(wide).collect(),
            Table::NodeClaims => self.claims.keys().map(wide).collect(),
            Table::LaunchFailures => self.failures.keys().cloned().collect(),
            Table::NodeGroups => self.groups.keys().cloned().collect(),
            Table::ProvisioningRequests => self.provisions.keys().cloned().collect(),
            Table::ScaledObjects => self.scaled_objects.keys().cloned().collect(),
            _ => self.pod_scalers.keys().cloned().collect(),
        }
    }

    pub(super) fn forget(&mut self, table: Table, key: &ObjectKey) {
        match table {
            Table::NodePools => self.changed |= self.node_pools.remove(&key.name).is_some(),
            Table::NodeClaims => {
                self.claims.remove(&key.name);
            }
            Table::LaunchFailures => {
                self.failures.remove(key);
            }
            Table::NodeGroups => self.changed |= self.groups.remove(key).is_some(),
            Table::ProvisioningRequests => {
                self.provisions.remove(key);
            }
            Table::ScaledObjects => {
                self.scaled_objects.remove(key);
            }
            _ => {
                self.pod_scalers.remove(key);
            }
        }
    }

    /// All objects as of now, scalers with the pools of these nodes.
    pub(super) fn publish(&mut self, nodes: &[Arc<Node>], nodes_changed: bool) -> (Scaling, bool) {
        let claims_changed = self.claims.is_changed();
        self.published.claims = self.claims.publish();
        self.published.failures = self.failures.publish();
        self.published.provisions = self.provisions.publish();
        self.published.pod_scalers = self.pod_scalers.publish();
        self.published.scaled_objects = self.scaled_objects.publish();
        let changed = std::mem::take(&mut self.changed);
        // Nodes change with every reading: without scalers there is nothing to join.
        let any = !self.node_pools.is_empty() || !self.groups.is_empty();
        let moved = any && nodes_changed && self.have_moved(nodes);
        let joins = changed || (any && claims_changed) || moved;
        if joins {
            let index = ScalerNodes::of(nodes);
            let groups = self.groups.values().flat_map(|groups| groups.iter());
            self.published.scalers = self
                .node_pools
                .values()
                .chain(groups)
                .map(|seen| {
                    let mut scaler = seen.clone();
                    scaler.pools = index.pools(&scaler).into_iter().cloned().collect();
                    self.complete(&mut scaler);
                    scaler
                })
                .collect();
        }
        (self.published.clone(), joins)
    }

    /// Whether a node was added, deleted, replaced or moved to another pool since the last call: most changes are readings.
    fn have_moved(&mut self, nodes: &[Arc<Node>]) -> bool {
        let now = || nodes.iter().filter(|node| !node.devices.is_empty());
        let is_same = |(node, (seen, pool)): (&Arc<Node>, &(Arc<NodeSeen>, Name))| {
            Arc::ptr_eq(&node.seen, seen) && node.pool == *pool
        };
        if now().count() == self.joined.len() && now().zip(&self.joined).all(is_same) {
            return false;
        }
        self.joined = now()
            .map(|node| (Arc::clone(&node.seen), node.pool.clone()))
            .collect();
        true
    }

    /// Facts that only the claims of a node pool have: its desired node count, and whether it is adding nodes.
    fn complete(&self, scaler: &mut Scaler) {
        if scaler.kind != ScalerKind::NodePool {
            return;
        }
        let own = |claim: &&Arc<NodeClaim>| claim.node_pool.as_ref() == Some(&scaler.name);
        let claims: Vec<&Arc<NodeClaim>> = self.published.claims.iter().filter(own).collect();
        let coming: Vec<_> = claims.iter().filter(|claim| claim.is_coming()).collect();
        if coming.is_empty() {
            return;
        }
        let staying = claims.iter().filter(|claim| claim.stage != Stage::Leaving);
        scaler.target = scaler
            .target
            .or_else(|| u32::try_from(staying.count()).ok());
        if scaler.state == ScalerState::Steady {
            scaler.state = ScalerState::Growing;
            scaler.since = coming.iter().map(|claim| claim.created).min();
        }
    }
}

/// Node labels with the group's name as the autoscaler may report it.
const GROUP_LABELS: [&str; 12] = [
    "stokehold.dev/pool",
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "alpha.eksctl.io/nodegroup-name",
    "kops.k8s.io/instancegroup",
    "kubernetes.azure.com/agentpool",
    "agentpool",
    "doks.digitalocean.com/node-pool",
    "doks.digitalocean.com/node-pool-id",
    "k8s.scaleway.com/pool-name",
    "hcloud/node-group",
    "autoscaling.k8s.io/nodegroup",
];

/// Nodes by what a scaler may know them by.
struct ScalerNodes<'a> {
    node_pools: BTreeMap<&'a str, BTreeSet<&'a Name>>,
    /// By a scale set in the provider's id, or by a node's name without its last part.
    machines: BTreeMap<String, BTreeSet<&'a Name>>,
    labels: BTreeMap<&'a str, BTreeSet<&'a Name>>,
}

impl<'a> ScalerNodes<'a> {
    fn of(nodes: &'a [Arc<Node>]) -> Self {
        let mut index = Self {
            node_pools: BTreeMap::new(),
            machines: BTreeMap::new(),
            labels: BTreeMap::new(),
        };
        for node in nodes.iter().filter(|node| !node.devices.is_empty()) {
            let labels = &node.seen.labels;
            if let Some(pool) = labels.get(NODE_POOL) {
                let pools = index.node_pools.entry(pool).or_default();
                pools.insert(&node.pool);
                // Nodes of Karpenter belong to no other scaler.
                continue;
            }
            for machine in machines(node) {
                index
                    .machines
                    .entry(machine)
                    .or_default()
                    .insert(&node.pool);
            }
            for value in labels_of(labels) {
                index.labels.entry(value).or_default().insert(&node.pool);
            }
        }
        index
    }

    fn pools(&self, scaler: &Scaler) -> BTreeSet<&'a Name> {
        if scaler.kind == ScalerKind::NodePool {
            return self
                .node_pools
                .get(scaler.name.as_str())
                .cloned()
                .unwrap_or_default();
        }
        let found = handles(&scaler.name)
            .into_iter()
            .find_map(|handle| match handle {
                NodeGroupKey::Machine(name) => self.machines.get(&name),
                NodeGroupKey::Label(name) => self.labels.get(name),
            });
        found.cloned().unwrap_or_default()
    }
}

fn labels_of(labels: &Labels) -> impl Iterator<Item = &str> {
    GROUP_LABELS
        .iter()
        .filter_map(|key| labels.get(key))
        .map(Name::as_str)
        .filter(|value| !value.is_empty())
}

/// What a node's own name and its provider's id say of the group that it was made by.
///
/// Sources: provider ids and node names of Azure's scale sets and of GKE's managed instance groups.
fn machines(node: &Node) -> Vec<String> {
    let mut all = Vec::new();
    let provider = node.seen.provider_id.as_deref().unwrap_or_default();
    if let Some((_, rest)) = provider.split_once("/virtualMachineScaleSets/") {
        let set = rest.split('/').next().unwrap_or_default();
        all.push(set.to_ascii_lowercase());
    }
    let is_gke = node
        .seen
        .labels
        .get("cloud.google.com/gke-nodepool")
        .is_some();
    if is_gke && let Some((base, _)) = node.seen.name.rsplit_once('-') {
        all.push(base.to_owned());
        // The groups of a pool in other zones differ in the hash alone.
        if let Some((pool, _)) = base.rsplit_once('-') {
            all.push(format!("{pool}-*"));
        }
    }
    all
}

/// A key for the lookup of a node group.
enum NodeGroupKey<'a> {
    Machine(String),
    Label(&'a str),
}

/// The keys for the lookup of a node group by its cloud name, the most certain first.
///
/// Sources: names that EKS, eksctl, kOps, GKE, AKS and Cluster API give to groups.
fn handles(name: &str) -> Vec<NodeGroupKey<'_>> {
    let mut all = vec![NodeGroupKey::Machine(name.to_ascii_lowercase())];
    if let Some(base) = name.strip_suffix("-grp") {
        all.push(NodeGroupKey::Machine(base.to_owned()));
        if let Some((pool, _)) = base.rsplit_once('-') {
            all.push(NodeGroupKey::Machine(format!("{pool}-*")));
        }
    }
    all.push(NodeGroupKey::Label(name));
    let last = name.rsplit('/').next().unwrap_or(name);
    all.push(NodeGroupKey::Label(last));
    // eks-NODEGROUP-UUID
    if let Some(rest) = name.strip_prefix("eks-")
        && let Some((group, uuid)) = rest
            .len()
            .checked_sub(37)
            .and_then(|at| rest.split_at_checked(at))
        && uuid.starts_with('-')
    {
        all.push(NodeGroupKey::Label(group));
    }
    // eksctl-CLUSTER-nodegroup-NODEGROUP-NodeGroup-RANDOM
    if let Some((_, rest)) = name.split_once("-nodegroup-")
        && let Some((group, _)) = rest.split_once("-NodeGroup-")
    {
        all.push(NodeGroupKey::Label(group));
    }
    // INSTANCEGROUP.CLUSTER.DOMAIN
    if let Some((group, _)) = name.split_once('.') {
        all.push(NodeGroupKey::Label(group));
    }
    // aks-POOL-NUMBER-vmss
    if let Some(rest) = name.strip_prefix("aks-")
        && let Some((group, _)) = rest
            .strip_suffix("-vmss")
            .and_then(|rest| rest.rsplit_once('-'))
    {
        all.push(NodeGroupKey::Label(group));
    }
    all
}

/// How far a pool's size may go by itself.
pub(super) struct PoolSizeBounds {
    pub(super) min: Option<u32>,
    pub(super) max: Option<u32>,
    pub(super) mode: PoolMode,
}

/// The bounds of a pool whose nodes all belong to scalers of this pool alone.
pub(super) fn bounds(pool: &Name, nodes: &[&Node], scaling: &Scaling) -> Option<PoolSizeBounds> {
    let scalers: Vec<&Scaler> = scaling.of_pool(pool).collect();
    let kind = scalers.first()?.kind;
    let fixed = |scaler: &&Scaler| {
        scaler.fixed
            || (scaler.kind == ScalerKind::NodeGroup
                && scaler.max.is_some()
                && scaler.min == scaler.max)
    };
    let mode = match scalers.iter().all(fixed) {
        true => PoolMode::Static,
        false => PoolMode::Dynamic,
    };
    let karpenters = |node: &&Node| node.seen.labels.get(NODE_POOL).is_some();
    let whole = scalers
        .iter()
        .all(|scaler| scaler.kind == kind && scaler.pools.len() == 1)
        && nodes
            .iter()
            .all(|node| karpenters(node) == (kind == ScalerKind::NodePool));
    if !whole {
        return Some(PoolSizeBounds {
            min: None,
            max: None,
            mode,
        });
    }
    let sum = |of: &dyn Fn(&Scaler) -> Option<u32>| {
        scalers
            .iter()
            .map(|scaler| of(scaler))
            .try_fold(0u32, |sum, one| Some(sum.saturating_add(one?)))
    };
    Some(PoolSizeBounds {
        min: sum(&|scaler| scaler.min),
        max: sum(&|scaler| scaler.max.or_else(|| by_devices(scaler, nodes))),
        mode,
    })
}

/// The most nodes within a bound on devices, where the node pool creates one kind of machine only.
fn by_devices(scaler: &Scaler, nodes: &[&Node]) -> Option<u32> {
    let machine = scaler.requirements.iter().any(|wanted| {
        wanted.key.as_str() == "node.kubernetes.io/instance-type"
            && wanted.operator == Operator::In
            && wanted.values.len() == 1
    });
    let first = nodes.first()?;
    if !machine {
        return None;
    }
    scaler
        .limits
        .iter()
        .filter_map(|limit| {
            let each = first.seen.capacity.device(&limit.resource)?;
            let same = nodes
                .iter()
                .all(|node| node.seen.capacity.device(&limit.resource) == Some(each));
            (same && each > 0).then(|| limit.most / 1000 / i64::from(each))
        })
        .min()
        .and_then(|most| u32::try_from(most).ok())
}
