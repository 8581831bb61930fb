//! Pages of exporters: which node they are of, what comes before it, and several that speak of one device.

use std::time::Duration;

use super::support::*;
use super::*;
use model::fleet::reading::{Reading, ReadingScope};
use model::fleet::signal::{Signal, Signals};

#[test]
fn a_host_is_found_by_name_short_name_or_provider_id() {
    let host = |host: &str| {
        let mut row = reading(0, 0.5, None);
        row.host = Some(Name::new(host));
        let page = Page {
            node: None,
            at: NOW,
            interval: Duration::from_secs(30),
            readings: vec![row],
        };
        Observation::Page(Box::new(page))
    };
    let util = |ledger: &mut Ledger| {
        let fleet = ledger.publish(NOW);
        let node = fleet.node("ip-10-0-0-1.ec2.internal").expect("there");
        node.devices[0].util()
    };
    for name in ["ip-10-0-0-1.ec2.internal", "ip-10-0-0-1", "i-0abc"] {
        let mut seen = NodeSeen {
            name: Name::new("ip-10-0-0-1.ec2.internal"),
            provider_id: Some(Name::new("aws:///us-east-1c/i-0abc")),
            capacity: devices(&[("nvidia.com/gpu", 1)]),
            ..NodeSeen::default()
        };
        // The page may come before the node does.
        let mut ledger = fold([host(name)]);
        ledger.apply(Observation::Node(Box::new(seen.clone())));
        assert_eq!(util(&mut ledger), Some(0.5), "{name}");
        seen.uid = Name::new("reborn");
        ledger.apply(Observation::Node(Box::new(seen)));
        assert_eq!(util(&mut ledger), None);
    }
}

/// Pods are often listed before nodes are: then pages come first, of every exporter of a node.
#[test]
fn pages_of_several_exporters_may_come_before_their_node() {
    let mut other = reading(0, 0.9, None);
    other.dialect = Name::new("triton");
    other.signals = [(Signal::Temp, 60.0)].into_iter().collect();
    let mut second = reading(1, 0.4, None);
    let mut served = Reading::new(Name::new("vllm"), ReadingScope::Serving);
    served.pod = Some(ObjectKey::new("ns", "chat"));
    served.signals = [(Signal::RequestsRunning, 3.0)].into_iter().collect();
    let pages = |second: Reading| {
        [
            page(
                "a",
                NOW.minus(Duration::from_secs(30)),
                vec![reading(0, 0.1, None)],
            ),
            page("a", NOW, vec![reading(0, 0.5, None)]),
            page("a", NOW, vec![other.clone()]),
            page("a", NOW, vec![second]),
            page("a", NOW, vec![served.clone()]),
        ]
    };
    let mut ledger = fold(pages(second.clone()));
    let saved = ledger.save();
    ledger.apply(node("a", &[("nvidia.com/gpu", 2)], &[]));
    let read_now = |ledger: &mut Ledger| {
        let fleet = ledger.publish(NOW);
        let devices = &fleet.node("a").expect("there").devices;
        let temp = devices[0].signals.get(Signal::Temp);
        (devices[0].util(), temp, devices[1].util())
    };
    let all = (Some(0.5), Some(60.0), Some(0.4));
    assert_eq!(read_now(&mut ledger), all);
    // A record that begins before the node is listed gives the same result.
    let mut ledger = fold([]);
    ledger.restore(saved);
    ledger.apply(node("a", &[("nvidia.com/gpu", 2)], &[]));
    assert_eq!(read_now(&mut ledger), all);
    // However many there are, they are bounded.
    let mut ledger = fold([]);
    for index in 0..100 {
        second.index = Some(index);
        second.uuid = Some(Name::from(format!("GPU-{index}")));
        ledger.apply(page("a", NOW, vec![second.clone()]));
    }
    ledger.apply(node("a", &[("nvidia.com/gpu", 100)], &[]));
    let fleet = ledger.publish(NOW);
    let devices = &fleet.node("a").expect("there").devices;
    let read = devices.iter().filter(|device| device.util().is_some());
    assert_eq!(read.count(), 8);
}

#[test]
fn signals_of_two_dialects_are_merged_not_added() {
    let mut other = reading(0, 0.9, None);
    other.dialect = Name::new("triton");
    let mut rich = reading(0, 0.5, None);
    rich.signals = [(Signal::Util, 0.5), (Signal::Temp, 60.0)]
        .into_iter()
        .collect::<Signals>();
    let mut ledger = fold([
        node("a", &[("nvidia.com/gpu", 1)], &[]),
        page("a", NOW, vec![other]),
        page("a", NOW, vec![rich]),
    ]);
    let fleet = ledger.publish(NOW);
    assert_eq!(fleet.node("a").expect("there").devices[0].util(), Some(0.5));
}

#[test]
fn a_record_of_before_has_one_page_a_host() {
    let ledger = fold([page("a", NOW, vec![reading(0, 0.5, None)])]);
    let mut saved = serde_json::to_value(ledger.save()).expect("JSON");
    let pages = &mut saved["unmatched_pages"]["a"];
    *pages = pages[0].take();
    assert!(saved["unmatched_pages"]["a"]["readings"].is_array());
    let mut ledger = fold([]);
    ledger.restore(serde_json::from_value(saved).expect("is read"));
    ledger.apply(node("a", &[("nvidia.com/gpu", 1)], &[]));
    let fleet = ledger.publish(NOW);
    assert_eq!(fleet.node("a").expect("there").devices[0].util(), Some(0.5));
}

/// No event arrives when an exporter stops answering: time alone makes its readings stale.
#[test]
fn the_utilization_of_a_job_becomes_unknown_with_its_readings() {
    let mut ledger = fold([
        node("a", &[("nvidia.com/gpu", 1)], &[]),
        owned("j-0", Some("a"), 1, "Job", "j"),
        page("a", NOW, vec![reading(0, 0.5, Some("j-0"))]),
    ]);
    let mut util = |seconds: u64| {
        let fleet = ledger.publish(NOW.plus(Duration::from_secs(seconds)));
        assert_eq!(fleet.jobs.len(), 1);
        fleet.jobs[0].util
    };
    assert_eq!(util(0), Some(0.5));
    assert_eq!(util(90), Some(0.5));
    assert_eq!(util(91), None, "the readings are older than 90 s");
}
