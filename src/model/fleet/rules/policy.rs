//! The rules that map raw labels to pools, teams, queues and judgments. Plain data from the settings.

use std::sync::Arc;
use std::time::Duration;

use crate::base::ObjectKey;

use super::accelerator::Catalog;
use super::xid::XidTable;
use crate::fleet::node::Billing;
use crate::fleet::pool::PoolMode;
use crate::fleet::queueing::govern::{KUEUE_QUEUE, QUEUE};
use crate::fleet::queueing::scheduling::EngineRules;
use crate::fleet::serving::served_model::Objectives;

/// A pool defined in the settings.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PoolRule {
    pub name: String,
    /// Labels that a node must all have; an empty value requires only the key.
    pub labels: Vec<(String, String)>,
    pub mode: Option<PoolMode>,
    pub billing: Option<Billing>,
    /// The team that owns it.
    pub owner: Option<String>,
    /// Minimum number of nodes.
    pub min: Option<u32>,
    /// Maximum number of nodes.
    pub max: Option<u32>,
}

/// A team defined in the settings.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct TeamRule {
    pub name: String,
    /// Namespaces; a final `*` matches any suffix.
    pub namespaces: Vec<String>,
    pub queues: Vec<String>,
    /// Labels of the workload or pod that must all match.
    pub labels: Vec<(String, String)>,
}

/// Service objectives defined in the settings.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ServiceRule {
    /// Namespaces; a final `*` matches any suffix, also below. An empty list matches everything.
    pub namespaces: Vec<String>,
    pub names: Vec<String>,
    pub models: Vec<String>,
    pub objectives: Objectives,
}

impl ServiceRule {
    /// True when the rule applies to this model of this workload.
    pub fn covers(&self, job: &ObjectKey, model: Option<&str>) -> bool {
        let any = |patterns: &[String], text: Option<&str>| {
            let fits = |text| patterns.iter().any(|pattern| glob(pattern, text));
            patterns.is_empty() || text.is_some_and(fits)
        };
        any(&self.namespaces, Some(&job.namespace))
            && any(&self.names, Some(&job.name))
            && any(&self.models, model)
    }
}

/// True when `text` equals `pattern`, or starts with the text before the pattern's final `*`.
pub fn glob(pattern: &str, text: &str) -> bool {
    pattern
        .strip_suffix('*')
        .map_or(pattern == text, |head| text.starts_with(head))
}

/// Settings of the ledger.
#[derive(Clone, Debug)]
pub struct Policy {
    pub catalog: Arc<Catalog>,
    /// Health rules for XID codes.
    pub xids: Arc<XidTable>,
    /// Pools of the settings, first match wins; they take precedence over labels.
    pub pools: Vec<PoolRule>,
    /// Node labels that name a pool, first present wins.
    pub pool_labels: Vec<String>,
    /// Node labels that name a rack, first present wins.
    pub rack_labels: Vec<String>,
    /// Teams of the settings, first match wins.
    pub teams: Vec<TeamRule>,
    /// Labels of a workload, pod or namespace that name its team, first present wins.
    pub team_labels: Vec<String>,
    /// Labels of a workload or pod that name its queue, first present wins.
    pub queue_labels: Vec<String>,
    /// Utilization below which an allocated device is idle, 0 to 1.
    pub idle_util_below: f64,
    /// Factor on its model's idle power up to which a device counts as idle.
    pub idle_power_factor: f64,
    /// Minimum time since allocation before a device can count as idle.
    pub idle_grace: Duration,
    pub engine: EngineRules,
    /// Service objectives, first match wins.
    pub services: Vec<ServiceRule>,
}

impl Policy {
    /// The pool rule that a node's labels match, if any.
    pub fn pool_rule(
        &self,
        labels: &crate::fleet::observed::object_parts::Labels,
    ) -> Option<&PoolRule> {
        self.pools.iter().find(|rule| {
            !rule.labels.is_empty()
                && rule.labels.iter().all(|(key, value)| {
                    labels
                        .get(key)
                        .is_some_and(|found| value.is_empty() || glob(value, found))
                })
        })
    }
}

impl Default for Policy {
    fn default() -> Self {
        let owned = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect();
        Self {
            catalog: Arc::default(),
            xids: Arc::new(XidTable::embedded()),
            pools: Vec::new(),
            pool_labels: owned(POOL_LABELS),
            rack_labels: owned(RACK_LABELS),
            teams: Vec::new(),
            team_labels: owned(&["stokehold.dev/team", "team", "app.kubernetes.io/part-of"]),
            queue_labels: owned(&[
                QUEUE,
                KUEUE_QUEUE,
                "kai.scheduler/queue",
                "volcano.sh/queue-name",
            ]),
            idle_util_below: 0.01,
            idle_power_factor: 1.5,
            idle_grace: Duration::from_secs(15 * 60),
            engine: EngineRules::default(),
            services: Vec::new(),
        }
    }
}

/// Node labels that name a pool, as providers set them.
pub const POOL_LABELS: &[&str] = &[
    "stokehold.dev/pool",
    "karpenter.sh/nodepool",
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "kubernetes.azure.com/agentpool",
    "agentpool",
    "oke.oraclecloud.com/pool.name",
    "doks.digitalocean.com/node-pool",
    "k8s.scaleway.com/pool-name",
    "vks.vmware.com/nodepool",
    "run.ai/simulated-gpu-node-pool",
    "node-pool",
    "nodepool",
];

/// Node labels used as the rack, closest level first.
pub const RACK_LABELS: &[&str] = &[
    "stokehold.dev/rack",
    "topology.kubernetes.io/rack",
    "cloud.provider.com/topology-rack",
    "accelerator.topograph.run/domain",
    "network.topology.nvidia.com/leaf",
    "topology.k8s.aws/network-node-layer-3",
    "cloud.google.com/gce-topology-subblock",
    "oci.oraclecloud.com/host.internal_rack_id",
    "oci.oraclecloud.com/host.rack_id",
    "rack",
];
