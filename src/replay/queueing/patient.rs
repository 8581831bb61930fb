//! Disciplines that never stop a running job: strict FIFO, best-effort FIFO, EASY backfill.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use super::TraceJob;
use super::floor::{Hold, fit, give, take};
use super::replay::{AllocatedSpan, Fate};

/// How a head that does not fit affects the jobs behind it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum HeadPolicy {
    Strict,
    Skip,
    /// They may start if that does not delay the head.
    Reserve,
}

/// State of one queue.
struct PatientRun<'j> {
    jobs: &'j [&'j TraceJob],
    now: i64,
    free: Vec<u32>,
    /// End times and jobs, earliest first.
    running: BinaryHeap<Reverse<(i64, usize)>>,
    holds: Vec<Vec<Hold>>,
    fates: Vec<Fate>,
    spans: Vec<AllocatedSpan>,
}

impl PatientRun<'_> {
    fn start(&mut self, job: usize, holds: Vec<Hold>) {
        let asked = self.jobs[job];
        take(&mut self.free, &holds);
        let end = self.now + asked.duration;
        self.running.push(Reverse((end, job)));
        self.fates[job].finish = end;
        self.fates[job].waited = self.now - asked.submit;
        self.spans.push(AllocatedSpan {
            job,
            from: self.now,
            until: end,
            holds: holds.clone(),
        });
        self.holds[job] = holds;
    }

    fn try_start(&mut self, job: usize) -> bool {
        let holds = fit(&self.free, self.jobs[job].devices);
        let fits = holds.is_some();
        if let Some(holds) = holds {
            self.start(job, holds);
        }
        fits
    }

    /// Latest start of the head, and the devices then left on each node beside it.
    fn reservation(&self, head: usize) -> (i64, Vec<u32>) {
        let mut free = self.free.clone();
        let mut ends: Vec<(i64, usize)> = self.running.iter().map(|run| run.0).collect();
        ends.sort_unstable();
        let mut ends = ends.into_iter().peekable();
        while let Some((end, job)) = ends.next() {
            give(&mut free, &self.holds[job]);
            // Process all jobs with the same end together.
            if ends.peek().is_some_and(|(next, _)| *next == end) {
                continue;
            }
            if let Some(holds) = fit(&free, self.jobs[head].devices) {
                take(&mut free, &holds);
                return (end, free);
            }
        }
        // Unreachable: a job that does not fit the empty nodes is not admitted to this queue.
        (i64::MAX, free)
    }
}

/// Runs the jobs, sorted by submission, on these nodes. Returns the fate of each job and all allocations.
pub(super) fn run(
    jobs: &[&TraceJob],
    nodes: &[u32],
    order: HeadPolicy,
    tick: &mut dyn FnMut(usize),
) -> (Vec<Fate>, Vec<AllocatedSpan>) {
    let mut desk = PatientRun {
        jobs,
        now: 0,
        free: nodes.to_vec(),
        running: BinaryHeap::new(),
        holds: vec![Vec::new(); jobs.len()],
        fates: vec![Fate::default(); jobs.len()],
        spans: Vec::with_capacity(jobs.len()),
    };
    let mut waiting = VecDeque::new();
    let mut lanes: BTreeMap<u32, VecDeque<usize>> = BTreeMap::new();
    let mut next = 0;
    loop {
        let arrival = jobs.get(next).map(|job| job.submit);
        let end = desk.running.peek().map(|run| run.0.0);
        let Some(now) = arrival.into_iter().chain(end).min() else {
            return (desk.fates, desk.spans);
        };
        desk.now = now;
        while let Some(&Reverse((end, job))) = desk.running.peek()
            && end == now
        {
            desk.running.pop();
            give(&mut desk.free, &desk.holds[job]);
        }
        while jobs.get(next).is_some_and(|job| job.submit == now) {
            match order {
                HeadPolicy::Skip => lanes.entry(jobs[next].devices).or_default().push_back(next),
                _ => waiting.push_back(next),
            }
            next += 1;
            tick(next);
        }
        match order {
            HeadPolicy::Skip => skip(&mut desk, &mut lanes),
            _ => {
                while waiting.front().is_some_and(|&head| desk.try_start(head)) {
                    waiting.pop_front();
                }
                if order == HeadPolicy::Reserve && waiting.len() > 1 {
                    backfill(&mut desk, &mut waiting);
                }
            }
        }
    }
}

/// Starts every job that fits, in order of submission. Jobs wait in one lane per size: if a size does not fit, no larger size does.
fn skip(desk: &mut PatientRun<'_>, lanes: &mut BTreeMap<u32, VecDeque<usize>>) {
    let mut fits = u32::MAX;
    loop {
        let heads = lanes
            .range(..fits)
            .filter_map(|(size, lane)| Some((*lane.front()?, *size)));
        let Some((job, size)) = heads.min() else {
            return;
        };
        if desk.try_start(job) {
            if let Some(lane) = lanes.get_mut(&size) {
                lane.pop_front();
            }
        } else {
            fits = size;
        }
    }
}

/// Starts jobs behind the head that end before it starts or leave its devices free.
fn backfill(desk: &mut PatientRun<'_>, waiting: &mut VecDeque<usize>) {
    let head = waiting[0];
    let (start, mut beside) = desk.reservation(head);
    desk.fates[head].reserved_start.get_or_insert(start);
    // Smallest sizes that no longer fit, for jobs that end in time and for others.
    let (mut brief, mut long) = (u32::MAX, u32::MAX);
    let mut at = 1;
    while at < waiting.len() && brief > 1 {
        let job = waiting[at];
        let asked = desk.jobs[job];
        let in_time = desk.now.saturating_add(asked.duration) <= start;
        let holds = if asked.devices >= brief || (!in_time && asked.devices >= long) {
            None
        } else if in_time {
            let holds = fit(&desk.free, asked.devices);
            if holds.is_none() {
                brief = asked.devices;
            }
            holds
        } else {
            let room: Vec<u32> = desk
                .free
                .iter()
                .zip(&beside)
                .map(|(a, b)| *a.min(b))
                .collect();
            let holds = fit(&room, asked.devices);
            match &holds {
                Some(holds) => take(&mut beside, holds),
                None => long = asked.devices,
            }
            holds
        };
        match holds {
            Some(holds) => {
                desk.start(job, holds);
                waiting.remove(at);
            }
            None => at += 1,
        }
    }
}
