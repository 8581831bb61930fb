//! Tests of the ledger: relists, joins, slices, owner chains, states, and that order does not matter.

mod properties;
pub(super) mod support;
mod tests_claims;
mod tests_govern;
mod tests_groups;
mod tests_limits;
mod tests_mig;
mod tests_pages;
mod tests_parts;
mod tests_scaling;
mod tests_shares;
mod tests_waits;

use std::time::Duration;

use super::*;
use model::fleet::device::{Attribution, TeamSource};
use model::fleet::job::JobState;
use model::fleet::object_parts::Phase;
use model::fleet::observe::{Lost, LostKind};
use model::fleet::reading::ReadingScope;
use support::*;

fn holders(fleet: &Fleet, node: &str) -> Vec<(Option<String>, Attribution)> {
    let node = fleet.node(node).expect("there");
    node.devices
        .iter()
        .map(|device| match device.first_holder() {
            Some((pod, how)) => (Some(pod.key().name.to_string()), how),
            None => (None, Attribution::None),
        })
        .collect()
}

#[test]
fn half_a_relist_deletes_nothing_and_a_lost_source_neither() {
    let mut ledger = fold([
        Observation::Begin(Table::Nodes),
        node("a", &[("nvidia.com/gpu", 8)], &[]),
        node("b", &[("nvidia.com/gpu", 8)], &[]),
        Observation::End(Table::Nodes),
        Observation::Begin(Table::Nodes),
        node("a", &[("nvidia.com/gpu", 8)], &[]),
    ]);
    assert_eq!(ledger.publish(NOW).nodes.len(), 2);
    let lost = Lost {
        kind: LostKind::Unreachable,
        since: NOW,
        message: String::from("refused"),
    };
    ledger.apply(Observation::Lost(Table::Nodes, lost));
    let fleet = ledger.publish(NOW);
    assert_eq!(fleet.nodes.len(), 2);
    assert!(!fleet.visibility(Table::Nodes).is_known());
    for observation in [
        Observation::Begin(Table::Nodes),
        node("a", &[("nvidia.com/gpu", 8)], &[]),
        Observation::End(Table::Nodes),
    ] {
        ledger.apply(observation);
    }
    let fleet = ledger.publish(NOW);
    assert_eq!((fleet.nodes.len(), fleet.device_counts().total), (1, 8));
    assert!(fleet.visibility(Table::Nodes).is_known());
}

#[test]
fn the_exporter_names_first_and_the_count_fills_the_rest() {
    let mut ledger = fold([
        node("a", &[("nvidia.com/gpu", 4)], &[]),
        pod("named", Some("a"), &[("nvidia.com/gpu", 1)]),
        pod("counted", Some("a"), &[("nvidia.com/gpu", 2)]),
        page(
            "a",
            NOW,
            (0..4)
                .map(|i| reading(i, 0.5, (i == 2).then_some("named")))
                .collect(),
        ),
    ]);
    let fleet = ledger.publish(NOW);
    let counted = Some(String::from("counted"));
    assert_eq!(
        holders(&fleet, "a"),
        [
            (counted.clone(), Attribution::Counted),
            (counted, Attribution::Counted),
            (Some(String::from("named")), Attribution::Exporter),
            (None, Attribution::None),
        ]
    );
    let counts = fleet.device_counts();
    assert_eq!(
        (
            counts.total,
            counts.allocated.devices(),
            counts.free.devices()
        ),
        (4, 3.0, 1.0)
    );
}

#[test]
fn kubernetes_wins_over_an_exporter_that_names_an_ended_pod() {
    let mut done = pod_seen("done", Some("a"), &[("nvidia.com/gpu", 1)]);
    done.phase = Phase::Succeeded;
    let mut ledger = fold([
        node("a", &[("nvidia.com/gpu", 2)], &[]),
        Observation::Pod(Box::new(done)),
        page(
            "a",
            NOW,
            vec![
                reading(0, 0.9, Some("done")),
                reading(1, 0.9, Some("never-was")),
            ],
        ),
    ]);
    let fleet = ledger.publish(NOW);
    assert!(
        holders(&fleet, "a")
            .iter()
            .all(|(holder, _)| holder.is_none())
    );
}

#[test]
fn a_name_survives_one_scrape_without_labels_but_not_three() {
    let mut ledger = fold([
        node("a", &[("nvidia.com/gpu", 2)], &[]),
        pod("p", Some("a"), &[("nvidia.com/gpu", 1)]),
        page(
            "a",
            NOW,
            vec![reading(0, 0.5, None), reading(1, 0.5, Some("p"))],
        ),
    ]);
    let later = NOW.plus(Duration::from_secs(30));
    ledger.apply(page(
        "a",
        later,
        vec![reading(0, 0.5, None), reading(1, 0.5, None)],
    ));
    assert_eq!(
        holders(&ledger.publish(later), "a")[1].1,
        Attribution::Exporter
    );
    let much_later = NOW.plus(Duration::from_secs(120));
    ledger.apply(page(
        "a",
        much_later,
        vec![reading(0, 0.5, None), reading(1, 0.5, None)],
    ));
    assert_eq!(
        holders(&ledger.publish(much_later), "a")[0].1,
        Attribution::Counted
    );
}

#[test]
fn a_mixed_mig_node_counts_each_device_once() {
    let slice = |device: u32, id: u32, holder: Option<&str>| {
        let mut row = reading(device, 0.3, holder);
        row.scope = ReadingScope::Slice;
        row.slice = Some(Name::from(format!("1g.10gb-{id}")));
        row
    };
    let mut ledger = fold([
        node(
            "a",
            &[("nvidia.com/gpu", 0), ("nvidia.com/mig-1g.10gb", 14)],
            &[
                ("nvidia.com/gpu.count", "2"),
                ("nvidia.com/mig.strategy", "mixed"),
            ],
        ),
        pod("p", Some("a"), &[("nvidia.com/mig-1g.10gb", 1)]),
        pod("q", Some("a"), &[("nvidia.com/mig-1g.10gb", 2)]),
        page(
            "a",
            NOW,
            (0..2)
                .flat_map(|device| {
                    let rows = (7..14)
                        .map(move |id| slice(device, id, (device == 1 && id == 9).then_some("p")));
                    rows.chain([reading(device, f64::NAN, None)])
                })
                .collect(),
        ),
    ]);
    let fleet = ledger.publish(NOW);
    let counts = fleet.device_counts();
    assert_eq!((counts.total, counts.allocated.devices()), (2, 0.428_572));
    let node = fleet.node("a").expect("there");
    assert_eq!(node.devices[0].slices.len(), 7);
    let held: Vec<_> = node
        .devices
        .iter()
        .flat_map(|device| device.holders())
        .collect();
    assert_eq!(held.len(), 3);
    assert_eq!(
        held.iter()
            .filter(|(_, how)| *how == Attribution::Exporter)
            .count(),
        1
    );
    assert_eq!(node.devices[0].util(), Some(0.3));
}

#[test]
fn a_single_strategy_mig_node_counts_boards_not_instances() {
    let mut ledger = fold([
        node(
            "a",
            &[("nvidia.com/gpu", 14)],
            &[
                ("nvidia.com/gpu.count", "14"),
                ("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"),
            ],
        ),
        pod("p", Some("a"), &[("nvidia.com/gpu", 3)]),
    ]);
    let fleet = ledger.publish(NOW);
    let counts = fleet.device_counts();
    assert_eq!((counts.total, counts.allocated.devices()), (2, 0.428_571));
    let slices: usize = fleet.devices().map(|(_, device)| device.slices.len()).sum();
    assert_eq!(slices, 14);
    assert_eq!(fleet.jobs[0].devices_allocated, 3);
}

#[test]
fn a_time_sliced_node_has_its_boards_and_their_shares() {
    let copy = |holder: &str| {
        let mut row = reading(0, 0.7, Some(holder));
        row.scope = ReadingScope::PodCopy;
        row
    };
    let mut ledger = fold([
        node(
            "a",
            &[("nvidia.com/gpu.shared", 8)],
            &[
                ("nvidia.com/gpu.count", "2"),
                ("nvidia.com/gpu.replicas", "4"),
                ("nvidia.com/gpu.sharing-strategy", "time-slicing"),
            ],
        ),
        pod("p", Some("a"), &[("nvidia.com/gpu.shared", 1)]),
        pod("q", Some("a"), &[("nvidia.com/gpu.shared", 1)]),
        page(
            "a",
            NOW,
            vec![
                reading(0, 0.7, None),
                reading(1, 0.0, None),
                copy("p"),
                copy("q"),
            ],
        ),
    ]);
    let fleet = ledger.publish(NOW);
    let counts = fleet.device_counts();
    assert_eq!(
        (
            counts.total,
            counts.allocated.devices(),
            counts.free.devices()
        ),
        (2, 0.5, 1.5)
    );
    let first = &fleet.node("a").expect("there").devices[0];
    assert_eq!(first.slices.len(), 4);
    assert!(first.holders().all(|(_, how)| how == Attribution::Exporter));
    assert_eq!(first.holders().count(), 2);
}

#[test]
fn idle_means_allocated_beyond_grace_with_readings_of_no_work() {
    let base = [
        node("a", &[("nvidia.com/gpu", 3)], &[]),
        pod("p", Some("a"), &[("nvidia.com/gpu", 2)]),
    ];
    let mut ledger = fold(base.clone());
    assert_eq!(
        ledger.publish(NOW).device_counts().idle_allocated.devices(),
        0.0,
        "no reading says nothing"
    );
    ledger.apply(page(
        "a",
        NOW,
        vec![
            reading(0, 0.0, None),
            reading(1, 0.4, None),
            reading(2, 0.0, None),
        ],
    ));
    let fleet = ledger.publish(NOW);
    assert_eq!(fleet.device_counts().idle_allocated.devices(), 1.0);
    assert_eq!(fleet.jobs[0].idle_devices, 1);
    assert_eq!(
        fleet.node("a").expect("there").devices[0].idle_since,
        Some(NOW)
    );
    let stale = NOW.plus(Duration::from_secs(600));
    ledger.apply(node("a", &[("nvidia.com/gpu", 3)], &[("touched", "yes")]));
    let fleet = ledger.publish(stale);
    assert_eq!(
        fleet.device_counts().idle_allocated.devices(),
        0.0,
        "a stale reading says nothing"
    );
    assert_eq!(fleet.pools[0].util, None);
}

#[test]
fn a_deployment_is_one_job_whatever_order_its_parts_come_in() {
    let deployment = workload(Table::Deployments, "Deployment", "serve", 2, 1, None);
    let set = workload(
        Table::ReplicaSets,
        "ReplicaSet",
        "serve-1",
        2,
        1,
        Some(owner_ref("Deployment", "serve")),
    );
    let parts = || {
        vec![
            node("a", &[("nvidia.com/gpu", 8)], &[]),
            owned("serve-1-x", Some("a"), 1, "ReplicaSet", "serve-1"),
            owned("serve-1-y", None, 1, "ReplicaSet", "serve-1"),
            Observation::Workload(Box::new(set.clone())),
            Observation::Workload(Box::new(deployment.clone())),
        ]
    };
    for order in [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [1, 4, 0, 3, 2]] {
        let parts = parts();
        let mut ledger = fold(order.iter().map(|at| parts[*at].clone()));
        let fleet = ledger.publish(NOW);
        assert_eq!(fleet.jobs.len(), 1, "{order:?}");
        let job = &fleet.jobs[0];
        assert_eq!(
            (job.id.kind.as_str(), job.name().as_str()),
            ("Deployment", "serve")
        );
        assert_eq!((job.devices_requested, job.devices_allocated), (2, 1));
        assert_eq!(job.state, JobState::Running);
        let chain: Vec<&str> = job.chain.iter().map(|link| link.kind.as_str()).collect();
        assert_eq!(chain, ["ReplicaSet", "Deployment"]);
    }
}

#[test]
fn teams_come_from_the_first_rule_that_answers() {
    let mut policy = Policy::default();
    policy.teams.push(model::fleet::policy::TeamRule {
        name: String::from("mapped"),
        namespaces: vec![String::from("ns-m*")],
        ..Default::default()
    });
    let team_of = |policy: &Policy,
                   namespace: &str,
                   pod_labels: &[(&str, &str)],
                   ns_labels: &[(&str, &str)]| {
        let mut ledger = Ledger::new(Arc::new(policy.clone()));
        let mut seen = pod_seen("p", None, &[("nvidia.com/gpu", 1)]);
        seen.key = ObjectKey::new(namespace, "p");
        seen.labels = labels(pod_labels);
        ledger.apply(Observation::Pod(Box::new(seen)));
        ledger.apply(Observation::Namespace(
            Name::new(namespace),
            labels(ns_labels),
        ));
        let fleet = ledger.publish(NOW);
        (fleet.jobs[0].team.to_string(), fleet.jobs[0].team_source)
    };
    let own = |text: &str, source| (text.to_owned(), source);
    let queued = [("kueue.x-k8s.io/queue-name", "q")];
    assert_eq!(
        team_of(&policy, "ns-many", &[("team", "t")], &[]),
        own("mapped", TeamSource::Settings)
    );
    assert_eq!(
        team_of(&policy, "ns", &[("team", "t")], &[("team", "n")]),
        own("t", TeamSource::Label)
    );
    assert_eq!(
        team_of(&policy, "ns", &queued, &[("team", "n")]),
        own("n", TeamSource::NamespaceLabel)
    );
    assert_eq!(
        team_of(&policy, "ns", &queued, &[]),
        own("q", TeamSource::Queue)
    );
    assert_eq!(
        team_of(&policy, "ns", &[], &[]),
        own("ns", TeamSource::Namespace)
    );
}

#[test]
fn a_gang_starts_when_its_minimum_runs() {
    let mut job = workload(Table::Jobs, "Job", "train", 2, 8, None);
    job.gang_min = Some(2);
    let mut ledger = fold([
        node("a", &[("nvidia.com/gpu", 8)], &[]),
        node("b", &[("nvidia.com/gpu", 8)], &[]),
        Observation::Workload(Box::new(job.clone())),
        owned("train-0", Some("a"), 8, "Job", "train"),
    ]);
    assert_eq!(ledger.publish(NOW).jobs[0].state, JobState::Starting);
    ledger.apply(owned("train-1", Some("b"), 8, "Job", "train"));
    let fleet = ledger.publish(NOW);
    assert_eq!(fleet.jobs[0].state, JobState::Running);
    assert_eq!(fleet.jobs[0].places.len(), 16);
    job.outcome = Some(true);
    ledger.apply(Observation::Workload(Box::new(job)));
    for name in ["train-0", "train-1"] {
        ledger.apply(Observation::Gone(Table::Pods, ObjectKey::new("ns", name)));
    }
    let fleet = ledger.publish(NOW);
    assert_eq!(fleet.jobs[0].state, JobState::Done);
    assert_eq!(fleet.device_counts().allocated.devices(), 0.0);
}

#[test]
fn what_waits_is_given_to_one_pool_that_could_serve_it() {
    let mut queued = workload(Table::Jobs, "Job", "queued", 4, 8, None);
    queued.suspended = true;
    queued.labels = labels(&[("kueue.x-k8s.io/queue-name", "nlp")]);
    queued.node_selector = labels(&[("class", "big")]);
    let mut held = workload(Table::Jobs, "Job", "held", 1, 8, None);
    held.suspended = true;
    let mut ledger = fold([
        node(
            "a",
            &[("nvidia.com/gpu", 8)],
            &[("class", "small"), ("nodepool", "small")],
        ),
        node(
            "b",
            &[("nvidia.com/gpu", 8)],
            &[("class", "big"), ("nodepool", "big")],
        ),
        Observation::Workload(Box::new(queued)),
        Observation::Workload(Box::new(held)),
    ]);
    let fleet = ledger.publish(NOW);
    let states: Vec<_> = fleet
        .jobs
        .iter()
        .map(|job| (job.name().to_string(), job.state))
        .collect();
    assert_eq!(
        states,
        [
            (String::from("held"), JobState::Suspended),
            (String::from("queued"), JobState::Waiting)
        ]
    );
    assert_eq!(fleet.jobs[1].reason_code, Some("queued"));
    let waiting: Vec<u32> = fleet
        .pools
        .iter()
        .map(|pool| pool.waiting_devices)
        .collect();
    assert_eq!(
        (fleet.pools[0].name.as_str(), waiting),
        ("big", vec![32, 0])
    );
}

#[test]
fn a_terminating_pod_holds_its_device_until_it_has_gone() {
    let mut leaving = pod_seen("p", Some("a"), &[("nvidia.com/gpu", 1)]);
    leaving.deleted = Some(NOW);
    let mut ledger = fold([
        node("a", &[("nvidia.com/gpu", 1)], &[]),
        Observation::Pod(Box::new(leaving)),
    ]);
    assert_eq!(ledger.publish(NOW).device_counts().allocated.devices(), 1.0);
    ledger.apply(Observation::Gone(Table::Pods, ObjectKey::new("ns", "p")));
    let fleet = ledger.publish(NOW);
    assert_eq!(
        (fleet.device_counts().allocated.devices(), fleet.jobs.len()),
        (0.0, 0)
    );
}

/// Who drains a node takes those off it too.
#[test]
fn a_node_knows_its_pods_without_devices() {
    let mut ledger = fold([
        node("a", &[("nvidia.com/gpu", 1)], &[]),
        Observation::Pod(Box::new(pod_seen(
            "holder",
            Some("a"),
            &[("nvidia.com/gpu", 1)],
        ))),
        Observation::Pod(Box::new(pod_seen("plain", Some("a"), &[]))),
        Observation::Pod(Box::new(pod_seen("elsewhere", Some("b"), &[]))),
    ]);
    let others = |fleet: &Fleet| -> Vec<(String, Option<Moment>)> {
        let node = fleet.node("a").expect("there");
        assert_eq!(node.pod_count as usize, node.pods.len() + node.others.len());
        let of = |pod: &Arc<PodSeen>| (pod.key.name.to_string(), pod.deleted);
        node.others.iter().map(of).collect()
    };
    assert_eq!(others(&ledger.publish(NOW)), [("plain".to_owned(), None)]);
    let mut leaving = pod_seen("plain", Some("a"), &[]);
    leaving.deleted = Some(NOW);
    ledger.apply(Observation::Pod(Box::new(leaving)));
    assert_eq!(
        others(&ledger.publish(NOW)),
        [("plain".to_owned(), Some(NOW))]
    );
    let mut over = pod_seen("plain", Some("a"), &[]);
    over.phase = Phase::Succeeded;
    ledger.apply(Observation::Pod(Box::new(over)));
    assert_eq!(others(&ledger.publish(NOW)), []);
}
