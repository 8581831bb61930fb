//! Usage ledger of a demo: kept in memory from its snapshots, and filled with the month before the demo was opened.
//!
//! The month is derived from the simulated fleet: each hour has the devices, prices, teams and queues that the fleet has when it
//! is opened. What each team has of it varies by day and hour around what it has then; single jobs are not distinguished.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use model::base::Name;
use model::cost::Prices;
use model::fleet::Fleet;
use model::fleet::device::Device;
use model::fleet::node::Billing;
use model::fleet::signal::Signal;
use record::usage::{UsageFault, UsageFile};
use sim::world::noise::{hash, smooth};
use table::Facts;
use table::spend::{UsageFacts, UsageStatus};
use usage::{
    GAP, HOUR_MS, HourUsage, UsageBudget, UsageClass, UsageFold, UsageKey, UsageRow, UsageSample,
    hour_of, start_of,
};

use super::demo_budgets::budgets;
use super::facts::UsageReader;
use super::{UsageLedger, sample};
use crate::runtime::clock::SessionClock;
use crate::runtime::exporter_answers;

/// Hours before the demo that are filled in.
const HOURS: i64 = 31 * 24;

/// Interval between two snapshots.
const EVERY: Duration = Duration::from_secs(20);

/// Longest wait for the first readings of a fleet.
const PATIENCE: Duration = Duration::from_secs(30);

/// Power of a free device as a share of its power under load, 0 to 1.
const IDLE: f64 = 0.15;

/// Serving workloads, whose allocation is constant day and night.
const SERVES: [&str; 3] = ["Deployment", "StatefulSet", "LeaderWorkerSet"];

/// The kind that represents every one of [`SERVES`]: they are not distinguished.
const SERVING: &str = "Deployment";

/// The usage ledger of a demo, from its first whole snapshot on. It outlives sessions, so that every namespace shows the same history.
pub(crate) type DemoLedger = Arc<Mutex<Option<DemoUsage>>>;

/// The usage of a demo, with the budgets that it has where the settings have none.
pub(crate) struct DemoUsage {
    ledger: UsageLedger,
    budgets: Vec<UsageBudget>,
}

/// The usage facts of a demo, updated with each snapshot. Must be called within a tokio runtime.
pub(crate) fn followed(
    reader: UsageReader,
    ledger: DemoLedger,
    mut facts: watch::Receiver<Option<Arc<Facts>>>,
    prices: Arc<Prices>,
    clock: SessionClock,
) -> watch::Receiver<Arc<UsageFacts>> {
    let (say, receiver) = watch::channel(Arc::default());
    tokio::spawn(async move {
        let _ = tokio::time::timeout(PATIENCE, whole(&mut facts)).await;
        loop {
            let Some(seen) = facts.borrow_and_update().clone() else {
                return;
            };
            let (ledger, prices, reader) =
                (Arc::clone(&ledger), Arc::clone(&prices), reader.clone());
            let now = clock.now();
            let begun = Instant::now();
            let read = spawn_blocking(move || {
                let mut usage = ledger.lock().unwrap_or_else(PoisonError::into_inner);
                // A session confined to some namespaces does not see what others use.
                let sees_all = seen.fleet.confined_to().is_empty();
                if usage.is_none() && sees_all {
                    *usage = Some(DemoUsage {
                        ledger: opened(&seen, &prices)?,
                        budgets: budgets(&seen),
                    });
                }
                let Some(DemoUsage { ledger, budgets }) = usage.as_mut() else {
                    return Ok(UsageFacts::default());
                };
                let reader = reader.or_budgets(budgets);
                if sees_all {
                    ledger.take(sample(&seen, &prices))?;
                    ledger.flush()?;
                }
                Ok::<_, UsageFault>(UsageFacts {
                    is_demo: true,
                    ..reader.of_ledger(ledger.file(), now)
                })
            });
            let (usage, is_lost) = match read.await {
                Ok(Ok(usage)) => (usage, false),
                Ok(Err(fault)) => {
                    let status = UsageStatus::Failed(fault.to_string());
                    let usage = UsageFacts {
                        status,
                        ..UsageFacts::default()
                    };
                    (usage, true)
                }
                Err(_) => return,
            };
            if say.send(Arc::new(usage)).is_err() || is_lost {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(EVERY.max(begun.elapsed() * 100).min(GAP / 2)) => {}
                () = say.closed() => return,
            }
        }
    });
    receiver
}

/// Waits until every exporter has been read once.
async fn whole(facts: &mut watch::Receiver<Option<Arc<Facts>>>) {
    let is_whole = |facts: &Option<Arc<Facts>>| {
        facts.as_ref().is_some_and(|facts| {
            let (answered, all) = exporter_answers::readings(&facts.fleet);
            exporter_answers::has_found_all(&facts.fleet) && all > 0 && answered == all
        })
    };
    let _ = facts.wait_for(is_whole).await;
}

/// An in-memory ledger with the month before the snapshot and the begun hour up to it.
fn opened(facts: &Facts, prices: &Prices) -> Result<UsageLedger, UsageFault> {
    let mut file = UsageFile::in_memory()?.without_ends();
    file.write(&month(facts, prices), &[])?;
    let mut ledger = UsageLedger::new(file, GAP)?;
    let picture = sample(facts, prices);
    let watts = watts(&facts.fleet);
    let mut at = start_of(hour_of(facts.now));
    while at < facts.now {
        ledger.take(picture.earlier(at, &watts).without_jobs())?;
        at = at.plus(GAP / 2);
    }
    Ok(ledger)
}

/// Power draw of each device, W.
fn watts(fleet: &Fleet) -> impl Fn(&Name) -> Option<f64> {
    let devices = fleet.nodes.iter().flat_map(|node| &node.devices);
    let known = |device: &Device| Some((device.id.clone(), device.signals.get(Signal::Power)?));
    let drawn: HashMap<Name, f64> = devices.filter_map(known).collect();
    move |device| drawn.get(device).copied()
}

/// The hours before a snapshot, oldest first.
fn month(facts: &Facts, prices: &Prices) -> Vec<HourUsage> {
    let now = hour_of(facts.now);
    let month = DemoMonth::new(hourly(facts, prices), now);
    let hours = (now - HOURS..now).map(|hour| HourUsage {
        hour,
        closed: true,
        observed_ms: HOUR_MS.unsigned_abs(),
        until_ms: HOUR_MS.unsigned_abs(),
        rows: month.rows(hour),
        losses: Vec::new(),
        finished: Vec::new(),
    });
    hours.collect()
}

/// The usage of one hour if the fleet were all hour as in the snapshot.
fn hourly(facts: &Facts, prices: &Prices) -> Vec<UsageRow> {
    const MINUTES: i64 = 60;
    const MINUTE: Duration = Duration::from_secs(60);
    let from = start_of(hour_of(facts.now));
    let mut fold = UsageFold::new(GAP, []);
    let picture = UsageSample::of(from.plus(MINUTE), &facts.fleet, prices);
    fold.take(picture.earlier(from, watts(&facts.fleet)));
    fold.take(picture);
    let rows = fold.open().flat_map(|hour| hour.rows);
    let whole = rows.map(|row| UsageRow {
        device_ms: row.device_ms.map(|ms| ms * MINUTES.unsigned_abs()),
        unobserved_ms: 0,
        energy_mwh: row.energy_mwh.map(|mwh| mwh * MINUTES.unsigned_abs()),
        cost_micros: row.cost_micros.map(|cost| cost.map(|one| one * MINUTES)),
        on_demand_micros: row.on_demand_micros.map(|one| one * MINUTES),
        ..row
    });
    let mut rows = summed(whole.map(|mut row| {
        let serves = SERVES.contains(&row.key.owner.as_str());
        row.key.owner = Name::new(if serves { SERVING } else { "" });
        row.key.job = Name::default();
        row.key.model = Name::default();
        // (The zone decides only whether a spot price has an on-demand price beside it.)
        if row.key.billing != Some(Billing::Spot) {
            row.key.zone = Name::default();
        }
        row
    }));
    rows.retain(|row| row.device_ms.iter().any(|ms| *ms > 0));
    rows
}

/// The hours before a demo. In each there are the devices of the snapshot; teams take turns on them, and fewer are allocated at night
/// and at weekends. Over all hours each team has the share of the snapshot.
struct DemoMonth {
    from: i64,
    /// The usage of an hour as in the snapshot.
    rows: Vec<UsageRow>,
    /// Of each row, how much of it there is in each hour, oldest first; empty for what does not vary.
    shares: Vec<Vec<f64>>,
}

impl DemoMonth {
    fn new(rows: Vec<UsageRow>, now: i64) -> Self {
        let from = now - HOURS;
        let calendar = calendar(from);
        let mut shares = vec![Vec::new(); rows.len()];
        let mut kinds: BTreeMap<UsageKey, Vec<usize>> = BTreeMap::new();
        for (at, row) in rows.iter().enumerate().filter(|(_, row)| varies(row)) {
            kinds.entry(free_key(&row.key)).or_default().push(at);
        }
        for (key, of) in kinds {
            let weights: Vec<f64> = of.iter().map(|at| allocated_ms(&rows[*at])).collect();
            let all: f64 = weights.iter().sum();
            if all <= 0.0 {
                continue;
            }
            let free = rows.iter().find(|row| row.key == key);
            let free = free.map_or(0.0, |row| row.device_ms[FREE] as f64);
            // What all have more at times is free at others.
            let swing = (0.9 * free / all).min(SWING);
            let mut turns: Vec<Vec<f64>> = of.iter().map(|at| noise(&rows[*at].key)).collect();
            for hour in 0..HOURS as usize {
                let weighted = turns.iter().zip(&weights);
                let mean = weighted
                    .map(|(turns, weight)| turns[hour] * weight)
                    .sum::<f64>()
                    / all;
                turns.iter_mut().for_each(|turns| turns[hour] -= mean);
            }
            for (at, turns) in of.into_iter().zip(turns) {
                let mean = turns.iter().sum::<f64>() / HOURS as f64;
                let hours = turns.iter().zip(&calendar);
                shares[at] = hours
                    .map(|(turn, busy)| 1.0 + swing * busy + turn - mean)
                    .collect();
            }
        }
        Self { from, rows, shares }
    }

    fn rows(&self, hour: i64) -> Vec<UsageRow> {
        let place = usize::try_from(hour - self.from).unwrap_or(0);
        let mut out = self.rows.clone();
        let mut last: BTreeMap<UsageKey, usize> = BTreeMap::new();
        for (at, row) in self.rows.iter().enumerate() {
            let Some(share) = self.shares[at].get(place) else {
                continue;
            };
            let key = free_key(&row.key);
            // Without free devices, the last team has the rest.
            let rest = self.rows.iter().position(|row| row.key == key);
            let rest = rest.unwrap_or_else(|| *last.entry(key).or_insert(at));
            if rest != at {
                let (own, other) = two(&mut out, at, rest);
                give(own, other, *share);
            }
        }
        out
    }
}

/// Place of what is not allocated.
const FREE: usize = UsageClass::Unallocated as usize;

/// Most by which the allocation of all teams together goes up and down with the calendar, as a share of it.
const SWING: f64 = 0.12;

/// True for usage that goes up and down: of a team, and not of model servers.
fn varies(row: &UsageRow) -> bool {
    !row.key.namespace.is_empty() && row.key.owner.as_str() != SERVING
}

/// Allocated time of a row, device-milliseconds.
fn allocated_ms(row: &UsageRow) -> f64 {
    row.device_ms[..UsageClass::ALLOCATED].iter().sum::<u64>() as f64
}

/// The key of the unallocated devices of the same kind.
fn free_key(key: &UsageKey) -> UsageKey {
    UsageKey {
        pool: key.pool.clone(),
        class: key.class.clone(),
        billing: key.billing,
        zone: key.zone.clone(),
        price_source: key.price_source.clone(),
        price_as_of: key.price_as_of.clone(),
        ..UsageKey::default()
    }
}

/// Two rows, to be changed together.
fn two(rows: &mut [UsageRow], a: usize, b: usize) -> (&mut UsageRow, &mut UsageRow) {
    if a < b {
        let (left, right) = rows.split_at_mut(b);
        (&mut left[a], &mut right[0])
    } else {
        let (left, right) = rows.split_at_mut(a);
        (&mut right[0], &mut left[b])
    }
}

/// Leaves a share of a row's usage and gives the rest to another row, or takes what is more than all from there: in total nothing
/// changes but the energy of devices that do no work.
fn give(own: &mut UsageRow, other: &mut UsageRow, share: f64) {
    let moved = |whole: i64| whole - (whole as f64 * share) as i64;
    let is_free = other.key.namespace.is_empty();
    for at in 0..UsageClass::ALLOCATED {
        let to = if is_free { FREE } else { at };
        let most = other.device_ms[to].cast_signed();
        let ms = moved(own.device_ms[at].cast_signed()).max(-most);
        own.device_ms[at] = own.device_ms[at].saturating_add_signed(-ms);
        other.device_ms[to] = other.device_ms[to].saturating_add_signed(ms);
        if let (Some(own), Some(other)) = (&mut own.cost_micros, &mut other.cost_micros) {
            let cost = moved(own[at]).max(-other[to]);
            own[at] -= cost;
            other[to] += cost;
        }
    }
    if let (Some(own), Some(other)) = (&mut own.energy_mwh, &mut other.energy_mwh) {
        let energy = moved(own.cast_signed());
        *own = own.saturating_add_signed(-energy);
        let resting = if is_free { IDLE } else { 1.0 };
        *other = other.saturating_add_signed((energy as f64 * resting) as i64);
    }
    if let (Some(own), Some(other)) = (&mut own.on_demand_micros, &mut other.on_demand_micros) {
        let cost = moved(*own).max(-*other);
        *own -= cost;
        *other += cost;
    }
}

/// How busy each hour is, oldest first: from -1 to 1, and 0 over all hours.
fn calendar(from: i64) -> Vec<f64> {
    let busy = (from..from + HOURS).map(|hour| {
        // 1970-01-01 was a Thursday.
        let weekday = (hour.div_euclid(24) + 3).rem_euclid(7);
        let weekend = if weekday >= 5 { 1.0 } else { 0.0 };
        let night = if (7..20).contains(&hour.rem_euclid(24)) {
            0.0
        } else {
            0.6
        };
        -weekend - night
    });
    let mut busy: Vec<f64> = busy.collect();
    let mean = busy.iter().sum::<f64>() / HOURS as f64;
    let most = busy
        .iter()
        .map(|one| (one - mean).abs())
        .fold(0.0, f64::max);
    busy.iter_mut().for_each(|one| *one = (*one - mean) / most);
    busy
}

/// Ups and downs of a row, oldest first. They go by the hours before the demo, so that one opened later has the same.
fn noise(key: &UsageKey) -> Vec<f64> {
    let key = hash(&format!("{}/{}/{}", key.team, key.pool, key.namespace));
    let hours = (0..HOURS).map(|hour| hour * HOUR_MS);
    hours
        .map(|at| 0.15 * smooth(key, at, 40 * HOUR_MS) + 0.05 * smooth(key ^ 1, at, 5 * HOUR_MS))
        .collect()
}

/// Sums the rows of each key.
fn summed(rows: impl Iterator<Item = UsageRow>) -> Vec<UsageRow> {
    let mut sums = BTreeMap::new();
    for row in rows {
        add(&mut sums, row);
    }
    sums.into_values().collect()
}

fn add(sums: &mut BTreeMap<UsageKey, UsageRow>, row: UsageRow) {
    let Some(sum) = sums.get_mut(&row.key) else {
        sums.insert(row.key.clone(), row);
        return;
    };
    for at in 0..row.device_ms.len() {
        sum.device_ms[at] += row.device_ms[at];
        if let (Some(sum), Some(more)) = (&mut sum.cost_micros, &row.cost_micros) {
            sum[at] += more[at];
        }
    }
    sum.energy_mwh = match (sum.energy_mwh, row.energy_mwh) {
        (Some(sum), Some(more)) => Some(sum + more),
        (sum, more) => sum.or(more),
    };
    sum.on_demand_micros = sum
        .on_demand_micros
        .zip(row.on_demand_micros)
        .map(|(sum, more)| sum + more);
}

#[cfg(test)]
mod tests {
    use super::*;
    use usage::Span;

    fn row(team: &str, owner: &str) -> UsageRow {
        let named = !team.is_empty();
        let name = |text: &str| Name::new(if named { text } else { "" });
        UsageRow {
            key: UsageKey {
                pool: Name::new("h100"),
                class: Name::new("H100"),
                price_source: Name::new("book"),
                namespace: name(team),
                team: name(team),
                owner: name(owner),
                ..UsageKey::default()
            },
            device_ms: match named {
                true => [7_200_001, 3_600_000, 5, 0, 0, 0],
                false => [0, 0, 0, 0, 3_600_000, 7],
            },
            unobserved_ms: 0,
            energy_mwh: None,
            cost_micros: Some(match named {
                true => [9_000_001, 4_500_000, 3, 0, 0, 0],
                false => [0, 0, 0, 0, 4_500_000, 0],
            }),
            on_demand_micros: None,
        }
    }

    /// The begun hour is filled as well: its cost is not only that of the minutes since the demo was opened.
    #[test]
    fn the_hour_of_the_picture_is_whole() {
        let facts = table::sample::facts();
        let prices = Prices::default();
        let mut ledger = opened(&facts, &prices).expect("opens");
        ledger.take(sample(&facts, &prices)).expect("is taken");
        ledger.flush().expect("is written");
        let hour = hour_of(facts.now);
        let into = facts.now.since(start_of(hour)).millis();
        assert!(into > 120_000, "the sample is of a moment within its hour");
        let coverage = ledger
            .file()
            .coverage(Span {
                from: hour,
                to: hour + 1,
            })
            .expect("is read");
        assert_eq!(coverage.observed_ms, into.cast_signed());
        // For a budget of the fleet, too, the rest of the hour is still to come.
        let fleet = &budgets(&facts)[0];
        let hours = ledger.file().budget_hours(fleet, facts.now);
        let begun = hours.expect("is read").amounts.at(hour);
        assert_eq!(begun.observed_ms, into.cast_signed());
        let months = ledger
            .file()
            .coverage(Span {
                from: hour - HOURS,
                to: hour,
            })
            .expect("is read");
        assert_eq!(months.observed_ms, HOURS * HOUR_MS);
    }

    /// Where devices report power and have energy counters, each hour of the month has energy.
    #[test]
    fn the_month_has_energy() {
        let mut facts = table::sample::facts();
        let is_metered = |facts: &Facts| {
            let month = month(facts, &Prices::default());
            let mut hours = month.iter();
            hours.all(|hour| hour.rows.iter().any(|row| row.energy_mwh > Some(0)))
        };
        let fleet = Arc::make_mut(&mut facts.fleet);
        let mut nodes = fleet.nodes.to_vec();
        for node in &mut nodes {
            for device in &mut Arc::make_mut(node).devices {
                let more = [(Signal::Power, 300.0)];
                device.signals = device.signals.iter().chain(more).collect();
            }
        }
        fleet.nodes = nodes.clone().into();
        assert!(!is_metered(&facts), "no counter is read");
        for node in &mut nodes {
            for device in &mut Arc::make_mut(node).devices {
                let more = [(Signal::Energy, 1e9)];
                device.signals = device.signals.iter().chain(more).collect();
            }
        }
        Arc::make_mut(&mut facts.fleet).nodes = nodes.into();
        assert!(is_metered(&facts));
    }

    /// Each hour has all the devices at their current cost, whichever team had them allocated.
    #[test]
    fn an_hour_has_all_devices() {
        let rows = [row("nlp", ""), row("prod", SERVING), row("", "")];
        let sum = |rows: &[UsageRow]| {
            let ms: u64 = rows.iter().flat_map(|row| row.device_ms).sum();
            let cost: i64 = rows
                .iter()
                .filter_map(|row| row.cost_micros)
                .flatten()
                .sum();
            (ms, cost)
        };
        let mut shares = Vec::new();
        let month = DemoMonth::new(rows.to_vec(), 490_000);
        for hour in 490_000 - HOURS..490_000 {
            let all = month.rows(hour);
            assert_eq!(sum(&all), sum(&rows), "hour {hour}");
            let of = |team: &str| all.iter().find(|row| row.key.team.as_str() == team);
            let serves = of("prod").expect("serves day and night");
            assert_eq!(serves.device_ms, rows[1].device_ms);
            shares.push(of("nlp").expect("works").device_ms[0]);
        }
        let (least, most) = (shares.iter().min(), shares.iter().max());
        assert!(least < most, "it goes up and down");
    }

    /// The month fits the fleet, and a demo that is opened at another time has the same one.
    #[test]
    fn a_team_has_its_share_of_the_fleet_over_the_month() {
        let all = [
            row("nlp", ""),
            row("speech", ""),
            row("prod", SERVING),
            row("", ""),
        ];
        for rows in [&all[..], &all[..3]] {
            for now in [490_000, 490_001, 490_077] {
                let month = DemoMonth::new(rows.to_vec(), now);
                let hours: Vec<Vec<UsageRow>> =
                    (now - HOURS..now).map(|hour| month.rows(hour)).collect();
                let mut varied = false;
                for (at, own) in rows.iter().enumerate() {
                    let ms = |row: &UsageRow| row.device_ms.iter().sum::<u64>() as f64;
                    let cost = |row: &UsageRow| {
                        let parts = row.cost_micros.expect("a price");
                        parts.iter().sum::<i64>() as f64
                    };
                    for of in [&ms as &dyn Fn(&UsageRow) -> f64, &cost] {
                        let mean =
                            hours.iter().map(|hour| of(&hour[at])).sum::<f64>() / HOURS as f64;
                        assert!(
                            (mean / of(own) - 1.0).abs() < 1e-4,
                            "{} {mean}",
                            own.key.team
                        );
                    }
                    varied |= hours.iter().any(|hour| ms(&hour[at]) < 0.95 * ms(own));
                }
                assert!(varied, "teams take turns");
            }
        }
    }
}
