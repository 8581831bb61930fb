//! A number in one object must not decide how much memory we take.

use super::support::*;
use super::*;
use crate::fold::devices::limits::MOST;
use model::fleet::claim::{DeviceAccess, Published, SliceSeen};
use model::fleet::node::Node;

/// The node `a` of these observations; another node beside it is whole in every case.
fn claimed(all: Vec<Observation>) -> Arc<Node> {
    let beside = node("b", &[("nvidia.com/gpu", 8)], &[]);
    let fleet = fold(all.into_iter().chain([beside])).publish(NOW);
    assert_eq!(fleet.node("b").expect("there").devices.len(), 8);
    let node = Arc::clone(fleet.node("a").expect("there"));
    let slices: usize = node.devices.iter().map(|device| device.slices.len()).sum();
    assert!(
        node.devices.len() <= MOST as usize,
        "{} devices",
        node.devices.len()
    );
    assert!(slices <= MOST as usize, "{slices} slices");
    node
}

fn ignored(node: &Node) -> Vec<(&str, u32)> {
    let all = node.ignored_counts.iter();
    all.map(|(what, count)| (what.as_str(), *count)).collect()
}

#[test]
fn a_node_that_claims_billions_of_devices_is_ignored_and_named() {
    const MANY: u32 = 4_000_000_000;
    for resource in ["nvidia.com/gpu", "nvidia.com/mig-1g.10gb", "amd.com/gpu"] {
        let node = claimed(vec![node("a", &[(resource, MANY)], &[])]);
        assert_eq!(ignored(&node), [(resource, MANY)]);
        assert!(!node.is_counted(), "unknown, not zero: {resource}");
    }
    // One list suffices, and what the exporter shows is shown all the same.
    let mut seen = NodeSeen {
        name: Name::new("a"),
        capacity: devices(&[("nvidia.com/gpu", 8)]),
        allocatable: devices(&[("nvidia.com/gpu", MANY)]),
        ..NodeSeen::default()
    };
    let shown = claimed(vec![
        Observation::Node(Box::new(seen.clone())),
        page("a", NOW, (0..8).map(|at| reading(at, 0.5, None)).collect()),
    ]);
    assert_eq!(ignored(&shown), [("nvidia.com/gpu", MANY)]);
    assert_eq!((shown.devices.len(), shown.device_allocatable), (8, 0));
    assert!(shown.is_counted());
    // Each below the most, and too many together.
    let many: Vec<(String, u32)> = (1..4)
        .map(|at| (format!("nvidia.com/mig-{at}g.x"), 1000))
        .collect();
    let many: Vec<(&str, u32)> = many
        .iter()
        .map(|(name, count)| (name.as_str(), *count))
        .collect();
    seen.capacity = devices(&many);
    seen.allocatable = devices(&many);
    let node = claimed(vec![Observation::Node(Box::new(seen))]);
    assert_eq!(node.ignored_counts.len(), 3);
}

#[test]
fn labels_that_claim_billions_are_ignored_and_named() {
    for value in ["4000000000", "99999999999999", "1025"] {
        let count = value.parse().unwrap_or(u32::MAX);
        let node = claimed(vec![node("a", &[], &[("nvidia.com/gpu.count", value)])]);
        assert_eq!(ignored(&node), [("nvidia.com/gpu.count", count)]);
        assert!(!node.is_counted());
    }
    let replicas = |value: &str| {
        claimed(vec![node(
            "a",
            &[("nvidia.com/gpu", 8)],
            &[
                ("nvidia.com/gpu.count", "8"),
                ("nvidia.com/gpu.replicas", value),
            ],
        )])
    };
    for (value, count) in [("4000000000", 4_000_000_000), ("1000", 8000)] {
        let node = replicas(value);
        assert_eq!(
            ignored(&node),
            [("nvidia.com/gpu.replicas", count)],
            "{value}"
        );
        assert_eq!(node.devices.len(), 8);
    }
    assert!(ignored(&replicas("100")).is_empty(), "an honest number");
}

#[test]
fn slices_and_pages_that_claim_too_much_are_ignored_and_named() {
    let devices = (0..1025).map(|index| Published {
        name: Name::from(format!("gpu-{index}")),
        uuid: Some(Name::from(format!("GPU-{index}"))),
        index: Some(index),
        ..Published::default()
    });
    let slice = SliceSeen {
        name: Name::new("a-gpu"),
        driver: Name::new("gpu.nvidia.com"),
        pool: Name::new("a"),
        generation: 1,
        slices: 1,
        reach: DeviceAccess::Node(Name::new("a")),
        devices: devices.collect(),
        ..SliceSeen::default()
    };
    let published = claimed(vec![
        node("a", &[], &[]),
        Observation::Slice(Box::new(slice)),
    ]);
    assert_eq!(ignored(&published), [("gpu.nvidia.com", 1025)]);
    let rows = vec![reading(0, 0.5, None), reading(u32::MAX, 0.5, None)];
    let read = claimed(vec![
        node("a", &[("nvidia.com/gpu", 1)], &[]),
        page("a", NOW, rows),
    ]);
    assert_eq!(ignored(&read), [("its exporter", u32::MAX)]);
    assert_eq!(read.devices.len(), 1);
}
