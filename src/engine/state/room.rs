//! Nodes of a state, grouped by their condition.

use std::collections::BTreeSet;

use crate::engine::plant::{NodeId, Plant, Site};

use super::condition::Memo;
use super::{Occupancy, Seat};

/// A node of a state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room {
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
    /// Its condition.
    pub(super) condition: u32,
}

impl Occupancy {
    pub(super) fn add_room(&mut self, plant: &Plant, memo: &mut Memo, origin: NodeId, site: Site) {
        let shape = &plant.makes[site.make];
        let begin = self.left.len();
        self.left.extend(std::iter::repeat_n(
            crate::engine::model::WHOLE,
            shape.units.len(),
        ));
        let (cpu, memory) = (shape.cpu, shape.memory);
        let condition = memo.condition(site.make, shape, cpu, memory, &self.left[begin..]);
        self.widen(memo.len());
        self.rooms.push(Room {
            origin,
            make: site.make,
            cpu,
            memory,
            open: site.open,
            begin,
            condition,
        });
        self.join(memo, self.rooms.len() - 1, condition);
    }

    /// Takes the last node away.
    pub(super) fn drop_room(&mut self) {
        if let Some(room) = self.rooms.pop() {
            // Nobody sits on a node that is taken away: all that was done on it was undone before.
            let group = &mut self.groups[room.condition as usize];
            group.remove(&(self.rooms.len() as u32));
            if group.is_empty() {
                self.bury(room.condition);
            }
            self.left.truncate(room.begin);
        }
    }

    /// Makes place for conditions that became known.
    pub(super) fn widen(&mut self, conditions: usize) {
        if self.groups.len() < conditions {
            self.groups.resize_with(conditions, BTreeSet::new);
        }
    }

    fn join(&mut self, memo: &Memo, node: NodeId, condition: u32) {
        let group = &mut self.groups[condition as usize];
        if group.is_empty() {
            self.live.insert(condition);
            for &(resource, whole) in &memo.holds[condition as usize] {
                let buckets = &mut self.buckets[resource];
                if buckets.len() <= whole {
                    buckets.resize_with(whole + 1, BTreeSet::new);
                }
                buckets[whole].insert(condition);
            }
        }
        group.insert(node as u32);
    }

    fn bury(&mut self, condition: u32) {
        self.live.remove(&condition);
        for buckets in &mut self.buckets {
            for bucket in buckets {
                bucket.remove(&condition);
            }
        }
    }

    fn leave(&mut self, memo: &Memo, node: NodeId, condition: u32) {
        let group = &mut self.groups[condition as usize];
        group.remove(&(node as u32));
        if group.is_empty() {
            self.live.remove(&condition);
            for &(resource, whole) in &memo.holds[condition as usize] {
                self.buckets[resource][whole].remove(&condition);
            }
        }
    }

    /// Takes (`sign` 1) or gives back (-1) what a pod holds on a node.
    pub(super) fn apply(
        &mut self,
        plant: &Plant,
        memo: &mut Memo,
        seat: &Seat,
        (cpu, bytes): (i64, i64),
        sign: i64,
    ) {
        let room = &mut self.rooms[seat.node];
        room.cpu -= cpu;
        room.memory -= bytes;
        let shape = &plant.makes[room.make];
        let left = &mut self.left[room.begin..room.begin + shape.units.len()];
        for &(unit, milli) in seat.grips.iter() {
            left[unit as usize] -= milli * if sign > 0 { 1 } else { -1 };
        }
        let after = memo.condition(room.make, shape, room.cpu, room.memory, left);
        let before = std::mem::replace(&mut room.condition, after);
        if before != after {
            self.widen(memo.len());
            self.leave(memo, seat.node, before);
            self.join(memo, seat.node, after);
        }
    }
}
