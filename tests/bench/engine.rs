//! Benchmarks of the engine: its replays on generated traces (packing by policy and by size of the cluster, queueing by
//! discipline), and its decisions on generated fleets (a cycle, one workload, the least victims), with the memory that a
//! fleet takes.

use criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};
use peak_alloc::PeakAlloc;
use stokehold::base::{Moment, Name, ObjectKey};
use stokehold::engine::cycle::{Options, cycle};
use stokehold::engine::dice::Dice;
use stokehold::engine::fit::Lens;
use stokehold::engine::model::{
    Ask, DEVICES, Device, DeviceAsk, Flavor, Grip, Health, Node as Host, Placement, PodSet,
    Preemption, Queue, Quota, Reclaim, Snapshot, Status, WHOLE, Within, Workload,
};
use stokehold::engine::packing::{Node, Pod, Policy, Replay, Setup};
use stokehold::engine::plant::Plant;
use stokehold::engine::preempt::Mode;
use stokehold::engine::queueing::{Discipline, Job, pool, replay};
use stokehold::engine::state::State;
use stokehold::fleet::job::JobKey;

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

/// A mixed cluster.
fn nodes(count: usize, dice: &mut Dice) -> Vec<Node> {
    let shapes = [
        (96, 8, "G"),
        (96, 8, "G"),
        (104, 2, "T"),
        (128, 8, "H"),
        (16, 2, "P"),
        (8, 1, "V"),
    ];
    let node = |at: usize| {
        let (cores, gpus, model) = shapes[dice.below(shapes.len())];
        Node {
            name: format!("n{at}"),
            cpu: cores * 1_000,
            memory: cores * 4_096,
            gpus,
            model: model.to_owned(),
        }
    };
    (0..count).map(node).collect()
}

/// Half of them whole GPUs, a third shared, the rest without a GPU or gangs of 2 to 8: some ninety specs.
fn pods(count: usize, dice: &mut Dice) -> Vec<Pod> {
    let pod = |at: usize| {
        let (gpus, milli) = match dice.below(100) {
            0..12 => (0, 0),
            12..60 => (1, 1_000),
            60..98 => (1, [50, 100, 250, 330, 460, 500, 810][dice.below(7)]),
            _ => ([2, 4, 8][dice.below(3)], 1_000),
        };
        let cores = [1, 2, 4, 6, 8, 12][dice.below(6)];
        Pod {
            name: format!("p{at}"),
            cpu: cores * 1_000 * i64::from(gpus.max(1)),
            memory: cores * 2_048,
            gpus,
            milli,
            models: Vec::new(),
        }
    };
    (0..count).map(pod).collect()
}

fn packing(c: &mut Criterion) {
    let mut group = c.benchmark_group("packing");
    group.sample_size(10);
    let run = |nodes: &[Node], pods: &[Pod], policy: Policy| {
        let setup = Setup {
            policy,
            ..Setup::default()
        };
        let mut replay = Replay::new(nodes, pods, setup).expect("has GPUs");
        replay.by_ref().count() + replay.outcome().failed
    };
    let mut dice = Dice::new(1);
    let (fleet, list) = (nodes(1_200, &mut dice), pods(8_000, &mut dice));
    for policy in Policy::ALL {
        group.bench_function(BenchmarkId::new("policy", policy), |b| {
            b.iter(|| run(&fleet, &list, policy))
        });
    }
    for count in [100, 1_000, 10_000] {
        let (fleet, list) = (nodes(count, &mut dice), pods(7 * count, &mut dice));
        group.bench_function(BenchmarkId::new("nodes", count), |b| {
            b.iter(|| run(&fleet, &list, Policy::Stokehold));
        });
    }
    group.finish();
}

fn queueing(c: &mut Criterion) {
    let mut group = c.benchmark_group("queueing");
    group.sample_size(10);
    let mut dice = Dice::new(2);
    let mut now = 0;
    let job = |_| {
        now += dice.below(180_000) as i64;
        Job {
            submit: now,
            queue: String::new(),
            devices: [1, 1, 1, 1, 1, 1, 1, 2, 4, 8, 16][dice.below(11)],
            // From a minute to a day and a half, evenly on a scale of doublings.
            duration: (60_000 << dice.below(12)) + dice.below(60_000) as i64,
        }
    };
    let jobs: Vec<Job> = (0..10_000).map(job).collect();
    for discipline in Discipline::ALL {
        group.bench_function(BenchmarkId::new("discipline", discipline), |b| {
            b.iter(|| replay(&jobs, &[pool(512)], discipline, &mut |_, _| {}));
        });
    }
    group.finish();
}

/// Devices of a node.
const GPUS: u32 = 8;
/// Queues, all in one cohort.
const QUEUES: usize = 20;

fn host(at: usize) -> Host {
    let name = |kind: &str, at: usize| Name::from(format!("{kind}{at:05}"));
    Host {
        name: name("n", at),
        ready: true,
        cpu_milli: i64::from(GPUS) * 12_000,
        memory_bytes: i64::from(GPUS) * (96 << 30),
        topology: vec![
            (Name::from("block"), name("b", at / 512)),
            (Name::from("rack"), name("r", at / 32)),
        ],
        devices: (0..GPUS)
            .map(|index| Device {
                index,
                class: Name::from("h100"),
                resource: Name::from("nvidia.com/gpu"),
                health: Health::Ok,
                price: None,
                slices: Vec::new(),
            })
            .collect(),
        ..Host::default()
    }
}

fn workload(at: usize, pods: u32, gpus: u32, dice: &mut Dice) -> Workload {
    let start = 1_790_000_000_000;
    Workload {
        key: JobKey {
            kind: Name::from("Job"),
            key: ObjectKey {
                namespace: Name::from("ml"),
                name: Name::from(format!("w{at:06}")),
            },
        },
        queue: Some(Name::from(format!("q{:02}", dice.below(QUEUES)))),
        priority: dice.below(10) as i32,
        created: Moment::from_millis(start + dice.below(1_000_000) as i64),
        sets: vec![PodSet {
            count: pods,
            min: pods,
            ask: Ask {
                cpu_milli: i64::from(gpus) * 1_000 * (1 + dice.below(8) as i64),
                memory_bytes: i64::from(gpus) * (8 << 30) * (1 + dice.below(8) as i64),
                devices: vec![DeviceAsk {
                    resource: Name::from("nvidia.com/gpu"),
                    count: gpus,
                    milli: WHOLE,
                }],
            },
            ..PodSet::default()
        }],
        estimate_ms: Some(60_000 * (1 + dice.below(600) as i64)),
        preemptible: true,
        ..Workload::default()
    }
}

/// A fleet of so many nodes of which nine tenths of the devices are held, and so many workloads that wait.
fn fleet(nodes: usize, waiting: usize, preemption: Preemption) -> Snapshot {
    let mut dice = Dice::new(7);
    let mut works = Vec::new();
    for node in 0..nodes {
        let mut next = 0;
        while next < GPUS && dice.below(10) > 0 {
            let gpus = [1, 1, 2, 4, 8][dice.below(5)].min(GPUS - next);
            let mut work = workload(works.len(), 1, gpus, &mut dice);
            work.status = Status::Running;
            work.admitted_at = Some(work.created);
            work.sets[0].placements = vec![Placement {
                pod: Name::default(),
                uid: Name::default(),
                deleted: None,
                node: Name::from(format!("n{node:05}")),
                grips: (next..next + gpus)
                    .map(|device| Grip {
                        device,
                        slice: None,
                        milli: WHOLE,
                    })
                    .collect(),
            }];
            works.push(work);
            next += gpus;
        }
    }
    for _ in 0..waiting {
        let (pods, gpus) = [(1, 1), (1, 2), (1, 4), (1, 8), (2, 8), (8, 8), (32, 8)][dice.below(7)];
        works.push(workload(works.len(), pods, gpus, &mut dice));
    }
    let share = nodes as i64 * i64::from(GPUS) * 1_000 / QUEUES as i64;
    let mut queues = vec![Queue {
        name: Name::from("all"),
        admits: false,
        ..Queue::default()
    }];
    queues.extend((0..QUEUES).map(|at| Queue {
        name: Name::from(format!("q{at:02}")),
        parent: Some(Name::from("all")),
        quotas: vec![Quota {
            flavor: Name::from("f"),
            resource: Name::from(DEVICES),
            nominal: share,
            borrow: None,
            lend: None,
            cap: None,
        }],
        preemption,
        ..Queue::default()
    }));
    let mut snapshot = Snapshot {
        at: Moment::from_millis(1_790_003_600_000),
        nodes: (0..nodes).map(host).collect(),
        flavors: vec![Flavor {
            name: Name::from("f"),
            ..Flavor::default()
        }],
        queues,
        workloads: works,
        ..Snapshot::default()
    };
    snapshot.settle();
    snapshot
}

/// Rules by which all may go that are of lower priority.
const TAKING: Preemption = Preemption {
    within: Within::LowerPriority,
    reclaim: Reclaim::Any,
    borrow: stokehold::engine::model::Borrow::LowerPriority,
    borrow_threshold: None,
};

fn decisions(c: &mut Criterion) {
    let mut group = c.benchmark_group("decisions");
    group.sample_size(10);
    for nodes in [100, 1_000, 10_000] {
        let before = HEAP.current_usage();
        let plant = Plant::new(fleet(nodes, 10_000, Preemption::default()));
        let state = State::new(&plant);
        let mib = (HEAP.current_usage() - before) >> 20;
        eprintln!("{nodes} nodes, 10,000 waiting: {mib} MiB in all");
        for spare_all in [true, false] {
            let plant = if spare_all {
                plant.clone()
            } else {
                Plant::new(fleet(nodes, 10_000, TAKING))
            };
            let state = State::new(&plant);
            let options = Options {
                spare_all,
                ..Options::default()
            };
            let kind = if spare_all {
                "cycle"
            } else {
                "cycle-preempting"
            };
            group.bench_function(BenchmarkId::new(kind, nodes), |b| {
                b.iter_batched(
                    || state.clone(),
                    |mut state| cycle(&mut state, options).admitted.len(),
                    BatchSize::LargeInput,
                );
            });
        }
        let mut state = state;
        let waiting: Vec<usize> = state.waiting().collect();
        group.bench_function(BenchmarkId::new("find-a-thousand", nodes), |b| {
            b.iter(|| {
                let found = waiting[..1_000]
                    .iter()
                    .filter(|work| state.find(**work, &Lens::default()).is_ok());
                found.count()
            });
        });
    }
    let mut snapshot = fleet(5_000, 0, TAKING);
    let mut gang = workload(snapshot.workloads.len(), 64, 8, &mut Dice::new(1));
    gang.priority = 100;
    let key = gang.key.clone();
    snapshot.workloads.push(gang);
    snapshot.settle();
    let plant = Plant::new(snapshot);
    let gang = plant.work(&key).expect("the gang");
    let mut state = State::new(&plant);
    for (kind, mode) in [("as-cluster", Mode::AsCluster), ("least", Mode::Least)] {
        group.bench_function(BenchmarkId::new("victims-of-512-devices", kind), |b| {
            b.iter(|| state.victims(gang, mode).expect("victims").list.len());
        });
    }
    group.finish();
}

criterion_group!(benches, packing, queueing, decisions);
criterion_main!(benches);
