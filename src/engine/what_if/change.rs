//! Hypothetical changes and how they apply to a snapshot.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::explain::{add_nodes, add_quota};
use crate::explanations;
use crate::snapshot::{DEVICES, FlavorChoice, Snapshot, SnapshotQuota, Status};
use model::base::document::unknown;
use model::base::{Name, ObjectKey, SmallSort};
use model::fleet::job::JobKey;
use model::fleet::node::Billing;

use super::names;

/// Node label of the zone.
const ZONE: &str = "topology.kubernetes.io/zone";

/// Maximum number of hypothetical nodes or copies of a workload.
const MOST: i64 = 100_000;

/// A hypothetical change. Amounts of devices are whole devices; prices micro-USD a device-hour.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HypotheticalChange {
    /// More or fewer nodes like those of a pool, machine type or name. The emptiest nodes are removed first.
    Nodes {
        /// Pool, machine type or node.
        target: String,
        by: i64,
    },
    /// Loss of all nodes of a pool, a zone or a name.
    Lost {
        /// `pool`, `zone` or `node`.
        what: LostPart,
        name: String,
    },
    /// Changes a queue's device quota of a flavor by a difference.
    QuotaBy {
        queue: String,
        flavor: String,
        by: i64,
    },
    /// Sets a queue's device quota of a flavor.
    QuotaSet {
        queue: String,
        flavor: String,
        to: i64,
    },
    /// Moves device quota of a flavor from one queue to another.
    QuotaMove {
        from: String,
        to: String,
        flavor: String,
        devices: i64,
    },
    /// Sets the price of a flavor's or class's devices.
    Price {
        target: String,
        /// Price in micro-USD a device-hour.
        micro_usd: i64,
    },
    /// Turns a pool into spot nodes at a price.
    Spot {
        pool: String,
        /// Price in micro-USD a device-hour.
        micro_usd: i64,
    },
    /// Restricts a workload to one flavor.
    JobFlavor {
        /// The workload, written `NAMESPACE/NAME`.
        job: String,
        flavor: String,
    },
    /// Sets a workload's priority.
    JobPriority {
        /// The workload, written `NAMESPACE/NAME`.
        job: String,
        priority: i32,
    },
    JobRemoved {
        /// The workload, written `NAMESPACE/NAME`.
        job: String,
    },
    /// Adds pending copies of a workload.
    JobAdded {
        /// `NAMESPACE/NAME` of the original.
        job: String,
        count: i64,
    },
}

/// Kind of a loss.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LostPart {
    Pool,
    /// A zone, by its node label.
    Zone,
    Node,
}

impl LostPart {
    /// Keyword in the grammar.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pool => "pool",
            Self::Zone => "zone",
            Self::Node => "node",
        }
    }
}

/// Writes micro-USD as dollars, with two to six decimals.
fn dollars(micro: i64) -> String {
    let cents = format!("{:06}", micro % 1_000_000);
    let short = cents.trim_end_matches('0');
    match short.len() {
        0..=2 => format!("{}.{short:0<2}", micro / 1_000_000),
        _ => format!("{}.{short}", micro / 1_000_000),
    }
}

impl fmt::Display for HypotheticalChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nodes { target, by } => write!(f, "nodes {target} {by:+}"),
            Self::Lost { what, name } => write!(f, "{} {name} lost", what.name()),
            Self::QuotaBy { queue, flavor, by } => write!(f, "quota {queue}/{flavor} {by:+}"),
            Self::QuotaSet { queue, flavor, to } => write!(f, "quota {queue}/{flavor} ={to}"),
            Self::QuotaMove {
                from,
                to,
                flavor,
                devices,
            } => write!(f, "quota {from}->{to}/{flavor} {devices}"),
            Self::Price { target, micro_usd } => {
                write!(f, "price {target} {}", dollars(*micro_usd))
            }
            Self::Spot { pool, micro_usd } => write!(f, "spot {pool} {}", dollars(*micro_usd)),
            Self::JobFlavor { job, flavor } => write!(f, "job {job} flavor {flavor}"),
            Self::JobPriority { job, priority } => write!(f, "job {job} priority {priority}"),
            Self::JobRemoved { job } => write!(f, "job {job} removed"),
            Self::JobAdded { job, count } => write!(f, "job {job} +{count}"),
        }
    }
}

impl HypotheticalChange {
    /// Applies the change to a snapshot, which must be settled afterwards. Returns the workloads that lose their nodes.
    ///
    /// # Errors
    /// Names an object that does not exist.
    pub fn apply(&self, snapshot: &mut Snapshot) -> Result<BTreeSet<JobKey>, String> {
        let none = BTreeSet::new();
        match self {
            Self::Nodes { target, by } => return nodes(snapshot, target, *by),
            Self::Lost { what, name } => {
                let gone = of_place(snapshot, *what, name)?;
                return Ok(lose(snapshot, &gone));
            }
            Self::QuotaBy { queue, flavor, by } => quota(snapshot, queue, flavor, By::Add(*by))?,
            Self::QuotaSet { queue, flavor, to } => quota(snapshot, queue, flavor, By::Set(*to))?,
            Self::QuotaMove {
                from,
                to,
                flavor,
                devices,
            } => {
                let has = nominal(snapshot, from, flavor)?;
                if has < devices.saturating_mul(1_000) {
                    return Err(format!(
                        "queue {from} has only {} devices of {flavor} to give",
                        has / 1_000
                    ));
                }
                quota(snapshot, from, flavor, By::Add(-devices))?;
                quota(snapshot, to, flavor, By::Add(*devices))?;
            }
            Self::Price { target, micro_usd } => price(snapshot, target, *micro_usd)?,
            Self::Spot { pool, micro_usd } => {
                let names = of_place(snapshot, LostPart::Pool, pool)?;
                for node in &mut snapshot.nodes {
                    if names.contains(&node.name) {
                        node.billing = Some(Billing::Spot);
                        for device in &mut node.devices {
                            device.price = Some(*micro_usd);
                            device.by_list = false;
                        }
                    }
                }
            }
            Self::JobFlavor { job, flavor } => {
                let known = names(snapshot.flavors.iter().map(|flavor| &flavor.name));
                if !known.contains(&flavor.as_str()) {
                    return Err(unknown("flavor", flavor, &known));
                }
                let at = find(snapshot, job)?;
                let work = &mut snapshot.workloads[at];
                work.flavors = vec![FlavorChoice {
                    flavor: Name::new(flavor),
                    speed_milli: 1_000,
                }];
                // The device changes, so the running workload restarts.
                return Ok(displace(snapshot, at).into_iter().collect());
            }
            Self::JobPriority { job, priority } => {
                let at = find(snapshot, job)?;
                snapshot.workloads[at].priority = *priority;
            }
            Self::JobRemoved { job } => {
                let at = find(snapshot, job)?;
                snapshot.workloads.remove(at);
            }
            Self::JobAdded { job, count } => {
                let at = find(snapshot, job)?;
                for copy in 1..=(*count).clamp(0, MOST) {
                    let mut work = snapshot.workloads[at].clone();
                    let name = Name::new(&format!("{}+{copy}", work.key.key.name));
                    work.key.key = ObjectKey::new(work.key.key.namespace.clone(), name);
                    work.uid = Name::default();
                    work.created = snapshot.at;
                    work.status = Status::Waiting;
                    work.admitted_at = None;
                    for set in &mut work.sets {
                        set.placements.clear();
                        set.admitted.clear();
                    }
                    snapshot.workloads.push(work);
                }
            }
        }
        Ok(none)
    }
}

fn find(snapshot: &Snapshot, job: &str) -> Result<usize, String> {
    let text = |at: usize| snapshot.workloads[at].key.key.to_string();
    let found = (0..snapshot.workloads.len()).find(|&at| text(at) == job);
    found.ok_or_else(|| explanations::no_such_job(snapshot, job))
}

fn displace(snapshot: &mut Snapshot, at: usize) -> Option<JobKey> {
    let work = &mut snapshot.workloads[at];
    let runs =
        work.status == Status::Running || work.sets.iter().any(|set| !set.placements.is_empty());
    if !runs {
        return None;
    }
    for set in &mut work.sets {
        set.placements.clear();
        set.admitted.clear();
    }
    if work.status == Status::Running {
        work.status = Status::Waiting;
    }
    work.admitted_at = None;
    Some(work.key.clone())
}

/// Removes nodes; gangs with a pod on one of them stop as a whole.
fn lose(snapshot: &mut Snapshot, gone: &BTreeSet<Name>) -> BTreeSet<JobKey> {
    snapshot.nodes.retain(|node| !gone.contains(&node.name));
    let hit: Vec<usize> = snapshot
        .workloads
        .iter()
        .enumerate()
        .filter(|(_, work)| {
            let mut all = work.sets.iter().flat_map(|set| &set.placements);
            all.any(|placement| gone.contains(&placement.node))
        })
        .map(|(at, _)| at)
        .collect();
    hit.into_iter()
        .filter_map(|at| displace(snapshot, at))
        .collect()
}

fn of_place(snapshot: &Snapshot, what: LostPart, name: &str) -> Result<BTreeSet<Name>, String> {
    let of = |node: &crate::snapshot::SnapshotNode| match what {
        LostPart::Pool => Some(node.pool.clone()),
        LostPart::Zone => node.labels.get(ZONE).cloned(),
        LostPart::Node => Some(node.name.clone()),
    };
    let named = |node: &&crate::snapshot::SnapshotNode| of(node).is_some_and(|own| *own == *name);
    let found: BTreeSet<Name> = snapshot
        .nodes
        .iter()
        .filter(named)
        .map(|node| node.name.clone())
        .collect();
    if found.is_empty() {
        let all: Vec<Name> = snapshot.nodes.iter().filter_map(of).collect();
        return Err(unknown(what.name(), name, &names(all.iter())));
    }
    Ok(found)
}

fn nodes(snapshot: &mut Snapshot, target: &str, by: i64) -> Result<BTreeSet<JobKey>, String> {
    if by.abs() > MOST {
        return Err(format!("{by} nodes are more than {MOST}"));
    }
    let matches = |node: &&crate::snapshot::SnapshotNode| {
        *node.pool == *target
            || node.instance_type.as_deref() == Some(target)
            || *node.name == *target
    };
    let found: Vec<Name> = snapshot
        .nodes
        .iter()
        .filter(matches)
        .map(|node| node.name.clone())
        .collect();
    let Some(first) = found.first() else {
        let types = snapshot
            .nodes
            .iter()
            .filter_map(|node| node.instance_type.as_ref());
        let pools = snapshot.nodes.iter().map(|node| &node.pool);
        return Err(unknown(
            "pool or machine type",
            target,
            &names(pools.chain(types)),
        ));
    };
    if by >= 0 {
        add_nodes(snapshot, first, by as u32);
        return Ok(BTreeSet::new());
    }
    let mut held: BTreeMap<&Name, usize> = BTreeMap::new();
    for set in snapshot.workloads.iter().flat_map(|work| &work.sets) {
        for placement in &set.placements {
            *held.entry(&placement.node).or_default() += placement.devices.len().max(1);
        }
    }
    let mut order: Vec<(usize, Reverse<&Name>)> = found
        .iter()
        .map(|name| (held.get(name).copied().unwrap_or(0), Reverse(name)))
        .collect();
    order.small_sort();
    let many = usize::try_from(-by).unwrap_or(usize::MAX);
    if many > order.len() {
        return Err(format!("{target} has only {} nodes", order.len()));
    }
    let gone = order[..many]
        .iter()
        .map(|(_, name)| name.0.clone())
        .collect();
    Ok(lose(snapshot, &gone))
}

#[derive(Clone, Copy)]
enum By {
    Add(i64),
    Set(i64),
}

/// The quota entry in which a queue counts devices of a flavor.
fn device_quota<'q>(quotas: &'q [SnapshotQuota], flavor: &str) -> Option<&'q SnapshotQuota> {
    let of = |quota: &&SnapshotQuota| *quota.flavor == *flavor;
    let plain = |quota: &&SnapshotQuota| !matches!(&*quota.resource, "cpu" | "memory" | "pods");
    let own = || quotas.iter().filter(of).filter(plain);
    own()
        .find(|quota| &*quota.resource == DEVICES)
        .or_else(|| own().next())
}

fn queue_at(snapshot: &Snapshot, queue: &str, flavor: &str) -> Result<usize, String> {
    let found = snapshot.queues.iter().position(|it| *it.name == *queue);
    let queues = || names(snapshot.queues.iter().map(|queue| &queue.name));
    let at = found.ok_or_else(|| unknown("queue", queue, &queues()))?;
    let flavors = names(snapshot.flavors.iter().map(|flavor| &flavor.name));
    if !flavors.contains(&flavor) {
        return Err(unknown("flavor", flavor, &flavors));
    }
    Ok(at)
}

fn nominal(snapshot: &Snapshot, queue: &str, flavor: &str) -> Result<i64, String> {
    let at = queue_at(snapshot, queue, flavor)?;
    let own = device_quota(&snapshot.queues[at].quotas, flavor);
    Ok(own.map_or(0, |quota| quota.nominal))
}

fn quota(snapshot: &mut Snapshot, queue: &str, flavor: &str, by: By) -> Result<(), String> {
    let at = queue_at(snapshot, queue, flavor)?;
    let quotas = &mut snapshot.queues[at].quotas;
    let own = device_quota(quotas, flavor);
    let resource = own.map_or_else(|| Name::from(DEVICES), |quota| quota.resource.clone());
    let has = own.map_or(0, |quota| quota.nominal);
    let add = match by {
        By::Add(devices) => devices.saturating_mul(1_000),
        By::Set(devices) => devices.saturating_mul(1_000).saturating_sub(has),
    };
    if has.saturating_add(add) < 0 {
        return Err(format!(
            "queue {queue} has only {} devices of {flavor}",
            has / 1_000
        ));
    }
    add_quota(quotas, &Name::new(flavor), &resource, add);
    Ok(())
}

fn price(snapshot: &mut Snapshot, target: &str, micro_usd: i64) -> Result<(), String> {
    let flavor = snapshot
        .flavors
        .iter()
        .position(|flavor| *flavor.name == *target);
    let labels = flavor.map(|at| snapshot.flavors[at].labels.clone());
    if let Some(at) = flavor {
        snapshot.flavors[at].price = Some(micro_usd);
    }
    let mut any = flavor.is_some();
    for node in &mut snapshot.nodes {
        let carried = labels.as_ref().is_some_and(|labels| {
            !labels.is_empty()
                && labels
                    .iter()
                    .all(|(key, value)| node.labels.get(key) == Some(value))
        });
        for device in &mut node.devices {
            if carried || *device.class == *target {
                device.price = Some(micro_usd);
                device.by_list = false;
                any = true;
            }
        }
    }
    if any {
        return Ok(());
    }
    let flavors = snapshot.flavors.iter().map(|flavor| &flavor.name);
    let classes = snapshot
        .nodes
        .iter()
        .flat_map(|node| &node.devices)
        .map(|device| &device.class);
    Err(unknown(
        "flavor or class",
        target,
        &names(flavors.chain(classes)),
    ))
}
