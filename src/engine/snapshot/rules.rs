//! Disruption budgets, past runs, routes and engine options.

use std::collections::BTreeMap;

use crate::packing::PackingPolicy;
use model::base::Name;
use model::fleet::scheduling::FairStrategy;

use super::workload::FlavorChoice;
use model::plan::OptionOrigin;

/// How many pods may be disrupted: a `policy/v1` `PodDisruptionBudget`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SnapshotBudget {
    pub namespace: Name,
    pub name: Name,
    /// Names of the pods that it covers, sorted.
    pub pods: Vec<Name>,
    /// Evictions allowed now (`status.disruptionsAllowed`).
    pub allowed: u32,
    /// Pods that must stay healthy (`status.desiredHealthy`).
    pub desired_healthy: u32,
}

/// A priority class: `scheduling.k8s.io` `PriorityClass`, or Kueue's `WorkloadPriorityClass`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct SnapshotPriorityClass {
    /// Whether it is a `WorkloadPriorityClass`.
    pub of_workloads: bool,
    pub name: Name,
    pub value: i32,
}

/// Run times of past workloads of one owner, in milliseconds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OwnerRuntimes {
    /// Owner: the value of [`super::Workload::owner`].
    pub owner: Name,
    /// Number of known runs.
    pub count: u32,
    pub p10_ms: i64,
    pub p50_ms: i64,
    pub p90_ms: i64,
}

/// Which flavors a workload prefers, by its queue and labels.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Route {
    /// Queue that it applies to; none for every queue.
    pub queue: Option<Name>,
    /// Labels that a workload must carry.
    pub labels: BTreeMap<Name, Name>,
    /// Flavors, the best first.
    pub flavors: Vec<FlavorChoice>,
    /// Maximum price of a flavor in micro-USD a device-hour.
    pub most_price: Option<i64>,
    /// Origin of the route.
    pub origin: OptionOrigin,
}

/// Which workloads may start before a workload that waits for free capacity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Backfill {
    /// Any that fits. Nothing is reserved, so a large gang may wait forever.
    None,
    /// Any that does not delay the first waiting workload of each queue.
    Head,
    /// Any that does not delay the first N waiting workloads of each queue.
    Depth(u16),
}

impl Backfill {
    /// Maximum number of reservations per queue.
    pub const fn depth(self) -> usize {
        match self {
            Self::None => 0,
            Self::Head => 1,
            Self::Depth(depth) => depth as usize,
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EngineOptions {
    /// Placement policy: how to choose among nodes that fit.
    pub placement: PackingPolicy,
    /// Backfill policy: which workloads may overtake others.
    pub backfill: Backfill,
    /// Fair sharing by weight: preemption strategies in the order in which they are tried. None: no fair sharing.
    pub fair_sharing: Option<Vec<FairStrategy>>,
    /// Maximum number of candidates for which the smallest set of victims is searched exhaustively.
    pub exact_victims: u32,
    /// Maximum number of reservations at one time.
    pub most_reservations: u32,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            placement: PackingPolicy::Stokehold,
            backfill: Backfill::Head,
            fair_sharing: None,
            exact_victims: 24,
            most_reservations: 32,
        }
    }
}
