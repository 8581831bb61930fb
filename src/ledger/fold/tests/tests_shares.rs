//! Every way of sharing a device counts and costs the part of the device that each slice is.

use super::support::{NOW, devices, labels, node, page, pod, pod_seen, reading};
use super::*;
use model::base::{DeviceAmount, Rate};
use model::cost::{Money, Override, Prices, SpendRates, SpendScope as By, spend_rates};
use model::fleet::accelerator::Catalog;
use model::fleet::claim::{
    CapacityAmount, ClaimAsk, ClaimRequest, ClaimResult, ClaimSeen, Consumed, CounterAmount,
    DeviceAccess, Published, SliceSeen,
};
use model::fleet::observe::{Lost, LostKind};
use model::fleet::reading::{Reading, ReadingScope};
use model::fleet::seen::Claimed;

const A100: (&str, &str) = ("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-80GB");

/// The fleet of these observations, with the catalog's models.
fn fleet(observations: impl IntoIterator<Item = Observation>) -> Fleet {
    let mut ledger = Ledger::new(Arc::new(Policy {
        catalog: Catalog::embedded(),
        ..Policy::default()
    }));
    for observation in observations {
        ledger.apply(observation);
    }
    ledger.publish(NOW)
}

/// Total devices; allocated and free devices, and the unusable part of each.
fn counts(fleet: &Fleet) -> (u32, String, String, String) {
    let counts = fleet.device_counts();
    let all = DeviceAmount::whole(counts.total);
    assert_eq!(counts.allocated + counts.free, all, "they add up");
    let (allocated, free) = (counts.allocated.devices(), counts.free.devices());
    let unusable = counts.unusable.total().devices();
    let text = |amount: f64| format!("{amount:.3}");
    (counts.total, text(allocated), text(free), text(unusable))
}

fn counted(total: u32, allocated: f64, free: f64, unusable: f64) -> (u32, String, String, String) {
    let text = |amount: f64| format!("{amount:.3}");
    (total, text(allocated), text(free), text(unusable))
}

/// What the fleet burns where a device of any class costs 7 USD/h.
fn burnt(fleet: &Fleet) -> SpendRates {
    let prices = Prices::default().with_override(Override {
        instance: None,
        class: None,
        billing: None,
        rate: Rate::from_usd(7.0).expect("fits"),
    });
    let burnt = spend_rates(fleet, &prices);
    for by in By::ALL {
        let rows = &burnt.rows[&by];
        let rate: Money = rows.iter().map(|row| row.spend.rate).sum();
        let amount: DeviceAmount = rows.iter().map(|row| row.devices).sum();
        assert_eq!((rate, amount), (burnt.total.rate, burnt.devices), "{by:?}");
    }
    burnt
}

/// USD/h of a job, rounded to cents; `None` where it is not known.
fn costs(burnt: &SpendRates, job: &str) -> Option<String> {
    let row = burnt.row(By::Job, &format!("ns/{job}"))?;
    let known = row.known().filter(|_| row.unknown_slices == 0)?;
    Some(format!("{:.2}", known.rate.usd()))
}

#[test]
fn a_mig_instance_is_its_compute_slices_of_the_gpu() {
    let labels = [A100, ("nvidia.com/gpu.count", "1")];
    let capacity = [("nvidia.com/mig-3g.40gb", 1), ("nvidia.com/mig-2g.20gb", 2)];
    let fleet = fleet([
        node("a", &capacity, &labels),
        pod("large", Some("a"), &[("nvidia.com/mig-3g.40gb", 1)]),
        pod("small", Some("a"), &[("nvidia.com/mig-2g.20gb", 1)]),
    ]);
    assert_eq!(counts(&fleet), counted(1, 5.0 / 7.0, 2.0 / 7.0, 0.0));
    let burnt = burnt(&fleet);
    assert_eq!(costs(&burnt, "large").as_deref(), Some("3.00"));
    assert_eq!(costs(&burnt, "small").as_deref(), Some("2.00"));
    assert_eq!(burnt.total.free.map(|rate| rate.usd().round()), Some(2.0));
}

#[test]
fn what_no_instance_takes_is_free_and_not_usable() {
    let labels = [A100, ("nvidia.com/gpu.count", "1")];
    let fleet = fleet([
        node("a", &[("nvidia.com/mig-3g.40gb", 2)], &labels),
        pod("p", Some("a"), &[("nvidia.com/mig-3g.40gb", 2)]),
    ]);
    assert_eq!(counts(&fleet), counted(1, 6.0 / 7.0, 1.0 / 7.0, 1.0 / 7.0));
}

#[test]
fn a_board_with_four_compute_slices_is_divided_by_four() {
    let labels = [
        ("nvidia.com/gpu.product", "NVIDIA-A30"),
        ("nvidia.com/gpu.count", "1"),
    ];
    let fleet = fleet([
        node("a", &[("nvidia.com/mig-1g.6gb", 4)], &labels),
        pod("p", Some("a"), &[("nvidia.com/mig-1g.6gb", 1)]),
    ]);
    assert_eq!(counts(&fleet), counted(1, 0.25, 0.75, 0.0));
}

#[test]
fn a_time_sliced_instance_is_its_part_of_the_instance() {
    let labels = [
        A100,
        ("nvidia.com/gpu.count", "1"),
        ("nvidia.com/mig-7g.80gb.replicas", "4"),
    ];
    let fleet = fleet([
        node("a", &[("nvidia.com/mig-7g.80gb.shared", 4)], &labels),
        pod("p", Some("a"), &[("nvidia.com/mig-7g.80gb.shared", 1)]),
    ]);
    assert_eq!(counts(&fleet), counted(1, 0.25, 0.75, 0.0));
}

#[test]
fn a_share_of_a_time_sliced_gpu_is_one_of_its_replicas() {
    let labels = [
        ("nvidia.com/gpu.count", "2"),
        ("nvidia.com/gpu.replicas", "4"),
    ];
    let fleet = fleet([
        node("a", &[("nvidia.com/gpu", 8)], &labels),
        pod("p", Some("a"), &[("nvidia.com/gpu", 1)]),
        pod("q", Some("a"), &[("nvidia.com/gpu", 5)]),
    ]);
    assert_eq!(counts(&fleet), counted(2, 1.5, 0.5, 0.0));
    assert_eq!(costs(&burnt(&fleet), "p").as_deref(), Some("1.75"));
}

/// A node whose one H100 of 80 000 MiB HAMi shares out in ten, with pods that were given so much memory and so many cores.
fn hami(given: &[(&str, u32, u32)]) -> Vec<Observation> {
    let register = r#"[{"id":"GPU-a","count":10,"devmem":80000,"devcore":100,"type":"NVIDIA-H100","health":true}]"#;
    let mut seen = NodeSeen {
        name: Name::new("a"),
        uid: Name::new("a"),
        capacity: devices(&[("nvidia.com/gpu", 10)]),
        allocatable: devices(&[("nvidia.com/gpu", 10)]),
        annotations: labels(&[("hami.io/node-nvidia-register", register)]),
        ..NodeSeen::default()
    };
    if let Observation::Node(ready) = node("a", &[], &[]) {
        seen.conditions = ready.conditions;
    }
    let pods = given.iter().map(|(name, mib, cores)| {
        let mut pod = pod_seen(name, Some("a"), &[("nvidia.com/gpu", 1)]);
        let value = format!("GPU-a,NVIDIA,{mib},{cores}:;");
        pod.annotations = labels(&[("hami.io/vgpu-devices-allocated", &value)]);
        pod.claimed = vec![Claimed::Id(Name::new("GPU-a"))];
        Observation::Pod(Box::new(pod))
    });
    std::iter::once(Observation::Node(Box::new(seen)))
        .chain(pods)
        .collect()
}

#[test]
fn a_share_of_hami_is_the_memory_or_the_cores_that_it_was_given() {
    let four = ["p", "q", "r", "s"].map(|name| (name, 20_000, 25));
    let full = fleet(hami(&four));
    assert_eq!(counts(&full), counted(1, 1.0, 0.0, 0.0), "nothing is left");
    assert_eq!(costs(&burnt(&full), "p").as_deref(), Some("1.75"));
    let one = fleet(hami(&[("p", 40_000, 10)]));
    assert_eq!(
        counts(&one),
        counted(1, 0.5, 0.5, 0.0),
        "the larger part counts"
    );
    let two = fleet(hami(&[("p", 8_000, 60), ("q", 8_000, 20)]));
    assert_eq!(counts(&two), counted(1, 0.8, 0.2, 0.0));
}

#[test]
fn amd_partitions_are_parts_of_their_gpus() {
    let labels = [
        ("amd.com/gpu.product-name", "AMD_Instinct_MI300X_OAM"),
        ("amd.com/gpu.compute-memory-partition", "cpx_nps4"),
    ];
    let cpx = fleet([
        node("a", &[("amd.com/gpu", 64)], &labels),
        pod("p", Some("a"), &[("amd.com/gpu", 12)]),
    ]);
    assert_eq!(counts(&cpx), counted(8, 1.5, 6.5, 0.0));
    assert_eq!(costs(&burnt(&cpx), "p").as_deref(), Some("10.50"));
    let named = [
        ("amd.com/gpu", 0),
        ("amd.com/spx_nps1", 6),
        ("amd.com/cpx_nps1", 16),
    ];
    let hybrid = fleet([
        node("a", &named, &labels[..1]),
        pod("p", Some("a"), &[("amd.com/cpx_nps1", 4)]),
        pod("q", Some("a"), &[("amd.com/spx_nps1", 2)]),
    ]);
    assert_eq!(counts(&hybrid), counted(8, 2.5, 5.5, 0.0));
    assert_eq!(costs(&burnt(&hybrid), "q").as_deref(), Some("14.00"));
}

fn drawn(set: &str, milli: i64) -> CounterAmount {
    CounterAmount {
        set: Name::new(set),
        counter: Name::new("compute"),
        milli,
    }
}

fn slice(driver: &str, devices: Vec<Published>, counters: Vec<CounterAmount>) -> Observation {
    Observation::Slice(Box::new(SliceSeen {
        name: Name::new("a-x"),
        driver: Name::new(driver),
        pool: Name::new("a"),
        generation: 1,
        slices: 1,
        reach: DeviceAccess::Node(Name::new("a")),
        devices: devices.into(),
        counters: counters.into(),
    }))
}

/// A pod of a claim that this device was allocated to.
fn claims(driver: &str, device: &str) -> [Observation; 2] {
    let claim = ClaimSeen {
        key: ObjectKey::new("ns", "c"),
        requests: Box::from([ClaimRequest {
            name: Name::new("r"),
            class: Name::new(driver),
            count: 1,
            ..ClaimRequest::default()
        }]),
        results: Some(Box::from([ClaimResult {
            request: Name::new("r"),
            driver: Name::new(driver),
            pool: Name::new("a"),
            device: Name::new(device),
            admin: false,
            consumed: None,
        }])),
        pods: Box::from([Name::new("p")]),
    };
    let mut pod = pod_seen("p", Some("a"), &[]);
    pod.requests.claims = Box::from([(ClaimAsk::Claim(Name::new("c")), 1)]);
    pod.claims = Box::from([Name::new("c")]);
    [
        Observation::Claim(Box::new(claim)),
        Observation::Pod(Box::new(pod)),
    ]
}

#[test]
fn a_dra_partition_is_what_it_takes_of_the_counters_of_its_device() {
    let device = |name: &str, set: &str, milli| Published {
        name: Name::new(name),
        counters: Box::from([Name::new(set)]),
        draws: Box::from([drawn(set, milli)]),
        ..Published::default()
    };
    // Partitions come before their device, and only the counters identify them as partitions.
    let all = vec![
        device("a-0-part", "set-0", 25_000),
        device("gpu-0", "set-0", 100_000),
        device("gpu-1", "set-1", 100_000),
        device("gpu-1-part", "set-1", 25_000),
    ];
    let totals = vec![drawn("set-0", 100_000), drawn("set-1", 100_000)];
    let observed = |held: &str| {
        let [claim, pod] = claims("gpu.example.com", held);
        let slice = slice("gpu.example.com", all.clone(), totals.clone());
        fleet([node("a", &[], &[]), slice, claim, pod])
    };
    assert_eq!(counts(&observed("a-0-part")), counted(2, 0.25, 1.75, 0.0));
    assert_eq!(counts(&observed("gpu-0")), counted(2, 1.0, 1.0, 0.0));
}

#[test]
fn dra_partitions_of_one_parent_are_one_device() {
    let part = |name: &str, parent: &str| Published {
        name: Name::new(name),
        pci: Some(Name::new(parent)),
        product: Some(Name::new("AMD_Instinct_MI300X_OAM")),
        profile: Some(Name::new("dpx_nps1")),
        part: true,
        ..Published::default()
    };
    let parts = vec![
        part("gpu-49", "0003:00:04.0"),
        part("gpu-57", "0003:00:04.0"),
        part("gpu-33", "0003:00:05.0"),
        part("gpu-41", "0003:00:05.0"),
    ];
    let [claim, pod] = claims("gpu.amd.com", "gpu-33");
    let slice = slice("gpu.amd.com", parts, Vec::new());
    let fleet = fleet([node("a", &[], &[]), slice, claim, pod]);
    assert_eq!(counts(&fleet), counted(2, 0.5, 1.5, 0.0));
    assert_eq!(costs(&burnt(&fleet), "p").as_deref(), Some("3.50"));
}

/// The same without the right to list nodes.
fn unlisted(observations: Vec<Observation>) -> Fleet {
    let lost = Lost {
        kind: LostKind::Rights,
        since: NOW,
        message: String::from("nodes is forbidden"),
    };
    let seen = observations.into_iter();
    let seen = seen.filter(|one| !matches!(one, Observation::Node(_)));
    fleet(seen.chain([Observation::Lost(Table::Nodes, lost)]))
}

fn read(scope: ReadingScope, slice: Option<&str>, holder: Option<&str>) -> Reading {
    let mut row = reading(0, 0.7, holder);
    row.scope = scope;
    row.model = Some(Name::new("NVIDIA A100-SXM4-80GB"));
    row.slice = slice.map(Name::new);
    row
}

#[test]
fn who_sees_fewer_slices_never_sees_another_price() {
    let capacity = [("nvidia.com/mig-1g.10gb", 7)];
    let mig = [("nvidia.com/mig-1g.10gb", 1)];
    let whole = vec![
        node("a", &capacity, &[A100, ("nvidia.com/gpu.count", "1")]),
        pod("p", Some("a"), &mig),
        page(
            "a",
            NOW,
            vec![
                read(ReadingScope::Device, None, None),
                read(ReadingScope::Slice, Some("1g.10gb-7"), Some("p")),
            ],
        ),
    ];
    let part = unlisted(whole.clone());
    let (all, own) = (burnt(&fleet(whole)), burnt(&part));
    assert_eq!(costs(&all, "p").as_deref(), Some("1.00"));
    assert_eq!(costs(&own, "p"), costs(&all, "p"));
    assert_eq!(
        own.total.rate,
        own.jobs.values().next().expect("one").0.rate
    );
}

#[test]
fn the_cost_of_a_share_of_unknown_size_is_unknown() {
    let labels = [
        ("nvidia.com/gpu.count", "1"),
        ("nvidia.com/gpu.replicas", "4"),
    ];
    let sliced = vec![
        node("a", &[("nvidia.com/gpu", 4)], &labels),
        pod("p", Some("a"), &[("nvidia.com/gpu", 1)]),
        pod("q", Some("a"), &[("nvidia.com/gpu", 1)]),
        page(
            "a",
            NOW,
            vec![
                read(ReadingScope::Device, None, None),
                read(ReadingScope::PodCopy, None, Some("p")),
                read(ReadingScope::PodCopy, None, Some("q")),
            ],
        ),
    ];
    let given = hami(&[("p", 20_000, 25)]);
    for observed in [sliced, given] {
        let whole = burnt(&fleet(observed.clone()));
        assert_eq!(costs(&whole, "p").as_deref(), Some("1.75"));
        let part = unlisted(observed);
        let burnt = burnt(&part);
        assert_eq!(costs(&burnt, "p"), None, "{:?}", burnt.rows[&By::Job]);
        assert_eq!(burnt.total.rate, Money::ZERO);
        assert!(burnt.known().is_none(), "unknown, not nothing");
        assert_eq!(part.amount_of(&part.jobs[0]), None);
    }
}

/// A claim of a part of the device, for a pod of the same name.
fn consumes(name: &str, share: &str, amounts: &[(&str, i64)]) -> [Observation; 2] {
    let [claim, pod] = claims("gpu.example.com", "gpu-0");
    let (Observation::Claim(mut claim), Observation::Pod(mut pod)) = (claim, pod) else {
        unreachable!("a claim and its pod");
    };
    claim.key = ObjectKey::new("ns", name);
    claim.pods = Box::from([Name::new(name)]);
    let amounts = amounts.iter().map(|(name, milli)| capacity(name, *milli));
    if let Some(results) = &mut claim.results {
        results[0].consumed = Some(Consumed {
            share: Name::new(share),
            amounts: amounts.collect(),
        });
    }
    pod.key = ObjectKey::new("ns", name);
    pod.uid = Name::new(name);
    pod.requests.claims = Box::from([(ClaimAsk::Claim(Name::new(name)), 1)]);
    pod.claims = Box::from([Name::new(name)]);
    [Observation::Claim(claim), Observation::Pod(pod)]
}

fn capacity(name: &str, milli: i64) -> CapacityAmount {
    CapacityAmount {
        name: Name::new(name),
        milli,
    }
}

/// A device of 80 units of memory and 100 of compute of which several claims may have a part each.
fn shared_by_claims() -> Vec<Observation> {
    let device = Published {
        name: Name::new("gpu-0"),
        shared: Some(Box::from([
            capacity("memory", 80),
            capacity("compute", 100),
        ])),
        ..Published::default()
    };
    let slice = slice("gpu.example.com", vec![device], Vec::new());
    vec![node("a", &[], &[]), slice]
}

#[test]
fn a_claims_part_of_a_device_is_what_it_consumes_of_it_most() {
    let mut all = shared_by_claims();
    assert_eq!(counts(&fleet(all.clone())), counted(1, 0.0, 1.0, 0.0));
    all.extend(consumes("p", "s-1", &[("memory", 20), ("compute", 10)]));
    all.extend(consumes("q", "s-2", &[("memory", 40), ("compute", 25)]));
    let two = fleet(all.clone());
    assert_eq!(counts(&two), counted(1, 0.75, 0.25, 0.0));
    let burnt = burnt(&two);
    assert_eq!(costs(&burnt, "p").as_deref(), Some("1.75"));
    assert_eq!(costs(&burnt, "q").as_deref(), Some("3.50"));
    // Who does not see what the driver publishes does not know how large a part is.
    let part = unlisted(
        all.into_iter()
            .filter(|one| !matches!(one, Observation::Slice(_)))
            .collect(),
    );
    assert_eq!(costs(&self::burnt(&part), "p"), None);
}

#[test]
fn a_part_of_unknown_size_makes_those_of_its_device_unknown() {
    let mut all = shared_by_claims();
    all.extend(consumes("p", "s-1", &[("memory", 20)]));
    all.extend(consumes("q", "s-2", &[("bandwidth", 1)]));
    let burnt = burnt(&fleet(all));
    assert_eq!((costs(&burnt, "p"), costs(&burnt, "q")), (None, None));
    assert_eq!(
        burnt.total.rate.usd(),
        7.0,
        "the device is paid all the same"
    );
}
