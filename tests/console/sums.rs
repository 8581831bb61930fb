//! One count for shared devices: header, pools, nodes, teams and devices are sums of the same cells, in the console, in tables and in
//! JSON, and who sees less is told *unknown*, never another number.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::Value as Json;

use console::AppOptions;
use console::render_text;
use console::text::per_hour;
use console::widget::cell::devices_words;
use model::base::{DeviceAmount, Name, Rate};
use model::cost::Money;
use table::navigation::ViewId;
use table::rows::document;
use table::{Facts, Kind, Query, Scope, render};

use crate::any_fleet::{USERS, any_fleet, facts};
use crate::cells;
use crate::frames::console;

/// The rows that `get KIND -o json` prints of everything.
fn rows(facts: &Facts, kind: Kind) -> Vec<Json> {
    rows_in(facts, kind, &Scope::default())
}

/// The rows that `get KIND -o json` prints in a scope.
fn rows_in(facts: &Facts, kind: Kind, scope: &Scope) -> Vec<Json> {
    let query = Query {
        scope: scope.clone(),
        ..Query::all(kind)
    };
    let json = render(facts, &query, table::Format::Json).expect("all");
    serde_json::from_str(&json).expect("an array")
}

fn field<'j>(row: &'j Json, path: &str) -> &'j Json {
    path.split('.').fold(row, |row, key| &row[key])
}

/// Millionths of a number; `None` where it is not known.
fn millionths(value: &Json) -> Option<i64> {
    value.as_f64().map(|number| (number * 1e6).round() as i64)
}

/// The sum of a field of these rows, in millionths; `None` where it is not known in one of them.
fn sum<'j>(rows: impl IntoIterator<Item = &'j Json>, path: &str) -> Option<i64> {
    rows.into_iter()
        .map(|row| millionths(field(row, path)))
        .sum()
}

/// What is printed of every job, by its name: devices, as far as they are known, and rate.
fn jobs(facts: &Facts) -> BTreeMap<String, (Option<i64>, Option<i64>)> {
    let cost = rows(facts, Kind::Cost);
    let jobs = cost.iter().filter(|row| row["scope"] == "job");
    let of = |row: &Json| {
        let name = row["name"].as_str().expect("a name").to_owned();
        let devices = millionths(&row["devices"]);
        (name, (devices, millionths(&row["burn_usd_per_hour"])))
    };
    jobs.map(of).collect()
}

/// The first line of the console.
fn header(facts: &Facts) -> String {
    let size = (240, 40);
    let app = console(facts, ViewId::Fleet, size, AppOptions::default());
    let text = render_text(&app, size.0, size.1);
    text.lines().next().expect("a line").to_owned()
}

/// Header, pools, nodes, teams and devices of who sees all.
fn adds_up(facts: &Facts) {
    let figures = serde_json::to_value(document::figures(facts)).expect("JSON");
    let pools = rows(facts, Kind::Pools);
    let nodes = rows(facts, Kind::Nodes);
    let devices = rows(facts, Kind::Devices);
    let cost = rows(facts, Kind::Cost);
    let of = |scope: &'static str| cost.iter().filter(move |row| row["scope"] == scope);
    let (total, allocated, free) = (
        millionths(&figures["devices"]),
        millionths(&figures["allocated"]),
        millionths(&figures["free"]),
    );
    for rows in [&pools, &nodes] {
        assert_eq!(sum(rows, "devices.total"), total);
        assert_eq!(sum(rows, "devices.allocated"), allocated);
        assert_eq!(sum(rows, "devices.free"), free);
        assert_eq!(
            sum(rows, "devices.unhealthy"),
            millionths(&figures["unhealthy"])
        );
    }
    assert_eq!(allocated.zip(free).map(|(a, b)| a + b), total);
    // (A shared device has a row of its own, and one for each slice.)
    let own = |rows: &[Json]| {
        sum(
            rows.iter().filter(|row| row["slice"].is_null()),
            "allocated",
        )
    };
    assert_eq!(own(&devices), allocated);
    let rate = millionths(&figures["burn_usd_per_hour"]).or_else(|| total.filter(|all| *all == 0));
    assert_eq!(Some(facts.spend_rates.total.rate.all.micros()), rate);
    for scope in ["pool", "class", "team", "queue", "job"] {
        assert_eq!(sum(of(scope), "devices"), total, "{scope}");
        assert_eq!(sum(of(scope), "burn_usd_per_hour"), rate, "{scope}");
        let unallocated = millionths(&figures["free_usd_per_hour"]).or(Some(0));
        assert_eq!(sum(of(scope), "free_usd_per_hour"), unallocated, "{scope}");
    }
    let priced = nodes
        .iter()
        .filter(|row| millionths(field(row, "devices.total")) > Some(0));
    assert_eq!(sum(priced, "burn_usd_per_hour"), rate);
    assert_eq!(
        sum(
            pools
                .iter()
                .filter(|row| millionths(field(row, "devices.total")) > Some(0)),
            "burn_usd_per_hour"
        ),
        rate
    );
    let held = of("team").filter(|row| row["name"] != "unattributed");
    assert_eq!(
        sum(held, "devices"),
        allocated,
        "teams hold what is allocated"
    );
    // Each team on its own: the same devices and the same money.
    for row in of("team").filter(|row| row["name"] != "unattributed") {
        let scope = Scope {
            team: row["name"].as_str().map(Name::new),
            ..Scope::default()
        };
        let scoped = facts.scoped(&scope);
        let figures = serde_json::to_value(document::figures(&scoped)).expect("JSON");
        assert_eq!(
            millionths(&figures["allocated"]),
            millionths(&row["devices"])
        );
        let rate = millionths(&figures["burn_usd_per_hour"]);
        assert_eq!(rate, millionths(&row["burn_usd_per_hour"]));
        let pools = rows_in(&scoped, Kind::Pools, &scope);
        assert_eq!(
            sum(
                pools
                    .iter()
                    .filter(|row| !row["burn_usd_per_hour"].is_null()),
                "burn_usd_per_hour"
            ),
            rate
        );
        assert_eq!(
            own(&rows_in(&scoped, Kind::Devices, &scope)),
            millionths(&row["devices"])
        );
    }
    let line = header(facts);
    let devices = DeviceAmount::whole(facts.fleet.device_counts().total);
    let expected = format!("devices {}", devices_words(devices, None));
    assert!(line.contains(&expected), "{expected}: {line}");
    let rate = rate.filter(|_| total > Some(0)).map(Rate::from_micros);
    let expected = format!("rate {} ", per_hour(rate.map(Money::known)));
    assert!(line.contains(&expected), "{expected}: {line}");
}

/// Parts of one device that a job of these fleets has at most. Each is rounded to a millionth of the device, so that those that are seen
/// add up: between users it may differ by one.
const PARTS: u64 = 3;

/// The same in micro-dollars an hour, of a device of 7 dollars.
const ROUNDED: u64 = PARTS * 8;

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn shared_devices_are_counted_and_paid_once_for_everybody(nodes in any_fleet()) {
        let whole = facts(&nodes, USERS[0]);
        adds_up(&whole);
        let of_all = jobs(&whole);
        for user in USERS {
            let seen = facts(&nodes, user);
            cells::agree("generated", &seen, &[Kind::Pools, Kind::Nodes, Kind::Devices, Kind::Jobs, Kind::Cost]);
            for (job, (devices, rate)) in jobs(&seen) {
                let Some((all_devices, all_rate)) = of_all.get(&job).copied() else {
                    prop_assert_eq!(&job, "unattributed", "{:?}", user);
                    continue;
                };
                if job == "unattributed" {
                    continue;
                }
                // (What a pod asks for of a node that is not listed may be shares or devices.)
                prop_assert!(!user.nodes || devices.is_none_or(|devices| all_devices.is_some_and(|all| devices.abs_diff(all) <= PARTS)),
                    "{:?}: {} has {:?}, not {:?}", user, job, devices, all_devices);
                prop_assert!(rate.is_none_or(|rate| all_rate.is_some_and(|all| rate.abs_diff(all) <= ROUNDED)),
                    "{:?}: {} costs {:?}, not {:?}", user, job, rate, all_rate);
            }
            let figures = serde_json::to_value(document::figures(&seen)).expect("JSON");
            let all = serde_json::to_value(document::figures(&whole)).expect("JSON");
            for name in ["devices", "allocated", "free", "unhealthy", "free_usd_per_hour"] {
                prop_assert!(figures[name].is_null() || figures[name] == all[name], "{:?} {}", user, name);
            }
        }
    }
}
