//! A small cluster for tests: nodes, jobs with annotations, a scheduler that places pods, and time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cluster::mutations::GovernWrite;
use engine::live::CLASS;
use engine::snapshot::{
    DEVICES, DeviceRequest, EngineHealth, OwnerRuntimes, Placement, PodSet, ResourceRequests,
    Snapshot, SnapshotDevice, SnapshotFlavor, SnapshotNode, SnapshotQueue, SnapshotQuota, Status,
    System, WHOLE, Workload,
};
use model::base::{Moment, Name, ObjectKey};
use model::fleet::govern::{CHECKPOINT_WANTED, Governed};
use model::fleet::job::JobKey;
use model::plan::Object;

use super::{Decision, GovernRules, GovernedJob, PlannedWrite, batch, decide};

pub(super) const GPU: &str = "nvidia.com/gpu";
pub(super) const RULES: GovernRules = GovernRules {
    checkpoint_grace: Duration::from_secs(120),
    backoff: Duration::from_secs(60),
    since: Moment::from_seconds(1_795_231_500),
    observe: false,
};

/// A job with a number of pods and devices per pod.
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
    /// Node of each scheduled pod.
    pub(super) nodes: Vec<usize>,
    pub(super) since: Option<Moment>,
    /// When its pods have ended, once it is suspended.
    pub(super) leaves: Option<Moment>,
    pub(super) last_checkpoint: Option<Moment>,
    /// It saves a checkpoint after each such interval of work; without one it starts over when it is stopped.
    pub(super) saves_every: Option<Duration>,
    /// Remaining work at the last checkpoint.
    pub(super) saved: Duration,
    /// Work that it did and lost.
    pub(super) lost: Duration,
    pub(super) estimate: Option<Duration>,
    pub(super) ended: u32,
    pub(super) refused: Option<String>,
    pub(super) denied: Option<String>,
    pub(super) is_known: bool,
    /// Most of its pods that are ever scheduled.
    pub(super) most_pods: u32,
}

pub(super) struct World {
    pub(super) now: Moment,
    /// Class and devices of each node.
    pub(super) nodes: Vec<(String, u32)>,
    pub(super) queues: Vec<SnapshotQueue>,
    pub(super) jobs: Vec<Job>,
    /// How long pods of a suspended job take to end.
    pub(super) grace: Duration,
    /// Pods go to the node with the most free devices, as by kube-scheduler's default, instead of the first that fits.
    pub(super) spreads: bool,
    /// Jobs that the last decision found new.
    pub(super) new: Vec<JobKey>,
    /// Durations of past jobs by queue.
    pub(super) past: BTreeMap<String, Vec<i64>>,
}

pub(super) fn queue(
    name: &str,
    parent: Option<&str>,
    quotas: &[(&str, i64, Option<i64>)],
) -> SnapshotQueue {
    SnapshotQueue {
        name: Name::new(name),
        parent: parent.map(Name::new),
        system: System::Stokehold,
        quotas: quotas
            .iter()
            .map(|(flavor, nominal, borrow)| SnapshotQuota {
                flavor: Name::new(flavor),
                resource: Name::new(DEVICES),
                nominal: nominal * 1000,
                borrow: borrow.map(|borrow| borrow * 1000),
                lend: None,
                cap: None,
            })
            .collect(),
        ..SnapshotQueue::default()
    }
}

pub(super) fn cohort(name: &str) -> SnapshotQueue {
    SnapshotQueue {
        admits: false,
        ..queue(name, None, &[])
    }
}

/// Past runs in the engine's form.
fn past(owner: &str, runs: &[i64]) -> OwnerRuntimes {
    let mut sorted = runs.to_vec();
    sorted.sort_unstable();
    let tenth = |tenths: usize| sorted[(sorted.len() - 1) * tenths / 10];
    OwnerRuntimes {
        owner: Name::new(owner),
        count: sorted.len() as u32,
        p10_ms: tenth(1),
        p50_ms: tenth(5),
        p90_ms: tenth(9),
    }
}

impl World {
    pub(super) fn new(nodes: &[(&str, u32)], queues: Vec<SnapshotQueue>) -> Self {
        Self {
            now: Moment::parse("2026-11-21T06:00:00Z").expect("a moment"),
            nodes: nodes
                .iter()
                .map(|(class, gpus)| ((*class).to_owned(), *gpus))
                .collect(),
            queues,
            jobs: Vec::new(),
            grace: Duration::ZERO,
            spreads: false,
            new: Vec::new(),
            past: BTreeMap::new(),
        }
    }

    /// Submits a job with this number of pods and devices per pod.
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
            leaves: None,
            last_checkpoint: None,
            saves_every: None,
            saved: runs,
            lost: Duration::ZERO,
            estimate: Some(runs),
            ended: 0,
            refused: None,
            denied: None,
            is_known: true,
            most_pods: pods,
        });
        self.jobs.last_mut().expect("it was pushed")
    }

    pub(super) fn job(&mut self, name: &str) -> &mut Job {
        let mut all = self.jobs.iter_mut();
        all.find(|job| job.name == name).expect("a job")
    }

    fn class_flavors(&self) -> Vec<SnapshotFlavor> {
        let mut names: Vec<&String> = self.nodes.iter().map(|(class, _)| class).collect();
        names.sort();
        names.dedup();
        let flavor = |name: &&String| SnapshotFlavor {
            name: Name::new(name),
            labels: BTreeMap::from([(Name::new(CLASS), Name::new(name))]),
            ..SnapshotFlavor::default()
        };
        names.iter().map(flavor).collect()
    }

    /// The snapshot for the engine.
    pub(super) fn snapshot(&self) -> Snapshot {
        let nodes = self
            .nodes
            .iter()
            .enumerate()
            .map(|(at, (class, gpus))| SnapshotNode {
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
                    .map(|index| SnapshotDevice {
                        index,
                        class: Name::new(class),
                        resource: Name::new(GPU),
                        health: EngineHealth::Ok,
                        price: None,
                        by_list: false,
                        slices: Vec::new(),
                    })
                    .collect(),
                ..SnapshotNode::default()
            });
        let living = self.jobs.iter().filter(|job| job.left > Duration::ZERO);
        let mut snapshot = Snapshot {
            at: self.now,
            nodes: nodes.collect(),
            flavors: self.class_flavors(),
            queues: self.queues.clone(),
            workloads: living.map(|job| self.workload(job)).collect(),
            runs: self
                .past
                .iter()
                .map(|(owner, runs)| past(owner, runs))
                .collect(),
            ..Snapshot::default()
        };
        snapshot.settle();
        snapshot
    }

    /// A workload as `engine::live` builds it from a job with these annotations.
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
                requests: ResourceRequests {
                    devices: vec![DeviceRequest {
                        resource: Name::new(GPU),
                        count: job.gpus,
                        milli: WHOLE,
                    }],
                    ..ResourceRequests::default()
                },
                admitted: flavor
                    .map(|flavor| (Name::new(GPU), flavor))
                    .into_iter()
                    .collect(),
                placements: placements.collect(),
                ..PodSet::default()
            }],
            estimate_ms: job.estimate.map(|it| it.as_millis() as i64),
            owner: Name::new(&job.queue),
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
                pending_since: job.pending_since(),
                pod_priority: 0,
                was_new: self.new.contains(&job.key()),
                missing_since: job.pending_since(),
                missing_reason: Name::default(),
                is_gang: job.pods > 1,
                is_known: job.is_known,
                asks_nothing: job.gpus == 0,
                is_over: false,
                refused: job.refused.clone(),
                denied: job.denied.clone(),
            })
            .collect()
    }

    pub(super) fn decide(&self) -> Decision {
        decide(self.snapshot(), &self.governed(), &RULES)
    }

    /// Applies a write as the writer and the API server do.
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

    /// Decides and applies all writes.
    pub(super) fn turn(&mut self) -> Decision {
        self.turn_of(usize::MAX)
    }

    /// Decides and applies so many of the writes.
    pub(super) fn turn_of(&mut self, most: usize) -> Decision {
        let decision = self.decide();
        for write in &batch(&decision.writes, most, |_| true) {
            self.apply(write);
        }
        self.new = decision.entering.clone();
        decision
    }

    /// Free devices by node.
    fn free(&self) -> Vec<u32> {
        let mut free: Vec<u32> = self.nodes.iter().map(|(_, gpus)| *gpus).collect();
        for job in &self.jobs {
            for node in &job.nodes {
                let left = free[*node].checked_sub(job.gpus);
                free[*node] = left.expect("no node is over-committed");
            }
        }
        free
    }

    /// Advances the time: pods of suspended jobs end, others are scheduled in order, and jobs that are done end.
    pub(super) fn pass(&mut self, by: Duration) {
        self.now = self.now.plus(by);
        let (now, grace) = (self.now, self.grace);
        for job in self.jobs.iter_mut().filter(|job| !job.left.is_zero()) {
            if job.governed.suspended || job.leaves.is_some() {
                job.leave(now, grace);
            } else if job.is_whole() {
                job.work(now, by);
            }
        }
        let mut free = self.free();
        for job in &mut self.jobs {
            let goes = job.governed.suspended || job.leaves.is_some();
            if job.left.is_zero() || goes || job.is_whole() {
                continue;
            }
            let flavor = job.governed.flavor("main");
            while job.nodes.len() < job.most_pods as usize {
                let suits = |node: &usize| {
                    let is_of = |flavor: &Name| self.nodes[*node].0 == **flavor;
                    free[*node] >= job.gpus && flavor.as_ref().is_none_or(is_of)
                };
                let mut fit = (0..free.len()).filter(suits);
                let found = match self.spreads {
                    true => fit.max_by_key(|node| (free[*node], std::cmp::Reverse(*node))),
                    false => fit.next(),
                };
                let Some(node) = found else { break };
                free[node] -= job.gpus;
                job.nodes.push(node);
                job.since.get_or_insert(now);
            }
        }
    }

    /// Asserts that no quota, cohort or device class is overcommitted. In a `wild` world, pods of other jobs may be scheduled
    /// before those of an admitted job.
    pub(super) fn is_sound(&self, wild: bool) {
        for class in self.class_flavors().iter().map(|flavor| &*flavor.name) {
            let own = self.nodes.iter().filter(|(own, _)| own == class);
            let devices: u32 = own.map(|(_, gpus)| gpus).sum();
            assert!(
                wild || self.used(None, class) <= i64::from(devices),
                "{class} is held twice: {:#?}",
                self.jobs
            );
            let mut cohort = (0, 0);
            for queue in self.queues.iter().filter(|queue| queue.admits) {
                let quota = queue.quotas.iter().find(|quota| &*quota.flavor == class);
                let quota = quota.expect("a quota of each class");
                let governed = self.jobs.iter().filter(|job| {
                    job.queue == *queue.name && job.refused.is_none() && !job.left.is_zero()
                });
                // Jobs that we did not admit may be anywhere.
                let used: i64 = governed
                    .filter(|job| {
                        job.governed.is_admitted()
                            && job.governed.flavor("main").as_deref() == Some(class)
                    })
                    .map(|job| i64::from(job.pods * job.gpus) * 1000)
                    .sum();
                match (&queue.parent, quota.borrow) {
                    (None, _) => assert!(used <= quota.nominal, "{} over its own", queue.name),
                    (Some(_), Some(borrow)) => assert!(
                        used <= quota.nominal + borrow,
                        "{} borrows too much",
                        queue.name
                    ),
                    (Some(_), None) => {}
                }
                if queue.parent.is_some() {
                    cohort = (cohort.0 + used, cohort.1 + quota.nominal);
                }
            }
            assert!(
                cohort.0 <= cohort.1,
                "the cohort has {} and uses {}",
                cohort.1,
                cohort.0
            );
        }
    }

    /// Devices of a queue's admitted jobs by flavor, including those whose pods are ending.
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

    /// Sets its duration and its estimate.
    pub(super) fn lasts(&mut self, runs: Duration) {
        (self.runs, self.left, self.saved) = (runs, runs, runs);
        self.estimate = Some(runs);
    }

    /// All of its pods are scheduled.
    pub(super) fn is_whole(&self) -> bool {
        self.nodes.len() == self.pods as usize
    }

    /// Since when some of its pods are unscheduled while others are scheduled.
    fn pending_since(&self) -> Option<Moment> {
        let admitted = self.governed.moment(model::fleet::govern::ADMITTED);
        admitted.filter(|_| !self.nodes.is_empty() && !self.is_whole())
    }

    /// Its pods end, and unsaved work is lost.
    fn leave(&mut self, now: Moment, grace: Duration) {
        if self.nodes.is_empty() {
            return;
        }
        let gone = *self.leaves.get_or_insert(now.plus(grace));
        if gone <= now {
            self.nodes.clear();
            self.since = None;
            self.leaves = None;
            self.lost += self.saved - self.left;
            self.left = self.saved;
        }
    }

    /// Advances its work; when it is done, its pods end.
    fn work(&mut self, now: Moment, by: Duration) {
        self.left = self.left.saturating_sub(by);
        if self.left.is_zero() {
            self.nodes.clear();
            self.ended += 1;
            return;
        }
        if let Some(every) = self.saves_every {
            let done = self.runs - self.left;
            let since = Duration::from_millis((done.as_millis() % every.as_millis()) as u64);
            let saved = self.left + since;
            if saved < self.saved {
                self.saved = saved;
                self.last_checkpoint = Some(now.minus(since));
            }
            if self.note(CHECKPOINT_WANTED).is_some() {
                self.saved = self.left;
                self.last_checkpoint = Some(now);
            }
        }
    }
}
