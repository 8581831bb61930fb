//! A plan as data: ordered steps, what they rely on, what they are expected to do, and what cannot be undone.
//!
//! Planners return a [`Plan`] or a [`Refusal`]; the plan dialog draws it, `exec` carries it out, the journal keeps
//! it. It knows no cluster's name and no user: the same fleet and intent give the same plan. As JSON it keeps to
//! `config/schema/plan.json`.

mod difference;
mod evicted;
mod option;
mod stamp;
mod step;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::base::{Moment, Name, ObjectKey};
use crate::usage::{BudgetChange, FleetSpending};

pub use evicted::{Evicted, Known, evicted_words};
pub use option::{Origin, Origins, Source, Used};
pub use step::{
    ApiPath, Budgets, Fact, JobRef, Loss, Mutation, Object, Policy, SideEffects, Step, Test, Until,
    Verb, VolcanoAction, Wait, When,
};

/// The version of the document. A reader refuses another.
pub const VERSION: u32 = 1;

/// The JSON Schema of a plan.
pub const SCHEMA: &str = include_str!("../../../config/schema/plan.json");

/// What to do, in which order, why, and what it is expected to change.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// [`VERSION`].
    pub version: u32,
    /// One line: `drain a100-17`.
    pub title: String,
    /// What was asked for.
    pub intent: Intent,
    /// The fleet's moment that it was computed for; whole seconds in JSON.
    #[serde(with = "stamp")]
    pub computed_at: Moment,
    /// Revision of the fleet that it was computed on; null for a plan made from objects read for it.
    pub revision: Option<u64>,
    /// The steps in their one order.
    pub steps: Vec<Step>,
    /// Every fact that it relied on: when one of these changes, an open plan is computed anew.
    pub reads: Vec<Fact>,
    /// What the fleet will be like afterwards.
    pub effect: Effect,
    /// Why these steps and not others, most important first.
    pub reasons: Vec<String>,
    /// What could be done instead.
    pub alternatives: Vec<Alternative>,
    /// What must be known before it is confirmed: budgets that can never be met, pods that never end.
    pub warnings: Vec<String>,
    /// What has been checked before it is confirmed. The engine leaves it empty; who can ask the server fills it.
    pub checks: Vec<Check>,
    /// How far it can be taken back.
    pub undo: Undo,
    /// What it was decided by, and where each option came from; empty for a plan made from objects read for it.
    #[serde(default)]
    pub options: Vec<Used>,
}

/// What an operator asked for.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Intent {
    /// Cordon nodes, then evict or requeue all work on them.
    Drain {
        /// The nodes, resolved from names, a pool or a rack.
        nodes: Vec<Name>,
        /// When it is to be over at the latest.
        #[serde(with = "stamp::optional")]
        deadline: Option<Moment>,
    },
    /// Nodes take no new work.
    Cordon {
        /// The nodes.
        nodes: Vec<Name>,
        /// Why, written on each node.
        reason: String,
    },
    /// Nodes take new work again.
    Uncordon {
        /// The nodes.
        nodes: Vec<Name>,
    },
    /// Take a job off its devices.
    Preempt {
        /// `NAMESPACE/NAME`.
        job: JobName,
    },
    /// Start a waiting job.
    Admit {
        /// `NAMESPACE/NAME`.
        job: JobName,
        /// Whether others may be taken off their devices for it.
        preempt: bool,
    },
    /// Change the priority of a job.
    Reprioritise {
        /// `NAMESPACE/NAME`.
        job: JobName,
        /// A number, or the name of a priority class.
        priority: String,
    },
    /// Keep a job or a queue from running until it is resumed.
    Hold {
        /// The job or queue, as it was named.
        target: String,
    },
    /// Let a job or a queue go on.
    Resume {
        /// The job or queue, as it was named.
        target: String,
    },
    /// Evict a job and requeue it.
    Requeue {
        /// `NAMESPACE/NAME`.
        job: JobName,
    },
    /// Change the number of replicas of a Deployment, StatefulSet or LeaderWorkerSet.
    Scale {
        /// The object, as it was named.
        target: String,
        /// The new number.
        replicas: u32,
    },
    /// Move work so that free devices lie together.
    Rebalance {
        /// Only in this pool.
        pool: Option<Name>,
    },
    /// Take back what an earlier plan did.
    Undo {
        /// The run of the journal that is taken back.
        run: String,
    },
}

/// Namespace and name of a job, `NAMESPACE/NAME` in JSON.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct JobName(pub ObjectKey);

impl fmt::Display for JobName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for JobName {
    fn serialize<S: serde::Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for JobName {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let (namespace, name) = text.split_once('/').ok_or_else(|| {
            serde::de::Error::custom(format!("`{text}` is not NAMESPACE/NAME of a job"))
        })?;
        Ok(Self(ObjectKey::new(namespace, name)))
    }
}

/// What the fleet will be like afterwards, as far as it can be told.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum Effect {
    /// Computed.
    Forecast(Forecast),
    /// Not computed, never to be read as "no effect".
    Unknown {
        /// Why not.
        why: String,
    },
}

/// The fleet afterwards. What is not known is null.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Forecast {
    /// Jobs that start earlier, later, or for the first time.
    pub starts: Vec<StartChange>,
    /// Jobs that are taken off their devices.
    pub displaced: Vec<Displaced>,
    /// Jobs that start at once or do not, as the scheduler comes to them: they and others are admitted for what becomes free.
    #[serde(default)]
    pub contested: Vec<JobName>,
    /// Pools whose allocation changes.
    pub pools: Vec<PoolChange>,
    /// Device-seconds of work that will have to be done again.
    pub lost_device_seconds: Option<u64>,
    /// What that work cost, in micro-USD.
    pub lost_micro_usd: Option<i64>,
    /// What the fleet burns more (or less, when negative) an hour, in micro-USD.
    pub burn_change_micro_usd_per_hour: Option<i64>,
    /// What it does to budgets. The engine leaves it empty; who can read the usage ledger fills it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub budgets: Vec<BudgetChange>,
    /// What workloads hold without the plan and with it, for that; no part of the document.
    #[serde(skip)]
    pub spending: Option<Box<[FleetSpending; 2]>>,
}

/// Said of a job that a plan takes off its devices and that is contested ([`Forecast::contested`]).
pub const CONTESTED: &str = "starts again at once, or waits: another job may be admitted first";

impl Forecast {
    /// True for a job that starts at once or does not, as the scheduler comes to it: its start is not unknown for want of facts.
    pub fn is_contested(&self, job: &JobName) -> bool {
        self.contested.contains(job)
    }
}

/// A job whose start moves.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartChange {
    /// The job.
    pub job: JobName,
    /// Its devices.
    pub devices: u32,
    /// When it would have started; null when that is not known.
    #[serde(with = "stamp::optional")]
    pub before: Option<Moment>,
    /// When it will; null when that is not known.
    #[serde(with = "stamp::optional")]
    pub after: Option<Moment>,
}

impl StartChange {
    /// Whether it moves by a minute or more; a forecast is not surer than that.
    pub fn is_notable(&self) -> bool {
        match (self.before, self.after) {
            (Some(before), Some(after)) => (after.millis() - before.millis()).abs() >= 60_000,
            (before, after) => before != after,
        }
    }
}

/// A job that is taken off its devices.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Displaced {
    /// The job.
    pub job: JobName,
    /// Devices that it gives back.
    pub devices: u32,
    /// What is lost of its work.
    pub loss: Loss,
    /// When it runs again; null when that is not known, and for one that is contested ([`Forecast::contested`]): at once or later.
    #[serde(with = "stamp::optional")]
    pub back: Option<Moment>,
}

/// A pool whose allocation changes.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolChange {
    /// The pool.
    pub pool: Name,
    /// Its devices.
    pub devices: u32,
    /// Devices held without the plan, once what starts anyway has started.
    pub allocated_before: u32,
    /// Devices held with it.
    pub allocated_after: u32,
}

/// Something else that could be done.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Alternative {
    /// What, with its cost: `wait 1h52m for nothing`.
    pub sentence: String,
    /// The command that plans it, without the program's name; null when there is none.
    pub command: Option<String>,
}

/// One thing that was checked before confirming.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// What: `quota`, `budgets`, `rights`, `server dry run`, …
    pub name: String,
    /// How it came out.
    pub outcome: Outcome,
    /// Details; empty when it is well.
    pub sentence: String,
}

/// How a check came out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Well.
    Ok,
    /// The plan would fail here.
    Failed,
    /// A later state of the cluster decides it.
    NotCheckableYet,
    /// Nobody may ask, for want of a grant or of rights.
    NotChecked,
}

/// How far a plan can be taken back.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Undo {
    /// True when every field that is written can be written back.
    pub possible: bool,
    /// What does not come back: placement, lost work.
    pub notes: Vec<String>,
}

/// Why a plan cannot be made.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refusal {
    /// A word for programs.
    pub code: RefusalCode,
    /// What failed and where.
    pub sentence: String,
    /// What can be done instead, nearest first.
    pub instead: Vec<String>,
    /// Who is evicted, or would have to be: one that starts by itself in the place of others, say.
    #[serde(default)]
    pub victims: Vec<Evicted>,
}

/// Why a plan cannot be made, as a word.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RefusalCode {
    /// The backend has no lever for this.
    Unsupported,
    /// No such object.
    NotFound,
    /// The name fits several objects.
    Ambiguous,
    /// It is already so.
    AlreadySo,
    /// The object is in a state from which there is no way.
    IllegalState,
    /// It belongs to another controller, which would take it back.
    OwnedByAnother,
    /// Facts that it needs are missing.
    Unknown,
    /// The policy of a queue forbids it.
    Policy,
    /// It cannot be done at all: no such capacity, a budget that allows nothing ever.
    Infeasible,
    /// More would be done by now than was shown.
    Changed,
}

impl Refusal {
    /// A refusal that names nothing to do instead yet.
    pub fn new(code: RefusalCode, sentence: impl Into<String>) -> Self {
        Self {
            code,
            sentence: sentence.into(),
            instead: Vec::new(),
            victims: Vec::new(),
        }
    }

    /// The refusal, naming those who are evicted or would have to be.
    #[must_use]
    pub fn evicting(mut self, victims: Vec<Evicted>) -> Self {
        self.victims = victims;
        self
    }

    /// The refusal with one more thing that can be done instead.
    #[must_use]
    pub fn instead(mut self, sentence: impl Into<String>) -> Self {
        self.instead.push(sentence.into());
        self
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)?;
        for (at, instead) in self.instead.iter().enumerate() {
            let word = if at == 0 { "; instead: " } else { "; or: " };
            write!(f, "{word}{instead}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Refusal {}

impl Plan {
    /// Takes the reason that its operator gave: what it cordons says so on the node. An undo restores what the node said before.
    pub fn say_why(&mut self, reason: &str) {
        if reason.is_empty() || matches!(self.intent, Intent::Undo { .. }) {
            return;
        }
        for step in &mut self.steps {
            if let Mutation::Cordon { why, .. } = &mut step.lever {
                reason.clone_into(why);
            }
        }
    }

    /// A plan without steps: the frame that a planner fills.
    pub fn new(title: impl Into<String>, intent: Intent, computed_at: Moment) -> Self {
        Self {
            version: VERSION,
            title: title.into(),
            intent,
            computed_at,
            revision: None,
            steps: Vec::new(),
            reads: Vec::new(),
            effect: Effect::Unknown {
                why: "not computed".to_owned(),
            },
            reasons: Vec::new(),
            alternatives: Vec::new(),
            warnings: Vec::new(),
            checks: Vec::new(),
            undo: Undo::default(),
            options: Vec::new(),
        }
    }

    /// The jobs that it touches, each with its devices and whether it is a gang, in name order.
    pub fn jobs(&self) -> BTreeMap<JobName, &JobRef> {
        self.steps
            .iter()
            .filter_map(|step| step.job.as_ref())
            .map(|job| (job.name.clone(), job))
            .collect()
    }

    /// Whether a plain yes is too little: running work is evicted, by its own steps or by the scheduler as the effect foretells it.
    pub fn is_grave(&self) -> bool {
        // A pod without a job is work, too.
        let interrupts = self.steps.iter().any(|step| step.side_effects.interrupts);
        interrupts || !self.evicts().is_empty()
    }

    /// Whether a start is that of new replicas of a job, which are not there without the plan.
    pub fn adds_replicas(&self, job: &JobName) -> bool {
        let scaled = matches!(self.intent, Intent::Scale { .. });
        let mut jobs = self.steps.iter().filter_map(|step| step.job.as_ref());
        scaled && jobs.any(|own| own.name == *job)
    }

    /// The first check that has failed.
    pub fn failed_check(&self) -> Option<&Check> {
        self.checks
            .iter()
            .find(|check| check.outcome == Outcome::Failed)
    }

    /// What must be typed to confirm it, within a context: `CONTEXT/NAME` of what it is about.
    pub fn typed(&self, context: &str) -> String {
        let name = |key: &ObjectKey| key.name.to_string();
        let about = match &self.intent {
            Intent::Drain { nodes, .. }
            | Intent::Cordon { nodes, .. }
            | Intent::Uncordon { nodes } => match nodes.as_slice() {
                [one] => one.to_string(),
                many => format!("{}-nodes", many.len()),
            },
            Intent::Preempt { job }
            | Intent::Admit { job, .. }
            | Intent::Reprioritise { job, .. }
            | Intent::Requeue { job } => name(&job.0),
            Intent::Hold { target } | Intent::Resume { target } | Intent::Scale { target, .. } => {
                target
                    .rsplit('/')
                    .next()
                    .unwrap_or(target.as_str())
                    .to_owned()
            }
            Intent::Rebalance { pool: Some(pool) } => pool.to_string(),
            Intent::Rebalance { pool: None } => "rebalance".to_owned(),
            Intent::Undo { run } => run.clone(),
        };
        format!("{context}/{about}")
    }

    /// What is wrong with it as a document: a step that waits for a later one, a number out of range.
    ///
    /// # Errors
    /// The first fault, naming the step.
    pub fn validate(&self) -> Result<(), String> {
        if self.version != VERSION {
            return Err(format!(
                "this is version {} of a plan, and this program reads version {VERSION}",
                self.version
            ));
        }
        for (at, step) in self.steps.iter().enumerate() {
            let number = at + 1;
            if step.object.name.is_empty() || step.object.place.plural.is_empty() {
                return Err(format!("step {number} names no object"));
            }
            let later = step.needs.iter().find(|need| {
                let need = **need as usize;
                need == 0 || need >= number
            });
            if let Some(need) = later {
                return Err(format!(
                    "step {number} needs step {need}, which does not come before it"
                ));
            }
        }
        Ok(())
    }
}
