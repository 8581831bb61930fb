//! Kubernetes quantities and the way numbers are written for people.

/// A size in bytes as one writes it: `500M`, `4G`, a plain number. Powers of 1024.
pub fn parse_size(text: &str) -> Option<u64> {
    let (number, shift) = match text.strip_suffix(['K', 'M', 'G', 'T']) {
        None => (text, 0),
        Some(number) => match text.as_bytes().last() {
            Some(b'K') => (number, 10),
            Some(b'M') => (number, 20),
            Some(b'G') => (number, 30),
            _ => (number, 40),
        },
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// Parses a Kubernetes quantity (`500m`, `8`, `16Gi`, `1e3`) into thousandths, rounding up.
///
/// Source: the serialization format of `k8s.io/apimachinery/pkg/api/resource`. `None` when the text is
/// not a quantity or does not fit.
pub fn quantity_milli(text: &str) -> Option<i64> {
    let text = text.trim();
    let digits = text
        .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '+' | '-')))
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits);
    let scale: f64 = match suffix {
        "n" => 1e-9,
        "u" => 1e-6,
        "m" => 1e-3,
        "" => 1.0,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "P" => 1e15,
        "E" => 1e18,
        "Ki" => 1024.0,
        "Mi" => 1_048_576.0,
        "Gi" => 1_073_741_824.0,
        "Ti" => 1_099_511_627_776.0,
        "Pi" => 1_125_899_906_842_624.0,
        "Ei" => 1_152_921_504_606_846_976.0,
        _ => {
            let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            10f64.powi(exponent)
        }
    };
    // Whole numbers are computed exactly: 2^60 bytes do not survive a double.
    if let (Ok(whole), true) = (number.parse::<i64>(), scale >= 1.0) {
        if scale > 9e18 {
            return None;
        }
        return whole.checked_mul(scale as i64)?.checked_mul(1000);
    }
    let value = number.parse::<f64>().ok()? * scale * 1000.0;
    (value.is_finite() && value.abs() < 9e18).then(|| value.ceil() as i64)
}

/// A latency as `30ms`, `2.5s`, `41s`; `>=10s` where it is a lower bound.
pub fn bounded_latency(seconds: f64, at_least: bool) -> String {
    let bound = if at_least { ">=" } else { "" };
    match seconds {
        value if value < 0.01 => format!("{bound}{:.1}ms", value * 1000.0),
        value if value < 1.0 => format!("{bound}{:.0}ms", value * 1000.0),
        value if value < 10.0 => format!("{bound}{value:.1}s"),
        value => format!("{bound}{value:.0}s"),
    }
}

/// A quantity in thousandths as people write it: `24.25` for `24250m`. Any other text as it is.
pub fn plain_quantity(text: &str) -> String {
    match quantity_milli(text).filter(|_| text.ends_with('m')) {
        Some(milli) => (milli as f64 / 1000.0).to_string(),
        None => text.to_owned(),
    }
}

/// Parses a Kubernetes quantity into whole units, rounding up.
pub fn quantity(text: &str) -> Option<i64> {
    quantity_milli(text).map(|milli| milli.div_euclid(1000) + i64::from(milli.rem_euclid(1000) > 0))
}

/// The first `most` items, and how many more there are: `a, b and 3 more`.
pub fn first_named<T: std::fmt::Display>(all: &[T], most: usize) -> String {
    let named: Vec<String> = all.iter().take(most).map(T::to_string).collect();
    match all.len() - named.len() {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

/// A count and its noun: `1 job`, `3 jobs`.
pub fn counted(count: u64, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    let count = grouped(i64::try_from(count).unwrap_or(i64::MAX));
    format!("{count} {noun}{plural}")
}

/// A whole number in groups of three: `1 234 567`.
pub fn grouped(number: i64) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3 + 1);
    if number < 0 {
        out.push('-');
    }
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(digit);
    }
    out
}

/// Bytes in binary units, at most four figures: `71 GiB`, `0.5 GiB`, `980 MiB`.
pub fn bytes(count: f64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let (mut value, mut unit) = (count.max(0.0), 0);
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if value < 10.0 && unit > 0 {
        format!("{value:.1} {}", UNITS[unit])
    } else {
        format!("{value:.0} {}", UNITS[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_follow_the_api() {
        for (text, milli) in [
            ("8", 8000),
            ("500m", 500),
            ("1.5", 1500),
            ("2Ki", 2_048_000),
            ("1e3", 1_000_000),
            ("100n", 1),
        ] {
            assert_eq!(quantity_milli(text), Some(milli), "{text}");
        }
        for bad in ["", "eight", "8Qi", "--", "9e99"] {
            assert_eq!(quantity_milli(bad), None, "{bad}");
        }
        assert_eq!(quantity("2113930008Ki"), Some(2_113_930_008 * 1024));
        for (text, plain) in [
            ("24250m", "24.25"),
            ("1625m", "1.625"),
            ("8000m", "8"),
            ("8", "8"),
            ("80%", "80%"),
            ("2Gi", "2Gi"),
            ("1500u", "1500u"),
            ("m", "m"),
        ] {
            assert_eq!(plain_quantity(text), plain);
        }
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(grouped(1_234_567), "1 234 567");
        assert_eq!(grouped(-1000), "-1 000");
        assert_eq!(grouped(12), "12");
        assert_eq!(bytes(85_899_345_920.0), "80 GiB");
        assert_eq!(bytes(0.0), "0 B");
    }
}
