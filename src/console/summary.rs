//! What the header says of the fleet, or of the part of it that one works in.

use model::base::Rate;
use model::cost::Spend;
use model::fleet::Fleet;
use model::fleet::finding::Severity;
use model::fleet::job::JobState;
use table::Facts;

/// What the header says, worked out once a picture.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Summary {
    /// True while the lists that it sums up are still being read: nothing of it is known yet.
    pub unread: bool,
    /// Devices: all of them, or those that the scope holds.
    pub devices: u32,
    /// Not all devices are in sight: there are those at least.
    pub more_devices: bool,
    /// Share of the devices that are held, 0 to 1; of the whole fleet only.
    pub allocated: Option<f64>,
    /// Jobs that wait.
    pub waiting_jobs: u64,
    /// Devices that they want.
    pub waiting_devices: u64,
    /// Findings to act on.
    pub crit: u64,
    /// Findings to look at.
    pub warn: u64,
    /// Mean utilization over devices that know theirs.
    pub util: Option<f64>,
    /// Money an hour; `None` when no device has a price.
    pub money: Option<Spend>,
    /// Money an hour for what does no work: free, or held idle; `None` where it is not known.
    pub idle: Option<Rate>,
}

/// Mean utilization of the fleet, 0 to 1, over pools that know theirs.
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
    /// Counts, means and money of what the scope leaves.
    pub fn of(facts: &Facts) -> Self {
        let fleet = &facts.fleet;
        let mut summary = Self {
            unread: !fleet.unread().is_empty(),
            ..Self::default()
        };
        if summary.unread {
            return summary;
        }
        for job in fleet.jobs.iter().filter(|job| facts.has_job(job)) {
            if job.state == JobState::Waiting {
                summary.waiting_jobs += 1;
                summary.waiting_devices += u64::from(job.devices_requested);
            }
        }
        for finding in fleet.findings.iter() {
            if !facts.concerns(&finding.subject) {
                continue;
            }
            if facts.silences.of(finding, facts.now).is_some() {
                continue;
            }
            summary.crit += u64::from(finding.severity == Severity::Crit);
            summary.warn += u64::from(finding.severity == Severity::Warn);
        }
        match facts.part {
            None => summary.whole(facts),
            Some(_) => summary.part(facts),
        }
        summary.money = facts.burn.known().filter(|_| facts.burn.devices > 0);
        summary.idle = summary
            .money
            .and_then(|spend| table::pools::waste(facts, &spend));
        summary
    }

    fn whole(&mut self, facts: &Facts) {
        let counts = facts.fleet.visible_counts();
        self.devices = facts.fleet.device_counts().total;
        self.more_devices = counts.total.is_none();
        self.allocated = counts.allocation();
        self.util = fleet_util(&facts.fleet);
    }

    /// What the scope's jobs hold.
    fn part(&mut self, facts: &Facts) {
        let (mut sum, mut known) = (0.0, 0u32);
        for (_, device) in facts
            .fleet
            .devices()
            .filter(|(_, one)| facts.has_device(one))
        {
            self.devices += 1;
            if let Some(util) = device.util().filter(|_| !device.is_stale(facts.now)) {
                sum += util;
                known += 1;
            }
        }
        self.util = (known > 0).then(|| sum / f64::from(known));
    }
}
