//! A plan as data: ordered steps, their guards, the expected effect, and what cannot be undone.
//!
//! Planners return a [`Plan`] or a [`Refusal`]; the plan dialog draws it, `exec` executes it, the journal stores it. It holds no
//! cluster or user name: the same fleet and intent give the same plan. Its JSON Schema is [`schema`].

mod difference;
mod evicted;
mod option;
pub(crate) mod stamp;
mod step;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::base::{Moment, Name, ObjectKey};
use crate::cost::{BudgetChange, FleetSpending};
use crate::schema::{SchemaHead, of_readable_document};

pub use evicted::{Evicted, KnownVictims, evicted_words};
pub use option::{OptionOrigin, OptionOrigins, OptionSource, Used};
pub use step::{
    ApiPath, Budgets, Fact, JobRef, Loss, Mutation, Object, SideEffects, Step, StopPolicy, Test,
    Until, Verb, VolcanoAction, Wait, WaitOrder,
};

/// The version of the document. A reader rejects any other.
pub const VERSION: u32 = 1;

/// The JSON Schema of a plan.
pub fn schema() -> Value {
    of_readable_document::<Plan>(SchemaHead {
        name: "plan",
        title: "Plan",
        description: "What to do, in which order, why, and what it is expected to change. Unknown is null, never 0; units are in the names; times are RFC 3339.",
    })
}

/// A plan: ordered steps with reasons and the expected effect.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Version of the document: a reader rejects any other.
    #[schemars(extend("const" = VERSION))]
    pub version: u32,
    /// One-line title: `drain a100-17`.
    pub title: String,
    /// What the operator asked for.
    pub intent: Intent,
    /// The fleet time that it was computed for; whole seconds in JSON.
    #[serde(with = "stamp")]
    #[schemars(with = "Moment")]
    pub computed_at: Moment,
    /// Fleet revision that it was computed on; null for a plan made from objects read for it.
    pub revision: Option<u64>,
    /// The steps, in execution order.
    pub steps: Vec<Step>,
    /// Every fact that the plan relied on; a change to one recomputes an open plan.
    pub reads: Vec<Fact>,
    /// The forecast for the fleet after the plan.
    pub effect: PlanEffect,
    /// Why these steps were chosen, most important first.
    pub reasons: Vec<String>,
    /// Alternatives to the plan.
    pub alternatives: Vec<Alternative>,
    /// Warnings to read before confirming: disruption budgets that can never be met, pods that never end.
    pub warnings: Vec<String>,
    /// Checks made before confirming. The engine leaves this empty; the caller that can query the API server fills it.
    pub checks: Vec<PlanCheck>,
    /// To what extent the plan can be undone.
    pub undo: Undo,
    /// Options used, each with its source; empty for a plan made from objects read for it.
    #[serde(default)]
    pub options: Vec<Used>,
}

/// What an operator asks for.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "action", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Intent {
    /// Cordon nodes, then evict or requeue all work on them.
    Drain {
        /// The nodes, resolved from names, a pool or a rack.
        nodes: Vec<Name>,
        /// Deadline for the drain.
        #[serde(with = "stamp::optional")]
        #[schemars(with = "Option<Moment>")]
        deadline: Option<Moment>,
    },
    /// Mark nodes unschedulable.
    Cordon {
        /// The nodes to cordon.
        nodes: Vec<Name>,
        /// Reason, written on each node.
        reason: String,
    },
    /// Mark nodes schedulable again.
    Uncordon {
        /// The nodes to uncordon.
        nodes: Vec<Name>,
    },
    /// Evict a job from its nodes.
    Preempt {
        /// The job, written `NAMESPACE/NAME`.
        job: JobName,
    },
    /// Start a pending job.
    Admit {
        /// The job, written `NAMESPACE/NAME`.
        job: JobName,
        /// Whether other jobs may be preempted for it.
        preempt: bool,
    },
    /// Change the priority of a job.
    Reprioritise {
        /// The job, written `NAMESPACE/NAME`.
        job: JobName,
        /// A number, or the name of a priority class.
        priority: String,
    },
    /// Suspend a job, or stop a queue, until it is resumed.
    Hold {
        /// The job or queue, as named in the request.
        target: String,
    },
    /// Resume a job or a queue.
    Resume {
        /// The job or queue, as named in the request.
        target: String,
    },
    /// Evict a job and requeue it.
    Requeue {
        /// The job, written `NAMESPACE/NAME`.
        job: JobName,
    },
    /// Evict one pod, as its disruption budget allows.
    Evict {
        /// The pod to evict, `NAMESPACE/NAME`.
        pod: String,
    },
    /// Change the number of replicas of a Deployment, StatefulSet or LeaderWorkerSet.
    Scale {
        /// The object, as named in the request.
        target: String,
        /// The new number of replicas.
        replicas: u32,
    },
    /// Move workloads to defragment free devices.
    Rebalance {
        /// Restricts the plan to this pool.
        pool: Option<Name>,
    },
    /// Undo an earlier run.
    Undo {
        /// Id of the run in the journal.
        run: String,
    },
}

impl Intent {
    /// The job that it is about, where it names one as a job.
    pub const fn job(&self) -> Option<&JobName> {
        match self {
            Self::Preempt { job }
            | Self::Requeue { job }
            | Self::Admit { job, .. }
            | Self::Reprioritise { job, .. } => Some(job),
            _ => None,
        }
    }
}

/// Namespace and name of a job, `NAMESPACE/NAME` in JSON.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct JobName(pub ObjectKey);

impl fmt::Display for JobName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

crate::written_as!(
    JobName,
    schemars::json_schema!({ "type": "string", "pattern": "^[^/]*/.+$" })
);

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

/// The fleet after the plan, where it can be forecast.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum PlanEffect {
    /// A forecast was computed.
    Forecast(Forecast),
    /// No forecast was computed; this does not mean "no effect".
    Unknown {
        /// Why none was computed.
        why: String,
    },
}

/// A forecast of the fleet after the plan. Unknown values are null.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Forecast {
    /// Jobs that start earlier, later, or for the first time.
    pub starts: Vec<StartChange>,
    /// Jobs that lose their devices to the plan.
    pub displaced: Vec<Displaced>,
    /// Jobs whose start depends on admission order: they compete with other jobs for the freed capacity.
    #[serde(default)]
    pub contested: Vec<JobName>,
    /// Pools whose allocation changes.
    pub pools: Vec<PoolChange>,
    /// Lost work that has to be repeated, device-seconds.
    pub lost_device_seconds: Option<u64>,
    /// Cost of the lost work, micro-USD.
    pub lost_micro_usd: Option<i64>,
    /// Change of the fleet's spend rate, micro-USD per hour; negative is a saving.
    pub burn_change_micro_usd_per_hour: Option<i64>,
    /// Effect on cost budgets. The engine leaves this empty; the caller that can read the usage ledger fills it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub budgets: Vec<BudgetChange>,
    /// Spend by workload without and with the plan, the input for `budgets`; not part of the document.
    #[serde(skip)]
    pub spending: Option<Box<[FleetSpending; 2]>>,
}

/// Shown for a job that a plan displaces and that is contested ([`Forecast::contested`]).
pub const CONTESTED: &str = "starts again at once unless another job is admitted first";

impl Forecast {
    /// True when the job's start depends on admission order, so that an unknown start does not mean missing facts.
    pub fn is_contested(&self, job: &JobName) -> bool {
        self.contested.contains(job)
    }
}

/// A change of a job's start time.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StartChange {
    /// The job that starts.
    pub job: JobName,
    /// Devices that it requests.
    pub devices: u32,
    /// Start without the plan; null when not known.
    #[serde(with = "stamp::optional")]
    #[schemars(with = "Option<Moment>")]
    pub before: Option<Moment>,
    /// Start with the plan; null when not known.
    #[serde(with = "stamp::optional")]
    #[schemars(with = "Option<Moment>")]
    pub after: Option<Moment>,
}

impl StartChange {
    /// True when the start moves by a minute or more, the accuracy of a forecast.
    pub fn is_notable(&self) -> bool {
        match (self.before, self.after) {
            (Some(before), Some(after)) => (after.millis() - before.millis()).abs() >= 60_000,
            (before, after) => before != after,
        }
    }

    /// True when the job starts immediately with the plan.
    pub fn is_at_once(&self, now: Moment) -> bool {
        self.after.is_some_and(|after| after <= now)
    }

    /// True when the start moves to an earlier time, or from unknown to known.
    pub fn is_earlier(&self) -> bool {
        let after = self.after;
        after.is_some_and(|after| self.before.is_none_or(|before| after < before))
    }
}

/// A job that the plan displaces.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Displaced {
    /// The job that is displaced.
    pub job: JobName,
    /// Its team; empty in a plan of an older version.
    #[serde(default)]
    pub team: Name,
    /// Its priority; null where not known.
    #[serde(default)]
    pub priority: Option<i32>,
    /// Devices that it releases.
    pub devices: u32,
    /// Work that it loses.
    pub loss: Loss,
    /// When it runs again; null when not known, and for a contested job (see `contested`), which runs at once or later.
    #[serde(with = "stamp::optional")]
    #[schemars(with = "Option<Moment>")]
    pub back: Option<Moment>,
    /// The 10th percentile of that time; null where `back` is, and where the range is not known.
    #[serde(with = "stamp::optional", default)]
    #[schemars(with = "Option<Moment>")]
    pub back_p10: Option<Moment>,
    /// The 90th percentile of that time; null where `back_p10` is.
    #[serde(with = "stamp::optional", default)]
    #[schemars(with = "Option<Moment>")]
    pub back_p90: Option<Moment>,
}

impl Displaced {
    /// Moves its return to `at` where it would be earlier: the plan keeps it waiting until then.
    pub fn not_before(&mut self, at: Moment) {
        for time in [&mut self.back, &mut self.back_p10, &mut self.back_p90] {
            *time = time.map(|time| time.max(at));
        }
    }
}

/// A pool whose allocation changes.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PoolChange {
    /// Name of the pool.
    pub pool: Name,
    /// Devices in the pool.
    pub devices: u32,
    /// Devices allocated without the plan, after the starts that happen anyway.
    pub allocated_before: u32,
    /// Devices allocated with the plan.
    pub allocated_after: u32,
}

/// An alternative to a plan.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Alternative {
    /// The alternative and its cost: `wait 1h52m for nothing`.
    pub sentence: String,
    /// The command that plans it, without the program name; null when there is none.
    pub command: Option<String>,
}

/// One check made before confirming.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanCheck {
    /// Name: `quota`, `budgets`, `rights`, `server dry run`, …
    pub name: String,
    /// Result of the check.
    pub outcome: Outcome,
    /// Details; empty when the check passed.
    pub sentence: String,
}

/// Result of a check.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The plan passed this check.
    Ok,
    /// The plan would fail here.
    Failed,
    /// It depends on a later state of the cluster.
    NotCheckableYet,
    /// Not checked, for lack of a grant or an RBAC permission.
    NotChecked,
}

/// To what extent a plan can be undone.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Undo {
    /// True when every written field can be restored.
    pub possible: bool,
    /// What cannot be restored: placement, lost work.
    pub notes: Vec<String>,
}

/// Why no plan can be made.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refusal {
    pub code: RefusalCode,
    /// What failed and where.
    pub sentence: String,
    pub instead: Vec<String>,
    /// Jobs that are evicted, or would have to be; also those that a job would preempt by starting on its own.
    #[serde(default)]
    pub victims: Vec<Evicted>,
}

/// Reason code of a refusal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RefusalCode {
    /// The backend has no API call for this.
    Unsupported,
    NotFound,
    /// The name fits several objects.
    Ambiguous,
    /// The object is already in that state.
    AlreadySo,
    /// The object is in a state that does not allow this.
    IllegalState,
    /// Another controller owns the object and would revert the change.
    OwnedByAnother,
    /// Required facts are not known.
    Unknown,
    /// A queue's policy forbids it.
    Policy,
    /// It is not possible: no such capacity, or a disruption budget that never allows an eviction.
    Infeasible,
    /// The plan would do more now than was shown.
    Changed,
}

impl Refusal {
    /// A refusal without alternatives.
    pub fn new(code: RefusalCode, sentence: impl Into<String>) -> Self {
        Self {
            code,
            sentence: sentence.into(),
            instead: Vec::new(),
            victims: Vec::new(),
        }
    }

    /// The refusal with the jobs that are evicted, or would have to be.
    #[must_use]
    pub fn evicting(mut self, victims: Vec<Evicted>) -> Self {
        self.victims = victims;
        self
    }

    /// The refusal with one more alternative.
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
    /// Sets the operator's reason: cordoned nodes get it as annotation. An undo restores the earlier annotation.
    pub fn say_why(&mut self, reason: &str) {
        if reason.is_empty() || matches!(self.intent, Intent::Undo { .. }) {
            return;
        }
        for step in &mut self.steps {
            if let Mutation::Cordon { why, .. } = &mut step.mutation {
                reason.clone_into(why);
            }
        }
    }

    /// A plan without steps, for a planner to fill.
    pub fn new(title: impl Into<String>, intent: Intent, computed_at: Moment) -> Self {
        Self {
            version: VERSION,
            title: title.into(),
            intent,
            computed_at,
            revision: None,
            steps: Vec::new(),
            reads: Vec::new(),
            effect: PlanEffect::Unknown {
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

    /// The affected jobs, sorted by name.
    pub fn jobs(&self) -> BTreeMap<JobName, &JobRef> {
        self.steps
            .iter()
            .filter_map(|step| step.job.as_ref())
            .map(|job| (job.name.clone(), job))
            .collect()
    }

    /// True when confirming needs more than a yes: running work is evicted, by its steps or by the scheduler in the forecast; or
    /// a node is uncordoned that something speaks against.
    pub fn needs_typed_name(&self) -> bool {
        // A pod without a job is work too.
        let interrupts = self.steps.iter().any(|step| step.side_effects.interrupts);
        let is_against = |step: &Step| {
            matches!(step.mutation, Mutation::Uncordon) && !step.side_effects.notes.is_empty()
        };
        interrupts || !self.evicts().is_empty() || self.steps.iter().any(is_against)
    }

    /// True when the job's start is that of replicas that the plan adds.
    pub fn adds_replicas(&self, job: &JobName) -> bool {
        let scaled = matches!(self.intent, Intent::Scale { .. });
        let mut jobs = self.steps.iter().filter_map(|step| step.job.as_ref());
        scaled && jobs.any(|own| own.name == *job)
    }

    /// The first failed check.
    pub fn failed_check(&self) -> Option<&PlanCheck> {
        self.checks
            .iter()
            .find(|check| check.outcome == Outcome::Failed)
    }

    /// The text to type to confirm the plan: `CONTEXT/NAME`.
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
            Intent::Hold { target }
            | Intent::Resume { target }
            | Intent::Scale { target, .. }
            | Intent::Evict { pod: target } => target
                .rsplit('/')
                .next()
                .unwrap_or(target.as_str())
                .to_owned(),
            Intent::Rebalance { pool: Some(pool) } => pool.to_string(),
            Intent::Rebalance { pool: None } => "rebalance".to_owned(),
            Intent::Undo { run } => run.clone(),
        };
        format!("{context}/{about}")
    }

    /// Checks the plan as a document: a step that waits for a later one, a number out of range.
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
