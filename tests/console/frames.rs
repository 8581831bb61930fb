//! Frames: what every view shows of hand-built fleets, at every size, in every depth of color.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use proptest::prelude::*;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Color;

use console::color::ColorDepth;
use console::{App, AppOptions, Drawn, Effect, Key, KeyPress, Keymap, Msg, Theme, render_text};
use model::base::{DeviceAmount, Moment, Name};
use model::cost::SpendScope;
use model::fleet::observe::SourceState;
use table::Facts;
use table::navigation::ViewId;
use table::role::Role;

use crate::frames_fleet as fleets;

pub static LARGE: LazyLock<Facts> = LazyLock::new(fleets::large);
pub static PAST: LazyLock<Facts> = LazyLock::new(|| fleets::with_past(fleets::small()));
pub static SMALL: LazyLock<Facts> = LazyLock::new(fleets::small);
pub static PARTLY: LazyLock<Facts> = LazyLock::new(fleets::partly);
pub static EMPTY: LazyLock<Facts> = LazyLock::new(fleets::empty);
pub static UNKNOWN: LazyLock<Facts> = LazyLock::new(fleets::unknown);

fn all_fleets() -> [(&'static str, &'static Facts); 6] {
    [
        ("past", &PAST),
        ("large", &LARGE),
        ("small", &SMALL),
        ("partly", &PARTLY),
        ("empty", &EMPTY),
        ("unknown", &UNKNOWN),
    ]
}

/// A console on these facts, of this size, in this view.
pub fn console(facts: &Facts, view: ViewId, size: (u16, u16), options: AppOptions) -> App {
    let mut app = App::new(AppOptions { view, ..options });
    let _ = app.update(Msg::Resize(size.0, size.1));
    let _ = app.update(Msg::Tick(facts.now));
    let _ = app.update(Msg::Facts(facts.clone()));
    app
}

fn shown(facts: &Facts, view: ViewId, size: (u16, u16)) -> App {
    console(facts, view, size, AppOptions::default())
}

/// Types characters; `\n` is enter, `\u{1b}` escape.
pub fn press(app: &mut App, keys: &str) -> Vec<Effect> {
    let mut effects = Vec::new();
    for c in keys.chars() {
        let key = match c {
            '\n' => KeyPress::plain(Key::Enter),
            '\u{1b}' => KeyPress::plain(Key::Esc),
            '\t' => KeyPress::plain(Key::Tab),
            c => KeyPress::char(c),
        };
        effects.extend(app.update(Msg::Key(key)));
    }
    effects
}

pub fn drawn(app: &App, size: (u16, u16)) -> (Buffer, Drawn) {
    let area = Rect::new(0, 0, size.0, size.1);
    let mut buf = Buffer::empty(area);
    let drawn = app.draw(area, &mut buf);
    (buf, drawn)
}

fn plain() -> AppOptions {
    AppOptions {
        depth: ColorDepth::None,
        ..AppOptions::default()
    }
}

#[test]
fn frames_look_as_they_did() {
    for (name, facts, view, size, keys) in [
        ("fleet_large_120x40", &*LARGE, ViewId::Fleet, (120, 40), ""),
        ("fleet_large_80x24", &LARGE, ViewId::Fleet, (80, 24), ""),
        ("fleet_partly_120x40", &PARTLY, ViewId::Fleet, (120, 40), ""),
        ("fleet_unknown_80x24", &UNKNOWN, ViewId::Fleet, (80, 24), ""),
        ("fleet_empty_80x24", &EMPTY, ViewId::Fleet, (80, 24), ""),
        ("fleet_past_120x40", &PAST, ViewId::Fleet, (120, 40), ""),
        ("devices_past_120x40", &PAST, ViewId::Devices, (120, 40), ""),
        ("pools_wide_200x50", &SMALL, ViewId::Pools, (200, 50), "w"),
        (
            "devices_small_120x40",
            &SMALL,
            ViewId::Devices,
            (120, 40),
            "jjl",
        ),
        (
            "devices_partly_80x24",
            &PARTLY,
            ViewId::Devices,
            (80, 24),
            "",
        ),
        (
            "devices_one_node_120x40",
            &SMALL,
            ViewId::Devices,
            (120, 40),
            ">",
        ),
        (
            "jobs_large_120x40",
            &LARGE,
            ViewId::Jobs,
            (120, 40),
            "/class:a100 !prod\nss",
        ),
        ("jobs_partly_80x24", &PARTLY, ViewId::Jobs, (80, 24), ""),
        ("job_120x40", &SMALL, ViewId::Jobs, (120, 40), "j\n"),
        ("nodes_small_120x40", &SMALL, ViewId::Nodes, (120, 40), ""),
        ("node_80x24", &SMALL, ViewId::Nodes, (80, 24), "\n"),
        ("cost_large_120x40", &LARGE, ViewId::Cost, (120, 40), ""),
        ("alerts_large_200x50", &LARGE, ViewId::Alerts, (200, 50), ""),
        (
            "sources_large_120x40",
            &LARGE,
            ViewId::Sources,
            (120, 40),
            "",
        ),
        ("help_120x40", &SMALL, ViewId::Devices, (120, 40), "?"),
        ("facts_120x40", &SMALL, ViewId::Devices, (120, 40), "."),
        ("palette_80x24", &SMALL, ViewId::Fleet, (80, 24), ":th"),
    ] {
        let mut app = console(facts, view, size, plain());
        press(&mut app, keys);
        insta::with_settings!({omit_expression => true, prepend_module_to_snapshot => false}, {
            insta::assert_snapshot!(name, render_text(&app, size.0, size.1));
        });
    }
}

#[test]
fn every_view_fits_every_size() {
    let sizes = [1, 2, 39, 40, 41, 60, 80, 99, 100, 150, 400];
    let heights = [1, 2, 9, 10, 11, 15, 20, 24, 120];
    for (fleet, facts) in [("partly", &*PARTLY), ("unknown", &UNKNOWN)] {
        for view in ViewId::ALL {
            let mut app = shown(facts, *view, (80, 24));
            for width in sizes {
                for height in heights {
                    let _ = app.update(Msg::Resize(width, height));
                    let (buf, _) = drawn(&app, (width, height));
                    assert_eq!(buf.area, Rect::new(0, 0, width, height), "{fleet} {view:?}");
                }
            }
        }
    }
}

#[test]
fn overlays_stand_at_every_size() {
    for keys in [
        "?G",
        ".G",
        ":jobs",
        "/class:a100",
        "\n",
        "\nd",
        "dG",
        "y",
        "e",
        "l",
    ] {
        let mut app = shown(&SMALL, ViewId::Jobs, (120, 40));
        press(&mut app, keys);
        for size in [(1, 1), (39, 9), (40, 10), (41, 11), (80, 24), (400, 120)] {
            let _ = app.update(Msg::Resize(size.0, size.1));
            drawn(&app, size);
        }
    }
}

#[test]
fn below_the_least_size_a_notice_says_what_is_needed() {
    let app = shown(&SMALL, ViewId::Fleet, (39, 12));
    assert!(render_text(&app, 39, 12).contains("39x12 is too small: 40x10 is needed"));
    let app = shown(&SMALL, ViewId::Fleet, (40, 10));
    assert!(!render_text(&app, 40, 10).contains("too small"));
}

#[test]
fn the_same_state_draws_the_same_cells() {
    for (name, facts) in all_fleets() {
        for view in ViewId::ALL {
            let mut app = shown(facts, *view, (120, 40));
            let first = drawn(&app, (120, 40));
            assert_eq!(first, drawn(&app, (120, 40)), "{name} {view:?}");
            // The same picture once more, and a second later, repaints nothing but ages below a minute.
            let _ = app.update(Msg::Facts(facts.clone()));
            assert_eq!(first.0, drawn(&app, (120, 40)).0, "{name} {view:?}");
        }
    }
}

#[test]
fn nothing_hostile_reaches_the_screen() {
    for view in ViewId::ALL {
        for keys in ["", ".", "d", "\n", "w"] {
            let mut app = shown(&PARTLY, *view, (200, 50));
            press(&mut app, keys);
            let (buf, _) = drawn(&app, (200, 50));
            for cell in buf.content() {
                let hostile = |c: char| {
                    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
                };
                assert!(
                    !cell.symbol().chars().any(hostile),
                    "{view:?} {:?}",
                    cell.symbol()
                );
            }
        }
    }
    let mut app = shown(&PARTLY, ViewId::Pools, (200, 50));
    press(&mut app, "g");
    let effects = press(&mut app, "cn");
    let [Effect::Copy(name)] = effects.as_slice() else {
        panic!("one copy, not {effects:?}");
    };
    assert!(!name.chars().any(char::is_control) && name.contains("日本語"));
}

#[test]
fn an_ascii_screen_gets_ascii() {
    let options = || AppOptions {
        ascii: true,
        ..AppOptions::default()
    };
    for (name, facts) in all_fleets() {
        for view in ViewId::ALL {
            for keys in ["", ".", "d", "y", "e", "?", ":", "\n"] {
                let mut app = console(facts, *view, (120, 40), options());
                press(&mut app, keys);
                let text = render_text(&app, 120, 40);
                let odd: String = text.chars().filter(|c| !c.is_ascii()).collect();
                assert_eq!(odd, "", "{name} {view:?} {keys}");
            }
        }
    }
}

#[test]
fn fewer_colors_are_fewer_colors() {
    for (depth, allowed) in [
        (
            ColorDepth::None,
            (|color| color == Color::Reset) as fn(Color) -> bool,
        ),
        (ColorDepth::Ansi16, |color| {
            !matches!(color, Color::Rgb(..) | Color::Indexed(_))
        }),
        (ColorDepth::Ansi256, |color| {
            !matches!(color, Color::Rgb(..))
        }),
    ] {
        for view in ViewId::ALL {
            let options = AppOptions {
                depth,
                ..AppOptions::default()
            };
            let app = console(&LARGE, *view, (120, 40), options);
            let (buf, _) = drawn(&app, (120, 40));
            for cell in buf.content() {
                assert!(
                    allowed(cell.fg) && allowed(cell.bg),
                    "{view:?} {depth:?} {cell:?}"
                );
            }
        }
    }
}

#[test]
fn without_color_the_heatmap_shows_every_state_by_a_sign() {
    let app = console(&LARGE, ViewId::Devices, (170, 60), plain());
    let text = render_text(&app, 170, 60);
    let map: String = text
        .lines()
        .skip(6)
        .map(|line| line.chars().take(120).collect::<String>())
        .collect();
    for sign in ["×", "i", "·", "8", "1"] {
        assert!(map.contains(sign), "{sign} is missing");
    }
    assert!(!map.contains('▀'));
}

#[test]
fn idle_is_cold_free_is_a_dot_and_a_fault_is_a_cross() {
    let app = shown(&LARGE, ViewId::Devices, (170, 44));
    let (buf, _) = drawn(&app, (170, 44));
    let theme = Theme::ember();
    let idle = theme.color(Role::IdleDevice).color();
    let crit = theme.color(Role::Crit).color();
    let map = || buf.content().iter().skip(170 * 6);
    assert!(map().any(|cell| cell.fg == idle || cell.bg == idle));
    assert_eq!(
        map()
            .filter(|cell| cell.symbol() == "×" && cell.fg == crit)
            .count(),
        1
    );
    assert!(map().any(|cell| cell.symbol() == "·"));
    assert!(map().any(|cell| cell.fg == theme.heat(14).color()));
}

#[test]
fn unknown_is_never_zero() {
    let text = render_text(&shown(&UNKNOWN, ViewId::Fleet, (170, 44)), 170, 44);
    let header = text.lines().next().unwrap_or_default();
    for piece in [
        "devices –",
        "alloc –",
        "util –",
        "waiting – jobs",
        "rate –",
        "idle –",
    ] {
        assert!(header.contains(piece), "{piece} in {header}");
    }
    let waiting = format!("0 of {} sources", model::fleet::observe::Table::ALL.len());
    assert!(header.contains(&waiting), "{header}");
    assert!(text.contains("reading nodes, pods"), "{text}");
    // Known to be empty is another thing.
    let text = render_text(&shown(&EMPTY, ViewId::Fleet, (170, 44)), 170, 44);
    assert!(text.contains("devices 0") && text.contains("nothing waits") && text.contains("live"));
}

#[test]
fn a_lost_source_keeps_its_rows_and_says_so() {
    let app = shown(&PARTLY, ViewId::Jobs, (120, 40));
    let text = render_text(&app, 120, 40);
    assert!(text.contains("unreachable 40s"), "{text}");
    assert!(app.view().counts().0 > 3);
}

#[test]
fn a_pool_without_price_or_reading_shows_dashes() {
    let text = render_text(&shown(&PARTLY, ViewId::Pools, (200, 50)), 200, 50);
    let line = text
        .lines()
        .find(|line| line.contains("日本語"))
        .unwrap_or_default();
    assert!(line.matches('–').count() >= 6, "{line}");
    let other = text
        .lines()
        .find(|line| line.contains("h100-train"))
        .unwrap_or_default();
    assert!(!other.contains("– "), "{other}");
}

#[test]
fn the_rows_of_every_scope_add_up_to_the_header() {
    for facts in [&*LARGE, &SMALL] {
        for scope in SpendScope::ALL {
            let rows = &facts.spend_rates.rows[&scope];
            let sum = rows.iter().map(|row| row.spend.rate).sum();
            assert_eq!(facts.spend_rates.total.rate, sum, "{scope:?}");
        }
    }
    let mut app = shown(&LARGE, ViewId::Cost, (170, 44));
    let total = format!("${}/h", LARGE.spend_rates.total.rate.all);
    for _ in SpendScope::ALL {
        let text = render_text(&app, 170, 44);
        let header = text.lines().next().unwrap_or_default();
        assert!(header.contains(&total), "{header}");
        let below: Vec<&str> = text
            .lines()
            .filter(|line| line.contains("total  $"))
            .collect();
        assert!(below.len() == 1 && below[0].contains(&total), "{below:?}");
        press(&mut app, "v");
    }
}

/// The column after the last cell of a title in the header line, and the lines below it.
fn column<'a>(text: &'a str, title: &str) -> (usize, Vec<&'a str>) {
    let mut lines = text.lines().skip_while(|line| !line.contains(title));
    let head = lines.next().unwrap_or_default();
    let at = head
        .find(title)
        .map_or(0, |byte| head[..byte].chars().count());
    (
        at + title.chars().count(),
        lines.take_while(|line| !line.trim().is_empty()).collect(),
    )
}

#[test]
fn numbers_stand_right_aligned_and_whole() {
    for size in [(80, 24), (120, 40), (200, 50)] {
        let app = shown(&LARGE, ViewId::Cost, size);
        let text = render_text(&app, size.0, size.1);
        // In the fleet's frame `$/h` may stand alone; here the sorted column is marked before its title.
        let (end, lines) = column(&text, "↓$/h");
        assert!(lines.len() >= 5, "{text}");
        let mut rows = LARGE.spend_rates.rows[&SpendScope::Team].clone();
        rows.sort_by_key(|row| {
            (
                row.name.as_str() == "unattributed",
                std::cmp::Reverse(row.spend.rate.all),
            )
        });
        for (line, row) in lines.iter().zip(rows) {
            let upto: String = line.chars().take(end).collect();
            assert!(
                upto.ends_with(&row.spend.rate.all.to_string()),
                "{line} {row:?}"
            );
            assert!(line.chars().nth(end).is_none_or(|c| c == ' '), "{line}");
        }
    }
}

#[test]
fn no_number_is_cut_however_large() {
    let mut facts = SMALL.clone();
    let mut fleet = (*facts.fleet).clone();
    let mut pools = fleet.pools.to_vec();
    pools[0].devices.total = 4_000_000_000;
    pools[0].devices.free = DeviceAmount::whole(3_999_999_999);
    pools[0].waiting_devices = 1_234_567_890;
    pools[0].temp_max = Some(12_345.0);
    fleet.pools = pools.into();
    facts.fleet = Arc::new(fleet);
    for size in [(80, 24), (100, 30), (120, 40), (200, 50)] {
        let text = render_text(&shown(&facts, ViewId::Pools, size), size.0, size.1);
        assert!(
            text.contains("3 999 999 999/4 000 000 000"),
            "{size:?}\n{text}"
        );
        for line in text.lines().skip(2) {
            let chars: Vec<char> = line.chars().collect();
            for pair in chars.windows(2) {
                let number = pair[0].is_ascii_digit() && pair[1] == '…';
                // A name may be cut behind its digit: names here hold no digit where they are cut.
                assert!(!number, "{line}");
            }
        }
    }
}

#[test]
fn rows_keep_their_places_until_it_is_quiet_or_asked_for() {
    let mut app = shown(&LARGE, ViewId::Jobs, (120, 40));
    press(&mut app, "/running\nssssssssj");
    let before = names(&app);
    let selection = app.view().selection(app.facts());
    let mut facts = LARGE.clone();
    let mut fleet = (*facts.fleet).clone();
    fleet.revision += 1;
    let jobs: Vec<_> = fleet
        .jobs
        .iter()
        .map(|job| {
            let mut job = (**job).clone();
            job.util = job.util.map(|util| (util * 7.3).fract());
            job.started = job
                .started
                .map(|at| at.plus(Duration::from_secs(u64::from(job.devices_requested))));
            Arc::new(job)
        })
        .collect();
    fleet.jobs = jobs.into();
    facts.fleet = Arc::new(fleet);
    let _ = app.update(Msg::Facts(facts.clone()));
    assert_eq!(names(&app), before);
    assert!(app.view().is_unsettled());
    let (_, drawn) = drawn(&app, (120, 40));
    assert!(
        drawn
            .wake_after
            .is_some_and(|wake| wake <= Duration::from_secs(10))
    );
    // Nine seconds later still; after ten it settles, and the cursor follows its job.
    let _ = app.update(Msg::Tick(facts.now.plus(Duration::from_secs(9))));
    assert_eq!(names(&app), before);
    let _ = app.update(Msg::Tick(facts.now.plus(Duration::from_secs(10))));
    assert!(!app.view().is_unsettled());
    assert_ne!(names(&app), before);
    assert_eq!(app.view().selection(app.facts()), selection);
}

fn names(app: &App) -> Vec<String> {
    // Below the rows, behind an empty line or what has no room, is what is known of the row under the cursor: that does not wait.
    render_text(app, 120, 40)
        .lines()
        .skip(4)
        .take_while(|line| !line.trim().is_empty() && !line.contains("no room for"))
        .filter_map(|line| line.get(..40).map(|name| name.replace('▌', " ")))
        .collect()
}

#[test]
fn a_new_row_is_added_below_and_a_removed_row_keeps_the_cursor_near() {
    let mut app = shown(&SMALL, ViewId::Nodes, (120, 40));
    press(&mut app, "jj");
    let mut facts = SMALL.clone();
    let mut fleet = (*facts.fleet).clone();
    fleet.nodes = fleet.nodes.iter().skip(1).cloned().collect();
    facts.fleet = Arc::new(fleet);
    let selection = app.view().selection(app.facts());
    let _ = app.update(Msg::Facts(facts));
    assert_eq!(app.view().selection(app.facts()), selection);
    let _ = app.update(Msg::Facts(SMALL.clone()));
    let text = render_text(&app, 120, 40);
    let first = SMALL.fleet.nodes[0].name().to_string();
    let rows = names(&app);
    assert_eq!(rows.len(), SMALL.fleet.nodes.len(), "{text}");
    assert!(
        rows.last().is_some_and(|line| line.contains(&first)),
        "{text}"
    );
}

#[test]
fn ages_wake_the_screen_no_more_often_than_they_change() {
    let wake = |view| {
        drawn(&shown(&SMALL, view, (200, 50)), (200, 50))
            .1
            .wake_after
    };
    assert_eq!(wake(ViewId::Pools), None, "no age is on screen");
    let jobs = wake(ViewId::Jobs).map(|wake| wake.as_secs());
    assert!(
        jobs.is_some_and(|seconds| seconds <= 1),
        "42 s waits: {jobs:?}"
    );
    let mut app = shown(&SMALL, ViewId::Jobs, (200, 50));
    press(&mut app, "/running\n");
    let wake = drawn(&app, (200, 50)).1.wake_after;
    assert!(
        wake.is_some_and(|wake| wake >= Duration::from_secs(10)),
        "{wake:?}"
    );
}

#[test]
fn a_frozen_view_does_not_change() {
    let mut app = shown(&SMALL, ViewId::Fleet, (120, 40));
    press(&mut app, "f");
    let held = drawn(&app, (120, 40));
    assert_eq!(held.1.wake_after, None);
    let _ = app.update(Msg::Facts(LARGE.clone()));
    let _ = app.update(Msg::Tick(LARGE.now.plus(Duration::from_secs(600))));
    assert_eq!(held.0, drawn(&app, (120, 40)).0);
    press(&mut app, "f");
    assert!(render_text(&app, 120, 40).contains("h100-train"));
}

#[test]
fn the_screen_asks_for_readings_of_what_it_shows() {
    let mut app = App::new(AppOptions {
        view: ViewId::Devices,
        ..AppOptions::default()
    });
    let _ = app.update(Msg::Resize(100, 20));
    let _ = app.update(Msg::Tick(LARGE.now));
    let effects = app.update(Msg::Facts(LARGE.clone()));
    let Some(Effect::OnScreen(nodes)) = effects.first() else {
        panic!("no nodes asked for: {effects:?}");
    };
    assert!(!nodes.is_empty() && nodes.len() < LARGE.fleet.nodes.len());
    assert!(nodes.contains(&Name::new("a100-mig-000")));
    let effects = app.update(Msg::Key(KeyPress::char('G')));
    let Some(Effect::OnScreen(nodes)) = effects.first() else {
        panic!("the bottom shows other nodes: {effects:?}");
    };
    assert!(nodes.contains(&Name::new("tpu-v5p-127")));
}

#[test]
fn a_stale_device_is_dimmed_and_says_its_age() {
    let mut facts = SMALL.clone();
    facts.now = facts.now.plus(Duration::from_secs(3600));
    let mut app = shown(&facts, ViewId::Devices, (120, 40));
    assert!(render_text(&app, 120, 40).contains("ago: stale"));
    let stale = drawn(&app, (120, 40)).0;
    let _ = app.update(Msg::Facts(SMALL.clone()));
    let fresh = shown(&SMALL, ViewId::Devices, (120, 40));
    let fresh = drawn(&fresh, (120, 40)).0;
    let changed = stale
        .content()
        .iter()
        .zip(fresh.content())
        .filter(|(a, b)| a.symbol() == "▀" && a.fg != b.fg);
    assert!(changed.count() > 10);
}

#[test]
fn history_shows_the_span_that_it_holds_and_its_gaps() {
    let app = shown(&PAST, ViewId::Fleet, (170, 44));
    let text = render_text(&app, 170, 44);
    assert!(text.contains("idle $/h, last 2h1"), "{text}");
    let app = shown(&PAST, ViewId::Devices, (170, 44));
    let text = render_text(&app, 170, 44);
    assert!(text.contains("utilization, last 2h1"), "{text}");
    let gap = text.lines().rev().find(|line| line.contains("··"));
    assert!(
        gap.is_some(),
        "the twenty minutes without a reading are a gap: {text}"
    );
    // Within a step nothing moves.
    let mut app = shown(&PAST, ViewId::Pools, (170, 44));
    let before = drawn(&app, (170, 44)).0;
    let _ = app.update(Msg::Tick(PAST.now.plus(Duration::from_millis(500))));
    assert_eq!(before, drawn(&app, (170, 44)).0);
}

#[test]
fn sources_count_in_the_header() {
    let text = render_text(&shown(&LARGE, ViewId::Sources, (120, 40)), 120, 40);
    let stale = LARGE
        .fleet
        .sources
        .iter()
        .filter(|source| source.state == SourceState::Stale);
    assert!(
        text.lines()
            .next()
            .is_some_and(|line| line.contains(&format!("{} exporter stale", stale.count())))
    );
}

#[derive(Clone, Debug)]
enum Step {
    Key(KeyPress),
    Facts(usize),
    Tick(u16),
    Resize(u16, u16),
    Paste(String),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let bound: Vec<KeyPress> = Keymap::builtin()
        .bindings()
        .map(|(_, press, command)| (press, command.spec().name))
        .filter(|(_, name)| !matches!(*name, "quit" | "save-picture"))
        .map(|(press, _)| press)
        .collect();
    let step = prop_oneof![
        12 => proptest::sample::select(bound).prop_map(Step::Key),
        3 => any::<char>().prop_map(|c| Step::Key(KeyPress::char(c))),
        3 => (0usize..6).prop_map(Step::Facts),
        2 => any::<u16>().prop_map(Step::Tick),
        1 => (0u16..220, 0u16..70).prop_map(|(width, height)| Step::Resize(width, height)),
        1 => ".{0,12}".prop_map(Step::Paste),
    ];
    proptest::collection::vec(step, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn no_keys_and_no_facts_break_it(steps in steps(), ascii in any::<bool>()) {
        let mut app = App::new(AppOptions { ascii, ..AppOptions::default() });
        let mut size = (80, 24);
        let mut now = fleets::NOW;
        for step in steps {
            match step {
                Step::Key(press) => { let _ = app.update(Msg::Key(press)); }
                Step::Facts(at) => { let _ = app.update(Msg::Facts(Facts { now, ..all_fleets()[at].1.clone() })); }
                Step::Tick(seconds) => {
                    now = now.plus(Duration::from_secs(u64::from(seconds)));
                    let _ = app.update(Msg::Tick(now));
                }
                Step::Resize(width, height) => {
                    size = (width, height);
                    let _ = app.update(Msg::Resize(width, height));
                }
                Step::Paste(words) => { let _ = app.update(Msg::Paste(words)); }
            }
            let first = drawn(&app, size);
            prop_assert_eq!(&first, &drawn(&app, size));
        }
    }
}

#[test]
fn a_clock_that_runs_backwards_breaks_nothing() {
    let mut app = shown(&SMALL, ViewId::Jobs, (120, 40));
    for seconds in [0, -100_000, 5, i64::MAX / 1000, i64::MIN / 1000] {
        let _ = app.update(Msg::Tick(Moment::from_seconds(seconds)));
        drawn(&app, (120, 40));
        press(&mut app, "js");
    }
}
