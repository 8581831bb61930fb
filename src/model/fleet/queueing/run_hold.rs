//! Jobs that a run keeps suspended for a while: what the run writes on them, so that any program sees who holds them and until
//! when, and what the journal of this machine knows of runs that did not end.

use serde::{Deserialize, Serialize};

use crate::base::{Moment, Name, ObjectKey};
use crate::plan::stamp;

use crate::fleet::job::JobKey;
use crate::fleet::observed::object_parts::Labels;

/// Annotation of an object that a run has suspended and is to resume: a [`RunHold`] as JSON.
pub const HELD: &str = "stokehold.dev/held";

/// Code of the reason of a job that a run has suspended and is to resume.
pub const HELD_BY_RUN: &str = "held-by-run";

/// The kind of jobs that Commands suspend.
const BY_COMMANDS: &str = "VolcanoJob";

/// Which run has suspended an object, and when that ends.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RunHold {
    pub run: Name,
    /// The user who carries it out.
    pub by: Name,
    /// When it was suspended.
    #[serde(with = "stamp")]
    pub since: Moment,
    /// When the run has resumed it at the latest, or has failed.
    #[serde(with = "stamp")]
    pub until: Moment,
}

impl RunHold {
    /// The hold that an object's annotations state; `None` where there is none, or none that can be read.
    pub fn of(annotations: &Labels) -> Option<Self> {
        serde_json::from_str(annotations.get(HELD)?).ok()
    }

    /// The value of [`HELD`].
    pub fn text(&self) -> String {
        serde_json::json!(self).to_string()
    }

    /// The reason of a job that it holds: `suspended by ana's run 20261128154200-0a1b2c until 2026-11-28T15:42:00Z at the latest`.
    pub fn words(&self) -> String {
        format!(
            "suspended by {}'s run {} until {} at the latest",
            self.by,
            self.run,
            self.until.rfc3339()
        )
    }

    /// Its text once its time is over: `run 20261128154200-0a1b2c should have resumed it by 2026-11-28T15:42:00Z`.
    pub fn late_words(&self) -> String {
        format!(
            "run {} should have resumed it by {}",
            self.run,
            self.until.rfc3339()
        )
    }
}

/// Why a run goes on no more.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum RunStop {
    /// Its process ended before it did.
    BrokenOff,
    /// Its operator stopped it.
    Stopped,
    /// One of its steps failed.
    Failed,
}

/// A run of this machine's journal that has left jobs suspended and goes on no more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenRun {
    pub run: Name,
    /// The user who carried it out.
    pub by: Name,
    pub since: Moment,
    /// Why it goes on no more.
    pub stop: RunStop,
    /// The jobs that it suspended and did not resume, sorted.
    pub jobs: Vec<ObjectKey>,
}

impl OpenRun {
    /// Its end in words: `was interrupted`.
    pub const fn fate(&self) -> &'static str {
        match self.stop {
            RunStop::BrokenOff => "was interrupted",
            RunStop::Stopped => "was stopped",
            RunStop::Failed => "failed",
        }
    }

    /// True for a job that it has suspended and did not resume, by its journal.
    pub fn holds(&self, job: &ObjectKey) -> bool {
        self.jobs.binary_search(job).is_ok()
    }

    /// The one of these runs that keeps a job suspended: that which the job states. A job of Volcano, which Commands suspend, can
    /// state none: there it is the latest that suspended it. Any other job that states none has been resumed since, or somebody
    /// else has suspended it.
    pub fn holder<'a>(
        runs: &'a [Self],
        job: &JobKey,
        stated: Option<&RunHold>,
    ) -> Option<&'a Self> {
        match stated {
            Some(hold) => runs.iter().find(|run| run.run == hold.run),
            None if &*job.kind == BY_COMMANDS => {
                let holders = runs.iter().filter(|run| run.holds(&job.key));
                holders.max_by_key(|run| run.since)
            }
            None => None,
        }
    }

    /// The reason of a job that it holds.
    pub fn words(&self) -> String {
        format!(
            "suspended by {}'s run {}, which {}; {}",
            self.by,
            self.run,
            self.fate(),
            self.repair()
        )
    }

    /// The commands that resume the held object.
    pub fn repair(&self) -> String {
        let run = &self.run;
        match self.stop {
            RunStop::Failed => format!("undo it: `stokehold plan undo {run} --apply`"),
            _ => format!(
                "continue it: `stokehold plan continue {run} --apply`, or undo it: `stokehold plan undo {run} --apply`"
            ),
        }
    }
}
