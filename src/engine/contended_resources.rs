//! The resources that workloads compete for: pools whose nodes they may use and quotas that they may draw on. Two jobs with no
//! common resource, directly or through other pending jobs, cannot change each other's start.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::compiled::{CompiledFleet, WorkloadId};
use crate::cycle::is_strict;
use crate::explain::pods_of;
use crate::fit::Relaxation;
use crate::snapshot::SnapshotQueue;
use crate::state::State;
use model::base::Name;

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Contended {
    /// Nodes of a pool.
    Pool(Name),
    /// Quota of a flavor in the whole tree of this root queue: what one queue does not use another may borrow.
    Quota(Name, Name),
    /// Queue order: a strict queue, or, with fair sharing, a tree of queues ordered by usage.
    Turn(Name),
}

/// Contended resources of each workload, by workload.
pub fn reach(state: &mut State<'_>) -> Vec<Arc<BTreeSet<Contended>>> {
    let compiled = state.compiled();
    let kinds: BTreeSet<(usize, &Name)> = compiled
        .nodes
        .iter()
        .zip(&compiled.snapshot.nodes)
        .map(|(site, node)| (site.node_shape, &node.pool))
        .collect();
    let mut known: BTreeMap<usize, Arc<BTreeSet<Contended>>> = BTreeMap::new();
    let mut all = Vec::with_capacity(compiled.workloads.len());
    for (work, it) in compiled.workloads.iter().enumerate() {
        let found = match known.get(&it.shape) {
            Some(found) => found.clone(),
            None => {
                let found = Arc::new(of(state, work, &kinds));
                known.insert(it.shape, found.clone());
                found
            }
        };
        all.push(found);
    }
    all
}

fn of(
    state: &mut State<'_>,
    work: WorkloadId,
    kinds: &BTreeSet<(usize, &Name)>,
) -> BTreeSet<Contended> {
    let compiled = state.compiled();
    let it = &compiled.workloads[work];
    let plain = Relaxation::default();
    let mut out = BTreeSet::new();
    if let Some(queue) = it.queue {
        out.extend(contended_queue(compiled, queue));
    }
    for (at, set) in it.sets.iter().enumerate() {
        let options = it.queue.map(|queue| state.options(work, at, queue, &plain));
        let options = options.and_then(Result::ok).filter(|all| !all.is_empty());
        let (mut pools, mut quotas, mut in_vain) =
            (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for flavors in options.unwrap_or_else(|| vec![Vec::new()]) {
            let gate = state.gate(set.constraint, &flavors, &plain);
            let own = kinds.iter().filter(|(make, _)| {
                gate[compiled.node_shapes[*make].zone] && pods_of(compiled, *make, set.want) > 0
            });
            let own: BTreeSet<Contended> = own
                .map(|(_, pool)| Contended::Pool((*pool).clone()))
                .collect();
            let any = !own.is_empty();
            pools.extend(own);
            let Some(queue) = it.queue else { continue };
            let root = &compiled.tree.branches[compiled.tree.branches[queue].root].name;
            let own = flavors.iter().map(|flavor| {
                let flavor = compiled.snapshot.flavors[*flavor].name.clone();
                Contended::Quota(root.clone(), flavor)
            });
            // It may not use nodes of this flavor.
            match any {
                true => quotas.extend(own),
                false => in_vain.extend(own),
            }
        }
        out.extend(match quotas.is_empty() {
            true => in_vain,
            false => quotas,
        });
        out.extend(pools);
    }
    out
}

/// The queue order that a queue's workloads depend on, if order matters besides quota and nodes.
fn contended_queue(compiled: &CompiledFleet, queue: usize) -> Option<Contended> {
    let branches = &compiled.tree.branches;
    match compiled.snapshot.options.fair_sharing.is_some() {
        true => Some(branches[branches[queue].root].name.clone()),
        false => is_strict(compiled, queue).then(|| branches[queue].name.clone()),
    }
    .map(Contended::Turn)
}

/// What a change of a queue or cohort affects: the quotas of its tree that it has itself, and its queue order.
pub fn of_queue(compiled: &CompiledFleet, changed: &SnapshotQueue) -> BTreeSet<Contended> {
    let branches = &compiled.tree.branches;
    let Some(at) = branches.iter().position(|it| it.name == changed.name) else {
        return BTreeSet::new();
    };
    let root = &branches[branches[at].root].name;
    let quotas = changed
        .quotas
        .iter()
        .map(|quota| Contended::Quota(root.clone(), quota.flavor.clone()));
    quotas.chain(contended_queue(compiled, at)).collect()
}
