//! Devices: device, pod, job, queue and team joined on one line; also the fields of the heatmap's filter.

use model::base::{DeviceAmount, SmallSort};
use model::cost::Money;
use model::fleet::device::{Attribution, Device, Health, Pod, Slice};
use model::fleet::history::Track;
use model::fleet::judge;
use model::fleet::node::Node;
use model::fleet::signal::Signal;
use model::schema::of_rows;

use crate::Facts;
use crate::cell::{Cell, Value};
use crate::column::{Column, KindSpec, Row, RowOutput, id_of};
use crate::kind::{Exporters, KindNames, KindView, UNKNOWN_IS_NULL, is_needed_for_jobs};
use crate::kinds::nodes::by_node;
use crate::navigation::{Destination, RowScope, Selection, ViewId};
use crate::role::Role;
use crate::rows::devices;
use crate::rows::devices::DeviceRow;
use crate::rows::gangs;

/// The columns of devices.
const COLUMNS: &[Column] = &[
    Column::words("device", "NAME", 0, (18, 36), name)
        .by("id")
        .sign(|facts, row| {
            device(facts, row).map_or(("–", Role::Muted), |(_, device)| {
                let (sign, role, _) = health_of(device);
                (sign, role)
            })
        }),
    Column::words("class", "CLASS", 4, (4, 14), |facts, row| {
        of(facts, row, |_, device| Value::text(device.class.as_str()))
    })
    .by("class"),
    Column::words("model", "MODEL", 17, (10, 30), |facts, row| {
        of(facts, row, |_, device| match device.model.is_empty() {
            true => Value::Unknown,
            false => Value::text(&*device.model),
        })
    })
    .by("model")
    .wide(),
    Column::words("health", "HEALTH", 3, (7, 26), health).by("health"),
    Column::words("pod", "POD", 1, (18, 44), pod).by("pod"),
    Column::words("job", "JOB", 9, (10, 24), |facts, row| {
        held(facts, row, |pod| Some(pod.job.key.name.as_str()))
    })
    .by("job"),
    Column::words("queue", "QUEUE", 10, (8, 16), |facts, row| {
        held(facts, row, |pod| pod.queue.as_deref())
    })
    .by("queue")
    .wide_output(),
    Column::words("team", "TEAM", 6, (8, 16), |facts, row| {
        held(facts, row, |pod| Some(pod.team.as_str()))
    })
    .by("team"),
    Column::graphic("util", "UTIL 60m", 0, (4, 16), util)
        .by("util_ratio")
        .trend(|facts, row| {
            let (_, device) = device(facts, row).filter(|_| slice(facts, row).is_none())?;
            Some((Track::DeviceUtil(device.id.clone()), device.held_since()))
        }),
    Column::number("mem", "MEM", 2, 9, |facts, row| {
        let of = |signal| signal_of(facts, row, signal);
        reading(facts, row, |_| match of(Signal::MemUsed) {
            Some(used) => Value::Bytes(used, of(Signal::MemTotal)),
            None => Value::known(of(Signal::MemUsedRatio), Value::Ratio),
        })
    })
    .by("signals.mem_used_bytes|signals.mem_used_ratio"),
    Column::number("temp", "TEMP", 4, 4, |facts, row| {
        let cell = reading(facts, row, |_| {
            Value::known(signal_of(facts, row, Signal::Temp), Value::Celsius)
        });
        let severity = device(facts, row)
            .and_then(|(_, device)| judge::device_heat_severity(device, &facts.fleet.policy));
        cell.severity(severity)
    })
    .by("signals.temp_celsius"),
    Column::number("power", "POWER", 7, 5, |facts, row| {
        reading(facts, row, |_| {
            Value::known(signal_of(facts, row, Signal::Power), Value::Watts)
        })
    })
    .by("signals.power_watts"),
    Column::number("held", "HELD", 3, 5, |facts, row| {
        of(facts, row, |_, _| {
            Value::known(holder(facts, row), |(pod, _)| {
                Value::Since(pod.held_since())
            })
        })
    })
    .by("held_seconds"),
    Column::number("idle-for", "IDLE FOR", 2, 5, |facts, row| {
        let whole = slice(facts, row).is_none();
        of(facts, row, |_, device| {
            match device.idle().filter(|_| whole) {
                Some(idle) if idle.at_least => Value::SeenSince(idle.since),
                Some(idle) => Value::Since(idle.since),
                None => Value::Empty,
            }
        })
        .role(Role::IdleMoney)
    })
    .by("idle_seconds")
    .rare()
    .wide_output(),
    Column::number("cost", "$/h", 1, 5, cost).wide_output(),
    Column::number("slices", "SLICES", 2, 6, |facts, row| {
        of(facts, row, |_, device| match device.slices.len() {
            0 => Value::Empty,
            all => {
                let held = device.slices.iter().filter(|slice| slice.holder.is_some());
                Value::Part(held.count() as u64, all as u64)
            }
        })
    })
    .rare()
    .wide_output(),
    Column::number("share", "SHARE", 17, 5, |facts, row| {
        Cell::new(match (slice(facts, row), device(facts, row)) {
            (Some(slice), _) => Value::known(slice.share, |share| Value::Devices(share, None)),
            (None, _) => Value::Devices(DeviceAmount::ONE, None),
        })
    })
    .by("share")
    .wide(),
    Column::number("allocated", "ALLOCATED", 17, 5, |facts, row| {
        let allocated = device(facts, row).and_then(|(_, device)| match slice(facts, row) {
            Some(slice) if slice.holder.is_none() => Some(DeviceAmount::ZERO),
            Some(slice) => slice.share,
            None => (!device.has_unknown_slices()).then(|| facts.held_of(device)),
        });
        Cell::new(Value::known(allocated, |held| Value::Devices(held, None)))
    })
    .by("allocated")
    .wide(),
    Column::words("node", "NODE", 12, (8, 30), |facts, row| {
        of(facts, row, |node, _| Value::text(node.name().as_str()))
    })
    .by("node")
    .wide(),
    Column::words("pool", "POOL", 11, (6, 20), |facts, row| {
        of(facts, row, |node, _| Value::text(node.pool.as_str()))
    })
    .by("pool")
    .wide_on_screen(),
    Column::words("rack", "RACK", 13, (4, 14), |facts, row| {
        of(facts, row, |node, _| {
            Value::known(node.rack.as_deref(), Value::text)
        })
    })
    .wide(),
    Column::number("tensor", "TENSOR", 14, 4, |facts, row| {
        reading(facts, row, |_| {
            Value::known(signal_of(facts, row, Signal::TensorActive), Value::Ratio)
        })
    })
    .by("signals.tensor_active_ratio")
    .wide(),
    Column::number("read", "READ", 15, 4, |facts, row| {
        of(facts, row, |_, device| {
            Value::known(device.read_at, Value::Since)
        })
    })
    .by("age_seconds")
    .wide_on_screen(),
    Column::words("uuid", "UUID", 16, (8, 42), |facts, row| {
        of(facts, row, |_, device| {
            Value::known(device.uuid.as_deref(), Value::text)
        })
    })
    .by("uuid")
    .wide(),
];
/// Place of the money among them.
const COST: usize = 14;

/// Devices. A row is the place of a node, and of a device or slice on it.
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
};

/// How `get` finds and writes the rows.
pub static OUTPUT: RowOutput = RowOutput {
    names: KindNames {
        plural: "devices",
        singular: "device",
        aliases: &["device", "dev"],
        help: "GPUs, TPU chips and their slices",
        title: "Devices and their slices",
        description: UNKNOWN_IS_NULL,
        schema: of_rows::<DeviceRow<'_>>,
    },
    view: KindView::tab(ViewId::Devices).words(&["gpu"]),
    reads: is_needed_for_jobs,
    exporters: |asked| asked.exporters(Exporters::OfRows),
    note: |_, _| None,
    rows: |facts, _| every(facts),
    key: id_words,
    also: |facts, row| {
        let names = device(facts, row).map(|(node, device)| {
            let uuid = device.uuid.as_deref().map(str::to_owned);
            let own = [
                Some(node.name().to_string()),
                uuid,
                Some(device.id.to_string()),
            ];
            own.into_iter().flatten()
        });
        names.into_iter().flatten().collect()
    },
    name: None,
    place: Some(|facts, row| match holder(facts, row) {
        Some((pod, _)) => (Some(&pod.key().namespace), Some(&pod.team)),
        None => (None, None),
    }),
    labels: None,
    json: |facts, rows, style| {
        let rows = rows.iter();
        rows.map(|at| {
            let own = device(facts, *at).map(|(node, device)| match slice(facts, *at) {
                Some(slice) => devices::slice_row(facts, node, device, slice),
                None => devices::row(facts, node, device),
            });
            style.write(&own)
        })
        .collect()
    },
};

/// Bits of a row's second number that are the index of a device on its node; the rest is the index of a slice, from 1.
const DEVICE_BITS: u32 = 16;

/// Every device by node and index, each followed by its slices.
fn every(facts: &Facts) -> Vec<Row> {
    let whole = collect(facts, &RowScope::All).into_iter();
    whole
        .flat_map(|row| {
            let slices = device(facts, row).map_or(0, |(_, device)| device.slices.len() as u32);
            (0..=slices).map(move |slice| (row.0, row.1 | slice << DEVICE_BITS))
        })
        .collect()
}

/// The slice of a row; `None` for the row of a device itself.
fn slice(facts: &Facts, row: Row) -> Option<&Slice> {
    let at = (row.1 >> DEVICE_BITS).checked_sub(1)?;
    device(facts, row)?.1.slices.get(at as usize)
}

/// The pod that holds the device or slice of a row, and how that is known.
fn holder(facts: &Facts, row: Row) -> Option<(&Pod, Attribution)> {
    match slice(facts, row) {
        Some(slice) => slice.holder.as_deref().map(|pod| (pod, slice.attribution)),
        None => {
            let (pod, attribution) = facts.first_holder(device(facts, row)?.1)?;
            Some((pod, attribution))
        }
    }
}

/// What the pod of a row has; unknown where none is known to hold it.
fn held<'a>(facts: &'a Facts, row: Row, of: impl FnOnce(&'a Pod) -> Option<&'a str>) -> Cell<'a> {
    let words = holder(facts, row).and_then(|(pod, _)| of(pod));
    Cell::new(Value::known(words, Value::text))
}

/// A reading of the device or slice of a row; one from before its pod held it is unknown, unless it does not depend on work.
fn signal_of(facts: &Facts, row: Row, signal: Signal) -> Option<f64> {
    let (_, device) = device(facts, row)?;
    let (signals, is_its) = match slice(facts, row) {
        Some(slice) => (&slice.signals, devices::is_of_holder(device, slice)),
        None => (&device.signals, !device.is_read_before_held()),
    };
    signals
        .get(signal)
        .filter(|_| is_its || !devices::is_of_work(signal))
}

/// `NODE/gpu3`, of a slice `NODE/gpu3/SLICE`.
fn id_words(facts: &Facts, row: Row) -> String {
    let Some((_, device)) = device(facts, row) else {
        return String::new();
    };
    match slice(facts, row) {
        Some(slice) => format!("{}/{}", device.id, slice.name),
        None => device.id.to_string(),
    }
}

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
    by_node(facts, &mut rows);
    if let RowScope::Job(job) = row_scope
        && let Some(job) = facts.fleet.job(job)
        && let Some(rank) = gangs::worst_first(facts, job)
    {
        rows.small_sort_by_key(|row| device(facts, *row).map(|(_, device)| rank(device)));
    }
    rows
}

/// True when a device is in the selected scope.
pub fn in_scope(row_scope: &RowScope, node: &Node, device: &Device) -> bool {
    match row_scope {
        RowScope::All
        | RowScope::Ungrouped
        | RowScope::Cost(_)
        | RowScope::Idle
        | RowScope::Kind(_, None)
        | RowScope::WhatIf(_)
        | RowScope::Changes(_)
        | RowScope::OneCause(..)
        | RowScope::Sources(_)
        | RowScope::Tree(_) => true,
        RowScope::Pool(pool) => node.pool == *pool,
        RowScope::Node(name) => node.name() == name,
        RowScope::Class(class) => device.class == *class,
        RowScope::Job(job) | RowScope::Replicas(job) => {
            device.holders().any(|(pod, _)| pod.job == *job)
        }
        RowScope::Team(team) => device.holders().any(|(pod, _)| pod.team == *team),
        // (Not reached: a cohort opens its jobs.)
        RowScope::Cohort(_) => true,
        RowScope::Queue(queue) => device
            .holders()
            .any(|(pod, _)| pod.queue.as_ref() == Some(queue)),
        RowScope::Namespace(namespace) | RowScope::Kind(_, Some(namespace)) => device
            .holders()
            .any(|(pod, _)| pod.key().namespace == *namespace),
    }
}

pub fn device(facts: &Facts, row: Row) -> Option<(&Node, &Device)> {
    let node = facts.fleet.nodes.get(row.0 as usize)?;
    Some((
        node,
        node.devices
            .get((row.1 & ((1 << DEVICE_BITS) - 1)) as usize)?,
    ))
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

/// Rate of the whole device; a slice has none of its own.
fn cost(facts: &Facts, row: Row) -> Cell<'_> {
    let whole = slice(facts, row).is_none();
    of(facts, row, |node, device| {
        if !whole {
            return Value::Empty;
        }
        let price = facts.spend_rates.price_of(node, device);
        Value::known(price, |price| Value::Money(Money::of(price)))
    })
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
    Cell::text(id_words(facts, row)).role(Role::Title)
}

fn health(facts: &Facts, row: Row) -> Cell<'_> {
    let Some((_, device)) = device(facts, row) else {
        return Cell::new(Value::Unknown);
    };
    let (_, role, words) = health_of(device);
    let value = match device.health {
        Health::Unknown => Value::Unknown,
        _ => Value::text(words),
    };
    Cell::new(value).role(if role == Role::Ok { Role::Muted } else { role })
}

fn pod(facts: &Facts, row: Row) -> Cell<'_> {
    let Some((_, device)) = device(facts, row) else {
        return Cell::new(Value::Unknown);
    };
    let part = slice(facts, row);
    match holder(facts, row) {
        Some((pod, attribution)) => {
            let more = part.map_or_else(|| device.holders().count() - 1, |_| 0);
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
    let part = slice(facts, row);
    let idle =
        part.is_none() && device(facts, row).is_some_and(|(_, device)| facts.fleet.is_idle(device));
    // A reading from before its pod was there is another's.
    let cell = reading(facts, row, |device| {
        let own = match part {
            Some(_) => signal_of(facts, row, Signal::Util),
            None => device.util().filter(|_| !device.is_read_before_held()),
        };
        Value::Trend(Vec::new(), own)
    });
    if idle {
        cell.role(Role::IdleMoney)
    } else {
        cell
    }
}
