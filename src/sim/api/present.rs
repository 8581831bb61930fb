//! Representation of objects: in full, as tables, as metadata only; JSON or YAML.

use bytes::Bytes;
use http::Response;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::request::UrlQuery;
use super::status::ApiStatus;
use super::{Body, respond};
use crate::resource::Spec;
use crate::table::{cells, columns, conditions};
use model::base::{Moment, SmallSort};

/// The representation that the client requested.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AcceptAs {
    Object,
    Table,
    Partial,
    /// The metadata of each object of a list.
    PartialList,
}

/// What a table row includes of its object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Include {
    Nothing,
    Metadata,
    Object,
}

/// Negotiated form of an answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Manner {
    /// What is seen of an object.
    pub shape: AcceptAs,
    /// The version of `meta.k8s.io` for tables and metadata.
    version: &'static str,
    include: Include,
    yaml: bool,
    pretty: bool,
}

const ACCEPTED: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

impl Manner {
    /// Reads an Accept header: the first clause of the highest quality that can be made.
    ///
    /// # Errors
    /// 406 when there is none, 400 when `includeObject` is none of its values.
    pub fn negotiate(accept: &str, query: &UrlQuery, agent: &str) -> Result<Self, ApiStatus> {
        let include = match query.get("includeObject") {
            None | Some("Metadata") => Include::Metadata,
            Some("None") => Include::Nothing,
            Some("Object") => Include::Object,
            Some(other) => {
                return Err(ApiStatus::bad_request(format!(
                    "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: must be 'Metadata', 'Object', 'None', or empty"
                )));
            }
        };
        let human = ["curl", "Wget", "Mozilla/5.0"]
            .iter()
            .any(|a| agent.starts_with(a));
        let pretty = match query.get("pretty") {
            Some(value) => matches!(value, "true" | "1"),
            None => human,
        };
        let plain = Self {
            shape: AcceptAs::Object,
            version: "v1",
            include,
            yaml: false,
            pretty,
        };
        let mut clauses: Vec<(f64, Self)> = Vec::new();
        let mut protobuf = false;
        for clause in accept.split(',').filter(|c| !c.trim().is_empty()) {
            let mut parts = clause.split(';').map(str::trim);
            let kind = parts.next().unwrap_or("");
            let (mut quality, mut manner) = (1.0, plain.clone());
            let (mut shape, mut group, mut version) = ("", "", "");
            for part in parts {
                match part.split_once('=') {
                    Some(("q", q)) => quality = q.parse().unwrap_or(0.0),
                    Some(("as", value)) => shape = value,
                    Some(("g", value)) => group = value,
                    Some(("v", value)) => version = value,
                    Some(("pretty", "1")) => manner.pretty = true,
                    _ => {}
                }
            }
            match kind {
                "application/json" | "*/*" | "application/*" => {}
                "application/yaml" => manner.yaml = true,
                "application/vnd.kubernetes.protobuf" => {
                    // A request for only protobuf is answered in JSON, which every Kubernetes client reads too.
                    protobuf = true;
                    continue;
                }
                _ => continue,
            }
            if !shape.is_empty() {
                manner.version = match (group, version) {
                    ("meta.k8s.io", "v1") => "v1",
                    ("meta.k8s.io", "v1beta1") => "v1beta1",
                    _ => continue,
                };
                manner.shape = match shape {
                    "Table" => AcceptAs::Table,
                    "PartialObjectMetadata" => AcceptAs::Partial,
                    "PartialObjectMetadataList" => AcceptAs::PartialList,
                    _ => continue,
                };
            }
            clauses.push((quality, manner));
        }
        // A stable sort: the first of equals wins.
        clauses.small_sort_by(|a, b| b.0.total_cmp(&a.0));
        match clauses.into_iter().next() {
            Some((_, manner)) => Ok(manner),
            None if accept.trim().is_empty() || protobuf => Ok(plain),
            None => Err(ApiStatus::not_acceptable(ACCEPTED)),
        }
    }

    /// The content type of an answer.
    pub fn content_type(&self) -> &'static str {
        if self.yaml {
            "application/yaml"
        } else {
            "application/json"
        }
    }

    fn write(&self, value: &impl Serialize) -> Result<Bytes, ApiStatus> {
        let failed = |error: &dyn std::fmt::Display| {
            ApiStatus::internal(&format!("the answer cannot be written: {error}"))
        };
        let bytes = if self.yaml {
            let text = serde_saphyr::to_string(value).map_err(|e| failed(&e))?;
            text.into_bytes()
        } else if self.pretty {
            serde_json::to_vec_pretty(value).map_err(|e| failed(&e))?
        } else {
            serde_json::to_vec(value).map_err(|e| failed(&e))?
        };
        Ok(Bytes::from(bytes))
    }

    fn partial(&self, object: &Value) -> Value {
        json!({
            "kind": "PartialObjectMetadata",
            "apiVersion": format!("meta.k8s.io/{}", self.version),
            "metadata": object.get("metadata").cloned().unwrap_or_default(),
        })
    }

    fn row(&self, spec: &Spec, object: &Value, now: Moment) -> Value {
        let mut row = Map::new();
        row.insert("cells".into(), cells(spec.resource, object, now).into());
        if let Some(conditions) = conditions(spec.resource, object) {
            row.insert("conditions".into(), conditions);
        }
        let object = match self.include {
            Include::Nothing => Value::Null,
            Include::Metadata => self.partial(object),
            Include::Object => object.clone(),
        };
        row.insert("object".into(), object);
        Value::Object(row)
    }

    fn table<'a>(
        &self,
        spec: &Spec,
        objects: impl Iterator<Item = &'a Value>,
        metadata: Value,
        headers: bool,
        now: Moment,
    ) -> Value {
        let columns = match headers {
            true => columns(spec.resource)
                .iter()
                .map(|c| c.definition())
                .collect(),
            false => Value::Null,
        };
        json!({
            "kind": "Table",
            "apiVersion": format!("meta.k8s.io/{}", self.version),
            "metadata": metadata,
            "columnDefinitions": columns,
            "rows": objects.map(|object| self.row(spec, object, now)).collect::<Vec<_>>(),
        })
    }

    /// One object in its representation, alone or in a watch event. `headers` adds a table's columns.
    pub fn shown(&self, spec: &Spec, object: &Value, headers: bool, now: Moment) -> Value {
        match self.shape {
            AcceptAs::Object => object.clone(),
            AcceptAs::Partial | AcceptAs::PartialList => self.partial(object),
            AcceptAs::Table => {
                let version = object.pointer("/metadata/resourceVersion");
                let metadata = json!({"resourceVersion": version.cloned().unwrap_or_default()});
                self.table(spec, std::iter::once(object), metadata, headers, now)
            }
        }
    }

    /// An answer with one object.
    ///
    /// # Errors
    /// 500 when it cannot be written.
    pub fn object(&self, code: u16, spec: &Spec, object: &Value, now: Moment) -> super::ApiResult {
        let bytes = match self.shape {
            AcceptAs::Object => self.write(object)?,
            AcceptAs::PartialList => {
                return Err(ApiStatus::not_of_that_shape(format!(
                    "you requested PartialObjectMetadataList, but the requested object is not a list ({})",
                    go_type(spec, "")
                )));
            }
            _ => self.write(&self.shown(spec, object, true, now))?,
        };
        Ok(self.answer(code, bytes))
    }

    /// An answer with a document that has no other shape.
    ///
    /// # Errors
    /// 500 when it cannot be written.
    pub fn document(&self, code: u16, value: &Value) -> super::ApiResult {
        Ok(self.answer(code, self.write(value)?))
    }

    fn answer(&self, code: u16, bytes: Bytes) -> Response<Body> {
        respond(code, self.content_type(), bytes)
    }

    /// An answer with a list.
    ///
    /// # Errors
    /// 500 when it cannot be written.
    pub fn list<V: AsRef<Value>>(
        &self,
        spec: &Spec,
        items: &[V],
        metadata: Value,
        now: Moment,
    ) -> super::ApiResult {
        let objects = items.iter().map(AsRef::as_ref);
        let mut metadata = metadata;
        if spec.is_custom() && self.shape == AcceptAs::Object && metadata.get("continue").is_none()
        {
            // Lists of custom kinds have an empty `continue`.
            metadata["continue"] = "".into();
        }
        let bytes = match self.shape {
            AcceptAs::Table => self.write(&self.table(spec, objects, metadata, true, now))?,
            AcceptAs::Partial => {
                return Err(ApiStatus::not_of_that_shape(format!(
                    "you requested PartialObjectMetadata, but the requested object is a list ({})",
                    go_type(spec, "List")
                )));
            }
            AcceptAs::PartialList => self.write(&json!({
                "kind": "PartialObjectMetadataList",
                "apiVersion": format!("meta.k8s.io/{}", self.version),
                "metadata": metadata,
                "items": objects.map(|object| self.partial(object)).collect::<Vec<_>>(),
            }))?,
            AcceptAs::Object => self.write(&ListBody {
                kind: format!("{}List", spec.kind),
                api_version: spec.api_version(),
                metadata,
                // The real server omits kind and version in the items of its built-in types.
                items: objects
                    .map(|item| ListItem(item, !spec.is_custom()))
                    .collect(),
            })?,
        };
        Ok(self.answer(200, bytes))
    }
}

/// The type of the real server that holds an object or a list, as its messages show it.
fn go_type(spec: &Spec, list: &str) -> String {
    if spec.is_custom() {
        format!("*unstructured.Unstructured{list}")
    } else {
        format!("*{}.{}{list}", spec.package(), spec.kind)
    }
}

/// A list of objects, written without copying them.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ListBody<'a> {
    kind: String,
    api_version: String,
    metadata: Value,
    items: Vec<ListItem<'a>>,
}

/// An object of a list; with true, without its kind and version.
struct ListItem<'a>(&'a Value, bool);

impl Serialize for ListItem<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let (Some(fields), true) = (self.0.as_object(), self.1) else {
            return self.0.serialize(out);
        };
        out.collect_map(
            fields
                .iter()
                .filter(|(key, _)| *key != "kind" && *key != "apiVersion"),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manner(accept: &str) -> Result<Manner, ApiStatus> {
        Manner::negotiate(accept, &UrlQuery::default(), "kubectl")
    }

    #[test]
    fn the_first_shape_that_can_be_made_is_taken() {
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        let taken = manner(kubectl).expect("acceptable");
        assert_eq!((taken.shape, taken.version), (AcceptAs::Table, "v1"));
        let partial = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
        assert_eq!(
            manner(partial).expect("acceptable").shape,
            AcceptAs::PartialList
        );
        let fallback = "application/json;as=Table;v=v9;g=meta.k8s.io, application/json";
        assert_eq!(
            manner(fallback).expect("acceptable").shape,
            AcceptAs::Object
        );
        assert_eq!(manner("").expect("acceptable").shape, AcceptAs::Object);
        assert!(manner("application/vnd.kubernetes.protobuf").is_ok());
        assert!(
            manner("application/json;q=0.5, application/yaml")
                .expect("acceptable")
                .yaml
        );
        assert_eq!(manner("image/png").unwrap_err().code, 406);
    }
}
