//! Server-side apply, and the manifests of `config/kubernetes` applied as kubectl applies them.

use std::path::Path;
use std::sync::Arc;

use ::cluster::rights;
use model::base::Moment;
use serde_json::{Value, json};
use sim::resource::Spec;
use sim::specs::SPECS;
use sim::world::{Options, World};
use sim::{Service, User, embed};

use super::{TestResponse, as_user, cluster, get, patch, send, table};

const APPLY: [(&str, &str); 1] = [("content-type", "application/apply-patch+yaml")];

async fn apply(service: &Service, path: &str, query: &str, body: &Value) -> TestResponse {
    let path = format!("{path}?{query}");
    send(service, "PATCH", &path, &APPLY, body.to_string()).await
}

/// The documents of every manifest and printed role, in the order of `kubectl apply`.
fn manifests() -> Vec<(String, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/kubernetes");
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    let mut texts = vec![
        ("viewer".to_owned(), rights::viewer(&[])),
        ("operator".to_owned(), rights::operator()),
        ("govern".to_owned(), rights::govern()),
    ];
    texts.extend(files.iter().map(|file| {
        let name = file.file_name().expect("a name").display().to_string();
        (name, std::fs::read_to_string(file).expect("a text"))
    }));
    let mut documents = Vec::new();
    for (name, text) in texts {
        for document in text.split("\n---\n") {
            let value: Value = serde_saphyr::from_str(document).expect("is YAML");
            documents.push((name.clone(), value));
        }
    }
    assert!(documents.len() > 20, "{}", documents.len());
    documents
}

fn spec_of(object: &Value) -> &'static Spec {
    let (version, kind) = (object["apiVersion"].as_str(), object["kind"].as_str());
    SPECS
        .iter()
        .find(|spec| Some(&*spec.api_version()) == version && Some(spec.kind) == kind)
        .unwrap_or_else(|| panic!("{version:?} {kind:?} is not served"))
}

/// The path of all objects of its kind in its namespace, and of the object.
fn paths(object: &Value) -> [String; 2] {
    let spec = spec_of(object);
    let root = match spec.group {
        "" => "/api/v1".to_owned(),
        group => format!("/apis/{group}/{}", spec.version),
    };
    let all = match object["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("{root}/namespaces/{namespace}/{}", spec.plural),
        None => format!("{root}/{}", spec.plural),
    };
    let one = format!(
        "{all}/{}",
        object["metadata"]["name"].as_str().unwrap_or("")
    );
    [all, one]
}

/// True when everything that a document says stands in the object.
fn says(object: &Value, document: &Value) -> bool {
    match (object, document) {
        (Value::Object(object), Value::Object(document)) => document
            .iter()
            .all(|(key, value)| object.get(key).is_some_and(|is| says(is, value))),
        (Value::Array(object), Value::Array(document)) => {
            object.len() == document.len()
                && object
                    .iter()
                    .zip(document)
                    .all(|(is, value)| says(is, value))
        }
        _ => object == document,
    }
}

fn fleet() -> Service {
    let begin = Moment::parse("2026-11-21T18:40:00Z").expect("a moment");
    let world = World::new(Options {
        nodes: Some(24),
        ..Options::new(begin)
    });
    let clock = Arc::new(|| Moment::from_seconds(0));
    embed(Box::new(world), clock, 0.0, 7).expect("a cluster")
}

#[tokio::test(start_paused = true)]
async fn every_manifest_is_applied_and_read_back() {
    let service = fleet();
    for (file, document) in &manifests() {
        let [all, path] = paths(document);
        let what = format!("{file}: {path}");
        let before = get(&service, &path).await.code;
        // A namespace must exist before what is in it, on a dry run as on a real server.
        for query in ["fieldManager=kubectl&dryRun=All", "fieldManager=kubectl"] {
            let answer = apply(&service, &path, query, document).await;
            let code = if before == 404 { 201 } else { 200 };
            assert_eq!(answer.code, code, "{what}: {}", answer.text);
            assert!(says(&answer.json(), document), "{what}: {}", answer.text);
            let after = get(&service, &path).await.code;
            let dry = query.contains("dryRun");
            assert_eq!(after, if dry { before } else { 200 }, "{what}");
        }
        let read = get(&service, &path).await.json();
        assert!(says(&read, document), "{what}: {read}");
        let again = apply(&service, &path, "fieldManager=kubectl", document).await;
        assert_eq!(again.code, 200, "{what}: {}", again.text);
        let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
        assert_eq!(version(&again.json()), version(&read), "{what}");
        let printed = table(&service, &all).await;
        let columns = printed["columnDefinitions"].as_array().map(Vec::len);
        for row in printed["rows"].as_array().expect("rows") {
            assert_eq!(row["cells"].as_array().map(Vec::len), columns, "{what}");
        }
    }
}

/// Without `--server-side`: kubectl asks for the object, and creates it or patches it.
#[tokio::test(start_paused = true)]
async fn every_manifest_is_created_and_patched() {
    let service = fleet();
    for (file, document) in &manifests() {
        let [all, path] = paths(document);
        let what = format!("{file}: {path}");
        let json = [("content-type", "application/json")];
        if get(&service, &path).await.code == 404 {
            let dry = format!("{all}?dryRun=All&fieldManager=kubectl-client-side-apply");
            let answer = send(&service, "POST", &dry, &json, document.to_string()).await;
            assert_eq!(answer.code, 201, "{what}: {}", answer.text);
            let answer = send(&service, "POST", &all, &json, document.to_string()).await;
            assert_eq!(answer.code, 201, "{what}: {}", answer.text);
        }
        let note = json!({"metadata": {"annotations": {"note": "b"}}});
        let answer = patch(&service, &path, "strategic-merge-patch", &note).await;
        assert_eq!(answer.code, 200, "{what}: {}", answer.text);
        let read = get(&service, &path).await.json();
        assert!(
            says(&read, document) && says(&read, &note),
            "{what}: {read}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn fields_belong_to_the_manager_that_applied_them() {
    let service = cluster();
    let path = "/apis/apps/v1/namespaces/nlp/deployments/front";
    let front = |image: &str, more: Value| {
        let mut container = json!({"name": "main", "image": image});
        for (key, value) in more.as_object().expect("fields") {
            container[key] = value.clone();
        }
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "front", "labels": {"app": "front"}},
            "spec": {"selector": {"matchLabels": {"app": "front"}}, "template": {
                "metadata": {"labels": {"app": "front"}}, "spec": {"containers": [container]},
            }},
        })
    };
    let first = front(
        "web:1",
        json!({"args": ["a"], "env": [{"name": "X", "value": "1"}]}),
    );
    let answer = apply(&service, path, "fieldManager=one", &first).await;
    assert_eq!(answer.code, 201, "{}", answer.text);
    // Another manager adds a field, and takes one only by force.
    let replicas = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "front"}, "spec": {"replicas": 3}});
    let answer = apply(&service, path, "fieldManager=scaler", &replicas).await;
    assert_eq!(answer.code, 200, "{}", answer.text);
    let other = front("web:2", json!({"args": ["b"]}));
    let refused = apply(&service, path, "fieldManager=two", &other).await;
    assert_eq!(refused.code, 409, "{}", refused.text);
    assert_eq!(
        refused.message(),
        "Apply failed with 2 conflicts: conflicts with \"one\":\n- .spec.template.spec.containers[name=\"main\"].args\n- .spec.template.spec.containers[name=\"main\"].image"
    );
    let forced = apply(
        &service,
        path,
        "fieldManager=two&force=true&dryRun=All",
        &other,
    )
    .await;
    assert_eq!(forced.code, 200, "{}", forced.text);
    let container = |object: &Value| object["spec"]["template"]["spec"]["containers"][0].clone();
    let read = get(&service, path).await.json();
    assert_eq!(
        container(&read)["image"],
        "web:1",
        "a dry run writes nothing"
    );
    let forced = apply(&service, path, "fieldManager=two&force=true", &other)
        .await
        .json();
    assert_eq!(
        (&forced["spec"]["replicas"], &container(&forced)["image"]),
        (&json!(3), &json!("web:2"))
    );
    assert_eq!(
        container(&forced)["env"],
        json!([{"name": "X", "value": "1"}])
    );
    // What a manager applies no more goes, but for what others own and what the server filled in.
    let bare = front("web:2", json!({}));
    let answer = apply(&service, path, "fieldManager=one", &bare)
        .await
        .json();
    assert_eq!(container(&answer)["args"], json!(["b"]));
    assert!(container(&answer).get("env").is_none(), "{answer}");
    assert_eq!(container(&answer)["imagePullPolicy"], "IfNotPresent");
    assert_eq!(answer["spec"]["replicas"], 3);
    let none = apply(&service, path, "force=true", &bare).await;
    assert_eq!(none.code, 422, "{}", none.text);
    // A user without rights to write is refused.
    let viewer = as_user(&service, User::Viewer);
    assert_eq!(
        apply(&viewer, path, "fieldManager=x", &bare).await.code,
        403
    );
}

#[tokio::test(start_paused = true)]
async fn custom_resources_and_status_are_applied_too() {
    let service = fleet();
    let path = "/apis/kueue.x-k8s.io/v1beta1/resourceflavors/spare";
    let flavor = |labels: Value| json!({"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "ResourceFlavor", "metadata": {"name": "spare"}, "spec": {"nodeLabels": labels}});
    let answer = apply(
        &service,
        path,
        "fieldManager=one",
        &flavor(json!({"a": "1", "b": "2"})),
    )
    .await;
    assert_eq!(answer.code, 201, "{}", answer.text);
    let answer = apply(
        &service,
        path,
        "fieldManager=one",
        &flavor(json!({"b": "3"})),
    )
    .await;
    assert_eq!(answer.code, 200, "{}", answer.text);
    assert_eq!(
        get(&service, path).await.json()["spec"]["nodeLabels"],
        json!({"b": "3"})
    );
    // YAML, as a person writes it.
    let yaml = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata:\n  name: data\nspec:\n  accessModes: [ReadWriteOnce]\n";
    let claim = "/api/v1/namespaces/default/persistentvolumeclaims/data";
    let answer = send(
        &service,
        "PATCH",
        &format!("{claim}?fieldManager=one"),
        &APPLY,
        yaml,
    )
    .await;
    assert_eq!(answer.code, 201, "{}", answer.text);
    assert_eq!(answer.json()["status"]["phase"], "Pending");
    let status =
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "status": {"phase": "Bound"}});
    let answer = apply(
        &service,
        &format!("{claim}/status"),
        "fieldManager=binder",
        &status,
    )
    .await;
    assert_eq!(answer.code, 200, "{}", answer.text);
    let read = get(&service, claim).await.json();
    assert_eq!(
        (&read["status"]["phase"], &read["spec"]["accessModes"]),
        (&json!("Bound"), &json!(["ReadWriteOnce"]))
    );
    let absent = apply(
        &service,
        "/api/v1/namespaces/default/persistentvolumeclaims/none/status",
        "fieldManager=binder",
        &status,
    )
    .await;
    assert_eq!(absent.code, 404, "{}", absent.text);
}
