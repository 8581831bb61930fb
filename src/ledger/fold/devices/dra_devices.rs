//! DRA devices from ResourceSlices: whole devices with their partitions, each matched with its readings.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::base::{DeviceAmount, Name, ObjectKey};
use model::fleet::claim::{CapacityAmount, CounterAmount, Published, SliceSeen};
use model::fleet::device::{Attribution, Device, Health, Pod, Slice};
use model::fleet::object_parts::Taint;
use model::fleet::seen::{Claimed, NodeSeen};
use model::fleet::signal::{Signal, Signals};

use super::consumed;
use super::limits::{self, Ignored, MOST};
use super::mig::{MigGrid, MigProfile};
use super::readings::{DeviceReadings, NodeReadings};
use super::slice_shares;

/// One published device and its slice.
pub(crate) struct PublishedDevice<'s> {
    pub(crate) slice: &'s SliceSeen,
    pub(crate) published: &'s Published,
    /// True when all slices of its pool are listed.
    pub(crate) complete: bool,
}

/// What counter sets have in all, by driver, pool, set and counter; in thousandths.
pub(crate) type CounterTotals<'s> = BTreeMap<(&'s Name, &'s Name, &'s Name, &'s Name), i64>;

impl PublishedDevice<'_> {
    /// The largest part that it takes of a counter which it shares with other entries; `None` where no total is published.
    fn drawn(&self, totals: &CounterTotals<'_>) -> Option<DeviceAmount> {
        let (driver, pool) = (&self.slice.driver, &self.slice.pool);
        let of = |one: &CounterAmount| {
            let total = totals.get(&(driver, pool, &one.set, &one.counter))?;
            let (part, all) = (u64::try_from(one.milli).ok()?, u64::try_from(*total).ok()?);
            Some(DeviceAmount::cut(0, part, all))
        };
        let draws = self.published.draws.iter();
        draws.filter_map(of).max()
    }

    /// True for a partition: its driver says so, or it takes only a part of each counter, `drawn` of the one that it takes most of.
    fn is_part(&self, drawn: Option<DeviceAmount>) -> bool {
        self.published.part || drawn.is_some_and(|part| part < DeviceAmount::ONE)
    }
}

/// Driver, pool and name of a published device.
pub(crate) type Handle = (Name, Name, Name);

pub(crate) struct DevicePartition {
    handle: Handle,
    /// Profile of the partition.
    profile: Name,
    /// Created on allocation, from shared counters: it does not exist before.
    made_on_demand: bool,
    /// Capacity that it draws from the counters of its device.
    drawn: Option<DeviceAmount>,
}

pub(crate) struct DraDevice {
    /// The resource that requests the device.
    pub(crate) resource: Name,
    /// The resource that requests a partition.
    part_resource: Name,
    /// The published entries for the whole device; several where it can be allocated in several ways.
    wholes: Vec<Handle>,
    /// Its capacities, where several claims may share it.
    shared: Option<Box<[CapacityAmount]>>,
    parts: Vec<DevicePartition>,
    index: Option<u32>,
    uuid: Option<Name>,
    pci: Option<Name>,
    pub(crate) product: Option<Name>,
    memory: Option<i64>,
    version: Option<Name>,
    taints: Vec<Taint>,
    complete: bool,
}

/// The devices of a node as its drivers publish them.
#[derive(Default)]
pub(crate) struct DraDevices {
    pub(crate) list: Vec<DraDevice>,
    /// True when the ResourceSlices are not visible.
    pub(crate) refused: bool,
    /// Ignored devices of drivers that publish more than a node may have.
    pub(crate) ignored: Ignored,
}

/// An identifier that ties published entries to one physical device.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Tie<'s> {
    Uuid(&'s str),
    Counters(&'s Name, &'s Name, &'s Name),
    Pci(String),
    Index(&'s Name, &'s Name, u32),
}

fn ties<'s>(source: &PublishedDevice<'s>, is_part: bool) -> Vec<Tie<'s>> {
    let (slice, one) = (source.slice, source.published);
    let mut out = Vec::new();
    let uuid = if is_part { &one.parent } else { &one.uuid };
    out.extend(uuid.as_deref().map(Tie::Uuid));
    out.extend(one.pci.as_deref().map(|pci| Tie::Pci(plain_pci(pci))));
    // Without an identifier of its own, use its shared counters or its position.
    if out.is_empty() || is_part {
        out.extend(
            one.counters
                .iter()
                .map(|set| Tie::Counters(&slice.driver, &slice.pool, set)),
        );
    }
    if out.is_empty() || is_part {
        out.extend(
            one.index
                .map(|index| Tie::Index(&slice.driver, &slice.pool, index)),
        );
    }
    out
}

/// Further identifiers that later partitions may match.
fn further<'s>(source: &PublishedDevice<'s>) -> Vec<Tie<'s>> {
    let (slice, one) = (source.slice, source.published);
    let sets = one
        .counters
        .iter()
        .map(|set| Tie::Counters(&slice.driver, &slice.pool, set));
    let index = one
        .index
        .map(|index| Tie::Index(&slice.driver, &slice.pool, index));
    sets.chain(index).collect()
}

/// A PCI address without the leading zeros that some write before its domain.
fn plain_pci(address: &str) -> String {
    let lower = address.to_ascii_lowercase();
    let plain = lower.trim_start_matches('0');
    plain.trim_start_matches(':').to_owned()
}

/// The physical devices among the published entries, in index order.
pub(crate) fn physical_devices(
    sources: &[PublishedDevice<'_>],
    totals: &CounterTotals<'_>,
    resource: impl Fn(&Name, bool) -> Name,
) -> Vec<DraDevice> {
    let mut order: Vec<(&PublishedDevice<'_>, Option<DeviceAmount>)> = sources
        .iter()
        .map(|source| (source, source.drawn(totals)))
        .collect();
    // Whole devices first: partitions look up their parents.
    order.sort_by_cached_key(|(source, drawn)| {
        let one = source.published;
        (
            source.is_part(*drawn),
            one.index.unwrap_or(u32::MAX),
            one.pci.clone(),
            one.name.clone(),
            source.slice.pool.clone(),
        )
    });
    let mut list: Vec<DraDevice> = Vec::new();
    let mut known: BTreeMap<Tie<'_>, usize> = BTreeMap::new();
    for (source, drawn) in order {
        let (slice, one) = (source.slice, source.published);
        let is_part = source.is_part(drawn);
        let own = ties(source, is_part);
        let found = own.iter().find_map(|tie| known.get(tie).copied());
        let at = found.unwrap_or_else(|| {
            list.push(DraDevice {
                resource: resource(&slice.driver, false),
                part_resource: resource(&slice.driver, true),
                wholes: Vec::new(),
                shared: None,
                parts: Vec::new(),
                index: one.index,
                uuid: if is_part {
                    one.parent.clone()
                } else {
                    one.uuid.clone()
                },
                pci: one.pci.clone(),
                product: None,
                memory: None,
                version: None,
                taints: Vec::new(),
                complete: true,
            });
            list.len() - 1
        });
        for tie in own.into_iter().chain(further(source)) {
            known.entry(tie).or_insert(at);
        }
        let chip = &mut list[at];
        let handle = (slice.driver.clone(), slice.pool.clone(), one.name.clone());
        if chip.product.is_none() {
            chip.product.clone_from(&one.product);
        }
        if chip.version.is_none() {
            chip.version.clone_from(&one.version);
        }
        chip.complete &= source.complete;
        if is_part {
            chip.parts.push(DevicePartition {
                handle,
                profile: one.profile.clone().unwrap_or_else(|| one.name.clone()),
                made_on_demand: !one.counters.is_empty(),
                drawn,
            });
        } else {
            chip.memory = chip.memory.or(one.memory);
            chip.shared = chip.shared.take().or_else(|| one.shared.clone());
            chip.taints.extend(one.taints.iter().cloned());
            chip.wholes.push(handle);
        }
    }
    list
}

impl DraDevice {
    /// False for an incomplete pool and for a device with a taint that keeps pods away.
    fn is_usable(&self) -> bool {
        self.complete && self.taint().is_none()
    }

    /// The most severe taint that keeps pods away.
    fn taint(&self) -> Option<&Taint> {
        let of = |effect: &str| {
            self.taints
                .iter()
                .find(|taint| taint.effect.as_str() == effect)
        };
        of("NoExecute").or_else(|| of("NoSchedule"))
    }

    /// Statically partitioned: only its partitions are published.
    fn is_cut(&self) -> bool {
        self.wholes.is_empty() && !self.parts.is_empty()
    }

    fn offers(&self) -> (&Name, u32) {
        let ready = self
            .parts
            .iter()
            .filter(|part| !part.made_on_demand)
            .count();
        match self.is_cut() && ready > 0 {
            true => (
                &self.part_resource,
                u32::try_from(ready).unwrap_or(u32::MAX),
            ),
            false => (&self.resource, 1),
        }
    }

    /// True when these readings are of this device, by its own id.
    fn is(&self, read: &DeviceReadings) -> bool {
        let uuid = self.uuid.is_some() && self.uuid == read.uuid;
        let pci = self.pci.as_deref().zip(read.pci.as_deref());
        uuid || pci.is_some_and(|(own, read)| plain_pci(own) == plain_pci(read))
    }

    /// True when these readings may be of this device: no id contradicts.
    fn may_be(&self, read: Option<&DeviceReadings>) -> bool {
        let Some(read) = read else { return true };
        let differ = |own: Option<String>, read: Option<String>| {
            own.zip(read).is_some_and(|(own, read)| own != read)
        };
        let text = |name: &Option<Name>| name.as_deref().map(str::to_owned);
        let pci = |name: &Option<Name>| name.as_deref().map(plain_pci);
        !differ(text(&self.uuid), text(&read.uuid)) && !differ(pci(&self.pci), pci(&read.pci))
    }

    /// Fills in a device from what its driver publishes.
    pub(crate) fn complete(&self, device: &mut Device) {
        device.uuid = device.uuid.take().or_else(|| self.uuid.clone());
        device.pci = device.pci.take().or_else(|| self.pci.clone());
        if let Some(memory) = self.memory {
            let published: Signals = [(Signal::MemTotal, memory as f64)].into_iter().collect();
            device.signals = device.signals.or(&published);
        }
        if let Some(taint) = self.taint()
            && !device.health.is_fault()
        {
            let words = match taint.value.is_empty() {
                true => format!("its driver has tainted it: {}", taint.key),
                false => format!("its driver has tainted it: {}={}", taint.key, taint.value),
            };
            device.health = match taint.effect.as_str() {
                "NoExecute" => Health::Fault(Name::from(words)),
                _ => Health::Warn(Name::from(words)),
            };
        }
    }

    /// Adds the existing partitions to the device: the static ones, and those in use.
    fn cut(&self, device: &mut Device, held: &BTreeSet<&Handle>) -> Vec<(usize, usize)> {
        let there = |part: &DevicePartition| !part.made_on_demand || held.contains(&part.handle);
        let mut slices = std::mem::take(&mut device.slices).into_vec();
        let mut taken: BTreeSet<usize> = BTreeSet::new();
        let mut places = Vec::new();
        for (at, part) in self
            .parts
            .iter()
            .enumerate()
            .filter(|(_, part)| there(part))
        {
            // Exporters name instances differently: take the next one with the same profile.
            let fits = |slice: &Slice| {
                let rest = slice.name.strip_prefix(part.profile.as_str());
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
            };
            let read = (0..slices.len()).find(|at| !taken.contains(at) && fits(&slices[*at]));
            let place = read.unwrap_or_else(|| {
                slices.push(Slice::free(part.handle.2.clone(), &self.part_resource));
                slices.len() - 1
            });
            slices[place].resource = Some(self.part_resource.clone());
            taken.insert(place);
            places.push((at, place));
        }
        device.slices = slices.into_boxed_slice();
        self.weigh(device, &places);
        places
    }

    /// Sets the part of the device that each partition is: by its MIG profile, else by the counters that it takes. Static partitions of
    /// a device of which all are listed are alike without either.
    fn weigh(&self, device: &mut Device, places: &[(usize, usize)]) {
        device.makes_slices = self.parts.iter().any(|part| part.made_on_demand);
        if places.len() != device.slices.len() {
            // An exporter shows more of them.
            return;
        }
        let mut in_order = places.to_vec();
        in_order.sort_unstable_by_key(|(_, place)| *place);
        let parts = || in_order.iter().map(|(at, _)| &self.parts[*at]);
        let profiles: Option<Vec<MigProfile>> =
            parts().map(|part| MigProfile::of(&part.profile)).collect();
        let drawn: Option<Vec<DeviceAmount>> = parts().map(|part| part.drawn).collect();
        if let Some(profiles) = profiles {
            let grid = MigGrid::of_device(device, profiles.iter());
            let units = profiles.iter();
            let units: Vec<u64> = units
                .map(|profile| u64::from(grid.compute_of(profile)))
                .collect();
            slice_shares::set_shares_by_units(&mut device.slices, &units, grid.compute().into());
        } else if let Some(drawn) = drawn {
            let units: Vec<u64> = drawn.into_iter().map(DeviceAmount::millionths).collect();
            slice_shares::set_shares_by_units(
                &mut device.slices,
                &units,
                DeviceAmount::ONE.millionths(),
            );
        } else if self.complete && !device.makes_slices {
            slice_shares::set_equal_shares(&mut device.slices);
        }
    }
}

impl DraDevices {
    /// These devices, without those of drivers that publish more for one node than it can have.
    pub(crate) fn new(mut list: Vec<DraDevice>, refused: bool) -> Self {
        let mut counts: BTreeMap<Name, usize> = BTreeMap::new();
        for chip in &list {
            *counts.entry(chip.resource.clone()).or_default() += 1;
            *counts.entry(chip.part_resource.clone()).or_default() += chip.parts.len();
        }
        let mut ignored = Ignored::new();
        for (resource, count) in counts {
            if count > MOST as usize {
                let count = u32::try_from(count).unwrap_or(u32::MAX);
                limits::claim(&mut ignored, &resource, count);
            }
        }
        if !ignored.is_empty() {
            list.retain(|chip| {
                !ignored.contains_key(&chip.resource) && !ignored.contains_key(&chip.part_resource)
            });
        }
        Self {
            list,
            refused,
            ignored,
        }
    }

    /// The resources of the devices and of their parts, that of the first device first.
    pub(crate) fn resources(&self) -> Vec<Name> {
        let mut out: Vec<Name> = Vec::new();
        for resource in self
            .list
            .iter()
            .flat_map(|chip| [&chip.resource, &chip.part_resource])
        {
            if !out.contains(resource) {
                out.push(resource.clone());
            }
        }
        out
    }

    /// The node with the published devices added to its capacity.
    pub(crate) fn added_to(&self, seen: Arc<NodeSeen>) -> Arc<NodeSeen> {
        if self.list.is_empty() {
            return seen;
        }
        let mut counts: BTreeMap<&Name, (u32, u32)> = BTreeMap::new();
        for chip in &self.list {
            let (resource, count) = chip.offers();
            let sum = counts.entry(resource).or_default();
            sum.0 += count;
            sum.1 += if chip.is_usable() { count } else { 0 };
        }
        let mut out = (*seen).clone();
        for (resource, (all, usable)) in counts {
            for (list, count) in [(&mut out.capacity, all), (&mut out.allocatable, usable)] {
                let mut devices: BTreeMap<Name, u32> = list.devices.iter().cloned().collect();
                let known = devices.entry(resource.clone()).or_default();
                *known = count.max(*known);
                list.devices = devices.into_iter().collect();
            }
        }
        Arc::new(out)
    }

    /// The driver's version, where it publishes it.
    pub(crate) fn version(&self) -> Option<Name> {
        self.list.iter().find_map(|chip| chip.version.clone())
    }

    /// The index of each device, with its published entry: the index that an exporter gives to the same id, else its own, else
    /// the next free one. Devices that only an exporter reports are included.
    pub(crate) fn indices(&self, readings: &NodeReadings) -> BTreeMap<u32, Option<usize>> {
        let mut out: BTreeMap<u32, Option<usize>> = BTreeMap::new();
        let mut left: Vec<usize> = Vec::new();
        for (at, chip) in self.list.iter().enumerate() {
            let same = readings
                .devices
                .iter()
                .find(|(slot, read)| !out.contains_key(slot) && chip.is(read));
            match same {
                Some((slot, _)) => {
                    out.insert(*slot, Some(at));
                }
                None => left.push(at),
            }
        }
        let mut unmatched_pages = Vec::new();
        for at in left {
            let chip = &self.list[at];
            let own = chip.index.filter(|index| {
                *index < MOST
                    && !out.contains_key(index)
                    && chip.may_be(readings.devices.get(index))
            });
            match own {
                Some(index) => {
                    out.insert(index, Some(at));
                }
                None => unmatched_pages.push(at),
            }
        }
        for at in unmatched_pages {
            let chip = &self.list[at];
            let free = (0..)
                .find(|index| !out.contains_key(index) && chip.may_be(readings.devices.get(index)));
            if let Some(index) = free {
                out.insert(index, Some(at));
            }
        }
        for slot in readings.devices.keys() {
            out.entry(*slot).or_insert(None);
        }
        out
    }

    /// Assigns devices and partitions to the pods of their claims; returns the pods whose requests are served.
    pub(crate) fn place(
        &self,
        devices: &mut [Device],
        at: &BTreeMap<u32, Option<usize>>,
        pods: &[Arc<Pod>],
    ) -> BTreeSet<ObjectKey> {
        let mut holders: BTreeMap<Handle, Vec<&Arc<Pod>>> = BTreeMap::new();
        for pod in pods {
            for claimed in &pod.seen.claimed {
                if let Claimed::Claim(driver, pool, device) = claimed {
                    let handle = (driver.clone(), pool.clone(), device.clone());
                    holders.entry(handle).or_default().push(pod);
                }
            }
        }
        let held: BTreeSet<&Handle> = holders.keys().collect();
        let mut served: BTreeSet<ObjectKey> = BTreeSet::new();
        for device in devices.iter_mut() {
            let Some(chip) = at
                .get(&device.index)
                .copied()
                .flatten()
                .map(|at| &self.list[at])
            else {
                continue;
            };
            for (part, place) in chip.cut(device, &held) {
                // A partition is shown with one holder, however many share it.
                if let Some(pods) = holders.get(&chip.parts[part].handle)
                    && let Some(first) = pods.first()
                {
                    device.slices[place].holder = Some(Arc::clone(first));
                    device.slices[place].attribution = Attribution::Claim;
                    served.extend(pods.iter().map(|pod| pod.key().clone()));
                }
            }
            if let Some(capacities) = &chip.shared {
                served.extend(consumed::place(device, &chip.wholes, capacities, pods));
                continue;
            }
            let pods: Vec<&Arc<Pod>> = chip
                .wholes
                .iter()
                .filter_map(|whole| holders.get(whole))
                .flatten()
                .copied()
                .collect();
            served.extend(pods.iter().map(|pod| pod.key().clone()));
            match pods.as_slice() {
                [] => {}
                [only] => {
                    device.holder = Some(Arc::clone(only));
                    device.attribution = Attribution::Claim;
                }
                // Several pods share one claim: each has a share, the device counts once.
                many => {
                    device.slices = many
                        .iter()
                        .enumerate()
                        .map(|(share, pod)| Slice {
                            holder: Some(Arc::clone(pod)),
                            attribution: Attribution::Claim,
                            ..Slice::free(Name::from(format!("share-{share}")), &chip.resource)
                        })
                        .collect();
                }
            }
        }
        served
    }
}
