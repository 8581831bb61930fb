//! Runs the scenarios: small fleets as data, each for one documented rule of a scheduler, with the expected result.
//!
//! `fleet` is a fleet document with shorthand: `gpus` is the request of each pod of a workload, `on` the nodes that it runs
//! on, `running = true` that it runs anywhere; workloads earlier in the list were created and admitted earlier.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::compiled::{CompiledFleet, WorkloadId};
use super::cycle::cycle;
use super::explain::{Explainer, Reason};
use super::fixture::{check, compiled, id, name};
use super::forecast::forecast;
use super::preempt::{PreemptMode, Victim};
use super::state::State;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/engine/scenarios")
}

/// Expands a scenario's shorthand into a document. The scheduler of a queue is the one after which the file is named.
fn document(mut fleet: Value, system: &str) -> Value {
    for queue in fleet["queues"].as_array_mut().into_iter().flatten() {
        queue["system"] = json!(system);
    }
    let Some(Value::Array(works)) = fleet.get_mut("workloads") else {
        return fleet;
    };
    for (at, work) in works.iter_mut().enumerate() {
        let Value::Object(work) = work else {
            panic!("a workload is a table");
        };
        let moment = json!(format!("2026-11-21T06:00:{at:02}Z"));
        work.entry("created").or_insert(moment.clone());
        if let Some(gpus) = work.remove("gpus") {
            work.insert(
                "requests".to_owned(),
                json!({ "devices": { "nvidia.com/gpu": gpus } }),
            );
        }
        let nodes = work.remove("on");
        if nodes.is_some() || work.remove("running") == Some(json!(true)) {
            work.entry("state").or_insert(json!("running"));
            work.entry("admitted_at").or_insert(moment);
        }
        if let Some(Value::Array(nodes)) = nodes {
            let placed: Vec<Value> = nodes.iter().map(|node| json!({ "node": node })).collect();
            work.insert("count".to_owned(), json!(placed.len()));
            work.insert("placements".to_owned(), json!(placed));
        }
    }
    fleet
}

fn names(compiled: &CompiledFleet, works: impl IntoIterator<Item = WorkloadId>) -> Vec<&str> {
    works.into_iter().map(|work| name(compiled, work)).collect()
}

fn victims<'p>(compiled: &'p CompiledFleet, list: &[Victim]) -> Vec<&'p str> {
    names(compiled, list.iter().map(|it| it.work))
}

/// Result of a scenario, limited to what it expects.
fn outcome(scenario: &Value, compiled: &CompiledFleet) -> Value {
    let wanted = &scenario["expect"];
    let mut state = State::new(compiled);
    let mut out = Map::new();
    let of = |key: &str| wanted[key].as_object().cloned().unwrap_or_default();
    let mut least = Map::new();
    for work in of("least").keys() {
        let found = state.victims(id(compiled, work), PreemptMode::Least);
        let list = found
            .as_ref()
            .map_or(vec![], |it| victims(compiled, &it.list));
        assert!(found.is_ok_and(|it| it.proven), "{work}: not proven");
        least.insert(work.clone(), json!(list));
    }
    let cycle = cycle(&mut state);
    check(&state);
    let mut preempted = Map::new();
    let mut reasons = Map::new();
    for one in &cycle.preempted {
        let by = name(compiled, one.by).to_owned();
        for victim in &one.victims.list {
            let reason = json!(victim.reason.name());
            reasons.insert(name(compiled, victim.work).to_owned(), reason);
        }
        preempted.insert(by, json!(victims(compiled, &one.victims.list)));
    }
    let (mut on, mut flavors, mut counts) = (Map::new(), Map::new(), Map::new());
    for admission in &cycle.admitted {
        let work = name(compiled, admission.work).to_owned();
        let sets = admission.allocation.sets.iter();
        let nodes = sets.clone().flat_map(|set| &set.placements);
        let nodes: Vec<&str> = nodes
            .map(|placement| &*compiled.snapshot.nodes[placement.node].name)
            .collect();
        on.insert(work.clone(), json!(nodes));
        let pods: Vec<u32> = sets.clone().map(|set| set.count).collect();
        counts.insert(work.clone(), json!(pods));
        let used = sets.flat_map(|set| &set.flavors);
        let used: Vec<&str> = used
            .map(|it| &*compiled.snapshot.flavors[*it].name)
            .collect();
        flavors.insert(work, json!(used.first()));
    }
    let admitted = names(compiled, cycle.admitted.iter().map(|it| it.work));
    out.insert("admitted".to_owned(), json!(admitted));
    let has_quota = |work: &WorkloadId| cycle.quota_reserved.contains(work);
    let mut waiting = names(
        compiled,
        cycle
            .waiting
            .keys()
            .copied()
            .filter(|work| !has_quota(work)),
    );
    waiting.sort_unstable();
    let with_quota = names(compiled, cycle.quota_reserved.iter().copied());
    out.insert("with_quota".to_owned(), json!(with_quota));
    let (states, reasons_of, starts) = answers(compiled, &of);
    out.insert("states".to_owned(), states);
    out.insert("said".to_owned(), reasons_of);
    out.insert("starts".to_owned(), starts);
    out.insert("waiting".to_owned(), json!(waiting));
    out.insert("preempted".to_owned(), Value::Object(preempted));
    out.insert(
        "drained".to_owned(),
        json!(victims(compiled, &cycle.drained)),
    );
    for (key, mut found) in [
        ("on", on),
        ("flavors", flavors),
        ("counts", counts),
        ("reasons", reasons),
    ] {
        // Only workloads in the expectation.
        let asked = of(key);
        found.retain(|work, _| asked.contains_key(work));
        out.insert(key.to_owned(), Value::Object(found));
    }
    out.insert("least".to_owned(), Value::Object(least));
    Value::Object(out)
}

/// What `explain` and `forecast` say of the workloads that are asked for: the state and the victims, the reasons, and the
/// start in minutes from now.
fn answers(
    compiled: &CompiledFleet,
    of: &dyn Fn(&str) -> Map<String, Value>,
) -> (Value, Value, Value) {
    let mut explainer = Explainer::new(compiled);
    let (mut states, mut said, mut starts) = (Map::new(), Map::new(), Map::new());
    for work in of("states").keys() {
        let answer = explainer.explain(id(compiled, work));
        let victims = answer.victims.iter().map(|victim| victim.job.to_string());
        let words: Vec<String> = [json!(answer.state).as_str().unwrap_or("").to_owned()]
            .into_iter()
            .chain(victims)
            .collect();
        states.insert(work.clone(), json!(words.join(" ")));
    }
    for work in of("said").keys() {
        let answer = explainer.explain(id(compiled, work));
        let codes: Vec<&str> = answer.reasons.iter().map(Reason::code).collect();
        said.insert(work.clone(), json!(codes));
    }
    let forecasts = forecast(&State::new(compiled));
    for work in of("starts").keys() {
        let start = forecasts.get(&id(compiled, work)).and_then(|it| it.p50);
        let minutes = start.map(|at| (at.millis() - compiled.snapshot.at.millis()) / 60_000);
        starts.insert(
            work.clone(),
            json!(minutes.map_or("never".to_owned(), |it| it.to_string())),
        );
    }
    (
        Value::Object(states),
        Value::Object(said),
        Value::Object(starts),
    )
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "scenarios are files of the repository"
)]
fn every_scenario_comes_out_as_its_rule_says() {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder())
        .expect("the folder of scenarios")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    assert!(files.len() >= 30, "{} scenarios", files.len());
    let mut wrong = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a scenario");
        let scenario: Value = toml::from_str(&text).expect("TOML");
        assert!(text.starts_with("# "), "{file:?} names its rule first");
        let stem = file.file_stem().and_then(|stem| stem.to_str());
        let system = stem.and_then(|stem| stem.split('-').next());
        let system = match system {
            Some("kube") => "none",
            system => system.expect("the name of a scheduler"),
        };
        let compiled = compiled(document(scenario["fleet"].clone(), system));
        let out = outcome(&scenario, &compiled);
        let mut want = scenario["expect"].clone();
        for (key, empty) in [
            ("admitted", json!([])),
            ("waiting", json!([])),
            ("drained", json!([])),
            ("preempted", json!({})),
            ("on", json!({})),
            ("flavors", json!({})),
            ("counts", json!({})),
            ("reasons", json!({})),
            ("least", json!({})),
            ("with_quota", json!([])),
            ("states", json!({})),
            ("said", json!({})),
            ("starts", json!({})),
        ] {
            if want.get(key).is_none() {
                want[key] = empty;
            }
        }
        if out != want {
            wrong.push(format!("{}\n  came: {out}\n  want: {want}", file.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
