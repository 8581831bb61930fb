//! Pools: size, fill, heat, power and money of each.

use model::base::{Moment, SmallSort, natural};
use model::cost::{Money, RateRow, Spend, SpendScope};
use model::fleet::finding::Severity;
use model::fleet::history::{FleetSignal, Track};
use model::fleet::judge;
use model::fleet::observe::Table;
use model::fleet::pool::{ClassCount, Pool, WaitingOutside};
use model::schema::of_rows;

use crate::cell::{Cell, Value};
use crate::column::{Column, KindSpec, Row, RowOutput, id_of};
use crate::kind::{Exporters, KindNames, KindView, UNKNOWN_IS_NULL};
use crate::kinds::cost::priced;
use crate::navigation::{Destination, RowScope, Selection, ViewId};
use crate::role::Role;
use crate::rows::pools::{self, PoolRow};
use crate::{Facts, kinds::nodes};

/// Idle money is marked from this share of a pool's burn on.
const WASTE_FROM: f64 = 0.10;

/// Pools, then rows for waiting devices of no pool, by reason.
pub static KIND: KindSpec = KindSpec {
    columns: &[
        Column::words("pool", "NAME", 0, (15, 28), name)
            .by("name")
            .sign(|facts, row| {
                pool(facts, row).map_or((" ", Role::Muted), |pool| sign(facts, pool))
            }),
        Column::words("class", "CLASS", 5, (8, 16), class).by("classes"),
        Column::words("mode", "MODE", 10, (7, 7), mode).by("mode"),
        Column::words("billing", "BILLING", 9, (8, 9), billing).by("billing"),
        Column::number("free", "FREE/TOTAL", 0, 10, free)
            .by("devices.free_usable")
            .whole("POOL FREE/TOTAL"),
        Column::graphic("alloc", "ALLOCATED", 0, (4, 12), allocated).by("devices.allocated"),
        Column::graphic("util", "UTIL 60m", 1, (4, 16), util)
            .trend(util_track)
            .by("util_ratio"),
        Column::number("mem", "MEM", 8, 4, memory).by("mem_used_ratio"),
        Column::number("temp", "T MAX", 6, 5, temp).by("temp_max_celsius"),
        Column::number("power", "kW/CAP", 7, 7, power).by("power_watts"),
        Column::number("wait", "WAIT", 3, 5, waiting).by("waiting_devices"),
        Column::number("burn", "$/h", 0, 6, rate_cell).by("burn_usd_per_hour"),
        Column::number("idle", "IDLE $/h", 2, 9, waste).wide_output(),
        Column::number("nodes", "READY/NODES", 11, 7, ready)
            .by("nodes.ready")
            .wide_on_screen()
            .whole("POOL READY/NODES"),
        Column::number("cordoned", "CORDONED", 12, 4, cordoned)
            .by("nodes.cordoned")
            .wide()
            .whole("POOL CORDONED"),
        Column::words("limits", "MIN..MAX", 13, (6, 12), limits)
            .by("nodes.max")
            .wide(),
        Column::words("owner", "OWNER", 14, (6, 20), owner)
            .by("owner")
            .wide()
            .rare(),
        Column::number("unhealthy", "UNHEALTHY", 11, 4, unhealthy)
            .by("devices.unhealthy")
            .wide(),
        Column::number("idle-devices", "IDLE ALLOC", 12, 4, |facts, row| {
            let idle = ours(facts, row).and_then(|pool| pool.counts().idle_allocated);
            Cell::new(Value::known(idle, |idle| Value::Devices(idle, None)))
        })
        .by("devices.idle_allocated")
        .wide(),
        Column::words(
            "unusable",
            "FREE BUT NOT USABLE",
            16,
            (8, 30),
            |facts, row| {
                let unusable = ours(facts, row).and_then(|pool| pool.counts().unusable);
                let words = unusable.and_then(|unusable| unusable.words());
                Cell::new(words.map_or(Value::Empty, Value::text))
            },
        )
        .whole("POOL FREE BUT NOT USABLE")
        .wide()
        .rare(),
        Column::number("free-usd", "UNALLOC $/h", 15, 8, |facts, row| {
            match facts.part {
                None => spent(facts, row, |spend| spend.free),
                // Free devices have no team or namespace.
                Some(_) => Cell::new(Value::Empty),
            }
        })
        .by("free_usd_per_hour")
        .wide_on_screen()
        .rare(),
        Column::number("idle-alloc", "IDLE ALLOC $/h", 15, 8, |facts, row| {
            spent(facts, row, |spend| spend.idle_allocated)
        })
        .by("idle_allocated_usd_per_hour")
        .wide_on_screen(),
    ],
    collect,
    id: |facts, row| match outside(facts, row) {
        Some(name) => id_of(name),
        None => pool(facts, row).map_or(0, |pool| id_of(&pool.name)),
    },
    label: |_, _, _| None,
    selection: |facts, row| pool(facts, row).map(|pool| Selection::Pool(pool.name.clone())),
    open: |facts, row| {
        pool(facts, row)
            .map(|pool| Destination::Part(ViewId::Pools, RowScope::Pool(pool.name.clone())))
    },
    faulty: |facts, row| {
        pool(facts, row).is_some_and(|pool| nodes_of(facts, pool).0 || needs_operator(facts, pool))
    },
    worst: None,
    last: |facts, row| pool(facts, row).is_none(),
    searched: None,
    sort: None,
    none: "no node has an accelerator",
};

/// How `get` finds and writes the rows.
pub static OUTPUT: RowOutput = RowOutput {
    names: KindNames {
        plural: "pools",
        singular: "pool",
        aliases: &["pool"],
        help: "What the fleet is made of",
        title: "Pools",
        description: UNKNOWN_IS_NULL,
        schema: of_rows::<PoolRow<'_>>,
    },
    view: KindView::tab(ViewId::Pools).with_facts(),
    reads: |table| {
        // Node limits of the pools.
        !table.holds_rules()
            && !matches!(
                table,
                Table::ProvisioningRequests
                    | Table::PodAutoscalers
                    | Table::ScaledObjects
                    | Table::LaunchFailures
            )
    },
    exporters: |asked| asked.exporters(Exporters::OfRows),
    note: |_, _| None,
    rows: |facts, _| every(facts),
    key: |facts, row| match outside(facts, row) {
        Some(name) => name.to_owned(),
        None => pool(facts, row).map_or_else(String::new, |pool| pool.name.to_string()),
    },
    also: |_, _| Vec::new(),
    name: None,
    place: None,
    labels: None,
    json: |facts, rows, style| {
        let rows = rows.iter();
        rows.map(|row| style.write(&row_of(facts, *row))).collect()
    },
};

/// Every pool by name; in a scope, the pools that its jobs use or wait for. Then rows for waiting devices of no pool.
fn every(facts: &Facts) -> Vec<Row> {
    let mut rows = collect(facts, &RowScope::All);
    if let Some(part) = &facts.part {
        let reached = |pool: &Pool| part.reach.has_pool(&pool.name) || pool.waiting_devices > 0;
        rows.retain(|row| ours(facts, *row).is_none_or(reached) || row.1 > 0);
    }
    rows
}

/// The rows of `get`.
pub fn rows(facts: &Facts) -> Vec<PoolRow<'_>> {
    let rows = every(facts).into_iter();
    rows.map(|row| row_of(facts, row)).collect()
}

fn row_of(facts: &Facts, row: Row) -> PoolRow<'_> {
    match (ours(facts, row), outside(facts, row)) {
        (Some(pool), _) => {
            let known = pools::row(facts, pool);
            let waiting_devices = if row.1 > 0 {
                Some(row.1)
            } else {
                known.waiting_devices
            };
            PoolRow {
                waiting_devices,
                ..known
            }
        }
        (None, name) => PoolRow::outside(name.unwrap_or_default(), row.1),
    }
}

fn collect(facts: &Facts, _: &RowScope) -> Vec<Row> {
    let mut rows: Vec<Row> = (0..facts.fleet.pools.len() as u32)
        .map(|at| (at, 0))
        .collect();
    let name = |row: &Row| &facts.fleet.pools[row.0 as usize].name;
    rows.small_sort_by(|a, b| natural(name(a), name(b)));
    let pools = rows.len() as u32;
    let outside = pools::waiting_outside(facts).counts();
    for (at, (devices, name)) in (0..).zip(outside.into_iter().zip(WaitingOutside::NAMES)) {
        if devices == 0 {
            continue;
        }
        // Pods on nodes that are not visible have a row of that name already.
        let known = facts
            .fleet
            .pools
            .iter()
            .position(|pool| *pool.name == *name);
        match rows.iter_mut().find(|row| Some(row.0 as usize) == known) {
            Some(row) => row.1 = devices,
            None => rows.push((pools + at, devices)),
        }
    }
    rows
}

/// The name of a row for waiting devices of no pool. How many there are is the second part of the row.
fn outside(facts: &Facts, row: Row) -> Option<&'static str> {
    let at = (row.0 as usize).checked_sub(facts.fleet.pools.len())?;
    WaitingOutside::NAMES.get(at).copied()
}

fn pool(facts: &Facts, row: Row) -> Option<&Pool> {
    facts.fleet.pools.get(row.0 as usize)
}

/// The pool as the scope has it: the devices, readings and waiting devices of its jobs.
fn ours(facts: &Facts, row: Row) -> Option<&Pool> {
    facts.pools().get(row.0 as usize)
}

fn cost(facts: &Facts, row: Row) -> Option<&RateRow> {
    facts
        .spend_rates
        .row(SpendScope::Pool, &pool(facts, row)?.name)
}

fn of<'a>(facts: &'a Facts, row: Row, make: impl FnOnce(&'a Pool) -> Value<'a>) -> Cell<'a> {
    match pool(facts, row) {
        Some(pool) => Cell::new(make(pool)),
        None => Cell::new(Value::Unknown),
    }
}

/// A reading of a pool: dimmed when it is stale.
fn reading<'a>(facts: &'a Facts, row: Row, make: impl FnOnce(&'a Pool) -> Value<'a>) -> Cell<'a> {
    let pool = ours(facts, row);
    let stale = pool.is_some_and(|pool| pool.stale);
    Cell::new(pool.map_or(Value::Unknown, make)).stale(stale)
}

/// True when one of its devices is faulty, or a finding requires action on the pool or one of its nodes; in a scope, when
/// that concerns the scope.
fn needs_operator(facts: &Facts, pool: &Pool) -> bool {
    let mut own = facts.pools().iter();
    let own = own.find(|own| own.name == pool.name).unwrap_or(pool);
    own.counts().unhealthy.is_some_and(|count| count > 0)
        || facts.fleet.findings.iter().any(|finding| {
            let name = &finding.subject.key.name;
            let within = match finding.subject.kind {
                "Pool" => *name == pool.name,
                "Node" => {
                    let node = facts.fleet.node(name);
                    node.is_some_and(|node| node.pool == pool.name)
                }
                _ => false,
            };
            within
                && finding.severity == Severity::Crit
                && facts.concerns(finding)
                && facts.silences.of(finding, facts.now).is_none()
        })
}

/// Whether one of the pool's nodes is not ready, and whether one is cordoned; in a scope, of those on which it has devices.
fn nodes_of(facts: &Facts, pool: &Pool) -> (bool, bool) {
    let Some(part) = &facts.part else {
        let nodes = pool.nodes;
        return (nodes.ready < nodes.total, nodes.cordoned > 0);
    };
    let nodes = || {
        let nodes = facts.fleet.nodes.iter();
        nodes.filter(|node| node.pool == pool.name && part.reach.has_node(node.name()))
    };
    (
        nodes().any(|node| node.ready != Some(true)),
        nodes().any(|node| node.cordon.is_some()),
    )
}

/// A pool's state as a sign: faults before missing nodes before emptiness.
pub fn sign(facts: &Facts, pool: &Pool) -> (&'static str, Role) {
    if needs_operator(facts, pool) {
        ("▲", Role::Crit)
    } else if pool.visible_nodes().is_none() {
        ("–", Role::Muted)
    } else if matches!(nodes_of(facts, pool), (true, _) | (_, true)) {
        ("◐", Role::Warn)
    } else if pool.devices.allocated.devices() * 2.0 < f64::from(pool.devices.total) {
        ("○", Role::Muted)
    } else {
        ("●", Role::Ok)
    }
}

fn name(facts: &Facts, row: Row) -> Cell<'_> {
    if let Some(name) = outside(facts, row) {
        return Cell::new(Value::text(name)).role(Role::Muted);
    }
    of(facts, row, |pool| Value::text(pool.name.as_str())).role(Role::Title)
}

/// `H100 ×8`: a class and how many of its devices a node has.
fn class_words(class: &ClassCount) -> String {
    let per_node = class.per_node.map(|count| format!(" ×{count}"));
    format!("{}{}", class.class, per_node.unwrap_or_default())
}

/// The classes of a pool with their devices of a node, the most devices first: `H100 ×8,L40S ×4`.
pub fn classes(pool: &Pool) -> String {
    let classes: Vec<String> = pool.classes.iter().map(class_words).collect();
    classes.join(",")
}

fn class(facts: &Facts, row: Row) -> Cell<'_> {
    of(facts, row, |pool| Value::text(classes(pool)))
}

fn mode(facts: &Facts, row: Row) -> Cell<'_> {
    of(facts, row, |pool| {
        Value::known(pool.mode, |mode| Value::text(mode.name()))
    })
    .role(Role::Muted)
}

fn billing(facts: &Facts, row: Row) -> Cell<'_> {
    of(facts, row, |pool| {
        if pool.billing_mixed {
            return Value::text("mixed");
        }
        Value::known(pool.billing, |billing| Value::text(billing.name()))
    })
    .role(Role::Muted)
}

fn free(facts: &Facts, row: Row) -> Cell<'_> {
    of(facts, row, |pool| {
        let counts = pool.counts();
        Value::known(counts.free_usable.zip(counts.total), |(free, total)| {
            Value::Devices(free, Some(total))
        })
    })
}

fn allocated(facts: &Facts, row: Row) -> Cell<'_> {
    let share = ours(facts, row).and_then(|pool| pool.counts().allocation());
    Cell::new(Value::known(share, Value::Bar))
}

fn util(facts: &Facts, row: Row) -> Cell<'_> {
    reading(facts, row, |pool| Value::Trend(Vec::new(), pool.util))
}

fn util_track(facts: &Facts, row: Row) -> Option<(Track, Option<Moment>)> {
    // The past of a scope is not kept.
    let pool = pool(facts, row).filter(|_| facts.part.is_none())?;
    Some((Track::Pool(pool.name.clone(), FleetSignal::Util), None))
}

fn memory(facts: &Facts, row: Row) -> Cell<'_> {
    reading(facts, row, |pool| Value::known(pool.mem_used, Value::Ratio))
}

fn temp(facts: &Facts, row: Row) -> Cell<'_> {
    let cell = reading(facts, row, |pool| {
        Value::known(pool.temp_max, Value::Celsius)
    });
    // A pool of several classes is as hot as the class whose threshold is lowest says.
    let severity = ours(facts, row).and_then(|pool| {
        let of_class =
            |celsius, class: &str| judge::heat_severity(celsius, None, class, &facts.fleet.policy);
        let own = pool.temp_max.and_then(|celsius| {
            let classes = pool.classes.iter();
            let severities = classes.filter_map(|one| of_class(celsius, &one.class));
            severities.min()
        });
        let found = || nodes::is_hot(facts, |node| node.pool == pool.name);
        own.or_else(|| found().then_some(Severity::Warn))
    });
    cell.severity(severity)
}

fn power(facts: &Facts, row: Row) -> Cell<'_> {
    reading(facts, row, |pool| {
        Value::known(pool.power_watts, |watts| {
            Value::Power(watts, pool.power_limit_watts)
        })
    })
}

fn waiting(facts: &Facts, row: Row) -> Cell<'_> {
    let of_pool = || ours(facts, row).filter(|pool| pool.visibility.nodes);
    let devices = match row.1 {
        0 => of_pool().map(|pool| pool.waiting_devices),
        outside => Some(outside),
    };
    let slices = of_pool().map_or(0, |pool| pool.waiting_slices);
    let count = |all: u32| match (row.1, slices) {
        (0, 1..) => Value::Requested(all - slices, slices),
        _ => Value::Count(i64::from(all)),
    };
    let cell = Cell::new(Value::known(devices, count));
    let role = if matches!(cell.value, Value::Count(0) | Value::Unknown) {
        Role::Muted
    } else {
        Role::Text
    };
    cell.role(role)
}

/// Money of a pool.
fn spent(facts: &Facts, row: Row, rate: impl FnOnce(&Spend) -> Option<Money>) -> Cell<'_> {
    let unpriced = cost(facts, row).map_or(0, |row| row.unpriced);
    let spend = pool(facts, row).and_then(|pool| pools::spend(facts, pool));
    priced(spend, unpriced, rate)
}

fn rate_cell(facts: &Facts, row: Row) -> Cell<'_> {
    spent(facts, row, |spend| Some(spend.rate))
}

/// Rate of devices that do no work, free or allocated.
fn waste(facts: &Facts, row: Row) -> Cell<'_> {
    let cell = spent(facts, row, |spend| pools::waste(facts, spend));
    let spend = pool(facts, row).and_then(|pool| pools::spend(facts, pool));
    let wasteful = spend.is_some_and(|spend| {
        let idle = pools::waste(facts, &spend);
        idle.is_some_and(|idle| idle.usd() > spend.rate.usd() * WASTE_FROM)
    });
    if wasteful {
        cell.role(Role::IdleMoney).mark(" ▲")
    } else {
        let mark = if cell.mark.is_empty() { "  " } else { "+ " };
        cell.role(Role::Muted).mark(mark)
    }
}

fn ready(facts: &Facts, row: Row) -> Cell<'_> {
    of(facts, row, |pool| {
        Value::known(pool.visible_nodes(), |nodes| {
            Value::Part(u64::from(nodes.ready), u64::from(nodes.total))
        })
    })
}

fn cordoned(facts: &Facts, row: Row) -> Cell<'_> {
    of(facts, row, |pool| {
        Value::known(pool.visible_nodes(), |nodes| {
            Value::Count(i64::from(nodes.cordoned))
        })
    })
}

fn limits(facts: &Facts, row: Row) -> Cell<'_> {
    of(facts, row, |pool| match (pool.nodes.min, pool.nodes.max) {
        (None, None) => Value::Unknown,
        (min, max) => {
            let text = |end: Option<u32>| end.map_or(String::from("–"), |end| end.to_string());
            Value::text(format!("{}..{}", text(min), text(max)))
        }
    })
}

fn owner(facts: &Facts, row: Row) -> Cell<'_> {
    of(facts, row, |pool| {
        pool.owner.as_deref().map_or(Value::Empty, Value::text)
    })
}

fn unhealthy(facts: &Facts, row: Row) -> Cell<'_> {
    let count = ours(facts, row).and_then(|pool| pool.counts().unhealthy);
    Cell::new(Value::known(count, |count| Value::Count(i64::from(count))))
}
