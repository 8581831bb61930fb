//! Workloads as the document tells them outright.

use std::collections::BTreeMap;

use crate::snapshot::{
    Ask, DeviceAsk, Handle, HeldDevices, Op, Placement, PodSet, Requirement, Status, System,
    TopologyRequest, WHOLE, Workload, WorkloadMutations,
};
use model::base::{Moment, Name, ObjectKey};
use model::fleet::job::JobKey;

use super::limits;
use super::nodes::toleration;
use super::queues::{choice, priority};
use super::reader::{Cell, Read};

const OPS: [(&str, Op); 6] = [
    ("In", Op::In),
    ("NotIn", Op::NotIn),
    ("Exists", Op::Exists),
    ("DoesNotExist", Op::DoesNotExist),
    ("Gt", Op::Gt),
    ("Lt", Op::Lt),
];

/// Words for where a workload stands; nothing for one that is over.
pub(super) const STATES: [(&str, Option<Status>); 10] = [
    ("waiting", Some(Status::Waiting)),
    ("running", Some(Status::Running)),
    ("starting", Some(Status::Running)),
    ("admitted", Some(Status::Running)),
    ("held", Some(Status::Held)),
    ("suspended", Some(Status::Held)),
    ("ending", Some(Status::Ending)),
    ("finishing", Some(Status::Ending)),
    ("done", None),
    ("failed", None),
];

/// Kind, namespace and name.
pub(super) fn key(cell: &Cell<'_>) -> Read<JobKey> {
    Ok(JobKey {
        key: ObjectKey {
            namespace: cell.or("namespace", Name::default(), |cell| cell.name())?,
            name: cell.need("name", |cell| cell.filled())?,
        },
        kind: cell.or("kind", Name::from("Job"), |cell| cell.filled())?,
    })
}

/// What one pod asks for; `milli` is how much of each device where it asks for one.
pub(super) fn ask(cell: &Cell<'_>, milli: i32) -> Read<Ask> {
    cell.must_be_object()?;
    let devices = cell.or("devices", Vec::new(), |cell| {
        cell.entries(|key, cell| {
            let count = cell.count(limits::DEVICES_OF_A_POD)?;
            Ok(DeviceAsk {
                resource: Name::from(key),
                count,
                milli,
            })
        })
    })?;
    Ok(Ask {
        cpu_milli: cell.or("cpu_milli", 0, |cell| cell.whole(0, limits::CPU))?,
        memory_bytes: cell.or("memory_bytes", 0, |cell| cell.whole(0, limits::MEMORY))?,
        devices: devices.into_iter().filter(|ask| ask.count > 0).collect(),
    })
}

fn requirement(cell: &Cell<'_>) -> Read<Requirement> {
    let requirement = Requirement {
        key: cell.need("key", |cell| cell.filled())?,
        op: cell.need("operator", |cell| cell.word("operator", &OPS))?,
        values: cell.list("values", |cell| cell.name())?,
    };
    match (requirement.op, requirement.values.len()) {
        (Op::In | Op::NotIn, 0) => cell.wrong("lacks `values`"),
        (Op::Gt | Op::Lt, count) if count != 1 => cell.wrong("must have one value"),
        (Op::Gt | Op::Lt, _) if requirement.values[0].parse::<i64>().is_err() => {
            cell.wrong("its value must be a whole number")
        }
        _ => Ok(requirement),
    }
}

fn grip(cell: &Cell<'_>, milli: i32) -> Read<HeldDevices> {
    if cell.is_number() {
        return Ok(HeldDevices {
            device: cell.count(limits::INDEX)?,
            slice: None,
            milli,
        });
    }
    Ok(HeldDevices {
        device: cell.need("device", |cell| cell.count(limits::INDEX))?,
        slice: cell.maybe("slice", |cell| cell.filled())?,
        milli: cell.or("milli", milli, part)?,
    })
}

fn part(cell: &Cell<'_>) -> Read<i32> {
    let part = cell.whole(1, i64::from(WHOLE))?;
    Ok(i32::try_from(part).unwrap_or(WHOLE))
}

fn placement(cell: &Cell<'_>, milli: i32) -> Read<Placement> {
    Ok(Placement {
        pod: cell.or("pod", Name::default(), |cell| cell.name())?,
        uid: cell.or("uid", Name::default(), |cell| cell.name())?,
        deleted: cell.maybe("deleted", |cell| cell.moment())?,
        node: cell.need("node", |cell| cell.filled())?,
        grips: cell.list("devices", |cell| grip(cell, milli))?,
        started: cell.maybe("started", |cell| cell.moment())?,
    })
}

fn pod_set(cell: &Cell<'_>) -> Read<PodSet> {
    let milli = cell.or("milli", WHOLE, part)?;
    let count = cell.or("count", 1, |cell| cell.count(limits::PODS))?;
    let set = PodSet {
        name: cell.or("name", Name::from("main"), |cell| cell.filled())?,
        count,
        min: cell.or("min", count, |cell| cell.count(limits::PODS))?,
        ask: cell.or("requests", Ask::default(), |cell| ask(cell, milli))?,
        selector: cell.or("node_selector", BTreeMap::new(), |cell| cell.labels())?,
        affinity: cell.list("affinity", |cell| cell.items(requirement))?,
        tolerations: cell.list("tolerations", toleration)?,
        topology: cell.maybe("topology", |cell| {
            Ok(TopologyRequest {
                level: cell.need("level", |cell| cell.filled())?,
                required: cell.or("required", true, |cell| cell.flag())?,
            })
        })?,
        admitted: cell.or("admitted", BTreeMap::new(), |cell| cell.labels())?,
        placements: cell.list("placements", |cell| placement(cell, milli))?,
    };
    if set.min > set.count {
        return cell.wrong(format!(
            "its minimum of {} pods is above its count of {}",
            set.min, set.count
        ));
    }
    if set.placements.len() > set.count as usize {
        return cell.wrong(format!(
            "{} pods are placed, but it has {}",
            set.placements.len(),
            set.count
        ));
    }
    Ok(set)
}

fn levers(cell: &Cell<'_>) -> Read<WorkloadMutations> {
    cell.must_be_object()?;
    let plain = WorkloadMutations::default();
    Ok(WorkloadMutations {
        suspend: cell.or("suspend", plain.suspend, |cell| cell.flag())?,
        reprioritise: cell.or("reprioritise", plain.reprioritise, |cell| cell.flag())?,
        honours_budgets: cell.or("honours_budgets", plain.honours_budgets, |cell| cell.flag())?,
    })
}

/// What its queueing system keeps of a workload.
fn handle(cell: &Cell<'_>) -> Read<Handle> {
    Ok(Handle {
        system: cell.or("system", System::None, |cell| {
            cell.word("system", &System::ALL.map(|system| (system.name(), system)))
        })?,
        name: cell.need("name", |cell| cell.filled())?,
        uid: cell.or("uid", Name::default(), |cell| cell.name())?,
    })
}

/// A workload; nothing where it is over.
pub(super) fn workload(cell: &Cell<'_>) -> Read<Option<Workload>> {
    let key = key(cell)?;
    let Some(status) = cell.or("state", Some(Status::Waiting), |cell| {
        cell.word("state", &STATES)
    })?
    else {
        return Ok(None);
    };
    let sets = match cell.get("pod_sets") {
        Some(sets) => sets.items(pod_set)?,
        None => vec![pod_set(cell)?],
    };
    if sets.is_empty() {
        return cell.wrong("has no pods; leave `pod_sets` out for one pod");
    }
    if sets.len() > limits::SETS {
        return cell.wrong(format!("has more than {} sets of pods", limits::SETS));
    }
    Ok(Some(Workload {
        uid: cell.or("uid", Name::default(), |cell| cell.name())?,
        queue: cell.maybe("queue", |cell| cell.filled())?,
        team: cell.or("team", Name::default(), |cell| cell.name())?,
        labels: cell.or("labels", BTreeMap::new(), |cell| cell.labels())?,
        priority: cell.or("priority", 0, priority)?,
        created: cell.or("created", Moment::default(), |cell| cell.moment())?,
        sets,
        flavors: cell.list("flavors", choice)?,
        estimate_ms: cell.maybe("runtime_estimate_seconds", |cell| cell.span())?,
        owner: cell.or("owner", Name::default(), |cell| cell.name())?,
        checkpoint: cell.maybe("last_checkpoint", |cell| cell.moment())?,
        deadline: cell.maybe("deadline", |cell| cell.moment())?,
        preemptible: cell.or("preemptible", true, |cell| cell.flag())?,
        levers: cell.or("levers", WorkloadMutations::default(), levers)?,
        admission: cell.maybe("admission", handle)?,
        status,
        admitted_at: cell.maybe("admitted_at", |cell| cell.moment())?,
        key,
    }))
}
