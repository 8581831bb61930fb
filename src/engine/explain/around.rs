//! What there is on nodes that a set of pods may use, and on those that it may not.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::compiled::{CompiledFleet, CompiledPodSet, FlavorId};
use crate::fit::Relaxation;
use crate::snapshot::{Taint, TaintEffect, WHOLE};
use crate::state::State;
use model::base::{Name, SmallSort};

use super::change::TaintName;
use super::reason::{NodeSupply, Reason};

/// What there is on nodes, by what is asked, where pods may go and with which flavors; of one state.
pub(super) type Arounds = BTreeMap<(usize, usize, Vec<FlavorId>), Arc<Around>>;

/// What there is on nodes that a set of pods may use, and on those that it may not: nodes, and pods that fit there.
#[derive(Default, Debug)]
pub(super) struct Around {
    free: i64,
    all: i64,
    closed: (usize, u64),
    tainted: (usize, u64),
    labelled: (usize, u64),
    taints: Vec<TaintName>,
    most: Option<Most>,
}

/// The most that one node has, of each by itself: thousandths of a core, bytes, and units of a resource of devices.
#[derive(Clone, Default, Debug)]
struct Most {
    cpu: i64,
    memory: i64,
    units: BTreeMap<usize, i64>,
}

/// Looks around.
pub(super) fn around(state: &mut State<'_>, it: &CompiledPodSet, flavors: &[FlavorId]) -> Around {
    let compiled: &CompiledFleet = state.compiled();
    let want = it.want;
    let plain = state.gate(it.constraint, flavors, &Relaxation::default());
    let no_taints = Relaxation {
        no_taints: true,
        ..Relaxation::default()
    };
    let no_labels = Relaxation {
        no_labels: true,
        ..Relaxation::default()
    };
    let untainted = state.gate(it.constraint, flavors, &no_taints);
    let unlabelled = state.gate(it.constraint, flavors, &no_labels);
    let mut out = Around::default();
    for node in 0..state.nodes() {
        let site = *state.room(node);
        let make = &compiled.makes[site.make];
        let pods = u64::from(state.look(node, want).room);
        if plain[make.zone] {
            let most = out.most.get_or_insert_default();
            most.cpu = most.cpu.max(make.cpu);
            most.memory = most.memory.max(make.memory);
            for (resource, _, _) in &compiled.wants[want].devices {
                let own = make.units.iter();
                let own = own.filter(|unit| unit.sound && unit.resource == *resource);
                let units = most.units.entry(*resource).or_default();
                *units = (*units).max(i64::try_from(own.count()).unwrap_or(i64::MAX));
            }
        }
        if plain[make.zone] && site.open {
            let left = state.left(node);
            for (unit, left) in make.units.iter().zip(left) {
                let wanted = |device: &(usize, u32, i32)| device.0 == unit.resource;
                if unit.sound && compiled.wants[want].devices.iter().any(wanted) {
                    out.free += i64::from((*left).max(0));
                    out.all += 1_000;
                }
            }
        } else if pods > 0 {
            let slot = if plain[make.zone] {
                &mut out.closed
            } else if !site.open {
                continue;
            } else if untainted[make.zone] {
                let own = &compiled.snapshot.nodes[site.origin].taints;
                for taint in open_taints(compiled, it.constraint, own) {
                    if out.taints.len() < 8 && !out.taints.contains(&taint) {
                        out.taints.push(taint);
                    }
                }
                &mut out.tainted
            } else if unlabelled[make.zone] {
                &mut out.labelled
            } else {
                continue;
            };
            slot.0 += 1;
            slot.1 += pods;
        }
    }
    out.taints.small_sort();
    out
}

/// Room in the nodes that a set may use, and in those that it may not.
pub(super) fn rooms(
    compiled: &CompiledFleet,
    it: &CompiledPodSet,
    (work, set, flavors): (usize, usize, &[FlavorId]),
    (asked, room): (u32, u64),
    around: &Around,
) -> Vec<Reason> {
    let (free, all) = (around.free, around.all);
    let needs = compiled.wants[it.want].ask.device_milli() * i64::from(asked);
    let numbers = NodeSupply {
        set,
        set_name: match &compiled.workload(work).sets[..] {
            [_] => None,
            sets => sets.get(set).map(|set| set.name.clone()),
        },
        flavors: flavors
            .iter()
            .map(|flavor| compiled.snapshot.flavors[*flavor].name.clone())
            .collect(),
        asked,
        room,
        asked_devices_milli: needs,
        free_devices_milli: free,
        devices_milli: all,
    };
    let mut reasons = vec![if let Some(reason) = too_large(compiled, it, around) {
        reason
    } else if all < needs {
        Reason::Absent(numbers)
    } else if needs > 0 && free >= needs {
        Reason::Fragmented(numbers)
    } else {
        Reason::NoRoom(numbers)
    }];
    let (nodes, room) = around.tainted;
    if nodes > 0 {
        reasons.push(Reason::Taints {
            taints: around.taints.clone(),
            nodes,
            room,
        });
    }
    let (nodes, room) = around.labelled;
    if nodes > 0 {
        reasons.push(Reason::Labels { nodes, room });
    }
    let (nodes, room) = around.closed;
    if nodes > 0 {
        reasons.push(Reason::Closed { nodes, room });
    }
    reasons
}

/// Taints that keep pods of a constraint away and that it makes sense to tolerate: not those by which Kubernetes says that
/// a node is out of order.
pub(super) fn open_taints(
    compiled: &CompiledFleet,
    constraint: usize,
    taints: &[Taint],
) -> Vec<TaintName> {
    let own = &compiled.constraints[constraint].tolerations;
    taints
        .iter()
        .filter(|taint| {
            taint.effect != TaintEffect::PreferNoSchedule
                && !taint.key.starts_with("node.kubernetes.io/")
                && !taint.key.starts_with("node.cloudprovider.kubernetes.io/")
                && !own.iter().any(|toleration| toleration.covers(taint))
        })
        .map(TaintName::of)
        .collect()
}

/// Where no node is large enough for one of its pods, however empty it is: what there is too little of.
fn too_large(compiled: &CompiledFleet, it: &CompiledPodSet, around: &Around) -> Option<Reason> {
    let want = &compiled.wants[it.want];
    let most = around.most.as_ref()?;
    let reason = |resource: Name, asked: i64, most: i64| {
        (asked > most).then_some(Reason::TooLarge {
            resource,
            asked,
            most,
        })
    };
    reason(Name::from("memory"), want.ask.memory_bytes, most.memory)
        .or_else(|| reason(Name::from("cpu"), want.ask.cpu_milli, most.cpu))
        .or_else(|| {
            let whole = want.devices.iter().zip(&want.ask.devices);
            let mut whole = whole.filter(|((_, _, milli), _)| *milli == WHOLE);
            whole.find_map(|((resource, count, _), ask)| {
                // Nodes without any such device are no matter of size.
                let units = most.units.get(resource).filter(|units| **units > 0)?;
                let milli = i64::from(WHOLE);
                reason(
                    ask.resource.clone(),
                    i64::from(*count) * milli,
                    units * milli,
                )
            })
        })
}
