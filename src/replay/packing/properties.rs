//! Properties of packing on generated clusters.

use std::collections::BTreeSet;

use engine::packing::{PackingPolicy, WHOLE};
use proptest::prelude::*;

use crate::ratio::Ratio;

use super::{Packer, PackingReplay, PackingSetup, TraceNode, TracePod};

fn model() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["A", "B", "C"]).prop_map(str::to_owned)
}

fn nodes() -> impl Strategy<Value = Vec<TraceNode>> {
    let node = (0_i64..12, 0_i64..12, 0_u32..5, model());
    prop::collection::vec(node, 1..12).prop_map(|nodes| {
        let named =
            |(at, (cpu, memory, gpus, model)): (usize, (i64, i64, u32, String))| TraceNode {
                name: format!("n{at}"),
                cpu: cpu * 1_000,
                memory: memory * 100,
                gpus,
                model,
            };
        nodes.into_iter().enumerate().map(named).collect()
    })
}

fn pods() -> impl Strategy<Value = Vec<TracePod>> {
    let milli = prop::sample::select(vec![100, 250, 500, 810, 1_000, 1_000, 1_000]);
    let models = prop::collection::btree_set(model(), 0..3);
    let pod = (0_i64..5, 0_i64..5, 0_u32..4, milli, models);
    prop::collection::vec(pod, 1..36).prop_map(|pods| {
        let named = |(at, (cpu, memory, gpus, milli, models)): (
            usize,
            (i64, i64, u32, i32, BTreeSet<String>),
        )| TracePod {
            name: format!("p{at}"),
            cpu: cpu * 700,
            memory: memory * 90,
            gpus,
            milli: if gpus == 0 { 0 } else { milli },
            models: models.into_iter().collect(),
        };
        pods.into_iter().enumerate().map(named).collect()
    })
}

fn policy() -> impl Strategy<Value = PackingPolicy> {
    prop::sample::select(PackingPolicy::ALL.to_vec())
}

/// Reference model of a node's idle resources: CPU in thousandths of a core, memory in MiB, each GPU in thousandths.
struct Left {
    cpu: i64,
    memory: i64,
    gpus: Vec<i32>,
}

impl Left {
    /// Those of empty nodes.
    fn of(nodes: &[TraceNode]) -> Vec<Self> {
        let all = |node: &TraceNode| Self {
            cpu: node.cpu,
            memory: node.memory,
            gpus: vec![WHOLE; node.gpus as usize],
        };
        nodes.iter().map(all).collect()
    }

    fn fits(&self, node: &TraceNode, pod: &TracePod) -> bool {
        let accepted = pod.gpus == 0 || pod.models.is_empty() || pod.models.contains(&node.model);
        let usable = self.gpus.iter().filter(|left| **left >= pod.milli).count();
        accepted && self.cpu >= pod.cpu && self.memory >= pod.memory && usable >= pod.gpus as usize
    }

    /// Idle GPU that such a pod cannot use, thousandths: GPUs that are too small, or all if it cannot run here or needs no GPU.
    /// Memory does not count. Source: "Beware of Fragmentation", USENIX ATC 2023.
    fn fragments(&self, node: &TraceNode, pod: &TracePod) -> i64 {
        let no_mem = TracePod {
            memory: 0,
            ..pod.clone()
        };
        let waste = |left: &&i32| pod.gpus == 0 || !self.fits(node, &no_mem) || **left < pod.milli;
        self.gpus
            .iter()
            .filter(waste)
            .map(|left| i64::from(*left))
            .sum()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn nothing_is_overcommitted_and_no_fitting_pod_is_refused(
        nodes in nodes(), pods in pods(), policy in policy(), seed: u64, load in 0_u64..3_000_000,
    ) {
        prop_assume!(nodes.iter().any(|node| node.gpus > 0));
        let setup = PackingSetup { policy, inflate: Ratio::millionths(load), seed, ..PackingSetup::default() };
        let mut replay = PackingReplay::new(&nodes, &pods, setup).expect("has GPUs");
        let mut left = Left::of(&nodes);
        for arrival in replay.by_ref() {
            let pod = &pods[arrival.pod];
            let Some(spot) = arrival.spot else {
                let fits = nodes.iter().zip(&left).any(|(node, left)| left.fits(node, pod));
                prop_assert!(!fits, "{} fits", pod.name);
                continue;
            };
            let idle = &mut left[spot.node];
            prop_assert!(idle.fits(&nodes[spot.node], pod));
            prop_assert_eq!(spot.devices.len(), pod.gpus as usize);
            idle.cpu -= pod.cpu;
            idle.memory -= pod.memory;
            let mut devices = spot.devices.clone();
            devices.sort_unstable();
            devices.dedup();
            prop_assert_eq!(devices.len(), spot.devices.len());
            for device in devices {
                idle.gpus[device as usize] -= pod.milli;
                prop_assert!(idle.gpus[device as usize] >= 0);
            }
        }
        let idle: i64 = left.iter().flat_map(|left| &left.gpus).map(|left| i64::from(*left)).sum();
        let outcome = replay.outcome();
        let capacity = outcome.devices as f64 * f64::from(WHOLE);
        prop_assert_eq!(outcome.allocation, (capacity - idle as f64) / capacity);
    }

    #[test]
    fn the_cheapest_node_is_taken_and_fragments_match_their_definition(
        nodes in nodes(), pods in pods(), policy in policy(), seed: u64,
    ) {
        let mut packer = Packer::new(policy, &nodes, &pods, Ratio::WHOLE, seed);
        let mut left = Left::of(&nodes);
        for pod in pods.iter().chain(pods.iter().rev()) {
            let class = packer.class(pod);
            let costs: Vec<Option<i64>> = (0..nodes.len()).map(|node| packer.cost(class, node)).collect();
            let least = costs.iter().flatten().min();
            let first = least.and_then(|least| costs.iter().position(|cost| cost.as_ref() == Some(least)));
            let spot = packer.place(class);
            match policy {
                PackingPolicy::Random => prop_assert_eq!(spot.is_some(), first.is_some()),
                _ => prop_assert_eq!(spot.as_ref().map(|spot| spot.node), first),
            }
            if let Some(spot) = spot {
                let idle = &mut left[spot.node];
                idle.cpu -= pod.cpu;
                idle.memory -= pod.memory;
                for device in spot.devices {
                    idle.gpus[device as usize] -= pod.milli;
                }
            }
            let fragments: i64 = nodes
                .iter()
                .zip(&left)
                .map(|(node, left)| pods.iter().map(|pod| left.fragments(node, pod)).sum::<i64>())
                .sum();
            prop_assert_eq!(packer.fragments(), (fragments, pods.len() as i64));
        }
    }

    #[test]
    fn the_order_of_nodes_and_pods_does_not_matter(
        nodes in nodes(), pods in pods(), policy in policy(), seed: u64, shift: usize,
    ) {
        prop_assume!(nodes.iter().any(|node| node.gpus > 0));
        let setup = PackingSetup { policy, seed, ..PackingSetup::default() };
        let run = |nodes: &[TraceNode], pods: &[TracePod]| {
            let mut replay = PackingReplay::new(nodes, pods, setup).expect("has GPUs");
            let by_name = |arrival: super::Arrival| {
                let spot = arrival.spot.map(|spot| (nodes[spot.node].name.clone(), spot.devices));
                (pods[arrival.pod].name.clone(), spot)
            };
            let arrivals: Vec<_> = replay.by_ref().map(by_name).collect();
            (arrivals, replay.outcome())
        };
        let (mut reversed, mut rotated) = (nodes.clone(), pods.clone());
        reversed.reverse();
        let shift = shift % pods.len();
        rotated.rotate_left(shift);
        prop_assert_eq!(run(&nodes, &pods), run(&reversed, &rotated));
    }
}
