//! Spans of the ledger: today, some days, calendar months. In UTC, by whole hours.

use jiff::ToSpan;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use crate::base::Moment;

use super::hour_of;

/// Hours from `from` up to and without `to`, since the Unix epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// The first hour.
    pub from: i64,
    /// The first hour that is not in it.
    pub to: i64,
}

impl Span {
    /// How many hours.
    pub const fn hours(self) -> i64 {
        self.to - self.from
    }
}

/// A span that ends now, or a calendar month.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Period {
    /// Since midnight.
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
    /// Every period.
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

    /// The period as of a moment, and the one before it: as long, of a month the same part of the month before.
    pub fn spans(self, now: Moment) -> (Span, Span) {
        let to = hour_of(now) + 1;
        let back = |hours: i64| {
            let span = Span {
                from: to - hours,
                to,
            };
            (
                span,
                Span {
                    from: span.from - hours,
                    to: span.from,
                },
            )
        };
        let date = date_of(now);
        match self {
            Self::Today => {
                let from = start(date);
                (
                    Span { from, to },
                    Span {
                        from: from - 24,
                        to: to - 24,
                    },
                )
            }
            Self::Week => back(7 * 24),
            Self::Days30 => back(30 * 24),
            Self::Month => {
                let this = month_of(date);
                let before = month_of(previous(date));
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
            }
            Self::LastMonth => {
                let last = previous(date);
                (month_of(last), month_of(previous(last)))
            }
        }
    }
}

fn date_of(at: Moment) -> Date {
    date_in(at, &TimeZone::UTC)
}

/// The date of a moment in a time zone.
pub(super) fn date_in(at: Moment, zone: &TimeZone) -> Date {
    jiff::Timestamp::from_millisecond(at.millis())
        .map_or(Date::ZERO, |stamp| stamp.to_zoned(zone.clone()).date())
}

fn start(date: Date) -> i64 {
    start_in(date, &TimeZone::UTC)
}

/// The hour at which a day begins in a time zone; where it does not begin at a whole hour of UTC, the next one.
pub(super) fn start_in(date: Date, zone: &TimeZone) -> i64 {
    let midnight = date.to_zoned(zone.clone());
    midnight.map_or(0, |midnight| {
        (midnight.timestamp().as_second() + 3_599).div_euclid(3_600)
    })
}

fn month_of(date: Date) -> Span {
    let first = date.first_of_month();
    let next = first.checked_add(1.month()).unwrap_or(first);
    Span {
        from: start(first),
        to: start(next),
    }
}

fn previous(date: Date) -> Date {
    let first = date.first_of_month();
    first.checked_sub(1.month()).unwrap_or(first)
}

/// A calendar month, `2026-10`.
pub fn month(text: &str) -> Option<Span> {
    let shape = text.len() == 7 && text.as_bytes()[4] == b'-';
    let date: Date = format!("{text}-01").parse().ok().filter(|_| shape)?;
    Some(month_of(date))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usage::start_of;

    fn words(span: Span) -> String {
        let minute = |hour| start_of(hour).rfc3339()[..16].to_owned();
        format!("{} {}", minute(span.from), minute(span.to))
    }

    fn spans(period: Period, now: &str) -> (String, String) {
        let (this, before) = period.spans(Moment::parse(now).expect("valid"));
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
            // February has no 31st: all of it stands beside.
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
}
