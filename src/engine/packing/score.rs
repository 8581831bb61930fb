//! What placing a pod on a node costs, by policy.

use super::demand::PackingDemand;
use super::node::Idle;
use super::{PackingPolicy, WHOLE};

/// The cost of a node on which a pod does not fit.
pub const NEVER: i64 = i64::MAX;

/// CPU of the largest node in the published scores.
const LARGEST_CPU: i64 = 128_000;

/// GPU of the largest node in the published scores.
const LARGEST_GPU: i64 = 8_000;

/// A pod's request, the only input of placement.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct PlacementRequest {
    /// CPU, in thousandths of a core.
    pub cpu: i64,
    /// Memory that it asks for, in MiB.
    pub memory: i64,
    /// GPUs; 0 for a pod that needs none.
    pub gpus: u32,
    /// Share of each of those GPUs, in thousandths: 1 to 1,000; 0 without GPUs.
    pub milli: i32,
    /// Accepted GPU models, sorted; empty for any.
    pub models: Vec<String>,
}

impl PlacementRequest {
    /// Total GPU request, in thousandths of a device.
    pub fn gpu(&self) -> i64 {
        i64::from(self.gpus) * i64::from(self.milli)
    }

    /// Whether it requests a part of one device.
    pub fn shares(&self) -> bool {
        self.gpus == 1 && self.milli < WHOLE
    }
}

/// Cost of placing a pod on a node where it fits: less is better. Published scores count down from 0.
pub fn cost(
    policy: PackingPolicy,
    demand: &PackingDemand,
    ask: &PlacementRequest,
    idle: &Idle,
) -> i64 {
    match policy {
        PackingPolicy::Random => 0,
        PackingPolicy::BestFit => {
            let over = (idle.cpu - ask.cpu) + LARGEST_CPU / LARGEST_GPU * (idle.gpu - ask.gpu());
            -((2 * LARGEST_CPU - over) * 100 / (2 * LARGEST_CPU))
        }
        PackingPolicy::DotProduct => {
            let whole = i128::from(LARGEST_CPU * LARGEST_CPU);
            let ratio = i128::from(LARGEST_CPU / LARGEST_GPU);
            let along = i128::from(idle.cpu) * i128::from(ask.cpu)
                + ratio * ratio * i128::from(idle.gpu) * i128::from(ask.gpu());
            let score = (2 * whole - along) * 100 / (2 * whole);
            -i64::try_from(score).unwrap_or(i64::MIN + 1)
        }
        PackingPolicy::GpuPacking => -packing(ask, idle),
        PackingPolicy::GpuClustering => -clustering(ask, idle),
        PackingPolicy::Fgd | PackingPolicy::Stokehold if ask.shares() => {
            sharing(policy, demand, ask, idle).0
        }
        PackingPolicy::Fgd | PackingPolicy::Stokehold => {
            let from = vec![WHOLE; ask.gpus as usize];
            let tight: Vec<i32>;
            let from = if ask.milli == WHOLE || ask.gpus == 0 {
                &from
            } else {
                let devices = idle.tightest(ask.gpus, ask.milli);
                tight = devices
                    .iter()
                    .map(|device| idle.left[*device as usize])
                    .collect();
                &tight
            };
            let after = idle.fragments_after(demand, idle.cpu - ask.cpu, ask.milli, from);
            gradient(policy, demand, ask, idle, after)
        }
    }
}

/// Lowest cost of a shared pod over the devices of a node, and the first device with that cost.
pub fn sharing(
    policy: PackingPolicy,
    demand: &PackingDemand,
    ask: &PlacementRequest,
    idle: &Idle,
) -> (i64, u32) {
    let mut best = (NEVER, 0);
    for (device, &left) in idle.left.iter().enumerate() {
        // Devices with equal idle amounts have the same cost: evaluate the first.
        if left < ask.milli || idle.left[..device].contains(&left) {
            continue;
        }
        let after = idle.fragments_after(demand, idle.cpu - ask.cpu, ask.milli, &[left]);
        let cost = gradient(policy, demand, ask, idle, after);
        if cost < best.0 {
            best = (cost, device as u32);
        }
    }
    best
}

/// Cost of a placement that results in this many fragments.
fn gradient(
    policy: PackingPolicy,
    demand: &PackingDemand,
    ask: &PlacementRequest,
    idle: &Idle,
    after: i64,
) -> i64 {
    let growth = after - idle.fragments;
    if policy == PackingPolicy::Fgd {
        return -demand.score(-growth);
    }
    // All in millionths of a device.
    let gpu = idle.gpu - ask.gpu();
    let cpu = idle.cpu - ask.cpu;
    let fragmentation = growth.saturating_mul(1_000).div_euclid(demand.total);
    let unfed_cpu = demand.cpu_hinge.unfed(gpu, cpu) - idle.unfed_cpu;
    // Where CPU is short, some GPUs stay without it wherever pods go: fragments count for more.
    let unfed_cpu = unfed_cpu.div_euclid(if demand.cpu_short { 8 } else { 1 });
    let unfed_memory = demand.memory_hinge.unfed(gpu, idle.memory - ask.memory) - idle.unfed_memory;
    let scarcity = ask.gpu().saturating_mul(demand.pressure[idle.kind]) / 5;
    let left_over = gpu + cpu / 16;
    fragmentation
        .saturating_add(unfed_cpu)
        .saturating_add(unfed_memory.div_euclid(4))
        .saturating_add(scarcity)
        .saturating_add(left_over)
        .min(NEVER - 1)
}

/// The published score of GPU packing: used devices before free ones, used nodes before free ones.
fn packing(ask: &PlacementRequest, idle: &Idle) -> i64 {
    if ask.gpus == 0 {
        return 0;
    }
    if idle.free as usize == idle.left.len() {
        let free = i64::from(idle.free);
        return (33 - free).max(free);
    }
    let devices = idle.tightest(ask.gpus, ask.milli);
    let left = || devices.iter().map(|device| idle.left[*device as usize]);
    let free = left().filter(|left| *left == WHOLE).count() as i64;
    if free > 0 {
        return (50 - free).max(33);
    }
    let percents: i64 = left().map(|left| i64::from(left * 100 / WHOLE)).sum();
    (100 - percents / 10).max(50)
}

/// The published score of GPU clustering: with pods of its own size, the fuller the better.
fn clustering(ask: &PlacementRequest, idle: &Idle) -> i64 {
    if ask.gpus == 0 {
        return 0;
    }
    let size = if ask.shares() {
        1_u128
    } else {
        1 << ask.gpus.min(127)
    };
    let company = match (idle.sizes & size != 0, idle.sizes.count_ones()) {
        (true, 1) => 75,
        (true, _) => 50,
        (false, 0) => 25,
        (false, _) => 0,
    };
    25 * (LARGEST_GPU - idle.gpu) / LARGEST_GPU + company
}
