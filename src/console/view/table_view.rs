//! A table view: a listing drawn as a table. Every view that is a table is this, with columns of its own.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::commands::{Command, Context};
use crate::painter::{Painter, RenderStyle};
use crate::table_model::TableModel;
use crate::text;
use crate::widget::cell::words;
use crate::widget::table::{TableLook, fitting, table};
use model::base::{Moment, Name};
use model::cost::LIST_NOTE;
use model::fleet::TableState;
use model::fleet::observe::{SourceState, Table};
use table::Facts;
use table::cell::{Cell, Value};
use table::column::ColumnHead;
use table::column::{KindSpec, Row};
use table::kinds::{advice, cost};
use table::navigation::{Destination, RowScope, Selection, ViewId};
use table::role::Role;

use super::view_trait::{CommandOutcome, CopiedRows, PLANS, TABLE, View};

/// Columns of a trend at most: a point a cell.
const POINTS: usize = 24;
/// Drop priority of a column that the user chose: it is dropped before the essential columns, such as a reason.
const WIDE: u8 = 4;
/// The span of a trend.
pub const TREND_MINUTES: i64 = 60;

/// A listing and how it is drawn.
pub struct TableView {
    id: ViewId,
    /// Rows, order and cursor.
    pub table_model: TableModel,
    wide: bool,
    /// Columns that the user chose one by one; `None`: `wide` decides.
    chosen: Option<Vec<bool>>,
    /// The columns that had room when it was last drawn, a bit each; 0 before.
    drawn: std::cell::Cell<u64>,
    /// Whether the note on list prices was below its rows when it was last drawn.
    noted: std::cell::Cell<bool>,
}

impl TableView {
    /// A sheet of this kind.
    pub fn new(id: ViewId, kind: &'static KindSpec, row_scope: RowScope) -> Self {
        Self {
            id,
            table_model: TableModel::new(kind, row_scope),
            wide: false,
            chosen: None,
            drawn: std::cell::Cell::new(0),
            noted: std::cell::Cell::new(false),
        }
    }

    /// True where a column of this id had room when it was last drawn.
    pub fn has_drawn(&self, id: &str) -> bool {
        let columns = self.table_model.kind.columns.iter();
        let at = columns.enumerate().find(|(_, column)| column.id == id);
        at.is_some_and(|(at, _)| self.drawn.get() >> at.min(63) & 1 == 1)
    }

    /// True if the note on list prices is on screen.
    pub fn has_list_note(&self) -> bool {
        self.noted.get()
    }

    /// Rows that fit under the header.
    pub fn height(area: Rect) -> usize {
        usize::from(area.height.saturating_sub(1))
    }

    /// Rows that fit into this area beside the header and the note on list prices.
    pub fn rows_in(&self, area: Rect) -> usize {
        Self::height(self.above_note(area))
    }

    /// The area without the last line where that is for the note on list prices, or on columns that are not visible. Where all rows
    /// just fit, none gives way to that on prices: the header says it too.
    fn above_note(&self, area: Rect) -> Rect {
        let just_fit = self.table_model.rows().len() == Self::height(area);
        let note = self.table_model.has_list_prices() && area.height > 4 && !just_fit
            || self.table_model.unseen_note().is_some() && area.height > 3;
        Rect {
            height: area.height - u16::from(note),
            ..area
        }
    }

    /// Area of header and rows; a table with a total has the total on the last line.
    fn body(&self, area: Rect) -> Rect {
        let foot = u16::from(self.has_total() && area.height > 3);
        Rect {
            height: area.height - foot,
            ..area
        }
    }

    /// True for a table whose last line is a total.
    pub(super) fn has_total(&self) -> bool {
        std::ptr::eq(self.table_model.kind, &raw const advice::KIND)
    }

    /// Where the row under the cursor leads.
    fn opened(&self, facts: &Facts) -> Option<Destination> {
        let row = self.table_model.current()?;
        (self.table_model.kind.open)(facts, row)
    }

    /// True where the row under the cursor can be opened.
    pub fn leads(&self, facts: &Facts) -> bool {
        self.opened(facts).is_some()
    }

    /// Obeys a command of tables.
    pub fn obey(&mut self, command: Command, facts: &Facts, area: Rect) -> CommandOutcome {
        match command {
            Command::Open => {
                // What is opened is under the cursor on the way back.
                self.table_model.place_cursor();
                self.opened(facts).into()
            }
            Command::Wide => {
                self.wide = !self.wide;
                self.chosen = None;
                CommandOutcome::Done
            }
            _ => {
                // Sorting by a column that does not fit would be invisible.
                let drawn = self.drawn.get();
                let had_room = |at: usize| drawn == 0 || drawn >> at.min(63) & 1 == 1;
                let wanted = self.columns().into_iter().enumerate();
                let shown: Vec<bool> = wanted.map(|(at, own)| own && had_room(at)).collect();
                let height = self.rows_in(self.body(area));
                if self.table_model.on(command, facts, height, |at| shown[at]) {
                    CommandOutcome::Done
                } else {
                    CommandOutcome::NotMine
                }
            }
        }
    }

    /// Columns to show; the width decides which of them are drawn.
    pub fn columns(&self) -> Vec<bool> {
        let all = self.table_model.kind.columns;
        match &self.chosen {
            Some(chosen) => chosen.clone(),
            // The pools' own view shows more pool columns than the fleet view, if they fit.
            None => all
                .iter()
                .map(|column| self.wide || !column.wide || self.is_of_pools())
                .collect(),
        }
    }

    fn is_of_pools(&self) -> bool {
        self.id == ViewId::Pools
            && std::ptr::eq(self.table_model.kind, &raw const table::kinds::pools::KIND)
    }

    /// Chooses these columns; ignores a choice for another table and one without any column.
    pub fn choose_columns(&mut self, chosen: Vec<bool>) {
        if chosen.len() == self.table_model.kind.columns.len() && chosen.contains(&true) {
            self.chosen = Some(chosen);
        }
    }

    /// The user's choice of columns, if any.
    pub fn chosen_columns(&self) -> Option<&[bool]> {
        self.chosen.as_deref()
    }

    /// The marked rows (or the one under the cursor) as text: titles of the chosen columns, and a line of cells per row.
    pub fn copied_rows(&self, facts: &Facts, render_style: &RenderStyle) -> CopiedRows {
        let mut nothing = Buffer::empty(Rect::new(0, 0, 1, 1));
        let mut painter = Painter::new(&mut nothing, render_style, facts.now);
        let wanted = self.columns();
        let columns = || {
            let all = self.table_model.kind.columns.iter().zip(&wanted);
            all.filter(|(_, wanted)| **wanted).map(|(column, _)| column)
        };
        let rows = self.table_model.meant().into_iter().map(|row| {
            columns()
                .map(|column| words(&(column.cell)(facts, row), &mut painter).into_owned())
                .collect()
        });
        let rows = rows.collect();
        let titles = columns().map(|column| column.title(facts).into_owned());
        (titles.collect(), rows)
    }

    /// The marked objects, or the one under the cursor.
    pub fn meant(&self, facts: &Facts) -> Vec<Selection> {
        let rows = self.table_model.meant().into_iter();
        rows.filter_map(|row| (self.table_model.kind.selection)(facts, row))
            .collect()
    }

    /// Draws header, visible rows and, of advice, the total; in the free line between the two areas, if any, which columns have no room.
    pub fn paint_above(&self, facts: &Facts, painter: &mut Painter<'_>, above: Rect, below: Rect) {
        let body = self.body(above);
        let width = above.width.saturating_sub(4);
        let lacking = self.paint(facts, painter, body, true);
        let rows = self.table_model.rows().iter();
        if body.height < above.height
            && let Some(total) = advice::total(facts, rows.copied())
        {
            painter.text_in_role(above.x + 2, body.bottom(), width, &total, Role::Muted);
        }
        if let Some(words) = lacking.filter(|_| above.bottom() < below.y) {
            painter.text_in_role(above.x + 2, above.bottom(), width, &words, Role::Muted);
        }
    }

    /// Draws header and visible rows; `focus` shows the cursor. Which columns have no room is said below the rows; it is returned where
    /// no line is free there.
    pub fn paint(
        &self,
        facts: &Facts,
        painter: &mut Painter<'_>,
        area: Rect,
        focus: bool,
    ) -> Option<String> {
        let table_model = &self.table_model;
        let wanted = self.columns();
        let mut shown: Vec<usize> = (0..wanted.len())
            .filter(|at| {
                wanted[*at] && (self.chosen.is_some() || !table_model.is_empty_column(*at))
            })
            .collect();
        let whole = area;
        let area = self.above_note(whole);
        let (from, rows) = table_model.window(Self::height(area));
        let mut cells: Vec<Vec<Cell<'_>>> = rows
            .iter()
            .map(|row| shown.iter().map(|at| self.cell(facts, *at, *row)).collect())
            .collect();
        let empty = self.give_way(&mut shown, &mut cells);
        self.leave_out(facts, painter, area.width, &mut shown, &mut cells);
        let heads: Vec<ColumnHead> = shown
            .iter()
            .enumerate()
            .map(|(place, at)| {
                let column = &table_model.kind.columns[*at];
                // Columns that the user chose must not be the first to be dropped.
                let drop = match (self.wide || self.chosen.is_some()) && column.wide {
                    true => WIDE,
                    false => column.head.drop,
                };
                // Without history the cells are bars of the current value, so the title must not name an hour.
                let title = match column.trend.is_some() && !give_pasts(&mut cells, place) {
                    true => column.head.title.trim_end_matches(" 60m"),
                    false => column.head.title,
                };
                ColumnHead {
                    title,
                    drop,
                    ..column.head
                }
            })
            .collect();
        let widest = self.widest(&shown);
        let look = TableLook {
            selected: (focus && !rows.is_empty())
                .then(|| table_model.cursor().saturating_sub(from)),
            sorted: table_model.sorted().and_then(|(column, falls)| {
                let place = shown.iter().position(|at| *at == column)?;
                Some((place, falls))
            }),
            unsettled: table_model.is_unsettled(),
            marked: (0..rows.len())
                .filter(|line| table_model.is_marked(from + line))
                .collect(),
            titles: self.titles(facts, &shown),
        };
        let drawn = table(painter, area, &heads, &widest, &cells, &look);
        let bits = drawn.iter().map(|place| 1_u64 << shown[*place].min(63));
        // What is empty on this screen can be sorted by all the same.
        self.drawn.set(bits.fold(empty, |all, bit| all | bit));
        let is_marked = |row: &Vec<Cell<'_>>| drawn.iter().any(|at| row[*at].value.is_by_list());
        let noted = area.height < whole.height && cells.iter().any(is_marked);
        self.noted.set(noted);
        let list = noted.then(|| LIST_NOTE.to_owned());
        // What the user chose is drawn all the same.
        let unseen = table_model.unseen_note().filter(|_| self.chosen.is_none());
        let mut notes: Vec<String> = list.into_iter().chain(unseen).collect();
        let lacking = self.without_room(facts, &shown, &drawn);
        let mut lacking = lacking.filter(|_| !rows.is_empty());
        let mut y = area.bottom();
        if notes.is_empty() && !rows.is_empty() {
            y = (area.y + 1).saturating_add(rows.len() as u16);
        }
        if y < whole.bottom() {
            notes.extend(lacking.take());
            let (width, words) = (whole.width.saturating_sub(4), notes.join("   "));
            painter.text_in_role(whole.x + 2, y, width, &words, Role::Muted);
        }
        if rows.is_empty() && area.height > 2 {
            self.say_why_empty(facts, painter, area);
        }
        lacking
    }

    /// Takes out the columns that give way where no row on the screen has a value in them, and returns them as bits. What the user
    /// chose or sorts by stays.
    fn give_way(&self, shown: &mut Vec<usize>, cells: &mut [Vec<Cell<'_>>]) -> u64 {
        let sorted = self.table_model.sorted().map(|(column, _)| column);
        let mut gone = 0;
        for place in (0..shown.len()).rev() {
            let at = shown[place];
            let mut rows = cells.iter();
            if self.chosen.is_none()
                && self.table_model.kind.columns[at].gives_way
                && sorted != Some(at)
                && !cells.is_empty()
                && rows.all(|row| row[place].value == Value::Empty)
            {
                shown.remove(place);
                for row in cells.iter_mut() {
                    row.remove(place);
                }
                gone |= 1 << at.min(63);
            }
        }
        gone
    }

    /// Which columns have no room, but for those that another one here says in short.
    fn without_room(&self, facts: &Facts, shown: &[usize], drawn: &[usize]) -> Option<String> {
        let columns = self.table_model.kind.columns;
        let in_short = |at: usize| {
            let mut others = shown.iter().map(|other| columns[*other].yields_to);
            others.any(|says| says.contains(&columns[at].id))
        };
        let lacking = (0..shown.len()).filter(|place| !drawn.contains(place));
        let lacking: Vec<_> = lacking
            .filter(|place| !in_short(shown[*place]))
            .map(|place| columns[shown[place]].title(facts))
            .collect();
        (!lacking.is_empty()).then(|| format!("no room for {}", lacking.join(", ")))
    }

    /// The titles of these columns that the facts give, by place.
    fn titles(&self, facts: &Facts, shown: &[usize]) -> Vec<(usize, String)> {
        let titles = shown.iter().enumerate().filter_map(|(place, at)| {
            let column = &self.table_model.kind.columns[*at];
            let title = column.title(facts);
            (title != column.head.title).then(|| (place, title.into_owned()))
        });
        titles.collect()
    }

    /// The widest text of each of these columns.
    fn widest(&self, shown: &[usize]) -> Vec<u16> {
        let widest = self.table_model.widest();
        let of = |at: &usize| widest.get(*at).copied().unwrap_or(0);
        shown.iter().map(of).collect()
    }

    /// Takes out a column that others make superfluous, where without it three quarters of them or more fit. What the user chose stays.
    fn leave_out(
        &self,
        facts: &Facts,
        painter: &mut Painter<'_>,
        width: u16,
        shown: &mut Vec<usize>,
        cells: &mut [Vec<Cell<'_>>],
    ) {
        let columns = self.table_model.kind.columns;
        let has_others = |at: &usize| !columns[*at].yields_to.is_empty();
        let place = shown.iter().position(has_others);
        let Some(place) = place.filter(|_| self.chosen.is_none()) else {
            return;
        };
        let own = shown.remove(place);
        let taken: Vec<Cell<'_>> = cells.iter_mut().map(|row| row.remove(place)).collect();
        let heads: Vec<ColumnHead> = shown.iter().map(|at| columns[*at].head).collect();
        let look = TableLook {
            titles: self.titles(facts, shown),
            ..TableLook::default()
        };
        let fits = fitting(painter, width, &heads, &self.widest(shown), cells, &look);
        let says_it = |at: &usize| columns[own].yields_to.contains(&columns[*at].id);
        let all = shown.iter().filter(|at| says_it(at)).count();
        let drawn = fits.iter().filter(|place| says_it(&shown[**place])).count();
        if all == 0 || drawn * 4 < all * 3 {
            shown.insert(place, own);
            for (row, cell) in cells.iter_mut().zip(taken) {
                row.insert(place, cell);
            }
        }
    }

    fn cell<'a>(&self, facts: &'a Facts, at: usize, row: Row) -> Cell<'a> {
        let column = &self.table_model.kind.columns[at];
        let mut cell = (column.cell)(facts, row);
        cell.sign = column.sign.map(|sign| sign(facts, row));
        if let (Value::Trend(values, _), Some(trend)) = (&mut cell.value, column.trend)
            && let Some((track, since)) = trend(facts, row)
        {
            *values = past(facts, &track, since, POINTS);
        }
        cell
    }

    fn say_why_empty(&self, facts: &Facts, painter: &mut Painter<'_>, area: Rect) {
        let (words, role) = if self.table_model.total() > 0 {
            let words = match (self.table_model.filter(), self.table_model.faults_only()) {
                ("", _) => String::from("nothing is faulty  ·  esc shows everything"),
                (filter, false) => format!("nothing matches {filter}  ·  esc shows everything"),
                (filter, true) => format!(
                    "no faulty row matches {filter}  ·  esc clears the filter, z shows all rows"
                ),
            };
            (words, Role::Muted)
        } else {
            nothing_known(facts, self.id).unwrap_or_else(|| {
                let none = self.table_model.kind.none;
                let is_waste = std::ptr::eq(self.table_model.kind, &raw const cost::IDLE);
                let unread = table::no_readings(facts).filter(|_| is_waste);
                let words = match (self.id, unread) {
                    (_, Some(why)) => format!("which devices are idle is not known: {why}"),
                    (ViewId::Plans | ViewId::Sources, None) => none.to_owned(),
                    _ => facts.none_in_scope(none),
                };
                (words, Role::Muted)
            })
        };
        let width = area.width.saturating_sub(4);
        for (line, words) in text::wrap(&words, usize::from(width)).iter().enumerate() {
            let y = area.y + 2 + line as u16;
            if y >= area.bottom() {
                break;
            }
            painter.text_in_role(area.x + 2, y, width, words, role);
        }
    }
}

/// True when some row of a column of trends has a past. Then rows without a past show their present value as a trend too, so that
/// the column has one form.
fn give_pasts(cells: &mut [Vec<Cell<'_>>], column: usize) -> bool {
    let has_past = |cell: &Cell<'_>| match &cell.value {
        Value::Trend(values, _) => values.iter().any(Option::is_some),
        _ => false,
    };
    if !cells
        .iter()
        .any(|row| row.get(column).is_some_and(has_past))
    {
        return false;
    }
    for cell in cells.iter_mut().filter_map(|row| row.get_mut(column)) {
        if let Value::Trend(values, Some(last)) = &mut cell.value
            && let Some(newest) = values.last_mut()
            && newest.is_none()
        {
            *newest = Some(*last as f32);
        }
    }
    true
}

/// Why the table may be empty: no permission, not read yet, or source lost.
fn nothing_known(facts: &Facts, id: ViewId) -> Option<(String, Role)> {
    let tables: &[Table] = match id {
        ViewId::Jobs => &[Table::Pods, Table::Jobs],
        ViewId::Queues => &[Table::ClusterQueues, Table::VolcanoQueues, Table::KaiQueues],
        ViewId::Alerts | ViewId::Cost => &[Table::Nodes, Table::Pods],
        ViewId::Sources | ViewId::Plans => return None,
        _ => &[Table::Nodes],
    };
    if let Some(hidden) = facts.fleet.hidden_of(tables) {
        let help = facts.fleet.rights_help();
        return Some((format!("{hidden}: {help}"), Role::Muted));
    }
    for table in tables {
        match facts.fleet.visibility(*table) {
            TableState::Lost(lost) => {
                return Some((
                    format!("{} unreachable: {}", table.name(), lost.message),
                    Role::Crit,
                ));
            }
            TableState::Waiting => {
                return Some((format!("reading {}…", table.name()), Role::Muted));
            }
            TableState::Live | TableState::Absent | TableState::NotVisible(_) => {}
        }
    }
    // That no finding needs action is known once every source has answered.
    let sources = &facts.fleet.sources;
    let ours = || {
        sources
            .iter()
            .filter(|it| it.state != SourceState::NotVisible)
    };
    let spoken = ours().filter(|source| source.has_spoken()).count();
    if id == ViewId::Alerts && (spoken < ours().count() || !facts.fleet.is_complete()) {
        let words = format!(
            "reading… {spoken} of {} sources have answered",
            ours().count()
        );
        return Some((words, Role::Muted));
    }
    None
}

/// The last hour of a track, oldest first, in whole steps, so that it moves only when a step is full.
pub fn past(
    facts: &Facts,
    track: &model::fleet::history::Track,
    since: Option<Moment>,
    points: usize,
) -> Vec<Option<f32>> {
    let step = TREND_MINUTES * 60_000 / points.max(1) as i64;
    let to = facts.now.millis().div_euclid(step) * step;
    let span = (
        Moment::from_millis(to - TREND_MINUTES * 60_000),
        Moment::from_millis(to),
    );
    facts.history.window_since(track, span, since, points)
}

impl View for TableView {
    fn id(&self) -> ViewId {
        self.id
    }
    fn trail(&self) -> String {
        self.table_model.row_scope.title()
    }
    fn contexts(&self) -> &'static [Context] {
        match self.id {
            ViewId::Plans => PLANS,
            _ => TABLE,
        }
    }
    fn refresh(&mut self, facts: &Facts, settle: bool) {
        self.table_model.refresh(facts, settle);
    }
    fn on(&mut self, command: Command, facts: &Facts, area: Rect) -> CommandOutcome {
        self.obey(command, facts, area)
    }
    fn point(&mut self, _: &Facts, _x: u16, y: u16, area: Rect) -> bool {
        y > area.y
            && self
                .table_model
                .point(usize::from(y - area.y - 1), self.rows_in(self.body(area)))
    }
    fn set_filter(&mut self, words: &str, facts: &Facts) -> Result<(), String> {
        self.table_model.set_filter(words, facts)
    }
    fn filter(&self) -> &str {
        self.table_model.filter()
    }
    fn selection(&self, facts: &Facts) -> Option<Selection> {
        (self.table_model.kind.selection)(facts, self.table_model.current()?)
    }
    fn counts(&self) -> (usize, usize) {
        (self.table_model.rows().len(), self.table_model.total())
    }
    fn is_unsettled(&self) -> bool {
        self.table_model.is_unsettled()
    }
    fn faults_only(&self) -> bool {
        self.table_model.faults_only()
    }
    fn on_screen(&self, facts: &Facts, area: Rect) -> Vec<Name> {
        // This tab also has other tables.
        if !std::ptr::eq(self.table_model.kind, &raw const table::kinds::nodes::KIND) {
            return Vec::new();
        }
        let (_, rows) = self.table_model.window(self.rows_in(area));
        rows.iter()
            .filter_map(|row| facts.fleet.nodes.get(row.0 as usize))
            .map(|node| node.name().clone())
            .collect()
    }
    fn table(&self) -> Option<&TableView> {
        Some(self)
    }
    fn table_mut(&mut self) -> Option<&mut TableView> {
        Some(self)
    }

    fn draw(&self, facts: &Facts, painter: &mut Painter<'_>, area: Rect) {
        self.paint_above(facts, painter, area, area);
    }
}
