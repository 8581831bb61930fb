//! The readings of a page, in order, out of what was folded at each place.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use model::base::Name;
use model::fleet::histogram::Histogram;
use model::fleet::reading::{Reading, ReadingScope};

use super::device_rows::{PageRows, RowDevice, RowSubject};
use super::dialect::Dialect;
use super::fold::Values;
use super::page::{PageReport, ParsedPage, Total};

/// What folding a page gave.
pub(super) struct Folded<'f, 'd, 'n> {
    pub rows: &'f PageRows<'d, 'n>,
    /// The places of each device's slices.
    pub slices: &'f [Vec<usize>],
    /// Places that several pods share.
    pub shared: &'f FxHashMap<u32, ()>,
    /// Values of each place.
    pub values: &'f [Values],
    /// Values of each pod's copy of a shared place.
    pub copies: &'f BTreeMap<(u32, u32), Values>,
    /// Latencies of each place.
    pub histograms: &'f FxHashMap<u32, Vec<Histogram>>,
}

/// Nodes first, then each device with its slices, each with its pods' copies; last the servers of models.
pub(super) fn emit(
    dialect: &Dialect,
    folded: &Folded<'_, '_, '_>,
    report: PageReport,
) -> ParsedPage {
    let Folded {
        rows,
        slices,
        shared,
        values,
        copies,
        histograms,
    } = *folded;
    let mut read = ParsedPage {
        report,
        ..ParsedPage::default()
    };
    let mut pods: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
    for (place, pod) in rows.holders.keys() {
        pods.entry(*place).or_default().push(*pod);
    }
    let mut device_places = vec![0; rows.devices.len()];
    let mut served = Vec::new();
    for (at, place) in rows.places.iter().enumerate() {
        match place {
            RowSubject::Node(host) if !values[at].is_empty() => {
                let mut reading = Reading::new(dialect.name.clone(), ReadingScope::Node);
                reading.host = rows.completed(of_host(host)).host;
                push(&mut read, reading, &values[at]);
            }
            RowSubject::Device(device) => device_places[*device as usize] = at,
            RowSubject::Serving(pod, model) => served.push((pod, model, at)),
            _ => {}
        }
    }
    let mut order: Vec<usize> = (0..rows.devices.len()).collect();
    order.sort_by_key(|at| {
        let device = &rows.devices[*at];
        (
            device.host.clone(),
            device.index.unwrap_or(u32::MAX),
            device.uuid.clone(),
        )
    });
    for at in order {
        let device = rows.completed(rows.devices[at].clone());
        let mut parts = slices[at].clone();
        parts.sort_by_key(|part| slice_order(&rows.places[*part]));
        for place in std::iter::once(device_places[at]).chain(parts) {
            let slice = match &rows.places[place] {
                RowSubject::Slice { id, .. } => Some(id.clone()),
                _ => None,
            };
            let number = place as u32;
            let mut holders = pods.remove(&number).unwrap_or_default();
            holders.sort_by_key(|pod| {
                let pod = &rows.pods[*pod as usize];
                (pod.key.clone(), pod.container.clone())
            });
            let scope = match slice {
                Some(_) => ReadingScope::Slice,
                None => ReadingScope::Device,
            };
            let mut reading = reading(dialect, scope, &device, slice);
            let split = shared.contains_key(&number);
            if let ([pod], false) = (&*holders, split) {
                set_holder(&mut reading, rows, *pod);
            }
            let mut copy = reading.clone();
            push(&mut read, reading, &values[place]);
            if !split {
                continue;
            }
            copy.scope = ReadingScope::PodCopy;
            for pod in holders {
                let mut copy = copy.clone();
                set_holder(&mut copy, rows, pod);
                let nothing = Values::new();
                push(
                    &mut read,
                    copy,
                    copies.get(&(number, pod)).unwrap_or(&nothing),
                );
            }
        }
    }
    served.sort_unstable();
    for (pod, model, at) in served {
        let mut reading = Reading::new(dialect.name.clone(), ReadingScope::Serving);
        reading.pod.clone_from(pod);
        reading.model.clone_from(model);
        reading.histograms = histograms.get(&(at as u32)).cloned().unwrap_or_default();
        push(&mut read, reading, &values[at]);
    }
    read
}

/// A device of which only the host is known.
fn of_host(host: &Option<Name>) -> RowDevice {
    RowDevice {
        host: host.clone(),
        ..RowDevice::default()
    }
}

/// Slices by their number, then by their name.
fn slice_order(place: &RowSubject) -> (u32, Option<Name>) {
    match place {
        RowSubject::Slice { id, .. } => {
            let number = id.rsplit('-').next().and_then(|text| text.parse().ok());
            (number.unwrap_or(u32::MAX), Some(id.clone()))
        }
        _ => (0, None),
    }
}

fn reading(
    dialect: &Dialect,
    scope: ReadingScope,
    device: &RowDevice,
    slice: Option<Name>,
) -> Reading {
    Reading {
        host: device.host.clone(),
        index: device.index,
        uuid: device.uuid.clone(),
        serial: device.serial.clone(),
        pci: device.pci.clone(),
        model: device.model.clone(),
        driver: device.driver.clone(),
        slice,
        ..Reading::new(dialect.name.clone(), scope)
    }
}

fn set_holder(reading: &mut Reading, rows: &PageRows<'_, '_>, pod: u32) {
    let pod = &rows.pods[pod as usize];
    reading.pod = Some(pod.key.clone());
    reading.container = pod.container.clone();
}

/// Adds a reading with its values; totals are kept separately.
fn push(read: &mut ParsedPage, mut reading: Reading, values: &Values) {
    reading.signals = values
        .iter()
        .filter(|(_, value)| !value.total)
        .map(|(signal, value)| (*signal, value.number))
        .collect();
    let at = read.readings.len();
    read.totals.extend(
        values
            .iter()
            .filter(|(_, value)| value.total || value.mean.is_some())
            .map(|(signal, value)| Total {
                reading: at,
                signal: *signal,
                value: value.mean.map_or(value.number, |(sum, _)| sum),
                count: value.mean.map(|(_, count)| count),
            }),
    );
    read.readings.push(reading);
}
