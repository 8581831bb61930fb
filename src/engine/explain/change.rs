//! The closed list of changes that let a workload start, ordered by cost.

use serde::Serialize;

use crate::snapshot::{
    ANY_FLAVOR, FlavorChoice, QueueStop, Snapshot, SnapshotQuota, SnapshotTaint,
    SnapshotToleration, TaintEffect, unit_is_milli,
};
use model::base::quantities::{counted, first_named};
use model::base::{Moment, Name};
use model::fleet::job::JobKey;
use model::plan::{Evicted, JobName, evicted_words};

/// Maximum number of jobs or nodes that are named.
const NAMED: usize = 5;

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
pub struct TaintName {
    pub key: Name,
    /// Value; may be empty.
    pub value: Name,
    /// Effect, as Kubernetes writes it.
    pub effect: &'static str,
}

impl TaintName {
    /// Name of the given taint.
    pub fn of(taint: &SnapshotTaint) -> Self {
        Self {
            key: taint.key.clone(),
            value: taint.value.clone(),
            effect: taint.effect.name(),
        }
    }

    pub fn toleration(&self) -> SnapshotToleration {
        let mut effects = TaintEffect::ALL.into_iter();
        SnapshotToleration {
            key: Some(self.key.clone()),
            value: Some(self.value.clone()),
            effect: effects.find(|effect| effect.name() == self.effect),
        }
    }
}

/// One change. Kinds are ordered by their cost to others, which is also the order in which they are proposed:
///
/// 1. `wait`, if the start is known and within [`UnblockChange::PATIENCE_SECONDS`]: no action;
/// 2. `tolerate`: a line in the workload's own manifest, nothing gets slower;
/// 3. `relax-topology`: the same, and it may run slower;
/// 4. `flavor`: the same, on other devices;
/// 5. `resume-queue`: reverts a stop of the queue;
/// 6. `priority`: others start later;
/// 7. `quota`: an administrator gives its queue quota that others may need;
/// 8. `preempt`: other workloads, which come after it in the queue, lose work;
/// 9. `uncordon`: cordoned nodes accept pods again;
/// 10. `wait`, if the start is known and later than that;
/// 11. `nodes`: more machines have to be paid for.
///
/// If none of these helps, changes of the workload's own manifest: `labels`, and it may run on any devices of its kind; or
/// `ask`, if its pod is larger than any node.
///
/// Of each kind the smallest change is proposed: the lowest priority, amount or number of nodes that suffices.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum UnblockChange {
    /// No change: its reserved capacity becomes free.
    Wait {
        /// Time, as RFC 3339.
        #[serde(serialize_with = "rfc3339")]
        at: Moment,
    },
    /// Its pods tolerate these taints.
    Tolerate {
        taints: Vec<TaintName>,
    },
    /// It no longer requires one topology domain.
    RelaxTopology {
        level: Name,
    },
    /// It requests only this flavor.
    Flavor {
        flavor: Name,
    },
    /// It no longer requires these node labels: no node with them fits.
    Labels {
        /// Keys of the labels, by name.
        keys: Vec<Name>,
    },
    /// Its pod requests less of a resource: as much as one node has free now.
    Ask {
        resource: Name,
        /// Current request in bytes.
        from: i64,
        /// New request in bytes.
        to: i64,
    },
    Priority {
        from: i32,
        to: i32,
    },
    /// Its queue, or the stopped queue above it, admits again.
    ResumeQueue {
        queue: Name,
    },
    /// These jobs are evicted and requeued behind it.
    Preempt {
        jobs: Vec<JobName>,
    },
    /// Cordoned nodes accept new pods again.
    Uncordon {
        nodes: Vec<Name>,
    },
    /// A queue's nominal quota grows, with its hard cap if it has one. Amounts are in thousandths; of memory in bytes.
    Quota {
        queue: Name,
        flavor: Name,
        resource: Name,
        add: i64,
        nominal: i64,
    },
    /// More nodes like an existing one: same shape, labels, taints and topology.
    Nodes {
        /// The node that they copy.
        like: Name,
        /// Its machine type, where known.
        instance_type: Option<Name>,
        pool: Name,
        /// Why the pool's autoscaler does not add them; none where it may add them, or where that is not known.
        #[serde(skip_serializing_if = "Option::is_none")]
        no_more: Option<Name>,
        /// Number of new nodes.
        count: u32,
        devices: u32,
        /// How many such nodes all pods of the workload fill, packed closely: more are for other jobs. Not in documents.
        #[serde(skip)]
        filled: u32,
    },
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn rfc3339<S: serde::Serializer>(at: &Moment, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(&at.rfc3339())
}

impl UnblockChange {
    /// A start within this many seconds, a working day, is near enough to wait for.
    pub const PATIENCE_SECONDS: i64 = 8 * 3_600;

    /// Cost rank of an eviction.
    const PREEMPT: u8 = 8;

    /// Cost rank of a long wait.
    const LONG_WAIT: u8 = 10;

    /// Cost rank at a given time.
    pub fn cost(&self, now: Moment) -> u8 {
        match self {
            Self::Wait { at } if at.millis() - now.millis() <= Self::PATIENCE_SECONDS * 1_000 => 1,
            Self::Tolerate { .. } => 2,
            Self::RelaxTopology { .. } => 3,
            Self::Flavor { .. } | Self::Labels { .. } | Self::Ask { .. } => 4,
            Self::ResumeQueue { .. } => 5,
            Self::Priority { .. } => 6,
            Self::Quota { .. } => 7,
            Self::Preempt { .. } => Self::PREEMPT,
            Self::Uncordon { .. } => 9,
            Self::Nodes { .. } => 11,
            Self::Wait { .. } => Self::LONG_WAIT,
        }
    }

    pub fn sentence(&self) -> String {
        match self {
            Self::Wait { at } => format!("wait until {}", at.rfc3339()),
            Self::Tolerate { taints } => {
                let names: Vec<String> = taints
                    .iter()
                    .map(|taint| format!("{}={}:{}", taint.key, taint.value, taint.effect))
                    .collect();
                format!("tolerate {}", names.join(" and "))
            }
            Self::RelaxTopology { level } => format!("prefer one {level} instead of requiring it"),
            Self::Flavor { flavor } => format!("request flavor {flavor}"),
            Self::Labels { keys } => {
                let keys: Vec<&str> = keys.iter().map(Name::as_str).collect();
                format!("remove node selector {}", keys.join(" and "))
            }
            Self::Ask { resource, from, to } => format!(
                "request {} per pod instead of {}",
                with_resource(resource, *to),
                amount(resource, *from)
            ),
            Self::Priority { from, to } => format!("priority {to} instead of {from}"),
            Self::ResumeQueue { queue } => format!("resume queue {queue}"),
            Self::Preempt { jobs } => format!("preempt {}", first_named(jobs, NAMED)),
            Self::Uncordon { nodes } => format!("uncordon {}", first_named(nodes, NAMED)),
            Self::Quota {
                queue,
                flavor,
                resource,
                add,
                ..
            } => format!(
                "raise {queue}'s quota by {}",
                of_flavor(resource, flavor, *add)
            ),
            Self::Nodes {
                like,
                instance_type,
                no_more,
                count,
                ..
            } => {
                let what = instance_type.as_ref().unwrap_or(like);
                let node = if *count == 1 { "node" } else { "nodes" };
                match no_more {
                    Some(why) => format!("add {count} {node} like {like} ({what}; {why})"),
                    None => format!("add {count} {node} like {like} ({what})"),
                }
            }
        }
    }

    /// The command that plans it for a job, without the program's name; none if there is no single command.
    pub fn command(&self, job: &JobName) -> Option<String> {
        match self {
            Self::Priority { to, .. } => Some(format!("plan reprioritise {job} {to}")),
            Self::ResumeQueue { queue } => Some(format!("plan resume queue/{queue}")),
            Self::Preempt { jobs } => match &jobs[..] {
                [one] => Some(format!("plan preempt {one}")),
                _ => None,
            },
            Self::Uncordon { nodes } => {
                let names: Vec<&str> = nodes.iter().map(Name::as_str).collect();
                Some(format!("plan uncordon {}", names.join(" ")))
            }
            _ => None,
        }
    }

    /// Applies it to a snapshot, for the workload that it is proposed for. Missing objects are ignored.
    pub fn apply(&self, snapshot: &mut Snapshot, work: &JobKey) {
        let found = snapshot.workloads.iter().position(|it| it.key == *work);
        let mut workload = found.map(|at| &mut snapshot.workloads[at]);
        match self {
            Self::Wait { .. } => {}
            Self::Tolerate { taints } => {
                for set in workload.iter_mut().flat_map(|work| &mut work.sets) {
                    let more = taints.iter().map(TaintName::toleration);
                    set.tolerations.extend(more);
                }
            }
            Self::RelaxTopology { .. } => {
                for set in workload.iter_mut().flat_map(|work| &mut work.sets) {
                    if let Some(topology) = &mut set.topology {
                        topology.required = false;
                    }
                }
            }
            Self::Flavor { flavor } => {
                if let Some(work) = &mut workload {
                    work.flavors = vec![FlavorChoice {
                        flavor: flavor.clone(),
                        speed_milli: 1_000,
                    }];
                }
            }
            Self::Labels { .. } => {
                for set in workload.iter_mut().flat_map(|work| &mut work.sets) {
                    set.selector.clear();
                    set.affinity.clear();
                }
            }
            Self::Ask { to, .. } => {
                for set in workload.iter_mut().flat_map(|work| &mut work.sets) {
                    set.requests.memory_bytes = set.requests.memory_bytes.min(*to);
                }
            }
            Self::Priority { to, .. } => {
                if let Some(work) = &mut workload {
                    work.priority = *to;
                }
            }
            Self::Quota {
                queue,
                flavor,
                resource,
                add,
                ..
            } => {
                let mut queues = snapshot.queues.iter_mut();
                if let Some(queue) = queues.find(|it| it.name == *queue) {
                    add_quota(&mut queue.quotas, flavor, resource, *add);
                }
            }
            Self::Nodes { like, count, .. } => add_nodes(snapshot, like, *count),
            Self::ResumeQueue { queue } => {
                let mut queues = snapshot.queues.iter_mut();
                if let Some(queue) = queues.find(|it| it.name == *queue) {
                    queue.stop = QueueStop::None;
                }
            }
            Self::Preempt { jobs } => {
                // Pods without a queue find nodes before requeued workloads are admitted and have pods.
                let away = found.is_some_and(|at| snapshot.workloads[at].queue.is_none());
                let all = 0..snapshot.workloads.len();
                let named = |at: &usize| jobs.contains(&job(&snapshot.workloads[*at].key));
                let found: Vec<usize> = all.filter(named).collect();
                for at in found {
                    snapshot.displace(at, away);
                }
            }
            Self::Uncordon { nodes } => {
                for node in &mut snapshot.nodes {
                    node.cordoned &= !nodes.contains(&node.name);
                }
            }
        }
        snapshot.settle();
    }
}

/// Grows a quota, or shrinks it if negative; creates it if missing.
pub(crate) fn add_quota(quotas: &mut Vec<SnapshotQuota>, flavor: &Name, resource: &Name, add: i64) {
    let own = |quota: &&mut SnapshotQuota| quota.flavor == *flavor && quota.resource == *resource;
    match quotas.iter_mut().find(own) {
        Some(quota) => {
            quota.nominal = quota.nominal.saturating_add(add).max(0);
            quota.cap = quota.cap.map(|cap| cap.saturating_add(add).max(0));
        }
        None => quotas.push(SnapshotQuota {
            flavor: flavor.clone(),
            resource: resource.clone(),
            nominal: add.max(0),
            borrow: None,
            lend: None,
            cap: None,
        }),
    }
}

/// Adds empty nodes like an existing one, with names that sort last.
pub(crate) fn add_nodes(snapshot: &mut Snapshot, like: &str, count: u32) {
    let found = snapshot.nodes.iter().find(|node| *node.name == *like);
    let Some(origin) = found.cloned() else {
        return;
    };
    for at in 0..count {
        let mut node = origin.clone();
        node.name = Name::new(&format!("~{like}+{at:05}"));
        node.uid = Name::default();
        node.ready = true;
        node.cordoned = false;
        snapshot.nodes.push(node);
    }
}

/// An amount of a resource for display: devices and cores, or GiB.
pub fn amount(resource: &str, value: i64) -> String {
    if !unit_is_milli(resource) {
        let tenths = value.saturating_mul(10) / (1 << 30);
        return format!("{}.{} GiB", tenths / 10, (tenths % 10).abs());
    }
    match (value / 1_000, (value % 1_000).abs()) {
        (whole, 0) => whole.to_string(),
        (whole, part) => {
            let sign = if value < 0 && whole == 0 { "-" } else { "" };
            let part = format!("{part:03}");
            format!("{sign}{whole}.{}", part.trim_end_matches('0'))
        }
    }
}

/// An amount with its resource: `8 nvidia.com/gpu`, `96.0 GiB of memory`.
pub(super) fn with_resource(resource: &str, value: i64) -> String {
    let of = if unit_is_milli(resource) { "" } else { "of " };
    format!("{} {of}{resource}", amount(resource, value))
}

/// An amount of quota: `320 h100`, `8 mig-1g.10gb`, `64 cpu of h100`; `16 devices` if flavors are not distinguished.
pub fn of_flavor(resource: &str, flavor: &str, value: i64) -> String {
    let number = amount(resource, value);
    let in_words = match (resource, number.as_str()) {
        ("devices", "1") => String::from("1 device"),
        _ => with_resource(resource, value),
    };
    match (resource.rsplit_once('/'), flavor) {
        // Slices of several sizes share a flavor, each with its own quota.
        (Some((_, slice)), _) if slice.starts_with("mig-") => format!("{number} {slice}"),
        (Some(_), ANY_FLAVOR) if number == "1" => String::from("1 device"),
        (Some(_), ANY_FLAVOR) => format!("{number} devices"),
        (Some(_), _) => format!("{number} {flavor}"),
        (None, ANY_FLAVOR) => in_words,
        (None, _) => format!("{in_words} of {flavor}"),
    }
}

/// Changes that together let a workload start.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Unblock {
    /// The changes; nearly always one.
    pub changes: Vec<UnblockChange>,
    /// True if tested: with them a cycle starts it, and with the next smaller ones it does not. False if estimated, because
    /// testing exceeded the work limit.
    pub proven: bool,
    /// Workloads that are evicted for it, by the scheduler or, if a change says so, by an operator.
    pub victims: Vec<Evicted>,
    pub sentence: String,
}

impl Unblock {
    /// Prefix and suffix of an estimate that was not tested: an amount is approximate.
    pub fn marks(&self) -> (&'static str, &'static str) {
        let is_amount = |change: &UnblockChange| {
            matches!(
                change,
                UnblockChange::Quota { .. } | UnblockChange::Nodes { .. }
            )
        };
        match self.proven {
            true => ("", ""),
            false if self.changes.iter().all(is_amount) => ("estimate: ", ""),
            false => ("", " (estimated)"),
        }
    }

    /// Surplus that a workload with this many devices cannot use, in words: other jobs take it. `None` if there is no surplus.
    pub fn for_others(&self, devices: u64) -> Option<String> {
        // If both are given, the node count decides.
        let nodes = self.changes.iter().find_map(|change| match change {
            UnblockChange::Nodes { count, filled, .. } => count.checked_sub(*filled).map(u64::from),
            _ => None,
        });
        // CPU and memory have no vendor prefix.
        let quota = || {
            self.changes.iter().find_map(|change| match change {
                UnblockChange::Quota { resource, add, .. } if resource.contains('/') => {
                    u64::try_from(*add)
                        .ok()?
                        .div_ceil(1_000)
                        .checked_sub(devices)
                }
                _ => None,
            })
        };
        let more = nodes.or_else(quota)?;
        (more > 0).then(|| format!("{more} of them for jobs ahead of it"))
    }

    pub(crate) fn new(changes: Vec<UnblockChange>, proven: bool) -> Self {
        Self::evicting(changes, proven, Vec::new())
    }

    /// The same, with the workloads that are evicted for it.
    pub(crate) fn evicting(
        changes: Vec<UnblockChange>,
        proven: bool,
        victims: Vec<Evicted>,
    ) -> Self {
        let all: Vec<String> = changes.iter().map(UnblockChange::sentence).collect();
        let mut sentence = all.join(" and ");
        let named = |change: &UnblockChange| matches!(change, UnblockChange::Preempt { .. });
        if let ([UnblockChange::Preempt { .. }], [_]) = (&changes[..], &victims[..]) {
            sentence = format!("preempt {}", evicted_words(&victims));
        } else if !victims.is_empty() && !changes.iter().any(named) {
            sentence = format!("{sentence}, preempting {}", evicted_words(&victims));
        }
        Self {
            sentence,
            changes,
            proven,
            victims,
        }
    }

    /// Cost rank: that of its most expensive change; several changes rank after one, and a long wait ranks last.
    pub(crate) fn cost(&self, now: Moment) -> (bool, bool, u8) {
        let dearest = self.changes.iter().map(|change| change.cost(now)).max();
        let is_wait = matches!(self.changes[..], [UnblockChange::Wait { .. }]);
        let dearest = match dearest.unwrap_or(0) {
            // Evicted workloads lose work with every kind of change.
            cost if !is_wait && !self.victims.is_empty() => cost.max(UnblockChange::PREEMPT),
            cost => cost,
        };
        let is_long_wait = dearest == UnblockChange::LONG_WAIT;
        (is_long_wait, self.changes.len() > 1, dearest)
    }
}

/// The name of a workload in answers.
pub(crate) fn job(key: &JobKey) -> JobName {
    JobName(key.key.clone())
}

/// `1 device`, `8 devices`.
pub(super) fn counted_devices(milli: i64) -> String {
    let plural = if milli == 1_000 { "" } else { "s" };
    format!("{} device{plural}", amount("devices", milli))
}

/// `1 device is`, `8 devices are`.
pub(super) fn devices_are(milli: i64) -> String {
    let verb = if milli == 1_000 { "is" } else { "are" };
    format!("{} {verb}", counted_devices(milli))
}

/// `1 node has room for 1 pod`.
pub(super) fn nodes_with_room(nodes: usize, pods: u64) -> String {
    let has = if nodes == 1 { "has" } else { "have" };
    let (nodes, pods) = (counted(nodes as u64, "node"), counted(pods, "pod"));
    format!("{nodes} {has} room for {pods}")
}
