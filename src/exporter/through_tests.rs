//! A page gives the same readings whether it is read directly or comes back from Prometheus.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::samples::{BadAnswer, words};
use super::*;
use model::base::{Moment, Names, ObjectKey};
use model::fleet::reading::Reading;

const NOW: f64 = 1_800_000_000.5;

type Labels = BTreeMap<String, String>;

fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

/// The result in Prometheus of scraping `page`: the response to a query for all series.
fn scraped(page: &str, target: &Labels, honor: bool, at: f64) -> Vec<Value> {
    let mut rows = Vec::new();
    scan(page.as_bytes(), Limits::default(), |series| {
        let mut all = target.clone();
        for own in series.labels.iter().filter(|label| !label.value.is_empty()) {
            let (name, value) = (own.name.to_string(), own.value.to_string());
            if target.contains_key(&name) && !honor {
                all.insert(format!("exported_{name}"), value);
            } else {
                all.insert(name, value);
            }
        }
        all.insert("__name__".into(), series.name.to_string());
        rows.push(json!({"metric": all, "value": [at, series.value.to_string()]}));
    });
    rows
}

fn answer(rows: &[Value]) -> Vec<u8> {
    json!({"status": "success", "data": {"resultType": "vector", "result": rows}})
        .to_string()
        .into_bytes()
}

fn ups(targets: &[&Labels]) -> Ups {
    let rows: Vec<Value> = targets
        .iter()
        .map(|target| json!({"metric": target, "value": [NOW, (NOW - 7.0).to_string()]}))
        .collect();
    let mut samples = Samples::default();
    samples.take(&answer(&rows)).expect("an answer");
    Ups::of(&samples)
}

fn directly(dialects: &Dialects, page: &str, own: &ObjectKey, dialect: &str) -> Vec<Reading> {
    let target = PageSource {
        pod: Some(own.clone()),
        node: Some("n1".into()),
        dialect: Some(dialect),
    };
    read(dialects, page.as_bytes(), &target, &mut Names::default()).readings
}

const PAGES: &[(&str, &str)] = &[
    ("dcgm", include_str!("../../tests/exporter/pages/dcgm.prom")),
    (
        "dcgm",
        include_str!("../../tests/exporter/pages/dcgm-mig.prom"),
    ),
    (
        "dcgm",
        include_str!("../../tests/exporter/pages/dcgm-shared.prom"),
    ),
    (
        "dcgm",
        include_str!("../../tests/exporter/pages/dcgm-renamed.prom"),
    ),
    ("amd", include_str!("../../tests/exporter/pages/amd.prom")),
    (
        "amd",
        include_str!("../../tests/exporter/pages/amd-cpx.prom"),
    ),
    ("tpu", include_str!("../../tests/exporter/pages/tpu.prom")),
    (
        "gke-gpu",
        include_str!("../../tests/exporter/pages/gke-gpu.prom"),
    ),
];

#[test]
fn a_page_through_prometheus_says_the_same() {
    let dialects = Dialects::builtin();
    for (at, (dialect, page)) in PAGES.iter().enumerate() {
        let own = ObjectKey::new("gpu-operator", "exporter-x7");
        let wanted = directly(&dialects, page, &own, dialect);
        assert!(!wanted.is_empty(), "{dialect} {at}");
        let target = labels(&[
            ("job", "gpu-operator/exporters"),
            ("instance", "10.0.3.4:9400"),
            ("namespace", "gpu-operator"),
            ("pod", "exporter-x7"),
            ("container", "exporter"),
            ("node", "n1"),
        ]);
        for honor in [false, true] {
            let mut rows = scraped(page, &target, honor, NOW);
            // Answers come in no order.
            rows.reverse();
            let mut samples = Samples::default();
            samples.take(&answer(&rows)).expect("an answer");
            let ups = ups(&[&target]);
            let found: Vec<Scrape<'_>> = samples.scrapes(&ups).collect();
            let [scrape] = &*found else {
                panic!("{} targets", found.len())
            };
            assert_eq!(scrape.pod(), Some(own.clone()));
            assert_eq!(
                (scrape.node(), scrape.address()),
                (Some("n1"), Some("10.0.3.4"))
            );
            assert_eq!(
                scrape.scraped_at(),
                Some(Moment::from_millis(1_799_999_993_500))
            );
            let dialect = dialects.get(dialect).expect("is built in");
            let pages = scrape.read(dialect, Some(&"n1".into()), &mut Names::default());
            let [(_, read)] = &*pages else {
                panic!("{} pages", pages.len())
            };
            assert_eq!(read.readings, wanted, "{} {at} honor {honor}", dialect.name);
            // No other dialect takes it for its own.
            let others = dialects.iter().filter(|other| other.name != dialect.name);
            for other in others {
                let taken = scrape.read(other, None, &mut Names::default());
                assert!(
                    taken.is_empty(),
                    "{} {at} read as {}",
                    dialect.name,
                    other.name
                );
            }
        }
    }
}

#[test]
fn without_up_the_common_forms_are_still_read_right() {
    let dialects = Dialects::builtin();
    let dcgm = dialects.get("dcgm").expect("is built in");
    let target = labels(&[
        ("job", "dcgm"),
        ("instance", "10.0.3.4:9400"),
        ("namespace", "gpu-operator"),
        ("pod", "nvidia-dcgm-exporter-x7"),
        ("container", "nvidia-dcgm-exporter"),
    ]);
    let own = ObjectKey::new("gpu-operator", "nvidia-dcgm-exporter-x7");
    for (dialect, page) in &PAGES[..4] {
        let wanted = directly(&dialects, page, &own, dialect);
        for honor in [false, true] {
            let mut samples = Samples::default();
            samples
                .take(&answer(&scraped(page, &target, honor, NOW)))
                .expect("an answer");
            let none = Ups::default();
            let scrape = samples.scrapes(&none).next().expect("one target");
            assert_eq!((scrape.pod(), scrape.scraped_at()), (None, None));
            let pages = scrape.read(dcgm, None, &mut Names::default());
            assert_eq!(pages[0].1.readings, wanted, "honor {honor}");
        }
    }
}

#[test]
fn a_pod_in_the_exporters_own_namespace_keeps_its_labels() {
    let dialects = Dialects::builtin();
    let dcgm = dialects.get("dcgm").expect("is built in");
    let page = "DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",UUID=\"GPU-a\",namespace=\"ml\",pod=\"train-0\",container=\"main\"} 5\n\
                DCGM_FI_DEV_GPU_UTIL{gpu=\"1\",UUID=\"GPU-b\"} 0\n";
    let target = labels(&[
        ("job", "x"),
        ("instance", "h:1"),
        ("namespace", "ml"),
        ("pod", "watcher-1"),
        ("container", "main"),
    ]);
    for honor in [false, true] {
        let mut samples = Samples::default();
        samples
            .take(&answer(&scraped(page, &target, honor, NOW)))
            .expect("an answer");
        let ups = ups(&[&target]);
        let scrape = samples.scrapes(&ups).next().expect("one target");
        let pages = scrape.read(dcgm, None, &mut Names::default());
        let held: Vec<Option<ObjectKey>> = pages[0]
            .1
            .readings
            .iter()
            .map(|reading| reading.pod.clone())
            .collect();
        assert_eq!(
            held,
            [Some(ObjectKey::new("ml", "train-0")), None],
            "honor {honor}"
        );
    }
}

#[test]
fn replicas_of_one_prometheus_are_read_apart() {
    let page = "DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",UUID=\"GPU-a\"} 5\n";
    let replica = |name| {
        labels(&[
            ("job", "x"),
            ("instance", "h:1"),
            ("prometheus_replica", name),
        ])
    };
    let mut rows = scraped(page, &replica("a"), true, NOW);
    rows.extend(scraped(page, &replica("b"), true, NOW));
    let mut samples = Samples::default();
    samples.take(&answer(&rows)).expect("an answer");
    assert_eq!((samples.series(), samples.targets()), (2, 2));
}

#[test]
fn a_range_is_one_page_for_each_moment() {
    let dialects = Dialects::builtin();
    let rows = json!([
        {"metric": {"__name__": "DCGM_FI_DEV_GPU_UTIL", "gpu": "0", "UUID": "GPU-a", "job": "x", "instance": "n1"},
         "values": [[1000, "10"], [1030, "20"]]},
        {"metric": {"__name__": "DCGM_FI_DEV_GPU_TEMP", "gpu": "0", "UUID": "GPU-a", "job": "x", "instance": "n1"},
         "values": [[1030, "60"], [1060, "NaN"]]},
    ]);
    let body = json!({"status": "success", "data": {"resultType": "matrix", "result": rows}});
    let mut samples = Samples::default();
    samples
        .take(body.to_string().as_bytes())
        .expect("an answer");
    let none = Ups::default();
    let scrape = samples.scrapes(&none).next().expect("one target");
    let dcgm = dialects.get("dcgm").expect("is built in");
    let pages = scrape.read(dcgm, None, &mut Names::default());
    let restored: Vec<(i64, Vec<f64>)> = pages
        .iter()
        .map(|(at, read)| {
            let values = read.readings[0].signals.iter().map(|(_, value)| value);
            (at.millis() / 1000, values.collect())
        })
        .collect();
    assert_eq!(
        restored,
        [(1000, vec![0.1]), (1030, vec![0.2, 60.0]), (1060, vec![])]
    );
}

#[test]
fn responses_of_other_servers_differ_from_errors() {
    let refused = |body: &str| Samples::default().take(body.as_bytes());
    assert_eq!(
        refused(
            r#"{"status":"error","errorType":"execution","error":"query processing would load too many samples"}"#
        ),
        Err(BadAnswer::Refused(
            "execution".into(),
            "query processing would load too many samples".into()
        ))
    );
    for nonsense in [
        "",
        "<html>",
        "{}",
        "[]",
        "null",
        r#"{"status":"success","data":{"resultType":"scalar","result":[1,"2"]}}"#,
        r#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"x"]}]}}"#,
        r#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{"a":1}}]}}"#,
    ] {
        let read = refused(nonsense);
        assert!(
            matches!(read, Err(BadAnswer::Nonsense(_))),
            "{nonsense} {read:?}"
        );
    }
    assert_eq!(
        refused(r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#),
        Ok(())
    );
    assert_eq!(
        words(br#"{"status":"success","data":["a","b"]}"#),
        Ok(vec!["a".to_owned(), "b".to_owned()])
    );
    assert!(words(br#"{"status":"error","error":"no"}"#).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn a_damaged_answer_never_panics(cut in 0usize..400, flip in 0usize..400, byte in any::<u8>()) {
        let target = labels(&[("job", "x"), ("instance", "h:1")]);
        let page = "DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",UUID=\"GPU-a\",pod=\"p\\\"\"} 5\nDCGM_FI_DEV_GPU_TEMP{gpu=\"0\"} 1\n";
        let mut body = answer(&scraped(page, &target, false, NOW));
        let at = flip % body.len();
        body[at] = byte;
        body.truncate(body.len().min(cut.max(1)));
        let mut samples = Samples::default();
        let _ = samples.take(&body);
        let none = Ups::default();
        let dialects = Dialects::builtin();
        for scrape in samples.scrapes(&none) {
            for dialect in dialects.iter() {
                let _ = scrape.read(dialect, None, &mut Names::default());
            }
        }
    }
}
