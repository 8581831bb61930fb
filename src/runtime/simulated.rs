//! A simulated cluster in this process, and the hour before a demo of it was opened: the exporters' pages as they were then, read as
//! any page is, so that a console has its graphs and profiles at once.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use exporter::{Dialects, PageSource};
use model::base::{Exit, Failure, Name, Names, ObjectKey};
use model::fleet::observe::{Observation, Past};
use model::fleet::reading::{Page, Scope};
use settings::Settings;
use sim::change::Resource;
use sim::cluster::Cluster;
use source::client::{Connection, client_for};
use tokio::sync::mpsc;

use super::action_service::ActionService;
use super::clock;
use super::session::{self, Demo};

/// How far it reaches back, in steps of [`STEP`].
const STEPS: u32 = 30;

/// One page of an exporter stands for so long.
const STEP: Duration = Duration::from_secs(120);

/// Between two steps the processor is left to what is on the screen.
const REST: Duration = Duration::from_millis(20);

/// Reads the past of a simulated cluster on a thread of its own and tells of it, the newest first.
pub(super) fn begin_past(
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

/// A client of a simulated cluster in this process, and what acts on it where it is asked for.
pub(super) fn simulated(
    settings: &Settings,
    service: sim::Service,
    proxied: BTreeSet<String>,
    acts: bool,
) -> (Connection, Option<ActionService>) {
    let action_service =
        acts.then(|| ActionService::on_simulated(settings, "demo", service.clone()));
    let clock = service.cluster().machine_clock();
    let connection = client_for(service, "demo", clock, proxied);
    (connection, action_service)
}

/// The API of a simulated cluster that begins now.
///
/// # Errors
/// When the system gives no random numbers.
pub(super) fn embedded(demo: Demo) -> Result<sim::Service, Failure> {
    let seed = demo.world.seed;
    let world = sim::world::World::new(demo.world).identified(session::identity());
    sim::serve::embed(Box::new(world), clock::shared(), demo.speed, seed).map_err(|error| {
        let message = format!("cannot start the simulated fleet: {error:#}");
        Failure::new(Exit::Failed, message)
    })
}
