//! Keys: every binding of the default map does something where it is bound.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ratatui::layout::Position;

use console::action_keys::PlanOutcome;
use console::commands::{COMMANDS, Command, CommandSpec, Context};
use console::{App, AppOptions, Effect, Key, KeyPress, Keymap, Msg, render_text};
use engine::explain::{Explanation, StartState, Unblock, UnblockChange};
use engine::explanations::WorkloadExplanation;
use model::base::Name;
use model::fleet::job::Job;
use model::object::{LogLine, ObjectNews};
use plan::actions::ActionName;
use table::navigation::{Selection, ViewId};

use model::plan::{Intent, JobName, Mutation, Object, Plan, Step, Verb};
use table::actions::{ActionState, May, RunRow, RunState};
use table::waiting::explanations::{JobExplanation, JobExplanations};

use crate::frames::{LARGE, PAST, SMALL, console, drawn, press};

const SIZE: (u16, u16) = (120, 40);

/// A console in which the command, given in this context, has something to do.
fn prepared(context: Context, command: Command) -> App {
    let view = match context {
        Context::Heatmap => ViewId::Devices,
        Context::Fleet => ViewId::Fleet,
        Context::Cost => ViewId::Cost,
        Context::Alerts => ViewId::Alerts,
        Context::Logs => ViewId::Jobs,
        Context::Plans => ViewId::Plans,
        _ => ViewId::Nodes,
    };
    let large = matches!(context, Context::Alerts | Context::Text | Context::Logs);
    let facts = if large { &LARGE } else { &PAST };
    let mut app = console(facts, view, SIZE, AppOptions::default());
    if matches!(context, Context::Text | Context::Logs) {
        prepare_text(&mut app, context, command);
        return app;
    }
    if matches!(context, Context::Plan | Context::Plans) {
        prepare_plan(&mut app, context, command);
        return app;
    }
    if context == Context::Leaving {
        let _ = app.update(Msg::Leaving(String::from("run-1")));
        return app;
    }
    // What needs more than keys: a past to step into, a view to go forward to.
    if command == Command::TimeForward {
        press(&mut app, "[");
    }
    if command == Command::Later {
        press(&mut app, "1");
        let _ = app.update(Msg::Key(KeyPress {
            alt: true,
            ..KeyPress::plain(Key::Left)
        }));
    }
    let before = match (context, command) {
        (Context::Popup, Command::Up | Command::PageUp | Command::Top) => "?jjjjj",
        (
            Context::Popup,
            Command::Copy | Command::Yaml | Command::Events | Command::Logs | Command::Tree,
        ) => ".",
        (Context::Popup, _) => "?",
        (Context::Prompt, Command::Accept) => ":jobs",
        (Context::Prompt, _) => ":",
        (Context::Copy, _) => "c",
        (Context::Columns, Command::Up) => "|j",
        (Context::Columns, _) => "|",
        (Context::Missing, _) => "!",
        (_, Command::Unmark) => " ",
        (_, Command::Earlier) => "15",
        (_, Command::View(ViewId::Nodes)) => "1",
        (_, Command::LastView) => "15",
        (_, Command::Back) => "/a100\n",
        (_, Command::Leave) => "\n",
        (Context::Heatmap, Command::ZoomOut) => ">",
        (Context::Heatmap, Command::Up | Command::PageUp | Command::Top) => "G",
        (Context::Heatmap, Command::Left) => "llll",
        (_, Command::Up | Command::PageUp | Command::Top) => "G",
        _ => "",
    };
    press(&mut app, before);
    app
}

/// A plan of many steps without fields; for what follows a run, the run is over.
fn prepare_plan(app: &mut App, context: Context, command: Command) {
    let runs = vec![RunRow {
        name: String::from("run-1"),
        title: String::from("drain"),
        begun: PAST.now,
        last: PAST.now,
        by: String::from("kim"),
        reason: String::new(),
        state: match context {
            Context::Plans => RunState::Running,
            _ => RunState::Done,
        },
        words: String::new(),
        steps: Vec::new(),
        no_undo: None,
        cordons: Vec::new(),
        starts: None,
        stopped: Vec::new(),
        losses: Vec::new(),
        suspended_jobs: Vec::new(),
        evicted: Vec::new(),
    }];
    // Letters are keys in a plan that may not be confirmed: it has no field.
    let may = match (context, command) {
        (Context::Plan, Command::Action(ActionName::Undo)) | (Context::Plans, _) => May::Yes,
        _ => May::No {
            short: String::from("read-only"),
            sentence: String::from("this session is read-only"),
        },
    };
    let _ = app.update(Msg::ActionState(Arc::new(ActionState {
        may,
        runs,
        ..ActionState::default()
    })));
    if context == Context::Plans {
        return;
    }
    let effects = press(app, "D");
    let asked = effects.iter().find_map(|effect| match effect {
        Effect::Plan(ask) => Some(ask.clone()),
        _ => None,
    });
    let asked = asked.expect("a plan is asked for");
    let mut plan = Plan::new("drain", asked.intent, PAST.now);
    for at in 0..60 {
        let object = Object::new("batch", "v1", "jobs", "Job", &format!("job{at}")).within("nlp");
        let mutation = Mutation::Suspend { value: true };
        plan.steps.push(Step::new(Verb::Suspend, object, mutation));
    }
    let made = PlanOutcome::Plan(Box::new(plan));
    let _ = app.update(Msg::PlanOutcome(asked.number, made));
    let _ = app.update(Msg::Tick(PAST.now.plus(Duration::from_secs(1))));
    if command == Command::Action(ActionName::Undo) {
        press(app, "\n");
        let _ = app.update(Msg::Began(asked.number, Ok(String::from("run-1"))));
    }
    if matches!(command, Command::Up | Command::PageUp | Command::Top) {
        press(app, "jjjjjjjjjj");
    }
}

/// YAML of a node, or the logs of a job's pods, long enough to be scrolled, with two containers.
fn prepare_text(app: &mut App, context: Context, command: Command) {
    let logs = context == Context::Logs;
    let effects = press(app, if logs { "Gl" } else { "y" });
    let Some(Effect::Read(Some(want))) = effects.last().cloned() else {
        panic!("something is to be read, not {effects:?}");
    };
    let news = if logs {
        let words = "a long line ".repeat(30);
        let line = |pod: u32| LogLine {
            pod,
            at: Some(LARGE.now),
            words: words.clone(),
        };
        let names = vec![Name::new("main"), Name::new("sidecar")];
        let containers = ObjectNews::Containers(names, Name::new("main"));
        let _ = app.update(Msg::Read(want.clone(), containers));
        ObjectNews::Lines((0..200).map(|at| line(at % 2)).collect())
    } else {
        ObjectNews::Text((0..200).map(|at| format!("line{at}: {at}")).collect())
    };
    let _ = app.update(Msg::Read(want, news));
    press(
        app,
        match command {
            Command::Up | Command::PageUp | Command::Top if !logs => "G",
            Command::AllPods => "\t",
            _ => "",
        },
    );
}

#[test]
fn every_binding_does_something_where_it_is_bound() {
    for (context, key, command) in Keymap::builtin().bindings() {
        let mut app = prepared(context, command);
        assert!(
            app.contexts().contains(&context),
            "{context:?} is not heard while {key} is tried"
        );
        let before = drawn(&app, SIZE);
        let effects: Vec<Effect> = app
            .update(Msg::Key(key))
            .into_iter()
            .filter(|effect| !matches!(effect, Effect::OnScreen(_)))
            .collect();
        let after = drawn(&app, SIZE);
        assert!(
            before.0 != after.0 || !effects.is_empty(),
            "{key} ({}) in {context:?} does nothing",
            command.spec().name
        );
    }
}

#[test]
fn every_command_is_tried_above() {
    let map = Keymap::builtin();
    let has_key = |spec: &&CommandSpec| !matches!(spec.command, Command::Action(name) if name.spec().key.is_none());
    for spec in COMMANDS.iter().filter(has_key) {
        for context in spec.contexts {
            assert!(
                map.bindings()
                    .any(|(place, _, command)| place == *context && command == spec.command),
                "{} in {context:?}",
                spec.name
            );
        }
    }
}

#[test]
fn a_key_that_is_bound_to_nothing_says_so_and_does_nothing() {
    let mut app = console(&LARGE, ViewId::Jobs, SIZE, AppOptions::default());
    let before = drawn(&app, SIZE);
    for key in [
        KeyPress::char('Q'),
        KeyPress::char('Z'),
        KeyPress::char('&'),
        KeyPress::char('r'),
        KeyPress::ctrl('d'),
        KeyPress::ctrl('k'),
        KeyPress::plain(Key::F(9)),
    ] {
        assert_eq!(app.update(Msg::Key(key)), [], "{key}");
        let after = drawn(&app, SIZE);
        let words = format!("{key} does nothing here; ? lists the keys");
        let cells = |buffer: &ratatui::buffer::Buffer, last: bool| -> String {
            let width = usize::from(buffer.area.width);
            let (body, foot) = buffer.content.split_at(buffer.content.len() - width);
            let part = if last { foot } else { body };
            part.iter().map(|cell| cell.symbol()).collect()
        };
        let foot = cells(&after.0, true);
        assert!(foot.contains(&words), "{key}: {foot}");
        assert_eq!(cells(&after.0, false), cells(&before.0, false), "{key}");
    }
}

#[test]
fn effects_come_from_their_keys() {
    let effects = |key: KeyPress| {
        console(&SMALL, ViewId::Fleet, SIZE, AppOptions::default()).update(Msg::Key(key))
    };
    assert_eq!(effects(KeyPress::char('q')), [Effect::Quit]);
    assert_eq!(effects(KeyPress::ctrl('c')), [Effect::Quit]);
    assert_eq!(effects(KeyPress::ctrl('z')), [Effect::Suspend]);
    assert_eq!(effects(KeyPress::ctrl('l')), [Effect::Redraw]);
    assert_eq!(effects(KeyPress::ctrl('r')), [Effect::Refresh]);
    assert_eq!(
        effects(KeyPress::char('c')),
        [],
        "it is asked as what first"
    );
    let picture = effects(KeyPress::ctrl('s'));
    let [Effect::SavePicture(svg)] = picture.as_slice() else {
        panic!("one picture");
    };
    assert!(svg.contains("stokehold"));
    let mut app = console(&SMALL, ViewId::Fleet, SIZE, AppOptions::default());
    assert_eq!(app.update(Msg::Resume), [Effect::Redraw]);
}

#[test]
fn letters_are_text_while_something_is_typed() {
    let mut app = console(&SMALL, ViewId::Nodes, SIZE, AppOptions::default());
    assert!(!press(&mut app, "/q1z").contains(&Effect::Quit));
    let text = render_text(&app, SIZE.0, SIZE.1);
    assert!(text.contains("/ q1z"), "{text}");
    let (_, drawn) = drawn(&app, SIZE);
    assert_eq!(drawn.cursor, Some(Position::new(6, 39)));
    // Escape gives the filter back that there was.
    press(&mut app, "\u{1b}");
    assert_eq!(app.view().filter(), "");
    assert_eq!(app.view().counts(), (11, 11));
}

#[test]
fn a_filter_works_while_it_is_typed_and_says_what_is_wrong() {
    let mut app = console(&SMALL, ViewId::Nodes, SIZE, AppOptions::default());
    press(&mut app, "/pool:l4");
    assert_eq!(app.view().counts(), (5, 11));
    let _ = app.update(Msg::Paste(String::from(" temp>")));
    assert_eq!(
        app.view().counts(),
        (5, 11),
        "half a comparison leaves the filter as it was"
    );
    assert!(render_text(&app, SIZE.0, SIZE.1).contains("needs a number"));
    press(&mut app, "9999\n");
    assert!(render_text(&app, SIZE.0, SIZE.1).contains("nothing matches pool:l4 temp>9999"));
    press(&mut app, "\u{1b}");
    assert_eq!(app.view().counts(), (11, 11));
    press(&mut app, "/-l tier=l4-serve\n");
    assert_eq!(app.view().counts(), (5, 11));
}

#[test]
fn in_a_large_view_letters_are_drawn_before_they_filter() {
    let plan = crate::frames_fleet::PoolPlan {
        nodes: 2600,
        ..crate::frames_fleet::POOLS[2]
    };
    let facts = crate::frames_fleet::build(&[plan], 0);
    let mut app = console(&facts, ViewId::Devices, SIZE, AppOptions::default());
    let all = app.view().counts().1;
    assert_eq!(all, 20_800);
    press(&mut app, "/train-0001");
    assert_eq!(app.view().counts(), (all, all));
    let drawn = drawn(&app, SIZE).1;
    assert_eq!(drawn.wake_after, Some(Duration::from_millis(1)));
    let _ = app.update(Msg::Tick(facts.now));
    assert_eq!(app.view().counts(), (0, all));
    press(&mut app, "\u{1b}/h100-train-001\n");
    assert_eq!(app.view().counts(), (8, all), "enter does not wait");
}

#[test]
fn the_palette_goes_everywhere() {
    for (typed, view) in [
        ("jobs", ViewId::Jobs),
        ("dev", ViewId::Devices),
        ("src", ViewId::Sources),
        ("cost", ViewId::Cost),
    ] {
        let mut app = console(&SMALL, ViewId::Fleet, SIZE, AppOptions::default());
        press(&mut app, &format!(":{typed}\n"));
        assert_eq!(app.view().id(), view, "{typed}");
    }
    let mut app = console(&SMALL, ViewId::Fleet, SIZE, AppOptions::default());
    assert_eq!(press(&mut app, ":q\n"), [Effect::Quit]);
    let before = drawn(&app, SIZE);
    press(&mut app, ":theme day\n");
    let after = drawn(&app, SIZE);
    assert_ne!(before.0[(0, 0)].bg, after.0[(0, 0)].bg);
}

#[test]
fn drilling_in_and_back_again() {
    let mut app = console(&SMALL, ViewId::Fleet, SIZE, AppOptions::default());
    press(&mut app, "\n");
    assert_eq!(
        (app.view().id(), app.trail()),
        (ViewId::Devices, vec![String::from("pool a100-shared")])
    );
    assert_eq!(app.view().counts().1, 48);
    press(&mut app, "q");
    assert_eq!(app.view().id(), ViewId::Fleet);
    press(&mut app, "2\n");
    assert_eq!((app.view().id(), app.view().counts().1), (ViewId::Pools, 6));
    // From the pool to the first of its nodes, and into that.
    press(&mut app, "\n\n");
    assert_eq!(app.view().counts().1, 8, "a node's devices");
    press(&mut app, "\u{1b}\u{1b}");
    assert_eq!(app.view().id(), ViewId::Pools);
    // Money leads to a team and its jobs, a job to its devices, an alert to what it is about.
    press(&mut app, "7\n");
    let team = app.view().trail();
    let costs = |job: &Job| job.team.as_str() == team && job.devices_allocated > 0;
    let jobs = SMALL.fleet.jobs.iter().filter(|job| costs(job)).count();
    assert_eq!(app.view().id(), ViewId::Cost);
    assert!(jobs > 0 && app.view().counts().1 == jobs, "{team}: {jobs}");
    press(&mut app, "\n\n");
    assert_eq!(app.view().id(), ViewId::Jobs);
    assert!(app.view().counts().1 > 0, "a job's devices");
    let mut app = console(&LARGE, ViewId::Alerts, SIZE, AppOptions::default());
    press(&mut app, "j\n");
    assert_eq!(app.trail(), ["a100-shared-005"]);
    let mut app = console(&LARGE, ViewId::Alerts, SIZE, AppOptions::default());
    press(&mut app, "\n");
    assert!(render_text(&app, SIZE.0, SIZE.1).contains("a100-shared-017 / gpu 3"));
}

/// What an operator asks on a bad day, the keys that answer it from the fleet view, and what is then on screen.
/// The README's table says the same.
const ANSWERS: &[(&str, &str, &[&str])] = &[
    (
        "why the longest-waiting job waits",
        "1",
        &[
            "research/llm-70b-sft-next",
            "3h12m",
            "needs 500 more H100 in one pool",
        ],
    ),
    (
        "what would start it",
        "b",
        &[
            "starts now",
            "research/llm-70b-sft-next",
            "priority 91 instead of 72",
        ],
    ),
    (
        "which devices are idle, which jobs have them, what they cost",
        "$$",
        &[
            "IDLE FOR",
            "a100-shared-",
            "-worker-",
            "3h02m",
            "3.40",
            "TEAM",
        ],
    ),
    (
        "which jobs pay for idle devices, whose they are",
        "$",
        &["wasted by job", "WASTED $/h", "TEAM", "speech/clip-l-15"],
    ),
    (
        "which device holds up its gang",
        "3xx",
        &["outlier: mi300x-lab-003/gpu5", "mi300x-lab-003 / gpu 5 ─"],
    ),
    ("what a failed job says", "5zl", &["LOGS  speech/ranker-7"]),
    (
        "what a team costs",
        "7",
        &["cost per hour by  pool   queue   team", "research", "2 367"],
    ),
    (
        "which rack is hottest",
        "3mm",
        &["metric temperature", "hottest r", " of h100-train, mean "],
    ),
    (
        "which device fails, with its jobs and the repair",
        "8",
        &[
            "XID 79",
            "repair      drain, then reboot; replace it if it returns",
            "serial      1324923",
            "pci         00000000:",
            "pod ",
            "job ",
        ],
    ),
    (
        "what a job says",
        "5Gl",
        &["LOGS  vision/", "following", "loss 2.17"],
    ),
];

/// What the engine says of this job.
pub fn answer_for(name: &str) -> JobExplanations {
    let job = LARGE.fleet.jobs.iter().find(|job| **job.name() == *name);
    let key = &job.expect("it is there").id;
    let change = UnblockChange::Priority { from: 72, to: 91 };
    let explanation = Explanation {
        job: JobName(key.key.clone()),
        kind: key.kind.clone(),
        queue: None,
        priority: 72,
        state: StartState::Waiting,
        position: Some(1),
        ahead: Some(0),
        ahead_first: Vec::new(),
        reasons: Vec::new(),
        reason: String::new(),
        unblock: Some(Unblock {
            sentence: change.sentence(),
            changes: vec![change],
            proven: true,
            victims: Vec::new(),
        }),
        alternatives: Vec::new(),
        victims: Vec::new(),
        reserved_at: None,
    };
    let answer = WorkloadExplanation {
        explanation,
        start: None,
        later: Vec::new(),
        options: Vec::new(),
    };
    JobExplanations {
        at: Some(LARGE.now),
        jobs: BTreeMap::from([(key.clone(), JobExplanation { answer, now: None })]),
        ..JobExplanations::default()
    }
}

#[test]
fn each_answer_takes_at_most_four_keys() {
    let readme = include_str!("../../README.md");
    let explained = Arc::new(answer_for("llm-70b-sft-next"));
    for (question, keys, answers) in ANSWERS {
        assert!(keys.chars().count() <= 4, "{question}");
        let mut app = console(&LARGE, ViewId::Fleet, (170, 44), AppOptions::default());
        let _ = app.update(Msg::JobExplanations(Arc::clone(&explained)));
        let effects = press(&mut app, keys);
        if let Some(Effect::Read(Some(want))) = effects.last() {
            let line = LogLine {
                pod: 0,
                at: Some(LARGE.now),
                words: String::from("step 7 loss 2.17"),
            };
            let _ = app.update(Msg::Read(want.clone(), ObjectNews::Lines(vec![line])));
        }
        let text = render_text(&app, 170, 44);
        for answer in *answers {
            assert!(
                text.contains(answer),
                "{question}: {answer} is not in\n{text}"
            );
        }
        let shown: Vec<String> = keys.chars().map(|key| format!("`{key}`")).collect();
        let shown = shown.join(" ");
        let row = format!("| {question} | {shown} |");
        assert!(readme.contains(&row), "the README lacks: {row}");
    }
}

#[test]
fn a_notice_goes_by_itself() {
    let mut app = console(&SMALL, ViewId::Pools, SIZE, AppOptions::default());
    let _ = app.update(Msg::Notice(String::from("saved to stokehold.svg")));
    assert!(render_text(&app, SIZE.0, SIZE.1).contains("saved to stokehold.svg"));
    let wake = drawn(&app, SIZE).1.wake_after.unwrap_or_default();
    assert!(wake > Duration::ZERO && wake <= Duration::from_secs(10));
    let _ = app.update(Msg::Tick(SMALL.now.plus(wake)));
    assert!(!render_text(&app, SIZE.0, SIZE.1).contains("saved"));
}

#[test]
fn a_team_sees_its_own_jobs() {
    let options = AppOptions {
        team: Some("prod".into()),
        ..AppOptions::default()
    };
    let mut app = console(&LARGE, ViewId::Jobs, SIZE, options);
    let of_team = LARGE
        .fleet
        .jobs
        .iter()
        .filter(|job| &*job.team == "prod")
        .count();
    assert_eq!(app.view().counts(), (of_team, of_team));
    press(&mut app, "3");
    assert!(app.view().counts().1 < LARGE.fleet.devices().count());
    assert!(render_text(&app, SIZE.0, SIZE.1).contains("team prod"));
}

#[test]
fn the_mouse_points_and_scrolls() {
    use console::msg::Mouse;
    let mut app = console(&SMALL, ViewId::Nodes, SIZE, AppOptions::default());
    let first = app.view().selection(app.facts());
    let _ = app.update(Msg::Mouse(Mouse::WheelDown));
    assert_ne!(app.view().selection(app.facts()), first);
    let _ = app.update(Msg::Mouse(Mouse::Press(10, 4)));
    assert_eq!(app.view().selection(app.facts()), first);
    let _ = app.update(Msg::Mouse(Mouse::Press(26, 1)));
    assert_eq!(app.view().id(), ViewId::Devices);
}

#[test]
fn the_key_of_a_view_closes_a_page() {
    let mut app = console(&SMALL, ViewId::Nodes, (120, 40), AppOptions::default());
    press(&mut app, ".");
    let node = SMALL.fleet.nodes[0].name();
    assert!(
        render_text(&app, 120, 40).contains(&format!("╭─ {node}")),
        "its facts"
    );
    press(&mut app, "5");
    assert_eq!(app.view().id(), ViewId::Jobs);
    press(&mut app, "?7");
    assert_eq!(app.view().id(), ViewId::Cost, "from the help as well");
    // So does the palette.
    press(&mut app, "6.:jobs\n");
    assert_eq!(app.view().id(), ViewId::Jobs);
    press(&mut app, "7");
    // What is typed is no key of a view.
    press(&mut app, "/5");
    assert_eq!(app.view().id(), ViewId::Cost);
}

#[test]
fn help_goes_up_again_from_its_end() {
    let mut app = console(&SMALL, ViewId::Jobs, (100, 24), AppOptions::default());
    press(&mut app, "?G");
    let end = render_text(&app, 100, 24);
    press(&mut app, "k");
    let above = render_text(&app, 100, 24);
    assert_ne!(above, end, "one line up");
    press(&mut app, "j");
    assert_eq!(render_text(&app, 100, 24), end);
}

#[test]
fn describe_and_why_lead_to_the_page_of_what_is_named() {
    let job = &LARGE.fleet.jobs[LARGE.fleet.jobs.len() / 2];
    for word in ["describe", "describe job", "why", "explain"] {
        let mut app = console(&LARGE, ViewId::Fleet, SIZE, AppOptions::default());
        press(&mut app, &format!(":{word} {}\n", job.id));
        let title = Selection::Job(job.id.clone()).heading(&LARGE);
        let leads = app.trail().last() == Some(&title)
            || render_text(&app, SIZE.0, SIZE.1).contains(&title);
        assert!(leads, "{word}: {:?}", app.trail());
    }
}

#[test]
fn that_a_key_does_nothing_is_no_news_after_the_next_one() {
    let mut app = console(&LARGE, ViewId::Fleet, SIZE, AppOptions::default());
    press(&mut app, "v");
    assert!(render_text(&app, SIZE.0, SIZE.1).contains("v does nothing here"));
    press(&mut app, "j");
    assert!(!render_text(&app, SIZE.0, SIZE.1).contains("does nothing here"));
}

/// What is typed in the palette in the words of `stokehold plan` is planned; what it cannot mean is said.
#[test]
fn the_palette_plans_what_is_typed() {
    let asked = |typed: &str| {
        let mut app = console(&LARGE, ViewId::Fleet, SIZE, AppOptions::default());
        let _ = app.update(Msg::ActionState(Arc::new(ActionState {
            may: May::Yes,
            ..ActionState::default()
        })));
        let effects = press(&mut app, &format!(":{typed}\n"));
        let intent = effects.into_iter().find_map(|effect| match effect {
            Effect::Plan(ask) => Some(ask.intent),
            _ => None,
        });
        (intent, render_text(&app, SIZE.0, SIZE.1))
    };
    let pool = &LARGE.pools()[0].name;
    let of_pool = LARGE.fleet.nodes.iter().filter(|node| node.pool == *pool);
    let mut all: Vec<Name> = of_pool.map(|node| node.name().clone()).collect();
    all.sort();
    let (intent, text) = asked(&format!("drain pool/{pool} --deadline 30m"));
    let Some(Intent::Drain {
        mut nodes,
        deadline,
    }) = intent
    else {
        panic!("{intent:?}\n{text}");
    };
    nodes.sort();
    assert_eq!(nodes, all);
    assert_eq!(deadline, Some(LARGE.now.plus(Duration::from_secs(1_800))));
    for (typed, expected) in [
        (String::from("drain pool/nowhere --deadline 30m"), "nowhere"),
        (
            format!("drain pool/{pool} --deadline soon"),
            "`soon` is not a deadline",
        ),
    ] {
        let (intent, text) = asked(&typed);
        assert!(
            intent.is_none() && text.contains(expected),
            "{typed}\n{text}"
        );
    }
}
