//! The API server's answer to a call, and its meaning for a run.

use std::time::Duration;

use serde_json::Value;

use cluster::mutations::{Call, Method, Subresource, text};
use model::base::name::printable;

/// An answer, or the reason why none arrived.
#[derive(Clone, PartialEq, Debug)]
pub struct ServerResponse {
    /// HTTP status code; `None` when no valid answer arrived and the result of the call is unknown.
    pub code: Option<u16>,
    /// Response body; null when it is not JSON.
    pub body: Value,
    pub retry_after: Option<Duration>,
    /// Why no answer arrived; empty when one did.
    pub transport_error: String,
}

/// Meaning of an answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ResponseKind {
    Accepted,
    /// A disruption budget refuses the eviction for now; with the server's message and Retry-After.
    Budget(String, Option<Duration>),
    /// The server is busy and did not carry out the call; with the message and Retry-After.
    Busy(String, Option<Duration>),
    /// Another client wrote the object in between.
    Conflict(String),
    /// The server rejected the call as invalid: the object has changed, or the new state is not allowed.
    Invalid(String),
    /// The object does not exist.
    Gone(String),
    /// Refused; a retry does not help.
    Refused(String),
    /// The result is unknown: the call may have been carried out.
    Unknown(String),
}

/// Maximum length of a message, characters.
const LONGEST: usize = 1000;

impl ServerResponse {
    /// An answer with this code and body.
    pub fn of(code: u16, body: Value) -> Self {
        Self {
            code: Some(code),
            body,
            retry_after: None,
            transport_error: String::new(),
        }
    }

    pub fn none(trouble: impl Into<String>) -> Self {
        Self {
            code: None,
            body: Value::Null,
            retry_after: None,
            transport_error: trouble.into(),
        }
    }

    /// The server's message, for people.
    pub fn words(&self) -> String {
        let message = text(&self.body, "/message");
        let causes = self
            .body
            .pointer("/details/causes")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .map(|cause| text(cause, "/message"))
            .filter(|cause| !cause.is_empty() && !message.contains(cause));
        let mut all: Vec<&str> = Vec::new();
        all.extend(Some(message).filter(|message| !message.is_empty()));
        all.extend(causes);
        let words = match (all.is_empty(), self.code) {
            (false, _) => all.join(" "),
            (true, Some(code)) => format!("the server answered {code}"),
            (true, None) => self.transport_error.clone(),
        };
        printable(&words.chars().take(LONGEST).collect::<String>()).into_owned()
    }

    fn is_budget(&self) -> bool {
        let causes = self.body.pointer("/details/causes");
        causes
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .any(|cause| text(cause, "/reason") == "DisruptionBudget")
    }

    fn wait(&self) -> Option<Duration> {
        let asked = self.body.pointer("/details/retryAfterSeconds");
        let asked = asked.and_then(Value::as_u64).map(Duration::from_secs);
        self.retry_after.max(asked).filter(|wait| !wait.is_zero())
    }

    /// The meaning of this answer for this call.
    pub fn verdict(&self, call: &Call) -> ResponseKind {
        let words = self.words();
        let Some(code) = self.code else {
            return ResponseKind::Unknown(words);
        };
        match code {
            // A failed eviction may be returned as a Status in the body of a 201.
            200..=299 if text(&self.body, "/kind") == "Status" => {
                let failed = text(&self.body, "/status") == "Failure"
                    || self.body.get("code").and_then(Value::as_u64) >= Some(400);
                if failed {
                    ResponseKind::Refused(words)
                } else {
                    ResponseKind::Accepted
                }
            }
            200..=299 => ResponseKind::Accepted,
            429 if call.subresource == Subresource::Eviction && self.is_budget() => {
                ResponseKind::Budget(words, self.wait())
            }
            429 => ResponseKind::Busy(words, self.wait()),
            // New objects are named for their step, so an existing one is ours.
            409 if call.method == Method::Create
                && call.subresource == Subresource::None
                && text(&self.body, "/reason") == "AlreadyExists" =>
            {
                ResponseKind::Accepted
            }
            409 => ResponseKind::Conflict(words),
            422 => ResponseKind::Invalid(words),
            404 | 410 => ResponseKind::Gone(words),
            // The server may have failed before or after it wrote the object.
            500..=599 => ResponseKind::Unknown(words),
            _ => ResponseKind::Refused(words),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::plan::Object;
    use serde_json::json;

    fn call(method: Method, subresource: Subresource) -> Call {
        Call {
            method,
            object: Object::new("", "v1", "pods", "Pod", "p").within("nlp"),
            subresource,
            body: Value::Null,
        }
    }

    #[test]
    fn a_failure_in_the_body_of_a_201_is_a_failure() {
        let evict = call(Method::Create, Subresource::Eviction);
        let two = json!({"kind": "Status", "status": "Failure", "code": 500, "message": "more than one PodDisruptionBudget"});
        assert_eq!(
            ServerResponse::of(201, two).verdict(&evict),
            ResponseKind::Refused("more than one PodDisruptionBudget".into())
        );
        let only_code = json!({"kind": "Status", "code": 500});
        assert!(matches!(
            ServerResponse::of(201, only_code).verdict(&evict),
            ResponseKind::Refused(_)
        ));
        let good = json!({"kind": "Status", "status": "Success", "code": 201});
        assert_eq!(
            ServerResponse::of(201, good).verdict(&evict),
            ResponseKind::Accepted
        );
    }

    #[test]
    fn a_refusal_by_a_budget_differs_from_a_busy_server() {
        let evict = call(Method::Create, Subresource::Eviction);
        let budget = json!({"kind": "Status", "message": "Cannot evict pod.", "details": {"retryAfterSeconds": 10, "causes": [{"reason": "DisruptionBudget", "message": "needs 2 and has 2"}]}});
        assert_eq!(
            ServerResponse::of(429, budget).verdict(&evict),
            ResponseKind::Budget(
                "Cannot evict pod. needs 2 and has 2".into(),
                Some(Duration::from_secs(10))
            )
        );
        let mut busy = ServerResponse::of(
            429,
            json!({"kind": "Status", "message": "too many requests"}),
        );
        busy.retry_after = Some(Duration::from_secs(3));
        assert_eq!(
            busy.verdict(&evict),
            ResponseKind::Busy("too many requests".into(), Some(Duration::from_secs(3)))
        );
    }

    #[test]
    fn what_is_not_known_is_not_taken_for_a_failure() {
        let patch = call(Method::Patch, Subresource::None);
        for answer in [
            ServerResponse::none("connection reset"),
            ServerResponse::of(500, Value::Null),
            ServerResponse::of(504, Value::Null),
        ] {
            assert!(matches!(answer.verdict(&patch), ResponseKind::Unknown(_)));
        }
        for (code, wanted) in [
            (403, ResponseKind::Refused("no".into())),
            (401, ResponseKind::Refused("no".into())),
            (404, ResponseKind::Gone("no".into())),
            (409, ResponseKind::Conflict("no".into())),
            (422, ResponseKind::Invalid("no".into())),
        ] {
            assert_eq!(
                ServerResponse::of(code, json!({"message": "no"})).verdict(&patch),
                wanted
            );
        }
        let create = call(Method::Create, Subresource::None);
        let again = ServerResponse::of(409, json!({"reason": "AlreadyExists"}));
        assert_eq!(again.verdict(&create), ResponseKind::Accepted);
        let hostile = ServerResponse::of(403, json!({"message": "\u{1b}[2J"}));
        assert!(!hostile.words().contains('\u{1b}'));
    }
}
