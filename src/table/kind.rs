//! What can be asked for, and in which shape.

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
    /// Pods that ask for devices.
    Pods,
    /// Models that workloads serve.
    Services,
    /// Money.
    Cost,
    /// Findings.
    Alerts,
    /// What to do about jobs' devices.
    Advice,
    /// What makes nodes and pods come and go.
    Scalers,
    /// Where facts come from.
    Sources,
    /// Everything as one document.
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

    /// What one object of it is called before its name.
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

/// A shape of output.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Format {
    /// Columns for people.
    Table,
    /// More columns.
    Wide,
    /// An array of objects.
    Json,
    /// The same as YAML.
    Yaml,
    /// A line a row, nested fields as `nodes.total`.
    Csv,
    /// `KIND/NAME` a line.
    Name,
    /// What a template of the query makes of them.
    Template,
}
