//! What trial users stumbled over in tables: the filter that is typed over, faulty rows, clocks, sums and ties.

use std::sync::Arc;
use std::time::Duration;

use console::color::ColorDepth;
use console::table_model::TableModel;
use console::{App, AppOptions, Key, KeyPress, Msg, render_text};
use model::base::Name;
use model::cost::{Money, SpendScope};
use model::fleet::job::{Job, JobState};
use model::fleet::observe::{SourceState, WorkloadFailure};
use ratatui::style::Modifier;
use table::Facts;
use table::cell::Value;
use table::kinds::{cost, sources};
use table::navigation::{RowScope, Selection, ViewId};

use crate::frames::{LARGE, SMALL, console, drawn, press};

const SIZE: (u16, u16) = (120, 40);

fn app(facts: &Facts, view: ViewId) -> App {
    console(facts, view, SIZE, AppOptions::default())
}

/// These facts with every job changed.
fn with_jobs(facts: &Facts, mut change: impl FnMut(usize, &mut Job)) -> Facts {
    let mut facts = facts.clone();
    let fleet = Arc::make_mut(&mut facts.fleet);
    let jobs = fleet.jobs.iter().enumerate().map(|(at, job)| {
        let mut job = (**job).clone();
        change(at, &mut job);
        Arc::new(job)
    });
    fleet.jobs = jobs.collect();
    facts
}

#[test]
fn typing_over_a_filter_replaces_it_and_an_editing_key_keeps_it() {
    let mut app = app(&SMALL, ViewId::Nodes);
    press(&mut app, "/pool:l4\n/ready");
    assert_eq!(app.view().filter(), "ready");
    press(&mut app, "\u{1b}");
    assert_eq!(app.view().filter(), "pool:l4", "escape gives back what was");
    press(&mut app, "/\n");
    assert_eq!(app.view().filter(), "pool:l4", "untouched, it stays");
    press(&mut app, "/");
    let _ = app.update(Msg::Key(KeyPress::plain(Key::End)));
    press(&mut app, " ready\n");
    assert_eq!(app.view().filter(), "pool:l4 ready");
}

#[test]
fn a_selected_filter_is_reversed_with_and_without_color() {
    for depth in [ColorDepth::None, ColorDepth::Ansi16, ColorDepth::True] {
        let options = AppOptions {
            depth,
            ..AppOptions::default()
        };
        let mut app = console(&SMALL, ViewId::Nodes, SIZE, options);
        press(&mut app, "/pool:l4\n/");
        let reversed = |app: &App| -> String {
            let (buf, _) = drawn(app, SIZE);
            let line = (0..SIZE.0).map(|x| &buf[(x, SIZE.1 - 1)]);
            let cells = line.filter(|cell| cell.modifier.contains(Modifier::REVERSED));
            cells.map(|cell| cell.symbol()).collect()
        };
        assert_eq!(reversed(&app), "pool:l4", "{depth:?}");
        let _ = app.update(Msg::Key(KeyPress::plain(Key::Left)));
        assert_eq!(reversed(&app), "", "{depth:?}");
    }
}

#[test]
fn faulty_jobs_begin_with_the_newest_failure_and_the_cursor_on_it() {
    let now = SMALL.now;
    let ago = |seconds| now.minus(std::time::Duration::from_secs(seconds));
    let facts = with_jobs(&SMALL, |at, job| {
        job.failure = None;
        if matches!(at, 1 | 3 | 4) {
            job.failure = Some(WorkloadFailure {
                restarts: 2,
                ..WorkloadFailure::default()
            });
        }
        if matches!(at, 1 | 4) {
            job.state = JobState::Failed;
            job.finished = Some(ago(if at == 1 { 5_000 } else { 60 }));
        }
    });
    let mut app = app(&facts, ViewId::Jobs);
    press(&mut app, "jjjz");
    let job = |at: usize| Some(Selection::Job(facts.fleet.jobs[at].id.clone()));
    for at in [4, 1, 3] {
        assert_eq!(app.view().selection(&facts), job(at));
        press(&mut app, "j");
    }
    // Back among all, the cursor is on the first again.
    press(&mut app, "z");
    let mut model = TableModel::new(&table::kinds::jobs::KIND, RowScope::All);
    model.refresh(&facts, true);
    let first = (table::kinds::jobs::KIND.selection)(&facts, model.rows()[0]);
    assert_eq!(app.view().selection(&facts), first);
}

#[test]
fn the_key_of_a_view_shows_all_its_rows_so_that_the_same_keys_mean_the_same_again() {
    let mut app = app(&SMALL, ViewId::Fleet);
    let mut after = |keys: &str| {
        press(&mut app, keys);
        (app.view().faults_only(), app.view().selection(&SMALL))
    };
    let (faults, first) = after("6z");
    assert!(faults);
    assert_eq!(after("6"), (false, after("g").1));
    assert_eq!(after("6z"), (true, first.clone()));
    assert_eq!(after("16z"), (true, first));
    // Back to the last view: as it was left.
    assert!(after("1-").0);
}

#[test]
fn a_running_job_with_a_failure_shows_it() {
    let facts = with_jobs(&SMALL, |_, job| {
        job.failure = Some(WorkloadFailure {
            message: Name::new("OOMKilled"),
            exit_code: Some(137),
            restarts: 3,
            ..WorkloadFailure::default()
        });
    });
    let job = facts.fleet.jobs.iter();
    let at = job.clone().position(|job| job.state == JobState::Running);
    let at = at.expect("one runs");
    let column = table::kinds::jobs::KIND
        .columns
        .iter()
        .find(|it| it.id == "place");
    let cell = (column.expect("there").cell)(&facts, (0, at as u32));
    let (_, words) = cell.value.words().expect("words");
    let failure = "OOMKilled, exit code 137, 3 restarts";
    assert!(words.starts_with(&format!("{failure} · ")), "{words}");
    assert!(words.len() > failure.len() + 5, "its place, too: {words}");
}

#[test]
fn the_page_of_a_job_that_waits_says_since_when_and_not_that_it_started() {
    let at = SMALL.fleet.jobs.iter();
    let at = at.clone().position(|job| job.state == JobState::Waiting);
    let at = at.expect("one waits");
    let page = |evicted: bool| {
        let facts = with_jobs(&SMALL, |_, job| {
            if job.state == JobState::Waiting {
                let ago = |seconds| SMALL.now.minus(std::time::Duration::from_secs(seconds));
                job.created = ago(3_360);
                job.started = Some(ago(3_000));
                job.waiting_since = Some(if evicted { ago(180) } else { job.created });
                job.failure = evicted.then(|| WorkloadFailure {
                    last_eviction: Some(ago(180)),
                    ..WorkloadFailure::default()
                });
            }
        });
        let id = facts.fleet.jobs[at].id.clone();
        let mut app = app(&facts, ViewId::Jobs);
        press(&mut app, &format!("/{}\nd", id.key.name));
        render_text(&app, SIZE.0, SIZE.1)
    };
    let shown = page(true);
    assert!(
        shown.contains("3m since it was evicted, created 56m ago"),
        "{shown}"
    );
    assert!(!shown.contains("started"), "{shown}");
    let shown = page(false);
    assert!(shown.contains("created     56m ago"), "{shown}");
    assert!(!shown.contains("started"), "{shown}");
}

#[test]
fn a_device_idle_at_the_first_look_is_idle_for_longer() {
    let mut facts = SMALL.clone();
    let fleet = Arc::make_mut(&mut facts.fleet);
    let nodes = fleet.nodes.iter().map(|node| {
        let mut node = (**node).clone();
        for device in &mut node.devices {
            device.idle_since = Some(SMALL.now);
            device.idle_first_seen = device.index == 0;
        }
        Arc::new(node)
    });
    fleet.nodes = nodes.collect();
    let columns = table::kinds::devices::IDLE.columns.iter();
    let column = columns.clone().find(|it| it.id == "idle-for");
    let cell = |row| (column.expect("there").cell)(&facts, row).value;
    let rows = (table::kinds::devices::IDLE.collect)(&facts, &RowScope::All);
    let mut seen = [false; 2];
    for row in rows {
        match cell(row) {
            Value::SeenSince(_) => seen[0] = true,
            Value::Since(_) => seen[1] = true,
            _ => {}
        }
    }
    assert_eq!(seen, [true, true]);
}

#[test]
fn a_source_on_a_node_that_is_not_ready_says_so_first() {
    let mut facts = SMALL.clone();
    let fleet = Arc::make_mut(&mut facts.fleet);
    let mut nodes = fleet.nodes.to_vec();
    let mut node = (*nodes[0]).clone();
    node.ready = Some(false);
    node.ready_since = Some(facts.now.minus(Duration::from_secs(540)));
    let name = node.name().clone();
    nodes[0] = Arc::new(node);
    fleet.nodes = nodes.into();
    let mut all = fleet.sources.to_vec();
    let at = all.iter().position(|source| source.gives_readings());
    let at = at.expect("an exporter");
    let fault = "503: the API server cannot reach the exporter's pod";
    all[at].node = Some(name.clone());
    all[at].state = SourceState::Lost;
    all[at].message = String::from(fault);
    fleet.sources = all.into();
    let wanted = format!(
        "its node {name} is not ready for 9m; {fault}; check kubelet, network and power of its node"
    );
    let row = sources::row(&facts, &facts.fleet.sources[at]);
    assert_eq!(row.message.as_deref(), Some(&*wanted));
    let column = sources::KIND.columns.iter().find(|it| it.id == "message");
    let cell = (column.expect("there").cell)(&facts, (at as u32, 0));
    assert_eq!(cell.value.words(), Some(("", &*wanted)));
    // A source that answers says nothing of its node.
    let mut source = facts.fleet.sources[at].clone();
    source.state = SourceState::Live;
    source.failing_since = None;
    assert_eq!(sources::message(&facts, &source), fault);
}

#[test]
fn the_idle_money_of_the_cost_view_is_the_headers_sum() {
    let shown = render_text(&app(&LARGE, ViewId::Cost), 160, 40);
    let spend = LARGE.spend_rates.known().expect("prices");
    let sum = spend.idle().expect("known");
    let line = format!(
        "idle ${}/h: ${} unalloc + ${} allocated",
        sum.all,
        spend.free.expect("known").all,
        spend.idle_allocated.expect("known").all
    );
    assert!(shown.contains(&line), "{line}\n{shown}");
}

#[test]
fn of_jobs_with_the_same_idle_money_the_one_that_cost_most_comes_first() {
    let mut facts = LARGE.clone();
    let mut burn = (*facts.spend_rates).clone();
    let named: Vec<_> = facts.fleet.jobs.iter().map(|job| job.id.clone()).collect();
    let rows = burn.rows.get_mut(&SpendScope::Job).expect("jobs");
    let one = rows[0].clone();
    let ids: Vec<_> = named.iter().take(3).cloned().collect();
    let spend = burn.jobs.values().next().expect("a job").0;
    *rows = ids
        .iter()
        .map(|id| {
            let mut row = one.clone();
            row.name = Name::from(id.key.to_string());
            row.spend.idle_allocated = Some(spend.rate);
            row
        })
        .collect();
    for (id, hours) in ids.iter().zip([2, 9, 5]) {
        let so_far = Money::known(model::base::Rate::from_micros(hours * 1_000_000));
        burn.jobs.insert(id.clone(), (spend, so_far));
    }
    facts.spend_rates = Arc::new(burn);
    let mut model = TableModel::new(&cost::IDLE, RowScope::Idle);
    model.refresh(&facts, true);
    let order: Vec<u32> = model.rows().iter().map(|row| row.1).collect();
    assert_eq!(order, [1, 2, 0]);
}
