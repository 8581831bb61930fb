//! A pool: size, fill, money, what may grow it, the last hour.

use crate::brush::Brush;
use crate::text::{UNKNOWN, percent};
use crate::theme::Role;
use crate::view::pools;
use model::base::quantities::grouped;
use model::fleet::finding::Finding;
use model::fleet::history::{FleetSignal, Track};
use table::Facts;

use super::{Sheet, scaling};

/// What is known of a pool.
pub(super) fn lines(
    sheet: &mut Sheet,
    facts: &Facts,
    name: &str,
    brush: &mut Brush<'_>,
) -> Option<()> {
    let pool = facts.fleet.pool(name)?;
    sheet.note = pools::classes(pool);
    sheet.known("mode", pool.mode.map(|mode| mode.name()));
    let billing = pool.billing.map(|billing| billing.name());
    sheet.known(
        "billing",
        if pool.billing_mixed {
            Some("mixed")
        } else {
            billing
        },
    );
    sheet.said("owner", pool.owner.as_ref());
    let about = |finding: &&Finding| {
        finding.subject.kind == "Pool" && finding.subject.key.name == pool.name
    };
    sheet.findings(facts.fleet.findings.iter().filter(about));
    scaling::pool(sheet, facts, pool, brush);
    sheet.words(
        "nodes",
        format!(
            "{} of {} ready, {} cordoned",
            pool.nodes.ready, pool.nodes.total, pool.nodes.cordoned
        ),
        if pool.nodes.ready < pool.nodes.total || pool.nodes.cordoned > 0 {
            Role::Warn
        } else {
            Role::Text
        },
    );
    sheet.words(
        "devices",
        format!(
            "{}: {} held, of them {} idle; {} free, {} unhealthy",
            grouped(i64::from(pool.devices.total)),
            grouped(i64::from(pool.devices.allocated)),
            grouped(i64::from(pool.devices.idle_allocated)),
            grouped(i64::from(pool.devices.free)),
            grouped(i64::from(pool.devices.unhealthy))
        ),
        Role::Text,
    );
    for class in &pool.classes {
        sheet.words(
            "class",
            format!("{} × {}", class.devices, class.class),
            Role::Text,
        );
    }
    if pool.waiting_devices > 0 {
        let words = format!(
            "{} devices wanted",
            grouped(i64::from(pool.waiting_devices))
        );
        sheet.words("waiting", words, Role::Warn);
    }
    let share = |value: Option<f64>| value.map_or(String::from(UNKNOWN), percent);
    sheet.words(
        "now",
        format!(
            "util {} · memory {}",
            share(pool.util),
            share(pool.mem_used)
        ),
        if pool.stale { Role::Muted } else { Role::Text },
    );
    sheet.said(
        "hottest",
        pool.temp_max.map(|degrees| format!("{degrees:.0}°")),
    );
    if let Some(row) = facts.burn.row(model::cost::Scope::Pool, name) {
        sheet.words("burn", format!("${}/h", row.spend.burn), Role::Accent);
        sheet.words(
            "idle",
            format!(
                "${}/h free, ${}/h held",
                row.spend.free, row.spend.idle_allocated
            ),
            Role::IdleMoney,
        );
        sheet.known("price from", row.price_source.as_ref());
    }
    if facts.history.since().is_some() {
        sheet.gap();
        let track = |signal| Track::Pool(pool.name.clone(), signal);
        let share = |value: f32| percent(f64::from(value));
        sheet.past(
            facts,
            "util, 1 h",
            &track(FleetSignal::Util),
            Some(1.0),
            &share,
        );
        let held = track(FleetSignal::Allocated);
        sheet.past(facts, "held, 1 h", &held, Some(1.0), &share);
        let burn = track(FleetSignal::Burn);
        sheet.past(facts, "burn, 1 h", &burn, None, &|usd| {
            format!("${}/h", grouped(usd.round() as i64))
        });
        let idle = track(FleetSignal::Idle);
        let most = facts
            .burn
            .row(model::cost::Scope::Pool, name)
            .map(|row| row.spend.burn.usd() as f32);
        sheet.past(facts, "idle, 1 h", &idle, most, &|usd| {
            format!("${}/h", grouped(usd.round() as i64))
        });
    }
    Some(())
}
