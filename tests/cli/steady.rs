//! Two simulated fleets of one seed that stand still at one moment answer every `get -o json` with the same bytes.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::is_progress;

const KINDS: [&str; 9] = [
    "pools", "nodes", "devices", "queues", "jobs", "cost", "alerts", "sources", "fleet",
];

struct Sim(Child);

impl Drop for Sim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn stokehold(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stokehold"));
    command.env("HOME", home).env_remove("KUBECONFIG");
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("STOKEHOLD_") || name == "XDG_CONFIG_HOME" {
            command.env_remove(name);
        }
    }
    command
}

/// Every kind of one fleet, asked for at the same time.
fn answers(seed: &str) -> Vec<Vec<u8>> {
    let home = tempfile::tempdir().expect("a folder");
    let kubeconfig = home.path().join("sim.yaml");
    let mut sim = stokehold(home.path())
        .args(["sim", "--nodes", "14", "--speed", "0", "--seed", seed])
        .args(["--at", "2026-11-21T06:40:00Z", "--kubeconfig"])
        .arg(&kubeconfig)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    let mut ready = String::new();
    let out = sim.stdout.take().expect("piped");
    let _sim = Sim(sim);
    BufReader::new(out).read_line(&mut ready).expect("a line");
    assert!(ready.starts_with("ready https://127.0.0.1:"), "{ready}");
    let get = |kind: &str| {
        stokehold(home.path())
            .args(["get", kind, "-o", "json", "--kubeconfig"])
            .arg(&kubeconfig)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts")
    };
    let gets: Vec<(&str, Child)> = KINDS.iter().map(|kind| (*kind, get(kind))).collect();
    gets.into_iter()
        .map(|(kind, mut asked)| {
            for _ in 0..4 {
                let done = asked.wait_with_output().expect("it ends");
                let said = String::from_utf8_lossy(&done.stderr).into_owned();
                assert!(done.status.success(), "{said}");
                if said.lines().all(is_progress) {
                    return done.stdout;
                }
                // On a busy machine a source may not answer in time, which is said.
                eprintln!("{kind}: {said}");
                asked = get(kind);
            }
            panic!("{kind} is not whole at the fourth time either");
        })
        .collect()
}

#[test]
fn one_seed_and_one_moment_give_the_same_bytes() {
    let (first, second, other) = (answers("3"), answers("3"), answers("4"));
    for ((kind, first), second) in KINDS.iter().zip(&first).zip(&second) {
        let lines = |bytes: &[u8]| -> Vec<String> {
            String::from_utf8_lossy(bytes)
                .lines()
                .map(str::to_owned)
                .collect()
        };
        let differs = lines(first)
            .into_iter()
            .zip(lines(second))
            .find(|(one, two)| one != two);
        assert_eq!(first.len(), second.len(), "{kind}: {differs:?}");
        assert_eq!(differs, None, "{kind}");
        assert!(first.len() > 2, "{kind} is not empty");
    }
    let jobs = KINDS
        .iter()
        .position(|kind| *kind == "jobs")
        .expect("listed");
    assert_ne!(first[jobs], other[jobs], "another seed draws another fleet");
}
