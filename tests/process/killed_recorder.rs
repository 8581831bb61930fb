//! The recorder as a process: killed and started again, it goes on, and nothing that was written is lost.

use record::Archive;
use serde_json::Value;

use super::{Home, Running, alone, text, until};

/// A recorder of the cluster of this kubeconfig.
fn recorder(home: &Home, kubeconfig: &str, folder: &str) -> Running {
    let flags = ["record", "--kubeconfig", kubeconfig, "--dir", folder];
    let mut running = Running::start(home, &flags);
    let line = running.line();
    assert!(line.starts_with("recording sim-admin into "), "{line}");
    running
}

#[test]
fn a_recorder_that_is_killed_loses_nothing_that_was_written() {
    let _alone = alone();
    let home = Home::new();
    let folder = home.path("r");
    let place = folder.display().to_string();
    let get = |arguments: &[&str]| {
        let mut all = vec!["get", "nodes", "-o", "json", "--record", &place];
        all.extend(arguments);
        home.run(&all)
    };
    let nodes = |arguments: &[&str]| {
        let output = get(arguments);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let rows: Value = serde_json::from_slice(&output.stdout).expect("is JSON");
        rows.as_array().map_or(0, Vec::len)
    };
    let kubeconfig = home.path("kube").display().to_string();
    let sim = ["sim", "--nodes", "12", "--speed", "20", "--at"];
    let flags = ["2026-11-21T08:00:00Z", "--kubeconfig", &kubeconfig];
    let mut sim = Running::start(&home, &[&sim[..], &flags].concat());
    assert!(sim.line().starts_with("ready "));
    let mut running = recorder(&home, &kubeconfig, &place);
    let record = ["record", "--kubeconfig", &kubeconfig, "--dir", &place];
    let other = home.run(&record);
    assert_eq!(other.status.code(), Some(1));
    assert!(text(&other.stderr).contains("another process records into"));
    // The lists are written, and what exporters said: by its last whole second, which is what is asked about below.
    let end = || Archive::open(&folder).map(|archive| archive.end().rfc3339());
    until("a whole record", || {
        end().is_ok_and(|end| get(&["--at", &end]).status.code() == Some(0))
    });
    running.child.kill().expect("is killed");
    running.child.wait().expect("has ended");
    // (Nodes come and go: what was known then is compared.)
    let end = end().expect("can be read");
    let there = nodes(&["--at", &end]);
    assert!(there >= 8, "{there} nodes");
    // The simulated cluster in the process is another one each time.
    let stranger = home.run(&["record", "--demo", "--dir", &place]);
    assert_eq!(stranger.status.code(), Some(1));
    assert!(text(&stranger.stderr).contains("holds the record of cluster sim-admin ("));
    // Another goes on in the same directory, and ends as it is told to.
    let running = recorder(&home, &kubeconfig, &place);
    until("a record that goes on", || {
        get(&[]).status.code() == Some(0)
    });
    assert_eq!(running.end(), Some(0));
    assert_eq!(nodes(&["--at", &end]), there);
    // What cannot be is refused, with the mend.
    let early = get(&["--at", "2020-01-01T00:00:00Z"]);
    assert_eq!(early.status.code(), Some(1));
    assert!(text(&early.stderr).contains("the record begins at 2026-11-21T"));
    let late = get(&["--at", "2030-01-01T00:00:00Z"]);
    assert!(text(&late.stderr).contains("the record ends at 2026-11-21T"));
    let start = Archive::open(&folder)
        .expect("can be read")
        .start()
        .rfc3339();
    let diff = |from: &str, to: &str| {
        let flags = ["diff", "--record", &place, "--from", from, "--to", to];
        home.run(&[&flags[..], &["-o", "json"]].concat())
    };
    let printed = diff(&start, "-1s");
    assert_eq!(printed.status.code(), Some(0), "{}", text(&printed.stderr));
    let printed: Value = serde_json::from_slice(&printed.stdout).expect("is JSON");
    assert_eq!(printed["from"].as_str(), Some(start.as_str()));
    // At the start nothing was listed yet: nodes are not new because of that.
    let joined = printed["changes"].as_array().expect("a list").iter();
    let joined = joined.filter(|change| change["change"] == "joined").count();
    assert!(joined < there, "{joined} of {there} nodes joined");
    let backwards = diff("-1s", &start);
    assert_eq!(backwards.status.code(), Some(2));
    assert!(text(&backwards.stderr).contains("--from must be before --to"));
    let early = diff("2020-01-01T00:00:00Z", "-1s");
    assert_eq!(early.status.code(), Some(1));
    assert!(text(&early.stderr).contains("the record begins at 2026-11-21T"));
    let wrong = get(&["--at", "noon"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("yesterday 14:00"));
    let watch = get(&["--watch"]);
    assert_eq!(watch.status.code(), Some(2));
    // A frame of the console, and a view of it.
    let frame = home.run(&["replay", &place, "--size", "120x20"]);
    assert_eq!(frame.status.code(), Some(0), "{}", text(&frame.stderr));
    assert!(text(&frame.stdout).contains(" record 11-21 "));
    let shot = home.run(&["shot", "nodes", "--record", &place]);
    assert!(text(&shot.stdout).contains(" record 11-21 "));
    let job = home.run(&["explain", "job", "a/b", "--record", &place]);
    assert!(text(&job.stderr).contains("there is no job `a/b`"));
    let short = home.run(&["explain", "a/b", "--record", &place]);
    assert_eq!(
        text(&short.stderr),
        text(&job.stderr),
        "the word `job` may be left out"
    );
}
