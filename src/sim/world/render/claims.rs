//! ResourceSlices and ResourceClaims, as `resource.k8s.io/v1`.
//!
//! Sources: kubernetes/api `resource/v1`, NVIDIA/k8s-dra-driver-gpu v25.8 (attributes of a device).

use serde_json::{Value, json};

use model::base::ObjectKey;

use super::super::super::change::Resource;
use super::super::claims::{DRIVER, POD_CLAIM};
use super::super::node::NodeId;
use super::super::noise::{mix, suffix};
use super::super::pages::pci;
use super::super::pod::PodId;
use super::super::{Ref, World};
use super::{NVIDIA_DRIVER, metadata, owner};

impl World {
    /// The name of a node's ResourceSlice.
    pub(in super::super) fn slice_name(&self, id: NodeId) -> String {
        let node = &self.nodes[id];
        let tail = suffix(mix(node.uid, 0x511c), 5);
        format!("{}-{DRIVER}-{tail}", node.name)
    }

    /// What the driver publishes of a node.
    pub(super) fn render_slice(&self, id: NodeId) -> Option<Value> {
        let node = self
            .nodes
            .get(id)
            .filter(|node| !node.gone && node.by_claim())?;
        let spec = node.spec();
        let mut meta = metadata(
            "",
            &self.slice_name(id),
            mix(node.uid, 0x511d),
            node.created,
        );
        meta["generateName"] = json!(format!("{}-{DRIVER}-", node.name));
        meta["generation"] = json!(1);
        meta["ownerReferences"] = owner("v1", "Node", &node.name, node.uid);
        let devices: Vec<Value> = (0..spec.per_node as usize)
            .filter(|gpu| node.devices[*gpu].vanished.is_none())
            .map(|gpu| {
                // The exporter writes a longer domain than PCI has.
                let address = pci(gpu).to_lowercase().split_off(4);
                json!({
                    "name": format!("gpu-{gpu}"),
                    "attributes": {
                        "type": {"string": "gpu"},
                        "uuid": {"string": Self::gpu_uuid(node, gpu)},
                        "productName": {"string": spec.model},
                        "brand": {"string": "Nvidia"},
                        "architecture": {"string": "Ada Lovelace"},
                        "cudaComputeCapability": {"version": "8.9.0"},
                        "cudaDriverVersion": {"version": "13.0.0"},
                        // Versions in the API have no leading zeros.
                        "driverVersion": {"version": NVIDIA_DRIVER.replace(".0", ".")},
                        "resource.kubernetes.io/pciBusID": {"string": address},
                    },
                    "capacity": {"memory": {"value": format!("{}Mi", spec.device_mib)}},
                })
            })
            .collect();
        Some(json!({
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": meta,
            "spec": {
                "driver": DRIVER,
                "nodeName": &*node.name,
                "pool": {"name": &*node.name, "generation": 1, "resourceSliceCount": 1},
                "devices": devices,
            },
        }))
    }

    /// The claim of a pod, allocated once the pod has a node.
    pub(super) fn render_claim(&self, id: PodId) -> Option<Value> {
        let pod = self.pods.get(&id)?;
        let work = self.works.get(&pod.work)?;
        let template = work.ask.claim.as_ref()?;
        let key = Self::claim_key(pod);
        let claim = Ref::Claim(id);
        self.owns_name(Resource::ResourceClaims, &key.namespace, &key.name, &claim)?;
        let mut meta = metadata(&key.namespace, &key.name, mix(pod.uid, 0xc1a2), pod.created);
        meta["generateName"] = json!(format!("{}-{POD_CLAIM}-", pod.key.name));
        meta["annotations"] = json!({"resource.kubernetes.io/pod-claim-name": POD_CLAIM});
        meta["ownerReferences"] = owner("v1", "Pod", &pod.key.name, pod.uid);
        let written = self
            .plain
            .get(&(
                Resource::ResourceClaimTemplates,
                ObjectKey::new(pod.key.namespace.clone(), template.clone()),
            ))
            .and_then(|template| template.pointer("/spec/spec"));
        let mut object = json!({
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": meta,
            "status": {},
        });
        object["spec"] = written.cloned().unwrap_or_else(|| request(work.ask.count));
        if let Some(node) = pod.node {
            let node = &self.nodes[node];
            object["metadata"]["finalizers"] = json!(["resource.kubernetes.io/delete-protection"]);
            let results: Vec<Value> = pod
                .units
                .iter()
                .map(|unit| {
                    let gpu = node.units[usize::from(*unit)].gpu;
                    json!({"request": POD_CLAIM, "driver": DRIVER, "pool": &*node.name, "device": format!("gpu-{gpu}")})
                })
                .collect();
            object["status"] = json!({
                "allocation": {
                    "allocationTimestamp": pod.scheduled.unwrap_or(pod.created).rfc3339(),
                    "devices": {"results": results},
                    "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [
                        {"key": "metadata.name", "operator": "In", "values": [&*node.name]}
                    ]}]},
                },
                "reservedFor": [{"resource": "pods", "name": &*pod.key.name, "uid": super::super::noise::uuid(pod.uid)}],
            });
        }
        Some(object)
    }
}

/// The spec of a claim for this many whole devices.
pub(in super::super) fn request(count: u32) -> Value {
    json!({"devices": {"requests": [{
        "name": POD_CLAIM,
        "exactly": {"deviceClassName": DRIVER, "allocationMode": "ExactCount", "count": count},
    }]}})
}
