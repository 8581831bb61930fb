//! Since when a job waits, and since when a device is idle: what a later look must not reset, and what a first look cannot know.

use std::time::Duration;

use super::support::*;
use super::tests_groups::{group, kueue, seen};
use super::*;
use model::fleet::admission::GroupSeen;
use model::fleet::condition::Condition;
use model::fleet::history::{History, PastReading};
use model::fleet::job::{Job, JobState};
use model::fleet::object_parts::Phase;
use model::fleet::observe::{Lost, LostKind};
use model::fleet::queue::QueueSystem;
use model::fleet::run_hold::{HELD, HELD_BY_RUN, RunHold};
use model::fleet::signal::Signal;

/// A Job made two and a half hours ago, whose controller knows it since then.
fn made_long_ago(name: &str) -> WorkloadSeen {
    let mut job = workload(Table::Jobs, "Job", name, 1, 8, None);
    job.started = Some(job.created.plus(Duration::from_secs(1)));
    job
}

/// A pending pod of job `of`, created `seconds` before now.
fn pending(of: &str, seconds: u64) -> Observation {
    let mut pod = pod_seen(&format!("{of}-{seconds}"), None, &[("nvidia.com/gpu", 8)]);
    pod.owner = Some(owner_ref("Job", of));
    pod.created = NOW.minus(Duration::from_secs(seconds));
    Observation::Pod(Box::new(pod))
}

fn only_job(observations: impl IntoIterator<Item = Observation>) -> Job {
    let fleet = fold(observations).publish(NOW);
    assert_eq!(fleet.jobs.len(), 1);
    (*fleet.jobs[0]).clone()
}

#[test]
fn a_job_that_never_ran_waits_since_it_was_made_admitted_or_not() {
    let mut top = made_long_ago("train");
    top.started = Some(NOW);
    let admitted = kueue("w", Some(owner_ref("Job", "train")), None);
    let made = top.created;
    let job = only_job([
        Observation::Workload(Box::new(top)),
        seen(admitted),
        pending("train", 1),
    ]);
    assert_eq!(job.state, JobState::Waiting);
    assert_eq!(job.waiting_since, Some(made));
    assert_eq!(job.started, None, "nothing of it has started");
}

#[test]
fn a_job_that_lost_its_devices_waits_since_then() {
    // Its queue evicted it.
    let evicted = NOW.minus(Duration::from_secs(180));
    let mut top = made_long_ago("train");
    top.suspended = true;
    let mut queued = kueue("w", Some(owner_ref("Job", "train")), Some(("Pending", "")));
    queued.queued_at = Some(evicted);
    let job = only_job([Observation::Workload(Box::new(top)), seen(queued.clone())]);
    assert_eq!(job.waiting_since, Some(evicted));
    // Admitted again, it still waits since then: its new pods reset nothing.
    queued.pending = None;
    (queued.reserved_at, queued.admitted_at) = (Some(NOW), Some(NOW));
    let mut top = made_long_ago("train");
    top.started = Some(NOW);
    let job = only_job([
        Observation::Workload(Box::new(top)),
        seen(queued),
        pending("train", 1),
    ]);
    assert_eq!(job.waiting_since, Some(evicted));
    // The scheduler preempted its pod, which has failed; a new one was made at once.
    let mut top = made_long_ago("train");
    top.failed_pods = 1;
    let job = only_job([Observation::Workload(Box::new(top)), pending("train", 49)]);
    assert_eq!(job.waiting_since, Some(NOW.minus(Duration::from_secs(49))));
    // The only sign of an earlier run is that its pods are much younger than the job.
    let old = Observation::Workload(Box::new(made_long_ago("serve")));
    let job = only_job([old, pending("serve", 60)]);
    assert_eq!(job.waiting_since, Some(NOW.minus(Duration::from_secs(60))));
}

#[test]
fn a_job_whose_first_pods_waited_for_nodes_started_when_they_ran() {
    let ago = |seconds: u64| NOW.minus(Duration::from_secs(seconds));
    let with = |made: u64, ran: u64| {
        let mut top = made_long_ago("train");
        top.started = Some(ago(4_000));
        let mut pod = pod_seen("train-0", Some("n1"), &[("nvidia.com/gpu", 8)]);
        pod.owner = Some(owner_ref("Job", "train"));
        (pod.created, pod.started) = (ago(made), Some(ago(ran)));
        let job = only_job([
            Observation::Workload(Box::new(top)),
            Observation::Pod(Box::new(pod)),
        ]);
        job.started
    };
    assert_eq!(
        with(3_990, 26),
        Some(ago(26)),
        "its first pod has just begun"
    );
    assert_eq!(
        with(100, 26),
        Some(ago(4_000)),
        "others came before this one"
    );
}

#[test]
fn a_suspended_job_waits_since_it_was_suspended() {
    let suspended = NOW.minus(Duration::from_secs(90));
    let mut top = made_long_ago("train");
    top.suspended = true;
    top.conditions = vec![Condition {
        kind: Name::new("Suspended"),
        status: Some(true),
        reason: Name::new("JobSuspended"),
        message: Name::default(),
        since: Some(suspended),
    }];
    let job = only_job([Observation::Workload(Box::new(top))]);
    assert_eq!(job.state, JobState::Suspended);
    assert_eq!(job.waiting_since, Some(suspended));
    // Without Kueue it waits since it was resumed: its pods are made as it begins again.
    let mut top = made_long_ago("train");
    top.started = Some(suspended);
    top.conditions = vec![Condition {
        kind: Name::new("Suspended"),
        status: Some(false),
        reason: Name::new("JobResumed"),
        message: Name::default(),
        since: Some(suspended),
    }];
    let resumed = [
        Observation::Workload(Box::new(top.clone())),
        pending("train", 89),
    ];
    let job = only_job(resumed.clone());
    assert_eq!(job.state, JobState::Waiting);
    assert_eq!(job.waiting_since, Some(suspended));
    // KAI never starts a suspended job: its operator resumes it. Kueue does.
    for (system, since) in [
        (QueueSystem::Kai, suspended),
        (QueueSystem::Kueue, top.created),
    ] {
        let table = match system {
            QueueSystem::Kai => Table::KaiPodGroups,
            _ => Table::KueueWorkloads,
        };
        let of = Some(owner_ref("Job", "train"));
        let group = seen(group(table, system, "of-train", of));
        let job = only_job([resumed[0].clone(), group]);
        assert_eq!(job.waiting_since, Some(since), "{system:?}");
    }
}

#[test]
fn a_device_that_was_idle_at_the_first_look_may_be_so_for_longer() {
    let first = NOW.minus(Duration::from_secs(60));
    let base = [
        node("a", &[("nvidia.com/gpu", 1)], &[]),
        pod("p", Some("a"), &[("nvidia.com/gpu", 1)]),
    ];
    let idle = |looks: &[(Moment, f64)]| {
        let mut ledger = fold(base.clone());
        let mut device = None;
        for (at, util) in looks {
            ledger.apply(page("a", *at, vec![reading(0, *util, None)]));
            let fleet = ledger.publish(*at);
            let device_now = &fleet.node("a").expect("there").devices[0];
            device = Some((device_now.idle_since, device_now.idle_first_seen));
        }
        device.expect("a look")
    };
    assert_eq!(idle(&[(first, 0.0), (NOW, 0.0)]), (Some(first), true));
    // It was seen at work: when it stopped is known.
    assert_eq!(idle(&[(first, 0.9), (NOW, 0.0)]), (Some(NOW), false));
    // It was free at our first look, and given to a pod since.
    let mut ledger = fold([base[0].clone()]);
    ledger.apply(page("a", first, vec![reading(0, 0.0, None)]));
    let _ = ledger.publish(first);
    let mut late = pod_seen("p", Some("a"), &[("nvidia.com/gpu", 1)]);
    late.scheduled = Some(first.plus(Duration::from_secs(20)));
    late.started = late.scheduled;
    ledger.apply(Observation::Pod(Box::new(late)));
    ledger.apply(page("a", NOW, vec![reading(0, 0.0, None)]));
    let fleet = ledger.publish(NOW);
    let device = &fleet.node("a").expect("there").devices[0];
    assert_eq!(
        (device.idle_since, device.idle_first_seen),
        (Some(NOW), false)
    );
}

#[test]
fn past_readings_say_for_how_long_a_device_is_idle() {
    let base = [
        node("a", &[("nvidia.com/gpu", 1)], &[]),
        pod("p", Some("a"), &[("nvidia.com/gpu", 1)]),
    ];
    let mut ledger = fold(base);
    ledger.apply(page("a", NOW, vec![reading(0, 0.0, None)]));
    let idle = |fleet: &Fleet| fleet.node("a").expect("there").devices[0].idle();
    let fleet = ledger.publish(NOW);
    let known = idle(&fleet).expect("it idles");
    assert_eq!((known.since, known.at_least), (NOW, true));
    let id = fleet.node("a").expect("there").devices[0].id.clone();
    let minute = |before: u32| NOW.minus(Duration::from_secs(60) * before);
    let before = |worked_before: u32| {
        let past: Vec<PastReading> = (1..=40)
            .map(|before| {
                let util = if before > worked_before { 0.9 } else { 0.0 };
                PastReading {
                    device: id.clone(),
                    at: minute(before),
                    signals: [(Signal::Util, util)].into_iter().collect(),
                }
            })
            .collect();
        let mut history = History::default();
        history.fill(&fleet, Duration::from_secs(60), &past);
        Observation::IdleBefore(history.idle_before(&fleet))
    };
    // It was idle at the first reading, too.
    ledger.apply(before(40));
    let longer = idle(&ledger.publish(NOW)).expect("it idles");
    let age = NOW.since(longer.since).seconds();
    assert!(
        (38 * 60..=41 * 60).contains(&age) && longer.at_least,
        "{age}"
    );
    assert!(longer.words(NOW).starts_with('>'), "{}", longer.words(NOW));
    // Its saved state is restored.
    let mut other = fold([node("a", &[("nvidia.com/gpu", 1)], &[])]);
    other.apply(pod("p", Some("a"), &[("nvidia.com/gpu", 1)]));
    other.restore(ledger.save());
    assert_eq!(idle(&other.publish(NOW)), Some(longer));
    // It worked before: when it stopped is known.
    let mut ledger = fold([node("a", &[("nvidia.com/gpu", 1)], &[])]);
    ledger.apply(pod("p", Some("a"), &[("nvidia.com/gpu", 1)]));
    ledger.apply(page("a", NOW, vec![reading(0, 0.0, None)]));
    let _ = ledger.publish(NOW);
    let earlier = before(30);
    ledger.apply(earlier.clone());
    let since = idle(&ledger.publish(NOW)).expect("it idles");
    let age = NOW.since(since.since).seconds();
    assert!(
        (29 * 60..=32 * 60).contains(&age) && !since.at_least,
        "{age}"
    );
    // A job that works meanwhile counts as working, even if it was idle before.
    let later = NOW.plus(Duration::from_secs(30));
    ledger.apply(page("a", later, vec![reading(0, 0.9, None)]));
    let _ = ledger.publish(later);
    ledger.apply(earlier);
    assert_eq!(idle(&ledger.publish(later)), None);
}

/// A failed pod of a job, with 8 GPUs on node `a`.
fn ending(job: &str) -> Observation {
    let mut pod = pod_seen("ending", Some("a"), &[("nvidia.com/gpu", 8)]);
    pod.owner = Some(owner_ref("Job", job));
    pod.phase = Phase::Failed;
    Observation::Pod(Box::new(pod))
}

#[test]
fn each_waiting_device_counts_in_one_pool_or_in_a_row_that_says_why_in_none() {
    let queued = |name: &str, class: &str| {
        let mut job = workload(Table::Jobs, "Job", name, 2, 8, None);
        job.suspended = true;
        job.labels = labels(&[("kueue.x-k8s.io/queue-name", "nlp")]);
        job.node_selector = labels(&[("class", class)]);
        Observation::Workload(Box::new(job))
    };
    let mut ledger = fold([
        node(
            "a",
            &[("nvidia.com/gpu", 8)],
            &[("class", "h100"), ("nodepool", "h100")],
        ),
        queued("evicted", "h100"),
        // Its earlier pods have ended: its requests are read from the job itself.
        ending("evicted"),
        queued("elsewhere", "h200"),
        pending("bare", 1),
    ]);
    let fleet = ledger.publish(NOW);
    let waiting: u32 = fleet.jobs.iter().map(|job| job.devices_waiting()).sum();
    assert_eq!(waiting, 16 + 16 + 8);
    assert_eq!(fleet.pools[0].waiting_devices, 16 + 8);
    let outside = fleet.waiting_outside(|_| true);
    assert_eq!(outside.counts(), [16, 0, 0]);
    // Without the right to list nodes it is unknown which pool fits.
    let mut hidden = fleet.clone();
    let denied = Lost {
        kind: LostKind::Rights,
        since: NOW,
        message: String::from("nodes is forbidden"),
    };
    Arc::make_mut(&mut hidden.known).insert(Table::Nodes, TableState::NotVisible(denied));
    assert_eq!(hidden.waiting_outside(|_| true).counts(), [0, 0, 40]);
    let of_one = fleet.waiting_outside(|job| job.name().as_str() == "evicted");
    assert_eq!(of_one.counts(), [0, 0, 0]);
}

/// Kueue evicts a job a moment after its Workload was taken out of its queue, and not at all while its controller is down.
#[test]
fn a_job_whose_workload_a_run_holds_is_held_while_its_pods_still_run() {
    let hold = RunHold {
        run: Name::new("r1"),
        by: Name::new("ana"),
        since: NOW,
        until: NOW.plus(Duration::from_secs(600)),
    };
    let text = hold.text();
    let mut queued = kueue("w", Some(owner_ref("Job", "train")), None);
    queued.active = false;
    queued.annotations = labels(&[(HELD, &text)]);
    let mut pod = pod_seen("train-0", Some("n1"), &[("nvidia.com/gpu", 8)]);
    pod.owner = Some(owner_ref("Job", "train"));
    let with = |queued: &GroupSeen| {
        only_job([
            Observation::Workload(Box::new(made_long_ago("train"))),
            seen(queued.clone()),
            Observation::Pod(Box::new(pod.clone())),
        ])
    };
    let job = with(&queued);
    assert_eq!(job.state, JobState::Running);
    assert_eq!(job.held.as_deref(), Some(&hold));
    assert_eq!(job.reason_code, Some(HELD_BY_RUN));
    // Resumed, it may state it no longer.
    queued.active = true;
    assert_eq!(with(&queued).held, None);
}
