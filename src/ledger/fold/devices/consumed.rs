//! Devices of a DRA driver that several claims share: each has what it consumes of the device's capacities.
//!
//! Source: Kubernetes' consumable capacity (KEP-5075): `allowMultipleAllocations` of a device, `shareID` and `consumedCapacity` of a
//! claim's result.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::base::{DeviceAmount, Name, ObjectKey};
use model::fleet::claim::CapacityAmount;
use model::fleet::device::{Attribution, Device, Pod};

use super::dra_devices::Handle;
use super::slice_shares;

/// Divides a device among the claims of these pods by the capacity that each consumes; the rest can be allocated. A claim of
/// several pods is one slice, shown with the first pod. Returns the pods whose requests are served.
pub(crate) fn place(
    device: &mut Device,
    published: &[Handle],
    capacities: &[CapacityAmount],
    pods: &[Arc<Pod>],
) -> Vec<ObjectKey> {
    let mut served = Vec::new();
    let mut parts: BTreeMap<&Name, (&Arc<Pod>, Option<DeviceAmount>)> = BTreeMap::new();
    for pod in pods {
        let own = pod.seen.parts.iter();
        for part in own.filter(|part| published.contains(&part.device)) {
            served.push(pod.key().clone());
            let consumed = &part.consumed;
            parts
                .entry(&consumed.share)
                .or_insert_with(|| (pod, consumed.part_of(capacities)));
        }
    }
    let parts = parts.into_iter();
    let parts = parts.map(|(share, (pod, part))| (name(share), pod, part));
    slice_shares::slice_among_pods(device, parts, Attribution::Claim);
    served
}

/// Ids of shares are UUIDs: their first eight characters distinguish those of one device.
fn name(share: &Name) -> Name {
    let short: String = share.chars().take(8).collect();
    Name::from(format!("share-{short}"))
}
