//! Cost: the rate in $/h by pool, queue, team, job and class, and of jobs whose devices are idle. An estimate, never a bill.

use std::borrow::Cow;
use std::cmp::Reverse;

use schemars::JsonSchema;
use serde::Serialize;

use model::base::{DeviceAmount, Name, SmallSort, natural};
use model::cost::{Money, RateRow, Spend, SpendScope};
use model::fleet::TableState;
use model::fleet::job::Job;
use model::fleet::observe::Table;
use model::fleet::profile::NotJudged;
use model::schema::of_rows;
use usage::Period;

use crate::cell::{Cell, Value};
use crate::column::{Column, KindSpec, Row, RowOutput, id_of};
use crate::kind::{Exporters, KindNames, KindView, UNKNOWN_IS_NULL, is_needed_for_jobs};
use crate::navigation::{Destination, RowScope, Selection, ViewId};
use crate::role::Role;
use crate::row_labels::owner_label_of_job;
use crate::rows::jobs;
use crate::rows::list_price::list_usd;
use crate::rows::pools::unallocated;
use crate::rows::quota_left::quota_left_of;
use crate::spend::cost_of;
use crate::text::word;
use crate::{Facts, UNATTRIBUTED, no_readings};

/// One row of one scope. The rows of each scope add up to the header's figure.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct CostRow<'a> {
    /// What the row sums up.
    #[schemars(with = "model::cost::SpendScope")]
    pub scope: &'static str,
    /// Name; `unattributed` for devices outside every other row of the scope.
    pub name: &'a str,
    /// Devices, and of shared devices its parts; null where the size of a part is not known.
    pub devices: Option<DeviceAmount>,
    /// Rate of all its devices, USD/h; null when none has a price.
    #[schemars(range(min = 0))]
    pub burn_usd_per_hour: Option<f64>,
    /// The part of that rate that is list prices in place of what is paid, which is not known, USD/h.
    #[schemars(range(min = 0))]
    pub list_usd_per_hour: Option<f64>,
    /// Rate of its free devices, USD/h.
    #[schemars(range(min = 0))]
    pub free_usd_per_hour: Option<f64>,
    /// Rate of its idle allocated devices, USD/h.
    #[schemars(range(min = 0))]
    pub idle_allocated_usd_per_hour: Option<f64>,
    /// Price book and row; `mixed` for more than one. Devices without a price are counted after it.
    pub price_source: Option<Cow<'a, str>>,
    /// The oldest date among the prices, as far as it is known.
    pub price_as_of: Option<&'a str>,
}

/// The devices of a row as far as they are known: `225.9`; `≥3` where the part of a slice is not.
pub fn known_devices(row: &RateRow) -> String {
    match row.unknown_slices {
        0 => row.devices.to_string(),
        _ if row.devices.is_zero() => word(None),
        _ => format!("≥{}", row.devices),
    }
}

/// Cost. A row is the place of its scope among all scopes, and its own within that.
pub static KIND: KindSpec = KindSpec {
    columns: &[
        Column::words("scope", "SCOPE", 8, (5, 5), |facts, at| {
            of(facts, at, |row| Value::text(row.scope.name())).role(Role::Muted)
        })
        .by("scope")
        .wide_on_screen(),
        Column::words("name", "NAME", 0, (26, 60), name).by("name"),
        Column::words("team", "TEAM", 2, (8, 16), team_of)
            .rare()
            .wide_output(),
        Column::number("devices", "DEVICES", 3, 7, devices).by("devices"),
        Column::graphic("share", "SHARE", 5, (12, 24), share).wide_output(),
        Column::number("burn", "$/h", 0, 7, rate_cell).by("burn_usd_per_hour"),
        Column::number("free", "UNALLOC $/h", 1, 7, |facts, at| {
            idle_money(facts, at, |spend| unallocated(facts, spend))
        })
        .by("free_usd_per_hour"),
        Column::number("idle", "IDLE ALLOC $/h", 1, 7, |facts, at| {
            idle_money(facts, at, |spend| spend.idle_allocated)
        })
        .by("idle_allocated_usd_per_hour"),
        Column::number("month", "$ THIS MONTH", 4, 8, |facts, at| {
            match rate_row(facts, at) {
                Some(row) => month_cell(facts, row),
                None => Cell::new(Value::Empty),
            }
        })
        .rare()
        .wide_output(),
        Column::words("quota-left", "OWN QUOTA LEFT", 2, (32, 48), quota_left)
            .rare()
            .wide_output(),
        Column::number("unpriced", "NO PRICE", 6, 4, |facts, row| {
            of(facts, row, |row| Value::Count(i64::from(row.unpriced))).role(Role::Muted)
        })
        .wide_output(),
        Column::words("price", "PRICE FROM", 5, (8, 40), |facts, row| {
            of(facts, row, |row| {
                Value::known(price_source(row), Value::text)
            })
            .role(Role::Muted)
        })
        .by("price_source"),
        Column::words("as-of", "PRICE DATE", 7, (10, 10), |facts, row| {
            of(facts, row, |row| {
                Value::known(row.price_as_of.as_deref(), Value::text)
            })
            .role(Role::Muted)
        })
        .by("price_as_of"),
        Column::words("owner", "OWNER", 6, (5, 12), owner_of)
            .rare()
            .wide_output(),
    ],
    collect,
    id: |facts, at| rate_row(facts, at).map_or(0, |row| id_of((row.scope, &row.name))),
    label: |_, _, _| None,
    selection: |facts, at| {
        rate_row(facts, at).map(|row| Selection::Cost(row.scope, row.name.clone()))
    },
    open,
    faulty: |facts, at| rate_row(facts, at).is_some_and(|row| row.unpriced > 0),
    worst: None,
    last: |facts, at| rate_row(facts, at).is_some_and(|row| row.name.as_str() == UNATTRIBUTED),
    searched: None,
    sort: Some((BURN, true)),
    none: "nothing has a price yet",
};

/// How `get` finds and writes the rows.
pub static OUTPUT: RowOutput = RowOutput {
    names: KindNames {
        plural: "cost",
        singular: "cost",
        aliases: &["costs"],
        help: "Money an hour by pool, queue, team, job and class",
        title: "Money an hour by scope",
        description: UNKNOWN_IS_NULL,
        schema: of_rows::<CostRow<'_>>,
    },
    view: KindView::tab(ViewId::Cost),
    reads: is_needed_for_jobs,
    exporters: |_| Exporters::All,
    note: |_, _| None,
    rows: |facts, _| collect(facts, &RowScope::All),
    key: |facts, at| rate_row(facts, at).map_or_else(String::new, key),
    also: |facts, at| {
        let names = rate_row(facts, at).map(|row| [row.name.as_str(), row.scope.name()]);
        names.into_iter().flatten().map(str::to_owned).collect()
    },
    name: Some(|facts, at| rate_row(facts, at).map_or_else(String::new, key)),
    place: None,
    labels: None,
    json: |facts, rows, style| {
        let rows = rows.iter().map(|at| rate_row(facts, *at));
        rows.map(|known| style.write(&known.map(|known| row(facts, known))))
            .collect()
    },
};

/// The place of column `$/h` among the columns of [`KIND`].
const BURN: usize = 5;

/// The place of column `WASTED $/h` among the columns of [`IDLE`].
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
            let job = rate_row(facts, at).and_then(|row| facts.fleet.job_named(&row.name));
            idle_money(facts, at, |spend| {
                wasted(facts, spend, job.map(|job| &**job))
            })
        }),
        Column::words("why", "WHY", 1, (12, 30), |facts, at| {
            let spend = rate_row(facts, at).and_then(RateRow::known);
            match spend.and_then(|spend| spend.idle_allocated) {
                _ if is_stalled(facts, at) => Cell::text("gang-stalled: all its devices"),
                Some(_) => Cell::text(idle_words(facts, at)),
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

/// Key of a row: `team/nlp`.
fn key(row: &RateRow) -> String {
    format!("{}/{}", row.scope.name(), row.name)
}

/// The rows of one scope, or of all: scopes in their order, in each by name, and what is unattributed last.
fn collect(facts: &Facts, row_scope: &RowScope) -> Vec<Row> {
    let rows = |scope: SpendScope| {
        let rows = facts.spend_rates.rows.get(&scope).map_or(0, Vec::len);
        (0..rows as u32).map(move |at| (scope as u32, at))
    };
    match row_scope {
        RowScope::All => {
            let mut all: Vec<Row> = SpendScope::ALL.into_iter().flat_map(rows).collect();
            let name = |at: &Row| rate_row(facts, *at).map_or("", |row| row.name.as_str());
            all.small_sort_by(|a, b| {
                let (this, other) = (name(a), name(b));
                (a.0, this == UNATTRIBUTED)
                    .cmp(&(b.0, other == UNATTRIBUTED))
                    .then_with(|| natural(this, other))
            });
            all
        }
        RowScope::Idle => {
            let mut rows: Vec<Row> = rows(SpendScope::Job).collect();
            // Without any reading of this user's, every job may idle: that is said once, and not by a list of them all.
            let unread = no_readings(facts).is_some();
            rows.retain(|at| may_be_idle(facts, *at, unread));
            // Of jobs with equal idle cost per hour, the one with the highest cost so far is first.
            rows.sort_by_cached_key(|at| Reverse(so_far(facts, *at).map(|money| money.all)));
            rows
        }
        RowScope::Team(name) => {
            let mut rows: Vec<Row> = rows(SpendScope::Job).collect();
            rows.retain(|at| team(facts, *at) == Some(name.as_str()));
            rows
        }
        row_scope => rows(scope_of(row_scope)).collect(),
    }
}

/// True when a row is a job's and some of its money may be for idle devices: what is not known is not left out unless nothing is.
fn may_be_idle(facts: &Facts, at: Row, unread: bool) -> bool {
    rate_row(facts, at).is_some_and(|row| {
        let is_idle = match row.known().and_then(|spend| spend.idle_allocated) {
            Some(idle) => idle != Money::ZERO,
            None => !unread,
        };
        row.name.as_str() != UNATTRIBUTED && (is_idle || is_stalled(facts, at))
    })
}

/// Whether the gang of a row is stalled.
fn is_stalled(facts: &Facts, at: Row) -> bool {
    let job = rate_row(facts, at).and_then(|row| facts.fleet.job_named(&row.name));
    job.is_some_and(|job| has_stalled(facts, job))
}

/// Rate that these jobs waste, of whose devices this is the spend: of idle allocated devices, and of all devices of stalled gangs.
pub fn wasted<'a>(
    facts: &Facts,
    spend: &Spend,
    jobs: impl IntoIterator<Item = &'a Job>,
) -> Option<Money> {
    let stalled = jobs.into_iter().filter(|job| has_stalled(facts, job));
    let works = stalled.filter_map(|job| {
        let (own, _) = facts.spend_rates.jobs.get(&job.id)?;
        let idle = own.idle_allocated.unwrap_or_default();
        Some(Money {
            all: own.rate.all - idle.all,
            by_list: own.rate.by_list - idle.by_list,
        })
    });
    let works: Option<Money> = works.reduce(|sum, one| sum + one);
    match (spend.idle_allocated, works) {
        (Some(idle), works) => Some(idle + works.unwrap_or_default()),
        // What of the others is idle is not known.
        (None, works) => works.filter(|works| *works == spend.rate),
    }
}

/// Whether a gang is stalled: by an alert that is not muted or, while that one still waits to last, by its own devices.
fn has_stalled(facts: &Facts, job: &Job) -> bool {
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

/// `5 of 8 devices idle`; `idle` for one device or parts of some.
fn idle_words(facts: &Facts, at: Row) -> String {
    let row = rate_row(facts, at);
    let job = row.and_then(|row| Some((row, facts.fleet.job_named(&row.name)?)));
    match job {
        Some((row, job)) if job.idle_devices > 0 && job.devices_allocated > 1 => {
            match row.devices == DeviceAmount::whole(job.devices_allocated) {
                true => format!(
                    "{} of {} devices idle",
                    job.idle_devices, job.devices_allocated
                ),
                false => String::from("idle"),
            }
        }
        _ => String::from("idle"),
    }
}

fn team_of(facts: &Facts, at: Row) -> Cell<'_> {
    Cell::new(team(facts, at).map_or(Value::Empty, Value::text))
}

/// Whose a job is, by its labels.
fn owner_of(facts: &Facts, at: Row) -> Cell<'_> {
    let job = rate_row(facts, at).filter(|row| row.scope == SpendScope::Job);
    let job = job.and_then(|row| facts.fleet.job_named(&row.name));
    let owner = job.and_then(|job| owner_label_of_job(job));
    Cell::new(owner.map_or(Value::Empty, |(_, who)| Value::text(who.as_str())))
}

fn devices(facts: &Facts, at: Row) -> Cell<'_> {
    of(facts, at, devices_of)
}

/// The devices of a row; at least these where the part of a slice is not known.
pub fn devices_of<'a>(row: &RateRow) -> Value<'a> {
    match row.unknown_slices {
        0 => Value::Devices(row.devices, None),
        _ if row.devices.is_zero() => Value::Unknown,
        _ => Value::AtLeast(row.devices),
    }
}

/// The row of this scope and name. A team whose jobs hold no device has none among the rates: its row is zero. `None` where no
/// such row is known, and for a team of which it is not known what it holds.
pub fn row_of<'a>(facts: &'a Facts, scope: SpendScope, name: &Name) -> Option<Cow<'a, RateRow>> {
    let known = facts.spend_rates.row(scope, name).map(Cow::Borrowed);
    known.or_else(|| match scope {
        SpendScope::Team => without_devices(facts, name).map(Cow::Owned),
        SpendScope::Pool | SpendScope::Queue | SpendScope::Job | SpendScope::Class => None,
    })
}

/// The row of a team that has jobs, none of which holds a device.
fn without_devices(facts: &Facts, team: &Name) -> Option<RateRow> {
    let pods = facts.fleet.visibility(Table::Pods);
    let jobs = facts.fleet.jobs.iter().filter(|job| job.team == *team);
    let mut jobs = jobs.filter(|job| facts.has_job(job)).peekable();
    let none = jobs.peek().is_some() && jobs.all(|job| job.devices_allocated == 0);
    (none && !matches!(pods, TableState::Waiting | TableState::NotVisible(_))).then(|| RateRow {
        scope: SpendScope::Team,
        name: team.clone(),
        devices: DeviceAmount::default(),
        unknown_slices: 0,
        spend: Spend {
            idle_allocated: Some(Money::ZERO),
            ..Spend::default()
        },
        unpriced: 0,
        price_source: None,
        price_as_of: None,
    })
}

fn rate_cell(facts: &Facts, at: Row) -> Cell<'_> {
    money(facts, at, |spend| Some(spend.rate))
}

/// What a row's job has cost so far, where that is known.
fn so_far(facts: &Facts, at: Row) -> Option<Money> {
    let job = facts.fleet.job_named(&rate_row(facts, at)?.name)?;
    jobs::so_far(facts, job)
}

/// The rate of a row's devices, or a part of it; unknown when none of its devices has a price, marked when some have none.
fn money(facts: &Facts, at: Row, rate: impl FnOnce(&Spend) -> Option<Money>) -> Cell<'_> {
    let row = rate_row(facts, at);
    let unpriced = row.map_or(0, |row| row.unpriced);
    priced(row.and_then(RateRow::known), unpriced, rate)
}

/// A rate, or a part of it; marked when `unpriced` devices of it have no price.
pub fn priced<'a>(
    spend: Option<Spend>,
    unpriced: u32,
    rate: impl FnOnce(&Spend) -> Option<Money>,
) -> Cell<'a> {
    match spend.and_then(|spend| rate(&spend)) {
        Some(rate) => Cell::new(Value::Money(rate)).mark(if unpriced > 0 { "+" } else { "" }),
        None => Cell::new(Value::Unknown),
    }
}

/// Money of a row for devices that do no work.
fn idle_money(facts: &Facts, at: Row, rate: impl FnOnce(&Spend) -> Option<Money>) -> Cell<'_> {
    as_idle(money(facts, at, rate))
}

/// Money for devices that do no work, in its color; zero is muted.
pub fn as_idle(cell: Cell<'_>) -> Cell<'_> {
    let none = cell.value == Value::Money(Money::ZERO);
    cell.role(if none { Role::Muted } else { Role::IdleMoney })
}

/// The scope whose rows are shown.
pub const fn scope_of(row_scope: &RowScope) -> SpendScope {
    match row_scope {
        RowScope::Cost(scope) => *scope,
        RowScope::Idle | RowScope::Team(_) => SpendScope::Job,
        _ => SpendScope::Team,
    }
}

fn rate_row(facts: &Facts, row: Row) -> Option<&RateRow> {
    let scope = SpendScope::ALL.get(row.0 as usize)?;
    facts.spend_rates.rows.get(scope)?.get(row.1 as usize)
}

fn of<'a>(facts: &'a Facts, at: Row, make: impl FnOnce(&'a RateRow) -> Value<'a>) -> Cell<'a> {
    match rate_row(facts, at) {
        Some(row) => Cell::new(make(row)),
        None => Cell::new(Value::Unknown),
    }
}

fn name(facts: &Facts, at: Row) -> Cell<'_> {
    let plain = rate_row(facts, at).is_some_and(|row| row.name.as_str() == UNATTRIBUTED);
    of(facts, at, |row| Value::text(row.name.as_str())).role(if plain {
        Role::Muted
    } else {
        Role::Title
    })
}

/// Whose a job is; nothing in a row of another scope.
fn team(facts: &Facts, at: Row) -> Option<&str> {
    let row = rate_row(facts, at).filter(|row| row.scope == SpendScope::Job)?;
    let job = facts.fleet.job_named(&row.name)?;
    Some(job.team.as_str())
}

/// What a row has cost in the month so far, USD, by the ledger: nothing for jobs, for a part of a pool, class or queue, and without a
/// ledger; an unknown sum where the month was not observed.
pub fn month_of(facts: &Facts, row: &RateRow) -> Option<Option<Money>> {
    let team = match row.name.as_str() {
        UNATTRIBUTED => "",
        name => name,
    };
    if row.scope != SpendScope::Team {
        let (_, sums) = (facts.usage.month.iter())
            .find(|(scope, _)| *scope == row.scope && facts.part.is_none())?;
        let own = sums.iter().find(|sum| sum.names.iter().eq([team]));
        return own.map(|sum| cost_of(&sum.totals));
    }
    let mut periods = facts.usage.periods.iter();
    let month = periods.find(|sums| sums.period == Period::Month)?;
    let part = facts.part.as_ref().map(|part| &part.scope);
    Some(month.of_team(team, part))
}

/// What a row has cost in the month so far.
pub fn month_cell<'a>(facts: &Facts, row: &RateRow) -> Cell<'a> {
    match month_of(facts, row) {
        Some(sum) => Cell::new(Value::known(sum, Value::Sum)),
        None => Cell::new(Value::Empty),
    }
}

/// Quota left in a queue, or in the queues of a team's jobs: of the whole queue, including other teams.
fn quota_left(facts: &Facts, at: Row) -> Cell<'_> {
    match rate_row(facts, at) {
        Some(row) => quota_left_of(facts, row),
        None => Cell::new(Value::Empty),
    }
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
    let row = rate_row(facts, at)?;
    if row.name.as_str() == UNATTRIBUTED {
        return Some(Destination::Facts(Selection::Cost(
            row.scope,
            row.name.clone(),
        )));
    }
    let name = row.name.clone();
    Some(match row.scope {
        SpendScope::Pool => Destination::Part(ViewId::Pools, RowScope::Pool(name)),
        SpendScope::Queue => Destination::Part(ViewId::Jobs, RowScope::Queue(name)),
        SpendScope::Team => Destination::Part(ViewId::Cost, RowScope::Team(name)),
        SpendScope::Class => Destination::Part(ViewId::Nodes, RowScope::Class(name)),
        SpendScope::Job => match facts.fleet.job_named(&name) {
            Some(job) => Destination::Part(ViewId::Jobs, RowScope::Job(job.id.clone())),
            None => Destination::Facts(Selection::Cost(SpendScope::Job, name)),
        },
    })
}

/// The row in the JSON contract's form.
fn row<'a>(facts: &Facts, row: &'a RateRow) -> CostRow<'a> {
    let spend = row.known();
    CostRow {
        scope: row.scope.name(),
        name: &row.name,
        devices: (row.unknown_slices == 0).then_some(row.devices),
        burn_usd_per_hour: spend.map(|spend| spend.rate.usd()),
        list_usd_per_hour: list_usd(spend.map(|spend| spend.rate)),
        free_usd_per_hour: spend
            .and_then(|spend| unallocated(facts, &spend))
            .map(Money::usd),
        idle_allocated_usd_per_hour: spend.and_then(|spend| spend.idle_allocated).map(Money::usd),
        price_source: price_source(row),
        price_as_of: row.price_as_of.as_deref(),
    }
}

/// Price book and row of a row's prices, and how many of its devices have none.
fn price_source(row: &RateRow) -> Option<Cow<'_, str>> {
    let source = row.price_source.as_deref()?;
    Some(match row.unpriced {
        0 => Cow::Borrowed(source),
        1 => Cow::Owned(format!("{source}; 1 device without a price")),
        count => Cow::Owned(format!("{source}; {count} devices without a price")),
    })
}
