//! Fleets built by hand for frames: the same bytes every time, no ledger, no clock.

#[path = "frames_queues.rs"]
mod queues;
#[path = "frames_totals.rs"]
mod totals;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use model::base::{DeviceAmount, Moment, Name, ObjectKey, Rate};
use model::cost::{Money, NodePrices, Price, RateRow, Spend, SpendRates, SpendScope};
use model::fleet::accelerator::{DeviceKind, Vendor};
use model::fleet::device::{AllocationCell, Attribution, Device, Health, Pod, TeamSource};
use model::fleet::finding::{Finding, Severity, Subject};
use model::fleet::history::History;
use model::fleet::job::{Gang, HeldDevice, Job, JobKey, JobState};
use model::fleet::node::{Billing, Cordon, Node};
use model::fleet::observe::{
    Labels, Lost, LostKind, NodeSeen, Phase, PodSeen, Resources, SourceHealth, SourceState, Table,
};
use model::fleet::policy::Policy;
use model::fleet::pool::{ClassCount, DeviceCounts, NodeCounts, Pool, PoolMode};
use model::fleet::signal::{Signal, Signals};
use model::fleet::siting::JobPodSet;
use model::fleet::skipped_series::{SkipReason, SkippedSeries};
use model::fleet::source_errors::SourceError;
use model::fleet::{Fleet, TableState};
use table::Facts;
use totals::{charge, pool, settle_burn};

/// The moment that every fleet shows.
pub const NOW: Moment = Moment::from_seconds(1_795_265_900);

const GIB: f64 = 1024.0 * 1024.0 * 1024.0;

/// A pool to build.
#[derive(Clone, Copy)]
pub struct PoolPlan {
    pub name: &'static str,
    pub class: &'static str,
    pub model: &'static str,
    pub tpu: bool,
    pub nodes: u32,
    pub per_node: u32,
    pub rack: u32,
    pub mode: PoolMode,
    pub billing: Billing,
    /// Of 100 devices, how many are held, and how busy those are.
    pub held: u32,
    pub busy: u32,
    pub usd: f64,
    pub job: u32,
}

/// The pools of the design's pictures.
pub const POOLS: &[PoolPlan] = &[
    plan(
        "a100-mig",
        "A100",
        "NVIDIA-A100-SXM4-40GB",
        4,
        8,
        97,
        71,
        0.95,
        1,
    ),
    plan(
        "a100-shared",
        "A100",
        "NVIDIA-A100-SXM4-80GB",
        96,
        8,
        76,
        30,
        3.4,
        24,
    ),
    plan(
        "h100-train",
        "H100",
        "NVIDIA-H100-80GB-HBM3",
        128,
        8,
        99,
        86,
        3.0,
        256,
    ),
    plan("l4-serve", "L4", "NVIDIA-L4", 400, 1, 92, 44, 0.3, 4),
    plan(
        "mi300x-lab",
        "MI300X",
        "AMD Instinct MI300X",
        8,
        8,
        38,
        9,
        2.2,
        8,
    ),
    PoolPlan {
        tpu: true,
        ..plan("tpu-v5p", "v5p", "tpu-v5p-slice", 128, 4, 100, 88, 4.2, 256)
    },
];

#[allow(clippy::too_many_arguments)]
const fn plan(
    name: &'static str,
    class: &'static str,
    model: &'static str,
    nodes: u32,
    per_node: u32,
    held: u32,
    busy: u32,
    usd: f64,
    job: u32,
) -> PoolPlan {
    PoolPlan {
        name,
        class,
        model,
        tpu: false,
        nodes,
        per_node,
        rack: 8,
        mode: if job > 100 {
            PoolMode::Static
        } else {
            PoolMode::Dynamic
        },
        billing: if per_node == 1 {
            Billing::Spot
        } else {
            Billing::Reserved
        },
        held,
        busy,
        usd,
        job,
    }
}

/// A small generator: the same numbers on every machine.
pub struct TestRng(u64);

impl TestRng {
    pub fn new(seed: u64) -> Self {
        Self(seed ^ 0x9E37_79B9_7F4A_7C15)
    }
    pub fn below(&mut self, end: u32) -> u32 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as u32) % end.max(1)
    }
}

fn ago(seconds: u64) -> Moment {
    NOW.minus(Duration::from_secs(seconds))
}

const TEAMS: [&str; 4] = ["research", "prod", "vision", "speech"];
const NAMES: [&str; 8] = [
    "llm-70b-sft",
    "ranker",
    "clip-l",
    "asr-xl",
    "sweep",
    "eval-suite",
    "embed",
    "distill",
];

/// A job under construction.
fn job(key: JobKey, team: &str, class: &str, devices: u32, state: JobState) -> Job {
    Job {
        uid: Name::new("u"),
        chain: Box::new([]),
        queue: Some(Name::new(team)),
        team: Name::new(team),
        team_source: TeamSource::Namespace,
        priority: Some((devices % 90) as i32 + 10),
        state,
        devices_requested: devices,
        devices_allocated: if state == JobState::Running {
            devices
        } else {
            0
        },
        class: Some(Name::new(class)),
        pools: Box::new([]),
        gang: (devices > 8).then_some(Gang {
            size: devices / 8,
            min: devices / 8,
        }),
        created: ago(20_000),
        waiting_since: (state == JobState::Waiting).then(|| ago(11_520)),
        started: (state == JobState::Running).then(|| ago(18_600)),
        util: (state == JobState::Running).then(|| f64::from(devices % 60 + 37) / 100.0),
        ..Job::unknown(key)
    }
}

fn pod(key: ObjectKey, job: &JobKey, team: &str, node: &Name, devices: u32) -> Arc<Pod> {
    Arc::new(Pod {
        seen: Arc::new(PodSeen {
            key,
            node: Some(node.clone()),
            phase: Phase::Running,
            ready: true,
            labels: [(Name::new("team"), Name::new(team))]
                .into_iter()
                .collect::<Labels>(),
            requests: Resources {
                devices: Box::new([(Name::new("nvidia.com/gpu"), devices)]),
                ..Resources::default()
            },
            scheduled: Some(ago(18_600)),
            created: ago(19_000),
            ..PodSeen::default()
        }),
        job: job.clone(),
        queue: Some(Name::new(team)),
        team: Name::new(team),
        team_source: TeamSource::Namespace,
    })
}

/// Builds a fleet of these pools. `unread` of 100 nodes have no reading.
pub fn build(pools: &[PoolPlan], unread: u32) -> Facts {
    let policy = Arc::new(Policy::default());
    let mut rng = TestRng::new(7);
    let mut nodes: Vec<Arc<Node>> = Vec::new();
    let mut jobs: BTreeMap<JobKey, Job> = BTreeMap::new();
    for plan in pools {
        let mut serial = 0;
        for number in 0..plan.nodes {
            nodes.push(Arc::new(node(
                plan,
                number,
                &mut serial,
                &mut jobs,
                &mut rng,
                unread,
            )));
        }
    }
    for (at, (name, class, devices, seconds, reason)) in [
        (
            "llm-70b-sft-next",
            "H100",
            512,
            11_520,
            "needs 500 more H100 in one pool",
        ),
        (
            "clip-l-large",
            "A100",
            64,
            2_460,
            "quota of vision is full, 128/128",
        ),
        ("asr-xl-tpu", "v5p", 256, 1_320, "no free 4x4x8 slice"),
        (
            "embed-new",
            "L4",
            4,
            42,
            "0/400 nodes are available: 400 Insufficient nvidia.com/gpu",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let team = TEAMS[at % TEAMS.len()];
        let key = JobKey {
            key: ObjectKey::new(team, name),
            kind: Name::new("JobSet"),
        };
        let mut waiting = job(key.clone(), team, class, devices, JobState::Waiting);
        waiting.waiting_since = Some(ago(seconds));
        waiting.reason = Name::new(reason);
        waiting.reason_code = Some("unschedulable");
        let (pool, resource) = match class {
            "H100" => ("h100-train", "nvidia.com/gpu"),
            "A100" => ("a100-shared", "nvidia.com/gpu"),
            "L4" => ("l4-serve", "nvidia.com/gpu"),
            _ => ("tpu-v5p", "google.com/tpu"),
        };
        waiting.pod_sets = Arc::new([JobPodSet {
            name: Name::new("main"),
            count: devices / 4,
            min: devices / 4,
            request: Resources {
                devices: Box::new([(Name::new(resource), 4)]),
                ..Resources::default()
            },
            node_selector: [(Name::new("tier"), Name::new(pool))].into_iter().collect(),
            siting: None,
            topology: None,
            blocked: None,
        }]);
        jobs.insert(key, waiting);
    }
    nodes.sort_by(|a, b| a.name().cmp(b.name()));
    queues::people(&mut jobs, &nodes);
    finish(nodes, jobs, pools, policy)
}

fn node(
    plan: &PoolPlan,
    number: u32,
    serial: &mut u32,
    jobs: &mut BTreeMap<JobKey, Job>,
    rng: &mut TestRng,
    unread: u32,
) -> Node {
    let name = Name::from(format!("{}-{number:03}", plan.name));
    let silent = rng.below(100) < unread;
    let mut devices = Vec::new();
    let mut pods: Vec<Arc<Pod>> = Vec::new();
    for index in 0..plan.per_node {
        let held = rng.below(100) < plan.held;
        let place = *serial / plan.job.max(1);
        *serial += 1;
        let holder = held.then(|| {
            let team = TEAMS[(place % 4) as usize];
            let job_name = format!("{}-{place}", NAMES[(place as usize + plan.name.len()) % 8]);
            let key = JobKey {
                key: ObjectKey::new(team, job_name),
                kind: Name::new("JobSet"),
            };
            let entry = jobs
                .entry(key.clone())
                .or_insert_with(|| job(key.clone(), team, plan.class, 0, JobState::Running));
            entry.devices_requested += 1;
            entry.devices_allocated += 1;
            let mut places = entry.places.to_vec();
            places.push(HeldDevice {
                node: name.clone(),
                device: index,
                slice: None,
            });
            entry.places = places.into_boxed_slice();
            if entry.pools.is_empty() {
                entry.pools = Box::new([Name::new(plan.name)]);
            }
            let pod_key = ObjectKey::new(team, format!("{}-worker-{number}", key.key.name));
            match pods.iter().find(|pod| *pod.key() == pod_key) {
                Some(pod) => pod.clone(),
                None => {
                    let pod = pod(pod_key, &key, team, &name, plan.per_node);
                    pods.push(pod.clone());
                    pod
                }
            }
        });
        devices.push(device(plan, &name, index, holder, silent, rng));
    }
    let cordoned = plan.name == "mi300x-lab" && number == 0;
    let resource = match plan.tpu {
        true => "google.com/tpu",
        false => "nvidia.com/gpu",
    };
    Node {
        seen: Arc::new(NodeSeen {
            name: name.clone(),
            created: ago(900_000),
            unschedulable: cordoned,
            provider_id: Some(Name::from(format!("aws:///us-east-1a/i-{number:017x}"))),
            labels: [(Name::new("tier"), Name::new(plan.name))]
                .into_iter()
                .collect(),
            capacity: Resources {
                devices: Box::new([(Name::new(resource), plan.per_node)]),
                ..Resources::default()
            },
            ..NodeSeen::default()
        }),
        pool: Name::new(plan.name),
        ready: if number == 5 && plan.name == "a100-shared" {
            Some(false)
        } else {
            Some(true)
        },
        ready_since: Some(ago(90_000)),
        cordon: cordoned.then(|| Cordon {
            by: Some(Name::new("kim")),
            at: Some(ago(7200)),
            reason: Some(Name::new("firmware")),
        }),
        billing: Some(plan.billing),
        instance_type: Some(Name::new("p5.48xlarge")),
        zone: Some(Name::new("us-east-1a")),
        region: Some(Name::new("us-east-1")),
        rack: (plan.per_node > 1).then(|| Name::from(format!("r{}", number / plan.rack + 1))),
        topology: Box::new([]),
        clique: None,
        driver: Some(Name::new("580.82.07")),
        devices: devices.into_boxed_slice(),
        device_capacity: plan.per_node,
        device_allocatable: plan.per_node,
        withheld: false,
        ignored_counts: Box::default(),
        pod_count: pods.len() as u32 + 4,
        others: Box::default(),
        pods: pods.into_boxed_slice(),
    }
}

fn device(
    plan: &PoolPlan,
    node: &Name,
    index: u32,
    holder: Option<Arc<Pod>>,
    silent: bool,
    rng: &mut TestRng,
) -> Device {
    let held = holder.is_some();
    let idle = held && plan.busy < 50 && rng.below(4) == 0;
    let spread = rng.below(24) as f64 - 12.0;
    let util = if !held || idle {
        0.0
    } else {
        ((f64::from(plan.busy) + spread) / 100.0).clamp(0.02, 1.0)
    };
    let fault = &**node == "a100-shared-017" && index == 3;
    let mut signals = Vec::new();
    if !silent {
        signals.push((Signal::Util, util));
        signals.push((
            Signal::MemUsed,
            if held {
                (20.0 + util * 50.0) * GIB
            } else {
                0.5 * GIB
            },
        ));
        signals.push((Signal::MemTotal, 80.0 * GIB));
        if !plan.tpu {
            signals.push((Signal::Temp, 34.0 + util * 45.0));
            signals.push((Signal::Power, 70.0 + util * 600.0));
            signals.push((Signal::PowerLimit, 700.0));
            signals.push((Signal::TensorActive, util * 0.6));
        }
    }
    Device {
        id: Name::from(format!(
            "{node}/{}{index}",
            if plan.tpu { "tpu" } else { "gpu" }
        )),
        index,
        uuid: Some(Name::from(format!("GPU-{node}-{index}"))),
        serial: (!plan.tpu)
            .then(|| Name::from(format!("13249230{:05}", node.len() as u32 + index))),
        pci: (!plan.tpu).then(|| Name::from(format!("00000000:{:02X}:00.0", 7 + index * 16))),
        vendor: if plan.tpu {
            Vendor::Google
        } else {
            Vendor::Nvidia
        },
        kind: if plan.tpu {
            DeviceKind::Tpu
        } else {
            DeviceKind::Gpu
        },
        model: Name::new(plan.model),
        class: Name::new(plan.class),
        resource: Name::new("nvidia.com/gpu"),
        attribution: match (held, plan.per_node) {
            (false, _) => Attribution::None,
            (true, 4) => Attribution::Counted,
            (true, _) => Attribution::Exporter,
        },
        holder,
        health: match (fault, silent) {
            (true, _) => Health::Fault(Name::new("XID 79: fell off the bus")),
            (_, true) => Health::Unknown,
            _ => Health::Ok,
        },
        signals: signals.into_iter().collect::<Signals>(),
        read_at: (!silent).then(|| ago(12)),
        interval: Duration::from_secs(30),
        idle_since: idle.then(|| ago(10_920)),
        idle_first_seen: false,
        slices: Box::new([]),
        makes_slices: false,
        fractions: false,
    }
}

fn finish(
    nodes: Vec<Arc<Node>>,
    jobs: BTreeMap<JobKey, Job>,
    plans: &[PoolPlan],
    policy: Arc<Policy>,
) -> Facts {
    let mut burn = SpendRates::default();
    let mut pools: Vec<Pool> = plans
        .iter()
        .map(|plan| pool(plan, &nodes, &policy))
        .collect();
    pools.sort_by(|a, b| a.name.cmp(&b.name));
    for plan in plans {
        charge(plan, &nodes, &policy, &mut burn);
    }
    settle_burn(&mut burn);
    let mut findings = Vec::new();
    if nodes.iter().any(|node| &**node.name() == "a100-shared-017") {
        findings.push(finding(
            Severity::Crit,
            "xid-79",
            "Device",
            "a100-shared-017/gpu3",
            "XID 79: the GPU fell off the bus; 3 jobs are on its node",
            "drain, then reboot; replace it if it returns",
            420,
        ));
        findings.push(finding(
            Severity::Crit,
            "not-ready",
            "Node",
            "a100-shared-005",
            "the node is not ready and holds 6 devices",
            "look at its kubelet; its pods hold their devices",
            3_000,
        ));
        findings.push(finding(
            Severity::Warn,
            "idle-allocated",
            "Node",
            "a100-shared-020",
            "8 A100 idle for 3h02m, $27.2/h",
            "ask team vision whether they need them",
            10_920,
        ));
    }
    let mut jobs: Vec<Arc<Job>> = jobs.into_values().map(Arc::new).collect();
    jobs.sort_by(|a, b| a.id.cmp(&b.id));
    let source = |name: &str, kind: &str, state, message: &str| SourceHealth {
        last_ok: Some(ago(match state {
            SourceState::Live => 2,
            _ => 190,
        })),
        failing_since: (state != SourceState::Live).then(|| ago(160)),
        latency_ms: Some(14),
        errors: if state == SourceState::Live { 0 } else { 12 },
        series_used: (kind != "kubernetes").then_some(312),
        last_errors: Arc::from_iter((!message.is_empty()).then(|| SourceError {
            at: ago(160),
            message: "timed out after 10s".to_owned(),
        })),
        series_skipped: (kind != "kubernetes").then_some(4),
        skipped: Arc::from_iter((kind != "kubernetes").then(|| SkippedSeries {
            metric: Name::new("DCGM_FI_DEV_MEM_COPY_UTIL"),
            series: 3,
            reason: SkipReason::NoMapping,
        })),
        calls_per_minute: Some(2),
        message: message.to_owned(),
        ..SourceHealth::new(
            Name::new(name),
            Name::new(kind),
            state,
            Duration::from_secs(90),
        )
    };
    let sources = vec![
        source("api nodes", "kubernetes", SourceState::Live, ""),
        source("api pods", "kubernetes", SourceState::Live, ""),
        source(
            "dcgm gpu-operator/dcgm-exporter-x7",
            "dcgm",
            SourceState::Live,
            "",
        ),
        source(
            "dcgm gpu-operator/dcgm-exporter-k2",
            "dcgm",
            SourceState::Stale,
            "no answer for 3m; is the pod running?",
        ),
        source(
            "tpu kube-system/tpu-metrics-1",
            "gke-tpu",
            SourceState::Live,
            "",
        ),
    ];
    let mut fleet = Fleet {
        revision: 88_412,
        at: NOW,
        skew_ms: Some(0),
        nodes: nodes.into(),
        pools: pools.into(),
        jobs: jobs.into(),
        queues: queues::queues().into(),
        findings: findings.into(),
        sources: sources.into(),
        known: Arc::new(
            Table::ALL
                .iter()
                .map(|table| (*table, TableState::Live))
                .collect(),
        ),
        ..Fleet::unknown(policy)
    };
    let waiting = fleet.pools_of(NOW, |_| true, |_| true);
    let waiting = waiting.iter().map(|pool| pool.waiting_devices);
    for (pool, waiting) in Arc::make_mut(&mut fleet.pools).iter_mut().zip(waiting) {
        pool.waiting_devices = waiting;
    }
    Facts::new(Name::new("prod-us-east"), Arc::new(fleet), Arc::new(burn))
}

fn finding(
    severity: Severity,
    code: &str,
    kind: &'static str,
    name: &str,
    message: &str,
    repair: &str,
    seconds: u64,
) -> Finding {
    Finding {
        id: Name::from(format!("{code} {name}")),
        severity,
        code: Name::new(code),
        subject: Subject {
            kind,
            key: ObjectKey::new("", name),
        },
        since: ago(seconds),
        first_seen: false,
        at_least: false,
        value: None,
        threshold: None,
        message: message.to_owned(),
        repair: repair.to_owned(),
        members: Box::default(),
        also: Box::default(),
    }
}

fn of_pool<'a>(plan: &'a PoolPlan, nodes: &'a [Arc<Node>]) -> impl Iterator<Item = &'a Arc<Node>> {
    nodes.iter().filter(move |node| &*node.pool == plan.name)
}

/// The fleet of the design's pictures.
pub fn large() -> Facts {
    build(POOLS, 0)
}

/// The same with 130 minutes of history behind it, a gap of twenty minutes in them.
pub fn with_past(mut facts: Facts) -> Facts {
    let mut history = History::default();
    for minute in (0..520).map(|quarter| 130.0 - f64::from(quarter) / 4.0) {
        if (60.0..80.0).contains(&minute) {
            continue;
        }
        let mut fleet = (*facts.fleet).clone();
        fleet.at = NOW.minus(Duration::from_secs_f64(minute * 60.0));
        let wave = 0.85 + 0.15 * (minute / 20.0).sin();
        let mut pools = fleet.pools.to_vec();
        for pool in &mut pools {
            pool.util = pool.util.map(|util| (util * wave).min(1.0));
        }
        fleet.pools = pools.into();
        let burn = facts.spend_rates.total.rate.usd();
        history.record(&fleet, &|_| (burn * wave, burn * 0.1));
    }
    facts.history = Arc::new(history);
    facts
}

/// Two pools of a handful of nodes.
pub fn small() -> Facts {
    let small = |plan: &PoolPlan, nodes| PoolPlan {
        nodes,
        job: plan.job.min(16),
        ..*plan
    };
    build(&[small(&POOLS[1], 6), small(&POOLS[3], 5)], 0)
}

/// Nothing listed yet.
pub fn unknown() -> Facts {
    let fleet = Arc::new(Fleet::unknown(Arc::default()));
    Facts {
        now: NOW,
        ..Facts::new(Name::new("prod-us-east"), fleet, Arc::default())
    }
}

/// Listed, and empty.
pub fn empty() -> Facts {
    let mut facts = unknown();
    let mut fleet = (*facts.fleet).clone();
    fleet.known = Arc::new(
        Table::ALL
            .iter()
            .map(|table| (*table, TableState::Live))
            .collect(),
    );
    facts.fleet = Arc::new(fleet);
    facts
}

/// A third of the nodes is silent, the pods are lost, nothing of one pool has a price, names are hostile and wide.
pub fn partly() -> Facts {
    let small = |plan: &PoolPlan, nodes| PoolPlan {
        nodes,
        job: plan.job.min(16),
        ..*plan
    };
    let mut facts = build(
        &[
            small(&POOLS[1], 9),
            small(&POOLS[2], 7),
            small(&POOLS[5], 4),
        ],
        33,
    );
    let mut fleet = (*facts.fleet).clone();
    let mut known = (*fleet.known).clone();
    known.insert(
        Table::Pods,
        TableState::Lost(Lost {
            kind: LostKind::Unreachable,
            since: ago(40),
            message: String::from(
                "cannot reach https://10.0.0.1:6443: connection refused; is the API server up?",
            ),
        }),
    );
    fleet.known = Arc::new(known);
    let mut pools = fleet.pools.to_vec();
    pools[0].name = Name::new("a100-日本語-プール-\u{1b}[2J");
    pools[0].util = None;
    pools[0].mem_used = None;
    pools[0].mode = None;
    pools[0].billing = None;
    pools[0].stale = true;
    fleet.pools = pools.into();
    let mut jobs = fleet.jobs.to_vec();
    if let Some(first) = jobs.first_mut() {
        let mut job = (**first).clone();
        job.reason = Name::new(
            "wide 日本語 👩‍👩‍👧 and \u{202e}hostile\u{1b}[31m text that goes on and on and on",
        );
        job.state = JobState::Waiting;
        job.waiting_since = Some(ago(30));
        job.class = None;
        *first = Arc::new(job);
    }
    fleet.jobs = jobs.into();
    facts.fleet = Arc::new(fleet);
    let mut burn = (*facts.spend_rates).clone();
    for row in burn
        .rows
        .get_mut(&SpendScope::Pool)
        .into_iter()
        .flatten()
        .take(1)
    {
        row.unpriced = row.devices.floor();
    }
    facts.spend_rates = Arc::new(burn);
    facts
}
