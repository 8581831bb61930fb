//! Small tables that are published unchanged, and the tree of queues with their LocalQueues.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::base::{Name, ObjectKey};
use model::fleet::budget::PodDisruptionBudget;
use model::fleet::govern::{GovernQueues, GovernState};
use model::fleet::kinds::Table;
use model::fleet::queue::{
    Door, Flavor, PriorityClass, PriorityKind, Queue, QueueKey, QueueKind, QueueSystem, Topology,
};
use model::fleet::scheduling::KueueConfig;

/// Rows of one kind in key order, published without a copy.
pub(super) struct RowTable<K, T> {
    rows: BTreeMap<K, Arc<T>>,
    published: Arc<[Arc<T>]>,
    changed: bool,
}

impl<K, T> Default for RowTable<K, T> {
    fn default() -> Self {
        Self {
            rows: BTreeMap::new(),
            published: Arc::from([]),
            changed: false,
        }
    }
}

impl<K: Ord + Clone, T: PartialEq> RowTable<K, T> {
    /// Puts a row in its place; true when that changed anything.
    pub(super) fn see(&mut self, key: K, row: T) -> bool {
        if self.rows.get(&key).is_some_and(|old| **old == row) {
            return false;
        }
        self.rows.insert(key, Arc::new(row));
        self.changed = true;
        true
    }

    pub(super) fn get(&self, key: &K) -> Option<&Arc<T>> {
        self.rows.get(key)
    }

    pub(super) fn remove(&mut self, key: &K) -> Option<Arc<T>> {
        let old = self.rows.remove(key);
        self.changed |= old.is_some();
        old
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &K> {
        self.rows.keys()
    }

    /// True when something changed since it was last published.
    pub(super) const fn is_changed(&self) -> bool {
        self.changed
    }

    pub(super) fn publish(&mut self) -> Arc<[Arc<T>]> {
        if std::mem::take(&mut self.changed) {
            self.published = self.rows.values().cloned().collect();
        }
        Arc::clone(&self.published)
    }
}

/// Everything of queues and policies that is not a job's.
#[derive(Default)]
pub(super) struct Tables {
    queues: RowTable<QueueKey, Queue>,
    doors: RowTable<ObjectKey, Door>,
    doors_of: BTreeMap<Name, BTreeSet<ObjectKey>>,
    built: RowTable<QueueKey, Queue>,
    dirty: BTreeSet<QueueKey>,
    flavors: RowTable<Name, Flavor>,
    topologies: RowTable<Name, Topology>,
    budgets: RowTable<ObjectKey, PodDisruptionBudget>,
    classes: RowTable<(PriorityKind, Name), PriorityClass>,
    kueue: Option<Arc<KueueConfig>>,
    govern: Option<Arc<GovernState>>,
}

pub(super) struct PublishedTables {
    pub(super) queues: Arc<[Arc<Queue>]>,
    pub(super) flavors: Arc<[Arc<Flavor>]>,
    pub(super) topologies: Arc<[Arc<Topology>]>,
    pub(super) budgets: Arc<[Arc<PodDisruptionBudget>]>,
    pub(super) classes: Arc<[Arc<PriorityClass>]>,
    pub(super) kueue: Option<Arc<KueueConfig>>,
    pub(super) govern: Option<Arc<GovernState>>,
}

/// The key in the queue tree of a row of a table of queues.
fn queue_key(table: Table, name: &Name) -> Option<QueueKey> {
    let (system, kind) = match table {
        Table::ClusterQueues => (QueueSystem::Kueue, QueueKind::Queue),
        Table::Cohorts => (QueueSystem::Kueue, QueueKind::Cohort),
        Table::VolcanoQueues => (QueueSystem::Volcano, QueueKind::Queue),
        Table::KaiQueues => (QueueSystem::Kai, QueueKind::Queue),
        _ => return None,
    };
    Some(QueueKey {
        system,
        kind,
        name: name.clone(),
    })
}

/// The ClusterQueue of this name: the target of Kueue's LocalQueues.
fn behind(door: &Name) -> QueueKey {
    QueueKey {
        system: QueueSystem::Kueue,
        kind: QueueKind::Queue,
        name: door.clone(),
    }
}

impl Tables {
    /// True when there was no such queue before.
    pub(super) fn see_queue(&mut self, queue: Queue) -> bool {
        let key = queue.key.clone();
        let parent = queue.parent_key();
        let known = self.queues.get(&key);
        let is_new = known.is_none();
        let old = known.and_then(|old| old.parent_key());
        if self.queues.see(key.clone(), queue) {
            self.dirty.insert(key);
            self.dirty.extend(parent);
            self.dirty.extend(old);
        }
        is_new
    }

    /// Stores a LocalQueue; true when it is new or has another ClusterQueue.
    pub(super) fn see_door(&mut self, door: Door) -> bool {
        let key = door.key.clone();
        let old = self.doors.get(&key).cloned();
        if let Some(old) = &old
            && old.queue != door.queue
        {
            self.unhang(old);
        }
        self.doors_of
            .entry(door.queue.clone())
            .or_default()
            .insert(key.clone());
        let queue = behind(&door.queue);
        let leads_elsewhere = old.is_none_or(|old| old.queue != door.queue);
        if self.doors.see(key, door) {
            self.dirty.insert(queue);
        }
        leads_elsewhere
    }

    fn unhang(&mut self, door: &Door) {
        if let Some(keys) = self.doors_of.get_mut(&door.queue) {
            keys.remove(&door.key);
            if keys.is_empty() {
                self.doors_of.remove(&door.queue);
            }
        }
        self.dirty.insert(behind(&door.queue));
    }

    /// The ClusterQueue of a LocalQueue.
    pub(super) fn behind_door(&self, key: &ObjectKey) -> Option<&Name> {
        self.doors.get(key).map(|door| &door.queue)
    }

    /// True when there is a queue of this key.
    pub(super) fn has_queue(&self, key: &QueueKey) -> bool {
        self.queues.get(key).is_some()
    }

    pub(super) fn see_flavor(&mut self, flavor: Flavor) {
        self.flavors.see(flavor.name.clone(), flavor);
    }

    pub(super) fn see_topology(&mut self, topology: Topology) {
        self.topologies.see(topology.name.clone(), topology);
    }

    pub(super) fn see_budget(&mut self, budget: PodDisruptionBudget) {
        self.budgets.see(budget.key.clone(), budget);
    }

    pub(super) fn see_kueue(&mut self, config: KueueConfig) {
        if self.kueue.as_deref() != Some(&config) {
            self.set_kueue(Some(Arc::new(config)));
        }
    }

    /// What a quota counts may be another thing now.
    fn set_kueue(&mut self, config: Option<Arc<KueueConfig>>) {
        self.kueue = config;
        let own = self
            .queues
            .keys()
            .filter(|key| key.system == QueueSystem::Kueue);
        let own: Vec<QueueKey> = own.cloned().collect();
        self.dirty.extend(own);
    }

    /// Takes over the queues of `govern`; those of a document that is wrong stay as they were. True when anything changed.
    pub(super) fn see_govern(&mut self, seen: GovernQueues) -> bool {
        let was_read = self.govern.as_ref().is_some_and(|state| state.is_read);
        let (changed, fault) = match seen.queues {
            Ok(queues) => (self.set_govern_queues(queues), None),
            Err(why) => (false, Some(why)),
        };
        let state = GovernState {
            key: seen.key,
            uid: seen.uid,
            created: seen.created,
            is_read: was_read || fault.is_none(),
            fault,
        };
        let differs = self.govern.as_deref() != Some(&state);
        self.govern = Some(Arc::new(state));
        changed || differs
    }

    /// State of the queues of `govern`.
    pub(super) fn govern(&self) -> Option<&GovernState> {
        self.govern.as_deref()
    }

    /// Makes these the queues of `govern`; true when that changed any.
    fn set_govern_queues(&mut self, queues: Vec<Queue>) -> bool {
        let ours = |key: &&QueueKey| key.system == QueueSystem::Stokehold;
        let gone: Vec<QueueKey> = self
            .queues
            .keys()
            .filter(ours)
            .filter(|key| !queues.iter().any(|queue| queue.key == **key))
            .cloned()
            .collect();
        let mut changed = !gone.is_empty();
        for key in gone {
            if let Some(old) = self.queues.remove(&key) {
                self.dirty.extend(old.parent_key());
            }
            self.dirty.insert(key);
        }
        for queue in queues {
            changed |= self.queues.get(&queue.key).map(|old| &**old) != Some(&queue);
            self.see_queue(queue);
        }
        changed
    }

    /// Stores a priority class; true when it changed.
    pub(super) fn see_class(&mut self, class: PriorityClass) -> bool {
        self.classes.see((class.kind, class.name.clone()), class)
    }

    pub(super) fn priority(&self, kind: PriorityKind, class: &Name) -> Option<i32> {
        self.classes
            .get(&(kind, class.clone()))
            .map(|class| class.value)
    }

    /// The keys of a table's rows.
    pub(super) fn keys_of(&self, table: Table) -> Vec<ObjectKey> {
        let wide = |name: &Name| ObjectKey {
            namespace: Name::default(),
            name: name.clone(),
        };
        match table {
            Table::LocalQueues => self.doors.keys().cloned().collect(),
            Table::ResourceFlavors => self.flavors.keys().map(wide).collect(),
            Table::Topologies => self.topologies.keys().map(wide).collect(),
            Table::Budgets => self.budgets.keys().cloned().collect(),
            Table::KueueConfig => self.kueue.iter().map(|config| config.key.clone()).collect(),
            Table::GovernQueues => self.govern.iter().map(|state| state.key.clone()).collect(),
            Table::PriorityClasses | Table::WorkloadPriorityClasses => self
                .classes
                .keys()
                .filter(|(kind, _)| *kind == class_kind(table))
                .map(|(_, name)| wide(name))
                .collect(),
            _ => self
                .queues
                .keys()
                .filter(|key| queue_key(table, &key.name).as_ref() == Some(key))
                .map(|key| wide(&key.name))
                .collect(),
        }
    }

    /// Forgets a row; true when jobs may be about it.
    pub(super) fn forget(&mut self, table: Table, key: &ObjectKey) -> bool {
        match table {
            Table::LocalQueues => match self.doors.remove(key) {
                Some(old) => {
                    self.unhang(&old);
                    true
                }
                None => false,
            },
            Table::ResourceFlavors => {
                self.flavors.remove(&key.name);
                false
            }
            Table::Topologies => {
                self.topologies.remove(&key.name);
                false
            }
            Table::Budgets => {
                self.budgets.remove(key);
                false
            }
            Table::KueueConfig => {
                self.set_kueue(None);
                false
            }
            Table::GovernQueues => {
                let known = self.govern.take().is_some();
                self.set_govern_queues(Vec::new());
                known
            }
            Table::PriorityClasses | Table::WorkloadPriorityClasses => self
                .classes
                .remove(&(class_kind(table), key.name.clone()))
                .is_some(),
            _ => {
                if let Some(key) = queue_key(table, &key.name)
                    && let Some(old) = self.queues.remove(&key)
                {
                    self.dirty.extend(old.parent_key());
                    self.dirty.insert(key);
                    return table == Table::ClusterQueues;
                }
                false
            }
        }
    }

    /// Publishes the current state.
    pub(super) fn publish(&mut self) -> PublishedTables {
        for key in std::mem::take(&mut self.dirty) {
            match self.build(&key) {
                Some(queue) => {
                    self.built.see(key, queue);
                }
                None => {
                    self.built.remove(&key);
                }
            }
        }
        PublishedTables {
            queues: self.built.publish(),
            flavors: self.flavors.publish(),
            topologies: self.topologies.publish(),
            kueue: self.kueue.clone(),
            govern: self.govern.clone(),
            budgets: self.budgets.publish(),
            classes: self.classes.publish(),
        }
    }

    /// A queue with its LocalQueues. A cohort that queues name exists, with or without an object.
    fn build(&self, key: &QueueKey) -> Option<Queue> {
        let mut queue = match self.queues.get(key) {
            Some(seen) => (**seen).clone(),
            None if key.kind == QueueKind::Cohort && self.is_parent(key) => Queue {
                key: key.clone(),
                reclaimable: true,
                ..Queue::default()
            },
            None => return None,
        };
        let config = self
            .kueue
            .as_ref()
            .filter(|_| key.system == QueueSystem::Kueue);
        if let Some(resources) = config.and_then(|config| config.resources.as_ref()) {
            for quota in &mut queue.quotas {
                if resources.counts_devices(&quota.resource) {
                    quota.count_devices();
                }
            }
        }
        if key.system == QueueSystem::Kueue && key.kind == QueueKind::Queue {
            queue.doors = self
                .doors_of
                .get(&key.name)
                .into_iter()
                .flatten()
                .filter_map(|door| self.doors.get(door))
                .map(|door| (**door).clone())
                .collect();
        }
        Some(queue)
    }

    pub(super) fn is_parent(&self, key: &QueueKey) -> bool {
        self.queues
            .rows
            .values()
            .any(|queue| queue.parent_key().as_ref() == Some(key))
    }
}

const fn class_kind(table: Table) -> PriorityKind {
    match table {
        Table::WorkloadPriorityClasses => PriorityKind::Workload,
        _ => PriorityKind::Pod,
    }
}
