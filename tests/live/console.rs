//! The console on a terminal: it shows the plane's fleet, and leaves the terminal as it was.

use rustix::process::Signal;

use super::plane::{PATIENCE, calm, kubeconfig};
use super::terminal::{Terminal, is_live, shows_the_fleet};
use super::truth::Truth;

const WIDE: (u16, u16) = (170, 44);

/// A console that has the whole fleet on its screen.
fn complete(context: &str) -> Terminal {
    let mut terminal = Terminal::start(&kubeconfig(), context, WIDE);
    terminal.wait("the whole fleet", PATIENCE, is_live);
    terminal
}

#[test]
#[ignore = "needs the plane of tests/live/up"]
fn the_console_shows_the_fleet() {
    let _plane = calm();
    let truth = Truth::now();
    let mut terminal = complete("live-viewer");
    let held: f64 = truth.nodes.keys().map(|node| truth.held_on(node)).sum();
    let header = terminal.header();
    let percent = (held / truth.devices() as f64 * 100.0).round();
    assert!(header.contains("live-viewer"), "{header}");
    assert!(
        header.contains(&format!("alloc {percent}%")),
        "{held} devices are held: {header}"
    );
    let waiting = truth
        .jobs()
        .values()
        .filter(|job| job.state == "waiting")
        .count();
    assert!(
        header.contains(&format!("waiting {waiting} ")),
        "{waiting} jobs wait: {header}"
    );
    terminal.wait("the pools", PATIENCE, |text| {
        ["h100", "gb200", "a100", "l4"]
            .iter()
            .all(|pool| text.contains(pool))
    });
    terminal.keys("5/nlp\r");
    terminal.wait("the jobs of a namespace", PATIENCE, |text| {
        let jobs = truth.jobs();
        let own = jobs.keys().filter(|(namespace, _)| namespace == "nlp");
        own.into_iter()
            .all(|(_, name)| text.contains(name.as_str()))
    });
    terminal.keys("6/pool=l4\r");
    terminal.wait("the nodes of a pool", PATIENCE, |text| {
        (0..6).all(|i| text.contains(&format!("l4-{i}")))
    });
    terminal.keys("3");
    terminal.wait("the heatmap", PATIENCE, |text| {
        text.contains("h100") && text.contains("util")
    });
    terminal.keys("0/dcgm\r");
    terminal.wait("the sources", PATIENCE, |text| {
        text.lines()
            .any(|line| line.contains('●') && line.contains("dcgm"))
    });
    // A bastion's terminal shows less, not garbage.
    terminal.resize((80, 24));
    terminal.keys("1");
    terminal.wait("the fleet on a small screen", PATIENCE, |text| {
        // (What is given away is said before how many there are.)
        text.contains("alloc ")
            && ["h100", "gb200", "a100", "a3-mega"]
                .iter()
                .all(|pool| text.contains(pool))
    });
    terminal.keys(":q\r");
    assert!(terminal.end(PATIENCE).success());
    assert_eq!(terminal.changed(), [""; 0]);
}

#[test]
#[ignore = "needs the plane of tests/live/up"]
fn the_terminal_is_left_as_it_was() {
    let _plane = calm();
    let left_by = |leave: &dyn Fn(&mut Terminal), how: &str, codes: &[Option<i32>]| {
        let mut terminal = Terminal::start(&kubeconfig(), "live-viewer", WIDE);
        terminal.wait("the fleet", PATIENCE, shows_the_fleet);
        assert!(
            terminal.changed().contains(&"raw mode"),
            "it takes the terminal"
        );
        leave(&mut terminal);
        let status = terminal.end(PATIENCE);
        assert!(codes.contains(&status.code()), "left by {how}: {status}");
        assert_eq!(terminal.changed(), [""; 0], "left by {how}");
    };
    std::thread::scope(|scope| {
        scope.spawn(|| left_by(&|t| t.keys("q"), "q", &[Some(0)]));
        scope.spawn(|| left_by(&|t| t.signal(Signal::INT), "SIGINT", &[Some(130)]));
        scope.spawn(|| {
            left_by(
                &|t| t.signal(Signal::TERM),
                "SIGTERM",
                &[Some(143), Some(130), Some(0)],
            )
        });
        scope.spawn(|| {
            left_by(
                &|t| t.signal(Signal::HUP),
                "SIGHUP",
                &[Some(129), Some(130), Some(0)],
            )
        });
    });
}

#[test]
#[ignore = "needs the plane of tests/live/up"]
fn a_console_without_rights_says_so() {
    let _plane = calm();
    let mut terminal = Terminal::start(&kubeconfig(), "live-nobody", WIDE);
    let text = terminal.wait("what is missing", PATIENCE, |text| {
        text.lines()
            .next()
            .is_some_and(|header| header.contains("devices –"))
    });
    // Not visible is neither zero nor lost.
    assert!(
        !text.contains("devices 0") && !text.contains("unreachable"),
        "{text}"
    );
    terminal.keys("0");
    terminal.wait("the missing rights", PATIENCE, |text| {
        text.contains("not visible")
    });
    terminal.keys("q");
    terminal.end(PATIENCE);
    assert_eq!(terminal.changed(), [""; 0]);
}
