//! A live console goes into the record of its cluster and back, while its session goes on.

use std::path::Path;
use std::time::Duration;

use record::Archive;
use stokehold::runtime::session::{ClusterTarget, Demo};

use super::keyboard::Keyboard;
use super::stage::{ticking, world};
use super::*;

/// A simulated cluster that lives ten times as fast as we do.
fn cluster() -> Service {
    embed(Box::new(world(1, 12, true)), ticking(), 10.0, 1).expect("a cluster")
}

/// A console that records what it reads into this directory, or looks for a record there.
async fn console(service: &Service, folder: &Path, enabled: &str) -> Keyboard {
    let place = folder.display().to_string();
    let flags = [
        ("--record", "record.enabled", enabled),
        ("--record-dir", "record.dir", place.as_str()),
    ];
    Keyboard::open(service, &flags).await
}

#[tokio::test(start_paused = true)]
async fn a_live_console_goes_into_its_record_and_back() {
    let service = cluster();
    let folder = tempfile::TempDir::new().expect("a folder");
    let place = folder.path().join("r");
    let mut keyboard = console(&service, &place, "true").await;
    let recorded = |place: &Path| {
        let archive = Archive::open(place).ok();
        archive.is_some_and(|archive| archive.end().since(archive.start()).seconds() >= 90)
    };
    keyboard
        .until("a minute and a half of record", |_| recorded(&place))
        .await;
    keyboard.press("6");
    let live = keyboard.app.facts().now;
    keyboard.press("T-30s\n");
    keyboard.sees("PAST, esc: live").await;
    // The moment is that of the record, and stands still.
    let past = keyboard.app.facts().now;
    assert!(
        past < live && live.since(past).seconds() <= 40,
        "{past:?} of {live:?}"
    );
    let text = keyboard.text();
    let header = text.lines().next().expect("a header");
    assert!(
        header.contains("record ") && header.contains(" demo"),
        "{header}"
    );
    assert!(
        text.contains("a minute") && text.contains("esc live"),
        "{text}"
    );
    assert!(!keyboard.app.facts().fleet.nodes.is_empty());
    // It is planned there, and nothing is sent.
    keyboard.press("C");
    keyboard.press("because\n");
    keyboard.sees("plans can be computed but not applied").await;
    keyboard
        .until("the plan", |it| it.text().contains("cordon"))
        .await;
    keyboard.press("\n\u{1b}\u{1b}");
    keyboard
        .until("the present", |it| !it.app.is_rewound())
        .await;
    assert_eq!(keyboard.app.timeline(), None);
    keyboard
        .until("what came meanwhile", |it| it.app.facts().now > live)
        .await;
    let header = |it: &Keyboard| it.text().lines().next().unwrap_or_default().to_owned();
    assert!(
        !header(&keyboard).contains("record "),
        "{}",
        header(&keyboard)
    );
    let cordoned = |it: &Keyboard| {
        let nodes = it.app.facts().fleet.nodes.iter();
        nodes.filter(|node| node.cordon.is_some()).count()
    };
    assert_eq!(cordoned(&keyboard), 0, "nothing was changed");
    // From the present to the last change; the record grows while it is looked at.
    keyboard.press("{");
    keyboard.sees("PAST, esc: live").await;
    let end = |it: &Keyboard| it.app.timeline().map(|timeline| timeline.to);
    let first = end(&keyboard).expect("a record is shown");
    keyboard
        .until("more of the record", |it| {
            end(it).is_some_and(|to| to > first)
        })
        .await;
    keyboard.press("Tnow\n");
    keyboard
        .until("the present", |it| !it.app.is_rewound())
        .await;
    // What the record does not hold is said, and the console stays where it is.
    keyboard.press("T-9h\n");
    keyboard.sees("the record begins at ").await;
    assert!(!keyboard.app.is_rewound());
}

#[tokio::test(start_paused = true)]
async fn a_demo_has_a_record_from_its_opening() {
    let world = sim::world::Options {
        nodes: Some(12),
        ..sim::world::Options::new(ticking()())
    };
    let target = ClusterTarget::Demo(Demo { world, speed: 10.0 });
    let folder = tempfile::TempDir::new().expect("a folder");
    let mut keyboard = Keyboard::open_on(target, &[], folder.path()).await;
    let opened = keyboard.app.facts().now;
    // Pressed too early, it says to try again.
    for _ in 0..6 {
        let begun = tokio::time::Instant::now();
        let later =
            move |it: &Keyboard| it.app.is_rewound() || begun.elapsed() >= Duration::from_secs(9);
        keyboard.until("nine seconds", later).await;
        if keyboard.app.is_rewound() {
            break;
        }
        keyboard.press("{");
    }
    keyboard.sees("PAST, esc: live").await;
    let timeline = keyboard.app.timeline().expect("a record is shown");
    assert!(
        timeline.from <= opened.plus(Duration::from_secs(60)),
        "{timeline:?}, opened at {opened:?}"
    );
    assert!(
        !keyboard.app.facts().fleet.nodes.is_empty(),
        "{}",
        keyboard.text()
    );
}

#[tokio::test(start_paused = true)]
async fn a_console_without_a_record_says_how_to_get_one() {
    let service = cluster();
    let folder = tempfile::TempDir::new().expect("a folder");
    let mut keyboard = console(&service, folder.path(), "false").await;
    keyboard.press("T-5m\n");
    keyboard
        .sees("there is no record of demo: run `stokehold record`")
        .await;
    assert!(!keyboard.app.is_rewound());
}
