//! Controllers: they make, replace and remove pods until there are as many as there should be.

use model::base::{Moment, Name, ObjectKey, SmallSort};

use crate::change::Resource;
use crate::world::catalog::POOLS;
use crate::world::clients::patch::Edit;
use crate::world::noise::{hash, hex, mix, suffix};
use crate::world::pod::{PodId, PodPhase, SimPod};
use crate::world::work::{
    ReplicaGroup, SimWorkload, Work, WorkId, WorkKind, WorkParameters, WorkState,
};
use crate::world::{Happening, Ref, World};

impl World {
    /// Begins a work: its controller exists from `created` on, queued when it names a queue.
    pub(in crate::world) fn begin(&mut self, draft: WorkParameters, created: Moment) -> WorkId {
        let draft = self.named(draft);
        self.serial += 1;
        let id = self.serial as WorkId;
        let uid = mix(self.options.seed ^ 0x77, u64::from(id));
        let groups = draft
            .groups
            .iter()
            .enumerate()
            .map(|(at, (name, parallelism, completions))| {
                let uid = mix(uid, 100 + at as u64);
                ReplicaGroup::new(name.clone(), uid, created, *parallelism, *completions)
            })
            .collect();
        let managed = draft.queue.is_some() && draft.kind.is_batch();
        let workload = managed.then(|| SimWorkload {
            name: Name::from(format!(
                "{}-{}-{}",
                draft.kind.word().to_lowercase(),
                draft.name,
                hex(mix(uid, 5), 5)
            )),
            uid: mix(uid, 6),
            created,
            active: true,
            priority: None,
            reserved: None,
            size: 0,
            pending: (
                Name::new("Pending"),
                Name::new("Waits for its turn in the queue"),
                created,
            ),
            evicted: None,
            preempted: None,
            pods_ready: None,
            evictions: 0,
            queued: created,
            edit: Edit::default(),
        });
        let work = Work {
            uid,
            created,
            group_class: draft.class.clone(),
            owner_class: draft.class.clone(),
            inqueue: None,
            groups,
            straggler: None,
            stalled: None,
            last_checkpoint: None,
            saved: 0,
            suspended: draft.kind.is_batch() && (managed || draft.held),
            suspended_since: created,
            state: WorkState::Waiting,
            running_since: None,
            epoch: 0,
            restarts: 0,
            clusters: 0,
            failure: None,
            workload,
            pods: Default::default(),
            matching: None,
            queued_reconcile: false,
            edit: Edit::default(),
            parameters: draft,
        };
        self.register(id, &work);
        self.works.insert(id, work);
        self.touch_work(id);
        if managed {
            self.enqueue(id);
        } else {
            self.kick(id, 300);
        }
        if self.works.get(&id).is_some_and(|work| work.curve.is_some()) {
            let delay = 60_000 + (mix(uid, 9) % 240_000) as i64;
            self.after(delay, Happening::Curve(id));
        }
        id
    }

    /// The draft under a name that nothing of its kind has: names are drawn, and two may be the same.
    fn named(&self, mut draft: WorkParameters) -> WorkParameters {
        let taken = |name: &Name| {
            let key = ObjectKey::new(draft.namespace.clone(), name.clone());
            match draft.kind.resource() {
                Some(resource) => self.names.contains_key(&(resource, key)),
                None => self.pod_names.contains_key(&key),
            }
        };
        if !taken(&draft.name) {
            return draft;
        }
        let numbered = |at: u32| Name::from(format!("{}-{at}", draft.name));
        let Some(name) = (2..).map(numbered).find(|name| !taken(name)) else {
            return draft;
        };
        for (group, ..) in &mut draft.groups {
            if let Some(rest) = group.strip_prefix(&*draft.name) {
                *group = Name::from(format!("{name}{rest}"));
            }
        }
        draft.name = name;
        draft
    }

    fn register(&mut self, id: WorkId, work: &Work) {
        let key = ObjectKey::new(work.namespace.clone(), work.name.clone());
        if let Some(resource) = work.kind.resource() {
            self.names.insert((resource, key), Ref::Work(id));
        }
        for (at, (resource, name)) in work.children().into_iter().enumerate() {
            // Of these some come with their pods.
            if !work.comes_with_pods(at) {
                let key = ObjectKey::new(work.namespace.clone(), name);
                self.names
                    .insert((resource, key), Ref::Group(id, at as u32));
            }
        }
        if let Some(workload) = &work.workload {
            let key = ObjectKey::new(work.namespace.clone(), workload.name.clone());
            self.names
                .insert((Resource::Workloads, key), Ref::Workload(id));
        }
    }

    /// Marks a work's controller objects as changed.
    pub(in crate::world) fn touch_work(&mut self, id: WorkId) {
        if !self.live {
            return;
        }
        let Some(work) = self.works.get(&id) else {
            return;
        };
        let (kind, children, managed) = (work.kind, work.child_count(), work.workload.is_some());
        if kind != WorkKind::Pod {
            self.touch(Ref::Work(id));
        }
        for child in 0..children {
            self.touch(Ref::Group(id, child as u32));
        }
        if managed {
            self.touch(Ref::Workload(id));
        }
        self.touch_volcano_queue(id);
        self.touch_kai_queues(id);
        self.touch_budgets(id);
    }

    /// Marks the budgets that count a work's pods as changed.
    pub(in crate::world) fn touch_budgets(&mut self, id: WorkId) {
        if !self.live {
            return;
        }
        let Some(work) = self.works.get(&id) else {
            return;
        };
        let labels = self.template_labels(work);
        let due: Vec<ObjectKey> = self
            .budgets
            .iter()
            .filter(|(key, budget)| {
                key.namespace == work.namespace
                    && budget.selector.iter().all(|(k, v)| {
                        labels.get(&**k).and_then(serde_json::Value::as_str) == Some(&**v)
                    })
            })
            .map(|(key, _)| key.clone())
            .collect();
        for key in due {
            self.touch(Ref::Budget(key));
        }
    }

    /// Makes and removes pods until a work has what it should have.
    pub(in crate::world) fn reconcile(&mut self, id: WorkId) {
        let Some(work) = self.works.get_mut(&id) else {
            return;
        };
        work.queued_reconcile = false;
        if work.is_over() || work.suspended {
            return;
        }
        if work.gang
            && work
                .pods
                .iter()
                .any(|pod| self.pods.get(pod).is_some_and(|pod| pod.deleting.is_some()))
        {
            // A gang starts as a unit: it waits until the last of its old pods is deleted.
            return;
        }
        match work.kind {
            WorkKind::Pod => {}
            WorkKind::DaemonSet => self.reconcile_daemons(id),
            // Its controller makes pods once the PodGroup is admitted.
            WorkKind::VolcanoJob if work.inqueue.is_none() => self.kick_scheduler(),
            WorkKind::JobSet
            | WorkKind::Job
            | WorkKind::PyTorchJob
            | WorkKind::RayJob
            | WorkKind::VolcanoJob => self.reconcile_jobs(id),
            WorkKind::LeaderWorkerSet => self.reconcile_groups(id),
            WorkKind::Deployment | WorkKind::StatefulSet => self.reconcile_replicas(id),
        }
    }

    fn reconcile_jobs(&mut self, id: WorkId) {
        let now = self.now;
        let Some(work) = self.works.get_mut(&id) else {
            return;
        };
        let mut wanted = Vec::new();
        for (at, group) in work.groups.iter_mut().enumerate() {
            group.started.get_or_insert(now);
            let open = group.completions.saturating_sub(group.done.len() as u32);
            let target = group.parallelism.min(open);
            let missing = target.saturating_sub(group.live.len() as u32);
            wanted.extend(
                (0..group.completions)
                    .filter(|index| !group.done.contains(index) && !group.live.contains_key(index))
                    .take(missing as usize)
                    .map(|index| (at as u32, index)),
            );
        }
        self.make_pods(id, &wanted);
    }

    fn reconcile_replicas(&mut self, id: WorkId) {
        let Some(work) = self.works.get(&id) else {
            return;
        };
        let Some(group) = work.groups.first() else {
            return;
        };
        let target = group.parallelism;
        let ordinal = work.kind == WorkKind::StatefulSet;
        let live = group.live.len() as u32;
        let surplus: Vec<PodId> = if ordinal {
            group.live.range(target..).map(|(_, pod)| *pod).collect()
        } else {
            // The pods without a node go first, then the youngest slots.
            let mut all: Vec<(bool, u32, PodId)> = group
                .live
                .iter()
                .map(|(slot, pod)| (self.wants_node(*pod), *slot, *pod))
                .collect();
            all.small_sort_by(|a, b| b.cmp(a));
            all.into_iter()
                .take(live.saturating_sub(target) as usize)
                .map(|entry| entry.2)
                .collect()
        };
        let missing: Vec<(u32, u32)> = (0u32..)
            .filter(|slot| !group.live.contains_key(slot))
            .take_while(|slot| !ordinal || *slot < target)
            .take(target.saturating_sub(live) as usize)
            .map(|slot| (0, slot))
            .collect();
        for pod in surplus {
            self.delete_pod(pod, None);
        }
        self.make_pods(id, &missing);
    }

    fn reconcile_daemons(&mut self, id: WorkId) {
        let Some(work) = self.works.get(&id) else {
            return;
        };
        let Some(group) = work.groups.first() else {
            return;
        };
        let vendor = work.pool.map(|pool| POOLS[pool].vendor);
        let missing: Vec<(u32, u32)> = self
            .pools
            .iter()
            .flatten()
            .filter(|&&node| Some(self.nodes[node].spec().vendor) == vendor)
            .map(|&node| node as u32)
            .filter(|node| !group.live.contains_key(node))
            .map(|node| (0, node))
            .collect();
        self.make_pods(id, &missing);
    }

    pub(in crate::world) fn make_pods(&mut self, id: WorkId, wanted: &[(u32, u32)]) {
        // A pod of a deleted controller that had the name keeps its own until it has ended.
        let (wanted, waiting): (Vec<_>, Vec<_>) = wanted.iter().partition(|(group, index)| {
            let key = self.pod_key(id, *group, *index, 0);
            key.is_none_or(|key| !self.pod_names.contains_key(&key))
        });
        if !waiting.is_empty() {
            self.kick(id, 1_000);
        }
        if wanted.is_empty() {
            return;
        }
        for (group, index) in wanted {
            let pod = self.make_pod(id, group, index);
            let daemon = self
                .works
                .get(&id)
                .is_some_and(|work| work.kind == WorkKind::DaemonSet);
            if daemon {
                self.bind(pod, index as usize);
            }
        }
        self.touch_work(id);
        self.kick_scheduler();
    }

    /// Namespace and name of a pod; names of most kinds end in letters drawn from its uid.
    fn pod_key(&self, id: WorkId, group: u32, index: u32, uid: u64) -> Option<ObjectKey> {
        let work = self.works.get(&id)?;
        let cluster = work.cluster(work.clusters).0;
        let part = work.groups.get(group as usize)?;
        let tail = suffix(uid, 5);
        let name = match work.kind {
            WorkKind::JobSet | WorkKind::Job => format!("{}-{index}-{tail}", part.name),
            WorkKind::StatefulSet => format!("{}-{index}", part.name),
            WorkKind::PyTorchJob | WorkKind::VolcanoJob => {
                format!("{}-{}-{index}", work.name, part.name)
            }
            WorkKind::RayJob if group == 0 => format!("{cluster}-head-{tail}"),
            WorkKind::RayJob => format!("{cluster}-{}-worker-{tail}", part.name),
            WorkKind::LeaderWorkerSet if index == 0 => part.name.to_string(),
            WorkKind::LeaderWorkerSet => format!("{}-{index}", part.name),
            WorkKind::Pod => part.name.to_string(),
            WorkKind::Deployment | WorkKind::DaemonSet => format!("{}-{tail}", part.name),
        };
        Some(ObjectKey::new(work.namespace.clone(), name))
    }

    /// Makes one pod of a work, waiting for a node.
    pub(in crate::world) fn make_pod(&mut self, id: WorkId, group: u32, index: u32) -> PodId {
        self.serial += 1;
        let pod_id = self.serial as PodId;
        let uid = mix(self.options.seed ^ 0x90d, u64::from(pod_id));
        let now = self.now;
        let Some(key) = self.pod_key(id, group, index, uid) else {
            return pod_id;
        };
        let Some(work) = self.works.get_mut(&id) else {
            return pod_id;
        };
        let Some(part) = work.groups.get_mut(group as usize) else {
            return pod_id;
        };
        part.live.insert(index, pod_id);
        work.pods.insert(pod_id);
        let entry = (-work.priority, now.millis(), id, pod_id);
        let namespace = work.namespace.clone();
        let foreign = work.foreign.clone();
        let attempt = match work.kind {
            WorkKind::RayJob => work.clusters,
            _ => work.restarts,
        };
        let pod = SimPod {
            key: key.clone(),
            uid,
            work: id,
            group,
            index,
            node: None,
            units: Box::default(),
            created: now,
            scheduled: None,
            started: None,
            ready: None,
            finished: None,
            phase: PodPhase::Pending,
            ending: None,
            restarts: 0,
            last: None,
            reason: None,
            deleting: None,
            verdict: None,
            disrupted: None,
            attempt,
            foreign,
            edit: Edit::default(),
        };
        self.pods.insert(pod_id, pod);
        self.pod_names.insert(key.clone(), pod_id);
        self.unplaced.insert(entry);
        self.touch(Ref::Pod(pod_id));
        self.raise_child(id, group, index);
        self.raise_claim(pod_id);
        let owner = self
            .works
            .get(&id)
            .and_then(|work| work.owner_of(group, index, attempt));
        if self.live
            && let Some((owner_kind, owner, owner_uid)) = owner
        {
            self.event(
                &namespace,
                (owner_kind, &owner, owner_uid),
                "Normal",
                "SuccessfulCreate",
                format!("Created pod: {}", key.name),
            );
        }
        pod_id
    }

    /// Sets how many replicas a service should have.
    pub(in crate::world) fn scale(&mut self, id: WorkId, replicas: u32) {
        let Some(work) = self.works.get_mut(&id) else {
            return;
        };
        let Some(group) = work.groups.first_mut() else {
            return;
        };
        if group.parallelism == replicas {
            return;
        }
        let (old, rs) = (group.parallelism, group.name.clone());
        group.parallelism = replicas;
        group.completions = replicas;
        group.edit.bump();
        work.edit.bump();
        if work.kind == WorkKind::Deployment {
            let way = if replicas > old { "up" } else { "down" };
            self.work_event(
                id,
                "Normal",
                "ScalingReplicaSet",
                format!("Scaled {way} replica set {rs} from {old} to {replicas}"),
            );
        }
        self.touch_work(id);
        self.kick(id, 400);
    }

    /// A key for noise out of a name.
    pub(in crate::world) fn key_word(&self, text: &str) -> u64 {
        mix(self.options.seed, hash(text))
    }
}
