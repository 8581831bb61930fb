//! Spans of the ledger: today, some days, calendar months, in a time zone and by whole hours of UTC.

use jiff::ToSpan;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use model::base::Moment;

use super::{hour_of, start_of};

/// A time zone with its name.
#[derive(Clone, PartialEq, Debug)]
pub struct CalendarZone {
    /// Its IANA name, `Europe/Berlin`.
    pub name: String,
    pub zone: TimeZone,
}

impl Default for CalendarZone {
    fn default() -> Self {
        Self {
            name: "UTC".to_owned(),
            zone: TimeZone::UTC,
        }
    }
}

impl CalendarZone {
    /// The start of an hour on its clocks: `2026-11-21 08:00`.
    pub fn stamp(&self, hour: i64) -> String {
        let stamp = jiff::Timestamp::from_millisecond(start_of(hour).millis());
        stamp.map_or_else(
            |_| String::new(),
            |stamp| {
                let at = stamp.to_zoned(self.zone.clone());
                format!("{} {:02}:{:02}", at.date(), at.hour(), at.minute())
            },
        )
    }
}

/// Hours from `from` up to and without `to`, since the Unix epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    pub from: i64,
    /// The first hour that is not in it.
    pub to: i64,
}

impl Span {
    pub const fn hours(self) -> i64 {
        self.to - self.from
    }
}

/// A span that ends now, or a calendar month.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Period {
    Today,
    /// The last 7 times 24 hours.
    Week,
    /// The last 30 times 24 hours.
    Days30,
    /// Since the first of the month.
    Month,
    /// The calendar month before this one.
    LastMonth,
}

impl Period {
    pub const ALL: [Self; 5] = [
        Self::Today,
        Self::Week,
        Self::Days30,
        Self::Month,
        Self::LastMonth,
    ];

    /// As on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Today => "today",
            Self::Week => "7d",
            Self::Days30 => "30d",
            Self::Month => "month",
            Self::LastMonth => "last-month",
        }
    }

    /// The period as of a moment, and the one before it: as long, of a day and a month the same part of the one before.
    pub fn spans(self, now: Moment, zone: &TimeZone) -> (Span, Span) {
        let to = hour_of(now) + 1;
        let back = |hours: i64| {
            let from = to - hours;
            (
                Span { from, to },
                Span {
                    from: from - hours,
                    to: from,
                },
            )
        };
        let since = |this: Span, before: Span| {
            let gone = to - this.from;
            (
                Span {
                    from: this.from,
                    to,
                },
                Span {
                    from: before.from,
                    to: before.to.min(before.from + gone),
                },
            )
        };
        let date = date_in(now, zone);
        match self {
            Self::Today => {
                let this = day_of(date, zone);
                // A day that begins within an hour of UTC begins with the next one.
                let (date, this) = match this.from < to {
                    true => (date, this),
                    false => (day_before(date), day_of(day_before(date), zone)),
                };
                since(this, day_of(day_before(date), zone))
            }
            Self::Week => back(7 * 24),
            Self::Days30 => back(30 * 24),
            Self::Month => {
                let this = month_of(date, zone);
                let (date, this) = match this.from < to {
                    true => (date, this),
                    false => (previous(date), month_of(previous(date), zone)),
                };
                since(this, month_of(previous(date), zone))
            }
            Self::LastMonth => {
                let last = previous(date);
                (month_of(last, zone), month_of(previous(last), zone))
            }
        }
    }
}

pub(super) fn date_in(at: Moment, zone: &TimeZone) -> Date {
    jiff::Timestamp::from_millisecond(at.millis())
        .map_or(Date::ZERO, |stamp| stamp.to_zoned(zone.clone()).date())
}

/// The hour at which a day begins in a time zone; where it does not begin at a whole hour of UTC, the next one.
pub(super) fn start_in(date: Date, zone: &TimeZone) -> i64 {
    let midnight = date.to_zoned(zone.clone());
    midnight.map_or(0, |midnight| {
        (midnight.timestamp().as_second() + 3_599).div_euclid(3_600)
    })
}

fn day_of(date: Date, zone: &TimeZone) -> Span {
    let next = date.checked_add(1.day()).unwrap_or(date);
    Span {
        from: start_in(date, zone),
        to: start_in(next, zone),
    }
}

fn day_before(date: Date) -> Date {
    date.checked_sub(1.day()).unwrap_or(date)
}

fn month_of(date: Date, zone: &TimeZone) -> Span {
    let first = date.first_of_month();
    let next = first.checked_add(1.month()).unwrap_or(first);
    Span {
        from: start_in(first, zone),
        to: start_in(next, zone),
    }
}

fn previous(date: Date) -> Date {
    let first = date.first_of_month();
    first.checked_sub(1.month()).unwrap_or(first)
}

/// A calendar month, `2026-10`.
pub fn month(text: &str, zone: &TimeZone) -> Option<Span> {
    let shape = text.len() == 7 && text.as_bytes()[4] == b'-';
    let date: Date = format!("{text}-01").parse().ok().filter(|_| shape)?;
    Some(month_of(date, zone))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::start_of;

    fn words(span: Span) -> String {
        let minute = |hour| start_of(hour).rfc3339()[..16].to_owned();
        format!("{} {}", minute(span.from), minute(span.to))
    }

    fn spans(period: Period, now: &str) -> (String, String) {
        let (this, before) = period.spans(Moment::parse(now).expect("valid"), &TimeZone::UTC);
        (words(this), words(before))
    }

    #[test]
    fn periods_end_with_the_hour_of_now_and_have_one_before() {
        let now = "2026-03-31T14:20:00Z";
        for (period, this, before) in [
            (
                Period::Today,
                "2026-03-31T00:00 2026-03-31T15:00",
                "2026-03-30T00:00 2026-03-30T15:00",
            ),
            (
                Period::Week,
                "2026-03-24T15:00 2026-03-31T15:00",
                "2026-03-17T15:00 2026-03-24T15:00",
            ),
            (
                Period::Days30,
                "2026-03-01T15:00 2026-03-31T15:00",
                "2026-01-30T15:00 2026-03-01T15:00",
            ),
            // February has no 31st: the whole month is compared.
            (
                Period::Month,
                "2026-03-01T00:00 2026-03-31T15:00",
                "2026-02-01T00:00 2026-03-01T00:00",
            ),
            (
                Period::LastMonth,
                "2026-02-01T00:00 2026-03-01T00:00",
                "2026-01-01T00:00 2026-02-01T00:00",
            ),
        ] {
            assert_eq!(
                spans(period, now),
                (this.to_owned(), before.to_owned()),
                "{period:?}"
            );
        }
    }

    #[test]
    fn months_are_those_of_the_calendar() {
        let month = |text| month(text, &TimeZone::UTC);
        assert_eq!(month("2024-02").map(Span::hours), Some(29 * 24));
        assert_eq!(
            month("2026-12").map(words).as_deref(),
            Some("2026-12-01T00:00 2027-01-01T00:00")
        );
        for bad in [
            "2026",
            "2026-13",
            "2026-1",
            "2026-1-",
            "10-2026",
            "2026-10-01",
            "",
        ] {
            assert_eq!(month(bad), None, "{bad}");
        }
    }

    /// Berlin, as its rules stand in a POSIX string: no database is needed.
    fn berlin() -> TimeZone {
        TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").expect("is a rule")
    }

    #[test]
    fn days_and_months_are_those_of_the_zone_over_changes_of_its_clocks() {
        let at = |text: &str| Moment::parse(text).expect("valid");
        let spans = |period: Period, now: &str| {
            let (this, before) = period.spans(at(now), &berlin());
            (words(this), words(before))
        };
        // March has an hour less, October one more.
        let hours = |text| month(text, &berlin()).map(Span::hours);
        assert_eq!(
            (hours("2026-03"), hours("2026-10")),
            (Some(31 * 24 - 1), Some(31 * 24 + 1))
        );
        assert_eq!(
            month("2026-10", &berlin()).map(words).as_deref(),
            Some("2026-09-30T22:00 2026-10-31T23:00")
        );
        // 00:30 of 1 March there; in UTC it is still February.
        assert_eq!(
            spans(Period::Month, "2026-02-28T23:30:00Z"),
            (
                "2026-02-28T23:00 2026-03-01T00:00".to_owned(),
                "2026-01-31T23:00 2026-02-01T00:00".to_owned(),
            )
        );
        // The day on which the clocks go forward begins at 23:00 and has 23 hours.
        assert_eq!(
            spans(Period::Today, "2026-03-29T21:30:00Z"),
            (
                "2026-03-28T23:00 2026-03-29T22:00".to_owned(),
                "2026-03-27T23:00 2026-03-28T22:00".to_owned(),
            )
        );
        // The day on which they go back has 25, of which the day before has 24.
        assert_eq!(
            spans(Period::Today, "2026-10-25T22:30:00Z"),
            (
                "2026-10-24T22:00 2026-10-25T23:00".to_owned(),
                "2026-10-23T22:00 2026-10-24T22:00".to_owned(),
            )
        );
        assert_eq!(
            spans(Period::LastMonth, "2026-04-10T00:00:00Z"),
            (
                "2026-02-28T23:00 2026-03-31T22:00".to_owned(),
                "2026-01-31T23:00 2026-02-28T23:00".to_owned(),
            )
        );
        let zone = CalendarZone {
            name: "Europe/Berlin".to_owned(),
            zone: berlin(),
        };
        assert_eq!(
            zone.stamp(hour_of(at("2026-07-01T22:00:00Z"))),
            "2026-07-02 00:00"
        );
    }

    #[test]
    fn a_midnight_within_an_hour_of_utc_counts_from_the_next_hour_on() {
        let india = TimeZone::posix("IST-5:30").expect("is a rule");
        let at = |text: &str| Moment::parse(text).expect("valid");
        let today = |now: &str| words(Period::Today.spans(at(now), &india).0);
        assert_eq!(
            today("2026-11-10T20:00:00Z"),
            "2026-11-10T19:00 2026-11-10T21:00"
        );
        // From 00:00 to 00:30 there the hour is still the day before's.
        assert_eq!(
            today("2026-11-10T18:40:00Z"),
            "2026-11-09T19:00 2026-11-10T19:00"
        );
        let month_to_date = Period::Month.spans(at("2026-10-31T18:40:00Z"), &india).0;
        assert_eq!(words(month_to_date), "2026-09-30T19:00 2026-10-31T19:00");
        // Months follow each other without a gap.
        let [october, november] =
            ["2026-10", "2026-11"].map(|text| month(text, &india).expect("is one"));
        assert_eq!(october.to, november.from);
    }
}
