//! Laws of the engine over generated fleets. A failure prints the seed of its fleet.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::compiled::{CompiledFleet, QueueId, WorkloadId};
use super::cycle::{Cycle, Preempted, cycle, end_of, without_evictions};
use super::fit::Relaxation;
use super::fixture::{check, compiled, name, node, work};
use super::preempt::{PreemptionReason, Victims};
use super::rng::Rng;
use super::snapshot::{QueueingStrategy, Reclaim, Status, Within};
use super::state::{Allocation, State};

fn one_of<'a>(rng: &mut Rng, words: &[&'a str]) -> &'a str {
    words[rng.below(words.len())]
}

/// A fleet of a few nodes, queues in one or two cohorts, and workloads of which half are on hold until later.
fn fleet(seed: u64) -> Value {
    let mut rng = Rng::new(seed);
    let nodes: Vec<Value> = (0..rng.below(7))
        .map(|at| {
            node(
                &format!("n{at}"),
                4,
                &format!("r{}", at / 2),
                &format!("b{}", at / 4),
            )
        })
        .collect();
    let mut queues = vec![
        json!({ "name": "top", "admits": false, "quota": [{ "flavor": "f", "nominal": rng.below(6) }] }),
        json!({ "name": "mid", "admits": false, "parent": "top" }),
    ];
    for queue in ["a", "b", "c", "d"] {
        let mut quota = json!({ "flavor": "f", "nominal": rng.below(9) });
        if rng.below(4) == 0 {
            quota["lend_limit"] = json!(rng.below(4));
        }
        if rng.below(4) == 0 {
            quota["borrow_limit"] = json!(rng.below(4));
        }
        if rng.below(6) == 0 {
            quota["cap"] = json!(rng.below(9));
        }
        let mut rules = json!({
            "within": one_of(&mut rng, &["never", "lower-priority", "lower-or-newer-equal-priority"]),
            "reclaim": one_of(&mut rng, &["never", "lower-priority", "any"]),
            "borrow": one_of(&mut rng, &["never", "lower-priority"]),
        });
        if rng.below(2) == 0 {
            rules["borrow_threshold"] = json!(1);
        }
        queues.push(json!({
            "name": queue, "parent": one_of(&mut rng, &["top", "mid"]), "quota": [quota], "preemption": rules,
            "weight": rng.below(3), "strategy": one_of(&mut rng, &["strict", "best-effort", "best-effort"]),
        }));
    }
    let works: Vec<Value> = (0..rng.below(14) + 2)
        .map(|at| {
            let pods = rng.below(3) as u32 + 1;
            let mut more = json!({
                "queue": one_of(&mut rng, &["a", "b", "c", "d"]), "priority": rng.below(4),
                "created": format!("2026-11-21T06:00:{:02}Z", rng.below(60)),
                "preemptible": rng.below(5) > 0,
                "state": one_of(&mut rng, &["waiting", "held"]),
            });
            if rng.below(3) == 0 {
                more["topology"] = json!({ "level": one_of(&mut rng, &["rack", "block"]), "required": rng.below(2) == 0 });
            }
            if rng.below(3) == 0 {
                more["min"] = json!(1);
            }
            if rng.below(3) == 0 {
                more["runtime_estimate_seconds"] = json!(600);
            }
            work(&format!("w{at:02}"), pods, rng.below(4) as u32 + 1, more)
        })
        .collect();
    json!({
        "nodes": nodes, "flavors": [{ "name": "f" }], "queues": queues, "workloads": works,
        "engine": { "fair_sharing": rng.below(2) == 0, "backfill": one_of(&mut rng, &["none", "head"]) },
    })
}

/// No device, node or quota is over-committed (law 1).
fn sound(state: &State<'_>) {
    check(state);
    let tree = state.tree();
    for queue in 0..tree.branches.len() {
        for pair in 0..tree.width(queue) {
            let free = state.available(queue, pair);
            assert!(free >= 0, "{} is {free} over", tree.branches[queue].name);
        }
    }
}

/// A gang has all pods or its minimum, in valid places (law 2).
fn whole(state: &State<'_>, work: WorkloadId, allocation: &Allocation) {
    let compiled = state.compiled();
    for (set, held) in compiled.workloads[work].sets.iter().zip(&allocation.sets) {
        assert!((set.min..=set.count).contains(&held.count));
        if state.nodes() == 0 {
            continue;
        }
        assert_eq!(held.placements.len(), held.count as usize);
        if let Some((ladder, level, true)) = set.topology_level {
            let domain = |node| compiled.ladders[ladder].domain_of(node, level);
            let first = domain(held.placements[0].node);
            assert!(
                first.is_some()
                    && held
                        .placements
                        .iter()
                        .all(|placement| domain(placement.node) == first)
            );
        }
    }
}

/// Whether a queue exceeds its own quota with this allocation added.
fn borrows_with(state: &mut State<'_>, queue: QueueId, allocation: &Allocation) -> bool {
    let mark = state.mark();
    for &(pair, amount) in &allocation.usage {
        state.use_quota(queue, pair, amount);
    }
    let width = state.compiled().tree.width(queue);
    let borrows = (0..width).any(|pair| state.borrowed(queue, pair) > 0);
    state.undo_to(mark);
    borrows
}

/// The same for a workload that starts by preemption.
fn borrows_after(state: &mut State<'_>, queue: QueueId, victims: &Victims) -> bool {
    let mark = state.mark();
    for victim in &victims.list {
        state.evict(victim.work);
    }
    let borrows = borrows_with(state, queue, &victims.allocation);
    state.undo_to(mark);
    borrows
}

/// Checks that all victims may be preempted (laws 3 and 4) and are necessary; then evicts them one by one.
fn lawful(state: &mut State<'_>, by: WorkloadId, victims: &Victims) {
    let compiled = state.compiled();
    let queue = compiled.workloads[by].queue.expect("a queue");
    let rules = compiled.snapshot.queues[queue].preemption;
    let (mine, model) = (state.priority(by), state.workload(by));
    let relaxation = Relaxation::default();
    let reclaims = victims
        .list
        .iter()
        .any(|it| it.reason == PreemptionReason::Reclaim);
    let borrows = borrows_after(state, queue, victims);
    for spared in victims.list.iter().filter(|_| !reclaims) {
        let mark = state.mark();
        for victim in victims.list.iter().filter(|it| *it != spared) {
            state.evict(victim.work);
        }
        let starts = state.find(by, &relaxation).ok();
        let by_borrowing = starts
            .as_ref()
            .map(|allocation| borrows_with(state, queue, allocation));
        state.undo_to(mark);
        // If other queues of the cohort may be reclaimed from, Kueue first looks for victims that make borrowing unnecessary.
        let kept_from_borrowing =
            rules.reclaim != Reclaim::Never && by_borrowing == Some(true) && !borrows;
        assert!(
            starts.is_none() || kept_from_borrowing,
            "{} goes in vain",
            name(compiled, spared.work)
        );
    }
    for victim in &victims.list {
        let theirs = state.workload(victim.work);
        let (lower, equal) = (
            state.priority(victim.work) < mine,
            state.priority(victim.work) == mine,
        );
        assert!(theirs.preemptible);
        if compiled.workloads[victim.work].queue == Some(queue) {
            let newer = equal && theirs.created > model.created;
            assert!(match rules.within {
                Within::Never => false,
                Within::LowerPriority => lower,
                Within::LowerOrNewerEqual => lower || newer,
            });
        } else {
            let from = compiled.workloads[victim.work].queue.expect("a queue");
            assert!(match rules.reclaim {
                Reclaim::Never => false,
                Reclaim::LowerPriority => lower,
                Reclaim::Any => true,
            });
            let above = (0..compiled.tree.width(from)).any(|pair| state.borrowed(from, pair) > 0);
            assert!(
                above,
                "{} uses no more than its own",
                compiled.tree.branches[from].name
            );
        }
        state.evict(victim.work);
    }
}

/// Replays a cycle step by step, with checks after each step.
fn replay(state: &mut State<'_>, cycle: &Cycle) {
    for victim in &cycle.drained {
        state.evict(victim.work);
    }
    for admission in &cycle.admitted {
        let preempted = cycle.preempted.iter().find(|it| it.by == admission.work);
        if let Some(preempted) = preempted {
            lawful(state, admission.work, &preempted.victims);
        }
        whole(state, admission.work, &admission.allocation);
        state.admit(admission.work, admission.allocation.clone());
        sound(state);
    }
}

/// Whether a step may be part of a preemption loop; without such steps every fleet comes to rest. With them a few fleets (one in
/// thousands) never do, because of Kueue's rules. A queue preempts one of its own to borrow for another workload; a second queue
/// reclaims what is borrowed; the preempted workload, which needs no borrowing, reclaims its queue's own quota. And fair sharing
/// moves whole gangs: a large gang is preempted for a small one, the capacity that it leaves is lent to a third queue, and then
/// the large one is tried again.
fn may_take_turns(before: &State<'_>, step: &Preempted) -> bool {
    let mut state = before.clone();
    let compiled = state.compiled();
    let queue = compiled.workloads[step.by].queue.expect("a queue");
    let borrows = borrows_after(&mut state, queue, &step.victims);
    step.victims.list.iter().any(|victim| match victim.reason {
        PreemptionReason::FairSharing => true,
        PreemptionReason::InQueue => borrows || compiled.snapshot.options.fair_sharing.is_some(),
        reason => borrows && reason == PreemptionReason::ReclaimWhileBorrowing,
    })
}

fn wake(state: &mut State<'_>) {
    for work in 0..state.compiled().workloads.len() {
        if state.workload_state(work).status == Status::Held {
            state.set_status(work, Status::Waiting);
        }
    }
}

/// Result of a cycle, by name.
fn cycle_lines(compiled: &CompiledFleet, cycle: &Cycle) -> Vec<String> {
    let mut out = Vec::new();
    for admission in &cycle.admitted {
        let nodes: Vec<&str> = admission
            .allocation
            .nodes()
            .into_iter()
            .map(|node| &*compiled.snapshot.nodes[node].name)
            .collect();
        out.push(format!("{} on {nodes:?}", name(compiled, admission.work)));
    }
    for one in &cycle.preempted {
        let gone: Vec<&str> = one
            .victims
            .list
            .iter()
            .map(|it| name(compiled, it.work))
            .collect();
        out.push(format!("{} for {gone:?}", name(compiled, one.by)));
    }
    for kept in &cycle.reservations {
        out.push(format!("{} at {:?}", name(compiled, kept.work), kept.at));
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(700))]

    #[test]
    fn what_a_cycle_does_is_lawful_at_every_step_and_comes_to_rest(seed in any::<u64>()) {
        let compiled = compiled(fleet(seed));
        let mut state = State::new(&compiled);
        let mut last = Vec::new();
        let mut turns = false;
        for round in 0..40 {
            let mut before = state.clone();
            let cycle = cycle(&mut state);
            last.push(cycle_lines(&compiled, &cycle));
            turns |= round > 20 && cycle.preempted.iter().any(|it| may_take_turns(&before, it));
            sound(&state);
            replay(&mut before, &cycle);
            if round == 0 {
                wake(&mut state);
            } else if cycle.admitted.is_empty() {
                return Ok(());
            }
        }
        prop_assert!(turns, "forty cycles, and they still preempt each other: {last:#?}");
    }

    /// With single devices, all shares converge and are even.
    #[test]
    fn fair_sharing_evens_out_shares_and_comes_to_rest(
        nominal in prop::collection::vec(0_u32..6, 2..5),
        weights in prop::collection::vec(1_u32..4, 4),
        jobs in prop::collection::vec((0_usize..4, 0_u32..3, 0_u32..60, any::<bool>()), 1..30),
    ) {
        let devices: u32 = nominal.iter().sum();
        let mut queues = vec![json!({ "name": "all", "admits": false })];
        queues.extend(nominal.iter().zip(&weights).enumerate().map(|(at, (nominal, weight))| json!({
            "name": format!("q{at}"), "parent": "all", "weight": weight,
            "quota": [{ "flavor": "f", "nominal": nominal }],
            "preemption": { "within": "lower-priority", "reclaim": "any" },
        })));
        let works: Vec<Value> = jobs.iter().enumerate().map(|(at, (queue, priority, age, later))| {
            work(&format!("w{at:02}"), 1, 1, json!({
                "queue": format!("q{}", queue % nominal.len()), "priority": priority,
                "created": format!("2026-11-21T06:00:{age:02}Z"),
                "state": if *later { "held" } else { "waiting" },
            }))
        }).collect();
        let compiled = compiled(json!({
            "nodes": [node("n", devices.max(1), "r", "b")], "flavors": [{ "name": "f" }], "queues": queues,
            "workloads": works, "engine": { "fair_sharing": true },
        }));
        let mut state = State::new(&compiled);
        cycle(&mut state);
        wake(&mut state);
        let mut rounds = 0;
        while !cycle(&mut state).admitted.is_empty() {
            rounds += 1;
            prop_assert!(rounds < 40, "forty cycles, and they still preempt each other");
        }
        // Each waiting queue would, with one more device, have at least the weighted share of any borrowing queue.
        let waits: Vec<usize> = state.waiting().map(|work| compiled.workloads[work].queue.expect("a queue")).collect();
        for (poor, rich) in waits.iter().flat_map(|poor| (1..=nominal.len()).map(move |rich| (*poor, rich))) {
            let over = |queue: usize, more: i64| {
                let used = state.used(queue, 0) + more * 1_000;
                (used - i64::from(nominal[queue - 1]) * 1_000).max(0) * 6 / i64::from(weights[queue - 1])
            };
            if poor != rich && over(rich, 0) > 0 {
                prop_assert!(
                    over(poor, 1) >= over(rich, 0),
                    "{} waits at {} beside {} at {}",
                    compiled.tree.branches[poor].name, over(poor, 0), compiled.tree.branches[rich].name, over(rich, 0),
                );
            }
        }
    }

    #[test]
    fn the_order_of_the_input_does_not_matter(seed in any::<u64>()) {
        let document = fleet(seed);
        let mut turned = document.clone();
        for key in ["nodes", "queues", "workloads"] {
            if let Some(Value::Array(items)) = turned.get_mut(key) {
                items.reverse();
            }
        }
        let run = |document: Value| {
            let compiled = compiled(document);
            let mut state = State::new(&compiled);
            let first = cycle(&mut state);
            wake(&mut state);
            let then = cycle(&mut state);
            (cycle_lines(&compiled, &first), cycle_lines(&compiled, &then))
        };
        prop_assert_eq!(run(document), run(turned));
    }

    #[test]
    fn no_fitting_workload_is_refused(seed in any::<u64>()) {
        let mut document = fleet(seed);
        document["engine"]["backfill"] = json!("none");
        let compiled = compiled(document);
        let mut state = State::new(&compiled);
        let cycle = without_evictions(&mut state);
        prop_assert!(cycle.preempted.is_empty());
        for &work in cycle.waiting.keys() {
            let queue = compiled.workloads[work].queue.expect("a queue");
            if compiled.snapshot.queues[queue].order == QueueingStrategy::BestEffort {
                prop_assert!(state.find(work, &Relaxation::default()).is_err(), "{}", name(&compiled, work));
            }
        }
    }

    #[test]
    fn backfill_never_delays_whom_room_is_kept_for(seed in any::<u64>()) {
        let mut rng = Rng::new(seed);
        let nodes: Vec<Value> = (0..rng.below(4) + 2)
            .map(|at| node(&format!("n{at}"), 4, &format!("r{}", at / 2), "b"))
            .collect();
        let works: Vec<Value> = (0..12)
            .map(|at| {
                let pods = [1, 1, 1, 2, 3][rng.below(5)];
                work(&format!("w{at:02}"), pods, rng.below(4) as u32 + 1, json!({
                    "runtime_estimate_seconds": (rng.below(20) + 1) * 60,
                    "created": format!("2026-11-21T06:00:{:02}Z", rng.below(60)),
                }))
            })
            .collect();
        let compiled = compiled(json!({ "nodes": nodes, "workloads": works }));
        let mut state = State::new(&compiled);
        let mut promised = vec![None; compiled.workloads.len()];
        loop {
            let cycle = cycle(&mut state);
            for admission in &cycle.admitted {
                let at: Option<model::base::Moment> = promised[admission.work];
                prop_assert!(at.is_none_or(|at| state.now() <= at), "{}", name(&compiled, admission.work));
            }
            for kept in &cycle.reservations {
                let before = promised[kept.work].replace(kept.at);
                prop_assert!(before.is_none_or(|before| kept.at <= before));
            }
            let estimate = |work: WorkloadId| compiled.workload(work).estimate_ms;
            let ends: Vec<_> = state
                .holders()
                .filter_map(|work| Some((end_of(&state, work, estimate(work))?, work)))
                .collect();
            let Some(next) = ends.iter().map(|end| end.0).min() else {
                break;
            };
            state.set_now(next);
            for (_, work) in ends.into_iter().filter(|end| end.0 == next) {
                state.finish(work);
            }
        }
        // Everything that fits an empty fleet has run.
        for work in state.waiting().collect::<Vec<_>>() {
            prop_assert!(state.find(work, &Relaxation::default()).is_err());
        }
    }
}
