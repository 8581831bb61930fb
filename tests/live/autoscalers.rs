//! How far pools may go is what their autoscalers' objects say. (Karpenter's are in `second::karpenter`.)

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::plane::{Undo, alone, apply, rows, undo};
use super::truth::text;

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
    // Nobody has told of a managed node group yet: how far it may go is not known.
    let unknown = (Value::Null, Value::Null, Value::Null);
    for user in ["live-admin", "live-viewer"] {
        assert_eq!(shown(user).get("p4d"), Some(&unknown), "as {user}");
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
    assert_eq!(shown("live-admin").get("p4d"), Some(&unknown));
}
