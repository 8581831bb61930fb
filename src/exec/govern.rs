//! The writes of `govern`: each reads its job, is composed on what was read, and tests that in the patch, so that whoever wrote in
//! between wins. Where a job stands is on the job: nothing is journalled.

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
use super::machine::Seen;
use super::response::{ServerResponse, Verdict};
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
    /// We do not lead any more, or not long enough: nothing was sent.
    Ceased,
    /// The server is busy, and for how long it wants to be left alone where it says so.
    Busy(String, Option<Duration>),
    /// The server or an admission policy refuses it, or the server does not keep it.
    Refused(String),
    /// No answer came: whether it was carried out is not known.
    Unknown(String),
}

/// Sends the writes of `govern`. It cannot be had without a [`Grant`].
pub struct GovernWriter {
    writer: Writer,
    /// The version in which the cluster serves each group and plural that leave it open.
    versions: Mutex<BTreeMap<(Name, Name), Name>>,
}

/// How long one request may take: less than the time from the end of our leadership to the beginning of another's.
const ANSWERS: Duration = Duration::from_secs(4);

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
        let kind = kind_of(object);
        let known = || self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        let version = known().get(&kind).cloned();
        let version = match version {
            Some(version) => version,
            None => {
                let told = Name::from(self.writer.version_of(&kind.0, &kind.1).await?);
                known().insert(kind, told.clone());
                told
            }
        };
        let mut served = object.clone();
        served.place.version = version;
        Some(served)
    }

    /// A kind that is not found where it was served is looked for anew.
    fn forget_version(&self, object: &Object) {
        let mut versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        versions.remove(&kind_of(object));
    }

    /// The job as it is now.
    async fn read(&self, object: &Object) -> Result<Box<Value>, GovernOutcome> {
        let late = |_| Seen::Not(ServerResponse::none("no answer in time"));
        let seen = timeout(ANSWERS, self.writer.read(object)).await;
        match seen.unwrap_or_else(late) {
            Seen::There(now) => Ok(now),
            Seen::Gone => {
                self.forget_version(object);
                Err(GovernOutcome::Stale(format!("{object} has gone")))
            }
            Seen::Not(answer) => {
                let words = answer.words();
                Err(match answer.code {
                    Some(429) => GovernOutcome::Busy(words, answer.retry_after),
                    Some(code) if code < 500 => GovernOutcome::Refused(words),
                    _ => GovernOutcome::Unknown(words),
                })
            }
        }
    }

    /// Carries out one write, while the term lasts in which it was decided.
    pub async fn write(&self, write: &GovernWrite, term: &Term) -> GovernOutcome {
        self.sent(write, term, false).await
    }

    /// What would become of a write: nothing is changed. What can only be tried for good counts as written.
    pub async fn probe(&self, write: &GovernWrite, term: &Term) -> GovernOutcome {
        match self.sent(write, term, true).await {
            // A webhook with side effects is not asked in a dry run, and the server refuses in its place.
            GovernOutcome::Refused(why) if why.contains("dry run") => GovernOutcome::Written,
            outcome => outcome,
        }
    }

    async fn sent(&self, write: &GovernWrite, term: &Term, dry_run: bool) -> GovernOutcome {
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
        let now = match self.read(&write.object).await {
            Ok(now) => now,
            Err(outcome) => return outcome,
        };
        let call = match composed(&write, &now) {
            Ok(call) => call,
            Err(outcome) => return outcome,
        };
        // The answer may have taken its time: another may lead by now, and must not while this one is on its way.
        let span = term.left(ANSWERS);
        if span.is_zero() {
            return GovernOutcome::Ceased;
        }
        let answer = self.writer.send_within(&call, span, dry_run).await;
        match answer.verdict(&call) {
            Verdict::Accepted if is_kept(&write, &answer.body) => GovernOutcome::Written,
            Verdict::Accepted => GovernOutcome::Refused(format!(
                "the server does not keep what is written on {}: is its operator too old?",
                write.object
            )),
            Verdict::Busy(words, wait) | Verdict::Budget(words, wait) => {
                GovernOutcome::Busy(words, wait)
            }
            Verdict::Conflict(words) | Verdict::Gone(words) => GovernOutcome::Stale(words),
            // A patch whose test failed is answered so, and what a policy denies: the job as it is now tells them apart.
            Verdict::Invalid(words) => match self.read(&write.object).await {
                Ok(now) if composed(&write, &now).is_ok() => GovernOutcome::Refused(words),
                _ => GovernOutcome::Stale(words),
            },
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

/// Group and plural of an object's kind.
fn kind_of(object: &Object) -> (Name, Name) {
    (object.place.group.clone(), object.place.plural.clone())
}

/// The call of a write on its job as it was just read, or why none is sent.
fn composed(write: &GovernWrite, now: &Value) -> Result<Call, GovernOutcome> {
    let uid = now.pointer("/metadata/uid").and_then(|uid| uid.as_str());
    if write.object.uid.as_deref() != uid && write.object.uid.is_some() {
        let words = format!("{} was deleted and made again", write.object);
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

/// Whether the object that a write is answered with is as it was to be: a kind whose schema has no such field drops it.
fn is_kept(write: &GovernWrite, answer: &Value) -> bool {
    answer.pointer("/metadata/name").is_none() || is_governed_so(write, answer)
}
