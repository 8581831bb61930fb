//! Catalog of the simulated fleet: pools, their machines and devices, teams, queues and priority classes.

use super::noise::unit;

/// Vendor of a device.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Vendor {
    /// NVIDIA GPUs, read through dcgm-exporter.
    Nvidia,
    /// Google TPUs, read through the TPU device plugin.
    Google,
    /// AMD GPUs, read through the device-metrics-exporter.
    Amd,
}

/// What creates and labels the nodes of a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Origin {
    /// An EKS managed node group on a capacity block.
    NodeGroup,
    /// A Karpenter node pool with this capacity type.
    Karpenter(&'static str),
    /// A GKE node pool with this provisioning.
    Gke(&'static str),
    /// On-premises machines, through Cluster API.
    Metal,
}

impl Origin {
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
#[derive(Debug)]
pub(super) struct PoolSpec {
    pub name: &'static str,
    /// Node names are `PREFIX-N`.
    pub prefix: &'static str,
    pub vendor: Vendor,
    pub origin: Origin,
    pub flavor: &'static str,
    /// Extended resources that the device plugin advertises.
    pub resources: &'static [&'static str],
    /// Physical devices of a node.
    pub per_node: u32,
    pub mig: bool,
    /// Product name as the exporter prints it.
    pub model: &'static str,
    /// The value of the product label.
    pub product: &'static str,
    pub instance: &'static str,
    pub zones: &'static [&'static str],
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
/// Volcano schedules its pods.
pub(super) const VOLCANO: usize = 9;
/// KAI schedules its pods.
pub(super) const KAI: usize = 10;

/// Number of pools with randomly drawn work; the pools after them have the few works of [`super::guests`].
pub(super) const DRAWN: usize = 7;

/// The pools, in the order in which the console lists them.
pub(super) const POOLS: [PoolSpec; 11] = [
    PoolSpec {
        name: "h100-train",
        prefix: "h100",
        vendor: Vendor::Nvidia,
        origin: Origin::NodeGroup,
        flavor: "h100",
        resources: &["nvidia.com/gpu"],
        per_node: 8,
        mig: false,
        model: "NVIDIA H100 80GB HBM3",
        product: "NVIDIA-H100-80GB-HBM3",
        instance: "p5.48xlarge",
        zones: &["us-east-1b"],
        rack_size: 32,
        cpu: 192,
        memory_gib: 2048,
        device_mib: 81_559,
        reserved_mib: 551,
        limit_watts: 700.0,
        idle_watts: 68.0,
        heat: 0.061,
        sm_mhz: 1755.0,
        idle_mhz: 345.0,
        mem_mhz: 2619.0,
        link: 2.1e11,
        nodes: 128,
    },
    PoolSpec {
        name: "a100-shared",
        prefix: "a100",
        vendor: Vendor::Nvidia,
        origin: Origin::Karpenter("on-demand"),
        flavor: "a100",
        resources: &["nvidia.com/gpu"],
        per_node: 8,
        mig: false,
        model: "NVIDIA A100-SXM4-80GB",
        product: "NVIDIA-A100-SXM4-80GB",
        instance: "p4de.24xlarge",
        zones: &["us-east-1a", "us-east-1b"],
        rack_size: 24,
        cpu: 96,
        memory_gib: 1152,
        device_mib: 81_920,
        reserved_mib: 615,
        limit_watts: 400.0,
        idle_watts: 62.0,
        heat: 0.104,
        sm_mhz: 1410.0,
        idle_mhz: 210.0,
        mem_mhz: 1593.0,
        link: 1.2e11,
        nodes: 96,
    },
    PoolSpec {
        name: "l4-serve",
        prefix: "l4",
        vendor: Vendor::Nvidia,
        origin: Origin::Karpenter("spot"),
        flavor: "l4",
        resources: &["nvidia.com/gpu"],
        per_node: 4,
        mig: false,
        model: "NVIDIA L4",
        product: "NVIDIA-L4",
        instance: "g6.12xlarge",
        zones: &["us-east-1a", "us-east-1b", "us-east-1c"],
        rack_size: 50,
        cpu: 48,
        memory_gib: 192,
        device_mib: 23_034,
        reserved_mib: 494,
        limit_watts: 72.0,
        idle_watts: 16.0,
        heat: 0.40,
        sm_mhz: 2040.0,
        idle_mhz: 210.0,
        mem_mhz: 6251.0,
        link: 0.0,
        nodes: 100,
    },
    PoolSpec {
        name: "tpu-v5p",
        prefix: "v5p",
        vendor: Vendor::Google,
        origin: Origin::Gke("standard"),
        flavor: "tpu-v5p",
        resources: &["google.com/tpu"],
        per_node: 4,
        mig: false,
        model: "tpu-v5p-slice",
        product: "tpu-v5p-slice",
        instance: "ct5p-hightpu-4t",
        zones: &["us-east5-a"],
        rack_size: 64,
        cpu: 208,
        memory_gib: 448,
        device_mib: 98_030,
        reserved_mib: 0,
        limit_watts: 0.0,
        idle_watts: 0.0,
        heat: 0.0,
        sm_mhz: 0.0,
        idle_mhz: 0.0,
        mem_mhz: 0.0,
        link: 0.0,
        nodes: 128,
    },
    PoolSpec {
        name: "tpu-v6e",
        prefix: "v6e",
        vendor: Vendor::Google,
        origin: Origin::Gke("spot"),
        flavor: "tpu-v6e",
        resources: &["google.com/tpu"],
        per_node: 8,
        mig: false,
        model: "tpu-v6e-slice",
        product: "tpu-v6e-slice",
        instance: "ct6e-standard-8t",
        zones: &["us-east5-b"],
        rack_size: 32,
        cpu: 180,
        memory_gib: 1440,
        device_mib: 32_000,
        reserved_mib: 0,
        limit_watts: 0.0,
        idle_watts: 0.0,
        heat: 0.0,
        sm_mhz: 0.0,
        idle_mhz: 0.0,
        mem_mhz: 0.0,
        link: 0.0,
        nodes: 32,
    },
    PoolSpec {
        name: "mi300x-lab",
        prefix: "mi300x",
        vendor: Vendor::Amd,
        origin: Origin::Metal,
        flavor: "mi300x",
        resources: &["amd.com/gpu"],
        per_node: 8,
        mig: false,
        model: "AMD Instinct MI300X OAM",
        product: "AMD_Instinct_MI300X_OAM",
        instance: "metal-mi300x-8",
        zones: &["dc1-hall2"],
        rack_size: 8,
        cpu: 192,
        memory_gib: 2304,
        device_mib: 196_592,
        reserved_mib: 0,
        limit_watts: 750.0,
        idle_watts: 132.0,
        heat: 0.052,
        sm_mhz: 2100.0,
        idle_mhz: 132.0,
        mem_mhz: 1300.0,
        link: 9.0e10,
        nodes: 8,
    },
    PoolSpec {
        name: "a100-mig",
        prefix: "mig",
        vendor: Vendor::Nvidia,
        origin: Origin::Metal,
        flavor: "a100-mig",
        resources: &["nvidia.com/mig-1g.10gb", "nvidia.com/mig-2g.20gb"],
        per_node: 8,
        mig: true,
        model: "NVIDIA A100-SXM4-80GB",
        product: "NVIDIA-A100-SXM4-80GB",
        instance: "metal-dgx-a100",
        zones: &["dc1-hall1"],
        rack_size: 8,
        cpu: 256,
        memory_gib: 2048,
        device_mib: 81_920,
        reserved_mib: 615,
        limit_watts: 400.0,
        idle_watts: 62.0,
        heat: 0.125,
        sm_mhz: 1410.0,
        idle_mhz: 210.0,
        mem_mhz: 1593.0,
        link: 0.0,
        nodes: 5,
    },
    PoolSpec {
        name: "b200-shared",
        prefix: "b200",
        vendor: Vendor::Nvidia,
        origin: Origin::NodeGroup,
        flavor: "b200",
        resources: &["nvidia.com/gpu"],
        per_node: 8,
        mig: false,
        model: "NVIDIA B200",
        product: "NVIDIA-B200",
        instance: "p6-b200.48xlarge",
        zones: &["us-east-1b"],
        rack_size: 8,
        cpu: 192,
        memory_gib: 2048,
        device_mib: 183_359,
        reserved_mib: 710,
        limit_watts: 1000.0,
        idle_watts: 139.0,
        heat: 0.042,
        sm_mhz: 1965.0,
        idle_mhz: 120.0,
        mem_mhz: 3996.0,
        link: 4.1e11,
        nodes: 3,
    },
    PoolSpec {
        name: "l40s-dra",
        prefix: "l40s",
        vendor: Vendor::Nvidia,
        origin: Origin::NodeGroup,
        flavor: "l40s",
        resources: &["nvidia.com/gpu"],
        per_node: 8,
        mig: false,
        model: "NVIDIA L40S",
        product: "NVIDIA-L40S",
        instance: "g6e.48xlarge",
        zones: &["us-east-1b"],
        rack_size: 8,
        cpu: 192,
        memory_gib: 1536,
        device_mib: 46_068,
        reserved_mib: 580,
        limit_watts: 350.0,
        idle_watts: 35.0,
        heat: 0.11,
        sm_mhz: 2520.0,
        idle_mhz: 210.0,
        mem_mhz: 9001.0,
        link: 0.0,
        nodes: 2,
    },
    PoolSpec {
        name: "a10g-volcano",
        prefix: "a10g",
        vendor: Vendor::Nvidia,
        origin: Origin::NodeGroup,
        flavor: "a10g",
        resources: &["nvidia.com/gpu"],
        per_node: 8,
        mig: false,
        model: "NVIDIA A10G",
        product: "NVIDIA-A10G",
        instance: "g5.48xlarge",
        zones: &["us-east-1b"],
        rack_size: 8,
        cpu: 192,
        memory_gib: 768,
        device_mib: 23_028,
        reserved_mib: 496,
        limit_watts: 300.0,
        idle_watts: 24.0,
        heat: 0.13,
        sm_mhz: 1710.0,
        idle_mhz: 210.0,
        mem_mhz: 6251.0,
        link: 0.0,
        nodes: 2,
    },
    PoolSpec {
        name: "a100-40gb-kai",
        prefix: "p4d",
        vendor: Vendor::Nvidia,
        origin: Origin::NodeGroup,
        flavor: "p4d",
        resources: &["nvidia.com/gpu"],
        per_node: 8,
        mig: false,
        model: "NVIDIA A100-SXM4-40GB",
        product: "NVIDIA-A100-SXM4-40GB",
        instance: "p4d.24xlarge",
        zones: &["us-east-1b"],
        rack_size: 8,
        cpu: 96,
        memory_gib: 1152,
        device_mib: 40_960,
        reserved_mib: 507,
        limit_watts: 400.0,
        idle_watts: 52.0,
        heat: 0.104,
        sm_mhz: 1410.0,
        idle_mhz: 210.0,
        mem_mhz: 1215.0,
        link: 1.2e11,
        nodes: 2,
    },
];

/// Racks are numbered along the halls, not in the order of pools; racks of the later pools come last.
pub(super) const RACK_ORDER: [usize; 7] = [H100, L4, A100, MI300X, MIG, V5P, V6E];

/// A namespace of a team: name, team label, people.
pub(super) const TEAMS: [(&str, &str, &[&str]); 6] = [
    ("nlp", "language", &["ada", "mei", "tomas", "ines"]),
    ("vision", "perception", &["kim", "omar", "lena"]),
    ("speech", "speech", &["yuki", "paulo"]),
    ("research", "research", &["noor", "sven", "chidi", "emma"]),
    ("prod", "ranking", &["deploy-bot", "rosa"]),
    ("lab", "silicon-lab", &["wei", "jonas"]),
];

/// Namespaces of the platform.
pub(super) const SYSTEM: [&str; 7] = [
    "default",
    "kube-system",
    "kube-public",
    "kube-node-lease",
    "gpu-operator",
    "kube-amd-gpu",
    "kueue-system",
];

/// Priority classes: name, value, description.
pub(super) const CLASSES: [(&str, i32, &str); 6] = [
    ("research-low", 10, "Sweeps and ablations; first to go"),
    ("research", 20, "Ordinary training"),
    ("evaluation", 40, "Short jobs that people wait for"),
    ("research-high", 80, "Training with a deadline"),
    ("prod-batch", 90, "Retraining of what serves"),
    ("prod-serve", 100, "What answers users"),
];

/// A quota: flavor, resource, and nominal, borrowing and lending shares of the pool's capacity.
pub(super) type QuotaSpec = (usize, &'static str, f64, Option<f64>, Option<f64>);

/// A cluster queue: name, cohort, weight, quotas.
pub(super) type QueueSpec = (&'static str, &'static str, u32, &'static [QuotaSpec]);

const GPU: &str = "nvidia.com/gpu";
const TPU: &str = "google.com/tpu";
const MIG1: &str = "nvidia.com/mig-1g.10gb";
const MIG2: &str = "nvidia.com/mig-2g.20gb";

/// The cluster queues. Nominal quotas add up to more than the pools' capacity, as on real clusters.
pub(super) const QUEUES: [QueueSpec; 7] = [
    (
        "nlp",
        "research",
        2,
        &[
            (H100, GPU, 0.75, None, Some(0.25)),
            (A100, GPU, 0.17, Some(0.0625), None),
            (V5P, TPU, 0.5, None, None),
            (V6E, TPU, 0.25, None, None),
        ],
    ),
    (
        "vision",
        "research",
        1,
        &[
            (H100, GPU, 0.1875, Some(0.125), None),
            (A100, GPU, 1.0 / 6.0, Some(0.0), Some(0.0)),
            (V5P, TPU, 0.125, None, None),
            (V6E, TPU, 0.25, None, None),
        ],
    ),
    (
        "speech",
        "research",
        1,
        &[
            (H100, GPU, 0.09375, Some(0.0625), None),
            (A100, GPU, 0.1, Some(0.0625), None),
            (V5P, TPU, 1.0, None, None),
            (V6E, TPU, 0.125, None, None),
        ],
    ),
    (
        "research",
        "research",
        1,
        &[
            (H100, GPU, 0.125, Some(0.125), None),
            (A100, GPU, 0.2, Some(0.0625), None),
            (V5P, TPU, 0.125, None, None),
            (V6E, TPU, 0.25, None, None),
            (MIG, MIG1, 0.25, Some(0.1), None),
        ],
    ),
    (
        "ranker",
        "prod",
        3,
        &[
            (H100, GPU, 0.25, Some(0.0), None),
            (A100, GPU, 0.0625, Some(0.0), None),
        ],
    ),
    (
        "serve",
        "prod",
        2,
        &[
            (A100, GPU, 0.0625, Some(0.0625), None),
            (L4, GPU, 0.2, None, None),
        ],
    ),
    (
        "lab",
        "lab",
        1,
        &[
            (A100, GPU, 0.04, None, None),
            (MI300X, "amd.com/gpu", 1.0, None, None),
            (MIG, MIG1, 0.5, None, None),
            (MIG, MIG2, 1.0, None, None),
        ],
    ),
];

/// Local queues: namespace, name (also the name of the cluster queue).
pub(super) const LOCAL_QUEUES: [(&str, &str); 7] = [
    ("nlp", "nlp"),
    ("vision", "vision"),
    ("speech", "speech"),
    ("research", "research"),
    ("prod", "ranker"),
    ("prod", "serve"),
    ("lab", "lab"),
];

/// The value of a priority class; zero for an unknown one.
pub(super) fn class_value(name: &str) -> i32 {
    CLASSES
        .iter()
        .find(|class| class.0 == name)
        .map_or(0, |class| class.1)
}

/// The team label of a namespace; the namespace itself when no team owns it.
pub(super) fn team_of(namespace: &str) -> &str {
    TEAMS
        .iter()
        .find(|team| team.0 == namespace)
        .map_or(namespace, |team| team.1)
}

impl PoolSpec {
    /// Labels that an operator adds where a provider's labels do not suffice: the pool's usual name (for GKE each
    /// slice is its own node pool), whether it is scaled, and how it is billed.
    pub fn operator_labels(&self) -> [(&'static str, &'static str); 3] {
        let (mode, billing) = match self.origin {
            Origin::NodeGroup => ("static", "reserved"),
            Origin::Karpenter(capacity) => ("dynamic", capacity),
            Origin::Gke("spot") => ("dynamic", "spot"),
            Origin::Gke(_) => ("static", "reserved"),
            Origin::Metal if self.mig => ("static", "owned"),
            Origin::Metal => ("dynamic", "owned"),
        };
        [
            ("stokehold.dev/pool", self.name),
            ("stokehold.dev/pool-mode", mode),
            ("stokehold.dev/billing", billing),
        ]
    }
}
