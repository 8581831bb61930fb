//! Node conditions: nodes of one shape with the same free resources share a condition and have the same cost. A decision
//! evaluates conditions, of which a fleet has a few hundred, instead of nodes.

use rustc_hash::FxHashMap;

use crate::compiled::{CompiledFleet, NodeShape, PodRequest, ResourceId};
use crate::packing::{self, Idle, PackingPolicy};
use crate::snapshot::WHOLE;

/// Bytes to a MiB.
const MIB: i64 = 1 << 20;

/// Most pods of one kind that are counted on a node.
const MOST_PODS: i64 = 1_000_000;

/// Free resources of a node, regardless of which units are free.
#[derive(Clone, Debug)]
pub(super) struct FreeShape {
    pub(super) make: usize,
    pub(super) cpu: i64,
    pub(super) memory: i64,
    /// Free thousandths of each healthy unit, by resource, ascending. Never negative.
    left: Vec<(ResourceId, bool, i32)>,
}

/// How a kind of pod fits a node in some condition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PodFit {
    /// Number of such pods that fit.
    pub(crate) room: u32,
    /// Packing cost (less is better), then what remains of the requested resources.
    pub(crate) cost: (i64, i64),
    /// Free thousandths of the device that a shared pod takes.
    pub(crate) left: i32,
}

/// Number of such pods that fit the node's free devices, regardless of CPU and memory.
fn by_devices(want: &PodRequest, left: &[(ResourceId, bool, i32)]) -> i64 {
    let each = want
        .devices
        .iter()
        .map(|device| pods_that_fit(left, *device));
    each.fold(MOST_PODS, i64::min)
}

/// Cache that never becomes invalid: conditions by content, and how pods fit them.
#[derive(Clone, Default, Debug)]
pub(super) struct Memo {
    conditions: Vec<FreeShape>,
    /// By shape, CPU, memory and what is left of each healthy unit, packed and in order.
    known: FxHashMap<Box<[u64]>, u32>,
    /// What is looked up, to need no allocation for a condition that is known.
    packed: Vec<u64>,
    /// By pod request, then by condition.
    looks: Vec<Vec<Option<PodFit>>>,
}

impl Memo {
    /// Condition of a node of this shape with these free units.
    pub(super) fn condition(
        &mut self,
        make: usize,
        shape: &NodeShape,
        cpu: i64,
        memory: i64,
        left: &[i32],
    ) -> u32 {
        let units = || {
            let all = shape.units.iter().zip(left);
            all.filter(|(unit, _)| unit.sound)
                .map(|(unit, left)| (unit.resource, unit.slice.is_some(), (*left).max(0)))
        };
        // A fleet has far fewer than 2^31 resources.
        let pack = |(resource, sliced, left): (ResourceId, bool, i32)| {
            (resource as u64) << 33 | u64::from(sliced) << 32 | left as u64
        };
        let packed = &mut self.packed;
        packed.clear();
        packed.extend([make as u64, cpu as u64, memory as u64]);
        packed.extend(units().map(pack));
        packed[3..].sort_unstable();
        if let Some(&at) = self.known.get(&packed[..]) {
            return at;
        }
        let at = self.conditions.len() as u32;
        self.known.insert(packed[..].into(), at);
        let mut left: Vec<_> = units().collect();
        left.sort_unstable();
        self.conditions.push(FreeShape {
            make,
            cpu,
            memory,
            left,
        });
        at
    }

    pub(super) fn get(&self, condition: u32) -> &FreeShape {
        &self.conditions[condition as usize]
    }

    /// How a pod fits a condition.
    pub(super) fn look(&mut self, compiled: &CompiledFleet, want: usize, condition: u32) -> PodFit {
        let known = self
            .looks
            .get(want)
            .and_then(|of| of.get(condition as usize));
        if let Some(Some(look)) = known {
            return *look;
        }
        let look = look(compiled, &compiled.requests[want], self.get(condition));
        if self.looks.len() <= want {
            self.looks.resize_with(want + 1, Vec::new);
        }
        let of = &mut self.looks[want];
        if of.len() <= condition as usize {
            of.resize(self.conditions.len(), None);
        }
        of[condition as usize] = Some(look);
        look
    }

    /// Number of such pods that fit by devices alone.
    pub(super) fn by_devices(&self, compiled: &CompiledFleet, want: usize, condition: u32) -> i64 {
        by_devices(&compiled.requests[want], &self.get(condition).left)
    }
}

/// Number of pods that fit by devices alone: the largest `k` for which the units can serve `k` pods, with no two
/// parts of one pod on one unit.
fn pods_that_fit(left: &[(ResourceId, bool, i32)], want: (ResourceId, u32, i32)) -> i64 {
    let (resource, count, milli) = want;
    if count == 0 {
        return MOST_PODS;
    }
    let parts = |&(of, sliced, left): &(ResourceId, bool, i32)| {
        // A slice is allocated whole, however small the request.
        let parts = match (of == resource, sliced) {
            (false, _) => 0,
            (true, true) => i64::from(left == WHOLE),
            (true, false) => i64::from(left / milli.max(1)),
        };
        (parts > 0).then_some(parts)
    };
    let parts: Vec<i64> = left.iter().filter_map(parts).collect();
    let count = i64::from(count);
    let enough =
        |pods: i64| parts.iter().map(|part| (*part).min(pods)).sum::<i64>() >= pods * count;
    let most: i64 = parts.iter().sum::<i64>() / count;
    // Binary search: units that suffice for some pods suffice for fewer.
    let (mut least, mut most) = (0, most);
    while least < most {
        let middle = (least + most + 1) / 2;
        if enough(middle) {
            least = middle;
        } else {
            most = middle - 1;
        }
    }
    least
}

fn look(compiled: &CompiledFleet, want: &PodRequest, condition: &FreeShape) -> PodFit {
    let share = |have: i64, asked: i64| match asked {
        ..=0 => MOST_PODS,
        asked => (have / asked).max(0),
    };
    let mut fits = share(condition.cpu, want.ask.cpu_milli)
        .min(share(condition.memory, want.ask.memory_bytes))
        .min(MOST_PODS);
    fits = fits.min(by_devices(want, &condition.left));
    let room = u32::try_from(fits).unwrap_or(0);
    if room == 0 {
        return PodFit {
            room,
            cost: (i64::MAX, i64::MAX),
            left: 0,
        };
    }
    let (cost, left) = cost(compiled, want, condition);
    let asked = |resource: ResourceId| want.devices.iter().any(|device| device.0 == resource);
    let over: i64 = condition
        .left
        .iter()
        .filter(|(resource, _, _)| asked(*resource))
        .map(|(_, _, left)| i64::from(*left))
        .sum();
    PodFit {
        room,
        cost: (cost, over),
        left,
    }
}

/// Packing policy's cost of a pod on a node, and the free thousandths of the device that a shared pod takes. Slices of devices are ignored.
fn cost(compiled: &CompiledFleet, want: &PodRequest, condition: &FreeShape) -> (i64, i32) {
    let whole = |&(_, sliced, left): &(ResourceId, bool, i32)| (!sliced).then_some(left);
    let left: Vec<i32> = condition.left.iter().filter_map(whole).collect();
    let of_device = |resource: ResourceId| {
        let mut units = condition.left.iter();
        units.any(|&(of, sliced, _)| of == resource && !sliced)
    };
    let device = want.devices.iter().find(|device| of_device(device.0));
    let ask = packing::PlacementRequest {
        cpu: want.ask.cpu_milli,
        memory: want.ask.memory_bytes / MIB,
        gpus: device.map_or(0, |device| device.1),
        milli: device.map_or(0, |device| device.2),
        models: Vec::new(),
    };
    let policy = compiled.snapshot.options.placement;
    let kind = compiled.node_shapes[condition.make].kind;
    let memory = condition.memory / MIB;
    let idle = Idle::new(kind, condition.cpu, memory, left, &compiled.demand);
    if !ask.shares() {
        return (packing::cost(policy, &compiled.demand, &ask, &idle), WHOLE);
    }
    match policy {
        PackingPolicy::Fgd | PackingPolicy::Stokehold => {
            let (cost, device) = packing::sharing(policy, &compiled.demand, &ask, &idle);
            (cost, idle.left[device as usize])
        }
        _ => {
            let fitting = idle.left.iter().filter(|left| **left >= ask.milli);
            let tightest = fitting.min().copied().unwrap_or(WHOLE);
            (
                packing::cost(policy, &compiled.demand, &ask, &idle),
                tightest,
            )
        }
    }
}
