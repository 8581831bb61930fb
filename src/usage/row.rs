//! One hour of the usage ledger: rows, their keys, and work lost later.

use model::base::Name;
use model::fleet::node::Billing;

/// Key of a row. For unallocated devices, namespace, team, queue, owner, job and model are empty.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct UsageKey {
    /// Pool of the node.
    pub pool: Name,
    /// Class of the device, `H100`.
    pub class: Name,
    /// Billing mode of the node, if known.
    pub billing: Option<Billing>,
    /// Zone of the node; empty where it is not known.
    pub zone: Name,
    /// Namespace of the pod to which the device is allocated.
    pub namespace: Name,
    pub team: Name,
    /// Queue; empty where the job has none.
    pub queue: Name,
    /// Kind of the object that owns the pods, `JobSet`.
    pub owner: Name,
    /// Name of that object.
    pub job: Name,
    /// Models that the job serves, if its pods name them.
    pub model: Name,
    /// Which book and row, or which setting, the price came from; empty where no price is known.
    pub price_source: Name,
    /// The date of the price, `2026-07-20`; empty for the operator's own and where no price is known.
    pub price_as_of: Name,
}

/// Use of a device. Each moment of a device belongs to exactly one part.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(usize)]
pub enum UsageClass {
    Useful,
    /// Allocated and working, below [`super::UNDER_USED_BELOW`].
    UnderUsed,
    /// Allocated and idle for longer than the grace period of `[idle]`.
    Idle,
    /// Allocated, without a fresh reading.
    NotRead,
    Unallocated,
    /// Unallocated, and on a cordoned or NotReady node, or unhealthy.
    OutOfService,
}

impl UsageClass {
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
    /// Key of the row.
    pub key: UsageKey,
    /// Device time of each [`UsageClass`], milliseconds of whole devices.
    pub device_ms: [u64; 6],
    /// Unobserved device time, milliseconds: no snapshot was taken, a list was lost, or an apparently free device may be
    /// allocated to a pod that is not visible. Counts the devices of the hour's last snapshot.
    pub unobserved_ms: u64,
    /// Energy from the devices' own counters, mWh; `None` without readings.
    pub energy_mwh: Option<u64>,
    /// Cost of each [`UsageClass`], micro-USD; `None` where no price is known.
    pub cost_micros: Option<[i64; 6]>,
    /// On-demand cost of the same time, micro-USD; `None` for time that is not spot, or without a price.
    pub on_demand_micros: Option<i64>,
}

/// A job that completed successfully.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct FinishedJob {
    /// The row with most of its devices when it last had any allocated. Without pool, class, billing, zone and price where it
    /// was never seen with devices.
    pub key: UsageKey,
    /// First snapshot that shows the end, milliseconds since the Unix epoch.
    pub seen_ms: i64,
}

/// How a run ended badly.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LossCause {
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

/// Lost work of a failed or evicted run in one row: subtracted from its allocated parts and counted as lost. The row is unchanged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UsageLoss {
    pub key: UsageKey,
    /// How the run ended.
    pub cause: LossCause,
    /// First snapshot that shows the end, milliseconds since the Unix epoch.
    pub seen_ms: i64,
    /// Device time of the first [`UsageClass::ALLOCATED`] parts, milliseconds.
    pub device_ms: [u64; UsageClass::ALLOCATED],
    /// Their cost, micro-USD; `None` where no price is known.
    pub cost_micros: Option<[i64; UsageClass::ALLOCATED]>,
}

/// A failed or evicted run. The usage ledger books its loss in hours that are already closed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunLoss {
    pub cause: LossCause,
    /// First snapshot that shows the end, milliseconds since the Unix epoch.
    pub seen_ms: i64,
    /// Namespace of the job.
    pub namespace: Name,
    /// Kind of the job.
    pub owner: Name,
    pub job: Name,
    /// When devices were allocated to the run, milliseconds since the Unix epoch.
    pub began_ms: i64,
    /// Start of the lost work: the last known checkpoint, otherwise the start of the run.
    pub lost_since_ms: i64,
    /// The fold has counted the loss from this hour on; earlier hours were closed.
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

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HourUsage {
    /// Whole hours since the Unix epoch, UTC.
    pub hour: i64,
    /// The hour is final.
    pub closed: bool,
    /// Time covered by snapshots, milliseconds.
    pub observed_ms: u64,
    /// How far the fold has progressed in the hour, milliseconds.
    pub until_ms: u64,
    /// Its rows, by key.
    pub rows: Vec<UsageRow>,
    /// Work that failed or evicted runs lost in the hour.
    pub losses: Vec<UsageLoss>,
    /// Jobs that completed successfully in the hour.
    pub finished: Vec<FinishedJob>,
}
