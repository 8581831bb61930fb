//! What a second trial asked for: a team's page, `$` on a team, the change of a waiting job as a what-if, the log of a failed job,
//! views that do not pile up, the failed jobs of a user who sees one namespace.

use std::sync::Arc;

use console::{AppOptions, Effect, Msg, render_text};
use model::base::Name;
use model::fleet::Fleet;
use model::fleet::job::JobState;
use model::object::{LogLine, NO_EARLIER_LOG, ObjectNews, ObjectPart};
use table::Facts;
use table::navigation::ViewId;

use crate::frames::{LARGE, SMALL, console, press};
use crate::keys::answer_for;

const SIZE: (u16, u16) = (160, 48);

fn open(facts: &Facts, view: ViewId, keys: &str) -> (console::App, String) {
    let mut app = console(facts, view, SIZE, AppOptions::default());
    press(&mut app, keys);
    let text = render_text(&app, SIZE.0, SIZE.1);
    (app, text)
}

/// The fleet with its first job that has devices failed.
fn with_failed() -> (Facts, String) {
    let mut facts = LARGE.clone();
    let fleet: &mut Fleet = Arc::make_mut(&mut facts.fleet);
    let mut jobs = fleet.jobs.to_vec();
    let at = jobs
        .iter()
        .position(|job| !job.pods.is_empty())
        .expect("one with pods");
    let job = Arc::make_mut(&mut jobs[at]);
    job.state = JobState::Failed;
    job.finished = Some(facts.now);
    let name = job.id.key.to_string();
    fleet.jobs = jobs.into();
    (facts, name)
}

#[test]
fn a_team_has_a_page_with_its_jobs_and_dollar_means_this_team() {
    let (mut app, list) = open(&LARGE, ViewId::Cost, "");
    let team = LARGE.spend_rates.rows[&model::cost::SpendScope::Team][0]
        .name
        .clone();
    assert!(list.contains(team.as_str()), "{list}");
    press(&mut app, &format!("/name={team}\n\n"));
    let page = render_text(&app, SIZE.0, SIZE.1);
    let own = LARGE.fleet.jobs.iter().filter(|job| job.team == team);
    let waiting = own
        .clone()
        .filter(|job| job.state == JobState::Waiting)
        .count();
    for words in ["rate", "idle alloc", "jobs ", &format!("{waiting} waiting")] {
        assert!(page.contains(words), "{words}\n{page}");
    }
    // Its jobs are below, and no other team's.
    let is_listed =
        |page: &str, job: &model::fleet::job::Job| page.contains(&job.id.key.to_string());
    let others = LARGE
        .fleet
        .jobs
        .iter()
        .filter(|job| job.team != team && !job.team.is_empty());
    for job in others {
        assert!(!is_listed(&page, job), "{}\n{page}", job.id);
    }
    assert!(own.clone().any(|job| is_listed(&page, job)), "{page}");
    press(&mut app, "$");
    let wasted = render_text(&app, SIZE.0, SIZE.1);
    assert!(wasted.contains(&format!("team={team}")), "{wasted}");
}

#[test]
fn escape_leads_back_from_dollar_to_the_view_before() {
    let (mut app, _) = open(&LARGE, ViewId::Jobs, "$");
    assert_eq!(app.view().id(), ViewId::Cost);
    assert!(
        app.trail().contains(&String::from("wasted by job")),
        "{:?}",
        app.trail()
    );
    press(&mut app, "\u{1b}");
    assert_eq!(app.view().id(), ViewId::Jobs);
    // From a view below a tab, too; the first escape drops the filter by its team. A digit forgets it.
    press(&mut app, "7\n");
    let below = app.trail();
    press(&mut app, "$\u{1b}\u{1b}");
    assert_eq!(app.trail(), below);
    press(&mut app, "5$7");
    press(&mut app, "\u{1b}");
    assert_eq!(app.view().id(), ViewId::Cost);
}

#[test]
fn u_on_a_waiting_job_begins_with_the_change_that_its_page_offers() {
    let job = "llm-70b-sft-next";
    let mut app = console(&LARGE, ViewId::Jobs, SIZE, AppOptions::default());
    let _ = app.update(Msg::JobExplanations(Arc::new(answer_for(job))));
    press(&mut app, &format!("/{job}\n"));
    press(&mut app, "\n");
    let page = render_text(&app, SIZE.0, SIZE.1);
    assert!(
        page.contains("u: what-if job") && page.contains("priority 91"),
        "{page}"
    );
    press(&mut app, "u");
    let asked = press(&mut app, "\n");
    let is_it = |effect: &Effect| matches!(effect, Effect::Suppose(changes) if changes.ends_with(&format!("{job} priority 91")));
    assert!(asked.iter().any(is_it), "{asked:?}");
}

#[test]
fn the_page_of_a_failed_job_has_the_last_lines_of_its_log() {
    let (facts, name) = with_failed();
    let mut app = console(&facts, ViewId::Jobs, SIZE, AppOptions::default());
    let short = name.split('/').next_back().unwrap_or_default();
    let mut asked = press(&mut app, &format!("/{short}\n"));
    asked.extend(press(&mut app, "\n"));
    let request = asked.into_iter().find_map(|effect| match effect {
        Effect::Read(Some(request)) => Some(request),
        _ => None,
    });
    let request = request.expect("the log is asked for");
    assert!(matches!(&request.part, ObjectPart::Logs(want) if want.pods.len() == 1));
    let waiting = render_text(&app, SIZE.0, SIZE.1);
    assert!(waiting.contains("reading…"), "{waiting}");
    let line = |words: &str| LogLine {
        pod: 0,
        at: None,
        words: words.to_owned(),
    };
    let lines = vec![line("step 12"), line("CUDA out of memory")];
    for news in [ObjectNews::Lines(lines), ObjectNews::Ended(0, None)] {
        let _ = app.update(Msg::Read(request.clone(), news));
    }
    let page = render_text(&app, SIZE.0, SIZE.1);
    assert!(page.contains("CUDA out of memory"), "{page}");
    // What is read still are the events, where there is room for them.
    assert!(page.matches("reading…").count() <= 1, "{page}");
}

#[test]
fn that_no_pod_has_an_earlier_log_is_said_once() {
    let jobs = LARGE.fleet.jobs.iter();
    let job = jobs
        .filter(|job| job.state == JobState::Running)
        .find(|job| job.pods.len() > 1)
        .expect("one of several pods");
    let mut app = console(&LARGE, ViewId::Jobs, SIZE, AppOptions::default());
    press(&mut app, &format!("/{}\n", job.name()));
    press(&mut app, "l");
    let request = press(&mut app, "p")
        .into_iter()
        .find_map(|effect| match effect {
            Effect::Read(Some(request)) => Some(request),
            _ => None,
        });
    let request = request.expect("the log is asked for");
    let ObjectPart::Logs(want) = &request.part else {
        panic!("{request:?}");
    };
    assert!(want.previous && want.pods.len() > 1);
    for (at, pod) in want.pods.iter().enumerate() {
        let why = format!("container main of pod {pod} has {NO_EARLIER_LOG}");
        let news = ObjectNews::Ended(at as u32, Some(why));
        let _ = app.update(Msg::Read(request.clone(), news));
    }
    let page = render_text(&app, SIZE.0, SIZE.1);
    let all = want.pods.len();
    assert!(
        page.contains(&format!("{all} of {all} pods: {NO_EARLIER_LOG}")),
        "{page}"
    );
    assert_eq!(page.matches(NO_EARLIER_LOG).count(), 1, "{page}");
}

#[test]
fn views_of_everything_do_not_pile_up_in_the_trail() {
    let mut app = console(&LARGE, ViewId::Jobs, SIZE, AppOptions::default());
    for command in [":services\n", ":scalers\n", "$", ":teams\n"] {
        let before = app.trail();
        press(&mut app, command);
        // The tab's own words may stand before it, and nothing of where one came from.
        let trail = app.trail();
        let is_new = |words: &String| !before.contains(words) || words == "by team";
        assert!(
            trail.iter().all(is_new) && !trail.is_empty(),
            "{command}: {before:?} {trail:?}"
        );
    }
    // The way back still leads through them.
    press(&mut app, "-");
    assert_eq!(app.view().id(), ViewId::Cost);
}

#[test]
fn in_a_scope_the_failed_jobs_need_you() {
    let (facts, name) = with_failed();
    let (namespace, _) = name.split_once('/').expect("a namespace");
    let mut quiet = facts.clone();
    Arc::make_mut(&mut quiet.fleet).findings = Arc::default();
    let options = AppOptions {
        namespaces: vec![Name::new(namespace)],
        ..AppOptions::default()
    };
    let own = console(&quiet, ViewId::Fleet, SIZE, options);
    let own = render_text(&own, SIZE.0, SIZE.1);
    assert!(own.contains(&format!("× {name}")), "{own}");
    // Of a whole fleet they are their owners'.
    let (_, whole) = open(&quiet, ViewId::Fleet, "");
    assert!(!whole.contains(&name), "{whole}");
}

#[test]
fn help_begins_with_the_twenty_keys_that_are_used_most() {
    let mut app = console(&LARGE, ViewId::Jobs, (80, 24), AppOptions::default());
    press(&mut app, "?");
    let text = render_text(&app, 80, 24);
    let has = |key: &str, words: &str| {
        let mut lines = text.lines();
        let found = lines.find(|line| line.contains(&format!(" {key} ")) && line.contains(words));
        assert!(found.is_some(), "{key} {words}\n{text}");
    };
    has("enter", "open the selection");
    has("/", "show only what matches");
    has("b", "the longest waiting job");
    has("A", "admit the waiting job");
    has("D", "drain the node");
}

/// What was opened is under the cursor on the way back, though a graver finding has come meanwhile.
#[test]
fn the_cursor_of_the_alerts_stays_on_the_finding_that_was_opened() {
    for keys in ["\n", "d"] {
        let (mut app, _) = open(&LARGE, ViewId::Alerts, "");
        let opened = app.meant();
        assert_eq!(opened.len(), 1, "the first alert");
        press(&mut app, keys);
        let mut later = LARGE.clone();
        let fleet: &mut Fleet = Arc::make_mut(&mut later.fleet);
        let mut findings = fleet.findings.to_vec();
        let mut graver = findings[0].clone();
        graver.id = Name::new("graver");
        findings.insert(0, graver);
        fleet.findings = findings.into();
        let _ = app.update(Msg::Facts(later));
        press(&mut app, "\u{1b}");
        assert_eq!(app.meant(), opened, "after {keys:?}");
    }
}

#[test]
fn a_small_group_of_the_heatmap_stands_in_one_line() {
    let of = |facts| {
        let app = console(facts, ViewId::Devices, (120, 40), AppOptions::default());
        render_text(&app, 120, 40)
    };
    let (text, large) = (of(&SMALL), of(&LARGE));
    // What stands behind the mean of a group, left of the panel.
    let behind = |text: &str, group: &str| {
        let mut lines = text.lines();
        let line = lines.find(|line| line.trim_start().starts_with(group));
        let line: String = line.unwrap_or_default().chars().take(74).collect();
        let (_, rest) = line.rsplit_once('%').expect("its mean");
        rest.trim().to_owned()
    };
    // Five devices, two in a cell.
    assert_eq!(behind(&text, "l4-serve").chars().count(), 3, "{text}");
    // (Above the nodes of a rack are their numbers.)
    let numbers = |words: &str| words.chars().all(|it| it.is_ascii_digit() || it == ' ');
    assert!(numbers(&behind(&large, "a100-shared")), "{large}");
}
