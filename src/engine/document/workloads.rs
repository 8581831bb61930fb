//! Reads explicit workloads of a document.

use std::collections::BTreeMap;

use crate::snapshot::{
    DeviceRequest, Handle, HeldDevices, OtherHandle, PLENTY, Placement, PodSet, Requirement,
    ResourceRequests, Status, System, TopologyRequest, WHOLE, Workload, WorkloadMutations,
};
use model::base::{Moment, Name, ObjectKey};
use model::fleet::job::JobKey;
use model::fleet::siting::Operator;

use super::limits;
use super::nodes::toleration;
use super::queues::{choice, priority};
use super::reader::{DocumentCell, Read};

/// Keywords for the status of a workload; none for one that has ended.
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
pub(super) fn key(cell: &DocumentCell<'_>) -> Read<JobKey> {
    Ok(JobKey {
        key: ObjectKey {
            namespace: cell.or("namespace", Name::default(), |cell| cell.name())?,
            name: cell.need("name", |cell| cell.filled())?,
        },
        kind: cell.or("kind", Name::from("Job"), |cell| cell.filled())?,
    })
}

/// Requests of one pod; `milli` is the share of each device, if it requests one.
pub(super) fn ask(cell: &DocumentCell<'_>, milli: i32) -> Read<ResourceRequests> {
    cell.must_be_object()?;
    let devices = cell.or("devices", Vec::new(), |cell| {
        cell.entries(|key, cell| {
            let count = cell.count(limits::DEVICES_OF_A_POD)?;
            Ok(DeviceRequest {
                resource: Name::from(key),
                count,
                milli,
            })
        })
    })?;
    Ok(ResourceRequests {
        cpu_milli: cell.or("cpu_milli", 0, |cell| cell.whole(0, limits::CPU))?,
        memory_bytes: cell.or("memory_bytes", 0, |cell| cell.whole(0, limits::MEMORY))?,
        devices: devices.into_iter().filter(|ask| ask.count > 0).collect(),
    })
}

fn requirement(cell: &DocumentCell<'_>) -> Read<Requirement> {
    let operators = Operator::ALL.map(|operator| (operator.name(), operator));
    let requirement = Requirement {
        key: cell.need("key", |cell| cell.filled())?,
        op: cell.need("operator", |cell| cell.word("operator", &operators))?,
        values: cell.list("values", |cell| cell.name())?,
    };
    match (requirement.op, requirement.values.len()) {
        (Operator::In | Operator::NotIn, 0) => cell.wrong("lacks `values`"),
        (Operator::Gt | Operator::Lt, count) if count != 1 => cell.wrong("must have one value"),
        (Operator::Gt | Operator::Lt, _) if requirement.values[0].parse::<i64>().is_err() => {
            cell.wrong("its value must be a whole number")
        }
        _ => Ok(requirement),
    }
}

fn held_devices(cell: &DocumentCell<'_>, milli: i32) -> Read<HeldDevices> {
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

fn part(cell: &DocumentCell<'_>) -> Read<i32> {
    let part = cell.whole(1, i64::from(WHOLE))?;
    Ok(i32::try_from(part).unwrap_or(WHOLE))
}

fn placement(cell: &DocumentCell<'_>, milli: i32) -> Read<Placement> {
    Ok(Placement {
        pod: cell.or("pod", Name::default(), |cell| cell.name())?,
        uid: cell.or("uid", Name::default(), |cell| cell.name())?,
        deleted: cell.maybe("deleted", |cell| cell.moment())?,
        node: cell.need("node", |cell| cell.filled())?,
        devices: cell.list("devices", |cell| held_devices(cell, milli))?,
        started: cell.maybe("started", |cell| cell.moment())?,
    })
}

fn pod_set(cell: &DocumentCell<'_>) -> Read<PodSet> {
    let milli = cell.or("milli", WHOLE, part)?;
    let count = cell.or("count", 1, |cell| cell.count(limits::PODS))?;
    let set = PodSet {
        name: cell.or("name", Name::from("main"), |cell| cell.filled())?,
        count,
        min: cell.or("min", count, |cell| cell.count(limits::PODS))?,
        requests: cell.or("requests", ResourceRequests::default(), |cell| {
            ask(cell, milli)
        })?,
        selector: cell.or("node_selector", BTreeMap::new(), |cell| cell.labels())?,
        affinity: cell.list("affinity", |cell| cell.items(requirement))?,
        tolerations: cell.list("tolerations", toleration)?,
        topology: cell.maybe("topology", |cell| {
            Ok(TopologyRequest {
                level: cell.need("level", |cell| cell.name())?,
                required: cell.or("required", true, |cell| cell.flag())?,
            })
        })?,
        admitted: cell.or("admitted", BTreeMap::new(), |cell| cell.labels())?,
        quota: cell.or("quota", BTreeMap::new(), |cell| {
            let each =
                cell.entries(|key, cell| Ok((Name::from(key), cell.amount(key, PLENTY)?)))?;
            Ok(each.into_iter().collect())
        })?,
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

fn mutations(cell: &DocumentCell<'_>) -> Read<WorkloadMutations> {
    cell.must_be_object()?;
    let plain = WorkloadMutations::default();
    Ok(WorkloadMutations {
        suspend: cell.or("suspend", plain.suspend, |cell| cell.flag())?,
        reprioritise: cell.or("reprioritise", plain.reprioritise, |cell| cell.flag())?,
        honours_budgets: cell.or("honours_budgets", plain.honours_budgets, |cell| cell.flag())?,
    })
}

/// The object of its queueing system.
fn handle(cell: &DocumentCell<'_>) -> Read<Handle> {
    Ok(Handle {
        system: cell.or("system", System::None, |cell| {
            cell.word("system", &System::ALL.map(|system| (system.name(), system)))
        })?,
        name: cell.need("name", |cell| cell.filled())?,
        uid: cell.or("uid", Name::default(), |cell| cell.name())?,
        others: cell.list("others", other)?,
    })
}

fn other(cell: &DocumentCell<'_>) -> Read<OtherHandle> {
    Ok(OtherHandle {
        name: cell.need("name", |cell| cell.filled())?,
        uid: cell.or("uid", Name::default(), |cell| cell.name())?,
        active: cell.or("active", true, |cell| cell.flag())?,
        has_quota: cell.or("has_quota", false, |cell| cell.flag())?,
    })
}

/// A workload; none if it has ended.
pub(super) fn workload(cell: &DocumentCell<'_>) -> Read<Option<Workload>> {
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
        never_preempts: cell.or("never_preempts", false, |cell| cell.flag())?,
        mutations: cell.or("levers", WorkloadMutations::default(), mutations)?,
        admission: cell.maybe("admission", handle)?,
        status,
        blocked: cell.maybe("blocked", |cell| cell.filled())?,
        elsewhere: cell.or("elsewhere", false, |cell| cell.flag())?,
        not_forecast: cell.maybe("not_forecast", |cell| cell.filled())?,
        admitted_at: cell.maybe("admitted_at", |cell| cell.moment())?,
        key,
    }))
}
