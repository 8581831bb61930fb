//! Help: every key of the view in front, then all others.

use ratatui::layout::Rect;

use crate::app::App;
use crate::commands::Context;
use crate::painter::Painter;
use crate::text::wrap;
use crate::theme::Role;
use crate::widget::panel::{centred, popup, wide};
use table::actions::May;

use super::first_line;

/// What the signs mean, wherever they stand.
const SIGNS: [(&str, &str); 12] = [
    ("●", "well: ready, running, live; of a finding: look at it"),
    (
        "◐",
        "in part: cordoned, starting, ending, some nodes of a pool not ready, a source that is late",
    ),
    (
        "○",
        "waits, or has work that waits; of a pool: mostly free; of a finding: good to know",
    ),
    (
        "▲",
        "act on it; behind a share or money: held without working, or much idle money",
    ),
    ("×", "broken or failed; on the heatmap a fault"),
    ("□", "on hold or stopped"),
    ("✓", "done; of a finding: acked"),
    ("·", "a free device; in a trend nothing was read"),
    ("–", "not known, which is never nothing"),
    (
        "~",
        "inferred: behind a pod by counting, behind a place by our own order; before a change: reckoned, not tried",
    ),
    (
        "~ ↓ ↑",
        "at a title: sorted by it; ~ when values have moved since (s settles it)",
    ),
    (
        "+",
        "behind money: some devices have no price and are left out",
    ),
];

pub(super) fn draw(app: &App, painter: &mut Painter<'_>, area: Rect, skip: usize) {
    enum Row {
        Head(&'static str),
        Key(String, String),
        Gap,
    }
    let frame = centred(
        area,
        wide(area.width, 96),
        area.height.saturating_sub(2).max(3),
    );
    let may = match &app.facts.acts.may {
        May::Yes => "may write",
        _ => app.options.readonly_reason.as_str(),
    };
    let note = format!("stokehold {} · {may}", env!("CARGO_PKG_VERSION"));
    let inside = popup(painter, frame, "keys", &note);
    let column = 20.min(inside.width / 3);
    let room = inside.width.saturating_sub(column + 2);
    let mut rows = Vec::new();
    // What a key does is told whole, on as many lines as it needs.
    let told = |rows: &mut Vec<Row>, keys: String, doc: &str| {
        let mut keys = Some(keys);
        for line in wrap(doc, usize::from(room.max(8))) {
            rows.push(Row::Key(keys.take().unwrap_or_default(), line));
        }
    };
    let here = app.view().contexts();
    let rest = Context::ALL
        .iter()
        .filter(|context| !here.contains(context));
    for (place, context) in here.iter().chain(rest).enumerate() {
        if place == here.len() {
            rows.extend([Row::Gap, Row::Head("signs")]);
            for (sign, doc) in SIGNS {
                told(&mut rows, sign.to_owned(), doc);
            }
        }
        if !rows.is_empty() {
            rows.push(Row::Gap);
        }
        rows.push(Row::Head(context.title()));
        for (spec, keys) in app.options.keys.listed(*context) {
            let keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
            told(&mut rows, keys.join(" "), spec.doc);
        }
    }
    let height = usize::from(inside.height);
    let skip = first_line(skip, rows.len().saturating_sub(height));
    for (line, row) in rows.iter().skip(skip).take(height).enumerate() {
        let y = inside.y + line as u16;
        match row {
            Row::Gap => {}
            Row::Head(title) => {
                painter.say(inside.x, y, inside.width, title, Role::Title);
            }
            Row::Key(keys, doc) => {
                let style = painter.render_style.bold(Role::Accent);
                painter.text(inside.x + 1, y, column, keys, style);
                painter.say(inside.x + column + 2, y, room, doc, Role::Text);
            }
        }
    }
    if rows.len() > height && frame.height > 0 {
        let words = format!(
            " {} to {} of {}   j k scroll ",
            skip + 1,
            (skip + height).min(rows.len()),
            rows.len()
        );
        painter.say(
            frame.x + 3,
            frame.bottom() - 1,
            frame.width / 2,
            &words,
            Role::Muted,
        );
    }
}
