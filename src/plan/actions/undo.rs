//! `undo`: takes back what a run has changed. Its plan is made from the journal.

use clap::Args;
use model::plan::{Intent, Plan, Refusal, RefusalCode};

use super::{
    ActionRequest, ActionSpec, Availability, NameResolver, ObjectKind, ParseError, PlannedFrom,
    PlannerInput, Selected, Values,
};

/// Undo what a run has changed
#[derive(Args, Clone, PartialEq, Eq, Debug)]
pub struct UndoArguments {
    /// ID of the run, from `plan --log`
    pub run: String,
}

pub(super) const SPEC: ActionSpec = ActionSpec {
    verb: "undo",
    planned_from: PlannedFrom::Journal,
    completes: &[("run", Values::Runs)],
    command: "undo",
    key: Some("U"),
    done_by: None,
    title: "undo",
    run_title: None,
    doc: "plan: undo the selected run, or the last one",
    fits: &[ObjectKind::Run],
    rights: &[],
    request,
    availability,
};

impl UndoArguments {
    pub(super) fn intent(&self, _: &NameResolver<'_>) -> Result<Intent, ParseError> {
        let run = self.run.clone();
        Ok(Intent::Undo { run })
    }
}

fn request(selected: &Selected<'_>) -> Result<ActionRequest, String> {
    let run = selected.run.as_ref().ok_or("no run to undo")?;
    match &run.undone {
        Some(words) => Err(format!("{} is already undone: {words}", run.name)),
        None => Ok(ActionRequest::Intent(Intent::Undo {
            run: run.name.clone(),
        })),
    }
}

fn availability(selected: &Selected<'_>) -> Availability {
    match selected
        .run
        .as_ref()
        .is_some_and(|run| run.undone.is_some())
    {
        true => Availability::Hidden,
        false => Availability::Available,
    }
}

pub(super) fn plan(_: &PlannerInput<'_>, run: &str) -> Result<Plan, Refusal> {
    let sentence = format!("what {run} did is in the journal, not in the fleet");
    Err(Refusal::new(RefusalCode::Unknown, sentence)
        .instead(format!("`plan undo {run}` reads the journal")))
}
