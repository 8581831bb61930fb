//! Amounts of devices, whole and in parts.

use std::fmt;
use std::ops::{Add, AddAssign};

use serde::{Serialize, Serializer};

use super::Rate;

/// Millionths of one device.
const WHOLE: u64 = 1_000_000;

/// A number of devices in millionths: a MIG instance `1g.10gb` of an A100 is 0.142857 devices. Parts that [`Self::cut`] makes of one
/// device add up to it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct DeviceAmount(u64);

impl DeviceAmount {
    pub const ZERO: Self = Self(0);
    pub const ONE: Self = Self(WHOLE);

    /// This many whole devices.
    pub const fn whole(devices: u32) -> Self {
        Self(devices as u64 * WHOLE)
    }

    /// This many millionths of a device.
    pub const fn of_millionths(millionths: u64) -> Self {
        Self(millionths)
    }

    /// In millionths of a device.
    pub const fn millionths(self) -> u64 {
        self.0
    }

    /// The part of one device from `before` to `before + part` of `all` equal units, cut from a running sum. Zero where `all` is.
    pub fn cut(before: u64, part: u64, all: u64) -> Self {
        let until = |units: u64| {
            let at = u128::from(WHOLE) * u128::from(units.min(all)) / u128::from(all.max(1));
            u64::try_from(at).unwrap_or(WHOLE)
        };
        Self(until(before.saturating_add(part)) - until(before))
    }

    /// Its cost where one device costs `rate`, rounded down.
    pub fn of(self, rate: Rate) -> Rate {
        rate.share(self.0, WHOLE)
    }

    pub fn devices(self) -> f64 {
        self.0 as f64 / WHOLE as f64
    }

    /// Whole devices in it.
    pub fn floor(self) -> u32 {
        u32::try_from(self.0 / WHOLE).unwrap_or(u32::MAX)
    }

    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// True where no part of a device is in it.
    pub const fn is_whole(self) -> bool {
        self.0.is_multiple_of(WHOLE)
    }

    /// This amount minus `other`, at least zero.
    #[must_use]
    pub const fn less(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Add for DeviceAmount {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for DeviceAmount {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl std::iter::Sum for DeviceAmount {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::ZERO, Add::add)
    }
}

/// Parts that add up to a whole may be this many millionths off: each is rounded.
const ROUNDED: u64 = 50;

/// `38`, `37.6`. A fraction is never shown as a whole number: `37.98`, `37.999`, and `<0.01` for less than that.
impl fmt::Display for DeviceAmount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nearest = (self.0 + WHOLE / 2) / WHOLE;
        let is_near = nearest > 0 && self.0.abs_diff(nearest * WHOLE) < ROUNDED;
        let text = if self.is_whole() || is_near {
            nearest.to_string()
        } else {
            let rounded = |digits: usize, unit: u64| {
                let units = (self.0 + unit / 2) / unit;
                let whole = (units * unit).is_multiple_of(WHOLE);
                (!whole).then(|| format!("{:.digits$}", self.devices()))
            };
            match (
                rounded(1, WHOLE / 10)
                    .or_else(|| rounded(2, WHOLE / 100))
                    .or_else(|| rounded(3, WHOLE / 1_000).filter(|_| self.0 > WHOLE)),
                self.0 / WHOLE,
            ) {
                (Some(text), _) => text,
                (None, 0) if self.0 < WHOLE / 2 => String::from("<0.01"),
                (None, whole) if self.0 % WHOLE < WHOLE / 2 => format!(">{whole}"),
                (None, whole) => format!("<{}", whole + 1),
            }
        };
        f.pad(&text)
    }
}

crate::written_as!(
    DeviceAmount,
    schemars::json_schema!({ "type": "number", "minimum": 0 })
);

/// A whole number where it is one, else with six digits after the point.
impl Serialize for DeviceAmount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.is_whole() {
            true => serializer.serialize_u64(self.0 / WHOLE),
            false => serializer.serialize_f64(self.devices()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(millionths: u64) -> String {
        DeviceAmount::of_millionths(millionths).to_string()
    }

    #[test]
    fn parts_of_a_device_add_up_to_it() {
        for all in [1, 3, 7, 8, 12, 64] {
            let parts = (0..all).map(|at| DeviceAmount::cut(at, 1, all));
            assert_eq!(parts.sum::<DeviceAmount>(), DeviceAmount::ONE, "{all}");
        }
        assert_eq!(DeviceAmount::cut(0, 1, 0), DeviceAmount::ZERO);
    }

    #[test]
    fn a_part_is_never_written_as_a_whole_number() {
        let cases = [
            0, 4, 142_857, 960_000, 1_000_000, 37_571_429, 37_980_000, 37_999_000, 38_001_000,
            37_999_900, 37_999_998,
        ];
        let written: Vec<String> = cases.into_iter().map(text).collect();
        let expected = [
            "0", "<0.01", "0.1", "0.96", "1", "37.6", "37.98", "37.999", "38.001", "<38", "38",
        ];
        assert_eq!(written, expected);
        assert_eq!(format!("{:>4}", DeviceAmount::ONE), "   1");
    }

    #[test]
    fn json_has_a_whole_number_where_it_is_one() {
        let json = |amount: DeviceAmount| serde_json::to_string(&amount).expect("a number");
        assert_eq!(json(DeviceAmount::whole(38)), "38");
        assert_eq!(json(DeviceAmount::cut(0, 1, 7)), "0.142857");
    }
}
