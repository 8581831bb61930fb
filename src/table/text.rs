//! Values as cells of a printed table: numbers with their unit, `-` for unknown, plain ASCII.

use model::base::{Age, Rate};
use model::fleet::job::Serving;
use model::fleet::signal::Signal;

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

/// Seconds as `0.12s`, `2.5s`, `41s`.
pub fn seconds(value: Option<f64>) -> String {
    or_unknown(value.map(|value| match value {
        value if value < 1.0 => format!("{value:.2}s"),
        value if value < 10.0 => format!("{value:.1}s"),
        value => format!("{value:.0}s"),
    }))
}

/// A count as `12`.
pub fn amount(value: Option<f64>) -> String {
    or_unknown(value.map(|value| format!("{value:.0}")))
}

/// What a job's pods say of their requests: `12 running, 3 waiting, cache 38%, first token 0.10s, answer 2.5s`.
pub fn serving(serving: &Serving) -> String {
    let get = |signal| serving.signals.get(signal);
    let words = [
        get(Signal::RequestsRunning).map(|value| format!("{value:.0} running")),
        get(Signal::RequestsWaiting).map(|value| format!("{value:.0} waiting")),
        get(Signal::KvCache).map(|value| format!("cache {}", percent(Some(value)))),
        get(Signal::Ttft).map(|value| format!("first token {}", seconds(Some(value)))),
        get(Signal::E2e).map(|value| format!("answer {}", seconds(Some(value)))),
    ];
    let words: Vec<String> = words.into_iter().flatten().collect();
    if words.is_empty() {
        "requests, of which nothing is known".to_owned()
    } else {
        words.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_says_what_it_knows_and_no_more() {
        let mut served = Serving::default();
        assert_eq!(serving(&served), "requests, of which nothing is known");
        served.signals = [(Signal::RequestsRunning, 12.0), (Signal::Ttft, 0.104)]
            .into_iter()
            .collect();
        assert_eq!(serving(&served), "12 running, first token 0.10s");
        assert_eq!(seconds(Some(41.4)), "41s");
        assert_eq!((seconds(None), amount(Some(3.0))), ("-".into(), "3".into()));
    }
}
