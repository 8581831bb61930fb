//! Tables under every weather.

use std::io::ErrorKind;
use std::time::Duration;

use bytes::Bytes;
use exporter::Dialects;
use model::fleet::observe::{LostKind, Observation, SourceState, Table};
use serde_json::json;
use source::kubernetes::Namespaces;

use super::api::*;

fn nodes(table: &ServedTable) -> Server {
    let table = table.clone();
    Server::new(move |asked| match asked.path.as_str() {
        "/api/v1/nodes" => table.answer(asked),
        _ => not_found(),
    })
}

#[tokio::test(start_paused = true)]
async fn a_list_comes_in_pages_and_goes_on_as_events() {
    let table = ServedTable::new(["a", "b", "c", "d", "e"].map(node).to_vec(), 2);
    let server = nodes(&table);
    let mut bench = run(&server, &[Table::Nodes]);
    bench.end(Table::Nodes).await;
    table.watched(1).await;
    table.event("ADDED", node("f"));
    table.event("MODIFIED", node("a"));
    table.event("DELETED", node("b"));
    bench
        .until("deletion", |one| matches!(one, Observation::Gone(..)))
        .await;
    assert_eq!(
        story(&bench.observations),
        [
            "begin", "+a", "+b", "+c", "+d", "+e", "end", "+f", "+a", "-b"
        ]
    );
    let lists: Vec<_> = server
        .asked()
        .into_iter()
        .filter(|asked| asked.path.ends_with("nodes") && !asked.is_watch())
        .collect();
    assert_eq!(lists.len(), 3);
    assert!(
        lists
            .iter()
            .all(|asked| asked.method == "GET" && asked.param("limit").as_deref() == Some("500"))
    );
    let watch = server
        .asked()
        .into_iter()
        .find(|asked| asked.is_watch())
        .expect("a watch");
    assert_eq!(watch.param("resourceVersion").as_deref(), Some("100"));
    assert_eq!(watch.param("allowWatchBookmarks").as_deref(), Some("true"));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_watch_goes_on_where_it_was() {
    let table = ServedTable::new(vec![node("a")], 0);
    let server = nodes(&table);
    let mut bench = run(&server, &[Table::Nodes]);
    bench.end(Table::Nodes).await;
    table.watched(1).await;
    table.event("ADDED", node("b"));
    table.line(r#"{"type":"BOOKMARK","object":{"kind":"Node","apiVersion":"v1","metadata":{"resourceVersion":"150"}}}"#);
    bench
        .until(
            "b",
            |one| matches!(one, Observation::Node(seen) if &*seen.name == "b"),
        )
        .await;
    table.drop_watches();
    table.watched(2).await;
    table.event("ADDED", node("c"));
    bench
        .until(
            "c",
            |one| matches!(one, Observation::Node(seen) if &*seen.name == "c"),
        )
        .await;
    assert_eq!(
        story(&bench.observations),
        ["begin", "+a", "end", "+b", "+c"],
        "no list anew, nothing lost"
    );
    let last = server
        .asked()
        .into_iter()
        .rfind(|asked| asked.is_watch())
        .expect("a watch");
    assert_eq!(
        last.param("resourceVersion").as_deref(),
        Some("150"),
        "from the bookmark"
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_that_vanishes_and_comes_back_loses_nothing() {
    let table = ServedTable::new(vec![node("a")], 0);
    let server = nodes(&table);
    let mut bench = run(&server, &[Table::Nodes]);
    bench.end(Table::Nodes).await;
    table.watched(1).await;
    for _ in 0..2 {
        table.before_watch(Reply::Broken(ErrorKind::ConnectionRefused));
    }
    table.raw(Err(ErrorKind::ConnectionReset.into()));
    table.drop_watches();
    let lost = bench.lost(Table::Nodes).await;
    assert_eq!(lost.kind, LostKind::Unreachable);
    assert!(lost.message.contains("connection"), "{}", lost.message);
    bench
        .until("recovery", |one| {
            matches!(one, Observation::Back(Table::Nodes))
        })
        .await;
    let events = story(&bench.observations);
    assert!(
        !events.iter().any(|word| word.starts_with('-'))
            && events.iter().filter(|word| *word == "begin").count() == 1,
        "{events:?}"
    );
    table.event("ADDED", node("b"));
    bench
        .until(
            "b",
            |one| matches!(one, Observation::Node(seen) if &*seen.name == "b"),
        )
        .await;
    let row = bench.observations.iter().rev().find_map(|one| match one {
        Observation::Source(row) if &*row.name == "api nodes" => Some(row.clone()),
        _ => None,
    });
    let row = row.expect("a row");
    assert_eq!((row.state, row.errors > 0), (SourceState::Live, true));
}

#[tokio::test(start_paused = true)]
async fn an_expired_revision_lists_anew_and_is_no_failure() {
    let table = ServedTable::new(vec![node("a"), node("b")], 0);
    let server = nodes(&table);
    let mut bench = run(&server, &[Table::Nodes]);
    bench.end(Table::Nodes).await;
    table.watched(1).await;
    table.set(vec![node("b"), node("c")]);
    table.line(r#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old resource version"}}"#);
    bench.end(Table::Nodes).await;
    assert_eq!(
        story(&bench.observations),
        ["begin", "+a", "+b", "end", "begin", "+b", "+c", "end"]
    );
}

#[tokio::test(start_paused = true)]
async fn half_a_list_is_no_list() {
    let table = ServedTable::new(["a", "b", "c", "d"].map(node).to_vec(), 2);
    let first = json!({"metadata": {"resourceVersion": "100", "continue": "2"}, "items": [node("a"), node("b")]});
    table.before_list(Reply::Json(200, first));
    table.before_list(status(
        410,
        "Expired",
        "The provided continue parameter is too old",
    ));
    let server = nodes(&table);
    let mut bench = run(&server, &[Table::Nodes]);
    bench.end(Table::Nodes).await;
    assert_eq!(
        story(&bench.observations),
        ["begin", "+a", "+b", "begin", "+a", "+b", "+c", "+d", "end"],
        "one end, after everything"
    );
}

#[tokio::test(start_paused = true)]
async fn every_refusal_is_lost_and_never_empty() {
    let cases: Vec<(Reply, LostKind, &str)> = vec![
        (
            status(401, "Unauthorized", "Unauthorized"),
            LostKind::Login,
            "log in again",
        ),
        (
            status(403, "Forbidden", "nodes is forbidden: User \"x\""),
            LostKind::Rights,
            "list and watch on nodes",
        ),
        (
            status(500, "InternalError", "etcd"),
            LostKind::Unreachable,
            "500",
        ),
        (
            Reply::Text(502, "text/html", b"<html>bad gateway</html>".to_vec()),
            LostKind::Unreachable,
            "HTML",
        ),
        (
            Reply::Text(200, "text/html", b"<html>please log in</html>".to_vec()),
            LostKind::Unreachable,
            "login page",
        ),
        (
            Reply::Text(200, "application/json", b"{\"items\":[{\"meta".to_vec()),
            LostKind::Unreachable,
            "not what a Kubernetes API sends",
        ),
        (
            Reply::Text(200, "application/json", vec![0xff, 0xfe, 0]),
            LostKind::Unreachable,
            "no answer",
        ),
        (not_found(), LostKind::Unreachable, "does not serve nodes"),
        (
            Reply::Broken(ErrorKind::ConnectionRefused),
            LostKind::Unreachable,
            "nothing listens",
        ),
        (
            Reply::Broken(ErrorKind::UnexpectedEof),
            LostKind::Unreachable,
            "closed before",
        ),
        (
            Reply::Json(200, json!({"metadata": {}, "items": []})),
            LostKind::Unreachable,
            "",
        ),
    ];
    let all = cases
        .into_iter()
        .map(|(reply, kind, words)| refused(reply, kind, words));
    futures::future::join_all(all).await;
}

async fn refused(reply: Reply, kind: LostKind, words: &str) {
    let table = ServedTable::new(vec![node("a")], 0);
    table.before_list(reply);
    let server = nodes(&table);
    let mut bench = run(&server, &[Table::Nodes]);
    if words.is_empty() {
        // A list without a revision cannot be trusted; it is asked for again.
        bench.end(Table::Nodes).await;
        assert_eq!(story(&bench.observations), ["begin", "begin", "+a", "end"]);
        return;
    }
    let lost = bench.lost(Table::Nodes).await;
    assert_eq!(lost.kind, kind, "{}", lost.message);
    assert!(lost.message.contains(words), "{words}: {}", lost.message);
    assert!(!lost.message.contains("<html>") && !lost.message.contains('\n'));
    assert!(
        !story(&bench.observations).contains(&"end".to_owned()),
        "lost is not empty"
    );
    if kind == LostKind::Unreachable {
        bench.end(Table::Nodes).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_busy_server_is_waited_for_and_nothing_is_lost() {
    let table = ServedTable::new(vec![node("a")], 0);
    table.before_list(Reply::With(
        429,
        vec![("retry-after", "1".to_owned())],
        b"{}".to_vec(),
    ));
    let server = nodes(&table);
    let mut bench = run(&server, &[Table::Nodes]);
    bench.end(Table::Nodes).await;
    assert_eq!(story(&bench.observations), ["begin", "begin", "+a", "end"]);
    let log = server.log.lock().unwrap();
    let lists: Vec<_> = log
        .iter()
        .filter(|(_, asked)| asked.path.ends_with("nodes") && !asked.is_watch())
        .collect();
    assert_eq!(lists[1].0 - lists[0].0, Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn nonsense_in_a_watch_costs_itself_and_no_more() {
    let table = ServedTable::new(vec![node("a")], 0);
    let server = nodes(&table);
    let mut bench = run(&server, &[Table::Nodes]);
    bench.end(Table::Nodes).await;
    table.watched(1).await;
    for line in [
        "{",
        "7",
        "null",
        "\u{feff}",
        r#"{"type":"WHAT","object":{}}"#,
        r#"{"type":"ADDED"}"#,
        "<html>",
        "",
    ] {
        table.line(line);
    }
    table.event(
        "ADDED",
        json!({"metadata": {"name": null}, "spec": null, "status": 7}),
    );
    table.event(
        "ADDED",
        json!({"metadata": {"name": "odd", "labels": [1]}, "spec": {"taints": {}}, "status": null}),
    );
    table.event("MODIFIED", node("b"));
    bench
        .until(
            "b",
            |one| matches!(one, Observation::Node(seen) if &*seen.name == "b"),
        )
        .await;
    assert_eq!(
        story(&bench.observations),
        ["begin", "+a", "end", "+odd", "+b"]
    );
    // A part that is no text at all breaks the stream; the watch goes on.
    table.raw(Ok(Bytes::from_static(&[0xff, 0xfe, b'\n'])));
    table.watched(2).await;
    table.event("MODIFIED", node("c"));
    bench
        .until(
            "c on the next watch",
            |one| matches!(one, Observation::Node(seen) if &*seen.name == "c"),
        )
        .await;
    assert_eq!(
        story(&bench.observations),
        ["begin", "+a", "end", "+odd", "+b", "lost", "back", "+c"],
        "no list anew"
    );
}

#[tokio::test(start_paused = true)]
async fn a_table_that_is_not_served_is_absent() {
    let server = Server::new(|_| not_found());
    let mut bench = run(&server, &[Table::JobSets]);
    bench
        .until("absence", |one| {
            matches!(one, Observation::Absent(Table::JobSets))
        })
        .await;
    assert!(
        !bench
            .observations
            .iter()
            .any(|one| matches!(one, Observation::Lost(..)))
    );
}

#[tokio::test(start_paused = true)]
async fn job_sets_are_asked_for_in_the_version_that_is_served() {
    let table = ServedTable::new(
        vec![
            json!({"metadata": {"name": "js", "namespace": "ml", "resourceVersion": "1"},
            "spec": {"replicatedJobs": [{"replicas": 2, "template": {"spec": {"parallelism": 2}}}]}}),
        ],
        0,
    );
    let served = table.clone();
    let server = Server::new(move |asked| match asked.path.as_str() {
        "/apis/jobset.x-k8s.io" => Reply::Json(
            200,
            json!({"kind": "APIGroup", "preferredVersion": {"version": "v1beta9"}}),
        ),
        "/apis/jobset.x-k8s.io/v1beta9/jobsets" => served.answer(asked),
        _ => not_found(),
    });
    let mut bench = run(&server, &[Table::JobSets]);
    bench.end(Table::JobSets).await;
    let gang = bench.observations.iter().find_map(|one| match one {
        Observation::Workload(seen) => seen.gang_min,
        _ => None,
    });
    assert_eq!(gang, Some(4));
}

#[tokio::test(start_paused = true)]
async fn without_cluster_wide_rights_one_namespace_is_shown_with_a_notice() {
    let table = ServedTable::new(
        vec![json!({"metadata": {"name": "p", "namespace": "ml", "resourceVersion": "1"}})],
        0,
    );
    let served = table.clone();
    let server = Server::new(move |asked| match asked.path.as_str() {
        "/api/v1/namespaces/ml/pods" => served.answer(asked),
        "/api/v1/pods" => status(403, "Forbidden", "pods is forbidden"),
        _ => not_found(),
    });
    let all = Namespaces::All {
        otherwise: "ml".into(),
        of_context: true,
    };
    let mut bench = run_with(&server, &[Table::Pods], all, None, Dialects::builtin());
    bench.end(Table::Pods).await;
    let row = bench
        .until("row", |one| matches!(one, Observation::Source(row) if &*row.name == "api pods" && row.message.contains("namespace ml")))
        .await;
    assert!(
        matches!(row, Observation::Source(row) if &*row.message == "reading namespace ml (that of the context); others: -n" && row.state == SourceState::Live)
    );
    assert!(
        !bench
            .observations
            .iter()
            .any(|one| matches!(one, Observation::Lost(..)))
    );
}

#[tokio::test(start_paused = true)]
async fn streamed_lists_are_used_where_served_and_left_where_not() {
    for refuses in [false, true] {
        let table = ServedTable::new(vec![node("a")], 0);
        let served = table.clone();
        let server = Server::new(move |asked| match asked.path.as_str() {
            "/version" => Reply::Json(
                200,
                json!({"major": "1", "minor": "35", "gitVersion": "v1.35.0"}),
            ),
            "/api/v1/nodes" if asked.query.contains("sendInitialEvents") && refuses => status(
                422,
                "Invalid",
                "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled",
            ),
            "/api/v1/nodes" => served.answer(asked),
            _ => not_found(),
        });
        let mut bench = run(&server, &[Table::Nodes]);
        if !refuses {
            table.watched(1).await;
            table.event("ADDED", node("a"));
            table.line(r#"{"type":"BOOKMARK","object":{"kind":"Node","apiVersion":"v1","metadata":{"resourceVersion":"101","annotations":{"k8s.io/initial-events-end":"true"}}}}"#);
        }
        bench.end(Table::Nodes).await;
        assert_eq!(
            story(&bench.observations),
            ["begin", "+a", "end"].to_vec(),
            "refuses: {refuses}"
        );
        let listed = server
            .asked()
            .iter()
            .any(|asked| asked.path.ends_with("nodes") && !asked.is_watch());
        assert_eq!(listed, refuses);
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_at_once_does_not_storm_the_server() {
    let table = ServedTable::new(vec![node("a")], 0);
    let server = nodes(&table);
    for _ in 0..10_000 {
        table.before_watch(Reply::Text(200, "application/json", Vec::new()));
    }
    let mut bench = run(&server, &[Table::Nodes]);
    bench.during(Duration::from_secs(600)).await;
    let log = server.log.lock().unwrap();
    let start = log[0].0;
    let soon = log
        .iter()
        .filter(|(at, _)| *at - start <= Duration::from_secs(3))
        .count();
    assert_eq!(soon, 7, "of everything, in three seconds");
    let watches: Vec<_> = log
        .iter()
        .filter(|(_, asked)| asked.is_watch())
        .map(|(at, _)| *at)
        .collect();
    let waits: Vec<u64> = watches
        .windows(2)
        .map(|pair| (pair[1] - pair[0]).as_secs())
        .collect();
    assert_eq!(waits[..6], [0, 1, 2, 4, 8, 16]);
    assert!(
        waits.len() > 20 && waits[6..].iter().all(|wait| *wait == 30),
        "{waits:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn the_servers_clock_is_found() {
    let server = Server::new(|asked| match asked.path.as_str() {
        "/version" => Reply::With(
            200,
            vec![
                ("content-type", "application/json".into()),
                ("date", "Fri, 15 Jan 2027 09:00:00 GMT".into()),
            ],
            br#"{"major":"1","minor":"30","gitVersion":"v1.30.0"}"#.to_vec(),
        ),
        _ => not_found(),
    });
    let mut bench = run(&server, &[]);
    let skew = bench
        .until("skew", |one| matches!(one, Observation::Skew(_)))
        .await;
    // The clock of these tests stands at 2027-01-15T08:00:00Z, and the answer was written within the second that it names.
    assert!(matches!(skew, Observation::Skew(3_600_499)), "{skew:?}");
}

#[tokio::test(start_paused = true)]
async fn dropped_sources_end() {
    let table = ServedTable::new(vec![node("a")], 0);
    let server = nodes(&table);
    let mut bench = run(&server, &[Table::Nodes]);
    bench.end(Table::Nodes).await;
    drop(bench.sources);
    within("the end of every sender", async {
        while bench.seen.recv().await.is_some() {}
    })
    .await;
}
