//! Reads nodes, devices, taints, tolerations and prices.

use std::collections::BTreeMap;

use crate::snapshot::{
    EngineHealth, PLENTY, Resident, SnapshotDevice, SnapshotNode, SnapshotSlice, SnapshotTaint,
    SnapshotToleration, TaintEffect, Topology,
};
use model::base::Name;
use model::fleet::node::Billing;

use super::limits;
use super::reader::{DocumentCell, Read};

pub(super) const BILLING: [(&str, Billing); 4] = [
    (Billing::OnDemand.name(), Billing::OnDemand),
    (Billing::Spot.name(), Billing::Spot),
    (Billing::Reserved.name(), Billing::Reserved),
    (Billing::Owned.name(), Billing::Owned),
];

const HEALTH: [(&str, EngineHealth); 4] = [
    (EngineHealth::Ok.name(), EngineHealth::Ok),
    (EngineHealth::Warn.name(), EngineHealth::Warn),
    (EngineHealth::Fault.name(), EngineHealth::Fault),
    (EngineHealth::Unknown.name(), EngineHealth::Unknown),
];

const EFFECTS: [(&str, TaintEffect); 3] = [
    (TaintEffect::NoSchedule.name(), TaintEffect::NoSchedule),
    (
        TaintEffect::PreferNoSchedule.name(),
        TaintEffect::PreferNoSchedule,
    ),
    (TaintEffect::NoExecute.name(), TaintEffect::NoExecute),
];

/// Pod with a device or slice: namespace and pod.
pub(super) type PodHolder = (Name, Name);

/// Holders listed on a node's devices: holder, index of the device, slice.
pub(super) type DeviceHolders = Vec<(PodHolder, u32, Option<Name>)>;

fn holder(cell: &DocumentCell<'_>) -> Read<PodHolder> {
    Ok((
        cell.or("namespace", Name::default(), |cell| cell.name())?,
        cell.need("pod", |cell| cell.filled())?,
    ))
}

/// A pod on a node that uses no devices.
pub(super) fn resident(cell: &DocumentCell<'_>) -> Read<Resident> {
    Ok(Resident {
        namespace: cell.or("namespace", Name::default(), |cell| cell.name())?,
        name: cell.need("name", |cell| cell.filled())?,
        uid: cell.or("uid", Name::default(), |cell| cell.name())?,
        node: cell.need("node", |cell| cell.filled())?,
        owner: cell.or("owner_kind", Name::default(), |cell| cell.name())?,
        deleted: cell.maybe("deleted", |cell| cell.moment())?,
        cpu_milli: cell.or("cpu_milli", 0, |cell| cell.whole(0, limits::CPU))?,
        memory_bytes: cell.or("memory_bytes", 0, |cell| cell.whole(0, limits::MEMORY))?,
    })
}

/// A node, and the holders of its devices.
pub(super) fn node(cell: &DocumentCell<'_>) -> Read<(SnapshotNode, DeviceHolders)> {
    let mut held = DeviceHolders::new();
    let name = cell.need("name", |cell| cell.filled())?;
    let mut devices: Vec<SnapshotDevice> = Vec::new();
    cell.list("devices", |cell| {
        let at = devices.len();
        if at >= limits::DEVICES_OF_A_NODE as usize {
            return cell.wrong(format!(
                "a node has at most {} devices",
                limits::DEVICES_OF_A_NODE
            ));
        }
        let device = device(cell, at as u32, &mut held)?;
        if devices.iter().any(|other| other.index == device.index) {
            return cell.wrong(format!("two devices have the index {}", device.index));
        }
        devices.push(device);
        Ok(())
    })?;
    let (cpu, memory, counts) = match cell.get("allocatable").or_else(|| cell.get("capacity")) {
        Some(amounts) => capacity(&amounts)?,
        None => (PLENTY, PLENTY, BTreeMap::new()),
    };
    let class = cell.or("class", Name::default(), |cell| cell.name())?;
    fill_up(&mut devices, &counts, &class);
    let labels = cell.or("labels", BTreeMap::new(), |cell| cell.labels())?;
    let node = SnapshotNode {
        uid: cell.or("uid", Name::default(), |cell| cell.name())?,
        pool: cell.or("pool", Name::default(), |cell| cell.name())?,
        ready: cell.or("ready", true, |cell| cell.flag())?,
        cordoned: cell.or("unschedulable", false, |cell| cell.flag())?,
        against_uncordon: cell.list("against_uncordon", |cell| cell.name())?,
        no_more: cell.maybe("no_more", |cell| cell.name())?,
        taints: cell.list("taints", taint)?,
        cpu_milli: cpu,
        memory_bytes: memory,
        billing: cell.maybe("billing", |cell| cell.word("billing", &BILLING))?,
        instance_type: cell.maybe("instance_type", |cell| cell.name())?,
        region: cell.maybe("region", |cell| cell.name())?,
        topology: place(cell)?,
        labels,
        devices,
        name,
    };
    Ok((node, held))
}

fn device(cell: &DocumentCell<'_>, at: u32, held: &mut DeviceHolders) -> Read<SnapshotDevice> {
    let index = cell.or("index", at, |cell| cell.count(limits::INDEX))?;
    if let Some(by) = cell.maybe("holder", holder)? {
        held.push((by, index, None));
    }
    let mut slices: Vec<SnapshotSlice> = Vec::new();
    cell.list("slices", |cell| {
        let name = cell.need("name", |cell| cell.filled())?;
        if slices.len() >= limits::SLICES_OF_A_DEVICE {
            return cell.wrong(format!(
                "a device has at most {} slices",
                limits::SLICES_OF_A_DEVICE
            ));
        }
        if slices.iter().any(|slice| slice.name == name) {
            return cell.wrong("two slices of one device have this name");
        }
        if let Some(by) = cell.maybe("holder", holder)? {
            held.push((by, index, Some(name.clone())));
        }
        let resource = cell.or("resource", Name::default(), |cell| cell.name())?;
        let share = cell.maybe("share", |cell| cell.share())?;
        slices.push(SnapshotSlice {
            name,
            resource,
            share,
        });
        Ok(())
    })?;
    let resource = cell.or("resource", Name::from("nvidia.com/gpu"), |cell| {
        cell.filled()
    })?;
    for slice in &mut slices {
        if slice.resource.is_empty() {
            slice.resource = resource.clone();
        }
    }
    Ok(SnapshotDevice {
        index,
        class: cell.or("class", Name::default(), |cell| cell.name())?,
        resource,
        health: cell.or("health", EngineHealth::Unknown, |cell| {
            cell.word("health", &HEALTH)
        })?,
        price: cell.maybe("usd_per_device_hour", |cell| cell.dollars())?,
        by_list: cell.or("list_price", false, |cell| cell.flag())?,
        slices,
    })
}

/// CPU, memory and device counts by resource.
fn capacity(cell: &DocumentCell<'_>) -> Read<(i64, i64, BTreeMap<Name, u32>)> {
    cell.must_be_object()?;
    let counts = cell.or("devices", Vec::new(), |cell| {
        cell.entries(|key, cell| Ok((Name::from(key), cell.count(limits::DEVICES_OF_A_NODE)?)))
    })?;
    Ok((
        cell.or("cpu_milli", PLENTY, |cell| cell.whole(0, limits::CPU))?,
        cell.or("memory_bytes", PLENTY, |cell| cell.whole(0, limits::MEMORY))?,
        counts.into_iter().collect(),
    ))
}

/// Adds devices that are counted but not listed; listed devices beyond the count cannot be requested.
pub(crate) fn fill_up(
    devices: &mut Vec<SnapshotDevice>,
    counts: &BTreeMap<Name, u32>,
    class: &Name,
) {
    for (resource, &count) in counts {
        let listed = devices.iter().filter(|device| device.slices.is_empty());
        let listed = listed.filter(|device| device.resource == *resource).count();
        let sliced = devices.iter().flat_map(|device| &device.slices);
        let sliced = sliced.filter(|slice| slice.resource == *resource).count();
        if sliced > 0 {
            continue;
        }
        let mut next = devices.iter().map(|device| device.index).max();
        for _ in listed..count as usize {
            if devices.len() >= limits::DEVICES_OF_A_NODE as usize {
                return;
            }
            let index = next.map_or(0, |index| index.saturating_add(1));
            next = Some(index);
            devices.push(SnapshotDevice {
                index,
                class: class.clone(),
                resource: resource.clone(),
                health: EngineHealth::Unknown,
                price: None,
                by_list: false,
                slices: Vec::new(),
            });
        }
        let mut surplus = listed.saturating_sub(count as usize);
        let faulty = |device: &SnapshotDevice| {
            device.resource == *resource && device.health == EngineHealth::Fault
        };
        surplus = surplus.saturating_sub(devices.iter().filter(|device| faulty(device)).count());
        for device in devices.iter_mut().rev() {
            if surplus > 0 && device.resource == *resource && device.health != EngineHealth::Fault {
                device.health = EngineHealth::Fault;
                surplus -= 1;
            }
        }
    }
}

/// Position in the topology: the given levels, plus rack and clique if given separately.
fn place(cell: &DocumentCell<'_>) -> Read<Vec<(Name, Name)>> {
    let mut place: Vec<(Name, Name)> = match cell.get("topology") {
        None => Vec::new(),
        Some(topology) => topology.items(|cell| {
            let pair = cell.items(|cell| cell.filled())?;
            match <[Name; 2]>::try_from(pair) {
                Ok([level, value]) => Ok((level, value)),
                Err(_) => cell.wrong("must be a level and its value: [\"rack\", \"r1\"]"),
            }
        })?,
    };
    for key in ["rack", "clique"] {
        if let Some(value) = cell.maybe(key, |cell| cell.filled())? {
            let is_known = |(level, is_known): &(Name, Name)| &**level == key || *is_known == value;
            if !place.iter().any(is_known) {
                place.push((Name::from(key), value));
            }
        }
    }
    if place.len() > limits::LEVELS {
        return cell.wrong(format!("has more than {} topology levels", limits::LEVELS));
    }
    Ok(place)
}

pub(super) fn taint(cell: &DocumentCell<'_>) -> Read<SnapshotTaint> {
    Ok(SnapshotTaint {
        key: cell.need("key", |cell| cell.filled())?,
        value: cell.or("value", Name::default(), |cell| cell.name())?,
        effect: cell.or("effect", TaintEffect::NoSchedule, |cell| {
            cell.word("effect", &EFFECTS)
        })?,
    })
}

/// A toleration in pod spec format.
pub(super) fn toleration(cell: &DocumentCell<'_>) -> Read<SnapshotToleration> {
    cell.must_be_object()?;
    let exists = cell.or("operator", false, |cell| {
        cell.word("operator", &[("Exists", true), ("Equal", false)])
    })?;
    let key = cell
        .maybe("key", |cell| cell.name())?
        .filter(|key| !key.is_empty());
    let value = cell.or("value", Name::default(), |cell| cell.name())?;
    if key.is_none() && !exists {
        return cell.wrong("a toleration without a key must have the operator `Exists`");
    }
    Ok(SnapshotToleration {
        key,
        value: (!exists).then_some(value),
        effect: match cell.get("effect") {
            Some(effect) if effect.text()?.is_empty() => None,
            Some(effect) => Some(effect.word("effect", &EFFECTS)?),
            None => None,
        },
    })
}

/// A topology of node labels.
pub(super) fn topology(cell: &DocumentCell<'_>) -> Read<Topology> {
    let levels = cell.need("levels", |cell| cell.items(|cell| cell.filled()))?;
    if levels.len() > limits::LEVELS {
        return cell.wrong(format!("has more than {} levels", limits::LEVELS));
    }
    Ok(Topology {
        name: cell.need("name", |cell| cell.filled())?,
        levels: levels.into(),
    })
}

/// Sets the prices of a pool's and class's devices on devices without a price.
pub(super) fn price(cell: &DocumentCell<'_>, nodes: &mut [SnapshotNode]) -> Read<()> {
    let Some(price) = cell.maybe("usd_per_device_hour", |cell| cell.dollars())? else {
        return Ok(());
    };
    let by_list = cell.or("list_price", false, |cell| cell.flag())?;
    let pool = cell.maybe("pool", |cell| cell.name())?;
    let class = cell.need("class", |cell| cell.name())?;
    let machine = cell.maybe("instance_type", |cell| cell.name())?;
    let billing = cell.maybe("billing", |cell| cell.word("billing", &BILLING))?;
    for node in nodes {
        let here = pool.as_ref().is_none_or(|pool| *pool == node.pool)
            && (machine.is_none() || machine == node.instance_type)
            && (billing.is_none() || billing == node.billing);
        if here {
            let unpriced =
                |device: &&mut SnapshotDevice| device.class == class && device.price.is_none();
            for device in node.devices.iter_mut().filter(unpriced) {
                device.price = Some(price);
                device.by_list = by_list;
            }
        }
    }
    Ok(())
}
