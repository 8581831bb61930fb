//! The program killed with SIGKILL while it acts, at named points of a run; taken up each time, and taken back.

use std::collections::BTreeMap;

use exec::{Run, RunEnd, StepResult, Trace};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use sim::change::Resource;

use super::alone;
use super::gate::{Bench, Point};

const NODES: &str = "/api/v1/nodes/";

/// What the journal says of a run is so: what it says was carried out was, and nothing else. How many calls it does not know the end of.
fn unresolved(bench: &Bench, run: &Run, writes: &BTreeMap<String, usize>, closes: bool) -> usize {
    let mut open = 0;
    for (trace, step) in run.steps.iter().zip(&run.plan.steps) {
        let node = step.object.name.as_str();
        let written = writes.get(node).copied().unwrap_or(0);
        if trace.has_written() {
            assert_eq!(bench.is_closed(node), closes, "{node}: {trace:?}");
        }
        if trace.is_unresolved() {
            open += 1;
            assert!(written <= 1, "{node}: {written}");
        } else {
            let has_written = trace.has_written();
            assert_eq!(written == 1, has_written, "{node}: {written} {trace:?}");
        }
    }
    open
}

/// A plan that closes every node, or takes that back, killed at each of these points in turn and taken up after each.
fn killed_at(bench: &Bench, points: &[Point], closes: bool) {
    let since = bench.noted();
    let before = bench.latest().map(|run| run.name);
    let undone = before.clone().unwrap_or_default();
    let act = ["--apply", "--yes", "--reason", "a test"];
    let nodes = bench.nodes.iter().map(String::as_str);
    let mut arguments: Vec<&str> = match closes {
        true => ["cordon"].into_iter().chain(nodes).collect(),
        false => vec!["undo", &undone],
    };
    arguments.extend(act);
    let mut run: Option<String> = None;
    for point in points {
        match &run {
            None => bench.killed_at(*point, &arguments),
            Some(run) => bench.killed_at(*point, &["continue", run, "--apply"]),
        }
        let now = bench.latest().expect("a run");
        assert_ne!(Some(&now.name), before.as_ref(), "a new one");
        assert!(now.end.is_none(), "{point:?}: it goes on");
        let open = unresolved(bench, &now, &bench.writes(NODES, since), closes);
        assert_eq!(open, 1, "{point:?}: one call is under way");
        run = Some(now.name);
    }
    let run = run.expect("was killed");
    let (code, printed) = bench.done(&["continue", &run, "--apply"]);
    assert_eq!(code, Some(0), "{printed}");
    let end = bench.latest().expect("a run");
    assert_eq!(end.name, run);
    assert!(matches!(end.end, Some(RunEnd::Done)), "{:?}", end.end);
    let done = |trace: &Trace| trace.over == Some(StepResult::Done);
    assert!(end.steps.iter().all(done), "{:?}", end.steps);
    let all = bench.writes(NODES, since);
    assert_eq!(all.len(), bench.nodes.len());
    assert!(all.values().all(|count| *count == 1), "{all:?}");
    assert!(
        bench
            .nodes
            .iter()
            .all(|node| bench.is_closed(node) == closes)
    );
}

#[test]
fn a_run_that_is_killed_is_taken_up_and_nothing_is_done_twice() {
    let _alone = alone();
    let bench = Bench::new(24);
    assert!(bench.nodes.len() > 15, "{:?}", bench.nodes);
    // At the first call and at the one that is taken up, some calls later, and once more where the run was killed.
    let points = [
        Point::Sent(0),
        Point::CarriedOut(0),
        Point::CarriedOut(4),
        Point::Sent(3),
        Point::Sent(0),
    ];
    killed_at(&bench, &points, true);
    killed_at(&bench, &points, false);
}

/// `tests/long` runs it, with seeds of its own: at points that are drawn.
#[test]
#[ignore = "long: tests/long"]
fn a_run_that_is_killed_at_drawn_points_is_taken_up() {
    let _alone = alone();
    let seed = std::env::var("STOKEHOLD_SEED").expect("tests/long sets STOKEHOLD_SEED");
    println!("repeat: STOKEHOLD_SEED={seed} cargo test --test process drawn_points -- --ignored");
    let mut rng = Pcg64Mcg::seed_from_u64(seed.parse().expect("a number"));
    let bench = Bench::new(24);
    for round in 0..6 {
        // What is left shrinks with each call that is carried out.
        let mut left = bench.nodes.len();
        let mut points = Vec::new();
        while left > 1 && points.len() < 8 {
            let call = rng.random_range(0..left.min(4));
            let point = match rng.random_bool(0.5) {
                true => Point::CarriedOut(call),
                false => Point::Sent(call),
            };
            points.push(point);
            left -= call + 1;
        }
        println!("{points:?}");
        killed_at(&bench, &points, round % 2 == 0);
    }
}

#[test]
fn two_programs_on_one_queue_at_once() {
    let _alone = alone();
    let bench = Bench::new(12);
    let arguments = ["hold", "nlp", "--apply", "--yes"];
    let since = bench.noted();
    let both = [(); 2].map(|()| bench.plan(&arguments).spawn().expect("can be run"));
    let mut ends = both.map(|child| {
        let output = child.wait_with_output().expect("ends");
        let printed = super::text(&output.stdout) + &super::text(&output.stderr);
        (output.status.code(), printed)
    });
    ends.sort_by_key(|(code, _)| *code != Some(0));
    let [(won, first), (lost, printed)] = ends;
    assert_eq!(won, Some(0), "{first}");
    assert_ne!(lost, Some(0), "{printed}");
    assert!(
        printed.contains("has changed since the plan was made") || printed.contains("already held"),
        "{printed}"
    );
    let queues = "/apis/kueue.x-k8s.io/";
    let writes = bench.writes(queues, since);
    let of_nlp = writes
        .iter()
        .filter(|(path, _)| path.contains("/clusterqueues/nlp"));
    assert_eq!(
        of_nlp.map(|(_, count)| count).sum::<usize>(),
        1,
        "{writes:?}"
    );
    let queue = bench.object(Resource::ClusterQueues, "nlp");
    assert_eq!(queue["spec"]["stopPolicy"], "Hold");
}
