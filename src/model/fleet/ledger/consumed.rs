//! Devices of a DRA driver of which several claims have a part each: what a claim consumes of the capacities of its device.
//!
//! Source: Kubernetes' consumable capacity (KEP-5075): `allowMultipleAllocations` of a device, `shareID` and `consumedCapacity` of a
//! claim's result.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::base::{DeviceAmount, Name, ObjectKey};
use crate::fleet::claim::CapacityAmount;
use crate::fleet::device::{Attribution, Device, Pod, Slice};

use super::dra_devices::Handle;
use super::weights;

/// Divides a device into what the claims of these pods consume of it; the rest can be allocated. A claim that several pods use is one
/// part, shown with the first of them. Returns the pods whose requests are served.
pub(super) fn place(
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
    device.makes_slices = true;
    let slices = parts.iter().map(|(share, (pod, _))| Slice {
        holder: Some(Arc::clone(pod)),
        attribution: Attribution::Claim,
        ..Slice::free(name(share), &device.resource)
    });
    device.slices = slices.collect();
    let units: Option<Vec<u64>> = parts
        .values()
        .map(|(_, part)| part.map(DeviceAmount::millionths))
        .collect();
    if let Some(units) = units {
        weights::cut(&mut device.slices, &units, DeviceAmount::ONE.millionths());
    }
    served
}

/// Ids of shares are UUIDs: their first eight characters tell those of one device apart.
fn name(share: &Name) -> Name {
    let short: String = share.chars().take(8).collect();
    Name::from(format!("share-{short}"))
}
