//! The writes of `govern`: each reads its job, is composed on what was read, and tests that in the patch, so that whoever wrote in
//! between wins. Where a job stands is on the job: nothing is journalled.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::json;

use cluster::mutations::{GovernWrite, govern_call, is_governed_so};
use model::base::{Moment, Name};
use model::plan::{Object, RefusalCode};
use plan::grant::Grant;

use super::machine::Seen;
use super::response::Verdict;
use super::writer::{Writer, WritingClient};

/// What became of a write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum GovernOutcome {
    /// It was carried out.
    Written,
    /// The job is so already.
    Already,
    /// The job is not as the decision saw it, or has gone: the next decision sees what it is.
    Stale(String),
    /// The server is busy, and for how long it wants to be left alone where it says so.
    Busy(String, Option<Duration>),
    /// The server or an admission policy refuses it.
    Refused(String),
    /// No answer came: whether it was carried out is not known.
    Unknown(String),
}

/// Sends the writes of `govern`. It cannot be had without a [`Grant`].
pub struct GovernWriter {
    writer: Writer,
    /// The version in which the cluster serves each group that leaves it open.
    versions: Mutex<BTreeMap<Name, Name>>,
}

impl GovernWriter {
    /// A writer of this grant.
    pub fn new(grant: &Grant, client: WritingClient) -> Self {
        Self {
            writer: Writer::new(grant, client),
            versions: Mutex::default(),
        }
    }

    /// The server's clock.
    pub fn now(&self) -> Moment {
        self.writer.now()
    }

    /// The object with the version in which the cluster serves it; `None` while it does not say.
    async fn served(&self, object: &Object) -> Option<Object> {
        if !object.place.version.is_empty() {
            return Some(object.clone());
        }
        let group = &object.place.group;
        let known = || self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        let version = known().get(group).cloned();
        let version = match version {
            Some(version) => version,
            None => {
                let told = Name::from(self.writer.version_of(group).await?);
                known().insert(group.clone(), told.clone());
                told
            }
        };
        let mut served = object.clone();
        served.place.version = version;
        Some(served)
    }

    /// Carries out one write.
    pub async fn write(&self, write: &GovernWrite) -> GovernOutcome {
        let Some(object) = self.served(&write.object).await else {
            let group = &write.object.place.group;
            return GovernOutcome::Unknown(format!(
                "the server does not say how it serves {group}"
            ));
        };
        let write = GovernWrite {
            object,
            ..write.clone()
        };
        let now = match self.writer.read(&write.object).await {
            Seen::There(now) => now,
            Seen::Gone => return GovernOutcome::Stale(format!("{} has gone", write.object)),
            Seen::Not(answer) => {
                let words = answer.words();
                return match answer.code {
                    Some(429) => GovernOutcome::Busy(words, answer.retry_after),
                    Some(code) if code < 500 => GovernOutcome::Refused(words),
                    _ => GovernOutcome::Unknown(words),
                };
            }
        };
        let uid = now.pointer("/metadata/uid").and_then(|uid| uid.as_str());
        if write.object.uid.as_deref() != uid && write.object.uid.is_some() {
            let words = format!("{} was deleted and made again", write.object);
            return GovernOutcome::Stale(words);
        }
        if is_governed_so(&write, &now) {
            return GovernOutcome::Already;
        }
        let call = match govern_call(&write, &now) {
            Ok(call) => call,
            Err(refusal) if refusal.code == RefusalCode::IllegalState => {
                return GovernOutcome::Stale(refusal.sentence);
            }
            Err(refusal) => return GovernOutcome::Refused(refusal.sentence),
        };
        let answer = self.writer.send(&call).await;
        match answer.verdict(&call) {
            Verdict::Accepted => GovernOutcome::Written,
            Verdict::Busy(words, wait) | Verdict::Budget(words, wait) => {
                GovernOutcome::Busy(words, wait)
            }
            Verdict::Conflict(words) | Verdict::Gone(words) => GovernOutcome::Stale(words),
            // A test of the patch that fails is told so too.
            Verdict::Invalid(words) => GovernOutcome::Stale(words),
            Verdict::Refused(words) => GovernOutcome::Refused(words),
            Verdict::Unknown(words) => GovernOutcome::Unknown(words),
        }
    }

    /// Writes an Event on a job. It is news: whether it came through decides nothing.
    pub async fn tell(&self, object: &Object, reason: &str, message: &str, action: &str) {
        let now = self.now();
        let version = match (object.place.group.as_str(), object.place.version.as_str()) {
            ("", version) => version.to_owned(),
            (group, "") => group.to_owned(),
            (group, version) => format!("{group}/{version}"),
        };
        // The name of an object has 253 characters at most.
        let name: String = object.name.chars().take(200).collect();
        let message: String = message.chars().take(1000).collect();
        let stamp = now.rfc3339();
        let event = json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": format!("{name}.govern-{:x}-{action}", now.millis()),
                "namespace": object.namespace,
            },
            "involvedObject": {
                "kind": object.kind, "namespace": object.namespace, "name": object.name, "uid": object.uid,
                "apiVersion": version,
            },
            "reason": reason,
            "message": message,
            "type": "Normal",
            "count": 1,
            "firstTimestamp": stamp,
            "lastTimestamp": stamp,
            "source": {"component": "stokehold"},
            "reportingComponent": "stokehold.dev/govern",
            "reportingInstance": "stokehold",
            "action": action,
        });
        let _ = self.writer.tell(&object.namespace, &event).await;
    }
}
