//! What one look asks of the cluster: what its answer is made of, and no more; and that the answer is right all the same.

use std::time::Duration;

use engine::{explanations, live};
use model::fleet::job::JobState;
use sim::faults::InjectedFaults;
use sim::world::{Options, World};
use stokehold::runtime::session::{self, ClusterTarget};
use table::{Facts, Format, Kind, Needs, Query, render, silent};

use super::stage::{begin, settings, setup};
use super::*;

/// A fleet that stands still.
fn still() -> Service {
    let world = World::new(Options {
        seed: 1,
        nodes: Some(60),
        ..Options::new(begin())
    });
    embed(Box::new(world), Arc::new(begin), 0.0, 1).expect("a cluster")
}

async fn look(service: &Service, needs: &Needs) -> Facts {
    let setup = setup(settings(&[]));
    let target = ClusterTarget::Running(service.clone());
    session::snapshot(&setup, target, needs, &mut |_| {})
        .await
        .expect("answers")
}

/// The look, and how many pages of exporters it asked for.
async fn counted(service: &Service, needs: &Needs) -> (Facts, u64) {
    let pages = || service.cluster().audit().request_count("GET pods/proxy");
    let before = pages();
    let facts = look(service, needs).await;
    (facts, pages() - before)
}

fn query(kind: Kind, name: Option<&str>) -> Query {
    Query {
        names: name.map(str::to_owned).into_iter().collect(),
        ..Query::all(kind)
    }
}

/// Money without its fractions of a cent: which slice of a device a job holds, and with it how its price is rounded, only an
/// exporter knows.
fn in_cents(text: &str) -> String {
    let line = |line: &str| match line.split_once("usd_per_hour\": ") {
        Some((head, usd)) => match usd.trim_end_matches(',').parse::<f64>() {
            Ok(usd) => format!("{head}{usd:.2}\n"),
            Err(_) => format!("{line}\n"),
        },
        None => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

#[tokio::test(start_paused = true)]
async fn what_needs_no_reading_asks_no_exporter_and_prints_the_same() {
    let service = still();
    let (whole, all) = counted(&service, &Needs::everything()).await;
    assert!(all >= 40, "{all} pages");
    let node = whole.fleet.nodes.iter().find(|node| node.devices.len() > 1);
    let node = node.expect("a node with devices").name().clone();
    let sliced = whole
        .fleet
        .devices()
        .find(|(_, device)| !device.slices.is_empty());
    let sliced = sliced.expect("a node with slices").0.name().clone();
    let job = whole
        .fleet
        .jobs
        .iter()
        .find(|job| job.devices_allocated > 0);
    let job = job.expect("a job that runs");
    let full = format!("{}/{}", job.namespace(), job.name());
    // What a slice costs hangs on how its device is cut, which exporters know.
    let nodes = whole.fleet.nodes.iter();
    let cut = nodes.filter(|node| node.devices.iter().any(|it| !it.slices.is_empty()));
    let cut = cut.count() as u64;
    let cases = [
        (Kind::Queues, None, Format::Json, cut),
        (Kind::Queues, None, Format::Table, cut),
        (Kind::Jobs, None, Format::Table, cut),
        (Kind::Nodes, None, Format::Table, 0),
        (Kind::Nodes, Some(&*node), Format::Json, 1),
        (Kind::Nodes, Some(&*sliced), Format::Wide, 1),
        (Kind::Devices, Some(&*sliced), Format::Json, 1),
        (
            Kind::Jobs,
            Some(&*full),
            Format::Json,
            job.pods.len() as u64,
        ),
        (Kind::Nodes, None, Format::Json, all),
    ];
    for (kind, name, format, most) in cases {
        let query = query(kind, name);
        let (facts, pages) = counted(&service, &Needs::of(&query, format)).await;
        let what = format!("{} {name:?} {format:?}", kind.name());
        assert!(pages <= most, "{what}: {pages} pages");
        let printed = |facts| in_cents(&render(facts, &query, format).expect(&what));
        assert_eq!(printed(&facts), printed(&whole), "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn nodes_alone_are_not_a_list_of_every_kind() {
    let service = still();
    let needs = Needs::of(&query(Kind::Nodes, None), Format::Table);
    look(&service, &needs).await;
    let audit = service.cluster().audit();
    assert_eq!(
        audit.request_count("WATCH workloads") + audit.request_count("GET workloads"),
        0
    );
    assert!(audit.request_count("WATCH nodes") + audit.request_count("GET nodes") > 0);
}

#[tokio::test(start_paused = true)]
async fn what_the_engine_decides_by_needs_no_exporter() {
    let service = still();
    let (whole, _) = counted(&service, &Needs::everything()).await;
    let (facts, pages) = counted(&service, &Needs::decision()).await;
    assert_eq!(pages, 0);
    let (quick, slow) = (
        live::snapshot(&facts.fleet, &facts.spend_rates),
        live::snapshot(&whole.fleet, &whole.spend_rates),
    );
    let waiting = whole.fleet.jobs.iter();
    let waiting = waiting.filter(|job| job.state == JobState::Waiting).take(4);
    for job in waiting {
        let name = format!("{}/{}", job.namespace(), job.name());
        let explained =
            |snapshot| explanations::explain(snapshot, &name).map(|it| format!("{it:?}"));
        assert_eq!(explained(&quick), explained(&slow), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hung_exporter_holds_no_look_up_and_is_named() {
    let service = still();
    let whole = look(&service, &Needs::everything()).await;
    let row = whole
        .fleet
        .sources
        .iter()
        .find(|row| row.kind.as_str() == "dcgm");
    let row = row.expect("an exporter").name.clone();
    let pod = row.rsplit('/').next().expect("a pod").to_owned();
    service.cluster().set_faults(InjectedFaults {
        hung: vec![pod.clone()],
        ..InjectedFaults::default()
    });
    let begun = tokio::time::Instant::now();
    let facts = look(
        &service,
        &Needs::of(&query(Kind::Devices, None), Format::Table),
    )
    .await;
    assert!(
        begun.elapsed() < Duration::from_secs(9),
        "its timeout is 10 s: {:?}",
        begun.elapsed()
    );
    let message = silent(&facts, Kind::Devices).expect("it is silent");
    assert!(message.contains(&pod), "{message}");
    let read = facts
        .fleet
        .sources
        .iter()
        .filter(|row| row.last_ok.is_some());
    assert!(read.count() > 40, "the others have answered");
}
