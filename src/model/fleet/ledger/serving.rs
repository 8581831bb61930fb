//! What pods that serve models say of their requests, and what it means for their job.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::base::{Age, Moment, Name, ObjectKey};
use crate::fleet::device::Pod;
use crate::fleet::job::Serving;
use crate::fleet::reading::{Page, Reading, Scope};
use crate::fleet::signal::{Kind, Signal, Signals};

use super::Ledger;

/// A page can name any pod it likes: those beyond this many that nobody knows are left out.
const MOST_UNKNOWN: usize = 4096;

/// Words older than this many of their intervals are no longer the server's.
const HOLDS_INTERVALS: u32 = 10;

/// What one dialect last said of a pod's models.
#[derive(Clone, Serialize, Deserialize)]
struct Said {
    dialect: Name,
    at: Moment,
    interval: Duration,
    models: Vec<(Option<Name>, Signals)>,
}

/// What every serving pod last said.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(super) struct Servers(BTreeMap<ObjectKey, Vec<Said>>);

impl Servers {
    /// Hands over the values of every model, always in the same order.
    pub(super) fn visit(&mut self, take: &mut dyn FnMut(&mut Signals)) {
        for said in self.0.values_mut().flatten() {
            for (_, signals) in &mut said.models {
                take(signals);
            }
        }
    }

    pub(super) fn forget(&mut self, pod: &ObjectKey) {
        self.0.remove(pod);
    }

    /// What the pods of one job say together; `None` when none of them said anything lately.
    pub(super) fn of<'p>(
        &self,
        pods: impl Iterator<Item = &'p Pod>,
        at: Moment,
    ) -> Option<Serving> {
        let mut all = Serving::default();
        let mut sums: BTreeMap<Signal, (f64, u32)> = BTreeMap::new();
        for pod in pods {
            let said = self.0.get(pod.key()).into_iter().flatten();
            let fresh =
                said.filter(|said| at.since(said.at) <= Age::from(said.interval * HOLDS_INTERVALS));
            let mut told = false;
            for said in fresh {
                told = true;
                all.read_at = all.read_at.max(Some(said.at));
                for (model, signals) in &said.models {
                    all.models.extend(model.clone());
                    for (signal, value) in signals.iter() {
                        let (sum, count) = sums.entry(signal).or_default();
                        *sum += value;
                        *count += 1;
                    }
                }
            }
            all.servers += u32::from(told);
        }
        all.models.sort();
        all.models.dedup();
        all.signals = sums
            .into_iter()
            .map(|(signal, (sum, count))| {
                let adds_up = signal.kind() == Kind::Counter
                    || matches!(signal, Signal::RequestsRunning | Signal::RequestsWaiting);
                let value = if adds_up { sum } else { sum / f64::from(count) };
                (signal, value)
            })
            .collect();
        (all.servers > 0).then_some(all)
    }
}

impl Ledger {
    /// Takes what a page says of servers of models.
    pub(super) fn read_servers(&mut self, page: &Page) {
        let served = page
            .readings
            .iter()
            .filter(|one| one.scope == Scope::Serving);
        let mut by_pod: BTreeMap<(&ObjectKey, &Name), Vec<&Reading>> = BTreeMap::new();
        for reading in served {
            if let Some(pod) = &reading.pod {
                by_pod
                    .entry((pod, &reading.dialect))
                    .or_default()
                    .push(reading);
            }
        }
        for ((pod, dialect), readings) in by_pod {
            let servers = &mut self.serving.0;
            let bounded = servers.len() < MOST_UNKNOWN || servers.contains_key(pod);
            if !bounded && !self.pods.contains_key(pod) {
                continue;
            }
            let said = Said {
                dialect: dialect.clone(),
                at: page.at,
                interval: page.interval,
                models: readings
                    .iter()
                    .map(|one| (one.model.clone(), one.signals.clone()))
                    .collect(),
            };
            let known = servers.entry(pod.clone()).or_default();
            match known.iter_mut().find(|old| old.dialect == *dialect) {
                Some(old) => *old = said,
                None => known.push(said),
            }
            if let Some(joined) = self.joined.get(pod) {
                self.dirty_jobs.insert(joined.job.clone());
            }
        }
    }
}
