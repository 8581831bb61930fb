//! Tests of queue rows and of the engine's inputs in the fleet document.

use std::sync::Arc;

use serde_json::{Value, json};

use engine::live::snapshot;
use engine::snapshot::Status;
use engine::{document, snapshot};
use ledger::Ledger;
use model::base::{Name, Names};
use model::cost::{Prices, spend_rates};
use model::fleet::observe::Table;
use model::fleet::policy::Policy;

use crate::{Facts, Format, Kind, Query, render};
use model::cost::sample::now;

fn see(ledger: &mut Ledger, table: Table, value: &Value) {
    let seen = cluster::seen(table, value, &mut Names::default());
    ledger.apply(seen.expect("named"));
}

/// Two queues of a cohort, one of which borrows; a running and a waiting job; a KAI queue of the same name.
fn facts() -> Facts {
    let mut ledger = Ledger::new(Arc::new(Policy::default()));
    let all = &mut ledger;
    for node in ["a", "b"] {
        see(
            all,
            Table::Nodes,
            &json!({"metadata": {"name": node, "labels": {
                "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "rack": "r1", "kubernetes.io/hostname": node}},
            "spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}, {"key": "odd", "effect": "Sometimes"}]},
            "status": {"allocatable": {"cpu": "64", "memory": "512Gi", "nvidia.com/gpu": "8"},
                "capacity": {"nvidia.com/gpu": "8"}, "conditions": [{"type": "Ready", "status": "True"}]}}),
        );
    }
    let queue = |name: &str, used: u32, borrowed: u32| {
        json!({"metadata": {"name": name}, "spec": {"cohort": "nlp", "fairSharing": {"weight": "2"}, "resourceGroups": [
                {"flavors": [{"name": "h100", "resources": [
                    {"name": "cpu", "nominalQuota": "1500m"},
                    {"name": "nvidia.com/gpu", "nominalQuota": "4", "borrowingLimit": "8"}]}]}]},
            "status": {"admittedWorkloads": 1, "pendingWorkloads": 1, "conditions": [{"type": "Active", "status": "True"}],
                "flavorsUsage": [{"name": "h100", "resources": [
                    {"name": "nvidia.com/gpu", "total": used.to_string(), "borrowed": borrowed.to_string()}]}]}})
    };
    see(all, Table::ClusterQueues, &queue("nlp", 8, 4));
    see(all, Table::ClusterQueues, &queue("vision", 0, 0));
    see(
        all,
        Table::KaiQueues,
        &json!({"metadata": {"name": "nlp"}, "spec": {"resources": {
        "gpu": {"quota": 2.5, "limit": -1}, "cpu": {"quota": -1}}}}),
    );
    see(
        all,
        Table::ResourceFlavors,
        &json!({"metadata": {"name": "h100"}, "spec": {"topologyName": "net",
        "nodeLabels": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}, "tolerations": [{"key": "gpu", "operator": "Exists"}]}}),
    );
    see(
        all,
        Table::Topologies,
        &json!({"metadata": {"name": "net"}, "spec": {"levels": [{"nodeLabel": "rack"}]}}),
    );
    see(
        all,
        Table::LocalQueues,
        &json!({"metadata": {"name": "lq", "namespace": "ml"}, "spec": {"clusterQueue": "nlp"}}),
    );
    see(
        all,
        Table::PriorityClasses,
        &json!({"metadata": {"name": "high"}, "value": 1000}),
    );
    see(
        all,
        Table::Budgets,
        &json!({"metadata": {"name": "guard", "namespace": "ml"},
        "spec": {"selector": {"matchLabels": {"job-name": "train"}}}, "status": {"disruptionsAllowed": 1, "desiredHealthy": 1}}),
    );
    let template = json!({"spec": {"tolerations": [{"key": "gpu", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "rack", "operator": "In", "values": ["r1"]}]}]}}},
        "containers": [{"resources": {"requests": {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "4"}}}]}});
    for (name, suspend) in [("train", false), ("next", true)] {
        see(
            all,
            Table::Jobs,
            &json!({"metadata": {"name": name, "namespace": "ml", "uid": name,
                "creationTimestamp": "2026-11-21T00:00:00Z", "labels": {"kueue.x-k8s.io/queue-name": "lq"},
                "annotations": {"stokehold.dev/runtime-estimate": "1h"}},
            "spec": {"parallelism": 2, "completions": 2, "completionMode": "Indexed", "suspend": suspend, "template": template}}),
        );
        let admission = json!({"clusterQueue": "nlp", "podSetAssignments": [{"name": "main", "count": 2, "flavors": {"nvidia.com/gpu": "h100"}}]});
        let conditions = match suspend {
            false => {
                json!([{"type": "QuotaReserved", "status": "True", "lastTransitionTime": "2026-11-21T00:01:00Z"},
                {"type": "Admitted", "status": "True", "lastTransitionTime": "2026-11-21T00:01:00Z"}])
            }
            true => {
                json!([{"type": "QuotaReserved", "status": "False", "reason": "WaitingForQuota", "message": "4 more needed"}])
            }
        };
        let mut workload = json!({"metadata": {"name": format!("job-{name}"), "namespace": "ml", "uid": format!("w-{name}"),
                "creationTimestamp": "2026-11-21T00:00:00Z",
                "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": name, "controller": true}]},
            "spec": {"queueName": "lq", "priority": 7, "podSets": [{"name": "main", "count": 2, "template": template,
                "topologyRequest": {"required": "rack"}}]},
            "status": {"conditions": conditions}});
        if !suspend {
            workload["status"]["admission"] = admission;
        }
        see(all, Table::KueueWorkloads, &workload);
    }
    for (at, node) in ["a", "b"].iter().enumerate() {
        see(
            all,
            Table::Pods,
            &json!({"metadata": {"name": format!("train-{at}"), "namespace": "ml", "uid": format!("p{at}"),
                "labels": {"job-name": "train"},
                "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "train", "controller": true}]},
            "spec": {"nodeName": node, "containers": template["spec"]["containers"]},
            "status": {"phase": "Running"}}),
        );
    }
    let fleet = ledger.publish(now());
    let burnt = spend_rates(&fleet, &Prices::default());
    Facts {
        now: now(),
        ..Facts::new(Name::new("test"), Arc::new(fleet), Arc::new(burnt))
    }
}

fn json_of(facts: &Facts, kind: Kind) -> Value {
    let text = render(facts, &Query::all(kind), Format::Json).expect("found");
    serde_json::from_str(&text).expect("is JSON")
}

#[test]
fn every_queue_has_a_row_with_its_quota_and_its_jobs() {
    let rows = json_of(&facts(), Kind::Queues);
    let rows = rows.as_array().expect("rows");
    let names: Vec<(&str, &str)> = rows
        .iter()
        .map(|row| {
            (
                row["name"].as_str().unwrap_or(""),
                row["system"].as_str().unwrap_or(""),
            )
        })
        .collect();
    assert_eq!(
        names,
        [
            ("nlp", "kueue"),
            ("nlp", "kai"),
            ("vision", "kueue"),
            ("unattributed", "none")
        ],
        "cohorts are no queues"
    );
    let nlp = &rows[0];
    assert_eq!(
        nlp["quota"],
        json!([{"flavor": "h100", "resource": "nvidia.com/gpu", "nominal": 4, "borrow_limit": 8, "lend_limit": null,
            "cap": null, "used": 8, "borrowed": 4}])
    );
    assert_eq!(
        (&nlp["parent"], &nlp["weight"], &nlp["stopped"]),
        (&json!("nlp"), &json!(2.0), &json!(false))
    );
    assert_eq!((&nlp["running"], &nlp["waiting"]), (&json!(1), &json!(1)));
    assert!(nlp["oldest_waiting_seconds"].as_u64() > Some(0));
    let kai = &rows[1];
    assert_eq!(kai["quota"][0]["nominal"], json!(2.5));
    assert_eq!(
        (&kai["quota"][0]["flavor"], &kai["quota"][0]["cap"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!((&kai["running"], &kai["waiting"]), (&json!(0), &json!(0)));
    assert_eq!(rows[2]["quota"][0]["used"], json!(0));
    let table = render(&facts(), &Query::all(Kind::Queues), Format::Table).expect("found");
    assert!(table.contains("h100 8/4 (4 borrowed)"), "{table}");
}

#[test]
fn jobs_say_why_they_wait() {
    let rows = json_of(&facts(), Kind::Jobs);
    let next = &rows[0];
    assert_eq!(
        (&next["name"], &next["state"]),
        (&json!("next"), &json!("waiting"))
    );
    assert_eq!(
        (&next["reason_code"], &next["reason"]),
        (&json!("quota"), &json!("4 more needed"))
    );
    assert_eq!(
        (&next["queue"], &next["priority"]),
        (&json!("nlp"), &json!(7))
    );
    assert_eq!(next["gang"], json!({"size": 2, "min": 2}));
}

#[test]
fn the_engine_reads_the_document_as_it_sees_the_fleet() {
    let facts = facts();
    let live = snapshot(&facts.fleet, &facts.spend_rates);
    let text = render(&facts, &Query::all(Kind::Fleet), Format::Json).expect("found");
    let read = document::read(&text, "fleet").expect("our own document is read");
    let read = snapshot::Snapshot {
        revision: live.revision,
        ..read
    };
    assert_eq!(read.nodes, live.nodes);
    assert_eq!(read.queues, live.queues);
    assert_eq!(read.workloads, live.workloads);
    assert_eq!(read, live);
    // The document describes the fleet of the sample.
    let names: Vec<&str> = live.queues.iter().map(|queue| &*queue.name).collect();
    assert_eq!(names, ["cohort/nlp", "kai/nlp", "nlp", "vision"]);
    let train = live
        .workloads
        .iter()
        .find(|work| &*work.key.key.name == "train")
        .expect("there");
    assert_eq!(
        (train.status, train.queue.as_deref()),
        (Status::Running, Some("nlp"))
    );
    let set = &train.sets[0];
    assert_eq!(
        (set.placements.len(), set.placements[0].devices.len()),
        (2, 4)
    );
    assert_eq!((set.affinity.len(), set.tolerations.len()), (1, 1));
    assert_eq!(
        set.topology
            .as_ref()
            .map(|topology| (&*topology.level, topology.required)),
        Some(("rack", true))
    );
    assert_eq!(train.estimate_ms, Some(3_600_000));
    assert_eq!(live.budgets[0].pods.len(), 2);
}

#[test]
fn the_document_keeps_to_its_schema_with_queues_in_it() {
    let facts = facts();
    for kind in [Kind::Fleet, Kind::Queues, Kind::Jobs] {
        let schema = kind.schema();
        let validator = jsonschema::draft202012::new(&schema).expect("a schema");
        let written = json_of(&facts, kind);
        let wrong: Vec<String> = validator
            .iter_errors(&written)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert!(wrong.is_empty(), "{}: {wrong:#?}", kind.name());
    }
    let written = json_of(&facts, Kind::Fleet);
    let nlp = &written["queues"][2];
    assert_eq!(
        (&nlp["object"], &nlp["kind"]),
        (&json!("nlp"), &json!("queue"))
    );
    assert_eq!(nlp["quota"][1]["borrowed"], json!(4));
    assert_eq!(nlp["local_queues"][0]["name"], json!("lq"));
    assert_eq!(
        written["jobs"][1]["admission"]["assigned"][0]["flavors"]["nvidia.com/gpu"],
        json!("h100")
    );
    assert_eq!(written["priority_classes"][0]["value"], json!(1000));
}
