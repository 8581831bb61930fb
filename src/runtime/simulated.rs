//! A simulated cluster in this process, and its last hour before a demo was opened: exporter pages of that hour are parsed like
//! any page, so that a console has graphs and profiles at once.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use exporter::{Dialects, PageSource};
use model::base::{Exit, Failure, Name, Names, ObjectKey};
use model::fleet::observe::{Observation, PastPages};
use model::fleet::reading::{Page, ReadingScope};
use sim::change::Resource;
use sim::cluster::SimCluster;
use source::api_stats::Clock;
use source::client::{Connection, client_for};
use source::kubernetes::Namespaces;
use tokio::sync::mpsc;

use super::actions::action_service::ActionService;
use super::identity::random_identity;
use super::setup::Setup;
use super::usage::demo::DemoLedger;

/// Length of the past, in steps of [`STEP`].
const STEPS: u32 = 30;

/// Time between two pages of an exporter.
const STEP: Duration = Duration::from_secs(120);

/// Pause between two steps, so that the screen gets processor time.
const REST: Duration = Duration::from_millis(20);

/// Reads the past of a simulated cluster's exporters in these namespaces on a thread of its own and sends it, newest first.
pub(super) fn begin_past(
    cluster: Arc<SimCluster>,
    namespaces: Namespaces,
    dialects: Arc<Dialects>,
    out: mpsc::Sender<Vec<Observation>>,
) {
    tokio::task::spawn_blocking(move || {
        let now = cluster.now();
        let mut names = Names::default();
        let exporters = cluster.core().world.exporters();
        let exporters: Vec<_> = exporters
            .into_iter()
            .filter(|(pod, ..)| namespaces.contains(&pod.namespace))
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
                let page = cluster.core().world.page_at(pod, *port, path, at);
                let Some(page) = page else { continue };
                let source = PageSource {
                    pod: Some(pod.clone()),
                    node: node.clone(),
                    dialect: None,
                };
                let read = exporter::read(&dialects, page.body.as_bytes(), &source, &mut names);
                let mut readings = read.readings;
                readings.retain(|reading| reading.scope == ReadingScope::Device);
                pages.push(Page {
                    node: node.clone(),
                    at,
                    interval: STEP,
                    readings,
                });
            }
            let past = PastPages {
                pages,
                step: STEP,
                last: step == STEPS,
            };
            let sent = out.blocking_send(vec![Observation::Past(Box::new(past))]);
            if sent.is_err() {
                return;
            }
            std::thread::sleep(REST);
        }
    });
}

/// The node that an exporter's pod runs on.
fn node_of(cluster: &SimCluster, pod: &ObjectKey) -> Option<Name> {
    let object = cluster.get(Resource::Pods, &pod.namespace, &pod.name)?;
    let node = object.pointer("/spec/nodeName")?.as_str()?;
    Some(Name::new(node))
}

/// A client of a simulated cluster in this process, and its action service if requested.
pub(super) fn simulated(
    setup: &Setup,
    service: sim::Service,
    proxied: BTreeSet<String>,
    acts: bool,
) -> (Connection, Option<ActionService>) {
    let action_service = acts.then(|| {
        ActionService::on_simulated(&setup.host, &setup.settings, "demo", service.clone())
    });
    let clock = service.cluster().machine_clock();
    let connection = client_for(service, "demo", clock, proxied);
    (connection, action_service)
}

/// The simulated fleet to start in this process.
#[derive(Clone, Debug)]
pub struct Demo {
    pub world: sim::world::Options,
    /// Simulated seconds per real second; 0 pauses.
    pub speed: f64,
}

/// A running simulated fleet and its usage ledger.
#[derive(Clone)]
pub struct KeptFleet {
    pub service: sim::Service,
    pub(super) ledger: DemoLedger,
}

impl KeptFleet {
    /// A fleet with an empty ledger.
    pub(super) fn new(service: sim::Service) -> Self {
        let ledger = DemoLedger::default();
        Self { service, ledger }
    }
}

impl std::fmt::Debug for KeptFleet {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.service.fmt(out)
    }
}

/// The simulated fleets of a console: each continues when the console is opened again, for example with other namespaces.
#[derive(Default)]
pub struct KeptFleets {
    /// By whether it was requested in the console rather than on the command line.
    begun: Mutex<BTreeMap<bool, KeptFleet>>,
}

impl KeptFleets {
    /// The fleet that was started before, else a new one.
    ///
    /// # Errors
    /// The system provides no random numbers.
    pub fn of(&self, is_asked_for: bool, demo: &Demo, clock: Clock) -> Result<KeptFleet, Failure> {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(match begun.entry(is_asked_for) {
            Entry::Occupied(known) => known.get().clone(),
            Entry::Vacant(none) => none.insert(KeptFleet::new(embedded(demo, clock)?)).clone(),
        })
    }
}

/// The API of a new simulated cluster.
///
/// # Errors
/// The system provides no random numbers.
pub(super) fn embedded(demo: &Demo, clock: Clock) -> Result<sim::Service, Failure> {
    let seed = demo.world.seed;
    let world = sim::world::World::new(demo.world).identified(random_identity());
    sim::serve::embed(Box::new(world), clock, demo.speed, seed).map_err(|error| {
        let message = format!("cannot start the simulated fleet: {error:#}");
        Failure::new(Exit::Failed, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With other namespaces it is the same fleet: changes to it persist.
    #[tokio::test(start_paused = true)]
    async fn a_fleet_goes_on_while_it_is_looked_at_in_another_way() {
        let now = model::base::Moment::parse("2026-11-21T08:00:00Z").expect("a moment");
        let demo = Demo {
            world: sim::world::Options {
                nodes: Some(4),
                ..sim::world::Options::new(now)
            },
            speed: 0.0,
        };
        let fleets = KeptFleets::default();
        let of = |is_asked_for| {
            fleets
                .of(is_asked_for, &demo, Arc::new(move || now))
                .expect("begins")
        };
        let same = |a: &KeptFleet, b: &KeptFleet| {
            Arc::ptr_eq(a.service.cluster(), b.service.cluster())
                && Arc::ptr_eq(&a.ledger, &b.ledger)
        };
        let first = of(false);
        assert!(same(&first, &of(false)));
        assert!(!same(&first, &of(true)), "another, asked for elsewhere");
    }
}
