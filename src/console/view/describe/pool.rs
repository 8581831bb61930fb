//! A pool: size, fill, money, what may grow it, the last hour.

use std::collections::BTreeMap;

use crate::painter::Painter;
use crate::text::{UNKNOWN, dollars_of, per_hour};
use crate::widget::cell::devices_words;
use model::base::DeviceAmount;
use model::base::quantities::grouped;
use model::fleet::finding::Finding;
use model::fleet::history::{FleetSignal, Track};
use model::fleet::node::Node;
use model::fleet::pool::{Unusable, requested_words};
use table::Facts;
use table::kinds;
use table::kinds::advice::of_pools;
use table::role::Role;
use table::rows::pools::waiting_outside;
use table::text::whole_percent;

use super::job::advised;
use super::{Description, scaling};

/// Free slices by size, of how many: `mig-1g.10gb 12 of 40`; nothing where no device has slices or not every pod is visible.
pub(super) fn free_slices<'a>(
    table: &mut Description,
    facts: &Facts,
    nodes: impl Iterator<Item = &'a Node>,
) {
    if !facts.fleet.sees_devices() {
        return;
    }
    let mut sizes: BTreeMap<&str, (u32, u32, u32)> = BTreeMap::new();
    for node in nodes {
        for (device, is_unusable) in Unusable::devices(node) {
            for slice in &device.slices {
                let Some(resource) = slice.resource.as_deref() else {
                    continue;
                };
                let size = resource.rsplit('/').next().unwrap_or(resource);
                let (free, unusable, all) = sizes.entry(size).or_default();
                *all += 1;
                if slice.holder.is_none() {
                    *(if is_unusable { unusable } else { free }) += 1;
                }
            }
        }
    }
    let words = sizes.iter().map(|(size, (free, unusable, all))| {
        let unusable = match unusable {
            0 => String::new(),
            some => format!(" ({some} more not usable)"),
        };
        format!("{size} {free} of {all}{unusable}")
    });
    let words: Vec<String> = words.collect();
    table.words_if_any("free slices", (!words.is_empty()).then(|| words.join(", ")));
}

/// What is known of a pool.
pub(super) fn lines(
    table: &mut Description,
    facts: &Facts,
    name: &str,
    painter: &mut Painter<'_>,
) -> Option<()> {
    let pool = facts.fleet.pool(name)?;
    // A scope's own numbers are in the table above.
    table.note = match facts.part {
        Some(_) if pool.visibility.nodes => format!(
            "{} · the whole pool, not only this scope",
            kinds::pools::classes(pool)
        ),
        _ => kinds::pools::classes(pool),
    };
    table.known("mode", pool.mode.map(|mode| mode.name()));
    let billing = pool.billing.map(|billing| billing.name());
    table.known(
        "billing",
        if pool.billing_mixed {
            Some("mixed")
        } else {
            billing
        },
    );
    table.words_if_any("owner", pool.owner.as_ref());
    let about = |finding: &&Finding| {
        finding.subject.kind == "Pool" && finding.subject.key.name == pool.name
    };
    let found = facts.fleet.findings.iter().filter(about);
    table.findings(&pool.name, found, painter);
    let advice = of_pools(facts).iter();
    let own = advice.filter(|advice| advice.pool() == Some(&pool.name));
    advised(table, facts, own);
    scaling::pool(table, facts, pool, painter);
    match pool.visible_nodes() {
        None => table.words("nodes", "not visible to you", Role::Muted),
        Some(nodes) => table.words(
            "nodes",
            format!(
                "{} of {} ready, {} cordoned",
                nodes.ready, nodes.total, nodes.cordoned
            ),
            if nodes.ready < nodes.total || nodes.cordoned > 0 {
                Role::Warn
            } else {
                Role::Text
            },
        ),
    }
    let counts = pool.counts();
    let number =
        |count: Option<u32>| count.map_or(String::from(UNKNOWN), |count| grouped(i64::from(count)));
    // Unusable free devices are shown with these.
    let unhealthy_pods = counts
        .unusable
        .map(|unusable| unusable.unhealthy + unusable.not_ready);
    let amount = |amount: Option<DeviceAmount>| {
        amount.map_or(String::from(UNKNOWN), |amount| devices_words(amount, None))
    };
    let unhealthy = match (counts.unhealthy, unhealthy_pods) {
        (Some(all), Some(unhealthy_pods))
            if all > 0 && DeviceAmount::whole(all) == unhealthy_pods =>
        {
            String::new()
        }
        (Some(all), Some(unhealthy_pods)) if !unhealthy_pods.is_zero() => {
            format!("; {all} unhealthy in total")
        }
        // Without readings, only what nodes say of faults is known.
        (Some(0), _) if counts.idle_allocated.is_none() => String::new(),
        (all, _) => format!("; {} unhealthy", number(all)),
    };
    let is_unknown = counts.total.is_none() && counts.allocated.is_none();
    table.words_if_any("devices", is_unknown.then_some("unknown"));
    let counts_of = || {
        format!(
            "{}: {} allocated, {} idle; {}{}",
            number(counts.total),
            amount(counts.allocated),
            amount(counts.idle_allocated),
            counts
                .free_words()
                .unwrap_or_else(|| format!("{UNKNOWN} free")),
            unhealthy
        )
    };
    if !is_unknown {
        table.words("devices", counts_of(), Role::Text);
    }
    for class in &pool.classes {
        table.words(
            "class",
            format!("{} × {}", class.devices, class.class),
            Role::Text,
        );
    }
    let nodes = facts.fleet.nodes.iter();
    free_slices(
        table,
        facts,
        nodes
            .map(|node| &**node)
            .filter(|node| node.pool == pool.name),
    );
    // Of the jobs that wait it is not known which nodes that are not visible they wait for: as in the row.
    let waiting = match pool.visibility.nodes {
        true => pool.waiting_devices,
        false => waiting_outside(facts).not_visible,
    };
    if waiting > 0 {
        let words = requested_words(u64::from(waiting), u64::from(pool.waiting_slices));
        let words = format!("{words} requested");
        table.words("waiting", words, Role::Text);
    }
    let share = |value: Option<f64>| value.map_or(String::from(UNKNOWN), whole_percent);
    table.words(
        "now",
        format!(
            "util {} · memory {}",
            share(pool.util),
            share(pool.mem_used)
        ),
        if pool.stale { Role::Muted } else { Role::Text },
    );
    table.words_if_any(
        "hottest",
        pool.temp_max.map(|degrees| format!("{degrees:.0}°")),
    );
    if let Some(row) = facts.whole_burn().row(model::cost::SpendScope::Pool, name) {
        let spend = row.known();
        let idle = spend.and_then(|spend| spend.idle_allocated);
        let idle = idle.filter(|_| counts.idle_allocated.is_some());
        table.words("rate", per_hour(spend.map(|spend| spend.rate)), Role::Text);
        table.words(
            "idle",
            format!(
                "{} unallocated, {} allocated",
                per_hour(spend.and_then(|spend| spend.free)),
                per_hour(idle)
            ),
            Role::IdleMoney,
        );
        table.known("price from", row.price_source.as_ref());
        table.list_note(row.spend.rate);
    }
    if facts.history.since().is_some() {
        table.gap();
        let track = |signal| Track::Pool(pool.name.clone(), signal);
        let share = |value: f32| whole_percent(f64::from(value));
        table.past(
            facts,
            "util, 1 h",
            &track(FleetSignal::Util),
            Some(1.0),
            &share,
        );
        let held = track(FleetSignal::Allocated);
        table.past(facts, "alloc, 1 h", &held, Some(1.0), &share);
        let burn = track(FleetSignal::Burn);
        table.past(facts, "rate, 1 h", &burn, None, &|usd| {
            dollars_of(f64::from(usd)) + "/h"
        });
        let idle = track(FleetSignal::Idle);
        let most = facts
            .whole_burn()
            .row(model::cost::SpendScope::Pool, name)
            .map(|row| row.spend.rate.usd() as f32);
        table.past(facts, "idle, 1 h", &idle, most, &|usd| {
            dollars_of(f64::from(usd)) + "/h"
        });
    }
    Some(())
}
