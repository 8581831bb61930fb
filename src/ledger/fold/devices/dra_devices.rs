//! DRA devices from ResourceSlices: physical devices with their partitions, matched with readings, allocated by ResourceClaims.

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

/// One device entry of a ResourceSlice, with that slice.
pub(crate) struct PublishedDevice<'s> {
    pub(crate) slice: &'s SliceSeen,
    pub(crate) published: &'s Published,
    /// True when all slices of its pool are listed.
    pub(crate) complete: bool,
}

/// Total of each shared counter, thousandths of its unit, by driver, pool, counter set and counter.
pub(crate) type CounterTotals<'s> = BTreeMap<(&'s Name, &'s Name, &'s Name, &'s Name), i64>;

impl PublishedDevice<'_> {
    /// The largest share, 0 to 1, that it consumes of any of its shared counters; `None` where no total is published.
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

    /// True for a partition: its driver publishes it as one, or its largest share of a counter, `drawn`, is below 1.
    fn is_part(&self, drawn: Option<DeviceAmount>) -> bool {
        self.published.part || drawn.is_some_and(|part| part < DeviceAmount::ONE)
    }
}

/// Driver, pool and name of a published device.
pub(crate) type Handle = (Name, Name, Name);

/// A published partition of a device.
pub(crate) struct DevicePartition {
    handle: Handle,
    /// Its profile, `1g.10gb`; its name in the pool where the driver publishes no profile.
    profile: Name,
    /// True for one that its driver creates on allocation, from shared counters.
    made_on_demand: bool,
    /// The largest share that it consumes of a counter of its device, 0 to 1.
    drawn: Option<DeviceAmount>,
}

/// A physical device: all the entries that its driver publishes for it.
pub(crate) struct DraDevice {
    /// The resource that requests the device.
    pub(crate) resource: Name,
    /// The resource that requests a partition.
    part_resource: Name,
    /// The published entries for the whole device; several where it can be allocated in several ways.
    wholes: Vec<Handle>,
    /// Its capacities, where several claims may share it (`allowMultipleAllocations`).
    shared: Option<Box<[CapacityAmount]>>,
    parts: Vec<DevicePartition>,
    index: Option<u32>,
    uuid: Option<Name>,
    pci: Option<Name>,
    pub(crate) product: Option<Name>,
    /// Memory of the device, bytes.
    memory: Option<i64>,
    /// Version of the driver.
    version: Option<Name>,
    /// Those of the entries for the whole device.
    taints: Vec<Taint>,
    /// True when all slices of its pools are listed.
    complete: bool,
}

/// The devices of a node as its drivers publish them.
#[derive(Default)]
pub(crate) struct DraDevices {
    pub(crate) list: Vec<DraDevice>,
    /// True when the API server refuses to list ResourceSlices.
    pub(crate) refused: bool,
    /// Resources that are ignored because one node has too many of them, with the number.
    pub(crate) ignored: Ignored,
}

/// An identifier that entries of one physical device have in common.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Tie<'s> {
    Uuid(&'s str),
    Counters(&'s Name, &'s Name, &'s Name),
    Pci(String),
    Index(&'s Name, &'s Name, u32),
}

/// The identifiers by which an entry is matched with a device.
fn ties<'s>(source: &PublishedDevice<'s>, is_part: bool) -> Vec<Tie<'s>> {
    let (slice, one) = (source.slice, source.published);
    let mut out = Vec::new();
    let uuid = if is_part { &one.parent } else { &one.uuid };
    out.extend(uuid.as_deref().map(Tie::Uuid));
    out.extend(one.pci.as_deref().map(|pci| Tie::Pci(plain_pci(pci))));
    // A partition always adds its counters and its index. A whole device adds its counters only without UUID and PCI address, and
    // its index only if it has no counters either.
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

/// Identifiers that are registered for later partitions: all counter sets, and the index.
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

/// A PCI address in one form, whatever the width of its domain: lower case, without leading zeros of the domain, and without a domain 0.
fn plain_pci(address: &str) -> String {
    let lower = address.to_ascii_lowercase();
    match lower.split_once(':') {
        Some((domain, rest)) if rest.contains(':') => match domain.trim_start_matches('0') {
            "" => rest.to_owned(),
            domain => format!("{domain}:{rest}"),
        },
        _ => lower,
    }
}

/// The physical devices among the published entries: first those with an entry for the whole device, then those with partitions
/// alone, each by index, PCI address and name. `resource` returns the resource of a driver's partitions (true) or devices.
pub(crate) fn physical_devices(
    sources: &[PublishedDevice<'_>],
    totals: &CounterTotals<'_>,
    resource: impl Fn(&Name, bool) -> Name,
) -> Vec<DraDevice> {
    let mut order: Vec<(&PublishedDevice<'_>, Option<DeviceAmount>)> = sources
        .iter()
        .map(|source| (source, source.drawn(totals)))
        .collect();
    // Whole devices come first, because partitions look up their parents.
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
        let device = &mut list[at];
        let handle = (slice.driver.clone(), slice.pool.clone(), one.name.clone());
        if device.product.is_none() {
            device.product.clone_from(&one.product);
        }
        if device.version.is_none() {
            device.version.clone_from(&one.version);
        }
        device.complete &= source.complete;
        if is_part {
            device.parts.push(DevicePartition {
                handle,
                profile: one.profile.clone().unwrap_or_else(|| one.name.clone()),
                made_on_demand: !one.counters.is_empty(),
                drawn,
            });
        } else {
            device.memory = device.memory.or(one.memory);
            device.shared = device.shared.take().or_else(|| one.shared.clone());
            device.taints.extend(one.taints.iter().cloned());
            device.wholes.push(handle);
        }
    }
    list
}

impl DraDevice {
    /// False for a device of an incomplete pool, or with a taint `NoSchedule` or `NoExecute`.
    fn is_usable(&self) -> bool {
        self.complete && self.taint().is_none()
    }

    /// Its first taint `NoExecute`, else its first taint `NoSchedule`.
    fn taint(&self) -> Option<&Taint> {
        let of = |effect: &str| {
            self.taints
                .iter()
                .find(|taint| taint.effect.as_str() == effect)
        };
        of("NoExecute").or_else(|| of("NoSchedule"))
    }

    /// True when only its partitions are published.
    fn is_cut(&self) -> bool {
        self.wholes.is_empty() && !self.parts.is_empty()
    }

    /// The resource that it adds to its node, and how many: static partitions where only partitions are published, else itself.
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

    /// True when these readings are of this device, by UUID or PCI address.
    fn is(&self, read: &DeviceReadings) -> bool {
        let uuid = self.uuid.is_some() && self.uuid == read.uuid;
        let pci = self.pci.as_deref().zip(read.pci.as_deref());
        uuid || pci.is_some_and(|(own, read)| plain_pci(own) == plain_pci(read))
    }

    /// True when these readings may be of this device: neither UUID nor PCI address differs.
    fn may_be(&self, read: Option<&DeviceReadings>) -> bool {
        let Some(read) = read else { return true };
        let differ = |own: Option<String>, read: Option<String>| {
            own.zip(read).is_some_and(|(own, read)| own != read)
        };
        let text = |name: &Option<Name>| name.as_deref().map(str::to_owned);
        let pci = |name: &Option<Name>| name.as_deref().map(plain_pci);
        !differ(text(&self.uuid), text(&read.uuid)) && !differ(pci(&self.pci), pci(&read.pci))
    }

    /// Fills in what the readings of a device lack: ids, memory, and a health from its taint.
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

    /// Adds the existing partitions to the device: the static ones, and those in `allocated`. Returns the position of each in
    /// `self.parts` and in `device.slices`.
    fn cut(&self, device: &mut Device, allocated: &BTreeSet<&Handle>) -> Vec<(usize, usize)> {
        let exists = |it: &DevicePartition| !it.made_on_demand || allocated.contains(&it.handle);
        let mut slices = std::mem::take(&mut device.slices).into_vec();
        let mut taken: BTreeSet<usize> = BTreeSet::new();
        let mut places = Vec::new();
        for (at, part) in self
            .parts
            .iter()
            .enumerate()
            .filter(|(_, part)| exists(part))
        {
            // An exporter's names are its own: take the next slice with the same profile.
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

    /// Sets the share of each partition: by MIG profile, else by the counters that it consumes. Without either, the static
    /// partitions of a complete pool have equal shares; otherwise shares stay unknown.
    fn weigh(&self, device: &mut Device, places: &[(usize, usize)]) {
        device.makes_slices = self.parts.iter().any(|part| part.made_on_demand);
        if places.len() != device.slices.len() {
            // The exporter reports slices that no driver publishes: shares stay unknown.
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
    /// These devices, without those whose resource has more than [`MOST`] devices or partitions on the node.
    pub(crate) fn new(mut list: Vec<DraDevice>, refused: bool) -> Self {
        let mut counts: BTreeMap<Name, usize> = BTreeMap::new();
        for device in &list {
            *counts.entry(device.resource.clone()).or_default() += 1;
            *counts.entry(device.part_resource.clone()).or_default() += device.parts.len();
        }
        let mut ignored = Ignored::new();
        for (resource, count) in counts {
            if count > MOST as usize {
                let count = u32::try_from(count).unwrap_or(u32::MAX);
                limits::claim(&mut ignored, &resource, count);
            }
        }
        if !ignored.is_empty() {
            let kept = |resource: &Name| !ignored.contains_key(resource);
            list.retain(|device| kept(&device.resource) && kept(&device.part_resource));
        }
        Self {
            list,
            refused,
            ignored,
        }
    }

    /// The resources of the devices and of their partitions, in the order of the devices, each once.
    pub(crate) fn resources(&self) -> Vec<Name> {
        let mut out: Vec<Name> = Vec::new();
        for resource in self
            .list
            .iter()
            .flat_map(|device| [&device.resource, &device.part_resource])
        {
            if !out.contains(resource) {
                out.push(resource.clone());
            }
        }
        out
    }

    /// The node with the published devices in its capacity, and the usable ones in its allocatable.
    pub(crate) fn added_to(&self, seen: Arc<NodeSeen>) -> Arc<NodeSeen> {
        if self.list.is_empty() {
            return seen;
        }
        let mut counts: BTreeMap<&Name, (u32, u32)> = BTreeMap::new();
        for device in &self.list {
            let (resource, count) = device.offers();
            let sum = counts.entry(resource).or_default();
            sum.0 += count;
            sum.1 += if device.is_usable() { count } else { 0 };
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

    /// The first driver version that a device has.
    pub(crate) fn version(&self) -> Option<Name> {
        self.list.iter().find_map(|device| device.version.clone())
    }

    /// The index of each device on the node, with its position in `self.list`: the index that an exporter gives to the same id,
    /// else its own, else the lowest free one. A device that only an exporter reports has no position.
    pub(crate) fn indices(&self, readings: &NodeReadings) -> BTreeMap<u32, Option<usize>> {
        let mut out: BTreeMap<u32, Option<usize>> = BTreeMap::new();
        let mut unmatched: Vec<usize> = Vec::new();
        for (at, device) in self.list.iter().enumerate() {
            let same = readings
                .devices
                .iter()
                .find(|(slot, read)| !out.contains_key(slot) && device.is(read));
            match same {
                Some((slot, _)) => {
                    out.insert(*slot, Some(at));
                }
                None => unmatched.push(at),
            }
        }
        let mut unnumbered = Vec::new();
        for at in unmatched {
            let device = &self.list[at];
            let own = device.index.filter(|index| {
                *index < MOST
                    && !out.contains_key(index)
                    && device.may_be(readings.devices.get(index))
            });
            match own {
                Some(index) => {
                    out.insert(index, Some(at));
                }
                None => unnumbered.push(at),
            }
        }
        for at in unnumbered {
            let device = &self.list[at];
            let free = (0..)
                .find(|slot| !out.contains_key(slot) && device.may_be(readings.devices.get(slot)));
            if let Some(index) = free {
                out.insert(index, Some(at));
            }
        }
        for slot in readings.devices.keys() {
            out.entry(*slot).or_insert(None);
        }
        out
    }

    /// Allocates devices and partitions to the pods of their claims; `at` is the result of [`Self::indices`]. Returns the pods
    /// that have received a device or partition.
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
        let allocated: BTreeSet<&Handle> = holders.keys().collect();
        let mut served: BTreeSet<ObjectKey> = BTreeSet::new();
        for device in devices.iter_mut() {
            let Some(dra) = at
                .get(&device.index)
                .copied()
                .flatten()
                .map(|at| &self.list[at])
            else {
                continue;
            };
            for (part, place) in dra.cut(device, &allocated) {
                // A partition is shown with the first of the pods that share it.
                if let Some(pods) = holders.get(&dra.parts[part].handle)
                    && let Some(first) = pods.first()
                {
                    device.slices[place].holder = Some(Arc::clone(first));
                    device.slices[place].attribution = Attribution::Claim;
                    served.extend(pods.iter().map(|pod| pod.key().clone()));
                }
            }
            if let Some(capacities) = &dra.shared {
                served.extend(consumed::place(device, &dra.wholes, capacities, pods));
                continue;
            }
            let pods: Vec<&Arc<Pod>> = dra
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
                // Several pods share one claim: each has a slice of unknown share, and the device counts once.
                many => {
                    device.slices = many
                        .iter()
                        .enumerate()
                        .map(|(share, pod)| Slice {
                            holder: Some(Arc::clone(pod)),
                            attribution: Attribution::Claim,
                            ..Slice::free(Name::from(format!("share-{share}")), &dra.resource)
                        })
                        .collect();
                }
            }
        }
        served
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pci_address_has_one_form_whatever_the_width_of_its_domain() {
        for same in ["00000000:07:00.0", "0000:07:00.0", "07:00.0", "0:07:00.0"] {
            assert_eq!(plain_pci(same), "07:00.0", "{same}");
        }
        assert_eq!(plain_pci("00000008:0A:00.0"), plain_pci("0008:0a:00.0"));
        assert_ne!(plain_pci("0000:00:07.0"), plain_pci("0000:07:00.0"));
    }
}
