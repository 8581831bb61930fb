//! Nodes and jobs made anew where an observation touched them.

use std::sync::Arc;

use crate::base::Moment;
use crate::fleet::device::Pod;
use crate::fleet::observe::PodSeen;

use super::{Ledger, jobs, join, unseen};

impl Ledger {
    pub(super) fn rebuild_nodes(&mut self, at: Moment) {
        let refused = self.nodes_are_refused();
        let withheld = self.slices_are_withheld();
        for name in std::mem::take(&mut self.dirty_nodes) {
            let Some(state) = self.nodes.get_mut(&name) else {
                continue;
            };
            let Some(seen) = unseen::seen(refused, &name, state) else {
                state.built = None;
                self.changed.nodes = true;
                continue;
            };
            let mut bound: Vec<Arc<Pod>> = Vec::new();
            let mut others: Vec<Arc<PodSeen>> = Vec::new();
            for key in &state.pods {
                let Some(pod) = self.pods.get(key).filter(|pod| !pod.phase.is_over()) else {
                    continue;
                };
                match self.joined.get(key).filter(|pod| pod.holds_devices()) {
                    Some(holder) => bound.push(Arc::clone(holder)),
                    None => others.push(Arc::clone(pod)),
                }
            }
            let seen = unseen::with_wants(&state.seen, seen, &bound);
            let chips = self.claims.chips(&name, &state.wide, withheld);
            let node = join::build(
                seen,
                &chips,
                bound,
                others,
                &mut state.readings,
                state.built.as_deref(),
                &self.policy,
                &mut self.names,
                at,
            );
            // A job's places and utilisation hang on its devices, those of the old picture included.
            let old = std::mem::replace(&mut state.built, unseen::shown(&state.seen, node));
            for pod in old
                .iter()
                .chain(state.built.iter())
                .flat_map(|node| node.pods.iter())
            {
                self.dirty_jobs.insert(pod.job.clone());
            }
            self.changed.nodes = true;
        }
    }

    pub(super) fn rebuild_jobs(&mut self, at: Moment) {
        for id in std::mem::take(&mut self.dirty_jobs) {
            self.changed.jobs = true;
            match jobs::build(self, &id, at) {
                Some(mut job) => {
                    job.pod_sets = self.sitings.sets(job.pod_sets);
                    self.runs.note(&job);
                    self.jobs.insert(id, Arc::new(job))
                }
                None => {
                    self.runs.forget(&id);
                    self.jobs.remove(&id)
                }
            };
        }
    }
}
