//! The join: a node's labels, capacity, readings and pods become its devices, each with its holder.
//!
//! Placement is decided in order of how sure it is: an exporter's pod label (while that pod is bound to
//! the node and not over), an id that the API gives, and last the count of what is left, in index order.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::base::{Moment, Name, Names, ObjectKey};
use crate::fleet::accelerator::{DeviceKind, Vendor};
use crate::fleet::device::{Attribution, Device, Health, Pod, Slice};
use crate::fleet::judge;
use crate::fleet::node::Node;
use crate::fleet::observe::{Claimed, NodeSeen};
use crate::fleet::policy::Policy;
use crate::fleet::signal::Signals;

use super::facts;
use super::readings::{DeviceReadings, NodeReadings, device_id};

/// What a node offers of one vendor: physical devices and how they are cut.
struct Offer {
    vendor: Vendor,
    /// The resource that asks for a whole device.
    resource: Name,
    /// Physical devices.
    devices: u32,
    /// Shares of each device under time-slicing; 1 for none.
    replicas: u32,
    /// MIG resources and how many of each the node offers.
    slices: Vec<(Name, u32)>,
}

/// Builds a node's picture.
#[expect(
    clippy::too_many_arguments,
    reason = "one call joins everything that is known of one node"
)]
pub(super) fn build(
    seen: Arc<NodeSeen>,
    pods: Vec<Arc<Pod>>,
    pod_count: u32,
    readings: &mut NodeReadings,
    old: Option<&Node>,
    policy: &Policy,
    names: &mut Names,
    at: Moment,
) -> Node {
    let offer = offer(&seen, readings, &pods);
    let product = facts::product(&seen).cloned();
    let mut devices: Vec<Device> = Vec::new();
    if let Some(offer) = &offer {
        for index in 0..offer.devices {
            let read = readings.devices.get(&index);
            devices.push(device(
                index,
                offer,
                read,
                product.as_ref(),
                &seen.name,
                policy,
                names,
            ));
        }
        place(&mut devices, offer, &pods, readings, names, at);
    }
    for device in &mut devices {
        // Idleness is a stretch: it begins when a held device is first seen doing nothing, and a gap in
        // the readings neither begins nor ends it.
        let known = readings.devices.get_mut(&device.index);
        let before = known.as_ref().and_then(|known| known.idle_since);
        device.idle_since = match (device.is_allocated(), judge::does_nothing(device, policy)) {
            (false, _) | (true, Some(false)) => None,
            (true, Some(true)) => before.or(device.read_at),
            (true, None) => before,
        };
        if let Some(known) = known {
            known.idle_since = device.idle_since;
        }
    }
    let class = devices.first().map(|device| device.class.clone());
    let (ready, ready_since) = facts::ready(&seen);
    let label = |key: &str| seen.labels.get(key).cloned();
    let driver = facts::driver(&seen, names)
        .or_else(|| {
            readings
                .devices
                .values()
                .find_map(|device| device.driver.clone())
        })
        .or_else(|| old.and_then(|old| old.driver.clone()));
    Node {
        pool: facts::pool(&seen, class.as_ref(), policy, names),
        ready,
        ready_since,
        cordon: facts::cordon(&seen),
        billing: facts::billing(&seen, policy),
        instance_type: label("node.kubernetes.io/instance-type")
            .or_else(|| label("beta.kubernetes.io/instance-type")),
        zone: label("topology.kubernetes.io/zone")
            .or_else(|| label("failure-domain.beta.kubernetes.io/zone")),
        region: label("topology.kubernetes.io/region")
            .or_else(|| label("failure-domain.beta.kubernetes.io/region")),
        rack: seen
            .labels
            .first(policy.rack_labels.iter().map(String::as_str))
            .cloned(),
        topology: facts::topology(&seen, names),
        clique: facts::clique(&seen),
        driver,
        devices: devices.into_boxed_slice(),
        device_capacity: seen.capacity.device_count(),
        device_allocatable: seen.allocatable.device_count(),
        pod_count,
        pods: pods.into_boxed_slice(),
        seen,
    }
}

fn vendor_of(resource: &str) -> Vendor {
    let (domain, _) = resource.split_once('/').unwrap_or((resource, ""));
    match domain {
        "nvidia.com" => Vendor::Nvidia,
        "amd.com" => Vendor::Amd,
        "google.com" => Vendor::Google,
        "aws.amazon.com" => Vendor::Aws,
        "gpu.intel.com" | "habana.ai" => Vendor::Intel,
        _ => Vendor::Other,
    }
}

fn kind_of(vendor: Vendor, resource: &str) -> DeviceKind {
    match vendor {
        Vendor::Nvidia | Vendor::Amd => DeviceKind::Gpu,
        Vendor::Google => DeviceKind::Tpu,
        Vendor::Intel if resource.starts_with("gpu.") => DeviceKind::Gpu,
        _ => DeviceKind::Other,
    }
}

/// `nvidia.com/mig-1g.10gb` and what it is a slice of.
fn mig_profile(resource: &str) -> Option<&str> {
    resource.strip_prefix("nvidia.com/mig-")
}

/// How many instances of a MIG profile fit on one device (seven compute slices; 3g takes four memory
/// slices of eight, so two fit). Source: NVIDIA's MIG user guide, as restated in our notes.
fn instances_per_device(profile: &str) -> u32 {
    match profile
        .split('g')
        .next()
        .and_then(|g| g.parse::<u32>().ok())
    {
        Some(1) => 7,
        Some(2) => 3,
        Some(3) => 2,
        _ => 1,
    }
}

/// What a node has, from the widest view of it: labels, capacity, readings, pods. `None` without any.
fn offer(node: &NodeSeen, readings: &NodeReadings, pods: &[Arc<Pod>]) -> Option<Offer> {
    let label_number = |key: &str| {
        node.labels
            .get(key)
            .and_then(|value| value.parse::<u32>().ok())
    };
    let mut whole: BTreeMap<&Name, u32> = BTreeMap::new();
    let mut slices: Vec<(Name, u32)> = Vec::new();
    for (resource, count) in &node.capacity.devices {
        if mig_profile(resource).is_some() {
            slices.push((resource.clone(), *count));
        } else if !resource.ends_with("/neuroncore") && !resource.ends_with(".monitoring") {
            whole.insert(resource, *count);
        }
    }
    let wanted = pods
        .iter()
        .flat_map(|pod| pod.seen.requests.devices.iter().map(|(name, _)| name));
    let resource = whole
        .iter()
        .max_by_key(|(name, count)| (**count, std::cmp::Reverse(**name)))
        .map(|(name, _)| (*name).clone())
        .or_else(|| slices.first().map(|_| Name::new("nvidia.com/gpu")))
        .or_else(|| wanted.min().cloned())
        .or_else(|| {
            let labelled = [
                ("nvidia.com/gpu.count", "nvidia.com/gpu"),
                ("cloud.google.com/gke-tpu-accelerator", "google.com/tpu"),
            ];
            let (_, resource) = labelled
                .iter()
                .find(|(key, _)| node.labels.get(key).is_some())?;
            Some(Name::new(resource))
        })
        .or_else(|| (!readings.devices.is_empty()).then(|| Name::new("unknown")))?;
    let vendor = vendor_of(&resource);
    let counted = whole.get(&resource).copied().unwrap_or(0);
    let mut replicas = 1;
    let mut physical = counted;
    let mut labelled = None;
    if vendor == Vendor::Nvidia {
        let shared = node
            .labels
            .get("nvidia.com/gpu.sharing-strategy")
            .map(Name::as_str);
        replicas = label_number("nvidia.com/gpu.replicas")
            .filter(|_| matches!(shared, None | Some("time-slicing" | "mps")))
            .unwrap_or(1)
            .max(1);
        physical = counted / replicas;
        labelled = label_number("nvidia.com/gpu.count");
        // Under the single MIG strategy the label counts instances, and the product says so.
        let single = node
            .labels
            .get("nvidia.com/gpu.product")
            .and_then(|product| {
                product
                    .rsplit_once("-MIG-")
                    .map(|(_, profile)| profile.to_owned())
            });
        if let Some(profile) = single {
            let instances = counted.max(labelled.unwrap_or(0));
            slices.push((resource.clone(), instances));
            labelled = None;
            physical = instances.div_ceil(instances_per_device(&profile));
        }
        let of_slices: u32 = slices
            .iter()
            .filter_map(|(name, count)| {
                mig_profile(name).map(|profile| count.div_ceil(instances_per_device(profile)))
            })
            .sum();
        if labelled.is_none() && of_slices > 0 {
            physical += of_slices;
        }
    }
    let read = readings
        .devices
        .keys()
        .next_back()
        .map_or(0, |last| last + 1);
    let devices = physical.max(labelled.unwrap_or(0)).max(read);
    (devices > 0).then_some(Offer {
        vendor,
        resource,
        devices,
        replicas,
        slices,
    })
}

fn device(
    index: u32,
    offer: &Offer,
    read: Option<&DeviceReadings>,
    product: Option<&Name>,
    node: &Name,
    policy: &Policy,
    names: &mut Names,
) -> Device {
    // The device's own word first: labels describe mixed nodes wrongly.
    let model = read
        .and_then(|read| read.model.clone())
        .or_else(|| product.cloned())
        .unwrap_or_default();
    let known = policy
        .catalog
        .find(&model)
        .or_else(|| product.and_then(|product| policy.catalog.find(product)));
    let vendor = known.map_or(offer.vendor, |known| known.vendor);
    let kind = known.map_or_else(|| kind_of(vendor, &offer.resource), |known| known.kind);
    let class = match known {
        Some(known) => known.class.clone(),
        None if model.is_empty() => names.intern("unknown"),
        None => model.clone(),
    };
    let word = match kind {
        DeviceKind::Gpu => "gpu",
        DeviceKind::Tpu => "tpu",
        DeviceKind::Other => "dev",
    };
    let signals = read.map(DeviceReadings::signals).unwrap_or_default();
    let health = Health::Ok;
    Device {
        id: device_id(names, node, word, index),
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
        slices: slices_of(read),
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
                signals: slice.signals(),
            })
            .collect()
    })
    .unwrap_or_default()
}

/// What each pod still has to be given, by resource.
struct Wants<'a> {
    pods: BTreeMap<&'a ObjectKey, (&'a Arc<Pod>, BTreeMap<&'a str, u32>)>,
}

impl<'a> Wants<'a> {
    fn of(pods: &'a [Arc<Pod>]) -> Self {
        let wants = |pod: &'a Arc<Pod>| {
            let by_resource = pod
                .seen
                .requests
                .devices
                .iter()
                .map(|(resource, count)| (resource.as_str(), *count))
                .collect();
            (pod.key(), (pod, by_resource))
        };
        Self {
            pods: pods.iter().map(wants).collect(),
        }
    }

    /// One device or slice of a resource that `fits` for the pod of this key, when it is here at all. A
    /// pod that is named beyond what it asks for is believed: the exporter sees the process.
    fn take(&mut self, key: &ObjectKey, fits: impl Fn(&str) -> bool) -> Option<Arc<Pod>> {
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

    /// The next pod, oldest binding first, that still wants something that `fits`.
    fn next(&mut self, fits: impl Fn(&str) -> bool) -> Option<Arc<Pod>> {
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

    fn left(&self, resource: &str) -> u32 {
        self.pods
            .values()
            .map(|(_, left)| left.get(resource).copied().unwrap_or(0))
            .sum()
    }
}

fn place(
    devices: &mut [Device],
    offer: &Offer,
    pods: &[Arc<Pod>],
    readings: &NodeReadings,
    names: &mut Names,
    at: Moment,
) {
    let mut wants = Wants::of(pods);
    cut(devices, offer, &wants, readings, names, at);
    let is_slice = |resource: &str| {
        mig_profile(resource).is_some()
            || offer
                .slices
                .iter()
                .any(|(name, _)| name.as_str() == resource)
    };
    let is_whole = |resource: &str| !is_slice(resource);
    // First whom the exporters name.
    for device in devices.iter_mut() {
        let Some(read) = readings.devices.get(&device.index) else {
            continue;
        };
        for slice in &mut device.slices {
            let named = read.slices.get(&slice.name).and_then(|slice| slice.pod(at));
            if let Some(pod) = named.and_then(|key| wants.take(key, |r| fits_slice(r, &slice.name)))
            {
                slice.holder = Some(pod);
                slice.attribution = Attribution::Exporter;
            }
        }
        if device.slices.is_empty() {
            if let Some(pod) = read.pod(at).and_then(|key| wants.take(key, is_whole)) {
                device.holder = Some(pod);
                device.attribution = Attribution::Exporter;
            }
        } else if offer.replicas > 1 {
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
    // Then whom the API names.
    for pod in pods {
        for claimed in &pod.seen.claimed {
            let id = match claimed {
                Claimed::Id(id) => id,
                Claimed::Claim(_, _, device) => device,
            };
            give(devices, id, pod, &mut wants, is_whole);
        }
    }
    // Last by counting, in index order: the number is right, the device is a guess.
    for device in devices.iter_mut() {
        if device.slices.is_empty() {
            if device.holder.is_none()
                && let Some(pod) = wants.next(is_whole)
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
            let shared = offer.replicas > 1;
            let next = wants.next(|r| {
                if shared {
                    is_whole(r)
                } else {
                    fits_slice(r, &slice.name) || is_single(offer, r)
                }
            });
            if let Some(pod) = next {
                slice.holder = Some(pod);
                slice.attribution = Attribution::Counted;
            }
        }
    }
}

/// Under the single MIG strategy the plain resource asks for an instance.
fn is_single(offer: &Offer, resource: &str) -> bool {
    offer
        .slices
        .iter()
        .any(|(name, _)| name.as_str() == resource && mig_profile(name).is_none())
}

/// `nvidia.com/mig-1g.10gb` asks for the slice `1g.10gb-7`.
fn fits_slice(resource: &str, slice: &str) -> bool {
    mig_profile(resource).is_some_and(|profile| {
        slice
            .strip_prefix(profile)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    })
}

/// Gives the device of this id (`GPU-…`, `GPU-…::2`, `nvidia3`, `gpu-3`) to the pod.
fn give(
    devices: &mut [Device],
    id: &str,
    pod: &Arc<Pod>,
    wants: &mut Wants<'_>,
    is_whole: impl Fn(&str) -> bool + Copy,
) {
    let plain = id.split("::").next().unwrap_or(id);
    let device = devices.iter_mut().find(|device| {
        device.uuid.as_deref() == Some(plain)
            || plain
                .strip_prefix("nvidia")
                .or_else(|| plain.strip_prefix("gpu-"))
                .and_then(|number| number.parse::<u32>().ok())
                == Some(device.index)
    });
    let Some(device) = device else { return };
    if device
        .holders()
        .any(|(holder, _)| holder.key() == pod.key())
    {
        return;
    }
    if device.slices.is_empty() && device.holder.is_none() {
        device.holder = wants.take(pod.key(), is_whole);
        device.attribution = Attribution::Claim;
    } else if let Some(free) = device
        .slices
        .iter_mut()
        .find(|slice| slice.holder.is_none())
    {
        free.holder = wants.take(pod.key(), is_whole);
        free.attribution = Attribution::Claim;
    }
}

/// Cuts devices into the slices that nobody reads: shares of time-sliced devices, and MIG instances that
/// the node offers but no exporter shows.
fn cut(
    devices: &mut [Device],
    offer: &Offer,
    wants: &Wants<'_>,
    readings: &NodeReadings,
    names: &mut Names,
    _at: Moment,
) {
    let empty = |name: Name, resource: Name| Slice {
        name,
        resource: Some(resource),
        holder: None,
        attribution: Attribution::None,
        signals: Signals::default(),
    };
    if offer.replicas > 1 {
        for device in devices.iter_mut().filter(|device| device.slices.is_empty()) {
            device.slices = (0..offer.replicas)
                .map(|share| {
                    empty(
                        names.intern(&format!("share-{share}")),
                        offer.resource.clone(),
                    )
                })
                .collect();
        }
        return;
    }
    for (resource, count) in &offer.slices {
        let profile =
            mig_profile(resource).map_or_else(|| single_profile(devices), ToOwned::to_owned);
        for slice in devices
            .iter_mut()
            .flat_map(|device| device.slices.iter_mut())
        {
            if slice.name.starts_with(profile.as_str()) {
                slice.resource = Some(resource.clone());
            }
        }
        let shown = devices
            .iter()
            .flat_map(|device| device.slices.iter())
            .filter(|slice| slice.resource.as_ref() == Some(resource))
            .count();
        let missing = count.saturating_sub(u32::try_from(shown).unwrap_or(u32::MAX));
        // Whole devices that pods ask for stay whole; the last ones are taken to be cut.
        let per_device = instances_per_device(&profile);
        let whole = wants.left(&offer.resource) as usize;
        let whole = if mig_profile(resource).is_none() {
            0
        } else {
            whole
        };
        let mut left = missing;
        for device in devices.iter_mut().skip(whole) {
            if left == 0 {
                break;
            }
            let unread = readings
                .devices
                .get(&device.index)
                .is_none_or(|read| read.slices.is_empty());
            let room =
                per_device.saturating_sub(u32::try_from(device.slices.len()).unwrap_or(u32::MAX));
            if !unread || room == 0 {
                continue;
            }
            let take = room.min(left);
            left -= take;
            let first = device.slices.len();
            let mut slices = std::mem::take(&mut device.slices).into_vec();
            slices.extend((0..take as usize).map(|at| {
                empty(
                    names.intern(&format!("{profile}-{}", first + at)),
                    resource.clone(),
                )
            }));
            device.slices = slices.into_boxed_slice();
        }
    }
}

fn single_profile(devices: &[Device]) -> String {
    devices
        .iter()
        .find_map(|device| {
            device
                .model
                .rsplit_once("-MIG-")
                .map(|(_, profile)| profile.to_owned())
        })
        .unwrap_or_else(|| String::from("slice"))
}
