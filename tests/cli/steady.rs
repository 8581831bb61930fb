//! Two simulated fleets of one seed that stand still at one moment answer every `get -o json` with the same bytes.

use super::simulated::Sim;
use super::{Home, text};

const KINDS: [&str; 9] = [
    "pools", "nodes", "devices", "queues", "jobs", "cost", "alerts", "sources", "fleet",
];

/// Every kind of one fleet.
fn answers(seed: u64) -> Vec<String> {
    let home = Home::new();
    let sim = Sim::of_seed(&home, "kubeconfig", seed);
    let get = |kind: &&str| {
        let output = sim.get(&home, &[kind, "-o", "json"]);
        let errors = text(&output.stderr);
        assert_eq!(
            (output.status.code(), errors.as_str()),
            (Some(0), ""),
            "{kind}"
        );
        text(&output.stdout)
    };
    KINDS.iter().map(get).collect()
}

#[test]
fn one_seed_and_one_moment_give_the_same_bytes() {
    let (first, second, other) = (answers(3), answers(3), answers(4));
    for ((kind, first), second) in KINDS.iter().zip(&first).zip(&second) {
        let mut lines = first.lines().zip(second.lines());
        let differs = lines.find(|(one, two)| one != two);
        assert_eq!(differs, None, "{kind}");
        assert_eq!(first.len(), second.len(), "{kind}");
        assert!(first.len() > 2, "{kind} is not empty");
    }
    let jobs = KINDS.iter().position(|kind| *kind == "jobs");
    let jobs = jobs.expect("listed");
    assert_ne!(first[jobs], other[jobs], "another seed draws another fleet");
}
