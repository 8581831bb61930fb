//! Unit costs: per device-hour and per finished job, spot savings, and energy with its cost and carbon.

use serde_json::{Map, Value, json};

use model::base::quantities::grouped;
use usage::{CostPart, EnergyRates, UsageTotals};

use super::{Rounded, decimal, device_hours, dollars, shares, usd};

/// CSV columns of unit costs, appended to the others.
pub(super) const FIELDS: [&str; 6] = [
    "finished_jobs",
    "usd_per_finished_job",
    "spot_saved_usd",
    "spot_unknown_device_hours",
    "energy_usd",
    "kg_co2e",
];

/// The cells of [`FIELDS`]; empty where unknown.
pub(super) fn csv(totals: &UsageTotals, energy: EnergyRates) -> [String; 6] {
    let number = |value: Option<f64>| value.map(|value| format!("{value:.6}")).unwrap_or_default();
    [
        totals
            .finished
            .map(|jobs| jobs.to_string())
            .unwrap_or_default(),
        number(totals.usd_per_finished_job()),
        totals.spot_saved_micros.map(decimal).unwrap_or_default(),
        format!("{:.6}", device_hours(totals.spot_unlisted_ms())),
        number(energy.usd(totals.energy_mwh)),
        number(energy.kg_co2e(totals.energy_mwh)),
    ]
}

/// The same values as fields of a JSON object; `null` where unknown.
pub(super) fn json(totals: &UsageTotals, energy: EnergyRates, into: &mut Map<String, Value>) {
    let values = [
        json!(totals.finished),
        json!(totals.usd_per_finished_job()),
        json!(totals.spot_saved_micros.map(usd)),
        json!(device_hours(totals.spot_unlisted_ms())),
        json!(energy.usd(totals.energy_mwh)),
        json!(energy.kg_co2e(totals.energy_mwh)),
    ];
    into.extend(FIELDS.map(str::to_owned).into_iter().zip(values));
}

/// Energy rates as JSON; `null` where not set.
pub(super) fn rates_json(energy: EnergyRates) -> Value {
    json!({
        "usd_per_kwh": energy.usd_per_kwh,
        "pue": energy.pue,
        "kg_co2e_per_kwh": energy.kg_co2e_per_kwh,
    })
}

/// An energy in mWh as text: `310 Wh`, `412.5 kWh`, `12 400 kWh`.
pub(super) fn kwh(mwh: i64) -> String {
    let kwh = mwh as f64 / 1e6;
    match kwh {
        ..1.0 => format!("{:.0} Wh", kwh * 1_000.0),
        ..1_000.0 => format!("{kwh:.1} kWh"),
        _ => format!("{} kWh", grouped(kwh.round() as i64)),
    }
}

/// Carbon in kg as text: `481.2`, `0.042`.
pub(super) fn kg(kg: f64) -> String {
    match kg < 1.0 {
        true => format!("{kg:.3}"),
        false => format!("{kg:.1}"),
    }
}

/// USD as `$1 204`, `$4.50`.
pub(super) fn money(usd: f64) -> String {
    dollars((usd * 1e6).round() as i64)
}

/// Where each dollar went, in words: `useful $7 086 625 (73.6 %) · idle $250 343 (2.6 %)`; both add up. `None` where nothing was spent.
pub fn part_words(totals: &UsageTotals) -> Option<String> {
    let parts = totals.parts_micros?;
    let mut rounded = Rounded::to(parts.iter().sum());
    let all = CostPart::ALL.iter().zip(parts).zip(shares(&parts)?);
    let words = all.filter(|((_, micros), _)| *micros > 0);
    let words = words.map(|((part, micros), tenths)| {
        let (dollars, percent) = (
            rounded.next(micros),
            format!("{}.{}", tenths / 10, tenths % 10),
        );
        format!("{} {dollars} ({percent} %)", part.words())
    });
    Some(words.collect::<Vec<_>>().join(" · "))
}

/// Energy metered over at least this share of device time counts as complete, 0 to 1.
const METERED: f64 = 0.99;

/// Unit costs in words, one figure each; unknown ones are left out, with the reason where an operator can act on it.
pub fn unit_words(totals: &UsageTotals, energy: EnergyRates) -> Vec<String> {
    let mut words = Vec::new();
    let rates = [
        (totals.usd_per_allocated_hour(), "allocated"),
        (totals.usd_per_busy_hour(), "busy"),
    ];
    for (rate, what) in rates {
        if let Some(rate) = rate {
            words.push(format!("${rate:.2} per {what} device-hour"));
        }
    }
    match (totals.finished, totals.usd_per_finished_job()) {
        (Some(1), Some(cost)) => words.push(format!("{} for the finished job", money(cost))),
        (Some(jobs), Some(cost)) => {
            words.push(format!("{} per finished job ({jobs})", money(cost)))
        }
        (Some(0), _) => words.push("no job finished".to_owned()),
        (Some(jobs), None) => words.push(format!("{jobs} jobs finished")),
        (None, _) => {}
    }
    if let Some(saved) = totals.spot_saved_micros {
        let saved = usd(saved);
        words.push(match saved < 0.0 {
            false => format!("spot saved {}", money(saved)),
            true => format!("spot cost {} more than on demand", money(-saved)),
        });
    }
    if totals.spot_unlisted_ms() > 0 {
        let hours = device_hours(totals.spot_unlisted_ms());
        let hours = match hours < 100.0 {
            true => format!("{hours:.1}"),
            false => grouped(hours.round() as i64),
        };
        words.push(format!(
            "for {hours} spot device-hours the spot or on-demand price is unknown"
        ));
    }
    if let Some(mwh) = totals.energy_mwh {
        let mut words_of_energy = kwh(mwh);
        if let Some(share) = totals.metered_ratio().filter(|share| *share < METERED) {
            words_of_energy.push_str(&match share * 100.0 {
                percent if percent < 0.1 => {
                    String::from(" (less than 0.1 % of device time metered)")
                }
                percent => format!(" ({percent:.1} % of device time metered)"),
            });
        }
        if let Some(cost) = energy.usd(Some(mwh)) {
            words_of_energy.push_str(&format!(", {}", money(cost)));
        }
        if let Some(carbon) = energy.kg_co2e(Some(mwh)) {
            words_of_energy.push_str(&format!(", {} kg CO2e", kg(carbon)));
        }
        if energy.usd_per_kwh.is_some() || energy.kg_co2e_per_kwh.is_some() {
            words_of_energy.push_str(&match energy.pue {
                Some(pue) => format!(" (PUE {pue})"),
                None => " (without a PUE)".to_owned(),
            });
        }
        words.push(words_of_energy);
    }
    words
}
