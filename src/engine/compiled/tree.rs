//! Quotas in the queue tree, as Kueue computes them: a subtree's quota, its guaranteed part, and its potential.

use std::collections::{BTreeMap, BTreeSet};

use crate::snapshot::{PLENTY, Snapshot, SnapshotQueue, SnapshotQuota, System};
use model::base::Name;

use super::{FlavorId, PairId, QueueId};

/// Resources that share a list of flavors: a pod set gets one flavor for the whole group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResourceGroup {
    pub resources: Vec<Name>,
    /// Flavors, in the order in which they are tried.
    pub flavors: Vec<FlavorId>,
}

/// The quotas of one queue for one flavor and resource.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Quotas {
    pub nominal: i64,
    /// Borrowing limit; none: no limit.
    pub borrow: Option<i64>,
    /// Lending limit; none: no limit.
    pub lend: Option<i64>,
    /// Hard cap; none: no limit.
    pub cap: Option<i64>,
    /// Nominal quota plus what descendants lend.
    pub subtree: i64,
    /// The part that it never lends.
    pub guaranteed: i64,
    /// Upper bound of its usage: the usage that an empty tree would allow.
    pub potential: i64,
}

/// A queue in the tree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Branch {
    pub name: Name,
    pub parent: Option<QueueId>,
    pub children: Vec<QueueId>,
    /// Root of its tree.
    pub root: QueueId,
    /// Levels below it: 0 for a leaf.
    pub height: usize,
    /// Index of its first quota in [`QuotaTree::quotas`] and of its first usage in the state.
    pub base: usize,
    /// Its flavors by resource; empty: no limits.
    pub groups: Vec<ResourceGroup>,
    /// Whether it rejects resources without a quota.
    pub covers_all: bool,
    /// Whether it is known by name only.
    pub nameless: bool,
}

/// Resources of pods that Kueue admitted without a flavor for them.
fn passed_over(snapshot: &Snapshot) -> BTreeSet<Name> {
    let kueue = |name: &Name| {
        let queue = snapshot.queues.iter().find(|queue| queue.name == *name);
        queue.is_some_and(|queue| queue.system == System::Kueue)
    };
    let quota_reserved = snapshot
        .workloads
        .iter()
        .filter(|work| work.queue.as_ref().is_some_and(kueue))
        .flat_map(|work| &work.sets)
        .filter(|set| !set.admitted.is_empty());
    let mut out = BTreeSet::new();
    for set in quota_reserved {
        for (name, amount) in [
            ("cpu", set.requests.cpu_milli),
            ("memory", set.requests.memory_bytes),
        ] {
            if amount > 0 && !set.admitted.contains_key(name) {
                out.insert(Name::from(name));
            }
        }
    }
    out
}

/// The tree, with quotas in dense order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct QuotaTree {
    /// Queues: first those of the snapshot, then queues that only workloads name, last the queue of workloads without one.
    pub branches: Vec<Branch>,
    /// Per root: its flavors and resources, in order.
    pub pairs: BTreeMap<QueueId, Vec<(FlavorId, Name)>>,
    /// Quotas: of a queue and pair at [`Branch::base`] + pair.
    pub quotas: Vec<Quotas>,
    /// Resources that Kueue does not count: some workload that requests them was admitted without a flavor for them, so Kueue's
    /// configuration excludes them, which no API object shows.
    pub passed_over: BTreeSet<Name>,
    by_name: BTreeMap<Name, QueueId>,
}

impl QuotaTree {
    pub(super) fn new(snapshot: &Snapshot) -> Self {
        let mut tree = Self::default();
        for (id, queue) in snapshot.queues.iter().enumerate() {
            tree.by_name.insert(queue.name.clone(), id);
        }
        let flavors: BTreeMap<&Name, FlavorId> = snapshot
            .flavors
            .iter()
            .enumerate()
            .map(|(at, flavor)| (&flavor.name, at))
            .collect();
        for queue in &snapshot.queues {
            let parent = queue.parent.as_ref();
            tree.branches.push(Branch {
                name: queue.name.clone(),
                parent: parent.and_then(|name| tree.by_name.get(name).copied()),
                children: Vec::new(),
                root: 0,
                height: 0,
                base: 0,
                groups: Vec::new(),
                covers_all: queue.system == System::Kueue,
                nameless: false,
            });
        }
        tree.passed_over = passed_over(snapshot);
        tree.cut_rings();
        tree.add_names(snapshot);
        for id in 0..tree.branches.len() {
            let root = tree.path(id).last().unwrap_or(id);
            tree.branches[id].root = root;
            if let Some(parent) = tree.branches[id].parent {
                tree.branches[parent].children.push(id);
            }
            let path: Vec<QueueId> = tree.path(id).collect();
            for (steps, up) in path.into_iter().enumerate() {
                tree.branches[up].height = tree.branches[up].height.max(steps);
            }
        }
        tree.lay_out(&snapshot.queues, &flavors);
        for root in tree.roots() {
            tree.settle(root);
        }
        tree
    }

    /// Turns a queue that is its own ancestor into a root.
    fn cut_rings(&mut self) {
        for start in 0..self.branches.len() {
            let mut seen = BTreeSet::from([start]);
            let mut now = start;
            while let Some(parent) = self.branches[now].parent {
                if !seen.insert(parent) {
                    self.branches[now].parent = None;
                    break;
                }
                now = parent;
            }
        }
    }

    /// Adds queues that are known by name only: every such queue if the snapshot has none, and always the queue of workloads without one.
    fn add_names(&mut self, snapshot: &Snapshot) {
        let mut names = BTreeSet::from([Name::default()]);
        if snapshot.queues.is_empty() {
            names.extend(
                snapshot
                    .workloads
                    .iter()
                    .filter_map(|work| work.queue.clone()),
            );
        }
        for name in names {
            if !self.by_name.contains_key(&name) {
                self.by_name.insert(name.clone(), self.branches.len());
                self.branches.push(Branch {
                    name,
                    parent: None,
                    children: Vec::new(),
                    root: 0,
                    height: 0,
                    base: 0,
                    groups: Vec::new(),
                    covers_all: false,
                    nameless: true,
                });
            }
        }
    }

    fn lay_out(&mut self, queues: &[SnapshotQueue], flavors: &BTreeMap<&Name, FlavorId>) {
        let mut pairs: BTreeMap<QueueId, BTreeSet<(FlavorId, Name)>> = BTreeMap::new();
        let known = |quota: &SnapshotQuota| flavors.get(&quota.flavor).copied();
        for (id, queue) in queues.iter().enumerate() {
            let of_root = pairs.entry(self.branches[id].root).or_default();
            for quota in &queue.quotas {
                if let Some(flavor) = known(quota) {
                    of_root.insert((flavor, quota.resource.clone()));
                }
            }
        }
        self.pairs = pairs
            .into_iter()
            .map(|(root, pairs)| (root, pairs.into_iter().collect()))
            .collect();
        for id in 0..self.branches.len() {
            self.branches[id].base = self.quotas.len();
            let width = self.width(id);
            self.quotas
                .extend(std::iter::repeat_n(Quotas::default(), width));
            let Some(queue) = queues.get(id) else {
                continue;
            };
            for quota in &queue.quotas {
                let pair = known(quota).and_then(|flavor| self.pair(id, flavor, &quota.resource));
                if let Some(pair) = pair {
                    let at = self.branches[id].base + pair;
                    self.quotas[at] = Quotas {
                        nominal: quota.nominal.clamp(0, PLENTY),
                        borrow: quota.borrow,
                        lend: quota.lend,
                        cap: quota.cap,
                        ..Quotas::default()
                    };
                }
            }
            self.branches[id].groups = groups(&queue.quotas, known);
        }
        // A queue without its own quotas uses its parent's flavors; in Kueue it admits nothing.
        for id in 0..queues.len() {
            if self.branches[id].groups.is_empty() && !self.branches[id].covers_all {
                let above = self
                    .path(id)
                    .find(|&up| !self.branches[up].groups.is_empty());
                if let Some(above) = above {
                    self.branches[id].groups = self.branches[above].groups.clone();
                }
            }
        }
    }

    /// The queue with this name; `""` for workloads without a queue.
    pub fn queue(&self, name: &str) -> Option<QueueId> {
        self.by_name.get(name).copied()
    }

    /// A queue and its ancestors, up to the root.
    pub fn path(&self, queue: QueueId) -> impl Iterator<Item = QueueId> + '_ {
        std::iter::successors(Some(queue), |&at| self.branches[at].parent)
    }

    pub fn roots(&self) -> Vec<QueueId> {
        let all = 0..self.branches.len();
        all.filter(|&id| self.branches[id].parent.is_none())
            .collect()
    }

    /// Number of pairs in the tree of a queue.
    pub fn width(&self, queue: QueueId) -> usize {
        let root = self.branches[queue].root;
        self.pairs.get(&root).map_or(0, Vec::len)
    }

    /// Pairs of flavor and resource in the tree of a queue.
    pub fn pairs_of(&self, queue: QueueId) -> &[(FlavorId, Name)] {
        let root = self.branches[queue].root;
        self.pairs.get(&root).map_or(&[], Vec::as_slice)
    }

    /// The pair of a flavor and resource in a queue's tree.
    pub fn pair(&self, queue: QueueId, flavor: FlavorId, resource: &str) -> Option<PairId> {
        let pairs = self.pairs_of(queue);
        let order = |pair: &(FlavorId, Name)| (pair.0, &*pair.1).cmp(&(flavor, resource));
        pairs.binary_search_by(order).ok()
    }

    pub fn quota(&self, queue: QueueId, pair: PairId) -> &Quotas {
        &self.quotas[self.branches[queue].base + pair]
    }

    /// The same tree with other quotas for a queue and pair; only configured fields of `quotas` are used, not derived ones.
    #[must_use]
    pub fn with(&self, queue: QueueId, pair: PairId, quotas: Quotas) -> Self {
        let mut tree = self.clone();
        let at = tree.branches[queue].base + pair;
        tree.quotas[at] = quotas;
        tree.settle(tree.branches[queue].root);
        tree
    }

    /// Computes subtree, guaranteed and potential below a root.
    fn settle(&mut self, root: QueueId) {
        let mut order = vec![root];
        let mut next = 0;
        while let Some(&queue) = order.get(next) {
            order.extend(self.branches[queue].children.iter().copied());
            next += 1;
        }
        for pair in 0..self.width(root) {
            for &queue in order.iter().rev() {
                let lent = |&child: &QueueId| {
                    let quotas = self.quota(child, pair);
                    quotas.subtree - quotas.guaranteed
                };
                let below: i64 = self.branches[queue].children.iter().map(lent).sum();
                let at = self.branches[queue].base + pair;
                let quotas = &mut self.quotas[at];
                quotas.subtree = quotas.nominal.saturating_add(below).min(PLENTY);
                quotas.guaranteed = quotas.lend.map_or(0, |lend| (quotas.subtree - lend).max(0));
            }
            for &queue in &order {
                let above = self.branches[queue].parent;
                let above = above.map(|parent| self.quota(parent, pair).potential);
                let at = self.branches[queue].base + pair;
                let quotas = &mut self.quotas[at];
                quotas.potential = match above {
                    None => quotas.subtree,
                    Some(above) => {
                        let most = quotas
                            .borrow
                            .map_or(i64::MAX, |borrow| quotas.subtree.saturating_add(borrow));
                        quotas.guaranteed.saturating_add(above).min(most)
                    }
                };
                quotas.potential = quotas.potential.min(quotas.cap.unwrap_or(i64::MAX));
            }
        }
    }
}

/// Resource groups of a list of quotas: resources with a common flavor share a group.
fn groups(
    quotas: &[SnapshotQuota],
    known: impl Fn(&SnapshotQuota) -> Option<FlavorId>,
) -> Vec<ResourceGroup> {
    let mut groups: Vec<ResourceGroup> = Vec::new();
    for quota in quotas {
        let Some(flavor) = known(quota) else {
            continue;
        };
        let touches = |group: &ResourceGroup| {
            group.flavors.contains(&flavor) || group.resources.contains(&quota.resource)
        };
        let (mut mine, others): (Vec<ResourceGroup>, Vec<ResourceGroup>) =
            groups.into_iter().partition(touches);
        groups = others;
        let mut group = mine.drain(..).reduce(|mut first, other| {
            first.flavors.extend(other.flavors);
            first.resources.extend(other.resources);
            first
        });
        let group = group.get_or_insert_with(|| ResourceGroup {
            resources: Vec::new(),
            flavors: Vec::new(),
        });
        if !group.flavors.contains(&flavor) {
            group.flavors.push(flavor);
        }
        if !group.resources.contains(&quota.resource) {
            group.resources.push(quota.resource.clone());
        }
        groups.push(group.clone());
    }
    for group in &mut groups {
        group.resources.sort();
    }
    groups.sort_by(|a, b| a.resources.cmp(&b.resources));
    groups
}
