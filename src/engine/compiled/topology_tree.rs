//! Topologies: nested domains, from wide to narrow, and their nodes.

use std::collections::BTreeMap;

use crate::snapshot::{Snapshot, SnapshotNode};
use model::base::Name;

use super::NodeId;

/// Nodes that share a value at a level and at all levels above.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TopologyDomain {
    /// Index of its level in [`TopologyTree::levels`].
    pub level: usize,
    /// Value, such as the name of the rack.
    pub value: Name,
    pub parent: Option<usize>,
    pub children: Vec<usize>,
    /// All its nodes, in order.
    pub nodes: Vec<NodeId>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TopologyTree {
    /// Name; empty for the topology of the nodes' own positions.
    pub name: Name,
    /// Levels, in the order of first mention.
    pub levels: Vec<Name>,
    /// Domains; parents before children.
    pub domains: Vec<TopologyDomain>,
    /// Per node: its domains, from wide to narrow.
    pub paths: Vec<Vec<usize>>,
}

impl TopologyTree {
    pub fn level(&self, name: &str) -> Option<usize> {
        self.levels.iter().position(|level| &**level == name)
    }

    /// Number of domains around one.
    pub fn depth(&self, domain: usize) -> usize {
        std::iter::successors(self.domains[domain].parent, |&up| self.domains[up].parent).count()
    }

    pub fn domain_of(&self, node: NodeId, level: usize) -> Option<usize> {
        let path = self.paths.get(node)?;
        path.iter()
            .copied()
            .find(|&domain| self.domains[domain].level == level)
    }

    /// Builds a topology from each node's position.
    fn new<'a>(
        name: Name,
        nodes: &'a [SnapshotNode],
        place: impl Fn(&'a SnapshotNode) -> Vec<(&'a Name, &'a Name)>,
    ) -> Self {
        let mut ladder = Self {
            name,
            ..Self::default()
        };
        let mut known: BTreeMap<(Option<usize>, usize, &Name), usize> = BTreeMap::new();
        for (id, node) in nodes.iter().enumerate() {
            let mut path: Vec<usize> = Vec::new();
            for (level, value) in place(node) {
                let level = ladder.level(level).unwrap_or_else(|| {
                    ladder.levels.push(level.clone());
                    ladder.levels.len() - 1
                });
                let parent = path.last().copied();
                let domain = *known.entry((parent, level, value)).or_insert_with(|| {
                    let domain = ladder.domains.len();
                    ladder.domains.push(TopologyDomain {
                        level,
                        value: value.clone(),
                        parent,
                        children: Vec::new(),
                        nodes: Vec::new(),
                    });
                    if let Some(parent) = parent {
                        ladder.domains[parent].children.push(domain);
                    }
                    domain
                });
                ladder.domains[domain].nodes.push(id);
                path.push(domain);
            }
            ladder.paths.push(path);
        }
        ladder
    }
}

/// Builds a topology from label keys; a node that lacks a label belongs to the levels above it only.
pub(super) fn of_labels(name: Name, keys: &[Name], nodes: &[SnapshotNode]) -> TopologyTree {
    TopologyTree::new(name, nodes, |node| {
        keys.iter()
            .map_while(|key| node.labels.get_key_value(key))
            .collect()
    })
}

pub(super) fn compile(snapshot: &Snapshot) -> Vec<TopologyTree> {
    let own = TopologyTree::new(Name::default(), &snapshot.nodes, |node| {
        node.topology
            .iter()
            .map(|(level, value)| (level, value))
            .collect()
    });
    let labelled = snapshot
        .topologies
        .iter()
        .map(|topology| of_labels(topology.name.clone(), &topology.levels, &snapshot.nodes));
    std::iter::once(own).chain(labelled).collect()
}
