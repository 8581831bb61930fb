//! Journal records: the plan, who ran it and why, each call and its answer.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use cluster::mutations::Call;
use model::base::Moment;
use model::plan::Plan;

use super::machine::{RunEnd, StepResult};

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct JournalLine {
    /// When the line was written, RFC 3339.
    #[serde(with = "stamp")]
    pub at: Moment,
    pub run: String,
    /// Content of the line.
    #[serde(flatten)]
    pub record: Record,
}

/// Content of a journal line.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "kebab-case")]
pub enum Record {
    Begin {
        /// Cluster of the run.
        cluster: ClusterIdentity,
        /// Who started the run.
        who: Who,
        /// The operator's reason; may be empty.
        reason: String,
        /// The plan that was confirmed.
        plan: Box<Plan>,
    },
    /// A run is resumed after its process ended.
    TakenUp {
        /// Who resumed the run.
        who: Who,
    },
    /// A call is about to be sent. This line is on disk before the call is sent.
    Intent {
        /// Number of the step, from 1.
        step: u32,
        /// Number of attempts for this step, including this one.
        attempt: u32,
        call: Call,
        /// Previous values of the fields that the call writes, by path; null for an absent field.
        before: Map<String, Value>,
    },
    /// The answer to a call.
    Answer {
        step: u32,
        attempt: u32,
        /// HTTP status code; null when no answer arrived.
        code: Option<u16>,
        /// Whether the call was carried out; null when that is unknown.
        accepted: Option<bool>,
        words: String,
    },
    /// An intent without an answer was resolved by reading the object.
    Resolved {
        step: u32,
        /// Whether the call had been carried out.
        done: bool,
    },
    /// A step is waiting.
    Waits {
        step: u32,
        /// What the step waits for.
        words: String,
    },
    /// A step has finished.
    #[serde(rename = "over")]
    Finished {
        step: u32,
        how: StepResult,
        words: String,
    },
    /// The run has ended.
    End {
        /// How the run ended.
        end: RunEnd,
    },
    /// After the run: pods still on the nodes that it should have emptied, as `NAMESPACE/NAME on NODE`.
    Behind {
        /// The pods; empty when the nodes were checked and are empty.
        pods: Vec<String>,
        /// Why the pods are unknown; empty when they are known.
        unknown: String,
    },
    /// After the run: the job that it should have started does not run.
    NotStarted {
        /// The job, written `NAMESPACE/NAME`.
        job: String,
        /// What the job waits for, or why that is unknown.
        why: String,
    },
}

/// Cluster of a run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ClusterIdentity {
    /// Name of the kubeconfig context.
    pub context: String,
    /// The API server's address; empty for a simulated cluster.
    pub server: String,
    /// UID of the namespace `kube-system`, which identifies the cluster independently of its context and address. Empty when it
    /// may not be read, and in journals of earlier versions.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

/// Whether two records refer to the same cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Same {
    Yes,
    /// Contexts and addresses are equal; at least one UID is unknown.
    ByAddress,
    No,
}

impl ClusterIdentity {
    pub fn compare(&self, other: &Self) -> Same {
        if !self.uid.is_empty() && !other.uid.is_empty() {
            return match self.uid == other.uid {
                true => Same::Yes,
                false => Same::No,
            };
        }
        // A simulated cluster always has a UID and ends with its process.
        let simulated = self.server.is_empty() && (self.uid != other.uid);
        match (self.context == other.context && self.server == other.server) && !simulated {
            true => Same::ByAddress,
            false => Same::No,
        }
    }

    /// False where the two are different clusters, whatever a UID that is not known yet turns out to be: the same cluster may have
    /// another context or address.
    pub fn may_be(&self, other: &Self) -> bool {
        let is_unknown = self.uid.is_empty() != other.uid.is_empty();
        let same_sort = self.server.is_empty() == other.server.is_empty();
        (is_unknown && same_sort) || self.compare(other) != Same::No
    }
}

impl std::fmt::Display for ClusterIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.context)?;
        let uid = self.uid.split('-').next().unwrap_or_default();
        match (self.server.is_empty(), uid.is_empty()) {
            (true, true) => Ok(()),
            (false, true) => write!(f, " ({})", self.server),
            (true, false) => write!(f, " (simulated, {uid})"),
            (false, false) => write!(f, " ({}, {uid})", self.server),
        }
    }
}

/// The user who acts.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Who {
    /// User name in the cluster; empty when the API server did not return it.
    pub user: String,
    /// User name on this machine.
    pub local: String,
}

impl Who {
    /// The name to show: the cluster's, otherwise the local one.
    pub fn name(&self) -> &str {
        if self.user.is_empty() {
            &self.local
        } else {
            &self.user
        }
    }
}

/// Serializes times with milliseconds.
mod stamp {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    use model::base::Moment;

    pub(super) fn serialize<S: Serializer>(at: &Moment, out: S) -> Result<S::Ok, S::Error> {
        let whole = at.rfc3339();
        let millis = at.millis().rem_euclid(1000);
        out.collect_str(&format_args!(
            "{}.{millis:03}Z",
            whole.trim_end_matches('Z')
        ))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Moment, D::Error> {
        let text = String::deserialize(from)?;
        Moment::parse(&text).ok_or_else(|| D::Error::custom(format!("`{text}` is not a time")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_compare_by_identity_or_else_by_address() {
        let cluster = |context: &str, server: &str, uid: &str| ClusterIdentity {
            context: context.into(),
            server: server.into(),
            uid: uid.into(),
        };
        let a = cluster("prod", "https://a", "1");
        for (other, same) in [
            (cluster("prod", "https://a", "1"), Same::Yes),
            (cluster("renamed", "https://b", "1"), Same::Yes),
            (cluster("prod", "https://a", "2"), Same::No),
            (cluster("prod", "https://a", ""), Same::ByAddress),
            (cluster("prod", "https://b", ""), Same::No),
            (cluster("other", "https://a", ""), Same::No),
        ] {
            assert_eq!(a.compare(&other), same, "{other}");
            assert_eq!(other.compare(&a), same, "{other}");
        }
        for (other, may_be) in [
            (cluster("renamed", "https://b", ""), true),
            (cluster("renamed", "https://b", "1"), true),
            (cluster("prod", "https://a", "2"), false),
            (cluster("demo", "", ""), false),
        ] {
            assert_eq!(a.may_be(&other), may_be, "{other}");
            assert_eq!(other.may_be(&a), may_be, "{other}");
        }
        let old: ClusterIdentity =
            serde_json::from_str(r#"{"context":"demo","server":""}"#).expect("reads");
        assert_eq!(old.compare(&cluster("demo", "", "1")), Same::No);
        assert_eq!(old.compare(&old), Same::ByAddress);
    }
}
