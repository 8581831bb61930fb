//! Admission as Kueue does it: best effort, first in first out, with reclaim and preemption.

use model::base::{Name, SmallSort};
use model::plan::StopPolicy;

use crate::world::catalog::POOLS;
use crate::world::work::{Work, WorkId, WorkKind};
use crate::world::{Ref, World};

impl World {
    /// Effective priority of a queued work.
    pub(in crate::world) fn rank(work: &Work) -> i32 {
        work.workload
            .as_ref()
            .and_then(|workload| workload.priority)
            .unwrap_or(work.priority)
    }

    /// Puts a work at its place in its queue, or takes it out when it must not be there.
    pub(in crate::world) fn enqueue(&mut self, id: WorkId) {
        let Some(work) = self.works.get(&id) else {
            return;
        };
        let (Some(queue), Some(workload)) = (&work.queue, &work.workload) else {
            return;
        };
        let cluster = self
            .queues
            .find(&work.namespace, queue)
            .map(|found| found.0);
        let entry = (-Self::rank(work), workload.created.millis(), id);
        let wants = workload.active && workload.reserved.is_none() && !work.is_over();
        for (at, queue) in self.queues.clusters.iter_mut().enumerate() {
            queue.pending.retain(|pending| pending.2 != id);
            if wants && Some(at) == cluster {
                queue.pending.insert(entry);
            }
        }
        if self.live {
            self.touch_queues(id);
            self.kick_admission();
        }
    }

    /// Marks a work's queues as changed.
    pub(in crate::world) fn touch_queues(&mut self, id: WorkId) {
        let Some(work) = self.works.get(&id) else {
            return;
        };
        let Some(queue) = &work.queue else { return };
        if let Some((cluster, local)) = self.queues.find(&work.namespace, queue) {
            self.touch(Ref::Cluster(cluster));
            self.touch(Ref::Local(local));
        }
    }

    /// One pass over all queues, as in Kueue: in each round the next workload of every queue, those that need not borrow
    /// first, then by priority and age.
    pub(in crate::world) fn admit(&mut self) {
        let mut lines: Vec<std::vec::IntoIter<WorkId>> = Vec::new();
        for queue in &self.queues.clusters {
            let pending: Vec<WorkId> = queue.pending.iter().map(|entry| entry.2).collect();
            lines.push(pending.into_iter());
        }
        loop {
            let mut heads: Vec<(bool, i32, i64, WorkId, usize)> = Vec::new();
            for (cluster, line) in lines.iter_mut().enumerate() {
                let Some(id) = line.next() else { continue };
                let Some(work) = self.works.get(&id) else {
                    continue;
                };
                let cell = self.queues.cell(cluster, work);
                let borrows = cell.is_some_and(|cell| {
                    let own = &self.queues.clusters[cluster].quotas[cell];
                    own.used + work.devices() > own.nominal
                });
                let age = work.workload.as_ref().map_or(0, |w| w.created.millis());
                heads.push((borrows, -Self::rank(work), age, id, cluster));
            }
            if heads.is_empty() {
                return;
            }
            heads.small_sort();
            for (.., id, cluster) in heads {
                let queue = &self.queues.clusters[cluster];
                if queue.gone || queue.stop != StopPolicy::None {
                    let words = format!("ClusterQueue {} is inactive", queue.name);
                    self.refuse(id, "Inadmissible", words);
                } else {
                    self.consider(cluster, id);
                }
            }
        }
    }

    /// Admits a workload, preempts for it, or records why neither is possible.
    pub(in crate::world) fn consider(&mut self, cluster: usize, id: WorkId) {
        let Some(work) = self.works.get(&id) else {
            return;
        };
        let Some(queue) = &work.queue else { return };
        let held = self
            .queues
            .find(&work.namespace, queue)
            .is_some_and(|(_, local)| self.queues.locals[local].stop != StopPolicy::None);
        if held {
            let text = format!("LocalQueue {queue} is inactive");
            return self.refuse(id, "Inadmissible", text);
        }
        let set = work
            .groups
            .first()
            .map_or_else(|| "main".to_owned(), |_| Self::pod_set(work));
        let resource = work.ask.resource.clone().unwrap_or_default();
        let wanted = work.devices();
        let Some(cell) = self.queues.cell(cluster, work) else {
            let text = if resource.is_empty() {
                // Nothing that a quota counts: free to go.
                return self.reserve(cluster, usize::MAX, id);
            } else {
                format!(
                    "couldn't assign flavors to pod set {set}: resource {resource} unavailable in ClusterQueue"
                )
            };
            return self.refuse(id, "Pending", text);
        };
        let flavor = POOLS[self.queues.clusters[cluster].quotas[cell].flavor].flavor;
        let ceiling = self.queues.ceiling(cluster, cell);
        if wanted > ceiling {
            return self.refuse(
                id,
                "Pending",
                format!("couldn't assign flavors to pod set {set}: insufficient quota for {resource} in flavor {flavor}, request > maximum capacity ({wanted} > {ceiling})"),
            );
        }
        let room = self.queues.available(cluster, cell);
        if wanted <= room {
            return self.reserve(cluster, cell, id);
        }
        let short = wanted - room;
        let text = format!(
            "couldn't assign flavors to pod set {set}: insufficient unused quota for {resource} in flavor {flavor}, {short} more needed"
        );
        let victims = self.victims(cluster, cell, id, wanted);
        if victims.is_empty() {
            return self.refuse(id, "Pending", text);
        }
        for (victim, reason) in victims {
            self.preempt(victim, id, reason);
        }
        // The freed quota is reserved immediately; otherwise the victims would be admitted again first.
        if wanted <= self.queues.available(cluster, cell) {
            self.reserve(cluster, cell, id);
        }
    }

    /// The workloads to preempt so that `wanted` fits: borrowers of the cohort first, then lower priorities of the same queue,
    /// newest first; victims that turn out to be unnecessary are dropped from the set. Empty when no set is enough.
    fn victims(
        &mut self,
        cluster: usize,
        cell: usize,
        id: WorkId,
        wanted: u32,
    ) -> Vec<(WorkId, &'static str)> {
        let queue = &self.queues.clusters[cluster];
        let own = &queue.quotas[cell];
        let Some(work) = self.works.get(&id) else {
            return Vec::new();
        };
        let reclaims = own.used + wanted <= own.nominal;
        if !reclaims && !queue.preempts_within {
            return Vec::new();
        }
        let mut candidates: Vec<(u8, i32, i64, WorkId, usize, usize)> = Vec::new();
        for (at, other) in self.queues.clusters.iter().enumerate() {
            let same = at == cluster;
            if other.gone
                || (!same && (!reclaims || other.cohort != queue.cohort))
                || (same && !queue.preempts_within)
            {
                continue;
            }
            for &victim in &other.reserving {
                let Some(held) = self.works.get(&victim) else {
                    continue;
                };
                let Some((_, quota, since)) = held.workload.as_ref().and_then(|w| w.reserved)
                else {
                    continue;
                };
                let Some(theirs) = other.quotas.get(quota) else {
                    continue;
                };
                if theirs.flavor != own.flavor || theirs.resource != own.resource {
                    continue;
                }
                let rank = Self::rank(held);
                if same && rank >= Self::rank(work) {
                    continue;
                }
                if !same && theirs.used <= theirs.nominal {
                    continue;
                }
                candidates.push((u8::from(same), rank, -since.millis(), victim, at, quota));
            }
        }
        candidates.small_sort();
        // Tried on the books themselves, which are put right again.
        let before: Vec<Vec<u32>> = self
            .queues
            .clusters
            .iter()
            .map(|queue| queue.quotas.iter().map(|quota| quota.used).collect())
            .collect();
        let mut taken = Vec::new();
        for (same, _, _, victim, at, quota) in candidates {
            if self.queues.available(cluster, cell) >= wanted {
                break;
            }
            let size = self
                .works
                .get(&victim)
                .and_then(|held| held.workload.as_ref())
                .map_or(0, |held| held.size);
            let theirs = &mut self.queues.clusters[at].quotas[quota];
            if same == 0 && theirs.used <= theirs.nominal {
                continue;
            }
            theirs.used = theirs.used.saturating_sub(size);
            let reason = if same == 1 {
                "InClusterQueue"
            } else {
                "InCohortReclamation"
            };
            taken.push((victim, at, quota, size, reason));
        }
        let enough = self.queues.available(cluster, cell) >= wanted;
        if enough {
            for spare in (0..taken.len()).rev() {
                let (_, at, quota, size, _) = taken[spare];
                self.queues.clusters[at].quotas[quota].used += size;
                if self.queues.available(cluster, cell) >= wanted {
                    taken.remove(spare);
                } else {
                    self.queues.clusters[at].quotas[quota].used -= size;
                }
            }
        } else {
            taken.clear();
        }
        for (queue, used) in self.queues.clusters.iter_mut().zip(before) {
            for (quota, used) in queue.quotas.iter_mut().zip(used) {
                quota.used = used;
            }
        }
        taken
            .into_iter()
            .map(|(victim, .., reason)| (victim, reason))
            .collect()
    }

    fn preempt(&mut self, victim: WorkId, by: WorkId, reason: &'static str) {
        let by_uid = self
            .works
            .get(&by)
            .and_then(|work| work.workload.as_ref())
            .map_or(0, |workload| workload.uid);
        let why = match reason {
            "InClusterQueue" => "prioritization in the ClusterQueue",
            _ => "reclamation within the cohort",
        };
        let text = format!(
            "Preempted to accommodate a workload (UID: {}, JobUID: unknown) due to {why}",
            crate::world::noise::uuid(by_uid)
        );
        self.evict_workload(victim, "Preempted", &text);
        if let Some(workload) = self
            .works
            .get_mut(&victim)
            .and_then(|work| work.workload.as_mut())
        {
            workload.preempted = Some(Name::new(reason));
        }
    }

    /// Takes the quota back and suspends the job.
    pub(in crate::world) fn evict_workload(&mut self, id: WorkId, reason: &str, message: &str) {
        let now = self.now;
        self.unreserve(id);
        let Some(work) = self.works.get_mut(&id) else {
            return;
        };
        if let Some(workload) = &mut work.workload {
            workload.evicted = Some((Name::new(reason), Name::new(message), now));
            workload.preempted = None;
            workload.evictions += 1;
            workload.queued = now;
            workload.pods_ready = None;
            workload.pending = (
                Name::new("Pending"),
                Name::new("The workload was evicted and waits again"),
                now,
            );
        }
        self.touch(Ref::Workload(id));
        self.work_event(
            id,
            "Normal",
            if reason == "Preempted" {
                "Preempted"
            } else {
                "Evicted"
            },
            message.to_owned(),
        );
        self.suspend(id);
        self.enqueue(id);
    }

    /// Gives a work's quota back.
    pub(in crate::world) fn unreserve(&mut self, id: WorkId) {
        let Some(work) = self.works.get_mut(&id) else {
            return;
        };
        let Some(workload) = work.workload.as_mut() else {
            return;
        };
        let size = workload.size;
        let Some((cluster, cell, _)) = workload.reserved.take() else {
            return;
        };
        let queue = &mut self.queues.clusters[cluster];
        queue.reserving.remove(&id);
        if let Some(quota) = queue.quotas.get_mut(cell) {
            quota.used = quota.used.saturating_sub(size);
        }
        self.touch(Ref::Cluster(cluster));
        self.touch(Ref::Workload(id));
        self.touch_queues(id);
        if self.live {
            self.kick_admission();
        }
    }

    /// Reserves quota and resumes the job.
    pub(in crate::world) fn reserve(&mut self, cluster: usize, cell: usize, id: WorkId) {
        let now = self.now;
        let flavor = self.queues.clusters[cluster]
            .quotas
            .get(cell)
            .map(|quota| quota.flavor);
        let Some(work) = self.works.get_mut(&id) else {
            return;
        };
        let size = work.devices();
        if work.pool.is_none() && work.selector.is_empty() {
            work.pool = flavor;
        }
        if let Some(workload) = &mut work.workload {
            workload.reserved = Some((cluster, cell, now));
            workload.size = size;
        }
        let waited = work
            .workload
            .as_ref()
            .map_or(0, |w| now.since(w.queued).seconds());
        let queue = &mut self.queues.clusters[cluster];
        queue.pending.retain(|entry| entry.2 != id);
        queue.reserving.insert(id);
        if let Some(quota) = queue.quotas.get_mut(cell) {
            quota.used += size;
        }
        let name = queue.name.clone();
        self.touch(Ref::Cluster(cluster));
        self.touch(Ref::Workload(id));
        self.touch_queues(id);
        if self.live {
            self.workload_event(
                id,
                "QuotaReserved",
                format!(
                    "Quota reserved in ClusterQueue {name}, wait time since queued was {waited}s"
                ),
            );
            self.workload_event(
                id,
                "Admitted",
                format!("Admitted by ClusterQueue {name}, wait time since reservation was 0s"),
            );
            self.resume(id);
        }
    }

    fn refuse(&mut self, id: WorkId, reason: &str, message: String) {
        let now = self.now;
        let Some(work) = self.works.get_mut(&id) else {
            return;
        };
        let Some(workload) = &mut work.workload else {
            return;
        };
        if &*workload.pending.0 == reason && *workload.pending.1 == *message {
            return;
        }
        let same_reason = &*workload.pending.0 == reason;
        let since = if same_reason { workload.pending.2 } else { now };
        workload.pending = (Name::new(reason), Name::from(message), since);
        self.touch(Ref::Workload(id));
    }

    /// The name of a work's first pod set in its Workload.
    pub(in crate::world) fn pod_set(work: &Work) -> String {
        match work.kind {
            WorkKind::JobSet => "workers".to_owned(),
            WorkKind::PyTorchJob | WorkKind::RayJob => work
                .groups
                .first()
                .map_or_else(String::new, |group| group.name.to_string()),
            _ => "main".to_owned(),
        }
    }

    /// The pod sets of a work's Workload: name and pods of each.
    pub(in crate::world) fn pod_sets(work: &Work) -> Vec<(String, u32)> {
        match work.kind {
            WorkKind::PyTorchJob | WorkKind::RayJob => work
                .groups
                .iter()
                .map(|group| (group.name.to_string(), group.completions))
                .collect(),
            _ => vec![(Self::pod_set(work), work.width())],
        }
    }
}
