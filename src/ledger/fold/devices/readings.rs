//! The last readings of one node's devices, by device and dialect, kept over short gaps.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use model::base::{Age, Moment, Name, Names, ObjectKey};
use model::fleet::reading::{Reading, ReadingScope};
use model::fleet::signal::Signals;

use super::limits::MOST;

/// A reading that is older by less than this is late; by more, the clock was set back.
const WAVER: Age = Age::from_seconds(900);

/// Last readings of one dialect for a device or slice.
#[derive(Clone, Serialize, Deserialize)]
struct DialectReading {
    dialect: Name,
    at: Moment,
    interval: Duration,
    signals: Signals,
}

/// A pod that an exporter named, with the time of the last mention.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct NamedPod {
    pub(crate) pod: ObjectKey,
    at: Moment,
    interval: Duration,
}

impl NamedPod {
    /// Exporters sometimes drop labels between scrapes: a name is valid for two of their intervals.
    fn is_current(&self, now: Moment) -> bool {
        now.since(self.at) <= Age::from(self.interval.saturating_mul(2))
    }
}

/// The last readings of one slice.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct SliceReadings {
    #[serde(rename = "said")]
    by_dialect: Vec<DialectReading>,
    named: Option<NamedPod>,
}

/// The last readings of one device.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct DeviceReadings {
    pub(crate) uuid: Option<Name>,
    pub(crate) serial: Option<Name>,
    pub(crate) pci: Option<Name>,
    pub(crate) model: Option<Name>,
    pub(crate) driver: Option<Name>,
    pub(crate) slices: BTreeMap<Name, SliceReadings>,
    pub(crate) idle_since: Option<Moment>,
    pub(crate) idle_first_seen: bool,
    /// Time of the first reading.
    pub(crate) first_read: Option<Moment>,
    /// True once it was seen busy.
    pub(crate) seen_busy: bool,
    #[serde(rename = "said")]
    by_dialect: Vec<DialectReading>,
    named: Option<NamedPod>,
    /// Pods of a time-sliced device, each named by its own row.
    sharers: Vec<NamedPod>,
    /// True when no exporter gave its index: it got the next free one.
    guessed: bool,
}

fn store_reading(
    by_dialect: &mut Vec<DialectReading>,
    dialect: &Name,
    at: Moment,
    interval: Duration,
    signals: &Signals,
) {
    match by_dialect
        .iter_mut()
        .find(|reading| reading.dialect == *dialect)
    {
        // One exporter may be read over two paths: an older reading is ignored, unless the clock was set back.
        Some(known) if at < known.at && known.at.since(at) < WAVER => {}
        Some(known) => {
            known.at = at;
            known.interval = interval;
            known.signals = signals.clone();
        }
        None => by_dialect.push(DialectReading {
            dialect: dialect.clone(),
            at,
            interval,
            signals: signals.clone(),
        }),
    }
}

/// One value per signal: from the dialect with most signals, else from the others.
fn merged(by_dialect: &[DialectReading]) -> Signals {
    if let [only] = by_dialect {
        return only.signals.clone();
    }
    let mut order: Vec<&DialectReading> = by_dialect.iter().collect();
    order.sort_by(|a, b| {
        b.signals
            .len()
            .cmp(&a.signals.len())
            .then(a.dialect.cmp(&b.dialect))
    });
    order.iter().fold(Signals::default(), |all, reading| {
        if all.is_empty() {
            reading.signals.clone()
        } else {
            all.or(&reading.signals)
        }
    })
}

impl SliceReadings {
    pub(crate) fn signals(&self) -> Signals {
        merged(&self.by_dialect)
    }

    pub(crate) fn pod(&self, now: Moment) -> Option<&ObjectKey> {
        self.named
            .as_ref()
            .filter(|named| named.is_current(now))
            .map(|named| &named.pod)
    }
}

impl DeviceReadings {
    pub(crate) fn signals(&self) -> Signals {
        merged(&self.by_dialect)
    }

    pub(crate) fn read_at(&self) -> Option<Moment> {
        let slices = self.slices.values().flat_map(|slice| &slice.by_dialect);
        self.by_dialect
            .iter()
            .chain(slices)
            .map(|reading| reading.at)
            .max()
    }

    pub(crate) fn interval(&self) -> Duration {
        let slices = self.slices.values().flat_map(|slice| &slice.by_dialect);
        self.by_dialect
            .iter()
            .chain(slices)
            .map(|reading| reading.interval)
            .max()
            .unwrap_or(Duration::from_secs(30))
    }

    pub(crate) fn pod(&self, now: Moment) -> Option<&ObjectKey> {
        self.named
            .as_ref()
            .filter(|named| named.is_current(now))
            .map(|named| &named.pod)
    }

    pub(crate) fn sharers(&self, now: Moment) -> impl Iterator<Item = &ObjectKey> {
        self.sharers
            .iter()
            .filter(move |named| named.is_current(now))
            .map(|named| &named.pod)
    }

    fn identify(&mut self, reading: &Reading) {
        for (known, read) in [
            (&mut self.uuid, &reading.uuid),
            (&mut self.serial, &reading.serial),
            (&mut self.pci, &reading.pci),
            (&mut self.model, &reading.model),
            (&mut self.driver, &reading.driver),
        ] {
            if read.is_some() {
                known.clone_from(read);
            }
        }
    }
}

/// An exporter's device or slice index beyond [`MOST`].
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Beyond {
    pub(crate) count: u32,
    at: Moment,
    interval: Duration,
}

/// The last readings of one node.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct NodeReadings {
    pub(crate) devices: BTreeMap<u32, DeviceReadings>,
    /// Readings of the node as a whole.
    pub(crate) node: Vec<(Name, Signals)>,
    /// Devices or slices beyond [`MOST`] that an exporter reports; their rows are ignored.
    pub(crate) ignored: Option<Beyond>,
}

/// The slot of a reading: by index, else the device with its uuid or PCI address, else a new one. Returns an error for a device
/// that the node's indexed exporter does not list, as it cannot be an additional one; the error has the device count where
/// that is beyond [`MOST`].
fn slot(
    devices: &mut BTreeMap<u32, DeviceReadings>,
    reading: &Reading,
) -> Result<u32, Option<u32>> {
    if let Some(index) = reading.index {
        if index >= MOST {
            return Err(Some(index.saturating_add(1)));
        }
        // Indices are known now: drop the slots with guessed ones.
        devices.retain(|_, device| !device.guessed);
        return Ok(index);
    }
    let same = |known: &Option<Name>, read: &Option<Name>| read.is_some() && known == read;
    let known = devices
        .iter()
        .find(|(_, device)| same(&device.uuid, &reading.uuid) || same(&device.pci, &reading.pci));
    if let Some((slot, _)) = known {
        return Ok(*slot);
    }
    let nameless = reading.uuid.is_none() && reading.pci.is_none();
    let numbered = devices.values().any(|device| !device.guessed);
    if numbered || nameless {
        return Err(None);
    }
    let slot = devices.keys().next_back().map_or(0, |last| last + 1);
    if slot >= MOST {
        return Err(Some(slot + 1));
    }
    devices.entry(slot).or_default().guessed = true;
    Ok(slot)
}

impl NodeReadings {
    /// True while no exporter has reported for the node.
    pub(crate) fn is_empty(&self) -> bool {
        self.devices.is_empty() && self.node.is_empty() && self.ignored.is_none()
    }

    /// Passes the signals of every row to `take`, in a fixed order.
    pub(crate) fn visit(&mut self, take: &mut dyn FnMut(&mut Signals)) {
        for (_, signals) in &mut self.node {
            take(signals);
        }
        for device in self.devices.values_mut() {
            let slices = device.slices.values_mut();
            let slices = slices.flat_map(|slice| slice.by_dialect.iter_mut());
            for reading in device.by_dialect.iter_mut().chain(slices) {
                take(&mut reading.signals);
            }
        }
    }

    /// The slot of a reading of a known device.
    pub(crate) fn known_slot(&self, reading: &Reading) -> Option<u32> {
        let same = |known: &Option<Name>, read: &Option<Name>| read.is_some() && known == read;
        reading.index.or_else(|| {
            let known = self.devices.iter().find(|(_, device)| {
                same(&device.uuid, &reading.uuid) || same(&device.pci, &reading.pci)
            });
            known.map(|(slot, _)| *slot)
        })
    }

    /// Takes one page's readings. Devices that the page omits keep their readings.
    pub(crate) fn take(&mut self, at: Moment, interval: Duration, readings: &[Reading]) {
        // Sorted, so that devices without an index get the same slots on every run.
        let mut readings: Vec<&Reading> = readings.iter().collect();
        readings.sort_by(|a, b| (a.index, &a.uuid, a.scope).cmp(&(b.index, &b.uuid, b.scope)));
        for reading in readings {
            if reading.scope == ReadingScope::Node {
                self.node.retain(|(dialect, _)| *dialect != reading.dialect);
                self.node
                    .push((reading.dialect.clone(), reading.signals.clone()));
                continue;
            }
            if reading.scope == ReadingScope::Serving {
                continue;
            }
            let mut ignore = |count: u32| {
                let most = self.ignored.map_or(0, |known| known.count).max(count);
                self.ignored = Some(Beyond {
                    count: most,
                    at,
                    interval,
                });
            };
            let slot = match slot(&mut self.devices, reading) {
                Ok(slot) => slot,
                Err(beyond) => {
                    beyond.into_iter().for_each(ignore);
                    continue;
                }
            };
            let device = self.devices.entry(slot).or_default();
            // Another board in the same slot: the old readings are void.
            if let (Some(old), Some(new)) = (&device.uuid, &reading.uuid)
                && old != new
            {
                *device = DeviceReadings {
                    guessed: device.guessed,
                    ..DeviceReadings::default()
                };
            }
            device.identify(reading);
            let named = reading
                .pod
                .clone()
                .map(|pod| NamedPod { pod, at, interval });
            match (reading.scope, &reading.slice) {
                (ReadingScope::Slice, Some(slice))
                    if device.slices.len() >= MOST as usize
                        && !device.slices.contains_key(slice) =>
                {
                    ignore(MOST + 1);
                }
                (ReadingScope::Slice, Some(slice)) => {
                    let slice = device.slices.entry(slice.clone()).or_default();
                    store_reading(
                        &mut slice.by_dialect,
                        &reading.dialect,
                        at,
                        interval,
                        &reading.signals,
                    );
                    if named.is_some() {
                        slice.named = named;
                    }
                }
                (ReadingScope::PodCopy, _) => {
                    if let Some(named) = named {
                        device
                            .sharers
                            .retain(|known| known.pod != named.pod && known.is_current(at));
                        device.sharers.push(named);
                    }
                }
                _ => {
                    store_reading(
                        &mut device.by_dialect,
                        &reading.dialect,
                        at,
                        interval,
                        &reading.signals,
                    );
                    if named.is_some() {
                        device.named = named;
                    }
                }
            }
        }
        self.ignored = self
            .ignored
            .filter(|beyond| at.since(beyond.at) <= Age::from(beyond.interval.saturating_mul(10)));
        // A repartitioned device no longer has its old slices.
        for device in self.devices.values_mut() {
            device.slices.retain(|_, slice| {
                slice.by_dialect.iter().any(|reading| {
                    at.since(reading.at) <= Age::from(reading.interval.saturating_mul(10))
                })
            });
        }
    }
}

/// Interns the id of a device: `NODE/gpu3`.
pub(crate) fn device_id(names: &mut Names, node: &str, kind: &str, index: u32) -> Name {
    names.intern(&format!("{node}/{kind}{index}"))
}
