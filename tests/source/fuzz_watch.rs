//! Fuzzing of the watch decoder: lists and events of the API server, in every table's partial form.
//!
//! `fuzz_watch` is the body: under cargo-fuzz, `fuzz_target!(|data: &[u8]| fuzz_watch(data))`; in `cargo test`, a
//! fixed number of mutations of sample objects from a fixed seed.

use kube::api::WatchEvent;
use kube::core::ObjectList;
use model::base::Names;
use model::fleet::observe::{Observation, Table};
use source::watch_object::WatchObject;

/// Decodes arbitrary bytes as every table would; panics when an invariant does not hold.
pub fn fuzz_watch(data: &[u8]) {
    for table in [
        Table::Nodes,
        Table::Pods,
        Table::Namespaces,
        Table::Jobs,
        Table::JobSets,
        Table::Deployments,
    ] {
        decoded(data, table);
    }
}

fn decoded(data: &[u8], table: Table) {
    let mut names = Names::default();
    let read = |carried: &WatchObject| cluster::read(table, carried.json()).expect("is read");
    let _ = serde_json::from_slice::<ObjectList<WatchObject>>(data);
    if let Ok(WatchEvent::Added(carried) | WatchEvent::Modified(carried)) =
        serde_json::from_slice::<WatchEvent<WatchObject>>(data)
    {
        // A number beyond all numbers is JSON, and costs its object.
        if let Ok(object) = cluster::read(table, carried.json()) {
            sensible(object.project(table, &mut names));
        }
    }
    // Whatever is JSON is an item, and does not cost its neighbors.
    if serde_json::from_slice::<serde_json::Value>(data).is_err() {
        return;
    }
    let mut body =
        br#"{"metadata":{"resourceVersion":"1"},"items":[{"metadata":{"name":"first"}},"#.to_vec();
    body.extend_from_slice(data);
    body.extend_from_slice(br#",{"metadata":{"name":"last"}}]}"#);
    let list: ObjectList<WatchObject> =
        serde_json::from_slice(&body).expect("every JSON value is read");
    assert_eq!(list.items.len(), 3);
    for (at, name) in [(0, "first"), (2, "last")] {
        let object = read(&list.items[at]);
        assert_eq!(&*object.meta().name, name);
        assert!(object.project(table, &mut names).is_some());
    }
    sensible(read(&list.items[1]).project(table, &mut names));
}

/// What an object has been turned into can be counted with.
fn sensible(seen: Option<Observation>) {
    match seen {
        Some(Observation::Node(node)) => {
            assert!(!node.name.is_empty());
            let _ = (
                node.capacity.device_count(),
                node.allocatable.device_count(),
            );
        }
        Some(Observation::Pod(pod)) => {
            assert!(
                !pod.key.name.is_empty()
                    && pod.requests.cpu_milli >= 0
                    && pod.requests.memory_bytes >= 0
            );
            if let Some(failure) = &pod.failure {
                assert!(!failure.message.contains('\n') && failure.message.chars().count() <= 260);
            }
        }
        Some(Observation::Workload(seen)) => {
            assert!(
                !seen.key.name.is_empty() && seen.gang_min.is_none_or(|gang| gang <= seen.pods)
            );
            let _ = seen.total.device_count();
        }
        Some(Observation::Namespace(name, _)) => assert!(!name.is_empty()),
        Some(other) => panic!("no object becomes {other:?}"),
        None => {}
    }
}

/// Objects to start from.
const SEEDS: &[&str] = &[
    r#"{"type":"ADDED","object":{"kind":"Node","metadata":{"name":"n","uid":"u","resourceVersion":"7","labels":{"a":"b"},"creationTimestamp":"2026-11-01T00:00:00Z"},
        "spec":{"unschedulable":true,"taints":[{"key":"k","value":"v","effect":"NoSchedule"}],"providerID":"aws:///z/i"},
        "status":{"capacity":{"cpu":"96","memory":"1Ti","nvidia.com/gpu":"8"},"conditions":[{"type":"Ready","status":"True"}]}}}"#,
    r#"{"kind":"Pod","metadata":{"name":"p","namespace":"ml","ownerReferences":[{"kind":"Job","name":"j","uid":"x","controller":true}]},
        "spec":{"nodeName":"n","priority":5,"containers":[{"resources":{"limits":{"nvidia.com/gpu":"8"},"requests":{"cpu":"2"}},"ports":[{"name":"m","containerPort":9400}]}],
        "initContainers":[{"restartPolicy":"Always","resources":{"requests":{"cpu":"500m"}}}],"overhead":{"cpu":"1"}},
        "status":{"phase":"Failed","reason":"Evicted","message":"low\non memory","containerStatuses":[{"restartCount":3,"lastState":{"terminated":{"exitCode":137,"reason":"OOMKilled"}},
        "allocatedResourcesStatus":[{"name":"nvidia.com/gpu","resources":[{"resourceID":"GPU-1"}]}]}]}}"#,
    r#"{"kind":"JobSet","metadata":{"name":"js"},"spec":{"suspend":false,"replicatedJobs":[{"replicas":2,"template":{"spec":{"parallelism":4,"completions":4,"completionMode":"Indexed",
        "template":{"spec":{"priorityClassName":"high","nodeSelector":{"a":"b"},"containers":[{"resources":{"limits":{"google.com/tpu":4}}}]}}}}}]},"status":{"conditions":[{"type":"Completed","status":"True"}]}}"#,
    r#"{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}}}"#,
    r#"{"kind":"Status","code":410,"reason":"Expired"}"#,
];

/// Bits of text that decoders trip over.
const BITS: &[&str] = &[
    "null",
    "[]",
    "{}",
    "\"\"",
    "-1",
    "1.5",
    "1e999",
    "99999999999999999999",
    "true",
    "\u{feff}",
    "\u{0}",
    "\\u0000",
    "\\ud800",
    ",",
    ":",
    "\"",
    "{",
    "}",
    "[",
    "]",
    "\"metadata\":",
    "\"name\":",
    "\"9E\"",
    "\"-8\"",
    "\"nvidia.com/gpu\":",
    "\"type\":\"DELETED\",",
];

#[test]
fn mutated_objects_keep_the_invariants() {
    // xorshift64*: the same mutations on every machine.
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = move |below: usize| {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        (state.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33) as usize % below.max(1)
    };
    for seed in SEEDS {
        fuzz_watch(seed.as_bytes());
    }
    for _ in 0..4000 {
        let mut data = SEEDS[next(SEEDS.len())].as_bytes().to_vec();
        for _ in 0..1 + next(3) {
            let at = next(data.len() + 1);
            match next(5) {
                0 => data.truncate(at),
                1 => {
                    let bit = BITS[next(BITS.len())];
                    data.splice(at..at, bit.bytes());
                }
                2 => {
                    // A value for a value: mostly still JSON.
                    let end = (at..data.len())
                        .find(|end| matches!(data[*end], b',' | b'}' | b']'))
                        .unwrap_or(data.len());
                    let start = (0..at)
                        .rev()
                        .find(|start| matches!(data[*start], b':' | b'['))
                        .map_or(0, |start| start + 1);
                    let bit = BITS[next(9)];
                    data.splice(start..end.max(start), bit.bytes());
                }
                3 => {
                    if let Some(byte) = data.get_mut(at) {
                        *byte ^= 1 << next(8);
                    }
                }
                _ => {
                    let end = (at + next(60)).min(data.len());
                    data.drain(at..end);
                }
            }
        }
        fuzz_watch(&data);
    }
}
