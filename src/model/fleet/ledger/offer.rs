//! What a node offers: physical devices and how they are cut, from labels, capacity, readings and pods.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::base::Name;
use crate::fleet::accelerator::{DeviceKind, Vendor};
use crate::fleet::device::{Pod, Slice};
use crate::fleet::observe::NodeSeen;

use super::hami::{self, Registered};
use super::limits::{self, Ignored, MOST};
use super::mig::{Grid, Profile, gpus_for};
use super::models::Model;
use super::readings::NodeReadings;

/// What a node offers of one vendor: physical devices and how they are cut.
pub(super) struct Offer {
    pub(super) vendor: Vendor,
    /// The resource of a whole device.
    pub(super) resource: Name,
    /// Physical devices.
    pub(super) devices: u32,
    /// Shares of each device under time-slicing; 1 for none.
    pub(super) replicas: u32,
    /// Devices that are offered whole, in the node's own count.
    pub(super) whole: u32,
    /// MIG instances that the node offers.
    pub(super) slices: Vec<Offered>,
    /// What its GPUs are divided into.
    pub(super) grid: Option<Grid>,
    /// How its AMD GPUs are partitioned; empty where none is.
    pub(super) partitions: Vec<Partitioned>,
}

/// AMD GPUs of one compute partition mode.
pub(super) struct Partitioned {
    /// The resource of one partition.
    pub(super) resource: Name,
    /// The mode: `cpx`.
    pub(super) mode: Name,
    /// Partitions of each GPU; 1 in the mode `spx`.
    pub(super) parts: u32,
    /// GPUs.
    pub(super) devices: u32,
}

/// MIG instances of one profile.
pub(super) struct Offered {
    /// The resource of one.
    pub(super) resource: Name,
    pub(super) profile: Profile,
    /// Instances.
    pub(super) count: u32,
    /// Shares of each instance under time-slicing; 1 for none.
    pub(super) shares: u32,
}

impl Offer {
    /// The offer where drivers publish each device, in place of a plugin's.
    pub(super) fn by_claim(resource: &Name) -> Self {
        Self {
            vendor: vendor_of(resource),
            resource: resource.clone(),
            devices: 0,
            replicas: 1,
            whole: 0,
            slices: Vec::new(),
            grid: None,
            partitions: Vec::new(),
        }
    }

    /// True for a resource that is a part of a device. Under the single MIG strategy the plain resource is.
    pub(super) fn is_slice(&self, resource: &str) -> bool {
        mig_profile(resource).is_some()
            || resource.ends_with("/part")
            || self
                .slices
                .iter()
                .any(|one| one.resource.as_str() == resource)
            || self
                .partitions
                .iter()
                .any(|one| one.parts > 1 && one.resource.as_str() == resource)
    }

    /// True for a resource that this slice of a device serves: used by every pass of the join.
    pub(super) fn fits(&self, resource: &str, slice: &Slice) -> bool {
        match self.replicas > 1 {
            true => !self.is_slice(resource),
            false => {
                self.is_slice(resource)
                    && match &slice.resource {
                        Some(serves) => serves.as_str() == resource,
                        None => mig_profile(resource)
                            .and_then(Profile::of)
                            .is_some_and(|profile| Profile::of(&slice.name) == Some(profile)),
                    }
            }
        }
    }
}

pub(super) fn vendor_of(resource: &str) -> Vendor {
    let (domain, _) = resource.split_once('/').unwrap_or((resource, ""));
    match domain {
        "nvidia.com" | "gpu.nvidia.com" => Vendor::Nvidia,
        "amd.com" | "gpu.amd.com" => Vendor::Amd,
        "google.com" | "tpu.google.com" => Vendor::Google,
        "aws.amazon.com" | "neuron.aws.com" => Vendor::Aws,
        "gpu.intel.com" | "habana.ai" | "gaudi.intel.com" => Vendor::Intel,
        "furiosa.ai" => Vendor::Furiosa,
        "huawei.com" => Vendor::Huawei,
        "cambricon.com" => Vendor::Cambricon,
        "metax-tech.com" => Vendor::Metax,
        "rebellions.ai" => Vendor::Rebellions,
        _ => Vendor::Other,
    }
}

pub(super) fn kind_of(vendor: Vendor, resource: &str) -> DeviceKind {
    match vendor {
        Vendor::Nvidia | Vendor::Amd | Vendor::Metax => DeviceKind::Gpu,
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

/// What a node has, from labels, capacity, readings and pods. `None` without any device. Counts beyond [`MOST`] are ignored and
/// recorded.
pub(super) fn offer(
    node: &NodeSeen,
    registered: &[Registered],
    readings: &NodeReadings,
    pods: &[Arc<Pod>],
    ignored: &mut Ignored,
    model: impl FnOnce() -> Option<Model>,
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
    let mut slices: Vec<Offered> = Vec::new();
    for (resource, count) in &node.capacity.devices {
        if let Some(profile) = mig_profile(resource) {
            let plain = resource.strip_suffix(".shared").unwrap_or(resource);
            let shares = label_number(&format!("{plain}.replicas"))
                .unwrap_or(1)
                .max(1);
            // The kubelet keeps listing resources that it no longer has, with count 0.
            if *count > 0 {
                slices.push(Offered {
                    resource: resource.clone(),
                    profile: Profile::named(profile),
                    count: count.div_ceil(shares),
                    shares,
                });
            }
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
    let mut whole_count = 0;
    let mut grid = None;
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
        // Under the single MIG strategy the label counts instances, which the product label shows.
        let single = node
            .labels
            .get("nvidia.com/gpu.product")
            .and_then(|product| product.rsplit_once("-MIG-"))
            .and_then(|(_, profile)| Profile::of(profile));
        let is_single = single.is_some();
        if let Some(profile) = single {
            let instances = (counted / replicas).max(labelled.unwrap_or(0));
            slices.push(Offered {
                resource: resource.clone(),
                profile,
                count: instances,
                shares: replicas,
            });
            (labelled, physical, replicas) = (None, 0, 1);
        }
        if !slices.is_empty() {
            let known = model();
            // In MiB, so no count: it may be as large as it likes.
            let memory = node.labels.get("nvidia.com/gpu.memory");
            let memory_gib = memory
                .and_then(|mib| mib.parse::<u32>().ok())
                .filter(|mib| !is_single && *mib > 0)
                .map(|mib| f64::from(mib) / 1024.0)
                .or(known.as_ref().and_then(|known| known.memory_gib));
            let cut = Grid::of(
                known.as_ref().map(|known| known.class.as_str()),
                memory_gib,
                slices.iter().map(|one| &one.profile),
            );
            whole_count = physical;
            // The label counts every GPU, those that are cut as well.
            if labelled.is_none_or(|all| all <= physical) {
                let all: Vec<(Profile, u32)> = slices
                    .iter()
                    .map(|one| (one.profile.clone(), one.count))
                    .collect();
                physical += gpus_for(&cut, &all);
            }
            grid = Some(cut);
        }
    }
    let partitions = match vendor {
        Vendor::Amd => partitions(node, &whole),
        _ => Vec::new(),
    };
    if !partitions.is_empty() {
        physical = partitions.iter().map(|one| one.devices).sum();
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
    // Exporters number partitions as devices.
    let read = match partitions.is_empty() {
        true => read,
        false => read.min(physical),
    };
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
        whole: whole_count,
        slices,
        grid,
        partitions,
    })
}

/// How the AMD GPUs of a node are partitioned, from the names of its resources (`amd.com/cpx_nps4`) or, where all partitions have one
/// name, from its label; empty where every GPU is whole.
///
/// Source: AMD's device plugin (resource naming strategies) and node labeller (`amd.com/gpu.compute-memory-partition`).
fn partitions(node: &NodeSeen, whole: &BTreeMap<&Name, u32>) -> Vec<Partitioned> {
    let product = node
        .labels
        .first(["amd.com/gpu.product-name", "beta.amd.com/gpu.product-name"]);
    let labelled = node.labels.first([
        "amd.com/gpu.compute-memory-partition",
        "amd.com/compute-memory-partition",
    ]);
    let mode_of = |text: &str| {
        text.split_once("_nps")
            .map(|(mode, _)| mode.to_ascii_lowercase())
    };
    let offered = whole
        .iter()
        .filter(|(name, count)| **count > 0 && vendor_of(name) == Vendor::Amd);
    let all: Vec<Partitioned> = offered
        .filter_map(|(resource, count)| {
            let (_, name) = resource.split_once('/')?;
            let mode = mode_of(name).or_else(|| mode_of(labelled?))?;
            let parts = parts_of(&mode, product.map_or("", Name::as_str));
            Some(Partitioned {
                resource: (*resource).clone(),
                mode: Name::from(mode),
                parts,
                devices: count.div_ceil(parts),
            })
        })
        .collect();
    match all.iter().any(|one| one.parts > 1) {
        true => all,
        false => Vec::new(),
    }
}

/// Partitions of one GPU in a compute partition mode. In the mode `cpx` each of its compute dies is one: 8 of the MI300X, MI325X and
/// MI350 series, 6 of the MI300A, 4 of the MI308X (AMD Instinct MI300 documentation).
fn parts_of(mode: &str, product: &str) -> u32 {
    match mode {
        "dpx" => 2,
        "tpx" => 3,
        "qpx" => 4,
        "cpx" if product.contains("MI300A") => 6,
        "cpx" if product.contains("MI308") => 4,
        "cpx" => 8,
        _ => 1,
    }
}
