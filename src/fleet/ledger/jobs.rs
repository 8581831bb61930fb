//! A job out of its workloads and pods: what it asks for, where it stands, what it holds, why it waits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::base::{Moment, Name};
use crate::fleet::device::Pod;
use crate::fleet::job::{Gang, Job, JobKey, JobState, Place};
use crate::fleet::observe::{Failure, OwnerRef, Phase, Resources, WorkloadSeen};

use super::Ledger;

/// Builds the job of this id; `None` when nothing of it asks for devices (any more).
pub(super) fn build(ledger: &Ledger, id: &JobKey, at: Moment) -> Option<Job> {
    let workloads: Vec<&Arc<WorkloadSeen>> = ledger
        .job_workloads
        .get(id)
        .into_iter()
        .flatten()
        .filter_map(|key| ledger.workloads.get(key))
        .collect();
    let pods: Vec<&Arc<Pod>> = ledger
        .job_pods
        .get(id)
        .into_iter()
        .flatten()
        .filter_map(|key| ledger.joined.get(key))
        .collect();
    let top = workloads
        .iter()
        .find(|workload| workload.key == id.key && workload.kind == id.kind)
        .copied();
    let wants_devices = workloads
        .iter()
        .any(|workload| workload.total.device_count() > 0 || workload.per_pod.device_count() > 0);
    if pods.is_empty() && !wants_devices {
        return None;
    }
    let requested = requested(top, &workloads, &pods);
    let bound: Vec<&&Arc<Pod>> = pods.iter().filter(|pod| pod.holds_devices()).collect();
    let allocated = bound
        .iter()
        .map(|pod| pod.seen.requests.device_count())
        .sum();
    let gang = gang(top, &workloads);
    let state = state(top, &workloads, &pods, gang);
    let places = places(ledger, &bound);
    let held = Held::of(ledger, &bound, at);
    let lower: Vec<Arc<WorkloadSeen>> = workloads
        .iter()
        .filter(|workload| top.is_none_or(|top| top.uid != workload.uid))
        .map(|workload| Arc::clone(workload))
        .collect();
    let (queue, team, team_source) = match (top, pods.first()) {
        (Some(top), _) if pods.is_empty() => ledger.workload_queue_and_team(top, &lower),
        (_, Some(pod)) => (pod.queue.clone(), pod.team.clone(), pod.team_source),
        (_, None) => {
            let any = workloads.first()?;
            ledger.workload_queue_and_team(any, &lower)
        }
    };
    let waits = matches!(state, JobState::Waiting | JobState::Starting);
    let (reason_code, reason) = if waits || state == JobState::Suspended {
        reason(top, &pods, state, queue.as_ref())
    } else {
        (None, Name::default())
    };
    let created = top
        .map(|top| top.created)
        .into_iter()
        .chain(pods.iter().map(|pod| pod.seen.created))
        .min()
        .unwrap_or_default();
    let started = top
        .and_then(|top| top.started)
        .or_else(|| pods.iter().filter_map(|pod| pod.seen.started).min());
    let class = held
        .class
        .clone()
        .or_else(|| wanted_class(ledger, top, &pods));
    let chain = pods
        .first()
        .map(|pod| {
            let own = JobKey {
                key: pod.key().clone(),
                kind: Name::new("Pod"),
            };
            ledger.chain(own, pod.seen.owner.as_ref()).links
        })
        .unwrap_or_else(|| {
            top.map(|top| OwnerRef {
                kind: id.kind.clone(),
                name: id.key.name.clone(),
                uid: top.uid.clone(),
            })
            .into_iter()
            .collect()
        });
    let shown = pods
        .iter()
        .filter(|pod| !pod.seen.phase.is_over() || state == JobState::Failed)
        .map(|pod| Arc::clone(pod))
        .collect();
    Some(Job {
        uid: top.map_or_else(
            || {
                pods.first()
                    .map_or_else(Name::default, |pod| pod.seen.uid.clone())
            },
            |top| top.uid.clone(),
        ),
        chain: chain.into_boxed_slice(),
        queue,
        team,
        team_source,
        priority: pods.iter().map(|pod| pod.seen.priority).max(),
        state,
        devices_requested: requested,
        devices_allocated: allocated,
        class,
        pools: held.pools,
        gang,
        created,
        waiting_since: waits.then(|| waiting_since(top, &pods, created)),
        started,
        finished: top.and_then(|top| top.finished),
        reason_code,
        reason,
        failure: failure(&pods, top),
        pods: shown,
        places,
        util: held.util,
        idle_devices: held.idle,
        wish: top
            .filter(|_| waits && pods.is_empty())
            .map(|top| Arc::new((top.per_pod.clone(), top.node_selector.clone()))),
        id: id.clone(),
    })
}

/// The job's own total, else that of the highest workloads that say one, else that of its pods.
fn requested(
    top: Option<&Arc<WorkloadSeen>>,
    workloads: &[&Arc<WorkloadSeen>],
    pods: &[&Arc<Pod>],
) -> u32 {
    let of_pods: u32 = pods
        .iter()
        .filter(|pod| !pod.seen.phase.is_over())
        .map(|pod| pod.seen.requests.device_count())
        .sum();
    if let Some(top) = top
        && (top.total.device_count() > 0 || top.pods > 0 || workloads.len() == 1)
    {
        // A job that has ended asks for nothing more, but its size stays what it was.
        return top
            .total
            .device_count()
            .max(if top.outcome.is_some() { 0 } else { of_pods });
    }
    let uids: BTreeSet<&Name> = workloads.iter().map(|workload| &workload.uid).collect();
    let highest = workloads.iter().filter(|workload| {
        workload
            .owner
            .as_ref()
            .is_none_or(|owner| !uids.contains(&owner.uid))
            || top.is_some_and(|top| {
                workload
                    .owner
                    .as_ref()
                    .is_some_and(|owner| owner.uid == top.uid)
            })
    });
    let of_workloads: u32 = highest.map(|workload| workload.total.device_count()).sum();
    of_workloads.max(of_pods)
}

fn gang(top: Option<&Arc<WorkloadSeen>>, workloads: &[&Arc<WorkloadSeen>]) -> Option<Gang> {
    let of = |workload: &Arc<WorkloadSeen>| {
        workload.gang_min.map(|min| Gang {
            size: workload.pods.max(min),
            min,
        })
    };
    top.and_then(of).or_else(|| {
        let parts: Vec<Gang> = workloads
            .iter()
            .filter_map(|workload| of(workload))
            .collect();
        (!parts.is_empty()).then(|| Gang {
            size: parts.iter().map(|gang| gang.size).sum(),
            min: parts.iter().map(|gang| gang.min).sum(),
        })
    })
}

fn state(
    top: Option<&Arc<WorkloadSeen>>,
    workloads: &[&Arc<WorkloadSeen>],
    pods: &[&Arc<Pod>],
    gang: Option<Gang>,
) -> JobState {
    let live: Vec<&&Arc<Pod>> = pods
        .iter()
        .filter(|pod| !pod.seen.phase.is_over())
        .collect();
    let bound = live.iter().filter(|pod| pod.seen.node.is_some()).count();
    let running = live
        .iter()
        .filter(|pod| pod.seen.phase == Phase::Running && pod.seen.deleted.is_none())
        .count();
    let leaving = live.iter().filter(|pod| pod.seen.deleted.is_some()).count();
    if let Some(top) = top {
        match top.outcome {
            Some(true) if bound == 0 => return JobState::Done,
            Some(false) if bound == 0 => return JobState::Failed,
            Some(_) => return JobState::Finishing,
            None => {}
        }
        if top.deleted.is_some() {
            return JobState::Finishing;
        }
    }
    let suspended = top.is_some_and(|top| top.suspended)
        || (top.is_none() && !workloads.is_empty() && workloads.iter().all(|w| w.suspended));
    if suspended {
        return match (bound > 0, is_queued(top, workloads)) {
            (true, _) => JobState::Finishing,
            // A queueing system holds what it has not admitted: to its owner that is waiting.
            (false, true) => JobState::Waiting,
            (false, false) => JobState::Suspended,
        };
    }
    if top.is_none() && workloads.is_empty() && live.is_empty() {
        let failed = pods.iter().any(|pod| pod.seen.phase == Phase::Failed);
        return if failed {
            JobState::Failed
        } else {
            JobState::Done
        };
    }
    if leaving > 0 && leaving == live.len() && top.is_none() {
        return JobState::Finishing;
    }
    let needed = gang.map_or(1, |gang| gang.min.max(1)) as usize;
    if running >= needed {
        JobState::Running
    } else if bound > 0 {
        JobState::Starting
    } else if live.is_empty() && top.is_some_and(|top| top.pods == 0) {
        JobState::Suspended
    } else {
        JobState::Waiting
    }
}

/// Held by a queueing system rather than by a person.
fn is_queued(top: Option<&Arc<WorkloadSeen>>, workloads: &[&Arc<WorkloadSeen>]) -> bool {
    const QUEUES: [&str; 2] = ["kueue.x-k8s.io/queue-name", "stokehold.dev/queue"];
    top.into_iter()
        .chain(workloads.iter().copied())
        .any(|workload| workload.labels.first(QUEUES).is_some())
}

fn waiting_since(top: Option<&Arc<WorkloadSeen>>, pods: &[&Arc<Pod>], created: Moment) -> Moment {
    // A job that lost its devices waits since its oldest pod was made anew, not since it was submitted.
    let pending = pods
        .iter()
        .filter(|pod| pod.seen.node.is_none() && !pod.seen.phase.is_over())
        .map(|pod| pod.seen.created)
        .min();
    let held = top.and_then(|top| {
        top.conditions
            .iter()
            .find(|condition| {
                condition.kind.as_str() == "Suspended" && condition.status == Some(true)
            })
            .and_then(|condition| condition.since)
    });
    pending.or(held).unwrap_or(created)
}

fn reason(
    top: Option<&Arc<WorkloadSeen>>,
    pods: &[&Arc<Pod>],
    state: JobState,
    queue: Option<&Name>,
) -> (Option<&'static str>, Name) {
    let refused = pods
        .iter()
        .filter(|pod| pod.seen.node.is_none() && !pod.seen.phase.is_over())
        .find_map(|pod| pod.seen.unschedulable.as_ref());
    if let Some((reason, message)) = refused {
        return if reason.as_str() == "SchedulingGated" {
            (Some("gated"), Name::new("its pods carry scheduling gates"))
        } else {
            (Some("unschedulable"), message.clone())
        };
    }
    if top.is_some_and(|top| top.suspended) {
        return match (state, queue) {
            (JobState::Waiting, Some(queue)) => (
                Some("queued"),
                Name::from(format!("not admitted by queue {queue} yet")),
            ),
            _ => (Some("suspended"), Name::new("held by spec.suspend")),
        };
    }
    if state == JobState::Suspended {
        return (Some("scaled-to-zero"), Name::new("asks for no pods"));
    }
    let pending = pods
        .iter()
        .any(|pod| pod.seen.node.is_none() && !pod.seen.phase.is_over());
    if pending {
        return (
            Some("pending"),
            Name::new("the scheduler has not said why yet"),
        );
    }
    if pods
        .iter()
        .any(|pod| pod.seen.node.is_some() && pod.seen.phase == Phase::Pending)
    {
        return (
            Some("starting"),
            Name::new("its containers are being started"),
        );
    }
    if pods.iter().all(|pod| pod.seen.phase.is_over()) {
        return (
            Some("no-pods"),
            Name::new("its controller has made no pods"),
        );
    }
    (Some("incomplete"), Name::new("not all of its gang runs"))
}

/// The worst that its pods tell: an exit code before a restart, the latest first.
fn failure(pods: &[&Arc<Pod>], top: Option<&Arc<WorkloadSeen>>) -> Option<Failure> {
    let mut told: Vec<&Failure> = pods
        .iter()
        .filter_map(|pod| pod.seen.failure.as_ref())
        .collect();
    let restarts = told.iter().map(|failure| failure.restarts).sum();
    let last_eviction = told
        .iter()
        .filter_map(|failure| failure.last_eviction)
        .max();
    told.sort_by_key(|failure| (failure.exit_code.is_none(), failure.message.is_empty()));
    if let Some(worst) = told.first() {
        return Some(Failure {
            restarts,
            last_eviction,
            ..(*worst).clone()
        });
    }
    let top = top.filter(|top| top.outcome == Some(false) || top.failed_pods > 0)?;
    let condition = top
        .conditions
        .iter()
        .find(|condition| condition.kind.as_str() == "Failed" && condition.status == Some(true));
    Some(Failure {
        message: condition.map_or_else(
            || Name::from(format!("{} of its pods failed", top.failed_pods)),
            |condition| condition.message.clone(),
        ),
        ..Failure::default()
    })
}

fn places(ledger: &Ledger, bound: &[&&Arc<Pod>]) -> Box<[Place]> {
    let mut places = Vec::new();
    for pod in bound {
        let Some(node) = pod
            .seen
            .node
            .as_ref()
            .and_then(|node| ledger.nodes.get(node)?.built.as_ref())
        else {
            continue;
        };
        let is_it = |holder: &Option<Arc<Pod>>| {
            holder
                .as_ref()
                .is_some_and(|holder| holder.key() == pod.key())
        };
        for device in &node.devices {
            let place = |slice| Place {
                node: node.name().clone(),
                device: device.index,
                slice,
            };
            if is_it(&device.holder) {
                places.push(place(None));
            }
            for slice in device.slices.iter().filter(|slice| is_it(&slice.holder)) {
                places.push(place(Some(slice.name.clone())));
            }
        }
    }
    places.sort();
    places.into_boxed_slice()
}

/// What its devices tell of a job.
struct Held {
    class: Option<Name>,
    pools: Box<[Name]>,
    util: Option<f64>,
    idle: u32,
}

impl Held {
    fn of(ledger: &Ledger, bound: &[&&Arc<Pod>], at: Moment) -> Self {
        let mut classes: BTreeMap<&Name, u32> = BTreeMap::new();
        let mut pools: BTreeSet<&Name> = BTreeSet::new();
        let (mut sum, mut count, mut idle) = (0.0, 0u32, 0);
        for pod in bound {
            let Some(node) = pod
                .seen
                .node
                .as_ref()
                .and_then(|node| ledger.nodes.get(node)?.built.as_ref())
            else {
                continue;
            };
            pools.insert(&node.pool);
            for device in &node.devices {
                if !device
                    .holders()
                    .any(|(holder, _)| holder.key() == pod.key())
                {
                    continue;
                }
                *classes.entry(&device.class).or_default() += 1;
                idle += u32::from(crate::fleet::judge::is_idle(device, at, &ledger.policy));
                // Its own slice says more of a job than the device that it shares.
                let own = device.slices.iter().find(|slice| {
                    slice
                        .holder
                        .as_ref()
                        .is_some_and(|holder| holder.key() == pod.key())
                });
                let util = own
                    .and_then(|slice| slice.signals.get(crate::fleet::signal::Signal::Util))
                    .or_else(|| device.util());
                if let Some(util) = util.filter(|_| !device.is_stale(at)) {
                    sum += util;
                    count += 1;
                }
            }
        }
        Self {
            class: classes
                .iter()
                .max_by_key(|(name, count)| (**count, std::cmp::Reverse(**name)))
                .map(|(name, _)| (*name).clone()),
            pools: pools.into_iter().cloned().collect(),
            util: (count > 0).then(|| sum / f64::from(count)),
            idle,
        }
    }
}

/// The class that a waiting job asks for by its node selector, where it does.
fn wanted_class(
    ledger: &Ledger,
    top: Option<&Arc<WorkloadSeen>>,
    pods: &[&Arc<Pod>],
) -> Option<Name> {
    let selectors = top
        .map(|top| &top.node_selector)
        .into_iter()
        .chain(pods.iter().map(|pod| &pod.seen.node_selector));
    for selector in selectors {
        for (_, value) in selector.iter() {
            if let Some(known) = ledger.policy.catalog.find(value) {
                return Some(known.class.clone());
            }
        }
    }
    None
}

/// True when a node with these labels and this capacity could serve one pod of the request.
pub(super) fn could_serve(
    node: &crate::fleet::observe::NodeSeen,
    request: &Resources,
    selector: &crate::fleet::observe::Labels,
) -> bool {
    selector
        .iter()
        .all(|(key, value)| node.labels.get(key) == Some(value))
        && request
            .devices
            .iter()
            .filter(|(_, count)| *count > 0)
            .all(|(resource, _)| {
                node.capacity
                    .device(resource)
                    .is_some_and(|count| count > 0)
            })
}
