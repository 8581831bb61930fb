//! Unserved requests of a node's pods, by resource.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::base::ObjectKey;
use model::fleet::device::Pod;

/// Unserved requests of each pod, by resource.
pub(crate) struct PodRequests<'a> {
    pods: BTreeMap<&'a ObjectKey, (&'a Arc<Pod>, BTreeMap<&'a str, u32>)>,
}

impl<'a> PodRequests<'a> {
    /// The requests of these pods, without those in `served`, whose claims are allocated already.
    pub(crate) fn of(pods: &'a [Arc<Pod>], served: &BTreeSet<ObjectKey>) -> Self {
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

    /// Takes one device or slice of a resource that `fits` for the pod of this key, if it is in the list. A pod that is named
    /// for more than it requests is accepted: the exporter sees the process.
    pub(crate) fn take(
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

    /// True while the pod of this key has an unserved request that `fits`.
    pub(crate) fn has_unserved(&self, key: &ObjectKey, fits: impl Fn(&str) -> bool) -> bool {
        self.pods.get(key).is_some_and(|(_, left)| {
            left.iter()
                .any(|(resource, count)| *count > 0 && fits(resource))
        })
    }

    /// The next pod, oldest binding first, with an unserved request that `fits`.
    pub(crate) fn next(&mut self, fits: impl Fn(&str) -> bool) -> Option<Arc<Pod>> {
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

    pub(crate) fn left(&self, resource: &str) -> u32 {
        self.pods
            .values()
            .map(|(_, left)| left.get(resource).copied().unwrap_or(0))
            .sum()
    }
}
