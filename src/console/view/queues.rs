//! Queues: their tree with quotas, shares and cost; below it, the pending jobs of the selected queue, in order.

use ratatui::layout::Rect;

use crate::commands::{Command, Context};
use crate::painter::Painter;
use crate::text::counted;
use crate::widget::panel::panel;
use crate::widget::table::{Look, first_lines, table, wrapped};
use model::base::{Moment, Name, SmallSort};
use model::cost::Money;
use model::fleet::job::{Job, JobState};
use model::fleet::queue::{Queue, QueueKind, QueueSystem, Stop};
use table::Facts;
use table::cell::{Cell, Value};
use table::column::{Align, ColumnHead, Width};
use table::column::{Column, KindSpec, Row, id_of};
use table::navigation::{Destination, RowScope, Selection, ViewId};
use table::queue_quotas::{flavor, left};
use table::queue_tree::Tree;
use table::queues::{self, Tally};
use table::role::Role;
use table::text::or_unknown;
use usage::{BudgetScope, BudgetState, Dimension};

use super::cost_history::each;
use super::table_view::TableView;
use super::{CommandOutcome, TABLE, View, waiting};

/// The table of queues. A row is its place in the tree and its place among all queues.
pub static KIND: KindSpec = KindSpec {
    columns: &[
        Column::words("queue", "QUEUE", 0, (16, 34), name).sign(sign),
        Column::words("left", "OWN QUOTA LEFT", 2, (24, 200), left).whole("QUEUE LEFT"),
        flavor::<0>("quota", 3),
        flavor::<1>("quota2", 6),
        flavor::<2>("quota3", 8),
        flavor::<3>("quota4", 9),
        flavor::<4>("quota5", 10),
        flavor::<5>("quota6", 11),
        flavor::<6>("quota7", 12),
        flavor::<7>("quota8", 13),
        Column::number("share", "SHARE", 5, 5, share)
            .rare()
            .whole("QUEUE SHARE"),
        Column::number("run", "RUN", 3, 4, |facts, row| {
            count(tally(facts, row).running, Role::Text)
        }),
        Column::number("wait", "WAIT", 0, 4, |facts, row| {
            count(tally(facts, row).waiting, Role::Warn)
        }),
        Column::number("oldest", "OLDEST", 2, 6, |facts, row| {
            match tally(facts, row).oldest {
                Some(since) => Cell::new(Value::Since(since)).role(Role::Warn),
                None => Cell::new(Value::Empty),
            }
        }),
        Column::number("burn", "$/h", 4, 6, rate_cell),
        Column::words("budget", "MTD / BUDGET", 6, (14, 26), budget).rare(),
        Column::words("system", "SYSTEM", 9, (6, 9), |facts, row| {
            of(facts, row, |queue| Value::text(queue.system().name())).role(Role::Muted)
        }),
        Column::number("weight", "WEIGHT", 11, 6, |facts, row| {
            of(facts, row, |queue| {
                Value::known(queue.weight, Value::Number)
            })
        })
        .wide(),
        Column::words("strategy", "STRATEGY", 12, (8, 12), |facts, row| {
            of(facts, row, |queue| Value::text(queue.strategy.name())).role(Role::Muted)
        })
        .wide(),
        Column::words("stopped", "STOPPED", 7, (7, 30), |facts, row| {
            Cell::text(queue(facts, row).map_or(String::new(), stopped)).role(Role::Warn)
        })
        .wide(),
    ],
    collect,
    id: |facts, row| match queue(facts, row) {
        Some(queue) => id_of(&queue.key),
        None => id_of(bare(facts, row)),
    },
    label: |_, _, _| None,
    selection: |facts, row| {
        let name = name_of(facts, row)?;
        Some(match is_cohort(facts, row) {
            true => Selection::Cohort(name),
            false => Selection::Queue(name),
        })
    },
    open: |facts, row| {
        let name = name_of(facts, row)?;
        let of = match is_cohort(facts, row) {
            true => RowScope::Cohort(name),
            false => RowScope::Queue(name),
        };
        Some(Destination::Part(ViewId::Jobs, of))
    },
    faulty: |facts, row| queue(facts, row).is_some_and(Queue::is_stopped),
    worst: None,
    last: |_, _| false,
    searched: None,
    sort: None,
    none: "no queue: neither Kueue, Volcano nor KAI is here, and no job names one",
    output: None,
};

/// Spend against the queue's budget; empty where it has none.
fn budget(facts: &Facts, row: Row) -> Cell<'_> {
    let name = name_of(facts, row);
    let own = |state: &&BudgetState| match &state.budget.scope {
        BudgetScope::Part(Dimension::Queue, queue) => Some(queue) == name.as_ref(),
        _ => false,
    };
    let Some(state) = facts.budgets().find(own) else {
        return Cell::new(Value::Empty);
    };
    let budget = &state.budget;
    let spent = or_unknown(state.spent.map(|spent| budget.unit.words(spent)));
    let period = each(budget.period);
    let limit = budget.unit.words(budget.limit);
    let over = state.spent.is_some_and(|spent| spent > budget.limit);
    Cell::text(format!("{spent} / {limit}{period}")).role(match over {
        true => Role::Crit,
        false => Role::Text,
    })
}

/// The queues that exist in a queue system, as a tree; then those that only jobs reference.
fn collect(facts: &Facts, _: &RowScope) -> Vec<Row> {
    let tree = Tree::of(&facts.fleet.queues);
    let known = tree.order.iter().map(|(at, _)| *at as u32);
    let more = 0..named(facts).len() as u32;
    let beyond = facts.fleet.queues.len() as u32;
    known
        .chain(more.map(|at| beyond + at))
        .enumerate()
        .map(|(place, at)| (place as u32, at))
        .collect()
}

/// Queues that jobs reference but no queue system has, by name.
fn named(facts: &Facts) -> Vec<Name> {
    let known = |name: &Name| {
        let queues = facts.fleet.queues.iter();
        queues.into_iter().any(|queue| queue.name() == name)
    };
    let names = facts.fleet.jobs.iter().filter_map(|job| job.queue.as_ref());
    let mut names: Vec<Name> = names.filter(|name| !known(name)).cloned().collect();
    names.small_sort();
    names.dedup();
    names
}

pub(super) fn queue(facts: &Facts, row: Row) -> Option<&Queue> {
    facts.fleet.queues.get(row.1 as usize).map(|queue| &**queue)
}

/// The name of a queue that only jobs name.
fn bare(facts: &Facts, row: Row) -> Option<Name> {
    let at = (row.1 as usize).checked_sub(facts.fleet.queues.len())?;
    named(facts).into_iter().nth(at)
}

fn name_of(facts: &Facts, row: Row) -> Option<Name> {
    match queue(facts, row) {
        Some(queue) => Some(queue.name().clone()),
        None => bare(facts, row),
    }
}

fn is_cohort(facts: &Facts, row: Row) -> bool {
    queue(facts, row).is_some_and(|queue| queue.key.kind == QueueKind::Cohort)
}

fn of<'a>(facts: &'a Facts, row: Row, make: impl FnOnce(&'a Queue) -> Value<'a>) -> Cell<'a> {
    match queue(facts, row) {
        Some(queue) => Cell::new(make(queue)),
        None => Cell::new(Value::Unknown),
    }
}

fn sign(facts: &Facts, row: Row) -> (&'static str, Role) {
    let stopped = queue(facts, row).is_some_and(Queue::is_stopped);
    match (stopped, tally(facts, row).waiting) {
        (true, _) => ("□", Role::Warn),
        (false, 0) => ("●", Role::Ok),
        (false, _) => ("○", Role::Warn),
    }
}

fn name(facts: &Facts, row: Row) -> Cell<'_> {
    let Some(queue) = queue(facts, row) else {
        let words = bare(facts, row).map_or(String::from("–"), |name| name.to_string());
        return Cell::text(words).role(Role::Title);
    };
    let tree = Tree::of(&facts.fleet.queues);
    let depth = tree.depth(row.1 as usize);
    let branch = if tree.has_children(row.1 as usize) {
        "▾ "
    } else if depth > 0 {
        "· "
    } else {
        ""
    };
    let words = format!("{}{branch}{}", "  ".repeat(depth), queue.name());
    Cell::text(words).role(Role::Title)
}

fn share(facts: &Facts, row: Row) -> Cell<'_> {
    // Without fair sharing no queue has a share.
    let fair = facts.fleet.queues.iter().any(|queue| queue.share.is_some());
    let high = queue(facts, row).is_some_and(|queue| queue.share.is_some_and(|share| share > 1.0));
    of(facts, row, |queue| match (queue.key.kind, queue.share) {
        (_, Some(share)) => Value::Number(share),
        (QueueKind::Cohort, None) => Value::Empty,
        (QueueKind::Queue, None) if fair => Value::Unknown,
        (QueueKind::Queue, None) => Value::Empty,
    })
    .role(if high { Role::Warn } else { Role::Text })
}

fn count(count: u32, role: Role) -> Cell<'static> {
    Cell::new(Value::Count(i64::from(count))).role(if count == 0 { Role::Muted } else { role })
}

/// Names of the queues of a row: the queue's own, or all queues below a cohort.
fn names(facts: &Facts, row: Row) -> Vec<Name> {
    let Some(queue) = queue(facts, row) else {
        return bare(facts, row).into_iter().collect();
    };
    let own = (queue.key.kind == QueueKind::Queue).then(|| queue.name().clone());
    let tree = Tree::of(&facts.fleet.queues);
    let below = tree.below(row.1 as usize);
    let below = below.filter_map(|at| facts.fleet.queues.get(at));
    let below = below.filter(|queue| queue.key.kind == QueueKind::Queue);
    own.into_iter()
        .chain(below.map(|queue| queue.name().clone()))
        .collect()
}

/// Work of a queue, or of all queues below it.
fn tally(facts: &Facts, row: Row) -> Tally {
    let (names, system) = (names(facts, row), system_of_row(facts, row));
    let of_system = |job: &Job| system.is_none_or(|known| queues::system_of(facts, job) == known);
    let mut tally = Tally::default();
    for job in facts.fleet.jobs.iter().filter(|job| facts.has_job(job)) {
        let named = job.queue.as_ref().is_some_and(|name| names.contains(name));
        if named && of_system(job) {
            tally.add(job);
        }
    }
    tally
}

/// The queue system of a row. For a queue that only jobs reference (not readable, or missing) all its jobs are counted,
/// whichever system they belong to.
fn system_of_row(facts: &Facts, row: Row) -> Option<QueueSystem> {
    queue(facts, row).map(Queue::system)
}

fn rate_cell(facts: &Facts, row: Row) -> Cell<'_> {
    let (names, system) = (names(facts, row), system_of_row(facts, row));
    let parts = names.iter().map(|name| match system {
        Some(system) => queues::queue_rate(facts, name, system),
        None => queues::burn_of(facts, name),
    });
    match parts.sum::<Option<Money>>() {
        Some(sum) => Cell::new(Value::Money(sum)).role(Role::Accent),
        None => Cell::new(Value::Unknown),
    }
}

/// Why a queue admits nothing; empty when it admits.
fn stopped(queue: &Queue) -> String {
    match (queue.stop, queue.activity.active) {
        (Stop::None, Some(false)) => {
            format!("{} {}", queue.activity.reason, queue.activity.message)
        }
        (Stop::None, _) => String::new(),
        (stop, _) => format!("{}: admits no new jobs", stop.name()),
    }
}

/// The tree above, the waiting jobs of the queue under the cursor below.
pub struct QueuesView {
    table: TableView,
    /// Waiting jobs of the queue under the cursor in their order, each with how many wait before it.
    waiting: Vec<(usize, u32)>,
}

/// The columns of pending jobs whose text wraps onto further lines.
const REASON: usize = 6;
const START: usize = 7;

/// Columns of the waiting jobs.
const HEADS: &[ColumnHead] = &[
    head("#", Align::Right, Width::Fit(2), 4),
    head("WAITING JOB", Align::Left, Width::Cut(20, 40), 0),
    head("DEV", Align::Right, Width::Fit(3), 0),
    head("CLASS", Align::Left, Width::Cut(4, 10), 6),
    head("PRIO", Align::Right, Width::Fit(4), 5),
    head("WAIT", Align::Right, Width::Fit(5), 0),
    head("REASON", Align::Left, Width::Cut(20, 70), 1),
    head("WHAT WOULD START IT", Align::Left, Width::Cut(20, 60), 2),
    head("ETA", Align::Right, Width::Fit(3), 3),
];

const fn head(title: &'static str, align: Align, width: Width, drop: u8) -> ColumnHead {
    ColumnHead {
        title,
        align,
        width,
        drop,
    }
}

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
        let note = u16::from(self.table.table_model.has_list_prices());
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

    fn choose(&mut self, facts: &Facts) {
        let Some(row) = self.table.table_model.current() else {
            self.waiting.clear();
            return;
        };
        let names = names(facts, row);
        let all = &facts.fleet.jobs;
        let mut waiting: Vec<u32> = (0..all.len() as u32)
            .filter(|at| {
                let job = &all[*at as usize];
                let here = job.queue.as_ref().is_some_and(|name| names.contains(name));
                here && job.state == JobState::Waiting
            })
            .collect();
        waiting.small_sort_by_key(|at| order(&all[*at as usize]));
        // A position counts all waiting jobs, including those outside the scope.
        let placed = waiting.into_iter().enumerate();
        let ours = placed.filter(|(_, at)| facts.has_job(&all[*at as usize]));
        self.waiting = ours.collect();
    }

    fn draw_waiting(&self, facts: &Facts, painter: &mut Painter<'_>, area: Rect) {
        let Some(row) = self.table.table_model.current() else {
            return;
        };
        let name = name_of(facts, row).map_or(String::new(), |name| name.to_string());
        let note = match self.waiting.len() {
            0 => String::new(),
            some => format!(
                "{}{}",
                counted(some as u64, "job"),
                waiting::answered(facts, painter)
            ),
        };
        let whole = facts.fleet.sees_all_work();
        let title = match (&facts.part, whole) {
            (Some(part), _) => format!("waiting in {name}, {}", part.scope.words()),
            (None, true) => format!("waiting in {name}, in order"),
            (None, false) => format!("waiting in {name}, of what is visible to you"),
        };
        let inside = panel(painter, area, &title, &note);
        if self.waiting.is_empty() {
            let words = match queue(facts, row).map(stopped) {
                Some(why) if !why.is_empty() => why,
                _ if facts.part.is_some() => {
                    let part = facts.part.as_ref();
                    let whose = part.map_or_else(String::new, |part| part.scope.words());
                    format!("no job of {whose} waits here")
                }
                _ if !whole => String::from("no job that is visible to you waits here"),
                _ => String::from("nothing waits here"),
            };
            painter.print(inside.x, inside.y, inside.width, &words, Role::Muted);
            return;
        }
        let room = usize::from(inside.height.saturating_sub(1));
        let all: Vec<Vec<Cell<'_>>> = self
            .waiting
            .iter()
            .take(room)
            .filter_map(|(place, index)| {
                let job = facts.fleet.jobs.get(*index as usize)?;
                Some(cells(facts, job, *place))
            })
            .collect();
        // The table keeps two cells for its edge; the panel has air of its own.
        let wide = Rect::new(inside.x - 2, inside.y, inside.width + 2, inside.height);
        let told = wrapped(painter, wide.width, HEADS, all, &[REASON, START]);
        let heights: Vec<usize> = told.rows.iter().map(Vec::len).collect();
        let shown = fitting(&heights, self.waiting.len(), room);
        let rows: Vec<Vec<Cell<'_>>> = told
            .rows
            .into_iter()
            .zip(&shown)
            .flat_map(|(lines, high)| first_lines(lines, *high))
            .collect();
        table(painter, wide, HEADS, &told.widest, &rows, &Look::default());
        let more = self.waiting.len() - shown.len();
        if more > 0 && inside.height > 1 {
            let words = format!("+{more} more   enter opens them all");
            let y = inside.bottom() - 1;
            painter.print(inside.x, y, inside.width, &words, Role::Muted);
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

/// Sort key of a pending job: the position that its system reports; else priority, then time.
fn order(job: &Job) -> (u32, std::cmp::Reverse<i32>, Moment) {
    let place = job.admission.as_ref().and_then(|known| known.position);
    (
        place.unwrap_or(u32::MAX),
        std::cmp::Reverse(job.priority.unwrap_or(0)),
        job.waiting_since.unwrap_or(job.created),
    )
}

fn cells<'a>(facts: &'a Facts, job: &'a Job, at: usize) -> Vec<Cell<'a>> {
    let known = job.admission.as_ref().and_then(|known| known.position);
    let place = known.map_or(at as i64, i64::from) + 1;
    // Other pending jobs may not be visible: then only the queue system knows the positions.
    let place = match known.is_none() && !facts.fleet.sees_all_work() {
        true => Cell::new(Value::Unknown),
        false => Cell::new(Value::Count(place)).mark(if known.is_none() { "~" } else { "" }),
    };
    let class = Value::known(table::jobs::class_words(job), Value::text);
    vec![
        place.role(Role::Muted),
        Cell::new(Value::path(&job.id.key)).role(Role::Title),
        Cell::new(Value::Count(i64::from(job.devices_requested))),
        Cell::new(class),
        Cell::new(Value::known(job.priority, |priority| {
            Value::Count(i64::from(priority))
        }))
        .role(Role::Muted),
        Cell::new(Value::Since(job.waiting_since.unwrap_or(job.created))).role(Role::Warn),
        Cell::text(waiting::why(facts, job)),
        Cell::text(waiting::mend(facts, job)).role(Role::Info),
        Cell::new(Value::known(waiting::eta(facts, job), |(words, at)| {
            Value::Starts(words, at)
        })),
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
        self.table.paint(facts, painter, above, true);
        if below.height >= 3 && !self.table.table_model.rows().is_empty() {
            let air = u16::from(area.width > 60);
            let inset = Rect::new(below.x + air, below.y, below.width - 2 * air, below.height);
            self.draw_waiting(facts, painter, inset);
        }
    }
}
