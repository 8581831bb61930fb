//! The last observation of each object, as serialized bytes: the content of a keyframe.
//!
//! Lists are written as changes. A relist repeats thousands of unchanged objects: these are skipped, and objects that it does
//! not contain are written as deleted. A reader can therefore start in the middle of a list.

use std::collections::{BTreeMap, BTreeSet};

use model::base::{Name, ObjectKey};
use model::fleet::observe::{Observation, SourceHealth, Table};
use model::fleet::queue::PriorityKind;

use super::codec::to_bytes;

/// Observations that do not concern an object.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Other {
    Covers,
    Skew,
    Pending(Name),
    OrderNotTold,
    ExportersFound,
}

/// The last observations. See the module documentation.
#[derive(Default)]
pub(crate) struct Mirror {
    objects: BTreeMap<(Table, ObjectKey), Box<[u8]>>,
    /// Tables that have been listed completely at least once.
    listed: BTreeSet<Table>,
    /// State of a table's source, unless it is live.
    states: BTreeMap<Table, Box<[u8]>>,
    sweeps: BTreeMap<Table, BTreeSet<ObjectKey>>,
    others: BTreeMap<Other, Box<[u8]>>,
    sources: BTreeMap<Name, SourceHealth>,
}

/// Key of a cluster-scoped object.
fn wide(name: &Name) -> ObjectKey {
    ObjectKey::new("", name.clone())
}

/// Table and key of an object that exists.
fn object_of(observation: &Observation) -> Option<(Table, ObjectKey)> {
    Some(match observation {
        Observation::Node(node) => (Table::Nodes, wide(&node.name)),
        Observation::Pod(pod) => (Table::Pods, pod.key.clone()),
        Observation::Workload(workload) => (workload.table, workload.key.clone()),
        Observation::Namespace(name, _) => (Table::Namespaces, wide(name)),
        Observation::Group(group) => (group.table, group.key.clone()),
        Observation::Queue(table, queue) => (*table, wide(&queue.key.name)),
        Observation::Door(door) => (Table::LocalQueues, door.key.clone()),
        Observation::Flavor(flavor) => (Table::ResourceFlavors, wide(&flavor.name)),
        Observation::Topology(topology) => (Table::Topologies, wide(&topology.name)),
        Observation::Budget(budget) => (Table::Budgets, budget.key.clone()),
        Observation::Priority(class) => {
            let table = match class.kind {
                PriorityKind::Pod => Table::PriorityClasses,
                PriorityKind::Workload => Table::WorkloadPriorityClasses,
            };
            (table, wide(&class.name))
        }
        Observation::KueueConfig(config) => (Table::KueueConfig, config.key.clone()),
        Observation::GovernQueues(queues) => (Table::GovernQueues, queues.key.clone()),
        Observation::Slice(slice) => (Table::ResourceSlices, wide(&slice.name)),
        Observation::Claim(claim) => (Table::ResourceClaims, claim.key.clone()),
        Observation::ClaimTemplate(template) => {
            (Table::ResourceClaimTemplates, template.key.clone())
        }
        Observation::DeviceClass(class) => (Table::DeviceClasses, wide(&class.name)),
        Observation::NodePool(pool) => (Table::NodePools, wide(&pool.name)),
        Observation::NodeClaim(claim) => (Table::NodeClaims, wide(&claim.name)),
        Observation::LaunchFailure(failure) => (Table::LaunchFailures, failure.key.clone()),
        Observation::NodeGroups(groups) => (Table::NodeGroups, groups.key.clone()),
        Observation::Provision(provision) => (Table::ProvisioningRequests, provision.key.clone()),
        Observation::ScaledObject(object) => (Table::ScaledObjects, object.key.clone()),
        Observation::PodScaler(scaler) => (Table::PodAutoscalers, scaler.key.clone()),
        Observation::Begin(_)
        | Observation::End(_)
        | Observation::Lost(..)
        | Observation::Back(_)
        | Observation::Absent(_)
        | Observation::Covers(_)
        | Observation::Pending(_)
        | Observation::OrderNotTold
        | Observation::Gone(..)
        | Observation::Page(_)
        | Observation::Past(_)
        | Observation::IdleBefore(_)
        | Observation::OpenRuns(_)
        | Observation::Source(_)
        | Observation::ExportersFound
        | Observation::SourceGone(_)
        | Observation::Skew(_) => return None,
    })
}

impl Mirror {
    /// Takes an observation that is not a page, and passes the changes to `write`.
    pub(crate) fn see(&mut self, observation: &Observation, mut write: impl FnMut(&[u8])) {
        if let Some((table, key)) = object_of(observation) {
            if let Some(sweep) = self.sweeps.get_mut(&table) {
                sweep.insert(key.clone());
            }
            let bytes = to_bytes(observation);
            let id = (table, key);
            if self.objects.get(&id).is_none_or(|known| **known != *bytes) {
                write(&bytes);
                self.objects.insert(id, bytes.into());
            }
            return;
        }
        match observation {
            Observation::Begin(table) => {
                self.sweeps.insert(*table, BTreeSet::new());
            }
            Observation::End(table) => {
                if let Some(mentioned) = self.sweeps.remove(table) {
                    for key in self.keys_of(*table) {
                        if !mentioned.contains(&key) {
                            self.gone(*table, key, &mut write);
                        }
                    }
                }
                let is_live = self.listed.contains(table) && !self.states.contains_key(table);
                if !is_live {
                    write(&to_bytes(observation));
                }
                self.listed.insert(*table);
                self.states.remove(table);
            }
            Observation::Lost(table, _) => {
                self.sweeps.remove(table);
                self.state(*table, observation, &mut write);
            }
            Observation::Back(table) => {
                if self.listed.contains(table) && self.states.remove(table).is_some() {
                    write(&to_bytes(observation));
                } else if !self.listed.contains(table) {
                    self.state(*table, observation, &mut write);
                }
            }
            Observation::Absent(table) => {
                self.sweeps.remove(table);
                let keys = self.keys_of(*table);
                self.objects.retain(|(other, _), _| other != table);
                if !keys.is_empty() {
                    self.states.remove(table);
                }
                self.state(*table, observation, &mut write);
            }
            Observation::Gone(table, key) => self.gone(*table, key.clone(), &mut write),
            Observation::IdleBefore(_) => write(&to_bytes(observation)),
            Observation::Covers(_) => self.other(Other::Covers, observation, &mut write),
            Observation::Skew(_) => self.other(Other::Skew, observation, &mut write),
            Observation::Pending(pending) => {
                self.others.remove(&Other::OrderNotTold);
                let key = Other::Pending(pending.queue.clone());
                self.other(key, observation, &mut write);
            }
            Observation::OrderNotTold => self.other(Other::OrderNotTold, observation, &mut write),
            Observation::ExportersFound => {
                self.other(Other::ExportersFound, observation, &mut write);
            }
            Observation::SourceGone(name) => {
                let known = self.sources.remove(name);
                if known.is_some() {
                    write(&to_bytes(observation));
                }
            }
            _ => {}
        }
    }

    /// Takes the health of a source; true when it changed.
    pub(crate) fn see_source(&mut self, health: &SourceHealth) -> bool {
        if self.sources.get(&health.name) == Some(health) {
            return false;
        }
        self.sources.insert(health.name.clone(), health.clone());
        true
    }

    fn keys_of(&self, table: Table) -> Vec<ObjectKey> {
        let from = (table, ObjectKey::default());
        self.objects
            .range(from..)
            .take_while(|((other, _), _)| *other == table)
            .map(|((_, key), _)| key.clone())
            .collect()
    }

    fn gone(&mut self, table: Table, key: ObjectKey, write: &mut impl FnMut(&[u8])) {
        let id = (table, key);
        if self.objects.remove(&id).is_some() {
            write(&to_bytes(&Observation::Gone(id.0, id.1)));
        }
    }

    fn state(&mut self, table: Table, observation: &Observation, write: &mut impl FnMut(&[u8])) {
        let bytes = to_bytes(observation);
        if self
            .states
            .get(&table)
            .is_none_or(|known| **known != *bytes)
        {
            write(&bytes);
            self.states.insert(table, bytes.into());
        }
    }

    fn other(&mut self, key: Other, observation: &Observation, write: &mut impl FnMut(&[u8])) {
        let bytes = to_bytes(observation);
        if self.others.get(&key).is_none_or(|known| **known != *bytes) {
            write(&bytes);
            self.others.insert(key, bytes.into());
        }
    }

    pub(crate) fn sources(&self) -> impl Iterator<Item = &SourceHealth> {
        self.sources.values()
    }

    /// Everything except source health, as observations that rebuild the state when applied in this order.
    pub(crate) fn all(&self, mut write: impl FnMut(&[u8])) {
        if let Some(covers) = self.others.get(&Other::Covers) {
            write(covers);
        }
        for bytes in self.objects.values() {
            write(bytes);
        }
        for table in &self.listed {
            write(&to_bytes(&Observation::End(*table)));
        }
        for bytes in self.states.values() {
            write(bytes);
        }
        let rest = self.others.iter().filter(|(key, _)| **key != Other::Covers);
        for (_, bytes) in rest {
            write(bytes);
        }
    }
}
