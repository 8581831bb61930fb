//! What clients asked the simulated API server to change, and what it forbade them, as a real one's audit log tells it.

use std::collections::VecDeque;

use serde_json::{Value, json};

use model::base::Moment;

/// Requests that are kept, the latest.
const KEPT: usize = 20_000;

/// A request that was no reading, or a forbidden one, with its answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// When it was answered, on the cluster's clock.
    pub at: Moment,
    /// Who asked.
    pub user: String,
    /// Its method.
    pub method: String,
    /// Its path, with its query.
    pub path: String,
    /// The answer's code.
    pub code: u16,
}

impl Entry {
    /// False for what can change nothing: readings, dry runs, and reviews of what one may do.
    pub fn is_mutating(&self) -> bool {
        !self.is_reading() && !self.path.contains("dryRun=") && !self.path.contains("/selfsubject")
    }

    /// True for a reading, which stands here because it was forbidden.
    pub fn is_reading(&self) -> bool {
        matches!(self.method.as_str(), "GET" | "HEAD" | "OPTIONS")
    }

    /// True for a mutating request that was carried out.
    pub fn has_changed(&self) -> bool {
        self.is_mutating() && self.code < 300
    }
}

/// The log.
#[derive(Clone, Debug, Default)]
pub struct Audit(VecDeque<Entry>);

impl Audit {
    /// Writes a request down.
    pub fn note(&mut self, entry: Entry) {
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back(entry);
    }

    /// What was written down, oldest first.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.0.iter()
    }

    /// All of it as a document.
    pub fn document(&self) -> Value {
        let entries = self.0.iter().map(|entry| {
            json!({
                "at": entry.at.rfc3339(), "user": entry.user, "method": entry.method,
                "path": entry.path, "code": entry.code,
            })
        });
        json!({ "entries": entries.collect::<Vec<Value>>() })
    }
}
