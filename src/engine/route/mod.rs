//! Recommends a flavor for a workload: where it finishes first, and at what cost.
//!
//! Flavors are those of its route or its own list, plus those of its queue. Ranked by: within the route's
//! price limit first; then by the median forecast completion, unknown last; then by cost; then in the
//! route's order.

use serde::Serialize;

use model::base::{Moment, Name, Rate, SmallSort};
use model::cost::Money;

use super::compiled::{CompiledFleet, FlavorId, WorkloadId};
use super::cycle::at_speed;
use super::explain::{StartState, job};
use super::fit::Relaxation;
use super::forecast::{self, runtime};
use super::options::{Used, used};
use super::snapshot::{FlavorChoice, Route, Snapshot, SnapshotDevice, Workload};
use super::state::State;
use model::plan::JobName;

#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct FlavorCandidate {
    pub flavor: Name,
    /// Speed in thousandths; 1,000 if neither route nor list specifies it.
    pub speed_milli: i64,
    /// Whether its route or its own list names it.
    pub named: bool,
    /// Price in micro-USD a device-hour; null where unknown.
    pub micro_usd_per_device_hour: Option<i64>,
    /// True for a list price used because the price that is paid is unknown.
    pub list_price: bool,
    /// Whether it is within the route's price limit.
    pub allowed: bool,
    /// Whether the workload would start now with this flavor only.
    pub fits_now: bool,
    /// Median forecast start; null if unknown.
    #[serde(serialize_with = "moment")]
    pub start: Option<Moment>,
    #[serde(serialize_with = "moment")]
    pub done: Option<Moment>,
    /// Run time, in seconds; null if unknown.
    pub run_seconds: Option<i64>,
    /// Cost of the run, in micro-USD; null if price or run time is unknown.
    pub cost_micro_usd: Option<i64>,
    /// Reason for its rank.
    pub why: String,
}

#[allow(clippy::ref_option, reason = "serde passes references")]
fn moment<S: serde::Serializer>(at: &Option<Moment>, out: S) -> Result<S::Ok, S::Error> {
    match at {
        Some(at) => out.serialize_some(&at.rfc3339()),
        None => out.serialize_none(),
    }
}

/// Recommended flavors for a workload.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Routing {
    pub job: JobName,
    /// Its state; routing applies to pending workloads.
    pub state: StartState,
    /// Price limit of its route, in micro-USD a device-hour; null for no limit.
    pub most_micro_usd_per_device_hour: Option<i64>,
    pub flavors: Vec<FlavorCandidate>,
    /// Options behind the decision, and their origins.
    pub options: Vec<Used>,
}

/// Over the price limit, completion unknown, completion, cost unknown, cost, order: less comes first.
type Rank = (bool, bool, Option<Moment>, bool, Option<i64>, usize);

/// Ranks the flavors that a workload could request.
pub fn route(compiled: &CompiledFleet, work: WorkloadId) -> Routing {
    let workload = compiled.workload(work);
    let state = State::new(compiled);
    let stand = match (state.allocation(work).is_some(), workload.status) {
        (placed, _) if workload.blocked.is_some() && !placed && !workload.elsewhere => {
            StartState::Blocked
        }
        (true, _) => StartState::Running,
        (_, super::snapshot::Status::Held) => StartState::Held,
        (_, super::snapshot::Status::Ending) => StartState::Ending,
        _ => StartState::Waiting,
    };
    let (named, most) = requested_flavors(&compiled.snapshot, work);
    let mut flavors: Vec<(FlavorId, i64, bool)> = named
        .iter()
        .filter_map(|choice| Some((compiled.flavor(&choice.flavor)?, choice.speed_milli, true)))
        .collect();
    for flavor in offered(compiled, work) {
        if flavors.iter().all(|(known, _, _)| *known != flavor) {
            flavors.push((flavor, 1_000, false));
        }
    }
    let mut ranked: Vec<(Rank, FlavorCandidate)> = flavors
        .into_iter()
        .enumerate()
        .map(|(order, flavor_choice)| {
            let it = weigh(compiled, work, flavor_choice, most);
            let key = (
                !it.allowed,
                it.done.or(it.start).is_none(),
                it.done.or(it.start),
                it.cost_micro_usd.is_none(),
                it.cost_micro_usd,
                order,
            );
            (key, it)
        })
        .collect();
    ranked.small_sort_by_key(|(rank, _)| *rank);
    Routing {
        job: job(&workload.key),
        state: stand,
        most_micro_usd_per_device_hour: most,
        flavors: ranked.into_iter().map(|(_, it)| it).collect(),
        options: used(&compiled.snapshot, Some(workload)),
    }
}

/// The first route that matches a workload.
pub fn route_of<'s>(snapshot: &'s Snapshot, workload: &Workload) -> Option<&'s Route> {
    let mut routes = snapshot.routes.iter();
    routes.find(|route| {
        let labels = |(key, value): (&Name, &Name)| workload.labels.get(key) == Some(value);
        (route.queue.is_none() || route.queue == workload.queue) && route.labels.iter().all(labels)
    })
}

/// Flavor choices of a workload, or of the first matching route, and the route's price limit.
fn requested_flavors(snapshot: &Snapshot, work: WorkloadId) -> (Vec<FlavorChoice>, Option<i64>) {
    let workload = &snapshot.workloads[work];
    let route = route_of(snapshot, workload);
    let most = route.and_then(|route| route.most_price);
    match (workload.flavors.is_empty(), route) {
        (false, _) => (workload.flavors.clone(), most),
        (true, Some(route)) => (route.flavors.clone(), most),
        (true, None) => (Vec::new(), None),
    }
}

/// Accelerator flavors of its queue; all flavors if unspecified.
fn offered(compiled: &CompiledFleet, work: WorkloadId) -> Vec<FlavorId> {
    let Some(queue) = compiled.workloads[work].queue else {
        return Vec::new();
    };
    let groups = &compiled.tree.branches[queue].groups;
    if groups.is_empty() {
        return (0..compiled.snapshot.flavors.len()).collect();
    }
    let plain = |name: &Name| matches!(&**name, "cpu" | "memory" | "pods");
    groups
        .iter()
        .filter(|group| !group.resources.iter().all(plain))
        .flat_map(|group| group.flavors.iter().copied())
        .collect()
}

/// Price of a flavor: its own, or the lowest of the devices on nodes with its labels.
fn price(compiled: &CompiledFleet, flavor: FlavorId) -> Option<Money> {
    let model = &compiled.snapshot.flavors[flavor];
    let carries = |node: &&super::snapshot::SnapshotNode| {
        let all = |(key, value)| node.labels.get(key) == Some(value);
        !model.labels.is_empty() && model.labels.iter().all(all)
    };
    let stated = model.price.map(Rate::from_micros).map(Money::known);
    stated.or_else(|| {
        let nodes = compiled.snapshot.nodes.iter().filter(carries);
        nodes
            .flat_map(|node| &node.devices)
            .filter_map(SnapshotDevice::rate)
            .min()
    })
}

fn weigh(
    compiled: &CompiledFleet,
    work: WorkloadId,
    (flavor, speed_milli, named): (FlavorId, i64, bool),
    most: Option<i64>,
) -> FlavorCandidate {
    let name = compiled.snapshot.flavors[flavor].name.clone();
    // A slice's share of its device cannot be derived from its resource name.
    let mut sets = compiled.snapshot.workloads[work].sets.iter();
    let slices = sets.any(|set| {
        let mut asks = set.requests.devices.iter();
        asks.any(|ask| ask.resource.contains("/mig-"))
    });
    let money = price(compiled, flavor).filter(|_| !slices);
    let price = money.map(|money| money.all.micros());
    let allowed = most.is_none_or(|most| price.is_none_or(|price| price <= most));
    let mut snapshot = (*compiled.snapshot).clone();
    snapshot.workloads[work].flavors = vec![FlavorChoice {
        flavor: name.clone(),
        speed_milli,
    }];
    let only = CompiledFleet::new(snapshot);
    let mut state = State::new(&only);
    let start = forecast::forecast_one(&state, work);
    let start_at = start.as_ref().and_then(|start| start.p50);
    let fits_now = start_at.is_some_and(|at| at <= state.now());
    let run = runtime(compiled, work, 500).map(|lasts| at_speed(lasts, speed_milli));
    let done = start_at
        .zip(run)
        .map(|(at, run)| Moment::from_millis(at.millis().saturating_add(run)));
    let devices: i64 = compiled.workloads[work]
        .sets
        .iter()
        .map(|set| compiled.requests[set.want].ask.device_milli() * i64::from(set.count))
        .sum();
    let cost = price.zip(run).and_then(|(price, run)| {
        let wide = i128::from(price) * i128::from(devices) * i128::from(run);
        i64::try_from(wide / 1_000 / 3_600_000).ok()
    });
    let why = if !allowed {
        "above the price limit of its route".to_owned()
    } else if fits_now {
        "it starts now".to_owned()
    } else if let Some(at) = start_at {
        format!("it starts at {}", at.rfc3339())
    } else {
        match state.find(work, &Relaxation::default()) {
            Ok(_) => "jobs ahead of it have no known end".to_owned(),
            Err(misses) => {
                let reasons = super::explain::read(&mut state, work, &misses);
                let first = reasons.first();
                first.map_or_else(String::new, super::explain::Reason::sentence)
            }
        }
    };
    FlavorCandidate {
        flavor: name,
        speed_milli,
        named,
        micro_usd_per_device_hour: price,
        list_price: money.is_some_and(Money::is_by_list),
        allowed,
        fits_now,
        start: start_at,
        done,
        run_seconds: run.map(|run| run / 1_000),
        cost_micro_usd: cost,
        why,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixture::{compiled, id, node, work};

    #[test]
    fn flavors_are_ranked_by_when_the_run_is_done_within_the_limit_of_price() {
        let of = |name: &str, class: &str, usd: f64| {
            let mut node = node(name, 8, "r", "b");
            node["labels"]["class"] = json!(class);
            for device in node["devices"].as_array_mut().expect("devices") {
                device["usd_per_device_hour"] = json!(usd);
            }
            node
        };
        let flavor = |name: &str| json!({ "name": name, "node_labels": { "class": name } });
        let runs = json!({ "state": "running", "admitted_at": "2026-11-21T06:40:00Z", "runtime_estimate_seconds": 600,
                           "placements": [{ "node": "n-h100" }] });
        let quota = |flavor: &str| json!({ "flavor": flavor, "nominal": 8 });
        let compiled = compiled(json!({
            "nodes": [of("n-h100", "h100", 3.0), of("n-a100", "a100", 1.0), of("n-b200", "b200", 9.0), of("n-l4", "l4", 0.5)],
            "flavors": [flavor("a100"), flavor("b200"), flavor("h100"), flavor("l4"), flavor("none")],
            "queues": [{ "name": "q", "quota": [quota("h100"), quota("a100"), quota("b200"), quota("l4"), quota("none")] }],
            "routes": [{ "match": { "queue": "q" }, "max_usd_per_device_hour": 6.0, "flavors": [
                { "flavor": "b200", "speed": 2.0 }, { "flavor": "h100", "speed": 1.0 }, { "flavor": "a100", "speed": 0.5 },
                { "flavor": "none", "speed": 1.0 }] }],
            "workloads": [work("runs", 1, 8, runs), work("waits", 1, 8, json!({ "queue": "q", "runtime_estimate_seconds": 3600 }))],
        }));
        let routing = route(&compiled, id(&compiled, "waits"));
        let order: Vec<&str> = routing.flavors.iter().map(|it| &*it.flavor).collect();
        // l4 belongs to the queue and defaults to speed 1; h100 is free after ten minutes; a100 takes twice as long.
        assert_eq!(order, ["l4", "h100", "a100", "none", "b200"]);
        let of = |name: &str| {
            routing
                .flavors
                .iter()
                .find(|it| &*it.flavor == name)
                .expect("there")
        };
        assert!(!of("l4").named && of("h100").named);
        assert!(of("a100").fits_now && !of("h100").fits_now);
        assert_eq!(of("a100").run_seconds, Some(7_200));
        // Eight devices at a dollar for two hours.
        assert_eq!(of("a100").cost_micro_usd, Some(16_000_000));
        assert_eq!(
            of("h100").start.map(Moment::rfc3339).as_deref(),
            Some("2026-11-21T06:50:00Z")
        );
        assert_eq!(of("b200").why, "above the price limit of its route");
        assert_eq!((of("none").start, of("none").cost_micro_usd), (None, None));
        assert!(
            of("none").why.contains("have 0 devices in total"),
            "{}",
            of("none").why
        );
    }
}
