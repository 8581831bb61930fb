//! The least victims by looking at all sets, but for those that cannot be better.

use crate::state::State;

use super::bound::Bounds;
use super::candidate::Candidate;
use super::search::{Found, needs_all};
use super::search_context::SearchContext;

/// Most sets that are looked at; far more than 24 candidates ever took in tests.
const MOST_LOOKS: usize = 4_000_000;
/// Most of them that are tried in full.
const MOST_TRIALS: usize = 40_000;

struct Search<'a, 's, 'p> {
    state: &'s mut State<'p>,
    scene: &'a SearchContext,
    list: &'a [Candidate],
    bounds: Bounds,
    borrow: bool,
    taken: Vec<usize>,
    best: Option<Found>,
    looks: usize,
    trials: usize,
}

/// The least set, if it is less than what is known; and whether all were looked at.
pub(super) fn exact(
    state: &mut State<'_>,
    scene: &SearchContext,
    list: &[Candidate],
    borrow: bool,
    known: Option<Found>,
) -> (Option<Found>, bool) {
    let bounds = Bounds::new(state, scene, list);
    let mut search = Search {
        state,
        scene,
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

impl Search<'_, '_, '_> {
    /// Whether a cost is less than that of the best so far.
    fn is_less(&self, cost: (i64, usize)) -> bool {
        let best = self.best.as_ref().map(|best| best.cost(self.list));
        best.is_none_or(|best| cost < best)
    }

    /// All sets of those taken and any from `next` on. `fresh`: the last one was taken, not left.
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
            let (scene, list, borrow) = (self.scene, self.list, self.borrow);
            if let Some(found) = needs_all(self.state, scene, list, borrow, &self.taken) {
                // With more it only costs more.
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

    /// Whether the workload fits if all those go that are taken or may still be.
    fn could(&mut self, next: usize) -> bool {
        self.trials += 1;
        let mark = self.state.mark();
        for &at in &self.taken {
            self.state.evict(self.list[at].work);
        }
        for candidate in &self.list[next..] {
            self.state.evict(candidate.work);
        }
        let could = self.scene.fits(self.state, self.borrow);
        self.state.undo_to(mark);
        could
    }
}
