//! What becomes of the fleet under changes that are supposed: figures before and after, and each job that starts, is evicted or
//! starts at another time.

use ratatui::layout::Rect;

use crate::commands::{Command, Context};
use crate::painter::Painter;
use crate::text::wrap;
use engine::explain::Reason;
use engine::what_if::{HypotheticalChange, Shift, WhatIfEffect, WhatIfResult, parse};
use model::base::{Moment, Name};
use model::fleet::job::{JobKey, JobState};
use model::fleet::pool::PoolMode;
use table::Facts;
use table::cell::{Cell, Value};
use table::column::{Column, KindSpec, Row, id_of};
use table::navigation::{Destination, RowScope, Selection, ViewId};
use table::role::Role;
use table::waiting::explanations::JobExplanation;
use table::what_if::{Figure, NO_JOB_AFFECTED, Supposed, figures, title, when};

use super::table_view::TableView;
use super::view_trait::{CommandOutcome, TABLE, View};

/// The jobs that a supposed change affects. A row is the index of the change and the index of the job in it.
static KIND: KindSpec = KindSpec {
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
            Some(WhatIfEffect::Evicted | WhatIfEffect::Later | WhatIfEffect::Unknown)
        )
    },
    worst: None,
    last: |_, _| false,
    searched: None,
    sort: None,
    none: NO_JOB_AFFECTED,
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

const fn sign(effect: WhatIfEffect) -> (&'static str, Role) {
    match effect {
        WhatIfEffect::Starts | WhatIfEffect::Earlier => ("↑", Role::Ok),
        WhatIfEffect::Kept | WhatIfEffect::Known => ("●", Role::Ok),
        WhatIfEffect::Evicted => ("×", Role::Crit),
        WhatIfEffect::Later => ("↓", Role::Warn),
        WhatIfEffect::Unknown => ("○", Role::Warn),
        WhatIfEffect::Added | WhatIfEffect::Removed => ("□", Role::Info),
    }
}

/// Text above the figures.
fn head(facts: &Facts, outcome: &WhatIfResult, at: Moment, gaps: &[String]) -> Vec<(String, Role)> {
    let mut head = vec![
        (title(outcome, at), Role::Title),
        comes_of_it(facts, outcome),
    ];
    for change in &outcome.changes {
        head.extend(grows_by_hand(facts, change).map(|words| (words, Role::Warn)));
    }
    let notes: Vec<&str> = outcome
        .notes
        .iter()
        .chain(gaps)
        .map(String::as_str)
        .collect();
    if !notes.is_empty() {
        head.push((notes.join(" · "), Role::Muted));
    }
    head
}

/// Number of jobs that start and effects on others; where none starts, what the pending jobs are short of.
fn comes_of_it(facts: &Facts, outcome: &WhatIfResult) -> (String, Role) {
    let count = |effects: &[WhatIfEffect]| {
        let jobs = outcome.jobs.iter();
        jobs.filter(|shift| effects.contains(&shift.effect)).count() as u64
    };
    let starts = count(&[WhatIfEffect::Starts]);
    let mut parts = vec![match starts {
        0 => String::from("no job starts"),
        1 => String::from("1 job starts"),
        more => format!("{more} jobs start"),
    }];
    for (effects, words) in [
        (
            &[WhatIfEffect::Earlier, WhatIfEffect::Known][..],
            "earlier or with an ETA",
        ),
        (
            &[WhatIfEffect::Later, WhatIfEffect::Unknown],
            "later or without an ETA",
        ),
        (&[WhatIfEffect::Evicted], "evicted"),
    ] {
        match count(effects) {
            0 => {}
            some => parts.push(format!("{some} {words}")),
        }
    }
    let words = parts.join(", ");
    if starts > 0 {
        return (words, Role::Ok);
    }
    (format!("{words}{}", short_of(facts, outcome)), Role::Warn)
}

/// What the pending jobs are short of now, the most frequent first.
fn short_of(facts: &Facts, outcome: &WhatIfResult) -> String {
    if outcome.after.waiting == 0 {
        return String::from(": no job waits");
    }
    let waiting = facts.fleet.jobs.iter();
    let waiting: Vec<_> = waiting
        .filter(|job| job.state == JobState::Waiting)
        .collect();
    let mut kinds: Vec<(String, u64)> = Vec::new();
    for job in waiting {
        let what = match facts.answers.job(&job.id) {
            Some(explained) => lacks(explained, job.class.as_deref()),
            None => String::from("for reasons still being computed"),
        };
        match kinds.iter_mut().find(|(known, _)| *known == what) {
            Some((_, count)) => *count += 1,
            None => kinds.push((what, 1)),
        }
    }
    kinds.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let rest: u64 = kinds.iter().skip(SHORT).map(|(_, count)| count).sum();
    let named = kinds.iter().take(SHORT);
    let mut words: Vec<String> = named
        .map(|(what, count)| format!("{count} {what}"))
        .collect();
    if rest > 0 {
        words.push(format!("{rest} for other reasons"));
    }
    // (As of now, like the header: the figures below are as of their request.)
    match words.is_empty() {
        true => String::new(),
        false => format!("; waiting now: {}", words.join(", ")),
    }
}

/// Most shortages for which the number of jobs is shown.
const SHORT: usize = 3;

/// The first shortage of a pending job, as short text.
fn lacks(explained: &JobExplanation, class: Option<&str>) -> String {
    match explained.answer.explanation.reasons.first() {
        None => String::from("for the scheduler's next cycle"),
        Some(Reason::Quota { queue, .. } | Reason::OverMost { queue, .. }) => {
            format!("for quota of {queue}")
        }
        Some(Reason::Fragmented(_) | Reason::NoRoom(_) | Reason::Absent(_)) => {
            format!("for {} devices", class.unwrap_or("other"))
        }
        Some(Reason::Held) => String::from("on hold"),
        Some(_) => String::from("for other reasons"),
    }
}

/// A note that no autoscaler adds the supposed nodes: their pool has a fixed size, or is at its autoscaler's maximum.
fn grows_by_hand(facts: &Facts, change: &str) -> Option<String> {
    let Ok(HypotheticalChange::Nodes { target, by }) = parse(change) else {
        return None;
    };
    let pool = facts
        .fleet
        .pools
        .iter()
        .find(|pool| *pool.name == *target)?;
    let more = u32::try_from(by).ok().filter(|more| *more > 0)?;
    if pool.mode == Some(PoolMode::Static) {
        let mut scalers = facts.fleet.scaling.of_pool(&pool.name);
        let why = match scalers.next() {
            None => "no autoscaler adds nodes to it",
            Some(_) => "its autoscaler keeps it at this size",
        };
        return Some(format!(
            "{target} is a static pool: {why}; add these nodes by hand"
        ));
    }
    let max = pool.maximum_below(more)?;
    Some(format!(
        "{target} has {} of at most {max} nodes: raise its autoscaler's maximum to add these",
        pool.nodes.total
    ))
}

/// What some changes would do.
pub struct WhatIfView {
    changes: Name,
    table: TableView,
    /// Lines of figures above the table: as many as the answer has and as fit.
    figures: u16,
    /// Text above the figures: the supposed change, its result, and notes.
    head: Vec<(String, Role)>,
    /// Jobs that are listed below.
    jobs: u16,
}

impl WhatIfView {
    /// What these changes would do.
    pub fn new(changes: Name) -> Self {
        Self {
            table: TableView::new(ViewId::Jobs, &KIND, RowScope::WhatIf(changes.clone())),
            changes,
            figures: 0,
            head: Vec::new(),
            jobs: 0,
        }
    }

    fn answer<'a>(&self, facts: &'a Facts) -> Option<&'a Supposed> {
        facts
            .supposed
            .get(&self.changes)
            .map(|(_, outcome)| outcome)
    }

    /// The head as lines of this width.
    fn head(&self, area: Rect) -> Vec<(String, Role)> {
        let room = usize::from(area.width.saturating_sub(4));
        let lines = self.head.iter().flat_map(|(words, role)| {
            let lines = wrap(words, room).into_iter();
            lines.map(move |line| (line, *role))
        });
        lines.collect()
    }

    /// Above the table: the head, air, the heads of the figures, the figures, air.
    fn below(&self, area: Rect) -> Rect {
        let above = self.head(area).len() as u16
            + match self.lines(area) {
                0 => 1,
                lines => lines + 3,
            };
        let above = above.min(area.height);
        Rect::new(area.x, area.y + above, area.width, area.height - above)
    }

    /// How many figures are drawn: as many as leave room for some jobs.
    fn lines(&self, area: Rect) -> u16 {
        let jobs = match self.jobs {
            0 => 0,
            jobs => 1 + jobs.min(5),
        };
        let head = self.head(area).len() as u16;
        let room = area.height.saturating_sub(head + 3 + jobs);
        match room.min(self.figures) {
            // Fewer would leave out what it costs or who waits.
            0..=1 => 0,
            lines => lines,
        }
    }

    fn draw_figures(&self, outcome: &WhatIfResult, painter: &mut Painter<'_>, area: Rect) {
        let lines = self.lines(area);
        let top = area.y + self.head(area).len() as u16;
        let rows = most_telling(figures(outcome), usize::from(lines));
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
                // Text to the left, numbers to the right of their column.
                let pad = match at {
                    0 => 0,
                    _ => widths[at].saturating_sub(painter.width(cell)),
                };
                painter.text_in_role(
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
        draw(top + 1, heads, [Role::Muted; 4]);
        for (line, row) in rows.iter().enumerate() {
            let [name, before, after, by]: &Figure = row;
            let roles = [Role::Muted, Role::Text, Role::Title, Role::Text];
            draw(top + 2 + line as u16, [name, before, after, by], roles);
        }
    }
}

/// The figures for which there is room, in their order: those that change first, and of these the last, which are the cost and who waits.
fn most_telling(mut rows: Vec<Figure>, room: usize) -> Vec<Figure> {
    while rows.len() > room {
        let same = rows.iter().position(|row| row[3].is_empty());
        rows.remove(same.unwrap_or(0));
    }
    rows
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
        (self.figures, self.jobs, self.head) = match self.answer(facts) {
            Some(Supposed::Told(outcome, at, gaps)) => (
                figures(outcome).len() as u16,
                u16::try_from(outcome.jobs.len()).unwrap_or(u16::MAX),
                head(facts, outcome, *at, gaps),
            ),
            _ => (0, 0, Vec::new()),
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
                    painter.text_in_role(area.x + 2, y, room, words, role);
                }
            }
        };
        match self.answer(facts) {
            None => {
                let words = "result expired: ctrl-r computes it again";
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
            Some(Supposed::Told(outcome, ..)) => {
                for (line, (words, role)) in self.head(area).iter().enumerate() {
                    let y = area.y.saturating_add(line as u16);
                    if y < area.bottom() {
                        painter.text_in_role(area.x + 2, y, room, words, *role);
                    }
                }
                self.draw_figures(outcome, painter, area);
                if !outcome.jobs.is_empty() {
                    let below = self.below(area);
                    self.table.paint(facts, painter, below, true);
                }
            }
        }
    }
}
