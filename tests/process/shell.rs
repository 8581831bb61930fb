//! Shells and port-forwards on a terminal, with a kubectl of our own in front of PATH that writes down how it is called.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use rustix::termios::{LocalModes, tcgetattr};

use super::link::Link;
use super::simulated::Sim;
use super::{Home, PATIENCE, alone, text, until};

/// A kubectl that writes down how it is called. It is no file of a test's own: one that was just written cannot be executed
/// while a process that another test started meanwhile still has it open for writing.
const KUBECTL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/process/fake_kubectl");

/// A home with that kubectl, and a cluster.
struct Fake {
    home: Home,
    sim: Sim,
}

impl Fake {
    fn new() -> Self {
        let home = Home::new();
        fs::create_dir_all(home.path("bin")).expect("can be made");
        symlink(KUBECTL, home.path("bin/kubectl")).expect("can be made");
        fs::create_dir_all(home.path("fake")).expect("can be made");
        let sim = Sim::start(&home, "a config.yaml");
        Self { home, sim }
    }

    fn variables(&self) -> [(&'static str, String); 2] {
        let path = format!("{}:/usr/bin:/bin", self.home.path("bin").display());
        [
            ("PATH", path),
            ("FAKE", self.home.path("fake").display().to_string()),
        ]
    }

    /// The console on the cluster, with everything read.
    fn console(&self, more: &[&str], path: Option<&str>) -> Link {
        let config = self.sim.kubeconfig.as_str();
        let arguments = [&["--kubeconfig", config, "--context", "sim-admin"], more].concat();
        let [(_, own), (_, fake)] = &self.variables();
        let variables = [("PATH", path.unwrap_or(own)), ("FAKE", fake)];
        let mut link = Link::start_with(&arguments, &variables);
        link.until(" live ");
        link
    }

    /// What kubectl was called with, by the verb that stands in it; the last such call.
    fn called(&self, verb: &str) -> Option<Vec<String>> {
        let entries = fs::read_dir(self.home.path("fake")).expect("a folder");
        let all = entries.filter_map(|entry| {
            let path = entry.expect("an entry").path();
            let name = path.file_name()?.to_str()?;
            name.starts_with("called.")
                .then(|| fs::read_to_string(&path).expect("is text"))
        });
        let calls = all.map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>());
        calls
            .filter(|words| words.iter().any(|word| word == verb))
            .last()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.home.path("fake").join(name)
    }
}

/// The nodes, with the cursor on the first.
fn nodes(link: &mut Link) {
    link.keys("6");
    link.until("NAME↑");
    link.until("▌ ●");
}

#[test]
fn a_shell_has_the_terminal_and_gives_it_back() {
    let _alone = alone();
    let fake = Fake::new();
    let mut link = fake.console(&["--write"], None);
    let before = tcgetattr(link.pty()).expect("modes").local_modes;
    assert!(
        !before.contains(LocalModes::ICANON),
        "the console reads key by key"
    );
    nodes(&mut link);
    link.keys("S");
    link.until("the shell of the fake");
    assert!(!link.screen.screen().alternate_screen(), "{}", link.text());
    assert!(
        link.text().contains("stokehold: shell in node "),
        "{}",
        link.text()
    );
    let lent = tcgetattr(link.pty()).expect("modes").local_modes;
    assert!(
        lent.contains(LocalModes::ICANON | LocalModes::ECHO),
        "as a shell expects it"
    );
    // Keys of the console are letters to the shell.
    link.keys("q 5 hello\n");
    link.until("ended: error: the fake has failed");
    assert_eq!(
        fs::read_to_string(fake.file("typed")).expect("it read"),
        "q 5 hello"
    );
    assert!(link.screen.screen().alternate_screen());
    assert!(
        link.text().contains("NAME↑"),
        "the view is there again:\n{}",
        link.text()
    );
    assert_eq!(tcgetattr(link.pty()).expect("modes").local_modes, before);

    let run = fake.called("run").expect("kubectl was called");
    let config = fake.sim.kubeconfig.as_str();
    assert_eq!(
        run[..7],
        [
            "--kubeconfig",
            config,
            "--context",
            "sim-admin",
            "-n",
            "default",
            "run"
        ]
    );
    assert!(run[7].starts_with("stokehold-shell-"), "{run:?}");
    assert_eq!(run[8..11], ["--rm", "-it", "--restart=Never"]);
    // It failed: what it may have left is removed.
    until("the pod is removed", || {
        fake.called("delete")
            .is_some_and(|call| call.contains(&run[7]))
    });

    // Ctrl-c ends the shell, not the console.
    link.keys("S");
    link.until("the shell of the fake");
    link.keys("\u{3}");
    link.until("NAME↑");
    link.keys("5");
    link.until("WAIT/RUN");
    link.keys("q");
    link.read(Duration::from_millis(300), 65_536);
    assert_eq!(link.end(), 0);
    assert!(!link.screen.screen().alternate_screen());
    let after = tcgetattr(link.pty()).expect("modes").local_modes;
    assert!(
        after.contains(LocalModes::ICANON | LocalModes::ECHO),
        "cooked, as before the console"
    );
}

/// A key that is typed at the moment the console comes back is not lost.
#[test]
fn a_key_at_the_end_of_a_shell_is_not_lost() {
    let _alone = alone();
    let fake = Fake::new();
    let mut link = fake.console(&["--write"], None);
    nodes(&mut link);
    for turn in 0..40_u64 {
        link.keys("S");
        link.until("the shell of the fake");
        link.keys("\n");
        let end = Instant::now() + PATIENCE;
        while !link.screen.screen().alternate_screen() {
            assert!(Instant::now() < end, "turn {turn}: {}", link.text());
            link.read(Duration::from_millis(1), 4_096);
        }
        // From before the reader of keys is there until after the first frame.
        std::thread::sleep(Duration::from_micros(turn * 400));
    }
}

#[test]
fn a_signal_while_a_shell_is_open_ends_both_and_removes_the_pod() {
    let _alone = alone();
    let fake = Fake::new();
    let mut link = fake.console(&["--write"], None);
    nodes(&mut link);
    link.keys("S");
    link.until("the shell of the fake");
    let pid = Pid::from_raw(i32::try_from(link.child.id()).expect("a number")).expect("a process");
    kill_process(pid, Signal::TERM).expect("it runs");
    assert_eq!(link.end(), 130);
    until("the pod is removed", || fake.called("delete").is_some());
    let modes = tcgetattr(link.pty()).expect("modes").local_modes;
    assert!(modes.contains(LocalModes::ICANON | LocalModes::ECHO));
}

/// A console that cannot open a shell says why in one line.
fn refused_in_the_console(fake: &Fake) {
    let mut link = fake.console(&[], None);
    nodes(&mut link);
    link.keys("S");
    link.until("read-only: allow writing with --write");
    assert_eq!(fake.called("run"), None);

    let nowhere = fake.home.path("nowhere").display().to_string();
    let mut link = fake.console(&["--write"], Some(&nowhere));
    nodes(&mut link);
    link.keys("S");
    link.until("kubectl is not on PATH: install it");
    assert!(link.screen.screen().alternate_screen());

    let mut link = Link::start_with(&["demo", "--nodes", "6"], &[]);
    link.until(" live ");
    nodes(&mut link);
    link.keys("S");
    link.until("the simulated cluster has no containers");
}

#[test]
fn a_port_forward_is_listed_and_ends_with_the_console() {
    let _alone = alone();
    for signal in [None, Some(Signal::TERM)] {
        let fake = Fake::new();
        let mut link = fake.console(&["--write"], None);
        link.keys(":pods\r");
        link.until("RESTARTS");
        link.until("Running");
        link.keys("F");
        link.until("LOCAL[:REMOTE]");
        link.keys("8080:80\r");
        link.until("127.0.0.1:8080 forwards to port 80 of pod ");
        let call = fake.called("port-forward").expect("kubectl was called");
        assert_eq!(call[6..8], ["port-forward", "--address=127.0.0.1"]);
        assert_eq!(call[9], "8080:80");
        // One that ends by itself says why.
        link.keys("F");
        link.until("LOCAL[:REMOTE]");
        link.keys("9000:81\r");
        link.until("ended: error: lost connection to pod");
        link.keys(":port-forwards\r");
        link.until("stop 127.0.0.1:8080");
        assert!(!link.text().contains("9000:81"), "{}", link.text());
        link.keys("\u{1b}");
        // Escape and a key at one moment are alt and that key.
        link.read(Duration::from_millis(500), 65_536);
        assert!(!link.text().contains("stop 127.0.0.1"), "{}", link.text());
        let pid = fs::read_to_string(fake.file("pid")).expect("it runs");
        let pid = Pid::from_raw(pid.trim().parse().expect("a number")).expect("a process");
        assert!(test_kill_process(pid).is_ok(), "it runs");
        match signal {
            None => link.keys("\u{3}"),
            Some(signal) => {
                let own = Pid::from_raw(i32::try_from(link.child.id()).expect("a number"));
                kill_process(own.expect("a process"), signal).expect("it runs");
            }
        }
        link.read(Duration::from_millis(300), 65_536);
        link.end();
        until("the port-forward ends", || test_kill_process(pid).is_err());
    }
}

#[test]
fn a_shell_opens_behind_the_grant_alone_and_its_refusal_says_why() {
    let _alone = alone();
    let fake = Fake::new();
    refused_in_the_console(&fake);
    let run = |arguments: &[&str], path: bool| {
        let mut command = fake
            .home
            .command(&["shell", "--kubeconfig", &fake.sim.kubeconfig]);
        command.args(["--context", "sim-admin"]).args(arguments);
        command.envs(fake.variables());
        if !path {
            command.env("PATH", fake.home.path("nowhere"));
        }
        command.output().expect("can be run")
    };
    let refused = run(&["pod", "nlp/a"], true);
    assert_eq!(refused.status.code(), Some(3));
    assert!(text(&refused.stderr).contains("--write"));
    let hostile = run(&["--write", "pod", "nlp/--help"], true);
    assert_eq!(hostile.status.code(), Some(2));
    assert_eq!(fake.called("exec"), None, "kubectl was not run");

    let failed = run(
        &["--write", "--as", "ada", "pod", "nlp/a", "-c", "main"],
        true,
    );
    assert_eq!(failed.status.code(), Some(1));
    assert!(text(&failed.stderr).contains("the fake has failed"));
    let call = fake.called("exec").expect("kubectl was called");
    let config = fake.sim.kubeconfig.as_str();
    let expected = [
        "--kubeconfig",
        config,
        "--context",
        "sim-admin",
        "--as",
        "ada",
        "-n",
        "nlp",
        "exec",
        "-it",
        "a",
        "-c",
        "main",
        "--",
        "sh",
        "-c",
    ];
    assert_eq!(call[..expected.len()], expected);

    let missing = run(&["--write", "pod", "nlp/a"], false);
    assert_eq!(missing.status.code(), Some(1));
    let message = text(&missing.stderr);
    assert!(message.contains("kubectl is not on PATH"), "{message}");
    assert!(
        message.contains("-n nlp exec -it a -- sh -c 'command -v bash"),
        "to be copied: {message}"
    );
}
