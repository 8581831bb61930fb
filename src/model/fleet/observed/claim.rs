//! Dynamic resource allocation: published devices, claims and their allocation.
//!
//! Source: Kubernetes' dynamic resource allocation, `resource.k8s.io` in v1, v1beta2 and v1beta1.

use serde::{Deserialize, Serialize};

use crate::base::{DeviceAmount, Name, ObjectKey};

use super::object_parts::Taint;
use crate::fleet::queueing::siting::NodeTerm;

/// A claim reference of a pod spec: an object of this name in the pod's namespace.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum ClaimAsk {
    /// A claim that several pods may share.
    Claim(Name),
    /// A template that creates a claim for each pod.
    Template(Name),
}

/// The nodes that can access a device.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum DeviceAccess {
    Node(Name),
    /// Nodes that match one of these terms.
    Nodes(Box<[NodeTerm]>),
    All,
    /// Set per device, or not at all.
    #[default]
    Unsaid,
}

/// An amount of a counter that devices share.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CounterAmount {
    pub set: Name,
    pub counter: Name,
    /// Thousandths of its unit, above 0.
    pub milli: i64,
}

/// An amount of one capacity of a device.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CapacityAmount {
    /// The capacity: `memory`, with its domain where it has one.
    pub name: Name,
    /// Thousandths of its unit, above 0.
    pub milli: i64,
}

/// One device that a driver publishes: a whole device or a partition.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Published {
    /// Its name in its pool.
    pub name: Name,
    /// The nodes that can access it, where set per device.
    pub reach: DeviceAccess,
    pub uuid: Option<Name>,
    /// The UUID of the device that it is a partition of.
    pub parent: Option<Name>,
    pub pci: Option<Name>,
    pub product: Option<Name>,
    /// Index on its node; for a partition, that of its device.
    pub index: Option<u32>,
    /// Profile (`1g.10gb`) of a partition.
    pub profile: Option<Name>,
    /// True for a partition.
    pub part: bool,
    /// Memory of the device, bytes.
    pub memory: Option<i64>,
    pub version: Option<Name>,
    /// Shared counter sets that it consumes: devices with a common set overlap.
    pub counters: Box<[Name]>,
    /// How much it consumes of each of their counters.
    pub draws: Box<[CounterAmount]>,
    /// The capacities of a device that several claims may share (`allowMultipleAllocations`); `None` for others.
    pub shared: Option<Box<[CapacityAmount]>>,
    pub taints: Box<[Taint]>,
}

/// A ResourceSlice: some of the devices of one pool of a driver.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SliceSeen {
    /// Name of the object.
    pub name: Name,
    pub driver: Name,
    pub pool: Name,
    /// Generation of the pool: slices of an older generation are obsolete.
    pub generation: i64,
    /// Number of slices of the pool in this generation.
    pub slices: u32,
    /// The nodes that can access its devices.
    pub reach: DeviceAccess,
    pub devices: Box<[Published]>,
    /// What its counter sets have in all.
    pub counters: Box<[CounterAmount]>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ClaimRequest {
    pub name: Name,
    pub class: Name,
    /// Devices; one for `All`, which only the allocation can count.
    pub count: u32,
    /// True for all devices that match.
    pub all: bool,
    /// Admin access, to monitor allocated devices: it allocates none itself.
    pub admin: bool,
}

/// One device allocated to a claim.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ClaimResult {
    /// The request, with the subrequest after a slash.
    pub request: Name,
    pub driver: Name,
    pub pool: Name,
    pub device: Name,
    pub admin: bool,
    /// Capacity that it consumes of a device that several claims share (`consumedCapacity`).
    pub consumed: Option<Consumed>,
}

/// A claim's part of a device that several claims share.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Consumed {
    /// Id of the part (`shareID`), the same for all pods of the claim.
    pub share: Name,
    /// Amount of each capacity of the device that it takes.
    pub amounts: Box<[CapacityAmount]>,
}

impl Consumed {
    /// The part of a device with these capacities: the largest of its parts of single capacities. `None` if it takes none of them.
    pub fn part_of(&self, capacities: &[CapacityAmount]) -> Option<DeviceAmount> {
        let of = |one: &CapacityAmount| {
            let all = capacities.iter().find(|all| all.name == one.name)?;
            let (part, all) = (
                u64::try_from(one.milli).ok()?,
                u64::try_from(all.milli).ok()?,
            );
            Some(DeviceAmount::cut(0, part.min(all), all))
        };
        self.amounts.iter().filter_map(of).max()
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ClaimSeen {
    pub key: ObjectKey,
    /// Its requests; for alternatives, the preferred one.
    pub requests: Box<[ClaimRequest]>,
    /// Its allocation; `None` before it.
    pub results: Option<Box<[ClaimResult]>>,
    /// Uids of the pods that it is reserved for.
    pub pods: Box<[Name]>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TemplateSeen {
    pub key: ObjectKey,
    /// Requests of each claim that it creates.
    pub requests: Box<[ClaimRequest]>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ClassSeen {
    pub name: Name,
    /// The driver of its devices, where its selectors name one.
    pub driver: Option<Name>,
    /// True when it selects partitions.
    pub parts: bool,
    /// The extended resource that also requests it.
    pub extended: Option<Name>,
}

/// Domain of the extended resources that request a device of the class after the slash.
pub const BY_CLASS: &str = "deviceclass.resource.kubernetes.io";

/// Maximum number of devices allocated to one claim.
///
/// Source: `AllocationResultsMaxSize` of resource.k8s.io.
pub const MOST_RESULTS: u32 = 32;

/// True when a driver of this name manages accelerators, rather than network ports, CPUs or channels.
pub fn is_accelerator_driver(driver: &str) -> bool {
    const WORDS: &[&str] = &[
        "gpu", "gpus", "vgpu", "tpu", "npu", "xpu", "dcu", "gcu", "mlu", "mig", "gaudi", "neuron",
        "rngd",
    ];
    let first = driver.split('.').next().unwrap_or_default();
    first.split('-').any(|word| WORDS.contains(&word))
}

/// The driver of a device class, by the class name alone, and whether the class selects partitions.
pub fn driver_of_class_name(class: &str) -> Option<(&str, bool)> {
    match class {
        "mig.nvidia.com" => Some(("gpu.nvidia.com", true)),
        "vfio.gpu.nvidia.com" => Some(("gpu.nvidia.com", false)),
        name => is_accelerator_driver(name).then_some((name, false)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accelerator_drivers_are_recognized() {
        for driver in [
            "gpu.nvidia.com",
            "tpu.google.com",
            "gpu.intel.com",
            "gpu.amd.com",
            "gaudi.intel.com",
            "npu.furiosa.ai",
            "hami-core-gpu.project-hami.io",
            "gpu.example.com",
        ] {
            assert!(is_accelerator_driver(driver), "{driver}");
        }
        for driver in [
            "compute-domain.nvidia.com",
            "dra.net",
            "dra.cpu",
            "qat.intel.com",
            "",
            ".",
            "nic.gpu.example.com",
        ] {
            assert!(!is_accelerator_driver(driver), "{driver}");
        }
        assert_eq!(
            driver_of_class_name("mig.nvidia.com"),
            Some(("gpu.nvidia.com", true))
        );
        assert_eq!(driver_of_class_name("fast-disks"), None);
    }
}
