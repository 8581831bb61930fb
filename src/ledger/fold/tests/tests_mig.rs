//! A node's offer: every MIG slice is shown, on GPUs that it fits on, a pod has its requested slices, and classes come from
//! the node's labels without an exporter.

use super::support::{NOW, node, page, pod, pod_seen, reading};
use super::*;
use model::fleet::accelerator::Catalog;
use model::fleet::device::Attribution;
use model::fleet::reading::{Reading, ReadingScope};
use model::fleet::signal::Signal;

/// A ledger that knows the catalog's models.
fn fold(observations: impl IntoIterator<Item = Observation>) -> Ledger {
    let mut ledger = Ledger::new(Arc::new(Policy {
        catalog: Catalog::embedded(),
        ..Policy::default()
    }));
    for observation in observations {
        ledger.apply(observation);
    }
    ledger
}

/// The slices of each device of node `a`, by profile.
fn cut(capacity: &[(&str, u32)], labels: &[(&str, &str)]) -> Vec<Vec<String>> {
    let mut ledger = fold([node("a", capacity, labels)]);
    let fleet = ledger.publish(NOW);
    let node = fleet.node("a").expect("there");
    let profile = |name: &Name| name.rsplit_once('-').map(|(profile, _)| profile.to_owned());
    node.devices
        .iter()
        .map(|device| {
            let names = device.slices.iter().map(|slice| &slice.name);
            names.filter_map(profile).collect()
        })
        .collect()
}

fn mig(profile: &str) -> String {
    format!("nvidia.com/mig-{profile}")
}

#[test]
fn the_memory_that_a_label_names_is_no_claim_of_devices() {
    let labels = [("nvidia.com/gpu.memory", "81920")];
    let mut ledger = fold([node("a", &[("nvidia.com/mig-3g.40gb", 2)], &labels)]);
    let fleet = ledger.publish(NOW);
    let node = fleet.node("a").expect("there");
    assert!(node.ignored_counts.is_empty(), "{:?}", node.ignored_counts);
    assert_eq!(node.devices.len(), 1);
}

/// NVIDIA's default `all-balanced` on eight GPUs of each board that it knows.
#[test]
fn all_balanced_is_shown_whole_on_every_gpu() {
    let boards: [(&str, &[(&str, u32)]); 9] = [
        (
            "NVIDIA-A100-SXM4-80GB",
            &[("1g.10gb", 2), ("2g.20gb", 1), ("3g.40gb", 1)],
        ),
        (
            "NVIDIA-A100-SXM4-40GB",
            &[("1g.5gb", 2), ("2g.10gb", 1), ("3g.20gb", 1)],
        ),
        (
            "NVIDIA-H100-80GB-HBM3",
            &[("1g.10gb", 2), ("2g.20gb", 1), ("3g.40gb", 1)],
        ),
        (
            "NVIDIA-H100-NVL",
            &[("1g.12gb", 2), ("2g.24gb", 1), ("3g.47gb", 1)],
        ),
        (
            "NVIDIA-H200",
            &[("1g.18gb", 2), ("2g.35gb", 1), ("3g.71gb", 1)],
        ),
        (
            "NVIDIA-B200",
            &[("1g.23gb", 2), ("2g.45gb", 1), ("3g.90gb", 1)],
        ),
        (
            "NVIDIA-GB200",
            &[("1g.24gb", 2), ("2g.47gb", 1), ("3g.95gb", 1)],
        ),
        ("NVIDIA-A30", &[("1g.6gb", 2), ("2g.12gb", 1)]),
        (
            "NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition",
            &[("1g.24gb", 2), ("2g.48gb", 1)],
        ),
    ];
    for (board, on_each) in boards {
        let resources: Vec<(String, u32)> = on_each
            .iter()
            .map(|(profile, count)| (mig(profile), count * 8))
            .collect();
        let capacity: Vec<(&str, u32)> = resources
            .iter()
            .map(|(name, count)| (name.as_str(), *count))
            .collect();
        let wanted: Vec<String> = on_each
            .iter()
            .flat_map(|(profile, count)| (0..*count).map(|_| (*profile).to_owned()))
            .collect();
        // With the GPUs counted by a label, with the board alone, and with nothing but the capacity.
        let all: [&[(&str, &str)]; 3] = [
            &[
                ("nvidia.com/gpu.count", "8"),
                ("nvidia.com/gpu.product", board),
            ],
            &[("nvidia.com/gpu.product", board)],
            &[],
        ];
        for labels in all {
            assert_eq!(
                cut(&capacity, labels),
                vec![wanted.clone(); 8],
                "{board} {labels:?}"
            );
        }
    }
}

#[test]
fn a_profile_takes_compute_and_memory() {
    let one = [
        ("nvidia.com/gpu.count", "1"),
        ("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-80GB"),
    ];
    for pieces in [
        vec![("1g.10gb", 2), ("3g.40gb", 1)],
        vec![("3g.40gb", 1), ("4g.40gb", 1)],
        vec![("3g.40gb", 2)],
        vec![("1g.20gb", 4)],
        vec![("1g.10gb", 6), ("1g.10gb.me", 1)],
        vec![("1g.10gb", 1), ("2g.20gb", 3)],
        vec![("7g.80gb", 1)],
    ] {
        let resources: Vec<(String, u32)> = pieces
            .iter()
            .map(|(name, count)| (mig(name), *count))
            .collect();
        let capacity: Vec<(&str, u32)> = resources
            .iter()
            .map(|(name, count)| (name.as_str(), *count))
            .collect();
        let of_one = cut(&capacity, &one);
        let sum: u32 = pieces.iter().map(|(_, count)| count).sum();
        assert_eq!(
            (of_one.len(), of_one[0].len()),
            (1, sum as usize),
            "{pieces:?}"
        );
        // Without the label as many GPUs are there as it takes.
        assert_eq!(cut(&capacity, &one[1..]).len(), 1, "{pieces:?}");
    }
    // Two with four compute slices are two GPUs, and so are three with four memory slices.
    for pieces in [("nvidia.com/mig-4g.40gb", 2), ("nvidia.com/mig-3g.40gb", 3)] {
        assert_eq!(cut(&[pieces], &one[1..]).len(), 2, "{pieces:?}");
    }
    // The same name is another part of a smaller board.
    let small = [("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-40GB")];
    assert_eq!(cut(&[("nvidia.com/mig-1g.10gb", 4)], &small).len(), 1);
    assert_eq!(cut(&[("nvidia.com/mig-1g.10gb", 7)], &small).len(), 2);
}

#[test]
fn what_fits_on_no_gpu_is_shown_all_the_same() {
    let one = [
        ("nvidia.com/gpu.count", "1"),
        ("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-80GB"),
    ];
    assert_eq!(cut(&[("nvidia.com/mig-3g.40gb", 3)], &one)[0].len(), 3);
    assert_eq!(cut(&[("nvidia.com/mig-9q.strange", 2)], &one)[0].len(), 2);
}

#[test]
fn gpus_that_are_offered_whole_stay_whole() {
    let capacity = [("nvidia.com/gpu", 4), ("nvidia.com/mig-1g.10gb", 28)];
    let labels = [("nvidia.com/gpu.count", "8")];
    let sizes: Vec<usize> = cut(&capacity, &labels).iter().map(Vec::len).collect();
    assert_eq!(sizes, [0, 0, 0, 0, 7, 7, 7, 7]);
}

fn row(device: u32, slice: &str, util: f64, holder: Option<&str>) -> Reading {
    let mut row = reading(device, util, holder);
    row.scope = ReadingScope::Slice;
    row.slice = Some(Name::new(slice));
    row
}

/// Under the single strategy the plain resource is one instance, for the exporter's pass as for the count.
#[test]
fn a_pod_that_asks_for_one_instance_holds_one() {
    let mut ledger = fold([
        node(
            "a",
            &[("nvidia.com/gpu", 7)],
            &[
                ("nvidia.com/gpu.count", "7"),
                (
                    "nvidia.com/gpu.product",
                    "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb",
                ),
                ("nvidia.com/mig.strategy", "single"),
            ],
        ),
        pod("p", Some("a"), &[("nvidia.com/gpu", 1)]),
        pod("q", Some("a"), &[("nvidia.com/gpu", 1)]),
        page(
            "a",
            NOW,
            (7..14)
                .map(|id| row(0, &format!("1g.10gb-{id}"), 0.885, (id == 9).then_some("p")))
                .collect(),
        ),
    ]);
    let fleet = ledger.publish(NOW);
    let devices = &fleet.node("a").expect("there").devices;
    assert_eq!((devices.len(), devices[0].slices.len()), (1, 7));
    let held: Vec<(&str, &str, Attribution)> = devices[0]
        .slices
        .iter()
        .filter_map(|slice| {
            let pod = slice.holder.as_ref()?;
            Some((
                slice.name.as_str(),
                pod.key().name.as_str(),
                slice.attribution,
            ))
        })
        .collect();
    assert_eq!(
        held,
        [
            ("1g.10gb-10", "q", Attribution::Counted),
            ("1g.10gb-9", "p", Attribution::Exporter),
        ]
    );
    for job in fleet.jobs.iter() {
        assert_eq!(job.devices_allocated, 1, "{:?}", job.id.key);
    }
    assert_eq!(devices[0].slices[0].signals.get(Signal::Util), Some(0.885));
}

/// An id from the API is one of the pod's requested devices, not an additional one.
#[test]
fn an_id_that_the_api_gives_is_counted_once() {
    let mut seen = pod_seen("p", Some("a"), &[("nvidia.com/mig-1g.10gb", 1)]);
    seen.claimed = vec![model::fleet::seen::Claimed::Id(Name::new("GPU-0"))];
    let mut ledger = fold([
        node(
            "a",
            &[("nvidia.com/mig-1g.10gb", 2), ("nvidia.com/mig-3g.40gb", 1)],
            &[("nvidia.com/gpu.count", "1")],
        ),
        Observation::Pod(Box::new(seen)),
        page("a", NOW, vec![reading(0, 0.5, None)]),
    ]);
    let fleet = ledger.publish(NOW);
    let held: Vec<_> = fleet.node("a").expect("there").devices[0]
        .holders()
        .collect();
    assert_eq!(held.len(), 1);
    assert_eq!(held[0].1, Attribution::Claim);
}

#[test]
fn instances_that_are_time_sliced_are_shown_with_their_shares() {
    let mut ledger = fold([
        node(
            "a",
            &[("nvidia.com/mig-1g.10gb.shared", 28)],
            &[
                ("nvidia.com/gpu.count", "2"),
                ("nvidia.com/mig-1g.10gb.count", "14"),
                ("nvidia.com/mig-1g.10gb.replicas", "2"),
            ],
        ),
        pod("p", Some("a"), &[("nvidia.com/mig-1g.10gb.shared", 1)]),
    ]);
    let fleet = ledger.publish(NOW);
    let node = fleet.node("a").expect("there");
    let sizes: Vec<usize> = node
        .devices
        .iter()
        .map(|device| device.slices.len())
        .collect();
    assert_eq!(sizes, [14, 14]);
    assert_eq!(fleet.jobs[0].devices_allocated, 1);
}

#[test]
fn the_class_of_a_node_is_known_without_an_exporter() {
    let machine = "node.kubernetes.io/instance-type";
    for (resource, labels, vendor, class) in [
        (
            "aws.amazon.com/neurondevice",
            &[(machine, "trn2.48xlarge")],
            "aws",
            "Trainium2",
        ),
        (
            "aws.amazon.com/neuron",
            &[(machine, "inf2.48xlarge")],
            "aws",
            "Inferentia2",
        ),
        (
            "gpu.intel.com/i915",
            &[("gpu.intel.com/device-id.0300-56c0.present", "true")],
            "intel",
            "Flex-170",
        ),
        (
            "habana.ai/gaudi",
            &[(machine, "dl1.24xlarge")],
            "intel",
            "Gaudi",
        ),
        (
            "habana.ai/gaudi",
            &[(machine, "gx3d-160x1792x8gaudi3")],
            "intel",
            "Gaudi3",
        ),
        ("furiosa.ai/rngd", &[(machine, "")], "furiosa", "unknown"),
        (
            "huawei.com/Ascend910",
            &[(machine, "")],
            "huawei",
            "unknown",
        ),
        (
            "cambricon.com/mlu370",
            &[(machine, "")],
            "cambricon",
            "unknown",
        ),
        ("metax-tech.com/gpu", &[(machine, "")], "metax", "unknown"),
        (
            "rebellions.ai/ATOM",
            &[(machine, "")],
            "rebellions",
            "unknown",
        ),
    ] {
        let mut ledger = fold([node("a", &[(resource, 16)], labels)]);
        let fleet = ledger.publish(NOW);
        let devices = &fleet.node("a").expect("there").devices;
        assert_eq!(devices.len(), 16, "{resource}");
        let first = &devices[0];
        assert_eq!(
            (first.vendor.name(), first.class.as_str()),
            (vendor, class),
            "{resource}"
        );
    }
}
