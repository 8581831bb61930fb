//! The tree of queues, in any input order, with cycles and orphans handled.

use std::collections::BTreeSet;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use model::base::Name;
use model::fleet::queue::{Queue, QueueKey, QueueKind};

/// Indentation stops at this depth.
const DEEPEST: usize = 8;

/// The display order of queues, with their depths.
pub struct QueueOrder {
    /// Queue index and depth; parents before their children.
    pub order: Vec<(usize, usize)>,
}

/// The names of the queues below a cohort.
pub fn members(queues: &[Arc<Queue>], cohort: &Name) -> BTreeSet<Name> {
    let tree = QueueOrder::of(queues);
    let is_meant = |queue: &Queue| queue.key.kind == QueueKind::Cohort && queue.name() == cohort;
    let at = queues.iter().position(|queue| is_meant(queue));
    let below = at.into_iter().flat_map(|at| tree.below(at));
    below
        .map(|at| &queues[at])
        .filter(|queue| queue.key.kind == QueueKind::Queue)
        .map(|queue| queue.name().clone())
        .collect()
}

impl QueueOrder {
    /// Builds the tree. A queue without an existing parent, or below itself, is a root.
    pub fn of(queues: &[Arc<Queue>]) -> Self {
        let places: FxHashMap<&QueueKey, usize> = queues
            .iter()
            .enumerate()
            .map(|(at, queue)| (&queue.key, at))
            .collect();
        let mut children: Vec<Vec<usize>> = vec![Vec::new(); queues.len()];
        let mut roots = Vec::new();
        for (at, queue) in queues.iter().enumerate() {
            let parent = queue.parent_key();
            match parent.and_then(|key| places.get(&key).copied()) {
                Some(parent) if parent != at => children[parent].push(at),
                _ => roots.push(at),
            }
        }
        let mut order = Vec::with_capacity(queues.len());
        let mut seen = vec![false; queues.len()];
        let all = 0..queues.len();
        // Queues that no root reaches form a cycle: they are shown too.
        for start in roots.into_iter().chain(all) {
            let mut stack = vec![(start, 0)];
            while let Some((at, depth)) = stack.pop() {
                if std::mem::replace(&mut seen[at], true) {
                    continue;
                }
                order.push((at, depth));
                let next = (depth + 1).min(DEEPEST);
                stack.extend(children[at].iter().rev().map(|child| (*child, next)));
            }
        }
        Self { order }
    }

    fn place(&self, queue: usize) -> Option<usize> {
        self.order.iter().position(|(at, _)| *at == queue)
    }

    /// Depth of a queue; roots have 0.
    pub fn depth(&self, queue: usize) -> usize {
        self.place(queue).map_or(0, |at| self.order[at].1)
    }

    /// The root above a queue; the queue itself where it is a root.
    pub fn root(&self, queue: usize) -> usize {
        let to = self.place(queue).map_or(0, |at| at + 1);
        let roots = self.order[..to]
            .iter()
            .rev()
            .filter(|(_, depth)| *depth == 0);
        roots.map(|(root, _)| *root).next().unwrap_or(queue)
    }

    pub fn has_children(&self, queue: usize) -> bool {
        self.below(queue).next().is_some()
    }

    /// All descendants of a queue.
    pub fn below(&self, queue: usize) -> impl Iterator<Item = usize> + '_ {
        let at = self.place(queue);
        let depth = self.depth(queue);
        at.into_iter().flat_map(move |at| {
            self.order[at + 1..]
                .iter()
                .take_while(move |(_, deep)| *deep > depth)
                .map(|(queue, _)| *queue)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::fleet::queue::QueueSystem;

    fn queue(kind: QueueKind, name: &str, parent: Option<&str>) -> Arc<Queue> {
        Arc::new(Queue {
            key: QueueKey {
                system: QueueSystem::Kueue,
                kind,
                name: Name::new(name),
            },
            parent: parent.map(Name::new),
            ..Queue::default()
        })
    }

    #[test]
    fn parents_come_before_children_and_no_queue_is_dropped() {
        use QueueKind::{Cohort, Queue};
        let queues = [
            queue(Queue, "nlp", Some("research")),
            queue(Cohort, "research", Some("all")),
            queue(Cohort, "all", None),
            queue(Queue, "lonely", Some("gone")),
            queue(Cohort, "a", Some("b")),
            queue(Cohort, "b", Some("a")),
        ];
        let tree = QueueOrder::of(&queues);
        let names: Vec<(&str, usize)> = tree
            .order
            .iter()
            .map(|(at, depth)| (queues[*at].name().as_str(), *depth))
            .collect();
        assert_eq!(
            names,
            [
                ("all", 0),
                ("research", 1),
                ("nlp", 2),
                ("lonely", 0),
                ("a", 0),
                ("b", 1)
            ]
        );
        assert_eq!(tree.below(2).collect::<Vec<_>>(), [1, 0]);
        assert!(tree.has_children(1) && !tree.has_children(3));
    }

    /// A queue can have the same name as its cohort.
    #[test]
    fn a_cohort_has_the_queues_below_it() {
        use QueueKind::{Cohort, Queue};
        let queues = [
            queue(Cohort, "research", Some("all")),
            queue(Queue, "research", Some("research")),
            queue(Queue, "nlp", Some("research")),
            queue(Cohort, "all", None),
            queue(Queue, "prod", Some("all")),
        ];
        let of = |cohort: &str| -> Vec<String> {
            let names = members(&queues, &Name::new(cohort)).into_iter();
            names.map(|name| name.to_string()).collect()
        };
        assert_eq!(of("research"), ["nlp", "research"]);
        assert_eq!(of("all"), ["nlp", "prod", "research"]);
        assert!(of("prod").is_empty(), "it is no cohort");
    }
}
