//! Tests: which changes are reported between two snapshots, and which are not.

use std::sync::Arc;
use std::time::Duration;

use model::base::{Moment, Name};
use model::cost::spend_rates;
use model::fleet::finding::Severity;
use model::fleet::job::{Job, JobState};
use model::fleet::node::{Cordon, Node};
use model::fleet::observe::Table;
use model::fleet::queue::{Queue, Quota};
use model::fleet::{Fleet, TableState};

use super::document;
use super::{ChangeLog, Dated, FleetChangeKind, FleetChanges, SeenChanges, Topic, text};
use crate::{Facts, Scope, sample};

fn later(seconds: u64) -> Moment {
    sample::facts().now.plus(Duration::from_secs(seconds))
}

/// The sample fleet with every list live, modified by `change`, this many seconds after its moment.
fn picture(seconds: u64, change: impl FnOnce(&mut Fleet)) -> Facts {
    let mut facts = sample::facts();
    let fleet = Arc::make_mut(&mut facts.fleet);
    let known = Table::ALL.iter().map(|table| (*table, TableState::Live));
    fleet.known = Arc::new(known.collect());
    let quota = Quota {
        flavor: Name::new("h100"),
        resource: Name::new("nvidia.com/gpu"),
        measure: model::fleet::queue::Measure::MilliDevices,
        nominal: Some(64_000),
        ..Quota::default()
    };
    let mut queue = Queue::default();
    queue.key.name = Name::new("research");
    queue.quotas = Box::from([quota]);
    fleet.queues = Arc::from([Arc::new(queue)]);
    change(fleet);
    facts.now = later(seconds);
    facts
}

fn with_job(fleet: &mut Fleet, at: usize, change: impl FnOnce(&mut Job)) {
    let mut jobs = fleet.jobs.to_vec();
    change(Arc::make_mut(&mut jobs[at]));
    fleet.jobs = jobs.into();
}

fn with_node(fleet: &mut Fleet, change: impl FnOnce(&mut Node)) {
    let mut nodes = fleet.nodes.to_vec();
    change(Arc::make_mut(&mut nodes[0]));
    fleet.nodes = nodes.into();
}

fn events(before: &Facts, after: &Facts) -> Vec<(Topic, FleetChangeKind, Option<Dated>)> {
    let changes = FleetChanges::between(before, after);
    let all = changes.changes.iter();
    all.map(|change| (change.topic, change.event, change.at))
        .collect()
}

/// The events of the first job when its state changes from `was` to `is`.
fn of_job(was: JobState, is: JobState) -> Vec<FleetChangeKind> {
    let state = |state| move |fleet: &mut Fleet| with_job(fleet, 0, |job| job.state = state);
    let all = events(&picture(0, state(was)), &picture(60, state(is)));
    all.into_iter().map(|(_, event, _)| event).collect()
}

#[test]
fn nothing_differs_between_a_picture_and_itself() {
    assert_eq!(events(&picture(0, |_| ()), &picture(60, |_| ())), []);
    let changes = FleetChanges::between(&picture(0, |_| ()), &picture(60, |_| ()));
    assert!(changes.notes.is_empty(), "{:?}", changes.notes);
    assert!(text(&changes).contains("no job, node, queue or finding differs"));
}

#[test]
fn job_changes_list_the_state_before_and_after() {
    use JobState::{Done, Failed, Running, Starting, Suspended, Waiting};
    for (was, is, expected) in [
        (Waiting, Running, Some(FleetChangeKind::Started)),
        (Waiting, Starting, None),
        (Starting, Running, Some(FleetChangeKind::Started)),
        (Running, Waiting, Some(FleetChangeKind::Displaced)),
        (Running, Starting, Some(FleetChangeKind::Degraded)),
        (Running, Done, Some(FleetChangeKind::Ended)),
        (Running, Failed, Some(FleetChangeKind::Failed)),
        (Waiting, Suspended, Some(FleetChangeKind::Suspended)),
        (Suspended, Waiting, Some(FleetChangeKind::Resumed)),
    ] {
        let expected: Vec<FleetChangeKind> = expected.into_iter().collect();
        assert_eq!(of_job(was, is), expected, "{was:?} to {is:?}");
    }
}

#[test]
fn a_moment_counts_where_an_object_states_one_between_the_two() {
    let begin = |fleet: &mut Fleet| with_job(fleet, 0, |job| job.state = JobState::Waiting);
    let started = |seconds| {
        move |fleet: &mut Fleet| {
            with_job(fleet, 0, |job| {
                job.state = JobState::Running;
                job.started = Some(later(seconds));
            });
        }
    };
    let dated = |seconds| {
        let all = events(&picture(0, begin), &picture(60, started(seconds)));
        all.first().and_then(|(_, _, at)| *at)
    };
    assert_eq!(dated(20), Some(Dated::Reported(later(20))));
    // An earlier run, or a wrong clock.
    assert_eq!(dated(90), None);
    let all = picture(60, |fleet| {
        with_job(fleet, 0, |job| {
            job.state = JobState::Running;
            job.started = Some(later(0).minus(Duration::from_secs(9)));
        });
    });
    let all = events(&picture(0, begin), &all);
    assert_eq!(all, [(Topic::Job, FleetChangeKind::Started, None)]);
}

#[test]
fn changes_of_nodes_queues_and_findings_are_listed() {
    let after = picture(60, |fleet| {
        with_node(fleet, |node| {
            node.ready = None;
            node.ready_since = Some(later(10));
            node.cordon = Some(Cordon {
                by: Some(Name::new("anna")),
                at: Some(later(30)),
                reason: Some(Name::new("broken fan")),
            });
        });
        let mut queue = (*fleet.queues[0]).clone();
        queue.quotas[0].nominal = Some(32_000);
        queue.quotas[0].borrow_limit = Some(8_000);
        fleet.queues = Arc::from([Arc::new(queue)]);
        fleet.findings = Arc::from([]);
    });
    let before = picture(0, |fleet| {
        with_node(fleet, |node| {
            node.ready = Some(true);
            node.cordon = None;
        });
    });
    let changes = FleetChanges::between(&before, &after);
    let text = text(&changes);
    for words in [
        "cordoned",
        "by anna: broken fan",
        "kubelet stopped posting node status",
        "quota of h100 nvidia.com/gpu: 64 to 32",
        "borrowing limit of h100 nvidia.com/gpu: no limit to 8",
        "cleared",
    ] {
        assert!(text.contains(words), "{words}\n{text}");
    }
    // Newest first; changes without a time last.
    let events: Vec<FleetChangeKind> = changes.changes.iter().map(|change| change.event).collect();
    assert_eq!(
        events[..2],
        [FleetChangeKind::Cordoned, FleetChangeKind::NotReady],
        "{text}"
    );
    assert_eq!(changes.weight(), Some(Severity::Crit));
    let back = FleetChanges::between(&after, &before);
    let began = back
        .changes
        .iter()
        .find(|own| own.event == FleetChangeKind::Began);
    assert!(began.is_some(), "{back:?}");
    assert!(document(&changes).contains("\"at_from\": \"object\""));
}

#[test]
fn a_finding_that_becomes_part_of_another_is_not_over() {
    let before = picture(0, |_| {});
    let was = Arc::clone(&before.fleet.findings);
    let with = |also: Box<[Name]>| {
        picture(60, |fleet| {
            let mut one = was[0].clone();
            one.id = Name::new("xid-48/a/gpu0");
            one.also = also;
            fleet.findings = Arc::from([one]);
        })
    };
    let cleared = |after: &Facts| {
        let changes = FleetChanges::between(&before, after).changes;
        let all = changes.iter().map(|change| change.event);
        let is_cleared = |event: &FleetChangeKind| *event == FleetChangeKind::Cleared;
        all.filter(is_cleared).count()
    };
    let ids = before.fleet.findings.iter().map(|own| own.id.clone());
    assert_eq!(cleared(&with(ids.collect())), 0);
    assert!(cleared(&with(Box::default())) > 0);
}

#[test]
fn what_was_not_listed_is_neither_new_nor_gone() {
    let empty = |known: TableState| {
        picture(0, move |fleet| {
            fleet.jobs = Arc::from([]);
            fleet.nodes = Arc::from([]);
            fleet.findings = Arc::from([]);
            fleet.queues = Arc::from([]);
            let tables = Arc::make_mut(&mut fleet.known);
            for known_of in tables.values_mut() {
                *known_of = known.clone();
            }
        })
    };
    let waits = empty(TableState::Waiting);
    let whole = picture(60, |_| ());
    let changes = FleetChanges::between(&waits, &whole);
    assert!(changes.changes.is_empty(), "{:?}", changes.changes);
    // One note for each topic, not for each list; and an unknown rate is not $0.
    assert_eq!(changes.notes.len(), Topic::ALL.len(), "{:?}", changes.notes);
    let money = &changes.money[0];
    assert_eq!((money.before, money.difference()), (None, None));
    assert!(text(&changes).contains("no differences in what can be compared"));
    assert!(
        changes
            .notes
            .iter()
            .any(|note| note.starts_with("nodes are not compared")),
        "{:?}",
        changes.notes
    );
    // A table that was listed and is empty is a different case.
    let joined = events(&empty(TableState::Live), &whole);
    assert!(
        joined
            .iter()
            .any(|(_, event, _)| *event == FleetChangeKind::Joined)
    );
}

#[test]
fn money_that_is_not_known_is_not_nothing() {
    let mut unpriced = picture(60, |_| ());
    unpriced.spend_rates = Arc::new(spend_rates(
        &unpriced.fleet,
        &model::cost::Prices::default(),
    ));
    let before = picture(0, |_| ());
    let changes = FleetChanges::between(&before, &unpriced);
    assert!(changes.money[0].before.is_some());
    assert_eq!(
        (changes.money[0].after, changes.money[0].difference()),
        (None, None)
    );
    assert!(text(&changes).contains("   -\n"), "{}", text(&changes));
}

#[test]
fn a_scope_has_its_own_changes_alone() {
    let state = |state| move |fleet: &mut Fleet| with_job(fleet, 0, |job| job.state = state);
    let before = picture(0, state(JobState::Waiting));
    let after = picture(60, state(JobState::Running));
    let namespace = after.fleet.jobs[0].namespace().clone();
    for (name, count) in [(namespace, 1), (Name::new("elsewhere"), 0)] {
        let scope = Scope {
            team: None,
            namespaces: vec![name],
        };
        let changes = FleetChanges::between(&before.scoped(&scope), &after.scoped(&scope));
        assert_eq!(changes.changes.len(), count, "{changes:?}");
    }
}

#[test]
fn steps_in_between_date_what_no_object_dates() {
    let first = picture(0, |fleet| {
        with_job(fleet, 0, |job| job.state = JobState::Running)
    });
    let second = picture(20, |fleet| {
        with_job(fleet, 0, |job| {
            job.state = JobState::Failed;
            job.finished = None;
        });
    });
    let gone = |seconds| picture(seconds, |fleet| fleet.jobs = fleet.jobs[1..].into());
    let mut changes = FleetChanges::between(&first, &gone(60));
    assert_eq!(changes.changes[0].event, FleetChangeKind::Gone);
    let undated = changes.undated();
    changes.date(&FleetChanges::between(&first, &second), &undated);
    changes.date(&FleetChanges::between(&second, &gone(40)), &undated);
    let changes = changes.dated();
    let moments: Vec<_> = changes
        .changes
        .iter()
        .map(|own| (own.event, own.at))
        .collect();
    assert_eq!(
        moments,
        [(FleetChangeKind::Failed, Some(Dated::Seen(later(20))))]
    );
}

/// A log of a session that began with the first of these pictures.
fn log(pictures: &[&Facts]) -> SeenChanges {
    let mut log = ChangeLog::default();
    let mut before = None;
    for facts in pictures {
        log.see(before, facts);
        before = Some(*facts);
    }
    let seen = log.seen().expect("a complete first picture");
    SeenChanges::clone(&seen)
}

fn rows(changes: &FleetChanges) -> Vec<(String, &'static str, String)> {
    let rows = (0..changes.rows()).filter_map(|row| changes.row(row));
    rows.map(|row| (row.subject(), row.first().event.name(), row.detail()))
        .collect()
}

#[test]
fn a_log_begins_with_what_objects_state_and_adds_what_differs() {
    let first = picture(3600, |fleet| {
        with_job(fleet, 0, |job| {
            job.state = JobState::Running;
            job.started = Some(later(3000));
        });
        with_job(fleet, 1, |job| {
            job.state = JobState::Running;
            // Longer ago than what is asked for.
            job.started = Some(later(1000));
        });
    });
    let [name, other] = [0, 1].map(|at| first.fleet.jobs[at].id.key.to_string());
    let begun = log(&[&first]);
    let started = |rows: &[(String, &str, String)], name: &str| {
        let mut all = rows.iter();
        all.any(|(subject, event, _)| subject == name && *event == "started")
    };
    let stated = rows(&begun.changes);
    assert!(
        started(&stated, &name) && !started(&stated, &other),
        "{stated:?}"
    );
    // A quota has no time of its own: the snapshot that shows it dates it.
    let second = picture(3700, |fleet| {
        *fleet = (*first.fleet).clone();
        let mut queue = (*fleet.queues[0]).clone();
        queue.quotas[0].nominal = Some(32_000);
        fleet.queues = Arc::from([Arc::new(queue)]);
    });
    let seen = log(&[&first, &second]);
    let quota = seen.changes.changes.first().expect("the latest");
    assert_eq!(
        (quota.event, quota.at),
        (FleetChangeKind::Lowered, Some(Dated::Seen(later(3700))))
    );
    assert_eq!(seen.changes.rows(), stated.len() + 1);
    assert_eq!(seen.compared_since, later(3600));
}

#[test]
fn a_job_whose_pods_go_a_moment_before_it_ends_has_ended() {
    let seen = |seconds: u64, state: JobState, finished: Option<u64>| {
        picture(seconds, |fleet| {
            with_job(fleet, 0, |job| {
                job.state = state;
                job.finished = finished.map(later);
            });
        })
    };
    let runs = seen(3600, JobState::Running, None);
    let waits = seen(3601, JobState::Waiting, None);
    let name = runs.fleet.jobs[0].id.key.to_string();
    let events = |last: &Facts| {
        let seen = log(&[&runs, &waits, last]);
        let events = rows(&seen.changes).into_iter();
        let events = events.filter(|(subject, ..)| *subject == name);
        events.map(|(_, event, _)| event).collect::<Vec<_>>()
    };
    assert_eq!(events(&waits), ["displaced"]);
    assert_eq!(events(&seen(3602, JobState::Done, Some(3600))), ["ended"]);
    // Long after it lost its pods, the two are two.
    assert_eq!(
        events(&seen(4000, JobState::Failed, Some(3999))),
        ["failed", "displaced"]
    );
}

#[test]
fn a_job_that_grows_and_shrinks_has_changed_by_the_difference() {
    let seen = |seconds: u64, devices: u32| {
        picture(seconds, |fleet| {
            with_job(fleet, 0, |job| {
                (job.state, job.devices_allocated) = (JobState::Running, devices);
            });
        })
    };
    let resized = |steps: &[(u64, u32)]| {
        let all: Vec<Facts> = steps
            .iter()
            .map(|(at, devices)| seen(*at, *devices))
            .collect();
        let seen = log(&all.iter().collect::<Vec<_>>());
        let rows = rows(&seen.changes).into_iter();
        let rows = rows.filter(|(_, event, _)| *event == "resized");
        rows.map(|(.., detail)| detail).collect::<Vec<_>>()
    };
    let (first, more) = ((3600, 11), (3620, 12));
    assert_eq!(resized(&[first, more]), ["11 to 12 devices"]);
    assert_eq!(resized(&[first, more, (3640, 14)]), ["11 to 14 devices"]);
    assert!(resized(&[first, more, (3640, 11)]).is_empty());
    assert_eq!(
        resized(&[first, more, (9000, 11)]),
        ["12 to 11 devices", "11 to 12 devices"],
        "long after it grew"
    );
}

#[test]
fn changes_of_one_cause_are_one_row_and_those_of_two_are_two() {
    let count = |fleet: &Fleet| fleet.nodes.len().min(3);
    let free = picture(0, |fleet| {
        let mut nodes = fleet.nodes.to_vec();
        for node in &mut nodes {
            Arc::make_mut(node).cordon = None;
        }
        fleet.nodes = nodes.into();
    });
    assert_eq!(count(&free.fleet), 3);
    let cordoned = |reasons: [&'static str; 3], seconds: [u64; 3]| {
        picture(600, |fleet| {
            *fleet = (*free.fleet).clone();
            let mut nodes = fleet.nodes.to_vec();
            for (at, (reason, seconds)) in reasons.into_iter().zip(seconds).enumerate() {
                Arc::make_mut(&mut nodes[at]).cordon = Some(Cordon {
                    by: Some(Name::new("anna")),
                    at: Some(later(seconds)),
                    reason: Some(Name::new(reason)),
                });
            }
            fleet.nodes = nodes.into();
        })
    };
    for (reasons, seconds, expected) in [
        (["fan", "fan", "fan"], [400, 420, 460], 1),
        (["fan", "disk", "fan"], [400, 420, 460], 2),
        // One reason again, much later.
        (["fan", "fan", "fan"], [100, 110, 460], 2),
    ] {
        let changes = FleetChanges::between(&free, &cordoned(reasons, seconds));
        assert_eq!(changes.changes.len(), 3, "{changes:?}");
        assert_eq!(changes.rows(), expected, "{reasons:?} {seconds:?}");
        let groups = (0..expected).filter_map(|row| changes.row(row));
        assert_eq!(groups.map(|row| row.all().count()).sum::<usize>(), 3);
    }
    let changes = FleetChanges::between(&free, &cordoned(["fan"; 3], [400; 3]));
    let (subject, event, detail) = rows(&changes).remove(0);
    assert_eq!((subject.as_str(), event), ("3 nodes", "cordoned"));
    for node in &free.fleet.nodes[..3] {
        assert!(detail.contains(node.name().as_str()), "{detail}");
    }
}

#[test]
fn a_finding_of_the_first_readings_is_no_change_unless_something_states_when_it_began() {
    let first = picture(3600, |_| ());
    let found = |seconds: u64, first_seen: bool| {
        picture(seconds, |fleet| {
            let mut findings = fleet.findings.to_vec();
            let mut own = findings[0].clone();
            own.id = Name::new("later");
            (own.since, own.first_seen) = (later(seconds), first_seen);
            findings.push(own);
            fleet.findings = findings.into();
        })
    };
    let began = |facts: &Facts| {
        let seen = log(&[&first, facts]);
        let mut all = seen.changes.changes.iter();
        all.any(|change| *change.id == *"later")
    };
    assert!(!began(&found(3620, true)));
    assert!(began(&found(3620, false)));
    assert!(began(&found(3900, true)));
    // Stated to be older than the session, and found by its first readings.
    let mut old = found(3620, false);
    let fleet = Arc::make_mut(&mut old.fleet);
    let mut findings = fleet.findings.to_vec();
    findings.last_mut().expect("a finding").since = later(60);
    fleet.findings = findings.into();
    assert!(!began(&old));
}
