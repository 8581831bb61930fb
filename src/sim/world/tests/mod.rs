//! The world's own tests: the reported state is the true state, in one step or many, and laws hold at every moment.

mod clients;
mod fixed_pools;
mod made_again;
mod properties;
mod staged_faults;

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::Value;

use super::super::change::{Request, Resource, SimBackend, WorldChange};

use super::{Options, World};
use model::base::{Moment, ObjectKey};
use properties::check_properties;

type Store = BTreeMap<(Resource, ObjectKey), Value>;

fn noon() -> Moment {
    Moment::parse("2026-11-21T18:40:00Z").expect("a moment")
}

fn key_of(object: &Value) -> ObjectKey {
    let part = |name: &str| {
        object["metadata"][name]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    ObjectKey::new(part("namespace"), part("name"))
}

fn fold(store: &mut Store, changes: Vec<WorldChange>) {
    for change in changes {
        match change {
            WorldChange::Put(resource, object) => {
                store.insert((resource, key_of(&object)), object);
            }
            WorldChange::Remove(resource, key) => {
                assert!(
                    store.remove(&(resource, key.clone())).is_some(),
                    "{resource:?} {key} was never there"
                );
            }
        }
    }
}

fn begin(options: Options) -> (World, Store) {
    let mut world = World::new(options);
    let mut store = Store::new();
    let changes = world.start();
    fold(&mut store, changes);
    (world, store)
}

fn snapshot(world: &World) -> Store {
    let mut store = Store::new();
    fold(&mut store, world.objects());
    store
}

fn of(store: &Store, resource: Resource) -> impl Iterator<Item = &Value> {
    store
        .iter()
        .filter(move |((kind, _), _)| *kind == resource)
        .map(|(_, object)| object)
}

/// Equal, or the first difference in few words.
fn same(left: &Store, right: &Store) {
    for (key, object) in left {
        assert!(right.contains_key(key), "{key:?} is missing on the right");
        if object != &right[key] {
            panic!("{key:?} differs:\n{object}\n{}", right[key]);
        }
    }
    for key in right.keys() {
        assert!(left.contains_key(key), "{key:?} is missing on the left");
    }
}

#[test]
fn reported_changes_equal_the_objects_and_the_laws_hold() {
    let (mut world, mut store) = begin(Options::new(noon()));
    check_properties(&world, &store);
    for minutes in [1, 4, 25] {
        let to = world.now().plus(Duration::from_secs(minutes * 60));
        let changes = world.advance(to);
        fold(&mut store, changes);
        same(&snapshot(&world), &store);
        check_properties(&world, &store);
    }
}

/// A node is the same machine in the same zone, so that it has the same price whenever a demo is opened.
#[test]
fn nodes_of_one_seed_are_alike_whenever_a_world_begins() {
    let nodes = |minutes: u64| {
        let at = noon().plus(Duration::from_secs(minutes * 60));
        let (_, store) = begin(Options::new(at));
        let all = of(&store, Resource::Nodes).map(|node| {
            let zone = &node["metadata"]["labels"]["topology.kubernetes.io/zone"];
            let parts = [&node["metadata"]["name"], &node["metadata"]["uid"], zone];
            parts.map(|part| part.as_str().unwrap_or_default().to_owned())
        });
        all.collect::<Vec<_>>()
    };
    let first = nodes(0);
    assert!(first.len() > 100);
    for minutes in [15, 24 * 60 + 7] {
        assert_eq!(first, nodes(minutes), "{minutes} minutes later");
    }
}

/// A pod larger than any node of its pool does not block the other pending pods from nodes with enough free devices.
#[test]
fn no_pod_waits_while_a_node_fits_it() {
    let mut waiting = 0;
    let morning = Moment::parse("2026-11-21T08:00:00Z").expect("a moment");
    for seed in 1..6 {
        let (mut world, _) = begin(Options {
            seed,
            nodes: Some(48),
            ..Options::new(morning)
        });
        world.advance(morning.plus(std::time::Duration::from_secs(30)));
        world.schedule();
        for entry in &world.unplaced {
            let work = &world.works[&entry.2];
            if !work.gang {
                waiting += 1;
                let node = world.best_node(entry.2);
                assert!(node.is_none(), "seed {seed}: {} has room", work.name);
            }
        }
    }
    assert!(waiting > 5);
}

fn small(seed: u64) -> Options {
    Options {
        seed,
        devices: Some(400),
        ..Options::new(noon())
    }
}

#[test]
fn one_step_or_many_lead_to_the_same_world() {
    let (mut once, mut left) = begin(small(7));
    let (mut often, mut right) = begin(small(7));
    same(&left, &right);
    let end = noon().plus(Duration::from_secs(1500));
    let changes = once.advance(end);
    fold(&mut left, changes.clone());
    let mut all = Vec::new();
    let mut at = noon();
    let mut step = 1;
    while at < end {
        at = at.plus(Duration::from_millis(step * 371)).min(end);
        step = step % 977 + 13;
        all.extend(often.advance(at));
    }
    assert_eq!(changes, all);
    fold(&mut right, all);
    same(&left, &right);
    assert_eq!(once.exporters(), often.exporters());
    for (pod, port, path) in once.exporters() {
        assert_eq!(once.page(&pod, port, path), often.page(&pod, port, path));
    }
    for key in once.pod_names.keys() {
        assert_eq!(once.log(key, None, false), often.log(key, None, false));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn laws_hold_for_any_seed_size_and_hour(seed in 0u64..1000, devices in 4u32..520, hour in 0i64..48, minutes in 1u64..50) {
        let options = Options { seed, devices: Some(devices), nodes: None, past: true, at: noon().plus(super::seconds(hour * 3600)) };
        let (mut world, mut store) = begin(options);
        check_properties(&world, &store);
        let to = world.now().plus(Duration::from_secs(minutes * 60));
        let changes = world.advance(to);
        fold(&mut store, changes);
        same(&snapshot(&world), &store);
        check_properties(&world, &store);
    }

    #[test]
    fn laws_hold_whatever_clients_do(seed in 0u64..1000, picks in prop::collection::vec((0u8..9, any::<prop::sample::Index>()), 1..16)) {
        let (mut world, mut store) = begin(Options { seed, devices: Some(240), ..Options::new(noon()) });
        for (verb, at) in picks {
            let Some(request) = some_request(&world, &store, verb, &at) else { continue };
            let changes = world.request(request);
            fold(&mut store, changes);
            same(&snapshot(&world), &store);
            let to = world.now().plus(Duration::from_secs(17));
            let changes = world.advance(to);
            fold(&mut store, changes);
            check_properties(&world, &store);
        }
        same(&snapshot(&world), &store);
    }
}

/// A request that a client may make on an existing object.
fn some_request(
    _world: &World,
    store: &Store,
    verb: u8,
    at: &prop::sample::Index,
) -> Option<Request> {
    let resource = match verb {
        0 | 1 => Resource::Pods,
        2 | 3 => Resource::Nodes,
        4 => Resource::Jobs,
        5 => Resource::Workloads,
        6 => Resource::Deployments,
        7 => Resource::JobSets,
        _ => Resource::ClusterQueues,
    };
    let all: Vec<(&(Resource, ObjectKey), &Value)> = store
        .iter()
        .filter(|((kind, _), _)| *kind == resource)
        .collect();
    if all.is_empty() {
        return None;
    }
    let (key, object) = all[at.index(all.len())];
    let mut object = object.clone();
    let flip = |value: &mut Value| *value = Value::Bool(*value != Value::Bool(true));
    match verb {
        0 => return Some(Request::Delete(resource, key.1.clone(), None)),
        1 => return Some(Request::Delete(resource, key.1.clone(), Some(0))),
        2 => flip(&mut object["spec"]["unschedulable"]),
        3 => {
            let taint =
                serde_json::json!({"key": "maintenance", "value": "soon", "effect": "NoExecute"});
            match object["spec"]["taints"].as_array_mut() {
                Some(taints) => taints.push(taint),
                None => object["spec"]["taints"] = serde_json::json!([taint]),
            }
        }
        4 | 7 => flip(&mut object["spec"]["suspend"]),
        5 => flip(&mut object["spec"]["active"]),
        6 => object["spec"]["replicas"] = Value::from(at.index(20)),
        _ => {
            object["spec"]["stopPolicy"] =
                Value::from(["None", "Hold", "HoldAndDrain"][at.index(3)])
        }
    }
    Some(Request::Write(resource, object))
}

/// In this fleet two jobs are drawn with one name: each keeps its own pods, and neither takes the other along.
#[test]
fn a_name_that_is_drawn_twice_is_of_two_jobs() {
    let options = Options {
        seed: 841,
        devices: Some(490),
        ..Options::new(noon())
    };
    let (mut world, mut store) = begin(options);
    check_properties(&world, &store);
    let to = world.now().plus(Duration::from_secs(60));
    let changes = world.advance(to);
    fold(&mut store, changes);
    check_properties(&world, &store);
}

/// A taint reaches pods that are being deleted with the rest of their gang: its changes to them are reported too.
#[test]
fn a_taint_on_a_terminating_pod_is_reported() {
    let (mut world, mut store) = begin(Options {
        seed: 68,
        devices: Some(240),
        ..Options::new(noon())
    });
    let nodes: Vec<Value> = of(&store, Resource::Nodes).cloned().collect();
    for mut node in nodes {
        node["spec"]["taints"] =
            serde_json::json!([{"key": "maintenance", "value": "soon", "effect": "NoExecute"}]);
        let changes = world.request(Request::Write(Resource::Nodes, node));
        fold(&mut store, changes);
        same(&snapshot(&world), &store);
    }
}

/// Its ranks wait for one another, and reach no step that they could save.
#[test]
fn a_stalled_gang_saves_no_checkpoint() {
    let mut world = World::new(Options::new(noon()));
    let id = world.staged.broken_gang.expect("a gang has lost a rank");
    let gang = |world: &World| world.works.get(&id).expect("it is there").clone();
    let before = gang(&world);
    assert!(before.stalled.is_some() && before.checkpoint_every > 0);
    // Longer than it takes from one checkpoint to the next, and less than until it gives up.
    let long = u64::try_from(before.checkpoint_every).expect("a time") + 60_000;
    world.advance(noon().plus(Duration::from_millis(long)));
    let after = gang(&world);
    assert!(after.stalled.is_some(), "it hangs still");
    assert_eq!(after.last_checkpoint, before.last_checkpoint);
}
