//! Settings: layers merged into values that know their origin.
//!
//! Pure: texts, variables and flags are passed in. `config/stokehold.toml` is the base layer and the only place where a default
//! is written.

mod address;
mod budget;
mod check;
mod engine;
mod load;
mod notify;
mod number;
mod origin;
mod place;
mod rulebook;
mod service;
mod show;
#[cfg(test)]
mod tests;
mod types;
pub mod variables;

use std::sync::Arc;

pub use address::{not_a_receiver, not_an_address};
pub use budget::BudgetSettings;
pub use engine::{
    Depth, EngineSettings, FairSharing, PlacementName, RouteFlavor, RouteMatchSettings,
    RouteSettings,
};
pub use load::{Inputs, SettingsText, keys, load, variable_of_key};
pub use notify::NotifySettings;
pub use number::{
    Amount, ColorChoice, DurationSetting, OneOrMany, Paid, PoolModeSetting, Positive, Pue, Ratio,
    ScrapeMode, Size, Usd,
};
pub use origin::{Layer, Origin, Origins};
pub use place::{Matcher, ServicePath};
pub use rulebook::{Rulebook, Texts};
pub use service::{LatencySetting, ServiceMatch, ServiceSettings};
pub use show::print;
pub use types::{
    CostSettings, Idle, Labels, OwnedDefaults, OwnedSettings, PoolPriceSettings, PoolSettings,
    PriceOverride, PriceSettings, Prometheus, Recording, RemoteWriteSettings, Scope, Scrape,
    ScrapeTarget, Settings, ShellSettings, TcoMachine, TcoSettings, TeamMatch, TeamSettings,
};

use model::cost::{Override, Owned, PoolPrice};
use model::fleet::accelerator::Catalog;
use model::fleet::policy::{Policy, PoolRule, TeamRule};
use usage::EnergyRates;

pub const DEFAULTS: &str = include_str!("../../config/stokehold.toml");

impl Settings {
    /// The rules that map raw labels to pools, teams, queues and idleness.
    pub fn policy(&self, catalog: Arc<Catalog>) -> Policy {
        Policy {
            catalog,
            pools: self.pool.iter().map(PoolSettings::rule).collect(),
            pool_labels: self.labels.pool.clone(),
            rack_labels: self.labels.rack.clone(),
            teams: self.team.iter().map(TeamSettings::rule).collect(),
            team_labels: self.labels.team.clone(),
            queue_labels: self.labels.queue.clone(),
            idle_util_below: self.idle.util_below.get(),
            idle_power_factor: self.idle.power_factor.get(),
            idle_grace: self.idle.grace.duration(),
            engine: self.engine_rules(),
            services: self.service.iter().map(ServiceSettings::rule).collect(),
            ..Policy::default()
        }
    }
}

impl CostSettings {
    /// Energy cost and emission rates.
    pub fn energy(&self) -> EnergyRates {
        EnergyRates {
            usd_per_kwh: self.usd_per_kwh.map(Positive::get),
            pue: self.pue.map(Pue::get),
            kg_co2e_per_kwh: self.kg_co2e_per_kwh.map(Amount::get),
        }
    }
}

impl PoolSettings {
    fn rule(&self) -> PoolRule {
        PoolRule {
            name: self.name.clone(),
            labels: self.labels.clone().into_iter().collect(),
            mode: self.mode.map(|mode| mode.0),
            billing: self.billing.map(|billing| billing.0),
            owner: self.owner.clone(),
            min: self.min,
            max: self.max,
        }
    }
}

impl TeamSettings {
    fn rule(&self) -> TeamRule {
        TeamRule {
            name: self.name.clone(),
            namespaces: self.wanted.namespace.0.clone(),
            queues: self.wanted.queue.0.clone(),
            labels: self.wanted.label.clone().into_iter().collect(),
        }
    }
}

impl PriceOverride {
    fn rule(&self) -> Override {
        Override {
            instance: self.instance.clone(),
            class: self.class.clone(),
            billing: self.billing.map(|billing| billing.0),
            rate: self.usd_per_device_hour.rate(),
        }
    }
}

impl PoolPriceSettings {
    fn of(&self, defaults: &OwnedDefaults) -> PoolPrice {
        match self {
            Self::Rate(usd) => PoolPrice::Rate(usd.rate()),
            Self::Multiplier(factor) => PoolPrice::Multiplier(factor.get()),
            Self::Owned(owned) => PoolPrice::Owned(owned.of(defaults)),
        }
    }
}

impl OwnedSettings {
    /// Cost of a machine. Absent values come from `prices.owned`.
    pub fn of(&self, defaults: &OwnedDefaults) -> Owned {
        Owned {
            capex_usd: self.capex_usd.get(),
            years: self.years.unwrap_or(defaults.years).get(),
            residual: self.residual.unwrap_or(defaults.residual).get(),
            overhead: self.overhead.unwrap_or(defaults.overhead).get(),
            kw: self.kw.get(),
            pue: self.pue.unwrap_or(defaults.pue).get(),
            usd_per_kwh: self.usd_per_kwh.unwrap_or(defaults.usd_per_kwh).get(),
            other_usd_per_hour: self
                .other_usd_per_hour
                .unwrap_or(defaults.other_usd_per_hour)
                .get(),
        }
    }
}
