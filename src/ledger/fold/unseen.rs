//! Nodes that may not be listed: an operator limited to namespaces still sees the devices of their own pods.
//!
//! Such a node shows only devices allocated to visible pods: the others may be allocated to invisible pods, so calling them free
//! would be a guess.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::base::Name;
use model::fleet::device::Pod;
use model::fleet::fleet::{TableState, hidden_pool};
use model::fleet::job::JobKey;
use model::fleet::kinds::Table;
use model::fleet::node::Node;
use model::fleet::reading::Reading;
use model::fleet::seen::NodeSeen;

use super::Ledger;
use super::node_state::NodeEntry;

impl Ledger {
    /// True when listing nodes is forbidden and they were never listed.
    pub(super) fn nodes_are_refused(&self) -> bool {
        let known = self.known.get(&Table::Nodes);
        known.is_some_and(TableState::is_hidden)
    }

    /// Device class of nodes that may not be listed: from the flavors of their pods, or the pods' node selectors. Omitted where
    /// the pods of one node disagree.
    pub(super) fn given_products(&self) -> BTreeMap<Name, Name> {
        let mut found: BTreeMap<Name, Option<Name>> = BTreeMap::new();
        for (name, state) in &self.nodes {
            if state.seen.is_some() {
                continue;
            }
            let pods = state.pods.iter().filter_map(|key| self.joined.get(key));
            for pod in pods.filter(|pod| pod.holds_devices()) {
                let Some(product) = self.given_to(pod) else {
                    continue;
                };
                let known = found
                    .entry(name.clone())
                    .or_insert_with(|| Some(product.clone()));
                if known.as_ref().is_some_and(|known| *known != product) {
                    *known = None;
                }
            }
        }
        let sure = found.into_iter();
        sure.filter_map(|(name, product)| Some((name, product?)))
            .collect()
    }

    /// The class of the pod's devices, from its Workload's flavor or its own node selector.
    fn given_to(&self, pod: &Pod) -> Option<Name> {
        let admission = self.admission(&pod.job);
        let assigned = admission
            .iter()
            .flat_map(|admission| admission.seen.assigned.iter());
        let wanted = |resource: &Name| pod.seen.requests.device(resource).is_some();
        let flavors = assigned
            .flat_map(|given| given.flavors.iter())
            .filter(|(resource, _)| wanted(resource))
            .map(|(_, flavor)| flavor);
        let labels = pod.seen.node_selector.iter().map(|(_, value)| value);
        labels
            .chain(flavors)
            .find_map(|name| self.policy.catalog.find(name))
            .map(|model| model.class.clone())
    }

    /// Marks nodes that may not be listed as changed after a job's admission changed.
    pub(super) fn look_at_given(&mut self, job: &JobKey) {
        if !self.nodes_are_refused() {
            return;
        }
        let pods = self.job_pods.get(job).into_iter().flatten();
        let nodes = pods.filter_map(|key| self.pods.get(key)?.node.clone());
        self.dirty_nodes.extend(nodes);
    }

    /// Updates nodes after it became known whether they may be listed.
    pub(super) fn look_at_unseen(&mut self, table: Table) {
        if table == Table::ResourceSlices {
            self.dirty_nodes.extend(self.nodes.keys().cloned());
        }
        if table == Table::Nodes {
            let unseen = self.nodes.iter().filter(|(_, state)| state.seen.is_none());
            self.dirty_nodes
                .extend(unseen.map(|(name, _)| name.clone()));
            self.match_pages();
        }
    }

    /// The node matching `host` among those known only from pods.
    pub(super) fn unseen_node(&self, host: &Name) -> Option<Name> {
        if !self.nodes_are_refused() {
            return None;
        }
        if self.nodes.contains_key(host) {
            return Some(host.clone());
        }
        let short = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
        let wanted = short(host);
        let mut found = self.nodes.keys().filter(|name| short(name) == wanted);
        match (found.next(), found.next()) {
            (Some(only), None) => Some(only.clone()),
            _ => None,
        }
    }

    /// The node of the pods that a page names, where nothing else identifies it.
    pub(super) fn node_of_holders(&self, readings: &[Reading]) -> Option<Name> {
        let holders = readings.iter().filter_map(|reading| reading.pod.as_ref());
        holders
            .filter_map(|key| self.pods.get(key))
            .find_map(|pod| pod.node.clone())
    }
}

/// The node as listed; where listing is forbidden, its name alone, when pods are scheduled on it.
pub(super) fn seen(refused: bool, name: &Name, state: &NodeEntry) -> Option<Arc<NodeSeen>> {
    state.seen.clone().or_else(|| {
        (refused && !state.pods.is_empty()).then(|| {
            Arc::new(NodeSeen {
                name: name.clone(),
                ..NodeSeen::default()
            })
        })
    })
}

/// A node that was not listed has at least what its visible pods request.
pub(super) fn with_wants(
    listed: &Option<Arc<NodeSeen>>,
    seen: Arc<NodeSeen>,
    pods: &[Arc<Pod>],
) -> Arc<NodeSeen> {
    if listed.is_some() {
        return seen;
    }
    let mut wants: BTreeMap<Name, u32> = BTreeMap::new();
    for (resource, count) in pods.iter().flat_map(|pod| pod.seen.requests.devices.iter()) {
        let sum = wants.entry(resource.clone()).or_default();
        *sum = sum.saturating_add(*count);
    }
    let mut seen = (*seen).clone();
    seen.capacity.devices = wants.into_iter().collect();
    seen.allocatable = seen.capacity.clone();
    Arc::new(seen)
}

/// The node as shown: an unlisted one with only the devices allocated to visible pods; `None` when there are none.
pub(super) fn shown(listed: &Option<Arc<NodeSeen>>, mut node: Node) -> Option<Arc<Node>> {
    if listed.is_none() {
        let devices = std::mem::take(&mut node.devices).into_vec();
        node.devices = devices
            .into_iter()
            .filter(|device| device.is_allocated())
            .collect();
        // Capacity is not known: use the visible devices, or all would look unhealthy.
        node.device_capacity = u32::try_from(node.devices.len()).unwrap_or(u32::MAX);
        node.device_allocatable = node.device_capacity;
        node.pool = hidden_pool();
    }
    (listed.is_some() || !node.devices.is_empty()).then(|| Arc::new(node))
}
