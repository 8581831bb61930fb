//! Pods that start together: the smallest domain that holds them, and packing within it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::engine::plant::{FlavorId, Ladder, NodeId, Plant, WorkId};
use crate::engine::state::{Seat, State};

use super::{Lens, Why};

/// Nodes with room for a pod, by the narrowest domain that they are in.
struct Rooms<'p> {
    ladder: &'p Ladder,
    /// Per domain: pods for which it has room.
    sums: Vec<u64>,
    /// Nodes right in a domain, or in none, with their room.
    own: BTreeMap<Option<usize>, Vec<(NodeId, u32)>>,
    /// Pods for which there is room anywhere.
    total: u64,
}

impl Rooms<'_> {
    fn domain_key(&self, domain: usize) -> (u64, usize, Reverse<usize>, usize) {
        let it = &self.ladder.domains[domain];
        (
            self.sums[domain],
            it.nodes.len(),
            Reverse(self.ladder.depth(domain)),
            domain,
        )
    }

    /// Of some domains, the one that holds so many pods and the fewest besides.
    fn tightest(&self, domains: impl Iterator<Item = usize>, count: u64) -> Option<usize> {
        domains
            .filter(|&domain| self.sums[domain] >= count)
            .min_by_key(|&domain| self.domain_key(domain))
    }

    /// How many pods each narrowest domain gets, in order, if `count` go into a domain (or, with none, anywhere). It has
    /// room for them.
    fn spread(&self, domain: Option<usize>, count: u64, out: &mut Vec<(Option<usize>, u64)>) {
        let children: Vec<usize> = match domain {
            Some(domain) => self.ladder.domains[domain].children.clone(),
            None => {
                let all = 0..self.ladder.domains.len();
                all.filter(|&domain| self.ladder.domains[domain].parent.is_none())
                    .collect()
            }
        };
        let mut children: Vec<usize> = children
            .into_iter()
            .filter(|&child| self.sums[child] > 0)
            .collect();
        let own = self.own.get(&domain).into_iter().flatten();
        let own: u64 = own.map(|(_, room)| u64::from(*room)).sum();
        let mut left = count;
        while left > 0 {
            if let Some(child) = self.tightest(children.iter().copied(), left) {
                return self.spread(Some(child), left, out);
            }
            // The widest first, so that few domains are used; nodes that are in none below come last.
            let widest = children.iter().copied();
            let widest = widest.max_by_key(|&child| (self.sums[child], Reverse(child)));
            match widest {
                Some(child) if own < left => {
                    self.spread(Some(child), self.sums[child], out);
                    left -= self.sums[child];
                    children.retain(|&other| other != child);
                }
                _ => return out.push((domain, left)),
            }
        }
    }
}

impl<'p> State<'p> {
    /// Seats so many pods of a set in order. Otherwise why not, and how many could; then nobody is seated.
    pub(super) fn place(
        &mut self,
        work: WorkId,
        set: usize,
        flavors: &[FlavorId],
        count: u32,
        lens: &Lens,
    ) -> Result<Vec<Seat>, (Why, u32)> {
        let plant: &'p Plant = self.plant();
        let it = &plant.works[work].sets[set];
        let want = it.want;
        let wish = it.wish.filter(|_| !lens.no_topology);
        let gate = self.gate(it.constraint, flavors, lens);
        if count == 0 {
            return Ok(Vec::new());
        }
        let short = |room: u64| {
            let asked = count;
            let why = Why::Room { set, asked, room };
            (why, u32::try_from(room).unwrap_or(count).min(count))
        };
        if count == 1 && wish.is_none_or(|(_, _, required)| !required) {
            let node = self.best_node(want, &gate).ok_or_else(|| short(0))?;
            return Ok(vec![self.take_seat(node, want)]);
        }
        let ladder = match wish {
            Some((ladder, _, _)) => &plant.ladders[ladder],
            None => self.ladder_of(flavors),
        };
        let rooms = self.rooms(want, &gate, ladder);
        let asked = u64::from(count);
        if rooms.total < asked {
            return Err(short(rooms.total));
        }
        if wish.is_none()
            && let Some(node) = self.one_node(want, &rooms, count)
        {
            return Ok((0..count).map(|_| self.take_seat(node, want)).collect());
        }
        let all = 0..ladder.domains.len();
        let chosen = match wish {
            None => rooms.tightest(all, asked),
            Some((at, level, required)) => {
                let of_level = |&domain: &usize| ladder.domains[domain].level == level;
                let domains: BTreeSet<usize> = all.filter(of_level).collect();
                let chosen = rooms.nearest(domains.clone(), asked, required);
                if chosen.is_none() && required {
                    let best = domains.iter().map(|&domain| rooms.sums[domain]).max();
                    let best = best.unwrap_or(0);
                    let why = Why::Topology {
                        set,
                        ladder: at,
                        level,
                        asked: count,
                        best,
                    };
                    return Err((why, u32::try_from(best).unwrap_or(count).min(count)));
                }
                chosen
            }
        };
        if chosen.is_none() && ladder.domains.is_empty() {
            return Ok(self.scatter(want, &gate, count));
        }
        let mut parts = Vec::new();
        rooms.spread(chosen, asked, &mut parts);
        let mut seats = Vec::with_capacity(count as usize);
        for (domain, count) in parts {
            let nodes = rooms.own.get(&domain).map_or(&[][..], Vec::as_slice);
            self.fill(want, nodes, count, &mut seats);
        }
        Ok(seats)
    }

    /// The topology that closeness is measured in where nothing says.
    fn ladder_of(&self, flavors: &[FlavorId]) -> &'p Ladder {
        let plant: &'p Plant = self.plant();
        let mut names = flavors
            .iter()
            .filter_map(|flavor| plant.snapshot.flavors[*flavor].topology.as_ref());
        let told = names.find_map(|name| plant.ladders.iter().find(|ladder| ladder.name == *name));
        told.unwrap_or(&plant.ladders[0])
    }

    fn rooms(&mut self, want: usize, gate: &Arc<[bool]>, ladder: &'p Ladder) -> Rooms<'p> {
        let mut nodes: Vec<(NodeId, u32)> = Vec::new();
        for (condition, look) in self.candidates(want, gate) {
            nodes.extend(self.open_nodes(condition).map(|node| (node, look.room)));
        }
        nodes.sort_unstable();
        let mut rooms = Rooms {
            ladder,
            sums: vec![0; ladder.domains.len()],
            own: BTreeMap::new(),
            total: 0,
        };
        for (node, room) in nodes {
            let path = &ladder.paths[self.room(node).origin];
            for &domain in path {
                rooms.sums[domain] += u64::from(room);
            }
            rooms.total += u64::from(room);
            let last = path.last().copied();
            rooms.own.entry(last).or_default().push((node, room));
        }
        rooms
    }

    /// The best node that takes all of so many pods.
    fn one_node(&mut self, want: usize, rooms: &Rooms<'_>, count: u32) -> Option<NodeId> {
        let all = rooms.own.values().flatten();
        let able: Vec<NodeId> = all
            .filter(|(_, room)| *room >= count)
            .map(|(node, _)| *node)
            .collect();
        able.into_iter()
            .min_by_key(|&node| (self.look(node, want).cost, node))
    }

    /// Pods one by one on the best nodes of all.
    fn scatter(&mut self, want: usize, gate: &[bool], count: u32) -> Vec<Seat> {
        let mut seats = Vec::with_capacity(count as usize);
        while seats.len() < count as usize {
            let Some(node) = self.best_node(want, gate) else {
                break;
            };
            seats.push(self.take_seat(node, want));
        }
        seats
    }

    /// Pods one by one on the best of some nodes.
    fn fill(&mut self, want: usize, nodes: &[(NodeId, u32)], count: u64, seats: &mut Vec<Seat>) {
        let mut order: BTreeSet<((i64, i64), NodeId)> = BTreeSet::new();
        for &(node, _) in nodes {
            let look = self.look(node, want);
            if look.room > 0 {
                order.insert((look.cost, node));
            }
        }
        for _ in 0..count {
            let Some((_, node)) = order.pop_first() else {
                return;
            };
            seats.push(self.take_seat(node, want));
            let look = self.look(node, want);
            if look.room > 0 {
                order.insert((look.cost, node));
            }
        }
    }
}

impl Rooms<'_> {
    /// The tightest of these domains, or, where less will do, of those around them.
    fn nearest(&self, domains: BTreeSet<usize>, count: u64, required: bool) -> Option<usize> {
        let mut domains = domains;
        loop {
            let found = self.tightest(domains.iter().copied(), count);
            if found.is_some() || required || domains.is_empty() {
                return found;
            }
            domains = domains
                .iter()
                .filter_map(|&domain| self.ladder.domains[domain].parent)
                .collect();
        }
    }
}
