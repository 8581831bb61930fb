//! Queues, cohorts and flavors of a live fleet.

use std::collections::{BTreeMap, BTreeSet};

use crate::snapshot::{
    self, ANY_FLAVOR, FlavorPreference, Fungibility, LeftAlone, PLENTY, Preemption, QueueStop,
    QueueingStrategy, SnapshotFlavor, SnapshotQuota, System, unit_is_milli,
};
use model::base::Name;
use model::fleet::Fleet;
use model::fleet::queue::{self, Measure, Queue, QueueKey, QueueKind, QueueSystem};

use super::{taint, toleration};

/// Means no limit: a multiple of whole devices, so that a document writes it as a plain number.
const UNBOUNDED: i64 = PLENTY / 1000 * 1000;

/// Maximum number of ancestors of a queue.
const DEPTH: usize = 32;

/// Node label for the device class, set by the engine if queues of `govern` have quotas, because their flavors are device
/// classes. No object of the cluster has it.
pub const CLASS: &str = "stokehold.dev/device-class";

/// Maximum effective weight, in whole units.
const HEAVIEST: f64 = 1_000_000.0;

/// Unique queue names for the engine, which identifies queues by name alone; a cohort may share its name with a queue, and so
/// may queues of two systems.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Titles(BTreeMap<QueueKey, Name>);

impl Titles {
    /// Titles of a fleet's queues: their names, with a distinguishing addition if two are equal. Names of
    /// Kubernetes objects contain no `/`, so no title equals another name.
    pub fn of(fleet: &Fleet) -> Self {
        let mut seen: BTreeMap<&Name, u32> = BTreeMap::new();
        for queue in fleet.queues.iter() {
            *seen.entry(queue.name()).or_default() += 1;
        }
        let title = |key: &QueueKey| match (seen.get(&key.name), key.kind) {
            (Some(1), _) => key.name.clone(),
            (_, QueueKind::Cohort) => Name::from(format!("cohort/{}", key.name)),
            (_, QueueKind::Queue) if key.system == QueueSystem::Kueue => key.name.clone(),
            (_, QueueKind::Queue) => Name::from(format!("{}/{}", key.system.name(), key.name)),
        };
        Self(
            fleet
                .queues
                .iter()
                .filter(|queue| !queue.name().is_empty())
                .map(|queue| (queue.key.clone(), title(&queue.key)))
                .collect(),
        )
    }

    /// The title of a queue, if known.
    pub fn get(&self, key: &QueueKey) -> Option<&Name> {
        self.0.get(key)
    }

    /// The title of a job's queue.
    pub fn of_job(&self, system: QueueSystem, name: &Name) -> Name {
        let key = QueueKey {
            system,
            kind: QueueKind::Queue,
            name: name.clone(),
        };
        self.get(&key).unwrap_or(name).clone()
    }
}

/// Every queue and cohort.
pub(super) fn queues(fleet: &Fleet, titles: &Titles) -> Vec<snapshot::SnapshotQueue> {
    fleet
        .queues
        .iter()
        .filter_map(|queue| {
            let name = titles.get(&queue.key)?.clone();
            Some(snapshot::SnapshotQueue {
                parent: parent(fleet, queue, titles),
                admits: queue.key.kind == QueueKind::Queue,
                object: queue.name().clone(),
                ..read(queue, name)
            })
        })
        .collect()
}

/// The title of a queue's parent. A cycle, or excessive depth, is cut here.
fn parent(fleet: &Fleet, queue: &Queue, titles: &Titles) -> Option<Name> {
    let above = queue.parent_key()?;
    let mut way = BTreeSet::from([queue.key.clone()]);
    let mut next = Some(above.clone());
    while let Some(key) = next {
        if way.len() > DEPTH || !way.insert(key.clone()) {
            return None;
        }
        next = fleet.queue(&key).and_then(|queue| queue.parent_key());
    }
    titles.get(&above).cloned()
}

fn read(queue: &Queue, name: Name) -> snapshot::SnapshotQueue {
    let preemption = &queue.preemption;
    snapshot::SnapshotQueue {
        name,
        object: Name::default(),
        parent: None,
        system: match queue.system() {
            QueueSystem::Kueue => System::Kueue,
            QueueSystem::Volcano => System::Volcano,
            QueueSystem::Kai => System::Kai,
            QueueSystem::Stokehold => System::Stokehold,
            QueueSystem::None => System::None,
        },
        admits: true,
        weight_milli: queue.weight.map_or(1_000, |weight| {
            (weight.clamp(0.0, HEAVIEST) * 1000.0).round() as i64
        }),
        quotas: quotas(queue),
        preemption: Preemption {
            within: preemption.within,
            reclaim: preemption.reclaim,
            borrow: preemption.borrow,
            borrow_threshold: preemption.borrow_max_priority,
        },
        left_alone: LeftAlone {
            preempt_ms: queue.preemption.min_runtime_ms,
            reclaim_ms: queue.preemption.reclaim_min_runtime_ms,
        },
        orders_by_usage: orders_by_usage(queue),
        order: match queue.strategy {
            queue::Strategy::Strict => QueueingStrategy::Strict,
            queue::Strategy::BestEffort => QueueingStrategy::BestEffort,
        },
        stop: match queue.stop {
            queue::Stop::Drain => QueueStop::Drain,
            queue::Stop::Hold => QueueStop::Hold,
            _ if queue.is_stopped() => QueueStop::Inactive,
            queue::Stop::None => QueueStop::None,
        },
        fungibility: Fungibility {
            borrow_stops: !queue.next_before_borrow,
            preempt_stops: !queue.next_before_preempt,
            preference: match queue.preempts_before_borrowing {
                true => FlavorPreference::Preemption,
                false => FlavorPreference::Borrowing,
            },
        },
    }
}

/// Whether the past usage of LocalQueues decides who comes first. Within one LocalQueue priority does.
pub(super) fn orders_by_usage(queue: &Queue) -> bool {
    queue.orders_by_usage && queue.doors.len() != 1
}

/// An amount of a quota in the engine's unit of the resource.
fn amount(resource: &str, measure: Measure, amount: i64) -> i64 {
    let scaled = match (unit_is_milli(resource), measure.whole()) {
        (true, 1) => amount.saturating_mul(1000),
        (false, 1000) => amount / 1000,
        _ => amount,
    };
    scaled.clamp(0, UNBOUNDED)
}

fn quotas(queue: &Queue) -> Vec<SnapshotQuota> {
    let reported = queue
        .quotas
        .iter()
        .filter(|quota| !quota.resource.is_empty());
    // In Volcano a queue without its own quota uses what others leave, and gives it back when they need their own.
    let unwritten = match queue.system() {
        QueueSystem::Volcano => 0,
        _ => UNBOUNDED,
    };
    reported
        .map(|quota| {
            let amount = |reported: i64| amount(&quota.resource, quota.measure, reported);
            SnapshotQuota {
                flavor: match quota.flavor.is_empty() {
                    true => Name::new(ANY_FLAVOR),
                    false => quota.flavor.clone(),
                },
                resource: quota.resource.clone(),
                nominal: quota.nominal.map_or(unwritten, amount),
                borrow: quota.borrow_limit.map(amount),
                lend: quota.lend_limit.map(amount),
                cap: quota.cap.map(amount),
            }
        })
        .collect()
}

/// All flavors, plus the placeholder flavor if a quota needs it. A flavor that is named but not visible (deleted, or not
/// readable) is included without labels: its quota still counts.
pub(super) fn flavors(fleet: &Fleet, workloads: &[snapshot::Workload]) -> Vec<SnapshotFlavor> {
    let mut flavors: Vec<SnapshotFlavor> = fleet
        .flavors
        .iter()
        .filter(|flavor| !flavor.name.is_empty())
        .map(|flavor| SnapshotFlavor {
            name: flavor.name.clone(),
            labels: super::label_map(&flavor.node_labels),
            taints: flavor.taints.iter().filter_map(taint).collect(),
            tolerations: flavor.tolerations.iter().filter_map(toleration).collect(),
            topology: flavor.topology.clone().filter(|name| !name.is_empty()),
            billing: None,
            price: None,
        })
        .collect();
    let known: BTreeSet<Name> = flavors.iter().map(|flavor| flavor.name.clone()).collect();
    let any = Name::new(ANY_FLAVOR);
    let of_quotas = fleet.queues.iter().flat_map(|queue| queue.quotas.iter());
    let of_quotas = of_quotas.map(|quota| match quota.flavor.is_empty() {
        true => &any,
        false => &quota.flavor,
    });
    let sets = workloads.iter().flat_map(|work| &work.sets);
    let of_works = sets.flat_map(|set| set.admitted.values());
    let named: BTreeSet<&Name> = of_quotas.chain(of_works).collect();
    let unseen = named.into_iter().filter(|name| !known.contains(*name));
    let classes = classes(fleet);
    flavors.extend(unseen.map(|name| SnapshotFlavor {
        name: name.clone(),
        labels: match classes.contains(name) {
            true => BTreeMap::from([(Name::new(CLASS), class_word(name))]),
            false => BTreeMap::new(),
        },
        ..SnapshotFlavor::default()
    }));
    flavors
}

/// The value of [`CLASS`] for a device class: users write `h100` for `H100`.
pub(super) fn class_word(class: &Name) -> Name {
    Name::from(class.to_ascii_lowercase())
}

/// Flavors of `govern` queues, which are device classes: [`CLASS`] distinguishes the nodes.
pub(super) fn classes(fleet: &Fleet) -> BTreeSet<&Name> {
    let ours = fleet
        .queues
        .iter()
        .filter(|queue| queue.system() == QueueSystem::Stokehold);
    ours.flat_map(|queue| queue.quotas.iter())
        .map(|quota| &quota.flavor)
        .collect()
}
