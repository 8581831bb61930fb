//! Node affinity that keeps pods on the nodes of a flavor.

use cluster::mutations::NodeRule;
use engine::live::CLASS;
use engine::snapshot::{Snapshot, SnapshotFlavor, SnapshotNode};
use model::base::Name;

/// Labels that distinguish devices, the most specific first; then those that distinguish machines.
const LABELS: &[&str] = &[
    "nvidia.com/gpu.product",
    "amd.com/gpu.product-name",
    "cloud.google.com/gke-accelerator",
    "cloud.google.com/gke-tpu-accelerator",
    "node.kubernetes.io/instance-type",
    "stokehold.dev/pool",
];

/// Most values of a rule.
const MOST: usize = 32;

fn is_of(node: &SnapshotNode, flavor: &SnapshotFlavor) -> bool {
    let carried = |(key, value): (&Name, &Name)| node.labels.get(key) == Some(value);
    flavor.labels.iter().all(carried)
}

/// The node affinity that keeps pods on the nodes of a flavor. `None` where none is needed: all nodes with devices have the flavor, or
/// the flavor is defined by labels other than the device class (those of Kueue). Also `None` where no label distinguishes its nodes.
pub(super) fn node_rule(snapshot: &Snapshot, flavor: &str) -> Option<NodeRule> {
    let flavor = snapshot.flavors.iter().find(|it| &*it.name == flavor)?;
    if flavor.labels.keys().any(|key| &**key != CLASS) {
        let (label, value) = flavor.labels.iter().find(|(key, _)| &***key != CLASS)?;
        return Some(NodeRule {
            label: label.to_string(),
            values: vec![value.to_string()],
        });
    }
    let with_devices = || {
        snapshot
            .nodes
            .iter()
            .filter(|node| !node.devices.is_empty())
    };
    let (own, others): (Vec<&SnapshotNode>, Vec<&SnapshotNode>) =
        with_devices().partition(|node| is_of(node, flavor));
    if own.is_empty() || others.is_empty() {
        return None;
    }
    LABELS.iter().find_map(|label| {
        let mut values: Vec<&Name> = Vec::new();
        for node in &own {
            values.push(node.labels.get(*label)?);
        }
        values.sort_unstable();
        values.dedup();
        let elsewhere = |node: &&SnapshotNode| {
            let there = node.labels.get(*label);
            there.is_some_and(|there| values.contains(&there))
        };
        let is_exact = values.len() <= MOST && !others.iter().any(elsewhere);
        is_exact.then(|| NodeRule {
            label: (*label).to_owned(),
            values: values.iter().map(ToString::to_string).collect(),
        })
    })
}
