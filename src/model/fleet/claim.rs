//! Devices by claim: what drivers publish of them, what claims ask for, and what these were given.
//!
//! Source: Kubernetes' dynamic resource allocation, `resource.k8s.io` in v1, v1beta2 and v1beta1.

use serde::{Deserialize, Serialize};

use crate::base::{Name, ObjectKey};

use super::observe::Taint;
use super::siting::NodeTerm;

/// What a pod's shape asks for by claim: an object of this name in the pod's namespace.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum ClaimAsk {
    /// A claim that others may share.
    Claim(Name),
    /// A template, out of which each pod gets a claim of its own.
    Template(Name),
}

/// From where a device can be reached.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum Reach {
    /// From this node.
    Node(Name),
    /// From nodes that one of these terms holds for.
    Nodes(Box<[NodeTerm]>),
    /// From everywhere.
    All,
    /// Each device says it for itself, or nobody says it.
    #[default]
    Unsaid,
}

/// One device that a driver publishes: a whole one or a part of one.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Published {
    /// Its name in its pool.
    pub name: Name,
    /// From where it can be reached, where it says so itself.
    pub reach: Reach,
    /// The vendor's id.
    pub uuid: Option<Name>,
    /// The vendor's id of the device that it is a part of.
    pub parent: Option<Name>,
    /// PCI address.
    pub pci: Option<Name>,
    /// Product name.
    pub product: Option<Name>,
    /// Index on its node; of a part, that of its device.
    pub index: Option<u32>,
    /// What it is cut to (`1g.10gb`), where it is a part.
    pub profile: Option<Name>,
    /// A part of a device, never a device.
    pub part: bool,
    /// Memory in bytes.
    pub memory: Option<i64>,
    /// Driver version.
    pub version: Option<Name>,
    /// Counters that it draws from: what draws from the same overlaps.
    pub counters: Box<[Name]>,
    /// Taints.
    pub taints: Box<[Taint]>,
}

/// A ResourceSlice: some of the devices of one pool of a driver.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SliceSeen {
    /// Name of the object.
    pub name: Name,
    /// Driver.
    pub driver: Name,
    /// Pool.
    pub pool: Name,
    /// Generation of the pool: slices of an older one say nothing any more.
    pub generation: i64,
    /// Slices that the pool has in this generation.
    pub slices: u32,
    /// From where its devices can be reached.
    pub reach: Reach,
    /// Devices.
    pub devices: Box<[Published]>,
}

/// One request of a claim.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ClaimRequest {
    /// Name.
    pub name: Name,
    /// Device class.
    pub class: Name,
    /// Devices; one for `All`, which only the allocation can count.
    pub count: u32,
    /// All devices that match.
    pub all: bool,
    /// To look at devices that others hold: it holds none itself.
    pub admin: bool,
}

/// One device that a claim was given.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ClaimResult {
    /// The request, with the alternative after a slash.
    pub request: Name,
    /// Driver.
    pub driver: Name,
    /// Pool.
    pub pool: Name,
    /// Device.
    pub device: Name,
    /// See [`ClaimRequest::admin`].
    pub admin: bool,
}

/// A ResourceClaim.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ClaimSeen {
    /// Namespace and name.
    pub key: ObjectKey,
    /// What it asks for; of alternatives the one that is liked best.
    pub requests: Box<[ClaimRequest]>,
    /// What it was given; `None` until then.
    pub results: Option<Box<[ClaimResult]>>,
    /// Ids of the pods that may use it.
    pub pods: Box<[Name]>,
}

/// A ResourceClaimTemplate.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TemplateSeen {
    /// Namespace and name.
    pub key: ObjectKey,
    /// What each claim made of it asks for.
    pub requests: Box<[ClaimRequest]>,
}

/// A DeviceClass.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ClassSeen {
    /// Name.
    pub name: Name,
    /// The driver whose devices it takes, where its selectors say so.
    pub driver: Option<Name>,
    /// It takes parts of devices.
    pub parts: bool,
    /// The extended resource that asks for it as well.
    pub extended: Option<Name>,
}

/// The domain of resources that ask for a device of the class after the slash.
pub const BY_CLASS: &str = "deviceclass.resource.kubernetes.io";

/// Most devices of one claim: the API gives no more.
///
/// Source: `AllocationResultsMaxSize` of resource.k8s.io.
pub const MOST_RESULTS: u32 = 32;

/// True when a driver of this name hands out accelerators, rather than network ports, CPUs or channels.
pub fn is_accelerator_driver(driver: &str) -> bool {
    const WORDS: &[&str] = &[
        "gpu", "gpus", "vgpu", "tpu", "npu", "xpu", "dcu", "gcu", "mlu", "mig", "gaudi", "neuron",
        "rngd",
    ];
    let first = driver.split('.').next().unwrap_or_default();
    first.split('-').any(|word| WORDS.contains(&word))
}

/// The driver behind a device class of which only the name is known, and whether it takes parts.
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
    fn drivers_of_accelerators_are_told_from_others() {
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
