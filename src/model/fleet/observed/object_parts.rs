//! What objects of Kubernetes are made of: labels, resources, taints, owners, phases and failures.

use serde::{Deserialize, Serialize};

use crate::base::{Moment, Name, SmallSort};

use super::claim::ClaimAsk;

/// Labels or annotations, sorted by key.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(from = "Vec<(Name, Name)>")]
pub struct Labels(Box<[(Name, Name)]>);

impl Labels {
    pub fn get(&self, key: &str) -> Option<&Name> {
        self.0
            .binary_search_by(|(known, _)| known.as_str().cmp(key))
            .ok()
            .map(|at| &self.0[at].1)
    }

    /// The value of the first key that is present and not empty.
    pub fn first<'a>(&self, keys: impl IntoIterator<Item = &'a str>) -> Option<&Name> {
        keys.into_iter()
            .find_map(|key| self.get(key).filter(|value| !value.is_empty()))
    }

    /// Keys and values in key order.
    pub fn iter(&self) -> impl Iterator<Item = (&Name, &Name)> + '_ {
        self.0.iter().map(|(key, value)| (key, value))
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Sorts again: a file may have any order.
impl From<Vec<(Name, Name)>> for Labels {
    fn from(pairs: Vec<(Name, Name)>) -> Self {
        pairs.into_iter().collect()
    }
}

impl FromIterator<(Name, Name)> for Labels {
    fn from_iter<I: IntoIterator<Item = (Name, Name)>>(pairs: I) -> Self {
        let mut all: Vec<(Name, Name)> = pairs.into_iter().collect();
        all.small_sort();
        all.dedup_by(|later, first| later.0 == first.0);
        Self(all.into_boxed_slice())
    }
}

/// Resources of a node, or requests of a pod.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Resources {
    /// CPU in thousandths of a core.
    pub cpu_milli: i64,
    /// Memory of a node, or requested by a pod, bytes.
    pub memory_bytes: i64,
    /// Accelerators by extended-resource name (`nvidia.com/gpu`), sorted; zeros are kept.
    pub devices: Box<[(Name, u32)]>,
    /// Requests by resource claim, with their count; the ledger adds the devices of the claims.
    pub claims: Box<[(ClaimAsk, u32)]>,
    /// The part of each device that is requested; `None` for whole devices.
    pub part: Option<DevicePart>,
}

/// A part of a device, as a scheduler that shares devices is asked for it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum DevicePart {
    /// Thousandths of a device, 1 to 1000.
    Milli(u32),
    /// MiB of its memory.
    MemoryMib(u64),
}

/// What a scheduler's placeholder pod holds a device for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Reserved {
    /// The group of pods that share the device.
    pub group: Name,
    /// Index or id of the device, where it is known.
    pub device: Option<Name>,
}

impl Resources {
    /// True when devices are requested, or may be: a claim lists its devices elsewhere.
    pub fn wants_devices(&self) -> bool {
        self.device_count() > 0 || !self.claims.is_empty()
    }

    /// Every accelerator, under any resource name.
    pub fn device_count(&self) -> u32 {
        self.devices
            .iter()
            .fold(0, |sum, (_, count)| u32::saturating_add(sum, *count))
    }

    /// The count of one resource; `None` when it is absent.
    pub fn device(&self, resource: &str) -> Option<u32> {
        self.devices
            .iter()
            .find(|(name, _)| &**name == resource)
            .map(|(_, count)| *count)
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Taint {
    pub key: Name,
    /// Value, may be empty.
    pub value: Name,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: Name,
    /// When it was added, where the API says so.
    pub since: Option<Moment>,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct OwnerRef {
    /// Kind, such as `Job`.
    pub kind: Name,
    /// Name, in the same namespace.
    pub name: Name,
    pub uid: Name,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub enum Phase {
    /// Accepted; not all containers are running.
    #[default]
    Pending,
    /// Scheduled; at least one container is running.
    Running,
    Succeeded,
    Failed,
    /// The node does not answer.
    Unknown,
}

impl Phase {
    /// True once no container runs again: its devices are free.
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

/// Why a workload stopped.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkloadFailure {
    /// Exit code of the last terminated container.
    pub exit_code: Option<i32>,
    /// `OOMKilled`, `Error`, `Evicted`, … with the message where there is one.
    pub message: Name,
    pub restarts: u32,
    /// When the container that failed last ended, where that is reported.
    pub ended: Option<Moment>,
    /// Time of the last eviction of a pod.
    pub last_eviction: Option<Moment>,
    /// Time of the restart that ended the failure; `None` while it lasts.
    pub restarted: Option<Moment>,
    /// True when the message after its first colon is the container's own last output, which may be the end of its log.
    pub own_words: bool,
}
