//! Nodes with devices of several kinds: each resource is an offer of its own, held by the pods that ask for it; and devices that KAI
//! shares out.

use crate::fold::tests::support::{NOW, labels, node, page, pod, pod_seen, reading};
use crate::fold::{Ledger, Observation};
use model::base::Name;
use model::fleet::accelerator::{Catalog, Vendor};
use model::fleet::fleet::Fleet;
use model::fleet::object_parts::{DevicePart, Reserved};
use model::fleet::policy::Policy;

/// A ledger that knows the models of the catalog.
fn fold(observations: impl IntoIterator<Item = Observation>) -> Ledger {
    let mut ledger = Ledger::new(std::sync::Arc::new(Policy {
        catalog: Catalog::embedded(),
        ..Policy::default()
    }));
    for observation in observations {
        ledger.apply(observation);
    }
    ledger
}

/// Resource, class and holder of each device of node `a`.
fn shown(fleet: &Fleet) -> Vec<(String, String, Option<String>)> {
    let node = fleet.node("a").expect("there");
    let row = |device: &model::fleet::device::Device| {
        let holder = device.first_holder();
        (
            device.resource.to_string(),
            device.class.to_string(),
            holder.map(|(pod, _)| pod.key().name.to_string()),
        )
    };
    node.devices.iter().map(row).collect()
}

fn row(resource: &str, class: &str, holder: Option<&str>) -> (String, String, Option<String>) {
    (resource.into(), class.into(), holder.map(String::from))
}

const RTX: &[(&str, &str)] = &[
    ("nvidia.com/gpu.product", "NVIDIA-GeForce-RTX-4090"),
    ("nvidia.com/gpu.count", "1"),
];

#[test]
fn a_pod_holds_a_device_of_the_resource_that_it_asks_for() {
    let both = [("gpu.intel.com/i915", 1), ("nvidia.com/gpu", 1)];
    let mut ledger = fold([
        node("a", &both, RTX),
        pod("media", Some("a"), &[("gpu.intel.com/i915", 1)]),
    ]);
    let fleet = ledger.publish(NOW);
    assert_eq!(
        shown(&fleet),
        [
            row("nvidia.com/gpu", "RTX-4090", None),
            row("gpu.intel.com/i915", "unknown", Some("media")),
        ]
    );
    let vendors: Vec<Vendor> = fleet.nodes[0]
        .devices
        .iter()
        .map(|one| one.vendor)
        .collect();
    assert_eq!(vendors, [Vendor::Nvidia, Vendor::Intel]);
    ledger.apply(pod("train", Some("a"), &[("nvidia.com/gpu", 1)]));
    let held = shown(&ledger.publish(NOW));
    assert_eq!(held[0].2.as_deref(), Some("train"));
    assert_eq!(held[1].2.as_deref(), Some("media"));
}

#[test]
fn readings_are_of_the_vendor_that_they_name() {
    let both = [("gpu.intel.com/i915", 2), ("nvidia.com/gpu", 1)];
    let mut read = reading(0, 0.9, Some("train"));
    read.model = Some(Name::new("NVIDIA GeForce RTX 4090"));
    let mut ledger = fold([
        node("a", &both, &[]),
        pod("train", Some("a"), &[("nvidia.com/gpu", 1)]),
        page("a", NOW, vec![read]),
    ]);
    let fleet = ledger.publish(NOW);
    assert_eq!(
        shown(&fleet)[0],
        row("nvidia.com/gpu", "RTX-4090", Some("train"))
    );
    let read: Vec<bool> = fleet.nodes[0]
        .devices
        .iter()
        .map(|one| one.read_at.is_some())
        .collect();
    assert_eq!(read, [true, false, false]);
}

#[test]
fn instances_of_nvidia_stand_beside_devices_of_another_vendor() {
    let both = [("gpu.intel.com/i915", 8), ("nvidia.com/mig-3g.40gb", 2)];
    let mut ledger = fold([
        node(
            "a",
            &both,
            &[
                ("nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3"),
                ("nvidia.com/gpu.count", "1"),
            ],
        ),
        pod("p", Some("a"), &[("nvidia.com/mig-3g.40gb", 1)]),
        pod("q", Some("a"), &[("gpu.intel.com/i915", 3)]),
    ]);
    let fleet = ledger.publish(NOW);
    let node = &fleet.nodes[0];
    assert_eq!(node.devices.len(), 9);
    assert_eq!(
        (node.devices[0].class.as_str(), node.devices[0].slices.len()),
        ("H100", 2)
    );
    let held = |name: &str| {
        let all = node.devices.iter();
        all.filter(|one| {
            one.holders()
                .any(|(pod, _)| pod.key().name.as_str() == name)
        })
        .count()
    };
    assert_eq!((held("p"), held("q")), (1, 3));
}

#[test]
fn a_resource_of_a_name_that_no_plugin_has_counts_its_devices() {
    let label = [
        ("nvidia.com/gpu.product", "NVIDIA-GeForce-GTX-1080-Ti"),
        ("nvidia.com/gpu.count", "3"),
    ];
    let mut ledger = fold([
        node("a", &[("nvidia.com/gtx-1080-ti", 3)], &label),
        pod("p", Some("a"), &[("nvidia.com/gtx-1080-ti", 2)]),
    ]);
    let held = shown(&ledger.publish(NOW));
    assert_eq!(
        held.iter().filter(|(.., holder)| holder.is_some()).count(),
        2
    );
    assert_eq!(held.len(), 3);
    let passed_through = [
        ("nvidia.com/TU104GL_TESLA_T4", 2),
        ("nvidia.com/UNHEARD_OF", 1),
        ("nvidia.com/gpu", 0),
    ];
    let mut ledger = fold([node(
        "a",
        &passed_through,
        &[("nvidia.com/gpu.present", "true")],
    )]);
    assert_eq!(
        shown(&ledger.publish(NOW)),
        [
            row("nvidia.com/TU104GL_TESLA_T4", "T4", None),
            row("nvidia.com/TU104GL_TESLA_T4", "T4", None),
            row("nvidia.com/UNHEARD_OF", "unknown", None),
        ]
    );
}

#[test]
fn a_label_counts_the_gpus_of_all_resources() {
    let label = [
        ("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-80GB"),
        ("nvidia.com/gpu.count", "4"),
    ];
    let both = [("nvidia.com/gpu", 2), ("nvidia.com/h100", 2)];
    let mut ledger = fold([
        node("a", &both, &label),
        page(
            "a",
            NOW,
            (0..4).map(|index| reading(index, 0.1, None)).collect(),
        ),
    ]);
    let classes: Vec<String> = shown(&ledger.publish(NOW))
        .into_iter()
        .map(|(_, class, _)| class)
        .collect();
    assert_eq!(classes, ["A100", "A100", "H100", "H100"]);
}

#[test]
fn names_of_one_device_are_one_offer() {
    let shared = [("nvidia.com/gpu", 0), ("nvidia.com/gpu.shared", 8)];
    let label = [
        ("nvidia.com/gpu.replicas", "4"),
        ("nvidia.com/gpu.count", "2"),
    ];
    let mut ledger = fold([node("a", &shared, &label)]);
    assert_eq!(shown(&ledger.publish(NOW)).len(), 2);
    let by_scheduler = [("nvidia.com/gpu", 2), ("volcano.sh/vgpu-number", 2)];
    let mut ledger = fold([node("a", &by_scheduler, &[])]);
    assert_eq!(shown(&ledger.publish(NOW)).len(), 2);
    // More than a node can have is ignored, however many names it has.
    let names: Vec<String> = (0..9).map(|at| format!("example.com/gpu-{at}")).collect();
    let many: Vec<(&str, u32)> = names.iter().map(|name| (name.as_str(), 1000)).collect();
    let mut ledger = fold([node("a", &many, &[])]);
    let fleet = ledger.publish(NOW);
    assert_eq!(fleet.nodes[0].devices.len(), 1000);
    assert_eq!(fleet.nodes[0].ignored_counts.len(), 8);
}

/// A pod of KAI's that asks for a part of each of so many devices, in these groups.
fn sharer(
    name: &str,
    on: Option<&str>,
    (count, part): (u32, DevicePart),
    groups: &[&str],
) -> Observation {
    let mut pod = pod_seen(name, on, &[("nvidia.com/gpu", count)]);
    pod.requests.part = Some(part);
    let keys: Vec<String> = groups
        .iter()
        .map(|group| format!("runai-gpu-group/{group}"))
        .collect();
    let pairs: Vec<(&str, &str)> = keys
        .iter()
        .map(String::as_str)
        .zip(groups.iter().copied())
        .collect();
    pod.labels = labels(&pairs);
    Observation::Pod(Box::new(pod))
}

fn placeholder(group: &str, device: Option<&str>) -> Observation {
    let mut pod = pod_seen(&format!("reservation-{group}"), Some("a"), &[]);
    pod.reserves = Some(Box::new(Reserved {
        group: Name::new(group),
        device: device.map(Name::new),
    }));
    Observation::Pod(Box::new(pod))
}

#[test]
fn pods_hold_their_fractions_and_placeholders_nothing() {
    let memory = [("nvidia.com/gpu.memory", "80000")];
    let all = [
        node("a", &[("nvidia.com/gpu", 4)], &memory),
        pod("whole", Some("a"), &[("nvidia.com/gpu", 1)]),
        sharer(
            "multi",
            Some("a"),
            (2, DevicePart::Milli(600)),
            &["g1", "g2"],
        ),
        sharer(
            "small",
            Some("a"),
            (1, DevicePart::MemoryMib(20_000)),
            &["g2"],
        ),
        sharer("waits", None, (1, DevicePart::Milli(500)), &[]),
        placeholder("g1", Some("0")),
        placeholder("g2", None),
    ];
    let fleet = fold(all).publish(NOW);
    let node = &fleet.nodes[0];
    let held: Vec<(Vec<&str>, f64)> = node
        .devices
        .iter()
        .map(|device| {
            let names = device.holders().map(|(pod, _)| pod.key().name.as_str());
            (names.collect(), device.allocated().devices())
        })
        .collect();
    assert_eq!(
        held,
        [
            (vec!["multi"], 0.6),
            (vec!["multi", "small"], 0.85),
            (vec!["whole"], 1.0),
            (vec![], 0.0),
        ]
    );
    let jobs: Vec<&str> = fleet
        .jobs
        .iter()
        .map(|job| job.id.key.name.as_str())
        .collect();
    assert_eq!(jobs, ["multi", "small", "waits", "whole"]);
    assert_eq!(fleet.jobs[2].devices_requested, 1);
}

#[test]
fn an_exporter_that_names_the_placeholder_says_which_device_is_shared() {
    let mut ledger = fold([
        node("a", &[("nvidia.com/gpu", 2)], &[]),
        sharer("p", Some("a"), (1, DevicePart::Milli(250)), &["g"]),
        placeholder("g", None),
        page(
            "a",
            NOW,
            vec![
                reading(0, 0.1, None),
                reading(1, 0.9, Some("reservation-g")),
            ],
        ),
    ]);
    let fleet = ledger.publish(NOW);
    let held: Vec<f64> = fleet.nodes[0]
        .devices
        .iter()
        .map(|one| one.allocated().devices())
        .collect();
    assert_eq!(held, [0.0, 0.25]);
}

#[test]
fn a_fraction_of_unknown_size_makes_those_of_its_device_unknown() {
    let fleet = fold([
        node("a", &[("nvidia.com/gpu", 1)], &[]),
        sharer("p", Some("a"), (1, DevicePart::Milli(250)), &["g"]),
        sharer("q", Some("a"), (1, DevicePart::MemoryMib(2_000)), &["g"]),
        placeholder("g", Some("0")),
    ])
    .publish(NOW);
    let device = &fleet.nodes[0].devices[0];
    let shares: Vec<_> = device.slices.iter().map(|slice| slice.share).collect();
    assert_eq!(shares, [None, None]);
    assert!(device.has_unknown_slices());
}
