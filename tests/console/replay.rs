//! A record that is replayed: keys move in it, the line at the foot shows it.

use std::sync::Arc;
use std::time::Duration;

use console::msg::{Rewind, SessionInfo};
use console::{App, AppOptions, Effect, Msg, render_text};
use model::base::{Moment, When};
use model::fleet::finding::Severity;
use table::Facts;
use table::changes::{ChangeLog, FleetChanges, SeenChanges};
use table::navigation::ViewId;
use table::timeline::{Playback, Timeline, TimelineMark};

use crate::frames::{LARGE, console, press};

const SIZE: (u16, u16) = (200, 50);

/// A record of two hours that ends a quarter of an hour after what is shown.
fn timeline() -> Timeline {
    let now = LARGE.now;
    let mark = |minutes: u64, weight| TimelineMark {
        at: now.minus(Duration::from_secs(60 * minutes)),
        weight,
    };
    let (from, to) = (
        now.minus(Duration::from_secs(6300)),
        now.plus(Duration::from_secs(900)),
    );
    Timeline {
        marks: Arc::from([
            mark(80, Severity::Info),
            mark(40, Severity::Warn),
            mark(20, Severity::Crit),
        ]),
        looked: Arc::from([(now.minus(Duration::from_secs(5400)), to)]),
        ..Timeline::new(from, to)
    }
}

fn replay() -> App {
    let mut app = console(&LARGE, ViewId::Fleet, SIZE, AppOptions::default());
    app.picture([Msg::Timeline(timeline())]);
    app
}

fn send(app: &mut App, keys: &str) -> Vec<Effect> {
    let mut effects = press(app, keys);
    effects.retain(|effect| matches!(effect, Effect::Replay(_)));
    effects
}

fn text(app: &App) -> String {
    render_text(app, SIZE.0, SIZE.1)
}

fn gone_to(effects: &[Effect]) -> Vec<Moment> {
    let at = effects.iter().map(|effect| match effect {
        Effect::Replay(Playback::Go(at)) => *at,
        other => panic!("{other:?}"),
    });
    at.collect()
}

fn back(minutes: u64) -> Moment {
    LARGE.now.minus(Duration::from_secs(60 * minutes))
}

/// The facts of another moment.
fn at(moment: Moment) -> Msg {
    let mut fleet = (*LARGE.fleet).clone();
    fleet.at = moment;
    Msg::Facts(Facts {
        fleet: Arc::new(fleet),
        now: moment,
        ..LARGE.clone()
    })
}

#[test]
fn steps_go_on_from_each_other_and_stop_at_the_ends() {
    let mut app = replay();
    assert_eq!(gone_to(&send(&mut app, "[[[")), [back(1), back(2), back(3)]);
    app.picture([at(back(3)), Msg::Tick(back(3))]);
    assert_eq!((app.facts().now, app.present()), (back(3), back(3)));
    assert_eq!(gone_to(&send(&mut app, "]")), [back(2)]);
    let end = timeline().to;
    app.picture([at(back(2)), Msg::Tick(back(2))]);
    app.picture([at(end), Msg::Tick(end)]);
    assert_eq!(send(&mut app, "]"), []);
    assert_eq!(app.notice(), Some("this is the end of the record"));
    // The clock stands still: the next key takes the notice away.
    send(&mut app, "j");
    assert_eq!(app.notice(), None);
}

#[test]
fn a_time_is_typed_as_on_the_command_line() {
    let mut app = replay();
    let end = timeline().to;
    let hour = Duration::from_secs(3600);
    assert_eq!(gone_to(&send(&mut app, "T-1h\n")), [end.minus(hour)]);
    let minute = back(30).rfc3339()[11..16].to_owned();
    let destination = gone_to(&send(&mut app, &format!("T{minute}\n")));
    assert_eq!(destination[0].rfc3339()[11..16], minute);
    // What is wrong is said where it was typed, and nothing moves.
    for (typed, words) in [
        ("noon", "a time is written as 03:12"),
        ("-9h", "the record begins at "),
        ("2030-01-01 00:00", "the record ends at "),
    ] {
        assert_eq!(send(&mut app, &format!("T{typed}\n")), []);
        let text = text(&app);
        assert!(
            text.lines().last().unwrap_or_default().contains(words),
            "{text}"
        );
        press(&mut app, "\u{1b}");
    }
}

#[test]
fn changes_are_jumped_to_and_a_replay_is_paused_by_the_key_that_freezes() {
    let mut app = replay();
    let change = |forward| Effect::Replay(Playback::Change { forward });
    assert_eq!(send(&mut app, "{}"), [change(false), change(true)]);
    assert_eq!(send(&mut app, "f"), [Effect::Replay(Playback::Toggle)]);
    assert!(!app.is_frozen(), "the record stands still, not the screen");
}

#[test]
fn what_changed_since_a_typed_moment_is_asked_for_and_shown() {
    let mut app = replay();
    let effects = send(&mut app, ":diff -10m\n");
    let [Effect::Replay(Playback::Compare { name, from, to, .. })] = &effects[..] else {
        panic!("{effects:?}");
    };
    assert_eq!((*from, *to), (back(10), LARGE.now));
    assert!(text(&app).contains("comparing…"), "{}", text(&app));
    let mut before = LARGE.clone();
    before.now = back(10);
    let fleet = Arc::make_mut(&mut before.fleet);
    let gone = fleet.nodes[0].name().clone();
    fleet.nodes = fleet.nodes[1..].into();
    let mut changes = FleetChanges::between(&LARGE, &before);
    (changes.from, changes.to) = (*from, *to);
    app.picture([Msg::Changes(name.clone(), Ok(changes))]);
    let shown = text(&app);
    for words in ["to 2026-", "1 change", "cost $", "gone", gone.as_str()] {
        assert!(shown.contains(words), "{words}\n{shown}");
    }
    // Newer pictures leave the answer where it is.
    app.picture([at(back(1)), at(LARGE.now)]);
    assert!(text(&app).contains(gone.as_str()));
    app.picture([Msg::Changes(
        name.clone(),
        Err(String::from("the disk is gone")),
    )]);
    assert!(text(&app).contains("the disk is gone"));
    // Words that are no time, and a time that is not earlier.
    assert_eq!(send(&mut app, ":diff noon\n"), []);
    press(&mut app, "\u{1b}");
    assert_eq!(send(&mut app, ":diff 2030-01-01 00:00\n"), []);
    assert!(app.notice().unwrap_or_default().contains("must be before"));
}

#[test]
fn what_changed_is_a_view_of_the_session_and_in_a_record_a_comparison() {
    let mut app = console(&LARGE, ViewId::Fleet, SIZE, AppOptions::default());
    assert_eq!(send(&mut app, ":changes\n"), []);
    assert!(
        text(&app).contains("the first lists are being read"),
        "{}",
        text(&app)
    );
    let mut later = LARGE.clone();
    later.changes = Some(Arc::new(SeenChanges::stated(&LARGE, back(30))));
    app.picture([Msg::Facts(later)]);
    assert!(text(&app).contains("since "), "{}", text(&app));
    // A node that fails is one row with the finding about it.
    let mut log = ChangeLog::default();
    log.see(None, &LARGE);
    let mut failed = LARGE.clone();
    failed.now = LARGE.now.plus(Duration::from_secs(300));
    let fleet = Arc::make_mut(&mut failed.fleet);
    let mut nodes = fleet.nodes.to_vec();
    let name = nodes[1].name().clone();
    let node = Arc::make_mut(&mut nodes[1]);
    (node.ready, node.ready_since) = (None, Some(LARGE.now.plus(Duration::from_secs(290))));
    fleet.nodes = nodes.into();
    log.see(Some(&LARGE), &failed);
    failed.changes = log.seen();
    app.picture([Msg::Facts(failed)]);
    let shown = text(&app);
    let row = shown
        .lines()
        .find(|line| line.contains("not ready"))
        .expect("a row");
    assert!(
        row.contains(name.as_str()) && row.contains("kubelet stopped"),
        "{row}"
    );
    // In a record the same command compares with half an hour before.
    let mut app = replay();
    let effects = send(&mut app, ":changes\n");
    let [Effect::Replay(Playback::Compare { from, to, .. })] = &effects[..] else {
        panic!("{effects:?}");
    };
    assert_eq!((*from, *to), (back(30), LARGE.now));
}

#[test]
fn a_live_console_asks_for_the_record_of_its_cluster() {
    let live = || console(&LARGE, ViewId::Fleet, SIZE, AppOptions::default());
    let to = |text| Effect::Rewind(Rewind::To(When::parse(text).expect("a time")));
    assert!(press(&mut live(), "T-2h\n").contains(&to("-2h")));
    assert!(press(&mut live(), "{").contains(&Effect::Rewind(Rewind::LastChange)));
    let mut app = live();
    assert_eq!(press(&mut app, "}"), []);
    assert_eq!(app.notice(), Some("this is the present"));
    press(&mut app, "Tnow\n");
    assert!(text(&app).contains("this is the present"));
    press(&mut app, "\u{1b}");
    assert_eq!(send(&mut app, ":diff -10m\n"), []);
    assert!(app.notice().unwrap_or_default().contains("T opens it"));
    // Another session is another thing.
    let mut app = replay();
    app.picture([Msg::Session(SessionInfo::default())]);
    assert!(app.timeline().is_none());
}

#[test]
fn the_record_of_the_cluster_is_shown_in_the_place_of_its_session_and_left_by_one_key() {
    let mut app = console(&LARGE, ViewId::Jobs, SIZE, AppOptions::default());
    press(&mut app, "/nlp\n");
    let live = app.facts().clone();
    let past = Facts {
        context: "record 11-21 03:12:04 prod".into(),
        now: live.now.minus(Duration::from_secs(3600)),
        ..live.clone()
    };
    app.picture([Msg::Rewound(Box::new(past.clone()), timeline())]);
    assert!(app.is_rewound() && !app.is_frozen());
    assert_eq!((app.facts().now, app.present()), (past.now, past.now));
    let shown = text(&app);
    let header = shown.lines().next().expect("a header");
    assert!(
        header.contains("record 11-21 03:12:04 prod") && header.contains("PAST, esc: live"),
        "{header}"
    );
    assert!(shown.contains("nlp"), "the filter stays");
    // Nothing of it is muted, and a mute is kept nowhere.
    press(&mut app, "8");
    let effects = press(&mut app, "m");
    assert!(
        !effects
            .iter()
            .any(|effect| matches!(effect, Effect::Hush(..))),
        "{effects:?}"
    );
    for leave in ["\u{1b}", "q", "Tnow\n"] {
        assert!(press(&mut app, leave).contains(&Effect::Live), "{leave:?}");
    }
    app.picture([Msg::Live]);
    assert!(!app.is_rewound() && app.timeline().is_none());
    assert_eq!(app.facts().now, live.now);
    assert_eq!(app.facts().context, live.context);
}

#[test]
fn the_line_at_the_foot_shows_the_record() {
    for (width, height) in [(200, 50), (80, 24), (60, 12)] {
        let mut app = replay();
        app.picture([Msg::Resize(width, height)]);
        let text = render_text(&app, width, height);
        let lines: Vec<&str> = text.lines().collect();
        insta::assert_snapshot!(
            format!("timeline-{width}x{height}"),
            lines[lines.len() - 3..].join("\n")
        );
    }
    let ascii = AppOptions {
        ascii: true,
        ..AppOptions::default()
    };
    let mut app = console(&LARGE, ViewId::Fleet, (80, 24), ascii);
    let playing = Timeline {
        speed: Some(60.0),
        ..timeline()
    };
    app.picture([Msg::Timeline(playing)]);
    let text = render_text(&app, 80, 24);
    let line = text.lines().rev().nth(1).unwrap_or_default();
    assert!(line.contains("> 60x") && line.is_ascii(), "{line}");
}
