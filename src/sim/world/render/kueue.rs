//! Kueue's objects: cluster queues, local queues and workloads.

use std::collections::BTreeMap;

use serde_json::Value;

use model::base::Name;
use model::plan::StopPolicy;

use super::super::World;
use super::super::catalog::POOLS;
use super::super::queueing::kueue::{ClusterQueue, SimQuota};
use super::super::work::{SimWorkload, Work};
use super::template::some_text;
use super::{Fill, filled, identity, values};

impl World {
    pub(super) fn render_cluster(&self, at: usize) -> Option<Value> {
        let mut object = self.render_cluster_base(at)?;
        self.queues.clusters[at].edit.apply(&mut object);
        Some(object)
    }

    /// A cluster queue without what clients wrote over it.
    pub(in super::super) fn render_cluster_base(&self, at: usize) -> Option<Value> {
        let queue = self.queues.clusters.get(at).filter(|queue| !queue.gone)?;
        // A flavor is in one resource group only, with all resources that the group covers.
        let mut groups: Vec<(Vec<&Name>, Vec<Value>)> = Vec::new();
        for (pool, quotas) in by_flavor(queue) {
            let covered: Vec<&Name> = quotas.iter().map(|quota| &quota.resource).collect();
            let rows: Value = quotas.into_iter().map(quota_spec).collect();
            let flavor = filled("flavor", values!(name: POOLS[pool].flavor, resources: rows));
            match groups.iter_mut().find(|group| group.0 == covered) {
                Some(group) => group.1.push(flavor),
                None => groups.push((covered, vec![flavor])),
            }
        }
        let group = |(covered, flavors): (Vec<&Name>, Vec<Value>)| {
            let covered: Value = covered.into_iter().map(Fill::value).collect();
            filled(
                "resource-group",
                values!(covered: covered, flavors: flavors),
            )
        };
        let own = values!(
            identity: identity("", &queue.name, queue.uid, queue.created),
            generation: queue.edit.generation(),
            cohort: some_text(&queue.cohort),
            groups: groups.into_iter().map(group).collect::<Value>(),
            within: if queue.preempts_within { "LowerPriority" } else { "Never" },
            weight: queue.weight.to_string(),
            stop: queue.stop.word(),
            reserving: queue.reserving.len(),
            pending: queue.pending.len(),
            reserved: usage(queue),
            usage: usage(queue),
            created: queue.created,
        );
        Some(filled("ClusterQueue", own))
    }

    pub(super) fn render_local(&self, at: usize) -> Option<Value> {
        let mut object = self.render_local_base(at)?;
        self.queues.locals[at].edit.apply(&mut object);
        Some(object)
    }

    /// A local queue without what clients wrote over it.
    pub(in super::super) fn render_local_base(&self, at: usize) -> Option<Value> {
        let local = self.queues.locals.get(at).filter(|local| !local.gone)?;
        let mut clusters = self.queues.clusters.iter();
        let cluster = clusters.find(|queue| queue.name == local.cluster && !queue.gone);
        let mine = |id: &&u32| {
            let work = self.works.get(*id);
            work.is_some_and(|work| {
                work.namespace == local.namespace && work.queue.as_ref() == Some(&local.name)
            })
        };
        let state = match cluster {
            None => "missing",
            Some(_) if local.stop != StopPolicy::None => "stopped",
            Some(queue) if queue.stop != StopPolicy::None => "inactive",
            Some(_) => "active",
        };
        let own = values!(
            identity: identity(&local.namespace, &local.name, local.uid, local.created),
            generation: local.edit.generation(),
            cluster: &local.cluster,
            stop: local.stop.word(),
            reserving: cluster.map_or(0, |queue| queue.reserving.iter().filter(mine).count()),
            pending: cluster.map_or(0, |queue| queue.pending.iter().map(|entry| &entry.2).filter(mine).count()),
            state: state,
            created: local.created,
        );
        Some(filled("LocalQueue", own))
    }

    pub(super) fn render_workload(&self, work: &Work, workload: &SimWorkload) -> Value {
        let mut object = self.render_workload_base(work, workload);
        workload.edit.apply(&mut object);
        object
    }

    /// A Workload without what clients wrote over it.
    pub(in super::super) fn render_workload_base(
        &self,
        work: &Work,
        workload: &SimWorkload,
    ) -> Value {
        let sets = Self::pod_sets(work);
        let set = |(name, count): &(_, u32)| {
            self.filled_for("pod-set", work, values!(set: name, count: *count))
        };
        let reserved = workload
            .reserved
            .map(|(cluster, cell, since)| (&self.queues.clusters[cluster], cell, since));
        let waits = workload.reserved.is_none() && !work.is_over();
        let evicted = workload.evicted.as_ref();
        let turned_out = evicted.filter(|_| waits);
        let pending = Some(&workload.pending).filter(|_| waits);
        let requests = (waits
            && workload.active
            && evicted.is_none()
            && work.ask.resource.is_some())
        .then(|| {
            let row = |(name, count): &(_, u32)| {
                let devices = (count * work.ask.count).to_string();
                filled(
                    "pod-set-request",
                    values!(set: name, resource: work.ask.resource.as_ref(), devices: devices),
                )
            };
            sets.iter().map(row).collect::<Value>()
        });
        let (reason, message) = match evicted.map(|(reason, ..)| &**reason) {
            Some("Deactivated") => ("Reactivated", "The workload was reactivated"),
            Some(reason) => (reason, "The workload was requeued"),
            None => ("Pending", "The workload was requeued"),
        };
        let since = reserved.map(|(.., since)| since);
        let own = values!(
            workloadIdentity: identity(&work.namespace, &workload.name, workload.uid, workload.created),
            generation: workload.edit.generation(),
            owner: self.owner_work(work),
            active: workload.active,
            queueName: work.queue.as_deref().unwrap_or_default(),
            podSets: sets.iter().map(set).collect::<Value>(),
            rank: Self::rank(work),
            classSource: some_text(&work.class).map(|_| "scheduling.k8s.io/priorityclass"),
            admittedBy: reserved.map(|(queue, ..)| &queue.name),
            assignments: reserved.map(|(queue, cell, _)| assignments(work, workload, queue.quotas.get(cell), &sets)),
            requests: requests,
            reserved: since,
            readmitted: reserved.is_some() && evicted.is_some(),
            requeueReason: reason,
            requeueMessage: message,
            queued: workload.queued,
            ready: workload.pods_ready.filter(|_| reserved.is_some()),
            starting: since.filter(|_| workload.pods_ready.is_none()),
            pending: pending.map(|(.., since)| *since),
            pendingReason: pending.map(|(reason, ..)| reason),
            pendingMessage: pending.map(|(_, message, _)| message),
            evicted: turned_out.map(|(.., at)| *at),
            evictedReason: turned_out.map(|(reason, ..)| reason),
            evictedMessage: turned_out.map(|(_, message, _)| message),
            preempted: workload.preempted.as_ref().filter(|_| turned_out.is_some()),
            requeued: turned_out.is_some() && workload.active && work.suspended,
        );
        self.filled_for("Workload", work, own)
    }
}

/// The quota that each pod set of a workload has.
fn assignments<T: AsRef<str>>(
    work: &Work,
    workload: &SimWorkload,
    quota: Option<&SimQuota>,
    sets: &[(T, u32)],
) -> Value {
    let row = |(name, count): &(T, u32)| {
        let quota = quota.filter(|_| work.ask.resource.is_some());
        // What was reserved stays so while a job of one set is scaled.
        let usage = match sets.len() {
            1 => workload.size,
            _ => count * work.ask.count,
        };
        let own = values!(
            set: name.as_ref(),
            count: *count,
            flavor: quota.map(|quota| POOLS[quota.flavor].flavor),
            resource: work.ask.resource.as_ref(),
            usage: usage.to_string(),
        );
        filled("pod-set-assignment", own)
    };
    sets.iter().map(row).collect()
}

fn by_flavor(queue: &ClusterQueue) -> BTreeMap<usize, Vec<&SimQuota>> {
    let mut flavors: BTreeMap<usize, Vec<&SimQuota>> = BTreeMap::new();
    for quota in &queue.quotas {
        flavors.entry(quota.flavor).or_default().push(quota);
    }
    flavors
}

fn quota_spec(quota: &SimQuota) -> Value {
    let text = |amount: u32| amount.to_string();
    let (borrow, lend) = (quota.borrow.map(text), quota.lend.map(text));
    filled(
        "quota",
        values!(resource: &quota.resource, nominal: text(quota.nominal), borrow: borrow, lend: lend),
    )
}

fn usage(queue: &ClusterQueue) -> Value {
    let row = |quota: &SimQuota| {
        let borrowed = quota.used.saturating_sub(quota.nominal).to_string();
        filled(
            "quota-usage",
            values!(resource: &quota.resource, used: quota.used.to_string(), borrowed: borrowed),
        )
    };
    let flavor = |(pool, quotas): (usize, Vec<&SimQuota>)| {
        let rows: Value = quotas.into_iter().map(row).collect();
        filled("flavor", values!(name: POOLS[pool].flavor, resources: rows))
    };
    by_flavor(queue).into_iter().map(flavor).collect()
}
