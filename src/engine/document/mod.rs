//! The fleet as one versioned document, in and out: what `get fleet -o json` writes of a live cluster, or what a user
//! writes by hand to query the engine about a hypothetical cluster.
//!
//! Absent and null mean unknown and are never an error; invalid values are errors, reported with their path
//! and a repair. Unknown keys are ignored. Jobs that are not in `workloads` are derived from `jobs` and `pods`.

mod cells;
mod jobs;
mod limits;
mod names;
mod nodes;
mod queues;
mod reader;
mod workloads;
mod write;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use serde_json::Value;

use model::base::Moment;
use model::base::document::DocumentFault;

use super::snapshot::{EngineOptions, OptionOrigins, Snapshot, SnapshotNode};
use jobs::AllocationsByPod;
use reader::{DocumentCell, Read};

pub use cells::{
    Amount, Decimal, EngineBudget, EngineCell, EngineQueue, EngineQuota, FlavorCell, LabelTopology,
    RequestCell, ResidentCell, RouteCell, RunsCell, SchedulingCells, WorkloadCell,
};
pub(crate) use nodes::fill_up;
pub use write::{scheduling, value};

/// The version of the document that is read and written.
pub const VERSION: u32 = 1;

/// Reads a document; `place` is its name in error messages.
///
/// # Errors
/// Invalid JSON, another version, or an invalid value; with its path and a repair.
pub fn read(text: &str, place: &str) -> Result<Snapshot, DocumentFault> {
    let value: Value = serde_json::from_str(text).map_err(|error| {
        let line = (error.line() > 0).then(|| error.line());
        DocumentFault::new(place, "", format!("is not JSON: {error}")).at_line(line)
    })?;
    from_value(&value, place)
}

/// The same from parsed JSON.
///
/// # Errors
/// As [`read`].
pub fn from_value(value: &Value, place: &str) -> Result<Snapshot, DocumentFault> {
    snapshot(&DocumentCell::root(value)).map_err(|flaw| {
        let path = flaw.path;
        DocumentFault::new(place, path, flaw.message)
    })
}

fn snapshot(root: &DocumentCell<'_>) -> Read<Snapshot> {
    root.must_be_object()?;
    let version = root.need("version", |cell| cell.whole(0, i64::from(u32::MAX)))?;
    if version != i64::from(VERSION) {
        return root.wrong(format!(
            "the document's version is {version}; this program reads version {VERSION}"
        ));
    }
    let mut grips = AllocationsByPod::new();
    let mut names = BTreeSet::new();
    let mut fleet: Vec<SnapshotNode> = root.list("nodes", |cell| {
        let (node, held) = nodes::node(cell)?;
        if !names.insert(node.name.clone()) {
            return cell.wrong("another node has this name");
        }
        for (by, device, slice) in held {
            let grip = (node.name.clone(), device, slice);
            grips.entry(by).or_default().push(grip);
        }
        Ok(node)
    })?;
    root.list("prices", |cell| nodes::price(cell, &mut fleet))?;
    let queue_list = root.list("queues", queues::queue)?;
    if let Some(cell) = root.get("queues") {
        queues::check_tree(&cell, &queue_list)?;
        let quotas: usize = queue_list.iter().map(|queue| queue.quotas.len()).sum();
        if quotas > limits::QUOTAS {
            return cell.wrong(format!("has more than {} quotas", limits::QUOTAS));
        }
    }

    let flavors = root.list("flavors", queues::flavor)?;
    let mut seen = BTreeSet::new();
    let mut pods_in_all = 0_u64;
    let mut all = root.list("workloads", |cell| {
        let key = workloads::key(cell)?;
        if !seen.insert(key) {
            return cell.wrong("another workload has this kind, namespace and name");
        }
        let workload = workloads::workload(cell)?;
        pods_in_all += workload.as_ref().map_or(0, |workload| workload.pod_count());
        if pods_in_all > limits::ALL_PODS {
            return cell.wrong(format!("more than {} pods in all", limits::ALL_PODS));
        }
        Ok(workload)
    })?;
    names::check(root, &fleet, &flavors)?;
    let mut pods = jobs::pods(root, &fleet)?;
    all.extend(root.list("jobs", |cell| {
        let fresh = seen.insert(workloads::key(cell)?);
        let job = jobs::job(cell, &mut pods, &grips, &fleet)?.filter(|_| fresh);
        pods_in_all += job.as_ref().map_or(0, |job| job.pod_count());
        if pods_in_all > limits::ALL_PODS {
            return cell.wrong(format!("more than {} pods in all", limits::ALL_PODS));
        }
        Ok(job)
    })?);
    let orphans = jobs::orphans(pods, &grips);
    all.extend(
        orphans
            .into_iter()
            .map(|job| (!seen.contains(&job.key)).then_some(job)),
    );

    let mut snapshot = Snapshot {
        revision: root.or("revision", 0, |cell| {
            Ok(cell.whole(0, i64::MAX)?.unsigned_abs())
        })?,
        at: root.or("at", Moment::default(), |cell| cell.moment())?,
        nodes: fleet,
        topologies: root.list("topologies", nodes::topology)?,
        flavors,
        queues: queue_list,
        workloads: all.into_iter().flatten().collect(),
        budgets: root.list("budgets", queues::budget)?,
        residents: root.list("residents", nodes::resident)?,
        classes: root.list("priority_classes", queues::class)?,
        runs: root.list("runs", queues::runs)?,
        routes: root.list("routes", queues::route)?,
        not_visible: root.list("not_visible", |cell| cell.filled())?,
        options: root.or("engine", EngineOptions::default(), queues::options)?,
        origins: root.or("engine", OptionOrigins::default(), queues::origins)?,
    };
    snapshot.settle();
    Ok(snapshot)
}
