//! What decides who is admitted, besides queues and their doors: flavors, topologies, budgets and configurations.

use crate::base::Name;
use crate::fleet::govern::{Governed, REASON};
use crate::fleet::observe::{Observation, Table};
use crate::fleet::queue::{QueueKey, QueueKind, QueueSystem};

use super::Ledger;

impl Ledger {
    /// Folds an observation of a rule; every other observation is none of this.
    pub(super) fn see_rule(&mut self, observation: Observation) {
        match observation {
            Observation::Flavor(flavor) => {
                self.mention_wide(Table::ResourceFlavors, &flavor.name);
                self.shelves.see_flavor(*flavor);
            }
            Observation::Topology(topology) => {
                self.mention_wide(Table::Topologies, &topology.name);
                self.shelves.see_topology(*topology);
            }
            Observation::Budget(budget) => {
                self.mention(Table::Budgets, &budget.key);
                self.shelves.see_budget(*budget);
            }
            Observation::KueueConfig(config) => {
                self.mention(Table::KueueConfig, &config.key);
                self.shelves.see_kueue(*config);
            }
            Observation::GovernQueues(seen) => {
                self.mention(Table::GovernQueues, &seen.key);
                if self.shelves.see_govern(*seen) {
                    // Jobs name queues that may be there now, or no more.
                    let jobs = self.jobs.values();
                    let queued = jobs.filter(|job| job.queue.is_some());
                    let keys: Vec<_> = queued.map(|job| job.id.clone()).collect();
                    self.dirty_jobs.extend(keys);
                }
            }
            _ => {}
        }
    }

    /// Why a suspended job of a queue of `govern` waits, where more is known than that it is not admitted yet.
    pub(super) fn govern_reason(
        &self,
        governed: &Governed,
    ) -> Option<(Option<&'static str>, Name)> {
        if !governed.suspended {
            return None;
        }
        if governed.is_held() {
            let words = "held by its annotation stokehold.dev/hold";
            return Some((Some("suspended"), Name::new(words)));
        }
        let state = self.shelves.govern().filter(|state| state.is_read);
        let key = |kind| QueueKey {
            system: QueueSystem::Stokehold,
            kind,
            name: governed.queue.clone(),
        };
        if let Some(state) = state
            && !self.shelves.has_queue(&key(QueueKind::Queue))
        {
            let is_cohort = self.shelves.is_parent(&key(QueueKind::Cohort));
            let (queue, key) = (&governed.queue, &state.key);
            let words = match is_cohort {
                true => format!(
                    "{queue} is a parent of queues, which admits nothing: name one of its queues"
                ),
                false => format!("there is no queue {queue} in ConfigMap {key}"),
            };
            return Some((Some("no-queue"), Name::from(words)));
        }
        let told = governed.notes.get(REASON).filter(|text| !text.is_empty());
        told.map(|text| (Some("queued"), text.clone()))
    }
}
