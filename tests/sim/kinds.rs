//! The workload kinds, queues and claims that a large fleet has: discovered, listed, printed and written as on a real server.

use std::sync::Arc;

use model::base::Moment;
use serde_json::{Value, json};
use sim::specs::SPECS;
use sim::world::{Options, World};
use sim::{Service, User, embed};

use super::{as_user, get, names, pass, patch, post, table};

/// Group, plural, the columns that `kubectl get` prints, and whether it is of a namespace.
const KINDS: &[(&str, &str, &[&str])] = &[
    ("kubeflow.org/v1", "pytorchjobs", &["Name", "State", "Age"]),
    (
        "ray.io/v1",
        "rayjobs",
        &[
            "Name",
            "job status",
            "deployment status",
            "ray cluster name",
            "start time",
            "end time",
            "Age",
        ],
    ),
    (
        "ray.io/v1",
        "rayclusters",
        &[
            "Name",
            "desired workers",
            "available workers",
            "cpus",
            "memory",
            "gpus",
            "status",
            "Age",
        ],
    ),
    (
        "leaderworkerset.x-k8s.io/v1",
        "leaderworkersets",
        &["Name", "Ready", "Desired", "Up-to-date", "Age"],
    ),
    (
        "batch.volcano.sh/v1alpha1",
        "jobs",
        &["Name", "STATUS", "minAvailable", "RUNNINGS", "Age"],
    ),
    (
        "scheduling.volcano.sh/v1beta1",
        "podgroups",
        &["Name", "STATUS", "minMember", "RUNNINGS", "Age"],
    ),
    (
        "scheduling.volcano.sh/v1beta1",
        "queues",
        &["Name", "PARENT"],
    ),
    ("scheduling.run.ai/v2alpha2", "podgroups", &["Name", "Age"]),
    (
        "scheduling.run.ai/v2",
        "queues",
        &["Name", "Priority", "Parent", "Children", "DisplayName"],
    ),
    (
        "resource.k8s.io/v1",
        "resourceslices",
        &["Name", "Node", "Driver", "Pool", "Age"],
    ),
    (
        "resource.k8s.io/v1",
        "resourceclaims",
        &["Name", "State", "Age"],
    ),
    (
        "resource.k8s.io/v1",
        "resourceclaimtemplates",
        &["Name", "Age"],
    ),
    ("resource.k8s.io/v1", "deviceclasses", &["Name", "Age"]),
];

fn fleet() -> Service {
    let begin = Moment::parse("2026-11-21T18:40:00Z").expect("a moment");
    let world = World::new(Options {
        nodes: Some(200),
        ..Options::new(begin)
    });
    let clock = Arc::new(|| Moment::from_seconds(0));
    embed(Box::new(world), clock, 0.0, 7).expect("a cluster")
}

#[tokio::test(start_paused = true)]
async fn every_kind_is_discovered_listed_and_printed() {
    let service = fleet();
    for (version, plural, columns) in KINDS {
        let path = format!("/apis/{version}");
        let found = get(&service, &path).await.json();
        let rows = found["resources"].as_array().expect("resources");
        assert!(rows.iter().any(|row| row["name"] == **plural), "{path}");
        let path = format!("{path}/{plural}");
        let list = get(&service, &path).await.json();
        let all = names(&list);
        assert!(!all.is_empty(), "{path}");
        let printed = table(&service, &path).await;
        let shown: Vec<&str> = printed["columnDefinitions"]
            .as_array()
            .expect("columns")
            .iter()
            .filter(|column| column["priority"] == 0)
            .filter_map(|column| column["name"].as_str())
            .collect();
        assert_eq!(shown, *columns, "{path}");
        let rows = printed["rows"].as_array().expect("rows");
        assert_eq!(rows.len(), all.len());
        for row in rows {
            let cells = row["cells"].as_array().expect("cells").len();
            let columns = printed["columnDefinitions"].as_array().map_or(0, Vec::len);
            assert_eq!(cells, columns, "{path}");
        }
    }
    // One group, of which two versions are served.
    let group = get(&service, "/apis/scheduling.run.ai").await.json();
    assert_eq!(group["versions"].as_array().map(Vec::len), Some(2));
    assert_eq!(group["preferredVersion"]["version"], "v2");
    let all = get(&service, "/apis").await.json();
    let mut groups: Vec<&str> = all["groups"]
        .as_array()
        .expect("groups")
        .iter()
        .filter_map(|group| group["name"].as_str())
        .collect();
    let many = groups.len();
    groups.sort_unstable();
    groups.dedup();
    assert_eq!(groups.len(), many);
}

#[tokio::test(start_paused = true)]
async fn each_user_reads_what_its_role_says() {
    let service = fleet();
    let (viewer, team, unprivileged) = (
        as_user(&service, User::Viewer),
        as_user(&service, User::Team),
        as_user(&service, User::Nobody),
    );
    for (version, plural, _) in KINDS {
        let (group, served) = version.split_once('/').expect("a version");
        let spec = SPECS
            .iter()
            .find(|spec| (spec.group, spec.version, spec.plural) == (group, served, *plural));
        let namespaced = spec.expect("a kind that is served").namespaced;
        let wide = format!("/apis/{version}/{plural}");
        let own = match namespaced {
            true => format!("/apis/{version}/namespaces/nlp/{plural}"),
            false => wide.clone(),
        };
        assert_eq!(get(&viewer, &wide).await.code, 200, "{wide}");
        assert_eq!(get(&team, &wide).await.code, 403, "{wide}");
        let may = if namespaced { 200 } else { 403 };
        assert_eq!(get(&team, &own).await.code, may, "{own}");
        assert_eq!(get(&unprivileged, &own).await.code, 403, "{own}");
    }
}

#[tokio::test(start_paused = true)]
async fn slices_are_selected_by_their_node() {
    let service = fleet();
    let path = "/apis/resource.k8s.io/v1/resourceslices";
    let all = get(&service, path).await.json();
    let node = all["items"][0]["spec"]["nodeName"].as_str();
    let node = node.expect("a node");
    let one = format!("{path}?fieldSelector=spec.nodeName%3D{node}");
    assert_eq!(names(&get(&service, &one).await.json()).len(), 1);
}

/// What plans send: a JSON Patch that tests the uid, and a command.
#[tokio::test(start_paused = true)]
async fn what_plans_write_is_carried_out() {
    let service = fleet();
    let job = "/apis/kubeflow.org/v1/namespaces/speech/pytorchjobs/wav2vec-ft";
    let uid = get(&service, job).await.json()["metadata"]["uid"].clone();
    let body = json!([
        {"op": "test", "path": "/metadata/uid", "value": uid},
        {"op": "test", "path": "/spec/runPolicy/suspend", "value": false},
        {"op": "add", "path": "/spec/runPolicy/suspend", "value": true},
    ]);
    let answer = patch(&service, job, "json-patch", &body).await;
    assert_eq!(answer.code, 200, "{}", answer.text);
    pass(&service, 60);
    let now = get(&service, job).await.json();
    let suspended = |row: &Value| row["type"] == "Suspended" && row["status"] == "True";
    let rows = now["status"]["conditions"].as_array().expect("conditions");
    assert!(rows.iter().any(suspended), "{now}");

    let job = "/apis/batch.volcano.sh/v1alpha1/namespaces/lab/jobs/render-sim";
    let uid = get(&service, job).await.json()["metadata"]["uid"].clone();
    let target = json!({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "render-sim", "uid": uid});
    let commands = "/apis/bus.volcano.sh/v1alpha1/namespaces/lab/commands";
    let body = json!({"apiVersion": "bus.volcano.sh/v1alpha1", "kind": "Command",
        "metadata": {"name": "stokehold-r-1", "namespace": "lab"}, "action": "AbortJob", "target": target});
    let answer = post(&service, commands, &body).await;
    assert_eq!(answer.code, 201, "{}", answer.text);
    assert!(answer.json()["metadata"]["uid"].is_string());
    assert_eq!(post(&service, commands, &body).await.code, 409);
    pass(&service, 60);
    let now = get(&service, job).await.json();
    assert_eq!(now["status"]["state"]["phase"], "Aborted");
    assert!(names(&get(&service, commands).await.json()).is_empty());

    let scale = "/apis/leaderworkerset.x-k8s.io/v1/namespaces/nlp/leaderworkersets/chat-70b/scale";
    assert_eq!(get(&service, scale).await.json()["spec"]["replicas"], 2);
    let body = json!({"spec": {"replicas": 1}});
    let answer = patch(&service, scale, "merge-patch", &body).await;
    assert_eq!(answer.code, 200, "{}", answer.text);
    pass(&service, 60);
    let set = scale.trim_end_matches("/scale");
    assert_eq!(get(&service, set).await.json()["status"]["replicas"], 1);
}
