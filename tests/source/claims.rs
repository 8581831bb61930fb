//! Devices by claim, from the API server to the fleet, in each version that servers speak.

use std::sync::Arc;

use ledger::Ledger;
use model::base::Moment;
use model::fleet::Fleet;
use model::fleet::device::Attribution;
use model::fleet::observe::{Observation, Table};
use model::fleet::policy::Policy;
use serde_json::{Value, json};

use super::api::*;

const TABLES: &[Table] = &[
    Table::Nodes,
    Table::Pods,
    Table::ResourceSlices,
    Table::ResourceClaims,
    Table::ResourceClaimTemplates,
    Table::DeviceClasses,
];

/// A device, with its fields where this version keeps them.
fn device(version: &str, index: u32) -> Value {
    let fields = json!({
        "attributes": {"type": {"string": "gpu"}, "uuid": {"string": format!("GPU-{index}")}, "index": {"int": index},
            "productName": {"string": "NVIDIA H100 80GB HBM3"}},
        "capacity": {"memory": {"value": "81559Mi"}}
    });
    match version {
        "v1beta1" => json!({"name": format!("gpu-{index}"), "basic": fields}),
        _ => {
            let mut device = fields;
            device["name"] = json!(format!("gpu-{index}"));
            device
        }
    }
}

fn requests(version: &str, count: u32) -> Value {
    let ask = json!({"deviceClassName": "gpu.nvidia.com", "allocationMode": "ExactCount", "count": count});
    match version {
        "v1beta1" => {
            let mut ask = ask;
            ask["name"] = json!("gpu");
            json!({"devices": {"requests": [ask]}})
        }
        _ => json!({"devices": {"requests": [{"name": "gpu", "exactly": ask}]}}),
    }
}

fn named(name: &str) -> Value {
    json!({"name": name, "uid": format!("uid-{name}"), "resourceVersion": "1", "creationTimestamp": "2026-11-20T08:00:00Z"})
}

fn within(name: &str) -> Value {
    let mut meta = named(name);
    meta["namespace"] = json!("ml");
    meta
}

fn pod(name: &str, node: Option<&str>, claim: &str) -> Value {
    json!({"metadata": within(name),
        "spec": {"nodeName": node, "containers": [{"name": "main", "resources": {"claims": [{"name": "gpu"}]}}],
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "each-two"}]},
        "status": {"phase": if node.is_some() { "Running" } else { "Pending" },
            "resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": claim}]}})
}

/// What a server of this version lists under a plural.
fn listed(version: &str, plural: &str) -> Vec<Value> {
    match plural {
        "nodes" => vec![
            json!({"metadata": named("n1"), "status": {"capacity": {"cpu": "96"},
            "conditions": [{"type": "Ready", "status": "True"}]}}),
        ],
        "pods" => vec![
            pod("train", Some("n1"), "train-gpu-x7k2p"),
            pod("next", None, "next-gpu-b4d9m"),
        ],
        "resourceslices" => vec![json!({"metadata": named("n1-gpu.nvidia.com-0"), "spec": {
            "driver": "gpu.nvidia.com", "nodeName": "n1",
            "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
            "devices": (0..4).map(|index| device(version, index)).collect::<Vec<_>>()}})],
        "resourceclaims" => vec![
            json!({"metadata": within("train-gpu-x7k2p"), "spec": requests(version, 2), "status": {
                "allocation": {"devices": {"results": [
                    {"request": "gpu", "driver": "gpu.nvidia.com", "pool": "n1", "device": "gpu-0"},
                    {"request": "gpu", "driver": "gpu.nvidia.com", "pool": "n1", "device": "gpu-2"}]}},
                "reservedFor": [{"resource": "pods", "name": "train", "uid": "uid-train"}]}}),
            json!({"metadata": within("next-gpu-b4d9m"), "spec": requests(version, 2)}),
        ],
        "resourceclaimtemplates" => {
            vec![json!({"metadata": within("each-two"), "spec": {"spec": requests(version, 2)}})]
        }
        _ => vec![
            json!({"metadata": named("gpu.nvidia.com"), "spec": {"selectors": [
            {"cel": {"expression": "device.driver == 'gpu.nvidia.com'"}}]}}),
        ],
    }
}

fn server(version: &'static str, refuses: Option<&'static str>) -> Server {
    let plurals = [
        "resourceslices",
        "resourceclaims",
        "resourceclaimtemplates",
        "deviceclasses",
    ];
    let tables: Vec<(String, ServedTable)> = TABLES
        .iter()
        .map(|table| {
            let plural = table.plural();
            let path = match plurals.contains(&plural) {
                true => format!("/apis/resource.k8s.io/{version}/{plural}"),
                false => format!("/api/v1/{plural}"),
            };
            (path, ServedTable::new(listed(version, plural), 0))
        })
        .collect();
    Server::new(move |asked| {
        if asked.path == "/apis" {
            let resources: Vec<Value> = plurals
                .iter()
                .map(|plural| json!({"resource": plural}))
                .collect();
            return Reply::Json(
                200,
                json!({"kind": "APIGroupDiscoveryList", "items": [{"metadata": {"name": "resource.k8s.io"},
                    "versions": [{"version": version, "freshness": "Current", "resources": resources}]}]}),
            );
        }
        if refuses.is_some_and(|plural| asked.path.ends_with(plural)) {
            return status(403, "Forbidden", "may not list");
        }
        let served = tables.iter().find(|(path, _)| *path == asked.path);
        served.map_or_else(not_found, |(_, served)| served.answer(asked))
    })
}

async fn fleet(version: &'static str, refuses: Option<&'static str>) -> Fleet {
    let server = server(version, refuses);
    let mut bench = run(&server, TABLES);
    let mut seen = std::collections::BTreeSet::new();
    let heard = |one: &Observation| {
        if let Observation::End(table) | Observation::Lost(table, _) = one {
            seen.insert(*table);
        }
        seen.len() == TABLES.len()
    };
    bench.until("every table", heard).await;
    let mut ledger = Ledger::new(Arc::new(Policy::default()));
    for observation in bench.observations.drain(..) {
        ledger.apply(observation);
    }
    ledger.publish(Moment::from_seconds(1_800_000_000))
}

#[tokio::test(start_paused = true)]
async fn claims_are_joined_in_every_version() {
    for version in ["v1", "v1beta2", "v1beta1"] {
        let fleet = fleet(version, None).await;
        let counts = fleet.device_counts();
        assert_eq!(
            (counts.total, counts.allocated.devices()),
            (4, 2.0),
            "{version}"
        );
        let held: Vec<(&str, Attribution)> = fleet
            .devices()
            .filter_map(|(_, device)| Some((device.uuid.as_deref()?, device.first_holder()?.1)))
            .collect();
        assert_eq!(
            held,
            [("GPU-0", Attribution::Claim), ("GPU-2", Attribution::Claim)],
            "{version}"
        );
        let asks: Vec<(&str, u32, u32)> = fleet
            .jobs
            .iter()
            .map(|job| {
                (
                    job.id.key.name.as_str(),
                    job.devices_requested,
                    job.devices_allocated,
                )
            })
            .collect();
        assert_eq!(asks, [("next", 2, 0), ("train", 2, 2)], "{version}");
    }
}

#[tokio::test(start_paused = true)]
async fn slices_that_may_not_be_listed_leave_the_node_unknown() {
    let fleet = fleet("v1", Some("resourceslices")).await;
    assert!(fleet.nodes[0].withheld, "its pods hold devices by claim");
    assert!(fleet.nodes[0].devices.is_empty());
    assert_eq!(
        fleet.jobs.len(),
        2,
        "what claims ask for is known all the same"
    );
}
