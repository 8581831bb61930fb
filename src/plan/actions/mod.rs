//! The registry of actions, one file a verb: its grammar, what completes on the command line, its intent, its planner, its key,
//! the objects that it is offered for and the rights that it needs.
//!
//! The command line (`stokehold plan`), `engine plan --intent` and the palette parse an action by the same clap structs
//! ([`ActionArguments`]). An [`Intent`] has one action, and the compiler checks that each has one.

mod admit;
mod cordon;
mod drain;
mod evict;
mod hold;
mod names;
mod preempt;
mod rebalance;
mod reprioritise;
mod requeue;
mod resume;
mod scale;
mod selected;
mod uncordon;
mod undo;

use clap::Subcommand;
use engine::snapshot::Snapshot;
use model::plan::{Intent, KnownVictims, Plan, Refusal};

use super::Author;

pub use names::{NameResolver, ParseError, action, command_line, intent, split, usage};
pub use selected::{
    ActionRequest, Availability, ObjectKind, Selected, SelectedObject, SelectedRun, has_replicas,
};

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
    Pods,
    Pools,
    Runs,
}

/// Properties that are the same in each use of an action.
#[derive(Debug)]
pub struct ActionSpec {
    /// Its name on the command line, and in a plan's JSON as `intent.action`.
    pub verb: &'static str,
    pub planned_from: PlannedFrom,
    /// What completes its arguments, by the argument's name.
    pub completes: &'static [(&'static str, Values)],
    /// Its name in key files and in the palette.
    pub command: &'static str,
    /// The key that asks for it in the console, unless a key file says otherwise.
    pub key: Option<&'static str>,
    /// The action whose key does the same, as `hold` also resumes held jobs.
    pub done_by: Option<ActionName>,
    /// One word for the hint line.
    pub title: &'static str,
    /// That word where the object is a run of the journal; `None` where it is the same.
    pub run_title: Option<&'static str>,
    /// One phrase for help and docs/keys.md.
    pub doc: &'static str,
    /// Kinds of objects that the action is offered for.
    pub fits: &'static [ObjectKind],
    /// Rights that the action needs; one of them suffices to offer it.
    pub rights: &'static [NeededRight],
    /// The request that its key makes.
    ///
    /// # Errors
    /// The action does not fit the objects; the text names objects that it fits.
    pub request: fn(&Selected<'_>) -> Result<ActionRequest, String>,
    /// Whether it can have an effect on an object that has not ended.
    availability: fn(&Selected<'_>) -> Availability,
}

/// A right: verb, API group, resource, subresource.
pub type NeededRight = (&'static str, &'static str, &'static str, &'static str);

/// To suspend, requeue or reprioritise work, by its own object or by its Workload.
const PATCH_WORK: &[NeededRight] = &[
    ("patch", "batch", "jobs", ""),
    ("patch", "kueue.x-k8s.io", "workloads", ""),
];

impl ActionSpec {
    /// Whether it can have an effect on the selected object: none has on a job that has ended.
    pub fn availability(&self, selected: &Selected<'_>) -> Availability {
        match selected.shown_job().is_some_and(selected::has_ended) {
            true => Availability::Hidden,
            false => (self.availability)(selected),
        }
    }
}

/// For an action that any state of its object allows.
const fn always(_: &Selected<'_>) -> Availability {
    Availability::Available
}

/// For an action that needs a job with devices.
fn while_it_runs(selected: &Selected<'_>) -> Availability {
    match selected.shown_job().is_some_and(selected::is_waiting) {
        true => Availability::Hidden,
        false => Availability::Available,
    }
}

/// What a planner decides by.
pub(crate) struct PlannerInput<'a> {
    pub snapshot: &'a Snapshot,
    pub author: &'a Author,
    /// Victims of a plan that was shown before.
    pub known: &'a KnownVictims,
}

macro_rules! actions {
    ($($module:ident $action:ident($arguments:ident) { $($field:ident),* };)*) => {
        /// An action as it is typed.
        #[derive(Subcommand, Clone, PartialEq, Eq, Debug)]
        pub enum ActionArguments { $($action($module::$arguments),)* }

        /// The name of an action.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum ActionName { $($action,)* }

        impl ActionName {
            /// Every name, in the order of [`ACTIONS`].
            pub const ALL: &[Self] = &[$(Self::$action,)*];

            /// Its entry in the registry.
            pub const fn spec(self) -> &'static ActionSpec {
                match self { $(Self::$action => &$module::SPEC,)* }
            }
        }

        /// Every action, in the order of help and of the hint line.
        pub const ACTIONS: &[&ActionSpec] = &[$(&$module::SPEC,)*];

        impl ActionArguments {
            /// Its entry in the registry.
            pub const fn spec(&self) -> &'static ActionSpec {
                match self { $(Self::$action(_) => &$module::SPEC,)* }
            }

            /// The request of the arguments.
            ///
            /// # Errors
            /// An argument has another form, or names something that does not exist.
            pub fn intent(&self, names: &NameResolver<'_>) -> Result<Intent, ParseError> {
                match self { $(Self::$action(typed) => typed.intent(names),)* }
            }
        }

        pub const fn spec_of(intent: &Intent) -> &'static ActionSpec {
            match intent { $(Intent::$action { .. } => &$module::SPEC,)* }
        }

        /// The plan of an intent, from its action's planner.
        ///
        /// # Errors
        /// No plan is possible; the refusal gives the reason and an alternative.
        pub(super) fn plan(on: &PlannerInput<'_>, intent: &Intent) -> Result<Plan, Refusal> {
            match intent { $(Intent::$action { $($field),* } => $module::plan(on, $($field),*),)* }
        }
    };
}

actions! {
    reprioritise Reprioritise(ReprioritiseArguments) { job, priority };
    scale Scale(ScaleArguments) { target, replicas };
    preempt Preempt(PreemptArguments) { job };
    admit Admit(AdmitArguments) { job, preempt };
    drain Drain(DrainArguments) { nodes, deadline };
    hold Hold(HoldArguments) { target };
    resume Resume(ResumeArguments) { target };
    cordon Cordon(CordonArguments) { nodes, reason };
    uncordon Uncordon(UncordonArguments) { nodes };
    requeue Requeue(RequeueArguments) { job };
    evict Evict(EvictArguments) { pod };
    rebalance Rebalance(RebalanceArguments) { pool };
    undo Undo(UndoArguments) { run };
}

pub use reprioritise::ordered_by;

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[derive(clap::Parser)]
    struct All {
        #[command(subcommand)]
        _action: ActionArguments,
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
                "{} has a line of help",
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
    fn what_an_action_needs_the_operators_role_grants() {
        for spec in ACTIONS {
            for (verb, group, resource, subresource) in spec.rights {
                let granted = cluster::mutations::writable()
                    .any(|right| right == (*group, *resource, *subresource, *verb));
                assert!(granted, "{}: {verb} {resource}", spec.verb);
            }
        }
    }

    #[test]
    fn names_keys_and_verbs_are_of_one_action_each() {
        for (at, spec) in ACTIONS.iter().enumerate() {
            assert!(!spec.fits.is_empty(), "{} is offered nowhere", spec.verb);
            assert!(
                spec.key.is_some() != spec.done_by.is_some(),
                "{}",
                spec.verb
            );
            for other in &ACTIONS[at + 1..] {
                assert!(spec.verb != other.verb && spec.command != other.command);
                assert!(spec.key.is_none() || spec.key != other.key, "{}", spec.verb);
            }
        }
    }

    #[test]
    fn a_priority_and_a_number_of_replicas_may_be_flags() {
        for line in [
            "reprioritise a/b -9",
            "reprioritize a/b --priority -9",
            "reprioritise --priority=-9 a/b",
        ] {
            let Ok(ActionArguments::Reprioritise(typed)) = action(line) else {
                panic!("{line}");
            };
            assert_eq!((&*typed.job, typed.priority()), ("a/b", "-9"), "{line}");
        }
        for line in ["reprioritise a/b", "reprioritise a/b 9 --priority 8"] {
            let wrong = action(line).expect_err(line);
            assert!(wrong.contains("PRIORITY"), "{line}: {wrong}");
        }
        for line in [
            "scale lws a/b 5",
            "scale lws/a/b 5",
            "scale lws a/b --replicas 5",
            "scale lws/a/b --replicas=5",
        ] {
            let Ok(ActionArguments::Scale(typed)) = action(line) else {
                panic!("{line}");
            };
            let read = typed.target_and_replicas();
            assert_eq!(read, Ok((String::from("lws/a/b"), 5)), "{line}");
        }
        let usage = action("scale").expect_err("no workload");
        assert!(usage.contains("[KIND] NAMESPACE/NAME REPLICAS"), "{usage}");
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
