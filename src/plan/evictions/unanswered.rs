//! Nodes whose kubelet does not answer: pods that are evicted there do not end.

use std::collections::BTreeSet;

use engine::snapshot::Snapshot;
use model::base::Name;

use crate::planner_context::seated;

/// Warnings about those of these nodes that are not ready and have pods with devices.
pub(crate) fn words(snapshot: &Snapshot, nodes: &BTreeSet<&Name>) -> Vec<String> {
    let has_pods = |node: &Name| {
        let mut all = snapshot.workloads.iter().flat_map(seated);
        all.any(|(_, pod)| pod.node == *node)
    };
    let all = snapshot.nodes.iter();
    all.filter(|node| !node.ready && nodes.contains(&node.name) && has_pods(&node.name))
        .map(|node| {
            format!(
                "{} is not ready: its pods end only once its kubelet answers again, or when they are deleted by force",
                node.name
            )
        })
        .collect()
}
