//! Writes a snapshot as a fleet document. Reading the document back gives the same snapshot.

use serde_json::{Map, Value, json};

use crate::snapshot::{
    Backfill, DEVICES, EngineOptions, FairStrategy, FlavorChoice, HeldDevices, OptionOrigin,
    OptionOrigins, OtherHandle, PLENTY, PodSet, ResourceRequests, Snapshot, SnapshotFlavor,
    SnapshotNode, SnapshotQueue, SnapshotQuota, SnapshotTaint, SnapshotToleration, Workload,
    unit_is_milli,
};
use model::base::Moment;

use super::VERSION;
use super::cells::{
    AdmissionObject, Amount, BackfillCell, ChoiceCell, Decimal, EngineBudget, EngineCell,
    EngineOrigins, EngineQueue, EngineQuota, FlavorCell, FlavorSearch, FlavorTaint,
    FungibilityCell, HeldCell, LabelTopology, LeftAloneCell, LeversCell, OriginCell, OtherObject,
    PlacementCell, PreemptionCell, RequestCell, RequirementCell, ResidentCell, RouteCell,
    RouteMatch, RunsCell, SchedulingCells, SetTopology, TolerationCell, WorkloadCell, WorkloadPods,
};

/// The fleet document of a snapshot.
pub fn value(snapshot: &Snapshot) -> Value {
    let classes = snapshot.classes.iter().map(|class| {
        let kind = match class.of_workloads {
            true => "WorkloadPriorityClass",
            false => "PriorityClass",
        };
        json!({ "kind": kind, "name": class.name, "value": class.value })
    });
    let mut out = json!(scheduling(snapshot));
    let objects = json!({
        "version": VERSION,
        "revision": snapshot.revision,
        "at": moment(snapshot.at),
        "nodes": snapshot.nodes.iter().map(node).collect::<Value>(),
        "priority_classes": classes.collect::<Value>(),
    });
    if let (Value::Object(out), Value::Object(objects)) = (&mut out, objects) {
        out.extend(objects);
    }
    out
}

/// The parts of the document besides nodes and priority classes.
pub fn scheduling(snapshot: &Snapshot) -> SchedulingCells {
    let budgets = snapshot.budgets.iter().map(|budget| EngineBudget {
        namespace: budget.namespace.clone(),
        name: budget.name.clone(),
        pods: budget.pods.clone(),
        disruptions_allowed: budget.allowed,
        desired_healthy: budget.desired_healthy,
    });
    let runs = snapshot.runs.iter().map(|runs| RunsCell {
        owner: runs.owner.clone(),
        count: runs.count,
        p10_seconds: seconds(runs.p10_ms),
        p50_seconds: seconds(runs.p50_ms),
        p90_seconds: seconds(runs.p90_ms),
    });
    let routes = snapshot.routes.iter().map(|route| RouteCell {
        matches: RouteMatch {
            queue: route.queue.clone(),
            label: route.labels.clone(),
        },
        flavors: choices(&route.flavors),
        max_usd_per_device_hour: route.most_price.map(dollars),
        origin: origin(&route.origin),
    });
    let residents = snapshot.residents.iter().map(|pod| ResidentCell {
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
        uid: pod.uid.clone(),
        node: pod.node.clone(),
        owner_kind: pod.owner.clone(),
        deleted: pod.deleted.map(moment),
        cpu_milli: pod.cpu_milli,
        memory_bytes: pod.memory_bytes,
    });
    let topologies = snapshot.topologies.iter().map(|topology| LabelTopology {
        name: topology.name.clone(),
        levels: topology.levels.to_vec(),
    });
    SchedulingCells {
        queues: snapshot.queues.iter().map(queue).collect(),
        flavors: snapshot.flavors.iter().map(flavor).collect(),
        topologies: topologies.collect(),
        budgets: budgets.collect(),
        residents: residents.collect(),
        runs: runs.collect(),
        routes: routes.collect(),
        engine: options(&snapshot.options, &snapshot.origins),
        workloads: snapshot.workloads.iter().map(workload).collect(),
        not_visible: snapshot.not_visible.clone(),
    }
}

/// A moment as RFC 3339 (UTC), with milliseconds unless they are zero.
fn moment(at: Moment) -> String {
    let whole = at.rfc3339();
    let millis = at.millis().rem_euclid(1_000);
    match whole.strip_suffix('Z') {
        Some(second) if millis > 0 => format!("{second}.{millis:03}Z"),
        _ => whole,
    }
}

/// Thousandths as a decimal number, exactly.
fn decimal(milli: i64) -> Decimal {
    Decimal::of(milli, 1_000)
}

/// Milliseconds as seconds, exactly.
fn seconds(millis: i64) -> Decimal {
    decimal(millis)
}

/// A price in micro-USD as USD.
fn dollars(micros: i64) -> f64 {
    model::base::Rate::from_micros(micros).usd()
}

/// An amount of a resource as the document has it: in whole units, else in thousandths with Kubernetes' suffix `m`.
fn amount(resource: &str, amount: i64) -> Amount {
    match unit_is_milli(resource) {
        true if amount % 1_000 == 0 => Amount::Whole(amount / 1_000),
        true => Amount::Milli(format!("{amount}m")),
        false => Amount::Whole(amount),
    }
}

fn taint(taint: &SnapshotTaint) -> FlavorTaint {
    FlavorTaint {
        key: taint.key.clone(),
        value: taint.value.clone(),
        effect: taint.effect.name(),
    }
}

fn toleration(toleration: &SnapshotToleration) -> TolerationCell {
    TolerationCell {
        key: toleration.key.clone(),
        operator: match toleration.value {
            Some(_) => "Equal",
            None => "Exists",
        },
        value: toleration.value.clone(),
        effect: toleration.effect.map(|effect| effect.name()),
    }
}

fn node(node: &SnapshotNode) -> Value {
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
            "health": device.health.name(),
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
        "taints": node.taints.iter().map(taint).collect::<Vec<FlavorTaint>>(),
        "allocatable": allocatable,
        "billing": node.billing.map(|billing| billing.name()),
        "instance_type": node.instance_type,
        "region": node.region,
        "topology": node.topology,
        "devices": devices.collect::<Value>(),
    })
}

fn flavor(flavor: &SnapshotFlavor) -> FlavorCell {
    FlavorCell {
        name: flavor.name.clone(),
        node_labels: flavor.labels.clone(),
        node_taints: flavor.taints.iter().map(taint).collect(),
        tolerations: flavor.tolerations.iter().map(toleration).collect(),
        topology: flavor.topology.clone(),
        billing: flavor.billing.map(|billing| billing.name()),
        usd_per_device_hour: flavor.price.map(dollars),
    }
}

fn quota(quota: &SnapshotQuota) -> EngineQuota {
    let amount = |value: i64| amount(&quota.resource, value);
    EngineQuota {
        flavor: quota.flavor.clone(),
        resource: (&*quota.resource != DEVICES).then(|| quota.resource.clone()),
        nominal: amount(quota.nominal),
        borrow_limit: quota.borrow.map(amount),
        lend_limit: quota.lend.map(amount),
        cap: quota.cap.map(amount),
    }
}

fn queue(queue: &SnapshotQueue) -> EngineQueue<EngineQuota> {
    let search = |stops: bool| match stops {
        true => FlavorSearch::Stop.name(),
        false => FlavorSearch::Next.name(),
    };
    EngineQueue {
        name: queue.name.clone(),
        object: queue.object.clone(),
        parent: queue.parent.clone(),
        system: queue.system.name(),
        admits: queue.admits,
        weight: decimal(queue.weight_milli),
        stopped: queue.stop.name(),
        strategy: queue.order.name(),
        preemption: PreemptionCell {
            within: queue.preemption.within.engine_name(),
            reclaim: queue.preemption.reclaim.name(),
            borrow: queue.preemption.borrow.name(),
            borrow_threshold: queue.preemption.borrow_threshold,
        },
        left_alone: LeftAloneCell {
            preempt_seconds: queue.left_alone.preempt_ms.map(seconds),
            reclaim_seconds: queue.left_alone.reclaim_ms.map(seconds),
        },
        orders_by_usage: queue.orders_by_usage,
        fungibility: FungibilityCell {
            borrow: search(queue.fungibility.borrow_stops),
            preempt: search(queue.fungibility.preempt_stops),
            preference: queue.fungibility.preference.name(),
        },
        quota: queue.quotas.iter().map(quota).collect(),
    }
}

fn choices(choices: &[FlavorChoice]) -> Vec<ChoiceCell> {
    let choice = |choice: &FlavorChoice| ChoiceCell {
        flavor: choice.flavor.clone(),
        speed: decimal(choice.speed_milli),
    };
    choices.iter().map(choice).collect()
}

fn requests(requests: &ResourceRequests) -> RequestCell {
    let devices = requests.devices.iter();
    RequestCell {
        cpu_milli: requests.cpu_milli,
        memory_bytes: requests.memory_bytes,
        devices: devices
            .map(|request| (request.resource.clone(), request.count))
            .collect(),
    }
}

fn held_devices(held: &HeldDevices) -> HeldCell {
    HeldCell {
        device: held.device,
        slice: held.slice.clone(),
        milli: held.milli,
    }
}

fn pod_set(set: &PodSet) -> WorkloadPods {
    let affinity = set.affinity.iter().map(|term| {
        let requirements = term.iter().map(|requirement| RequirementCell {
            key: requirement.key.clone(),
            operator: requirement.op.name(),
            values: requirement.values.clone(),
        });
        requirements.collect()
    });
    let placements = set.placements.iter().map(|placement| PlacementCell {
        pod: placement.pod.clone(),
        uid: placement.uid.clone(),
        deleted: placement.deleted.map(moment),
        started: placement.started.map(moment),
        node: placement.node.clone(),
        devices: placement.devices.iter().map(held_devices).collect(),
    });
    let quota = set.quota.iter();
    WorkloadPods {
        name: set.name.clone(),
        count: set.count,
        min: set.min,
        milli: set.requests.devices.first().map(|first| first.milli),
        requests: requests(&set.requests),
        node_selector: set.selector.clone(),
        affinity: affinity.collect(),
        tolerations: set.tolerations.iter().map(toleration).collect(),
        topology: set.topology.as_ref().map(|topology| SetTopology {
            level: topology.level.clone(),
            required: topology.required,
        }),
        admitted: set.admitted.clone(),
        quota: quota
            .map(|(resource, each)| (resource.clone(), amount(resource, *each)))
            .collect(),
        placements: placements.collect(),
    }
}

fn workload(workload: &Workload) -> WorkloadCell {
    WorkloadCell {
        namespace: workload.key.key.namespace.clone(),
        name: workload.key.key.name.clone(),
        kind: workload.key.kind.clone(),
        uid: workload.uid.clone(),
        queue: workload.queue.clone(),
        team: workload.team.clone(),
        labels: workload.labels.clone(),
        priority: workload.priority,
        created: moment(workload.created),
        state: workload.status.name(),
        pod_sets: workload.sets.iter().map(pod_set).collect(),
        flavors: choices(&workload.flavors),
        runtime_estimate_seconds: workload.estimate_ms.map(seconds),
        owner: workload.owner.clone(),
        last_checkpoint: workload.checkpoint.map(moment),
        deadline: workload.deadline.map(moment),
        preemptible: workload.preemptible,
        never_preempts: workload.never_preempts,
        mutations: LeversCell {
            suspend: workload.mutations.suspend,
            reprioritise: workload.mutations.reprioritise,
            honours_budgets: workload.mutations.honours_budgets,
        },
        admission: workload
            .admission
            .as_ref()
            .map(|admission| AdmissionObject {
                system: admission.system.name(),
                name: admission.name.clone(),
                uid: admission.uid.clone(),
                others: admission.others.iter().map(other).collect(),
            }),
        blocked: workload.blocked.clone(),
        elsewhere: workload.elsewhere,
        not_forecast: workload.not_forecast.clone(),
        admitted_at: workload.admitted_at.map(moment),
    }
}

fn other(other: &OtherHandle) -> OtherObject {
    OtherObject {
        name: other.name.clone(),
        uid: other.uid.clone(),
        active: other.active,
        has_quota: other.has_quota,
    }
}

fn origin(origin: &OptionOrigin) -> OriginCell {
    OriginCell {
        source: origin.source,
        at: (!origin.at.is_empty()).then(|| origin.at.clone()),
    }
}

fn options(options: &EngineOptions, origins: &OptionOrigins) -> EngineCell {
    let fair = options.fair_sharing.as_ref();
    let name = |strategy: &FairStrategy| strategy.name();
    EngineCell {
        placement: options.placement.name(),
        backfill: match options.backfill {
            Backfill::None => BackfillCell::Word("none"),
            Backfill::Head => BackfillCell::Word("head"),
            Backfill::Depth(depth) => BackfillCell::Depth(depth),
        },
        fair_sharing: fair.map(|list| list.iter().map(name).collect()),
        exact_victims: options.exact_victims,
        most_reservations: options.most_reservations,
        origins: EngineOrigins {
            placement: origin(&origins.placement),
            backfill: origin(&origins.backfill),
            fair_sharing: origin(&origins.fair_sharing),
        },
    }
}
