//! The views: one file each. A view keeps its cursor, order and filter, and draws what the facts say.

use ratatui::layout::Rect;

use model::base::{Name, ObjectKey};
use model::cost::Scope;
use model::fleet::job::JobKey;
use table::Facts;
use table::hush::Entry;

use super::brush::{Brush, Ink};
use super::commands::{Command, Context};
use super::listing;
use model::object::{News, Want};
use paper::Sort;

pub mod alerts;
mod alerts_view;
pub mod cost;
pub mod describe;
pub mod detail;
pub mod devices;
pub mod fleet;
mod fleet_panels;
mod fleet_sources;
pub mod glow;
pub mod heatmap;
mod heatmap_draw;
pub mod jobs;
pub mod layout;
pub mod logs;
pub mod nodes;
pub mod paper;
pub mod plans;
pub mod pods;
pub mod pools;
pub mod queues;
mod scroll;
pub mod sheet;
pub mod sources;
pub mod strip;
pub mod subject;
mod tree;
mod unblock;
mod waiting;

pub use waiting::longest_first as longest_waiting;

macro_rules! views {
    ($($variant:ident $name:literal $digit:literal;)*) => {
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

            /// The digit on its tab.
            pub const fn digit(self) -> char {
                match self { $(Self::$variant => $digit,)* }
            }
        }
    };
}

views! {
    Fleet "fleet" '1';
    Pools "pools" '2';
    Devices "devices" '3';
    Queues "queues" '4';
    Jobs "jobs" '5';
    Nodes "nodes" '6';
    Cost "cost" '7';
    Alerts "alerts" '8';
    Plans "plans" '9';
    Sources "sources" '0';
}

/// Which part of everything a view shows.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Lens {
    /// All of it.
    #[default]
    All,
    /// What belongs to a pool.
    Pool(Name),
    /// What is on a node.
    Node(Name),
    /// What a job holds.
    Job(JobKey),
    /// What belongs to a team.
    Team(Name),
    /// What a queue holds or keeps waiting.
    Queue(Name),
    /// Devices of a class, or jobs that want it.
    Class(Name),
    /// Money by this scope.
    Cost(Scope),
    /// Devices that are held and do no work.
    Idle,
    /// What is in a namespace.
    Namespace(Name),
    /// Pods, of a namespace or of all.
    Pods(Option<Name>),
}

impl Lens {
    /// As the trail names it; empty for everything.
    pub fn title(&self) -> String {
        match self {
            Self::All | Self::Cost(_) => String::new(),
            Self::Idle => String::from("all held, idle"),
            Self::Pool(name) => format!("pool {name}"),
            Self::Node(name) => format!("node {name}"),
            Self::Job(job) => format!("job {job}"),
            Self::Team(name) => format!("team {name}"),
            Self::Queue(name) => format!("queue {name}"),
            Self::Class(name) => format!("class {name}"),
            Self::Namespace(name) => format!("namespace {name}"),
            Self::Pods(None) => String::from("pods"),
            Self::Pods(Some(name)) => format!("pods of {name}"),
        }
    }
}

/// An object of the fleet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Picked {
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
    /// A run of the journal.
    Run(Name),
    /// A row of money.
    Cost(Scope, Name),
}

impl Picked {
    /// Its name as the facts have it: a device is called by its kind.
    pub fn title(&self, facts: &Facts) -> String {
        if let Self::Device(node, index) = self {
            let node = facts.fleet.node(node);
            if let Some(device) = node.and_then(|node| node.device(*index)) {
                return device.id.to_string();
            }
        }
        self.name()
    }

    /// What stands above it: its name, or what an alert is and of whom.
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

    /// Its name, as one would paste it into a command line.
    pub fn name(&self) -> String {
        match self {
            Self::Pool(name)
            | Self::Node(name)
            | Self::Finding(name)
            | Self::Source(name)
            | Self::Queue(name)
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
pub enum Place {
    /// A view of a part.
    Part(ViewId, Lens),
    /// Everything known of an object, over the view.
    Facts(Picked),
    /// What the cluster itself has to say of an object, under the tab that it was opened from.
    Paper(ViewId, Sort, Picked),
    /// Logs of an object's pods.
    Logs(ViewId, Picked),
}

/// What a command came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Turn {
    /// Done.
    Done,
    /// Done, and now show this.
    Go(Place),
    /// Done with a finding; `None` takes it back.
    Hush(Name, Option<Entry>),
    /// Not a command of this view.
    NotMine,
}

impl From<Option<Place>> for Turn {
    fn from(place: Option<Place>) -> Self {
        place.map_or(Self::Done, Self::Go)
    }
}

/// Numbers of a view that no scope narrows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Whole {
    /// All but money are of these, whole.
    ButMoney(&'static str),
    /// All of them are.
    All(&'static str),
}

/// Titles of columns, and a line of cells a row.
pub type Clip = (Vec<&'static str>, Vec<Vec<String>>);

/// A view: its own cursor, order and filter, and how it is drawn.
pub trait View {
    /// Whose tab is lit.
    fn id(&self) -> ViewId;
    /// What the trail says after the tab; empty at the top.
    fn trail(&self) -> String;
    /// Whose keys are heard, first served first.
    fn contexts(&self) -> &'static [Context];
    /// Takes the room that it will be drawn in; `paired` when two devices share a cell.
    fn fit(&mut self, _facts: &Facts, _area: Rect, _paired: bool) {}
    /// Takes new facts; `settle` lets rows change places.
    fn refresh(&mut self, facts: &Facts, settle: bool);
    /// Obeys a command.
    fn on(&mut self, command: Command, facts: &Facts, area: Rect) -> Turn;
    /// Takes a press of the mouse at a place within `area`; true when something is there.
    fn point(&mut self, facts: &Facts, x: u16, y: u16, area: Rect) -> bool;
    /// Sets the filter; an error says what is wrong with it and leaves the old one.
    fn set_filter(&mut self, words: &str, facts: &Facts) -> Result<(), String>;
    /// The filter as typed.
    fn filter(&self) -> &str;
    /// What is under the cursor.
    fn picked(&self, facts: &Facts) -> Option<Picked>;
    /// Rows shown, and rows without filter.
    fn counts(&self) -> (usize, usize);
    /// True when the order is no longer that of the values.
    fn is_unsettled(&self) -> bool;
    /// True when only faults are shown.
    fn faults_only(&self) -> bool;
    /// Nodes whose devices are on screen.
    fn on_screen(&self, facts: &Facts, area: Rect) -> Vec<Name>;
    /// Its table, for views that are or hold one: marks, columns, order and copies are asked of it.
    fn sheet(&self) -> Option<&sheet::Sheet> {
        None
    }
    /// Its table, to be changed.
    fn sheet_mut(&mut self) -> Option<&mut sheet::Sheet> {
        None
    }
    /// The objects that a key acts on: the marked ones, or the one under the cursor.
    fn meant(&self, facts: &Facts) -> Vec<Picked> {
        match self.sheet().map(|sheet| sheet.meant(facts)) {
            Some(meant) if !meant.is_empty() => meant,
            _ => self.picked(facts).into_iter().collect(),
        }
    }
    /// Titles and cells of the rows that are meant; nothing where no row is.
    fn clip(&self, facts: &Facts, ink: &Ink) -> Option<Clip> {
        self.sheet().map(|sheet| sheet.clip(facts, ink))
    }
    /// What it wants read of the cluster.
    fn want(&self) -> Option<&Want> {
        None
    }
    /// Takes what came of its want.
    fn told(&mut self, _news: &News, _facts: &Facts) {}
    /// What its numbers are of, whatever the scope, where that is more than the scope holds.
    fn whole(&self) -> Option<Whole> {
        None
    }
    /// Keeps to a scope, whatever part it shows.
    fn set_scope(&mut self, scope: &listing::Scope, facts: &Facts) {
        if let Some(sheet) = self.sheet_mut() {
            sheet.listing.set_scope(scope, facts);
        }
    }
    /// Draws it.
    fn draw(&self, facts: &Facts, brush: &mut Brush<'_>, area: Rect);
}

/// Keys of table views.
pub const TABLE: &[Context] = &[Context::Table, Context::Global, Context::Anywhere];
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
/// The view that stands at a place; nothing for what opens over a view.
pub fn at(place: &Place) -> Option<Box<dyn View>> {
    match place {
        Place::Part(id, lens) => Some(open(*id, lens.clone())),
        Place::Paper(id, sort, picked) => {
            Some(Box::new(paper::PaperView::new(*id, picked.clone(), *sort)))
        }
        Place::Logs(id, picked) => Some(Box::new(logs::LogView::new(*id, picked.clone()))),
        Place::Facts(_) => None,
    }
}

/// Makes a view of a part; `Lens::All` makes the one behind the tab.
pub fn open(id: ViewId, lens: Lens) -> Box<dyn View> {
    match (id, lens) {
        (ViewId::Fleet, _) => Box::new(fleet::FleetView::new()),
        (ViewId::Devices, lens @ Lens::Idle) => {
            Box::new(sheet::Sheet::new(id, &devices::IDLE, lens))
        }
        (ViewId::Devices, lens) => Box::new(heatmap::Heatmap::new(lens)),
        (ViewId::Nodes, Lens::Node(node)) => Box::new(detail::Detail::node(node)),
        (ViewId::Jobs, Lens::Job(job)) => Box::new(detail::Detail::job(job)),
        (ViewId::Cost, Lens::Cost(scope)) => Box::new(cost::CostView::new(scope)),
        (ViewId::Cost, _) => Box::new(cost::CostView::new(Scope::Team)),
        (ViewId::Pools, Lens::Pool(pool)) => Box::new(detail::Detail::pool(pool)),
        (ViewId::Pools, lens) => Box::new(sheet::Sheet::new(id, &pools::KIND, lens)),
        (ViewId::Queues, lens) => Box::new(queues::QueuesView::new(lens)),
        (ViewId::Jobs, lens @ Lens::Pods(_)) => Box::new(sheet::Sheet::new(id, &pods::KIND, lens)),
        (ViewId::Jobs, lens) => Box::new(sheet::Sheet::new(id, &jobs::KIND, lens)),
        (ViewId::Nodes, lens) => Box::new(sheet::Sheet::new(id, &nodes::KIND, lens)),
        (ViewId::Alerts, lens) => Box::new(alerts_view::AlertsView::new(lens)),
        (ViewId::Plans, lens) => Box::new(sheet::Sheet::new(id, &plans::KIND, lens)),
        (ViewId::Sources, lens) => Box::new(sheet::Sheet::new(id, &sources::KIND, lens)),
    }
}
