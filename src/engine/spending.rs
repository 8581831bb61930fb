//! Allocations and cost of workloads at one time, for budgets.

use std::collections::BTreeMap;

use model::base::{Moment, Name};
use model::cost::{FleetSpending, JobSpending, PoolSpending};

use super::compiled::WorkloadId;
use super::forecast;
use super::state::State;

/// Allocations of a state, and the cost of all devices.
pub fn spending(state: &State<'_>) -> FleetSpending {
    let compiled = state.compiled();
    let mut pools: BTreeMap<&Name, PoolSpending> = BTreeMap::new();
    for node in &compiled.snapshot.nodes {
        let pool = pools.entry(&node.pool).or_insert_with(|| PoolSpending {
            pool: node.pool.clone(),
            rate: 0,
            unpriced: 0,
        });
        for device in &node.devices {
            match device.price {
                Some(price) => pool.rate = pool.rate.saturating_add(price),
                None => pool.unpriced += 1,
            }
        }
    }
    FleetSpending {
        jobs: state
            .holders()
            .flat_map(|work| allocation_by_pool(state, work))
            .collect(),
        pools: pools.into_values().collect(),
    }
}

fn allocation_by_pool(state: &State<'_>, work: WorkloadId) -> Vec<JobSpending> {
    let compiled = state.compiled();
    let model = compiled.workload(work);
    let ends: Option<Moment> = forecast::expected_end(state, work);
    let mut pools: Vec<JobSpending> = Vec::new();
    let sets = state.allocation(work).map(|allocation| &allocation.sets);
    for placement in sets.into_iter().flatten().flat_map(|set| &set.placements) {
        let room = state.node_free(placement.node);
        let node = &compiled.snapshot.nodes[room.origin];
        let units = &compiled.node_shapes[room.node_shape].units;
        let at = match pools.iter().position(|one| one.pool == node.pool) {
            Some(at) => at,
            None => {
                pools.push(JobSpending {
                    key: model.key.clone(),
                    team: model.team.clone(),
                    pool: node.pool.clone(),
                    milli: Some(0),
                    rate: Some(0),
                    ends,
                });
                pools.len() - 1
            }
        };
        for (unit, milli) in placement.units.iter() {
            let unit = &units[*unit as usize];
            // The size of a slice relative to its device is unknown.
            let whole = unit.slice.is_none().then_some(i64::from(*milli));
            let one = &mut pools[at];
            one.milli = one.milli.zip(whole).map(|(sum, milli)| sum + milli);
            let price = node
                .devices
                .get(unit.device)
                .and_then(|device| device.price);
            let rate = whole.zip(price).map(|(milli, price)| price * milli / 1_000);
            one.rate = one
                .rate
                .zip(rate)
                .map(|(sum, rate)| sum.saturating_add(rate));
        }
    }
    pools.retain(|one| one.milli != Some(0));
    pools
}
