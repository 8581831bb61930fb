//! What decides who starts where, as far as settings and the cluster say it. Plain data: the engine reads it.

use serde::{Deserialize, Serialize};

use crate::base::{Name, ObjectKey};

/// Names of the placement policies that settings may choose. The engine's own list is held to it by a test.
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
    /// While the preemptor's queue stays at or below the share that the victim's queue has afterwards.
    FinalShare,
    /// While the preemptor's queue stays below the share that the victim's queue has now.
    InitialShare,
}

impl FairStrategy {
    /// Kueue's order where it is not told one.
    pub const ALL: [Self; 2] = [Self::FinalShare, Self::InitialShare];

    /// As in the fleet document and in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::FinalShare => "less-than-or-equal-to-final-share",
            Self::InitialShare => "less-than-initial-share",
        }
    }

    /// As Kueue writes it.
    pub const fn in_kueue(self) -> &'static str {
        match self {
            Self::FinalShare => "LessThanOrEqualToFinalShare",
            Self::InitialShare => "LessThanInitialShare",
        }
    }
}

/// A value of the settings, with the file and line (variable, flag) that sets it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Said<T> {
    /// The value.
    pub value: T,
    /// `/etc/stokehold/stokehold.toml:12`, `STOKEHOLD_ENGINE_PLACEMENT`.
    pub place: Name,
}

/// What settings say of the engine; what they leave out is the cluster's or the default.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EngineRules {
    /// One of [`PLACEMENTS`].
    pub placement: Option<Said<&'static str>>,
    /// How many of each queue hold a reservation; 0 for none.
    pub backfill: Option<Said<u16>>,
    /// Strategies in the order in which they are tried; none turns fair sharing off.
    pub fair_sharing: Option<Said<Vec<FairStrategy>>>,
    /// Routes, in their order.
    pub routes: Vec<Said<RouteRule>>,
}

/// Which flavors a workload prefers, by its queue and labels.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RouteRule {
    /// Queue that it is for; none for every queue.
    pub queue: Option<Name>,
    /// Labels that a workload must carry.
    pub labels: Vec<(Name, Name)>,
    /// Flavors, the best first, each with its speed in thousandths.
    pub flavors: Vec<(Name, i64)>,
    /// No flavor dearer than this, in micro-USD a device-hour.
    pub most_micro_usd: Option<i64>,
}

/// What Kueue's own configuration says of how it decides.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct KueueConfig {
    /// The ConfigMap that holds it.
    pub key: ObjectKey,
    /// Strategies in their order, empty where fair sharing is off; or why the configuration cannot be read.
    pub fair_sharing: Result<Vec<FairStrategy>, Name>,
}
