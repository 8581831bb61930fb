//! Fractions of devices that KAI gives to pods: they request no device of their plugin. A placeholder pod of KAI's holds each shared
//! device, and a label names the group of pods that share it.
//!
//! Source: KAI's binder and its resource reservation (`pkg/binder/binding/resourcereservation`).

use std::sync::Arc;

use model::base::{DeviceAmount, Moment, Name, ObjectKey};
use model::fleet::device::{Attribution, Device, Pod};
use model::fleet::object_parts::DevicePart;
use model::fleet::seen::{NodeSeen, PodSeen};
use model::fleet::signal::Signal;

use super::readings::NodeReadings;
use super::slice_shares;

/// The label that names the group of a pod, or (behind a slash) begins the one for each of its groups.
const GROUP: &str = "runai-gpu-group";

/// Pods that share one device.
pub(crate) struct FractionGroup {
    name: Name,
    /// The placeholder that holds the device for them.
    placeholder: Option<ObjectKey>,
    /// Index or id of the device, where the placeholder says it.
    device: Option<Name>,
    pods: Vec<Arc<Pod>>,
}

pub(crate) fn of_node(pods: &[Arc<Pod>], others: &[Arc<PodSeen>]) -> Vec<FractionGroup> {
    let mut groups: Vec<FractionGroup> = Vec::new();
    for pod in pods {
        if pod.seen.requests.part.is_none() || !pod.holds_devices() {
            continue;
        }
        let labels = pod.seen.labels.iter();
        let mut names: Vec<Name> = labels
            .filter_map(|(key, value)| match key.strip_prefix(GROUP)? {
                "" => Some(value.clone()),
                rest => rest.strip_prefix('/').map(Name::new),
            })
            .collect();
        // KAI may not have labelled it yet: it has as many devices all the same.
        for at in names.len()..pod.seen.requests.device_count() as usize {
            names.push(Name::from(format!("{}/{at}", pod.key())));
        }
        for name in names {
            match groups.iter_mut().find(|group| group.name == name) {
                Some(group) => group.pods.push(Arc::clone(pod)),
                None => groups.push(FractionGroup {
                    name,
                    placeholder: None,
                    device: None,
                    pods: vec![Arc::clone(pod)],
                }),
            }
        }
    }
    for other in others {
        let Some(reserved) = &other.reserves else {
            continue;
        };
        if let Some(group) = groups.iter_mut().find(|group| group.name == reserved.group) {
            group.placeholder = Some(other.key.clone());
            group.device = reserved.device.clone();
        }
    }
    groups.sort_by(|a, b| a.name.cmp(&b.name));
    groups
}

impl FractionGroup {
    /// The device that the placeholder says, or that an exporter says the placeholder holds.
    pub(crate) fn named(
        &self,
        devices: &[Device],
        readings: &NodeReadings,
        at: Moment,
    ) -> Option<usize> {
        let is_own = |device: &&Device| {
            let index = device.index.to_string();
            let is_named = self.device.as_ref().is_some_and(|is_named| {
                is_named.as_str() == index || Some(is_named) == device.uuid.as_ref()
            });
            let read = readings.devices.get(&device.index);
            let read = read.and_then(|read| read.pod(at));
            is_named || (read.is_some() && read == self.placeholder.as_ref())
        };
        let mut free = devices.iter().enumerate().filter(|(_, one)| is_free(one));
        free.find(|(_, device)| is_own(device)).map(|(at, _)| at)
    }

    /// The pods that share the device.
    pub(crate) fn pods(&self) -> &[Arc<Pod>] {
        &self.pods
    }

    /// Divides a device among the pods; the rest is free.
    pub(crate) fn divide(&self, device: &mut Device, node: &NodeSeen, how: Attribution) {
        let parts = self.pods.iter().map(|pod| part(pod, device, node));
        let parts: Vec<Option<DeviceAmount>> = parts.collect();
        let parts = self.pods.iter().zip(parts).enumerate();
        let parts =
            parts.map(|(at, (pod, part))| (Name::from(format!("fraction-{at}")), pod, part));
        slice_shares::slice_among_pods(device, parts, how);
        device.fractions = true;
    }
}

/// True for a device that no pod holds and that nothing else divides.
pub(crate) fn is_free(device: &Device) -> bool {
    device.holder.is_none() && device.slices.is_empty()
}

/// The part of a device that a pod asked for; `None` where that takes a memory that is not known.
fn part(pod: &Pod, device: &Device, node: &NodeSeen) -> Option<DeviceAmount> {
    match pod.seen.requests.part? {
        DevicePart::Milli(milli) => Some(DeviceAmount::cut(0, u64::from(milli), 1000)),
        DevicePart::MemoryMib(mib) => {
            let read = device.signals.get(Signal::MemTotal);
            let read = read.map(|bytes| (bytes / 1_048_576.0) as u64);
            let label = || {
                node.labels
                    .get("nvidia.com/gpu.memory")?
                    .parse::<u64>()
                    .ok()
            };
            let all = read.filter(|mib| *mib > 0).or_else(label)?;
            (all > 0).then(|| DeviceAmount::cut(0, mib.min(all), all))
        }
    }
}
