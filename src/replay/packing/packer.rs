//! Places pods one by one: filter, cost, cheapest node, device. Nothing is moved, and no pod that fits is rejected.

use engine::packing::{
    Idle, NEVER, PackingDemand, PackingPolicy, PlacementRequest, WHOLE, cost, sharing,
};
use engine::rng::Rng;
use rustc_hash::FxHashMap;

use crate::ratio::Ratio;

use super::ranking::Ranking;
use super::{TraceNode, TracePod};

/// Class of pods with equal requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PodClass(usize);

/// Where a pod runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PodLocation {
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
    policy: PackingPolicy,
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
        policy: PackingPolicy,
        nodes: &[TraceNode],
        pods: &[TracePod],
        typical: Ratio,
        seed: u64,
    ) -> Self {
        let kinds: Vec<_> = nodes.iter().map(TraceNode::kind).collect();
        let asked: Vec<_> = pods.iter().map(|pod| (pod.request(), 1)).collect();
        let demand = PackingDemand::new(&kinds, &asked, typical.parts(), usize::MAX);
        let empty = |(node, &kind): (&TraceNode, &usize)| {
            let left = vec![WHOLE; node.gpus as usize];
            Idle::new(kind, node.cpu, node.memory, left, &demand)
        };
        let idle: Vec<Idle> = nodes.iter().zip(&demand.kind_of).map(empty).collect();
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

    pub fn class(&mut self, pod: &TracePod) -> PodClass {
        let ask = pod.request();
        if let Some(&class) = self.known.get(&ask) {
            return PodClass(class);
        }
        let class = self.classes.len();
        self.classes.push(Costed {
            accepts: self.demand.accepting(&ask.models),
            ask: ask.clone(),
            ranking: None,
            seen: 0,
        });
        self.known.insert(ask, class);
        PodClass(class)
    }

    /// Cost of placing a pod of a class on a node now; less is better, and published scores count down from 0. None if it does not fit.
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
    pub fn place(&mut self, class: PodClass) -> Option<PodLocation> {
        self.catch_up(class);
        let ranking = self.classes[class.0].ranking.as_ref();
        let node = match self.policy {
            PackingPolicy::Random => {
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
                PackingPolicy::Fgd | PackingPolicy::Stokehold => {
                    sharing(self.policy, &self.demand, ask, idle).1
                }
                PackingPolicy::Random => {
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
        *idle = after(idle, &self.demand, ask, &devices);
        self.fragments += idle.fragments;
        self.gpu -= ask.gpu();
        self.changes.push(node as u32);
        self.changed[node] = self.changes.len();
        Some(PodLocation { node, devices })
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

/// A node after a pod has taken these of its devices.
fn after(idle: &Idle, demand: &PackingDemand, ask: &PlacementRequest, devices: &[u32]) -> Idle {
    let mut left = idle.left.clone();
    for &device in devices {
        left[device as usize] -= ask.milli;
    }
    let (cpu, memory) = (idle.cpu - ask.cpu, idle.memory - ask.memory);
    let size = match devices.len() {
        0 => 0,
        _ if ask.shares() => 1,
        gpus => 1 << gpus.min(127),
    };
    let mut after = Idle::new(idle.kind, cpu, memory, left, demand);
    after.sizes = idle.sizes | size;
    after
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
