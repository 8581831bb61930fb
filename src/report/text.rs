//! Values as cells of a printed table: numbers with their unit, `-` for unknown, plain ASCII.

use crate::base::{Age, Rate};

/// The cell of a value that is not known.
pub const UNKNOWN: &str = "-";

/// A value, or `-`.
pub fn or_unknown<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| UNKNOWN.to_owned(), |value| value.to_string())
}

/// A share as `63%`.
pub fn percent(ratio: Option<f64>) -> String {
    or_unknown(ratio.map(|ratio| format!("{:.0}%", ratio * 100.0)))
}

/// `66C`.
pub fn celsius(value: Option<f64>) -> String {
    or_unknown(value.map(|value| format!("{value:.0}C")))
}

/// `612W`, `61.2kW`, `1.20MW`.
pub fn watts(value: Option<f64>) -> String {
    or_unknown(value.map(|value| match value {
        value if value.abs() < 10_000.0 => format!("{value:.0}W"),
        value if value.abs() < 1e6 => format!("{:.1}kW", value / 1e3),
        value => format!("{:.2}MW", value / 1e6),
    }))
}

/// `$4.10`, `$9042`: cents below 10 dollars. Not grouped, so that a column stays one word.
pub fn usd(value: Option<f64>) -> String {
    or_unknown(value.map(|value| {
        let rate = Rate::from_usd(value).unwrap_or_default();
        if rate == Rate::ZERO {
            "$0".to_owned()
        } else if value < 10.0 {
            format!("${value:.2}")
        } else {
            format!("${value:.0}")
        }
    }))
}

/// `3h12m`.
pub fn age(seconds: Option<u64>) -> String {
    or_unknown(seconds.map(Age::from_seconds))
}

/// A text, or `-` when there is none.
pub fn word(text: Option<&str>) -> String {
    or_unknown(text.filter(|text| !text.is_empty()))
}
