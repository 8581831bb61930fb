//! Rows of `nodes`: location, devices and rate of each node.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use model::base::{DeviceAmount, Moment, Name};
use model::cost::Money;
use model::fleet::TableState;
use model::fleet::device::Device;
use model::fleet::finding::{Finding, Severity};
use model::fleet::node::{Cordon, Node};
use model::fleet::observe::Table;
use model::fleet::pool::{DeviceCounts, PoolSight, Unusable, VisibleCounts};
use model::fleet::signal::Signal;

use super::list_price::list_usd;
use crate::Facts;

/// Who cordoned a node, when and why, where known.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct CordonCell<'a> {
    /// The user who cordoned it.
    pub by: Option<&'a str>,
    /// When it was cordoned, RFC 3339.
    #[schemars(with = "Option<model::base::Moment>")]
    pub at: Option<String>,
    /// The reason that was given.
    pub reason: Option<&'a str>,
}

impl<'a> From<&'a Cordon> for CordonCell<'a> {
    fn from(cordon: &'a Cordon) -> Self {
        Self {
            by: cordon.by.as_deref(),
            at: cordon.at.map(|at| at.rfc3339()),
            reason: cordon.reason.as_deref(),
        }
    }
}

/// Counts of a node's devices. The first two come from the node's status, the rest from observed devices. Null where unknown:
/// the node's devices are requested by claim and RBAC hides their ResourceSlices, or the node reports an impossible count.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, JsonSchema)]
pub struct NodeDevices {
    /// Capacity in the node's status.
    pub capacity: Option<u32>,
    /// Allocatable in the node's status.
    pub allocatable: Option<u32>,
    /// Physical devices of the node.
    pub total: Option<u32>,
    /// Allocated devices, and of shared devices the parts that are allocated.
    pub allocated: Option<DeviceAmount>,
    /// Devices that are not allocated.
    pub free: Option<DeviceAmount>,
    /// Free devices that a new pod could use now: not cordoned, ready, healthy, allocatable.
    pub free_usable: Option<DeviceAmount>,
    /// Faulty devices, or all of them when the node is not ready.
    pub unhealthy: Option<u32>,
    /// Allocated devices that are idle.
    pub idle_allocated: Option<DeviceAmount>,
}

#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct NodeRow<'a> {
    /// Name of the Node object.
    pub name: &'a str,
    /// The pool that it belongs to.
    pub pool: &'a str,
    /// True when it is ready; null when its kubelet stopped posting node status.
    pub ready: Option<bool>,
    /// Its cordon; null when it is schedulable.
    #[schemars(extend("x-csv" = "json"))]
    pub cordoned: Option<CordonCell<'a>>,
    /// Machine type of the cloud, `p5.48xlarge`.
    pub instance_type: Option<&'a str>,
    /// Availability zone of the cloud.
    pub zone: Option<&'a str>,
    /// Rack, by the labels that the settings name.
    pub rack: Option<&'a str>,
    /// Its scale-up domain: the NVLink clique that all its GPUs are in, or the TPU slice.
    pub clique: Option<&'a str>,
    /// Topology levels from the widest to the narrowest, each with the node's value.
    #[serde(serialize_with = "by_level")]
    #[schemars(with = "std::collections::BTreeMap<&str, &str>")]
    pub topology: &'a [(Name, Name)],
    /// ID of the machine in its cloud (`spec.providerID`).
    pub provider_id: Option<&'a str>,
    /// Version of the device driver.
    pub driver_version: Option<&'a str>,
    /// Seconds since its creation; null where nodes cannot be listed.
    pub age_seconds: Option<u64>,
    /// Counts of its devices.
    pub devices: NodeDevices,
    /// Running and pending pods on it; null where RBAC hides some.
    pub pods: Option<u32>,
    /// Mean utilization of its devices, 0 to 1.
    #[schemars(range(min = 0, max = 1))]
    pub util_ratio: Option<f64>,
    /// Mean share of their memory in use, 0 to 1.
    #[schemars(range(min = 0, max = 1))]
    pub mem_used_ratio: Option<f64>,
    /// Temperature of its hottest device, degrees Celsius.
    pub temp_max_celsius: Option<f64>,
    /// Power drawn by its devices, watts.
    #[schemars(range(min = 0))]
    pub power_watts: Option<f64>,
    /// Rate of its devices, USD/h; null when none has a price, or it has none.
    #[schemars(range(min = 0))]
    pub burn_usd_per_hour: Option<f64>,
    /// The part of that rate that is list prices in place of what is paid, which is not known, USD/h.
    #[schemars(range(min = 0))]
    pub list_usd_per_hour: Option<f64>,
}

fn by_level<S: Serializer>(levels: &&[(Name, Name)], out: S) -> Result<S::Ok, S::Error> {
    let mut map = out.serialize_map(Some(levels.len()))?;
    for (level, value) in *levels {
        map.serialize_entry(level, value)?;
    }
    map.end()
}

/// State of a node; the most severe problem counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeState {
    Hidden,
    /// Nodes cannot be listed any more.
    Lost,
    /// Not ready, or its readiness is unknown.
    Down,
    /// Some of its devices are faulty.
    Faulty,
    /// An alert requires action on it.
    Alarmed,
    Cordoned,
    Ready,
}

/// A node's status as kubectl prints it, which needs no exporter: `Ready`, `NotReady`, `Unknown`, with `,SchedulingDisabled`
/// when it is cordoned; then `, none allocatable` where it has devices of which none can be allocated.
pub fn status(facts: &Facts, node: &Node) -> String {
    let state = state(facts, node);
    let ready = match (&state, node.ready) {
        ((NodeState::Hidden | NodeState::Lost, words), _) => return words.clone().into_owned(),
        (_, Some(true)) => "Ready",
        (_, Some(false)) => "NotReady",
        // The kubelet stopped posting node status; without any condition the status is unknown.
        (_, None) if node.ready_since.is_some() => "NotReady",
        (_, None) => "Unknown",
    };
    let cordoned = match node.cordon {
        Some(_) => ",SchedulingDisabled",
        None => "",
    };
    let none = if offers_none(node) {
        ", none allocatable"
    } else {
        ""
    };
    format!("{ready}{cordoned}{none}")
}

/// A node's state with its words: not ready before faults before alerts. A cordon is always mentioned.
pub fn state<'a>(facts: &'a Facts, node: &Node) -> (NodeState, Cow<'a, str>) {
    let (state, words) = worst(facts, node);
    let words = match (&node.cordon, state) {
        (None, _) | (_, NodeState::Cordoned | NodeState::Hidden | NodeState::Lost) => words,
        _ => Cow::Owned(format!("{words}, cordoned")),
    };
    (state, words)
}

fn worst<'a>(facts: &'a Facts, node: &Node) -> (NodeState, Cow<'a, str>) {
    let faults = node
        .devices
        .iter()
        .filter(|device| device.health.is_fault());
    match (node.ready, faults.count(), &node.cordon) {
        _ if facts.fleet.is_hidden(Table::Nodes) => {
            (NodeState::Hidden, Cow::Borrowed("not visible"))
        }
        _ if matches!(facts.fleet.visibility(Table::Nodes), TableState::Lost(_)) => {
            (NodeState::Lost, Cow::Borrowed("stale"))
        }
        (Some(false), ..) => (NodeState::Down, Cow::Borrowed("not ready")),
        (None, ..) if node.ready_since.is_some() => (NodeState::Down, Cow::Borrowed("not ready")),
        (None, ..) => (NodeState::Down, Cow::Borrowed("unknown")),
        (_, 1, _) => (NodeState::Faulty, Cow::Borrowed("1 fault")),
        (_, faults @ 2.., _) => (NodeState::Faulty, Cow::Owned(format!("{faults} faults"))),
        (_, _, cordon) => match (alarm(facts, node), cordon) {
            (Some(finding), _) => (NodeState::Alarmed, Cow::Borrowed(finding.code.as_str())),
            // Even if the alert is muted or still too recent: no pod with devices can start there.
            (None, _) if offers_none(node) => {
                (NodeState::Faulty, Cow::Borrowed("none allocatable"))
            }
            (None, Some(_)) => (NodeState::Cordoned, Cow::Borrowed("cordoned")),
            (None, None) => (NodeState::Ready, Cow::Borrowed("ready")),
        },
    }
}

/// True for a node that has devices but none allocatable.
fn offers_none(node: &Node) -> bool {
    let has = node.device_capacity > 0 || !node.devices.is_empty();
    has && node.device_allocatable == 0 && node.is_counted() && node.ignored_counts.is_empty()
}

/// The finding that requires action on this node or on one of its devices, unless it is muted or acknowledged.
pub fn alarm<'a>(facts: &'a Facts, node: &Node) -> Option<&'a Finding> {
    let mut alerts = alerts_of(facts, node);
    alerts.find(|finding| finding.severity == Severity::Crit)
}

/// The warning on a node, otherwise on one of its devices; muted and acknowledged ones are skipped.
pub fn warning<'a>(facts: &'a Facts, node: &Node) -> Option<&'a Finding> {
    alerts_of(facts, node)
        .filter(|finding| finding.severity == Severity::Warn)
        .min_by_key(|finding| finding.subject.kind != "Node")
}

/// True for a node with a finding on itself or on one of its devices.
pub fn has_alert(facts: &Facts, node: &Node) -> bool {
    let grave = [Severity::Crit, Severity::Warn];
    alerts_of(facts, node).any(|finding| grave.contains(&finding.severity))
}

/// The findings of a node and of its devices that are neither muted nor acknowledged; in a scope those that concern it.
fn alerts_of<'a>(facts: &'a Facts, node: &Node) -> impl Iterator<Item = &'a Finding> {
    let of_node = |finding: &&Finding| match finding.subject.kind {
        "Node" => finding.subject.key.name == *node.name(),
        "Device" => {
            let of = finding.subject.key.name.rsplit_once('/');
            of.is_some_and(|(of, _)| of == node.name().as_str())
        }
        _ => false,
    };
    facts
        .fleet
        .findings
        .iter()
        .filter(of_node)
        .filter(|finding| facts.silences.of(finding, facts.now).is_none())
        .filter(|finding| facts.concerns(finding))
}

/// Who cordoned a node and why, where known; `None` for a schedulable node.
pub fn cordoned_by(node: &Node) -> Option<String> {
    let cordon = node.cordon.as_ref()?;
    let parts = [&cordon.by, &cordon.reason];
    let stated: Vec<&str> = parts.iter().filter_map(|part| part.as_deref()).collect();
    Some(match stated.is_empty() {
        true => String::from("not recorded"),
        false => stated.join(": "),
    })
}

/// The mean of the known values of some devices.
pub fn mean<'a>(
    devices: impl Iterator<Item = &'a Device>,
    of: impl Fn(&Device) -> Option<f64>,
) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0u32);
    for value in devices.filter_map(of) {
        sum += value;
        count += 1;
    }
    (count > 0).then(|| sum / f64::from(count))
}

/// Power drawn by devices, watts; `None` without a reading.
pub fn power<'a>(devices: impl Iterator<Item = &'a Device>) -> Option<f64> {
    let known = devices.filter_map(|device| device.signals.get(Signal::Power));
    known.reduce(|sum, watts| sum + watts)
}

/// The temperature of the hottest device, degrees Celsius.
pub fn hottest<'a>(devices: impl Iterator<Item = &'a Device>) -> Option<f64> {
    let known = devices.filter_map(|device| device.signals.get(Signal::Temp));
    known.reduce(f64::max)
}

/// When a node was created; `None` where nodes cannot be listed and only its name is known.
pub fn created(node: &Node) -> Option<Moment> {
    Some(node.seen.created).filter(|at| *at != Moment::default())
}

/// Counts of a node's devices that may be shown with the current RBAC rights. In a scope, allocated and idle count the devices of
/// its jobs; free counts unallocated devices.
pub fn counts(facts: &Facts, node: &Node) -> VisibleCounts {
    let mut counts = DeviceCounts {
        total: node.devices.len() as u32,
        unusable: Unusable::of(node),
        ..DeviceCounts::default()
    };
    for device in &node.devices {
        counts.free += device.free();
    }
    for device in facts.devices_of(node) {
        let held = facts.held_of(device);
        counts.allocated += held;
        counts.unhealthy += u32::from(device.health.is_fault() || node.ready != Some(true));
        if facts.fleet.is_idle(device) {
            counts.idle_allocated += held;
        }
    }
    counts.seen_with(PoolSight {
        nodes: !facts.fleet.is_hidden(Table::Nodes) && node.is_counted(),
        pods: facts.fleet.sees_all_work(),
    })
}

/// Allocatable devices in the node's status; `None` where they are not known.
pub fn allocatable(facts: &Facts, node: &Node) -> Option<u32> {
    let is_known = counts(facts, node).total.is_some() && node.ignored_counts.is_empty();
    is_known.then_some(node.device_allocatable)
}

pub fn row<'a>(facts: &'a Facts, node: &'a Node) -> NodeRow<'a> {
    let listed = !facts.fleet.is_hidden(Table::Nodes);
    let counts = counts(facts, node);
    let is_known = counts.total.is_some() && node.ignored_counts.is_empty();
    let devices = NodeDevices {
        capacity: is_known.then_some(node.device_capacity),
        allocatable: allocatable(facts, node),
        total: counts.total,
        allocated: counts.allocated,
        free: counts.free,
        free_usable: counts.free_usable,
        unhealthy: counts.unhealthy,
        idle_allocated: counts.idle_allocated,
    };
    let burn = facts.rate_of_node(node.name()).filter(|_| listed);
    NodeRow {
        name: node.name(),
        pool: &node.pool,
        ready: node.ready,
        cordoned: node.cordon.as_ref().map(CordonCell::from),
        instance_type: node.instance_type.as_deref(),
        zone: node.zone.as_deref(),
        clique: node.clique.as_deref(),
        rack: node.rack.as_deref(),
        topology: &node.topology,
        provider_id: node.seen.provider_id.as_deref(),
        driver_version: node.driver.as_deref(),
        age_seconds: created(node).map(|at| facts.now.since(at).seconds()),
        devices,
        pods: facts.fleet.sees_all_work().then_some(node.pod_count),
        util_ratio: mean(facts.devices_of(node), Device::util),
        mem_used_ratio: mean(facts.devices_of(node), Device::memory_ratio),
        temp_max_celsius: hottest(facts.devices_of(node)),
        power_watts: power(facts.devices_of(node)),
        burn_usd_per_hour: burn.map(Money::usd),
        list_usd_per_hour: list_usd(burn),
    }
}
