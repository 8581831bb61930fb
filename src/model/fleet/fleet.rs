//! The fleet: an immutable snapshot of everything at one revision, cheap to clone.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::base::{DeviceAmount, Moment, Name, ObjectKey};

use super::device::{Device, Pod};
use super::finding::Finding;
use super::job::{HeldDevice, Job, JobKey};
use super::node::Node;
use super::observed::kinds::Table;
use super::observed::observe::{ListedNamespaces, Lost, SourceHealth};
use super::pool::{DeviceCounts, Pool};
use super::queueing::budget::PodDisruptionBudget;
use super::queueing::govern::GovernState;
use super::queueing::queue::{Flavor, PriorityClass, Queue, QueueKey, Topology};
use super::queueing::run_hold::{HELD_BY_RUN, OpenRun};
use super::queueing::scheduling::KueueConfig;
use super::rules::policy::Policy;
use super::runtimes::Runtimes;
use super::scaling::Scaling;

/// State of a table.
#[derive(Clone, PartialEq, Debug)]
pub enum TableState {
    Waiting,
    Live,
    /// Was listed; its source fails now. Its rows stay.
    Lost(Lost),
    /// Access is forbidden and it was never listed: not visible, which is neither empty nor lost.
    NotVisible(Lost),
    /// The kind does not exist on this cluster: known to be empty.
    Absent,
}

crate::words! {
    impl TableState {
        /// Name in the fleet document.
        pub fn name(&self) {
            Waiting => "waiting",
            Live => "live",
            Lost(_) => "lost",
            NotVisible(_) => "not-visible",
            Absent => "absent",
        }
    }
}

impl TableState {
    /// True when an empty table means that there is nothing.
    pub const fn is_known(&self) -> bool {
        matches!(self, Self::Live | Self::Absent)
    }
}

/// A snapshot at one revision. Cloning costs a few reference counts.
#[derive(Clone, Debug)]
pub struct Fleet {
    /// Incremented with each published snapshot.
    pub revision: u64,
    /// Time of the snapshot, on the server's clock.
    pub at: Moment,
    /// Server clock minus local clock, milliseconds, where known.
    pub skew_ms: Option<i64>,
    /// All nodes, sorted by name; nodes without accelerators have no devices.
    pub nodes: Arc<[Arc<Node>]>,
    pub pools: Arc<[Pool]>,
    /// Jobs that request devices, sorted by namespace, name, kind.
    pub jobs: Arc<[Arc<Job>]>,
    /// Queues and cohorts, by system, kind and name.
    pub queues: Arc<[Arc<Queue>]>,
    pub flavors: Arc<[Arc<Flavor>]>,
    pub topologies: Arc<[Arc<Topology>]>,
    /// Disruption budgets by namespace and name.
    pub budgets: Arc<[Arc<PodDisruptionBudget>]>,
    /// Priority classes by kind and name.
    pub priority_classes: Arc<[Arc<PriorityClass>]>,
    /// Kueue's own configuration, where it could be read.
    pub kueue: Option<Arc<KueueConfig>>,
    /// State of the queues of `govern`; `None` where there is no such ConfigMap, or none was read.
    pub govern: Option<Arc<GovernState>>,
    /// Runs of this machine that have left jobs suspended.
    pub open_runs: Arc<[OpenRun]>,
    pub scaling: Scaling,
    /// Runtimes of past jobs.
    pub runtimes: Runtimes,
    pub findings: Arc<[Finding]>,
    pub sources: Arc<[SourceHealth]>,
    /// True when each exporter that a listed pod serves is among the sources.
    pub exporters_found: bool,
    /// True when no source gives the order of pending workloads: positions in queues are not known.
    pub order_unknown: bool,
    /// State of each table.
    pub known: Arc<BTreeMap<Table, TableState>>,
    /// Namespaces that its pods are listed in.
    pub extent: ListedNamespaces,
    /// The policy that it was built with.
    pub policy: Arc<Policy>,
}

impl Fleet {
    /// The run of this machine that keeps a job suspended.
    pub fn open_run_of(&self, job: &Job) -> Option<&OpenRun> {
        let run = OpenRun::holder(&self.open_runs, &job.id, job.held.as_deref())?;
        (job.reason_code == Some(HELD_BY_RUN)).then_some(run)
    }

    /// A fleet with no data yet.
    pub fn unknown(policy: Arc<Policy>) -> Self {
        Self {
            revision: 0,
            at: Moment::default(),
            skew_ms: None,
            nodes: Arc::from([]),
            pools: Arc::from([]),
            jobs: Arc::from([]),
            queues: Arc::from([]),
            flavors: Arc::from([]),
            topologies: Arc::from([]),
            budgets: Arc::from([]),
            priority_classes: Arc::from([]),
            kueue: None,
            govern: None,
            open_runs: Arc::default(),
            scaling: Scaling::default(),
            runtimes: Runtimes::default(),
            findings: Arc::from([]),
            sources: Arc::from([]),
            exporters_found: false,
            order_unknown: false,
            known: Arc::new(
                Table::ALL
                    .iter()
                    .map(|table| (*table, TableState::Waiting))
                    .collect(),
            ),
            extent: ListedNamespaces::All,
            policy,
        }
    }

    pub fn node(&self, name: &str) -> Option<&Arc<Node>> {
        self.nodes
            .binary_search_by(|node| node.name().as_str().cmp(name))
            .ok()
            .map(|at| &self.nodes[at])
    }

    /// The device of this id, `NODE/gpu3`, and its node.
    pub fn device_of(&self, id: &str) -> Option<(&Arc<Node>, &Device)> {
        let (node, _) = id.rsplit_once('/')?;
        let node = self.node(node)?;
        let device = node.devices.iter().find(|device| *device.id == *id)?;
        Some((node, device))
    }

    /// The job of this kind and key.
    pub fn job(&self, id: &JobKey) -> Option<&Arc<Job>> {
        self.jobs
            .binary_search_by(|job| job.id.cmp(id))
            .ok()
            .map(|at| &self.jobs[at])
    }

    /// The job of the Workload or the object with this UID.
    pub fn job_of_workload(&self, uid: &str) -> Option<&Arc<Job>> {
        self.jobs.iter().find(|job| {
            let mut groups = (job.admission.iter())
                .flat_map(|admission| std::iter::once(&admission.seen).chain(&admission.others));
            *job.uid == *uid || groups.any(|group| *group.uid == *uid)
        })
    }

    /// The job with this `NAMESPACE/NAME`; the first by kind where several kinds have one.
    pub fn job_named(&self, name: &str) -> Option<&Arc<Job>> {
        let (namespace, name) = name.split_once('/')?;
        let of = |job: &Arc<Job>| {
            let key = &job.id.key;
            (key.namespace.as_str(), key.name.as_str()).cmp(&(namespace, name))
        };
        let at = self.jobs.partition_point(|job| of(job).is_lt());
        self.jobs.get(at).filter(|job| of(job).is_eq())
    }

    /// The queue or cohort of this key.
    pub fn queue(&self, key: &QueueKey) -> Option<&Arc<Queue>> {
        self.queues
            .binary_search_by(|queue| queue.key.cmp(key))
            .ok()
            .map(|at| &self.queues[at])
    }

    pub fn pool(&self, name: &str) -> Option<&Pool> {
        self.pools
            .binary_search_by(|pool| pool.name.as_str().cmp(name))
            .ok()
            .map(|at| &self.pools[at])
    }

    /// Every device with its node, in node and index order.
    pub fn devices(&self) -> impl Iterator<Item = (&Arc<Node>, &Device)> {
        self.nodes
            .iter()
            .flat_map(|node| node.devices.iter().map(move |device| (node, device)))
    }

    /// Counts over the whole fleet: the sum of the pools.
    pub fn device_counts(&self) -> DeviceCounts {
        let mut all = DeviceCounts::default();
        for pool in self.pools.iter() {
            all += pool.devices;
        }
        all
    }

    /// The pod of this key among those that have or request devices.
    pub fn pod(&self, key: &ObjectKey) -> Option<&Arc<Pod>> {
        self.jobs
            .iter()
            .flat_map(|job| job.pods.iter())
            .find(|pod| pod.key() == key)
    }

    /// State of a table.
    pub fn visibility(&self, table: Table) -> &TableState {
        self.known.get(&table).unwrap_or(&TableState::Waiting)
    }

    /// True once every table has been listed, is absent, or has been lost.
    pub fn is_complete(&self) -> bool {
        self.known
            .values()
            .all(|known| !matches!(known, TableState::Waiting))
    }

    /// The tables still in their first list that devices, jobs and cost depend on.
    pub fn unread(&self) -> Vec<Table> {
        let needed = [
            Table::Nodes,
            Table::Pods,
            Table::KueueWorkloads,
            Table::Jobs,
        ];
        let waits = |table: &Table| matches!(self.visibility(*table), TableState::Waiting);
        needed.into_iter().filter(waits).collect()
    }

    /// True when this device is allocated and idle: its last fresh reading is below the idle threshold, its power (where known)
    /// is near idle, and it has been allocated for longer than the grace period.
    pub fn is_idle(&self, device: &Device) -> bool {
        super::rules::judge::is_idle(device, self.at, &self.policy)
    }

    /// Devices that are allocated to a job's pods, with the parts of shared ones; `None` where the part of a slice is not known.
    pub fn amount_of(&self, job: &Job) -> Option<DeviceAmount> {
        let of_place = |place: &HeldDevice| {
            let device = self.node(&place.node)?.device(place.device)?;
            match &place.slice {
                None => Some(DeviceAmount::ONE),
                Some(slice) => {
                    let slice = device.slices.iter().find(|one| one.name == *slice)?;
                    slice.share
                }
            }
        };
        job.places.iter().map(of_place).sum()
    }
}

/// Pool name for nodes whose labels are not visible.
pub fn hidden_pool() -> Name {
    Name::new(super::pool::NOT_VISIBLE)
}

/// Pool name for nodes without a pool label.
pub fn unpooled() -> Name {
    Name::new("(no pool)")
}
