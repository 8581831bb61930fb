//! Cost: what is burned an hour, by one scope at a time. The rows add up to the total, which stands above them.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use ratatui::layout::Rect;

use crate::commands::{Command, Context};
use crate::painter::Painter;
use crate::table_model::{Column, Kind, Row, id_of};
use crate::text::{dollars, per_hour};
use crate::theme::Role;
use crate::widget::{Cell, Value};
use model::base::{Name, Rate};
use model::cost::{CostRow, Scope, Spend};
use model::fleet::queue::QueueKind;
use model::usage::Period;
use table::pools::waste;
use table::{Facts, cost};

use super::cost_history;
use super::pools::money;
use super::queue_quotas::left_of;
use super::table_view::TableView;
use super::{COST, CommandOutcome, Destination, RowScope, Selection, View, ViewId};

/// The name of what no row of a scope holds.
const UNATTRIBUTED: &str = "unattributed";

/// The table of one scope.
pub static KIND: Kind = Kind {
    columns: &[
        Column::words("name", "NAME", 0, (26, 60), name),
        Column::words("team", "TEAM", 2, (8, 16), |facts, at| {
            Cell::new(team(facts, at).map_or(Value::Empty, Value::text))
        })
        .rare(),
        Column::number("devices", "DEVICES", 3, 7, |facts, row| {
            of(facts, row, |row| match row.is_part() {
                true => Value::text(cost::PART),
                false => Value::Count(i64::from(row.devices)),
            })
        }),
        Column::graphic("share", "SHARE", 5, (4, 24), share),
        Column::number("burn", "$/h", 0, 7, |facts, at| {
            money(row(facts, at), |spend| Some(spend.burn)).role(Role::Accent)
        }),
        Column::number("free", "UNALLOC $/h", 1, 7, |facts, at| {
            blue(money(row(facts, at), |spend| spend.free))
        }),
        Column::number("idle", "IDLE ALLOC $/h", 1, 7, |facts, at| {
            blue(money(row(facts, at), |spend| spend.idle_allocated))
        }),
        Column::number("month", "$ MONTH", 4, 8, |facts, at| {
            match of_month(facts, at) {
                Some(micros) => Cell::new(Value::known(micros.map(Rate::from_micros), Value::Sum)),
                None => Cell::new(Value::Empty),
            }
        })
        .rare(),
        Column::words("quota-left", "QUOTA LEFT", 2, (32, 200), quota_left).rare(),
        Column::number("unpriced", "NO PRICE", 6, 4, |facts, row| {
            of(facts, row, |row| Value::Count(i64::from(row.unpriced))).role(Role::Muted)
        }),
        Column::words("price", "PRICE FROM", 5, (8, 40), |facts, row| {
            of(facts, row, |row| {
                Value::known(cost::row(row).price_source, Value::text)
            })
            .role(Role::Muted)
        }),
        Column::words("as-of", "PRICED", 7, (10, 10), |facts, row| {
            of(facts, row, |row| {
                Value::known(row.price_as_of.as_deref(), Value::text)
            })
            .role(Role::Muted)
        }),
    ],
    collect: |facts, row_scope| {
        let scope = scope_of(row_scope);
        let rows = facts.burn.rows.get(&scope).map_or(0, Vec::len);
        let rows = (0..rows as u32).map(|at| (scope as u32, at));
        match row_scope {
            RowScope::Idle => {
                let mut rows: Vec<Row> = rows.filter(|at| may_be_idle(facts, *at)).collect();
                // Of jobs with the same idle money an hour, the one that has cost most so far comes first.
                rows.sort_by_cached_key(|at| Reverse(so_far(facts, *at)));
                rows
            }
            _ => rows.collect(),
        }
    },
    id: |facts, at| row(facts, at).map_or(0, |row| id_of((row.scope, &row.name))),
    label: |_, _, _| None,
    selection: |facts, at| row(facts, at).map(|row| Selection::Cost(row.scope, row.name.clone())),
    open,
    faulty: |facts, at| row(facts, at).is_some_and(|row| row.unpriced > 0),
    worst: None,
    last: |facts, at| row(facts, at).is_some_and(|row| row.name.as_str() == UNATTRIBUTED),
    searched: None,
    sort: Some((4, true)),
    none: "nothing has a price yet",
};

/// The column of money for devices that are allocated and idle.
const IDLE_MONEY: usize = 6;

/// Jobs whose allocated devices are idle, the most expensive first.
pub static IDLE: Kind = Kind {
    searched: None,
    sort: Some((IDLE_MONEY, true)),
    none: "no job has an idle device",
    ..KIND
};

/// True when a row is a job's and some of its money may be for idle devices: what is not known is not left out.
fn may_be_idle(facts: &Facts, at: Row) -> bool {
    row(facts, at).is_some_and(|row| {
        let none = |spend: Spend| spend.idle_allocated == Some(Rate::ZERO);
        row.name.as_str() != UNATTRIBUTED && !row.known().is_some_and(none)
    })
}

/// The header's idle money, and what it is the sum of: a label, `$1 284/h`, `: $944 free + $340 allocated`. What nobody holds is no
/// scope's: there is nothing to add up in one.
pub(super) fn idle_sum(facts: &Facts) -> (&'static str, String, String) {
    let known = facts.burn.known();
    let both = per_hour(known.and_then(|spend| waste(facts, &spend)));
    if facts.part.is_some() {
        return ("idle allocated ", both, String::new());
    }
    let free = dollars(known.and_then(|spend| spend.free));
    let held = dollars(known.and_then(|spend| spend.idle_allocated));
    ("idle ", both, format!(": {free} free + {held} allocated"))
}

/// What a row's job has cost so far, where that is known.
fn so_far(facts: &Facts, at: Row) -> Option<Rate> {
    let job = facts.fleet.job_named(&row(facts, at)?.name)?;
    table::jobs::so_far(facts, job)
}

/// Idle money in its color, none of it muted.
fn blue(cell: Cell<'_>) -> Cell<'_> {
    let none = cell.value == Value::Money(Rate::ZERO);
    cell.role(if none { Role::Muted } else { Role::IdleMoney })
}

const fn scope_of(row_scope: &RowScope) -> Scope {
    match row_scope {
        RowScope::Cost(scope) => *scope,
        RowScope::Idle => Scope::Job,
        _ => Scope::Team,
    }
}

fn row(facts: &Facts, row: Row) -> Option<&CostRow> {
    let scope = Scope::ALL.get(row.0 as usize)?;
    facts.burn.rows.get(scope)?.get(row.1 as usize)
}

fn of<'a>(facts: &'a Facts, at: Row, make: impl FnOnce(&'a CostRow) -> Value<'a>) -> Cell<'a> {
    match row(facts, at) {
        Some(row) => Cell::new(make(row)),
        None => Cell::new(Value::Unknown),
    }
}

fn name(facts: &Facts, at: Row) -> Cell<'_> {
    let plain = row(facts, at).is_some_and(|row| row.name.as_str() == UNATTRIBUTED);
    of(facts, at, |row| Value::text(row.name.as_str())).role(if plain {
        Role::Muted
    } else {
        Role::Title
    })
}

/// Whose a job is; nothing in a row of another scope.
fn team(facts: &Facts, at: Row) -> Option<&str> {
    let row = row(facts, at).filter(|row| row.scope == Scope::Job)?;
    let job = facts.fleet.job_named(&row.name)?;
    Some(job.team.as_str())
}

/// What a team has cost in the month so far, by the ledger: nothing in rows of another scope or without a ledger, an unknown sum
/// where the month was not observed.
fn of_month(facts: &Facts, at: Row) -> Option<Option<i64>> {
    let row = row(facts, at).filter(|row| row.scope == Scope::Team)?;
    let team = match row.name.as_str() {
        UNATTRIBUTED => "",
        name => name,
    };
    let mut periods = facts.usage.periods.iter();
    let month = periods.find(|sums| sums.period == Period::Month)?;
    let part = facts.part.as_ref().map(|part| &part.scope);
    Some(month.of_team(team, part))
}

/// What is left of the quotas of a queue, or of the queues that a team has jobs in: of the whole queue, whoever else has jobs in it.
fn quota_left(facts: &Facts, at: Row) -> Cell<'_> {
    match row(facts, at).map(|row| quota_left_words(facts, row)) {
        Some(QuotaLeft::Words(words)) => Cell::text(words),
        Some(QuotaLeft::Unknown) => Cell::new(Value::Unknown),
        Some(QuotaLeft::None) | None => Cell::new(Value::Empty),
    }
}

/// What is left of the quotas of a row of cost.
pub(super) enum QuotaLeft {
    /// Rows of its scope have no quota.
    None,
    /// Queues may not be seen.
    Unknown,
    /// What is left, whole.
    Words(String),
}

/// What is left of the quotas of a queue, or of the queues that a team has jobs in, in words.
pub(super) fn quota_left_words(facts: &Facts, row: &CostRow) -> QuotaLeft {
    if row.name.as_str() == UNATTRIBUTED {
        return QuotaLeft::None;
    }
    let names: BTreeSet<&Name> = match row.scope {
        Scope::Queue => BTreeSet::from([&row.name]),
        Scope::Team => {
            let jobs = facts.fleet.jobs.iter().filter(|job| job.team == row.name);
            jobs.filter_map(|job| job.queue.as_ref()).collect()
        }
        Scope::Pool | Scope::Job | Scope::Class => return QuotaLeft::None,
    };
    if !facts.fleet.sees_queues() {
        return QuotaLeft::Unknown;
    }
    let all = facts.fleet.queues.iter().enumerate();
    let queues: Vec<usize> = all
        .filter(|(_, queue)| queue.key.kind == QueueKind::Queue && names.contains(queue.name()))
        .map(|(at, _)| at)
        .collect();
    let left = left_of(facts, &queues);
    // Others may draw from the same queues.
    let named = match queues.len() {
        0 | 1 => String::new(),
        _ => {
            let names: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
            format!(" in {}", names.join(" and "))
        }
    };
    QuotaLeft::Words(format!("{left}{named}"))
}

fn share(facts: &Facts, at: Row) -> Cell<'_> {
    of(facts, at, |row| match facts.burn.total.burn.usd() {
        // A share of what is in sight is no share of the fleet.
        _ if !facts.fleet.confined_to().is_empty() => Value::Unknown,
        total if total > 0.0 => Value::Bar(row.spend.burn.usd() / total),
        _ => Value::Unknown,
    })
}

fn open(facts: &Facts, at: Row) -> Option<Destination> {
    let row = row(facts, at)?;
    if row.name.as_str() == UNATTRIBUTED {
        return Some(Destination::Facts(Selection::Cost(
            row.scope,
            row.name.clone(),
        )));
    }
    let name = row.name.clone();
    Some(match row.scope {
        Scope::Pool => Destination::Part(ViewId::Pools, RowScope::Pool(name)),
        Scope::Queue => Destination::Part(ViewId::Jobs, RowScope::Queue(name)),
        Scope::Team => Destination::Part(ViewId::Jobs, RowScope::Team(name)),
        Scope::Class => Destination::Part(ViewId::Nodes, RowScope::Class(name)),
        Scope::Job => match facts.fleet.job_named(&name) {
            Some(job) => Destination::Part(ViewId::Jobs, RowScope::Job(job.id.clone())),
            None => Destination::Facts(Selection::Cost(Scope::Job, name)),
        },
    })
}

/// Money by one scope, with the scopes to choose from and the total above.
pub struct CostView {
    table: TableView,
}

/// Lines above the table: scopes, total, air.
const ABOVE: u16 = 3;
/// Lines of the table that the ledger leaves.
const TABLE_LEAST: u16 = 10;

impl CostView {
    /// Money by this scope.
    pub fn new(scope: Scope) -> Self {
        Self {
            table: TableView::new(ViewId::Cost, &KIND, RowScope::Cost(scope)),
        }
    }

    /// Money for idle allocated devices, by job.
    pub fn idle() -> Self {
        Self {
            table: TableView::new(ViewId::Cost, &IDLE, RowScope::Idle),
        }
    }

    /// The room of the table, and that of what the ledger tells below it: none where it would push the table off.
    fn below(facts: &Facts, area: Rect) -> (Rect, Rect) {
        let above = ABOVE.min(area.height);
        let left = area.height - above;
        let wanted = match cost_history::height(facts, area.width) {
            wanted @ 2.. if left >= wanted + TABLE_LEAST && area.width >= 70 => wanted,
            _ => 0,
        };
        let table = Rect::new(area.x, area.y + above, area.width, left - wanted);
        let history = Rect::new(area.x, table.bottom(), area.width, wanted);
        (table, history)
    }
}

impl View for CostView {
    fn id(&self) -> ViewId {
        ViewId::Cost
    }
    fn trail(&self) -> String {
        let row_scope = &self.table.table_model.row_scope;
        match row_scope {
            RowScope::Idle => String::from("idle allocated, by job"),
            _ => format!("by {}", scope_of(row_scope).name()),
        }
    }
    fn contexts(&self) -> &'static [Context] {
        COST
    }
    fn on(&mut self, command: Command, facts: &Facts, area: Rect) -> CommandOutcome {
        if command == Command::Group {
            let scope = scope_of(&self.table.table_model.row_scope);
            let at = Scope::ALL.iter().position(|known| *known == scope);
            let next = Scope::ALL[(at.unwrap_or(0) + 1) % Scope::ALL.len()];
            self.table.table_model.set_lens(RowScope::Cost(next), facts);
            return CommandOutcome::Done;
        }
        self.table.obey(command, facts, Self::below(facts, area).0)
    }
    fn point(&mut self, facts: &Facts, x: u16, y: u16, area: Rect) -> bool {
        let (table, _) = Self::below(facts, area);
        y < table.bottom() && self.table.point(facts, x, y, table)
    }

    fn table(&self) -> Option<&TableView> {
        Some(&self.table)
    }
    fn table_mut(&mut self) -> Option<&mut TableView> {
        Some(&mut self.table)
    }

    fn draw(&self, facts: &Facts, painter: &mut Painter<'_>, area: Rect) {
        let chosen = scope_of(&self.table.table_model.row_scope);
        let (muted, title) = (
            painter.render_style.fg(Role::Muted),
            painter.render_style.fg(Role::Title),
        );
        let mut pieces = vec![("cost per hour by  ", muted)];
        for scope in Scope::ALL {
            let style = if scope == chosen {
                painter.render_style.bold(Role::Accent)
            } else {
                muted
            };
            pieces.push((scope.name(), style));
            pieces.push(("   ", muted));
        }
        let room = area.width.saturating_sub(2);
        painter.pieces(area.x + 2, area.y, room, &pieces);
        if area.height > 1 {
            let burn = &facts.burn;
            let known = burn.known();
            let total = per_hour(known.map(|spend| spend.burn));
            let (label, both, parts) = idle_sum(facts);
            let devices = super::super::text::counted(u64::from(burn.devices), "device");
            let unpriced = if burn.unpriced > 0 {
                format!("   {} without a price", burn.unpriced)
            } else {
                String::new()
            };
            let (accent, blue) = (
                painter.render_style.bold(Role::Accent),
                painter.render_style.bold(Role::IdleMoney),
            );
            let mut pieces = vec![
                ("total  ", muted),
                (&*total, accent),
                ("   ", muted),
                (label, muted),
                (&*both, blue),
                (&*parts, muted),
                ("   ", muted),
                (&*devices, title),
                (&*unpriced, painter.render_style.fg(Role::Warn)),
                ("   list prices, not a bill", muted),
            ];
            // What the prices are is never cut; the devices stand in the header and in the table.
            if painter.width_of(&pieces) > room {
                pieces.drain(6..8);
            }
            painter.pieces(area.x + 2, area.y + 1, room, &pieces);
        }
        let (table, history) = Self::below(facts, area);
        if history.height > 0 {
            cost_history::draw(facts, painter, history);
        } else if let Some(words) = cost_history::line(facts).filter(|_| area.height > ABOVE) {
            painter.say(area.x + 2, area.y + 2, room, &words, Role::Muted);
        }
        self.table.paint(facts, painter, table, true);
    }
}
