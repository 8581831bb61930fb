//! Volcano: its queues, the enqueue action that admits a job's PodGroup, and the commands that its controller executes.
//!
//! Sources: volcano-sh/volcano v1.13, `pkg/scheduler/actions/enqueue`, `pkg/controllers/job`, `pkg/controllers/queue`.

use serde_json::Value;

use model::base::quantities::quantity;
use model::base::{Moment, Name, ObjectKey, SmallSort};

use crate::change::Resource;
use crate::world::clients::patch::Edit;
use crate::world::clients::requests::text;
use crate::world::work::{Scheduler, Work, WorkId, WorkKind};
use crate::world::{Happening, Ref, World};

/// The root queue, which Volcano creates.
pub(in crate::world) const ROOT: &str = "root";

#[derive(Clone, Debug)]
pub(in crate::world) struct VolcanoQueue {
    pub name: Name,
    /// The parent queue; empty at the top.
    pub parent: Name,
    /// Most devices that may be allocated; `None` is unlimited.
    pub capability: Option<u32>,
    /// Its own devices, which it lends while it does not need them.
    pub deserved: Option<u32>,
    pub weight: u32,
    pub open: bool,
    pub created: Moment,
    pub uid: u64,
    pub edit: Edit,
}

/// Devices and PodGroups of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(in crate::world) struct VolcanoUse {
    /// Devices of the scheduled pods.
    pub allocated: u32,
    /// Devices of the admitted jobs.
    pub admitted: u32,
    pub pending: u32,
    pub inqueue: u32,
    pub running: u32,
}

impl World {
    /// Jobs of a queue that have a PodGroup.
    fn volcano_works<'a>(&'a self, queue: &'a str) -> impl Iterator<Item = &'a Work> {
        self.works.values().filter(move |work| {
            let all = queue == ROOT;
            let own =
                matches!(&work.scheduler, Scheduler::Volcano(name) if all || &**name == queue);
            own && !work.suspended && !work.is_over()
        })
    }

    /// Devices and PodGroups of a queue's jobs.
    pub(in crate::world) fn volcano_use(&self, queue: &str) -> VolcanoUse {
        let mut all = VolcanoUse::default();
        for work in self.volcano_works(queue) {
            let placed = self.placed(work);
            all.allocated += placed * work.ask.count;
            match work.inqueue {
                None => all.pending += 1,
                Some(_) => {
                    all.admitted += work.devices();
                    match placed >= work.width() {
                        true => all.running += 1,
                        false => all.inqueue += 1,
                    }
                }
            }
        }
        all
    }

    /// Number of a work's scheduled pods.
    pub(in crate::world) fn placed(&self, work: &Work) -> u32 {
        let there = work.pods.iter().filter_map(|id| self.pods.get(id));
        let placed = there.filter(|pod| pod.is_active() && pod.node.is_some());
        placed.count() as u32
    }

    /// The enqueue action: admits PodGroups within their queues' capability, by priority, then age.
    pub(in crate::world) fn volcano_enqueue(&mut self) {
        let now = self.now;
        let mut waiting: Vec<(i32, i64, WorkId, Name)> = Vec::new();
        for (id, work) in &self.works {
            if let Scheduler::Volcano(queue) = &work.scheduler
                && work.inqueue.is_none()
                && !work.suspended
                && !work.is_over()
            {
                let rank = self.priority_of(&work.group_class);
                waiting.push((-rank, work.created.millis(), *id, queue.clone()));
            }
        }
        waiting.small_sort();
        for (_, _, id, name) in waiting {
            let Some(at) = self.volcano.iter().position(|queue| queue.name == name) else {
                continue;
            };
            let (queue, used) = (&self.volcano[at], self.volcano_use(&name));
            let wanted = self.works.get(&id).map_or(0, Work::devices);
            let fits = queue
                .capability
                .is_none_or(|most| used.admitted + wanted <= most);
            if queue.open && fits {
                if let Some(work) = self.works.get_mut(&id) {
                    work.inqueue = Some(now);
                }
                self.touch_work(id);
                self.kick(id, 300);
            }
        }
    }

    /// Marks the queue of a Volcano job as changed.
    pub(in crate::world) fn touch_volcano_queue(&mut self, id: WorkId) {
        let Some(Scheduler::Volcano(name)) = self.works.get(&id).map(|work| &work.scheduler) else {
            return;
        };
        let above = |queue: &VolcanoQueue| queue.name == *name || &*queue.name == ROOT;
        let due: Vec<usize> = (0..self.volcano.len())
            .filter(|at| above(&self.volcano[*at]))
            .collect();
        for at in due {
            self.touch(Ref::VolcanoQueue(at));
        }
    }

    /// A client wrote a queue.
    pub(in crate::world) fn write_volcano_queue(&mut self, key: &ObjectKey, object: &Value) {
        let amount = |pointer: &str| {
            let found = object.pointer(pointer)?;
            let whole = found.as_str().and_then(quantity).or(found.as_i64())?;
            u32::try_from(whole).ok()
        };
        let at = match self.volcano.iter().position(|it| it.name == key.name) {
            Some(at) => at,
            None => {
                self.volcano.push(VolcanoQueue {
                    name: key.name.clone(),
                    parent: Name::new(ROOT),
                    capability: None,
                    deserved: None,
                    weight: 1,
                    open: true,
                    created: self.now,
                    uid: crate::world::noise::mix(
                        self.key_word(&key.name),
                        self.now.millis() as u64,
                    ),
                    edit: Edit::default(),
                });
                self.volcano.len() - 1
            }
        };
        let base = self.render_volcano_queue_base(at);
        let queue = &mut self.volcano[at];
        queue.capability = amount("/spec/capability/nvidia.com~1gpu");
        queue.deserved = amount("/spec/deserved/nvidia.com~1gpu");
        queue.weight = amount("/spec/weight").unwrap_or(1);
        if base.get("spec") != object.get("spec") {
            queue.edit.bump();
        }
        let base = self.render_volcano_queue_base(at);
        self.volcano[at].edit.learn(&base, object);
        self.touch(Ref::VolcanoQueue(at));
        self.kick_scheduler();
    }

    /// A client deleted a queue. Its jobs are unchanged.
    pub(in crate::world) fn delete_volcano_queue(&mut self, key: &ObjectKey) {
        if let Some(at) = self.volcano.iter().position(|it| it.name == key.name) {
            self.retract(&Ref::VolcanoQueue(at), Resource::VolcanoQueues, key.clone());
            self.volcano[at].name = Name::default();
        }
    }

    /// A client created a Command, which the controller executes soon.
    pub(in crate::world) fn write_command(&mut self, key: ObjectKey, object: Value) {
        self.write_plain(Resource::VolcanoCommands, key.clone(), object);
        self.after(250, Happening::Command(key));
    }

    /// The controller deletes a Command and executes it.
    pub(in crate::world) fn carry_out(&mut self, key: ObjectKey) {
        let resource = Resource::VolcanoCommands;
        let Some(command) = self.plain.remove(&(resource, key.clone())) else {
            return;
        };
        self.retract(&Ref::Plain(resource, key.clone()), resource, key.clone());
        let target = text(&command, "/target/name");
        let action = text(&command, "/action");
        if text(&command, "/target/kind") == "Queue" {
            let found = self.volcano.iter().position(|queue| &*queue.name == target);
            if let Some(at) = found {
                match action {
                    "CloseQueue" => self.volcano[at].open = false,
                    "OpenQueue" => self.volcano[at].open = true,
                    _ => {}
                }
                self.touch(Ref::VolcanoQueue(at));
                self.kick_scheduler();
            }
            return;
        }
        let job = ObjectKey::new(key.namespace, target);
        let Some(Ref::Work(id)) = self.names.get(&(Resource::VolcanoJobs, job)).cloned() else {
            return;
        };
        let uid = crate::world::noise::uuid(self.works.get(&id).map_or(0, |work| work.uid));
        if text(&command, "/target/uid") != uid {
            return;
        }
        match action {
            "AbortJob" => {
                if let Some(work) = self.works.get_mut(&id) {
                    work.held = true;
                }
                self.suspend(id);
            }
            "ResumeJob" => {
                if let Some(work) = self.works.get_mut(&id) {
                    work.held = false;
                }
                self.resume(id);
            }
            "RestartJob" => {
                self.restart_gang(id, "Restarted by a command".to_owned());
            }
            "TerminateJob" => {
                if let Some(work) = self.works.get_mut(&id) {
                    let message = Name::new("the job was terminated by a command");
                    work.failure = Some((Name::new("Terminated"), message));
                }
                self.finish(id, false);
            }
            "CompleteJob" => self.finish(id, true),
            _ => {}
        }
    }

    /// A client wrote a Volcano job: only its priority class may change.
    pub(in crate::world) fn write_volcano_job(&mut self, id: WorkId, object: &Value) {
        let class = Name::new(text(object, "/spec/priorityClassName"));
        if let Some(work) = self.works.get_mut(&id)
            && work.kind == WorkKind::VolcanoJob
        {
            work.group_class = class;
            self.kick_scheduler();
        }
    }
}
