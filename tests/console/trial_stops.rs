//! What users of a trial stopped at: what became of stopped jobs, what may be typed, which command is unknown, what is grave.

use std::sync::Arc;
use std::time::Duration;

use console::{App, AppOptions, Effect, Msg, render_text};
use engine::explain::{Unblock, UnblockChange};
use engine::explanations::ChangeWithStart;
use engine::forecast::{Basis, Start};
use model::base::{Moment, Name, ObjectKey};
use model::fleet::finding::{Finding, Severity};
use model::fleet::job::JobState;
use model::fleet::observe::{Phase, SourceState};
use model::fleet::queue::{PriorityClass, PriorityKind, QueueSystem};
use model::plan::JobName;
use table::Facts;
use table::actions::{ActionState, May, RunRow, RunState};
use table::navigation::ViewId;
use table::waiting::explanations::{JobExplanations, Now};

use crate::frames::{LARGE, SMALL, console, press};

const SIZE: (u16, u16) = (160, 44);

fn app(facts: &Facts, view: ViewId) -> App {
    console(facts, view, SIZE, AppOptions::default())
}

fn text(app: &App) -> String {
    render_text(app, SIZE.0, SIZE.1)
}

fn first(facts: &Facts, state: JobState) -> JobName {
    let mut jobs = facts.fleet.jobs.iter();
    let job = jobs.find(|job| job.state == state);
    JobName(job.expect("one is so").id.key.clone())
}

/// A run that was to start one job and has stopped others.
fn run(begun: Moment, starts: Option<JobName>, stopped: Vec<JobName>) -> RunRow {
    RunRow {
        name: String::from("run-1"),
        title: String::from("admit it"),
        begun,
        last: begun,
        by: String::from("kim"),
        reason: String::new(),
        state: RunState::Done,
        words: String::new(),
        steps: Vec::new(),
        no_undo: None,
        cordons: Vec::new(),
        starts,
        stopped,
        losses: Vec::new(),
        suspended_jobs: Vec::new(),
        evicted: Vec::new(),
    }
}

fn with_run(facts: &Facts, run: RunRow) -> App {
    let mut app = app(facts, ViewId::Plans);
    let _ = app.update(Msg::ActionState(Arc::new(ActionState {
        may: May::Yes,
        runs: vec![run],
        ..ActionState::default()
    })));
    app
}

#[test]
fn a_run_says_what_became_of_the_jobs_that_it_started_and_stopped() {
    let waiting = first(&LARGE, JobState::Waiting);
    let running = first(&LARGE, JobState::Running);
    let gone = JobName(ObjectKey::new("nobody", "knows"));
    let long_ago = LARGE.now.minus(Duration::from_secs(800_000));
    let stopped = vec![waiting.clone(), running.clone(), gone];
    let mut app = with_run(
        &LARGE,
        run(long_ago, Some(running.clone()), stopped.clone()),
    );
    let shown = text(&app);
    assert!(
        shown.contains("3 jobs stopped: 1 running again, 1 waiting"),
        "{shown}"
    );
    press(&mut app, "d");
    let shown = text(&app);
    for words in [
        format!("{waiting}: waiting again: "),
        format!("{running}: running again on "),
        format!("{running}: running on "),
    ] {
        assert!(shown.contains(&words), "{words}\n{shown}");
    }
    // The pods that run were there before the run: it has not stopped them.
    let mut app = with_run(&LARGE, run(LARGE.now, None, stopped.clone()));
    press(&mut app, "d");
    let shown = text(&app);
    assert!(
        shown.contains(&format!("{running}: not stopped yet")),
        "{shown}"
    );
    // It is no news after a minute. Who made its pods since is not told here.
    let began = LARGE.now.minus(Duration::from_secs(90));
    let mut app = with_run(&LARGE, run(began, None, stopped));
    press(&mut app, "d");
    let shown = text(&app);
    let kept = format!("{running}: still running with its old pods");
    assert!(shown.contains(&kept), "{shown}");
}

/// A drain evicts one of a job's pods: that the job runs on with the others does not mean that it was not stopped.
#[test]
fn a_job_whose_evicted_pod_is_gone_is_not_restarted_until_a_new_pod_runs() {
    let running = first(&LARGE, JobState::Running);
    let began = LARGE.now.minus(Duration::from_secs(90));
    let gone = ObjectKey::new(running.0.namespace.clone(), "evicted-and-gone");
    let drained = |last| RunRow {
        last,
        evicted: vec![(running.clone(), gone.clone())],
        ..run(began, None, vec![running.clone()])
    };
    let mut app = with_run(&LARGE, drained(began));
    assert!(text(&app).contains("1 job stopped: not restarted yet"));
    press(&mut app, "d");
    let shown = text(&app);
    let words = format!("{running}: not restarted yet: its evicted pods are gone");
    assert!(shown.contains(&words), "{shown}");
    assert!(!shown.contains("its old pods"), "{shown}");
    // The picture is older than the run's last step: nothing is said of its jobs.
    let mut app = with_run(&LARGE, drained(LARGE.now.plus(Duration::from_secs(1))));
    press(&mut app, "d");
    let shown = text(&app);
    let words = format!("{running}: not read since the last step");
    assert!(shown.contains(&words), "{shown}");
    // Its new pod runs.
    let mut facts = LARGE.clone();
    let fleet = Arc::make_mut(&mut facts.fleet);
    let mut jobs = fleet.jobs.to_vec();
    let job = jobs.iter_mut().find(|job| job.id.key == running.0);
    let job = Arc::make_mut(job.expect("it is there"));
    let pod = Arc::make_mut(&mut job.pods[0]);
    let seen = Arc::make_mut(&mut pod.seen);
    (seen.created, seen.phase) = (LARGE.now, Phase::Running);
    fleet.jobs = jobs.into();
    let mut app = with_run(&facts, drained(began));
    press(&mut app, "d");
    let shown = text(&app);
    assert!(
        shown.contains(&format!("{running}: running again on ")),
        "{shown}"
    );
}

#[test]
fn the_prompt_of_a_priority_offers_what_the_job_accepts() {
    let class = |name: &str, value, kind| {
        Arc::new(PriorityClass {
            kind,
            name: Name::new(name),
            value,
            ..PriorityClass::default()
        })
    };
    let mut facts = SMALL.clone();
    let of = first(&facts, JobState::Waiting);
    let mut asked = |system, typed: &str| {
        let fleet = Arc::make_mut(&mut facts.fleet);
        fleet.priority_classes = Arc::from([
            class("low", 10, PriorityKind::Pod),
            class("high", 90, PriorityKind::Pod),
        ]);
        let mut jobs = fleet.jobs.to_vec();
        let job = jobs
            .iter_mut()
            .find(|job| job.id.key == of.0)
            .expect("it is there");
        let job = Arc::make_mut(job);
        (job.queue_system, job.admission) = (system, None);
        jobs.sort_by(|a, b| a.id.key.cmp(&b.id.key));
        fleet.jobs = jobs.into();
        let mut app = app(&facts, ViewId::Jobs);
        let _ = app.update(Msg::ActionState(Arc::new(ActionState {
            may: May::Yes,
            ..ActionState::default()
        })));
        press(&mut app, &format!("/{}\nP", of.0.name));
        let before = text(&app);
        let effects = press(&mut app, &format!("{typed}\n"));
        let _ = effects;
        (before, text(&app))
    };
    let (hint, after) = asked(QueueSystem::Volcano, "55");
    assert!(
        hint.contains("Volcano takes only these PriorityClasses: ") && hint.contains("high (90)"),
        "{hint}"
    );
    assert!(
        after.contains("no PriorityClass has the value 55"),
        "{after}"
    );
    let (_, after) = asked(QueueSystem::Volcano, "high");
    assert!(after.contains("computing plan"), "{after}");
    let (hint, after) = asked(QueueSystem::Kueue, "55");
    assert!(hint.contains("type a number"), "{hint}");
    assert!(after.contains("computing plan"), "{after}");
    let (hint, _) = asked(QueueSystem::None, "");
    assert!(hint.contains("no queueing system manages"), "{hint}");
    assert!(
        !hint.contains("priority of"),
        "nothing is asked for: {hint}"
    );
    // A number that no priority can be is refused where it is typed, and so is a word where only numbers are taken.
    let (_, after) = asked(QueueSystem::Kueue, "99999999999");
    assert!(after.contains("type a whole number from"), "{after}");
    let (_, after) = asked(QueueSystem::Stokehold, "high");
    assert!(after.contains("type a whole number from"), "{after}");
}

#[test]
fn what_if_begins_with_what_is_under_the_cursor() {
    let pool = SMALL.fleet.pools[0].name.clone();
    let mut pools = app(&SMALL, ViewId::Pools);
    press(&mut pools, "u");
    let effects = press(&mut pools, "+4\n");
    let asked: Vec<_> = effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Suppose(changes) => Some(changes.to_string()),
            _ => None,
        })
        .collect();
    assert_eq!(asked, [format!("nodes {pool} +4")]);
}

#[test]
fn a_job_that_a_starts_is_marked_at_every_size() {
    let mut answers = crate::keys::answer_for("llm-70b-sft-next");
    for report in answers.jobs.values_mut() {
        report.now = Some(Now {
            jobs: ["a", "b"]
                .map(|name| JobName(ObjectKey::new("ml", name)))
                .to_vec(),
            lost_ms: 0,
            lost: None,
            proven: true,
            only_quota: false,
        });
    }
    let answers = Arc::new(answers);
    for size in [(80, 24), SIZE] {
        let mut app = console(&LARGE, ViewId::Jobs, size, AppOptions::default());
        let _ = app.update(Msg::JobExplanations(Arc::clone(&answers)));
        press(&mut app, "/state:waiting\n");
        let shown = render_text(&app, size.0, size.1);
        assert_eq!(shown.matches("A admits it").count(), 1, "{shown}");
    }
}

#[test]
fn the_most_severe_faults_are_listed_first() {
    let mut nodes = app(&LARGE, ViewId::Nodes);
    press(&mut nodes, "z");
    let shown = text(&nodes);
    let at = |words: &str| shown.lines().position(|line| line.contains(words));
    let (down, fault) = (
        at("not ready").expect("one is"),
        at("1 fault").expect("one has"),
    );
    let warned = at("idle-allocated").expect("one is warned of");
    assert!(down < fault && fault < warned, "{shown}");
    // Whoever sorts gets that order.
    press(&mut nodes, "s");
    assert!(
        nodes
            .view()
            .table()
            .is_some_and(|it| it.table_model.sorted().is_some())
    );
}

#[test]
fn nothing_needs_you_only_once_every_source_has_answered() {
    let mut facts = SMALL.clone();
    let fleet = Arc::make_mut(&mut facts.fleet);
    fleet.findings = Arc::from([]);
    let mut sources = fleet.sources.to_vec();
    let source = sources.last_mut().expect("there are sources");
    (source.state, source.last_ok) = (SourceState::Stale, None);
    let count = sources.len();
    fleet.sources = sources.into();
    let shown = text(&app(&facts, ViewId::Alerts));
    let words = format!("reading… {} of {count} sources have answered", count - 1);
    assert!(
        shown.contains(&words) && !shown.contains("nothing needs you"),
        "{shown}"
    );
}

#[test]
fn a_source_that_never_answered_is_not_lost_at_first() {
    let mut facts = SMALL.clone();
    let mut report = |state: SourceState| {
        let fleet = Arc::make_mut(&mut facts.fleet);
        let mut sources = fleet.sources.to_vec();
        let source = sources.iter_mut().find(|it| it.gives_readings());
        let source = source.expect("an exporter");
        (source.state, source.last_ok) = (state, None);
        source.failing_since = Some(facts.now.minus(Duration::from_secs(18)));
        let name = source.name.clone();
        fleet.sources = sources.into();
        let mut app = app(&facts, ViewId::Sources);
        press(&mut app, &format!("/{name}\n"));
        text(&app)
    };
    // Which of both it is, crate `source` says: it knows how old the exporter's pod is.
    let (new, old) = (report(SourceState::Stale), report(SourceState::Lost));
    assert!(
        new.contains("no answer yet") && old.contains("none since stokehold started"),
        "{new}\n{old}"
    );
    assert!(new.contains("▌ ◐") && old.contains("▌ ▲"), "{new}\n{old}");
    assert!(
        !new.contains("unreachable") && old.contains("1 exporter unreachable"),
        "{new}\n{old}"
    );
}

#[test]
fn the_same_place_twice_is_one_step_of_the_trail() {
    let mut app = app(&SMALL, ViewId::Fleet);
    press(&mut app, ":advice\n:advice\n");
    assert_eq!(app.trail(), ["advice"]);
}

#[test]
fn the_palette_says_what_is_unknown_and_takes_nothing_that_was_not_meant() {
    let palette = |typed: &str| {
        let mut app = app(&LARGE, ViewId::Fleet);
        press(&mut app, &format!(":{typed}"));
        let offered = text(&app);
        let effects = press(&mut app, "\n");
        (offered, effects, text(&app), app.view().id())
    };
    let (offered, effects, after, _) = palette("ns");
    assert!(offered.contains("which namespace?"), "{offered}");
    assert!(effects.is_empty() && after.contains("ns all"), "{after}");
    let (offered, effects, ..) = palette("ctx");
    assert!(offered.contains("context"), "{offered}");
    assert!(effects.is_empty());
    let (offered, effects, _, view) = palette("pvc");
    assert!(
        offered.contains("persistentvolumeclaims: no view here"),
        "{offered}"
    );
    assert!(effects.is_empty() && view == ViewId::Fleet);
    let (offered, effects, after, _) = palette("ndoes");
    assert!(
        offered.contains("unknown; did you mean nodes?"),
        "{offered}"
    );
    assert!(effects.is_empty() && after.contains(": nodes"), "{after}");
}

#[test]
fn help_is_searched() {
    let mut app = app(&SMALL, ViewId::Jobs);
    press(&mut app, "?/priority\n");
    let shown = text(&app);
    assert!(
        shown.contains("priority") && !shown.contains("the heatmap of every device"),
        "{shown}"
    );
    press(&mut app, "\u{1b}");
    assert!(!text(&app).contains("in every view"));
}

#[test]
fn the_box_of_a_run_says_what_became_of_its_jobs_at_every_size() {
    let waiting = first(&LARGE, JobState::Waiting);
    for size in [(80, 24), SIZE] {
        let stopped = RunRow {
            state: RunState::Stopped,
            ..run(LARGE.now, None, vec![waiting.clone(); 20])
        };
        let mut app = with_run(&LARGE, stopped);
        let _ = app.update(Msg::Resize(size.0, size.1));
        press(&mut app, "H");
        let shown = render_text(&app, size.0, size.1);
        assert!(
            shown.contains(&format!("{waiting}: waiting again")),
            "{shown}"
        );
        assert!(
            shown.contains("more: press d on this run in view 9"),
            "{shown}"
        );
    }
}

#[test]
fn an_unknown_return_is_reported_as_unknown() {
    use model::plan::{Displaced, Forecast, Intent, Loss, Plan, PlanEffect as Planned};
    let intent = Intent::Rebalance { pool: None };
    let mut plan = Plan::new("rebalance", intent, SMALL.now);
    plan.effect = Planned::Forecast(Forecast {
        displaced: vec![Displaced {
            job: JobName(ObjectKey::new("prod", "a")),
            team: Name::default(),
            priority: None,
            devices: 8,
            loss: Loss::default(),
            back: None,
            back_p10: None,
            back_p90: None,
        }],
        ..Forecast::default()
    });
    let mut app = app(&SMALL, ViewId::Nodes);
    let effects = press(&mut app, "D");
    let number = effects.iter().find_map(|effect| match effect {
        Effect::Plan(ask) => Some(ask.number),
        _ => None,
    });
    let outcome = console::action_keys::PlanOutcome::Plan(Box::new(plan));
    let _ = app.update(Msg::PlanOutcome(number.expect("asked"), outcome));
    let shown = text(&app);
    assert!(
        shown.contains("prod/a is evicted by its scheduler, frees 8 devices, then waits: no ETA"),
        "{shown}"
    );
}

#[test]
fn alerts_stand_in_order_after_a_return_from_a_page() {
    let mut facts = LARGE.clone();
    let all = facts.fleet.findings.clone();
    let crit = |it: &&Finding| it.severity == Severity::Crit && it.subject.kind == "Device";
    let worst = all.iter().find(crit).expect("a critical one").clone();
    let others: Vec<_> = all.iter().filter(|it| it.id != worst.id).cloned().collect();
    Arc::make_mut(&mut facts.fleet).findings = others.into();
    let mut app = app(&facts, ViewId::Alerts);
    press(&mut app, "jd");
    let _ = app.update(Msg::Facts(LARGE.clone()));
    press(&mut app, "\u{1b}");
    let shown = text(&app);
    let at = |words: &str| shown.lines().position(|line| line.contains(words));
    let name = worst.subject.key.name.as_str();
    let warned = at("● warn").expect("a warning");
    assert!(at(name).expect(name) < warned, "{shown}");
}

/// The plan of `A` takes whom the job's page names, as long as that works; the list names the least raise with which a job starts that
/// never does by itself.
#[test]
fn the_page_names_whom_the_plan_takes_and_the_least_raise_comes_first() {
    let victims = ["a", "b"].map(|name| JobName(ObjectKey::new("ml", name)));
    let mut answers = crate::keys::answer_for("llm-70b-sft-next");
    let quota = |add: i64| UnblockChange::Quota {
        queue: "research".into(),
        flavor: "h100".into(),
        resource: "nvidia.com/gpu".into(),
        add,
        nominal: add,
    };
    for report in answers.jobs.values_mut() {
        report.now = Some(Now {
            jobs: victims.to_vec(),
            lost_ms: 0,
            lost: None,
            proven: false,
            only_quota: false,
        });
    }
    let shows = |answers: &JobExplanations, keys: &str| {
        let mut app = console(&LARGE, ViewId::Jobs, SIZE, AppOptions::default());
        let _ = app.update(Msg::JobExplanations(Arc::new(answers.clone())));
        press(&mut app, "/llm-70b-sft-next\n");
        let effects = press(&mut app, keys);
        let shown = render_text(&app, SIZE.0, SIZE.1);
        (shown, effects)
    };
    let (page, _) = shows(&answers, "\n");
    let line = "preempt 2 jobs (0.0 device-hours lost): ml/a, ml/b: starts now";
    assert!(page.contains(line), "{page}");
    let (_, effects) = shows(&answers, "A");
    let known = effects.iter().find_map(|effect| match effect {
        Effect::Plan(ask) => Some(&ask.known),
        _ => None,
    });
    assert!(
        known.is_some_and(|known| known.jobs.iter().eq(&victims) && !known.is_read),
        "{effects:?}"
    );
    for report in answers.jobs.values_mut() {
        report.now = None;
        report.answer.later = vec![ChangeWithStart {
            change: quota(64_000),
            start: Start {
                job: victims[0].clone(),
                p10: None,
                p50: Some(LARGE.now.plus(Duration::from_secs(3_600))),
                p90: None,
                basis: Basis::Limits,
                victims: Vec::new(),
            },
        }];
        let change = quota(320_000);
        let raise = Unblock {
            sentence: change.sentence(),
            changes: vec![change],
            proven: false,
            victims: Vec::new(),
        };
        report.answer.explanation.unblock = Some(raise);
    }
    let (list, _) = shows(&answers, "");
    let row = list.lines().find(|line| line.starts_with('▌'));
    let row = row.unwrap_or_else(|| panic!("{list}"));
    assert!(row.contains("+64 h100 quota for"), "{list}");
    assert!(!row.contains("+320"), "{list}");
}
