//! One answer: a cycle, an explanation, a forecast and a plan agree on whether, when and by whose eviction a job starts.

use std::collections::BTreeSet;

use engine::compiled::{CompiledFleet, WorkloadId};
use engine::cycle;
use engine::explain::{Reason, StartState};
use engine::explanations;
use engine::forecast::Basis;
use engine::sample::Recipe;
use engine::snapshot::{FlavorPreference, Fungibility, QueueingStrategy, Snapshot, Status, System};
use engine::state::State;
use model::plan::{Evicted, JobName, RefusalCode};

use crate::admit;

/// How many fleets are asked.
const FLEETS: u64 = 2_000;

/// One in this many fleets is also asked for explanations, and for plans: both search for changes, which costs far more.
const EXPLAINED: u64 = 4;
const PLANNED: u64 = 12;

/// A small crowded fleet, of each scheduler in turn.
fn fleet(seed: u64) -> Snapshot {
    let recipe = Recipe {
        queues: 3,
        fair: seed.is_multiple_of(7),
        full: 70 + (seed % 4) as usize * 10,
        widest: 24,
        seed,
        ..Recipe::crowded(4, 4)
    };
    let mut snapshot = recipe.snapshot();
    let systems = [
        System::Kueue,
        System::Kueue,
        System::Stokehold,
        System::Kai,
        System::Volcano,
    ];
    let system = systems[(seed % systems.len() as u64) as usize];
    for (at, queue) in snapshot.queues.iter_mut().enumerate() {
        let odd = |bit: u64| (seed >> bit).wrapping_add(at as u64).is_multiple_of(3);
        queue.system = system;
        queue.fungibility = Fungibility {
            borrow_stops: odd(1),
            preempt_stops: odd(2),
            preference: match odd(3) {
                true => FlavorPreference::Preemption,
                false => FlavorPreference::Borrowing,
            },
        };
        if odd(5) {
            queue.order = QueueingStrategy::Strict;
        }
    }
    for flavor in &mut snapshot.flavors {
        flavor.topology = seed.is_multiple_of(3).then(|| "t".into());
    }
    for (at, work) in snapshot.workloads.iter_mut().enumerate() {
        if seed.is_multiple_of(11) && at == 0 && work.status == Status::Running {
            work.status = Status::Ending;
        }
        for set in &mut work.sets {
            // Kueue rejects a resource without quota.
            (set.requests.cpu_milli, set.requests.memory_bytes) = (0, 0);
        }
    }
    snapshot.settle();
    snapshot
}

/// The jobs that a job evicts when it starts, or gets its quota, by itself: what the plan to admit it says.
fn by_itself(snapshot: &Snapshot, job: &JobName) -> Option<BTreeSet<JobName>> {
    let refusal = admit::with(snapshot, job, false, &BTreeSet::new()).err()?;
    (refusal.code == RefusalCode::AlreadySo).then(|| named(&refusal.victims))
}

fn named(victims: &[Evicted]) -> BTreeSet<JobName> {
    victims.iter().map(|victim| victim.job.clone()).collect()
}

#[test]
fn a_cycle_an_explanation_a_forecast_and_a_plan_agree() {
    let mut counts = [0_usize; 4];
    let mut wrong_answers: Vec<String> = Vec::new();
    for seed in 0..FLEETS {
        let snapshot = fleet(seed);
        let compiled = CompiledFleet::new(snapshot.clone());
        let name = |work: WorkloadId| JobName(compiled.workload(work).key.key.clone());
        let mut state = State::new(&compiled);
        let cycle = cycle::cycle(&mut state);
        let explained = seed
            .is_multiple_of(EXPLAINED)
            .then(|| explanations::explain_all(&snapshot));
        let forecasts = explanations::forecast(&snapshot);
        for work in State::new(&compiled).waiting() {
            let (job, key) = (name(work), &compiled.workload(work).key);
            let starts = cycle.admitted.iter().any(|one| one.work == work);
            let gets_quota = cycle.quota_reserved.contains(&work);
            let pushes = cycle.preempted.iter().filter(|push| push.by == work);
            let victims: BTreeSet<JobName> = pushes
                .flat_map(|push| &push.victims.list)
                .map(|victim| name(victim.work))
                .collect();
            let start = &forecasts[key];
            let mut same = vec![
                ("the forecast", (start.basis == Basis::Now) == starts),
                ("the forecast's victims", named(&start.victims) == victims),
            ];
            if let Some(answer) = explained.as_ref().map(|all| &all[key]) {
                let explanation = &answer.explanation;
                let state = match starts {
                    true => StartState::Ready,
                    false => StartState::Waiting,
                };
                let mut codes = explanation.reasons.iter().map(Reason::code);
                same.extend([
                    ("explain's state", explanation.state == state),
                    ("explain's victims", named(&explanation.victims) == victims),
                    (
                        "explain's quota",
                        codes.any(|it| it == "gets-quota") == gets_quota,
                    ),
                    ("explain's forecast", answer.start.as_ref() == Some(start)),
                ]);
            }
            if seed.is_multiple_of(PLANNED) {
                let expected = (starts || gets_quota).then(|| victims.clone());
                same.push(("the plan", by_itself(&snapshot, &job) == expected));
            }
            let wrong = same.iter().filter(|(_, same)| !same);
            wrong_answers.extend(wrong.map(|(what, _)| {
                format!("fleet {seed}, {job}: {what} ({starts}, {gets_quota}, {victims:?})")
            }));
            let which = usize::from(starts) + 2 * usize::from(!victims.is_empty());
            counts[which] += 1;
        }
    }
    assert!(wrong_answers.is_empty(), "{}", wrong_answers.join("\n"));
    assert!(counts.iter().all(|count| *count > 5), "{counts:?}");
}
