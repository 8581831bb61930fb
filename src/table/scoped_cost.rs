//! Cost rates of a scope: what the jobs of a team or of some namespaces cost, by every dimension. The rows of each dimension
//! add up to the total, and the total is the header's.

use std::collections::BTreeMap;

use model::base::{Name, SmallSort};
use model::cost::spend_rates::UNATTRIBUTED;
use model::cost::{RateRow, Scope as By, Spend, SpendRates};
use model::fleet::job::Job;

use super::{Facts, Scope};

/// Rates of the devices of a scope's jobs. Free devices are excluded; prices, and the rates of nodes and jobs, stay those of
/// the fleet.
pub(super) fn burn_of(facts: &Facts, scope: &Scope) -> SpendRates {
    let whole = &*facts.spend_rates;
    let mut part = SpendRates {
        prices: whole.prices.clone(),
        nodes: whole.nodes.clone(),
        jobs: whole.jobs.clone(),
        ..SpendRates::default()
    };
    let mut rows: BTreeMap<By, BTreeMap<Name, RateRow>> = BTreeMap::new();
    for by in By::ALL {
        rows.insert(by, BTreeMap::new());
    }
    for job in facts.fleet.jobs.iter().filter(|job| scope.has_job(job)) {
        let Some((spend, _)) = whole.jobs.get(&job.id) else {
            continue;
        };
        part.total += *spend;
        for by in By::ALL {
            let into = rows.entry(by).or_default();
            for (name, share) in shares(facts, job, by, *spend) {
                row(whole, into, by, name).spend += share;
            }
        }
    }
    for (node, device) in facts.fleet.devices() {
        // A shared device counts once, for the first of its pods in the scope: the sum is the header's.
        let holder = device.holders().find(|(pod, _)| scope.has_pod(pod));
        let Some((pod, _)) = holder else { continue };
        let unpriced = !whole.nodes.contains_key(node.name());
        part.devices += 1;
        part.unpriced += u32::from(unpriced);
        for by in By::ALL {
            let name = match by {
                By::Pool => node.pool.clone(),
                By::Class => device.class.clone(),
                By::Team => pod.team.clone(),
                By::Queue => named(pod.queue.as_ref()),
                By::Job => Name::from(pod.job.to_string()),
            };
            let row = row(whole, rows.entry(by).or_default(), by, name);
            row.devices += 1;
            let is_sliced = device.holder.is_none();
            row.shared += u32::from(is_sliced && !matches!(by, By::Pool | By::Class));
            row.unpriced += u32::from(unpriced);
        }
    }
    part.rows = rows
        .into_iter()
        .map(|(by, rows)| {
            let mut rows: Vec<RateRow> = rows.into_values().collect();
            rows.small_sort_by_key(|row| row.name.as_str() == UNATTRIBUTED);
            (by, rows)
        })
        .collect();
    part
}

fn named(name: Option<&Name>) -> Name {
    name.cloned().unwrap_or_else(|| Name::new(UNATTRIBUTED))
}

/// The row of this name, with the prices of the fleet's row.
fn row<'a>(
    whole: &SpendRates,
    rows: &'a mut BTreeMap<Name, RateRow>,
    by: By,
    name: Name,
) -> &'a mut RateRow {
    rows.entry(name.clone()).or_insert_with(|| {
        let known = whole.row(by, &name);
        RateRow {
            scope: by,
            devices: 0,
            shared: 0,
            spend: Spend::default(),
            unpriced: 0,
            price_source: known.and_then(|row| row.price_source.clone()),
            price_as_of: known.and_then(|row| row.price_as_of.clone()),
            name,
        }
    })
}

/// A job's rate split by the rows of a dimension. With devices in several pools or classes, each gets its share by the
/// number of placements; shares are cut from a running sum, so that they add up to the micro-dollar.
fn shares(facts: &Facts, job: &Job, by: By, spend: Spend) -> Vec<(Name, Spend)> {
    let one = |name: Name| vec![(name, spend)];
    match by {
        By::Team => return one(job.team.clone()),
        By::Queue => return one(named(job.queue.as_ref())),
        By::Job => return one(Name::from(job.id.to_string())),
        By::Pool | By::Class => {}
    }
    let mut counts: BTreeMap<Name, u64> = BTreeMap::new();
    for place in &job.places {
        let Some(node) = facts.fleet.node(&place.node) else {
            continue;
        };
        let device = node.device(place.device);
        let name = match by {
            By::Pool => Some(&node.pool),
            _ => device.map(|device| &device.class),
        };
        if let Some(name) = name {
            *counts.entry(name.clone()).or_default() += 1;
        }
    }
    let all: u64 = counts.values().sum();
    if all == 0 {
        return one(Name::new(UNATTRIBUTED));
    }
    let mut before = 0;
    counts
        .into_iter()
        .map(|(name, count)| {
            let share = spend.cut(before, count, all);
            before += count;
            (name, share)
        })
        .collect()
}
