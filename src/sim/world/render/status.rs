//! Status of controllers and budgets, counted from their pods.

use serde_json::{Map, Value, json};

use model::base::ObjectKey;

use super::super::work::{DisruptionBound, Kind, ReplicaGroup, State, Work};
use super::super::{Budget, World};
use super::{condition, metadata};

/// Pods of a group by what they do.
#[derive(Clone, Copy, Default)]
pub(super) struct PodCounts {
    pub(super) active: u32,
    pub(super) ready: u32,
    pub(super) terminating: u32,
}

impl World {
    pub(super) fn job_status(&self, work: &Work, at: u32) -> Value {
        let group = &work.groups[at as usize];
        let count = self.count(work, at);
        let mut status = Map::new();
        let mut put = |key: &str, value: Value| {
            status.insert(key.to_owned(), value);
        };
        if count.active > 0 {
            put("active", json!(count.active));
        }
        put("ready", json!(count.ready));
        put("terminating", json!(count.terminating));
        if !group.done.is_empty() {
            put("succeeded", json!(group.done.len()));
            put("completedIndexes", json!(ranges(group)));
        }
        if group.failed > 0 {
            put("failed", json!(group.failed));
        }
        put("uncountedTerminatedPods", json!({}));
        if let Some(started) = group.started
            && !work.suspended
        {
            put("startTime", json!(started.rfc3339()));
        }
        let mut rows = Vec::new();
        match work.state {
            State::Done(end, true) => {
                put("completionTime", json!(end.rfc3339()));
                rows.push(condition(
                    "SuccessCriteriaMet",
                    "True",
                    "CompletionsReached",
                    "Reached expected number of succeeded pods",
                    end,
                ));
                rows.push(condition(
                    "Complete",
                    "True",
                    "CompletionsReached",
                    "Reached expected number of succeeded pods",
                    end,
                ));
            }
            State::Done(end, false) => {
                let (reason, message) = work.failure.clone().unwrap_or_else(|| {
                    (
                        "BackoffLimitExceeded".into(),
                        "Job has reached the specified backoff limit".into(),
                    )
                });
                let reason = if work.kind == Kind::JobSet {
                    "BackoffLimitExceeded".into()
                } else {
                    reason
                };
                rows.push(condition("FailureTarget", "True", &reason, &message, end));
                rows.push(condition("Failed", "True", &reason, &message, end));
            }
            _ if work.suspended => {
                rows.push(condition(
                    "Suspended",
                    "True",
                    "JobSuspended",
                    "Job suspended",
                    work.suspended_since,
                ));
            }
            _ if work.suspended_since > work.created => {
                rows.push(condition(
                    "Suspended",
                    "False",
                    "JobResumed",
                    "Job resumed",
                    work.suspended_since,
                ));
            }
            _ => {}
        }
        for row in &mut rows {
            row["lastProbeTime"] = row["lastTransitionTime"].clone();
        }
        if !rows.is_empty() {
            put("conditions", Value::Array(rows));
        }
        Value::Object(status)
    }

    pub(super) fn jobset_status(&self, work: &Work) -> Value {
        let (mut ready, mut active, mut succeeded, mut failed, mut suspended) = (0, 0, 0, 0, 0);
        for (at, group) in work.groups.iter().enumerate() {
            let count = self.count(work, at as u32);
            match work.state {
                State::Done(_, true) => succeeded += 1,
                State::Done(_, false) => failed += 1,
                _ if work.suspended => suspended += 1,
                _ => {
                    active += u32::from(count.active > 0);
                    ready += u32::from(count.ready >= group.parallelism);
                }
            }
        }
        let mut status = json!({
            "restarts": work.restarts,
            "restartsCountTowardsMax": work.restarts,
            "replicatedJobsStatus": [{
                "name": "workers",
                "ready": ready,
                "active": active,
                "succeeded": succeeded,
                "failed": failed,
                "suspended": suspended,
            }],
        });
        let mut rows = Vec::new();
        match work.state {
            State::Done(end, true) => {
                status["terminalState"] = json!("Completed");
                rows.push(condition(
                    "Completed",
                    "True",
                    "AllJobsCompleted",
                    "jobset completed successfully",
                    end,
                ));
            }
            State::Done(end, false) => {
                status["terminalState"] = json!("Failed");
                let message = work
                    .failure
                    .as_ref()
                    .map_or("jobset failed", |(_, message)| message);
                rows.push(condition("Failed", "True", "FailedJobs", message, end));
            }
            _ if work.suspended => {
                rows.push(condition(
                    "Suspended",
                    "True",
                    "SuspendedJobs",
                    "jobset is suspended",
                    work.suspended_since,
                ));
            }
            _ => {
                rows.push(condition(
                    "Suspended",
                    "False",
                    "ResumeJobs",
                    "jobset is resumed",
                    work.suspended_since,
                ));
            }
        }
        status["conditions"] = Value::Array(rows);
        status
    }

    pub(super) fn deployment_status(&self, work: &Work) -> Value {
        let group = &work.groups[0];
        let count = self.count(work, 0);
        let missing = group.parallelism.saturating_sub(count.ready);
        let since = work.running_since.unwrap_or(work.created);
        let available = if count.ready + 1 >= group.parallelism && count.ready > 0 {
            condition(
                "Available",
                "True",
                "MinimumReplicasAvailable",
                "Deployment has minimum availability.",
                since,
            )
        } else {
            condition(
                "Available",
                "False",
                "MinimumReplicasUnavailable",
                "Deployment does not have minimum availability.",
                since,
            )
        };
        let progress = condition(
            "Progressing",
            "True",
            "NewReplicaSetAvailable",
            &format!("ReplicaSet \"{}\" has successfully progressed.", group.name),
            since,
        );
        let mut rows = vec![available, progress];
        for row in &mut rows {
            row["lastUpdateTime"] = row["lastTransitionTime"].clone();
        }
        let mut status = json!({
            "observedGeneration": work.edit.generation(),
            "replicas": count.active,
            "updatedReplicas": count.active,
            "readyReplicas": count.ready,
            "availableReplicas": count.ready,
            "conditions": rows,
        });
        if count.terminating > 0 {
            status["terminatingReplicas"] = json!(count.terminating);
        }
        if missing > 0 {
            status["unavailableReplicas"] = json!(missing);
        }
        status
    }

    pub(super) fn statefulset_status(&self, work: &Work) -> Value {
        let count = self.count(work, 0);
        let revision = format!("{}-{}", work.name, super::super::noise::suffix(work.uid, 9));
        json!({
            "observedGeneration": work.edit.generation(),
            "replicas": count.active,
            "readyReplicas": count.ready,
            "availableReplicas": count.ready,
            "currentReplicas": count.active,
            "updatedReplicas": count.active,
            "currentRevision": revision,
            "updateRevision": revision,
            "collisionCount": 0,
        })
    }

    pub(super) fn daemonset_status(&self, work: &Work) -> Value {
        let count = self.count(work, 0);
        json!({
            "observedGeneration": work.edit.generation(),
            "desiredNumberScheduled": count.active,
            "currentNumberScheduled": count.active,
            "numberMisscheduled": 0,
            "numberReady": count.ready,
            "numberAvailable": count.ready,
            "numberUnavailable": count.active - count.ready,
            "updatedNumberScheduled": count.active,
        })
    }

    pub(super) fn count(&self, work: &Work, group: u32) -> PodCounts {
        let mut count = PodCounts::default();
        for pod in work.pods.iter().filter_map(|id| self.pods.get(id)) {
            if pod.group != group {
                continue;
            }
            if pod.deleting.is_some() && !pod.phase.is_over() {
                count.terminating += 1;
            } else if pod.is_active() {
                count.active += 1;
                let node_ready = pod.node.is_none_or(|node| self.nodes[node].ready);
                count.ready += u32::from(pod.is_ready() && node_ready);
            }
        }
        count
    }

    pub(super) fn render_budget(&self, key: &ObjectKey, budget: &Budget) -> Value {
        let mut object = self.render_budget_base(key, budget);
        budget.edit.apply(&mut object);
        object
    }

    /// A disruption budget without what clients wrote over it.
    pub(in super::super) fn render_budget_base(&self, key: &ObjectKey, budget: &Budget) -> Value {
        let meta = metadata(&key.namespace, &key.name, budget.uid, budget.created);
        let mut object = match &budget.foreign {
            Some(written) => {
                let mut object = (**written).clone();
                for field in ["uid", "creationTimestamp", "namespace", "name"] {
                    object["metadata"][field] = meta[field].clone();
                }
                object
            }
            None => {
                let (field, value) = match &budget.bound {
                    DisruptionBound::MinAvailable(value) => ("minAvailable", value),
                    DisruptionBound::MaxUnavailable(value) => ("maxUnavailable", value),
                };
                let selector: Map<String, Value> = budget
                    .selector
                    .iter()
                    .map(|(key, value)| (key.to_string(), json!(&**value)))
                    .collect();
                json!({
                    "apiVersion": "policy/v1",
                    "kind": "PodDisruptionBudget",
                    "metadata": meta,
                    "spec": {field: value, "selector": {"matchLabels": selector}},
                })
            }
        };
        object["metadata"]["generation"] = json!(budget.edit.generation());
        let (expected, healthy, needed) = self.budget_numbers(key, budget);
        let allowed = healthy.saturating_sub(needed).min(expected);
        let (status, reason) = if allowed > 0 {
            ("True", "SufficientPods")
        } else {
            ("False", "InsufficientPods")
        };
        let mut row = condition("DisruptionAllowed", status, reason, "", budget.created);
        row["observedGeneration"] = json!(budget.edit.generation());
        row["message"] = json!("");
        object["status"] = json!({
            "observedGeneration": budget.edit.generation(),
            "expectedPods": expected,
            "currentHealthy": healthy,
            "desiredHealthy": needed,
            "disruptionsAllowed": allowed,
            "conditions": [row],
        });
        object
    }

    /// Pods that a budget expects, has healthy, and needs healthy.
    pub(in super::super) fn budget_numbers(
        &self,
        key: &ObjectKey,
        budget: &Budget,
    ) -> (u32, u32, u32) {
        let (mut expected, mut healthy) = (0u32, 0u32);
        for (at, work) in self.works.values().enumerate() {
            let _ = at;
            if work.namespace != key.namespace || budget.selector.is_empty() {
                continue;
            }
            let labels = self.template_labels(work);
            let matches = budget
                .selector
                .iter()
                .all(|(key, value)| labels.get(&**key).and_then(Value::as_str) == Some(&**value));
            if !matches {
                continue;
            }
            let pods = work
                .pods
                .iter()
                .filter_map(|id| self.pods.get(id))
                .filter(|pod| pod.is_active());
            let mut present = 0;
            for pod in pods {
                present += 1;
                let node_ready = pod.node.is_none_or(|node| self.nodes[node].ready);
                healthy += u32::from(pod.is_ready() && node_ready);
            }
            // The disruption controller reads the owner's scale.
            expected += match work.kind {
                Kind::Pod => present,
                _ if work.is_over() || work.suspended => 0,
                _ => work.width(),
            };
        }
        let share = |value: &Value, up: bool| match value {
            Value::String(text) => {
                let percent: u64 = text.trim_end_matches('%').parse().unwrap_or(0);
                let part = u64::from(expected) * percent;
                (if up { part.div_ceil(100) } else { part / 100 }) as u32
            }
            other => other.as_u64().unwrap_or(0) as u32,
        };
        let needed = match &budget.bound {
            DisruptionBound::MinAvailable(value) => share(value, true),
            DisruptionBound::MaxUnavailable(value) => expected.saturating_sub(share(value, true)),
        };
        (expected, healthy, needed)
    }
}

/// `completedIndexes`: `0-3,5`.
fn ranges(group: &ReplicaGroup) -> String {
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for &index in &group.done {
        match parts.last_mut() {
            Some(last) if last.1 + 1 == index => last.1 = index,
            _ => parts.push((index, index)),
        }
    }
    parts
        .iter()
        .map(|(from, to)| {
            if from == to {
                from.to_string()
            } else {
                format!("{from}-{to}")
            }
        })
        .collect::<Vec<_>>()
        .join(",")
}
