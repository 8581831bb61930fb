//! A cycle under somebody's eyes: what would have been, at the very turn of one who did not start.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::compiled::{CompiledFleet, QueueId, WorkloadId};
use crate::fit::{Miss, Relaxation, Why};
use crate::state::{Allocation, State};

use super::reservation::Reservations;

/// Who looks on, and how far the cycle goes.
#[derive(Default)]
pub(crate) struct Watch<'w> {
    /// The cycle ends with this one's turn.
    pub until: Option<WorkloadId>,
    /// What is left out of account at that turn.
    pub relaxation: Option<&'w Relaxation>,
    /// Is called at each turn of one that does not start, before room is kept for it.
    pub missed: Option<&'w mut dyn FnMut(&mut Attempt<'_, '_>)>,
    /// Who waits, by queue and in order, and how long each workload runs, where that is known already. Those whose queue is not
    /// there may be missing.
    pub known: Option<Known>,
    /// Nothing.
    pub plain: Relaxation,
}

/// What many cycles on one fleet have in common.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub lines: BTreeMap<QueueId, Vec<WorkloadId>>,
    pub durations: Arc<[Option<i64>]>,
}

/// The turn of a workload that does not start.
pub(crate) struct Attempt<'a, 'p> {
    pub(super) state: &'a mut State<'p>,
    pub(super) reservations: &'a mut Reservations,
    /// Which.
    pub work: WorkloadId,
    /// Why it does not.
    pub misses: &'a Arc<[Miss]>,
    /// Grows with everything that is admitted or kept: while it is the same, workloads of one shape fare alike.
    pub epoch: usize,
}

impl<'p> Attempt<'_, 'p> {
    /// Of which fleet.
    pub fn compiled(&self) -> &'p CompiledFleet {
        self.state.compiled()
    }

    /// Whether there is room for it with something left out of account, whomever that delays.
    pub fn fits(&mut self, relaxation: &Relaxation) -> bool {
        self.state.find(self.work, relaxation).is_ok()
    }

    /// Whether it would start with something left out of account. The state stays as it is.
    pub fn starts(&mut self, relaxation: &Relaxation) -> bool {
        self.reservations
            .may_start(self.state, self.work, relaxation)
    }
}

impl Reservations {
    /// Starts a workload if it fits and delays no reservation.
    pub(super) fn try_start(
        &mut self,
        state: &mut State<'_>,
        work: WorkloadId,
        relaxation: &Relaxation,
    ) -> Result<Arc<Allocation>, Vec<Miss>> {
        let mark = state.mark();
        let allocation = state.start(work, relaxation)?;
        let Some(against) = self.conflict(state, work, &allocation) else {
            self.keep(state, work, &allocation);
            return Ok(allocation);
        };
        state.undo_to(mark);
        let allocation = self.beside(state, work, relaxation, against)?;
        state.admit(work, allocation.clone());
        self.keep(state, work, &allocation);
        Ok(allocation)
    }

    fn may_start(
        &mut self,
        state: &mut State<'_>,
        work: WorkloadId,
        relaxation: &Relaxation,
    ) -> bool {
        let Ok(allocation) = state.find(work, relaxation) else {
            return false;
        };
        match self.conflict(state, work, &allocation) {
            None => true,
            Some(against) => self.beside(state, work, relaxation, against).is_ok(),
        }
    }

    /// Once more, beside the nodes that are kept.
    fn beside(
        &mut self,
        state: &mut State<'_>,
        work: WorkloadId,
        relaxation: &Relaxation,
        against: WorkloadId,
    ) -> Result<Arc<Allocation>, Vec<Miss>> {
        self.tell_nodes(state);
        state.set_beside(true);
        let again = state.find(work, relaxation);
        state.set_beside(false);
        if let Ok(allocation) = again
            && self.conflict(state, work, &allocation).is_none()
        {
            return Ok(allocation);
        }
        Err(vec![Miss {
            set: 0,
            flavors: Vec::new(),
            why: Why::Reserved { work: against },
        }])
    }
}
