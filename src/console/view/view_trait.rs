//! What a view is: its own cursor, order and filter, its keys, and how it is drawn.

use ratatui::layout::Rect;

use model::base::Name;
use model::object::{ObjectNews, ObjectRequest};
use table::Facts;
use table::navigation::{Destination, Selection, ViewId};
use table::silence::SilenceEntry;

use super::table_view::TableView;
use crate::commands::{Command, Context};
use crate::painter::{Painter, RenderStyle};

/// Result of a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CommandOutcome {
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
    fn on(&mut self, command: Command, facts: &Facts, area: Rect) -> CommandOutcome;
    /// False for a command that would change nothing in this view now.
    fn does(&self, command: Command, facts: &Facts) -> bool {
        match command {
            // A row that represents several objects can be opened, but is no object; a panel's row is not the table's.
            Command::Open => match self.table().filter(|_| self.id() != ViewId::Fleet) {
                Some(table) => table.leads(facts),
                None => self.selection(facts).is_some(),
            },
            Command::Sort | Command::Filter | Command::Faults => self.counts().1 > 0,
            _ => true,
        }
    }
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
    /// The view's table, where it has one: rows, filter, order, marks, columns and copies default to the table's.
    fn table(&self) -> Option<&TableView> {
        None
    }
    /// Its table, to be changed.
    fn table_mut(&mut self) -> Option<&mut TableView> {
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
    /// The room that it left when it was last drawn, for what the keys of actions plan.
    fn room_for_actions(&self) -> Option<Rect> {
        None
    }
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

pub const TEXT: &[Context] = &[Context::Text, Context::Global, Context::Anywhere];
pub const LOGS: &[Context] = &[
    Context::Logs,
    Context::Text,
    Context::Global,
    Context::Anywhere,
];
