//! Rebuilds the nodes and jobs that an observation affects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use model::base::{Moment, ObjectKey};
use model::fleet::device::Pod;
use model::fleet::node::Node;
use model::fleet::seen::PodSeen;

use super::Ledger;
use super::facts::NodeLabels;
use super::unseen;
use crate::fold::devices::join;
use crate::fold::devices::join::PodsOnNode;
use crate::fold::workloads::jobs;

fn on_node(
    keys: &BTreeSet<ObjectKey>,
    pods: &FxHashMap<ObjectKey, Arc<PodSeen>>,
    joined: &FxHashMap<ObjectKey, Arc<Pod>>,
) -> PodsOnNode {
    let mut holders: Vec<Arc<Pod>> = Vec::new();
    let mut others: Vec<Arc<PodSeen>> = Vec::new();
    for key in keys {
        let Some(pod) = pods.get(key).filter(|pod| !pod.phase.is_over()) else {
            continue;
        };
        match joined.get(key).filter(|pod| pod.holds_devices()) {
            Some(holder) => holders.push(Arc::clone(holder)),
            None => others.push(Arc::clone(pod)),
        }
    }
    PodsOnNode {
        holders: holders.into(),
        others: others.into(),
    }
}

impl Ledger {
    pub(super) fn rebuild_nodes(&mut self, at: Moment) {
        let refused = self.nodes_are_refused();
        let withheld = self.slices_are_withheld();
        let given = match refused {
            true => self.given_products(),
            false => BTreeMap::new(),
        };
        let dirty = std::mem::take(&mut self.dirty_nodes);
        let read = std::mem::take(&mut self.read_nodes);
        for name in read.union(&dirty) {
            let only_read = !dirty.contains(name);
            let Some(state) = self.nodes.get_mut(name) else {
                continue;
            };
            let Some(seen) = unseen::seen(refused, name, state) else {
                state.built = None;
                self.changed.nodes = true;
                self.changed.shapes = true;
                continue;
            };
            let pods = match &state.built {
                Some(old) if only_read => PodsOnNode::of(old),
                _ => on_node(&state.pods, &self.pods, &self.joined),
            };
            let seen = unseen::with_wants(&state.seen, seen, &pods.holders);
            let chips = self.claims.devices_of_node(name, &state.wide, withheld);
            let unlisted;
            let labels = match state.seen {
                Some(_) => &state.labels,
                None => {
                    let mut labels = NodeLabels::of(&seen, &self.policy, &mut self.names);
                    labels.product = given.get(name).cloned();
                    unlisted = labels;
                    &unlisted
                }
            };
            let node = join::build(
                seen,
                labels,
                &chips,
                pods,
                &mut state.readings,
                (state.seen.is_some(), state.built.as_deref()),
                &mut join::Bench {
                    policy: &self.policy,
                    names: &mut self.names,
                    models: &mut self.models,
                    at,
                },
            );
            state.built_at = at;
            let built = unseen::shown(&state.seen, node);
            self.changed.shapes |= is_reshaped(state.built.as_deref(), built.as_deref());
            // A job's places and utilization depend on its devices, those of the old state included.
            let old = std::mem::replace(&mut state.built, built);
            state.fresh_until = state.fresh_after(at);
            let old = old.iter().filter(|_| !only_read);
            let pods = old.chain(&state.built).flat_map(|node| &node.pods);
            let mut last = None;
            for pod in pods.filter(|pod| last.replace(&pod.job) != Some(&pod.job)) {
                match only_read {
                    true => self.read_jobs.insert(pod.job.clone()),
                    false => self.dirty_jobs.insert(pod.job.clone()),
                };
            }
            self.changed.nodes = true;
        }
    }

    /// Marks the jobs of devices whose readings have become stale: nothing else says that their utilization is unknown now.
    pub(super) fn age_readings(&mut self, at: Moment) {
        for state in self.nodes.values_mut() {
            if state.fresh_until.is_none_or(|until| until >= at) {
                continue;
            }
            state.fresh_until = state.fresh_after(at);
            let pods = state.built.iter().flat_map(|node| &node.pods);
            self.read_jobs.extend(pods.map(|pod| pod.job.clone()));
        }
    }

    pub(super) fn rebuild_jobs(&mut self, at: Moment) {
        let dirty = std::mem::take(&mut self.dirty_jobs);
        let read = std::mem::take(&mut self.read_jobs);
        for id in read.union(&dirty) {
            self.changed.jobs = true;
            let old = self.jobs.get(id).filter(|_| !dirty.contains(id));
            let read_anew = old.and_then(|old| jobs::read_anew(self, old, at));
            match read_anew.or_else(|| jobs::build(self, id, at)) {
                Some(mut job) => {
                    job.pod_sets = self.sitings.sets(job.pod_sets);
                    self.runs.note(&job);
                    self.jobs_at.insert(id.clone(), at);
                    self.jobs.insert(id.clone(), Arc::new(job));
                }
                None => {
                    self.runs.forget(id);
                    self.jobs_at.remove(id);
                    self.jobs.remove(id);
                }
            }
        }
    }
}

/// True when more of a node has changed than its pods and how its devices fare: its object, its pool, which devices it has.
fn is_reshaped(old: Option<&Node>, new: Option<&Node>) -> bool {
    let (Some(old), Some(new)) = (old, new) else {
        return old.is_some() || new.is_some();
    };
    !Arc::ptr_eq(&old.seen, &new.seen)
        || old.pool != new.pool
        || old.devices.len() != new.devices.len()
        || old.devices.iter().zip(&new.devices).any(|(old, new)| {
            (&old.class, old.vendor, old.kind) != (&new.class, new.vendor, new.kind)
        })
}
