//! What advice promises to save a month, against what the simulated world's own accounts say is saved where it is followed: two
//! worlds live on from the same moment, and in one of them the advised commands are carried out through the API.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use model::advice::{Action, Advice, MONTH_HOURS};
use model::base::ObjectKey;
use model::fleet::node::Billing;
use serde_json::{Value, json};
use sim::change::{Request, Resource, SimBackend, WorldChange};
use sim::world::{Options, World};
use table::waiting::explanations::JobExplanations;

use super::accounts::{Lived, begin, memory, price_of};

/// A promise is kept when what is saved differs by at most this share of it.
const APART: f64 = 0.1;

/// The kinds of objects that the advised commands are about.
fn resource_of(kind: &str) -> Resource {
    match kind {
        "StatefulSet" => Resource::StatefulSets,
        "Deployment" => Resource::Deployments,
        "Pod" => Resource::Pods,
        "Node" => Resource::Nodes,
        other => panic!("a {other} is not followed here"),
    }
}

/// An object as it is served.
fn object(world: &World, kind: &str, key: &ObjectKey) -> Value {
    let wanted = resource_of(kind);
    let named = |value: &Value| {
        let text = |at: &str| value.pointer(at).and_then(Value::as_str).unwrap_or("");
        text("/metadata/name") == key.name.as_str()
            && text("/metadata/namespace") == key.namespace.as_str()
    };
    let objects = world.objects().into_iter();
    let mut found = objects.filter_map(|change| match change {
        WorldChange::Put(resource, value) if resource == wanted && named(&value) => Some(value),
        _ => None,
    });
    found.next().unwrap_or_else(|| panic!("no {kind} {key}"))
}

/// The same object, to be created anew, with its pods asking for so many of this resource, on whatever node has it.
fn asking(mut object: Value, resource: &str, count: u32) -> Value {
    let metadata = &object["metadata"];
    object["metadata"] = json!({
        "name": metadata["name"],
        "namespace": metadata["namespace"],
        "labels": metadata["labels"],
        // (So long that it outlives the comparison.)
        "annotations": {"stokehold.dev/runtime-estimate": "24h"},
    });
    let template = match object["kind"] == "Pod" {
        true => &mut object["spec"],
        false => &mut object["spec"]["template"]["spec"],
    };
    template["nodeName"].take();
    if resource != "nvidia.com/gpu" {
        template["nodeSelector"].take();
    }
    let container = &mut template["containers"][0]["resources"];
    for section in ["limits", "requests"] {
        if let Some(rows) = container[section].as_object_mut() {
            rows.retain(|name, _| !name.contains('/'));
            rows.insert(resource.to_owned(), json!(count.to_string()));
        }
    }
    object
}

/// Carries out what is advised, as its command would, or as its owner would change the manifest. False where the cluster cannot.
fn follow(world: &mut World, advice: &Advice) -> bool {
    let (kind, key) = (advice.job.kind.as_str(), &advice.job.key);
    let resource = || resource_of(kind);
    match (&advice.action, kind) {
        (Action::Release, "Pod") => {
            world.request(Request::Delete(resource(), key.clone(), None));
        }
        (Action::Release, "StatefulSet" | "Deployment") => {
            let mut scaled = object(world, kind, key);
            scaled["spec"]["replicas"] = json!(0);
            world.request(Request::Write(resource(), scaled));
        }
        (Action::FewerDevices(fewer), "StatefulSet") => {
            let left = advice.devices - fewer;
            let smaller = asking(object(world, kind, key), "nvidia.com/gpu", left);
            replace(world, kind, key, smaller);
        }
        (Action::MigSlice(profile), "Pod") => {
            let slice = format!("nvidia.com/mig-{profile}");
            if !is_offered(world, &slice) {
                return false;
            }
            let sliced = asking(object(world, kind, key), &slice, 1);
            replace(world, kind, key, sliced);
        }
        (Action::RemoveNodes(nodes), _) => {
            for name in nodes.iter() {
                let node = ObjectKey::new("", name.as_str());
                let mut cordoned = object(world, "Node", &node);
                cordoned["spec"]["unschedulable"] = json!(true);
                world.request(Request::Write(Resource::Nodes, cordoned));
                world.request(Request::Delete(Resource::Nodes, node, None));
            }
        }
        _ => return false,
    }
    true
}

/// True when a node has this resource.
fn is_offered(world: &World, resource: &str) -> bool {
    world.objects().into_iter().any(|change| match change {
        WorldChange::Put(Resource::Nodes, node) => {
            let capacity = node["status"]["capacity"].as_object();
            capacity.is_some_and(|capacity| capacity.contains_key(resource))
        }
        _ => false,
    })
}

/// Deletes an object and creates another of its name.
fn replace(world: &mut World, kind: &str, key: &ObjectKey, object: Value) {
    world.request(Request::Delete(resource_of(kind), key.clone(), None));
    live_on(world, 3);
    world.request(Request::Write(resource_of(kind), object));
}

fn live_on(world: &mut World, minutes: u64) {
    world.advance(world.now().plus(Duration::from_secs(minutes * 60)));
}

/// What an advice is about in the accounts: a job, or a pool.
type Account = (String, String);

fn account(advice: &Advice) -> Account {
    match advice.pool() {
        Some(pool) => (String::new(), pool.to_string()),
        None => {
            let key = &advice.job.key;
            (key.namespace.to_string(), key.name.to_string())
        }
    }
}

/// USD and hours of devices of each job and pool so far.
fn accounts(world: &mut World) -> BTreeMap<Account, [f64; 2]> {
    let mut sums: BTreeMap<Account, [f64; 2]> = BTreeMap::new();
    let mut add = |account: Account, pool: &str, hours: f64| {
        let sum = sums.entry(account).or_default();
        sum[0] += hours * price_of(pool).usd();
        sum[1] += hours;
    };
    for row in world.work_accounts() {
        let account = (row.namespace.to_string(), row.name.to_string());
        add(account, row.pool, row.device_hours);
    }
    for row in world.accounts() {
        let account = (String::new(), row.pool.to_owned());
        add(account, row.pool, row.device_hours);
    }
    sums
}

/// Follows the advice on this fleet, in which there must be some of these kinds.
fn kept(options: Options, kinds: &[&str]) {
    let mut lived = Lived::begin_with(options, false, memory(), true);
    lived.take();
    let minute = |minute: u64| begin().plus(Duration::from_secs(minute * 60));
    // The window of an advice is half an hour.
    lived.live(minute(5), Duration::from_secs(300), None);
    let advised = minute(37);
    lived.live(advised, Duration::from_secs(30), Some(2));
    let facts = lived.store.publish(advised);
    let pools =
        JobExplanations::default().with_pools(&facts.fleet, &facts.spend_rates, &BTreeSet::new());
    let all = facts.advice.iter().chain(pools.pools.iter());
    let promised: Vec<Advice> = all.filter(|own| own.saves.is_some()).cloned().collect();

    let mut unfollowed = lived.world.clone();
    let mut world = lived.world;
    let mut followed: Vec<Advice> = Vec::new();
    for advice in promised {
        println!("{}: {:?}", advice.words(), advice.saves_a_month());
        if follow(&mut world, &advice) {
            followed.push(advice);
        }
    }
    // What is deleted ends, and what replaces it starts.
    live_on(&mut world, 10);
    unfollowed.advance(world.now());

    // Quarters of hours in which the job would have run for the whole time.
    let mut saved = vec![[0.0; 2]; followed.len()];
    let mut before = [accounts(&mut world), accounts(&mut unfollowed)];
    for _ in 0..12 {
        live_on(&mut world, 15);
        unfollowed.advance(world.now());
        let after = [accounts(&mut world), accounts(&mut unfollowed)];
        for (advice, sum) in followed.iter().zip(&mut saved) {
            let account = account(advice);
            let spent = |world: usize| {
                let at = |moment: &[BTreeMap<Account, [f64; 2]>; 2]| {
                    moment[world].get(&account).copied().unwrap_or_default()
                };
                let (old, new) = (at(&before), at(&after));
                [new[0] - old[0], new[1] - old[1]]
            };
            let (own, other) = (spent(0), spent(1));
            let whole = f64::from(advice.devices) * 0.25;
            if advice.pool().is_some() || other[1] > whole * 0.999 {
                sum[0] += other[0] - own[0];
                sum[1] += 0.25;
            }
        }
        before = after;
    }

    let mut sums = [0.0; 2];
    let mut codes: BTreeMap<&str, u32> = BTreeMap::new();
    for (advice, [usd, hours]) in followed.iter().zip(saved) {
        assert!(hours > 0.0, "{} ends at once", advice.id());
        let promise = advice.saves_a_month().expect("is known").usd();
        let real = usd / hours * MONTH_HOURS as f64;
        println!(
            "{}: promised {promise:.2} $, saved {real:.2} $ over {hours} h",
            advice.id()
        );
        if advice.commitment.is_some_and(Billing::is_committed) {
            // It is paid all the same, and so no money is promised.
            assert_eq!(promise, 0.0, "{}", advice.id());
            continue;
        }
        assert!(
            (real - promise).abs() <= APART * promise,
            "{}: {promise} $ promised, {real} $ saved",
            advice.id()
        );
        sums[0] += promise;
        sums[1] += real;
        *codes.entry(advice.action.code()).or_default() += 1;
    }
    println!("{sums:?} {codes:?}");
    for code in kinds {
        assert!(codes.contains_key(code), "no {code}: {codes:?}");
    }
    assert!((sums[1] - sums[0]).abs() <= APART * sums[0], "{sums:?}");
}

#[test]
fn what_is_saved_is_what_was_promised() {
    let options = Options {
        nodes: Some(64),
        ..Options::new(begin())
    };
    kept(options, &["release", "remove-nodes"]);
}

/// At the demo's size one of the nodes is cut into MIG slices that a job can move to.
#[test]
#[ignore = "long: tests/long"]
fn what_is_saved_at_the_demos_size_is_what_was_promised() {
    kept(
        Options::new(begin()),
        &["release", "fewer-devices", "mig-slice"],
    );
}
