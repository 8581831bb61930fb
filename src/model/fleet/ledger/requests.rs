//! What the pods of a node still have to be given, by resource.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::base::ObjectKey;
use crate::fleet::device::Pod;

/// What each pod still has to be given, by resource.
pub(super) struct PodRequests<'a> {
    pods: BTreeMap<&'a ObjectKey, (&'a Arc<Pod>, BTreeMap<&'a str, u32>)>,
}

impl<'a> PodRequests<'a> {
    /// Of these pods; those that claims have served want nothing more.
    pub(super) fn of(pods: &'a [Arc<Pod>], served: &BTreeSet<ObjectKey>) -> Self {
        let wants = |pod: &'a Arc<Pod>| {
            let by_resource = pod
                .seen
                .requests
                .devices
                .iter()
                .filter(|_| !served.contains(pod.key()))
                .map(|(resource, count)| (resource.as_str(), *count))
                .collect();
            (pod.key(), (pod, by_resource))
        };
        Self {
            pods: pods.iter().map(wants).collect(),
        }
    }

    /// One device or slice of a resource that `fits` for the pod of this key, when it is here at all. A
    /// pod that is named beyond what it asks for is believed: the exporter sees the process.
    pub(super) fn take(
        &mut self,
        key: &ObjectKey,
        fits: impl Fn(&str) -> bool,
    ) -> Option<Arc<Pod>> {
        let (pod, left) = self.pods.get_mut(key)?;
        if let Some(count) = left
            .iter_mut()
            .find(|(resource, count)| **count > 0 && fits(resource))
            .map(|(_, count)| count)
        {
            *count -= 1;
        }
        Some(Arc::clone(pod))
    }

    /// True while the pod of this key still wants something that `fits`.
    pub(super) fn asks(&self, key: &ObjectKey, fits: impl Fn(&str) -> bool) -> bool {
        self.pods.get(key).is_some_and(|(_, left)| {
            left.iter()
                .any(|(resource, count)| *count > 0 && fits(resource))
        })
    }

    /// The next pod, oldest binding first, that still wants something that `fits`.
    pub(super) fn next(&mut self, fits: impl Fn(&str) -> bool) -> Option<Arc<Pod>> {
        let (pod, left) = self
            .pods
            .values_mut()
            .filter(|(_, left)| {
                left.iter()
                    .any(|(resource, count)| *count > 0 && fits(resource))
            })
            .min_by(|(a, _), (b, _)| (a.held_since(), a.key()).cmp(&(b.held_since(), b.key())))?;
        let count = left
            .iter_mut()
            .find(|(resource, count)| **count > 0 && fits(resource))?;
        *count.1 -= 1;
        Some(Arc::clone(pod))
    }

    pub(super) fn left(&self, resource: &str) -> u32 {
        self.pods
            .values()
            .map(|(_, left)| left.get(resource).copied().unwrap_or(0))
            .sum()
    }
}
