//! The console at hand: what keys act on, where letters go, what is cut and says so, where the cursor stands, pods, and a screen that
//! nothing comes over by itself.

use std::sync::Arc;
use std::time::Duration;

use console::action_keys::{ConfirmedPlan, PlanOutcome};
use console::{App, AppOptions, ColorDepth, Effect, Key, KeyPress, Msg, printed_text, render_text};
use model::base::{Name, ObjectKey};
use model::fleet::device::Device;
use model::fleet::history::History;
use model::fleet::job::{Job, JobState};
use model::fleet::judge::GANG_WORKS;
use model::fleet::queue::{QueueKind, QueueSystem};
use model::object::{ObjectPart, ObjectRef};
use model::plan::{Mutation, Object, Plan, Step, Verb};
use ratatui::buffer::Buffer;
use table::actions::{ActionState, May, RunRow, RunState};
use table::navigation::{Selection, ViewId};
use table::{Facts, Scope};

use crate::frames::{EMPTY, LARGE, SMALL, console, drawn, press};

const SIZE: (u16, u16) = (120, 40);

fn app(facts: &Facts, view: ViewId) -> App {
    console(facts, view, SIZE, AppOptions::default())
}

fn text(app: &App) -> String {
    render_text(app, SIZE.0, SIZE.1)
}

fn key(app: &mut App, key: Key) -> Vec<Effect> {
    app.update(Msg::Key(KeyPress::plain(key)))
}

fn may_write(app: &mut App) {
    let _ = app.update(Msg::ActionState(Arc::new(ActionState {
        may: May::Yes,
        ..ActionState::default()
    })));
}

/// A drain of one node that takes a whole queue's work, so that it has to be typed to be confirmed.
fn grave(app: &mut App) -> String {
    may_write(app);
    let effects = press(app, "D");
    let ask = effects.iter().find_map(|effect| match effect {
        Effect::Plan(ask) => Some(ask.clone()),
        _ => None,
    });
    let ask = ask.expect("a plan is asked for");
    let mut plan = Plan::new("drain", ask.intent, SMALL.now);
    let object = Object::new("batch", "v1", "jobs", "Job", "train").within("nlp");
    let mut step = Step::new(Verb::Suspend, object, Mutation::Suspend { value: true });
    step.side_effects.interrupts = true;
    step.side_effects.notes = vec![
        String::from("the first of many words that tell how it is done and what it touches"),
        String::from("the last words of the way it goes"),
    ];
    plan.steps.push(step);
    assert!(plan.needs_typed_name());
    let typed = plan.typed(&SMALL.context);
    let _ = app.update(Msg::PlanOutcome(
        ask.number,
        PlanOutcome::Plan(Box::new(plan)),
    ));
    let _ = app.update(Msg::Tick(SMALL.now.plus(Duration::from_secs(1))));
    typed
}

fn carried(effects: &[Effect]) -> Option<&ConfirmedPlan> {
    effects.iter().find_map(|effect| match effect {
        Effect::CarryOut(order) => Some(&**order),
        _ => None,
    })
}

#[test]
fn letters_always_go_to_a_field_of_the_plan_that_is_seen() {
    for size in [(40, 10), (80, 24), (120, 40), (200, 50)] {
        let mut app = console(&SMALL, ViewId::Nodes, size, AppOptions::default());
        grave(&mut app);
        for stop in 0..5 {
            let word = format!("word{stop}");
            press(&mut app, &word);
            let shown = render_text(&app, size.0, size.1);
            assert!(shown.contains(&word), "{size:?} after {stop} tabs\n{shown}");
            let (_, drawn) = drawn(&app, size);
            assert!(drawn.cursor.is_some(), "{size:?}: the cursor is seen");
            press(&mut app, "\t");
        }
    }
}

#[test]
fn a_reason_does_not_confirm_and_the_key_that_does_is_shown() {
    let mut app = app(&SMALL, ViewId::Nodes);
    let wanted = grave(&mut app);
    let mend = format!("type {wanted}, then enter, to confirm");
    assert!(!text(&app).contains(&mend));
    assert_eq!(carried(&press(&mut app, "\n")), None);
    assert!(text(&app).contains(&mend), "{}", text(&app));
    // Back in the reason, the confirmation is typed there by mistake.
    press(&mut app, "\t");
    press(&mut app, &wanted);
    assert_eq!(carried(&press(&mut app, "\n")), None);
    let message = format!("type {wanted} in the other field; this field is for the reason");
    assert!(text(&app).contains(&message), "{}", text(&app));
    let _ = app.update(Msg::Key(KeyPress::ctrl('u')));
    press(&mut app, "incident\n");
    press(&mut app, &wanted);
    let effects = press(&mut app, "\n");
    let order = carried(&effects).expect("confirmed");
    assert_eq!(order.confirmation.reason, "incident");
}

#[test]
fn the_method_of_a_step_is_shown_in_full() {
    for size in [(100, 30), (120, 40)] {
        let mut app = console(&SMALL, ViewId::Nodes, size, AppOptions::default());
        grave(&mut app);
        let shown = render_text(&app, size.0, size.1);
        assert!(!shown.contains('…'), "nothing is cut\n{shown}");
        for words in ["the first of", "of the way it goes"] {
            let found = words.split(' ').all(|word| shown.contains(word));
            assert!(found, "{words}\n{shown}");
        }
    }
}

#[test]
fn who_holds_a_device_is_seen_before_its_ids_and_a_cut_says_so() {
    let size = (120, 35);
    let mut app = console(&LARGE, ViewId::Devices, size, AppOptions::default());
    press(&mut app, ":a100-shared-017/gpu3\n\u{1b}");
    press(&mut app, "/health:xid\n");
    let shown = render_text(&app, size.0, size.1);
    for words in ["│ pod ", "│ job ", "│ team ", "│ cost "] {
        assert!(shown.contains(words), "{words}\n{shown}");
    }
    let place = |words: &str| shown.find(words);
    if let Some(uuid) = place("│ uuid ") {
        assert!(place("│ cost ").is_some_and(|cost| cost < uuid), "{shown}");
    }
    // A low screen cuts the panel, and says how much.
    let low = (120, 16);
    let _ = app.update(Msg::Resize(low.0, low.1));
    let shown = render_text(&app, low.0, low.1);
    assert!(shown.contains("more lines   . shows all"), "{shown}");
}

#[test]
fn no_sentence_is_repeated_in_a_finding() {
    let mut app = console(&LARGE, ViewId::Alerts, (200, 60), AppOptions::default());
    press(&mut app, "/code:xid-79\nd");
    let shown = render_text(&app, 200, 60);
    for sentence in ["drain, then reboot", "the GPU fell off the bus"] {
        assert_eq!(shown.matches(sentence).count(), 1, "{sentence}\n{shown}");
    }
}

#[test]
fn outliers_are_ordered_by_how_far_they_are() {
    let mut app = console(&LARGE, ViewId::Devices, (160, 45), AppOptions::default());
    press(&mut app, "xxo");
    let shown = render_text(&app, 160, 45);
    assert!(shown.contains("order outliers first"), "{shown}");
    assert!(shown.contains("outlier: "), "{shown}");
    assert!(!shown.contains("busiest"), "{shown}");
}

#[test]
fn numbers_that_are_not_the_teams_say_whose_they_are() {
    let team = LARGE.fleet.jobs[0].team.to_string();
    for (view, words) in [
        (ViewId::Fleet, "POOL FREE/TOTAL"),
        (ViewId::Pools, "POOL FREE/TOTAL"),
        (ViewId::Queues, "QUEUE LEFT"),
        (ViewId::Queues, "QUEUE SHARE"),
        (ViewId::Nodes, "ALLOC/NODE TOTAL"),
    ] {
        let mut app = app(&LARGE, view);
        assert!(!text(&app).contains(words), "{view:?}");
        press(&mut app, &format!(":team {team}\n"));
        assert!(text(&app).contains(words), "{view:?}\n{}", text(&app));
    }
}

#[test]
fn the_page_of_a_pool_is_of_the_whole_pool() {
    let scope = |job: &Arc<Job>| Scope {
        team: Some(job.team.clone()),
        ..Scope::default()
    };
    let burn = |facts: &Facts, pool: &str| {
        let row = facts.spend_rates.row(model::cost::SpendScope::Pool, pool);
        row.map(|row| row.spend.rate.all)
    };
    // A team that has a part of a pool.
    let mut jobs = LARGE.fleet.jobs.iter();
    let (team, pool) = jobs
        .find_map(|job| {
            let pool = job.pools.first()?;
            let own = burn(&LARGE.scoped(&scope(job)), pool);
            (own < burn(&LARGE, pool)).then(|| (job.team.clone(), pool.clone()))
        })
        .expect("pools are shared");
    let page = |keys: &str| {
        let mut app = app(&LARGE, ViewId::Pools);
        press(&mut app, &format!("{keys}/{pool}\n\n"));
        let shown = text(&app);
        let line = shown.lines().find(|line| line.contains("rate  "));
        let line = line.unwrap_or_else(|| panic!("no rate:\n{shown}"));
        let words = line.split_whitespace().skip_while(|word| *word != "rate");
        words.take(2).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(page(""), page(&format!(":team {team}\n")));
}

#[test]
fn a_queue_of_kueue_can_be_read() {
    let mut app = app(&SMALL, ViewId::Queues);
    let queue =
        SMALL.fleet.queues.iter().find(|queue| {
            queue.key.kind == QueueKind::Queue && queue.key.system == QueueSystem::Kueue
        });
    let name = queue.expect("one").name().clone();
    press(&mut app, &format!("/name:{name}\n"));
    let effects = press(&mut app, "Gy");
    let Some(Effect::Read(Some(want))) = effects.last() else {
        panic!("something is read, not {effects:?}");
    };
    let thing = ObjectRef::new("ClusterQueue", ObjectKey::new("", name));
    assert_eq!(want.part, ObjectPart::Yaml(thing));
}

#[test]
fn keys_act_on_the_object_of_a_detail_until_the_cursor_is_on_a_row() {
    let kind = |effects: &[Effect]| match effects.last() {
        Some(Effect::Read(Some(want))) => match &want.part {
            ObjectPart::Yaml(thing) => thing.kind.to_string(),
            other => panic!("YAML, not {other:?}"),
        },
        other => panic!("something is read, not {other:?}"),
    };
    let mut app = app(&SMALL, ViewId::Jobs);
    press(&mut app, "/state:running\n\n");
    assert!(matches!(app.meant().as_slice(), [Selection::Job(_)]));
    assert!(!text(&app).contains("keys act on"));
    let job = kind(&press(&mut app, "y"));
    assert_ne!(job, "Node");
    press(&mut app, "qj");
    assert!(matches!(app.meant().as_slice(), [Selection::Device(..)]));
    let shown = text(&app);
    assert!(
        shown.contains("keys act on") || shown.contains("more line"),
        "{shown}"
    );
    assert_eq!(kind(&press(&mut app, "y")), "Node");
    // Above the first row is the object again.
    press(&mut app, "qk");
    assert!(matches!(app.meant().as_slice(), [Selection::Job(_)]));
    press(&mut app, "Gg");
    assert!(matches!(app.meant().as_slice(), [Selection::Job(_)]));
}

#[test]
fn no_pool_is_missing_from_the_strip() {
    for ascii in [true, false] {
        for height in 28..50 {
            let options = AppOptions {
                ascii,
                ..AppOptions::default()
            };
            let app = console(&LARGE, ViewId::Fleet, (100, height), options);
            let shown = render_text(&app, 100, height);
            let Some((_, strip)) = shown.split_once("  DEVICES  ") else {
                continue;
            };
            let named = |name: &str| strip.contains(&format!("\n  {name} "));
            let missing = LARGE.fleet.pools.iter().filter(|pool| !named(&pool.name));
            let missing = missing.count();
            let is_shown = strip.contains(&format!("{missing} more pools"));
            assert!(missing == 0 || is_shown, "{height} {ascii}\n{shown}");
        }
    }
}

#[test]
fn the_longest_waiter_is_one_key_away_and_the_next_one_more() {
    let mut waiting: Vec<_> = LARGE
        .fleet
        .jobs
        .iter()
        .filter(|job| job.state == JobState::Waiting)
        .collect();
    waiting.sort_by_key(|job| table::rows::jobs::first_waited(job));
    assert!(waiting.len() > 1, "some wait");
    for view in ViewId::ALL {
        let mut app = app(&LARGE, *view);
        press(&mut app, "b");
        assert_eq!(app.trail().last(), Some(&waiting[0].id.to_string()));
        press(&mut app, "b");
        assert_eq!(app.trail().last(), Some(&waiting[1].id.to_string()));
        press(&mut app, "q");
        assert_eq!(app.view().id(), *view, "one step back");
    }
    let mut app = app(&EMPTY, ViewId::Fleet);
    press(&mut app, "b");
    assert!(text(&app).contains("no job waits"));
}

#[test]
fn a_waiting_job_is_shown_in_full_in_its_queue() {
    let mut facts = LARGE.clone();
    let mut fleet = (*facts.fleet).clone();
    let words = "first words of a long reason which needs much more room than a column has, so that its last words come last";
    let mut jobs = fleet.jobs.to_vec();
    let queue = jobs.iter().find_map(|job| {
        (job.state == JobState::Waiting)
            .then(|| job.queue.clone())
            .flatten()
    });
    for job in &mut jobs {
        if job.state == JobState::Waiting && job.queue == queue {
            let mut one = (**job).clone();
            one.reason = Name::new(words);
            *job = Arc::new(one);
        }
    }
    fleet.jobs = jobs.into();
    facts.fleet = Arc::new(fleet);
    facts.answers = Arc::default();
    let mut app = console(&facts, ViewId::Queues, (120, 40), AppOptions::default());
    press(&mut app, &format!("/name:{}\n", queue.expect("in a queue")));
    let shown = text(&app);
    assert!(shown.contains("first words"), "{shown}");
    assert!(
        shown.contains("come last") || shown.contains(" last"),
        "{shown}"
    );
}

#[test]
fn the_cursor_begins_on_the_first_row_and_stays_there_when_it_sorts() {
    let named = |app: &App, facts: &Facts| {
        app.view()
            .selection(facts)
            .map(|selection| selection.name())
    };
    let first = |app: &App, facts: &Facts| {
        let table = app.view().table().expect("a table");
        let row = table.table_model.rows()[0];
        (table.table_model.kind.selection)(facts, row).map(|selection| selection.name())
    };
    // Rows that come later come above: the cursor is still on the first.
    let mut early = SMALL.clone();
    let mut fleet = (*early.fleet).clone();
    fleet.jobs = fleet.jobs.iter().skip(3).cloned().collect();
    early.fleet = Arc::new(fleet);
    let mut app = app(&early, ViewId::Jobs);
    let _ = app.update(Msg::Tick(SMALL.now.plus(Duration::from_secs(30))));
    let _ = app.update(Msg::Facts(SMALL.clone()));
    assert_eq!(named(&app, &SMALL), first(&app, &SMALL));
    for keys in ["s", "s", "s", "o", ":sort util\n"] {
        press(&mut app, keys);
        assert_eq!(named(&app, &SMALL), first(&app, &SMALL), "after {keys}");
    }
    // Where the operator has put it, it follows its object.
    press(&mut app, "jj");
    let chosen = named(&app, &SMALL);
    let _ = app.update(Msg::Facts(early.clone()));
    let _ = app.update(Msg::Facts(SMALL.clone()));
    assert_eq!(named(&app, &SMALL), chosen);
}

fn hints(app: &App) -> String {
    text(app).lines().last().unwrap_or_default().to_owned()
}

#[test]
fn hints_offer_nothing_that_cannot_be_done() {
    let app = app(&EMPTY, ViewId::Plans);
    for words in ["enter open", "x stop", "s sort", "d describe"] {
        assert!(!hints(&app).contains(words), "{words}: {}", hints(&app));
    }
    let run = |state| RunRow {
        name: String::from("run-1"),
        title: String::from("drain"),
        begun: SMALL.now,
        last: SMALL.now,
        by: String::from("kim"),
        reason: String::new(),
        state,
        words: String::new(),
        steps: Vec::new(),
        no_undo: None,
        cordons: Vec::new(),
        starts: None,
        stopped: Vec::new(),
        losses: Vec::new(),
        suspended_jobs: Vec::new(),
        evicted: Vec::new(),
    };
    for (state, stops) in [(RunState::Running, true), (RunState::Done, false)] {
        let mut app = self::app(&SMALL, ViewId::Plans);
        let _ = app.update(Msg::ActionState(Arc::new(ActionState {
            may: May::Yes,
            runs: vec![run(state)],
            ..ActionState::default()
        })));
        assert_eq!(hints(&app).contains("x stop"), stops, "{}", hints(&app));
        assert!(hints(&app).contains("enter open"));
    }
}

#[test]
fn a_finished_run_is_not_confirmed_again() {
    let mut app = app(&SMALL, ViewId::Nodes);
    let wanted = grave(&mut app);
    press(&mut app, "\n");
    press(&mut app, &wanted);
    // What had to be typed confirms it: a reason may be given, and need not.
    let effects = press(&mut app, "\n");
    let number = carried(&effects).expect("confirmed").number;
    let _ = app.update(Msg::Began(number, Ok(String::from("run-1"))));
    let run = RunRow {
        name: String::from("run-1"),
        title: String::from("drain"),
        begun: SMALL.now,
        last: SMALL.now,
        by: String::from("kim"),
        reason: String::new(),
        state: RunState::Done,
        words: String::new(),
        steps: Vec::new(),
        no_undo: None,
        cordons: Vec::new(),
        starts: None,
        stopped: Vec::new(),
        losses: Vec::new(),
        suspended_jobs: Vec::new(),
        evicted: Vec::new(),
    };
    let show = |app: &mut App, run: &RunRow| {
        let _ = app.update(Msg::ActionState(Arc::new(ActionState {
            may: May::Yes,
            runs: vec![run.clone()],
            ..ActionState::default()
        })));
        text(app)
    };
    let shown = show(&mut app, &run);
    assert!(!hints(&app).contains("confirm"), "{}", hints(&app));
    assert!(hints(&app).contains("esc close"), "{}", hints(&app));
    assert!(shown.contains("done; U undoes it"), "{shown}");
    // One that has put all back itself offers no undo.
    let over = RunRow {
        no_undo: Some(String::from("run-1 changed nothing: nothing to undo")),
        ..run
    };
    let shown = show(&mut app, &over);
    assert!(!shown.contains("U undoes it"), "{shown}");
    assert!(shown.contains("nothing to undo"), "{shown}");
}

#[test]
fn a_printed_frame_names_no_keys_and_draws_nothing_in_color_alone() {
    let options = AppOptions {
        depth: ColorDepth::None,
        ..AppOptions::default()
    };
    for view in ViewId::ALL {
        let app = console(&LARGE, *view, SIZE, options.clone());
        let whole = text(&app);
        let printed = printed_text(&app, SIZE.0, SIZE.1);
        let bar = whole.lines().last().expect("a last line");
        assert!(bar.contains("? help"), "{bar}");
        assert!(
            !printed.contains(bar) && !printed.contains("? help"),
            "{view:?}"
        );
        assert!(!printed.contains('▆') && !printed.contains('▀'), "{view:?}");
        assert!(printed.ends_with('\n') && !printed.ends_with("\n\n"));
    }
}

#[test]
fn without_a_past_the_chart_says_so() {
    let mut facts = SMALL.clone();
    let mut history = History::default();
    let mut fleet = (*facts.fleet).clone();
    fleet.at = facts.now;
    history.record(&fleet, &|_| (1.0, 0.0));
    facts.history = Arc::new(history);
    let app = app(&facts, ViewId::Devices);
    let shown = text(&app);
    assert!(shown.contains("no history yet"), "{shown}");
    assert!(!shown.contains("last 0s"), "{shown}");
}

#[test]
fn pods_are_a_view_with_a_namespace_or_without() {
    let pods = SMALL.fleet.jobs.iter().flat_map(|job| job.pods.iter());
    let all = pods.clone().count();
    let namespace = SMALL.fleet.jobs[0].namespace().clone();
    let some = pods.filter(|pod| pod.key().namespace == namespace).count();
    assert!(some > 0 && some < all, "several namespaces have pods");
    for (typed, count) in [
        (":pods\n", all),
        (":po\n", all),
        (&*format!(":pods {namespace}\n"), some),
        (&*format!(":po {namespace}\n"), some),
    ] {
        let mut app = app(&SMALL, ViewId::Fleet);
        press(&mut app, typed);
        assert_eq!(app.view().counts(), (count, count), "{typed}");
        assert!(
            matches!(app.meant().as_slice(), [Selection::Pod(_)]),
            "{typed}"
        );
        for title in [
            "NAMESPACE",
            "NODE",
            "DEVICES",
            "READY",
            "RESTARTS",
            "PHASE",
            "JOB",
        ] {
            assert!(text(&app).contains(title), "{title}\n{}", text(&app));
        }
    }
    // At the smallest sizes it stands as well.
    let mut app = app(&SMALL, ViewId::Fleet);
    press(&mut app, ":pods\n");
    for size in [(40, 10), (80, 24), (200, 50)] {
        let _ = app.update(Msg::Resize(size.0, size.1));
        let (buf, _): (Buffer, _) = drawn(&app, size);
        assert_eq!(buf.area.width, size.0);
    }
}

#[test]
fn the_palette_takes_short_names_and_filters() {
    for (typed, view) in [
        (":no\n", ViewId::Nodes),
        (":dev\n", ViewId::Devices),
        (":cq\n", ViewId::Queues),
        (":jobs\n", ViewId::Jobs),
        (":pulse\n", ViewId::Fleet),
    ] {
        let mut app = app(&SMALL, ViewId::Fleet);
        press(&mut app, typed);
        assert_eq!(app.view().id(), view, "{typed}");
    }
    let mut app = app(&SMALL, ViewId::Fleet);
    press(&mut app, ":jobs -l tier=gold\n");
    assert_eq!(app.view().id(), ViewId::Jobs);
    assert_eq!(app.view().filter(), "-l tier=gold");
    let mut app = self::app(&SMALL, ViewId::Fleet);
    press(&mut app, ":nodes /pool:l4\n");
    assert_eq!(app.view().filter(), "pool:l4");
    let mut app = self::app(&SMALL, ViewId::Fleet);
    assert_eq!(press(&mut app, ":q\n"), [Effect::Quit]);
    // Another word is looked for among the names.
    let job = &SMALL.fleet.jobs[0];
    let mut app = self::app(&SMALL, ViewId::Fleet);
    press(&mut app, &format!(":job {}\n", job.id));
    assert_eq!(app.trail().last(), Some(&job.id.to_string()));
    let mut app = self::app(&SMALL, ViewId::Fleet);
    press(&mut app, &format!(":jobs {}\n", job.namespace()));
    let of = SMALL.fleet.jobs.iter();
    let of = of
        .filter(|known| known.namespace() == job.namespace())
        .count();
    assert_eq!(app.view().counts().1, of);
}

#[test]
fn every_table_has_a_name_to_filter_by() {
    for view in ViewId::ALL {
        let mut app = app(&LARGE, *view);
        press(&mut app, "/name:zzzz\n");
        assert_eq!(app.view().filter(), "name:zzzz", "{view:?}");
        assert_eq!(app.view().counts().0, 0, "{view:?}");
    }
}

#[test]
fn the_arrows_scroll_a_plan_while_its_reason_is_typed() {
    let size = (80, 12);
    let mut app = console(&SMALL, ViewId::Nodes, size, AppOptions::default());
    grave(&mut app);
    let before = render_text(&app, size.0, size.1);
    key(&mut app, Key::Down);
    let after = render_text(&app, size.0, size.1);
    assert_ne!(before, after);
    press(&mut app, "still typed");
    assert!(render_text(&app, size.0, size.1).contains("still typed"));
}

#[test]
fn the_outlier_that_lasts_comes_before_one_of_a_moment() {
    let at = |facts: &Facts| {
        let mut app = console(facts, ViewId::Devices, (160, 45), AppOptions::default());
        press(&mut app, "xx");
        let shown = render_text(&app, 160, 45);
        let (_, rest) = ["outlier: ", "likely straggler: "]
            .iter()
            .find_map(|words| shown.split_once(words))
            .expect("one");
        rest.split([',', ' ']).next().unwrap_or_default().to_owned()
    };
    let furthest = at(&LARGE);
    // Until a moment ago it was as the others of its job.
    let mut facts = LARGE.clone();
    let mut past = (*facts.fleet).clone();
    let job = |device: &Device| Some(device.first_holder()?.0.job.clone());
    let (_, outlier) = past
        .devices()
        .find(|(_, device)| device.id.as_str() == furthest)
        .expect("is there");
    let (_, other) = past
        .devices()
        .find(|(_, device)| device.id != outlier.id && job(device) == job(outlier))
        .expect("a gang has several");
    let signals = other.signals.clone();
    let mut nodes = past.nodes.to_vec();
    for node in nodes.iter_mut().map(Arc::make_mut) {
        let device = node
            .devices
            .iter_mut()
            .find(|device| device.id.as_str() == furthest);
        if let Some(device) = device {
            device.signals = signals.clone();
        }
    }
    past.nodes = nodes.into();
    let mut history = History::default();
    for minute in (1..5).rev() {
        past.at = facts.now.minus(Duration::from_secs(minute * 60));
        history.record(&past, &|_| (1.0, 0.0));
    }
    facts.history = Arc::new(history);
    assert_ne!(at(&facts), furthest);
    // Another device of a gang, of which a finding says that it holds up the others.
    let median = |of: &Device| {
        let gang = LARGE.fleet.devices().filter(|(_, one)| job(one) == job(of));
        let mut utils: Vec<f64> = gang.filter_map(|(_, one)| one.util()).collect();
        utils.sort_by(f64::total_cmp);
        utils[utils.len() / 2]
    };
    let in_gang = LARGE.fleet.devices().find(|(_, device)| {
        let job = device
            .first_holder()
            .and_then(|(pod, _)| LARGE.fleet.job(&pod.job));
        job.is_some_and(|job| job.devices_allocated >= 4 && job.gang.is_none_or(|it| it.min > 1))
            && device.id.as_str() != furthest
            && median(device) >= GANG_WORKS
            && device
                .util()
                .is_some_and(|own| (own - median(device)).abs() > 0.06)
    });
    let id = in_gang.expect("a gang").1.id.clone();
    let mut facts = LARGE.clone();
    let mut fleet = (*facts.fleet).clone();
    let mut findings = fleet.findings.to_vec();
    let mut straggler = findings[0].clone();
    straggler.code = Name::new("straggler");
    straggler.subject.key.name = id.clone();
    findings.push(straggler);
    fleet.findings = findings.into();
    facts.fleet = Arc::new(fleet);
    assert_eq!(at(&facts), id.as_str());
}

#[test]
fn views_without_a_tab_are_named_beside_the_tabs_which_stand_still() {
    let line = |view: ViewId, width: u16| {
        let app = console(&SMALL, view, (width, 40), AppOptions::default());
        let shown = render_text(&app, width, 40);
        shown.lines().nth(1).unwrap_or_default().to_owned()
    };
    for view in [ViewId::Fleet, ViewId::Jobs, ViewId::Sources] {
        let (wide, middle) = (line(view, 200), line(view, 120));
        for words in ["f2 advice", "f3 services", "f5 teams", "f6 changes"] {
            assert!(wide.contains(words), "{words}\n{wide}");
        }
        assert!(middle.trim_end().ends_with("f2–f6"), "{middle}");
        for width in [200, 120, 80] {
            let tabs = |line: String| line.find("9 plans").or_else(|| line.find(" 9 "));
            let first = tabs(line(ViewId::Fleet, width));
            assert_eq!(tabs(line(view, width)), first, "{width}");
        }
    }
}

#[test]
fn quotas_that_have_no_room_for_a_column_are_named() {
    const FLAVORS: [&str; 8] = [
        "h100", "h200", "b200", "a100", "a100-mig", "l4", "mi300x", "tpu-v5p",
    ];
    let mut facts = LARGE.clone();
    let mut fleet = (*facts.fleet).clone();
    fleet.queues = fleet
        .queues
        .iter()
        .map(|own| {
            let mut own = own.clone();
            if let Some(first) = own.quotas.first().cloned() {
                let each = FLAVORS.map(|flavor| {
                    let mut quota = first.clone();
                    quota.flavor = Name::new(flavor);
                    quota
                });
                Arc::make_mut(&mut own).quotas = each.to_vec().into();
            }
            own
        })
        .collect();
    facts.fleet = Arc::new(fleet);
    let mut named = 0;
    for width in (120..=260).step_by(10) {
        let app = console(&facts, ViewId::Queues, (width, 50), AppOptions::default());
        let shown = render_text(&app, width, 50);
        let head = shown.lines().find(|line| line.contains("WAITING"));
        let head = head.unwrap_or_else(|| panic!("{shown}"));
        if head.contains("OWN QUOTA LEFT") {
            continue;
        }
        let note = shown.lines().find(|line| line.contains("no room for"));
        for flavor in FLAVORS {
            let title = format!("{flavor} used/quota");
            let is_named = note.is_some_and(|note| note.contains(&title));
            assert!(
                head.contains(&title) != is_named,
                "{width} {title}\n{shown}"
            );
        }
        named += usize::from(note.is_some());
    }
    assert!(named > 0, "some width has room for most of them alone");
}
