//! The lines of the journal: what was asked, by whom, why, each call and its answer.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use cluster::mutations::Call;
use model::base::Moment;
use model::plan::Plan;

use super::machine::{End, StepResult};

/// One line.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Line {
    /// When, RFC 3339.
    #[serde(with = "stamp")]
    pub at: Moment,
    /// Which run.
    pub run: String,
    /// What.
    #[serde(flatten)]
    pub record: Record,
}

/// What a line says.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "kebab-case")]
pub enum Record {
    /// A run begins.
    Begin {
        /// Where.
        cluster: Cluster,
        /// Who.
        who: Who,
        /// Why, in the operator's words; may be empty.
        reason: String,
        /// What was confirmed.
        plan: Box<Plan>,
    },
    /// A run is taken up again after its process had ended.
    TakenUp {
        /// Who.
        who: Who,
    },
    /// A call is about to be sent. On disk before it is.
    Intent {
        /// Number of the step, from 1.
        step: u32,
        /// How often the step has been sent, this time included.
        attempt: u32,
        /// What is sent.
        call: Call,
        /// The fields that it writes as they were, by path; null where there was none.
        before: Map<String, Value>,
    },
    /// What was answered.
    Answer {
        /// Number of the step.
        step: u32,
        /// Which time.
        attempt: u32,
        /// Code of HTTP; null when no answer came.
        code: Option<u16>,
        /// Whether it counts as carried out; null when nobody knows.
        accepted: Option<bool>,
        /// What it said.
        words: String,
    },
    /// An intent without an answer was looked into by reading the object.
    Resolved {
        /// Number of the step.
        step: u32,
        /// Whether it had been carried out.
        done: bool,
    },
    /// A step waits.
    Waits {
        /// Number of the step.
        step: u32,
        /// For what.
        words: String,
    },
    /// A step is over.
    #[serde(rename = "over")]
    Finished {
        /// Number of the step.
        step: u32,
        /// How.
        how: StepResult,
        /// Why.
        words: String,
    },
    /// The run is over.
    End {
        /// How.
        end: End,
    },
    /// Once it was over: pods that are still on the nodes that it was to empty, as `NAMESPACE/NAME on NODE`.
    Behind {
        /// The pods; none where that was looked at and the nodes are empty.
        pods: Vec<String>,
        /// Why it is not known; empty where it is.
        unknown: String,
    },
    /// Once it was over: the job that it was to start does not run.
    NotStarted {
        /// `NAMESPACE/NAME`.
        job: String,
        /// What it waits for, or why that is not known.
        why: String,
    },
}

/// Where a run takes place.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Cluster {
    /// Name of the kubeconfig context.
    pub context: String,
    /// The server's address; empty for the simulated one.
    pub server: String,
    /// What tells the cluster from any other, whatever its context and address are called: the UID of its namespace
    /// `kube-system`. Empty where that may not be read, and in journals of earlier versions.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

/// Whether two records are about one cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Same {
    /// They are.
    Yes,
    /// Their contexts and addresses are the same; nothing more is known.
    ByAddress,
    /// They are not.
    No,
}

impl Cluster {
    /// Whether the other is the same cluster.
    pub fn compare(&self, other: &Self) -> Same {
        if !self.uid.is_empty() && !other.uid.is_empty() {
            return match self.uid == other.uid {
                true => Same::Yes,
                false => Same::No,
            };
        }
        // A simulated cluster in the process always says which one it is, and none outlives its process.
        let simulated = self.server.is_empty() && (self.uid != other.uid);
        match (self.context == other.context && self.server == other.server) && !simulated {
            true => Same::ByAddress,
            false => Same::No,
        }
    }
}

impl std::fmt::Display for Cluster {
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

/// Who acts.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Who {
    /// As the cluster knows them; empty when it does not say.
    pub user: String,
    /// As this machine knows them.
    pub local: String,
}

impl Who {
    /// The name to show.
    pub fn name(&self) -> &str {
        if self.user.is_empty() {
            &self.local
        } else {
            &self.user
        }
    }
}

/// Moments to the millisecond.
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
    fn clusters_are_told_apart_by_identity_and_without_one_by_address() {
        let cluster = |context: &str, server: &str, uid: &str| Cluster {
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
        let old: Cluster =
            serde_json::from_str(r#"{"context":"demo","server":""}"#).expect("reads");
        assert_eq!(old.compare(&cluster("demo", "", "1")), Same::No);
        assert_eq!(old.compare(&old), Same::ByAddress);
    }
}
