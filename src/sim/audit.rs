//! The audit log of the simulated API server: writes of clients and forbidden requests.

use std::collections::{BTreeMap, VecDeque};

use serde_json::{Value, json};

use model::base::Moment;

/// Most entries that are kept; the oldest are dropped.
const KEPT: usize = 20_000;

/// A write, or a forbidden request, with its answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AuditEntry {
    /// When it was answered, on the cluster's clock.
    pub at: Moment,
    /// The user of the request.
    pub user: String,
    pub method: String,
    /// Its path, with its query.
    pub path: String,
    pub code: u16,
}

impl AuditEntry {
    /// False for requests that change nothing: reads, dry runs, and access reviews.
    pub fn is_mutating(&self) -> bool {
        !self.is_reading() && !self.path.contains("dryRun=") && !self.path.contains("/selfsubject")
    }

    /// True for a read, which is logged because it was forbidden.
    pub fn is_reading(&self) -> bool {
        matches!(self.method.as_str(), "GET" | "HEAD" | "OPTIONS")
    }

    /// True for a mutating request that was carried out.
    pub fn has_changed(&self) -> bool {
        self.is_mutating() && self.code < 300
    }
}

/// The kind of a request, without names: `GET pods/proxy`, `WATCH nodes`, `GET /version`.
fn sort(method: &str, path: &str, watches: bool) -> String {
    let method = if watches { "WATCH" } else { method };
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let rest = match parts.as_slice() {
        ["api", _, rest @ ..] | ["apis", _, _, rest @ ..] => rest,
        _ => &[],
    };
    let rest = match rest {
        ["namespaces", _, own @ ..] if !own.is_empty() => own,
        rest => rest,
    };
    match rest {
        [resource, _, sub, ..] => format!("{method} {resource}/{sub}"),
        [resource, ..] => format!("{method} {resource}"),
        [] => format!("{method} {path}"),
    }
}

#[derive(Clone, Debug, Default)]
pub struct Audit {
    entries: VecDeque<AuditEntry>,
    asked: BTreeMap<String, u64>,
}

impl Audit {
    pub fn note(&mut self, entry: AuditEntry) {
        if self.entries.len() == KEPT {
            self.entries.pop_front();
        }
        self.entries.push_back(entry);
    }

    /// Counts a request of any kind.
    pub fn count(&mut self, method: &str, path: &str, watches: bool) {
        *self.asked.entry(sort(method, path, watches)).or_default() += 1;
    }

    /// How many requests of a sort there were: `GET pods/proxy`, `WATCH nodes`, `GET /version`.
    pub fn request_count(&self, sort: &str) -> u64 {
        self.asked.get(sort).copied().unwrap_or(0)
    }

    /// The entries, oldest first.
    pub fn entries(&self) -> impl Iterator<Item = &AuditEntry> {
        self.entries.iter()
    }

    /// The whole log as a JSON document.
    pub fn document(&self) -> Value {
        let entries = self.entries.iter().map(|entry| json!({
            "at": entry.at.rfc3339(), "user": entry.user, "method": entry.method, "path": entry.path, "code": entry.code,
        }));
        json!({ "entries": entries.collect::<Vec<Value>>(), "asked": self.asked })
    }
}

#[cfg(test)]
mod tests {
    use super::sort;

    #[test]
    fn requests_are_sorted_without_the_names_in_them() {
        for (path, watches, sorted) in [
            ("/version", false, "GET /version"),
            ("/apis", false, "GET /apis"),
            ("/api/v1/nodes", true, "WATCH nodes"),
            ("/api/v1/nodes/n1", false, "GET nodes"),
            ("/api/v1/namespaces/ml/pods", false, "GET pods"),
            ("/api/v1/namespaces/ml/pods/p", false, "GET pods"),
            (
                "/api/v1/namespaces/ml/pods/p:9400/proxy/metrics",
                false,
                "GET pods/proxy",
            ),
            (
                "/apis/visibility.kueue.x-k8s.io/v1beta1/clusterqueues/a/pendingworkloads",
                false,
                "GET clusterqueues/pendingworkloads",
            ),
            ("/api/v1/namespaces/ml", false, "GET namespaces"),
            ("/apis/batch/v1/jobs", false, "GET jobs"),
        ] {
            assert_eq!(sort("GET", path, watches), sorted, "{path}");
        }
    }
}
