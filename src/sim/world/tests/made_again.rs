//! An object that is made again under the name of a deleted one.

use serde_json::{Value, json};

use super::super::super::change::{Request, Resource};
use super::clients::{WorldObjects, live, name};
use super::properties::check_properties;
use super::{same, snapshot};

/// A controller with one pod, made again by its client under the name of one whose pods still end.
fn again(kind: &str) -> (Resource, Value) {
    let template = json!({
        "metadata": {"labels": {"app": "again"}},
        "spec": {"restartPolicy": "Never", "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "main", "image": "busybox"}]},
    });
    let (resource, version, spec) = match kind {
        "Job" => (Resource::Jobs, "batch/v1", json!({"template": template})),
        "JobSet" => (
            Resource::JobSets,
            "jobset.x-k8s.io/v1alpha2",
            json!({"replicatedJobs": [{"name": "w", "template": {"spec": {"template": template}}}]}),
        ),
        "Deployment" => (
            Resource::Deployments,
            "apps/v1",
            json!({"replicas": 1, "template": template}),
        ),
        _ => (
            Resource::StatefulSets,
            "apps/v1",
            json!({"replicas": 1, "template": template}),
        ),
    };
    let object = json!({
        "apiVersion": version, "kind": kind, "spec": spec,
        "metadata": {"name": format!("again-{}", kind.to_lowercase()), "namespace": "nlp",
            "annotations": {"stokehold.dev/runtime-estimate": "2h"}},
    });
    (resource, object)
}

#[test]
fn an_object_made_again_under_its_name_has_nothing_of_the_deleted_one() {
    let mut cluster = WorldObjects::new();
    let all = ["Job", "JobSet", "Deployment", "StatefulSet"].map(again);
    for (resource, object) in &all {
        cluster.ask(Request::Write(*resource, object.clone()));
    }
    cluster.wait(60);
    let mut deleted = Vec::new();
    for (resource, object) in &all {
        let own = name(object);
        let pods = cluster.pods("nlp", &format!("{own}-"));
        assert_eq!(live(&pods), 1, "{own}");
        cluster.edit(*resource, "nlp", own, |object| {
            object["metadata"]["annotations"]["foo/admitted"] = json!("old");
        });
        let old = cluster.get(*resource, "nlp", own).expect("the first");
        cluster.delete(*resource, "nlp", own);
        assert!(cluster.get(Resource::Pods, "nlp", name(&pods[0])).is_some());
        deleted.push((old, pods));
        cluster.ask(Request::Write(*resource, object.clone()));
    }
    for _ in 0..90 {
        cluster.wait(1);
        for ((resource, object), (old, _)) in all.iter().zip(&deleted) {
            let own = name(object);
            let new = cluster.get(*resource, "nlp", own).expect("the second");
            assert!(new["metadata"]["annotations"]["foo/admitted"].is_null());
            assert_ne!(new["metadata"]["uid"], old["metadata"]["uid"], "{own}");
        }
    }
    same(&snapshot(&cluster.world), &cluster.store);
    check_properties(&cluster.world, &cluster.store);
    for ((resource, object), (_, ended)) in all.iter().zip(&deleted) {
        let own = name(object);
        let pods = cluster.pods("nlp", &format!("{own}-"));
        assert_eq!((pods.len(), live(&pods)), (1, 1), "{own}: {pods:#?}");
        assert_ne!(pods[0]["metadata"]["uid"], ended[0]["metadata"]["uid"]);
        let new = cluster.get(*resource, "nlp", own).expect("the second");
        let children = [Resource::ReplicaSets, Resource::Jobs];
        let children = cluster.store.iter().filter(|((resource, key), _)| {
            children.contains(resource) && key.name.starts_with(&format!("{own}-"))
        });
        for (_, child) in children {
            let owner = &child["metadata"]["ownerReferences"][0]["uid"];
            assert_eq!(owner, &new["metadata"]["uid"], "{own}");
        }
    }
}
