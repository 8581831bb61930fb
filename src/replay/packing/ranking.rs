//! The best node of a class of pods, kept up to date as costs change.

use engine::packing::NEVER;

/// Nodes to a block.
const BLOCK: usize = 16;

/// Costs of all nodes for one class, with the cheapest of each block.
#[derive(Clone, Debug)]
pub(super) struct Ranking {
    costs: Vec<i64>,
    best: Vec<u32>,
}

impl Ranking {
    pub(super) fn new(costs: Vec<i64>) -> Self {
        let mut ranking = Self {
            best: vec![0; costs.len().div_ceil(BLOCK)],
            costs,
        };
        for block in 0..ranking.best.len() {
            ranking.settle(block);
        }
        ranking
    }

    /// Gives a node a new cost.
    pub(super) fn set(&mut self, node: usize, cost: i64) {
        let block = node / BLOCK;
        self.costs[node] = cost;
        let best = self.best[block] as usize;
        if best == node {
            self.settle(block);
        } else if (cost, node) < (self.costs[best], best) {
            self.best[block] = node as u32;
        }
    }

    fn settle(&mut self, block: usize) {
        let start = block * BLOCK;
        let end = self.costs.len().min(start + BLOCK);
        let mut best = start;
        for node in start + 1..end {
            if self.costs[node] < self.costs[best] {
                best = node;
            }
        }
        self.best[block] = best as u32;
    }

    /// The cheapest node, the first of equals.
    pub(super) fn cheapest(&self) -> Option<usize> {
        let cost = |node: &u32| self.costs[*node as usize];
        // The first of equal blocks wins, so the first of equal nodes does.
        let best = self.best.iter().min_by_key(|node| cost(node))?;
        (cost(best) != NEVER).then_some(*best as usize)
    }

    /// The nodes that can take the class, in order.
    pub(super) fn able(&self) -> impl Iterator<Item = usize> {
        let costs = self.costs.iter().enumerate();
        costs
            .filter(|(_, cost)| **cost != NEVER)
            .map(|(node, _)| node)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn the_cheapest_is_the_first_of_the_cheapest(
            mut costs in prop::collection::vec(0_i64..6, 1..70),
            changes in prop::collection::vec((0_usize..70, prop::option::of(0_i64..6)), 0..80),
        ) {
            let mut ranking = Ranking::new(costs.clone());
            for (node, cost) in changes {
                let node = node % costs.len();
                costs[node] = cost.unwrap_or(NEVER);
                ranking.set(node, costs[node]);
                let least = costs.iter().min().copied().filter(|cost| *cost != NEVER);
                let plain = least.and_then(|least| costs.iter().position(|cost| *cost == least));
                prop_assert_eq!(ranking.cheapest(), plain);
                let able = costs.iter().filter(|cost| **cost != NEVER).count();
                prop_assert_eq!(ranking.able().count(), able);
            }
        }
    }
}
