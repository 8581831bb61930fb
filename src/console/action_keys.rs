//! Action keys (capital letters): the selected or marked object becomes an intent. Nothing here changes a cluster.

use model::plan::{Intent, KnownVictims, Plan, Refusal};
use plan::actions::{Availability, ObjectKind, PlannedFrom, Selected, SelectedObject, SelectedRun};
use plan::grant::Confirmation;
use table::Facts;
use table::actions::{RunRow, RunState};
use table::navigation::Selection;

use super::commands::Command;

pub use plan::actions::{ActionName, ActionRequest};

/// A request for a plan. The number matches an outcome to its request.
#[derive(Clone, PartialEq, Debug)]
pub struct PlanRequest {
    /// Number of the request.
    pub number: u64,
    pub intent: Intent,
    /// The victims that the operator has seen: those of the shown plan, or those on the job's page.
    pub known: KnownVictims,
}

/// The result of a plan request.
#[derive(Clone, PartialEq, Debug)]
pub enum PlanOutcome {
    /// A plan, with its checks.
    Plan(Box<Plan>),
    Refused(Refusal),
    /// Failed: no answer from the server.
    Failed(String),
}

/// A plan that its operator has confirmed.
#[derive(Clone, PartialEq, Debug)]
pub struct ConfirmedPlan {
    /// Number of the plan request.
    pub number: u64,
    /// The plan as it was shown.
    pub plan: Plan,
    /// How the operator confirmed it.
    pub confirmation: Confirmation,
}

impl Command {
    /// True for a command that opens a plan.
    pub const fn opens_plan(self) -> bool {
        matches!(self, Self::Action(_))
    }
}

/// A selection as actions see it.
fn object(selection: &Selection) -> SelectedObject {
    match selection.clone() {
        Selection::Job(id) => SelectedObject::Job(id),
        Selection::Pod(key) => SelectedObject::Pod(key),
        Selection::Node(name) => SelectedObject::Node(name),
        Selection::Device(node, index) => SelectedObject::Device(node, index),
        Selection::Pool(name) => SelectedObject::Pool(name),
        Selection::Queue(name) => SelectedObject::Queue(name),
        Selection::Run(_) => SelectedObject::Run,
        Selection::Finding(_)
        | Selection::Source(_)
        | Selection::Cohort(_)
        | Selection::Cost(..) => SelectedObject::Other,
    }
}

/// Calls `work` with selections as actions see them.
fn with_selected<T>(
    selections: &[Selection],
    facts: &Facts,
    work: impl FnOnce(&Selected<'_>) -> T,
) -> T {
    let objects: Vec<SelectedObject> = selections.iter().map(object).collect();
    let run = match selections {
        [Selection::Run(name)] => facts.acts.run(name),
        _ => facts.acts.runs.first(),
    };
    let run = run.map(|run: &RunRow| SelectedRun {
        name: run.name.clone(),
        state: run.state.name(),
        can_continue: run.state.can_go_on(),
        undone: (run.state == RunState::Undone).then(|| run.words.clone()),
    });
    let can_start = |id: &_| {
        let explanation = facts.answers.job(id);
        explanation.is_some_and(|explanation| explanation.now.is_some())
    };
    work(&Selected {
        fleet: &facts.fleet,
        objects: &objects,
        run,
        can_start: &can_start,
    })
}

/// Commands that fit the selected object, most likely first.
pub fn fitting(selection: &Selection) -> impl Iterator<Item = Command> {
    let kind = object(selection).kind();
    let fits = move |name: &ActionName| kind.is_some_and(|kind| name.spec().fits.contains(&kind));
    let actions = ActionName::ALL.iter().copied().filter(fits);
    let shell = (kind == Some(ObjectKind::Node)).then_some(Command::Shell);
    actions.map(Command::Action).chain(shell)
}

/// What a command does to an object, in a word.
pub fn title(command: Command, selection: &Selection) -> &'static str {
    let run_title = match (command, selection) {
        (Command::Action(name), Selection::Run(_)) => name.spec().run_title,
        _ => None,
    };
    run_title.unwrap_or(command.spec().title)
}

/// Whether a command can have an effect on the object in its present state.
pub fn availability(command: Command, selection: &Selection, facts: &Facts) -> Availability {
    match command {
        Command::Action(name) => {
            let selection = std::slice::from_ref(selection);
            with_selected(selection, facts, |selected| {
                match name.spec().availability(selected) {
                    // What would be refused cannot apply.
                    Availability::Available if (name.spec().request)(selected).is_err() => {
                        Availability::Hidden
                    }
                    known => known,
                }
            })
        }
        _ => Availability::Available,
    }
}

/// Why no plan of a command can be made, in a few words: what it is made from is not visible to the user.
pub fn unplannable(command: Command, facts: &Facts) -> Option<String> {
    match command {
        Command::Action(name) if name.spec().planned_from == PlannedFrom::Fleet => {
            table::unplannable(facts)
        }
        _ => None,
    }
}

/// Why a command is not possible: no plan can be made for it, or writing is not allowed.
pub fn barred(command: Command, facts: &Facts) -> Option<String> {
    unplannable(command, facts).or_else(|| facts.acts.barred(command.spec().name))
}

/// What an action asks for on the selected objects.
///
/// # Errors
/// The action does not fit: the text names what would. Or no plan can be made: the text says why.
pub fn action_for(
    name: ActionName,
    selections: &[Selection],
    facts: &Facts,
) -> Result<ActionRequest, String> {
    if let Some(why) = unplannable(Command::Action(name), facts) {
        return Err(format!("{why}: no plan can be made without them"));
    }
    with_selected(selections, facts, name.spec().request)
}
