//! Checks that need no snapshot, on every view, of every fleet, at every size: nothing cut that counts, nothing
//! outside, nothing unreadable, columns in line, money that adds up.

use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier};

use console::color::{ColorDepth, Rgb};
use console::view::plans;
use console::{App, AppOptions, Effect, Msg, Theme, buffer_text, render_text};
use model::base::{Moment, Name};
use model::cost::SpendScope;
use model::object::{EventSeen, LogLine, ObjectNews, ObjectPart, ObjectRequest};
use table::Facts;
use table::column::Align;
use table::kinds::{alerts, cost, sources};
use table::navigation::ViewId;
use table::role::Role;

use crate::frames::{EMPTY, LARGE, PARTLY, PAST, SMALL, UNKNOWN, console, drawn, press};

const SIZES: [(u16, u16); 3] = [(80, 24), (120, 40), (200, 50)];

fn fleets() -> [(&'static str, &'static Facts); 6] {
    [
        ("past", &PAST),
        ("large", &LARGE),
        ("small", &SMALL),
        ("partly", &PARTLY),
        ("empty", &EMPTY),
        ("unknown", &UNKNOWN),
    ]
}

/// What is pressed before a frame is looked at: the view itself, and everything that opens from it.
const WAYS: &[&str] = &[
    "", "\n", "j\n", "d", "y", "e", "l", ".", "$", "w", "?", ":", "!", "|",
];

/// Answers what the console asks to be read.
pub fn answer(app: &mut App, effects: &[Effect], now: Moment) {
    let Some(Effect::Read(Some(want))) = effects.last() else {
        return;
    };
    let news = news_of(want, now);
    for piece in news {
        let _ = app.update(Msg::Read(want.clone(), piece));
    }
}

fn news_of(want: &ObjectRequest, now: Moment) -> Vec<ObjectNews> {
    match &want.part {
        ObjectPart::Yaml(thing) => vec![ObjectNews::Text(vec![
            String::from("apiVersion: v1"),
            format!("kind: {}", thing.kind),
            String::from("metadata:"),
            String::from("  labels:"),
            format!("    long: {}", "x".repeat(300)),
            String::from("  name: 日本語のとても長い名前"),
        ])],
        ObjectPart::Events(things) => {
            let events = things.iter().map(|thing| EventSeen {
                about: format!("{} {}", thing.kind, thing.key.name),
                warning: true,
                reason: String::from("FailedScheduling"),
                message: String::from("0/412 nodes are available: 412 Insufficient nvidia.com/gpu"),
                first: Some(now),
                last: Some(now),
                count: 12,
                by: String::from("default-scheduler"),
            });
            vec![ObjectNews::Events(events.collect(), true)]
        }
        ObjectPart::Logs(want) => {
            let lines = (0..90).map(|at| LogLine {
                pod: at % want.pods.len() as u32,
                at: Some(now),
                words: format!(
                    "step {at}: loss 2.17 日本語 {}",
                    "word ".repeat(at as usize % 60)
                ),
            });
            vec![
                ObjectNews::Containers(vec![Name::new("main")], Name::new("main")),
                ObjectNews::Lines(lines.collect()),
                ObjectNews::Ended(0, Some(String::from("404: it has gone"))),
            ]
        }
    }
}

/// Draws every view of these fleets at these sizes, with what opens from it, and hands it over.
fn each(
    options: &AppOptions,
    fleets: &[(&str, &Facts)],
    sizes: &[(u16, u16)],
    ways: &[&str],
    look: &mut dyn FnMut(&str, &App, &Buffer),
) {
    for (name, facts) in fleets {
        for view in ViewId::ALL {
            for size in sizes {
                for keys in ways {
                    let mut app = console(facts, *view, *size, options.clone());
                    let effects = press(&mut app, keys);
                    answer(&mut app, &effects, facts.now);
                    let (buf, _) = drawn(&app, *size);
                    look(&format!("{name} {view:?} {size:?} {keys:?}"), &app, &buf);
                }
            }
        }
    }
}

#[test]
fn no_frame_has_a_control_character_or_half_a_sign() {
    let mut look = |what: &str, _: &App, buf: &Buffer| {
        for cell in buf.content() {
            let hostile = |c: char| {
                c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
            };
            assert!(!cell.symbol().chars().any(hostile), "{what}: {cell:?}");
        }
        // Whatever is wide has its whole room: a line is as wide as the frame, never wider.
        for line in buffer_text(buf).lines() {
            let width = console::text::width(line);
            assert!(width <= usize::from(buf.area.width), "{what}: {line}");
        }
    };
    let options = AppOptions::default();
    each(&options, &fleets(), &SIZES, &["", "\n"], &mut look);
    let some = [("small", &*SMALL), ("partly", &*PARTLY)];
    each(&options, &some, &[(80, 24), (120, 40)], WAYS, &mut look);
}

#[test]
fn nothing_is_drawn_outside_of_the_frame() {
    for (name, facts) in fleets() {
        for view in ViewId::ALL {
            for keys in ["", "\n", ".", "?", ":", "d"] {
                let size = (100, 30);
                let mut app = console(facts, *view, size, AppOptions::default());
                press(&mut app, keys);
                let whole = Rect::new(0, 0, size.0 + 9, size.1 + 6);
                let frame = Rect::new(0, 0, size.0, size.1);
                let mut buf = Buffer::empty(whole);
                app.draw(frame, &mut buf);
                for y in 0..whole.height {
                    for x in 0..whole.width {
                        let inside = x < frame.width && y < frame.height;
                        let cell = &buf[(x, y)];
                        assert!(
                            inside || *cell == Cell::default(),
                            "{name} {view:?} {keys:?}: {cell:?} at {x},{y}"
                        );
                    }
                }
            }
        }
    }
}

fn rgb(color: Color) -> Option<Rgb> {
    match color {
        Color::Rgb(r, g, b) => Some(Rgb(r, g, b)),
        Color::Indexed(index) => Some(Rgb::of_256(index)),
        _ => None,
    }
}

/// The least contrast of a sign: letters and digits are read, other signs are seen. Blocks are pictures.
fn floor(cell: &Cell, theme: &Theme) -> f64 {
    let c = cell.symbol().chars().next().unwrap_or(' ');
    let faint = [Role::Faint, Role::Border]
        .iter()
        .any(|role| cell.fg == theme.color(*role).color());
    match c {
        ' ' | '▀' | '▄' | '█' | '░' | '▒' | '▁'..='▇' | '▌' => 0.0,
        _ if c.is_alphanumeric() => 3.0,
        _ if faint => 1.2,
        _ => 2.0,
    }
}

#[test]
fn every_sign_can_be_read_in_every_theme() {
    for name in Theme::names() {
        let theme = Theme::builtin(name).expect(name);
        let options = AppOptions {
            theme: theme.clone(),
            ..AppOptions::default()
        };
        let some = [("partly", &*PARTLY), ("past", &*PAST)];
        let ways = ["", "\n", "d", "l", ".", "?"];
        each(&options, &some, &[(120, 40)], &ways, &mut |what, _, buf| {
            for (at, cell) in buf.content().iter().enumerate() {
                let (Some(fg), Some(bg)) = (rgb(cell.fg), rgb(cell.bg)) else {
                    continue;
                };
                assert!(!cell.modifier.contains(Modifier::REVERSED), "{what}");
                let (ratio, floor) = (fg.contrast(bg), floor(cell, &theme));
                let (x, y) = (at % 120, at / 120);
                assert!(
                    ratio >= floor,
                    "{name} {what}: {:?} at {x},{y} has {ratio:.2}, below {floor}",
                    cell.symbol()
                );
            }
        });
    }
}

#[test]
fn sixteen_colors_and_none_lose_no_word() {
    for depth in [ColorDepth::Ansi16, ColorDepth::None] {
        for view in ViewId::ALL.iter().filter(|view| **view != ViewId::Devices) {
            for facts in [&*SMALL, &*PARTLY] {
                let words = |depth| {
                    let options = AppOptions {
                        depth,
                        ..AppOptions::default()
                    };
                    let app = console(facts, *view, (120, 40), options);
                    let text = render_text(&app, 120, 40);
                    let letters: String = text
                        .chars()
                        .filter(|c| c.is_alphabetic() || c.is_whitespace())
                        .collect();
                    letters
                        .split_whitespace()
                        .map(str::to_owned)
                        // A team's letter fills its cells where color does not.
                        .filter(|word| {
                            !word
                                .chars()
                                .all(|c| c.is_lowercase() && word.starts_with(c))
                        })
                        .collect::<Vec<_>>()
                };
                let (all, fewer) = (words(ColorDepth::True), words(depth));
                // Where color tells devices apart, signs do it instead; every other word stays.
                let strip = *view == ViewId::Fleet;
                assert!(strip || all == fewer, "{view:?} {depth:?}");
            }
        }
    }
}

/// The table of a view: titles and which side they stand on.
fn heads(view: ViewId) -> Vec<(&'static str, Align)> {
    let kind = match view {
        ViewId::Fleet | ViewId::Pools => &table::kinds::pools::KIND,
        ViewId::Queues => &table::kinds::queues::KIND,
        ViewId::Jobs => &table::kinds::jobs::KIND,
        ViewId::Nodes => &table::kinds::nodes::KIND,
        ViewId::Cost => &cost::KIND,
        ViewId::Alerts => &alerts::KIND,
        ViewId::Sources => &sources::KIND,
        ViewId::Plans => &plans::KIND,
        ViewId::Devices => &table::kinds::devices::IDLE,
    };
    let columns = kind.columns.iter().filter(|column| !column.wide);
    columns
        .map(|column| (column.head.title, column.head.align))
        .collect()
}

/// A line of the frame, one entry a cell.
fn cells(buf: &Buffer, y: u16) -> Vec<String> {
    (0..buf.area.width)
        .map(|x| buf[(x, y)].symbol().to_owned())
        .collect()
}

/// Where a title stands alone in a line: between blanks, or beside the mark of the sorted column.
fn find(line: &[String], title: &str) -> Option<usize> {
    let wanted: Vec<String> = title.chars().map(String::from).collect();
    let blank =
        |at: Option<&String>| at.is_none_or(|sign| matches!(sign.as_str(), " " | "↓" | "↑" | "~"));
    (0..line.len()).find(|at| {
        line[*at..].starts_with(&wanted)
            && blank(at.checked_sub(1).and_then(|before| line.get(before)))
            && blank(line.get(at + wanted.len()))
    })
}

#[test]
fn columns_stand_in_line_and_no_number_is_cut() {
    let mut checked = 0;
    for (name, facts) in fleets() {
        for view in ViewId::ALL {
            for size in SIZES {
                let mut app = console(facts, *view, size, AppOptions::default());
                if *view == ViewId::Devices {
                    press(&mut app, "$");
                    press(&mut app, "$");
                }
                let (buf, _) = drawn(&app, size);
                let first = |y: &u16| {
                    let line = cells(&buf, *y);
                    let (title, _) = heads(*view)[0];
                    find(&line, title).is_some_and(|at| at < 6)
                };
                let Some(top) = (2..size.1).find(first) else {
                    assert_eq!(
                        app.view().counts().0,
                        0,
                        "{name} {view:?} {size:?} has no table"
                    );
                    continue;
                };
                let head = cells(&buf, top);
                let rows: Vec<Vec<String>> = (top + 1..size.1)
                    .map(|y| cells(&buf, y))
                    .take_while(|line| line.iter().any(|sign| sign != " "))
                    .take_while(|line| !line.concat().contains("no room for"))
                    .take_while(|line| line[..2].iter().any(|sign| sign == " " || sign == "▌"))
                    .take(app.view().counts().0)
                    .collect();
                for (title, align) in heads(*view) {
                    if align != Align::Right || title.is_empty() {
                        continue;
                    }
                    let Some(at) = find(&head, title) else {
                        continue;
                    };
                    let end = at + title.chars().count();
                    for row in &rows {
                        let line = row.concat();
                        let after = row.get(end).map_or(" ", String::as_str);
                        assert_eq!(after, " ", "{name} {view:?} {size:?} {title}: {line}");
                        // The end of a number, a dash, a mark, or nothing at all: never dots.
                        let last = &row[end - 1];
                        assert_ne!(last, "…", "{name} {view:?} {size:?} {title}: {line}");
                        checked += 1;
                    }
                }
            }
        }
    }
    assert!(checked > 2_000, "only {checked} cells were looked at");
}

/// The number that ends before a column, blanks between its thousands included.
fn number_before(row: &[String], end: usize) -> Option<f64> {
    let mut digits = String::new();
    for at in (0..end).rev() {
        let sign = row[at].as_str();
        let thousands = sign == " "
            && at > 0
            && row[at - 1].chars().all(|c| c.is_ascii_digit())
            && digits.len() >= 3
            && !digits.contains('.');
        if sign.chars().all(|c| c.is_ascii_digit() || c == '.') {
            digits.insert_str(0, sign);
        } else if !thousands {
            break;
        }
    }
    digits.parse().ok()
}

#[test]
fn the_money_on_screen_adds_up_to_the_header() {
    for (name, facts) in [("small", &*SMALL), ("past", &PAST), ("large", &LARGE)] {
        let size = (200, 50);
        let mut app = console(facts, ViewId::Cost, size, AppOptions::default());
        for scope in SpendScope::ALL {
            let (buf, _) = drawn(&app, size);
            let text = buffer_text(&buf);
            let rows = app.view().counts().0;
            let top = (2..size.1).find(|y| find(&cells(&buf, *y), "DEVICES").is_some());
            let top = top.expect("a table");
            let head = cells(&buf, top);
            let end = find(&head, "$/h").expect("money") + 3;
            let lines = usize::from(size.1 - top - 3);
            if rows <= lines {
                let shown = (top + 1..top + 1 + rows as u16).map(|y| {
                    let row = cells(&buf, y);
                    number_before(&row, end).unwrap_or_else(|| panic!("{}", row.concat()))
                });
                let sum: f64 = shown.sum();
                let total = facts.spend_rates.total.rate.usd();
                let slack = rows as f64 * 0.5 + 0.5;
                assert!(
                    (sum - total).abs() <= slack,
                    "{name} {scope:?}: {sum} and {total}\n{text}"
                );
                let header = format!("${}/h", facts.spend_rates.total.rate.all);
                let first = text.lines().next().unwrap_or_default();
                assert!(first.contains(&header), "{first}");
            }
            press(&mut app, "v");
        }
        // The pools of the fleet view add up to the same.
        let app = console(facts, ViewId::Pools, size, AppOptions::default());
        let (buf, _) = drawn(&app, size);
        let top = (2..size.1).find(|y| find(&cells(&buf, *y), "FREE/TOTAL").is_some());
        let top = top.expect("a table");
        let end = find(&cells(&buf, top), "$/h").expect("money") + 3;
        let rows = app.view().counts().0 as u16;
        let sum: f64 = (top + 1..top + 1 + rows)
            .filter_map(|y| number_before(&cells(&buf, y), end))
            .sum();
        let total = facts.spend_rates.total.rate.usd();
        assert!(
            (sum - total).abs() <= f64::from(rows),
            "{name}: {sum} and {total}"
        );
    }
}

/// The roles of a line's runs: `muted*6 title*4`, blanks left out.
fn runs(buf: &Buffer, y: u16, theme: &Theme) -> String {
    let name = |cell: &Cell| -> String {
        let role = Role::ALL
            .iter()
            .find(|role| theme.color(**role).color() == cell.fg)
            .map_or("heat", |role| role.name());
        let ground = [Role::Selection, Role::Panel, Role::Accent]
            .iter()
            .find(|role| theme.color(**role).color() == cell.bg)
            .map_or(String::new(), |role| format!("/{}", role.name()));
        let bold = if cell.modifier.contains(Modifier::BOLD) {
            "!"
        } else {
            ""
        };
        format!("{role}{ground}{bold}")
    };
    let mut out: Vec<(String, u32)> = Vec::new();
    for x in 0..buf.area.width {
        let cell = &buf[(x, y)];
        if cell.symbol() == " " {
            continue;
        }
        let role = name(cell);
        match out.last_mut() {
            Some((known, count)) if *known == role => *count += 1,
            _ => out.push((role, 1)),
        }
    }
    let words: Vec<String> = out
        .iter()
        .map(|(role, count)| format!("{role}*{count}"))
        .collect();
    words.join(" ")
}

#[test]
fn styles_are_as_they_were() {
    let theme = Theme::ember();
    for (name, facts, view, size) in [
        ("styles_fleet_80x24", &*SMALL, ViewId::Fleet, (80, 24)),
        ("styles_queues_120x40", &SMALL, ViewId::Queues, (120, 40)),
        ("styles_alerts_80x24", &LARGE, ViewId::Alerts, (80, 24)),
    ] {
        let app = console(facts, view, size, AppOptions::default());
        let (buf, _) = drawn(&app, size);
        let lines: Vec<String> = (0..size.1).map(|y| runs(&buf, y, &theme)).collect();
        insta::with_settings!({omit_expression => true, prepend_module_to_snapshot => false}, {
            insta::assert_snapshot!(name, lines.join("\n"));
        });
    }
}
