//! The hour before a demo was opened: the simulated exporters' pages as they were then, read as any page is. A console on it has its
//! graphs and profiles at once.

use std::sync::Arc;
use std::time::Duration;

use exporter::{Dialects, PageSource};
use model::base::{Name, Names, ObjectKey};
use model::fleet::observe::{Observation, Past};
use model::fleet::reading::{Page, Scope};
use sim::change::Resource;
use sim::cluster::Cluster;
use tokio::sync::mpsc;

/// How far it reaches back, in steps of [`STEP`].
const STEPS: u32 = 30;

/// One page of an exporter stands for so long.
const STEP: Duration = Duration::from_secs(120);

/// Between two steps the processor is left to what is on the screen.
const REST: Duration = Duration::from_millis(20);

/// Reads the past of a simulated cluster on a thread of its own and tells of it, the newest first.
pub(super) fn begin(
    cluster: Arc<Cluster>,
    dialects: Arc<Dialects>,
    out: mpsc::Sender<Vec<Observation>>,
) {
    tokio::task::spawn_blocking(move || {
        let now = cluster.now();
        let mut names = Names::default();
        let exporters = cluster.core().scene.exporters();
        let exporters: Vec<_> = exporters
            .into_iter()
            .map(|(pod, port, path)| {
                let node = node_of(&cluster, &pod);
                (pod, port, path, node)
            })
            .collect();
        for step in 1..=STEPS {
            let at = now.minus(STEP * step);
            let mut pages = Vec::new();
            for (pod, port, path, node) in &exporters {
                // The lock is taken for one page at a time.
                let page = cluster.core().scene.page_at(pod, *port, path, at);
                let Some(page) = page else { continue };
                let source = PageSource {
                    pod: Some(pod.clone()),
                    node: node.clone(),
                    dialect: None,
                };
                let read = exporter::read(&dialects, page.body.as_bytes(), &source, &mut names);
                let mut readings = read.readings;
                readings.retain(|reading| reading.scope == Scope::Device);
                pages.push(Page {
                    node: node.clone(),
                    at,
                    interval: STEP,
                    readings,
                });
            }
            let past = Past {
                pages,
                step: STEP,
                last: step == STEPS,
            };
            let told = out.blocking_send(vec![Observation::Past(Box::new(past))]);
            if told.is_err() {
                return;
            }
            std::thread::sleep(REST);
        }
    });
}

/// The node that an exporter's pod runs on.
fn node_of(cluster: &Cluster, pod: &ObjectKey) -> Option<Name> {
    let object = cluster.get(Resource::Pods, &pod.namespace, &pod.name)?;
    let node = object.pointer("/spec/nodeName")?.as_str()?;
    Some(Name::new(node))
}
