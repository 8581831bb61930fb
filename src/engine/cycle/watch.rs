//! Observes a cycle: evaluates alternatives at the point where a workload does not start.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::compiled::{CompiledFleet, QueueId, WorkloadId};
use crate::fit::{Miss, Relaxation, Why};
use crate::state::{Allocation, State};

use super::reservation::Reservations;

/// Observer of a cycle, and where the cycle stops.
#[derive(Default)]
pub(crate) struct CycleWatch<'w> {
    /// The cycle stops after this workload was tried.
    pub until: Option<WorkloadId>,
    /// Constraints that are ignored when that workload is tried.
    pub relaxation: Option<&'w Relaxation>,
    /// Called each time a workload does not start, before a reservation is made for it.
    pub missed: Option<&'w mut dyn FnMut(&mut Attempt<'_, '_>)>,
    /// Pending workloads by queue in order, and durations, if already known. Workloads of missing queues may be left out.
    pub known: Option<CycleInput>,
    /// The pods of workloads that have quota and no nodes are workloads of their own.
    pub pods_apart: bool,
    /// Nothing is preempted, nor drained.
    pub spare_all: bool,
}

/// Data that many cycles on one fleet share.
#[derive(Clone, Debug)]
pub(crate) struct CycleInput {
    pub lines: BTreeMap<QueueId, Vec<WorkloadId>>,
    pub durations: Arc<[Option<i64>]>,
}

/// A failed attempt to start a workload.
pub(crate) struct Attempt<'a, 'p> {
    pub(super) state: &'a mut State<'p>,
    pub(super) reservations: &'a mut Reservations,
    pub work: WorkloadId,
    /// Why it does not start.
    pub misses: &'a Arc<[Miss]>,
    /// Grows with every admission and reservation: while it is unchanged, workloads of one shape and duration have the same result.
    pub epoch: usize,
    /// Some test had to look whether it delays a reservation.
    pub by_reservations: bool,
}

impl<'p> Attempt<'_, 'p> {
    pub fn compiled(&self) -> &'p CompiledFleet {
        self.state.compiled()
    }

    /// Whether it fits with some constraints ignored, even if that delays reservations.
    pub fn fits(&mut self, relaxation: &Relaxation) -> bool {
        self.state.find(self.work, relaxation).is_ok()
    }

    /// Whether it would start with some constraints ignored. The state is unchanged.
    pub fn starts(&mut self, relaxation: &Relaxation) -> bool {
        let Ok(allocation) = self.state.find(self.work, relaxation) else {
            return false;
        };
        self.by_reservations |= !self.reservations.made.is_empty();
        let reservations = &mut *self.reservations;
        match reservations.conflict(self.state, self.work, &allocation) {
            None => true,
            Some(against) => reservations
                .beside(self.state, self.work, relaxation, against)
                .is_ok(),
        }
    }
}

impl Reservations {
    /// Starts a workload if it fits and delays no reservation.
    pub(crate) fn try_start(
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

    /// Tries again without the reserved nodes.
    fn beside(
        &mut self,
        state: &mut State<'_>,
        work: WorkloadId,
        relaxation: &Relaxation,
        against: WorkloadId,
    ) -> Result<Arc<Allocation>, Vec<Miss>> {
        self.pass_nodes(state);
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
