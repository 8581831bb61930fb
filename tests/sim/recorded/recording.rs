//! The files of `tests/sim/answers`: what was asked of a real API server and what it answered.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::Value;

/// One request and its answer.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Recording {
    /// Name within its group.
    pub name: String,
    /// What was asked.
    pub request: RecordedRequest,
    /// What was answered.
    #[serde(rename = "response")]
    pub answer: RecordedResponse,
}

/// A recorded request.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct RecordedRequest {
    /// HTTP method.
    pub method: String,
    /// Path and query; may hold placeholders.
    pub path: String,
    /// Who asks: `live-...`, `none` without a token, `wrong` with one that is nobody's.
    pub user: String,
    /// Headers.
    pub headers: BTreeMap<String, String>,
    /// Body: a document, or a text that is none.
    pub body: Option<Value>,
}

/// A recorded or simulated answer, normalised.
#[derive(Clone, Deserialize, PartialEq, Debug)]
#[serde(deny_unknown_fields)]
pub struct RecordedResponse {
    /// HTTP status code.
    pub status: u16,
    /// Content type; empty without one.
    pub content_type: String,
    /// Of the headers, those that a client acts on.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// The part of the body that was recorded, as a jq expression.
    pub only: Option<String>,
    /// The number of lines that were recorded.
    pub first_lines: Option<usize>,
    /// Body: a document, a list of a watch's events, or a text.
    pub body: Value,
}

/// The recorder defines a kind of its own; a custom kind that the simulator serves stands in for it.
const STAND_IN: [(&str, &str); 5] = [
    ("live.stokehold.dev/v1", "jobset.x-k8s.io/v1alpha2"),
    (".live.stokehold.dev ", ".jobset.x-k8s.io "),
    ("\"live.stokehold.dev\"", "\"jobset.x-k8s.io\""),
    ("sample", "jobset"),
    ("Sample", "JobSet"),
];

/// Some documents come under the type of a text: they are compared as documents.
pub fn read(body: Value) -> Value {
    match body.as_str().filter(|text| text.starts_with('{')) {
        Some(text) => serde_json::from_str(text).unwrap_or(body),
        None => body,
    }
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/sim/answers")
}

/// The names of all groups, sorted.
pub fn groups() -> Vec<String> {
    let mut groups: Vec<String> = std::fs::read_dir(folder())
        .expect("the recordings are there")
        .filter_map(|entry| {
            let name = entry.expect("readable").file_name().into_string();
            Some(name.ok()?.strip_suffix(".json")?.to_owned())
        })
        .collect();
    groups.sort();
    groups
}

impl Recording {
    /// The recordings of a group, in the order in which they were made.
    pub fn group(group: &str) -> Vec<Self> {
        let path = folder().join(format!("{group}.json"));
        let mut text = std::fs::read_to_string(&path).expect("the group is there");
        for (recorded, simulated) in STAND_IN {
            text = text.replace(recorded, simulated);
        }
        let mut recordings: Vec<Self> =
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{group}.json: {error}"));
        for recording in &mut recordings {
            recording.answer.body = read(std::mem::take(&mut recording.answer.body));
        }
        recordings
    }
}

/// The part of a body that a recording holds. Only the expressions that the recorder uses are known.
pub fn part(only: &str, body: Value) -> Value {
    let map = |mut body: Value, list: &str, each: fn(&Value) -> Value| {
        if let Some(items) = body.get_mut(list).and_then(Value::as_array_mut) {
            *items = items.iter().map(each).collect();
        }
        body
    };
    let keep = |mut body: Value, list: &str, name: &str| {
        if let Some(items) = body.get_mut(list).and_then(Value::as_array_mut) {
            items.retain(|item| {
                let group = item.pointer(name).and_then(Value::as_str);
                only.contains(&format!("\"{}\"", group.unwrap_or_default()))
            });
        }
        body
    };
    let at = |body: &Value, pointer: &str| body.pointer(pointer).cloned().unwrap_or_default();
    match only {
        "{spec}" => serde_json::json!({"spec": body["spec"]}),
        "{spec: {suspend: .spec.suspend}}" => {
            serde_json::json!({"spec": {"suspend": at(&body, "/spec/suspend")}})
        }
        "{metadata: {annotations: .metadata.annotations}}" => {
            serde_json::json!({"metadata": {"annotations": at(&body, "/metadata/annotations")}})
        }
        "{metadata: {name: .metadata.name, deletionTimestamp: .metadata.deletionTimestamp}}" => {
            serde_json::json!({"metadata": {
                "name": at(&body, "/metadata/name"),
                "deletionTimestamp": at(&body, "/metadata/deletionTimestamp"),
            }})
        }
        "if .items then .items |= map({metadata: {name: .metadata.name}}) else . end" => map(
            body,
            "items",
            |item| serde_json::json!({"metadata": {"name": item["metadata"]["name"]}}),
        ),
        ".items |= map({reason, involvedObject: {kind: .involvedObject.kind, name: .involvedObject.name}})" => {
            map(body, "items", |item| {
                let object = &item["involvedObject"];
                serde_json::json!({"reason": item["reason"], "involvedObject": {"kind": object["kind"], "name": object["name"]}})
            })
        }
        _ if only.starts_with(".groups |= map(select(.name | IN(") => keep(body, "groups", "/name"),
        _ if only.starts_with(".items |= map(select(.metadata.name | IN(") => {
            keep(body, "items", "/metadata/name")
        }
        _ => panic!("the recorder took a part of the body that this test cannot take: {only}"),
    }
}
