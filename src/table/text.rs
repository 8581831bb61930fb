//! Values as cells of a printed table: numbers with their unit, `-` for unknown, plain ASCII.

pub use model::base::quantities::bounded_latency;
use model::base::quantities::counted;
use model::base::{Age, Moment, Rate};
use model::fleet::job::Serving;
use model::fleet::signal::Signal;
use model::plan::{CONTESTED, Displaced, Forecast, Plan, StartChange};

/// The cell of an unknown value.
pub const UNKNOWN: &str = "-";

/// A value, or `-`.
pub fn or_unknown<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| UNKNOWN.to_owned(), |value| value.to_string())
}

/// A share as `63%`.
pub fn percent(ratio: Option<f64>) -> String {
    or_unknown(ratio.map(whole_percent))
}

/// A share as whole per cent; 99.6 % is not 100 %, and 0.2 % is not 0 %.
pub fn whole_percent(ratio: f64) -> String {
    let whole = ratio * 100.0;
    let rounded = whole.round();
    if rounded <= 0.0 && whole > 0.0 {
        return String::from("<1%");
    }
    let honest = if rounded >= 100.0 && whole < 100.0 {
        99.0
    } else {
        rounded
    };
    format!("{honest:.0}%")
}

/// Whole degrees Celsius: `66C`; unknown as a dash.
pub fn celsius(value: Option<f64>) -> String {
    or_unknown(value.map(|value| format!("{value:.0}C")))
}

/// Watts in a fitting unit: `612W`, `61.2kW`, `1.20MW`.
pub fn watts(value: Option<f64>) -> String {
    or_unknown(value.map(|value| match value {
        value if value.abs() < 10_000.0 => format!("{value:.0}W"),
        value if value.abs() < 1e6 => format!("{:.1}kW", value / 1e3),
        value => format!("{:.2}MW", value / 1e6),
    }))
}

/// Kilowatts without the unit, which is in the title: `15.3`.
pub fn kilowatts(watts: f64) -> String {
    format!("{:.1}", watts / 1000.0)
}

/// `$4.10`, `$9042`: cents below 10 dollars. No thousands separator, so that a cell stays one word.
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

/// A duration, written as `3h12m`.
pub fn age(seconds: Option<u64>) -> String {
    or_unknown(seconds.map(Age::from_seconds))
}

/// A future moment more than this many milliseconds ahead is written as a duration, not as a time of day.
const DAY: i64 = 20 * 3_600_000;

/// Hour and minute in UTC, `14:40`.
pub fn hour(at: Moment) -> String {
    let clock = at.clock();
    clock.get(..5).unwrap_or(&clock).to_owned()
}

/// Days since 1970-01-01, UTC.
fn day(at: Moment) -> i64 {
    at.millis().div_euclid(86_400_000)
}

/// The day of the week in UTC: `Sun`.
fn weekday(at: Moment) -> &'static str {
    // 1970-01-01 was a Thursday.
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    DAYS[day(at).rem_euclid(7) as usize]
}

/// Seconds of a week.
const WEEK: u64 = 7 * 86_400;

/// Printed where a start cannot be estimated.
pub const NO_ETA: &str = "no ETA";

/// An estimated start with its 80 % interval: `~21:40 (21:10–22:40)` in UTC, `in ~2d04h (1d20h–3d01h)` when it is far off,
/// `now` when due; `no ETA` when unknown. An interval that is wider than the wait until its middle gives no time for the middle:
/// `not before 20:55, likely by 02:10`, `not within 8h, likely within 4 weeks`.
pub fn eta(now: Moment, [p10, p50, p90]: [Option<Moment>; 3]) -> String {
    let about = eta_alone(now, [p10, p50, p90]);
    let scale = EtaScale::of(now, [p10, p50, p90]);
    if p50.is_none_or(|middle| middle <= now) {
        return about;
    }
    // Far ahead on another day, a time of day alone is ambiguous.
    let end = |at: Moment| match at.millis() - now.millis() {
        // The start may have been due before now; it did not come.
        ahead if ahead <= 0 => String::from("now"),
        ahead if scale.far || ahead <= DAY || day(at) == day(now) => scale.short(now, at),
        _ => format!("{} {}", weekday(at), hour(at)),
    };
    if scale.wide {
        let (before, by) = match scale.far {
            true => ("not within", "likely within"),
            false => ("not before", "likely by"),
        };
        let first = p10.filter(|at| *at > now);
        let first = first.map(|at| format!("{before} {}", end(at)));
        let last = p90.map(|at| format!("{by} {}", end(at)));
        let parts: Vec<String> = first.into_iter().chain(last).collect();
        return parts.join(", ");
    }
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

/// The estimate without its interval: `~21:40`, `in ~2d04h`; of a wide interval the begin: `after 20:55`, `in >8h`. Rounded as
/// the interval would be.
pub fn eta_alone(now: Moment, [p10, p50, p90]: [Option<Moment>; 3]) -> String {
    let Some(middle) = p50 else {
        return NO_ETA.to_owned();
    };
    if middle <= now {
        return "now".to_owned();
    }
    let scale = EtaScale::of(now, [p10, p50, p90]);
    let first = p10.filter(|at| *at > now);
    match (scale.wide, first, scale.far) {
        (true, Some(first), true) => format!("in >{}", scale.short(now, first)),
        (true, Some(first), false) => format!("after {}", scale.short(now, first)),
        (true, None, true) => format!("in <{}", scale.short(now, p90.unwrap_or(middle))),
        (true, None, false) => format!("by {}", scale.short(now, p90.unwrap_or(middle))),
        (false, _, true) => format!("in ~{}", scale.short(now, middle)),
        (false, _, false) => format!("~{}", scale.short(now, middle)),
    }
}

/// The common format of an estimated start and of both ends of its interval.
struct EtaScale {
    /// Written as durations from now, not as times of day.
    far: bool,
    /// Width of the interval.
    width: Option<Age>,
    /// The interval is wider than the time until its middle, which is no estimate then.
    wide: bool,
}

impl EtaScale {
    fn of(now: Moment, [p10, p50, p90]: [Option<Moment>; 3]) -> Self {
        let ends_far = p90.is_some_and(|at| at.millis() - now.millis() > 6 * DAY);
        let is_far = p50.is_some_and(|at| at.millis() - now.millis() > DAY);
        let width = p10.zip(p90).map(|(p10, p90)| p90.since(p10));
        let ahead = p50.map(|at| at.since(now));
        Self {
            far: ends_far || is_far,
            width,
            wide: width.zip(ahead).is_some_and(|(width, ahead)| width > ahead),
        }
    }

    fn short(&self, now: Moment, at: Moment) -> String {
        if !self.far {
            return estimated_hour(now, at, self.width);
        }
        let ahead = at.since(now);
        // So far off, days are no estimate.
        let weeks = (ahead.seconds() + WEEK / 2) / WEEK;
        if ahead.seconds() >= 2 * WEEK {
            return counted(weeks, "week");
        }
        let millis = nearest(ahead.millis().cast_signed(), rounding(self.width, ahead));
        whole_units(Age::from_millis(millis.unsigned_abs()))
    }
}

/// Rounding steps of an estimated start, in milliseconds: 1, 5 and 15 minutes, 1 and 6 hours, a day.
const ROUNDING: [i64; 6] = [60_000, 300_000, 900_000, 3_600_000, 21_600_000, DAY];

/// The rounding step of an estimate: at most a sixteenth of its interval, or without an interval a twelfth of the time until
/// then; and at most half of that time. Finer digits would change with every forecast.
fn rounding(width: Option<Age>, ahead: Age) -> i64 {
    let ahead = ahead.millis();
    let most = width.map_or(ahead / 12, |width| width.millis() / 16);
    let most = most.min(ahead / 2).cast_signed();
    let fits = ROUNDING.iter().rev().find(|step| **step <= most);
    fits.copied().unwrap_or(ROUNDING[0])
}

/// An estimate's time of day, rounded.
fn estimated_hour(now: Moment, at: Moment, width: Option<Age>) -> String {
    match rounding(width, at.since(now)) {
        // At one-minute steps, print the time of day as it is.
        step if step == ROUNDING[0] => hour(at),
        step => hour(Moment::from_millis(nearest(at.millis(), step))),
    }
}

/// `1d` for `1d00h`, `5h` for `5h00m`.
fn whole_units(age: Age) -> String {
    let text = age.to_string();
    match text.strip_suffix("00h").or(text.strip_suffix("00m")) {
        Some(whole) => whole.to_owned(),
        None => text,
    }
}

const fn nearest(millis: i64, step: i64) -> i64 {
    (millis + step / 2).div_euclid(step) * step
}

/// Replaces RFC 3339 timestamps in a sentence by short times: `wait until 13:06` for `wait until 2026-11-23T13:06:49Z`, with
/// the day where that is far. A time after `about` is an estimate and is rounded as in [`eta`].
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
                match out.ends_with("about ") {
                    true => out.push_str(&estimated_hour(now, at, None)),
                    false => out.push_str(&hour(at)),
                }
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

/// A forecast start: `~21:40`, `now`, `no ETA`.
fn start(now: Moment, at: Option<Moment>) -> String {
    match at {
        Some(_) => eta(now, [None, at, None]),
        None => NO_ETA.to_owned(),
    }
}

/// The sentence for a job's start that a plan moves; `None` where both times read the same or are within a minute.
pub fn start_change(now: Moment, plan: &Plan, change: &StartChange) -> Option<String> {
    let (mut after, before) = start_moves(now, change)?;
    // A job that the plan itself suspends starts no earlier than the step that resumes it.
    let is_due = change.after.is_some_and(|at| at <= now);
    if let Some(step) = plan.goes_on_at(&change.job).filter(|_| is_due) {
        after = format!("after step {step}");
    }
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

/// Both times of a start that moves.
pub fn start_moves(now: Moment, change: &StartChange) -> Option<(String, String)> {
    if !change.is_notable() {
        return None;
    }
    let (after, before) = (start(now, change.after), start(now, change.before));
    (after != before).then_some((after, before))
}

/// When a job displaced by a plan runs again: `back ~21:40 (20:55–23:10)`, `starts again at once unless …`, `then waits: no ETA`.
pub fn back(now: Moment, forecast: &Forecast, one: &Displaced) -> String {
    match one.back {
        Some(_) => format!("back {}", eta(now, [one.back_p10, one.back, one.back_p90])),
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

/// A number of any size: `0.42`, `12.5`, `230`.
pub fn decimal(number: f64) -> String {
    match number.abs() {
        size if size < 10.0 => format!("{number:.2}"),
        size if size < 100.0 => format!("{number:.1}"),
        _ => format!("{number:.0}"),
    }
}

/// Request metrics of a job's pods, with what they are of: `12 running, 3 waiting, cache 38% mean; mean of requests since the
/// reading before: first token 0.10s, answer 2.5s`.
pub fn serving(serving: &Serving) -> String {
    let get = |signal| serving.signals.get(signal);
    let joined = |words: &[Option<String>]| {
        let known: Vec<&str> = words.iter().flatten().map(String::as_str).collect();
        known.join(", ")
    };
    let now = joined(&[
        get(Signal::RequestsRunning).map(|value| format!("{value:.0} running")),
        get(Signal::RequestsWaiting).map(|value| format!("{value:.0} waiting")),
        get(Signal::KvCache).map(|value| format!("cache {} mean", percent(Some(value)))),
    ]);
    let times = joined(&[
        get(Signal::Ttft).map(|value| format!("first token {}", bounded_latency(value, false))),
        get(Signal::E2e).map(|value| format!("answer {}", bounded_latency(value, false))),
    ]);
    // The first page of a server has the totals since its start.
    let is_first = serving
        .served
        .iter()
        .all(|one| one.window_seconds.is_none());
    let since = if is_first {
        "the start"
    } else {
        "the reading before"
    };
    match (now.is_empty(), times.is_empty()) {
        (true, true) => "serving requests, no request metrics".to_owned(),
        (false, true) => now,
        (true, false) => format!("mean of requests since {since}: {times}"),
        (false, false) => format!("{now}; mean of requests since {since}: {times}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearly_all_is_not_all() {
        assert_eq!(whole_percent(0.996), "99%");
        assert_eq!(whole_percent(1.0), "100%");
        assert_eq!(whole_percent(0.002), "<1%");
        assert_eq!(whole_percent(0.0), "0%");
    }

    #[test]
    fn a_start_is_printed_with_its_interval() {
        let now = Moment::parse("2026-11-21T20:00:00Z").expect("a moment");
        let at = |minutes: i64| Some(Moment::from_millis(now.millis() + minutes * 60_000));
        let shown = |p10, p50, p90| eta(now, [p10, p50, p90]);
        assert_eq!(shown(at(70), at(100), at(160)), "~21:40 (21:10–22:40)");
        assert_eq!(
            shown(at(55), at(100), at(190)),
            "not before 20:55, likely by 23:10"
        );
        assert_eq!(shown(at(100), at(100), at(100)), "~21:40");
        assert_eq!(shown(at(55), at(100), None), "~21:40 (from 20:55)");
        // The past is no part of an interval. One that begins now and ends at its middle is the widest that has a time for it.
        assert_eq!(shown(at(0), at(100), at(100)), "~21:40 (now–21:40)");
        assert_eq!(shown(at(-55), at(100), at(190)), "likely by 23:15");
        // With an interval of a day, minutes are rounded.
        assert_eq!(
            shown(at(55), at(103), at(1_500)),
            "not before 21:00, likely by Sun 21:00"
        );
        // Seven days and an hour later is the same day of the week, so all parts are durations.
        assert_eq!(
            shown(at(55), at(103), at(10_140)),
            "not within 1h, likely within 7d"
        );
        assert_eq!(
            shown(at(296), at(1_363), at(15_720)),
            "not within 5h, likely within 11d"
        );
        assert_eq!(shown(at(-5), at(103), at(210)), "likely by 23:30");
        assert_eq!(
            shown(at(2_640), at(3_120), at(4_380)),
            "in ~2d04h (1d20h–3d01h)"
        );
        assert_eq!(
            shown(at(480), at(3_600), at(36_000)),
            "not within 8h, likely within 4 weeks"
        );
        assert_eq!(shown(at(0), at(0), at(9)), "now");
        assert_eq!(shown(at(9), None, None), "no ETA");
        // Without its interval it is rounded the same way.
        for (ends, alone) in [
            ([at(55), at(103), at(1_500)], "after 21:00"),
            ([at(296), at(1_363), at(15_720)], "in >5h"),
            ([at(-5), at(103), at(210)], "by 23:30"),
        ] {
            assert_eq!(eta_alone(now, ends), alone);
        }
        for ends in [
            [at(2_640), at(3_120), at(4_380)],
            [at(100); 3],
            [at(0), at(0), at(9)],
            [at(9), None, None],
        ] {
            let (alone, whole) = (eta_alone(now, ends), eta(now, ends));
            assert_eq!(whole.split(" (").next(), Some(alone.as_str()));
        }
    }

    #[test]
    fn moments_in_a_sentence_are_times_of_day() {
        let now = Moment::parse("2026-11-23T11:44:00Z").expect("a moment");
        let shown = |words| with_hours(words, now);
        assert_eq!(
            shown("or wait until 2026-11-23T13:06:49Z"),
            "or wait until 13:06"
        );
        let back = Moment::parse("2026-11-23T13:08:49Z");
        assert_eq!(start(now, back), "~13:10");
        let words = "starts again about 2026-11-23T13:08:49Z";
        assert_eq!(
            shown(words),
            "starts again about 13:10",
            "as it reads elsewhere"
        );
        assert_eq!(
            shown("2026-11-23T12:14:32Z–2026-11-25T01:02:03Z, h100-2"),
            "12:14–2026-11-25 01:02, h100-2"
        );
        for words in ["job 20261-1123T12", "2026-11-23", "größer 5 §", ""] {
            assert_eq!(shown(words), words);
        }
    }

    #[test]
    fn an_unchanged_start_is_not_printed() {
        let now = Moment::parse("2026-11-23T11:44:00Z").expect("a moment");
        let at = |seconds: u64| Some(now.plus(std::time::Duration::from_secs(seconds)));
        let shown = |before, after| {
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
        assert_eq!(shown(at(3_600), at(1_440)), words("~12:08", "~12:45"));
        assert_eq!(shown(None, at(0)), words("now", NO_ETA));
        assert_eq!(shown(at(1_440), at(1_470)), None, "half a minute");
        assert_eq!(shown(at(200_000), at(200_090)), None, "both read the same");
        assert_eq!(shown(None, None), None);
    }

    #[test]
    fn a_server_says_what_it_knows_and_no_more() {
        let mut served = Serving::default();
        assert_eq!(serving(&served), "serving requests, no request metrics");
        served.signals = [(Signal::RequestsRunning, 12.0), (Signal::Ttft, 0.104)]
            .into_iter()
            .collect();
        assert_eq!(
            serving(&served),
            "12 running; mean of requests since the start: first token 104ms"
        );
        served.served = vec![model::fleet::served_model::ServedModel {
            window_seconds: Some(150.0),
            ..Default::default()
        }];
        assert_eq!(
            serving(&served),
            "12 running; mean of requests since the reading before: first token 104ms"
        );
        assert_eq!(seconds(None), UNKNOWN);
        assert_eq!(seconds(Some(41.4)), "41s");
    }
}
