//! Moments and ages in whole milliseconds. Never reads a clock: moments come in from outside.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Milliseconds of an hour.
pub const HOUR_MS: i64 = 3_600_000;

/// A point in time, in milliseconds since the Unix epoch (UTC). May be negative.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Moment(i64);

crate::written_as!(
    Moment,
    schemars::json_schema!({
        "type": "string",
        "format": "date-time",
        "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}(\\.[0-9]+)?Z$",
    })
);

impl Moment {
    /// The moment `millis` milliseconds after the Unix epoch.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// The moment `seconds` seconds after the Unix epoch.
    pub const fn from_seconds(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1000))
    }

    /// Milliseconds since the Unix epoch.
    pub const fn millis(self) -> i64 {
        self.0
    }

    /// Parses RFC 3339; `None` when the text is not such a moment.
    pub fn parse(text: &str) -> Option<Self> {
        text.parse::<jiff::Timestamp>()
            .ok()
            .map(|stamp| Self(stamp.as_millisecond()))
    }

    /// How long ago `earlier` was; zero when it lies in the future.
    pub fn since(self, earlier: Self) -> Age {
        Age(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// This moment moved forward by `by`.
    pub fn plus(self, by: Duration) -> Self {
        Self(
            self.0
                .saturating_add(i64::try_from(by.as_millis()).unwrap_or(i64::MAX)),
        )
    }

    /// This moment moved back by `by`.
    pub fn minus(self, by: Duration) -> Self {
        Self(
            self.0
                .saturating_sub(i64::try_from(by.as_millis()).unwrap_or(i64::MAX)),
        )
    }

    /// RFC 3339 in UTC with whole seconds, as the Kubernetes API writes it.
    pub fn rfc3339(self) -> String {
        match jiff::Timestamp::from_second(self.0.div_euclid(1000)) {
            Ok(stamp) => stamp.to_string(),
            Err(_) => String::from("out-of-range"),
        }
    }

    /// `11-21 08:10:04` in UTC, for where the year is no question.
    pub fn short(self) -> String {
        let stamp = self.rfc3339();
        stamp.get(5..19).unwrap_or(&stamp).replace('T', " ")
    }

    /// The time of day in UTC, `HH:MM:SS`.
    pub fn clock(self) -> String {
        let second = self.0.div_euclid(1000).rem_euclid(86_400);
        format!(
            "{:02}:{:02}:{:02}",
            second / 3600,
            second / 60 % 60,
            second % 60
        )
    }
}

impl fmt::Debug for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.rfc3339())
    }
}

/// A span of time that is never negative, in milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Age(u64);

impl Age {
    /// An age of `seconds` seconds.
    pub const fn from_seconds(seconds: u64) -> Self {
        Self(seconds.saturating_mul(1000))
    }

    /// An age of `millis` milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    pub const fn millis(self) -> u64 {
        self.0
    }

    /// Whole seconds, rounded down.
    pub const fn seconds(self) -> u64 {
        self.0 / 1000
    }
}

impl From<Duration> for Age {
    fn from(span: Duration) -> Self {
        Self(u64::try_from(span.as_millis()).unwrap_or(u64::MAX))
    }
}

/// Two units at most, as an operator says it: `41s`, `12m`, `3h12m`, `2d04h`.
impl fmt::Display for Age {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = self.seconds();
        let text = match s {
            0..=59 => format!("{s}s"),
            60..=3599 => format!("{}m", s / 60),
            3600..=86_399 => format!("{}h{:02}m", s / 3600, s / 60 % 60),
            _ => format!("{}d{:02}h", s / 86_400, s / 3600 % 24),
        };
        f.pad(&text)
    }
}

/// Parses `90s`, `5m`, `2h`, `3d`, `1h30m` or a plain number of seconds.
pub fn parse_span(text: &str) -> Option<Duration> {
    if let Ok(seconds) = text.parse::<u64>() {
        return Some(Duration::from_secs(seconds));
    }
    let (mut total, mut number) = (0u64, None::<u64>);
    for c in text.chars() {
        if let Some(digit) = c.to_digit(10) {
            number = Some(
                number
                    .unwrap_or(0)
                    .checked_mul(10)?
                    .checked_add(u64::from(digit))?,
            );
            continue;
        }
        let unit = match c {
            's' => 1,
            'm' => 60,
            'h' => 3600,
            'd' => 86_400,
            _ => return None,
        };
        total = total.checked_add(number.take()?.checked_mul(unit)?)?;
    }
    (number.is_none() && !text.is_empty()).then(|| Duration::from_secs(total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_print_two_units() {
        for (seconds, text) in [
            (0, "0s"),
            (59, "59s"),
            (60, "1m"),
            (11_520, "3h12m"),
            (187_200, "2d04h"),
        ] {
            assert_eq!(Age::from_seconds(seconds).to_string(), text);
        }
    }

    #[test]
    fn moments_round_trip_and_never_go_negative() {
        let at = Moment::parse("2026-11-21T06:40:00Z").expect("valid");
        assert_eq!(at.rfc3339(), "2026-11-21T06:40:00Z");
        assert_eq!(Moment::from_seconds(5).since(at), Age::default());
        assert!(Moment::parse("yesterday").is_none());
        assert_eq!(at.clock(), "06:40:00");
    }

    #[test]
    fn spans_parse_or_are_refused() {
        assert_eq!(parse_span("1h30m"), Some(Duration::from_secs(5400)));
        assert_eq!(parse_span("45"), Some(Duration::from_secs(45)));
        for bad in ["", "5x", "m", "1h30", "99999999999999999999d"] {
            assert_eq!(parse_span(bad), None, "{bad}");
        }
    }
}
