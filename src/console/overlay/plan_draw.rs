//! How the plan dialog looks: steps as a table, effect and checks below, what is typed at the foot.

use ratatui::layout::{Position, Rect};

use crate::console::app::App;
use crate::console::brush::Brush;
use crate::console::text::{self, UNKNOWN, counted};
use crate::console::theme::Role;
use crate::console::view::describe::{Line, draw_lines};
use crate::console::widget::Cell;
use crate::console::widget::panel::{centred, panel, popup};
use crate::console::widget::table::{Align, Head, Look, Width, table};
use crate::engine::plan::{Plan, Refusal};
use crate::report::acts::May;

use super::plan::{Dialog, Focus, Phase, Wanted};
use super::plan_run::draw_run;
use super::plan_words::{about, cells};

pub(super) const fn head(title: &'static str, align: Align, width: Width, drop: u8) -> Head {
    Head {
        title,
        align,
        width,
        drop,
    }
}

const STEPS: &[Head] = &[
    head("STEP", Align::Left, Width::Cut(10, 16), 0),
    head("OBJECT", Align::Left, Width::Cut(14, 44), 0),
    head("DEVICES", Align::Right, Width::Fit(7), 2),
    head("WORK LOST", Align::Right, Width::Fit(9), 1),
    head("COST", Align::Right, Width::Fit(4), 3),
    head(
        "HOW, AND WHAT IT TOUCHES",
        Align::Left,
        Width::Cut(12, 60),
        4,
    ),
];

/// Draws it; returns where the cursor stands in what is typed.
pub(super) fn draw(
    dialog: &Dialog,
    app: &App,
    brush: &mut Brush<'_>,
    area: Rect,
) -> Option<Position> {
    match &dialog.phase {
        Phase::Value(wanted) => Some(draw_value(dialog, wanted, app, brush, area)),
        Phase::Computing => {
            let frame = centred(area, 60.min(area.width), 3);
            let inside = popup(brush, frame, "PLAN", "");
            let words = "working it out on the latest picture…";
            brush.say(inside.x, inside.y, inside.width, words, Role::Muted);
            None
        }
        Phase::Refused(refusal) => {
            draw_refused(refusal, brush, area);
            None
        }
        Phase::Failed(why) => {
            let lines = vec![
                Line::Words("".into(), why.clone(), Role::Crit),
                Line::Gap,
                Line::Words("".into(), String::from("esc closes"), Role::Muted),
            ];
            draw_box(brush, area, "PLAN  could not be made", &lines);
            None
        }
        Phase::Shown(plan) | Phase::Sent(plan) => draw_plan(dialog, plan, app, brush, area),
        Phase::Runs(name) | Phase::Stands(name) => {
            draw_run(dialog, app.facts.acts.run(name), name, brush, area);
            None
        }
    }
}

fn draw_box(brush: &mut Brush<'_>, area: Rect, title: &str, lines: &[Line]) {
    let width = 90.min(area.width);
    let none = Rect::new(0, 0, width.saturating_sub(4), 0);
    let high = draw_lines(brush, none, lines, 0);
    let height = u16::try_from(high + 2).unwrap_or(u16::MAX);
    let inside = popup(brush, centred(area, width, height), title, "");
    draw_lines(brush, inside, lines, 0);
}

fn draw_refused(refusal: &Refusal, brush: &mut Brush<'_>, area: Rect) {
    let mut lines = vec![Line::Words(
        "no plan".into(),
        refusal.sentence.clone(),
        Role::Warn,
    )];
    let mut label = "instead";
    for instead in &refusal.instead {
        lines.push(Line::Words(label.into(), instead.clone(), Role::Text));
        label = "or";
    }
    lines.push(Line::Gap);
    let closing = String::from("nothing was changed; esc closes");
    lines.push(Line::Words("".into(), closing, Role::Muted));
    draw_box(brush, area, "PLAN  there is none", &lines);
}

fn draw_value(
    dialog: &Dialog,
    wanted: &Wanted,
    app: &App,
    brush: &mut Brush<'_>,
    area: Rect,
) -> Position {
    let (title, hint) = match wanted {
        Wanted::Priority(job) => {
            let classes: Vec<String> = app
                .facts
                .fleet
                .priority_classes
                .iter()
                .filter(|class| !class.name.starts_with("system-"))
                .map(|class| format!("{} {}", class.name, class.value))
                .collect();
            let now = app
                .facts
                .fleet
                .jobs
                .iter()
                .find(|known| known.id.key == job.0);
            let now = now.and_then(|job| job.priority);
            let now = now.map_or(UNKNOWN.to_owned(), |now| now.to_string());
            let known = match classes.is_empty() {
                true => String::new(),
                false => format!("; classes: {}", classes.join(", ")),
            };
            let hint = format!("now {now}; a number, or the name of a class{known}");
            (format!("PLAN  priority of {job}"), hint)
        }
        Wanted::Cordon(nodes) => {
            let what = match nodes.as_slice() {
                [one] => one.to_string(),
                many => counted(many.len() as u64, "node"),
            };
            let hint = String::from("why? it is written on the node for whoever comes next");
            (format!("PLAN  cordon {what}"), hint)
        }
    };
    let width = 80.min(area.width);
    let inner = usize::from(width.saturating_sub(4));
    let mut hints = text::wrap(&text::clean(&hint, brush.ink.ascii), inner);
    hints.truncate(4);
    let height = hints.len() as u16 + 5;
    let inside = popup(brush, centred(area, width, height), &title, "");
    let mut y = inside.y;
    for line in &hints {
        brush.say(inside.x, y, inside.width, line, Role::Muted);
        y += 1;
    }
    y += 1;
    brush.say(inside.x, y, 2, "▸", Role::Accent);
    let position = dialog
        .value
        .draw(brush, inside.x + 2, y, inside.width.saturating_sub(2));
    let (words, role) = match &dialog.error {
        Some(error) => (error.as_str(), Role::Crit),
        None => ("enter makes the plan, esc cancels", Role::Muted),
    };
    brush.say(inside.x, y + 1, inside.width, words, role);
    position
}

fn draw_plan(
    dialog: &Dialog,
    plan: &Plan,
    app: &App,
    brush: &mut Brush<'_>,
    area: Rect,
) -> Option<Position> {
    let width = area
        .width
        .saturating_sub(if area.width > 100 { 8 } else { 0 })
        .min(150);
    let may = dialog.may(app);
    let lines = about(dialog, plan, app);
    let none = Rect::new(0, 0, width.saturating_sub(4), 0);
    let below = draw_lines(brush, none, &lines, 0) as u16;
    // Head and steps, air, what is known, air, fields, foot.
    let fields: u16 = if may { 3 } else { 0 };
    let steps = plan.steps.len() as u16 + 1;
    let wanted = steps + 1 + below + 1 + fields + 1 + 2;
    let frame = centred(area, width, wanted);
    let title = format!("PLAN  {}  on {}", plan.title, app.facts.context);
    let note = format!("computed {} ago", brush.age(plan.computed_at));
    let inside = popup(brush, frame, &title, &note);
    let foot = inside.bottom().saturating_sub(1);
    let room = inside.height.saturating_sub(fields + 1);
    // Where room is short, what is known of the plan goes before its last steps do.
    let high = steps
        .min((room / 2).max(room.saturating_sub(below + 1)))
        .min(room);
    let shown = usize::from(high.saturating_sub(1));
    let skip = dialog.skip.min(plan.steps.len().saturating_sub(shown));
    let rows: Vec<Vec<Cell<'_>>> = plan
        .steps
        .iter()
        .enumerate()
        .skip(skip)
        .take(shown)
        .map(|(at, step)| cells(at, step))
        .collect();
    let wide = Rect::new(inside.x - 2, inside.y, inside.width + 2, high);
    table(brush, wide, STEPS, &[], &rows, &Look::default());
    let y = inside.y + high + u16::from(room > high + below);
    let left = Rect::new(
        inside.x,
        y,
        inside.width,
        (inside.y + room).saturating_sub(y),
    );
    // Scrolled beyond the steps, what is known of it moves on.
    let beyond = dialog.skip.saturating_sub(skip);
    let most = usize::from(below.saturating_sub(left.height));
    draw_lines(brush, left, &lines, beyond.min(most));
    let hidden = plan.steps.len().saturating_sub(shown) + most;
    draw_foot(dialog, app, brush, inside, hidden);
    if !may || inside.height < fields + 2 {
        return None;
    }
    draw_fields(
        dialog,
        plan,
        app,
        brush,
        Rect::new(inside.x, foot - fields, inside.width, fields),
    )
}

fn draw_foot(dialog: &Dialog, app: &App, brush: &mut Brush<'_>, inside: Rect, hidden: usize) {
    let y = inside.bottom().saturating_sub(1);
    let scroll = if hidden > 0 {
        "   tab, then j k: the rest"
    } else {
        ""
    };
    let (words, role) = match (&dialog.error, &dialog.phase, &app.facts.acts.may) {
        (Some(error), ..) => (error.clone(), Role::Crit),
        (None, Phase::Sent(_), _) => (String::from("confirmed: it is on its way…"), Role::Info),
        (None, _, May::No { sentence, .. }) => (format!("{sentence}{scroll}"), Role::Warn),
        (None, ..) => (
            format!(
                "nothing is written before you confirm; it stops at the first failure and can be undone from 9 plans{scroll}"
            ),
            Role::Muted,
        ),
    };
    brush.say(inside.x, y, inside.width, &words, role);
}

fn draw_fields(
    dialog: &Dialog,
    plan: &Plan,
    app: &App,
    brush: &mut Brush<'_>,
    area: Rect,
) -> Option<Position> {
    let grave = plan.is_grave();
    let half = if grave { area.width / 2 } else { area.width };
    let mut cursor = None;
    let first = Rect::new(area.x, area.y, half.saturating_sub(u16::from(grave)), 3);
    let inside = panel(brush, first, "reason, for the log", "");
    let at = dialog.reason.draw(brush, inside.x, inside.y, inside.width);
    if dialog.focus == Focus::Reason {
        cursor = Some(at);
    }
    if grave {
        let wanted = plan.typed(&app.facts.context);
        let second = Rect::new(area.x + half, area.y, area.width - half, 3);
        let inside = panel(brush, second, &format!("type {wanted} to confirm"), "");
        let at = dialog.typed.draw(brush, inside.x, inside.y, inside.width);
        let typed = dialog.typed.text();
        if let Some(rest) = wanted.strip_prefix(typed).filter(|rest| !rest.is_empty()) {
            let used = brush.width(typed);
            let left = inside.width.saturating_sub(used);
            brush.say(inside.x + used, inside.y, left, rest, Role::Muted);
        }
        if dialog.focus == Focus::Typed {
            cursor = Some(at);
        }
    }
    cursor
}
