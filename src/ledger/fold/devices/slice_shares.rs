//! The share of its device that each slice has. Costs, device counts and the usage ledger are computed from these shares.
//!
//! The share of a MIG instance is its compute slices divided by those of the GPU (NVIDIA MIG User Guide), so it does not depend on how many
//! other instances are visible. A replica of a time-sliced device has 1 / number of replicas.

use std::sync::Arc;

use model::base::{DeviceAmount, Name};
use model::fleet::device::{Attribution, Device, Pod, Slice};
use model::fleet::seen::is_hami_allocation;

use super::mig::{MigGrid, MigProfile};
use super::offer::Offer;

/// Sets the shares of all slices, except on devices of which a slice has one already. `listed` is false for a node that is known only
/// from its pods: the number of other slices on its devices is then unknown.
pub(crate) fn set_shares(devices: &mut [Device], offer: &Offer, listed: bool) {
    for device in devices
        .iter_mut()
        .filter(|device| !device.slices.is_empty())
    {
        // A driver that makes slices on demand (DRA, HAMi) has reported each; share; where it has not, the share stays unknown.
        if device.makes_slices || device.slices.iter().any(|slice| slice.share.is_some()) {
            continue;
        }
        match mig_units(device, offer) {
            Some((units, all)) => set_shares_by_units(&mut device.slices, &units, all),
            None if listed => set_equal_shares(&mut device.slices),
            None => {}
        }
    }
}

/// Replaces the slices of a device by one per pod, with the given names and sizes; the rest of the device can be allocated. When one size
/// is unknown, all shares are unknown.
pub(crate) fn slice_among_pods<'p>(
    device: &mut Device,
    parts: impl Iterator<Item = (Name, &'p Arc<Pod>, Option<DeviceAmount>)>,
    attribution: Attribution,
) {
    let (slices, units): (Vec<Slice>, Vec<Option<u64>>) = parts
        .map(|(name, pod, part)| {
            let slice = Slice {
                holder: Some(Arc::clone(pod)),
                attribution,
                ..Slice::free(name, &device.resource)
            };
            (slice, part.map(DeviceAmount::millionths))
        })
        .unzip();
    device.slices = slices.into_boxed_slice();
    device.makes_slices = true;
    let units: Option<Vec<u64>> = units.into_iter().collect();
    if let Some(units) = units {
        set_shares_by_units(&mut device.slices, &units, DeviceAmount::ONE.millionths());
    }
}

/// For a node that is known only from its pods: where HAMi or a ResourceClaim gave the pod a part of a device, replaces the whole device by
/// one slice of unknown size, because only the node or its driver reports the size.
pub(crate) fn replace_by_unsized_slice(device: &mut Device) {
    let pod = device.holder.take_if(|pod| {
        let mut all = pod.seen.annotations.iter();
        !pod.seen.parts.is_empty() || all.any(|(key, _)| is_hami_allocation(key))
    });
    if let Some(pod) = pod {
        device.slices = Box::from([Slice {
            holder: Some(pod),
            attribution: std::mem::take(&mut device.attribution),
            ..Slice::free(Name::new("share-0"), &device.resource)
        }]);
    }
}

/// Makes all slices of a device alike.
pub(crate) fn set_equal_shares(slices: &mut [Slice]) {
    let units = vec![1; slices.len()];
    set_shares_by_units(slices, &units, units.len() as u64);
}

/// Sets the share of each slice to its units divided by `all`; where the units add up to more than `all`, divided by their sum.
pub(crate) fn set_shares_by_units(slices: &mut [Slice], units: &[u64], all: u64) {
    let all = all.max(units.iter().sum());
    let mut before = 0;
    for (slice, units) in slices.iter_mut().zip(units) {
        slice.share = Some(DeviceAmount::cut(before, *units, all));
        before += units;
    }
}

/// The MIG compute slices of each instance (divided by its replicas where it is time-sliced) and of the GPU, in a common unit. `None` when a
/// slice is not a MIG instance.
fn mig_units(device: &Device, offer: &Offer) -> Option<(Vec<u64>, u64)> {
    let of_slice = |slice: &Slice| {
        let mut all = offer.slices.iter();
        let offered = all.find(|one| Some(&one.resource) == slice.resource.as_ref());
        let profile = MigProfile::of(&slice.name).or_else(|| Some(offered?.profile.clone()))?;
        Some((profile, offered.map_or(1, |one| one.replicas.max(1))))
    };
    let found: Option<Vec<(MigProfile, u32)>> = device.slices.iter().map(of_slice).collect();
    let found = found?;
    let profiles = found.iter().map(|(profile, _)| profile);
    let grid = offer
        .grid
        .unwrap_or_else(|| MigGrid::of_device(device, profiles));
    let scale = found.iter().fold(1, |scale, (_, replicas)| {
        least_common_multiple(scale, u64::from(*replicas))
    });
    let units = found.iter().map(|(profile, replicas)| {
        u64::from(grid.compute_of(profile)) * scale / u64::from(*replicas)
    });
    Some((units.collect(), u64::from(grid.compute()) * scale))
}

fn least_common_multiple(a: u64, b: u64) -> u64 {
    let (mut x, mut y) = (a, b);
    while y > 0 {
        (x, y) = (y, x % y);
    }
    (a / x.max(1)).saturating_mul(b)
}
