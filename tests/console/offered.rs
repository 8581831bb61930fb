//! Offered keys: what the footer offers in a view, on a row, does something there.

use std::collections::BTreeSet;
use std::sync::Arc;

use console::{App, AppOptions, KeyPress, Msg, render_text};
use model::fleet::job::JobState;
use table::Facts;
use table::Kind;
use table::navigation::ViewId;

use crate::frames::{EMPTY, PARTLY, SMALL, UNKNOWN, console, drawn, press};
use crate::frames_checks::answer;
use crate::served::served;

const SIZE: (u16, u16) = (300, 40);

/// What a page says that has nothing to show.
const NOTHING: &[&str] = &["not a Kubernetes object", "no logs: "];

/// The keys that the footer offers: bold there; those that are not allowed are muted.
fn offered(app: &App) -> Vec<String> {
    let (buf, _) = drawn(app, SIZE);
    let y = SIZE.1 - 1;
    let mut keys = Vec::new();
    let mut key = String::new();
    for x in 0..SIZE.0 {
        let cell = &buf[(x, y)];
        let is_key = cell.modifier.contains(ratatui::style::Modifier::BOLD);
        match is_key && cell.symbol() != " " {
            true => key.push_str(cell.symbol()),
            false if !key.is_empty() => keys.push(std::mem::take(&mut key)),
            false => {}
        }
    }
    keys
}

/// The frame; without its last line where that has a message.
fn shown(app: &App) -> String {
    let text = render_text(app, SIZE.0, SIZE.1);
    let lines: Vec<&str> = text.lines().collect();
    lines[..lines.len() - usize::from(app.notice().is_some())].join("\n")
}

fn opened(facts: &Facts, view: ViewId, keys: &str) -> App {
    let mut app = console(facts, view, SIZE, AppOptions::default());
    for key in keys.chars() {
        let effects = press(&mut app, &key.to_string());
        answer(&mut app, &effects, facts.now);
    }
    app
}

#[test]
fn every_key_of_the_footer_does_something() {
    let mut idle = BTreeSet::new();
    let mut tried = BTreeSet::new();
    let served = served(&SMALL);
    let kinds = Kind::ALL.into_iter();
    let kinds = kinds.filter(|kind| kind.view().doc.is_some());
    let kinds: Vec<String> = kinds.map(|kind| format!(":{}\n", kind.name())).collect();
    let mut ways = vec![String::new()];
    ways.extend(["d", "y", "l", "t", "\n", "!\u{1b}z"].map(str::to_owned));
    for (name, facts) in [
        ("served", &served),
        ("partly", &PARTLY),
        ("empty", &EMPTY),
        ("unknown", &UNKNOWN),
    ] {
        for view in ViewId::ALL {
            let rows = if name == "served" { 4 } else { 1 };
            for row in 0..rows {
                let own = if *view == ViewId::Fleet && row == 0 {
                    kinds.iter()
                } else {
                    [].iter()
                };
                for way in ways.iter().chain(own) {
                    let keys = format!("{}{way}", "j".repeat(row));
                    let app = opened(facts, *view, &keys);
                    let before = shown(&app);
                    for key in offered(&app) {
                        // The same page with the same offer was tried before.
                        if !tried.insert((name, before.clone(), key.clone())) {
                            continue;
                        }
                        let mut app = opened(facts, *view, &keys);
                        let press = KeyPress::parse(&key).expect("a key");
                        let effects = app.update(Msg::Key(press));
                        answer(&mut app, &effects, facts.now);
                        let after = shown(&app);
                        let says_nothing = NOTHING
                            .iter()
                            .any(|words| after.contains(words) && !before.contains(words));
                        if (effects.is_empty() && before.starts_with(&after)) || says_nothing {
                            let said = app.notice().unwrap_or_default();
                            idle.insert(format!("{name} {} {keys:?}: {key}: {said}", view.name()));
                        }
                    }
                }
            }
        }
    }
    assert!(tried.len() > 1000, "{}", tried.len());
    assert!(
        idle.is_empty(),
        "{} of {}: {idle:#?}",
        idle.len(),
        tried.len()
    );
}

/// Action keys act on nothing that has ended.
#[test]
fn what_has_ended_offers_no_plan() {
    let mut facts = SMALL.clone();
    let mut jobs = facts.fleet.jobs.to_vec();
    let at = jobs
        .iter()
        .position(|job| job.state == JobState::Running)
        .expect("one runs");
    let name = jobs[at].id.key.name.to_string();
    let offers = |facts: &Facts| {
        let app = opened(facts, ViewId::Jobs, &format!("/{name}\n"));
        let text = render_text(&app, SIZE.0, SIZE.1);
        let foot = text.lines().last().unwrap_or_default().to_owned();
        assert!(foot.contains("enter open"), "{foot}");
        ["X preempt", "H hold", "R requeue"]
            .into_iter()
            .filter(|words| foot.contains(words))
            .count()
    };
    assert_eq!(offers(&facts), 3);
    let fleet = Arc::make_mut(&mut facts.fleet);
    Arc::make_mut(&mut jobs[at]).state = JobState::Failed;
    fleet.jobs = jobs.into();
    assert_eq!(offers(&facts), 0);
}
