//! Workloads and PodGroups of queueing systems: joined to their jobs, to which they add facts.
//!
//! A group with an owner is never a job itself: its job is the top of its owner's chain. Without an owner
//! (a group of bare pods) it is the job, and the pods that name it are its members.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use model::base::{Name, ObjectKey};
use model::fleet::admission::{Admission, GroupSeen};
use model::fleet::job::JobKey;
use model::fleet::kinds::Table;
use model::fleet::object_parts::OwnerRef;
use model::fleet::observe::Pending;
use model::fleet::queue::{QueueKey, QueueKind, QueueSystem};
use model::fleet::seen::PodSeen;

use crate::fold::Ledger;

pub(crate) type GroupId = (Table, ObjectKey);

/// The kinds of group that pods may name, by the kind they say.
const NAMED: &[(&str, &[Table])] = &[
    ("Workload", &[Table::KueueWorkloads, Table::Workloads]),
    (
        "PodGroup",
        &[
            Table::PodGroups,
            Table::VolcanoPodGroups,
            Table::KaiPodGroups,
        ],
    ),
];

/// Every group with the ways to find it.
#[derive(Default)]
pub(crate) struct SeenGroups {
    all: FxHashMap<GroupId, Arc<GroupSeen>>,
    by_owner: FxHashMap<Name, BTreeSet<GroupId>>,
    of_job: FxHashMap<JobKey, BTreeSet<GroupId>>,
    job_of: FxHashMap<GroupId, JobKey>,
    /// Pods without a controller, by the group that they name: namespace and name.
    claimants: FxHashMap<ObjectKey, BTreeSet<ObjectKey>>,
    /// Groups whose owner is known by name alone.
    nameless: usize,
    /// Positions in queues: workload to (in the ClusterQueue, in the LocalQueue).
    places: FxHashMap<ObjectKey, (u32, u32)>,
    /// Workloads with a place, by queue.
    placed: BTreeMap<Name, Vec<ObjectKey>>,
}

impl SeenGroups {
    pub(crate) fn keys_of(&self, table: Table) -> Vec<ObjectKey> {
        self.all
            .keys()
            .filter(|(of, _)| *of == table)
            .map(|(_, key)| key.clone())
            .collect()
    }

    /// The group named by a pod without a controller.
    fn named_by(&self, pod: &PodSeen) -> Option<&Arc<GroupSeen>> {
        let member_of = pod.siting.as_ref()?.member_of.as_ref()?;
        let key = ObjectKey {
            namespace: pod.key.namespace.clone(),
            name: member_of.name.clone(),
        };
        NAMED
            .iter()
            .filter(|(kind, _)| *kind == member_of.kind.as_str())
            .flat_map(|(_, tables)| tables.iter())
            .find_map(|table| self.all.get(&(*table, key.clone())))
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
            && self.by_owner.is_empty()
            && self.of_job.is_empty()
            && self.job_of.is_empty()
            && self.claimants.is_empty()
    }
}

/// What a group's owner is found by: its id, or (a reference by name alone) its kind and name.
fn handle(owner: &OwnerRef, namespace: &Name) -> Name {
    match owner.uid.is_empty() {
        false => owner.uid.clone(),
        true => Name::from(format!("{}/{namespace}/{}", owner.kind, owner.name)),
    }
}

/// The group's key that a pod without a controller names.
fn claim(pod: &PodSeen) -> Option<ObjectKey> {
    if pod.owner.is_some() {
        return None;
    }
    let member_of = pod.siting.as_ref()?.member_of.as_ref()?;
    Some(ObjectKey {
        namespace: pod.key.namespace.clone(),
        name: member_of.name.clone(),
    })
}

impl Ledger {
    pub(crate) fn see_group(&mut self, group: GroupSeen) {
        self.mention(group.table, &group.key);
        self.fold_group(group);
    }

    pub(crate) fn fold_group(&mut self, group: GroupSeen) {
        let id = (group.table, group.key.clone());
        let group = self.with_claims_of_group(&id, group);
        if let Some(old) = self.groups.all.get(&id).cloned() {
            if *old == group {
                return;
            }
            self.unlink_group(&id, &old);
        }
        if let Some(owner) = &group.owner {
            let handle = handle(owner, &group.key.namespace);
            self.groups.nameless += usize::from(owner.uid.is_empty());
            self.groups
                .by_owner
                .entry(handle)
                .or_default()
                .insert(id.clone());
        }
        self.groups.all.insert(id.clone(), Arc::new(group));
        self.rejoin_group(&id, 0);
    }

    pub(crate) fn forget_group(&mut self, table: Table, key: &ObjectKey) {
        let id = (table, key.clone());
        self.claims.forget_group(&id);
        let Some(old) = self.groups.all.remove(&id) else {
            return;
        };
        self.unlink_group(&id, &old);
        if let Some(job) = self.groups.job_of.remove(&id) {
            self.group_leaves(&id, &job);
        }
        self.rejoin_claimants(key);
        self.rejoin_children(&old.uid, 0);
    }

    fn unlink_group(&mut self, id: &GroupId, old: &GroupSeen) {
        let Some(owner) = &old.owner else { return };
        let handle = handle(owner, &old.key.namespace);
        self.groups.nameless -= usize::from(owner.uid.is_empty());
        if let Some(groups) = self.groups.by_owner.get_mut(&handle) {
            groups.remove(id);
            if groups.is_empty() {
                self.groups.by_owner.remove(&handle);
            }
        }
    }

    fn group_leaves(&mut self, id: &GroupId, job: &JobKey) {
        if let Some(groups) = self.groups.of_job.get_mut(job) {
            groups.remove(id);
            if groups.is_empty() {
                self.groups.of_job.remove(job);
            }
        }
        self.rejoin_members(job);
    }

    /// Joins a group, and everything that depends on it, to its job again; the job's pods too, since the group may name their queue.
    fn rejoin_group(&mut self, id: &GroupId, depth: usize) {
        let Some(group) = self.groups.all.get(id).cloned() else {
            return;
        };
        let own = JobKey {
            key: group.key.clone(),
            kind: group.kind.clone(),
        };
        let job = self.chain(own, group.owner.as_ref()).job;
        if let Some(old) = self.groups.job_of.insert(id.clone(), job.clone())
            && old != job
        {
            self.group_leaves(id, &old);
        }
        self.groups
            .of_job
            .entry(job.clone())
            .or_default()
            .insert(id.clone());
        self.rejoin_members(&job);
        self.rejoin_claimants(&id.1);
        self.rejoin_children(&group.uid, depth + 1);
    }

    /// Joins the groups again that refer to an object of this kind and name without its id.
    pub(crate) fn rejoin_named(&mut self, kind: &Name, key: &ObjectKey, depth: usize) {
        if self.groups.nameless > 0 {
            let owner = OwnerRef {
                kind: kind.clone(),
                name: key.name.clone(),
                uid: Name::default(),
            };
            self.rejoin_groups_of(&handle(&owner, &key.namespace), depth);
        }
    }

    /// The group of this kind and name that another object refers to as its owner.
    pub(crate) fn group_named(&self, job: &JobKey, uid: &Name) -> Option<&Arc<GroupSeen>> {
        NAMED
            .iter()
            .filter(|(kind, _)| *kind == job.kind.as_str())
            .flat_map(|(_, tables)| tables.iter())
            .filter_map(|table| self.groups.all.get(&(*table, job.key.clone())))
            .find(|group| uid.is_empty() || group.uid == *uid)
    }

    /// Joins the groups that this object owns again.
    pub(crate) fn rejoin_groups_of(&mut self, owner: &Name, depth: usize) {
        for id in self.groups.by_owner.get(owner).cloned().unwrap_or_default() {
            self.rejoin_group(&id, depth);
        }
    }

    /// The pods of a job: their queue may be another now.
    fn rejoin_members(&mut self, job: &JobKey) {
        self.dirty_jobs.insert(job.clone());
        self.look_at_given(job);
        for pod in self.job_pods.get(job).cloned().unwrap_or_default() {
            self.rejoin_pod(&pod);
        }
    }

    fn rejoin_claimants(&mut self, group: &ObjectKey) {
        for pod in self
            .groups
            .claimants
            .get(group)
            .cloned()
            .unwrap_or_default()
        {
            self.rejoin_pod(&pod);
        }
    }

    /// Notes which group a bare pod names.
    pub(crate) fn link_claim(&mut self, pod: &PodSeen) {
        if let Some(group) = claim(pod) {
            self.groups
                .claimants
                .entry(group)
                .or_default()
                .insert(pod.key.clone());
        }
    }

    pub(crate) fn unlink_claim(&mut self, pod: &PodSeen) {
        if let Some(group) = claim(pod)
            && let Some(pods) = self.groups.claimants.get_mut(&group)
        {
            pods.remove(&pod.key);
            if pods.is_empty() {
                self.groups.claimants.remove(&group);
            }
        }
    }

    /// The job of a bare pod that names a group: the group's own job, or the group itself.
    pub(crate) fn job_by_group(&self, pod: &PodSeen) -> Option<JobKey> {
        if pod.owner.is_some() {
            return None;
        }
        match self.groups.named_by(pod) {
            Some(group) => {
                let own = JobKey {
                    key: group.key.clone(),
                    kind: group.kind.clone(),
                };
                Some(self.chain(own, group.owner.as_ref()).job)
            }
            // The user who creates the pods names Kueue's pod groups; schedulers add other group names to any pod, and these are
            // ignored until the group is known.
            None => {
                let member_of = pod.siting.as_ref()?.member_of.as_ref()?;
                (member_of.kind.as_str() == "Workload").then(|| JobKey {
                    key: ObjectKey {
                        namespace: pod.key.namespace.clone(),
                        name: member_of.name.clone(),
                    },
                    kind: member_of.kind.clone(),
                })
            }
        }
    }

    /// The groups of a job, in table and name order.
    pub(crate) fn groups_of(&self, job: &JobKey) -> impl Iterator<Item = &Arc<GroupSeen>> {
        self.groups
            .of_job
            .get(job)
            .into_iter()
            .flatten()
            .filter_map(|id| self.groups.all.get(id))
    }

    /// A job's state in its queueing system. Of several groups the blocking one decides: one
    /// without quota before one with, the oldest first.
    pub(crate) fn admission(&self, job: &JobKey) -> Option<Admission> {
        let group = self.groups_of(job).min_by_key(|group| {
            (
                group.system == QueueSystem::None,
                group.outcome.is_some(),
                group.reserved_at.is_some(),
                group.created,
                group.key.clone(),
            )
        })?;
        let place = match group.table {
            Table::KueueWorkloads if group.reserved_at.is_none() => {
                self.groups.places.get(&group.key)
            }
            _ => None,
        };
        let others = self.groups_of(job).filter(|other| {
            other.table == group.table && other.outcome.is_none() && other.key != group.key
        });
        Some(Admission {
            queue: self.queue_of_group(group),
            position: place.map(|place| place.0),
            local_position: place.map(|place| place.1),
            others: others.cloned().collect(),
            seen: Arc::clone(group),
        })
    }

    /// The queue that a group waits in or draws from.
    pub(crate) fn queue_of_group(&self, group: &GroupSeen) -> Option<Name> {
        if let Some(queue) = &group.admitted_by {
            return Some(queue.clone());
        }
        let named = group.queue_name.as_ref()?;
        Some(self.behind_name(group.system, &group.key.namespace, named))
    }

    /// The queue of this name in this namespace: the ClusterQueue of the LocalQueue, where there is one.
    pub(crate) fn behind_name(&self, system: QueueSystem, namespace: &Name, named: &Name) -> Name {
        if system != QueueSystem::Kueue {
            return named.clone();
        }
        let door = ObjectKey {
            namespace: namespace.clone(),
            name: named.clone(),
        };
        self.tables.behind_door(&door).unwrap_or(named).clone()
    }

    /// Takes over the order of a queue's pending work.
    pub(crate) fn see_pending(&mut self, pending: Pending) {
        let Pending { queue, rows } = pending;
        let mut moved: Vec<ObjectKey> = Vec::new();
        let mut gone: BTreeSet<ObjectKey> = self
            .groups
            .placed
            .remove(&queue)
            .unwrap_or_default()
            .into_iter()
            .collect();
        let mut now = Vec::with_capacity(rows.len());
        for (key, in_queue, at_door) in rows {
            gone.remove(&key);
            let place = (in_queue, at_door);
            if self.groups.places.insert(key.clone(), place) != Some(place) {
                moved.push(key.clone());
            }
            now.push(key);
        }
        for key in gone {
            self.groups.places.remove(&key);
            moved.push(key);
        }
        if !now.is_empty() {
            self.groups.placed.insert(queue, now);
        }
        for key in moved {
            if let Some(job) = self.groups.job_of.get(&(Table::KueueWorkloads, key)) {
                self.dirty_jobs.insert(job.clone());
            }
        }
    }

    /// The queueing system of a queue named by a Stokehold label: Kueue, where it has such a LocalQueue in this namespace
    /// or such a ClusterQueue.
    pub(crate) fn system_of_queue(
        &self,
        system: QueueSystem,
        namespace: &Name,
        named: &Name,
    ) -> QueueSystem {
        let door = ObjectKey {
            namespace: namespace.clone(),
            name: named.clone(),
        };
        let queue = QueueKey {
            system: QueueSystem::Kueue,
            kind: QueueKind::Queue,
            name: named.clone(),
        };
        let is_ours = self.tables.has_queue(&QueueKey {
            system: QueueSystem::Stokehold,
            ..queue.clone()
        });
        let is_kueues =
            || self.tables.behind_door(&door).is_some() || self.tables.has_queue(&queue);
        match system {
            QueueSystem::Stokehold if !is_ours && is_kueues() => QueueSystem::Kueue,
            other => other,
        }
    }

    /// A queue was added or deleted: jobs that name it are joined again.
    pub(crate) fn rejoin_queue(&mut self, queue: &QueueKey) {
        if queue.system != QueueSystem::Kueue || queue.kind != QueueKind::Queue {
            return;
        }
        let jobs = self.jobs.values();
        let named: Vec<JobKey> = jobs
            .filter(|job| job.queue.as_ref() == Some(&queue.name))
            .map(|job| job.id.clone())
            .collect();
        self.dirty_jobs.extend(named);
    }

    /// A LocalQueue changed its ClusterQueue: everything in its namespace is joined again.
    pub(crate) fn rejoin_door(&mut self, door: &ObjectKey) {
        self.rejoin_namespace(&door.namespace);
    }
}
