//! Columns of a kind, and for each row its object, its labels and its destination.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use model::base::Moment;
use model::fleet::history::Track;
use model::fleet::observe::Table;

use super::Facts;
use super::cell::Cell;
use super::kind::{Exporters, Format, GetRequest, KindNames, KindView};
use super::navigation::{Destination, RowScope, Selection};
use super::output::json_style::JsonStyle;
use super::role::Role;
use super::row_labels::RowLabels;

/// Alignment of a column's cells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Align {
    Left,
    Right,
}

/// How wide a column may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Width {
    /// As wide as its widest cell, at least this: numbers.
    Fit(u16),
    /// As wide as its widest cell, between these; cut where there is less room.
    Cut(u16, u16),
    /// A graphic of this many cells, at least and at most, with a number beside it.
    Graphic(u16, u16),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ColumnHead {
    pub title: &'static str,
    pub align: Align,
    pub width: Width,
    /// Drop priority when width is short: the highest is dropped first; 0 is never dropped.
    pub drop: u8,
}

impl ColumnHead {
    /// A column with this title.
    pub const fn new(title: &'static str, align: Align, width: Width, drop: u8) -> Self {
        Self {
            title,
            align,
            width,
            drop,
        }
    }
}

/// Index of a row's object in the facts: the index in its table, and a second one for a part of the object.
pub type Row = (u32, u32);

/// Severity of a faulty row, 0 being the most severe; among equals the latest failure comes first.
pub type Worst = (u8, Reverse<Option<Moment>>);

/// Where the past of a cell is found, and the moment before which it was another's.
type PastOf = fn(&Facts, Row) -> Option<(Track, Option<Moment>)>;

/// The part in which a row is shown while rows are sorted by a column.
type Apart = fn(&Facts, Row) -> u8;

/// The sign and the color of a row's state.
type SignOf = fn(&Facts, Row) -> (&'static str, Role);

/// One column: header, width, cell, sort key and filter in one place.
#[derive(Clone, Copy)]
pub struct Column {
    /// Its name in filters.
    pub id: &'static str,
    /// Its place in the table.
    pub head: ColumnHead,
    pub cell: for<'a> fn(&'a Facts, Row) -> Cell<'a>,
    /// The sign before its text; computed only for rows that are drawn.
    pub sign: Option<SignOf>,
    /// Where the past of a trend is found; asked only for rows that are drawn.
    pub trend: Option<PastOf>,
    /// The screen shows it only when more columns are asked for.
    pub wide: bool,
    /// Shown only while some row has a value.
    pub rare: bool,
    /// The screen leaves it out while no row on it has a value.
    pub gives_way: bool,
    /// Title from the facts, where it varies.
    pub titled: Option<fn(&Facts) -> String>,
    /// Group of a row when sorted by this column: lower groups come first in either direction, because their values mean different things.
    pub apart: Option<Apart>,
    /// Its title where the other columns are those of a team or of namespaces and it is not.
    pub whole: Option<&'static str>,
    /// `get` prints it only with `-o wide`: it has a reading, which costs a question to an exporter, or it takes much of a line.
    pub wide_output: bool,
    /// Only the console has it: it is computed beside the facts, which `get` does not wait for.
    pub on_screen: bool,
    /// The columns, by id, that say the same with more detail: the screen leaves it out where nearly all of them fit.
    pub yields_to: &'static [&'static str],
    /// The fields of the row's JSON that it shows, for `--sort-by`: several separated by `|`, of which the first known one
    /// counts; empty for no field.
    pub field: &'static str,
}

impl Column {
    /// A column of text.
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
            head: ColumnHead::new(title, align, width, drop),
            cell,
            sign: None,
            trend: None,
            wide: false,
            rare: false,
            titled: None,
            apart: None,
            whole: None,
            wide_output: false,
            on_screen: false,
            yields_to: &[],
            gives_way: false,
            field: "",
        }
    }

    model::setters! {
        /// Adds a sign before the text.
        pub sign(sign: SignOf) sign = Some(sign);
        /// Groups rows by the meaning of their values.
        pub apart(apart: Apart) apart = Some(apart);
        pub trend(trend: PastOf) trend = Some(trend);
        /// Shows the column only while some row has a value.
        pub rare() rare = true;
        /// Leaves its room to the other columns while no row on the screen has a value.
        pub gives_way() gives_way = true;
        /// Always covers the whole pool, queue or node, whatever the scope; the title then says so.
        pub whole(title: &'static str) whole = Some(title);
        /// Only when more columns are asked for, on the screen and with `-o wide`.
        pub wide() wide = true, wide_output = true;
        /// On the screen only when more columns are asked for; `get` always prints it.
        pub wide_on_screen() wide = true;
        /// Sets the field of the row's JSON that it shows.
        pub by(field: &'static str) field = field;
        /// Left out on the screen where nearly all of these columns fit, which say the same.
        pub yields_to(columns: &'static [&'static str]) yields_to = columns;
        /// Only on the screen.
        pub on_screen() on_screen = true;
        /// In a printed table only with `-o wide`, on the screen always.
        pub wide_output() wide_output = true;
    }

    /// Takes the title from the facts.
    #[must_use]
    pub const fn titled(mut self, title: fn(&Facts) -> String) -> Self {
        self.titled = Some(title);
        self
    }

    /// Its title in a printed table.
    pub fn heading(&self, facts: &Facts) -> &'static str {
        let whole = self.whole.filter(|_| facts.part.is_some());
        whole.unwrap_or(self.printed_title())
    }

    /// Its title in a printed table of everything, which has the present value of a trend.
    pub fn printed_title(&self) -> &'static str {
        self.head.title.trim_end_matches(" 60m")
    }

    pub fn title(&self, facts: &Facts) -> Cow<'static, str> {
        match (self.titled, self.whole) {
            (Some(title), _) => Cow::Owned(title(facts)),
            (None, Some(whole)) if facts.part.is_some() => Cow::Borrowed(whole),
            (None, _) => Cow::Borrowed(self.head.title),
        }
    }

    /// With its title at the left, for graphics that begin there.
    #[must_use]
    pub const fn left(mut self) -> Self {
        self.head.align = Align::Left;
        self
    }

    /// True for numbers, ages, money and graphics.
    pub const fn is_numeric(&self) -> bool {
        !matches!(self.head.width, Width::Cut(..))
    }
}

/// What a table of rows is: its columns, and for each row its object, its labels and where `open` leads.
pub struct KindSpec {
    pub columns: &'static [Column],
    /// The rows, in their natural order.
    pub collect: fn(&Facts, &RowScope) -> Vec<Row>,
    /// Id of a row's object, stable from one snapshot to the next.
    pub id: fn(&Facts, Row) -> u64,
    /// A label of the row's object.
    pub label: fn(&Facts, Row, &str) -> Option<String>,
    /// The object of a row.
    pub selection: fn(&Facts, Row) -> Option<Selection>,
    pub open: fn(&Facts, Row) -> Option<Destination>,
    /// Shown when only faults are.
    pub faulty: fn(&Facts, Row) -> bool,
    /// The order of the rows while only faults are shown, the least first; nothing where it is the natural order.
    pub worst: Option<fn(&Facts, Row) -> Worst>,
    /// True for a row that sorts last in any order.
    pub last: fn(&Facts, Row) -> bool,
    /// Scope that is listed instead while a filter is set; `None` where it is the same.
    pub searched: Option<RowScope>,
    /// Initial order: column and whether it descends; `None` is the natural order.
    pub sort: Option<(usize, bool)>,
    /// Text shown when there are no rows and everything has been read.
    pub none: &'static str,
}

/// How `get` finds, filters and writes the rows of a kind, and how they are opened in the console.
pub struct RowOutput {
    pub names: KindNames,
    pub view: KindView,
    /// True for a table whose loss makes its rows incomplete.
    pub reads: fn(Table) -> bool,
    /// The exporters that its rows need.
    pub exporters: fn(&GetRequest) -> Exporters,
    /// What is said about all rows beside them.
    pub note: fn(&Facts, Format) -> Option<String>,
    /// Unique key among the rows of the kind, stable while the row exists.
    pub key: fn(&Facts, Row) -> String,
    /// Other names that a row can be asked for by.
    pub also: fn(&Facts, Row) -> Vec<String>,
    /// The row's name for `-o name`; `None` where it is the kind and the key.
    pub name: Option<fn(&Facts, Row) -> String>,
    /// The rows that `get` prints, in the order that it has for what is selected.
    pub rows: fn(&Facts, Selects<'_>) -> Vec<Row>,
    /// The row's namespace and team; `None` for a kind that has neither.
    pub place: Option<PlaceOf>,
    /// The row's labels; `None` for a kind without labels.
    pub labels: Option<for<'a> fn(&'a Facts, Row) -> Option<RowLabels<'a>>>,
    /// The rows as JSON objects, one each.
    pub json: fn(&Facts, &[Row], JsonStyle) -> Vec<String>,
}

impl RowOutput {
    /// The row's name as `-o name` prints it.
    pub fn printed_name(&self, facts: &Facts, row: Row) -> String {
        match self.name {
            Some(name) => name(facts, row),
            None => format!("{}/{}", self.names.singular, (self.key)(facts, row)),
        }
    }
}

/// Whether a field selector asks for this value of a field.
type Selects<'a> = &'a dyn Fn(&str, &str) -> bool;

/// Namespace and team of a row.
type PlaceOf = for<'a> fn(&'a Facts, Row) -> (Option<&'a str>, Option<&'a str>);

/// A stable number for a value that identifies an object.
pub fn id_of(what: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}
