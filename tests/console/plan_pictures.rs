//! Pictures of plans: who loses, drained nodes before and after, what can be planned, and a run with its steps.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use console::action_keys::ActionName;
use console::{AppOptions, Keymap, Msg, render_text};
use model::base::{Name, ObjectKey};
use model::fleet::device::Health;
use model::plan::{
    Budgets, Displaced, Forecast, Intent, JobName, Loss, Plan, PlanEffect, Step, Verb,
};
use plan::actions::ACTIONS;
use table::actions::{ActionState, May, RunRow, RunState, StepRow, StepState};
use table::navigation::ViewId;
use table::rows::lost_work::by_team;

use crate::frames::{LARGE, SMALL, console};
use crate::plan_dialog::{forecast, long, opened, opened_on};

const TEAMS: [(&str, u64); 3] = [("nlp", 10), ("vision", 25), ("vision", 10)];

/// The long plan, whose jobs lose 10 to 25 device-hours for two teams.
fn with_teams() -> Plan {
    let mut plan = long();
    let forecast = forecast(&mut plan);
    for (one, (team, hours)) in forecast.displaced.iter_mut().zip(TEAMS) {
        one.team = team.into();
        one.loss.device_seconds = Some(hours * 3_600);
        one.loss.micro_usd = Some(hours as i64 * 2_000_000);
    }
    forecast.lost_device_seconds = Some(45 * 3_600);
    forecast.lost_micro_usd = Some(90_000_000);
    plan
}

#[test]
fn who_loses_sums_up_to_the_total_of_the_plan() {
    let mut plan = with_teams();
    let forecast = forecast(&mut plan).clone();
    let (app, _) = opened((160, 400), &plan);
    let shown = render_text(&app, 160, 400);
    let lines: Vec<&str> = shown.lines().collect();
    let from = lines.iter().position(|line| line.contains("who loses"));
    let from = from.unwrap_or_else(|| panic!("{shown}"));
    let (mut hours, mut dollars, mut teams) = (0.0, 0, Vec::new());
    for line in lines[from..]
        .iter()
        .take_while(|line| line.contains(" device-h · "))
    {
        let (left, right) = line.split_once(" device-h · ").expect("a loss");
        let number = left.split_whitespace().last().expect("a number");
        hours += number.parse::<f64>().expect("a number");
        let money = right.split('$').nth(1).and_then(|it| it.split(' ').next());
        dollars += money.expect("money").parse::<i64>().expect("a number");
        let words = left
            .trim_start_matches([' ', '│'])
            .trim_start_matches("who loses");
        teams.extend(words.split_whitespace().next().map(str::to_owned));
    }
    assert_eq!(teams, ["vision", "nlp"], "the largest first\n{shown}");
    assert_eq!(
        hours,
        forecast.lost_device_seconds.expect("known") as f64 / 3_600.0
    );
    assert_eq!(dollars, forecast.lost_micro_usd.expect("known") / 1_000_000);
}

#[test]
fn pictures_are_beside_a_long_plan_of_a_wide_screen_and_never_before_what_matters() {
    for (size, first) in [
        ((200, 50), true),
        ((150, 40), true),
        ((120, 35), false),
        ((80, 24), false),
    ] {
        let (app, _) = opened(size, &with_teams());
        let shown = render_text(&app, size.0, size.1);
        assert_eq!(shown.contains("who loses"), first, "{size:?}\n{shown}");
        for words in [
            "300 steps, evicts 300 pods of 3 jobs",
            "create pods/eviction is refused",
        ] {
            assert!(shown.contains(words), "{size:?} {words}\n{shown}");
        }
    }
    // On a narrow screen its words are whole, and its bars shorter.
    let mut short = with_teams();
    short.steps.truncate(2);
    let (app, _) = opened((80, 60), &short);
    let shown = render_text(&app, 80, 60);
    for words in [
        "35.0 device-h · 2 jobs · $70",
        "10.0 device-h · 1 job · $20",
    ] {
        assert!(shown.contains(words), "{words}\n{shown}");
    }
    // A plan that fits as a whole is whole with its picture, at any height.
    let mut plan = with_teams();
    plan.steps.truncate(4);
    let mut drawn = 0;
    for height in 20..60 {
        let (app, _) = opened((120, height), &plan);
        let shown = render_text(&app, 120, height);
        let cut = shown.contains(" more below") || shown.contains("at the end");
        let has_picture = shown.contains("who loses");
        assert!(!(cut && has_picture), "{height}\n{shown}");
        drawn += u16::from(has_picture);
        let is_whole = shown.contains("undo") && shown.contains("rights fails");
        assert!(cut || is_whole, "{height}\n{shown}");
    }
    assert!((10..40).contains(&drawn), "{drawn} heights have a picture");
}

/// The letter of a team of the small fleet: its place among all teams.
fn letter(team: &Name) -> char {
    let teams = SMALL.fleet.jobs.iter().map(|job| &job.team);
    let teams: BTreeSet<&Name> = teams.filter(|team| !team.is_empty()).collect();
    let at = teams.into_iter().position(|own| own == team);
    ('a'..='z').nth(at.expect("a team")).expect("a letter")
}

fn is_letter(sign: char) -> bool {
    sign.is_ascii_lowercase()
}

/// A drain of two nodes of the small fleet that evicts the jobs of the first one.
fn drain() -> (Plan, Name, Vec<char>) {
    let nodes = SMALL.fleet.nodes.iter();
    let mut full = nodes.filter(|node| node.devices.iter().any(|it| it.holder.is_some()));
    let node = full.next().expect("an allocated node");
    let names = vec![node.name().clone()];
    let mut jobs: BTreeMap<JobName, (Name, u32)> = BTreeMap::new();
    for pod in node
        .devices
        .iter()
        .filter_map(|device| device.holder.as_ref())
    {
        let job = JobName(pod.job.key.clone());
        jobs.entry(job).or_insert((pod.team.clone(), 0)).1 += 1;
    }
    let taken = node.devices.iter().map(|device| match &device.holder {
        Some(pod) => letter(&pod.team),
        None if device.health.is_fault() => '×',
        None => '·',
    });
    let taken = taken.collect();
    let intent = Intent::Drain {
        nodes: names,
        deadline: None,
    };
    let mut plan = Plan::new("drain 1 node", intent, SMALL.now);
    let displaced = jobs.into_iter().map(|(job, (team, devices))| Displaced {
        job,
        team,
        priority: None,
        devices,
        loss: Loss::default(),
        back: Some(SMALL.now),
        back_p10: None,
        back_p90: None,
    });
    plan.effect = PlanEffect::Forecast(Forecast {
        displaced: displaced.collect(),
        ..Forecast::default()
    });
    (plan, node.name().clone(), taken)
}

#[test]
fn a_drained_node_is_drawn_before_and_after_and_what_the_plan_leaves_stays() {
    let (mut plan, node, before) = drain();
    let cells = |plan: &Plan| -> Vec<String> {
        let (app, _) = opened((160, 60), plan);
        let shown = render_text(&app, 160, 60);
        let line = shown
            .lines()
            .skip_while(|line| !line.contains("BEFORE"))
            .nth(1);
        let line = line.unwrap_or_else(|| panic!("{shown}")).to_owned();
        let words = line.split_whitespace().map(str::to_owned);
        let words: Vec<String> = words.filter(|word| word != "│").collect();
        assert_eq!(words[0], *node, "{shown}");
        words[1..].to_vec()
    };
    let before: String = before.into_iter().collect();
    let after = before.replace(is_letter, "·");
    // (The devices of one team.)
    assert!(before.contains(is_letter));
    assert_eq!(cells(&plan), [before.clone(), after]);
    let (app, _) = opened((160, 60), &plan);
    let shown = render_text(&app, 160, 60);
    let taken = before.matches(is_letter).count();
    let sentence = format!("their jobs release {taken} devices: {taken} start again at once");
    assert!(shown.contains(&sentence), "{sentence}\n{shown}");
    forecast(&mut plan).displaced.clear();
    assert_eq!(cells(&plan), [before.clone(), before], "no job leaves");
}

#[test]
fn a_pod_that_its_disruption_budget_keeps_is_still_there_after_the_drain() {
    let (mut plan, node, before) = drain();
    forecast(&mut plan).displaced.clear();
    let like = long().steps[0].clone();
    let node = SMALL.fleet.node(&node).expect("it is there");
    let holders = node
        .devices
        .iter()
        .filter_map(|device| device.holder.as_ref());
    let evict = |budgets: Budgets| -> Vec<Step> {
        let steps = holders.clone().map(|pod| {
            let mut step = like.clone();
            step.verb = Verb::Evict;
            step.object.namespace = pod.key().namespace.clone();
            step.object.name = pod.key().name.clone();
            step.job = None;
            step.side_effects.interrupts = true;
            step.side_effects.budgets = budgets;
            step
        });
        steps.collect()
    };
    let after = |plan: &Plan| {
        let (app, _) = opened((160, 80), plan);
        let shown = render_text(&app, 160, 80);
        let mut lines = shown.lines().skip_while(|line| !line.contains("BEFORE"));
        let line = lines.nth(1).unwrap_or_else(|| panic!("{shown}"));
        let words: Vec<&str> = line
            .split_whitespace()
            .filter(|word| *word != "│")
            .collect();
        words[2].to_owned()
    };
    let before: String = before.into_iter().collect();
    plan.steps = evict(Budgets::Refusing);
    assert_eq!(after(&plan), before, "each stays");
    plan.steps = evict(Budgets::Respected);
    assert_ne!(after(&plan), before, "each leaves");
}

#[test]
fn a_faulty_device_of_a_drained_node_is_not_free_after_it() {
    let (plan, node, before) = drain();
    let at = before.iter().position(|sign| is_letter(*sign));
    let at = at.expect("an allocated device");
    let mut facts = SMALL.clone();
    let mut fleet = (*facts.fleet).clone();
    fleet.nodes = fleet
        .nodes
        .iter()
        .map(|own| {
            let mut own = own.clone();
            if *own.name() == node {
                let devices = &mut Arc::make_mut(&mut own).devices;
                devices[at].health = Health::Fault(Name::new("XID 79"));
            }
            own
        })
        .collect();
    facts.fleet = Arc::new(fleet);
    let (app, _) = opened_on(&facts, (160, 60), &plan);
    let shown = render_text(&app, 160, 60);
    let words: Vec<&str> = shown
        .lines()
        .skip_while(|line| !line.contains("BEFORE"))
        .nth(1)
        .expect("the node")
        .split_whitespace()
        .filter(|word| *word != "│")
        .collect();
    let before: String = before.into_iter().collect();
    assert_eq!(words[1], before, "{shown}");
    assert_eq!(words[2].chars().nth(at), Some('×'), "{shown}");
    for legend in ["· = not allocated", "× = fault"] {
        assert!(shown.contains(legend), "{legend}\n{shown}");
    }
    assert!(!shown.contains("= free"), "{shown}");
}

fn plans(size: (u16, u16), acts: ActionState) -> String {
    let mut app = console(&LARGE, ViewId::Plans, size, AppOptions::default());
    let _ = app.update(Msg::ActionState(Arc::new(acts)));
    render_text(&app, size.0, size.1)
}

#[test]
fn without_a_run_each_action_of_the_registry_has_a_row_with_its_key_and_whether_it_is_allowed() {
    let keys = Keymap::builtin();
    let none = || ActionState {
        may: May::Yes,
        lacking: [("drain", String::from("create pods/eviction"))].into(),
        ..ActionState::default()
    };
    for size in [(200, 50), (120, 35), (80, 24)] {
        let shown = plans(size, none());
        for name in ActionName::ALL {
            let spec = name.spec();
            let own = spec.done_by.unwrap_or(*name);
            let key = keys.keys(
                console::commands::Context::Global,
                console::commands::Command::Action(own),
            );
            let key = key[0].to_string();
            let rows = shown.lines().filter(|line| {
                let mut words = line.split_whitespace().filter(|word| *word != "│");
                words.next() == Some(&*key) && words.next() == Some(spec.verb)
            });
            let rows: Vec<&str> = rows.collect();
            assert_eq!(rows.len(), 1, "{} {size:?}\n{shown}", spec.verb);
            let reason = match spec.verb {
                "drain" => "needs create pods/eviction",
                _ => "yes",
            };
            assert!(rows[0].contains(reason), "{}\n{shown}", rows[0]);
        }
        let empty = shown
            .lines()
            .rev()
            .take_while(|line| line.trim().is_empty());
        assert!(size.1 < 50 || empty.count() <= 10, "{shown}");
    }
    assert_eq!(ACTIONS.len(), ActionName::ALL.len());
    let no = May::No {
        short: String::from("read-only"),
        sentence: String::new(),
    };
    let shown = plans(
        (120, 35),
        ActionState {
            may: no,
            ..ActionState::default()
        },
    );
    let barred = shown
        .lines()
        .filter(|line| line.trim_end_matches([' ', '│']).ends_with("read-only"));
    assert_eq!(barred.count(), ACTIONS.len(), "{shown}");
}

#[test]
fn a_run_shows_below_the_table_its_steps_when_they_began_and_who_lost() {
    let job = JobName(ObjectKey::new("nlp", "train"));
    let began = LARGE.now.minus(Duration::from_secs(60));
    let step = |began| StepRow {
        words: String::from("suspend Job nlp/train"),
        state: StepState::Done,
        began,
        note: String::new(),
    };
    let mut plan = with_teams();
    let losses = by_team(&forecast(&mut plan).displaced);
    let run = RunRow {
        name: String::from("run-1"),
        title: String::from("preempt nlp/train"),
        begun: began,
        last: LARGE.now,
        by: String::from("kim"),
        reason: String::from("incident"),
        state: RunState::Done,
        words: String::new(),
        steps: vec![step(Some(began)), step(None)],
        cordons: Vec::new(),
        no_undo: None,
        starts: None,
        stopped: vec![job],
        losses,
        evicted: Vec::new(),
        suspended_jobs: Vec::new(),
    };
    let acts = ActionState {
        may: May::Yes,
        runs: vec![run],
        ..ActionState::default()
    };
    let shown = plans((200, 50), acts.clone());
    let first = format!("suspend Job nlp/train: done, began {}", began.clock());
    for words in [
        &*first,
        "vision · 35.0 device-h · 2 jobs · $70",
        "nlp · 10.0 device-h · 1 job · $20",
        "what can be planned",
    ] {
        assert!(shown.contains(words), "{words}\n{shown}");
    }
    assert_eq!(shown.matches(", began ").count(), 1, "{shown}");
    // Where there is less room, the run has it.
    let small = plans((80, 24), acts);
    assert!(small.contains(&first), "{small}");
    assert!(!small.contains("what can be planned"), "{small}");
}
