//! What energy costs and emits, by the operator's own figures.

/// The figures of `[cost]` in the settings. What is not set is unknown.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct EnergyRates {
    /// USD for a kWh.
    pub usd_per_kwh: Option<f64>,
    /// Power usage effectiveness: energy of the building over that of the equipment, from 1.
    pub pue: Option<f64>,
    /// Carbon, kg of CO2 equivalents for a kWh.
    pub kg_co2e_per_kwh: Option<f64>,
}

impl EnergyRates {
    /// Energy at the meter of the building, kWh: that of the devices times the PUE, and that of the devices alone without one.
    fn metered_kwh(self, mwh: i64) -> f64 {
        mwh as f64 / 1e6 * self.pue.unwrap_or(1.0)
    }

    /// What the energy of devices costs, USD.
    pub fn usd(self, mwh: Option<i64>) -> Option<f64> {
        Some(self.metered_kwh(mwh?) * self.usd_per_kwh?)
    }

    /// What the energy of devices emits, kg of CO2 equivalents.
    pub fn kg_co2e(self, mwh: Option<i64>) -> Option<f64> {
        Some(self.metered_kwh(mwh?) * self.kg_co2e_per_kwh?)
    }
}
