//! A small fleet to judge: two nodes of eight H100 in one rack, of which a gang holds the first.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use model::base::{DeviceAmount, Moment, Name, ObjectKey};
use model::fleet::Fleet;
use model::fleet::TableState;
use model::fleet::accelerator::{Catalog, DeviceKind, Vendor};
use model::fleet::device::{Attribution, Device, Health, Pod, TeamSource};
use model::fleet::govern::GovernState;
use model::fleet::job::{Gang, HeldDevice, Job, JobKey, JobState};
use model::fleet::node::Node;
use model::fleet::observe::{
    Labels, Lost, LostKind, NodeSeen, Phase, PodSeen, Resources, SourceHealth, SourceState, Table,
};
use model::fleet::policy::Policy;
use model::fleet::pool::{DeviceCounts, NodeCounts, Pool};
use model::fleet::run_hold::{HELD_BY_RUN, OpenRun, RunHold, RunStop};
use model::fleet::signal::{Signal, Signals};

/// The parts of a fleet, to be changed before it is put together.
pub struct Parts {
    /// The moment it shows.
    pub now: Moment,
    /// Nodes by name.
    pub nodes: Vec<Node>,
    /// Pools by name.
    pub pools: Vec<Pool>,
    /// Jobs.
    pub jobs: Vec<Job>,
    /// Sources.
    pub sources: Vec<SourceHealth>,
    /// How much is known.
    pub known: BTreeMap<Table, TableState>,
    /// How the queues of `govern` stand.
    pub govern: Option<GovernState>,
    /// Runs of this machine that have left jobs suspended.
    pub open_runs: Vec<OpenRun>,
}

/// How the queues of `govern` stand.
pub fn queues(fault: Option<&str>) -> GovernState {
    GovernState {
        uid: Name::default(),
        created: Moment::default(),
        key: ObjectKey::new("stokehold", "stokehold-queues"),
        fault: fault.map(Name::new),
        is_read: true,
    }
}

/// A run of this machine's journal that was broken off and has left `nlp/held` suspended.
pub fn open_run() -> OpenRun {
    OpenRun {
        run: Name::new("r1"),
        by: Name::new("ana"),
        since: start(),
        stop: RunStop::BrokenOff,
        jobs: vec![ObjectKey::new("nlp", "held")],
    }
}

/// The job `nlp/held`, suspended, which states until when a run holds it.
pub fn held(until: Option<Moment>) -> Job {
    let mut job = Job::unknown(JobKey {
        key: ObjectKey::new("nlp", "held"),
        kind: Name::new("Job"),
    });
    job.state = JobState::Suspended;
    job.reason_code = Some(HELD_BY_RUN);
    if until.is_none() {
        // It can state nothing.
        job.id.kind = Name::new("VolcanoJob");
    }
    job.held = until.map(|until| {
        Arc::new(RunHold {
            run: Name::new("r1"),
            by: Name::new("ana"),
            since: start(),
            until,
        })
    });
    job
}

/// The start of time in these tests.
pub fn start() -> Moment {
    Moment::parse("2026-11-21T06:00:00Z").expect("a moment")
}

impl Parts {
    /// A fleet in which nothing is wrong: `n1` is held by the gang `nlp/llm`, `n2` is free.
    pub fn well(now: Moment) -> Self {
        let pod = pod(now, "llm-0", "n1");
        let nodes = vec![node(now, "n1", Some(&pod)), node(now, "n2", None)];
        let job = job(&pod, "n1");
        let source = |name: &str, kind: &str| SourceHealth {
            last_ok: Some(now),
            latency_ms: Some(12),
            ..SourceHealth::new(
                Name::from(name),
                Name::from(kind),
                SourceState::Live,
                Duration::from_secs(90),
            )
        };
        Self {
            now,
            pools: vec![pool("h100", 16, 8)],
            nodes,
            jobs: vec![job],
            sources: vec![
                source("api nodes", "kubernetes"),
                source("dcgm gpu-operator/exporter-a", "dcgm"),
                source("dcgm gpu-operator/exporter-b", "dcgm"),
                source("dcgm gpu-operator/exporter-c", "dcgm"),
            ],
            govern: None,
            open_runs: Vec::new(),
            known: Table::ALL
                .iter()
                .map(|table| (*table, TableState::Live))
                .collect(),
        }
    }

    /// The fleet that they make.
    pub fn fleet(self) -> Fleet {
        let policy = Policy {
            catalog: Catalog::embedded(),
            ..Policy::default()
        };
        Fleet {
            at: self.now,
            nodes: self.nodes.into_iter().map(Arc::new).collect(),
            pools: self.pools.into(),
            jobs: self.jobs.into_iter().map(Arc::new).collect(),
            sources: self.sources.into(),
            known: Arc::new(self.known),
            govern: self.govern.map(Arc::new),
            open_runs: self.open_runs.into(),
            ..Fleet::unknown(Arc::new(policy))
        }
    }

    /// A device.
    pub fn device(&mut self, node: usize, index: usize) -> &mut Device {
        &mut self.nodes[node].devices[index]
    }

    /// Sets one reading of one device.
    pub fn set(&mut self, node: usize, index: usize, signal: Signal, value: f64) {
        let device = self.device(node, index);
        device.signals = with(&device.signals, signal, value);
    }

    /// The devices of a node do nothing.
    pub fn rest(&mut self, node: usize) {
        for index in 0..8 {
            for (signal, value) in [
                (Signal::SmActive, 0.0),
                (Signal::Util, 0.0),
                (Signal::Power, 70.0),
            ] {
                self.set(node, index, signal, value);
            }
        }
    }

    /// Every reading is ten minutes old: nobody has read the devices since.
    pub fn blind(&mut self) {
        let old = self.now.minus(Duration::from_secs(600));
        for device in self.nodes.iter_mut().flat_map(|node| &mut node.devices) {
            device.read_at = Some(old);
        }
    }

    /// A table's source fails.
    pub fn lose(&mut self, table: Table) {
        let lost = Lost {
            kind: LostKind::Unreachable,
            since: self.now,
            message: String::from("nobody answers"),
        };
        self.known.insert(table, TableState::Lost(lost));
    }
}

/// Readings with one more, or another, value.
pub fn with(signals: &Signals, signal: Signal, value: f64) -> Signals {
    signals.iter().chain([(signal, value)]).collect()
}

/// Readings without one.
pub fn without(signals: &Signals, signal: Signal) -> Signals {
    signals
        .iter()
        .filter(|(known, _)| *known != signal)
        .collect()
}

/// A pool.
pub fn pool(name: &str, total: u32, allocated: u32) -> Pool {
    Pool {
        name: Name::from(name),
        mode: None,
        billing: None,
        billing_mixed: false,
        owner: None,
        classes: Box::default(),
        nodes: NodeCounts::default(),
        devices: DeviceCounts {
            total,
            allocated: DeviceAmount::whole(allocated),
            free: DeviceAmount::whole(total - allocated),
            ..DeviceCounts::default()
        },
        util: Some(0.45),
        mem_used: None,
        temp_max: None,
        power_watts: Some(4500.0),
        power_limit_watts: None,
        waiting_devices: 0,
        waiting_slices: 0,
        stale: false,
        visibility: Default::default(),
    }
}

/// A pod that holds the eight devices of a node.
pub fn pod(now: Moment, name: &str, node: &str) -> Arc<Pod> {
    let created = now.minus(Duration::from_secs(36_000));
    Arc::new(Pod {
        seen: Arc::new(PodSeen {
            key: ObjectKey::new("nlp", name),
            node: Some(Name::from(node)),
            phase: Phase::Running,
            requests: Resources {
                devices: Box::from([(Name::from("nvidia.com/gpu"), 8)]),
                ..Resources::default()
            },
            created,
            scheduled: Some(created),
            ready: true,
            ..PodSeen::default()
        }),
        job: JobKey {
            key: ObjectKey::new("nlp", "llm"),
            kind: Name::from("JobSet"),
        },
        queue: None,
        team: Name::from("nlp"),
        team_source: TeamSource::Namespace,
    })
}

fn job(pod: &Arc<Pod>, node: &str) -> Job {
    let places = (0..8).map(|device| HeldDevice {
        node: Name::from(node),
        device,
        slice: None,
    });
    Job {
        uid: Name::from("u1"),
        chain: Box::default(),
        queue: None,
        team: pod.team.clone(),
        team_source: pod.team_source,
        priority: None,
        state: JobState::Running,
        devices_requested: 8,
        devices_allocated: 8,
        class: Some(Name::from("H100")),
        pools: Box::from([Name::from("h100")]),
        gang: Some(Gang { size: 2, min: 2 }),
        created: pod.seen.created,
        waiting_since: None,
        started: pod.seen.scheduled,
        pods: Box::from([pod.clone()]),
        places: places.collect(),
        util: Some(0.9),
        ..Job::unknown(pod.job.clone())
    }
}

/// A node of eight H100 in rack r1, held by `pod` or free.
pub fn node(now: Moment, name: &str, pod: Option<&Arc<Pod>>) -> Node {
    let devices = Resources {
        devices: Box::from([(Name::from("nvidia.com/gpu"), 8)]),
        ..Resources::default()
    };
    let created = now.minus(Duration::from_secs(864_000));
    Node {
        seen: Arc::new(NodeSeen {
            name: Name::from(name),
            uid: Name::from(name),
            labels: [(Name::from("nvidia.com/gpu.count"), Name::from("8"))]
                .into_iter()
                .collect::<Labels>(),
            capacity: devices.clone(),
            allocatable: devices,
            created,
            ..NodeSeen::default()
        }),
        pool: Name::from("h100"),
        ready: Some(true),
        ready_since: Some(created),
        cordon: None,
        billing: None,
        instance_type: None,
        zone: None,
        region: None,
        rack: Some(Name::from("r1")),
        topology: Box::default(),
        clique: None,
        driver: None,
        devices: (0..8).map(|index| device(now, name, index, pod)).collect(),
        device_capacity: 8,
        device_allocatable: 8,
        withheld: false,
        ignored_counts: Box::default(),
        pod_count: 3,
        others: Box::default(),
        pods: pod.into_iter().cloned().collect(),
    }
}

/// A device at work when it is held, and at rest when not.
pub fn device(now: Moment, node: &str, index: u32, pod: Option<&Arc<Pod>>) -> Device {
    let gib = 1024.0 * 1024.0 * 1024.0;
    let busy = pod.is_some();
    Device {
        id: Name::from(format!("{node}/gpu{index}")),
        index,
        uuid: None,
        serial: None,
        pci: None,
        vendor: Vendor::Nvidia,
        kind: DeviceKind::Gpu,
        model: Name::from("NVIDIA H100 80GB HBM3"),
        class: Name::from("H100"),
        resource: Name::from("nvidia.com/gpu"),
        holder: pod.cloned(),
        attribution: if busy {
            Attribution::Exporter
        } else {
            Attribution::None
        },
        health: Health::Ok,
        signals: [
            (Signal::Util, if busy { 0.9 } else { 0.0 }),
            (Signal::Temp, 60.0),
            (Signal::Power, if busy { 500.0 } else { 70.0 }),
            (Signal::PowerLimit, 700.0),
            (Signal::MemUsed, 40.0 * gib),
            (Signal::MemTotal, 80.0 * gib),
            (Signal::SmClock, 1.9e9),
            (Signal::ThrottleReasons, 0.0),
            (Signal::XidLast, 0.0),
            (Signal::EccUncorrected, 5.0),
            (Signal::RemapFailed, 0.0),
            (Signal::RemapPending, 0.0),
            (Signal::RecoveryAction, 0.0),
            (Signal::Health, 1.0),
        ]
        .into_iter()
        .collect(),
        read_at: Some(now),
        interval: Duration::from_secs(30),
        idle_since: None,
        idle_first_seen: false,
        slices: Box::default(),
        makes_slices: false,
        fractions: false,
    }
}
