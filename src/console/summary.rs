//! What the header says of a whole fleet.

use crate::fleet::finding::Severity;
use crate::fleet::job::JobState;
use crate::report::Facts;

/// What the header says, worked out once a picture.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Summary {
    /// Jobs that wait.
    pub waiting_jobs: u64,
    /// Devices that they want.
    pub waiting_devices: u64,
    /// Findings to act on.
    pub crit: u64,
    /// Findings to look at.
    pub warn: u64,
    /// Mean utilisation over pools that know theirs, by devices.
    pub util: Option<f64>,
}

impl Summary {
    /// Counts and means of this picture. Findings that somebody muted or took on do not count.
    pub fn of(facts: &Facts) -> Self {
        let fleet = &facts.fleet;
        let mut summary = Self::default();
        for job in fleet.jobs.iter() {
            if job.state == JobState::Waiting {
                summary.waiting_jobs += 1;
                summary.waiting_devices += u64::from(job.devices_requested);
            }
        }
        for finding in fleet.findings.iter() {
            if facts.hushed.of(finding, facts.now).is_some() {
                continue;
            }
            summary.crit += u64::from(finding.severity == Severity::Crit);
            summary.warn += u64::from(finding.severity == Severity::Warn);
        }
        let (mut sum, mut devices) = (0.0, 0.0);
        for pool in fleet.pools.iter() {
            if let Some(util) = pool.util {
                sum += util * f64::from(pool.devices.total);
                devices += f64::from(pool.devices.total);
            }
        }
        summary.util = (devices > 0.0).then(|| sum / devices);
        summary
    }
}
