//! Pods that come to a node after a drain was planned are told of, and what belongs there is not.

use std::collections::BTreeSet;

use exec::behind::left_behind;

use super::stage::{planned, pods, snapshot, ticking, world};
use super::*;

#[tokio::test(start_paused = true)]
async fn a_drain_reports_the_remaining_pods() {
    let clock = ticking();
    let service = embed(Box::new(world(1, 12, false)), clock, 0.0, 1).expect("a cluster");
    let reader = source::client::client_for(service.clone(), "demo", ticking(), []).client;
    let fleet = snapshot(&service);
    let node = fleet
        .workloads
        .iter()
        .filter(|work| super::stage::runs_now(work))
        .flat_map(|work| pods(work).map(|pod| pod.node.clone()))
        .next()
        .expect("something runs");
    let there: BTreeSet<String> = fleet
        .workloads
        .iter()
        .flat_map(|work| pods(work).map(move |pod| (&work.key.key.namespace, pod)))
        .filter(|(_, pod)| pod.node == node && pod.deleted.is_none())
        .map(|(namespace, pod)| format!("{namespace}/{} on {node}", pod.pod))
        .collect();
    let intent = |name: &Name| Intent::Drain {
        nodes: vec![name.clone()],
        deadline: None,
    };
    let plan = planned(&fleet, &intent(&node)).expect("can be drained");
    let left = left_behind(&reader, &plan).await.expect("the server says");
    let left: BTreeSet<String> = left.into_iter().collect();
    assert!(
        !there.is_empty() && there.is_subset(&left),
        "{there:?} {left:?}"
    );
    let daemons = left.iter().filter(|pod| pod.contains("dcgm-exporter"));
    assert_eq!(daemons.count(), 0, "{left:?}");
    let mut other = plan;
    other.intent = Intent::Cordon {
        nodes: vec![node],
        reason: String::new(),
    };
    assert_eq!(left_behind(&reader, &other).await, Ok(Vec::new()));
}

/// A kind that may not be read is passed over while a name is looked for among all kinds, and named where nothing is found.
#[tokio::test(start_paused = true)]
async fn what_may_not_be_read_is_no_kind_of_the_name_that_is_looked_for() {
    let clock = ticking();
    let service = embed(Box::new(world(1, 12, false)), clock, 0.0, 1).expect("a cluster");
    let team = service.signed(User::Team);
    let clock = ticking();
    let client = source::client::client_for(team, "demo", clock, []).client;
    let looker = exec::Looker::new(client, "nlp");
    // ClusterQueues are not a team's to read.
    let nothing = looker.target("nothing-of-this-name").await;
    match nothing.expect_err("there is none") {
        exec::target_reader::Unseen::Refused(refusal) => assert!(
            refusal.sentence.contains("you may not read")
                && refusal.sentence.contains("clusterqueues.kueue.x-k8s.io"),
            "{refusal}"
        ),
        exec::target_reader::Unseen::Failed(failure) => panic!("{}", failure.message),
    }
    let named = looker.target("clusterqueue/nlp").await;
    assert!(
        matches!(named, Err(exec::target_reader::Unseen::Failed(_))),
        "a kind that is named is refused"
    );
}
