//! Volcano's Jobs, PodGroups and Queues, and KAI's PodGroups and Queues.

use serde_json::{Map, Value};

use model::base::{Moment, Name};

use super::super::World;
use super::super::noise::{mix, uuid};
use super::super::pod::{PodPhase, SimPod};
use super::super::queueing::kai::{KaiQueue, kai_reason};
use super::super::queueing::volcano::ROOT;
use super::super::work::{ReplicaGroup, Scheduler, Work, WorkState};
use super::template::some_text;
use super::{Fill, filled, identity, some, values};

impl World {
    /// Why a gang's pods are not placed, in the scheduler's last message, and since when.
    fn unplaced(&self, work: &Work) -> Option<(Name, Moment)> {
        let waiting = self
            .pods_of(work)
            .filter(|pod| pod.node.is_none() && pod.is_active());
        waiting
            .filter_map(|pod| pod.verdict.clone())
            .max_by_key(|(_, since)| *since)
    }

    /// Since when all pods of a gang have their nodes.
    fn placed_since(&self, work: &Work) -> Option<Moment> {
        self.pods_of(work)
            .filter(|pod| pod.is_active())
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

    /// What the template of a Volcano job's state names.
    pub(super) fn volcano_values(&self, work: &Work) -> Vec<(&'static str, Value)> {
        let ending = self
            .pods_of(work)
            .filter(|pod| pod.deleting.is_some() && !pod.phase.is_over())
            .count() as u32;
        let count = |phase: PodPhase| {
            let of = |pod: &&SimPod| pod.phase == phase && (phase.is_over() || pod.is_active());
            some(self.pods_of(work).filter(of).count() as u32)
        };
        let failure = work
            .failure
            .as_ref()
            .filter(|_| matches!(work.state, WorkState::Done(_, false)));
        let (phase, since) = match work.state {
            WorkState::Done(end, true) => ("Completed", end),
            WorkState::Done(end, false) => match failure {
                Some((reason, _)) if &**reason == "Terminated" => ("Terminated", end),
                _ => ("Failed", end),
            },
            _ if work.suspended && ending > 0 => ("Aborting", work.suspended_since),
            _ if work.suspended => ("Aborted", work.suspended_since),
            WorkState::Running => ("Running", work.running_since.unwrap_or(work.created)),
            WorkState::Waiting if ending > 0 => ("Restarting", self.now.min(work.suspended_since)),
            WorkState::Waiting => ("Pending", work.suspended_since),
        };
        let task = |(at, group): (usize, &ReplicaGroup)| {
            let mut phases: Map<String, Value> = Map::new();
            for pod in self.pods_of(work).filter(|pod| pod.group as usize == at) {
                let row = phases.entry(pod.phase.word()).or_insert(0.into());
                *row = (row.as_u64().unwrap_or(0) + 1).value();
            }
            (
                group.name.to_string(),
                Map::from_iter([("phase".to_owned(), phases.value())]).value(),
            )
        };
        values!(
            phase: phase,
            since: since,
            reason: failure.map(|(reason, _)| reason),
            message: failure.map(|(_, message)| message),
            pending: count(PodPhase::Pending),
            running: count(PodPhase::Running),
            succeeded: count(PodPhase::Succeeded),
            failed: count(PodPhase::Failed),
            terminating: some(ending),
            retries: some(work.restarts),
            taskStatus: work.groups.iter().enumerate().map(task).collect::<Map<_, _>>(),
        )
    }

    /// The PodGroup of a Volcano job.
    pub(super) fn volcano_pod_group(&self, work: &Work) -> Option<Value> {
        if !matches!(work.scheduler, Scheduler::Volcano(_)) {
            return None;
        }
        let (_, name) = work.children().into_iter().next()?;
        let uid = mix(work.uid, 0x90 + u64::from(work.clusters));
        let created = match work.clusters {
            0 => work.created,
            _ => work.created.max(work.suspended_since),
        };
        let (all, ask) = (i64::from(work.width()), &work.ask);
        let whole = self.placed(work) >= work.width();
        let phase = match work.inqueue {
            None => "Pending",
            Some(_) if whole => "Running",
            Some(_) => "Inqueue",
        };
        let placed = self.placed_since(work).filter(|_| whole);
        let unplaced = self.unplaced(work).filter(|_| placed.is_none());
        let since = placed.or(unplaced.as_ref().map(|(_, since)| *since));
        let members = work
            .groups
            .iter()
            .map(|group| (group.name.to_string(), group.completions.value()));
        let own = values!(
            childIdentity: identity(&work.namespace, &name, uid, created),
            owner: self.owner_work(work),
            members: members.collect::<Map<_, _>>(),
            cpu: all * ask.cpu_milli,
            memory: all * ask.memory_mib,
            phase: phase,
            running: some(self.active_in(work, PodPhase::Running)),
            placed: placed,
            unplaced: unplaced.as_ref().map(|(message, _)| message),
            unplacedSince: since,
            transition: since.map(|since| uuid(mix(uid, since.millis() as u64))),
        );
        Some(self.filled_for("volcano-pod-group", work, own))
    }

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
        let state = match (queue.open, used.pending + used.inqueue + used.running) {
            (true, _) => "Open",
            (false, 0) => "Closed",
            (false, _) => "Closing",
        };
        let root = &*queue.name == ROOT;
        let own = |work: &&Work| matches!(&work.scheduler, Scheduler::Volcano(name) if root || *name == queue.name);
        let (mut cpu, mut memory) = (0, 0);
        for work in self.works.values().filter(own) {
            let placed = i64::from(self.placed(work));
            cpu += placed * work.ask.cpu_milli;
            memory += placed * work.ask.memory_mib;
        }
        let own = values!(
            identity: identity("", &queue.name, queue.uid, queue.created),
            generation: queue.edit.generation(),
            weight: queue.weight,
            parent: some_text(&queue.parent),
            capability: queue.capability.map(|amount| amount.to_string()),
            deserved: queue.deserved.map(|amount| amount.to_string()),
            state: state,
            allocated: used.allocated.to_string(),
            cpu: cpu,
            memory: memory,
            pending: some(used.pending),
            inqueue: some(used.inqueue),
            running: some(used.running),
        );
        filled("VolcanoQueue", own)
    }

    /// The PodGroup that KAI's pod-grouper makes of a job.
    pub(super) fn kai_pod_group(&self, work: &Work) -> Option<Value> {
        if !matches!(work.scheduler, Scheduler::Kai(_)) {
            return None;
        }
        let (_, name) = work.children().into_iter().next()?;
        let placed = self.placed(work);
        let active = self.pods_of(work).filter(|pod| pod.is_active()).count() as u32;
        let unplaced = self.unplaced(work).filter(|_| placed < work.width());
        let own = values!(
            childIdentity: identity(&work.namespace, &name, mix(work.uid, 0x9a), work.created),
            pending: self.active_in(work, PodPhase::Pending),
            running: self.active_in(work, PodPhase::Running),
            requested: (active * work.ask.count).to_string(),
            allocated: some(placed).map(|pods| (pods * work.ask.count).to_string()),
            unplaced: unplaced.as_ref().map(|(message, _)| message),
            unplacedReason: unplaced.as_ref().map(|(message, _)| kai_reason(message)),
            unplacedSince: unplaced.as_ref().map(|(_, since)| *since),
        );
        Some(self.filled_for("kai-pod-group", work, own))
    }

    pub(super) fn render_kai_queue(&self, at: usize) -> Option<Value> {
        let queue = self.kai.get(at).filter(|queue| !queue.name.is_empty())?;
        let mut object = self.render_kai_queue_base(at);
        queue.edit.apply(&mut object);
        Some(object)
    }

    /// The same without what clients wrote over it.
    pub(in super::super) fn render_kai_queue_base(&self, at: usize) -> Value {
        let queue = &self.kai[at];
        let bound = |amount: Option<u32>| amount.map_or(-1, i64::from);
        let (cpu, memory, devices) = self.kai_held(at);
        let below = |other: &&KaiQueue| !other.name.is_empty() && other.parent == queue.name;
        let own = values!(
            identity: identity("", &queue.name, queue.uid, queue.created),
            generation: queue.edit.generation(),
            parent: some_text(&queue.parent),
            quota: bound(queue.quota),
            limit: bound(queue.limit),
            cpu: cpu,
            memory: memory,
            devices: devices.to_string(),
            requested: self.kai_requested(at).to_string(),
            below: self.kai.iter().filter(below).map(|queue| queue.name.value()).collect::<Value>(),
        );
        filled("KaiQueue", own)
    }
}
