//! Cluster queues, quotas with borrowing, and admission as Kueue does it: best effort, first in, first out.

use std::collections::BTreeSet;

use model::base::{Moment, Name};
use model::plan::StopPolicy;

use crate::world::catalog::{CATALOG, DRAWN, POOLS, QuotaSpec};
use crate::world::clients::patch::Edit;
use crate::world::noise::{hash, mix};
use crate::world::options::Options;
use crate::world::seconds;
use crate::world::work::{Work, WorkId};

/// A quota of one resource in one flavor.
#[derive(Clone, PartialEq, Debug)]
pub(in crate::world) struct SimQuota {
    /// Flavor, as an index into the catalog's pools.
    pub flavor: usize,
    pub resource: Name,
    pub nominal: u32,
    pub borrow: Option<u32>,
    pub lend: Option<u32>,
    pub used: u32,
}

/// The stop policy of that word; anything else stops nothing.
pub(in crate::world) fn stop_policy(word: &str) -> StopPolicy {
    match word {
        "Hold" => StopPolicy::Hold,
        "HoldAndDrain" => StopPolicy::HoldAndDrain,
        _ => StopPolicy::None,
    }
}

#[derive(Clone, Debug)]
pub(in crate::world) struct ClusterQueue {
    pub name: Name,
    pub cohort: Name,
    pub weight: u32,
    pub quotas: Vec<SimQuota>,
    pub stop: StopPolicy,
    /// Lower-priority work of its own may be preempted.
    pub preempts_within: bool,
    pub created: Moment,
    pub uid: u64,
    /// By priority (highest first), then age.
    pub pending: BTreeSet<(i32, i64, WorkId)>,
    pub reserving: BTreeSet<WorkId>,
    pub gone: bool,
    pub edit: Edit,
}

#[derive(Clone, Debug)]
pub(in crate::world) struct LocalQueue {
    pub namespace: Name,
    pub name: Name,
    pub cluster: Name,
    pub stop: StopPolicy,
    pub created: Moment,
    pub uid: u64,
    pub gone: bool,
    pub edit: Edit,
}

impl ClusterQueue {
    /// A queue without quotas.
    pub(in crate::world) fn new(name: Name, created: Moment, uid: u64) -> Self {
        Self {
            name,
            cohort: Name::default(),
            weight: 1,
            quotas: Vec::new(),
            stop: StopPolicy::None,
            preempts_within: false,
            created,
            uid,
            pending: BTreeSet::new(),
            reserving: BTreeSet::new(),
            gone: false,
            edit: Edit::default(),
        }
    }
}

impl LocalQueue {
    /// A queue that is not stopped.
    pub(in crate::world) fn new(
        namespace: Name,
        name: Name,
        cluster: Name,
        created: Moment,
        uid: u64,
    ) -> Self {
        Self {
            namespace,
            name,
            cluster,
            stop: StopPolicy::None,
            created,
            uid,
            gone: false,
            edit: Edit::default(),
        }
    }
}

#[derive(Clone, Debug)]
pub(in crate::world) struct Queues {
    pub clusters: Vec<ClusterQueue>,
    pub locals: Vec<LocalQueue>,
    pub created: Moment,
}

impl Queues {
    /// The catalog's queues with quotas for these capacities (the last for the second MIG profile).
    pub(in crate::world) fn new(options: &Options, capacity: &[u32; DRAWN], second: u32) -> Self {
        let created = options.at.minus(seconds(86_400 * 97 + 4_217));
        let quota = |spec: &QuotaSpec| {
            let first = spec.resource == POOLS[spec.pool].resources[0];
            let has = if first { capacity[spec.pool] } else { second };
            let share = |part: f64| (f64::from(has) * part).round() as u32;
            SimQuota {
                flavor: spec.pool,
                resource: Name::new(spec.resource),
                nominal: share(spec.nominal),
                borrow: spec.borrow.map(share),
                lend: spec.lend.map(share),
                used: 0,
            }
        };
        let clusters = CATALOG.queues.iter().map(|spec| ClusterQueue {
            cohort: Name::new(spec.cohort),
            weight: spec.weight,
            quotas: spec.quotas.iter().map(quota).collect(),
            preempts_within: spec.cohort == "prod",
            ..ClusterQueue::new(Name::new(spec.name), created, mix(hash(spec.name), 71))
        });
        let locals = CATALOG.local_queues.iter().map(|(namespace, name)| {
            let uid = mix(hash(namespace), hash(name));
            LocalQueue::new(
                Name::new(namespace),
                Name::new(name),
                Name::new(name),
                created,
                uid,
            )
        });
        Self {
            clusters: clusters.collect(),
            locals: locals.collect(),
            created,
        }
    }

    /// The cluster queue behind a local queue, and the local queue.
    pub(in crate::world) fn find(&self, namespace: &str, local: &str) -> Option<(usize, usize)> {
        let at = self.locals.iter().position(|queue| {
            !queue.gone && &*queue.namespace == namespace && &*queue.name == local
        })?;
        let cluster = self
            .clusters
            .iter()
            .position(|queue| !queue.gone && queue.name == self.locals[at].cluster)?;
        Some((cluster, at))
    }

    /// How much more a queue may take of one of its quotas: its own room, what the cohort lends, and its
    /// borrowing limit. Kueue's rule: what a queue does not lend is always its own.
    pub(in crate::world) fn available(&self, cluster: usize, quota: usize) -> u32 {
        let queue = &self.clusters[cluster];
        let own = &queue.quotas[quota];
        if queue.cohort.is_empty() {
            return own.nominal.saturating_sub(own.used);
        }
        let (mut lendable, mut lent) = (0u64, 0u64);
        for member in self
            .clusters
            .iter()
            .filter(|other| !other.gone && other.cohort == queue.cohort)
        {
            for other in &member.quotas {
                if other.flavor == own.flavor && other.resource == own.resource {
                    let lend = other.lend.unwrap_or(other.nominal).min(other.nominal);
                    let kept = other.nominal - lend;
                    lendable += u64::from(lend);
                    lent += u64::from(other.used.saturating_sub(kept));
                }
            }
        }
        let kept = own.nominal - own.lend.unwrap_or(own.nominal).min(own.nominal);
        let private = u64::from(kept.saturating_sub(own.used));
        let shared = lendable.saturating_sub(lent) + private;
        let limit = own.borrow.map_or(u64::MAX, |borrow| {
            u64::from(own.nominal + borrow).saturating_sub(u64::from(own.used))
        });
        shared.min(limit).min(u64::from(u32::MAX)) as u32
    }

    /// The most that a queue could ever take of one of its quotas.
    pub(in crate::world) fn ceiling(&self, cluster: usize, quota: usize) -> u32 {
        let queue = &self.clusters[cluster];
        let own = &queue.quotas[quota];
        let kept = own.nominal - own.lend.unwrap_or(own.nominal).min(own.nominal);
        let cohort: u32 = self
            .clusters
            .iter()
            .filter(|other| !other.gone && !queue.cohort.is_empty() && other.cohort == queue.cohort)
            .flat_map(|member| &member.quotas)
            .filter(|other| other.flavor == own.flavor && other.resource == own.resource)
            .map(|other| other.lend.unwrap_or(other.nominal).min(other.nominal))
            .sum();
        let most = if queue.cohort.is_empty() {
            own.nominal
        } else {
            cohort + kept
        };
        own.borrow
            .map_or(most, |borrow| most.min(own.nominal + borrow))
    }

    /// The quota that a work draws on.
    pub(in crate::world) fn cell(&self, cluster: usize, work: &Work) -> Option<usize> {
        let resource = work.ask.resource.as_ref()?;
        self.clusters[cluster].quotas.iter().position(|quota| {
            quota.resource == *resource && work.pool.is_none_or(|pool| pool == quota.flavor)
        })
    }
}
