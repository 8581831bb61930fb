//! The registry of commands that keys can be bound to; those that open a plan are the actions of `plan::actions`, those that open
//! a view the tabs and kinds of `table`. Help, hints, palette and docs/keys.md derive from it.

use std::sync::LazyLock;

use model::base::SmallSort;
use plan::actions::ActionName;
use table::Kind;
use table::navigation::ViewId;

/// Where a command can be given.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Context {
    /// Everywhere, including text fields.
    Anywhere,
    Global,
    /// In the fleet view, in addition to table commands.
    Fleet,
    Table,
    /// In the cost view, in addition to table commands.
    Cost,
    /// In the alerts view, in addition to table commands.
    Alerts,
    /// In the plans view, in addition to table commands.
    Plans,
    Heatmap,
    /// In text pages: YAML, events, logs.
    Text,
    /// In logs, in addition to text commands.
    Logs,
    /// In help and facts.
    Popup,
    /// In the filter line and the palette.
    Prompt,
    /// In the copy prompt.
    Copy,
    /// In the list of columns.
    Columns,
    /// In a plan, while no field has focus.
    Plan,
    /// On the screen of missing data.
    Missing,
    /// In the question on leaving while a run is in progress.
    Leaving,
}

impl Context {
    /// Every context, in the order of the key file.
    pub const ALL: &'static [Self] = &[
        Self::Anywhere,
        Self::Global,
        Self::Fleet,
        Self::Table,
        Self::Cost,
        Self::Alerts,
        Self::Plans,
        Self::Heatmap,
        Self::Text,
        Self::Logs,
        Self::Popup,
        Self::Prompt,
        Self::Copy,
        Self::Columns,
        Self::Plan,
        Self::Missing,
        Self::Leaving,
    ];

    /// The name in the key file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Anywhere => "anywhere",
            Self::Global => "global",
            Self::Fleet => "fleet",
            Self::Table => "table",
            Self::Cost => "cost",
            Self::Alerts => "alerts",
            Self::Plans => "plans",
            Self::Heatmap => "heatmap",
            Self::Text => "text",
            Self::Logs => "logs",
            Self::Popup => "popup",
            Self::Prompt => "prompt",
            Self::Copy => "copy",
            Self::Columns => "columns",
            Self::Plan => "plan",
            Self::Missing => "missing",
            Self::Leaving => "leaving",
        }
    }

    /// The section title in help.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Anywhere => "anywhere",
            Self::Global => "in every view",
            Self::Fleet => "in the fleet view",
            Self::Table => "in tables",
            Self::Cost => "in cost",
            Self::Alerts => "in alerts",
            Self::Plans => "in plans",
            Self::Heatmap => "on the heatmap",
            Self::Text => "in texts",
            Self::Logs => "in logs",
            Self::Popup => "in help and facts",
            Self::Prompt => "while typing",
            Self::Copy => "after `copy`",
            Self::Columns => "in the list of columns",
            Self::Plan => "in a plan; letters go to its fields",
            Self::Missing => "when something is missing",
            Self::Leaving => "on leaving while a run is in progress",
        }
    }
}

/// A command's name, description and contexts.
#[derive(Clone, Copy, Debug)]
pub struct CommandSpec {
    pub command: Command,
    /// Name in key files and the palette.
    pub name: &'static str,
    /// One word for the hint line.
    pub title: &'static str,
    /// One phrase for help and the README.
    pub doc: &'static str,
    /// Contexts in which it is available.
    pub contexts: &'static [Context],
    /// Rank in the hint line, 1 first; 0 is not shown.
    pub hint: u8,
}

macro_rules! commands {
    ($($variant:ident $name:literal $title:literal [$($context:ident)*] $hint:literal $doc:literal;)*) => {
        /// Everything that a key can do. No command changes an object directly: action keys open a plan.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Command {
            $(#[doc = $doc] $variant,)*
            /// Shows the view of a tab.
            View(ViewId),
            /// Opens the view of a kind under its tab.
            Kind(Kind),
            /// Opens the plan of an action.
            Action(ActionName),
        }

        /// The commands that open neither a view nor a plan.
        const OTHERS: &[CommandSpec] = &[
            $(CommandSpec {
                command: Command::$variant,
                name: $name,
                title: $title,
                doc: $doc,
                contexts: &[$(Context::$context,)*],
                hint: $hint,
            },)*
        ];
    };
}

commands! {
    LastView "last-view" "last view" [Global] 0 "switch to the previous view and back";
    Earlier "earlier" "history back" [Global] 0 "back";
    Later "later" "history forward" [Global] 0 "forward, after back";
    Open "open" "open" [Global] 1 "open the selection";
    Filter "filter" "filter" [Global Popup] 5 "show only what matches: text, !text, -l label=x, util<20 dev>16, or, not, ( )";
    Palette "palette" "command" [Global] 6 "go anywhere: views, nodes, jobs, pods, devices; ctx, ns, team, theme, sort; commands";
    Help "help" "help" [Global] 7 "this list of keys";
    Facts "facts" "facts" [Global] 0 "all facts about the selection, in a popup";
    Describe "describe" "describe" [Global] 4 "all facts, labels and events";
    Yaml "yaml" "yaml" [Global Popup] 0 "the object as the API server has it";
    Events "events" "events" [Global Popup] 0 "events of the object, and of a job's pods";
    Tree "tree" "tree" [Table Heatmap Popup] 0 "the object as a tree: its queue, pools, pods, nodes and devices; enter opens each";
    Logs "logs" "logs" [Table Text Popup] 4 "logs of its pod, or of all pods of a job";
    Waste "waste" "waste" [Global] 12 "what is wasted: jobs with idle devices and stalled gangs, most expensive first; press again: the idle devices";
    WhatIf "what-if" "what if" [Global] 11 "what would start, be evicted and cost if the fleet changed; writes nothing";
    LongestWait "longest-wait" "longest wait" [Global] 10 "the longest waiting job: why it waits and what would start it; press again: the next one";
    Copy "copy" "copy" [Global Popup] 0 "copy the marked rows or the selection: choose a format";
    Faults "faults" "faults" [Global] 8 "show faulty rows only, or all rows; the key of a view shows all rows";
    Freeze "freeze" "freeze" [Global] 0 "freeze the screen, or resume; in a record: pause, or play";
    TimeBack "time-back" "earlier" [Global] 0 "step back in the history of readings; in a record: one minute back";
    TimeForward "time-forward" "later" [Global] 0 "step forward in the history, up to the present; in a record: one minute forward";
    PreviousChange "previous-change" "previous change" [Global] 0 "in a record: the previous change of any kind; in a live console: open the record there";
    NextChange "next-change" "next change" [Global] 0 "in a record: the next change of any kind";
    GoToTime "go-to-time" "time" [Global] 0 "go to a time in the record: 03:12, yesterday 14:00, -2h; now: live again";
    Missing "missing" "missing" [Global] 0 "what is missing and how to fix it";
    Refresh "refresh" "refresh" [Global] 0 "read every source now, within its limits";
    Back "back" "back" [Global] 9 "back to the present, drop the filter, else go back up";
    Leave "leave" "back" [Global Missing] 0 "go back up; at the top, leave the console";
    Up "up" "up" [Table Heatmap Text Popup Columns Plan] 0 "up";
    Down "down" "down" [Table Heatmap Text Popup Columns Plan] 0 "down";
    Left "left" "left" [Heatmap] 0 "left";
    Right "right" "right" [Heatmap] 0 "right";
    Top "top" "top" [Table Heatmap Text Popup Plan] 0 "to the first";
    Bottom "bottom" "bottom" [Table Heatmap Text Popup Plan] 0 "to the last";
    PageUp "page-up" "page up" [Table Heatmap Text Popup Plan] 0 "a page up";
    PageDown "page-down" "page down" [Table Heatmap Text Popup Plan] 0 "a page down";
    NextPanel "next-panel" "panels" [Fleet] 2 "the next panel: pools, waiting jobs, rate by team, what needs you";
    PreviousPanel "previous-panel" "previous panel" [Fleet] 0 "the previous panel";
    Sort "sort" "sort" [Table] 3 "sort by the next column, after the last one unsorted; if values have changed, sort again";
    Order "order" "order" [Table Heatmap] 0 "reverse sort; on the heatmap by place or by value";
    Wide "wide" "wide" [Table] 0 "more columns, or fewer";
    Mute "mute" "mute" [Alerts] 2 "mute for a week; press again to unmute";
    Acknowledge "acknowledge" "ack" [Alerts] 2 "acknowledge until it ends; press again to undo";
    Columns "columns" "columns" [Table] 0 "choose which columns are shown";
    Mark "mark" "mark" [Table] 0 "mark the row, or unmark it";
    Range "range" "range" [Table] 0 "mark every row from the last mark to the cursor";
    Unmark "unmark" "unmark" [Table] 0 "remove all marks";
    Invert "invert" "invert" [Table] 0 "invert the marks";
    Group "group" "group" [Cost Heatmap] 3 "group by something else";
    Metric "metric" "metric" [Heatmap] 2 "show another metric";
    Scale "scale" "scale" [Heatmap] 3 "absolute, relative, or distance from the gang's median; the cursor goes to the straggler, if there is one";
    ZoomOut "zoom-out" "zoom out" [Heatmap] 2 "from devices to nodes";
    ZoomIn "zoom-in" "zoom in" [Heatmap] 2 "from nodes to devices, to one node";
    Follow "follow" "follow" [Logs] 1 "follow new lines, or stop";
    NextPod "next-pod" "next pod" [Logs] 2 "only the next pod of the job";
    AllPods "all-pods" "all pods" [Logs] 0 "all pods of the job again";
    Container "container" "container" [Logs] 3 "the next container of the pod";
    LastRun "last-run" "previous run" [Logs] 3 "logs of the container's previous run";
    Wrap "wrap" "wrap" [Logs] 3 "wrap long lines, or cut them";
    Times "times" "times" [Logs] 3 "show or hide the time of each line (UTC)";
    Shell "shell" "shell" [Global] 0 "shell in the pod, the job's first running pod, or on the node (in a pod that is removed afterwards)";
    PortForward "port-forward" "forward" [Global] 0 "forward a local port to the pod; lists and stops running port-forwards";
    PlanAnew "plan-anew" "recompute" [Plan] 0 "recompute the open plan; it does not change until then";
    StopRun "stop-run" "stop" [Plans Leaving] 2 "stop the run after its current step";
    Close "close" "close" [Popup Prompt Copy Columns Plan Missing Leaving] 1 "close it";
    CopyName "copy-name" "name" [Copy] 2 "copy the names, one per line";
    CopyRow "copy-row" "row" [Copy] 3 "copy the rows as shown, cells separated by tabs";
    CopyKubectl "copy-kubectl" "kubectl" [Copy] 4 "copy the kubectl command that shows them";
    CopyMarkdown "copy-markdown" "markdown" [Copy] 5 "copy the rows as a Markdown table";
    Toggle "toggle" "show or hide" [Columns] 2 "show the column, or hide it";
    Demo "demo" "demo" [Missing] 2 "open the simulated fleet: no cluster is needed";
    Retry "retry" "try again" [Missing] 3 "connect to the cluster again";
    Contexts "contexts" "another context" [Missing] 4 "choose another context";
    Accept "accept" "confirm" [Prompt Plan Leaving] 1 "accept the input; confirm a plan; leave";
    Next "next" "next" [Prompt] 2 "next suggestion, or next field of a plan";
    Previous "previous" "previous" [Prompt] 0 "previous suggestion, or previous field";
    Suspend "suspend" "suspend" [Anywhere] 0 "suspend to the shell, until `fg`";
    Redraw "redraw" "redraw" [Anywhere] 0 "redraw the screen";
    SavePicture "save-picture" "picture" [Anywhere] 0 "save the frame as a picture";
    Quit "quit" "quit" [Anywhere] 0 "leave the console; asks first while a run is in progress";
}

/// Every command, in the order of help: views first, and actions before the commands that open a shell.
pub static COMMANDS: LazyLock<Vec<CommandSpec>> = LazyLock::new(|| {
    let tabs = ViewId::ALL.iter().map(|tab| CommandSpec {
        command: Command::View(*tab),
        name: tab.command(),
        title: tab.name(),
        doc: tab.doc(),
        contexts: &[Context::Global],
        hint: 0,
    });
    let shell = OTHERS
        .iter()
        .position(|spec| spec.command == Command::Shell);
    let (others, access) = OTHERS.split_at(shell.unwrap_or(OTHERS.len()));
    let actions = ActionName::ALL.iter().map(|name| of_action(*name));
    let others = others.iter().copied().chain(actions);
    let all = tabs.chain(of_kinds()).chain(others);
    all.chain(access.iter().copied()).collect()
});

/// The commands of the kinds that a key opens under a tab, in the order of their keys.
fn of_kinds() -> impl Iterator<Item = CommandSpec> {
    let keyed = |kind: Kind| Some((kind.view().key?, kind.view().doc?, kind));
    let mut all: Vec<_> = Kind::ALL.into_iter().filter_map(keyed).collect();
    all.small_sort_by_key(|(key, ..)| *key);
    all.into_iter().map(|(_, doc, kind)| CommandSpec {
        command: Command::Kind(kind),
        name: kind.name(),
        title: kind.name(),
        doc,
        contexts: &[Context::Global],
        hint: 0,
    })
}

fn of_action(name: ActionName) -> CommandSpec {
    let spec = name.spec();
    CommandSpec {
        command: Command::Action(name),
        name: spec.command,
        title: spec.title,
        doc: spec.doc,
        // A run that has ended is undone from its plan as well.
        contexts: match name {
            ActionName::Undo => &[Context::Global, Context::Plan],
            _ => &[Context::Global],
        },
        hint: 0,
    }
}

impl Command {
    /// Its entry in the registry.
    pub fn spec(self) -> &'static CommandSpec {
        COMMANDS
            .iter()
            .find(|spec| spec.command == self)
            .expect("the registry and the enum are made by one list")
    }

    /// The command with this name, or with its name in earlier key files.
    pub fn from_name(name: &str) -> Option<Self> {
        let name = if name == "start" { "admit" } else { name };
        COMMANDS
            .iter()
            .find(|spec| spec.name == name)
            .map(|spec| spec.command)
    }

    /// The tab that it shows, if any.
    pub const fn view(self) -> Option<ViewId> {
        match self {
            Self::View(tab) => Some(tab),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found_again() {
        for spec in COMMANDS.iter() {
            assert_eq!(Command::from_name(spec.name), Some(spec.command));
            assert!(!spec.contexts.is_empty(), "{}", spec.name);
        }
        assert_eq!(Command::from_name("start"), Command::from_name("admit"));
    }
}
