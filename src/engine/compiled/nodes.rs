//! Compiled nodes: units that can be allocated, and zones that no constraint distinguishes.

use std::collections::{BTreeMap, BTreeSet};

use crate::packing::{NodeKind, PackingDemand, PlacementRequest};
use crate::snapshot::{EngineHealth, Snapshot, SnapshotNode, SnapshotTaint};
use model::base::Name;

use super::{KeyIndex, NodeId, ResourceId};

/// Maximum number of typical pod specs for the packing policy.
const MOST_SPECS: usize = 64;

/// The most frequent specs that make up this part of the pods are typical, in millionths.
const TYPICAL: i64 = 950_000;

/// Memory in MiB to a byte.
const MIB: i64 = 1 << 20;

/// An allocatable unit: a device, or a slice of one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct AllocatableUnit {
    /// The resource that requests it.
    pub resource: ResourceId,
    /// Position of the device in [`SnapshotNode::devices`].
    pub device: usize,
    /// Position of the slice in its device; none for the device itself.
    pub slice: Option<usize>,
    /// Whether it is healthy.
    pub sound: bool,
}

/// The shape of a node: its immutable properties.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct NodeShape {
    /// Zone: nodes of one zone satisfy the same constraints.
    pub zone: usize,
    /// Node kind in the packing policy.
    pub(crate) kind: usize,
    /// CPU in thousandths of a core.
    pub cpu: i64,
    /// Allocatable memory of the node, bytes.
    pub memory: i64,
    /// Allocatable units, by device and slice.
    pub units: Vec<AllocatableUnit>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CompiledNode {
    /// Index of its shape in [`super::CompiledFleet::node_shapes`].
    pub node_shape: usize,
    /// Whether it takes new pods.
    pub open: bool,
}

/// Resources of all devices, slices and requests, by name.
pub(super) fn resources(snapshot: &Snapshot) -> Vec<Name> {
    let mut all: BTreeSet<&Name> = BTreeSet::new();
    for device in snapshot.nodes.iter().flat_map(|node| &node.devices) {
        all.insert(&device.resource);
        all.extend(device.slices.iter().map(|slice| &slice.resource));
    }
    for set in snapshot.workloads.iter().flat_map(|work| &work.sets) {
        all.extend(set.requests.devices.iter().map(|ask| &ask.resource));
    }
    all.into_iter().cloned().collect()
}

/// Label keys that some constraint uses.
fn mentioned(snapshot: &Snapshot) -> Vec<&Name> {
    let mut keys: BTreeSet<&Name> = BTreeSet::new();
    for flavor in &snapshot.flavors {
        keys.extend(flavor.labels.keys());
    }
    for set in snapshot.workloads.iter().flat_map(|work| &work.sets) {
        keys.extend(set.selector.keys());
        keys.extend(set.affinity.iter().flatten().map(|need| &need.key));
    }
    keys.into_iter().collect()
}

pub(super) fn compile(
    snapshot: &Snapshot,
    resources: &[Name],
) -> (
    Vec<NodeShape>,
    Vec<CompiledNode>,
    Vec<NodeId>,
    PackingDemand,
) {
    let keys = mentioned(snapshot);
    let mut zone_index: KeyIndex<(Vec<Option<&Name>>, &[SnapshotTaint])> = KeyIndex::new();
    let mut zones = Vec::new();
    let demand = demand(snapshot);
    let mut make_index: KeyIndex<NodeShape> = KeyIndex::new();
    let mut makes = Vec::new();
    let mut sites = Vec::with_capacity(snapshot.nodes.len());
    let resource_of: BTreeMap<&Name, ResourceId> = resources
        .iter()
        .enumerate()
        .map(|(at, name)| (name, at))
        .collect();
    for (id, node) in snapshot.nodes.iter().enumerate() {
        let values = keys.iter().map(|key| node.labels.get(*key)).collect();
        let (zone, new) = zone_index.of((values, &node.taints[..]));
        if new {
            zones.push(id);
        }
        let make = NodeShape {
            zone,
            kind: demand.kind_of[id],
            cpu: node.cpu_milli,
            memory: node.memory_bytes,
            units: units(node, &resource_of),
        };
        let (at, new) = make_index.of(make.clone());
        if new {
            makes.push(make);
        }
        sites.push(CompiledNode {
            node_shape: at,
            open: node.is_open(),
        });
    }
    (makes, sites, zones, demand)
}

fn units(node: &SnapshotNode, resource_of: &BTreeMap<&Name, ResourceId>) -> Vec<AllocatableUnit> {
    let mut units = Vec::new();
    let of = |name: &Name| resource_of.get(name).copied().unwrap_or_default();
    for (at, device) in node.devices.iter().enumerate() {
        let sound = device.health != EngineHealth::Fault;
        if device.slices.is_empty() {
            units.push(AllocatableUnit {
                resource: of(&device.resource),
                device: at,
                slice: None,
                sound,
            });
        }
        for (slice, part) in device.slices.iter().enumerate() {
            units.push(AllocatableUnit {
                resource: of(&part.resource),
                device: at,
                slice: Some(slice),
                sound,
            });
        }
    }
    units
}

/// Pod requests of all workloads for the packing policy, slices excluded.
fn demand(snapshot: &Snapshot) -> PackingDemand {
    let whole = |node: &SnapshotNode| {
        let whole = node
            .devices
            .iter()
            .filter(|device| device.slices.is_empty());
        u32::try_from(whole.count()).unwrap_or(u32::MAX)
    };
    let nodes: Vec<NodeKind> = snapshot
        .nodes
        .iter()
        .map(|node| NodeKind {
            cpu: node.cpu_milli,
            gpus: whole(node),
            model: node
                .devices
                .first()
                .map_or_else(String::new, |device| device.class.to_string()),
        })
        .collect();
    let sliced: BTreeSet<&Name> = snapshot
        .nodes
        .iter()
        .flat_map(|node| &node.devices)
        .flat_map(|device| &device.slices)
        .map(|slice| &slice.resource)
        .collect();
    let mut pods: Vec<(PlacementRequest, i64)> = Vec::new();
    for set in snapshot.workloads.iter().flat_map(|work| &work.sets) {
        let whole = set
            .requests
            .devices
            .iter()
            .find(|ask| !sliced.contains(&ask.resource));
        let pod = PlacementRequest {
            cpu: set.requests.cpu_milli,
            memory: set.requests.memory_bytes.div_euclid(MIB),
            gpus: whole.map_or(0, |ask| ask.count),
            milli: whole.map_or(0, |ask| ask.milli),
            models: Vec::new(),
        };
        pods.push((pod, i64::from(set.count.max(1))));
    }
    PackingDemand::new(&nodes, &pods, TYPICAL, MOST_SPECS)
}
