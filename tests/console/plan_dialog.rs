//! The plan dialog: what has to be typed and where, when a confirmation is refused, moments, and long plans on small screens.

use std::sync::Arc;
use std::time::Duration;

use console::action_keys::{ConfirmedPlan, PlanOutcome};
use console::{App, AppOptions, Effect, Key, KeyPress, Msg, render_text};
use model::base::{Moment, Name, ObjectKey};
use model::plan::{
    Alternative, Displaced, Forecast, JobName, JobRef, Loss, Mutation, Object, Outcome, Plan,
    PlanCheck, PlanEffect as Forecasted, Refusal, RefusalCode, StartChange, Step, Undo, Verb,
};
use table::Facts;
use table::actions::{ActionState, May, RunRow, RunState};
use table::navigation::ViewId;

use crate::frames::{LARGE, SMALL, console, press};

const SIZE: (u16, u16) = (120, 40);

/// A console with the plan of a drain in front; the number of its question.
pub fn opened(size: (u16, u16), plan: &Plan) -> (App, u64) {
    opened_on(&SMALL, size, plan)
}

/// As [`opened`], on these facts.
pub fn opened_on(facts: &Facts, size: (u16, u16), plan: &Plan) -> (App, u64) {
    let mut app = console(facts, ViewId::Nodes, size, AppOptions::default());
    let _ = app.update(Msg::ActionState(Arc::new(ActionState {
        may: May::Yes,
        ..ActionState::default()
    })));
    let effects = press(&mut app, "D");
    let number = asked(&effects).expect("a plan is asked for");
    show_plan(&mut app, number, plan.clone(), 1);
    (app, number)
}

fn asked(effects: &[Effect]) -> Option<u64> {
    effects.iter().find_map(|effect| match effect {
        Effect::Plan(ask) => Some(ask.number),
        _ => None,
    })
}

/// The plan as it is made so many seconds after the picture; then a second goes by.
fn show_plan(app: &mut App, number: u64, plan: Plan, after: u64) {
    let at = |seconds: u64| Msg::Tick(SMALL.now.plus(Duration::from_secs(seconds)));
    let again = app.update(at(after));
    assert!(
        after == 1 || asked(&again) == Some(number),
        "it is made anew"
    );
    let _ = app.update(Msg::PlanOutcome(number, PlanOutcome::Plan(Box::new(plan))));
    let _ = app.update(at(after + 1));
}

fn carried(effects: &[Effect]) -> Option<&ConfirmedPlan> {
    effects.iter().find_map(|effect| match effect {
        Effect::CarryOut(order) => Some(&**order),
        _ => None,
    })
}

fn text(app: &App) -> String {
    render_text(app, SIZE.0, SIZE.1)
}

fn job(name: &str) -> JobName {
    JobName(ObjectKey::new("prod", name))
}

fn in_minutes(minutes: u64) -> Option<Moment> {
    Some(SMALL.now.plus(Duration::from_secs(60 * minutes)))
}

fn evicted(name: &str) -> Displaced {
    Displaced {
        job: job(name),
        team: Name::default(),
        priority: None,
        devices: 8,
        loss: Loss::default(),
        back: in_minutes(30),
        back_p10: None,
        back_p90: None,
    }
}

/// The priority of a job that waits, for which the scheduler evicts others.
fn priority(evicts: &[&str]) -> Plan {
    let job = job("ctr-wide-53f2");
    let object = Object::new("kueue.x-k8s.io", "", "workloads", "Workload", "wl").within("prod");
    let mut step = Step::new(
        Verb::Reprioritise,
        object,
        Mutation::WorkloadPriority { value: 9 },
    );
    step.job = Some(JobRef {
        name: job.clone(),
        devices: Some(8),
        gang: None,
    });
    let mut plan = Plan::new(
        "set priority of prod/ctr-wide-53f2 to 9",
        model::plan::Intent::Reprioritise {
            job,
            priority: "9".into(),
        },
        SMALL.now,
    );
    plan.steps.push(step);
    plan.effect = Forecasted::Forecast(Forecast {
        displaced: evicts.iter().map(|name| evicted(name)).collect(),
        ..Forecast::default()
    });
    plan
}

pub fn forecast(plan: &mut Plan) -> &mut Forecast {
    match &mut plan.effect {
        Forecasted::Forecast(forecast) => forecast,
        Forecasted::Unknown { why } => panic!("{why}"),
    }
}

#[test]
fn figures_that_move_on_refuse_no_confirmation() {
    let plan = priority(&["a"]);
    let wanted = plan.typed(&SMALL.context);
    let (mut app, number) = opened(SIZE, &plan);
    press(&mut app, &wanted);
    let mut later = plan.clone();
    forecast(&mut later).lost_micro_usd = Some(77_000_000);
    forecast(&mut later).displaced[0].back = in_minutes(50);
    later.warnings = vec!["a budget allows 1 of 2 evictions now".into()];
    show_plan(&mut app, number, later, 10);
    assert!(text(&app).contains("lost work unknown"), "{}", text(&app));
    let effects = press(&mut app, "\n\n");
    let order = carried(&effects).unwrap_or_else(|| panic!("{}", text(&app)));
    assert_eq!(order.plan, plan, "the plan that is shown");
}

#[test]
fn a_plan_that_would_change_is_shown_until_it_is_made_again() {
    let plan = priority(&["a"]);
    let wanted = plan.typed(&SMALL.context);
    let (mut app, number) = opened(SIZE, &plan);
    press(&mut app, &wanted);
    show_plan(&mut app, number, priority(&["a", "two-tower-34e7"]), 10);
    let shown = text(&app);
    let marked = "also evicts prod/two-tower-34e7; ctrl-r recomputes the plan";
    assert!(shown.contains(marked), "{shown}");
    for _ in 0..2 {
        assert_eq!(carried(&press(&mut app, "\n")), None);
        let shown = text(&app);
        assert!(shown.contains(&format!("not started: {marked}")), "{shown}");
    }
    let _ = app.update(Msg::Key(KeyPress::ctrl('r')));
    assert!(!text(&app).contains("ctrl-r recomputes"), "{}", text(&app));
    let _ = app.update(Msg::Tick(SMALL.now.plus(Duration::from_secs(13))));
    // What is typed now is the whole of it.
    press(&mut app, &wanted);
    let effects = press(&mut app, "\n\n");
    assert!(carried(&effects).is_some(), "{}", text(&app));
}

#[test]
fn what_must_be_typed_is_a_hint_in_words_where_the_cursor_starts() {
    let plan = priority(&["a"]);
    let wanted = plan.typed(&SMALL.context);
    for size in [(80, 24), SIZE] {
        let (mut app, _) = opened(size, &plan);
        let field = |app: &App| {
            let shown = render_text(app, size.0, size.1);
            let title = shown.lines().position(|line| line.contains("to confirm"));
            let below = shown.lines().nth(title.expect("a field") + 1);
            below.expect("a line").to_owned()
        };
        let hint = format!("type {wanted}");
        assert!(field(&app).contains(&hint), "{}", field(&app));
        press(&mut app, &wanted[..3]);
        let typed = field(&app);
        let rest = typed.contains(&wanted) || typed.contains("type ");
        assert!(typed.contains(&wanted[..3]) && !rest, "{typed}");
        press(&mut app, "\tbecause\t");
        press(&mut app, &wanted[3..]);
        let effects = press(&mut app, "\n");
        let order = carried(&effects).expect("confirmed");
        assert_eq!(order.confirmation.reason, "because");
    }
}

#[test]
fn evicting_running_work_needs_typed_confirmation() {
    let (mut app, _) = opened(SIZE, &priority(&["a"]));
    assert_eq!(carried(&press(&mut app, "\n")), None, "a bare enter");
    let (mut app, _) = opened(SIZE, &priority(&[]));
    let shown = text(&app);
    assert!(
        shown.contains("enter applies it: nothing is evicted"),
        "{shown}"
    );
    let effects = press(&mut app, "\n\n");
    assert!(carried(&effects).is_some(), "nothing is evicted");
}

#[test]
fn a_name_typed_without_need_is_no_reason_and_writes_nothing() {
    let plan = priority(&[]);
    let (mut app, _) = opened(SIZE, &plan);
    press(&mut app, &plan.typed(&SMALL.context));
    assert_eq!(carried(&press(&mut app, "\n")), None);
    let shown = text(&app);
    assert!(shown.contains("nothing has to be typed"), "{shown}");
    let effects = press(&mut app, "\n");
    let order = carried(&effects).expect("confirmed");
    assert_eq!(order.confirmation.reason, "");
}

#[test]
fn moments_of_a_plan_are_times_of_day() {
    let mut plan = priority(&["a"]);
    let stamp = in_minutes(45).expect("a moment").rfc3339();
    plan.alternatives = vec![Alternative {
        sentence: format!("wait: it starts by itself at about {stamp}"),
        command: None,
    }];
    plan.steps[0].side_effects.notes = vec![format!("waits, and restarts at about {stamp}")];
    let change = |name: &str, before: u64, after: u64| StartChange {
        job: job(name),
        devices: 4,
        before: Some(SMALL.now.plus(Duration::from_secs(before))),
        after: Some(SMALL.now.plus(Duration::from_secs(after))),
    };
    forecast(&mut plan).starts = vec![
        change("moves", 3_600, 1_440),
        change("stays", 1_440, 1_470),
        // So far off, both are the same hour of the same day.
        change("far", 200_000, 200_090),
    ];
    let (app, _) = opened(SIZE, &plan);
    let shown = text(&app);
    let hour = |minutes: u64| table::text::hour(in_minutes(minutes).expect("a moment"));
    let expected = format!(
        "prod/moves (4 devices) starts ~{} instead of ~{}",
        hour(24),
        hour(60)
    );
    assert!(shown.contains(&expected), "{expected}\n{shown}");
    let expected = format!("it starts by itself at about {}", hour(45));
    assert!(shown.contains(&expected), "{expected}\n{shown}");
    assert!(!shown.contains("T0") && !shown.contains(&stamp), "{shown}");
    let unmoved = shown.contains("prod/stays") || shown.contains("prod/far");
    assert!(!unmoved, "what reads the same is not told\n{shown}");
}

#[test]
fn a_refusal_shows_times_of_day() {
    let mut app = console(&SMALL, ViewId::Nodes, SIZE, AppOptions::default());
    let number = asked(&press(&mut app, "D")).expect("a plan is asked for");
    let stamp = in_minutes(45).expect("a moment").rfc3339();
    let refusal =
        Refusal::new(RefusalCode::Infeasible, "no room").instead(format!("wait until {stamp}"));
    let _ = app.update(Msg::PlanOutcome(number, PlanOutcome::Refused(refusal)));
    let sentence = format!(
        "wait until {}",
        table::text::hour(in_minutes(45).expect("a moment"))
    );
    assert!(text(&app).contains(&sentence), "{}", text(&app));
    let _ = app.update(Msg::Key(KeyPress::plain(Key::Esc)));
}

/// A drain of many nodes: more steps than any screen has lines.
pub fn long() -> Plan {
    let nodes = vec!["a100-1".into(), "a100-2".into()];
    let intent = model::plan::Intent::Drain {
        nodes,
        deadline: None,
    };
    let mut plan = Plan::new("drain 2 nodes", intent, SMALL.now);
    for at in 0..300 {
        let name = format!("two-tower-34e7-worker-{at:03}");
        let object = Object::new("", "v1", "pods", "Pod", &name).within("prod");
        let grace_seconds = None;
        let mut step = Step::new(Verb::Evict, object, Mutation::Evict { grace_seconds });
        step.job = Some(JobRef {
            name: job(&format!("two-tower-{}", at % 3)),
            devices: Some(8),
            gang: Some(4),
        });
        step.side_effects.interrupts = true;
        step.side_effects.loss = Some(Loss {
            device_seconds: Some(36_000),
            micro_usd: Some(41_000_000),
            by_list: false,
            since: None,
        });
        step.side_effects.gang_broken = Some(4);
        step.side_effects.notes = vec![String::from("starts again at once on a100-3")];
        plan.steps.push(step);
    }
    plan.effect = Forecasted::Forecast(Forecast {
        displaced: ["two-tower-0", "two-tower-1", "two-tower-2"]
            .map(evicted)
            .to_vec(),
        starts: vec![StartChange {
            job: job("waits"),
            devices: 8,
            before: in_minutes(90),
            after: Some(SMALL.now),
        }],
        lost_micro_usd: Some(12_300_000_000),
        ..Forecast::default()
    });
    plan.warnings = vec![String::from("disruption budget prod/tower can never allow")];
    plan.checks = vec![PlanCheck {
        name: String::from("rights"),
        outcome: Outcome::Failed,
        sentence: String::from("create pods/eviction is refused"),
    }];
    plan.undo = Undo {
        possible: true,
        notes: vec![String::from("what has left does not come back")],
    };
    plan
}

#[test]
fn a_long_plan_says_first_what_it_does_in_sum() {
    let size = (80, 24);
    let (mut app, _) = opened(size, &long());
    let first = render_text(&app, size.0, size.1);
    for words in [
        "300 steps, evicts 300 pods of 3 jobs, frees 24 devices",
        "$12",
        "now: prod/waits",
        "disruption budget prod/tower",
        "create pods/eviction is refused",
        "steps more, at the end",
        "two-tower-34e7-worker-000",
    ] {
        assert!(first.contains(words), "{words}\n{first}");
    }
    // All else is a page or two below, before the other steps.
    let mut seen = String::new();
    for _ in 0..3 {
        let _ = app.update(Msg::Key(KeyPress::ctrl('f')));
        seen.push_str(&render_text(&app, size.0, size.1));
    }
    assert!(seen.contains("what has left does not come back"), "{seen}");
    let second = seen.matches("worker-00").count();
    assert!(second > 0, "the other steps follow\n{seen}");
    for _ in 0..60 {
        let _ = app.update(Msg::Key(KeyPress::ctrl('f')));
        seen.push_str(&render_text(&app, size.0, size.1));
    }
    seen.push_str(&first);
    for at in 0..300 {
        let name = format!("worker-{at:03}");
        assert!(seen.contains(&name), "{name} is never seen");
    }
    assert!(seen.contains("the end, "), "{seen}");
}

/// A job that only waits is kept from starting: its devices are not freed.
#[test]
fn a_step_that_holds_a_waiting_job_frees_no_device() {
    let shown = |interrupts: bool| {
        let object =
            Object::new("kueue.x-k8s.io", "", "workloads", "Workload", "wl").within("prod");
        let mut step = Step::new(
            Verb::Suspend,
            object,
            Mutation::WorkloadActive { value: false },
        );
        step.job = Some(JobRef {
            name: job("rival"),
            devices: Some(96),
            gang: None,
        });
        step.side_effects.interrupts = interrupts;
        let mut plan = priority(&[]);
        plan.steps = vec![step];
        let (app, _) = opened(SIZE, &plan);
        text(&app)
    };
    let (waits, runs) = (shown(false), shown(true));
    assert!(waits.contains("0 of 96"), "{waits}");
    assert!(runs.contains("96") && !runs.contains("0 of 96"), "{runs}");
}

#[test]
fn a_step_of_a_long_plan_takes_one_line_of_a_small_screen_and_what_all_share_is_shown_once() {
    let (mut app, _) = opened((80, 24), &long());
    for _ in 0..5 {
        let _ = app.update(Msg::Key(KeyPress::ctrl('f')));
    }
    let shown = render_text(&app, 80, 24);
    let steps: Vec<usize> = shown
        .lines()
        .enumerate()
        .filter(|(_, line)| line.contains("-worker-"))
        .map(|(at, _)| at)
        .collect();
    assert!(steps.len() >= 10, "{shown}");
    assert!(steps.windows(2).all(|two| two[1] - two[0] == 1), "{shown}");
    // The height of all of it: nothing scrolls.
    let (app, _) = opened((160, 400), &long());
    let whole = render_text(&app, 160, 400);
    let common = "each evict: eviction, PDBs checked; gang of 4 stops; starts again at once";
    assert_eq!(whole.matches(common).count(), 1, "{whole}");
    assert_eq!(whole.matches("gang of 4 stops").count(), 1, "{whole}");
}

#[test]
fn those_that_lose_work_are_a_table_by_team_with_sums() {
    let mut plan = long();
    if let Forecasted::Forecast(forecast) = &mut plan.effect {
        for (one, team) in forecast
            .displaced
            .iter_mut()
            .zip(["nlp", "vision", "vision"])
        {
            one.team = team.into();
            one.priority = Some(50);
            one.loss.device_seconds = Some(36_000);
            one.loss.micro_usd = Some(41_000_000);
        }
    }
    let (app, _) = opened((160, 400), &plan);
    let whole = render_text(&app, 160, 400);
    let has = |words: &[&str]| {
        let mut lines = whole.lines();
        lines.any(|line| words.iter().all(|word| line.contains(word)))
    };
    assert!(
        has(&[
            "lost work",
            "JOB",
            "TEAM",
            "LOST",
            "COST",
            "PRIORITY",
            "BACK"
        ]),
        "{whole}"
    );
    assert!(has(&["2 jobs", "vision", "16", "20.0h", "$82"]), "{whole}");
    assert!(
        has(&["3 jobs", "all teams", "24", "30.0h", "$123"]),
        "{whole}"
    );
}

#[test]
fn a_plan_that_fits_has_its_steps_first_and_no_sum() {
    let (app, _) = opened(SIZE, &priority(&["a"]));
    let shown = text(&app);
    let at = |words: &str| shown.find(words);
    assert!(!shown.contains("│ total "), "{shown}");
    assert!(at("STEP") < at("effect"), "{shown}");
}

#[test]
fn the_page_of_a_drain_says_which_of_its_nodes_are_still_broken() {
    let findings = LARGE.fleet.findings.iter();
    let mut broken =
        findings.filter(|it| it.subject.kind == "Device" && it.code.starts_with("xid-"));
    let finding = broken.next().expect("a broken device");
    let device = finding.subject.key.name.to_string();
    let node = device.split('/').next().expect("a node").into();
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
        cordons: vec![Name::clone(&node)],
        starts: None,
        stopped: Vec::new(),
        losses: Vec::new(),
        evicted: Vec::new(),
        suspended_jobs: Vec::new(),
    };
    for (state, warns) in [(RunState::Done, true), (RunState::Undone, false)] {
        let mut app = console(&LARGE, ViewId::Plans, SIZE, AppOptions::default());
        let _ = app.update(Msg::ActionState(Arc::new(ActionState {
            may: May::Yes,
            runs: vec![run(state)],
            ..ActionState::default()
        })));
        press(&mut app, "d");
        let shown = text(&app);
        let sentence = format!("{device} still has XID {}", &finding.code["xid-".len()..]);
        assert_eq!(shown.contains(&sentence), warns, "{sentence}\n{shown}");
    }
}

#[test]
fn the_ends_of_a_plan_are_one_key_away_and_its_foot_is_whole() {
    let names: Vec<String> = (0..9)
        .map(|at| format!("a-long-name-of-a-job-{at}"))
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut plan = priority(&names);
    let step = plan.steps[0].clone();
    plan.steps.extend((0..20).map(|_| step.clone()));
    let (mut app, _) = opened((80, 24), &plan);
    let shown = |app: &App| render_text(app, 80, 24);
    let start = shown(&app);
    assert!(start.contains("enter evicts 9 jobs"), "{start}");
    assert!(
        !start.contains("to undo: U in view 9"),
        "its undo brings back no lost work: {start}"
    );
    let _ = app.update(Msg::Key(KeyPress::plain(Key::End)));
    let end = shown(&app);
    assert!(end.contains("the end,"), "{end}");
    let _ = app.update(Msg::Key(KeyPress::plain(Key::Home)));
    assert_eq!(shown(&app), start);
}
