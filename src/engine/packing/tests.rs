//! Costs and fragments of empty nodes worked out by hand.

use super::{Idle, NodeKind, PackingDemand, PackingPolicy, PlacementRequest, WHOLE, cost};

fn node(cpu: i64, gpus: u32, model: &str) -> NodeKind {
    NodeKind {
        cpu,
        gpus,
        model: model.into(),
    }
}

fn pod(cpu: i64, gpus: u32, milli: i32) -> PlacementRequest {
    PlacementRequest {
        cpu,
        memory: 0,
        gpus,
        milli,
        models: Vec::new(),
    }
}

/// The demand of these pods, all of them typical, and the nodes while nothing runs on them, with 8,000 MiB each.
fn empty(nodes: &[NodeKind], pods: &[PlacementRequest]) -> (PackingDemand, Vec<Idle>) {
    let pods: Vec<_> = pods.iter().map(|pod| (pod.clone(), 1)).collect();
    let demand = PackingDemand::new(nodes, &pods, 1_000_000, usize::MAX);
    let idle = nodes.iter().zip(&demand.kind_of).map(|(node, &kind)| {
        let left = vec![WHOLE; node.gpus as usize];
        Idle::new(kind, node.cpu, 8_000, left, &demand)
    });
    let idle = idle.collect();
    (demand, idle)
}

#[test]
fn all_that_is_idle_is_a_fragment_to_a_pod_that_cannot_run() {
    let fragments = |node: NodeKind, pods: &[PlacementRequest]| {
        let (demand, idle) = empty(&[node], pods);
        (idle[0].fragments, demand.total)
    };
    let node = || node(1_000, 2, "T4");
    assert_eq!(fragments(node(), &[pod(1_000, 1, 500)]), (0, 1));
    assert_eq!(fragments(node(), &[pod(1_001, 1, 500)]), (2_000, 1));
    assert_eq!(fragments(node(), &[pod(1, 3, 1_000)]), (2_000, 1));
    // A pod that needs no GPU has no use for one.
    assert_eq!(fragments(node(), &[pod(1, 0, 0)]), (2_000, 1));
    let elsewhere = PlacementRequest {
        models: vec!["V100".into()],
        ..pod(1, 1, 500)
    };
    let both = [elsewhere, pod(1, 1, 500)];
    assert_eq!(fragments(node(), &both), (2_000, 2));
}

#[test]
fn ours_weighs_fragments_cpu_memory_and_scarcity() {
    let nodes = [node(8_000, 1, "T4"), node(16_000, 1, "V100")];
    let any = PlacementRequest {
        memory: 4_000,
        ..pod(4_000, 1, 1_000)
    };
    let picky = PlacementRequest {
        models: vec!["V100".into()],
        ..any.clone()
    };
    let (demand, idle) = empty(&nodes, &[any.clone(), picky]);
    let cost = |ask: &PlacementRequest, node: usize| {
        cost(PackingPolicy::Stokehold, &demand, ask, &idle[node])
    };
    // Pressure: half of one pod on either, and the other pod on b alone: 500 and 1,500 thousandths.
    // On a: fragments fall by 1,000 of two pods: -500,000; scarcity 1,000 x 500 / 5; left over 4,000 / 16.
    // On b: nothing falls; 1,000 x 1,500 / 5; 12,000 / 16.
    assert_eq!(cost(&any, 0), -500_000 + 100_000 + 250);
    assert_eq!(cost(&any, 1), 300_000 + 750);
    // Six cores: a device is fed by 3.2 (four fifths of four); on a two stay, which feed 625 thousandths; and
    // neither typical pod could use the device: 500,000 more fragments. On b all is well.
    let cpu = pod(6_000, 0, 0);
    assert_eq!(cost(&cpu, 0), 500_000 + 375_000 + 1_000 + 125);
    assert_eq!(cost(&cpu, 1), 1_000 + 625);
    // Memory likewise, at a quarter: 7,000 MiB leave 1,000, which feed 312.5 thousandths of a device.
    let memory = PlacementRequest {
        memory: 7_000,
        ..pod(0, 0, 0)
    };
    assert_eq!(cost(&memory, 1), 687_500 / 4 + 1_000 + 1_000);
}

#[test]
fn where_cpu_is_short_half_the_average_feeds_a_gpu_and_weighs_an_eighth() {
    let nodes = [node(8_000, 1, "T4")];
    let cost = |pods: &[PlacementRequest]| {
        let (demand, idle) = empty(&nodes, pods);
        cost(
            PackingPolicy::Stokehold,
            &demand,
            &pod(7_000, 0, 0),
            &idle[0],
        )
    };
    // The GPU pod could not run beside the seven cores. One core is left: 312.5 thousandths of what 3.2 feed.
    assert_eq!(
        cost(&[pod(4_000, 1, 1_000)]),
        1_000_000 + 687_500 + 1_000 + 62
    );
    // A device asks for ten cores here, and two would serve it: one core serves half. The pod without GPUs cannot use it in either case.
    let short = [pod(4_000, 1, 1_000), pod(6_000, 0, 0)];
    assert_eq!(cost(&short), 500_000 + 500_000 / 8 + 1_000 + 62);
}
