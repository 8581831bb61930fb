//! Budgets of the settings end to end: settings, a ledger made by hand, what is printed.

use std::time::Duration;

use model::base::Moment;
use record::usage::UsageFile;
use serde_json::Value;
use usage::{HourUsage, UsageKey, UsageRow, hour_of};

use crate::exec::stage::ticking;
use stokehold::runtime::host::Host;
use stokehold::runtime::identity::random_identity;
use stokehold::runtime::session::{self, ClusterTarget};
use stokehold::runtime::usage::facts::UsageReader;
use table::spend::UsageStatus;

use super::{Home, text};

const HOUR_MS: u64 = 3_600_000;
const NOW: &str = "2026-11-18T00:00:00Z";

/// A row of whole devices at work for an hour.
fn row(pool: &str, team: &str, devices: u64, usd: Option<i64>) -> UsageRow {
    UsageRow {
        key: UsageKey {
            pool: pool.into(),
            class: "H100".into(),
            namespace: if team.is_empty() { "" } else { "ns" }.into(),
            team: team.into(),
            queue: if team.is_empty() { "" } else { "q" }.into(),
            job: team.into(),
            ..UsageKey::default()
        },
        device_ms: match team {
            "" => [0, 0, 0, 0, devices * HOUR_MS, 0],
            _ => [devices * HOUR_MS, 0, 0, 0, 0, 0],
        },
        unobserved_ms: 0,
        energy_mwh: None,
        cost_micros: usd.map(|usd| match team {
            "" => [0, 0, 0, 0, usd * 1_000_000, 0],
            _ => [usd * 1_000_000, 0, 0, 0, 0, 0],
        }),
        on_demand_micros: None,
    }
}

/// October and November 2026 up to [`NOW`]: a team of $101 an hour with ten devices, another without a price, free devices of $9.
/// Of 3 November nothing was observed.
fn ledger(home: &Home) -> String {
    let folder = home.path("record");
    let mut file = UsageFile::open(&folder).expect("can be made");
    let hour = |text: &str| hour_of(Moment::parse(text).expect("a moment"));
    let gap = hour("2026-11-03T00:00:00Z")..hour("2026-11-04T00:00:00Z");
    let hours = (hour("2026-10-01T00:00:00Z")..hour(NOW)).filter(|hour| !gap.contains(hour));
    let hours: Vec<HourUsage> = hours
        .map(|hour| HourUsage {
            hour,
            closed: true,
            observed_ms: HOUR_MS,
            until_ms: HOUR_MS,
            rows: vec![
                row("a", "", 1, Some(9)),
                row("a", "=research", 10, Some(101)),
                row("b", "lab", 2, None),
            ],
            losses: Vec::new(),
            finished: Vec::new(),
        })
        .collect();
    file.write(&hours, &[]).expect("can be written");
    folder.display().to_string()
}

const SETTINGS: &str = r#"
[[budget]]
name = "research"
team = "=research"
usd = 40000
period = "month"

[[budget]]
name = "hours"
pool = "a"
device_hours = 5000
period = "week"

[[budget]]
name = "lab"
team = "lab"
usd = 100
period = "month"

[[budget]]
name = "all"
fleet = true
usd = 500000
period = "quarter"
"#;

#[test]
fn budgets_are_printed_as_the_schema_has_them_with_the_ledgers_numbers() {
    let home = Home::new();
    home.settings(SETTINGS);
    let folder = ledger(&home);
    let run = |more: &[&str]| {
        let mut all = vec!["get", "budgets", "--record", &folder, "--at", NOW];
        all.extend(more);
        let got = home.run(&all);
        assert_eq!(got.status.code(), Some(0), "{}", text(&got.stderr));
        text(&got.stdout)
    };
    let rows: Value = serde_json::from_str(&run(&["-o", "json"])).expect("is JSON");
    let schema = table::budgets::NAMES.schema();
    let schema = jsonschema::validator_for(&schema).expect("is a schema");
    let wrong: Vec<String> = schema
        .iter_errors(&rows)
        .map(|error| error.to_string())
        .collect();
    assert_eq!(wrong, Vec::<String>::new());
    let [research, hours, lab, all] = &rows.as_array().expect("rows")[..] else {
        panic!("four budgets: {rows}");
    };
    // Sixteen days of the seventeen that are over were observed: what was not is not spent, and is in the forecast.
    assert_eq!(research["spent"], 16.0 * 24.0 * 101.0);
    assert_eq!(research["forecast"]["mid"], 30.0 * 24.0 * 101.0);
    let ratio = research["coverage"]["observed_ratio"].as_f64();
    assert!((ratio.expect("a number") - 16.0 / 17.0).abs() < 1e-9);
    assert_eq!(research["exhausted_at"], "2026-11-17T12:00:00Z");
    assert!(
        research["forecast_error"]["ratio"]
            .as_f64()
            .expect("measured")
            < 1e-9
    );
    // Monday the 16th is two days ago; free devices are no device-hours.
    assert_eq!(
        (&hours["spent"], &hours["unit"]),
        (&480.0.into(), &"device_hours".into())
    );
    assert_eq!(hours["period"]["start"], "2026-11-16T00:00:00Z");
    assert!(hours["exhausted_at"].is_null());
    // Without a price it is unknown, not free of charge.
    assert!(lab["spent"].is_null() && lab["forecast"]["mid"].is_null());
    assert_eq!(lab["coverage"]["unpriced_device_hours"], 16.0 * 24.0 * 2.0);
    // The fleet pays for what is free as well.
    assert_eq!(all["spent"], 47.0 * 24.0 * 110.0);
    assert_eq!(all["period"]["end"], "2027-01-01T00:00:00Z");

    let table = run(&[]);
    let line = table
        .lines()
        .find(|line| line.starts_with("research"))
        .expect("a line");
    for cell in [
        "team =research",
        "November",
        "$38 784",
        "$40 000",
        "96%",
        "94.1%",
    ] {
        assert!(line.contains(cell), "{cell}: {table}");
    }
    let csv = run(&["-o", "csv"]);
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let lines: Vec<csv::StringRecord> =
        reader.records().map(|line| line.expect("is CSV")).collect();
    assert_eq!(
        (lines.len(), &lines[0][2], &lines[2][9]),
        (4, "'=research", "")
    );
    assert_eq!(run(&["-o", "name", "research"]), "budget/research\n");
    assert!(run(&["-o", "wide", "hours"]).contains("UTC"));
    // A team's lead sees the own budget, and neither another team's nor the fleet's.
    assert_eq!(run(&["-o", "name", "--team", "lab"]), "budget/lab\n");
    assert_eq!(run(&["-o", "name", "-n", "ns"]), "");
    let other = home.run(&[
        "get", "budgets", "research", "--team", "lab", "--record", &folder,
    ]);
    assert_eq!(other.status.code(), Some(1));
    assert!(text(&other.stderr).contains("there is no budget `research`"));
}

#[test]
fn without_a_budget_record_or_time_zone_the_fix_is_printed() {
    let home = Home::new();
    let run = |arguments: &[&str]| {
        let got = home.run(arguments);
        (got.status.code(), text(&got.stdout), text(&got.stderr))
    };
    let (code, out, message) = run(&["get", "budgets", "-o", "json"]);
    assert_eq!((code, out.as_str()), (Some(0), "[]\n"));
    assert!(
        message.contains("add a [[budget]] to the settings"),
        "{message}"
    );
    home.settings(SETTINGS);
    let none = home.path("none").display().to_string();
    let (code, out, message) = run(&["get", "budgets", "--record", &none]);
    assert_eq!((code, out.as_str()), (Some(1), ""));
    assert!(message.contains("stokehold record"), "{message}");
    assert!(message.contains(&none), "{message}");
    // A record of another time: unknown, and nothing is 0.
    let folder = ledger(&home);
    let (code, out, message) = run(&[
        "get",
        "budgets",
        "research",
        "--record",
        &folder,
        "--at",
        "2026-09-01T00:00:00Z",
    ]);
    assert_eq!(code, Some(1), "{message}");
    assert!(message.contains("was not observed"), "{message}");
    assert!(!out.contains("$0"), "{out}");
    let (code, _, message) = run(&["get", "budgets", "-l", "a=b", "--record", &folder]);
    assert_eq!(code, Some(2));
    assert!(
        message.contains("get budgets does not take -l"),
        "{message}"
    );
    home.settings("[[budget]]\nname = \"a\"\nfleet = true\nusd = 1\nperiod = \"week\"\ntime_zone = \"Mars/Base\"\n");
    let (code, _, message) = run(&["get", "budgets", "--record", &folder]);
    assert_eq!(code, Some(2));
    assert!(
        message.contains("stokehold.toml:1: budget: budget `a`: time_zone: "),
        "{message}"
    );
}

/// The settings of a test as the program reads them, with the record in this directory.
fn settings(folder: &str) -> settings::Settings {
    let text = format!("{SETTINGS}\n[record]\ndir = \"{folder}\"\n");
    let inputs = settings::Inputs {
        files: vec![settings::SettingsText {
            layer: settings::Layer::User,
            path: "stokehold.toml".into(),
            text,
        }],
        ..settings::Inputs::default()
    };
    settings::load(&inputs).expect("is right")
}

#[test]
fn the_console_shows_the_ledger_and_a_restart_repeats_no_finding() {
    let home = Home::new();
    let folder = ledger(&home);
    let now = Moment::parse(NOW).expect("a moment");
    let read = |folder: &str| {
        UsageReader::new(&Host::bare(ticking()), &settings(folder), "test").read(now)
    };
    let facts = read(&folder);
    assert_eq!(facts.status, UsageStatus::Read(now));
    // Today has begun, and nothing of it was observed; the month is what `cost` says.
    let [today, week, days, month] = &facts.periods[..] else {
        panic!("four periods");
    };
    assert_eq!(today.of(None)[0], None);
    let cost = |totals: Option<usage::UsageTotals>| totals.and_then(|all| all.cost_micros());
    assert_eq!(cost(month.of(None)[0]), Some(16 * 24 * 110_000_000));
    assert!(cost(week.of(None)[1]).is_some() && cost(days.of(None)[0]).is_some());
    let listed = |facts: &table::spend::UsageFacts| -> Vec<(String, String, String)> {
        let all = facts.budgets.iter().flat_map(|state| state.findings(false));
        all.map(|finding| {
            (
                finding.id.to_string(),
                finding.since.rfc3339(),
                finding.message,
            )
        })
        .collect()
    };
    let first = listed(&facts);
    let ids: Vec<&str> = first.iter().map(|(id, ..)| id.as_str()).collect();
    assert_eq!(
        ids,
        [
            "budget/research/2026-11-01T00:00:00Z/80",
            "budget/research/2026-11-01T00:00:00Z/forecast",
        ]
    );
    assert_eq!(listed(&read(&folder)), first);
    // No record is no fault, and nothing is told of it.
    let none = read(&home.path("none").display().to_string());
    assert_eq!((none.status, none.periods.len()), (UsageStatus::Absent, 0));
    // A file that is no ledger is said.
    home.write(
        "broken/usage.sqlite",
        "this is not a database, whatever it is called",
    );
    let broken = read(&home.path("broken").display().to_string());
    assert!(
        matches!(broken.status, UsageStatus::Failed(why) if why.contains("is not a usage ledger"))
    );
}

#[test]
fn what_a_recorder_may_not_see_is_not_nothing() {
    let home = Home::new();
    let folder = home.path("record");
    let mut file = UsageFile::open(&folder).expect("can be made");
    let hour = |text: &str| hour_of(Moment::parse(text).expect("a moment"));
    let hours: Vec<HourUsage> = (hour("2026-11-01T00:00:00Z")..hour(NOW))
        .map(|hour| HourUsage {
            hour,
            closed: true,
            observed_ms: HOUR_MS,
            until_ms: HOUR_MS,
            rows: vec![
                // Ten devices of the own team, and thirty that may be held by pods that are not visible.
                row("a", "own", 10, Some(100)),
                UsageRow {
                    unobserved_ms: 30 * HOUR_MS,
                    ..row("a", "", 0, None)
                },
            ],
            losses: Vec::new(),
            finished: Vec::new(),
        })
        .collect();
    file.write(&hours, &[]).expect("can be written");
    let budget = |name: &str, scope: &str| {
        format!("[[budget]]\nname = \"{name}\"\n{scope}\nusd = 10000\nperiod = \"month\"\n")
    };
    home.settings(
        &[
            budget("own", "team = \"own\""),
            budget("other", "team = \"other\""),
            budget("all", "fleet = true"),
        ]
        .concat(),
    );
    let folder = folder.display().to_string();
    let got = home.run(&[
        "get", "budgets", "--record", &folder, "--at", NOW, "-o", "json",
    ]);
    let rows: Value = serde_json::from_slice(&got.stdout).expect("is JSON");
    assert_eq!(rows[0]["spent"], 17.0 * 24.0 * 100.0);
    assert!(rows[1]["spent"].is_null(), "{rows}");
    // Of the fleet a quarter is seen: too little for a forecast.
    assert_eq!(rows[2]["coverage"]["observed_ratio"], 0.25);
    assert!(rows[2]["forecast"]["mid"].is_null(), "{rows}");
}

#[tokio::test(start_paused = true)]
async fn a_session_of_the_console_reads_the_ledger_of_its_record() {
    let home = Home::new();
    let folder = ledger(&home);
    let begin = Moment::parse(NOW).expect("a moment");
    let options = sim::world::Options {
        nodes: Some(8),
        ..sim::world::Options::new(begin)
    };
    let world = sim::world::World::new(options).identified(random_identity());
    let service = sim::serve::embed(Box::new(world), ticking(), 1.0, 1).expect("is served");
    let mut setup = super::recorded::setup();
    setup.settings.record.enabled = true;
    setup.settings.record.dir = Some(folder.into());
    let begun = tokio::task::spawn_blocking(move || {
        session::console(&setup, ClusterTarget::Running(service))
    });
    let mut session = begun.await.expect("runs").expect("is connected");
    let listed = tokio::time::timeout(Duration::from_secs(20), session.usage.changed()).await;
    listed.expect("is told soon").expect("goes on");
    let usage = session.usage.borrow_and_update().clone();
    assert!(matches!(usage.status, UsageStatus::Read(_)), "{usage:?}");
    assert_eq!(usage.periods.len(), 4);
}
