//! Rules of admission besides queues: flavors, topologies, budgets and configurations.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::base::Name;
use model::fleet::govern::{Governed, REASON, parent_words};
use model::fleet::job::Job;
use model::fleet::kinds::Table;
use model::fleet::observe::Observation;
use model::fleet::queue::{Queue, QueueKey, QueueKind, QueueSystem};

use super::Ledger;

impl Ledger {
    /// Folds an observation of a rule; ignores every other observation.
    pub(super) fn see_rule(&mut self, observation: Observation) {
        match observation {
            Observation::Flavor(flavor) => {
                self.mention_wide(Table::ResourceFlavors, &flavor.name);
                self.tables.see_flavor(*flavor);
            }
            Observation::Topology(topology) => {
                self.mention_wide(Table::Topologies, &topology.name);
                self.tables.see_topology(*topology);
            }
            Observation::Budget(budget) => {
                self.mention(Table::Budgets, &budget.key);
                self.tables.see_budget(*budget);
            }
            Observation::KueueConfig(config) => {
                self.mention(Table::KueueConfig, &config.key);
                self.tables.see_kueue(*config);
            }
            Observation::GovernQueues(seen) => {
                self.mention(Table::GovernQueues, &seen.key);
                if self.tables.see_govern(*seen) {
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

    /// The queues of `govern` with the devices allocated to their admitted jobs, which no object of the cluster has.
    pub(super) fn with_govern_usage(
        &self,
        queues: Arc<[Arc<Queue>]>,
        jobs: &[Arc<Job>],
    ) -> Arc<[Arc<Queue>]> {
        if self.tables.govern().is_none() {
            return queues;
        }
        let mut used: BTreeMap<(Name, String), i64> = BTreeMap::new();
        for job in jobs.iter().filter(|job| job.is_live()) {
            let Some(governed) = job.govern.as_deref() else {
                continue;
            };
            let is_ours = job.queue_system == QueueSystem::Stokehold;
            if !is_ours || !governed.is_admitted() && job.devices_allocated == 0 {
                continue;
            }
            let mut add = |flavor: &Name, devices: u32| {
                let key = (governed.queue.clone(), flavor.to_ascii_lowercase());
                *used.entry(key).or_default() += i64::from(devices) * 1000;
            };
            if !governed.is_admitted() {
                if let Some(class) = &job.class {
                    add(class, job.devices_allocated);
                }
                continue;
            }
            for set in job.pod_sets.iter() {
                let name = if set.name.is_empty() {
                    "main"
                } else {
                    &set.name
                };
                if let Some(flavor) = governed.flavor(name) {
                    let each = set.request.device_count();
                    add(&flavor, each.saturating_mul(set.count));
                }
            }
        }
        let filled = |queue: &Arc<Queue>| {
            if queue.system() != QueueSystem::Stokehold || queue.key.kind != QueueKind::Queue {
                return Arc::clone(queue);
            }
            let mut own = (**queue).clone();
            for quota in &mut own.quotas {
                let key = (queue.name().clone(), quota.flavor.to_ascii_lowercase());
                let held = used.get(&key).copied().unwrap_or(0);
                quota.used = Some(held);
                quota.borrowed = Some((held - quota.nominal.unwrap_or(held)).max(0));
            }
            Arc::new(own)
        };
        queues.iter().map(filled).collect()
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
            let words = governed.hold_words();
            return Some((Some("suspended"), Name::new(words)));
        }
        let state = self.tables.govern().filter(|state| state.is_read);
        let key = |kind| QueueKey {
            system: QueueSystem::Stokehold,
            kind,
            name: governed.queue.clone(),
        };
        if let Some(state) = state
            && !self.tables.has_queue(&key(QueueKind::Queue))
        {
            let is_cohort = self.tables.is_parent(&key(QueueKind::Cohort));
            let (queue, key) = (&governed.queue, &state.key);
            let words = match is_cohort {
                true => parent_words(queue),
                false => format!("there is no queue {queue} in ConfigMap {key}"),
            };
            return Some((Some("no-queue"), Name::from(words)));
        }
        let reason = governed.notes.get(REASON).filter(|text| !text.is_empty());
        reason.map(|text| (Some("queued"), text.clone()))
    }
}
