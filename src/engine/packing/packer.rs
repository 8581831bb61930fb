//! Places pods one by one: filter, cost, cheapest node, device. Nothing is moved, and no pod that fits is rejected.

use rustc_hash::FxHashMap;

use crate::ratio::Ratio;
use crate::rng::Rng;

use super::demand::PackingDemand;
use super::node::Idle;
use super::ranking::{NEVER, Ranking};
use super::{Policy, TraceNode, TracePod, WHOLE};

/// CPU of the largest node in the published scores.
const LARGEST_CPU: i64 = 128_000;

/// GPU of the largest node in the published scores.
const LARGEST_GPU: i64 = 8_000;

/// A pod's request, the only input of placement.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct PlacementRequest {
    pub(crate) cpu: i64,
    pub(crate) memory: i64,
    pub(crate) gpus: u32,
    pub(crate) milli: i32,
    pub(crate) models: Vec<String>,
}

impl PlacementRequest {
    fn gpu(&self) -> i64 {
        i64::from(self.gpus) * i64::from(self.milli)
    }

    /// Whether it requests a part of one device.
    pub(crate) fn shares(&self) -> bool {
        self.gpus == 1 && self.milli < WHOLE
    }
}

/// Class of pods with equal requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PodClass(usize);

/// Where a pod runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Spot {
    /// Index of the node in the packer's input.
    pub node: usize,
    /// Indices of its devices, in the order in which they were chosen.
    pub devices: Vec<u32>,
}

/// A class with the cost of every node, valid up to some change.
#[derive(Clone, Debug)]
struct Costed {
    ask: PlacementRequest,
    /// Whether each node kind has an accepted GPU model.
    accepts: Vec<bool>,
    ranking: Option<Ranking>,
    /// Number of changes that the costs include.
    seen: usize,
}

/// A cluster on which pods are placed one by one.
#[derive(Clone, Debug)]
pub struct Packer {
    policy: Policy,
    demand: PackingDemand,
    idle: Vec<Idle>,
    rng: Rng,
    classes: Vec<Costed>,
    known: FxHashMap<PlacementRequest, usize>,
    /// The node of each change, the oldest first.
    changes: Vec<u32>,
    /// Position of a node's latest entry in `changes`, plus one; 0 if nothing was placed on it.
    changed: Vec<usize>,
    /// Per node: the first node with equal resources.
    twin: Vec<usize>,
    /// Idle GPU of all nodes.
    gpu: i64,
    /// Fragments of all nodes.
    fragments: i64,
}

impl Packer {
    /// A cluster of empty nodes; ties go to the first node. Typical requests are computed from `pods`: the most frequent specs
    /// up to `typical` of them.
    pub fn new(
        policy: Policy,
        nodes: &[TraceNode],
        pods: &[TracePod],
        typical: Ratio,
        seed: u64,
    ) -> Self {
        let demand = PackingDemand::new(nodes, pods, typical);
        let idle: Vec<Idle> = nodes
            .iter()
            .zip(&demand.kind_of)
            .map(|(node, &kind)| Idle::new(node, kind, &demand))
            .collect();
        Self {
            policy,
            gpu: idle.iter().map(|idle| idle.gpu).sum(),
            fragments: idle.iter().map(|idle| idle.fragments).sum(),
            changed: vec![0; idle.len()],
            twin: twins(&idle),
            idle,
            demand,
            // Independent of the numbers that ordered pods and nodes.
            rng: Rng::new(seed ^ 0x7061_636b_6572),
            classes: Vec::new(),
            known: FxHashMap::default(),
            changes: Vec::new(),
        }
    }

    /// Idle GPU, in thousandths of a device.
    pub fn idle_gpu(&self) -> i64 {
        self.gpu
    }

    /// Share of the idle GPU that no typical pod can use, 0 to 1; none if no GPU is idle.
    pub fn fragmentation(&self) -> Option<f64> {
        let whole = i128::from(self.gpu) * i128::from(self.demand.total);
        (whole > 0).then(|| self.fragments as f64 / whole as f64)
    }

    /// Idle GPU that no typical pod can use: thousandths of a device times the number of typical pods, and that number.
    #[cfg(test)]
    pub(super) fn fragments(&self) -> (i64, i64) {
        (self.fragments, self.demand.total)
    }

    /// The class of a pod.
    pub fn class(&mut self, pod: &TracePod) -> PodClass {
        let ask = PlacementRequest {
            cpu: pod.cpu,
            memory: pod.memory,
            gpus: pod.gpus,
            milli: pod.milli,
            models: pod.models.clone(),
        };
        if let Some(&class) = self.known.get(&ask) {
            return PodClass(class);
        }
        let accepts = |kind: &super::demand::NodeClass| kind.accepts(&ask.models);
        let class = self.classes.len();
        self.classes.push(Costed {
            accepts: self.demand.kinds.iter().map(accepts).collect(),
            ask: ask.clone(),
            ranking: None,
            seen: 0,
        });
        self.known.insert(ask, class);
        PodClass(class)
    }

    /// Cost of placing a pod of a class on a node now; less is better, and published scores count down from 0. None if it does
    /// not fit.
    ///
    /// # Panics
    /// If the class or the node belongs to another packer.
    pub fn cost(&self, class: PodClass, node: usize) -> Option<i64> {
        let (costed, idle) = (&self.classes[class.0], &self.idle[node]);
        fits(&costed.ask, &costed.accepts, idle)
            .then(|| cost(self.policy, &self.demand, &costed.ask, idle))
    }

    /// Places a pod of a class. None if it fits nowhere.
    ///
    /// # Panics
    /// If the class belongs to another packer.
    pub fn place(&mut self, class: PodClass) -> Option<Spot> {
        self.catch_up(class);
        let ranking = self.classes[class.0].ranking.as_ref();
        let node = match self.policy {
            Policy::Random => {
                let able = ranking.map_or(0, |ranking| ranking.able().count());
                let nth = self.rng.below(able);
                ranking.and_then(|ranking| ranking.able().nth(nth))
            }
            _ => ranking.and_then(Ranking::cheapest),
        }?;
        let ask = &self.classes[class.0].ask;
        let idle = &mut self.idle[node];
        let devices = if ask.shares() {
            vec![match self.policy {
                Policy::Fgd | Policy::Stokehold => sharing(self.policy, &self.demand, ask, idle).1,
                Policy::Random => {
                    let able = |device: &u32| idle.left[*device as usize] >= ask.milli;
                    let able: Vec<u32> = (0..idle.left.len() as u32).filter(able).collect();
                    able[self.rng.below(able.len())]
                }
                _ => idle.tightest(1, ask.milli)[0],
            }]
        } else {
            idle.tightest(ask.gpus, ask.milli)
        };
        self.fragments -= idle.fragments;
        idle.take(&self.demand, ask.cpu, ask.memory, ask.milli, &devices);
        self.fragments += idle.fragments;
        self.gpu -= ask.gpu();
        self.changes.push(node as u32);
        self.changed[node] = self.changes.len();
        Some(Spot { node, devices })
    }

    /// Updates the costs of a class: only nodes changed since are evaluated.
    fn catch_up(&mut self, class: PodClass) {
        let Self {
            policy,
            demand,
            idle,
            classes,
            changes,
            changed,
            twin,
            ..
        } = self;
        let costed = &mut classes[class.0];
        let cost = |idle: &Idle| {
            if fits(&costed.ask, &costed.accepts, idle) {
                cost(*policy, demand, &costed.ask, idle)
            } else {
                NEVER
            }
        };
        match &mut costed.ranking {
            Some(ranking) => {
                for (at, &node) in changes.iter().enumerate().skip(costed.seen) {
                    let node = node as usize;
                    // A node with a later change is evaluated then.
                    if changed[node] == at + 1 {
                        ranking.set(node, cost(&idle[node]));
                    }
                }
            }
            None => {
                // Empty nodes with equal resources have the same cost.
                let mut fresh = vec![None; idle.len()];
                let costs = idle
                    .iter()
                    .enumerate()
                    .map(|(node, idle)| match changed[node] {
                        0 => *fresh[twin[node]].get_or_insert_with(|| cost(idle)),
                        _ => cost(idle),
                    });
                costed.ranking = Some(Ranking::new(costs.collect()));
            }
        }
        costed.seen = changes.len();
    }
}

/// Per node: the first with equal resources.
fn twins(idle: &[Idle]) -> Vec<usize> {
    let mut first = FxHashMap::default();
    let alike =
        |(node, idle): (usize, &Idle)| *first.entry((idle.kind, idle.memory)).or_insert(node);
    idle.iter().enumerate().map(alike).collect()
}

/// Whether a pod fits a node now.
fn fits(ask: &PlacementRequest, accepts: &[bool], idle: &Idle) -> bool {
    if idle.cpu < ask.cpu || idle.memory < ask.memory {
        return false;
    }
    if ask.gpus == 0 {
        return true;
    }
    let enough = |left: &&i32| **left >= ask.milli;
    accepts[idle.kind] && idle.left.iter().filter(enough).count() >= ask.gpus as usize
}

/// Cost of placing a pod on a node where it fits: less is better. Published scores count down from 0.
pub(crate) fn cost(
    policy: Policy,
    demand: &PackingDemand,
    ask: &PlacementRequest,
    idle: &Idle,
) -> i64 {
    match policy {
        Policy::Random => 0,
        Policy::BestFit => {
            let over = (idle.cpu - ask.cpu) + LARGEST_CPU / LARGEST_GPU * (idle.gpu - ask.gpu());
            -((2 * LARGEST_CPU - over) * 100 / (2 * LARGEST_CPU))
        }
        Policy::DotProduct => {
            let whole = i128::from(LARGEST_CPU * LARGEST_CPU);
            let ratio = i128::from(LARGEST_CPU / LARGEST_GPU);
            let along = i128::from(idle.cpu) * i128::from(ask.cpu)
                + ratio * ratio * i128::from(idle.gpu) * i128::from(ask.gpu());
            let score = (2 * whole - along) * 100 / (2 * whole);
            -i64::try_from(score).unwrap_or(i64::MIN + 1)
        }
        Policy::GpuPacking => -packing(ask, idle),
        Policy::GpuClustering => -clustering(ask, idle),
        Policy::Fgd | Policy::Stokehold if ask.shares() => sharing(policy, demand, ask, idle).0,
        Policy::Fgd | Policy::Stokehold => {
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
pub(crate) fn sharing(
    policy: Policy,
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
    policy: Policy,
    demand: &PackingDemand,
    ask: &PlacementRequest,
    idle: &Idle,
    after: i64,
) -> i64 {
    let growth = after - idle.fragments;
    if policy == Policy::Fgd {
        return -demand.score(-growth);
    }
    // All in millionths of a device.
    let gpu = idle.gpu - ask.gpu();
    let cpu = idle.cpu - ask.cpu;
    let fragmentation = growth.saturating_mul(1_000).div_euclid(demand.total);
    let unfed_cpu = demand.cpu_hinge.unfed(gpu, cpu) - idle.unfed_cpu;
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
