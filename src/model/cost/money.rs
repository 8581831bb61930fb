//! Money, the part of it that comes from list prices because the price paid is not known, and its text form.

use crate::base::Rate;
use crate::fleet::device::AllocationCell;

use super::prices::Price;

/// The mark behind an amount whose price paid is unknown.
pub const LIST_MARK: &str = "*";

/// What the mark says, once beside the amounts.
pub const LIST_NOTE: &str = "* list price; the price actually paid is unknown";

/// Money an hour, unless stated otherwise. Ordered by the total.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Money {
    pub all: Rate,
    /// The part that uses list prices, because the price paid is unknown ([`Price::is_stand_in`]).
    pub by_list: Rate,
}

impl Money {
    pub const ZERO: Self = Self {
        all: Rate::ZERO,
        by_list: Rate::ZERO,
    };

    /// Money at a known price.
    pub const fn known(all: Rate) -> Self {
        Self::with_source(all, false)
    }

    /// Money at a known price, or at a list price because the price paid is unknown.
    pub const fn with_source(all: Rate, is_by_list: bool) -> Self {
        Self {
            all,
            by_list: if is_by_list { all } else { Rate::ZERO },
        }
    }

    /// The price of a device.
    pub const fn of(price: &Price) -> Self {
        Self::with_source(price.rate, price.is_stand_in)
    }

    /// True if part of it comes from list prices, so that the price paid is not known.
    pub fn is_by_list(self) -> bool {
        self.by_list != Rate::ZERO
    }

    /// Its mark; empty where the price paid is known.
    pub fn mark(self) -> &'static str {
        match self.is_by_list() {
            true => LIST_MARK,
            false => "",
        }
    }

    /// As text without a unit: `$12`, and `$12*` where part of it comes from list prices.
    pub fn dollars(self) -> String {
        format!("${}{}", self.all, self.mark())
    }

    /// As text: `$12/h`, and `$12/h*` where part of it comes from list prices.
    pub fn per_hour(self) -> String {
        format!("${}/h{}", self.all, self.mark())
    }

    /// The total in USD.
    pub fn usd(self) -> f64 {
        self.all.usd()
    }

    /// Both amounts changed alike.
    #[must_use]
    pub fn each(self, change: impl Fn(Rate) -> Rate) -> Self {
        Self {
            all: change(self.all),
            by_list: change(self.by_list),
        }
    }

    /// Its share `part / whole`.
    #[must_use]
    pub fn share(self, part: u64, whole: u64) -> Self {
        self.each(|rate| rate.share(part, whole))
    }

    /// This money `count` times.
    #[must_use]
    pub fn times(self, count: u64) -> Self {
        self.each(|rate| rate.times(count))
    }

    /// The difference to `other`; marked as list price if one of them is: the difference paid is unknown then.
    #[must_use]
    pub fn less(self, other: Self) -> Self {
        let is_by_list = self.is_by_list() || other.is_by_list();
        Self::with_source(self.all - other.all, is_by_list)
    }

    /// The part of one cell of a device, where this is the price of the device.
    #[must_use]
    pub fn of_cell(self, cell: &AllocationCell<'_>) -> Self {
        self.each(|rate| cell.cost(rate))
    }
}

impl std::ops::Add for Money {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            all: self.all + other.all,
            by_list: self.by_list + other.by_list,
        }
    }
}

impl std::ops::AddAssign for Money {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl std::iter::Sum for Money {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::ZERO, |sum, one| sum + one)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_with_a_part_by_list_is_marked_and_so_is_what_is_made_of_it() {
        let paid = Money::known(Rate::from_micros(4_000_000));
        let listed = Money::with_source(Rate::from_micros(12_000_000), true);
        assert_eq!(
            (paid.dollars(), paid.per_hour()),
            ("$4.00".into(), "$4.00/h".into())
        );
        assert_eq!(
            (listed.dollars(), listed.per_hour()),
            ("$12*".into(), "$12/h*".into())
        );
        assert_eq!((paid + listed).dollars(), "$16*");
        assert_eq!(listed.less(paid).dollars(), "$8.00*");
        assert_eq!(paid.less(paid.share(1, 2)).dollars(), "$2.00");
        assert_eq!(listed.share(1, 2).times(4).dollars(), "$24*");
    }
}
