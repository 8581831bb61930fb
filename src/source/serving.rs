//! The pods that serve readings, told to the scraper by the task that watches pods.

use std::sync::Arc;

use tokio::sync::mpsc;

use cluster::pod::PodObject;
use exporter::Dialects;
use model::base::{Moment, Name, ObjectKey};
use model::fleet::observe::PodSeen;

/// A pod that serves readings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServingPod {
    /// Namespace and name.
    pub key: ObjectKey,
    /// Unique id.
    pub uid: Name,
    /// The dialect that it speaks.
    pub dialect: Name,
    /// Its node.
    pub node: Option<Name>,
    /// Its address.
    pub ip: Option<Name>,
    /// The port to ask.
    pub port: u16,
    /// The pod's `Ready` condition; false while its node is not ready.
    pub ready: bool,
    /// When its containers first ran.
    pub started: Option<Moment>,
}

/// News of pods that serve readings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ServingNews {
    /// A list begins.
    Begin,
    /// The list is complete: pods that it did not mention have gone.
    End,
    /// A pod serves readings, as it is now.
    Seen(ServingPod),
    /// A pod has gone, or serves no longer.
    Gone(ObjectKey),
}

/// Where the news goes. Few pods serve readings, so the channel needs no bound.
#[derive(Clone)]
pub struct Serving {
    dialects: Arc<Dialects>,
    news: Arc<[mpsc::UnboundedSender<ServingNews>]>,
    /// Lists begin and end elsewhere: this one sees only a part of the pods.
    part: bool,
}

impl Serving {
    /// Tells each of `news` of pods that the discovery rules of `dialects` match.
    pub fn new(dialects: Arc<Dialects>, news: Vec<mpsc::UnboundedSender<ServingNews>>) -> Self {
        Self {
            dialects,
            news: news.into(),
            part: false,
        }
    }

    /// True when a dialect's rules match the pod.
    pub fn wants(&self, pod: &PodObject) -> bool {
        self.dialect(pod).is_some()
    }

    fn dialect(&self, pod: &PodObject) -> Option<&exporter::Dialect> {
        self.dialects.iter().find(|dialect| {
            let discovery = &dialect.discovery;
            let here = discovery.namespaces.is_empty()
                || discovery
                    .namespaces
                    .iter()
                    .any(|name| **name == *pod.meta.namespace);
            here && (discovery.matches(|key| pod.meta.labels.get(key).map(|value| &**value))
                || pod.images().any(|image| discovery.runs(image)))
        })
    }

    /// The same for a part of the pods, whose lists are not lists of all.
    pub(super) fn part(&self) -> Self {
        Self {
            part: true,
            ..self.clone()
        }
    }

    pub(super) fn begin(&self) {
        if !self.part {
            self.tell(ServingNews::Begin);
        }
    }

    pub(super) fn end(&self) {
        if !self.part {
            self.tell(ServingNews::End);
        }
    }

    pub(super) fn gone(&self, key: &ObjectKey) {
        self.tell(ServingNews::Gone(key.clone()));
    }

    /// Tells of a pod, or that it serves no longer.
    pub(super) fn seen(&self, serves: bool, seen: &PodSeen, pod: &PodObject) {
        if !serves {
            return;
        }
        // A pod that has not started, or has ended, has nothing to say: it would only be seen to fail.
        let runs = seen.started.is_some() && !seen.phase.is_over() && seen.node.is_some();
        let news = match self.dialect(pod) {
            Some(dialect) if runs => {
                let declared = pod.ports();
                let Some(port) = port(&dialect.discovery, &declared) else {
                    return;
                };
                ServingNews::Seen(ServingPod {
                    key: seen.key.clone(),
                    uid: seen.uid.clone(),
                    dialect: dialect.name.clone(),
                    node: seen.node.clone(),
                    ip: seen.ip.clone(),
                    port,
                    ready: seen.ready,
                    started: seen.started,
                })
            }
            _ => ServingNews::Gone(seen.key.clone()),
        };
        self.tell(news);
    }

    fn tell(&self, news: ServingNews) {
        for listener in self.news.iter() {
            // Whoever has ended wants no news.
            let _ = listener.send(news.clone());
        }
    }
}

/// The port to ask: one that the pod declares, by number or by name, else the dialect's first.
fn port(discovery: &exporter::dialect::Discovery, declared: &[(Box<str>, u16)]) -> Option<u16> {
    let by_name = discovery
        .port_names
        .iter()
        .find_map(|name| declared.iter().find(|(known, _)| **known == **name));
    let by_number = || {
        discovery
            .ports
            .iter()
            .find(|port| declared.iter().any(|(_, known)| known == *port))
    };
    by_name
        .map(|(_, port)| *port)
        .or_else(|| by_number().copied())
        .or_else(|| discovery.ports.first().copied())
}
