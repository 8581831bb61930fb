//! Free capacity on eligible nodes of a pod set, and on nodes that are not eligible.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::compiled::{CompiledFleet, CompiledPodSet, FlavorId};
use crate::fit::Relaxation;
use crate::snapshot::{SnapshotTaint, TaintEffect, WHOLE};
use crate::state::State;
use model::base::{Name, SmallSort};

use super::change::TaintName;
use super::reason::{Apart, NodeSupply, Reason};

/// Supply by pod request, constraint and flavors; for one state.
pub(super) type Arounds = BTreeMap<(usize, usize, Vec<FlavorId>), Arc<Around>>;

/// Nodes that a pod set may use and nodes that it may not, with the pods that fit there.
#[derive(Default, Debug)]
pub(super) struct Around {
    free: i64,
    all: i64,
    /// Pods that fit by devices alone.
    by_devices: u64,
    /// What kept the first pod that found devices on its node from fitting.
    short: Option<Apart>,
    closed: (usize, u64),
    tainted: (usize, u64),
    labelled: (usize, u64),
    taints: Vec<TaintName>,
    most: Option<Most>,
}

/// The maximum of a single node, each by itself: thousandths of a core, bytes, and units of a device resource.
#[derive(Clone, Default, Debug)]
struct Most {
    cpu: i64,
    memory: i64,
    units: BTreeMap<usize, i64>,
}

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
        let site = *state.node_free(node);
        let make = &compiled.node_shapes[site.node_shape];
        let pods = u64::from(state.look(node, want).room);
        if plain[make.zone] {
            let most = out.most.get_or_insert_default();
            most.cpu = most.cpu.max(make.cpu);
            most.memory = most.memory.max(make.memory);
            for (resource, _, _) in &compiled.requests[want].devices {
                let own = make.units.iter();
                let own = own.filter(|unit| unit.sound && unit.resource == *resource);
                let units = most.units.entry(*resource).or_default();
                *units = (*units).max(i64::try_from(own.count()).unwrap_or(i64::MAX));
            }
        }
        if plain[make.zone] && site.open {
            let by_devices = state.by_devices(node, want);
            out.by_devices += by_devices;
            if by_devices > pods && out.short.is_none() {
                let ask = &compiled.requests[want].ask;
                let more = i64::try_from(pods + 1).unwrap_or(i64::MAX);
                let is_short = |left: i64, each: i64| each.saturating_mul(more) > left;
                out.short = match is_short(site.memory, ask.memory_bytes) {
                    true if !is_short(site.cpu, ask.cpu_milli) => Some(Apart::Memory),
                    _ => Some(Apart::Cpu),
                };
            }
            let left = state.left(node);
            for (unit, left) in make.units.iter().zip(left) {
                let wanted = |device: &(usize, u32, i32)| device.0 == unit.resource;
                if unit.sound && compiled.requests[want].devices.iter().any(wanted) {
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

/// Number of pods that fit on eligible nodes of a set, and on nodes that are not eligible.
pub(super) fn capacity_reasons(
    compiled: &CompiledFleet,
    it: &CompiledPodSet,
    (work, set, flavors): (usize, usize, &[FlavorId]),
    (asked, room): (u32, u64),
    around: &Around,
) -> Vec<Reason> {
    let (free, all) = (around.free, around.all);
    let needs = compiled.requests[it.want].ask.device_milli() * i64::from(asked);
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
        apart: match needs / i64::from(asked.max(1)) {
            ..=0 => None,
            each => {
                let most = u64::from(asked).min((free / each).unsigned_abs());
                let together = around.by_devices >= most;
                let why = if together { around.short } else { None };
                (most > room).then_some(why.unwrap_or(Apart::Devices))
            }
        },
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

/// Taints that exclude pods of a constraint and are reasonable to tolerate: not the taints with which Kubernetes marks an unhealthy node.
pub(super) fn open_taints(
    compiled: &CompiledFleet,
    constraint: usize,
    taints: &[SnapshotTaint],
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

/// If no node is large enough for one of its pods, even when empty: the resource that is too small.
fn too_large(compiled: &CompiledFleet, it: &CompiledPodSet, around: &Around) -> Option<Reason> {
    let want = &compiled.requests[it.want];
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
                // Skip nodes without such a device: size is not the problem there.
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
