//! Queues of the fleets that frames are drawn of: two cohorts, quotas in use, borrowed and unused, one queue held.

use super::*;
use model::fleet::observe::WorkloadFailure;
use model::fleet::queue::{Measure, Queue, QueueKey, QueueKind, QueueSystem, Quota, Stop};

fn quota(flavor: &str, nominal: i64, used: i64) -> Quota {
    Quota {
        flavor: Name::new(flavor),
        resource: Name::new("nvidia.com/gpu"),
        measure: Measure::MilliDevices,
        nominal: Some(nominal * 1000),
        used: Some(used * 1000),
        borrowed: Some((used - nominal).max(0) * 1000),
        ..Quota::default()
    }
}

fn queue(kind: QueueKind, name: &str, parent: Option<&str>, quotas: Vec<Quota>) -> Arc<Queue> {
    Arc::new(Queue {
        key: QueueKey {
            system: QueueSystem::Kueue,
            kind,
            name: Name::new(name),
        },
        parent: parent.map(Name::new),
        share: (kind == QueueKind::Queue).then_some(quotas.len() as f64 * 0.6),
        stop: if name == "speech" {
            Stop::Hold
        } else {
            Stop::None
        },
        quotas: quotas.into(),
        ..Queue::default()
    })
}

/// Queues named as the teams, in the order of a fleet.
pub(super) fn queues() -> Vec<Arc<Queue>> {
    use QueueKind::{Cohort, Queue};
    let mut all = vec![
        queue(Cohort, "batch", None, Vec::new()),
        queue(Cohort, "serving", None, vec![quota("h100", 256, 128)]),
        queue(
            Queue,
            "prod",
            Some("serving"),
            vec![quota("h100", 256, 128), quota("a100", 64, 0)],
        ),
        queue(
            Queue,
            "research",
            Some("batch"),
            vec![quota("h100", 512, 608), quota("a100", 256, 128)],
        ),
        queue(Queue, "speech", None, vec![quota("l4", 64, 12)]),
        queue(
            Queue,
            "vision",
            Some("batch"),
            vec![quota("h100", 64, 0), quota("a100", 128, 128)],
        ),
    ];
    all.sort_by(|a, b| a.key.cmp(&b.key));
    all
}

/// Gives each job its pods, and makes one of them fail.
pub(super) fn people(jobs: &mut BTreeMap<JobKey, Job>, nodes: &[Arc<Node>]) {
    let mut pods: BTreeMap<&JobKey, Vec<Arc<Pod>>> = BTreeMap::new();
    for pod in nodes.iter().flat_map(|node| node.pods.iter()) {
        pods.entry(&pod.job).or_default().push(pod.clone());
    }
    for (key, mut all) in pods {
        if let Some(job) = jobs.get_mut(key) {
            all.sort_by(|a, b| a.key().cmp(b.key()));
            job.pods = all.into();
        }
    }
    let failing = jobs.values_mut().filter(|job| job.pods.len() == 1).nth(2);
    if let Some(job) = failing {
        job.failure = Some(WorkloadFailure {
            exit_code: Some(137),
            message: Name::new("OOMKilled"),
            restarts: 4,
            last_eviction: Some(ago(4_000)),
            restarted: None,
            ended: None,
            own_words: false,
        });
    }
}
