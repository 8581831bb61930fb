//! Devices as rows: the joined line of device, pod, job, queue, team; also what the heatmap's filter speaks of.

use crate::listing::{Column, Kind, Row, id_of};
use crate::theme::Role;
use crate::widget::{Cell, Value};
use model::fleet::device::{Device, Health};
use model::fleet::history::Track;
use model::fleet::node::Node;
use model::fleet::signal::Signal;
use table::Facts;

use super::{Lens, Picked, Place};

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
            Value::known(device.first_holder(), |(pod, _)| {
                Value::text(pod.job.key.name.as_str())
            })
        })
    }),
    Column::words("queue", "QUEUE", 10, (8, 16), |facts, row| {
        of(facts, row, |_, device| {
            Value::known(
                device
                    .first_holder()
                    .and_then(|(pod, _)| pod.queue.as_deref()),
                Value::text,
            )
        })
    }),
    Column::words("team", "TEAM", 6, (8, 16), |facts, row| {
        of(facts, row, |_, device| {
            Value::known(device.first_holder(), |(pod, _)| {
                Value::text(pod.team.as_str())
            })
        })
    }),
    Column::graphic("util", "UTILISATION", 0, (4, 16), util).trend(|facts, row| {
        let (_, device) = device(facts, row)?;
        Some(Track::DeviceUtil(device.id.clone()))
    }),
    Column::number("mem", "MEMORY", 2, 9, |facts, row| {
        reading(facts, row, |device| match device.memory() {
            (Some(used), total) => Value::Bytes(used, total),
            (None, _) => Value::known(device.memory_ratio(), Value::Ratio),
        })
    }),
    Column::number("temp", "TEMP", 4, 4, |facts, row| {
        reading(facts, row, |device| {
            Value::known(device.signals.get(Signal::Temp), Value::Celsius)
        })
    }),
    Column::number("power", "POWER", 7, 5, |facts, row| {
        reading(facts, row, |device| {
            Value::known(device.signals.get(Signal::Power), Value::Watts)
        })
    }),
    Column::number("held", "HELD", 3, 5, |facts, row| {
        of(facts, row, |_, device| {
            Value::known(device.held_since(), Value::Since)
        })
    }),
    Column::number("idle-for", "IDLE FOR", 2, 5, |facts, row| {
        of(facts, row, |_, device| match device.idle_since {
            Some(since) => Value::Since(since),
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
    Column::number("age", "READ", 15, 4, |facts, row| {
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
pub static KIND: Kind = Kind {
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
    picked: |facts, row| {
        device(facts, row).map(|(node, device)| Picked::Device(node.name().clone(), device.index))
    },
    open: |facts, row| {
        device(facts, row)
            .map(|(node, device)| Place::Facts(Picked::Device(node.name().clone(), device.index)))
    },
    faulty: |facts, row| {
        device(facts, row)
            .is_some_and(|(_, device)| matches!(device.health, Health::Fault(_) | Health::Warn(_)))
    },
    last: |_, _| false,
    sort: None,
    none: "no device here",
};

/// The devices that are held and do no work, the dearest first.
pub static IDLE: Kind = Kind {
    sort: Some((COST, true)),
    none: "no device is held without working",
    ..KIND
};

fn collect(facts: &Facts, lens: &Lens) -> Vec<Row> {
    let mut rows = Vec::new();
    match lens {
        Lens::Job(job) => {
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
                    let idle = *lens != Lens::Idle || facts.fleet.is_idle(device);
                    if idle && holds(lens, node, device) {
                        rows.push((at as u32, within as u32));
                    }
                }
            }
        }
    }
    rows
}

/// True when a device belongs to the part that is looked at.
pub fn holds(lens: &Lens, node: &Node, device: &Device) -> bool {
    match lens {
        Lens::All | Lens::Cost(_) | Lens::Idle | Lens::Pods(None) => true,
        Lens::Pool(pool) => node.pool == *pool,
        Lens::Node(name) => node.name() == name,
        Lens::Class(class) => device.class == *class,
        Lens::Job(job) => device.holders().any(|(pod, _)| pod.job == *job),
        Lens::Team(team) => device.holders().any(|(pod, _)| pod.team == *team),
        Lens::Queue(queue) => device
            .holders()
            .any(|(pod, _)| pod.queue.as_ref() == Some(queue)),
        Lens::Namespace(namespace) | Lens::Pods(Some(namespace)) => device
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
        Some((_, device)) => Cell::new(make(device)).stale(device.is_stale(facts.now)),
        None => Cell::new(Value::Unknown),
    }
}

/// What a device costs an hour: its share of its node.
fn cost(facts: &Facts, row: Row) -> Cell<'_> {
    of(facts, row, |node, _| {
        let rate = facts.burn.nodes.get(node.name());
        Value::known(rate, |rate| {
            Value::Money(rate.share(1, node.devices.len() as u64))
        })
    })
    .role(Role::Accent)
}

/// A device's state as a sign and words.
pub fn health_of(device: &Device) -> (&'static str, Role, &str) {
    match &device.health {
        Health::Fault(why) => ("×", Role::Crit, why),
        Health::Warn(why) => ("▲", Role::Warn, why),
        Health::Ok => ("●", Role::Ok, "ok"),
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
    match device.first_holder() {
        Some((pod, attribution)) => {
            let more = device.holders().count() - 1;
            let value = if more == 0 {
                Value::path(pod.key())
            } else {
                Value::text(format!("{} +{more}", pod.key()))
            };
            Cell::new(value).mark(attribution.mark())
        }
        None => Cell::text("free").role(Role::Muted),
    }
}

fn util(facts: &Facts, row: Row) -> Cell<'_> {
    let idle = device(facts, row).is_some_and(|(_, device)| facts.fleet.is_idle(device));
    let cell = reading(facts, row, |device| Value::Trend(Vec::new(), device.util()));
    if idle {
        cell.role(Role::IdleMoney)
    } else {
        cell
    }
}
