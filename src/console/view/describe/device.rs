//! A device: place, health, readings, past, holders, what a repair ticket needs.

use crate::painter::Painter;
use crate::text::{UNKNOWN, counted, dollars, per_hour};
use crate::widget::cell::{bytes_of, devices_words};
use model::cost::Money;
use model::fleet::accelerator::DeviceKind;
use model::fleet::device::{Attribution, Device, Health};
use model::fleet::finding::Finding;
use model::fleet::history::Track;
use model::fleet::node::Node;
use model::fleet::signal::Signal;
use table::Facts;
use table::role::Role;
use table::rows::jobs::so_far;
use table::text::whole_percent;

use super::{Description, Line};

/// What is known of a device.
pub(super) fn lines(
    table: &mut Description,
    facts: &Facts,
    node: &Node,
    device: &Device,
    painter: &mut Painter<'_>,
) {
    table.title = format!("{} / gpu {}", node.name(), device.index);
    if device.kind == DeviceKind::Tpu {
        table.title = format!("{} / tpu {}", node.name(), device.index);
    }
    let place = [("rack", &node.rack), ("domain", &node.clique)];
    table.note = place
        .iter()
        .filter_map(|(what, name)| name.as_ref().map(|name| format!("{what} {name}")))
        .collect::<Vec<_>>()
        .join(" · ");
    let model = if device.model.is_empty() {
        &device.class
    } else {
        &device.model
    };
    table.known("model", Some(model));
    let about = |finding: &&Finding| {
        finding.subject.kind == "Device" && finding.subject.key.name == device.id
    };
    let found: Vec<&Finding> = facts.fleet.findings.iter().filter(about).collect();
    let (_, role, why) = table::kinds::devices::health_of(device);
    // A health reason that a finding repeats is shown once.
    let is_reported = found.iter().any(|finding| finding.message.contains(why));
    let health = match &device.health {
        // The findings below describe the fault.
        Health::Ok if !found.is_empty() => "no error reported; see its alerts below",
        health if is_reported => health.name(),
        _ => why,
    };
    table.words("health", health, role);
    table.findings(&device.id, found.into_iter(), painter);
    // The job on the device and its cost come before the readings: they are needed most often, and have room on every screen.
    table.gap();
    holders(table, facts, device, painter);
    cost(table, facts, node, device);
    // Who is about to write a ticket needs these next; who is not, last.
    let broken = device.health.why().is_some();
    if broken {
        ticket(table, node, device);
    }
    table.gap();
    readings(table, facts, device);
    let age = device.read_at.map(|at| painter.age(at));
    match (device.is_stale(facts.now), age) {
        (true, Some(age)) => table.words("read", format!("{age} ago: stale"), Role::Warn),
        (false, Some(_)) => {}
        (_, None) => {
            let words = table::no_readings(facts).unwrap_or("never: no exporter reports it");
            table.words("read", words, Role::Muted);
        }
    }
    pasts(table, facts, device);
    if !broken {
        ticket(table, node, device);
    }
}

/// What it costs an hour, and the job that holds it so far.
fn cost(table: &mut Description, facts: &Facts, node: &Node, device: &Device) {
    let Some(price) = facts.spend_rates.price_of(node, device) else {
        return;
    };
    let so_far = facts
        .first_holder(device)
        .and_then(|(pod, _)| so_far(facts, facts.fleet.job(&pod.job)?))
        .map_or(String::new(), |so_far| {
            format!(" · this job {} so far", dollars(Some(so_far)))
        });
    let whole = match device.holders().count() {
        0 | 1 => "",
        _ => " for the whole device",
    };
    let price = Money::of(price);
    table.words(
        "cost",
        format!("{}{whole}{so_far}", per_hour(Some(price))),
        Role::Text,
    );
    table.list_note(price);
}

/// The details that a vendor or a cloud provider requires for a support ticket.
fn ticket(table: &mut Description, node: &Node, device: &Device) {
    table.gap();
    table.words_if_any("serial", device.serial.as_ref());
    table.words_if_any("pci", device.pci.as_ref());
    table.words_if_any("uuid", device.uuid.as_ref());
    table.words_if_any("driver", node.driver.as_ref());
    table.words_if_any("machine", node.instance_type.as_ref());
    table.words_if_any("provider id", node.seen.provider_id.as_ref());
}

/// The last hour, where the history has it.
fn pasts(table: &mut Description, facts: &Facts, device: &Device) {
    if facts.history.since().is_none() {
        return;
    }
    table.gap();
    let id = || device.id.clone();
    let share = |value: f32| whole_percent(f64::from(value));
    table.past(
        facts,
        "util, 1 h",
        &Track::DeviceUtil(id()),
        Some(1.0),
        &share,
    );
    let memory = Track::DeviceMemory(id());
    table.past(facts, "memory, 1 h", &memory, Some(1.0), &share);
    let temp = Track::DeviceTemp(id());
    table.past(facts, "temp, 1 h", &temp, Some(100.0), &|degrees| {
        format!("{degrees:.0}°")
    });
    let limit = device.signals.get(Signal::PowerLimit);
    let top = limit.map(|watts| watts as f32);
    table.past(
        facts,
        "power, 1 h",
        &Track::DevicePower(id()),
        top,
        &|watts| format!("{watts:.0} W"),
    );
}

fn readings(table: &mut Description, facts: &Facts, device: &Device) {
    let stale = device.is_stale(facts.now);
    let hot = if stale { Role::Muted } else { Role::Text };
    let util_role = match (stale, facts.fleet.is_idle(device)) {
        (true, _) => Role::Muted,
        (false, true) => Role::IdleMoney,
        (false, false) => Role::Text,
    };
    match device.util() {
        Some(util) => {
            let idle = if util_role == Role::IdleMoney {
                "  idle"
            } else {
                ""
            };
            let words = format!("{}{idle}", whole_percent(util));
            table.lines.push(Line::Bar("util", util, words, util_role));
        }
        None => table.words("util", UNKNOWN, Role::Muted),
    }
    match (device.memory(), device.memory_ratio()) {
        ((Some(used), Some(total)), Some(ratio)) => {
            let words = bytes_of(used, total).replace('/', " / ");
            table.lines.push(Line::Bar("memory", ratio, words, hot));
        }
        (_, Some(ratio)) => {
            table
                .lines
                .push(Line::Bar("memory", ratio, whole_percent(ratio), hot));
        }
        _ => table.words("memory", UNKNOWN, Role::Muted),
    }
    if let Some(tensor) = device.signals.get(Signal::TensorActive) {
        table
            .lines
            .push(Line::Bar("tensor", tensor, whole_percent(tensor), hot));
    }
    match (
        device.signals.get(Signal::Power),
        device.signals.get(Signal::PowerLimit),
    ) {
        (Some(watts), Some(limit)) if limit > 0.0 => {
            let words = format!("{watts:.0} / {limit:.0} W");
            table
                .lines
                .push(Line::Bar("power", watts / limit, words, hot));
        }
        (Some(watts), _) => table.words("power", format!("{watts:.0} W"), Role::Text),
        (None, _) => {}
    }
    if let Some(degrees) = device.signals.get(Signal::Temp) {
        let slowdown = device
            .signals
            .get(Signal::TempSlowdown)
            .or_else(|| {
                facts
                    .fleet
                    .policy
                    .catalog
                    .of_class(&device.class)?
                    .slowdown_celsius
            })
            .unwrap_or(90.0);
        let role = if degrees >= slowdown { Role::Crit } else { hot };
        table.lines.push(Line::Bar(
            "temp",
            degrees / slowdown.max(1.0),
            format!("{degrees:.0}°"),
            role,
        ));
    }
}

fn holders(table: &mut Description, facts: &Facts, device: &Device, painter: &mut Painter<'_>) {
    let Some((pod, attribution)) = facts.first_holder(device) else {
        table.words("pod", "free", Role::Muted);
        return;
    };
    table.words(
        "pod",
        format!("{}{}", pod.key(), attribution.mark()),
        Role::Title,
    );
    let how = match attribution {
        Attribution::Exporter => "reported by the exporter",
        Attribution::Claim => "reported by the API server",
        Attribution::Counted => "~ by count: which device of the node is a guess",
        Attribution::None => "attribution unknown",
    };
    table.words("", how, Role::Muted);
    let others = device.holders().count() - 1;
    if others > 0 {
        table.words(
            "",
            format!("and {}", counted(others as u64, "other pod")),
            Role::Muted,
        );
    }
    let job = facts.fleet.job(&pod.job);
    let mut words = pod.job.key.name.to_string();
    if let Some(job) = job {
        let class = job.class.as_ref().map_or("", |class| class.as_str());
        let held = facts.fleet.amount_of(job);
        let held = held.map_or_else(|| UNKNOWN.to_owned(), |held| devices_words(held, None));
        words.push_str(&format!(" · {held} {class}"));
        if job.idle_devices > 0 {
            words.push_str(&format!(
                ", {} of {} idle",
                job.idle_devices, job.devices_allocated
            ));
        }
    }
    table.words("job", words, Role::Text);
    table.known("queue", pod.queue.as_ref());
    table.words("team", pod.team.to_string(), Role::Text);
    table.words("alloc for", painter.age(pod.held_since()), Role::Text);
    if let Some(idle) = device.idle() {
        let age = painter.age(idle.since);
        let words = match idle.at_least {
            true => format!(">{age}: idle since the first reading"),
            false => age,
        };
        table.words("idle for", words, Role::IdleMoney);
    }
}
