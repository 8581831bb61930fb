//! Sums of the ledger: device time, energy and where each dollar went.

use std::ops::AddAssign;

use super::row::UsageKey;

/// Where a dollar went. Each dollar is in exactly one of these.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(usize)]
pub enum CostPart {
    /// Allocated and at work.
    Useful,
    /// Allocated and at work, below [`super::UNDER_USED_BELOW`].
    UnderUsed,
    /// Allocated and known to do nothing.
    Idle,
    /// Allocated, and no fresh reading says whether it works.
    NotRead,
    /// Held by nobody.
    Unallocated,
    /// Held by nobody, and out of service.
    OutOfService,
    /// Allocated to a run that failed, since its last checkpoint.
    LostToFailure,
    /// Allocated to a run that was preempted or evicted, since its last checkpoint.
    LostToPreemption,
}

impl CostPart {
    /// Every part.
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

    /// As people read it.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Useful => "useful",
            Self::UnderUsed => "under-used",
            Self::Idle => "idle",
            Self::NotRead => "not read",
            Self::Unallocated => "unallocated",
            Self::OutOfService => "out of service",
            Self::LostToFailure => "lost to failure",
            Self::LostToPreemption => "lost to preemption",
        }
    }

    /// As in names of fields: `under_used`.
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

/// What the ledger is summed by.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Dimension {
    /// Pool.
    Pool,
    /// Class of device.
    Class,
    /// How the hours are paid.
    Billing,
    /// Zone.
    Zone,
    /// Namespace.
    Namespace,
    /// Team.
    Team,
    /// Queue.
    Queue,
    /// Kind of the object that owns the pods.
    Owner,
    /// Job: `namespace/name`.
    Job,
    /// Models that are served.
    Model,
}

impl Dimension {
    /// Every dimension.
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

    /// As on the command line, and as the column of the ledger is called.
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
    /// Only this team's.
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

/// A sum of rows. Times are milliseconds of whole devices, money micro-USD.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct UsageTotals {
    /// Allocated and at work.
    pub busy_ms: i64,
    /// Allocated and known to do nothing.
    pub idle_ms: i64,
    /// Allocated, not known whether it works.
    pub not_read_ms: i64,
    /// Held by nobody.
    pub unallocated_ms: i64,
    /// Held by nobody, and out of service.
    pub out_of_service_ms: i64,
    /// Not known at all.
    pub unobserved_ms: i64,
    /// Of the allocated time, that of runs that failed.
    pub lost_failure_ms: i64,
    /// Of the allocated time, that of runs that were preempted or evicted.
    pub lost_preemption_ms: i64,
    /// It is not known which runs failed or were preempted: what they lost stands in the parts that it was used as.
    pub losses_unknown: bool,
    /// Of the allocated time, that of devices with a price.
    pub priced_allocated_ms: i64,
    /// Of the busy time, that of devices with a price.
    pub priced_busy_ms: i64,
    /// All observed time of devices without a price.
    pub unpriced_ms: i64,
    /// All observed time of spot devices.
    pub spot_ms: i64,
    /// Of it, the time whose price on demand is known.
    pub spot_listed_ms: i64,
    /// What that time would have cost on demand, less what it cost, micro-USD; `None` where there is none.
    pub spot_saved_micros: Option<i64>,
    /// Jobs that ended well; `None` where the ledger did not count them in all of the span.
    pub finished: Option<i64>,
    /// Energy, mWh; `None` where no counter was read.
    pub energy_mwh: Option<i64>,
    /// Where each dollar went, by [`CostPart`]; `None` where no device has a price.
    pub parts_micros: Option<[i64; 8]>,
}

impl UsageTotals {
    /// Device time that somebody held.
    pub fn allocated_ms(&self) -> i64 {
        self.busy_ms + self.idle_ms + self.not_read_ms
    }

    /// Device time for which there are pictures.
    pub fn observed_ms(&self) -> i64 {
        self.allocated_ms() + self.unallocated_ms + self.out_of_service_ms
    }

    /// Cost, micro-USD: the sum of its parts. `None` where no device has a price.
    pub fn cost_micros(&self) -> Option<i64> {
        self.parts_micros.map(|parts| parts.iter().sum())
    }

    /// What one part cost, micro-USD.
    pub fn part_micros(&self, part: CostPart) -> Option<i64> {
        let is_loss = matches!(part, CostPart::LostToFailure | CostPart::LostToPreemption);
        let parts = self
            .parts_micros
            .filter(|_| !(is_loss && self.losses_unknown));
        parts.map(|parts| parts[part as usize])
    }

    /// USD for an allocated device-hour: all cost of the row over the hours that were allocated.
    pub fn usd_per_allocated_hour(&self) -> Option<f64> {
        per_hour(self.cost_micros()?, self.priced_allocated_ms)
    }

    /// USD for a busy device-hour: all cost of the row over the hours that were worked.
    pub fn usd_per_busy_hour(&self) -> Option<f64> {
        per_hour(self.cost_micros()?, self.priced_busy_ms)
    }

    /// USD for a job that ended well: all cost of the row over these jobs. `None` where none ended well, and where some of the
    /// allocated time has no price.
    pub fn usd_per_finished_job(&self) -> Option<f64> {
        let jobs = self.finished.filter(|jobs| *jobs > 0)?;
        let is_priced = self.priced_allocated_ms == self.allocated_ms();
        Some(self.cost_micros().filter(|_| is_priced)? as f64 / 1e6 / jobs as f64)
    }

    /// Time of spot devices whose price on demand is not known, milliseconds.
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
        self.parts_micros = match (self.parts_micros, other.parts_micros) {
            (Some(mut a), Some(b)) => {
                a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
                Some(a)
            }
            // Devices without a price are left out of the sum, and counted in `unpriced_ms`.
            (a, b) => a.or(b),
        };
    }
}

/// A sum by some dimensions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UsageSum {
    /// The values of the dimensions, in their order; empty for what has none.
    pub names: Vec<String>,
    /// Which step of the span it is of, from 0.
    pub step: usize,
    /// The sums.
    pub totals: UsageTotals,
}

/// An hourly row as it is kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HourRow {
    /// Whole hours since the Unix epoch, UTC.
    pub hour: i64,
    /// Nothing more comes of the hour.
    pub closed: bool,
    /// What tells it apart.
    pub key: UsageKey,
    /// The sums.
    pub totals: UsageTotals,
}
