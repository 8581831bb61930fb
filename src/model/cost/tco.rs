//! Total cost of ownership: what a demand of devices costs a month in each way of paying for it, and when buying pays off.

use super::Owned;

/// Hours of a month, the unit of costs: 365 days over 12.
pub const MONTH_HOURS: f64 = 730.0;

/// How devices are paid for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Payment {
    OnDemand,
    /// By the hour for a year or more, used or not.
    Reserved,
    /// Cheap, and taken back at will.
    Spot,
    Owned,
}

crate::words! {
    impl Payment {
        /// As in the JSON contract.
        pub fn name(self) {
            OnDemand => "on-demand",
            Reserved => "reserved",
            Spot => "spot",
            Owned => "owned",
        }
    }
}

impl Payment {
    pub const ALL: [Self; 4] = [Self::OnDemand, Self::Reserved, Self::Spot, Self::Owned];

    /// True where an hour is paid whether it is used or not: then the peak is paid, not the mean.
    pub const fn is_committed(self) -> bool {
        matches!(self, Self::Reserved | Self::Owned)
    }
}

/// How many devices are used.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DevicesUsed {
    pub mean: f64,
    /// At most, at any hour.
    pub peak: f64,
}

impl DevicesUsed {
    /// Cost of [`MONTH_HOURS`] at this price of a device-hour, USD.
    pub fn usd_per_month(&self, way: Payment, usd_per_device_hour: f64) -> f64 {
        let devices = match way.is_committed() {
            true => self.peak,
            false => self.mean,
        };
        devices * usd_per_device_hour * MONTH_HOURS
    }
}

/// When owned devices cost less than those by the hour.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct BreakEven {
    /// Share of the hours in which a device must be used, over the years of its write-off; above 1 it never pays.
    pub used_ratio: f64,
    /// Months of full use after which the purchase has paid off; `None` where running the machines costs more than renting.
    pub months: Option<f64>,
}

/// When machines of `devices` devices of one's own cost less than an hourly price, USD a device-hour. `None` where a figure makes no sense.
pub fn break_even(usd_per_device_hour: f64, owned: &Owned, devices: u32) -> Option<BreakEven> {
    let own = owned.usd_per_device_hour(devices)?;
    if usd_per_device_hour <= 0.0 {
        return None;
    }
    let count = f64::from(devices);
    let bought = owned.bought_usd() / count;
    let saved = (usd_per_device_hour - owned.running_usd_per_hour() / count) * MONTH_HOURS;
    Some(BreakEven {
        used_ratio: own / usd_per_device_hour,
        months: (saved > 0.0).then(|| bought / saved),
    })
}

/// Devices of another class that do as much as `devices` of one, by their peaks in the same unit, rounded up.
pub fn as_many(devices: f64, own_peak: f64, other_peak: f64) -> Option<f64> {
    (own_peak > 0.0 && other_peak > 0.0).then(|| (devices * own_peak / other_peak).ceil())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine of eight for 300,000 USD, 20 % for what is around it, written off over four years.
    const MACHINE: Owned = Owned {
        capex_usd: 300_000.0,
        years: 4.0,
        residual: 0.0,
        overhead: 0.2,
        kw: 10.0,
        pue: 1.3,
        usd_per_kwh: 0.1,
        other_usd_per_hour: 0.7,
    };

    fn near(found: f64, expected: f64) {
        assert!(
            (found - expected).abs() < 1e-6 * expected.abs(),
            "{found} is not {expected}"
        );
    }

    #[test]
    fn what_is_committed_is_paid_at_its_peak_and_the_rest_by_the_hour() {
        let demand = DevicesUsed {
            mean: 40.0,
            peak: 64.0,
        };
        near(
            demand.usd_per_month(Payment::OnDemand, 2.0),
            40.0 * 2.0 * 730.0,
        );
        near(demand.usd_per_month(Payment::Spot, 1.0), 40.0 * 730.0);
        near(
            demand.usd_per_month(Payment::Reserved, 1.5),
            64.0 * 1.5 * 730.0,
        );
        near(
            demand.usd_per_month(Payment::Owned, 1.5),
            64.0 * 1.5 * 730.0,
        );
    }

    #[test]
    fn buying_pays_off_above_a_share_of_use_and_after_so_many_months() {
        // By hand: 360,000 over 35,040 h is 10.274 USD/h, energy 1.3, other 0.7: 12.274 of eight is 1.53425 a device.
        near(
            MACHINE.usd_per_device_hour(8).expect("known"),
            1.534_246_575,
        );
        let even = break_even(3.0, &MACHINE, 8).expect("known");
        near(even.used_ratio, 0.511_415_525);
        // 45,000 a device; an hour saves 3 less 0.25: 2,007.5 a month.
        near(even.months.expect("it pays"), 22.415_940_224);
        // Dearer to run than to rent: never.
        let cheap = break_even(0.2, &MACHINE, 8).expect("known");
        assert!(cheap.months.is_none() && cheap.used_ratio > 1.0);
        assert_eq!(break_even(3.0, &MACHINE, 0), None);
        assert_eq!(break_even(0.0, &MACHINE, 8), None);
    }

    #[test]
    fn another_class_is_counted_by_its_peak() {
        assert_eq!(as_many(64.0, 989.0, 459.0), Some(138.0));
        assert_eq!(as_many(64.0, 989.0, 0.0), None);
    }
}
