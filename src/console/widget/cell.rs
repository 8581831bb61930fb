//! The text of a cell on the screen: numbers grouped, ages live, `–` for unknown.

use std::borrow::Cow;

use model::base::DeviceAmount;
use model::base::quantities::{bytes, counted, grouped};
use table::cell::{Cell, Value};

use crate::painter::Painter;
use crate::text::UNKNOWN;
use table::text::{bounded_latency, decimal, whole_percent};

use super::quota::BAR;

/// Its text without marks. Ages are live: the painter notes when they change.
pub fn words<'c>(cell: &'c Cell<'_>, painter: &mut Painter<'_>) -> Cow<'c, str> {
    Cow::Owned(match &cell.value {
        Value::Unknown => return Cow::Borrowed(UNKNOWN),
        Value::Empty => return Cow::Borrowed(""),
        Value::Text(words) => return Cow::Borrowed(words),
        Value::Branch(lead, name) => format!("{lead}{name}"),
        Value::Path("", name) => return Cow::Borrowed(name),
        Value::Path(namespace, name) => format!("{namespace}/{name}"),
        Value::Count(count) => grouped(*count),
        Value::Part(part, whole) => {
            format!("{}/{}", grouped(*part as i64), grouped(*whole as i64))
        }
        Value::Devices(amount, whole) => devices_words(*amount, *whole),
        Value::AtLeast(amount) => format!("≥{}", devices_words(*amount, None)),
        Value::Requested(0, slices) => counted(u64::from(*slices), "slice"),
        Value::Requested(devices, slices) => {
            let slices = counted(u64::from(*slices), "slice");
            format!("{} + {slices}", grouped(i64::from(*devices)))
        }
        Value::Ratio(ratio) | Value::Bar(ratio) => whole_percent(*ratio),
        Value::Trend(_, Some(last)) => whole_percent(*last),
        Value::Trend(_, None) => return Cow::Borrowed(UNKNOWN),
        Value::Money(money) | Value::Sum(money) => {
            format!("{}{}", money.all, money.mark())
        }
        Value::Since(at) => painter.age(*at),
        Value::SeenSince(at) => format!(">{}", painter.age(*at)),
        Value::Starts(words, _) => return Cow::Borrowed(words),
        Value::Span(span) => span.to_string(),
        Value::Millis(millis) => millis_text(*millis),
        Value::Latency(seconds, at_least) => {
            let bound = if *at_least { "+" } else { "" };
            format!("{}{bound}", bounded_latency(*seconds, false))
        }
        Value::Celsius(degrees) => format!("{degrees:.0}°"),
        Value::Power(watts, limit) => match limit {
            Some(limit) => format!("{}/{}", kilowatts(*watts), kilowatts(*limit)),
            None => kilowatts(*watts),
        },
        Value::Watts(watts) => format!("{watts:.0} W"),
        Value::Bytes(used, total) => match total {
            Some(total) => bytes_of(*used, *total),
            None => bytes(*used),
        },
        Value::Number(number) => plain(*number),
        // The bar's cells are kept free before the numbers.
        Value::Quota(quota) => {
            let gap = " ".repeat(usize::from(BAR) + 1);
            format!("{gap}{}", quota.numbers())
        }
    })
}

/// A number with as many digits behind the point as it can bear.
fn plain(number: f64) -> String {
    if number.is_infinite() {
        String::from("∞")
    } else if number.abs() < 100.0 {
        decimal(number)
    } else {
        grouped(number.round() as i64)
    }
}

/// Kilowatts without the unit, which is in the header.
fn kilowatts(watts: f64) -> String {
    let kilo = watts / 1000.0;
    if kilo.abs() < 9.95 {
        format!("{kilo:.1}")
    } else {
        grouped(kilo.round() as i64)
    }
}

/// `71/80 GiB`: both in the unit of the whole.
pub fn bytes_of(used: f64, total: f64) -> String {
    let whole = bytes(total);
    let Some((number, unit)) = whole.split_once(' ') else {
        return whole;
    };
    let scale = match unit {
        "KiB" => 1024f64,
        "MiB" => 1024f64.powi(2),
        "GiB" => 1024f64.powi(3),
        "TiB" => 1024f64.powi(4),
        "PiB" => 1024f64.powi(5),
        _ => 1.0,
    };
    let part = used.max(0.0) / scale;
    if part > 0.0 && part < 9.95 {
        format!("{part:.1}/{number} {unit}")
    } else {
        format!("{part:.0}/{number} {unit}")
    }
}

fn millis_text(millis: u64) -> String {
    if millis < 10_000 {
        format!("{} ms", grouped(millis as i64))
    } else {
        format!("{} s", grouped((millis / 1000) as i64))
    }
}

/// `37.6/40`, `1 204/3 136`; a whole number is grouped by thousands.
pub fn devices_words(amount: DeviceAmount, whole: Option<u32>) -> String {
    let part = match amount.is_whole() {
        true => grouped(i64::from(amount.floor())),
        false => amount.to_string(),
    };
    match whole {
        None => part,
        Some(whole) => format!("{part}/{}", grouped(i64::from(whole))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_printed_in_one_unit() {
        let gib = 1024f64.powi(3);
        assert_eq!(bytes_of(71.0 * gib, 80.0 * gib), "71/80 GiB");
        assert_eq!(bytes_of(0.5 * gib, 80.0 * gib), "0.5/80 GiB");
        assert_eq!(kilowatts(612_400.0), "612");
        assert_eq!(kilowatts(9_400.0), "9.4");
    }
}
