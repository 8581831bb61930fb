//! Nodes of a state.

use crate::compiled::{CompiledFleet, CompiledNode, NodeId};

use super::condition::Memo;
use super::{Occupancy, PodPlacement};

/// A condition that is to be worked out.
const UNKNOWN: u32 = u32::MAX;

/// Which nodes changed when; views follow that.
#[derive(Clone, Default, Debug)]
pub(super) struct Changes {
    /// How many there were.
    pub(super) count: u64,
    /// Per node: the last of them that was its.
    pub(super) last: Vec<u64>,
    /// The same for every stretch of nodes.
    pub(super) stretches: Vec<u64>,
    /// The nodes of the latest of them, in order.
    list: Vec<u32>,
}

impl Changes {
    /// Nodes of a stretch.
    pub(super) const STRETCH: usize = 32;

    /// Fewer changes than a node in so many are gone through one by one; for more the nodes themselves are.
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

    /// Something about a node changed.
    pub(super) fn add(&mut self, node: NodeId) {
        self.count += 1;
        self.last[node] = self.count;
        self.stretches[node / Self::STRETCH] = self.count;
        if self.list.len() > self.last.len() {
            self.list.clear();
        }
        self.list.push(node as u32);
    }

    /// Nodes that changed after so many changes, some of them perhaps several times; nothing where that is a long list.
    pub(super) fn since(&self, seen: u64) -> Option<&[u32]> {
        let behind = usize::try_from(self.count - seen).unwrap_or(usize::MAX);
        let few = behind <= self.list.len() && behind <= self.last.len() / Self::EACH + 16;
        few.then(|| &self.list[self.list.len() - behind..])
    }
}

/// A node of a state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeFree {
    /// The node of the snapshot that it is, or that it is like.
    pub origin: NodeId,
    /// Its shape.
    pub make: usize,
    /// CPU left, in thousandths of a core; below nothing where more is in use than there is.
    pub cpu: i64,
    /// Memory left, in bytes.
    pub memory: i64,
    /// New pods may be placed on it.
    pub open: bool,
    /// Where its units begin in the list of what is left.
    pub(super) begin: usize,
    /// Its condition, once somebody asked.
    pub(super) condition: u32,
}

impl Occupancy {
    pub(super) fn add_room(
        &mut self,
        compiled: &CompiledFleet,
        origin: NodeId,
        site: CompiledNode,
    ) {
        let shape = &compiled.makes[site.make];
        let begin = self.left.len();
        self.left.extend(std::iter::repeat_n(
            crate::snapshot::WHOLE,
            shape.units.len(),
        ));
        self.rooms.push(NodeFree {
            origin,
            make: site.make,
            cpu: shape.cpu,
            memory: shape.memory,
            open: site.open,
            begin,
            condition: UNKNOWN,
        });
        self.changes.add_node();
    }

    /// Takes the last node away. Nobody sits on it: all that was done on it was undone before.
    pub(super) fn drop_room(&mut self) {
        if let Some(room) = self.rooms.pop() {
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
        let room = &mut self.rooms[node];
        if room.condition == UNKNOWN {
            let shape = &compiled.makes[room.make];
            let left = &self.left[room.begin..room.begin + shape.units.len()];
            room.condition = memo.condition(room.make, shape, room.cpu, room.memory, left);
        }
        room.condition
    }

    /// Takes (`sign` 1) or gives back (-1) what a pod holds on a node. Gives the condition before, if it was known.
    pub(super) fn apply(
        &mut self,
        compiled: &CompiledFleet,
        placement: &PodPlacement,
        (cpu, bytes): (i64, i64),
        sign: i64,
    ) -> u32 {
        let room = &mut self.rooms[placement.node];
        room.cpu -= cpu;
        room.memory -= bytes;
        let shape = &compiled.makes[room.make];
        let left = &mut self.left[room.begin..room.begin + shape.units.len()];
        for &(unit, milli) in placement.grips.iter() {
            left[unit as usize] -= milli * if sign > 0 { 1 } else { -1 };
        }
        let before = std::mem::replace(&mut room.condition, UNKNOWN);
        self.changes.add(placement.node);
        before
    }

    /// Says what the condition of a node is, which is as it was when that was worked out.
    pub(super) fn recall(&mut self, node: NodeId, condition: u32) {
        self.rooms[node].condition = condition;
    }
}
