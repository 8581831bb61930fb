//! The rows of a table view: which, in what order, and where the cursor stands. Kept between frames, so that a key
//! sorts and filters nothing; the order holds still until it is asked for.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use rustc_hash::FxHashMap;

use crate::fleet::history::Track;
use crate::report::Facts;

use super::commands::Command;
use super::filter::{self, Filter};
use super::text;
use super::theme::Role;
use super::view::{Lens, Picked, Place};
use super::widget::{Align, Cell, Head, Value, Width};

/// Where a row's object stands in the facts: its table's index, and a second one for what is within.
pub type Row = (u32, u32);

/// The sign and the colour of a row's state.
type SignOf = fn(&Facts, Row) -> (&'static str, Role);

/// One column: header, width, cell, sort key and filter in one place.
#[derive(Clone, Copy)]
pub struct Column {
    /// Its name in filters.
    pub id: &'static str,
    /// How it stands in the table.
    pub head: Head,
    /// Its cell of a row.
    pub cell: for<'a> fn(&'a Facts, Row) -> Cell<'a>,
    /// The sign before its words; asked only for rows that are drawn.
    pub sign: Option<SignOf>,
    /// Where the past of a trend is found; asked only for rows that are drawn.
    pub trend: Option<fn(&Facts, Row) -> Option<Track>>,
    /// Shown only when more columns are asked for.
    pub wide: bool,
    /// Only while some row has something to say in it.
    pub rare: bool,
}

impl Column {
    /// A column of words.
    pub const fn words(
        id: &'static str,
        title: &'static str,
        drop: u8,
        (least, most): (u16, u16),
        cell: for<'a> fn(&'a Facts, Row) -> Cell<'a>,
    ) -> Self {
        let width = Width::Cut(least, most);
        Self::new(id, title, Align::Left, width, drop, cell)
    }

    /// A column of numbers.
    pub const fn number(
        id: &'static str,
        title: &'static str,
        drop: u8,
        least: u16,
        cell: for<'a> fn(&'a Facts, Row) -> Cell<'a>,
    ) -> Self {
        let width = Width::Fit(least);
        Self::new(id, title, Align::Right, width, drop, cell)
    }

    /// A column of bars or trends.
    pub const fn graphic(
        id: &'static str,
        title: &'static str,
        drop: u8,
        (least, most): (u16, u16),
        cell: for<'a> fn(&'a Facts, Row) -> Cell<'a>,
    ) -> Self {
        let width = Width::Graphic(least, most);
        Self::new(id, title, Align::Left, width, drop, cell)
    }

    const fn new(
        id: &'static str,
        title: &'static str,
        align: Align,
        width: Width,
        drop: u8,
        cell: for<'a> fn(&'a Facts, Row) -> Cell<'a>,
    ) -> Self {
        Self {
            id,
            head: Head {
                title,
                align,
                width,
                drop,
            },
            cell,
            sign: None,
            trend: None,
            wide: false,
            rare: false,
        }
    }

    /// With a sign before its words.
    #[must_use]
    pub const fn sign(mut self, sign: SignOf) -> Self {
        self.sign = Some(sign);
        self
    }

    /// With its title at the left, for graphics that begin there.
    #[must_use]
    pub const fn left(mut self) -> Self {
        self.head.align = Align::Left;
        self
    }

    /// With a past.
    #[must_use]
    pub const fn trend(mut self, trend: fn(&Facts, Row) -> Option<Track>) -> Self {
        self.trend = Some(trend);
        self
    }

    /// Only while some row has something to say in it.
    #[must_use]
    pub const fn rare(mut self) -> Self {
        self.rare = true;
        self
    }

    /// Only when more columns are asked for.
    #[must_use]
    pub const fn wide(mut self) -> Self {
        self.wide = true;
        self
    }

    /// True for numbers, ages, money and graphics.
    pub const fn is_numeric(&self) -> bool {
        !matches!(self.head.width, Width::Cut(..))
    }
}

/// What a table view shows. One constant a view.
pub struct Kind {
    /// The columns.
    pub columns: &'static [Column],
    /// The rows, in their natural order.
    pub collect: fn(&Facts, &Lens) -> Vec<Row>,
    /// What stays the same of a row's object from one picture to the next.
    pub id: fn(&Facts, Row) -> u64,
    /// A label of the row's object.
    pub label: fn(&Facts, Row, &str) -> Option<String>,
    /// What the row's object is.
    pub picked: fn(&Facts, Row) -> Option<Picked>,
    /// Where `open` leads.
    pub open: fn(&Facts, Row) -> Option<Place>,
    /// Shown when only faults are.
    pub faulty: fn(&Facts, Row) -> bool,
    /// Stands below all others whatever the order.
    pub last: fn(&Facts, Row) -> bool,
    /// The order at first: column and whether it falls; none is the natural order.
    pub sort: Option<(usize, bool)>,
    /// Said when there is no row at all and everything is known.
    pub none: &'static str,
}

/// A stable number for anything that names an object.
pub fn id_of(what: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

struct Looked<'a> {
    kind: &'static Kind,
    facts: &'a Facts,
    row: Row,
}

impl filter::Row for Looked<'_> {
    fn value(&self, column: usize) -> Value<'_> {
        (self.kind.columns[column].cell)(self.facts, self.row).value
    }
    fn label(&self, key: &str) -> Option<String> {
        (self.kind.label)(self.facts, self.row, key)
    }
}

/// The filter's view of a kind's columns.
pub fn fields(kind: &Kind) -> Vec<filter::Field> {
    kind.columns
        .iter()
        .map(|column| filter::Field {
            id: column.id,
            numeric: column.is_numeric(),
            plain: !column.wide,
        })
        .collect()
}

/// True when the filter lets this row of this kind through.
pub fn matches(filter: &Filter, kind: &'static Kind, facts: &Facts, row: Row) -> bool {
    filter.matches(&Looked { kind, facts, row }, facts.now)
}

/// Most rows that are measured for column widths.
const MEASURED: usize = 300;

/// Rows, order and cursor.
pub struct Listing {
    /// What is listed.
    pub kind: &'static Kind,
    /// Which part of it.
    pub lens: Lens,
    rows: Vec<Row>,
    ids: Vec<u64>,
    total: usize,
    cursor: usize,
    offset: usize,
    sort: Option<(usize, bool)>,
    filter: Option<Filter>,
    faults: bool,
    unsettled: bool,
    widest: Vec<u16>,
    /// Rare columns in which no row has anything to say.
    empty: Vec<bool>,
}

impl Listing {
    /// An empty listing; `refresh` fills it.
    pub fn new(kind: &'static Kind, lens: Lens) -> Self {
        Self {
            kind,
            lens,
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
            empty: Vec::new(),
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

    /// Where the cursor stands, from 0.
    pub fn cursor(&self) -> usize {
        self.cursor
    }

    /// The column that it is sorted by, and whether it falls.
    pub fn sorted(&self) -> Option<(usize, bool)> {
        self.sort
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

    /// The widest text of each column.
    pub fn widest(&self) -> &[u16] {
        &self.widest
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
        let chosen = self.ids.get(self.cursor).copied();
        let mut rows = (self.kind.collect)(facts, &self.lens);
        self.total = rows.len();
        let (kind, faults, filter) = (self.kind, self.faults, self.filter.as_ref());
        if faults || filter.is_some() {
            rows.retain(|row| {
                (!faults || (kind.faulty)(facts, *row))
                    && filter.is_none_or(|filter| matches(filter, kind, facts, *row))
            });
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
            .unwrap_or(self.cursor)
            .min(self.rows.len().saturating_sub(1));
    }

    /// Puts the rows in order.
    fn settle(&mut self, facts: &Facts, rows: Vec<Row>) {
        let kind = self.kind;
        let mut keyed: Vec<(bool, Value<'_>, Row)> = rows
            .into_iter()
            .map(|row| {
                let value = match self.sort {
                    Some((column, _)) => (kind.columns[column].cell)(facts, row).value,
                    None => Value::Empty,
                };
                ((kind.last)(facts, row), value, row)
            })
            .collect();
        let falls = self.sort.is_some_and(|(_, falls)| falls);
        // Stable, so equal values stand in their natural order.
        keyed.sort_by(|a, b| {
            a.0.cmp(&b.0)
                .then_with(|| a.1.compare(&b.1, facts.now, falls))
        });
        self.rows = keyed.into_iter().map(|(_, _, row)| row).collect();
        self.ids = self.rows.iter().map(|row| (kind.id)(facts, *row)).collect();
        self.unsettled = false;
    }

    /// Keeps the known rows where they are; new ones come below.
    fn keep(&mut self, facts: &Facts, rows: Vec<Row>) {
        let kind = self.kind;
        let ids: Vec<u64> = rows.iter().map(|row| (kind.id)(facts, *row)).collect();
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
            fresh.sort_unstable();
            order.extend(fresh);
            self.rows = order.iter().map(|place| rows[*place]).collect();
            self.ids = order.iter().map(|place| ids[*place]).collect();
        }
        self.unsettled = match self.sort {
            None => !self
                .rows
                .is_sorted_by_key(|row| ((kind.last)(facts, *row), *row)),
            Some((column, falls)) => !self.rows.is_sorted_by(|a, b| {
                let value = |row: Row| (kind.columns[column].cell)(facts, row).value;
                let order = (kind.last)(facts, *a)
                    .cmp(&(kind.last)(facts, *b))
                    .then_with(|| value(*a).compare(&value(*b), facts.now, falls));
                order.is_le()
            }),
        };
    }

    /// True for a column that is only shown while some row has something to say in it, and none has.
    pub fn is_empty_column(&self, column: usize) -> bool {
        self.empty.get(column).copied().unwrap_or(false)
    }

    fn measure(&mut self, facts: &Facts) {
        self.empty.clear();
        for column in self.kind.columns {
            let silent = |row: &Row| match (column.cell)(facts, *row).value {
                Value::Empty => true,
                Value::Text(words) => words.is_empty(),
                _ => false,
            };
            self.empty.push(column.rare && self.rows.iter().all(silent));
        }
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
            Some(Filter::parse(words, &fields(self.kind))?)
        };
        if filter == self.filter {
            return Ok(());
        }
        let narrower = match (&filter, &self.filter) {
            (Some(new), Some(old)) => new.narrows(old),
            (Some(new), None) => new.is_plain(),
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

    /// Drops the shown rows that the filter no longer lets through. The others need no look: typing on only takes
    /// away.
    fn narrow(&mut self, facts: &Facts) {
        let (kind, Some(filter)) = (self.kind, self.filter.as_ref()) else {
            return;
        };
        let chosen = self.ids.get(self.cursor).copied();
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

    /// Shows another part.
    pub fn set_lens(&mut self, lens: Lens, facts: &Facts) {
        self.lens = lens;
        self.cursor = 0;
        self.offset = 0;
        self.refresh(facts, true);
    }

    /// Puts the cursor on a line of the window, if there is a row.
    pub fn point(&mut self, line: usize, height: usize) -> bool {
        let (from, rows) = self.window(height);
        let hit = line < rows.len();
        if hit {
            self.offset = from;
            self.cursor = from + line;
        }
        hit
    }

    /// Obeys a command of tables; true when it was one. `height` is the window's.
    pub fn on(&mut self, command: Command, facts: &Facts, height: usize, wide: bool) -> bool {
        let last = self.rows.len().saturating_sub(1);
        let page = height.saturating_sub(1).max(1);
        match command {
            Command::Up => self.cursor = self.cursor.saturating_sub(1),
            Command::Down => self.cursor = (self.cursor + 1).min(last),
            Command::Top => self.cursor = 0,
            Command::Bottom => self.cursor = last,
            Command::PageUp => self.cursor = self.cursor.saturating_sub(page),
            Command::PageDown => self.cursor = (self.cursor + page).min(last),
            Command::Sort => {
                if !self.unsettled {
                    self.sort = self.next_sort(wide);
                }
                self.refresh(facts, true);
            }
            Command::Order => {
                self.sort = Some(match self.sort {
                    Some((column, falls)) => (column, !falls),
                    None => (0, true),
                });
                self.refresh(facts, true);
            }
            Command::Faults => {
                self.faults = !self.faults;
                self.refresh(facts, true);
            }
            _ => return false,
        }
        self.offset = self.first(height);
        true
    }

    /// The next column to sort by: words rise, numbers fall; after the last comes the natural order.
    fn next_sort(&self, wide: bool) -> Option<(usize, bool)> {
        let from = self.sort.map_or(0, |(column, _)| column + 1);
        (from..self.kind.columns.len())
            .find(|at| wide || !self.kind.columns[*at].wide)
            .map(|at| (at, self.kind.columns[at].is_numeric()))
    }
}
