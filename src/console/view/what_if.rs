//! What becomes of the fleet under changes that are supposed: figures before and after, and each job that starts, is evicted or
//! starts at another time.

use ratatui::layout::Rect;

use crate::commands::{Command, Context};
use crate::painter::Painter;
use crate::table_model::{Column, Kind, Row, id_of};
use crate::text::wrap;
use crate::theme::Role;
use crate::widget::{Cell, Value};
use engine::what_if::{Effect, Outcome, Shift};
use model::base::{Moment, Name};
use model::fleet::job::JobKey;
use table::Facts;
use table::what_if::{Figure, NOBODY, Supposed, figures, nobody, title, when};

use super::table_view::TableView;
use super::{CommandOutcome, Destination, RowScope, Selection, TABLE, View, ViewId};

/// The jobs that a supposition does something to. A row is the place of the supposition and that of the job in it.
static KIND: Kind = Kind {
    columns: &[
        Column::words("change", "CHANGE", 0, (9, 9), |facts, row| {
            let role = shift(facts, row).map_or(Role::Muted, |(it, _)| sign(it.effect).1);
            of(facts, row, |shift, _| Value::text(shift.effect.name())).role(role)
        })
        .sign(|facts, row| {
            shift(facts, row).map_or(("–", Role::Muted), |(it, _)| sign(it.effect))
        }),
        Column::words("job", "JOB", 0, (16, 48), |facts, row| {
            of(facts, row, |shift, _| Value::path(&shift.job.0)).role(Role::Title)
        }),
        Column::words("queue", "QUEUE", 3, (6, 20), |facts, row| {
            of(facts, row, |shift, _| {
                Value::known(shift.queue.as_deref(), Value::text)
            })
        }),
        Column::number("devices", "DEVICES", 2, 4, |facts, row| {
            of(facts, row, |shift, _| {
                Value::Count(i64::try_from(shift.devices).unwrap_or(i64::MAX))
            })
        }),
        Column::words("before", "BEFORE", 1, (8, 28), |facts, row| {
            of(facts, row, |shift, now| {
                Value::text(when(shift.before.as_ref(), now))
            })
            .role(Role::Muted)
        }),
        Column::words("after", "AFTER", 0, (8, 28), |facts, row| {
            of(facts, row, |shift, now| {
                Value::text(when(shift.after.as_ref(), now))
            })
        }),
    ],
    collect: |facts, row_scope| {
        let RowScope::WhatIf(changes) = row_scope else {
            return Vec::new();
        };
        match facts.supposed.get(changes) {
            Some((at, Supposed::Told(outcome, ..))) => (0..outcome.jobs.len() as u32)
                .map(|job| (at as u32, job))
                .collect(),
            _ => Vec::new(),
        }
    },
    id: |facts, row| shift(facts, row).map_or(0, |(it, _)| id_of(&it.job)),
    label: |_, _, _| None,
    selection: |facts, row| job(facts, row).map(Selection::Job),
    open: |facts, row| {
        job(facts, row).map(|job| Destination::Part(ViewId::Jobs, RowScope::Job(job)))
    },
    faulty: |facts, row| {
        let effect = shift(facts, row).map(|(it, _)| it.effect);
        matches!(
            effect,
            Some(Effect::Evicted | Effect::Later | Effect::Unknown)
        )
    },
    worst: None,
    last: |_, _| false,
    searched: None,
    sort: None,
    none: NOBODY,
};

fn shift(facts: &Facts, row: Row) -> Option<(&Shift, Moment)> {
    facts.supposed.job(row.0 as usize, row.1 as usize)
}

/// The job of a row; nothing for a copy that is only supposed.
fn job(facts: &Facts, row: Row) -> Option<JobKey> {
    let (shift, _) = shift(facts, row)?;
    let mut jobs = facts.fleet.jobs.iter();
    Some(jobs.find(|job| job.id.key == shift.job.0)?.id.clone())
}

fn of<'a>(
    facts: &'a Facts,
    row: Row,
    make: impl FnOnce(&'a Shift, Moment) -> Value<'a>,
) -> Cell<'a> {
    match shift(facts, row) {
        Some((shift, now)) => Cell::new(make(shift, now)),
        None => Cell::new(Value::Unknown),
    }
}

const fn sign(effect: Effect) -> (&'static str, Role) {
    match effect {
        Effect::Starts | Effect::Earlier => ("▲", Role::Ok),
        Effect::Kept | Effect::Known => ("●", Role::Ok),
        Effect::Evicted => ("×", Role::Crit),
        Effect::Later => ("↓", Role::Warn),
        Effect::Unknown => ("○", Role::Warn),
        Effect::Added | Effect::Removed => ("□", Role::Info),
    }
}

/// What some changes would do.
pub struct WhatIfView {
    changes: Name,
    table: TableView,
    /// Lines of figures that stand above the table: as many as the answer has, as far as there is room.
    figures: u16,
}

impl WhatIfView {
    /// What these changes would do.
    pub fn new(changes: Name) -> Self {
        Self {
            table: TableView::new(ViewId::Jobs, &KIND, RowScope::WhatIf(changes.clone())),
            changes,
            figures: 0,
        }
    }

    fn answer<'a>(&self, facts: &'a Facts) -> Option<&'a Supposed> {
        facts.supposed.get(&self.changes).map(|(_, told)| told)
    }

    /// Above the table: the title, air, the heads, the figures, air.
    fn below(&self, area: Rect) -> Rect {
        let above = match self.lines(area) {
            0 => 2,
            lines => lines + 4,
        };
        let above = above.min(area.height);
        Rect::new(area.x, area.y + above, area.width, area.height - above)
    }

    /// Figures that are drawn: where there is no room for all and some jobs, the jobs matter more.
    fn lines(&self, area: Rect) -> u16 {
        match area.height >= self.figures + 10 {
            true => self.figures,
            false => 0,
        }
    }

    fn draw_figures(&self, outcome: &Outcome, painter: &mut Painter<'_>, area: Rect) {
        let lines = self.lines(area);
        let rows = figures(outcome);
        let width = |at: usize, head: &str| {
            let cells = rows.iter().map(|row| painter.width(&row[at]));
            cells.max().unwrap_or(0).max(painter.width(head))
        };
        let heads = ["", "BEFORE", "AFTER", "CHANGE"];
        let widths: Vec<u16> = (0..4).map(|at| width(at, heads[at])).collect();
        let mut draw = |y: u16, cells: [&str; 4], roles: [Role; 4]| {
            let mut x = area.x + 2;
            for (at, (cell, role)) in cells.into_iter().zip(roles).enumerate() {
                let left = area.right().saturating_sub(x);
                // Words at the left, numbers at the right of their column.
                let pad = match at {
                    0 => 0,
                    _ => widths[at].saturating_sub(painter.width(cell)),
                };
                painter.say(
                    (x + pad).min(area.right()),
                    y,
                    left.saturating_sub(pad),
                    cell,
                    role,
                );
                x = (x + widths[at] + 3).min(area.right());
            }
        };
        if lines == 0 {
            return;
        }
        draw(area.y + 2, heads, [Role::Muted; 4]);
        for (line, row) in rows.iter().take(usize::from(lines)).enumerate() {
            let [name, before, after, by]: &Figure = row;
            let roles = [Role::Muted, Role::Text, Role::Title, Role::Accent];
            draw(area.y + 3 + line as u16, [name, before, after, by], roles);
        }
    }
}

impl View for WhatIfView {
    fn id(&self) -> ViewId {
        ViewId::Jobs
    }
    fn trail(&self) -> String {
        self.table.table_model.row_scope.title()
    }
    fn contexts(&self) -> &'static [Context] {
        TABLE
    }
    fn refresh(&mut self, facts: &Facts, settle: bool) {
        self.figures = match self.answer(facts) {
            Some(Supposed::Told(outcome, ..)) => figures(outcome).len() as u16,
            _ => 0,
        };
        self.table.refresh(facts, settle);
    }
    fn on(&mut self, command: Command, facts: &Facts, area: Rect) -> CommandOutcome {
        match command {
            Command::Refresh => CommandOutcome::Suppose(self.changes.clone()),
            _ => self.table.obey(command, facts, self.below(area)),
        }
    }
    fn point(&mut self, facts: &Facts, x: u16, y: u16, area: Rect) -> bool {
        self.table.point(facts, x, y, self.below(area))
    }
    fn table(&self) -> Option<&TableView> {
        Some(&self.table)
    }
    fn table_mut(&mut self) -> Option<&mut TableView> {
        Some(&mut self.table)
    }

    fn draw(&self, facts: &Facts, painter: &mut Painter<'_>, area: Rect) {
        let room = area.width.saturating_sub(4);
        let say = |painter: &mut Painter<'_>, from: u16, words: &str, role: Role| {
            for (line, words) in wrap(words, usize::from(room)).iter().enumerate() {
                let y = area.y.saturating_add(from).saturating_add(line as u16);
                if y < area.bottom() {
                    painter.say(area.x + 2, y, room, words, role);
                }
            }
        };
        match self.answer(facts) {
            None => {
                let words = "this is no longer kept: ctrl-r computes it again";
                say(painter, 0, words, Role::Muted);
            }
            Some(Supposed::Asked) => {
                let words = format!("what if {} · computing…", self.changes);
                say(painter, 0, &words, Role::Muted);
            }
            Some(Supposed::Failed(why)) => {
                say(
                    painter,
                    0,
                    &format!("what if {}", self.changes),
                    Role::Title,
                );
                say(painter, 2, why, Role::Crit);
            }
            Some(Supposed::Told(outcome, at, gaps)) => {
                let notes = outcome.notes.iter().chain(gaps);
                let notes: String = notes.map(|note| format!(" · {note}")).collect();
                let (bold, muted) = (
                    painter.render_style.bold(Role::Title),
                    painter.render_style.fg(Role::Muted),
                );
                let title = title(outcome, *at);
                painter.pieces(area.x + 2, area.y, room, &[(&title, bold), (&notes, muted)]);
                self.draw_figures(outcome, painter, area);
                let below = self.below(area);
                if outcome.jobs.is_empty() {
                    painter.say(below.x + 2, below.y, room, &nobody(outcome), Role::Muted);
                } else {
                    self.table.paint(facts, painter, below, true);
                }
            }
        }
    }
}
