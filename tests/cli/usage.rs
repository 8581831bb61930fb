//! The usage ledger end to end: kept while a simulated fleet is recorded, made again from the record, stopped and gone on
//! with, and printed.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use model::base::{Moment, Rate};
use model::cost::sample::{allocated_to, device, fleet, node, now, pod, resting};
use model::cost::{PoolPrice, Prices};
use model::fleet::fleet::TableState;
use model::fleet::node::Billing;
use model::fleet::observe::Table;
use record::Archive;
use record::usage::UsageFile;
use serde_json::Value;
use stokehold::runtime::identity::random_identity;
use stokehold::runtime::records::past;
use stokehold::runtime::session::{self, ClusterTarget};
use stokehold::runtime::usage::{UsageLedger, of_record};
use tempfile::TempDir;
use usage::{CostPart, GAP, HourRow, Span, UsageFilter, UsageFold, UsageSample, hour_of};

use super::recorded::setup;
use super::{Home, text};
use crate::exec::stage::ticking;

fn rows(file: &UsageFile) -> Vec<HourRow> {
    let span = file.extent().expect("can be read").expect("has hours");
    let all = UsageFilter::default();
    file.rows(span, &all).expect("can be read")
}

fn cost(rows: &[HourRow]) -> i64 {
    rows.iter().filter_map(|row| row.totals.cost_micros()).sum()
}

/// Records a simulated fleet as a console does, at twenty times the speed.
async fn recorded(folder: &Path, span: Duration) {
    let begin = Moment::parse("2026-11-21T08:55:00Z").expect("a moment");
    let options = sim::world::Options {
        nodes: Some(24),
        ..sim::world::Options::new(begin)
    };
    let world = sim::world::World::new(options).identified(random_identity());
    let service = sim::serve::embed(Box::new(world), ticking(), 20.0, 1).expect("is served");
    let mut setup = setup();
    setup.settings.record.enabled = true;
    setup.settings.record.dir = Some(folder.to_owned());
    let begun = tokio::task::spawn_blocking(move || {
        session::console(&setup, ClusterTarget::Running(service))
    });
    let mut session = begun.await.expect("runs").expect("is connected");
    assert_eq!(session.notice, None);
    tokio::time::sleep(span).await;
    let mut recording = session.recording.take().expect("is recorded");
    let state = recording.stop().await;
    assert_eq!((state.fault, state.usage_fault), (None, None));
}

fn of_the_record(archive: &Archive, file: UsageFile, mut most: usize) -> UsageLedger {
    let mut ledger = UsageLedger::new(file, GAP).expect("can be read");
    let rules = session::past_rules(&setup(), archive);
    let go_on = |_| {
        most = most.saturating_sub(1);
        most > 0
    };
    ledger
        .catch_up(archive, &rules, go_on)
        .expect("can be made");
    ledger
}

#[tokio::test(start_paused = true)]
async fn a_recorder_keeps_the_ledger_and_the_record_makes_the_same() {
    let folder = TempDir::new().expect("a folder");
    recorded(folder.path(), Duration::from_secs(30)).await;
    let live = UsageFile::open_to_read(folder.path()).expect("was kept");
    let live = rows(&live);
    let archive = Archive::open(folder.path()).expect("can be read");
    let memory = || UsageFile::in_memory().expect("there is memory");
    let whole = of_the_record(&archive, memory(), usize::MAX);
    let made = rows(whole.file());
    let hours: Vec<i64> = made.iter().map(|row| row.hour).collect();
    assert!(hours.first() < hours.last(), "an hour has ended meanwhile");
    assert!(made[0].closed && !made[made.len() - 1].closed);
    for (live, made) in live.iter().zip(&made) {
        let differs = format!("{live:?}\n{made:?}");
        assert_eq!(
            (live.hour, live.closed, &live.key),
            (made.hour, made.closed, &made.key)
        );
        let ms = live.totals.observed_ms() - made.totals.observed_ms();
        assert!(ms.abs() <= 1, "{differs}");
        let cost = [live, made].map(|row| row.totals.cost_micros().unwrap_or(-1));
        assert!((cost[0] - cost[1]).abs() <= 1, "{differs}");
    }
    assert_eq!(live.len(), made.len());

    // Stopped after any number of pictures and gone on with: the same, nothing twice.
    let mut stops = vec![1, 2, 5];
    let mut pictures = 0;
    let mut counting = UsageLedger::new(memory(), GAP).expect("can be read");
    let rules = session::past_rules(&setup(), &archive);
    let count = |_| {
        pictures += 1;
        true
    };
    counting
        .catch_up(&archive, &rules, count)
        .expect("can be made");
    assert!(pictures > 6, "{pictures}");
    stops.extend([pictures / 2, pictures - 2, pictures]);
    for stop in stops {
        let own = TempDir::new().expect("a folder");
        let file = || UsageFile::open(own.path()).expect("can be written");
        drop(of_the_record(&archive, file(), stop));
        drop(of_the_record(&archive, file(), stop + 3));
        let resumed = of_the_record(&archive, file(), usize::MAX);
        assert_eq!(
            rows(resumed.file()),
            made,
            "stopped after {stop} of {pictures}"
        );
    }

    // Against a plain sum over the record's own pictures of the money.
    let observed: i64 = hours_of(whole.file()).values().sum();
    let (from, to) = (
        archive.start().plus(Duration::from_secs(120)),
        archive.end(),
    );
    assert!(
        observed > to.since(from).millis() as i64 / 2,
        "{observed} ms are observed"
    );
    let (mut burnt, mut count) = (0.0, 0.0);
    let mut at = from;
    while at < to {
        let facts = past::facts_at(&archive, rules.clone(), at).expect("was recorded");
        burnt += facts.spend_rates.total.rate.usd();
        count += 1.0;
        at = at.plus(Duration::from_secs(30));
    }
    let expected = burnt / count * observed as f64 / 3.6e6;
    let reported = cost(&made) as f64 / 1e6;
    assert!(
        (reported / expected - 1.0).abs() < 0.005,
        "{reported} $ by the ledger, {expected} $ by the pictures"
    );

    // What a reader of the directory gets is that, and a closed hour stays whatever the prices become.
    let dearer = |archive: &Archive| {
        let mut rules = session::past_rules(&setup(), archive);
        rules.prices = Prices::default().into();
        rules
    };
    let (file, context) = of_record(folder.path(), dearer, |_, _| ()).expect("can be read");
    assert_eq!(context.as_deref(), Some(archive.context()));
    let again = rows(&file);
    let closed = |rows: &[HourRow]| {
        rows.iter()
            .filter(|row| row.closed)
            .cloned()
            .collect::<Vec<_>>()
    };
    assert_eq!(closed(&again), closed(&made));
    printed_as_kept(folder.path(), &closed(&made));
}

/// Observed milliseconds by hour.
fn hours_of(file: &UsageFile) -> BTreeMap<i64, i64> {
    let span = file.extent().expect("can be read").expect("has hours");
    let hours = (span.from..span.to).map(|hour| {
        let one = Span {
            from: hour,
            to: hour + 1,
        };
        (hour, file.coverage(one).expect("can be read").observed_ms)
    });
    hours.collect()
}

/// What the commands print of the ledger of a record is what it holds then: where its last picture is well before its end, a
/// command makes the open hour again, at the prices of its own.
fn printed_as_kept(folder: &Path, closed: &[HourRow]) {
    let home = Home::new();
    let kept = || rows(&UsageFile::open_to_read(folder).expect("was kept"));
    let folder = folder.display().to_string();
    let got = home.run(&["get", "usage", "--record", &folder, "-o", "json"]);
    assert_eq!(got.status.code(), Some(0), "{}", text(&got.stderr));
    let got: Vec<Value> = serde_json::from_slice(&got.stdout).expect("is JSON");
    assert_eq!(got.len(), kept().len());
    let report = home.run(&[
        "cost", "report", "--month", "2026-11", "--by", "team,job", "--record", &folder, "-o",
        "json",
    ]);
    assert_eq!(report.status.code(), Some(0), "{}", text(&report.stderr));
    let report: Value = serde_json::from_slice(&report.stdout).expect("is JSON");
    let micros = |value: &Value| (value.as_f64().expect("a number") * 1e6).round() as i64;
    let kept = kept();
    assert!(closed.iter().all(|row| kept.contains(row)));
    assert_eq!(micros(&report["total_cost_usd"]), cost(&kept));
    let sum: i64 = report["rows"]
        .as_array()
        .expect("rows")
        .iter()
        .map(|row| micros(&row["cost_usd"]))
        .sum();
    assert_eq!(sum, cost(&kept));
}

/// A ledger made by hand: two teams, one with a name that means harm, two hours and a half of November 2026 from 06:40 on.
fn by_hand(home: &Home) -> String {
    let folder = home.path("record");
    let mut file = UsageFile::open(&folder).expect("can be made");
    let prices = Prices::default()
        .with_pool("a", PoolPrice::Rate(Rate::from_micros(4_123_457)))
        .with_pool("spot", PoolPrice::Rate(Rate::from_micros(1_000_001)));
    let workers = [
        pod("ns", "train-0", Some("q"), "nlp"),
        pod("ns", "tune-0", None, "=cmd|'/c calc'!A0,\"x\"\nnext | <b>"),
    ];
    let mut fold = UsageFold::new(GAP, []);
    for minute in 0..=150 {
        let at = now().plus(Duration::from_secs(60 * minute));
        let read = |mut device: model::fleet::device::Device| {
            device.read_at = Some(at);
            device
        };
        let mut spot = node(
            "n2",
            "spot",
            None,
            vec![read(allocated_to(device("n2", 0, "L4"), &workers[1]))],
        );
        spot.billing = Some(Billing::Spot);
        let mut fleet = fleet(vec![
            node(
                "n1",
                "a",
                None,
                vec![
                    read(allocated_to(device("n1", 0, "H100"), &workers[0])),
                    read(allocated_to(resting(device("n1", 1, "H100")), &workers[0])),
                    read(device("n1", 2, "H100")),
                ],
            ),
            spot,
            node(
                "n3",
                "unpriced",
                None,
                vec![read(allocated_to(device("n3", 0, "none"), &workers[0]))],
            ),
        ]);
        fleet.known = std::sync::Arc::new(
            Table::ALL
                .iter()
                .map(|table| (*table, TableState::Live))
                .collect(),
        );
        fleet.at = at;
        fold.take(UsageSample::of(at, &fleet, &prices));
    }
    let mut hours = fold.closed();
    hours.extend(fold.open());
    file.write(&hours, &[]).expect("can be written");
    folder.display().to_string()
}

fn run(home: &Home, arguments: &[&str]) -> String {
    let output = home.run(arguments);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{arguments:?}: {}",
        text(&output.stderr)
    );
    text(&output.stdout)
}

#[test]
fn hours_are_printed_as_the_schema_has_them() {
    let home = Home::new();
    let folder = by_hand(&home);
    let got = |more: &[&str]| {
        let mut arguments = vec!["get", "usage", "--record", &folder];
        arguments.extend(more);
        run(&home, &arguments)
    };
    let rows: Value = serde_json::from_str(&got(&["-o", "json"])).expect("is JSON");
    let schema = table::spend::NAMES.schema();
    let schema = jsonschema::validator_for(&schema).expect("is a schema");
    let wrong: Vec<String> = schema
        .iter_errors(&rows)
        .map(|error| error.to_string())
        .collect();
    assert_eq!(wrong, Vec::<String>::new());
    let rows = rows.as_array().expect("rows");
    let unpriced = rows
        .iter()
        .find(|row| row["pool"] == "unpriced")
        .expect("a row");
    assert!(unpriced["cost_usd"].is_null() && unpriced["price_source"].is_null());
    let free = rows
        .iter()
        .find(|row| row["namespace"].is_null() && row["pool"] == "a")
        .expect("a row");
    assert!(free["team"].is_null() && free["job"].is_null());
    // Of 09:00 on there are ten minutes of one hour.
    let late: Vec<Value> =
        serde_json::from_str(&got(&["-o", "json", "--from", "2026-11-21T09:00:00Z"]))
            .expect("is JSON");
    assert!(
        late.iter()
            .all(|row| row["hour"] == "2026-11-21T09:00:00Z" && row["state"] == "open")
    );
    let team: Vec<Value> =
        serde_json::from_str(&got(&["-o", "json", "--team", "nlp"])).expect("is JSON");
    assert!(!team.is_empty() && team.iter().all(|row| row["team"] == "nlp"));
    // No line of CSV begins a formula, and a name with a line end stays one cell.
    let csv = got(&["-o", "csv"]);
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let cells: Vec<csv::StringRecord> =
        reader.records().map(|line| line.expect("is CSV")).collect();
    assert_eq!(cells.len(), rows.len());
    assert!(
        cells.iter().flatten().all(|cell| !cell.starts_with('=')),
        "{csv}"
    );
    assert!(cells.iter().flatten().any(|cell| cell.starts_with("'=cmd")));
    let table = got(&[]);
    assert_eq!(table.lines().count(), rows.len() + 1, "{table}");
    for (arguments, why) in [(&["-l", "a=b"][..], "-l"), (&["-o", "name"], "this output")] {
        let mut all = vec!["get", "usage", "--record", &folder];
        all.extend(arguments);
        let refused = home.run(&all);
        assert_eq!(refused.status.code(), Some(2));
        assert!(
            text(&refused.stderr).contains(&format!("get usage does not take {why}")),
            "{}",
            text(&refused.stderr)
        );
    }
    let other = home.run(&["get", "jobs", "--from", "03:00", "--record", &folder]);
    assert_eq!(other.status.code(), Some(2));
}

#[test]
fn a_period_says_where_each_dollar_went_and_what_was_not_seen() {
    let home = Home::new();
    let folder = by_hand(&home);
    let ask = |more: &[&str]| {
        let mut arguments = vec!["cost", "--record", &folder, "--at", "2026-11-21T09:10:00Z"];
        arguments.extend(more);
        run(&home, &arguments)
    };
    let today: Value =
        serde_json::from_str(&ask(&["--period", "today", "-o", "json"])).expect("is JSON");
    // 150 of 550 minutes.
    let ratio = today["now"]["observed_ratio"].as_f64().expect("a number");
    assert!((ratio - 150.0 / 550.0).abs() < 1e-9, "{ratio}");
    let total = today["total"]["cost_usd"].as_f64().expect("a number");
    let expected = (3.0 * 4.123457 + 1.000001) * 2.5;
    assert!((total - expected).abs() < 2e-6, "{total} {expected}");
    let parts: f64 = CostPart::ALL
        .iter()
        .filter_map(|part| today["total"][format!("{}_usd", part.field())].as_f64())
        .sum();
    assert!((parts - total).abs() < 1e-9);
    assert!(
        today["total"]["before_cost_usd"].is_null(),
        "yesterday was not recorded"
    );
    assert_eq!(today["total"]["unpriced_device_hours"], 2.5);
    let table = ask(&["--period", "today"]);
    assert!(table.contains("27.2 % observed"), "{table}");
    assert!(table.contains("0.0 % observed"), "{table}");
    let shares: Vec<f64> = table
        .lines()
        .skip_while(|line| !line.starts_with("Where each dollar went"))
        .filter_map(|line| {
            line.split(" %")
                .next()?
                .split_whitespace()
                .last()?
                .parse()
                .ok()
        })
        .collect();
    assert_eq!(shares.len(), 8, "{table}");
    assert!((shares.iter().sum::<f64>() - 100.0).abs() < 1e-9, "{table}");
    assert!(
        table.contains('·') && table.contains('█'),
        "a gap is no zero: {table}"
    );
    // A month before which nothing was recorded is unknown, not free of charge.
    let last = home.run(&[
        "cost",
        "--record",
        &folder,
        "--at",
        "2026-11-21T09:10:00Z",
        "--period",
        "last-month",
    ]);
    let printed = text(&last.stdout);
    assert!(printed.contains("What it cost is unknown."), "{printed}");
    assert!(!printed.contains("$0"), "{printed}");
    assert!(text(&last.stderr).contains("nothing was recorded in this period"));
    for by in ["pool", "queue", "namespace", "class", "owner", "job"] {
        let one: Value = serde_json::from_str(&ask(&["--period", "30d", "--by", by, "-o", "json"]))
            .expect("is JSON");
        assert_eq!(one["total"]["cost_usd"], today["total"]["cost_usd"], "{by}");
    }
    let csv = ask(&["--period", "7d", "-o", "csv"]);
    assert!(csv.lines().any(|line| line.contains("'=cmd")), "{csv}");
}

#[test]
fn an_unobserved_month_is_unknown_in_every_format() {
    let home = Home::new();
    let folder = by_hand(&home);
    for form in ["table", "csv", "json", "markdown", "focus"] {
        let line = [
            "cost", "report", "--month", "2020-01", "--record", &folder, "-o", form,
        ];
        let report = home.run(&line);
        assert_eq!(report.status.code(), Some(1), "{form}");
        let errors = text(&report.stderr);
        assert!(errors.contains("its cost is unknown"), "{form}: {errors}");
    }
}

#[test]
fn a_report_adds_up_to_the_ledger_in_every_form() {
    let home = Home::new();
    let folder = by_hand(&home);
    let report = |more: &[&str]| {
        let mut arguments = vec![
            "cost", "report", "--month", "2026-11", "--by", "team,job", "--record", &folder,
        ];
        arguments.extend(more);
        run(&home, &arguments)
    };
    let span = Span {
        from: hour_of(now()),
        to: hour_of(now()) + 4,
    };
    let file = UsageFile::open_to_read(Path::new(&folder)).expect("can be read");
    let ledger = cost(
        &file
            .rows(span, &UsageFilter::default())
            .expect("can be read"),
    );
    let column = |csv: &str, name: &str| -> Vec<String> {
        let mut reader = csv::Reader::from_reader(csv.as_bytes());
        let at = reader
            .headers()
            .expect("titles")
            .iter()
            .position(|title| title == name);
        let at = at.unwrap_or_else(|| panic!("no {name} in {csv}"));
        reader
            .records()
            .map(|line| line.expect("is CSV")[at].to_owned())
            .collect()
    };
    let micros = |cells: &[String]| -> i64 {
        cells
            .iter()
            .map(|cell| cell.replace('.', "").parse::<i64>().unwrap_or(0))
            .sum()
    };
    for idle in ["separate", "share", "weighted"] {
        let csv = report(&["-o", "csv", "--idle", idle]);
        assert_eq!(micros(&column(&csv, "cost_usd")), ledger, "{idle}: {csv}");
        assert!(
            column(&csv, "observed_ratio")
                .iter()
                .all(|ratio| ratio.starts_with("0."))
        );
        assert_eq!(csv.contains("(unallocated)"), idle == "separate", "{csv}");
    }
    // A third of 4.123457 $/h for 2.5 hours is shared by two: each half, whatever it had.
    let csv = report(&["-o", "csv", "--idle", "share"]);
    let shared = column(&csv, "unallocated_share_usd");
    let shared: Vec<i64> = shared
        .iter()
        .map(|cell| micros(std::slice::from_ref(cell)))
        .collect();
    assert!(
        shared.len() == 2 && (shared[0] - shared[1]).abs() <= 1,
        "{shared:?}"
    );
    // Dollars of the rows add up to those of the sum.
    let table = report(&[]);
    let last = |line: &str| {
        line.rsplit('$')
            .next()
            .and_then(|usd| usd.replace([' ', '.'], "").parse::<i64>().ok())
    };
    let dollars: Vec<i64> = table
        .lines()
        .skip_while(|line| !line.starts_with("team"))
        .filter_map(last)
        .collect();
    let (total, rows) = dollars.split_last().expect("a sum");
    assert_eq!(rows.iter().sum::<i64>(), *total, "{table}");
    assert_eq!(*total, (ledger + 500_000) / 1_000_000);
    assert!(
        table.contains("observed ") && table.contains("2.5 device-hours have no price"),
        "{table}"
    );
    let markdown = report(&["-o", "markdown"]);
    let lines = markdown.lines().filter(|line| line.starts_with('|'));
    let bars: Vec<usize> = lines
        .map(|line| line.replace("\\|", "").matches('|').count())
        .collect();
    assert!(
        bars.len() > 3 && bars.iter().all(|count| *count == bars[0]),
        "{markdown}"
    );
    assert!(!markdown.contains("<b>"), "{markdown}");
    for wrong in [
        &["--month", "2026-13"][..],
        &["--month", "2026-11", "--by", "team,team"],
    ] {
        let mut arguments = vec!["cost", "report", "--record", &folder];
        arguments.extend(wrong);
        assert_eq!(home.run(&arguments).status.code(), Some(2), "{wrong:?}");
    }
}

/// FOCUS 1.2: the columns that its specification calls mandatory, and which of them may be null in a row of usage.
#[test]
fn a_focus_file_has_the_mandatory_columns_and_the_reports_sum() {
    const MANDATORY: [&str; 21] = [
        "BilledCost",
        "BillingAccountId",
        "BillingAccountName",
        "BillingCurrency",
        "BillingPeriodEnd",
        "BillingPeriodStart",
        "ChargeCategory",
        "ChargeClass",
        "ChargeDescription",
        "ChargePeriodEnd",
        "ChargePeriodStart",
        "ContractedCost",
        "EffectiveCost",
        "InvoiceIssuerName",
        "ListCost",
        "PricingQuantity",
        "PricingUnit",
        "ProviderName",
        "PublisherName",
        "ServiceCategory",
        "ServiceName",
    ];
    // Recommended, or conditional on what the ledger knows.
    const FURTHER: [&str; 7] = [
        "AvailabilityZone",
        "ChargeFrequency",
        "ConsumedQuantity",
        "ConsumedUnit",
        "InvoiceId",
        "PricingCategory",
        "ServiceSubcategory",
    ];
    let home = Home::new();
    let folder = by_hand(&home);
    let arguments = [
        "cost", "report", "--month", "2026-11", "--by", "team,job", "--record", &folder, "-o",
        "focus",
    ];
    let output = home.run(&arguments);
    assert!(text(&output.stderr).contains("BilledCost is 0: nothing was billed"));
    let focus = text(&output.stdout);
    let mut reader = csv::Reader::from_reader(focus.as_bytes());
    let titles: Vec<String> = reader
        .headers()
        .expect("titles")
        .iter()
        .map(str::to_owned)
        .collect();
    let rows: Vec<BTreeMap<String, String>> = reader
        .records()
        .map(|line| {
            titles
                .iter()
                .cloned()
                .zip(line.expect("is CSV").iter().map(str::to_owned))
                .collect()
        })
        .collect();
    assert!(
        titles
            .iter()
            .all(|title| MANDATORY.contains(&title.as_str())
                || FURTHER.contains(&title.as_str())
                || title.starts_with("x_"))
    );
    // "Column IDs MUST use Pascal case": no underscore but that of the prefix.
    for title in &titles {
        let name = title.strip_prefix("x_").unwrap_or(title);
        assert!(
            name.starts_with(|first: char| first.is_ascii_uppercase()),
            "{title}"
        );
        assert!(
            name.chars().all(|one| one.is_ascii_alphanumeric()),
            "{title}"
        );
    }
    assert!(
        FURTHER
            .iter()
            .all(|column| titles.iter().any(|title| title == column))
    );
    let mut cost = 0.0;
    for row in &rows {
        for column in MANDATORY {
            let cell = row.get(column).unwrap_or_else(|| panic!("no {column}"));
            assert_eq!(
                cell.is_empty(),
                column == "ChargeClass",
                "{column}: {row:?}"
            );
        }
        assert_eq!(
            (row["BilledCost"].as_str(), row["BillingCurrency"].as_str()),
            ("0.000000", "USD")
        );
        assert_eq!(row["ChargePeriodStart"], "2026-11-01T00:00:00Z");
        assert_eq!(row["ChargePeriodEnd"], "2026-12-01T00:00:00Z");
        assert_eq!(row["ListCost"], row["EffectiveCost"]);
        let columns = [
            "ChargeFrequency",
            "InvoiceId",
            "ServiceCategory",
            "ServiceSubcategory",
        ];
        let columns = columns.map(|column| row[column].as_str());
        assert_eq!(columns, ["Usage-Based", "", "Compute", "Other (Compute)"]);
        assert_eq!(
            (&row["ConsumedQuantity"], row["ConsumedUnit"].as_str()),
            (&row["PricingQuantity"], "Device-Hours")
        );
        // The nodes of this ledger have no zone.
        assert_eq!(row["AvailabilityZone"], "");
        let spot = row["x_Pool"] == "spot";
        assert_eq!(
            row["PricingCategory"],
            if spot { "Dynamic" } else { "Standard" }
        );
        assert_eq!(
            row["PricingQuantity"],
            if row["x_Team"] == "nlp" {
                "5.000000"
            } else {
                "2.500000"
            }
        );
        cost += row["EffectiveCost"].parse::<f64>().expect("a number");
        let parts = row.iter().filter(|(title, _)| title.starts_with("x_Cost"));
        let parts: f64 = parts
            .map(|(_, cell)| cell.parse::<f64>().expect("a number"))
            .sum();
        assert!((parts - row["EffectiveCost"].parse::<f64>().expect("a number")).abs() < 1e-9);
    }
    let expected = (3.0 * 4.123457 + 1.000001) * 2.5;
    assert!((cost - expected).abs() < 5e-6, "{cost} {expected}");
    assert_eq!(rows.len(), 3);
}

#[test]
fn the_path_of_the_file_is_printed_with_a_working_query() {
    let home = Home::new();
    let folder = by_hand(&home);
    let answer = run(&home, &["usage", "sql", "--record", &folder]);
    assert!(
        answer.starts_with(&format!("{folder}/usage.sqlite\n")),
        "{answer}"
    );
    let query = answer.split('"').nth(1).expect("a query");
    let sql = rusqlite::Connection::open(format!("{folder}/usage.sqlite")).expect("opens");
    let mut query = sql.prepare(query).expect("is SQL");
    let teams = query
        .query_map([], |row| row.get::<_, String>(0))
        .expect("can be asked");
    let teams: Vec<String> = teams.collect::<Result<_, _>>().expect("can be read");
    assert_eq!(teams.len(), 3, "{teams:?}");
    for team in ["nlp", "(unallocated)"] {
        assert!(teams.contains(&team.to_owned()), "{teams:?}");
    }
    let none = home.run(&["usage", "sql", "--record", "nowhere"]);
    assert_eq!(none.status.code(), Some(1));
    let newer = rusqlite::Connection::open(format!("{folder}/usage.sqlite")).expect("opens");
    newer
        .pragma_update(None, "user_version", 9)
        .expect("is set");
    let refused = home.run(&["cost", "--record", &folder]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        text(&refused.stderr).contains("use a later stokehold"),
        "{}",
        text(&refused.stderr)
    );
}

#[test]
fn unit_costs_and_days_go_by_the_settings() {
    let home = Home::new();
    let folder = by_hand(&home);
    let cost = |settings: &str, more: &[&str]| {
        home.settings(settings);
        let mut arguments = vec!["cost", "--record", &folder, "--at", "2026-11-21T09:00:00Z"];
        arguments.extend(more);
        home.run(&arguments)
    };
    let total = |settings: &str| {
        let got = cost(settings, &["--period", "today", "-o", "json"]);
        let all: Value = serde_json::from_slice(&got.stdout).expect("is JSON");
        (all["total"].clone(), all["time_zone"].clone())
    };
    let (all, zone) = total("");
    assert_eq!(zone, "UTC");
    // The devices have no energy counter, no job ended, and the spot pool's own price says nothing of on-demand hours.
    assert_eq!(all["finished_jobs"], 0);
    for unknown in [
        "usd_per_finished_job",
        "spot_saved_usd",
        "energy_wh",
        "energy_usd",
        "kg_co2e",
    ] {
        assert!(all[unknown].is_null(), "{unknown}: {all}");
    }
    assert_eq!(all["spot_unknown_device_hours"], 2.5);
    assert_eq!(total("[cost]\nusd_per_kwh = 0.1\n").0, all);
    let wide = text(&cost("", &["--period", "today", "-o", "wide"]).stdout);
    assert!(wide.contains("SPOT SAVED"), "{wide}");
    let wrong = cost("[cost]\ntime_zone = \"Europe/Atlantis\"\n", &[]);
    let errors = text(&wrong.stderr);
    assert_eq!(wrong.status.code(), Some(2), "{errors}");
    assert!(
        errors.contains("cost.time_zone: ") && errors.contains("`Europe/Atlantis`"),
        "{errors}"
    );
    let zones = std::path::Path::new("/usr/share/zoneinfo/Asia/Tokyo");
    if zones.exists() {
        // 18:00 there.
        let tokyo = cost(
            "[cost]\ntime_zone = \"Asia/Tokyo\"\n",
            &["--period", "today"],
        );
        let printed = text(&tokyo.stdout);
        assert!(
            printed.starts_with("today: 2026-11-21 00:00 to 2026-11-21 19:00, ")
                && printed.contains("(Asia/Tokyo; "),
            "{printed}"
        );
    }
}
