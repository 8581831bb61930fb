//! A hand-made fleet with one of everything, for output tests.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use model::advice::{Action, Advice, Certainty};
use model::base::{Name, ObjectKey, SmallSort};
use model::cost::sample::{allocated_to, device, fleet, node, now, pod, resting, sliced};
use model::cost::{PriceBook, Prices, spend_rates};
use model::fleet::accelerator::{Catalog, DeviceKind, Vendor};
use model::fleet::device::{Health, Pod, TeamSource};
use model::fleet::finding::{Finding, Severity, Subject};
use model::fleet::histogram::{Histogram, Latency};
use model::fleet::job::{Gang, Job, JobKey, JobState, Serving};
use model::fleet::node::{Billing, Cordon};
use model::fleet::observe::{
    Labels, Lost, LostKind, Resources, SourceHealth, SourceState, Table, Taint, WorkloadFailure,
};
use model::fleet::pool::{ClassCount, DeviceCounts, NodeCounts, Pool, PoolMode, Unusable};
use model::fleet::profile::{Bottleneck, Evidence};
use model::fleet::queue::QueueSystem;
use model::fleet::scaling::{Limit, Metric, PodScaler, Provision, Scaler, ScalerState, Scaling};
use model::fleet::served_model::{Objectives, ServedModel};
use model::fleet::signal::Signal;
use model::fleet::siting::JobPodSet;
use model::fleet::{Fleet, TableState};

use super::Facts;
use super::changes::{FleetChanges, SeenChanges};

/// A name with an escape sequence, a C1 control, a bidirectional override and a wide character.
pub fn hostile() -> &'static str {
    "evil\u{1b}[2J\u{9b}31m\u{202e}\u{7f}訓\n\"quoted\", x"
}

fn job(of: &Arc<Pod>, state: JobState, requested: u32, allocated: u32) -> Arc<Job> {
    Arc::new(Job {
        uid: Name::new("u-1"),
        chain: Box::default(),
        queue: of.queue.clone(),
        queue_system: match of.queue {
            Some(_) => QueueSystem::Kueue,
            None => QueueSystem::None,
        },
        team: of.team.clone(),
        team_source: of.team_source,
        priority: Some(10),
        state,
        devices_requested: requested,
        devices_allocated: allocated,
        class: Some(Name::new("H100")),
        pools: Box::from([Name::new("h100")]),
        gang: Some(Gang { size: 2, min: 1 }),
        created: now().minus(Duration::from_secs(7200)),
        waiting_since: (state == JobState::Waiting).then(|| now().minus(Duration::from_secs(3000))),
        started: None,
        finished: None,
        reason_code: (state == JobState::Waiting).then_some("unschedulable"),
        reason: Name::new("0/2 nodes are available"),
        failure: (state == JobState::Failed).then(|| WorkloadFailure {
            exit_code: Some(137),
            message: Name::new(hostile()),
            restarts: 3,
            last_eviction: Some(now()),
            restarted: None,
            ended: None,
            own_words: false,
        }),
        pods: Box::from([Arc::clone(of)]),
        places: Box::default(),
        util: Some(0.5),
        idle_devices: 1,
        ..Job::unknown(of.job.clone())
    })
}

fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs
        .iter()
        .map(|(key, value)| (Name::new(key), Name::new(value)))
        .collect()
}

fn counts(nodes: &[model::fleet::node::Node], pool: &str, fleet: &Fleet) -> DeviceCounts {
    let mut counts = DeviceCounts::default();
    let own = nodes.iter().filter(|node| node.pool.as_str() == pool);
    for node in own.clone() {
        counts.unusable += Unusable::of(node);
    }
    for device in own.flat_map(|node| node.devices.iter()) {
        counts.total += 1;
        counts.allocated += device.allocated();
        counts.free += device.free();
        counts.unhealthy += u32::from(device.health.is_fault());
        if fleet.is_idle(device) {
            counts.idle_allocated += device.allocated();
        }
    }
    counts
}

fn pool(name: &str, devices: DeviceCounts) -> Pool {
    Pool {
        name: Name::new(name),
        mode: Some(PoolMode::Dynamic),
        billing: Some(Billing::Spot),
        billing_mixed: name == "mixed",
        owner: Some(Name::new("research")),
        classes: Box::from([ClassCount {
            class: Name::new("H100"),
            vendor: Vendor::Nvidia,
            kind: DeviceKind::Gpu,
            devices: devices.total,
            per_node: None,
        }]),
        nodes: NodeCounts {
            total: 1,
            ready: 1,
            cordoned: 0,
            min: Some(0),
            max: None,
        },
        devices,
        util: Some(0.63),
        mem_used: None,
        temp_max: Some(66.0),
        power_watts: Some(15_300.0),
        power_limit_watts: None,
        waiting_devices: 0,
        waiting_slices: 0,
        stale: false,
        visibility: Default::default(),
    }
}

/// The fleet, with prices for H100 only.
pub fn facts() -> Facts {
    let mut kueue = (*pod("nlp", "train-0", Some("research"), "nlp")).clone();
    Arc::make_mut(&mut kueue.seen).labels = labels(&[("kueue.x-k8s.io/queue-name", "research")]);
    Arc::make_mut(&mut kueue.seen).requests = Resources {
        cpu_milli: 4000,
        memory_bytes: 1 << 30,
        devices: Box::from([(Name::new("nvidia.com/gpu"), 1)]),
        ..Resources::default()
    };
    let train = Arc::new(kueue);
    let mut nasty = (*pod("vision", "x-0", None, "vision")).clone();
    nasty.team_source = TeamSource::Namespace;
    nasty.job = JobKey {
        key: ObjectKey::new("vision", hostile()),
        kind: Name::new("Pod"),
    };
    let nasty = Arc::new(nasty);
    let waits = pod("nlp", "big-0", Some("research"), "nlp");
    let failed = pod("vision", "bad-0", None, "vision");

    let idle = resting(allocated_to(device("n1", 1, "H100"), &train));
    let mut broken = device("n1", 2, "H100");
    broken.health = Health::Fault(Name::new("XID 79"));
    let mut first = node(
        "n1",
        "h100",
        Some("big"),
        vec![allocated_to(device("n1", 0, "H100"), &train), idle, broken],
    );
    first.cordon = Some(Cordon {
        by: Some(Name::new("ada")),
        at: Some(now()),
        reason: None,
    });
    first.topology = Box::from([(Name::new("zone"), Name::new("a"))]);
    let seen = Arc::make_mut(&mut first.seen);
    seen.labels = labels(&[("zone", "a"), ("gpu", "yes")]);
    seen.taints = vec![Taint {
        key: Name::new("gpu"),
        value: Name::default(),
        effect: Name::new("NoSchedule"),
        since: None,
    }];
    let mut silent = device("n2", 0, "mystery");
    silent.signals = model::fleet::signal::Signals::default();
    silent.read_at = None;
    silent.model = Name::default();
    let mut second = node(
        "n2",
        "mixed",
        None,
        vec![
            silent,
            sliced(
                device("n2", 1, "H100"),
                &[
                    ("1g.10gb-7", Some(&train)),
                    ("1g.10gb-8", Some(&nasty)),
                    ("2g.20gb-3", None),
                ],
            ),
        ],
    );
    second.ready = None;
    let nodes = vec![first, second, node("plain", "(no pool)", None, Vec::new())];

    let mut made = fleet(nodes.clone());
    let pools = ["h100", "mixed"].map(|name| pool(name, counts(&nodes, name, &made)));
    made.pools = Arc::from(pools);
    let mut waiting = (*job(&waits, JobState::Waiting, 64, 0)).clone();
    waiting.pod_sets = Arc::from([JobPodSet {
        name: Name::new("main"),
        count: 8,
        min: 8,
        request: Resources {
            devices: Box::from([(Name::new("nvidia.com/gpu"), 8)]),
            ..Resources::default()
        },
        ..JobPodSet::default()
    }]);
    let mut serves = (*job(&train, JobState::Running, 3, 3)).clone();
    serves.serving = Some(serving());
    let mut jobs = vec![
        Arc::new(serves),
        job(&nasty, JobState::Running, 1, 1),
        Arc::new(waiting),
        job(&failed, JobState::Failed, 1, 0),
    ];
    jobs.small_sort_by(|a, b| a.id.cmp(&b.id));
    made.jobs = Arc::from(jobs);
    made.findings = Arc::from([Finding {
        id: Name::new("xid-79/n1/gpu2"),
        severity: Severity::Crit,
        code: Name::new("xid-79"),
        subject: Subject {
            kind: "Device",
            key: ObjectKey::new("", "n1/gpu2"),
        },
        since: now(),
        first_seen: false,
        at_least: false,
        value: Some(79.0),
        threshold: None,
        message: "GPU has fallen off the bus".to_owned(),
        repair: "drain, then reboot".to_owned(),
        members: Box::default(),
        also: Box::default(),
    }]);
    made.sources = Arc::from([
        source("api pods", SourceState::Live, ""),
        source("dcgm x", SourceState::Lost, hostile()),
    ]);
    let mut known: BTreeMap<Table, TableState> = BTreeMap::new();
    for table in Table::ALL {
        known.insert(*table, TableState::Live);
    }
    known.insert(Table::JobSets, TableState::Absent);
    known.insert(
        Table::Namespaces,
        TableState::Lost(Lost {
            kind: LostKind::Rights,
            since: now(),
            message: "cannot list namespaces".to_owned(),
        }),
    );
    made.known = Arc::new(known);
    let book = r#"
provider = "aws"
prices = [
  { instance = "big", accelerator = "H100", devices = 8, purchase = "on-demand", usd_per_hour = 56.0, as_of = "2026-07-20" },
  { accelerator = "H100", devices = 1, purchase = "on-demand", usd_per_hour = 7.1, as_of = "2026-01-01" },
]
"#;
    let book = PriceBook::parse(book, "test").expect("parses");
    let prices = Prices::new(vec![book], &Catalog::default()).with_provider("aws");
    made.scaling = scaling();
    let burnt = spend_rates(&made, &prices);
    let facts = Facts {
        now: now(),
        ..Facts::new(Name::new("test"), Arc::new(made), Arc::new(burnt))
    };
    advised(&changed(facts))
}

/// With the changes since a minute ago, when every job waited, the first node was not cordoned and there was no finding.
pub fn changed(facts: Facts) -> Facts {
    let mut before = facts.clone();
    before.now = facts.now.minus(Duration::from_secs(60));
    let fleet = Arc::make_mut(&mut before.fleet);
    let mut jobs = fleet.jobs.to_vec();
    for job in &mut jobs {
        Arc::make_mut(job).state = JobState::Waiting;
    }
    fleet.jobs = jobs.into();
    let mut nodes = fleet.nodes.to_vec();
    if let Some(first) = nodes.first_mut() {
        Arc::make_mut(first).cordon = None;
    }
    fleet.nodes = nodes.into();
    fleet.findings = Arc::default();
    let between = FleetChanges::between(&before, &facts);
    Facts {
        changes: Some(Arc::new(SeenChanges::of(between.dated()))),
        ..facts
    }
}

/// The same facts with advice about each job, and a pod autoscaler for each.
pub fn advised(facts: &Facts) -> Facts {
    let about = |job: &Arc<Job>| {
        let burn = facts
            .spend_rates
            .jobs
            .get(&job.id)
            .map(|(spend, _)| spend.rate);
        Advice {
            job: job.id.clone(),
            team: job.team.clone(),
            bound: job
                .devices_requested
                .is_multiple_of(2)
                .then_some(Bottleneck::Idle),
            action: Action::Release,
            devices: job.devices_requested,
            class: job.class.clone(),
            evidence: Some(Evidence::default()),
            costs: burn,
            saves: burn,
            commitment: None,
            certainty: Certainty::Medium,
        }
    };
    let scaled = |job: &Arc<Job>| {
        Arc::new(PodScaler {
            key: job.id.key.clone(),
            target: (job.id.kind.clone(), job.id.key.name.clone()),
            min: 1,
            max: Some(8),
            current: Some(8),
            desired: Some(8),
            metrics: Box::from([Metric {
                name: Name::new("queue"),
                target: Name::new("10"),
                current: Some(Name::new("40")),
                ..Metric::default()
            }]),
            ..PodScaler::default()
        })
    };
    let mut fleet = (*facts.fleet).clone();
    fleet.scaling.pod_scalers = fleet.jobs.iter().map(scaled).collect();
    Facts {
        advice: facts.fleet.jobs.iter().map(about).collect(),
        fleet: Arc::new(fleet),
        ..facts.clone()
    }
}

/// One autoscaler of each kind.
fn scaling() -> Scaling {
    let nodes = Scaler {
        name: Name::new("gpu-pool"),
        now: Some(4),
        max: Some(4),
        state: ScalerState::Full,
        limits: Box::from([Limit {
            resource: Name::new("nvidia.com/gpu"),
            most: 32_000,
            used: Some(32_000),
        }]),
        ..Scaler::default()
    };
    let request = Provision {
        key: ObjectKey::new("prod", "more"),
        pods: 2,
        ..Provision::default()
    };
    Scaling {
        scalers: Arc::from([nodes]),
        claims: Arc::from([]),
        failures: Arc::from([]),
        provisions: Arc::from([Arc::new(request)]),
        pod_scalers: Arc::from([]),
        scaled_objects: Arc::from([]),
    }
}

/// Two models: one with measurements, one with only a name.
fn serving() -> Serving {
    let buckets = [(0.1, 40.0), (0.5, 90.0), (f64::INFINITY, 100.0)];
    let histogram = Histogram::new(Signal::Ttft, buckets.to_vec()).expect("it is one");
    let mut ttft = Latency::default();
    ttft.add(histogram.whole());
    Serving {
        servers: 1,
        read_at: Some(now()),
        served: vec![
            ServedModel {
                model: Some(Name::new(hostile())),
                engine: Name::new("vllm"),
                replicas: 1,
                measured: 1,
                tokens_per_second: Some(0.0),
                ..ServedModel::default()
            },
            ServedModel {
                model: Some(Name::new("org/llama")),
                engine: Name::new("vllm"),
                replicas: 1,
                measured: 1,
                running: Some(7.0),
                waiting: Some(2.0),
                kv_mean: Some(0.5),
                kv_max: Some(0.96),
                prefix_hit: Some(0.25),
                window_seconds: Some(150.0),
                tokens_per_second: Some(1200.0),
                prompt_tokens_per_second: Some(4000.0),
                requests_per_second: Some(10.0),
                preemptions: Some(0.0),
                waiting_grows: Some(false),
                ttft,
                objectives: Objectives {
                    ttft: Some(0.4),
                    tpot: None,
                },
                ..ServedModel::default()
            },
        ],
        ..Serving::default()
    }
}

fn source(name: &str, state: SourceState, message: &str) -> SourceHealth {
    SourceHealth {
        last_ok: (state == SourceState::Live).then(now),
        latency_ms: Some(12),
        errors: 1,
        series_skipped: Some(2),
        calls_per_minute: Some(60),
        message: message.to_owned(),
        ..SourceHealth::new(
            Name::new(name),
            Name::new("kubernetes"),
            state,
            Duration::from_secs(30),
        )
    }
}
