//! A versioned store of objects: lists at one revision, and a log of changes that any number of watchers read at
//! their own speed.
//!
//! Every write takes the next revision and has one entry in the log of its resource. A watcher keeps only the
//! last revision that it has seen, so a slow one costs no memory; when the log no longer reaches back to that revision,
//! the watcher gets 410 instead of missing changes. The log is cut only when the next batch begins, so a
//! batch larger than the retention still reaches every watcher that was up to date before it.

use std::collections::{BTreeMap, VecDeque};
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use serde_json::Value;

use super::change::{Resource, WorldChange};
use super::json::{name, namespace, text};

/// One change of one object.
#[derive(Clone, PartialEq, Debug)]
pub struct LoggedChange {
    /// The revision that this change made.
    pub revision: u64,
    /// `NAMESPACE/NAME`, or `NAME` when cluster-scoped.
    pub key: String,
    /// The object before; `None` when it was created.
    pub before: Option<Arc<Value>>,
    /// The object after; `None` when it was deleted.
    pub after: Option<Arc<Value>>,
}

/// The log does not reach back to the requested revision.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Expired {
    pub asked: u64,
    /// The oldest revision in the log.
    pub oldest: u64,
}

#[derive(Default)]
pub struct ListOptions<'a> {
    pub namespace: Option<&'a str>,
    /// As it was at this revision; `None` for now.
    pub at: Option<u64>,
    /// Only keys after this one.
    pub after: Option<&'a str>,
    /// At most this many objects.
    pub limit: Option<usize>,
}

/// One page of a list.
#[derive(Debug)]
pub struct ListPage {
    /// The objects, ordered by key.
    pub items: Vec<Arc<Value>>,
    /// The revision at which the list is true.
    pub revision: u64,
    /// The last key of this page when more objects follow.
    pub next: Option<String>,
    /// The number of objects that follow, before filtering.
    pub remaining: usize,
}

#[derive(Default)]
struct ResourceTable {
    objects: BTreeMap<String, Arc<Value>>,
    log: VecDeque<Arc<LoggedChange>>,
    /// Every change after this revision is in the log.
    reaches: u64,
}

/// The objects of one cluster.
pub struct ObjectStore {
    revision: u64,
    retention: usize,
    tables: BTreeMap<Resource, ResourceTable>,
}

/// The key of an object: `NAMESPACE/NAME`, or `NAME` when cluster-scoped. Sorts as etcd keys do.
pub fn key_of(namespace: &str, name: &str) -> String {
    if namespace.is_empty() {
        name.to_owned()
    } else {
        format!("{namespace}/{name}")
    }
}

fn with_revision(mut object: Value, revision: u64) -> Value {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("resourceVersion".into(), revision.to_string().into());
    }
    object
}

/// True when both are equal except for their `resourceVersion`.
fn same(one: &Value, other: &Value) -> bool {
    let (Some(one), Some(other)) = (one.as_object(), other.as_object()) else {
        return one == other;
    };
    one.len() == other.len()
        && one.iter().all(|(key, value)| {
            let Some(peer) = other.get(key) else {
                return false;
            };
            if key != "metadata" {
                return value == peer;
            }
            let (Some(a), Some(b)) = (value.as_object(), peer.as_object()) else {
                return value == peer;
            };
            let versions = |map: &serde_json::Map<String, Value>| {
                usize::from(map.contains_key("resourceVersion"))
            };
            a.len() - versions(a) == b.len() - versions(b)
                && a.iter()
                    .filter(|(key, _)| *key != "resourceVersion")
                    .all(|(key, value)| b.get(key) == Some(value))
        })
}

impl ObjectStore {
    /// An empty store that keeps at least `retention` changes of each resource for watchers to resume from.
    pub fn new(retention: usize) -> Self {
        Self {
            // A fresh cluster has written a little before anyone can ask.
            revision: 1,
            retention: retention.max(1),
            tables: BTreeMap::new(),
        }
    }

    /// The last revision given out.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Clears the log: the current state is the oldest from which a watcher can resume.
    pub fn forget(&mut self) {
        for table in self.tables.values_mut() {
            table.log.clear();
        }
        for resource in self.tables.keys().copied().collect::<Vec<_>>() {
            self.table(resource).reaches = self.revision;
        }
    }

    fn table(&mut self, resource: Resource) -> &mut ResourceTable {
        self.tables.entry(resource).or_default()
    }

    /// Applies a batch of changes in order. A put without a difference takes no revision; an object put under a
    /// new uid is deleted and created again, as on a real server.
    pub fn apply(&mut self, changes: Vec<WorldChange>) {
        let retention = self.retention;
        for table in self.tables.values_mut() {
            while table.log.len() > retention {
                if let Some(dropped) = table.log.pop_front() {
                    table.reaches = dropped.revision;
                }
            }
        }
        for change in changes {
            match change {
                WorldChange::Put(resource, object) => self.put(resource, object),
                WorldChange::Remove(resource, key) => {
                    self.remove(resource, &key_of(&key.namespace, &key.name));
                }
            }
        }
    }

    fn put(&mut self, resource: Resource, object: Value) {
        if name(&object).is_empty() || !object.get("metadata").is_some_and(Value::is_object) {
            tracing::warn!(
                ?resource,
                "the world put an object without a name; it is left out"
            );
            return;
        }
        let key = key_of(namespace(&object), name(&object));
        let before = self.table(resource).objects.get(&key).cloned();
        if let Some(old) = &before {
            let uid = |v: &Value| text(v, "/metadata/uid").to_owned();
            if uid(old) != uid(&object) {
                self.remove(resource, &key);
                return self.put(resource, object);
            }
            if same(old, &object) {
                return;
            }
        }
        self.revision += 1;
        let revision = self.revision;
        let after = Arc::new(with_revision(object, revision));
        let table = self.table(resource);
        table.objects.insert(key.clone(), after.clone());
        table.log.push_back(Arc::new(LoggedChange {
            revision,
            key,
            before,
            after: Some(after),
        }));
    }

    fn remove(&mut self, resource: Resource, key: &str) {
        let Some(before) = self.table(resource).objects.remove(key) else {
            return;
        };
        self.revision += 1;
        let revision = self.revision;
        self.table(resource).log.push_back(Arc::new(LoggedChange {
            revision,
            key: key.to_owned(),
            before: Some(before),
            after: None,
        }));
    }

    /// The object of this name; the namespace is empty for a cluster-scoped one.
    pub fn get(&self, resource: Resource, namespace: &str, name: &str) -> Option<Arc<Value>> {
        let table = self.tables.get(&resource)?;
        table.objects.get(&key_of(namespace, name)).cloned()
    }

    /// How many objects of a resource there are.
    pub fn count(&self, resource: Resource) -> usize {
        self.tables.get(&resource).map_or(0, |t| t.objects.len())
    }

    /// The objects that `keep` keeps, as they were at one revision.
    ///
    /// # Errors
    /// [`Expired`] when the log does not reach back to that revision.
    pub fn list(
        &self,
        resource: Resource,
        what: &ListOptions<'_>,
        keep: &dyn Fn(&Value) -> bool,
    ) -> Result<ListPage, Expired> {
        let revision = what.at.unwrap_or(self.revision);
        let empty = ResourceTable::default();
        let table = self.tables.get(&resource).unwrap_or(&empty);
        if revision < table.reaches {
            return Err(Expired {
                asked: revision,
                oldest: table.reaches,
            });
        }
        // The former state of objects changed since: that of the oldest later change of a key.
        let mut then: BTreeMap<&str, Option<&Arc<Value>>> = BTreeMap::new();
        for logged in table.log.iter().rev().take_while(|l| l.revision > revision) {
            then.insert(&logged.key, logged.before.as_ref());
        }
        let prefix = what.namespace.map(|namespace| format!("{namespace}/"));
        let from = match (&prefix, what.after) {
            (_, Some(after)) => Bound::Excluded(after.to_owned()),
            (Some(prefix), None) => Bound::Included(prefix.clone()),
            (None, None) => Bound::Unbounded,
        };
        let inside = |key: &str| prefix.as_ref().is_none_or(|p| key.starts_with(p.as_str()));
        let range = (from, Bound::Unbounded);
        let now = table.objects.range(range.clone());
        let now = now
            .take_while(|(key, _)| inside(key))
            .map(|(key, object)| (key.as_str(), object));
        let objects: Box<dyn Iterator<Item = (&str, &Arc<Value>)>> = if then.is_empty() {
            Box::new(now)
        } else {
            let mut objects: BTreeMap<&str, &Arc<Value>> = now.collect();
            for (key, was) in then {
                match was.filter(|_| inside(key) && range.contains(&key.to_owned())) {
                    Some(was) => objects.insert(key, was),
                    None => objects.remove(key),
                };
            }
            Box::new(objects.into_iter())
        };
        let mut page = ListPage {
            items: Vec::new(),
            revision,
            next: None,
            remaining: 0,
        };
        let mut last: Option<&str> = None;
        for (key, object) in objects {
            if what.limit.is_some_and(|limit| page.items.len() >= limit) {
                page.next = last.map(str::to_owned);
                page.remaining += 1;
                continue;
            }
            last = Some(key);
            if keep(object) {
                page.items.push(object.clone());
            }
        }
        Ok(page)
    }

    /// Up to `most` changes of a resource after a revision, in order.
    ///
    /// # Errors
    /// [`Expired`] when changes after that revision have been dropped from the log.
    pub fn since(
        &self,
        resource: Resource,
        after: u64,
        most: usize,
    ) -> Result<Vec<Arc<LoggedChange>>, Expired> {
        let Some(table) = self.tables.get(&resource) else {
            return Ok(Vec::new());
        };
        if after < table.reaches {
            return Err(Expired {
                asked: after,
                oldest: table.reaches,
            });
        }
        let start = table.log.partition_point(|l| l.revision <= after);
        Ok(table.log.range(start..).take(most).cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::base::ObjectKey;
    use proptest::prelude::*;
    use serde_json::json;

    fn put(id: u8, value: u8) -> WorldChange {
        let object = json!({
            "metadata": {"namespace": format!("n{}", id % 3), "name": format!("o{id}"), "uid": "u"},
            "value": value,
        });
        WorldChange::Put(Resource::ConfigMaps, object)
    }

    fn remove(id: u8) -> WorldChange {
        let key = ObjectKey::new(format!("n{}", id % 3).as_str(), format!("o{id}").as_str());
        WorldChange::Remove(Resource::ConfigMaps, key)
    }

    fn everything(store: &ObjectStore, at: Option<u64>) -> Vec<Value> {
        let what = ListOptions {
            at,
            ..ListOptions::default()
        };
        let page = store
            .list(Resource::ConfigMaps, &what, &|_| true)
            .expect("in reach");
        page.items.iter().map(|v| (**v).clone()).collect()
    }

    #[test]
    fn a_put_that_changes_nothing_takes_no_revision() {
        let mut store = ObjectStore::new(8);
        store.apply(vec![put(1, 1)]);
        let revision = store.revision();
        store.apply(vec![put(1, 1)]);
        assert_eq!(store.revision(), revision);
        store.apply(vec![put(1, 2)]);
        assert_eq!(store.revision(), revision + 1);
    }

    #[test]
    fn a_new_uid_is_a_new_object() {
        let mut store = ObjectStore::new(8);
        store.apply(vec![put(1, 1)]);
        let at = store.revision();
        let again = json!({"metadata": {"namespace": "n1", "name": "o1", "uid": "v"}, "value": 1});
        store.apply(vec![WorldChange::Put(Resource::ConfigMaps, again)]);
        let log = store.since(Resource::ConfigMaps, at, 9).expect("in reach");
        assert_eq!(log.len(), 2);
        assert!(log[0].after.is_none() && log[1].before.is_none());
    }

    #[test]
    fn a_batch_beyond_retention_still_reaches_the_watcher_at_the_head() {
        let mut store = ObjectStore::new(2);
        store.apply(vec![put(0, 0)]);
        let head = store.revision();
        store.apply((0..9).map(|id| put(id, 7)).collect());
        let seen = store
            .since(Resource::ConfigMaps, head, 99)
            .expect("in reach");
        assert_eq!(seen.len(), 9);
        store.apply(vec![put(0, 8)]);
        let gone = store.since(Resource::ConfigMaps, head, 99).unwrap_err();
        assert_eq!(gone.asked, head);
        assert!(store.since(Resource::ConfigMaps, gone.oldest, 99).is_ok());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        /// However writes and readers interleave, each reader folds the log into exactly the state of the store,
        /// in strictly rising revisions, or gets an error that its revision has expired.
        #[test]
        fn every_watcher_sees_each_change_once_and_in_order(
            retention in 1usize..12,
            steps in prop::collection::vec((0u8..4, 0u8..6, 0u8..4, 1usize..5), 1..80),
        ) {
            let mut store = ObjectStore::new(retention);
            // A watcher: the state it has folded, and the last revision it has seen.
            let mut watchers: Vec<(BTreeMap<String, Value>, u64)> =
                vec![(BTreeMap::new(), store.revision()); 4];
            for (kind, id, value, most) in steps {
                match kind {
                    0 => store.apply(vec![put(id, value)]),
                    1 => store.apply(vec![remove(id), put(id + 1, value)]),
                    _ => {
                        let (state, seen) = &mut watchers[usize::from(id) % 4];
                        match store.since(Resource::ConfigMaps, *seen, most) {
                            Ok(changes) => for change in changes {
                                prop_assert!(change.revision > *seen);
                                *seen = change.revision;
                                prop_assert_eq!(state.get(&change.key), change.before.as_deref());
                                match &change.after {
                                    Some(object) => { state.insert(change.key.clone(), (**object).clone()); }
                                    None => { state.remove(&change.key); }
                                }
                            },
                            Err(expired) => {
                                prop_assert!(*seen < expired.oldest);
                                // As a client does: list again and resume from there.
                                *seen = store.revision();
                                *state = everything(&store, None).into_iter()
                                    .map(|v| (key_of(namespace(&v), name(&v)), v)).collect();
                            }
                        }
                    }
                }
            }
            for (state, seen) in &mut watchers {
                let Ok(rest) = store.since(Resource::ConfigMaps, *seen, usize::MAX) else { continue };
                for change in rest {
                    match &change.after {
                        Some(object) => { state.insert(change.key.clone(), (**object).clone()); }
                        None => { state.remove(&change.key); }
                    }
                }
                let now: Vec<Value> = state.values().cloned().collect();
                prop_assert_eq!(now, everything(&store, None));
            }
        }

        /// A paged list shows the state of its first page's revision, whatever is written between pages.
        #[test]
        fn pages_of_one_list_are_of_one_moment(
            first in prop::collection::vec((0u8..12, 0u8..4), 0..20),
            later in prop::collection::vec((prop::bool::ANY, 0u8..12, 0u8..4), 0..20),
            limit in 1usize..5,
        ) {
            let mut store = ObjectStore::new(64);
            store.apply(first.into_iter().map(|(id, value)| put(id, value)).collect());
            let (at, expected) = (store.revision(), everything(&store, None));
            let (mut after, mut seen) = (None, Vec::new());
            let mut later = later.into_iter();
            loop {
                let what = ListOptions { at: Some(at), after: after.as_deref(), limit: Some(limit), ..ListOptions::default() };
                let page = store.list(Resource::ConfigMaps, &what, &|_| true).expect("in reach");
                prop_assert!(page.items.len() <= limit);
                seen.extend(page.items.iter().map(|v| (**v).clone()));
                prop_assert_eq!(seen.len() + page.remaining, expected.len());
                after = page.next;
                if after.is_none() { break }
                if let Some((gone, id, value)) = later.next() {
                    store.apply(vec![if gone { remove(id) } else { put(id, value) }]);
                }
            }
            prop_assert_eq!(seen, expected);
        }
    }
}
