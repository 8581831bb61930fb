//! Compares forecasts with a replay: when a job becomes pending, the engine gets a snapshot of its queue at that time
//! and forecasts the start. It sees current allocations with their start times, pending jobs, and the runtimes of jobs that have
//! ended by then; the durations of running, pending and later jobs stay hidden.

use std::collections::{BTreeMap, VecDeque};

use engine::compiled::CompiledFleet;
use engine::forecast::{Start, forecast_one};
use engine::snapshot::{
    Backfill, DEVICES, DeviceRequest, EngineHealth, EngineOptions, HeldDevices, OwnerRuntimes,
    Placement, PodSet, QueueingStrategy, ResourceRequests, Snapshot, SnapshotDevice,
    SnapshotFlavor, SnapshotNode, SnapshotQueue as Line, SnapshotQuota, Status, System, WHOLE,
    Workload,
};
use engine::state::State;
use model::base::{Moment, Name, ObjectKey};
use model::fleet::job::JobKey;

use super::{Discipline, Hold, NODE, QueueingResult, TraceJob, TraceQueue};

/// From, until, and the devices allocated in between.
type Stretch<'a> = (i64, i64, &'a [Hold]);

/// Number of latest past runs of one size from which quantiles are computed.
const LATEST: usize = 128;

/// With fewer past runs of its own size, a job uses those of all sizes.
const ENOUGH: usize = 8;

/// Forecast errors. Times in milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Hindsight {
    /// Number of forecasts, spread evenly over all jobs that waited.
    pub asked: usize,
    /// Of these, forecasts with an unknown start.
    pub unknown: usize,
    /// Median of the absolute difference between forecast and start.
    pub error_p50: Option<i64>,
    /// 90th percentile of the same.
    pub error_p90: Option<i64>,
    /// Median wait of the jobs with a forecast, for comparison with the error.
    pub wait_p50: Option<i64>,
    /// 90th percentile of their wait.
    pub wait_p90: Option<i64>,
    /// Starts within the interval from p10 to p90; an interval without an end includes everything later.
    pub within: usize,
    /// Starts before the interval.
    pub early: usize,
}

/// One job of a queue and its replayed execution.
struct Member<'a> {
    job: &'a TraceJob,
    at: usize,
    /// Its allocations over time, in ascending order.
    spans: Vec<(i64, i64, &'a [Hold])>,
    finish: i64,
}

/// Makes at most `most` forecasts. `tick` gets the number done and the total.
pub fn foresight(
    jobs: &[TraceJob],
    queues: &[TraceQueue],
    past: &QueueingResult,
    discipline: Discipline,
    most: usize,
    tick: &mut dyn FnMut(usize, usize),
) -> Hindsight {
    let mut spans: BTreeMap<usize, Vec<Stretch<'_>>> = BTreeMap::new();
    for span in &past.spans {
        let own = spans.entry(span.job).or_default();
        own.push((span.from, span.until, &span.holds));
    }
    let mut lines: Vec<Vec<Member<'_>>> = queues.iter().map(|_| Vec::new()).collect();
    for (at, job) in jobs.iter().enumerate() {
        let queue = queues
            .iter()
            .position(|queue| queue.name.is_empty() || queue.name == job.queue);
        if let (Some(queue), Some(fate)) = (queue, past.fates[at]) {
            let spans = spans.remove(&at).unwrap_or_default();
            lines[queue].push(Member {
                job,
                at,
                spans,
                finish: fate.finish,
            });
        }
    }
    let waited = |member: &Member<'_>| {
        let start = member.spans.first().map(|span| span.0);
        start.filter(|start| *start > member.job.submit)
    };
    let mut all: Vec<(i64, usize, usize)> = Vec::new();
    for (queue, line) in lines.iter_mut().enumerate() {
        line.sort_by_key(|member| (member.job.submit, member.at));
        for (place, member) in line.iter().enumerate() {
            if waited(member).is_some() {
                all.push((member.job.submit, queue, place));
            }
        }
    }
    all.sort_unstable();
    let count = all.len().min(most);
    let mut out = Hindsight::default();
    let (mut errors, mut waits) = (Vec::new(), Vec::new());
    for sample in 0..count {
        let (now, queue, place) = all[sample * all.len() / count];
        let Some(start) = waited(&lines[queue][place]) else {
            continue;
        };
        out.asked += 1;
        let forecast = ask(&queues[queue], &lines[queue], place, discipline);
        tick(sample + 1, count);
        let Some((p10, p50)) = forecast.as_ref().and_then(|it| Some((it.p10?, it.p50?))) else {
            out.unknown += 1;
            continue;
        };
        errors.push((p50.millis() - start).abs());
        waits.push(start - now);
        let p90 = forecast.and_then(|it| it.p90);
        out.early += usize::from(start < p10.millis());
        out.within +=
            usize::from(start >= p10.millis() && p90.is_none_or(|p90| start <= p90.millis()));
    }
    errors.sort_unstable();
    waits.sort_unstable();
    out.error_p50 = super::replay::percentile(&errors, 50);
    out.error_p90 = super::replay::percentile(&errors, 90);
    out.wait_p50 = super::replay::percentile(&waits, 50);
    out.wait_p90 = super::replay::percentile(&waits, 90);
    out
}

/// The forecast for one job of a queue at its submission.
fn ask(
    queue: &TraceQueue,
    line: &[Member<'_>],
    place: usize,
    discipline: Discipline,
) -> Option<Start> {
    let now = line[place].job.submit;
    let snapshot = shown(queue, &line[..=place], now, discipline);
    let compiled = CompiledFleet::new(snapshot);
    let work = compiled.work(&key(line[place].at))?;
    forecast_one(&State::new(&compiled), work)
}

fn key(at: usize) -> JobKey {
    JobKey {
        kind: Name::from("Job"),
        key: ObjectKey {
            namespace: Name::from("trace"),
            name: Name::from(format!("{at:09}")),
        },
    }
}

/// Snapshot of a queue at a given time.
fn shown(queue: &TraceQueue, line: &[Member<'_>], now: i64, discipline: Discipline) -> Snapshot {
    let devices: i64 = queue.nodes.iter().map(|devices| i64::from(*devices)).sum();
    let (order, backfill) = match discipline {
        Discipline::Fifo => (QueueingStrategy::Strict, Backfill::None),
        Discipline::Easy => (QueueingStrategy::BestEffort, Backfill::Head),
        _ => (QueueingStrategy::BestEffort, Backfill::None),
    };
    let (runs, known) = runs(line, now);
    let mut workloads = Vec::new();
    for member in line.iter().filter(|member| member.finish > now) {
        let mut work = workload(member);
        let own = Name::from(member.job.devices.to_string());
        work.owner = if known.contains(&member.job.devices) {
            own
        } else {
            Name::from("any")
        };
        let holds = member
            .spans
            .iter()
            .find(|span| span.0 <= now && now < span.1);
        if let Some((from, _, holds)) = holds {
            work.status = Status::Running;
            work.admitted_at = Some(Moment::from_millis(*from));
            placement(&mut work, holds);
        }
        workloads.push(work);
    }
    place(&mut workloads);
    let mut snapshot = Snapshot {
        at: Moment::from_millis(now),
        nodes: queue.nodes.iter().enumerate().map(node).collect(),
        flavors: vec![SnapshotFlavor {
            name: Name::from("f"),
            ..SnapshotFlavor::default()
        }],
        queues: vec![Line {
            name: Name::from("q"),
            // The one whose reservations follow the options.
            system: System::Stokehold,
            order,
            quotas: vec![SnapshotQuota {
                flavor: Name::from("f"),
                resource: Name::from(DEVICES),
                nominal: devices * i64::from(WHOLE),
                borrow: None,
                lend: None,
                cap: None,
            }],
            ..Line::default()
        }],
        runs,
        options: EngineOptions {
            backfill,
            ..EngineOptions::default()
        },
        workloads,
        ..Snapshot::default()
    };
    snapshot.settle();
    snapshot
}

/// Runtimes of ended jobs by size, and the sizes with enough of them.
fn runs(line: &[Member<'_>], now: i64) -> (Vec<OwnerRuntimes>, Vec<u32>) {
    let mut ended: Vec<(i64, u32, i64)> = line
        .iter()
        .filter(|member| member.finish <= now)
        .map(|member| (member.finish, member.job.devices, member.job.duration))
        .collect();
    ended.sort_unstable();
    let mut sizes: BTreeMap<Option<u32>, VecDeque<i64>> = BTreeMap::new();
    for (_, devices, duration) in ended {
        for size in [None, Some(devices)] {
            let own = sizes.entry(size).or_default();
            own.push_back(duration);
            if own.len() > LATEST {
                own.pop_front();
            }
        }
    }
    let mut known = Vec::new();
    let mut out = Vec::new();
    for (size, durations) in sizes {
        if size.is_some() && durations.len() < ENOUGH {
            continue;
        }
        let mut durations: Vec<i64> = durations.into();
        durations.sort_unstable();
        let at = |percent: usize| super::replay::percentile(&durations, percent).unwrap_or(0);
        known.extend(size);
        out.push(OwnerRuntimes {
            owner: size.map_or(Name::from("any"), |size| Name::from(size.to_string())),
            count: u32::try_from(durations.len()).unwrap_or(u32::MAX),
            p10_ms: at(10),
            p50_ms: at(50),
            p90_ms: at(90),
        });
    }
    (out, known)
}

fn pods(count: u32, devices: u32) -> PodSet {
    PodSet {
        name: Name::from(devices.to_string()),
        count,
        min: count,
        requests: ResourceRequests {
            devices: vec![DeviceRequest {
                resource: Name::from("nvidia.com/gpu"),
                count: devices,
                milli: WHOLE,
            }],
            ..ResourceRequests::default()
        },
        ..PodSet::default()
    }
}

/// A job as pods of at most one node's devices.
fn workload(member: &Member<'_>) -> Workload {
    let (whole, rest) = match member.job.devices {
        devices @ ..=NODE => (0, devices),
        devices => (devices / NODE, devices % NODE),
    };
    let sets = [(whole, NODE), (u32::from(rest > 0), rest)];
    let sets = sets.into_iter().filter(|(count, _)| *count > 0);
    Workload {
        key: key(member.at),
        queue: Some(Name::from("q")),
        created: Moment::from_millis(member.job.submit),
        sets: sets.map(|(count, devices)| pods(count, devices)).collect(),
        ..Workload::default()
    }
}

/// Sets the nodes of a job's pods.
fn placement(work: &mut Workload, holds: &[Hold]) {
    for set in &mut work.sets {
        let each = set.requests.devices[0].count;
        let own = holds.iter().filter(|hold| hold.devices == each);
        set.placements = own
            .take(set.count as usize)
            .map(|hold| Placement {
                pod: Name::default(),
                uid: Name::default(),
                deleted: None,
                node: name(hold.node),
                devices: vec![
                    HeldDevices {
                        device: 0,
                        slice: None,
                        milli: WHOLE,
                    };
                    each as usize
                ],
                started: None,
            })
            .collect();
    }
}

/// Assigns devices to every pod on its node: the trace does not record which ones, and they are identical.
fn place(workloads: &mut [Workload]) {
    let mut next: BTreeMap<Name, u32> = BTreeMap::new();
    let sets = workloads.iter_mut().flat_map(|work| &mut work.sets);
    for placement in sets.flat_map(|set| &mut set.placements) {
        let free = next.entry(placement.node.clone()).or_default();
        for grip in &mut placement.devices {
            grip.device = *free;
            *free += 1;
        }
    }
}

fn name(node: usize) -> Name {
    Name::from(format!("n{node:05}"))
}

fn node((at, devices): (usize, &u32)) -> SnapshotNode {
    let device = |index| SnapshotDevice {
        index,
        class: Name::from("gpu"),
        resource: Name::from("nvidia.com/gpu"),
        health: EngineHealth::Ok,
        price: None,
        by_list: false,
        slices: Vec::new(),
    };
    SnapshotNode {
        name: name(at),
        ready: true,
        cpu_milli: 1_000,
        memory_bytes: 1 << 30,
        devices: (0..*devices).map(device).collect(),
        ..SnapshotNode::default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{pool, replay};
    use super::*;

    const MINUTE: i64 = 60_000;

    fn job(submit: i64, devices: u32, duration: i64) -> TraceJob {
        TraceJob {
            submit,
            queue: String::new(),
            devices,
            duration,
        }
    }

    fn line<'a>(jobs: &'a [TraceJob], past: &'a QueueingResult) -> Vec<Member<'a>> {
        let member = |(at, job): (usize, &'a TraceJob)| {
            let own = past.spans.iter().filter(|span| span.job == at);
            Member {
                job,
                at,
                spans: own.map(|it| (it.from, it.until, &it.holds[..])).collect(),
                finish: past.fates[at].expect("it ran").finish,
            }
        };
        jobs.iter().enumerate().map(member).collect()
    }

    /// A whole-node job every half hour, each one hour long.
    fn steady() -> Vec<TraceJob> {
        (0..60)
            .map(|at| job(at * 30 * MINUTE, 8, 60 * MINUTE))
            .collect()
    }

    #[test]
    fn where_all_run_alike_the_forecast_is_right() {
        for discipline in [Discipline::Fifo, Discipline::BestEffort, Discipline::Easy] {
            let (jobs, queues) = (steady(), [pool(8)]);
            let past = replay(&jobs, &queues, discipline, &mut |_, _| {});
            let found = foresight(&jobs, &queues, &past, discipline, 20, &mut |_, _| {});
            assert_eq!(found.asked, 20);
            // No job has ended yet when the first one starts to wait.
            assert!((1..4).contains(&found.unknown), "{found:?}");
            let (error, wait) = (
                found.error_p50.expect("known"),
                found.wait_p50.expect("known"),
            );
            assert_eq!((found.within + found.unknown, found.early), (20, 0));
            assert!(error <= MINUTE && wait > 60 * MINUTE, "{found:?}");
        }
    }

    #[test]
    fn what_has_not_ended_stays_hidden() {
        let mut jobs = steady();
        let queues = [pool(8)];
        let asked = 20;
        let start = |jobs: &[TraceJob]| {
            let past = replay(jobs, &queues, Discipline::Fifo, &mut |_, _| {});
            let line = line(jobs, &past);
            let ended = line.iter().filter(|it| it.finish <= jobs[asked].submit);
            (
                ask(&queues[0], &line, asked, Discipline::Fifo),
                ended.count(),
            )
        };
        let (before, ended) = start(&jobs);
        assert!(before.as_ref().is_some_and(|it| it.p50.is_some()));
        for job in &mut jobs[ended..] {
            job.duration = 999 * MINUTE;
        }
        assert_eq!(start(&jobs), (before, ended));
    }

    #[test]
    fn gangs_sit_where_the_replay_put_them() {
        let jobs = [
            job(0, 20, 60 * MINUTE),
            job(MINUTE, 3, 60 * MINUTE),
            job(2 * MINUTE, 8, MINUTE),
        ];
        let queues = [pool(24)];
        let past = replay(&jobs, &queues, Discipline::Fifo, &mut |_, _| {});
        let compiled = CompiledFleet::new(shown(
            &queues[0],
            &line(&jobs, &past),
            2 * MINUTE,
            Discipline::Fifo,
        ));
        let state = State::new(&compiled);
        let free = |node: usize| state.left(node).iter().filter(|left| **left > 0).count();
        assert_eq!([0, 1, 2].map(free), [0, 0, 1]);
        assert_eq!((state.holders().count(), state.waiting().count()), (2, 1));
        assert_eq!(state.free_units(0), 1);
    }
}
