//! Small observations for the ledger's tests.

use std::time::Duration;

use super::*;
use model::fleet::condition::Condition;
use model::fleet::object_parts::{OwnerRef, Phase, Resources};
use model::fleet::reading::{Reading, ReadingScope};
use model::fleet::signal::Signal;

pub(crate) const NOW: Moment = Moment::from_seconds(1_800_000_000);

pub(crate) fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs
        .iter()
        .map(|(key, value)| (Name::new(key), Name::new(value)))
        .collect()
}

pub(crate) fn devices(pairs: &[(&str, u32)]) -> Resources {
    Resources {
        devices: pairs
            .iter()
            .map(|(name, count)| (Name::new(name), *count))
            .collect(),
        ..Resources::default()
    }
}

pub(crate) fn node(name: &str, resources: &[(&str, u32)], extra: &[(&str, &str)]) -> Observation {
    let ready = Condition {
        kind: Name::new("Ready"),
        status: Some(true),
        reason: Name::default(),
        message: Name::default(),
        since: Some(NOW.minus(Duration::from_secs(86_400))),
    };
    Observation::Node(Box::new(NodeSeen {
        name: Name::new(name),
        uid: Name::new(name),
        labels: labels(extra),
        conditions: vec![ready],
        capacity: devices(resources),
        allocatable: devices(resources),
        ..NodeSeen::default()
    }))
}

pub(crate) fn pod_seen(key: &str, on: Option<&str>, asks: &[(&str, u32)]) -> PodSeen {
    PodSeen {
        key: ObjectKey::new("ns", key),
        uid: Name::new(key),
        node: on.map(Name::new),
        phase: if on.is_some() {
            Phase::Running
        } else {
            Phase::Pending
        },
        requests: devices(asks),
        created: NOW.minus(Duration::from_secs(7200)),
        scheduled: on.map(|_| NOW.minus(Duration::from_secs(3600))),
        ..PodSeen::default()
    }
}

pub(crate) fn pod(key: &str, on: Option<&str>, asks: &[(&str, u32)]) -> Observation {
    Observation::Pod(Box::new(pod_seen(key, on, asks)))
}

pub(crate) fn owned(
    key: &str,
    on: Option<&str>,
    gpus: u32,
    kind: &str,
    owner: &str,
) -> Observation {
    let mut seen = pod_seen(key, on, &[("nvidia.com/gpu", gpus)]);
    seen.owner = Some(owner_ref(kind, owner));
    Observation::Pod(Box::new(seen))
}

pub(crate) fn owner_ref(kind: &str, name: &str) -> OwnerRef {
    OwnerRef {
        kind: Name::new(kind),
        name: Name::new(name),
        uid: Name::from(format!("{kind}-{name}")),
    }
}

pub(crate) fn workload(
    table: Table,
    kind: &str,
    name: &str,
    pods: u32,
    gpus: u32,
    owner: Option<OwnerRef>,
) -> WorkloadSeen {
    WorkloadSeen {
        table,
        kind: Name::new(kind),
        key: ObjectKey::new("ns", name),
        uid: Name::from(format!("{kind}-{name}")),
        labels: Labels::default(),
        annotations: Labels::default(),
        owner,
        created: NOW.minus(Duration::from_secs(9000)),
        suspended: false,
        pods,
        gang_min: None,
        per_pod: devices(&[("nvidia.com/gpu", gpus)]),
        total: devices(&[("nvidia.com/gpu", gpus * pods)]),
        node_selector: Labels::default(),
        priority_class: None,
        conditions: Vec::new(),
        deleted: None,
        started: None,
        finished: None,
        outcome: None,
        failed_pods: 0,
        pod_sets: Arc::from([]),
        time_limit: None,
        managed_by: None,
        scheduler: None,
        generation: 1,
        succeeded_pods: 0,
        restarts: 0,
    }
}

pub(crate) fn reading(index: u32, util: f64, holder: Option<&str>) -> Reading {
    let mut reading = Reading::new(Name::new("dcgm"), ReadingScope::Device);
    reading.index = Some(index);
    reading.uuid = Some(Name::from(format!("GPU-{index}")));
    reading.pod = holder.map(|name| ObjectKey::new("ns", name));
    reading.signals = [(Signal::Util, util)].into_iter().collect();
    reading
}

pub(crate) fn page(node: &str, at: Moment, readings: Vec<Reading>) -> Observation {
    Observation::Page(Box::new(Page {
        node: Some(Name::new(node)),
        at,
        interval: Duration::from_secs(30),
        readings,
    }))
}

pub(crate) fn fold(observations: impl IntoIterator<Item = Observation>) -> Ledger {
    let mut ledger = Ledger::new(Arc::new(Policy::default()));
    for observation in observations {
        ledger.apply(observation);
    }
    ledger
}
