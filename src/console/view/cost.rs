//! Cost: the rate in $/h, by one scope at a time. The rows add up to the total, which is above them.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use ratatui::layout::Rect;

use crate::commands::{Command, Context};
use crate::painter::Painter;
use crate::text::{dollars, per_hour};
use crate::widget::cell::devices_words;
use model::base::DeviceAmount;
use model::base::{Name, Rate};
use model::cost::{Money, RateRow, Scope, Spend};
use model::fleet::profile::NotJudged;
use model::fleet::queue::QueueKind;
use model::usage::Period;
use table::Facts;
use table::cell::{Cell, Value};
use table::column::{Column, KindSpec, Row, id_of};
use table::kinds::cost;
use table::pools::{unallocated, waste};
use table::role::Role;
use table::select::owner_of_job;

use super::cost_history;
use super::pools::money;
use super::queue_quotas::left_of;
use super::table_view::TableView;
use super::{COST, CommandOutcome, View};
use table::navigation::{Destination, RowScope, Selection, ViewId};

/// The name of what no row of a scope holds.
const UNATTRIBUTED: &str = "unattributed";

/// The table of one scope.
pub static KIND: KindSpec = KindSpec {
    columns: &[
        Column::words("name", "NAME", 0, (26, 60), name),
        Column::words("team", "TEAM", 2, (8, 16), team_of).rare(),
        Column::number("devices", "DEVICES", 3, 7, devices),
        Column::graphic("share", "SHARE", 5, (4, 24), share),
        Column::number("burn", "$/h", 0, 7, rate_cell),
        Column::number("free", "UNALLOC $/h", 1, 7, |facts, at| {
            blue(money(row(facts, at), |spend| unallocated(facts, spend)))
        }),
        Column::number("idle", "IDLE ALLOC $/h", 1, 7, |facts, at| {
            blue(money(row(facts, at), |spend| spend.idle_allocated))
        }),
        Column::number("month", "$ THIS MONTH", 4, 8, |facts, at| {
            match row(facts, at).and_then(|row| month_of(facts, row)) {
                Some(micros) => Cell::new(Value::known(micros.map(Rate::from_micros), Value::sum)),
                None => Cell::new(Value::Empty),
            }
        })
        .rare(),
        Column::words("quota-left", "OWN QUOTA LEFT", 2, (32, 200), quota_left).rare(),
        Column::number("unpriced", "NO PRICE", 6, 4, |facts, row| {
            of(facts, row, |row| Value::Count(i64::from(row.unpriced))).role(Role::Muted)
        }),
        Column::words("price", "PRICE FROM", 5, (8, 40), |facts, row| {
            of(facts, row, |row| {
                Value::known(cost::row(facts, row).price_source, Value::text)
            })
            .role(Role::Muted)
        }),
        Column::words("as-of", "PRICE DATE", 7, (10, 10), |facts, row| {
            of(facts, row, |row| {
                Value::known(row.price_as_of.as_deref(), Value::text)
            })
            .role(Role::Muted)
        }),
        Column::words("owner", "OWNER", 6, (5, 12), owner_of).rare(),
    ],
    collect: |facts, row_scope| {
        let scope = scope_of(row_scope);
        let rows = facts.spend_rates.rows.get(&scope).map_or(0, Vec::len);
        let rows = (0..rows as u32).map(|at| (scope as u32, at));
        match row_scope {
            RowScope::Idle => {
                let mut rows: Vec<Row> = rows.filter(|at| may_be_idle(facts, *at)).collect();
                // Of jobs with equal idle cost per hour, the one with the highest cost so far is first.
                rows.sort_by_cached_key(|at| Reverse(so_far(facts, *at).map(|money| money.all)));
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
    output: None,
};

/// The column of what is wasted.
const WASTED: usize = 4;

/// The alert code of a gang whose allocated devices have nearly stopped.
const STALLED: &str = "gang-stalled";

/// Jobs whose allocated devices are idle, and stalled gangs with all that they cost: the most expensive first.
pub static IDLE: KindSpec = KindSpec {
    columns: &[
        Column::words("name", "NAME", 0, (26, 60), name),
        Column::words("team", "TEAM", 2, (12, 16), team_of),
        Column::words("owner", "OWNER", 3, (5, 12), owner_of).rare(),
        Column::number("devices", "DEVICES", 3, 7, devices),
        Column::number("wasted", "WASTED $/h", 1, 10, |facts, at| {
            blue(money(row(facts, at), |spend| match is_stalled(facts, at) {
                true => Some(spend.rate),
                false => spend.idle_allocated,
            }))
        }),
        Column::words("why", "WHY", 1, (12, 30), |facts, at| {
            let spend = row(facts, at).and_then(RateRow::known);
            match spend.and_then(|spend| spend.idle_allocated) {
                _ if is_stalled(facts, at) => Cell::text("gang-stalled, not in idle"),
                Some(_) => Cell::text("idle"),
                // Whether its devices are idle is not known.
                None => Cell::new(Value::Unknown),
            }
        }),
        Column::number("burn", "$/h", 4, 7, rate_cell),
        Column::number("so-far", "$ SO FAR", 5, 8, |facts, at| {
            Cell::new(Value::known(so_far(facts, at), Value::Sum))
        }),
    ],
    searched: None,
    sort: Some((WASTED, true)),
    none: "no job has an idle device, and no gang is stalled",
    ..KIND
};

/// True when a row is a job's and some of its money may be for idle devices: what is not known is not left out.
fn may_be_idle(facts: &Facts, at: Row) -> bool {
    row(facts, at).is_some_and(|row| {
        let none = |spend: Spend| spend.idle_allocated == Some(Money::ZERO);
        let is_idle = !row.known().is_some_and(none);
        row.name.as_str() != UNATTRIBUTED && (is_idle || is_stalled(facts, at))
    })
}

/// Whether the gang of a row is stalled: by an alert that is not muted or, while that one still waits to last, by its own devices.
fn is_stalled(facts: &Facts, at: Row) -> bool {
    let job = row(facts, at).and_then(|row| facts.fleet.job_named(&row.name));
    let Some(job) = job else {
        return false;
    };
    let mut findings = facts.fleet.findings.iter();
    let finding = findings
        .find(|finding| finding.code.as_str() == STALLED && finding.subject.key == job.id.key);
    match finding {
        Some(finding) => facts.silences.of(finding, facts.now).is_none(),
        None => {
            let profile = facts.history.profiles().get(&job.id);
            let has_stopped =
                profile.is_some_and(|profile| profile.verdict == Err(NotJudged::Stopped));
            has_stopped && job.is_gang()
        }
    }
}

fn team_of(facts: &Facts, at: Row) -> Cell<'_> {
    Cell::new(team(facts, at).map_or(Value::Empty, Value::text))
}

/// Whose a job is, by its labels.
fn owner_of(facts: &Facts, at: Row) -> Cell<'_> {
    let job = row(facts, at).filter(|row| row.scope == Scope::Job);
    let job = job.and_then(|row| facts.fleet.job_named(&row.name));
    let owner = job.and_then(|job| owner_of_job(job));
    Cell::new(owner.map_or(Value::Empty, |(_, who)| Value::text(who.as_str())))
}

fn devices(facts: &Facts, at: Row) -> Cell<'_> {
    of(facts, at, |row| match row.unknown_slices {
        0 => Value::Devices(row.devices, None),
        _ if row.devices.is_zero() => Value::Unknown,
        _ => Value::text(cost::known_devices(row)),
    })
}

fn rate_cell(facts: &Facts, at: Row) -> Cell<'_> {
    money(row(facts, at), |spend| Some(spend.rate)).role(Role::Accent)
}

/// The header's idle money, and what it is the sum of: a label, `$1 284/h`, `: $944 unalloc + $340 allocated`. Unallocated
/// devices belong to no scope: there is nothing to add up in one.
pub(super) fn idle_sum(facts: &Facts) -> (&'static str, String, String) {
    let known = facts.spend_rates.known();
    let both = per_hour(known.and_then(|spend| waste(facts, &spend)));
    if facts.part.is_some() {
        return ("idle allocated ", both, String::new());
    }
    let free = dollars(known.and_then(|spend| unallocated(facts, &spend)));
    let held = dollars(known.and_then(|spend| spend.idle_allocated));
    (
        "idle ",
        both,
        format!(": {free} unalloc + {held} allocated"),
    )
}

/// What a row's job has cost so far, where that is known.
fn so_far(facts: &Facts, at: Row) -> Option<Money> {
    let job = facts.fleet.job_named(&row(facts, at)?.name)?;
    table::jobs::so_far(facts, job)
}

/// Idle cost in its color; zero is muted.
fn blue(cell: Cell<'_>) -> Cell<'_> {
    let none = cell.value == Value::Money(Money::ZERO);
    cell.role(if none { Role::Muted } else { Role::IdleMoney })
}

const fn scope_of(row_scope: &RowScope) -> Scope {
    match row_scope {
        RowScope::Cost(scope) => *scope,
        RowScope::Idle => Scope::Job,
        _ => Scope::Team,
    }
}

fn row(facts: &Facts, row: Row) -> Option<&RateRow> {
    let scope = Scope::ALL.get(row.0 as usize)?;
    facts.spend_rates.rows.get(scope)?.get(row.1 as usize)
}

fn of<'a>(facts: &'a Facts, at: Row, make: impl FnOnce(&'a RateRow) -> Value<'a>) -> Cell<'a> {
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

/// What a team has cost in the month so far, in micro-dollars, by the ledger: nothing for rows of another scope or without a ledger,
/// an unknown sum where the month was not observed.
pub(super) fn month_of(facts: &Facts, row: &RateRow) -> Option<Option<i64>> {
    if row.scope != Scope::Team {
        return None;
    }
    let team = match row.name.as_str() {
        UNATTRIBUTED => "",
        name => name,
    };
    let mut periods = facts.usage.periods.iter();
    let month = periods.find(|sums| sums.period == Period::Month)?;
    let part = facts.part.as_ref().map(|part| &part.scope);
    Some(month.of_team(team, part))
}

/// Quota left in a queue, or in the queues of a team's jobs: of the whole queue, including other teams.
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
pub(super) fn quota_left_words(facts: &Facts, row: &RateRow) -> QuotaLeft {
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
    of(facts, at, |row| match facts.spend_rates.total.rate.usd() {
        // A share of what is in sight is no share of the fleet.
        _ if !facts.fleet.confined_to().is_empty() => Value::Unknown,
        total if total > 0.0 => Value::Bar(row.spend.rate.usd() / total),
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
/// Lines that the table needs beside the ledger's panel.
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

    /// The areas of the table and of the ledger's panel below it: the panel is left out where the table would be too small.
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
            RowScope::Idle => String::from("wasted, by job"),
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
            let burn = &facts.spend_rates;
            let known = burn.known();
            let total = per_hour(known.map(|spend| spend.rate));
            let (label, both, parts) = idle_sum(facts);
            let devices = match burn.devices == DeviceAmount::ONE {
                true => String::from("1 device"),
                false => format!("{} devices", devices_words(burn.devices, None)),
            };
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
            // The source of the prices is never cut; the devices are in the header and in the table.
            if painter.width_of(&pieces) > room {
                pieces.drain(6..8);
            }
            painter.pieces(area.x + 2, area.y + 1, room, &pieces);
        }
        let (table, history) = Self::below(facts, area);
        if history.height > 0 {
            cost_history::draw(facts, painter, history);
        } else if let Some(words) = cost_history::line(facts).filter(|_| area.height > ABOVE) {
            painter.print(area.x + 2, area.y + 2, room, &words, Role::Muted);
        }
        self.table.paint(facts, painter, table, true);
    }
}
