//! A day of virtual time with every fault of the simulated cluster at random, beside an operator who goes on working and whose
//! console is killed now and then. After each step what the console shows, the journal, the server's audit log and the world
//! are held against each other.
//!
//! `cargo test` lives through twenty minutes of one seed. A day of twenty:
//! `cargo test --release --test it exec::chaos -- --ignored`, `CHAOS_SEEDS=A..B` for others.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use console::KeyPress;
use exec::record::Record;
use model::fleet::{Fleet, TableState};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use sim::faults::InjectedFaults;
use table::actions::RunState;

use super::keyboard::Keyboard;
use super::stage::{self, pass, ticking, world};
use super::*;

/// Nodes of the fleet.
const NODES: u32 = 10;
/// Without faults for so long, the console shows the world as it is, seconds.
const SETTLED: u64 = 180;
/// A fault that leaves no answer is on screen after this time, seconds.
const NOTICED: u64 = 300;

/// What goes wrong for a while.
#[derive(Clone, PartialEq, Debug)]
enum Fault {
    Latency(u64),
    Tokens,
    Silence,
    Broken(&'static str),
    Hung(String),
    Burst,
}

/// A day as it goes.
struct Day {
    seed: u64,
    rng: Pcg64Mcg,
    service: Service,
    folder: tempfile::TempDir,
    keyboard: Option<Keyboard>,
    /// What is wrong, and until when.
    faults: Vec<(Fault, Moment)>,
    /// Since when nothing is wrong.
    calm: Moment,
    /// Since when no request is answered well.
    deaf: Option<Moment>,
    /// Nodes that were closed before anybody acted.
    closed: BTreeSet<String>,
    counts: BTreeMap<&'static str, u32>,
}

impl Day {
    async fn begin(seed: u64) -> Self {
        // It moves each second, not four times in it.
        let clock = ticking();
        let simulated = Box::new(world(seed, NODES, true));
        let service = embed(simulated, clock.clone(), 0.0, seed).expect("a cluster");
        let cluster = Arc::downgrade(service.cluster());
        tokio::spawn(async move {
            loop {
                pass(1).await;
                let Some(cluster) = cluster.upgrade() else {
                    return;
                };
                cluster.advance(clock());
            }
        });
        let folder = tempfile::TempDir::new().expect("a folder");
        let mut day = Self {
            seed,
            rng: Pcg64Mcg::seed_from_u64(seed),
            calm: service.cluster().now(),
            closed: closed(&service),
            service,
            folder,
            keyboard: None,
            faults: Vec::new(),
            deaf: None,
            counts: BTreeMap::new(),
        };
        day.open().await;
        day
    }

    fn now(&self) -> Moment {
        self.service.cluster().now()
    }

    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    async fn open(&mut self) {
        let keyboard = Keyboard::open_with(&self.service, &[], self.folder.path());
        self.keyboard = Some(keyboard.await);
    }

    /// One more thing goes wrong.
    fn fail(&mut self) {
        let pods = ["nodes", "pods", "jobs", "workloads", "resourceslices"];
        let until = |day: &mut Self, longest: u64| {
            let seconds = day.rng.random_range(5..longest);
            day.now().plus(Duration::from_secs(seconds))
        };
        let mut state = self.service.cluster().faults();
        let (fault, until) = match self.rng.random_range(0..9) {
            0 => (
                Fault::Latency(self.rng.random_range(20..8_000)),
                until(self, 900),
            ),
            1 => (Fault::Tokens, until(self, 900)),
            2 => (Fault::Silence, until(self, 900)),
            3 => (
                Fault::Broken(pods[self.rng.random_range(0..pods.len())]),
                until(self, 1_200),
            ),
            4 => {
                let exporters = self.service.cluster().core().world.exporters();
                let (pod, ..) = &exporters[self.rng.random_range(0..exporters.len())];
                (Fault::Hung(pod.name.to_string()), until(self, 1_200))
            }
            other => {
                let many = self.rng.random_range(1..30);
                match other {
                    5 => state.expired_watches += many,
                    6 => {
                        state.too_many += many;
                        state.retry_after_seconds = self.rng.random_range(0..20);
                    }
                    7 => state.server_errors += many,
                    _ => state.html += many,
                }
                if self.rng.random_bool(0.5) {
                    state.watch_drops += 1;
                }
                (Fault::Burst, until(self, 60))
            }
        };
        self.count(match fault {
            Fault::Latency(_) => "latency",
            Fault::Tokens => "tokens refused",
            Fault::Silence => "silence",
            Fault::Broken(_) => "lists broken",
            Fault::Hung(_) => "exporter hung",
            Fault::Burst => "bursts",
        });
        self.service.cluster().set_faults(state);
        self.faults.push((fault, until));
        self.apply();
    }

    /// Sets what is wrong now; what is over ends.
    fn apply(&mut self) {
        let now = self.now();
        self.faults.retain(|(_, until)| *until > now);
        let mut state = InjectedFaults {
            latency_ms: 0,
            tokens_expired: false,
            silent: false,
            broken: Vec::new(),
            hung: Vec::new(),
            ..self.service.cluster().faults()
        };
        for (fault, _) in &self.faults {
            match fault {
                Fault::Latency(ms) => state.latency_ms = state.latency_ms.max(*ms),
                Fault::Tokens => state.tokens_expired = true,
                Fault::Silence => state.silent = true,
                Fault::Broken(plural) => state.broken.push((*plural).to_owned()),
                Fault::Hung(pod) => state.hung.push(pod.clone()),
                Fault::Burst => {}
            }
        }
        if self.faults.is_empty() {
            // What is left of a burst goes with it.
            (
                state.too_many,
                state.server_errors,
                state.html,
                state.expired_watches,
            ) = (0, 0, 0, 0);
        } else {
            self.calm = now;
        }
        let deaf = state.silent || state.tokens_expired;
        self.deaf = deaf.then(|| self.deaf.unwrap_or(now));
        self.service.cluster().set_faults(state);
    }

    /// Time passes in pieces, and faults end in it.
    async fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds.div_ceil(5) {
            pass(5).await;
            if let Some(keyboard) = &mut self.keyboard {
                // Facts, answers and runs come apart.
                for _ in 0..3 {
                    keyboard.listen(Duration::from_millis(1)).await;
                }
            }
            self.apply();
        }
    }

    /// Everything is well again, and has been for a while.
    async fn mend(&mut self) {
        self.faults.clear();
        self.apply();
        self.pass(SETTLED).await;
    }

    /// The console is killed, whatever it does, and opened again once the server answers.
    async fn kill(&mut self) {
        self.keyboard = None;
        self.count("consoles killed");
        let seconds = self.rng.random_range(0..60);
        self.pass(seconds).await;
        self.mend().await;
        self.open().await;
    }

    /// The operator does something, or tries to.
    async fn act(&mut self) {
        let words: &[(char, char)] = &[
            ('6', 'C'),
            ('6', 'C'),
            ('6', 'D'),
            ('5', 'H'),
            ('5', 'R'),
            ('5', 'X'),
            ('5', 'P'),
            ('5', 'A'),
            ('4', 'H'),
            ('1', 'B'),
            ('5', 'U'),
            ('6', 'U'),
            ('9', 'H'),
        ];
        let (view, key) = words[self.rng.random_range(0..words.len())];
        let down = self.rng.random_range(0..12);
        let priority = self.rng.random_range(-100..1_000);
        let (crash, patience) = (self.rng.random_bool(0.15), self.rng.random_range(5..240));
        let Some(keyboard) = &mut self.keyboard else {
            return;
        };
        keyboard.press("\u{1b}\u{1b}\u{1b}");
        keyboard.key(KeyPress::char(view));
        for _ in 0..down {
            keyboard.key(KeyPress::char('j'));
        }
        keyboard.listen(Duration::from_secs(1)).await;
        keyboard.key(KeyPress::char(key));
        let mut typed = false;
        let mut planned = false;
        for _ in 0..240 {
            let text = keyboard.text();
            if text.contains("priority of") && !typed {
                keyboard.press(&format!("{priority}\n"));
                typed = true;
            }
            if text.contains("PLAN  ") && !text.contains("computing plan") {
                planned = true;
                break;
            }
            keyboard.listen(Duration::from_millis(500)).await;
        }
        if !planned {
            keyboard.press("\u{1b}\u{1b}\u{1b}");
            self.count("no plan");
            return;
        }
        keyboard.begin().await;
        let mut ended = false;
        for second in 0..patience {
            let text = keyboard.text();
            ended = ["U undoes", "undone", "nothing was sent"]
                .iter()
                .any(|words| text.contains(words));
            if ended || (crash && second > patience / 2) {
                break;
            }
            keyboard.listen(Duration::from_secs(1)).await;
        }
        keyboard.press("\u{1b}\u{1b}\u{1b}");
        self.count(if ended { "runs ended" } else { "runs left" });
        if crash {
            self.kill().await;
        }
    }

    /// Holds console, journal, audit log and world against each other.
    async fn check(&mut self) {
        self.journal_and_audit();
        let now = self.now();
        if let (Some(deaf), Some(keyboard)) = (self.deaf, &self.keyboard)
            && now.since(deaf).seconds() > NOTICED
        {
            let known = &keyboard.app.facts().fleet.known;
            assert!(
                known.values().any(|known| !known.is_known()),
                "seed {}: nothing answers since {deaf:?}, and at {now:?} all is said to be live",
                self.seed
            );
            self.count("noticed");
        }
        if self.faults.is_empty() && now.since(self.calm).seconds() >= SETTLED {
            self.console_and_world().await;
        }
    }

    /// The console shows the world.
    async fn console_and_world(&mut self) {
        let Some(keyboard) = &mut self.keyboard else {
            return;
        };
        let mut differ = String::new();
        // The world goes on while one looks: at some moment of two minutes they are the same.
        for _ in 0..60 {
            let facts = keyboard.app.facts();
            let shown = shape(&facts.fleet);
            let is = shape(&stage::fleet(&self.service));
            if shown == is {
                self.count("same");
                return;
            }
            let pairs = shown.iter().zip(&is).filter(|(shown, is)| shown != is);
            differ = pairs
                .map(|(shown, is)| format!("shown {shown}\nis    {is}\n"))
                .collect();
            differ.push_str(&format!("{} shown, {} are", shown.len(), is.len()));
            pass(2).await;
            for _ in 0..3 {
                keyboard.listen(Duration::from_millis(1)).await;
            }
        }
        panic!("seed {} at {:?}: {differ}", self.seed, self.now());
    }

    /// Nothing was sent that the journal does not know, nothing twice, and nothing that it calls done was not.
    fn journal_and_audit(&mut self) {
        let pages = Journal::new(self.folder.path()).read().expect("a journal");
        let mut sent: BTreeMap<String, u32> = BTreeMap::new();
        let mut accepted: BTreeMap<String, u32> = BTreeMap::new();
        let mut steps: BTreeMap<(String, u32), u32> = BTreeMap::new();
        let mut calls = BTreeMap::new();
        let mut ends: BTreeMap<String, u32> = BTreeMap::new();
        for line in &pages.lines {
            match &line.record {
                Record::Intent { step, call, .. } => {
                    let path = call.path(false).expect("it was sent");
                    let call = format!("{} {}", call.method.http(), without_query(&path));
                    *sent.entry(call.clone()).or_default() += 1;
                    calls.insert((line.run.clone(), *step), call);
                }
                Record::Answer {
                    step,
                    accepted: Some(true),
                    ..
                } => {
                    let key = (line.run.clone(), *step);
                    *accepted.entry(calls[&key].clone()).or_default() += 1;
                    *steps.entry(key).or_default() += 1;
                }
                Record::End { .. } => *ends.entry(line.run.clone()).or_default() += 1,
                _ => {}
            }
        }
        assert_eq!(pages.unreadable, 0, "seed {}", self.seed);
        for (what, count) in steps {
            assert_eq!(
                count, 1,
                "seed {}: {what:?} was done {count} times",
                self.seed
            );
        }
        for (run, count) in ends {
            assert_eq!(count, 1, "seed {}: {run} ended {count} times", self.seed);
        }
        let mut changed: BTreeMap<String, u32> = BTreeMap::new();
        for entry in self.service.cluster().audit().entries() {
            let is_note = entry.path.contains("/events") || entry.path.contains("/leases");
            if entry.has_changed() && !is_note {
                let call = format!("{} {}", entry.method, without_query(&entry.path));
                *changed.entry(call).or_default() += 1;
            }
        }
        for (call, count) in &changed {
            let known = sent.get(call).copied().unwrap_or(0);
            assert!(
                *count <= known,
                "seed {}: {call} was carried out {count} times, and the journal knows of {known}",
                self.seed
            );
        }
        for (call, count) in &accepted {
            let done = changed.get(call).copied().unwrap_or(0);
            assert!(
                *count <= done,
                "seed {}: the journal says {count} times that {call} was carried out, the audit log {done} times",
                self.seed
            );
        }
        self.nodes(&pages);
    }

    /// A node is closed where the journal's last word on it is that it was closed, and nowhere else.
    fn nodes(&self, pages: &exec::Pages) {
        let mut expected = self.closed.clone();
        let mut open = BTreeSet::new();
        let mut unknown = BTreeSet::new();
        let mut plans = BTreeMap::new();
        for line in &pages.lines {
            if let Record::Begin { plan, .. } = &line.record {
                plans.insert(line.run.clone(), plan.clone());
            }
            let step = match &line.record {
                Record::Intent { step, .. }
                | Record::Answer { step, .. }
                | Record::Resolved { step, .. } => *step,
                _ => continue,
            };
            let Some(step) = plans
                .get(&line.run)
                .and_then(|plan| plan.steps.get(step as usize - 1))
            else {
                continue;
            };
            if step.object.kind.as_str() != "Node" {
                continue;
            }
            let name = step.object.name.to_string();
            let closes = match step.verb {
                Verb::Cordon => true,
                Verb::Uncordon => false,
                _ => {
                    unknown.insert(name);
                    continue;
                }
            };
            let done = match &line.record {
                Record::Answer { accepted, .. } => *accepted,
                Record::Resolved { done, .. } => Some(*done),
                _ => None,
            };
            match done {
                None => {
                    unknown.insert(name);
                }
                Some(done) => {
                    unknown.remove(&name);
                    if done {
                        match closes {
                            true => (expected.insert(name.clone()), open.remove(&name)),
                            false => (expected.remove(&name), open.insert(name.clone())),
                        };
                    }
                }
            }
        }
        let is = closed(&self.service);
        for name in is.symmetric_difference(&expected) {
            assert!(
                unknown.contains(name),
                "seed {} at {:?}: node {name} is {}closed, and the journal says otherwise",
                self.seed,
                self.now(),
                if is.contains(name) { "" } else { "not " }
            );
        }
    }

    /// What was left unfinished is gone on with, and ends.
    async fn finish(&mut self) {
        self.mend().await;
        self.keyboard = None;
        pass(5).await;
        let service = FaultyService::new(self.service.clone());
        let mut operator = Operator::at(&service, self.service.cluster().machine_clock());
        operator.journal = Journal::new(self.folder.path());
        for _ in 0..3 {
            for run in operator.runs().iter().filter(|run| run.end.is_none()) {
                let end = tokio::time::timeout(
                    Duration::from_secs(3_600),
                    operator.resume_run(&run.name),
                );
                let _ = end.await;
            }
        }
        let open: Vec<String> = operator
            .runs()
            .into_iter()
            .filter(|run| run.end.is_none())
            .map(|run| run.name)
            .collect();
        assert!(
            open.is_empty(),
            "seed {}: {open:?} cannot be brought to an end",
            self.seed
        );
        self.open().await;
        self.pass(SETTLED).await;
        self.check().await;
        let rows = &self
            .keyboard
            .as_ref()
            .expect("is open")
            .app
            .facts()
            .acts
            .runs;
        let running = rows
            .iter()
            .filter(|run| run.state == RunState::Running)
            .count();
        assert_eq!(running, 0, "seed {}", self.seed);
    }
}

fn without_query(path: &str) -> &str {
    path.split('?').next().unwrap_or(path)
}

/// Nodes that are closed in the world.
fn closed(service: &Service) -> BTreeSet<String> {
    let fleet = stage::fleet(service);
    let nodes = fleet.nodes.iter().filter(|node| node.cordon.is_some());
    nodes.map(|node| node.name().to_string()).collect()
}

/// What of a fleet must be the same on the screen and in the world.
fn shape(fleet: &Fleet) -> Vec<String> {
    let nodes = fleet.nodes.iter().map(|node| {
        format!(
            "node {} closed {} devices {}",
            node.name(),
            node.cordon.is_some(),
            node.devices.len()
        )
    });
    let jobs = fleet.jobs.iter().map(|job| {
        format!(
            "job {} {:?} {} of {}",
            job.id, job.state, job.devices_allocated, job.devices_requested
        )
    });
    let queues = fleet
        .queues
        .iter()
        .map(|queue| format!("queue {}", queue.name()));
    let lost = fleet
        .known
        .iter()
        .filter(|(_, known)| matches!(known, TableState::Waiting | TableState::Lost(_)));
    let mut all: Vec<String> = nodes
        .chain(jobs)
        .chain(queues)
        .chain(lost.map(|(table, _)| format!("lost {}", table.name())))
        .collect();
    all.sort();
    all
}

/// Lives through so many minutes; these things happened in them.
async fn live(seed: u64, minutes: u64, seen: &[&str]) {
    let mut day = Day::begin(seed).await;
    let end = day.now().plus(Duration::from_secs(minutes * 60));
    while day.now() < end {
        match day.rng.random_range(0..100) {
            0..40 => day.fail(),
            40..80 => day.act().await,
            80..85 => day.kill().await,
            // Things go well for a while.
            85..92 => day.mend().await,
            _ => {}
        }
        let seconds = day.rng.random_range(5..300);
        day.pass(seconds).await;
        day.check().await;
    }
    day.finish().await;
    println!("seed {seed}: {minutes} min, {:?}", day.counts);
    for what in seen {
        assert!(
            day.counts.contains_key(*what),
            "seed {seed}: never `{what}`: {:?}",
            day.counts
        );
    }
}

/// The seeds that the environment names, else these.
fn seeds(default: std::ops::Range<u64>) -> std::ops::Range<u64> {
    let named = std::env::var("CHAOS_SEEDS").ok();
    let range = named.as_deref().and_then(|text| text.split_once(".."));
    let parsed = range.and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
    parsed.unwrap_or(default)
}

#[tokio::test(start_paused = true)]
async fn twenty_minutes_of_chaos_leave_console_journal_audit_log_and_world_in_accord() {
    live(3, 20, &["same", "runs ended", "consoles killed"]).await;
}

#[tokio::test(start_paused = true)]
#[ignore = "long: tests/long"]
async fn days_of_chaos_leave_console_journal_audit_log_and_world_in_accord() {
    for seed in seeds(1..21) {
        live(
            seed,
            24 * 60,
            &[
                "same",
                "runs ended",
                "consoles killed",
                "silence",
                "tokens refused",
                "lists broken",
                "noticed",
            ],
        )
        .await;
    }
}
