//! Tests of purchase options on the sample fleet, and of a month of the ledger.

use std::sync::Arc;

use model::fleet::accelerator::Catalog;
use model::fleet::policy::Policy;
use usage::{UsageKey, UsageTotals};

use super::*;
use crate::sample::facts;

#[test]
fn each_way_is_priced_or_says_why_not() {
    let mut facts = facts();
    let catalog = Catalog::embedded();
    let prices = Prices::new(model::cost::PriceBook::embedded(), &catalog);
    let mut fleet = (*facts.fleet).clone();
    fleet.policy = Arc::new(Policy {
        catalog,
        ..(*fleet.policy).clone()
    });
    facts.fleet = Arc::new(fleet);
    let none = rows(&facts, &prices, &TcoInputs::default(), &BTreeMap::new());
    assert!(!none.is_empty());
    let schema = schema();
    let validator = jsonschema::draft202012::new(&schema).expect("is a schema");
    let document = serde_json::to_value(&none).expect("a document");
    let wrong: Vec<String> = validator
        .iter_errors(&document)
        .map(|error| format!("{error} at {}", error.instance_path()))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    let row = none
        .iter()
        .find(|row| row.class == "H100" && row.devices > 0)
        .expect("H100 are held");
    let way = |row: &TcoRow, name: &str| {
        row.ways
            .iter()
            .find(|way| way.way == name)
            .cloned()
            .expect("a way")
    };
    let listed = way(row, "on-demand")
        .usd_per_device_hour
        .expect("in a book");
    // Without a setting, the price is unknown, never 0.
    for name in ["reserved", "owned"] {
        let cell = way(row, name);
        assert_eq!((cell.usd_per_device_hour, cell.usd_per_month), (None, None));
        assert!(cell.source.contains("set"), "{}", cell.source);
    }
    assert_eq!(
        (row.owned_pays_above_ratio, row.owned_pays_after_months),
        (None, None)
    );
    assert_eq!(row.instead.len(), INSTEAD, "TPUs have prices");
    assert!(
        row.instead
            .iter()
            .all(|other| other.devices >= 1.0 && other.usd_per_month > 0.0)
    );
    let machine = Owned {
        capex_usd: 280_000.0,
        years: 4.0,
        residual: 0.0,
        overhead: 0.2,
        kw: 10.0,
        pue: 1.3,
        usd_per_kwh: 0.1,
        other_usd_per_hour: 0.0,
    };
    let inputs = TcoInputs {
        reserved: Some(0.6),
        owned: vec![("h100".to_owned(), 8, machine)],
    };
    let month = MonthCell {
        device_hours: 7_200.0,
        mean_devices: 10.0,
        peak_devices: 16.0,
        observed_ratio: 1.0,
    };
    let months = BTreeMap::from([(Name::new("H100"), month)]);
    let all = rows(&facts, &prices, &inputs, &months);
    let row = all.iter().find(|row| row.class == "H100").expect("a row");
    let reserved = way(row, "reserved");
    let rate = reserved.usd_per_device_hour.expect("agreed");
    assert!((rate - listed * 0.6).abs() < 1e-9);
    // Committed capacity is priced at the peak, hourly capacity at the mean.
    let of = |cell: &WayCell| cell.usd_of_ledger_month.expect("known");
    assert!((of(&reserved) - 16.0 * rate * 730.0).abs() < 1e-6);
    assert!((of(&way(row, "on-demand")) - 10.0 * listed * 730.0).abs() < 1e-6);
    assert_eq!(
        way(row, "owned").usd_per_device_hour,
        machine.usd_per_device_hour(8)
    );
    assert!(row.owned_pays_above_ratio.is_some());
    let printed = text(&all, facts.now, None);
    assert!(
        printed.contains("H100 (gpu)") && printed.contains("owned costs less"),
        "{printed}"
    );
}

#[test]
fn a_month_of_the_ledger_is_its_mean_over_what_was_observed_and_its_busiest_hour() {
    let row = |hour: i64, class: &str, busy: i64, idle: i64| {
        let hours = |count: i64| count * 3_600_000;
        HourRow {
            hour,
            closed: true,
            key: UsageKey {
                class: Name::new(class),
                ..UsageKey::default()
            },
            totals: UsageTotals {
                busy_ms: hours(busy),
                idle_ms: hours(idle),
                unallocated_ms: hours(8),
                ..UsageTotals::default()
            },
        }
    };
    let span = Span { from: 100, to: 104 };
    let rows = [
        row(100, "H100", 4, 0),
        row(100, "H100", 2, 2),
        row(101, "H100", 2, 0),
        row(101, "L4", 0, 0),
    ];
    let all = months(&rows, span, 0.5);
    let cell = all[&Name::new("H100")];
    assert_eq!(
        (cell.device_hours, cell.peak_devices, cell.mean_devices),
        (10.0, 8.0, 5.0)
    );
    assert!(!all.contains_key("L4"), "nothing of it was held");
    assert!(months(&rows, span, 0.0).is_empty(), "nothing was observed");
}

#[test]
fn a_class_without_nodes_is_listed_if_a_job_waits_for_it() {
    let mut facts = facts();
    let catalog = Catalog::embedded();
    let prices = Prices::new(model::cost::PriceBook::embedded(), &catalog);
    let fleet = Arc::make_mut(&mut facts.fleet);
    fleet.policy = Arc::new(Policy {
        catalog,
        ..(*fleet.policy).clone()
    });
    let mut job = model::fleet::job::Job::unknown(model::fleet::job::JobKey {
        kind: Name::new("Job"),
        key: model::base::ObjectKey::new("nlp", "later"),
    });
    job.class = Some(Name::new("B200"));
    job.devices_requested = 16;
    fleet.jobs = Arc::from([Arc::new(job)]);
    let all = rows(&facts, &prices, &TcoInputs::default(), &BTreeMap::new());
    let row = all.iter().find(|row| row.class == "B200").expect("waits");
    assert_eq!((row.devices, row.devices_waiting), (0, 16));
    let on_demand = row.ways.iter().find(|way| way.way == "on-demand");
    assert!(
        on_demand.is_some_and(|way| way.usd_per_device_hour.is_some()),
        "{row:?}"
    );
}
