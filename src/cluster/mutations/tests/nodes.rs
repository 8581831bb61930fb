//! Nodes, gates, replicas and our own marks.

use serde_json::json;

use crate::mutations::{
    CHECKPOINT, CORDONED_BY, CORDONED_WHY, Inverse, entry, inverse, is_done, support,
};
use model::plan::Mutation;

use super::{applied, body, job, object, read, step};

#[test]
fn a_node_is_cordoned_with_who_and_why_and_given_back_as_it_was() {
    let node = object("", "v1", "nodes", "Node");
    let cordon = step(
        node.clone(),
        Mutation::Cordon {
            by: "ana".into(),
            why: "XID 79".into(),
        },
    );
    let before = read(json!({"taints": [{"key": "a", "effect": "NoSchedule"}]}));
    let after = applied(&before, &body(&cordon, &before)).expect("applies");
    assert_eq!(after["spec"]["unschedulable"], true);
    assert_eq!(entry(&after, "annotations", CORDONED_BY), Some("ana"));
    assert_eq!(entry(&after, "annotations", CORDONED_WHY), Some("XID 79"));
    let Inverse::Step(back) = inverse(&cordon, &before) else {
        panic!("can be taken back")
    };
    let again = applied(&after, &body(&back, &after)).expect("applies");
    assert_eq!(again["spec"], before["spec"]);
    assert_eq!(again["metadata"]["annotations"], json!({}));
    // An annotation that came meanwhile is not lost with the map that we would make.
    let mut raced = before.clone();
    raced["metadata"]["annotations"] = json!({"other": "1"});
    assert!(applied(&raced, &body(&cordon, &before)).is_err());
    let taint = |value: &str| Mutation::Taint {
        key: "k".into(),
        value: value.into(),
        effect: "NoExecute".into(),
    };
    let put = step(node.clone(), taint("v"));
    let tainted = applied(&before, &body(&put, &before)).expect("applies");
    assert_eq!(
        tainted["spec"]["taints"],
        json!([{"key": "a", "effect": "NoSchedule"}, {"key": "k", "effect": "NoExecute", "value": "v"}])
    );
    assert!(
        is_done(&put, Some(&tainted)) && !is_done(&step(node.clone(), taint("w")), Some(&tainted))
    );
    let Inverse::Step(back) = inverse(&put, &before) else {
        panic!("can be taken back")
    };
    let again = applied(&tainted, &body(&back, &tainted)).expect("applies");
    assert_eq!(again["spec"], before["spec"]);
    let bad = Mutation::Taint {
        key: "k".into(),
        value: String::new(),
        effect: "Never".into(),
    };
    assert!(support(&node, &bad).is_err());
}

#[test]
fn gates_replicas_and_our_own_marks() {
    let pod = object("", "v1", "pods", "Pod");
    let gated = read(json!({"schedulingGates": [{"name": "a"}, {"name": "b"}]}));
    let first = step(pod.clone(), Mutation::Ungate { gate: "a".into() });
    let after = applied(&gated, &body(&first, &gated)).expect("applies");
    assert_eq!(after["spec"]["schedulingGates"], json!([{"name": "b"}]));
    let last = step(pod, Mutation::Ungate { gate: "b".into() });
    let open = applied(&after, &body(&last, &after)).expect("applies");
    assert_eq!(open["spec"].get("schedulingGates"), None);
    assert!(matches!(inverse(&last, &after), Inverse::Never(_)));
    for (group, plural) in [
        ("apps", "deployments"),
        ("leaderworkerset.x-k8s.io", "leaderworkersets"),
    ] {
        let scale = step(
            object(group, "v1", plural, "Set"),
            Mutation::Scale { replicas: 0 },
        );
        let before = read(json!({"replicas": 3}));
        let after = applied(&before, &body(&scale, &before)).expect("applies");
        assert_eq!(after["spec"]["replicas"], 0);
        let Inverse::Step(back) = inverse(&scale, &before) else {
            panic!("can be taken back")
        };
        assert_eq!(back.mutation, Mutation::Scale { replicas: 3 });
    }
    let foreign = Mutation::Annotate {
        key: "example.org/x".into(),
        value: None,
    };
    assert!(support(&job(), &foreign).is_err());
    let mark = step(
        job(),
        Mutation::Annotate {
            key: CHECKPOINT.into(),
            value: Some("t".into()),
        },
    );
    let after = applied(&read(json!({})), &body(&mark, &read(json!({})))).expect("applies");
    assert_eq!(entry(&after, "annotations", CHECKPOINT), Some("t"));
}
