//! The lifecycle of a pod and of a run: containers start, become ready, end, crash and are deleted.

use model::base::{Name, ObjectKey};

use crate::change::Resource;
use crate::world::node::NodeId;
use crate::world::noise::{mix, unit};
use crate::world::pod::{Ending, PastRun, PodId, PodPhase};
use crate::world::work::{Profile, WorkId, WorkKind, WorkState};
use crate::world::{Happening, Ref, World};

impl World {
    /// The kubelet has pulled the images and starts the containers.
    pub(in crate::world) fn pod_starts(&mut self, id: PodId) {
        let now = self.now;
        let Some(pod) = self.pods.get_mut(&id) else {
            return;
        };
        let Some(node) = pod.node else { return };
        if pod.phase != PodPhase::Pending || pod.deleting.is_some() {
            return;
        }
        if !self.nodes[node].ready {
            return self.after(20_000, Happening::PodStarts(id));
        }
        pod.phase = PodPhase::Running;
        pod.started = Some(now);
        let (key, uid, work_id) = (pod.key.clone(), pod.uid, pod.work);
        self.touch(Ref::Pod(id));
        let Some(work) = self.works.get(&work_id) else {
            return;
        };
        let image = work.image;
        let delay = match work.profile {
            Profile::Serve => 35_000 + (mix(uid, 31) % 50_000) as i64,
            Profile::Infra => 2_000,
            _ => 800,
        };
        if self.live {
            self.pod_event(
                &key,
                uid,
                "Normal",
                "Pulled",
                format!("Container image \"{image}\" already present on machine"),
            );
            self.pod_event(
                &key,
                uid,
                "Normal",
                "Created",
                format!("Created container: {}", self.container_of(id)),
            );
            self.pod_event(
                &key,
                uid,
                "Normal",
                "Started",
                format!("Started container {}", self.container_of(id)),
            );
        }
        self.after(delay, Happening::PodReady(id));
        self.touch_work(work_id);
    }

    /// The containers are ready; a gang begins to work when its last member is.
    pub(in crate::world) fn pod_ready(&mut self, id: PodId) {
        let now = self.now;
        let Some(pod) = self.pods.get_mut(&id) else {
            return;
        };
        if pod.phase != PodPhase::Running || pod.deleting.is_some() || pod.ready.is_some() {
            return;
        }
        if pod.node.is_some_and(|node| !self.nodes[node].ready) {
            return self.after(20_000, Happening::PodReady(id));
        }
        pod.ready = Some(now);
        let work_id = pod.work;
        self.touch(Ref::Pod(id));
        self.settle(work_id);
        self.touch_work(work_id);
        let Some(work) = self.works.get(&work_id) else {
            return;
        };
        if !work.gang
            && (work.kind.is_batch()
                || (work.kind == WorkKind::Pod && work.profile != Profile::Notebook))
        {
            let (delay, ending) = self.fate(id);
            self.after(delay, Happening::PodEnds(id, ending));
        }
    }

    /// How long an independent pod works from its start in milliseconds, and how it ends.
    pub(in crate::world) fn fate(&self, id: PodId) -> (i64, Ending) {
        let (Some(pod), Some(work)) = (
            self.pods.get(&id),
            self.pods.get(&id).and_then(|pod| self.works.get(&pod.work)),
        ) else {
            return (0, Ending::Success);
        };
        let word = mix(pod.uid, 51);
        let spread = if work.groups.iter().all(|group| group.completions <= 1) {
            1.0
        } else {
            0.6 + unit(word) * 0.9
        };
        let length = (work.length as f64 * spread) as i64;
        let failing = work.ending != Ending::Success && unit(mix(word, 2)) < 0.7;
        if failing {
            return (
                (length as f64 * unit(mix(word, 3))) as i64 + 20_000,
                work.ending,
            );
        }
        (length.max(5_000), Ending::Success)
    }

    /// Decides whether a work is running now.
    pub(in crate::world) fn settle(&mut self, id: WorkId) {
        let now = self.now;
        self.group_pods(id);
        let Some(work) = self.works.get_mut(&id) else {
            return;
        };
        if work.is_over() || work.suspended {
            return;
        }
        let wanted: u32 = work
            .groups
            .iter()
            .map(|group| {
                let open = group.completions.saturating_sub(group.done.len() as u32);
                group.parallelism.min(open)
            })
            .sum();
        let ready = work
            .groups
            .iter()
            .flat_map(|group| group.live.values())
            .filter(|pod| {
                self.pods
                    .get(pod)
                    .is_some_and(crate::world::pod::SimPod::is_ready)
            })
            .count() as u32;
        let runs = if work.gang {
            ready >= wanted && wanted > 0
        } else {
            ready > 0
        };
        match (work.state, runs) {
            (WorkState::Waiting, true) => {
                work.state = WorkState::Running;
                work.running_since = Some(now);
                if let Some(workload) = &mut work.workload {
                    workload.pods_ready.get_or_insert(now);
                }
                let epoch = work.epoch;
                let left = (work.length - work.saved).max(10_000);
                let (gang, every, uid) = (work.gang, work.checkpoint_every, work.uid);
                let notebook = work.profile == Profile::Notebook;
                if gang || notebook {
                    self.after(left, Happening::WorkEnds(id, epoch));
                }
                if gang {
                    let word = mix(uid, 600 + u64::from(epoch));
                    if unit(word) < 0.06 {
                        let at = (left as f64 * unit(mix(word, 1))) as i64;
                        self.after(at, Happening::Crash(id, epoch));
                    }
                    if every > 0 {
                        self.after(every, Happening::Checkpoint(id, epoch));
                    }
                }
            }
            (WorkState::Running, false) if !work.gang => {
                work.state = WorkState::Waiting;
                work.running_since = None;
            }
            _ => {}
        }
    }

    /// A container ends by itself.
    pub(in crate::world) fn pod_ends(&mut self, id: PodId, ending: Ending) {
        let Some(pod) = self.pods.get(&id) else {
            return;
        };
        if pod.phase != PodPhase::Running || pod.deleting.is_some() {
            return;
        }
        let work_id = pod.work;
        if pod.node.is_some_and(|node| !self.nodes[node].ready) {
            return self.after(30_000, Happening::PodEnds(id, ending));
        }
        let Some(work) = self.works.get(&work_id) else {
            return;
        };
        if !work.kind.is_batch() && work.kind != WorkKind::Pod {
            return self.restart_container(id, ending);
        }
        let gang = work.gang;
        self.end_pod(id, ending, None);
        if gang && ending != Ending::Success {
            let name = self
                .pods
                .get(&id)
                .map(|pod| pod.key.name.clone())
                .unwrap_or_default();
            return self.restart_gang(
                work_id,
                format!(
                    "pod {name} failed with exit code {}, restarting all members",
                    ending.code()
                ),
            );
        }
        self.after_pod(work_id);
    }

    /// Restarts the container of a service in place.
    fn restart_container(&mut self, id: PodId, ending: Ending) {
        let now = self.now;
        let Some(pod) = self.pods.get_mut(&id) else {
            return;
        };
        pod.last = Some(PastRun {
            ending,
            started: pod.started.unwrap_or(now),
            finished: now,
        });
        pod.restarts += 1;
        pod.started = Some(now);
        pod.ready = None;
        let (key, uid, work) = (pod.key.clone(), pod.uid, pod.work);
        self.touch(Ref::Pod(id));
        self.pod_event(
            &key,
            uid,
            "Warning",
            "BackOff",
            format!(
                "Back-off restarting failed container {}",
                self.container_of(id)
            ),
        );
        self.after(40_000, Happening::PodReady(id));
        self.settle(work);
        self.touch_work(work);
    }

    /// Ends a pod's containers for good and frees its devices.
    pub(in crate::world) fn end_pod(
        &mut self,
        id: PodId,
        ending: Ending,
        reason: Option<(Name, Name)>,
    ) {
        let now = self.now;
        let Some(pod) = self.pods.get_mut(&id) else {
            return;
        };
        pod.phase = if ending == Ending::Success {
            PodPhase::Succeeded
        } else {
            PodPhase::Failed
        };
        pod.ending = Some(ending);
        pod.finished = Some(now);
        pod.ready = None;
        pod.reason = reason;
        let (work_id, group, index) = (pod.work, pod.group as usize, pod.index);
        self.free(id);
        self.drop_claim(id);
        if let Some(group) = self
            .works
            .get_mut(&work_id)
            .and_then(|work| work.groups.get_mut(group))
        {
            group.live.remove(&index);
            if ending == Ending::Success {
                group.done.insert(index);
            } else {
                group.failed += 1;
            }
        }
        self.touch(Ref::Pod(id));
        self.touch_work(work_id);
    }

    /// The controller's reaction to the end of an independent pod.
    fn after_pod(&mut self, id: WorkId) {
        let Some(work) = self.works.get(&id) else {
            return;
        };
        if work.kind == WorkKind::Pod {
            return self.finish(id, true);
        }
        let done = work
            .groups
            .iter()
            .all(|group| group.done.len() as u32 >= group.completions);
        let failed: u32 = work.groups.iter().map(|group| group.failed).sum();
        let limit = 3 + work
            .groups
            .iter()
            .map(|group| group.completions)
            .sum::<u32>()
            / 10;
        if done {
            self.finish(id, true);
        } else if failed > limit {
            self.finish(id, false);
        } else {
            self.kick(id, if failed > 0 { 10_000 } else { 700 });
        }
    }

    /// A gang's run is over, or a notebook is stopped by its owner.
    pub(in crate::world) fn work_ends(&mut self, id: WorkId, epoch: u32) {
        let Some(work) = self.works.get(&id) else {
            return;
        };
        if work.epoch != epoch || work.is_over() || work.suspended {
            return;
        }
        if work.profile == Profile::Notebook {
            return self.remove_work(id);
        }
        if work.state != WorkState::Running {
            return;
        }
        let ending = work.ending;
        let pods: Vec<PodId> = work
            .groups
            .iter()
            // The pods of a RayCluster do not end with the job: they are deleted with the cluster.
            .filter(|_| work.kind != WorkKind::RayJob)
            .flat_map(|group| group.live.values().copied())
            .collect();
        for (at, pod) in pods.into_iter().enumerate() {
            // One rank fails; its peers abort when they lose it.
            let own = match ending {
                Ending::Success => Ending::Success,
                other if at == 0 => other,
                _ => Ending::Exit(1),
            };
            self.end_pod(pod, own, None);
        }
        if ending != Ending::Success {
            let jobset = self
                .works
                .get(&id)
                .is_some_and(|work| work.kind == WorkKind::JobSet);
            if let Some(work) = self.works.get_mut(&id) {
                work.failure = Some(if jobset {
                    (
                        Name::new("FailedJobs"),
                        Name::new("jobset failed due to one or more job failures"),
                    )
                } else {
                    (
                        Name::new("BackoffLimitExceeded"),
                        Name::new("Job has reached the specified backoff limit"),
                    )
                });
            }
        }
        self.finish(id, ending == Ending::Success);
    }

    /// One rank of a gang dies during a run.
    pub(in crate::world) fn crash(&mut self, id: WorkId, epoch: u32) {
        let Some(work) = self.works.get(&id) else {
            return;
        };
        if work.epoch != epoch || work.state != WorkState::Running {
            return;
        }
        let word = mix(work.uid, 700 + u64::from(epoch));
        let pods: Vec<PodId> = work.live_pods().collect();
        if let Some(pod) = pods.get(word as usize % pods.len().max(1)) {
            let ending = if unit(mix(word, 3)) < 0.35 {
                Ending::OutOfMemory
            } else {
                Ending::Exit(134)
            };
            self.pod_ends(*pod, ending);
        }
    }

    /// A run writes a checkpoint and records it on its controller.
    pub(in crate::world) fn checkpoint(&mut self, id: WorkId, epoch: u32) {
        let now = self.now;
        let Some(work) = self.works.get_mut(&id) else {
            return;
        };
        if work.epoch != epoch || work.state != WorkState::Running {
            return;
        }
        // A stalled gang reaches no checkpoint.
        if work.stalled.is_none_or(|since| since > now) {
            work.last_checkpoint = Some(now);
        }
        let every = work.checkpoint_every;
        self.touch(Ref::Work(id));
        self.after(every, Happening::Checkpoint(id, epoch));
    }

    /// Deletes a pod: at once when it is not running, else within its grace period. A gang stops when a member is deleted.
    pub(in crate::world) fn delete_pod(&mut self, id: PodId, grace: Option<u64>) {
        let now = self.now;
        let Some(pod) = self.pods.get_mut(&id) else {
            return;
        };
        let grace = grace.unwrap_or(30);
        if pod.phase.is_over() || pod.node.is_none() || grace == 0 {
            return self.remove_pod(id);
        }
        if pod.deleting.is_some() {
            return;
        }
        pod.deleting = Some((now.plus(crate::world::seconds(grace as i64)), grace));
        pod.ready = None;
        let (work_id, group, index, uid, key) = (
            pod.work,
            pod.group as usize,
            pod.index,
            pod.uid,
            pod.key.clone(),
        );
        let node = pod.node;
        let kind = self.works.get(&work_id).map(|work| work.kind);
        if kind.is_some_and(|kind| !kind.keeps_names())
            && let Some(group) = self
                .works
                .get_mut(&work_id)
                .and_then(|work| work.groups.get_mut(group))
        {
            group.live.remove(&index);
        }
        self.touch(Ref::Pod(id));
        self.touch_work(work_id);
        self.settle(work_id);
        self.pod_event(
            &key,
            uid,
            "Normal",
            "Killing",
            format!("Stopping container {}", self.container_of(id)),
        );
        if node.is_some_and(|node| self.nodes[node].ready) {
            let needs = 800 + (mix(uid, 61) % 7_000) as i64;
            self.after(needs.min(grace as i64 * 1000), Happening::PodGone(id));
        }
        self.kick(work_id, 700);
    }

    /// Deletes a pod at a client's request, with the effects on its work.
    pub(in crate::world) fn disrupt_pod(&mut self, id: PodId, grace: Option<u64>) {
        let Some(pod) = self.pods.get(&id) else {
            return;
        };
        let (work_id, name, bound) = (pod.work, pod.key.name.clone(), pod.node.is_some());
        let group = pod.group;
        let over = pod.phase.is_over();
        let gang = self
            .works
            .get(&work_id)
            .is_some_and(|work| work.gang && !work.is_over());
        self.delete_pod(id, grace);
        if gang && bound && !over {
            self.restart_gang(
                work_id,
                format!("pod {name} was deleted, restarting all members"),
            );
        } else {
            self.recreate_group(work_id, group);
            self.kick(work_id, 700);
        }
    }

    /// The kubelet has stopped a deleted pod.
    pub(in crate::world) fn pod_gone(&mut self, id: PodId) {
        let Some(pod) = self.pods.get(&id) else {
            return;
        };
        if pod.deleting.is_none() {
            return;
        }
        if pod
            .node
            .is_some_and(|node| !self.nodes[node].ready && !self.nodes[node].gone)
        {
            // A dead node cannot report that the pod has ended; the devices stay allocated.
            return;
        }
        self.remove_pod(id);
    }

    /// Removes a pod and frees its devices.
    pub(in crate::world) fn remove_pod(&mut self, id: PodId) {
        self.free(id);
        self.drop_claim(id);
        let Some(pod) = self.pods.remove(&id) else {
            return;
        };
        self.pod_names.remove(&pod.key);
        self.retract(&Ref::Pod(id), Resource::Pods, pod.key.clone());
        self.touch_budgets(pod.work);
        let Some(work) = self.works.get_mut(&pod.work) else {
            return;
        };
        work.pods.remove(&id);
        if let Some(group) = work.groups.get_mut(pod.group as usize)
            && group.live.get(&pod.index) == Some(&id)
        {
            group.live.remove(&pod.index);
        }
        let empty = work.pods.is_empty();
        let bare = work.kind == WorkKind::Pod;
        if work.kind == WorkKind::LeaderWorkerSet && pod.index == 0 {
            // Each leader owns its workers' StatefulSet.
            self.drop_child(pod.work, 1 + pod.group as usize);
        }
        if empty && (bare || self.is_orphaned(pod.work)) {
            self.touch_volcano_queue(pod.work);
            self.touch_kai_queues(pod.work);
            self.works.remove(&pod.work);
            return;
        }
        self.settle(pod.work);
        self.touch_work(pod.work);
        self.kick(pod.work, 700);
    }

    /// Returns a pod's devices, CPU and memory to its node.
    fn free(&mut self, id: PodId) {
        let Some(pod) = self.pods.get_mut(&id) else {
            return;
        };
        let Some(work) = self.works.get(&pod.work) else {
            return;
        };
        self.unplaced
            .remove(&(-work.priority, pod.created.millis(), pod.work, id));
        let Some(node_id) = pod.node else { return };
        let node = &mut self.nodes[node_id];
        if node.pods.contains(&id) {
            node.release(id);
            node.cpu_free += work.ask.cpu_milli;
            node.memory_free += work.ask.memory_mib;
            self.meter(node_id);
            if self.live {
                self.kick_scheduler();
            }
        }
    }

    /// A kubelet's status report, every five minutes.
    pub(in crate::world) fn heartbeat(&mut self, id: NodeId) {
        let node = &mut self.nodes[id];
        if node.gone {
            return;
        }
        if node.ready {
            node.heartbeat = self.now;
            self.touch(Ref::Node(id));
            self.touch(Ref::Lease(id));
        }
        self.after(300_000, Happening::Heartbeat(id));
    }

    /// The name of a pod's container.
    pub(in crate::world) fn container_of(&self, id: PodId) -> String {
        self.pods
            .get(&id)
            .and_then(|pod| self.works.get(&pod.work).map(|work| (pod, work)))
            .map_or_else(String::new, |(pod, work)| self.container_name(pod, work))
    }

    /// A pod's id by its key.
    pub(in crate::world) fn pod_id(&self, key: &ObjectKey) -> Option<PodId> {
        self.pod_names.get(key).copied()
    }
}
