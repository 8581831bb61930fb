//! What a node offers: physical devices and how they are cut, from labels, capacity, readings and pods.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::base::Name;
use crate::fleet::accelerator::{DeviceKind, Vendor};
use crate::fleet::device::Pod;
use crate::fleet::observe::NodeSeen;

use super::hami::{self, Registered};
use super::limits::{self, Ignored, MOST};
use super::readings::NodeReadings;

/// What a node offers of one vendor: physical devices and how they are cut.
pub(super) struct Offer {
    pub(super) vendor: Vendor,
    /// The resource that asks for a whole device.
    pub(super) resource: Name,
    /// Physical devices.
    pub(super) devices: u32,
    /// Shares of each device under time-slicing; 1 for none.
    pub(super) replicas: u32,
    /// MIG resources and how many of each the node offers.
    pub(super) slices: Vec<(Name, u32)>,
}

pub(super) fn vendor_of(resource: &str) -> Vendor {
    let (domain, _) = resource.split_once('/').unwrap_or((resource, ""));
    match domain {
        "nvidia.com" | "gpu.nvidia.com" => Vendor::Nvidia,
        "amd.com" | "gpu.amd.com" => Vendor::Amd,
        "google.com" | "tpu.google.com" => Vendor::Google,
        "aws.amazon.com" | "neuron.aws.com" => Vendor::Aws,
        "gpu.intel.com" | "habana.ai" | "gaudi.intel.com" => Vendor::Intel,
        _ => Vendor::Other,
    }
}

pub(super) fn kind_of(vendor: Vendor, resource: &str) -> DeviceKind {
    match vendor {
        Vendor::Nvidia | Vendor::Amd => DeviceKind::Gpu,
        Vendor::Google => DeviceKind::Tpu,
        Vendor::Aws => DeviceKind::Other,
        // Drivers are named for what they hand out.
        _ if resource.starts_with("gpu.") => DeviceKind::Gpu,
        _ if resource.starts_with("tpu.") => DeviceKind::Tpu,
        _ => DeviceKind::Other,
    }
}

/// `nvidia.com/mig-1g.10gb` and what it is a slice of.
pub(super) fn mig_profile(resource: &str) -> Option<&str> {
    resource.strip_prefix("nvidia.com/mig-")
}

/// How many instances of a MIG profile fit on one device (seven compute slices; 3g takes four memory
/// slices of eight, so two fit). Source: NVIDIA's MIG user guide, as restated in our notes.
pub(super) fn instances_per_device(profile: &str) -> u32 {
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

/// What a node has, from the widest view of it: labels, capacity, readings, pods. `None` without any. What it claims
/// beyond [`MOST`] is ignored and noted.
pub(super) fn offer(
    node: &NodeSeen,
    registered: &[Registered],
    readings: &NodeReadings,
    pods: &[Arc<Pod>],
    ignored: &mut Ignored,
) -> Option<Offer> {
    let mut label_number = |key: &str| {
        let count = node.labels.get(key)?.parse::<u64>().ok()?;
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        if count > MOST {
            limits::claim(ignored, &Name::new(key), count);
            return None;
        }
        Some(count)
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
    let mut resource_of_shares = Name::new("nvidia.com/gpu.replicas");
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
    if !registered.is_empty() {
        // What the plugin offers are shares.
        replicas = hami::shares(registered);
        resource_of_shares = Name::new("hami.io/node-register");
        physical = u32::try_from(registered.len()).unwrap_or(u32::MAX);
        labelled = None;
        slices.clear();
    }
    let read = readings
        .devices
        .keys()
        .next_back()
        .map_or(0, |last| last.saturating_add(1));
    let devices = physical.max(labelled.unwrap_or(0)).max(read).min(MOST);
    if devices.saturating_mul(replicas) > MOST {
        let shares = devices.saturating_mul(replicas);
        limits::claim(ignored, &resource_of_shares, shares);
        replicas = 1;
    }
    (devices > 0).then_some(Offer {
        vendor,
        resource,
        devices,
        replicas,
        slices,
    })
}
