//! The kinds that `get` prints, and the output formats.

/// A kind of object that `get` prints.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    /// Pools.
    Pools,
    /// Nodes.
    Nodes,
    /// Devices and their slices.
    Devices,
    /// Queues.
    Queues,
    /// Jobs.
    Jobs,
    /// Pods that request devices.
    Pods,
    /// Models served by workloads.
    Services,
    /// Cost.
    Cost,
    /// Findings.
    Alerts,
    /// Advice about jobs' devices.
    Advice,
    /// Autoscalers of nodes and pods.
    Scalers,
    /// Data sources.
    Sources,
    /// The whole fleet as one document.
    Fleet,
}

impl Kind {
    /// Every kind, in the order of the contract.
    pub const ALL: [Self; 13] = [
        Self::Pools,
        Self::Nodes,
        Self::Devices,
        Self::Queues,
        Self::Jobs,
        Self::Pods,
        Self::Services,
        Self::Cost,
        Self::Alerts,
        Self::Advice,
        Self::Scalers,
        Self::Sources,
        Self::Fleet,
    ];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pools => "pools",
            Self::Nodes => "nodes",
            Self::Devices => "devices",
            Self::Queues => "queues",
            Self::Jobs => "jobs",
            Self::Pods => "pods",
            Self::Services => "services",
            Self::Cost => "cost",
            Self::Alerts => "alerts",
            Self::Advice => "advice",
            Self::Scalers => "scalers",
            Self::Sources => "sources",
            Self::Fleet => "fleet",
        }
    }

    /// The singular, as shown before an object's name.
    pub const fn singular(self) -> &'static str {
        match self {
            Self::Pools => "pool",
            Self::Nodes => "node",
            Self::Devices => "device",
            Self::Queues => "queue",
            Self::Jobs => "job",
            Self::Pods => "pod",
            Self::Services => "service",
            Self::Cost => "cost",
            Self::Alerts => "alert",
            Self::Advice => "advice",
            Self::Scalers => "scaler",
            Self::Sources => "source",
            Self::Fleet => "fleet",
        }
    }

    /// Its JSON Schema (draft 2020-12).
    pub const fn schema(self) -> &'static str {
        match self {
            Self::Pools => include_str!("../../config/schema/pools.json"),
            Self::Nodes => include_str!("../../config/schema/nodes.json"),
            Self::Devices => include_str!("../../config/schema/devices.json"),
            Self::Queues => include_str!("../../config/schema/queues.json"),
            Self::Jobs => include_str!("../../config/schema/jobs.json"),
            Self::Pods => include_str!("../../config/schema/pods.json"),
            Self::Services => include_str!("../../config/schema/services.json"),
            Self::Cost => include_str!("../../config/schema/cost.json"),
            Self::Alerts => include_str!("../../config/schema/alerts.json"),
            Self::Advice => include_str!("../../config/schema/advice.json"),
            Self::Scalers => include_str!("../../config/schema/scalers.json"),
            Self::Sources => include_str!("../../config/schema/sources.json"),
            Self::Fleet => include_str!("../../config/schema/fleet.json"),
        }
    }
}

/// An output format.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Format {
    /// Columns for people.
    Table,
    /// More columns.
    Wide,
    /// A JSON array of objects.
    Json,
    /// The same as YAML.
    Yaml,
    /// CSV: one line a row; nested fields are columns such as `nodes.total`.
    Csv,
    /// `KIND/NAME`, one line a row.
    Name,
    /// The query's template applied to the rows.
    Template,
}
