//! A simulated week: the governor decides, its leader is killed ten times at random moments, and every moment is checked. The
//! same load runs on plain kube-scheduler.

use std::collections::BTreeSet;
use std::time::Duration;

use model::base::Moment;
use model::base::rng::Rng;
use model::fleet::govern::{ADMITTED, PREEMPTING, REQUEUE_AT};

use super::tests_load::{Account, Figures, Load, Submission, WEEK};
use super::tests_race::race;
use super::tests_world::{Job, World};
use super::{PlannedWrite, Purpose};

/// Most writes of one kind per decision.
const BATCH: usize = 40;
/// How long after a kill the next leader takes over.
const TAKEN_OVER: Duration = Duration::from_secs(25);
/// How long an incomplete gang waits: the default timeout of PyTorch's process groups.
const PATIENCE: Duration = Duration::from_secs(1800);

/// Event counts of a week.
#[derive(Clone, Copy, Debug, Default)]
struct Events {
    decisions: u32,
    writes: u32,
    kills: u32,
    /// Kills after only some writes of a decision.
    halfway: u32,
    preemptions: u32,
    requeues: u32,
}

struct Week<'a> {
    load: &'a Load,
    world: World,
    start: Moment,
    rng: Rng,
    /// Indexes of the decisions with writes at which the leader is killed.
    kills: BTreeSet<u32>,
    /// A write that was in flight when its leader was killed.
    late: Option<PlannedWrite>,
    silent_until: Moment,
    wakes: BTreeSet<Moment>,
    account: Account,
    events: Events,
    ended: BTreeSet<String>,
}

impl<'a> Week<'a> {
    fn new(load: &'a Load, spreads: bool, seed: u64) -> Self {
        let mut world = load.world();
        world.spreads = spreads;
        world.grace = Duration::from_secs(10);
        let mut rng = Rng::new(seed);
        let mut kills = BTreeSet::new();
        // Every job is admitted by a write, so there are at least this many decisions with writes.
        while kills.len() < 10 {
            kills.insert(rng.below(load.jobs.len() / 2) as u32 + 1);
        }
        Self {
            load,
            start: world.now,
            silent_until: world.now,
            world,
            rng,
            kills,
            late: None,
            wakes: BTreeSet::new(),
            account: Account::default(),
            events: Events::default(),
            ended: BTreeSet::new(),
        }
    }

    fn elapsed(&self) -> Duration {
        Duration::from_secs(self.world.now.since(self.start).seconds())
    }

    fn submission(&self, job: &Job) -> &'a Submission {
        let found = self.load.jobs.iter().find(|it| it.name == job.name);
        found.expect("it is of the load")
    }

    fn run(mut self) -> (Figures, Events) {
        let mut coming = self.load.jobs.iter().peekable();
        let index: std::collections::BTreeMap<&str, &Submission> = (self.load.jobs.iter())
            .map(|job| (job.name.as_str(), job))
            .collect();
        loop {
            let next = coming.peek().map(|job| self.start.plus(job.at));
            let Some(next) = self.next_event().into_iter().chain(next).min() else {
                assert!(
                    self.world.jobs.is_empty(),
                    "these wait for ever: {:#?}",
                    self.world.jobs
                );
                return (self.account.figures(self.load), self.events);
            };
            let by = Duration::from_secs(next.since(self.world.now).seconds());
            let from = self.elapsed();
            assert!(
                from < WEEK * 3,
                "it takes three weeks: {:#?}",
                self.world.jobs
            );
            let works =
                |job: &Job| !job.governed.suspended && job.leaves.is_none() && job.is_whole();
            let unfinished = self.world.jobs.iter();
            let unfinished = unfinished.map(|job| (index[job.name.as_str()], works(job)));
            self.account.pass(self.load, (from, by), unfinished);
            self.world.pass(by);
            self.end_jobs();
            while let Some(job) = coming.next_if(|job| self.start.plus(job.at) <= self.world.now) {
                self.submit(job);
            }
            if let Some(write) = self.late.take() {
                self.apply(&write);
            }
            self.wakes.retain(|at| *at > self.world.now);
            self.world.is_sound(false);
            if self.world.now >= self.silent_until {
                self.turn();
            }
        }
    }

    fn submit(&mut self, job: &Submission) {
        let made = self.world.submit(
            &job.name,
            Load::queue(job.queue),
            job.priority,
            job.pods,
            job.gpus,
        );
        made.lasts(job.runs);
        made.estimate = job.estimate;
        made.saves_every = job.saves_every;
        // Jobs of one pod are created unsuspended.
        made.governed.suspended = job.pods > 1;
    }

    fn end_jobs(&mut self) {
        let now = self.elapsed();
        let ended: Vec<Job> = self
            .world
            .jobs
            .extract_if(.., |job| job.left.is_zero())
            .collect();
        for job in ended {
            assert_eq!(job.ended, 1, "{}", job.name);
            assert!(
                self.ended.insert(job.name.clone()),
                "{} ended twice",
                job.name
            );
            let sub = self.submission(&job);
            self.account.lost += u64::from(sub.devices()) * job.lost.as_secs();
            let past = self.world.past.entry(job.queue.clone()).or_default();
            past.push(job.runs.as_millis() as i64);
            self.account.ended(self.submission(&job), now);
        }
    }

    /// Time of the next event other than a submission.
    fn next_event(&self) -> Option<Moment> {
        let now = self.world.now;
        let mut all: Vec<Moment> = self.wakes.iter().copied().collect();
        all.extend((self.silent_until > now).then_some(self.silent_until));
        for job in &self.world.jobs {
            all.extend(job.leaves);
            let works = !job.governed.suspended && job.is_whole() && job.leaves.is_none();
            all.extend(works.then(|| now.plus(job.left)));
            all.extend(job.governed.moment(REQUEUE_AT));
            let asked = job.governed.moment(PREEMPTING);
            all.extend(asked.map(|at| at.plus(super::tests_world::RULES.checkpoint_grace)));
            let partial = !job.is_whole() && !job.governed.suspended;
            let admitted = job.governed.moment(ADMITTED).filter(|_| partial);
            all.extend(admitted.map(|at| at.plus(super::decide::PLACED_WITHIN)));
        }
        all.into_iter().filter(|at| *at > now).min()
    }

    fn apply(&mut self, write: &PlannedWrite) {
        if !self.world.jobs.iter().any(|job| job.key() == write.job) {
            return;
        }
        self.world.apply(write);
        self.world.is_sound(false);
        self.events.writes += 1;
        match write.purpose {
            Purpose::Preempt => self.events.preemptions += 1,
            Purpose::Requeue => self.events.requeues += 1,
            _ => {}
        }
    }

    /// One decision, and the writes of it that are sent before the next.
    fn turn(&mut self) {
        let decision = self.world.decide();
        let is_new = |write: &&PlannedWrite| write.purpose == Purpose::Suspend;
        let rest = decision
            .writes
            .iter()
            .filter(|write| !is_new(write))
            .take(BATCH);
        let new = decision.writes.iter().filter(is_new).take(BATCH);
        let writes: Vec<PlannedWrite> = rest.chain(new).cloned().collect();
        self.events.decisions += 1;
        if writes.is_empty() {
            return;
        }
        let now = self.world.now;
        self.wakes
            .extend([2, 12, 35].map(|after| now.plus(Duration::from_secs(after))));
        let mut done = writes.len();
        // Every other kill in the middle of a decision's writes.
        let is_due = self
            .kills
            .first()
            .is_some_and(|at| *at <= self.events.decisions);
        if is_due && (writes.len() > 1 || self.kills.len().is_multiple_of(2)) {
            self.kills.pop_first();
            done = match writes.len() {
                1 => self.rng.below(2),
                all => self.rng.below(all - 1) + 1,
            };
            self.events.kills += 1;
            self.events.halfway += u32::from(done > 0 && done < writes.len());
            self.silent_until = now.plus(TAKEN_OVER);
            // The write in flight may still reach the server.
            self.late = writes.get(done).filter(|_| self.rng.below(2) == 0).cloned();
        }
        for write in &writes[..done] {
            self.apply(write);
        }
    }
}

/// Runs the load under the governor and under plain kube-scheduler, and prints both results.
#[expect(
    clippy::disallowed_macros,
    reason = "its figures are what it is run for"
)]
fn compare(name: &str, load: &Load, spreads: bool) {
    let (governed, events) = Week::new(load, spreads, 7).run();
    let raced = race(load, spreads, None);
    let limited = race(load, spreads, Some(PATIENCE));
    println!("{name}\n  govern: {governed}\n  kube-scheduler: {raced}");
    println!("  kube-scheduler, gangs give up after 30 min: {limited}\n  {events:?}");
    assert_eq!((governed.never, events.kills), (0, 10));
    assert!(events.halfway >= 5, "{events:?}");
    assert!(governed.completion < raced.completion, "mean completion");
    // About equal: kube-scheduler loses capacity to incomplete gangs, the governor to quotas and preemption.
    assert!(
        governed.utilization > raced.utilization - 0.02,
        "utilization"
    );
    assert!(governed.jain > raced.jain, "fairness");
}

#[test]
fn a_week_of_500_jobs_is_governed_soundly_across_leaders() {
    compare("500 jobs, 90 %", &Load::new(500, 32, 90, 1), false);
}

/// Run with `cargo test --release -p stokehold-plan weeks_of -- --ignored --nocapture`.
#[test]
#[ignore = "minutes"]
fn weeks_of_500_and_5000_jobs_are_governed_soundly_across_leaders() {
    compare("500 jobs, 110 %", &Load::new(500, 32, 110, 1), false);
    for percent in [90, 110] {
        let load = Load::new(5000, 128, percent, 1);
        compare(&format!("5000 jobs, {percent} %"), &load, false);
    }
}
