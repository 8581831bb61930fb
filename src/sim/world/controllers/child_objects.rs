//! Objects between a controller and its pods that exist only with the pods: RayClusters, and the StatefulSets of a
//! LeaderWorkerSet.

use model::base::{Name, ObjectKey};

use crate::change::Resource;
use crate::world::noise::mix;
use crate::world::pod::PodId;
use crate::world::work::{ReplicaGroup, Work, WorkId, WorkKind};
use crate::world::{Ref, World};

impl World {
    fn child_key(work: &Work, child: usize) -> Option<(Resource, ObjectKey)> {
        let (resource, name) = work.children().into_iter().nth(child)?;
        Some((resource, ObjectKey::new(work.namespace.clone(), name)))
    }

    /// A pod at this index was created: creates the child that owns it.
    pub(in crate::world) fn raise_child(&mut self, id: WorkId, group: u32, index: u32) {
        let Some(work) = self.works.get(&id) else {
            return;
        };
        let child = match work.kind {
            WorkKind::RayJob => 0,
            WorkKind::LeaderWorkerSet if index == 0 => 1 + group as usize,
            _ => return,
        };
        if let Some(key) = Self::child_key(work, child) {
            let object = Ref::Group(id, child as u32);
            self.names.insert(key, object.clone());
            self.touch(object);
        }
    }

    /// Deletes a child, for good or until its pods are recreated.
    pub(in crate::world) fn drop_child(&mut self, id: WorkId, child: usize) {
        let Some((resource, key)) = self
            .works
            .get(&id)
            .and_then(|work| Self::child_key(work, child))
        else {
            return;
        };
        self.unname(&Ref::Group(id, child as u32), resource, key);
    }

    /// KubeRay deletes the RayCluster of a job that is suspended or has ended, and the next one has another name; Volcano's
    /// controller deletes the PodGroup of a job that is aborted or has ended.
    pub(in crate::world) fn drop_run(&mut self, id: WorkId) {
        let kind = self.works.get(&id).map(|work| work.kind);
        if !matches!(kind, Some(WorkKind::RayJob | WorkKind::VolcanoJob)) {
            return;
        }
        self.drop_child(id, 0);
        if let Some(work) = self.works.get_mut(&id) {
            work.clusters += 1;
            work.inqueue = None;
        }
    }

    /// Volcano's controller creates the PodGroup of a resumed job.
    pub(in crate::world) fn raise_group(&mut self, id: WorkId) {
        let Some(work) = self.works.get(&id) else {
            return;
        };
        if work.kind == WorkKind::VolcanoJob
            && let Some(key) = Self::child_key(work, 0)
        {
            self.names.insert(key, Ref::Group(id, 0));
            self.touch(Ref::Group(id, 0));
        }
    }

    /// Deletes ended pods whose names new pods need.
    pub(in crate::world) fn clear_ended(&mut self, id: WorkId) {
        let Some(work) = self.works.get(&id) else {
            return;
        };
        if !work.kind.keeps_names() && work.kind != WorkKind::RayJob {
            return;
        }
        let over = |pod: &PodId| self.pods.get(pod).is_some_and(|pod| pod.phase.is_over());
        let ended: Vec<PodId> = work.pods.iter().copied().filter(over).collect();
        for pod in ended {
            self.remove_pod(pod);
        }
    }

    /// Creates the missing groups of a LeaderWorkerSet, each once the last pod of the old one is deleted.
    pub(in crate::world) fn reconcile_groups(&mut self, id: WorkId) {
        let Some(work) = self.works.get(&id) else {
            return;
        };
        let mut wanted = Vec::new();
        let mut surplus = Vec::new();
        for (at, group) in work.groups.iter().enumerate() {
            let ending = |pod: &PodId| {
                self.pods
                    .get(pod)
                    .is_some_and(|pod| pod.group as usize == at && pod.deleting.is_some())
            };
            surplus.extend(group.live.range(group.parallelism..).map(|(_, pod)| *pod));
            if !work.pods.iter().any(ending) {
                let open = (0..group.parallelism).filter(|index| !group.live.contains_key(index));
                wanted.extend(open.map(|index| (at as u32, index)));
            }
        }
        for pod in surplus {
            self.delete_pod(pod, None);
        }
        self.make_pods(id, &wanted);
    }

    /// Sets the desired number of groups of a LeaderWorkerSet.
    pub(in crate::world) fn scale_groups(&mut self, id: WorkId, replicas: u32) {
        let now = self.now;
        let Some(work) = self.works.get_mut(&id) else {
            return;
        };
        let size = work.groups.first().map_or(1, |group| group.completions);
        // Each group is a pair of StatefulSets: a larger number is a mistake.
        for at in work.groups.len() as u32..replicas.min(4_096) {
            let (name, uid) = (
                Name::from(format!("{}-{at}", work.name)),
                mix(work.uid, 100 + u64::from(at)),
            );
            work.groups.push(ReplicaGroup::new(name, uid, now, 0, size));
        }
        let mut changed = false;
        for (at, group) in work.groups.iter_mut().enumerate() {
            let pods = if (at as u32) < replicas { size } else { 0 };
            changed |= group.parallelism != pods;
            group.parallelism = pods;
        }
        if changed {
            self.touch_work(id);
            self.kick(id, 400);
        }
    }

    /// A LeaderWorkerSet recreates the whole group of a deleted pod.
    pub(in crate::world) fn recreate_group(&mut self, id: WorkId, group: u32) {
        let Some(work) = self.works.get_mut(&id) else {
            return;
        };
        if work.kind != WorkKind::LeaderWorkerSet {
            return;
        }
        work.restarts += 1;
        let all = work.groups.get(group as usize);
        let pods: Vec<PodId> = all
            .into_iter()
            .flat_map(|group| group.live.values().copied())
            .collect();
        for pod in pods {
            self.delete_pod(pod, None);
        }
        self.kick(id, 700);
    }
}
