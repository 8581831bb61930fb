//! Plans that need the whole fleet: one look at it, and the intent in the words of the command line.

use std::io::Write;
use std::sync::Arc;

use crate::cli::out;
use crate::cli::setup::{self, Situation};
use crate::runtime::action_service::pod_scalers;
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

/// The fleet as it was looked at.
pub(in crate::cli) struct Seen {
    /// For the engine.
    pub(in crate::cli) snapshot: Snapshot,
    /// What is not known of it.
    pub(in crate::cli) gaps: Vec<String>,
    pub(in crate::cli) facts: Facts,
}

impl Seen {
    /// Looks once.
    ///
    /// # Errors
    /// The cluster cannot be reached, or its nodes or pods are not known: no plan is made over missing facts.
    pub(in crate::cli) fn of(at: &Situation) -> Result<Self, Failure> {
        let facts = setup::snapshot(&whole(at), &Needs::decision())?;
        let mut gaps = table::gaps(&facts)?;
        gaps.extend(table::silent(&facts, Kind::Fleet));
        Ok(Self::with(facts, gaps))
    }

    /// Looks once, where as much may be told as may be seen.
    ///
    /// # Errors
    /// The cluster cannot be reached, or nothing of it may be read.
    pub(in crate::cli) fn told(at: &Situation) -> Result<Self, Failure> {
        let facts = setup::snapshot(&whole(at), &Needs::decision())?;
        let lost = table::losses(&facts, Kind::Fleet);
        let gaps = lost.into_iter().map(|(_, said)| said).collect();
        Ok(Self::with(facts, gaps))
    }

    fn with(facts: Facts, gaps: Vec<String>) -> Self {
        Self {
            snapshot: live::snapshot(&facts.fleet, &facts.burn),
            gaps,
            facts,
        }
    }

    /// Who would have to go so that a job could start now, and of the changes that would start it those that the plan would do: nobody
    /// where the plan that evicts them would not start it.
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
        let (fleet, burn) = (&self.facts.fleet, &self.facts.burn);
        let now = plan
            .as_ref()
            .and_then(|_| explanations::now(fleet, burn, &self.snapshot, &key));
        explanations::as_planned(explained, now.as_ref(), |_| plan.is_some());
        now
    }

    /// What its own queueing system or scheduler says of why a job waits.
    pub(in crate::cli) fn said_of(&self, name: &str) -> Option<String> {
        let named = self.facts.fleet.job_named(name);
        let job = named.filter(|job| !job.reason.is_empty())?;
        Some(job.reason.to_string())
    }

    /// The plan of an intent, with what is not known said in it; `known` leave by one that was shown before.
    ///
    /// # Errors
    /// As [`plan::plan_again`].
    pub(super) fn plan(
        &self,
        intent: &Intent,
        author: &Author,
        known: &Known,
    ) -> Result<Plan, Refusal> {
        plan::scale::check_owner(&self.snapshot, intent, pod_scalers(&self.facts))?;
        let mut plan = plan::plan_again(&self.snapshot, intent, author, known)?;
        plan.warnings.extend(self.gaps.iter().cloned());
        self.warn(&mut plan);
        table::budgets::foretell(&self.facts, &mut plan);
        Ok(plan)
    }

    /// Adds to a plan what keeps the nodes that it opens out of service still.
    pub(super) fn warn(&self, plan: &mut Plan) {
        let faulty = opens_faulty(&self.facts.fleet.findings, plan);
        plan.warnings.extend(faulty);
    }

    /// Adds to a plan what the engine makes of it.
    pub(super) fn foretell(&self, plan: &mut Plan) {
        plan::foretell(&self.snapshot, plan);
        table::budgets::foretell(&self.facts, plan);
    }
}

/// What reads the fleet anew while a run is judged.
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

/// The same situation, with every namespace that may be read: what is free, and who is before whom, does not end at a
/// namespace.
fn whole(at: &Situation) -> Situation {
    let mut whole = at.clone();
    whole.every_namespace = true;
    whole
}

/// Looks at the fleet where the action needs it, or is told better with it.
pub(super) fn look(at: &Situation, action: &Action) -> Result<Option<Seen>, Failure> {
    match action {
        Action::Continue { .. } => Ok(None),
        // These need the journal or one object alone. With the fleet, the plan says more.
        Action::Undo { .. }
        | Action::Hold { .. }
        | Action::Resume { .. }
        | Action::Scale { .. }
        | Action::Reprioritise { .. } => Ok(Seen::of(at).ok()),
        _ => Seen::of(at).map(Some),
    }
}

/// Namespace of names that come without, where no kubeconfig says one.
const NAMESPACE: &str = "default";

/// What is to be scaled, and to which number of replicas.
///
/// # Errors
/// It is written otherwise.
pub(super) fn scale(words: &[String]) -> Result<(String, u32), Failure> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    words::scale(&words).map_err(|message| Failure::new(Exit::Usage, message))
}

/// Prints the plan of an action on a moment of a record.
///
/// # Errors
/// The record cannot be read, or the action needs more than it tells.
pub(super) fn on_record(
    at: &Situation,
    action: &Action,
    format: PlanFormat,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let seen = Seen::of(at)?;
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

/// The intent of an action; `namespace` is that of names that come without.
pub(super) fn intent(
    snapshot: &Snapshot,
    namespace: &str,
    action: &Action,
) -> Result<Intent, Unseen> {
    let usage = |message: String| Unseen::Failed(Failure::new(Exit::Usage, message));
    let job = |text: &str| -> Result<JobName, Unseen> {
        match text.contains('/') {
            true => words::job(text).map_err(usage),
            false => words::job(&format!("{namespace}/{text}")).map_err(usage),
        }
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
