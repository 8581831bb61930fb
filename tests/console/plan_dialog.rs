//! The plan dialog: what has to be typed and where, when a confirmation is refused, moments, and long plans on small screens.

use std::sync::Arc;
use std::time::Duration;

use console::action_keys::{ConfirmedPlan, PlanOutcome};
use console::view::ViewId;
use console::{App, AppOptions, Effect, Key, KeyPress, Msg, render_text};
use model::base::{Moment, ObjectKey};
use model::plan::{
    Alternative, Displaced, Effect as Forecasted, Forecast, JobName, JobRef, Loss, Mutation,
    Object, Plan, Refusal, RefusalCode, StartChange, Step, Verb,
};
use table::actions::{ActionState, May};

use crate::frames::{SMALL, console, press};

const SIZE: (u16, u16) = (120, 40);

/// A console with the plan of a drain in front; the number of its question.
fn opened(size: (u16, u16), plan: &Plan) -> (App, u64) {
    let mut app = console(&SMALL, ViewId::Nodes, size, AppOptions::default());
    let _ = app.update(Msg::ActionState(Arc::new(ActionState {
        may: May::Yes,
        ..ActionState::default()
    })));
    let effects = press(&mut app, "D");
    let number = asked(&effects).expect("a plan is asked for");
    tell(&mut app, number, plan.clone(), 1);
    (app, number)
}

fn asked(effects: &[Effect]) -> Option<u64> {
    effects.iter().find_map(|effect| match effect {
        Effect::Plan(ask) => Some(ask.number),
        _ => None,
    })
}

/// The plan as it is made so many seconds after the picture; then a second goes by.
fn tell(app: &mut App, number: u64, plan: Plan, after: u64) {
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
        devices: 8,
        loss: Loss::default(),
        back: in_minutes(30),
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
        "reprioritise prod/ctr-wide-53f2 to 9",
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

fn forecast(plan: &mut Plan) -> &mut Forecast {
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
    tell(&mut app, number, later.clone(), 10);
    assert!(text(&app).contains("lost work $77"), "{}", text(&app));
    let effects = press(&mut app, "\n");
    let order = carried(&effects).unwrap_or_else(|| panic!("{}", text(&app)));
    assert_eq!(order.plan, later, "the plan that is shown");
}

#[test]
fn a_plan_that_does_something_else_says_what_and_is_typed_anew() {
    let plan = priority(&["a"]);
    let wanted = plan.typed(&SMALL.context);
    let (mut app, number) = opened(SIZE, &plan);
    press(&mut app, &wanted);
    tell(&mut app, number, priority(&["a", "two-tower-34e7"]), 10);
    assert_eq!(carried(&press(&mut app, "\n")), None);
    let shown = text(&app);
    let why = "the plan has changed: evicts prod/two-tower-34e7 too; look again";
    assert!(shown.contains(why), "{shown}");
    // What is typed now is the whole of it.
    press(&mut app, &wanted);
    let effects = press(&mut app, "\n");
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
        assert_eq!(order.consent.reason, "because");
    }
}

#[test]
fn whatever_evicts_running_work_is_typed() {
    let (mut app, _) = opened(SIZE, &priority(&["a"]));
    assert_eq!(carried(&press(&mut app, "\n")), None, "a bare enter");
    let (mut app, _) = opened(SIZE, &priority(&[]));
    let effects = press(&mut app, "\n");
    assert!(carried(&effects).is_some(), "nothing is evicted");
}

#[test]
fn moments_of_a_plan_are_times_of_day() {
    let mut plan = priority(&["a"]);
    let stamp = in_minutes(45).expect("a moment").rfc3339();
    plan.alternatives = vec![Alternative {
        sentence: format!("wait: it starts by itself about {stamp}"),
        command: None,
    }];
    plan.steps[0].side_effects.notes = vec![format!("waits, and starts again about {stamp}")];
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
    let told = format!(
        "prod/moves (4 devices) starts ~{} instead of ~{}",
        hour(24),
        hour(60)
    );
    assert!(shown.contains(&told), "{told}\n{shown}");
    let told = format!("it starts by itself about {}", hour(45));
    assert!(shown.contains(&told), "{told}\n{shown}");
    assert!(!shown.contains("T0") && !shown.contains(&stamp), "{shown}");
    let unmoved = shown.contains("prod/stays") || shown.contains("prod/far");
    assert!(!unmoved, "what reads the same is not told\n{shown}");
}

#[test]
fn a_refusal_tells_times_of_day_too() {
    let mut app = console(&SMALL, ViewId::Nodes, SIZE, AppOptions::default());
    let number = asked(&press(&mut app, "D")).expect("a plan is asked for");
    let stamp = in_minutes(45).expect("a moment").rfc3339();
    let refusal =
        Refusal::new(RefusalCode::Infeasible, "no room").instead(format!("wait until {stamp}"));
    let _ = app.update(Msg::PlanOutcome(number, PlanOutcome::Refused(refusal)));
    let told = format!(
        "wait until {}",
        table::text::hour(in_minutes(45).expect("a moment"))
    );
    assert!(text(&app).contains(&told), "{}", text(&app));
    let _ = app.update(Msg::Key(KeyPress::plain(Key::Esc)));
}
