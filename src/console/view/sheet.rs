//! A table view: a listing drawn as a table. Every view that is a table is this, with columns of its own.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::brush::{Brush, Ink};
use crate::commands::{Command, Context};
use crate::listing::{Kind, Listing, Row};
use crate::text;
use crate::theme::Role;
use crate::widget::table::{Look, table};
use crate::widget::{Cell, Head, Value};
use model::base::{Moment, Name};
use model::fleet::Known;
use model::fleet::observe::Table;
use table::Facts;

use super::{Clip, Lens, PLANS, Picked, TABLE, Turn, View, ViewId, Whole};

/// Columns of a trend at most: a point a cell.
const POINTS: usize = 24;
/// How readily a column that was asked for gives way.
const WIDE: u8 = 3;
/// The span of a trend.
pub const TREND_MINUTES: i64 = 60;

/// A listing and how it is drawn.
pub struct Sheet {
    id: ViewId,
    /// Rows, order and cursor.
    pub listing: Listing,
    wide: bool,
    /// What was chosen column by column; where nothing was, `wide` decides.
    chosen: Option<Vec<bool>>,
}

impl Sheet {
    /// A sheet of this kind.
    pub fn new(id: ViewId, kind: &'static Kind, lens: Lens) -> Self {
        Self {
            id,
            listing: Listing::new(kind, lens),
            wide: false,
            chosen: None,
        }
    }

    /// Rows that fit under the header.
    pub fn height(area: Rect) -> usize {
        usize::from(area.height.saturating_sub(1))
    }

    /// Obeys a command of tables.
    pub fn obey(&mut self, command: Command, facts: &Facts, area: Rect) -> Turn {
        match command {
            Command::Open => self
                .listing
                .current()
                .and_then(|row| (self.listing.kind.open)(facts, row))
                .into(),
            Command::Wide => {
                self.wide = !self.wide;
                self.chosen = None;
                Turn::Done
            }
            _ => {
                let shown = self.columns();
                let height = Self::height(area);
                if self.listing.on(command, facts, height, |at| shown[at]) {
                    Turn::Done
                } else {
                    Turn::NotMine
                }
            }
        }
    }

    /// Which columns are wanted; room decides which of them are drawn.
    pub fn columns(&self) -> Vec<bool> {
        let all = self.listing.kind.columns;
        match &self.chosen {
            Some(chosen) => chosen.clone(),
            // The pools' own view shows more of them than the fleet's, as far as there is room.
            None => all
                .iter()
                .map(|column| self.wide || !column.wide || self.is_of_pools())
                .collect(),
        }
    }

    fn is_of_pools(&self) -> bool {
        self.id == ViewId::Pools && std::ptr::eq(self.listing.kind, &raw const super::pools::KIND)
    }

    /// Wants these columns; a choice for another table is not taken, nor one without any column.
    pub fn choose_columns(&mut self, chosen: Vec<bool>) {
        if chosen.len() == self.listing.kind.columns.len() && chosen.contains(&true) {
            self.chosen = Some(chosen);
        }
    }

    /// The choice of columns, when one was made.
    pub fn chosen_columns(&self) -> Option<&[bool]> {
        self.chosen.as_deref()
    }

    /// What is meant, as words: titles of the wanted columns, and a line of cells a row.
    pub fn clip(&self, facts: &Facts, ink: &Ink) -> Clip {
        let mut nothing = Buffer::empty(Rect::new(0, 0, 1, 1));
        let mut brush = Brush::new(&mut nothing, ink, facts.now);
        let wanted = self.columns();
        let columns = || {
            let all = self.listing.kind.columns.iter().zip(&wanted);
            all.filter(|(_, wanted)| **wanted).map(|(column, _)| column)
        };
        let rows = self.listing.meant().into_iter().map(|row| {
            columns()
                .map(|column| (column.cell)(facts, row).words(&mut brush).into_owned())
                .collect()
        });
        let rows = rows.collect();
        (columns().map(|column| column.head.title).collect(), rows)
    }

    /// The objects that are meant: the marked ones, or the one under the cursor.
    pub fn meant(&self, facts: &Facts) -> Vec<Picked> {
        let rows = self.listing.meant().into_iter();
        rows.filter_map(|row| (self.listing.kind.picked)(facts, row))
            .collect()
    }

    /// Draws header and visible rows; `focus` shows the cursor.
    pub fn paint(&self, facts: &Facts, brush: &mut Brush<'_>, area: Rect, focus: bool) {
        let listing = &self.listing;
        let wanted = self.columns();
        let shown: Vec<usize> = (0..wanted.len())
            .filter(|at| wanted[*at] && (self.chosen.is_some() || !listing.is_empty_column(*at)))
            .collect();
        let (from, rows) = listing.window(Self::height(area));
        let mut cells: Vec<Vec<Cell<'_>>> = rows
            .iter()
            .map(|row| shown.iter().map(|at| self.cell(facts, *at, *row)).collect())
            .collect();
        let heads: Vec<Head> = shown
            .iter()
            .enumerate()
            .map(|(place, at)| {
                let column = &listing.kind.columns[*at];
                // What was asked for must not be the first to go where room is short.
                let drop = match (self.wide || self.chosen.is_some()) && column.wide {
                    true => WIDE,
                    false => column.head.drop,
                };
                // Without a past a bar of the present stands there: the title does not speak of an hour.
                let title = match column.trend.is_some() && !give_pasts(&mut cells, place) {
                    true => column.head.title.trim_end_matches(" 60m"),
                    false => column.head.title,
                };
                Head {
                    title,
                    drop,
                    ..column.head
                }
            })
            .collect();
        let widest: Vec<u16> = shown
            .iter()
            .map(|at| listing.widest().get(*at).copied().unwrap_or(0))
            .collect();
        let look = Look {
            selected: (focus && !rows.is_empty()).then(|| listing.cursor().saturating_sub(from)),
            sorted: listing.sorted().and_then(|(column, falls)| {
                let place = shown.iter().position(|at| *at == column)?;
                Some((place, falls))
            }),
            unsettled: listing.is_unsettled(),
            marked: (0..rows.len())
                .filter(|line| listing.is_marked(from + line))
                .collect(),
        };
        table(brush, area, &heads, &widest, &cells, &look);
        if rows.is_empty() && area.height > 2 {
            self.say_why_empty(facts, brush, area);
        }
    }

    fn cell<'a>(&self, facts: &'a Facts, at: usize, row: Row) -> Cell<'a> {
        let column = &self.listing.kind.columns[at];
        let mut cell = (column.cell)(facts, row);
        cell.sign = column.sign.map(|sign| sign(facts, row));
        if let (Value::Trend(values, _), Some(trend)) = (&mut cell.value, column.trend)
            && let Some(track) = trend(facts, row)
        {
            *values = past(facts, &track, POINTS);
        }
        cell
    }

    fn say_why_empty(&self, facts: &Facts, brush: &mut Brush<'_>, area: Rect) {
        let (words, role) = if self.listing.total() > 0 {
            let what = match (self.listing.filter(), self.listing.faults_only()) {
                ("", _) => String::from("nothing is faulty"),
                (filter, false) => format!("nothing matches {filter}"),
                (filter, true) => format!("nothing faulty matches {filter}"),
            };
            (format!("{what}  ·  esc shows everything"), Role::Muted)
        } else {
            nothing_known(facts, self.id).unwrap_or_else(|| {
                let none = self.listing.kind.none;
                let words = match self.id {
                    ViewId::Plans | ViewId::Sources => none.to_owned(),
                    _ => self.listing.scope().says(facts, none),
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
            brush.say(area.x + 2, y, width, words, role);
        }
    }
}

/// True when some row of a column of trends has a past. Then the others show theirs, the present alone, the same way: one
/// column says one thing.
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

/// Why there may be no row: not read yet, or lost.
fn nothing_known(facts: &Facts, id: ViewId) -> Option<(String, Role)> {
    let tables: &[Table] = match id {
        ViewId::Jobs => &[Table::Pods, Table::Jobs],
        ViewId::Alerts | ViewId::Cost => &[Table::Nodes, Table::Pods],
        ViewId::Sources => return None,
        _ => &[Table::Nodes],
    };
    for table in tables {
        match facts.fleet.known(*table) {
            Known::Lost(lost) => {
                return Some((
                    format!("{} lost: {}", table.name(), lost.message),
                    Role::Crit,
                ));
            }
            Known::Waiting => {
                return Some((format!("reading {}…", table.name()), Role::Muted));
            }
            Known::Live | Known::Absent => {}
        }
    }
    None
}

/// The last hour of a track, oldest first, in whole steps, so that it moves only when a step is full.
pub fn past(
    facts: &Facts,
    track: &model::fleet::history::Track,
    points: usize,
) -> Vec<Option<f32>> {
    let step = TREND_MINUTES * 60_000 / points.max(1) as i64;
    let to = facts.now.millis().div_euclid(step) * step;
    facts.history.window(
        track,
        Moment::from_millis(to - TREND_MINUTES * 60_000),
        Moment::from_millis(to),
        points,
    )
}

impl View for Sheet {
    fn id(&self) -> ViewId {
        self.id
    }
    fn trail(&self) -> String {
        self.listing.lens.title()
    }
    fn contexts(&self) -> &'static [Context] {
        match self.id {
            ViewId::Plans => PLANS,
            _ => TABLE,
        }
    }
    fn refresh(&mut self, facts: &Facts, settle: bool) {
        self.listing.refresh(facts, settle);
    }
    fn on(&mut self, command: Command, facts: &Facts, area: Rect) -> Turn {
        self.obey(command, facts, area)
    }
    fn point(&mut self, _: &Facts, _x: u16, y: u16, area: Rect) -> bool {
        y > area.y
            && self
                .listing
                .point(usize::from(y - area.y - 1), Self::height(area))
    }
    fn set_filter(&mut self, words: &str, facts: &Facts) -> Result<(), String> {
        self.listing.set_filter(words, facts)
    }
    fn filter(&self) -> &str {
        self.listing.filter()
    }
    fn picked(&self, facts: &Facts) -> Option<Picked> {
        (self.listing.kind.picked)(facts, self.listing.current()?)
    }
    fn counts(&self) -> (usize, usize) {
        (self.listing.rows().len(), self.listing.total())
    }
    fn is_unsettled(&self) -> bool {
        self.listing.is_unsettled()
    }
    fn faults_only(&self) -> bool {
        self.listing.faults_only()
    }
    fn on_screen(&self, facts: &Facts, area: Rect) -> Vec<Name> {
        if self.id != ViewId::Nodes {
            return Vec::new();
        }
        let (_, rows) = self.listing.window(Self::height(area));
        rows.iter()
            .filter_map(|row| facts.fleet.nodes.get(row.0 as usize))
            .map(|node| node.name().clone())
            .collect()
    }
    fn whole(&self) -> Option<Whole> {
        match self.id {
            ViewId::Pools => Some(Whole::ButMoney("pools")),
            ViewId::Nodes => Some(Whole::All("nodes")),
            _ => None,
        }
    }
    fn sheet(&self) -> Option<&Sheet> {
        Some(self)
    }
    fn sheet_mut(&mut self) -> Option<&mut Sheet> {
        Some(self)
    }

    fn draw(&self, facts: &Facts, brush: &mut Brush<'_>, area: Rect) {
        self.paint(facts, brush, area, true);
    }
}
