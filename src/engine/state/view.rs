//! Views: how a kind of pod fits all eligible nodes, kept up to date: pods per node, sums by domain, and nodes by cost.
//! A view is computed once and then follows the list of changed nodes, so that a decision costs what changed since the last
//! similar one, not the size of the fleet. A view is a function of the occupancy: dropping one changes no result.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use crate::compiled::{CompiledFleet, NodeId};

use super::condition::Memo;
use super::gates::Gate;
use super::node_free::{NodeChangeLog, NodeFree};
use super::{Occupancy, State};

/// Maximum number of cached views.
const MOST: usize = 512;

/// Condition of a closed node.
const NONE: u32 = u32::MAX;

/// Condition of a node that is never eligible for these pods. This and [`NONE`] mean that no pod fits.
const NEVER: u32 = u32::MAX - 1;

/// Nodes that fit at least this many pods are counted together.
const WIDE: usize = 31;

/// Pod request, index of the gate, and whether reserved nodes are excluded.
type Key = (usize, u32, bool);

/// Views of an occupancy. A clone starts empty.
#[derive(Default, Debug)]
pub(super) struct Views(FxHashMap<Key, Box<View>>);

impl Clone for Views {
    fn clone(&self) -> Self {
        Self::default()
    }
}

#[derive(Default, Debug)]
pub(crate) struct View {
    key: Key,
    /// Number of changes that the view includes.
    seen: u64,
    /// Per node: the condition at the last update.
    conditions: Vec<u32>,
    /// For each hypothetical node: the node that it copies.
    supposed: Vec<NodeId>,
    /// Stretches with nodes that may be eligible for these pods.
    stretches: Vec<usize>,
    /// Number of pods that fit on all nodes.
    pub(crate) total: u64,
    /// Number of nodes by the number of pods that fit, [`WIDE`] and more together.
    widths: [u32; WIDE + 1],
    /// Per requested ladder: number of pods that fit in each domain.
    sums: Vec<(usize, Vec<u64>)>,
    /// Nodes that fit a pod, cheapest first; only after a request.
    order: Option<BTreeSet<((i64, i64), u32)>>,
}

impl View {
    /// Number of pods that fit in each domain of a ladder; the ladder must have been requested.
    pub(crate) fn sums(&self, ladder: usize) -> &[u64] {
        let found = self.sums.iter().find(|(at, _)| *at == ladder);
        found.map_or(&[], |(_, sums)| sums)
    }

    /// Whether some node may fit this many pods.
    pub(crate) fn may_hold(&self, pods: u32) -> bool {
        let from = (pods as usize).min(WIDE);
        self.widths[from..].iter().any(|nodes| *nodes > 0)
    }

    /// Nodes that fit a pod, cheapest first; the order must have been requested.
    pub(crate) fn order(&self) -> impl Iterator<Item = NodeId> + '_ {
        let all = self.order.iter().flatten();
        all.map(|(_, node)| *node as NodeId)
    }

    /// Builds the view from all nodes.
    fn build(
        key: Key,
        occupancy: &mut Occupancy,
        memo: &mut Memo,
        compiled: &CompiledFleet,
        gate: &Gate,
    ) -> Self {
        let real_nodes = compiled.nodes.len();
        let mut view = Self {
            key,
            seen: occupancy.changes.count,
            conditions: Vec::with_capacity(occupancy.nodes.len()),
            supposed: occupancy.nodes[real_nodes..]
                .iter()
                .map(|it| it.origin)
                .collect(),
            ..Self::default()
        };
        for node in 0..occupancy.nodes.len() {
            let condition = view.now(occupancy, memo, compiled, gate, node);
            view.conditions.push(condition);
            let stretch = node / NodeChangeLog::STRETCH;
            if node < real_nodes && condition != NEVER && view.stretches.last() != Some(&stretch) {
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
        if self.seen == occupancy.changes.count && self.conditions.len() == occupancy.nodes.len() {
            return;
        }
        while self.conditions.len() > occupancy.nodes.len() {
            let node = self.conditions.len() - 1;
            self.change(memo, compiled, node, NONE, None);
            self.widths[0] -= 1;
            self.conditions.pop();
            self.supposed.pop();
        }
        while self.conditions.len() < occupancy.nodes.len() {
            let room = &occupancy.nodes[self.conditions.len()];
            self.supposed.push(room.origin);
            self.conditions.push(NONE);
            self.widths[0] += 1;
        }
        let real_nodes = compiled.nodes.len();
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
                let begin = stretch * NodeChangeLog::STRETCH;
                for node in begin..(begin + NodeChangeLog::STRETCH).min(real_nodes) {
                    if occupancy.changes.last[node] > self.seen {
                        self.follow(occupancy, memo, compiled, gate, node);
                    }
                }
            }
            for node in real_nodes..occupancy.nodes.len() {
                self.follow(occupancy, memo, compiled, gate, node);
            }
        }
        self.seen = occupancy.changes.count;
    }

    fn follow(
        &mut self,
        occupancy: &mut Occupancy,
        memo: &mut Memo,
        compiled: &CompiledFleet,
        gate: &Gate,
        node: NodeId,
    ) {
        let before = self.conditions[node];
        let room = &occupancy.nodes[node];
        let origin = room.origin;
        // Most changed nodes have their previous condition again.
        let same = before == NEVER
            || before < NEVER && before == room.condition && room.open && !self.key.2;
        if node >= compiled.nodes.len() || !same {
            let after = self.now(occupancy, memo, compiled, gate, node);
            self.change(memo, compiled, node, after, Some(origin));
        }
    }

    /// Current condition of a node, for these pods.
    fn now(
        &self,
        occupancy: &mut Occupancy,
        memo: &mut Memo,
        compiled: &CompiledFleet,
        gate: &Gate,
        node: NodeId,
    ) -> u32 {
        let room: &NodeFree = &occupancy.nodes[node];
        if !gate[compiled.node_shapes[room.node_shape].zone] {
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
                for &domain in &ladder.paths[occupancy.nodes[node].origin] {
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

    /// Changes a node's condition.
    fn change(
        &mut self,
        memo: &mut Memo,
        compiled: &CompiledFleet,
        node: NodeId,
        after: u32,
        like: Option<NodeId>,
    ) {
        let before = self.conditions[node];
        let real_nodes = compiled.nodes.len();
        let was = node
            .checked_sub(real_nodes)
            .map_or(node, |at| self.supposed[at]);
        let like = like.unwrap_or(was);
        if before == after && was == like {
            return;
        }
        self.conditions[node] = after;
        if let Some(at) = node.checked_sub(real_nodes) {
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
    /// The up-to-date view of a kind of pod and a gate; return it with [`State::give_view`].
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

    /// Returns a view to the cache.
    pub(crate) fn give_view(&mut self, view: Box<View>) {
        let views = &mut self.occupancy.views.0;
        if views.len() >= MOST {
            views.clear();
        }
        views.insert(view.key, view);
    }
}
