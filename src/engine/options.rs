//! The options that apply to a decision and the origin of each, for answers and plans.

use model::base::Name;
pub use model::plan::Used;

use super::route;
use super::snapshot::{
    Backfill, FairStrategy, OptionOrigin, OptionSource, QueueingStrategy, Route, Snapshot,
    SnapshotQueue, System, Workload,
};

/// The options that apply to a snapshot; with a workload also those of its queue and its route.
pub fn used(snapshot: &Snapshot, workload: Option<&Workload>) -> Vec<Used> {
    let (options, origins) = (&snapshot.options, &snapshot.origins);
    let fair = match &options.fair_sharing {
        None => String::from("off"),
        Some(list) => list
            .iter()
            .copied()
            .map(FairStrategy::name)
            .collect::<Vec<_>>()
            .join(", "),
    };
    let backfill = match options.backfill {
        Backfill::None => String::from("none"),
        Backfill::Head => String::from("head"),
        Backfill::Depth(depth) => depth.to_string(),
    };
    let mut all = vec![
        Used::new("placement", options.placement.name(), &origins.placement),
        Used::new("backfill", backfill, &origins.backfill),
        Used::new("fair_sharing", fair, &origins.fair_sharing),
    ];
    let Some(workload) = workload else {
        return all;
    };
    let find = |name: &Name| snapshot.queues.iter().find(|queue| queue.name == *name);
    let mut queue = workload.queue.as_ref().and_then(find);
    // Kueue only; the other systems share by their own weights and priorities.
    if queue.is_some_and(|own| matches!(own.system, System::Kai | System::Volcano)) {
        all.retain(|used| used.option != "fair_sharing");
    }
    if queue.is_none_or(|own| own.system != System::Stokehold) {
        // Other schedulers reserve nothing.
        all.retain(|used| used.option != "backfill");
    }
    if let Some(own) = queue {
        let origin = object(own);
        all.push(Used::new("queue_order", order(own), &origin));
        all.push(Used::new("preemption", preemption(own), &origin));
    }
    // Weights matter in queues with fair sharing; each level has its own.
    let mut levels = 0;
    while let Some(level) = queue.filter(|level| shares(snapshot, level) && levels < 32) {
        all.push(Used::new("weight", weight(level), &object(level)));
        queue = level.parent.as_ref().and_then(find);
        levels += 1;
    }
    match route::route_of(snapshot, workload) {
        Some(route) => all.push(Used::new("route", route_words(route), &route.origin)),
        None => all.push(Used::new("route", "none", &OptionOrigin::default())),
    }
    all
}

/// The options that a text shows: those that differ from their defaults, and those that are assumed. Documents have all of them.
pub fn changed(all: &[Used]) -> impl Iterator<Item = &Used> {
    let defaults = defaults();
    all.iter().filter(move |used| match used.source {
        OptionSource::Default => false,
        OptionSource::Assumed => true,
        _ => {
            let is_same = |it: &Used| it.option == used.option && it.value == used.value;
            !defaults.iter().any(is_same)
        }
    })
}

/// Every option with its default.
fn defaults() -> Vec<Used> {
    let mut all = used(&Snapshot::default(), Some(&Workload::default()));
    all.push(Used::new("backfill", "none", &OptionOrigin::default()));
    let (queue, origin) = (SnapshotQueue::default(), OptionOrigin::default());
    all.push(Used::new("queue_order", order(&queue), &origin));
    all.push(Used::new("preemption", preemption(&queue), &origin));
    all.push(Used::new("weight", weight(&queue), &origin));
    all
}

/// Whether a queue's weight has any effect.
fn shares(snapshot: &Snapshot, queue: &SnapshotQueue) -> bool {
    snapshot.options.fair_sharing.is_some() || matches!(queue.system, System::Kai | System::Volcano)
}

fn object(queue: &SnapshotQueue) -> OptionOrigin {
    let name = match queue.object.is_empty() {
        true => &queue.name,
        false => &queue.object,
    };
    let kind = match (queue.system, queue.admits) {
        (System::None, _) => return OptionOrigin::document(),
        (System::Kueue, true) => "ClusterQueue",
        (System::Kueue, false) => "Cohort",
        (System::Volcano, _) => "Volcano Queue",
        (System::Kai, _) => "KAI Queue",
        (System::Stokehold, _) => "queue of stokehold",
    };
    OptionOrigin::new(OptionSource::Object, format!("{kind} {name}"))
}

const fn order(queue: &SnapshotQueue) -> &'static str {
    match queue.order {
        QueueingStrategy::Strict => "strict",
        QueueingStrategy::BestEffort => "best-effort",
    }
}

fn preemption(queue: &SnapshotQueue) -> String {
    let it = &queue.preemption;
    format!(
        "within {}, reclaim {}, borrow {}",
        it.within.name(),
        it.reclaim.name(),
        it.borrow.name()
    )
}

fn weight(queue: &SnapshotQueue) -> String {
    format!("{}", queue.weight_milli as f64 / 1000.0)
}

fn route_words(route: &Route) -> String {
    let flavors: Vec<&str> = route.flavors.iter().map(|choice| &*choice.flavor).collect();
    let limit = route.most_price.map_or_else(String::new, |most| {
        format!(", at most ${:.2} a device-hour", most as f64 / 1e6)
    });
    format!("{}{limit}", flavors.join(" > "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixture::{compiled, work};

    #[test]
    fn each_option_is_reported_with_its_origin() {
        let compiled = compiled(json!({
            "flavors": [{ "name": "tpu" }, { "name": "h100" }],
            "queues": [
                { "name": "root", "admits": false, "system": "kueue", "weight": 3 },
                { "name": "nlp", "parent": "root", "system": "kueue", "weight": 2,
                  "preemption": { "within": "lower-priority", "reclaim": "any", "borrow": "never" } },
            ],
            "engine": { "fair_sharing": true, "backfill": 4 },
            "routes": [{ "match": { "queue": "nlp" }, "max_usd_per_device_hour": 6.0,
                         "flavors": [{ "flavor": "tpu", "speed": 1.3 }, "h100"] }],
            "workloads": [work("waits", 1, 8, json!({ "queue": "nlp" }))],
        }));
        let snapshot = &compiled.snapshot;
        let all = used(snapshot, snapshot.workloads.first());
        let texts: Vec<String> = all.iter().map(Used::to_string).collect();
        assert_eq!(
            texts,
            [
                "placement policy: stokehold (default)",
                "fair sharing: less-than-or-equal-to-final-share, less-than-initial-share (fleet document)",
                "queue order: best-effort (ClusterQueue nlp)",
                "preemption: within lower-priority, reclaim any, borrow never (ClusterQueue nlp)",
                "weight: 2 (ClusterQueue nlp)",
                "weight: 3 (Cohort root)",
                "route: tpu > h100, at most $6.00 a device-hour (fleet document)",
            ]
        );
        assert_eq!(used(snapshot, None).len(), 3);
        // The placement policy and the order are the defaults.
        let shown: Vec<String> = changed(&all).map(Used::to_string).collect();
        assert_eq!(shown, [&texts[1..2], &texts[3..]].concat());
        assert_eq!(changed(&defaults()).count(), 0);
    }
}
