//! Tests: rounded amounts add up, and CSV cells are safe in spreadsheets.

use proptest::prelude::*;

use usage::{CostPart, Dimension, EnergyRates, Span, UsageSum, UsageTotals};

use super::period::ObservedSpan;
use super::{
    CostBasis, IdleShare, PeriodCost, Report, Rounded, coverage_words, decimal, dollars,
    percent_change, safe_line, shares,
};

fn totals(useful: i64, unallocated: i64) -> UsageTotals {
    let mut parts = [0; 8];
    parts[CostPart::Useful as usize] = useful;
    parts[CostPart::Unallocated as usize] = unallocated;
    UsageTotals {
        busy_ms: i64::from(useful > 0) * 3_600_000,
        unallocated_ms: i64::from(unallocated > 0) * 3_600_000,
        priced_allocated_ms: i64::from(useful > 0) * 3_600_000,
        parts_micros: Some(parts),
        ..UsageTotals::default()
    }
}

fn sum(name: &str, totals: UsageTotals) -> UsageSum {
    UsageSum {
        names: vec![name.to_owned()],
        step: 0,
        totals,
    }
}

fn seen(ratio: f64) -> ObservedSpan {
    let span = Span {
        from: 490_000,
        to: 490_024,
    };
    ObservedSpan { span, ratio }
}

proptest! {
    #[test]
    fn rounded_money_adds_up(micros in proptest::collection::vec(0i64..10_000_000_000, 1..40)) {
        let sum = micros.iter().sum();
        let mut rounded = Rounded::to(sum);
        let rows: i64 = micros.iter().map(|micros| rounded.count(*micros)).sum();
        prop_assert_eq!(rows, Rounded::to(sum).count(sum));
        if let Some(tenths) = shares(&micros) {
            prop_assert_eq!(tenths.iter().sum::<i64>(), 1_000);
        }
    }

    #[test]
    fn the_cost_of_unallocated_devices_is_attributed_completely(
        costs in proptest::collection::vec((0i64..5_000_000, 0i64..5_000_000), 1..20),
    ) {
        let sums: Vec<UsageSum> = costs
            .iter()
            .enumerate()
            .map(|(at, (useful, free))| sum(&format!("t{at}"), totals(*useful, *free)))
            .collect();
        let all: i64 = costs.iter().map(|(useful, free)| useful + free).sum();
        for idle in [IdleShare::Separate, IdleShare::Share, IdleShare::Weighted] {
            let report = Report::new("2026-10", seen(1.0), 0, &[Dimension::Team], idle, sums.clone(), CostBasis::default());
            let paid: i64 = report.rows.iter().filter_map(super::ReportRow::cost_micros).sum();
            prop_assert_eq!(paid, all, "{:?}", idle);
        }
    }
}

#[test]
fn numbers_are_written_exactly() {
    assert_eq!(decimal(12_345_678), "12.345678");
    assert_eq!(decimal(-1), "-0.000001");
    assert_eq!(dollars(1_204_500_001), "$1 205");
    assert_eq!(dollars(-4_504_999), "-$4.50");
    assert_eq!(percent_change(999, 1_000), "0%");
    assert_eq!(percent_change(900, 1_000), "-10%");
    assert_eq!(shares(&[0, 0]), None);
    assert_eq!(shares(&[1, 1, 1]), Some(vec![334, 333, 333]));
    // An incomplete ratio is never rounded up to 100.
    assert_eq!(coverage_words(0.9999), "99.9 % observed");
    assert_eq!(coverage_words(1.0), "100.0 % observed");
}

#[test]
fn no_cell_begins_a_formula() {
    let cells = [
        "=1+1",
        "+a",
        "-a",
        "-2.5",
        "@x",
        "a\"b",
        "\tx",
        "two\nlines",
    ];
    let line = safe_line(&cells.map(str::to_owned));
    assert_eq!(
        line,
        "'=1+1,'+a,'-a,-2.5,'@x,\"a\"\"b\",'\tx,\"two\nlines\"\n"
    );
}

#[test]
fn weights_follow_what_each_has() {
    let sums = vec![
        sum("", totals(0, 900)),
        sum("a", totals(100, 0)),
        sum("b", totals(200, 0)),
    ];
    let report = |idle| {
        Report::new(
            "2026-10",
            seen(0.5),
            0,
            &[Dimension::Team],
            idle,
            sums.clone(),
            CostBasis::default(),
        )
    };
    let paid = |idle| -> Vec<Option<i64>> {
        let report: Report = report(idle);
        report
            .rows
            .iter()
            .map(super::ReportRow::cost_micros)
            .collect()
    };
    assert_eq!(paid(IdleShare::Share), [Some(550), Some(650)]);
    assert_eq!(paid(IdleShare::Weighted), [Some(400), Some(800)]);
    assert_eq!(paid(IdleShare::Separate), [Some(100), Some(200), Some(900)]);
    assert!(report(IdleShare::Share).table().contains("50.0 % observed"));
}

#[test]
fn a_period_before_that_was_not_observed_is_unknown() {
    let sums = [
        sum("a", totals(100_000_000, 0)),
        sum("", totals(0, 50_000_000)),
    ];
    let period = |before: f64, past: &[UsageSum]| {
        PeriodCost::new(
            "today",
            Dimension::Team,
            seen(1.0),
            &sums,
            seen(before),
            past,
            CostBasis::default(),
        )
    };
    let table = period(0.0, &[]).table(false);
    let row = |table: &str, name: &str| {
        let line = table
            .lines()
            .find(|line| line.starts_with(name))
            .expect("a row");
        line.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(row(&table, "a ")[1..4], ["$100", "-", "-"]);
    // The period was observed and the row did not exist then: it cost zero.
    let past = [sum("gone", totals(10_000_000, 0))];
    let table = period(1.0, &past).table(false);
    assert_eq!(row(&table, "a ")[1..4], ["$100", "$0", "-"]);
    assert_eq!(row(&table, "gone")[1..4], ["$0", "$10", "-100%"]);
    assert_eq!(row(&table, "total")[1..4], ["$150", "$10", "+1400%"]);
    let order: Vec<String> = period(1.0, &past)
        .rows
        .iter()
        .map(|row| row.name.clone())
        .collect();
    assert_eq!(order, ["a", "gone", "unattributed"]);
}

#[test]
fn unit_costs_are_unknown_without_their_settings_and_data() {
    let hours = 3_600_000;
    let mut all = totals(100_000_000, 0);
    all.busy_ms = 10 * hours;
    all.priced_allocated_ms = 10 * hours;
    all.priced_busy_ms = 8 * hours;
    let none = EnergyRates::default();
    let words = |totals: &UsageTotals, energy| super::unit_words(totals, energy).join("; ");
    // Without data on jobs, spot and energy, no figure is printed.
    assert_eq!(
        words(&all, none),
        "$10.00 per allocated device-hour; $12.50 per busy device-hour"
    );
    all.finished = Some(4);
    all.spot_ms = 3 * hours;
    all.spot_listed_ms = 2 * hours;
    all.spot_saved_micros = Some(1_204_500_000);
    all.energy_mwh = Some(100_000_000);
    all.metered_ms = all.observed_ms();
    let own = EnergyRates {
        usd_per_kwh: Some(0.10),
        pue: Some(1.5),
        kg_co2e_per_kwh: None,
    };
    assert_eq!(
        words(&all, own),
        "$10.00 per allocated device-hour; $12.50 per busy device-hour; $25 per finished job (4); spot saved $1 205; \
         for 1.0 spot device-hours the spot or on-demand price is unknown; 100.0 kWh, $15 (PUE 1.5)"
    );
    assert!(
        words(&all, EnergyRates { pue: None, ..own }).ends_with("100.0 kWh, $10 (without a PUE)")
    );
    assert!(words(&all, none).ends_with("100.0 kWh"));
    // Energy metered for part of the device time is marked as partial.
    let metered = |share: i64| UsageTotals {
        metered_ms: all.observed_ms() * share / 1_000,
        ..all
    };
    assert!(words(&metered(4), none).ends_with("100.0 kWh (0.4 % of device time metered)"));
    assert!(words(&metered(0), none).ends_with("(less than 0.1 % of device time metered)"));
    // Some of the allocated time has no price: the cost per job is unknown.
    let part = UsageTotals {
        idle_ms: hours,
        ..all
    };
    assert!(words(&part, none).contains("4 jobs finished"));
    let mut fields = serde_json::Map::new();
    super::units::json(&totals(1, 0), own, &mut fields);
    for (name, value) in fields {
        match name.as_str() {
            "spot_unknown_device_hours" => assert_eq!(value, 0.0),
            _ => assert!(value.is_null(), "{name}: {value}"),
        }
    }
}

#[test]
fn a_focus_row_is_of_one_zone() {
    let names = |zone: &str| ["spot", "a", "H100", zone, "x"].map(str::to_owned).to_vec();
    let sums = ["", "us-east-1a"].map(|zone| UsageSum {
        names: names(zone),
        step: 0,
        totals: totals(2_000_000, 0),
    });
    let focus = super::focus("c", seen(1.0).span, 1.0, &[Dimension::Team], &sums);
    let mut lines = focus.lines();
    let titles: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    assert_eq!(titles[0], "AvailabilityZone");
    assert!(titles.contains(&"x_CostLostToFailure") && titles.contains(&"x_Team"));
    let zones: Vec<&str> = lines.filter_map(|line| line.split(',').next()).collect();
    assert_eq!(zones, ["", "us-east-1a"]);
    let quantities = focus.matches(",1.000000,Device-Hours,").count();
    assert_eq!(quantities, 4, "consumed and priced, in two rows: {focus}");
}
