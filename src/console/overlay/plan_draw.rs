//! Drawing of the plan dialog: steps as a table, effects and checks below, input fields at the bottom.

use ratatui::layout::{Position, Rect};

use crate::commands::{Command, Context};
use crate::painter::Painter;
use crate::screen::Screen;
use crate::text::{self, UNKNOWN, counted};
use crate::view::describe::{Line, draw_lines};
use crate::widget::field::TextField;
use crate::widget::panel::{self, above_hints, centred, popup};
use model::fleet::job::JobKey;
use model::plan::{Budgets, Intent, Plan, Refusal};
use table::actions::May;
use table::role::Role;
use table::text::with_hours;

use super::key_hints::with_keys;
use super::plan::{Dialog, Focus, PlanInput, PlanPhase};
use super::plan_layout::PlanExtent;
use super::plan_run::draw_run;
use super::priority_prompt;

/// Draws it; returns the position of the text cursor.
pub(super) fn draw(
    dialog: &Dialog,
    screen: &dyn Screen,
    painter: &mut Painter<'_>,
    area: Rect,
) -> Option<Position> {
    match &dialog.phase {
        PlanPhase::Value(wanted) => Some(draw_value(dialog, wanted, screen, painter, area)),
        PlanPhase::Computing => {
            let typed = u16::from(!dialog.early.text().is_empty());
            let frame = centred(area, 60.min(area.width), 3 + typed);
            let inside = popup(painter, frame, "PLAN", "");
            let since = painter.age(dialog.asked_at());
            let words = format!("computing plan… {since}");
            painter.text_in_role(inside.x, inside.y, inside.width, &words, Role::Muted);
            let below = inside.y + 1;
            (typed > 0).then(|| dialog.early.draw(painter, inside.x, below, inside.width))
        }
        PlanPhase::Refused(refusal) => {
            draw_refused(refusal, screen, painter, area);
            None
        }
        PlanPhase::Failed(why) => {
            let lines = vec![
                Line::Words("".into(), why.clone(), Role::Crit),
                Line::Gap,
                Line::Words("".into(), String::from("esc closes"), Role::Muted),
            ];
            draw_box(painter, area, "PLAN  could not be made", &lines);
            None
        }
        PlanPhase::Shown(plan) | PlanPhase::Sent(plan) => {
            draw_plan(dialog, plan, screen, painter, area)
        }
        PlanPhase::Runs(name) | PlanPhase::Stands(name) => {
            draw_run(dialog, screen.facts(), name, painter, area);
            None
        }
    }
}

fn draw_box(painter: &mut Painter<'_>, area: Rect, title: &str, lines: &[Line]) {
    let width = 90.min(area.width);
    let none = Rect::new(0, 0, width.saturating_sub(4), 0);
    let high = draw_lines(painter, none, lines, 0);
    let height = u16::try_from(high + 2).unwrap_or(u16::MAX);
    let inside = popup(painter, centred(area, width, height), title, "");
    draw_lines(painter, inside, lines, 0);
}

fn draw_refused(refusal: &Refusal, screen: &dyn Screen, painter: &mut Painter<'_>, area: Rect) {
    let sentence = |words: &str| with_hours(&with_keys(words, screen.keys()), screen.facts().now);
    let mut lines = vec![Line::Words(
        "no plan".into(),
        sentence(&refusal.sentence),
        Role::Warn,
    )];
    let mut label = "instead";
    for instead in &refusal.instead {
        lines.push(Line::Words(label.into(), sentence(instead), Role::Text));
        label = "or";
    }
    lines.push(Line::Gap);
    let closing = String::from("nothing was changed; esc closes");
    lines.push(Line::Words("".into(), closing, Role::Muted));
    draw_box(painter, area, "PLAN  no plan possible", &lines);
}

fn draw_value(
    dialog: &Dialog,
    wanted: &PlanInput,
    screen: &dyn Screen,
    painter: &mut Painter<'_>,
    area: Rect,
) -> Position {
    let (title, hint) = match wanted {
        PlanInput::Priority(job) => (
            format!("PLAN  priority of {job}"),
            priority_prompt::hint(job, screen.facts()),
        ),
        PlanInput::Replicas(id) => (
            format!("PLAN  replicas of {}", id.key),
            replicas(id, screen),
        ),
        PlanInput::Cordon(nodes) => {
            let what = match nodes.as_slice() {
                [one] => one.to_string(),
                many => counted(many.len() as u64, "node"),
            };
            let hint = String::from("reason, written on the node");
            (format!("PLAN  cordon {what}"), hint)
        }
    };
    let width = 80.min(area.width);
    let inner = usize::from(width.saturating_sub(4));
    let mut hints = text::wrap(&text::clean(&hint, painter.render_style.ascii), inner);
    hints.truncate(4);
    let height = hints.len() as u16 + 5;
    let inside = popup(painter, centred(area, width, height), &title, "");
    let mut y = inside.y;
    for line in &hints {
        painter.text_in_role(inside.x, y, inside.width, line, Role::Muted);
        y += 1;
    }
    y += 1;
    painter.text_in_role(inside.x, y, 2, "▸", Role::Accent);
    let position = dialog
        .value
        .draw(painter, inside.x + 2, y, inside.width.saturating_sub(2));
    let (words, role) = match &dialog.error {
        Some(error) => (error.as_str(), Role::Crit),
        None => ("enter computes the plan, esc cancels", Role::Muted),
    };
    painter.text_in_role(inside.x, y + 1, inside.width, words, role);
    position
}

/// A workload's number of pods, and its autoscaler's limits.
fn replicas(id: &JobKey, screen: &dyn Screen) -> String {
    let fleet = &screen.facts().fleet;
    let Some(job) = fleet.job(id) else {
        return String::from("the number of replicas");
    };
    let pods = counted(job.pods.len() as u64, "pod");
    match fleet.scaling.pod_scalers_of(job).next() {
        Some(scaler) => {
            let max = scaler.max.map_or(UNKNOWN.to_owned(), |max| max.to_string());
            let (min, key) = (scaler.min, &scaler.key);
            format!("now {pods}; HorizontalPodAutoscaler {key} sets the replicas, {min} to {max}")
        }
        None => format!("now {pods}; the number of replicas"),
    }
}

/// Lines that a page key scrolls (two lines of overlap stay), and the farthest scroll position.
pub(super) fn scroll_extent(dialog: &Dialog, screen: &dyn Screen) -> (usize, usize) {
    const OF_A_RUN: usize = 8;
    match &dialog.phase {
        PlanPhase::Shown(plan) | PlanPhase::Sent(plan) => {
            let extent = PlanExtent::of(dialog, plan, screen, above_hints(screen.area()));
            let page = extent.visible_rows().saturating_sub(3).max(1);
            (page, extent.farthest())
        }
        // A run shows its current step until the operator scrolls.
        PlanPhase::Runs(name) | PlanPhase::Stands(name) => {
            let run = screen.facts().acts.run(name);
            (OF_A_RUN, run.map_or(0, |run| run.steps.len() + 1))
        }
        _ => (OF_A_RUN, 0),
    }
}

fn draw_plan(
    dialog: &Dialog,
    plan: &Plan,
    screen: &dyn Screen,
    painter: &mut Painter<'_>,
    area: Rect,
) -> Option<Position> {
    let extent = PlanExtent::of(dialog, plan, screen, area);
    let frame = extent.frame;
    let title = format!("PLAN  {}  on {}", plan.title, screen.facts().context);
    let note = format!("computed {} ago", painter.age(plan.computed_at));
    let inside = popup(painter, frame, &title, &note);
    let room = extent.visible_rows();
    let most = extent.farthest();
    let skip = dialog.skip.min(most);
    let body = Rect {
        height: u16::try_from(room)
            .unwrap_or(inside.height)
            .min(inside.height),
        ..inside
    };
    extent.draw(painter, body, skip);
    if most > 0 {
        draw_place(screen, painter, frame, skip, most);
    }
    draw_foot(dialog, plan, screen, painter, inside);
    let fields = extent.fields;
    if fields == 0 || inside.height < fields + 2 {
        return None;
    }
    let foot = inside.bottom().saturating_sub(1);
    draw_fields(
        dialog,
        plan,
        screen,
        painter,
        Rect::new(inside.x, foot - fields, inside.width, fields),
    )
}

/// The scroll position and the scroll keys, in the lower border.
fn draw_place(
    screen: &dyn Screen,
    painter: &mut Painter<'_>,
    frame: Rect,
    skip: usize,
    most: usize,
) {
    let keys = |command| screen.keys().keys(Context::Plan, command).first().copied();
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
    painter.text_in_role(
        frame.x + 3,
        y,
        frame.width.saturating_sub(6),
        &words,
        Role::Warn,
    );
}

fn draw_foot(
    dialog: &Dialog,
    plan: &Plan,
    screen: &dyn Screen,
    painter: &mut Painter<'_>,
    inside: Rect,
) {
    let y = inside.bottom().saturating_sub(1);
    // The name to type is the plan's object: the evicted jobs are named beside it.
    let wanted = plan.typed(&screen.facts().context);
    let is_due = plan.needs_typed_name() && dialog.typed.text().trim() != wanted;
    let enter = match is_due {
        true => format!("once {wanted} is typed, enter"),
        false => String::from("enter"),
    };
    let evicts = plan.evicts_words().map(|evicted| {
        // Undo does not restore their lost work; the plan's own lines say what it restores.
        let stops = plan.steps.iter().map(|it| &it.side_effects);
        let mut stops = stops.filter(|it| it.interrupts).peekable();
        let evicts = match stops.peek().is_some() && stops.all(|it| it.budgets == Budgets::Refusing)
        {
            true => "tries in vain to evict",
            false => "evicts",
        };
        let whole = format!("{enter} {evicts} {evicted}");
        if painter.width(&whole) <= inside.width {
            return whole;
        }
        // Their names are listed in the plan.
        format!("{enter} {evicts} {}", plan.evicts_count())
    });
    let is_undo = matches!(plan.intent, Intent::Undo { .. });
    let applies = match inside.width {
        _ if is_undo || plan.needs_typed_name() => {
            "enter applies it; it stops at the first failure"
        }
        100.. => {
            "enter applies it: nothing is evicted; it stops at the first failure; to undo: U in view 9"
        }
        _ => "enter applies it: nothing is evicted; to undo: U in view 9",
    };
    let (words, role) = match (&dialog.error, &dialog.phase, &screen.facts().acts.may) {
        (Some(error), ..) => (error.as_str(), Role::Crit),
        (None, PlanPhase::Sent(_), _) => ("confirmed, starting…", Role::Info),
        (None, _, May::No { sentence, .. }) => (sentence.as_str(), Role::Warn),
        (None, ..) if evicts.is_some() => (evicts.as_deref().unwrap_or_default(), Role::Warn),
        (None, ..) if is_due => (
            "nothing is written before you confirm; it stops at the first failure",
            Role::Muted,
        ),
        (None, _, May::Unknown) => ("write access is not known yet", Role::Muted),
        (None, ..) => (applies, Role::Text),
    };
    painter.text_in_role(inside.x, y, inside.width, words, role);
}

fn draw_fields(
    dialog: &Dialog,
    plan: &Plan,
    screen: &dyn Screen,
    painter: &mut Painter<'_>,
    area: Rect,
) -> Option<Position> {
    let focus = dialog.focus(&screen.facts().acts.may);
    let wanted = plan.typed(&screen.facts().context);
    let typing = format!("type {wanted} to confirm");
    let reason = "reason, for the log";
    // The text to type is shown in full before the reason gets space; where neither fits, the focused field is drawn.
    let least = painter.width(&typing) + 8;
    if !plan.needs_typed_name() {
        return draw_field(
            painter,
            area,
            reason,
            &dialog.reason,
            focus == Focus::Reason,
            "",
        );
    }
    // In words, so that it does not look like typed text without colors.
    let hint = format!("type {wanted}");
    let named = format!("{hint} (context/name)");
    if least + LEAST_REASON > area.width {
        return match focus {
            Focus::Typed => draw_field(painter, area, &typing, &dialog.typed, true, &hint),
            _ => {
                let title = format!("{reason}; tab: confirm");
                draw_field(
                    painter,
                    area,
                    &title,
                    &dialog.reason,
                    focus == Focus::Reason,
                    "",
                )
            }
        };
    }
    let half = (area.width / 2).max(least);
    let first = Rect::new(area.x, area.y, half - 1, 3);
    let second = Rect::new(area.x + half, area.y, area.width - half, 3);
    // The cursor starts in the left field, so it must be the one to fill first.
    let typed = focus == Focus::Typed;
    // The first part is the context, not a namespace.
    let hint = match painter.width(&named) + 4 <= first.width {
        true => named,
        false => hint,
    };
    let at = draw_field(painter, first, &typing, &dialog.typed, typed, &hint);
    let beside = draw_field(
        painter,
        second,
        reason,
        &dialog.reason,
        focus == Focus::Reason,
        "",
    );
    at.or(beside)
}

/// Minimum width of the reason beside the confirmation, cells.
const LEAST_REASON: u16 = 24;

/// A framed field, with a hint while it is empty; returns the cursor position when it has focus.
fn draw_field(
    painter: &mut Painter<'_>,
    area: Rect,
    title: &str,
    field: &TextField,
    focused: bool,
    hint: &str,
) -> Option<Position> {
    let inside = panel::focusable(painter, area, title, "", focused);
    let at = field.draw(painter, inside.x, inside.y, inside.width);
    if field.text().is_empty() {
        painter.text_in_role(inside.x, inside.y, inside.width, hint, Role::Muted);
    }
    focused.then_some(at)
}
