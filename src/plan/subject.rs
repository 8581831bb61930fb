//! The objects that an action is about, as they were just read.

use serde_json::Value;

use cluster::Projected;
use cluster::job::{JobObject, JobSetObject};
use cluster::mutations::{CHECKPOINT, entry, has_condition, text};
use model::base::{Moment, Names, ObjectKey};
use model::fleet::govern::{KUEUE_QUEUE, QUEUE};
use model::fleet::observe::{Observation, Table, WorkloadSeen};
use model::plan::{Budgets, Fact, JobName, JobRef, Loss, Object, SideEffects, Test};

/// An object as it was read.
#[derive(Clone, PartialEq, Debug)]
pub struct Found {
    /// Which, its uid included.
    pub object: Object,
    /// What stands in it.
    pub now: Value,
}

/// A class of priorities.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Class {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: i64,
}

/// A job, from what was named up to what owns it.
#[derive(Clone, PartialEq, Debug)]
pub struct Subject {
    /// What was named, then its controllers up to the one that nobody owns. Never empty.
    pub chain: Vec<Found>,
    /// Kueue's Workload for it.
    pub workload: Option<Found>,
    /// Volcano's PodGroup for it.
    pub pod_group: Option<Found>,
    /// The cluster's PriorityClasses, and Kueue's WorkloadPriorityClasses behind them.
    pub classes: Vec<Class>,
    /// Kueue's WorkloadPriorityClasses.
    pub workload_classes: Vec<Class>,
}

/// What an action is about.
#[derive(Clone, PartialEq, Debug)]
pub enum ActionTarget {
    /// A job.
    Job(Box<Subject>),
    /// A queue.
    Queue(Box<Found>),
}

/// Who decides when a job runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum System {
    /// Kueue.
    Kueue,
    /// Volcano, as a job of its own kind.
    VolcanoJob,
    /// Volcano, by a PodGroup.
    VolcanoGroup,
    /// KAI.
    Kai,
    /// Our own admission controller.
    Ours,
    /// Only kube-scheduler.
    None,
}

impl Found {
    /// A fact about it.
    pub fn fact(&self, test: Test) -> Fact {
        Fact {
            object: self.object.clone(),
            test,
        }
    }

    /// That a field is as it was read.
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

impl Subject {
    /// The object that nobody owns: what actions act on.
    pub fn top(&self) -> &Found {
        self.chain.last().expect("a subject has an object")
    }

    /// What was named.
    pub fn named(&self) -> &Found {
        self.chain.first().expect("a subject has an object")
    }

    /// `NAMESPACE/NAME` of the top.
    pub fn job(&self) -> JobName {
        let object = &self.top().object;
        JobName(ObjectKey::new(
            object.namespace.clone(),
            object.name.clone(),
        ))
    }

    /// Said when the object that is acted on is not the one that was named.
    pub fn detour(&self) -> Option<String> {
        let (named, top) = (&self.named().object, &self.top().object);
        (named != top).then(|| format!("{named} belongs to {top}, which is acted on"))
    }

    /// Who decides when it runs.
    pub fn system(&self) -> System {
        let top = self.top();
        let label = |key: &str| entry(&top.now, "labels", key).is_some_and(|v| !v.is_empty());
        if self.workload.is_some() || label(KUEUE_QUEUE) {
            return System::Kueue;
        }
        if &*top.object.place.group == "batch.volcano.sh" {
            return System::VolcanoJob;
        }
        if label("kai.scheduler/queue") {
            return System::Kai;
        }
        if self.pod_group.is_some() {
            return System::VolcanoGroup;
        }
        if label(QUEUE) || entry(&top.now, "annotations", QUEUE).is_some() {
            return System::Ours;
        }
        System::None
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

    /// The job as a step names it.
    pub fn reference(&self) -> JobRef {
        let seen = self.seen();
        let sets = self.workload.as_ref().and_then(|workload| {
            let sets = workload.now.pointer("/spec/podSets")?.as_array()?;
            let counts = sets
                .iter()
                .map(|set| set.get("count").and_then(Value::as_u64).unwrap_or(1));
            u32::try_from(counts.sum::<u64>()).ok()
        });
        let gang = sets.or(seen.as_ref().and_then(|seen| seen.gang_min));
        JobRef {
            name: self.job(),
            devices: seen.map(|seen| seen.total.device_count()),
            gang: gang.filter(|size| *size > 1),
        }
    }

    /// Whether it has pods that run, as far as its status says.
    pub fn is_running(&self) -> bool {
        if let Some(workload) = &self.workload {
            return has_condition(&workload.now, "QuotaReserved", "True");
        }
        let now = &self.top().now;
        let suspended = ["/spec/suspend", "/spec/runPolicy/suspend"]
            .iter()
            .any(|path| now.pointer(path).and_then(Value::as_bool) == Some(true));
        !suspended
    }

    /// What stopping it does besides.
    pub fn stopping(&self, now: Moment) -> SideEffects {
        if !self.is_running() {
            return SideEffects::default();
        }
        let top = &self.top().now;
        let reference = self.reference();
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
                since: saved,
            }),
            gang_broken: reference.gang,
            overwritten_by: None,
            notes: vec!["its pods are deleted; disruption budgets are not asked".to_owned()],
        }
    }
}
