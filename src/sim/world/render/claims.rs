//! ResourceSlices and ResourceClaims, as `resource.k8s.io/v1`.
//!
//! Sources: kubernetes/api `resource/v1`, NVIDIA/k8s-dra-driver-gpu v25.8 (attributes of a device).

use serde_json::Value;

use model::base::ObjectKey;

use super::super::super::change::Resource;
use super::super::claims::DRIVER;
use super::super::node::NodeId;
use super::super::noise::{mix, suffix, uuid};
use super::super::pages::pci;
use super::super::pod::PodId;
use super::super::{Ref, World};
use super::{NVIDIA_DRIVER, filled, identity, owner, values};

impl World {
    /// The name of a node's ResourceSlice.
    pub(in super::super) fn slice_name(&self, id: NodeId) -> String {
        let node = &self.nodes[id];
        format!(
            "{}-{DRIVER}-{}",
            node.name,
            suffix(mix(node.uid, 0x511c), 5)
        )
    }

    /// What the driver publishes of a node.
    pub(super) fn render_slice(&self, id: NodeId) -> Option<Value> {
        let node = self
            .nodes
            .get(id)
            .filter(|node| !node.gone && node.by_claim())?;
        let spec = node.spec();
        let device = |gpu: usize| {
            let own = values!(
                gpu: gpu,
                uuid: Self::gpu_uuid(node, gpu),
                model: spec.model,
                // Versions in the API have no leading zeros.
                driver: NVIDIA_DRIVER.replace(".0", "."),
                // The exporter writes a longer domain than PCI has.
                address: pci(gpu).to_lowercase().split_off(4),
                memory: spec.device_mib,
            );
            filled("slice-device", own)
        };
        let there = (0..spec.per_node as usize).filter(|gpu| node.devices[*gpu].vanished.is_none());
        let own = values!(
            identity: identity("", &self.slice_name(id), mix(node.uid, 0x511d), node.created),
            node: &node.name,
            owner: owner("v1", "Node", &node.name, node.uid),
            devices: there.map(device).collect::<Value>(),
        );
        Some(filled("ResourceSlice", own))
    }

    /// The claim of a pod, allocated once the pod has a node.
    pub(super) fn render_claim(&self, id: PodId) -> Option<Value> {
        let pod = self.pods.get(&id)?;
        let work = self.works.get(&pod.work)?;
        let template = work.ask.claim.as_ref()?;
        let key = Self::claim_key(pod);
        self.owns_name(
            Resource::ResourceClaims,
            &key.namespace,
            &key.name,
            &Ref::Claim(id),
        )?;
        let template = ObjectKey::new(pod.key.namespace.clone(), template.clone());
        let written = self
            .plain
            .get(&(Resource::ResourceClaimTemplates, template));
        let written = written.and_then(|template| template.pointer("/spec/spec"));
        let node = pod.node.map(|node| &self.nodes[node]);
        let results = node.map(|node| {
            let result = |unit: &u8| {
                let gpu = node.units[usize::from(*unit)].gpu;
                filled("claim-result", values!(node: &node.name, gpu: gpu))
            };
            pod.units.iter().map(result).collect::<Value>()
        });
        let own = values!(
            identity: identity(&key.namespace, &key.name, mix(pod.uid, 0xc1a2), pod.created),
            pod: &pod.key.name,
            podUid: uuid(pod.uid),
            owner: owner("v1", "Pod", &pod.key.name, pod.uid),
            spec: written.cloned().unwrap_or_else(|| request(work.ask.count)),
            node: node.map(|node| &node.name),
            protection: node.map(|_| "resource.kubernetes.io/delete-protection"),
            allocated: pod.scheduled.unwrap_or(pod.created),
            results: results,
        );
        Some(filled("ResourceClaim", own))
    }
}

/// The spec of a claim for this many whole devices.
pub(in super::super) fn request(count: u32) -> Value {
    filled("claim-request", values!(count: count))
}
