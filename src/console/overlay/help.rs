//! Help: every key of the view in front, then all others.

use ratatui::layout::Rect;

use crate::console::app::App;
use crate::console::brush::Brush;
use crate::console::commands::Context;
use crate::console::theme::Role;
use crate::console::widget::panel::{centred, popup};
use crate::report::acts::May;

pub(super) fn draw(app: &App, brush: &mut Brush<'_>, area: Rect, skip: usize) {
    enum Row {
        Head(&'static str),
        Key(String, &'static str),
        Gap,
    }
    let mut rows = Vec::new();
    let here = app.view().contexts();
    let rest = Context::ALL
        .iter()
        .filter(|context| !here.contains(context));
    for context in here.iter().chain(rest) {
        if !rows.is_empty() {
            rows.push(Row::Gap);
        }
        rows.push(Row::Head(context.title()));
        for (spec, keys) in app.options.keys.listed(*context) {
            let keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
            rows.push(Row::Key(keys.join(" "), spec.doc));
        }
    }
    let frame = centred(area, 96, area.height.saturating_sub(2).max(3));
    let may = match &app.facts.acts.may {
        May::Yes => "may write",
        _ => app.options.readonly_reason.as_str(),
    };
    let note = format!("stokehold {} · {may}", env!("CARGO_PKG_VERSION"));
    let inside = popup(brush, frame, "keys", &note);
    let height = usize::from(inside.height);
    let skip = skip.min(rows.len().saturating_sub(height));
    for (line, row) in rows.iter().skip(skip).take(height).enumerate() {
        let y = inside.y + line as u16;
        match row {
            Row::Gap => {}
            Row::Head(title) => {
                brush.say(inside.x, y, inside.width, title, Role::Title);
            }
            Row::Key(keys, doc) => {
                let width = 20.min(inside.width / 3);
                let style = brush.ink.bold(Role::Accent);
                brush.text(inside.x + 1, y, width, keys, style);
                let room = inside.width.saturating_sub(width + 2);
                brush.say(inside.x + width + 2, y, room, doc, Role::Text);
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
        brush.say(
            frame.x + 3,
            frame.bottom() - 1,
            frame.width / 2,
            &words,
            Role::Muted,
        );
    }
}
