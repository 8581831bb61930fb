//! Small fleets for tests.

use std::sync::Arc;
use std::time::Duration;

use crate::base::{DeviceAmount, Moment, Name, ObjectKey};
use crate::fleet::Fleet;
use crate::fleet::device::{Attribution, Device, Health, Pod, Slice, TeamSource};
use crate::fleet::job::JobKey;
use crate::fleet::node::Node;
use crate::fleet::observed::seen::{NodeSeen, PodSeen};
use crate::fleet::rules::accelerator::{DeviceKind, Vendor};
use crate::fleet::rules::policy::Policy;
use crate::fleet::signal::{Signal, Signals};

/// The moment at which sample fleets stand.
pub fn now() -> Moment {
    Moment::parse("2026-11-21T06:40:00Z").expect("valid")
}

/// A pod scheduled an hour ago.
pub fn pod(namespace: &str, name: &str, queue: Option<&str>, team: &str) -> Arc<Pod> {
    let job = name.rsplit_once('-').map_or(name, |(job, _)| job);
    Arc::new(Pod {
        seen: Arc::new(PodSeen {
            key: ObjectKey::new(namespace, name),
            node: Some(Name::new("somewhere")),
            created: now().minus(Duration::from_secs(3660)),
            scheduled: Some(now().minus(Duration::from_secs(3600))),
            ..PodSeen::default()
        }),
        job: JobKey {
            key: ObjectKey::new(namespace, job),
            kind: Name::new("Job"),
        },
        queue: queue.map(Name::new),
        team: Name::new(team),
        team_source: TeamSource::Label,
    })
}

/// A healthy device that was read 10 s ago at 63 % utilization.
pub fn device(node: &str, index: u32, class: &str) -> Device {
    Device {
        id: Name::from(format!("{node}/gpu{index}")),
        index,
        uuid: Some(Name::from(format!("GPU-{node}-{index}"))),
        serial: None,
        pci: None,
        vendor: Vendor::Nvidia,
        kind: DeviceKind::Gpu,
        model: Name::from(format!("NVIDIA {class}")),
        class: Name::new(class),
        resource: Name::new("nvidia.com/gpu"),
        holder: None,
        attribution: Attribution::None,
        health: Health::Ok,
        signals: signals(0.63),
        read_at: Some(now().minus(Duration::from_secs(10))),
        interval: Duration::from_secs(30),
        idle_since: None,
        idle_first_seen: false,
        slices: Box::default(),
        makes_slices: false,
        fractions: false,
    }
}

/// Readings of a device at this utilization.
pub fn signals(util: f64) -> Signals {
    [
        (Signal::Util, util),
        (Signal::MemUsed, 64e9),
        (Signal::MemTotal, 80e9),
        (Signal::Temp, 66.0),
        (Signal::Power, 612.0),
        (Signal::PowerLimit, 700.0),
    ]
    .into_iter()
    .collect()
}

/// The device doing nothing, for an hour.
pub fn resting(mut device: Device) -> Device {
    device.signals = signals(0.0);
    device.idle_since = Some(now().minus(Duration::from_secs(3_600)));
    device
}

/// The device, allocated whole to a pod.
pub fn allocated_to(mut device: Device, by: &Arc<Pod>) -> Device {
    device.holder = Some(Arc::clone(by));
    device.attribution = Attribution::Exporter;
    device
}

/// The device cut into slices of these names and holders: MIG instances of seven compute slices where the names say how many they
/// have, else all alike.
pub fn sliced(mut device: Device, slices: &[(&str, Option<&Arc<Pod>>)]) -> Device {
    let units = |name: &str| name.split_once("g.")?.0.parse::<u64>().ok();
    let all: Option<Vec<u64>> = slices.iter().map(|(name, _)| units(name)).collect();
    let (units, all) = match all {
        Some(units) => (units, 7),
        None => (vec![1; slices.len()], slices.len() as u64),
    };
    let mut before = 0;
    device.slices = slices
        .iter()
        .zip(units)
        .map(|((name, holder), units)| Slice {
            share: {
                before += units;
                Some(DeviceAmount::cut(before - units, units, all))
            },
            name: Name::new(name),
            resource: None,
            holder: holder.map(Arc::clone),
            attribution: if holder.is_some() {
                Attribution::Exporter
            } else {
                Attribution::None
            },
            signals: Signals::default(),
        })
        .collect();
    device
}

pub fn node(name: &str, pool: &str, instance: Option<&str>, devices: Vec<Device>) -> Node {
    Node {
        seen: Arc::new(NodeSeen {
            name: Name::new(name),
            ..NodeSeen::default()
        }),
        pool: Name::new(pool),
        ready: Some(true),
        ready_since: None,
        cordon: None,
        billing: None,
        instance_type: instance.map(Name::new),
        zone: None,
        region: None,
        rack: None,
        topology: Box::default(),
        clique: None,
        driver: None,
        device_capacity: devices.len() as u32,
        device_allocatable: devices.len() as u32,
        withheld: false,
        ignored_counts: Box::default(),
        devices: devices.into_boxed_slice(),
        pod_count: 0,
        others: Box::default(),
        pods: Box::default(),
    }
}

/// A fleet of these nodes, and nothing else.
pub fn fleet(nodes: Vec<Node>) -> Fleet {
    let mut nodes: Vec<Arc<Node>> = nodes.into_iter().map(Arc::new).collect();
    nodes.sort_by(|a, b| a.name().cmp(b.name()));
    Fleet {
        at: now(),
        nodes: Arc::from(nodes),
        ..Fleet::unknown(Arc::new(Policy::default()))
    }
}
