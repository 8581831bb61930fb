//! Converts a live fleet to a [`Snapshot`], the same as reading its own document (`get fleet -o json`).
//!
//! Unknown limits are unlimited rather than zero; invalid objects (a flavor without a
//! name, a queue that is its own ancestor) are left out without an error.

mod counted;
mod kueue;
mod options;
mod queues;
mod workloads;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use model::base::{DeviceAmount, Name, ObjectKey};
use model::cost::{Money, SpendRates};
use model::fleet::device::{self, Pod};
use model::fleet::finding;
use model::fleet::finding::{Finding, Severity};
use model::fleet::observe::{self, Labels};
use model::fleet::queue::PriorityKind;
use model::fleet::{Fleet, node, siting};

use super::document::fill_up;
use super::snapshot::{
    EngineHealth, HeldDevices, OwnerRuntimes, PLENTY, Resident, Snapshot, SnapshotBudget,
    SnapshotDevice, SnapshotNode, SnapshotPriorityClass, SnapshotSlice, SnapshotTaint,
    SnapshotToleration, TaintEffect, Topology, WHOLE, Workload,
};

pub use queues::{CLASS, Titles};

/// Maximum number of topology levels in the engine.
const LEVELS: usize = 16;

/// Devices of each pod on its node, by the pod's key.
type DevicesByPod<'a> = BTreeMap<&'a ObjectKey, Vec<HeldDevices>>;

/// The engine's snapshot of a fleet, with its options.
pub fn snapshot(fleet: &Fleet, burn: &SpendRates) -> Snapshot {
    let titles = Titles::of(fleet);
    let mut grips = DevicesByPod::new();
    for node in fleet.nodes.iter() {
        add_devices(node, &mut grips);
    }
    let workloads = workloads::workloads(fleet, &titles, &grips);
    let (options, origins) = options::options(fleet);
    let mut snapshot = Snapshot {
        revision: fleet.revision,
        at: fleet.at,
        nodes: nodes(fleet, burn),
        topologies: fleet
            .topologies
            .iter()
            .filter(|topology| !topology.name.is_empty())
            .map(|topology| Topology {
                name: topology.name.clone(),
                levels: topology.levels.iter().take(LEVELS).cloned().collect(),
            })
            .collect(),
        flavors: queues::flavors(fleet, &workloads),
        queues: queues::queues(fleet, &titles),
        budgets: budgets(fleet),
        residents: residents(fleet, &workloads),
        workloads,
        classes: classes(fleet),
        runs: runs(fleet),
        routes: options::routes(fleet),
        options,
        origins,
        not_visible: fleet.unseen().into_iter().map(Name::new).collect(),
    };
    snapshot.settle();
    snapshot
}

/// Run times of past jobs, by group.
fn runs(fleet: &Fleet) -> Vec<OwnerRuntimes> {
    let runs = fleet.runtimes.iter().map(|(group, tenths)| OwnerRuntimes {
        owner: group.clone(),
        count: tenths.count,
        p10_ms: tenths.p10_ms,
        p50_ms: tenths.p50_ms,
        p90_ms: tenths.p90_ms,
    });
    runs.collect()
}

fn price(node: &node::Node, class: &Name, burn: &SpendRates) -> Option<Money> {
    burn.prices
        .iter()
        .filter(|group| {
            group.pool == node.pool
                && group.class == *class
                && (group.instance_type.is_none() || group.instance_type == node.instance_type)
                && (group.billing.is_none() || group.billing == node.billing)
        })
        .find_map(|group| Some(Money::of(group.price.as_ref()?)))
}

/// The only class of a node's devices; none if it has none, or several.
pub fn class_of(node: &node::Node) -> Option<&Name> {
    let mut classes = node.devices.iter().map(|device| &device.class);
    let first = classes.next()?;
    classes.all(|class| class == first).then_some(first)
}

fn nodes(fleet: &Fleet, burn: &SpendRates) -> Vec<SnapshotNode> {
    let by_class = !queues::classes(fleet).is_empty();
    let faults = faults_by_node(fleet);
    fleet
        .nodes
        .iter()
        .map(|node| {
            let mut labels = label_map(&node.seen.labels);
            if let Some(class) = class_of(node).filter(|_| by_class) {
                labels.insert(Name::new(CLASS), queues::class_word(class));
            }
            let seen = &node.seen;
            let mut devices: Vec<SnapshotDevice> = node.devices.iter().map(device).collect();
            let counts = seen.allocatable.devices.iter().cloned().collect();
            fill_up(&mut devices, &counts, &Name::default());
            for device in &mut devices {
                let price = price(node, &device.class, burn);
                device.price = price.map(|price| price.all.micros());
                device.by_list = price.is_some_and(Money::is_by_list);
            }
            SnapshotNode {
                name: seen.name.clone(),
                uid: seen.uid.clone(),
                pool: node.pool.clone(),
                ready: node.ready.unwrap_or(true),
                cordoned: seen.unschedulable,
                against_uncordon: against_uncordon(node, &faults),
                no_more: fleet.scaling.no_more_of(&node.pool).map(Name::from),
                labels,
                taints: seen.taints.iter().filter_map(taint).collect(),
                cpu_milli: known(seen.allocatable.cpu_milli),
                memory_bytes: known(seen.allocatable.memory_bytes),
                billing: node.billing,
                instance_type: node.instance_type.clone(),
                region: node.region.clone(),
                topology: place(node),
                devices,
            }
        })
        .collect()
}

/// Findings of faults of nodes and of their devices, by node.
fn faults_by_node(fleet: &Fleet) -> BTreeMap<&str, Vec<&Finding>> {
    let mut all: BTreeMap<&str, Vec<&Finding>> = BTreeMap::new();
    for finding in fleet.findings.iter() {
        let name = finding.subject.key.name.as_str();
        let node = match finding.subject.kind {
            "Node" => name,
            "Device" => name.rsplit_once('/').map_or(name, |(node, _)| node),
            _ => continue,
        };
        if finding.severity == Severity::Crit || finding::fault(&finding.code).is_some() {
            all.entry(node).or_default().push(finding);
        }
    }
    all
}

/// Reasons against uncordoning a node: its own object, and findings about it.
fn against_uncordon(node: &node::Node, faults: &BTreeMap<&str, Vec<&Finding>>) -> Vec<Name> {
    if node.cordon.is_none() {
        return Vec::new();
    }
    let found = faults.get(node.name().as_str()).into_iter().flatten();
    let found = found.map(|finding| {
        format!(
            "{} {}: {}",
            finding.subject.key.name, finding.code, finding.message
        )
    });
    let own = node.against_uncordon().into_iter();
    own.chain(found).map(Name::from).collect()
}

/// Zero means unknown: no node has zero units.
const fn known(amount: i64) -> i64 {
    if amount > 0 { amount } else { PLENTY }
}

fn device(device: &device::Device) -> SnapshotDevice {
    SnapshotDevice {
        index: device.index,
        class: device.class.clone(),
        resource: device.resource.clone(),
        health: match device.health {
            device::Health::Ok => EngineHealth::Ok,
            device::Health::Warn(_) => EngineHealth::Warn,
            device::Health::Fault(_) => EngineHealth::Fault,
            device::Health::Unknown => EngineHealth::Unknown,
        },
        price: None,
        by_list: false,
        // A fraction is taken of the whole device.
        slices: device
            .slices
            .iter()
            .filter(|_| !device.fractions)
            .map(|slice| SnapshotSlice {
                name: slice.name.clone(),
                resource: slice
                    .resource
                    .clone()
                    .unwrap_or_else(|| device.resource.clone()),
                share: slice.share,
            })
            .collect(),
    }
}

/// The given topology levels, plus rack and clique if given separately.
fn place(node: &node::Node) -> Vec<(Name, Name)> {
    let mut place: Vec<(Name, Name)> = node
        .topology
        .iter()
        .filter(|(level, value)| !level.is_empty() && !value.is_empty())
        .cloned()
        .collect();
    for (level, value) in [("rack", &node.rack), ("clique", &node.clique)] {
        if let Some(value) = value.as_ref().filter(|value| !value.is_empty()) {
            let is_known =
                |(known, is_known): &(Name, Name)| known.as_str() == level || is_known == value;
            if !place.iter().any(is_known) {
                place.push((Name::new(level), value.clone()));
            }
        }
    }
    place
}

fn add_devices<'a>(node: &'a node::Node, grips: &mut DevicesByPod<'a>) {
    for device in &node.devices {
        let mut note = |holder: &'a Option<std::sync::Arc<Pod>>, slice: Option<Name>, milli| {
            let Some(pod) = holder else { return };
            // A pod that is bound elsewhere has no devices here.
            if pod.seen.node.as_ref() == Some(node.name()) {
                grips.entry(pod.key()).or_default().push(HeldDevices {
                    device: device.index,
                    slice,
                    milli,
                });
            }
        };
        note(&device.holder, None, WHOLE);
        for slice in &device.slices {
            let part = slice.share.filter(|_| device.fractions);
            let milli = part.map_or(WHOLE, milli);
            let name = Some(slice.name.clone()).filter(|_| !device.fractions);
            note(&slice.holder, name, milli);
        }
    }
}

/// A part of a device in thousandths, rounded up.
fn milli(part: DeviceAmount) -> i32 {
    i32::try_from(part.millionths().div_ceil(1000)).map_or(WHOLE, |milli| milli.clamp(1, WHOLE))
}

fn budgets(fleet: &Fleet) -> Vec<SnapshotBudget> {
    let mut pods: BTreeMap<&Name, BTreeSet<(&Name, &Labels)>> = BTreeMap::new();
    if !fleet.budgets.is_empty() {
        for pod in fleet.jobs.iter().flat_map(|job| job.pods.iter()) {
            let key = pod.key();
            let row = (&key.name, &pod.seen.labels);
            pods.entry(&key.namespace).or_default().insert(row);
        }
    }
    fleet
        .budgets
        .iter()
        .filter(|budget| !budget.key.name.is_empty())
        .map(|budget| SnapshotBudget {
            namespace: budget.key.namespace.clone(),
            name: budget.key.name.clone(),
            pods: pods
                .get(&budget.key.namespace)
                .into_iter()
                .flatten()
                .filter(|(_, labels)| budget.covers(&budget.key.namespace, labels))
                .map(|(name, _)| (*name).clone())
                .collect(),
            // A disruption controller that lags behind refuses every eviction.
            allowed: if budget.unobserved { 0 } else { budget.allowed },
            desired_healthy: budget.wanted,
        })
        .collect()
}

/// Pods on nodes that use no devices; pods with devices are placements of workloads.
fn residents(fleet: &Fleet, workloads: &[Workload]) -> Vec<Resident> {
    // A launcher, for example, uses no devices but belongs to a job.
    let placed = workloads.iter().flat_map(|work| {
        let pods = work.sets.iter().flat_map(|set| &set.placements);
        pods.map(|pod| (&work.key.key.namespace, &pod.pod))
    });
    let counted: BTreeSet<(&Name, &Name)> = placed.collect();
    let on = fleet.nodes.iter().flat_map(|node| node.others.iter());
    on.filter_map(|seen| {
        let asks = &seen.requests;
        let known = counted.contains(&(&seen.key.namespace, &seen.key.name));
        Some(Resident {
            namespace: seen.key.namespace.clone(),
            name: seen.key.name.clone(),
            uid: seen.uid.clone(),
            node: seen.node.clone()?,
            owner: seen
                .owner
                .as_ref()
                .map_or_else(Name::default, |owner| owner.kind.clone()),
            deleted: seen.deleted.map(workloads::whole),
            cpu_milli: if known { 0 } else { asks.cpu_milli.max(0) },
            memory_bytes: if known { 0 } else { asks.memory_bytes.max(0) },
        })
    })
    .collect()
}

fn classes(fleet: &Fleet) -> Vec<SnapshotPriorityClass> {
    let all = fleet.priority_classes.iter();
    all.filter(|class| !class.name.is_empty())
        .map(|class| SnapshotPriorityClass {
            of_workloads: class.kind == PriorityKind::Workload,
            name: class.name.clone(),
            value: class.value,
        })
        .collect()
}

fn label_map(labels: &Labels) -> BTreeMap<Name, Name> {
    labels
        .iter()
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

fn effect(text: &str) -> Option<TaintEffect> {
    TaintEffect::ALL
        .into_iter()
        .find(|effect| effect.name() == text)
}

fn taint(taint: &observe::Taint) -> Option<SnapshotTaint> {
    Some(SnapshotTaint {
        key: taint.key.clone(),
        value: taint.value.clone(),
        effect: effect(&taint.effect)?,
    })
}

/// `None` for a toleration that the API would reject.
fn toleration(toleration: &siting::Toleration) -> Option<SnapshotToleration> {
    if toleration.key.is_empty() && !toleration.exists {
        return None;
    }
    Some(SnapshotToleration {
        key: (!toleration.key.is_empty()).then(|| toleration.key.clone()),
        value: (!toleration.exists).then(|| toleration.value.clone()),
        effect: match toleration.effect.is_empty() {
            true => None,
            false => Some(effect(&toleration.effect)?),
        },
    })
}
