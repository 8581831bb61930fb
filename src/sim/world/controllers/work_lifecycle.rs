//! How work is stopped, started again, ended and removed.

use model::base::{Name, ObjectKey};

use crate::change::Resource;
use crate::world::pod::{PodId, SimPod};
use crate::world::work::{Work, WorkId, WorkKind, WorkState};
use crate::world::{Happening, Ref, World};

/// Seconds for which finished work is kept.
const KEEP_FINISHED: i64 = 1800;

impl World {
    /// Stops all pods of a batch work and keeps it from making new ones.
    pub(in crate::world) fn suspend(&mut self, id: WorkId) {
        let now = self.now;
        let Some(work) = self.works.get_mut(&id) else {
            return;
        };
        if work.suspended || work.is_over() {
            return;
        }
        Self::keep_progress(work);
        work.suspended = true;
        work.suspended_since = now;
        work.state = WorkState::Waiting;
        work.running_since = None;
        work.stalled = None;
        work.epoch += 1;
        for group in &mut work.groups {
            group.started = None;
        }
        let pods: Vec<PodId> = work.live_pods().collect();
        for pod in pods {
            self.delete_pod(pod, None);
        }
        self.clear_ended(id);
        self.drop_run(id);
        self.touch_work(id);
        self.work_event(id, "Normal", "Suspended", "Job suspended".to_owned());
    }

    /// Resumes a batch work: its controller creates pods.
    pub(in crate::world) fn resume(&mut self, id: WorkId) {
        let now = self.now;
        let Some(work) = self.works.get_mut(&id) else {
            return;
        };
        if !work.suspended || work.held {
            return;
        }
        work.suspended = false;
        work.suspended_since = now;
        for group in &mut work.groups {
            group.started = Some(now);
        }
        self.raise_group(id);
        self.touch_work(id);
        self.work_event(id, "Normal", "Resumed", "Job resumed".to_owned());
        self.kick(id, 400);
    }

    /// What the last checkpoint saved survives; the rest of this run is lost.
    fn keep_progress(work: &mut Work) {
        if let (Some(since), Some(saved_at)) = (work.running_since, work.last_checkpoint)
            && saved_at >= since
        {
            work.saved += saved_at.since(since).millis() as i64;
        }
        work.saved = work.saved.min(work.length);
    }

    /// Stops every pod of a gang and starts it again as a whole.
    pub(in crate::world) fn restart_gang(&mut self, id: WorkId, why: String) {
        let Some(work) = self.works.get_mut(&id) else {
            return;
        };
        if work.is_over() || work.suspended {
            return;
        }
        Self::keep_progress(work);
        work.stalled = None;
        work.epoch += 1;
        work.restarts += 1;
        work.state = WorkState::Waiting;
        work.running_since = None;
        if let Some(workload) = &mut work.workload {
            workload.pods_ready = None;
        }
        let pods: Vec<PodId> = work.live_pods().collect();
        for pod in pods {
            self.delete_pod(pod, Some(30));
        }
        self.clear_ended(id);
        let reason = if self
            .works
            .get(&id)
            .is_some_and(|work| work.kind == WorkKind::JobSet)
        {
            "RestartJobSetFailurePolicyAction"
        } else {
            "GangRestart"
        };
        self.work_event(id, "Warning", reason, why);
        self.touch_work(id);
        self.kick(id, 1000);
    }

    /// Ends a work for good.
    pub(in crate::world) fn finish(&mut self, id: WorkId, ok: bool) {
        let now = self.now;
        let Some(work) = self.works.get_mut(&id) else {
            return;
        };
        if work.is_over() {
            return;
        }
        work.state = WorkState::Done(now, ok);
        for group in &mut work.groups {
            group.completed = Some(now);
        }
        if !ok && work.failure.is_none() {
            work.failure = Some((
                Name::new("BackoffLimitExceeded"),
                Name::new("Job has reached the specified backoff limit"),
            ));
        }
        let failure = work.failure.clone();
        self.unreserve(id);
        self.enqueue(id);
        let left: Vec<PodId> = self
            .works
            .get(&id)
            .into_iter()
            .flat_map(|work| work.pods.iter().copied())
            .filter(|pod| self.pods.get(pod).is_some_and(SimPod::is_active))
            .collect();
        for pod in left {
            self.delete_pod(pod, Some(30));
        }
        self.drop_run(id);
        match failure {
            Some((reason, message)) if !ok => {
                self.work_event(id, "Warning", &reason, message.to_string());
            }
            _ => self.work_event(id, "Normal", "Completed", "Job completed".to_owned()),
        }
        self.touch_work(id);
        self.after(KEEP_FINISHED * 1000, Happening::Expire(id));
    }

    /// Removes finished work and its pods.
    pub(in crate::world) fn expire(&mut self, id: WorkId) {
        if self.works.get(&id).is_some_and(Work::is_over) {
            self.remove_work(id);
        }
    }

    /// Removes a work, its children, its Workload and, when they have ended, its pods.
    pub(in crate::world) fn remove_work(&mut self, id: WorkId) {
        self.unreserve(id);
        if let Some(workload) = self
            .works
            .get_mut(&id)
            .and_then(|work| work.workload.as_mut())
        {
            workload.active = false;
        }
        self.enqueue(id);
        self.touch_volcano_queue(id);
        self.touch_kai_queues(id);
        self.touch_budgets(id);
        let Some(work) = self.works.get_mut(&id) else {
            return;
        };
        work.held = true;
        work.suspended = true;
        let pods: Vec<PodId> = work.pods.iter().copied().collect();
        let namespace = work.namespace.clone();
        let kind = work.kind;
        let name = work.name.clone();
        let workload = work.workload.as_ref().map(|workload| workload.name.clone());
        let children = work.child_count();
        for pod in pods {
            self.delete_pod(pod, None);
        }
        if let Some(workload) = workload {
            let key = ObjectKey::new(namespace.clone(), workload);
            self.unname(&Ref::Workload(id), Resource::Workloads, key);
        }
        for child in 0..children {
            self.drop_child(id, child);
        }
        if let Some(resource) = kind.resource() {
            let key = ObjectKey::new(namespace, name);
            self.unname(&Ref::Work(id), resource, key);
        }
        if self.works.get(&id).is_some_and(|work| work.pods.is_empty()) {
            self.works.remove(&id);
        }
    }

    /// Deletes an object that has its name; another that has it by now is left alone.
    pub(in crate::world) fn unname(&mut self, object: &Ref, resource: Resource, key: ObjectKey) {
        let entry = (resource, key);
        if self.names.get(&entry) == Some(object) {
            self.names.remove(&entry);
        }
        self.retract(object, resource, entry.1);
    }

    /// True when the work's controller has been removed while its last pods end.
    pub(in crate::world) fn is_orphaned(&self, id: WorkId) -> bool {
        self.works.get(&id).is_some_and(|work| {
            work.kind.resource().is_some_and(|resource| {
                let key = ObjectKey::new(work.namespace.clone(), work.name.clone());
                self.names.get(&(resource, key)) != Some(&Ref::Work(id))
            })
        })
    }
}
