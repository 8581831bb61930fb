//! Flags of the simulated fleet, for `sim` and `demo`.

use std::net::SocketAddr;
use std::sync::Arc;

use clap::Args;

use model::base::{Exit, Failure, Moment};
use model::fleet::policy::ServiceRule;
use model::fleet::served_model::Objectives;
use settings::Rulebook;

use super::listen;

/// The rules for the simulated fleet: its model servers promise latencies where the settings have no `[[service]]`, so
/// that goodput is shown.
pub(crate) fn rules(mut rulebook: Rulebook) -> Rulebook {
    if rulebook.policy.services.is_empty() {
        Arc::make_mut(&mut rulebook.policy).services = services();
    }
    rulebook
}

fn services() -> Vec<ServiceRule> {
    let rule = |namespaces: &[&str], ttft: f64, tpot: f64| ServiceRule {
        namespaces: namespaces.iter().map(|name| (*name).to_owned()).collect(),
        names: Vec::new(),
        models: Vec::new(),
        objectives: Objectives {
            ttft: Some(ttft),
            tpot: Some(tpot),
        },
    };
    vec![rule(&["prod"], 0.5, 0.05), rule(&[], 2.0, 0.08)]
}

/// Which fleet to simulate.
#[derive(Args, Clone, Copy, PartialEq, Debug)]
pub struct FleetFlags {
    /// Number of nodes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000), conflicts_with = "devices")]
    pub nodes: Option<u32>,
    /// Number of devices
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub devices: Option<u32>,
    /// Seed: with the same `--at`, the same seed gives the same fleet
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// Speed of simulated time; 0 pauses
    #[arg(long, value_name = "X", default_value = "1", value_parser = speed, allow_negative_numbers = true)]
    pub speed: f64,
    /// Its time at the start, RFC 3339; now without it
    #[arg(long, value_name = "T", value_parser = moment)]
    pub at: Option<Moment>,
}

impl FleetFlags {
    /// Refuses flags of a simulated fleet where a command has another source; `need` says what they need.
    pub fn refuse_unless(self, is_demo: bool, command: &str, need: &str) -> Result<(), Failure> {
        if is_demo || self == Self::default() {
            return Ok(());
        }
        let message = format!(
            "{command}: --nodes, --devices, --seed, --speed and --at describe the simulated fleet and need {need}"
        );
        Err(Failure::new(Exit::Usage, message))
    }
}

impl Default for FleetFlags {
    fn default() -> Self {
        Self {
            nodes: None,
            devices: None,
            seed: 1,
            speed: 1.0,
            at: None,
        }
    }
}

/// Where to serve it.
#[derive(Args, Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServeFlags {
    /// Address of the Kubernetes API: ADDRESS:PORT, or :PORT for all interfaces; port 0 picks one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0", value_parser = listen::address)]
    pub listen: SocketAddr,
    /// Also serve the exporters' pages at this address
    #[arg(long, value_name = "ADDR", value_parser = listen::address)]
    pub exporters: Option<SocketAddr>,
    /// Also serve the Prometheus HTTP API at this address
    #[arg(long, value_name = "ADDR", value_parser = listen::address)]
    pub prometheus: Option<SocketAddr>,
}

impl ServeFlags {
    /// A warning for each address that other machines may reach.
    pub fn warnings(&self) -> Vec<String> {
        let login = "its users log in with the tokens of the kubeconfig";
        let all = [
            ("the API", Some(self.listen), login),
            ("the exporters' pages", self.exporters, "they need no login"),
            ("the Prometheus API", self.prometheus, "it needs no login"),
        ];
        all.into_iter()
            .filter_map(|(what, at, guard)| Some((what, at?, guard)))
            .filter(|(_, at, _)| !at.ip().is_loopback())
            .map(|(what, at, guard)| {
                format!("warning: other machines may reach {what} at {at}; {guard}")
            })
            .collect()
    }
}

pub(crate) fn speed(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|speed: &f64| (0.0..=100_000.0).contains(speed))
        .ok_or_else(|| "a speed is a number from 0 to 100000".to_owned())
}

fn moment(text: &str) -> Result<Moment, String> {
    Moment::parse(text).ok_or_else(|| "a time is written as 2026-11-21T06:40:00Z".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_other_machines_may_reach_is_warned_of() {
        let at = |text: &str| text.parse().expect("an address");
        let flags = |listen: &str, prometheus: Option<&str>| ServeFlags {
            listen: at(listen),
            exporters: None,
            prometheus: prometheus.map(at),
        };
        for own in ["127.0.0.1:0", "[::1]:6443", "127.8.0.1:1"] {
            assert!(flags(own, Some(own)).warnings().is_empty(), "{own}");
        }
        for open in ["0.0.0.0:0", "[::]:0", "10.0.0.1:6443"] {
            let warnings = flags(open, Some(open)).warnings();
            assert_eq!(warnings.len(), 2, "{warnings:?}");
            assert!(
                warnings[1].contains(open) && warnings[1].contains("no login"),
                "{warnings:?}"
            );
        }
    }
}
