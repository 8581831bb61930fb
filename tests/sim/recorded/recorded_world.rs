//! A world that stands still: the recorded objects of the real cluster, and just enough life to answer writes.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::base::{Moment, ObjectKey};
use serde_json::Value;
use sim::change::{Request, Resource, ServedPage, SimBackend, WorldChange};
use sim::cluster::SimCluster;
use sim::specs::SPECS;
use sim::users::Users;

use super::normal::{Filling, TIME};
use super::recording::Recording;

/// The tokens of the simulated users, in the order of `User::ALL`.
pub const TOKENS: [&str; 4] = [
    "token-of-admin",
    "token-of-viewer",
    "token-of-team",
    "token-of-nobody",
];

struct Recorded {
    start: Vec<WorldChange>,
    pods: BTreeMap<ObjectKey, Value>,
    exporters: Vec<ObjectKey>,
    log: Vec<String>,
    page: String,
    health: String,
    now: Moment,
}

/// The clock: a minute after everything began, so that ages are not zero.
fn now() -> Moment {
    Moment::parse(TIME)
        .expect("a moment")
        .plus(std::time::Duration::from_secs(60))
}

/// A simulated cluster that holds what the real one held.
pub fn cluster() -> Arc<SimCluster> {
    let users = |_: &_| {
        Users::new(
            TOKENS.map(str::to_owned),
            vec!["nlp".into(), "notebooks".into()],
        )
    };
    SimCluster::start(
        Box::new(Recorded::load()),
        users,
        Arc::new(now),
        0.0,
        1,
        10_000,
    )
}

/// The body of a recording, which is a text.
fn recorded_text(group: &str, name: &str) -> String {
    let recordings = Recording::group(group);
    let found = recordings
        .into_iter()
        .find(|r| r.name == name)
        .expect("the recording is there");
    let text = found.answer.body.as_str().expect("a text").to_owned();
    Filling::new().text(&text)
}

impl Recorded {
    fn load() -> Self {
        let mut filling = Filling::new();
        let mut start = Vec::new();
        let custom = Recording::group("custom")
            .into_iter()
            .filter(|r| r.name == "list");
        for recording in Recording::group("scene").into_iter().chain(custom) {
            let list = filling.object(recording.answer.body);
            let kind = list["kind"]
                .as_str()
                .and_then(|kind| kind.strip_suffix("List"))
                .expect("a list");
            let version = list["apiVersion"].as_str().expect("a version");
            let of =
                |spec: &&sim::resource::Spec| spec.kind == kind && spec.api_version() == version;
            let spec = SPECS.iter().find(of).expect("a kind that is served");
            for item in list["items"].as_array().expect("items") {
                let mut object = item.clone();
                object["kind"] = kind.into();
                object["apiVersion"] = version.into();
                // The store numbers what it holds.
                object["metadata"]
                    .as_object_mut()
                    .expect("metadata")
                    .remove("resourceVersion");
                start.push(WorldChange::Put(spec.resource, object));
            }
        }
        // What stands in a namespace comes after the namespace.
        start.sort_by_key(|change| !matches!(change, WorldChange::Put(Resource::Namespaces, _)));
        Self {
            pods: start.iter().filter_map(pod_of).collect(),
            exporters: start.iter().filter_map(exporter).collect(),
            start,
            log: recorded_text("proxy", "log")
                .lines()
                .map(str::to_owned)
                .collect(),
            page: recorded_text("proxy", "exporter"),
            health: recorded_text("proxy", "exporter-viewer"),
            now: now(),
        }
    }
}

fn pod_of(change: &WorldChange) -> Option<(ObjectKey, Value)> {
    match change {
        WorldChange::Put(Resource::Pods, pod) => Some((key_of(pod)?, pod.clone())),
        _ => None,
    }
}

/// The key of an exporter's pod.
fn exporter(change: &WorldChange) -> Option<ObjectKey> {
    let (key, _) = pod_of(change)?;
    key.name.starts_with("nvidia-dcgm-exporter-").then_some(key)
}

fn key_of(object: &Value) -> Option<ObjectKey> {
    let text = |key: &str| object["metadata"][key].as_str();
    Some(ObjectKey::new(
        text("namespace").unwrap_or_default(),
        text("name")?,
    ))
}

impl SimBackend for Recorded {
    fn start(&mut self) -> Vec<WorldChange> {
        std::mem::take(&mut self.start)
    }

    fn now(&self) -> Moment {
        self.now
    }

    fn advance(&mut self, to: Moment) -> Vec<WorldChange> {
        self.now = to;
        Vec::new()
    }

    /// Does as it is told: here no kubelet and no controller acts, so a pod with grace left stays.
    fn request(&mut self, request: Request) -> Vec<WorldChange> {
        match request {
            Request::Write(resource, object) => {
                if let (Resource::Pods, Some(key)) = (resource, key_of(&object)) {
                    self.pods.insert(key, object.clone());
                }
                vec![WorldChange::Put(resource, object)]
            }
            Request::Delete(Resource::Pods, key, Some(grace)) if grace > 0 => {
                let mut pod = self
                    .pods
                    .get(&key)
                    .expect("the store asks for what there is")
                    .clone();
                let metadata = &mut pod["metadata"];
                let end = self.now.plus(std::time::Duration::from_secs(grace));
                metadata["deletionTimestamp"] = end.rfc3339().into();
                metadata["deletionGracePeriodSeconds"] = grace.into();
                metadata["generation"] = (metadata["generation"].as_i64().unwrap_or(0) + 1).into();
                vec![WorldChange::Put(Resource::Pods, pod)]
            }
            Request::Delete(resource, key, _) => vec![WorldChange::Remove(resource, key)],
        }
    }

    fn page(&self, pod: &ObjectKey, port: u16, path: &str) -> Option<ServedPage> {
        if !self.exporters.contains(pod) || port != 9400 {
            return None;
        }
        match path {
            "/metrics" => Some(ServedPage {
                content_type: "text/plain; version=0.0.4; charset=utf-8",
                body: self.page.clone(),
            }),
            "/health" => Some(ServedPage {
                content_type: "text/plain; charset=utf-8",
                body: self.health.clone(),
            }),
            _ => None,
        }
    }

    fn log(
        &self,
        _: &ObjectKey,
        container: Option<&str>,
        previous: bool,
    ) -> Option<Vec<(Moment, String)>> {
        let known = container.is_none_or(|name| name == "main") && !previous;
        known.then(|| {
            self.log
                .iter()
                .map(|line| (self.now, line.clone()))
                .collect()
        })
    }

    fn exporters(&self) -> Vec<(ObjectKey, u16, &'static str)> {
        let page = |pod: &ObjectKey| (pod.clone(), 9400, "/metrics");
        self.exporters.iter().map(page).collect()
    }
}

/// A small pod, as a client would write it.
pub fn pod(name: &str) -> Value {
    serde_json::json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "recorded"},
        "spec": {"containers": [{"name": "main", "image": "registry.example/train:3"}]},
    })
}
