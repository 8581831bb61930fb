//! What a month cost, on a machine without a ledger: by a Prometheus that holds a recorder's metrics.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;

use super::{Home, text};

/// The end of the one hour that was observed: 2020-01-15T06:00:00Z to 07:00.
const END: i64 = 1_579_071_600;

/// Series of an answer, by the query and the ends that were asked for.
fn series(query: &str, from: i64, to: i64, clusters: &[&str]) -> String {
    let one = |labels: &str, at: i64, value: &str| {
        format!("{{\"metric\":{{{labels}}},\"values\":[[{at},\"{value}\"]]}}")
    };
    if query.starts_with("group by (cluster)") {
        let all = clusters
            .iter()
            .map(|name| one(&format!("\"cluster\":\"{name}\""), to, "1"));
        return all.collect::<Vec<_>>().join(",");
    }
    assert!(query.contains("cluster=\"prod\""), "{query}");
    if !(from..=to).contains(&END) {
        return String::new();
    }
    let row = |recorder: &str, part: &str, priced: &str, value: &str| {
        let labels = format!(
            "\"recorder\":\"{recorder}\",\"pool\":\"h100\",\"class\":\"H100\",\"team\":\"research\",\"namespace\":\"monitoring\",\
             \"exported_namespace\":\"nlp\",\"priced\":\"{priced}\",\"part\":\"{part}\""
        );
        one(&labels, END, value)
    };
    let all = if query.contains("observed_seconds") {
        vec![
            one("\"recorder\":\"a\"", END, "1800"),
            one("\"recorder\":\"b\"", END, "600"),
        ]
    } else if query.contains("device_seconds") {
        vec![
            row("a", "useful", "yes", "3600"),
            row("a", "useful", "no", "1800"),
            row("b", "useful", "yes", "1200"),
        ]
    } else {
        vec![
            row("a", "useful", "yes", "5.25"),
            row("b", "useful", "yes", "1.75"),
        ]
    };
    all.join(",")
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let hex: Vec<u8> = rest.by_ref().take(2).collect();
        let hex = String::from_utf8(hex).expect("two digits");
        bytes.push(u8::from_str_radix(&hex, 16).expect("is hex"));
    }
    String::from_utf8(bytes).expect("is text")
}

/// A Prometheus that holds the metrics of these clusters; gives its address.
fn prometheus(clusters: &'static [&'static str]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("has one").to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
            let first = lines.next().expect("a request");
            let _ = lines.find(String::is_empty);
            let path = first.split(' ').nth(1).expect("a path");
            let parameter = |name: &str| {
                let query = path.split_once('?').map_or("", |(_, query)| query);
                let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
                let found = pairs.find(|(known, _)| *known == name);
                decoded(found.map_or("", |(_, value)| value))
            };
            let second = |name: &str| parameter(name).parse::<f64>().expect("a time") as i64;
            let [from, to] = ["start", "end"].map(second);
            let found = series(&parameter("query"), from, to, clusters);
            let body = format!(
                "{{\"status\":\"success\",\"data\":{{\"resultType\":\"matrix\",\"result\":[{found}]}}}}"
            );
            let length = body.len();
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close");
            let _ = stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes());
        }
    });
    address
}

#[test]
fn without_a_ledger_the_month_comes_from_prometheus() {
    let home = Home::new();
    let address = prometheus(&["other", "prod"]);
    home.settings(&format!(
        "[prometheus]\nurl = \"http://{address}\"\n[record]\ncluster = \"prod\"\n"
    ));
    let report = ["cost", "report", "--month", "2020-01", "-o", "csv"];
    let output = home.run(&report);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{err}");
    let from = format!("hours are read from Prometheus {address}, cluster prod");
    assert!(err.contains(&from), "{err}");
    assert!(out.contains("research"), "{out}");
    assert!(out.contains("5.25"), "the recorder that saw more: {out}");
    assert!(!out.contains("7.0"), "nothing is counted twice: {out}");
    let rows = home.run(&[
        "get",
        "usage",
        "--from",
        "2020-01-15 06:00",
        "--to",
        "2020-01-15 07:00",
        "-o",
        "csv",
    ]);
    let rows = text(&rows.stdout);
    assert!(
        rows.contains("nlp") && !rows.contains("monitoring"),
        "{rows}"
    );
}

#[test]
fn a_context_that_was_never_recorded_here_has_its_month_from_prometheus() {
    let home = Home::new();
    let address = prometheus(&["prod"]);
    home.settings(&format!("[prometheus]\nurl = \"http://{address}\"\n"));
    let kubeconfig = home.write(
        "kubeconfig",
        "apiVersion: v1\nkind: Config\ncurrent-context: prod\ncontexts: [{name: prod, context: {cluster: c, user: u}}]\nclusters: []\nusers: []\n",
    );
    let kubeconfig = kubeconfig.display().to_string();
    let report = ["cost", "report", "--month", "2020-01", "-o", "csv"];
    let output = home.run_with(&[("KUBECONFIG", &kubeconfig)], &report);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{err}");
    assert!(out.contains("5.25"), "{out}{err}");
}

#[test]
fn of_several_clusters_one_is_to_be_named() {
    let home = Home::new();
    let address = prometheus(&["a", "b"]);
    home.settings(&format!("[prometheus]\nurl = \"http://{address}\"\n"));
    let output = home.run(&["cost", "report", "--month", "2020-01"]);
    assert!(!output.status.success());
    let err = text(&output.stderr);
    assert!(
        err.contains("it holds the hours of a, b: name one, record.cluster in the settings"),
        "{err}"
    );
}

#[test]
fn a_prometheus_without_metrics_of_ours_changes_nothing() {
    let home = Home::new();
    let without = text(&home.run(&["cost"]).stderr);
    let address = prometheus(&[]);
    home.settings(&format!("[prometheus]\nurl = \"http://{address}\"\n"));
    let output = home.run(&["cost"]);
    assert!(!output.status.success());
    assert_eq!(text(&output.stderr), without);
}
