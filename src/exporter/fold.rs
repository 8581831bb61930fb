//! Reduces the values of a page to one reading for each node, device and slice, and for each pod that shares a device.
//!
//! At a place (a [`RowSubject`]) a signal has candidates by rank: the first rank with a value has precedence, and its values are
//! reduced by the dialect's rule. A shared device has a copy of its rows for each pod; copies are never added up.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use model::base::Name;
use model::base::quantities::counted;
use model::fleet::accelerator::mig_compute_slices;
use model::fleet::histogram::{Histogram, MOST_BUCKETS};
use model::fleet::signal::Signal;

use super::buckets::{Malformed, histogram};
use super::contribution::{Contribution, NONE};
use super::device_rows::{PageRows, RowSubject};
use super::dialect::{Derive, Dialect, How, SamplePart, SignalMapping, Sizes, UnitScale};
use super::emit::{Folded, emit};
use super::page::{PageReport, ParsedPage};
use super::spec::{Reduce, Rollup, ScopeSpec};

/// A value at a place.
#[derive(Debug, Clone, Copy)]
pub(super) struct FoldedValue {
    pub number: f64,
    /// True until the unit is settled by [`settle_sizes`].
    pub by_size: bool,
    /// True for a running total from which the signal, a rate, is computed.
    pub total: bool,
    /// For a signal that is a mean: its sum and its count.
    pub mean: Option<(f64, f64)>,
}

impl FoldedValue {
    /// A value in its own unit.
    fn plain(number: f64) -> Self {
        Self {
            number,
            by_size: false,
            total: false,
            mean: None,
        }
    }
}

pub(super) type Values = BTreeMap<Signal, FoldedValue>;

/// Makes the readings of all nodes, devices and slices in the rows.
pub(super) fn fold(
    dialect: &Dialect,
    mut rows: PageRows<'_, '_>,
    mut all: Vec<Contribution>,
    mut report: PageReport,
) -> ParsedPage {
    all.retain(|one| !one.value.is_nan());
    drop_target_pods(&mut rows, &mut all);
    spread_cores(dialect, &mut rows, &mut all, &mut report);
    let signal = |one: &Contribution| dialect.maps[usize::from(one.map)].signal;
    all.sort_by_key(|one| (one.place, signal(one), one.rank));

    let mut values: Vec<Values> = vec![Values::new(); rows.places.len()];
    let mut copies: BTreeMap<(u32, u32), Values> = BTreeMap::new();
    let mut histograms: FxHashMap<u32, Vec<Histogram>> = FxHashMap::default();
    let shared = shared_places(&rows, &all);
    for group in all.chunk_by(|a, b| (a.place, signal(a)) == (b.place, signal(b))) {
        let place = group[0].place;
        if let Some(value) = best_value(dialect, group, false) {
            values[place as usize].insert(signal(&group[0]), value);
        }
        match histogram(dialect, group) {
            Some(Ok(one)) => histograms.entry(place).or_default().push(one),
            Some(Err(Malformed)) => report.malformed_histograms += 1,
            None => {}
        }
        if !shared.contains_key(&place) {
            continue;
        }
        let mut by_pod = group.to_vec();
        by_pod.sort_by_key(|one| one.pod);
        for own in by_pod.chunk_by(|a, b| a.pod == b.pod) {
            if own[0].pod != NONE
                && let Some(value) = best_value(dialect, own, true)
            {
                copies
                    .entry((place, own[0].pod))
                    .or_default()
                    .insert(signal(&group[0]), value);
            }
        }
    }
    if let Some(sizes) = &dialect.sizes {
        settle_sizes(sizes, &mut values, &mut copies);
    }
    spread_each(&rows, &mut values);
    let slices = slices_of(&rows);
    roll_up(dialect, &rows, &slices, &mut values);
    for values in values.iter_mut().chain(copies.values_mut()) {
        derive(&dialect.derives, values);
    }
    memory_of_profiles(dialect, &rows, &mut values);
    for values in &mut values {
        derive(&dialect.derives, values);
    }
    report.devices = rows.devices.len();
    if report.malformed_histograms > 0 {
        report.messages.push(format!(
            "{} of latencies left out: buckets without +Inf, counts that fall, or more than {MOST_BUCKETS} buckets",
            counted(report.malformed_histograms as u64, "malformed histogram")
        ));
    }
    let folded = Folded {
        rows: &rows,
        slices: &slices,
        shared: &shared,
        values: &values,
        copies: &copies,
        histograms: &histograms,
    };
    emit(dialect, &folded, report)
}

/// Removes the pods of the scrape target: on a page with `exported_` pod labels, the plain pod labels name the target on every row.
fn drop_target_pods(rows: &mut PageRows<'_, '_>, all: &mut [Contribution]) {
    if !rows.pods.iter().any(|pod| pod.exported) {
        return;
    }
    let pods = &rows.pods;
    let is_target = |pod: u32| pods.get(pod as usize).is_some_and(|pod| !pod.exported);
    for one in all {
        if is_target(one.pod) {
            one.pod = NONE;
        }
    }
    let mut dropped = 0;
    rows.holders.retain(|(_, pod), _| {
        let keep = !is_target(*pod);
        dropped += usize::from(!keep);
        keep
    });
    rows.own_pod += dropped;
}

/// Gives each core's value to the device that the core belongs to.
fn spread_cores(
    dialect: &Dialect,
    rows: &mut PageRows<'_, '_>,
    all: &mut [Contribution],
    report: &mut PageReport,
) {
    if dialect.core.is_none() {
        return;
    }
    let mut is_unknown = false;
    for one in all.iter_mut().filter(|one| one.core != NONE) {
        let RowSubject::Cores(host) = &rows.places[one.place as usize] else {
            continue;
        };
        let host = host.clone();
        let per_device = rows.cores_per_device(&host);
        is_unknown |= per_device.is_none();
        let device = rows.device_at(&host, one.core / per_device.unwrap_or(1));
        one.place = device.unwrap_or(one.place);
    }
    if is_unknown {
        report.messages.push(
            "the page does not say how many cores a device has: each core counts as one".into(),
        );
    }
}

/// The places of shared devices, whose rows are copies, one for each pod.
fn shared_places(rows: &PageRows<'_, '_>, all: &[Contribution]) -> FxHashMap<u32, ()> {
    let mut holders: FxHashMap<u32, usize> = FxHashMap::default();
    let mut shared = FxHashMap::default();
    for ((place, _), copy) in &rows.holders {
        let count = holders.entry(*place).or_default();
        *count += 1;
        if *copy || *count > 1 {
            shared.insert(*place, ());
        }
    }
    // One metric with the device's own row and one pod's: a shared device with one sharing pod.
    for group in all.chunk_by(|a, b| (a.place, a.map, a.rank) == (b.place, b.map, b.rank)) {
        let place = group[0].place;
        if group.iter().any(|one| one.pod == NONE)
            && group.iter().any(|one| one.pod != NONE)
            && holders.contains_key(&place)
        {
            shared.insert(place, ());
        }
    }
    shared
}

/// The value of the first rank that has one. `group` has the contributions of one place and signal, in the order of rank; `of_one_pod` is
/// true when all of them are of one pod.
fn best_value(dialect: &Dialect, group: &[Contribution], of_one_pod: bool) -> Option<FoldedValue> {
    let mut ranks: Vec<&[Contribution]> = group.chunk_by(|a, b| a.rank == b.rank).collect();
    ranks.sort_by_key(|rank| rank[0].rank);
    ranks.into_iter().find_map(|rank| {
        let map = &dialect.maps[usize::from(rank[0].map)];
        if map.scope == ScopeSpec::Pod && !of_one_pod {
            return None;
        }
        if map.mean {
            let all = |part| rank.iter().filter(move |one| one.part == part);
            let sum: f64 = all(SamplePart::Sum).map(|one| one.value).sum();
            let count: f64 = all(SamplePart::Count).map(|one| one.value).sum();
            let known = all(SamplePart::Sum).next().is_some() && count > 0.0;
            return known.then(|| FoldedValue {
                mean: Some((sum, count)),
                ..FoldedValue::plain(sum / count)
            });
        }
        Some(FoldedValue {
            by_size: map.scale == UnitScale::BySize,
            total: map.total,
            ..FoldedValue::plain(reduce_rank(map, rank)?)
        })
    })
}

/// Reduces the values of one metric at one place.
fn reduce_rank(map: &SignalMapping, rank: &[Contribution]) -> Option<f64> {
    if let [only] = rank {
        return Some(only.value);
    }
    if map.newest {
        let newest = rank.iter().max_by(|a, b| a.moment.total_cmp(&b.moment));
        return newest.map(|one| one.value);
    }
    // The device's own row has precedence over the copies for its sharing pods.
    let has_device_row = rank.iter().any(|one| one.pod == NONE);
    let mut parts: Vec<(u32, u32, u64, usize, f64)> = rank
        .iter()
        .enumerate()
        .filter(|(_, one)| !has_device_row || one.pod == NONE)
        .map(|(at, one)| (one.core, one.pod, one.item, at, one.value))
        .collect();
    parts.sort_by_key(|part| (part.0, part.1, part.2, part.3));
    // Two runtimes on one core may sum to more than the whole core. (The sums behind a mean are not ratios.)
    let is_ratio = map.signal.name().ends_with("_ratio") && !map.total && !map.mean;
    let bound = |value: f64| if is_ratio { value.min(1.0) } else { value };
    let cores: Vec<f64> = parts
        .chunk_by(|a, b| a.0 == b.0)
        .filter_map(|core| {
            // Sharers' copies repeat one value: the highest, never the sum.
            core.chunk_by(|a, b| a.1 == b.1)
                .filter_map(|pod| {
                    let items = pod
                        .chunk_by(|a, b| a.2 == b.2)
                        .filter_map(|item| item.last())
                        .map(|part| (part.3, part.4));
                    reduce(map.reduce, items)
                })
                .reduce(f64::max)
        })
        .map(bound)
        .collect();
    if cores.len() == 1 {
        return cores.first().copied();
    }
    gather(map.rollup.unwrap_or(Rollup::Mean), &cores).map(bound)
}

/// Reduces values, each with its position on the page, by a rule of the dialect.
fn reduce(how: Reduce, items: impl Iterator<Item = (usize, f64)>) -> Option<f64> {
    let items: Vec<(usize, f64)> = items.collect();
    let numbers = items.iter().map(|(_, number)| *number);
    match how {
        Reduce::Last => items.iter().max_by_key(|(at, _)| *at).map(|(_, n)| *n),
        Reduce::Max => numbers.reduce(f64::max),
        Reduce::Min => numbers.reduce(f64::min),
        Reduce::Sum => gather(Rollup::Sum, &numbers.collect::<Vec<_>>()),
        Reduce::Mean => gather(Rollup::Mean, &numbers.collect::<Vec<_>>()),
    }
}

/// The sum, mean or maximum of some values; `None` for no values.
fn gather(how: Rollup, numbers: &[f64]) -> Option<f64> {
    if numbers.is_empty() {
        return None;
    }
    // In order of size, so that the order of the rows does not show in the last digit.
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    let sum: f64 = sorted.iter().sum();
    Some(match how {
        Rollup::Sum | Rollup::Share => sum,
        Rollup::Mean => sum / numbers.len() as f64,
        Rollup::Max => numbers.iter().copied().fold(f64::MIN, f64::max),
    })
}

/// Settles the unit of the page's memory sizes: the unit with which the totals are closest to memory sizes of real devices.
fn settle_sizes(sizes: &Sizes, values: &mut [Values], copies: &mut BTreeMap<(u32, u32), Values>) {
    let raw = |values: &Values, signal| {
        values
            .get(&signal)
            .filter(|value| value.by_size && value.number > 0.0)
            .map(|value| value.number)
    };
    let totals: Vec<f64> = values
        .iter()
        .filter_map(|values| {
            raw(values, Signal::MemTotal)
                .or_else(|| Some(raw(values, Signal::MemUsed)? + raw(values, Signal::MemFree)?))
        })
        .collect();
    let distance = |unit: f64| -> f64 {
        totals
            .iter()
            .map(|total| {
                sizes
                    .known
                    .iter()
                    .map(|known| (total * unit / known).ln().abs())
                    .fold(f64::MAX, f64::min)
            })
            .sum()
    };
    let mut unit = sizes.choices[0];
    for choice in &sizes.choices[1..] {
        if distance(*choice) < distance(unit) {
            unit = *choice;
        }
    }
    for values in values.iter_mut().chain(copies.values_mut()) {
        for value in values.values_mut().filter(|value| value.by_size) {
            value.number *= unit;
        }
    }
}

/// Copies the values that hold for every device of a host to each device of the host, unless the device has a value of its own.
fn spread_each(rows: &PageRows<'_, '_>, values: &mut [Values]) {
    let mut by_host: FxHashMap<&Option<Name>, Values> = FxHashMap::default();
    for (place, values) in rows.places.iter().zip(values.iter_mut()) {
        if let RowSubject::Each(host) = place {
            by_host.insert(host, std::mem::take(values));
        }
    }
    if by_host.is_empty() {
        return;
    }
    for (place, values) in rows.places.iter().zip(values) {
        let RowSubject::Device(device) = place else {
            continue;
        };
        let Some(all) = by_host.get(&rows.devices[*device as usize].host) else {
            continue;
        };
        for (signal, value) in all {
            values.entry(*signal).or_insert(*value);
        }
    }
}

/// For each device, the places of its slices.
fn slices_of(rows: &PageRows<'_, '_>) -> Vec<Vec<usize>> {
    let mut slices = vec![Vec::new(); rows.devices.len()];
    for (at, place) in rows.places.iter().enumerate() {
        if let RowSubject::Slice { device, .. } = place {
            slices[*device as usize].push(at);
        }
    }
    slices
}

/// Sets the values of devices that have none from the values of all their slices, by the metric's rule: sum, mean, maximum, or the sum
/// weighted by the slices' shares.
fn roll_up(
    dialect: &Dialect,
    rows: &PageRows<'_, '_>,
    slices: &[Vec<usize>],
    values: &mut [Values],
) {
    for map in &dialect.maps {
        let (Some(how), ScopeSpec::Slice) = (map.rollup, map.scope) else {
            continue;
        };
        for (at, place) in rows.places.iter().enumerate() {
            let RowSubject::Device(device) = place else {
                continue;
            };
            let parts = &slices[*device as usize];
            if parts.is_empty() || values[at].contains_key(&map.signal) {
                continue;
            }
            let model = rows.devices[*device as usize].model.as_deref();
            let numbers: Option<Vec<f64>> = parts
                .iter()
                .map(|part| {
                    let value = values[*part].get(&map.signal).filter(|one| !one.total)?;
                    let weight = match how {
                        Rollup::Share => share_of_slice(dialect, &rows.places[*part], model)?,
                        _ => 1.0,
                    };
                    Some(value.number * weight)
                })
                .collect();
            if let Some(number) = numbers.and_then(|numbers| gather(how, &numbers)) {
                values[at].insert(map.signal, FoldedValue::plain(number));
            }
        }
    }
}

/// The share of its device that a MIG slice has, 0 to 1.
fn share_of_slice(dialect: &Dialect, place: &RowSubject, model: Option<&str>) -> Option<f64> {
    let RowSubject::Slice {
        profile: Some(profile),
        ..
    } = place
    else {
        return None;
    };
    let regex = dialect.slice.as_ref()?.share.as_ref()?;
    let parts: f64 = regex.captures(profile)?.get(1)?.as_str().parse().ok()?;
    let all = f64::from(mig_compute_slices(model.unwrap_or_default()));
    Some((parts / all).min(1.0))
}

/// Sets the total memory of slices by the names of their profiles, where it was not measured.
fn memory_of_profiles(dialect: &Dialect, rows: &PageRows<'_, '_>, values: &mut [Values]) {
    let Some((regex, scale)) = dialect.slice.as_ref().and_then(|rule| rule.memory.as_ref()) else {
        return;
    };
    for (place, values) in rows.places.iter().zip(values) {
        let RowSubject::Slice {
            profile: Some(profile),
            ..
        } = place
        else {
            continue;
        };
        let amount: Option<f64> = regex
            .captures(profile)
            .and_then(|groups| groups.get(1)?.as_str().parse().ok());
        if let Some(amount) = amount {
            values
                .entry(Signal::MemTotal)
                .or_insert(FoldedValue::plain(amount * scale));
        }
    }
}

/// Computes signals that were not measured from other signals, by the dialect's rules.
fn derive(derives: &[Derive], values: &mut Values) {
    for rule in derives {
        if values.contains_key(&rule.to) {
            continue;
        }
        let get = |signal: &Signal| {
            values
                .get(signal)
                .filter(|value| !value.total)
                .map(|value| value.number)
        };
        let sum = |signals: &[Signal]| signals.iter().map(get).sum::<Option<f64>>();
        let number = match &rule.how {
            How::Sum(signals) => sum(signals),
            How::Minus(signals) => get(&signals[0])
                .and_then(|first| Some(first - sum(&signals[1..])?))
                .filter(|rest| *rest >= 0.0),
            How::Ratio { of, to, at_least } => get(of).and_then(|of| {
                let to = sum(to)?;
                (to > 0.0 && to >= *at_least).then(|| of / to)
            }),
        };
        let ratio = rule.to.name().ends_with("_ratio");
        if let Some(number) = number.filter(|number| !ratio || (0.0..=1.05).contains(number)) {
            let number = if ratio { number.min(1.0) } else { number };
            values.insert(rule.to, FoldedValue::plain(number));
        }
    }
}
