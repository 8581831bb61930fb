//! Dominant resource share: usage above nominal quota relative to what the cohort can lend, divided by the weight. Kueue's
//! `fairSharing.weightedShare`, in whole numbers.

use std::collections::BTreeMap;

use crate::compiled::QueueId;
use crate::state::State;
use model::base::Name;

/// Resolution of a share: parts of one thousandth.
const PARTS: i128 = 1_000_000;

/// A share. A lesser share is served first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Share {
    /// Borrows with a weight of 0.
    pub infinite: bool,
    /// Of the dominant borrowed resource: borrowed / lendable / weight, in millionths of a thousandth; if
    /// infinite, without the weight.
    pub parts: i64,
}

impl Share {
    /// Value as Kueue shows it: thousandths, rounded up; the maximum if infinite.
    pub fn rounded(self) -> i64 {
        if self.infinite {
            return i64::MAX;
        }
        let parts = i128::from(self.parts);
        i64::try_from((parts + PARTS - 1) / PARTS).unwrap_or(i64::MAX)
    }
}

impl State<'_> {
    /// Current share of a queue or cohort. The root of a tree does not borrow.
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
