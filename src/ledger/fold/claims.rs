//! Dynamic resource allocation: slices of drivers, claims, templates and classes as they are added and deleted in any order, and
//! the devices that the claims of pods and workloads amount to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::base::{Name, ObjectKey};
use model::fleet::admission::GroupSeen;
use model::fleet::claim::{
    BY_CLASS, ClaimAsk, ClaimRequest, ClaimResult, ClaimSeen, ClassSeen, DeviceAccess, Published,
    SliceSeen, TemplateSeen, driver_of_class_name, is_accelerator_driver,
};
use model::fleet::device::Pod;
use model::fleet::kinds::Table;
use model::fleet::object_parts::{Labels, Resources};
use model::fleet::seen::{Claimed, ClaimedPart, PodSeen, WorkloadSeen};

use crate::fold::devices::dra_devices::{self, DraDevices};

/// A device of a slice: the slice, and its place in it.
pub(super) type Spot = (Name, usize);

/// Everything of devices by claim.
#[derive(Default)]
pub(super) struct Claims {
    pub(super) slices: BTreeMap<Name, Arc<SliceSeen>>,
    /// Slices of a driver's pool.
    pub(super) by_pool: BTreeMap<(Name, Name), BTreeSet<Name>>,
    /// Slices with devices that only one node reaches.
    pub(super) by_node: BTreeMap<Name, BTreeSet<Name>>,
    /// Slices with devices that several nodes may reach.
    pub(super) wide: BTreeSet<Name>,
    pub(super) wide_changed: bool,
    pub(super) slices_changed: bool,
    pub(super) claims: BTreeMap<ObjectKey, Arc<ClaimSeen>>,
    /// Claims that a pod of this id may use.
    pub(super) by_user: BTreeMap<Name, BTreeSet<ObjectKey>>,
    pub(super) templates: BTreeMap<ObjectKey, Arc<TemplateSeen>>,
    pub(super) classes: BTreeMap<Name, Arc<ClassSeen>>,
    /// Pods by the claims and templates that they name.
    pub(super) pods: BTreeMap<(ObjectKey, bool), BTreeSet<ObjectKey>>,
    /// Pods by id, for pods that name a claim or template.
    pub(super) uids: BTreeMap<Name, ObjectKey>,
    /// Workloads and groups that ask by claim, as they were seen.
    pub(super) workloads: BTreeMap<(Table, ObjectKey), WorkloadSeen>,
    pub(super) groups: BTreeMap<(Table, ObjectKey), GroupSeen>,
    /// Most devices of a resource in one pool: the result of a request for all.
    pub(super) most: BTreeMap<Name, u32>,
}

fn wide_key(name: &Name) -> ObjectKey {
    ObjectKey {
        namespace: Name::default(),
        name: name.clone(),
    }
}

pub(super) fn asks_by_class(resources: &Resources) -> bool {
    let prefix = |name: &Name| name.starts_with(BY_CLASS);
    resources.devices.iter().any(|(name, _)| prefix(name))
}

pub(super) fn concerns(resources: &Resources) -> bool {
    !resources.claims.is_empty() || asks_by_class(resources)
}

impl Claims {
    pub(super) fn keys_of(&self, table: Table) -> Vec<ObjectKey> {
        match table {
            Table::ResourceSlices => self.slices.keys().map(wide_key).collect(),
            Table::DeviceClasses => self.classes.keys().map(wide_key).collect(),
            Table::ResourceClaims => self.claims.keys().cloned().collect(),
            _ => self.templates.keys().cloned().collect(),
        }
    }

    /// Nodes were added, deleted or have other labels: the reach of slices may have changed.
    pub(super) fn nodes_changed(&mut self) {
        self.wide_changed |= !self.wide.is_empty();
    }

    /// Notes which claims and templates a pod names.
    pub(super) fn link(&mut self, pod: &PodSeen) {
        let names = names_of(pod);
        if names.is_empty() && !asks_by_class(&pod.requests) {
            return;
        }
        self.uids.insert(pod.uid.clone(), pod.key.clone());
        for name in names {
            self.pods.entry(name).or_default().insert(pod.key.clone());
        }
    }

    pub(super) fn unlink(&mut self, pod: &PodSeen) {
        if self.uids.get(&pod.uid) == Some(&pod.key) {
            self.uids.remove(&pod.uid);
        }
        for name in names_of(pod) {
            if let Some(pods) = self.pods.get_mut(&name) {
                pods.remove(&pod.key);
                if pods.is_empty() {
                    self.pods.remove(&name);
                }
            }
        }
    }

    pub(super) fn forget_workload(&mut self, id: &(Table, ObjectKey)) {
        self.workloads.remove(id);
    }

    pub(super) fn forget_group(&mut self, id: &(Table, ObjectKey)) {
        self.groups.remove(id);
    }

    /// What the devices of this driver are called among resources.
    pub(super) fn resource(&self, driver: &Name, part: bool) -> Name {
        if part {
            return Name::from(format!("{driver}/part"));
        }
        let same = self
            .classes
            .values()
            .filter(|class| !class.parts && class.driver.as_ref() == Some(driver));
        // Pods may request them by that name as well: both requests must match.
        same.filter_map(|class| class.extended.clone())
            .min()
            .unwrap_or_else(|| driver.clone())
    }

    /// The resource of a class; `None` when it is not an accelerator.
    fn of_class(&self, class: &Name) -> Option<(Name, bool)> {
        let seen = self.classes.get(class);
        match seen.and_then(|seen| Some((seen.driver.clone()?, seen.parts))) {
            Some((driver, parts)) => is_accelerator_driver(&driver).then_some((driver, parts)),
            None => driver_of_class_name(class).map(|(driver, parts)| (Name::new(driver), parts)),
        }
    }

    fn add_requests(&self, requests: &[ClaimRequest], times: u32, sum: &mut BTreeMap<Name, u32>) {
        for request in requests.iter().filter(|request| !request.admin) {
            let Some((driver, parts)) = self.of_class(&request.class) else {
                continue;
            };
            let resource = self.resource(&driver, parts);
            let count = match request.all {
                true => self.most.get(&resource).copied().unwrap_or(1).max(1),
                false => request.count,
            };
            let sum = sum.entry(resource).or_default();
            *sum = sum.saturating_add(count.saturating_mul(times));
        }
    }

    /// The allocation of a claim without adminAccess, which allocates nothing.
    fn given<'c>(
        &self,
        claim: &'c ClaimSeen,
    ) -> impl Iterator<Item = (&'c ClaimResult, Name)> + use<'c, '_> {
        let results = claim.results.iter().flat_map(|results| results.iter());
        results
            .filter(|result| !result.admin && is_accelerator_driver(&result.driver))
            .map(|result| {
                let request = result.request.split('/').next().unwrap_or_default();
                let asked = claim.requests.iter().find(|asked| &*asked.name == request);
                let class = asked.and_then(|asked| self.of_class(&asked.class));
                let part = class.is_some_and(|(_, part)| part);
                (result, self.resource(&result.driver, part))
            })
    }

    /// The slices of a pool's newest generation.
    pub(super) fn current(&self, pool: &(Name, Name)) -> impl Iterator<Item = &Arc<SliceSeen>> {
        let all = || {
            let names = self.by_pool.get(pool).into_iter().flatten();
            names.filter_map(|name| self.slices.get(name))
        };
        let newest = all().map(|slice| slice.generation).max();
        all().filter(move |slice| Some(slice.generation) == newest)
    }

    /// The requests of one pod of this shape, in devices.
    pub(super) fn resolved(&self, namespace: &Name, asked: &Resources) -> Resources {
        let mut sum: BTreeMap<Name, u32> = BTreeMap::new();
        for (resource, count) in &asked.devices {
            let class = resource
                .strip_prefix(BY_CLASS)
                .and_then(|rest| rest.strip_prefix('/'));
            let resource = class
                .and_then(|class| self.of_class(&Name::new(class)))
                .map_or_else(
                    || resource.clone(),
                    |(driver, part)| self.resource(&driver, part),
                );
            let sum = sum.entry(resource).or_default();
            *sum = sum.saturating_add(*count);
        }
        for (ask, times) in &asked.claims {
            let key = |name: &Name| ObjectKey {
                namespace: namespace.clone(),
                name: name.clone(),
            };
            match ask {
                ClaimAsk::Claim(name) => {
                    if let Some(claim) = self.claims.get(&key(name)) {
                        self.of_claim(claim, &mut sum);
                    }
                }
                ClaimAsk::Template(name) => {
                    if let Some(template) = self.templates.get(&key(name)) {
                        self.add_requests(&template.requests, *times, &mut sum);
                    }
                }
            }
        }
        Resources {
            devices: sum.into_iter().collect(),
            ..asked.clone()
        }
    }

    /// The allocation of a claim, else its request.
    fn of_claim(&self, claim: &ClaimSeen, sum: &mut BTreeMap<Name, u32>) {
        match claim.results {
            Some(_) => {
                for (_, resource) in self.given(claim) {
                    let sum = sum.entry(resource).or_default();
                    *sum = sum.saturating_add(1);
                }
            }
            None => self.add_requests(&claim.requests, 1, sum),
        }
    }

    /// The claims of a pod that are known.
    fn claims_of<'c>(&'c self, pod: &PodSeen) -> Vec<&'c Arc<ClaimSeen>> {
        let named = pod.claims.iter().map(|name| ObjectKey {
            namespace: pod.key.namespace.clone(),
            name: name.clone(),
        });
        let reserved = self.by_user.get(&pod.uid).into_iter().flatten().cloned();
        let keys: BTreeSet<ObjectKey> = named.chain(reserved).collect();
        keys.iter()
            .filter(|key| key.namespace == pod.key.namespace)
            .filter_map(|key| self.claims.get(key))
            .collect()
    }

    /// A pod with what its claims come to.
    pub(super) fn pod(&self, seen: &PodSeen) -> PodSeen {
        let claims = self.claims_of(seen);
        let named: BTreeSet<&Name> = named_claims(&seen.requests.claims).collect();
        let made = claims.iter().any(|claim| !named.contains(&claim.key.name));
        let asked = Resources {
            // What a claim serves is counted as what the claim was given.
            devices: seen
                .requests
                .devices
                .iter()
                .filter(|(name, _)| claims.is_empty() || !seen.by_claim.contains(name))
                .cloned()
                .collect(),
            // Claims follow below, and those made of a template say more than the template does.
            claims: seen
                .requests
                .claims
                .iter()
                .filter(|(ask, _)| !made && matches!(ask, ClaimAsk::Template(_)))
                .cloned()
                .collect(),
            ..seen.requests.clone()
        };
        let resolved = self.resolved(&seen.key.namespace, &asked);
        let mut sum: BTreeMap<Name, u32> = resolved.devices.iter().cloned().collect();
        let mut out = seen.clone();
        for claim in claims {
            self.of_claim(claim, &mut sum);
            let mine = claim.pods.is_empty() || claim.pods.contains(&seen.uid);
            if !mine || seen.node.is_none() {
                continue;
            }
            for (result, _) in self.given(claim) {
                let device = (
                    result.driver.clone(),
                    result.pool.clone(),
                    result.device.clone(),
                );
                let (driver, pool, name) = device.clone();
                let claimed = Claimed::Claim(driver, pool, name);
                if let Some(consumed) = result.consumed.clone() {
                    out.parts.push(ClaimedPart { device, consumed });
                }
                if !out.claimed.contains(&claimed) {
                    out.claimed.push(claimed);
                }
            }
        }
        out.requests.devices = sum.into_iter().collect();
        out
    }

    /// The devices of a node as its drivers publish them; `wide` are those of slices that several nodes reach.
    pub(super) fn devices_of_node(&self, node: &Name, wide: &[Spot], refused: bool) -> DraDevices {
        let mut pools: BTreeMap<(Name, Name), bool> = BTreeMap::new();
        let mut all: Vec<dra_devices::PublishedDevice<'_>> = Vec::new();
        let own = self.by_node.get(node).into_iter().flatten();
        let own = own
            .filter_map(|name| self.slices.get(name))
            .flat_map(|slice| {
                let here = |published: &Published| home(slice, published) == Some(node);
                (0..slice.devices.len())
                    .filter(move |at| here(&slice.devices[*at]))
                    .map(move |at| (slice, at))
            });
        let shared = wide
            .iter()
            .filter_map(|(name, at)| Some((self.slices.get(name)?, *at)));
        for (slice, at) in own.chain(shared) {
            let Some(published) = slice.devices.get(at) else {
                continue;
            };
            if !is_accelerator_driver(&slice.driver) {
                continue;
            }
            let pool = (slice.driver.clone(), slice.pool.clone());
            if self.newest(&pool) != Some(slice.generation) {
                continue;
            }
            let complete = *pools
                .entry(pool.clone())
                .or_insert_with(|| self.is_complete(&pool));
            all.push(dra_devices::PublishedDevice {
                slice,
                published,
                complete,
            });
        }
        let mut totals = dra_devices::CounterTotals::new();
        for pool in pools.keys() {
            for slice in self.current(pool) {
                for total in &slice.counters {
                    let (set, counter) = (&total.set, &total.counter);
                    let of = (&slice.driver, &slice.pool, set, counter);
                    totals.insert(of, total.milli);
                }
            }
        }
        let list = dra_devices::physical_devices(&all, &totals, |driver, part| {
            self.resource(driver, part)
        });
        DraDevices::new(list, refused)
    }

    fn newest(&self, pool: &(Name, Name)) -> Option<i64> {
        let names = self.by_pool.get(pool).into_iter().flatten();
        names
            .filter_map(|name| self.slices.get(name))
            .map(|slice| slice.generation)
            .max()
    }

    /// True when all slices of the pool's newest generation are listed: nothing is allocated from an incomplete pool.
    fn is_complete(&self, pool: &(Name, Name)) -> bool {
        let mut current = self.current(pool);
        let Some(first) = current.next() else {
            return false;
        };
        let more = u32::try_from(current.count()).unwrap_or(u32::MAX);
        more.saturating_add(1) >= first.slices
    }

    /// Devices that several nodes reach, each assigned to one node: the node with the allocation, else the first.
    pub(super) fn spread(
        &self,
        nodes: &[(&Name, &Labels)],
        holders: &BTreeMap<AllocatedDevice<'_>, &Name>,
    ) -> BTreeMap<Name, Vec<Spot>> {
        let mut out: BTreeMap<Name, Vec<Spot>> = BTreeMap::new();
        for name in &self.wide {
            let Some(slice) = self.slices.get(name) else {
                continue;
            };
            for (at, published) in slice.devices.iter().enumerate() {
                if home(slice, published).is_some() {
                    continue;
                }
                let holder = holders
                    .get(&(&slice.driver, &slice.pool, &published.name))
                    .copied();
                let first = || {
                    let reach = reach_of(slice, published);
                    nodes
                        .iter()
                        .find(|(node, labels)| reaches(reach, node, labels))
                        .map(|(node, _)| *node)
                };
                if let Some(node) = holder.or_else(first) {
                    out.entry(node.clone())
                        .or_default()
                        .push((name.clone(), at));
                }
            }
        }
        out
    }

    /// Devices that these pods request together: a shared claim counts once.
    pub(super) fn devices_of<'p>(&self, pods: impl Iterator<Item = &'p Arc<Pod>>) -> u32 {
        let mut sum = 0u32;
        let mut shared: BTreeMap<&ObjectKey, (u32, u32)> = BTreeMap::new();
        for pod in pods {
            sum = sum.saturating_add(pod.seen.requests.device_count());
            if pod.seen.claims.is_empty() {
                continue;
            }
            for claim in self.claims_of(&pod.seen) {
                let mut devices = BTreeMap::new();
                self.of_claim(claim, &mut devices);
                let count = devices
                    .values()
                    .fold(0, |sum: u32, count| sum.saturating_add(*count));
                shared.entry(&claim.key).or_insert((0, count)).0 += 1;
            }
        }
        let surplus = shared
            .values()
            .map(|(pods, count)| (pods - 1).saturating_mul(*count));
        surplus.fold(sum, u32::saturating_sub)
    }
}

/// Driver, pool and name of an allocated device.
pub(super) type AllocatedDevice<'a> = (&'a Name, &'a Name, &'a Name);

fn reach_of<'s>(slice: &'s SliceSeen, published: &'s Published) -> &'s DeviceAccess {
    match &published.reach {
        DeviceAccess::Unsaid => &slice.reach,
        own => own,
    }
}

/// The only node that reaches a device, where there is one by name.
pub(super) fn home<'s>(slice: &'s SliceSeen, published: &'s Published) -> Option<&'s Name> {
    match reach_of(slice, published) {
        DeviceAccess::Node(node) => Some(node),
        _ => None,
    }
}

fn reaches(reach: &DeviceAccess, node: &Name, labels: &Labels) -> bool {
    match reach {
        DeviceAccess::Node(only) => only == node,
        DeviceAccess::Nodes(terms) => terms.iter().any(|term| term.holds(node, labels)),
        DeviceAccess::All => true,
        DeviceAccess::Unsaid => false,
    }
}

fn named_claims(asks: &[(ClaimAsk, u32)]) -> impl Iterator<Item = &Name> {
    asks.iter().filter_map(|(ask, _)| match ask {
        ClaimAsk::Claim(name) => Some(name),
        ClaimAsk::Template(_) => None,
    })
}

/// The claims (false) and templates (true) that a pod names.
fn names_of(pod: &PodSeen) -> Vec<(ObjectKey, bool)> {
    let key = |name: &Name| ObjectKey {
        namespace: pod.key.namespace.clone(),
        name: name.clone(),
    };
    let templates = pod.requests.claims.iter().filter_map(|(ask, _)| match ask {
        ClaimAsk::Template(name) => Some((key(name), true)),
        ClaimAsk::Claim(_) => None,
    });
    let claims = pod.claims.iter().map(|name| (key(name), false));
    claims.chain(templates).collect()
}
