//! Nodes of a state and the log of their changes.

use crate::compiled::{CompiledFleet, CompiledNode, NodeId};

use super::condition::Memo;
use super::{Occupancy, PodPlacement};

/// Marks a condition that has to be computed.
const UNKNOWN: u32 = u32::MAX;

/// Log of node changes; views follow it.
#[derive(Clone, Default, Debug)]
pub(super) struct NodeChangeLog {
    pub(super) count: u64,
    /// Per node: number of its last change.
    pub(super) last: Vec<u64>,
    /// The same per stretch of nodes.
    pub(super) stretches: Vec<u64>,
    /// Nodes of the latest changes, in order.
    list: Vec<u32>,
}

impl NodeChangeLog {
    /// Number of nodes in a stretch.
    pub(super) const STRETCH: usize = 32;

    /// Changes are followed one by one if there are fewer than one in this many nodes; otherwise all nodes are checked.
    const EACH: usize = 32;

    fn add_node(&mut self) {
        self.last.push(0);
        let stretches = self.last.len().div_ceil(Self::STRETCH);
        self.stretches.resize(stretches, 0);
        self.add(self.last.len() - 1);
    }

    fn drop_node(&mut self) {
        self.last.pop();
        let stretches = self.last.len().div_ceil(Self::STRETCH);
        self.stretches.truncate(stretches);
        self.list.clear();
    }

    /// Records a change of a node.
    pub(super) fn add(&mut self, node: NodeId) {
        self.count += 1;
        self.last[node] = self.count;
        self.stretches[node / Self::STRETCH] = self.count;
        if self.list.len() > self.last.len() {
            self.list.clear();
        }
        self.list.push(node as u32);
    }

    /// Nodes that changed after the first `seen` changes, possibly repeated; none if the list is too long.
    pub(super) fn since(&self, seen: u64) -> Option<&[u32]> {
        let behind = usize::try_from(self.count - seen).unwrap_or(usize::MAX);
        let few = behind <= self.list.len() && behind <= self.last.len() / Self::EACH + 16;
        few.then(|| &self.list[self.list.len() - behind..])
    }
}

/// A node of a state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeFree {
    /// The snapshot's node, or the one that a hypothetical node copies.
    pub origin: NodeId,
    pub node_shape: usize,
    /// Free CPU, in thousandths of a core; negative if overcommitted.
    pub cpu: i64,
    /// Free memory, in bytes.
    pub memory: i64,
    /// Whether it takes new pods.
    pub open: bool,
    /// Index of its first unit in the list of free units.
    pub(super) begin: usize,
    /// Its condition, once computed.
    pub(super) condition: u32,
}

impl Occupancy {
    pub(super) fn add_room(
        &mut self,
        compiled: &CompiledFleet,
        origin: NodeId,
        site: CompiledNode,
    ) {
        let shape = &compiled.node_shapes[site.node_shape];
        let begin = self.left.len();
        self.left.extend(std::iter::repeat_n(
            crate::snapshot::WHOLE,
            shape.units.len(),
        ));
        self.nodes.push(NodeFree {
            origin,
            node_shape: site.node_shape,
            cpu: shape.cpu,
            memory: shape.memory,
            open: site.open,
            begin,
            condition: UNKNOWN,
        });
        self.changes.add_node();
    }

    /// Removes the last node. It has no pods: all changes on it were undone before.
    pub(super) fn drop_room(&mut self) {
        if let Some(room) = self.nodes.pop() {
            self.left.truncate(room.begin);
            self.changes.drop_node();
        }
    }

    /// The condition of a node.
    pub(super) fn condition(
        &mut self,
        compiled: &CompiledFleet,
        memo: &mut Memo,
        node: NodeId,
    ) -> u32 {
        let room = &mut self.nodes[node];
        if room.condition == UNKNOWN {
            let shape = &compiled.node_shapes[room.node_shape];
            let left = &self.left[room.begin..room.begin + shape.units.len()];
            room.condition = memo.condition(room.node_shape, shape, room.cpu, room.memory, left);
        }
        room.condition
    }

    /// Takes (`sign` 1) or releases (-1) a pod's resources on a node. Returns the previous condition, if known.
    pub(super) fn apply(
        &mut self,
        compiled: &CompiledFleet,
        placement: &PodPlacement,
        (cpu, bytes): (i64, i64),
        sign: i64,
    ) -> u32 {
        let room = &mut self.nodes[placement.node];
        room.cpu -= cpu;
        room.memory -= bytes;
        let shape = &compiled.node_shapes[room.node_shape];
        let left = &mut self.left[room.begin..room.begin + shape.units.len()];
        for &(unit, milli) in placement.units.iter() {
            left[unit as usize] -= milli * if sign > 0 { 1 } else { -1 };
        }
        let before = std::mem::replace(&mut room.condition, UNKNOWN);
        self.changes.add(placement.node);
        before
    }

    /// Restores an earlier condition of a node whose free resources are the same again.
    pub(super) fn recall(&mut self, node: NodeId, condition: u32) {
        self.nodes[node].condition = condition;
    }
}
