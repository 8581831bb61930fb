//! The victims of one workload, as its scheduler would choose them or by another rule.

use crate::compiled::WorkloadId;
use crate::preempt::{Holders, NoPreemption, PreemptMode, Spared, Victims};
use crate::snapshot::Status;
use crate::state::State;

impl State<'_> {
    /// The victims with which a workload can start. The state is unchanged.
    ///
    /// # Errors
    /// Why there is no preemption.
    pub fn victims(
        &mut self,
        work: WorkloadId,
        mode: PreemptMode,
    ) -> Result<Victims, NoPreemption> {
        self.victims_but(work, mode, &|_| false)
    }

    /// The same, with some workloads excluded.
    ///
    /// # Errors
    /// As [`State::victims`].
    pub fn victims_but(
        &mut self,
        work: WorkloadId,
        mode: PreemptMode,
        spared: &dyn Fn(WorkloadId) -> bool,
    ) -> Result<Victims, NoPreemption> {
        let holders = Holders::new(self);
        let victims = self.victims_except(work, mode, &holders, spared)?;
        match victims.list.is_empty() {
            true => Err(NoPreemption::Ending(victims.ending)),
            false => Ok(victims),
        }
    }

    /// The same with known holders, also where only workloads have to end that are being evicted already.
    pub(crate) fn victims_except(
        &mut self,
        work: WorkloadId,
        mode: PreemptMode,
        holders: &Holders,
        spared: Spared<'_>,
    ) -> Result<Victims, NoPreemption> {
        let standing = self.workload_state(work);
        if standing.allocation.is_some()
            || standing.status != Status::Waiting
            || self.workload(work).blocked.is_some()
        {
            return Err(NoPreemption::Needless);
        }
        // Queues preempt by their own rules, not by the pods' policy; an operator evicts manually.
        let model = self.workload(work);
        if model.never_preempts && model.queue.is_none() && mode != PreemptMode::ByHand {
            return Err(NoPreemption::Protected);
        }
        if mode != PreemptMode::AsCluster {
            return self.victims_on_nodes(work, mode, holders, spared);
        }
        let queue = self.compiled().workloads[work].queue;
        (super::of(self.compiled(), queue).victims)(self, work, holders, spared)
    }
}
