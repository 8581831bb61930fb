//! The part of its device that each slice is. Money, counts of devices and the usage ledger all follow from it.
//!
//! A MIG instance is its compute slices of those that the GPU has (NVIDIA's MIG user guide): the same for everybody who sees it, however
//! many others they see. A share of a time-sliced device is one of its replicas.

use std::sync::Arc;

use model::base::{DeviceAmount, Name};
use model::fleet::device::{Attribution, Device, Pod, Slice};
use model::fleet::seen::is_hami_allocation;

use super::mig::{MigGrid, MigProfile};
use super::offer::Offer;

/// Sets the share of each slice that has none yet. `listed` is false for a node that is known from its pods alone: how many other slices
/// its devices have is not known there.
pub(crate) fn weigh(devices: &mut [Device], offer: &Offer, listed: bool) {
    for device in devices
        .iter_mut()
        .filter(|device| !device.slices.is_empty())
    {
        // A driver that makes slices on demand has stated the size of each; otherwise it is unknown.
        if device.makes_slices || device.slices.iter().any(|slice| slice.share.is_some()) {
            continue;
        }
        match instances(device, offer) {
            Some((units, all)) => cut(&mut device.slices, &units, all),
            None if listed => even(&mut device.slices),
            None => {}
        }
    }
}

/// Divides a device among pods, each with its part and the slice's name; the rest can be allocated. One part of unknown size
/// makes every part unknown.
pub(crate) fn divide<'p>(
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
        cut(&mut device.slices, &units, DeviceAmount::ONE.millionths());
    }
}

/// Makes the device of a node that is known from its pods alone a share, where HAMi or a claim gave its pod one: only the node or its
/// driver says how large it is.
pub(crate) fn share_of_unlisted(device: &mut Device) {
    let given = device.holder.take_if(|pod| {
        let mut all = pod.seen.annotations.iter();
        !pod.seen.parts.is_empty() || all.any(|(key, _)| is_hami_allocation(key))
    });
    if let Some(pod) = given {
        device.slices = Box::from([Slice {
            holder: Some(pod),
            attribution: std::mem::take(&mut device.attribution),
            ..Slice::free(Name::new("share-0"), &device.resource)
        }]);
    }
}

/// Makes all slices of a device alike.
pub(crate) fn even(slices: &mut [Slice]) {
    let units = vec![1; slices.len()];
    cut(slices, &units, units.len() as u64);
}

/// Gives each slice its units of `all`, or of their sum where that is more.
pub(crate) fn cut(slices: &mut [Slice], units: &[u64], all: u64) {
    let all = all.max(units.iter().sum());
    let mut before = 0;
    for (slice, units) in slices.iter_mut().zip(units) {
        slice.share = Some(DeviceAmount::cut(before, *units, all));
        before += units;
    }
}

/// Compute slices of each MIG instance, or of its part where it is time-sliced, and those of the GPU, in one unit; `None` where a
/// slice is no MIG instance.
fn instances(device: &Device, offer: &Offer) -> Option<(Vec<u64>, u64)> {
    let of_slice = |slice: &Slice| {
        let mut all = offer.slices.iter();
        let offered = all.find(|one| Some(&one.resource) == slice.resource.as_ref());
        let profile = MigProfile::of(&slice.name).or_else(|| Some(offered?.profile.clone()))?;
        Some((profile, offered.map_or(1, |one| one.shares.max(1))))
    };
    let found: Option<Vec<(MigProfile, u32)>> = device.slices.iter().map(of_slice).collect();
    let found = found?;
    let profiles = found.iter().map(|(profile, _)| profile);
    let grid = offer
        .grid
        .unwrap_or_else(|| MigGrid::of_device(device, profiles));
    let scale = found.iter().fold(1, |scale, (_, shares)| {
        least_common_multiple(scale, u64::from(*shares))
    });
    let units = found
        .iter()
        .map(|(profile, shares)| u64::from(grid.compute_of(profile)) * scale / u64::from(*shares));
    Some((units.collect(), u64::from(grid.compute()) * scale))
}

fn least_common_multiple(a: u64, b: u64) -> u64 {
    let (mut x, mut y) = (a, b);
    while y > 0 {
        (x, y) = (y, x % y);
    }
    (a / x.max(1)).saturating_mul(b)
}
