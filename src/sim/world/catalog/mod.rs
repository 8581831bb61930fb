//! Catalog of the simulated fleet: pools, their machines and devices, teams, queues and priority classes.

use std::sync::LazyLock;

use serde::{Deserialize, Deserializer, de};

use super::kinds::{DisruptionBound, Profile, WorkKind};
use super::noise::unit;

/// Vendor of a device.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Deserialize)]
pub(super) enum SimVendor {
    /// NVIDIA GPUs, read through dcgm-exporter.
    Nvidia,
    /// Google TPUs, read through the TPU device plugin.
    Google,
    /// AMD GPUs, read through the device-metrics-exporter.
    Amd,
}

/// What creates and labels the nodes of a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
pub(super) enum NodeOrigin {
    /// An EKS managed node group on a capacity block.
    NodeGroup,
    /// A Karpenter node pool with this capacity type.
    Karpenter(&'static str),
    /// A GKE node pool with this provisioning.
    Gke(&'static str),
    /// On-premises machines, through Cluster API.
    Metal,
}

impl NodeOrigin {
    /// By this word templates know it.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::NodeGroup => "eks",
            Self::Karpenter(_) => "karpenter",
            Self::Gke(_) => "gke",
            Self::Metal => "metal",
        }
    }
}

/// A pool's machine and device.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PoolSpec {
    pub name: &'static str,
    /// Node names are `PREFIX-N`.
    pub prefix: &'static str,
    pub vendor: SimVendor,
    pub origin: NodeOrigin,
    pub flavor: &'static str,
    /// Extended resources that the device plugin advertises.
    #[serde(borrow)]
    pub resources: Vec<&'static str>,
    /// Physical devices of a node.
    pub per_node: u32,
    pub mig: bool,
    /// Product name as the exporter prints it.
    pub model: &'static str,
    /// The value of the product label.
    pub product: &'static str,
    pub instance: &'static str,
    #[serde(borrow)]
    pub zones: Vec<&'static str>,
    pub rack_size: u32,
    pub cpu: u32,
    pub memory_gib: u32,
    /// Device memory as the exporter reports it in total, MiB.
    pub device_mib: u32,
    /// Device memory reserved by the driver, MiB.
    pub reserved_mib: u32,
    pub limit_watts: f64,
    pub idle_watts: f64,
    /// Degrees above the inlet temperature per watt.
    pub heat: f64,
    pub sm_mhz: f64,
    pub idle_mhz: f64,
    pub mem_mhz: f64,
    /// NVLink or xGMI bytes a second of a busy device in a gang.
    pub link: f64,
    /// Nodes in the demo fleet.
    pub nodes: u32,
    /// Name and compute capability of its GPUs' architecture.
    #[serde(borrow)]
    pub gpu_family: [&'static str; 3],
    /// Key and value of its nodes' own taint, of effect `NoSchedule`. A scheduler other than kube-scheduler has its own nodes, as
    /// neither sees the pending placements of the other.
    #[serde(borrow)]
    pub taint: Option<(&'static str, &'static str)>,
    /// The node labels that select it: those of its Kueue flavor.
    #[serde(borrow)]
    pub selector: Vec<(&'static str, &'static str)>,
    /// Namespaces and queues of new jobs, by their shares.
    #[serde(borrow)]
    pub teams: Vec<(f64, (&'static str, &'static str))>,
    /// Devices of new jobs, by their shares; slices for v5p.
    pub sizes: Vec<(f64, u32)>,
    /// Target allocation at the start, 0 to 1.
    pub full: f64,
    /// Share of its devices that no service and notebook occupies for good.
    pub open: f64,
}

impl PoolSpec {
    /// Allocatable CPU of a machine, in millicores.
    pub(super) fn cpu_offered(&self) -> i64 {
        i64::from(self.cpu) * 1_000 - 180
    }

    /// Memory of a machine, in KiB: differs between machines.
    pub(super) fn memory_kib(&self, uid: u64) -> i64 {
        i64::from(self.memory_gib) * 1_048_576 - (unit(uid) * 90_000.0) as i64 * 4
    }

    /// Allocatable memory of a machine, in KiB.
    pub(super) fn memory_offered_kib(&self, uid: u64) -> i64 {
        self.memory_kib(uid) - 1_572_864
    }

    /// Schedulable units of an ordinary node.
    pub(super) const fn units(&self) -> u32 {
        if self.mig {
            self.per_node * 7
        } else {
            self.per_node
        }
    }
}

pub(super) const H100: usize = 0;
pub(super) const A100: usize = 1;
pub(super) const L4: usize = 2;
pub(super) const V5P: usize = 3;
pub(super) const V6E: usize = 4;
pub(super) const MI300X: usize = 5;
pub(super) const MIG: usize = 6;
pub(super) const B200: usize = 7;
/// Its devices are allocated through DRA only.
pub(super) const DRA: usize = 8;

/// Number of pools with randomly drawn work; the pools after them have the few works of [`super::fixed_pools`].
pub(super) const DRAWN: usize = 7;

pub(super) const POOL_COUNT: usize = 11;

/// Racks are numbered along the halls, not in the order of pools; racks of the later pools come last.
pub(super) const RACK_ORDER: [usize; 7] = [H100, L4, A100, MI300X, MIG, V5P, V6E];

/// A namespace of a team.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TeamSpec {
    pub namespace: &'static str,
    /// What its label `team` says.
    pub team: &'static str,
    #[serde(borrow)]
    pub people: Vec<&'static str>,
    /// What its large jobs, and its small ones, are called.
    #[serde(borrow)]
    pub large: Vec<&'static str>,
    #[serde(borrow)]
    pub small: Vec<&'static str>,
}

/// A quota: its amounts are shares of the pool's capacity.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct QuotaSpec {
    #[serde(deserialize_with = "pool")]
    pub pool: usize,
    pub resource: &'static str,
    pub nominal: f64,
    pub borrow: Option<f64>,
    pub lend: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct QueueSpec {
    pub name: &'static str,
    pub cohort: &'static str,
    pub weight: u32,
    pub quotas: Vec<QuotaSpec>,
}

/// A Deployment that follows the day.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ServiceSpec {
    pub namespace: &'static str,
    pub name: &'static str,
    pub queue: &'static str,
    #[serde(deserialize_with = "pool")]
    pub pool: usize,
    /// Devices of a replica.
    pub size: u32,
    /// Least and most replicas over the day, as shares of the pool; zero for as many as fit the demo.
    pub share: [f64; 2],
    pub util: f64,
    pub bound: Option<DisruptionBound>,
    /// How old it is at the start, in minutes.
    pub minutes: i64,
}

/// Load and capacity of a service's servers that serve request metrics.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ServerSpec {
    pub namespace: &'static str,
    pub name: &'static str,
    /// The model that it serves.
    pub model: &'static str,
    /// Requests a second that reach one replica, outside of a surge.
    pub per_second: f64,
    /// Factor of the request rate in a surge.
    pub surge: f64,
    /// Most requests in the batch.
    pub batch: usize,
    /// Capacity of the cache in tokens.
    pub cache: f64,
    /// Mean tokens of a prompt, and of an answer.
    pub prompt: f64,
    pub answer: f64,
    /// Prompt tokens processed a second.
    pub prefill: f64,
    /// The same of its first replica, where that is slower than the others.
    #[serde(default)]
    pub first_prefill: Option<f64>,
    /// Seconds per token for a single request.
    pub token: f64,
}

/// A DaemonSet of exporters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExporterSpec {
    pub namespace: &'static str,
    pub name: &'static str,
    #[serde(deserialize_with = "pool")]
    pub pool: usize,
    pub image: &'static str,
    #[serde(borrow)]
    pub labels: Vec<(&'static str, &'static str)>,
    /// The label of its nodes; the TPU plugin's pods find their nodes by affinity.
    #[serde(borrow)]
    pub selector: Option<(&'static str, &'static str)>,
}

/// A work of the demo with a name and a reason.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WorkSpec {
    pub namespace: &'static str,
    pub name: &'static str,
    pub kind: WorkKind,
    pub user: &'static str,
    pub queue: Option<&'static str>,
    pub class: &'static str,
    #[serde(deserialize_with = "pool")]
    pub pool: usize,
    /// Devices of a pod.
    pub devices: u32,
    pub profile: Profile,
    pub util: f64,
    pub memory: f64,
    #[serde(default)]
    pub gang: bool,
    /// Groups with a pod or more each.
    #[serde(borrow, default)]
    pub roles: Vec<(&'static str, u32)>,
    /// Minutes of work, between checkpoints, and since it was begun.
    pub minutes: i64,
    pub checkpoint: i64,
    pub age: i64,
}

/// The demo fleet, as `catalog.json` defines it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DemoCatalog {
    /// In the order in which the console lists them.
    pub pools: [PoolSpec; POOL_COUNT],
    pub teams: Vec<TeamSpec>,
    /// Namespaces of the platform.
    #[serde(borrow)]
    pub system: Vec<&'static str>,
    /// Priority classes: name, value, description.
    #[serde(borrow)]
    pub classes: Vec<(&'static str, i32, &'static str)>,
    /// The cluster queues. Nominal quotas add up to more than the pools' capacity, as on real clusters.
    pub queues: Vec<QueueSpec>,
    /// Local queues: namespace, name (also the name of the cluster queue).
    #[serde(borrow)]
    pub local_queues: Vec<(&'static str, &'static str)>,
    pub services: Vec<ServiceSpec>,
    /// Model servers with request metrics.
    pub servers: Vec<ServerSpec>,
    pub exporters: Vec<ExporterSpec>,
    pub works: Vec<WorkSpec>,
}

pub(super) static CATALOG: LazyLock<DemoCatalog> = LazyLock::new(|| {
    serde_json::from_str(include_str!("catalog.json")).expect("a test reads the catalog")
});

pub(super) static POOLS: LazyLock<&'static [PoolSpec; POOL_COUNT]> =
    LazyLock::new(|| &CATALOG.pools);

/// Flavors of the pools, in their order.
const FLAVORS: [&str; POOL_COUNT] = [
    "h100", "a100", "l4", "tpu-v5p", "tpu-v6e", "mi300x", "a100-mig", "b200", "l40s", "a10g", "p4d",
];

/// Reads a pool by its flavor.
fn pool<'de, D: Deserializer<'de>>(from: D) -> Result<usize, D::Error> {
    let name = <&str>::deserialize(from)?;
    let found = FLAVORS.iter().position(|flavor| *flavor == name);
    found.ok_or_else(|| de::Error::custom(format!("no pool has the flavor {name}")))
}

/// The value of a priority class; zero for an unknown one.
pub(super) fn class_value(name: &str) -> i32 {
    let found = CATALOG.classes.iter().find(|class| class.0 == name);
    found.map_or(0, |class| class.1)
}

pub(super) fn team(namespace: &str) -> Option<&'static TeamSpec> {
    CATALOG
        .teams
        .iter()
        .find(|team| team.namespace == namespace)
}

/// The team label of a namespace; the namespace itself when no team owns it.
pub(super) fn team_of(namespace: &str) -> &str {
    team(namespace).map_or(namespace, |team| team.team)
}

impl PoolSpec {
    /// Labels that an operator adds where a provider's labels do not suffice: the pool's usual name (for GKE each
    /// slice is its own node pool), whether it is scaled, and how it is billed.
    pub fn operator_labels(&self) -> [(&'static str, &'static str); 3] {
        let (mode, billing) = match self.origin {
            NodeOrigin::NodeGroup => ("static", "reserved"),
            NodeOrigin::Karpenter(capacity) => ("dynamic", capacity),
            NodeOrigin::Gke("spot") => ("dynamic", "spot"),
            NodeOrigin::Gke(_) => ("static", "reserved"),
            NodeOrigin::Metal if self.mig => ("static", "owned"),
            NodeOrigin::Metal => ("dynamic", "owned"),
        };
        [
            ("stokehold.dev/pool", self.name),
            ("stokehold.dev/pool-mode", mode),
            ("stokehold.dev/billing", billing),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flavors_are_those_of_the_pools() {
        assert!(POOLS.iter().map(|pool| pool.flavor).eq(FLAVORS));
    }
}
