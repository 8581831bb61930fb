//! Placements and their costs worked out by hand, a policy at a time.

use engine::packing::PackingPolicy;

use crate::ratio::Ratio;

use super::{Packer, PackingReplay, PackingSetup, TraceNode, TracePod};

fn node(name: &str, cpu: i64, gpus: u32) -> TraceNode {
    TraceNode {
        name: name.into(),
        cpu,
        memory: 8_000,
        gpus,
        model: "T4".into(),
    }
}

fn pod(cpu: i64, gpus: u32, milli: i32) -> TracePod {
    TracePod {
        name: format!("{cpu}-{gpus}-{milli}"),
        cpu,
        memory: 0,
        gpus,
        milli,
        models: Vec::new(),
    }
}

/// Places pods one by one: the index of the node and the devices of each.
fn placed(
    policy: PackingPolicy,
    nodes: &[TraceNode],
    pods: &[TracePod],
) -> Vec<Option<(usize, Vec<u32>)>> {
    let mut packer = Packer::new(policy, nodes, pods, Ratio::WHOLE, 1);
    let place = |pod| {
        let class = packer.class(pod);
        packer.place(class).map(|spot| (spot.node, spot.devices))
    };
    pods.iter().map(place).collect()
}

#[test]
fn best_fit_leaves_least() {
    let nodes = [
        node("a", 8_000, 2),
        node("b", 4_000, 1),
        node("c", 4_000, 1),
    ];
    let pods = [
        pod(1_000, 1, 1_000),
        pod(1_000, 1, 1_000),
        pod(1_000, 1, 400),
        pod(9_000, 0, 0),
    ];
    // Left over, a GPU as 16 cores: a 23,000, b and c 3,000 of 256,000: scores 91, 98, 98.
    let mut packer = Packer::new(PackingPolicy::BestFit, &nodes, &pods, Ratio::WHOLE, 1);
    let class = packer.class(&pods[0]);
    assert_eq!(
        [0, 1, 2].map(|node| packer.cost(class, node)),
        [Some(-91), Some(-98), Some(-98)]
    );
    // The first of equals, then the other, then what is left; nine cores fit nowhere.
    assert_eq!(
        placed(PackingPolicy::BestFit, &nodes, &pods),
        [
            Some((1, vec![0])),
            Some((2, vec![0])),
            Some((0, vec![0])),
            None
        ]
    );
}

#[test]
fn gpu_packing_fills_shared_devices_then_used_nodes_then_free_ones() {
    let nodes = [node("c", 8_000, 4), node("a", 8_000, 2)];
    let pods = [
        pod(0, 1, 500),   // all free: 29 on c, 31 on a
        pod(0, 1, 300),   // 95 beside the first
        pod(0, 1, 1_000), // 49 on the free device of the used node
        pod(0, 1, 1_000), // 29 on c: a has none left
        pod(0, 2, 1_000), // 48 on c, now used
    ];
    assert_eq!(
        placed(PackingPolicy::GpuPacking, &nodes, &pods),
        [
            Some((1, vec![0])),
            Some((1, vec![0])),
            Some((1, vec![1])),
            Some((0, vec![0])),
            Some((0, vec![1, 2])),
        ]
    );
    let packer = Packer::new(PackingPolicy::GpuPacking, &nodes, &pods, Ratio::WHOLE, 1);
    let mut packer = packer;
    let classes: Vec<_> = pods.iter().map(|pod| packer.class(pod)).collect();
    assert_eq!(packer.cost(classes[0], 1), Some(-31));
    packer.place(classes[0]);
    assert_eq!(packer.cost(classes[1], 1), Some(-95));
    assert_eq!(packer.cost(classes[2], 1), Some(-49));
    assert_eq!(packer.cost(classes[2], 0), Some(-29));
}

#[test]
fn gpu_clustering_keeps_sizes_together() {
    let nodes = [node("a", 8_000, 2), node("b", 8_000, 2)];
    let pods = [
        pod(0, 1, 500),   // both empty: 25 + 18, the first
        pod(0, 1, 1_000), // 20 with another size on a, 43 on empty b
        pod(0, 1, 500),   // 75 + 20 among its own on a
        pod(0, 1, 1_000), // 75 + 21 among its own on b
    ];
    assert_eq!(
        placed(PackingPolicy::GpuClustering, &nodes, &pods),
        [
            Some((0, vec![0])),
            Some((1, vec![0])),
            Some((0, vec![0])),
            Some((1, vec![1])),
        ]
    );
    let mut packer = Packer::new(PackingPolicy::GpuClustering, &nodes, &pods, Ratio::WHOLE, 1);
    let classes: Vec<_> = pods.iter().map(|pod| packer.class(pod)).collect();
    packer.place(classes[0]);
    assert_eq!(
        [0, 1].map(|node| packer.cost(classes[1], node)),
        [Some(-20), Some(-43)]
    );
    assert_eq!(packer.cost(classes[2], 0), Some(-95));
}

#[test]
fn dot_product_takes_the_least_aligned() {
    let nodes = [node("a", 128_000, 8), node("b", 64_000, 4)];
    let pods = [pod(32_000, 4, 1_000), pod(32_000, 4, 1_000)];
    let mut packer = Packer::new(PackingPolicy::DotProduct, &nodes, &pods, Ratio::WHOLE, 1);
    let class = packer.class(&pods[0]);
    // 1 - (1 x 1/4 + 1 x 1/2) / 2 = 62.5 %; 1 - (1/2 x 1/4 + 1/2 x 1/2) / 2 = 81.25 %.
    assert_eq!(
        [0, 1].map(|node| packer.cost(class, node)),
        [Some(-62), Some(-81)]
    );
    assert_eq!(
        placed(PackingPolicy::DotProduct, &nodes, &pods),
        [Some((1, vec![0, 1, 2, 3])), Some((0, vec![0, 1, 2, 3]))]
    );
}

#[test]
fn random_takes_any_that_fits_and_the_seed_says_which() {
    let nodes = [
        node("a", 500, 4),
        node("b", 8_000, 2),
        node("c", 8_000, 1),
        node("d", 8_000, 0),
    ];
    let pod = pod(1_000, 1, 500);
    let first = |seed: u64| {
        let pods = std::slice::from_ref(&pod);
        let mut packer = Packer::new(PackingPolicy::Random, &nodes, pods, Ratio::WHOLE, seed);
        let class = packer.class(&pod);
        packer.place(class).map(|spot| (spot.node, spot.devices[0]))
    };
    let seen: std::collections::BTreeSet<_> = (0..64).filter_map(first).collect();
    assert_eq!(Vec::from_iter(seen), [(1, 0), (1, 1), (2, 0)]);
    assert_eq!(first(7), first(7));
}

#[test]
fn fgd_goes_down_the_fragmentation_gradient() {
    let nodes = [node("a", 8_000, 2), node("b", 8_000, 1)];
    let pods = [pod(0, 1, 500), pod(0, 1, 1_000)];
    let mut packer = Packer::new(PackingPolicy::Fgd, &nodes, &pods, Ratio::WHOLE, 1);
    let (half, whole) = (packer.class(&pods[0]), packer.class(&pods[1]));
    assert_eq!(packer.fragments(), (0, 2));
    // Half a device taken leaves the other half useless to the whole-GPU pod, on either node: a quarter of a
    // device on average, and 100 / (1 + e^0.25) = 43.8.
    assert_eq!(
        [0, 1].map(|node| packer.cost(half, node)),
        [Some(-43), Some(-43)]
    );
    assert_eq!(packer.place(half).map(|spot| spot.node), Some(0));
    assert_eq!(packer.fragments(), (500, 2));
    assert_eq!(packer.fragmentation(), Some(0.1));
    // The other half of that device repairs it: 56.2. Half of the second device would make it worse.
    assert_eq!(
        [0, 1].map(|node| packer.cost(half, node)),
        [Some(-56), Some(-43)]
    );
    let spot = packer.place(half).map(|spot| (spot.node, spot.devices));
    assert_eq!(spot, Some((0, vec![0])));
    // Whole devices cost nothing on either: the first of equals.
    assert_eq!(
        [0, 1].map(|node| packer.cost(whole, node)),
        [Some(-50), Some(-50)]
    );
    let spot = packer.place(whole).map(|spot| (spot.node, spot.devices));
    assert_eq!(spot, Some((0, vec![1])));
}

#[test]
fn ours_leaves_a_scarce_node_to_the_pod_that_needs_it() {
    let v100 = TraceNode {
        model: "V100".into(),
        ..node("b", 16_000, 1)
    };
    let any = TracePod {
        memory: 4_000,
        ..pod(4_000, 1, 1_000)
    };
    let picky = TracePod {
        models: vec!["V100".into()],
        ..any.clone()
    };
    assert_eq!(
        placed(
            PackingPolicy::Stokehold,
            &[node("a", 8_000, 1), v100],
            &[any, picky]
        ),
        [Some((0, vec![0])), Some((1, vec![0]))]
    );
}

#[test]
fn pods_of_several_parts_take_the_tightest_devices() {
    let nodes = [node("a", 8_000, 3)];
    let pods = [pod(0, 1, 600), pod(0, 2, 300), pod(0, 2, 600)];
    for policy in PackingPolicy::ALL
        .into_iter()
        .filter(|policy| *policy != PackingPolicy::Random)
    {
        let spots = placed(policy, &nodes, &pods);
        assert_eq!(
            spots,
            [
                Some((0, vec![0])),
                Some((0, vec![0, 1])),
                Some((0, vec![1, 2]))
            ],
            "{policy}"
        );
    }
}

#[test]
fn a_replay_counts_what_arrives_and_what_fails() {
    let nodes = [node("a", 4_000, 1), node("b", 4_000, 1)];
    let names = |pods: Vec<TracePod>| -> Vec<TracePod> {
        let name = |(at, pod): (usize, TracePod)| TracePod {
            name: format!("p{at}"),
            ..pod
        };
        pods.into_iter().enumerate().map(name).collect()
    };
    let pods = names(vec![
        pod(1_000, 1, 1_000),
        pod(1_000, 1, 1_000),
        pod(1_000, 1, 1_000),
        pod(9_000, 0, 0),
    ]);
    let setup = PackingSetup {
        inflate: Ratio::millionths(0),
        ..PackingSetup::default()
    };
    let mut replay = PackingReplay::new(&nodes, &pods, setup).expect("has GPUs");
    assert_eq!(replay.by_ref().count(), 4);
    let outcome = replay.outcome();
    assert_eq!((outcome.nodes, outcome.devices, outcome.pods), (2, 2, 4));
    assert_eq!((outcome.arrived, outcome.allocation), (1.5, 1.0));
    assert_eq!(outcome.fragmentation, None);
    assert_eq!((outcome.placements, outcome.failed), (2, 2));
    assert_eq!(
        Vec::from_iter(outcome.failed_by_size),
        [("1".into(), 1), ("cpu".into(), 1)]
    );
    let arrived: Vec<f64> = outcome.curve.iter().map(|mark| mark.arrived).collect();
    assert!(arrived.ends_with(&[0.5, 1.0, 1.5]), "{arrived:?}");
    let none = PackingReplay::new(&[node("c", 1, 0)], &pods, setup);
    assert!(none.expect_err("has none").contains("no node has a GPU"));
}
