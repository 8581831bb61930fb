//! Pictures in the room that tables and facts leave: what they show, and that little of a large screen stays empty.

use std::collections::BTreeSet;
use std::sync::Arc;

use console::{App, AppOptions, Effect, Msg, render_text};
use engine::explain::Reason;
use model::base::Name;
use model::fleet::device::{Device, Health};
use model::fleet::history::{History, ServedSignal, Track};
use model::fleet::job::Job;
use model::fleet::node::{Cordon, Node};
use model::fleet::pool::Unusable;
use model::object::{EventSeen, ObjectNews, ObjectPart};
use table::Facts;
use table::navigation::ViewId;

use crate::frames::{LARGE, PAST, SMALL, console, press};
use crate::keys::answer_for;
use crate::served::served;

const SIZE: (u16, u16) = (200, 50);

fn open(facts: &Facts, view: ViewId, keys: &str) -> (App, String) {
    let mut app = console(facts, view, SIZE, AppOptions::default());
    press(&mut app, keys);
    let text = render_text(&app, SIZE.0, SIZE.1);
    (app, text)
}

/// The largest rectangle without a word, a bar or a curve, as a share of the screen.
fn emptiest(text: &str) -> f64 {
    let (width, height) = (usize::from(SIZE.0), usize::from(SIZE.1));
    let mut above = vec![0; width];
    let mut most = 0;
    for line in text.lines().take(height) {
        let signs: Vec<char> = line
            .chars()
            .chain(std::iter::repeat(' '))
            .take(width)
            .collect();
        for (high, sign) in above.iter_mut().zip(&signs) {
            *high = if " │╭╮╰╯─".contains(*sign) {
                *high + 1
            } else {
                0
            };
        }
        for from in 0..width {
            let mut high = above[from];
            for (wide, next) in above[from..].iter().enumerate() {
                high = high.min(*next);
                if high == 0 {
                    break;
                }
                most = most.max(high * (wide + 1));
            }
        }
    }
    most as f64 / (width * height) as f64
}

#[test]
fn a_large_screen_is_not_left_empty() {
    let blank = format!("a word{}", "\n".repeat(50));
    assert!(emptiest(&blank) > 0.9, "the measure sees what is empty");
    let large = crate::frames_fleet::with_past(LARGE.clone());
    let views = [
        ViewId::Fleet,
        ViewId::Pools,
        ViewId::Devices,
        ViewId::Queues,
        ViewId::Jobs,
        ViewId::Nodes,
        ViewId::Alerts,
    ];
    for view in views {
        let (_, text) = open(&large, view, "");
        let share = emptiest(&text);
        assert!(share <= 0.2, "{view:?} leaves {share}\n{text}");
    }
}

#[test]
fn a_pool_has_curves_of_its_hour_in_place_of_small_ones() {
    let (_, text) = open(&PAST, ViewId::Pools, "");
    for title in [
        "utilization",
        "allocated devices",
        "devices and slices requested by waiting jobs",
        "idle $/h",
    ] {
        assert!(text.contains(title), "{title}\n{text}");
    }
    assert!(!text.contains("util, 1 h"), "said twice\n{text}");
    // A small screen has the small ones.
    let mut app = console(&PAST, ViewId::Pools, (120, 30), AppOptions::default());
    press(&mut app, "");
    let small = render_text(&app, 120, 30);
    assert!(small.contains("util, 1 h"), "{small}");
}

#[test]
fn a_waiting_job_has_what_it_requests_to_scale() {
    let job = "llm-70b-sft-next";
    let mut answers = answer_for(job);
    let own = LARGE.fleet.jobs.iter().find(|it| **it.name() == *job);
    let key = own.expect("it is there").id.clone();
    let answer = answers.jobs.get_mut(&key).expect("it has one");
    answer.answer.explanation.reasons = vec![Reason::Quota {
        queue: Name::new("research"),
        flavor: Name::new("h100"),
        resource: Name::new("nvidia.com/gpu"),
        asked: 64_000,
        free: 5_000,
        used: 130_000,
        nominal: 128_000,
        borrowed: 2_000,
    }];
    let mut app = console(&LARGE, ViewId::Jobs, SIZE, AppOptions::default());
    let _ = app.update(Msg::JobExplanations(Arc::new(answers)));
    press(&mut app, &format!("/{job}\n\n"));
    let text = render_text(&app, SIZE.0, SIZE.1);
    let scale = "128 used and 2 borrowed, 5 free, 64 requested";
    assert!(text.contains(scale), "{text}");
    assert!(
        text.contains("h100 quota of queue research: 128 of its own"),
        "{text}"
    );
    // The bar is to scale: 130 of the 194 that would be used.
    let bar = text
        .lines()
        .find(|line| line.contains("██▓"))
        .expect("a bar");
    let count = |sign: &str| bar.matches(sign).count() as f64;
    let (used, asked) = (count("█") + count("▓"), count("▒") + count("▚"));
    assert!(
        (count("▒") / asked - 5.0 / 64.0).abs() < 0.02,
        "what is free of it: {bar}"
    );
    assert!(
        (used / (used + asked) - 130.0 / 194.0).abs() < 0.02,
        "{bar}"
    );
    assert!(text.contains("who has the"), "{text}");
}

#[test]
fn a_team_has_one_letter_in_every_picture() {
    let teams = LARGE.fleet.jobs.iter().map(|job| job.team.as_str());
    let teams: BTreeSet<&str> = teams.filter(|team| !team.is_empty()).collect();
    let mut seen = 0;
    for job in ["llm-70b-sft-next", "clip-l-large"] {
        let (_, text) = open(&LARGE, ViewId::Jobs, &format!("/{job}\n\n"));
        for (own, team) in ('a'..='z').zip(&teams) {
            for letter in 'a'..='z' {
                // By the width of a cell.
                let forms = [letter, '█'].map(|second| format!("{letter}{second} {team} "));
                let is_there = forms.iter().any(|form| text.contains(form));
                assert!(!is_there || letter == own, "{letter} {team}\n{text}");
                seen += u32::from(is_there);
            }
        }
    }
    assert!(seen > 2, "{seen} lines of legends");
}

#[test]
fn devices_that_no_pod_can_use_are_not_drawn_as_free() {
    let job = "llm-70b-sft-next";
    let mut facts = LARGE.clone();
    let own = facts.fleet.jobs.iter().find(|it| **it.name() == *job);
    let class = own.and_then(|job| job.class.clone()).expect("a class");
    let mut fleet = (*facts.fleet).clone();
    let is_whole = |node: &Node| {
        let mut devices = node.devices.iter();
        devices.all(|it| it.class == class && it.slices.is_empty())
    };
    let of_class = fleet.nodes.iter().filter(|node| is_whole(node));
    let chosen: Vec<Name> = of_class.take(2).map(|node| node.name().clone()).collect();
    let [cordoned, other] = &*chosen else {
        panic!("two nodes of {class}: {chosen:?}");
    };
    // A device of each is free; of one the node is cordoned.
    fleet.nodes = fleet
        .nodes
        .iter()
        .map(|own| {
            let mut own = own.clone();
            if [cordoned, other].contains(&own.name()) {
                let node = Arc::make_mut(&mut own);
                node.devices[0].holder = None;
                node.devices[0].health = Health::Ok;
                if node.name() == cordoned {
                    node.cordon = Some(Cordon::default());
                }
            }
            own
        })
        .collect();
    let of_class = || {
        let nodes = fleet.nodes.iter();
        nodes.filter(|node| node.devices.iter().any(|it| it.class == class))
    };
    let is_free = |device: &&Device| !device.is_allocated() && !device.health.is_fault();
    let mut free = 0;
    let mut unusable = 0;
    for node in of_class() {
        let own = node.devices.iter().filter(is_free).count();
        let out = Unusable::of(node);
        let out = out.total().less(out.unhealthy).floor() as usize;
        unusable += out.min(own);
        free += own - out.min(own);
    }
    assert!(free > 0 && unusable > 0, "{free} {unusable}");
    facts.fleet = Arc::new(fleet);
    let (_, text) = open(&facts, ViewId::Jobs, &format!("/{job}\n\n"));
    for words in [
        format!("free {free}"),
        format!("free, not usable {unusable}"),
    ] {
        assert!(text.contains(&words), "{words}\n{text}");
    }
}

#[test]
fn a_job_without_devices_has_its_events() {
    let job = "llm-70b-sft-next";
    let mut app = console(&LARGE, ViewId::Jobs, SIZE, AppOptions::default());
    let mut asked = press(&mut app, &format!("/{job}\n"));
    asked.extend(press(&mut app, "\n"));
    let page = render_text(&app, SIZE.0, SIZE.1);
    assert!(page.contains("reading…"), "{page}");
    let request = asked.into_iter().find_map(|effect| match effect {
        Effect::Read(Some(request)) => Some(request),
        _ => None,
    });
    let request = request.expect("it asks for them");
    assert!(matches!(request.part, ObjectPart::Events(_)), "{request:?}");
    let event = EventSeen {
        reason: String::from("Pending"),
        message: String::from("couldn't assign flavors"),
        ..EventSeen::default()
    };
    let _ = app.update(Msg::Read(request, ObjectNews::Events(vec![event], false)));
    let text = render_text(&app, SIZE.0, SIZE.1);
    assert!(text.contains("couldn't assign flavors"), "{text}");
}

#[test]
fn the_history_of_a_service_is_a_curve_with_its_objective() {
    let mut facts = served(&SMALL);
    let mut history = History::default();
    for quarter in (0..40).rev() {
        let mut fleet = (*facts.fleet).clone();
        fleet.at = facts
            .now
            .minus(std::time::Duration::from_secs(quarter * 15));
        history.record(&fleet, &|_| (1.0, 0.5));
    }
    let key = facts
        .fleet
        .jobs
        .iter()
        .find(|job| {
            job.serving
                .as_ref()
                .is_some_and(|it| it.served[0].waiting.is_some())
        })
        .map(|job| job.id.clone())
        .expect("one serves");
    let job = facts.fleet.job(&key).expect("it is there");
    let served = job.serving.as_ref().expect("it serves");
    let waiting: f64 = served.served.iter().filter_map(|it| it.waiting).sum();
    let from = facts.now.minus(std::time::Duration::from_secs(300));
    let track = Track::Served(key.clone(), ServedSignal::Waiting);
    let values = history.window(&track, from, facts.now, 5);
    assert_eq!(values, [Some(waiting as f32); 5]);
    facts.history = Arc::new(history);
    let name = key.key.name.to_string();
    let (_, text) = open(&facts, ViewId::Jobs, &format!("/{name}\n\n"));
    for words in [
        "time to first token p95",
        // As the row has it.
        "493ms · objective 500ms",
        "requests waiting",
        &format!("now {waiting:.0} "),
    ] {
        assert!(text.contains(words), "{words}\n{text}");
    }
    assert!(text.contains('╌'), "the objective is a line\n{text}");
    // A sample is up to 15 s old: the curve ends with what the row has now.
    let mut fleet = (*facts.fleet).clone();
    let later = |job: &Arc<Job>| {
        let mut job = (**job).clone();
        let models = job.serving.iter_mut().flat_map(|it| &mut it.served);
        models.for_each(|model| model.waiting = model.waiting.map(|_| 4321.0));
        Arc::new(job)
    };
    fleet.jobs = fleet.jobs.iter().map(later).collect();
    facts.fleet = Arc::new(fleet);
    let (_, text) = open(&facts, ViewId::Jobs, &format!("/{name}\n\n"));
    let numbers = text.matches("4 321").count();
    assert!(
        numbers > 1,
        "beside the title and at the top of the curve\n{text}"
    );
}
