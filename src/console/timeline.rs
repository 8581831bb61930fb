//! The timeline at the foot of a replay: the whole record, its important moments, and the moment on screen.

use ratatui::layout::Rect;

use model::base::Moment;
use model::fleet::finding::Severity;
use table::role::Role;
use table::timeline::Timeline;

use super::commands::{Command, Context};
use super::painter::Painter;
use super::screen::Screen;

/// Minimum width at which the keys are beside the line.
const WIDE: u16 = 120;

/// Minimum width of the line, cells.
const LEAST: u16 = 10;

/// The keys that are named, each with what they do.
const KEYS: [(&[Command], &str); 4] = [
    (&[Command::TimeBack, Command::TimeForward], "a minute"),
    (&[Command::PreviousChange, Command::NextChange], "change"),
    (&[Command::GoToTime], "time"),
    (&[Command::Freeze], "pause or play"),
];

/// `11-21 08:10`, or the time of day where the record is of one day.
fn short(timeline: &Timeline, at: Moment) -> String {
    let (text, last) = (at.rfc3339(), timeline.to.rfc3339());
    let one_day = timeline.from.rfc3339().get(..10) == last.get(..10);
    let part = if one_day { 11..16 } else { 5..16 };
    text.get(part).unwrap_or(&text).replace('T', " ")
}

pub(super) fn draw(
    screen: &dyn Screen,
    timeline: &Timeline,
    painter: &mut Painter<'_>,
    line: Rect,
) {
    painter.clear(line, Role::Background);
    let (muted, title) = (
        painter.render_style.fg(Role::Muted),
        painter.render_style.bold(Role::Title),
    );
    let now = screen.facts().now;
    let state = match timeline.speed {
        Some(speed) => format!("▸ {speed}x"),
        None => String::from("paused"),
    };
    // The line does not move when it is played.
    let state = format!("{state:<6}");
    let stamp = now.short();
    let mut x = line.x + 2;
    x += painter.pieces(
        x,
        line.y,
        line.width.saturating_sub(4),
        &[
            (&stamp, title),
            ("  ", muted),
            (&state, painter.render_style.fg(Role::Info)),
        ],
    );
    let keys = match line.width >= WIDE {
        true => keys(screen),
        false => String::new(),
    };
    let right = painter.text_right(
        line.right().saturating_sub(2),
        line.y,
        line.width / 2,
        &keys,
        muted,
    );
    let (from, to) = (short(timeline, timeline.from), short(timeline, timeline.to));
    x += 3;
    x += painter.text(x, line.y, line.right().saturating_sub(x), &from, muted) + 1;
    let gap = if right > 0 { right + 3 } else { 0 };
    let end = line.right().saturating_sub(gap + 3 + painter.width(&to));
    let cells = end.saturating_sub(x);
    if cells < LEAST {
        return;
    }
    painter.text(
        end + 1,
        line.y,
        line.right().saturating_sub(end + 1),
        &to,
        muted,
    );
    let here = timeline.cell(now, cells);
    for (cell, mark) in (0..cells).zip(timeline.cells(cells)) {
        let (sign, role) = match mark {
            Some(Severity::Crit) => ("▲", Role::Crit),
            Some(Severity::Warn) => ("●", Role::Warn),
            Some(Severity::Info) => ("┼", Role::Info),
            None if timeline.has_looked(cell, cells) => ("─", Role::Muted),
            None => ("┄", Role::Faint),
        };
        let (sign, role) = if cell == here {
            ("█", Role::Accent)
        } else {
            (sign, role)
        };
        let style = painter.render_style.fg(role);
        painter.sign(x + cell, line.y, sign, style);
    }
}

/// The keys that move in a record, as they are bound.
fn keys(screen: &dyn Screen) -> String {
    let bound = |command: &Command| {
        let keys = screen.keys().keys(Context::Global, *command);
        keys.first().map(ToString::to_string)
    };
    let named = KEYS.iter().filter_map(|(commands, what)| {
        let keys: Vec<String> = commands.iter().filter_map(bound).collect();
        (!keys.is_empty()).then(|| format!("{} {what}", keys.join(" ")))
    });
    let back = screen.is_rewound().then(|| bound(&Command::Back)).flatten();
    let back = back.map(|key| format!("{key} live"));
    named.chain(back).collect::<Vec<String>>().join(" · ")
}
