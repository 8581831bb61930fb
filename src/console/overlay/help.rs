//! Help: the keys that are used most, every key of the view in front, then all others.

use ratatui::layout::{Position, Rect};

use crate::commands::{Command, Context};
use crate::does::does;
use crate::msg::KeyPress;
use crate::painter::Painter;
use crate::screen::Screen;
use crate::text::wrap;
use crate::widget::field::TextField;
use crate::widget::panel::{centred, popup, wide};
use plan::actions::ActionName;
use table::actions::May;
use table::role::Role;

use super::verdict::{Verdict, scrolled};
use crate::view::scroll::PopupScroll;

/// The meaning of the symbols used throughout.
const SIGNS: [(&str, &str); 25] = [
    (
        "●",
        "healthy: ready, running, live; on a finding: look at it; on a change: a warning or, in green, started, ready, cleared",
    ),
    (
        "◐",
        "partial: cordoned, starting, ending, a pool with nodes that are not ready, a stale source",
    ),
    (
        "○",
        "waiting, or has waiting jobs; on a pool: mostly free; on a finding: info; on a change: routine",
    ),
    (
        "▲",
        "act now; on a job: a finding about it or its devices; on a change: critical; after a share or an amount: allocated but idle, or a high idle cost",
    ),
    ("▲6 ●5", "in the header: critical findings and warnings"),
    ("×", "broken or failed; on the heatmap a fault"),
    ("□", "on hold or stopped"),
    ("✓", "done; on a finding: acknowledged"),
    (
        "· /",
        "free device; / one that a new pod cannot use: its node is cordoned, not ready, or does not offer it; · in a trend: no reading",
    ),
    ("–", "unknown (never means zero)"),
    (
        "~",
        "estimate: after a pod, the device is a guess by count; after a place, our own queue order; before a change, computed but not tested",
    ),
    (
        "no ETA",
        "does not start by itself, or the wait has no known end; `b` and its page show what would start it",
    ),
    (
        "idle, wasted",
        "idle: allocated and below 1 % busy, or free; wasted: allocated and idle, or all devices of a stalled gang",
    ),
    (
        "cohort, lent",
        "cohort: queues that may borrow each other's unused quota; lent: own quota that others of the cohort use",
    ),
    (
        "goodput, preemptions",
        "goodput: requests a second that meet every latency objective; preemptions of a saturated model server: requests that it put back for lack of KV cache",
    ),
    (
        "~ ↓ ↑",
        "in a title: the sort column; ~ when values have changed since (s sorts again)",
    ),
    (
        "+",
        "after an amount: devices without a price are not included",
    ),
    ("*", "after an amount: by list prices, not by what you pay"),
    ("≥", "at least: others are not visible to you"),
    (
        ">",
        "before an age: at least this long; before a number: a little more",
    ),
    ("▌", "the row under the cursor"),
    (
        "▾ ▸",
        "▾ before a name: its rows are below; at the end of a list: more lines; ▸ between names: leads to",
    ),
    (
        "⌈▀⌉ ⌊▀⌋",
        "on the heatmap: the upper, the lower device of a cell is under the cursor",
    ),
    (
        "a b c",
        "in pictures: a team, with the same letter and color in all of them",
    ),
    (
        "i 0-9",
        "on the heatmap without color: allocated but idle; utilization, 9 is busiest",
    ),
];

/// The keys that come first.
const FIRST: [Command; 20] = [
    Command::Open,
    Command::Back,
    Command::Filter,
    Command::Palette,
    Command::Sort,
    Command::Describe,
    Command::Logs,
    Command::Faults,
    Command::LongestWait,
    Command::Waste,
    Command::WhatIf,
    Command::LastView,
    Command::Missing,
    Command::Action(ActionName::Admit),
    Command::Action(ActionName::Reprioritise),
    Command::Action(ActionName::Drain),
    Command::Action(ActionName::Cordon),
    Command::Action(ActionName::Hold),
    Command::Action(ActionName::Undo),
    Command::Quit,
];

/// The state of the help popup: scroll position and filter.
#[derive(Default)]
pub struct Help {
    pub(super) scroll: PopupScroll,
    /// Only lines that contain this are shown.
    filter: TextField,
    /// True while letters go to the filter.
    pub(super) types: bool,
}

impl Help {
    pub(super) fn key(&mut self, press: KeyPress, command: Option<Command>) -> Verdict {
        match (self.types, command) {
            (false, Some(Command::Filter)) => self.types = true,
            (false, command) => return scrolled(&mut self.scroll, command),
            (true, Some(Command::Accept)) => self.types = false,
            (true, Some(Command::Close)) => *self = Self::default(),
            (true, _) => {
                self.filter.key(press);
                self.scroll = PopupScroll::default();
            }
        }
        Verdict::Stay
    }

    pub(super) fn paste(&mut self, words: &str) {
        if self.types {
            self.filter.insert(words);
            self.scroll = PopupScroll::default();
        }
    }
}

/// A line of help.
enum HelpRow {
    Head(&'static str),
    /// Keys and their effect; continuation lines have no keys.
    Key(String, String, Role),
    Gap,
}

/// The rows that contain these words; a heading stays where a row below it does.
fn only(rows: Vec<(HelpRow, String)>, words: &str) -> Vec<HelpRow> {
    let words = words.trim().to_lowercase();
    if words.is_empty() {
        return rows.into_iter().map(|(row, _)| row).collect();
    }
    let mut kept = Vec::new();
    let mut head = None;
    for (row, whole) in rows {
        match row {
            HelpRow::Head(title) => head = Some(title),
            HelpRow::Key(..) if whole.to_lowercase().contains(&words) => {
                if let Some(title) = head.take() {
                    if !kept.is_empty() {
                        kept.push(HelpRow::Gap);
                    }
                    kept.push(HelpRow::Head(title));
                }
                kept.push(row);
            }
            HelpRow::Key(..) | HelpRow::Gap => {}
        }
    }
    kept
}

pub(super) fn draw(
    screen: &dyn Screen,
    painter: &mut Painter<'_>,
    area: Rect,
    help: &Help,
) -> Option<Position> {
    let frame = centred(
        area,
        wide(area.width, 96),
        area.height.saturating_sub(2).max(3),
    );
    let may = match &screen.facts().acts.may {
        May::Yes => "read-write",
        _ => screen.readonly_reason(),
    };
    let note = format!("stokehold {} · {may}", env!("CARGO_PKG_VERSION"));
    let inside = popup(painter, frame, "keys", &note);
    let column = 20.min(inside.width / 3);
    let room = inside.width.saturating_sub(column + 2);
    let mut rows = Vec::new();
    // The description is wrapped over as many lines as it needs.
    let entry = |rows: &mut Vec<(HelpRow, String)>, keys: String, doc: &str, role: Role| {
        let whole = format!("{keys} {doc}");
        let mut keys = Some(keys);
        for line in wrap(doc, usize::from(room.max(8))) {
            let row = HelpRow::Key(keys.take().unwrap_or_default(), line, role);
            rows.push((row, whole.clone()));
        }
    };
    let plain = |row: HelpRow| (row, String::new());
    let words = |keys: &[KeyPress]| {
        let keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
        keys.join(" ")
    };
    // A key that does nothing on this row is muted.
    let role = |command: Command| match does(screen, command) {
        true => Role::Accent,
        false => Role::Muted,
    };
    rows.push(plain(HelpRow::Head(
        "most used; capital letters open a plan; the views are at the top",
    )));
    for command in FIRST {
        let spec = command.spec();
        let keys = screen.keys().keys(spec.contexts[0], command);
        let doc = spec.doc.trim_start_matches("plan: ");
        let doc = doc.split([';', ':']).next().unwrap_or(doc);
        if !keys.is_empty() {
            entry(&mut rows, words(&keys), doc, role(command));
        }
    }
    let here = screen.view().contexts();
    let rest = Context::ALL
        .iter()
        .filter(|context| !here.contains(context));
    for (place, context) in here.iter().chain(rest).enumerate() {
        if place == here.len() {
            rows.extend([plain(HelpRow::Gap), plain(HelpRow::Head("signs"))]);
            for (sign, doc) in SIGNS {
                entry(&mut rows, sign.to_owned(), doc, Role::Accent);
            }
        }
        rows.push(plain(HelpRow::Gap));
        rows.push(plain(HelpRow::Head(context.title())));
        for (spec, keys) in screen.keys().listed(*context) {
            let role = match place >= here.len() {
                true => Role::Accent,
                false => role(spec.command),
            };
            entry(&mut rows, words(&keys), spec.doc, role);
        }
    }
    let rows = only(rows, help.filter.text());
    let height = usize::from(inside.height);
    let skip = help.scroll.first(rows.len(), height);
    for (line, row) in rows.iter().skip(skip).take(height).enumerate() {
        let y = inside.y + line as u16;
        match row {
            HelpRow::Gap => {}
            HelpRow::Head(title) => {
                painter.text_in_role(inside.x, y, inside.width, title, Role::Title);
            }
            HelpRow::Key(keys, doc, role) => {
                let style = painter.render_style.bold(*role);
                painter.text(inside.x + 1, y, column, keys, style);
                painter.text_in_role(inside.x + column + 2, y, room, doc, Role::Text);
            }
        }
    }
    if rows.is_empty() {
        painter.text_in_role(
            inside.x,
            inside.y,
            inside.width,
            "no line has these words",
            Role::Muted,
        );
    }
    if frame.height == 0 {
        return None;
    }
    let foot = frame.bottom() - 1;
    if help.types || !help.filter.text().is_empty() {
        painter.text_in_role(frame.x + 3, foot, 3, " / ", Role::Accent);
        let room = frame.width.saturating_sub(10).min(30);
        let position = help.filter.draw(painter, frame.x + 6, foot, room);
        return help.types.then_some(position);
    }
    if rows.len() > height {
        let words = format!(
            " {} to {} of {}   j k scroll   / search ",
            skip + 1,
            (skip + height).min(rows.len()),
            rows.len()
        );
        painter.text_in_role(
            frame.x + 3,
            foot,
            frame.width.saturating_sub(6),
            &words,
            Role::Muted,
        );
    }
    None
}
