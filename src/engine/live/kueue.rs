//! What Kueue decides by rules that the engine has not: held back, or counted and not forecast.

use model::base::Name;
use model::fleet::Fleet;
use model::fleet::job::Job;
use model::fleet::queue::{Queue, QueueKey, QueueKind, QueueSystem};

use super::queues::orders_by_usage;

/// The annotation of a Workload of Kueue that replaces a smaller one of the same job, which runs.
const REPLACES: &str = "kueue.x-k8s.io/workload-slice-replacement-for";

/// Why Kueue does not consider a job now: it has quota and has not passed an admission check, or it returns to its queue later.
pub(super) fn held_back(fleet: &Fleet, job: &Job) -> Option<Name> {
    let admission = job.admission.as_deref();
    let admission = admission.filter(|it| it.system() == QueueSystem::Kueue)?;
    let seen = &admission.seen;
    if !admission.has_quota() {
        let requeue = seen.requeue.as_ref()?;
        let at = requeue.at.filter(|at| *at > fleet.at)?;
        return Some(Name::from(format!(
            "Kueue puts it back into its queue at {}",
            at.rfc3339()
        )));
    }
    let check = seen.checks.first().filter(|_| seen.admitted_at.is_none())?;
    let message = match check.message.trim() {
        "" => String::new(),
        message => format!(": {message}"),
    };
    Some(Name::from(format!(
        "it has quota and waits for admission check {} ({}){message}",
        check.name, check.state
    )))
}

/// What decides in Kueue about a pending job and has no rule in the engine.
///
/// Sources: Kueue 0.19, `pkg/cache/queue` (`queueOrderingFunc`), `pkg/controller/concurrentadmission`, `pkg/workloadslicing`, KEP 2724.
pub(super) fn not_forecast(fleet: &Fleet, job: &Job) -> Option<Name> {
    let admission = job.admission.as_deref();
    let admission = admission.filter(|it| it.system() == QueueSystem::Kueue)?;
    if admission.seen.annotations.get(REPLACES).is_some() {
        let why = "Kueue charges its quota only for what it grows by";
        return Some(Name::new(why));
    }
    let mut sets = job.pod_sets.iter().filter(|set| set.count > 0);
    let slices = sets.find_map(|set| set.topology.as_ref()?.slice.as_ref());
    if let Some((level, size)) = slices.filter(|(_, size)| *size > 1) {
        return Some(Name::from(format!(
            "Kueue places its pods in groups of {size} that share one {level}"
        )));
    }
    let key = QueueKey {
        system: QueueSystem::Kueue,
        kind: QueueKind::Queue,
        name: job.queue.clone()?,
    };
    let queue = fleet.queue(&key)?;
    let name = queue.name();
    let off = fleet.kueue.as_deref().map_or(&[][..], |it| &it.gates_off);
    let gate = off.iter().find(|gate| matters(gate, queue, job));
    let words = if let Some(gate) = gate {
        format!("Kueue's feature gate {gate} is off")
    } else if orders_by_usage(queue) {
        format!("queue {name} orders its jobs by past usage of their LocalQueues")
    } else if queue.tries_all_flavors {
        format!("queue {name} tries all of its flavors at the same time")
    } else if let Some(check) = queue.checks.first() {
        let more = match queue.checks.len() - 1 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("admission check {check}{more} decides once it has quota")
    } else {
        return None;
    };
    Some(Name::from(words))
}

/// Whether a job waits by other rules than the engine's if a feature gate of Kueue is off.
fn matters(gate: &str, queue: &Queue, job: &Job) -> bool {
    let mut sets = job.pod_sets.iter();
    match gate {
        "PrioritySortingWithinCohort" | "LendingLimit" => queue.parent.is_some(),
        "FlavorFungibility" => {
            let mut quotas = queue.quotas.iter();
            let first = quotas.next().map(|quota| &quota.flavor);
            quotas.any(|quota| Some(&quota.flavor) != first)
        }
        "PartialAdmission" => sets.any(|set| set.min < set.count),
        "TopologyAwareScheduling" => sets.any(|set| set.topology.is_some()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::tests::{fleet, key, queue, queued, reserved, see};
    use super::*;
    use model::base::{Moment, ObjectKey};
    use model::fleet::admission::{AdmissionCheck, GroupSeen, Requeue};
    use model::fleet::job::JobState;
    use model::fleet::queue::{Door, Measure, Quota};
    use model::fleet::scheduling::KueueConfig;
    use model::fleet::siting;

    #[test]
    fn what_kueue_decides_by_other_rules_is_counted_and_not_forecast() {
        let pending = || GroupSeen {
            reserved_at: None,
            ..reserved()
        };
        let plain = || Queue {
            quotas: Box::from([Quota {
                flavor: Name::new("f"),
                resource: Name::new("nvidia.com/gpu"),
                measure: Measure::MilliDevices,
                nominal: Some(64_000),
                ..Quota::default()
            }]),
            ..queue(key(QueueSystem::Kueue, QueueKind::Queue, "q"), None)
        };
        let door = |name: &str| Door {
            key: ObjectKey::new("ns", name),
            queue: Name::new("q"),
            ..Door::default()
        };
        // The queue, the change of the Workload, the level and size of its slices, and what is said.
        type Case<'a> = (Queue, GroupSeen, Option<(&'a str, u32)>, Option<&'a str>);
        let replaces = [(REPLACES, "ns/w-0")];
        let cases: [Case<'_>; 9] = [
            (plain(), pending(), None, None),
            (
                Queue {
                    checks: Box::from([Name::new("dws"), Name::new("budget")]),
                    ..plain()
                },
                pending(),
                None,
                Some("admission check dws and 1 more decides once it has quota"),
            ),
            (
                Queue {
                    orders_by_usage: true,
                    doors: Box::from([door("a"), door("b")]),
                    ..plain()
                },
                pending(),
                None,
                Some("queue q orders its jobs by past usage of their LocalQueues"),
            ),
            (
                Queue {
                    orders_by_usage: true,
                    doors: Box::from([door("a")]),
                    ..plain()
                },
                pending(),
                None,
                None,
            ),
            (
                Queue {
                    tries_all_flavors: true,
                    ..plain()
                },
                pending(),
                None,
                Some("queue q tries all of its flavors at the same time"),
            ),
            (
                plain(),
                pending(),
                Some(("rack", 2)),
                Some("Kueue places its pods in groups of 2 that share one rack"),
            ),
            (plain(), pending(), Some(("rack", 1)), None),
            (
                plain(),
                GroupSeen {
                    annotations: replaces
                        .map(|(key, value)| (Name::new(key), Name::new(value)))
                        .into_iter()
                        .collect(),
                    ..pending()
                },
                None,
                Some("Kueue charges its quota only for what it grows by"),
            ),
            (
                Queue {
                    checks: Box::from([Name::new("dws")]),
                    ..plain()
                },
                reserved(),
                None,
                None,
            ),
        ];
        for (queue, group, slices, says) in cases {
            let mut waits = queued("w", JobState::Waiting, group);
            let mut sets = waits.pod_sets.to_vec();
            for set in &mut sets {
                set.topology = slices.map(|(level, size)| {
                    siting::TopologyConstraint {
                        mode: siting::ConstraintMode::Unconstrained,
                        level: Name::default(),
                        slice: Some((Name::new(level), size)),
                    }
                    .into()
                });
            }
            waits.pod_sets = sets.into();
            let fleet = fleet(vec![queue], vec![waits]);
            let seen = see(&fleet);
            let work = &seen.workloads[0];
            assert_eq!(work.not_forecast.as_deref(), says);
            let answer = crate::explanations::explain(&seen, "ns/w").expect("there");
            let has_start = answer.start.is_some_and(|start| start.p50.is_some());
            let starts = says.is_none() && slices.is_none();
            assert_eq!(has_start, starts, "{says:?}");
            if let Some(says) = says {
                let explanation = answer.explanation;
                let certain = match slices {
                    Some(_) => "flavor f has no topology, which it asks for",
                    None => "quota and nodes suffice",
                };
                assert_eq!(
                    explanation.reason,
                    format!("{certain}; not forecast: {says}")
                );
                assert_eq!(explanation.unblock, None);
            }
        }
    }

    #[test]
    fn what_a_feature_gate_turns_off_is_not_forecast_where_it_matters() {
        let alone = queue(key(QueueSystem::Kueue, QueueKind::Queue, "q"), None);
        let lent = Queue {
            parent: Some(Name::new("all")),
            ..alone.clone()
        };
        let pending = || GroupSeen {
            reserved_at: None,
            ..reserved()
        };
        for (gate, queue, says) in [
            ("LendingLimit", &alone, false),
            ("LendingLimit", &lent, true),
            ("PrioritySortingWithinCohort", &lent, true),
            ("PartialAdmission", &lent, false),
            ("LocalQueueMetrics", &lent, false),
        ] {
            let waits = queued("w", JobState::Waiting, pending());
            let mut fleet = fleet(vec![queue.clone()], vec![waits]);
            fleet.kueue = Some(Arc::new(KueueConfig {
                key: ObjectKey::new("kueue-system", "kueue-manager-config"),
                fair_sharing: Ok(Vec::new()),
                resources: None,
                gates_off: vec![Name::new(gate)],
            }));
            let why = see(&fleet).workloads[0].not_forecast.clone();
            let words = format!("Kueue's feature gate {gate} is off");
            assert_eq!(why.as_deref(), says.then_some(&*words));
        }
    }

    #[test]
    fn what_kueue_holds_back_is_not_considered() {
        let now = Moment::from_seconds(1_000);
        let unchecked = GroupSeen {
            checks: Box::from([AdmissionCheck {
                name: Name::new("dws"),
                state: Name::new("Pending"),
                message: Name::new("Waiting for resources."),
            }]),
            ..reserved()
        };
        let admitted = GroupSeen {
            admitted_at: Some(now),
            ..unchecked.clone()
        };
        let put_back = |at: u32| GroupSeen {
            reserved_at: None,
            requeue: Some(Requeue {
                count: 2,
                at: Some(Moment::from_seconds(i64::from(at))),
            }),
            ..reserved()
        };
        for (group, says) in [
            (
                unchecked,
                Some(
                    "it has quota and waits for admission check dws (Pending): Waiting for resources.",
                ),
            ),
            (admitted, None),
            (
                put_back(1_060),
                Some("Kueue puts it back into its queue at 1970-01-01T00:17:40Z"),
            ),
            (put_back(940), None),
        ] {
            let mut fleet = fleet(Vec::new(), vec![queued("w", JobState::Waiting, group)]);
            fleet.at = now;
            assert_eq!(see(&fleet).workloads[0].blocked.as_deref(), says);
        }
    }
}
