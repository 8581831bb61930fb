//! Benchmarks of replays on generated traces: packing by policy and by size of the cluster, queueing by discipline.

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use engine::packing::PackingPolicy;
use engine::rng::Rng;
use replay::packing::{PackingReplay, PackingSetup, TraceNode, TracePod};
use replay::queueing::{Discipline, TraceJob, pool, replay};

/// A mixed cluster.
fn nodes(count: usize, dice: &mut Rng) -> Vec<TraceNode> {
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
        TraceNode {
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
fn pods(count: usize, dice: &mut Rng) -> Vec<TracePod> {
    let pod = |at: usize| {
        let (gpus, milli) = match dice.below(100) {
            0..12 => (0, 0),
            12..60 => (1, 1_000),
            60..98 => (1, [50, 100, 250, 330, 460, 500, 810][dice.below(7)]),
            _ => ([2, 4, 8][dice.below(3)], 1_000),
        };
        let cores = [1, 2, 4, 6, 8, 12][dice.below(6)];
        TracePod {
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
    let run = |nodes: &[TraceNode], pods: &[TracePod], policy: PackingPolicy| {
        let setup = PackingSetup {
            policy,
            ..PackingSetup::default()
        };
        let mut replay = PackingReplay::new(nodes, pods, setup).expect("has GPUs");
        replay.by_ref().count() + replay.outcome().failed
    };
    let mut dice = Rng::new(1);
    let (fleet, list) = (nodes(1_200, &mut dice), pods(8_000, &mut dice));
    for policy in PackingPolicy::ALL {
        group.bench_function(BenchmarkId::new("policy", policy), |b| {
            b.iter(|| run(&fleet, &list, policy))
        });
    }
    for count in [100, 1_000, 10_000] {
        let (fleet, list) = (nodes(count, &mut dice), pods(7 * count, &mut dice));
        group.bench_function(BenchmarkId::new("nodes", count), |b| {
            b.iter(|| run(&fleet, &list, PackingPolicy::Stokehold));
        });
    }
    group.finish();
}

fn queueing(c: &mut Criterion) {
    let mut group = c.benchmark_group("queueing");
    group.sample_size(10);
    let mut dice = Rng::new(2);
    let mut now = 0;
    let job = |_| {
        now += dice.below(180_000) as i64;
        TraceJob {
            submit: now,
            queue: String::new(),
            devices: [1, 1, 1, 1, 1, 1, 1, 2, 4, 8, 16][dice.below(11)],
            // From a minute to a day and a half, evenly on a scale of doublings.
            duration: (60_000 << dice.below(12)) + dice.below(60_000) as i64,
        }
    };
    let jobs: Vec<TraceJob> = (0..10_000).map(job).collect();
    for discipline in Discipline::ALL {
        group.bench_function(BenchmarkId::new("discipline", discipline), |b| {
            b.iter(|| replay(&jobs, &[pool(512)], discipline, &mut |_, _| {}));
        });
    }
    group.finish();
}

criterion_group!(benches, packing, queueing);
criterion_main!(benches);
