//! Objects of the API server: decoded as a watch decodes them, and as a whole fleet that is judged, printed and drawn.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use console::{App, AppOptions, Msg, render_text};
use exporter::{Dialects, PageSource};
use kube::api::WatchEvent;
use kube::core::ObjectList;
use ledger::Ledger;
use ledger::checks;
use model::base::name::is_hostile;
use model::base::{Moment, Name, Names};
use model::cost::{PriceBook, Prices};
use model::fleet::accelerator::Catalog;
use model::fleet::observe::{Observation, Table};
use model::fleet::policy::Policy;
use model::fleet::reading::Page;
use model::fleet::thresholds::Thresholds;
use source::watch_object::WatchObject;
use table::navigation::ViewId;
use table::{Facts, Format, Kind, Query};

use super::{Shape, Target, none, pick};

const WORDS: &[&str] = &[
    "null",
    "[]",
    "{}",
    "\"\"",
    "\"metadata\":",
    "\"name\":",
    "\"namespace\":",
    "\"labels\":",
    "\"annotations\":",
    "\"spec\":",
    "\"status\":",
    "\"nvidia.com/gpu\":",
    "\"google.com/tpu\":",
    "\"type\":\"DELETED\",",
    "\"nvidia.com/mig-1g.10gb\":",
    "\"creationTimestamp\":\"9999-12-31T23:59:59Z\"",
    "\"creationTimestamp\":\"-009999-01-01T00:00:00Z\"",
    "\"4000000000\"",
    "\"capacity\":",
    "\"allocatable\":",
    "\"conditions\":",
    "\"lastTransitionTime\":",
    "\"replicas\":",
    "\"parallelism\":",
    "\"completions\":",
    "\"ownerReferences\":",
    "\"deletionTimestamp\":",
    "\"devices\":",
    "\"pool\":",
    "\"nvidia.com/gpu.count\":",
    "\"nvidia.com/gpu.product\":",
    "\"NVIDIA-H100-80GB-HBM3\"",
    "\"stokehold.dev/cordoned-by\":",
];

pub(super) const WATCH: Target = Target {
    name: "watch",
    tried: 4000,
    body: watch,
    words: WORDS,
    most: 3_000,
    made: none,
};

/// Decodes an input as a frame of a watch, as a list, and as one object between two others, as one table would.
fn watch(data: &[u8]) -> u64 {
    let table = Table::ALL[pick(data, Table::ALL.len())];
    let mut names = Names::default();
    let mut shape = Shape::default().words(table.name());
    let list = serde_json::from_slice::<ObjectList<WatchObject>>(data);
    shape = shape.count(list.map_or(0, |list| list.items.len()));
    match serde_json::from_slice::<WatchEvent<WatchObject>>(data) {
        Ok(WatchEvent::Added(carried) | WatchEvent::Modified(carried)) => {
            // A number beyond all numbers is JSON, and costs its object.
            if let Ok(object) = cluster::read(table, carried.json()) {
                shape = sensible(object.project(table, &mut names), shape.words("event"));
            }
        }
        Ok(_) => shape = shape.words("other"),
        Err(error) => shape = shape.words(&error.to_string()),
    }
    // Whatever is JSON is an item, and does not cost its neighbors.
    if serde_json::from_slice::<serde_json::Value>(data).is_err() {
        return shape.end();
    }
    let mut body =
        br#"{"metadata":{"resourceVersion":"1"},"items":[{"metadata":{"name":"first"}},"#.to_vec();
    body.extend_from_slice(data);
    body.extend_from_slice(br#",{"metadata":{"name":"last"}}]}"#);
    let list: ObjectList<WatchObject> =
        serde_json::from_slice(&body).expect("every JSON value is read");
    assert_eq!(list.items.len(), 3);
    let read = |carried: &WatchObject| cluster::read(table, carried.json()).expect("is read");
    for (at, name) in [(0, "first"), (2, "last")] {
        let object = read(&list.items[at]);
        assert_eq!(&*object.meta().name, name);
        let _ = object.project(table, &mut names);
    }
    sensible(read(&list.items[1]).project(table, &mut names), shape).end()
}

/// What an object has been turned into can be counted with.
fn sensible(seen: Option<Observation>, shape: Shape) -> Shape {
    match seen {
        Some(Observation::Node(node)) => {
            assert!(!node.name.is_empty());
            let devices = node.capacity.device_count();
            let _ = node.allocatable.device_count();
            shape.words("node").count(devices as usize)
        }
        Some(Observation::Pod(pod)) => {
            assert!(
                !pod.key.name.is_empty()
                    && pod.requests.cpu_milli >= 0
                    && pod.requests.memory_bytes >= 0
            );
            if let Some(failure) = &pod.failure {
                assert!(!failure.message.contains('\n') && failure.message.chars().count() <= 260);
            }
            shape.words("pod").count(pod.requests.devices.len())
        }
        Some(Observation::Workload(seen)) => {
            assert!(
                !seen.key.name.is_empty() && seen.gang_min.is_none_or(|gang| gang <= seen.pods)
            );
            let _ = seen.total.device_count();
            shape.words("workload").count(seen.pods as usize)
        }
        Some(Observation::Namespace(name, _)) => {
            assert!(!name.is_empty());
            shape.words("namespace")
        }
        Some(_) => shape.words("another"),
        None => shape,
    }
}

pub(super) const FLEET: Target = Target {
    name: "fleet",
    tried: 150,
    body: fleet,
    words: WORDS,
    most: 6_000,
    made: none,
};

/// The moment of every picture.
const NOW: Moment = Moment::from_seconds(1_800_000_000);

/// Takes each line of an input for an object of the table that its first word names, or for pages of an exporter on a node; the
/// fleet that it makes is judged, priced, printed and drawn, and nothing hostile comes out.
fn fleet(data: &[u8]) -> u64 {
    static DIALECTS: LazyLock<Dialects> = LazyLock::new(Dialects::builtin);
    static PRICES: LazyLock<Prices> =
        LazyLock::new(|| Prices::new(PriceBook::embedded(), &Catalog::embedded()));
    let mut names = Names::default();
    let policy = Policy {
        catalog: Catalog::embedded(),
        ..Policy::default()
    };
    let mut ledger = Ledger::new(Arc::new(policy));
    for table in Table::ALL {
        ledger.apply(Observation::Begin(*table));
    }
    let text = String::from_utf8_lossy(data);
    let mut objects = 0;
    for line in text.lines() {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        if word == "page" {
            let page = rest.replace("\\n", "\n");
            let found = exporter::read(
                &DIALECTS,
                page.as_bytes(),
                &PageSource::default(),
                &mut names,
            );
            ledger.apply(Observation::Page(Box::new(Page {
                node: Some(Name::new("n1")),
                at: NOW,
                interval: Duration::from_secs(30),
                readings: found.readings,
            })));
            continue;
        }
        let table = Table::ALL.iter().find(|table| table.name() == word);
        if let (Some(table), Ok(value)) = (table, serde_json::from_str(rest))
            && let Some(seen) = cluster::seen(*table, &value, &mut names)
        {
            ledger.apply(seen);
            objects += 1;
        }
    }
    for table in Table::ALL {
        ledger.apply(Observation::End(*table));
    }
    let mut picture = ledger.publish(NOW);
    let mut state = checks::CheckStates::default();
    let findings = checks::run(&mut state, &picture, NOW, &Thresholds::default().at_once());
    picture.findings = findings.into();
    let burn = model::cost::spend_rates(&picture, &PRICES);
    let counts = [
        picture.nodes.len(),
        picture.jobs.len(),
        picture.findings.len(),
    ];
    let facts = Facts::new(Name::new("fuzz"), Arc::new(picture), Arc::new(burn));
    let at = pick(data, 1 << 16);
    let kind = Kind::ALL[at % Kind::ALL.len()];
    let mut shape = Shape::default().count(objects);
    for count in counts {
        shape = shape.count(count);
    }
    for finding in facts.fleet.findings.iter() {
        shape = shape.words(&finding.code);
    }
    for format in [Format::Wide, Format::Csv, Format::Name] {
        let text = table::render(&facts, &Query::all(kind), format).expect("all of a kind");
        let hostile = text.chars().find(|c| *c != '\n' && is_hostile(*c));
        assert_eq!(hostile, None, "{kind:?} {format:?}");
    }
    let json = table::render(&facts, &Query::all(kind), Format::Json).expect("all of a kind");
    serde_json::from_str::<serde_json::Value>(&json).expect("is JSON");
    let view = ViewId::ALL[at % ViewId::ALL.len()];
    let mut app = App::new(AppOptions {
        view,
        ..AppOptions::default()
    });
    app.picture([Msg::Resize(100, 30), Msg::Tick(NOW), Msg::Facts(facts)]);
    let drawn = render_text(&app, 100, 30);
    let hostile = drawn.chars().find(|c| *c != '\n' && is_hostile(*c));
    assert_eq!(hostile, None, "{view:?}");
    shape.end()
}
