//! The program itself, killed with SIGKILL while it acts: again and again at random points, taken up each time, and taken back.

use std::collections::BTreeMap;
use std::time::Duration;

use exec::{Run, StepResult, Trace};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use sim::change::Resource;

use super::program::Bench;
use super::*;

fn is_closed(bench: &Bench, node: &str) -> bool {
    bench.object(Resource::Nodes, "", node)["spec"]["unschedulable"] == true
}

/// Writes to each node that were carried out, since so many entries of the audit.
fn writes(bench: &Bench, since: usize) -> BTreeMap<String, usize> {
    let audit = bench.running.cluster().audit();
    let mut all = BTreeMap::new();
    for entry in audit.entries().skip(since) {
        if entry.has_changed() && entry.path.starts_with("/api/v1/nodes/") {
            let rest = entry.path.trim_start_matches("/api/v1/nodes/");
            let name = rest.split('?').next().unwrap_or(rest);
            *all.entry(name.to_owned()).or_default() += 1;
        }
    }
    all
}

/// What the journal says of a run is so: what it says was carried out was, and nothing else.
fn tells_the_truth(bench: &Bench, run: &Run, writes: &BTreeMap<String, usize>, closes: bool) {
    let mut open = 0;
    for (trace, step) in run.steps.iter().zip(&run.plan.steps) {
        let node = step.object.name.as_str();
        let written = writes.get(node).copied().unwrap_or(0);
        if trace.has_written() {
            assert_eq!(is_closed(bench, node), closes, "{node}: {trace:?}");
        }
        if trace.is_unresolved() {
            open += 1;
            assert!(written <= 1, "{node}: {written}");
        } else {
            assert_eq!(
                written == 1,
                trace.has_written(),
                "{node}: {written} {trace:?}"
            );
        }
    }
    assert!(open <= 1, "only one call can be under way: {run:?}");
}

/// Runs a plan that closes every node and then one that takes that back, again and again, and kills the program at random
/// moments while it acts, until it has been killed so often. How many of the kills caught a call under way.
async fn kill(times: usize, seed: u64) -> usize {
    let bench = Bench::new(24, 0.0).await;
    let service = bench.running.service().signed(User::Admin);
    let nodes: Vec<String> = super::stage::snapshot(&service)
        .nodes
        .iter()
        .filter(|node| !node.cordoned && node.ready)
        .map(|node| node.name.to_string())
        .collect();
    assert!(nodes.len() > 15, "{nodes:?}");
    let mut dice = Pcg64Mcg::seed_from_u64(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let (mut kills, mut under_way, mut closes) = (0, 0, false);
    while kills < times {
        closes = !closes;
        let since = bench.noted();
        let before = bench.latest().map(|run| run.name);
        let mut arguments = vec!["cordon"];
        let undone = before.clone().unwrap_or_default();
        if closes {
            arguments.extend(nodes.iter().map(String::as_str));
        } else {
            arguments = vec!["undo", &undone];
        }
        arguments.extend(["--apply", "--yes", "--reason", "a test"]);
        let mut lines = bench.lines();
        let mut child = bench.run(&arguments);
        let run = loop {
            // From its first line on it acts.
            while bench.lines() == lines && child.try_wait().expect("can be asked").is_none() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            tokio::time::sleep(Duration::from_millis(dice.random_range(0..40))).await;
            if child.try_wait().expect("can be asked").is_none() {
                child.kill().await.expect("SIGKILL");
                kills += 1;
            }
            // What was on its way at the server is over.
            tokio::time::sleep(Duration::from_millis(20)).await;
            let run = bench.latest().expect("a run");
            assert_ne!(Some(&run.name), before.as_ref(), "a new one");
            tells_the_truth(&bench, &run, &writes(&bench, since), closes);
            under_way += usize::from(run.steps.iter().any(|trace| trace.is_unresolved()));
            if run.end.is_some() {
                break run;
            }
            lines = bench.lines();
            child = bench.run(&["continue", &run.name, "--apply"]);
        };
        assert_eq!(run.end, Some(RunEnd::Done), "{run:?}");
        let done = |trace: &Trace| trace.over == Some(StepResult::Done);
        assert!(run.steps.iter().all(done), "{run:?}");
        let all = writes(&bench, since);
        assert_eq!(all.len(), nodes.len());
        assert!(all.values().all(|count| *count == 1), "{all:?}");
        assert!(nodes.iter().all(|node| is_closed(&bench, node) == closes));
    }
    under_way
}

/// How often the program is killed: each time costs a start of it, so the hundred are for a run that has minutes
/// (`STOKEHOLD_KILLS=100`); a hundred kills within this process are in [`super::killed`].
fn times() -> usize {
    let told = std::env::var("STOKEHOLD_KILLS").ok();
    told.map_or(12, |told| told.parse().expect("a number of kills"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigkills_at_random_points_and_nothing_is_done_twice() {
    let times = times();
    // Each round has a journal of its own: a long one is read again at every kill.
    let (mut left, mut under_way) = (times, 0);
    for round in 0.. {
        let now = left.min(12);
        let (one, other) =
            tokio::join!(kill(now / 2, 2 * round), kill(now - now / 2, 2 * round + 1));
        under_way += one + other;
        left -= now;
        if left == 0 {
            break;
        }
    }
    if times >= 50 {
        assert!(under_way > 0, "some kill must have caught a call under way");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_programs_on_one_queue_at_once() {
    let bench = Bench::new(12, 0.0).await;
    let arguments = ["hold", "nlp", "--apply", "--yes"];
    let since = bench.noted();
    let (one, other) = tokio::join!(bench.done(&arguments), bench.done(&arguments));
    let mut ends = [one, other];
    ends.sort_by_key(|(code, _)| *code != Some(0));
    let [(won, _), (lost, said)] = ends;
    assert_eq!(won, Some(0));
    assert_ne!(lost, Some(0), "{said}");
    assert!(
        said.contains("has changed since the plan was made") || said.contains("held already"),
        "{said}"
    );
    let audit = bench.running.cluster().audit();
    let writes = audit
        .entries()
        .skip(since)
        .filter(|entry| entry.has_changed() && entry.path.contains("/clusterqueues/nlp"));
    assert_eq!(writes.count(), 1);
    drop(audit);
    let queue = bench
        .running
        .cluster()
        .get(Resource::ClusterQueues, "", "nlp");
    assert_eq!(queue.expect("is there")["spec"]["stopPolicy"], "Hold");
}
