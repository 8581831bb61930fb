//! Faults between one program and the plane, which nobody else notices: a bad network path, a wrong clock, certificates and tokens that end,
//! a kind that goes and comes back.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use model::base::Moment;
use serde_json::{Value, json};

use super::lossy_proxy::{LossyProxy, Weather};
use super::plane::{
    Ends, HttpAnswer, PATIENCE, Undo, Watch, apply, at_rest, beside, calm, folder, kubectl, object,
    own_kubeconfig, parts, rows, stokehold, undo,
};
use super::terminal::{Terminal, header, is_live, shows_the_fleet};
use super::truth::text;

const WIDE: (u16, u16) = (170, 44);

fn at(path: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stokehold"));
    command
        .arg("--kubeconfig")
        .arg(path)
        .arg("--quiet")
        .args(arguments)
        .stdin(Stdio::null());
    command
}

/// 5 % loss and 300 ms to the server and back: the whole fleet comes, the same as without, keys are answered at once, and the
/// latency is shown for what it is.
#[test]
#[ignore = "needs the plane of tests/live/up"]
fn a_lossy_network_is_slow_and_correct() {
    let _plane = calm();
    let weather = Weather {
        round_trip: Duration::from_millis(300),
        loss_percent: 5,
        date_shift: 0,
    };
    let path = LossyProxy::to("10.255.0.1:6443", weather);
    let (mut cluster, user) = parts("live-viewer");
    cluster["server"] = format!("https://{}", path.address).into();
    let (_folder, config) = own_kubeconfig("bad-road", &cluster, &user);
    let begin = Instant::now();
    let mut terminal = Terminal::start(&config, "bad-road", WIDE);
    terminal.wait("the whole fleet over a bad road", PATIENCE, is_live);
    println!(
        "complete over a bad road in {:.1} s",
        begin.elapsed().as_secs_f64()
    );
    let before = path.lost.load(std::sync::atomic::Ordering::Relaxed);
    assert!(before > 10, "{before} segments were lost");
    for (key, shown) in [("6", "DEVICES"), ("5", "STATE"), ("1", "FREE/TOTAL")] {
        let pressed = Instant::now();
        terminal.keys(key);
        terminal.wait(shown, PATIENCE, |text| text.contains(shown));
        assert!(
            pressed.elapsed() < Duration::from_secs(10),
            "a key waits for the road: {:?}",
            pressed.elapsed()
        );
    }
    terminal.keys("q");
    assert!(terminal.end(PATIENCE).success());
    let far = HttpAnswer::whole(&mut at(&config, &["get", "nodes", "-o", "json"]));
    let facts = |rows: Vec<Value>| -> Vec<Value> {
        rows.iter()
            .map(|row| {
                json!([
                    row["name"],
                    row["pool"],
                    row["ready"],
                    row["pods"],
                    row["devices"]["total"],
                    row["devices"]["allocated"]
                ])
            })
            .collect()
    };
    assert_eq!(facts(far.rows()), facts(rows("live-viewer", "nodes")));
    let mut sources = Watch::start(&mut at(
        &config,
        &["get", "sources", "--watch", "-o", "json"],
    ));
    let api = sources.wait("the latency", PATIENCE, |line| {
        line["object"]["name"] == "api" && line["object"]["latency_ms"].is_number()
    });
    assert!(api["object"]["latency_ms"].as_u64() >= Some(280), "{api}");
}

/// The server's clock ten minutes ahead of ours (its `Date` is moved, as if this machine's clock were wrong; nothing else of the
/// plane is touched): `doctor` says so, ages are reckoned by the server's clock, and nothing fresh is called stale.
#[test]
#[ignore = "needs the plane of tests/live/up"]
fn clock_skew_is_reported_and_corrected() {
    let _plane = calm();
    let mut proxy = Command::new("kubectl")
        .args(["--context=live-viewer", "proxy", "--port=0"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("kubectl runs");
    let out = proxy.stdout.take().expect("a pipe");
    let _ends = Ends(proxy);
    let mut address = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut address)
        .expect("its address");
    let end = address
        .trim()
        .rsplit(' ')
        .next()
        .expect("an address")
        .to_owned();
    let weather = Weather {
        round_trip: Duration::ZERO,
        loss_percent: 0,
        date_shift: 600,
    };
    let path = LossyProxy::to(&end, weather);
    let (_folder, config) = own_kubeconfig(
        "wrong-clock",
        &json!({"server": format!("http://{}", path.address)}),
        &json!({}),
    );
    let doctor = HttpAnswer::of(&mut at(&config, &["doctor"]));
    let clock = doctor
        .out
        .lines()
        .find(|line| line.contains(" clock "))
        .unwrap_or_default();
    assert!(clock.contains("behind"), "{doctor:?}");
    assert!(
        ["598", "599", "600", "601", "602"]
            .iter()
            .any(|s| clock.contains(s)),
        "{clock}"
    );
    let job = object("nlp", "job", "pretrain-7b");
    let created = Moment::parse(text(&job, "/metadata/creationTimestamp")).expect("a time");
    let ahead = || {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("now");
        Moment::from_seconds(now.as_secs() as i64)
            .since(created)
            .seconds()
            + 600
    };
    let before = ahead();
    let skewed = HttpAnswer::of(&mut at(&config, &["get", "jobs", "-o", "json"])).rows();
    let after = ahead();
    let mut of_job = skewed.iter().filter(|row| row["name"] == "pretrain-7b");
    let age = of_job.next().expect("the job")["age_seconds"].as_u64();
    let age = age.expect("an age");
    // The measured clock skew may be off by half of a round trip.
    assert!(
        (before - 10..=after + 10).contains(&age),
        "by the server's clock it is {before} to {after} s old, not {age} s"
    );
    let mut terminal = Terminal::start(&config, "wrong-clock", WIDE);
    terminal.wait("a fleet that is live", PATIENCE, is_live);
    sleep(Duration::from_secs(3));
    assert!(is_live(&terminal.text()), "{}", terminal.text());
    terminal.keys("q");
    assert!(terminal.end(PATIENCE).success());
}

/// A key and a certificate that the plane's CA has signed, valid for these moments (`YYMMDDHHMMSSZ`).
fn certificate(folder_of: &Path, name: &str, from: &str, until: &str) -> (String, String) {
    let pki = folder().join("pki");
    let file = |ending: &str| {
        folder_of
            .join(format!("{name}.{ending}"))
            .display()
            .to_string()
    };
    let settings = format!(
        "[ca]\ndefault_ca=own\n[own]\nnew_certs_dir={dir}\ndatabase={dir}/index\nserial={dir}/serial\ndefault_md=sha256\npolicy=any\n\
         unique_subject=no\nx509_extensions=ext\n[any]\ncommonName=supplied\n[ext]\nsubjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n",
        dir = folder_of.display()
    );
    fs::write(file("cnf"), settings).expect("written");
    fs::write(folder_of.join("index"), "").expect("written");
    fs::write(folder_of.join("serial"), "01\n").expect("written");
    let openssl = |arguments: &[&str]| {
        let done = Command::new("openssl")
            .args(arguments)
            .output()
            .expect("openssl runs");
        assert!(
            done.status.success(),
            "{}",
            String::from_utf8_lossy(&done.stderr)
        );
    };
    let (key, request, signed) = (file("key"), file("csr"), file("crt"));
    openssl(&[
        "req",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-subj",
        &format!("/CN={name}"),
        "-keyout",
        &key,
        "-out",
        &request,
    ]);
    let (ca, ca_key) = (pki.join("ca.crt"), pki.join("ca.key"));
    openssl(&[
        "ca",
        "-batch",
        "-notext",
        "-config",
        &file("cnf"),
        "-cert",
        ca.to_str().expect("a path"),
        "-keyfile",
        ca_key.to_str().expect("a path"),
        "-startdate",
        from,
        "-enddate",
        until,
        "-in",
        &request,
        "-out",
        &signed,
    ]);
    (signed, key)
}

/// A moment so many seconds from now, as `openssl ca` takes it.
fn in_seconds(seconds: u64) -> String {
    let output = Command::new("date")
        .args(["-u", "-d", &format!("+{seconds} seconds"), "+%y%m%d%H%M%SZ"])
        .output()
        .expect("date runs");
    String::from_utf8(output.stdout)
        .expect("a text")
        .trim()
        .to_owned()
}

/// A server whose certificate has expired is not spoken to, and the message says why and what to do.
#[test]
#[ignore = "needs the plane of tests/live/up"]
fn an_expired_server_certificate_is_named() {
    let _plane = calm();
    let work = tempfile::tempdir().expect("a folder");
    let (signed, key) = certificate(work.path(), "old-server", "250101000000Z", "250201000000Z");
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .expect("a port")
        .local_addr()
        .expect("an address")
        .port();
    let server = Command::new("openssl")
        .args([
            "s_server",
            "-quiet",
            "-accept",
            &format!("127.0.0.1:{port}"),
            "-cert",
            &signed,
            "-key",
            &key,
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("openssl runs");
    let _ends = Ends(server);
    let end = Instant::now() + PATIENCE;
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(Instant::now() < end, "openssl s_server does not listen");
        sleep(Duration::from_millis(100));
    }
    let (mut cluster, user) = parts("live-viewer");
    cluster["server"] = format!("https://127.0.0.1:{port}").into();
    let (_folder, config) = own_kubeconfig("old-server", &cluster, &user);
    let answer = HttpAnswer::of(&mut at(&config, &["get", "nodes", "-o", "json"]));
    assert_eq!(answer.code, Some(4), "{answer:?}");
    let message = answer.err.to_lowercase();
    assert!(
        message.contains("certificate") && message.contains("expired"),
        "{answer:?}"
    );
    let mut terminal = Terminal::start(&config, "old-server", WIDE);
    terminal.wait("the reason on the screen", PATIENCE, |text| {
        let text = text.to_lowercase();
        text.contains("certificate") && text.contains("expired")
    });
    terminal.keys("q");
    terminal.end(PATIENCE);
}

/// A client certificate runs out under a running console: what was known stays, the loss and its reason are said, and with a new
/// certificate from the login command all goes on.
#[test]
#[ignore = "needs the plane of tests/live/up"]
fn a_client_certificate_runs_out() {
    let _plane = beside();
    let work = tempfile::tempdir().expect("a folder");
    let (printed, plugin) = (
        work.path().join("credential.json"),
        work.path().join("login"),
    );
    fs::write(&plugin, format!("#!/bin/sh\ncat {}\n", printed.display())).expect("written");
    fs::set_permissions(&plugin, fs::Permissions::from_mode(0o755)).expect("set");
    let renew = |seconds: u64| {
        let part = tempfile::tempdir().expect("a folder");
        let (signed, key) = certificate(
            part.path(),
            "live-viewer",
            "250101000000Z",
            &in_seconds(seconds),
        );
        let read = |path: &str| fs::read_to_string(path).expect("written");
        let credential = json!({
            "apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
            "status": {"clientCertificateData": read(&signed), "clientKeyData": read(&key)},
        });
        fs::write(&printed, credential.to_string()).expect("written");
    };
    renew(100);
    let (cluster, _) = parts("live-viewer");
    let user = json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": plugin, "interactiveMode": "Never"}});
    let (_folder, config) = own_kubeconfig("certificate", &cluster, &user);
    let mut terminal = Terminal::start(&config, "certificate", WIDE);
    terminal.wait("the whole fleet", Duration::from_secs(95), is_live);
    let text = terminal.wait("the end of the certificate", PATIENCE, |text| {
        header(text).contains("unreachable") || header(text).contains("stale")
    });
    assert!(shows_the_fleet(&text), "what was known stays: {text}");
    terminal.keys("0");
    terminal.wait("the reason", PATIENCE, |text| text.contains("401"));
    terminal.keys("1");
    renew(3600);
    terminal.wait("the recovery with a new certificate", PATIENCE, is_live);
    terminal.keys("q");
    assert!(terminal.end(PATIENCE).success());
    // From the start with one that is over: refused, with what the server says.
    renew(1);
    sleep(Duration::from_secs(2));
    let answer = HttpAnswer::of(&mut at(&config, &["get", "nodes", "-o", "json"]));
    assert!(matches!(answer.code, Some(3 | 4)), "{answer:?}");
    assert!(answer.err.contains("401"), "{answer:?}");
}

const KIND: &str = "tfjobs.kubeflow.org";

/// A definition is removed and brought back: its source goes (what is not served is not lost), nothing else is touched, and it is
/// watched again by itself.
#[test]
#[ignore = "needs the plane of tests/live/up"]
fn a_kind_goes_and_comes_back() {
    let _plane = beside();
    // A console at rest that is counted would list the kind again.
    let _one = at_rest();
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": KIND},
        "spec": {
            "group": "kubeflow.org", "scope": "Namespaced", "names": {"kind": "TFJob", "plural": "tfjobs", "singular": "tfjob", "listKind": "TFJobList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
        }
    })
    .to_string();
    let serve = || {
        apply(&definition);
        kubectl(&[
            "wait",
            "--for=condition=Established",
            "--timeout=30s",
            &format!("crd/{KIND}"),
        ]);
    };
    let remove = || undo(&["delete", "crd", KIND, "--ignore-not-found"]);
    remove();
    let _removed = Undo(remove);
    serve();
    // (It may take a moment until discovery names it.)
    sleep(Duration::from_secs(2));
    let mut sources = Watch::start(&mut stokehold(
        "live-viewer",
        &["get", "sources", "--watch", "-o", "json"],
    ));
    let own = |line: &Value| text(line, "/object/name").ends_with("tfjobs");
    let there =
        |line: &Value| own(line) && line["event"] == "set" && line["object"]["state"] == "live";
    sources.wait("the kind", PATIENCE, there);
    kubectl(&["delete", "crd", KIND]);
    sources.wait("its end", PATIENCE, |line| {
        own(line) && line["event"] == "gone"
    });
    serve();
    // (A kind that is not served is looked for every two minutes.)
    sources.wait("its return", 2 * PATIENCE, there);
    let lost = sources
        .seen
        .iter()
        .filter(|line| line["object"]["state"] == "lost" && !own(line))
        // An exporter that only answered late is no loss of this: the machine may be busy.
        .filter(|line| {
            let is_api = text(line, "/object/name").starts_with("api");
            is_api || !text(line, "/object/message").contains("no answer within")
        })
        .map(|line| line["object"].to_string())
        .collect::<Vec<_>>();
    assert_eq!(lost, Vec::<String>::new(), "no other source was lost");
}
