//! The tree of queues: what stands below what, whatever order the queues come in, circles and orphans included.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use model::fleet::queue::{Queue, QueueKey};

/// Queues deeper than this are drawn no deeper.
const DEEPEST: usize = 8;

/// The order in which queues are shown, with their depths.
pub struct Tree {
    /// Place among all queues, and depth; parents before their children.
    pub order: Vec<(usize, usize)>,
}

impl Tree {
    /// The tree of these queues. A queue whose parent is not there, or that stands below itself, is a root.
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
        // What no root leads to stands in a circle: it is shown all the same.
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

    /// How deep a queue stands; roots at 0.
    pub fn depth(&self, queue: usize) -> usize {
        self.place(queue).map_or(0, |at| self.order[at].1)
    }

    /// The root above a queue; the queue itself where it is one.
    pub fn root(&self, queue: usize) -> usize {
        let to = self.place(queue).map_or(0, |at| at + 1);
        let roots = self.order[..to]
            .iter()
            .rev()
            .filter(|(_, depth)| *depth == 0);
        roots.map(|(root, _)| *root).next().unwrap_or(queue)
    }

    /// True when something stands below it.
    pub fn has_children(&self, queue: usize) -> bool {
        self.below(queue).next().is_some()
    }

    /// Every queue below this one, at any depth.
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
    use model::base::Name;
    use model::fleet::queue::{QueueKind, QueueSystem};

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
    fn parents_come_before_children_and_nobody_is_lost() {
        use QueueKind::{Cohort, Queue};
        let queues = [
            queue(Queue, "nlp", Some("research")),
            queue(Cohort, "research", Some("all")),
            queue(Cohort, "all", None),
            queue(Queue, "lonely", Some("gone")),
            queue(Cohort, "a", Some("b")),
            queue(Cohort, "b", Some("a")),
        ];
        let tree = Tree::of(&queues);
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
}
