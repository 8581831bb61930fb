//! Disciplines that preempt: Stokehold's, in which the job with the least remaining time runs first if that pays, and least
//! attained service.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use super::attained;
use super::floor::{Hold, fit, give, take};
use super::history::{PastRuns, begins, level};
use super::replay::{AllocatedSpan, Fate};
use super::{NODE, RESUME, TraceJob};

/// A day, in milliseconds.
const DAY: i64 = 86_400_000;

/// Total wait after which a gang of at least a node's devices is overdue, in milliseconds.
const OVERDUE: i64 = DAY;

/// What the jobs of a queue are sorted by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SortKey {
    /// The remaining time, which is known.
    Remaining,
    /// The remaining time, estimated from past runs of the same queue and size.
    Expected,
    /// The device-time that a job has had, in levels.
    Attained,
}

impl SortKey {
    /// Total wait after which an overdue gang is long overdue, in milliseconds; none where no gang is protected. It is shorter where
    /// durations are estimated: a gang may wait because of a wrong estimate.
    fn long_overdue(self) -> Option<i64> {
        match self {
            Self::Remaining => Some(9 * DAY),
            Self::Expected => Some(7 * DAY),
            Self::Attained => None,
        }
    }
}

#[derive(Clone, Default, Debug)]
struct JobProgress {
    /// Work done before the current run.
    done: i64,
    /// Time at the start of the current (or next) run that is spent on resuming.
    owes: i64,
    /// Start of the current run or wait.
    since: i64,
    /// Remaining time as the discipline sees it, at the start of the run if durations are known; or the level of attained service.
    key: i64,
    /// Whether it started as an overdue gang: it is not preempted.
    protected: bool,
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
    sort: SortKey,
    now: i64,
    free: Vec<u32>,
    /// Devices of all nodes.
    devices: u32,
    /// Devices of protected gangs.
    protected: u32,
    work: Vec<JobProgress>,
    /// Keys and jobs, least first.
    waiting: BTreeSet<(i64, usize)>,
    /// Overdue gangs, in order of submission. They are among the waiting, too.
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

    /// Total wait of a waiting job.
    fn waited(&self, job: usize) -> i64 {
        self.fates[job].waited + self.now - self.work[job].since
    }

    /// Time until a waiting gang is long overdue, negative from then on; none if it never is.
    fn until_long_overdue(&self, job: usize) -> Option<i64> {
        Some(self.sort.long_overdue()? - self.waited(job))
    }

    /// Whether an overdue gang may be protected beside those that are. Protected gangs have an eighth of the devices; with one that is
    /// long overdue all but a node, so that short jobs still start, or any number if it is the only one.
    fn may_be_protected(&self, job: usize) -> bool {
        let with_it = self.protected + self.jobs[job].devices;
        if self.until_long_overdue(job).is_some_and(|time| time <= 0) {
            self.protected == 0 || with_it <= self.devices.saturating_sub(NODE)
        } else {
            with_it <= self.devices / 8
        }
    }

    /// Remaining time of a running job; none if it must not be preempted.
    fn to_go(&self, job: usize) -> Option<i64> {
        let work = &self.work[job];
        (!work.protected).then(|| match self.sort {
            SortKey::Remaining => work.key - (self.now - work.since),
            SortKey::Expected | SortKey::Attained => work.key,
        })
    }

    /// Key of a job that has worked for `age`.
    fn key(&mut self, job: usize, age: i64) -> i64 {
        let asked = self.jobs[job];
        match self.sort {
            SortKey::Remaining => self.work[job].owes + asked.duration - age,
            SortKey::Expected => self.history.rank(asked.devices, level(age)),
            SortKey::Attained => attained::rank(asked.devices, age),
        }
    }

    /// The age at which that key changes next, if it does not change with time.
    fn next_age(&self, job: usize, age: i64) -> Option<i64> {
        match self.sort {
            SortKey::Remaining => None,
            SortKey::Expected => Some(begins(level(age) + 1)),
            SortKey::Attained => attained::next_age(self.jobs[job].devices, age),
        }
    }

    /// Adds the event at which a job that has worked for `age` and is at work from `ready` has another key.
    fn expect_next_age(&mut self, job: usize, ready: i64, age: i64) {
        if let Some(next) = self.next_age(job, age) {
            let at = ready + next - age;
            let run = self.work[job].runs;
            self.events.push(Reverse((at, Event::Older, job, run)));
        }
    }

    fn wait(&mut self, job: usize) {
        let key = self.key(job, self.work[job].done);
        let (asked, work) = (self.jobs[job], &mut self.work[job]);
        work.since = self.now;
        work.key = key;
        self.waiting.insert((key, job));
        if asked.devices >= NODE && self.sort.long_overdue().is_some() {
            let overdue = self.now + (OVERDUE - self.fates[job].waited).max(0);
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
        let age = work.done;
        self.expect_next_age(job, ready, age);
    }

    /// Releases a running job's devices.
    fn stop_job(&mut self, job: usize) {
        let work = &mut self.work[job];
        self.running.remove(&job);
        if std::mem::take(&mut work.protected) {
            self.protected -= self.jobs[job].devices;
        }
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
                if self.sort == SortKey::Expected {
                    self.history.reach(asked.devices, level(age));
                }
                self.work[job].key = self.key(job, age);
                self.expect_next_age(job, self.now, age);
            }
            Event::Overdue => {
                self.late.insert(job);
                if let Some(time) = self.until_long_overdue(job).filter(|time| *time > 0) {
                    let run = self.work[job].runs;
                    self.events
                        .push(Reverse((self.now + time, event, job, run)));
                }
            }
        }
    }

    /// Starts overdue gangs first, as far as they may be protected, then jobs by least key.
    fn schedule(&mut self) {
        self.start_overdue();
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

    /// Starts overdue gangs, strictly in order of submission, so that each starts in bounded time.
    fn start_overdue(&mut self) {
        while let Some(&job) = self.late.first() {
            if !self.may_be_protected(job) || !self.make_start(job, i64::MIN / 2) {
                return;
            }
            self.work[job].protected = true;
            self.protected += self.jobs[job].devices;
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
    sort: SortKey,
    tick: &mut dyn FnMut(usize),
) -> (Vec<Fate>, Vec<AllocatedSpan>) {
    let mut desk = PreemptiveRun {
        jobs,
        sort,
        now: 0,
        free: nodes.to_vec(),
        devices: nodes.iter().sum(),
        protected: 0,
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
        if changed && !desk.waiting.is_empty() {
            desk.schedule();
        }
    }
}
