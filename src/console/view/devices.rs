//! Devices as rows: device, pod, job, queue and team joined on one line; also the fields of the heatmap's filter.

use model::cost::Money;
use model::fleet::device::{Device, Health};
use model::fleet::history::Track;
use model::fleet::judge;
use model::fleet::node::Node;
use model::fleet::signal::Signal;
use table::Facts;
use table::cell::{Cell, Value};
use table::column::{Column, KindSpec, Row, id_of};
use table::devices;
use table::role::Role;

use table::navigation::{Destination, RowScope, Selection};

/// The columns of devices.
const COLUMNS: &[Column] = &[
    Column::words("device", "DEVICE", 0, (18, 36), name).sign(|facts, row| {
        device(facts, row).map_or(("–", Role::Muted), |(_, device)| {
            let (sign, role, _) = health_of(device);
            (sign, role)
        })
    }),
    Column::words("class", "CLASS", 4, (4, 14), |facts, row| {
        of(facts, row, |_, device| Value::text(device.class.as_str()))
    }),
    Column::words("health", "HEALTH", 3, (7, 26), health),
    Column::words("pod", "POD", 1, (18, 44), pod),
    Column::words("job", "JOB", 9, (10, 24), |facts, row| {
        of(facts, row, |_, device| {
            Value::known(facts.first_holder(device), |(pod, _)| {
                Value::text(pod.job.key.name.as_str())
            })
        })
    }),
    Column::words("queue", "QUEUE", 10, (8, 16), |facts, row| {
        of(facts, row, |_, device| {
            Value::known(
                facts
                    .first_holder(device)
                    .and_then(|(pod, _)| pod.queue.as_deref()),
                Value::text,
            )
        })
    }),
    Column::words("team", "TEAM", 6, (8, 16), |facts, row| {
        of(facts, row, |_, device| {
            Value::known(facts.first_holder(device), |(pod, _)| {
                Value::text(pod.team.as_str())
            })
        })
    }),
    Column::graphic("util", "UTILIZATION", 0, (4, 16), util).trend(|facts, row| {
        let (_, device) = device(facts, row)?;
        Some((Track::DeviceUtil(device.id.clone()), device.held_since()))
    }),
    Column::number("mem", "MEMORY", 2, 9, |facts, row| {
        reading(facts, row, |device| match device.memory() {
            (Some(used), total) => Value::Bytes(used, total),
            (None, _) => Value::known(device.memory_ratio(), Value::Ratio),
        })
    }),
    Column::number("temp", "TEMP", 4, 4, |facts, row| {
        let cell = reading(facts, row, |device| {
            Value::known(device.signals.get(Signal::Temp), Value::Celsius)
        });
        let node = facts.fleet.nodes.get(row.0 as usize);
        let device = node.and_then(|node| node.devices.get(row.1 as usize));
        match device.is_some_and(|device| judge::device_is_hot(device, &facts.fleet.policy)) {
            true => cell.role(Role::Warn),
            false => cell,
        }
    }),
    Column::number("power", "POWER", 7, 5, |facts, row| {
        reading(facts, row, |device| {
            Value::known(device.signals.get(Signal::Power), Value::Watts)
        })
    }),
    Column::number("held", "HELD", 3, 5, |facts, row| {
        of(facts, row, |_, device| {
            Value::known(facts.first_holder(device), |(pod, _)| {
                Value::Since(pod.held_since())
            })
        })
    }),
    Column::number("idle-for", "IDLE FOR", 2, 5, |facts, row| {
        of(facts, row, |_, device| match device.idle() {
            Some(idle) if idle.at_least => Value::SeenSince(idle.since),
            Some(idle) => Value::Since(idle.since),
            None => Value::Empty,
        })
        .role(Role::IdleMoney)
    })
    .rare(),
    Column::number("cost", "$/h", 1, 5, cost),
    Column::number("slices", "SLICES", 2, 6, |facts, row| {
        of(facts, row, |_, device| match device.slices.len() {
            0 => Value::Empty,
            all => {
                let held = device.slices.iter().filter(|slice| slice.holder.is_some());
                Value::Part(held.count() as u64, all as u64)
            }
        })
    })
    .rare(),
    Column::words("node", "NODE", 12, (8, 30), |facts, row| {
        of(facts, row, |node, _| Value::text(node.name().as_str()))
    })
    .wide(),
    Column::words("pool", "POOL", 11, (6, 20), |facts, row| {
        of(facts, row, |node, _| Value::text(node.pool.as_str()))
    })
    .wide(),
    Column::words("rack", "RACK", 13, (4, 14), |facts, row| {
        of(facts, row, |node, _| {
            Value::known(node.rack.as_deref(), Value::text)
        })
    })
    .wide(),
    Column::number("tensor", "TENSOR", 14, 4, |facts, row| {
        reading(facts, row, |device| {
            Value::known(device.signals.get(Signal::TensorActive), Value::Ratio)
        })
    })
    .wide(),
    Column::number("read", "READ", 15, 4, |facts, row| {
        of(facts, row, |_, device| {
            Value::known(device.read_at, Value::Since)
        })
    })
    .wide(),
    Column::words("uuid", "UUID", 16, (8, 42), |facts, row| {
        of(facts, row, |_, device| {
            Value::known(device.uuid.as_deref(), Value::text)
        })
    })
    .wide(),
];
/// Place of the money among them.
const COST: usize = 13;

/// The table of devices.
pub static KIND: KindSpec = KindSpec {
    columns: COLUMNS,
    collect,
    id: |facts, row| device(facts, row).map_or(0, |(_, device)| id_of(&device.id)),
    label: |facts, row, key| {
        let (node, device) = device(facts, row)?;
        let of_pod = device
            .holders()
            .find_map(|(pod, _)| pod.seen.labels.get(key));
        of_pod
            .or_else(|| node.seen.labels.get(key))
            .map(|value| value.to_string())
    },
    selection: |facts, row| {
        device(facts, row)
            .map(|(node, device)| Selection::Device(node.name().clone(), device.index))
    },
    open: |facts, row| {
        device(facts, row).map(|(node, device)| {
            Destination::Facts(Selection::Device(node.name().clone(), device.index))
        })
    },
    faulty: |facts, row| {
        device(facts, row)
            .is_some_and(|(_, device)| matches!(device.health, Health::Fault(_) | Health::Warn(_)))
    },
    worst: None,
    last: |_, _| false,
    searched: None,
    sort: None,
    none: "no device here",
    output: None,
};

/// Idle allocated devices, the most expensive first.
pub static IDLE: KindSpec = KindSpec {
    searched: None,
    sort: Some((COST, true)),
    none: "no allocated device is idle",
    ..KIND
};

fn collect(facts: &Facts, row_scope: &RowScope) -> Vec<Row> {
    let mut rows = Vec::new();
    match row_scope {
        RowScope::Job(job) => {
            let places = facts.fleet.job(job).map(|job| &*job.places);
            for place in places.unwrap_or_default() {
                let Ok(at) = facts
                    .fleet
                    .nodes
                    .binary_search_by(|node| node.name().cmp(&place.node))
                else {
                    continue;
                };
                let found = facts.fleet.nodes[at]
                    .devices
                    .iter()
                    .position(|device| device.index == place.device);
                if let Some(found) = found {
                    rows.push((at as u32, found as u32));
                }
            }
            rows.dedup();
        }
        _ => {
            for (at, node) in facts.fleet.nodes.iter().enumerate() {
                for (within, device) in node.devices.iter().enumerate() {
                    let idle = *row_scope != RowScope::Idle || facts.fleet.is_idle(device);
                    if idle && in_scope(row_scope, node, device) {
                        rows.push((at as u32, within as u32));
                    }
                }
            }
        }
    }
    table::kinds::nodes::by_node(facts, &mut rows);
    rows
}

/// True when a device is in the selected scope.
pub fn in_scope(row_scope: &RowScope, node: &Node, device: &Device) -> bool {
    match row_scope {
        RowScope::All
        | RowScope::Ungrouped
        | RowScope::Cost(_)
        | RowScope::Idle
        | RowScope::Pods(None)
        | RowScope::Services(None)
        | RowScope::WhatIf(_)
        | RowScope::Advice
        | RowScope::Scalers
        | RowScope::Changes(_)
        | RowScope::Sources(_)
        | RowScope::Tree(_) => true,
        RowScope::Pool(pool) => node.pool == *pool,
        RowScope::Node(name) => node.name() == name,
        RowScope::Class(class) => device.class == *class,
        RowScope::Job(job) => device.holders().any(|(pod, _)| pod.job == *job),
        RowScope::Team(team) => device.holders().any(|(pod, _)| pod.team == *team),
        // (Not reached: a cohort opens its jobs.)
        RowScope::Cohort(_) => true,
        RowScope::Queue(queue) => device
            .holders()
            .any(|(pod, _)| pod.queue.as_ref() == Some(queue)),
        RowScope::Namespace(namespace)
        | RowScope::Pods(Some(namespace))
        | RowScope::Services(Some(namespace)) => device
            .holders()
            .any(|(pod, _)| pod.key().namespace == *namespace),
    }
}

/// The device of a row, with its node.
pub fn device(facts: &Facts, row: Row) -> Option<(&Node, &Device)> {
    let node = facts.fleet.nodes.get(row.0 as usize)?;
    Some((node, node.devices.get(row.1 as usize)?))
}

fn of<'a>(
    facts: &'a Facts,
    row: Row,
    make: impl FnOnce(&'a Node, &'a Device) -> Value<'a>,
) -> Cell<'a> {
    match device(facts, row) {
        Some((node, device)) => Cell::new(make(node, device)),
        None => Cell::new(Value::Unknown),
    }
}

fn reading<'a>(facts: &'a Facts, row: Row, make: impl FnOnce(&'a Device) -> Value<'a>) -> Cell<'a> {
    match device(facts, row) {
        Some((_, device)) => {
            let is_old = device.is_stale(facts.now) || device.is_read_before_held();
            Cell::new(make(device)).stale(is_old)
        }
        None => Cell::new(Value::Unknown),
    }
}

/// Rate of the whole device.
fn cost(facts: &Facts, row: Row) -> Cell<'_> {
    of(facts, row, |node, device| {
        let price = facts.spend_rates.price_of(node, device);
        Value::known(price, |price| Value::Money(Money::of(price)))
    })
    .role(Role::Accent)
}

/// A device's state as a sign and text.
pub fn health_of(device: &Device) -> (&'static str, Role, &str) {
    let words = devices::health_words(device);
    match &device.health {
        Health::Fault(_) => ("×", Role::Crit, words),
        Health::Warn(_) => ("▲", Role::Warn, words),
        Health::Ok => ("●", Role::Ok, words),
        Health::Unknown => ("–", Role::Muted, "–"),
    }
}

fn name(facts: &Facts, row: Row) -> Cell<'_> {
    of(facts, row, |_, device| Value::text(device.id.as_str())).role(Role::Title)
}

fn health(facts: &Facts, row: Row) -> Cell<'_> {
    let Some((_, device)) = device(facts, row) else {
        return Cell::new(Value::Unknown);
    };
    let (_, role, words) = health_of(device);
    let role = if role == Role::Ok { Role::Muted } else { role };
    Cell::text(words).role(role)
}

fn pod(facts: &Facts, row: Row) -> Cell<'_> {
    let Some((_, device)) = device(facts, row) else {
        return Cell::new(Value::Unknown);
    };
    match facts.first_holder(device) {
        Some((pod, attribution)) => {
            let more = device.holders().count() - 1;
            let value = if more == 0 {
                Value::path(pod.key())
            } else {
                Value::text(format!("{} +{more}", pod.key()))
            };
            Cell::new(value).mark(attribution.mark())
        }
        None if !facts.fleet.sees_all_work() => Cell::new(Value::Unknown),
        None => Cell::text("free").role(Role::Muted),
    }
}

fn util(facts: &Facts, row: Row) -> Cell<'_> {
    let idle = device(facts, row).is_some_and(|(_, device)| facts.fleet.is_idle(device));
    // A reading from before its pod was there is another's.
    let cell = reading(facts, row, |device| {
        let own = device.util().filter(|_| !device.is_read_before_held());
        Value::Trend(Vec::new(), own)
    });
    if idle {
        cell.role(Role::IdleMoney)
    } else {
        cell
    }
}
