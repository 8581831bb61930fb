//! Nodes and their devices in the fleet document.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use model::base::DeviceAmount;
use model::fleet::device::{Device, Pod, Slice};
use model::fleet::node::Node;
use model::fleet::observe::Labels;

use super::document::Amounts;
use crate::non_empty;

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// The pod that a device or slice is allocated to, and how that is known.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct HolderCell<'a> {
    /// Namespace of the pod.
    pub namespace: &'a str,
    /// Name of the pod.
    pub pod: &'a str,
    /// How that is known; `counted` is a guess.
    #[schemars(with = "model::fleet::device::Attribution")]
    pub attribution: &'static str,
}

/// A slice of a device.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct SliceCell<'a> {
    /// Id within the device.
    pub name: &'a str,
    /// The resource name that requests it.
    pub resource: Option<&'a str>,
    /// Its part of the device, 0 to 1; null where that is not known.
    #[schemars(range(max = 1))]
    pub share: Option<DeviceAmount>,
    /// The pod that it is allocated to.
    pub holder: Option<HolderCell<'a>>,
}

/// A device with its slices.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct DeviceCell<'a> {
    /// Its node and index, `NODE/gpu3`.
    pub id: &'a str,
    /// Index on its node, from 0.
    pub index: u32,
    /// The vendor's unique ID, `GPU-…`.
    pub uuid: Option<&'a str>,
    /// Vendor of the device.
    #[schemars(with = "model::fleet::accelerator::Vendor")]
    pub vendor: &'static str,
    /// What kind of accelerator it is.
    #[schemars(with = "model::fleet::accelerator::DeviceKind")]
    pub kind: &'static str,
    /// Short name of the class, `H100`.
    pub class: &'a str,
    /// The resource name that requests it.
    pub resource: &'a str,
    /// Its health; `unknown` where nothing says so.
    #[schemars(with = "model::fleet::device::Health")]
    pub health: &'static str,
    /// Mean utilization, 0 to 1.
    #[schemars(range(min = 0, max = 1))]
    pub util_ratio: Option<f64>,
    /// The pod that the whole device is allocated to.
    pub holder: Option<HolderCell<'a>>,
    /// Its slices; empty for a whole device.
    pub slices: Vec<SliceCell<'a>>,
}

/// A taint of a node, as in its spec.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct TaintCell<'a> {
    /// Key of the taint.
    pub key: &'a str,
    /// Value; may be empty.
    pub value: &'a str,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: &'a str,
}

/// A node with its devices.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct NodeCell<'a> {
    /// Name of the Node object.
    pub name: &'a str,
    /// Unique id of the Node object.
    pub uid: Option<&'a str>,
    /// The pool that it belongs to.
    pub pool: &'a str,
    /// True when the node is ready; null where unknown.
    pub ready: Option<bool>,
    /// True when it is cordoned.
    pub unschedulable: bool,
    /// Labels of the Node object.
    pub labels: BTreeMap<&'a str, &'a str>,
    /// Taints that keep pods away.
    pub taints: Vec<TaintCell<'a>>,
    /// Capacity in the node's status.
    pub capacity: Amounts<'a>,
    /// Allocatable amounts in the node's status.
    pub allocatable: Amounts<'a>,
    /// How it is paid for; null where it is not known.
    #[schemars(with = "Option<model::fleet::node::Billing>")]
    pub billing: Option<&'static str>,
    /// Machine type of the cloud, `p5.48xlarge`.
    pub instance_type: Option<&'a str>,
    /// Availability zone of the cloud.
    pub zone: Option<&'a str>,
    /// Region of the cloud.
    pub region: Option<&'a str>,
    /// Rack, by the labels that the settings name.
    pub rack: Option<&'a str>,
    /// NVLink domain (clique) of its devices.
    pub clique: Option<&'a str>,
    /// Topology levels from the widest to the narrowest: level and value.
    pub topology: Vec<(&'a str, &'a str)>,
    /// Its devices, by index.
    pub devices: Vec<DeviceCell<'a>>,
}

pub fn label_map(labels: &Labels) -> BTreeMap<&str, &str> {
    let pairs = labels.iter();
    pairs
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .collect()
}

/// The node in the document's form.
pub fn node_cell(node: &Node) -> NodeCell<'_> {
    let seen = &node.seen;
    NodeCell {
        name: &seen.name,
        uid: non_empty(&seen.uid),
        pool: &node.pool,
        ready: node.ready,
        unschedulable: seen.unschedulable,
        labels: label_map(&seen.labels),
        taints: seen
            .taints
            .iter()
            .filter(|taint| EFFECTS.contains(&taint.effect.as_str()))
            .map(|taint| TaintCell {
                key: &taint.key,
                value: &taint.value,
                effect: &taint.effect,
            })
            .collect(),
        capacity: Amounts::of_node(&seen.capacity),
        allocatable: Amounts::of_node(&seen.allocatable),
        billing: node.billing.map(|billing| billing.name()),
        instance_type: node.instance_type.as_deref(),
        zone: node.zone.as_deref(),
        region: node.region.as_deref(),
        rack: node.rack.as_deref().and_then(non_empty),
        clique: node.clique.as_deref().and_then(non_empty),
        topology: node
            .topology
            .iter()
            .map(|(level, value)| (level.as_str(), value.as_str()))
            .filter(|(level, value)| !level.is_empty() && !value.is_empty())
            .collect(),
        devices: node.devices.iter().map(device_cell).collect(),
    }
}

fn device_cell(device: &Device) -> DeviceCell<'_> {
    DeviceCell {
        id: &device.id,
        index: device.index,
        uuid: device.uuid.as_deref(),
        vendor: device.vendor.name(),
        kind: device.kind.name(),
        class: &device.class,
        resource: &device.resource,
        health: device.health.name(),
        util_ratio: device.util(),
        holder: device
            .holder
            .as_deref()
            .map(|pod| holder_cell(pod, device.attribution.name())),
        slices: device.slices.iter().map(slice_cell).collect(),
    }
}

fn slice_cell(slice: &Slice) -> SliceCell<'_> {
    SliceCell {
        name: &slice.name,
        resource: slice.resource.as_deref(),
        share: slice.share,
        holder: slice
            .holder
            .as_deref()
            .map(|pod| holder_cell(pod, slice.attribution.name())),
    }
}

fn holder_cell<'a>(pod: &'a Pod, attribution: &'static str) -> HolderCell<'a> {
    HolderCell {
        namespace: &pod.key().namespace,
        pod: &pod.key().name,
        attribution,
    }
}
