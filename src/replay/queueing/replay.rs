//! Replays jobs through their queues and computes the figures.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use model::base::document::unknown;

use super::floor::Hold;
use super::patient::{self, HeadPolicy};
use super::preemptive::{self, SortKey};
use super::{TraceJob, TraceQueue};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Discipline {
    /// First come, first served; the head of the queue blocks.
    Fifo,
    /// First come, first served; jobs that do not fit are skipped.
    BestEffort,
    /// The head has a reservation; others may overtake it if they do not delay it.
    Easy,
    /// Least attained device-time first, in levels, preemptive; no duration known.
    Las,
    /// Stokehold's: least remaining time first, preemptive, every duration known.
    Stokehold,
    /// Stokehold's with no duration known: least expected remaining time first, preemptive, learned from past runs.
    StokeholdUnknown,
}

impl Discipline {
    pub const ALL: [Self; 6] = [
        Self::Fifo,
        Self::BestEffort,
        Self::Easy,
        Self::Las,
        Self::Stokehold,
        Self::StokeholdUnknown,
    ];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fifo => "fifo",
            Self::BestEffort => "best-effort",
            Self::Easy => "easy",
            Self::Las => "las",
            Self::Stokehold => "stokehold",
            Self::StokeholdUnknown => "stokehold-unknown",
        }
    }
}

impl fmt::Display for Discipline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Discipline {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|discipline| discipline.name() == text)
            .ok_or_else(|| unknown("queueing policy", text, &Self::ALL.map(Self::name)))
    }
}

/// An interval during which a job had devices allocated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AllocatedSpan {
    /// Index of the job in the input list.
    pub job: usize,
    /// Start of the interval, milliseconds.
    pub from: i64,
    /// End of the interval, milliseconds.
    pub until: i64,
    /// Its devices, on the nodes of its queue.
    pub holds: Vec<Hold>,
}

/// Outcome of a job.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Fate {
    /// Time of completion, in milliseconds.
    pub finish: i64,
    /// Time without devices between submission and completion.
    pub waited: i64,
    pub preempted: u32,
    /// Time spent on resuming instead of working.
    pub lost: i64,
    /// The first start promised to it as head of its queue (EASY only).
    pub reserved_start: Option<i64>,
}

/// Result of a replay.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct QueueingResult {
    /// Per job; none for a job that never fits its queue or has no queue.
    pub fates: Vec<Option<Fate>>,
    /// All allocations, by queue and then by time.
    pub spans: Vec<AllocatedSpan>,
}

/// Runs every job through its queue; a queue without a name takes every job. `tick` gets the number of jobs processed and the total.
pub fn replay(
    jobs: &[TraceJob],
    queues: &[TraceQueue],
    discipline: Discipline,
    tick: &mut dyn FnMut(usize, usize),
) -> QueueingResult {
    let mut of_queue: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    let names: BTreeMap<&str, usize> = queues
        .iter()
        .enumerate()
        .map(|(at, queue)| (queue.name.as_str(), at))
        .collect();
    for (at, job) in jobs.iter().enumerate() {
        let queue = names.get("").or_else(|| names.get(job.queue.as_str()));
        if let Some(&queue) = queue.filter(|queue| queues[**queue].fits(job.devices)) {
            of_queue.entry(queue).or_default().push(at);
        }
    }
    let mut past = QueueingResult {
        fates: vec![None; jobs.len()],
        spans: Vec::new(),
    };
    let mut done = 0;
    for (queue, mut members) in of_queue {
        members.sort_by_key(|&at| (jobs[at].submit, at));
        let own: Vec<&TraceJob> = members.iter().map(|&at| &jobs[at]).collect();
        let mut tick = |dealt: usize| tick(done + dealt, jobs.len());
        let nodes = &queues[queue].nodes;
        let (fates, spans) = match discipline {
            Discipline::Fifo => patient::run(&own, nodes, HeadPolicy::Strict, &mut tick),
            Discipline::BestEffort => patient::run(&own, nodes, HeadPolicy::Skip, &mut tick),
            Discipline::Easy => patient::run(&own, nodes, HeadPolicy::Reserve, &mut tick),
            Discipline::Las => preemptive::run(&own, nodes, SortKey::Attained, &mut tick),
            Discipline::Stokehold => preemptive::run(&own, nodes, SortKey::Remaining, &mut tick),
            Discipline::StokeholdUnknown => {
                preemptive::run(&own, nodes, SortKey::Expected, &mut tick)
            }
        };
        done += own.len();
        for (&at, fate) in members.iter().zip(fates) {
            past.fates[at] = Some(fate);
        }
        past.spans
            .extend(spans.into_iter().map(|span| AllocatedSpan {
                job: members[span.job],
                ..span
            }));
    }
    past
}

/// Figures of a replay; times in milliseconds, means rounded down. None if there is no such job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueingReplayFigures {
    pub jobs: usize,
    /// Jobs that never ran: too large for their queue, or without one.
    pub never: usize,
    /// Mean time from submission to finish.
    pub jct_mean: Option<i64>,
    pub jct_p50: Option<i64>,
    pub jct_p95: Option<i64>,
    /// Mean total wait, including waits between runs.
    pub wait_mean: Option<i64>,
    pub wait_p95: Option<i64>,
    /// Its 99th percentile over gangs of eight devices and more.
    pub wait_p99_gangs: Option<i64>,
    pub preemptions: u64,
    /// Device-milliseconds spent on resuming.
    pub lost: i64,
}

impl QueueingReplayFigures {
    /// Computes the figures from the fates of the jobs.
    pub fn of(jobs: &[TraceJob], past: &QueueingResult) -> Self {
        let ran: Vec<(&TraceJob, Fate)> = jobs
            .iter()
            .zip(&past.fates)
            .filter_map(|(job, fate)| Some((job, (*fate)?)))
            .collect();
        let sorted = |value: &dyn Fn(&(&TraceJob, Fate)) -> Option<i64>| -> Vec<i64> {
            let mut values: Vec<i64> = ran.iter().filter_map(value).collect();
            values.sort_unstable();
            values
        };
        let completions = sorted(&|(job, fate)| Some(fate.finish - job.submit));
        let waits = sorted(&|(_, fate)| Some(fate.waited));
        let gangs = sorted(&|(job, fate)| (job.devices >= super::NODE).then_some(fate.waited));
        Self {
            jobs: ran.len(),
            never: jobs.len() - ran.len(),
            jct_mean: mean(&completions),
            jct_p50: percentile(&completions, 50),
            jct_p95: percentile(&completions, 95),
            wait_mean: mean(&waits),
            wait_p95: percentile(&waits, 95),
            wait_p99_gangs: percentile(&gangs, 99),
            preemptions: ran.iter().map(|(_, fate)| u64::from(fate.preempted)).sum(),
            lost: ran
                .iter()
                .map(|(job, fate)| fate.lost * i64::from(job.devices))
                .sum(),
        }
    }
}

fn mean(values: &[i64]) -> Option<i64> {
    let sum: i128 = values.iter().map(|value| i128::from(*value)).sum();
    let mean = sum.checked_div(values.len() as i128)?;
    i64::try_from(mean).ok()
}

/// The least value that is not below `percent` percent of the sorted values.
pub(super) fn percentile(values: &[i64], percent: usize) -> Option<i64> {
    let rank = (values.len() * percent).div_ceil(100);
    values.get(rank.checked_sub(1)?).copied()
}
