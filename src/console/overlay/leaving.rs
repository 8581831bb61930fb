//! The question on leaving while a run of this console is in progress: what is suspended and until when, and whether to leave.

use ratatui::layout::Rect;

use crate::commands::{Command, Context};
use crate::painter::Painter;
use crate::screen::Screen;
use crate::text::{self, counted};
use crate::widget::panel::{centred, popup};
use table::actions::RunState;
use table::role::Role;
use table::text::with_hours;

use super::verdict::Verdict;

pub(super) fn key(run: &str, command: Option<Command>) -> Verdict {
    match command {
        Some(Command::Accept) => Verdict::Leave,
        Some(Command::StopRun) => Verdict::Stop(run.to_owned()),
        Some(Command::Close) => Verdict::Close,
        _ => Verdict::Stay,
    }
}

/// What there is to know before leaving, one paragraph each.
pub(super) fn paragraphs(screen: &dyn Screen, run: &str) -> Vec<(String, Role)> {
    let mut all = Vec::new();
    let known = screen.facts().acts.run(run);
    all.push(match known {
        Some(row) => (
            format!(
                "{}: {} of {} steps are done.",
                row.title,
                row.over(),
                row.steps.len()
            ),
            Role::Title,
        ),
        None => (format!("run {run} has just started."), Role::Title),
    });
    let jobs = screen.facts().fleet.jobs.iter();
    let holds = jobs.filter_map(|job| job.held.as_deref());
    let until = holds
        .filter(|hold| hold.run.as_str() == run)
        .map(|hold| hold.until)
        .max();
    let suspended = known.map_or(0, |row| row.suspended_jobs.len());
    if suspended > 0 {
        let be = if suspended == 1 { "is" } else { "are" };
        let end = match until {
            Some(until) => format!(" until {} at the latest", until.rfc3339()),
            None => String::new(),
        };
        let words = format!("{} {be} suspended{end}.", counted(suspended as u64, "job"));
        all.push((with_hours(&words, screen.present()), Role::Warn));
    }
    let words = match known.is_some_and(|row| row.state != RunState::Running) {
        true => "The run has ended.",
        false if suspended > 0 => {
            "If you leave, the run continues in its own process and resumes what it has suspended; view 9 of the next console shows it."
        }
        false => {
            "If you leave, the run continues in its own process; view 9 of the next console shows it."
        }
    };
    all.push((words.to_owned(), Role::Text));
    all
}

pub(super) fn draw(screen: &dyn Screen, painter: &mut Painter<'_>, area: Rect, run: &str) {
    let width = 78.min(area.width);
    let room = usize::from(width.saturating_sub(4));
    let ascii = painter.render_style.ascii;
    let mut lines: Vec<(String, Role)> = Vec::new();
    for (words, role) in paragraphs(screen, run) {
        let words = text::clean(&words, ascii).into_owned();
        let parts = text::wrap(&words, room);
        lines.extend(parts.into_iter().map(|part| (part.to_owned(), role)));
    }
    let count = u16::try_from(lines.len()).unwrap_or(u16::MAX);
    let frame = centred(area, width, count.saturating_add(4));
    let inside = popup(painter, frame, "a run is in progress", "");
    for (y, (words, role)) in (inside.y..inside.bottom()).zip(&lines) {
        painter.text_in_role(inside.x, y, inside.width, words, *role);
    }
    let accent = painter.render_style.bold(Role::Accent);
    let muted = painter.render_style.fg(Role::Muted);
    let y = inside.bottom().saturating_sub(1);
    let mut x = inside.x;
    for (spec, keys) in screen.keys().listed(Context::Leaving) {
        let Some(key) = keys.last().map(ToString::to_string) else {
            continue;
        };
        let words = match spec.command {
            Command::Accept => "leave, run continues",
            Command::StopRun => "stop after this step",
            _ => "stay",
        };
        let left = inside.right().saturating_sub(x);
        x += painter.pieces(x, y, left, &[(&key, accent), (" ", muted), (words, muted)]) + 3;
    }
}
