//! The state of a ledger beyond the last observation of each object, as a value that can be written to a file.
//!
//! Objects are not in it: a keyframe has them as observations. It has what the ledger adds up or remembers: the last
//! readings by dialect, since when a device idles, the pod that its exporter named, how long past jobs ran.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Deserializer, Serialize};

use model::base::{Moment, Name};
use model::fleet::job::JobKey;
use model::fleet::reading::Page;
use model::fleet::signal::Signals;

use super::Ledger;
use crate::fold::devices::readings::NodeReadings;
use crate::fold::workloads::runs::RunCollector;
use crate::fold::workloads::serving::Servers;

/// See the head of this file. What a later version adds is read as empty from files of an earlier one.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SavedLedger {
    nodes: BTreeMap<Name, NodeReadings>,
    #[serde(deserialize_with = "pages_of_each")]
    unmatched_pages: BTreeMap<Name, Vec<Page>>,
    serving: Servers,
    runs: RunCollector,
    /// When each node was built: its exporters' readings may have become too old since.
    nodes_at: BTreeMap<Name, Moment>,
    jobs_at: BTreeMap<JobKey, Moment>,
}

/// Files of before keep one page a host.
fn pages_of_each<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<BTreeMap<Name, Vec<Page>>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum SavedPages {
        Several(Vec<Page>),
        One(Box<Page>),
    }
    let read = BTreeMap::<Name, SavedPages>::deserialize(from)?;
    let all = read.into_iter().map(|(host, pages)| match pages {
        SavedPages::Several(pages) => (host, pages),
        SavedPages::One(page) => (host, vec![*page]),
    });
    Ok(all.collect())
}

impl SavedLedger {
    /// The part that the next program takes over: runtimes of past jobs. The rest is read again.
    #[must_use]
    pub fn handed_on(self) -> Self {
        Self {
            runs: self.runs.handed_on(),
            ..Self::default()
        }
    }

    /// Hands over the values of every row of readings, always in the same order: a file keeps them in columns.
    pub fn visit_signals(&mut self, mut take: impl FnMut(&mut Signals)) {
        for readings in self.nodes.values_mut() {
            readings.visit(&mut take);
        }
        for page in self.unmatched_pages.values_mut().flatten() {
            for reading in &mut page.readings {
                take(&mut reading.signals);
            }
        }
        self.serving.visit(&mut take);
    }
}

impl Ledger {
    /// What the last observations alone do not say; see [`SavedLedger`].
    pub fn save(&self) -> SavedLedger {
        let read = self
            .nodes
            .iter()
            .filter(|(_, state)| !state.readings.is_empty());
        SavedLedger {
            nodes: read
                .map(|(name, state)| (name.clone(), state.readings.clone()))
                .collect(),
            unmatched_pages: self.unmatched_pages.clone(),
            serving: self.serving.clone(),
            runs: self.runs.clone(),
            nodes_at: self
                .nodes
                .iter()
                .filter(|(_, state)| state.built.is_some())
                .map(|(name, state)| (name.clone(), state.built_at))
                .collect(),
            jobs_at: self
                .jobs_at
                .iter()
                .map(|(job, at)| (job.clone(), *at))
                .collect(),
        }
    }

    /// Restores saved state. Its objects have been applied before.
    pub fn restore(&mut self, saved: SavedLedger) {
        for (name, readings) in saved.nodes {
            // A node deleted since has no readings.
            if let Some(state) = self.nodes.get_mut(&name) {
                state.readings = readings;
                self.dirty_nodes.insert(name);
            }
        }
        self.unmatched_pages = saved.unmatched_pages;
        self.serving = saved.serving;
        self.runs = saved.runs;
        self.settle_claims();
        // Each is built as of its own time, and not as of the next snapshot.
        let mut nodes: BTreeMap<Moment, BTreeSet<Name>> = BTreeMap::new();
        for (name, at) in saved.nodes_at {
            if self.dirty_nodes.remove(&name) {
                nodes.entry(at).or_default().insert(name);
            }
        }
        let others = std::mem::take(&mut self.dirty_nodes);
        for (at, names) in nodes {
            self.dirty_nodes = names;
            self.rebuild_nodes(at);
        }
        self.dirty_nodes = others;
        self.dirty_jobs.extend(self.jobs.keys().cloned());
        let mut jobs: BTreeMap<Moment, BTreeSet<JobKey>> = BTreeMap::new();
        for (job, at) in saved.jobs_at {
            if self.dirty_jobs.remove(&job) {
                jobs.entry(at).or_default().insert(job);
            }
        }
        let others = std::mem::take(&mut self.dirty_jobs);
        for (at, jobs) in jobs {
            self.dirty_jobs = jobs;
            self.rebuild_jobs(at);
        }
        self.dirty_jobs = others;
    }
}
