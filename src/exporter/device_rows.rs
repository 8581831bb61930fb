//! Which device, slice and pod a row is about; rows of one device come together here.

use std::mem::Discriminant;

use rustc_hash::FxHashMap;

use model::base::{Name, Names, ObjectKey};

use super::contribution::NONE;
use super::dialect::Dialect;
use super::labels::{DeviceLabels, glob, intern, label, real_id};
use super::line::Label;
use super::spec::DeviceKey;

/// No host has as many devices; a higher index is a mistake, or malice.
const MOST_DEVICES: u32 = 1024;

/// A device as its rows describe it.
#[derive(Debug, Clone, Default)]
pub(super) struct RowDevice {
    /// Its identity on the page.
    pub key: Option<Name>,
    pub host: Option<Name>,
    pub index: Option<u32>,
    pub uuid: Option<Name>,
    pub serial: Option<Name>,
    pub pci: Option<Name>,
    pub model: Option<Name>,
    pub driver: Option<Name>,
}

/// What values may be about.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum RowSubject {
    Node(Option<Name>),
    /// Every device of a host.
    Each(Option<Name>),
    /// Cores of a host, whose devices follow from their numbers.
    Cores(Option<Name>),
    Device(u32),
    Slice {
        device: u32,
        id: Name,
        profile: Option<Name>,
    },
    /// A server of models, by its pod, and which model.
    Serving(Option<ObjectKey>, Option<Name>),
}

/// A holder as a row names it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct RowPod {
    pub key: ObjectKey,
    pub container: Option<Name>,
    /// Named by an `exported_` label: Prometheus moved it aside for the scrape target's own.
    pub exported: bool,
}

/// The position of a row; [`NONE`] means no position.
#[derive(Debug, Clone, Copy)]
pub(super) struct RowPosition {
    pub host: u32,
    pub device: u32,
    pub device_place: u32,
    /// The slice's place, or the device's.
    pub place: u32,
    pub pod: u32,
    pub ignored: bool,
}

/// A slice of a device.
#[derive(Debug)]
struct Cut {
    profile: Option<Name>,
    own_index: Option<u32>,
    place: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Id {
    /// The identity of a device on this page, whether it is a real id or not.
    Key(Name),
    Uuid(Name),
    Index(Option<Name>, u32),
    Pci(Option<Name>, Name),
    Serial(Option<Name>, Name),
}

/// All nodes, devices and slices in the rows of a page.
pub(super) struct PageRows<'d, 'n> {
    dialect: &'d Dialect,
    own: Option<ObjectKey>,
    pub names: &'n mut Names,
    pub devices: Vec<RowDevice>,
    ids: FxHashMap<Id, u32>,
    pub places: Vec<RowSubject>,
    /// Slices of a device by number, with their profile and, where each has one, an index of their own.
    by_slice: FxHashMap<(u32, Name), Vec<Cut>>,
    servings: FxHashMap<(Option<ObjectKey>, Option<Name>), u32>,
    device_places: Vec<u32>,
    hosts: Vec<Option<Name>>,
    host_ids: FxHashMap<Option<Name>, u32>,
    host_places: FxHashMap<(Discriminant<RowSubject>, u32), u32>,
    pub pods: Vec<RowPod>,
    pod_ids: FxHashMap<RowPod, u32>,
    /// Who holds which place, as often as rows say so.
    pub holders: FxHashMap<(u32, u32), bool>,
    /// Identity that holds for all rows of a host, or of a page whose rows name none.
    hosts_of: FxHashMap<Option<Name>, RowDevice>,
    /// Hosts that the page's own identity names, where its rows name none: of several none holds.
    page_hosts: Vec<Name>,
    /// Cores of a device on each host, when the page has them.
    cores: FxHashMap<Option<Name>, u32>,
    /// Rows that named the exporter's own pod.
    pub own_pod: usize,
    /// Rows whose id was nothing but zeros.
    pub zero_ids: usize,
}

impl<'d, 'n> PageRows<'d, 'n> {
    pub fn new(dialect: &'d Dialect, own: Option<ObjectKey>, names: &'n mut Names) -> Self {
        Self {
            dialect,
            own,
            names,
            devices: Vec::new(),
            ids: FxHashMap::default(),
            places: Vec::new(),
            by_slice: FxHashMap::default(),
            device_places: Vec::new(),
            servings: FxHashMap::default(),
            hosts: Vec::new(),
            host_ids: FxHashMap::default(),
            host_places: FxHashMap::default(),
            pods: Vec::new(),
            pod_ids: FxHashMap::default(),
            holders: FxHashMap::default(),
            hosts_of: FxHashMap::default(),
            page_hosts: Vec::new(),
            cores: FxHashMap::default(),
            own_pod: 0,
            zero_ids: 0,
        }
    }

    /// The position of a row with these labels.
    pub fn spot(&mut self, labels: &[Label<'_>]) -> RowPosition {
        let mut spot = RowPosition {
            host: NONE,
            device: NONE,
            device_place: NONE,
            place: NONE,
            pod: NONE,
            ignored: self
                .dialect
                .ignore_with
                .iter()
                .any(|name| label(labels, name).is_some()),
        };
        if spot.ignored {
            return spot;
        }
        let (row, slice) = self.identity(&self.dialect.fields, labels);
        spot.host = self.host(row.host.clone());
        let own_index = row.index;
        let Some(device) = self.device(row, slice.is_some()) else {
            return spot;
        };
        spot.device = device;
        spot.device_place = self.device_places[device as usize];
        spot.place = match slice {
            None => spot.device_place,
            Some((id, profile)) => self.slice(device, id, profile, own_index),
        };
        spot.pod = self.pod(labels);
        if spot.pod != NONE
            && self
                .dialect
                .pod
                .copy
                .iter()
                .any(|name| label(labels, name).is_some())
        {
            self.copy(spot.place, spot.pod);
        }
        spot
    }

    /// Takes the identity out of an info metric's labels. False when they name no device.
    pub fn join(&mut self, join: usize, labels: &[Label<'_>]) -> bool {
        let join = &self.dialect.joins[join];
        let (row, slice) = self.identity(&join.fields, labels);
        if join.page {
            let of = self.host_of(labels);
            if let (None, Some(host)) = (&of, &row.host)
                && !self.page_hosts.contains(host)
            {
                self.page_hosts.push(host.clone());
            }
            let known = self.hosts_of.remove(&of).unwrap_or_default();
            self.hosts_of.insert(of, fill(known, row));
            return true;
        }
        let own_index = row.index;
        let Some(device) = self.device(row, slice.is_some()) else {
            return false;
        };
        if let Some((id, profile)) = slice {
            self.slice(device, id, profile, own_index);
        }
        true
    }

    /// Takes the number of cores of a device out of an info metric's labels.
    pub fn cores(&mut self, labels: &[Label<'_>]) -> bool {
        let count = self
            .dialect
            .core
            .as_ref()
            .and_then(|rule| rule.per_device_label.as_ref())
            .and_then(|name| label(labels, name)?.parse().ok())
            .filter(|count| *count > 0);
        if let Some(count) = count {
            let host = self.host_of(labels);
            self.cores.insert(host, count);
        }
        count.is_some()
    }

    /// Cores of a device of this host, from the page or the dialect.
    pub fn cores_per_device(&self, host: &Option<Name>) -> Option<u32> {
        let fixed = || self.dialect.core.as_ref().and_then(|rule| rule.per_device);
        self.cores.get(host).copied().or_else(fixed)
    }

    /// The core's number on its host.
    pub fn core(&mut self, labels: &[Label<'_>]) -> Option<u32> {
        let rule = self.dialect.core.as_ref()?;
        if let Some((name, of)) = &rule.per_device_by
            && let Some(value) = label(labels, name)
            && let Some((_, count)) = of.iter().find(|(known, _)| glob(known, value))
        {
            let host = self.host_of(labels);
            self.cores.entry(host).or_insert(*count);
        }
        rule.index
            .get(labels, &self.dialect.missing.texts)?
            .parse()
            .ok()
    }

    /// A device with what holds for all of its host.
    pub fn completed(&self, device: RowDevice) -> RowDevice {
        let mut all = self.hosts_of.get(&device.host).cloned().unwrap_or_default();
        if self.page_hosts.len() > 1 && device.host.is_none() {
            all.host = None;
        }
        fill(device, all)
    }

    fn host_of(&mut self, labels: &[Label<'_>]) -> Option<Name> {
        let absent = &self.dialect.missing.texts;
        intern(self.names, self.dialect.fields.host.get(labels, absent))
    }

    /// The place of the server of models that a row is about: the pod that it names, else the page's own.
    pub fn serving_place(&mut self, labels: &[Label<'_>]) -> u32 {
        let absent = &self.dialect.missing.texts;
        let served = self.dialect.served.as_ref();
        let model = served.and_then(|field| field.get(labels, absent));
        let model = intern(self.names, model);
        let named = self
            .named_pod(labels)
            .map(|(namespace, name, ..)| ObjectKey {
                namespace: self.names.intern(namespace),
                name: self.names.intern(name),
            });
        let pod = named.or_else(|| self.own.clone());
        let key = (pod, model);
        if let Some(known) = self.servings.get(&key) {
            return *known;
        }
        let place = self.add(RowSubject::Serving(key.0.clone(), key.1.clone()));
        self.servings.insert(key, place);
        place
    }

    /// Notes that `pod` holds `place`.
    pub fn set_holder(&mut self, place: u32, pod: u32) {
        if pod != NONE {
            self.holders.entry((place, pod)).or_insert(false);
        }
    }

    /// Notes that rows of `pod` are its copies of a shared `place`.
    pub fn copy(&mut self, place: u32, pod: u32) {
        self.holders.insert((place, pod), true);
    }

    pub fn node_place(&mut self, host: u32) -> u32 {
        self.host_place(host, RowSubject::Node)
    }

    pub fn each_place(&mut self, host: u32) -> u32 {
        self.host_place(host, RowSubject::Each)
    }

    pub fn core_place(&mut self, host: u32) -> u32 {
        self.host_place(host, RowSubject::Cores)
    }

    /// The place of the device with this index, made when there is none.
    pub fn device_at(&mut self, host: &Option<Name>, index: u32) -> Option<u32> {
        let row = RowDevice {
            host: host.clone(),
            index: Some(index),
            ..RowDevice::default()
        };
        let device = self.device(row, false)?;
        Some(self.device_places[device as usize])
    }

    /// The place of a slice. Where slices have indices of their own, two of one number are still two.
    fn slice(
        &mut self,
        device: u32,
        id: Name,
        profile: Option<Name>,
        own_index: Option<u32>,
    ) -> u32 {
        let apart = self
            .dialect
            .slice
            .as_ref()
            .is_some_and(|rule| !rule.parent.is_empty());
        let own_index = own_index.filter(|_| apart);
        let known = self.by_slice.entry((device, id.clone())).or_default();
        let first = known.is_empty();
        let same = known.iter_mut().find(|cut| {
            cut.own_index == own_index
                && (cut.profile == profile || cut.profile.is_none() || profile.is_none())
        });
        let mut called = match &profile {
            Some(profile) => self.names.intern(&format!("{profile}-{id}")),
            None => id.clone(),
        };
        if let Some(cut) = same {
            // An info metric may be the only source of the profile.
            if cut.profile.is_none() && profile.is_some() {
                cut.profile.clone_from(&profile);
                self.places[cut.place as usize] = RowSubject::Slice {
                    device,
                    id: called,
                    profile,
                };
            }
            return cut.place;
        }
        if let (Some(index), false) = (own_index, first) {
            called = self.names.intern(&format!("{called}.{index}"));
        }
        let place = self.places.len() as u32;
        known.push(Cut {
            profile: profile.clone(),
            own_index,
            place,
        });
        self.add(RowSubject::Slice {
            device,
            id: called,
            profile,
        })
    }

    fn host_place(&mut self, host: u32, make: fn(Option<Name>) -> RowSubject) -> u32 {
        let place = make(self.hosts.get(host as usize).cloned().flatten());
        let key = (std::mem::discriminant(&place), host);
        if let Some(known) = self.host_places.get(&key) {
            return *known;
        }
        let number = self.add(place);
        self.host_places.insert(key, number);
        number
    }

    fn host(&mut self, host: Option<Name>) -> u32 {
        if let Some(known) = self.host_ids.get(&host) {
            return *known;
        }
        let number = self.hosts.len() as u32;
        self.hosts.push(host.clone());
        self.host_ids.insert(host, number);
        number
    }

    fn add(&mut self, place: RowSubject) -> u32 {
        self.places.push(place);
        (self.places.len() - 1) as u32
    }

    /// What a row's labels say of device and slice.
    fn identity(
        &mut self,
        fields: &DeviceLabels,
        labels: &[Label<'_>],
    ) -> (RowDevice, Option<(Name, Option<Name>)>) {
        let absent = &self.dialect.missing.texts;
        let real = |id: Option<std::borrow::Cow<'_, str>>, zeros: &mut usize| {
            let id = id?;
            let real = real_id(&id);
            *zeros += usize::from(!real);
            real.then(|| id.into_owned())
        };
        let uuid = real(fields.uuid.get(labels, absent), &mut self.zero_ids);
        let serial = real(fields.serial.get(labels, absent), &mut 0);
        let names = &mut *self.names;
        let row = RowDevice {
            key: intern(names, fields.key.get(labels, absent)),
            host: intern(names, fields.host.get(labels, absent)),
            index: fields
                .index
                .get(labels, absent)
                .and_then(|text| text.parse().ok())
                .filter(|index| *index < MOST_DEVICES),
            uuid: uuid.map(|uuid| names.intern(&uuid)),
            serial: serial.map(|serial| names.intern(&serial)),
            pci: intern(names, fields.pci.get(labels, absent)),
            model: intern(names, fields.model.get(labels, absent)),
            driver: intern(names, fields.driver.get(labels, absent)),
        };
        let slice = self.dialect.slice.as_ref().and_then(|rule| {
            if rule.unless.iter().any(|filter| filter.passes(labels)) {
                return None;
            }
            let id = rule.id.get(labels, absent)?;
            let profile = rule.profile.get(labels, absent);
            Some((names.intern(&id), intern(names, profile)))
        });
        (row, slice)
    }

    /// The device of a row: by uuid, else by host and index, else by what else it has.
    fn device(&mut self, row: RowDevice, sliced: bool) -> Option<u32> {
        let all = [
            row.uuid.clone().map(Id::Uuid),
            row.index.map(|index| Id::Index(row.host.clone(), index)),
            row.pci.clone().map(|pci| Id::Pci(row.host.clone(), pci)),
            row.serial
                .clone()
                .map(|serial| Id::Serial(row.host.clone(), serial)),
        ];
        let parent = self
            .dialect
            .slice
            .as_ref()
            .map(|rule| &*rule.parent)
            .filter(|parent| sliced && !parent.is_empty());
        let known_by: Vec<Id> = match parent {
            // Each slice has an index and an id of its own: only the parent's key leads to the device.
            Some(parent) => parent
                .iter()
                .find_map(|key| {
                    let at = match key {
                        DeviceKey::Uuid => 0,
                        DeviceKey::Index => 1,
                        DeviceKey::Pci => 2,
                        DeviceKey::Serial => 3,
                    };
                    all[at].clone()
                })
                .into_iter()
                .collect(),
            // Boards with two devices share a serial number, so it identifies devices only when there is nothing better.
            None if all[0].is_some() || all[1].is_some() => {
                all.into_iter().take(2).flatten().collect()
            }
            None => all.into_iter().flatten().take(1).collect(),
        };
        let keys = row.key.clone().map(Id::Key);
        let known_by: Vec<Id> = keys.into_iter().chain(known_by).collect();
        let found = known_by
            .iter()
            .filter_map(|id| self.ids.get(id).copied())
            .find(|at| {
                let known = &self.devices[*at as usize];
                // The same index with another uuid is another host's device.
                parent.is_some()
                    || row.uuid.is_none()
                    || known.uuid.is_none()
                    || known.uuid == row.uuid
            });
        let device = match found {
            Some(device) => device,
            None if known_by.is_empty() => return None,
            None => {
                let device = self.devices.len() as u32;
                self.devices.push(RowDevice::default());
                let place = self.add(RowSubject::Device(device));
                self.device_places.push(place);
                device
            }
        };
        for id in known_by {
            self.ids.entry(id).or_insert(device);
        }
        let known = &mut self.devices[device as usize];
        // Of a partitioned device the first partition's index is the device's.
        if parent.is_some() && row.index < known.index && row.index.is_some() {
            known.index = row.index;
            known.uuid = row.uuid.clone().or(known.uuid.take());
        }
        *known = fill(std::mem::take(known), row);
        Some(device)
    }

    /// The pod that has the device by the row's labels; [`NONE`] when the row has none that can be trusted.
    fn pod(&mut self, labels: &[Label<'_>]) -> u32 {
        let rule = &self.dialect.pod;
        let Some((namespace, name, container, exported)) = self.named_pod(labels) else {
            return NONE;
        };
        let key = ObjectKey {
            namespace: self.names.intern(namespace),
            name: self.names.intern(name),
        };
        let own = self.own.as_ref() == Some(&key)
            || rule.own_pods.iter().any(|own| glob(own, name))
            || container.is_some_and(|container| {
                rule.own_containers.iter().any(|own| glob(own, container))
            });
        if own {
            self.own_pod += 1;
            return NONE;
        }
        let pod = RowPod {
            key,
            container: container.map(|container| self.names.intern(container)),
            exported,
        };
        if let Some(known) = self.pod_ids.get(&pod) {
            return *known;
        }
        let id = self.pods.len() as u32;
        self.pods.push(pod.clone());
        self.pod_ids.insert(pod, id);
        id
    }

    /// Namespace, name and container that the row's labels give, and whether Prometheus had moved them aside.
    fn named_pod<'l>(
        &self,
        labels: &'l [Label<'_>],
    ) -> Option<(&'l str, &'l str, Option<&'l str>, bool)> {
        let absent = &self.dialect.missing.texts;
        let known = |name: &str| {
            label(labels, name).filter(|value| !absent.iter().any(|word| word == value))
        };
        let rules = &self.dialect.pod.labels;
        let set = rules.iter().find(|set| known(&set.pod).is_some())?;
        let container = set.container.as_ref().and_then(|name| known(name));
        let exported = set.pod.starts_with("exported_");
        Some((
            known(&set.namespace)?,
            known(&set.pod)?,
            container,
            exported,
        ))
    }
}

/// `known`, with its unknown fields taken from `more`.
fn fill(known: RowDevice, more: RowDevice) -> RowDevice {
    RowDevice {
        key: known.key.or(more.key),
        host: known.host.or(more.host),
        index: known.index.or(more.index),
        uuid: known.uuid.or(more.uuid),
        serial: known.serial.or(more.serial),
        pci: known.pci.or(more.pci),
        model: known.model.or(more.model),
        driver: known.driver.or(more.driver),
    }
}
