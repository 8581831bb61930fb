//! The usage ledger of a demo: kept in memory from its pictures, and begun with a month before it was opened.
//!
//! The month is the simulated fleet's, as the hour of readings before a demo is: each hour has the devices, prices, teams and queues
//! that the fleet has when it opens. How much of them was allocated goes up and down by team, day and hour; jobs are not told apart.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use model::base::Name;
use model::cost::Prices;
use model::fleet::node::Billing;
use model::usage::{
    GAP, HOUR_MS, HourUsage, Part, UsageFold, UsageKey, UsageRow, UsageSample, hour_of, start_of,
};
use record::usage::{UsageFault, UsageFile};
use sim::world::noise::{hash, smooth};
use table::Facts;
use table::spend::{UsageFacts, UsageStatus};

use super::clock::SessionClock;
use super::first_look;
use super::usage::{UsageLedger, sample};
use super::usage_facts::UsageReader;

/// Hours before a demo that it tells of.
const HOURS: i64 = 31 * 24;

/// A picture is taken so often.
const EVERY: Duration = Duration::from_secs(20);

/// For so long the first readings of a fleet are waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// Kinds of workloads that serve, and hold what they hold day and night.
const SERVES: [&str; 3] = ["Deployment", "StatefulSet", "LeaderWorkerSet"];

/// What stands for their kind: they are not told apart.
const SERVING: &str = "Deployment";

/// What the ledger of a demo tells, again and again. Must be called within a tokio runtime.
pub(super) fn followed(
    reader: UsageReader,
    mut facts: watch::Receiver<Option<Arc<Facts>>>,
    prices: Arc<Prices>,
    clock: SessionClock,
) -> watch::Receiver<Arc<UsageFacts>> {
    let (say, told) = watch::channel(Arc::default());
    tokio::spawn(async move {
        let _ = tokio::time::timeout(PATIENCE, whole(&mut facts)).await;
        let mut ledger: Option<UsageLedger> = None;
        loop {
            let Some(seen) = facts.borrow_and_update().clone() else {
                return;
            };
            let (kept, prices, reader) = (ledger.take(), Arc::clone(&prices), reader.clone());
            let now = clock.now();
            let begun = Instant::now();
            let read = spawn_blocking(move || {
                let mut ledger = match kept {
                    Some(ledger) => ledger,
                    None => opened(&seen, &prices)?,
                };
                ledger.take(sample(&seen, &prices))?;
                ledger.flush()?;
                let told = reader.of_ledger(ledger.file(), now);
                Ok::<_, UsageFault>((ledger, told))
            });
            let told = match read.await {
                Ok(Ok((next, told))) => {
                    ledger = Some(next);
                    told
                }
                Ok(Err(fault)) => UsageFacts {
                    status: UsageStatus::Failed(fault.to_string()),
                    ..UsageFacts::default()
                },
                Err(_) => return,
            };
            let is_lost = ledger.is_none();
            if say.send(Arc::new(told)).is_err() || is_lost {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(EVERY.max(begun.elapsed() * 100)) => {}
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

/// A ledger in memory with the month before the picture, up to the picture.
fn opened(facts: &Facts, prices: &Prices) -> Result<UsageLedger, UsageFault> {
    let mut file = UsageFile::in_memory()?.without_ends();
    file.write(&month(facts, prices), &[])?;
    let mut ledger = UsageLedger::new(file, GAP)?;
    let picture = sample(facts, prices);
    let mut at = start_of(hour_of(facts.now));
    while at < facts.now {
        ledger.take(picture.as_past(at))?;
        at = at.plus(GAP / 2);
    }
    Ok(ledger)
}

/// The hours before a picture, oldest first.
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

/// What an hour would have if the fleet stood as it does in the picture.
fn hourly(facts: &Facts, prices: &Prices) -> Vec<UsageRow> {
    const MINUTES: i64 = 60;
    let from = start_of(hour_of(facts.now));
    let mut fold = UsageFold::new(GAP, []);
    for at in [from, from.plus(Duration::from_secs(60))] {
        fold.take(UsageSample::of(at, &facts.fleet, prices));
    }
    let rows = fold.open().flat_map(|hour| hour.rows);
    let whole = rows.map(|row| UsageRow {
        device_ms: row.device_ms.map(|ms| ms * MINUTES.unsigned_abs()),
        unobserved_ms: 0,
        energy_mwh: None,
        cost_micros: row.cost_micros.map(|cost| cost.map(|one| one * MINUTES)),
        on_demand_micros: row.on_demand_micros.map(|one| one * MINUTES),
        ..row
    });
    let mut rows = summed(whole.map(|mut row| {
        let serves = SERVES.contains(&row.key.owner.as_str());
        row.key.owner = Name::new(if serves { SERVING } else { "" });
        row.key.job = Name::default();
        row.key.model = Name::default();
        // (Whether spot prices have a price on demand beside them goes by the zone.)
        if row.key.billing != Some(Billing::Spot) {
            row.key.zone = Name::default();
        }
        row
    }));
    rows.retain(|row| row.device_ms.iter().any(|ms| *ms > 0));
    rows
}

/// What a row had in an hour, `along` of the way to now: the share of it that was allocated then, and the rest, which was free.
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
    let unallocated = Part::Unallocated as usize;
    for at in 0..Part::ALLOCATED {
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
    held.on_demand_micros = row.on_demand_micros.map(of);
    free.on_demand_micros = row
        .on_demand_micros
        .zip(held.on_demand_micros)
        .map(|(whole, held)| whole - held);
    vec![held, free]
}

/// The share of what a team holds in a pool that it held in an hour, `along` of the way to now: 0.3 to 1.
fn allocated(team: &Name, pool: &Name, hour: i64, along: f64) -> f64 {
    let (key, at) = (hash(&format!("{team}/{pool}")), hour * HOUR_MS);
    // The first of January 1970 was a Thursday.
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

/// Rows with those of one key added up.
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

    /// The hour that is begun has its past, too: its cost is not that of the minutes since the demo was opened.
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

    /// Devices and their cost are what they are now in each hour, whoever had them.
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
