//! The pods with exporter pages, sent to the scraper by the task that watches pods.

use std::sync::Arc;

use tokio::sync::mpsc;

use cluster::pod::PodObject;
use exporter::Dialects;
use model::base::{Moment, Name, ObjectKey};
use model::fleet::observe::PodSeen;

/// A pod that serves a metrics page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServingPod {
    pub key: ObjectKey,
    pub uid: Name,
    pub dialect: Name,
    pub node: Option<Name>,
    pub ip: Option<Name>,
    /// The port of the page.
    pub port: u16,
    /// The pod's `Ready` condition; false while its node is not ready.
    pub ready: bool,
    /// When its containers first started.
    pub started: Option<Moment>,
}

/// News of pods that serve metrics pages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ServingNews {
    Begin,
    /// The list is complete: pods that it did not contain are deleted.
    End,
    /// A pod serves a page, in its current state.
    Seen(ServingPod),
    /// A pod was deleted, or no longer serves a page.
    Gone(ObjectKey),
}

/// Receivers of the news. Few pods serve metrics, so the channel is unbounded.
#[derive(Clone)]
pub struct ServingSenders {
    dialects: Arc<Dialects>,
    news: Arc<[mpsc::UnboundedSender<ServingNews>]>,
    /// Lists begin and end elsewhere: this sender sees only part of the pods.
    part: bool,
}

impl ServingSenders {
    /// Sends each of `news` the pods that the discovery rules of `dialects` match.
    pub fn new(dialects: Arc<Dialects>, news: Vec<mpsc::UnboundedSender<ServingNews>>) -> Self {
        Self {
            dialects,
            news: news.into(),
            part: false,
        }
    }

    /// True when a dialect's rules match the pod.
    pub fn is_model_server(&self, pod: &PodObject) -> bool {
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

    /// The same for part of the pods, whose lists are incomplete.
    pub(super) fn part(&self) -> Self {
        Self {
            part: true,
            ..self.clone()
        }
    }

    pub(super) fn begin(&self) {
        if !self.part {
            self.publish(ServingNews::Begin);
        }
    }

    pub(super) fn end(&self) {
        if !self.part {
            self.publish(ServingNews::End);
        }
    }

    pub(super) fn gone(&self, key: &ObjectKey) {
        self.publish(ServingNews::Gone(key.clone()));
    }

    /// Reports a pod, or that it serves no page any more.
    pub(super) fn seen(&self, serves: bool, seen: &PodSeen, pod: &PodObject) {
        if !serves {
            return;
        }
        // A pod that has not started, or has ended, serves no page: its scrapes would only fail.
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
        self.publish(news);
    }

    fn publish(&self, news: ServingNews) {
        for listener in self.news.iter() {
            // A closed receiver is ignored.
            let _ = listener.send(news.clone());
        }
    }
}

/// The port to scrape: one that the pod declares, by number or by name, else the dialect's first.
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
