//! Resolves places that an operator names into nodes: a node, a pool, a rack or another level of the topology.

use std::collections::BTreeSet;

use engine::snapshot::Snapshot;
use model::base::Name;
use model::base::document::nearest;
use model::plan::{Refusal, RefusalCode};

/// Label keys of short names.
const LABELS: [(&str, &str); 3] = [
    ("zone", "topology.kubernetes.io/zone"),
    ("region", "topology.kubernetes.io/region"),
    ("host", "kubernetes.io/hostname"),
];

/// The refusal for an unknown node, with the nearest name.
pub(super) fn no_node(snapshot: &Snapshot, name: &str) -> Refusal {
    let all = snapshot.nodes.iter().map(|node| node.name.as_str());
    let sentence = match nearest(name, all) {
        Some(near) => format!("there is no node `{name}`; did you mean `{near}`?"),
        None => format!("there is no node `{name}`"),
    };
    Refusal::new(RefusalCode::NotFound, sentence)
        .instead("`get nodes` lists the nodes; `pool/NAME` and `rack/NAME` name several")
}

/// The nodes of a place: `NODE`, `node/NAME`, `pool/NAME`, `rack/NAME`, `zone/NAME`, or any level of the topology, by name.
///
/// # Errors
/// There is no such node, or the place has none.
pub fn nodes(snapshot: &Snapshot, place: &str) -> Result<Vec<Name>, Refusal> {
    let (what, name) = place.split_once('/').unwrap_or(("node", place));
    if what == "node" {
        let found = snapshot.nodes.iter().find(|node| &*node.name == name);
        let node = found.ok_or_else(|| no_node(snapshot, name))?;
        return Ok(vec![node.name.clone()]);
    }
    let label = LABELS.iter().find(|(word, _)| *word == what);
    let label = label.map_or(what, |(_, key)| *key);
    let values: Vec<(&Name, Option<&Name>)> = snapshot
        .nodes
        .iter()
        .map(|node| {
            let level = || {
                let at = node.topology.iter().find(|(level, _)| &**level == what);
                at.map(|(_, value)| value)
            };
            let value = match what {
                "pool" => Some(&node.pool),
                _ => level().or_else(|| {
                    let found = node.labels.iter().find(|(key, _)| &***key == label);
                    found.map(|(_, value)| value)
                }),
            };
            (&node.name, value)
        })
        .collect();
    let found: Vec<Name> = values
        .iter()
        .filter(|(_, value)| value.is_some_and(|value| &**value == name))
        .map(|(node, _)| (*node).clone())
        .collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let known: BTreeSet<&str> = values
        .iter()
        .filter_map(|(_, value)| Some(value.as_ref()?.as_str()))
        .collect();
    let sentence = match nearest(name, known) {
        Some(near) => format!("there is no {what} `{name}`; did you mean `{what}/{near}`?"),
        None => format!("there is no {what} `{name}`"),
    };
    Err(Refusal::new(RefusalCode::NotFound, sentence)
        .instead("`get nodes -o wide` shows pools, zones and racks"))
}
