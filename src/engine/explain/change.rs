//! The closed list of changes that let a workload start, in the order of what they cost.

use serde::Serialize;

use crate::snapshot::{
    ANY_FLAVOR, Choice, Quota, Snapshot, Stop, Taint, TaintEffect, Toleration, unit_is_milli,
};
use model::base::quantities::first_named;
use model::base::{Moment, Name};
use model::fleet::job::JobKey;
use model::plan::{Evicted, JobName, evicted_words};

/// So many jobs or nodes are named.
const NAMED: usize = 5;

/// A taint, named.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
pub struct TaintName {
    /// Key.
    pub key: Name,
    /// Value; may be empty.
    pub value: Name,
    /// Effect, as Kubernetes writes it.
    pub effect: &'static str,
}

impl TaintName {
    /// The name of a taint.
    pub fn of(taint: &Taint) -> Self {
        Self {
            key: taint.key.clone(),
            value: taint.value.clone(),
            effect: taint.effect.name(),
        }
    }

    /// What tolerates it.
    pub fn toleration(&self) -> Toleration {
        let mut effects = TaintEffect::ALL.into_iter();
        Toleration {
            key: Some(self.key.clone()),
            value: Some(self.value.clone()),
            effect: effects.find(|effect| effect.name() == self.effect),
        }
    }
}

/// One change. Kinds stand in the order of their cost to everybody else, which is the order in which they are proposed:
///
/// 1. `wait`, where the start is known and near ([`Change::PATIENCE_SECONDS`]): nobody does anything;
/// 2. `tolerate`: a line in the workload's own manifest, nothing gets slower;
/// 3. `relax-topology`: the same, and it may run slower;
/// 4. `flavor`: the same, on other devices;
/// 5. `resume-queue`: somebody stopped it, and takes that back;
/// 6. `priority`: others start later;
/// 7. `quota`: an administrator gives its queue what others may miss;
/// 8. `preempt`: others, which stand behind it, lose work;
/// 9. `uncordon`: nodes that somebody took out of use take work again;
/// 10. `nodes`: somebody pays for machines;
/// 11. `wait`, where the start is known and far.
///
/// Where none of these helps, the workload's own manifest: `labels`, and it may run on any devices of its kind; or `ask`, where
/// its pod is larger than any node.
///
/// Of one kind the least is proposed: the least priority, amount or number of nodes; one less does not do.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Change {
    /// Nothing: room that is kept for it becomes free.
    Wait {
        /// When, as RFC 3339.
        #[serde(serialize_with = "rfc3339")]
        at: Moment,
    },
    /// Its pods tolerate these taints.
    Tolerate {
        /// The taints.
        taints: Vec<TaintName>,
    },
    /// It no longer insists on one domain.
    RelaxTopology {
        /// The level that it asks for.
        level: Name,
    },
    /// It asks for this flavor and no other.
    Flavor {
        /// The flavor.
        flavor: Name,
    },
    /// It no longer asks for nodes with these labels, by name: no node with them will do.
    Labels {
        /// Keys of the labels, by name.
        keys: Vec<Name>,
    },
    /// Its pod asks for less of a resource: as much as there is on a node now.
    Ask {
        /// `memory`.
        resource: Name,
        /// From so many bytes.
        from: i64,
        /// To so many.
        to: i64,
    },
    /// It has this priority.
    Priority {
        /// From.
        from: i32,
        /// To.
        to: i32,
    },
    /// Its queue, or the one above it that is stopped, admits again.
    ResumeQueue {
        /// The queue.
        queue: Name,
    },
    /// These jobs leave their devices and stand in their queues again, behind it.
    Preempt {
        /// The jobs.
        jobs: Vec<JobName>,
    },
    /// Cordoned nodes take new work again.
    Uncordon {
        /// The nodes.
        nodes: Vec<Name>,
    },
    /// A queue's own quota grows, and its hard cap with it where it has one. Amounts are in thousandths, of memory in
    /// bytes.
    Quota {
        /// The queue.
        queue: Name,
        /// The flavor.
        flavor: Name,
        /// The resource.
        resource: Name,
        /// By how much.
        add: i64,
        /// To how much.
        nominal: i64,
    },
    /// There are more nodes like one: same shape, labels, taints and place.
    Nodes {
        /// The node that they are like.
        like: Name,
        /// Its machine type, where known.
        instance_type: Option<Name>,
        /// Its pool.
        pool: Name,
        /// How many more.
        count: u32,
        /// Devices of each.
        devices: u32,
    },
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn rfc3339<S: serde::Serializer>(at: &Moment, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(&at.rfc3339())
}

impl Change {
    /// A start within so many seconds is near enough to wait for.
    pub const PATIENCE_SECONDS: i64 = 900;

    /// The place of what evicts others.
    const PREEMPT: u8 = 8;

    /// The place of a later one.
    const LONG_WAIT: u8 = 11;

    /// Its place in the order of cost, at a moment.
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
            Self::Nodes { .. } => 10,
            Self::Wait { .. } => Self::LONG_WAIT,
        }
    }

    /// One line.
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
            Self::Flavor { flavor } => format!("ask for flavor {flavor}"),
            Self::Labels { keys } => {
                let keys: Vec<&str> = keys.iter().map(Name::as_str).collect();
                format!("remove node selector {}", keys.join(" and "))
            }
            Self::Ask { resource, from, to } => format!(
                "ask for {} a pod instead of {}",
                told(resource, *to),
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
                "raise queue {queue}'s quota by {}",
                of_flavor(resource, flavor, *add)
            ),
            Self::Nodes {
                like,
                instance_type,
                count,
                ..
            } => {
                let what = instance_type.as_ref().unwrap_or(like);
                let node = if *count == 1 { "node" } else { "nodes" };
                format!("{count} more {node} like {like} ({what})")
            }
        }
    }

    /// The command that plans it for a job, without the program's name; nothing where there is none, or there are several.
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

    /// Does it to a snapshot, for the workload that it is proposed for. What is not there is left alone.
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
                    if let Some(wish) = &mut set.topology {
                        wish.required = false;
                    }
                }
            }
            Self::Flavor { flavor } => {
                if let Some(work) = &mut workload {
                    work.flavors = vec![Choice {
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
                    set.ask.memory_bytes = set.ask.memory_bytes.min(*to);
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
                    queue.stop = Stop::None;
                }
            }
            Self::Preempt { jobs } => {
                // Pods behind all queues find nodes before what is queued again is admitted and has pods.
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

/// Grows (or, below nothing, shrinks) a quota, which is made where there is none.
pub(crate) fn add_quota(quotas: &mut Vec<Quota>, flavor: &Name, resource: &Name, add: i64) {
    let own = |quota: &&mut Quota| quota.flavor == *flavor && quota.resource == *resource;
    match quotas.iter_mut().find(own) {
        Some(quota) => {
            quota.nominal = quota.nominal.saturating_add(add).max(0);
            quota.cap = quota.cap.map(|cap| cap.saturating_add(add).max(0));
        }
        None => quotas.push(Quota {
            flavor: flavor.clone(),
            resource: resource.clone(),
            nominal: add.max(0),
            borrow: None,
            lend: None,
            cap: None,
        }),
    }
}

/// Adds empty nodes like one, named so that they stand last.
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

/// An amount of a resource, as a person writes it: devices and cores, or GiB.
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
pub(super) fn told(resource: &str, value: i64) -> String {
    let of = if unit_is_milli(resource) { "" } else { "of " };
    format!("{} {of}{resource}", amount(resource, value))
}

/// An amount of what a quota is of: `320 h100`, `8 mig-1g.10gb`, `64 cpu of h100`; `16 devices` where flavors are not told apart.
pub fn of_flavor(resource: &str, flavor: &str, value: i64) -> String {
    let number = amount(resource, value);
    let in_words = match (resource, number.as_str()) {
        ("devices", "1") => String::from("1 device"),
        _ => told(resource, value),
    };
    match (resource.rsplit_once('/'), flavor) {
        // Slices of several sizes are of one flavor, each with a quota of its own.
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
    pub changes: Vec<Change>,
    /// Tried: with them a cycle starts it, and with the next smaller ones it does not. Otherwise reckoned, because trying
    /// was beyond the bound on effort.
    pub proven: bool,
    /// Who is evicted for it then, by the scheduler or, where a change says so, by hand.
    pub victims: Vec<Evicted>,
    /// One line.
    pub sentence: String,
}

impl Unblock {
    /// What it gives beyond what a workload of so many pods and devices can use, in words: other jobs take it. `None` where that is
    /// nothing.
    pub fn for_others(&self, pods: u64, devices: u64) -> Option<String> {
        // Where both are given, the nodes say it.
        let nodes = self.changes.iter().find_map(|change| match change {
            Change::Nodes { count, .. } if pods > 0 => u64::from(*count).checked_sub(pods),
            _ => None,
        });
        // (CPU and memory have no vendor.)
        let quota = || {
            self.changes.iter().find_map(|change| match change {
                Change::Quota { resource, add, .. } if resource.contains('/') => {
                    u64::try_from(*add)
                        .ok()?
                        .div_ceil(1_000)
                        .checked_sub(devices)
                }
                _ => None,
            })
        };
        let more = nodes.or_else(quota)?;
        (more > 0).then(|| format!("of which other jobs take {more}"))
    }

    pub(crate) fn new(changes: Vec<Change>, proven: bool) -> Self {
        Self::evicting(changes, proven, Vec::new())
    }

    /// The same, with those that are evicted for it.
    pub(crate) fn evicting(changes: Vec<Change>, proven: bool, victims: Vec<Evicted>) -> Self {
        let all: Vec<String> = changes.iter().map(Change::sentence).collect();
        let mut sentence = all.join(", and ");
        let named = |change: &Change| matches!(change, Change::Preempt { .. });
        if let ([Change::Preempt { .. }], [_]) = (&changes[..], &victims[..]) {
            sentence = format!("preempt {}", evicted_words(&victims));
        } else if !victims.is_empty() && !changes.iter().any(named) {
            sentence = format!("{sentence}, evicting {}", evicted_words(&victims));
        }
        Self {
            sentence,
            changes,
            proven,
            victims,
        }
    }

    /// Its place in the order of cost: that of its dearest change; several come after one, and a long wait after all.
    pub(crate) fn cost(&self, now: Moment) -> (bool, bool, u8) {
        let dearest = self.changes.iter().map(|change| change.cost(now)).max();
        let is_wait = matches!(self.changes[..], [Change::Wait { .. }]);
        let dearest = match dearest.unwrap_or(0) {
            // Whoever is evicted loses work, by whatever change it comes.
            cost if !is_wait && !self.victims.is_empty() => cost.max(Change::PREEMPT),
            cost => cost,
        };
        let is_long_wait = dearest == Change::LONG_WAIT;
        (is_long_wait, self.changes.len() > 1, dearest)
    }
}

/// The name of a workload in answers.
pub(crate) fn job(key: &JobKey) -> JobName {
    JobName(key.key.clone())
}
