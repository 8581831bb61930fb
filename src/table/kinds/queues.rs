//! Queues: their tree with quotas, shares, jobs and cost.

use model::base::Name;
use model::fleet::queue::{Queue, QueueKind, Stop};
use model::schema::of_rows;
use usage::{BudgetScope, BudgetState, Dimension};

use crate::Facts;
use crate::budgets::each;
use crate::cell::{Cell, Value};
use crate::column::{Column, KindSpec, Row, RowOutput, id_of};
use crate::kind::{Exporters, KindNames, KindView, UNKNOWN_IS_NULL};
use crate::navigation::{Destination, RowScope, Selection, ViewId};
use crate::role::Role;
use crate::rows::queue_quotas::{flavor, left};
use crate::rows::queue_tree::QueueOrder;
use crate::rows::queues::QueueRow;
use crate::rows::queues::{
    self, QueueIdentity, RowOf, Tally, named, quota_cells, quota_list, rate_of, seen, tallies,
    tally_of,
};
use crate::text::or_unknown;

/// The columns of the quota of each flavor, the one with most devices first.
pub const FLAVORS: [&str; 8] = [
    "quota", "quota2", "quota3", "quota4", "quota5", "quota6", "quota7", "quota8",
];

/// Queues. A row is its place in the order, and its place among the queues of all systems, then those that only jobs name, then
/// the row of no queue.
pub static KIND: KindSpec = KindSpec {
    columns: &[
        Column::words("queue", "NAME", 0, (16, 34), name)
            .by("name")
            .sign(sign),
        Column::words("parent", "PARENT", 14, (6, 20), |facts, row| {
            of(facts, row, |queue| match queue.parent.as_deref() {
                Some(parent) => Value::text(parent),
                None => Value::Empty,
            })
        })
        .by("parent")
        .wide(),
        Column::words("left", "OWN QUOTA LEFT", 2, (22, 200), left)
            .whole("QUEUE LEFT")
            .yields_to(&FLAVORS)
            .wide_output(),
        // All flavors in one column: the screen has a column for each.
        Column::words("quotas", "QUOTA", 15, (8, 200), |facts, row| {
            of(facts, row, |queue| match &*quota_cells(queue) {
                [] => Value::Empty,
                cells => Value::text(quota_list(cells)),
            })
        })
        .whole("QUEUE QUOTA")
        .wide_on_screen(),
        flavor::<0>(FLAVORS[0], 3),
        flavor::<1>(FLAVORS[1], 6),
        flavor::<2>(FLAVORS[2], 8),
        flavor::<3>(FLAVORS[3], 9),
        flavor::<4>(FLAVORS[4], 10),
        flavor::<5>(FLAVORS[5], 11),
        flavor::<6>(FLAVORS[6], 12),
        flavor::<7>(FLAVORS[7], 13),
        Column::number("share", "SHARE", 5, 5, share)
            .by("share")
            .rare()
            .whole("QUEUE SHARE")
            .wide_output(),
        Column::number("run", "RUNNING", 3, 4, |facts, row| {
            count(facts, tally(facts, row).running)
        })
        .by("running"),
        Column::number("wait", "WAITING", 0, 4, |facts, row| {
            count(facts, tally(facts, row).waiting)
        })
        .by("waiting"),
        Column::number("oldest", "OLDEST", 2, 6, |facts, row| {
            match tally(facts, row).oldest {
                Some(since) => Cell::new(Value::Since(since)),
                None => Cell::new(Value::Empty),
            }
        })
        .by("oldest_waiting_seconds"),
        Column::number("burn", "$/h", 4, 6, rate_cell).by("burn_usd_per_hour"),
        Column::words("budget", "MTD / BUDGET", 6, (14, 26), budget)
            .rare()
            .wide_output(),
        Column::words("system", "SYSTEM", 9, (6, 9), |facts, row| {
            Cell::text(row_of(facts, row).identity().1.name()).role(Role::Muted)
        })
        .by("system"),
        Column::number("weight", "WEIGHT", 11, 6, |facts, row| {
            of(facts, row, |queue| {
                Value::known(queue.weight, Value::Number)
            })
        })
        .by("weight")
        .wide(),
        Column::words("strategy", "STRATEGY", 12, (8, 12), |facts, row| {
            of(facts, row, |queue| Value::text(queue.strategy.name())).role(Role::Muted)
        })
        .wide(),
        Column::words("stopped", "STOPPED", 7, (7, 30), |facts, row| {
            of(facts, row, |queue| match stopped(queue) {
                why if why.is_empty() => Value::text("no"),
                why => Value::text(why),
            })
            .role(match is_stopped(facts, row) {
                true => Role::Warn,
                false => Role::Muted,
            })
        })
        .wide(),
    ],
    collect,
    id: |facts, row| match row_of(facts, row) {
        RowOf::Queue(_, queue) => id_of(&queue.key),
        other => id_of(other.identity()),
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
    faulty: is_stopped,
    worst: None,
    last: |_, _| false,
    searched: None,
    sort: None,
    none: "no queues: no Kueue, Volcano or KAI found, and no job names a queue",
};

/// How `get` finds and writes the rows.
pub static OUTPUT: RowOutput = RowOutput {
    names: KindNames {
        plural: "queues",
        singular: "queue",
        aliases: &["queue"],
        help: "Queues that jobs wait in",
        title: "Queues",
        description: UNKNOWN_IS_NULL,
        schema: of_rows::<QueueRow<'_>>,
    },
    view: KindView::tab(ViewId::Queues).words(&["q", "cq", "lq"]),
    reads: |table| !table.holds_scaling(),
    exporters: // Only the rate needs readings: a device's price depends on its class.
    |_| Exporters::Priced,
    note: |_, _| None,
    rows: |facts, _| {
        let queues = facts.fleet.queues.len();
        let place = |of: RowOf<'_>| match of {
            RowOf::Queue(at, _) => at as u32,
            RowOf::Named(at, _) => (queues + at) as u32,
            RowOf::Unattributed => u32::MAX,
        };
        let all = queues::rows_of(facts, &tallies(facts, |_| true));
        let all = all.into_iter().enumerate();
        all.map(|(at, of)| (at as u32, place(of))).collect()
    },
    key: |facts, row| {
        let (name, system) = row_of(facts, row).identity();
        format!("{name} ({})", system.name())
    },
    also: |facts, row| vec![row_of(facts, row).identity().0.to_owned()],
    name: Some(|facts, row| format!("queue/{}", row_of(facts, row).identity().0)),
    place: None,
    labels: None,
    json: |facts, rows, style| {
        let all = rows.iter().map(|row| row_of(facts, *row));
        let all = queues::rows_as_json(facts, all, &tallies(facts, |_| true));
        all.iter().map(|row| style.write(row)).collect()
    },
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
    let spent = or_unknown(state.spent_words());
    let period = each(budget.period);
    let limit = budget.unit.words(budget.limit);
    let over = state.spent.is_some_and(|spent| spent > budget.limit);
    Cell::text(format!("{spent} / {limit}{period}")).role(match over {
        true => Role::Crit,
        false => Role::Text,
    })
}

/// The queues that exist in a queue system, as a tree; then those that only jobs name.
fn collect(facts: &Facts, _: &RowScope) -> Vec<Row> {
    let tree = QueueOrder::of(&facts.fleet.queues);
    let known = tree.order.iter().map(|(at, _)| *at as u32);
    let more = 0..named(facts, &tallies(facts, |_| true)).len() as u32;
    let beyond = facts.fleet.queues.len() as u32;
    known
        .chain(more.map(|at| beyond + at))
        .enumerate()
        .map(|(place, at)| (place as u32, at))
        .collect()
}

/// What this row of queues is.
pub fn row_of(facts: &Facts, row: Row) -> RowOf<'_> {
    let at = row.1 as usize;
    let queues = &facts.fleet.queues;
    if let Some(queue) = queues.get(at) {
        return RowOf::Queue(at, queue);
    }
    let (at, named) = (at - queues.len(), named(facts, &tallies(facts, |_| true)));
    match named.get(at) {
        Some(identity) => RowOf::Named(at, *identity),
        None => RowOf::Unattributed,
    }
}

/// The name of a row's queue; `None` for the row of no queue.
pub fn name_of(facts: &Facts, row: Row) -> Option<Name> {
    match row_of(facts, row) {
        RowOf::Unattributed => None,
        of => Some(Name::new(of.identity().0)),
    }
}

fn is_cohort(facts: &Facts, row: Row) -> bool {
    let queue = row_of(facts, row).queue();
    queue.is_some_and(|queue| queue.key.kind == QueueKind::Cohort)
}

fn is_stopped(facts: &Facts, row: Row) -> bool {
    let queue = row_of(facts, row).queue();
    queue.is_some_and(Queue::is_stopped)
}

fn of<'a>(facts: &'a Facts, row: Row, make: impl FnOnce(&'a Queue) -> Value<'a>) -> Cell<'a> {
    match row_of(facts, row).queue() {
        Some(queue) => Cell::new(make(queue)),
        None => Cell::new(Value::Unknown),
    }
}

fn sign(facts: &Facts, row: Row) -> (&'static str, Role) {
    match (is_stopped(facts, row), tally(facts, row).waiting) {
        (true, _) => ("□", Role::Warn),
        (false, 0) => ("●", Role::Ok),
        (false, _) => ("○", Role::Text),
    }
}

fn name(facts: &Facts, row: Row) -> Cell<'_> {
    let of = row_of(facts, row);
    let name = of.identity().0;
    let value = match of {
        RowOf::Queue(at, _) => {
            let tree = QueueOrder::of(&facts.fleet.queues);
            let depth = tree.depth(at);
            let branch = match (tree.has_children(at), depth) {
                (true, _) => "▾ ",
                (false, 0) => "",
                (false, _) => "· ",
            };
            Value::Branch(format!("{}{branch}", "  ".repeat(depth)), name)
        }
        _ => Value::text(name),
    };
    Cell::new(value).role(Role::Title)
}

fn share(facts: &Facts, row: Row) -> Cell<'_> {
    // Without fair sharing no queue has a share.
    let fair = facts.fleet.queues.iter().any(|queue| queue.share.is_some());
    let queue = row_of(facts, row).queue();
    let high = queue.is_some_and(|queue| queue.share.is_some_and(|share| share > 1.0));
    of(facts, row, |queue| match (queue.key.kind, queue.share) {
        (_, Some(share)) => Value::Number(share),
        (QueueKind::Queue, None) if fair => Value::Unknown,
        _ => Value::Empty,
    })
    .role(if high { Role::Warn } else { Role::Text })
}

fn count(facts: &Facts, count: u32) -> Cell<'static> {
    let role = if count == 0 { Role::Muted } else { Role::Text };
    let seen = seen(facts, count);
    Cell::new(Value::known(seen, |count| Value::Count(i64::from(count)))).role(role)
}

/// The queues whose jobs a row has: its own, and those below it.
pub fn members(facts: &Facts, row: Row) -> Vec<QueueIdentity<'_>> {
    let queues = &facts.fleet.queues;
    row_of(facts, row).members(queues, &QueueOrder::of(queues))
}

/// Jobs of a queue and of all queues below it.
fn tally(facts: &Facts, row: Row) -> Tally {
    let members = members(facts, row);
    let is_own = |name: &str| members.iter().any(|(own, _)| *own == name);
    tally_of(&members, &tallies(facts, is_own))
}

fn rate_cell(facts: &Facts, row: Row) -> Cell<'_> {
    match rate_of(facts, &members(facts, row)) {
        Some(sum) => Cell::new(Value::Money(sum)),
        None => Cell::new(Value::Unknown),
    }
}

/// Why a queue admits nothing; empty when it admits.
pub fn stopped(queue: &Queue) -> String {
    match (queue.stop, queue.activity.active) {
        (Stop::None, Some(false)) => {
            format!("{} {}", queue.activity.reason, queue.activity.message)
        }
        (Stop::None, _) => String::new(),
        (stop, _) => format!("{}: admits no new jobs", stop.name()),
    }
}
