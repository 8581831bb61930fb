//! How a kind of pod would do on all nodes that it may use, kept up to date: rooms, their sums by domain, and nodes by cost.
//! A view is worked out once and then follows the list of nodes that changed, so that a decision costs what changed since
//! the last one like it, and not the size of the fleet. It is a function of what is used: dropping one changes no answer.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use crate::engine::fit::Gate;
use crate::engine::plant::{NodeId, Plant};

use super::condition::Memo;
use super::room::Room;
use super::{Occupancy, State};

/// Most views that are kept.
const MOST: usize = 512;

/// The condition of a node that is closed, or not for these pods.
const NONE: u32 = u32::MAX;

/// Rooms of as many pods and more are counted as one.
const WIDE: usize = 31;

/// What is asked, index of the gate, and whether nodes that are kept for others are left out.
type Key = (usize, u32, bool);

/// The views of what is used. A copy begins without any.
#[derive(Default, Debug)]
pub(super) struct Views(FxHashMap<Key, Box<View>>);

impl Clone for Views {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// One view.
#[derive(Default, Debug)]
pub(in crate::engine) struct View {
    key: Key,
    era: u64,
    seen: usize,
    /// Per node: the condition that it was seen in.
    conditions: Vec<u32>,
    /// Pods for which there is room anywhere.
    pub(in crate::engine) total: u64,
    /// How many nodes have room for so many pods.
    widths: [u32; WIDE + 1],
    /// Per ladder that was asked for: pods for which each domain has room.
    sums: Vec<(usize, Vec<u64>)>,
    /// Nodes with room, the cheapest first; only once it was asked for.
    order: Option<BTreeSet<((i64, i64), u32)>>,
}

impl View {
    /// Pods for which each domain of a ladder has room; the ladder must have been asked for.
    pub(in crate::engine) fn sums(&self, ladder: usize) -> &[u64] {
        let found = self.sums.iter().find(|(at, _)| *at == ladder);
        found.map_or(&[], |(_, sums)| sums)
    }

    /// Whether some node may have room for so many.
    pub(in crate::engine) fn may_hold(&self, pods: u32) -> bool {
        let from = (pods as usize).min(WIDE);
        self.widths[from..].iter().any(|nodes| *nodes > 0)
    }

    /// Nodes with room, the cheapest first; the order must have been asked for.
    pub(in crate::engine) fn order(&self) -> impl Iterator<Item = NodeId> + '_ {
        let all = self.order.iter().flatten();
        all.map(|(_, node)| *node as NodeId)
    }

    /// Makes the view of all nodes as they are.
    fn build(&mut self, occupancy: &mut Occupancy, memo: &mut Memo, plant: &Plant, gate: &Gate) {
        let ladders: Vec<usize> = self.sums.iter().map(|(ladder, _)| *ladder).collect();
        let ordered = self.order.is_some();
        *self = Self {
            key: self.key,
            era: occupancy.era,
            seen: occupancy.changed.len(),
            conditions: Vec::with_capacity(occupancy.rooms.len()),
            ..Self::default()
        };
        for node in 0..occupancy.rooms.len() {
            let condition = self.now(occupancy, memo, plant, gate, node);
            self.conditions.push(condition);
            let room = self.room_in(memo, plant, condition);
            self.total += u64::from(room);
            self.widths[(room as usize).min(WIDE)] += 1;
        }
        for ladder in ladders {
            self.add_ladder(occupancy, memo, plant, ladder);
        }
        if ordered {
            self.add_order(memo, plant);
        }
    }

    /// The condition of a node now, for these pods.
    fn now(
        &self,
        occupancy: &mut Occupancy,
        memo: &mut Memo,
        plant: &Plant,
        gate: &Gate,
        node: NodeId,
    ) -> u32 {
        let room: &Room = &occupancy.rooms[node];
        let shut = !room.open || !gate[plant.makes[room.make].zone];
        if shut || self.key.2 && occupancy.kept.contains(&node) {
            return NONE;
        }
        occupancy.condition(plant, memo, node)
    }

    fn room_in(&self, memo: &mut Memo, plant: &Plant, condition: u32) -> u32 {
        match condition {
            NONE => 0,
            condition => memo.look(plant, self.key.0, condition).room,
        }
    }

    fn add_ladder(&mut self, occupancy: &Occupancy, memo: &mut Memo, plant: &Plant, at: usize) {
        let ladder = &plant.ladders[at];
        let mut sums = vec![0; ladder.domains.len()];
        for (node, &condition) in self.conditions.iter().enumerate() {
            let room = u64::from(self.room_in(memo, plant, condition));
            if room > 0 {
                for &domain in &ladder.paths[occupancy.rooms[node].origin] {
                    sums[domain] += room;
                }
            }
        }
        self.sums.push((at, sums));
    }

    fn add_order(&mut self, memo: &mut Memo, plant: &Plant) {
        let mut all = Vec::new();
        for (node, &condition) in self.conditions.iter().enumerate() {
            if condition != NONE {
                let look = memo.look(plant, self.key.0, condition);
                if look.room > 0 {
                    all.push((look.cost, node as u32));
                }
            }
        }
        self.order = Some(all.into_iter().collect());
    }

    /// Follows one node.
    fn follow(
        &mut self,
        occupancy: &mut Occupancy,
        memo: &mut Memo,
        plant: &Plant,
        gate: &Gate,
        node: NodeId,
    ) {
        let after = self.now(occupancy, memo, plant, gate, node);
        let before = std::mem::replace(&mut self.conditions[node], after);
        if before == after {
            return;
        }
        let had = self.room_in(memo, plant, before);
        let has = self.room_in(memo, plant, after);
        if had != has {
            self.total = self.total - u64::from(had) + u64::from(has);
            self.widths[(had as usize).min(WIDE)] -= 1;
            self.widths[(has as usize).min(WIDE)] += 1;
            for (at, sums) in &mut self.sums {
                for &domain in &plant.ladders[*at].paths[occupancy.rooms[node].origin] {
                    sums[domain] = sums[domain] - u64::from(had) + u64::from(has);
                }
            }
        }
        if let Some(order) = &mut self.order {
            if had > 0 {
                order.remove(&(memo.look(plant, self.key.0, before).cost, node as u32));
            }
            if has > 0 {
                order.insert((memo.look(plant, self.key.0, after).cost, node as u32));
            }
        }
    }
}

impl State<'_> {
    /// The view of a kind of pod through a gate, up to date, to be given back by [`State::give_view`].
    pub(in crate::engine) fn take_view(
        &mut self,
        want: usize,
        gate: &Gate,
        ladder: Option<usize>,
        ordered: bool,
    ) -> Box<View> {
        let Self {
            plant,
            memo,
            occupancy,
            ..
        } = self;
        let key = (want, gate.id, occupancy.beside);
        let known = occupancy.views.0.remove(&key);
        let mut view = known.unwrap_or_else(|| {
            Box::new(View {
                key,
                era: u64::MAX,
                ..View::default()
            })
        });
        let nodes = occupancy.rooms.len();
        let stale = view.era != occupancy.era
            || view.conditions.len() != nodes
            || occupancy.changed.len() - view.seen > nodes;
        if stale {
            view.build(occupancy, memo, plant, gate);
        }
        while view.seen < occupancy.changed.len() {
            let node = occupancy.changed[view.seen] as NodeId;
            view.seen += 1;
            view.follow(occupancy, memo, plant, gate, node);
        }
        if let Some(ladder) = ladder
            && !view.sums.iter().any(|(at, _)| *at == ladder)
        {
            view.add_ladder(occupancy, memo, plant, ladder);
        }
        if ordered && view.order.is_none() {
            view.add_order(memo, plant);
        }
        view
    }

    /// Gives a view back.
    pub(in crate::engine) fn give_view(&mut self, view: Box<View>) {
        let views = &mut self.occupancy.views.0;
        if views.len() >= MOST {
            views.clear();
        }
        views.insert(view.key, view);
    }
}
