//! Devices by claim: joined, counted once, kept true in any order.

use super::support::*;
use super::*;
use model::fleet::claim::{
    ClaimAsk, ClaimRequest, ClaimResult, ClaimSeen, ClassSeen, DeviceAccess, Published, SliceSeen,
    TemplateSeen,
};
use model::fleet::device::{Attribution, Health};
use model::fleet::object_parts::{Resources, Taint};
use model::fleet::observe::{Lost, LostKind};
use model::fleet::signal::Signal;
use model::fleet::siting::NodeTerm;

const DRIVER: &str = "gpu.nvidia.com";

fn gpu(index: u32) -> Published {
    Published {
        name: Name::from(format!("gpu-{index}")),
        uuid: Some(Name::from(format!("GPU-{index}"))),
        product: Some(Name::new("NVIDIA H100 80GB HBM3")),
        index: Some(index),
        memory: Some(80 << 30),
        ..Published::default()
    }
}

fn instance(of: u32, at: u32, counters: &[&str]) -> Published {
    Published {
        name: Name::from(format!("gpu-{of}-mig-19-{at}-1")),
        uuid: Some(Name::from(format!("MIG-{of}-{at}"))),
        parent: Some(Name::from(format!("GPU-{of}"))),
        product: Some(Name::new("NVIDIA H100 80GB HBM3")),
        index: Some(of),
        profile: Some(Name::new("1g.10gb")),
        part: true,
        counters: counters.iter().map(|name| Name::new(name)).collect(),
        ..Published::default()
    }
}

fn slice_of(name: &str, generation: i64, slices: u32, devices: Vec<Published>) -> SliceSeen {
    SliceSeen {
        name: Name::new(name),
        driver: Name::new(DRIVER),
        pool: Name::new("n1"),
        generation,
        slices,
        reach: DeviceAccess::Node(Name::new("n1")),
        devices: devices.into(),
        ..SliceSeen::default()
    }
}

fn slice(devices: Vec<Published>) -> Observation {
    Observation::Slice(Box::new(slice_of("n1-gpu", 1, 1, devices)))
}

fn request(class: &str, count: u32) -> ClaimRequest {
    ClaimRequest {
        name: Name::new("r"),
        class: Name::new(class),
        count,
        ..ClaimRequest::default()
    }
}

fn given(device: &str) -> ClaimResult {
    ClaimResult {
        request: Name::new("r"),
        driver: Name::new(DRIVER),
        pool: Name::new("n1"),
        device: Name::new(device),
        admin: false,
        consumed: None,
    }
}

fn claim(name: &str, requests: Vec<ClaimRequest>, devices: &[&str], pods: &[&str]) -> ClaimSeen {
    ClaimSeen {
        key: ObjectKey::new("ns", name),
        requests: requests.into(),
        results: (!devices.is_empty())
            .then(|| devices.iter().map(|device| given(device)).collect()),
        pods: pods.iter().map(|pod| Name::new(pod)).collect(),
    }
}

fn seen(claim: ClaimSeen) -> Observation {
    Observation::Claim(Box::new(claim))
}

fn template(name: &str, requests: Vec<ClaimRequest>) -> Observation {
    Observation::ClaimTemplate(Box::new(TemplateSeen {
        key: ObjectKey::new("ns", name),
        requests: requests.into(),
    }))
}

/// A pod with a claim made of the template `each`.
fn user(name: &str, on: Option<&str>, made: &str) -> PodSeen {
    let mut pod = pod_seen(name, on, &[]);
    pod.requests.claims = Box::from([(ClaimAsk::Template(Name::new("each")), 1)]);
    if !made.is_empty() {
        pod.claims = Box::from([Name::new(made)]);
    }
    pod
}

/// A pod that uses the claim of this name.
fn sharer(name: &str, on: Option<&str>, claim: &str) -> PodSeen {
    let mut pod = pod_seen(name, on, &[]);
    pod.requests.claims = Box::from([(ClaimAsk::Claim(Name::new(claim)), 1)]);
    pod.claims = Box::from([Name::new(claim)]);
    pod
}

fn bound(pod: PodSeen) -> Observation {
    Observation::Pod(Box::new(pod))
}

fn claims_fleet() -> Vec<Observation> {
    vec![
        node("n1", &[], &[]),
        slice((0..4).map(gpu).collect()),
        template("each", vec![request(DRIVER, 2)]),
        seen(claim(
            "a-gpu",
            vec![request(DRIVER, 2)],
            &["gpu-1", "gpu-3"],
            &["a"],
        )),
        bound(user("a", Some("n1"), "a-gpu")),
        seen(claim("b-gpu", vec![request(DRIVER, 2)], &[], &[])),
        bound(user("b", None, "b-gpu")),
        page(
            "n1",
            NOW,
            (0..4).map(|index| reading(index, 0.5, None)).collect(),
        ),
    ]
}

fn holders(fleet: &Fleet) -> Vec<(u32, String, Attribution)> {
    let of = |device: &model::fleet::device::Device| {
        device
            .holders()
            .map(|(pod, how)| (device.index, pod.key().name.to_string(), how))
            .collect::<Vec<_>>()
    };
    fleet.devices().flat_map(|(_, device)| of(device)).collect()
}

fn check_claims_fleet(fleet: &Fleet) {
    let counts = fleet.device_counts();
    assert_eq!(
        (
            counts.total,
            counts.allocated.devices(),
            counts.free.devices()
        ),
        (4, 2.0, 2.0)
    );
    let named = |index: u32| (index, String::from("a"), Attribution::Claim);
    assert_eq!(holders(fleet), [named(1), named(3)]);
    let node = &fleet.nodes[0];
    assert_eq!((node.device_capacity, node.device_allocatable), (4, 4));
    let device = &node.devices[2];
    assert_eq!(device.class.as_str(), "NVIDIA H100 80GB HBM3");
    assert_eq!(
        device.signals.get(Signal::Util),
        Some(0.5),
        "its exporter's row is joined"
    );
    assert_eq!(device.memory().1, Some((80u64 << 30) as f64));
    let job = |name: &str| {
        fleet
            .jobs
            .iter()
            .find(|job| job.id.key.name.as_str() == name)
            .expect("a job")
    };
    assert_eq!(
        (job("a").devices_requested, job("a").devices_allocated),
        (2, 2)
    );
    assert_eq!(
        (job("b").devices_requested, job("b").devices_allocated),
        (2, 0)
    );
    assert_eq!(job("a").places.len(), 2);
    assert_eq!(fleet.pools[0].waiting_devices, 2);
}

#[test]
fn claims_hold_what_they_were_given_in_whatever_order_they_are_reported() {
    let all = claims_fleet();
    for turn in 0..all.len() {
        let mut order = all.clone();
        order.rotate_left(turn);
        check_claims_fleet(&fold(order.clone()).publish(NOW));
        order.reverse();
        let mut ledger = fold(std::iter::empty());
        for observation in order {
            ledger.apply(observation);
            ledger.publish(NOW);
        }
        check_claims_fleet(&ledger.publish(NOW));
    }
}

#[test]
fn rows_of_an_exporter_join_by_id_however_it_counts() {
    let read = |index: u32, uuid: &str, util: f64| {
        let mut row = reading(index, util, None);
        row.uuid = Some(Name::new(uuid));
        row
    };
    // The exporter numbers the boards the other way round, and knows one that is not published.
    let rows = vec![
        read(0, "GPU-1", 0.1),
        read(1, "GPU-0", 0.2),
        read(2, "GPU-9", 0.3),
    ];
    let mut ledger = fold([
        node("n1", &[], &[]),
        slice(vec![gpu(0), gpu(1)]),
        page("n1", NOW, rows),
    ]);
    let fleet = ledger.publish(NOW);
    let devices = &fleet.nodes[0].devices;
    let seen: Vec<(Option<&str>, Option<f64>)> = devices
        .iter()
        .map(|device| (device.uuid.as_deref(), device.signals.get(Signal::Util)))
        .collect();
    assert_eq!(
        seen,
        [
            (Some("GPU-1"), Some(0.1)),
            (Some("GPU-0"), Some(0.2)),
            (Some("GPU-9"), Some(0.3))
        ]
    );
    // By address, with more zeros before it.
    let mut by_address = reading(5, 0.7, None);
    by_address.uuid = None;
    by_address.pci = Some(Name::new("00000000:1B:00.0"));
    let mut published = gpu(0);
    published.pci = Some(Name::new("0000:1b:00.0"));
    let mut ledger = fold([
        node("n1", &[], &[]),
        slice(vec![published]),
        page("n1", NOW, vec![by_address]),
    ]);
    let fleet = ledger.publish(NOW);
    assert_eq!(fleet.device_counts().total, 1);
    assert_eq!(
        fleet.nodes[0].devices[0].signals.get(Signal::Util),
        Some(0.7)
    );
}

#[test]
fn only_the_newest_generation_of_a_pool_counts() {
    let old = slice_of("old", 1, 1, (0..8).map(gpu).collect());
    let new = slice_of("new-0", 2, 2, vec![gpu(0), gpu(1)]);
    let rest = slice_of("new-1", 2, 2, vec![gpu(2)]);
    let slice_seen = |slice: SliceSeen| Observation::Slice(Box::new(slice));
    let mut ledger = fold([node("n1", &[], &[]), slice_seen(old), slice_seen(new)]);
    let fleet = ledger.publish(NOW);
    assert_eq!(fleet.device_counts().total, 2);
    let node = &fleet.nodes[0];
    assert_eq!(
        (node.device_capacity, node.device_allocatable),
        (2, 0),
        "half a pool gives nothing"
    );
    ledger.apply(slice_seen(rest));
    let fleet = ledger.publish(NOW);
    assert_eq!(
        (
            fleet.nodes[0].device_capacity,
            fleet.nodes[0].device_allocatable
        ),
        (3, 3)
    );
    for name in ["old", "new-0", "new-1"] {
        ledger.apply(Observation::Gone(
            Table::ResourceSlices,
            ObjectKey::new("", name),
        ));
    }
    assert_eq!(ledger.publish(NOW).device_counts().total, 0);
}

#[test]
fn a_device_and_its_parts_are_one_device() {
    // Cut on demand: all instances that could be made are published beside the whole.
    let counters: &[&str] = &["gpu-0-counters"];
    let mut whole = gpu(0);
    whole.counters = counters.iter().map(|name| Name::new(name)).collect();
    let mut devices = vec![whole, gpu(1)];
    devices.extend((0..7).map(|at| instance(0, at, counters)));
    let taken = claim(
        "p-gpu",
        vec![request("mig.nvidia.com", 1)],
        &["gpu-0-mig-19-3-1"],
        &["p"],
    );
    let mut ledger = fold([
        node("n1", &[], &[]),
        slice(devices),
        seen(taken),
        bound(user("p", Some("n1"), "p-gpu")),
    ]);
    let fleet = ledger.publish(NOW);
    let counts = fleet.device_counts();
    assert_eq!((counts.total, counts.allocated.devices()), (2, 0.142_857));
    let cut = &fleet.nodes[0].devices[0];
    assert_eq!(cut.slices.len(), 1, "the instance that is there");
    assert_eq!(
        holders(&fleet),
        [(0, String::from("p"), Attribution::Claim)]
    );
    // Cut for good: the instances that there are, and no whole.
    let parts = (0..3).map(|at| instance(0, at, &[])).collect();
    let mut ledger = fold([node("n1", &[], &[]), slice(parts)]);
    let fleet = ledger.publish(NOW);
    assert_eq!(fleet.device_counts().total, 1);
    assert_eq!(fleet.nodes[0].devices[0].slices.len(), 3);
    assert_eq!(fleet.nodes[0].device_capacity, 3);
}

#[test]
fn looking_holds_nothing_and_sharing_holds_once() {
    let mut look = claim("look", vec![request(DRIVER, 1)], &["gpu-0"], &["m"]);
    look.requests[0].admin = true;
    if let Some(results) = &mut look.results {
        results[0].admin = true;
    }
    let both = claim("both", vec![request(DRIVER, 1)], &["gpu-1"], &["a", "b"]);
    let mut ledger = fold([
        node("n1", &[], &[]),
        slice(vec![gpu(0), gpu(1)]),
        seen(look),
        bound(sharer("m", Some("n1"), "look")),
        seen(both),
    ]);
    for name in ["a", "b"] {
        let mut pod = sharer(name, Some("n1"), "both");
        pod.owner = Some(owner_ref("Job", "train"));
        ledger.apply(bound(pod));
    }
    let fleet = ledger.publish(NOW);
    let counts = fleet.device_counts();
    assert_eq!((counts.total, counts.allocated.devices()), (2, 1.0));
    assert_eq!(
        holders(&fleet).len(),
        2,
        "both are shown on the device that they share"
    );
    assert_eq!(fleet.jobs.len(), 1, "who only looks asks for nothing");
    assert_eq!(
        (
            fleet.jobs[0].devices_requested,
            fleet.jobs[0].devices_allocated
        ),
        (1, 1)
    );
}

#[test]
fn what_an_extended_resource_gets_by_claim_counts_once() {
    let class = ClassSeen {
        name: Name::new("gpus"),
        driver: Some(Name::new(DRIVER)),
        parts: false,
        extended: Some(Name::new("nvidia.com/gpu")),
    };
    let mut running = pod_seen("r", Some("n1"), &[("nvidia.com/gpu", 2)]);
    running.claims = Box::from([Name::new("r-extended")]);
    running.by_claim = Box::from([Name::new("nvidia.com/gpu")]);
    let mut ledger = fold([
        node("n1", &[], &[]),
        slice((0..4).map(gpu).collect()),
        Observation::DeviceClass(Box::new(class)),
        seen(claim(
            "r-extended",
            vec![request("gpus", 2)],
            &["gpu-0", "gpu-1"],
            &["r"],
        )),
        bound(running),
        bound(pod_seen("w", None, &[("nvidia.com/gpu", 1)])),
        bound(pod_seen(
            "by-class",
            None,
            &[("deviceclass.resource.kubernetes.io/gpus", 1)],
        )),
    ]);
    let fleet = ledger.publish(NOW);
    assert_eq!(fleet.device_counts().allocated.devices(), 2.0);
    let asks: Vec<u32> = fleet.jobs.iter().map(|job| job.devices_requested).collect();
    assert_eq!(asks, [1, 2, 1]);
    assert_eq!(
        fleet.pools[0].waiting_devices, 2,
        "both kinds of ask meet the same devices"
    );
}

#[test]
fn workloads_ask_by_template_before_they_have_pods() {
    let mut job = workload(Table::Jobs, "Job", "train", 3, 0, None);
    job.suspended = true;
    job.per_pod = Resources {
        claims: Box::from([(ClaimAsk::Template(Name::new("each")), 1)]),
        ..Resources::default()
    };
    job.total = Resources {
        claims: Box::from([(ClaimAsk::Template(Name::new("each")), 3)]),
        ..Resources::default()
    };
    let mut ledger = fold([Observation::Workload(Box::new(job.clone()))]);
    assert_eq!(
        ledger.publish(NOW).jobs.len(),
        0,
        "nothing says that it is about devices"
    );
    ledger.apply(template("each", vec![request(DRIVER, 2)]));
    assert_eq!(ledger.publish(NOW).jobs[0].devices_requested, 6);
    let mut all = request(DRIVER, 1);
    all.all = true;
    ledger.apply(template("each", vec![all]));
    assert_eq!(ledger.publish(NOW).jobs[0].devices_requested, 3);
    ledger.apply(slice((0..8).map(gpu).collect()));
    assert_eq!(
        ledger.publish(NOW).jobs[0].devices_requested,
        24,
        "all that one pool has"
    );
    // A relist that does not mention it any more forgets it, though a template came meanwhile.
    ledger.apply(Observation::Begin(Table::Jobs));
    ledger.apply(template("each", vec![request(DRIVER, 1)]));
    ledger.apply(Observation::End(Table::Jobs));
    assert_eq!(ledger.publish(NOW).jobs.len(), 0);
}

#[test]
fn network_attached_devices_are_each_on_one_node() {
    let rack = NodeTerm {
        labels: Box::from([model::fleet::siting::Expression {
            key: Name::new("rack"),
            operator: model::fleet::siting::Operator::In,
            values: Box::from([Name::new("r1")]),
        }]),
        fields: Box::default(),
    };
    let mut shared = slice_of("net", 1, 1, vec![gpu(0), gpu(1)]);
    shared.reach = DeviceAccess::Nodes(Box::from([rack]));
    let far = claim("c", vec![request(DRIVER, 1)], &["gpu-1"], &["p"]);
    let all = [
        node("n1", &[], &[("rack", "r1")]),
        node("n2", &[], &[("rack", "r1")]),
        node("n0", &[], &[("rack", "r9")]),
        Observation::Slice(Box::new(shared)),
        seen(far),
        bound(sharer("p", Some("n2"), "c")),
    ];
    for turn in 0..all.len() {
        let mut order = all.to_vec();
        order.rotate_left(turn);
        let mut ledger = fold(order);
        let fleet = ledger.publish(NOW);
        let counts: Vec<usize> = fleet.nodes.iter().map(|node| node.devices.len()).collect();
        assert_eq!(
            counts,
            [0, 1, 1],
            "one on its holder's node, one on the first that reaches it"
        );
        assert_eq!(fleet.device_counts().allocated.devices(), 1.0);
    }
}

#[test]
fn device_taints_are_listed_and_repel_pods() {
    let taint = |effect: &str| Taint {
        key: Name::new("gpu.nvidia.com/xid"),
        value: Name::new("79"),
        effect: Name::new(effect),
        since: None,
    };
    let mut devices: Vec<Published> = (0..3).map(gpu).collect();
    devices[0].taints = Box::from([taint("NoExecute")]);
    devices[1].taints = Box::from([taint("NoSchedule")]);
    devices[2].taints = Box::from([taint("None")]);
    let mut ledger = fold([node("n1", &[], &[]), slice(devices)]);
    let fleet = ledger.publish(NOW);
    let node = &fleet.nodes[0];
    assert!(matches!(&node.devices[0].health, Health::Fault(why) if why.contains("xid=79")));
    assert!(matches!(&node.devices[1].health, Health::Warn(_)));
    assert_eq!(node.devices[2].health, Health::Unknown);
    assert_eq!((node.device_capacity, node.device_allocatable), (3, 1));
}

#[test]
fn withheld_slices_leave_devices_unknown_not_absent() {
    let labels = [
        ("nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3"),
        ("nvidia.com/gpu.count", "8"),
    ];
    let lost = Observation::Lost(
        Table::ResourceSlices,
        Lost {
            kind: LostKind::Rights,
            since: NOW,
            message: String::from("may not list"),
        },
    );
    let mut ledger = fold([
        node("n1", &[], &labels),
        node("n2", &[("nvidia.com/gpu", 8)], &labels),
        lost,
    ]);
    let fleet = ledger.publish(NOW);
    assert!(fleet.nodes[0].withheld && fleet.nodes[0].devices.is_empty());
    assert!(!fleet.nodes[1].withheld);
    assert_eq!(fleet.nodes[1].devices.len(), 8);
    // Then they may be listed after all.
    ledger.apply(Observation::Begin(Table::ResourceSlices));
    ledger.apply(slice((0..4).map(gpu).collect()));
    ledger.apply(Observation::End(Table::ResourceSlices));
    let fleet = ledger.publish(NOW);
    assert!(!fleet.nodes[0].withheld);
    assert_eq!(fleet.nodes[0].devices.len(), 4);
}

#[test]
fn ports_and_channels_are_no_devices() {
    let mut ports = slice_of("net", 1, 1, vec![gpu(0)]);
    ports.driver = Name::new("dra.net");
    let mut result = claim("c", vec![request("rdma", 1)], &["gpu-0"], &["p"]);
    if let Some(results) = &mut result.results {
        results[0].driver = Name::new("dra.net");
    }
    let mut ledger = fold([
        node("n1", &[], &[]),
        Observation::Slice(Box::new(ports)),
        seen(result),
        bound(sharer("p", Some("n1"), "c")),
    ]);
    let fleet = ledger.publish(NOW);
    assert_eq!((fleet.device_counts().total, fleet.jobs.len()), (0, 0));
}

#[test]
fn shares_of_hami_are_no_devices() {
    let mut seen = NodeSeen {
        name: Name::new("n1"),
        uid: Name::new("n1"),
        capacity: devices(&[("nvidia.com/gpu", 20)]),
        allocatable: devices(&[("nvidia.com/gpu", 20)]),
        ..NodeSeen::default()
    };
    seen.annotations = [(
        Name::new("hami.io/node-nvidia-register"),
        Name::new("GPU-a,10,40960,100,NVIDIA-NVIDIA A100,0,true:GPU-b,10,40960,100,NVIDIA-NVIDIA A100,0,true:"),
    )]
    .into_iter()
    .collect();
    let mut holder = pod_seen("p", Some("n1"), &[("nvidia.com/gpu", 1)]);
    holder.claimed = vec![model::fleet::seen::Claimed::Id(Name::new("GPU-b"))];
    // The exporter numbers the boards the other way round.
    let read = |index: u32, uuid: &str| {
        let mut row = reading(index, 0.4, None);
        row.uuid = Some(Name::new(uuid));
        row
    };
    let mut ledger = fold([
        Observation::Node(Box::new(seen)),
        bound(holder),
        page("n1", NOW, vec![read(0, "GPU-b"), read(1, "GPU-a")]),
    ]);
    let fleet = ledger.publish(NOW);
    let counts = fleet.device_counts();
    assert_eq!((counts.total, counts.allocated.devices()), (2, 0.1));
    assert_eq!(
        holders(&fleet),
        [(0, String::from("p"), Attribution::Claim)]
    );
    let device = &fleet.nodes[0].devices[1];
    assert_eq!(device.uuid.as_deref(), Some("GPU-a"));
    assert_eq!(device.memory().1, Some(40960.0 * 1_048_576.0));
    assert_eq!(device.slices.len(), 10);
}
