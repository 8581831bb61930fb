//! The registry of actions, one file a verb: its grammar, what completes on the command line, its intent and its planner.
//!
//! The command line (`stokehold plan`), `engine plan --intent` and the palette parse an action by the same clap structs
//! ([`Action`]). An [`Intent`] has one action, and the compiler checks that each has one.

mod admit;
mod cordon;
mod drain;
mod hold;
mod names;
mod preempt;
mod rebalance;
mod reprioritise;
mod requeue;
mod resume;
mod scale;
mod uncordon;
mod undo;

use clap::Subcommand;
use engine::snapshot::Snapshot;
use model::plan::{Intent, Known, Plan, Refusal};

use super::Author;

pub use names::{Names, ParseError, action, intent, split, usage};

/// What a plan of an action is made from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlannedFrom {
    /// A snapshot of the whole fleet.
    Fleet,
    /// The object as it is read then; the fleet adds a forecast.
    Object,
    /// The object as it is read then, or the fleet where there is no cluster to read.
    ObjectOrFleet,
    /// The journal of runs.
    Journal,
}

/// What completes an argument on the command line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Values {
    Jobs,
    /// Jobs that wait or are suspended.
    WaitingJobs,
    /// Jobs that have devices.
    RunningJobs,
    /// Jobs, and queues after `queue/`.
    JobsAndQueues,
    /// Workloads that have a number of replicas, as the first of the words.
    Scalable,
    PriorityClasses,
    Nodes,
    Pools,
    Runs,
}

/// What is the same in each use of an action.
#[derive(Debug)]
pub struct ActionSpec {
    /// Its name on the command line, and in a plan's JSON as `intent.action`.
    pub verb: &'static str,
    pub planned_from: PlannedFrom,
    /// What completes its arguments, by the argument's name.
    pub completes: &'static [(&'static str, Values)],
}

/// What a planner decides by.
pub(crate) struct PlannerInput<'a> {
    pub snapshot: &'a Snapshot,
    pub author: &'a Author,
    /// Victims of a plan that was shown before.
    pub known: &'a Known,
}

macro_rules! actions {
    ($($module:ident $action:ident { $($field:ident),* };)*) => {
        /// An action as it is typed.
        #[derive(Subcommand, Clone, PartialEq, Eq, Debug)]
        pub enum Action { $($action($module::$action),)* }

        /// Every action, in the order of help and of the hint line.
        pub const ACTIONS: &[&ActionSpec] = &[$(&$module::SPEC,)*];

        impl Action {
            /// Its entry in the registry.
            pub const fn spec(&self) -> &'static ActionSpec {
                match self { $(Self::$action(_) => &$module::SPEC,)* }
            }

            /// What is asked for.
            ///
            /// # Errors
            /// An argument has another form, or names something that does not exist.
            pub fn intent(&self, names: &Names<'_>) -> Result<Intent, ParseError> {
                match self { $(Self::$action(typed) => typed.intent(names),)* }
            }
        }

        /// The action of an intent.
        pub const fn spec_of(intent: &Intent) -> &'static ActionSpec {
            match intent { $(Intent::$action { .. } => &$module::SPEC,)* }
        }

        /// The plan of an intent, from its action's planner.
        ///
        /// # Errors
        /// Why there is no plan, and what can be done instead.
        pub(super) fn plan(on: &PlannerInput<'_>, intent: &Intent) -> Result<Plan, Refusal> {
            match intent { $(Intent::$action { $($field),* } => $module::plan(on, $($field),*),)* }
        }
    };
}

actions! {
    undo Undo { run };
    reprioritise Reprioritise { job, priority };
    scale Scale { target, replicas };
    preempt Preempt { job };
    admit Admit { job, preempt };
    drain Drain { nodes, deadline };
    hold Hold { target };
    resume Resume { target };
    cordon Cordon { nodes, reason };
    uncordon Uncordon { nodes };
    requeue Requeue { job };
    rebalance Rebalance { pool };
}

pub use hold::Hold;
pub use reprioritise::Reprioritise;
pub use resume::Resume;
pub use scale::Scale;
pub use undo::Undo;

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[derive(clap::Parser)]
    struct All {
        #[command(subcommand)]
        _action: Action,
    }

    #[test]
    fn the_grammar_and_the_registry_say_the_same() {
        let grammar = All::command();
        let typed: Vec<&str> = grammar
            .get_subcommands()
            .map(clap::Command::get_name)
            .collect();
        let verbs: Vec<&str> = ACTIONS.iter().map(|spec| spec.verb).collect();
        assert_eq!(typed, verbs);
        for (spec, command) in ACTIONS.iter().zip(grammar.get_subcommands()) {
            assert!(
                command.get_about().is_some(),
                "{} says what it does",
                spec.verb
            );
            for argument in command.get_positionals() {
                let id = argument.get_id().as_str();
                assert!(
                    spec.completes.iter().any(|(name, _)| *name == id),
                    "{} {id} completes",
                    spec.verb
                );
            }
        }
    }

    #[test]
    fn a_line_is_split_as_a_shell_splits_it() {
        assert_eq!(action("plan drain 'a' \"b\""), action("drain a b"));
        assert!(action("drain 'a").is_err(), "an open quotation");
        assert!(action("").expect_err("nothing").contains("drain"));
        let wrong = action("explode x").expect_err("no such action");
        assert!(
            wrong.contains("explode") && !wrong.contains('\n'),
            "{wrong}"
        );
    }
}
