//! Writes the document of a snapshot. Reading it back gives the same snapshot.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::options;
use crate::snapshot::{
    Backfill, Borrow, DEVICES, EngineHealth, EngineOptions, FairStrategy, Flavor, FlavorChoice,
    HeldDevices, Node, Origin, Origins, OtherHandle, PLENTY, PodSet, Queue, QueueingStrategy,
    Reclaim, ResourceRequests, Snapshot, Status, Stop, Taint, Toleration, Within, Workload,
    unit_is_milli,
};
use model::base::{Moment, Name};

use super::VERSION;

/// The whole document.
pub fn value(snapshot: &Snapshot) -> Value {
    let budgets = snapshot.budgets.iter().map(|budget| {
        json!({
            "namespace": budget.namespace, "name": budget.name, "pods": budget.pods,
            "disruptions_allowed": budget.allowed, "desired_healthy": budget.desired_healthy,
        })
    });
    let runs = snapshot.runs.iter().map(|runs| {
        json!({
            "owner": runs.owner, "count": runs.count, "p10_seconds": seconds(runs.p10_ms),
            "p50_seconds": seconds(runs.p50_ms), "p90_seconds": seconds(runs.p90_ms),
        })
    });
    let routes = snapshot.routes.iter().map(|route| {
        json!({
            "match": { "queue": route.queue, "label": route.labels },
            "flavors": choices(&route.flavors),
            "max_usd_per_device_hour": route.most_price.map(dollars),
            "origin": origin(&route.origin),
        })
    });
    let residents = snapshot.residents.iter().map(|pod| {
        json!({
            "namespace": pod.namespace, "name": pod.name, "uid": pod.uid, "node": pod.node,
            "owner_kind": pod.owner, "deleted": pod.deleted.map(moment),
            "cpu_milli": pod.cpu_milli, "memory_bytes": pod.memory_bytes,
        })
    });
    let classes = snapshot.classes.iter().map(|class| {
        let kind = match class.of_workloads {
            true => "WorkloadPriorityClass",
            false => "PriorityClass",
        };
        json!({ "kind": kind, "name": class.name, "value": class.value })
    });
    let topologies = snapshot
        .topologies
        .iter()
        .map(|topology| json!({ "name": topology.name, "levels": topology.levels }));
    json!({
        "version": VERSION,
        "revision": snapshot.revision,
        "at": moment(snapshot.at),
        "nodes": snapshot.nodes.iter().map(node).collect::<Value>(),
        "topologies": topologies.collect::<Value>(),
        "flavors": flavors(snapshot),
        "queues": queues(snapshot),
        "workloads": workloads(snapshot),
        "budgets": budgets.collect::<Value>(),
        "residents": residents.collect::<Value>(),
        "priority_classes": classes.collect::<Value>(),
        "runs": runs.collect::<Value>(),
        "routes": routes.collect::<Value>(),
        "not_visible": snapshot.not_visible,
        "engine": options(&snapshot.options, &snapshot.origins),
    })
}

/// The value of the key `flavors`.
pub fn flavors(snapshot: &Snapshot) -> Value {
    snapshot.flavors.iter().map(flavor).collect()
}

/// The value of the key `queues`.
pub fn queues(snapshot: &Snapshot) -> Value {
    snapshot.queues.iter().map(queue).collect()
}

/// The value of the key `workloads`.
pub fn workloads(snapshot: &Snapshot) -> Value {
    snapshot.workloads.iter().map(workload).collect()
}

fn moment(at: Moment) -> Value {
    let whole = at.rfc3339();
    let millis = at.millis().rem_euclid(1_000);
    Value::String(match whole.strip_suffix('Z') {
        Some(second) if millis > 0 => format!("{second}.{millis:03}Z"),
        _ => whole,
    })
}

/// Thousandths as a decimal number, exactly.
fn decimal(milli: i64) -> Value {
    if milli % 1_000 == 0 {
        return json!(milli / 1_000);
    }
    json!(milli as f64 / 1_000.0)
}

fn seconds(millis: i64) -> Value {
    decimal(millis)
}

fn dollars(micros: i64) -> f64 {
    model::base::Rate::from_micros(micros).usd()
}

/// An amount in a resource's unit, in document format: whole units, or thousandths as Kubernetes writes them.
fn amount(resource: &str, amount: i64) -> Value {
    match unit_is_milli(resource) {
        true if amount % 1_000 == 0 => json!(amount / 1_000),
        true => json!(format!("{amount}m")),
        false => json!(amount),
    }
}

fn taint(taint: &Taint) -> Value {
    json!({ "key": taint.key, "value": taint.value, "effect": taint.effect.name() })
}

fn toleration(toleration: &Toleration) -> Value {
    json!({
        "key": toleration.key,
        "operator": if toleration.value.is_some() { "Equal" } else { "Exists" },
        "value": toleration.value,
        "effect": toleration.effect.map(|effect| effect.name()),
    })
}

fn node(node: &Node) -> Value {
    let mut allocatable = Map::new();
    if node.cpu_milli != PLENTY {
        allocatable.insert("cpu_milli".to_owned(), json!(node.cpu_milli));
    }
    if node.memory_bytes != PLENTY {
        allocatable.insert("memory_bytes".to_owned(), json!(node.memory_bytes));
    }
    let devices = node.devices.iter().map(|device| {
        let slices = device.slices.iter();
        json!({
            "index": device.index,
            "class": device.class,
            "resource": device.resource,
            "health": match device.health {
                EngineHealth::Ok => "ok",
                EngineHealth::Warn => "warn",
                EngineHealth::Fault => "fault",
                EngineHealth::Unknown => "unknown",
            },
            "usd_per_device_hour": device.price.map(dollars),
            "list_price": device.by_list,
            "slices": slices
                .map(|slice| json!({ "name": slice.name, "resource": slice.resource, "share": slice.share }))
                .collect::<Value>(),
        })
    });
    json!({
        "name": node.name,
        "uid": node.uid,
        "pool": node.pool,
        "ready": node.ready,
        "unschedulable": node.cordoned,
        "against_uncordon": node.against_uncordon,
        "no_more": node.no_more,
        "labels": node.labels,
        "taints": node.taints.iter().map(taint).collect::<Value>(),
        "allocatable": allocatable,
        "billing": node.billing.map(|billing| billing.name()),
        "instance_type": node.instance_type,
        "region": node.region,
        "topology": node.topology,
        "devices": devices.collect::<Value>(),
    })
}

fn flavor(flavor: &Flavor) -> Value {
    json!({
        "name": flavor.name,
        "node_labels": flavor.labels,
        "node_taints": flavor.taints.iter().map(taint).collect::<Value>(),
        "tolerations": flavor.tolerations.iter().map(toleration).collect::<Value>(),
        "topology": flavor.topology,
        "billing": flavor.billing.map(|billing| billing.name()),
        "usd_per_device_hour": flavor.price.map(dollars),
    })
}

fn queue(queue: &Queue) -> Value {
    let quotas = queue.quotas.iter().map(|quota| {
        let amount = |value: i64| amount(&quota.resource, value);
        let mut out = json!({
            "flavor": quota.flavor,
            "nominal": amount(quota.nominal),
            "borrow_limit": quota.borrow.map(amount),
            "lend_limit": quota.lend.map(amount),
            "cap": quota.cap.map(amount),
        });
        if &*quota.resource != DEVICES {
            out["resource"] = json!(quota.resource);
        }
        out
    });
    let search = |stops: bool| if stops { "stop" } else { "next" };
    json!({
        "name": queue.name,
        "object": queue.object,
        "parent": queue.parent,
        "system": queue.system.name(),
        "admits": queue.admits,
        "weight": decimal(queue.weight_milli),
        "stopped": match queue.stop {
            Stop::None => "none",
            Stop::Hold => "hold",
            Stop::Drain => "drain",
            Stop::Inactive => "inactive",
        },
        "strategy": match queue.order {
            QueueingStrategy::Strict => "strict",
            QueueingStrategy::BestEffort => "best-effort",
        },
        "preemption": {
            "within": match queue.preemption.within {
                Within::Never => "never",
                Within::LowerPriority => "lower-priority",
                Within::LowerOrNewerEqualPriority => "lower-or-newer-equal-priority",
            },
            "reclaim": match queue.preemption.reclaim {
                Reclaim::Never => "never",
                Reclaim::LowerPriority => "lower-priority",
                Reclaim::Any => "any",
            },
            "borrow": match queue.preemption.borrow {
                Borrow::Never => "never",
                Borrow::LowerPriority => "lower-priority",
            },
            "borrow_threshold": queue.preemption.borrow_threshold,
        },
        "left_alone": {
            "preempt_seconds": queue.left_alone.preempt_ms.map(seconds),
            "reclaim_seconds": queue.left_alone.reclaim_ms.map(seconds),
        },
        "fungibility": {
            "borrow": search(queue.fungibility.borrow_stops),
            "preempt": search(queue.fungibility.preempt_stops),
        },
        "quota": quotas.collect::<Value>(),
    })
}

fn choices(choices: &[FlavorChoice]) -> Value {
    let choice = |choice: &FlavorChoice| json!({ "flavor": choice.flavor, "speed": decimal(choice.speed_milli) });
    choices.iter().map(choice).collect()
}

fn ask(ask: &ResourceRequests) -> Value {
    let devices: BTreeMap<&Name, u32> = ask
        .devices
        .iter()
        .map(|ask| (&ask.resource, ask.count))
        .collect();
    json!({ "cpu_milli": ask.cpu_milli, "memory_bytes": ask.memory_bytes, "devices": devices })
}

fn held_devices(grip: &HeldDevices) -> Value {
    json!({ "device": grip.device, "slice": grip.slice, "milli": grip.milli })
}

fn pod_set(set: &PodSet) -> Value {
    let affinity = set.affinity.iter().map(|term| {
        let requirement = |requirement: &crate::snapshot::Requirement| {
            json!({
                "key": requirement.key,
                "operator": requirement.op.name(),
                "values": requirement.values,
            })
        };
        term.iter().map(requirement).collect::<Value>()
    });
    let placements = set.placements.iter().map(|placement| {
        json!({
            "pod": placement.pod,
            "uid": placement.uid,
            "deleted": placement.deleted.map(moment),
            "started": placement.started.map(moment),
            "node": placement.node,
            "devices": placement.devices.iter().map(held_devices).collect::<Value>(),
        })
    });
    let mut out = json!({
        "name": set.name,
        "count": set.count,
        "min": set.min,
        "requests": ask(&set.requests),
        "node_selector": set.selector,
        "affinity": affinity.collect::<Value>(),
        "tolerations": set.tolerations.iter().map(toleration).collect::<Value>(),
        "topology": set.topology.as_ref().map(|wish| {
            json!({ "level": wish.level, "required": wish.required })
        }),
        "admitted": set.admitted,
        "quota": set.quota.iter().map(|(resource, each)| (resource.to_string(), amount(resource, *each)))
            .collect::<serde_json::Map<String, Value>>(),
        "placements": placements.collect::<Value>(),
    });
    if let Some(first) = set.requests.devices.first() {
        out["milli"] = json!(first.milli);
    }
    out
}

fn workload(workload: &Workload) -> Value {
    json!({
        "namespace": workload.key.key.namespace,
        "name": workload.key.key.name,
        "kind": workload.key.kind,
        "uid": workload.uid,
        "queue": workload.queue,
        "team": workload.team,
        "labels": workload.labels,
        "priority": workload.priority,
        "created": moment(workload.created),
        "state": match workload.status {
            Status::Waiting => "waiting",
            Status::Running => "running",
            Status::Held => "held",
            Status::Ending => "ending",
        },
        "pod_sets": workload.sets.iter().map(pod_set).collect::<Value>(),
        "flavors": choices(&workload.flavors),
        "runtime_estimate_seconds": workload.estimate_ms.map(seconds),
        "owner": workload.owner,
        "last_checkpoint": workload.checkpoint.map(moment),
        "deadline": workload.deadline.map(moment),
        "preemptible": workload.preemptible,
        "never_preempts": workload.never_preempts,
        "levers": {
            "suspend": workload.mutations.suspend,
            "reprioritise": workload.mutations.reprioritise,
            "honours_budgets": workload.mutations.honours_budgets,
        },
        "admission": workload.admission.as_ref().map(|handle| {
            let others: Value = handle.others.iter().map(other).collect();
            json!({
                "system": handle.system.name(), "name": handle.name, "uid": handle.uid,
                "others": others,
            })
        }),
        "blocked": workload.blocked,
        "elsewhere": workload.elsewhere,
        "admitted_at": workload.admitted_at.map(moment),
    })
}

fn other(other: &OtherHandle) -> Value {
    json!({
        "name": other.name, "uid": other.uid, "active": other.active, "has_quota": other.has_quota,
    })
}

fn origin(origin: &Origin) -> Value {
    let at = (!origin.at.is_empty()).then_some(&origin.at);
    json!({ "source": origin.source, "at": at })
}

fn options(options: &EngineOptions, origins: &Origins) -> Value {
    let strategy = |strategy: &FairStrategy| options::strategy_name(*strategy);
    let fair = options.fair_sharing.as_ref();
    json!({
        "placement": options.placement.name(),
        "backfill": match options.backfill {
            Backfill::None => json!("none"),
            Backfill::Head => json!("head"),
            Backfill::Depth(depth) => json!(depth),
        },
        "fair_sharing": fair.map(|list| list.iter().map(strategy).collect::<Vec<_>>()),
        "exact_victims": options.exact_victims,
        "most_reservations": options.most_reservations,
        "origins": {
            "placement": origin(&origins.placement),
            "backfill": origin(&origins.backfill),
            "fair_sharing": origin(&origins.fair_sharing),
        },
    })
}
