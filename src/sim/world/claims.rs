//! Dynamic resource allocation: each pod with a claim template has a ResourceClaim until it has ended, and kube-scheduler
//! allocates it.

use model::base::ObjectKey;

use super::super::change::Resource;
use super::node::NodeId;
use super::noise::{mix, suffix};
use super::pod::{PodId, SimPod};
use super::{Ref, World};

/// The name of the claim within a pod.
pub(super) const POD_CLAIM: &str = "gpu";
/// NVIDIA's driver for dynamic resource allocation, and its class of whole devices.
pub(super) const DRIVER: &str = "gpu.nvidia.com";

impl World {
    /// The key of a pod's claim.
    pub(super) fn claim_key(pod: &SimPod) -> ObjectKey {
        let tail = suffix(mix(pod.uid, 0xc1a1), 5);
        let name = format!("{}-{POD_CLAIM}-{tail}", pod.key.name);
        ObjectKey::new(pod.key.namespace.clone(), name)
    }

    fn claims_of(&self, id: PodId) -> Option<ObjectKey> {
        let pod = self.pods.get(&id)?;
        let work = self.works.get(&pod.work)?;
        work.ask.claim.as_ref()?;
        Some(Self::claim_key(pod))
    }

    /// Creates the claim of a pod with a claim template.
    pub(super) fn raise_claim(&mut self, id: PodId) {
        if let Some(key) = self.claims_of(id) {
            self.names
                .insert((Resource::ResourceClaims, key), Ref::Claim(id));
            self.touch(Ref::Claim(id));
        }
    }

    /// Marks the claim of a pod as changed.
    pub(super) fn touch_claim(&mut self, id: PodId) {
        if self.claims_of(id).is_some() {
            self.touch(Ref::Claim(id));
        }
    }

    /// Deletes the claim of a pod that has ended, or is terminating.
    pub(super) fn drop_claim(&mut self, id: PodId) {
        if let Some(key) = self.claims_of(id)
            && self
                .names
                .remove(&(Resource::ResourceClaims, key.clone()))
                .is_some()
        {
            self.retract(&Ref::Claim(id), Resource::ResourceClaims, key);
        }
    }

    pub(super) fn claims(&self) -> impl Iterator<Item = Ref> {
        let first = (Resource::ResourceClaims, ObjectKey::default());
        self.names
            .range(first..)
            .take_while(|((resource, _), _)| *resource == Resource::ResourceClaims)
            .map(|(_, object)| object.clone())
    }

    pub(super) fn slices(&self) -> impl Iterator<Item = Ref> {
        let there = |id: &NodeId| !self.nodes[*id].gone && self.nodes[*id].by_claim();
        (0..self.nodes.len()).filter(there).map(Ref::Slice)
    }
}
