//! A month with holes in its record: what was not observed is in no sum, and every form of the report says how much there is.

use std::sync::Arc;
use std::time::Duration;

use model::base::{Moment, Rate};
use model::cost::sample::{allocated_to, device, fleet, node, pod};
use model::cost::{PoolPrice, Prices};
use model::fleet::fleet::TableState;
use model::fleet::observe::Table;
use record::usage::UsageFile;
use serde_json::Value;
use usage::{GAP, UsageFold, UsageSample};

use super::{Home, text};

/// Pictures lie so far apart, as far as may be.
const STEP: Duration = GAP;

/// 3 % of a day.
const HOLE: Duration = Duration::from_millis(86_400 * 30);

/// Hours of the month that were observed.
const OBSERVED: f64 = 720.0 * 0.97;

/// November 2026 of two devices, one of them allocated, with a hole of 43 minutes on each day at another hour.
fn november(home: &Home) -> String {
    let folder = home.path("record");
    let mut file = UsageFile::open(&folder).expect("can be made");
    let price = PoolPrice::Rate(Rate::from_micros(2_000_000));
    let prices = Prices::default().with_pool("a", price);
    let worker = pod("ns", "train-0", Some("q"), "nlp");
    let known: Arc<_> = Arc::new(
        Table::ALL
            .iter()
            .map(|it| (*it, TableState::Live))
            .collect(),
    );
    let mut fold = UsageFold::new(GAP, []);
    let begin = Moment::parse("2026-11-01T00:00:00Z").expect("a moment");
    let end = Moment::parse("2026-12-01T00:00:00Z").expect("a moment");
    let (mut at, mut holes) = (begin, 0);
    while at <= end {
        let read = |mut device: model::fleet::device::Device| {
            device.read_at = Some(at);
            device
        };
        let devices = vec![
            read(allocated_to(device("n1", 0, "H100"), &worker)),
            read(device("n1", 1, "H100")),
        ];
        let mut fleet = fleet(vec![node("n1", "a", None, devices)]);
        (fleet.known, fleet.at) = (Arc::clone(&known), at);
        fold.take(UsageSample::of(at, &fleet, &prices));
        // The hole of day N begins in the hour N modulo 23.
        let hole = begin.plus(Duration::from_secs(
            holes * 86_400 + holes % 23 * 3_600 + 600,
        ));
        at = match at >= hole && holes < 30 {
            true => {
                holes += 1;
                at.plus(HOLE)
            }
            false if at < end => at.plus(STEP).min(end),
            false => break,
        };
    }
    assert_eq!((holes, at), (30, end));
    let mut hours = fold.closed();
    hours.extend(fold.open());
    file.write(&hours, &[]).expect("can be written");
    folder.display().to_string()
}

#[test]
fn a_month_with_3_percent_unobserved_says_so_in_every_form() {
    let home = Home::new();
    let folder = november(&home);
    let report = |form: &str| {
        let output = home.run(&[
            "cost",
            "report",
            "--month",
            "2026-11",
            "--by",
            "team,pool",
            "--record",
            &folder,
            "-o",
            form,
        ]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        (text(&output.stdout), text(&output.stderr))
    };
    for form in ["table", "markdown"] {
        let (printed, _) = report(form);
        assert!(printed.contains("97.0 % observed"), "{form}: {printed}");
    }
    for (form, share, cost) in [
        ("csv", "observed_ratio", "cost_usd"),
        ("focus", "x_ObservedRatio", "EffectiveCost"),
    ] {
        let (printed, reported) = report(form);
        let mut reader = csv::Reader::from_reader(printed.as_bytes());
        let titles = reader.headers().expect("titles").clone();
        let at = |name: &str| titles.iter().position(|title| title == name).expect(name);
        let (share, cost) = (at(share), at(cost));
        let number = |cell: &str| cell.parse::<f64>().expect("a number");
        let lines: Vec<csv::StringRecord> =
            reader.records().map(|line| line.expect("is CSV")).collect();
        assert_eq!(lines.len(), 2, "{printed}");
        for line in &lines {
            assert!(
                (number(&line[share]) - 0.97).abs() < 1e-6,
                "{form}: {printed}"
            );
        }
        let sum: f64 = lines.iter().map(|line| number(&line[cost])).sum();
        assert!((sum - OBSERVED * 4.0).abs() < 0.001, "{form}: {sum} $");
        if form == "focus" {
            assert!(reported.contains("97.0 % observed"), "{reported}");
        }
    }
    let (printed, _) = report("json");
    let document: Value = serde_json::from_str(&printed).expect("is JSON");
    let ratio = document["observed_ratio"].as_f64().expect("a number");
    assert!((ratio - 0.97).abs() < 1e-9, "{ratio}");
    let cost = document["total_cost_usd"].as_f64().expect("a number");
    assert!((cost - OBSERVED * 4.0).abs() < 0.001, "{cost} $");
}
