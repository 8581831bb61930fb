//! Where a row leads: views, the part of the fleet that a view shows, and the object of a row.

use model::base::{Name, ObjectKey};
use model::cost::SpendScope;
use model::fleet::job::JobKey;

use super::Facts;
use super::kinds::Kind;

macro_rules! views {
    ($($variant:ident $name:literal $short:literal $digit:literal $doc:literal;)*) => {
        /// The tabs: the views that a digit opens.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum ViewId { $(#[doc = concat!("`", $name, "`: ", $doc)] $variant,)* }

        impl ViewId {
            /// Every view, in the order of the tabs.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The name of the command that opens it, in key files.
            pub const fn command(self) -> &'static str {
                match self { $(Self::$variant => concat!("view-", $name),)* }
            }

            /// Its name where there is little room, in at most six letters.
            pub const fn short_name(self) -> &'static str {
                match self { $(Self::$variant => $short,)* }
            }

            /// The digit on its tab.
            pub const fn digit(self) -> char {
                match self { $(Self::$variant => $digit,)* }
            }

            /// What it shows, in one phrase.
            pub const fn doc(self) -> &'static str {
                match self { $(Self::$variant => $doc,)* }
            }
        }
    };
}

views! {
    Fleet "fleet" "fleet" '1' "the whole fleet: pools, devices, waiting jobs, cost, findings";
    Pools "pools" "pools" '2' "pools with size, allocation, utilization, power and cost";
    Devices "devices" "devs" '3' "the heatmap of every device";
    Queues "queues" "queue" '4' "queues with quotas, shares, cost and waiting jobs";
    Jobs "jobs" "jobs" '5' "jobs with state, nodes, utilization and cost";
    Nodes "nodes" "nodes" '6' "nodes with health, devices, power and cost";
    Cost "cost" "cost" '7' "cost by pool, queue, team, job and class";
    Alerts "alerts" "alerts" '8' "findings, worst first, with the repair";
    Plans "plans" "plans" '9' "running and past plans: progress, stop, continue, undo";
    Sources "sources" "srcs" '0' "where the numbers come from and how old they are";
}

/// Which part of everything a view shows.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum RowScope {
    #[default]
    All,
    /// Everything, row by row in the order of its kind: alerts of one node do not stand together.
    Ungrouped,
    /// Objects of a pool.
    Pool(Name),
    /// Objects on a node.
    Node(Name),
    /// Devices and pods of a job.
    Job(JobKey),
    /// Pods of a job, as the replicas of a service.
    Replicas(JobKey),
    /// Objects of a team.
    Team(Name),
    /// Jobs of a queue, running or pending.
    Queue(Name),
    /// Jobs of a cohort's queues, running or pending.
    Cohort(Name),
    /// Devices of a class, or jobs that request it.
    Class(Name),
    /// Money by this scope.
    Cost(SpendScope),
    /// Devices that are allocated and do no work, or the money that they cost.
    Idle,
    /// Objects in a namespace.
    Namespace(Name),
    /// Rows of a kind that is opened under a tab: of a namespace, or all.
    Kind(Kind, Option<Name>),
    /// The tree of an object: its parts and what it runs on.
    Tree(Selection),
    /// The effect of these supposed changes, as they were typed.
    WhatIf(Name),
    /// What changed between two moments of a record, by the name of the comparison.
    Changes(Name),
    /// The changes of one cause, one row each: of the comparison of this name, else of what this session saw; by the cause's key.
    OneCause(Option<Name>, Name),
    /// Sources, one row each: those of one kind, or all.
    Sources(Option<Name>),
}

impl RowScope {
    /// Name in the breadcrumb trail; empty for everything.
    pub fn title(&self) -> String {
        match self {
            Self::All | Self::Ungrouped | Self::Cost(_) => String::new(),
            Self::Idle => String::from("all allocated, idle"),
            Self::Pool(name) => format!("pool {name}"),
            Self::Node(name) => format!("node {name}"),
            Self::Job(job) => format!("job {job}"),
            Self::Replicas(job) => format!("replicas of {job}"),
            Self::Team(name) => format!("team {name}"),
            Self::Queue(name) => format!("queue {name}"),
            Self::Cohort(name) => format!("cohort {name}"),
            Self::Class(name) => format!("class {name}"),
            Self::Namespace(name) => format!("namespace {name}"),
            Self::Kind(kind, None) => kind.name().to_owned(),
            Self::Kind(kind, Some(name)) => format!("{} of {name}", kind.name()),
            Self::Tree(of) => format!("tree of {}", of.name()),
            Self::WhatIf(changes) => format!("what if {changes}"),
            Self::Changes(_) => String::from("changes"),
            Self::OneCause(..) => String::from("of one cause"),
            Self::Sources(kind) => kind.as_ref().map(Name::to_string).unwrap_or_default(),
        }
    }
}

/// An object of the fleet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Selection {
    Pool(Name),
    Node(Name),
    /// A device: node and index.
    Device(Name, u32),
    Job(JobKey),
    Pod(ObjectKey),
    /// A finding, by id.
    Finding(Name),
    Source(Name),
    Queue(Name),
    /// A cohort of queues that borrow from each other; a queue may have the same name.
    Cohort(Name),
    /// A run of the journal.
    Run(Name),
    /// A row of money.
    Cost(SpendScope, Name),
}

impl Selection {
    /// Its name in the facts: a device has its kind as a name.
    pub fn title(&self, facts: &Facts) -> String {
        if let Self::Device(node, index) = self {
            let node = facts.fleet.node(node);
            if let Some(device) = node.and_then(|node| node.device(*index)) {
                return device.id.to_string();
            }
        }
        self.name()
    }

    /// Heading of the object: its name, or an alert's title and object.
    pub fn heading(&self, facts: &Facts) -> String {
        let known = match self {
            Self::Finding(id) => facts.fleet.findings.iter().find(|known| known.id == *id),
            _ => None,
        };
        match known {
            Some(finding) => format!("{} · {}", finding.code, finding.subject.key),
            None => self.title(facts),
        }
    }

    /// Its name in the form that commands take.
    pub fn name(&self) -> String {
        match self {
            Self::Pool(name)
            | Self::Node(name)
            | Self::Finding(name)
            | Self::Source(name)
            | Self::Queue(name)
            | Self::Cohort(name)
            | Self::Run(name)
            | Self::Cost(_, name) => name.to_string(),
            Self::Device(node, index) => format!("{node}/gpu{index}"),
            Self::Job(job) => job.to_string(),
            Self::Pod(pod) => pod.to_string(),
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Destination {
    Part(ViewId, RowScope),
    /// Everything known of an object, over the view.
    Facts(Selection),
    /// What the cluster itself has to say of an object, under the tab that it was opened from.
    Paper(ViewId, ObjectText, Selection),
    /// Logs of an object's pods.
    Logs(ViewId, Selection),
}

/// Which text about an object is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ObjectText {
    /// Everything known, its labels and its events.
    Describe,
    /// The object as the API server has it.
    Yaml,
    /// The events about it.
    Events,
}
