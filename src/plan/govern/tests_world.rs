//! A small cluster for tests: nodes, jobs with what stands on them, a scheduler that places pods, and time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cluster::mutations::GovernWrite;
use engine::live::CLASS;
use engine::snapshot::{
    Ask, DEVICES, Device, DeviceAsk, Flavor, Health, Node, Placement, PodSet, Queue, Quota,
    Snapshot, Status, System, WHOLE, Workload,
};
use model::base::{Moment, Name, ObjectKey};
use model::fleet::govern::Governed;
use model::fleet::job::JobKey;
use model::plan::Object;

use super::{Decision, GovernRules, GovernedJob, PlannedWrite, decide};

pub(super) const GPU: &str = "nvidia.com/gpu";
pub(super) const RULES: GovernRules = GovernRules {
    checkpoint_grace: Duration::from_secs(120),
    backoff: Duration::from_secs(60),
    observe: false,
};

/// A job of a number of pods of a number of devices.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) name: String,
    pub(super) governed: Governed,
    pub(super) queue: String,
    pub(super) priority: i32,
    pub(super) created: Moment,
    pub(super) pods: u32,
    pub(super) gpus: u32,
    pub(super) runs: Duration,
    pub(super) left: Duration,
    /// Node of each pod that has one.
    pub(super) nodes: Vec<usize>,
    pub(super) since: Option<Moment>,
    pub(super) last_checkpoint: Option<Moment>,
    pub(super) ended: u32,
    pub(super) refused: Option<String>,
    pub(super) denied: Option<String>,
}

pub(super) struct World {
    pub(super) now: Moment,
    /// Class and devices of each node.
    pub(super) nodes: Vec<(String, u32)>,
    pub(super) queues: Vec<Queue>,
    pub(super) jobs: Vec<Job>,
}

pub(super) fn queue(
    name: &str,
    parent: Option<&str>,
    quotas: &[(&str, i64, Option<i64>)],
) -> Queue {
    Queue {
        name: Name::new(name),
        parent: parent.map(Name::new),
        system: System::Stokehold,
        quotas: quotas
            .iter()
            .map(|(flavor, nominal, borrow)| Quota {
                flavor: Name::new(flavor),
                resource: Name::new(DEVICES),
                nominal: nominal * 1000,
                borrow: borrow.map(|borrow| borrow * 1000),
                lend: None,
                cap: None,
            })
            .collect(),
        ..Queue::default()
    }
}

pub(super) fn cohort(name: &str) -> Queue {
    Queue {
        admits: false,
        ..queue(name, None, &[])
    }
}

impl World {
    pub(super) fn new(nodes: &[(&str, u32)], queues: Vec<Queue>) -> Self {
        Self {
            now: Moment::parse("2026-11-21T06:00:00Z").expect("a moment"),
            nodes: nodes
                .iter()
                .map(|(class, gpus)| ((*class).to_owned(), *gpus))
                .collect(),
            queues,
            jobs: Vec::new(),
        }
    }

    /// A job of so many pods of so many devices, as its owner makes it.
    pub(super) fn submit(
        &mut self,
        name: &str,
        queue: &str,
        priority: i32,
        pods: u32,
        gpus: u32,
    ) -> &mut Job {
        let runs = Duration::from_secs(600);
        self.jobs.push(Job {
            name: name.to_owned(),
            governed: Governed {
                queue: Name::new(queue),
                suspends: true,
                suspended: true,
                ..Governed::default()
            },
            queue: queue.to_owned(),
            priority,
            created: self.now,
            pods,
            gpus,
            runs,
            left: runs,
            nodes: Vec::new(),
            since: None,
            last_checkpoint: None,
            ended: 0,
            refused: None,
            denied: None,
        });
        self.jobs.last_mut().expect("it was pushed")
    }

    pub(super) fn job(&mut self, name: &str) -> &mut Job {
        let mut all = self.jobs.iter_mut();
        all.find(|job| job.name == name).expect("a job")
    }

    fn class_flavors(&self) -> Vec<Flavor> {
        let mut names: Vec<&String> = self.nodes.iter().map(|(class, _)| class).collect();
        names.sort();
        names.dedup();
        let flavor = |name: &&String| Flavor {
            name: Name::new(name),
            labels: BTreeMap::from([(Name::new(CLASS), Name::new(name))]),
            ..Flavor::default()
        };
        names.iter().map(flavor).collect()
    }

    /// What the engine is shown.
    pub(super) fn snapshot(&self) -> Snapshot {
        let nodes = self
            .nodes
            .iter()
            .enumerate()
            .map(|(at, (class, gpus))| Node {
                name: Name::from(format!("n{at:02}")),
                ready: true,
                labels: BTreeMap::from([
                    (Name::new(CLASS), Name::new(class)),
                    (
                        Name::new("nvidia.com/gpu.product"),
                        Name::from(format!("NVIDIA-{class}")),
                    ),
                ]),
                cpu_milli: 1_000_000,
                memory_bytes: 1 << 40,
                devices: (0..*gpus)
                    .map(|index| Device {
                        index,
                        class: Name::new(class),
                        resource: Name::new(GPU),
                        health: Health::Ok,
                        price: None,
                        slices: Vec::new(),
                    })
                    .collect(),
                ..Node::default()
            });
        let living = self.jobs.iter().filter(|job| job.left > Duration::ZERO);
        let mut snapshot = Snapshot {
            at: self.now,
            nodes: nodes.collect(),
            flavors: self.class_flavors(),
            queues: self.queues.clone(),
            workloads: living.map(|job| self.workload(job)).collect(),
            ..Snapshot::default()
        };
        snapshot.settle();
        snapshot
    }

    /// As `engine::live` makes it of a job with these annotations.
    fn workload(&self, job: &Job) -> Workload {
        let admitted = job.governed.is_admitted();
        let flavor = job.governed.flavor("main").filter(|_| admitted);
        let placements = job.nodes.iter().enumerate().map(|(at, node)| Placement {
            pod: Name::from(format!("{}-{at}", job.name)),
            node: Name::from(format!("n{node:02}")),
            started: job.since,
            ..Placement::default()
        });
        Workload {
            key: job.key(),
            queue: Some(Name::new(&job.queue)),
            priority: job.priority,
            created: job.created,
            sets: vec![PodSet {
                count: job.pods,
                min: 1,
                ask: Ask {
                    devices: vec![DeviceAsk {
                        resource: Name::new(GPU),
                        count: job.gpus,
                        milli: WHOLE,
                    }],
                    ..Ask::default()
                },
                admitted: flavor
                    .map(|flavor| (Name::new(GPU), flavor))
                    .into_iter()
                    .collect(),
                placements: placements.collect(),
                ..PodSet::default()
            }],
            estimate_ms: Some(job.runs.as_millis() as i64),
            preemptible: true,
            status: match (job.governed.suspended, job.nodes.is_empty()) {
                (true, true) => Status::Waiting,
                (true, false) => Status::Ending,
                (false, true) if !admitted => Status::Waiting,
                (false, _) => Status::Running,
            },
            admitted_at: job
                .governed
                .moment(model::fleet::govern::ADMITTED)
                .filter(|_| admitted),
            checkpoint: job.last_checkpoint,
            ..Workload::default()
        }
    }

    pub(super) fn governed(&self) -> Vec<GovernedJob> {
        let living = self.jobs.iter().filter(|job| job.left > Duration::ZERO);
        let labelled = living.filter(|job| !job.governed.queue.is_empty());
        labelled
            .map(|job| GovernedJob {
                key: job.key(),
                object: Object::new("batch", "v1", "jobs", "Job", &job.name).within("ns"),
                governed: Arc::new(job.governed.clone()),
                queue: job.governed.queue.clone(),
                last_checkpoint: job.last_checkpoint,
                running_since: job.since.filter(|_| !job.nodes.is_empty()),
                has_pods: !job.nodes.is_empty(),
                pending_since: None,
                is_over: false,
                refused: job.refused.clone(),
                denied: job.denied.clone(),
            })
            .collect()
    }

    pub(super) fn decide(&self) -> Decision {
        decide(self.snapshot(), &self.governed(), &RULES)
    }

    /// What a writer and the API server do.
    pub(super) fn apply(&mut self, write: &PlannedWrite) {
        let GovernWrite { suspend, notes, .. } = &write.write;
        let job = self.job(&write.job.key.name);
        if *suspend == Some(false) {
            assert!(job.governed.suspended, "{} is admitted twice", job.name);
        }
        job.governed.suspended = suspend.unwrap_or(job.governed.suspended);
        let mut all: BTreeMap<Name, Name> = job
            .governed
            .notes
            .iter()
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        for (key, value) in notes {
            match value {
                Some(value) => all.insert(Name::new(key), Name::new(value)),
                None => all.remove(*key),
            };
        }
        job.governed.notes = all.into_iter().collect();
    }

    /// Decides and writes all of it.
    pub(super) fn turn(&mut self) -> Decision {
        let decision = self.decide();
        for write in &decision.writes {
            self.apply(write);
        }
        decision
    }

    fn free(&self, node: usize) -> u32 {
        let held = self.jobs.iter().map(|job| {
            let here = job.nodes.iter().filter(|at| **at == node).count() as u32;
            here * job.gpus
        });
        self.nodes[node].1.saturating_sub(held.sum())
    }

    /// Lets time pass: pods of suspended jobs go, those of others are placed by whoever is first, and what has run long enough ends.
    pub(super) fn pass(&mut self, by: Duration) {
        self.now = self.now.plus(by);
        for at in 0..self.jobs.len() {
            let job = &self.jobs[at];
            if job.left.is_zero() {
                continue;
            }
            if job.governed.suspended {
                let job = &mut self.jobs[at];
                job.nodes.clear();
                job.since = None;
                continue;
            }
            if !job.nodes.is_empty() && job.nodes.len() == job.pods as usize {
                let job = &mut self.jobs[at];
                job.left = job.left.saturating_sub(by);
                if job.left.is_zero() {
                    job.nodes.clear();
                    job.ended += 1;
                }
                continue;
            }
            let flavor = job.governed.flavor("main");
            let (pods, gpus) = (job.pods as usize, job.gpus);
            for node in 0..self.nodes.len() {
                let suits = flavor.as_ref().is_none_or(|it| self.nodes[node].0 == **it);
                while suits && self.jobs[at].nodes.len() < pods && self.free(node) >= gpus {
                    self.jobs[at].nodes.push(node);
                    self.jobs[at].since.get_or_insert(self.now);
                }
            }
        }
    }

    /// Devices of a queue's admitted jobs by flavor, those whose pods are on their way out included.
    pub(super) fn used(&self, queue: Option<&str>, flavor: &str) -> i64 {
        let jobs = self.jobs.iter().filter(|job| !job.left.is_zero());
        let own = jobs.filter(|job| queue.is_none_or(|queue| queue == job.queue));
        own.map(|job| {
            let here = job.governed.flavor("main").is_some_and(|it| &*it == flavor);
            match job.governed.is_admitted() && here {
                true => i64::from(job.pods * job.gpus),
                false => {
                    let on = job
                        .nodes
                        .iter()
                        .filter(|node| self.nodes[**node].0 == flavor);
                    i64::from(on.count() as u32 * job.gpus)
                }
            }
        })
        .sum()
    }
}

impl Job {
    pub(super) fn key(&self) -> JobKey {
        JobKey {
            key: ObjectKey::new("ns", self.name.as_str()),
            kind: Name::new("Job"),
        }
    }

    pub(super) fn note(&self, key: &str) -> Option<&str> {
        self.governed.notes.get(key).map(|value| &**value)
    }
}
