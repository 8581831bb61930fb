//! Benchmarks of the engine: its decisions on generated fleets of growing size (a cycle, explanations, the least victims), with the
//! memory that a fleet takes, and its forecasts (of all, beside an explanation, and with something changed).

use std::collections::BTreeMap;

use criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};
use engine::compiled::{CompiledFleet, WorkloadId};
use engine::cycle::{cycle, without_evictions};
use engine::explain::Explainer;
use engine::explanations;
use engine::forecast;
use engine::preempt::PreemptMode;
use engine::sample::Recipe;
use engine::snapshot::{Borrow, Preemption, Reclaim, Status, Within, Workload};
use engine::state::State;
use model::base::Name;
use peak_alloc::PeakAlloc;

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

/// Workloads that wait, in each fleet.
const WAITING: usize = 10_000;

fn decisions(c: &mut Criterion) {
    let mut group = c.benchmark_group("decisions");
    group.sample_size(10);
    for nodes in [100, 1_000, 10_000] {
        let before = HEAP.current_usage();
        let compiled = CompiledFleet::new(Recipe::crowded(nodes, WAITING).snapshot());
        let state = State::new(&compiled);
        let held = HEAP.current_usage() - before;
        HEAP.reset_peak_usage();
        cycle(&mut state.clone());
        let most = HEAP.peak_usage() - before;
        eprintln!(
            "{nodes} nodes, {WAITING} waiting: {} MiB, and {} MiB at most in a cycle",
            held >> 20,
            most >> 20
        );
        for sparing in [false, true] {
            let kind = if sparing {
                "cycle-sparing-all"
            } else {
                "cycle"
            };
            let run = if sparing { without_evictions } else { cycle };
            group.bench_function(BenchmarkId::new(kind, nodes), |b| {
                b.iter_batched(
                    || state.clone(),
                    |mut state| run(&mut state).admitted.len(),
                    BatchSize::LargeInput,
                );
            });
        }
        group.bench_function(BenchmarkId::new("explain-all", nodes), |b| {
            b.iter(|| Explainer::new(&compiled).explain_all().len());
        });
        // As the console asks: the scene of a snapshot is there, a job is asked for.
        let mut scene = Explainer::new(&compiled);
        let waiting: Vec<WorkloadId> = scene.cycle().waiting.keys().copied().collect();
        let mut next = 0;
        group.bench_function(BenchmarkId::new("explain-one", nodes), |b| {
            b.iter(|| {
                next = (next + 97) % waiting.len();
                scene.explain(waiting[next]).reasons.len()
            });
        });
    }
    group.finish();
}

/// A fleet that is full, and a gang of 512 devices that may take them from others.
fn victims(c: &mut Criterion) {
    let mut group = c.benchmark_group("victims-of-512-devices");
    group.sample_size(10);
    for nodes in [200, 1_000, 5_000, 10_000] {
        let full = Recipe {
            full: 100,
            ..Recipe::crowded(nodes, 1_000)
        };
        let mut snapshot = full.snapshot();
        for queue in &mut snapshot.queues {
            queue.preemption = TAKING;
            for quota in &mut queue.quotas {
                (quota.borrow, quota.lend) = (None, None);
            }
        }
        let wide = |work: &Workload| work.sets[0].count == 64 && work.sets[0].topology.is_none();
        let mut all = snapshot.workloads.iter();
        let found = all.position(|work| work.status == Status::Waiting && wide(work));
        let gang = found.expect("one of a hundred is");
        snapshot.workloads[gang].priority = 1_000;
        // The pool that has most nodes.
        snapshot.workloads[gang].sets[0].selector =
            BTreeMap::from([(Name::from("pool"), Name::from("h100"))]);
        let key = snapshot.workloads[gang].key.clone();
        snapshot.settle();
        let compiled = CompiledFleet::new(snapshot);
        let gang = compiled.work(&key).expect("the gang");
        let mut state = State::new(&compiled);
        for (kind, mode) in [
            ("as-cluster", PreemptMode::AsCluster),
            ("least", PreemptMode::Least),
        ] {
            group.bench_function(BenchmarkId::new(kind, nodes), |b| {
                b.iter(|| state.victims(gang, mode).map(|it| it.list.len()));
            });
        }
        let found = state.victims(gang, PreemptMode::Least);
        eprintln!("{nodes} nodes: {:?} victims", found.map(|it| it.list.len()));
    }
    group.finish();
}

/// Rules by which all may go that are of lower priority.
const TAKING: Preemption = Preemption {
    within: Within::LowerPriority,
    reclaim: Reclaim::Any,
    borrow: Borrow::LowerPriority,
    borrow_threshold: None,
};

/// When who waits starts: where every runtime is known, and where past runs tell a third of them.
fn forecasts(c: &mut Criterion) {
    let mut group = c.benchmark_group("forecasts");
    group.sample_size(10);
    for (nodes, runtimes) in [(300, "known"), (300, "history"), (1_000, "known")] {
        let mut snapshot = Recipe::crowded(nodes, nodes).snapshot();
        if runtimes == "known" {
            for (at, work) in snapshot.workloads.iter_mut().enumerate() {
                let minutes = 10 * (1 + (at as i64 * 7_919) % 144);
                work.estimate_ms.get_or_insert(60_000 * minutes);
            }
        }
        let before = HEAP.current_usage();
        HEAP.reset_peak_usage();
        let compiled = CompiledFleet::new(snapshot.clone());
        let state = State::new(&compiled);
        let known = forecast::forecast(&state)
            .values()
            .filter(|it| it.p90.is_some())
            .count();
        let most = (HEAP.peak_usage() - before) >> 20;
        eprintln!("{nodes} nodes, {runtimes}: {known} of {nodes} starts known, {most} MiB at most");
        let waiting: Vec<WorkloadId> = state.waiting().collect();
        let name = compiled
            .workload(waiting[waiting.len() / 2])
            .key
            .key
            .to_string();
        group.bench_function(BenchmarkId::new(format!("all-{runtimes}"), nodes), |b| {
            b.iter(|| forecast::forecast(&state).len());
        });
        group.bench_function(
            BenchmarkId::new(format!("explain-{runtimes}"), nodes),
            |b| {
                b.iter(|| {
                    explanations::explain(&snapshot, &name)
                        .expect("it is there")
                        .start
                });
            },
        );
        group.bench_function(
            BenchmarkId::new(format!("what-if-{runtimes}"), nodes),
            |b| {
                let changed = || explanations::what_if(&snapshot, &["nodes n00001 +2"]);
                b.iter(|| changed().expect("there is such a node").jobs.len());
            },
        );
    }
    group.finish();
}

criterion_group!(benches, decisions, forecasts, victims);
criterion_main!(benches);
