//! What it costs to keep and publish a fleet of 80,000 devices and 100,000 pods, without any HTTP, while a
//! reader holds the last picture; and the heap that it takes at its peak, an hour of history included.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use peak_alloc::PeakAlloc;

use model::base::{Moment, Name, Names, ObjectKey};
use model::cost::Prices;
use model::fleet::observe::{
    Condition, Labels, NodeSeen, Observation, OwnerRef, Phase, PodSeen, Resources, Table,
    WorkloadSeen,
};
use model::fleet::policy::Policy;
use model::fleet::reading::{Page, Reading, ReadingScope};
use model::fleet::signal::Signal;
use model::fleet::thresholds::Thresholds;
use stokehold::runtime::store::{Rules, Store};

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

const NODES: u32 = 10_000;
const DEVICES: u32 = 8;
const PODS: u32 = 100_000;
const START: Moment = Moment::from_seconds(1_800_000_000);

fn labels(names: &mut Names, node: u32) -> Labels {
    let pool = format!("pool-{}", node % 20);
    let rack = format!("r{}", node / 32);
    let pairs = [
        ("nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3"),
        ("nvidia.com/gpu.count", "8"),
        ("nvidia.com/gpu.memory", "81559"),
        ("nvidia.com/gpu.family", "hopper"),
        ("node.kubernetes.io/instance-type", "p5.48xlarge"),
        ("topology.kubernetes.io/zone", "us-east-1a"),
        ("karpenter.sh/nodepool", &pool),
        ("topology.kubernetes.io/rack", &rack),
    ];
    let mut all: Vec<(Name, Name)> = pairs
        .iter()
        .map(|(key, value)| (names.intern(key), names.intern(value)))
        .collect();
    // Real nodes carry some fifty labels that mean nothing to us; they are kept all the same.
    for extra in 0..40 {
        all.push((
            names.intern(&format!("feature.node/label-{extra}")),
            names.intern("true"),
        ));
    }
    all.into_iter().collect()
}

fn gpus(names: &mut Names, count: u32) -> Resources {
    Resources {
        cpu_milli: 192_000,
        memory_bytes: 2 << 40,
        devices: Box::new([(names.intern("nvidia.com/gpu"), count)]),
        ..Resources::default()
    }
}

fn node(names: &mut Names, at: u32) -> Observation {
    Observation::Node(Box::new(NodeSeen {
        name: names.intern(&format!("node-{at:05}")),
        uid: Name::from(format!("0000-{at:08}")),
        labels: labels(names, at),
        provider_id: Some(Name::from(format!("aws:///us-east-1a/i-{at:017}"))),
        conditions: vec![Condition {
            kind: names.intern("Ready"),
            status: Some(true),
            reason: names.intern("KubeletReady"),
            message: Name::default(),
            since: Some(START),
        }],
        capacity: gpus(names, DEVICES),
        allocatable: gpus(names, DEVICES),
        created: START,
        ..NodeSeen::default()
    }))
}

/// Every node's first pod is one of a gang of 64 and holds four devices, the next two hold one each; the
/// rest of the pods ask for none, as on real clusters.
fn pod(names: &mut Names, at: u32, restarts: u32) -> Observation {
    let (node, rank) = (at % NODES, at / NODES);
    let job = node / 64;
    let asks = match rank {
        0 => 4,
        1 | 2 => 1,
        _ => 0,
    };
    let owner = (rank == 0).then(|| OwnerRef {
        kind: names.intern("Job"),
        name: names.intern(&format!("train-{job}")),
        uid: names.intern(&format!("job-{job}")),
    });
    Observation::Pod(Box::new(PodSeen {
        key: ObjectKey::new(
            names.intern(&format!("team-{}", job % 40)),
            format!("pod-{at:06}-{restarts}"),
        ),
        uid: Name::from(format!("11111111-2222-3333-4444-{at:012}-{restarts}")),
        node: Some(names.intern(&format!("node-{node:05}"))),
        phase: Phase::Running,
        owner,
        requests: if asks > 0 {
            gpus(names, asks)
        } else {
            Resources::default()
        },
        created: START,
        scheduled: Some(START),
        started: Some(START),
        ready: true,
        ..PodSeen::default()
    }))
}

fn job(names: &mut Names, at: u32) -> Observation {
    Observation::Workload(Box::new(WorkloadSeen {
        table: Table::Jobs,
        kind: names.intern("Job"),
        key: ObjectKey::new(
            names.intern(&format!("team-{}", at % 40)),
            format!("train-{at}"),
        ),
        uid: names.intern(&format!("job-{at}")),
        labels: Labels::default(),
        annotations: Labels::default(),
        owner: None,
        created: START,
        suspended: false,
        pods: 64,
        gang_min: Some(64),
        per_pod: gpus(names, 4),
        total: gpus(names, 256),
        node_selector: Labels::default(),
        priority_class: None,
        conditions: Vec::new(),
        deleted: None,
        started: Some(START),
        finished: None,
        outcome: None,
        failed_pods: 0,
        restarts: 0,
        pod_sets: Arc::from([]),
        time_limit: None,
        managed_by: None,
        scheduler: None,
        succeeded_pods: 0,
        generation: 1,
    }))
}

fn page(names: &mut Names, node: u32, at: Moment, tick: u32) -> Observation {
    let dialect = names.intern("dcgm");
    let model = names.intern("NVIDIA H100 80GB HBM3");
    let readings = (0..DEVICES)
        .map(|index| {
            let wave = f64::from((node * 7 + index * 13 + tick * 3) % 100) / 100.0;
            let mut reading = Reading::new(dialect.clone(), ReadingScope::Device);
            reading.index = Some(index);
            reading.uuid = Some(names.intern(&format!("GPU-{node:08}-{index}")));
            reading.pci = Some(names.intern(&format!("00000000:{index:02X}:00.0")));
            reading.model = Some(model.clone());
            reading.signals = [
                (Signal::Util, wave),
                (Signal::TensorActive, wave * 0.5),
                (Signal::DramActive, wave * 0.6),
                (Signal::MemUsed, wave * 8e10),
                (Signal::MemFree, (1.0 - wave) * 8e10),
                (Signal::MemTotal, 8e10),
                (Signal::Temp, 40.0 + wave * 40.0),
                (Signal::MemTemp, 45.0 + wave * 40.0),
                (Signal::Power, 100.0 + wave * 600.0),
                (Signal::PowerLimit, 700.0),
                (Signal::Energy, f64::from(tick) * 1e4),
                (Signal::SmClock, 1.7e9),
                (Signal::MemClock, 2.6e9),
                (Signal::PcieTx, 1e9),
                (Signal::PcieRx, 1e9),
                (Signal::Nvlink, 1e10),
                (Signal::XidLast, 0.0),
                (Signal::RemapFailed, 0.0),
            ]
            .into_iter()
            .collect();
            reading
        })
        .collect();
    Observation::Page(Box::new(Page {
        node: Some(names.intern(&format!("node-{node:05}"))),
        at,
        interval: Duration::from_secs(30),
        readings,
    }))
}

fn full(names: &mut Names) -> Store {
    let mut store = Store::new(Rules {
        refresh: std::time::Duration::ZERO,
        context: Name::new("bench"),
        policy: Arc::new(Policy::default()),
        thresholds: Arc::new(Thresholds::default()),
        prices: Arc::new(Prices::default()),
        judging: stokehold::runtime::store::JUDGING,
        one_look: false,
        history: true,
    });
    for table in Table::ALL {
        store.apply(Observation::Begin(*table));
    }
    for at in 0..NODES {
        store.apply(node(names, at));
    }
    for at in 0..NODES / 64 {
        store.apply(job(names, at));
    }
    for at in 0..PODS {
        store.apply(pod(names, at, 0));
    }
    for table in Table::ALL {
        store.apply(Observation::End(*table));
    }
    for at in 0..NODES {
        store.apply(page(names, at, START, 0));
    }
    store
}

fn fleet(c: &mut Criterion) {
    let mut names = Names::default();
    HEAP.reset_peak_usage();
    let mut store = full(&mut names);
    let mut reader = store.publish(START);
    println!(
        "fleet: {} devices, {} jobs, heap {:.0} MiB after the first picture (peak {:.0} MiB)",
        reader.fleet.device_counts().total,
        reader.fleet.jobs.len(),
        HEAP.current_usage_as_mb(),
        HEAP.peak_usage_as_mb(),
    );
    // An hour of pages, each 30 s, each picture held by a reader while the next is made.
    let mut at = START;
    for tick in 1..=120 {
        at = at.plus(Duration::from_secs(30));
        for node in 0..NODES {
            store.apply(page(&mut names, node, at, tick));
        }
        reader = store.publish(at);
    }
    println!(
        "fleet: heap {:.0} MiB with an hour of history, peak {:.0} MiB",
        HEAP.current_usage_as_mb(),
        HEAP.peak_usage_as_mb(),
    );
    black_box(&reader);
    let mut group = c.benchmark_group("80k devices, 100k pods");
    group.sample_size(10);
    let mut tick = 1000;
    group.bench_function("apply one page of 8 devices", |bench| {
        let one = page(&mut names, 77, at, 5);
        bench.iter(|| store.apply(one.clone()));
    });
    group.bench_function("publish after one page", |bench| {
        bench.iter(|| {
            tick += 1;
            at = at.plus(Duration::from_millis(100));
            store.apply(page(&mut names, tick % NODES, at, tick));
            reader = store.publish(at);
        });
    });
    group.bench_function("publish after 500 pods were replaced", |bench| {
        bench.iter(|| {
            tick += 1;
            at = at.plus(Duration::from_millis(100));
            for which in 0..500 {
                let pod_at = (tick * 500 + which) % (NODES * 3);
                let gone = pod(&mut names, pod_at, 0);
                if let Observation::Pod(seen) = &gone {
                    store.apply(Observation::Gone(Table::Pods, seen.key.clone()));
                }
                store.apply(gone);
            }
            reader = store.publish(at);
        });
    });
    group.bench_function("apply a page of every node and publish", |bench| {
        bench.iter(|| {
            tick += 1;
            at = at.plus(Duration::from_secs(30));
            for node in 0..NODES {
                store.apply(page(&mut names, node, at, tick));
            }
            reader = store.publish(at);
        });
    });
    group.finish();
    black_box(&reader);
}

criterion_group!(benches, fleet);
criterion_main!(benches);
