//! A simulated cluster that the test serves over HTTP, with a gate: it stops at a named point of a run, where the test kills the
//! program.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

use exec::{Journal, Run, runs};
use http::Method;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use model::base::Moment;
use serde_json::Value;
use sim::change::{Resource, WorldChange};
use sim::world::{Options, World};
use sim::{Service, embed, kubeconfig};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::time::timeout;

use super::faulty_service::{Fate, FaultyService};
use super::link::Link;
use super::{Home, PATIENCE, text};

/// A point of a run: at one of the calls that change a node, counted from zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Point {
    /// It was sent, and has not arrived.
    Sent(usize),
    /// It was carried out, and nobody has heard so.
    CarriedOut(usize),
}

/// A call that changes a node.
fn changes_a_node(method: &Method, path: &str) -> bool {
    *method != Method::GET && path.starts_with("/api/v1/nodes/") && !path.contains("dryRun")
}

/// Serves until the runtime ends.
async fn serve(listener: TcpListener, proxy: FaultyService) {
    loop {
        let (stream, _) = listener.accept().await.expect("a connection");
        let service = TowerToHyperService::new(proxy.clone());
        tokio::spawn(async move {
            let builder = Builder::new(TokioExecutor::new());
            let _ = builder
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

/// The cluster, and a home from which the program is run.
pub(super) struct Bench {
    home: Home,
    service: Service,
    proxy: FaultyService,
    /// Nodes that take pods.
    pub(super) nodes: Vec<String>,
    runtime: Runtime,
}

impl Bench {
    /// A fleet of so many nodes, which stands still.
    pub(super) fn new(nodes: u32) -> Self {
        let begin = Moment::parse("2026-11-21T08:00:00Z").expect("a moment");
        let world = World::new(Options {
            nodes: Some(nodes),
            ..Options::new(begin)
        });
        let world = world.without_arrivals();
        let runtime = Runtime::new().expect("a runtime");
        let _within = runtime.enter();
        let open = |change| match change {
            WorldChange::Put(Resource::Nodes, node) => {
                let is_open = node["spec"]["unschedulable"] != true;
                let name = node["metadata"]["name"].as_str().expect("a name");
                is_open.then(|| name.to_owned())
            }
            _ => None,
        };
        let nodes = world.objects().into_iter().filter_map(open).collect();
        let clock = Arc::new(move || begin);
        let service = embed(Box::new(world), clock, 0.0, 1).expect("a cluster");
        let service = Service::new(Arc::clone(service.cluster()));
        let proxy = FaultyService::new(service.clone());
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"));
        let listener = listener.expect("a port");
        let address = listener.local_addr().expect("has one");
        runtime.spawn(serve(listener, proxy.clone()));
        let home = Home::new();
        let users = service.cluster().users();
        let kubeconfig = kubeconfig::render(&format!("http://{address}"), "", users);
        home.write("kubeconfig", kubeconfig);
        drop(_within);
        Self {
            home,
            service,
            proxy,
            nodes,
            runtime,
        }
    }

    fn folder(&self) -> PathBuf {
        self.home.path("journal")
    }

    /// `plan` with these arguments.
    pub(super) fn plan(&self, arguments: &[&str]) -> Command {
        let mut command = self.home.command(&["plan"]);
        let own = ["--kubeconfig", "kubeconfig", "--context", "sim-admin"];
        command
            .args(arguments)
            .args(own)
            .args(["--write", "-o", "json"])
            .env("STOKEHOLD_JOURNAL_DIR", self.folder())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// The console on it, which may write.
    pub(super) fn console(&self) -> Link {
        let config = self.home.path("kubeconfig").display().to_string();
        let journal = self.folder().display().to_string();
        Link::start_with(
            &["--kubeconfig", &config, "--context", "sim-admin", "--write"],
            &[("STOKEHOLD_JOURNAL_DIR", &journal)],
        )
    }

    /// The next call at this point gets no answer.
    pub(super) fn hangs_at(&self, point: Point) {
        let (mut left, carried_out) = match point {
            Point::Sent(call) => (call, false),
            Point::CarriedOut(call) => (call, true),
        };
        let mut has_stopped = false;
        self.proxy.rule(move |method, path| {
            if has_stopped || !changes_a_node(method, path) {
                return Fate::Pass;
            }
            if left > 0 {
                left -= 1;
                return Fate::Pass;
            }
            has_stopped = true;
            Fate::Hangs { carried_out }
        });
    }

    /// Waits until a call hangs; false where none ever did.
    pub(super) fn hung(&self) -> bool {
        let mut hung = self.proxy.hung.subscribe();
        let reached = async { timeout(PATIENCE, hung.wait_for(|hung| *hung)).await.is_ok() };
        self.runtime.block_on(reached)
    }

    /// Runs `plan` until it is at this point, and kills it there with SIGKILL.
    pub(super) fn killed_at(&self, point: Point, arguments: &[&str]) {
        self.hangs_at(point);
        let mut child = self.plan(arguments).spawn().expect("can be run");
        let reached = self.hung();
        child.kill().expect("SIGKILL");
        let output = child.wait_with_output().expect("has ended");
        assert!(reached, "{point:?} never came: {}", text(&output.stderr));
        assert_eq!(output.status.code(), None, "a signal ended it");
    }

    /// Runs `plan` to its end: its code, and what it printed.
    pub(super) fn done(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let output = self.plan(arguments).output().expect("can be run");
        let output_text = text(&output.stdout) + &text(&output.stderr);
        (output.status.code(), output_text)
    }

    /// The latest run.
    pub(super) fn latest(&self) -> Option<Run> {
        runs(&Journal::new(self.folder()).read().expect("a journal")).pop()
    }

    /// True for a node that is cordoned.
    pub(super) fn is_closed(&self, node: &str) -> bool {
        let node = self.service.cluster().get(Resource::Nodes, "", node);
        node.expect("is there")["spec"]["unschedulable"] == true
    }

    /// An object of no namespace as it stands.
    pub(super) fn object(&self, resource: Resource, name: &str) -> Value {
        let found = self.service.cluster().get(resource, "", name);
        (*found.expect("is there")).clone()
    }

    /// Entries of the server's audit so far.
    pub(super) fn noted(&self) -> usize {
        self.service.cluster().audit().entries().count()
    }

    /// Writes below this path that changed something since so many entries, by the name that follows.
    pub(super) fn writes(&self, path: &str, since: usize) -> BTreeMap<String, usize> {
        let audit = self.service.cluster().audit();
        let mut all = BTreeMap::new();
        for entry in audit.entries().skip(since) {
            if let Some(rest) = entry.path.strip_prefix(path)
                && entry.has_changed()
            {
                let name = rest.split('?').next().unwrap_or(rest);
                *all.entry(name.to_owned()).or_default() += 1;
            }
        }
        all
    }
}
