//! Slices of devices: shares of time-sliced ones, and the MIG instances that a node offers, read or not.

use model::base::{Moment, Names};
use model::fleet::device::{Device, Slice};

use super::mig::{MigCapacity, MigGrid, MigProfile, lay_out};
use super::offer::{Offer, Offered};
use super::readings::NodeReadings;

/// More slices than this on one node are a mistake.
const MOST: usize = 4096;

/// Adds the slices that no exporter shows to devices, each with its resource. Of the devices that are
/// offered as a whole, or that pods request as a whole, the first are not sliced.
pub(crate) fn cut(devices: &mut [Device], offer: &Offer, asked_whole: u32, names: &mut Names) {
    if offer.replicas > 1 {
        for device in devices.iter_mut().filter(|device| device.slices.is_empty()) {
            device.slices = shares(offer.replicas, offer, names);
        }
        return;
    }
    if !offer.partitions.is_empty() {
        partition(devices, offer, names);
        return;
    }
    let Some(grid) = &offer.grid else { return };
    let mut left = assign_resources(devices, &offer.slices);
    // Devices without exporter readings first, since a read device has all its slices. Then in the remaining room, and last
    // beyond it: every offered slice is shown on some device.
    let single = offer
        .slices
        .iter()
        .any(|one| one.resource == offer.resource);
    let whole = match single {
        true => 0,
        false => offer.whole.max(asked_whole) as usize,
    };
    let unread: Vec<usize> = (0..devices.len())
        .filter(|at| devices[*at].slices.is_empty())
        .skip(whole)
        .collect();
    lay_in(devices, &unread, grid, &offer.slices, &mut left, names);
    let cut_up: Vec<usize> = (0..devices.len())
        .filter(|at| !devices[*at].slices.is_empty())
        .collect();
    lay_in(devices, &cut_up, grid, &offer.slices, &mut left, names);
    let last = cut_up.last().copied().or(devices.len().checked_sub(1));
    if let Some(device) = last.and_then(|at| devices.get_mut(at)) {
        let beyond = offer.slices.iter().zip(&left);
        let beyond = beyond.flat_map(|(one, (_, left))| (0..*left).map(move |_| one));
        let beyond: Vec<&Offered> = beyond.take(MOST).collect();
        add(device, beyond.into_iter(), names);
    }
    share(devices, &offer.slices, names);
}

/// Divides AMD GPUs into their partitions, those of one mode after those of another.
fn partition(devices: &mut [Device], offer: &Offer, names: &mut Names) {
    let modes = offer.partitions.iter();
    let modes = modes.flat_map(|one| (0..one.devices).map(move |_| one));
    for (device, one) in devices.iter_mut().zip(modes) {
        device.resource = one.resource.clone();
        if one.parts < 2 {
            continue;
        }
        let mut slices = std::mem::take(&mut device.slices).into_vec();
        slices.truncate(one.parts as usize);
        for slice in &mut slices {
            slice.resource = Some(one.resource.clone());
        }
        let missing = slices.len() as u32..one.parts;
        slices.extend(
            missing.map(|part| {
                Slice::free(names.intern(&format!("{}-{part}", one.mode)), &one.resource)
            }),
        );
        device.slices = slices.into_boxed_slice();
    }
}

/// Adds a slice for each pod that an exporter names on a device: on a node that is known from its pods alone nothing says how many
/// shares a device has.
pub(crate) fn cut_by_sharers(
    devices: &mut [Device],
    offer: &Offer,
    readings: &NodeReadings,
    at: Moment,
    names: &mut Names,
) {
    for device in devices.iter_mut().filter(|device| device.slices.is_empty()) {
        let read = readings.devices.get(&device.index);
        let sharers = read.map_or(0, |read| read.sharers(at).count());
        device.slices = shares(sharers as u32, offer, names);
    }
}

/// The free shares of a time-sliced device.
fn shares(count: u32, offer: &Offer, names: &mut Names) -> Box<[Slice]> {
    let share = |at| Slice::free(names.intern(&format!("share-{at}")), &offer.resource);
    (0..count).map(share).collect()
}

/// Sets the resource of each slice that an exporter reports, and counts the remaining offered slices.
fn assign_resources(devices: &mut [Device], offered: &[Offered]) -> Vec<(MigProfile, u32)> {
    let mut left: Vec<(MigProfile, u32)> = offered
        .iter()
        .map(|one| (one.profile.clone(), one.count))
        .collect();
    let mut nameless = Vec::new();
    for slice in devices
        .iter_mut()
        .flat_map(|device| device.slices.iter_mut())
    {
        let Some(profile) = MigProfile::of(&slice.name) else {
            nameless.push(slice);
            continue;
        };
        if let Some(at) = offered.iter().position(|one| one.profile == profile) {
            slice.resource = Some(offered[at].resource.clone());
            left[at].1 = left[at].1.saturating_sub(1);
        }
    }
    // An exporter that gives no profiles shows the same instances.
    for slice in nameless {
        if let Some(at) = left.iter().position(|(_, left)| *left > 0) {
            slice.resource = Some(offered[at].resource.clone());
            left[at].1 -= 1;
        }
    }
    left
}

/// Places the remaining instances on these devices, where they fit.
fn lay_in(
    devices: &mut [Device],
    at: &[usize],
    grid: &MigGrid,
    offered: &[Offered],
    left: &mut [(MigProfile, u32)],
    names: &mut Names,
) {
    let room = |at: &usize| -> MigCapacity {
        let mut room = grid.whole();
        for slice in &devices[*at].slices {
            if let Some(profile) = MigProfile::of(&slice.name) {
                room.take(grid, &profile);
            }
        }
        room
    };
    let mut rooms: Vec<MigCapacity> = at.iter().map(room).collect();
    let placed = lay_out(grid, &mut rooms, left);
    for (at, placed) in at.iter().zip(placed) {
        add(
            &mut devices[*at],
            placed.into_iter().map(|at| &offered[at]),
            names,
        );
    }
}

fn add<'o>(
    device: &mut Device,
    instances: impl ExactSizeIterator<Item = &'o Offered>,
    names: &mut Names,
) {
    if instances.len() == 0 {
        return;
    }
    let mut slices = std::mem::take(&mut device.slices).into_vec();
    let taken = |slices: &[Slice], name: &str| slices.iter().any(|one| one.name.as_str() == name);
    for one in instances {
        let profile = one.profile.name();
        let name = (slices.len()..)
            .map(|at| format!("{profile}-{at}"))
            .find(|name| !taken(&slices, name))
            .unwrap_or(profile);
        slices.push(Slice::free(names.intern(&name), &one.resource));
    }
    device.slices = slices.into_boxed_slice();
}

/// Makes the shares of instances that are time-sliced: the first keeps the instance's name and readings.
fn share(devices: &mut [Device], offered: &[Offered], names: &mut Names) {
    if offered.iter().all(|one| one.replicas <= 1) {
        return;
    }
    for device in devices {
        let mut out = Vec::new();
        for slice in std::mem::take(&mut device.slices) {
            let of = offered
                .iter()
                .find(|one| Some(&one.resource) == slice.resource.as_ref());
            let more = of.map_or(1, |one| one.replicas.min(256));
            let (name, resource) = (slice.name.clone(), slice.resource.clone());
            out.push(slice);
            if let Some(resource) = resource {
                let further = (1..more).map(|share| {
                    Slice::free(names.intern(&format!("{name}-share-{share}")), &resource)
                });
                out.extend(further);
            }
        }
        device.slices = out.into_boxed_slice();
    }
}
