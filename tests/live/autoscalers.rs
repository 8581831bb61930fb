//! How far pools may go is what their autoscalers' objects say.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::plane::{PATIENCE, Undo, alone, apply, items, rows, undo};
use super::truth::{Truth, text};

/// The ConfigMap of the cluster autoscaler, as YAML and as the text of older ones: the same group, grown by two in between.
fn status(group: &str, old: bool) -> String {
    let status = match old {
        false => format!(
            "time: 2026-11-20 08:00:00.5 +0000 UTC\nautoscalerStatus: Running\nnodeGroups:\n- name: {group}\n  health:\n    status: Healthy\n    nodeCounts:\n      registered:\n        total: 1\n        ready: 1\n    cloudProviderTarget: 1\n    minSize: 1\n    maxSize: 40\n  scaleUp:\n    status: NoActivity\n"
        ),
        true => format!(
            "Cluster-autoscaler status at 2026-11-20 08:00:00.5 +0000 UTC:\nCluster-wide:\n  Health:      Healthy (ready=1 unready=0 registered=1)\n\nNodeGroups:\n  Name:        {group}\n  Health:      Healthy (ready=1 unready=0 notStarted=0 longNotStarted=0 registered=1 longUnregistered=0 cloudProviderTarget=1 (minSize=1, maxSize=42))\n  ScaleUp:     NoActivity (ready=1 cloudProviderTarget=1)\n"
        ),
    };
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "cluster-autoscaler-status", "namespace": "kube-system"},
        "data": {"status": status},
    });
    object.to_string()
}

/// Mode, least and most of each pool that `get` prints.
fn shown(user: &str) -> BTreeMap<String, (Value, Value, Value)> {
    rows(user, "pools")
        .iter()
        .map(|row| {
            let bounds = (
                row["mode"].clone(),
                row["nodes"]["min"].clone(),
                row["nodes"]["max"].clone(),
            );
            (text(row, "/name").to_owned(), bounds)
        })
        .collect()
}

/// What NodePools say of the pools that Karpenter's label names.
fn said(truth: &Truth) -> BTreeMap<String, (Value, Value, Value)> {
    let node_pools = items("nodepools.karpenter.sh");
    truth
        .nodes
        .iter()
        .filter(|(name, node)| {
            node["metadata"]["labels"]["karpenter.sh/nodepool"].is_string()
                && truth.devices_of(name) > 0
        })
        .map(|(name, _)| {
            let pool = truth.pool_of(name);
            let own = node_pools
                .iter()
                .find(|one| text(one, "/metadata/name") == pool);
            let bounds = match own {
                None => (json!("dynamic"), Value::Null, Value::Null),
                Some(own) => match own["spec"]["replicas"].as_u64() {
                    Some(kept) => (json!("static"), json!(kept), json!(kept)),
                    None => {
                        let most = text(own, "/spec/limits/nodes").parse::<u64>();
                        (json!("dynamic"), json!(0), json!(most.ok()))
                    }
                },
            };
            (pool.to_owned(), bounds)
        })
        .collect()
}

#[test]
#[ignore = "needs the plane of tests/live/up"]
fn pools_go_as_far_as_their_autoscalers_say() {
    let _plane = alone();
    let forget = || {
        let map = ["configmap", "cluster-autoscaler-status"];
        undo(
            &[
                &["-n", "kube-system", "delete", "--ignore-not-found"],
                &map[..],
            ]
            .concat(),
        );
    };
    forget();
    let forgotten = Undo(forget);
    let truth = Truth::now();
    let said = said(&truth);
    assert!(said.contains_key("l40s"), "the fleet that up makes");
    for user in ["live-admin", "live-viewer"] {
        let shown = shown(user);
        for (pool, bounds) in &said {
            assert_eq!(shown.get(pool), Some(bounds), "{pool} as {user}");
        }
        // Nobody has told of a managed node group yet: how far it may go is not known.
        assert_eq!(
            shown.get("p4d"),
            Some(&(Value::Null, Value::Null, Value::Null)),
            "as {user}"
        );
    }
    let group = "eks-p4d-1a2b3c4d-0000-1111-2222-333344445555";
    for (old, most) in [(false, 40), (true, 42)] {
        apply(&status(group, old));
        for user in ["live-admin", "live-viewer"] {
            assert_eq!(
                shown(user).get("p4d"),
                Some(&(json!("dynamic"), json!(1), json!(most))),
                "as {user}, old: {old}"
            );
        }
    }
    drop(forgotten);
    assert_eq!(
        shown("live-admin").get("p4d"),
        Some(&(Value::Null, Value::Null, Value::Null))
    );
}

/// What the console says of a pool for which its autoscaler finds no machine: Karpenter deletes the claim, its event stays.
#[test]
#[ignore = "needs the plane of tests/live/up"]
fn a_claim_without_capacity_is_shown_at_its_pool() {
    let _plane = super::plane::calm();
    let (name, pool) = ("l40s-q8x2d.18a2b3c4d5e6f708", "l40s");
    let _undo = Undo(|| {
        undo(&[
            "-n",
            "default",
            "delete",
            "event",
            "--ignore-not-found",
            name,
        ])
    });
    apply(&event(name).to_string());
    for user in ["live-admin", "live-viewer"] {
        let scalers = rows(user, "scalers");
        let row = scalers
            .iter()
            .find(|row| row["kind"] == "NodePool" && row["name"] == pool)
            .expect("the node pool");
        let why = text(row, "/why");
        assert!(
            why.starts_with("InsufficientCapacityError: "),
            "{user}: {row}"
        );
    }
    let mut terminal =
        super::terminal::Terminal::start(&super::plane::kubeconfig(), "live-viewer", (170, 60));
    terminal.wait("the whole fleet", PATIENCE, super::terminal::is_live);
    terminal.keys("2");
    terminal.wait("the pools", PATIENCE, |text| text.contains(pool));
    terminal.keys(&format!("/{pool}\r"));
    terminal.wait("one pool", PATIENCE, |text| !text.contains("gb200"));
    terminal.keys("d");
    terminal.wait("no capacity, and why", PATIENCE, |text| {
        text.contains("no node launched") && text.contains("InsufficientCapacityError")
    });
    // The first leaves what is described, the second the program.
    terminal.keys("q");
    // (Below the table stand the facts of the pool under the cursor.)
    terminal.wait("the pools again", PATIENCE, |text| {
        text.contains("FREE/TOTAL")
    });
    terminal.keys("q");
    assert!(terminal.end(PATIENCE).success());
}

/// The event that Karpenter 1.8 records of a claim without capacity, before it deletes the claim.
fn event(name: &str) -> Value {
    let (claim, _) = name.split_once('.').expect("the claim's name and a number");
    let message = format!(
        "NodeClaim {claim} event: insufficient capacity, no spot capacity of g6e.12xlarge in us-east-1b"
    );
    json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": name, "namespace": "default"},
        "involvedObject": {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "name": claim},
        "type": "Warning", "reason": "InsufficientCapacityError", "message": message, "count": 1,
        "source": {"component": "karpenter"}, "reportingComponent": "karpenter",
    })
}
