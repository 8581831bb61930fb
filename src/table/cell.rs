//! A table's cell: a typed value that sorts, filters and becomes text only when it is painted.

use std::borrow::Cow;
use std::cmp::Ordering;

use model::base::quantities::{bytes, grouped};
use model::base::{Age, DeviceAmount, Moment, ObjectKey};
use model::cost::Money;
use model::fleet::finding::Severity;
use model::fleet::pool::NOT_VISIBLE;

use super::role::Role;
use super::rows::list_price::marked;
use super::text::{UNKNOWN, bounded_latency, celsius, decimal, kilowatts, watts, whole_percent};

/// Value of a cell. Unknown is its own variant, never zero.
#[derive(Clone, PartialEq, Debug)]
pub enum Value<'a> {
    Unknown,
    Empty,
    Text(Cow<'a, str>),
    /// A name in a tree: the lines before it on the screen, and the name.
    Branch(String, &'a str),
    /// A namespace (or nothing) and a name.
    Path(&'a str, &'a str),
    Count(i64),
    /// A part of a whole.
    Part(u64, u64),
    /// An amount of devices, and of how many.
    Devices(DeviceAmount, Option<u32>),
    /// An amount of devices that is a lower bound.
    AtLeast(DeviceAmount),
    /// Devices that are requested, and slices of devices.
    Requested(u32, u32),
    /// A share, 0 to 1, as a number.
    Ratio(f64),
    /// A share, 0 to 1, as a bar and a number.
    Bar(f64),
    /// Shares over time with the last one as a number.
    Trend(Vec<Option<f32>>, Option<f64>),
    /// A rate, in USD an hour.
    Money(Money),
    /// An amount of money, USD.
    Sum(Money),
    /// A moment, shown as the time since.
    Since(Moment),
    /// The moment of the first observation of something that may be older: the time since is a lower bound.
    SeenSince(Moment),
    /// An estimated start as text, and its moment as the sort key; `None` where there is no estimate.
    Starts(String, Option<Moment>),
    /// A span that is over.
    Span(Age),
    /// A duration in whole milliseconds.
    Millis(u64),
    /// A latency in seconds, and whether it is a lower bound.
    Latency(f64, bool),
    /// A temperature in degrees Celsius.
    Celsius(f64),
    /// Watts, and the limit where known; shown in kilowatts.
    Power(f64, Option<f64>),
    /// Power of one device, watts.
    Watts(f64),
    /// Bytes in use, and in all where known.
    Bytes(f64, Option<f64>),
    /// A plain number with its fraction.
    Number(f64),
    /// Use of a quota, as a label, a bar and numbers.
    Quota(Box<QuotaUse>),
}

impl<'a> Value<'a> {
    /// Text, borrowed or owned.
    pub fn text(words: impl Into<Cow<'a, str>>) -> Self {
        Self::Text(words.into())
    }

    /// The key of a namespaced object.
    pub fn path(key: &'a ObjectKey) -> Self {
        Self::Path(&key.namespace, &key.name)
    }

    /// True for money of which what is paid is not known: it has the mark of list prices.
    pub fn is_by_list(&self) -> bool {
        matches!(self, Self::Money(money) | Self::Sum(money) if money.is_by_list())
    }

    /// True where it says no more than that it is not known, or not visible.
    pub fn is_unknown(&self) -> bool {
        match self {
            Self::Unknown => true,
            Self::Text(words) => ["–", "not visible", NOT_VISIBLE].contains(&&**words),
            Self::Trend(values, last) => last.is_none() && values.iter().all(Option::is_none),
            _ => false,
        }
    }

    pub fn known<T>(value: Option<T>, make: impl FnOnce(T) -> Self) -> Self {
        value.map_or(Self::Unknown, make)
    }

    /// The number that it sorts and compares by. Ages count in seconds up to `now`, latencies in milliseconds.
    pub fn number(&self, now: Moment) -> Option<f64> {
        Some(match self {
            Self::Unknown | Self::Empty | Self::Text(_) | Self::Path(..) | Self::Branch(..) => {
                return None;
            }
            Self::Count(count) => *count as f64,
            Self::Part(part, _) => *part as f64,
            Self::Devices(amount, _) | Self::AtLeast(amount) => amount.devices(),
            Self::Requested(devices, slices) => f64::from(*devices) + f64::from(*slices),
            Self::Ratio(ratio) | Self::Bar(ratio) => *ratio,
            Self::Trend(_, last) => (*last)?,
            Self::Money(money) | Self::Sum(money) => money.usd(),
            Self::Since(at) | Self::SeenSince(at) => now.since(*at).millis() as f64 / 1000.0,
            Self::Starts(_, at) => ((*at)?.millis() - now.millis()) as f64 / 1000.0,
            Self::Span(span) => span.millis() as f64 / 1000.0,
            Self::Millis(millis) => *millis as f64,
            Self::Latency(seconds, _) => *seconds * 1000.0,
            Self::Celsius(degrees) => *degrees,
            Self::Power(watts, _) | Self::Watts(watts) => *watts,
            Self::Bytes(used, _) => *used,
            Self::Number(number) => *number,
            Self::Quota(quota) => quota.ratio()?,
        })
    }

    /// Its text in a printed table: plain ASCII for numbers, in one word each, `-` for what is not known or not there.
    pub fn plain(&self, now: Moment) -> Cow<'_, str> {
        Cow::Owned(match self {
            Self::Unknown | Self::Empty => return Cow::Borrowed(UNKNOWN),
            Self::Text(words) if words.is_empty() || words == "–" => {
                return Cow::Borrowed(UNKNOWN);
            }
            Self::Text(words) => return Cow::Borrowed(words),
            Self::Path("", name) | Self::Branch(_, name) => return Cow::Borrowed(name),
            Self::Path(namespace, name) => format!("{namespace}/{name}"),
            Self::Count(count) => count.to_string(),
            Self::Part(part, whole) => format!("{part}/{whole}"),
            Self::Devices(amount, None) => amount.to_string(),
            Self::AtLeast(amount) => format!(">={amount}"),
            Self::Devices(amount, Some(whole)) => format!("{amount}/{whole}"),
            Self::Requested(devices, 0) => devices.to_string(),
            Self::Requested(0, slices) => format!("{slices}slices"),
            Self::Requested(devices, slices) => format!("{devices}+{slices}slices"),
            Self::Ratio(ratio) | Self::Bar(ratio) => whole_percent(*ratio),
            Self::Trend(_, last) => {
                return last.map_or(UNKNOWN.into(), |last| whole_percent(last).into());
            }
            Self::Money(money) | Self::Sum(money) => marked(Some(money.usd()), money.is_by_list()),
            Self::Since(at) => now.since(*at).to_string(),
            Self::SeenSince(at) => format!(">{}", now.since(*at)),
            Self::Starts(words, _) => return Cow::Borrowed(words),
            Self::Span(span) => span.to_string(),
            Self::Millis(millis) => format!("{millis}ms"),
            Self::Latency(seconds, at_least) => bounded_latency(*seconds, *at_least),
            Self::Celsius(degrees) => celsius(Some(*degrees)),
            Self::Watts(used) => watts(Some(*used)),
            Self::Power(used, None) => kilowatts(*used),
            Self::Power(used, Some(limit)) => format!("{}/{}", kilowatts(*used), kilowatts(*limit)),
            Self::Bytes(used, None) => bytes(*used),
            Self::Bytes(used, Some(whole)) => format!("{}/{}", bytes(*used), bytes(*whole)),
            Self::Number(number) => decimal(*number),
            Self::Quota(quota) => quota.numbers(),
        })
    }

    /// The text, where the value is text: a namespace or nothing, and the rest.
    pub fn words(&self) -> Option<(&str, &str)> {
        match self {
            Self::Text(words) => Some(("", words)),
            Self::Branch(_, name) => Some(("", name)),
            Self::Path(namespace, name) => Some((namespace, name)),
            _ => None,
        }
    }

    /// Compares two values of a column. Unknown sorts last in both directions.
    pub fn compare(&self, other: &Self, now: Moment, descending: bool) -> Ordering {
        let turn = |order: Ordering| if descending { order.reverse() } else { order };
        match (self.words(), other.words()) {
            (Some(a), Some(b)) => {
                return turn(natural(a.0, b.0).then_with(|| natural(a.1, b.1)));
            }
            (Some(_), None) => return Ordering::Less,
            (None, Some(_)) => return Ordering::Greater,
            (None, None) => {}
        }
        match (self.number(now), other.number(now)) {
            (Some(a), Some(b)) => turn(a.total_cmp(&b)),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => Ordering::Equal,
        }
    }
}

use model::base::natural;

/// A value and how it is shown.
#[derive(Clone, PartialEq, Debug)]
pub struct Cell<'a> {
    pub value: Value<'a>,
    /// Role for painting; `Text` by default.
    pub role: Role,
    /// Old: painted muted, whatever the role.
    pub stale: bool,
    /// A sign after the text: `~` for a join that is inferred, `▲` for waste.
    pub mark: &'static str,
    /// A sign before the text, with its role: the state.
    pub sign: Option<(&'static str, Role)>,
    /// True when it is cut in the middle, because its end distinguishes it from similar names.
    pub middle: bool,
}

impl<'a> Cell<'a> {
    pub const fn new(value: Value<'a>) -> Self {
        Self {
            value,
            role: Role::Text,
            stale: false,
            mark: "",
            sign: None,
            middle: false,
        }
    }

    model::setters! {
        /// Cut in the middle where it is too long.
        pub middle() middle = true;
        pub role(role: Role) role = role;
        pub stale(stale: bool) stale = stale;
        /// With a sign after it.
        pub mark(mark: &'static str) mark = mark;
        /// With a sign before it.
        pub sign(sign: &'static str, role: Role) sign = Some((sign, role));
    }

    pub fn text(words: impl Into<Cow<'a, str>>) -> Self {
        Self::new(Value::text(words))
    }

    pub fn maybe(words: Option<&'a str>) -> Self {
        Self::new(Value::known(words, Value::text))
    }

    /// In the color of a severity; without one it keeps its own.
    #[must_use]
    pub const fn severity(mut self, severity: Option<Severity>) -> Self {
        if let Some(severity) = severity {
            self.role = Role::of_severity(severity);
        }
        self
    }
}

/// Use of a quota, in whole devices.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct QuotaUse {
    /// Nominal quota; `None` means unlimited.
    pub nominal: Option<u64>,
    /// Used by admitted workloads, running or not, borrowed quota included; `None` means unknown.
    pub used: Option<u64>,
    pub borrowed: u64,
    /// Reserved beyond that, by workloads that are not admitted yet.
    pub not_admitted: u64,
}

impl QuotaUse {
    /// `512+96/512`: nominal in use, borrowed, nominal.
    pub fn numbers(&self) -> String {
        let amount = |count: u64| grouped(i64::try_from(count).unwrap_or(i64::MAX));
        let used = self.used.map_or(String::from("–"), |used| {
            amount(used.saturating_sub(self.borrowed))
        });
        let borrowed = if self.borrowed > 0 {
            format!("+{}", amount(self.borrowed))
        } else {
            String::new()
        };
        match self.nominal {
            Some(nominal) => format!("{used}{borrowed}/{}", amount(nominal)),
            None => format!("{used}{borrowed}"),
        }
    }

    /// What is left of the nominal quota; `None` where it has no bound or its use is not known.
    pub fn left(&self) -> Option<u64> {
        let held = self.used?.saturating_add(self.not_admitted);
        Some(self.nominal?.saturating_sub(held))
    }

    /// `, 8 reserved and not admitted yet`; empty for none.
    pub fn reserved_words(&self) -> String {
        match self.not_admitted {
            0 => String::new(),
            more => format!(
                ", {} reserved and not admitted yet",
                grouped(i64::try_from(more).unwrap_or(i64::MAX))
            ),
        }
    }

    /// Use as a share of the nominal quota.
    pub fn ratio(&self) -> Option<f64> {
        let (used, nominal) = (self.used?, self.nominal?);
        (nominal > 0).then(|| used as f64 / nominal as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_order_as_people_count() {
        let mut names = ["node-10", "node-2", "node-02", "a", "node-2b", "node-"];
        names.sort_by(|a, b| natural(a, b));
        assert_eq!(
            names,
            ["a", "node-", "node-02", "node-2", "node-2b", "node-10"]
        );
        assert_eq!(natural("r1-9", "r1-10"), Ordering::Less);
        assert_eq!(natural("r10-1", "r1-2"), Ordering::Greater);
        assert_eq!(natural("x100", "x100"), Ordering::Equal);
    }

    #[test]
    fn slices_are_named_apart_from_devices_and_both_are_sorted_by() {
        let now = Moment::default();
        let plain = |devices, slices| Value::Requested(devices, slices).plain(now).into_owned();
        assert_eq!(
            [plain(8, 100), plain(0, 100), plain(8, 0)],
            ["8+100slices", "100slices", "8"]
        );
        assert_eq!(Value::Requested(8, 100).number(now), Some(108.0));
    }

    #[test]
    fn unknown_sorts_last_both_ways() {
        let now = Moment::default();
        let (known, unknown) = (Value::Ratio(0.0), Value::Unknown);
        for descending in [false, true] {
            assert_eq!(known.compare(&unknown, now, descending), Ordering::Less);
        }
        assert_eq!(
            Value::Count(1).compare(&Value::Count(2), now, true),
            Ordering::Greater
        );
    }

    /// The time of day of tomorrow's start is the lower one.
    #[test]
    fn starts_sort_by_their_moment_not_by_their_words() {
        let now = Moment::default();
        let at = |seconds| Some(now.plus(std::time::Duration::from_secs(seconds)));
        let tonight = Value::Starts(String::from("~21:45"), at(3_600));
        let tomorrow = Value::Starts(String::from("~03:00"), at(20_000));
        let never = Value::Starts(String::from("unknown"), None);
        let order = |a: &Value<'_>, b: &Value<'_>, falls| a.compare(b, now, falls);
        assert_eq!(order(&tonight, &tomorrow, false), Ordering::Less);
        assert_eq!(order(&tonight, &tomorrow, true), Ordering::Greater);
        for falls in [false, true] {
            assert_eq!(order(&tomorrow, &never, falls), Ordering::Less);
        }
    }
}
