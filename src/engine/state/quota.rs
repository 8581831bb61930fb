//! Quota usage up the tree, as Kueue computes it: usage beyond a queue's lending-protected quota also counts in its ancestors.

use crate::compiled::{PairId, QueueId, QuotaTree};

use super::State;

/// Usage of all queues. `counted` counts against a queue's subtree; `gross` is the total of a queue and its descendants.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct QuotaUsage {
    pub(super) counted: Vec<i64>,
    pub(super) gross: Vec<i64>,
}

impl QuotaUsage {
    pub(super) fn new(tree: &QuotaTree) -> Self {
        Self {
            counted: vec![0; tree.quotas.len()],
            gross: vec![0; tree.quotas.len()],
        }
    }

    fn at(tree: &QuotaTree, queue: QueueId, pair: PairId) -> usize {
        tree.branches[queue].base + pair
    }

    /// Counted usage of a queue.
    pub(super) fn counted(&self, tree: &QuotaTree, queue: QueueId, pair: PairId) -> i64 {
        self.counted[Self::at(tree, queue, pair)]
    }

    /// Total usage of a queue and its descendants.
    pub(super) fn gross(&self, tree: &QuotaTree, queue: QueueId, pair: PairId) -> i64 {
        self.gross[Self::at(tree, queue, pair)]
    }

    /// Quota that a queue may still use, within borrowing and lending limits and hard caps; negative if usage exceeds it.
    pub(crate) fn available(&self, tree: &QuotaTree, queue: QueueId, pair: PairId) -> i64 {
        let quota = self.by_quota(tree, queue, pair);
        let caps = tree.path(queue).filter_map(|queue| {
            let cap = tree.quota(queue, pair).cap?;
            Some(cap - self.gross(tree, queue, pair))
        });
        caps.fold(quota, i64::min)
    }

    fn by_quota(&self, tree: &QuotaTree, queue: QueueId, pair: PairId) -> i64 {
        let quotas = tree.quota(queue, pair);
        let used = self.counted(tree, queue, pair);
        let Some(parent) = tree.branches[queue].parent else {
            return quotas.subtree - used;
        };
        let mut above = self.by_quota(tree, parent, pair);
        if let Some(borrow) = quotas.borrow {
            let stored = quotas.subtree - quotas.guaranteed;
            let taken = (used - quotas.guaranteed).max(0);
            above = above.min((stored - taken).saturating_add(borrow));
        }
        (quotas.guaranteed - used).max(0) + above
    }

    /// Usage of a queue above its own quota.
    pub(super) fn borrowed(&self, tree: &QuotaTree, queue: QueueId, pair: PairId) -> i64 {
        (self.counted(tree, queue, pair) - tree.quota(queue, pair).subtree).max(0)
    }

    /// Uses an amount of quota. Nothing is checked.
    pub(super) fn take(&mut self, tree: &QuotaTree, queue: QueueId, pair: PairId, amount: i64) {
        for up in tree.path(queue) {
            self.gross[Self::at(tree, up, pair)] += amount;
        }
        let (mut queue, mut amount) = (queue, amount);
        loop {
            let at = Self::at(tree, queue, pair);
            let free = (tree.quotas[at].guaranteed - self.counted[at]).max(0);
            self.counted[at] += amount;
            match tree.branches[queue].parent {
                Some(parent) if amount > free => (queue, amount) = (parent, amount - free),
                _ => return,
            }
        }
    }

    /// Releases an amount of quota: the exact inverse of [`Self::take`], and the other way around.
    pub(crate) fn give(&mut self, tree: &QuotaTree, queue: QueueId, pair: PairId, amount: i64) {
        for up in tree.path(queue) {
            self.gross[Self::at(tree, up, pair)] -= amount;
        }
        let (mut queue, mut amount) = (queue, amount);
        loop {
            let at = Self::at(tree, queue, pair);
            let stored = self.counted[at] - tree.quotas[at].guaranteed;
            self.counted[at] -= amount;
            match tree.branches[queue].parent {
                Some(parent) if stored > 0 => (queue, amount) = (parent, amount.min(stored)),
                _ => return,
            }
        }
    }
}

impl State<'_> {
    /// Height in the tree at which a queue borrows if it uses this much more: 0 if its own quota suffices, else the
    /// number of levels below the lowest ancestor cohort whose quota suffices; the height of the whole tree if there is
    /// none. Source: Kueue's `FindHeightOfLowestSubtreeThatFits`.
    pub(crate) fn borrow_height(&self, queue: QueueId, pair: PairId, more: i64) -> usize {
        let tree = self.tree();
        let mut left = more;
        for node in tree.path(queue) {
            let quotas = tree.quota(node, pair);
            let used = self.used(node, pair);
            if used.saturating_add(left) <= quotas.subtree {
                return tree.branches[node].height;
            }
            left = (left - (quotas.guaranteed - used).max(0)).max(0);
        }
        tree.branches[tree.branches[queue].root].height
    }

    /// Whether some subtree around a queue, below the root, has enough quota of its own for this much more.
    pub(crate) fn fits_below_top(&self, queue: QueueId, pair: PairId, more: i64) -> bool {
        let tree = self.tree();
        let mut left = more;
        for node in tree.path(queue) {
            if tree.branches[node].parent.is_none() {
                return false;
            }
            let quotas = tree.quota(node, pair);
            let used = self.used(node, pair);
            if used.saturating_add(left) <= quotas.subtree {
                return true;
            }
            left -= (quotas.guaranteed - used).max(0);
        }
        false
    }
}
