//! Plans that need a snapshot of the whole fleet, and the intents of the command line's words.

use std::io::Write;
use std::sync::Arc;

use crate::cli::common::out;
use crate::cli::common::setup::{self, Situation};
use crate::runtime::actions::past_plans::plannable;
use crate::runtime::actions::run_outcome::FleetLook;
use engine::snapshot::Snapshot;
use engine::{explanations, live};
use exec::target_reader::Unseen;
use model::base::{Exit, Failure};
use model::plan::{Intent, KnownVictims, Plan, Refusal};
use plan::actions::{ActionArguments, NameResolver, ParseError, PlannedFrom};
use plan::{self, Author};
use table::actions::opens_faulty;
use table::waiting::explanations::JobExplanation;
use table::{self, Facts, Kind, Needs};

use super::show::{plan_text, report_refusal};
use super::{PlanCommand, PlanFormat};

/// The fleet at one look.
pub(in crate::cli) struct FleetRead {
    /// Input of the engine.
    pub(in crate::cli) snapshot: Snapshot,
    /// What the snapshot lacks.
    pub(in crate::cli) gaps: Vec<String>,
    pub(in crate::cli) facts: Facts,
}

impl FleetRead {
    /// Reads the fleet once, for a decision.
    ///
    /// # Errors
    /// The cluster cannot be reached, or its nodes or pods are unknown: no plan is made with missing facts.
    pub(in crate::cli) fn for_decision(
        situation: &Situation,
        err: &mut (dyn Write + Send),
    ) -> Result<Self, Failure> {
        let facts = setup::snapshot(&whole(situation), &Needs::decision(), err)?;
        let mut gaps = table::gaps(&facts)?;
        gaps.extend(table::silent(&facts, Kind::Fleet));
        Ok(Self::with(facts, gaps))
    }

    /// Reads the fleet once, for a report: with missing facts it shows the known ones.
    ///
    /// # Errors
    /// The cluster cannot be reached, or nothing may be read.
    pub(in crate::cli) fn for_report(
        situation: &Situation,
        err: &mut (dyn Write + Send),
    ) -> Result<Self, Failure> {
        let facts = setup::snapshot(&whole(situation), &Needs::decision(), err)?;
        let lost = table::losses(&facts, Kind::Fleet);
        let gaps = lost.into_iter().map(|(_, message)| message).collect();
        Ok(Self::with(facts, gaps))
    }

    fn with(facts: Facts, gaps: Vec<String>) -> Self {
        Self {
            snapshot: live::snapshot(&facts.fleet, &facts.spend_rates),
            gaps,
            facts,
        }
    }

    /// Why a job waits, and what starts it; or that no job has the name, or several have it.
    pub(in crate::cli) fn explain(&self, name: &str) -> Result<JobExplanation, String> {
        let (fleet, burn) = (&self.facts.fleet, &self.facts.spend_rates);
        let work = explanations::find(&self.snapshot, name);
        let work = work.map_err(|message| match fleet.confined() {
            Some(confined) => format!("{message} ({confined})"),
            None => message,
        })?;
        Ok(JobExplanation::of(fleet, burn, &self.snapshot, work))
    }

    /// The plan of an intent, with the gaps of the snapshot as notes; `known` are evictions of a plan that was shown before.
    ///
    /// # Errors
    /// As [`plan::plan_again`].
    pub(super) fn plan(
        &self,
        intent: &Intent,
        author: &Author,
        known: &KnownVictims,
    ) -> Result<Plan, Refusal> {
        plan::scale::check_owner(&self.snapshot, intent, &self.facts.fleet.scaling)?;
        let mut plan = plan::plan_again(&self.snapshot, intent, author, known)?;
        plan.warnings.extend(self.gaps.iter().cloned());
        self.warn(&mut plan);
        table::budgets::add_forecast(&self.facts, &mut plan);
        Ok(plan)
    }

    /// Where names without a namespace are in `namespace`.
    pub(super) const fn names<'a>(&'a self, namespace: &'a str) -> NameResolver<'a> {
        NameResolver {
            snapshot: &self.snapshot,
            namespace: Some(namespace),
        }
    }

    /// Adds to a plan the findings that still keep out of service the nodes that it uncordons.
    pub(super) fn warn(&self, plan: &mut Plan) {
        let faulty = opens_faulty(&self.facts.fleet.findings, plan);
        plan.warnings.extend(faulty);
    }

    /// Adds the engine's forecast to a plan.
    pub(super) fn add_forecast(&self, plan: &mut Plan) {
        plan::add_forecast(&self.snapshot, plan);
        table::budgets::add_forecast(&self.facts, plan);
    }
}

/// A function that reads the fleet again while a run is checked.
pub(super) fn fleet_reader(situation: &Situation) -> FleetLook {
    let situation = whole(situation);
    Arc::new(move || {
        let situation = situation.clone();
        Box::pin(async move {
            setup::read(&situation, &Needs::decision())
                .await
                .ok()
                .map(Arc::new)
        })
    })
}

/// The same situation with every readable namespace: free devices and queue order are not limited to one namespace.
fn whole(situation: &Situation) -> Situation {
    let mut whole = situation.clone();
    whole.every_namespace = true;
    whole
}

/// Reads the fleet for a command whose plan needs the fleet, or is more complete with it. `None` for a command without a plan, and when
/// a plan that does not need the fleet could not read it.
pub(super) fn read_for(
    situation: &Situation,
    command: &PlanCommand,
    err: &mut (dyn Write + Send),
) -> Result<Option<FleetRead>, Failure> {
    let PlanCommand::Action(action) = command else {
        return Ok(None);
    };
    match action.spec().planned_from {
        PlannedFrom::Fleet => FleetRead::for_decision(situation, err).map(Some),
        // These need only the journal or one object. With the fleet, the plan is more complete.
        PlannedFrom::Journal | PlannedFrom::Object | PlannedFrom::ObjectOrFleet => {
            Ok(FleetRead::for_decision(situation, err).ok())
        }
    }
}

/// Namespace of names without one, where no kubeconfig sets it.
const NAMESPACE: &str = "default";

/// Prints the plan of an action on a past time of a record.
///
/// # Errors
/// The record cannot be read, or lacks what the action needs.
pub(super) fn on_record(
    situation: &Situation,
    action: &ActionArguments,
    format: PlanFormat,
    out: &mut dyn Write,
    err: &mut (dyn Write + Send),
) -> Result<Exit, Failure> {
    let seen = FleetRead::for_decision(situation, err)?;
    let namespace = match situation.settings.scope.namespaces.as_slice() {
        [one] => one.as_str(),
        _ => NAMESPACE,
    };
    let made = intent(&seen.names(namespace), action).and_then(|intent| {
        plannable(action.spec().planned_from).map_err(Unseen::Failed)?;
        Ok(seen.plan(&intent, &Author::default(), &KnownVictims::default())?)
    });
    match made {
        Ok(plan) => {
            out::write(out, &plan_text(&plan, Some(&seen.facts.context), format))?;
            Ok(Exit::Done)
        }
        Err(Unseen::Failed(failure)) => Err(failure),
        Err(Unseen::Refused(refusal)) => report_refusal(&refusal, seen.snapshot.at, format, out),
    }
}

/// The intent of an action.
///
/// # Errors
/// It is refused, or an argument has another form.
pub(super) fn intent(names: &NameResolver<'_>, action: &ActionArguments) -> Result<Intent, Unseen> {
    action.intent(names).map_err(|error| match error {
        ParseError::Usage(message) => Unseen::Failed(Failure::new(Exit::Usage, message)),
        ParseError::Refused(refusal) => refusal.into(),
    })
}
