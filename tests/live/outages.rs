//! Programs of the plane that stop, hang or end, and what the operator sees of it.

use std::cell::Cell;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::plane::{
    HttpAnswer, PATIENCE, Undo, Wait, Watch, alone, folder, home, kubeconfig, kubectl, rows,
    stokehold, undo,
};
use super::terminal::{Terminal, header, is_live, shows_the_fleet};
use super::truth::{list, text};

const WIDE: (u16, u16) = (170, 44);

/// A program of the plane as it was started, to be started again: at the latest when the value ends.
pub struct Program {
    name: &'static str,
    pid: i32,
    arguments: Vec<String>,
    root: PathBuf,
    folder: PathBuf,
    has_ended: Cell<bool>,
}

impl Program {
    /// By the name of its file of `pids`.
    pub fn running(name: &'static str) -> Self {
        let pid = fs::read_to_string(folder().join("pids").join(name)).expect("its number");
        let pid: i32 = pid.trim().parse().expect("a number");
        let line = fs::read(format!("/proc/{pid}/cmdline")).expect("its command line");
        let arguments = String::from_utf8(line).expect("a text");
        let link = |of: &str| fs::read_link(format!("/proc/{pid}/{of}")).expect("its folder");
        Self {
            name,
            pid,
            arguments: arguments
                .split_terminator('\0')
                .map(str::to_owned)
                .collect(),
            root: link("root"),
            folder: link("cwd"),
            has_ended: Cell::new(false),
        }
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.pid).expect("a process");
        kill_process(pid, signal).expect("it is there");
    }

    /// Ends it with a signal and waits until it is gone.
    pub fn end(&self, signal: Signal) {
        self.signal(signal);
        self.has_ended.set(true);
        let gone = Instant::now() + PATIENCE;
        while Path::new(&format!("/proc/{}/fd", self.pid))
            .read_dir()
            .is_ok_and(|mut fds| fds.next().is_some())
        {
            assert!(Instant::now() < gone, "{} does not end", self.name);
            sleep(Duration::from_millis(50));
        }
    }

    /// SIGKILL.
    pub fn kill(&self) {
        self.end(Signal::KILL);
    }

    /// Starts it as it was started.
    #[expect(
        clippy::zombie_processes,
        reason = "it outlives this test; down ends it"
    )]
    pub fn start(&self) {
        self.has_ended.set(false);
        let log = folder().join(format!("logs/{}.log", self.name));
        let log = fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(log)
            .expect("a log");
        let mut command = if self.root == Path::new("/") {
            Command::new(&self.arguments[0])
        } else {
            let mut command = Command::new("chroot");
            command.arg(&self.root).arg(&self.arguments[0]);
            command
        };
        let child = command
            .args(&self.arguments[1..])
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a log"))
            .stderr(log)
            .process_group(0)
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", self.name));
        fs::write(
            folder().join("pids").join(self.name),
            format!("{}\n", child.id()),
        )
        .expect("written");
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if self.has_ended.get() {
            self.start();
        }
    }
}

/// A stopped program goes on when the value ends, whatever becomes of the test.
struct Stopped(Program);

impl Stopped {
    fn of(name: &'static str) -> Self {
        let program = Program::running(name);
        program.signal(Signal::STOP);
        Self(program)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        self.0.signal(Signal::CONT);
    }
}

fn until(what: &str, patience: Duration, done: impl Fn() -> bool) {
    let _waited = Wait::begins(what);
    let end = Instant::now() + patience;
    while !done() {
        assert!(
            Instant::now() < end,
            "waited {patience:?} for {what} in vain"
        );
        sleep(Duration::from_millis(300));
    }
}

fn answers(path: &str) -> bool {
    let mut ask = Command::new("kubectl");
    ask.args([
        "--context=live-admin",
        "get",
        "--request-timeout=5s",
        "--raw",
        path,
    ]);
    ask.output().is_ok_and(|output| output.status.success())
}

/// Waits until the API server says that it is ready.
pub fn server_is_ready() {
    until("the API server", PATIENCE, || answers("/readyz"));
}

fn complete(variables: &[(&str, &Path)]) -> Terminal {
    let mut terminal = Terminal::start_with(variables, &kubeconfig(), "live-viewer", WIDE);
    terminal.wait("the whole fleet", PATIENCE, is_live);
    terminal
}

/// The store behind the API server stops for twenty seconds: nothing leaves the screen, who asks meanwhile waits and then gets
/// everything, and what happens afterwards is seen by watches that never ended.
#[test]
#[ignore = "needs the plane of tests/live/up"]
fn etcd_pauses() {
    let _plane = alone();
    let mut terminal = complete(&[]);
    let mut nodes = Watch::start(&mut stokehold(
        "live-viewer",
        &["get", "nodes", "--watch", "-o", "json"],
    ));
    nodes.wait("the last node", PATIENCE, |line| {
        line["object"]["name"] == "l4-5"
    });
    let stopped = Stopped::of("etcd");
    let asked = std::thread::spawn(|| {
        HttpAnswer::of(&mut stokehold(
            "live-viewer",
            &["get", "nodes", "-o", "json"],
        ))
    });
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(20) {
        let text = terminal.text();
        assert!(shows_the_fleet(&text), "what was known stays: {text}");
        sleep(Duration::from_millis(500));
    }
    // The console is no slower for it.
    let pressed = Instant::now();
    terminal.keys("6");
    terminal.wait("the nodes", PATIENCE, |text| text.contains("a100-0"));
    assert!(
        pressed.elapsed() < Duration::from_secs(10),
        "{:?}",
        pressed.elapsed()
    );
    terminal.keys("1");
    drop(stopped);
    server_is_ready();
    let answer = asked.join().expect("an answer");
    match answer.code {
        Some(0) => assert_eq!(answer.rows().len(), 200, "{answer:?}"),
        // Or it says what it could not list.
        Some(4) => assert!(!answer.err.is_empty(), "{answer:?}"),
        other => panic!("{other:?}: {answer:?}"),
    }
    terminal.wait("the recovery", PATIENCE, is_live);
    let _uncordoned = Undo(|| undo(&["uncordon", "l4-1"]));
    kubectl(&["cordon", "l4-1"]);
    nodes.wait("the cordon", PATIENCE, |line| {
        line["object"]["name"] == "l4-1" && line["object"]["cordoned"].is_object()
    });
    kubectl(&["uncordon", "l4-1"]);
    nodes.wait("its end", PATIENCE, |line| {
        line["object"]["name"] == "l4-1" && line["object"]["cordoned"].is_null()
    });
    assert!(
        nodes.seen.iter().all(|line| line["event"] != "gone"),
        "no node ever went"
    );
    terminal.keys("q");
    assert!(terminal.end(PATIENCE).success());
}

/// Every exporter hangs: connections are taken and never answered. The readings are called stale, the fleet and its jobs stay, keys
/// are answered at once, and all recover.
#[test]
#[ignore = "needs the plane of tests/live/up"]
fn a_fleet_of_exporters_hangs() {
    let _plane = alone();
    let settings = "[prometheus]\ndiscover = false\n[scrape]\ntimeout = \"3s\"\n";
    let home = home(settings);
    let variables = [("XDG_CONFIG_HOME", home.path())];
    let mut terminal = complete(&variables);
    let mut sources = Watch::start(
        stokehold("live-viewer", &["get", "sources", "--watch", "-o", "json"]).envs(variables),
    );
    sources.wait_all("every source", PATIENCE, |object| object["state"] == "live");
    let pages = sources
        .now()
        .iter()
        .filter(|object| object["kind"] == "dcgm")
        .count();
    let stopped = Stopped::of("exposition");
    let failed = |object: &Value| {
        object["kind"] == "dcgm" && object["state"] != "live" && object["message"].is_string()
    };
    let end = Instant::now() + PATIENCE;
    loop {
        sources.drain();
        let now = sources.now();
        let silent = now.iter().filter(|object| failed(object)).count();
        if silent * 2 > pages {
            break;
        }
        assert!(
            Instant::now() < end,
            "{silent} of {pages} are said to be silent"
        );
        sleep(Duration::from_millis(500));
    }
    let now = sources.now();
    let tables: Vec<&Value> = now
        .iter()
        .filter(|object| object["kind"] == "kubernetes")
        .collect();
    assert!(
        tables.len() > 20 && tables.iter().all(|object| object["state"] == "live"),
        "the rest goes on: {tables:#?}"
    );
    let text = terminal.wait("the fault in the header", PATIENCE, |text| {
        !header(text).ends_with("live")
    });
    assert!(shows_the_fleet(&text), "what was known stays: {text}");
    for (key, shown) in [("6", "DEVICES"), ("5", "STATE"), ("1", "FREE/TOTAL")] {
        let pressed = Instant::now();
        terminal.keys(key);
        terminal.wait(shown, PATIENCE, |text| text.contains(shown));
        assert!(
            pressed.elapsed() < Duration::from_secs(10),
            "a key waits: {:?}",
            pressed.elapsed()
        );
    }
    drop(stopped);
    sources.wait_all("the recovery of every source", PATIENCE, |object| {
        object["state"] == "live"
    });
    terminal.wait("the recovery", PATIENCE, is_live);
    terminal.keys("q");
    assert!(terminal.end(PATIENCE).success());
}

/// The places of work that waits, as one look at everything gives them.
fn places() -> Vec<Value> {
    let answer = HttpAnswer::of(&mut stokehold(
        "live-viewer",
        &["get", "fleet", "-o", "json"],
    ));
    assert_eq!(answer.code, Some(0), "{answer:?}");
    let document: Value = serde_json::from_str(&answer.out).expect("a document");
    let waiting = list(&document, "/jobs").iter().filter(|job| {
        job["admission"]["kind"] == "Workload" && job["admission"]["quota_reserved_at"].is_null()
    });
    waiting
        .map(|job| job["admission"]["position"].clone())
        .collect()
}

const VISIBILITY: &str =
    "/apis/visibility.kueue.x-k8s.io/v1beta2/clusterqueues/research-llm/pendingworkloads";

/// Kueue's controller ends, and its aggregated API with it: queues, quotas and what runs stay; places are unknown, never old; and
/// both come back by themselves when it is started again. (Called by a test that has the plane alone.)
pub fn kueue_is_started_anew() {
    let mut terminal = complete(&[]);
    // The order of who waits, under the queue that the cursor stands on.
    terminal.keys("4/research-llm\r");
    let ordered = |text: &str| text.contains("research-llm/fix-run") && !text.contains("1~ ");
    terminal.wait("the order", PATIENCE, ordered);
    let kueue = Program::running("kueue");
    kueue.end(Signal::TERM);
    until("the end of the aggregated API", PATIENCE, || {
        !answers(VISIBILITY)
    });
    let lacking = places();
    assert!(
        lacking.len() >= 30 && lacking.iter().all(Value::is_null),
        "{lacking:?}"
    );
    let llm = rows("live-viewer", "queues")
        .into_iter()
        .find(|row| text(row, "/name") == "research-llm")
        .expect("the queue");
    assert_eq!(
        (&llm["quota"][0]["used"], &llm["quota"][0]["borrowed"]),
        (&128.into(), &32.into()),
        "{llm}"
    );
    terminal.wait("places that are guesses, marked", PATIENCE, |text| {
        text.contains("research-llm/fix-run") && text.contains("1~ ")
    });
    kueue.start();
    until("Kueue", PATIENCE, || answers(VISIBILITY));
    terminal.wait("the order once more", PATIENCE, ordered);
    until("places in one look", PATIENCE, || {
        places().iter().all(Value::is_number)
    });
    terminal.keys("q");
    assert!(terminal.end(PATIENCE).success());
}
