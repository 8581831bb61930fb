//! Teams: their jobs, the devices that they hold, what these cost, and what is left of the quotas that they draw from.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use model::base::{DeviceAmount, Name, SmallSort, natural};
use model::cost::{Money, RateRow, Spend, SpendScope};
use model::fleet::job::Job;
use model::schema::of_rows;

use super::cost::{as_idle, devices_of, month_cell, priced, row_of, wasted};
use crate::cell::{Cell, Value};
use crate::column::{Column, KindSpec, Row, RowOutput, id_of};
use crate::kind::{Exporters, KindNames, KindView, UNKNOWN_IS_NULL, is_needed_for_jobs};
use crate::navigation::{Destination, RowScope, Selection, ViewId};
use crate::role::Role;
use crate::rows::list_price::list_usd;
use crate::rows::queues::Tally;
use crate::rows::quota_left::quota_left_of;
use crate::{Facts, UNATTRIBUTED};

/// One team: its jobs, and what they hold.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct TeamRow<'a> {
    /// Name of the team.
    pub name: &'a str,
    /// Running jobs with devices.
    pub running: u32,
    /// Jobs that wait for devices.
    pub waiting: u32,
    /// Longest wait among them, seconds.
    pub oldest_waiting_seconds: Option<u64>,
    /// Devices that its jobs hold, and of shared devices its parts; null where the size of a part is not known.
    pub devices: Option<DeviceAmount>,
    /// Rate of these devices, USD/h; null when none has a price.
    #[schemars(range(min = 0))]
    pub burn_usd_per_hour: Option<f64>,
    /// The part of that rate that is list prices in place of what is paid, which is not known, USD/h.
    #[schemars(range(min = 0))]
    pub list_usd_per_hour: Option<f64>,
    /// Rate of those of them that are idle, USD/h.
    #[schemars(range(min = 0))]
    pub idle_allocated_usd_per_hour: Option<f64>,
    /// That rate, and of stalled gangs the rate of all their devices, USD/h.
    #[schemars(range(min = 0))]
    pub wasted_usd_per_hour: Option<f64>,
    /// Queues that its jobs are in; other teams may draw from the same.
    pub queues: Vec<&'a str>,
}

/// Teams. A row is the place of its first job among all jobs, and its own among the teams' rates; [`NONE`] where there is none.
pub static KIND: KindSpec = KindSpec {
    columns: &[
        Column::words("name", "NAME", 0, (16, 40), |facts, row| {
            Cell::new(Value::known(team(facts, row), |team| {
                Value::text(team.as_str())
            }))
            .role(Role::Title)
        })
        .by("name"),
        Column::number("run", "RUNNING", 3, 4, |facts, row| {
            count(tally(facts, row).running, Role::Text)
        })
        .by("running"),
        Column::number("wait", "WAITING", 1, 4, |facts, row| {
            count(tally(facts, row).waiting, Role::Text)
        })
        .by("waiting"),
        Column::number("oldest", "OLDEST", 4, 6, |facts, row| {
            match tally(facts, row).oldest {
                Some(since) => Cell::new(Value::Since(since)),
                None => Cell::new(Value::Empty),
            }
        })
        .by("oldest_waiting_seconds"),
        Column::number("devices", "DEVICES", 2, 7, |facts, row| {
            Cell::new(rate(facts, row).map_or(Value::Unknown, |rate| devices_of(&rate)))
        })
        .by("devices"),
        Column::number("burn", "$/h", 0, 7, |facts, row| {
            money(facts, row, |spend| Some(spend.rate))
        })
        .by("burn_usd_per_hour"),
        Column::number("idle", "IDLE ALLOC $/h", 1, 7, |facts, row| {
            as_idle(money(facts, row, |spend| spend.idle_allocated))
        })
        .by("idle_allocated_usd_per_hour"),
        Column::number("wasted", "WASTED $/h", 2, 7, |facts, row| {
            as_idle(money(facts, row, |spend| {
                wasted(facts, spend, jobs(facts, row))
            }))
        })
        .by("wasted_usd_per_hour"),
        Column::number("month", "$ THIS MONTH", 5, 8, |facts, row| {
            match rate(facts, row) {
                Some(rate) => month_cell(facts, &rate),
                None => Cell::new(Value::Empty),
            }
        })
        .rare()
        .wide_output(),
        Column::words(
            "quota-left",
            "OWN QUOTA LEFT",
            2,
            (22, 200),
            |facts, row| match rate(facts, row) {
                Some(rate) => quota_left_of(facts, &rate),
                None => Cell::new(Value::Unknown),
            },
        )
        .rare(),
    ],
    collect,
    id: |facts, row| team(facts, row).map_or(0, id_of),
    label: |_, _, _| None,
    selection: |facts, row| {
        let rate = rate(facts, row)?;
        Some(Selection::Cost(SpendScope::Team, rate.name.clone()))
    },
    open: |facts, row| {
        let team = team(facts, row)?.clone();
        Some(Destination::Part(ViewId::Cost, RowScope::Team(team)))
    },
    faulty: |facts, row| rate(facts, row).is_some_and(|rate| rate.unpriced > 0),
    worst: None,
    last: |_, _| false,
    searched: None,
    sort: Some((BURN, true)),
    none: "no team is known: no job with devices names one",
};

/// How `get` finds and writes the rows.
pub static OUTPUT: RowOutput = RowOutput {
    names: KindNames {
        plural: "teams",
        singular: "team",
        aliases: &["team"],
        help: "Teams: their jobs, devices, money an hour and quota left",
        title: "Teams",
        description: UNKNOWN_IS_NULL,
        schema: of_rows::<TeamRow<'_>>,
    },
    view: KindView::under(
        ViewId::Cost,
        "teams: jobs that run and wait, devices, rate, idle rate, quota left",
    )
    .key("f5")
    .with_facts(),
    reads: is_needed_for_jobs,
    exporters: |_| Exporters::All,
    note: |_, _| None,
    rows: |facts, _| collect(facts, &RowScope::All),
    key: |facts, row| team(facts, row).map_or_else(String::new, ToString::to_string),
    also: |_, _| Vec::new(),
    name: None,
    place: None,
    labels: None,
    json: |facts, rows, style| style.each(rows, |at| row(facts, at)),
};

/// The place of column `$/h` among the columns of [`KIND`].
const BURN: usize = 5;

/// The place of a team that has no job, or no rate.
const NONE: u32 = u32::MAX;

/// The teams of jobs and of what is paid for, by name.
fn collect(facts: &Facts, _: &RowScope) -> Vec<Row> {
    let mut teams: BTreeMap<&Name, Row> = BTreeMap::new();
    for (at, job) in facts.fleet.jobs.iter().enumerate() {
        if !job.team.is_empty() && facts.has_job(job) {
            teams.entry(&job.team).or_insert((at as u32, NONE));
        }
    }
    for (at, rate) in rates(facts).iter().enumerate() {
        if rate.name.as_str() != UNATTRIBUTED {
            teams.entry(&rate.name).or_insert((NONE, NONE)).1 = at as u32;
        }
    }
    let mut all: Vec<(&Name, Row)> = teams.into_iter().collect();
    all.small_sort_by(|a, b| natural(a.0, b.0));
    all.into_iter().map(|(_, row)| row).collect()
}

/// The rates of teams.
fn rates(facts: &Facts) -> &[RateRow] {
    let rates = facts.spend_rates.rows.get(&SpendScope::Team);
    rates.map_or(&[], Vec::as_slice)
}

fn team(facts: &Facts, row: Row) -> Option<&Name> {
    match facts.fleet.jobs.get(row.0 as usize) {
        Some(job) => Some(&job.team),
        None => Some(&rates(facts).get(row.1 as usize)?.name),
    }
}

fn rate(facts: &Facts, row: Row) -> Option<Cow<'_, RateRow>> {
    row_of(facts, SpendScope::Team, team(facts, row)?)
}

/// The team's jobs, as far as they are in the scope.
fn jobs(facts: &Facts, row: Row) -> impl Iterator<Item = &Job> {
    let team = team(facts, row);
    let jobs = facts.fleet.jobs.iter().map(|job| &**job);
    jobs.filter(move |job| team == Some(&job.team) && facts.has_job(job))
}

fn tally(facts: &Facts, row: Row) -> Tally {
    let mut tally = Tally::default();
    for job in jobs(facts, row) {
        tally.add(job);
    }
    tally
}

fn count(count: u32, role: Role) -> Cell<'static> {
    Cell::new(Value::Count(i64::from(count))).role(if count == 0 { Role::Muted } else { role })
}

fn money(facts: &Facts, row: Row, of: impl FnOnce(&Spend) -> Option<Money>) -> Cell<'_> {
    match rate(facts, row) {
        Some(rate) => priced(rate.known(), rate.unpriced, of),
        None => Cell::new(Value::Unknown),
    }
}

/// The row in the JSON contract's form.
fn row(facts: &Facts, at: Row) -> TeamRow<'_> {
    let (tally, rate) = (tally(facts, at), rate(facts, at));
    let spend = rate.as_ref().and_then(|rate| rate.known());
    let known = rate.filter(|rate| rate.unknown_slices == 0);
    let queues = jobs(facts, at).filter_map(|job| job.queue.as_deref());
    let queues: BTreeSet<&str> = queues.collect();
    TeamRow {
        name: team(facts, at).map_or("", Name::as_str),
        running: tally.running,
        waiting: tally.waiting,
        oldest_waiting_seconds: tally.oldest.map(|since| facts.now.since(since).seconds()),
        devices: known.map(|rate| rate.devices),
        burn_usd_per_hour: spend.map(|spend| spend.rate.usd()),
        list_usd_per_hour: list_usd(spend.map(|spend| spend.rate)),
        idle_allocated_usd_per_hour: spend.and_then(|spend| spend.idle_allocated).map(Money::usd),
        wasted_usd_per_hour: spend
            .and_then(|spend| wasted(facts, &spend, jobs(facts, at)))
            .map(Money::usd),
        queues: queues.into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::fleet::job::JobState;
    use model::fleet::observe::Table;
    use model::fleet::{Fleet, TableState};

    use super::*;
    use crate::output::json_style::JsonStyle;
    use crate::sample;

    fn named(facts: &Facts, name: &str) -> serde_json::Value {
        let rows = (OUTPUT.rows)(facts, &|_, _| false);
        let row = rows
            .into_iter()
            .find(|row| (OUTPUT.key)(facts, *row) == name);
        let json = (OUTPUT.json)(facts, &[row.expect("a row")], JsonStyle::Line);
        serde_json::from_str(&json[0]).expect("JSON")
    }

    /// The sample with a job of a team of its own, which only waits.
    fn with_waiting() -> Facts {
        let mut facts = sample::facts();
        let fleet: &mut Fleet = Arc::make_mut(&mut facts.fleet);
        let mut jobs = fleet.jobs.to_vec();
        let mut job = (*jobs[0]).clone();
        job.id.key.name = Name::new("only-waits");
        job.team = Name::new("patient");
        job.state = JobState::Waiting;
        job.devices_allocated = 0;
        job.pods = Box::default();
        jobs.push(Arc::new(job));
        fleet.jobs = jobs.into();
        facts
    }

    #[test]
    fn the_rows_are_the_rates_of_teams_and_all_their_jobs() {
        let facts = sample::facts();
        let rows = (OUTPUT.rows)(&facts, &|_, _| false);
        assert!(rows.len() > 1);
        let mut jobs = 0;
        for at in rows {
            let (name, row) = (team(&facts, at).expect("a team"), row(&facts, at));
            jobs += self::jobs(&facts, at).count();
            let Some(rate) = facts.spend_rates.row(SpendScope::Team, name) else {
                continue;
            };
            let spend = rate.known();
            assert_eq!(row.burn_usd_per_hour, spend.map(|spend| spend.rate.usd()));
            let idle = spend.and_then(|spend| spend.idle_allocated);
            assert_eq!(row.idle_allocated_usd_per_hour, idle.map(Money::usd));
        }
        let of_teams = facts.fleet.jobs.iter().filter(|job| !job.team.is_empty());
        assert_eq!(jobs, of_teams.count());
    }

    #[test]
    fn a_team_that_only_waits_holds_nothing_and_that_is_unknown_without_pods() {
        let mut facts = with_waiting();
        let row = named(&facts, "patient");
        assert_eq!((&row["running"], &row["waiting"]), (&0.into(), &1.into()));
        assert_eq!(
            (row["devices"].as_f64(), row["burn_usd_per_hour"].as_f64()),
            (Some(0.0), Some(0.0))
        );
        let fleet: &mut Fleet = Arc::make_mut(&mut facts.fleet);
        Arc::make_mut(&mut fleet.known).insert(Table::Pods, TableState::Waiting);
        let row = named(&facts, "patient");
        assert!(
            row["devices"].is_null() && row["burn_usd_per_hour"].is_null(),
            "{row:#}"
        );
        assert_eq!(row["waiting"], 1);
    }

    #[test]
    fn a_stalled_gang_is_wasted_by_its_team_with_all_its_devices() {
        let mut facts = sample::facts();
        let jobs = facts.fleet.jobs.iter();
        let works = |job: &&Arc<Job>| {
            let rate = facts.spend_rates.jobs.get(&job.id);
            rate.is_some_and(|(own, _)| own.idle_allocated == Some(Money::ZERO))
        };
        let job = Arc::clone(jobs.into_iter().find(works).expect("a job works"));
        let (own, _) = facts.spend_rates.jobs[&job.id];
        assert!(own.rate.usd() > 0.0);
        let before = named(&facts, &job.team);
        assert_eq!(
            before["wasted_usd_per_hour"],
            before["idle_allocated_usd_per_hour"]
        );
        let fleet: &mut Fleet = Arc::make_mut(&mut facts.fleet);
        let mut stalled = fleet.findings[0].clone();
        stalled.code = Name::new("gang-stalled");
        stalled.subject.key = job.id.key.clone();
        let others = fleet.findings.iter().cloned();
        fleet.findings = others.chain([stalled]).collect();
        let after = named(&facts, &job.team);
        let usd = |row: &serde_json::Value, field: &str| row[field].as_f64().expect("known");
        let idle = usd(&after, "idle_allocated_usd_per_hour");
        assert_eq!(idle, usd(&before, "idle_allocated_usd_per_hour"));
        let wasted = usd(&after, "wasted_usd_per_hour");
        assert!((wasted - idle - own.rate.usd()).abs() < 1e-6, "{after:#}");
        // `$` says the same of the job.
        let of_job = super::super::cost::wasted(&facts, &own, [&*job]);
        assert_eq!(of_job, Some(own.rate));
    }

    #[test]
    fn a_scope_has_its_team_alone() {
        let facts = with_waiting();
        let scope = crate::Scope {
            team: Some(Name::new("patient")),
            ..crate::Scope::default()
        };
        let facts = facts.scoped(&scope);
        let rows = (OUTPUT.rows)(&facts, &|_, _| false);
        let names: Vec<String> = rows.iter().map(|row| (OUTPUT.key)(&facts, *row)).collect();
        assert_eq!(names, ["patient"]);
    }
}
