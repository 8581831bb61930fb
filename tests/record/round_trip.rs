//! What was said comes back: every observation, every value, in its order, at any moment.

use model::fleet::histogram::Histogram;
use model::fleet::idle::{IdleBefore, IdleSince};
use model::fleet::observe::{ListedNamespaces, Lost, LostKind, Pending, WorkloadFailure};
use model::fleet::signal::Signals;
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;

#[test]
fn recorded_events_are_read_back_in_order() {
    let folder = TempDir::new().expect("a folder");
    let mut recorder = recorder(folder.path(), START);
    let lost = Lost {
        kind: LostKind::Rights,
        since: at(3),
        message: "pods are refused".to_owned(),
    };
    let all = vec![
        (1, Observation::Covers(ListedNamespaces::All)),
        (1, node("a", false)),
        (1, Observation::End(Table::Nodes)),
        (2, pod("train-0", Phase::Running)),
        (3, Observation::Lost(Table::Pods, lost)),
        (4, page("a", at(3), 140.0)),
        (4, source("dcgm a", at(4), "")),
        (34, page("a", at(33), 141.0)),
        (34, source("dcgm a", at(34), "")),
        (34, page("b", at(34), 3.0)),
        (35, node("a", true)),
        (
            36,
            Observation::Gone(Table::Pods, ObjectKey::new("nlp", "train-0")),
        ),
        (
            40,
            Observation::Pending(Box::new(Pending {
                queue: Name::new("research"),
                rows: vec![(ObjectKey::new("nlp", "w"), 0, 1)],
            })),
        ),
        (64, page("a", at(63), 140.0)),
        (64, source("dcgm a", at(34), "refused")),
        (65, Observation::Skew(-1500)),
        (
            65,
            Observation::IdleBefore(Box::from([IdleBefore {
                node: Name::new("a"),
                device: 0,
                idle: IdleSince {
                    since: at(1),
                    at_least: true,
                },
            }])),
        ),
        (65, Observation::ExportersFound),
        (66, Observation::SourceGone(Name::new("dcgm a"))),
    ];
    for (second, observation) in &all {
        recorder.see(at(*second), observation);
        if recorder.is_due(at(*second)) {
            flush(&mut recorder, at(*second));
        }
    }
    let written = recorder.close().expect("is written");
    assert_eq!(written.readings, 8);
    let archive = Archive::open(folder.path()).expect("can be read");
    let wanted: Vec<String> = all
        .iter()
        .map(|(second, observation)| describe_observation(at(*second), observation))
        .collect();
    assert_eq!(everything(&archive), wanted);
}

#[test]
fn a_list_that_comes_again_is_written_as_what_it_changes() {
    let folder = TempDir::new().expect("a folder");
    let mut recorder = recorder(folder.path(), START);
    let list = |recorder: &mut Recorder, second: u64, nodes: &[(&str, bool)]| {
        recorder.see(at(second), &Observation::Begin(Table::Nodes));
        for (name, cordoned) in nodes {
            recorder.see(at(second), &node(name, *cordoned));
        }
        recorder.see(at(second), &Observation::End(Table::Nodes));
    };
    list(
        &mut recorder,
        1,
        &[("a", false), ("b", false), ("c", false)],
    );
    flush(&mut recorder, at(10));
    list(&mut recorder, 11, &[("a", false), ("c", true)]);
    // Half a list deletes nothing.
    recorder.see(at(12), &Observation::Begin(Table::Nodes));
    recorder.see(at(12), &node("a", false));
    recorder.close().expect("is written");
    let archive = Archive::open(folder.path()).expect("can be read");
    let all = everything(&archive);
    let tail: Vec<&String> = all.iter().skip(4).collect();
    assert_eq!(
        tail,
        [
            &describe_observation(at(11), &node("c", true)),
            &describe_observation(
                at(11),
                &Observation::Gone(Table::Nodes, ObjectKey::new("", "b"))
            ),
        ]
    );
    assert_eq!(known(&archive, at(10)), ["a", "b", "c"]);
    assert_eq!(known(&archive, at(15)), ["a", "c cordoned"]);
}

#[test]
fn any_moment_is_found_from_the_keyframe_before_it() {
    let folder = TempDir::new().expect("a folder");
    let mut recorder = recorder(folder.path(), START);
    // Ten hours: keyframes and segments lie between.
    for minute in 0..600 {
        let when = at(minute * 60);
        recorder.see(when, &node("a", minute % 2 == 1));
        recorder.see(when, &node(&format!("n{}", minute / 100), false));
        recorder.see(when, &page("a", when, (minute % 100) as f64));
        flush(&mut recorder, when);
    }
    let written = recorder.close().expect("is written");
    assert_eq!(written.segments, 2);
    let archive = Archive::open(folder.path()).expect("can be read");
    for minute in [0, 1, 14, 15, 16, 299, 359, 360, 361, 365, 599] {
        let mut wanted: Vec<String> = (0..=minute / 100).map(|of| format!("n{of}")).collect();
        wanted.insert(
            0,
            String::from(if minute % 2 == 1 { "a cordoned" } else { "a" }),
        );
        assert_eq!(
            known(&archive, at(minute * 60 + 1)),
            wanted,
            "minute {minute}"
        );
    }
    // The segments of one recorder are one record: nothing begins anew.
    let all = everything(&archive);
    assert!(!all.iter().any(|one| one.starts_with("restart")));
    let pages = all.iter().filter(|one| one.contains("Page")).count();
    assert_eq!(pages, 600);
    assert!(matches!(
        archive.seek(START.minus(Duration::from_secs(1))),
        Err(RecordFault::Before { .. })
    ));
}

#[test]
fn devices_that_do_nothing_cost_next_to_nothing() {
    let folder = TempDir::new().expect("a folder");
    let mut recorder = recorder(folder.path(), START);
    for round in 0..20 {
        for number in 0..200 {
            let when = at(round * 30 + number / 10);
            recorder.see(when, &page(&format!("n{number}"), when, 70.0));
            if recorder.is_due(when) {
                flush(&mut recorder, when);
            }
        }
    }
    let written = recorder.close().expect("is written");
    assert_eq!(written.readings, 8000);
    let each = written.bytes as f64 / written.readings as f64;
    assert!(each < 2.5, "{each} bytes a reading, heads and all");
}

#[test]
fn what_a_container_wrote_last_is_not_written() {
    let folder = TempDir::new().expect("a folder");
    let mut recorder = recorder(folder.path(), START);
    let mut failed = pod("train-0", Phase::Failed);
    if let Observation::Pod(pod) = &mut failed {
        pod.failure = Some(WorkloadFailure {
            exit_code: Some(1),
            message: Name::new("Error: login with token hunter2 failed"),
            ended: None,
            own_words: true,
            ..WorkloadFailure::default()
        });
    }
    recorder.see(at(1), &failed);
    recorder.want_keyframe();
    recorder.close().expect("is written");
    let archive = Archive::open(folder.path()).expect("can be read");
    let all = everything(&archive).join("\n");
    assert!(
        all.contains("\"Error\"") && !all.contains("hunter2"),
        "{all}"
    );
}

fn observation() -> impl Strategy<Value = Observation> {
    let value = prop_oneof![Just(0.0), 0.0..1.0f64, 0.0..2000.0f64, -1e12..1e12f64];
    let signals = proptest::collection::vec((0..Signal::ALL.len(), value), 0..8);
    let page = (0..3u32, 0..4u32, signals).prop_map(|(host, rows, values)| {
        let signals: Signals = values
            .iter()
            .map(|(signal, value)| (Signal::ALL[*signal], *value))
            .collect();
        let readings = (0..=rows).map(|index| {
            let mut reading = Reading::new(Name::new("dcgm"), ReadingScope::Device);
            reading.index = Some(index);
            reading.signals = signals.clone();
            let count = |by: u64| u64::from(index) + by * values.len() as u64;
            // Rows with and without latencies.
            let kinds = [Signal::Ttft, Signal::Tpot].into_iter().take(rows as usize);
            let latencies = kinds.map(|signal| Histogram {
                signal,
                bounds: Box::new([0.1, f64::from(rows)]),
                counts: Box::new([count(0), count(3), count(50)]),
            });
            reading.histograms = latencies.collect();
            reading
        });
        Observation::Page(Box::new(Page {
            node: Some(Name::from(format!("n{host}"))),
            at: START,
            interval: Duration::from_secs(30),
            readings: readings.collect(),
        }))
    });
    let fares = (0..3u32, 0..200i64, 0..3u64).prop_map(|(name, ok, errors)| {
        let Observation::Source(mut health) = source(&format!("s{name}"), START, "") else {
            unreachable!("it is a source");
        };
        health.last_ok = (ok > 20).then(|| Moment::from_millis(START.millis() + ok * 500));
        health.errors = errors;
        Observation::Source(health)
    });
    prop_oneof![page, fares]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn any_readings_are_read_back(all in proptest::collection::vec((0..5u64, observation()), 1..60)) {
        let folder = TempDir::new().expect("a folder");
        let mut recorder = recorder(folder.path(), START);
        let mut second = 0;
        let mut wanted: Vec<String> = Vec::new();
        let mut last: std::collections::BTreeMap<Name, SourceHealth> = Default::default();
        for (pause, observation) in &all {
            second += pause;
            let mut observation = observation.clone();
            Recorder::round(&mut observation);
            recorder.see(at(second), &observation);
            // What says nothing new is not written.
            let news = match &observation {
                Observation::Source(health) => {
                    last.insert(health.name.clone(), health.clone()) != Some(health.clone())
                }
                _ => true,
            };
            if news {
                wanted.push(describe_observation(at(second), &observation));
            }
            if recorder.is_due(at(second)) {
                flush(&mut recorder, at(second));
            }
        }
        recorder.close().expect("is written");
        let archive = Archive::open(folder.path()).expect("can be read");
        prop_assert_eq!(everything(&archive), wanted);
    }
}
