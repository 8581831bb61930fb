//! The smallest set of victims by exhaustive search, without sets that cannot be better.

use crate::state::State;

use super::bound::MissingResources;
use super::candidate::Candidate;
use super::search::{VictimSet, needs_all};
use super::search_context::SearchContext;

/// Maximum number of sets that are examined; 24 candidates took far fewer in tests.
const MOST_LOOKS: usize = 4_000_000;
/// Maximum number of sets that are tested in full.
const MOST_TRIALS: usize = 40_000;

struct VictimSearch<'a, 's, 'p> {
    state: &'s mut State<'p>,
    context: &'a SearchContext,
    list: &'a [Candidate],
    bounds: MissingResources,
    borrow: bool,
    taken: Vec<usize>,
    best: Option<VictimSet>,
    looks: usize,
    trials: usize,
}

/// The best set, if better than the known one; and whether the search was complete.
pub(super) fn exact(
    state: &mut State<'_>,
    context: &SearchContext,
    list: &[Candidate],
    borrow: bool,
    known: Option<VictimSet>,
) -> (Option<VictimSet>, bool) {
    let bounds = MissingResources::new(state, context, list);
    let mut search = VictimSearch {
        state,
        context,
        list,
        bounds,
        borrow,
        taken: Vec::new(),
        best: known,
        looks: 0,
        trials: 0,
    };
    search.from(0, 0, true);
    let done = search.looks <= MOST_LOOKS && search.trials <= MOST_TRIALS;
    (search.best, done)
}

impl VictimSearch<'_, '_, '_> {
    /// Whether a cost is below the best so far.
    fn is_less(&self, cost: (i64, usize)) -> bool {
        let best = self.best.as_ref().map(|best| best.cost(self.list));
        best.is_none_or(|best| cost < best)
    }

    /// Searches all sets of the taken candidates plus any from `next` on. `fresh`: the last decision was to take a candidate.
    fn from(&mut self, next: usize, lost: i64, fresh: bool) {
        self.looks += 1;
        if self.looks > MOST_LOOKS || self.trials > MOST_TRIALS {
            return;
        }
        let Some(least) = self.bounds.least(&self.taken, next) else {
            return;
        };
        let at_least = (lost.saturating_add(least.0), self.taken.len() + least.1);
        if !self.is_less(at_least) {
            return;
        }
        if fresh && least == (0, 0) && !self.taken.is_empty() {
            self.trials += 1;
            let (context, list, borrow) = (self.context, self.list, self.borrow);
            if let Some(found) = needs_all(self.state, context, list, borrow, &self.taken) {
                // Further victims only increase the cost.
                self.best = Some(found);
                return;
            }
        }
        if next == self.list.len() || !fresh && !self.could(next) {
            return;
        }
        self.taken.push(next);
        let more = lost.saturating_add(self.list[next].lost);
        self.from(next + 1, more, true);
        self.taken.pop();
        self.from(next + 1, lost, false);
    }

    /// Whether the workload fits if all taken and remaining candidates are preempted.
    fn could(&mut self, next: usize) -> bool {
        self.trials += 1;
        let mark = self.state.mark();
        for &at in &self.taken {
            self.state.evict(self.list[at].work);
        }
        for candidate in &self.list[next..] {
            self.state.evict(candidate.work);
        }
        let could = self.context.fits(self.state, self.borrow);
        self.state.undo_to(mark);
        could
    }
}
