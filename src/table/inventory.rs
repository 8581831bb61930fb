//! Nodes and their devices in the fleet document.

use std::collections::BTreeMap;

use serde::Serialize;

use model::base::DeviceAmount;
use model::fleet::device::{Device, Pod, Slice};
use model::fleet::node::Node;
use model::fleet::observe::Labels;

use super::document::Amounts;
use super::non_empty;

/// Taint effects.
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// The pod that a device or slice is allocated to, and how that is known.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct HolderCell<'a> {
    /// Namespace.
    pub namespace: &'a str,
    /// Pod.
    pub pod: &'a str,
    /// `exporter`, `claim` or `counted`.
    pub attribution: &'static str,
}

/// A slice of a device.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct SliceCell<'a> {
    /// Id within the device.
    pub name: &'a str,
    /// The resource name that requests it.
    pub resource: Option<&'a str>,
    /// Its part of the device, 0 to 1; `None` where that is not known.
    pub share: Option<DeviceAmount>,
    /// The pod that it is allocated to.
    pub holder: Option<HolderCell<'a>>,
}

/// A device.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct DeviceCell<'a> {
    /// `NODE/gpu3`.
    pub id: &'a str,
    /// Index on its node.
    pub index: u32,
    /// The vendor's id.
    pub uuid: Option<&'a str>,
    /// Vendor.
    pub vendor: &'static str,
    /// `gpu`, `tpu` or `other`.
    pub kind: &'static str,
    /// Class.
    pub class: &'a str,
    /// The resource name that requests it.
    pub resource: &'a str,
    /// `ok`, `warn`, `fault` or `unknown`.
    pub health: &'static str,
    /// Mean utilization, 0 to 1.
    pub util_ratio: Option<f64>,
    /// The pod that the whole device is allocated to.
    pub holder: Option<HolderCell<'a>>,
    /// Its slices.
    pub slices: Vec<SliceCell<'a>>,
}

/// A taint.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct TaintCell<'a> {
    /// Key.
    pub key: &'a str,
    /// Value.
    pub value: &'a str,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: &'a str,
}

/// A node.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct NodeCell<'a> {
    /// Name.
    pub name: &'a str,
    /// Unique id.
    pub uid: Option<&'a str>,
    /// Pool.
    pub pool: &'a str,
    /// True when the node is ready; `None` where unknown.
    pub ready: Option<bool>,
    /// True when it is cordoned.
    pub unschedulable: bool,
    /// Labels.
    pub labels: BTreeMap<&'a str, &'a str>,
    /// Taints.
    pub taints: Vec<TaintCell<'a>>,
    /// Its capacity.
    pub capacity: Amounts<'a>,
    /// Its allocatable amounts.
    pub allocatable: Amounts<'a>,
    /// Billing type.
    pub billing: Option<&'static str>,
    /// Machine type.
    pub instance_type: Option<&'a str>,
    /// Zone.
    pub zone: Option<&'a str>,
    /// Region.
    pub region: Option<&'a str>,
    /// Rack.
    pub rack: Option<&'a str>,
    /// NVLink domain (clique).
    pub clique: Option<&'a str>,
    /// Topology levels from the widest to the narrowest: level and value.
    pub topology: Vec<(&'a str, &'a str)>,
    /// Its devices.
    pub devices: Vec<DeviceCell<'a>>,
}

/// Labels by key.
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
