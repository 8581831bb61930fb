//! One hour of the ledger: its rows, what they are told apart by, and what was lost of them later.

use crate::base::Name;
use crate::fleet::node::Billing;

/// What a row is told apart by. What nobody holds has no namespace, team, queue, owner, job and model.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct UsageKey {
    /// Pool of the node.
    pub pool: Name,
    /// Class of the device, `H100`.
    pub class: Name,
    /// How the node's hours are paid, where anything says so.
    pub billing: Option<Billing>,
    /// Zone of the node; empty where it is not known.
    pub zone: Name,
    /// Namespace of the pod that holds the device.
    pub namespace: Name,
    /// Team.
    pub team: Name,
    /// Queue; empty where the job has none.
    pub queue: Name,
    /// Kind of the object that owns the pods, `JobSet`.
    pub owner: Name,
    /// Name of that object.
    pub job: Name,
    /// Models that it serves, where its pods tell.
    pub model: Name,
    /// Which book and row, or which setting, the price came from; empty where no price is known.
    pub price_source: Name,
    /// The date of the price, `2026-07-20`; empty for the operator's own and where no price is known.
    pub price_as_of: Name,
}

/// What a device was used for. Each moment of a device is in exactly one of these.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(usize)]
pub enum Part {
    /// Allocated and at work.
    Useful,
    /// Allocated and at work, below [`super::UNDER_USED_BELOW`].
    UnderUsed,
    /// Allocated and known to do nothing for longer than the grace of `[idle]`.
    Idle,
    /// Allocated, and no fresh reading says whether it works.
    NotRead,
    /// Held by nobody.
    Unallocated,
    /// Held by nobody, and on a cordoned node, on one that is not ready, or faulty.
    OutOfService,
}

impl Part {
    /// Every part, in the order in which it is cut from the whole.
    pub const ALL: [Self; 6] = [
        Self::Useful,
        Self::UnderUsed,
        Self::Idle,
        Self::NotRead,
        Self::Unallocated,
        Self::OutOfService,
    ];

    /// The parts of allocated time, which are the first ones: what a run that ends badly can lose.
    pub const ALLOCATED: usize = 4;
}

/// One row of an hour.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UsageRow {
    /// What it is told apart by.
    pub key: UsageKey,
    /// Device time of each [`Part`], milliseconds of whole devices.
    pub device_ms: [u64; 6],
    /// Device time of which nothing is known: no picture was made, a list was lost, or what looks free may be held by a pod
    /// that is not visible. It counts the devices of the hour's last picture.
    pub unobserved_ms: u64,
    /// Energy by the devices' own counters, mWh; `None` where none was read.
    pub energy_mwh: Option<u64>,
    /// Cost of each [`Part`], micro-USD; `None` where no price is known.
    pub cost_micros: Option<[i64; 6]>,
    /// What the same time would have cost on demand, micro-USD; `None` where it is no spot time, or a price is not known.
    pub on_demand_micros: Option<i64>,
}

/// A job that ended well.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct FinishedJob {
    /// The row that it counts in: of those that it had when it last held devices, the one with most. Without pool, class, billing,
    /// zone and price where it was not seen to hold any.
    pub key: UsageKey,
    /// The first picture that shows the end, milliseconds since the Unix epoch.
    pub seen_ms: i64,
}

/// How a run ended badly.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LossCause {
    /// The job failed.
    Failure,
    /// It was preempted or evicted.
    Preemption,
}

impl LossCause {
    /// As in the ledger's file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Failure => "failure",
            Self::Preemption => "preemption",
        }
    }
}

/// What a run that ended badly had of a row: taken off its allocated parts, and counted as lost. The row itself stays.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UsageLoss {
    /// The row.
    pub key: UsageKey,
    /// How the run ended.
    pub cause: LossCause,
    /// The first picture that shows the end, milliseconds since the Unix epoch.
    pub seen_ms: i64,
    /// Device time of the first [`Part::ALLOCATED`] parts, milliseconds.
    pub device_ms: [u64; Part::ALLOCATED],
    /// Their cost, micro-USD; `None` where no price is known.
    pub cost_micros: Option<[i64; Part::ALLOCATED]>,
}

/// A run that ended badly: what it had of hours that are closed is booked by whoever keeps them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunLoss {
    /// How it ended.
    pub cause: LossCause,
    /// The first picture that shows the end, milliseconds since the Unix epoch.
    pub seen_ms: i64,
    /// Namespace of the job.
    pub namespace: Name,
    /// Kind of the job.
    pub owner: Name,
    /// Name of the job.
    pub job: Name,
    /// Since when the run held devices, milliseconds since the Unix epoch.
    pub began_ms: i64,
    /// Since when its work is lost: since its last checkpoint that is known, else since it began.
    pub lost_since_ms: i64,
    /// From this hour on the fold itself has counted the loss: earlier ones were closed.
    pub booked_from: i64,
}

impl RunLoss {
    /// Of the run's time in the hour, the share that is lost: numerator and denominator in milliseconds. A checkpoint within
    /// the hour divides the hour by time. `None` where nothing of the hour is.
    pub fn share_of(&self, hour: i64) -> Option<(u64, u64)> {
        let start = hour * super::HOUR_MS;
        let end = (start + super::HOUR_MS).min(self.seen_ms);
        let lost = end - self.lost_since_ms.max(start);
        let all = end - self.began_ms.max(start);
        let span = |ms: i64| u64::try_from(ms).ok().filter(|ms| *ms > 0);
        Some((span(lost)?, span(all)?)).filter(|(lost, all)| lost <= all)
    }
}

/// An hour as far as it is known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HourUsage {
    /// Whole hours since the Unix epoch, UTC.
    pub hour: i64,
    /// Nothing more comes of it.
    pub closed: bool,
    /// For how much of it there are pictures, milliseconds.
    pub observed_ms: u64,
    /// How far into it the fold has come, milliseconds.
    pub until_ms: u64,
    /// Its rows, by key.
    pub rows: Vec<UsageRow>,
    /// What runs that ended badly within it had of it.
    pub losses: Vec<UsageLoss>,
    /// Jobs that were seen to have ended well within it.
    pub finished: Vec<FinishedJob>,
}
