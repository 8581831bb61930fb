//! The rows of a table view: selection, order, marks and cursor. Kept between frames, so that a key neither sorts nor
//! filters; the order changes only on request.

mod column;
mod marks;

use rustc_hash::{FxHashMap, FxHashSet};

use model::base::SmallSort;
use model::fleet::observe::Table;
use table::Facts;
use table::column::{KindSpec, Row};

use super::commands::Command;
use super::filter::RowFilter;
use super::text;
use table::cell::Value;
use table::navigation::RowScope;

pub use column::{fields, matches};

/// Most rows that are measured for column widths.
const MEASURED: usize = 300;

/// Rows, order and cursor.
pub struct TableModel {
    /// The kind of rows.
    pub kind: &'static KindSpec,
    pub row_scope: RowScope,
    rows: Vec<Row>,
    ids: Vec<u64>,
    total: usize,
    cursor: usize,
    offset: usize,
    sort: Option<(usize, bool)>,
    filter: Option<RowFilter>,
    faults: bool,
    unsettled: bool,
    widest: Vec<u16>,
    /// True where an amount of a row is by list prices in place of what is paid.
    by_list: bool,
    /// Rare columns in which no row has a value, and columns of which nothing is visible to the user.
    empty: Vec<bool>,
    /// The titles of the latter.
    unseen: Vec<&'static str>,
    /// Why devices have no readings, where permissions are why.
    no_readings: Option<&'static str>,
    marks: FxHashSet<u64>,
    anchor: Option<u64>,
    /// True once the user has moved the cursor: it then follows its object. Until then it stays on the first row.
    placed: bool,
}

impl TableModel {
    /// An empty listing; `refresh` fills it.
    pub fn new(kind: &'static KindSpec, row_scope: RowScope) -> Self {
        Self {
            kind,
            row_scope,
            rows: Vec::new(),
            ids: Vec::new(),
            total: 0,
            cursor: 0,
            offset: 0,
            sort: kind.sort,
            filter: None,
            faults: false,
            unsettled: false,
            widest: Vec::new(),
            by_list: false,
            empty: Vec::new(),
            unseen: Vec::new(),
            no_readings: None,
            marks: FxHashSet::default(),
            anchor: None,
            placed: false,
        }
    }

    /// The rows in order.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// How many there are without filter.
    pub fn total(&self) -> usize {
        self.total
    }

    /// The row under the cursor.
    pub fn current(&self) -> Option<Row> {
        self.rows.get(self.cursor).copied()
    }

    /// Row of the cursor, from 0.
    pub fn cursor(&self) -> usize {
        self.cursor
    }

    /// The sort column, and whether it descends. While only faults are shown, the most severe come first unless another order was chosen.
    pub fn sorted(&self) -> Option<(usize, bool)> {
        let gravest = self.faults && self.kind.worst.is_some() && self.sort == self.kind.sort;
        self.sort.filter(|_| !gravest)
    }

    /// True when the order is no longer that of the values.
    pub fn is_unsettled(&self) -> bool {
        self.unsettled
    }

    /// The filter as typed.
    pub fn filter(&self) -> &str {
        self.filter.as_ref().map_or("", |filter| &filter.text)
    }

    /// True when only faults are shown.
    pub fn faults_only(&self) -> bool {
        self.faults
    }

    /// True where an amount of a row is by list prices in place of what is paid, so that a note explains its mark.
    pub const fn has_list_prices(&self) -> bool {
        self.by_list
    }

    /// The widest text of each column.
    pub fn widest(&self) -> &[u16] {
        &self.widest
    }

    /// The cursor follows the object that it is on from now on.
    pub const fn place_cursor(&mut self) {
        self.placed = true;
    }

    /// The rows in a window of `height`, from which on, with the cursor in sight.
    pub fn window(&self, height: usize) -> (usize, &[Row]) {
        let from = self.first(height);
        let to = (from + height).min(self.rows.len());
        (from, &self.rows[from..to])
    }

    fn first(&self, height: usize) -> usize {
        let height = height.max(1);
        let most = self.rows.len().saturating_sub(height);
        let least = (self.cursor + 1).saturating_sub(height);
        self.offset.max(least).min(self.cursor).min(most)
    }

    /// Takes new facts. Rows keep their places unless `settle`; the cursor follows its object.
    pub fn refresh(&mut self, facts: &Facts, settle: bool) {
        let placed = self.placed;
        let chosen = self.ids.get(self.cursor).filter(|_| placed).copied();
        let mut rows = self.collect(facts);
        self.total = rows.len();
        let (kind, faults, filter) = (self.kind, self.faults, self.filter.as_ref());
        if !self.marks.is_empty() {
            // Marks of removed objects are dropped.
            let here: FxHashSet<u64> = rows.iter().map(|row| (kind.id)(facts, *row)).collect();
            self.marks.retain(|id| here.contains(id));
        }
        if faults || filter.is_some() {
            rows.retain(|row| {
                (!faults || (kind.faulty)(facts, *row))
                    && filter.is_none_or(|filter| matches(filter, kind, facts, *row))
            });
        }
        if let Some(worst) = kind.worst.filter(|_| faults) {
            rows.sort_by_cached_key(|row| worst(facts, *row));
        }
        let first = self.ids.is_empty();
        if settle || first {
            self.widest.clear();
            self.settle(facts, rows);
        } else {
            self.keep(facts, rows);
        }
        self.measure(facts);
        self.cursor = chosen
            .and_then(|id| {
                // The common case first: nothing moved.
                (self.ids.get(self.cursor) == Some(&id))
                    .then_some(self.cursor)
                    .or_else(|| self.ids.iter().position(|known| *known == id))
            })
            .unwrap_or(if placed { self.cursor } else { 0 })
            .min(self.rows.len().saturating_sub(1));
    }

    /// The rows of the lens that are within the scope.
    fn collect(&self, facts: &Facts) -> Vec<Row> {
        let row_scope = match (&self.kind.searched, &self.filter) {
            (Some(each), Some(_)) if self.row_scope == RowScope::All => each,
            _ => &self.row_scope,
        };
        let mut rows = (self.kind.collect)(facts, row_scope);
        if let Some(part) = &facts.part {
            rows.retain(|row| {
                (self.kind.selection)(facts, *row)
                    .is_none_or(|selection| part.has(facts, &selection))
            });
        }
        rows
    }

    /// Puts the rows in order.
    fn settle(&mut self, facts: &Facts, rows: Vec<Row>) {
        let (kind, sort) = (self.kind, self.sorted());
        let mut keyed: Vec<((bool, u8), Value<'_>, Row)> = rows
            .into_iter()
            .map(|row| {
                let value = match sort {
                    Some((column, _)) => (kind.columns[column].cell)(facts, row).value,
                    None => Value::Empty,
                };
                (self.part_of(facts, row), value, row)
            })
            .collect();
        let falls = sort.is_some_and(|(_, falls)| falls);
        // Stable, so equal values stand in their natural order.
        keyed.small_sort_by(|a, b| {
            a.0.cmp(&b.0)
                .then_with(|| a.1.compare(&b.1, facts.now, falls))
        });
        self.rows = keyed.into_iter().map(|(_, _, row)| row).collect();
        self.ids = self.rows.iter().map(|row| (kind.id)(facts, *row)).collect();
        self.unsettled = false;
    }

    /// Rows of one part stand together, the least part first, whatever the order.
    fn part_of(&self, facts: &Facts, row: Row) -> (bool, u8) {
        let column = self.sorted().map(|(at, _)| &self.kind.columns[at]);
        let apart = column.and_then(|column| column.apart);
        (
            (self.kind.last)(facts, row),
            apart.map_or(0, |apart| apart(facts, row)),
        )
    }

    /// The order in words: `sorted by $/h, most first`.
    pub fn order_words(&self, facts: &Facts) -> String {
        let Some((at, falls)) = self.sorted() else {
            return String::from(match self.kind.sort {
                None => "default order",
                Some(_) => "not sorted: s sorts by the first column",
            });
        };
        let column = &self.kind.columns[at];
        let first = match (column.is_numeric(), falls) {
            (true, true) => "most first",
            (true, false) => "least first",
            (false, false) => "a to z",
            (false, true) => "z to a",
        };
        format!("sorted by {}, {first}", column.title(facts))
    }

    /// Keeps the known rows in place; new ones are added below.
    fn keep(&mut self, facts: &Facts, rows: Vec<Row>) {
        let kind = self.kind;
        let ids: Vec<u64> = rows.iter().map(|row| (kind.id)(facts, *row)).collect();
        // Place of each row in its natural order.
        let mut places_now: Vec<usize> = (0..rows.len()).collect();
        if ids == self.ids {
            self.rows = rows;
        } else {
            let mut places: FxHashMap<u64, usize> = ids
                .iter()
                .enumerate()
                .map(|(place, id)| (*id, place))
                .collect();
            let mut order: Vec<usize> =
                self.ids.iter().filter_map(|id| places.remove(id)).collect();
            let mut fresh: Vec<usize> = places.into_values().collect();
            fresh.small_sort();
            order.extend(fresh);
            self.rows = order.iter().map(|place| rows[*place]).collect();
            self.ids = order.iter().map(|place| ids[*place]).collect();
            places_now = order;
        }
        self.unsettled = match self.sorted() {
            None => {
                let mut keys = self.rows.iter().zip(&places_now);
                !keys
                    .by_ref()
                    .map(|(row, place)| ((kind.last)(facts, *row), *place))
                    .is_sorted()
            }
            Some((column, falls)) => !self.rows.is_sorted_by(|a, b| {
                let value = |row: Row| (kind.columns[column].cell)(facts, row).value;
                let order = self
                    .part_of(facts, *a)
                    .cmp(&self.part_of(facts, *b))
                    .then_with(|| value(*a).compare(&value(*b), facts.now, falls));
                order.is_le()
            }),
        };
    }

    /// The columns that are left out because no row has a value there that is visible to the user.
    pub fn unseen_note(&self) -> Option<String> {
        let titles = self.unseen.join(", ");
        let why = self.no_readings.map(|why| format!("; {why}"));
        let why = why.unwrap_or_default();
        let words = || format!("columns without a value are not shown: {titles}{why}");
        (!titles.is_empty()).then(words)
    }

    /// True for a rare column in which no row has a value, and for one of which nothing is visible.
    pub fn is_empty_column(&self, column: usize) -> bool {
        self.empty.get(column).copied().unwrap_or(false)
    }

    fn measure(&mut self, facts: &Facts) {
        self.empty.clear();
        let hidden = facts.fleet.hidden_of(&[Table::Nodes, Table::ClusterQueues]);
        self.no_readings = table::no_readings(facts);
        let is_limited = hidden.is_some() || self.no_readings.is_some();
        let is_limited = is_limited && !self.rows.is_empty();
        let mut unseen = Vec::new();
        for (at, column) in self.kind.columns.iter().enumerate() {
            let silent = |row: &Row| match (column.cell)(facts, *row).value {
                Value::Empty => true,
                Value::Text(words) => words.is_empty(),
                _ => false,
            };
            // A column without a title is not shown.
            let unnamed = column.titled.is_some_and(|title| title(facts).is_empty());
            let silent = unnamed || column.rare && self.rows.iter().all(silent);
            // The first column has the names.
            let values = || {
                let rows = self.rows.iter();
                rows.map(|row| (column.cell)(facts, *row).value)
            };
            let is_unseen = is_limited
                && at > 0
                && values().all(|value| value.is_unknown() || value == Value::Empty)
                && values().any(|value| value.is_unknown());
            if is_unseen {
                unseen.push(column.head.title);
            }
            self.empty.push(silent || is_unseen);
        }
        self.unseen = unseen;
        let mut priced = self.kind.columns.iter();
        self.by_list = facts.spend_rates.total.rate.is_by_list()
            && priced.any(|column| {
                let mut rows = self.rows.iter().take(MEASURED);
                column.head.title.contains('$')
                    && rows.any(|row| (column.cell)(facts, *row).value.is_by_list())
            });
        self.widest.resize(self.kind.columns.len(), 0);
        for (slot, column) in self.widest.iter_mut().zip(self.kind.columns) {
            if column.is_numeric() {
                continue;
            }
            for row in self.rows.iter().take(MEASURED) {
                let cell = (column.cell)(facts, *row);
                if let Some((namespace, name)) = cell.value.words() {
                    let slash = usize::from(!namespace.is_empty());
                    let beside =
                        if column.sign.is_some() { 2 } else { 0 } + slash + text::width(cell.mark);
                    let width = text::width(&text::clean(namespace, false))
                        + text::width(&text::clean(name, false))
                        + beside;
                    *slot = (*slot).max(u16::try_from(width).unwrap_or(u16::MAX));
                }
            }
        }
    }

    /// Sets the filter; an error leaves the old one.
    pub fn set_filter(&mut self, words: &str, facts: &Facts) -> Result<(), String> {
        let filter = if words.trim().is_empty() {
            None
        } else {
            Some(RowFilter::parse(words, &fields(self.kind))?)
        };
        if filter == self.filter {
            return Ok(());
        }
        let narrower = match (&filter, &self.filter) {
            (Some(new), Some(old)) => new.narrows(old),
            (Some(new), None) => new.is_plain() && self.kind.searched.is_none(),
            _ => false,
        };
        self.filter = filter;
        if narrower {
            self.narrow(facts);
        } else {
            self.refresh(facts, true);
        }
        Ok(())
    }

    /// Drops the shown rows that the filter no longer lets through. The others need no look: typing on only takes away.
    fn narrow(&mut self, facts: &Facts) {
        let (kind, Some(filter)) = (self.kind, self.filter.as_ref()) else {
            return;
        };
        let placed = self.placed;
        let chosen = self.ids.get(self.cursor).filter(|_| placed).copied();
        let rows = std::mem::take(&mut self.rows);
        let ids = std::mem::take(&mut self.ids);
        for (row, id) in rows.into_iter().zip(ids) {
            if matches(filter, kind, facts, row) {
                self.rows.push(row);
                self.ids.push(id);
            }
        }
        self.cursor = chosen
            .and_then(|id| self.ids.iter().position(|known| *known == id))
            .unwrap_or(0);
    }

    pub fn set_lens(&mut self, row_scope: RowScope, facts: &Facts) {
        self.row_scope = row_scope;
        self.go_to_top();
        self.refresh(facts, true);
    }

    /// Sorts by this column: by the way that its kind is read first, the other way round when it is sorted so.
    pub fn sort_by(&mut self, column: usize, facts: &Facts) {
        if let Some(known) = self.kind.columns.get(column) {
            let falls = match self.sort {
                Some((sorted, falls)) if sorted == column => !falls,
                _ => known.is_numeric(),
            };
            self.sort = Some((column, falls));
            self.reorder(facts);
        }
    }

    /// Puts the rows in an order that was asked for, the cursor on the first of them; from there it follows its object.
    fn reorder(&mut self, facts: &Facts) {
        self.go_to_top();
        self.refresh(facts, true);
        self.placed = true;
    }

    /// Back to the first row, whatever comes to stand there.
    fn go_to_top(&mut self) {
        self.cursor = 0;
        self.offset = 0;
        self.placed = false;
    }

    /// Puts the cursor on a line of the window, if there is a row.
    pub fn point(&mut self, line: usize, height: usize) -> bool {
        let (from, rows) = self.window(height);
        let hit = line < rows.len();
        if hit {
            self.offset = from;
            self.cursor = from + line;
            self.placed = true;
        }
        hit
    }

    /// Handles a table command; true when it was one. `height` is the window's.
    pub fn on(
        &mut self,
        command: Command,
        facts: &Facts,
        height: usize,
        shown: impl Fn(usize) -> bool,
    ) -> bool {
        let last = self.rows.len().saturating_sub(1);
        let page = height.saturating_sub(1).max(1);
        self.placed = true;
        match command {
            Command::Up => self.cursor = self.cursor.saturating_sub(1),
            Command::Down => self.cursor = (self.cursor + 1).min(last),
            Command::Top => self.cursor = 0,
            Command::Bottom => self.cursor = last,
            Command::PageUp => self.cursor = self.cursor.saturating_sub(page),
            Command::PageDown => self.cursor = (self.cursor + page).min(last),
            Command::Sort => {
                if !self.unsettled {
                    self.sort = self.next_sort(shown);
                }
                self.reorder(facts);
            }
            Command::Order => {
                self.sort = Some(match self.sort {
                    Some((column, falls)) => (column, !falls),
                    None => (0, true),
                });
                self.reorder(facts);
            }
            Command::Faults => {
                self.faults = !self.faults;
                // Other rows than before: what was under the cursor says nothing of where to look first.
                self.reorder(facts);
            }
            _ if self.mark(command) => {}
            _ => return false,
        }
        self.offset = self.first(height);
        true
    }

    /// The next shown column to sort by: words rise, numbers fall; after the last comes the natural order.
    fn next_sort(&self, shown: impl Fn(usize) -> bool) -> Option<(usize, bool)> {
        let from = self.sort.map_or(0, |(column, _)| column + 1);
        (from..self.kind.columns.len())
            .find(|at| shown(*at))
            .map(|at| (at, self.kind.columns[at].is_numeric()))
    }
}
