//! YAML, events and logs of the simulated fleet, read as the console reads them.

use std::time::Duration;

use super::api::{Reply, SeenRequest, Server, clock, within};
use model::base::{Moment, Name, ObjectKey};
use model::object::{LogWant, ObjectNews, ObjectRef};
use serde_json::json;
use sim::serve::embed;
use sim::world::{Options, World};
use source::client::{Connection, client_for};
use source::{fetch, logs};
use tokio::sync::mpsc;

/// A fleet whose time runs fast, and its way in. No path is proxied: the gate lets only plain reads through.
fn fleet() -> Connection {
    let at = Moment::parse("2026-11-21T08:00:00Z").unwrap();
    let world = World::new(Options {
        seed: 3,
        nodes: Some(24),
        devices: None,
        past: true,
        at,
    });
    let service = embed(Box::new(world), clock(), 200.0, 3).unwrap();
    client_for(service, "demo", clock(), [])
}

/// Running pods that hold devices, as the API lists them.
async fn running(connection: &Connection) -> Vec<serde_json::Value> {
    let request = http::Request::get("/api/v1/pods?fieldSelector=status.phase%3DRunning")
        .body(Vec::new())
        .unwrap();
    let list: serde_json::Value = connection.client.request(request).await.unwrap();
    list["items"].as_array().unwrap().clone()
}

fn key(pod: &serde_json::Value) -> ObjectKey {
    let text = |field: &str| Name::new(pod["metadata"][field].as_str().unwrap());
    ObjectKey::new(text("namespace"), text("name"))
}

#[tokio::test(start_paused = true)]
async fn an_object_reads_as_yaml_without_noise() {
    let connection = fleet();
    let pods = running(&connection).await;
    let thing = ObjectRef::new("Pod", key(&pods[0]));
    let lines = fetch::yaml(&connection.client, &thing).await.unwrap();
    assert_eq!(lines[0], "apiVersion: v1");
    assert!(lines.contains(&String::from("kind: Pod")));
    assert!(lines.iter().any(|line| line.trim() == "containers:"));
    assert!(!lines.iter().any(|line| line.contains("managedFields")));
    // A job's kind is found by what the cluster serves; what is not there says so in words.
    let owned = pods.iter().find_map(|pod| {
        let owner = pod["metadata"]["ownerReferences"].get(0)?;
        let name = Name::new(owner["name"].as_str()?);
        let kind = owner["kind"].as_str()?;
        Some(ObjectRef::new(
            kind,
            ObjectKey::new(key(pod).namespace, name),
        ))
    });
    let owner = owned.unwrap();
    let lines = fetch::yaml(&connection.client, &owner).await.unwrap();
    assert!(
        lines.contains(&format!("kind: {}", owner.kind)),
        "{lines:?}"
    );
    let gone = ObjectRef::new("Pod", ObjectKey::new("default", "nobody"));
    let why = fetch::yaml(&connection.client, &gone).await.unwrap_err();
    assert!(why.starts_with("404: ") && why.contains("nobody"), "{why}");
    let strange = ObjectRef::new("Zeppelin", ObjectKey::new("default", "z"));
    let why = fetch::yaml(&connection.client, &strange).await.unwrap_err();
    assert_eq!(why, "the cluster does not serve Zeppelin");
}

#[tokio::test(start_paused = true)]
async fn events_about_an_object_come_latest_first() {
    let connection = fleet();
    let first = async {
        loop {
            let pods = running(&connection).await;
            let things: Vec<ObjectRef> = pods
                .iter()
                .map(|pod| ObjectRef::new("Pod", key(pod)))
                .collect();
            let (events, more) = fetch::events(&connection.client, &things).await.unwrap();
            if !events.is_empty() {
                return (events, more);
            }
            // A minute of the fleet.
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    };
    let (events, more) = within("a pod that is started", first).await;
    assert!(!more);
    assert!(events.is_sorted_by(|a, b| a.last >= b.last));
    for event in &events {
        assert!(
            event.about.starts_with("Pod ") && !event.reason.is_empty(),
            "{event:?}"
        );
        assert!(event.last.is_some() && event.count >= 1, "{event:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn logs_of_a_gang_come_as_they_are_written() {
    let connection = fleet();
    let pods = running(&connection).await;
    // Two pods of one job.
    let mut owners: std::collections::BTreeMap<String, Vec<ObjectKey>> = Default::default();
    for pod in &pods {
        let owner = pod["metadata"]["ownerReferences"][0]["uid"].as_str();
        owners
            .entry(owner.unwrap_or_default().to_owned())
            .or_default()
            .push(key(pod));
    }
    let pods = owners
        .into_iter()
        .find(|(owner, pods)| !owner.is_empty() && pods.len() >= 2)
        .unwrap()
        .1[..2]
        .to_vec();
    let (out, mut news) = mpsc::channel(4);
    let want = LogWant {
        pods,
        container: None,
        previous: false,
        tail: 5,
    };
    let task = tokio::spawn(logs::follow(connection.client.clone(), want, out));
    let mut containers = None;
    let mut lines = [0, 0];
    let heard = async {
        while let Some(piece) = news.recv().await {
            match piece {
                ObjectNews::Containers(all, shown) => {
                    assert!(all.contains(&shown));
                    containers = Some(shown);
                }
                ObjectNews::Lines(some) => {
                    for line in some {
                        assert!(line.at.is_some() && !line.words.chars().any(char::is_control));
                        lines[line.pod as usize] += 1;
                    }
                    // More than the last five of each: the log is followed.
                    if lines.iter().all(|count| *count > 5) {
                        return;
                    }
                }
                other => panic!("{other:?}"),
            }
        }
        panic!("the log ends: {lines:?} lines came");
    };
    within("six lines of each pod", heard).await;
    assert!(containers.is_some());
    // Nobody listens any more: the requests end.
    drop(news);
    within("the end of the requests", task).await.unwrap();
}

/// A pod whose log never ends, in one line or in many, and which as an object never ends.
fn endless(asked: &SeenRequest, line: &'static [u8]) -> Reply {
    let is_log = asked.path.ends_with("/log");
    if !is_log && !asked.path.ends_with("/endless") {
        return Reply::Json(200, json!({"spec": {"containers": [{"name": "main"}]}}));
    }
    let (feed, stream) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        // 64 MiB are without end for whoever reads.
        let piece = bytes::Bytes::from(line.repeat((1 << 16) / line.len()));
        for _ in 0..1024 {
            if feed.send(Ok(piece.clone())).is_err() {
                return;
            }
            tokio::task::yield_now().await;
        }
    });
    Reply::Stream(stream)
}

#[tokio::test(start_paused = true)]
async fn logs_and_objects_without_an_end_are_cut() {
    const LINES: [&[u8]; 2] = [
        b"\x1b]52;c;aGk=\x07\xff evil \xe2\x80\xae ",
        b"2026-11-21T08:00:00Z a\x1b[2Jb\x9b31mc\xc2\x9b31m\xe2\x80\xaed\n",
    ];
    for (line, longest) in [(LINES[0], 8 << 10), (LINES[1], 40)] {
        let server = Server::new(move |asked| endless(asked, line));
        let connection = client_for(server, "demo", clock(), []);
        let (out, mut news) = mpsc::channel(1);
        let want = LogWant {
            pods: vec![ObjectKey::new("ml", "p")],
            container: None,
            previous: true,
            tail: 5,
        };
        let task = tokio::spawn(logs::follow(connection.client.clone(), want, out));
        let mut lines = 0;
        while let Some(piece) = news.recv().await {
            let ObjectNews::Lines(some) = piece else {
                continue;
            };
            assert!(some.len() <= 256, "{} lines at once", some.len());
            for line in &some {
                let words = &line.words;
                assert!(words.chars().count() <= longest + 1, "{}", words.len());
                assert_eq!(model::base::name::printable(words), *words);
            }
            lines += some.len();
            if lines > 1_000 {
                break;
            }
        }
        assert!(lines > 0);
        drop(news);
        let ends = within("the end of a log that nobody reads", task).await;
        ends.expect("no panic");
        let thing = ObjectRef::new("Pod", ObjectKey::new("ml", "endless"));
        let result = fetch::yaml(&connection.client, &thing).await;
        let result = result.expect_err("has no end");
        assert!(result.contains("larger than 8 MiB"), "{result}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_container_without_a_previous_run_gives_a_message() {
    let server = Server::new(|asked: &SeenRequest| match asked.path.ends_with("/log") {
        true => Reply::Json(
            400,
            json!({
                "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 400, "reason": "BadRequest",
                "message": "previous terminated container \"main\" in pod \"p\" not found",
            }),
        ),
        false => Reply::Json(200, json!({"spec": {"containers": [{"name": "main"}]}})),
    });
    let connection = client_for(server, "demo", clock(), []);
    let (out, mut news) = mpsc::channel(4);
    let want = LogWant {
        pods: vec![ObjectKey::new("ml", "p")],
        container: None,
        previous: true,
        tail: 5,
    };
    logs::follow(connection.client.clone(), want, out).await;
    let mut ended = None;
    while let Some(piece) = news.recv().await {
        if let ObjectNews::Ended(_, why) = piece {
            ended = why;
        }
    }
    assert_eq!(
        ended.as_deref(),
        Some("container main of pod ml/p has no earlier log on the node")
    );
}
