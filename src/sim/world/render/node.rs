//! Nodes, labelled as the software that labels each kind of node writes it.

use serde_json::{Map, Value, json};

use model::base::Moment;

use super::super::World;
use super::super::catalog::{H100, NodeOrigin, SimVendor, V5P};
use super::super::layout::v5p_topology;
use super::super::node::{NodeId, SimNode, SimTaint};
use super::super::noise::{hash, hex, mix, uuid};
use super::template::some_text;
use super::{Fill, fields_of, filled, filled_with, identity, values};

/// Driver of NVIDIA nodes, full.
pub(in super::super) const NVIDIA_DRIVER: &str = "580.95.05";
/// Driver of AMD nodes.
pub(in super::super) const AMD_DRIVER: &str = "6.12.12";

type Labels = Map<String, Value>;

impl World {
    /// Every label of a node, what clients wrote over them included.
    pub(in super::super) fn node_labels(&self, node: &SimNode) -> Labels {
        let mut object = json!({"metadata": {}});
        object["metadata"]["labels"] = Value::Object(base_labels(node));
        node.edit.apply(&mut object);
        object
            .pointer_mut("/metadata/labels")
            .map_or_else(Labels::new, |labels| fields_of(labels.take()))
    }

    /// A node's own address.
    pub(in super::super) fn node_ip(&self, id: NodeId) -> String {
        let id = id as u32 + 10;
        format!("10.{}.{}.{}", 32 + (id >> 16), (id >> 8) & 255, id & 255)
    }

    pub(super) fn render_node(&self, id: NodeId) -> Option<Value> {
        let mut object = self.render_node_base(id)?;
        let node = &self.nodes[id];
        node.edit.apply(&mut object);
        // Cordon and taints are the world's: what a client wrote has been understood already.
        let spec = object.get_mut("spec")?.as_object_mut()?;
        spec.remove("taints");
        spec.remove("unschedulable");
        let row = |taint: &SimTaint| {
            let value = some_text(&taint.value);
            filled(
                "taint",
                values!(key: &taint.key, value: value, effect: &taint.effect, added: taint.added),
            )
        };
        let taints: Vec<Value> = node.all_taints().iter().map(row).collect();
        if !taints.is_empty() {
            spec.insert("taints".into(), Value::Array(taints));
        }
        if node.cordoned {
            spec.insert("unschedulable".into(), Value::Bool(true));
        }
        Some(object)
    }

    /// The node without what clients wrote.
    pub(in super::super) fn render_node_base(&self, id: NodeId) -> Option<Value> {
        let node = self.nodes.get(id).filter(|node| !node.gone)?;
        let origin = node.spec().origin;
        let ip = self.node_ip(id);
        let cloud = matches!(origin, NodeOrigin::NodeGroup | NodeOrigin::Karpenter(_));
        let nvidia = node.spec().vendor == SimVendor::Nvidia;
        let complaint = node.complaint.as_ref().filter(|_| nvidia);
        let (capacity, allocatable) = resources(node);
        let times = || {
            filled(
                "node-times",
                values!(heartbeat: node.heartbeat, readySince: node.ready_since),
            )
        };
        let own = values!(
            identity: identity("", &node.name, node.uid, node.created),
            labels: base_labels(node),
            cidr: format!("10.{}.{}.0/24", 128 + (id >> 8 & 63), id & 255),
            provider: provider_id(node),
            dns: cloud.then(|| format!("ip-{}.ec2.internal", ip.replace('.', "-"))),
            ip: ip,
            name: &node.name,
            software: filled(&format!("node-software-{}", origin.word()), vec![]),
            machine: hex(node.uid, 32),
            system: uuid(mix(node.uid, 2)),
            boot: uuid(mix(node.uid, 3)),
            capacity: capacity,
            allocatable: allocatable,
            ready: node.ready,
            silent: !node.ready,
            created: node.created,
            complaint: complaint.map(|(reason, ..)| reason),
            complaintMessage: complaint.map(|(_, message, _)| message),
            complaintAt: complaint.map(|(.., at)| *at),
            sound: nvidia && complaint.is_none(),
        );
        Some(filled_with("node", own, &|name| {
            (name == "times").then(times)
        }))
    }

    /// The lease that a kubelet renews: here with each status report.
    pub(super) fn render_lease(&self, id: NodeId) -> Option<Value> {
        let node = self.nodes.get(id).filter(|node| !node.gone)?;
        let own = values!(
            identity: identity("kube-node-lease", &node.name, mix(node.uid, 15), node.created),
            name: &node.name,
            uid: uuid(node.uid),
            renewed: micro_time(node.heartbeat),
        );
        Some(filled("lease", own))
    }
}

/// A time with microseconds, as leases have it.
fn micro_time(at: Moment) -> String {
    at.rfc3339().replace('Z', ".000000Z")
}

/// The cloud's id of a machine.
pub(in super::super) fn provider_id(node: &SimNode) -> String {
    let (zone, name, uid) = (node.zone, &node.name, node.uid);
    match node.spec().origin {
        NodeOrigin::Gke(_) => format!("gce://ml-fleet-prod/{zone}/gke-ml-{name}-{}", hex(uid, 4)),
        NodeOrigin::Metal => format!("metal3://metal3-system/{name}/{}", uuid(mix(uid, 9))),
        _ => format!("aws:///{zone}/i-{}", hex(uid, 17)),
    }
}

fn base_labels(node: &SimNode) -> Labels {
    let spec = node.spec();
    let more = |name: &str| of_node(node, name);
    let labels = |part: &str| fields_of(filled_with(&format!("node-labels{part}"), vec![], &more));
    let mut all = labels("");
    all.extend(labels(&format!("-{}", spec.origin.word())));
    all.extend(
        spec.operator_labels()
            .map(|(key, value)| (key.to_owned(), value.value())),
    );
    all.extend(labels(&format!("-{:?}", spec.vendor)));
    for (resource, part) in ["-slices1", "-slices2"].into_iter().enumerate() {
        if spec.mig && (resource == 0 || node.capacity(resource) > 0) {
            all.extend(labels(part));
        }
    }
    all
}

/// What the templates of labels name of a node.
fn of_node(node: &SimNode, name: &str) -> Option<Value> {
    let spec = node.spec();
    let [family, major, minor] = spec.gpu_family;
    let small = spec.per_node == 4;
    let can_slice = family != "ada-lovelace";
    let layer = |level: &str, of: u64| format!("nn-{}", hex(mix(hash(level), of), 17));
    let rack = u64::from(node.rack);
    let region = match spec.origin {
        NodeOrigin::Gke(_) => "us-east5",
        NodeOrigin::Metal => "dc1",
        _ => "us-east-1",
    };
    let capacity_type = match spec.origin {
        NodeOrigin::Karpenter(word) | NodeOrigin::Gke(word) => word,
        _ => "",
    };
    let value = match name {
        "name" => node.name.value(),
        "zone" => node.zone.value(),
        "region" => region.value(),
        "rack" => node.rack.value(),
        "pool" => spec.name.value(),
        "instance" => spec.instance.value(),
        "model" => spec.model.value(),
        "product" => spec.product.value(),
        "devices" => spec.per_node.to_string().value(),
        "deviceMemory" => spec.device_mib.to_string().value(),
        "spine" => layer("spine", node.pool as u64).value(),
        "aggregation" => layer("agg", u64::from(node.rack / 2) + 100 * node.pool as u64).value(),
        "leaf" => layer("leaf", rack).value(),
        "zoneId" => match node.zone {
            "us-east-1a" => "use1-az4",
            "us-east-1b" => "use1-az6",
            _ => "use1-az1",
        }
        .value(),
        "capacityType" => capacity_type.value(),
        "gpuName" => if small { "l4" } else { "a100" }.value(),
        "gpuMemory" => if small { "22888" } else { "81920" }.value(),
        "block" => hex(mix(hash("block"), rack), 32).value(),
        "subblock" => hex(mix(hash("sub"), u64::from(node.slice)), 32).value(),
        "topologyHost" => hex(mix(node.uid, 8), 32).value(),
        // A multi-host slice is a GKE node pool of its own.
        "nodePool" if node.pool == V5P => format!("{}-s{}", spec.name, node.slice).value(),
        "nodePool" => spec.name.value(),
        "topology" if node.pool == V5P => v5p_topology(node.slice_hosts).value(),
        "topology" => "2x4".value(),
        "machineFamily" => spec.instance.split('-').next().value(),
        "spot" => (capacity_type == "spot").then_some("true").value(),
        "reservation" => (capacity_type != "spot").then_some("tpu-v5p-2026").value(),
        "family" => family.value(),
        "major" => major.value(),
        "minor" => minor.value(),
        "clique" => (node.pool == H100)
            .then(|| format!("{}.{rack}", uuid(hash("fabric-h100"))))
            .value(),
        "migCapable" => can_slice.to_string().value(),
        "migStrategy" => if spec.mig { "mixed" } else { "single" }.value(),
        "migConfig" if spec.mig => if node.capacity(1) > 0 {
            "custom-notebooks"
        } else {
            "all-1g.10gb"
        }
        .value(),
        "migConfig" => can_slice.then_some("all-disabled").value(),
        "migState" => (spec.mig || can_slice).then_some("success").value(),
        "ones" => node.capacity(0).to_string().value(),
        "twos" => node.capacity(1).to_string().value(),
        "driver" if spec.vendor == SimVendor::Amd => AMD_DRIVER.value(),
        "driver" => NVIDIA_DRIVER.value(),
        "discovered" => (node.created.millis() / 1000 + 90).to_string().value(),
        "devicePlugin" => (!node.by_claim()).to_string().value(),
        _ => Value::Null,
    };
    Some(value).filter(|value| !value.is_null())
}

/// Capacity and allocatable resources.
fn resources(node: &SimNode) -> (Value, Value) {
    let spec = node.spec();
    let pods = match spec.origin {
        NodeOrigin::Gke(_) => "110",
        NodeOrigin::Metal => "250",
        _ => "100",
    };
    let of = |cpu: String, memory: i64, storage: &str| {
        filled(
            "node-capacity",
            values!(cpu: cpu, memory: memory, storage: storage, pods: pods),
        )
    };
    let (has, offers) = (spec.memory_kib(node.uid), spec.memory_offered_kib(node.uid));
    let mut capacity = of(spec.cpu.to_string(), has, "3748905484Ki");
    let mut allocatable = of(format!("{}m", spec.cpu_offered()), offers, "3454991294085");
    if spec.mig {
        // Under the mixed strategy whole GPUs are not offered.
        capacity["nvidia.com/gpu"] = "0".value();
        allocatable["nvidia.com/gpu"] = "0".value();
    }
    for (at, name) in spec.resources.iter().enumerate() {
        let has = node.capacity(at);
        if has > 0 && !node.by_claim() {
            capacity[*name] = has.to_string().value();
            allocatable[*name] = node.allocatable(at).to_string().value();
        }
    }
    (capacity, allocatable)
}
