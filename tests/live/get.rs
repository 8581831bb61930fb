//! `get` says what `kubectl` says, over the whole fleet, and to each user what that user may know.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::{Value, json};

use super::acting::ACTING;
use super::plane::{HttpAnswer, audit, calm, kubeconfig, kubectl, rows, stokehold};
use super::truth::{Key, Truth, devices, holders, holds, key, list, text};

/// The users who may see the whole fleet.
const SEERS: [&str; 2] = ["live-admin", "live-viewer"];

/// An amount of devices to four digits: parts of devices are rounded to the millionth.
fn rounded(devices: f64) -> Value {
    json!((devices * 1e4).round() / 1e4)
}

#[test]
#[ignore = "needs the plane of tests/live/up"]
fn nodes_are_what_kubectl_and_the_exporters_say() {
    let _plane = calm();
    let truth = Truth::now();
    let expected: Vec<Value> = truth
        .nodes
        .iter()
        .map(|(name, node)| {
            let label = |key: &str| {
                node["metadata"]["labels"]
                    .get(key)
                    .cloned()
                    .unwrap_or_default()
            };
            let cordoned = node["spec"]["unschedulable"] == true;
            let note = |key: &str| {
                node["metadata"]["annotations"]
                    .get(key)
                    .cloned()
                    .unwrap_or_default()
            };
            json!({
                "name": name,
                "pool": truth.pool_of(name),
                "ready": holds(node, "Ready"),
                "cordoned": cordoned.then(|| json!({
                    "by": note("stokehold.dev/cordoned-by"),
                    "reason": note("stokehold.dev/cordoned-why"),
                })),
                "instance_type": label("node.kubernetes.io/instance-type"),
                "zone": label("topology.kubernetes.io/zone"),
                "provider_id": node["spec"]["providerID"],
                "driver_version": match label("nvidia.com/cuda.driver-version.full") {
                    // (GKE has no such label; there the exporter says it.)
                    Value::Null => match truth.sliced(name).first() {
                        Some(device) => device["attributes"]["driverVersion"]["version"].clone(),
                        None => truth.exporters.get(name).map_or(Value::Null, |exporter| exporter["driver"].clone()),
                    },
                    version => version,
                },
                "pods": truth.pods_on(name),
                // What the node says counts slices and shares; the rest counts devices.
                "capacity": devices(&node["status"]["capacity"]) + truth.sliced(name).len() as u64,
                "allocatable": devices(&node["status"]["allocatable"]) + truth.sliced(name).len() as u64,
                "total": truth.devices_of(name),
                "allocated": rounded(truth.held_on(name)),
            })
        })
        .collect();
    assert_eq!(expected.len(), 200, "the fleet that up makes");
    for user in SEERS {
        let mut shown: Vec<Value> = rows(user, "nodes")
            .iter()
            .map(|row| {
                let cordoned = &row["cordoned"];
                let mut shown = json!({
                    "cordoned": cordoned.is_object().then(|| json!({"by": cordoned["by"], "reason": cordoned["reason"]})),
                });
                for key in ["name", "pool", "ready", "instance_type", "zone", "provider_id", "driver_version", "pods"] {
                    shown[key] = row[key].clone();
                }
                let allocated = row["devices"]["allocated"].as_f64();
                shown["allocated"] = allocated.map_or(Value::Null, rounded);
                for key in ["capacity", "allocatable", "total"] {
                    shown[key] = row["devices"][key].clone();
                }
                shown
            })
            .collect();
        // Ours are in natural order, kubectl's letter by letter.
        shown.sort_by(|a, b| a["name"].as_str().cmp(&b["name"].as_str()));
        for (shown, expected) in shown.iter().zip(&expected) {
            assert_eq!(shown, expected, "as {user}");
        }
        assert_eq!(shown.len(), expected.len(), "as {user}");
    }
}

#[test]
#[ignore = "needs the plane of tests/live/up"]
fn devices_are_whose_the_exporters_say() {
    let _plane = calm();
    let truth = Truth::now();
    for user in SEERS {
        let rows = rows(user, "devices");
        let whole = |row: &&Value| row["slice"].is_null();
        let ids: BTreeSet<&str> = rows
            .iter()
            .filter(whole)
            .map(|row| text(row, "/id"))
            .collect();
        let shown: BTreeMap<&str, &Value> = rows
            .iter()
            .filter(whole)
            .map(|row| (text(row, "/uuid"), row))
            .filter(|(uuid, _)| !uuid.is_empty())
            .collect();
        assert_eq!(
            ids.len(),
            rows.iter().filter(whole).count(),
            "one row a device"
        );
        let mut count = 0;
        for (node, exporter) in &truth.exporters {
            for device in list(exporter, "/devices") {
                count += 1;
                let uuid = text(device, "/uuid");
                let row = shown
                    .get(uuid)
                    .unwrap_or_else(|| panic!("{uuid} of {node} is not shown to {user}"));
                assert_eq!(
                    (&row["node"], &row["index"]),
                    (&json!(node), &device["index"]),
                    "{row}"
                );
                assert_eq!(row["model"], device["model"], "{row}");
                let held = holders(device);
                let slices: Vec<&Value> = rows
                    .iter()
                    .filter(|part| {
                        part["uuid"] == row["uuid"]
                            || (part["node"] == row["node"] && part["index"] == row["index"])
                    })
                    .filter(|part| !part["slice"].is_null())
                    .collect();
                match held.as_slice() {
                    [] => assert!(
                        row["pod"].is_null() && row["attribution"] == "none",
                        "nobody holds {row}"
                    ),
                    [(namespace, pod), ..] if list(device, "/slices").is_empty() => {
                        assert_eq!(
                            (&row["namespace"], &row["pod"]),
                            (&json!(namespace), &json!(pod)),
                            "{row}"
                        );
                        assert_eq!(row["attribution"], "exporter", "{row}");
                    }
                    _ => {}
                }
                // Each pod that holds a slice stands in that slice's row.
                let of = |rows: &[&Value]| -> BTreeSet<(String, String)> {
                    let part = |row: &Value, key| text(row, key).to_owned();
                    rows.iter()
                        .filter(|row| !row["pod"].is_null())
                        .map(|row| (part(row, "/namespace"), part(row, "/pod")))
                        .collect()
                };
                if !list(device, "/slices").is_empty() {
                    assert_eq!(
                        slices.len(),
                        list(device, "/slices").len(),
                        "slices of {row}: {slices:?}"
                    );
                    assert_eq!(of(&slices), held.into_iter().collect(), "slices of {row}");
                }
            }
        }
        assert_eq!(count, 960, "what exporters tell");
        let sliced = truth.slices.values().flatten();
        let sliced: BTreeSet<&str> = sliced
            .map(|device| text(device, "/attributes/uuid/string"))
            .collect();
        assert_eq!(sliced.len(), 16, "what drivers tell");
        assert!(sliced.iter().all(|uuid| shown.contains_key(uuid)));
        assert_eq!(shown.len(), count + sliced.len(), "shown to {user}");
        // The rest are known by what their nodes say they have.
        assert_eq!(ids.len() as u64, truth.devices(), "shown to {user}");
    }
}

/// A Job and who wrote its fields: another test may have left it changed.
fn who_wrote((namespace, name): &Key) -> String {
    let job = ["-n", namespace, "get", "job", name, "-o", "yaml"];
    kubectl(&[&job[..], &["--show-managed-fields", "--ignore-not-found"]].concat())
}

#[test]
#[ignore = "needs the plane of tests/live/up"]
fn jobs_are_what_kubectl_says() {
    let _plane = calm();
    let truth = Truth::now();
    let expected = truth.jobs();
    let states: BTreeSet<&str> = expected.values().map(|job| job.state).collect();
    assert!(
        states.len() >= 5,
        "the fleet that up makes has jobs in all states: {states:?}"
    );
    for user in SEERS {
        let rows = rows(user, "jobs");
        let shown: BTreeMap<_, _> = rows
            .iter()
            .map(|row| {
                (
                    (
                        text(row, "/namespace").to_owned(),
                        text(row, "/name").to_owned(),
                    ),
                    row,
                )
            })
            .collect();
        assert_eq!(shown.len(), rows.len(), "no job is shown twice");
        let only = |these: Vec<&Key>, those: Vec<&Key>| -> Vec<Key> {
            these
                .into_iter()
                .filter(|key| !those.contains(key))
                .cloned()
                .collect()
        };
        assert_eq!(
            only(shown.keys().collect(), expected.keys().collect()),
            [],
            "shown to {user}, and not there"
        );
        assert_eq!(
            only(expected.keys().collect(), shown.keys().collect()),
            [],
            "there, and not shown to {user}"
        );
        for (key, job) in &expected {
            let row = shown[key];
            let facts = json!([
                row["kind"],
                row["state"],
                row["devices_requested"],
                row["devices_allocated"]
            ]);
            let expected = json!([job.kind, job.state, job.requested, job.allocated]);
            assert_eq!(facts, expected, "{key:?}: {row:#}\n{}", who_wrote(key));
            if job.state == "waiting" {
                let reason = text(row, "/reason").to_owned();
                // (Kueue says nothing of those it has not come to yet. Nodes join between the two looks: the scheduler counts anew.)
                let plain = |text: &str| text.replace(|c: char| c.is_ascii_digit(), "");
                let is_listed = job.reasons.iter().any(|one| plain(one) == plain(&reason));
                assert!(
                    is_listed || job.reasons.is_empty() && !reason.is_empty(),
                    "{key:?} waits because of {:?}, not of {reason:?}",
                    job.reasons
                );
            }
            if job.state == "failed" {
                let code = row["failure"]["exit_code"].as_i64();
                assert!(
                    code.is_some_and(|code| job.exits.contains(&code)),
                    "{key:?} ended with {:?}: {}",
                    job.exits,
                    row["failure"]
                );
            }
        }
    }
}

/// Nodes and pools between which no device began or ceased to be idle: readings go on while one command follows another.
fn of_one_moment(user: &str) -> (Vec<Value>, Vec<Value>) {
    let idle = |nodes: &[Value]| -> Vec<Value> {
        let of = |node: &Value| node["devices"]["idle_allocated"].clone();
        nodes.iter().map(of).collect()
    };
    let mut nodes = rows(user, "nodes");
    for _ in 0..5 {
        let pools = rows(user, "pools");
        let after = rows(user, "nodes");
        if idle(&nodes) == idle(&after) {
            return (after, pools);
        }
        nodes = after;
    }
    panic!("devices became idle or busy between any two commands");
}

#[test]
#[ignore = "needs the plane of tests/live/up"]
fn pools_are_the_sums_of_their_nodes() {
    let _plane = calm();
    let devices = Truth::now().devices();
    for user in SEERS {
        let (nodes, pools) = of_one_moment(user);
        let billing: Vec<_> = pools
            .iter()
            .map(|pool| (text(pool, "/name"), text(pool, "/billing")))
            .collect();
        let expected = [
            // Eight of its nodes are reserved.
            ("a3-mega", "mixed"),
            ("a100", "on-demand"),
            ("gb200", "reserved"),
            ("h100", "on-demand"),
            ("l4", "spot"),
            ("l40s", "spot"),
            ("nca100", "spot"),
            ("ndh100", "on-demand"),
            ("p4d", "reserved"),
            ("v5e-0", "on-demand"),
            ("v5e-1", "on-demand"),
            ("v5e-2", "on-demand"),
            ("v5e-3", "on-demand"),
            ("v5p-0", "spot"),
            ("v5p-1", "spot"),
        ];
        let real = |(name, _): &(&str, &str)| !name.starts_with('(');
        assert_eq!(
            billing.into_iter().filter(real).collect::<Vec<_>>(),
            expected
        );
        for pool in pools
            .iter()
            .filter(|pool| !text(pool, "/name").starts_with('('))
        {
            let own: Vec<&Value> = nodes
                .iter()
                .filter(|node| node["pool"] == pool["name"])
                .filter(|node| node["devices"]["total"] != 0)
                .collect();
            let count = |of: fn(&Value) -> bool| own.iter().filter(|node| of(node)).count();
            assert_eq!(pool["nodes"]["total"], own.len(), "{pool}");
            assert_eq!(
                pool["nodes"]["ready"],
                count(|node| node["ready"] == true),
                "{pool}"
            );
            assert_eq!(
                pool["nodes"]["cordoned"],
                count(|node| node["cordoned"].is_object()),
                "{pool}"
            );
            for key in ["total", "allocated", "free", "unhealthy", "idle_allocated"] {
                let of_nodes = own.iter().filter_map(|node| node["devices"][key].as_f64());
                let own = pool["devices"][key].as_f64().map(rounded);
                assert_eq!(own, Some(rounded(of_nodes.sum())), "{key} of {pool}");
            }
        }
        let total: u64 = pools
            .iter()
            .filter_map(|pool| pool["devices"]["total"].as_u64())
            .sum();
        assert_eq!(total, devices, "as {user}");
    }
}

#[test]
#[ignore = "needs the plane of tests/live/up"]
fn a_user_without_rights_sees_what_is_missing() {
    let _plane = calm();
    for kind in ["nodes", "jobs", "devices", "pools"] {
        let answer = HttpAnswer::of(&mut stokehold("live-nobody", &["get", kind, "-o", "json"]));
        assert_eq!(answer.code, Some(3), "get {kind}: {answer:?}");
        for expected in ["not visible to you", "nodes", "pods", "rbac viewer"] {
            assert!(
                answer.err.contains(expected),
                "get {kind} does not say {expected:?}: {answer:?}"
            );
        }
    }
}

#[test]
#[ignore = "needs the plane of tests/live/up"]
fn a_team_sees_its_own_objects_and_what_is_missing() {
    let _plane = calm();
    let own = |(namespace, _): &(String, String)| namespace == "nlp";
    let expected: BTreeSet<_> = Truth::now().jobs().into_keys().filter(own).collect();
    let answer = HttpAnswer::of(&mut stokehold(
        "live-team",
        &["get", "jobs", "-n", "nlp", "-o", "json"],
    ));
    assert_eq!(
        answer.code,
        Some(3),
        "nodes are not the team's to see: {answer:?}"
    );
    for message in ["nodes, namespaces", "not visible to you"] {
        assert!(answer.err.contains(message), "{answer:?}");
    }
    let shown = answer
        .rows()
        .iter()
        .map(|row| {
            (
                text(row, "/namespace").to_owned(),
                text(row, "/name").to_owned(),
            )
        })
        .collect();
    assert_eq!(expected, shown);
}

#[test]
#[ignore = "needs the plane of tests/live/up"]
fn a_closed_port_is_unreachable() {
    let _plane = calm();
    let text = std::fs::read_to_string(kubeconfig()).expect("a kubeconfig");
    let wrong = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(wrong.path(), text.replace(":6443", ":6444")).expect("written");
    let answer = HttpAnswer::of(
        Command::new(env!("CARGO_BIN_EXE_stokehold"))
            .arg("--kubeconfig")
            .arg(wrong.path())
            .args(["get", "nodes", "-o", "json"]),
    );
    assert_eq!(answer.code, Some(4), "{answer:?}");
    assert!(
        answer.err.contains(":6444"),
        "the message names the address: {answer:?}"
    );
}

/// The API server's own book of what it was asked: apart from reviews of our own rights nothing was to be changed, but for what
/// the tests of acting have made for themselves.
#[test]
#[ignore = "needs the plane of tests/live/up"]
fn nothing_is_ever_written() {
    let _plane = calm();
    for user in SEERS {
        rows(user, "sources");
    }
    let book = std::fs::read_to_string(audit()).expect("an audit log");
    let mut asked = 0;
    for line in book.lines() {
        // The last line may still be being written.
        let Ok(entry) = serde_json::from_str::<Value>(line) else {
            continue;
        };
        if !text(&entry, "/userAgent").starts_with("stokehold") {
            continue;
        }
        asked += 1;
        let (verb, resource) = (text(&entry, "/verb"), text(&entry, "/objectRef/resource"));
        let reads = matches!(verb, "get" | "list" | "watch");
        let review = verb == "create"
            && resource.starts_with("selfsubject")
            && resource.ends_with("reviews");
        let acted = ["/objectRef/namespace", "/objectRef/name"]
            .iter()
            .any(|path| text(&entry, path).starts_with(ACTING));
        assert!(reads || review || acted, "{verb} {resource}: {entry}");
    }
    assert!(asked > 20, "the book knows our program: {asked} entries");
}

#[test]
#[ignore = "needs the plane of tests/live/up"]
fn everything_asked_for_is_a_thing_of_the_plane() {
    let _plane = calm();
    let truth = Truth::now();
    let pods: BTreeSet<_> = truth.pods.iter().map(key).collect();
    for row in rows("live-admin", "devices")
        .iter()
        .filter(|row| !row["pod"].is_null())
    {
        let held = (
            text(row, "/namespace").to_owned(),
            text(row, "/pod").to_owned(),
        );
        assert!(pods.contains(&held), "no such pod: {row}");
        assert!(
            row["job"].is_string() && row["team"].is_string(),
            "joined to its job and team: {row}"
        );
    }
}
