//! KAI: its queues, what their jobs hold, and the words for what cannot be placed.
//!
//! Sources: NVIDIA/KAI-Scheduler v0.10, `pkg/apis/scheduling/v2`, `pkg/scheduler/api/common_info`.

use serde_json::Value;

use model::base::{Moment, Name, ObjectKey, SmallSort};

use crate::change::Resource;
use crate::world::clients::patch::Edit;
use crate::world::clients::requests::text;
use crate::world::noise::mix;
use crate::world::work::{Scheduler, Work, WorkId};
use crate::world::{Ref, World};

/// By this its sentence about a limit is known.
const OVER_LIMIT: &str = "has reached the allowable limit";

/// The reason that belongs to a message of [`World::kai_verdict`].
pub(in crate::world) fn kai_reason(sentence: &str) -> &'static str {
    match sentence.contains(OVER_LIMIT) {
        true => "OverLimit",
        false => "PodSchedulingErrors",
    }
}

/// A queue of KAI. Amounts are whole devices; `None` is without bound.
#[derive(Clone, Debug)]
pub(in crate::world) struct KaiQueue {
    pub name: Name,
    /// The queue above; empty at the top.
    pub parent: Name,
    pub quota: Option<u32>,
    pub limit: Option<u32>,
    pub created: Moment,
    pub uid: u64,
    pub edit: Edit,
}

impl World {
    /// The queues that a job of this one counts in: itself, and those above.
    fn kai_line(&self, queue: &str) -> Vec<usize> {
        let mut line = Vec::new();
        let mut name = queue.to_owned();
        while let Some(at) = self.kai.iter().position(|it| *it.name == *name) {
            if line.contains(&at) || name.is_empty() {
                break;
            }
            line.push(at);
            name = self.kai[at].parent.to_string();
        }
        line
    }

    /// Jobs of a queue and of those below.
    fn kai_works(&self, at: usize) -> impl Iterator<Item = &Work> {
        self.works.values().filter(move |work| {
            let Scheduler::Kai(queue) = &work.scheduler else {
                return false;
            };
            !work.is_over() && !work.suspended && self.kai_line(queue).contains(&at)
        })
    }

    /// Pods that have a node, CPUs in thousandths, memory in MiB and devices that a queue's jobs hold.
    pub(in crate::world) fn kai_held(&self, at: usize) -> (i64, i64, u32) {
        let mut held = (0, 0, 0);
        for work in self.kai_works(at) {
            let placed = self.placed(work);
            held.0 += i64::from(placed) * work.ask.cpu_milli;
            held.1 += i64::from(placed) * work.ask.memory_mib;
            held.2 += placed * work.ask.count;
        }
        held
    }

    /// Devices that a queue's jobs ask for.
    pub(in crate::world) fn kai_requested(&self, at: usize) -> u32 {
        self.kai_works(at).map(Work::devices).sum()
    }

    /// The queue whose limit keeps a job out, if one does: its place, and what it holds.
    pub(in crate::world) fn kai_full(&self, work: &Work) -> Option<(usize, u32)> {
        let Scheduler::Kai(queue) = &work.scheduler else {
            return None;
        };
        let wanted = work.devices();
        self.kai_line(queue).into_iter().find_map(|at| {
            let held = self.kai_held(at).2;
            let limit = self.kai[at].limit?;
            (held + wanted > limit).then_some((at, held))
        })
    }

    /// KAI's message for a job that it cannot place.
    pub(in crate::world) fn kai_verdict(&self, work: &Work) -> String {
        let wanted = work.devices();
        match self.kai_full(work) {
            Some((at, held)) => {
                let queue = &self.kai[at];
                let limit = queue.limit.unwrap_or(0);
                format!(
                    "{} quota {OVER_LIMIT} of GPUs. Limit is {limit} GPUs, currently {held} GPUs allocated and workload requested {wanted} GPUs",
                    queue.name
                )
            }
            None => {
                let pods = work.width();
                format!(
                    "Resources were not found for {pods} pods due to: node(s) didn't have enough resources: GPUs"
                )
            }
        }
    }

    /// Evicts jobs of lower priority in a job's own queue, when that is enough for the limits.
    pub(in crate::world) fn kai_preempt(&mut self, id: WorkId) {
        let Some(work) = self.works.get(&id) else {
            return;
        };
        let Scheduler::Kai(queue) = &work.scheduler else {
            return;
        };
        let rank = self.priority_of(&work.group_class);
        let mut lower: Vec<(i32, i64, WorkId, u32)> = self
            .works
            .iter()
            .filter(|(_, other)| other.scheduler == work.scheduler && self.placed(other) > 0)
            .map(|(id, other)| {
                let since = other.running_since.unwrap_or(other.created).millis();
                let rank = self.priority_of(&other.group_class);
                (rank, -since, *id, self.placed(other) * other.ask.count)
            })
            .filter(|(theirs, ..)| *theirs < rank)
            .collect();
        lower.small_sort();
        let wanted = work.devices();
        let (line, mut freed, mut victims) = (self.kai_line(queue), 0, Vec::new());
        for (_, _, victim, devices) in lower {
            freed += devices;
            victims.push(victim);
            let fits = line.iter().all(|at| {
                let held = self.kai_held(*at).2.saturating_sub(freed);
                let limit = self.kai[*at].limit;
                limit.is_none_or(|limit| held + wanted <= limit)
            });
            if fits && freed >= wanted {
                let why = format!("preempted for {}/{}", work.namespace, work.name);
                for victim in victims {
                    self.restart_gang(victim, why.clone());
                }
                return;
            }
        }
    }

    /// KAI's pod-grouper, which looks at the owner of a job when one of its pods changes.
    pub(in crate::world) fn group_pods(&mut self, id: WorkId) {
        let Some(work) = self.works.get_mut(&id) else {
            return;
        };
        if matches!(work.scheduler, Scheduler::Kai(_)) && work.group_class != work.owner_class {
            work.group_class = work.owner_class.clone();
            self.touch_work(id);
        }
    }

    /// Marks the queues that a KAI job counts in as changed.
    pub(in crate::world) fn touch_kai_queues(&mut self, id: WorkId) {
        let Some(Scheduler::Kai(queue)) = self.works.get(&id).map(|work| &work.scheduler) else {
            return;
        };
        for at in self.kai_line(queue) {
            self.touch(Ref::KaiQueue(at));
        }
    }

    /// A client wrote a queue.
    pub(in crate::world) fn write_kai_queue(&mut self, key: &ObjectKey, object: &Value) {
        let amount = |field: &str| {
            let found = object.pointer(&format!("/spec/resources/gpu/{field}"))?;
            found
                .as_f64()
                .filter(|it| *it >= 0.0)
                .map(|it| it.min(f64::from(u32::MAX)) as u32)
        };
        let at = match self.kai.iter().position(|it| it.name == key.name) {
            Some(at) => at,
            None => {
                self.kai.push(KaiQueue {
                    name: key.name.clone(),
                    parent: Name::default(),
                    quota: None,
                    limit: None,
                    created: self.now,
                    uid: mix(self.key_word(&key.name), self.now.millis() as u64),
                    edit: Edit::default(),
                });
                self.kai.len() - 1
            }
        };
        let base = self.render_kai_queue_base(at);
        let queue = &mut self.kai[at];
        queue.parent = Name::new(text(object, "/spec/parentQueue"));
        queue.quota = amount("quota");
        // No limit, or none above its own, is its own quota.
        queue.limit = match amount("limit") {
            Some(0) => queue.quota,
            limit => limit,
        };
        if base.get("spec") != object.get("spec") {
            queue.edit.bump();
        }
        let base = self.render_kai_queue_base(at);
        self.kai[at].edit.learn(&base, object);
        for at in 0..self.kai.len() {
            self.touch(Ref::KaiQueue(at));
        }
        self.kick_scheduler();
    }

    /// A client deleted a queue. Its jobs stay as they are.
    pub(in crate::world) fn delete_kai_queue(&mut self, key: &ObjectKey) {
        if let Some(at) = self.kai.iter().position(|it| it.name == key.name) {
            self.retract(&Ref::KaiQueue(at), Resource::KaiQueues, key.clone());
            self.kai[at].name = Name::default();
            for at in 0..self.kai.len() {
                self.touch(Ref::KaiQueue(at));
            }
        }
    }
}
