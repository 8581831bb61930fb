//! Plans that need a snapshot of the whole fleet, and the intents of the command line's words.

use std::io::Write;
use std::sync::Arc;

use crate::cli::out;
use crate::cli::setup::{self, Situation};
use crate::runtime::aftermath::FleetLook;
use crate::runtime::past_plans::plannable;
use engine::explain::Explanation;
use engine::live;
use engine::snapshot::Snapshot;
use exec::look::Unseen;
use model::base::{Exit, Failure, Name, SmallSort};
use model::fleet::job::JobKey;
use model::plan::{Intent, JobName, Known, Plan, Refusal};
use plan::{self, Author, words};
use table::actions::opens_faulty;
use table::explanations::{self, Now};
use table::{self, Facts, Kind, Needs};

use super::show::{printed, refused};
use super::{Action, PlanFormat};

/// The fleet at one look.
pub(in crate::cli) struct Seen {
    /// Input of the engine.
    pub(in crate::cli) snapshot: Snapshot,
    /// What the snapshot lacks.
    pub(in crate::cli) gaps: Vec<String>,
    pub(in crate::cli) facts: Facts,
}

impl Seen {
    /// Reads the fleet once, for a decision.
    ///
    /// # Errors
    /// The cluster cannot be reached, or its nodes or pods are unknown: no plan is made with missing facts.
    pub(in crate::cli) fn of(
        at: &Situation,
        err: &mut (dyn Write + Send),
    ) -> Result<Self, Failure> {
        let facts = setup::snapshot(&whole(at), &Needs::decision(), err)?;
        let mut gaps = table::gaps(&facts)?;
        gaps.extend(table::silent(&facts, Kind::Fleet));
        Ok(Self::with(facts, gaps))
    }

    /// Reads the fleet once, for a report: with missing facts it shows the known ones.
    ///
    /// # Errors
    /// The cluster cannot be reached, or nothing may be read.
    pub(in crate::cli) fn for_decision(
        at: &Situation,
        err: &mut (dyn Write + Send),
    ) -> Result<Self, Failure> {
        let facts = setup::snapshot(&whole(at), &Needs::decision(), err)?;
        let lost = table::losses(&facts, Kind::Fleet);
        let gaps = lost.into_iter().map(|(_, said)| said).collect();
        Ok(Self::with(facts, gaps))
    }

    fn with(facts: Facts, gaps: Vec<String>) -> Self {
        Self {
            snapshot: live::snapshot(&facts.fleet, &facts.spend_rates),
            gaps,
            facts,
        }
    }

    /// The evictions with which a job could start now, and those repairs that a plan would really apply; no evictions
    /// where the plan with them would not start the job.
    pub(in crate::cli) fn as_planned(&self, explained: &mut Explanation) -> Option<Now> {
        let intent = Intent::Admit {
            job: explained.job.clone(),
            preempt: true,
        };
        let plan = plan::plan(&self.snapshot, &intent, &Author::default()).ok();
        let key = JobKey {
            key: explained.job.0.clone(),
            kind: explained.kind.clone(),
        };
        let (fleet, burn) = (&self.facts.fleet, &self.facts.spend_rates);
        let now = plan
            .as_ref()
            .and_then(|_| explanations::now(fleet, burn, &self.snapshot, &key));
        explanations::as_planned(explained, now.as_ref(), |_| plan.is_some());
        now
    }

    /// The reason for which the job's queueing system or scheduler keeps it pending.
    pub(in crate::cli) fn said_of(&self, name: &str) -> Option<String> {
        let named = self.facts.fleet.job_named(name);
        let job = named.filter(|job| !job.reason.is_empty())?;
        Some(job.reason.to_string())
    }

    /// How long a job has waited, and how long ago it was created.
    pub(in crate::cli) fn waited_words(&self, name: &str) -> Option<String> {
        let job = self.facts.fleet.job_named(name)?;
        let now = self.facts.now;
        table::jobs::waited_words(job, |at| now.since(at).to_string())
    }

    /// Which of two priorities of a job of `govern` counts, where its label and its annotation differ.
    pub(in crate::cli) fn priority_words(&self, name: &str) -> Option<String> {
        let job = self.facts.fleet.job_named(name)?;
        job.govern.as_ref()?.priority_words()
    }

    /// The plan of an intent, with the gaps of the snapshot as notes; `known` are evictions of a plan that was shown before.
    ///
    /// # Errors
    /// As [`plan::plan_again`].
    pub(super) fn plan(
        &self,
        intent: &Intent,
        author: &Author,
        known: &Known,
    ) -> Result<Plan, Refusal> {
        plan::scale::check_owner(&self.snapshot, intent, &self.facts.fleet.scaling)?;
        let mut plan = plan::plan_again(&self.snapshot, intent, author, known)?;
        plan.warnings.extend(self.gaps.iter().cloned());
        self.warn(&mut plan);
        table::budgets::foretell(&self.facts, &mut plan);
        Ok(plan)
    }

    /// Adds to a plan the findings that still keep out of service the nodes that it uncordons.
    pub(super) fn warn(&self, plan: &mut Plan) {
        let faulty = opens_faulty(&self.facts.fleet.findings, plan);
        plan.warnings.extend(faulty);
    }

    /// Adds the engine's forecast to a plan.
    pub(super) fn foretell(&self, plan: &mut Plan) {
        plan::foretell(&self.snapshot, plan);
        table::budgets::foretell(&self.facts, plan);
    }
}

/// A function that reads the fleet again while a run is checked.
pub(super) fn looking(at: &Situation) -> FleetLook {
    let at = whole(at);
    Arc::new(move || {
        let at = at.clone();
        Box::pin(async move {
            setup::read(&at, &Needs::decision())
                .await
                .ok()
                .map(Arc::new)
        })
    })
}

/// The same situation with every readable namespace: free devices and queue order are not limited to one
/// namespace.
fn whole(at: &Situation) -> Situation {
    let mut whole = at.clone();
    whole.every_namespace = true;
    whole
}

/// Looks at the fleet where the action needs it, or its plan is more complete with it.
pub(super) fn look(
    at: &Situation,
    action: &Action,
    err: &mut (dyn Write + Send),
) -> Result<Option<Seen>, Failure> {
    match action {
        Action::Continue { .. } => Ok(None),
        // These need only the journal or one object. With the fleet, the plan is more complete.
        Action::Undo { .. }
        | Action::Hold { .. }
        | Action::Resume { .. }
        | Action::Scale { .. }
        | Action::Reprioritise { .. } => Ok(Seen::of(at, err).ok()),
        _ => Seen::of(at, err).map(Some),
    }
}

/// Namespace of names without one, where no kubeconfig sets it.
const NAMESPACE: &str = "default";

/// The object to scale, and its number of replicas.
///
/// # Errors
/// The words have another form.
pub(super) fn scale(words: &[String]) -> Result<(String, u32), Failure> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    words::scale(&words).map_err(|message| Failure::new(Exit::Usage, message))
}

/// Prints the plan of an action on a past time of a record.
///
/// # Errors
/// The record cannot be read, or lacks what the action needs.
pub(super) fn on_record(
    at: &Situation,
    action: &Action,
    format: PlanFormat,
    out: &mut dyn Write,
    err: &mut (dyn Write + Send),
) -> Result<Exit, Failure> {
    let seen = Seen::of(at, err)?;
    let namespace = match at.settings.scope.namespaces.as_slice() {
        [one] => one.as_str(),
        _ => NAMESPACE,
    };
    let made = intent(&seen.snapshot, namespace, action).and_then(|intent| {
        plannable(&intent).map_err(Unseen::Failed)?;
        Ok(seen.plan(&intent, &Author::default(), &Known::default())?)
    });
    match made {
        Ok(plan) => {
            out::write(out, &printed(&plan, Some(&seen.facts.context), format))?;
            Ok(Exit::Done)
        }
        Err(Unseen::Failed(failure)) => Err(failure),
        Err(Unseen::Refused(refusal)) => refused(&refusal, seen.snapshot.at, format, out),
    }
}

/// The only job with this bare name, with its namespace, if no job in `namespace` and no queue has the name.
pub(super) fn elsewhere(snapshot: &Snapshot, namespace: &str, name: &str) -> Option<String> {
    let found = engine::explanations::find(snapshot, name).ok()?;
    let key = &snapshot.workloads[found].key.key;
    let is_queue = snapshot.queues.iter().any(|queue| *queue.name == *name);
    (*key.namespace != *namespace && !is_queue).then(|| key.to_string())
}

/// The intent of an action; `namespace` applies to names without one.
pub(super) fn intent(
    snapshot: &Snapshot,
    namespace: &str,
    action: &Action,
) -> Result<Intent, Unseen> {
    let usage = |message: String| Unseen::Failed(Failure::new(Exit::Usage, message));
    let job = |text: &str| -> Result<JobName, Unseen> {
        let whole = match text.contains('/') {
            true => text.to_owned(),
            false => elsewhere(snapshot, namespace, text)
                .unwrap_or_else(|| format!("{namespace}/{text}")),
        };
        words::job(&whole).map_err(usage)
    };
    let places = |places: &[String]| -> Result<Vec<Name>, Unseen> {
        let mut all = Vec::new();
        for place in places {
            all.extend(words::nodes(snapshot, place)?);
        }
        all.small_sort();
        all.dedup();
        Ok(all)
    };
    Ok(match action {
        Action::Drain { nodes, deadline } => Intent::Drain {
            nodes: places(nodes)?,
            deadline: match deadline {
                Some(text) => Some(words::deadline(text, snapshot.at).map_err(usage)?),
                None => None,
            },
        },
        Action::Cordon { nodes } => Intent::Cordon {
            nodes: places(nodes)?,
            reason: String::new(),
        },
        Action::Uncordon { nodes } => Intent::Uncordon {
            nodes: places(nodes)?,
        },
        Action::Preempt { job: name } => Intent::Preempt { job: job(name)? },
        Action::Requeue { job: name } => Intent::Requeue { job: job(name)? },
        Action::Admit { job: name, preempt } => Intent::Admit {
            job: job(name)?,
            preempt: *preempt,
        },
        Action::Rebalance { pool } => Intent::Rebalance {
            pool: pool
                .as_deref()
                .map(|pool| Name::new(pool.strip_prefix("pool/").unwrap_or(pool))),
        },
        Action::Hold { target } => Intent::Hold {
            target: target.clone(),
        },
        Action::Resume { target } => Intent::Resume {
            target: target.clone(),
        },
        Action::Scale { words } => {
            let (target, replicas) = scale(words).map_err(Unseen::Failed)?;
            let target = match target.contains('/') {
                true => target,
                false => format!("{namespace}/{target}"),
            };
            Intent::Scale { target, replicas }
        }
        Action::Reprioritise {
            job: name,
            priority,
        } => Intent::Reprioritise {
            job: job(name)?,
            priority: priority.clone(),
        },
        Action::Undo { run } | Action::Continue { run } => Intent::Undo { run: run.clone() },
    })
}
