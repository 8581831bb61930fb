//! Faults on request.

use std::time::Duration;

use serde_json::json;
use sim::{InjectedFaults, Service, User};

use super::{as_user, cluster, get, send, within};

fn set(service: &Service, faults: InjectedFaults) {
    service.cluster().set_faults(faults);
}

#[tokio::test(start_paused = true)]
async fn errors_come_as_often_as_asked_for() {
    let service = cluster();
    set(
        &service,
        InjectedFaults {
            too_many: 1,
            retry_after_seconds: 2,
            html: 1,
            server_errors: 1,
            ..InjectedFaults::default()
        },
    );
    let html = get(&service, "/api/v1/nodes").await;
    assert!(html.code == 502 && html.text.starts_with("<html>"));
    let error = get(&service, "/api/v1/nodes").await;
    assert_eq!(
        (error.code, error.json()["reason"].as_str()),
        (500, Some("InternalError"))
    );
    let busy = get(&service, "/api/v1/nodes").await;
    assert_eq!(
        (busy.code, busy.headers["retry-after"].to_str().ok()),
        (429, Some("2"))
    );
    assert_eq!(get(&service, "/api/v1/nodes").await.code, 200);
}

#[tokio::test(start_paused = true)]
async fn tokens_expire_and_come_back() {
    let service = cluster();
    set(
        &service,
        InjectedFaults {
            tokens_expired: true,
            ..InjectedFaults::default()
        },
    );
    assert_eq!(get(&service, "/api/v1/nodes").await.code, 401);
    // The admin can take it back over the wire.
    assert_eq!(
        send(&service, "DELETE", "/sim/faults", &[], "").await.code,
        200
    );
    assert_eq!(get(&service, "/api/v1/nodes").await.code, 200);
}

#[tokio::test(start_paused = true)]
async fn faults_are_set_over_the_wire_by_the_admin_only() {
    let service = cluster();
    let set = send(
        &service,
        "POST",
        "/sim/faults?broken=pods&latencyMs=1",
        &[],
        "",
    )
    .await;
    assert_eq!((set.code, &set.json()["broken"]), (200, &json!(["pods"])));
    assert_eq!(get(&service, "/api/v1/pods").await.code, 500);
    assert_eq!(get(&service, "/api/v1/nodes").await.code, 200);
    assert_eq!(
        send(&service, "POST", "/sim/faults?nonsense=1", &[], "")
            .await
            .code,
        400
    );
    let put = json!({"serverErrors": 1}).to_string();
    assert_eq!(
        send(&service, "PUT", "/sim/faults", &[], put).await.code,
        200
    );
    assert_eq!(get(&service, "/api/v1/nodes").await.code, 500);
    let viewer = as_user(&service, User::Viewer);
    assert_eq!(
        send(&viewer, "POST", "/sim/faults?html=1", &[], "")
            .await
            .code,
        403
    );
}

#[tokio::test(start_paused = true)]
async fn a_hung_server_responds_after_the_fault_ends() {
    let service = cluster();
    set(
        &service,
        InjectedFaults {
            silent: true,
            ..InjectedFaults::default()
        },
    );
    let waiting = tokio::spawn({
        let service = service.clone();
        async move { get(&service, "/api/v1/nodes").await.code }
    });
    // The clock is paused: an hour passes when nothing is left to do.
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert!(!waiting.is_finished());
    set(&service, InjectedFaults::default());
    let answered = within("the answer", waiting).await;
    assert_eq!(answered.expect("no panic"), 200);
}

#[tokio::test(start_paused = true)]
async fn watches_drop_and_expire_on_request() {
    let service = cluster();
    let list = get(&service, "/api/v1/pods").await.json();
    let from = list["metadata"]["resourceVersion"]
        .as_str()
        .expect("a revision")
        .to_owned();
    let path = format!("/api/v1/pods?watch=1&resourceVersion={from}");
    let dropped = tokio::spawn({
        let (service, path) = (service.clone(), path.clone());
        async move { get(&service, &path).await }
    });
    // The watch is open once nothing is left to do.
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(!dropped.is_finished());
    let mut faults = service.cluster().faults();
    faults.watch_drops += 1;
    set(&service, faults);
    let dropped = within("the end of the watch", dropped).await;
    assert_eq!(dropped.expect("no panic").text, "");
    set(
        &service,
        InjectedFaults {
            expired_watches: 1,
            ..service.cluster().faults()
        },
    );
    let gone = get(&service, &path).await;
    assert!(
        gone.text.contains("\"ERROR\"") && gone.text.contains("410"),
        "{}",
        gone.text
    );
}
