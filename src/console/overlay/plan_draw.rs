//! How the plan dialog looks: steps as a table, effect and checks below, what is typed at the foot.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};

use crate::app::App;
use crate::brush::Brush;
use crate::commands::{Command, Context};
use crate::keys::Keymap;
use crate::text::{self, UNKNOWN, counted};
use crate::theme::Role;
use crate::view::describe::{Line, draw_lines};
use crate::widget::Cell;
use crate::widget::panel::{centred, field, popup};
use crate::widget::table::{Align, Head, Look, Width, table};
use model::fleet::queue::{PriorityKind, QueueSystem};
use model::plan::{JobName, Plan, Refusal};
use table::acts::May;

use super::above_hints;
use super::by_key::by_key;
use super::plan::{Dialog, Focus, Phase, Wanted};
use super::plan_run::draw_run;
use super::plan_words::{about, cells, rows};

pub(super) const fn head(title: &'static str, align: Align, width: Width, drop: u8) -> Head {
    Head {
        title,
        align,
        width,
        drop,
    }
}

const STEPS: &[Head] = &[
    head("STEP", Align::Left, Width::Cut(10, 24), 0),
    head("OBJECT", Align::Left, Width::Cut(14, 60), 0),
    head("DEVICES", Align::Right, Width::Fit(7), 2),
    head("WORK LOST", Align::Right, Width::Fit(9), 1),
    head("COST", Align::Right, Width::Fit(4), 3),
    head("HOW", Align::Left, Width::Cut(12, 120), 4),
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
            let since = brush.age(dialog.asked_at());
            let words = format!("working it out on the latest picture… {since}");
            brush.say(inside.x, inside.y, inside.width, &words, Role::Muted);
            None
        }
        Phase::Refused(refusal) => {
            draw_refused(refusal, &app.options.keys, brush, area);
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

fn draw_refused(refusal: &Refusal, keys: &Keymap, brush: &mut Brush<'_>, area: Rect) {
    let mut lines = vec![Line::Words(
        "no plan".into(),
        by_key(&refusal.sentence, keys),
        Role::Warn,
    )];
    let mut label = "instead";
    for instead in &refusal.instead {
        lines.push(Line::Words(label.into(), by_key(instead, keys), Role::Text));
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
        Wanted::Priority(job) => (format!("PLAN  priority of {job}"), priorities(job, app)),
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

/// What a priority may be: a number, and the classes that order what the job is ordered by.
fn priorities(name: &JobName, app: &App) -> String {
    let fleet = &app.facts.fleet;
    let job = fleet.jobs.iter().find(|known| known.id.key == name.0);
    let now = job.and_then(|job| job.priority);
    let now = now.map_or(UNKNOWN.to_owned(), |now| now.to_string());
    let queued = job.is_some_and(|job| {
        let admission = job.admission.as_ref();
        admission.is_some_and(|known| known.seen.system == QueueSystem::Kueue)
    });
    let kind = match queued {
        true => PriorityKind::Workload,
        false => PriorityKind::Pod,
    };
    let classes: Vec<String> = fleet
        .priority_classes
        .iter()
        .filter(|class| class.kind == kind && !class.name.starts_with("system-"))
        .map(|class| format!("{} {}", class.name, class.value))
        .collect();
    match (classes.is_empty(), queued) {
        (true, true) => format!("now {now}; a number (there is no WorkloadPriorityClass to name)"),
        (true, false) => format!("now {now}; a number"),
        (false, _) => format!(
            "now {now}; a number, or the name of a class: {}",
            classes.join(", ")
        ),
    }
}

/// Lines of a plan: its steps as rows, what is known of it, and what may be typed.
struct Extent {
    frame: Rect,
    rows: usize,
    below: usize,
    fields: u16,
}

impl Extent {
    fn of(dialog: &Dialog, plan: &Plan, app: &App, lines: &[Line], area: Rect) -> Self {
        let width = area
            .width
            .saturating_sub(if area.width > 100 { 8 } else { 0 })
            .min(160);
        let mut nothing = Buffer::empty(Rect::new(0, 0, 1, 1));
        let mut brush = Brush::new(&mut nothing, &app.ink, app.facts.now);
        let none = Rect::new(0, 0, width.saturating_sub(4), 0);
        let below = draw_lines(&mut brush, none, lines, 0);
        let rows = rows(plan).len();
        let fields = if dialog.may(app) { 3 } else { 0 };
        // Head and steps, air, what is known, air, fields, foot, border.
        let wanted = rows + 1 + 1 + below + 1 + usize::from(fields) + 1 + 2;
        let wanted = u16::try_from(wanted).unwrap_or(u16::MAX);
        Self {
            frame: centred(area, width, wanted),
            rows,
            below,
            fields,
        }
    }

    /// Lines between the border and the fields.
    fn room(&self) -> usize {
        usize::from(self.frame.height.saturating_sub(2 + self.fields + 1))
    }

    /// Lines that can be scrolled away before the last one is in sight.
    fn farthest(&self) -> usize {
        let room = self.room();
        let whole = if self.below + 2 <= room {
            self.rows + 2 + self.below
        } else {
            self.rows + 1 + self.below
        };
        whole.saturating_sub(room)
    }
}

/// How far the dialog can be scrolled.
pub(super) fn farthest(dialog: &Dialog, app: &App) -> usize {
    match &dialog.phase {
        Phase::Shown(plan) | Phase::Sent(plan) => {
            let lines = about(dialog, plan, app);
            Extent::of(dialog, plan, app, &lines, above_hints(app.area())).farthest()
        }
        // A run stays where its open step is until somebody scrolls.
        Phase::Runs(name) | Phase::Stands(name) => {
            let run = app.facts.acts.run(name);
            run.map_or(0, |run| run.steps.len() + 1)
        }
        _ => 0,
    }
}

fn draw_plan(
    dialog: &Dialog,
    plan: &Plan,
    app: &App,
    brush: &mut Brush<'_>,
    area: Rect,
) -> Option<Position> {
    let lines = about(dialog, plan, app);
    let extent = Extent::of(dialog, plan, app, &lines, area);
    let frame = extent.frame;
    let title = format!("PLAN  {}  on {}", plan.title, app.facts.context);
    let note = format!("computed {} ago", brush.age(plan.computed_at));
    let inside = popup(brush, frame, &title, &note);
    let room = extent.room();
    let most = extent.farthest();
    let skip = dialog.skip.min(most);
    let body = Rect {
        height: u16::try_from(room)
            .unwrap_or(inside.height)
            .min(inside.height),
        ..inside
    };
    // Steps first, what is known of the plan below them: one text, scrolled as one.
    if skip < extent.rows {
        let shown = (extent.rows - skip).min(room.saturating_sub(1));
        let all = rows(plan);
        let cells: Vec<Vec<Cell<'_>>> = all
            .iter()
            .skip(skip)
            .take(shown)
            .map(|row| cells(row, &app.facts))
            .collect();
        let high = u16::try_from(shown + 1).unwrap_or(body.height);
        let wide = Rect::new(body.x - 2, body.y, body.width + 2, high);
        table(brush, wide, STEPS, &[], &cells, &Look::default());
        let y = body.y + high + 1;
        let left = Rect::new(body.x, y, body.width, body.bottom().saturating_sub(y));
        draw_lines(brush, left, &lines, 0);
    } else {
        draw_lines(brush, body, &lines, (skip - extent.rows).saturating_sub(1));
    }
    if most > 0 {
        draw_place(app, brush, frame, skip, most);
    }
    draw_foot(dialog, app, brush, inside);
    let fields = extent.fields;
    if fields == 0 || inside.height < fields + 2 {
        return None;
    }
    let foot = inside.bottom().saturating_sub(1);
    draw_fields(
        dialog,
        plan,
        app,
        brush,
        Rect::new(inside.x, foot - fields, inside.width, fields),
    )
}

/// Where one stands in what does not fit, and the keys that lead on, in the lower border.
fn draw_place(app: &App, brush: &mut Brush<'_>, frame: Rect, skip: usize, most: usize) {
    let keys = |command| {
        app.options
            .keys
            .keys(Context::Plan, command)
            .first()
            .copied()
    };
    let (on, back) = (keys(Command::PageDown), keys(Command::PageUp));
    let keys: Vec<String> = [on, back]
        .into_iter()
        .flatten()
        .map(|key| key.to_string())
        .collect();
    let there = match (skip, most - skip) {
        (0, below) => format!("{} more below", counted(below as u64, "line")),
        (above, 0) => format!("the end, {} above", counted(above as u64, "line")),
        (above, below) => format!("{above} above, {} below", counted(below as u64, "line")),
    };
    let words = format!(" {there} · {} scroll ", keys.join(" "));
    let y = frame.bottom().saturating_sub(1);
    brush.say(
        frame.x + 3,
        y,
        frame.width.saturating_sub(6),
        &words,
        Role::Warn,
    );
}

fn draw_foot(dialog: &Dialog, app: &App, brush: &mut Brush<'_>, inside: Rect) {
    let y = inside.bottom().saturating_sub(1);
    let (words, role) = match (&dialog.error, &dialog.phase, &app.facts.acts.may) {
        (Some(error), ..) => (error.as_str(), Role::Crit),
        (None, Phase::Sent(_), _) => ("confirmed: it is on its way…", Role::Info),
        (None, _, May::No { sentence, .. }) => (sentence.as_str(), Role::Warn),
        (None, ..) if inside.width >= 100 => (
            "nothing is written before you confirm; it stops at the first failure and can be undone from 9 plans",
            Role::Muted,
        ),
        (None, ..) => (
            "nothing is written before you confirm; 9 plans undoes it",
            Role::Muted,
        ),
    };
    brush.say(inside.x, y, inside.width, words, role);
}

fn draw_fields(
    dialog: &Dialog,
    plan: &Plan,
    app: &App,
    brush: &mut Brush<'_>,
    area: Rect,
) -> Option<Position> {
    let grave = plan.is_grave();
    let wanted = plan.typed(&app.facts.context);
    let title = format!("type {wanted} to confirm");
    // What has to be typed is read whole, before the reason has its room.
    let least = brush.width(&title) + 8;
    let half = match grave {
        true => (area.width / 2)
            .min(area.width.saturating_sub(least))
            .max(area.width / 4),
        false => area.width,
    };
    let mut cursor = None;
    let first = Rect::new(area.x, area.y, half.saturating_sub(u16::from(grave)), 3);
    let inside = field(
        brush,
        first,
        "reason, for the log",
        dialog.focus == Focus::Reason,
    );
    let at = dialog.reason.draw(brush, inside.x, inside.y, inside.width);
    if dialog.focus == Focus::Reason {
        cursor = Some(at);
    }
    if grave {
        let second = Rect::new(area.x + half, area.y, area.width - half, 3);
        let inside = field(brush, second, &title, dialog.focus == Focus::Typed);
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
