//! Nodes: status and state, place, devices, heat, power and money of each.

use std::borrow::Cow;
use std::cmp::Reverse;

use model::base::{SmallSort, natural};
use model::fleet::device::Device;
use model::fleet::judge;
use model::fleet::node::Node;
use model::fleet::observe::Table;
use model::schema::of_rows;

use crate::Facts;
use crate::cell::{Cell, Value};
use crate::column::{Column, KindSpec, Row, RowOutput, id_of};
use crate::kind::{Exporters, Format, KindNames, KindView, UNKNOWN_IS_NULL};
use crate::navigation::{Destination, RowScope, Selection, ViewId};
use crate::role::Role;
use crate::row_labels::RowLabels;
use crate::rows::nodes::NodeRow;
use crate::rows::nodes::{self, NodeState};

pub static KIND: KindSpec = KindSpec {
    columns: &[
        Column::words("node", "NAME", 0, (18, 40), name)
            .by("name")
            .sign(|facts, row| {
                node(facts, row).map_or(("–", Role::Muted), |node| {
                    let (sign, role, _) = state_of(facts, node);
                    (sign, role)
                })
            }),
        Column::words("status", "STATUS", 3, (5, 24), |facts, row| {
            Cell::new(Value::known(node(facts, row), |node| {
                Value::text(nodes::status(facts, node))
            }))
        })
        .by("ready")
        .wide_on_screen(),
        Column::words("state", "STATE", 2, (12, 24), state).wide_output(),
        // A state that an alert already names is not repeated.
        Column::words("warning", "WARNING", 2, (7, 18), |facts, row| {
            let warning = node(facts, row).and_then(|node| nodes::warning(facts, node));
            let words = warning.map_or(Value::Empty, |it| Value::text(it.code.as_str()));
            Cell::new(words).role(Role::Warn)
        })
        .rare()
        .wide_output(),
        Column::words("pool", "POOL", 4, (12, 24), |facts, row| {
            of(facts, row, |node| Value::text(node.pool.as_str()))
        })
        .by("pool"),
        Column::words("rack", "RACK", 6, (4, 14), |facts, row| {
            of(facts, row, |node| {
                Value::known(node.rack.as_deref(), Value::text)
            })
        })
        .by("rack"),
        Column::words("zone", "ZONE", 9, (10, 16), |facts, row| {
            of(facts, row, |node| {
                Value::known(node.zone.as_deref(), Value::text)
            })
            .role(Role::Muted)
        })
        .by("zone"),
        Column::words("class", "CLASS", 5, (4, 14), class).wide_output(),
        Column::number("devices", "DEVICES", 0, 5, allocated_cell)
            .by("devices.allocated")
            .whole("ALLOC/NODE TOTAL"),
        Column::graphic("alloc", "ALLOCATED", 7, (4, 8), allocated).wide_output(),
        Column::number("util", "UTIL", 1, 4, util)
            .by("util_ratio")
            .wide_output(),
        Column::number("mem", "MEM", 8, 4, memory)
            .by("mem_used_ratio")
            .wide_output(),
        Column::number("temp", "T MAX", 3, 5, temp)
            .by("temp_max_celsius")
            .wide_output(),
        Column::number("power", "kW", 8, 4, |facts, row| {
            reading(facts, row, |node| {
                let power = nodes::power(facts.devices_of(node));
                Value::known(power, |watts| Value::Power(watts, None))
            })
        })
        .by("power_watts")
        .wide_output(),
        Column::number("pods", "PODS", 10, 4, |facts, row| {
            of(facts, row, |node| match facts.fleet.sees_all_work() {
                true => Value::Count(i64::from(node.pod_count)),
                false => Value::Unknown,
            })
            .role(Role::Muted)
        })
        .by("pods")
        .whole("NODE PODS"),
        Column::number("burn", "$/h", 1, 5, |facts, row| {
            of(facts, row, |node| {
                // Where nodes may not be listed, only some of a node's devices are visible.
                let listed = !facts.fleet.is_hidden(Table::Nodes);
                let rate = facts.rate_of_node(node.name()).filter(|_| listed);
                Value::known(rate, Value::Money)
            })
        })
        .by("burn_usd_per_hour"),
        Column::number("cordoned", "CORDONED", 11, 5, |facts, row| {
            let Some(cordon) = node(facts, row).and_then(|node| node.cordon.as_ref()) else {
                return Cell::new(Value::Empty);
            };
            Cell::new(Value::known(cordon.at, Value::Since)).role(Role::Warn)
        })
        .by("cordoned.at")
        .rare()
        .wide_output(),
        Column::words("why", "CORDONED BY", 10, (12, 44), |facts, row| {
            let words = node(facts, row).and_then(nodes::cordoned_by);
            Cell::text(words.unwrap_or_default()).role(Role::Warn)
        })
        .by("cordoned")
        .rare()
        .wide_output(),
        Column::words("type", "INSTANCE", 11, (8, 20), |facts, row| {
            of(facts, row, |node| {
                Value::known(node.instance_type.as_deref(), Value::text)
            })
        })
        .by("instance_type")
        .wide_on_screen(),
        Column::words("clique", "CLIQUE", 13, (8, 24), |facts, row| {
            of(facts, row, |node| {
                Value::known(node.clique.as_deref(), Value::text)
            })
        })
        .by("clique")
        .rare()
        .wide(),
        Column::words("driver", "DRIVER", 12, (6, 14), |facts, row| {
            of(facts, row, |node| {
                Value::known(node.driver.as_deref(), Value::text)
            })
        })
        .by("driver_version")
        .wide(),
        Column::words("provider-id", "PROVIDER ID", 16, (12, 40), |facts, row| {
            of(facts, row, |node| {
                Value::known(node.seen.provider_id.as_deref(), Value::text)
            })
            .middle()
        })
        .by("provider_id")
        .wide(),
        Column::number("allocatable", "ALLOCATABLE", 13, 4, |facts, row| {
            of(facts, row, |node| {
                Value::known(nodes::allocatable(facts, node), |count| {
                    Value::Count(i64::from(count))
                })
            })
        })
        .by("devices.allocatable")
        .whole("NODE ALLOCATABLE")
        .wide(),
        Column::number("free", "FREE", 12, 4, |facts, row| {
            of(facts, row, |node| {
                let free = nodes::counts(facts, node).free_usable;
                Value::known(free, |free| Value::Devices(free, None))
            })
        })
        .by("devices.free_usable")
        .whole("NODE FREE")
        .wide(),
        Column::words(
            "unusable",
            "FREE BUT NOT USABLE",
            15,
            (8, 30),
            |facts, row| {
                of(facts, row, |node| {
                    let unusable = nodes::counts(facts, node).unusable;
                    let words = unusable.and_then(|unusable| unusable.words());
                    words.map_or(Value::Empty, Value::text)
                })
            },
        )
        .whole("NODE FREE BUT NOT USABLE")
        .wide()
        .rare(),
        Column::number("unhealthy", "UNHEALTHY", 12, 4, |facts, row| {
            of(facts, row, |node| {
                let unhealthy = nodes::counts(facts, node).unhealthy;
                Value::known(unhealthy, |count| Value::Count(i64::from(count)))
            })
        })
        .by("devices.unhealthy")
        .wide(),
        Column::number("idle-alloc", "IDLE ALLOC", 12, 4, |facts, row| {
            of(facts, row, |node| {
                let idle = nodes::counts(facts, node).idle_allocated;
                Value::known(idle, |idle| Value::Devices(idle, None))
            })
        })
        .by("devices.idle_allocated")
        .wide(),
        Column::words("billing", "BILLING", 13, (8, 9), |facts, row| {
            of(facts, row, |node| {
                Value::known(node.billing, |billing| Value::text(billing.name()))
            })
        })
        .wide(),
        Column::number("age", "AGE", 14, 5, |facts, row| {
            of(facts, row, |node| {
                Value::known(nodes::created(node), Value::Since)
            })
        })
        .by("age_seconds")
        .wide(),
    ],
    collect,
    id: |facts, row| node(facts, row).map_or(0, |node| id_of(node.name())),
    label: |facts, row, key| {
        let value = node(facts, row)?.seen.labels.get(key)?;
        Some(value.to_string())
    },
    selection: |facts, row| node(facts, row).map(|node| Selection::Node(node.name().clone())),
    open: |facts, row| {
        node(facts, row)
            .map(|node| Destination::Part(ViewId::Nodes, RowScope::Node(node.name().clone())))
    },
    faulty: |facts, row| {
        node(facts, row).is_some_and(|node| {
            (node.ready != Some(true) && !facts.fleet.is_hidden(Table::Nodes))
                || facts
                    .devices_of(node)
                    .any(|device| device.health.is_fault())
                || nodes::has_alert(facts, node)
        })
    },
    worst: Some(|facts, row| {
        let gravity = node(facts, row).map(|node| match nodes::state(facts, node).0 {
            NodeState::Down => 0,
            NodeState::Faulty => 1,
            NodeState::Alarmed => 2,
            NodeState::Ready => 3,
            NodeState::Cordoned => 4,
            NodeState::Hidden | NodeState::Lost => 5,
        });
        (gravity.unwrap_or(u8::MAX), Reverse(None))
    }),
    last: |_, _| false,
    // By name as people count: node-2 before node-10.
    searched: None,
    sort: Some((0, false)),
    none: "the cluster has no node",
};

/// How `get` finds and writes the rows.
pub static OUTPUT: RowOutput = RowOutput {
    names: KindNames {
        plural: "nodes",
        singular: "node",
        aliases: &["node", "no"],
        help: "Machines",
        title: "Nodes",
        description: UNKNOWN_IS_NULL,
        schema: of_rows::<NodeRow<'_>>,
    },
    view: KindView::tab(ViewId::Nodes).with_facts(),
    reads: |table| matches!(table, Table::Nodes | Table::Pods),
    exporters: |asked| match asked.format {
        Format::Table if !asked.uses_readings => Exporters::DevicesUnknown,
        _ => asked.exporters(Exporters::OfRows),
    },
    note: |_, _| None,
    key: |facts, row| node(facts, row).map_or_else(String::new, |node| node.name().to_string()),
    also: |_, _| Vec::new(),
    name: None,
    rows: |facts, _| every(facts),
    place: None,
    labels: Some(|facts, row| node(facts, row).map(|node| RowLabels::Own(&node.seen.labels))),
    json: |facts, rows, style| {
        let rows = rows.iter();
        rows.map(|row| style.write(&node(facts, *row).map(|node| nodes::row(facts, node))))
            .collect()
    },
};

/// Every node by name, including those without devices; in a scope, the nodes of its jobs.
fn every(facts: &Facts) -> Vec<Row> {
    let part = facts.part.as_ref();
    let nodes = (0..).zip(facts.fleet.nodes.iter());
    let within = |node: &Node| part.is_none_or(|part| part.reach.has_node(node.name()));
    let within = nodes.filter(|(_, node)| within(node));
    let mut rows: Vec<Row> = within.map(|(at, _)| (at, 0)).collect();
    by_node(facts, &mut rows);
    rows
}

/// Nodes that have or should have accelerators; all of them when none has.
fn collect(facts: &Facts, row_scope: &RowScope) -> Vec<Row> {
    let inside = |node: &Node| match row_scope {
        RowScope::Pool(pool) => node.pool == *pool,
        RowScope::Class(class) => node.devices.iter().any(|device| device.class == *class),
        _ => true,
    };
    let accelerated =
        |node: &Node| !node.devices.is_empty() || node.device_capacity > 0 || !node.is_counted();
    let any = facts.fleet.nodes.iter().any(|node| accelerated(node));
    let mut rows: Vec<Row> = facts
        .fleet
        .nodes
        .iter()
        .enumerate()
        .filter(|(_, node)| inside(node) && (!any || accelerated(node)))
        .map(|(at, _)| (at as u32, 0))
        .collect();
    by_node(facts, &mut rows);
    rows
}

/// Sorts rows that begin with a node's index in natural order of the nodes' names, `a100-2` before `a100-10`.
pub fn by_node(facts: &Facts, rows: &mut [Row]) {
    let name = |row: &Row| facts.fleet.nodes[row.0 as usize].name();
    rows.small_sort_by(|a, b| match a.0 == b.0 {
        true => std::cmp::Ordering::Equal,
        false => natural(name(a), name(b)),
    });
}

fn node(facts: &Facts, row: Row) -> Option<&Node> {
    facts.fleet.nodes.get(row.0 as usize).map(|node| &**node)
}

fn of<'a>(facts: &'a Facts, row: Row, make: impl FnOnce(&'a Node) -> Value<'a>) -> Cell<'a> {
    match node(facts, row) {
        Some(node) => Cell::new(make(node)),
        None => Cell::new(Value::Unknown),
    }
}

fn reading<'a>(facts: &'a Facts, row: Row, make: impl FnOnce(&'a Node) -> Value<'a>) -> Cell<'a> {
    let stale = node(facts, row).is_some_and(|node| {
        let mut devices = facts.devices_of(node).peekable();
        devices.peek().is_some() && devices.all(|device| device.is_stale(facts.now))
    });
    of(facts, row, make).stale(stale)
}

/// A node's state as a sign and words.
pub fn state_of<'a>(facts: &'a Facts, node: &Node) -> (&'static str, Role, Cow<'a, str>) {
    let (state, words) = nodes::state(facts, node);
    let (sign, role) = match state {
        NodeState::Hidden | NodeState::Lost => ("–", Role::Muted),
        NodeState::Down | NodeState::Faulty => ("×", Role::Crit),
        NodeState::Alarmed => ("▲", Role::Crit),
        NodeState::Cordoned => ("◐", Role::Warn),
        NodeState::Ready if nodes::warning(facts, node).is_some() => ("●", Role::Warn),
        NodeState::Ready => ("●", Role::Ok),
    };
    (sign, role, words)
}

fn name(facts: &Facts, row: Row) -> Cell<'_> {
    of(facts, row, |node| Value::text(node.name().as_str())).role(Role::Title)
}

fn state(facts: &Facts, row: Row) -> Cell<'_> {
    let Some(node) = node(facts, row) else {
        return Cell::new(Value::Unknown);
    };
    let (_, role, words) = state_of(facts, node);
    let role = if role == Role::Ok { Role::Muted } else { role };
    Cell::text(words).role(role)
}

fn class(facts: &Facts, row: Row) -> Cell<'_> {
    of(facts, row, |node| match node.devices.first() {
        Some(device) => Value::text(device.class.as_str()),
        None => Value::Unknown,
    })
}

fn allocated_cell(facts: &Facts, row: Row) -> Cell<'_> {
    of(facts, row, |node| {
        let counts = nodes::counts(facts, node);
        Value::known(counts.allocated.zip(counts.total), |(held, all)| {
            Value::Devices(held, Some(all))
        })
    })
}

fn allocated(facts: &Facts, row: Row) -> Cell<'_> {
    of(facts, row, |node| {
        let share = nodes::counts(facts, node).allocation();
        Value::known(share, Value::Bar)
    })
}

/// Marked idle where devices are allocated and none is working.
fn util(facts: &Facts, row: Row) -> Cell<'_> {
    let mean = node(facts, row).and_then(|node| nodes::mean(facts.devices_of(node), Device::util));
    let cell = reading(facts, row, |_| Value::known(mean, Value::Ratio));
    let held = || {
        let nodes = node(facts, row).into_iter();
        let mut devices = nodes.flat_map(|node| facts.devices_of(node));
        devices.any(Device::is_allocated)
    };
    match mean {
        Some(mean) if mean < 0.005 && held() => cell.role(Role::IdleMoney),
        Some(mean) if mean < 0.005 => cell.role(Role::Muted),
        _ => cell,
    }
}

fn memory(facts: &Facts, row: Row) -> Cell<'_> {
    reading(facts, row, |node| {
        Value::known(
            nodes::mean(facts.devices_of(node), Device::memory_ratio),
            Value::Ratio,
        )
    })
}

/// True when a finding reports a device of a matching node, or its rack, as too hot.
pub fn is_hot(facts: &Facts, such: impl Fn(&Node) -> bool) -> bool {
    let fleet = &facts.fleet;
    let mut own = fleet.findings.iter().filter(|one| facts.concerns(one));
    own.any(|finding| {
        let name = &finding.subject.key.name;
        match finding.code.as_str() {
            "heat" => name
                .rsplit_once('/')
                .and_then(|(node, _)| fleet.node(node))
                .is_some_and(|node| such(node)),
            "rack-hot" => fleet
                .nodes
                .iter()
                .any(|node| node.rack.as_ref() == Some(name) && such(node)),
            _ => false,
        }
    })
}

fn temp(facts: &Facts, row: Row) -> Cell<'_> {
    let hottest = node(facts, row).and_then(|node| nodes::hottest(facts.devices_of(node)));
    // A device has its own temperature threshold, and a hot rack also contains cool nodes.
    let severity = node(facts, row).and_then(|own| {
        let devices = facts.devices_of(own);
        let severities =
            devices.filter_map(|device| judge::device_heat_severity(device, &facts.fleet.policy));
        severities.min()
    });
    reading(facts, row, |_| Value::known(hottest, Value::Celsius)).severity(severity)
}

/// Temperatures that span the ramp of colors, degrees Celsius: a cool room, and where boards slow down.
const TEMPS: (f64, f64) = (30.0, 90.0);

/// The position of a temperature, degrees Celsius, on the ramp of colors: 0 for a cool room, 1 where boards slow down.
pub fn warmth(celsius: f64) -> f64 {
    (celsius - TEMPS.0) / (TEMPS.1 - TEMPS.0)
}
