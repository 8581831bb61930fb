//! The tree of an object: its parts and what it runs on, from the queue and the pool to each device, on one screen.

use rustc_hash::FxHashMap;

use model::base::{Name, ObjectKey, SmallSort, natural};
use model::cost::SpendScope;
use model::fleet::device::Device;
use model::fleet::job::{Job, JobState};
use model::fleet::node::Node;
use model::fleet::pool::Pool;
use model::fleet::queue::{Queue, QueueKind};
use table::Facts;
use table::cell::{Cell, Value};
use table::column::{Column, KindSpec, Row};
use table::navigation::{RowScope, Selection, ViewId};
use table::role::Role;
use table::rows::queue_tree::QueueOrder;

use super::subject;

/// Cells that a level is set in.
const STEP: usize = 2;

/// The table of a tree. A row is a packed `TreeItem` and depth; the item's own table has everything else.
pub static KIND: KindSpec = KindSpec {
    columns: &[
        Column::words("object", "OBJECT", 0, (30, 72), object).sign(|facts, row| {
            let (kind, own) = table_of(row);
            let sign = kind.columns.iter().find_map(|column| column.sign);
            sign.map_or((" ", Role::Muted), |sign| sign(facts, own))
        }),
        Column::words("kind", "KIND", 4, (6, 14), |facts, row| {
            let words = match item(row) {
                TreeItem::Queue(at) => facts
                    .fleet
                    .queues
                    .get(at)
                    .map(|queue| queue.key.kind.name()),
                TreeItem::Job(at) => facts.fleet.jobs.get(at).map(|job| job.id.kind.as_str()),
                TreeItem::Pod(..) => Some("Pod"),
                TreeItem::Node(_) => Some("Node"),
                TreeItem::Device(..) => Some("device"),
                TreeItem::Pool(_) => Some("pool"),
            };
            Cell::new(Value::known(words, Value::text)).role(Role::Muted)
        }),
        Column::words("state", "STATE", 1, (8, 26), |facts, row| {
            its(facts, row, |of| match of {
                TreeItem::Job(_) | TreeItem::Node(_) => "state",
                TreeItem::Pod(..) => "phase",
                TreeItem::Device(..) => "health",
                TreeItem::Queue(_) => "stopped",
                TreeItem::Pool(_) => "",
            })
        }),
        Column::number("devices", "DEVICES", 0, 8, |facts, row| {
            if let TreeItem::Pool(at) = item(row) {
                let counts = facts.pools().get(at).map(Pool::counts).unwrap_or_default();
                let known = counts.allocated.zip(counts.total);
                return Cell::new(Value::known(known, |(held, all)| {
                    Value::Devices(held, Some(all))
                }));
            }
            its(facts, row, |of| match of {
                TreeItem::Job(_) | TreeItem::Pod(..) | TreeItem::Node(_) => "devices",
                TreeItem::Device(..) => "slices",
                TreeItem::Pool(_) | TreeItem::Queue(_) => "",
            })
        }),
        Column::words("class", "CLASS", 5, (4, 14), |facts, row| match item(row) {
            TreeItem::Device(node, at) => {
                let device = facts
                    .fleet
                    .nodes
                    .get(node)
                    .and_then(|node| node.devices.get(at));
                Cell::new(Value::known(device, |device| {
                    Value::text(device.class.as_str())
                }))
            }
            _ => its(facts, row, |of| match of {
                TreeItem::Job(_) | TreeItem::Node(_) | TreeItem::Pool(_) => "class",
                _ => "",
            }),
        }),
        Column::number("util", "UTIL", 2, 5, |facts, row| {
            let cell = its(facts, row, |of| match of {
                TreeItem::Queue(_) | TreeItem::Pod(..) => "",
                _ => "util",
            });
            // Every row shows a number: pools and devices have bars in their own views.
            match cell.value {
                Value::Trend(_, now) => Cell {
                    value: Value::known(now, Value::Ratio),
                    ..cell
                },
                _ => cell,
            }
        }),
        Column::number("temp", "T MAX", 6, 5, |facts, row| {
            its(facts, row, |of| match of {
                TreeItem::Node(_) | TreeItem::Device(..) | TreeItem::Pool(_) => "temp",
                _ => "",
            })
        }),
        Column::number("since", "WAIT/RUN", 4, 6, |facts, row| {
            its(facts, row, |of| match of {
                TreeItem::Job(_) => "wait-run",
                TreeItem::Pod(..) => "age",
                TreeItem::Device(..) => "held",
                _ => "",
            })
        }),
        Column::number("burn", "$/h", 3, 6, |facts, row| {
            its(facts, row, |of| match of {
                TreeItem::Device(..) => "cost",
                _ => "burn",
            })
        }),
        Column::words("why", "REASON OR PLACE", 7, (20, 60), |facts, row| {
            its(facts, row, |of| match of {
                TreeItem::Job(_) => "place",
                TreeItem::Node(_) => "why",
                _ => "",
            })
        })
        .rare(),
    ],
    collect,
    id: |facts, row| {
        let (kind, own) = table_of(row);
        table::column::id_of((depth(row), item(row).code(), (kind.id)(facts, own)))
    },
    label: |facts, row, key| {
        let (kind, own) = table_of(row);
        (kind.label)(facts, own, key)
    },
    selection: |facts, row| {
        let (kind, own) = table_of(row);
        (kind.selection)(facts, own)
    },
    open: |facts, row| {
        let (kind, own) = table_of(row);
        (kind.open)(facts, own)
    },
    faulty: |facts, row| {
        let (kind, own) = table_of(row);
        (kind.faulty)(facts, own)
    },
    worst: None,
    last: |_, _| false,
    searched: None,
    sort: None,
    none: "the object was deleted, or is unknown",
};

/// The object of one line, by its index in the facts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum TreeItem {
    Queue(usize),
    Job(usize),
    /// By its job, and its place among that job's pods.
    Pod(usize, usize),
    Node(usize),
    /// By its node, and its place among that node's devices.
    Device(usize, usize),
    Pool(usize),
}

impl TreeItem {
    const fn code(self) -> u32 {
        match self {
            Self::Queue(_) => 0,
            Self::Job(_) => 1,
            Self::Pod(..) => 2,
            Self::Node(_) => 3,
            Self::Device(..) => 4,
            Self::Pool(_) => 5,
        }
    }

    const fn places(self) -> (usize, usize) {
        match self {
            Self::Queue(at) | Self::Job(at) | Self::Node(at) | Self::Pool(at) => (at, 0),
            Self::Pod(at, within) | Self::Device(at, within) => (at, within),
        }
    }
}

/// Bits of a place in a row's first half; above them three of its kind, one that is set when lines below belong to it, and its depth.
const PLACE: u32 = 24;

fn row_of(depth: usize, parent: bool, item: TreeItem) -> Row {
    let (at, within) = item.places();
    let place = at as u32 & ((1 << PLACE) - 1);
    let above = (depth.min(15) as u32) << 28 | u32::from(parent) << 27 | item.code() << PLACE;
    (above | place, within as u32)
}

const fn item(row: Row) -> TreeItem {
    let at = (row.0 & ((1 << PLACE) - 1)) as usize;
    let within = row.1 as usize;
    match row.0 >> PLACE & 7 {
        0 => TreeItem::Queue(at),
        1 => TreeItem::Job(at),
        2 => TreeItem::Pod(at, within),
        3 => TreeItem::Node(at),
        4 => TreeItem::Device(at, within),
        _ => TreeItem::Pool(at),
    }
}

const fn depth(row: Row) -> usize {
    (row.0 >> 28) as usize
}

/// The table that a line's object has a row in, and that row.
fn table_of(row: Row) -> (&'static KindSpec, Row) {
    let item = item(row);
    let (at, within) = item.places();
    let own = (at as u32, within as u32);
    match item {
        // Rows of queues and jobs begin with their sort key.
        TreeItem::Queue(at) => (&table::kinds::queues::KIND, (0, at as u32)),
        TreeItem::Job(at) => (&table::kinds::jobs::KIND, (0, at as u32)),
        TreeItem::Pod(..) => (&table::kinds::pods::KIND, own),
        TreeItem::Node(_) => (&table::kinds::nodes::KIND, own),
        TreeItem::Device(..) => (&table::kinds::devices::KIND, own),
        TreeItem::Pool(_) => (&table::kinds::pools::KIND, own),
    }
}

/// The cell of the object's own table for the column with this id; empty where that table has no such column.
fn its<'a>(facts: &'a Facts, row: Row, column: impl FnOnce(TreeItem) -> &'static str) -> Cell<'a> {
    let id = column(item(row));
    let (kind, own) = table_of(row);
    match kind.columns.iter().find(|column| column.id == id) {
        Some(column) => (column.cell)(facts, own),
        None => Cell::new(Value::Empty),
    }
}

fn object(facts: &Facts, row: Row) -> Cell<'_> {
    let (kind, own) = table_of(row);
    let name = match (kind.selection)(facts, own) {
        // In a tree, the namespace and the node are on the lines above.
        Some(Selection::Pod(key)) if depth(row) > 0 => key.name.to_string(),
        Some(selection) => selection.title(facts),
        None => String::from("–"),
    };
    let branch = match (row.0 >> 27 & 1, depth(row)) {
        (1, _) => "▾ ",
        (_, 0) => "",
        _ => "· ",
    };
    let words = format!("{}{branch}{name}", " ".repeat(STEP * depth(row)));
    Cell::text(words).role(Role::Title)
}

/// The tab and the root of an object's tree; `None` for an object without a tree.
pub fn tab(facts: &Facts, selection: &Selection) -> Option<(ViewId, Selection)> {
    let selection = match selection {
        Selection::Finding(id) => subject::behind(facts, id)?,
        Selection::Cost(SpendScope::Pool, name) => Selection::Pool(name.clone()),
        Selection::Cost(SpendScope::Queue, name) => Selection::Queue(name.clone()),
        Selection::Cost(SpendScope::Job, name) => {
            Selection::Job(facts.fleet.job_named(name)?.id.clone())
        }
        other => other.clone(),
    };
    let tab = match &selection {
        Selection::Pool(_) => ViewId::Pools,
        Selection::Node(_) | Selection::Device(..) => ViewId::Nodes,
        Selection::Job(_) | Selection::Pod(_) => ViewId::Jobs,
        Selection::Queue(_) | Selection::Cohort(_) => ViewId::Queues,
        Selection::Finding(_) | Selection::Source(_) | Selection::Run(_) | Selection::Cost(..) => {
            return None;
        }
    };
    Some((tab, selection))
}

fn collect(facts: &Facts, row_scope: &RowScope) -> Vec<Row> {
    let RowScope::Tree(of) = row_scope else {
        return Vec::new();
    };
    let mut lines = TreeLines {
        facts,
        pods: FxHashMap::default(),
        all: Vec::new(),
    };
    lines.grow(of);
    let all = &lines.all;
    let parent = |at: usize| all.get(at + 1).is_some_and(|(deep, _)| *deep > all[at].0);
    let rows = all.iter().enumerate();
    rows.map(|(at, (depth, item))| row_of(*depth, parent(at), *item))
        .collect()
}

/// The lines of a tree as they are found, each with its depth.
struct TreeLines<'a> {
    facts: &'a Facts,
    /// Indexes of each pod's job and of the pod within it; filled on first use.
    pods: FxHashMap<&'a ObjectKey, (usize, usize)>,
    all: Vec<(usize, TreeItem)>,
}

impl<'a> TreeLines<'a> {
    fn add(&mut self, depth: usize, item: TreeItem) {
        self.all.push((depth, item));
    }

    fn grow(&mut self, of: &Selection) {
        let fleet = &self.facts.fleet;
        match of {
            Selection::Job(id) => {
                if let Some(at) = fleet.jobs.iter().position(|job| job.id == *id) {
                    self.job(at);
                }
            }
            Selection::Pod(key) => {
                if let Some((job, at)) = self.pod_at(key) {
                    self.add(0, TreeItem::Pod(job, at));
                    self.add(1, TreeItem::Job(job));
                    self.places_of(1, job, at);
                }
            }
            Selection::Node(name) => {
                if let Some(at) = self.node_at(name) {
                    self.node(at);
                }
            }
            Selection::Device(name, index) => {
                if let Some(at) = self.node_at(name)
                    && let Some(within) = device_at(&fleet.nodes[at], *index)
                {
                    self.device(at, within);
                }
            }
            Selection::Pool(name) => self.pool(name),
            Selection::Queue(name) => self.queue(name, QueueKind::Queue),
            Selection::Cohort(name) => self.queue(name, QueueKind::Cohort),
            Selection::Finding(_)
            | Selection::Source(_)
            | Selection::Run(_)
            | Selection::Cost(..) => {}
        }
    }

    fn node_at(&self, name: &str) -> Option<usize> {
        let nodes = &self.facts.fleet.nodes;
        nodes
            .binary_search_by(|node| node.name().as_str().cmp(name))
            .ok()
    }

    fn pod_at(&mut self, key: &ObjectKey) -> Option<(usize, usize)> {
        if self.pods.is_empty() {
            for (job, of) in self.facts.fleet.jobs.iter().enumerate() {
                let all = of.pods.iter().enumerate();
                self.pods
                    .extend(all.map(|(at, pod)| (pod.key(), (job, at))));
            }
        }
        self.pods.get(key).copied()
    }

    fn pool_line(&mut self, depth: usize, name: &Name) {
        let pools = &self.facts.fleet.pools;
        if let Some(at) = pools.iter().position(|pool| pool.name == *name) {
            self.add(depth, TreeItem::Pool(at));
        }
    }

    /// A job: its queue and pools, then its pods with their nodes and devices.
    fn job(&mut self, at: usize) {
        let job = &self.facts.fleet.jobs[at];
        self.add(0, TreeItem::Job(at));
        let queues = &self.facts.fleet.queues;
        // A cohort may have the same name.
        let own = |name: &Name| {
            let named = |queue: &Queue| queue.name() == name && queue.key.kind == QueueKind::Queue;
            queues.iter().position(|queue| named(queue))
        };
        if let Some(queue) = job.queue.as_ref().and_then(own) {
            self.add(1, TreeItem::Queue(queue));
        }
        for name in &job.pools {
            self.pool_line(1, name);
        }
        for within in 0..job.pods.len() {
            self.add(1, TreeItem::Pod(at, within));
            self.places_of(2, at, within);
        }
    }

    /// The node of a pod, and the devices there that are allocated to the pod.
    fn places_of(&mut self, depth: usize, job: usize, within: usize) {
        let pod = &self.facts.fleet.jobs[job].pods[within];
        let Some(at) = pod.seen.node.as_ref().and_then(|node| self.node_at(node)) else {
            return;
        };
        self.add(depth, TreeItem::Node(at));
        let devices = self.facts.fleet.nodes[at].devices.iter().enumerate();
        let held = devices.filter(|(_, device)| is_allocated_to(device, pod.key()));
        let held: Vec<usize> = held.map(|(place, _)| place).collect();
        for place in held {
            self.add(depth + 1, TreeItem::Device(at, place));
        }
    }

    /// A node: its pool, its jobs with their pods and devices, then the unallocated devices.
    fn node(&mut self, at: usize) {
        let node = &self.facts.fleet.nodes[at];
        self.add(0, TreeItem::Node(at));
        self.pool_line(1, &node.pool);
        let mut last = None;
        for (job, within) in self.pods_on(node) {
            if last != Some(job) {
                self.add(1, TreeItem::Job(job));
                last = Some(job);
            }
            self.add(2, TreeItem::Pod(job, within));
            let key = self.facts.fleet.jobs[job].pods[within].key();
            for (place, device) in node.devices.iter().enumerate() {
                if is_allocated_to(device, key) {
                    self.add(3, TreeItem::Device(at, place));
                }
            }
        }
        for (place, device) in node.devices.iter().enumerate() {
            if !device.is_allocated() {
                self.add(1, TreeItem::Device(at, place));
            }
        }
    }

    /// The pods on a node with allocated devices, grouped by job in order of job name.
    fn pods_on(&mut self, node: &Node) -> Vec<(usize, usize)> {
        let mut all: Vec<(usize, usize)> = Vec::new();
        for pod in &node.pods {
            all.extend(self.pod_at(pod.key()));
        }
        let jobs = &self.facts.fleet.jobs;
        let key = |(job, at): &(usize, usize)| (&jobs[*job].id.key, jobs[*job].pods[*at].key());
        all.small_sort_by(|a, b| {
            let ((job, pod), (other, another)) = (key(a), key(b));
            (job.namespace.cmp(&other.namespace))
                .then_with(|| natural(&job.name, &other.name))
                .then(a.0.cmp(&b.0))
                .then_with(|| natural(&pod.name, &another.name))
        });
        all
    }

    /// A device: its node and pool, then the pods that it is allocated to, with their jobs.
    fn device(&mut self, at: usize, within: usize) {
        let node = &self.facts.fleet.nodes[at];
        self.add(0, TreeItem::Device(at, within));
        self.add(1, TreeItem::Node(at));
        self.pool_line(2, &node.pool);
        for (job, place) in self.pods_on(node) {
            let key = self.facts.fleet.jobs[job].pods[place].key();
            if is_allocated_to(&node.devices[within], key) {
                self.add(1, TreeItem::Pod(job, place));
                self.add(2, TreeItem::Job(job));
            }
        }
    }

    /// A pool: its nodes, each with the jobs on it.
    fn pool(&mut self, name: &Name) {
        self.pool_line(0, name);
        let nodes = self.facts.fleet.nodes.iter().enumerate();
        let mut members: Vec<usize> = nodes
            .filter(|(_, node)| node.pool == *name)
            .map(|(at, _)| at)
            .collect();
        let nodes = &self.facts.fleet.nodes;
        members.small_sort_by(|a, b| natural(nodes[*a].name(), nodes[*b].name()));
        for at in members {
            self.add(1, TreeItem::Node(at));
            let mut jobs: Vec<usize> = self.pods_on(&nodes[at]).iter().map(|pod| pod.0).collect();
            jobs.dedup();
            for job in jobs {
                self.add(2, TreeItem::Job(job));
            }
        }
    }

    /// A queue: the queues below it, each with its jobs, those that wait first.
    fn queue(&mut self, name: &Name, kind: QueueKind) {
        let queues = &self.facts.fleet.queues;
        let tree = QueueOrder::of(queues);
        let Some(root) = queues
            .iter()
            .position(|queue| queue.name() == name && queue.key.kind == kind)
        else {
            // Only jobs name it.
            return self.jobs_of(0, name);
        };
        let base = tree.depth(root);
        for at in std::iter::once(root).chain(tree.below(root)) {
            let depth = tree.depth(at).saturating_sub(base);
            self.add(depth, TreeItem::Queue(at));
            if queues[at].key.kind == QueueKind::Queue {
                self.jobs_of(depth + 1, queues[at].name());
            }
        }
    }

    fn jobs_of(&mut self, depth: usize, queue: &Name) {
        let jobs = self.facts.fleet.jobs.iter().enumerate();
        let of = |job: &Job| {
            job.queue.as_ref() == Some(queue)
                && !matches!(job.state, JobState::Done | JobState::Failed)
        };
        let mut all: Vec<(bool, usize)> = jobs
            .filter(|(_, job)| of(job))
            .map(|(at, job)| (job.state != JobState::Waiting, at))
            .collect();
        all.small_sort();
        for (_, at) in all {
            self.add(depth, TreeItem::Job(at));
        }
    }
}

/// True when the device, or one of its slices, is allocated to the pod.
fn is_allocated_to(device: &Device, pod: &ObjectKey) -> bool {
    device.holders().any(|(holder, _)| holder.key() == pod)
}

/// The place of a device of this index among its node's.
fn device_at(node: &Node, index: u32) -> Option<usize> {
    node.devices.iter().position(|device| device.index == index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_what_it_was_made_of() {
        let all = [
            TreeItem::Queue(3),
            TreeItem::Job(16_000_000),
            TreeItem::Pod(7, 70_000),
            TreeItem::Node(0),
            TreeItem::Device(4_999, 1_023),
            TreeItem::Pool(12),
        ];
        for (deep, parent) in [(0, false), (3, true), (15, true)] {
            for one in all {
                let row = row_of(deep, parent, one);
                assert_eq!((item(row), depth(row)), (one, deep));
            }
        }
    }
}
