//! Usage ledger of a demo: kept in memory from its snapshots, and filled with the month before the demo was opened.
//!
//! The month is derived from the simulated fleet: each hour has the devices, prices, teams and queues that the fleet has when it
//! is opened. Only the allocated share varies, by team, day and hour; single jobs are not distinguished.

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
use model::usage::{
    GAP, HOUR_MS, HourUsage, UsageClass, UsageFold, UsageKey, UsageRow, UsageSample, hour_of,
    start_of,
};
use record::usage::{UsageFault, UsageFile};
use sim::world::noise::{hash, smooth};
use table::Facts;
use table::spend::{UsageFacts, UsageStatus};

use super::clock::SessionClock;
use super::first_look;
use super::usage::{UsageLedger, sample};
use super::usage_facts::UsageReader;

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

/// The kind that stands for all of [`SERVES`]: they are not distinguished.
const SERVING: &str = "Deployment";

/// The usage ledger of a demo. It outlives sessions, so that every namespace shows the same history.
pub(crate) type DemoLedger = Arc<Mutex<Option<UsageLedger>>>;

/// The usage facts of a demo, updated with each snapshot. Must be called within a tokio runtime.
pub(super) fn followed(
    reader: UsageReader,
    ledger: DemoLedger,
    mut facts: watch::Receiver<Option<Arc<Facts>>>,
    prices: Arc<Prices>,
    clock: SessionClock,
) -> watch::Receiver<Arc<UsageFacts>> {
    let (say, told) = watch::channel(Arc::default());
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
                let mut ledger = ledger.lock().unwrap_or_else(PoisonError::into_inner);
                // A session confined to some namespaces does not see what others use.
                let sees_all = seen.fleet.confined_to().is_empty();
                if ledger.is_none() && sees_all {
                    *ledger = Some(opened(&seen, &prices)?);
                }
                let Some(ledger) = ledger.as_mut() else {
                    return Ok(UsageFacts::default());
                };
                if sees_all {
                    ledger.take(sample(&seen, &prices))?;
                    ledger.flush()?;
                }
                Ok::<_, UsageFault>(reader.of_ledger(ledger.file(), now))
            });
            let (told, is_lost) = match read.await {
                Ok(Ok(told)) => (told, false),
                Ok(Err(fault)) => {
                    let status = UsageStatus::Failed(fault.to_string());
                    let told = UsageFacts {
                        status,
                        ..UsageFacts::default()
                    };
                    (told, true)
                }
                Err(_) => return,
            };
            if say.send(Arc::new(told)).is_err() || is_lost {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(EVERY.max(begun.elapsed() * 100).min(GAP / 2)) => {}
                () = say.closed() => return,
            }
        }
    });
    told
}

/// Waits until every exporter has been read once.
async fn whole(facts: &mut watch::Receiver<Option<Arc<Facts>>>) {
    let is_whole = |facts: &Option<Arc<Facts>>| {
        facts.as_ref().is_some_and(|facts| {
            let (answered, all) = first_look::readings(&facts.fleet);
            first_look::has_found_all(&facts.fleet) && all > 0 && answered == all
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
    let rows = hourly(facts, prices);
    let first = now - HOURS;
    let hours = (first..now).map(|hour| {
        let along = (hour - first) as f64 / HOURS as f64;
        HourUsage {
            hour,
            closed: true,
            observed_ms: HOUR_MS.unsigned_abs(),
            until_ms: HOUR_MS.unsigned_abs(),
            rows: summed(rows.iter().flat_map(|row| split(row, hour, along))),
            losses: Vec::new(),
            finished: Vec::new(),
        }
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

/// Splits the usage of a row in an hour into the share that was allocated then and the free rest. `along`: 0 at the first hour, 1
/// now.
fn split(row: &UsageRow, hour: i64, along: f64) -> Vec<UsageRow> {
    let key = &row.key;
    if key.namespace.is_empty() || key.owner.as_str() == SERVING {
        return vec![row.clone()];
    }
    let share = allocated(&key.team, &key.pool, hour, along);
    let of = |whole: i64| (whole as f64 * share) as i64;
    let mut held = row.clone();
    let mut free = UsageRow {
        key: UsageKey {
            pool: key.pool.clone(),
            class: key.class.clone(),
            billing: key.billing,
            zone: key.zone.clone(),
            price_source: key.price_source.clone(),
            price_as_of: key.price_as_of.clone(),
            ..UsageKey::default()
        },
        device_ms: [0; 6],
        cost_micros: row.cost_micros.map(|_| [0; 6]),
        ..row.clone()
    };
    let unallocated = UsageClass::Unallocated as usize;
    for at in 0..UsageClass::ALLOCATED {
        held.device_ms[at] = of(row.device_ms[at].cast_signed()).unsigned_abs();
        free.device_ms[unallocated] += row.device_ms[at] - held.device_ms[at];
        if let (Some(whole), Some(held), Some(free)) = (
            &row.cost_micros,
            &mut held.cost_micros,
            &mut free.cost_micros,
        ) {
            held[at] = of(whole[at]);
            free[unallocated] += whole[at] - held[at];
        }
    }
    held.energy_mwh = row
        .energy_mwh
        .map(|mwh| of(mwh.cast_signed()).unsigned_abs());
    let rest = row.energy_mwh.zip(held.energy_mwh);
    free.energy_mwh = rest.map(|(whole, held)| ((whole - held) as f64 * IDLE) as u64);
    held.on_demand_micros = row.on_demand_micros.map(of);
    free.on_demand_micros = row
        .on_demand_micros
        .zip(held.on_demand_micros)
        .map(|(whole, held)| whole - held);
    vec![held, free]
}

/// Share of a team's current allocation in a pool that it had in an hour, 0.3 to 1. `along`: 0 at the first hour, 1 now.
fn allocated(team: &Name, pool: &Name, hour: i64, along: f64) -> f64 {
    let (key, at) = (hash(&format!("{team}/{pool}")), hour * HOUR_MS);
    // 1970-01-01 was a Thursday.
    let weekday = (hour.div_euclid(24) + 3).rem_euclid(7);
    let weekend = if weekday >= 5 { 0.1 } else { 0.0 };
    let night = if (7..20).contains(&hour.rem_euclid(24)) {
        0.0
    } else {
        0.06
    };
    let days = 0.15 * smooth(key, at, 40 * HOUR_MS);
    let hours = 0.08 * smooth(key ^ 1, at, 5 * HOUR_MS);
    (0.72 + 0.12 * along + days + hours - weekend - night).clamp(0.3, 1.0)
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
    use model::usage::Span;

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
        for hour in 490_000..490_200 {
            let all = summed(rows.iter().flat_map(|row| split(row, hour, 0.5)));
            assert_eq!(sum(&all), sum(&rows), "hour {hour}");
            let of = |team: &str| all.iter().find(|row| row.key.team.as_str() == team);
            let serves = of("prod").expect("serves day and night");
            assert_eq!(serves.device_ms, rows[1].device_ms);
            shares.push(of("nlp").expect("works").device_ms[0]);
        }
        let (least, most) = (shares.iter().min(), shares.iter().max());
        assert!(least < most, "it goes up and down");
    }
}
