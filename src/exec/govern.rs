//! Writes of `govern`: reads the job, builds the patch from what was read, and tests those values in the patch, so that a
//! concurrent write by another client takes precedence. The state of `govern` is stored on the job, not in the journal.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;

use cluster::mutations::{Call, GovernWrite, govern_call, is_governed_so};
use model::base::{Moment, Name};
use model::plan::{Object, RefusalCode};
use plan::grant::Grant;

use super::lease::Term;
use super::machine::ObjectRead;
use super::response::{ResponseKind, ServerResponse};
use super::writer::{Writer, WritingClient};

/// Result of a write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum GovernOutcome {
    /// The write was carried out.
    Written,
    /// The job already has this state.
    Already,
    /// The job has changed since the decision, or was deleted. The next decision reads it again.
    Stale(String),
    /// This process is no longer the leader, or its term ends too soon: nothing was sent.
    Ceased,
    /// The server is busy; with the Retry-After that it sent, if any.
    Busy(String, Option<Duration>),
    /// The server or an admission policy refused the write, or the server did not store the field.
    Refused(String),
    /// No answer arrived: the write may or may not have been carried out.
    Unknown(String),
}

/// Sends the writes of `govern`. Construction requires a [`Grant`].
pub struct GovernWriter {
    writer: Writer,
    /// The version that the cluster serves for each group and plural whose version is not given.
    versions: Mutex<BTreeMap<(Name, Name), Name>>,
}

/// Timeout of one request: shorter than the time between the end of our leadership and the start of another process's.
const ANSWERS: Duration = Duration::from_secs(4);

impl GovernWriter {
    /// Creates a writer for this grant.
    pub fn new(grant: &Grant, client: WritingClient) -> Self {
        Self {
            writer: Writer::new(grant, client),
            versions: Mutex::default(),
        }
    }

    /// Current time on the server's clock.
    pub fn now(&self) -> Moment {
        self.writer.now()
    }

    /// The object with the version that the cluster serves; `None` if the cluster returned no version.
    async fn served(&self, object: &Object) -> Option<Object> {
        if !object.place.version.is_empty() {
            return Some(object.clone());
        }
        let kind = kind_of(object);
        let known = || self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        let version = known().get(&kind).cloned();
        let version = match version {
            Some(version) => version,
            None => {
                let served_version = Name::from(self.writer.version_of(&kind.0, &kind.1).await?);
                known().insert(kind, served_version.clone());
                served_version
            }
        };
        let mut served = object.clone();
        served.place.version = version;
        Some(served)
    }

    /// Drops the cached version of a kind that was not found, so that the version is discovered again.
    fn forget_version(&self, object: &Object) {
        let mut versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        versions.remove(&kind_of(object));
    }

    /// Reads the current job.
    async fn read(&self, object: &Object) -> Result<Box<Value>, GovernOutcome> {
        let late = |_| ObjectRead::Not(ServerResponse::none("no answer in time"));
        let seen = timeout(ANSWERS, self.writer.read(object)).await;
        match seen.unwrap_or_else(late) {
            ObjectRead::There(now) => Ok(now),
            ObjectRead::Gone => {
                self.forget_version(object);
                Err(GovernOutcome::Stale(format!("{object} no longer exists")))
            }
            ObjectRead::Not(answer) => {
                let words = answer.words();
                Err(match answer.code {
                    Some(429) => GovernOutcome::Busy(words, answer.retry_after),
                    Some(code) if code < 500 => GovernOutcome::Refused(words),
                    _ => GovernOutcome::Unknown(words),
                })
            }
        }
    }

    /// Carries out one write while the term in which it was decided lasts.
    pub async fn write(&self, write: &GovernWrite, term: &Term) -> GovernOutcome {
        self.sent(write, term, false).await
    }

    /// Dry run of a write: returns the outcome that the write would have. A write that the server cannot dry-run counts as written.
    pub async fn probe(&self, write: &GovernWrite, term: &Term) -> GovernOutcome {
        match self.sent(write, term, true).await {
            // The API server refuses a dry run when a webhook with side effects would be called.
            GovernOutcome::Refused(why) if why.contains("dry run") => GovernOutcome::Written,
            outcome => outcome,
        }
    }

    async fn sent(&self, write: &GovernWrite, term: &Term, dry_run: bool) -> GovernOutcome {
        let Some(object) = self.served(&write.object).await else {
            let group = &write.object.place.group;
            return GovernOutcome::Unknown(format!(
                "the server does not report how it serves {group}"
            ));
        };
        let write = GovernWrite {
            object,
            ..write.clone()
        };
        let now = match self.read(&write.object).await {
            Ok(now) => now,
            Err(outcome) => return outcome,
        };
        let call = match composed(&write, &now) {
            Ok(call) => call,
            Err(outcome) => return outcome,
        };
        // The read may have taken long: another process may lead by now, so the write must end within our term.
        let span = term.left(ANSWERS);
        if span.is_zero() {
            return GovernOutcome::Ceased;
        }
        let answer = self.writer.send_within(&call, span, dry_run).await;
        match answer.verdict(&call) {
            ResponseKind::Accepted if is_kept(&write, &answer.body) => GovernOutcome::Written,
            ResponseKind::Accepted => GovernOutcome::Refused(format!(
                "the server drops the fields written to {}: is its operator too old?",
                write.object
            )),
            ResponseKind::Busy(words, wait) | ResponseKind::Budget(words, wait) => {
                GovernOutcome::Busy(words, wait)
            }
            ResponseKind::Conflict(words) | ResponseKind::Gone(words) => {
                GovernOutcome::Stale(words)
            }
            // A failed patch test and a policy denial return the same code: the current job tells them apart.
            ResponseKind::Invalid(words) => match self.read(&write.object).await {
                Ok(now) if composed(&write, &now).is_ok() => GovernOutcome::Refused(words),
                _ => GovernOutcome::Stale(words),
            },
            ResponseKind::Refused(words) => GovernOutcome::Refused(words),
            ResponseKind::Unknown(words) => GovernOutcome::Unknown(words),
        }
    }

    /// Writes an Event on an object, of type `Normal` or `Warning`. Its failure is ignored.
    pub async fn create_event(
        &self,
        object: &Object,
        kind: &str,
        (reason, action): (&str, &str),
        message: &str,
    ) {
        let now = self.now();
        let version = match (object.place.group.as_str(), object.place.version.as_str()) {
            ("", version) => version.to_owned(),
            (group, "") => group.to_owned(),
            (group, version) => format!("{group}/{version}"),
        };
        // Object names are limited to 253 characters.
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
            "type": kind,
            "count": 1,
            "firstTimestamp": stamp,
            "lastTimestamp": stamp,
            "source": {"component": "stokehold"},
            "reportingComponent": "stokehold.dev/govern",
            "reportingInstance": "stokehold",
            "action": action,
        });
        let _ = self.writer.create_event(&object.namespace, &event).await;
    }
}

/// Group and plural of an object's kind.
fn kind_of(object: &Object) -> (Name, Name) {
    (object.place.group.clone(), object.place.plural.clone())
}

/// Builds the call of a write from the job that was just read, or returns why none is sent.
fn composed(write: &GovernWrite, now: &Value) -> Result<Call, GovernOutcome> {
    let uid = now.pointer("/metadata/uid").and_then(|uid| uid.as_str());
    if write.object.uid.as_deref() != uid && write.object.uid.is_some() {
        let words = format!("{} was deleted and recreated", write.object);
        return Err(GovernOutcome::Stale(words));
    }
    if is_governed_so(write, now) {
        return Err(GovernOutcome::Already);
    }
    govern_call(write, now).map_err(|refusal| match refusal.code {
        RefusalCode::IllegalState => GovernOutcome::Stale(refusal.sentence),
        _ => GovernOutcome::Refused(refusal.sentence),
    })
}

/// Whether the returned object has the written value. A kind whose schema lacks the field drops it.
fn is_kept(write: &GovernWrite, answer: &Value) -> bool {
    answer.pointer("/metadata/name").is_none() || is_governed_so(write, answer)
}
