//! Owner chains: from a pod to the job, queue and team it belongs to, kept true as links come and go.

use std::sync::Arc;

use crate::base::{Name, ObjectKey};
use crate::fleet::device::{Pod, TeamSource};
use crate::fleet::job::JobKey;
use crate::fleet::observe::{Labels, OwnerRef, PodSeen, Table, WorkloadSeen};
use crate::fleet::policy::{Policy, TeamRule};

use super::Ledger;

/// Longer chains are cycles or mistakes.
const LONGEST_CHAIN: usize = 8;

/// What an owner chain comes to.
pub(super) struct Chain {
    pub(super) job: JobKey,
    /// Links from the bottom up, known or not.
    pub(super) links: Vec<OwnerRef>,
    /// Known workloads from the top down.
    pub(super) known: Vec<Arc<WorkloadSeen>>,
}

impl Ledger {
    /// Follows `owner` up; `own` is the object at the bottom, which is the job when it has no owner.
    pub(super) fn chain(&self, own: JobKey, owner: Option<&OwnerRef>) -> Chain {
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
            let workload = self
                .by_uid
                .get(&link.uid)
                .and_then(|id| self.workloads.get(id));
            chain.links.push(link);
            next = workload.and_then(|workload| workload.owner.clone());
            chain.known.extend(workload.cloned());
        }
        chain.known.reverse();
        chain
    }

    fn queue_and_team(
        &self,
        namespace: &Name,
        labels: &[&Labels],
    ) -> (Option<Name>, Name, TeamSource) {
        let keys = |keys: &[String]| {
            labels
                .iter()
                .find_map(|labels| labels.first(keys.iter().map(String::as_str)))
                .cloned()
        };
        let queue = keys(&self.policy.queue_labels);
        let rule = self
            .policy
            .teams
            .iter()
            .find(|rule| matches(rule, namespace, queue.as_deref(), labels));
        if let Some(rule) = rule {
            return (queue, Name::new(&rule.name), TeamSource::Settings);
        }
        if let Some(team) = keys(&self.policy.team_labels) {
            return (queue, team, TeamSource::Label);
        }
        let of_namespace = self
            .namespaces
            .get(namespace)
            .and_then(|labels| labels.first(self.policy.team_labels.iter().map(String::as_str)));
        if let Some(team) = of_namespace {
            return (queue, team.clone(), TeamSource::NamespaceLabel);
        }
        match queue {
            Some(queue) => (Some(queue.clone()), queue, TeamSource::Queue),
            None => (None, namespace.clone(), TeamSource::Namespace),
        }
    }

    /// Queue and team of a job that may have no pod yet.
    pub(super) fn workload_queue_and_team(
        &self,
        top: &WorkloadSeen,
        below: &[Arc<WorkloadSeen>],
    ) -> (Option<Name>, Name, TeamSource) {
        let labels: Vec<&Labels> = std::iter::once(&top.labels)
            .chain(below.iter().map(|workload| &workload.labels))
            .collect();
        self.queue_and_team(&top.key.namespace, &labels)
    }

    /// Joins a pod that asks for devices anew; other pods have no join.
    pub(super) fn rejoin_pod(&mut self, key: &ObjectKey) {
        let Some(seen) = self.pods.get(key).cloned() else {
            return;
        };
        if seen.requests.device_count() == 0 {
            self.drop_join(key);
            return;
        }
        let own = JobKey {
            key: key.clone(),
            kind: self.names.intern("Pod"),
        };
        let chain = self.chain(own, seen.owner.as_ref());
        let labels: Vec<&Labels> = chain
            .known
            .iter()
            .map(|workload| &workload.labels)
            .chain([&seen.labels])
            .collect();
        let (queue, team, team_source) = self.queue_and_team(&key.namespace, &labels);
        let pod = Pod {
            seen,
            job: chain.job,
            queue,
            team,
            team_source,
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

    pub(super) fn drop_join(&mut self, key: &ObjectKey) {
        if let Some(old) = self.joined.remove(key) {
            self.leave_job(key, &old.job);
        }
    }

    pub(super) fn unlink_pod(&mut self, key: &ObjectKey, old: &PodSeen) {
        if let Some(owner) = &old.owner
            && let Some(children) = self.pods_by_owner.get_mut(&owner.uid)
        {
            children.remove(key);
            if children.is_empty() {
                self.pods_by_owner.remove(&owner.uid);
            }
        }
    }

    pub(super) fn unlink_workload(&mut self, id: &(Table, ObjectKey), old: &WorkloadSeen) {
        if let Some(owner) = &old.owner
            && let Some(children) = self.workloads_by_owner.get_mut(&owner.uid)
        {
            children.remove(id);
            if children.is_empty() {
                self.workloads_by_owner.remove(&owner.uid);
            }
        }
    }

    /// Joins a workload and everything below it anew.
    pub(super) fn rejoin_workload(&mut self, id: &(Table, ObjectKey)) {
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
    }

    fn rejoin_children(&mut self, uid: &Name, depth: usize) {
        if depth > LONGEST_CHAIN {
            return;
        }
        for pod in self.pods_by_owner.get(uid).cloned().unwrap_or_default() {
            self.rejoin_pod(&pod);
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

    pub(super) fn drop_workload(&mut self, id: &(Table, ObjectKey), old: &WorkloadSeen) {
        if let Some(job) = self.job_of_workload.remove(id) {
            self.leave_as_workload(id, &job);
        }
        self.rejoin_children(&old.uid, 0);
    }

    /// A namespace's labels name teams: everything in it is joined anew.
    pub(super) fn rejoin_namespace(&mut self, namespace: &Name) {
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

/// True when `text` is `pattern`, or begins with what stands before the pattern's final `*`.
pub(super) fn glob(pattern: &str, text: &str) -> bool {
    pattern
        .strip_suffix('*')
        .map_or(pattern == text, |head| text.starts_with(head))
}

impl Policy {
    /// The pool rule that a node's labels match, if any.
    pub fn pool_rule(&self, labels: &Labels) -> Option<&super::super::policy::PoolRule> {
        self.pools.iter().find(|rule| {
            !rule.labels.is_empty()
                && rule.labels.iter().all(|(key, value)| {
                    labels
                        .get(key)
                        .is_some_and(|found| value.is_empty() || glob(value, found))
                })
        })
    }
}
