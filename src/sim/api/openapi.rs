//! OpenAPI: enough for kubectl to explain kinds, to validate on the server and to compute patches.

use http::Response;
use serde_json::{Map, Value, json};

use super::{ApiRequest, Body, respond};
use crate::resource::Spec;
use crate::specs::SPECS;

/// Answers OpenAPI paths; `None` for every other path.
pub fn serve(path: &str, asked: &ApiRequest) -> Option<Response<Body>> {
    if path == "/openapi/v2" {
        return Some(second(asked));
    }
    let rest = path.strip_prefix("/openapi/v3")?;
    if rest.is_empty() || rest == "/" {
        // A document under the type of a text, as on the real server.
        return Some(respond(
            200,
            "text/plain; charset=utf-8",
            index().to_string(),
        ));
    }
    let body = third(rest.strip_prefix('/')?)?;
    Some(respond(200, "application/json", body.to_string()))
}

/// Path of the group and version: `api/v1` or `apis/GROUP/VERSION`.
fn place(spec: &Spec) -> String {
    if spec.group.is_empty() {
        format!("api/{}", spec.version)
    } else {
        format!("apis/{}/{}", spec.group, spec.version)
    }
}

fn index() -> Value {
    let mut paths = Map::new();
    for spec in SPECS {
        let place = place(spec);
        let url = json!({"serverRelativeURL": format!("/openapi/v3/{place}?hash=0")});
        paths.insert(place, url);
    }
    json!({"paths": paths})
}

/// The schema's name, in the style of the real server.
fn schema_name(spec: &Spec) -> String {
    let mut group: Vec<&str> = spec.group.split('.').collect();
    if spec.is_custom() {
        group.reverse();
        return format!("{}.{}.{}", group.join("."), spec.version, spec.kind);
    }
    let group = match spec.group {
        "" => "core",
        other => other.split('.').next().unwrap_or(other),
    };
    format!("io.k8s.api.{group}.{}.{}", spec.version, spec.kind)
}

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

fn gvk(spec: &Spec) -> Value {
    json!({"group": spec.group, "version": spec.version, "kind": spec.kind})
}

fn typed(kind: &str, description: &str) -> Value {
    json!({"description": description, "type": kind})
}

/// A part of an object that is not described further.
fn open(description: &str) -> Value {
    let mut part = typed("object", description);
    part["x-kubernetes-preserve-unknown-fields"] = true.into();
    part
}

fn texts(description: &str) -> Value {
    json!({"description": description, "type": "object", "additionalProperties": {"type": "string"}})
}

fn list(description: &str, items: Value) -> Value {
    json!({"description": description, "type": "array", "items": items})
}

/// The fields of a kind besides those of every object.
fn fields(spec: &Spec) -> Value {
    let kind = spec.kind;
    match kind {
        "ConfigMap" => json!({"data": texts("Texts by key.")}),
        "Event" => json!({
            "message": typed("string", "What happened."),
            "reason": typed("string", "Why, in one word."),
            "type": typed("string", "Normal or Warning."),
            "firstTimestamp": typed("string", "When it was first seen."),
            "lastTimestamp": typed("string", "When it was last seen."),
            "involvedObject": open("What it is about."),
        }),
        "PriorityClass" => json!({
            "value": {"description": "The priority of its pods.", "type": "integer", "format": "int32"},
            "globalDefault": typed("boolean", "Whether pods without a class get it."),
        }),
        "ServiceAccount" => json!({}),
        "Role" | "ClusterRole" => json!({"rules": list("What it allows.", open("A rule."))}),
        "RoleBinding" | "ClusterRoleBinding" => json!({
            "roleRef": open("The role that it grants."),
            "subjects": list("Whom it grants the role to.", open("A subject.")),
        }),
        _ => {
            let mut fields = json!({"spec": open(&format!("What the {kind} should be."))});
            if spec.has_status() {
                fields["status"] = open(&format!("What the {kind} was last seen to be."));
            }
            fields
        }
    }
}

fn schema(spec: &Spec, meta: Value) -> Value {
    let mut properties = Map::new();
    let version = typed("string", "The version of the schema of this object.");
    properties.insert("apiVersion".into(), version);
    properties.insert("kind".into(), typed("string", "The kind of this object."));
    properties.insert("metadata".into(), meta);
    if let Value::Object(fields) = fields(spec) {
        properties.extend(fields);
    }
    json!({
        "description": format!("{} of the simulated cluster.", spec.kind),
        "type": "object",
        "properties": properties,
        "x-kubernetes-group-version-kind": [gvk(spec)],
    })
}

fn metadata_schema() -> Value {
    let text = |description: &str| typed("string", description);
    json!({
        "description": "What every object carries.",
        "type": "object",
        "properties": {
            "name": text("Name, unique within its namespace."),
            "generateName": text("Prefix from which the server makes a name."),
            "namespace": text("Namespace."),
            "uid": text("Identity, unique in time and space."),
            "resourceVersion": text("Changes whenever the object does."),
            "generation": {"description": "Counts changes of the spec.", "type": "integer", "format": "int64"},
            "creationTimestamp": {"description": "When it was created.", "type": "string", "format": "date-time"},
            "deletionTimestamp": {"description": "When it will be deleted.", "type": "string", "format": "date-time"},
            "labels": texts("Labels, by which it is selected."),
            "annotations": texts("Annotations, by which nothing is selected."),
            "finalizers": list("Finalizers to be removed before it is deleted.", json!({"type": "string"})),
            "ownerReferences": list("What it belongs to.", open("An owner.")),
        },
    })
}

fn third(wanted: &str) -> Option<Value> {
    let (mut schemas, mut paths) = (Map::new(), Map::new());
    for spec in SPECS.iter().filter(|s| place(s) == wanted) {
        let name = schema_name(spec);
        let reference = json!({"allOf": [{"$ref": format!("#/components/schemas/{META}")}], "description": "Names, labels and the rest.", "default": {}});
        schemas.insert(name.clone(), schema(spec, reference));
        let scope = if spec.namespaced {
            "/namespaces/{namespace}"
        } else {
            ""
        };
        let query = |name: &str| json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}});
        let parameters: Vec<Value> = ["dryRun", "fieldManager", "fieldValidation", "force"]
            .into_iter()
            .map(query)
            .collect();
        let content = json!({"application/json": {"schema": {"$ref": format!("#/components/schemas/{name}")}}});
        let answers = json!({"200": {"description": "OK", "content": content}});
        let operation = |action: &str| json!({"responses": answers, "x-kubernetes-action": action, "x-kubernetes-group-version-kind": gvk(spec)});
        let write = |action: &str| {
            let mut write = operation(action);
            write["parameters"] = json!(parameters);
            write
        };
        let path = format!("/{wanted}{scope}/{}", spec.plural);
        let one = json!({"get": operation("get"), "patch": write("patch")});
        paths.insert(format!("{path}/{{name}}"), one);
        let all = json!({"get": operation("list"), "post": write("post")});
        paths.insert(path, all);
    }
    if paths.is_empty() {
        return None;
    }
    schemas.insert(META.into(), metadata_schema());
    Some(json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": super::discovery::VERSION},
        "paths": paths,
        "components": {"schemas": schemas},
    }))
}

fn second(asked: &ApiRequest) -> Response<Body> {
    let accept = asked.header(http::header::ACCEPT);
    if accept.contains("proto-openapi") && !accept.contains("application/json") {
        // A document of version 2.0 with an empty info and no paths, in protocol buffers.
        const EMPTY: &[u8] = &[0x0a, 3, b'2', b'.', b'0', 0x12, 0, 0x42, 0];
        let kind = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
        return respond(200, kind, EMPTY);
    }
    let mut definitions = Map::new();
    for spec in SPECS {
        let reference = json!({"$ref": format!("#/definitions/{META}"), "description": "Names, labels and the rest."});
        definitions.insert(schema_name(spec), schema(spec, reference));
    }
    definitions.insert(META.into(), metadata_schema());
    let body = json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": super::discovery::VERSION},
        "paths": {},
        "definitions": definitions,
    });
    respond(200, "application/json", body.to_string())
}
