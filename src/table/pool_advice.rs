//! Advice about pools: nodes to add for work that waits, idle nodes to remove.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use engine::sizing::{self, Growth, Shrink};
use engine::snapshot::Snapshot;
use model::advice::{Action, Advice, Certainty, POOL, committed};
use model::base::{Age, Name, ObjectKey, Rate};
use model::fleet::Fleet;
use model::fleet::job::JobKey;
use model::fleet::pool::Unusable;

/// No pool is made larger for a job that has waited for less: what runs may end and leave it room. Ours.
const LONG_WAIT: Age = Age::from_seconds(300);

/// Which pools to make larger or smaller; nothing where not everything is read yet.
/// The nodes of `spared` are not taken for idle.
pub fn advise(fleet: &Fleet, snapshot: &Snapshot, spared: &BTreeSet<Name>) -> Arc<[Advice]> {
    if !fleet.is_complete() {
        return Arc::default();
    }
    let least: BTreeMap<Name, u32> = fleet
        .pools
        .iter()
        .filter_map(|pool| Some((pool.name.clone(), pool.nodes.min?)))
        .collect();
    let waits_long = |job: &JobKey| {
        let since = fleet.job(job).and_then(|job| job.waiting_since);
        since.is_none_or(|since| fleet.at.since(since) >= LONG_WAIT)
    };
    let growths = sizing::growth(snapshot, &waits_long);
    // Idle nodes of a pool that is to grow are part of what its pending work would start on.
    let mut shrinks = sizing::shrink(
        snapshot,
        &least,
        &out_of_use(fleet).union(spared).cloned().collect(),
    );
    shrinks.retain(|shrink| growths.iter().all(|growth| growth.pool != shrink.pool));
    let down = shrinks.into_iter().map(|shrink| removal(shrink, fleet));
    let up = growths.into_iter().map(|growth| {
        let mut pools = fleet.pools.iter();
        let pool = pools.find(|known| known.name == growth.pool);
        let above = pool.and_then(|pool| pool.maximum_below(growth.nodes));
        addition(growth, above)
    });
    down.chain(up).collect()
}

/// Nodes with free devices that no pod can use: somebody has to mend them, and what they are worth to the pool shows only then.
fn out_of_use(fleet: &Fleet) -> BTreeSet<Name> {
    let nodes = fleet.nodes.iter();
    let unusable = nodes.filter(|node| Unusable::of(node).total() > 0);
    unusable.map(|node| node.name().clone()).collect()
}

fn about(pool: Name, action: Action, devices: u32, class: Name, rate: Option<i64>) -> Advice {
    Advice {
        job: JobKey {
            kind: Name::new(POOL),
            key: ObjectKey {
                namespace: Name::default(),
                name: pool,
            },
        },
        team: Name::default(),
        bound: None,
        action,
        devices,
        class: Some(class),
        evidence: None,
        costs: rate.map(Rate::from_micros),
        saves: None,
        commitment: None,
        certainty: Certainty::Medium,
    }
}

fn removal(shrink: Shrink, fleet: &Fleet) -> Advice {
    let billing = |name: &Name| fleet.node(name).and_then(|node| node.billing);
    let commitment = committed(shrink.nodes.iter().map(billing));
    let action = Action::RemoveNodes(shrink.nodes.into());
    Advice {
        saves: shrink.saves.map(Rate::from_micros),
        commitment,
        ..about(
            shrink.pool,
            action,
            shrink.devices,
            shrink.class,
            shrink.rate,
        )
    }
}

fn addition(growth: Growth, above: Option<u32>) -> Advice {
    let starts = growth.starts.iter();
    let action = Action::AddNodes {
        nodes: growth.nodes,
        starts: starts.map(|job| Name::from(job.to_string())).collect(),
        above,
    };
    about(
        growth.pool,
        action,
        growth.devices,
        growth.class,
        growth.rate,
    )
}
