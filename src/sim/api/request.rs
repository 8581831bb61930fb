//! A request: its path split into parts, its query decoded.

use std::sync::Arc;

use serde_json::Value;

use super::status::ApiStatus;
use crate::cluster::Core;
use crate::resource::{Spec, find};
use crate::users::AccessRequest;

/// Decodes `%XX`, and `+` as a blank where `plus` is set. Bytes that are not UTF-8 become replacement characters.
pub fn decoded(text: &str, plus: bool) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = |offset: usize| {
            let digit = bytes.get(at + offset).copied().map(char::from)?;
            digit.to_digit(16)
        };
        match (bytes[at], hex(1), hex(2)) {
            (b'%', Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                at += 3;
            }
            (b'+', ..) if plus => {
                out.push(b' ');
                at += 1;
            }
            (byte, ..) => {
                out.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// A decoded query. The first of equal keys counts, except in [`UrlQuery::all`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct UrlQuery(Vec<(String, String)>);

impl UrlQuery {
    pub fn parse(raw: &str) -> Self {
        let pairs = raw
            .split('&')
            .filter(|pair| !pair.is_empty())
            .map(|pair| {
                let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                (decoded(key, true), decoded(value, true))
            })
            .collect();
        Self(pairs)
    }

    /// The value of a key; `None` when absent or empty.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(k, _)| k == key)
            .map(|(_, v)| v.as_str())
            .filter(|v| !v.is_empty())
    }

    pub fn all(&self, key: &str) -> impl Iterator<Item = &str> {
        self.0
            .iter()
            .filter(move |(k, _)| k == key)
            .map(|(_, v)| v.as_str())
    }

    /// True when the key is set: `true`, `1`, or the key alone.
    pub fn flag(&self, key: &str) -> bool {
        self.0
            .iter()
            .find(|(k, _)| k == key)
            .is_some_and(|(_, v)| !matches!(v.as_str(), "false" | "0" | "f" | "False" | "FALSE"))
    }

    /// Every pair, in order.
    pub fn pairs(&self) -> &[(String, String)] {
        &self.0
    }
}

/// A resource path split into parts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ResourcePath {
    /// API group; empty for the core group.
    pub group: String,
    pub version: String,
    /// Plural name; empty when the path ends at the group version.
    pub plural: String,
    /// Namespace; empty for the cluster scope.
    pub namespace: String,
    /// Name; empty for all.
    pub name: String,
    /// Subresource; empty for the main resource.
    pub subresource: String,
    /// What follows the subresource, with its leading slash (for proxies).
    pub rest: String,
    /// True for the old `/watch/` paths.
    pub watch: bool,
}

impl ResourcePath {
    /// The object at the path, or 404.
    pub(super) fn object(&self, core: &Core, spec: &Spec) -> Result<Arc<Value>, ApiStatus> {
        let found = core.store.get(spec.resource, &self.namespace, &self.name);
        found.ok_or_else(|| ApiStatus::not_found(spec, &self.name))
    }

    /// Takes apart `/api/v1/...` and `/apis/GROUP/VERSION/...`; `None` for every other path, and for those that
    /// end at a group or a group version.
    pub fn parse(path: &str) -> Option<Self> {
        let mut target = Self::default();
        let rest = if let Some(rest) = path.strip_prefix("/api/") {
            let (version, rest) = rest.split_once('/')?;
            target.version = version.to_owned();
            rest
        } else {
            let rest = path.strip_prefix("/apis/")?;
            let (group, rest) = rest.split_once('/')?;
            let (version, rest) = rest.split_once('/')?;
            target.group = group.to_owned();
            target.version = version.to_owned();
            rest
        };
        let mut rest = rest;
        if let Some(watched) = rest.strip_prefix("watch/") {
            target.watch = true;
            rest = watched;
        }
        let mut parts: Vec<&str> = rest.split('/').collect();
        if parts[0] == "namespaces"
            && parts.len() >= 3
            && !parts[2].is_empty()
            && !(target.group.is_empty()
                && parts.len() == 3
                && matches!(parts[2], "status" | "finalize"))
        {
            target.namespace = decoded(parts[1], false);
            parts.drain(..2);
        }
        let part = |at: usize| parts.get(at).map_or(String::new(), |p| decoded(p, false));
        target.plural = part(0);
        target.name = part(1);
        target.subresource = part(2);
        if parts.len() > 3 {
            target.rest = format!("/{}", parts[3..].join("/"));
        }
        (!target.plural.is_empty()).then_some(target)
    }

    /// The table entry of the resource, when it is served.
    pub fn spec(&self) -> Option<&'static Spec> {
        find(&self.group, &self.version, &self.plural)
    }

    /// The question to the authorizer.
    pub fn ask<'a>(&'a self, verb: &'a str) -> AccessRequest<'a> {
        AccessRequest::Resource {
            verb,
            group: &self.group,
            plural: &self.plural,
            subresource: &self.subresource,
            namespace: &self.namespace,
            name: &self.name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_come_apart() {
        let show = |path: &str| {
            ResourcePath::parse(path).map(|t| {
                format!(
                    "{}|{}|{}|{}|{}|{}|{}",
                    t.group, t.version, t.namespace, t.plural, t.name, t.subresource, t.rest
                )
            })
        };
        for (path, parts) in [
            ("/api/v1/nodes", "|v1||nodes|||"),
            ("/api/v1/namespaces/a", "|v1||namespaces|a||"),
            ("/api/v1/namespaces/a/status", "|v1||namespaces|a|status|"),
            ("/api/v1/namespaces/a/pods", "|v1|a|pods|||"),
            ("/api/v1/namespaces/a/pods/b/log", "|v1|a|pods|b|log|"),
            (
                "/api/v1/namespaces/a/pods/https%3Ab:9400/proxy/metrics/x",
                "|v1|a|pods|https:b:9400|proxy|/metrics/x",
            ),
            ("/api/v1/namespaces/a/pods/b/proxy/", "|v1|a|pods|b|proxy|/"),
            ("/apis/apps/v1/deployments", "apps|v1||deployments|||"),
            (
                "/apis/apps/v1/namespaces/a/deployments/b/scale",
                "apps|v1|a|deployments|b|scale|",
            ),
        ] {
            assert_eq!(show(path).as_deref(), Some(parts), "{path}");
        }
        for path in [
            "/",
            "/api",
            "/api/v1",
            "/apis/apps",
            "/apis/apps/v1",
            "/healthz",
            "/api/v1/",
        ] {
            assert_eq!(show(path), None, "{path}");
        }
    }

    #[test]
    fn queries_decode() {
        let query = UrlQuery::parse("labelSelector=a%3Db%2Cc&watch=1&x=a+b&%zz=%");
        assert_eq!(query.get("labelSelector"), Some("a=b,c"));
        assert!(query.flag("watch") && !query.flag("follow"));
        assert_eq!(query.get("x"), Some("a b"));
        assert_eq!(query.get("%zz"), Some("%"));
    }
}
