//! Nodes and their devices in the fleet document.

use std::collections::BTreeMap;

use serde::Serialize;

use model::fleet::device::{Device, Pod, Slice};
use model::fleet::node::Node;
use model::fleet::observe::Labels;

use super::document::Amounts;
use super::said;

/// What taints can do.
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// Who holds a device or a slice, and how that is known.
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
    /// The resource that asks for it.
    pub resource: Option<&'a str>,
    /// Who holds it.
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
    /// The resource that asks for it.
    pub resource: &'a str,
    /// `ok`, `warn`, `fault` or `unknown`.
    pub health: &'static str,
    /// Mean use, 0 to 1.
    pub util_ratio: Option<f64>,
    /// Who holds it whole.
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
    /// Ready.
    pub ready: Option<bool>,
    /// Takes no new pods.
    pub unschedulable: bool,
    /// Labels.
    pub labels: BTreeMap<&'a str, &'a str>,
    /// Taints.
    pub taints: Vec<TaintCell<'a>>,
    /// What it has.
    pub capacity: Amounts<'a>,
    /// What pods may ask for.
    pub allocatable: Amounts<'a>,
    /// How its hours are paid.
    pub billing: Option<&'static str>,
    /// Machine type.
    pub instance_type: Option<&'a str>,
    /// Zone.
    pub zone: Option<&'a str>,
    /// Region.
    pub region: Option<&'a str>,
    /// Rack.
    pub rack: Option<&'a str>,
    /// Scale-up domain.
    pub clique: Option<&'a str>,
    /// Topology levels from wide to narrow: level and value.
    pub topology: Vec<(&'a str, &'a str)>,
    /// Its devices.
    pub devices: Vec<DeviceCell<'a>>,
}

/// Labels by key.
pub fn by_key(labels: &Labels) -> BTreeMap<&str, &str> {
    let pairs = labels.iter();
    pairs
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .collect()
}

/// A node of the document.
pub fn node_cell(node: &Node) -> NodeCell<'_> {
    let seen = &node.seen;
    NodeCell {
        name: &seen.name,
        uid: said(&seen.uid),
        pool: &node.pool,
        ready: node.ready,
        unschedulable: seen.unschedulable,
        labels: by_key(&seen.labels),
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
        rack: node.rack.as_deref().and_then(said),
        clique: node.clique.as_deref().and_then(said),
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
