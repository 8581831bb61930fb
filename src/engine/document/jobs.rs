//! Builds workloads from the jobs and pods of a document without explicit workloads, as `get fleet` writes it for
//! clusters whose queues are unknown.

use std::collections::{BTreeMap, BTreeSet};

use crate::snapshot::{
    DeviceRequest, HeldDevices, Placement, PodSet, ResourceRequests, SnapshotNode, Status, WHOLE,
    Workload,
};
use model::base::{Moment, Name, SmallSort};
use model::fleet::job::JobKey;

use super::limits;
use super::nodes::PodHolder;
use super::queues::priority;
use super::reader::{DocumentCell, Read};
use super::workloads::{STATES, ask, key};

/// Allocations of a pod, by namespace and pod: node, device, slice.
pub(super) type AllocationsByPod = BTreeMap<PodHolder, Vec<(Name, u32, Option<Name>)>>;

/// A pod that has not ended.
struct LivePod {
    key: JobKey,
    name: Name,
    node: Option<Name>,
    priority: i32,
    ask: ResourceRequests,
    selector: BTreeMap<Name, Name>,
    ending: bool,
}

fn pod(cell: &DocumentCell<'_>) -> Read<Option<LivePod>> {
    let name = cell.need("name", |cell| cell.filled())?;
    let phase = cell.or("phase", true, |cell| {
        cell.word(
            "phase",
            &[
                ("Pending", true),
                ("Running", true),
                ("Unknown", true),
                ("Succeeded", false),
                ("Failed", false),
            ],
        )
    })?;
    let mut key = key(cell)?;
    key.kind = cell.or("job_kind", Name::from("Pod"), |cell| cell.filled())?;
    key.key.name = cell.or("job", name.clone(), |cell| cell.filled())?;
    let pod = LivePod {
        key,
        node: cell.maybe("node", |cell| cell.filled())?,
        priority: cell.or("priority", 0, priority)?,
        ask: cell.or("requests", ResourceRequests::default(), |cell| {
            ask(cell, WHOLE)
        })?,
        selector: cell.or("node_selector", BTreeMap::new(), |cell| cell.labels())?,
        ending: cell.maybe("deleted", |cell| cell.moment())?.is_some(),
        name,
    };
    Ok(phase.then_some(pod))
}

/// Pods that have not ended, in the document's order. Validated even if workloads are explicit. A pod whose node is missing
/// is treated as unplaced: its controller recreates it elsewhere.
pub(super) fn pods(root: &DocumentCell<'_>, nodes: &[SnapshotNode]) -> Read<LivePods> {
    let known: BTreeSet<&Name> = nodes.iter().map(|node| &node.name).collect();
    let mut by_job = BTreeMap::<JobKey, Vec<LivePod>>::new();
    for mut pod in root.list("pods", pod)?.into_iter().flatten() {
        if !known.is_empty() {
            pod.node = pod.node.filter(|node| known.contains(node));
        }
        by_job.entry(pod.key.clone()).or_default().push(pod);
    }
    Ok(LivePods(by_job))
}

pub(super) struct LivePods(BTreeMap<JobKey, Vec<LivePod>>);

/// A job with its pods as a workload; none if it has ended.
pub(super) fn job(
    cell: &DocumentCell<'_>,
    pods: &mut LivePods,
    grips: &AllocationsByPod,
    nodes: &[SnapshotNode],
) -> Read<Option<Workload>> {
    let key = key(cell)?;
    let pods = pods.0.remove(&key).unwrap_or_default();
    let Some(mut status) = cell.or("state", Some(Status::Waiting), |cell| {
        cell.word("state", &STATES)
    })?
    else {
        return Ok(None);
    };
    let gang = cell.maybe("gang", |cell| {
        let size = cell.need("size", |cell| cell.count(limits::PODS))?;
        Ok((size, cell.or("min", size, |cell| cell.count(limits::PODS))?))
    })?;
    if status == Status::Held && pods.iter().any(|pod| pod.node.is_some()) {
        status = Status::Ending;
    }
    let highest = pods.iter().map(|pod| pod.priority).max().unwrap_or(0);
    let mut sets = sets(pods, grips);
    if sets.is_empty() {
        sets.push(unseen(cell, gang, nodes)?);
    }
    if let Some((size, min)) = gang {
        let seen: u32 = sets
            .iter()
            .fold(0, |sum, set| sum.saturating_add(set.count));
        // Missing pods are assumed to equal the first ones.
        if let Some(first) = sets.first_mut() {
            first.count = first
                .count
                .saturating_add(size.saturating_sub(seen))
                .min(limits::PODS);
        }
        match &mut sets[..] {
            [only] => only.min = min.clamp(1, only.count.max(1)).min(only.count),
            several => several.iter_mut().for_each(|set| set.min = set.count),
        }
    }
    let placed = sets.iter().any(|set| !set.placements.is_empty());
    if status == Status::Running && !placed {
        status = Status::Waiting;
    }
    Ok(Some(Workload {
        uid: cell.or("uid", Name::default(), |cell| cell.name())?,
        queue: cell
            .maybe("queue", |cell| cell.name())?
            .filter(|name| !name.is_empty()),
        team: cell.or("team", Name::default(), |cell| cell.name())?,
        priority: cell.or("priority", highest, priority)?,
        created: cell.or("created", Moment::default(), |cell| cell.moment())?,
        admitted_at: cell.maybe("started", |cell| cell.moment())?,
        preemptible: true,
        sets,
        status,
        key,
        ..Workload::default()
    }))
}

/// Pods whose job is not in the document; each such job becomes a workload.
pub(super) fn orphans(pods: LivePods, grips: &AllocationsByPod) -> Vec<Workload> {
    let workload = |(key, pods): (JobKey, Vec<LivePod>)| {
        let placed = pods.iter().any(|pod| pod.node.is_some());
        Workload {
            key,
            priority: pods.iter().map(|pod| pod.priority).max().unwrap_or(0),
            status: if pods.iter().all(|pod| pod.ending) {
                Status::Ending
            } else if placed {
                Status::Running
            } else {
                Status::Waiting
            },
            sets: sets(pods, grips),
            preemptible: true,
            ..Workload::default()
        }
    };
    pods.0.into_iter().map(workload).collect()
}

/// A pod's name, node and namespace.
type Who = (Name, Option<Name>, Name);

/// Groups pods with equal requests into sets.
fn sets(pods: Vec<LivePod>, grips: &AllocationsByPod) -> Vec<PodSet> {
    let mut alike: BTreeMap<(ResourceRequests, BTreeMap<Name, Name>), Vec<Who>> = BTreeMap::new();
    for pod in pods {
        let who = (pod.name, pod.node, pod.key.key.namespace);
        alike.entry((pod.ask, pod.selector)).or_default().push(who);
    }
    let set = |(at, ((ask, selector), pods)): (usize, (_, Vec<Who>))| {
        let count = u32::try_from(pods.len()).unwrap_or(limits::PODS);
        PodSet {
            name: Name::from(format!("set-{at}")),
            count,
            // Without a gang each pod can start alone.
            min: 1,
            requests: ask,
            selector,
            placements: pods
                .into_iter()
                .filter_map(|(pod, node, namespace)| {
                    let node = node?;
                    let held = grips.get(&(namespace, pod.clone()));
                    let mut grips: Vec<HeldDevices> = held
                        .into_iter()
                        .flatten()
                        .filter(|(on, _, _)| *on == node)
                        .map(|(_, device, slice)| HeldDevices {
                            device: *device,
                            slice: slice.clone(),
                            milli: WHOLE,
                        })
                        .collect();
                    grips.small_sort();
                    Some(Placement {
                        pod,
                        node,
                        devices: grips,
                        ..Placement::default()
                    })
                })
                .collect(),
            ..PodSet::default()
        }
    };
    alike.into_iter().enumerate().map(set).collect()
}

/// Pods of a job without pods: as many as its gang, with equal shares of its requested devices, of the
/// resource of its class.
fn unseen(
    cell: &DocumentCell<'_>,
    gang: Option<(u32, u32)>,
    nodes: &[SnapshotNode],
) -> Read<PodSet> {
    let devices = cell.or("devices_requested", 0, |cell| cell.count(u32::MAX))?;
    let class = cell.maybe("class", |cell| cell.name())?;
    let pods = gang.map_or(1, |(size, _)| size.max(1));
    let each = devices.div_ceil(pods).min(limits::DEVICES_OF_A_POD);
    let mut resources: BTreeMap<&Name, usize> = BTreeMap::new();
    for device in nodes.iter().flat_map(|node| &node.devices) {
        if class.as_ref().is_none_or(|class| *class == device.class) {
            *resources.entry(&device.resource).or_default() += 1;
        }
    }
    let most = resources
        .iter()
        .max_by(|a, b| a.1.cmp(b.1).then_with(|| b.0.cmp(a.0)));
    let resource = most.map_or_else(|| Name::from("nvidia.com/gpu"), |(name, _)| (*name).clone());
    let ask = DeviceRequest {
        resource,
        count: each,
        milli: WHOLE,
    };
    Ok(PodSet {
        count: pods,
        min: pods,
        requests: ResourceRequests {
            devices: if each > 0 { vec![ask] } else { Vec::new() },
            ..ResourceRequests::default()
        },
        ..PodSet::default()
    })
}
