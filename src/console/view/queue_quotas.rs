//! Quotas of queues, by flavor: what is used, borrowed and left.

use crate::table_model::{Column, Row};
use crate::text::UNKNOWN;
use crate::widget::quota::Quota as Bar;
use crate::widget::{Cell, Value};
use model::base::Name;
use model::base::quantities::grouped;
use model::fleet::queue::{Measure, Queue, Quota};
use table::Facts;

use super::queues::queue;
use super::tree::Tree;

/// A queue's quota of devices in a flavor; several resources of one flavor are added up.
fn device_quota(queue: &Queue, flavor: &str) -> Option<Bar> {
    let of: Vec<&Quota> = queue
        .quotas
        .iter()
        .filter(|quota| quota.measure == Measure::MilliDevices && quota.flavor.as_str() == flavor)
        .collect();
    if of.is_empty() {
        return None;
    }
    let whole = |amount: i64| u64::try_from(amount / 1000).unwrap_or(0);
    let sum = |pick: &dyn Fn(&Quota) -> Option<i64>| -> Option<u64> {
        of.iter()
            .map(|quota| pick(quota))
            .try_fold(0, |sum, one| Some(sum + whole(one?)))
    };
    Some(Bar {
        nominal: sum(&|quota| quota.nominal),
        used: sum(&|quota| quota.used),
        borrowed: sum(&|quota| quota.borrowed).unwrap_or(0),
    })
}

/// All of a queue's quotas of devices, the flavors with most devices first.
pub(super) fn device_quotas<'a>(facts: &'a Facts, queue: &Queue) -> Vec<(&'a Name, Bar)> {
    let all = flavors(facts).into_iter();
    all.filter_map(|flavor| Some((flavor, device_quota(queue, flavor)?)))
        .collect()
}

/// Flavors with devices, those with most of them first.
fn flavors(facts: &Facts) -> Vec<&Name> {
    let mut sums: Vec<(&Name, i64)> = Vec::new();
    for queue in facts.fleet.queues.iter() {
        for quota in &queue.quotas {
            if quota.measure != Measure::MilliDevices {
                continue;
            }
            let amount = quota.nominal.unwrap_or(0).max(quota.used.unwrap_or(0));
            match sums.iter_mut().find(|(known, _)| *known == &quota.flavor) {
                Some((_, sum)) => *sum += amount,
                None => sums.push((&quota.flavor, amount)),
            }
        }
    }
    sums.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    sums.into_iter().map(|(flavor, _)| flavor).collect()
}

/// The column of the quotas of the nth flavor of all.
pub(super) const fn flavor<const NTH: usize>(id: &'static str, drop: u8) -> Column {
    Column::number(id, "QUOTA", drop, 14, quota::<NTH>)
        .titled(flavor_title::<NTH>)
        .left()
        .rare()
}

/// The title of the nth column of quotas: its flavor.
fn flavor_title<const NTH: usize>(facts: &Facts) -> String {
    let flavor = flavors(facts).get(NTH).copied();
    match (flavor, &facts.part) {
        (None, _) => String::new(),
        (Some(flavor), None) => named(flavor).to_owned(),
        // The other columns are of a team or of namespaces, and this one is not.
        (Some(flavor), Some(_)) => format!("QUEUE {}", named(flavor)),
    }
}

/// A flavor's name; Volcano and KAI count devices of every kind as one.
fn named(flavor: &Name) -> &str {
    match flavor.is_empty() {
        true => "devices",
        false => flavor,
    }
}

/// The quota of the nth flavor of all; those that have no column stand under what is left.
fn quota<const NTH: usize>(facts: &Facts, row: Row) -> Cell<'_> {
    let flavor = flavors(facts).get(NTH).copied();
    let own = flavor.and_then(|flavor| quota_of(facts, row, flavor));
    let Some(bar) = own else {
        return Cell::new(Value::Empty);
    };
    Cell::new(Value::Quota(Box::new(bar)))
}

/// What is left of each quota of a row: `h100 0, a100 15`; borrowing may give more.
pub(super) fn left(facts: &Facts, row: Row) -> Cell<'_> {
    let all = flavors(facts).into_iter();
    let words = all.filter_map(|flavor| {
        let left = quota_of(facts, row, flavor)?.left()?;
        Some(format!("{} {left}", named(flavor)))
    });
    Cell::text(words.collect::<Vec<_>>().join(", "))
}

/// The same of these queues together.
pub(super) fn left_of(facts: &Facts, queues: &[&Queue]) -> String {
    let words = flavors(facts).into_iter().filter_map(|flavor| {
        let of_queues = queues
            .iter()
            .filter_map(|queue| device_quota(queue, flavor));
        let bounded: Vec<Bar> = of_queues.filter(|bar| bar.nominal.is_some()).collect();
        // A queue that borrows has 0 left; it takes nothing off what the others have.
        let left = bounded
            .iter()
            .map(|bar| Some(bar.nominal?.saturating_sub(bar.used?)));
        let sum: Option<u64> = left.sum();
        let sum = sum.map_or_else(|| String::from(UNKNOWN), |left| grouped(left as i64));
        (!bounded.is_empty()).then(|| format!("{} {sum}", named(flavor)))
    });
    words.collect::<Vec<_>>().join(", ")
}

/// What a row has of a flavor; nothing where that is none.
fn quota_of(facts: &Facts, row: Row, flavor: &Name) -> Option<Bar> {
    let queue = queue(facts, row)?;
    if let Some(bar) = device_quota(queue, flavor) {
        return Some(bar);
    }
    // A cohort without a quota of its own has what its queues have together.
    let tree = Tree::of(&facts.fleet.queues);
    let below = tree.below(row.1 as usize);
    let parts: Vec<Bar> = below
        .filter_map(|at| device_quota(facts.fleet.queues.get(at)?, flavor))
        .collect();
    if parts.is_empty() {
        return None;
    }
    let sum = |pick: &dyn Fn(&Bar) -> Option<u64>| -> Option<u64> {
        parts
            .iter()
            .map(pick)
            .try_fold(0, |sum, one| Some(sum + one?))
    };
    let (nominal, used) = (sum(&|bar| bar.nominal), sum(&|bar| bar.used));
    let borrowed = match (nominal, used) {
        (Some(nominal), Some(used)) => used.saturating_sub(nominal),
        _ => 0,
    };
    Some(Bar {
        nominal,
        used,
        borrowed,
    })
}
