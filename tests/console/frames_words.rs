//! What frames say: sums under a scope, plans on a small screen, names, ages of the past, signs, what is cut and what is not.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use console::action_keys::PlanOutcome;
use console::{App, AppOptions, ColorDepth, Effect, Key, KeyPress, Msg, render_text};
use model::base::{Name, ObjectKey};
use model::cost::SpendScope;
use model::fleet::device::Pod;
use model::fleet::finding::{Finding, Severity, Subject};
use model::fleet::job::JobState;
use model::fleet::observe::{Condition, PodSeen, SourceState};
use model::plan::{
    Alternative, Mutation, Object, Outcome, Plan, PlanCheck, Refusal, RefusalCode, Step, Undo, Verb,
};
use table::Facts;
use table::actions::{ActionState, May};
use table::navigation::ViewId;

use crate::frames::{LARGE, PAST, SMALL, console, press};

const NARROW: (u16, u16) = (80, 24);
const USUAL: (u16, u16) = (120, 40);
const WIDE: (u16, u16) = (200, 50);

/// The text of a console on these facts after these keys.
fn screen(facts: &Facts, view: ViewId, size: (u16, u16), keys: &str) -> String {
    let mut app = console(facts, view, size, AppOptions::default());
    press(&mut app, keys);
    render_text(&app, size.0, size.1)
}

/// The same facts with another fleet.
fn with(facts: &Facts, change: impl FnOnce(&mut model::fleet::Fleet)) -> Facts {
    let mut fleet = (*facts.fleet).clone();
    change(&mut fleet);
    Facts {
        fleet: Arc::new(fleet),
        ..facts.clone()
    }
}

#[test]
fn under_a_scope_header_total_and_rows_are_one_sum() {
    let mut app = console(&LARGE, ViewId::Cost, WIDE, AppOptions::default());
    press(&mut app, ":team prod\n");
    let burn = app.facts().spend_rates.clone();
    assert!(
        burn.total.rate.usd() > 0.0 && burn.total.rate.usd() < LARGE.spend_rates.total.rate.usd()
    );
    for scope in SpendScope::ALL {
        let rows = &burn.rows[&scope];
        assert_eq!(
            rows.iter()
                .map(|row| row.spend.rate)
                .sum::<model::cost::Money>(),
            burn.total.rate
        );
        assert_eq!(
            rows.iter()
                .map(|row| row.devices)
                .sum::<model::base::DeviceAmount>(),
            burn.devices,
            "{scope:?}"
        );
    }
    let text = render_text(&app, WIDE.0, WIDE.1);
    let money = format!("${}/h", burn.total.rate.all);
    assert_eq!(text.matches(&money).count(), 2, "header and total: {text}");
    assert!(text.contains(&format!(
        "{} devices",
        model::base::quantities::grouped(i64::from(burn.devices.floor()))
    )));
    // The fleet's panel shows that team alone, and says which numbers are not its own.
    press(&mut app, "1");
    let text = render_text(&app, WIDE.0, WIDE.1);
    assert!(text.contains("POOL FREE/TOTAL"), "{text}");
    assert!(!text.contains("research "), "{text}");
    // A picture that is held still and one of the whole fleet are not mixed up.
    press(&mut app, "f:team all\n");
    assert_eq!(app.facts().spend_rates.total, LARGE.spend_rates.total);
    press(&mut app, "f");
    assert_eq!(app.facts().spend_rates.total, LARGE.spend_rates.total);
}

#[test]
fn help_says_what_the_header_says_of_writing() {
    let mut app = console(&SMALL, ViewId::Fleet, USUAL, AppOptions::default());
    let acts = |may| {
        Msg::ActionState(Arc::new(ActionState {
            may,
            ..ActionState::default()
        }))
    };
    press(&mut app, "?");
    assert!(render_text(&app, 120, 40).contains("· read-only"));
    let _ = app.update(acts(May::Yes));
    let text = render_text(&app, 120, 40);
    assert!(
        text.contains("· read-write") && !text.contains("· read-only"),
        "{text}"
    );
    // Every sign of ours is explained.
    for _ in 0..8 {
        press(&mut app, "j");
    }
    let seen: String = (0..12)
        .map(|_| {
            let _ = app.update(Msg::Key(KeyPress::ctrl('f')));
            render_text(&app, 120, 40)
        })
        .collect();
    for words in [
        "on hold or stopped",
        "free device; / one that a new pod cannot use",
        "estimate: after a pod",
    ] {
        assert!(seen.contains(words), "{words}");
    }
}

#[test]
fn sources_that_do_not_answer_are_missing() {
    let facts = with(&SMALL, |fleet| {
        let mut sources = fleet.sources.to_vec();
        sources[3].state = SourceState::Lost;
        sources[3].last_ok = None;
        sources[3].message = String::new();
        fleet.sources = sources.into();
    });
    let text = screen(&facts, ViewId::Nodes, USUAL, "!");
    assert!(text.contains("1 of 5 sources unreachable"), "{text}");
    assert!(text.contains("never answered"), "{text}");
    // The header counts it: there is no banner over every view.
    assert!(!screen(&facts, ViewId::Nodes, USUAL, "").contains("says how to mend it"));
    // What is only late is said as well, and nothing is green while it is.
    let text = screen(&SMALL, ViewId::Nodes, USUAL, "!");
    assert!(text.contains("1 source answered late"), "{text}");
}

fn condition(kind: &str, status: bool) -> Condition {
    Condition {
        kind: Name::new(kind),
        status: Some(status),
        reason: Name::default(),
        message: Name::new("as its agent says"),
        since: None,
    }
}

#[test]
fn a_good_condition_is_no_warning_and_a_crit_finding_is_a_state() {
    let name = SMALL.fleet.nodes[1].name().clone();
    let facts = with(&SMALL, |fleet| {
        let mut nodes = fleet.nodes.to_vec();
        let mut node = (*nodes[1]).clone();
        let mut seen = (*node.seen).clone();
        seen.conditions = vec![
            condition("Ready", true),
            condition("AcceleratedHardwareReady", true),
            condition("NetworkUnavailable", false),
            condition("KernelDeadlock", true),
        ];
        node.seen = Arc::new(seen);
        nodes[1] = Arc::new(node);
        fleet.nodes = nodes.into();
        fleet.findings = Arc::from([Finding {
            id: Name::new("node-condition x"),
            severity: Severity::Crit,
            code: Name::new("node-condition"),
            subject: Subject {
                kind: "Node",
                key: ObjectKey::new("", name.as_str()),
            },
            since: fleet.at,
            first_seen: false,
            at_least: false,
            value: None,
            threshold: None,
            message: String::from("condition KernelDeadlock"),
            repair: String::new(),
            members: Box::default(),
            also: Box::default(),
        }]);
    });
    let text = screen(&facts, ViewId::Nodes, USUAL, &format!("/{name}\n\n"));
    assert!(!text.contains("AcceleratedHardwareReady"), "{text}");
    assert!(!text.contains("NetworkUnavailable"), "{text}");
    assert!(text.contains("KernelDeadlock"), "{text}");
    let text = screen(&facts, ViewId::Nodes, USUAL, "");
    let line = text
        .lines()
        .find(|line| line.contains(name.as_str()))
        .expect("its row");
    assert!(line.contains('▲') && line.contains("node-"), "{line}");
    let pools = screen(&facts, ViewId::Pools, USUAL, "z");
    assert!(pools.contains("▲ a100-shared"), "{pools}");
    // For a team the pool is marked where it has devices on that node, or faulty ones.
    let pool = facts.fleet.pool("a100-shared").expect("there");
    let teams: BTreeSet<&Name> = facts.fleet.jobs.iter().map(|job| &job.team).collect();
    let of = |team: &Name| {
        let scoped = facts.scoped(&table::Scope {
            team: Some(team.clone()),
            ..table::Scope::default()
        });
        let part = scoped.part.as_ref().expect("a part");
        let mut own = scoped.pools().iter();
        let own = own.find(|own| own.name == pool.name).expect("there");
        let is_its = part.reach.has_node(&name) || own.devices.unhealthy > 0;
        assert_eq!(
            table::kinds::pools::sign(&scoped, pool).0 == "▲",
            is_its,
            "{team}"
        );
        is_its
    };
    let marked: BTreeSet<bool> = teams.into_iter().map(of).collect();
    assert_eq!(marked.len(), 2, "of some teams, and not of others");
}

/// A console with this plan in front.
fn planned(size: (u16, u16), fill: impl FnOnce(&mut Plan)) -> App {
    let mut app = console(&SMALL, ViewId::Nodes, size, AppOptions::default());
    let _ = app.update(Msg::ActionState(Arc::new(ActionState {
        may: May::Yes,
        ..ActionState::default()
    })));
    let effects = press(&mut app, "D");
    let asked = effects.iter().find_map(|effect| match effect {
        Effect::Plan(ask) => Some(ask.clone()),
        _ => None,
    });
    let asked = asked.expect("a plan is asked for");
    let mut plan = Plan::new("drain", asked.intent, SMALL.now);
    fill(&mut plan);
    let _ = app.update(Msg::PlanOutcome(
        asked.number,
        PlanOutcome::Plan(Box::new(plan)),
    ));
    app
}

fn long(plan: &mut Plan) {
    for at in 0..45 {
        let name = format!("job-roofline-with-a-long-name-{at:02}x");
        let object = || Object::new("batch", "v1", "jobs", "Job", &name).within("lab");
        for (verb, value) in [(Verb::Suspend, true), (Verb::Resume, false)] {
            plan.steps
                .push(Step::new(verb, object(), Mutation::Suspend { value }));
        }
    }
    plan.checks = vec![PlanCheck {
        name: String::from("server dry run"),
        outcome: Outcome::Ok,
        sentence: String::new(),
    }];
    plan.alternatives = vec![Alternative {
        sentence: String::from("hold it instead"),
        command: Some(String::from("plan hold lab/a")),
    }];
    plan.undo = Undo {
        possible: true,
        notes: vec![String::from("what is lost is lost")],
    };
}

#[test]
fn a_long_plan_is_read_to_its_end_on_a_small_screen() {
    let mut app = planned(NARROW, long);
    let first = render_text(&app, 80, 24);
    assert!(
        first.contains("more lines below · ctrl-f ctrl-b scroll")
            || first.contains("lines below · ctrl-f ctrl-b scroll")
            || first.contains("more below · ctrl-f ctrl-b scroll"),
        "{first}"
    );
    assert!(
        first.contains("1–2 suspend, resume"),
        "pairs are one row: {first}"
    );
    assert!(first.contains("-00x"), "a long name keeps its end: {first}");
    let last_line = first.lines().last().unwrap_or_default();
    assert!(
        last_line.contains("esc close"),
        "the hints stay in sight: {last_line}"
    );
    // The keys that turn a page do so while the reason is typed.
    press(&mut app, "because");
    let mut seen = String::new();
    for _ in 0..16 {
        let _ = app.update(Msg::Key(KeyPress::ctrl('f')));
        seen.push_str(&render_text(&app, 80, 24));
    }
    for words in [
        "89–90 suspend, resume",
        "server dry run",
        "hold it instead: H on lab/a",
        "what is lost is lost",
        "the end,",
    ] {
        assert!(
            seen.contains(words),
            "{words} is never seen\n{}",
            render_text(&app, 80, 24)
        );
    }
    assert!(
        render_text(&app, 80, 24).contains("because"),
        "what was typed stays"
    );
    // From the end one comes back at once.
    for _ in 0..16 {
        let _ = app.update(Msg::Key(KeyPress::ctrl('b')));
    }
    assert!(render_text(&app, 80, 24).contains("1–2 suspend, resume"));
    // The line by line way there, at every size.
    for size in [(40, 10), (80, 24), (120, 40), (200, 60)] {
        let mut app = planned(size, long);
        let mut seen = String::new();
        for _ in 0..160 {
            seen.push_str(&render_text(&app, size.0, size.1));
            let _ = app.update(Msg::Key(KeyPress::plain(Key::Down)));
        }
        assert!(seen.contains("what is lost is lost"), "{size:?}");
    }
}

#[test]
fn what_is_behind_a_plan_steps_back() {
    let app = planned(USUAL, |_| {});
    let behind = console(&SMALL, ViewId::Nodes, USUAL, AppOptions::default());
    let (dialog, _) = crate::frames::drawn(&app, USUAL);
    let (plain, _) = crate::frames::drawn(&behind, USUAL);
    assert_eq!(dialog[(4, 4)].symbol(), plain[(4, 4)].symbol());
    assert_ne!(dialog[(4, 4)].fg, plain[(4, 4)].fg, "dimmed");
}

#[test]
fn a_refusal_names_keys_and_hints_only_what_works() {
    let mut app = console(&SMALL, ViewId::Nodes, USUAL, AppOptions::default());
    let effects = press(&mut app, "D");
    let waiting = render_text(&app, 120, 40);
    assert!(waiting.contains("computing plan… 0s"), "{waiting}");
    let _ = app.update(Msg::Tick(SMALL.now.plus(Duration::from_secs(7))));
    assert!(render_text(&app, 120, 40).contains("computing plan… 7s"));
    let number = effects
        .iter()
        .find_map(|effect| match effect {
            Effect::Plan(ask) => Some(ask.number),
            _ => None,
        })
        .expect("asked");
    let refusal = Refusal::new(RefusalCode::Infeasible, String::from("it holds nothing"))
        .instead(String::from("look at what holds it: `explain job nlp/a`"));
    let _ = app.update(Msg::PlanOutcome(number, PlanOutcome::Refused(refusal)));
    let text = render_text(&app, 120, 40);
    assert!(text.contains("look at what holds it: d on nlp/a"), "{text}");
    let hints = text.lines().last().unwrap_or_default();
    assert!(hints.contains("esc close"), "{hints}");
    assert!(
        !hints.contains("accept") && !hints.contains("next"),
        "{hints}"
    );
}

#[test]
fn an_action_that_has_nothing_to_do_is_not_offered() {
    let mut app = console(&SMALL, ViewId::Jobs, WIDE, AppOptions::default());
    let _ = app.update(Msg::ActionState(Arc::new(ActionState {
        may: May::Yes,
        ..ActionState::default()
    })));
    let offered = |app: &App| {
        let text = render_text(app, WIDE.0, WIDE.1);
        let hints = text.lines().last().unwrap_or_default();
        ["A admit", "X preempt", "R requeue", "P priority"].map(|words| hints.contains(words))
    };
    press(&mut app, "/llm-70b-sft-next\n");
    assert_eq!(
        offered(&app),
        [true, false, false, false],
        "it waits, in no queue"
    );
    press(&mut app, "\u{1b}G");
    assert_eq!(offered(&app), [false, true, true, false], "it runs");
}

#[test]
fn every_queue_shows_what_is_left_of_its_quotas_and_their_use_where_there_is_room() {
    let row = |text: &str, name: &str| {
        let found = text.lines().find(|line| line.contains(name));
        found.unwrap_or_else(|| panic!("{name}: {text}")).to_owned()
    };
    let narrow = screen(&LARGE, ViewId::Queues, NARROW, "");
    assert!(row(&narrow, "speech").contains("l4 52"), "{narrow}");
    let prod = row(&narrow, "· prod");
    assert!(prod.contains("h100 128, a100 64"), "{narrow}");
    let wide = screen(&LARGE, ViewId::Queues, WIDE, "");
    let head = row(&wide, "used/quota");
    assert!(
        ["h100", "a100", "l4"]
            .iter()
            .all(|flavor| head.contains(&format!("{flavor} used/quota"))),
        "{wide}"
    );
    assert!(!head.contains("LEFT"), "the bars say it: {wide}");
    assert!(row(&wide, "speech").contains("12/64"), "{wide}");
}

#[test]
fn a_tpu_is_called_a_tpu() {
    let text = screen(&LARGE, ViewId::Nodes, USUAL, "/tpu-v5p-000\n\njd");
    assert!(text.contains("DESCRIBE  tpu-v5p-000/tpu0"), "{text}");
    assert!(
        text.contains("describe tpu-v5p-000/tpu0"),
        "the way says so, too: {text}"
    );
    let mut app = console(&LARGE, ViewId::Nodes, USUAL, AppOptions::default());
    let effects = press(&mut app, "/tpu-v5p-000\n\njcn");
    let copied = Effect::Copy(String::from("tpu-v5p-000/tpu0"));
    assert!(effects.contains(&copied), "{effects:?}");
}

#[test]
fn the_strip_shows_the_position_in_the_record() {
    let live = screen(&PAST, ViewId::Devices, USUAL, "");
    assert!(
        live.contains("now ") && !live.contains("before the latest"),
        "{live}"
    );
    let past = screen(&PAST, ViewId::Devices, USUAL, &"[".repeat(25));
    assert!(
        past.contains("─ showing ") && past.contains("m before the latest"),
        "{past}"
    );
    assert!(!past.contains("─ now "), "{past}");
    // The chart goes on beyond what is shown, and the mark is not at its end.
    let axis = past
        .lines()
        .rev()
        .find(|line| line.contains('▲'))
        .expect("a mark");
    let at = axis.chars().position(|c| c == '▲').expect("there");
    let chart = live
        .lines()
        .rev()
        .nth(4)
        .map_or(0, |line| line.trim_end().chars().count());
    assert!(at > 10 && at + 8 < chart.max(60), "{past}");
}

#[test]
fn the_header_keeps_idle_cost_and_shows_nothing_before_it_is_known() {
    let header = screen(&LARGE, ViewId::Fleet, NARROW, "");
    let header = header.lines().next().unwrap_or_default();
    assert!(
        header.contains("idle $") && header.contains("▲2"),
        "{header}"
    );
    let young = with(&LARGE, |fleet| fleet.findings = Arc::from([]));
    let text = screen(&young, ViewId::Fleet, USUAL, "");
    assert!(text.contains("reading…: no lasting finding yet"), "{text}");
    assert!(!text.contains("│ nothing "), "{text}");
}

#[test]
fn equal_events_of_several_pods_are_listed_once() {
    let facts = with(&SMALL, |fleet| {
        let mut jobs = fleet.jobs.to_vec();
        let at = jobs
            .iter()
            .position(|job| job.name().as_str() == "embed-new")
            .expect("it waits");
        let mut job = (*jobs[at]).clone();
        job.pods = (0..64)
            .map(|number| {
                Arc::new(Pod {
                    seen: Arc::new(PodSeen {
                        key: ObjectKey::new("prod", format!("embed-new-workers-0-{number}")),
                        unschedulable: Some((
                            Name::new("Unschedulable"),
                            Name::new("0/400 nodes are available"),
                        )),
                        ..PodSeen::default()
                    }),
                    job: job.id.clone(),
                    queue: None,
                    team: Name::new("prod"),
                    team_source: model::fleet::device::TeamSource::Namespace,
                })
            })
            .collect();
        jobs[at] = Arc::new(job);
        fleet.jobs = jobs.into();
    });
    let text = screen(&facts, ViewId::Jobs, USUAL, "/embed-new\nd");
    assert!(text.contains("64 ×"), "{text}");
    assert_eq!(
        text.matches("0/400 nodes are available").count(),
        1,
        "once: the reason says it in short: {text}"
    );
}

#[test]
fn short_words_are_whole_before_sentences_are_longer() {
    let text = screen(&LARGE, ViewId::Jobs, WIDE, "");
    assert!(
        text.contains("research") && !text.contains("resea…"),
        "{text}"
    );
    let alerts = screen(&LARGE, ViewId::Alerts, USUAL, "");
    let head = alerts
        .lines()
        .find(|line| line.contains("REPAIR"))
        .expect("a head");
    let at = |title: &str| head.find(title).expect("a title");
    assert!(at("REPAIR") - at("MESSAGE") >= 28, "{head}");
}

#[test]
fn the_pools_own_view_shows_more_where_there_is_room() {
    let pools = screen(&SMALL, ViewId::Pools, WIDE, "");
    let fleet = screen(&SMALL, ViewId::Fleet, WIDE, "");
    for title in ["READY/NODES", "CORDONED", "MIN..MAX", "UNHEALTHY"] {
        assert!(pools.contains(title), "{title}: {pools}");
        assert!(!fleet.contains(title), "{title}");
    }
    let narrow = screen(&SMALL, ViewId::Pools, NARROW, "");
    let head = narrow.lines().find(|line| line.contains("UTIL"));
    assert!(
        head.is_some_and(|head| !head.contains("CORDONED")),
        "{narrow}"
    );
}

#[test]
fn a_title_speaks_of_an_hour_only_with_an_hour() {
    assert!(screen(&PAST, ViewId::Pools, USUAL, "").contains("UTIL 60m"));
    let young = screen(&SMALL, ViewId::Pools, USUAL, "");
    assert!(
        young.contains("UTIL") && !young.contains("UTIL 60m"),
        "{young}"
    );
}

#[test]
fn the_cursor_leaves_a_label_its_air_and_no_words_lie_over_cells() {
    let text = screen(&LARGE, ViewId::Devices, NARROW, "");
    let first = text.lines().find(|line| line.contains("r1 "));
    assert!(first.is_some_and(|line| line.contains(" ⌈")), "{text}");
    let more = text
        .lines()
        .find(|line| line.contains("more ▾"))
        .expect("more lines");
    assert!(!more.contains('▀') && !more.contains('·'), "{more}");
    // The cursor never stands behind those words.
    let mut app = console(&LARGE, ViewId::Devices, NARROW, AppOptions::default());
    for _ in 0..90 {
        press(&mut app, "j");
        let text = render_text(&app, 80, 24);
        assert!(text.contains('⌈') || text.contains('⌊'), "{text}");
    }
}

#[test]
fn sixteen_colors_keep_red_for_faults() {
    let options = AppOptions {
        depth: ColorDepth::Ansi16,
        ..AppOptions::default()
    };
    let app = console(&LARGE, ViewId::Devices, USUAL, options);
    let (buf, _) = crate::frames::drawn(&app, USUAL);
    use ratatui::style::Color;
    for cell in buf.content() {
        let red = matches!(cell.fg, Color::Red | Color::LightRed);
        let digit = cell.symbol().chars().all(|c| c.is_ascii_digit());
        assert!(!(red && digit && cell.symbol() != "2"), "{cell:?}");
    }
}

#[test]
fn what_a_panel_hides_is_counted_and_room_is_used() {
    let text = screen(&SMALL, ViewId::Jobs, NARROW, "/llm-70b-sft-next\n\n");
    assert!(text.contains("no device here"), "{text}");
    assert!(!text.contains("more line"), "all of it fits: {text}");
    let cut = screen(&SMALL, ViewId::Nodes, (80, 16), "\n");
    assert!(cut.contains(". shows all"), "{cut}");
}

#[test]
fn a_column_named_while_typing_empties_nothing() {
    let mut app = console(&SMALL, ViewId::Nodes, USUAL, AppOptions::default());
    press(&mut app, "/a100");
    let kept = app.view().counts();
    assert!(kept.0 > 0 && kept.0 < kept.1);
    for more in [" util", "<", "<"] {
        press(&mut app, more);
        assert_eq!(app.view().counts(), kept, "after {more}");
    }
    press(&mut app, "\u{1b}/util\n");
    assert_eq!(
        app.view().counts().0,
        0,
        "entered, it is a word like others"
    );
    let text = render_text(&app, 120, 40);
    assert!(
        text.contains("nothing matches util · esc shows everything"),
        "{text}"
    );
}

#[test]
fn the_smallest_screen_shows_pools_before_an_empty_panel() {
    let text = screen(&LARGE, ViewId::Fleet, (40, 10), "");
    for pool in LARGE.fleet.pools.iter() {
        assert!(text.contains(pool.name.as_str()), "{}: {text}", pool.name);
    }
    assert!(!text.contains("needs you"), "{text}");
}

#[test]
fn waiting_jobs_come_first_and_nodes_sort_naturally() {
    let app = console(&LARGE, ViewId::Jobs, USUAL, AppOptions::default());
    let table = app.view().table().expect("a table");
    let rows = table.table_model.rows().iter();
    let jobs: Vec<_> = rows.map(|row| &LARGE.fleet.jobs[row.1 as usize]).collect();
    let in_state = |state| jobs.iter().filter(move |job| job.state == state);
    let (waiting, failed) = (in_state(JobState::Waiting), in_state(JobState::Failed));
    let first: Vec<_> = waiting.chain(failed).map(|job| &job.id).collect();
    assert!(!first.is_empty() && jobs.iter().map(|job| &job.id).take(first.len()).eq(first));
    let waits = in_state(JobState::Waiting).map(|job| job.waiting_since.unwrap_or(job.created));
    assert!(waits.is_sorted(), "the longest wait first, as it is shown");
    let facts = with(&SMALL, |fleet| {
        let mut nodes = fleet.nodes.to_vec();
        for (number, node) in [10, 2, 1].into_iter().zip(nodes.iter_mut()) {
            let mut changed = (**node).clone();
            let mut seen = (*changed.seen).clone();
            seen.name = Name::from(format!("a100-{number}"));
            changed.seen = Arc::new(seen);
            *node = Arc::new(changed);
        }
        nodes.sort_by(|a, b| a.name().cmp(b.name()));
        fleet.nodes = nodes.into();
    });
    let text = screen(&facts, ViewId::Nodes, USUAL, "");
    let at = |name: &str| text.find(name).unwrap_or_else(|| panic!("{name}: {text}"));
    assert!(
        at("a100-1 ") < at("a100-2 ") && at("a100-2 ") < at("a100-10 "),
        "{text}"
    );
}

/// What a team spends and what is left of its quota stand in one row.
#[test]
fn a_row_of_cost_says_what_is_left_of_the_quota() {
    let mut app = console(&LARGE, ViewId::Cost, (200, 50), AppOptions::default());
    let by_team = render_text(&app, 200, 50);
    let vision = by_team.lines().find(|line| line.contains("vision"));
    assert!(
        vision.expect("a row").contains("a100 0; h100 lent"),
        "{by_team}"
    );
    let free = by_team.lines().find(|line| line.contains("unattributed"));
    assert!(!free.expect("a row").contains("h100"), "{by_team}");
    press(&mut app, "v");
    let by_job = render_text(&app, 200, 50);
    assert!(!by_job.contains("QUOTA LEFT"), "{by_job}");
}
