//! Laws of the ledger: order does not matter, counts add up, and nothing is left behind.

use proptest::prelude::*;

use super::support::*;
use super::tests_groups::{cluster_queue, door, group, kueue, member, seen};
use super::*;
use model::base::DeviceAmount;
use model::fleet::kinds::Table;
use model::fleet::object_parts::OwnerRef;
use model::fleet::queue::QueueSystem;

/// Everything a fleet shows, as text, without its revision.
fn digest(fleet: &Fleet) -> String {
    format!(
        "{:#?}\n{:#?}\n{:#?}\n{:#?}",
        fleet.nodes, fleet.pools, fleet.jobs, fleet.queues
    )
}

fn busy_fleet() -> Vec<Observation> {
    let mut all = Vec::new();
    for (at, name) in ["a", "b", "c"].iter().enumerate() {
        all.push(node(
            name,
            &[("nvidia.com/gpu", 4)],
            &[("nodepool", if at == 2 { "y" } else { "x" })],
        ));
    }
    all.push(Observation::Namespace(
        Name::new("ns"),
        labels(&[("team", "t")]),
    ));
    let mut set = workload(Table::JobSets, "JobSet", "big", 2, 2, None);
    set.gang_min = Some(2);
    all.push(Observation::Workload(Box::new(set)));
    for part in 0..2 {
        let job = workload(
            Table::Jobs,
            "Job",
            &format!("big-{part}"),
            1,
            2,
            Some(owner_ref("JobSet", "big")),
        );
        all.push(Observation::Workload(Box::new(job)));
        all.push(owned(
            &format!("big-{part}-0"),
            Some(["a", "b"][part]),
            2,
            "Job",
            &format!("big-{part}"),
        ));
    }
    all.push(pod("lone", Some("a"), &[("nvidia.com/gpu", 1)]));
    all.push(pod("waits", None, &[("nvidia.com/gpu", 4)]));
    // A queueing system on top: a Workload of the set, its LocalQueue and ClusterQueue, a group of bare pods, a leader whose
    // pod owns its workers' set, a gang that names its job without an id.
    all.push(door("lq", "nlp"));
    all.push(cluster_queue("nlp", Some("research")));
    all.push(seen(kueue(
        "jobset-big",
        Some(owner_ref("JobSet", "big")),
        None,
    )));
    all.push(member("bare-0", Some("c"), "Workload", "bare"));
    all.push(member("bare-1", None, "Workload", "bare"));
    all.push(seen(kueue("bare", None, Some(("WaitingForQuota", "")))));
    let mut workers = workload(Table::StatefulSets, "StatefulSet", "llm-0", 1, 1, None);
    workers.owner = Some(OwnerRef {
        kind: Name::new("Pod"),
        name: Name::new("llm-0"),
        uid: Name::new("llm-0"),
    });
    all.push(Observation::Workload(Box::new(workers)));
    all.push(owned("llm-0", Some("c"), 1, "LeaderWorkerSet", "llm"));
    all.push(owned("llm-0-1", Some("c"), 1, "StatefulSet", "llm-0"));
    let by_name = OwnerRef {
        uid: Name::default(),
        ..owner_ref("Job", "big-0")
    };
    let mut gang = group(Table::PodGroups, QueueSystem::None, "pg", Some(by_name));
    gang.gang_min = Some(2);
    all.push(seen(gang));
    for name in ["a", "b", "c"] {
        let rows = (0..4)
            .map(|i| reading(i, 0.2, (name == "a" && i == 3).then_some("lone")))
            .collect();
        all.push(page(name, NOW, rows));
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The order of sources, and publishing in between, do not change the result.
    #[test]
    fn order_and_pauses_do_not_matter(
        order in Just((0..busy_fleet().len()).collect::<Vec<_>>()).prop_shuffle(),
        pause in 0usize..25,
    ) {
        let all = busy_fleet();
        let expected = digest(&fold(all.clone()).publish(NOW));
        let mut ledger = Ledger::new(Arc::new(Policy::default()));
        for (at, which) in order.iter().enumerate() {
            if at == pause {
                ledger.publish(NOW);
            }
            ledger.apply(all[*which].clone());
        }
        prop_assert_eq!(digest(&ledger.publish(NOW)), expected);
    }

    /// For any sequence of changes: counts add up, no device is allocated twice, no pod has more than it requested by counting,
    /// and an emptied ledger is empty.
    #[test]
    fn counts_always_add_up(steps in prop::collection::vec((0u8..13, 0u8..6, 0u8..3), 0..60)) {
        let mut ledger = Ledger::new(Arc::new(Policy::default()));
        for (what, which, on) in steps {
            let name = format!("p{which}");
            let host = ["a", "b", "c"][on as usize];
            ledger.apply(match what {
                0 | 1 => pod(&name, Some(host), &[("nvidia.com/gpu", u32::from(which % 3))]),
                2 => pod(&name, None, &[("nvidia.com/gpu", u32::from(which))]),
                3 => Observation::Gone(Table::Pods, ObjectKey::new("ns", name.as_str())),
                4 => node(host, &[("nvidia.com/gpu", u32::from(which))], &[]),
                5 => Observation::Gone(Table::Nodes, ObjectKey::new("", host)),
                6 => page(host, NOW, vec![reading(u32::from(which), 0.0, Some(&name))]),
                7 => owned(&name, Some(host), 1, "Job", "j"),
                8 => seen(kueue(host, (which > 2).then(|| owner_ref("Job", "j")), (which % 2 == 0).then_some(("Pending", "")))),
                9 => Observation::Gone(Table::KueueWorkloads, ObjectKey::new("ns", host)),
                10 => member(&name, Some(host), "Workload", host),
                11 => door("lq", host),
                _ => cluster_queue(host, (which > 2).then_some("cohort")),
            });
            let fleet = ledger.publish(NOW);
            let counts = fleet.device_counts();
            prop_assert_eq!(DeviceAmount::whole(counts.total), counts.allocated + counts.free);
            prop_assert_eq!(counts.total as usize, fleet.devices().count());
            prop_assert!(counts.idle_allocated <= counts.allocated);
            for job in fleet.jobs.iter() {
                let named = job.places.len() as u32;
                prop_assert!(named <= job.devices_allocated.max(named.min(1) * 6));
            }
        }
        for table in [Table::Pods, Table::Nodes, Table::KueueWorkloads, Table::LocalQueues, Table::ClusterQueues] {
            ledger.apply(Observation::Begin(table));
            ledger.apply(Observation::End(table));
        }
        let fleet = ledger.publish(NOW);
        prop_assert!(fleet.nodes.is_empty() && fleet.jobs.is_empty() && fleet.pools.is_empty() && fleet.queues.is_empty());
        prop_assert!(ledger.nodes.is_empty() && ledger.job_pods.is_empty() && ledger.pods_by_owner.is_empty());
        prop_assert!(ledger.groups.is_empty());
    }
}
