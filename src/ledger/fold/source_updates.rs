//! Updates about the sources of observations and this machine's own runs, beside the objects of the cluster.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::base::ObjectKey;
use model::fleet::observe::SourceHealth;
use model::fleet::run_hold::OpenRun;

use super::Ledger;

impl Ledger {
    /// False when it is as it was.
    pub(super) fn see_source(&mut self, health: SourceHealth) -> bool {
        if self.sources.get(&health.name) == Some(&health) {
            return false;
        }
        self.sources.insert(health.name.clone(), health);
        self.changed.sources = true;
        true
    }

    /// Removes a stopped source (a deleted exporter pod).
    pub fn forget_source(&mut self, name: &str) {
        self.changed.sources |= self.sources.remove(name).is_some();
    }

    /// The jobs of all runs, those of before and those of now, are built anew.
    pub(super) fn see_open_runs(&mut self, runs: Arc<[OpenRun]>) {
        let before = std::mem::replace(&mut self.open_runs, runs);
        let both = before.iter().chain(self.open_runs.iter());
        let held: BTreeSet<&ObjectKey> = both.flat_map(|run| &run.jobs).collect();
        let jobs = self.jobs.keys().filter(|id| held.contains(&id.key));
        self.dirty_jobs.extend(jobs.cloned());
    }
}
