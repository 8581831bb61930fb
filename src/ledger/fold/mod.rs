//! The ledger: folds observations, and is the only thing that changes a fleet.
//!
//! It keeps the last facts of every source and rebuilds only what an observation touched. Rules:
//!
//! 1. A relist deletes nothing until it is complete; a lost source deletes nothing at all.
//! 2. For a pod, Kubernetes data takes precedence over exporter data.
//! 3. A device's readings stay when its page fails; they age and are shown as stale.

mod claim_updates;
mod claims;
mod devices;
mod facts;
mod node_state;
mod pages;
mod pools;
mod rebuild;
mod rules;
mod saved;
mod scaling;
mod source_updates;
mod sweep;
mod tables;
mod unseen;
mod workloads;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use model::base::{Moment, Name, Names, ObjectKey};

use devices::readings::NodeReadings;
use model::fleet::device::Pod;
use model::fleet::fleet::{Fleet, TableState};
use model::fleet::job::{Job, JobKey};
use model::fleet::object_parts::Labels;
use model::fleet::observe::{ListedNamespaces, LostKind, Observation, SourceHealth, SourceState};
use model::fleet::policy::Policy;
use model::fleet::pool::Pool;
use model::fleet::queue::{PriorityClass, PriorityKind, QueueKey, QueueKind, QueueSystem};
use model::fleet::reading::Page;
use model::fleet::run_hold::OpenRun;
use model::fleet::seen::{NodeSeen, PodSeen, WorkloadSeen};
use model::fleet::{kinds::Table, visibility};
use node_state::NodeEntry;
pub use saved::SavedLedger;
use sweep::wide;
use workloads::runs::RunCollector;

/// Folds observations into fleets.
pub struct Ledger {
    policy: Arc<Policy>,
    names: Names,
    nodes: BTreeMap<Name, NodeEntry>,
    pods: FxHashMap<ObjectKey, Arc<PodSeen>>,
    /// Pods that ask for devices, with their joins.
    joined: FxHashMap<ObjectKey, Arc<Pod>>,
    workloads: FxHashMap<(Table, ObjectKey), Arc<WorkloadSeen>>,
    /// The same by unique id, for owner chains.
    by_uid: FxHashMap<Name, (Table, ObjectKey)>,
    pods_by_owner: FxHashMap<Name, BTreeSet<ObjectKey>>,
    workloads_by_owner: FxHashMap<Name, BTreeSet<(Table, ObjectKey)>>,
    namespaces: BTreeMap<Name, Labels>,
    groups: workloads::groups::SeenGroups,
    tables: tables::Tables,
    sitings: workloads::sets::SharedSitings,
    scaling: scaling::ScalingTables,
    claims: claims::Claims,
    /// Members of each job: workloads of its chain and pods.
    job_pods: FxHashMap<JobKey, BTreeSet<ObjectKey>>,
    job_workloads: FxHashMap<JobKey, BTreeSet<(Table, ObjectKey)>>,
    job_of_workload: FxHashMap<(Table, ObjectKey), JobKey>,
    jobs: BTreeMap<JobKey, Arc<Job>>,
    /// When each job was last built.
    jobs_at: FxHashMap<JobKey, Moment>,
    runs: RunCollector,
    known: BTreeMap<Table, TableState>,
    /// Tables that were complete once: if a later list is refused, the table is lost, not invisible.
    listed: BTreeSet<Table>,
    extent: ListedNamespaces,
    sweeps: FxHashMap<Table, FxHashSet<ObjectKey>>,
    sources: BTreeMap<Name, SourceHealth>,
    exporters_found: bool,
    order_unknown: bool,
    /// Runs of this machine that have left jobs suspended.
    open_runs: Arc<[OpenRun]>,
    /// Pages whose host is not a known node yet, by the host's own name for itself.
    unmatched_pages: BTreeMap<Name, Vec<Page>>,
    /// The latest request metrics of pods that serve models.
    serving: workloads::serving::Servers,
    skew_ms: Option<i64>,
    dirty_nodes: BTreeSet<Name>,
    /// Nodes with changes to readings only.
    read_nodes: BTreeSet<Name>,
    models: devices::models::ModelCache,
    dirty_jobs: BTreeSet<JobKey>,
    /// Jobs with changes to readings only.
    read_jobs: BTreeSet<JobKey>,
    pools: pools::KeptPools,
    changed: Changed,
    revision: u64,
    last: Option<Fleet>,
}

/// Which published parts are out of date.
#[derive(Clone, Copy, Default)]
struct Changed {
    nodes: bool,
    /// More of the nodes than their readings.
    shapes: bool,
    jobs: bool,
    known: bool,
    sources: bool,
}

impl Ledger {
    /// An empty ledger that judges by `policy`.
    pub fn new(policy: Arc<Policy>) -> Self {
        Self {
            pools: pools::KeptPools::new(Arc::clone(&policy)),
            policy,
            names: Names::default(),
            nodes: BTreeMap::new(),
            pods: FxHashMap::default(),
            joined: FxHashMap::default(),
            workloads: FxHashMap::default(),
            by_uid: FxHashMap::default(),
            pods_by_owner: FxHashMap::default(),
            workloads_by_owner: FxHashMap::default(),
            namespaces: BTreeMap::new(),
            groups: workloads::groups::SeenGroups::default(),
            tables: tables::Tables::default(),
            sitings: workloads::sets::SharedSitings::default(),
            scaling: scaling::ScalingTables::default(),
            claims: claims::Claims::default(),
            job_pods: FxHashMap::default(),
            job_workloads: FxHashMap::default(),
            job_of_workload: FxHashMap::default(),
            jobs: BTreeMap::new(),
            jobs_at: FxHashMap::default(),
            runs: RunCollector::default(),
            known: Table::ALL
                .iter()
                .map(|table| (*table, TableState::Waiting))
                .collect(),
            listed: BTreeSet::new(),
            extent: ListedNamespaces::All,
            sweeps: FxHashMap::default(),
            sources: BTreeMap::new(),
            exporters_found: false,
            order_unknown: false,
            open_runs: Arc::default(),
            unmatched_pages: BTreeMap::new(),
            serving: workloads::serving::Servers::default(),
            skew_ms: None,
            dirty_nodes: BTreeSet::new(),
            read_nodes: BTreeSet::new(),
            models: devices::models::ModelCache::default(),
            dirty_jobs: BTreeSet::new(),
            read_jobs: BTreeSet::new(),
            changed: Changed::default(),
            revision: 0,
            last: None,
        }
    }

    /// Folds one observation; true when something visible may have changed.
    pub fn apply(&mut self, observation: Observation) -> bool {
        match observation {
            Observation::Begin(table) => {
                self.sweeps.insert(table, FxHashSet::default());
                return false;
            }
            Observation::End(table) => self.finish_list(table),
            Observation::Lost(table, lost) => {
                self.sweeps.remove(&table);
                let never = !self.listed.contains(&table);
                let known = match lost.kind {
                    LostKind::Rights if never => TableState::NotVisible(lost),
                    LostKind::Rights | LostKind::Login | LostKind::Unreachable => {
                        TableState::Lost(lost)
                    }
                };
                if self.known.get(&table) == Some(&known) {
                    return false;
                }
                self.set_known(table, known);
            }
            Observation::Covers(extent) => {
                if self.extent == extent {
                    return false;
                }
                self.extent = extent;
            }
            Observation::Back(table) => self.set_known(table, TableState::Live),
            Observation::Absent(table) => {
                self.sweeps.remove(&table);
                self.clear(table);
                self.set_known(table, TableState::Absent);
            }
            Observation::Node(node) => self.see_node(*node),
            Observation::Pod(pod) => self.see_pod(*pod),
            Observation::Workload(workload) => self.see_workload(*workload),
            Observation::Namespace(name, labels) => self.see_namespace(name, labels),
            Observation::Group(group) => self.see_group(*group),
            Observation::Queue(table, queue) => {
                self.mention_wide(table, &queue.key.name);
                let key = queue.key.clone();
                if self.tables.see_queue(*queue) {
                    self.rejoin_queue(&key);
                }
            }
            Observation::Door(door) => {
                let key = door.key.clone();
                self.mention(Table::LocalQueues, &key);
                if self.tables.see_door(*door) {
                    self.rejoin_door(&key);
                }
            }
            Observation::Flavor(_)
            | Observation::Topology(_)
            | Observation::Budget(_)
            | Observation::KueueConfig(_)
            | Observation::GovernQueues(_) => self.see_rule(observation),
            Observation::Priority(class) => self.see_class(*class),
            Observation::Pending(pending) => {
                self.order_unknown = false;
                self.see_pending(*pending);
            }
            Observation::OpenRuns(runs) => self.see_open_runs(runs),
            Observation::OrderNotTold => {
                if std::mem::replace(&mut self.order_unknown, true) {
                    return false;
                }
            }
            Observation::Slice(slice) => self.see_slice(*slice),
            Observation::Claim(claim) => self.see_claim(*claim),
            Observation::ClaimTemplate(template) => self.see_template(*template),
            Observation::DeviceClass(class) => self.see_device_class(*class),
            Observation::NodePool(_)
            | Observation::NodeClaim(_)
            | Observation::LaunchFailure(_)
            | Observation::NodeGroups(_)
            | Observation::Provision(_)
            | Observation::PodScaler(_)
            | Observation::ScaledObject(_) => return self.see_scaling(observation),
            Observation::Gone(table, key) => self.forget(table, &key),
            Observation::Page(page) => self.read_page(*page),
            Observation::IdleBefore(idle) => self.see_idle_before(&idle),
            Observation::Past(_) => return false,
            Observation::Source(health) => return self.see_source(health),
            Observation::SourceGone(name) => self.forget_source(&name),
            Observation::ExportersFound => {
                return !std::mem::replace(&mut self.exporters_found, true);
            }
            Observation::Skew(millis) => {
                if self.skew_ms.replace(millis) == Some(millis) {
                    return false;
                }
            }
        }
        true
    }

    /// The fleet as of `at` (on the server's clock). Rebuilds what changed since the last call.
    pub fn publish(&mut self, at: Moment) -> Fleet {
        self.settle_claims();
        self.rebuild_nodes(at);
        self.age_readings(at);
        self.rebuild_jobs(at);
        let stale = self.age_sources(at);
        let old = self.last.take();
        let parts = old.unwrap_or_else(|| {
            self.changed = Changed {
                nodes: true,
                shapes: true,
                jobs: true,
                known: true,
                sources: true,
            };
            Fleet::unknown(Arc::clone(&self.policy))
        });
        let nodes = if self.changed.nodes {
            self.nodes
                .values()
                .filter_map(|state| state.built.clone())
                .collect()
        } else {
            parts.nodes
        };
        let jobs: Arc<[Arc<Job>]> = if self.changed.jobs {
            self.jobs.values().cloned().collect()
        } else {
            parts.jobs
        };
        let tables = self.tables.publish();
        let lost_nodes = matches!(self.known.get(&Table::Nodes), Some(TableState::Lost(_)));
        let visibility = visibility::of_pools(&self.known, &self.extent);
        let (scaling, scaling_changed) = self.scaling.publish(&nodes, self.changed.shapes);
        if self.changed.shapes {
            self.pools.nodes_changed();
        } else if scaling_changed {
            self.pools.scaling_changed();
        }
        let pools = self
            .pools
            .build(&nodes, &jobs, &scaling, at, lost_nodes, visibility);
        let pools: Arc<[Pool]> = pools.into();
        self.revision += 1;
        let queues = self.with_govern_usage(tables.queues, &jobs);
        let fleet = Fleet {
            revision: self.revision,
            at,
            skew_ms: self.skew_ms,
            nodes,
            pools,
            jobs,
            queues,
            flavors: tables.flavors,
            topologies: tables.topologies,
            budgets: tables.budgets,
            priority_classes: tables.classes,
            kueue: tables.kueue,
            govern: tables.govern,
            scaling,
            runtimes: self.runs.publish(),
            findings: parts.findings,
            sources: if self.changed.sources || stale {
                self.sources.values().cloned().collect()
            } else {
                parts.sources
            },
            exporters_found: self.exporters_found,
            order_unknown: self.order_unknown,
            open_runs: Arc::clone(&self.open_runs),
            known: if self.changed.known {
                Arc::new(self.known.clone())
            } else {
                parts.known
            },
            extent: self.extent.clone(),
            policy: Arc::clone(&self.policy),
        };
        self.changed = Changed::default();
        self.last = Some(fleet.clone());
        fleet
    }

    /// Marks sources that have been silent for longer than their patience; true when one changed.
    fn age_sources(&mut self, at: Moment) -> bool {
        let mut aged = false;
        for source in self.sources.values_mut() {
            let silent = source
                .last_ok
                .is_some_and(|last| at.since(last) > source.patience.into());
            if silent && source.state == SourceState::Live {
                source.state = SourceState::Stale;
                aged = true;
            }
        }
        aged
    }

    fn set_known(&mut self, table: Table, known: TableState) {
        if self.known.get(&table) != Some(&known) {
            self.known.insert(table, known);
            self.changed.known = true;
            self.look_at_unseen(table);
        }
    }

    fn see_class(&mut self, class: PriorityClass) {
        let table = match class.kind {
            PriorityKind::Pod => Table::PriorityClasses,
            PriorityKind::Workload => Table::WorkloadPriorityClasses,
        };
        self.mention_wide(table, &class.name);
        if self.tables.see_class(class) {
            // Jobs without pods take their priority from the class. Classes hardly ever change.
            self.dirty_jobs.extend(self.jobs.keys().cloned());
        }
    }

    fn see_node(&mut self, node: NodeSeen) {
        let name = node.name.clone();
        self.mention_wide(Table::Nodes, &name);
        let state = self.nodes.entry(name.clone()).or_default();
        if state.seen.as_deref() == Some(&node) {
            return;
        }
        let reborn = state.seen.as_ref().is_some_and(|old| old.uid != node.uid);
        if reborn {
            state.readings = NodeReadings::default();
        }
        state.labels = facts::NodeLabels::of(&node, &self.policy, &mut self.names);
        state.seen = Some(Arc::new(node));
        self.claims.nodes_changed();
        self.dirty_nodes.insert(name);
        self.match_pages();
    }

    fn see_pod(&mut self, mut pod: PodSeen) {
        self.mention(Table::Pods, &pod.key);
        let key = pod.key.clone();
        let old = self.pods.get(&key).cloned();
        // Pods of a job say the same: one copy is enough.
        pod.siting = pod.siting.map(|siting| self.sitings.siting(siting));
        let mut relinked = true;
        if let Some(old) = &old {
            if **old == pod {
                return;
            }
            relinked = old.uid != pod.uid || old.owner != pod.owner;
            self.unlink_claim(old);
            self.claims.unlink(old);
            if old.node != pod.node {
                self.unbind(&key, old);
            }
            if old.owner != pod.owner {
                self.unlink_pod(&key, old);
            }
        }
        if let Some(node) = &pod.node {
            self.nodes
                .entry(node.clone())
                .or_default()
                .pods
                .insert(key.clone());
            self.dirty_nodes.insert(node.clone());
        }
        if let Some(owner) = &pod.owner {
            self.pods_by_owner
                .entry(owner.uid.clone())
                .or_default()
                .insert(key.clone());
        }
        self.link_claim(&pod);
        self.claims.link(&pod);
        let uid = pod.uid.clone();
        self.pods.insert(key.clone(), Arc::new(pod));
        self.rejoin_pod(&key);
        if relinked {
            self.rejoin_owned_by_pod(&uid, old.as_deref());
        }
    }

    fn see_workload(&mut self, workload: WorkloadSeen) {
        self.mention(workload.table, &workload.key);
        self.fold_workload(workload);
    }

    fn fold_workload(&mut self, workload: WorkloadSeen) {
        let id = (workload.table, workload.key.clone());
        let workload = self.with_claims_of_workload(&id, workload);
        if let Some(old) = self.workloads.get(&id).cloned() {
            if *old == workload {
                return;
            }
            if old.uid != workload.uid || old.owner != workload.owner {
                self.unlink_workload(&id, &old);
            }
        }
        self.by_uid.insert(workload.uid.clone(), id.clone());
        if let Some(owner) = &workload.owner {
            self.workloads_by_owner
                .entry(owner.uid.clone())
                .or_default()
                .insert(id.clone());
        }
        self.workloads.insert(id.clone(), Arc::new(workload));
        self.rejoin_workload(&id);
    }

    fn see_namespace(&mut self, name: Name, labels: Labels) {
        self.mention_wide(Table::Namespaces, &name);
        if self.namespaces.get(&name) == Some(&labels) {
            return;
        }
        self.namespaces.insert(name.clone(), labels);
        self.rejoin_namespace(&name);
    }

    fn forget(&mut self, table: Table, key: &ObjectKey) {
        match table {
            Table::Nodes => {
                if let Some(state) = self.nodes.get_mut(&key.name) {
                    state.seen = None;
                    state.readings = NodeReadings::default();
                    self.claims.nodes_changed();
                    if state.pods.is_empty() {
                        self.nodes.remove(&key.name);
                    } else {
                        self.dirty_nodes.insert(key.name.clone());
                    }
                    self.changed.nodes = true;
                    self.changed.shapes = true;
                }
            }
            Table::Pods => {
                if let Some(old) = self.pods.remove(key) {
                    self.unbind(key, &old);
                    self.unlink_pod(key, &old);
                    self.unlink_claim(&old);
                    self.claims.unlink(&old);
                    self.serving.forget(key);
                    self.drop_join(key);
                    self.rejoin_owned_by_pod(&old.uid, None);
                }
            }
            Table::Namespaces => {
                if self.namespaces.remove(&key.name).is_some() {
                    self.rejoin_namespace(&key.name);
                }
            }
            table if table.holds_groups() => self.forget_group(table, key),
            table if table.holds_claims() => self.forget_claims(table, key),
            table if table.holds_scaling() => self.scaling.forget(table, key),
            table if !table.holds_jobs() => {
                if self.tables.forget(table, key) {
                    match table {
                        Table::LocalQueues => self.rejoin_door(key),
                        Table::ClusterQueues => self.rejoin_queue(&QueueKey {
                            system: QueueSystem::Kueue,
                            kind: QueueKind::Queue,
                            name: key.name.clone(),
                        }),
                        _ => self.dirty_jobs.extend(self.jobs.keys().cloned()),
                    }
                }
            }
            _ => {
                let id = (table, key.clone());
                self.claims.forget_workload(&id);
                if let Some(old) = self.workloads.remove(&id) {
                    self.by_uid.remove(&old.uid);
                    self.unlink_workload(&id, &old);
                    self.drop_workload(&id, &old);
                }
            }
        }
    }

    fn unbind(&mut self, key: &ObjectKey, old: &PodSeen) {
        let Some(node) = &old.node else { return };
        if let Some(state) = self.nodes.get_mut(node) {
            state.pods.remove(key);
            if state.pods.is_empty() && state.seen.is_none() {
                self.nodes.remove(node);
                self.changed.nodes = true;
                self.changed.shapes = true;
            } else {
                self.dirty_nodes.insert(node.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests;
