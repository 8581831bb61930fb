//! The header's figures for the fleet, or for the current scope.

use model::base::DeviceAmount;
use model::cost::{Money, Spend};
use model::fleet::Fleet;
use model::fleet::finding::Severity;
use model::fleet::job::JobState;
use model::fleet::observe::Table;
use table::Facts;

/// The header's figures, computed once per snapshot.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Summary {
    /// True while the underlying lists are still being read: the figures are unknown.
    pub unread: bool,
    /// Devices: all of them, or those allocated in the scope.
    pub devices: DeviceAmount,
    /// True when some devices are not visible: the count is a lower bound.
    pub more_devices: bool,
    /// Share of the devices that are allocated, 0 to 1; without a scope only.
    pub allocated: Option<f64>,
    pub waiting_jobs: u64,
    /// Devices, and slices of devices, that they request.
    pub waiting_devices: u64,
    /// How many of these are slices.
    pub waiting_slices: u64,
    pub crit: u64,
    pub warn: u64,
    /// Mean utilization of the devices with readings, 0 to 1.
    pub util: Option<f64>,
    /// Rate; `None` when no device has a price.
    pub money: Option<Spend>,
    /// Rate of devices that are free or idle; `None` where unknown.
    pub idle: Option<Money>,
}

/// Mean utilization of the fleet, 0 to 1, over pools with readings.
pub fn fleet_util(fleet: &Fleet) -> Option<f64> {
    let (mut sum, mut devices) = (0.0, 0.0);
    for pool in fleet.pools.iter() {
        if let Some(util) = pool.util {
            sum += util * f64::from(pool.devices.total);
            devices += f64::from(pool.devices.total);
        }
    }
    (devices > 0.0).then(|| sum / devices)
}

impl Summary {
    /// Counts, means and rates within the scope.
    pub fn of(facts: &Facts) -> Self {
        let fleet = &facts.fleet;
        let mut summary = Self {
            unread: !fleet.unread().is_empty(),
            ..Self::default()
        };
        if summary.unread {
            return summary;
        }
        let jobs = fleet.jobs.iter().filter(|job| facts.has_job(job));
        let waits = jobs.filter(|job| job.state == JobState::Waiting);
        summary.waiting_jobs = waits.count() as u64;
        let (all, slices) = table::rows::pools::waiting_devices(facts);
        (summary.waiting_devices, summary.waiting_slices) = (u64::from(all), u64::from(slices));
        for finding in fleet.findings.iter() {
            if !facts.concerns(finding) {
                continue;
            }
            if facts.silences.of(finding, facts.now).is_some() {
                continue;
            }
            summary.crit += u64::from(finding.severity == Severity::Crit);
            summary.warn += u64::from(finding.severity == Severity::Warn);
        }
        // Without nodes only the devices of the visible jobs are known: they are a scope.
        let is_confined = fleet.is_hidden(Table::Nodes) && !fleet.confined_to().is_empty();
        match facts.part {
            None if !is_confined => summary.whole(facts),
            _ => summary.part(facts),
        }
        summary.money = facts
            .spend_rates
            .known()
            .filter(|_| !facts.spend_rates.devices.is_zero());
        summary.idle = summary
            .money
            .and_then(|spend| table::rows::pools::waste(facts, &spend));
        summary
    }

    fn whole(&mut self, facts: &Facts) {
        let counts = facts.fleet.visible_counts();
        self.devices = DeviceAmount::whole(facts.fleet.device_counts().total);
        self.more_devices = counts.total.is_none();
        self.allocated = counts.allocation();
        self.util = fleet_util(&facts.fleet);
    }

    /// Figures of the devices of the scope's jobs.
    fn part(&mut self, facts: &Facts) {
        let (mut sum, mut known) = (0.0, 0u32);
        for (_, device) in facts
            .fleet
            .devices()
            .filter(|(_, one)| facts.has_device(one))
        {
            self.devices += facts.held_of(device);
            if let Some(util) = device.util().filter(|_| !device.is_stale(facts.now)) {
                sum += util;
                known += 1;
            }
        }
        self.util = (known > 0).then(|| sum / f64::from(known));
    }
}
