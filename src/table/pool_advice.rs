//! Advice about pools: nodes to add for work that waits, idle nodes to remove.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use engine::sizing::{self, Growth, Shrink};
use engine::snapshot::Snapshot;
use model::advice::{Action, Advice, Certainty, POOL, committed};
use model::base::{Age, Name, ObjectKey};
use model::cost::Money;
use model::fleet::Fleet;
use model::fleet::job::JobKey;
use model::fleet::pool::Unusable;

/// Minimum wait of a job before a pool is grown for it: until then, finishing work may free enough devices. Our choice.
const LONG_WAIT: Age = Age::from_seconds(300);

/// Advice on growing or shrinking pools; empty until everything is read. Nodes in `spared` do not count as idle.
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
    // A pool that should grow needs its idle nodes for the pending work.
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

/// Nodes with free devices that no pod can use. They need repair first; whether the pool needs them shows only after that.
fn out_of_use(fleet: &Fleet) -> BTreeSet<Name> {
    let nodes = fleet.nodes.iter();
    let unusable = nodes.filter(|node| !Unusable::of(node).total().is_zero());
    unusable.map(|node| node.name().clone()).collect()
}

fn about(pool: Name, action: Action, devices: u32, class: Name, rate: Option<Money>) -> Advice {
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
        costs: rate,
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
        saves: shrink.saves,
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
