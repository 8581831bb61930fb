//! Checks references in a document: flavors of quotas and workloads, nodes of placements, and overallocated devices.

use std::collections::{BTreeMap, BTreeSet};

use crate::snapshot::{SnapshotFlavor, SnapshotNode, WHOLE};
use model::base::Name;
use model::base::document::nearest;

use super::limits;
use super::reader::{DocumentCell, Read, shown};
use super::workloads::STATES;

/// Allocated thousandths of each device and the holder: by node, index and slice.
type DeviceAllocations = BTreeMap<(Name, u32, Option<Name>), (i64, String)>;

/// Checks all references of a document. If it lists no nodes at all, nodes are unknown and any name is accepted.
///
/// # Errors
/// The first reference to a missing object, with the nearest existing name.
pub(super) fn check(
    root: &DocumentCell<'_>,
    nodes: &[SnapshotNode],
    flavors: &[SnapshotFlavor],
) -> Read<()> {
    let mut once = BTreeSet::new();
    root.list("flavors", |cell| {
        match cell.need("name", |cell| cell.filled())? {
            name if once.insert(name.clone()) => Ok(()),
            name => cell.wrong(format!("another flavor has the name `{}`", shown(&name))),
        }
    })?;
    let flavors = flavors.iter().map(|flavor| &*flavor.name).collect();
    let nodes = nodes.iter().map(|node| &*node.name).collect();
    root.list("queues", |cell| {
        cell.list("quota", |cell| {
            cell.need("flavor", |cell| known(cell, "flavor", &flavors))
        })
    })?;
    root.list("routes", |cell| {
        cell.list("flavors", |cell| choice(cell, &flavors))
    })?;
    let mut held = DeviceAllocations::new();
    root.list("workloads", |cell| {
        let status = cell.or("state", None, |cell| cell.word("state", &STATES).map(Some))?;
        if status == Some(None) {
            // It has ended: its devices may be gone.
            return Ok(());
        }
        cell.list("flavors", |cell| choice(cell, &flavors))?;
        let namespace = cell.or("namespace", Name::default(), |cell| cell.name())?;
        let mut set =
            |cell: &DocumentCell<'_>| pod_set(cell, &namespace, (&nodes, &flavors), &mut held);
        match cell.get("pod_sets") {
            Some(sets) => sets.items(set).map(|_| ()),
            None => set(cell),
        }
    })?;
    Ok(())
}

/// Checks that the text of a cell is one of these names.
fn known(cell: &DocumentCell<'_>, what: &str, names: &BTreeSet<&str>) -> Read<()> {
    let name = cell.text()?;
    if names.contains(name) {
        return Ok(());
    }
    let message = format!("there is no {what} `{}`", shown(name));
    cell.wrong(match nearest(name, names.iter().copied()) {
        Some(near) => format!("{message}; did you mean `{}`?", shown(near)),
        None if names.is_empty() => format!("{message}: the document lists no {what}s"),
        None => message,
    })
}

/// A flavor with its speed, or its bare name.
fn choice(cell: &DocumentCell<'_>, flavors: &BTreeSet<&str>) -> Read<()> {
    match cell.text() {
        Ok(_) => known(cell, "flavor", flavors),
        Err(_) => cell.need("flavor", |cell| known(cell, "flavor", flavors)),
    }
}

fn pod_set(
    cell: &DocumentCell<'_>,
    namespace: &Name,
    (nodes, flavors): (&BTreeSet<&str>, &BTreeSet<&str>),
    held: &mut DeviceAllocations,
) -> Read<()> {
    cell.or("admitted", Vec::new(), |cell| {
        cell.entries(|_, cell| known(cell, "flavor", flavors))
    })?;
    let whole = cell.or("milli", i64::from(WHOLE), part)?;
    cell.list("placements", |cell| {
        if !nodes.is_empty() {
            cell.need("node", |cell| known(cell, "node", nodes))?;
        }
        let node = cell.need("node", |cell| cell.name())?;
        let pod = cell.or("pod", Name::default(), |cell| cell.name())?;
        let pod = format!("{namespace}/{pod}");
        cell.list("devices", |cell| {
            add_allocation(cell, (&node, &pod), whole, held)
        })
    })?;
    Ok(())
}

fn part(cell: &DocumentCell<'_>) -> Read<i64> {
    cell.whole(1, i64::from(WHOLE))
}

/// Records that a pod uses a device, or a part of one: `whole` thousandths by default.
fn add_allocation(
    cell: &DocumentCell<'_>,
    (node, pod): (&Name, &str),
    whole: i64,
    held: &mut DeviceAllocations,
) -> Read<()> {
    let (index, slice, milli) = if cell.is_number() {
        (cell.count(limits::INDEX)?, None, whole)
    } else {
        (
            cell.need("device", |cell| cell.count(limits::INDEX))?,
            cell.maybe("slice", |cell| cell.filled())?,
            cell.or("milli", whole, part)?,
        )
    };
    let what = match &slice {
        Some(slice) => format!("slice {} of device {index}", shown(slice)),
        None => format!("device {index}"),
    };
    let (sum, first) = held
        .entry((node.clone(), index, slice))
        .or_insert_with(|| (0, pod.to_owned()));
    *sum += milli;
    if *sum <= i64::from(WHOLE) {
        return Ok(());
    }
    cell.wrong(format!(
        "{what} of node {} is allocated to {} already",
        shown(node),
        shown(first)
    ))
}
