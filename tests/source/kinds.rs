//! Kinds of object that a cluster may or may not have: found, lost again, asked after with restraint.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use model::fleet::observe::{Observation, Table};
use serde_json::json;

use super::api::*;

/// What `GET /apis` answers when these are served: group, version, plural.
fn groups(served: &[(&str, &str, &str)]) -> Reply {
    let items: Vec<serde_json::Value> = served
        .iter()
        .map(|(group, version, plural)| {
            json!({"metadata": {"name": group}, "versions": [
                {"version": version, "freshness": "Current", "resources": [{"resource": plural}]}]})
        })
        .collect();
    Reply::Json(
        200,
        json!({"kind": "APIGroupDiscoveryList", "items": items}),
    )
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_installed_later_is_found_and_one_removed_is_absent() {
    let served = Arc::new(Mutex::new(None::<&'static str>));
    let table = ServedTable::new(
        vec![json!({"metadata": {"name": "nlp", "resourceVersion": "1"}})],
        0,
    );
    let (what, list) = (Arc::clone(&served), table.clone());
    let server = Server::new(move |asked| {
        let version = *what.lock().unwrap();
        let path = version.map(|version| format!("/apis/kueue.x-k8s.io/{version}/clusterqueues"));
        match asked.path.as_str() {
            "/apis" => match version {
                Some(version) => groups(&[("kueue.x-k8s.io", version, "clusterqueues")]),
                None => groups(&[("apps", "v1", "deployments")]),
            },
            asked_for if Some(asked_for) == path.as_deref() => list.answer(asked),
            _ => not_found(),
        }
    });
    let mut bench = run(&server, &[Table::ClusterQueues]);
    let absent = |one: &Observation| matches!(one, Observation::Absent(Table::ClusterQueues));
    let listed = |one: &Observation| matches!(one, Observation::End(Table::ClusterQueues));
    bench.until("absence", absent).await;
    // Its definition comes: it is found without a restart.
    *served.lock().unwrap() = Some("v1beta1");
    let observed = bench.during(Duration::from_secs(150)).await;
    assert!(observed.iter().any(listed) && !observed.iter().any(absent));
    // Another version takes its place: the next list is of that one, and nothing was absent meanwhile.
    *served.lock().unwrap() = Some("v1beta2");
    table.expire();
    let observed = bench.during(Duration::from_secs(60)).await;
    assert!(observed.iter().any(listed) && !observed.iter().any(absent));
    // It is removed.
    *served.lock().unwrap() = None;
    table.expire();
    let observed = bench.during(Duration::from_secs(60)).await;
    assert!(observed.iter().any(absent));
    let lost = |one: &Observation| matches!(one, Observation::Lost(..));
    assert!(
        !bench.observations.iter().any(lost),
        "to have gone is not to be lost"
    );
}

#[tokio::test(start_paused = true)]
async fn tables_that_are_not_there_share_one_question() {
    let server = Server::new(|asked| match asked.path.as_str() {
        "/apis" => groups(&[("apps", "v1", "deployments")]),
        _ => not_found(),
    });
    let tables = [
        Table::RayJobs,
        Table::RayClusters,
        Table::KaiQueues,
        Table::Workloads,
        Table::Cohorts,
    ];
    let mut bench = run(&server, &tables);
    let mut left = tables.to_vec();
    bench
        .until("every absence", |one| {
            if let Observation::Absent(table) = one {
                left.retain(|known| known != table);
            }
            left.is_empty()
        })
        .await;
    let asked = server.asked();
    let questions = asked.iter().filter(|asked| asked.path == "/apis").count();
    assert_eq!(questions, 1);
    assert!(asked.iter().all(|asked| !asked.path.starts_with("/apis/")));
}

#[tokio::test(start_paused = true)]
async fn the_order_of_pending_work_is_asked_for_where_it_is_served() {
    let table = ServedTable::new(
        vec![
            json!({"metadata": {"name": "nlp", "resourceVersion": "1"}, "status": {"pendingWorkloads": 2}}),
            json!({"metadata": {"name": "idle", "resourceVersion": "1"}, "status": {"pendingWorkloads": 0}}),
        ],
        0,
    );
    let list = table.clone();
    let server = Server::new(move |asked| match asked.path.as_str() {
        "/apis" => groups(&[("kueue.x-k8s.io", "v1beta2", "clusterqueues")]),
        "/apis/kueue.x-k8s.io/v1beta2/clusterqueues" => list.answer(asked),
        "/apis/visibility.kueue.x-k8s.io" => Reply::Json(
            200,
            json!({"kind": "APIGroup", "versions": [{"version": "v1beta2"}]}),
        ),
        "/apis/visibility.kueue.x-k8s.io/v1beta2/clusterqueues/nlp/pendingworkloads" => {
            Reply::Json(
                200,
                json!({"items": [{"metadata": {"name": "w", "namespace": "ml"}, "positionInClusterQueue": 0}]}),
            )
        }
        _ => not_found(),
    });
    let mut bench = run(&server, &[Table::ClusterQueues]);
    let pending = bench
        .until("order", |one| matches!(one, Observation::Pending(_)))
        .await;
    let Observation::Pending(pending) = pending else {
        unreachable!("just found")
    };
    assert_eq!((&*pending.queue, pending.rows.len()), ("nlp", 1));
    let idle = server
        .asked()
        .into_iter()
        .filter(|asked| asked.path.contains("/idle/"))
        .count();
    assert_eq!(idle, 0, "a queue without work has no order");
}
