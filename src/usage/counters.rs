//! Usage counters since process start, which the metrics exporter serves from the ledger's samples.

use std::collections::HashMap;
use std::time::Duration;

use rustc_hash::FxBuildHasher;

use model::base::{Age, Moment, Name, SmallSort};
use model::fleet::node::Billing;

use super::row::{UsageClass, UsageKey};
use super::sample::{DEVICE, SampleRow, UsageSample};
use super::{GAP, HOUR_MS};

/// Key of a counter. Unallocated devices have no namespace, team and queue.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct CounterKey {
    /// Pool of the node; empty on the overflow rows of [`UsageCounters`].
    pub pool: Name,
    /// Class of the device, `H100`.
    pub class: Name,
    /// Billing mode of the node, where known.
    pub billing: Option<Billing>,
    /// Namespace of the pod that the device is allocated to.
    pub namespace: Name,
    pub team: Name,
    /// Queue; empty where the job has none.
    pub queue: Name,
    /// The job, `Kind namespace/name`, where jobs have rows of their own.
    pub job: Name,
    /// A price is known.
    pub is_priced: bool,
}

/// Pool name of overflow rows.
pub const OTHER: &str = "other";

impl CounterKey {
    fn of(key: &UsageKey, jobs: bool) -> Self {
        let job = match jobs && !key.job.is_empty() {
            true => Name::from(format!("{} {}/{}", key.owner, key.namespace, key.job)),
            false => Name::default(),
        };
        Self {
            pool: key.pool.clone(),
            class: key.class.clone(),
            billing: key.billing,
            namespace: key.namespace.clone(),
            team: key.team.clone(),
            queue: key.queue.clone(),
            job,
            is_priced: !key.price_source.is_empty(),
        }
    }

    /// The overflow row for this key: sums over all rows stay complete.
    fn other(&self) -> Self {
        Self {
            pool: OTHER.into(),
            class: OTHER.into(),
            billing: None,
            namespace: OTHER.into(),
            team: OTHER.into(),
            queue: OTHER.into(),
            job: Name::default(),
            is_priced: self.is_priced,
        }
    }
}

/// Counters of one key since process start, and its values in the last sample.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct CounterRow {
    /// Millionths of devices times milliseconds, by [`UsageClass`].
    devices: [u128; 6],
    /// Micro-USD per hour times milliseconds, by [`UsageClass`].
    money: [i128; 6],
    /// Millionths of devices in each [`UsageClass`] now.
    devices_now: [u64; 6],
    /// Micro-USD per hour of each [`UsageClass`] now.
    rate_now: [i64; 6],
    /// Parts that ever had devices.
    seen: [bool; 6],
    /// Time of the last sample in which it had devices.
    held_at: Moment,
}

impl CounterRow {
    fn pairs(&self) -> usize {
        self.seen.iter().filter(|seen| **seen).count()
    }

    /// True when the key ever had devices in this part.
    pub fn has(&self, part: UsageClass) -> bool {
        self.seen[part as usize]
    }

    /// Device time, seconds of whole devices.
    pub fn device_seconds(&self, part: UsageClass) -> f64 {
        self.devices[part as usize] as f64 / DEVICE as f64 / 1e3
    }

    /// Counter of the cost, USD.
    pub fn usd(&self, part: UsageClass) -> f64 {
        self.money[part as usize] as f64 / HOUR_MS as f64 / 1e6
    }

    pub fn devices(&self, part: UsageClass) -> f64 {
        self.devices_now[part as usize] as f64 / DEVICE as f64
    }

    /// USD per hour now.
    pub fn usd_per_hour(&self, part: UsageClass) -> f64 {
        self.rate_now[part as usize] as f64 / 1e6
    }
}

/// A key without devices for this long is dropped when space is needed.
const IDLE_KEY: Duration = Duration::from_secs(3_600);

/// Adds up the time between pictures, as [`super::UsageFold`] does, since the process began. It only grows, and the number of
/// its rows is bounded.
#[derive(Clone, Debug)]
pub struct UsageCounters {
    most: usize,
    jobs: bool,
    /// The moment of the last picture, and whether it shows the whole fleet.
    last: Option<(Moment, bool)>,
    /// Time is counted up to here.
    until: Moment,
    rows: HashMap<CounterKey, CounterRow, FxBuildHasher>,
    observed_ms: u64,
    dropped: u64,
}

impl UsageCounters {
    /// Counters of at most `most` pairs of a key and a part; `jobs` tells jobs apart.
    pub fn new(most: usize, jobs: bool) -> Self {
        Self {
            most,
            jobs,
            last: None,
            until: Moment::default(),
            rows: HashMap::default(),
            observed_ms: 0,
            dropped: 0,
        }
    }

    /// Takes the next picture. Nothing is counted between pictures that lie further apart than [`GAP`], or where the clock went back.
    pub fn take(&mut self, sample: &UsageSample) {
        if let Some((at, observed)) = self.last {
            // Where the clock went back, time that is counted already is not counted again, as in the ledger.
            if self.until.since(sample.at) > Age::from(IDLE_KEY) {
                self.until = sample.at;
            }
            let from = at.max(self.until);
            if observed && sample.at > from && sample.at.since(at) <= Age::from(GAP) {
                self.add(sample.at.since(from).millis());
                self.until = sample.at;
            }
        }
        for row in self.rows.values_mut() {
            row.devices_now = [0; 6];
            row.rate_now = [0; 6];
        }
        let mut cells: Vec<&SampleRow> = sample.cells.iter().collect();
        cells.small_sort_by(|a, b| a.key.cmp(&b.key));
        let mut pairs: usize = self.rows.values().map(CounterRow::pairs).sum();
        for cell in cells {
            let key = CounterKey::of(&cell.key, self.jobs);
            if !self.rows.contains_key(&key) && pairs >= self.most {
                pairs -= self.make_room(sample.at);
            }
            let key = match self.rows.contains_key(&key) || pairs < self.most {
                true => key,
                false => {
                    self.dropped += 1;
                    key.other()
                }
            };
            let row = self.rows.entry(key).or_default();
            pairs -= row.pairs();
            row.held_at = sample.at;
            for (at, share) in cell.shares.iter().enumerate() {
                row.devices_now[at] += share.devices;
                row.rate_now[at] = row.rate_now[at].saturating_add(share.rate);
                row.seen[at] |= share.devices > 0;
            }
            pairs += row.pairs();
        }
        self.last = Some((sample.at, sample.observed));
    }

    /// Adds what the last picture said, for so many milliseconds.
    fn add(&mut self, ms: u64) {
        self.observed_ms += ms;
        for row in self.rows.values_mut() {
            for at in 0..6 {
                row.devices[at] += u128::from(row.devices_now[at]) * u128::from(ms);
                row.money[at] += i128::from(row.rate_now[at]) * i128::from(ms);
            }
        }
    }

    /// Drops the keys that had no devices for an hour; gives the pairs that they had.
    fn make_room(&mut self, now: Moment) -> usize {
        let mut freed = 0;
        self.rows.retain(|_, row| {
            let stays = now.since(row.held_at) <= Age::from(IDLE_KEY);
            freed += if stays { 0 } else { row.pairs() };
            stays
        });
        freed
    }

    pub fn rows(&self) -> Vec<(CounterKey, CounterRow)> {
        let rows = self.rows.iter().map(|(key, row)| (key.clone(), *row));
        let mut rows: Vec<(CounterKey, CounterRow)> = rows.collect();
        rows.small_sort_by(|a, b| a.0.cmp(&b.0));
        rows
    }

    /// For how long there were pictures, seconds.
    pub fn observed_seconds(&self) -> f64 {
        self.observed_ms as f64 / 1e3
    }

    /// How often a row of a picture had no room and was counted with the others.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// True when the last picture shows the whole fleet: what it says of the present is known.
    pub fn is_current(&self) -> bool {
        self.last.is_some_and(|(_, observed)| observed)
    }
}
