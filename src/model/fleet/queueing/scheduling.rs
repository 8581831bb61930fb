//! Scheduling rules from the settings and the cluster. Plain data that the engine reads.

use serde::{Deserialize, Serialize};

use crate::base::{Name, ObjectKey};

use super::kueue_resources::KueueResources;

/// Names of the placement policies that the settings accept. A test keeps the engine's list equal.
pub const PLACEMENTS: [&str; 7] = [
    "best-fit",
    "gpu-packing",
    "gpu-clustering",
    "dot-product",
    "random",
    "fgd",
    "stokehold",
];

/// When fair sharing lets one queue preempt in another. Kueue: `fairSharing.preemptionStrategies`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum FairStrategy {
    /// While the preemptor's queue, with the workload, stays at or below the share that the victim's queue has without it.
    FinalShare,
    /// While the preemptor's queue, with the workload, stays below the share that the victim's queue has now.
    InitialShare,
}

crate::words! {
    impl FairStrategy {
        /// Name in the fleet document and the settings.
        pub fn name(self) {
            FinalShare => "less-than-or-equal-to-final-share",
            InitialShare => "less-than-initial-share",
        }
    }
}

impl FairStrategy {
    pub const ALL: [Self; 2] = [Self::FinalShare, Self::InitialShare];

    pub const fn in_kueue(self) -> &'static str {
        match self {
            Self::FinalShare => "LessThanOrEqualToFinalShare",
            Self::InitialShare => "LessThanInitialShare",
        }
    }
}

/// A value of the settings, with the file and line (variable, flag) that sets it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setting<T> {
    pub value: T,
    /// Where it was set: `/etc/stokehold/stokehold.toml:12` or `STOKEHOLD_ENGINE_PLACEMENT`.
    pub place: Name,
}

/// Engine settings; what they leave out comes from the cluster or the default.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EngineRules {
    pub placement: Option<Setting<&'static str>>,
    /// Number of workloads per queue that get a reservation; 0 for none.
    pub backfill: Option<Setting<u16>>,
    /// Strategies in the order in which they are tried; an empty list turns fair sharing off.
    pub fair_sharing: Option<Setting<Vec<FairStrategy>>>,
    pub routes: Vec<Setting<RouteRule>>,
}

/// The preferred flavors of a workload, by queue and labels.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RouteRule {
    /// Queue; `None` for every queue.
    pub queue: Option<Name>,
    /// Labels that a workload must carry.
    pub labels: Vec<(Name, Name)>,
    /// Flavors, best first, each with its speed in thousandths.
    pub flavors: Vec<(Name, i64)>,
    /// Maximum price of a flavor, micro-USD per device-hour.
    pub most_micro_usd: Option<i64>,
}

/// Scheduling options from Kueue's own configuration.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct KueueConfig {
    pub key: ObjectKey,
    /// Strategies in order, empty where fair sharing is off; or why the configuration cannot be read.
    pub fair_sharing: Result<Vec<FairStrategy>, Name>,
    /// Resources that it counts in quotas; `None` if the configuration cannot be read.
    #[serde(default)]
    pub resources: Option<KueueResources>,
    /// Feature gates that it turns off.
    #[serde(default)]
    pub gates_off: Vec<Name>,
}
