//! The plan dialog after confirmation: each step with its state, and what can be done about the run.

use ratatui::layout::Rect;

use crate::painter::Painter;
use crate::text;
use crate::view::plans::color;
use crate::view::run_jobs;
use crate::widget::panel::{centred, popup, up_to};
use crate::widget::table::{TableLook, table};
use table::Facts;
use table::actions::{RunRow, RunState};
use table::cell::{Cell, Value};
use table::column::{Align, ColumnHead, Width};
use table::role::Role;
use table::text::with_hours;

use super::plan::{Dialog, PlanPhase};

const PROGRESS: &[ColumnHead] = &[
    ColumnHead::new("#", Align::Right, Width::Fit(2), 0),
    ColumnHead::new("STEP", Align::Left, Width::Cut(20, 60), 0),
    ColumnHead::new("STATE", Align::Left, Width::Cut(8, 18), 0),
    ColumnHead::new("", Align::Left, Width::Cut(10, 60), 1),
];

/// Draws a run; `None` before its first update.
pub(super) fn draw_run(
    dialog: &Dialog,
    facts: &Facts,
    name: &str,
    painter: &mut Painter<'_>,
    area: Rect,
) {
    let width = up_to(130, area.width);
    let Some(run) = facts.acts.run(name) else {
        let frame = centred(area, 60.min(area.width), 3);
        let inside = popup(painter, frame, "PLAN  starting", "");
        let words = format!("run {name}");
        painter.text_in_role(inside.x, inside.y, inside.width, &words, Role::Muted);
        return;
    };
    // The evicted jobs and their state; while the run is in progress, the steps show that.
    let jobs = match run.state {
        RunState::Running => Vec::new(),
        _ => run_jobs::lines(facts, run),
    };
    let named = match usize::from(area.height / 3) {
        most if jobs.len() <= most => jobs.len(),
        most => most.saturating_sub(1),
    };
    let below = match jobs.is_empty() {
        true => 0,
        // A title, and the count of further jobs.
        false => 2 + named + usize::from(named < jobs.len()),
    };
    let below = below as u16;
    let wanted = (run.steps.len() as u16)
        .saturating_add(1 + 3 + 2)
        .saturating_add(below);
    let frame = centred(area, width, wanted);
    let title = format!("PLAN  {}", run.title);
    let note = format!(
        "{} of {} · started {} ago",
        run.over(),
        run.steps.len(),
        painter.age(run.begun)
    );
    let inside = popup(painter, frame, &title, &note);
    let high = inside.height.saturating_sub(3 + below);
    let shown = usize::from(high.saturating_sub(1));
    let open = run.steps.iter().position(|step| !step.state.is_over());
    // The current step stays visible, unless the operator scrolls.
    let most = run.steps.len().saturating_sub(shown);
    let skip = match (dialog.skip, open) {
        (0, Some(at)) => at.saturating_sub(shown / 2).min(most),
        (0, None) => most,
        (skip, _) => (skip - 1).min(most),
    };
    let rows: Vec<Vec<Cell<'_>>> = run
        .steps
        .iter()
        .enumerate()
        .skip(skip)
        .take(shown)
        .map(|(at, step)| {
            vec![
                Cell::new(Value::Count(at as i64 + 1)).role(Role::Muted),
                Cell::text(step.words.as_str()),
                Cell::text(step.state.name()).role(color(step.state)),
                Cell::text(with_hours(&step.note, painter.now)).role(Role::Muted),
            ]
        })
        .collect();
    let wide = Rect::new(inside.x - 2, inside.y, inside.width + 2, high);
    table(painter, wide, PROGRESS, &[], &rows, &TableLook::default());
    let (words, role) = match (&dialog.error, run.state) {
        (Some(error), _) => (error.clone(), Role::Crit),
        _ if matches!(dialog.phase, PlanPhase::Stands(_)) => (
            format!("{}: enter continues it, esc closes", run.state.name()),
            Role::Warn,
        ),
        (None, state) => ends(run, state),
    };
    let mut y = inside.y + high + 1;
    if below > 0 {
        let head = "current state of the jobs that it started or stopped";
        painter.text_in_role(inside.x, y, inside.width, head, Role::Muted);
        for (job, words, role) in jobs.iter().take(named) {
            y += 1;
            let words = format!("{job}: {words}");
            painter.text_in_role(inside.x, y, inside.width, &words, *role);
        }
        if named < jobs.len() {
            y += 1;
            let words = format!(
                "and {} more: press d on this run in view 9",
                jobs.len() - named
            );
            painter.text_in_role(inside.x, y, inside.width, &words, Role::Muted);
        }
        y += 2;
    }
    let foot = Rect::new(inside.x, y, inside.width, 2);
    let words = text::clean(&words, painter.render_style.ascii).into_owned();
    let parts = text::wrap(&words, usize::from(foot.width));
    for (at, part) in parts.iter().take(2).enumerate() {
        painter.text_in_role(foot.x, foot.y + at as u16, foot.width, part, role);
    }
}

/// What can be done about a run in its current state.
fn ends(run: &RunRow, state: RunState) -> (String, Role) {
    match state {
        RunState::Running => (
            String::from(
                "esc closes; the run continues; x in view 9 stops it after the current step",
            ),
            Role::Muted,
        ),
        RunState::Done => match &run.no_undo {
            None => (String::from("done; U undoes it, esc closes"), Role::Ok),
            Some(why) => (format!("done; {why}; esc closes"), Role::Ok),
        },
        RunState::Undone => (format!("{}; esc closes", run.words), Role::Muted),
        RunState::Incomplete => (
            format!("incomplete: {}; plan it again, or U undoes it", run.words),
            Role::Warn,
        ),
        RunState::Stopped | RunState::BrokenOff => (
            format!(
                "{}; H in view 9 continues it, U undoes it",
                run.state.name()
            ),
            Role::Warn,
        ),
        RunState::Failed => (
            format!(
                "{}; nothing was sent after it; U undoes the steps before",
                run.words
            ),
            Role::Crit,
        ),
    }
}
