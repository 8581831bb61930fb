//! Owner chains: from a pod to the job, queue and team it belongs to, kept true as links come and go.

use std::sync::Arc;

use model::base::{Name, ObjectKey};
use model::fleet::device::{Pod, TeamSource};
use model::fleet::job::JobKey;
use model::fleet::kinds::Table;
use model::fleet::object_parts::{Labels, OwnerRef};
use model::fleet::policy::{TeamRule, glob};
use model::fleet::queue::QueueSystem;
use model::fleet::seen::{PodSeen, WorkloadSeen};

use crate::fold::Ledger;

/// Longer chains are cycles or mistakes.
const LONGEST_CHAIN: usize = 8;

/// The result of an owner chain.
pub(crate) struct Chain {
    pub(crate) job: JobKey,
    /// Links from the bottom up, known or not.
    pub(crate) links: Vec<OwnerRef>,
    /// Known workloads from the top down.
    pub(crate) known: Vec<Arc<WorkloadSeen>>,
}

/// Whose queue and whose team a job's is.
pub(crate) struct Belonging {
    pub(crate) queue: Option<Name>,
    pub(crate) queue_system: QueueSystem,
    pub(crate) team: Name,
    pub(crate) team_source: TeamSource,
}

impl Ledger {
    /// Follows `owner` up; `own` is the object at the bottom, which is the job when it has no owner.
    pub(crate) fn chain(&self, own: JobKey, owner: Option<&OwnerRef>) -> Chain {
        let mut chain = Chain {
            job: own,
            links: Vec::new(),
            known: Vec::new(),
        };
        let mut next = owner.cloned();
        while let Some(link) = next {
            // A mirror pod is owned by its node; it is its own job.
            if link.kind.as_str() == "Node" || chain.links.len() >= LONGEST_CHAIN {
                break;
            }
            chain.job = JobKey {
                key: ObjectKey {
                    namespace: chain.job.key.namespace.clone(),
                    name: link.name.clone(),
                },
                kind: link.kind.clone(),
            };
            let workload = match link.uid.is_empty() {
                false => self
                    .by_uid
                    .get(&link.uid)
                    .and_then(|id| self.workloads.get(id)),
                true => self.workload_named(&chain.job),
            };
            // A LeaderWorkerSet's leader pod owns the StatefulSet of its workers.
            let pod = match link.kind.as_str() {
                "Pod" => self
                    .pods
                    .get(&chain.job.key)
                    .filter(|pod| pod.uid == link.uid),
                _ => None,
            };
            let group = self.group_named(&chain.job, &link.uid);
            chain.links.push(link);
            next = workload
                .and_then(|workload| workload.owner.clone())
                .or_else(|| pod.and_then(|pod| pod.owner.clone()))
                .or_else(|| group.and_then(|group| group.owner.clone()));
            chain.known.extend(workload.cloned());
        }
        chain.known.reverse();
        chain
    }

    /// The workload of this kind and name, for references that carry no id.
    fn workload_named(&self, job: &JobKey) -> Option<&Arc<WorkloadSeen>> {
        Table::ALL
            .iter()
            .filter(|table| table.holds_jobs())
            .filter_map(|table| self.workloads.get(&(*table, job.key.clone())))
            .find(|workload| workload.kind == job.kind)
    }

    /// Queue and team of a job, from the labels of its workloads and pods, highest first, and from its queueing system.
    pub(crate) fn queue_and_team(&self, job: &JobKey, labels: &[&Labels]) -> Belonging {
        let namespace = &job.key.namespace;
        let keys = |keys: &[String]| {
            labels
                .iter()
                .find_map(|labels| labels.first(keys.iter().map(String::as_str)))
                .cloned()
        };
        let labelled = labels.iter().find_map(|labels| {
            self.policy.queue_labels.iter().find_map(|key| {
                let value = labels.get(key).filter(|value| !value.is_empty())?;
                Some((QueueSystem::of_label(key), value.clone()))
            })
        });
        // The queueing system's own status has precedence over a label.
        let admitted = self
            .admission(job)
            .filter(|admission| admission.queue.is_some());
        let (queue_system, queue) = match (&admitted, &labelled) {
            (Some(admitted), _) => (admitted.system(), admitted.queue.clone()),
            (None, Some((system, value))) => {
                let system = self.system_of_queue(*system, namespace, value);
                (system, Some(self.behind_name(system, namespace, value)))
            }
            (None, None) => (QueueSystem::None, None),
        };
        // Users know the name that is in the label.
        let door = labelled
            .map(|(_, value)| value)
            .or_else(|| admitted.and_then(|admitted| admitted.seen.queue_name.clone()))
            .or_else(|| queue.clone());
        let belonging = |team, team_source| Belonging {
            queue: queue.clone(),
            queue_system,
            team,
            team_source,
        };
        let rule = self.policy.teams.iter().find(|rule| {
            [&door, &queue]
                .into_iter()
                .any(|queue| matches(rule, namespace, queue.as_deref(), labels))
        });
        if let Some(rule) = rule {
            return belonging(Name::new(&rule.name), TeamSource::Settings);
        }
        if let Some(team) = keys(&self.policy.team_labels) {
            return belonging(team, TeamSource::Label);
        }
        let of_namespace = self
            .namespaces
            .get(namespace)
            .and_then(|labels| labels.first(self.policy.team_labels.iter().map(String::as_str)));
        if let Some(team) = of_namespace {
            return belonging(team.clone(), TeamSource::NamespaceLabel);
        }
        match door {
            Some(door) => belonging(door, TeamSource::Queue),
            None => belonging(namespace.clone(), TeamSource::Namespace),
        }
    }

    /// Joins a pod that requests devices again; other pods have no join.
    pub(crate) fn rejoin_pod(&mut self, key: &ObjectKey) {
        let Some(seen) = self.pods.get(key).cloned() else {
            return;
        };
        let seen = self.with_claims(seen);
        if seen.requests.device_count() == 0 {
            self.drop_join(key);
            return;
        }
        let own = JobKey {
            key: key.clone(),
            kind: self.names.intern("Pod"),
        };
        let chain = self.chain(own, seen.owner.as_ref());
        let job = self.job_by_group(&seen).unwrap_or(chain.job);
        let labels: Vec<&Labels> = chain
            .known
            .iter()
            .map(|workload| &workload.labels)
            .chain([&seen.labels])
            .collect();
        let place = self.queue_and_team(&job, &labels);
        let pod = Pod {
            seen,
            job,
            queue: place.queue,
            team: place.team,
            team_source: place.team_source,
        };
        if let Some(old) = self.joined.get(key).cloned() {
            if old.job != pod.job {
                self.leave_job(key, &old.job);
            }
            if let Some(node) = &old.seen.node {
                self.dirty_nodes.insert(node.clone());
            }
        }
        if let Some(node) = &pod.seen.node {
            self.dirty_nodes.insert(node.clone());
        }
        self.job_pods
            .entry(pod.job.clone())
            .or_default()
            .insert(key.clone());
        self.dirty_jobs.insert(pod.job.clone());
        self.joined.insert(key.clone(), Arc::new(pod));
    }

    fn leave_job(&mut self, key: &ObjectKey, job: &JobKey) {
        if let Some(members) = self.job_pods.get_mut(job) {
            members.remove(key);
            if members.is_empty() {
                self.job_pods.remove(job);
            }
        }
        self.dirty_jobs.insert(job.clone());
    }

    pub(crate) fn drop_join(&mut self, key: &ObjectKey) {
        if let Some(old) = self.joined.remove(key) {
            self.leave_job(key, &old.job);
            self.dirty_nodes.extend(old.seen.node.clone());
        }
    }

    pub(crate) fn unlink_pod(&mut self, key: &ObjectKey, old: &PodSeen) {
        if let Some(owner) = &old.owner
            && let Some(children) = self.pods_by_owner.get_mut(&owner.uid)
        {
            children.remove(key);
            if children.is_empty() {
                self.pods_by_owner.remove(&owner.uid);
            }
        }
    }

    pub(crate) fn unlink_workload(&mut self, id: &(Table, ObjectKey), old: &WorkloadSeen) {
        if let Some(owner) = &old.owner
            && let Some(children) = self.workloads_by_owner.get_mut(&owner.uid)
        {
            children.remove(id);
            if children.is_empty() {
                self.workloads_by_owner.remove(&owner.uid);
            }
        }
    }

    /// Joins a workload and everything below it again.
    pub(crate) fn rejoin_workload(&mut self, id: &(Table, ObjectKey)) {
        self.rejoin_below(id, 0);
    }

    fn rejoin_below(&mut self, id: &(Table, ObjectKey), depth: usize) {
        let Some(workload) = self.workloads.get(id).cloned() else {
            return;
        };
        let own = JobKey {
            key: workload.key.clone(),
            kind: workload.kind.clone(),
        };
        let job = self.chain(own, workload.owner.as_ref()).job;
        if let Some(old) = self.job_of_workload.insert(id.clone(), job.clone())
            && old != job
        {
            self.leave_as_workload(id, &old);
        }
        self.job_workloads
            .entry(job.clone())
            .or_default()
            .insert(id.clone());
        self.dirty_jobs.insert(job);
        self.rejoin_children(&workload.uid, depth);
        self.rejoin_named(&workload.kind, &workload.key, depth);
    }

    /// A pod that owns workloads (a LeaderWorkerSet's leader) was added, deleted or got another owner.
    pub(crate) fn rejoin_owned_by_pod(&mut self, uid: &Name, old: Option<&PodSeen>) {
        if let Some(old) = old
            && old.uid != *uid
        {
            self.rejoin_children(&old.uid, 0);
        }
        self.rejoin_children(uid, 0);
    }

    pub(crate) fn rejoin_children(&mut self, uid: &Name, depth: usize) {
        if depth > LONGEST_CHAIN || uid.is_empty() {
            return;
        }
        self.rejoin_groups_of(uid, depth);
        for pod in self.pods_by_owner.get(uid).cloned().unwrap_or_default() {
            self.rejoin_pod(&pod);
            if let Some(own) = self.pods.get(&pod).map(|pod| pod.uid.clone()) {
                self.rejoin_children(&own, depth + 1);
            }
        }
        for child in self
            .workloads_by_owner
            .get(uid)
            .cloned()
            .unwrap_or_default()
        {
            self.rejoin_below(&child, depth + 1);
        }
    }

    fn leave_as_workload(&mut self, id: &(Table, ObjectKey), job: &JobKey) {
        if let Some(members) = self.job_workloads.get_mut(job) {
            members.remove(id);
            if members.is_empty() {
                self.job_workloads.remove(job);
            }
        }
        self.dirty_jobs.insert(job.clone());
    }

    pub(crate) fn drop_workload(&mut self, id: &(Table, ObjectKey), old: &WorkloadSeen) {
        if let Some(job) = self.job_of_workload.remove(id) {
            self.leave_as_workload(id, &job);
        }
        self.rejoin_children(&old.uid, 0);
        self.rejoin_named(&old.kind, &old.key, 0);
    }

    /// A namespace's labels name teams: everything in it is joined again.
    pub(crate) fn rejoin_namespace(&mut self, namespace: &Name) {
        let pods: Vec<ObjectKey> = self
            .joined
            .keys()
            .filter(|key| key.namespace == *namespace)
            .cloned()
            .collect();
        for key in pods {
            self.rejoin_pod(&key);
        }
        let jobs: Vec<JobKey> = self
            .job_workloads
            .keys()
            .chain(self.jobs.keys())
            .filter(|job| job.key.namespace == *namespace)
            .cloned()
            .collect();
        self.dirty_jobs.extend(jobs);
    }
}

/// Every condition that a rule names must hold; a rule that names none matches nothing.
fn matches(rule: &TeamRule, namespace: &str, queue: Option<&str>, labels: &[&Labels]) -> bool {
    let any_condition =
        !(rule.namespaces.is_empty() && rule.queues.is_empty() && rule.labels.is_empty());
    any_condition
        && (rule.namespaces.is_empty()
            || rule
                .namespaces
                .iter()
                .any(|pattern| glob(pattern, namespace)))
        && (rule.queues.is_empty()
            || queue.is_some_and(|queue| rule.queues.iter().any(|pattern| glob(pattern, queue))))
        && rule.labels.iter().all(|(key, value)| {
            labels
                .iter()
                .any(|labels| labels.get(key).is_some_and(|found| glob(value, found)))
        })
}
