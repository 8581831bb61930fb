//! Sums of the ledger: device time, energy and where each dollar went.

use std::ops::AddAssign;

use super::row::UsageKey;

/// Category of a cost. Each dollar is in exactly one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(usize)]
pub enum CostPart {
    Useful,
    /// Allocated and busy, below [`super::UNDER_USED_BELOW`].
    UnderUsed,
    Idle,
    /// Allocated, without a fresh reading of utilization.
    NotRead,
    Unallocated,
    /// Unallocated and out of service.
    OutOfService,
    /// Allocated to a run that failed, since its last checkpoint.
    LostToFailure,
    /// Allocated to a run that was preempted or evicted, since its last checkpoint.
    LostToPreemption,
}

impl CostPart {
    pub const ALL: [Self; 8] = [
        Self::Useful,
        Self::UnderUsed,
        Self::Idle,
        Self::NotRead,
        Self::Unallocated,
        Self::OutOfService,
        Self::LostToFailure,
        Self::LostToPreemption,
    ];

    pub const fn words(self) -> &'static str {
        match self {
            Self::Useful => "useful",
            Self::UnderUsed => "underutilized",
            Self::Idle => "idle",
            Self::NotRead => "without a reading",
            Self::Unallocated => "unallocated",
            Self::OutOfService => "out of service",
            Self::LostToFailure => "lost to failure",
            Self::LostToPreemption => "lost to preemption",
        }
    }

    pub const fn field(self) -> &'static str {
        match self {
            Self::Useful => "useful",
            Self::UnderUsed => "under_used",
            Self::Idle => "idle",
            Self::NotRead => "not_read",
            Self::Unallocated => "unallocated",
            Self::OutOfService => "out_of_service",
            Self::LostToFailure => "lost_to_failure",
            Self::LostToPreemption => "lost_to_preemption",
        }
    }
}

/// A dimension to group usage by.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Dimension {
    Pool,
    Class,
    Billing,
    Zone,
    Namespace,
    Team,
    Queue,
    /// Kind of the object that owns the pods.
    Owner,
    /// A job, written `namespace/name`.
    Job,
    Model,
}

impl Dimension {
    pub const ALL: [Self; 10] = [
        Self::Pool,
        Self::Class,
        Self::Billing,
        Self::Zone,
        Self::Namespace,
        Self::Team,
        Self::Queue,
        Self::Owner,
        Self::Job,
        Self::Model,
    ];

    /// Name on the command line and of the ledger column.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pool => "pool",
            Self::Class => "class",
            Self::Billing => "billing",
            Self::Zone => "zone",
            Self::Namespace => "namespace",
            Self::Team => "team",
            Self::Queue => "queue",
            Self::Owner => "owner",
            Self::Job => "job",
            Self::Model => "model",
        }
    }

    /// The dimension of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }
}

/// Which rows are meant: of a team, of some namespaces. Neither is all of them.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct UsageFilter {
    pub team: Option<String>,
    /// Only these namespaces'; empty is all.
    pub namespaces: Vec<String>,
}

impl UsageFilter {
    /// True when it leaves nothing out.
    pub fn is_all(&self) -> bool {
        self.team.is_none() && self.namespaces.is_empty()
    }
}

/// A sum of rows. Times are milliseconds of whole devices, money is micro-USD.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct UsageTotals {
    pub busy_ms: i64,
    pub idle_ms: i64,
    /// Allocated without a reading.
    pub not_read_ms: i64,
    pub unallocated_ms: i64,
    /// Unallocated and out of service.
    pub out_of_service_ms: i64,
    pub unobserved_ms: i64,
    /// Allocated time of runs that failed; part of the allocated time.
    pub lost_failure_ms: i64,
    /// Allocated time of runs that were preempted or evicted; part of the allocated time.
    pub lost_preemption_ms: i64,
    /// True when it is not known which runs failed or were preempted: their time stays in busy, idle and not read.
    pub losses_unknown: bool,
    /// Allocated time of devices with a price.
    pub priced_allocated_ms: i64,
    /// Busy time of devices with a price.
    pub priced_busy_ms: i64,
    /// Observed time of devices without a price.
    pub unpriced_ms: i64,
    /// Observed time of spot devices.
    pub spot_ms: i64,
    /// Spot time with a known on-demand price.
    pub spot_listed_ms: i64,
    /// On-demand cost of that time minus its actual cost, micro-USD; `None` where there is no such time.
    pub spot_saved_micros: Option<i64>,
    /// Jobs that succeeded; `None` where the ledger did not count them over the whole span.
    pub finished: Option<i64>,
    /// Energy, mWh; `None` where no counter was read.
    pub energy_mwh: Option<i64>,
    /// Observed time of rows with an energy reading.
    pub metered_ms: i64,
    /// The part of the cost that is list prices in place of what is paid, micro-USD.
    pub list_micros: i64,
    /// Cost by [`CostPart`], micro-USD; `None` where no device has a price.
    pub parts_micros: Option<[i64; 8]>,
}

impl UsageTotals {
    /// Allocated device time, milliseconds.
    pub fn allocated_ms(&self) -> i64 {
        self.busy_ms + self.idle_ms + self.not_read_ms
    }

    /// Observed device time, milliseconds.
    pub fn observed_ms(&self) -> i64 {
        self.allocated_ms() + self.unallocated_ms + self.out_of_service_ms
    }

    /// Share of the observed time with an energy reading, 0 to 1; `None` where nothing was observed.
    pub fn metered_ratio(&self) -> Option<f64> {
        let observed = self.observed_ms();
        (observed > 0).then(|| self.metered_ms as f64 / observed as f64)
    }

    /// Cost, micro-USD: the sum of its parts. `None` where no device has a price.
    pub fn cost_micros(&self) -> Option<i64> {
        self.parts_micros.map(|parts| parts.iter().sum())
    }

    /// Cost of one part, micro-USD.
    pub fn part_micros(&self, part: CostPart) -> Option<i64> {
        let is_loss = matches!(part, CostPart::LostToFailure | CostPart::LostToPreemption);
        let parts = self
            .parts_micros
            .filter(|_| !(is_loss && self.losses_unknown));
        parts.map(|parts| parts[part as usize])
    }

    /// USD per allocated device-hour: all cost of the row over its allocated hours.
    pub fn usd_per_allocated_hour(&self) -> Option<f64> {
        per_hour(self.cost_micros()?, self.priced_allocated_ms)
    }

    /// USD per busy device-hour: all cost of the row over its busy hours. `None` where less than nine tenths of its allocated time was
    /// read: how busy the rest was is not known.
    pub fn usd_per_busy_hour(&self) -> Option<f64> {
        if self.not_read_ms > self.allocated_ms() / 10 {
            return None;
        }
        per_hour(self.cost_micros()?, self.priced_busy_ms)
    }

    /// USD per succeeded job: all cost of the row over these jobs. `None` where no job succeeded, or where some allocated
    /// time has no price.
    pub fn usd_per_finished_job(&self) -> Option<f64> {
        let jobs = self.finished.filter(|jobs| *jobs > 0)?;
        let is_priced = self.priced_allocated_ms == self.allocated_ms();
        Some(self.cost_micros().filter(|_| is_priced)? as f64 / 1e6 / jobs as f64)
    }

    /// Spot time without a known on-demand price, milliseconds.
    pub fn spot_unlisted_ms(&self) -> i64 {
        self.spot_ms - self.spot_listed_ms
    }
}

fn per_hour(micros: i64, ms: i64) -> Option<f64> {
    (ms > 0).then(|| micros as f64 / 1e6 / (ms as f64 / 3.6e6))
}

impl AddAssign for UsageTotals {
    fn add_assign(&mut self, other: Self) {
        self.busy_ms += other.busy_ms;
        self.idle_ms += other.idle_ms;
        self.not_read_ms += other.not_read_ms;
        self.unallocated_ms += other.unallocated_ms;
        self.out_of_service_ms += other.out_of_service_ms;
        self.unobserved_ms += other.unobserved_ms;
        self.lost_failure_ms += other.lost_failure_ms;
        self.lost_preemption_ms += other.lost_preemption_ms;
        self.losses_unknown |= other.losses_unknown;
        self.priced_allocated_ms += other.priced_allocated_ms;
        self.priced_busy_ms += other.priced_busy_ms;
        self.unpriced_ms += other.unpriced_ms;
        self.spot_ms += other.spot_ms;
        self.spot_listed_ms += other.spot_listed_ms;
        let sum = |a: Option<i64>, b: Option<i64>| match (a, b) {
            (Some(a), Some(b)) => Some(a + b),
            (a, b) => a.or(b),
        };
        self.spot_saved_micros = sum(self.spot_saved_micros, other.spot_saved_micros);
        self.finished = sum(self.finished, other.finished);
        self.energy_mwh = sum(self.energy_mwh, other.energy_mwh);
        self.metered_ms += other.metered_ms;
        self.list_micros += other.list_micros;
        self.parts_micros = match (self.parts_micros, other.parts_micros) {
            (Some(mut a), Some(b)) => {
                a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
                Some(a)
            }
            // Devices without a price are omitted from the sum and counted in `unpriced_ms`.
            (a, b) => a.or(b),
        };
    }
}

/// A sum grouped by dimensions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UsageSum {
    /// Values of the dimensions, in their order; empty where a row has no value.
    pub names: Vec<String>,
    /// Index of the time step in the span, from 0.
    pub step: usize,
    pub totals: UsageTotals,
}

/// An hourly row as stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HourRow {
    /// Whole hours since the Unix epoch, UTC.
    pub hour: i64,
    /// True when the hour is closed and does not change any more.
    pub closed: bool,
    /// Key of the row.
    pub key: UsageKey,
    pub totals: UsageTotals,
}
