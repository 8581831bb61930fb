//! The program itself on a simulated cluster that is served over HTTPS by the test: so the server's audit is at hand.

use std::path::PathBuf;
use std::process::Stdio;

use exec::runs;
use sim::change::Resource;
use sim::{Options, Running, Server};
use tokio::process::{Child, Command};

use super::stage::{begin, world};
use super::*;

/// A simulated cluster over HTTPS, and a home from which the program is run.
pub struct Bench {
    /// The server.
    pub running: Running,
    home: tempfile::TempDir,
}

impl Bench {
    /// A fleet of so many nodes, whose time runs at this speed.
    pub async fn new(nodes: u32, speed: f64) -> Self {
        let home = tempfile::TempDir::new().expect("a folder");
        let options = Options {
            kubeconfig: Some(home.path().join("kubeconfig")),
            speed,
            ..Options::default()
        };
        let clock = Arc::new(begin);
        let scene = Box::new(world(1, nodes, false));
        let running = Server::start(options, scene, clock).await.expect("serves");
        Self { running, home }
    }

    fn journal(&self) -> Journal {
        Journal::new(self.folder())
    }

    fn folder(&self) -> PathBuf {
        self.home.path().join("journal")
    }

    /// Runs `plan` with these arguments.
    pub fn run(&self, arguments: &[&str]) -> Child {
        Command::new(env!("CARGO_BIN_EXE_stokehold"))
            .arg("plan")
            .args(arguments)
            .args([
                "--kubeconfig",
                "kubeconfig",
                "--context",
                "sim-admin",
                "--write",
                "-o",
                "json",
            ])
            .env_clear()
            .env("HOME", self.home.path())
            .env("STOKEHOLD_JOURNAL_DIR", self.folder())
            .current_dir(self.home.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("can be run")
    }

    /// Runs it to its end: its code, and what it said.
    pub async fn done(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let output = self.run(arguments).wait_with_output().await.expect("ends");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let more = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), said + &more)
    }

    /// Lines of the journal.
    pub fn lines(&self) -> usize {
        let pages = self.journal().read().expect("a journal");
        pages.lines.len() + pages.unreadable
    }

    /// The latest run.
    pub fn latest(&self) -> Option<Run> {
        runs(&self.journal().read().expect("a journal")).pop()
    }

    /// An object as it stands.
    pub fn object(&self, resource: Resource, namespace: &str, name: &str) -> Value {
        let found = self.running.cluster().get(resource, namespace, name);
        (*found.unwrap_or_else(|| panic!("{namespace}/{name} is there"))).clone()
    }

    /// Entries of the server's audit so far.
    pub fn noted(&self) -> usize {
        self.running.cluster().audit().entries().count()
    }
}
