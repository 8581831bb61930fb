//! Everything is read again when an operator asks for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use model::fleet::observe::{Observation, Table};
use serde_json::json;
use source::reread::SPACING;

use super::api::*;

#[tokio::test(start_paused = true)]
async fn a_table_that_is_watched_is_listed_anew_and_no_sooner_than_allowed() {
    let table = ServedTable::new(vec![node("a"), node("b")], 0);
    let listed = table.clone();
    let server = Server::new(move |asked| match asked.path.as_str() {
        "/api/v1/nodes" => listed.answer(asked),
        _ => not_found(),
    });
    let mut bench = run(&server, &[Table::Nodes]);
    bench.end(Table::Nodes).await;
    table.watched(1).await;
    // No event tells of this: only a new list shows it.
    table.set(vec![node("a"), node("c")]);
    assert_eq!(bench.sources.read_again(), Ok(()));
    bench.end(Table::Nodes).await;
    let events = story(&bench.observations);
    assert_eq!(
        events,
        ["begin", "+a", "+b", "end", "begin", "+a", "+c", "end"]
    );
    let left = bench.sources.read_again().expect_err("asked just now");
    assert_eq!(left, SPACING);
}

#[tokio::test(start_paused = true)]
async fn a_table_that_was_not_served_is_looked_for_at_once() {
    let there = Arc::new(AtomicBool::new(false));
    let served = Arc::clone(&there);
    let table = ServedTable::new(Vec::new(), 0);
    let server = Server::new(move |asked| match asked.path.as_str() {
        _ if !served.load(Ordering::SeqCst) => not_found(),
        "/apis/jobset.x-k8s.io" => Reply::Json(
            200,
            json!({"kind": "APIGroup", "preferredVersion": {"version": "v1beta9"}}),
        ),
        "/apis/jobset.x-k8s.io/v1beta9/jobsets" => table.answer(asked),
        _ => not_found(),
    });
    let mut bench = run(&server, &[Table::JobSets]);
    let absent = |one: &Observation| matches!(one, Observation::Absent(Table::JobSets));
    bench.until("absence", absent).await;
    there.store(true, Ordering::SeqCst);
    // What discovery said is believed for two seconds whatever happens.
    tokio::time::advance(Duration::from_millis(2100)).await;
    assert_eq!(bench.sources.read_again(), Ok(()));
    bench.end(Table::JobSets).await;
}
