//! What the ledger keeps of one node.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::base::{Moment, ObjectKey};
use model::fleet::device::Device;
use model::fleet::node::Node;
use model::fleet::seen::NodeSeen;

use super::claims::Spot;
use super::facts::NodeLabels;
use crate::fold::devices::readings::NodeReadings;

/// One node's facts and everything that depends on it.
#[derive(Default)]
pub(super) struct NodeEntry {
    /// Absent while only pods or readings name the node.
    pub(super) seen: Option<Arc<NodeSeen>>,
    /// The labels of `seen` itself.
    pub(super) labels: NodeLabels,
    /// Every pod bound to it, over or not.
    pub(super) pods: BTreeSet<ObjectKey>,
    pub(super) readings: NodeReadings,
    pub(super) built: Option<Arc<Node>>,
    /// When it was built.
    pub(super) built_at: Moment,
    /// The last moment at which no reading of its allocated devices has become stale since its jobs were built.
    pub(super) fresh_until: Option<Moment>,
    /// This node's devices in slices that several nodes reach.
    pub(super) wide: Vec<Spot>,
}

impl NodeEntry {
    /// The last moment after `at` until which all readings of its allocated devices that are fresh stay so.
    pub(super) fn fresh_after(&self, at: Moment) -> Option<Moment> {
        let devices = self.built.iter().flat_map(|node| &node.devices);
        let allocated = devices.filter(|device| device.first_holder().is_some());
        let ends = allocated.filter_map(Device::fresh_until);
        ends.filter(|until| *until >= at).min()
    }
}
