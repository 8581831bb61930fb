//! Jobs that are evicted so that another starts, as answers, refusals and forecasts name them.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::base::quantities::counted;

use super::{JobName, Loss, Plan};

/// Of many so many are named in a sentence.
const NAMED: usize = 5;

/// A job that is evicted so that another starts.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evicted {
    pub job: JobName,
    /// Devices that its pods hold and give back; 0 where none of them has a node.
    pub devices: u64,
    /// Devices of the quota that the job gives back when none of its pods has a node; otherwise 0.
    #[serde(default)]
    pub quota_devices: u64,
    /// Why it may be evicted: `in-queue`, `reclaim`, `reclaim-while-borrowing`, `fair-sharing`, `drained`, `by-hand`; `preempted`
    /// where no rule is told.
    pub reason: String,
    /// Device-seconds of work since its last checkpoint, which is lost.
    pub lost_device_seconds: i64,
}

/// Jobs that a start would evict, where known before a plan is made.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KnownVictims {
    pub jobs: BTreeSet<JobName>,
    /// True for the victims of a plan that is or was shown; false for those that the job's page names.
    pub is_read: bool,
}

impl KnownVictims {
    /// Jobs that a stored plan stops.
    pub fn read(plan: &Plan) -> Self {
        Self {
            jobs: plan.stops().cloned().collect(),
            is_read: true,
        }
    }

    /// Jobs that a page names.
    pub fn shown(jobs: BTreeSet<JobName>) -> Self {
        Self {
            jobs,
            is_read: false,
        }
    }
}

impl Loss {
    /// What so many of its devices lose.
    pub fn part(&self, devices: u32, all: u32) -> Self {
        let (devices, all) = (u64::from(devices), u64::from(all.max(1)));
        let micro_usd = self.micro_usd.map(|whole| {
            let part = i128::from(whole) * i128::from(devices) / i128::from(all);
            i64::try_from(part).unwrap_or(whole)
        });
        Self {
            device_seconds: self
                .device_seconds
                .map(|whole| whole.saturating_mul(devices) / all),
            micro_usd,
            by_list: self.by_list,
            since: self.since,
        }
    }

    /// Lost work in tenths of device-hours, as rows show it. Sums add these, so that they match the rows.
    pub fn tenths(&self) -> Option<u64> {
        let tenths = (u128::from(self.device_seconds?) * 10 + 1_800) / 3_600;
        u64::try_from(tenths).ok()
    }
}

impl Evicted {
    /// Whether it gives back reserved quota and nothing else: it waits itself, and loses no work.
    pub fn only_releases_quota(&self) -> bool {
        self.devices == 0 && self.quota_devices > 0
    }
}

/// `t/new (8 devices, 8.1 device-hours of work lost)`, one after the other; empty for none. Of a job that holds no devices:
/// `t/waits (no devices allocated: releases its quota for 8 devices)`.
pub fn evicted_words(all: &[Evicted]) -> String {
    let one = |it: &Evicted| {
        if it.only_releases_quota() {
            let quota = counted(it.quota_devices, "device");
            return format!(
                "{} (no devices allocated: releases its quota for {quota})",
                it.job
            );
        }
        let devices = counted(it.devices, "device");
        let hours = it.lost_device_seconds as f64 / 3_600.0;
        format!(
            "{} ({devices}, {hours:.1} device-hours of work lost)",
            it.job
        )
    };
    let mut words: Vec<String> = all.iter().take(NAMED).map(one).collect();
    if all.len() > NAMED {
        let rest = &all[NAMED..];
        let devices = counted(rest.iter().map(|it| it.devices).sum(), "device");
        words.push(format!("{} more ({devices})", rest.len()));
    }
    words.join(", ")
}
