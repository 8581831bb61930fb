//! A world that stands still: the recorded objects of the real cluster, and just enough life to answer writes.

use std::sync::Arc;

use serde_json::Value;
use stokehold::base::{Moment, ObjectKey};
use stokehold::sim::change::{Change, Request, Resource, Scene, Served};
use stokehold::sim::cluster::Cluster;
use stokehold::sim::resource::SPECS;
use stokehold::sim::users::Users;

use super::normal::{Filling, TIME};
use super::recording::Recording;

/// The tokens of the simulated users, in the order of `User::ALL`.
pub const TOKENS: [&str; 4] = ["token-of-admin", "token-of-viewer", "token-of-team", "token-of-nobody"];

struct Recorded {
    start: Vec<Change>,
    log: Vec<String>,
    page: String,
    now: Moment,
}

/// The clock: a minute after everything began, so that ages are not zero.
fn now() -> Moment {
    Moment::parse(TIME).expect("a moment").plus(std::time::Duration::from_secs(60))
}

/// A simulated cluster that holds what the real one held.
pub fn cluster() -> Arc<Cluster> {
    let users = |_: &_| Users::new(TOKENS.map(str::to_owned), vec!["nlp".into(), "notebooks".into()]);
    Cluster::start(Box::new(Recorded::load()), users, Arc::new(now), 0.0, 1, 10_000)
}

/// The body of a recording, which is a text.
fn recorded_text(group: &str, name: &str) -> String {
    let recordings = Recording::group(group);
    let found = recordings.into_iter().find(|r| r.name == name).expect("the recording is there");
    let text = found.answer.body.as_str().expect("a text").to_owned();
    Filling::new().text(&text)
}

impl Recorded {
    fn load() -> Self {
        let mut filling = Filling::new();
        let mut start = Vec::new();
        for recording in Recording::group("scene") {
            let list = filling.object(recording.answer.body);
            let kind = list["kind"].as_str().and_then(|kind| kind.strip_suffix("List")).expect("a list");
            let version = list["apiVersion"].as_str().expect("a version");
            let of = |spec: &&stokehold::sim::resource::Spec| spec.kind == kind && spec.api_version() == version;
            let spec = SPECS.iter().find(of).expect("a kind that is served");
            for item in list["items"].as_array().expect("items") {
                let mut object = item.clone();
                object["kind"] = kind.into();
                object["apiVersion"] = version.into();
                // The store numbers what it holds.
                object["metadata"].as_object_mut().expect("metadata").remove("resourceVersion");
                start.push(Change::Put(spec.resource, object));
            }
        }
        // What stands in a namespace comes after the namespace.
        start.sort_by_key(|change| !matches!(change, Change::Put(Resource::Namespaces, _)));
        Self {
            start,
            log: recorded_text("proxy", "log").lines().map(str::to_owned).collect(),
            page: recorded_text("proxy", "exporter"),
            now: now(),
        }
    }
}

fn is_exporter(pod: &ObjectKey) -> bool {
    pod.name.starts_with("nvidia-dcgm-exporter-")
}

impl Scene for Recorded {
    fn start(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.start)
    }

    fn now(&self) -> Moment {
        self.now
    }

    fn advance(&mut self, to: Moment) -> Vec<Change> {
        self.now = to;
        Vec::new()
    }

    /// Does as it is told at once: here no kubelet and no controller acts.
    fn request(&mut self, request: Request) -> Vec<Change> {
        match request {
            Request::Write(resource, object) => vec![Change::Put(resource, object)],
            Request::Delete(resource, key, _) => vec![Change::Remove(resource, key)],
        }
    }

    fn page(&self, pod: &ObjectKey, port: u16, path: &str) -> Option<Served> {
        if !is_exporter(pod) || port != 9400 {
            return None;
        }
        match path {
            "/metrics" => Some(Served {
                content_type: "text/plain; version=0.0.4; charset=utf-8",
                body: self.page.clone(),
            }),
            "/health" => Some(Served {
                content_type: "text/plain; charset=utf-8",
                body: "ok\n".into(),
            }),
            _ => None,
        }
    }

    fn log(&self, _: &ObjectKey, container: Option<&str>, previous: bool) -> Option<Vec<(Moment, String)>> {
        let known = container.is_none_or(|name| name == "main") && !previous;
        known.then(|| self.log.iter().map(|line| (self.now, line.clone())).collect())
    }

    fn exporters(&self) -> Vec<(ObjectKey, u16, &'static str)> {
        let exporter = |change: &Change| match change {
            Change::Put(Resource::Pods, pod) => {
                let text = |key: &str| pod["metadata"][key].as_str().unwrap_or_default().to_owned();
                let key = ObjectKey::new(text("namespace").as_str(), text("name").as_str());
                is_exporter(&key).then_some((key, 9400, "/metrics"))
            }
            _ => None,
        };
        self.start.iter().filter_map(exporter).collect()
    }
}

/// The recorded object of a kind, as a client would write it.
pub fn pod(name: &str) -> Value {
    serde_json::json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "recorded"},
        "spec": {"containers": [{"name": "main", "image": "registry.example/train:3"}]},
    })
}
