//! How a job failed, as a cell and in words.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::Serialize;

use model::base::quantities::counted;
use model::fleet::fleet::Fleet;
use model::fleet::observe;

use crate::{Facts, non_empty};

/// Why a job failed or restarts.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct FailureCell<'a> {
    /// Exit code of the container that ended last.
    pub exit_code: Option<i32>,
    /// Message of the failure, as Kubernetes reports it.
    pub message: Option<&'a str>,
    /// Restarts of its containers in all.
    pub restarts: u32,
    /// When one of its pods was last evicted, RFC 3339.
    #[schemars(with = "Option<model::base::Moment>")]
    pub last_eviction: Option<String>,
    /// When the failed pod last restarted, RFC 3339; null while it is still down.
    #[schemars(with = "Option<model::base::Moment>")]
    pub last_restart: Option<String>,
}

impl FailureCell<'_> {
    /// The failure in words; `restarted` is the formatted restart time.
    fn words_at(&self, restarted: Option<&str>) -> String {
        if let Some(at) = restarted {
            return self.over(at);
        }
        let exit = self.exit_code.map(|code| format!("exit code {code}"));
        let restarts = (self.restarts > 0).then(|| counted(u64::from(self.restarts), "restart"));
        let message = self.message.map(str::to_owned);
        let words: Vec<String> = [message, exit, restarts].into_iter().flatten().collect();
        match words.is_empty() {
            true => String::from("failed"),
            false => words.join(", "),
        }
    }

    /// A failure followed by a restart: `restarted 12m ago after OOMKilled, exit code 137 (3 restarts)`.
    fn over(&self, at: &str) -> String {
        let exit = self.exit_code.map(|code| format!("exit code {code}"));
        let why = self.message.map(str::to_owned).into_iter().chain(exit);
        let why: Vec<String> = why.collect();
        let after = match why.is_empty() {
            true => String::new(),
            false => format!(" after {}", why.join(", ")),
        };
        let times = match self.restarts {
            0 | 1 => String::new(),
            count => format!(" ({})", counted(u64::from(count), "restart")),
        };
        format!("restarted {at}{after}{times}")
    }
}

impl<'a> From<&'a observe::WorkloadFailure> for FailureCell<'a> {
    fn from(failure: &'a observe::WorkloadFailure) -> Self {
        Self {
            exit_code: failure.exit_code,
            message: non_empty(&failure.message),
            restarts: failure.restarts,
            last_eviction: failure.last_eviction.map(|at| at.rfc3339()),
            last_restart: failure.restarted.map(|at| at.rfc3339()),
        }
    }
}

/// A failure in a few words.
pub fn why_failed(facts: &Facts, failure: &observe::WorkloadFailure) -> String {
    let restarted = failure.restarted;
    let restarted = restarted.map(|at| format!("{} ago", facts.now.since(at)));
    let words = FailureCell::from(failure).words_at(restarted.as_deref());
    with_preemptor(&facts.fleet, &words).into_owned()
}

/// Kueue's sentence about a preemption with the job that preempted, where it is known, in place of its Workload's UID.
pub fn with_preemptor<'a>(fleet: &Fleet, sentence: &'a str) -> Cow<'a, str> {
    let named = || {
        let (head, rest) = sentence.split_once("a workload (UID: ")?;
        let (ids, tail) = rest.split_once(')')?;
        let uid = ids.split(',').next().map(str::trim)?;
        let job = fleet.job_of_workload(uid)?;
        Some(format!("{head}{}{tail}", job.id))
    };
    named().map_or(Cow::Borrowed(sentence), Cow::Owned)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::base::{Moment, Name};

    use super::*;
    use crate::sample;

    #[test]
    fn a_preemptor_is_named_by_its_job() {
        let facts = sample::facts();
        let mut jobs = facts.fleet.jobs.to_vec();
        let job = Arc::make_mut(&mut jobs[0]);
        job.uid = Name::new("1234-abcd");
        let name = job.id.key.to_string();
        let mut fleet = (*facts.fleet).clone();
        fleet.jobs = jobs.into();
        let sentence = |uid: &str| {
            format!(
                "Preempted: Preempted to accommodate a workload (UID: {uid}, JobUID: x) due to reclamation within the cohort"
            )
        };
        assert_eq!(
            with_preemptor(&fleet, &sentence("1234-abcd")),
            format!(
                "Preempted: Preempted to accommodate {name} due to reclamation within the cohort"
            )
        );
        for other in [sentence("no-such"), String::from("OOMKilled")] {
            assert_eq!(with_preemptor(&fleet, &other), other);
        }
    }

    #[test]
    fn a_past_failure_is_shown_as_a_restart() {
        let restarted = Moment::from_millis(0);
        let failure = observe::WorkloadFailure {
            exit_code: Some(137),
            message: "OOMKilled".into(),
            restarts: 3,
            restarted: Some(restarted),
            ..observe::WorkloadFailure::default()
        };
        let mut facts = sample::facts();
        facts.now = Moment::from_millis(12 * 60_000);
        assert_eq!(
            why_failed(&facts, &failure),
            "restarted 12m ago after OOMKilled, exit code 137 (3 restarts)"
        );
        let latest = observe::WorkloadFailure {
            restarted: None,
            ..failure
        };
        assert_eq!(
            why_failed(&facts, &latest),
            "OOMKilled, exit code 137, 3 restarts"
        );
    }
}
