//! Jobs of several objects: what each object states of the whole job, and roles that start one after another.

use super::support::*;
use super::tests_groups::{group, kueue, seen};
use super::*;
use model::fleet::job::{Gang, Job, JobState};
use model::fleet::object_parts::Resources;
use model::fleet::queue::QueueSystem;
use model::fleet::siting::{JobPodSet, StartBlock};

/// A workload of one pod set that is a gang.
fn gang(table: Table, kind: &str, pods: u32, owner: Option<(&str, &str)>) -> WorkloadSeen {
    let owner = owner.map(|(kind, name)| owner_ref(kind, name));
    let mut seen = workload(table, kind, "t", pods, 8, owner);
    seen.gang_min = Some(pods);
    seen.pod_sets = Arc::from([set("node", pods)]);
    seen
}

fn set(name: &str, pods: u32) -> JobPodSet {
    JobPodSet {
        name: Name::new(name),
        count: pods,
        min: pods,
        request: devices(&[("nvidia.com/gpu", 8)]),
        ..JobPodSet::default()
    }
}

fn after(role: &str) -> Option<Box<StartBlock>> {
    Some(Box::new(StartBlock::Role {
        on: Name::new(role),
        until: Name::new("Complete"),
    }))
}

fn only_job(observations: impl IntoIterator<Item = Observation>) -> Job {
    let fleet = fold(observations).publish(NOW);
    assert_eq!(fleet.jobs.len(), 1, "{:#?}", fleet.jobs);
    (*fleet.jobs[0]).clone()
}

fn of(workload: WorkloadSeen) -> Observation {
    Observation::Workload(Box::new(workload))
}

/// A TrainJob whose runtime has the devices: its JobSet and that one's Job state the same gang.
#[test]
fn a_gang_that_two_levels_of_owners_state_is_one_gang() {
    let mut top = workload(Table::TrainJobs, "TrainJob", "t", 2, 0, None);
    top.total = Resources::default();
    top.per_pod = Resources::default();
    let job = |top: Vec<Observation>| {
        let parts = [
            of(gang(Table::JobSets, "JobSet", 2, Some(("TrainJob", "t")))),
            of(gang(Table::Jobs, "Job", 2, Some(("JobSet", "t")))),
            owned("t-0", Some("a"), 8, "Job", "t"),
            owned("t-1", Some("b"), 8, "Job", "t"),
        ];
        only_job(top.into_iter().chain(parts))
    };
    let whole = Some(Gang { size: 2, min: 2 });
    // The owner at the top may be of a kind that is not listed.
    for top in [vec![of(top)], Vec::new()] {
        let job = job(top);
        assert_eq!((job.gang, job.state), (whole, JobState::Running));
        assert_eq!((job.devices_requested, job.pod_sets.len()), (16, 1));
    }
}

/// Two gangs side by side under an owner that states none are both needed.
#[test]
fn gangs_beside_each_other_add_up() {
    let mut other = gang(Table::Jobs, "Job", 3, Some(("Wrapper", "w")));
    (other.key, other.uid) = (ObjectKey::new("ns", "u"), Name::new("Job-u"));
    let job = only_job([
        of(gang(Table::Jobs, "Job", 2, Some(("Wrapper", "w")))),
        of(other),
    ]);
    assert_eq!(job.gang, Some(Gang { size: 5, min: 5 }));
    assert_eq!(job.devices_requested, 40);
}

#[test]
fn a_role_that_waits_for_another_says_so() {
    let mut set = gang(Table::JobSets, "JobSet", 2, None);
    Arc::make_mut(&mut set.pod_sets)[0].blocked = after("init");
    let job = only_job([of(set.clone())]);
    assert_eq!(job.state, JobState::Waiting);
    let why = "its role node waits until role init is Complete";
    assert_eq!((job.reason_code, &*job.reason), (Some("role-waits"), why));
    // Kueue's copy of the pod sets does not say it.
    let mut admitted = kueue("w", Some(owner_ref("JobSet", "t")), None);
    admitted.pod_sets = Arc::from([self::set("node", 2)]);
    admitted.reserved_at = Some(NOW);
    admitted.admitted_at = Some(NOW);
    let job = only_job([of(set.clone()), seen(admitted)]);
    assert_eq!((job.reason_code, &*job.reason), (Some("role-waits"), why));
    assert!(job.pod_sets[0].follows_role());
    // A suspended job waits for the one who suspended it.
    set.suspended = true;
    assert_eq!(only_job([of(set)]).reason_code, Some("suspended"));
}

/// The JobSet of a TrainJob, which its runtime fills, states where its pods may run.
#[test]
fn the_placement_of_a_job_is_that_of_the_part_that_states_it() {
    let mut top = gang(Table::TrainJobs, "TrainJob", 2, None);
    Arc::make_mut(&mut top.pod_sets)[0].blocked = Some(Box::new(StartBlock::NoPlacement));
    let alone = only_job([of(top.clone())]);
    assert!(!alone.pod_sets[0].has_placement());
    assert_eq!(alone.devices_requested, 16);
    assert_eq!(
        &*alone.reason,
        "pod placement unknown: its JobSet was not found"
    );
    let mut made = gang(Table::JobSets, "JobSet", 2, Some(("TrainJob", "t")));
    Arc::make_mut(&mut made.pod_sets)[0].node_selector = labels(&[("zone", "b")]);
    let job = only_job([of(top), of(made)]);
    assert_eq!(job.pod_sets.len(), 1);
    assert!(job.pod_sets[0].has_placement());
    assert_eq!(job.pod_sets[0].node_selector, labels(&[("zone", "b")]));
    assert_eq!(job.devices_requested, 16);
}

/// Bare pods of a group that starts with eight pods start together, even if they look like single pods.
#[test]
fn bare_pods_start_as_the_gang_that_their_group_states() {
    let mut of_pods = group(Table::PodGroups, QueueSystem::None, "g", None);
    of_pods.gang_min = Some(4);
    let member = |at: u32| {
        let mut pod = pod_seen(&format!("g-{at}"), None, &[("nvidia.com/gpu", 8)]);
        pod.siting = Some(Arc::new(model::fleet::siting::Siting {
            member_of: Some(model::fleet::siting::Membership {
                kind: Name::new("PodGroup"),
                name: Name::new("g"),
            }),
            ..Default::default()
        }));
        Observation::Pod(Box::new(pod))
    };
    let minimum = |pods: u32| {
        let job = only_job((0..pods).map(member).chain([seen(of_pods.clone())]));
        let sets: Vec<(u32, u32)> = job
            .pod_sets
            .iter()
            .map(|set| (set.count, set.min))
            .collect();
        sets
    };
    assert_eq!(minimum(4), [(4, 4)]);
    assert_eq!(minimum(6), [(6, 4)], "two more than it needs");
    assert_eq!(minimum(3), [(3, 3)], "of the pods that there are, all");
}
