//! The program as a process: on a terminal, behind a shell, killed, stopped, and beside another. One test runs at a time, and each says
//! what happened, never how fast. What needs no process is tested in `it`, in paused time.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::zombie_processes,
    reason = "tests wait for real processes and look at the clock while they do; a failed unwrap fails the test"
)]

#[cfg(target_os = "linux")]
mod empty_root;
#[path = "../exec/faulty_service.rs"]
#[expect(dead_code, reason = "what other tests do on it")]
mod faulty_service;
mod gate;
mod killed;
mod killed_recorder;
mod leaving;
mod link;
#[path = "../cli/manifest.rs"]
mod manifest;
mod pipes;
mod secrets;
mod services;
mod shell;
mod simulated;
mod watch;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdout, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// How long another process may take before it counts as failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Held by the test that runs: with several threads of tests, too, there is one at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A home of its own, so that nothing of this machine's user counts.
struct Home(TempDir);

impl Home {
    fn new() -> Self {
        Self(TempDir::new().expect("a temporary folder"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("has a folder")).expect("can be made");
        fs::write(&path, text).expect("can be written");
        path
    }

    fn settings(&self, text: &str) -> PathBuf {
        self.write("config/stokehold/stokehold.toml", text)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stokehold"));
        command
            .args(arguments)
            .env_clear()
            .env("HOME", self.0.path())
            .env("XDG_CONFIG_HOME", self.path("config"))
            .current_dir(self.0.path())
            .stdin(Stdio::null());
        command
    }

    /// Runs the program to its end.
    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("can be run")
    }
}

/// A program that runs beside the test until it is dropped.
struct Running {
    child: Child,
    out: BufReader<ChildStdout>,
    err: BufReader<ChildStderr>,
}

impl Running {
    fn start(home: &Home, arguments: &[&str]) -> Self {
        let mut command = home.command(arguments);
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("can be run");
        let out = BufReader::new(child.stdout.take().expect("is piped"));
        let err = BufReader::new(child.stderr.take().expect("is piped"));
        Self { child, out, err }
    }

    /// The next line of its standard output.
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).expect("is text");
        assert!(!line.is_empty(), "it ended: {:?}", self.child.wait());
        line.trim_end().to_owned()
    }

    /// The rest of the next line of standard error that begins with this.
    fn line_after(&mut self, start: &str) -> String {
        loop {
            let mut line = String::new();
            self.err.read_line(&mut line).expect("is text");
            assert!(!line.is_empty(), "it ended: {:?}", self.child.wait());
            if let Some(rest) = line.strip_prefix(start) {
                return rest.trim_end().to_owned();
            }
        }
    }

    /// The address that it says it serves at, which stands between these words and the next slash.
    fn address(&mut self, before: &str) -> String {
        let line = self.line();
        let address = line.split_once(before).map(|(_, rest)| rest);
        let address = address.and_then(|rest| rest.split('/').next());
        address.unwrap_or_else(|| panic!("{line}")).to_owned()
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Ends it as a service manager would; its exit code.
    fn end(mut self) -> Option<i32> {
        kill_process(self.pid(), Signal::TERM).expect("it runs");
        self.child.wait().expect("ends").code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Asks a server for this; the status code and the body.
fn ask(address: &str, request: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).expect("listens");
    let request = format!("{request} HTTP/1.1\r\nHost: any\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("can be asked");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answers");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    let code = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    (code.expect("a code"), body.to_owned())
}

/// Waits for another process; panics once it has taken so long that it has failed.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain for {what}");
        sleep(Duration::from_millis(20));
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("is text")
}
