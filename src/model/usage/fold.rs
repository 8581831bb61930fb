//! Adds up the time between pictures, hour by hour.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use rustc_hash::FxBuildHasher;

use crate::base::{Age, Moment, Name, SmallSort};
use crate::fleet::job::JobKey;
use crate::fleet::node::Billing;

use super::row::{FinishedJob, HourUsage, LossCause, Part, RunLoss, UsageKey, UsageLoss, UsageRow};
use super::sample::{DEVICE, Run, UsageSample};
use super::{HOUR_MS, hour_of};

type Map<K, V> = HashMap<K, V, FxBuildHasher>;

/// The time between two pictures that lie further apart is unobserved. Of a fleet of any size a picture is made at least every
/// ten seconds.
pub const GAP: Duration = Duration::from_secs(120);

/// A row while its hour is open. Sums are kept in the units of a sample times milliseconds, so that nothing is rounded before
/// the hour is handed over.
#[derive(Clone, Debug)]
struct Sums {
    /// Millionths of devices times milliseconds.
    devices: [u64; 6],
    hidden: u64,
    /// Micro-USD an hour times milliseconds.
    money: [i128; 6],
    joules: Option<u64>,
    /// Of spot time: micro-USD an hour on demand times milliseconds. It counts where `is_listed` is true.
    on_demand: i128,
    /// False once some of the time had no on-demand price.
    is_listed: bool,
    losses: Vec<Lost>,
}

impl Default for Sums {
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

/// What a run that ended badly had, in the units of [`Sums`].
#[derive(Clone, Debug)]
struct Lost {
    cause: LossCause,
    seen_ms: i64,
    devices: [u64; Part::ALLOCATED],
    money: [i128; Part::ALLOCATED],
}

/// An hour that is not closed.
#[derive(Clone, Default, Debug)]
struct Open {
    /// What of it there are pictures for: milliseconds from its start, in order, apart from each other.
    observed: Vec<(i64, i64)>,
    /// How far into the hour it has come, milliseconds.
    until: i64,
    rows: Map<UsageKey, Sums>,
    /// Devices of the last picture, in millionths, by what tells them apart while nothing else is known.
    devices: BTreeMap<UsageKey, u64>,
    finished: Vec<FinishedJob>,
}

impl Open {
    /// Notes that there is a picture for `[from, to)`; gives how much of that was not observed before.
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

    /// What is there by the picture.
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

    /// Counts as lost what a run had of this hour.
    fn lose(&mut self, hour: i64, loss: &RunLoss) {
        let Some((part, all)) = loss.share_of(hour) else {
            return;
        };
        for (key, sums) in &mut self.rows {
            if key.job != loss.job || key.namespace != loss.namespace || key.owner != loss.owner {
                continue;
            }
            let mut lost = Lost {
                cause: loss.cause,
                seen_ms: loss.seen_ms,
                devices: [0; Part::ALLOCATED],
                money: [0; Part::ALLOCATED],
            };
            for at in 0..Part::ALLOCATED {
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
        // Where nobody holds a device the time of which nothing is known stands; it may be a row of its own.
        let mut rows: BTreeMap<&UsageKey, (Option<&Sums>, u64)> = BTreeMap::new();
        for (key, sums) in &self.rows {
            rows.insert(key, (Some(sums), sums.hidden));
        }
        if unobserved > 0 {
            for (key, devices) in &self.devices {
                rows.entry(key).or_default().1 += devices * unobserved;
            }
        }
        // Each is cut from the running sum of the hour, so that the rows and their parts add up to it to the last digit.
        let mut time = Cut::new(u128::from(DEVICE));
        let mut money = Cut::new(HOUR_MS as u128);
        let mut list = Cut::new(HOUR_MS as u128);
        let none = Sums::default();
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

/// The losses of a row, of which none takes more than is left of it.
fn losses(row: &UsageRow, sums: &Sums) -> Vec<UsageLoss> {
    let mut left = (row.device_ms, row.cost_micros);
    let mut out = Vec::new();
    for lost in &sums.losses {
        let mut loss = UsageLoss {
            key: row.key.clone(),
            cause: lost.cause,
            seen_ms: lost.seen_ms,
            device_ms: [0; Part::ALLOCATED],
            cost_micros: row.cost_micros.map(|_| [0; Part::ALLOCATED]),
        };
        for at in 0..Part::ALLOCATED {
            // What is all of a part to the last unit is all of it after rounding, too.
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

/// Divides one number after the other by `unit`, so that the results add up to the sum divided by it.
struct Cut {
    unit: u128,
    sum: u128,
}

impl Cut {
    fn new(unit: u128) -> Self {
        Self { unit, sum: 0 }
    }

    fn next(&mut self, part: u128) -> u128 {
        let before = self.sum / self.unit;
        self.sum += part;
        self.sum / self.unit - before
    }
}

/// Folds pictures into hours. An hour is closed by the first picture after it, and takes nothing more.
#[derive(Clone, Debug)]
pub struct UsageFold {
    gap: Age,
    last: Option<UsageSample>,
    open: BTreeMap<i64, Open>,
    closed: BTreeSet<i64>,
    /// Closed since it was last asked.
    ready: Vec<HourUsage>,
    lost: Vec<RunLoss>,
    /// Jobs that held devices and hold none now, but have not ended: the row that they had most of.
    held: Map<JobKey, UsageKey>,
}

impl UsageFold {
    /// A fold that leaves the hours alone that are closed already; time between pictures that lie further apart than `gap`
    /// is unobserved.
    pub fn new(gap: Duration, closed: impl IntoIterator<Item = i64>) -> Self {
        Self {
            gap: gap.into(),
            last: None,
            open: BTreeMap::new(),
            closed: closed.into_iter().collect(),
            ready: Vec::new(),
            lost: Vec::new(),
            held: Map::default(),
        }
    }

    /// The moment of the last picture.
    pub fn at(&self) -> Option<Moment> {
        self.last.as_ref().map(|last| last.at)
    }

    /// Takes the next picture. One of an earlier moment than the last (the clock went back) begins anew from there: time that
    /// is accounted for is never counted twice.
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

    /// Adds what stood on `last` until `next`.
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

    /// Adds what the counters say was used since `last`, to whom the devices belonged then. A counter that went back began
    /// anew: that time is left out.
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
            // A device always draws something: a counter that stands was not read anew, and says nothing of this time.
            let Some(used) = used.filter(|used| *used > 0) else {
                continue;
            };
            let key = &last.cells[counter.cell as usize].key;
            if let Some(sums) = open.rows.get_mut(key) {
                *sums.joules.get_or_insert(0) += used;
            }
        }
    }

    /// Finds the runs that ended badly between two pictures.
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

    /// Finds the jobs that ended well between two pictures. One that is deleted before a picture shows its end is not found.
    fn finished(&mut self, last: &UsageSample, next: &UsageSample) {
        if !next.observed {
            return;
        }
        let hour = hour_of(next.at);
        let mut found = Vec::new();
        for (id, before) in last.runs.iter().filter(|(_, before)| !before.done) {
            let Some(after) = next.runs.get(id) else {
                self.held.remove(id);
                continue;
            };
            if before.since.is_some() && after.since.is_none() {
                self.held
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
                    key: self.held.remove(id).unwrap_or_else(unheld),
                    seen_ms: next.at.millis(),
                });
            } else if after.failed {
                self.held.remove(id);
            }
        }
        if !found.is_empty() && !self.closed.contains(&hour) {
            let open = self.open.entry(hour).or_default();
            open.finished.append(&mut found);
            // After the clock went back the same end may be seen again.
            open.finished.small_sort();
            open.finished.dedup();
        }
    }

    /// Hours that were closed since this was last asked, in order.
    pub fn closed(&mut self) -> Vec<HourUsage> {
        std::mem::take(&mut self.ready)
    }

    /// Runs that ended badly since this was last asked. What they had of open hours is in these.
    pub fn lost(&mut self) -> Vec<RunLoss> {
        std::mem::take(&mut self.lost)
    }

    /// Hours that are open, as far as they have come.
    pub fn open(&self) -> impl Iterator<Item = HourUsage> {
        let open = self.open.iter();
        open.map(|(hour, open)| open.usage(*hour, false))
    }
}

/// How a run that held devices on one picture ended badly by the next; `None` when it goes on, ended well, or was deleted.
fn cause(before: &Run, after: &Run) -> Option<LossCause> {
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

fn loss(id: &JobKey, run: &Run, began: Moment, cause: LossCause, seen: Moment) -> RunLoss {
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
