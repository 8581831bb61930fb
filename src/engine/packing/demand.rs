//! Typical demand, computed once from the whole pod list: typical specs, pressure on node types,
//! and the CPU and memory that a GPU needs to be usable.

use std::collections::BTreeMap;

use super::PlacementRequest;

/// Where the score of the fragmentation gradient rises by one: ln(k / (100 - k)) for k from 51 to 99, in
/// billionths. Below 50 it is the same with the sign turned.
const STEPS: [i64; 49] = [
    40_005_335,
    80_042_708,
    120_144_312,
    160_342_650,
    200_670_695,
    241_162_057,
    281_851_152,
    322_773_392,
    363_965_377,
    405_465_108,
    447_312_218,
    489_548_225,
    532_216_814,
    575_364_145,
    619_039_208,
    663_294_217,
    708_185_058,
    753_771_802,
    800_119_300,
    847_297_860,
    895_384_047,
    944_461_609,
    994_622_575,
    1_045_968_555,
    1_098_612_289,
    1_152_679_510,
    1_208_311_206,
    1_265_666_373,
    1_324_925_415,
    1_386_294_361,
    1_450_010_176,
    1_516_347_489,
    1_585_627_264,
    1_658_228_077,
    1_734_601_055,
    1_815_289_967,
    1_900_958_761,
    1_992_430_165,
    2_090_741_097,
    2_197_224_577,
    2_313_634_929,
    2_442_347_035,
    2_586_689_344,
    2_751_535_313,
    2_944_438_979,
    3_178_053_830,
    3_476_098_690,
    3_891_820_298,
    4_595_119_850,
];

/// A pod's request without memory.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct TraceRequest {
    cpu: i64,
    milli: i32,
    gpus: u32,
    models: Vec<String>,
}

impl TraceRequest {
    fn of(pod: &PlacementRequest) -> Self {
        Self {
            cpu: pod.cpu,
            milli: pod.milli,
            gpus: pod.gpus,
            models: pod.models.clone(),
        }
    }
}

/// Nodes that no spec distinguishes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct NodeKind {
    /// CPU of each node, in thousandths of a core.
    pub cpu: i64,
    /// GPUs of each node.
    pub gpus: u32,
    /// Model of the GPUs.
    pub model: String,
}

impl NodeKind {
    fn accepts(&self, models: &[String]) -> bool {
        models.is_empty() || models.contains(&self.model)
    }
}

/// GPU capacity that idle CPU (or memory) cannot serve, at a share of the average request of GPU pods.
#[derive(Clone, Copy, Debug)]
pub(super) struct CpuReserve {
    gpu: i64,
    feed: i64,
}

impl CpuReserve {
    /// `gpu` and `feed`: total requests of all GPU pods. A GPU is served by four fifths of their average. In a cluster that is short of CPU
    /// half of it serves: no placement serves every GPU there, and large pods would find no free node.
    fn new(gpu: i64, feed: i64, cpu_short: bool) -> Self {
        let (whole, part) = if cpu_short { (2, 1) } else { (5, 4) };
        let (gpu, feed) = (gpu.saturating_mul(1_000 * whole), feed.saturating_mul(part));
        let common = divisor(gpu, feed).max(1);
        Self {
            gpu: gpu / common,
            feed: feed / common,
        }
    }

    /// GPU capacity, in millionths of a device, of `idle` thousandths that `feed` idle CPU or memory cannot serve.
    pub(super) fn unfed(self, idle: i64, feed: i64) -> i64 {
        if self.feed == 0 {
            return 0;
        }
        let fed = match feed.checked_mul(self.gpu) {
            Some(product) => product / self.feed,
            None => {
                let wide = i128::from(feed) * i128::from(self.gpu) / i128::from(self.feed);
                i64::try_from(wide).unwrap_or(i64::MAX)
            }
        };
        (1_000 * idle).saturating_sub(fed).max(0)
    }
}

fn divisor(mut a: i64, mut b: i64) -> i64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// The demand that a cluster is packed for.
#[derive(Clone, Debug)]
pub struct PackingDemand {
    kinds: Vec<NodeKind>,
    /// Index of the kind of each node.
    pub kind_of: Vec<usize>,
    /// CPU request of each typical spec.
    pub(super) cpu: Vec<i64>,
    /// GPU share of each typical spec, in thousandths.
    pub(super) milli: Vec<i32>,
    /// Number of pods of each typical spec.
    pub(super) count: Vec<i64>,
    /// GPUs of each typical spec, by node kind; unreachably many if the spec cannot use that kind.
    pub(super) need: Vec<Vec<i32>>,
    /// Total number of pods with a typical spec, at least 1.
    pub total: i64,
    /// Whether the nodes with GPUs have too little CPU for as many pods as would fill their GPUs.
    pub(super) cpu_short: bool,
    /// GPU capacity without CPU.
    pub(super) cpu_hinge: CpuReserve,
    /// GPU capacity without memory.
    pub(super) memory_hinge: CpuReserve,
    /// Load of each kind, in thousandths, if every spec is spread evenly over the kinds that can run it.
    pub(super) pressure: Vec<i64>,
    /// The least fall in fragmentation for each score from 1 to 99.
    steps: Vec<i64>,
}

impl PackingDemand {
    /// Demand of pods, each with how many of them there are, on these nodes. Typical specs are the most frequent ones that make up
    /// `typical` millionths of the pods, and at most `most`.
    pub fn new(
        nodes: &[NodeKind],
        pods: &[(PlacementRequest, i64)],
        typical: i64,
        most: usize,
    ) -> Self {
        let mut kinds = nodes.to_vec();
        kinds.sort();
        kinds.dedup();
        let kind_of = nodes
            .iter()
            .map(|node| kinds.binary_search(node).unwrap_or_default())
            .collect();

        let mut counts: BTreeMap<TraceRequest, i64> = BTreeMap::new();
        for (pod, count) in pods {
            *counts.entry(TraceRequest::of(pod)).or_default() += count;
        }
        let pressure = pressure(nodes, &kinds, &counts);
        // Among equally frequent specs the larger comes first, as published.
        let mut specs: Vec<(i64, TraceRequest)> = counts
            .into_iter()
            .map(|(spec, count)| (count, spec))
            .collect();
        specs.sort_by(|a, b| b.cmp(a));
        let mut total = 0;
        let all: i64 = pods.iter().map(|(_, count)| count).sum();
        specs.truncate(most);
        specs.retain(|(count, _)| {
            let wanted = i128::from(total) * 1_000_000 < i128::from(all) * i128::from(typical);
            total += if wanted { count } else { &0 };
            wanted
        });

        let need = |kind: &NodeKind| {
            let need = |(_, spec): &(i64, TraceRequest)| match spec.gpus {
                0 => i32::MAX,
                gpus if kind.accepts(&spec.models) => gpus as i32,
                _ => i32::MAX,
            };
            specs.iter().map(need).collect()
        };
        let asked = |of: fn(&PlacementRequest) -> i64| -> i64 {
            let users = pods.iter().filter(|(pod, _)| pod.gpus > 0);
            users
                .map(|(pod, count)| of(pod).saturating_mul(*count))
                .fold(0, i64::saturating_add)
        };
        let gpu = asked(PlacementRequest::gpu);
        let cpu_short = cpu_short(nodes, pods, gpu);
        Self {
            kind_of,
            cpu: specs.iter().map(|(_, spec)| spec.cpu).collect(),
            milli: specs.iter().map(|(_, spec)| spec.milli).collect(),
            count: specs.iter().map(|(count, _)| *count).collect(),
            need: kinds.iter().map(need).collect(),
            total: total.max(1),
            cpu_short,
            cpu_hinge: CpuReserve::new(gpu, asked(|pod| pod.cpu), cpu_short),
            memory_hinge: CpuReserve::new(gpu, asked(|pod| pod.memory), cpu_short),
            pressure,
            steps: steps(total.max(1)),
            kinds,
        }
    }

    /// Whether each kind of node has one of these GPU models; no model accepts every kind.
    pub fn accepting(&self, models: &[String]) -> Vec<bool> {
        let accepts = |kind: &NodeKind| kind.accepts(models);
        self.kinds.iter().map(accepts).collect()
    }

    /// Score of a fall in fragmentation, 0 to 99: a logistic curve around 50, a GPU wide.
    pub(super) fn score(&self, fall: i64) -> i64 {
        self.steps.partition_point(|step| fall >= *step) as i64
    }
}

/// The least fall, in thousandths of a device times `total`, that earns each score from 1 to 99.
fn steps(total: i64) -> Vec<i64> {
    let below = STEPS.iter().rev().map(|step| -step);
    let step = |step: i64| {
        let wide = i128::from(step) * i128::from(total);
        // Rounded up: the least whole number that reaches it.
        i64::try_from(-(-wide).div_euclid(1_000_000)).unwrap_or(i64::MAX)
    };
    below.chain([0]).chain(STEPS).map(step).collect()
}

/// Whether the nodes with GPUs have too little CPU for as many pods as would fill their GPUs, and for what the pods without GPUs among
/// them need beyond the nodes without. The pods request `gpu` thousandths of a device in all.
fn cpu_short(nodes: &[NodeKind], pods: &[(PlacementRequest, i64)], gpu: i64) -> bool {
    let has = |with_gpus: bool| -> i128 {
        let nodes = nodes.iter().filter(|node| (node.gpus > 0) == with_gpus);
        nodes.map(|node| i128::from(node.cpu)).sum()
    };
    let asked = |with_gpus: bool| -> i128 {
        let pods = pods.iter().filter(|(pod, _)| (pod.gpus > 0) == with_gpus);
        pods.map(|(pod, count)| i128::from(pod.cpu) * i128::from(*count))
            .sum()
    };
    // CPU of so many pods as request all GPUs, times the GPU that the pods request.
    let gpus: i128 = nodes.iter().map(|node| i128::from(node.gpus)).sum();
    let filling = |with_gpus: bool| asked(with_gpus).saturating_mul(gpus * 1_000);
    let gpu = i128::from(gpu);
    let supply = |with_gpus: bool| has(with_gpus).saturating_mul(gpu);
    let beyond = filling(false).saturating_sub(supply(false)).max(0);
    supply(true) < filling(true).saturating_add(beyond)
}

/// Load of each kind, in thousandths, if every spec is spread evenly over the GPUs of the kinds that can run it.
fn pressure(
    nodes: &[NodeKind],
    kinds: &[NodeKind],
    counts: &BTreeMap<TraceRequest, i64>,
) -> Vec<i64> {
    let mut gpus = vec![0_i128; kinds.len()];
    for node in nodes {
        if let Ok(kind) = kinds.binary_search(node) {
            gpus[kind] += i128::from(node.gpus);
        }
    }
    let all: i128 = gpus.iter().sum();
    let asked = |(spec, count): (&TraceRequest, &i64)| {
        i128::from(*count) * i128::from(spec.milli) * i128::from(spec.gpus)
    };
    let demand: i128 = counts.iter().map(asked).sum();
    let mut millionths = vec![0_i128; kinds.len()];
    for entry in counts {
        let spec = entry.0;
        let hosts: Vec<usize> = (0..kinds.len())
            .filter(|&kind| {
                let kind = &kinds[kind];
                kind.accepts(&spec.models) && kind.cpu >= spec.cpu && kind.gpus >= spec.gpus
            })
            .collect();
        let room: i128 = hosts.iter().map(|&kind| gpus[kind]).sum();
        if spec.gpus == 0 || room == 0 {
            continue;
        }
        let load = 1_000_000 * asked(entry) * all / (demand * room);
        for kind in hosts {
            millionths[kind] += load;
        }
    }
    millionths
        .into_iter()
        .map(|load| i64::try_from((load + 500) / 1_000).unwrap_or(i64::MAX))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_score_is_the_logistic_curve() {
        let total = 8_152;
        let steps = steps(total);
        assert_eq!(steps.len(), 99);
        let score = |fall: i64| steps.partition_point(|step| fall >= *step) as i64;
        for fall in (-40_000_000..40_000_000).step_by(9_973) {
            let curve = 100.0 / (1.0 + (-(fall as f64) / (1_000.0 * total as f64)).exp());
            assert_eq!(score(fall), curve as i64, "{fall}");
        }
        assert_eq!((score(0), score(-1)), (50, 49));
    }

    #[test]
    fn a_gpu_is_fed_by_four_fifths_of_the_average() {
        // Ten cores a GPU on average: eight feed one.
        let hinge = CpuReserve::new(6_000_000, 60_000_000, false);
        assert_eq!(hinge.unfed(1_000, 8_000), 0);
        assert_eq!(hinge.unfed(1_000, 4_000), 500_000);
        assert_eq!(hinge.unfed(8_000, 0), 8_000_000);
        // Five where there is too little for all.
        let hinge = CpuReserve::new(6_000_000, 60_000_000, true);
        assert_eq!(
            [5_000, 4_000].map(|cpu| hinge.unfed(1_000, cpu)),
            [0, 200_000]
        );
        assert_eq!(CpuReserve::new(0, 0, false).unfed(1_000, 0), 0);
        assert_eq!(
            CpuReserve::new(i64::MAX, 1, false).unfed(1_000, i64::MAX),
            0
        );
    }

    #[test]
    fn cpu_is_short_if_it_does_not_suffice_for_pods_that_fill_the_gpus() {
        let node = |cpu: i64, gpus: u32| NodeKind {
            cpu,
            gpus,
            model: "T4".into(),
        };
        let pod = |cpu: i64, gpus: u32| {
            let request = PlacementRequest {
                cpu,
                memory: 0,
                gpus,
                milli: if gpus > 0 { 500 } else { 0 },
                models: Vec::new(),
            };
            (request, 2)
        };
        // Two halves of a device and two pods without one: 12 cores for a device.
        let pods = [pod(4_000, 1), pod(2_000, 0)];
        let short = |nodes: &[NodeKind]| PackingDemand::new(nodes, &pods, 1_000_000, 9).cpu_short;
        assert!(!short(&[node(8_000, 1), node(40_000, 3)]));
        assert!(short(&[node(8_000, 1), node(39_999, 3)]));
        // Pods without GPUs, which need four of the twelve, may run on nodes without; others may not.
        assert!(!short(&[node(8_000, 1), node(4_000, 0)]));
        assert!(short(&[node(8_000, 1), node(3_999, 0)]));
        assert!(short(&[node(7_999, 1), node(64_000, 0)]));
        assert!(!short(&[node(64_000, 0)]));
    }
}
