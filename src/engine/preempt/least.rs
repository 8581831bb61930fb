//! The victims with the least lost work: several heuristics, the best result, and a proof if there are few candidates.

use std::collections::{BTreeMap, BTreeSet};

use crate::compiled::NodeId;
use crate::fit::Relaxation;
use crate::snapshot::WHOLE;
use crate::state::State;

use super::candidate::{Candidate, uses};
use super::search::{VictimSet, as_cluster, exhaustive, give_back, in_order, makes_room};
use super::search_context::SearchContext;

/// Up to this many candidates all heuristics are used; above it, only the two that consider the missing resources.
const MANY: usize = 512;

/// The set with the least lost work, and whether that is proven.
pub(super) fn least(
    state: &mut State<'_>,
    context: &SearchContext,
    list: &[Candidate],
    tries: &[bool],
) -> (Option<VictimSet>, bool) {
    let mut guesses: Vec<Vec<usize>> = vec![by_nodes(state, context, list)];
    if list.len() <= MANY {
        guesses.push(by_quota(state, context, list));
        guesses.push((0..list.len()).collect());
    }
    let mut best: Option<VictimSet> = None;
    for &borrow in tries {
        for order in &guesses {
            let Some(found) = in_order(state, context, list, borrow, order) else {
                continue;
            };
            // Most expensive first.
            let mut dear = found.taken.clone();
            dear.sort_by_key(|at| (std::cmp::Reverse(list[*at].lost), *at));
            let given = give_back(state, context, list, found, borrow, Some(&dear));
            // Without the removed victims, the others may no longer be eligible.
            let Some(found) = makes_room(state, context, list, borrow, &given.taken) else {
                continue;
            };
            if is_less(&found, best.as_ref(), list) {
                best = Some(found);
            }
        }
    }
    // The cluster's own choice is always an option.
    if (best.is_none() || list.len() <= MANY)
        && let Some(found) = as_cluster(state, context, list, tries)
        && is_less(&found, best.as_ref(), list)
    {
        best = Some(found);
    }
    if list.len() > state.compiled().snapshot.options.exact_victims as usize {
        return (best, false);
    }
    exhaustive(state, context, list, tries, best)
}

fn is_less(found: &VictimSet, best: Option<&VictimSet>, list: &[Candidate]) -> bool {
    best.is_none_or(|best| found.cost(list) < best.cost(list))
}

/// Candidates that release most of the missing quota per lost work first.
fn by_quota(state: &State<'_>, context: &SearchContext, list: &[Candidate]) -> Vec<usize> {
    let brings = |at: usize| {
        let allocation = state.allocation(list[at].work);
        let short = context.short.iter();
        allocation.map_or(0, |allocation| {
            short.map(|pair| uses(allocation, *pair)).sum::<i64>()
        })
    };
    let keyed: Vec<(i128, i128)> = (0..list.len())
        .map(|at| (i128::from(list[at].lost), i128::from(brings(at).max(1))))
        .collect();
    let mut order: Vec<usize> = (0..list.len()).collect();
    order.sort_by(|&a, &b| {
        let cross = (keyed[a].0 * keyed[b].1).cmp(&(keyed[b].0 * keyed[a].1));
        // Among equals the larger first.
        cross.then(keyed[b].1.cmp(&keyed[a].1)).then(a.cmp(&b))
    });
    order
}

/// Capacity for one pod on a node: its cost and its victims.
struct NodeSlot {
    lost: i64,
    node: NodeId,
    takes: Vec<usize>,
}

/// Candidates on the nodes that are cheapest to clear, in the cheapest domain overall; then the others.
fn by_nodes(state: &mut State<'_>, context: &SearchContext, list: &[Candidate]) -> Vec<usize> {
    let rest = by_quota(state, context, list);
    let compiled = state.compiled();
    let sets = &compiled.workloads[context.work].sets;
    let whole = |set: &usize| {
        let devices = &compiled.requests[sets[*set].want].devices;
        devices.iter().any(|device| device.2 == WHOLE)
    };
    let size = |set: &usize| {
        u64::from(sets[*set].count) * compiled.requests[sets[*set].want].ask.device_milli() as u64
    };
    let Some(set) = (0..sets.len()).filter(whole).max_by_key(size) else {
        return rest;
    };
    let slots = slots(state, context, list, set);
    let own = &sets[set];
    let count = context.counts[set] as usize;
    let cheapest = |slots: Vec<&NodeSlot>| -> Option<(i64, Vec<usize>)> {
        let mut slots = slots;
        if slots.len() < count {
            return None;
        }
        slots.sort_by_key(|slot| (slot.lost, slot.node));
        slots.truncate(count);
        let lost = slots
            .iter()
            .fold(0_i64, |sum, slot| sum.saturating_add(slot.lost));
        Some((
            lost,
            slots
                .into_iter()
                .flat_map(|slot| slot.takes.iter().copied())
                .collect(),
        ))
    };
    let chosen = match own.topology_level.filter(|topology_level| topology_level.2) {
        None => cheapest(slots.iter().collect()),
        Some((ladder, level, _)) => {
            let ladder = &compiled.ladders[ladder];
            let mut domains: BTreeMap<usize, Vec<&NodeSlot>> = BTreeMap::new();
            for slot in &slots {
                let origin = state.node_free(slot.node).origin;
                if let Some(domain) = ladder.domain_of(origin, level) {
                    domains.entry(domain).or_default().push(slot);
                }
            }
            let all = domains.into_values().filter_map(cheapest);
            all.min_by_key(|(lost, takes)| (*lost, takes.len()))
        }
    };
    let mut order: Vec<usize> = chosen.map_or_else(Vec::new, |(_, takes)| takes);
    let mut seen = BTreeSet::new();
    order.extend(rest);
    order.retain(|at| seen.insert(*at));
    order
}

/// Capacity for a set's pods that can be freed on nodes, by whole devices.
fn slots(
    state: &mut State<'_>,
    context: &SearchContext,
    list: &[Candidate],
    set: usize,
) -> Vec<NodeSlot> {
    let compiled = state.compiled();
    let own = &compiled.workloads[context.work].sets[set];
    let Some(&(resource, each, _)) = compiled.requests[own.want]
        .devices
        .iter()
        .find(|device| device.2 == WHOLE)
    else {
        return Vec::new();
    };
    let gate = state.gate(
        own.constraint,
        &context.flavors[set],
        &Relaxation::default(),
    );
    // Per node: candidates with their units there and their share of the lost work.
    let mut held: BTreeMap<NodeId, BTreeMap<usize, i64>> = BTreeMap::new();
    let mut totals: Vec<i64> = vec![0; list.len()];
    for (at, candidate) in list.iter().enumerate() {
        let Some(allocation) = state.allocation(candidate.work) else {
            continue;
        };
        for placement in allocation.sets.iter().flat_map(|set| &set.placements) {
            let units = &compiled.node_shapes[state.node_free(placement.node).node_shape].units;
            let of = |(unit, _): &&(u32, i32)| units[*unit as usize].resource == resource;
            let count = placement.units.iter().filter(of).count() as i64;
            totals[at] += count;
            *held
                .entry(placement.node)
                .or_default()
                .entry(at)
                .or_default() += count;
        }
    }
    let mut slots = Vec::new();
    for node in 0..state.nodes() {
        let room = *state.node_free(node);
        let make = &compiled.node_shapes[room.node_shape];
        if !room.open || !gate[make.zone] {
            continue;
        }
        let units = make.units.iter().zip(state.left(node));
        let free = units
            .filter(|(unit, left)| unit.resource == resource && unit.sound && **left == WHOLE)
            .count() as i64;
        let each = i64::from(each.max(1));
        for _ in 0..free / each {
            slots.push(NodeSlot {
                lost: 0,
                node,
                takes: Vec::new(),
            });
        }
        let Some(held) = held.get(&node) else {
            continue;
        };
        let mut order: Vec<(i64, usize, i64)> = held
            .iter()
            .map(|(&at, &count)| {
                let part =
                    i128::from(list[at].lost) * i128::from(count) / i128::from(totals[at].max(1));
                (i64::try_from(part).unwrap_or(i64::MAX), at, count)
            })
            .collect();
        order.sort_by_key(|&(lost, at, count)| (lost / count.max(1), at));
        let (mut spare, mut lost, mut takes) = (free % each, 0_i64, Vec::new());
        for (part, at, count) in order {
            spare += count;
            lost = lost.saturating_add(part);
            takes.push(at);
            for more in 0..spare / each {
                let (lost, takes) = if more == 0 {
                    (std::mem::take(&mut lost), std::mem::take(&mut takes))
                } else {
                    (0, Vec::new())
                };
                slots.push(NodeSlot { lost, node, takes });
            }
            spare %= each;
        }
    }
    slots
}
