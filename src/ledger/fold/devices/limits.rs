//! Limits on the devices and slices of one node. Anything above is ignored and named: a number in one object must not decide how
//! much memory we take.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::base::Name;
use model::fleet::seen::NodeSeen;

use super::mig::mig_profile;

/// Devices or slices of one node. The largest nodes have 64 devices, and sharing divides them into hundreds of slices.
pub(crate) const MOST: u32 = 1024;

/// Claims that are ignored: the resource, label or driver that makes it, and the number.
pub(crate) type Ignored = BTreeMap<Name, u32>;

/// The node without the resources of which it reports more than [`MOST`].
pub(crate) fn bounded(seen: Arc<NodeSeen>, ignored: &mut Ignored) -> Arc<NodeSeen> {
    let lists = [&seen.capacity, &seen.allocatable];
    let before = ignored.len();
    for list in lists {
        for (resource, count) in &list.devices {
            if *count > MOST {
                claim(ignored, resource, *count);
            }
        }
        let slices = || {
            let mut all = list.devices.iter();
            all.by_ref()
                .filter(|(resource, count)| mig_profile(resource).is_some() && *count <= MOST)
                .cloned()
                .collect::<Vec<_>>()
        };
        let together: u64 = slices().iter().map(|(_, count)| u64::from(*count)).sum();
        if together > u64::from(MOST) {
            for (resource, count) in slices() {
                claim(ignored, &resource, count);
            }
        }
    }
    if ignored.len() == before {
        return seen;
    }
    let mut out = (*seen).clone();
    for list in [&mut out.capacity, &mut out.allocatable] {
        let kept = list.devices.iter();
        list.devices = kept
            .filter(|(resource, _)| !ignored.contains_key(resource))
            .cloned()
            .collect();
    }
    Arc::new(out)
}

/// Notes a claim that is ignored.
pub(crate) fn claim(ignored: &mut Ignored, what: &Name, count: u32) {
    let most = ignored.entry(what.clone()).or_default();
    *most = count.max(*most);
}
