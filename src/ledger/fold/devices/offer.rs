//! What a node offers: physical devices and how they are cut, from labels, capacity, readings and pods.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::base::Name;
use model::fleet::accelerator::{DeviceKind, Vendor};
use model::fleet::device::{Pod, Slice};
use model::fleet::seen::NodeSeen;

use super::hami::{self, Registered};
use super::limits::{self, Ignored, MOST};
use super::mig::{MigGrid, MigProfile, gpus_for, mig_profile};
use super::models::Model;
use super::readings::NodeReadings;

/// What a node offers by one resource: physical devices and how they are cut.
pub(crate) struct Offer {
    pub(crate) vendor: Vendor,
    /// The resource of a whole device.
    pub(crate) resource: Name,
    /// Other resources of the same devices: `nvidia.com/gpu.shared`.
    pub(crate) same: Vec<Name>,
    pub(crate) devices: u32,
    /// Shares of each device under time-slicing; 1 for none.
    pub(crate) replicas: u32,
    /// Devices that are offered whole, in the node's own count.
    pub(crate) whole: u32,
    /// MIG instances that the node offers.
    pub(crate) slices: Vec<Offered>,
    /// What its GPUs are divided into.
    pub(crate) grid: Option<MigGrid>,
    /// How its AMD GPUs are partitioned; empty where none is.
    pub(crate) partitions: Vec<Partitioned>,
}

/// AMD GPUs of one compute partition mode.
pub(crate) struct Partitioned {
    /// The resource of one partition.
    pub(crate) resource: Name,
    pub(crate) mode: Name,
    /// Partitions of each GPU; 1 in the mode `spx`.
    pub(crate) parts: u32,
    pub(crate) devices: u32,
}

/// MIG instances of one profile.
pub(crate) struct Offered {
    /// The resource that counts these instances.
    pub(crate) resource: Name,
    pub(crate) profile: MigProfile,
    pub(crate) count: u32,
    /// Replicas of each instance under time-slicing; 1 without time-slicing.
    pub(crate) replicas: u32,
}

impl Offer {
    /// The offer where drivers publish each device, in place of a plugin's.
    fn by_claim(resource: &Name, others: &[Name]) -> Self {
        Self {
            vendor: vendor_of(resource),
            resource: resource.clone(),
            same: others.to_vec(),
            devices: 0,
            replicas: 1,
            whole: 0,
            slices: Vec::new(),
            grid: None,
            partitions: Vec::new(),
        }
    }

    /// True for a resource that is a part of a device. Under the single MIG strategy the plain resource is.
    pub(crate) fn is_slice(&self, resource: &str) -> bool {
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

    /// True for a resource of these devices or of their slices by its name.
    fn names(&self, resource: &str) -> bool {
        let slices = self.slices.iter().map(|one| &one.resource);
        let partitions = self.partitions.iter().map(|one| &one.resource);
        let mut all = slices
            .chain(partitions)
            .chain(&self.same)
            .chain([&self.resource]);
        all.any(|own| own.as_str() == resource)
    }

    /// True for a resource that this slice of a device serves.
    fn fits(&self, resource: &str, slice: &Slice) -> bool {
        match self.replicas > 1 {
            true => !self.is_slice(resource),
            false => {
                self.is_slice(resource)
                    && match &slice.resource {
                        Some(serves) => serves.as_str() == resource,
                        None => mig_profile(resource)
                            .and_then(MigProfile::of)
                            .is_some_and(|profile| MigProfile::of(&slice.name) == Some(profile)),
                    }
            }
        }
    }
}

/// Every resource that a node offers; each resource of other devices is an offer of its own.
#[derive(Default)]
pub(crate) struct Offers(pub(crate) Vec<Offer>);

impl Offers {
    /// The offer whose devices serve a resource: the one that names it, else one of the same vendor, or the first where either's vendor
    /// is not known. `None` where the node offers only devices of other vendors.
    fn serving(&self, resource: &str) -> Option<usize> {
        let vendor = vendor_of(resource);
        let of_vendor = |offer: &Offer| vendor != Vendor::Other && offer.vendor == vendor;
        let all = || self.0.iter();
        all()
            .position(|offer| offer.names(resource))
            .or_else(|| all().position(of_vendor))
            .or_else(|| {
                let first = self.0.first()?;
                let is_open = vendor == Vendor::Other || first.vendor == Vendor::Other;
                is_open.then_some(0)
            })
    }

    /// True for a resource that the whole devices of this offer serve: used by every pass of the join.
    pub(crate) fn is_whole(&self, at: usize, resource: &str) -> bool {
        self.serving(resource) == Some(at) && !self.0[at].is_slice(resource)
    }

    /// True for a resource that this slice of a device of this offer serves: used by every pass of the join.
    pub(crate) fn fits(&self, at: usize, resource: &str, slice: &Slice) -> bool {
        self.serving(resource) == Some(at) && self.0[at].fits(resource, slice)
    }
}

pub(crate) fn vendor_of(resource: &str) -> Vendor {
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

/// The vendor that a product string begins with, where the catalog does not know the product.
pub(crate) fn vendor_in(product: &str) -> Option<Vendor> {
    const STARTS: &[(&str, Vendor)] = &[
        ("nvidia", Vendor::Nvidia),
        ("tesla", Vendor::Nvidia),
        ("geforce", Vendor::Nvidia),
        ("quadro", Vendor::Nvidia),
        ("amd", Vendor::Amd),
        ("intel", Vendor::Intel),
    ];
    let lower = product.to_ascii_lowercase();
    let mut all = STARTS.iter();
    all.find(|(start, _)| lower.starts_with(start))
        .map(|(_, vendor)| *vendor)
}

pub(crate) fn kind_of(vendor: Vendor, resource: &str) -> DeviceKind {
    match vendor {
        Vendor::Nvidia | Vendor::Amd | Vendor::Metax => DeviceKind::Gpu,
        Vendor::Google => DeviceKind::Tpu,
        Vendor::Aws => DeviceKind::Other,
        // Drivers are named for the devices that they allocate.
        _ if resource.starts_with("gpu.") => DeviceKind::Gpu,
        _ if resource.starts_with("tpu.") => DeviceKind::Tpu,
        _ => DeviceKind::Other,
    }
}

/// What of a node's devices is known beside its object.
pub(crate) struct KnownDevices<'k> {
    /// Devices that HAMi registers.
    pub(crate) registered: &'k [Registered],
    pub(crate) readings: &'k NodeReadings,
    pub(crate) pods: &'k [Arc<Pod>],
    /// The model that its labels or readings say.
    pub(crate) model: Option<Model>,
    /// Whose devices its exporter reads, else whose its labels describe.
    pub(crate) vendor: Option<Vendor>,
    /// The resources of devices and parts that drivers publish, in place of a plugin.
    pub(crate) published: Vec<Name>,
}

/// What a node has, from labels, capacity, readings and pods; empty without any device. Counts beyond [`MOST`] are ignored and
/// recorded. The first offer is the one that labels and readings describe.
pub(crate) fn offers(node: &NodeSeen, known: &KnownDevices<'_>, ignored: &mut Ignored) -> Offers {
    let mut whole: BTreeMap<&Name, u32> = BTreeMap::new();
    let mut slices: Vec<Offered> = Vec::new();
    for (resource, count) in &node.capacity.devices {
        if let Some(profile) = mig_profile(resource) {
            let replicas = label_number(node, &format!("{}.replicas", plain(resource)), ignored)
                .unwrap_or(1)
                .max(1);
            // The kubelet keeps listing resources that it no longer has, with count 0.
            if *count > 0 {
                slices.push(Offered {
                    resource: resource.clone(),
                    profile: MigProfile::named(profile),
                    count: count.div_ceil(replicas),
                    replicas,
                });
            }
        } else if !resource.ends_with("/neuroncore") && !resource.ends_with(".monitoring") {
            whole.insert(resource, *count);
        }
    }
    let groups = groups(node, known, &whole, !slices.is_empty());
    // Labels and slices belong to NVIDIA's plain resource, or to the one that replaces it.
    let labelled = groups
        .iter()
        .position(|group| plain(&group[0]) == "nvidia.com/gpu")
        .or_else(|| {
            let mut all = groups.iter();
            all.position(|group| vendor_of(&group[0]) == Vendor::Nvidia)
        });
    let count = |group: &[Name]| whole.get(&group[0]).copied().unwrap_or(0);
    let mut out = Offers::default();
    if let Some((first, others)) = known.published.split_first() {
        out.0.push(Offer::by_claim(first, others));
    }
    let mut slices = Some(slices);
    let mut all = 0;
    for (at, group) in groups.iter().enumerate() {
        let same_vendor = groups.iter().enumerate().filter(|(other, others)| {
            *other != at && vendor_of(&others[0]) == vendor_of(&group[0])
        });
        let others: u32 = same_vendor.map(|(_, others)| count(others)).sum();
        let is_labelled = labelled == Some(at);
        let one = OfferGroup {
            names: group,
            counted: count(group),
            others,
            is_labelled,
            is_first: at == 0 && known.published.is_empty(),
        };
        let slices = slices.take_if(|_| is_labelled).unwrap_or_default();
        let Some(offer) = offer(node, known, one, (&whole, slices), ignored) else {
            continue;
        };
        all += offer.devices;
        match all > MOST {
            true => limits::claim(ignored, &offer.resource, offer.devices),
            false => out.0.push(offer),
        }
    }
    out
}

/// The number of a label, up to [`MOST`]; more is ignored and recorded.
fn label_number(node: &NodeSeen, key: &str, ignored: &mut Ignored) -> Option<u32> {
    let count = node.labels.get(key)?.parse::<u64>().ok()?;
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    if count > MOST {
        limits::claim(ignored, &Name::new(key), count);
        return None;
    }
    Some(count)
}

/// A resource without what its plugin adds where its devices are shared.
fn plain(resource: &str) -> &str {
    resource.strip_suffix(".shared").unwrap_or(resource)
}

/// What the resources of one device have in common. Plugins of most vendors offer a device under several names, whole and in parts;
/// those of NVIDIA, of Intel and of unknown vendors offer different devices under each name.
fn silicon(resource: &str) -> &str {
    let (domain, name) = resource.split_once('/').unwrap_or((resource, ""));
    match domain {
        "nvidia.com" => plain(resource),
        "huawei.com" => resource.split('-').next().unwrap_or(resource),
        _ if domain == "gpu.intel.com" || name.is_empty() => resource,
        _ if vendor_of(resource) == Vendor::Other => resource,
        _ => domain,
    }
}

/// True for a resource by which a scheduler offers shares of devices that a plugin may offer as well.
fn is_shares(resource: &str) -> bool {
    resource.starts_with("volcano.sh/") || resource.starts_with("hami.io/")
}

/// The resources of a node by the devices that they count: devices that its labels and readings describe come first, in each
/// group the most numerous first.
fn groups(
    node: &NodeSeen,
    known: &KnownDevices<'_>,
    whole: &BTreeMap<&Name, u32>,
    is_cut: bool,
) -> Vec<Vec<Name>> {
    let mut by_count: Vec<(&Name, u32)> =
        whole.iter().map(|(name, count)| (*name, *count)).collect();
    by_count.sort_by_key(|(name, count)| (std::cmp::Reverse(*count), *name));
    let is_shared_out = !known.registered.is_empty() || whole.keys().any(|name| is_shares(name));
    let mut groups: Vec<Vec<Name>> = Vec::new();
    for (name, count) in &by_count {
        let same = |group: &Vec<Name>| is_shared_out || silicon(&group[0]) == silicon(name);
        match groups.iter().position(same) {
            Some(at) => groups[at].push((*name).clone()),
            // The kubelet keeps listing resources that it no longer has.
            None if *count > 0 || groups.is_empty() => groups.push(vec![(*name).clone()]),
            None => {}
        }
    }
    let is_none = |groups: &[Vec<Name>]| {
        let first = groups.first().map(|group| &group[0]);
        first.is_none_or(|name| whole.get(name).is_none_or(|count| *count == 0))
    };
    let of_nvidia = |group: &Vec<Name>| vendor_of(&group[0]) == Vendor::Nvidia;
    let nvidia = || Name::new("nvidia.com/gpu");
    let promises = |key: &str| {
        let value = node.labels.get(key);
        value.is_some_and(|value| value.as_str() != "0")
    };
    if is_none(&groups) {
        let asked = known.pods.iter();
        let asked = asked.flat_map(|pod| pod.seen.requests.devices.iter().map(|(name, _)| name));
        let only = match groups.is_empty() {
            false => None,
            true if is_cut => Some(nvidia()),
            true => asked
                .min()
                .cloned()
                .or_else(|| promises("nvidia.com/gpu.count").then(nvidia))
                .or_else(|| {
                    promises("cloud.google.com/gke-tpu-accelerator")
                        .then(|| Name::new("google.com/tpu"))
                })
                .or_else(|| (!known.readings.devices.is_empty()).then(|| Name::new("unknown"))),
        };
        groups.extend(only.map(|name| vec![name]));
    }
    // Beside devices of another vendor: GPUs that are cut, or that no plugin offers now.
    let is_promised = is_cut || promises("nvidia.com/gpu.count");
    if !groups.is_empty() && is_promised && !is_shared_out && !groups.iter().any(of_nvidia) {
        groups.push(vec![nvidia()]);
    }
    if !known.published.is_empty() {
        let published = |vendor| known.published.iter().any(|one| vendor_of(one) == vendor);
        groups.retain(|group| {
            let vendor = vendor_of(&group[0]);
            vendor != Vendor::Other && !published(vendor)
        });
    }
    groups.sort_by_key(|group| Some(vendor_of(&group[0])) != known.vendor);
    groups
}

/// Resources of the same devices.
struct OfferGroup<'g> {
    /// The most numerous first.
    names: &'g [Name],
    /// How many the node has of the first.
    counted: u32,
    /// Devices of the same vendor that the node offers by other resources.
    others: u32,
    /// NVIDIA's labels and slices are of these.
    is_labelled: bool,
    /// Readings are of these.
    is_first: bool,
}

fn offer(
    node: &NodeSeen,
    known: &KnownDevices<'_>,
    group: OfferGroup<'_>,
    (whole, mut slices): (&BTreeMap<&Name, u32>, Vec<Offered>),
    ignored: &mut Ignored,
) -> Option<Offer> {
    let KnownDevices {
        registered,
        readings,
        ..
    } = *known;
    let counted = group.counted;
    let resource = group.names[0].clone();
    let mut label_number = |key: &str| label_number(node, key, ignored);
    let vendor = vendor_of(&resource);
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
        let own = label_number(&format!("{}.replicas", plain(&resource)));
        let of_gpus = || label_number("nvidia.com/gpu.replicas").filter(|_| group.is_labelled);
        replicas = own
            .or_else(of_gpus)
            .filter(|_| matches!(shared, None | Some("time-slicing" | "mps")))
            .unwrap_or(1)
            .max(1);
        physical = counted / replicas;
        // The label counts every device, under any resource that the node offers.
        labelled = label_number("nvidia.com/gpu.count")
            .filter(|_| group.is_labelled)
            .map(|all| all.saturating_sub(group.others));
        // Under the single MIG strategy the label counts instances, which the product label shows.
        let single = node
            .labels
            .get("nvidia.com/gpu.product")
            .and_then(|product| product.rsplit_once("-MIG-"))
            .and_then(|(_, profile)| MigProfile::of(profile));
        let is_single = single.is_some();
        if let Some(profile) = single {
            let instances = (counted / replicas).max(labelled.unwrap_or(0));
            slices.push(Offered {
                resource: resource.clone(),
                profile,
                count: instances,
                replicas,
            });
            (labelled, physical, replicas) = (None, 0, 1);
        }
        if !slices.is_empty() {
            let known = known.model.as_ref();
            // In MiB, so no count: it may be as large as it likes.
            let memory = node.labels.get("nvidia.com/gpu.memory");
            let memory_gib = memory
                .and_then(|mib| mib.parse::<u32>().ok())
                .filter(|mib| !is_single && *mib > 0)
                .map(|mib| f64::from(mib) / 1024.0)
                .or(known.and_then(|known| known.memory_gib));
            let cut = MigGrid::of(
                known.map(|known| known.class.as_str()),
                memory_gib,
                slices.iter().map(|one| &one.profile),
            );
            whole_count = physical;
            // The label counts every GPU, including GPUs with MIG instances.
            if labelled.is_none_or(|all| all <= physical) {
                let all: Vec<(MigProfile, u32)> = slices
                    .iter()
                    .map(|one| (one.profile.clone(), one.count))
                    .collect();
                physical += gpus_for(&cut, &all);
            }
            grid = Some(cut);
        }
    }
    let partitions = match vendor {
        Vendor::Amd => partitions(node, whole),
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
        .filter(|_| group.is_first)
        .map_or(0, |last| last.saturating_add(1))
        .saturating_sub(group.others);
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
        same: group.names[1..].to_vec(),
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

#[cfg(test)]
#[path = "tests_offers.rs"]
mod tests;
