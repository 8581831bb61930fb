//! Services and their objectives, and since when a finding is known.

use std::time::Duration;

use model::base::Name;
use model::fleet::histogram::{Histogram, Latency};
use model::fleet::job::Serving;
use model::fleet::served_model::{Objectives, ServedModel};
use model::fleet::signal::Signal;

use crate::checks::{STEP, Watch};
use crate::parts::{Parts, start};

/// A model whose requests have their first token within so many seconds, of which 2 are promised.
pub fn serve(parts: &mut Parts, within: f64) {
    let open = f64::INFINITY;
    let buckets = vec![(within, 100.0), (2.0 * within, 100.0), (open, 100.0)];
    let mut ttft = Latency::default();
    ttft.add(Histogram::new(Signal::Ttft, buckets).unwrap().whole());
    let one = ServedModel {
        model: Some(Name::new("org/llama")),
        replicas: 1,
        ttft,
        objectives: Objectives {
            ttft: Some(2.0),
            tpot: None,
        },
        ..ServedModel::default()
    };
    parts.jobs[0].serving = Some(Serving {
        servers: 1,
        served: vec![one],
        ..Serving::default()
    });
}

#[test]
fn a_service_that_misses_its_objective_says_by_how_much() {
    let mut watch = Watch::new();
    for _ in 0..3 {
        assert_eq!(
            watch.one("objective-missed", |parts, _| serve(parts, 1.0)),
            None
        );
    }
    let missed = |parts: &mut Parts, _: u64| serve(parts, 4.0);
    assert_eq!(watch.one("objective-missed", missed), None, "for a minute");
    let found = watch.one("objective-missed", missed).expect("it misses");
    assert_eq!(
        found.message,
        "misses its objective: p95 TTFT 3.8s, objective 2.0s"
    );
    assert!(
        found.id.ends_with(":nlp/llm:JobSet org/llama"),
        "{}",
        found.id
    );
    // It was met before, as was read.
    assert!(found.first_seen && !found.at_least);
    assert_eq!(found.since, start().plus(Duration::from_secs(4 * STEP)));
    // Near the objective it neither begins nor ends; without a page it is not known.
    let near = |parts: &mut Parts, _: u64| serve(parts, 2.05);
    let held = watch.one("objective-missed", near).expect("it is held");
    assert!(held.message.starts_with("barely meets"), "{}", held.message);
    assert!(watch.one("objective-missed", |_, _| {}).is_some());
    let met = |parts: &mut Parts, _: u64| serve(parts, 1.0);
    assert_eq!(watch.one("objective-missed", met), None);
}

#[test]
fn an_age_is_a_lower_bound_only_where_the_start_was_not_seen() {
    let hot = |parts: &mut Parts, _: u64| parts.set(0, 3, Signal::Temp, 95.0);
    let found = |watch: &mut Watch| (0..5).find_map(|_| watch.one("heat", hot));
    let mut first = Watch::new();
    assert!(
        found(&mut first).expect("it is hot").at_least,
        "at the first look"
    );
    let mut seen = Watch::new();
    (0..3).for_each(|_| assert_eq!(seen.one("heat", |_, _| {}), None));
    assert!(!found(&mut seen).expect("it is hot").at_least);
    // Nobody had read the device before.
    let mut blind = Watch::new();
    (0..3).for_each(|_| assert_eq!(blind.one("heat", |parts, _| parts.blind()), None));
    assert!(found(&mut blind).expect("it is hot").at_least);
}
