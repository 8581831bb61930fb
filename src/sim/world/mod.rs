//! The simulated world: a deterministic fleet of GPU and TPU nodes with teams, queues and device physics.
//!
//! A world is a pure function of its options, the time it was advanced to, and the requests it received.
//! It keeps little typed state; objects are rendered as JSON when they change. Device readings are never
//! stored: they are computed from hashes when a page is requested.

mod accounts;
mod arrivals;
mod bootstrap;
mod bounds;
mod catalog;
mod claims;
mod clients;
mod controllers;
mod events;
mod faults;
mod fixed_pools;
mod kinds;
mod layout;
mod logs;
mod machines;
mod node;
pub mod noise;
mod options;
mod pages;
mod physics;
mod pod;
mod queueing;
mod render;
mod scenarios;
mod services;
mod serving;
#[cfg(test)]
mod tests;
mod warm_start;
mod work;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::SeedableRng;
use serde_json::Value;

use model::base::{Moment, Name, ObjectKey};

use super::change::{Request, Resource, ServedPage, SimBackend, WorldChange};
pub use accounts::{AccountRow, DeviceUse, WorkAccountRow};
pub use bounds::{BoundWork, TrueBound};
use layout::Cuts;
use node::{NodeId, SimNode};
pub use options::Options;
use pod::{Ending, PodId, SimPod};
use queueing::kueue::Queues;
pub use serving::ServingTruth;
use work::{Work, WorkId};

/// A scheduled happening; dropped if its object no longer exists.
#[derive(Clone, PartialEq, Debug)]
enum Happening {
    /// A kubelet posts its node status.
    Heartbeat(NodeId),
    Schedule,
    /// A Kueue admission cycle.
    Admit,
    /// A controller reconciles a work.
    Reconcile(WorkId),
    PodStarts(PodId),
    PodReady(PodId),
    /// Containers end, in this run of their work.
    PodEnds(PodId, Ending),
    /// The kubelet has stopped a deleted pod.
    PodGone(PodId),
    /// The run's work is complete.
    WorkEnds(WorkId, u32),
    /// A rank of this run crashes.
    Crash(WorkId, u32),
    /// This run saves a checkpoint.
    Checkpoint(WorkId, u32),
    /// Finished work is cleaned up.
    Expire(WorkId),
    /// The next job of a pool arrives.
    Arrival(usize),
    /// A service scales to the daily load curve.
    Curve(WorkId),
    /// Volcano's controller executes a Command.
    Command(ObjectKey),
    Forget(ObjectKey),
    /// A fault of the fleet begins or ends.
    Fault(faults::FleetFault),
}

/// One object that the world renders.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Ref {
    Plain(Resource, ObjectKey),
    Node(NodeId),
    Lease(NodeId),
    Cluster(usize),
    Local(usize),
    Work(WorkId),
    Group(WorkId, u32),
    Workload(WorkId),
    Pod(PodId),
    Budget(ObjectKey),
    VolcanoQueue(usize),
    KaiQueue(usize),
    /// The ResourceSlice of a node.
    Slice(NodeId),
    /// The ResourceClaim of a pod.
    Claim(PodId),
}

#[derive(Clone, Debug)]
struct SimBudget {
    uid: u64,
    created: Moment,
    /// Labels that its pods carry.
    selector: BTreeMap<Name, Name>,
    bound: work::DisruptionBound,
    foreign: Option<Box<Value>>,
    edit: clients::patch::Edit,
}

/// The simulated fleet. See [`SimBackend`] for its interface.
#[derive(Clone)]
pub struct World {
    options: Options,
    now: Moment,
    nodes: Vec<SimNode>,
    node_names: BTreeMap<Name, NodeId>,
    /// Nodes of each pool that are in the cluster.
    pools: [Vec<NodeId>; catalog::POOL_COUNT],
    pods: BTreeMap<PodId, SimPod>,
    pod_names: BTreeMap<ObjectKey, PodId>,
    works: BTreeMap<WorkId, Work>,
    /// Controllers, their children, and Workloads, by resource and key.
    names: BTreeMap<(Resource, ObjectKey), Ref>,
    queues: Queues,
    volcano: Vec<queueing::volcano::VolcanoQueue>,
    kai: Vec<queueing::kai::KaiQueue>,
    budgets: BTreeMap<ObjectKey, SimBudget>,
    /// Objects without behavior (namespaces, events, services and others), stored as they are served.
    plain: BTreeMap<(Resource, ObjectKey), Value>,
    /// When the autoscalers last ran.
    scaled_at: Moment,
    /// The job with a provisioning request.
    booked: Option<controllers::scalers::Booked>,
    agenda: BTreeMap<(i64, u64), Happening>,
    /// Pods that are not scheduled: by priority (highest first), then age.
    unplaced: BTreeSet<(i32, i64, WorkId, PodId)>,
    serial: u64,
    /// Incremented when the set of nodes or their labels change.
    label_version: u64,
    rng: Pcg64Mcg,
    schedule_queued: bool,
    admit_queued: bool,
    arrivals: arrivals::Arrivals,
    staged: faults::Scenes,
    dirty: BTreeSet<Ref>,
    published: BTreeSet<Ref>,
    out: Vec<WorldChange>,
    /// False while the initial state is drawn: no changes are reported then.
    live: bool,
    accounts: Option<Box<accounts::Accounts>>,
    /// Request patterns of the services over half an hour.
    patterns: std::sync::Arc<[serving::Pattern]>,
}

impl World {
    /// Draws a fleet in mid-life at `options.at`: jobs that have run for hours, others that have been pending for hours.
    pub fn new(options: Options) -> Self {
        let at = Moment::from_millis(options.at.millis().div_euclid(1000) * 1000);
        let options = Options { at, ..options };
        let cuts = Cuts::new();
        let mut nodes = layout::nodes(&options, &cuts);
        let fixed = nodes.split_off(nodes.partition_point(|node| node.pool < catalog::DRAWN));
        let mut pools: [Vec<NodeId>; catalog::POOL_COUNT] = Default::default();
        let mut node_names = BTreeMap::new();
        for (id, node) in nodes.iter().enumerate() {
            pools[node.pool].push(id);
            node_names.insert(node.name.clone(), id);
        }
        let mut capacity = [0u32; catalog::DRAWN];
        let mut second = 0;
        for node in &nodes {
            capacity[node.pool] += node.capacity(0);
            second += node.capacity(1);
        }
        let mut world = Self {
            queues: Queues::new(&options, &capacity, second),
            options,
            now: at,
            nodes,
            node_names,
            pools,
            pods: BTreeMap::new(),
            pod_names: BTreeMap::new(),
            works: BTreeMap::new(),
            names: BTreeMap::new(),
            volcano: Vec::new(),
            kai: Vec::new(),
            budgets: BTreeMap::new(),
            plain: BTreeMap::new(),
            scaled_at: Moment::default(),
            booked: None,
            agenda: BTreeMap::new(),
            unplaced: BTreeSet::new(),
            serial: 0,
            label_version: 1,
            rng: Pcg64Mcg::seed_from_u64(noise::mix(options.seed, 0x5eed)),
            schedule_queued: false,
            admit_queued: false,
            arrivals: arrivals::Arrivals::default(),
            staged: faults::Scenes::default(),
            dirty: BTreeSet::new(),
            published: BTreeSet::new(),
            out: Vec::new(),
            live: false,
            accounts: None,
            patterns: serving::patterns(options.seed).into(),
        };
        world.bootstrap();
        world.warm_start();
        world.add_fixed_pools(fixed);
        world.look_around();
        world.dirty.clear();
        world.out.clear();
        world.live = true;
        world
    }

    /// The number of schedulable devices (whole devices and MIG slices) that the nodes have.
    pub fn devices(&self) -> usize {
        self.nodes
            .iter()
            .filter(|node| !node.gone)
            .map(|node| node.units.len())
            .sum()
    }

    /// All objects, rendered from scratch, in an order in which they could have been created.
    pub fn objects(&self) -> Vec<WorldChange> {
        self.refs()
            .iter()
            .filter_map(|object| self.render(object))
            .collect()
    }

    fn refs(&self) -> Vec<Ref> {
        let mut all = Vec::with_capacity(self.nodes.len() + self.pods.len() * 2);
        let first = [
            Resource::Namespaces,
            Resource::PriorityClasses,
            Resource::ServiceAccounts,
        ];
        for resource in first {
            all.extend(
                self.plain
                    .keys()
                    .filter(|(kind, _)| *kind == resource)
                    .map(|(kind, key)| Ref::Plain(*kind, key.clone())),
            );
        }
        all.extend(
            (0..self.nodes.len())
                .filter(|id| !self.nodes[*id].gone)
                .map(Ref::Node),
        );
        all.extend(
            (0..self.nodes.len())
                .filter(|id| !self.nodes[*id].gone)
                .map(Ref::Lease),
        );
        all.extend(
            self.plain
                .keys()
                .filter(|(kind, _)| !first.contains(kind) && *kind != Resource::Events)
                .map(|(kind, key)| Ref::Plain(*kind, key.clone())),
        );
        all.extend(
            (0..self.queues.clusters.len())
                .filter(|at| !self.queues.clusters[*at].gone)
                .map(Ref::Cluster),
        );
        all.extend(
            (0..self.queues.locals.len())
                .filter(|at| !self.queues.locals[*at].gone)
                .map(Ref::Local),
        );
        let volcano = self.volcano.iter().enumerate();
        let there = volcano.filter(|(_, queue)| !queue.name.is_empty());
        all.extend(there.map(|(at, _)| Ref::VolcanoQueue(at)));
        let kai = self.kai.iter().enumerate();
        let there = kai.filter(|(_, queue)| !queue.name.is_empty());
        all.extend(there.map(|(at, _)| Ref::KaiQueue(at)));
        for (id, work) in &self.works {
            if work.kind != work::WorkKind::Pod {
                all.push(Ref::Work(*id));
            }
            for (at, (resource, name)) in work.children().into_iter().enumerate() {
                let key = ObjectKey::new(work.namespace.clone(), name);
                if self.names.contains_key(&(resource, key)) {
                    all.push(Ref::Group(*id, at as u32));
                }
            }
            if work.workload.is_some() {
                all.push(Ref::Workload(*id));
            }
        }
        all.extend(self.slices());
        all.extend(self.pods.keys().copied().map(Ref::Pod));
        all.extend(self.claims());
        all.extend(self.budgets.keys().cloned().map(Ref::Budget));
        all.extend(
            self.plain
                .keys()
                .filter(|(kind, _)| *kind == Resource::Events)
                .map(|(kind, key)| Ref::Plain(*kind, key.clone())),
        );
        all
    }

    /// Schedules a happening in `millis`.
    fn after(&mut self, millis: i64, what: Happening) {
        self.serial += 1;
        // While the past is drawn, happenings are still scheduled after the start.
        let from = self.now.max(self.options.at);
        self.agenda
            .insert((from.millis() + millis.max(0), self.serial), what);
    }

    /// A number that is different each time, and the same in each run.
    fn fresh(&mut self) -> u64 {
        self.serial += 1;
        noise::mix(self.options.seed, self.serial)
    }

    fn touch(&mut self, object: Ref) {
        if let Ref::Node(id) = object {
            self.account(id);
        }
        if self.live {
            self.dirty.insert(object);
        }
    }

    /// Drops an object and reports its deletion, if it was ever reported.
    fn retract(&mut self, object: &Ref, resource: Resource, key: ObjectKey) {
        if let Ref::Node(id) = object {
            self.account(*id);
        }
        self.dirty.remove(object);
        if self.published.remove(object) {
            self.out.push(WorldChange::Remove(resource, key));
        }
    }

    /// Renders what changed since the last flush.
    fn flush(&mut self) {
        self.collect_request();
        for object in std::mem::take(&mut self.dirty) {
            if let Some(change) = self.render(&object) {
                self.out.push(change);
                self.published.insert(object);
            }
        }
    }

    fn happen(&mut self, what: Happening) {
        match what {
            Happening::Heartbeat(node) => self.heartbeat(node),
            Happening::Schedule => {
                self.schedule_queued = false;
                self.schedule();
            }
            Happening::Admit => {
                self.admit_queued = false;
                self.admit();
            }
            Happening::Reconcile(work) => self.reconcile(work),
            Happening::PodStarts(pod) => self.pod_starts(pod),
            Happening::PodReady(pod) => self.pod_ready(pod),
            Happening::PodEnds(pod, ending) => self.pod_ends(pod, ending),
            Happening::PodGone(pod) => self.pod_gone(pod),
            Happening::WorkEnds(work, epoch) => self.work_ends(work, epoch),
            Happening::Crash(work, epoch) => self.crash(work, epoch),
            Happening::Checkpoint(work, epoch) => self.checkpoint(work, epoch),
            Happening::Expire(work) => self.expire(work),
            Happening::Arrival(pool) => self.arrive(pool),
            Happening::Curve(work) => self.follow_curve(work),
            Happening::Command(key) => self.carry_out(key),
            Happening::Forget(key) => {
                let object = Ref::Plain(Resource::Events, key.clone());
                self.plain.remove(&(Resource::Events, key.clone()));
                self.retract(&object, Resource::Events, key);
            }
            Happening::Fault(fault) => self.fault(fault),
        }
    }

    /// Schedules a scheduling cycle soon.
    fn kick_scheduler(&mut self) {
        if !self.schedule_queued {
            self.schedule_queued = true;
            self.after(600, Happening::Schedule);
        }
    }

    /// Schedules an admission cycle soon.
    fn kick_admission(&mut self) {
        if !self.admit_queued {
            self.admit_queued = true;
            self.after(900, Happening::Admit);
        }
    }

    /// Schedules a reconcile of a work in `millis`.
    fn kick(&mut self, id: WorkId, millis: i64) {
        if let Some(work) = self.works.get_mut(&id)
            && !work.queued_reconcile
        {
            work.queued_reconcile = true;
            self.after(millis, Happening::Reconcile(id));
        }
    }
}

impl SimBackend for World {
    fn start(&mut self) -> Vec<WorldChange> {
        let refs = self.refs();
        let all = refs
            .iter()
            .filter_map(|object| self.render(object))
            .collect();
        self.published.extend(refs);
        all
    }

    fn now(&self) -> Moment {
        self.now
    }

    fn advance(&mut self, to: Moment) -> Vec<WorldChange> {
        let begun = self.now;
        while let Some((&(at, _), _)) = self.agenda.first_key_value() {
            if at > to.millis() {
                break;
            }
            self.now = self.now.max(Moment::from_millis(at));
            while let Some(entry) = self.agenda.first_entry() {
                if entry.key().0 > at {
                    break;
                }
                let what = entry.remove();
                self.happen(what);
            }
            self.look_around();
            self.settle_accounts();
            self.flush();
        }
        self.now = self.now.max(to);
        self.account_activity(self.now.since(begun).millis());
        std::mem::take(&mut self.out)
    }

    fn request(&mut self, request: Request) -> Vec<WorldChange> {
        match request {
            Request::Write(resource, object) => self.write(resource, object),
            Request::Delete(resource, key, grace) => self.delete(resource, &key, grace),
        }
        self.settle_accounts();
        self.flush();
        std::mem::take(&mut self.out)
    }

    fn page(&self, pod: &ObjectKey, port: u16, path: &str) -> Option<ServedPage> {
        self.exposition(pod, port, path, self.now)
    }

    fn page_at(&self, pod: &ObjectKey, port: u16, path: &str, at: Moment) -> Option<ServedPage> {
        self.exposition(pod, port, path, at.min(self.now))
    }

    fn log(
        &self,
        pod: &ObjectKey,
        container: Option<&str>,
        previous: bool,
    ) -> Option<Vec<(Moment, String)>> {
        self.lines(pod, container, previous)
    }

    fn exporters(&self) -> Vec<(ObjectKey, u16, &'static str)> {
        self.exporter_pods()
    }
}

/// A span of whole seconds.
fn seconds(count: i64) -> Duration {
    Duration::from_secs(count.max(0) as u64)
}
