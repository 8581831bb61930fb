//! Gang placement: the smallest domain that fits, and packing within it.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use crate::compiled::{CompiledFleet, FlavorId, NodeId, TopologyTree, WorkloadId};
use crate::state::{Gate, PodPlacement, State, View};

use super::{Relaxation, Why};

/// A narrowest domain (none if there are no domains) and the number of pods for it.
type DomainShare = (Option<usize>, u64);

/// Nodes that fit a pod, by domain.
struct DomainCapacity<'a> {
    ladder: &'a TopologyTree,
    /// Per domain: pods that fit.
    sums: &'a [u64],
    /// Pods that fit on all nodes.
    total: u64,
}

impl DomainCapacity<'_> {
    fn domain_key(&self, domain: usize) -> (u64, usize, Reverse<usize>, usize) {
        let it = &self.ladder.domains[domain];
        (
            self.sums[domain],
            it.nodes.len(),
            Reverse(self.ladder.depth(domain)),
            domain,
        )
    }

    /// The domain that fits this many pods with the least left over.
    fn tightest(&self, domains: impl Iterator<Item = usize>, count: u64) -> Option<usize> {
        domains
            .filter(|&domain| self.sums[domain] >= count)
            .min_by_key(|&domain| self.domain_key(domain))
    }

    /// Number of pods for each narrowest domain, in order, if `count` pods go into a domain (or, with none, anywhere). They must fit.
    fn spread(&self, domain: Option<usize>, count: u64, out: &mut Vec<DomainShare>) {
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
        // Nodes directly in the domain, in none of its subdomains.
        let here = domain.map_or(self.total, |domain| self.sums[domain]);
        let below: u64 = children.iter().map(|&child| self.sums[child]).sum();
        let own = here.saturating_sub(below);
        let mut left = count;
        while left > 0 {
            if let Some(child) = self.tightest(children.iter().copied(), left) {
                return self.spread(Some(child), left, out);
            }
            // The largest first, so that few domains are used; nodes outside subdomains come last.
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
    /// Places this many pods of a set in order. Otherwise returns why not and how many fit; then none is placed.
    pub(super) fn place(
        &mut self,
        work: WorkloadId,
        set: usize,
        flavors: &[FlavorId],
        count: u32,
        relaxation: &Relaxation,
    ) -> Result<Vec<PodPlacement>, (Why, u32)> {
        let compiled: &'p CompiledFleet = self.compiled();
        let it = &compiled.workloads[work].sets[set];
        let want = it.want;
        let level = it.topology_level.filter(|_| !relaxation.no_topology);
        let gate = self.gate(it.constraint, flavors, relaxation);
        if count == 0 {
            return Ok(Vec::new());
        }
        let short = |room: u64| {
            let asked = count;
            let why = Why::Nodes { set, asked, room };
            (why, u32::try_from(room).unwrap_or(count).min(count))
        };
        if count == 1 && level.is_none_or(|(_, _, required)| !required) {
            let node = self.best_node(want, &gate).ok_or_else(|| short(0))?;
            return Ok(vec![self.take_seat(node, want)]);
        }
        let at = match level {
            Some((ladder, _, _)) => ladder,
            None => self.ladder_of(flavors),
        };
        let view = self.take_view(want, &gate, Some(at), false);
        let asked = u64::from(count);
        if view.total < asked {
            let total = view.total;
            self.give_view(view);
            return Err(short(total));
        }
        let may_hold = view.may_hold(count);
        self.give_view(view);
        if level.is_none()
            && may_hold
            && let Some(node) = self.one_node(want, &gate, count)
        {
            return Ok((0..count).map(|_| self.take_seat(node, want)).collect());
        }
        let view = self.take_view(want, &gate, Some(at), false);
        let parts = self.parts(&view, at, set, count, level);
        self.give_view(view);
        let parts = parts?;
        if parts.is_empty() {
            return Ok(self.scatter(want, &gate, count));
        }
        let ladder = &compiled.ladders[at];
        let mut placements = Vec::with_capacity(count as usize);
        for (domain, count) in parts {
            let nodes = self.nodes_right_in(ladder, domain, &gate);
            self.fill(want, &nodes, count, &mut placements);
        }
        Ok(placements)
    }

    /// Number of pods for each narrowest domain; none if there are no domains.
    fn parts(
        &self,
        view: &View,
        at: usize,
        set: usize,
        count: u32,
        topology_level: Option<(usize, usize, bool)>,
    ) -> Result<Vec<DomainShare>, (Why, u32)> {
        let compiled: &'p CompiledFleet = self.compiled();
        let ladder = &compiled.ladders[at];
        let asked = u64::from(count);
        let rooms = DomainCapacity {
            ladder,
            sums: view.sums(at),
            total: view.total,
        };
        let all = 0..ladder.domains.len();
        let chosen = match topology_level {
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
        let mut parts = Vec::new();
        if chosen.is_some() || !ladder.domains.is_empty() {
            rooms.spread(chosen, asked, &mut parts);
        }
        Ok(parts)
    }

    /// Eligible nodes that are directly in a domain and in none of its subdomains (or in no domain at all).
    fn nodes_right_in(
        &self,
        ladder: &TopologyTree,
        domain: Option<usize>,
        gate: &Gate,
    ) -> Vec<NodeId> {
        let real_nodes = self.compiled().nodes.len();
        let right = |node: NodeId| {
            let room = self.node_free(node);
            ladder.paths[room.origin].last().copied() == domain
                && gate[self.compiled().node_shapes[room.node_shape].zone]
        };
        let of = |domain: usize| ladder.domains[domain].nodes.iter().copied();
        let mut nodes: Vec<NodeId> = match domain {
            Some(domain) => of(domain).filter(|node| right(*node)).collect(),
            None => (0..real_nodes).filter(|node| right(*node)).collect(),
        };
        // Hypothetical nodes.
        nodes.extend((real_nodes..self.nodes()).filter(|node| right(*node)));
        nodes
    }

    /// Default topology if none is specified.
    fn ladder_of(&self, flavors: &[FlavorId]) -> usize {
        let compiled: &'p CompiledFleet = self.compiled();
        let mut names = flavors
            .iter()
            .filter_map(|flavor| compiled.snapshot.flavors[*flavor].topology.as_ref());
        let position = names.find_map(|name| {
            let mut ladders = compiled.ladders.iter();
            ladders.position(|ladder| ladder.name == *name)
        });
        position.unwrap_or(0)
    }

    /// The best node that fits all of these pods.
    fn one_node(&mut self, want: usize, gate: &Gate, count: u32) -> Option<NodeId> {
        let view = self.take_view(want, gate, None, true);
        let found = view
            .order()
            .find(|&node| self.look(node, want).room >= count);
        self.give_view(view);
        found
    }

    /// Places pods one by one on the best of all nodes.
    fn scatter(&mut self, want: usize, gate: &Gate, count: u32) -> Vec<PodPlacement> {
        let mut placements = Vec::with_capacity(count as usize);
        while placements.len() < count as usize {
            let Some(node) = self.best_node(want, gate) else {
                break;
            };
            placements.push(self.take_seat(node, want));
        }
        placements
    }

    /// Places pods one by one on the best of the given nodes.
    fn fill(
        &mut self,
        want: usize,
        nodes: &[NodeId],
        count: u64,
        placements: &mut Vec<PodPlacement>,
    ) {
        let mut order: BTreeSet<((i64, i64), NodeId)> = BTreeSet::new();
        for &node in nodes {
            // Reserved nodes count as closed here.
            if !self.takes_pods(node) {
                continue;
            }
            let look = self.look(node, want);
            if look.room > 0 {
                order.insert((look.cost, node));
            }
        }
        for _ in 0..count {
            let Some((_, node)) = order.pop_first() else {
                return;
            };
            placements.push(self.take_seat(node, want));
            let look = self.look(node, want);
            if look.room > 0 {
                order.insert((look.cost, node));
            }
        }
    }
}

impl DomainCapacity<'_> {
    /// The smallest of these domains that fits, or, if fewer pods suffice, the smallest around them.
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
