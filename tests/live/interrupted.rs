//! A drain of some fifty steps, ended at each of them: by SIGKILL, by the end of its terminal, by a link that is cut, by ctrl-c, and
//! by leaving the console. After each end what is suspended on the cluster is what the journal says and no more, and a program that
//! is started then says what is.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use exec::{Journal, Run, RunEnd, StepResult, runs};
use model::plan::{Object, Verb};
use pty_process::blocking::{Command as PtyCommand, open};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::acting::Stage;
use super::gate::{Gate, Point, Stopped};
use super::plane::{Ends, HttpAnswer, PATIENCE, acts_for_long, curl, stokehold, stokehold_at};
use super::terminal::Terminal;
use super::truth::{holds, list, text};

/// Jobs of one device behind the queue.
const QUEUED: u32 = 20;

/// Indexed Jobs of two devices without a queue.
const PAIRS: u32 = 2;

/// Pods of a Deployment, without devices.
const SERVED: u32 = 4;

/// A Job that its owner had suspended before any plan.
const KEPT: &str = "Job/kept";

/// The least number of steps that each of these plans has.
const STEPS: usize = 50;

/// So often the console is left, at steps that are drawn: a console takes some seconds to start.
const DRAWN: usize = 8;

/// What is changed on the cluster: each object as `KIND/NAME`.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
struct Standing {
    /// Suspended.
    held: BTreeSet<String>,
    /// Those that state a run that has suspended them.
    stated: BTreeSet<String>,
    /// Cordoned.
    closed: BTreeSet<String>,
    /// Pods that a plan was to evict, and which are told to end or have gone.
    gone: BTreeSet<String>,
}

fn named(object: &Object) -> String {
    format!("{}/{}", object.kind, object.name)
}

impl Standing {
    /// With what a run has done by its journal; `landed` says of the call whose end it does not know whether it was carried out.
    fn and(mut self, run: &Run, landed: bool) -> Self {
        for (trace, step) in run.steps.iter().zip(&run.plan.steps) {
            let done = matches!(trace.over, Some(StepResult::Done | StepResult::Already));
            if !(done || trace.has_written() || trace.is_unresolved() && landed) {
                continue;
            }
            let name = named(&step.object);
            _ = match step.verb {
                Verb::Suspend => self.held.insert(name.clone()) && self.stated.insert(name),
                Verb::Resume => self.held.remove(&name) && self.stated.remove(&name),
                Verb::Cordon => self.closed.insert(name),
                Verb::Uncordon => self.closed.remove(&name),
                Verb::Evict => self.gone.insert(name),
                other => panic!("no step of these plans: {other:?}"),
            };
        }
        self
    }
}

/// The stage, the work on its nodes, and the gate through which the program acts on it.
struct Scene {
    stage: Stage,
    nodes: [String; 3],
    gate: Gate,
}

impl Scene {
    fn new(name: &'static str) -> Self {
        let stage = Stage::with_queue_on(acts_for_long(), name, QUEUED);
        let nodes = stage.three_nodes();
        let queued = (0..QUEUED).map(|at| stage.job_object(&format!("queued-{at:02}"), 1, true));
        let pairs = (0..PAIRS).map(|at| stage.job_object(&format!("pair-{at}"), 2, false));
        let mut all: Vec<Value> = queued.chain(pairs).collect();
        let mut kept = stage.job_object("kept", 1, false);
        kept["spec"]["suspend"] = true.into();
        let labels = json!({"app": "served"});
        let served = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "served", "namespace": name},
            "spec": {"replicas": SERVED, "selector": {"matchLabels": labels}, "template": stage.pods(&labels, 0)},
        });
        all.extend([kept, served]);
        stage.create(&all);
        let gate = Gate::open();
        let fixture = Self { stage, nodes, gate };
        fixture.runs();
        fixture
    }

    /// What the API server answers, past the gate.
    fn get(&self, path: &str) -> Value {
        let answer = curl(&[&format!("{}{path}", self.gate.server)]);
        serde_json::from_str(&answer).expect("a document")
    }

    fn all(&self, path: &str) -> Vec<Value> {
        list(&self.get(path), "/items").to_vec()
    }

    fn workloads(&self) -> Vec<Value> {
        let name = self.stage.name;
        self.all(&format!(
            "/apis/kueue.x-k8s.io/v1beta2/namespaces/{name}/workloads"
        ))
    }

    fn jobs(&self) -> Vec<Value> {
        let name = self.stage.name;
        self.all(&format!("/apis/batch/v1/namespaces/{name}/jobs"))
    }

    fn pods(&self) -> Vec<Value> {
        self.all(&format!("/api/v1/namespaces/{}/pods", self.stage.name))
    }

    /// What is changed now; `run` says which pods were to be evicted.
    fn standing(&self, run: &Run) -> Standing {
        let mut now = Standing::default();
        let mut see = |kind: &str, object: &Value, held: bool| {
            let name = format!("{kind}/{}", text(object, "/metadata/name"));
            let states = !text(object, "/metadata/annotations/stokehold.dev~1held").is_empty();
            if states {
                now.stated.insert(name.clone());
            }
            if held {
                now.held.insert(name);
            }
        };
        for workload in self.workloads() {
            see("Workload", &workload, workload["spec"]["active"] == false);
        }
        for job in self.jobs() {
            // (Kueue suspends those behind the queue as it admits them.)
            let queued = !text(&job, "/metadata/labels/kueue.x-k8s.io~1queue-name").is_empty();
            see("Job", &job, !queued && job["spec"]["suspend"] == true);
        }
        assert!(now.held.remove(KEPT), "its owner keeps it suspended");
        for node in self.all(&format!(
            "/api/v1/nodes?labelSelector=stokehold-test%3D{}",
            self.stage.name
        )) {
            if node["spec"]["unschedulable"] == true {
                now.closed
                    .insert(format!("Node/{}", text(&node, "/metadata/name")));
            }
        }
        let there: BTreeSet<String> = self
            .pods()
            .iter()
            .filter(|pod| pod["metadata"]["deletionTimestamp"].is_null())
            .map(|pod| text(pod, "/metadata/uid").to_owned())
            .collect();
        for step in run
            .plan
            .steps
            .iter()
            .filter(|step| step.verb == Verb::Evict)
        {
            let uid = step.object.uid.as_deref().expect("a pod that is known");
            if !there.contains(uid) {
                now.gone.insert(named(&step.object));
            }
        }
        now
    }

    /// Waits until nothing is suspended and Kueue has admitted what waits in its queue.
    fn is_released(&self) {
        self.stage.until("all is admitted and resumed", || {
            let admitted = self
                .workloads()
                .iter()
                .all(|one| one["spec"]["active"] == true && holds(one, "Admitted"));
            let kept = |job: &Value| text(job, "/metadata/name") == "kept";
            admitted
                && self
                    .jobs()
                    .iter()
                    .all(|job| kept(job) || job["spec"]["suspend"] == false)
        });
    }

    /// Waits until all of it runs on the nodes.
    fn runs(&self) {
        let all = (QUEUED + 2 * PAIRS + SERVED) as usize;
        self.stage.until("all of it runs", || {
            let pods = self.pods();
            let runs = |pod: &&Value| {
                pod["metadata"]["deletionTimestamp"].is_null() && holds(pod, "Ready")
            };
            pods.len() == all && pods.iter().filter(runs).count() == all
        });
        self.is_released();
    }

    fn latest(&self) -> Run {
        self.known().pop().expect("a run")
    }

    fn known(&self) -> Vec<Run> {
        runs(
            &Journal::new(self.stage.journal())
                .read()
                .expect("a journal"),
        )
    }

    fn run(&self, name: &str) -> Run {
        let mut all = self.known().into_iter();
        all.find(|run| run.name == name).expect("is known")
    }

    fn is_running(&self, run: &str) -> bool {
        Journal::new(self.stage.journal()).is_running(run)
    }

    fn drain(&self) -> Vec<&str> {
        let nodes = self.nodes.iter().map(String::as_str);
        ["drain"].into_iter().chain(nodes).collect()
    }

    /// A plan that is carried out through the gate.
    fn through_the_gate(&self, arguments: &[&str]) -> Command {
        let all = self.stage.applied(arguments);
        let command = stokehold_at(&self.gate.config, Gate::CONTEXT, &all);
        self.stage.with_journal(command)
    }

    fn spawn(&self, arguments: &[&str]) -> Ends {
        let mut command = self.through_the_gate(arguments);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Ends(command.spawn().expect("stokehold runs"))
    }

    /// The objects are as the journal has them, and what was stopped; the step that was stopped.
    fn agrees(&self, base: &Standing, run: &Run, stopped: &Stopped) -> u32 {
        let landed = stopped.code.is_some_and(|code| (200..300).contains(&code));
        assert_eq!(
            self.standing(run),
            base.clone().and(run, landed),
            "{stopped:?}"
        );
        let open = run.steps.iter().position(exec::Trace::is_unresolved);
        let open = open.unwrap_or_else(|| panic!("a call is under way: {stopped:?}"));
        open as u32 + 1
    }

    /// The jobs behind what is suspended now, by what the plan of `run` says.
    fn held_jobs(&self, run: &Run) -> BTreeSet<String> {
        let steps = run.plan.steps.iter();
        let of: BTreeMap<String, String> = steps
            .filter_map(|step| Some((named(&step.object), step.job.as_ref()?.name.to_string())))
            .collect();
        let held = self.standing(run).held;
        held.iter().map(|object| of[object].clone()).collect()
    }

    fn look(&self, kind: &str) -> Vec<Value> {
        let arguments = ["get", kind, "-n", self.stage.name, "-o", "json"];
        let command = stokehold("live-admin", &arguments);
        let answer = HttpAnswer::of(&mut self.stage.with_journal(command));
        assert_eq!(answer.code, Some(0), "{answer:?}");
        answer.rows()
    }

    /// Programs that are started now say what `run` keeps suspended, and that it goes on no more, for this reason; nothing where a
    /// process carries it out. How many jobs it is.
    fn says(&self, run: &Run, fate: Option<&str>) -> usize {
        self.finds(run, fate);
        self.gives_reasons(run, fate)
    }

    /// The same of a program that prints findings.
    fn finds(&self, run: &Run, fate: Option<&str>) {
        let jobs = self.held_jobs(run);
        let alerts = self.look("alerts");
        let all = alerts.iter().filter(|row| row["code"] == "run-interrupted");
        let all: Vec<&Value> = all.collect();
        let Some(fate) = fate.filter(|_| !jobs.is_empty()) else {
            assert!(all.is_empty(), "{jobs:?}: {all:#?}");
            return;
        };
        let [finding] = all.as_slice() else {
            panic!("{jobs:?} are suspended by {}: {all:#?}", run.name);
        };
        let (message, repair) = (text(finding, "/message"), text(finding, "/repair"));
        let names: Vec<&str> = jobs.iter().map(String::as_str).collect();
        let suspended = match names.as_slice() {
            [one] => format!("{one} is suspended"),
            few if few.len() <= 3 => format!("{} are suspended", few.join(", ")),
            all => format!("{} jobs are suspended", all.len()),
        };
        let by = run.who.name();
        assert_eq!(message, format!("{suspended}: {by}'s run {fate}"));
        assert_eq!(finding["severity"], "crit", "{finding:#}");
        assert_eq!(text(finding, "/object/name"), run.name, "{finding:#}");
        assert!(finding["since"].is_string(), "{finding:#}");
        assert!(ends(run).iter().all(|one| repair.contains(one)), "{repair}");
    }

    /// The same of a program that prints jobs.
    fn gives_reasons(&self, run: &Run, fate: Option<&str>) -> usize {
        let jobs = self.held_jobs(run);
        let of_run = format!("suspended by {}'s run {}", run.who.name(), run.name);
        let rows = self.look("jobs");
        let held = rows
            .iter()
            .filter(|row| row["reason_code"] == "held-by-run");
        let mut jobs_named = BTreeSet::new();
        for row in held {
            let reason = text(row, "/reason");
            let is_named = match fate {
                None => reason.ends_with(" at the latest"),
                Some(fate) => {
                    reason.contains(fate) && ends(run).iter().all(|one| reason.contains(one))
                }
            };
            assert!(reason.starts_with(&of_run) && is_named, "{row:#}");
            jobs_named.insert(format!(
                "{}/{}",
                text(row, "/namespace"),
                text(row, "/name")
            ));
        }
        assert_eq!(jobs_named, jobs, "REASON of `get jobs`: {rows:#?}");
        jobs.len()
    }

    /// The run is done, each of its steps; it has left the nodes cordoned and nothing suspended, and nothing is said.
    fn is_done(&self, run: &str) {
        let run = self.run(run);
        assert_eq!(run.end, Some(RunEnd::Done));
        let left = self.standing(&run);
        assert_eq!(left, Standing::default().and(&run, false));
        let closed = self
            .nodes
            .iter()
            .map(|node| format!("Node/{node}"))
            .collect();
        assert_eq!((left.held, left.closed), (BTreeSet::new(), closed));
        self.is_released();
        assert_eq!(self.says(&run, None), 0);
    }

    /// Undoes a run: nothing is suspended, no node is cordoned, all of it runs again.
    fn is_undone(&self, run: &str) {
        self.stage.act(&["undo", run]);
        let left = self.standing(&self.run(run));
        assert_eq!((left.held, left.stated, left.closed), Default::default());
        self.runs();
    }

    /// The plan's steps, each of which was stopped.
    fn met_all(&self, run: &str, met: &BTreeSet<u32>, how: &str) {
        let count = self.run(run).plan.steps.len();
        assert!(count >= STEPS, "{count} steps");
        let all: BTreeSet<u32> = (1..=count as u32).collect();
        assert_eq!(*met, all, "{how} at each step");
        println!("{how} at each of {count} steps");
    }
}

/// The commands that end what a run holds.
fn ends(run: &Run) -> [String; 2] {
    ["continue", "undo"].map(|word| format!("stokehold plan {word} {} --apply", run.name))
}

fn has_ended(child: &mut Child) -> bool {
    child.try_wait().expect("a child of ours").is_some()
}

fn send(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    kill_process(pid.expect("a process"), signal).expect("it is there");
}

/// A run that is killed before each of its calls arrives and after each was carried out, and continued each time. Another is
/// killed in its middle and undone, and the undo is killed in the same way.
#[test]
#[ignore = "needs the plane of tests/live/up"]
fn a_run_that_is_killed_at_each_step_says_what_it_holds() {
    let fixture = Scene::new("act-killed");
    let (run, met) = killed_at_each_step(&fixture, &Standing::default(), &fixture.drain(), None);
    fixture.met_all(&run, &met, "killed");
    fixture.is_done(&run);
    fixture.is_undone(&run);

    // In the middle, where it holds several jobs.
    fixture.gate.stops_after(STEPS / 2, Point::CarriedOut);
    let mut child = fixture.spawn(&fixture.drain());
    let stopped = loop {
        let stopped = fixture.gate.stopped(|| has_ended(&mut child.0));
        let stopped = stopped.expect("a write in the middle");
        if fixture.held_jobs(&fixture.latest()).len() > 1 {
            break stopped;
        }
        fixture.gate.stops_after(0, Point::CarriedOut);
        fixture.gate.passes();
    };
    drop(child);
    fixture.gate.loses();
    let run = fixture.latest();
    fixture.agrees(&Standing::default(), &run, &stopped);
    assert!(fixture.says(&run, Some("was interrupted")) > 1);
    is_shown_by_explain_and_console(&fixture, &run);
    let mut base = fixture.standing(&run);
    // (The undo says nothing of pods.)
    base.gone.clear();
    let (undo, _) = killed_at_each_step(&fixture, &base, &["undo", &run.name], Some(&run));
    assert_eq!(fixture.run(&undo).end, Some(RunEnd::Done));
    let left = fixture.standing(&run);
    assert_eq!((left.held, left.stated, left.closed), Default::default());
    fixture.runs();
    assert_eq!(fixture.says(&run, Some("was interrupted")), 0);
}

/// Begins a plan, and continues it whenever it was killed: before each call arrives, and after it was carried out. The run, and the
/// steps at which it was killed. `of` is the run whose jobs are suspended, if it is another.
fn killed_at_each_step(
    fixture: &Scene,
    base: &Standing,
    arguments: &[&str],
    of: Option<&Run>,
) -> (String, BTreeSet<u32>) {
    let known = fixture.known().len();
    let mut met = BTreeSet::new();
    let mut name: Option<String> = None;
    let points = [Point::Sent, Point::CarriedOut].into_iter().cycle();
    for (count, point) in points.enumerate() {
        fixture.gate.stops_after(0, point);
        let mut child = match &name {
            None => fixture.spawn(arguments),
            Some(name) => fixture.spawn(&["continue", name]),
        };
        let Some(stopped) = fixture.gate.stopped(|| has_ended(&mut child.0)) else {
            let status = child.0.wait().expect("it has ended");
            assert!(status.success(), "{arguments:?}: {status}");
            break;
        };
        child.0.kill().expect("SIGKILL");
        child.0.wait().expect("it has ended");
        fixture.gate.loses();
        let run = fixture.latest();
        assert_eq!(fixture.known().len(), known + 1, "one run");
        met.insert(fixture.agrees(base, &run, &stopped));
        // (A start a step, which takes a second.)
        let (holder, fate) = (of.unwrap_or(&run), Some("was interrupted"));
        match (point, count / 2 % 2) {
            (Point::Sent, _) => {}
            (Point::CarriedOut, 0) => fixture.finds(holder, fate),
            (Point::CarriedOut, _) => _ = fixture.gives_reasons(holder, fate),
        }
        name = Some(run.name);
    }
    (name.expect("was killed"), met)
}

/// `explain` of a job that it holds says so, and a console that is started now shows the finding.
fn is_shown_by_explain_and_console(fixture: &Scene, run: &Run) {
    let jobs = fixture.held_jobs(run);
    let job = jobs.first().expect("it holds some");
    let mut explain = fixture
        .stage
        .with_journal(stokehold("live-admin", &["explain", job]));
    let explained = HttpAnswer::of(&mut explain);
    for command in ends(run) {
        assert!(explained.out.contains(&command), "{explained:?}");
    }
    let journal = [("STOKEHOLD_JOURNAL_DIR", fixture.stage.journal())];
    let config = super::plane::kubeconfig();
    let mut terminal = Terminal::start_with(&journal, &config, "live-admin", (170, 44));
    let words = format!("{} jobs are suspended", jobs.len());
    terminal.keys("8");
    terminal.wait("the finding", PATIENCE, |text| {
        // (Few are named.)
        text.contains(&words) || jobs.len() <= 3 && text.contains(job)
    });
    terminal.keys("q");
    assert!(terminal.end(PATIENCE).success());
}

/// A terminal that goes away at the first step, and a hang-up at each other, end no run; nor does a link that is cut at each step.
#[test]
#[ignore = "needs the plane of tests/live/up"]
fn a_run_that_is_hung_up_or_cut_off_at_each_step_goes_on() {
    let fixture = Scene::new("act-hung-up");
    let (pty, pts) = open().expect("a terminal");
    let command = fixture.through_the_gate(&fixture.drain());
    let command = PtyCommand::new(command.get_program())
        .args(command.get_args())
        .env("STOKEHOLD_JOURNAL_DIR", fixture.stage.journal());
    fixture.gate.stops_after(0, Point::Sent);
    let mut child = Ends(command.spawn(pts).expect("stokehold runs"));
    let mut pty = Some(pty);
    let mut met = BTreeSet::new();
    while let Some(stopped) = fixture.gate.stopped(|| has_ended(&mut child.0)) {
        match pty.take() {
            Some(pty) => drop(pty),
            None => send(child.0.id(), Signal::HUP),
        }
        let run = fixture.latest();
        met.insert(fixture.agrees(&Standing::default(), &run, &stopped));
        // (What others say is the same whatever comes to the process: see the cuts below.)
        fixture.gate.stops_after(0, Point::Sent);
        fixture.gate.passes();
    }
    let run = fixture.latest().name;
    fixture.met_all(&run, &met, "hung up");
    fixture.is_done(&run);
    fixture.is_undone(&run);

    fixture.gate.stops_after(0, Point::Sent);
    let mut child = fixture.spawn(&fixture.drain());
    let mut met = BTreeSet::new();
    let mut count = 0;
    while let Some(stopped) = fixture.gate.stopped(|| has_ended(&mut child.0)) {
        fixture.gate.cuts();
        let run = fixture.latest();
        met.insert(fixture.agrees(&Standing::default(), &run, &stopped));
        if count % 5 == 0 {
            fixture.says(&run, None);
        }
        count += 1;
        // Two before they arrive, two once they are carried out. What has not arrived is sent once more.
        let point = [Point::Sent, Point::CarriedOut][count / 2 % 2];
        fixture
            .gate
            .stops_after(usize::from(stopped.code.is_none()), point);
        fixture.gate.heals();
    }
    let run = fixture.latest().name;
    fixture.met_all(&run, &met, "cut off");
    assert!(child.0.wait().expect("it has ended").success());
    fixture.is_done(&run);
}

/// A run whose console is left with `q`, or hung up, goes on in a process of its own; one that ctrl-c stops says what it holds.
#[test]
#[ignore = "needs the plane of tests/live/up"]
fn a_run_that_is_left_or_stopped_at_each_step_says_what_it_holds() {
    let fixture = Scene::new("act-left");
    let seed = std::env::var("STOKEHOLD_SEED").ok();
    let seed = seed.map_or(50, |seed| seed.parse().expect("a number"));
    println!("repeat: STOKEHOLD_SEED={seed}");
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    // (Each console takes two steps.)
    let mut drawn: BTreeSet<usize> = BTreeSet::new();
    while drawn.len() < DRAWN {
        drawn.insert(rng.random_range(1..STEPS / 2 - 3) * 2);
    }
    println!("the console is left after so many steps: {drawn:?}");
    let mut met = BTreeSet::new();
    let mut name: Option<String> = None;
    for count in 0.. {
        if let (Some(name), Some(after)) = (&name, drawn.first())
            && *after <= met.len()
        {
            drawn.pop_first();
            met.extend(left(&fixture, name, drawn.len().is_multiple_of(2)));
            continue;
        }
        fixture.gate.stops_after(0, Point::Sent);
        let mut child = match &name {
            None => fixture.spawn(&fixture.drain()),
            Some(name) => fixture.spawn(&["continue", name]),
        };
        let Some(stopped) = fixture.gate.stopped(|| has_ended(&mut child.0)) else {
            assert!(child.0.wait().expect("it has ended").success());
            break;
        };
        met.insert(fixture.agrees(&Standing::default(), &fixture.latest(), &stopped));
        send(child.0.id(), Signal::INT);
        // (The signal is heard while the call is under way, or a call later.)
        loop {
            fixture.gate.stops_after(0, Point::Sent);
            fixture.gate.passes();
            match fixture.gate.stopped(|| has_ended(&mut child.0)) {
                Some(next) => {
                    met.insert(fixture.agrees(&Standing::default(), &fixture.latest(), &next))
                }
                None => break,
            };
        }
        let run = fixture.latest();
        if run.end == Some(RunEnd::Done) {
            break;
        }
        assert_eq!(run.end, Some(RunEnd::Stopped));
        assert_eq!(child.0.wait().expect("it has ended").code(), Some(130));
        assert_eq!(fixture.standing(&run), Standing::default().and(&run, false));
        // (It is told as a run that was killed is.)
        if count % 4 == 0 {
            fixture.says(&run, Some("was stopped"));
        }
        name = Some(run.name);
    }
    let run = fixture.latest().name;
    assert!(drawn.is_empty(), "at each of those drawn: {drawn:?}");
    fixture.met_all(&run, &met, "left or stopped");
    fixture.is_done(&run);
}

/// Continues the run in a console and leaves that while its next call is under way. The process in which it goes on is killed at its
/// next call. The steps of both.
fn left(fixture: &Scene, name: &str, with_q: bool) -> [u32; 2] {
    let variables = [
        ("STOKEHOLD_JOURNAL_DIR", fixture.stage.journal()),
        ("STOKEHOLD_WRITE", Path::new("true")),
    ];
    let mut terminal =
        Terminal::start_with(&variables, &fixture.gate.config, Gate::CONTEXT, (170, 44));
    terminal.keys("9");
    terminal.wait("the run", PATIENCE, |text| text.contains(name));
    fixture.gate.stops_after(0, Point::CarriedOut);
    terminal.keys("H");
    terminal.wait("its plan", PATIENCE, |text| {
        text.contains("enter continues it")
    });
    terminal.keys("\r");
    let stopped = fixture.gate.stopped(|| false).expect("a write");
    let first = fixture.agrees(&Standing::default(), &fixture.latest(), &stopped);
    fixture.gate.stops_after(0, Point::Sent);
    if with_q {
        terminal.keys("\x1b");
        // A `q` in the same read as the escape before it would be one key, with Alt.
        terminal.wait("the table of runs", PATIENCE, |text| {
            !text.contains("╭─ PLAN ")
        });
        terminal.keys("q");
        terminal.wait("the question", PATIENCE, |text| {
            text.contains("a run is in progress") && text.contains("continues in its own process")
        });
        terminal.keys("\r");
    } else {
        terminal.signal(Signal::HUP);
    }
    terminal.end(PATIENCE);
    let screen = terminal.text();
    let process = screen
        .split_once(" continues in process ")
        .map(|(_, rest)| rest);
    let process = process.and_then(|rest| rest.split(';').next()?.trim().parse().ok());
    let process: u32 = process.unwrap_or_else(|| panic!("which process: {screen}"));
    let stopped = fixture.gate.stopped(|| false).expect("a write");
    let run = fixture.latest();
    let second = fixture.agrees(&Standing::default(), &run, &stopped);
    fixture.says(&run, None);
    send(process, Signal::KILL);
    let end = Instant::now() + PATIENCE;
    while fixture.is_running(name) {
        assert!(Instant::now() < end, "process {process} is killed");
        sleep(Duration::from_millis(20));
    }
    fixture.gate.loses();
    fixture.says(&run, Some("was interrupted"));
    [first, second]
}
