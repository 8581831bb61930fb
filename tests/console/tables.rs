//! What trial users stumbled over in tables: the filter that is typed over, faulty rows, clocks, sums and ties.

use std::sync::Arc;

use console::color::ColorDepth;
use console::table_model::TableModel;
use console::view::{RowScope, Selection, ViewId, cost, devices, jobs, sources};
use console::widget::Value;
use console::{App, AppOptions, Key, KeyPress, Msg, render_text};
use model::base::Name;
use model::cost::Scope;
use model::fleet::job::{Job, JobState};
use model::fleet::observe::{Failure, SourceState};
use ratatui::style::Modifier;
use table::Facts;

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
    let columns = devices::IDLE.columns.iter();
    let column = columns.clone().find(|it| it.id == "idle-for");
    let cell = |row| (column.expect("there").cell)(&facts, row).value;
    let rows = (devices::IDLE.collect)(&facts, &RowScope::All);
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
