//! Queues and what they let in: quotas, use, borrowing, admission and places are what Kueue's own status says, over every object.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use serde_json::{Value, json};

use super::plane::{HttpAnswer, PATIENCE, calm, items, kubeconfig, kubectl, rows, stokehold};
use super::terminal::{Terminal, is_live};
use super::truth::{Key, Truth, holds, key, list, text};

/// A list's objects by namespace and name.
fn by_key(what: &str) -> BTreeMap<Key, Value> {
    items(what)
        .into_iter()
        .map(|item| (key(&item), item))
        .collect()
}

/// Kueue's quantities of devices are whole numbers, as text or not.
fn amount(value: &Value) -> Value {
    match value {
        Value::String(text) => json!(text.parse::<i64>().expect("whole devices")),
        other => other.clone(),
    }
}

/// What a queue's or cohort's status says of one flavor and resource: in use, and of that borrowed.
fn used(status: &Value, flavor: &str, resource: &str) -> (Value, Value) {
    let own = list(status, "/flavorsUsage").iter();
    let own = own.filter(|usage| usage["name"] == flavor);
    let found = own
        .flat_map(|usage| list(usage, "/resources"))
        .find(|usage| usage["name"] == resource);
    match found {
        // (A status leaves out what is nothing.)
        Some(usage) => {
            let of = |key: &str| match &usage[key] {
                Value::Null => json!(0),
                value => amount(value),
            };
            (of("total"), of("borrowed"))
        }
        None => (Value::Null, Value::Null),
    }
}

/// Every quota of a ClusterQueue with its use, as a row shows them.
fn quotas(queue: &Value) -> Vec<Value> {
    let flavors = list(queue, "/spec/resourceGroups")
        .iter()
        .flat_map(|group| list(group, "/flavors"));
    flavors
        .flat_map(|flavor| {
            list(flavor, "/resources")
                .iter()
                .map(move |quota| (text(flavor, "/name"), quota))
        })
        .map(|(flavor, quota)| {
            let resource = text(quota, "/name");
            let (used, borrowed) = used(&queue["status"], flavor, resource);
            json!({
                "flavor": flavor, "resource": resource,
                "nominal": amount(&quota["nominalQuota"]),
                "borrow_limit": amount(&quota["borrowingLimit"]),
                "lend_limit": amount(&quota["lendingLimit"]),
                "cap": null, "used": used, "borrowed": borrowed,
            })
        })
        .collect()
}

fn sorted(mut cells: Vec<Value>) -> Vec<Value> {
    cells.sort_by_key(|cell| (cell["flavor"].to_string(), cell["resource"].to_string()));
    cells
}

/// `get queues`: every ClusterQueue with its cohort, weight, quotas, use, borrowing, and how many run and wait.
#[test]
#[ignore = "needs the plane of tests/live/up"]
fn queues_are_what_kueue_says() {
    let _plane = calm();
    let queues = by_key("clusterqueues.kueue.x-k8s.io");
    assert_eq!(queues.len(), 6, "the queues that up makes");
    let workloads = by_key("workloads.kueue.x-k8s.io");
    let locals = by_key("localqueues.kueue.x-k8s.io");
    let behind = |workload: &Value| {
        let door = (
            key(workload).0,
            text(workload, "/spec/queueName").to_owned(),
        );
        text(&locals[&door], "/spec/clusterQueue").to_owned()
    };
    let mut borrowers = 0;
    for user in ["live-admin", "live-viewer"] {
        let shown: BTreeMap<String, Value> = rows(user, "queues")
            .into_iter()
            .filter(|row| row["system"] == "kueue")
            .map(|row| (text(&row, "/name").to_owned(), row))
            .collect();
        let names = |of: Vec<&String>| of.into_iter().cloned().collect::<BTreeSet<_>>();
        assert_eq!(
            names(shown.keys().collect()),
            names(queues.keys().map(|(_, name)| name).collect()),
            "as {user}"
        );
        for ((_, name), queue) in &queues {
            let row = &shown[name];
            assert_eq!(row["parent"], queue["spec"]["cohortName"], "{row}");
            let weight = &queue["spec"]["fairSharing"]["weight"];
            if !weight.is_null() {
                assert_eq!(row["weight"].as_f64(), amount(weight).as_f64(), "{row}");
            }
            let stops = matches!(text(queue, "/spec/stopPolicy"), "Hold" | "HoldAndDrain");
            assert_eq!(row["stopped"], stops || !holds(queue, "Active"), "{row}");
            let cells = row["quota"].as_array().expect("quotas").clone();
            assert_eq!(
                sorted(cells.clone()),
                sorted(quotas(queue)),
                "{name} as {user}"
            );
            borrowers += usize::from(cells.iter().any(|cell| cell["borrowed"].as_i64() > Some(0)));
            let own: Vec<&Value> = workloads.values().filter(|w| behind(w) == *name).collect();
            let waiting = own.iter().filter(|w| !holds(w, "QuotaReserved")).count();
            let running = own.iter().filter(|w| holds(w, "Admitted")).count();
            assert_eq!(
                (&row["waiting"], &row["running"]),
                (&json!(waiting), &json!(running)),
                "{name} as {user}"
            );
            // Kueue's own counters agree with its workloads.
            assert_eq!(
                queue["status"]["pendingWorkloads"].as_u64().unwrap_or(0),
                waiting as u64,
                "{name}"
            );
        }
    }
    assert!(borrowers >= 2, "on this fleet a queue borrows");
}

/// The document with places in it. Kueue tells places queue by queue, a moment after the rest is known.
fn document(user: &str) -> Value {
    let end = Instant::now() + 3 * PATIENCE;
    loop {
        let answer = HttpAnswer::of(&mut stokehold(user, &["get", "fleet", "-o", "json"]));
        assert_eq!(answer.code, Some(0), "as {user}: {answer:?}");
        let found: Value = serde_json::from_str(&answer.out).expect("a document");
        let document = found.as_array().map_or(&found, |one| &one[0]).clone();
        let lacks = |job: &&Value| {
            let admission = &job["admission"];
            admission["kind"] == "Workload"
                && admission["quota_reserved_at"].is_null()
                && admission["position"].is_null()
        };
        let missing = list(&document, "/jobs").iter().filter(lacks).count();
        if missing == 0 {
            return document;
        }
        assert!(
            Instant::now() < end,
            "{missing} waiting jobs have no place as {user}"
        );
    }
}

/// When a condition came to hold.
fn since(object: &Value, kind: &str) -> Value {
    let conditions = list(object, "/status/conditions").iter();
    let mut held = conditions.filter(|c| c["type"] == kind && c["status"] == "True");
    held.next()
        .map_or(Value::Null, |c| c["lastTransitionTime"].clone())
}

/// Every Workload: queue, priority, what it was given, when it was admitted, why it waits, its evictions and its place.
#[test]
#[ignore = "needs the plane of tests/live/up"]
fn admission_and_places_are_what_kueue_says() {
    let _plane = calm();
    let workloads = by_key("workloads.kueue.x-k8s.io");
    let locals = by_key("localqueues.kueue.x-k8s.io");
    let mut places: BTreeMap<Key, Value> = BTreeMap::new();
    for (_, queue) in by_key("clusterqueues.kueue.x-k8s.io").keys() {
        let path = format!(
            "/apis/visibility.kueue.x-k8s.io/v1beta2/clusterqueues/{queue}/pendingworkloads"
        );
        let answer: Value =
            serde_json::from_str(&kubectl(&["get", "--raw", &path])).expect("a list");
        places.extend(
            list(&answer, "/items")
                .iter()
                .map(|item| (key(item), item.clone())),
        );
    }
    assert!(
        places.len() >= 30,
        "on this fleet {} workloads wait",
        places.len()
    );
    for user in ["live-admin", "live-viewer"] {
        let document = document(user);
        let mut shown: BTreeMap<Key, &Value> = BTreeMap::new();
        for job in list(&document, "/jobs") {
            let admission = &job["admission"];
            if admission["system"] == "kueue" {
                let id = (
                    text(job, "/namespace").to_owned(),
                    text(admission, "/name").to_owned(),
                );
                assert!(
                    shown.insert(id, admission).is_none(),
                    "one job a workload: {job}"
                );
            }
        }
        assert_eq!(
            shown.keys().collect::<Vec<_>>(),
            workloads.keys().collect::<Vec<_>>(),
            "as {user}"
        );
        for (id, workload) in &workloads {
            let cell = shown[id];
            let door = (id.0.clone(), text(workload, "/spec/queueName").to_owned());
            let spec = &workload["spec"];
            for (key, expected) in [
                ("kind", json!("Workload")),
                ("uid", workload["metadata"]["uid"].clone()),
                ("local_queue", spec["queueName"].clone()),
                ("queue", locals[&door]["spec"]["clusterQueue"].clone()),
                ("priority", spec["priority"].clone()),
                ("priority_class", spec["priorityClassRef"]["name"].clone()),
                ("active", json!(spec["active"] != false)),
                ("quota_reserved_at", since(workload, "QuotaReserved")),
                ("admitted_at", since(workload, "Admitted")),
                (
                    "position",
                    places
                        .get(id)
                        .map_or(Value::Null, |p| p["positionInClusterQueue"].clone()),
                ),
                (
                    "local_position",
                    places
                        .get(id)
                        .map_or(Value::Null, |p| p["positionInLocalQueue"].clone()),
                ),
            ] {
                assert_eq!(cell[key], expected, "{key} of {id:?} as {user}: {cell}");
            }
            let given: Vec<Value> = list(workload, "/status/admission/podSetAssignments")
                .iter()
                .map(|set| json!([set["name"], set["count"], set["flavors"]]))
                .collect();
            let assigned: Vec<Value> = list(cell, "/assigned")
                .iter()
                .map(|set| json!([set["name"], set["count"], set["flavors"]]))
                .collect();
            assert_eq!(assigned, given, "what {id:?} was given, as {user}");
            let evictions = list(workload, "/status/schedulingStats/evictions").len();
            assert_eq!(
                list(cell, "/evictions").len(),
                evictions,
                "{id:?} as {user}: {cell}"
            );
            let unadmitted = list(workload, "/status/conditions").iter();
            let mut unadmitted =
                unadmitted.filter(|c| c["type"] == "QuotaReserved" && c["status"] == "False");
            if let Some(condition) = unadmitted.next() {
                assert_eq!(cell["message"], condition["message"], "{id:?} as {user}");
            }
        }
    }
}

/// Cohorts on two levels and LocalQueues in the document: parents, quotas, use and counters.
#[test]
#[ignore = "needs the plane of tests/live/up"]
fn cohorts_and_local_queues_are_what_kueue_says() {
    let _plane = calm();
    let queues = by_key("clusterqueues.kueue.x-k8s.io");
    let cohorts = by_key("cohorts.kueue.x-k8s.io");
    let locals = by_key("localqueues.kueue.x-k8s.io");
    let document = document("live-viewer");
    let of = |kind: &str| -> BTreeMap<String, &Value> {
        let all = list(&document, "/queues").iter();
        all.filter(|queue| queue["kind"] == kind && queue["uid"].is_string())
            .map(|queue| (text(queue, "/object").to_owned(), queue))
            .collect()
    };
    let shown = of("cohort");
    for ((_, name), cohort) in &cohorts {
        let row = shown
            .get(name)
            .unwrap_or_else(|| panic!("cohort {name}: {:?}", shown.keys()));
        assert_eq!(row["uid"], cohort["metadata"]["uid"], "{row}");
        assert_eq!(row["parent"], cohort["spec"]["parentName"], "{row}");
    }
    // (A cohort and a queue may have one name: the document tells them apart by a title.)
    let title = |cohort: &Value| match cohort.as_str() {
        Some(name) => shown[name]["name"].clone(),
        None => Value::Null,
    };
    let own = of("queue");
    let mut doors = 0;
    for ((_, name), queue) in &queues {
        let row = own[name];
        assert_eq!(row["parent"], title(&queue["spec"]["cohortName"]), "{row}");
        let status = &queue["status"];
        for (key, counter) in [
            ("pending", "pendingWorkloads"),
            ("reserving", "reservingWorkloads"),
            ("admitted", "admittedWorkloads"),
        ] {
            assert_eq!(
                row[key].as_u64(),
                Some(status[counter].as_u64().unwrap_or(0)),
                "{key} of {name}: {row}"
            );
        }
        for quota in list(row, "/quota") {
            let (used, borrowed) = used(status, text(quota, "/flavor"), text(quota, "/resource"));
            assert_eq!(
                (&quota["used"], &quota["borrowed"]),
                (&used, &borrowed),
                "{name}: {quota}"
            );
        }
        let reported: BTreeMap<Key, &Value> = list(row, "/local_queues")
            .iter()
            .map(|door| {
                (
                    (
                        text(door, "/namespace").to_owned(),
                        text(door, "/name").to_owned(),
                    ),
                    door,
                )
            })
            .collect();
        let there: Vec<&Key> = locals
            .iter()
            .filter(|(_, local)| local["spec"]["clusterQueue"] == **name)
            .map(|(id, _)| id)
            .collect();
        assert_eq!(
            reported.keys().collect::<Vec<_>>(),
            there,
            "the local queues of {name}"
        );
        for (id, door) in reported {
            doors += 1;
            let status = &locals[&id]["status"];
            for (key, counter) in [
                ("pending", "pendingWorkloads"),
                ("reserving", "reservingWorkloads"),
                ("admitted", "admittedWorkloads"),
            ] {
                assert_eq!(
                    door[key].as_u64(),
                    Some(status[counter].as_u64().unwrap_or(0)),
                    "{key} of {id:?}"
                );
            }
        }
    }
    assert_eq!((cohorts.len(), doors), (3, locals.len()));
}

/// The same on the screen of queues: use and borrowing, and the order of who waits.
#[test]
#[ignore = "needs the plane of tests/live/up"]
fn the_console_shows_queues_as_kueue_does() {
    let _plane = calm();
    let truth = Truth::now();
    let mut terminal = Terminal::start(&kubeconfig(), "live-viewer", (200, 50));
    terminal.wait("the whole fleet", PATIENCE, is_live);
    terminal.keys("4");
    terminal.wait("every queue", PATIENCE, |text| {
        [
            "research-llm",
            "research-vision",
            "product-serve",
            "product-batch",
            "tpu-lab",
            "frozen",
        ]
        .iter()
        .all(|queue| text.contains(queue))
    });
    // Under the cursor: who waits in research-llm, in Kueue's order.
    let path =
        "/apis/visibility.kueue.x-k8s.io/v1beta2/clusterqueues/research-llm/pendingworkloads";
    let answer: Value = serde_json::from_str(&kubectl(&["get", "--raw", path])).expect("a list");
    let mut order: Vec<(u64, String)> = list(&answer, "/items")
        .iter()
        .map(|item| {
            let place = item["positionInClusterQueue"].as_u64().expect("a place");
            let owner = truth.job_of_workload(&key(item)).expect("a job");
            (place, owner)
        })
        .collect();
    order.sort();
    assert!(order.len() >= 4, "{order:?}");
    terminal.keys("/research-llm\r");
    let wanted: Vec<String> = order.into_iter().map(|(_, job)| job).collect();
    terminal.wait(&format!("the order {wanted:?}"), PATIENCE, |text| {
        let mut at = 0;
        wanted.iter().all(
            |job| match text[at..].find(&format!("research-llm/{job}")) {
                Some(found) => {
                    at += found;
                    true
                }
                None => false,
            },
        )
    });
    terminal.keys("q");
    assert!(terminal.end(PATIENCE).success());
}
