//! How a kind of pod would do on all nodes that it may use, kept up to date: rooms, their sums by domain, and nodes by cost.
//! A view is worked out once and then follows the list of nodes that changed, so that a decision costs what changed since
//! the last one like it, and not the size of the fleet. It is a function of what is used: dropping one changes no answer.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use crate::compiled::{CompiledFleet, NodeId};
use crate::fit::Gate;

use super::condition::Memo;
use super::node_free::{Changes, NodeFree};
use super::{Occupancy, State};

/// Most views that are kept.
const MOST: usize = 512;

/// The condition of a node that is closed.
const NONE: u32 = u32::MAX;

/// The condition of a node that is never for these pods. This and the one before stand for no room.
const NEVER: u32 = u32::MAX - 1;

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
pub(crate) struct View {
    key: Key,
    /// After how many changes it was last brought up to date.
    seen: u64,
    /// Per node: the condition that it was seen in.
    conditions: Vec<u32>,
    /// Of nodes that are only supposed: which they are like.
    supposed: Vec<NodeId>,
    /// Stretches with nodes of which some may be for these pods.
    stretches: Vec<usize>,
    /// Pods for which there is room anywhere.
    pub(crate) total: u64,
    /// How many nodes have room for so many pods.
    widths: [u32; WIDE + 1],
    /// Per ladder that was asked for: pods for which each domain has room.
    sums: Vec<(usize, Vec<u64>)>,
    /// Nodes with room, the cheapest first; only once it was asked for.
    order: Option<BTreeSet<((i64, i64), u32)>>,
}

impl View {
    /// Pods for which each domain of a ladder has room; the ladder must have been asked for.
    pub(crate) fn sums(&self, ladder: usize) -> &[u64] {
        let found = self.sums.iter().find(|(at, _)| *at == ladder);
        found.map_or(&[], |(_, sums)| sums)
    }

    /// Whether some node may have room for so many.
    pub(crate) fn may_hold(&self, pods: u32) -> bool {
        let from = (pods as usize).min(WIDE);
        self.widths[from..].iter().any(|nodes| *nodes > 0)
    }

    /// Nodes with room, the cheapest first; the order must have been asked for.
    pub(crate) fn order(&self) -> impl Iterator<Item = NodeId> + '_ {
        let all = self.order.iter().flatten();
        all.map(|(_, node)| *node as NodeId)
    }

    /// The view of all nodes as they are.
    fn build(
        key: Key,
        occupancy: &mut Occupancy,
        memo: &mut Memo,
        compiled: &CompiledFleet,
        gate: &Gate,
    ) -> Self {
        let told = compiled.sites.len();
        let mut view = Self {
            key,
            seen: occupancy.changes.count,
            conditions: Vec::with_capacity(occupancy.rooms.len()),
            supposed: occupancy.rooms[told..].iter().map(|it| it.origin).collect(),
            ..Self::default()
        };
        for node in 0..occupancy.rooms.len() {
            let condition = view.now(occupancy, memo, compiled, gate, node);
            view.conditions.push(condition);
            let stretch = node / Changes::STRETCH;
            if node < told && condition != NEVER && view.stretches.last() != Some(&stretch) {
                view.stretches.push(stretch);
            }
            let room = view.room_in(memo, compiled, condition);
            view.total += u64::from(room);
            view.widths[(room as usize).min(WIDE)] += 1;
        }
        view
    }

    /// Brings the view up to date.
    fn catch_up(
        &mut self,
        occupancy: &mut Occupancy,
        memo: &mut Memo,
        compiled: &CompiledFleet,
        gate: &Gate,
    ) {
        if self.seen == occupancy.changes.count && self.conditions.len() == occupancy.rooms.len() {
            return;
        }
        while self.conditions.len() > occupancy.rooms.len() {
            let node = self.conditions.len() - 1;
            self.change(memo, compiled, node, NONE, None);
            self.widths[0] -= 1;
            self.conditions.pop();
            self.supposed.pop();
        }
        while self.conditions.len() < occupancy.rooms.len() {
            let room = &occupancy.rooms[self.conditions.len()];
            self.supposed.push(room.origin);
            self.conditions.push(NONE);
            self.widths[0] += 1;
        }
        let told = compiled.sites.len();
        if let Some(few) = occupancy.changes.since(self.seen).map(<[u32]>::to_vec) {
            for node in few {
                self.follow(occupancy, memo, compiled, gate, node as NodeId);
            }
        } else {
            for at in 0..self.stretches.len() {
                let stretch = self.stretches[at];
                if occupancy.changes.stretches[stretch] <= self.seen {
                    continue;
                }
                let begin = stretch * Changes::STRETCH;
                for node in begin..(begin + Changes::STRETCH).min(told) {
                    if occupancy.changes.last[node] > self.seen {
                        self.follow(occupancy, memo, compiled, gate, node);
                    }
                }
            }
            for node in told..occupancy.rooms.len() {
                self.follow(occupancy, memo, compiled, gate, node);
            }
        }
        self.seen = occupancy.changes.count;
    }

    /// Follows one node.
    fn follow(
        &mut self,
        occupancy: &mut Occupancy,
        memo: &mut Memo,
        compiled: &CompiledFleet,
        gate: &Gate,
        node: NodeId,
    ) {
        let before = self.conditions[node];
        let room = &occupancy.rooms[node];
        let origin = room.origin;
        // Most that changed is again as it was.
        let same = before == NEVER
            || before < NEVER && before == room.condition && room.open && !self.key.2;
        if node >= compiled.sites.len() || !same {
            let after = self.now(occupancy, memo, compiled, gate, node);
            self.change(memo, compiled, node, after, Some(origin));
        }
    }

    /// The condition of a node now, for these pods.
    fn now(
        &self,
        occupancy: &mut Occupancy,
        memo: &mut Memo,
        compiled: &CompiledFleet,
        gate: &Gate,
        node: NodeId,
    ) -> u32 {
        let room: &NodeFree = &occupancy.rooms[node];
        if !gate[compiled.makes[room.make].zone] {
            return NEVER;
        }
        if !room.open || self.key.2 && occupancy.kept.contains(&node) {
            return NONE;
        }
        occupancy.condition(compiled, memo, node)
    }

    fn room_in(&self, memo: &mut Memo, compiled: &CompiledFleet, condition: u32) -> u32 {
        match condition {
            NONE | NEVER => 0,
            condition => memo.look(compiled, self.key.0, condition).room,
        }
    }

    fn add_ladder(
        &mut self,
        occupancy: &Occupancy,
        memo: &mut Memo,
        compiled: &CompiledFleet,
        at: usize,
    ) {
        let ladder = &compiled.ladders[at];
        let mut sums = vec![0; ladder.domains.len()];
        for (node, &condition) in self.conditions.iter().enumerate() {
            let room = u64::from(self.room_in(memo, compiled, condition));
            if room > 0 {
                for &domain in &ladder.paths[occupancy.rooms[node].origin] {
                    sums[domain] += room;
                }
            }
        }
        self.sums.push((at, sums));
    }

    fn add_order(&mut self, memo: &mut Memo, compiled: &CompiledFleet) {
        let mut all = Vec::new();
        for (node, &condition) in self.conditions.iter().enumerate() {
            if condition < NEVER {
                let look = memo.look(compiled, self.key.0, condition);
                if look.room > 0 {
                    all.push((look.cost, node as u32));
                }
            }
        }
        self.order = Some(all.into_iter().collect());
    }

    /// A node, which is like another, comes into another condition.
    fn change(
        &mut self,
        memo: &mut Memo,
        compiled: &CompiledFleet,
        node: NodeId,
        after: u32,
        like: Option<NodeId>,
    ) {
        let before = self.conditions[node];
        let told = compiled.sites.len();
        let was = node.checked_sub(told).map_or(node, |at| self.supposed[at]);
        let like = like.unwrap_or(was);
        if before == after && was == like {
            return;
        }
        self.conditions[node] = after;
        if let Some(at) = node.checked_sub(told) {
            self.supposed[at] = like;
        }
        let had = self.room_in(memo, compiled, before);
        let has = self.room_in(memo, compiled, after);
        self.total = self.total - u64::from(had) + u64::from(has);
        self.widths[(had as usize).min(WIDE)] -= 1;
        self.widths[(has as usize).min(WIDE)] += 1;
        if had != has || was != like {
            for (at, sums) in &mut self.sums {
                let paths = &compiled.ladders[*at].paths;
                for &domain in &paths[was] {
                    sums[domain] -= u64::from(had);
                }
                for &domain in &paths[like] {
                    sums[domain] += u64::from(has);
                }
            }
        }
        if let Some(order) = &mut self.order {
            if had > 0 {
                order.remove(&(memo.look(compiled, self.key.0, before).cost, node as u32));
            }
            if has > 0 {
                order.insert((memo.look(compiled, self.key.0, after).cost, node as u32));
            }
        }
    }
}

impl State<'_> {
    /// The view of a kind of pod through a gate, up to date, to be given back by [`State::give_view`].
    pub(crate) fn take_view(
        &mut self,
        want: usize,
        gate: &Gate,
        ladder: Option<usize>,
        ordered: bool,
    ) -> Box<View> {
        let Self {
            compiled,
            memo,
            occupancy,
            ..
        } = self;
        let key = (want, gate.id, occupancy.beside);
        let mut view = match occupancy.views.0.remove(&key) {
            Some(view) => view,
            None => Box::new(View::build(key, occupancy, memo, compiled, gate)),
        };
        view.catch_up(occupancy, memo, compiled, gate);
        if let Some(ladder) = ladder
            && !view.sums.iter().any(|(at, _)| *at == ladder)
        {
            view.add_ladder(occupancy, memo, compiled, ladder);
        }
        if ordered && view.order.is_none() {
            view.add_order(memo, compiled);
        }
        view
    }

    /// Gives a view back.
    pub(crate) fn give_view(&mut self, view: Box<View>) {
        let views = &mut self.occupancy.views.0;
        if views.len() >= MOST {
            views.clear();
        }
        views.insert(view.key, view);
    }
}
