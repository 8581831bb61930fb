//! Nodes, labelled as the software that labels each kind of node writes it.

use serde_json::{Map, Value, json};

use model::base::Moment;

use super::super::World;
use super::super::catalog::{H100, Origin, V5P, Vendor};
use super::super::layout::v5p_topology;
use super::super::node::{Node, NodeId};
use super::super::noise::{hash, hex, mix, uuid};
use super::{metadata, object};

/// Driver of NVIDIA nodes, full.
pub(in super::super) const NVIDIA_DRIVER: &str = "580.95.05";
/// Driver of AMD nodes.
pub(in super::super) const AMD_DRIVER: &str = "6.12.12";

type Labels = Map<String, Value>;

fn put(labels: &mut Labels, pairs: &[(&str, &str)]) {
    for (key, value) in pairs {
        labels.insert((*key).to_owned(), Value::String((*value).to_owned()));
    }
}

impl World {
    /// Every label of a node, what clients wrote over them included.
    pub(in super::super) fn node_labels(&self, node: &Node) -> Labels {
        let mut object = json!({"metadata": {}});
        object["metadata"]["labels"] = Value::Object(base_labels(node));
        node.edit.apply(&mut object);
        match object.pointer_mut("/metadata/labels").map(Value::take) {
            Some(Value::Object(labels)) => labels,
            _ => Labels::new(),
        }
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
        let taints: Vec<Value> = node
            .all_taints()
            .iter()
            .map(|taint| {
                let mut fields = Map::new();
                fields.insert("key".into(), json!(&*taint.key));
                if !taint.value.is_empty() {
                    fields.insert("value".into(), json!(&*taint.value));
                }
                fields.insert("effect".into(), json!(&*taint.effect));
                if let Some(added) = taint.added {
                    fields.insert("timeAdded".into(), json!(added.rfc3339()));
                }
                Value::Object(fields)
            })
            .collect();
        if !taints.is_empty() {
            spec.insert("taints".into(), Value::Array(taints));
        }
        if node.cordoned {
            spec.insert("unschedulable".into(), json!(true));
        }
        Some(object)
    }

    /// The node without what clients wrote.
    pub(in super::super) fn render_node_base(&self, id: NodeId) -> Option<Value> {
        let node = self.nodes.get(id).filter(|node| !node.gone)?;
        let spec = node.spec();
        let mut meta = metadata("", &node.name, node.uid, node.created);
        meta["labels"] = Value::Object(base_labels(node));
        meta["annotations"] = json!({
            "node.alpha.kubernetes.io/ttl": "0",
            "volumes.kubernetes.io/controller-managed-attach-detach": "true",
        });
        let ip = self.node_ip(id);
        let (runtime, image, kernel) = match spec.origin {
            Origin::Gke(_) => (
                "containerd://1.7.27",
                "Container-Optimized OS from Google",
                "6.6.97+",
            ),
            Origin::Metal => (
                "containerd://1.7.27",
                "Ubuntu 22.04.5 LTS",
                "5.15.0-151-generic",
            ),
            _ => (
                "containerd://1.7.27",
                "Amazon Linux 2023.8.20250818",
                "6.12.40-64.114.amzn2023.x86_64",
            ),
        };
        let version = match spec.origin {
            Origin::Gke(_) => "v1.34.1-gke.1829000",
            Origin::Metal => "v1.34.2",
            _ => "v1.34.1-eks-113cf36",
        };
        let (capacity, allocatable) = resources(node);
        let mut status = json!({
            "addresses": [
                {"type": "InternalIP", "address": ip},
                {"type": "Hostname", "address": &*node.name},
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": {
                "machineID": hex(node.uid, 32),
                "systemUUID": uuid(mix(node.uid, 2)),
                "bootID": uuid(mix(node.uid, 3)),
                "kernelVersion": kernel,
                "osImage": image,
                "containerRuntimeVersion": runtime,
                "kubeletVersion": version,
                "kubeProxyVersion": "",
                "operatingSystem": "linux",
                "architecture": "amd64",
            },
        });
        status["capacity"] = capacity;
        status["allocatable"] = allocatable;
        status["conditions"] = self.node_conditions(node);
        if !matches!(spec.origin, Origin::Gke(_) | Origin::Metal) {
            let dns = format!("ip-{}.ec2.internal", ip.replace('.', "-"));
            if let Some(list) = status["addresses"].as_array_mut() {
                list.push(json!({"type": "InternalDNS", "address": dns}));
            }
        }
        let spec = json!({
            "podCIDR": pod_cidr(id),
            "podCIDRs": [pod_cidr(id)],
            "providerID": provider_id(node),
        });
        Some(object([
            ("apiVersion", json!("v1")),
            ("kind", json!("Node")),
            ("metadata", meta),
            ("spec", spec),
            ("status", status),
        ]))
    }

    /// The lease that a kubelet renews: here with each status report.
    pub(super) fn render_lease(&self, id: NodeId) -> Option<Value> {
        let node = self.nodes.get(id).filter(|node| !node.gone)?;
        let mut meta = metadata(
            "kube-node-lease",
            &node.name,
            mix(node.uid, 15),
            node.created,
        );
        meta["ownerReferences"] = json!([{
            "apiVersion": "v1", "kind": "Node", "name": &*node.name, "uid": uuid(node.uid),
        }]);
        let renewed = micro_time(node.heartbeat);
        Some(object([
            ("apiVersion", json!("coordination.k8s.io/v1")),
            ("kind", json!("Lease")),
            ("metadata", meta),
            (
                "spec",
                json!({"holderIdentity": &*node.name, "leaseDurationSeconds": 40, "renewTime": renewed}),
            ),
        ]))
    }

    fn node_conditions(&self, node: &Node) -> Value {
        let beat = node.heartbeat.rfc3339();
        let since = node.ready_since.rfc3339();
        let born = node.created.rfc3339();
        let row = |kind: &str, status: &str, reason: &str, message: &str, since: &str| {
            json!({
                "type": kind,
                "status": status,
                "reason": reason,
                "message": message,
                "lastHeartbeatTime": beat,
                "lastTransitionTime": since,
            })
        };
        let mut rows = if node.ready {
            vec![
                row(
                    "MemoryPressure",
                    "False",
                    "KubeletHasSufficientMemory",
                    "kubelet has sufficient memory available",
                    &born,
                ),
                row(
                    "DiskPressure",
                    "False",
                    "KubeletHasNoDiskPressure",
                    "kubelet has no disk pressure",
                    &born,
                ),
                row(
                    "PIDPressure",
                    "False",
                    "KubeletHasSufficientPID",
                    "kubelet has sufficient PID available",
                    &born,
                ),
                row(
                    "Ready",
                    "True",
                    "KubeletReady",
                    "kubelet is posting ready status",
                    &since,
                ),
            ]
        } else {
            ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"]
                .iter()
                .map(|kind| {
                    row(
                        kind,
                        "Unknown",
                        "NodeStatusUnknown",
                        "Kubelet stopped posting node status.",
                        &since,
                    )
                })
                .collect()
        };
        if node.spec().vendor == Vendor::Nvidia {
            rows.push(match &node.complaint {
                Some((reason, message, at)) => row(
                    "AcceleratedHardwareReady",
                    "False",
                    reason,
                    message,
                    &at.rfc3339(),
                ),
                None => row(
                    "AcceleratedHardwareReady",
                    "True",
                    "NvidiaAcceleratedHardwareIsReady",
                    "Monitoring for the Nvidia AcceleratedHardware system is active",
                    &born,
                ),
            });
        }
        Value::Array(rows)
    }
}

/// A time with microseconds, as leases have it.
fn micro_time(at: Moment) -> String {
    at.rfc3339().replace('Z', ".000000Z")
}

fn pod_cidr(id: NodeId) -> String {
    format!("10.{}.{}.0/24", 128 + (id >> 8 & 63), id & 255)
}

/// The cloud's id of a machine.
pub(in super::super) fn provider_id(node: &Node) -> String {
    match node.spec().origin {
        Origin::Gke(_) => format!(
            "gce://ml-fleet-prod/{}/gke-ml-{}-{}",
            node.zone,
            node.name,
            hex(node.uid, 4)
        ),
        Origin::Metal => format!(
            "metal3://metal3-system/{}/{}",
            node.name,
            uuid(mix(node.uid, 9))
        ),
        _ => format!("aws:///{}/i-{}", node.zone, hex(node.uid, 17)),
    }
}

fn base_labels(node: &Node) -> Labels {
    let spec = node.spec();
    let mut labels = Labels::new();
    let region = match spec.origin {
        Origin::Gke(_) => "us-east5",
        Origin::Metal => "dc1",
        _ => "us-east-1",
    };
    let rack = format!("r{}", node.rack);
    put(
        &mut labels,
        &[
            ("kubernetes.io/arch", "amd64"),
            ("kubernetes.io/os", "linux"),
            ("kubernetes.io/hostname", &node.name),
            ("node.kubernetes.io/instance-type", spec.instance),
            ("topology.kubernetes.io/region", region),
            ("topology.kubernetes.io/zone", node.zone),
            ("topology.kubernetes.io/rack", &rack),
        ],
    );
    let layer = |level: &str, of: u64| format!("nn-{}", hex(mix(hash(level), of), 17));
    match spec.origin {
        Origin::NodeGroup | Origin::Karpenter(_) => put(
            &mut labels,
            &[
                (
                    "topology.k8s.aws/network-node-layer-1",
                    &layer("spine", node.pool as u64),
                ),
                (
                    "topology.k8s.aws/network-node-layer-2",
                    &layer("agg", u64::from(node.rack / 2) + 100 * node.pool as u64),
                ),
                (
                    "topology.k8s.aws/network-node-layer-3",
                    &layer("leaf", u64::from(node.rack)),
                ),
                ("topology.k8s.aws/zone-id", zone_id(node.zone)),
                (
                    "k8s.io/cloud-provider-aws",
                    "f1c6a7a3ad1a1ef2ae3a6dc8d1f0cdb6",
                ),
            ],
        ),
        Origin::Gke(_) => put(
            &mut labels,
            &[
                (
                    "cloud.google.com/gce-topology-block",
                    &hex(mix(hash("block"), u64::from(node.rack)), 32),
                ),
                (
                    "cloud.google.com/gce-topology-subblock",
                    &hex(mix(hash("sub"), u64::from(node.slice)), 32),
                ),
                (
                    "cloud.google.com/gce-topology-host",
                    &hex(mix(node.uid, 8), 32),
                ),
            ],
        ),
        Origin::Metal => {}
    }
    match spec.origin {
        Origin::NodeGroup => put(
            &mut labels,
            &[
                ("eks.amazonaws.com/nodegroup", spec.name),
                ("eks.amazonaws.com/capacityType", "CAPACITY_BLOCK"),
                ("eks.amazonaws.com/nodegroup-image", "ami-0c5204531f799e0c6"),
                ("topology.k8s.aws/capacity-block-id", "cb-0a4f2c19d77e6b315"),
            ],
        ),
        Origin::Karpenter(capacity) => put(
            &mut labels,
            &[
                ("karpenter.sh/nodepool", spec.name),
                ("karpenter.sh/capacity-type", capacity),
                ("karpenter.sh/registered", "true"),
                ("karpenter.sh/initialized", "true"),
                ("karpenter.k8s.aws/ec2nodeclass", "gpu"),
                ("karpenter.k8s.aws/instance-gpu-manufacturer", "nvidia"),
                (
                    "karpenter.k8s.aws/instance-gpu-name",
                    if spec.per_node == 4 { "l4" } else { "a100" },
                ),
                (
                    "karpenter.k8s.aws/instance-gpu-count",
                    &spec.per_node.to_string(),
                ),
                (
                    "karpenter.k8s.aws/instance-gpu-memory",
                    if spec.per_node == 4 { "22888" } else { "81920" },
                ),
            ],
        ),
        Origin::Gke(provisioning) => tpu_labels(&mut labels, node, provisioning),
        Origin::Metal => put(&mut labels, &[("node.cluster.x-k8s.io/pool", spec.name)]),
    }
    put(&mut labels, &spec.operator_labels());
    match spec.vendor {
        Vendor::Nvidia => gpu_labels(&mut labels, node),
        Vendor::Amd => put(
            &mut labels,
            &[
                ("amd.com/gpu.product-name", spec.product),
                ("amd.com/gpu.device-id", "74a1"),
                ("amd.com/gpu.family", "AI"),
                ("amd.com/gpu.vram", "192G"),
                ("amd.com/gpu.cu-count", "304"),
                ("amd.com/gpu.simd-count", "1216"),
                ("amd.com/gpu.driver-version", AMD_DRIVER),
                ("amd.com/compute-memory-partition", "spx_nps1"),
                ("feature.node.kubernetes.io/amd-gpu", "true"),
            ],
        ),
        Vendor::Google => {}
    }
    labels
}

fn zone_id(zone: &str) -> &'static str {
    match zone {
        "us-east-1a" => "use1-az4",
        "us-east-1b" => "use1-az6",
        _ => "use1-az1",
    }
}

fn tpu_labels(labels: &mut Labels, node: &Node, provisioning: &str) {
    let spec = node.spec();
    let (topology, pool) = if node.pool == V5P {
        // A multi-host slice is a GKE node pool of its own.
        (
            v5p_topology(node.slice_hosts),
            format!("{}-s{}", spec.name, node.slice),
        )
    } else {
        ("2x4", spec.name.to_owned())
    };
    put(
        labels,
        &[
            ("cloud.google.com/gke-nodepool", &pool),
            ("cloud.google.com/compute-class", spec.name),
            ("cloud.google.com/gke-tpu-accelerator", spec.model),
            ("cloud.google.com/gke-tpu-topology", topology),
            (
                "cloud.google.com/gke-accelerator-count",
                &spec.per_node.to_string(),
            ),
            ("cloud.google.com/gke-provisioning", provisioning),
            (
                "cloud.google.com/machine-family",
                spec.instance.split('-').next().unwrap_or_default(),
            ),
        ],
    );
    if provisioning == "spot" {
        put(labels, &[("cloud.google.com/gke-spot", "true")]);
    } else {
        put(
            labels,
            &[("cloud.google.com/reservation-name", "tpu-v5p-2026")],
        );
    }
}

fn gpu_labels(labels: &mut Labels, node: &Node) {
    let spec = node.spec();
    let (family, major, minor) = match spec.flavor {
        "h100" => ("hopper", "9", "0"),
        "b200" => ("blackwell", "10", "0"),
        "l4" | "l40s" => ("ada-lovelace", "8", "9"),
        _ => ("ampere", "8", "0"),
    };
    let stamp = (node.created.millis() / 1000 + 90).to_string();
    put(
        labels,
        &[
            ("nvidia.com/gpu.present", "true"),
            ("nvidia.com/gpu.product", spec.product),
            ("nvidia.com/gpu.count", &spec.per_node.to_string()),
            ("nvidia.com/gpu.memory", &spec.device_mib.to_string()),
            ("nvidia.com/gpu.family", family),
            ("nvidia.com/gpu.compute.major", major),
            ("nvidia.com/gpu.compute.minor", minor),
            ("nvidia.com/gpu.machine", spec.instance),
            ("nvidia.com/gpu.replicas", "1"),
            ("nvidia.com/gpu.sharing-strategy", "none"),
            ("nvidia.com/gpu.mode", "compute"),
            (
                "nvidia.com/mig.capable",
                if family == "ada-lovelace" {
                    "false"
                } else {
                    "true"
                },
            ),
            (
                "nvidia.com/mig.strategy",
                if spec.mig { "mixed" } else { "single" },
            ),
            ("nvidia.com/cuda.driver-version.full", NVIDIA_DRIVER),
            ("nvidia.com/cuda.driver-version.major", "580"),
            ("nvidia.com/cuda.driver-version.minor", "95"),
            ("nvidia.com/cuda.driver-version.revision", "05"),
            ("nvidia.com/cuda.runtime-version.full", "13.0"),
            ("nvidia.com/gfd.timestamp", &stamp),
            ("nvidia.com/gpu-driver-upgrade-state", "upgrade-done"),
            ("nvidia.com/gpu.deploy.dcgm-exporter", "true"),
            (
                "nvidia.com/gpu.deploy.device-plugin",
                if node.by_claim() { "false" } else { "true" },
            ),
            ("nvidia.com/gpu.deploy.driver", "true"),
            ("nvidia.com/gpu.deploy.gpu-feature-discovery", "true"),
        ],
    );
    if node.pool == H100 {
        let clique = format!("{}.{}", uuid(hash("fabric-h100")), node.rack);
        put(labels, &[("nvidia.com/gpu.clique", &clique)]);
    }
    if spec.mig {
        let (ones, twos) = (node.capacity(0), node.capacity(1));
        put(
            labels,
            &[
                (
                    "nvidia.com/mig.config",
                    if twos > 0 {
                        "custom-notebooks"
                    } else {
                        "all-1g.10gb"
                    },
                ),
                ("nvidia.com/mig.config.state", "success"),
                ("nvidia.com/mig-1g.10gb.count", &ones.to_string()),
                ("nvidia.com/mig-1g.10gb.memory", "9728"),
                ("nvidia.com/mig-1g.10gb.multiprocessors", "14"),
                (
                    "nvidia.com/mig-1g.10gb.product",
                    "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb",
                ),
                ("nvidia.com/mig-1g.10gb.slices.gi", "1"),
                ("nvidia.com/mig-1g.10gb.slices.ci", "1"),
            ],
        );
        if twos > 0 {
            put(
                labels,
                &[
                    ("nvidia.com/mig-2g.20gb.count", &twos.to_string()),
                    ("nvidia.com/mig-2g.20gb.memory", "19968"),
                    ("nvidia.com/mig-2g.20gb.multiprocessors", "28"),
                    (
                        "nvidia.com/mig-2g.20gb.product",
                        "NVIDIA-A100-SXM4-80GB-MIG-2g.20gb",
                    ),
                    ("nvidia.com/mig-2g.20gb.slices.gi", "2"),
                    ("nvidia.com/mig-2g.20gb.slices.ci", "2"),
                ],
            );
        }
    } else if family != "ada-lovelace" {
        put(
            labels,
            &[
                ("nvidia.com/mig.config", "all-disabled"),
                ("nvidia.com/mig.config.state", "success"),
            ],
        );
    }
}

fn resources(node: &Node) -> (Value, Value) {
    let spec = node.spec();
    let memory = spec.memory_kib(node.uid);
    let pods = match spec.origin {
        Origin::Gke(_) => "110",
        Origin::Metal => "250",
        _ => "100",
    };
    let mut capacity = json!({
        "cpu": spec.cpu.to_string(),
        "memory": format!("{memory}Ki"),
        "ephemeral-storage": "3748905484Ki",
        "hugepages-1Gi": "0",
        "hugepages-2Mi": "0",
        "pods": pods,
    });
    let mut allocatable = json!({
        "cpu": format!("{}m", spec.cpu_offered()),
        "memory": format!("{}Ki", spec.memory_offered_kib(node.uid)),
        "ephemeral-storage": "3454991294085",
        "hugepages-1Gi": "0",
        "hugepages-2Mi": "0",
        "pods": pods,
    });
    if spec.mig {
        // Under the mixed strategy whole GPUs are not offered.
        capacity["nvidia.com/gpu"] = json!("0");
        allocatable["nvidia.com/gpu"] = json!("0");
    }
    for (at, name) in spec.resources.iter().enumerate() {
        let has = node.capacity(at);
        if has > 0 && !node.by_claim() {
            capacity[*name] = json!(has.to_string());
            allocatable[*name] = json!(node.allocatable(at).to_string());
        }
    }
    (capacity, allocatable)
}
