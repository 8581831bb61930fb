//! A moment as one types it: `03:12`, `yesterday 14:00`, `-2h`, or RFC 3339.

use std::time::Duration;

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

use super::time::{Moment, parse_span};

/// A moment of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct When(TypedForm);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum TypedForm {
    At(Moment),
    /// So long before the end.
    Before(Duration),
    /// The last time that it was so late.
    OfDay(Time),
    /// So late on the day before the last.
    Yesterday(Time),
    /// By the calendar of the place.
    Local(DateTime),
}

/// How moments are written, for help and for mistakes.
pub const FORMS: &str =
    "a time is written as 03:12, yesterday 14:00, -2h, 2026-11-21 06:40 or 2026-11-21T06:40:00Z";

fn of_day(text: &str) -> Option<Time> {
    let short = matches!(text.len(), 5 | 8) && text.as_bytes().get(2) == Some(&b':');
    text.parse().ok().filter(|_| short)
}

impl When {
    pub const fn at(moment: Moment) -> Self {
        Self(TypedForm::At(moment))
    }

    /// Reads one.
    ///
    /// # Errors
    /// How it is written.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let form = if let Some(back) = text.strip_prefix('-') {
            // A plain number would be read as seconds, and might have been meant as anything.
            let named = back.ends_with(|last: char| last.is_ascii_alphabetic());
            parse_span(back).filter(|_| named).map(TypedForm::Before)
        } else if let Some(time) = text.strip_prefix("yesterday ") {
            of_day(time.trim()).map(TypedForm::Yesterday)
        } else if let Some(time) = of_day(text) {
            Some(TypedForm::OfDay(time))
        } else if let Some(moment) = Moment::parse(text) {
            Some(TypedForm::At(moment))
        } else {
            let parts = text.split_once([' ', 'T']);
            let local = parts.and_then(|(date, time)| {
                Some(date.parse::<Date>().ok()?.to_datetime(of_day(time.trim())?))
            });
            local.map(TypedForm::Local)
        };
        form.map(Self).ok_or_else(|| FORMS.to_owned())
    }

    /// The moment that is meant in a record that ends at `end`. Times of day are those on the screen: UTC.
    pub fn in_utc(self, end: Moment) -> Moment {
        self.resolve(end, &TimeZone::UTC)
    }

    /// The same in a record that begins at `start`: moments are written to the second, so that the one in which it begins is its beginning.
    pub fn in_record(self, start: Moment, end: Moment) -> Moment {
        let at = self.in_utc(end);
        match at < start && start.since(at).millis() < 1000 {
            true => start,
            false => at,
        }
    }

    /// The moment that is meant in a record that ends at `end`, where the clocks on the wall are those of `zone`. A time
    /// of day that a change of the clocks leaves out is as much later; of one that comes twice the later is meant, unless
    /// that is yet to come.
    fn resolve(self, end: Moment, zone: &TimeZone) -> Moment {
        let now = zone.to_datetime(timestamp(end));
        match self.0 {
            TypedForm::At(moment) => moment,
            TypedForm::Before(span) => end.minus(span),
            TypedForm::Local(local) => on(local, end, zone),
            TypedForm::OfDay(time) => {
                let today = on(now.date().to_datetime(time), end, zone);
                match today <= end {
                    true => today,
                    false => on(day_before(now.date()).to_datetime(time), end, zone),
                }
            }
            TypedForm::Yesterday(time) => on(day_before(now.date()).to_datetime(time), end, zone),
        }
    }
}

fn timestamp(at: Moment) -> Timestamp {
    Timestamp::from_millisecond(at.millis()).unwrap_or_default()
}

fn day_before(date: Date) -> Date {
    date.checked_sub(1.day()).unwrap_or(date)
}

fn on(local: DateTime, end: Moment, zone: &TimeZone) -> Moment {
    let meant = zone.to_ambiguous_timestamp(local);
    let moment = |stamp: Result<Timestamp, jiff::Error>| {
        stamp.map_or(end, |stamp| Moment::from_millis(stamp.as_millisecond()))
    };
    let later = moment(meant.later());
    match later <= end || !meant.is_ambiguous() {
        true => later,
        false => moment(meant.compatible()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Moment {
        Moment::parse(text).expect("a moment")
    }

    fn meant(text: &str, end: &str, zone: &TimeZone) -> String {
        When::parse(text)
            .expect("a time")
            .resolve(at(end), zone)
            .rfc3339()
    }

    #[test]
    fn times_are_read_as_one_types_them() {
        let utc = TimeZone::UTC;
        let end = "2026-11-23T10:00:00Z";
        for (text, moment) in [
            ("03:12", "2026-11-23T03:12:00Z"),
            ("03:12:30", "2026-11-23T03:12:30Z"),
            ("10:00", "2026-11-23T10:00:00Z"),
            // Later than the end of the record: the day before.
            ("14:00", "2026-11-22T14:00:00Z"),
            ("yesterday 14:00", "2026-11-22T14:00:00Z"),
            ("yesterday 03:00", "2026-11-22T03:00:00Z"),
            ("-2h", "2026-11-23T08:00:00Z"),
            ("-1d2h30m", "2026-11-22T07:30:00Z"),
            ("2026-11-21T06:40:00Z", "2026-11-21T06:40:00Z"),
            ("2026-11-21T06:40:00+02:00", "2026-11-21T04:40:00Z"),
            ("2026-11-21 06:40", "2026-11-21T06:40:00Z"),
        ] {
            assert_eq!(meant(text, end, &utc), moment, "{text}");
        }
        for bad in [
            "",
            "-",
            "-2",
            "3:12",
            "25:00",
            "yesterday",
            "-2x",
            "noon",
            "03:1",
        ] {
            assert_eq!(When::parse(bad), Err(FORMS.to_owned()), "{bad}");
        }
        // The second in which a record begins is its beginning; one before that is not.
        let start = Moment::parse("2026-11-23T08:00:00Z").expect("a moment");
        let start = start.plus(Duration::from_millis(300));
        let first = |text: &str| When::parse(text).map(|when| when.in_record(start, at(end)));
        assert_eq!(first("08:00"), Ok(start));
        assert_eq!(first("07:59:59"), Ok(at("2026-11-23T07:59:59Z")));
        // The first of a month and of a year.
        assert_eq!(
            meant("23:59", "2027-01-01T00:01:00Z", &utc),
            "2026-12-31T23:59:00Z"
        );
    }

    #[test]
    fn clocks_that_change_are_minded() {
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").expect("a zone");
        // Spring: 02:00 to 03:00 is left out on 2026-03-29.
        let end = "2026-03-29T12:00:00Z";
        assert_eq!(meant("01:30", end, &zone), "2026-03-29T00:30:00Z");
        assert_eq!(meant("02:30", end, &zone), "2026-03-29T01:30:00Z");
        assert_eq!(meant("03:30", end, &zone), "2026-03-29T01:30:00Z");
        assert_eq!(meant("yesterday 03:30", end, &zone), "2026-03-28T02:30:00Z");
        // Two hours are two hours.
        assert_eq!(
            meant("-2h", "2026-03-29T02:00:00Z", &zone),
            "2026-03-29T00:00:00Z"
        );
        // Autumn: 02:00 to 03:00 comes twice on 2026-10-25.
        let end = "2026-10-25T12:00:00Z";
        assert_eq!(meant("02:30", end, &zone), "2026-10-25T01:30:00Z");
        // The second one is yet to come.
        assert_eq!(
            meant("02:30", "2026-10-25T01:00:00Z", &zone),
            "2026-10-25T00:30:00Z"
        );
        assert_eq!(
            meant("yesterday 14:00", "2026-10-26T12:00:00Z", &zone),
            "2026-10-25T13:00:00Z"
        );
    }
}
