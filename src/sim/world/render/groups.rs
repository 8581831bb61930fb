//! Volcano's Jobs, PodGroups and Queues, and KAI's PodGroups and Queues.
//!
//! Sources: volcano-sh/apis (`batch/v1alpha1`, `scheduling/v1beta1`), NVIDIA/KAI-Scheduler (`scheduling/v2`,
//! `scheduling/v2alpha2`).

use serde_json::{Map, Value, json};

use model::base::{Moment, Name};

use super::super::World;
use super::super::kai::kai_reason;
use super::super::noise::{mix, uuid};
use super::super::pod::{Phase, Pod};
use super::super::volcano::{BOUNDED, ROOT};
use super::super::work::{Scheduler, State, Work};
use super::{metadata, owner};

/// Amounts as a list of resources.
fn amounts(cpu_milli: i64, memory_mib: i64, devices: u32, pods: u32) -> Value {
    json!({
        "cpu": format!("{cpu_milli}m"),
        "memory": format!("{memory_mib}Mi"),
        BOUNDED: devices.to_string(),
        "pods": pods.to_string(),
    })
}

impl World {
    /// Why a gang's pods are not placed, in the scheduler's last message, and since when.
    fn unplaced(&self, work: &Work) -> Option<(Name, Moment)> {
        let pods = work.pods.iter().filter_map(|id| self.pods.get(id));
        let waiting = pods.filter(|pod| pod.node.is_none() && pod.is_active());
        let verdicts = waiting.filter_map(|pod| pod.verdict.clone());
        verdicts.max_by_key(|(_, since)| *since)
    }

    /// Since when all pods of a gang have their nodes.
    fn placed_since(&self, work: &Work) -> Option<Moment> {
        let pods = work.pods.iter().filter_map(|id| self.pods.get(id));
        pods.filter(|pod| pod.is_active())
            .filter_map(|pod| pod.scheduled)
            .max()
    }

    /// Volcano's message for a gang that it cannot place.
    pub(in super::super) fn volcano_verdict(&self, work: &Work) -> String {
        let all = work.width();
        let waiting = all - self.placed(work).min(all);
        format!(
            "{waiting}/{all} tasks in gang unschedulable: pod group is not ready, {waiting} Pending, {all} minAvailable; Pending: {waiting} Unschedulable"
        )
    }

    /// A Volcano job without identity and status.
    pub(super) fn volcano_job(&self, work: &Work) -> Value {
        let tasks: Vec<Value> = work
            .groups
            .iter()
            .map(|group| {
                let mut task = json!({
                    "name": &*group.name, "replicas": group.completions, "minAvailable": group.completions,
                });
                task["template"] = self.template(work, None);
                task
            })
            .collect();
        let queue = match &work.scheduler {
            Scheduler::Volcano(queue) => queue.to_string(),
            _ => "default".to_owned(),
        };
        let mut object = json!({
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "metadata": self.work_metadata(work),
            "spec": {
                "maxRetry": 3,
                "minAvailable": work.width(),
                "plugins": {"env": [], "svc": [], "pytorch": ["--master=worker", "--worker=worker", "--port=23456"]},
                "policies": [
                    {"event": "PodEvicted", "action": "RestartJob"},
                    {"event": "PodFailed", "action": "RestartJob"},
                ],
                "queue": queue,
                "schedulerName": work.scheduler.name(),
                "tasks": tasks,
                "ttlSecondsAfterFinished": 1800,
            },
        });
        if !work.group_class.is_empty() {
            object["spec"]["priorityClassName"] = json!(&*work.group_class);
        }
        object
    }

    /// The status of a Volcano job.
    pub(super) fn volcano_job_status(&self, work: &Work) -> Value {
        let pods: Vec<&Pod> = work
            .pods
            .iter()
            .filter_map(|id| self.pods.get(id))
            .collect();
        let ending = pods
            .iter()
            .filter(|pod| pod.deleting.is_some() && !pod.phase.is_over())
            .count();
        let count = |phase: Phase| {
            let of = |pod: &&&Pod| pod.phase == phase && (phase.is_over() || pod.is_active());
            pods.iter().filter(of).count()
        };
        let (phase, since) = match work.state {
            State::Done(end, true) => ("Completed", end),
            State::Done(end, false) => match &work.failure {
                Some((reason, _)) if &**reason == "Terminated" => ("Terminated", end),
                _ => ("Failed", end),
            },
            _ if work.suspended && ending > 0 => ("Aborting", work.suspended_since),
            _ if work.suspended => ("Aborted", work.suspended_since),
            State::Running => ("Running", work.running_since.unwrap_or(work.created)),
            State::Waiting if ending > 0 => ("Restarting", self.now.min(work.suspended_since)),
            State::Waiting => ("Pending", work.suspended_since),
        };
        let mut state = json!({"phase": phase, "lastTransitionTime": since.rfc3339()});
        if let (State::Done(_, false), Some((reason, message))) = (work.state, &work.failure) {
            state["reason"] = json!(&**reason);
            state["message"] = json!(&**message);
        }
        let mut status = json!({
            "state": state,
            "conditions": [{"status": phase, "lastTransitionTime": since.rfc3339()}],
            "controlledResources": {"plugin-env": "env", "plugin-pytorch": "pytorch", "plugin-svc": "svc"},
            "minAvailable": work.width(),
        });
        for (field, number) in [
            ("pending", count(Phase::Pending)),
            ("running", count(Phase::Running)),
            ("succeeded", count(Phase::Succeeded)),
            ("failed", count(Phase::Failed)),
            ("terminating", ending),
            ("retryCount", work.restarts as usize),
            ("version", work.restarts as usize),
        ] {
            if number > 0 {
                status[field] = json!(number);
            }
        }
        let tasks: Map<String, Value> = work
            .groups
            .iter()
            .enumerate()
            .map(|(at, group)| {
                let mut phases = Map::new();
                for pod in pods.iter().filter(|pod| pod.group as usize == at) {
                    let row = phases.entry(pod.phase.word()).or_insert(json!(0));
                    *row = json!(row.as_u64().unwrap_or(0) + 1);
                }
                (group.name.to_string(), json!({"phase": phases}))
            })
            .collect();
        status["taskStatusCount"] = Value::Object(tasks);
        status
    }

    /// The PodGroup of a Volcano job.
    pub(super) fn volcano_pod_group(&self, work: &Work) -> Option<Value> {
        let Scheduler::Volcano(queue) = &work.scheduler else {
            return None;
        };
        let (_, name) = work.children().into_iter().next()?;
        let uid = mix(work.uid, 0x90 + u64::from(work.clusters));
        let created = work.created.max(match work.clusters {
            0 => work.created,
            _ => work.suspended_since,
        });
        let mut meta = metadata(&work.namespace, &name, uid, created);
        meta["generation"] = json!(1);
        meta["ownerReferences"] = owner(
            "batch.volcano.sh/v1alpha1",
            work.kind.word(),
            &work.name,
            work.uid,
        );
        let all = work.width();
        let placed = self.placed(work);
        let there = work.pods.iter().filter_map(|id| self.pods.get(id));
        let running = there
            .filter(|pod| pod.is_active() && pod.phase == Phase::Running)
            .count();
        let mut status = json!({});
        let mut rows = Vec::new();
        let row = |kind: &str, reason: &str, message: &str, since: Moment| {
            json!({
                "type": kind, "status": "True", "reason": reason, "message": message,
                "lastTransitionTime": since.rfc3339(), "transitionID": uuid(mix(uid, since.millis() as u64)),
            })
        };
        status["phase"] = json!(match work.inqueue {
            None => "Pending",
            Some(_) if placed >= all => "Running",
            Some(_) => "Inqueue",
        });
        if placed >= all
            && let Some(since) = self.placed_since(work)
        {
            rows.push(row(
                "Scheduled",
                "tasks in gang are ready to be scheduled",
                "",
                since,
            ));
        } else if let Some((message, since)) = self.unplaced(work) {
            rows.push(row("Unschedulable", "NotEnoughResources", &message, since));
        }
        if running > 0 {
            status["running"] = json!(running);
        }
        if !rows.is_empty() {
            status["conditions"] = Value::Array(rows);
        }
        let members: Map<String, Value> = work
            .groups
            .iter()
            .map(|group| (group.name.to_string(), json!(group.completions)))
            .collect();
        let pods = i64::from(all);
        let mut object = json!({
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "PodGroup",
            "metadata": meta,
            "spec": {
                "minMember": all,
                "minTaskMember": members,
                "minResources": amounts(pods * work.ask.cpu_milli, pods * work.ask.memory_mib, work.devices(), all),
                "queue": &**queue,
            },
            "status": status,
        });
        if !work.group_class.is_empty() {
            object["spec"]["priorityClassName"] = json!(&*work.group_class);
        }
        Some(object)
    }

    /// A queue of Volcano.
    pub(super) fn render_volcano_queue(&self, at: usize) -> Option<Value> {
        let queue = self
            .volcano
            .get(at)
            .filter(|queue| !queue.name.is_empty())?;
        let mut object = self.render_volcano_queue_base(at);
        queue.edit.apply(&mut object);
        Some(object)
    }

    /// The same without what clients wrote over it.
    pub(in super::super) fn render_volcano_queue_base(&self, at: usize) -> Value {
        let queue = &self.volcano[at];
        let used = self.volcano_use(&queue.name);
        let groups = used.pending + used.inqueue + used.running;
        let state = match (queue.open, groups) {
            (true, _) => "Open",
            (false, 0) => "Closed",
            (false, _) => "Closing",
        };
        let mut meta = metadata("", &queue.name, queue.uid, queue.created);
        meta["generation"] = json!(queue.edit.generation());
        let mut spec = json!({"weight": queue.weight, "reclaimable": true});
        if !queue.parent.is_empty() {
            spec["parent"] = json!(&*queue.parent);
        }
        for (field, amount) in [
            ("capability", queue.capability),
            ("deserved", queue.deserved),
        ] {
            if let Some(amount) = amount {
                spec[field] = json!({BOUNDED: amount.to_string()});
            }
        }
        let mut status = json!({
            "state": state,
            "allocated": {BOUNDED: used.allocated.to_string(), "cpu": "0", "memory": "0"},
            "reservation": {},
        });
        let mut held = (0, 0);
        for work in self.works.values() {
            let root = &*queue.name == ROOT;
            if matches!(&work.scheduler, Scheduler::Volcano(name) if root || *name == queue.name) {
                let placed = i64::from(self.placed(work));
                held.0 += placed * work.ask.cpu_milli;
                held.1 += placed * work.ask.memory_mib;
            }
        }
        status["allocated"]["cpu"] = json!(format!("{}m", held.0));
        status["allocated"]["memory"] = json!(format!("{}Mi", held.1));
        for (field, number) in [
            ("pending", used.pending),
            ("inqueue", used.inqueue),
            ("running", used.running),
        ] {
            if number > 0 {
                status[field] = json!(number);
            }
        }
        json!({
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "Queue",
            "metadata": meta,
            "spec": spec,
            "status": status,
        })
    }

    /// The PodGroup that KAI's pod-grouper makes of a job.
    pub(super) fn kai_pod_group(&self, work: &Work) -> Option<Value> {
        let Scheduler::Kai(queue) = &work.scheduler else {
            return None;
        };
        let (_, name) = work.children().into_iter().next()?;
        let uid = mix(work.uid, 0x9a);
        let mut meta = metadata(&work.namespace, &name, uid, work.created);
        meta["generation"] = json!(1);
        meta["labels"] = json!({"kai.scheduler/queue": &**queue});
        // The pod-grouper names the top owner, and not as its controller.
        meta["ownerReferences"] = json!([{
            "apiVersion": super::api_of(work.kind.word()), "kind": work.kind.word(),
            "name": &*work.name, "uid": uuid(work.uid),
        }]);
        let all = work.width();
        let placed = self.placed(work);
        let pods: Vec<&Pod> = work
            .pods
            .iter()
            .filter_map(|id| self.pods.get(id))
            .collect();
        let active = |phase: Phase| {
            let of = |pod: &&&Pod| pod.is_active() && pod.phase == phase;
            pods.iter().filter(of).count()
        };
        let mut status = json!({
            "pending": active(Phase::Pending),
            "running": active(Phase::Running),
            "resourcesStatus": {
                "requested": {BOUNDED: (pods.iter().filter(|pod| pod.is_active()).count() as u32 * work.ask.count).to_string()},
            },
        });
        if placed > 0 {
            let held = (placed * work.ask.count).to_string();
            status["resourcesStatus"]["allocated"] = json!({BOUNDED: held});
        }
        if placed < all
            && let Some((message, since)) = self.unplaced(work)
        {
            let reason = kai_reason(&message);
            let message = &*message;
            status["schedulingConditions"] = json!([{
                "type": "UnschedulableOnNodePool", "nodePool": "default", "status": "True",
                "reason": reason, "message": message, "transitionID": "1",
                "lastTransitionTime": since.rfc3339(),
                "reasons": [{"reason": reason, "message": message}],
            }]);
        }
        let mut object = json!({
            "apiVersion": "scheduling.run.ai/v2alpha2",
            "kind": "PodGroup",
            "metadata": meta,
            "spec": {
                "queue": &**queue, "minMember": all, "markUnschedulable": false,
                "schedulingBackoff": -1, "topologyConstraint": {},
            },
            "status": status,
        });
        if !work.group_class.is_empty() {
            object["spec"]["priorityClassName"] = json!(&*work.group_class);
        }
        Some(object)
    }

    /// A queue of KAI.
    pub(super) fn render_kai_queue(&self, at: usize) -> Option<Value> {
        let queue = self.kai.get(at).filter(|queue| !queue.name.is_empty())?;
        let mut object = self.render_kai_queue_base(at);
        queue.edit.apply(&mut object);
        Some(object)
    }

    /// The same without what clients wrote over it.
    pub(in super::super) fn render_kai_queue_base(&self, at: usize) -> Value {
        let queue = &self.kai[at];
        let mut meta = metadata("", &queue.name, queue.uid, queue.created);
        meta["generation"] = json!(queue.edit.generation());
        let bound = |amount: Option<u32>| amount.map_or(-1, i64::from);
        let free = json!({"quota": -1, "limit": -1, "overQuotaWeight": 1});
        let mut spec = json!({
            "priority": 100,
            "resources": {
                "gpu": {"quota": bound(queue.quota), "limit": bound(queue.limit), "overQuotaWeight": 1},
                "cpu": free,
                "memory": free,
            },
        });
        if !queue.parent.is_empty() {
            spec["parentQueue"] = json!(&*queue.parent);
        }
        let (cpu, memory, devices) = self.kai_held(at);
        let below = |other: &&super::super::kai::KaiQueue| {
            !other.name.is_empty() && other.parent == queue.name
        };
        let below: Vec<&str> = self.kai.iter().filter(below).map(|it| &*it.name).collect();
        let mut status = json!({
            "allocated": {"cpu": format!("{cpu}m"), "memory": format!("{memory}Mi"), BOUNDED: devices.to_string()},
            "requested": {BOUNDED: self.kai_requested(at).to_string()},
        });
        if !below.is_empty() {
            status["childQueues"] = json!(below);
        }
        json!({
            "apiVersion": "scheduling.run.ai/v2",
            "kind": "Queue",
            "metadata": meta,
            "spec": spec,
            "status": status,
        })
    }
}
