//! The kinds that `get` prints, and the output formats.

use serde_json::Value;

use model::schema::{SchemaHead, of_document, of_rows};

use super::devices::DeviceRow;
use super::document::Document;
use super::jobs::JobRow;
use super::kinds::advice::AdviceRow;
use super::kinds::alerts::AlertRow;
use super::kinds::cost::CostRow;
use super::kinds::pods::PodRow;
use super::kinds::scalers::ScalerRow;
use super::kinds::services::ServiceRow;
use super::kinds::sources::SourceRow;
use super::nodes::NodeRow;
use super::pools::PoolRow;
use super::queues::QueueRow;

/// How to read the values of most kinds.
pub(crate) const UNKNOWN_IS_NULL: &str =
    "Unknown is null, never 0; units are in the names; times are RFC 3339.";

/// A kind of object that `get` prints.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    Pools,
    Nodes,
    /// Devices and their slices.
    Devices,
    Queues,
    Jobs,
    /// Pods that request devices.
    Pods,
    /// Models served by workloads.
    Services,
    Cost,
    Alerts,
    /// Advice about jobs' devices.
    Advice,
    /// Autoscalers of nodes and pods.
    Scalers,
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

    pub fn schema(self) -> Value {
        let head = |title, description| SchemaHead {
            name: self.name(),
            title,
            description,
        };
        match self {
            Self::Pools => of_rows::<PoolRow<'_>>(head("Pools", UNKNOWN_IS_NULL)),
            Self::Nodes => of_rows::<NodeRow<'_>>(head("Nodes", UNKNOWN_IS_NULL)),
            Self::Devices => {
                of_rows::<DeviceRow<'_>>(head("Devices and their slices", UNKNOWN_IS_NULL))
            }
            Self::Queues => of_rows::<QueueRow<'_>>(head("Queues", UNKNOWN_IS_NULL)),
            Self::Jobs => of_rows::<JobRow<'_>>(head("Jobs", UNKNOWN_IS_NULL)),
            Self::Pods => of_rows::<PodRow<'_>>(head(
                "Pods",
                "Pods that request devices. Unknown is null, never 0; units are in the names; times are RFC 3339.",
            )),
            Self::Services => of_rows::<ServiceRow<'_>>(head(
                "Services",
                "Models that workloads serve. Unknown is null, never 0; units are in the names; times are RFC 3339.",
            )),
            Self::Cost => of_rows::<CostRow<'_>>(head("Money an hour by scope", UNKNOWN_IS_NULL)),
            Self::Alerts => of_rows::<AlertRow<'_>>(head("Findings, worst first", UNKNOWN_IS_NULL)),
            Self::Advice => of_rows::<AdviceRow<'_>>(head(
                "What to do about jobs' devices and about pools, what saves most first",
                "Unknown is null, never 0; units are in the names. A month is 730 hours.",
            )),
            Self::Scalers => of_rows::<ScalerRow<'_>>(head(
                "Autoscalers of nodes and pods, and requests for capacity",
                "Unknown is null, never 0; times are RFC 3339.",
            )),
            Self::Sources => {
                of_rows::<SourceRow<'_>>(head("Where facts come from", UNKNOWN_IS_NULL))
            }
            Self::Fleet => of_document::<Document<'_>>(head(
                "The fleet at one moment",
                "Unknown is null, never 0; units are in the names; times are RFC 3339. With --team or -n, `figures` and `pools` are those of the scope; all other fields are those of the whole fleet.",
            )),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Format {
    Table,
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
