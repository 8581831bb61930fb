//! The world's own laws: determinism, invariants, and the scenes that every demo has.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;
use serde_json::Value;

use super::super::change::{Change, Request, Resource, Scene};
use super::{Options, World};
use crate::base::{Moment, ObjectKey};

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

fn fold(store: &mut Store, changes: Vec<Change>) {
    for change in changes {
        match change {
            Change::Put(resource, object) => {
                store.insert((resource, key_of(&object)), object);
            }
            Change::Remove(resource, key) => {
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

#[test]
fn overview() {
    let t = std::time::Instant::now();
    let (mut world, mut store) = begin(Options::new(noon()));
    eprintln!("built in {:?}", t.elapsed());
    for round in 0..3 {
        let mut kinds: BTreeMap<Resource, usize> = BTreeMap::new();
        for (kind, _) in store.keys() {
            *kinds.entry(*kind).or_default() += 1;
        }
        eprintln!("{kinds:?}");
        for (pool, spec) in super::catalog::POOLS.iter().enumerate() {
            let cap = world.capacity(pool);
            let held = world.held_units(pool);
            let mut util = 0.0;
            let mut n = 0;
            let mut tmax = 0.0f64;
            let mut hot = 0;
            let mut kw = 0.0;
            for id in &world.pools[pool] {
                for g in 0..spec.per_node as usize {
                    let s = world.sample(*id, g, world.now);
                    util += s.util;
                    n += 1;
                    tmax = tmax.max(s.celsius);
                    if s.celsius >= 85.0 {
                        hot += 1;
                    }
                    kw += s.watts / 1000.0;
                }
            }
            let waiting: u32 = world
                .works
                .values()
                .filter(|w| {
                    w.pool == Some(pool)
                        && w.state == super::work::State::Waiting
                        && w.kind.is_batch()
                })
                .map(|w| w.devices())
                .sum();
            let wjobs = world
                .works
                .values()
                .filter(|w| {
                    w.pool == Some(pool)
                        && w.state == super::work::State::Waiting
                        && w.kind.is_batch()
                })
                .count();
            let run = world
                .works
                .values()
                .filter(|w| w.pool == Some(pool) && w.state == super::work::State::Running)
                .count();
            eprintln!(
                "{:12} cap {cap:5} held {held:5} {:5.1}% util {:4.1}% T {tmax} hot {hot} kW {kw:.0} waiting {wjobs} jobs {waiting} dev, running {run}; arrivals each {:.0}s",
                spec.name,
                held as f64 * 100.0 / cap as f64,
                util * 100.0 / n as f64,
                world.arrivals.mean[pool] / 1000.0
            );
        }
        for q in &world.queues.clusters {
            eprintln!(
                "  {} {:?} pending {}",
                q.name,
                q.quotas
                    .iter()
                    .map(|x| (x.flavor, x.used, x.nominal))
                    .collect::<Vec<_>>(),
                q.pending.len()
            );
        }
        if round == 0 {
            for w in world
                .works
                .values()
                .filter(|w| w.state == super::work::State::Waiting && w.kind.is_batch())
            {
                let msg = w
                    .workload
                    .as_ref()
                    .map(|x| {
                        if x.reserved.is_some() {
                            "reserved".to_string()
                        } else {
                            x.pending.1.to_string()
                        }
                    })
                    .unwrap_or("-".into());
                let v = w
                    .pods
                    .iter()
                    .filter_map(|p| world.pods.get(p))
                    .next()
                    .and_then(|p| p.verdict.clone())
                    .map(|v| v.0.to_string())
                    .unwrap_or_default();
                eprintln!(
                    "  wait {}/{} {} dev susp={} | {msg} | {v}",
                    w.namespace,
                    w.name,
                    w.devices(),
                    w.suspended
                );
            }
        }
        let t = std::time::Instant::now();
        let to = world.now().plus(Duration::from_secs(3600));
        let ch = world.advance(to);
        eprintln!("1h: {} changes in {:?}", ch.len(), t.elapsed());
        let mut kinds: BTreeMap<Resource, usize> = BTreeMap::new();
        for c in &ch {
            if let Change::Put(k, _) = c {
                *kinds.entry(*k).or_default() += 1;
            }
        }
        eprintln!("{kinds:?}");
        fold(&mut store, ch);
    }
    let t = std::time::Instant::now();
    let ex = world.exporters();
    let mut bytes = 0;
    for (k, p, path) in &ex {
        bytes += world.page(k, *p, path).map_or(0, |s| s.body.len());
    }
    eprintln!("{} pages {bytes} bytes in {:?}", ex.len(), t.elapsed());
    assert_eq!(snapshot(&world), store);
}
