//! Stokehold's discipline: the job with the least remaining time runs first, and preempts others if that pays.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use super::floor::{Hold, fit, give, take};
use super::history::{PastRuns, begins, level};
use super::replay::{AllocatedSpan, Fate};
use super::{NODE, RESUME, TraceJob};

/// Total wait after which a gang of at least a node's devices is no longer overtaken or preempted: ten days, in milliseconds.
const PATIENCE: i64 = 10 * 86_400_000;

/// How the remaining time is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Foresight {
    Known,
    /// Estimated from past runs of the same queue and size.
    Learnt,
}

#[derive(Clone, Default, Debug)]
struct JobProgress {
    /// Work done before the current run.
    done: i64,
    /// Time at the start of the current (or next) run that is spent on resuming.
    owes: i64,
    /// Start of the current run or wait.
    since: i64,
    /// Remaining time as the discipline sees it: at the start of the run if durations are known.
    key: i64,
    holds: Vec<Hold>,
    runs: u32,
}

/// Next event of a job.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Event {
    End,
    /// It reaches another age level.
    Older,
    Overdue,
}

/// State of one queue.
struct PreemptiveRun<'j> {
    jobs: &'j [&'j TraceJob],
    foresight: Foresight,
    now: i64,
    free: Vec<u32>,
    work: Vec<JobProgress>,
    /// Keys and jobs, least first.
    waiting: BTreeSet<(i64, usize)>,
    /// Overdue jobs, in order of submission.
    late: BTreeSet<usize>,
    running: BTreeSet<usize>,
    /// Events, each with the number of the run that it was made for.
    events: BinaryHeap<Reverse<(i64, Event, usize, u32)>>,
    history: PastRuns,
    fates: Vec<Fate>,
    spans: Vec<AllocatedSpan>,
}

impl PreemptiveRun<'_> {
    /// Work done so far.
    fn age(&self, job: usize) -> i64 {
        let work = &self.work[job];
        work.done + (self.now - work.since - work.owes).max(0)
    }

    /// Whether a gang has waited so long that it is no longer overtaken or preempted.
    fn overdue(&self, job: usize) -> bool {
        self.jobs[job].devices >= NODE && self.fates[job].waited >= PATIENCE
    }

    /// Remaining time of a running job; none if it must not be preempted.
    fn to_go(&self, job: usize) -> Option<i64> {
        let work = &self.work[job];
        (!self.overdue(job)).then(|| match self.foresight {
            Foresight::Known => work.key - (self.now - work.since),
            Foresight::Learnt => work.key,
        })
    }

    fn wait(&mut self, job: usize) {
        let (asked, work) = (self.jobs[job], &mut self.work[job]);
        work.since = self.now;
        work.key = match self.foresight {
            Foresight::Known => work.owes + asked.duration - work.done,
            Foresight::Learnt => self.history.rank(asked.devices, level(work.done)),
        };
        self.waiting.insert((work.key, job));
        if asked.devices >= NODE {
            let overdue = self.now + (PATIENCE - self.fates[job].waited).max(0);
            self.events
                .push(Reverse((overdue, Event::Overdue, job, work.runs)));
        }
    }

    fn start(&mut self, job: usize, holds: Vec<Hold>) {
        let work = &mut self.work[job];
        self.waiting.remove(&(work.key, job));
        self.late.remove(&job);
        self.fates[job].waited += self.now - work.since;
        take(&mut self.free, &holds);
        work.holds = holds;
        work.since = self.now;
        work.runs += 1;
        if work.runs == 1 {
            self.history.reach(self.jobs[job].devices, 0);
        }
        let ready = self.now + work.owes;
        let end = ready + self.jobs[job].duration - work.done;
        self.running.insert(job);
        self.events.push(Reverse((end, Event::End, job, work.runs)));
        if self.foresight == Foresight::Learnt {
            let older = ready + begins(level(work.done) + 1) - work.done;
            self.events
                .push(Reverse((older, Event::Older, job, work.runs)));
        }
    }

    /// Releases a running job's devices.
    fn stop_job(&mut self, job: usize) {
        let work = &mut self.work[job];
        self.running.remove(&job);
        let holds = std::mem::take(&mut work.holds);
        give(&mut self.free, &holds);
        self.fates[job].lost += work.owes.min(self.now - work.since);
        self.spans.push(AllocatedSpan {
            job,
            from: work.since,
            until: self.now,
            holds,
        });
    }

    fn preempt(&mut self, job: usize) {
        self.work[job].done = self.age(job);
        self.stop_job(job);
        self.work[job].owes = RESUME;
        self.work[job].runs += 1;
        self.fates[job].preempted += 1;
        self.wait(job);
    }

    fn handle(&mut self, event: Event, job: usize) {
        let asked = self.jobs[job];
        match event {
            Event::End => {
                self.stop_job(job);
                self.fates[job].finish = self.now;
                self.history.finish(asked.devices, asked.duration);
            }
            Event::Older => {
                let age = self.age(job);
                let level = level(age);
                self.history.reach(asked.devices, level);
                let work = &mut self.work[job];
                work.key = self.history.rank(asked.devices, level);
                let older = self.now + begins(level + 1) - age;
                self.events
                    .push(Reverse((older, Event::Older, job, work.runs)));
            }
            Event::Overdue => {
                self.waiting.remove(&(self.work[job].key, job));
                self.late.insert(job);
            }
        }
    }

    /// Starts overdue jobs first, then jobs by least remaining time.
    fn schedule(&mut self) {
        // Overdue jobs are strictly first come, first served, so that each starts in bounded time.
        while let Some(&job) = self.late.first() {
            if !self.make_start(job, i64::MIN / 2) {
                break;
            }
        }
        // If a job does not fit, neither does a larger one, nor one of its size with more remaining time.
        let mut fits = u32::MAX;
        let mut from = (i64::MIN, 0);
        while let Some(&(key, job)) = self.waiting.range(from..).next() {
            from = (key, job + 1);
            let devices = self.jobs[job].devices;
            if devices < fits && !self.make_start(job, key) {
                fits = devices;
            }
            if fits == 1 {
                return;
            }
        }
    }

    /// Starts a job if it fits, with preemption if necessary.
    fn make_start(&mut self, job: usize, key: i64) -> bool {
        let devices = self.jobs[job].devices;
        if fit(&self.free, devices).is_none() {
            for victim in self.victims(key, devices) {
                self.preempt(victim);
            }
        }
        let room = fit(&self.free, devices);
        let starts = room.is_some();
        if let Some(holds) = room {
            self.start(job, holds);
        }
        starts
    }

    /// Running jobs to preempt for a job with `key` remaining time; empty if preempting all eligible jobs does not suffice.
    fn victims(&self, key: i64, devices: u32) -> Vec<usize> {
        let least = key + RESUME;
        let mut able: Vec<(i64, usize)> = self
            .running
            .iter()
            .filter_map(|&job| Some((self.to_go(job).filter(|to_go| *to_go > least)?, job)))
            .collect();
        // Preempt the most remaining time first.
        able.sort_unstable_by(|a, b| b.cmp(a));
        if devices <= NODE {
            self.on_one_node(&able, devices)
        } else {
            self.on_many(&able, devices)
        }
    }

    /// Victims on the one node with the least disruption.
    fn on_one_node(&self, able: &[(i64, usize)], devices: u32) -> Vec<usize> {
        let mut best: Option<(u32, i64, Vec<usize>)> = None;
        for node in 0..self.free.len() {
            let held = |job: usize| {
                let on_node = self.work[job].holds.iter().filter(|hold| hold.node == node);
                on_node.map(|hold| hold.devices).sum::<u32>()
            };
            let (mut free, mut disturbed, mut to_go) = (self.free[node], 0, i64::MAX);
            let mut victims = Vec::new();
            for &(left, job) in able {
                if free >= devices {
                    break;
                }
                let here = held(job);
                if here > 0 {
                    free += here;
                    disturbed += self.jobs[job].devices;
                    to_go = to_go.min(left);
                    victims.push(job);
                }
            }
            let better = best.as_ref().is_none_or(|(least, most, _)| {
                (disturbed, Reverse(to_go)) < (*least, Reverse(*most))
            });
            if free >= devices && better {
                best = Some((disturbed, to_go, victims));
            }
        }
        best.map_or_else(Vec::new, |(_, _, victims)| victims)
    }

    /// Victims by most remaining time until the job fits; then unnecessary victims are removed.
    fn on_many(&self, able: &[(i64, usize)], devices: u32) -> Vec<usize> {
        let mut free = self.free.clone();
        let mut victims = Vec::new();
        for &(_, job) in able {
            if fit(&free, devices).is_some() {
                break;
            }
            give(&mut free, &self.work[job].holds);
            victims.push(job);
        }
        if fit(&free, devices).is_none() {
            return Vec::new();
        }
        for at in (0..victims.len()).rev() {
            take(&mut free, &self.work[victims[at]].holds);
            if fit(&free, devices).is_some() {
                victims.remove(at);
            } else {
                give(&mut free, &self.work[victims[at]].holds);
            }
        }
        victims
    }
}

/// Runs the jobs, sorted by submission, on these nodes. Returns the fate of each job and all allocations.
pub(super) fn run(
    jobs: &[&TraceJob],
    nodes: &[u32],
    foresight: Foresight,
    tick: &mut dyn FnMut(usize),
) -> (Vec<Fate>, Vec<AllocatedSpan>) {
    let mut desk = PreemptiveRun {
        jobs,
        foresight,
        now: 0,
        free: nodes.to_vec(),
        work: vec![JobProgress::default(); jobs.len()],
        waiting: BTreeSet::new(),
        late: BTreeSet::new(),
        running: BTreeSet::new(),
        events: BinaryHeap::new(),
        history: PastRuns::default(),
        fates: vec![Fate::default(); jobs.len()],
        spans: Vec::with_capacity(jobs.len()),
    };
    let mut next = 0;
    loop {
        let arrival = jobs.get(next).map(|job| job.submit);
        let event = desk.events.peek().map(|event| event.0.0);
        let Some(now) = arrival.into_iter().chain(event).min() else {
            return (desk.fates, desk.spans);
        };
        desk.now = now;
        let mut changed = false;
        while let Some(&Reverse((at, event, job, run))) = desk.events.peek()
            && at == now
        {
            desk.events.pop();
            if desk.work[job].runs == run
                && desk.running.contains(&job) != (event == Event::Overdue)
            {
                desk.handle(event, job);
                changed = true;
            }
        }
        while jobs.get(next).is_some_and(|job| job.submit == now) {
            desk.wait(next);
            next += 1;
            changed = true;
            tick(next);
        }
        if changed && !(desk.waiting.is_empty() && desk.late.is_empty()) {
            desk.schedule();
        }
    }
}
