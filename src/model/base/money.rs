//! Money as whole micro-dollars, so that the sum of the rows is the header to the last digit.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub};

/// A burn rate in micro-USD per hour. An estimate from a price book, never a bill.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Rate(i64);

impl Rate {
    pub const ZERO: Self = Self(0);

    /// From USD per hour, rounded to the nearest micro-dollar; `None` when not finite or negative.
    pub fn from_usd(usd: f64) -> Option<Self> {
        (usd.is_finite() && (0.0..9e9).contains(&usd)).then(|| Self((usd * 1e6).round() as i64))
    }

    /// From whole micro-USD per hour.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Whole micro-USD per hour.
    pub const fn micros(self) -> i64 {
        self.0
    }

    /// USD per hour, for output.
    pub fn usd(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// This rate `count` times.
    pub const fn times(self, count: u64) -> Self {
        Self(self.0.saturating_mul(count as i64))
    }

    /// This rate's share `part / whole`, rounded down; zero when `whole` is zero.
    pub fn share(self, part: u64, whole: u64) -> Self {
        if whole == 0 {
            return Self::ZERO;
        }
        Self((i128::from(self.0) * i128::from(part) / i128::from(whole)) as i64)
    }
}

impl Add for Rate {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Rate {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl AddAssign for Rate {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sum for Rate {
    fn sum<I: Iterator<Item = Self>>(rates: I) -> Self {
        rates.fold(Self::ZERO, Add::add)
    }
}

/// Dollars an hour as a table shows them: cents below 10, whole dollars above, thin groups of three.
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = if self.0 > 0 && self.0 < 10_000_000 {
            format!("{:.2}", self.usd())
        } else {
            super::quantities::grouped((self.0 + 500_000) / 1_000_000)
        };
        f.pad(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_add_exactly_and_show_rounded() {
        let cents = Rate::from_usd(0.1).expect("finite");
        assert_eq!((0..10).map(|_| cents).sum::<Rate>().usd(), 1.0);
        assert_eq!(Rate::from_usd(9042.4).expect("finite").to_string(), "9 042");
        assert_eq!(Rate::from_usd(4.1).expect("finite").to_string(), "4.10");
        assert_eq!(Rate::ZERO.to_string(), "0");
        assert!(Rate::from_usd(f64::NAN).is_none() && Rate::from_usd(-1.0).is_none());
    }

    #[test]
    fn a_share_never_exceeds_the_whole() {
        let rate = Rate::from_micros(100);
        assert_eq!(rate.share(1, 3).micros(), 33);
        assert_eq!(rate.share(1, 0), Rate::ZERO);
    }
}
