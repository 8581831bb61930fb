//! Get and list, with selectors, pages and revisions.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::request::{ResourcePath, UrlQuery};
use super::status::ApiStatus;
use super::{ApiRequest, ApiResult};
use crate::cluster::SimCluster;
use crate::json::{fault, name};
use crate::resource::{Spec, field};
use crate::selector::{FieldSelector, LabelSelector};
use crate::store::ListOptions;

/// The selectors of a list or watch.
#[derive(Clone, Debug, Default)]
pub struct ListFilter {
    labels: LabelSelector,
    fields: FieldSelector,
    name: String,
}

impl ListFilter {
    /// Reads `labelSelector` and `fieldSelector`.
    ///
    /// # Errors
    /// 400 on a selector that does not parse or a field that the resource cannot be selected by.
    pub fn read(query: &UrlQuery, target: &ResourcePath, spec: &Spec) -> Result<Self, ApiStatus> {
        let labels = LabelSelector::parse(query.get("labelSelector").unwrap_or(""))
            .map_err(ApiStatus::bad_request)?;
        let fields = FieldSelector::parse(query.get("fieldSelector").unwrap_or(""))
            .map_err(ApiStatus::bad_request)?;
        for (name, _, _) in fields.terms() {
            field(spec, &Value::Null, name).map_err(ApiStatus::bad_request)?;
        }
        Ok(Self {
            labels,
            fields,
            name: target.name.clone(),
        })
    }

    /// True when every object matches.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty() && self.name.is_empty()
    }

    /// True when this object matches.
    pub fn keeps(&self, spec: &Spec, object: &Value) -> bool {
        (self.name.is_empty() || self.name == name(object))
            && self.labels.matches(object)
            && self.fields.terms().iter().all(|(name, equal, value)| {
                field(spec, object, name).is_ok_and(|found| (found == *value) == *equal)
            })
    }
}

/// The revision that a query names: `None` for the newest.
///
/// # Errors
/// A message when it is not a revision.
pub fn revision(query: &UrlQuery) -> Result<Option<u64>, String> {
    match query.get("resourceVersion") {
        None => Ok(None),
        Some(text) => text.parse().map(Some).map_err(|_| {
            format!(
                "resourceVersion: Invalid value: \"{text}\": strconv.ParseUint: parsing \"{text}\": invalid syntax"
            )
        }),
    }
}

/// `GET` of one object.
///
/// # Errors
/// 404 when there is none, 406 when the requested form does not exist.
pub fn get(
    cluster: &Arc<SimCluster>,
    asked: &ApiRequest,
    target: &ResourcePath,
    spec: &Spec,
) -> ApiResult {
    let manner = asked.manner()?;
    let object = target.object(&cluster.core(), spec)?;
    manner.object(200, spec, &object, cluster.now())
}

/// A continue token: the revision of the list (-1: whatever is newest) and the last key that was given.
struct Cursor {
    revision: i64,
    after: String,
}

impl Cursor {
    fn write(&self) -> String {
        let body = json!({"v": "meta.k8s.io/v1", "rv": self.revision, "start": format!("{}\u{0}", self.after)});
        URL_SAFE_NO_PAD.encode(body.to_string())
    }

    fn read(text: &str) -> Result<Self, ApiStatus> {
        let bad = |why: &str| {
            ApiStatus::bad_request(format!(
                "invalid continue token: continue key is not valid: {why}"
            ))
        };
        let bytes = URL_SAFE_NO_PAD
            .decode(text.trim_end_matches('='))
            .map_err(|e| bad(&e.to_string()))?;
        let body: Value =
            serde_json::from_slice(&bytes).map_err(|error| bad(&fault(&bytes, &error)))?;
        if body.get("v").and_then(Value::as_str) != Some("meta.k8s.io/v1") {
            return Err(bad("server does not recognize this encoded version"));
        }
        let revision = body
            .get("rv")
            .and_then(Value::as_i64)
            .filter(|rv| *rv == -1 || *rv > 0);
        let start = body
            .get("start")
            .and_then(Value::as_str)
            .filter(|s| !s.is_empty());
        match (revision, start) {
            (Some(revision), Some(start)) => Ok(Self {
                revision,
                after: start.trim_end_matches('\u{0}').to_owned(),
            }),
            (None, _) => Err(bad("incorrect encoded start resourceVersion")),
            (_, None) => Err(bad("encoded start key empty or invalid")),
        }
    }
}

/// `GET` of a list.
///
/// # Errors
/// 400 on malformed parameters, 410 when the revision is no longer kept, 504 when it does not exist yet.
pub fn list(
    cluster: &Arc<SimCluster>,
    asked: &ApiRequest,
    target: &ResourcePath,
    spec: &Spec,
) -> ApiResult {
    let manner = asked.manner()?;
    let query = &asked.query;
    let filter = ListFilter::read(query, target, spec)?;
    let limit = match query.get("limit") {
        None => None,
        Some(text) => {
            let limit: i64 = text.parse().map_err(|_| {
                ApiStatus::bad_request(format!(
                    "strconv.ParseInt: parsing \"{text}\": invalid syntax"
                ))
            })?;
            usize::try_from(limit).ok().filter(|limit| *limit > 0)
        }
    };
    if query.get("sendInitialEvents").is_some() {
        let why = "Forbidden: sendInitialEvents is forbidden for list";
        return Err(ApiStatus::list_options("sendInitialEvents", why));
    }
    let asked_revision = revision(query)
        .map_err(|why| ApiStatus::bad_request(format!("invalid resource version: {why}")))?;
    let matching = query.get("resourceVersionMatch");
    let cursor = query.get("continue").map(Cursor::read).transpose()?;
    check_options(asked_revision, matching, cursor.is_some())?;
    let core = cluster.core();
    let newest = core.store.revision();
    let at = match (&cursor, asked_revision) {
        (Some(cursor), _) => u64::try_from(cursor.revision).ok(),
        (None, Some(revision)) if revision > newest => {
            return Err(ApiStatus::too_large_version(revision, newest));
        }
        // A page at a revision without a rule for it is of exactly that revision, as on the real server.
        (None, Some(revision))
            if revision > 0
                && (matching == Some("Exact") || (matching.is_none() && limit.is_some())) =>
        {
            Some(revision)
        }
        _ => None,
    };
    let what = ListOptions {
        namespace: Some(target.namespace.as_str()).filter(|n| !n.is_empty()),
        at,
        after: cursor.as_ref().map(|c| c.after.as_str()),
        // "Any version will do" is answered from the real server's memory, whole.
        limit: limit.filter(|_| asked_revision != Some(0)),
    };
    let page = core
        .store
        .list(spec.resource, &what, &|object| filter.keeps(spec, object));
    let now = core.world.now();
    drop(core);
    let page = page.map_err(|_| match &cursor {
        Some(cursor) => ApiStatus::continue_expired(
            Cursor {
                revision: -1,
                after: cursor.after.clone(),
            }
            .write(),
        ),
        None => ApiStatus::list_expired(),
    })?;
    let mut metadata = json!({"resourceVersion": page.revision.to_string()});
    if let Some(after) = page.next {
        let revision = i64::try_from(page.revision).unwrap_or(i64::MAX);
        metadata["continue"] = Cursor { revision, after }.write().into();
        if filter.is_empty() {
            metadata["remainingItemCount"] = page.remaining.into();
        }
    }
    manner.list(spec, &page.items, metadata, now)
}

fn check_options(
    revision: Option<u64>,
    matching: Option<&str>,
    continued: bool,
) -> Result<(), ApiStatus> {
    let Some(matching) = matching else {
        if continued && revision.is_some_and(|r| r > 0) {
            return Err(ApiStatus::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        return Ok(());
    };
    let forbidden = |when: &str| format!("Forbidden: resourceVersionMatch {when}");
    let what = match matching {
        _ if continued => forbidden("is forbidden when continue is provided"),
        _ if revision.is_none() => forbidden("is forbidden unless resourceVersion is provided"),
        "Exact" if revision == Some(0) => {
            forbidden("\"exact\" is forbidden for resourceVersion \"0\"")
        }
        "Exact" | "NotOlderThan" => return Ok(()),
        other => format!(
            "Unsupported value: \"{other}\": supported values: \"Exact\", \"NotOlderThan\", \"\""
        ),
    };
    Err(ApiStatus::list_options("resourceVersionMatch", &what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_read_back_and_hostile_ones_are_refused() {
        let cursor = Cursor {
            revision: 7,
            after: "a/b".into(),
        };
        let read = Cursor::read(&cursor.write()).expect("our own");
        assert_eq!((read.revision, read.after.as_str()), (7, "a/b"));
        for bad in ["", "!!", "eyJ2IjoiMSJ9", "bnVsbA"] {
            assert_eq!(Cursor::read(bad).err().map(|r| r.code), Some(400), "{bad}");
        }
    }
}
