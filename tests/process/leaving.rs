//! A console that ends while a run of it is in progress: by a key, and because its terminal goes away.

use std::time::Duration;

use exec::RunEnd;

use super::gate::{Bench, Point};
use super::link::Link;
use super::{alone, until};

/// The console with a cordon of the node to which these keys lead under way: its one call is carried out and never answered.
fn acting(bench: &Bench, keys: &str) -> Link {
    let mut link = bench.console();
    link.until(" live ");
    link.keys("6");
    link.until("▌ ●");
    link.keys(keys);
    bench.hangs_at(Point::CarriedOut(0));
    link.keys("C");
    link.until("reason, written on the node");
    link.keys("kept free for a test\r");
    link.until("STEP");
    // (A plan counts no key in its first moment.)
    while bench.latest().is_none_or(|run| run.end.is_some()) {
        link.keys("\r");
        link.read(Duration::from_millis(300), 65_536);
    }
    assert!(bench.hung(), "{}", link.text());
    link
}

/// The latest run goes on elsewhere, to its end.
fn ends(bench: &Bench) {
    until("the run is done", || {
        let end = bench.latest().expect("a run").end;
        assert!(
            matches!(end, None | Some(RunEnd::Done)),
            "it goes on: {end:?}"
        );
        end.is_some()
    });
}

#[test]
fn a_run_goes_on_when_its_console_is_left_and_when_its_terminal_goes_away() {
    let _alone = alone();
    let bench = Bench::new(6);
    let mut link = acting(&bench, "");
    link.keys("\x1b");
    // (With the next key at once it would be alt.)
    while link.text().contains("esc closes") {
        link.read(Duration::from_millis(50), 65_536);
    }
    link.keys("q");
    link.until("a run is in progress");
    link.until("continues in its own process");
    link.keys("\r");
    assert_eq!(link.end(), 0);
    link.until(" continues in process ");
    assert!(!link.screen.screen().alternate_screen());
    ends(&bench);

    let mut link = acting(&bench, "j");
    let run = bench.latest().expect("a run").name;
    drop(link.pty.take());
    link.end();
    ends(&bench);
    assert_eq!(bench.latest().expect("a run").name, run);
    let all = bench.writes("/api/v1/nodes/", 0);
    assert!(all.values().all(|count| *count == 1), "{all:?}");
}
