//! The views, one file each. A view keeps its cursor, order and filter, and draws the facts.

use ratatui::layout::Rect;

use model::base::{Name, ObjectKey};
use model::cost::Scope;
use model::fleet::job::JobKey;
use table::silence::SilenceEntry;
use table::{Facts, ScopedFleet};

use super::commands::{Command, Context};
use super::painter::{Painter, RenderStyle};
use model::object::{ObjectNews, ObjectRequest};
use object_view::Sort;
use table_with_facts::TableWithFacts;

pub mod advice;
pub mod alerts;
mod changes;
pub mod cost;
mod cost_history;
pub mod describe;
pub mod detail;
pub mod device_heat;
pub mod devices;
pub mod fleet;
mod fleet_panels;
mod fleet_sources;
pub mod heatmap;
mod heatmap_draw;
pub mod jobs;
pub mod layout;
pub mod logs;
pub mod nodes;
pub mod object_tree;
pub mod object_view;
pub mod plans;
pub mod pods;
pub mod pools;
mod queue_quotas;
pub mod queues;
pub mod run_jobs;
pub mod scalers;
pub(crate) mod scroll;
pub mod services;
pub mod sources;
pub mod sparkline_strip;
pub mod subject;
pub mod table_view;
mod table_with_facts;
mod unblock;
mod waiting;
mod what_if;

pub use object_tree::tab as tree_of;
pub use waiting::longest_first as longest_waiting;

macro_rules! views {
    ($($variant:ident $name:literal $short:literal $digit:literal;)*) => {
        /// The views that a digit opens.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum ViewId { $(#[doc = concat!("`", $name, "`")] $variant,)* }

        impl ViewId {
            /// Every view, in the order of the tabs.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Its name.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Its name where there is little room, in at most six letters.
            pub const fn short_name(self) -> &'static str {
                match self { $(Self::$variant => $short,)* }
            }

            /// The digit on its tab.
            pub const fn digit(self) -> char {
                match self { $(Self::$variant => $digit,)* }
            }
        }
    };
}

views! {
    Fleet "fleet" "fleet" '1';
    Pools "pools" "pools" '2';
    Devices "devices" "devs" '3';
    Queues "queues" "queue" '4';
    Jobs "jobs" "jobs" '5';
    Nodes "nodes" "nodes" '6';
    Cost "cost" "cost" '7';
    Alerts "alerts" "alerts" '8';
    Plans "plans" "plans" '9';
    Sources "sources" "srcs" '0';
}

/// Which part of everything a view shows.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum RowScope {
    /// Everything.
    #[default]
    All,
    /// Objects of a pool.
    Pool(Name),
    /// Objects on a node.
    Node(Name),
    /// Devices and pods of a job.
    Job(JobKey),
    /// Objects of a team.
    Team(Name),
    /// Jobs of a queue, running or pending.
    Queue(Name),
    /// Jobs of a cohort's queues, running or pending.
    Cohort(Name),
    /// Devices of a class, or jobs that request it.
    Class(Name),
    /// Money by this scope.
    Cost(Scope),
    /// Devices that are allocated and do no work, or the money that they cost.
    Idle,
    /// Objects in a namespace.
    Namespace(Name),
    /// Pods, of a namespace or of all.
    Pods(Option<Name>),
    /// Services, of a namespace or of all.
    Services(Option<Name>),
    /// The tree of an object: its parts and what it runs on.
    Tree(Selection),
    /// The effect of these supposed changes, as they were typed.
    WhatIf(Name),
    /// What to do about jobs' devices.
    Advice,
    /// Autoscalers of nodes and pods.
    Scalers,
    /// What changed between two moments of a record, by the name of the comparison.
    Changes(Name),
    /// Sources, one row each: those of one kind, or all.
    Sources(Option<Name>),
}

impl RowScope {
    /// Name in the breadcrumb trail; empty for everything.
    pub fn title(&self) -> String {
        match self {
            Self::All | Self::Cost(_) => String::new(),
            Self::Idle => String::from("all allocated, idle"),
            Self::Pool(name) => format!("pool {name}"),
            Self::Node(name) => format!("node {name}"),
            Self::Job(job) => format!("job {job}"),
            Self::Team(name) => format!("team {name}"),
            Self::Queue(name) => format!("queue {name}"),
            Self::Cohort(name) => format!("cohort {name}"),
            Self::Class(name) => format!("class {name}"),
            Self::Namespace(name) => format!("namespace {name}"),
            Self::Pods(None) => String::from("pods"),
            Self::Pods(Some(name)) => format!("pods of {name}"),
            Self::Services(None) => String::from("services"),
            Self::Services(Some(name)) => format!("services of {name}"),
            Self::Tree(of) => format!("tree of {}", of.name()),
            Self::WhatIf(changes) => format!("what if {changes}"),
            Self::Advice => String::from("advice"),
            Self::Scalers => String::from("scalers"),
            Self::Changes(_) => String::from("changes"),
            Self::Sources(kind) => kind.as_ref().map(Name::to_string).unwrap_or_default(),
        }
    }
}

/// An object of the fleet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Selection {
    /// A pool.
    Pool(Name),
    /// A node.
    Node(Name),
    /// A device: node and index.
    Device(Name, u32),
    /// A job.
    Job(JobKey),
    /// A pod.
    Pod(ObjectKey),
    /// A finding, by id.
    Finding(Name),
    /// A source.
    Source(Name),
    /// A queue.
    Queue(Name),
    /// A cohort of queues that borrow from each other; a queue may have the same name.
    Cohort(Name),
    /// A run of the journal.
    Run(Name),
    /// A row of money.
    Cost(Scope, Name),
}

impl Selection {
    /// True when it is a scope's, or something of the scope is there. Sources and queues serve everybody; money is that of the
    /// scope already.
    pub(crate) fn is_within(&self, facts: &Facts, part: &ScopedFleet) -> bool {
        let fleet = &facts.fleet;
        match self {
            Self::Pool(name) => part.reach.has_pool(name),
            Self::Node(name) => part.reach.has_node(name),
            Self::Device(node, index) => {
                let device = fleet.node(node).and_then(|node| node.device(*index));
                device.is_some_and(|device| part.scope.has_device(device))
            }
            Self::Job(id) => fleet.job(id).is_some_and(|job| part.scope.has_job(job)),
            Self::Pod(key) => fleet.pod(key).is_some_and(|pod| part.scope.has_pod(pod)),
            Self::Finding(id) => {
                let mut findings = fleet.findings.iter();
                findings
                    .find(|finding| finding.id == *id)
                    .is_some_and(|finding| facts.concerns(finding))
            }
            _ => true,
        }
    }

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

/// Where `open` leads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Destination {
    /// A view of a part.
    Part(ViewId, RowScope),
    /// Everything known of an object, over the view.
    Facts(Selection),
    /// What the cluster itself has to say of an object, under the tab that it was opened from.
    Paper(ViewId, Sort, Selection),
    /// Logs of an object's pods.
    Logs(ViewId, Selection),
}

/// Result of a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CommandOutcome {
    /// Done.
    Done,
    /// Done, and now show this.
    Navigate(Destination),
    /// Done with a finding; `None` takes it back.
    Hush(Name, Option<SilenceEntry>),
    /// Done, and these changes are to be computed again.
    Suppose(Name),
    /// Not a command of this view.
    NotMine,
}

impl From<Option<Destination>> for CommandOutcome {
    fn from(place: Option<Destination>) -> Self {
        place.map_or(Self::Done, Self::Navigate)
    }
}

/// Titles of columns, and a line of cells a row.
pub type CopiedRows = (Vec<String>, Vec<Vec<String>>);

/// A view: its own cursor, order and filter, and how it is drawn.
pub trait View {
    /// The tab that is highlighted.
    fn id(&self) -> ViewId;
    /// The breadcrumb trail after the tab; empty at the top.
    fn trail(&self) -> String;
    /// The key contexts of the view, in order of precedence.
    fn contexts(&self) -> &'static [Context];
    /// Takes the room that it will be drawn in; `paired` when two devices share a cell.
    fn fit(&mut self, _facts: &Facts, _area: Rect, _paired: bool) {}
    /// Takes new facts; with `settle`, rows may change places.
    fn refresh(&mut self, facts: &Facts, settle: bool) {
        if let Some(table) = self.table_mut() {
            table.refresh(facts, settle);
        }
    }
    /// Obeys a command.
    fn on(&mut self, command: Command, facts: &Facts, area: Rect) -> CommandOutcome;
    /// Takes a press of the mouse at a place within `area`; true when something is there.
    fn point(&mut self, facts: &Facts, x: u16, y: u16, area: Rect) -> bool {
        let area = self.table_area(area);
        y < area.bottom()
            && self
                .table_mut()
                .is_some_and(|table| table.point(facts, x, y, area))
    }
    /// The room of its table within the view's.
    fn table_area(&self, area: Rect) -> Rect {
        area
    }
    /// Sets the filter; on an error, which describes the problem, the old filter stays.
    fn set_filter(&mut self, words: &str, facts: &Facts) -> Result<(), String> {
        match self.table_mut() {
            Some(table) => table.set_filter(words, facts),
            None => Ok(()),
        }
    }
    /// The filter as typed.
    fn filter(&self) -> &str {
        self.table().map_or("", |table| table.filter())
    }
    /// The object under the cursor.
    fn selection(&self, facts: &Facts) -> Option<Selection> {
        self.table()?.selection(facts)
    }
    /// Rows shown, and rows without filter.
    fn counts(&self) -> (usize, usize) {
        self.table().map_or((0, 0), |table| table.counts())
    }
    /// True when the order is no longer that of the values.
    fn is_unsettled(&self) -> bool {
        self.table().is_some_and(|table| table.is_unsettled())
    }
    /// True when only faults are shown.
    fn faults_only(&self) -> bool {
        self.table().is_some_and(|table| table.faults_only())
    }
    /// Nodes with devices on screen.
    fn on_screen(&self, _facts: &Facts, _area: Rect) -> Vec<Name> {
        Vec::new()
    }
    /// The view's table, where it has one: rows, filter, order, marks, columns and copies default to
    /// the table's.
    fn table(&self) -> Option<&table_view::TableView> {
        None
    }
    /// Its table, to be changed.
    fn table_mut(&mut self) -> Option<&mut table_view::TableView> {
        None
    }
    /// The objects that a key acts on: the marked ones, or the one under the cursor.
    fn meant(&self, facts: &Facts) -> Vec<Selection> {
        match self.table().map(|table| table.meant(facts)) {
            Some(meant) if !meant.is_empty() => meant,
            _ => self.selection(facts).into_iter().collect(),
        }
    }
    /// Titles and cells of the rows to copy; `None` without a row.
    fn copied_rows(&self, facts: &Facts, render_style: &RenderStyle) -> Option<CopiedRows> {
        self.table()
            .map(|table| table.copied_rows(facts, render_style))
    }
    /// The object that the view needs read from the cluster.
    fn object_request(&self) -> Option<&ObjectRequest> {
        None
    }
    /// Handles the result of its read request.
    fn on_object_news(&mut self, _news: &ObjectNews, _facts: &Facts) {}
    /// Draws it.
    fn draw(&self, facts: &Facts, painter: &mut Painter<'_>, area: Rect);
}

/// Keys of table views.
pub const TABLE: &[Context] = &[Context::Table, Context::Global, Context::Anywhere];
/// Keys of the fleet view.
pub const FLEET: &[Context] = &[
    Context::Fleet,
    Context::Table,
    Context::Global,
    Context::Anywhere,
];
/// Keys of the cost view.
pub const COST: &[Context] = &[
    Context::Cost,
    Context::Table,
    Context::Global,
    Context::Anywhere,
];
/// Keys of the alerts view.
pub const ALERTS: &[Context] = &[
    Context::Alerts,
    Context::Table,
    Context::Global,
    Context::Anywhere,
];
/// Keys of the view of plans.
pub const PLANS: &[Context] = &[
    Context::Plans,
    Context::Table,
    Context::Global,
    Context::Anywhere,
];
/// Keys of the heatmap.
pub const HEATMAP: &[Context] = &[Context::Heatmap, Context::Global, Context::Anywhere];

/// Keys of texts.
pub const TEXT: &[Context] = &[Context::Text, Context::Global, Context::Anywhere];
/// Keys of logs.
pub const LOGS: &[Context] = &[
    Context::Logs,
    Context::Text,
    Context::Global,
    Context::Anywhere,
];
/// The view of a destination; `None` for an overlay.
pub fn at(place: &Destination) -> Option<Box<dyn View>> {
    match place {
        Destination::Part(id, row_scope) => Some(open(*id, row_scope.clone())),
        Destination::Paper(id, sort, selection) => Some(Box::new(object_view::ObjectView::new(
            *id,
            selection.clone(),
            *sort,
        ))),
        Destination::Logs(id, selection) => {
            Some(Box::new(logs::LogView::new(*id, selection.clone())))
        }
        Destination::Facts(_) => None,
    }
}

/// Opens a view of a scope; `RowScope::All` opens the tab's own view.
pub fn open(id: ViewId, row_scope: RowScope) -> Box<dyn View> {
    match (id, row_scope) {
        (id, row_scope @ RowScope::Tree(_)) => Box::new(table_view::TableView::new(
            id,
            &object_tree::KIND,
            row_scope,
        )),
        (ViewId::Fleet, _) => Box::new(fleet::FleetView::new()),
        (ViewId::Devices, row_scope @ RowScope::Idle) => {
            Box::new(table_view::TableView::new(id, &devices::IDLE, row_scope))
        }
        (ViewId::Devices, row_scope) => Box::new(heatmap::Heatmap::new(row_scope)),
        (ViewId::Nodes, RowScope::Node(node)) => Box::new(detail::Detail::node(node)),
        (ViewId::Jobs, RowScope::Job(job)) => Box::new(detail::Detail::job(job)),
        (ViewId::Cost, RowScope::Idle) => Box::new(cost::CostView::idle()),
        (ViewId::Cost, RowScope::Cost(scope)) => Box::new(cost::CostView::new(scope)),
        (ViewId::Cost, _) => Box::new(cost::CostView::new(Scope::Team)),
        (ViewId::Pools, RowScope::Pool(pool)) => Box::new(detail::Detail::pool(pool)),
        (ViewId::Pools, row_scope @ RowScope::Scalers) => {
            Box::new(TableWithFacts::new(id, &scalers::KIND, row_scope))
        }
        (ViewId::Pools, row_scope) => Box::new(TableWithFacts::new(id, &pools::KIND, row_scope)),
        (ViewId::Queues, row_scope) => Box::new(queues::QueuesView::new(row_scope)),
        (ViewId::Jobs, RowScope::WhatIf(changes)) => Box::new(what_if::WhatIfView::new(changes)),
        (ViewId::Jobs, row_scope @ RowScope::Pods(_)) => {
            Box::new(table_view::TableView::new(id, &pods::KIND, row_scope))
        }
        (ViewId::Jobs, row_scope @ RowScope::Services(_)) => {
            Box::new(table_view::TableView::new(id, &services::KIND, row_scope))
        }
        (ViewId::Jobs, row_scope) => {
            Box::new(table_view::TableView::new(id, &jobs::KIND, row_scope))
        }
        (ViewId::Nodes, row_scope) => {
            Box::new(table_view::TableView::new(id, &nodes::KIND, row_scope))
        }
        (ViewId::Alerts, row_scope @ RowScope::Advice) => {
            Box::new(TableWithFacts::new(id, &advice::KIND, row_scope))
        }
        (ViewId::Alerts, RowScope::Changes(name)) => Box::new(changes::ChangesView::new(name)),
        (ViewId::Alerts, row_scope) => Box::new(TableWithFacts::new(id, &alerts::KIND, row_scope)),
        (ViewId::Plans, row_scope) => {
            Box::new(table_view::TableView::new(id, &plans::KIND, row_scope))
        }
        (ViewId::Sources, row_scope) => {
            Box::new(TableWithFacts::new(id, &sources::KIND, row_scope))
        }
    }
}
