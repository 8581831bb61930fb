//! The queues of `govern`, and the jobs that name them.

use std::sync::Arc;

use super::Ledger;
use super::support::{NOW, labels, workload};
use model::base::{Name, ObjectKey};
use model::fleet::govern::GovernQueues;
use model::fleet::job::JobState;
use model::fleet::kinds::Table;
use model::fleet::observe::Observation;
use model::fleet::queue::QueueSystem;
use model::fleet::queue_document::read;

fn govern_queues(text: &str) -> Observation {
    let queues = read(text, "queues.toml");
    Observation::GovernQueues(Box::new(GovernQueues {
        uid: Name::default(),
        created: Default::default(),
        key: ObjectKey::new("stokehold", "stokehold-queues"),
        queues: queues.map_err(|fault| Name::from(fault.to_string())),
    }))
}

fn suspended_job(name: &str, queue: &str) -> Observation {
    let mut job = workload(Table::Jobs, "Job", name, 1, 1, None);
    job.labels = labels(&[("stokehold.dev/queue", queue)]);
    job.suspended = true;
    Observation::Workload(Box::new(job))
}

#[test]
fn the_queues_of_a_document_stay_until_a_good_one_replaces_them() {
    let mut ledger = Ledger::new(Arc::default());
    let names = |ledger: &mut Ledger| -> Vec<String> {
        let fleet = ledger.publish(NOW);
        let queues = fleet.queues.iter();
        queues.map(|queue| queue.name().to_string()).collect()
    };
    ledger.apply(govern_queues(
        "[[queue]]\nname = \"a\"\nparent = \"top\"\n[[queue]]\nname = \"b\"\n",
    ));
    // A cohort that a queue names is there, whether the document has it or not.
    assert_eq!(names(&mut ledger), ["top", "a", "b"]);
    ledger.apply(govern_queues("[[queue]]\nname = 3\n"));
    assert_eq!(names(&mut ledger), ["top", "a", "b"]);
    let state = ledger.publish(NOW).govern.expect("a ConfigMap");
    assert!(state.is_read);
    let fault = state.fault.as_deref().expect("a fault").to_owned();
    assert!(fault.starts_with("queues.toml:2: queue.name: "), "{fault}");
    ledger.apply(govern_queues("[[queue]]\nname = \"b\"\n"));
    assert_eq!(names(&mut ledger), ["b"]);
    let key = ObjectKey::new("stokehold", "stokehold-queues");
    ledger.apply(Observation::Gone(Table::GovernQueues, key));
    assert!(names(&mut ledger).is_empty());
    assert_eq!(ledger.publish(NOW).govern, None);
}

#[test]
fn a_governed_job_with_a_missing_queue_gives_that_reason() {
    let mut ledger = Ledger::new(Arc::default());
    ledger.apply(suspended_job("j", "c"));
    let reason = |ledger: &mut Ledger| {
        let fleet = ledger.publish(NOW);
        let job = &fleet.jobs[0];
        (job.state, job.reason_code, job.reason.to_string())
    };
    // Without a document nothing is concluded.
    assert_eq!(reason(&mut ledger).1, Some("queued"));
    ledger.apply(govern_queues("[[queue]]\nname = \"a\"\nparent = \"top\"\n"));
    let (state, code, words) = reason(&mut ledger);
    assert_eq!((state, code), (JobState::Waiting, Some("no-queue")));
    assert_eq!(
        words,
        "there is no queue c in ConfigMap stokehold/stokehold-queues"
    );
    ledger.apply(suspended_job("j", "top"));
    assert!(
        reason(&mut ledger)
            .2
            .starts_with("top is a parent queue and admits no jobs")
    );
    ledger.apply(suspended_job("j", "a"));
    assert_eq!(reason(&mut ledger).1, Some("queued"));
    let fleet = ledger.publish(NOW);
    assert_eq!(fleet.jobs[0].queue_system, QueueSystem::Stokehold);
    assert!(fleet.jobs[0].govern.as_ref().is_some_and(|it| it.suspended));
}

#[test]
fn a_queue_says_what_its_admitted_jobs_hold_whether_their_pods_are_there_or_not() {
    let mut ledger = Ledger::new(Arc::default());
    ledger.apply(govern_queues(
        "[[queue]]\nname = \"a\"\nparent = \"top\"\n[[queue.quota]]\nflavor = \"h100\"\nnominal = 2\n",
    ));
    let used = |ledger: &mut Ledger| {
        let fleet = ledger.publish(NOW);
        let queue = fleet
            .queues
            .iter()
            .find(|queue| queue.name().as_str() == "a");
        let quota = queue.expect("a queue").quotas[0].clone();
        (quota.used, quota.borrowed)
    };
    assert_eq!(used(&mut ledger), (Some(0), Some(0)));
    let mut job = workload(Table::Jobs, "Job", "j", 3, 1, None);
    job.labels = labels(&[("stokehold.dev/queue", "a")]);
    job.pod_sets = Arc::from([model::fleet::siting::JobPodSet {
        count: 3,
        request: job.per_pod.clone(),
        ..model::fleet::siting::JobPodSet::default()
    }]);
    job.annotations = labels(&[
        ("stokehold.dev/admitted-at", &job.created.rfc3339()),
        ("stokehold.dev/flavor", "H100"),
    ]);
    ledger.apply(Observation::Workload(Box::new(job.clone())));
    assert_eq!(used(&mut ledger), (Some(3_000), Some(1_000)));
    job.suspended = true;
    job.annotations = labels(&[]);
    ledger.apply(Observation::Workload(Box::new(job)));
    assert_eq!(used(&mut ledger), (Some(0), Some(0)));
}
