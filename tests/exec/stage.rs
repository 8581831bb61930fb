//! What the tests of whole plans stand on: a simulated fleet whose time is tokio's own (which a test may stop, so that
//! minutes pass in an instant), looks at it as any console takes them, and plans carried out on it.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use engine::live;
use engine::snapshot::{Snapshot, Status, Workload};
use model::cost::SpendRates;
use model::fleet::Fleet;
use model::fleet::accelerator::Catalog;
use model::fleet::policy::Policy;
use model::plan::{Intent, JobName, Refusal};
use plan::{self, Author};
use settings::{Rulebook, Settings, Texts};
use sim::world::{Options, World};
use source::api_stats::Clock;
use stokehold::runtime::host::Host;
use stokehold::runtime::setup::Setup;

use super::pictures::Pictures;
use super::*;

/// When the simulated fleets of these tests begin.
pub fn begin() -> Moment {
    Moment::parse("2026-11-21T08:00:00Z").expect("a moment")
}

/// A clock that stands still while tokio's does.
pub fn ticking() -> Clock {
    let start = tokio::time::Instant::now();
    Arc::new(move || begin().plus(start.elapsed()))
}

/// A runtime whose time is paused: it passes only while work waits.
pub fn paused() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().start_paused(true).build();
    runtime.expect("a runtime")
}

/// A host without an environment or a home directory, whose clock stands still while tokio's does.
pub fn host() -> Host {
    Host::bare(ticking())
}

/// Settings with these flags (flag, key, value).
pub fn settings(flags: &[(&str, &str, &str)]) -> Settings {
    let flags = flags
        .iter()
        .map(|(flag, key, value)| ((*flag).to_owned(), (*key).to_owned(), (*value).to_owned()));
    let inputs = Inputs {
        flags: flags.collect(),
        ..Inputs::default()
    };
    load(&inputs).expect("is right")
}

/// Everything that a session needs.
pub fn setup(settings: Settings) -> Setup {
    let rulebook = Rulebook::new(&settings, &Texts::default()).expect("is right");
    Setup {
        settings,
        rulebook,
        interactive: false,
        every_namespace: false,
        host: host(),
    }
}

/// A simulated fleet, that of which nobody knows how long its jobs run: what starts when somebody else's time is up is not
/// compared, and its forecasts take many times as long.
pub fn world(seed: u64, nodes: u32, arrivals: bool) -> World {
    let world = World::new(Options {
        seed,
        nodes: Some(nodes),
        past: false,
        ..Options::new(begin())
    });
    match arrivals {
        true => world,
        false => world.without_arrivals(),
    }
}

/// A cluster of it on this clock, at its own speed.
pub fn cluster(world: World, clock: Clock) -> Service {
    embed(Box::new(world), clock, 1.0, 1).expect("a cluster")
}

/// The fleet as it stands, for the engine: every object of the cluster read at one moment.
pub fn snapshot(service: &Service) -> Snapshot {
    live::snapshot(&fleet(service), &SpendRates::default())
}

/// The fleet as it stands.
pub fn fleet(service: &Service) -> Fleet {
    let policy = Policy {
        catalog: Catalog::embedded(),
        ..Policy::default()
    };
    thread_local! {
        static PICTURES: RefCell<Pictures> = RefCell::default();
    }
    PICTURES.with_borrow_mut(|pictures| pictures.take(service.cluster(), Arc::new(policy)))
}

/// The plan of an intent.
pub fn planned(snapshot: &Snapshot, intent: &Intent) -> Result<Plan, Refusal> {
    let author = Author {
        by: "tester".into(),
        why: "a test".into(),
    };
    plan::plan(snapshot, intent, &author)
}

/// The name of a workload in plans.
pub fn name(work: &Workload) -> JobName {
    JobName(work.key.key.clone())
}

/// The pods of a workload that have nodes.
pub fn pods(work: &Workload) -> impl Iterator<Item = &engine::snapshot::Placement> {
    work.sets.iter().flat_map(|set| &set.placements)
}

/// A gang under Kueue that runs and fills its nodes: so nobody else comes there while a test looks.
pub fn whole_gang(fleet: &Snapshot) -> &Workload {
    let all = fleet.workloads.iter().filter(|work| runs_now(work));
    all.filter(|work| work.admission.is_some())
        .filter(|work| work.sets.iter().map(|set| set.min).sum::<u32>() > 1)
        .find(|work| work.sets.iter().all(|set| set.requests.device_count() >= 8))
        .expect("a gang of whole nodes runs")
}

/// True while some of its pods hold devices.
pub fn runs_now(work: &Workload) -> bool {
    work.status == Status::Running && pods(work).any(|pod| pod.deleted.is_none())
}

/// Lets so many seconds pass.
pub async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}
