//! Dominant resource share: how much more than its own a queue uses, of what could be lent to it, by its weight. Kueue's
//! `fairSharing.weightedShare`, in whole numbers.

use std::collections::BTreeMap;

use crate::compiled::QueueId;
use crate::state::State;
use model::base::Name;

/// Parts of a thousandth that shares are told apart by.
const PARTS: i128 = 1_000_000;

/// A share. The one that is less is served first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Share {
    /// It borrows with a weight of nothing.
    pub infinite: bool,
    /// Of the resource that it borrows most of: borrowed by lendable by weight, in millionths of a thousandth; where
    /// infinite, without the weight.
    pub parts: i64,
}

impl Share {
    /// As Kueue shows it: thousandths, rounded up; all there is where infinite.
    pub fn rounded(self) -> i64 {
        if self.infinite {
            return i64::MAX;
        }
        let parts = i128::from(self.parts);
        i64::try_from((parts + PARTS - 1) / PARTS).unwrap_or(i64::MAX)
    }
}

impl State<'_> {
    /// The share of a queue or cohort now. One at the top borrows from nobody.
    pub fn share(&self, queue: QueueId) -> Share {
        let tree = self.tree();
        let Some(parent) = tree.branches[queue].parent else {
            return Share::default();
        };
        let mut borrowed: BTreeMap<&Name, i128> = BTreeMap::new();
        for (pair, (_, resource)) in tree.pairs_of(queue).iter().enumerate() {
            let amount = self.borrowed(queue, pair);
            if amount > 0 {
                *borrowed.entry(resource).or_default() += i128::from(amount);
            }
        }
        if borrowed.is_empty() {
            return Share::default();
        }
        let mut most = 0_i128;
        for (resource, amount) in borrowed {
            let pairs = tree.pairs_of(queue).iter().enumerate();
            let lendable: i128 = pairs
                .filter(|(_, (_, of))| of == resource)
                .map(|(pair, _)| i128::from(tree.quota(parent, pair).potential))
                .sum();
            if lendable > 0 {
                most = most.max(amount * 1_000 * PARTS / lendable);
            }
        }
        let weight = self.weight(queue);
        let weighed = if weight > 0 {
            most.saturating_mul(1_000) / i128::from(weight)
        } else {
            most
        };
        Share {
            infinite: weight == 0,
            parts: i64::try_from(weighed).unwrap_or(i64::MAX),
        }
    }

    /// Weight of a queue or cohort in thousandths.
    fn weight(&self, queue: QueueId) -> i64 {
        let known = self.compiled().snapshot.queues.get(queue);
        known.map_or(1_000, |queue| queue.weight_milli)
    }
}
