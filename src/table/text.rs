//! Values as cells of a printed table: numbers with their unit, `-` for unknown, plain ASCII.

use model::base::quantities::counted;
use model::base::{Age, Moment, Rate};
use model::fleet::job::Serving;
use model::fleet::signal::Signal;
use model::plan::{CONTESTED, Displaced, Forecast, Plan, StartChange};

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

/// Beyond so many milliseconds a moment to come is told as a span, not as a time of day.
const DAY: i64 = 20 * 3_600_000;

/// `14:40` in UTC.
pub fn hour(at: Moment) -> String {
    let clock = at.clock();
    clock.get(..5).unwrap_or(&clock).to_owned()
}

/// `Sun`, in UTC.
fn weekday(at: Moment) -> &'static str {
    // The first of January 1970 was a Thursday.
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    DAYS[at.millis().div_euclid(86_400_000).rem_euclid(7) as usize]
}

/// What is said where nobody knows when something starts.
pub const NO_ETA: &str = "no ETA";

/// When something is estimated to start, with its 80 % interval: `~21:40 (20:55–23:10)` in UTC, `~in 2d04h (1d20h–3d01h)` where
/// that is far. `now` for what is due; `no ETA` where nobody knows.
pub fn eta(now: Moment, [p10, p50, p90]: [Option<Moment>; 3]) -> String {
    let Some(middle) = p50 else {
        return NO_ETA.to_owned();
    };
    if middle <= now {
        return "now".to_owned();
    }
    // All of it is written in one way: moments, or how long from now.
    let ends_far = p90.is_some_and(|at| at.millis() - now.millis() > 6 * DAY);
    let far = ends_far || middle.millis() - now.millis() > DAY;
    let short = |at: Moment| match far {
        true => at.since(now).to_string(),
        false => hour(at),
    };
    // More than a day ahead, a time of day alone is ambiguous.
    let end = |at: Moment| match at.millis() - now.millis() {
        ahead if far || ahead <= DAY => short(at),
        _ => format!("{} {}", weekday(at), hour(at)),
    };
    let about = match far {
        true => format!("~in {}", short(middle)),
        false => format!("~{}", short(middle)),
    };
    let range = match (p10.map(end), p90.map(end)) {
        (Some(first), Some(last)) if first == last => None,
        (Some(first), Some(last)) => Some(format!("{first}–{last}")),
        (Some(first), None) => Some(format!("from {first}")),
        (None, Some(last)) => Some(format!("until {last}")),
        (None, None) => None,
    };
    match range {
        Some(range) => format!("{about} ({range})"),
        None => about,
    }
}

/// A sentence in which moments are written as a screen writes them: `wait until 13:06` for `wait until 2026-11-23T13:06:49Z`, with
/// the day where that is far.
pub fn with_hours(words: &str, now: Moment) -> String {
    const LENGTH: usize = "2026-11-23T13:06:49Z".len();
    let mut out = String::with_capacity(words.len());
    let mut rest = words;
    while let Some(first) = rest.chars().next() {
        let at = rest.get(..LENGTH).filter(|_| first.is_ascii_digit());
        let at = at.filter(|stamp| stamp.as_bytes()[10] == b'T' && stamp.ends_with('Z'));
        match at.and_then(|stamp| Some((Moment::parse(stamp)?, stamp))) {
            Some((at, stamp)) => {
                if (at.millis() - now.millis()).abs() > DAY {
                    out.push_str(&stamp[..10]);
                    out.push(' ');
                }
                out.push_str(&hour(at));
                rest = &rest[LENGTH..];
            }
            None => {
                out.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    out
}

/// When something starts by a forecast: `~21:40`, `now`, `no ETA`.
fn start(now: Moment, at: Option<Moment>) -> String {
    match at {
        Some(_) => eta(now, [None, at, None]),
        None => NO_ETA.to_owned(),
    }
}

/// When a job starts whose start a plan moves, and when it would have; `None` where both read the same or lie within a minute.
pub fn start_change(now: Moment, plan: &Plan, change: &StartChange) -> Option<String> {
    let (after, before) = start_moves(now, change)?;
    let devices = counted(u64::from(change.devices), "device");
    let job = &change.job;
    if plan.adds_replicas(job) {
        return Some(match change.after {
            Some(_) => format!("new replicas of {job} ({devices}) start {after}"),
            None => format!("new replicas of {job} ({devices}) wait: {NO_ETA}"),
        });
    }
    Some(match (change.after, change.before) {
        (None, _) => format!("{job} ({devices}) then has {NO_ETA}, was {before}"),
        (_, None) => format!("{job} ({devices}) starts {after}, had {NO_ETA}"),
        _ => format!("{job} ({devices}) starts {after} instead of {before}"),
    })
}

/// The two moments of a start that moves.
pub fn start_moves(now: Moment, change: &StartChange) -> Option<(String, String)> {
    if !change.is_notable() {
        return None;
    }
    let (after, before) = (start(now, change.after), start(now, change.before));
    (after != before).then_some((after, before))
}

/// When a job runs again that a plan takes off its devices: `back ~21:40`, `starts again at once, or waits: …`, `then waits: no ETA`.
pub fn back(now: Moment, forecast: &Forecast, one: &Displaced) -> String {
    match one.back {
        Some(_) => format!("back {}", start(now, one.back)),
        None if forecast.is_contested(&one.job) => CONTESTED.to_owned(),
        None => format!("then waits: {NO_ETA}"),
    }
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

/// A latency as `30ms`, `2.5s`, `41s`.
pub fn latency(seconds: Option<f64>) -> String {
    or_unknown(seconds.map(|value| match value {
        value if value < 0.01 => format!("{:.1}ms", value * 1000.0),
        value if value < 1.0 => format!("{:.0}ms", value * 1000.0),
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
    fn a_start_is_told_with_its_interval() {
        let now = Moment::parse("2026-11-21T20:00:00Z").expect("a moment");
        let at = |minutes: i64| Some(Moment::from_millis(now.millis() + minutes * 60_000));
        let told = |p10, p50, p90| eta(now, [p10, p50, p90]);
        assert_eq!(told(at(55), at(100), at(190)), "~21:40 (20:55–23:10)");
        assert_eq!(told(at(100), at(100), at(100)), "~21:40");
        assert_eq!(told(at(55), at(100), None), "~21:40 (from 20:55)");
        assert_eq!(told(at(55), at(100), at(1_500)), "~21:40 (20:55–Sun 21:00)");
        // Seven days and an hour on it is the same day of the week: how long, for all of it.
        assert_eq!(told(at(55), at(100), at(10_140)), "~in 1h40m (55m–7d01h)");
        assert_eq!(
            told(at(2_640), at(3_120), at(4_380)),
            "~in 2d04h (1d20h–3d01h)"
        );
        assert_eq!(told(at(0), at(0), at(9)), "now");
        assert_eq!(told(at(9), None, None), "no ETA");
    }

    #[test]
    fn moments_in_a_sentence_are_times_of_day() {
        let now = Moment::parse("2026-11-23T11:44:00Z").expect("a moment");
        let told = |words| with_hours(words, now);
        assert_eq!(
            told("or wait until 2026-11-23T13:06:49Z"),
            "or wait until 13:06"
        );
        assert_eq!(
            told("2026-11-23T12:14:32Z–2026-11-25T01:02:03Z, h100-2"),
            "12:14–2026-11-25 01:02, h100-2"
        );
        for words in ["job 20261-1123T12", "2026-11-23", "größer 5 §", ""] {
            assert_eq!(told(words), words);
        }
    }

    #[test]
    fn a_start_that_stays_is_not_told() {
        let now = Moment::parse("2026-11-23T11:44:00Z").expect("a moment");
        let at = |seconds: u64| Some(now.plus(std::time::Duration::from_secs(seconds)));
        let told = |before, after| {
            let job = model::plan::JobName(model::base::ObjectKey::new("a", "b"));
            let change = StartChange {
                job,
                devices: 8,
                before,
                after,
            };
            start_moves(now, &change)
        };
        let words = |after: &str, before: &str| Some((after.to_owned(), before.to_owned()));
        assert_eq!(told(at(3_600), at(1_440)), words("~12:08", "~12:44"));
        assert_eq!(told(None, at(0)), words("now", NO_ETA));
        assert_eq!(told(at(1_440), at(1_470)), None, "half a minute");
        assert_eq!(told(at(200_000), at(200_090)), None, "both read the same");
        assert_eq!(told(None, None), None);
    }

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
