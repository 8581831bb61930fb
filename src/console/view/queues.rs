//! Queues: their tree with quotas, shares and cost; below it, the pending jobs of the selected queue, in order.

use ratatui::layout::Rect;

use crate::commands::{Command, Context};
use crate::painter::Painter;
use crate::text::counted;
use crate::widget::panel::panel;
use crate::widget::table::{TableLook, first_lines, table, wrapped};
use model::base::quantities::first_named;
use model::base::{Moment, SmallSort};
use model::fleet::job::{Job, JobState};
use table::Facts;
use table::cell::{Cell, Value};
use table::column::{Align, ColumnHead, Width};
use table::kinds::queues::{FLAVORS, KIND, members, name_of, row_of, stopped};
use table::navigation::{RowScope, ViewId};
use table::role::Role;
use table::rows::queue_quotas::without_column;
use table::rows::queues::{RowOf, system_of};

use super::pictures::{self, ObjectPicture};
use super::table_view::TableView;
use super::view_trait::{CommandOutcome, TABLE, View};

/// The tree above, the waiting jobs of the queue under the cursor below.
pub struct QueuesView {
    table: TableView,
    /// Waiting jobs of the queue under the cursor in their order, each with how many wait before it.
    waiting: Vec<(usize, u32)>,
}

/// Queues that the note on columns without room names.
const NAMED: usize = 6;

/// The columns of pending jobs whose text wraps onto further lines.
const REASON: usize = 6;
const START: usize = 7;

/// Columns of the waiting jobs.
const HEADS: &[ColumnHead] = &[
    ColumnHead::new("#", Align::Right, Width::Fit(2), 4),
    ColumnHead::new("WAITING JOB", Align::Left, Width::Cut(20, 40), 0),
    ColumnHead::new("DEVICES", Align::Right, Width::Fit(3), 0),
    ColumnHead::new("CLASS", Align::Left, Width::Cut(4, 10), 6),
    ColumnHead::new("PRIO", Align::Right, Width::Fit(4), 5),
    ColumnHead::new("WAIT", Align::Right, Width::Fit(5), 0),
    ColumnHead::new("REASON", Align::Left, Width::Cut(20, 70), 1),
    ColumnHead::new("WHAT WOULD START IT", Align::Left, Width::Cut(20, 60), 2),
    ColumnHead::new("ETA", Align::Right, Width::Fit(3), 3),
];

impl QueuesView {
    /// The view behind the tab.
    pub fn new(row_scope: RowScope) -> Self {
        Self {
            table: TableView::new(ViewId::Queues, &KIND, row_scope),
            waiting: Vec::new(),
        }
    }

    fn split(&self, area: Rect) -> (Rect, Rect) {
        let rows = u16::try_from(self.table.table_model.rows().len()).unwrap_or(u16::MAX);
        let most = (area.height / 2).max(4);
        // (An empty table has the reason on more lines.)
        let least = if rows == 0 { 4 } else { 2 };
        let model = &self.table.table_model;
        let note = u16::from(model.has_list_prices() || model.unseen_note().is_some());
        let above = rows
            .saturating_add(1 + note)
            .clamp(least, most)
            .min(area.height);
        let air = u16::from(area.height >= 16);
        let left = area.height.saturating_sub(above + air);
        (
            Rect {
                height: above,
                ..area
            },
            Rect::new(area.x, area.y + above + air, area.width, left),
        )
    }

    /// The note on columns without room, with the queues that have all their quota in them or in none.
    fn lacking(&self, facts: &Facts, columns: Option<String>) -> Option<String> {
        let has_column = |nth: &usize| self.table.has_drawn(FLAVORS[*nth]);
        let shown: Vec<usize> = (0..FLAVORS.len()).filter(has_column).collect();
        // Where all quotas stand in one column, there is nothing to name.
        let in_one = |id: &&str| self.table.has_drawn(id);
        if shown.is_empty() || ["left", "quotas"].iter().any(in_one) {
            return columns;
        }
        let hidden = without_column(facts, self.table.table_model.rows(), &shown);
        if hidden.is_empty() {
            return columns;
        }
        let names = first_named(&hidden, NAMED);
        Some(match columns {
            None => format!("no column for the quota of {names}: . shows it"),
            Some(columns) => format!("{columns}: . shows the quota of {names}"),
        })
    }

    fn choose(&mut self, facts: &Facts) {
        let Some(row) = self.table.table_model.current() else {
            self.waiting.clear();
            return;
        };
        let members = members(facts, row);
        let all = &facts.fleet.jobs;
        let mut waiting: Vec<u32> = (0..all.len() as u32)
            .filter(|at| {
                let job = &all[*at as usize];
                let queue = job.queue.as_deref();
                let here =
                    queue.is_some_and(|name| members.contains(&(name, system_of(facts, job))));
                here && job.state == JobState::Waiting
            })
            .collect();
        waiting.small_sort_by_key(|at| order(facts, &all[*at as usize]));
        // A position counts all waiting jobs, including those outside the scope.
        let placed = waiting.into_iter().enumerate();
        let ours = placed.filter(|(_, at)| facts.has_job(&all[*at as usize]));
        self.waiting = ours.collect();
    }

    /// Draws the waiting jobs of the queue under the cursor in as many lines as they need, and the queue's pictures below them.
    fn draw_waiting(&self, facts: &Facts, painter: &mut Painter<'_>, whole: Rect) {
        let Some(row) = self.table.table_model.current() else {
            return;
        };
        // The table keeps two cells for its edge; the panel has air of its own.
        let width = whole.width.saturating_sub(2);
        let all: Vec<Vec<Cell<'_>>> = self
            .waiting
            .iter()
            .take(usize::from(whole.height))
            .filter_map(|(place, index)| {
                let job = facts.fleet.jobs.get(*index as usize)?;
                Some(cells(facts, job, *place))
            })
            .collect();
        let wrapped_rows = wrapped(painter, width, HEADS, all, &[REASON, START]);
        let heights: Vec<usize> = wrapped_rows.rows.iter().map(Vec::len).collect();
        let needed = heights.iter().sum::<usize>().max(1) + 3;
        let needed = u16::try_from(needed).unwrap_or(u16::MAX);
        let pictures = match row_of(facts, row) {
            RowOf::Queue(at, _) if whole.height >= needed.saturating_add(pictures::LEAST) => {
                pictures::of_queue(facts, at, None)
            }
            _ => Vec::new(),
        };
        let height = if pictures.is_empty() {
            whole.height
        } else {
            needed
        };
        let area = Rect { height, ..whole };
        let below = Rect {
            y: whole.y + height,
            height: whole.height - height,
            ..whole
        };
        let all: Vec<&ObjectPicture> = pictures.iter().collect();
        pictures::draw(facts, painter, below, &all);
        let name = name_of(facts, row).map_or(String::new(), |name| name.to_string());
        let note = match self.waiting.len() {
            0 => String::new(),
            some => format!("{}{}", counted(some as u64, "job"), answered(facts)),
        };
        let whole = facts.fleet.sees_all_work();
        let title = match (&facts.part, whole) {
            (Some(part), _) => format!("waiting in {name}, {}", part.scope.words()),
            (None, true) => format!("waiting in {name}, in order"),
            (None, false) => format!("waiting in {name}, of what is visible to you"),
        };
        let inside = panel(painter, area, &title, &note);
        if self.waiting.is_empty() {
            let words = match row_of(facts, row).queue().map(stopped) {
                Some(why) if !why.is_empty() => why,
                _ if facts.part.is_some() => {
                    let part = facts.part.as_ref();
                    let whose = part.map_or_else(String::new, |part| part.scope.words());
                    format!("no job of {whose} waits here")
                }
                _ if !whole => String::from("no job that is visible to you waits here"),
                _ => String::from("nothing waits here"),
            };
            painter.text_in_role(inside.x, inside.y, inside.width, &words, Role::Muted);
            return;
        }
        let room = usize::from(inside.height.saturating_sub(1));
        let wide = Rect::new(inside.x - 2, inside.y, inside.width + 2, inside.height);
        let shown = fitting(&heights, self.waiting.len(), room);
        let rows: Vec<Vec<Cell<'_>>> = wrapped_rows
            .rows
            .into_iter()
            .zip(&shown)
            .flat_map(|(lines, high)| first_lines(lines, *high))
            .collect();
        table(
            painter,
            wide,
            HEADS,
            &wrapped_rows.widest,
            &rows,
            &TableLook::default(),
        );
        let more = self.waiting.len() - shown.len();
        if more > 0 && inside.height > 1 {
            let words = format!("+{more} more   enter opens them all");
            let y = inside.bottom() - 1;
            painter.text_in_role(inside.x, y, inside.width, &words, Role::Muted);
        }
    }
}

/// Number of lines for each of the first jobs: the first gets all that it needs, the others share the lines that remain after
/// one for each. The last line is reserved for the number of jobs that do not fit.
fn fitting(heights: &[usize], all: usize, room: usize) -> Vec<usize> {
    let Some(first) = heights.first() else {
        return Vec::new();
    };
    let first = (*first).min(room.saturating_sub(usize::from(all > 1)).max(1));
    let left = room.saturating_sub(first);
    let others = match all - 1 <= left {
        true => all - 1,
        false => left.saturating_sub(1),
    };
    let mut spare = match others == all - 1 {
        true => left - others,
        false => 0,
    };
    let rest = heights.iter().skip(1).take(others).map(|high| {
        let more = (high - 1).min(spare);
        spare -= more;
        1 + more
    });
    std::iter::once(first).chain(rest).collect()
}

/// The position of a pending job in its queue, from 0, and whether its system reports it: else it is that of its page.
fn position(facts: &Facts, job: &Job) -> Option<(u32, bool)> {
    let known = job.admission.as_ref().and_then(|known| known.position);
    let explained = || {
        table::waiting::explanation_of(facts, job)?
            .answer
            .explanation
            .position
    };
    let own = || u32::try_from(explained()?.checked_sub(1)?).ok();
    known.map(|at| (at, true)).or_else(|| Some((own()?, false)))
}

/// Sort key of a pending job: its position; else priority, then time.
fn order(facts: &Facts, job: &Job) -> (u32, std::cmp::Reverse<i32>, Moment) {
    (
        position(facts, job).map_or(u32::MAX, |(at, _)| at),
        std::cmp::Reverse(job.priority.unwrap_or(0)),
        job.waiting_since.unwrap_or(job.created),
    )
}

fn cells<'a>(facts: &'a Facts, job: &'a Job, at: usize) -> Vec<Cell<'a>> {
    let (place, is_reported) = position(facts, job).unwrap_or((at as u32, false));
    // Other pending jobs may not be visible: then only the queue system knows the positions.
    let place = match !is_reported && !facts.fleet.sees_all_work() {
        true => Cell::new(Value::Unknown),
        false => {
            let mark = if is_reported { "" } else { "~" };
            Cell::new(Value::Count(i64::from(place) + 1)).mark(mark)
        }
    };
    let class = Value::known(table::rows::jobs::class_words(job), Value::text);
    vec![
        place.role(Role::Muted),
        Cell::new(Value::path(&job.id.key)).role(Role::Title),
        Cell::new(Value::Count(i64::from(job.devices_requested))),
        Cell::new(class),
        Cell::new(Value::known(job.priority, |priority| {
            Value::Count(i64::from(priority))
        }))
        .role(Role::Muted),
        Cell::new(Value::Since(job.waiting_since.unwrap_or(job.created))),
        Cell::text(table::waiting::why(facts, job)),
        Cell::text(table::waiting::mend(facts, job)).role(Role::Info),
        Cell::new(Value::known(
            table::waiting::eta(facts, job),
            |(words, at)| Value::Starts(words, at),
        )),
    ]
}

impl View for QueuesView {
    fn id(&self) -> ViewId {
        ViewId::Queues
    }
    fn trail(&self) -> String {
        self.table.table_model.row_scope.title()
    }
    fn contexts(&self) -> &'static [Context] {
        TABLE
    }
    fn refresh(&mut self, facts: &Facts, settle: bool) {
        self.table.refresh(facts, settle);
        self.choose(facts);
    }
    fn on(&mut self, command: Command, facts: &Facts, area: Rect) -> CommandOutcome {
        let (above, _) = self.split(area);
        let turn = self.table.obey(command, facts, above);
        self.choose(facts);
        turn
    }
    fn point(&mut self, facts: &Facts, x: u16, y: u16, area: Rect) -> bool {
        let (above, _) = self.split(area);
        let hit = y < above.bottom() && self.table.point(facts, x, y, above);
        self.choose(facts);
        hit
    }
    fn set_filter(&mut self, words: &str, facts: &Facts) -> Result<(), String> {
        let set = self.table.set_filter(words, facts);
        self.choose(facts);
        set
    }
    fn table(&self) -> Option<&TableView> {
        Some(&self.table)
    }
    fn table_mut(&mut self) -> Option<&mut TableView> {
        Some(&mut self.table)
    }

    fn draw(&self, facts: &Facts, painter: &mut Painter<'_>, area: Rect) {
        let (above, below) = self.split(area);
        let lacking = self.table.paint(facts, painter, above, true);
        if let Some(words) = self
            .lacking(facts, lacking)
            .filter(|_| above.bottom() < below.y)
        {
            let width = above.width.saturating_sub(4);
            painter.text_in_role(above.x + 2, above.bottom(), width, &words, Role::Muted);
        }
        if below.height >= 3 && !self.table.table_model.rows().is_empty() {
            let air = u16::from(area.width > 60);
            let inset = Rect::new(below.x + air, below.y, below.width - 2 * air, below.height);
            self.draw_waiting(facts, painter, inset);
        }
    }
}

/// Of when the answers are, free devices in them too, behind a count: nothing while they are of just now.
pub(super) fn answered(facts: &Facts) -> String {
    match facts.answers.at {
        None => String::from(" · computing reasons"),
        Some(at) if facts.now.since(at) < std::time::Duration::from_secs(30).into() => {
            String::new()
        }
        Some(at) => format!(" · as of {} UTC", at.clock()),
    }
}
