//! Folds samples into hourly usage rows.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use rustc_hash::FxBuildHasher;

use model::base::{Age, Moment, Name, SmallSort};
use model::fleet::job::JobKey;
use model::fleet::node::Billing;

use super::row::{
    FinishedJob, HourUsage, LossCause, RunLoss, UsageClass, UsageKey, UsageLoss, UsageRow,
};
use super::sample::{DEVICE, JobRun, UsageSample};
use super::{HOUR_MS, hour_of};

type Map<K, V> = HashMap<K, V, FxBuildHasher>;

/// Longest gap between two samples that still counts as observed. A fleet of any size is sampled at least every ten seconds.
pub const GAP: Duration = Duration::from_secs(120);

/// A row while its hour is open. Sums stay in sample units times milliseconds, so that nothing is rounded before it closes.
#[derive(Clone, Debug)]
struct OpenRow {
    /// Millionths of devices times milliseconds.
    devices: [u64; 6],
    hidden: u64,
    /// Micro-USD an hour times milliseconds.
    money: [i128; 6],
    joules: Option<u64>,
    /// Spot time only: on-demand micro-USD per hour times milliseconds. Valid where `is_listed` is true.
    on_demand: i128,
    /// False once some of the spot time had no on-demand price.
    is_listed: bool,
    losses: Vec<LostUsage>,
}

impl Default for OpenRow {
    fn default() -> Self {
        Self {
            devices: [0; 6],
            hidden: 0,
            money: [0; 6],
            joules: None,
            on_demand: 0,
            is_listed: true,
            losses: Vec::new(),
        }
    }
}

/// Usage of a run that failed or was preempted, in the units of [`OpenRow`].
#[derive(Clone, Debug)]
struct LostUsage {
    cause: LossCause,
    seen_ms: i64,
    devices: [u64; UsageClass::ALLOCATED],
    money: [i128; UsageClass::ALLOCATED],
}

/// An hour that is not closed.
#[derive(Clone, Default, Debug)]
struct OpenHour {
    /// Observed intervals: milliseconds from the start of the hour, sorted and disjoint.
    observed: Vec<(i64, i64)>,
    /// End of the processed part of the hour, milliseconds from its start.
    until: i64,
    rows: Map<UsageKey, OpenRow>,
    /// Devices in the last sample, in millionths, by the key that they have while unallocated or unobserved.
    devices: BTreeMap<UsageKey, u64>,
    finished: Vec<FinishedJob>,
}

impl OpenHour {
    /// Marks `[from, to)` as observed; returns the milliseconds that were not observed before.
    fn observe(&mut self, from: i64, to: i64) -> i64 {
        let mut fresh = to - from;
        let (mut low, mut high) = (from, to);
        self.observed.retain(|(a, b)| {
            if *b < low || *a > high {
                return true;
            }
            fresh -= (*b).min(to).saturating_sub((*a).max(from)).max(0);
            low = low.min(*a);
            high = high.max(*b);
            false
        });
        self.observed.push((low, high));
        self.observed.small_sort();
        fresh.max(0)
    }

    fn observed_ms(&self) -> i64 {
        self.observed.iter().map(|(a, b)| b - a).sum()
    }

    fn add(&mut self, sample: &UsageSample, ms: i64) {
        let span = u64::try_from(ms).unwrap_or(0);
        for cell in &sample.cells {
            let sums = match self.rows.get_mut(&cell.key) {
                Some(sums) => sums,
                None => self.rows.entry(cell.key.clone()).or_default(),
            };
            for (at, share) in cell.shares.iter().enumerate() {
                sums.devices[at] += share.devices * span;
                sums.money[at] += i128::from(share.rate) * i128::from(span);
            }
            sums.hidden += cell.hidden * span;
            sums.is_listed &= cell.on_demand.is_some();
            sums.on_demand += i128::from(cell.on_demand.unwrap_or(0)) * i128::from(span);
        }
    }

    /// Replaces the devices with those of this sample.
    fn note_devices(&mut self, sample: &UsageSample) {
        self.devices.clear();
        for cell in &sample.cells {
            let shares = cell.shares.iter().map(|share| share.devices);
            let key = UsageKey {
                pool: cell.key.pool.clone(),
                class: cell.key.class.clone(),
                billing: cell.key.billing,
                zone: cell.key.zone.clone(),
                price_source: cell.key.price_source.clone(),
                price_as_of: cell.key.price_as_of.clone(),
                ..UsageKey::default()
            };
            *self.devices.entry(key).or_default() += shares.sum::<u64>() + cell.hidden;
        }
    }

    /// Adds this hour's share of a run to the losses.
    fn lose(&mut self, hour: i64, loss: &RunLoss) {
        let Some((part, all)) = loss.share_of(hour) else {
            return;
        };
        for (key, sums) in &mut self.rows {
            if key.job != loss.job || key.namespace != loss.namespace || key.owner != loss.owner {
                continue;
            }
            let mut lost = LostUsage {
                cause: loss.cause,
                seen_ms: loss.seen_ms,
                devices: [0; UsageClass::ALLOCATED],
                money: [0; UsageClass::ALLOCATED],
            };
            for at in 0..UsageClass::ALLOCATED {
                let gone: u64 = sums.losses.iter().map(|lost| lost.devices[at]).sum();
                let paid: i128 = sums.losses.iter().map(|lost| lost.money[at]).sum();
                let left = u128::from(sums.devices[at] - gone) * u128::from(part) / u128::from(all);
                lost.devices[at] = left as u64;
                lost.money[at] = (sums.money[at] - paid) * i128::from(part) / i128::from(all);
            }
            sums.losses.push(lost);
        }
    }

    fn usage(&self, hour: i64, closed: bool) -> HourUsage {
        let observed = self.observed_ms();
        let until = if closed { HOUR_MS } else { self.until };
        let unobserved = u64::try_from(until - observed).unwrap_or(0);
        // Unobserved time is counted on the row that the devices have when unallocated; that may be a row without other time.
        let mut rows: BTreeMap<&UsageKey, (Option<&OpenRow>, u64)> = BTreeMap::new();
        for (key, sums) in &self.rows {
            rows.insert(key, (Some(sums), sums.hidden));
        }
        if unobserved > 0 {
            for (key, devices) in &self.devices {
                rows.entry(key).or_default().1 += devices * unobserved;
            }
        }
        // Each value is cut from the hour's running sum, so that rows and parts add up to it exactly.
        let mut time = DividedSum::new(u128::from(DEVICE));
        let mut money = DividedSum::new(HOUR_MS as u128);
        let mut list = DividedSum::new(HOUR_MS as u128);
        let none = OpenRow::default();
        let mut out = HourUsage {
            hour,
            closed,
            observed_ms: u64::try_from(observed).unwrap_or(0),
            until_ms: u64::try_from(until).unwrap_or(0),
            rows: Vec::with_capacity(rows.len()),
            losses: Vec::new(),
            finished: self.finished.clone(),
        };
        for (key, (sums, hidden)) in rows {
            let sums = sums.unwrap_or(&none);
            let priced = !key.price_source.is_empty();
            let row = UsageRow {
                key: key.clone(),
                device_ms: sums.devices.map(|sum| time.next(u128::from(sum)) as u64),
                unobserved_ms: time.next(u128::from(hidden)) as u64,
                energy_mwh: sums.joules.map(|joules| joules * 10 / 36),
                cost_micros: priced.then(|| {
                    sums.money.map(|sum| {
                        let cut = money.next(u128::try_from(sum).unwrap_or(0));
                        i64::try_from(cut).unwrap_or(i64::MAX)
                    })
                }),
                on_demand_micros: (priced && key.billing == Some(Billing::Spot) && sums.is_listed)
                    .then(|| list.next(u128::try_from(sums.on_demand).unwrap_or(0)))
                    .map(|cut| i64::try_from(cut).unwrap_or(i64::MAX)),
            };
            out.losses.extend(losses(&row, sums));
            out.rows.push(row);
        }
        out
    }
}

/// The losses of a row, each capped at what remains of the row.
fn losses(row: &UsageRow, sums: &OpenRow) -> Vec<UsageLoss> {
    let mut left = (row.device_ms, row.cost_micros);
    let mut out = Vec::new();
    for lost in &sums.losses {
        let mut loss = UsageLoss {
            key: row.key.clone(),
            cause: lost.cause,
            seen_ms: lost.seen_ms,
            device_ms: [0; UsageClass::ALLOCATED],
            cost_micros: row.cost_micros.map(|_| [0; UsageClass::ALLOCATED]),
        };
        for at in 0..UsageClass::ALLOCATED {
            // A loss that covers a whole part must still cover it after rounding.
            let ends = sums.losses.iter().map(|lost| lost.devices[at]).sum::<u64>()
                == sums.devices[at]
                && std::ptr::eq(lost, &raw const sums.losses[sums.losses.len() - 1]);
            let ms = lost.devices[at] / DEVICE;
            loss.device_ms[at] = if ends { left.0[at] } else { ms.min(left.0[at]) };
            left.0[at] -= loss.device_ms[at];
            if let (Some(cost), Some(of)) = (&mut loss.cost_micros, &mut left.1) {
                let micros = i64::try_from(lost.money[at] / i128::from(HOUR_MS)).unwrap_or(0);
                cost[at] = if ends { of[at] } else { micros.min(of[at]) };
                of[at] -= cost[at];
            }
        }
        if loss.device_ms.iter().any(|ms| *ms > 0) {
            out.push(loss);
        }
    }
    out
}

/// Divides successive numbers by `unit`, so that the results add up to the divided sum.
struct DividedSum {
    unit: u128,
    sum: u128,
}

impl DividedSum {
    fn new(unit: u128) -> Self {
        Self { unit, sum: 0 }
    }

    fn next(&mut self, part: u128) -> u128 {
        let before = self.sum / self.unit;
        self.sum += part;
        self.sum / self.unit - before
    }
}

/// Folds samples into hours. The first sample after an hour closes it; a closed hour does not change.
#[derive(Clone, Debug)]
pub struct UsageFold {
    gap: Age,
    last: Option<UsageSample>,
    open: BTreeMap<i64, OpenHour>,
    closed: BTreeSet<i64>,
    /// Hours closed since the last call of [`Self::closed`].
    ready: Vec<HourUsage>,
    lost: Vec<RunLoss>,
    /// Jobs that had devices allocated, have none now and have not ended, with the row that they had most devices in.
    last_rows: Map<JobKey, UsageKey>,
}

impl UsageFold {
    /// A fold that does not reopen the hours in `closed`. Time between samples more than `gap` apart is unobserved.
    pub fn new(gap: Duration, closed: impl IntoIterator<Item = i64>) -> Self {
        Self {
            gap: gap.into(),
            last: None,
            open: BTreeMap::new(),
            closed: closed.into_iter().collect(),
            ready: Vec::new(),
            lost: Vec::new(),
            last_rows: Map::default(),
        }
    }

    /// Time of the last sample.
    pub fn at(&self) -> Option<Moment> {
        self.last.as_ref().map(|last| last.at)
    }

    /// Takes the next sample. A sample older than the last one (the clock went back) restarts from its own time; no time is counted twice.
    pub fn take(&mut self, sample: UsageSample) {
        let last = self.last.take();
        if let Some(last) = last.filter(|last| sample.at > last.at) {
            self.between(&last, &sample);
            self.ended(&last, &sample);
            self.finished(&last, &sample);
        }
        let hour = hour_of(sample.at);
        if !self.closed.contains(&hour) {
            let open = self.open.entry(hour).or_default();
            open.until = open.until.max(sample.at.millis() - hour * HOUR_MS);
            if sample.observed {
                open.note_devices(&sample);
            }
        }
        while let Some((first, _)) = self.open.first_key_value() {
            let first = *first;
            if first >= hour {
                break;
            }
            if let Some(open) = self.open.remove(&first) {
                self.ready.push(open.usage(first, true));
            }
            self.closed.insert(first);
        }
        self.last = Some(sample);
    }

    /// Adds the usage of `last` up to the time of `next`.
    fn between(&mut self, last: &UsageSample, next: &UsageSample) {
        if !last.observed || next.at.since(last.at) > self.gap {
            return;
        }
        let (mut from, to) = (last.at.millis(), next.at.millis());
        let mut counted = None;
        while from < to {
            let hour = from.div_euclid(HOUR_MS);
            let start = hour * HOUR_MS;
            let end = to.min(start + HOUR_MS);
            if !self.closed.contains(&hour) {
                let open = self.open.entry(hour).or_default();
                let fresh = open.observe(from - start, end - start);
                open.until = open.until.max(end - start);
                if fresh > 0 {
                    open.add(last, fresh);
                    if open.devices.is_empty() {
                        open.note_devices(last);
                    }
                    counted = counted.or(Some(hour));
                }
            }
            from = end;
        }
        if let Some(hour) = counted {
            self.energy(hour, last, next);
        }
    }

    /// Adds the energy that the counters show since `last`, to the rows that the devices were in then. A counter that decreased
    /// was reset; that time is omitted.
    fn energy(&mut self, hour: i64, last: &UsageSample, next: &UsageSample) {
        let Some(open) = self.open.get_mut(&hour) else {
            return;
        };
        let later: Map<&Name, u64> = next
            .counters
            .iter()
            .map(|counter| (&counter.device, counter.joules))
            .collect();
        for counter in &last.counters {
            let after = later.get(&counter.device);
            let used = after.and_then(|after| after.checked_sub(counter.joules));
            // A powered device always draws energy: an unchanged counter was not read again.
            let Some(used) = used.filter(|used| *used > 0) else {
                continue;
            };
            let key = &last.cells[counter.cell as usize].key;
            if let Some(sums) = open.rows.get_mut(key) {
                *sums.joules.get_or_insert(0) += used;
            }
        }
    }

    /// Finds the runs that failed or were preempted between two samples.
    fn ended(&mut self, last: &UsageSample, next: &UsageSample) {
        if !next.observed {
            return;
        }
        let mut ended: Vec<RunLoss> = Vec::new();
        for (id, before) in &last.runs {
            let Some(began) = before.since else { continue };
            let after = next.runs.get(id);
            if let Some(cause) = after.and_then(|after| cause(before, after)) {
                ended.push(loss(id, before, began, cause, next.at));
            }
        }
        ended.small_sort_by(|a, b| {
            (&a.namespace, &a.job, &a.owner).cmp(&(&b.namespace, &b.job, &b.owner))
        });
        let first = self.open.keys().next().copied();
        for mut loss in ended {
            loss.booked_from = first.unwrap_or(loss.booked_from);
            for (hour, open) in &mut self.open {
                open.lose(*hour, &loss);
            }
            self.lost.push(loss);
        }
    }

    /// Finds the jobs that succeeded between two samples. A job that is deleted before a sample shows its end is missed.
    fn finished(&mut self, last: &UsageSample, next: &UsageSample) {
        if !next.observed {
            return;
        }
        let hour = hour_of(next.at);
        let mut found = Vec::new();
        for (id, before) in last.runs.iter().filter(|(_, before)| !before.done) {
            let Some(after) = next.runs.get(id) else {
                self.last_rows.remove(id);
                continue;
            };
            if before.since.is_some() && after.since.is_none() {
                self.last_rows
                    .extend(last.most_of(id).map(|key| (id.clone(), key.clone())));
            }
            if after.done {
                let unheld = || UsageKey {
                    namespace: id.key.namespace.clone(),
                    team: before.team.clone(),
                    queue: before.queue.clone(),
                    owner: id.kind.clone(),
                    job: id.key.name.clone(),
                    ..UsageKey::default()
                };
                found.push(FinishedJob {
                    key: self.last_rows.remove(id).unwrap_or_else(unheld),
                    seen_ms: next.at.millis(),
                });
            } else if after.failed {
                self.last_rows.remove(id);
            }
        }
        if !found.is_empty() && !self.closed.contains(&hour) {
            let open = self.open.entry(hour).or_default();
            open.finished.append(&mut found);
            // After the clock went back, the same end may be seen twice.
            open.finished.small_sort();
            open.finished.dedup();
        }
    }

    /// Hours closed since the last call, in order.
    pub fn closed(&mut self) -> Vec<HourUsage> {
        std::mem::take(&mut self.ready)
    }

    /// Runs that failed or were preempted since the last call. Their share of open hours is included.
    pub fn lost(&mut self) -> Vec<RunLoss> {
        std::mem::take(&mut self.lost)
    }

    /// Open hours, with the usage so far.
    pub fn open(&self) -> impl Iterator<Item = HourUsage> {
        let open = self.open.iter();
        open.map(|(hour, open)| open.usage(*hour, false))
    }
}

/// Why a run that had devices allocated in one sample has failed or was preempted by the next; `None` when it is still running,
/// succeeded, or was deleted.
fn cause(before: &JobRun, after: &JobRun) -> Option<LossCause> {
    if after.evictions > before.evictions {
        return Some(LossCause::Preemption);
    }
    if after.since.is_some() {
        return None;
    }
    if after.failed {
        return Some(LossCause::Failure);
    }
    (after.last_eviction > before.last_eviction).then_some(LossCause::Preemption)
}

fn loss(id: &JobKey, run: &JobRun, began: Moment, cause: LossCause, seen: Moment) -> RunLoss {
    let lost_since = run.checkpoint.map_or(began, |saved| saved.max(began));
    RunLoss {
        cause,
        seen_ms: seen.millis(),
        namespace: id.key.namespace.clone(),
        owner: id.kind.clone(),
        job: id.key.name.clone(),
        began_ms: began.millis(),
        lost_since_ms: lost_since.millis(),
        booked_from: hour_of(seen),
    }
}
