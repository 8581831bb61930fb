//! A cycle under somebody's eyes: what would have been, at the very turn of one who did not start.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::fit::{Lens, Miss, Why};
use crate::plant::{Plant, QueueId, WorkId};
use crate::state::{State, Tenure};

use super::promise::Promises;

/// Who looks on, and how far the cycle goes.
#[derive(Default)]
pub(crate) struct Watch<'w> {
    /// The cycle ends with this one's turn.
    pub until: Option<WorkId>,
    /// What is left out of account at that turn.
    pub lens: Option<&'w Lens>,
    /// Is called at each turn of one that does not start, before room is kept for it.
    pub missed: Option<&'w mut dyn FnMut(&mut Turn<'_, '_>)>,
    /// Who waits, by queue and in order, and how long each workload runs, where that is known already. Those whose queue is not
    /// there may be missing.
    pub known: Option<Known>,
    /// Nothing.
    pub plain: Lens,
}

/// What many cycles on one fleet have in common.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub lines: BTreeMap<QueueId, Vec<WorkId>>,
    pub durations: Arc<[Option<i64>]>,
}

/// The turn of a workload that does not start.
pub(crate) struct Turn<'a, 'p> {
    pub(super) state: &'a mut State<'p>,
    pub(super) promises: &'a mut Promises,
    /// Which.
    pub work: WorkId,
    /// Why it does not.
    pub misses: &'a Arc<[Miss]>,
    /// Grows with everything that is admitted or kept: while it is the same, workloads of one shape fare alike.
    pub epoch: usize,
}

impl<'p> Turn<'_, 'p> {
    /// Of which fleet.
    pub fn plant(&self) -> &'p Plant {
        self.state.plant()
    }

    /// Whether there is room for it with something left out of account, whomever that delays.
    pub fn fits(&mut self, lens: &Lens) -> bool {
        self.state.find(self.work, lens).is_ok()
    }

    /// Whether it would start with something left out of account. The state stays as it is.
    pub fn starts(&mut self, lens: &Lens) -> bool {
        self.promises.may_start(self.state, self.work, lens)
    }
}

impl Promises {
    /// Starts a workload if it fits and delays no reservation.
    pub(super) fn try_start(
        &mut self,
        state: &mut State<'_>,
        work: WorkId,
        lens: &Lens,
    ) -> Result<Arc<Tenure>, Vec<Miss>> {
        let mark = state.mark();
        let tenure = state.start(work, lens)?;
        let Some(against) = self.conflict(state, work, &tenure) else {
            self.keep(state, work, &tenure);
            return Ok(tenure);
        };
        state.undo_to(mark);
        let tenure = self.beside(state, work, lens, against)?;
        state.admit(work, tenure.clone());
        self.keep(state, work, &tenure);
        Ok(tenure)
    }

    fn may_start(&mut self, state: &mut State<'_>, work: WorkId, lens: &Lens) -> bool {
        let Ok(tenure) = state.find(work, lens) else {
            return false;
        };
        match self.conflict(state, work, &tenure) {
            None => true,
            Some(against) => self.beside(state, work, lens, against).is_ok(),
        }
    }

    /// Once more, beside the nodes that are kept.
    fn beside(
        &mut self,
        state: &mut State<'_>,
        work: WorkId,
        lens: &Lens,
        against: WorkId,
    ) -> Result<Arc<Tenure>, Vec<Miss>> {
        state.set_beside(true);
        let again = state.find(work, lens);
        state.set_beside(false);
        if let Ok(tenure) = again
            && self.conflict(state, work, &tenure).is_none()
        {
            return Ok(tenure);
        }
        Err(vec![Miss {
            set: 0,
            flavors: Vec::new(),
            why: Why::Reserved { work: against },
        }])
    }
}
