//! The exposition pages of the exporters' pods.

mod amd;
mod dcgm;
mod tpu;
mod vllm;

pub(super) use dcgm::pci;

use model::base::{Moment, ObjectKey};

use super::super::change::Served;
use super::World;
use super::node::NodeId;
use super::noise::mix;
use super::pod::{Pod, PodId};
use super::serving::{SERVER_IMAGE, SERVER_PORT};
use super::work::{Kind, Work};

const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A metric family: name, help, type.
type Family = (&'static str, &'static str, &'static str);

fn head(out: &mut String, family: Family) {
    out.push_str("# HELP ");
    out.push_str(family.0);
    out.push(' ');
    out.push_str(family.1);
    out.push_str("\n# TYPE ");
    out.push_str(family.0);
    out.push(' ');
    out.push_str(family.2);
    out.push('\n');
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
    ) -> Option<Served> {
        let id = self.pod_id(key)?;
        let pod = self.pods.get(&id)?;
        let work = self.works.get(&pod.work)?;
        let node = pod.node?;
        if let Some(server) = self.server(work, pod, at) {
            let page = path.split('?').next().unwrap_or_default();
            let is_page = port == SERVER_PORT && page.trim_start_matches('/') == "metrics";
            let listens = is_page && pod.is_ready() && self.nodes[node].ready;
            return listens.then(|| Served {
                content_type: TEXT,
                body: vllm::page(&server),
            });
        }
        let (listens, _) = super::render::port_of(work)?;
        if work.kind != Kind::DaemonSet
            || port != listens
            || !pod.is_ready()
            || !self.nodes[node].ready
            || pod.started.is_none_or(|started| started > at)
        {
            return None;
        }
        let path = path
            .split('?')
            .next()
            .unwrap_or_default()
            .trim_start_matches('/');
        if path == "health" && listens == 9400 {
            return Some(Served {
                content_type: TEXT,
                body: "OK".to_owned(),
            });
        }
        if path != "metrics" {
            return None;
        }
        let body = match listens {
            9400 => self.dcgm_page(node, self.collected(node, 30_000, at)),
            2112 => self.tpu_page(node, self.collected(node, 15_000, at)),
            _ => self.amd_page(node, self.collected(node, 60_000, at)),
        };
        Some(Served {
            content_type: TEXT,
            body,
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
        let mut all = Vec::new();
        let answers =
            |pod: &Pod| pod.is_ready() && pod.node.is_some_and(|node| self.nodes[node].ready);
        for work in self
            .works
            .values()
            .filter(|work| work.image == SERVER_IMAGE)
        {
            let pods = work.pods.iter().filter_map(|id| self.pods.get(id));
            let servers =
                pods.filter(|pod| answers(pod) && self.server(work, pod, self.now).is_some());
            all.extend(servers.map(|pod| (pod.key.clone(), SERVER_PORT, "/metrics")));
        }
        for work in self
            .works
            .values()
            .filter(|work| work.kind == Kind::DaemonSet)
        {
            if let Some((port, _)) = super::render::port_of(work) {
                let pods = work.pods.iter().filter_map(|id| self.pods.get(id));
                all.extend(
                    pods.filter(|pod| answers(pod))
                        .map(|pod| (pod.key.clone(), port, "/metrics")),
                );
            }
        }
        all
    }

    /// The pod and container that a unit is allocated to, as an exporter reports them.
    fn holder(&self, node: NodeId, unit: usize) -> Option<(&Pod, String)> {
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
