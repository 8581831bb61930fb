//! The usage ledger's file: what is written is read again, a closed hour stays, another's file is left alone.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use model::base::{Name, Rate};
use model::cost::sample::{allocated_to, device, fleet, node, now, pod};
use model::cost::{PoolPrice, Prices};
use model::fleet::Fleet;
use model::fleet::fleet::TableState;
use model::fleet::node::Billing;
use model::fleet::observe::Table;
use record::usage::{FILE, UsageFault, UsageFile};
use tempfile::TempDir;
use usage::{
    CostPart, Dimension, FinishedJob, GAP, HourUsage, LossCause, RunLoss, Span, UsageFilter,
    UsageFold, UsageKey, UsageRow, UsageSample, hour_of,
};

fn hour() -> i64 {
    hour_of(now())
}

/// A few hours of a fleet with one device held by `team` and one that nobody holds, from 06:40 on.
fn usage(teams: &[&str], minutes: u64) -> UsageFold {
    let prices = Prices::default().with_pool("a", PoolPrice::Rate(Rate::from_micros(3_000_000)));
    let mut fold = UsageFold::new(GAP, []);
    for minute in 0..=minutes {
        let at = now().plus(Duration::from_secs(60 * minute));
        let worker = pod(
            "ns",
            "train-0",
            Some("q"),
            teams[minute as usize % teams.len()],
        );
        let mut first = allocated_to(device("n1", 0, "H100"), &worker);
        first.read_at = Some(at);
        let devices = vec![first, device("n1", 1, "H100")];
        let mut fleet: Fleet = fleet(vec![node("n1", "a", None, devices)]);
        fleet.known = Table::ALL
            .iter()
            .map(|table| (*table, TableState::Live))
            .collect::<std::collections::BTreeMap<_, _>>()
            .into();
        fleet.at = at;
        fold.take(UsageSample::of(at, &fleet, &prices));
    }
    fold
}

fn span() -> Span {
    Span {
        from: hour(),
        to: hour() + 24,
    }
}

fn every() -> UsageFilter {
    UsageFilter::default()
}

fn cost(file: &UsageFile) -> i64 {
    let all = file.sums(span(), &[], 1, &every()).expect("can be read");
    all.iter().filter_map(|sum| sum.totals.cost_micros()).sum()
}

#[test]
fn hours_come_back_and_add_up_by_every_dimension() {
    let folder = TempDir::new().expect("a folder");
    let mut file = UsageFile::open(folder.path()).expect("can be made");
    let mut fold = usage(&["x", "y"], 110);
    let closed = fold.closed();
    assert_eq!(closed.len(), 2);
    file.write(&closed, &fold.lost()).expect("can be written");
    let open: Vec<HourUsage> = fold.open().collect();
    file.write(&open, &[]).expect("can be written");
    drop(file);

    let file = UsageFile::open_to_read(folder.path()).expect("can be read");
    // Two devices at 3 $/h for 110 minutes.
    assert_eq!(cost(&file), 11_000_000);
    for by in Dimension::ALL {
        let rows = file.sums(span(), &[by], 1, &every()).expect("can be read");
        let sum: i64 = rows.iter().filter_map(|row| row.totals.cost_micros()).sum();
        assert_eq!(sum, 11_000_000, "{by:?}");
    }
    let teams = file
        .sums(span(), &[Dimension::Team], 1, &every())
        .expect("can be read");
    let names: Vec<&str> = teams.iter().map(|row| row.names[0].as_str()).collect();
    assert_eq!(names, ["", "x", "y"]);
    assert_eq!(teams[1].totals.allocated_ms(), 55 * 60_000);
    let jobs = file
        .sums(span(), &[Dimension::Job], 1, &every())
        .expect("can be read");
    assert_eq!(jobs[1].names, ["ns/train"]);
    // The hours as steps: 20, 60 and 30 minutes.
    let steps = file.sums(span(), &[], 24, &every()).expect("can be read");
    let steps: Vec<(usize, Option<i64>)> = steps
        .iter()
        .map(|sum| (sum.step, sum.totals.cost_micros()))
        .collect();
    assert_eq!(
        steps,
        [
            (0, Some(2_000_000)),
            (1, Some(6_000_000)),
            (2, Some(3_000_000))
        ]
    );
    let only = UsageFilter {
        team: Some("y".to_owned()),
        namespaces: vec!["other".to_owned(), "ns".to_owned()],
    };
    let one = file.sums(span(), &[], 1, &only).expect("can be read");
    assert_eq!(one[0].totals.cost_micros(), Some(2_750_000));
    let coverage = file.coverage(span()).expect("can be read");
    assert_eq!((coverage.observed_ms, coverage.open), (110 * 60_000, 1));
    let rows = file.rows(span(), &every()).expect("can be read");
    assert_eq!(rows.len(), 9);
    assert!(rows[0].closed && !rows[8].closed);
    assert_eq!(file.closed().expect("can be read").len(), 2);
    assert_eq!(file.resumes_at().expect("can be read"), Some(hour() + 2));
}

#[test]
fn an_open_hour_is_replaced_and_a_closed_one_stays() {
    let folder = TempDir::new().expect("a folder");
    let mut file = UsageFile::open(folder.path()).expect("can be made");
    let open = |minutes| usage(&["x"], minutes).open().collect::<Vec<_>>();
    file.write(&open(5), &[]).expect("can be written");
    file.write(&open(10), &[]).expect("can be written");
    file.write(&open(10), &[]).expect("can be written");
    assert_eq!(cost(&file), 1_000_000, "ten minutes, once");
    let closed = usage(&["x"], 25).closed();
    file.write(&closed, &[]).expect("can be written");
    let before = cost(&file);
    assert_eq!(before, 2_000_000);
    // Written again, open or closed: nothing changes.
    file.write(&open(3), &[]).expect("is passed over");
    let mut more = usage(&["z"], 25).closed();
    more[0].rows.truncate(1);
    file.write(&more, &[]).expect("is passed over");
    assert_eq!(cost(&file), before);
    drop(file);
    // The file itself refuses it, whoever writes.
    let sql = rusqlite::Connection::open(folder.path().join(FILE)).expect("opens");
    for change in [
        "UPDATE hour_rows SET useful_micros = 0",
        "DELETE FROM hour_rows",
        "UPDATE hours SET state = 'open'",
        "INSERT INTO hour_rows SELECT hour, 99, 0,0,0,0,0,0,0, NULL, 0,0,0,0,0,0 FROM hours",
    ] {
        let refused = sql.execute(change, []).expect_err("is refused");
        assert!(
            refused.to_string().contains("the hour is closed"),
            "{change}: {refused}"
        );
    }
}

#[test]
fn what_a_run_lost_of_closed_hours_is_booked_beside_them_once() {
    let folder = TempDir::new().expect("a folder");
    let mut file = UsageFile::open(folder.path()).expect("can be made");
    let closed = usage(&["x"], 90).closed();
    file.write(&closed, &[]).expect("can be written");
    let before = file.rows(span(), &every()).expect("can be read");
    let began_ms = now().millis();
    let loss = RunLoss {
        cause: LossCause::Failure,
        seen_ms: began_ms + 100 * 60_000,
        namespace: Name::new("ns"),
        owner: Name::new("Job"),
        job: Name::new("train"),
        began_ms,
        // In the middle of the second hour.
        lost_since_ms: began_ms + 50 * 60_000,
        booked_from: hour() + 2,
    };
    file.write(&[], std::slice::from_ref(&loss))
        .expect("can be written");
    file.write(&[], &[loss]).expect("can be written");
    let all = file.sums(span(), &[], 1, &every()).expect("can be read")[0].totals;
    assert_eq!(all.cost_micros(), Some(8_000_000), "the sum stays");
    assert_eq!(all.part_micros(CostPart::LostToFailure), Some(1_500_000));
    assert_eq!(all.part_micros(CostPart::Useful), Some(2_500_000));
    assert_eq!(
        (all.lost_failure_ms, all.allocated_ms()),
        (30 * 60_000, 80 * 60_000)
    );
    // A second run that ends badly has what is left.
    let earlier = RunLoss {
        cause: LossCause::Preemption,
        seen_ms: began_ms + 101 * 60_000,
        lost_since_ms: began_ms,
        ..RunLoss {
            cause: LossCause::Failure,
            seen_ms: 0,
            namespace: Name::new("ns"),
            owner: Name::new("Job"),
            job: Name::new("train"),
            began_ms,
            lost_since_ms: 0,
            booked_from: hour() + 2,
        }
    };
    file.write(&[], &[earlier]).expect("can be written");
    let all = file.sums(span(), &[], 1, &every()).expect("can be read")[0].totals;
    assert_eq!(all.cost_micros(), Some(8_000_000));
    assert_eq!(all.part_micros(CostPart::LostToPreemption), Some(2_500_000));
    assert_eq!(all.part_micros(CostPart::Useful), Some(0));
    let after = file.rows(span(), &every()).expect("can be read");
    let allocated = |rows: &[usage::HourRow]| {
        rows.iter()
            .map(|row| row.totals.allocated_ms())
            .collect::<Vec<_>>()
    };
    assert_eq!(allocated(&before), allocated(&after));
}

#[test]
fn anothers_file_and_a_later_version_are_refused_and_left_alone() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join(FILE);
    assert!(matches!(
        UsageFile::open_to_read(folder.path()),
        Err(UsageFault::Absent(_))
    ));
    fs::write(&path, "hours,of,mine\n".repeat(100)).expect("can be written");
    for fault in [
        UsageFile::open(folder.path()).err(),
        UsageFile::open_to_read(folder.path()).err(),
    ] {
        let fault = fault.expect("is refused").to_string();
        assert!(
            fault.contains("is not a usage ledger: move it away"),
            "{fault}"
        );
    }
    assert!(
        fs::read_to_string(&path)
            .expect("is there")
            .starts_with("hours,of,mine")
    );
    fs::remove_file(&path).expect("can be removed");
    // A database of somebody else.
    let sql = rusqlite::Connection::open(&path).expect("opens");
    sql.execute_batch("CREATE TABLE mine (a)").expect("is made");
    drop(sql);
    assert!(matches!(
        UsageFile::open(folder.path()),
        Err(UsageFault::Foreign(_))
    ));
    fs::remove_file(&path).expect("can be removed");
    drop(UsageFile::open(folder.path()).expect("can be made"));
    let sql = rusqlite::Connection::open(&path).expect("opens");
    sql.pragma_update(None, "user_version", 99).expect("is set");
    drop(sql);
    let fault = UsageFile::open(folder.path())
        .err()
        .expect("is refused")
        .to_string();
    assert!(
        fault.contains("has version 99, this program reads up to 3: use a later stokehold"),
        "{fault}"
    );
}

#[test]
fn the_view_of_usage_can_be_read_by_other_databases() {
    let folder = TempDir::new().expect("a folder");
    drop(UsageFile::open(folder.path()).expect("can be made"));
    let sql = rusqlite::Connection::open(folder.path().join(FILE)).expect("opens");
    let text = |view: &str| -> String {
        let of = "SELECT sql FROM sqlite_master WHERE type = 'view' AND name = ?1";
        sql.query_row(of, [view], |row| row.get(0))
            .expect("is there")
    };
    // The view and the one that it is made of: a database that runs their text itself knows these functions, and no others are there.
    for view in ["usage", "lost"] {
        let text = text(view).to_lowercase();
        let calls: BTreeSet<&str> = text
            .match_indices('(')
            .map(|(at, _)| {
                text[..at].rsplit(|letter: char| !letter.is_alphanumeric() && letter != '_')
            })
            .filter_map(|mut words| words.next())
            .filter(|word| !word.is_empty())
            .collect();
        let common = BTreeSet::from(["coalesce", "sum"]);
        assert!(calls.is_subset(&common), "{view}: {calls:?}");
        assert!(!text.contains('/'), "{view}: a division");
    }
    assert!(text("usage_hours").contains("strftime"));
}

#[test]
fn a_file_of_the_first_version_goes_on_and_what_it_did_not_count_is_unknown() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join(FILE);
    let sql = rusqlite::Connection::open(&path).expect("opens");
    sql.execute_batch(include_str!("../../src/record/usage/schema.sql"))
        .expect("is made");
    sql.execute_batch("CREATE VIEW usage AS SELECT hour AS hour_start, energy_mwh FROM hour_rows;")
        .expect("is made");
    sql.execute_batch(&format!(
        "PRAGMA application_id = {}; PRAGMA user_version = 1;",
        0x5354_4B55
    ))
    .expect("is set");
    // As that version wrote it: the first hour is closed, the second is open.
    let first = hour() * 3_600;
    sql.execute_batch(&format!(
        "INSERT INTO keys VALUES (1, 'a', 'H100', 'spot', '', 'ns', 'x', 'q', 'Job', 'train', '', 'p', '');
         INSERT INTO hour_rows VALUES ({first}, 1, 3600000, 0, 0, 0, 0, 0, 0, NULL, 3000000, 0, 0, 0, 0, 0);
         INSERT INTO hours VALUES ({first}, 'closed', 3600000, 3600000);
         INSERT INTO hours VALUES ({}, 'open', 60000, 60000);",
        first + 3_600
    ))
    .expect("is written");
    drop(sql);
    let totals = |file: &UsageFile, span: Span| {
        let sums = file.sums(span, &[], 1, &every()).expect("can be read");
        sums.first().map(|sum| sum.totals)
    };
    // Whoever may only read reads it as it is.
    let reader = UsageFile::open_to_read(folder.path()).expect("can be read");
    let copy = UsageFile::copied(folder.path()).expect("can be read");
    for file in [&reader, &copy] {
        let all = totals(file, span()).expect("has a row");
        assert_eq!(all.cost_micros(), Some(3_000_000));
        assert_eq!((all.finished, all.usd_per_finished_job()), (None, None));
        assert_eq!(
            (all.spot_saved_micros, all.spot_unlisted_ms()),
            (None, 3_600_000)
        );
    }
    drop(reader);
    let mut file = UsageFile::open(folder.path()).expect("can be written");
    let spot = |hour, finished| HourUsage {
        hour,
        closed: true,
        observed_ms: 3_600_000,
        until_ms: 3_600_000,
        rows: vec![UsageRow {
            key: key(),
            device_ms: [3_600_000, 0, 0, 0, 0, 0],
            unobserved_ms: 0,
            energy_mwh: None,
            cost_micros: Some([3_000_000, 0, 0, 0, 0, 0]),
            on_demand_micros: Some(7_000_000),
        }],
        losses: Vec::new(),
        finished,
    };
    let jobs = vec![
        FinishedJob {
            key: key(),
            seen_ms: 1,
        },
        FinishedJob {
            key: key(),
            seen_ms: 2,
        },
        // It was not seen to hold a device.
        FinishedJob {
            key: UsageKey {
                pool: Name::new(""),
                class: Name::new(""),
                billing: None,
                job: Name::new("b"),
                ..key()
            },
            seen_ms: 3,
        },
    ];
    // The closed hour stays as it was; the next one has what is counted now, once.
    let hours = [spot(hour(), jobs.clone()), spot(hour() + 1, jobs)];
    file.write(&hours, &[]).expect("can be written");
    file.write(&hours, &[]).expect("can be written");
    let later = Span {
        from: hour() + 1,
        ..span()
    };
    for file in [
        file,
        UsageFile::open_to_read(folder.path()).expect("can be read"),
    ] {
        let all = totals(&file, span()).expect("has rows");
        assert_eq!(all.finished, None, "the first hour did not count them");
        assert_eq!(all.spot_saved_micros, Some(4_000_000));
        assert_eq!(all.spot_unlisted_ms(), 3_600_000);
        let all = totals(&file, later).expect("has rows");
        assert_eq!(
            (all.finished, all.usd_per_finished_job()),
            (Some(3), Some(1.0))
        );
        for by in Dimension::ALL {
            let rows = file.sums(later, &[by], 1, &every()).expect("can be read");
            let jobs: i64 = rows.iter().filter_map(|row| row.totals.finished).sum();
            assert_eq!(jobs, 3, "{by:?}");
            let saved: i64 = rows
                .iter()
                .filter_map(|row| row.totals.spot_saved_micros)
                .sum();
            assert_eq!(saved, 4_000_000, "{by:?}");
        }
        let none = UsageFilter {
            team: Some("y".to_owned()),
            ..every()
        };
        assert_eq!(file.sums(later, &[], 1, &none).expect("can be read"), []);
    }
    let sql = rusqlite::Connection::open(&path).expect("opens");
    for change in ["DELETE FROM finished", "UPDATE on_demand SET micros = 0"] {
        let refused = sql.execute(change, []).expect_err("is refused");
        assert!(
            refused.to_string().contains("the hour is closed"),
            "{refused}"
        );
    }
}

/// The cost at list prices that stand in for what is paid is told by the sources of the prices.
#[test]
fn the_part_of_a_cost_that_is_list_prices_is_known() {
    let reserved = "aws p5.48xlarge on-demand (reserved: no commitment price in the price book)";
    let prices = [
        ("aws p5.48xlarge on-demand".to_owned(), 1),
        (reserved.to_owned(), 20),
        (
            "market H100 on-demand (list price, billing not known; median of 8)".to_owned(),
            300,
        ),
        (format!("settings: 0.6 of list, pool a; {reserved}"), 4_000),
        (
            "settings: 0.6 of list, pool a; aws p5.48xlarge on-demand (no spot price known)"
                .to_owned(),
            50_000,
        ),
        ("settings: price override".to_owned(), 600_000),
    ];
    let rows = prices.map(|(source, micros)| UsageRow {
        key: UsageKey {
            price_source: Name::from(source),
            ..key()
        },
        device_ms: [3_600_000, 0, 0, 0, 0, 0],
        unobserved_ms: 0,
        energy_mwh: None,
        cost_micros: Some([micros, 0, 0, 0, 0, 0]),
        on_demand_micros: None,
    });
    let written = HourUsage {
        hour: hour(),
        closed: true,
        observed_ms: 3_600_000,
        until_ms: 3_600_000,
        rows: rows.into(),
        losses: Vec::new(),
        finished: Vec::new(),
    };
    let mut file = UsageFile::in_memory().expect("can be made");
    file.write(&[written], &[]).expect("can be written");
    let sums = file.sums(span(), &[Dimension::Team], 1, &every());
    let [sum] = &sums.expect("can be read")[..] else {
        panic!("one team");
    };
    assert_eq!(sum.totals.cost_micros(), Some(654_321));
    assert_eq!(sum.totals.list_micros, 20 + 300 + 50_000);
}

fn key() -> UsageKey {
    UsageKey {
        pool: "a".into(),
        class: "H100".into(),
        billing: Some(Billing::Spot),
        namespace: "ns".into(),
        team: "x".into(),
        queue: "q".into(),
        owner: "Job".into(),
        job: "train".into(),
        price_source: "p".into(),
        ..UsageKey::default()
    }
}

#[cfg(unix)]
#[test]
fn the_file_is_its_owners_alone_and_no_link_is_followed() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = TempDir::new().expect("a folder");
    drop(UsageFile::open(folder.path()).expect("can be made"));
    let mode = fs::metadata(folder.path().join(FILE))
        .expect("is there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let other = TempDir::new().expect("a folder");
    symlink(folder.path().join(FILE), other.path().join(FILE)).expect("is made");
    assert!(UsageFile::open(other.path()).is_err());
}

#[test]
fn one_writes_while_others_read() {
    let folder = TempDir::new().expect("a folder");
    let mut file = UsageFile::open(folder.path()).expect("can be made");
    let readers: Vec<UsageFile> = (0..3)
        .map(|_| UsageFile::open_to_read(folder.path()).expect("can be read"))
        .collect();
    file.write(&usage(&["x"], 25).closed(), &[])
        .expect("can be written");
    for reader in &readers {
        assert_eq!(cost(reader), 2_000_000);
    }
    let copy = UsageFile::copied(folder.path()).expect("can be read");
    assert_eq!(cost(&copy), 2_000_000);
}
