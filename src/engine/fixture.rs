//! Small fleets for tests, as documents.

use serde_json::{Value, json};

use super::compiled::{CompiledFleet, WorkloadId};
use super::document;
use super::fit::{Miss, Relaxation, Why};
use super::state::State;

/// A compiled document, with version and time filled in.
pub(crate) fn compiled(mut document: Value) -> CompiledFleet {
    document["version"] = json!(1);
    if document.get("at").is_none() {
        document["at"] = json!("2026-11-21T06:40:00Z");
    }
    CompiledFleet::new(document::from_value(&document, "test").expect("a document"))
}

/// A node with 12 cores and 96 GiB per GPU, in a rack and block.
pub(crate) fn node(name: &str, gpus: u32, rack: &str, block: &str) -> Value {
    let devices: Vec<Value> = (0..gpus)
        .map(|index| json!({ "index": index, "class": "h100", "resource": "nvidia.com/gpu" }))
        .collect();
    json!({
        "name": name,
        "labels": { "class": "h100", "kubernetes.io/hostname": name },
        "topology": [["block", block], ["rack", rack]],
        "allocatable": { "cpu_milli": i64::from(gpus.max(1)) * 12_000,
                         "memory_bytes": i64::from(gpus.max(1)) * 96 * (1_i64 << 30) },
        "devices": devices,
    })
}

/// A workload of `pods` pods with `gpus` GPUs each; `more` overrides keys.
pub(crate) fn work(name: &str, pods: u32, gpus: u32, more: Value) -> Value {
    let mut out = json!({
        "namespace": "ml", "name": name, "kind": "Job",
        "created": "2026-11-21T06:00:00Z",
        "count": pods,
        "requests": { "cpu_milli": 1_000, "memory_bytes": 1 << 30, "devices": { "nvidia.com/gpu": gpus } },
    });
    if let (Value::Object(out), Value::Object(more)) = (&mut out, more) {
        out.extend(more);
    }
    out
}

/// The document with all workloads in one queue of a scheduler that reserves capacity, without quotas.
pub(crate) fn reserving(mut document: Value) -> Value {
    document["queues"] = json!([{ "name": "own", "system": "stokehold" }]);
    for work in document["workloads"].as_array_mut().expect("workloads") {
        work["queue"] = json!("own");
    }
    document
}

pub(crate) fn id(compiled: &CompiledFleet, name: &str) -> WorkloadId {
    let mut all = compiled.snapshot.workloads.iter();
    all.position(|work| &*work.key.key.name == name)
        .expect("a workload of this name")
}

pub(crate) fn name(compiled: &CompiledFleet, work: WorkloadId) -> &str {
    &compiled.workload(work).key.key.name
}

/// Names of the nodes on which a workload would start, one per pod; or why it does not.
pub(crate) fn spots(
    state: &mut State<'_>,
    name: &str,
    relaxation: &Relaxation,
) -> Result<Vec<String>, Why> {
    let compiled = state.compiled();
    let found = state.find(id(compiled, name), relaxation);
    found
        .map(|allocation| {
            let placements = allocation.sets.iter().flat_map(|set| &set.placements);
            let node = |node: usize| {
                compiled.snapshot.nodes[state.node_free(node).origin]
                    .name
                    .to_string()
            };
            placements.map(|placement| node(placement.node)).collect()
        })
        .map_err(|misses: Vec<Miss>| misses[0].why.clone())
}

/// Checks that no unit is overallocated, no pod uses a broken unit, and free amounts match the placements.
pub(crate) fn check(state: &State<'_>) {
    let compiled = state.compiled();
    let mut left: Vec<Vec<i32>> = (0..state.nodes())
        .map(|node| {
            vec![
                1_000;
                compiled.node_shapes[state.node_free(node).node_shape]
                    .units
                    .len()
            ]
        })
        .collect();
    let mut cpu: Vec<i64> = (0..state.nodes())
        .map(|node| compiled.node_shapes[state.node_free(node).node_shape].cpu)
        .collect();
    for pod in &compiled.snapshot.residents {
        if let Some(node) = compiled.node(&pod.node) {
            cpu[node] -= pod.cpu_milli;
        }
    }
    for work in state.holders() {
        let allocation = state.allocation(work).expect("a holder holds");
        for (set, held) in compiled.workloads[work].sets.iter().zip(&allocation.sets) {
            for placement in &held.placements {
                cpu[placement.node] -= compiled.requests[set.want].ask.cpu_milli;
                for &(unit, milli) in placement.units.iter() {
                    left[placement.node][unit as usize] -= milli;
                }
            }
        }
    }
    for (node, left) in left.iter().enumerate() {
        assert_eq!(state.left(node), left, "node {node}");
        assert_eq!(state.node_free(node).cpu, cpu[node], "node {node}");
        assert!(left.iter().all(|left| *left >= 0), "node {node}: {left:?}");
        assert!(cpu[node] >= 0, "node {node}");
    }
}
