//! A generated week of jobs for a cluster with one class of devices, the same for each scheduler that is compared, and the
//! figures of a run: completion, waits, utilization, each queue's share.

use std::time::Duration;

use engine::snapshot::{Preemption, Reclaim, SnapshotQueue, Within};
use model::base::rng::Rng;

use super::tests_world::{World, cohort, queue};

const GPUS: u32 = 8;

/// Queues with their nominal quota and their demand, in percent of the cluster and of the load: one demands far more than
/// its quota, another less.
const QUEUES: [(&str, u32, usize); 4] = [
    ("infra", 15, 25),
    ("nlp", 30, 30),
    ("research", 35, 20),
    ("vision", 20, 25),
];

/// Pods, devices per pod, and the weight in percent.
const SHAPES: [(u32, u32, usize); 8] = [
    (1, 1, 30),
    (1, 2, 14),
    (1, 4, 12),
    (1, 8, 14),
    (4, 1, 8),
    (2, 8, 10),
    (4, 8, 8),
    (8, 8, 4),
];

pub(super) const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);

/// A job of the load.
#[derive(Clone, Debug)]
pub(super) struct Submission {
    pub(super) name: String,
    /// When it is submitted, since the start of the week.
    pub(super) at: Duration,
    /// Index of its queue.
    pub(super) queue: usize,
    pub(super) priority: i32,
    pub(super) pods: u32,
    pub(super) gpus: u32,
    pub(super) runs: Duration,
    pub(super) saves_every: Option<Duration>,
    pub(super) estimate: Option<Duration>,
}

impl Submission {
    pub(super) const fn devices(&self) -> u32 {
        self.pods * self.gpus
    }
}

/// A cluster and its submissions in a week, by time.
pub(super) struct Load {
    pub(super) nodes: usize,
    pub(super) jobs: Vec<Submission>,
}

/// Draws an item by its weight.
fn weighted<T: Copy>(rng: &mut Rng, all: impl Iterator<Item = (T, usize)> + Clone) -> T {
    let sum = all.clone().map(|(_, weight)| weight).sum();
    let mut at = rng.below(sum);
    let mut last = None;
    for (it, weight) in all {
        last = Some(it);
        if at < weight {
            break;
        }
        at -= weight;
    }
    last.expect("one of them")
}

impl Load {
    /// `count` jobs whose work is `percent` of the capacity of the nodes in a week. Half of them have an estimate, wrong by a factor of
    /// up to two; gangs and half of the others save checkpoints; an eighth are copies of the previous job, submitted in the same minute.
    pub(super) fn new(count: usize, nodes: usize, percent: u64, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let week = WEEK.as_secs() as usize;
        let mut jobs: Vec<Submission> = Vec::new();
        while jobs.len() < count {
            let name = format!("j{:04}", jobs.len());
            if rng.below(8) == 0
                && let Some(last) = jobs.last()
            {
                let at = last.at + Duration::from_secs(rng.below(60) as u64);
                jobs.push(Submission {
                    name,
                    at,
                    ..last.clone()
                });
                continue;
            }
            let queues = QUEUES.iter().enumerate();
            let queue = weighted(&mut rng, queues.map(|(at, (_, _, load))| (at, *load)));
            // No job requests more than its queue's nominal quota.
            let own = nodes as u32 * GPUS * QUEUES[queue].1 / 100;
            let shapes = SHAPES.iter().filter(|(pods, gpus, _)| pods * gpus <= own);
            let shapes = shapes.map(|(pods, gpus, weight)| ((*pods, *gpus), *weight));
            let (pods, gpus) = weighted(&mut rng, shapes);
            // From ten minutes to ten hours and more, evenly on a logarithmic scale.
            let runs = (600_u64 << rng.below(6)) * (100 + rng.below(100) as u64) / 100;
            jobs.push(Submission {
                name,
                at: Duration::from_secs(rng.below(week) as u64),
                queue,
                priority: [0, 0, 0, 0, 0, 0, 0, 0, 10, 100][rng.below(10)],
                pods,
                gpus,
                runs: Duration::from_secs(runs),
                saves_every: (pods > 1 || rng.below(2) == 0).then(|| Duration::from_secs(1800)),
                estimate: (rng.below(2) == 0)
                    .then(|| Duration::from_secs(runs * (50 + rng.below(150) as u64) / 100)),
            });
        }
        // All durations are scaled by one factor, so that the total work is as requested.
        let work = jobs
            .iter()
            .map(|job| u64::from(job.devices()) * job.runs.as_secs());
        let work: u64 = work.sum();
        let capacity = nodes as u64 * u64::from(GPUS) * WEEK.as_secs();
        let scaled = |by: Duration| {
            let seconds = u128::from(by.as_secs()) * u128::from(capacity * percent / 100);
            Duration::from_secs(
                u64::try_from(seconds / u128::from(work))
                    .unwrap_or(u64::MAX)
                    .max(60),
            )
        };
        for job in &mut jobs {
            job.runs = scaled(job.runs);
            job.estimate = job.estimate.map(scaled);
        }
        jobs.sort_by(|a, b| (a.at, &a.name).cmp(&(b.at, &b.name)));
        Self { nodes, jobs }
    }

    pub(super) const fn devices(&self) -> u32 {
        self.nodes as u32 * GPUS
    }

    /// The cluster, with its queues in one cohort. One of them may borrow at most its nominal quota.
    pub(super) fn world(&self) -> World {
        let mut queues: Vec<SnapshotQueue> = vec![cohort("all")];
        for (at, (name, _, _)) in QUEUES.iter().enumerate() {
            let nominal = i64::from(self.entitled(at));
            let borrow = (*name == "nlp").then_some(nominal);
            let mut own = queue(name, Some("all"), &[("h100", nominal, borrow)]);
            own.preemption = Preemption {
                within: Within::LowerPriority,
                reclaim: Reclaim::Any,
                ..Preemption::default()
            };
            queues.push(own);
        }
        let nodes: Vec<(&str, u32)> = (0..self.nodes).map(|_| ("h100", GPUS)).collect();
        World::new(&nodes, queues)
    }

    /// Nominal quota of a queue, devices.
    fn entitled(&self, queue: usize) -> u32 {
        self.devices() * QUEUES[queue].1 / 100
    }

    pub(super) const fn queue(at: usize) -> &'static str {
        QUEUES[at].0
    }
}

/// Totals of a week.
#[derive(Clone, Debug, Default)]
pub(super) struct Account {
    /// Device-seconds of work within the week.
    worked: u64,
    /// Device-seconds of work that was done and lost.
    pub(super) lost: u64,
    /// By queue: device-seconds worked within its nominal quota, and those that it could have worked.
    had: [u64; QUEUES.len()],
    due: [u64; QUEUES.len()],
    /// Time from submission to end of each job; and of gangs that time without the run itself.
    completions: Vec<u64>,
    gang_waits: Vec<u64>,
}

impl Account {
    /// Advances the time; `unfinished` are the unfinished jobs, and whether each works.
    pub(super) fn pass<'a>(
        &mut self,
        load: &Load,
        (from, by): (Duration, Duration),
        unfinished: impl Iterator<Item = (&'a Submission, bool)>,
    ) {
        let seconds = by.min(WEEK.saturating_sub(from)).as_secs();
        let mut working = [0_u32; QUEUES.len()];
        let mut asked = [0_u32; QUEUES.len()];
        for (job, works) in unfinished {
            asked[job.queue] += job.devices();
            if works {
                working[job.queue] += job.devices();
            }
        }
        for queue in 0..QUEUES.len() {
            let due = load.entitled(queue).min(asked[queue]);
            self.worked += u64::from(working[queue]) * seconds;
            self.had[queue] += u64::from(working[queue].min(due)) * seconds;
            self.due[queue] += u64::from(due) * seconds;
        }
    }

    pub(super) fn ended(&mut self, job: &Submission, at: Duration) {
        let took = at.saturating_sub(job.at).as_secs();
        self.completions.push(took);
        if job.pods > 1 {
            self.gang_waits
                .push(took.saturating_sub(job.runs.as_secs()));
        }
    }

    pub(super) fn figures(&self, load: &Load) -> Figures {
        let hours = |seconds: f64| seconds / 3600.0;
        let mut waits = self.gang_waits.clone();
        waits.sort_unstable();
        let rank = (waits.len() * 99).div_ceil(100);
        let sum: u64 = self.completions.iter().sum();
        let shares: Vec<f64> = (self.had.iter().zip(&self.due))
            .map(|(had, due)| *had as f64 / (*due).max(1) as f64)
            .collect();
        let total: f64 = shares.iter().sum();
        let squares: f64 = shares.iter().map(|share| share * share).sum();
        let capacity = u64::from(load.devices()) * WEEK.as_secs();
        Figures {
            never: load.jobs.len() - self.completions.len(),
            completion: hours(sum as f64 / self.completions.len().max(1) as f64),
            gang_p99: hours(rank.checked_sub(1).map_or(0.0, |at| waits[at] as f64)),
            utilization: self.worked.saturating_sub(self.lost) as f64 / capacity as f64,
            jain: total * total / (shares.len() as f64 * squares),
            least: shares.iter().copied().fold(1.0, f64::min),
        }
    }
}

/// The figures of a week; times in hours.
#[derive(Clone, Copy, Debug)]
pub(super) struct Figures {
    /// Jobs that did not end.
    pub(super) never: usize,
    /// Mean time from submission to the end.
    pub(super) completion: f64,
    /// 99th percentile of the time in which gangs made no progress: pending, or repeating lost work.
    pub(super) gang_p99: f64,
    /// Work done within the week as a share of the devices' capacity, 0 to 1.
    pub(super) utilization: f64,
    /// Jain's index over each queue's work as a share of its nominal quota, or of its demand while that is less.
    pub(super) jain: f64,
    /// The least of these shares.
    pub(super) least: f64,
}

impl std::fmt::Display for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "mean completion {:.2} h, p99 wait of gangs {:.2} h, utilization {:.1} %, Jain {:.4}, least share {:.3}, never ended {}",
            self.completion,
            self.gang_p99,
            self.utilization * 100.0,
            self.jain,
            self.least,
            self.never
        )
    }
}
