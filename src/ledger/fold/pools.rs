//! Pools out of nodes: counts, means and what waits for them. Each device counts in one pool.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::base::{Moment, Name};
use model::fleet::job::Job;
use model::fleet::node::{Billing, Node};
use model::fleet::object_parts::Labels;
use model::fleet::policy::Policy;
use model::fleet::pool::{
    ClassCount, DeviceCounts, NodeCounts, Pool, PoolMode, PoolSight, Unusable,
};
use model::fleet::pool_sums::{PoolOfRequest, PoolSum, WaitingDevices, members};
use model::fleet::scaling::{NODE_POOL, Scaling};

use super::scaling;

/// Labels that only an autoscaler writes.
const AUTOSCALED: &[&str] = &[NODE_POOL, "karpenter.sh/provisioner-name"];

/// Labels of managed node groups, which may or may not be scaled: they leave the mode unknown.
const MANAGED: &[&str] = &[
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "kubernetes.azure.com/agentpool",
    "agentpool",
];

/// Values that stay the same as long as only readings and pods of the nodes change.
pub(super) struct KeptPools {
    policy: Arc<Policy>,
    serves: PoolOfRequest,
    /// Pools without what changes meanwhile, by name; none until they are made.
    pools: Vec<Pool>,
}

impl KeptPools {
    pub(super) fn new(policy: Arc<Policy>) -> Self {
        Self {
            policy,
            serves: PoolOfRequest::new(),
            pools: Vec::new(),
        }
    }

    /// A node was added, deleted, or changed by more than readings and pods.
    pub(super) fn nodes_changed(&mut self) {
        self.serves.clear();
        self.pools.clear();
    }

    /// Autoscalers have changed, on which the pools' bounds depend.
    pub(super) fn scaling_changed(&mut self) {
        self.pools.clear();
    }

    /// Every pool that has devices, by name.
    pub(super) fn build(
        &mut self,
        nodes: &[Arc<Node>],
        jobs: &[Arc<Job>],
        scaling: &Scaling,
        at: Moment,
        nodes_lost: bool,
        visibility: PoolSight,
    ) -> Vec<Pool> {
        let members = members(nodes);
        // Which pool could serve a job, only its nodes say.
        let waiting = match visibility.nodes {
            true => {
                let jobs = jobs.iter().map(|job| &**job);
                WaitingDevices::of(&members, jobs, &mut self.serves).by_pool
            }
            false => BTreeMap::new(),
        };
        let policy = &*self.policy;
        if self.pools.is_empty() {
            let all = members.iter();
            self.pools = all
                .map(|(name, nodes)| bare(name, nodes, scaling, policy))
                .collect();
        }
        members
            .values()
            .zip(&self.pools)
            .map(|(nodes, bare)| {
                let mut sum = PoolSum::default();
                for node in nodes {
                    for device in &node.devices {
                        sum.take(node, device, device.allocated(), (policy, at));
                    }
                    sum.devices.unusable += Unusable::of(node);
                }
                let (waiting_devices, waiting_slices) =
                    waiting.get(&bare.name).copied().unwrap_or_default();
                let mut pool = Pool {
                    devices: sum.devices,
                    stale: sum.stale || nodes_lost,
                    waiting_devices,
                    waiting_slices,
                    ..sum.readings(bare.clone())
                };
                if !visibility.nodes {
                    pool.mode = None;
                    pool.classes
                        .iter_mut()
                        .for_each(|class| class.per_node = None);
                }
                pool.visibility = visibility;
                pool
            })
            .collect()
    }
}

/// A pool without what changes with readings, pods and jobs.
fn bare(name: &Name, nodes: &[&Node], scaling: &Scaling, policy: &Policy) -> Pool {
    let mut counts = NodeCounts::default();
    let mut billings: BTreeSet<Option<Billing>> = BTreeSet::new();
    for node in nodes {
        counts.total += 1;
        counts.ready += u32::from(node.ready == Some(true));
        counts.cordoned += u32::from(node.cordon.is_some());
        billings.insert(node.billing);
    }
    let first = nodes.first().map(|node| &node.seen.labels);
    let rule = first.and_then(|labels| policy.pool_rule(labels));
    let scaled = scaling::bounds(name, nodes, scaling);
    counts.min = rule
        .and_then(|rule| rule.min)
        .or_else(|| scaled.as_ref().and_then(|scaled| scaled.min));
    counts.max = rule
        .and_then(|rule| rule.max)
        .or_else(|| scaled.as_ref().and_then(|scaled| scaled.max));
    Pool {
        name: name.clone(),
        mode: rule
            .and_then(|rule| rule.mode)
            .or_else(|| first.and_then(labeled_mode))
            .or_else(|| scaled.map(|scaled| scaled.mode))
            .or_else(|| first.and_then(mode)),
        billing: if billings.len() == 1 {
            billings.first().copied().flatten()
        } else {
            None
        },
        billing_mixed: billings.len() > 1,
        owner: rule
            .and_then(|rule| rule.owner.as_deref().map(Name::new))
            .or_else(|| first.and_then(|labels| labels.get("stokehold.dev/owner").cloned())),
        classes: classes(nodes),
        nodes: counts,
        devices: DeviceCounts::default(),
        util: None,
        mem_used: None,
        temp_max: None,
        power_watts: None,
        power_limit_watts: None,
        waiting_devices: 0,
        waiting_slices: 0,
        stale: false,
        visibility: PoolSight::default(),
    }
}

/// The mode in the Stokehold label.
fn labeled_mode(labels: &Labels) -> Option<PoolMode> {
    match labels.get("stokehold.dev/pool-mode").map(Name::as_str) {
        Some("static") => Some(PoolMode::Static),
        Some("dynamic") => Some(PoolMode::Dynamic),
        _ => None,
    }
}

/// Scaled if an autoscaler's label is set, fixed if no managed group owns the nodes.
fn mode(labels: &Labels) -> Option<PoolMode> {
    if labels.first(AUTOSCALED.iter().copied()).is_some() {
        return Some(PoolMode::Dynamic);
    }
    labels
        .first(MANAGED.iter().copied())
        .is_none()
        .then_some(PoolMode::Static)
}

fn classes(nodes: &[&Node]) -> Box<[ClassCount]> {
    let mut classes: BTreeMap<&Name, (ClassCount, BTreeSet<u32>)> = BTreeMap::new();
    for node in nodes {
        let mut here: BTreeMap<&Name, u32> = BTreeMap::new();
        for device in &node.devices {
            *here.entry(&device.class).or_default() += 1;
            let fresh = || ClassCount {
                class: device.class.clone(),
                vendor: device.vendor,
                kind: device.kind,
                devices: 0,
                per_node: None,
            };
            classes
                .entry(&device.class)
                .or_insert_with(|| (fresh(), BTreeSet::new()))
                .0
                .devices += 1;
        }
        for (class, count) in here {
            if let Some((_, sizes)) = classes.get_mut(class) {
                sizes.insert(count);
            }
        }
    }
    let mut all: Vec<ClassCount> = classes
        .into_values()
        .map(|(mut class, sizes)| {
            class.per_node = if sizes.len() == 1 {
                sizes.first().copied()
            } else {
                None
            };
            class
        })
        .collect();
    all.sort_by(|a, b| {
        b.devices
            .cmp(&a.devices)
            .then_with(|| a.class.cmp(&b.class))
    });
    all.into_boxed_slice()
}
