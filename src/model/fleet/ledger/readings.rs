//! The last readings of one node's devices, by device and dialect, kept over short gaps.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::base::{Age, Moment, Name, Names, ObjectKey};
use crate::fleet::idle::IdleBefore;
use crate::fleet::observe::NodeSeen;
use crate::fleet::reading::{Page, Reading, Scope};
use crate::fleet::signal::Signals;

use super::Ledger;
use super::limits::MOST;

/// Maximum number of unmatched hosts; more are a mistake or an attack.
const MOST_UNMATCHED: usize = 4096;

/// Maximum number of exporters per host, far more than a node has.
const MOST_PAGES: usize = 8;

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
pub(super) struct Named {
    pub(super) pod: ObjectKey,
    at: Moment,
    interval: Duration,
}

impl Named {
    /// Exporters sometimes drop labels between scrapes: a name is valid for two of their intervals.
    fn is_current(&self, now: Moment) -> bool {
        now.since(self.at) <= Age::from(self.interval.saturating_mul(2))
    }
}

/// The last readings of one slice.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct SliceReadings {
    said: Vec<DialectReading>,
    named: Option<Named>,
}

/// The last readings of one device.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct DeviceReadings {
    pub(super) uuid: Option<Name>,
    pub(super) serial: Option<Name>,
    pub(super) pci: Option<Name>,
    pub(super) model: Option<Name>,
    pub(super) driver: Option<Name>,
    pub(super) slices: BTreeMap<Name, SliceReadings>,
    pub(super) idle_since: Option<Moment>,
    /// See [`Device::idle_first_seen`](crate::fleet::device::Device::idle_first_seen).
    pub(super) idle_first_seen: bool,
    /// Time of the first reading.
    pub(super) first_read: Option<Moment>,
    /// True once it was seen busy.
    pub(super) seen_busy: bool,
    said: Vec<DialectReading>,
    named: Option<Named>,
    /// Pods of a time-sliced device, each named by its own row.
    sharers: Vec<Named>,
    /// True when no exporter gave its index: it got the next free one.
    guessed: bool,
}

fn store_reading(
    said: &mut Vec<DialectReading>,
    dialect: &Name,
    at: Moment,
    interval: Duration,
    signals: &Signals,
) {
    match said.iter_mut().find(|said| said.dialect == *dialect) {
        // One exporter may be read over two paths: an older reading is ignored, unless the clock was set back.
        Some(known) if at < known.at && known.at.since(at) < WAVER => {}
        Some(known) => {
            known.at = at;
            known.interval = interval;
            known.signals = signals.clone();
        }
        None => said.push(DialectReading {
            dialect: dialect.clone(),
            at,
            interval,
            signals: signals.clone(),
        }),
    }
}

/// One value per signal: from the dialect with most signals, else from the others.
fn merged(said: &[DialectReading]) -> Signals {
    if let [only] = said {
        return only.signals.clone();
    }
    let mut order: Vec<&DialectReading> = said.iter().collect();
    order.sort_by(|a, b| {
        b.signals
            .len()
            .cmp(&a.signals.len())
            .then(a.dialect.cmp(&b.dialect))
    });
    order.iter().fold(Signals::default(), |all, said| {
        if all.is_empty() {
            said.signals.clone()
        } else {
            all.or(&said.signals)
        }
    })
}

impl SliceReadings {
    pub(super) fn signals(&self) -> Signals {
        merged(&self.said)
    }

    pub(super) fn pod(&self, now: Moment) -> Option<&ObjectKey> {
        self.named
            .as_ref()
            .filter(|named| named.is_current(now))
            .map(|named| &named.pod)
    }
}

impl DeviceReadings {
    pub(super) fn signals(&self) -> Signals {
        merged(&self.said)
    }

    pub(super) fn read_at(&self) -> Option<Moment> {
        let slices = self.slices.values().flat_map(|slice| &slice.said);
        self.said.iter().chain(slices).map(|said| said.at).max()
    }

    pub(super) fn interval(&self) -> Duration {
        let slices = self.slices.values().flat_map(|slice| &slice.said);
        self.said
            .iter()
            .chain(slices)
            .map(|said| said.interval)
            .max()
            .unwrap_or(Duration::from_secs(30))
    }

    pub(super) fn pod(&self, now: Moment) -> Option<&ObjectKey> {
        self.named
            .as_ref()
            .filter(|named| named.is_current(now))
            .map(|named| &named.pod)
    }

    pub(super) fn sharers(&self, now: Moment) -> impl Iterator<Item = &ObjectKey> {
        self.sharers
            .iter()
            .filter(move |named| named.is_current(now))
            .map(|named| &named.pod)
    }

    fn identify(&mut self, reading: &Reading) {
        for (known, said) in [
            (&mut self.uuid, &reading.uuid),
            (&mut self.serial, &reading.serial),
            (&mut self.pci, &reading.pci),
            (&mut self.model, &reading.model),
            (&mut self.driver, &reading.driver),
        ] {
            if said.is_some() {
                known.clone_from(said);
            }
        }
    }
}

/// An exporter's device or slice index beyond [`MOST`].
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct Beyond {
    pub(super) count: u32,
    at: Moment,
    interval: Duration,
}

/// The last readings of one node.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct NodeReadings {
    /// By device index.
    pub(super) devices: BTreeMap<u32, DeviceReadings>,
    /// Readings of the node as a whole.
    pub(super) node: Vec<(Name, Signals)>,
    /// Devices or slices beyond [`MOST`] that an exporter reports; their rows are ignored.
    pub(super) ignored: Option<Beyond>,
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
    let same = |known: &Option<Name>, said: &Option<Name>| said.is_some() && known == said;
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
    pub(super) fn is_empty(&self) -> bool {
        self.devices.is_empty() && self.node.is_empty() && self.ignored.is_none()
    }

    /// Passes the signals of every row to `take`, in a fixed order.
    pub(super) fn visit(&mut self, take: &mut dyn FnMut(&mut Signals)) {
        for (_, signals) in &mut self.node {
            take(signals);
        }
        for device in self.devices.values_mut() {
            let slices = device.slices.values_mut();
            let slices = slices.flat_map(|slice| slice.said.iter_mut());
            for said in device.said.iter_mut().chain(slices) {
                take(&mut said.signals);
            }
        }
    }

    /// The slot of a reading of a known device.
    fn known_slot(&self, reading: &Reading) -> Option<u32> {
        let same = |known: &Option<Name>, said: &Option<Name>| said.is_some() && known == said;
        reading.index.or_else(|| {
            let known = self.devices.iter().find(|(_, device)| {
                same(&device.uuid, &reading.uuid) || same(&device.pci, &reading.pci)
            });
            known.map(|(slot, _)| *slot)
        })
    }

    /// Takes one page's readings. Devices that the page omits keep their readings.
    pub(super) fn take(&mut self, at: Moment, interval: Duration, readings: &[Reading]) {
        // Sorted, so that devices without an index get the same slots on every run.
        let mut readings: Vec<&Reading> = readings.iter().collect();
        readings.sort_by(|a, b| (a.index, &a.uuid, a.scope).cmp(&(b.index, &b.uuid, b.scope)));
        for reading in readings {
            if reading.scope == Scope::Node {
                self.node.retain(|(dialect, _)| *dialect != reading.dialect);
                self.node
                    .push((reading.dialect.clone(), reading.signals.clone()));
                continue;
            }
            if reading.scope == Scope::Serving {
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
            let named = reading.pod.clone().map(|pod| Named { pod, at, interval });
            match (reading.scope, &reading.slice) {
                (Scope::Slice, Some(slice))
                    if device.slices.len() >= MOST as usize
                        && !device.slices.contains_key(slice) =>
                {
                    ignore(MOST + 1);
                }
                (Scope::Slice, Some(slice)) => {
                    let slice = device.slices.entry(slice.clone()).or_default();
                    store_reading(
                        &mut slice.said,
                        &reading.dialect,
                        at,
                        interval,
                        &reading.signals,
                    );
                    if named.is_some() {
                        slice.named = named;
                    }
                }
                (Scope::PodCopy, _) => {
                    if let Some(named) = named {
                        device
                            .sharers
                            .retain(|known| known.pod != named.pod && known.is_current(at));
                        device.sharers.push(named);
                    }
                }
                _ => {
                    store_reading(
                        &mut device.said,
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
                slice
                    .said
                    .iter()
                    .any(|said| at.since(said.at) <= Age::from(said.interval.saturating_mul(10)))
            });
        }
    }
}

impl Ledger {
    pub(super) fn read_page(&mut self, page: Page) {
        self.read_servers(&page);
        if let Some(node) = page.node.clone() {
            let listed = self
                .nodes
                .get(&node)
                .is_some_and(|state| state.seen.is_some());
            if listed || self.unseen_node(&node).as_ref() == Some(&node) {
                self.take_page(&node, &page);
            } else {
                self.keep_unmatched(node, page);
            }
            return;
        }
        // No pod identifies the node: match the rows' own hosts, where possible.
        let mut by_host: BTreeMap<Option<Name>, Vec<Reading>> = BTreeMap::new();
        for reading in page.readings {
            by_host
                .entry(reading.host.clone())
                .or_default()
                .push(reading);
        }
        for (host, readings) in by_host {
            let part = Page {
                node: None,
                at: page.at,
                interval: page.interval,
                readings,
            };
            let Some(host) = host else {
                // The hosts do not match either: use the node of the pods that the rows name.
                if let Some(node) = self.node_of_holders(&part.readings) {
                    self.take_page(&node, &part);
                }
                continue;
            };
            match self.node_of_host(&host) {
                Some(node) => self.take_page(&node, &part),
                None => self.keep_unmatched(host, part),
            }
        }
    }

    /// The known devices that a page has readings for.
    pub fn devices_of<'p>(&self, page: &'p Page) -> Vec<(Name, &'p Reading)> {
        let of_host = |host: &Name| self.node_of_host(host);
        let mut all = Vec::new();
        for reading in page
            .readings
            .iter()
            .filter(|reading| reading.scope == Scope::Device)
        {
            let node = page
                .node
                .clone()
                .or_else(|| of_host(reading.host.as_ref()?));
            let Some(state) = node.and_then(|node| self.nodes.get(&node)) else {
                continue;
            };
            let slot = state.readings.known_slot(reading);
            let built = state.built.iter().flat_map(|node| node.devices.iter());
            if let Some(device) = built.into_iter().find(|device| Some(device.index) == slot) {
                all.push((device.id.clone(), reading));
            }
        }
        all
    }

    /// Stores the last page of each exporter of a host that matches no node yet. Bounded, since a page can name any host.
    fn keep_unmatched(&mut self, host: Name, page: Page) {
        // Readings of model servers belong to their pods and were processed already.
        let mut rows = page.readings.iter();
        let Some(first) = rows.find(|row| row.scope != Scope::Serving) else {
            return;
        };
        let full = self.unmatched_pages.len() >= MOST_UNMATCHED;
        if full && !self.unmatched_pages.contains_key(&host) {
            return;
        }
        let pages = self.unmatched_pages.entry(host).or_default();
        pages.retain(|old| !old.readings.iter().any(|row| is_same_row(row, first)));
        if pages.len() >= MOST_PAGES {
            pages.remove(0);
        }
        pages.push(page);
    }

    pub(super) fn match_pages(&mut self) {
        for host in self.unmatched_pages.keys().cloned().collect::<Vec<_>>() {
            if let Some(node) = self.node_of_host(&host)
                && let Some(pages) = self.unmatched_pages.remove(&host)
            {
                for page in &pages {
                    self.take_page(&node, page);
                }
            }
        }
    }

    fn take_page(&mut self, node: &Name, page: &Page) {
        let state = self.nodes.entry(node.clone()).or_default();
        state.readings.take(page.at, page.interval, &page.readings);
        self.read_nodes.insert(node.clone());
    }

    /// The node for `host`: by name, by the first part of its name, or by the tail of its provider id
    /// (`aws:///us-east-1c/i-0abc`).
    fn node_of_host(&self, host: &Name) -> Option<Name> {
        if self
            .nodes
            .get(host)
            .is_some_and(|state| state.seen.is_some())
        {
            return Some(host.clone());
        }
        let seen = self.nodes.values().filter_map(|state| state.seen.as_ref());
        let mut found = seen
            .filter(|node| is_called(node, host))
            .map(|node| node.name.clone());
        match (found.next(), found.next()) {
            (Some(only), None) => Some(only),
            _ => self.unseen_node(host),
        }
    }
}

/// True when two rows describe the same thing in the same dialect, so that their pages come from one exporter.
fn is_same_row(one: &Reading, other: &Reading) -> bool {
    (&one.dialect, one.scope, one.index) == (&other.dialect, other.scope, other.index)
        && (&one.uuid, &one.pci, &one.slice) == (&other.uuid, &other.pci, &other.slice)
}

fn is_called(node: &NodeSeen, host: &str) -> bool {
    let short = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
    let by_provider = node
        .provider_id
        .as_ref()
        .and_then(|id| id.rsplit('/').next())
        .is_some_and(|tail| tail == host);
    by_provider || short(&node.name) == short(host)
}

/// Interns the id of a device: `NODE/gpu3`.
pub(super) fn device_id(names: &mut Names, node: &str, kind: &str, index: u32) -> Name {
    names.intern(&format!("{node}/{kind}{index}"))
}

impl Ledger {
    /// Devices that are idle for longer than their own readings say. One that is idle no more stays so.
    pub(super) fn see_idle_before(&mut self, all: &[IdleBefore]) {
        for IdleBefore { node, device, idle } in all {
            let known = self.nodes.get_mut(node);
            let known = known.and_then(|state| state.readings.devices.get_mut(device));
            let Some(known) = known else { continue };
            if known.idle_since.is_some_and(|own| idle.since <= own) {
                known.idle_since = Some(idle.since);
                known.idle_first_seen = idle.at_least;
                self.dirty_nodes.insert(node.clone());
            }
        }
    }
}
