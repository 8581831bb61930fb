//! What is told of pools that Karpenter fills.

use serde_json::json;

use super::acting::Stage;
use super::plane::{HttpAnswer, PATIENCE, Undo, items, kubectl, rows, stokehold, undo};
use super::truth::text;

/// A pool of Karpenter's for so many devices; it goes with the value, with its nodes.
fn pool(stage: &Stage, name: &'static str, devices: u32) -> Undo<impl FnMut()> {
    let forget = move || {
        undo(&[
            "delete",
            "nodepools.karpenter.sh",
            name,
            "--ignore-not-found",
        ])
    };
    forget();
    stage.create(&[json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
        "spec": {
            "limits": {"nvidia.com/gpu": devices.to_string(), "nodes": "4"},
            "disruption": {"consolidateAfter": "0s", "consolidationPolicy": "WhenEmpty"},
            "template": {"spec": {
                "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
                "requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}],
                "taints": [{"key": "stokehold-test", "value": name, "effect": "NoSchedule"}],
            }},
        },
    })]);
    Undo(forget)
}

impl Stage {
    /// Makes a Job of one pod with eight devices on a pool's nodes.
    fn node_of_work(&self, name: &str, pool: &str) {
        let mut template = self.pods(&json!({}), 8);
        template["spec"]["restartPolicy"] = "Never".into();
        template["spec"]["nodeSelector"] = json!({"karpenter.sh/nodepool": pool});
        self.create(&[json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": self.name},
            "spec": {"parallelism": 1, "completions": 1, "template": template},
        })]);
    }
}

/// A pool grows for who waits, ends at its limit, and shrinks when nothing runs on it.
#[test]
#[ignore = "needs the plane of tests/live/up second"]
fn a_pool_grows_to_its_limit_and_shrinks() {
    const POOL: &str = "live-grow";
    let stage = &Stage::new("act-grow");
    let _pool = pool(stage, POOL, 8);
    let row = stage.row("scalers", POOL, |row| row["kind"] == "NodePool");
    assert_eq!(row["state"], "steady", "{row:#}");
    stage.node_of_work("first", POOL);
    stage.wait_for_row("first", "it runs on a node that was made for it", |row| {
        row["state"] == "running" && row["devices_allocated"] == 8
    });
    let row = stage.row("pools", POOL, |row| row["devices"]["allocated"] == 8);
    assert_eq!(row["mode"], "dynamic", "{row:#}");
    assert_eq!(
        [
            &row["nodes"]["min"],
            &row["nodes"]["max"],
            &row["nodes"]["ready"]
        ],
        [&json!(0), &json!(4), &json!(1)],
        "{row:#}"
    );
    let row = stage.row("scalers", POOL, |row| row["state"] == "at its limit");
    assert!(text(&row, "/why").contains("nvidia.com/gpu"), "{row:#}");

    // The next one would need another node, which Karpenter does not make.
    stage.node_of_work("second", POOL);
    stage.wait_for_row("second", "it waits", |row| {
        row["state"] == "waiting" && !row["reason"].is_null()
    });
    let second = format!("{}/second", stage.name);
    let why = HttpAnswer::read(&mut stokehold("live-admin", &["explain", &second]));
    let more = why
        .out
        .lines()
        .find(|line| line.contains("add 1 node like"));
    let more = more.unwrap_or_else(|| panic!("what another node would change: {why:?}"));
    assert!(
        more.contains("limit"),
        "that no node comes by itself: {why:?}"
    );
    kubectl(&["-n", stage.name, "delete", "job", "first"]);
    stage.wait_for_row("second", "it has the node", |row| {
        row["state"] == "running" && row["devices_allocated"] == 8
    });
    kubectl(&["-n", stage.name, "delete", "job", "second"]);
    stage.until("Karpenter takes the empty node away", || {
        let claims = items("nodeclaims.karpenter.sh");
        !claims
            .iter()
            .any(|claim| claim["metadata"]["labels"]["karpenter.sh/nodepool"] == POOL)
    });
    stage.until("the pool has no node", || {
        let rows = rows("live-admin", "pools");
        !rows.iter().any(|row| row["name"] == POOL)
    });
}

/// A claim that finds no machine: Karpenter says so in an event and deletes it. The pool says so on.
#[test]
#[ignore = "needs the plane of tests/live/up second"]
fn a_claim_without_capacity_is_reported_at_its_pool() {
    const POOL: &str = "live-sold-out";
    let stage = &Stage::new("act-sold-out");
    let _pool = pool(stage, POOL, 16);
    stage.row("scalers", POOL, |row| row["kind"] == "NodePool");
    stage.node_of_work("first", POOL);
    stage.row("pools", POOL, |row| row["devices"]["allocated"] == 8);
    // (The kwok provider has no capacity where the class of nodes is not there.)
    let claim = format!("{POOL}-x7k2p");
    stage.create(&[json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": claim, "labels": {"karpenter.sh/nodepool": POOL}},
        "spec": {
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "sold-out"},
            "requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["p5.48xlarge"]}],
            "resources": {"requests": {"nvidia.com/gpu": "8"}},
        },
    })]);
    let row = stage.row("scalers", POOL, |row| {
        text(row, "/why").contains("InsufficientCapacityError")
    });
    assert!(text(&row, "/why").contains("sold-out"), "{row:#}");
    stage.until("Karpenter has deleted it", || {
        let claims = items("nodeclaims.karpenter.sh");
        !claims
            .iter()
            .any(|one| text(one, "/metadata/name") == claim)
    });
    // It is told on.
    stage.row("scalers", POOL, |row| {
        text(row, "/why").contains("InsufficientCapacityError")
    });
    let mut terminal =
        super::terminal::Terminal::start(&super::plane::kubeconfig(), "live-viewer", (170, 60));
    terminal.wait("the fleet", PATIENCE, |text| text.contains(POOL));
    terminal.keys("2");
    terminal.wait("the pools", PATIENCE, |text| {
        text.contains(POOL) && text.contains("READY/NODES")
    });
    terminal.keys(&format!("/{POOL}\r"));
    // (The node that the test has is of this class.)
    terminal.wait("one pool", PATIENCE, |text| !text.contains("L4"));
    terminal.keys("d");
    terminal.wait("no capacity, and why", PATIENCE, |text| {
        text.contains("no node launched") && text.contains("InsufficientCapacityError")
    });
    // The first leaves what is described, the second the program.
    terminal.keys("q");
    terminal.wait("the pools again", PATIENCE, |text| {
        text.contains("FREE/TOTAL")
    });
    terminal.keys("q");
    assert!(terminal.end(PATIENCE).success());
}
