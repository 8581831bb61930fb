//! Our discipline: the job with the least time to go runs first, and stops others for it where that pays.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use super::floor::{Hold, fit, give, take};
use super::history::{History, begins, level};
use super::replay::{Fate, Span};
use super::{Job, NODE, RESUME};

/// How long a gang of a node's devices and more waits, in all, before it is neither passed nor stopped any
/// more: ten days, in milliseconds.
const PATIENCE: i64 = 10 * 86_400_000;

/// What is known of the time to go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Foresight {
    /// All of it.
    Known,
    /// What past runs of the same queue and size suggest.
    Learnt,
}

/// One job on its way.
#[derive(Clone, Default, Debug)]
struct JobProgress {
    /// Work done before the present run.
    done: i64,
    /// Time that the present (or next) run spends on resuming first.
    owes: i64,
    /// Since when it runs, or waits.
    since: i64,
    /// Time to go as the discipline sees it: at the start of the run if durations are known.
    key: i64,
    holds: Vec<Hold>,
    runs: u32,
}

/// What happens next to a job.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Event {
    /// It has run to its end.
    End,
    /// It has run into another level of age.
    Older,
    /// It has waited too long.
    Overdue,
}

/// One queue at work.
struct QueueRun<'j> {
    jobs: &'j [&'j Job],
    foresight: Foresight,
    now: i64,
    free: Vec<u32>,
    work: Vec<JobProgress>,
    /// Keys and jobs, the least first.
    waiting: BTreeSet<(i64, usize)>,
    /// Those that have waited too long, first come first.
    late: BTreeSet<usize>,
    running: BTreeSet<usize>,
    /// Events of the run that each was made for.
    events: BinaryHeap<Reverse<(i64, Event, usize, u32)>>,
    history: History,
    fates: Vec<Fate>,
    spans: Vec<Span>,
}

impl QueueRun<'_> {
    /// Work done by now.
    fn age(&self, job: usize) -> i64 {
        let work = &self.work[job];
        work.done + (self.now - work.since - work.owes).max(0)
    }

    /// Whether a gang has waited for so long that it is neither passed nor stopped any more.
    fn overdue(&self, job: usize) -> bool {
        self.jobs[job].devices >= NODE && self.fates[job].waited >= PATIENCE
    }

    /// Time to go of a running job; nothing of one that is not to be stopped.
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

    /// Takes a running job off its devices.
    fn leave(&mut self, job: usize) {
        let work = &mut self.work[job];
        self.running.remove(&job);
        let holds = std::mem::take(&mut work.holds);
        give(&mut self.free, &holds);
        self.fates[job].lost += work.owes.min(self.now - work.since);
        self.spans.push(Span {
            job,
            from: work.since,
            until: self.now,
            holds,
        });
    }

    fn preempt(&mut self, job: usize) {
        self.work[job].done = self.age(job);
        self.leave(job);
        self.work[job].owes = RESUME;
        self.work[job].runs += 1;
        self.fates[job].preempted += 1;
        self.wait(job);
    }

    fn handle(&mut self, event: Event, job: usize) {
        let asked = self.jobs[job];
        match event {
            Event::End => {
                self.leave(job);
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

    /// Lets whoever has least to go run, in that order; before them, whoever has waited too long.
    fn schedule(&mut self) {
        // The late come strictly first come, first served: each starts in bounded time.
        while let Some(&job) = self.late.first() {
            if !self.make_start(job, i64::MIN / 2) {
                break;
            }
        }
        // Where a size finds no room, neither does any above it, nor any job with more to go.
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

    /// Starts a job if there is room, or can be made.
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

    /// The running jobs that make room for one with `key` to go; none where all who may be stopped do not.
    fn victims(&self, key: i64, devices: u32) -> Vec<usize> {
        let least = key + RESUME;
        let mut able: Vec<(i64, usize)> = self
            .running
            .iter()
            .filter_map(|&job| Some((self.to_go(job).filter(|to_go| *to_go > least)?, job)))
            .collect();
        // Who has most to go is stopped first.
        able.sort_unstable_by(|a, b| b.cmp(a));
        if devices <= NODE {
            self.on_one_node(&able, devices)
        } else {
            self.on_many(&able, devices)
        }
    }

    /// On the node where least is disturbed.
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

    /// Whoever has most to go, until there is room; then all who turn out not to be needed stay.
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

/// Runs the jobs, given by submission, on these nodes. What became of each, and who held what.
pub(super) fn run(
    jobs: &[&Job],
    nodes: &[u32],
    foresight: Foresight,
    tick: &mut dyn FnMut(usize),
) -> (Vec<Fate>, Vec<Span>) {
    let mut desk = QueueRun {
        jobs,
        foresight,
        now: 0,
        free: nodes.to_vec(),
        work: vec![JobProgress::default(); jobs.len()],
        waiting: BTreeSet::new(),
        late: BTreeSet::new(),
        running: BTreeSet::new(),
        events: BinaryHeap::new(),
        history: History::default(),
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
