//! The exposition pages of the exporters' pods.

mod amd;
mod dcgm;
mod tpu;
mod vllm;

pub(super) use dcgm::pci;

use model::base::{Moment, ObjectKey};

use super::super::change::ServedPage;
use super::World;
use super::node::NodeId;
use super::noise::mix;
use super::pod::{PodId, SimPod};
use super::serving::{SERVER_IMAGE, SERVER_PORT};
use super::work::{Work, WorkKind};

const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A row of labels that a family's lines have in common.
struct LabelRow<T> {
    labels: String,
    /// Labels that stand last, with a comma before them: those of the pod.
    tail: String,
    /// What the values are read of.
    of: T,
}

/// A page while it is written.
struct PageText<T> {
    text: String,
    rows: Vec<LabelRow<T>>,
}

impl<T> PageText<T> {
    fn of(rows: Vec<LabelRow<T>>) -> Self {
        Self {
            text: String::with_capacity(rows.len() * 40 * 400 + 4096),
            rows,
        }
    }

    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let head = format!("# HELP {name} {help}\n# TYPE {name} {kind}\n");
        self.text.push_str(&head);
    }

    fn line(&mut self, name: &str, labels: &[&str], value: f64) {
        self.text.push_str(name);
        self.text.push('{');
        labels.iter().for_each(|part| self.text.push_str(part));
        self.text.push_str("} ");
        self.text.push_str(&number(value));
        self.text.push('\n');
    }

    /// A line for each row that has a value, below the family's type and help if these are given.
    fn family<L: AsRef<str>, V: Into<Option<f64>>>(
        &mut self,
        name: &str,
        head: Option<(&str, &str)>,
        labels: impl Fn(&LabelRow<T>) -> L,
        value: impl Fn(&LabelRow<T>) -> V,
    ) {
        let rows = std::mem::take(&mut self.rows);
        let mut head = head;
        for row in &rows {
            let Some(value) = value(row).into() else {
                continue;
            };
            if let Some((kind, help)) = head.take() {
                self.head(name, kind, help);
            }
            self.line(name, &[&row.labels, labels(row).as_ref(), &row.tail], value);
        }
        self.rows = rows;
    }
}

/// Families of a page, one a line: name, type, help, labels besides those of the row, value.
/// A name alone continues the family above with other labels.
macro_rules! families {
    ($page:ident: $($name:literal $($kind:ident $help:literal)? $({$labels:expr})? = $value:expr;)+) => {
        $($page.family(
            $name,
            families!(@head $($kind $help)?),
            families!(@labels $($labels)?),
            $value,
        );)+
    };
    (@head) => { None };
    (@head $kind:ident $help:literal) => { Some((stringify!($kind), $help)) };
    (@labels) => { |_| "" };
    (@labels $labels:expr) => { $labels };
}
use families;

/// The labels of a device's pod, with a comma before them.
fn pod_labels((pod, container): &(&SimPod, String)) -> String {
    format!(
        ",container=\"{}\",namespace=\"{}\",pod=\"{}\"",
        escape(container),
        escape(&pod.key.namespace),
        escape(&pod.key.name)
    )
}

/// A label value, escaped for the text format.
fn escape(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

/// A number as Go prints it: shortest, without an exponent where none is needed.
fn number(value: f64) -> String {
    if value.is_nan() {
        "NaN".to_owned()
    } else if value == value.trunc() && value.abs() < 1e15 {
        format!("{value:.0}")
    } else {
        format!("{value}")
    }
}

impl World {
    /// The page at a path of a pod's port at a time; `None` when nothing listens or the node is dead.
    ///
    /// Past readings are computed from the present state: a device reads as its current pod made it read then, and as idle
    /// before that pod began. Earlier allocations are not kept.
    pub(super) fn exposition(
        &self,
        key: &ObjectKey,
        port: u16,
        path: &str,
        at: Moment,
    ) -> Option<ServedPage> {
        let id = self.pod_id(key)?;
        let pod = self.pods.get(&id)?;
        let work = self.works.get(&pod.work)?;
        let node = pod.node?;
        if !pod.is_ready() || !self.nodes[node].ready {
            return None;
        }
        let path = path.split('?').next().unwrap_or_default();
        let path = path.trim_start_matches('/');
        let served = |body| {
            let content_type = TEXT;
            Some(ServedPage { content_type, body })
        };
        if let Some(server) = self.server(work, pod, at) {
            let is_page = port == SERVER_PORT && path == "metrics";
            return served(vllm::page(&server)).filter(|_| is_page);
        }
        let (listens, _) = super::render::port_of(work)?;
        if work.kind != WorkKind::DaemonSet
            || port != listens
            || pod.started.is_none_or(|started| started > at)
        {
            return None;
        }
        served(match (path, listens) {
            ("health", 9400) => "OK".to_owned(),
            ("metrics", 9400) => self.dcgm_page(node, self.collected(node, 30_000, at)),
            ("metrics", 2112) => self.tpu_page(node, self.collected(node, 15_000, at)),
            ("metrics", _) => self.amd_page(node, self.collected(node, 60_000, at)),
            _ => return None,
        })
    }

    /// When the exporter on a node last collected: it keeps its values for `interval` milliseconds.
    fn collected(&self, node: NodeId, interval: i64, at: Moment) -> Moment {
        let phase = (mix(self.nodes[node].uid, 77) % interval as u64) as i64;
        let now = at.millis();
        Moment::from_millis((now - phase).div_euclid(interval) * interval + phase)
    }

    /// Every exporter pod that answers.
    pub(super) fn exporter_pods(&self) -> Vec<(ObjectKey, u16, &'static str)> {
        let page = |pod: &SimPod, port| (pod.key.clone(), port, "/metrics");
        let mut all = Vec::new();
        let works = || self.works.values();
        for work in works().filter(|work| work.image == SERVER_IMAGE) {
            let pods = self.answering(work);
            let servers = pods.filter(|pod| self.server(work, pod, self.now).is_some());
            all.extend(servers.map(|pod| page(pod, SERVER_PORT)));
        }
        for work in works().filter(|work| work.kind == WorkKind::DaemonSet) {
            if let Some((port, _)) = super::render::port_of(work) {
                all.extend(self.answering(work).map(|pod| page(pod, port)));
            }
        }
        all
    }

    /// The pods of a work that are ready, on nodes that are.
    fn answering(&self, work: &Work) -> impl Iterator<Item = &SimPod> {
        let pods = work.pods.iter().filter_map(|id| self.pods.get(id));
        pods.filter(|pod| pod.is_ready() && pod.node.is_some_and(|node| self.nodes[node].ready))
    }

    /// The pod and container that a unit is allocated to, as an exporter reports them.
    fn holder(&self, node: NodeId, unit: usize) -> Option<(&SimPod, String)> {
        let id: PodId = self.nodes[node].unit_pods[unit]?;
        let pod = self.pods.get(&id)?;
        let work: &Work = self.works.get(&pod.work)?;
        Some((pod, self.container_name(pod, work)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_labels_are_written_as_the_format_asks() {
        assert_eq!(number(12.0), "12");
        assert_eq!(number(0.25), "0.25");
        assert_eq!(number(98_304_000_000.0), "98304000000");
        assert_eq!(escape("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
    }
}
