//! What makes nodes: joined to the pools that its nodes are in.

use super::support::*;
use super::*;
use model::fleet::admission::GroupSeen;
use model::fleet::launch_failure::LaunchFailure;
use model::fleet::observe::{Lost, LostKind};
use model::fleet::pool::PoolMode;
use model::fleet::scaling::{
    GroupsSeen, Limit, NodeClaim, PodScaler, Provision, ProvisionState, Scaler, ScalerKind,
    ScalerState, Stage,
};
use model::fleet::siting::{Expression, Operator};

const GPU: &str = "nvidia.com/gpu";

fn node_pool(name: &str) -> Scaler {
    Scaler {
        name: Name::new(name),
        min: Some(0),
        ..Scaler::default()
    }
}

fn group(name: &str, min: u32, max: u32) -> Scaler {
    Scaler {
        kind: ScalerKind::NodeGroup,
        name: Name::new(name),
        min: Some(min),
        max: Some(max),
        ..Scaler::default()
    }
}

fn status(groups: Vec<Scaler>) -> Observation {
    Observation::NodeGroups(Box::new(GroupsSeen {
        key: ObjectKey::new("kube-system", "cluster-autoscaler-status"),
        groups: groups.into(),
    }))
}

fn claim(name: &str, pool: &str, stage: Stage) -> NodeClaim {
    NodeClaim {
        name: Name::new(name),
        node_pool: Some(Name::new(pool)),
        stage,
        created: NOW.minus(std::time::Duration::from_secs(120)),
        resources: devices(&[(GPU, 8)]),
        labels: labels(&[("karpenter.sh/nodepool", pool)]),
        ..NodeClaim::default()
    }
}

fn fold(observations: Vec<Observation>) -> Ledger {
    let mut ledger = Ledger::new(Arc::new(Policy::default()));
    for observation in observations {
        ledger.apply(observation);
    }
    ledger
}

/// Name, mode, least and most of a pool.
type Bound<'a> = (&'a str, Option<PoolMode>, Option<u32>, Option<u32>);

fn bounds(fleet: &Fleet) -> Vec<Bound<'_>> {
    fleet
        .pools
        .iter()
        .map(|pool| (&*pool.name, pool.mode, pool.nodes.min, pool.nodes.max))
        .collect()
}

#[test]
fn karpenters_pools_are_bound_by_their_node_pools() {
    let on = |name: &str, pool: &str| node(name, &[(GPU, 8)], &[("karpenter.sh/nodepool", pool)]);
    let one_machine = Expression {
        key: Name::new("node.kubernetes.io/instance-type"),
        operator: Operator::In,
        values: [Name::new("p5.48xlarge")].into(),
    };
    let gpus = |most: i64| Limit {
        resource: Name::new(GPU),
        most: most * 1000,
        used: None,
    };
    let mut by_nodes = node_pool("a");
    by_nodes.max = Some(12);
    let mut by_devices = node_pool("b");
    by_devices.limits = [gpus(60)].into();
    by_devices.requirements = [one_machine].into();
    let mut open = node_pool("c");
    open.limits = [gpus(60)].into();
    let mut fixed = node_pool("d");
    (fixed.fixed, fixed.min, fixed.max) = (true, Some(2), Some(2));
    let mut ledger = fold(vec![
        on("a1", "a"),
        on("b1", "b"),
        on("b2", "b"),
        on("c1", "c"),
        on("d1", "d"),
    ]);
    let unknown = ledger.publish(NOW);
    assert_eq!(
        bounds(&unknown)[0],
        ("a", Some(PoolMode::Dynamic), None, None)
    );
    for pool in [by_nodes, by_devices, open, fixed, node_pool("nowhere")] {
        ledger.apply(Observation::NodePool(Box::new(pool)));
    }
    let fleet = ledger.publish(NOW);
    assert_eq!(
        bounds(&fleet),
        [
            ("a", Some(PoolMode::Dynamic), Some(0), Some(12)),
            ("b", Some(PoolMode::Dynamic), Some(0), Some(7)),
            ("c", Some(PoolMode::Dynamic), Some(0), None),
            ("d", Some(PoolMode::Static), Some(2), Some(2)),
        ]
    );
    let empty = fleet
        .scaling
        .scalers
        .iter()
        .find(|scaler| &*scaler.name == "nowhere");
    assert!(empty.is_some_and(|scaler| scaler.pools.is_empty()));
}

#[test]
fn node_groups_are_found_by_what_clouds_make_of_names() {
    let on = |name: &str, label: &str, pool: &str, provider: &str| {
        let Observation::Node(mut seen) = node(name, &[(GPU, 8)], &[(label, pool)]) else {
            panic!("a node")
        };
        seen.provider_id = Some(Name::new(provider));
        Observation::Node(seen)
    };
    let gke = "cloud.google.com/gke-nodepool";
    let mut ledger = fold(vec![
        on(
            "gke-prod-a3-mega-1f2e3d4c-x9k2",
            gke,
            "a3-mega",
            "gce://p/z/gke-prod-a3-mega-1f2e3d4c-x9k2",
        ),
        on("gke-prod-a3-0a0a0a0a-b1b1", gke, "a3", ""),
        on(
            "aks-gpu-100-vmss000001",
            "kubernetes.azure.com/agentpool",
            "gpu",
            "azure:///subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachineScaleSets/aks-GPU-100-vmss/virtualMachines/1",
        ),
        on(
            "ip-10-0-0-1",
            "eks.amazonaws.com/nodegroup",
            "p5-train",
            "aws:///us-east-1a/i-1",
        ),
        on("md-0-abc", "node-pool", "plain", ""),
    ]);
    ledger.apply(status(vec![
        group("gke-prod-a3-mega-1f2e3d4c-grp", 1, 4),
        group("gke-prod-a3-mega-99999999-grp", 0, 3),
        group("gke-prod-a3-0a0a0a0a-grp", 0, 8),
        group("aks-gpu-100-vmss", 1, 1),
        group("eks-p5-train-12345678-1234-1234-1234-123456789012", 2, 9),
        group("MachineDeployment/default/unknown", 0, 5),
        group("eks-é-12345678-1234-1234-1234-12345678901", 0, 5),
        group("-grp", 0, 5),
    ]));
    let fleet = ledger.publish(NOW);
    assert_eq!(
        bounds(&fleet),
        [
            ("a3", Some(PoolMode::Dynamic), Some(0), Some(8)),
            // Two zones, one of them empty.
            ("a3-mega", Some(PoolMode::Dynamic), Some(1), Some(7)),
            ("gpu", Some(PoolMode::Static), Some(1), Some(1)),
            ("p5-train", Some(PoolMode::Dynamic), Some(2), Some(9)),
            // No known owner: nothing is guessed.
            ("plain", Some(PoolMode::Static), None, None),
        ]
    );
    // The settings know better.
    let rule = model::fleet::policy::PoolRule {
        name: String::from("mine"),
        labels: vec![(String::from(gke), String::from("a3"))],
        min: Some(3),
        ..Default::default()
    };
    let mut ruled = Ledger::new(Arc::new(Policy {
        pools: vec![rule],
        ..Policy::default()
    }));
    ruled.apply(on("gke-prod-a3-0a0a0a0a-b1b1", gke, "a3", ""));
    ruled.apply(status(vec![group("gke-prod-a3-0a0a0a0a-grp", 0, 8)]));
    let fleet = ruled.publish(NOW);
    assert_eq!(
        bounds(&fleet),
        [("mine", Some(PoolMode::Dynamic), Some(3), Some(8))]
    );
}

#[test]
fn a_pool_with_several_scalers_has_no_bounds() {
    let mut ledger = fold(vec![
        node(
            "a",
            &[(GPU, 8)],
            &[
                ("stokehold.dev/pool", "mixed"),
                ("karpenter.sh/nodepool", "k"),
            ],
        ),
        node("b", &[(GPU, 8)], &[("stokehold.dev/pool", "mixed")]),
        node(
            "c",
            &[(GPU, 8)],
            &[
                ("stokehold.dev/pool", "x"),
                ("karpenter.sh/nodepool", "wide"),
            ],
        ),
        node(
            "d",
            &[(GPU, 8)],
            &[
                ("stokehold.dev/pool", "y"),
                ("karpenter.sh/nodepool", "wide"),
            ],
        ),
    ]);
    for name in ["k", "wide"] {
        let mut pool = node_pool(name);
        pool.max = Some(10);
        ledger.apply(Observation::NodePool(Box::new(pool)));
    }
    let fleet = ledger.publish(NOW);
    let dynamic = Some(PoolMode::Dynamic);
    assert_eq!(
        bounds(&fleet),
        [
            ("mixed", dynamic, None, None),
            ("x", dynamic, None, None),
            ("y", dynamic, None, None)
        ]
    );
    assert_eq!(fleet.scaling.of_pool("x").count(), 1);
}

#[test]
fn nodes_on_their_way_make_their_pool_grow_until_they_are_there() {
    let mut ledger = fold(vec![
        node("a", &[(GPU, 8)], &[("karpenter.sh/nodepool", "k")]),
        Observation::NodePool(Box::new(node_pool("k"))),
        Observation::NodeClaim(Box::new(claim("k-1", "k", Stage::Ready))),
        Observation::NodeClaim(Box::new(claim("k-2", "k", Stage::Launched))),
        Observation::NodeClaim(Box::new(claim("k-3", "k", Stage::Leaving))),
    ]);
    let fleet = ledger.publish(NOW);
    let k = &fleet.scaling.scalers[0];
    assert_eq!((k.state, k.target), (ScalerState::Growing, Some(2)));
    assert_eq!(fleet.scaling.coming("k").count(), 1);
    ledger.apply(Observation::NodeClaim(Box::new(claim(
        "k-2",
        "k",
        Stage::Ready,
    ))));
    let fleet = ledger.publish(NOW);
    assert_eq!(fleet.scaling.scalers[0].state, ScalerState::Steady);
    assert_eq!(fleet.scaling.coming("k").count(), 0);
}

#[test]
fn a_failed_launch_is_reported_of_its_pool_and_of_what_waits_for_it() {
    let failure = |claim: &str, seconds| {
        Observation::LaunchFailure(Box::new(LaunchFailure {
            key: ObjectKey::new("default", claim),
            claim: Name::new(claim),
            why: (Name::new("InsufficientCapacityError"), Name::new("none")),
            at: Some(NOW.minus(std::time::Duration::from_secs(seconds))),
        }))
    };
    let waiting = |pool: &str| {
        let mut waits = pod_seen("clip-0", None, &[(GPU, 8)]);
        waits.node_selector = labels(&[("karpenter.sh/nodepool", pool)]);
        Observation::Pod(Box::new(waits))
    };
    // A name is cut where the API server cuts it.
    let long = "p".repeat(60);
    let mut ledger = fold(vec![
        Observation::NodePool(Box::new(node_pool("k"))),
        Observation::NodePool(Box::new(node_pool(&long))),
        Observation::NodePool(Box::new(node_pool("k-spot"))),
        waiting("k"),
        failure("k-aaaaa", 300),
        failure("k-bbbbb", 60),
        failure(&format!("{}zzzzz", "p".repeat(58)), 60),
    ]);
    let reported = |ledger: &mut Ledger| {
        let fleet = ledger.publish(NOW);
        let of = |pool: &str| {
            fleet
                .scaling
                .launch_failure(pool)
                .map(|it| it.claim.to_string())
        };
        let [job] = &*fleet.jobs else {
            panic!("one job: {:?}", fleet.jobs)
        };
        let behind = fleet.scaling.launch_failures_for(job);
        let behind: Vec<String> = behind
            .iter()
            .map(|(pool, _)| pool.name.to_string())
            .collect();
        (
            [of("k"), of("k-spot"), of(&long).map(|_| String::new())],
            behind,
        )
    };
    let (pools, behind) = reported(&mut ledger);
    assert_eq!(
        pools,
        [Some("k-bbbbb".to_owned()), None, Some(String::new())]
    );
    assert_eq!(behind, ["k"]);
    ledger.apply(waiting("k-spot"));
    assert_eq!(reported(&mut ledger).1, [""; 0]);
    ledger.apply(waiting("k"));
    // The API server has dropped the last event: its statement ends with it.
    ledger.apply(Observation::Gone(
        Table::LaunchFailures,
        ObjectKey::new("default", "k-bbbbb"),
    ));
    assert_eq!(reported(&mut ledger).0[0].as_deref(), Some("k-aaaaa"));
    // A node that was claimed later is there: capacity was found.
    ledger.apply(Observation::NodeClaim(Box::new(claim(
        "k-ccccc",
        "k",
        Stage::Launched,
    ))));
    let (pools, behind) = reported(&mut ledger);
    assert_eq!((pools[0].clone(), behind), (None, vec![]));
}

#[test]
fn a_job_finds_its_request_its_nodes_and_its_autoscaler() {
    let mut waits = pod_seen("clip-0", None, &[(GPU, 8)]);
    waits.node_selector = labels(&[("karpenter.sh/nodepool", "k")]);
    waits.annotations = labels(&[("autoscaling.x-k8s.io/consume-provisioning-request", "mine")]);
    let request = |name: &str, state| {
        Observation::Provision(Box::new(Provision {
            key: ObjectKey::new("ns", name),
            state,
            ..Provision::default()
        }))
    };
    let owned = Provision {
        key: ObjectKey::new("ns", "kueues"),
        owner: Some(model::fleet::object_parts::OwnerRef {
            kind: Name::new("Workload"),
            name: Name::new("w"),
            uid: Name::new("w-uid"),
        }),
        created: NOW,
        ..Provision::default()
    };
    let mut group = GroupSeen::unknown(
        Table::KueueWorkloads,
        QueueSystem::Kueue,
        Name::new("Workload"),
        ObjectKey::new("ns", "w"),
    );
    group.uid = Name::new("w-uid");
    group.owner = Some(owner_ref("Pod", "clip-0"));
    let small = NodeClaim {
        resources: devices(&[(GPU, 4)]),
        ..claim("small", "k", Stage::Launching)
    };
    let mut ledger = fold(vec![
        Observation::Pod(Box::new(waits)),
        Observation::Group(Box::new(group)),
        request("mine", ProvisionState::Failed),
        request("other", ProvisionState::Failed),
        Observation::Provision(Box::new(owned)),
        Observation::NodeClaim(Box::new(claim("fits", "k", Stage::Launching))),
        Observation::NodeClaim(Box::new(claim("elsewhere", "z", Stage::Launching))),
        Observation::NodeClaim(Box::new(claim("there", "k", Stage::Ready))),
        Observation::NodeClaim(Box::new(small)),
        Observation::PodScaler(Box::new(PodScaler {
            key: ObjectKey::new("ns", "hpa"),
            target: (Name::new("Pod"), Name::new("clip-0")),
            ..PodScaler::default()
        })),
    ]);
    let fleet = ledger.publish(NOW);
    let [job] = &*fleet.jobs else {
        panic!("one job: {:?}", fleet.jobs)
    };
    let found = |all: Vec<&Provision>| -> Vec<String> {
        all.iter().map(|one| one.key.name.to_string()).collect()
    };
    assert_eq!(found(fleet.scaling.provisions_of(job)), ["kueues", "mine"]);
    let coming: Vec<&str> = fleet
        .scaling
        .coming_for(job)
        .iter()
        .map(|claim| &*claim.name)
        .collect();
    assert_eq!(coming, ["fits"]);
    assert_eq!(fleet.scaling.pod_scalers_of(job).count(), 1);
}

#[test]
fn a_lost_table_keeps_its_rows_and_a_list_without_them_takes_them_away() {
    let mut ledger = fold(vec![
        node("a", &[(GPU, 8)], &[("karpenter.sh/nodepool", "k")]),
        Observation::Begin(Table::NodePools),
        Observation::NodePool(Box::new(node_pool("k"))),
        Observation::End(Table::NodePools),
        status(vec![group("g", 0, 1)]),
    ]);
    assert_eq!(ledger.publish(NOW).scaling.scalers.len(), 2);
    ledger.apply(Observation::Lost(
        Table::NodePools,
        Lost {
            kind: LostKind::Unreachable,
            since: NOW,
            message: String::from("gone"),
        },
    ));
    assert_eq!(ledger.publish(NOW).scaling.scalers.len(), 2);
    ledger.apply(Observation::Begin(Table::NodePools));
    assert_eq!(ledger.publish(NOW).scaling.scalers.len(), 2);
    ledger.apply(Observation::End(Table::NodePools));
    let fleet = ledger.publish(NOW);
    assert_eq!(
        (fleet.scaling.scalers.len(), fleet.pools[0].nodes.min),
        (1, None)
    );
    ledger.apply(Observation::Gone(
        Table::NodeGroups,
        ObjectKey::new("kube-system", "cluster-autoscaler-status"),
    ));
    assert_eq!(ledger.publish(NOW).scaling.scalers.len(), 0);
    ledger.apply(Observation::NodeClaim(Box::new(claim(
        "c",
        "k",
        Stage::Launching,
    ))));
    ledger.apply(Observation::Absent(Table::NodeClaims));
    assert_eq!(ledger.publish(NOW).scaling.claims.len(), 0);
}
