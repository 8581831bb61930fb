//! What the program asks of the API server while nothing happens, by the server's own audit log.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;

use super::plane::{PATIENCE, at_rest, audit, beside, home, items, kubeconfig, listed_role};
use super::terminal::{Terminal, is_live};
use super::truth::text;

/// How long is looked.
const WINDOW: Duration = Duration::from_secs(120);

/// `[scrape] per_second`, by default.
const PER_SECOND: usize = 20;

/// What one user asked for, by the audit log from a place in it on. (What takes long is noted twice, when its answer begins and
/// when it ends: a watch counts when it is opened, all else when it is answered.)
fn asked(user: &str, from: u64) -> Vec<Value> {
    let mut book = fs::File::open(audit()).expect("an audit log");
    book.seek(SeekFrom::Start(from)).expect("its place");
    BufReader::new(book)
        .lines()
        .map_while(Result::ok)
        // (The last line may still be being written.)
        .filter_map(|line| serde_json::from_str::<Value>(&line).ok())
        .filter(|entry| text(entry, "/user/username") == user)
        .filter(|entry| {
            let opened = text(entry, "/stage") == "ResponseStarted";
            opened == (text(entry, "/verb") == "watch")
        })
        .collect()
}

/// A review of our own rights: the one thing that is created.
fn is_review(entry: &Value) -> bool {
    text(entry, "/verb") == "create"
        && matches!(
            text(entry, "/objectRef/resource"),
            "selfsubjectaccessreviews" | "selfsubjectrulesreviews"
        )
}

/// A page of an exporter or of Prometheus, fetched through the server.
fn is_scrape(entry: &Value) -> bool {
    text(entry, "/objectRef/subresource") == "proxy"
}

/// The second at which an entry was received.
fn second(entry: &Value) -> &str {
    text(entry, "/requestReceivedTimestamp")
        .get(..19)
        .expect("a moment")
}

/// Over two minutes of a console at rest on the large fleet: no write; less than one call a watched kind a minute, watches that
/// are opened anew counted; never more scrapes in a second than the settings allow.
#[test]
#[ignore = "needs the plane of tests/live/up"]
fn a_console_at_rest_asks_for_little() {
    let _plane = beside();
    let _one = at_rest();
    listed_role("live-steady");
    let begin = fs::metadata(audit()).expect("an audit log").len();
    let mut terminal = Terminal::start(&kubeconfig(), "live-steady", (170, 44));
    terminal.wait("the whole fleet", PATIENCE, is_live);
    // What a start asks for once comes to an end first.
    sleep(Duration::from_secs(10));
    let from = fs::metadata(audit()).expect("an audit log").len();
    sleep(WINDOW);
    let entries = asked("live-steady", from);
    let minutes = WINDOW.as_secs_f64() / 60.0;
    terminal.keys("q");
    assert!(terminal.end(PATIENCE).success());

    let start = asked("live-steady", begin);
    for entry in &start {
        let reads = matches!(text(entry, "/verb"), "get" | "list" | "watch");
        assert!(reads || is_review(entry), "a write: {entry}");
    }
    let of = |entry: &Value| {
        let group = text(entry, "/objectRef/apiGroup").to_owned();
        (group, text(entry, "/objectRef/resource").to_owned())
    };
    let kinds: BTreeSet<_> = start
        .iter()
        .filter(|entry| matches!(text(entry, "/verb"), "list" | "watch") && !is_scrape(entry))
        .map(of)
        .collect();
    assert!(
        kinds.len() >= 25,
        "{} kinds are watched: {kinds:?}",
        kinds.len()
    );
    let calls: Vec<&Value> = entries.iter().filter(|entry| !is_scrape(entry)).collect();
    let rate = calls.len() as f64 / minutes;
    let mut by_kind: BTreeMap<_, usize> = BTreeMap::new();
    for entry in &calls {
        *by_kind
            .entry((text(entry, "/verb"), of(entry)))
            .or_default() += 1;
    }
    println!(
        "{} kinds, {rate:.1} calls a minute at rest: {by_kind:?}",
        kinds.len()
    );
    assert!(
        rate < kinds.len() as f64,
        "{rate:.1} calls a minute for {} kinds: {by_kind:#?}",
        kinds.len()
    );
    let mut watched: BTreeMap<_, usize> = BTreeMap::new();
    for entry in calls
        .iter()
        .filter(|entry| matches!(text(entry, "/verb"), "list" | "watch"))
    {
        *watched.entry(of(entry)).or_default() += 1;
    }
    for (kind, count) in watched {
        assert!(
            count as f64 <= minutes,
            "{kind:?} was asked for {count} times in {minutes} minutes"
        );
    }
    let mut seconds: BTreeMap<&str, usize> = BTreeMap::new();
    // (The first look at each exporter is a burst.)
    for entry in entries.iter().filter(|entry| is_scrape(entry)) {
        *seconds.entry(second(entry)).or_default() += 1;
    }
    let most = seconds.values().max().copied().unwrap_or(0);
    println!(
        "{} pages through the proxy, {most} in a second at most",
        seconds.values().sum::<usize>()
    );
    assert!(most > 0, "pages are fetched through the proxy");
    // (Seconds of the server's clock, cut where they may: one budget and what slips over its edge.)
    assert!(
        most <= PER_SECOND + PER_SECOND / 4,
        "{most} pages in one second"
    );
}

/// The same while Prometheus is not asked: every exporter is, and without a burst the budget holds from the first second on.
#[test]
#[ignore = "needs the plane of tests/live/up"]
fn a_fleet_of_exporters_is_read_within_the_budget() {
    let _plane = beside();
    let _one = at_rest();
    listed_role("live-steady");
    let settings =
        "[prometheus]\ndiscover = false\n[scrape]\nper_second = 10\nburst = 0\nmode = \"proxy\"\n";
    let home = home(settings);
    let from = fs::metadata(audit()).expect("an audit log").len();
    let variables = [("XDG_CONFIG_HOME", home.path())];
    let mut terminal = Terminal::start_with(&variables, &kubeconfig(), "live-steady", (170, 44));
    terminal.wait("the whole fleet", PATIENCE, is_live);
    sleep(Duration::from_secs(25));
    terminal.keys("q");
    assert!(terminal.end(PATIENCE).success());
    let pages: Vec<Value> = asked("live-steady", from)
        .into_iter()
        .filter(|entry| is_scrape(entry) && text(entry, "/objectRef/resource") == "pods")
        .collect();
    let exporters = items("pods")
        .iter()
        .filter(|pod| text(pod, "/metadata/name").contains("dcgm-exporter"))
        .count();
    assert!(
        pages.len() >= exporters,
        "{} pages of {exporters} exporters",
        pages.len()
    );
    let mut seconds: BTreeMap<&str, usize> = BTreeMap::new();
    for entry in &pages {
        *seconds.entry(second(entry)).or_default() += 1;
    }
    // Over any ten seconds: what the budget gives, and one second's worth that may fall over an edge.
    let counts: Vec<usize> = seconds.into_values().collect();
    for window in counts.windows(10) {
        let sum: usize = window.iter().sum();
        assert!(
            sum <= 110,
            "{sum} pages in ten seconds at a budget of ten a second: {counts:?}"
        );
    }
}
