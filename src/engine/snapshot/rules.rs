//! Disruption budgets, past runs, routes, and how to decide.

use std::collections::BTreeMap;

use crate::packing::Policy;
use model::base::Name;

use super::workload::Choice;
use model::plan::Origin;

/// How many pods may be disrupted: a `policy/v1` `PodDisruptionBudget`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Budget {
    /// Namespace.
    pub namespace: Name,
    /// Name.
    pub name: Name,
    /// Pods that it covers, by name, sorted.
    pub pods: Vec<Name>,
    /// How many may go now (`status.disruptionsAllowed`).
    pub allowed: u32,
    /// How many must stay up (`status.desiredHealthy`).
    pub desired_healthy: u32,
}

/// A class of priorities: `scheduling.k8s.io` `PriorityClass`, or Kueue's `WorkloadPriorityClass`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Class {
    /// A `WorkloadPriorityClass`.
    pub of_workloads: bool,
    /// Name.
    pub name: Name,
    /// Priority.
    pub value: i32,
}

/// How long past workloads of one owner ran, in milliseconds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Runs {
    /// Whose: what [`super::Workload::owner`] says.
    pub owner: Name,
    /// How many are known.
    pub count: u32,
    /// A tenth were shorter.
    pub p10_ms: i64,
    /// Half were shorter.
    pub p50_ms: i64,
    /// Nine tenths were shorter.
    pub p90_ms: i64,
}

/// Which flavors a workload prefers, by its queue and labels.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Route {
    /// Queue that it is for; none for every queue.
    pub queue: Option<Name>,
    /// Labels that a workload must carry.
    pub labels: BTreeMap<Name, Name>,
    /// Flavors, the best first.
    pub flavors: Vec<Choice>,
    /// No flavor dearer than this many micro-USD a device-hour.
    pub most_price: Option<i64>,
    /// Where it came from.
    pub origin: Origin,
}

/// Who may start before a workload that waits for room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Backfill {
    /// Whoever fits; nothing is reserved, and a large gang may wait for ever.
    None,
    /// Whoever does not delay the first that waits in each queue.
    Head,
    /// Whoever does not delay the first so many that wait in each queue.
    Depth(u16),
}

impl Backfill {
    /// How many of a queue hold a reservation.
    pub const fn depth(self) -> usize {
        match self {
            Self::None => 0,
            Self::Head => 1,
            Self::Depth(depth) => depth as usize,
        }
    }
}

/// When fair sharing lets one queue preempt in another. Kueue: `fairSharing.preemptionStrategies`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FairStrategy {
    /// While the preemptor's queue, with the workload, stays at or below the share that the victim's queue has without it.
    LessThanOrEqualToFinalShare,
    /// While the preemptor's queue, with the workload, stays below the share that the victim's queue has now.
    LessThanInitialShare,
}

/// How to decide.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EngineOptions {
    /// Which node of those that fit.
    pub placement: Policy,
    /// Who may pass whom.
    pub backfill: Backfill,
    /// Queues share by weight; the order of strategies in which preemption is tried.
    pub fair_sharing: Option<Vec<FairStrategy>>,
    /// Up to so many candidates the least victims are searched exhaustively.
    pub exact_victims: u32,
    /// Most reservations at one time.
    pub most_reservations: u32,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            placement: Policy::Stokehold,
            backfill: Backfill::Head,
            fair_sharing: None,
            exact_victims: 24,
            most_reservations: 32,
        }
    }
}
