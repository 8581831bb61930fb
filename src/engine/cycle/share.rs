//! Dominant resource share: usage above nominal quota relative to what the cohort can lend, divided by the weight. Kueue's
//! `fairSharing.weightedShare`, in whole numbers.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use crate::compiled::QueueId;
use crate::state::State;
use model::base::Name;

/// A share. A lesser share is served first.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    /// Borrows with a weight of 0.
    infinite: bool,
    /// Of the dominant borrowed resource: borrowed / (lendable x weight); if infinite, without the weight.
    ratio: (i128, i128),
}

impl Default for Share {
    fn default() -> Self {
        Self {
            infinite: false,
            ratio: (0, 1),
        }
    }
}

impl Share {
    /// Value as Kueue shows it: thousandths, rounded up; the maximum if infinite.
    pub fn rounded(self) -> i64 {
        if self.infinite {
            return i64::MAX;
        }
        let (above, below) = self.ratio;
        let thousandths = above.saturating_mul(1_000);
        i64::try_from((thousandths + below - 1) / below).unwrap_or(i64::MAX)
    }
}

/// Compares fractions of positive denominators without products, which could overflow.
fn compare(mut a: (i128, i128), mut b: (i128, i128)) -> Ordering {
    loop {
        let whole = (a.0 / a.1).cmp(&(b.0 / b.1));
        let rest = (a.0 % a.1, b.0 % b.1);
        match (whole, rest) {
            (Ordering::Equal, (0, rest)) => return 0.cmp(&rest),
            (Ordering::Equal, (_, 0)) => return Ordering::Greater,
            // The reciprocals of the rests compare the other way around.
            (Ordering::Equal, (one, other)) => (a, b) = ((b.1, other), (a.1, one)),
            (other, _) => return other,
        }
    }
}

impl Ord for Share {
    fn cmp(&self, other: &Self) -> Ordering {
        let infinite = self.infinite.cmp(&other.infinite);
        infinite.then_with(|| compare(self.ratio, other.ratio))
    }
}

impl PartialOrd for Share {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Share {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Share {}

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
        let weight = self.weight(queue);
        let mut most = (0, 1);
        for (resource, amount) in borrowed {
            let pairs = tree.pairs_of(queue).iter().enumerate();
            let lendable: i128 = pairs
                .filter(|(_, (_, of))| of == resource)
                .map(|(pair, _)| i128::from(tree.quota(parent, pair).potential))
                .sum();
            let ratio = match weight {
                0 => (amount, lendable),
                weight => (
                    amount.saturating_mul(1_000),
                    lendable.saturating_mul(i128::from(weight)),
                ),
            };
            if lendable > 0 && compare(ratio, most).is_gt() {
                most = ratio;
            }
        }
        Share {
            infinite: weight == 0 && most.0 > 0,
            ratio: most,
        }
    }

    /// Weight of a queue or cohort in thousandths.
    fn weight(&self, queue: QueueId) -> i64 {
        let known = self.compiled().snapshot.queues.get(queue);
        known.map_or(1_000, |queue| queue.weight_milli)
    }
}
