//! Freshly read objects that an action changes.

use serde_json::Value;

use cluster::Projected;
use cluster::mutations::{CHECKPOINT, entry, has_condition, text};
use cluster::workloads::job::{JobObject, JobSetObject};
use model::base::{Moment, Names, ObjectKey};
use model::fleet::govern::{KUEUE_QUEUE, QUEUE};
use model::fleet::observe::{Observation, Table, WorkloadSeen};
use model::fleet::siting;
use model::plan::{
    Budgets, Fact, JobName, JobRef, Loss, Object, Refusal, RefusalCode, SideEffects, Test,
};

/// An object as it was read.
#[derive(Clone, PartialEq, Debug)]
pub struct FoundObject {
    /// Its reference, with the UID.
    pub object: Object,
    pub now: Value,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SubjectPriorityClass {
    pub name: String,
    pub value: i64,
}

/// A job, from the named object up to its top owner.
#[derive(Clone, PartialEq, Debug)]
pub struct JobSubject {
    /// The named object, then its owners up to the top one. Never empty.
    pub chain: Vec<FoundObject>,
    /// Its Kueue Workloads that have not ended, by name; the newest one where all have. A LeaderWorkerSet has one for each group.
    pub workloads: Vec<FoundObject>,
    pub pod_group: Option<FoundObject>,
    /// The cluster's PriorityClasses, followed by Kueue's WorkloadPriorityClasses.
    pub classes: Vec<SubjectPriorityClass>,
    pub workload_classes: Vec<SubjectPriorityClass>,
}

#[derive(Clone, PartialEq, Debug)]
pub enum ActionTarget {
    Job(Box<JobSubject>),
    Queue(Box<FoundObject>),
}

/// The system that decides when a job runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StartSystem {
    Kueue,
    /// Volcano, by a Volcano Job.
    VolcanoJob,
    /// Volcano, by a PodGroup.
    VolcanoGroup,
    Kai,
    /// Our own admission controller (`govern`).
    Ours,
    None,
}

impl FoundObject {
    /// A fact about this object.
    pub fn fact(&self, test: Test) -> Fact {
        Fact {
            object: self.object.clone(),
            test,
        }
    }

    /// The fact that a field has the value that was read.
    pub fn same(&self, path: &str) -> Fact {
        self.fact(match self.now.pointer(path) {
            Some(value) if !value.is_null() => Test::Is {
                path: path.to_owned(),
                value: value.clone(),
            },
            _ => Test::Absent {
                path: path.to_owned(),
            },
        })
    }
}

impl JobSubject {
    /// The top owner, on which actions act.
    pub fn top(&self) -> &FoundObject {
        self.chain.last().expect("a subject has an object")
    }

    pub fn named(&self) -> &FoundObject {
        self.chain.first().expect("a subject has an object")
    }

    /// Its Workloads.
    ///
    /// # Errors
    /// Kueue has created none.
    pub fn made_workloads(&self) -> Result<&[FoundObject], Refusal> {
        match self.workloads.as_slice() {
            [] => {
                let sentence = format!(
                    "{} is managed by Kueue, which has created no Workload for it",
                    self.top().object
                );
                Err(Refusal::new(RefusalCode::Unknown, sentence)
                    .instead("look at its events: its queue or its priority class may not exist"))
            }
            all => Ok(all),
        }
    }

    /// `NAMESPACE/NAME` of the top owner.
    pub fn job(&self) -> JobName {
        let object = &self.top().object;
        JobName(ObjectKey::new(
            object.namespace.clone(),
            object.name.clone(),
        ))
    }

    /// Note where the action acts on another object than the named one.
    pub fn detour(&self) -> Option<String> {
        let (named, top) = (&self.named().object, &self.top().object);
        (named != top).then(|| format!("{named} belongs to {top}: the action is on {top}"))
    }

    /// The system that decides when it runs.
    pub fn system(&self) -> StartSystem {
        let top = self.top();
        let label = |key: &str| entry(&top.now, "labels", key).is_some_and(|v| !v.is_empty());
        if !self.workloads.is_empty() || label(KUEUE_QUEUE) {
            return StartSystem::Kueue;
        }
        if &*top.object.place.group == "batch.volcano.sh" {
            return StartSystem::VolcanoJob;
        }
        if label("kai.scheduler/queue") {
            return StartSystem::Kai;
        }
        if self.pod_group.is_some() {
            return StartSystem::VolcanoGroup;
        }
        if label(QUEUE) || entry(&top.now, "annotations", QUEUE).is_some() {
            return StartSystem::Ours;
        }
        StartSystem::None
    }

    fn seen(&self) -> Option<WorkloadSeen> {
        let top = self.top();
        let mut names = Names::default();
        let place = (&*top.object.place.group, &*top.object.place.plural);
        let seen = match place {
            ("batch", "jobs") => serde_json::from_value::<JobObject>(top.now.clone())
                .ok()?
                .project(Table::Jobs, &mut names),
            ("jobset.x-k8s.io", "jobsets") => {
                serde_json::from_value::<JobSetObject>(top.now.clone())
                    .ok()?
                    .project(Table::JobSets, &mut names)
            }
            _ => None,
        };
        match seen {
            Some(Observation::Workload(seen)) => Some(*seen),
            _ => None,
        }
    }

    /// A step's reference to the job.
    pub fn reference(&self) -> JobRef {
        let seen = self.seen();
        let parts: Vec<JobRef> = self.workloads.iter().map(|one| self.part(one)).collect();
        let sum = |of: fn(&JobRef) -> Option<u32>| {
            let all = parts.iter().map(of);
            let all: Option<u32> = all.sum();
            all.filter(|_| !parts.is_empty())
        };
        let gang = match parts.as_slice() {
            // (Each Workload of several starts by itself.)
            [_, _, ..] => None,
            _ => sum(|part| part.gang).or(seen.as_ref().and_then(|seen| seen.gang_min)),
        };
        JobRef {
            name: self.job(),
            devices: seen
                .map(|seen| seen.total.device_count())
                .or_else(|| sum(|part| part.devices)),
            gang: gang.filter(|size| *size > 1),
        }
    }

    /// The reference to the request of one Workload of the job.
    fn part(&self, workload: &FoundObject) -> JobRef {
        let seen = cluster::seen(Table::KueueWorkloads, &workload.now, &mut Names::default());
        let sets = match &seen {
            Some(Observation::Group(seen)) => &*seen.pod_sets,
            _ => &[],
        };
        let all = workload.now.pointer("/spec/podSets");
        let gang = all.and_then(Value::as_array).and_then(|sets| {
            let counts = sets.iter().map(|set| set.get("count"));
            let counts = counts.map(|count| count.and_then(Value::as_u64).unwrap_or(1));
            u32::try_from(counts.sum::<u64>()).ok()
        });
        JobRef {
            name: self.job(),
            devices: (!sets.is_empty()).then(|| siting::devices(sets)),
            gang,
        }
    }

    /// The reference of a step on one of several Workloads: what that one asks for.
    pub fn reference_of(&self, workload: &FoundObject) -> JobRef {
        match self.workloads.as_slice() {
            [_, _, ..] => {
                let part = self.part(workload);
                JobRef {
                    gang: part.gang.filter(|size| *size > 1),
                    ..part
                }
            }
            _ => self.reference(),
        }
    }

    /// Whether it has running pods, by its status.
    pub fn is_running(&self) -> bool {
        if !self.workloads.is_empty() {
            let mut all = self.workloads.iter();
            return all.any(|one| has_condition(&one.now, "QuotaReserved", "True"));
        }
        let now = &self.top().now;
        let suspended = ["/spec/suspend", "/spec/runPolicy/suspend"]
            .iter()
            .any(|path| now.pointer(path).and_then(Value::as_bool) == Some(true));
        !suspended
    }

    /// Side effects of stopping it, or one of its Workloads.
    pub fn stopping(&self, workload: Option<&FoundObject>, now: Moment) -> SideEffects {
        let runs = match workload {
            Some(workload) => has_condition(&workload.now, "QuotaReserved", "True"),
            None => self.is_running(),
        };
        if !runs {
            return SideEffects::default();
        }
        let top = &self.top().now;
        let reference = workload.map_or_else(|| self.reference(), |one| self.reference_of(one));
        let started = Moment::parse(text(top, "/status/startTime"));
        let saved = entry(top, "annotations", CHECKPOINT).and_then(Moment::parse);
        let since = saved.max(started);
        let lost = since.map(|since| now.since(since).seconds());
        let devices = reference.devices.map(u64::from);
        SideEffects {
            interrupts: true,
            budgets: Budgets::Ignored,
            timer_reset: top.get("kind").is_none_or(|kind| kind == "Job"),
            loss: Some(Loss {
                device_seconds: lost
                    .zip(devices)
                    .map(|(seconds, devices)| seconds.saturating_mul(devices)),
                micro_usd: None,
                by_list: false,
                since: saved,
            }),
            gang_broken: reference.gang,
            overwritten_by: None,
            notes: vec!["deletes its pods; ignores PodDisruptionBudgets".to_owned()],
        }
    }
}
