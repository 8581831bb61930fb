//! Credentials that come from plugins and files, end, and are renewed; servers that move.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Request;
use model::base::Moment;
use source::api_stats::Clock;
use source::client::connect;
use source::kubeconfig::ContextChoice;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

use super::api::{clock, skip, within};

/// A plain HTTP server that accepts one token and notes the ones it is shown.
struct Gatekeeper {
    port: u16,
    accepts: Arc<Mutex<String>>,
    shown: Arc<Mutex<Vec<String>>>,
}

async fn gatekeeper(accepts: &str) -> Gatekeeper {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let accepts = Arc::new(Mutex::new(accepts.to_owned()));
    let shown = Arc::new(Mutex::new(Vec::new()));
    let (wants, notes) = (Arc::clone(&accepts), Arc::clone(&shown));
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let (wants, notes) = (Arc::clone(&wants), Arc::clone(&notes));
            tokio::spawn(async move {
                let (read, mut write) = socket.into_split();
                let mut lines = BufReader::new(read).lines();
                let mut token = String::new();
                while let Ok(Some(line)) = lines.next_line().await {
                    if let Some(shown) = line
                        .to_ascii_lowercase()
                        .strip_prefix("authorization: bearer ")
                    {
                        token = shown.to_owned();
                    }
                    if line.is_empty() {
                        notes.lock().unwrap().push(token.clone());
                        let welcome = *wants.lock().unwrap() == token;
                        let (code, body) = if welcome {
                            (
                                "200 OK",
                                r#"{"major":"1","minor":"30","gitVersion":"v1.30.0"}"#,
                            )
                        } else {
                            (
                                "401 Unauthorized",
                                r#"{"kind":"Status","status":"Failure","code":401,"message":"Unauthorized"}"#,
                            )
                        };
                        let answer = format!(
                            "HTTP/1.1 {code}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                            body.len()
                        );
                        if write.write_all(answer.as_bytes()).await.is_err() {
                            return;
                        }
                        token.clear();
                    }
                }
            });
        }
    });
    Gatekeeper {
        port,
        accepts,
        shown,
    }
}

fn write_config(folder: &Path, port: u16, user: &str) -> ContextChoice {
    let file = folder.join("config");
    std::fs::write(
        &file,
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts:\n- name: c\n  context: {{cluster: k, user: u}}\n\
             clusters:\n- name: k\n  cluster: {{server: \"http://127.0.0.1:{port}\"}}\nusers:\n- name: u\n  user:\n{user}\n"
        ),
    )
    .unwrap();
    ContextChoice {
        kubeconfig: Some(file),
        environment: Arc::new(|_| None),
        ..ContextChoice::default()
    }
}

fn script(folder: &Path, body: &str) -> PathBuf {
    let path = folder.join("plugin.sh");
    std::fs::write(&path, format!("{body}\n")).unwrap();
    path
}

/// A user whose plugin is this script. The shell reads it: a file that was just written cannot be executed while another
/// test's process, started meanwhile, still has it open for writing.
fn exec(script: &Path, more: &str) -> String {
    command(
        "/bin/sh",
        &format!("      args: [\"{}\"]\n{more}", script.display()),
    )
}

fn command(command: &str, more: &str) -> String {
    format!(
        "    exec:\n      apiVersion: client.authentication.k8s.io/v1\n      command: {command}\n{more}"
    )
}

async fn version(choice: &ContextChoice) -> Result<String, String> {
    let connection = connect(choice.clone(), clock(), [], false).expect("a config");
    ask(&connection.client).await
}

async fn ask(client: &kube::Client) -> Result<String, String> {
    let request = Request::get("/version").body(Vec::new()).unwrap();
    let answer = within("an answer to /version", client.request_text(request)).await;
    answer.map_err(|error| {
        let table = model::fleet::observe::Table::Nodes;
        source::api_error::ApiError::of_client(table, "list", &error).message
    })
}

const GIVES: &str = r#"echo '{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{"token":"'$TOKEN'"}}'"#;

#[tokio::test]
async fn a_plugin_has_no_terminal_and_its_words_go_into_the_error() {
    let folder = tempfile::tempdir().unwrap();
    let server = gatekeeper("one").await;
    // It asks on its input, chatters on its error output, notes what it was told, and gives a token.
    let body = format!(
        "echo 'Password: ' >&2\nread answer\necho \"read:$answer\" > {0}/heard\necho \"$KUBERNETES_EXEC_INFO\" > {0}/told\nTOKEN=one\n{GIVES}",
        folder.path().display()
    );
    let plugin = script(folder.path(), &body);
    let choice = write_config(
        folder.path(),
        server.port,
        &exec(&plugin, "      interactiveMode: IfAvailable"),
    );
    assert!(
        version(&choice)
            .await
            .expect("the token is accepted")
            .contains("v1.30.0")
    );
    assert_eq!(
        std::fs::read_to_string(folder.path().join("heard")).unwrap(),
        "read:\n",
        "its input is empty"
    );
    let input = std::fs::read_to_string(folder.path().join("told")).unwrap();
    assert!(
        input.contains("\"interactive\":false")
            && input.contains("client.authentication.k8s.io/v1"),
        "{input}"
    );

    let plugin = script(
        folder.path(),
        "echo 'first line' >&2\necho 'please run corp-login' >&2\nexit 7",
    );
    let choice = write_config(folder.path(), server.port, &exec(&plugin, ""));
    let error = version(&choice).await.expect_err("it fails");
    for words in [
        "credential plugin /bin/sh failed",
        "exit status: 7",
        "please run corp-login",
        "in a shell",
    ] {
        assert!(error.contains(words), "{words}: {error}");
    }
}

#[tokio::test]
async fn plugin_faults_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let server = gatekeeper("one").await;
    for (body, more, words) in [
        ("echo hello", "", "not an ExecCredential"),
        (
            "echo '{\"kind\":\"ExecCredential\"}'",
            "",
            "without a status",
        ),
        (
            "echo '{\"status\":{}}'",
            "",
            "neither a token nor a certificate",
        ),
        (
            "exit 0",
            "      interactiveMode: Always",
            "must ask on a terminal",
        ),
    ] {
        let plugin = script(folder.path(), body);
        let choice = write_config(folder.path(), server.port, &exec(&plugin, more));
        let error = version(&choice).await.expect_err(words);
        assert!(error.contains(words), "{words}: {error}");
    }
    let choice = write_config(
        folder.path(),
        server.port,
        &command(
            "no-such-plugin",
            "      installHint: brew install no-such-plugin",
        ),
    );
    let error = version(&choice).await.expect_err("it is not there");
    assert!(
        error.contains("no-such-plugin cannot be run") && error.contains("brew install"),
        "{error}"
    );
    assert!(
        server.shown.lock().unwrap().is_empty(),
        "nothing was sent without a credential"
    );
}

#[tokio::test]
async fn a_plugin_that_fails_is_started_once_and_then_ever_more_rarely() {
    let folder = tempfile::tempdir().unwrap();
    let server = gatekeeper("one").await;
    let starts = folder.path().join("starts");
    let body = format!("echo x >> {}\necho 'log in' >&2\nexit 1", starts.display());
    let plugin = script(folder.path(), &body);
    let choice = write_config(folder.path(), server.port, &exec(&plugin, ""));
    let seconds = Arc::new(AtomicI64::new(0));
    let read = Arc::clone(&seconds);
    let clock: Clock = Arc::new(move || Moment::from_seconds(read.load(Ordering::SeqCst)));
    let connection = connect(choice, clock, [], false).expect("a config");
    let count = || std::fs::read_to_string(&starts).unwrap_or_default().len() / 2;
    // All tables ask at once, and again.
    for _ in 0..2 {
        let asks = (0..30).map(|_| ask(&connection.client));
        for answer in futures::future::join_all(asks).await {
            let error = answer.expect_err("there is no credential");
            assert!(error.contains("log in"), "{error}");
        }
    }
    assert_eq!(count(), 1);
    let mut at = Vec::new();
    for second in 1..200 {
        seconds.store(second, Ordering::SeqCst);
        let before = count();
        ask(&connection.client).await.expect_err("still none");
        ask(&connection.client).await.expect_err("still none");
        at.extend((count() > before).then_some(second));
    }
    assert_eq!(at, [1, 3, 7, 15, 31, 63, 123, 183]);
    // A kubeconfig with another user counts at once.
    write_config(folder.path(), server.port, "    token: one");
    ask(&connection.client).await.expect("accepted");
}

#[tokio::test]
async fn a_plugin_that_leaves_a_helper_behind_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let server = gatekeeper("one").await;
    // The helper keeps the plugin's output open for as long as this test has its folder.
    let (folder_name, helper) = (folder.path().display(), folder.path().join("helper"));
    let body = format!(
        "TOKEN=one\n{GIVES}\n(while [ -d {folder_name} ]; do sleep 0.1; done) &\necho $! > {}",
        helper.display()
    );
    let plugin = script(folder.path(), &body);
    let choice = write_config(folder.path(), server.port, &exec(&plugin, ""));
    assert!(version(&choice).await.is_ok());
    let helper: i32 = std::fs::read_to_string(helper)
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    let helper = rustix::process::Pid::from_raw(helper).unwrap();
    rustix::process::test_kill_process(helper).expect("the helper is still there");
}

#[tokio::test]
async fn a_refused_token_is_renewed_and_the_request_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let server = gatekeeper("one").await;
    std::fs::write(folder.path().join("token"), "one").unwrap();
    let plugin = script(
        folder.path(),
        &format!("TOKEN=$(cat {}/token)\n{GIVES}", folder.path().display()),
    );
    let choice = write_config(folder.path(), server.port, &exec(&plugin, ""));
    let connection = connect(choice, clock(), [], false).expect("a config");
    ask(&connection.client).await.expect("accepted");
    // The server accepts another token from now on, and the plugin gives it.
    *server.accepts.lock().unwrap() = "two".into();
    std::fs::write(folder.path().join("token"), "two").unwrap();
    ask(&connection.client)
        .await
        .expect("renewed without a word");
    assert_eq!(*server.shown.lock().unwrap(), ["one", "one", "two"]);
    // A server that accepts nothing is not asked for ever, nor the plugin.
    *server.accepts.lock().unwrap() = "three".into();
    for _ in 0..5 {
        let error = ask(&connection.client).await.expect_err("refused");
        assert!(error.contains("401"), "{error}");
    }
    assert_eq!(server.shown.lock().unwrap().len(), 8);
}

#[tokio::test]
async fn a_proxy_is_asked_for_a_tunnel_and_is_never_shown_the_token() {
    let folder = tempfile::tempdir().unwrap();
    let server = gatekeeper("one").await;
    let proxy = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = proxy.local_addr().unwrap().port();
    let behind = server.port;
    let asked = tokio::spawn(async move {
        let (mut client, _) = proxy.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(client.read_u8().await.unwrap());
        }
        client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        let mut server = tokio::net::TcpStream::connect(("127.0.0.1", behind))
            .await
            .unwrap();
        tokio::spawn(async move {
            let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
        });
        String::from_utf8(head).unwrap()
    });
    let choice = write_config(folder.path(), server.port, "    token: one");
    let file = choice.kubeconfig.clone().unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    let proxied = format!("cluster: {{proxy-url: \"http://127.0.0.1:{port}\", server:");
    std::fs::write(&file, text.replace("cluster: {server:", &proxied)).unwrap();
    version(&choice).await.expect("answered through the proxy");
    let asked = asked.await.unwrap();
    assert!(
        asked.starts_with(&format!("CONNECT 127.0.0.1:{behind} ")),
        "{asked}"
    );
    assert!(!asked.to_lowercase().contains("authorization"), "{asked}");
    assert_eq!(*server.shown.lock().unwrap(), ["one"]);
}

#[tokio::test]
async fn a_token_file_is_read_again_when_it_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let server = gatekeeper("one").await;
    let token = folder.path().join("token");
    std::fs::write(&token, "one\n").unwrap();
    let choice = write_config(
        folder.path(),
        server.port,
        &format!("    tokenFile: {}", token.display()),
    );
    let connection = connect(choice, clock(), [], false).expect("a config");
    ask(&connection.client).await.expect("accepted");
    *server.accepts.lock().unwrap() = "two".into();
    std::fs::write(&token, "two\n").unwrap();
    ask(&connection.client).await.expect("renewed");
}

#[tokio::test]
async fn a_kubeconfig_that_changes_is_followed_to_its_new_server() {
    let folder = tempfile::tempdir().unwrap();
    let first = gatekeeper("one").await;
    let choice = write_config(folder.path(), first.port, "    token: one");
    // A clock that goes on when it is told to: renewals keep a distance.
    let seconds = Arc::new(AtomicI64::new(0));
    let read = Arc::clone(&seconds);
    let clock: Clock = Arc::new(move || Moment::from_seconds(read.load(Ordering::SeqCst)));
    let connection = connect(choice, clock, [], false).expect("a config");
    ask(&connection.client).await.expect("accepted");
    // Its own token is refused and nothing has changed: that is all there is to say.
    *first.accepts.lock().unwrap() = "two".into();
    assert!(
        ask(&connection.client)
            .await
            .expect_err("refused")
            .contains("401")
    );
    // Somebody logs in again.
    write_config(folder.path(), first.port, "    token: two");
    seconds.fetch_add(11, Ordering::SeqCst);
    ask(&connection.client)
        .await
        .expect("the new token is found");
    // The cluster moves to another port.
    let second = gatekeeper("two").await;
    write_config(folder.path(), 1, "    token: two");
    *first.accepts.lock().unwrap() = "nobody".into();
    seconds.fetch_add(11, Ordering::SeqCst);
    assert!(
        ask(&connection.client).await.is_err(),
        "nothing listens there"
    );
    write_config(folder.path(), second.port, "    token: two");
    ask(&connection.client)
        .await
        .expect("the new server is found");
}

#[tokio::test]
async fn a_server_that_says_nothing_is_known_by_it() {
    // It accepts the connection and closes it at once.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let _ = socket.read(&mut [0; 16]).await;
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let choice = write_config(folder.path(), port, "    token: one");
    let error = version(&choice).await.expect_err("no answer");
    assert!(
        error.contains("no answer") || error.contains("closed before"),
        "{error}"
    );
    let choice = write_config(folder.path(), 1, "    token: one");
    let error = version(&choice).await.expect_err("refused");
    assert!(error.contains("nothing listens"), "{error}");
}

#[tokio::test]
async fn a_busy_server_gets_one_request_and_the_caller_retries() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&asked);
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let log = Arc::clone(&log);
            tokio::spawn(async move {
                let mut buffer = [0; 4096];
                while let Ok(read @ 1..) = socket.read(&mut buffer).await {
                    let head = String::from_utf8_lossy(&buffer[..read]);
                    let path = head.split(' ').nth(1).unwrap_or_default();
                    log.lock().unwrap().push(path.to_owned());
                    let busy = "HTTP/1.1 503 Service Unavailable\r\nretry-after: 0\r\ncontent-length: 0\r\n\r\n";
                    if socket.write_all(busy.as_bytes()).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let choice = write_config(folder.path(), port, "    token: t");
    let connection = connect(choice, clock(), [], false).expect("a config");
    assert!(ask(&connection.client).await.is_err());
    // Whatever would ask again later has done so before the marker.
    skip(Duration::from_secs(3600)).await;
    let marker = Request::get("/apis/marker").body(Vec::new()).unwrap();
    let answer = within(
        "an answer to the marker",
        connection.client.request_text(marker),
    )
    .await;
    assert!(answer.is_err());
    assert_eq!(*asked.lock().unwrap(), ["/version", "/apis/marker"]);
}

/// A server whose every answer is this body, compressed.
async fn packed(body: &[u8]) -> u16 {
    use std::io::Write;
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(body).unwrap();
    let body = gzip.finish().unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let body = body.clone();
            tokio::spawn(async move {
                let _ = socket.read(&mut [0; 4096]).await;
                let head = format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\n\r\n",
                    body.len()
                );
                let _ = socket.write_all(head.as_bytes()).await;
                let _ = socket.write_all(&body).await;
            });
        }
    });
    port
}

#[tokio::test]
async fn a_small_answer_that_unpacks_to_a_large_one_is_refused_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut bomb = vec![b' '; 64 << 20];
    bomb.extend(b"{}");
    let port = packed(&bomb).await;
    let choice = write_config(folder.path(), port, "    token: one");
    let error = version(&choice).await.expect_err("is too large");
    assert!(
        error.contains("the answer to /version is larger than 8 MiB"),
        "{error}"
    );
    // One of ordinary size is read.
    let port = packed(br#"{"major":"1","minor":"30","gitVersion":"v1.30.0"}"#).await;
    let choice = write_config(folder.path(), port, "    token: one");
    version(&choice).await.expect("is read");
}
