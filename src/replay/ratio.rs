//! Ratios written as decimals and stored in millionths, so that no float is used in a decision.

use std::str::FromStr;

/// A ratio in millionths: 1.3 is 1,300,000. At most 1,000.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Ratio(u64);

impl Ratio {
    /// The ratio 1: a million millionths.
    pub const WHOLE: Self = Self(1_000_000);

    /// A ratio from millionths.
    pub const fn millionths(parts: u64) -> Self {
        Self(parts)
    }

    /// The ratio in millionths.
    pub fn parts(self) -> i64 {
        i64::try_from(self.0).unwrap_or(i64::MAX)
    }

    /// Whether the ratio is zero.
    pub fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// This ratio times an amount, rounded down.
    pub fn of(self, amount: i64) -> i64 {
        let part = i128::from(amount) * i128::from(self.0) / 1_000_000;
        i64::try_from(part).unwrap_or(i64::MAX)
    }
}

/// `1.3`, `0.95`, or `95%`, with at most six decimals.
impl FromStr for Ratio {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no share; write 0.95 or 95%");
        let (number, parts) = match text.strip_suffix('%') {
            Some(number) => (number, 10_000),
            None => (text, 1_000_000),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if (whole.is_empty() && fraction.is_empty())
            || !digits(whole)
            || !digits(fraction)
            || whole.len() > 6
            || fraction.len() > 6
        {
            return Err(wrong());
        }
        let read = |text: &str| {
            text.parse::<u64>()
                .or(if text.is_empty() { Ok(0) } else { Err(()) })
        };
        let whole = read(whole).map_err(|()| wrong())?;
        let fraction = read(&format!("{fraction:0<6}")).map_err(|()| wrong())?;
        let share = whole * parts + fraction * parts / 1_000_000;
        if share > 1_000 * 1_000_000 {
            return Err(format!("{text} is too large a share; at most 1000"));
        }
        Ok(Self(share))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_read_exactly() {
        for (text, parts) in [
            ("1.3", 1_300_000),
            ("0.95", 950_000),
            ("95%", 950_000),
            ("12.5%", 125_000),
            (".5", 500_000),
            ("1", 1_000_000),
            ("0", 0),
            ("1000", 1_000_000_000),
        ] {
            assert_eq!(text.parse(), Ok(Ratio(parts)), "{text}");
        }
        for text in [
            "",
            ".",
            "-1",
            "1e3",
            "1.0000000",
            "abc",
            "%",
            "1001",
            "99999999",
            "1.2.3",
            "+1",
        ] {
            assert!(text.parse::<Ratio>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_share_of_an_amount_is_rounded_down() {
        assert_eq!(Ratio(1_300_000).of(6_212_000), 8_075_600);
        assert_eq!(Ratio(333_333).of(10), 3);
    }
}
