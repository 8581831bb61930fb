//! One request to the API server, as data.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use model::plan::Object;

/// The field manager that the server records for our fields.
pub const AGENT: &str = "stokehold";

/// How a call writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    Create,
    /// PATCH with a JSON Patch.
    Patch,
}

impl Method {
    pub const fn verb(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Patch => "patch",
        }
    }

    /// The method of HTTP.
    pub const fn http(self) -> &'static str {
        match self {
            Self::Create => "POST",
            Self::Patch => "PATCH",
        }
    }

    /// The content type of its body.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Create => "application/json",
            Self::Patch => "application/json-patch+json",
        }
    }
}

/// The subresource that a call addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Subresource {
    /// The object itself, or its collection.
    None,
    Eviction,
}

/// One request to the API server.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    pub method: Method,
    /// The object that the call addresses; for a create, the new object.
    pub object: Object,
    pub subresource: Subresource,
    pub body: Value,
}

/// True for a segment that needs no escaping in a path.
fn is_plain(segment: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b':' | b'_');
    !segment.is_empty() && segment.bytes().all(plain) && !matches!(segment, "." | "..")
}

/// The path of a kind, of its collection in `namespace`, or of one object. `None` when a segment could change the meaning
/// of the path, or when the version is unknown.
pub fn path(object: &Object, collection: bool) -> Option<String> {
    let place = &object.place;
    if !is_plain(&place.version) || !is_plain(&place.plural) {
        return None;
    }
    let mut path = if place.group.is_empty() {
        format!("/api/{}", place.version)
    } else if is_plain(&place.group) {
        format!("/apis/{}/{}", place.group, place.version)
    } else {
        return None;
    };
    if !object.namespace.is_empty() {
        if !is_plain(&object.namespace) {
            return None;
        }
        path = format!("{path}/namespaces/{}", object.namespace);
    }
    path = format!("{path}/{}", place.plural);
    if !collection {
        if !is_plain(&object.name) {
            return None;
        }
        path = format!("{path}/{}", object.name);
    }
    Some(path)
}

impl Call {
    /// The path with its query. `None` when a name is not valid in a path. With `dry_run` the server does everything but persist.
    pub fn path(&self, dry_run: bool) -> Option<String> {
        let creates = self.method == Method::Create && self.subresource == Subresource::None;
        let mut path = path(&self.object, creates)?;
        let mut query = Vec::new();
        match self.subresource {
            Subresource::None => query.push(format!("fieldManager={AGENT}")),
            Subresource::Eviction => path.push_str("/eviction"),
        }
        if dry_run {
            query.push("dryRun=All".to_owned());
        }
        if query.is_empty() {
            return Some(path);
        }
        Some(format!("{path}?{}", query.join("&")))
    }
}
