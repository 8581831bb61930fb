//! Reasons why a workload is pending: typed codes with numbers, ranked.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Serialize;

use crate::compiled::{FlavorId, PairId, WorkloadId};
use crate::fit::{Miss, Why};
use crate::state::State;
use model::base::{Name, SmallSort};
use model::fleet::visibility::unseen_words;
use model::plan::JobName;

use super::change::{
    TaintName, amount, counted_devices, devices_are, job, nodes_with_room, of_flavor, with_resource,
};
use super::node_capacity::{Arounds, around, capacity_reasons};

/// One reason. Quota amounts are in thousandths, of memory in bytes; node capacity is in pods.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum Reason {
    /// It is suspended or deactivated.
    Held,
    /// Neither a queue nor the scheduler can start it.
    Blocked { why: Name },
    /// What is not modeled decides whether and when it starts.
    NotForecast {
        why: Name,
        /// Whether quota and nodes suffice now.
        fits: bool,
    },
    /// Admitted; only nodes for its pods are missing.
    QuotaReserved { queue: Name },
    /// The next cycle admits it; only nodes for its pods are missing.
    GetsQuota { queue: Name },
    /// Its queue does not exist.
    NoQueue { queue: Name },
    /// Its queue is a cohort, which admits nothing.
    Cohort { queue: Name },
    /// Its queue, or one above it, does not admit now.
    Stopped { queue: Name },
    /// Its queue has no quota for a requested resource.
    NotCovered { queue: Name, resource: Name },
    /// None of its own flavors belongs to its queue.
    NoFlavor {
        queue: Name,
        /// Flavors of the queue.
        offered: Vec<Name>,
    },
    /// The flavor's nodes have a taint that it does not tolerate.
    FlavorTaint {
        flavor: Name,
        /// Key of the taint.
        key: Name,
    },
    /// It requires labels other than the flavor's.
    FlavorLabels { flavor: Name },
    /// It asks for a topology level that the flavor has not; or for none (null), and the flavor is for those that ask.
    FlavorTopology { flavor: Name, level: Option<Name> },
    /// It requests more than its queue could ever use, borrowing included.
    OverMost {
        queue: Name,
        flavor: Name,
        resource: Name,
        asked: i64,
        most: i64,
    },
    Quota {
        queue: Name,
        flavor: Name,
        resource: Name,
        asked: i64,
        /// Free for its queue, borrowing included.
        free: i64,
        /// In use by its queue and its descendants when its turn comes.
        used: i64,
        /// Nominal quota of its queue.
        nominal: i64,
        /// Usage of its queue above its nominal quota.
        borrowed: i64,
    },
    /// Enough devices are free, but fragmented across nodes.
    Fragmented(NodeSupply),
    /// Too few devices are free.
    NoRoom(NodeSupply),
    /// The eligible nodes are too few even when empty.
    Absent(NodeSupply),
    /// One of its pods requests more than any eligible node has.
    TooLarge {
        /// The resource: `cpu`, `memory`, or that of a device.
        resource: Name,
        /// Request of a pod.
        asked: i64,
        /// Maximum of a node.
        most: i64,
    },
    /// Nodes with free capacity have taints that it does not tolerate.
    Taints {
        /// The taints, at most eight.
        taints: Vec<TaintName>,
        nodes: usize,
        /// Pods that fit on them.
        room: u64,
    },
    /// Nodes with free capacity lack required labels.
    Labels {
        nodes: usize,
        /// Pods that fit on them.
        room: u64,
    },
    /// Nodes with free capacity are cordoned or not ready.
    Closed {
        nodes: usize,
        /// Pods that fit on them.
        room: u64,
    },
    /// The relevant objects are not visible to the requester.
    NotVisible {
        /// Nodes, queues, or namespaces.
        what: Vec<Name>,
    },
    /// Enough capacity is free, but not in one domain.
    Topology {
        level: Name,
        asked: u32,
        /// Most pods that fit in one domain.
        best: u64,
    },
    /// Its queue is strict, and another workload is ahead.
    Behind { job: JobName },
    /// It starts once this one has ended, which is being evicted already.
    Ending { job: JobName },
    /// It would delay a reservation.
    Reserved {
        /// The workload with the reservation.
        job: JobName,
    },
}

/// Node supply for the pods of a set.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct NodeSupply {
    /// Index of the pod set in its workload.
    pub set: usize,
    /// Its name, if the workload has other sets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set_name: Option<Name>,
    /// Flavors that were tried; empty if flavors do not apply.
    pub flavors: Vec<Name>,
    pub asked: u32,
    pub room: u64,
    /// Thousandths of devices requested in all.
    pub asked_devices_milli: i64,
    /// Thousandths of devices free on eligible nodes.
    pub free_devices_milli: i64,
    /// Thousandths of healthy devices on those nodes.
    pub devices_milli: i64,
    /// Why fewer pods fit than there are free devices for; `None` if they match.
    #[serde(skip)]
    pub apart: Option<Apart>,
}

/// Why free devices do not fit a pod.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Apart {
    /// Too few of them on one node.
    Devices,
    /// Too little free CPU on their nodes.
    Cpu,
    /// Too little free memory on their nodes.
    Memory,
}

impl NodeSupply {
    /// Addition to the number of free devices: `, fragmented`.
    pub fn apart(&self) -> &'static str {
        match self.apart {
            None => "",
            Some(Apart::Devices) => ", fragmented",
            Some(Apart::Cpu) => ", on nodes short of CPU",
            Some(Apart::Memory) => ", on nodes short of memory",
        }
    }

    /// Which of a workload's pod sets: ` of its set worker`; empty if it has only one.
    fn of_set(&self) -> String {
        let name = self.set_name.as_ref();
        name.map_or_else(String::new, |name| format!(" of pod set {name}"))
    }
}

impl Reason {
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Blocked { .. } => "blocked",
            Self::NotForecast { .. } => "not-forecast",
            Self::NotVisible { .. } => "not-visible",
            Self::QuotaReserved { .. } => "quota-reserved",
            Self::GetsQuota { .. } => "gets-quota",
            Self::NoQueue { .. } => "no-queue",
            Self::Cohort { .. } => "cohort",
            Self::Stopped { .. } => "stopped",
            Self::NotCovered { .. } => "not-covered",
            Self::NoFlavor { .. } => "no-flavor",
            Self::FlavorTaint { .. } => "flavor-taint",
            Self::FlavorLabels { .. } => "flavor-labels",
            Self::FlavorTopology { .. } => "flavor-topology",
            Self::OverMost { .. } => "over-most",
            Self::Quota { .. } => "quota",
            Self::Fragmented(_) => "fragmented",
            Self::NoRoom(_) => "no-room",
            Self::Absent(_) => "absent",
            Self::TooLarge { .. } => "too-large",
            Self::Taints { .. } => "taints",
            Self::Labels { .. } => "labels",
            Self::Closed { .. } => "closed",
            Self::Topology { .. } => "topology",
            Self::Behind { .. } => "behind",
            Self::Ending { .. } => "ending",
            Self::Reserved { .. } => "reserved",
        }
    }

    /// Rank in a list of reasons: absolute obstacles first, then the ones closest to being resolved.
    fn rank(&self) -> u8 {
        match self {
            Self::Held
            | Self::Blocked { .. }
            | Self::NotVisible { .. }
            | Self::NoQueue { .. }
            | Self::Cohort { .. }
            | Self::Stopped { .. } => 0,
            Self::NotCovered { .. } | Self::NoFlavor { .. } => 1,
            Self::Behind { .. } | Self::Ending { .. } | Self::Reserved { .. } => 2,
            Self::Topology { .. } => 3,
            Self::Fragmented(_) => 4,
            Self::NoRoom(_) => 5,
            Self::Quota { .. } => 6,
            Self::OverMost { .. } => 7,
            Self::Absent(_) | Self::TooLarge { .. } => 8,
            Self::Taints { .. } => 9,
            Self::Closed { .. } => 10,
            Self::Labels { .. } => 11,
            Self::QuotaReserved { .. } | Self::GetsQuota { .. } => 14,
            Self::NotForecast { .. } => 15,
            Self::FlavorTaint { .. } => 12,
            Self::FlavorLabels { .. } | Self::FlavorTopology { .. } => 13,
        }
    }

    pub const fn is_not_forecast(&self) -> bool {
        matches!(self, Self::NotForecast { .. })
    }

    /// Whether nothing is known because objects are not visible.
    pub const fn is_blind(&self) -> bool {
        matches!(self, Self::NotVisible { .. })
    }

    pub fn sentence(&self) -> String {
        match self {
            Self::NotForecast { why, fits: true } => {
                format!("quota and nodes suffice; not forecast: {why}")
            }
            Self::NotForecast { why, fits: false } => format!("not forecast: {why}"),
            Self::Held => "held: suspended or deactivated".to_owned(),
            Self::Blocked { why } => why.to_string(),
            Self::NotVisible { what } => {
                format!("unknown: {}", unseen_words(what))
            }
            Self::QuotaReserved { queue } => {
                format!("admitted by queue {queue}: its pods wait for nodes")
            }
            Self::GetsQuota { queue } => {
                format!(
                    "queue {queue} has quota for it and admits it now: its pods then wait for nodes"
                )
            }
            Self::NoQueue { queue } => format!("there is no queue {queue}"),
            Self::Cohort { queue } => {
                format!("{queue} is a cohort, not a queue: it admits no jobs")
            }
            Self::Stopped { queue } => format!("queue {queue} is stopped"),
            Self::NotCovered { queue, resource } => {
                format!("queue {queue} has no quota for {resource}")
            }
            Self::NoFlavor { queue, offered } => {
                let names: Vec<&str> = offered.iter().map(Name::as_str).collect();
                match names.is_empty() {
                    true => format!("no flavor of queue {queue} fits its request"),
                    false => format!("queue {queue} has quota only for {}", names.join(", ")),
                }
            }
            Self::FlavorTaint { flavor, key } => {
                format!("it does not tolerate taint {key} of flavor {flavor}")
            }
            Self::FlavorTopology { flavor, level } => match level.as_deref() {
                None => format!("flavor {flavor} is for pods that ask for a topology"),
                Some("") => format!("flavor {flavor} has no topology, which it asks for"),
                Some(level) => format!("flavor {flavor} has no topology level {level}"),
            },
            Self::FlavorLabels { flavor } => {
                format!("flavor {flavor} does not match its node selector")
            }
            Self::OverMost {
                queue,
                flavor,
                resource,
                asked,
                most,
            } => format!(
                "needs {}; queue {queue} is capped at {}",
                of_flavor(resource, flavor, *asked),
                amount(resource, *most)
            ),
            Self::Quota {
                queue,
                flavor,
                resource,
                asked,
                free,
                used,
                nominal,
                ..
            } => {
                let (all, own) = (amount(resource, *used), amount(resource, *nominal));
                // Borrowed usage is in addition to the nominal quota.
                let in_use = match used > nominal {
                    true => format!("{all} in use, {own} of its own quota"),
                    false => format!("{all} of {own} in use"),
                };
                let needs = of_flavor(resource, flavor, *asked);
                let left = amount(resource, (*free).max(0));
                // Less is free than the nominal quota leaves: the cohort borrows it. More is free: the queue may borrow.
                match (*free).max(0).cmp(&(nominal - used).max(0)) {
                    Ordering::Less => format!(
                        "insufficient quota: needs {needs}, the cohort of queue {queue} has {left} left (the queue: {in_use})"
                    ),
                    Ordering::Equal => {
                        format!(
                            "insufficient quota: needs {needs}, queue {queue} has {left} left ({in_use})"
                        )
                    }
                    Ordering::Greater => {
                        format!(
                            "insufficient quota: needs {needs}, queue {queue} has {left} left including borrowing ({in_use})"
                        )
                    }
                }
            }
            Self::Fragmented(room) => format!(
                "{} free on eligible nodes{}: room for {} of {} pods{}",
                devices_are(room.free_devices_milli),
                room.apart(),
                room.room,
                room.asked,
                room.of_set()
            ),
            Self::NoRoom(room) => format!(
                "needs {}, {} free on eligible nodes{}: room for {} of {} pods{}",
                counted_devices(room.asked_devices_milli),
                amount("devices", room.free_devices_milli),
                room.apart(),
                room.room,
                room.asked,
                room.of_set()
            ),
            Self::Absent(room) => format!(
                "eligible nodes have {} devices in total, it needs {}",
                amount("devices", room.devices_milli),
                amount("devices", room.asked_devices_milli)
            ),
            Self::TooLarge {
                resource,
                asked,
                most,
            } => format!(
                "a pod needs {}, and no eligible node has more than {}",
                with_resource(resource, *asked),
                amount(resource, *most)
            ),
            Self::Taints {
                taints,
                nodes,
                room,
            } => {
                let names: Vec<&str> = taints.iter().map(|taint| taint.key.as_str()).collect();
                format!(
                    "{}, but also taints that it does not tolerate: {}",
                    nodes_with_room(*nodes, *room),
                    names.join(", ")
                )
            }
            Self::Labels { nodes, room } => {
                let held = nodes_with_room(*nodes, *room);
                format!("{held}, but not the node labels it asks for")
            }
            Self::Closed { nodes, room } => {
                format!(
                    "{}, but cordoned or not ready",
                    nodes_with_room(*nodes, *room)
                )
            }
            Self::Topology { level, asked, best } => {
                format!("no single {level} has room for {asked} pods; the best has room for {best}")
            }
            Self::Behind { job } => format!("its queue is strict FIFO, and {job} is ahead of it"),
            Self::Ending { job } => format!("it waits for {job}, which is being evicted"),
            Self::Reserved { job } => {
                format!("devices are reserved for {job}; starting this job first would delay it")
            }
        }
    }
}

/// Reasons of failed attempts, ranked, without duplicates.
pub(crate) fn read(state: &mut State<'_>, work: WorkloadId, misses: &[Miss]) -> Vec<Reason> {
    read_with(state, work, misses, &mut Arounds::new())
}

/// The same, with supply that is already computed.
pub(super) fn read_with(
    state: &mut State<'_>,
    work: WorkloadId,
    misses: &[Miss],
    known: &mut Arounds,
) -> Vec<Reason> {
    let mut reasons: Vec<Reason> = Vec::new();
    for miss in misses {
        for reason in of_miss(state, work, miss, known) {
            if !reasons.contains(&reason) {
                reasons.push(reason);
            }
        }
    }
    reasons.small_sort_by_key(Reason::rank);
    reasons
}

fn of_miss(
    state: &mut State<'_>,
    work: WorkloadId,
    miss: &Miss,
    known: &mut Arounds,
) -> Vec<Reason> {
    let compiled = state.compiled();
    let queue_name = compiled.workload(work).queue.clone().unwrap_or_default();
    let queue = compiled.workloads[work].queue;
    let name = |flavor: FlavorId| compiled.snapshot.flavors[flavor].name.clone();
    let pair = |state: &State<'_>, pair: PairId| {
        let pairs = queue.map_or(&[][..], |queue| state.tree().pairs_of(queue));
        let (flavor, resource) = &pairs[pair];
        (name(*flavor), resource.clone())
    };
    let one = match &miss.why {
        Why::NotForecast => Reason::NotForecast {
            why: compiled
                .workload(work)
                .not_forecast
                .clone()
                .unwrap_or_default(),
            fits: true,
        },
        Why::NoQueue => Reason::NoQueue { queue: queue_name },
        Why::Cohort => Reason::Cohort { queue: queue_name },
        Why::Stopped { queue } => Reason::Stopped {
            queue: state.tree().branches[*queue].name.clone(),
        },
        Why::NotCovered { resource } => Reason::NotCovered {
            queue: queue_name,
            resource: resource.clone(),
        },
        Why::NoFlavor => {
            // Flavors of resources that it does not request would not help.
            let sets = 0..state.compiled().workload(work).sets.len();
            let of_set = |set| state.groups_of(work, set, queue?).ok();
            let used: BTreeSet<usize> = sets.filter_map(of_set).flatten().collect();
            let plain = |name: &Name| matches!(&**name, "cpu" | "memory" | "pods");
            let groups = queue.map_or(&[][..], |queue| &state.tree().branches[queue].groups[..]);
            let groups = used.into_iter().filter_map(|at| groups.get(at));
            let groups = groups.filter(|group| !group.resources.iter().all(plain));
            let offered = groups.flat_map(|group| &group.flavors);
            Reason::NoFlavor {
                queue: queue_name,
                offered: offered.map(|flavor| name(*flavor)).collect(),
            }
        }
        Why::FlavorTaint { flavor, key } => Reason::FlavorTaint {
            flavor: name(*flavor),
            key: key.clone(),
        },
        Why::FlavorTopology { flavor } => {
            let asked = compiled.workload(work).sets[miss.set].topology.as_ref();
            Reason::FlavorTopology {
                flavor: name(*flavor),
                level: asked.map(|asked| asked.level.clone()),
            }
        }
        Why::FlavorLabels { flavor } => Reason::FlavorLabels {
            flavor: name(*flavor),
        },
        Why::OverMost {
            pair: at,
            asked,
            most,
        } => {
            let (flavor, resource) = pair(state, *at);
            Reason::OverMost {
                queue: queue_name,
                flavor,
                resource,
                asked: *asked,
                most: *most,
            }
        }
        Why::Quota {
            pair: at,
            asked,
            free,
            used,
            borrowed,
        } => {
            let (flavor, resource) = pair(state, *at);
            let queue = queue.unwrap_or_default();
            // A pod set that fails after other sets of the workload were counted fails for all of them together.
            let sets = &compiled.workloads[work].sets;
            let of_sets = sets
                .iter()
                .enumerate()
                .flat_map(|(set, it)| state.amounts(work, set, queue, &miss.flavors, it.count));
            let together: i64 = of_sets
                .filter(|(pair, _)| pair == at)
                .map(|(_, amount)| amount)
                .sum();
            let (asked, free, used, borrowed) = match together > *asked {
                true => (
                    together,
                    state.available(queue, *at),
                    state.gross(queue, *at),
                    state.borrowed(queue, *at),
                ),
                false => (*asked, *free, *used, *borrowed),
            };
            Reason::Quota {
                queue: queue_name,
                flavor,
                resource,
                asked,
                free,
                used,
                nominal: state.tree().quota(queue, *at).nominal,
                borrowed,
            }
        }
        Why::Topology {
            ladder,
            level,
            asked,
            best,
            ..
        } => Reason::Topology {
            level: compiled.ladders[*ladder].levels[*level].clone(),
            asked: *asked,
            best: *best,
        },
        Why::Behind { work } => Reason::Behind {
            job: job(&compiled.workload(*work).key),
        },
        Why::Ending { work } => Reason::Ending {
            job: job(&compiled.workload(*work).key),
        },
        Why::Reserved { work } => Reason::Reserved {
            job: job(&compiled.workload(*work).key),
        },
        Why::Nodes { set, asked, room } => {
            let it = &compiled.workloads[work].sets[*set];
            let key = (it.want, it.constraint, miss.flavors.clone());
            let around = known
                .entry(key)
                .or_insert_with(|| Arc::new(around(state, it, &miss.flavors)))
                .clone();
            return capacity_reasons(
                compiled,
                it,
                (work, *set, &miss.flavors),
                (*asked, *room),
                &around,
            );
        }
    };
    vec![one]
}
