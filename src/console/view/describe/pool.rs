//! A pool: size, fill, money, what may grow it, the last hour.

use crate::painter::Painter;
use crate::text::{UNKNOWN, dollars_of, per_hour};
use crate::widget::cell::devices_words;
use model::base::DeviceAmount;
use model::base::quantities::grouped;
use model::fleet::finding::Finding;
use model::fleet::history::{FleetSignal, Track};
use table::Facts;
use table::kinds;
use table::role::Role;
use table::text::whole_percent;

use super::{Description, scaling};

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
        Some(_) => format!(
            "{} · the whole pool, not only this scope",
            kinds::pools::classes(pool)
        ),
        None => kinds::pools::classes(pool),
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
    table.findings(facts.fleet.findings.iter().filter(about));
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
    if pool.waiting_devices > 0 {
        let words = format!(
            "{} devices requested",
            grouped(i64::from(pool.waiting_devices))
        );
        table.words("waiting", words, Role::Warn);
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
        table.words(
            "rate",
            per_hour(spend.map(|spend| spend.rate)),
            Role::Accent,
        );
        table.words(
            "idle",
            format!(
                "{} unallocated, {} allocated",
                per_hour(spend.and_then(|spend| spend.free)),
                per_hour(spend.and_then(|spend| spend.idle_allocated))
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
