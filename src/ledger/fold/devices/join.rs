//! The join: a node's labels, capacity, readings and pods become its devices, each with its holder.
//!
//! Placement is decided in order of how sure it is: an exporter's pod label (while that pod is bound to
//! the node and not over), an id that the API gives, and last the count of what is left, in index order.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::base::{Moment, Name, Names, ObjectKey};
use model::fleet::accelerator::DeviceKind;
use model::fleet::claim::is_accelerator_driver;
use model::fleet::device::{Attribution, Device, Health, Pod, Slice};
use model::fleet::judge;
use model::fleet::node::Node;
use model::fleet::policy::Policy;
use model::fleet::seen::{Claimed, NodeSeen, PodSeen};

use super::dra_devices::DraDevices;
use super::fractions::{self, FractionGroup};
use super::models::{Model, ModelCache};
use super::offer::{KnownDevices, Offer, Offers, kind_of, offers, vendor_in};
use super::readings::{DeviceReadings, NodeReadings, device_id};
use super::requests::PodRequests;
use super::{hami, limits};
use super::{slice_shares, slicing};
use crate::fold::facts::{self, NodeLabels};

/// What nodes are built with.
pub(crate) struct Bench<'l> {
    pub(crate) policy: &'l Policy,
    pub(crate) names: &'l mut Names,
    pub(crate) models: &'l mut ModelCache,
    pub(crate) at: Moment,
}

/// Pods on a node that are not over.
pub(crate) struct PodsOnNode {
    /// Pods that hold devices.
    pub(crate) holders: Box<[Arc<Pod>]>,
    pub(crate) others: Box<[Arc<PodSeen>]>,
}

impl PodsOnNode {
    /// As they were in an earlier picture.
    pub(crate) fn of(node: &Node) -> Self {
        Self {
            holders: node.pods.clone(),
            others: node.others.clone(),
        }
    }
}

/// Builds a node's picture. `is_listed` is false for a node that is known from its visible pods alone.
pub(crate) fn build(
    seen: Arc<NodeSeen>,
    labels: &NodeLabels,
    chips: &DraDevices,
    PodsOnNode {
        holders: pods,
        others,
    }: PodsOnNode,
    readings: &mut NodeReadings,
    (is_listed, old): (bool, Option<&Node>),
    bench: &mut Bench<'_>,
) -> Node {
    let policy = bench.policy;
    let product = &labels.product;
    // Labels promise devices, or pods hold some by claim, and no plugin has them.
    let promised = product.is_some() || pods.iter().any(|pod| !pod.seen.claims.is_empty());
    let withheld = chips.refused && promised && seen.capacity.device_count() == 0;
    let mut ignored = chips.ignored.clone();
    let seen = limits::bounded(chips.added_to(seen), &mut ignored);
    if let Some(beyond) = readings.ignored {
        let exporter = bench.names.intern("its exporter");
        limits::claim(&mut ignored, &exporter, beyond.count);
    }
    let registered = match chips.list.is_empty() {
        true => hami::registered(&seen),
        false => Vec::new(),
    };
    let places = hami::indices(&registered, readings);
    let mut model_of = |name: &Name| bench.models.find(&policy.catalog, name);
    let labelled = product.as_ref().and_then(&mut model_of);
    let mut all = readings.devices.values();
    let named = all.find_map(|one| one.model.as_ref());
    let read = named.and_then(&mut model_of);
    let vendor = |name: Option<&Name>, model: Option<&Model>| {
        let known = model.map(|model| model.vendor);
        known.or_else(|| vendor_in(name?))
    };
    let known = KnownDevices {
        registered: &registered,
        readings,
        pods: &pods,
        vendor: vendor(named, read.as_ref())
            .or_else(|| vendor(product.as_ref(), labelled.as_ref())),
        model: labelled.or(read),
        published: chips.resources(),
    };
    // The number of devices that are withheld is not known, and by a label's number all would look free.
    let offers = match withheld && chips.list.is_empty() && readings.devices.is_empty() {
        true => Offers::default(),
        false => offers(&seen, &known, &mut ignored),
    };
    let mut devices: Vec<Device> = Vec::new();
    // Where the devices of each offer are.
    let mut ranges: Vec<std::ops::Range<usize>> = Vec::new();
    let mut served = BTreeSet::new();
    for (at, offer) in offers.0.iter().enumerate() {
        let first = devices.last().map_or(0, |last| last.index + 1);
        let indices = match at > 0 || chips.list.is_empty() {
            true => (first..first + offer.devices)
                .map(|index| (index, None))
                .collect(),
            false => chips.indices(readings),
        };
        let label = product_of(&offers, at, labels, &seen, bench);
        let start = devices.len();
        for (index, chip) in &indices {
            let chip = chip.map(|at| &chips.list[at]);
            let shared = places.iter().position(|place| place == index);
            let shared = shared.and_then(|at| registered.get(at));
            let published = chip.and_then(|chip| chip.product.as_ref());
            let published = published.or(shared.and_then(|one| one.product.as_ref()));
            let was = old.and_then(|old| old.device(*index));
            // Exporters number the devices of one vendor.
            let read = readings.devices.get(index);
            let read = read.filter(|_| offer.vendor == offers.0[0].vendor);
            let mut device = device(
                *index,
                offer,
                read,
                published.or(label.as_ref()),
                (&seen.name, was),
                bench,
            );
            if let Some(chip) = chip {
                device.resource = chip.resource.clone();
                chip.complete(&mut device);
            }
            if let Some(one) = shared {
                one.complete(&mut device);
            }
            devices.push(device);
        }
        if at == 0 {
            served = chips.place(&mut devices, &indices, &pods);
        }
        ranges.push(start..devices.len());
    }
    if !offers.0.is_empty() {
        let shared = fractions::of_node(&pods, &others);
        place(
            &mut devices,
            (&offers, &ranges, is_listed),
            (&pods, &shared, &seen),
            &served,
            readings,
            bench,
        );
        for device in &mut devices {
            let shared = places.iter().position(|place| *place == device.index);
            if let Some(one) = shared.and_then(|at| registered.get(at)) {
                one.weigh(device);
            }
        }
        for (offer, range) in offers.0.iter().zip(&ranges) {
            slice_shares::set_shares(&mut devices[range.clone()], offer, is_listed);
        }
        if !is_listed {
            devices
                .iter_mut()
                .for_each(slice_shares::replace_by_unsized_slice);
        }
    }
    for device in &mut devices {
        // An idle period begins when an allocated device is first seen idle; a gap in the readings neither begins nor ends it.
        let known = readings.devices.get_mut(&device.index);
        // A reading from before the allocation does not belong to the pod.
        let held = device.held_since();
        let before = known.as_ref().and_then(|known| known.idle_since);
        let before = before.filter(|since| Some(*since) >= held);
        let does_nothing =
            judge::does_nothing(device, policy).filter(|_| !device.is_read_before_held());
        device.idle_since = match (device.is_allocated(), does_nothing) {
            (false, _) | (true, Some(false)) => None,
            (true, Some(true)) => before.or(device.read_at),
            (true, None) => before,
        };
        if let Some(known) = known {
            known.idle_since = device.idle_since;
            known.first_read = known.first_read.into_iter().chain(device.read_at).min();
            known.seen_busy |= does_nothing == Some(false);
            // Idle at our first reading, and allocated before it: it may have been idle for long.
            let held_later = device.held_since() > known.first_read;
            let from_the_first = before.is_none() && !known.seen_busy && !held_later;
            known.idle_first_seen =
                device.idle_since.is_some() && (known.idle_first_seen || from_the_first);
            device.idle_first_seen = known.idle_first_seen;
        }
    }
    let class = devices.first().map(|device| device.class.clone());
    let (ready, ready_since) = facts::ready(&seen);
    let driver = labels
        .driver
        .clone()
        .or_else(|| {
            readings
                .devices
                .values()
                .find_map(|device| device.driver.clone())
        })
        .or_else(|| chips.version())
        .or_else(|| old.and_then(|old| old.driver.clone()));
    // The pool depends on the class of its devices as well.
    let known = old.filter(|old| {
        let class_was = old.devices.first().map(|device| &device.class);
        Arc::ptr_eq(&old.seen, &seen) && class_was == class.as_ref()
    });
    Node {
        pool: match known {
            Some(old) => old.pool.clone(),
            None => facts::pool(&seen, class.as_ref(), policy, bench.names),
        },
        ready,
        ready_since,
        cordon: labels.cordon.clone(),
        billing: labels.billing,
        instance_type: labels.instance_type.clone(),
        zone: labels.zone.clone(),
        region: labels.region.clone(),
        rack: labels.rack.clone(),
        topology: labels.topology.clone(),
        clique: labels.clique.clone(),
        driver,
        devices: devices.into_boxed_slice(),
        device_capacity: seen.capacity.device_count(),
        device_allocatable: seen.allocatable.device_count(),
        withheld,
        ignored_counts: ignored.into_iter().collect(),
        pod_count: u32::try_from(pods.len() + others.len()).unwrap_or(u32::MAX),
        others,
        pods,
        seen,
    }
}

/// The product of the devices of an offer: of the only one what any label says; of several what a label of that vendor says, unless the
/// resource names a model itself. A label describes one kind of a vendor's devices.
fn product_of(
    offers: &Offers,
    at: usize,
    labels: &NodeLabels,
    seen: &NodeSeen,
    bench: &mut Bench<'_>,
) -> Option<Name> {
    let offer = &offers.0[at];
    let named = offer.resource.split_once('/').and_then(|(_, name)| {
        let name = bench.names.intern(name);
        let known = bench.models.find(&bench.policy.catalog, &name);
        known
            .is_some_and(|model| model.vendor == offer.vendor)
            .then_some(name)
    });
    if offers.0.len() == 1 {
        return labels.product.clone().or(named);
    }
    let mut before = offers.0[..at].iter();
    let is_first = before.all(|other| other.vendor != offer.vendor);
    let label = || facts::product_of(seen, offer.vendor);
    named.or_else(|| is_first.then(label).flatten())
}

fn device(
    index: u32,
    offer: &Offer,
    read: Option<&DeviceReadings>,
    product: Option<&Name>,
    (node, was): (&Name, Option<&Device>),
    bench: &mut Bench<'_>,
) -> Device {
    let catalog = &bench.policy.catalog;
    // The device's own word first: labels describe mixed nodes wrongly.
    let model = read
        .and_then(|read| read.model.clone())
        .or_else(|| product.cloned())
        .unwrap_or_default();
    let known = match bench.models.find(catalog, &model) {
        None => product.and_then(|product| bench.models.find(catalog, product)),
        known => known,
    };
    let (vendor, kind, class) = match known {
        Some(known) => (known.vendor, known.kind, known.class),
        None => {
            let kind = kind_of(offer.vendor, &offer.resource);
            let class = match model.is_empty() {
                true => bench.names.intern("unknown"),
                false => model.clone(),
            };
            (offer.vendor, kind, class)
        }
    };
    let word = match kind {
        DeviceKind::Gpu => "gpu",
        DeviceKind::Tpu => "tpu",
        DeviceKind::Other => "dev",
    };
    let signals = read.map(DeviceReadings::signals).unwrap_or_default();
    let health = model::fleet::xid::health(&signals, &bench.policy.xids);
    Device {
        id: match was.filter(|was| was.kind == kind) {
            Some(was) => was.id.clone(),
            None => device_id(bench.names, node, word, index),
        },
        index,
        uuid: read.and_then(|read| read.uuid.clone()),
        serial: read.and_then(|read| read.serial.clone()),
        pci: read.and_then(|read| read.pci.clone()),
        vendor,
        kind,
        model,
        class,
        resource: offer.resource.clone(),
        holder: None,
        attribution: Attribution::None,
        health: if read.is_none() {
            Health::Unknown
        } else {
            health
        },
        signals,
        read_at: read.and_then(DeviceReadings::read_at),
        interval: read.map_or(std::time::Duration::from_secs(30), DeviceReadings::interval),
        idle_since: None,
        idle_first_seen: false,
        slices: slices_of(read),
        makes_slices: false,
        fractions: false,
    }
}

fn slices_of(read: Option<&DeviceReadings>) -> Box<[Slice]> {
    read.map(|read| {
        read.slices
            .iter()
            .map(|(name, slice)| Slice {
                name: name.clone(),
                resource: None,
                holder: None,
                attribution: Attribution::None,
                share: None,
                signals: slice.signals(),
            })
            .collect()
    })
    .unwrap_or_default()
}

fn place(
    devices: &mut [Device],
    (offers, ranges, is_listed): (&Offers, &[std::ops::Range<usize>], bool),
    (pods, shared, node): (&[Arc<Pod>], &[FractionGroup], &NodeSeen),
    served: &BTreeSet<ObjectKey>,
    readings: &NodeReadings,
    bench: &mut Bench<'_>,
) {
    let at = bench.at;
    let mut wants = PodRequests::of(pods, served);
    for (offer, range) in offers.0.iter().zip(ranges) {
        let devices = &mut devices[range.clone()];
        let asked_whole = wants.left(&offer.resource);
        slicing::cut(devices, offer, asked_whole, bench.names);
        if !is_listed {
            slicing::cut_by_sharers(devices, offer, readings, at, bench.names);
        }
    }
    let offer_of = |place: usize| ranges.iter().position(|range| range.contains(&place));
    // Fractions are of whole devices: devices that a placeholder or an exporter names come first.
    let mut shared: Vec<&FractionGroup> = shared.iter().collect();
    shared.retain(|group| {
        let Some(place) = group.named(devices, readings, at) else {
            return true;
        };
        share_out(
            group,
            &mut devices[place],
            &mut wants,
            node,
            Attribution::Claim,
        );
        false
    });
    // Then the pods that exporters name.
    for (place, device) in devices.iter_mut().enumerate() {
        let Some(read) = readings.devices.get(&device.index) else {
            continue;
        };
        let Some(own) = offer_of(place) else { continue };
        let is_whole = |resource: &str| offers.is_whole(own, resource);
        for slice in device
            .slices
            .iter_mut()
            .filter(|slice| slice.holder.is_none())
        {
            let named = read.slices.get(&slice.name).and_then(|slice| slice.pod(at));
            if let Some(pod) = named.and_then(|key| wants.take(key, |r| offers.fits(own, r, slice)))
            {
                slice.holder = Some(pod);
                slice.attribution = Attribution::Exporter;
            }
        }
        if device.slices.is_empty() {
            if device.holder.is_none()
                && let Some(pod) = read.pod(at).and_then(|key| wants.take(key, is_whole))
            {
                device.holder = Some(pod);
                device.attribution = Attribution::Exporter;
            }
        } else if offers.0[own].replicas > 1 || (!is_listed && read.sharers(at).next().is_some()) {
            let named: Vec<&ObjectKey> = read.sharers(at).chain(read.pod(at)).collect();
            for key in named {
                let held = device
                    .slices
                    .iter()
                    .any(|slice| slice.holder.as_ref().is_some_and(|pod| pod.key() == key));
                let Some(free) = device
                    .slices
                    .iter_mut()
                    .find(|slice| slice.holder.is_none())
                else {
                    break;
                };
                if !held && let Some(pod) = wants.take(key, is_whole) {
                    free.holder = Some(pod);
                    free.attribution = Attribution::Exporter;
                }
            }
        }
    }
    // Then the pods that the API names.
    for pod in pods {
        for claimed in &pod.seen.claimed {
            let id = match claimed {
                Claimed::Id(id) => id,
                Claimed::Claim(driver, _, device) if is_accelerator_driver(driver) => device,
                Claimed::Claim(..) => continue,
            };
            give(devices, id, pod, &mut wants, (offers, &offer_of));
        }
    }
    // Last by counting, in index order: the number is right, the device is a guess.
    for group in shared {
        let resource = |pod: &Arc<Pod>| pod.seen.requests.devices.first().map(|one| one.0.clone());
        let asked = group.pods().first().and_then(resource).unwrap_or_default();
        let serves = |place: usize| offer_of(place).is_some_and(|own| offers.is_whole(own, &asked));
        let free = |place: &usize| serves(*place) && fractions::is_free(&devices[*place]);
        if let Some(place) = (0..devices.len()).find(free) {
            share_out(
                group,
                &mut devices[place],
                &mut wants,
                node,
                Attribution::Counted,
            );
        }
    }
    for (place, device) in devices.iter_mut().enumerate() {
        let Some(own) = offer_of(place) else { continue };
        if device.slices.is_empty() {
            if device.holder.is_none()
                && let Some(pod) = wants.next(|r| offers.is_whole(own, r))
            {
                device.holder = Some(pod);
                device.attribution = Attribution::Counted;
            }
            continue;
        }
        for slice in &mut device.slices {
            if slice.holder.is_some() {
                continue;
            }
            if let Some(pod) = wants.next(|r| offers.fits(own, r, slice)) {
                slice.holder = Some(pod);
                slice.attribution = Attribution::Counted;
            }
        }
    }
}

/// Gives a device to the pods that share it.
fn share_out(
    group: &FractionGroup,
    device: &mut Device,
    wants: &mut PodRequests<'_>,
    node: &NodeSeen,
    how: Attribution,
) {
    for pod in group.pods() {
        wants.take(pod.key(), |_| true);
    }
    group.divide(device, node, how);
}

/// Gives the device of this id (`GPU-…`, `GPU-…::2`, `nvidia3`, `gpu-3`) to the pod.
fn give(
    devices: &mut [Device],
    id: &str,
    pod: &Arc<Pod>,
    wants: &mut PodRequests<'_>,
    (offers, offer_of): (&Offers, &impl Fn(usize) -> Option<usize>),
) {
    let plain = id.split("::").next().unwrap_or(id);
    let device = devices.iter_mut().enumerate().find(|(_, device)| {
        device.uuid.as_deref() == Some(plain)
            || plain
                .strip_prefix("nvidia")
                .or_else(|| plain.strip_prefix("gpu-"))
                .and_then(|number| number.parse::<u32>().ok())
                == Some(device.index)
    });
    let Some((place, device)) = device else {
        return;
    };
    let Some(own) = offer_of(place) else { return };
    if device
        .holders()
        .any(|(holder, _)| holder.key() == pod.key())
    {
        return;
    }
    let is_whole = |resource: &str| offers.is_whole(own, resource);
    if device.slices.is_empty() && device.holder.is_none() {
        device.holder = wants.take(pod.key(), is_whole);
        device.attribution = Attribution::Claim;
        return;
    }
    // Where instances are offered, only one that the pod requests; a driver's partitions are not offered by a plugin.
    let free = device.slices.iter_mut().find(|slice| {
        let wanted = || wants.has_unserved(pod.key(), |r| offers.fits(own, r, slice));
        slice.holder.is_none() && (offers.0[own].slices.is_empty() || wanted())
    });
    if let Some(free) = free {
        free.holder = wants.take(pod.key(), |r| is_whole(r) || offers.fits(own, r, free));
        free.attribution = Attribution::Claim;
    }
}
