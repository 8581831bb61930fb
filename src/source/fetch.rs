//! Reads one object on request: its YAML without managed fields and Secret values, and its events.

use http::{Method, Request};
use kube::Client;
use serde::Deserialize;

use cluster::discovery::PlainGroup;
use cluster::event::EventObject;
use model::base::{ObjectKey, SmallSort};
use model::fleet::kinds;
use model::fleet::visibility::help_within;
use model::object::{EventSeen, ObjectRef};
use model::value::Json;

use super::api_error::{ApiError, clipped};

/// Largest answer in bytes.
const LONGEST: usize = 4 << 20;
/// Most events that are requested per object.
const EVENTS: usize = 200;

#[derive(Deserialize, Default)]
#[serde(default)]
struct ApiResourceList {
    resources: Vec<ServedResource>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ServedResource {
    name: String,
    kind: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Groups {
    groups: Vec<NamedGroup>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct NamedGroup {
    name: String,
}

/// The object as lines of YAML, as the API server returns it, without managed fields and without the values of a Secret.
///
/// # Errors
/// Why it cannot be read, and the repair.
pub async fn yaml(client: &Client, thing: &ObjectRef) -> Result<Vec<String>, String> {
    nameable(&thing.key)?;
    let path = path_of(client, thing).await?;
    let text = text(client, &path, thing).await?;
    let object: Json = serde_json::from_str(&text)
        .map_err(|error| format!("{} is malformed: {error}", name(thing)))?;
    let clean = without_secrets(without_noise(object)).printable();
    let yaml = serde_saphyr::to_string(&clean)
        .map_err(|error| format!("{} cannot be written as YAML: {error}", name(thing)))?;
    Ok(yaml.lines().map(str::to_owned).collect())
}

/// Events about these objects, latest first; true when the server has more events for one of them.
///
/// # Errors
/// Why they cannot be read, and the repair.
pub async fn events(
    client: &Client,
    things: &[ObjectRef],
) -> Result<(Vec<EventSeen>, bool), String> {
    let mut all = Vec::new();
    let mut more = false;
    for thing in things {
        nameable(&thing.key)?;
        let path = events_path(thing);
        let text = text(client, &path, thing).await?;
        let list: EventList = serde_json::from_str(&text)
            .map_err(|error| format!("events of {} are malformed: {error}", name(thing)))?;
        more |= !list.metadata.next.is_empty();
        all.extend(list.items.iter().map(EventObject::seen));
    }
    all.small_sort_by(|a, b| b.last.cmp(&a.last).then_with(|| a.about.cmp(&b.about)));
    Ok((all, more))
}

fn name(thing: &ObjectRef) -> String {
    format!("{} {}", thing.kind, thing.key)
}

/// The path of the events about an object. Events about nodes are mostly in the namespace `default`.
fn events_path(thing: &ObjectRef) -> String {
    let base = match thing.key.namespace.as_str() {
        "" => String::from("/api/v1/events"),
        namespace => format!("/api/v1/namespaces/{}/events", escaped(namespace)),
    };
    let fields = format!(
        "involvedObject.kind={},involvedObject.name={}",
        thing.kind, thing.key.name
    );
    format!("{base}?fieldSelector={}&limit={EVENTS}", escaped(&fields))
}

/// Rejects names that Kubernetes does not allow: they would form another path.
///
/// # Errors
/// Which name is invalid.
pub(super) fn nameable(key: &ObjectKey) -> Result<(), String> {
    let is_path = |text: &str| matches!(text, "." | "..") || text.contains(['/', '%']);
    if key.name.is_empty() || is_path(&key.name) || is_path(&key.namespace) {
        return Err(format!(
            "{key} is not a valid name of an object in Kubernetes: it is not requested"
        ));
    }
    Ok(())
}

/// Percent-encodes a path segment or a query value.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => out.push(byte as char),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

/// The API path of an object of this kind.
async fn path_of(client: &Client, thing: &ObjectRef) -> Result<String, String> {
    let kind = thing.kind.as_str();
    if let Some(known) = kinds::shown_as(kind) {
        let version = match known.version {
            "" => version_of(client, known.group, thing).await?,
            fixed => fixed.to_owned(),
        };
        return Ok(object_path(known.group, &version, known.plural, &thing.key));
    }
    search(client, thing).await
}

fn object_path(group: &str, version: &str, plural: &str, key: &ObjectKey) -> String {
    let base = match group {
        "" => format!("/api/{version}"),
        group => format!("/apis/{group}/{version}"),
    };
    let (namespace, name) = (escaped(&key.namespace), escaped(&key.name));
    match namespace.as_str() {
        "" => format!("{base}/{plural}/{name}"),
        namespace => format!("{base}/namespaces/{namespace}/{plural}/{name}"),
    }
}

async fn version_of(client: &Client, group: &str, thing: &ObjectRef) -> Result<String, String> {
    let text = text(client, &format!("/apis/{group}"), thing).await?;
    let group: PlainGroup = serde_json::from_str(&text).unwrap_or_default();
    group
        .versions()
        .into_iter()
        .next()
        .ok_or_else(|| format!("the cluster does not serve {}", thing.kind))
}

/// Searches the API groups that the cluster serves for a kind that is not built in.
async fn search(client: &Client, thing: &ObjectRef) -> Result<String, String> {
    let groups: Groups = serde_json::from_str(&text(client, "/apis", thing).await?)
        .map_err(|error| format!("the list of API groups is malformed: {error}"))?;
    for group in groups.groups {
        let group = escaped(&group.name);
        let Ok(version) = version_of(client, &group, thing).await else {
            continue;
        };
        let version = escaped(&version);
        let Ok(text) = text(client, &format!("/apis/{group}/{version}"), thing).await else {
            continue;
        };
        let served: ApiResourceList = serde_json::from_str(&text).unwrap_or_default();
        let found = served
            .resources
            .iter()
            .find(|served| served.kind == thing.kind.as_str() && !served.name.contains('/'));
        if let Some(found) = found {
            let plural = escaped(&found.name);
            return Ok(object_path(&group, &version, &plural, &thing.key));
        }
    }
    Err(format!("the cluster does not serve {}", thing.kind))
}

async fn text(client: &Client, path: &str, thing: &ObjectRef) -> Result<String, String> {
    let text = client
        .request_text(get(path))
        .await
        .map_err(|error| failure_message(&error, &format!("get {}", name(thing))))?;
    if text.len() > LONGEST {
        return Err(format!(
            "{} is larger than the limit of {} MiB",
            name(thing),
            text.len() >> 20
        ));
    }
    Ok(text)
}

/// Why a request for one object failed, and the repair.
pub(super) fn failure_message(error: &kube::Error, what: &str) -> String {
    let kube::Error::Api(status) = error else {
        return ApiError::of_transport(error).message;
    };
    let message = clipped(&status.message);
    match status.code {
        401 => String::from("401: the API server does not accept our credentials; log in again"),
        403 => {
            let help = help_within(&["NAMESPACE"]);
            format!("403: may not {what}: {message}; {help}")
        }
        404 => format!("404: {message}"),
        code => format!("{code}: {message}"),
    }
}

pub(super) fn get(path: &str) -> Request<Vec<u8>> {
    let mut request = Request::new(Vec::new());
    *request.method_mut() = Method::GET;
    if let Ok(uri) = path.parse() {
        *request.uri_mut() = uri;
    }
    request
}

/// Removes `managedFields`, which can be longer than the object.
fn without_noise(object: Json) -> Json {
    let Json::Map(fields) = object else {
        return object;
    };
    let trimmed = fields.into_iter().map(|(key, value)| match (&*key, value) {
        ("metadata", Json::Map(meta)) => {
            let kept = meta.into_iter().filter(|(key, _)| key != "managedFields");
            (key, Json::Map(kept.collect()))
        }
        (_, value) => (key, value),
    });
    Json::Map(trimmed.collect())
}

/// Removes the values of a Secret but keeps its keys; also in the last-applied annotation of `kubectl apply`.
fn without_secrets(object: Json) -> Json {
    let is_secret = object.at("kind") == Some(&Json::Text(String::from("Secret")));
    let (true, Json::Map(fields)) = (is_secret, &object) else {
        return object;
    };
    let hidden = |value: &Json| match value {
        Json::Map(entries) => Json::Map(
            entries
                .iter()
                .map(|(key, _)| (key.clone(), Json::Text(String::from("(hidden)"))))
                .collect(),
        ),
        _ => Json::Text(String::from("(hidden)")),
    };
    let safe = fields.iter().map(|(key, value)| match &**key {
        "data" | "stringData" => (key.clone(), hidden(value)),
        "metadata" => (key.clone(), value.clone().without(&["annotations"])),
        _ => (key.clone(), value.clone()),
    });
    Json::Map(safe.collect())
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct EventList {
    metadata: ListMeta,
    items: Vec<EventObject>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ListMeta {
    #[serde(rename = "continue")]
    next: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(json: &str) -> Json {
        serde_json::from_str(json).expect("JSON")
    }

    #[test]
    fn noise_and_secrets_are_left_out() {
        let object = r#"{"kind":"Secret","metadata":{"name":"s","managedFields":[{"manager":"x"}],
            "annotations":{"kubectl.kubernetes.io/last-applied-configuration":"aHVzaA=="}},
            "data":{"token":"aHVzaA=="},"stringData":{"more":"hush"},"type":"Opaque"}"#;
        let clean = without_secrets(without_noise(value(object)));
        let yaml = serde_saphyr::to_string(&clean).expect("YAML");
        assert!(
            yaml.contains("token") && yaml.contains("more") && yaml.contains("Opaque"),
            "{yaml}"
        );
        for secret in ["aHVzaA", "hush", "manager"] {
            assert!(!yaml.contains(secret), "{secret} in {yaml}");
        }
        let other = value(r#"{"kind":"ConfigMap","data":{"a":"b"}}"#);
        assert_eq!(without_secrets(other.clone()), other);
    }

    #[test]
    fn a_hostile_name_leads_to_no_other_path() {
        for (namespace, name) in [
            ("ml", "../../../kube-system/secrets/token"),
            ("..", "p"),
            ("ml", ".."),
            ("ml", "p%2f..%2fx"),
            ("ml", ""),
        ] {
            let key = ObjectKey::new(namespace, name);
            assert!(nameable(&key).is_err(), "{key}");
        }
        // The escaped name stays one path segment and never becomes the root.
        for name in ["p?watch=true", "p 0", "p#x", "p\n", "日本"] {
            let key = ObjectKey::new("ml", name);
            assert_eq!(nameable(&key), Ok(()));
            let path = object_path("", "v1", "pods", &key);
            let request = get(&path);
            assert_eq!(request.uri().path(), path);
            assert_eq!(request.uri().query(), None);
            let events = events_path(&ObjectRef::new("Pod", key));
            assert_eq!(get(&events).uri(), events.as_str());
        }
    }

    #[test]
    fn paths_are_those_of_the_api() {
        let pod = ObjectKey::new("ml", "p-0");
        assert_eq!(
            object_path("", "v1", "pods", &pod),
            "/api/v1/namespaces/ml/pods/p-0"
        );
        let node = ObjectKey::new("", "n-1");
        assert_eq!(object_path("", "v1", "nodes", &node), "/api/v1/nodes/n-1");
        assert_eq!(
            object_path("batch", "v1", "jobs", &pod),
            "/apis/batch/v1/namespaces/ml/jobs/p-0"
        );
        let thing = ObjectRef::new("Pod", pod);
        assert_eq!(
            events_path(&thing),
            "/api/v1/namespaces/ml/events?fieldSelector=involvedObject.kind%3DPod%2CinvolvedObject.name%3Dp-0&limit=200"
        );
    }
}
