//! The frame around every view: header, tabs, hints.

use ratatui::layout::{Position, Rect};
use ratatui::style::Style;

use crate::widget::cell::devices_words;
use model::base::quantities::{counted, grouped};
use model::base::{DeviceAmount, SmallSort};
use model::cost::Money;
use model::fleet::TableState;
use model::fleet::observe::{SourceHealth, SourceState, Table};
use table::actions::May;
use table::kinds::sources::state_words;
use table::role::Role;
use table::text::whole_percent;

use super::commands::{Command, Context};
use super::hints::draw_hints;
use super::overlay::{Overlay, missing};
use super::painter::Painter;
use super::screen::Screen;
use super::tabs::draw_tabs;
use super::text::{dollars, per_hour};
use super::timeline;
use super::view::plans;

/// Minimum screen size; below it nothing is drawn.
const LEAST: (u16, u16) = (40, 10);
/// Screen width from which on the header uses full words.
const WIDE: u16 = 160;
/// Screen width below which the header omits totals.
const SMALL: u16 = 100;

/// The area of the view within the frame.
pub fn body(area: Rect, replays: bool) -> Rect {
    let air = u16::from(area.height >= 20);
    let above = 2 + air;
    // The timeline of a replay uses the blank line.
    let below = 1 + air.max(u16::from(replays));
    Rect::new(
        area.x,
        area.y + above.min(area.height),
        area.width,
        area.height.saturating_sub(above + below),
    )
}

/// The line of the tabs; `None` on a screen too small for them.
pub fn tab_line(area: Rect) -> Option<Rect> {
    (area.height >= LEAST.1).then(|| Rect::new(area.x, area.y + 1, area.width, 1))
}

/// Draws everything; returns the position of the text cursor.
pub fn draw(
    screen: &dyn Screen,
    overlay: &Overlay,
    painter: &mut Painter<'_>,
    area: Rect,
) -> Option<Position> {
    painter.clear(area, Role::Background);
    if area.width < LEAST.0 || area.height < LEAST.1 {
        draw_too_small(painter, area);
        return None;
    }
    let line = |y: u16| Rect::new(area.x, y, area.width, 1);
    draw_header(screen, painter, line(area.y));
    draw_tabs(screen, painter, line(area.y + 1));
    let room = body(area, screen.timeline().is_some());
    if screen.shows_missing() {
        missing::draw_in_place(screen, painter, room);
    } else if screen.is_unread() {
        draw_unread(screen, painter, room);
    } else {
        screen.view().draw(screen.facts(), painter, room);
        if let Some(room) = screen.view().room_for_actions() {
            plans::draw_actions(painter, room, screen.facts(), screen.keys());
        }
        draw_banner(screen, overlay, painter, area);
    }
    if let Some(record) = screen.timeline() {
        timeline::draw(screen, record, painter, line(area.bottom() - 2));
    }
    draw_hints(screen, overlay, painter, line(area.bottom() - 1));
    overlay.draw(screen, painter, area)
}

/// What is still being read, in place of a view: partial lists would give wrong sums and wrong reasons.
fn draw_unread(screen: &dyn Screen, painter: &mut Painter<'_>, area: Rect) {
    let unread = screen.facts().fleet.unread();
    let names: Vec<&str> = unread.iter().map(|table| table.name()).collect();
    let room = area.width.saturating_sub(4);
    let words = format!("reading {}…", names.join(", "));
    painter.text_in_role(area.x + 2, area.y + 1, room, &words, Role::Muted);
}

fn draw_too_small(painter: &mut Painter<'_>, area: Rect) {
    let words = format!(
        "{}x{} is too small: {}x{} is needed",
        area.width, area.height, LEAST.0, LEAST.1
    );
    for (line, words) in super::text::wrap(&words, usize::from(area.width))
        .iter()
        .enumerate()
    {
        painter.text_in_role(area.x, area.y + line as u16, area.width, words, Role::Warn);
    }
}

/// A header segment, and when it is dropped (the highest value first, 0 never).
struct Piece {
    words: Vec<(String, Style)>,
    drop: u8,
}

fn width(painter: &Painter<'_>, piece: &Piece) -> u16 {
    piece
        .words
        .iter()
        .map(|(words, _)| painter.width(words))
        .sum()
}

fn draw_header(screen: &dyn Screen, painter: &mut Painter<'_>, line: Rect) {
    painter.background(line, Role::Panel);
    let wide = line.width >= WIDE;
    let (muted, title) = (
        painter.render_style.fg(Role::Muted),
        painter.render_style.fg(Role::Title),
    );
    let accent = painter.render_style.bold(Role::Accent);
    let blue = painter.render_style.bold(Role::IdleMoney);
    let word = |long: &str, short: &str| {
        let words = if wide { long } else { short };
        (format!("{words} "), muted)
    };
    let summary = screen.summary();
    let nodes_known = screen.facts().fleet.visibility(Table::Nodes).is_known();
    let known = !summary.unread && (!summary.devices.is_zero() || nodes_known);
    let least = if summary.more_devices { "≥" } else { "" };
    let number = |amount: DeviceAmount| {
        if known {
            format!("{least}{}", devices_words(amount, None))
        } else {
            String::from("–")
        }
    };
    let context =
        super::text::cut(&screen.facts().context, 28, screen.render_style().ascii).into_owned();
    let mut left = vec![
        Piece {
            words: vec![(String::from("▲ stokehold ▸"), accent)],
            drop: 7,
        },
        Piece {
            words: vec![(context, painter.render_style.fg(Role::Text))],
            drop: 0,
        },
    ];
    if wide || screen.scope().team.is_some() {
        let team = screen.scope().team.as_ref().map_or("all", |team| team);
        let team = super::text::cut(team, 20, screen.render_style().ascii).into_owned();
        left.push(Piece {
            words: vec![(String::from("team "), muted), (team, title)],
            // The scope's team must not be dropped first.
            drop: if screen.scope().team.is_some() { 2 } else { 6 },
        });
    }
    // RBAC limits are shown as a part as well.
    let names = match screen.scope().namespaces.as_slice() {
        [] => screen.facts().fleet.confined_to(),
        chosen => chosen,
    };
    if !names.is_empty() {
        let names = names.join(",");
        let names = super::text::cut(&names, 24, screen.render_style().ascii).into_owned();
        left.push(Piece {
            words: vec![(String::from("ns "), muted), (names, title)],
            drop: if screen.scope().namespaces.is_empty() {
                5
            } else {
                2
            },
        });
    }
    left.push(Piece {
        words: vec![word("devices", "dev"), (number(summary.devices), title)],
        drop: 4,
    });
    // A scope contains allocated devices only: its allocation ratio is meaningless.
    if screen.scope().is_all() {
        let alloc = summary.allocated.map_or(String::from("–"), whole_percent);
        left.push(Piece {
            words: vec![(String::from("alloc "), muted), (alloc, title)],
            drop: 1,
        });
    }
    let util = summary.util.map_or(String::from("–"), whole_percent);
    left.push(Piece {
        words: vec![(String::from("util "), muted), (util, title)],
        drop: 1,
    });
    let jobs_known = !summary.unread
        && (screen.facts().fleet.visibility(Table::Pods).is_known()
            || !screen.facts().fleet.jobs.is_empty());
    let waiting = |count: u64| {
        if jobs_known {
            grouped(count as i64)
        } else {
            String::from("–")
        }
    };
    let mut words = vec![
        (String::from(if wide { "waiting " } else { "wait " }), muted),
        (waiting(screen.summary().waiting_jobs), title),
    ];
    if wide {
        let slices = screen.summary().waiting_slices;
        let devices = screen.summary().waiting_devices - slices;
        let mut more = format!(" jobs · {} dev", waiting(devices));
        if slices > 0 && jobs_known {
            more.push_str(&format!(" + {}", counted(slices, "slice")));
        }
        words.push((more, muted));
    }
    left.push(Piece { words, drop: 3 });
    // In words here, since the mark is explained in the views below.
    let rate = summary.money.map(|spend| spend.rate);
    let by_list = match rate.is_some_and(Money::is_by_list) {
        true => " list",
        false => "",
    };
    let rate = per_hour(rate.map(|rate| Money::known(rate.all)));
    left.push(Piece {
        words: vec![
            (String::from(if wide { "rate " } else { "" }), muted),
            (rate, title),
            (String::from(by_list), muted),
        ],
        drop: 0,
    });
    let idle = match line.width {
        // The rate before it already shows that it is per hour.
        ..100 => dollars(summary.idle),
        _ => per_hour(summary.idle),
    };
    left.push(Piece {
        words: vec![(String::from("idle "), muted), (idle, blue)],
        drop: 2,
    });
    let mut right = right_side(screen, painter, line.width);
    let gap = if wide { 3 } else { 2 };
    keep_what_fits(painter, line.width, gap, &mut left, &mut right);
    let mut x = line.x + 1;
    for piece in &left {
        if piece.drop == 7 {
            // The product name and the context belong together.
            x += painter.pieces(
                x,
                line.y,
                line.width,
                &[("▲ ", accent), ("stokehold", title), (" ▸ ", muted)],
            );
            continue;
        }
        for (words, style) in &piece.words {
            x += painter.text(x, line.y, line.right().saturating_sub(x), words, *style);
        }
        x += gap;
    }
    let mut x = line
        .right()
        .saturating_sub(
            right
                .iter()
                .map(|piece| width(painter, piece) + 2)
                .sum::<u16>(),
        )
        .max(line.x);
    for piece in &right {
        x += 1;
        for (words, style) in &piece.words {
            x += painter.text(x, line.y, line.right().saturating_sub(x), words, *style);
        }
        x += 1;
    }
}

/// Drops segments that do not fit, least important first.
fn keep_what_fits(
    painter: &Painter<'_>,
    room: u16,
    gap: u16,
    left: &mut Vec<Piece>,
    right: &mut Vec<Piece>,
) {
    let mut order: Vec<(u8, bool, usize, u16)> = Vec::new();
    for (at, piece) in left.iter().enumerate() {
        order.push((piece.drop, false, at, width(painter, piece) + gap));
    }
    for (at, piece) in right.iter().enumerate() {
        order.push((piece.drop, true, at, width(painter, piece) + 2));
    }
    order.small_sort();
    let mut used = 0;
    let mut kept: Vec<(bool, usize)> = Vec::new();
    for (drop, on_right, at, width) in order {
        if drop == 0 || used + width <= room {
            used += width;
            kept.push((on_right, at));
        }
    }
    for (on_right, pieces) in [(false, left), (true, right)] {
        let mut at = 0;
        pieces.retain(|_| {
            at += 1;
            kept.contains(&(on_right, at - 1))
        });
    }
}

/// Findings, read-only mode, and freshness of the data.
fn right_side(screen: &dyn Screen, painter: &Painter<'_>, room: u16) -> Vec<Piece> {
    let wide = room >= WIDE;
    let mut pieces = Vec::new();
    if screen.summary().crit > 0 || screen.summary().warn > 0 {
        let mut words = Vec::new();
        if screen.summary().crit > 0 {
            words.push((
                format!("▲{}", screen.summary().crit),
                painter.render_style.bold(Role::Crit),
            ));
        }
        if screen.summary().warn > 0 {
            let gap = if words.is_empty() { "" } else { " " };
            let text = format!("{gap}●{}", screen.summary().warn);
            words.push((text, painter.render_style.bold(Role::Warn)));
        }
        pieces.push(Piece { words, drop: 0 });
    }
    let (words, role) = match (&screen.facts().acts.may, wide) {
        (May::Yes, true) => ("read-write", Role::Warn),
        (May::Yes, false) => ("RW", Role::Warn),
        (_, true) => ("read-only", Role::Muted),
        (_, false) => ("RO", Role::Muted),
    };
    pieces.push(Piece {
        words: vec![(words.to_owned(), painter.render_style.fg(role))],
        drop: 1,
    });
    let (words, role) = freshness(screen, room);
    pieces.push(Piece {
        words: vec![(words, painter.render_style.fg(role))],
        drop: 0,
    });
    pieces
}

fn freshness(screen: &dyn Screen, room: u16) -> (String, Role) {
    let fleet = &screen.facts().fleet;
    match (screen.timeline().is_some(), screen.is_rewound()) {
        (true, true) => {
            let keys = screen.keys().keys(Context::Global, Command::Back);
            let back = keys.first().map(|key| format!(", {key}: live"));
            return (format!("PAST{}", back.unwrap_or_default()), Role::Warn);
        }
        (true, false) => return (String::from("record"), Role::Info),
        (false, _) => {}
    }
    if screen.is_past() {
        let age = screen.present().since(screen.facts().now);
        let (back, clock) = ("← ", screen.facts().now.clock());
        return (format!("{back}{clock}, {age} ago"), Role::Info);
    }
    if screen.is_frozen() {
        let clock = screen.facts().now.clock();
        return (format!("frozen {clock}"), Role::Info);
    }
    let outage = fleet.outage().and_then(|outage| outage.since);
    let lost = outage.or_else(|| {
        let lost = fleet.known.values().filter_map(|known| match known {
            TableState::Lost(lost) => Some(lost.since),
            _ => None,
        });
        lost.min()
    });
    if let Some(since) = lost {
        let age = screen.facts().now.since(since);
        return (format!("unreachable {age}"), Role::Crit);
    }
    if !fleet.is_complete() {
        let ready = fleet
            .known
            .values()
            .filter(|known| !matches!(known, TableState::Waiting))
            .count();
        let words = format!("{ready} of {} sources", fleet.known.len());
        return (words, Role::Warn);
    }
    let count = |state: SourceState, has_spoken: bool| {
        let is_one =
            |source: &&SourceHealth| source.state == state && source.has_spoken() == has_spoken;
        fleet.sources.iter().filter(is_one).count()
    };
    let (lost, stale) = (
        count(SourceState::Lost, true),
        count(SourceState::Stale, true),
    );
    let of = |count: usize, state: SourceState| {
        // Rates and findings take precedence over totals of sources, which view 0 shows.
        if room < SMALL {
            return format!("{count} {}", state_words(state));
        }
        let mut those = fleet.sources.iter().filter(|source| source.state == state);
        let what = match those.all(SourceHealth::gives_readings) {
            true => "exporter",
            false => "source",
        };
        format!("{} {}", counted(count as u64, what), state_words(state))
    };
    let asking = count(SourceState::Stale, false);
    match (lost, stale) {
        (0, 0) if asking > 0 => (format!("{asking} not read yet"), Role::Info),
        (1.., _) if asking > 0 => {
            let lost = of(lost, SourceState::Lost);
            (format!("{lost}, {asking} not read yet"), Role::Warn)
        }
        (_, 1..) if asking > 0 => {
            let stale = of(stale, SourceState::Stale);
            (format!("{stale}, {asking} not read yet"), Role::Warn)
        }
        (0, 0) if fleet.is_hidden(Table::Nodes) && fleet.is_hidden(Table::Pods) => {
            (String::from("not visible"), Role::Warn)
        }
        (0, 0) => (String::from("live"), Role::Ok),
        (0, stale) => (of(stale, SourceState::Stale), Role::Warn),
        (lost, _) => (of(lost, SourceState::Lost), Role::Warn),
    }
}

/// Uses the blank line under the tabs to show what is missing.
fn draw_banner(screen: &dyn Screen, overlay: &Overlay, painter: &mut Painter<'_>, area: Rect) {
    let mut all = screen.missing();
    all.retain(|missing| !missing.quiet);
    let Some(first) = all.first() else {
        return;
    };
    let keys = screen.keys().keys(Context::Global, Command::Missing);
    if area.height < 20 || !matches!(overlay, Overlay::None) {
        return;
    }
    let more = match all.len() {
        1 => String::new(),
        count => format!(", and {} more", count - 1),
    };
    let why = first.why.lines().next().unwrap_or_default();
    let muted = painter.render_style.fg(Role::Muted);
    // Whose rights end at a namespace has done nothing wrong: one quiet line.
    let (sign, warn, why) = match first.by_rights {
        true => ("○", muted, ""),
        false => ("▲", painter.render_style.fg(Role::Warn), why),
    };
    let accent = painter.render_style.bold(Role::Accent);
    let hint = keys
        .first()
        .map(|key| (key.to_string(), " shows how to fix it"));
    let (key, words) = hint.unwrap_or_default();
    let needed = painter.width(&key) + painter.width(words) + 3;
    let y = area.y + 2;
    let room = area.width.saturating_sub(needed + 4);
    let title = format!("{sign} {}{more}", first.title);
    let used = painter.pieces(
        area.x + 2,
        y,
        room,
        &[(&title, warn), ("   ", muted), (why, muted)],
    );
    let x = area.x + 2 + used + 3;
    let left = area.right().saturating_sub(x);
    painter.pieces(x, y, left, &[(&key, accent), (words, muted)]);
}
