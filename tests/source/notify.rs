//! Messages to receivers in this process, which answer, fail, redirect and hang.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use source::notify::{Notifier, NotifyEndpoint};
use source::post::PostOutcome;
use source::scrape::Endpoint;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::api::{PATIENCE, skip, within};

/// The head and the body of each request that came.
type Came = watch::Receiver<Vec<String>>;

/// A receiver that always gives this answer; none where it is empty: then it hangs.
async fn receiver(answer: &'static str) -> (String, Came) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("has one");
    let (seen, came) = watch::channel(Vec::new());
    tokio::spawn(async move {
        let mut hung = Vec::new();
        loop {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let mut text = String::new();
            while !text.ends_with('}') {
                let mut part = [0; 4096];
                let read = stream.read(&mut part).await.expect("is read");
                assert!(read > 0, "the request ends early: {text}");
                text.push_str(&String::from_utf8_lossy(&part[..read]));
            }
            seen.send_modify(|came| came.push(text));
            if answer.is_empty() {
                hung.push(stream);
                continue;
            }
            let text =
                format!("HTTP/1.1 {answer}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            let _ = stream.write_all(text.as_bytes()).await;
        }
    });
    (format!("http://{address}"), came)
}

fn to(url: &str) -> NotifyEndpoint {
    NotifyEndpoint {
        endpoint: Endpoint {
            name: "chat".to_owned(),
            url: url.to_owned(),
            ..Endpoint::default()
        },
        url_file: None,
        path: "",
        timeout: PATIENCE,
    }
}

async fn send(to: &NotifyEndpoint) -> PostOutcome {
    Notifier::default().send(to, "{\"a\":1}".to_owned()).await
}

fn again(outcome: PostOutcome) -> String {
    match outcome {
        PostOutcome::Again(_, why) => why,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_message_is_json_with_a_token_at_the_path_of_the_protocol() {
    let folder = tempfile::tempdir().expect("a folder");
    let token = folder.path().join("token");
    std::fs::write(&token, "secret\n").expect("is written");
    let (url, came) = receiver("200 OK").await;
    let mut options = to(&format!("{url}/am/"));
    options.path = "/api/v2/alerts";
    options.endpoint.bearer_file = Some(token);
    assert_eq!(send(&options).await, PostOutcome::Taken);
    options.endpoint.url = format!("{url}/api/v2/alerts?x=1");
    assert_eq!(send(&options).await, PostOutcome::Taken);
    let came = came.borrow().clone();
    let lower = came[0].to_ascii_lowercase();
    assert!(
        lower.starts_with("post /am/api/v2/alerts http/1.1\r\n"),
        "{lower}"
    );
    for line in [
        "content-type: application/json",
        "authorization: bearer secret",
    ] {
        assert!(
            lower.lines().any(|known| known == line),
            "{line} in {lower}"
        );
    }
    assert!(came[0].ends_with("\r\n\r\n{\"a\":1}"), "{}", came[0]);
    assert!(
        came[1].starts_with("POST /api/v2/alerts?x=1 "),
        "{}",
        came[1]
    );
}

#[tokio::test]
async fn an_answer_says_whether_it_may_be_sent_again() {
    for (answer, again, expected) in [
        ("500 Internal Server Error", true, "answered 500; it failed"),
        ("503 Service Unavailable", true, "answered 503"),
        ("429 Too Many Requests", true, "it is throttling"),
        ("400 Bad Request", false, "it does not accept the message"),
        ("403 Forbidden", false, "check token_file"),
        ("404 Not Found", false, "check the address"),
    ] {
        let (url, came) = receiver(answer).await;
        let why = match send(&to(&url)).await {
            PostOutcome::Again(_, why) if again => why,
            PostOutcome::Rejected(why) if !again => why,
            other => panic!("{answer}: {other:?}"),
        };
        assert!(why.contains(expected), "{answer}: {why}");
        assert_eq!(came.borrow().len(), 1, "sent once");
    }
    let (url, _) = receiver("429 Too Many Requests\r\nRetry-After: 7").await;
    let outcome = send(&to(&url)).await;
    let asked = matches!(outcome, PostOutcome::Again(Some(wait), _) if wait.as_secs() == 7);
    assert!(asked, "{outcome:?}");
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let (elsewhere, came) = receiver("200 OK").await;
    let answer: &'static str = format!("307 Temporary Redirect\r\nLocation: {elsewhere}/").leak();
    let (url, _) = receiver(answer).await;
    let PostOutcome::Rejected(why) = send(&to(&url)).await else {
        panic!("is refused");
    };
    assert!(why.contains("redirects are not followed"), "{why}");
    assert!(came.borrow().is_empty());
}

#[tokio::test]
async fn a_receiver_that_hangs_is_left() {
    let (url, mut came) = receiver("").await;
    let mut options = to(&url);
    options.timeout = 10 * PATIENCE;
    let limit = options.timeout;
    let sent = tokio::spawn(async move { send(&options).await });
    within("the message", came.wait_for(|came| came.len() == 1))
        .await
        .expect("the receiver goes on");
    skip(limit).await;
    let outcome = within("the end of the limit", sent)
        .await
        .expect("no panic");
    let why = again(outcome);
    let expected = format!("no answer within {} s", limit.as_secs());
    assert!(why.starts_with(&expected), "{why}");
    assert_eq!(came.borrow().len(), 1);
}

#[tokio::test]
async fn a_certificate_of_an_unknown_authority_is_refused_until_its_ca_is_named() {
    let server = super::simulated::served(sim::serve::ServeOptions::default()).await;
    let mut options = to(&format!("{}/hook", server.url));
    let why = again(send(&options).await);
    assert!(why.contains("no TLS connection; give the ca_file"), "{why}");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("ca.pem");
    let (_, ca) = server
        .kubeconfig
        .split_once("certificate-authority-data: ")
        .expect("has a CA");
    let ca = ca.lines().next().expect("a line").trim();
    std::fs::write(&file, STANDARD.decode(ca).expect("is base64")).expect("is written");
    options.endpoint.ca_file = Some(file.clone());
    let outcome = send(&options).await;
    let answered = matches!(&outcome, PostOutcome::Rejected(why) if why.contains("answered 401"));
    assert!(
        answered,
        "it is no receiver, but it is spoken to: {outcome:?}"
    );
    std::fs::write(&file, "no certificate").expect("is written");
    let why = again(send(&options).await);
    assert!(why.contains("contains no certificate"), "{why}");
}

#[tokio::test]
async fn an_address_of_a_file_is_read_each_time_and_never_repeated() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("url");
    let mut options = to("");
    options.url_file = Some(file.clone());
    let why = again(send(&options).await);
    assert!(
        why.contains("url_file") && why.contains("cannot be read"),
        "{why}"
    );
    std::fs::write(&file, "services/T0/B0/very-secret").expect("is written");
    let why = again(send(&options).await);
    assert!(why.contains("must hold one address"), "{why}");
    assert!(!why.contains("very-secret"), "{why}");
    std::fs::write(&file, "http://127.0.0.1:1/services/very-secret").expect("is written");
    let why = again(send(&options).await);
    assert!(why.contains("nothing listens there"), "{why}");
    assert!(!why.contains("very-secret"), "{why}");
    let (url, came) = receiver("200 OK").await;
    std::fs::write(&file, format!("{url}/services/very-secret\n")).expect("is written");
    assert_eq!(send(&options).await, PostOutcome::Taken);
    let came = came.borrow();
    assert!(
        came[0].starts_with("POST /services/very-secret "),
        "{}",
        came[0]
    );
}
