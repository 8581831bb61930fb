//! Replay: every pod arrives once and is placed or fails; no pod ends.

use std::collections::BTreeMap;

use engine::packing::{PackingPolicy, WHOLE};
use engine::rng::Rng;

use crate::ratio::Ratio;

use super::arrivals::arrivals;
use super::packer::{Packer, PodClass, PodLocation};
use super::{TraceNode, TracePod};

/// Parameters of a replay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PackingSetup {
    pub policy: PackingPolicy,
    /// Total GPU request as a ratio of the cluster's GPU; 0 for the unmodified list.
    pub inflate: Ratio,
    /// The share of pods whose specs count as typical.
    pub typical: Ratio,
    /// Seed for the order of pods and nodes, and for the pods that top the list up.
    pub seed: u64,
}

/// Pods and nodes as the published experiment has them: 130 % of the cluster arrives, and the most frequent
/// specs that make up 95 % of the pods are typical.
impl Default for PackingSetup {
    fn default() -> Self {
        Self {
            policy: PackingPolicy::Stokehold,
            inflate: Ratio::millionths(1_300_000),
            typical: Ratio::millionths(950_000),
            seed: 42,
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// Index of the pod in the input list.
    pub pod: usize,
    /// Node (index in the input list) and devices; none if it failed.
    pub spot: Option<PodLocation>,
}

/// The state of the cluster around one percent of arrived GPU: means over the arrivals that round to it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ArrivalPoint {
    /// GPU arrived, as a share of the cluster's.
    pub arrived: f64,
    /// GPU allocated, as a share of the cluster's.
    pub allocation: f64,
    /// Share of the idle GPU that is fragments; none if no GPU is idle.
    pub fragmentation: Option<f64>,
}

/// Result of a replay.
#[derive(Clone, PartialEq, Debug)]
pub struct PackingResult {
    pub policy: PackingPolicy,
    pub seed: u64,
    pub nodes: usize,
    pub devices: u64,
    pub pods: usize,
    /// GPU that arrived, as a share of the cluster's.
    pub arrived: f64,
    /// GPU allocated at the end, as a share of the cluster's.
    pub allocation: f64,
    /// Share of the idle GPU that is fragments at the end; none if no GPU is idle.
    pub fragmentation: Option<f64>,
    /// Progress, percent by percent.
    pub curve: Vec<ArrivalPoint>,
    pub placements: usize,
    /// Pods that fit nowhere when they arrived.
    pub failed: usize,
    /// Those by size class (`cpu`, `shared`, whole GPUs), every class of the list.
    pub failed_by_size: BTreeMap<String, usize>,
}

/// Sums over the arrivals around one percent.
#[derive(Clone, Copy, Default, Debug)]
struct PackingSums {
    arrivals: u32,
    allocated: i128,
    fragmented: u32,
    fragmentation: f64,
}

/// A replay in progress.
#[derive(Clone, Debug)]
pub struct PackingReplay<'a> {
    setup: PackingSetup,
    pods: &'a [TracePod],
    /// Index of each node in the input list, in the run's order.
    nodes: Vec<usize>,
    packer: Packer,
    /// Class of each pod of the list.
    classes: Vec<PodClass>,
    order: Vec<usize>,
    next: usize,
    capacity: i64,
    arrived: i64,
    sums: Vec<PackingSums>,
    failed: usize,
    failed_by_size: BTreeMap<String, usize>,
}

impl<'a> PackingReplay<'a> {
    /// A replay of a list of pods on empty nodes. The order of the lists does not matter.
    ///
    /// # Errors
    /// No node has a GPU.
    pub fn new(
        nodes: &[TraceNode],
        pods: &'a [TracePod],
        setup: PackingSetup,
    ) -> Result<Self, String> {
        let devices: i64 = nodes.iter().map(|node| i64::from(node.gpus)).sum();
        if devices == 0 {
            return Err("no node has a GPU; packing is measured in GPUs".to_owned());
        }
        let capacity = devices * i64::from(WHOLE);
        let mut rng = Rng::new(setup.seed);
        let order = arrivals(pods, capacity, setup.inflate, &mut rng);
        // By name, then shuffled: ties go to the first node of this order, as published.
        let mut shuffled: Vec<usize> = (0..nodes.len()).collect();
        shuffled.sort_by(|&a, &b| nodes[a].cmp(&nodes[b]));
        rng.shuffle(&mut shuffled);
        let ordered: Vec<TraceNode> = shuffled.iter().map(|&at| nodes[at].clone()).collect();
        let mut packer = Packer::new(setup.policy, &ordered, pods, setup.typical, setup.seed);
        Ok(Self {
            classes: pods.iter().map(|pod| packer.class(pod)).collect(),
            failed_by_size: pods.iter().map(|pod| (pod.size(), 0)).collect(),
            packer,
            setup,
            pods,
            nodes: shuffled,
            order,
            next: 0,
            capacity,
            arrived: 0,
            sums: Vec::new(),
            failed: 0,
        })
    }

    /// Number of pods that arrive.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether no pod arrives.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    fn allocated(&self) -> i64 {
        self.capacity - self.packer.idle_gpu()
    }

    fn note(&mut self) {
        let percent = (200 * self.arrived + self.capacity) / (2 * self.capacity);
        let percent = usize::try_from(percent).unwrap_or(usize::MAX);
        if self.sums.len() <= percent {
            self.sums.resize(percent + 1, PackingSums::default());
        }
        let allocated = self.allocated();
        let fragmentation = self.packer.fragmentation();
        let sums = &mut self.sums[percent];
        sums.arrivals += 1;
        sums.allocated += i128::from(allocated);
        if let Some(fragmentation) = fragmentation {
            sums.fragmented += 1;
            sums.fragmentation += fragmentation;
        }
    }

    pub fn outcome(&self) -> PackingResult {
        let share = |part: f64| part / self.capacity as f64;
        let mark = |(percent, sums): (usize, &PackingSums)| {
            let mean = sums.allocated as f64 / f64::from(sums.arrivals);
            (sums.arrivals > 0).then(|| ArrivalPoint {
                arrived: percent as f64 / 100.0,
                allocation: share(mean),
                fragmentation: (sums.fragmented > 0)
                    .then(|| sums.fragmentation / f64::from(sums.fragmented)),
            })
        };
        PackingResult {
            policy: self.setup.policy,
            seed: self.setup.seed,
            nodes: self.nodes.len(),
            devices: (self.capacity / i64::from(WHOLE)) as u64,
            pods: self.next,
            arrived: share(self.arrived as f64),
            allocation: share(self.allocated() as f64),
            fragmentation: self.packer.fragmentation(),
            curve: self.sums.iter().enumerate().filter_map(mark).collect(),
            placements: self.next - self.failed,
            failed: self.failed,
            failed_by_size: self.failed_by_size.clone(),
        }
    }
}

/// Each step processes one pod.
impl Iterator for PackingReplay<'_> {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        let pod = *self.order.get(self.next)?;
        self.next += 1;
        self.arrived += self.pods[pod].gpu();
        let spot = self
            .packer
            .place(self.classes[pod])
            .map(|spot| PodLocation {
                node: self.nodes[spot.node],
                ..spot
            });
        if spot.is_none() {
            self.failed += 1;
            *self
                .failed_by_size
                .entry(self.pods[pod].size())
                .or_default() += 1;
        }
        self.note();
        Some(Arrival { pod, spot })
    }
}
