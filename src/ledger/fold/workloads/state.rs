//! State, reason for waiting and failure of a job, from its workloads, pods and queueing system.

use std::sync::Arc;
use std::time::Duration;

use model::base::{Moment, Name};
use model::fleet::admission::Admission;
use model::fleet::device::Pod;
use model::fleet::govern::{KUEUE_QUEUE, QUEUE, is_hold};
use model::fleet::job::{Gang, JobState};
use model::fleet::object_parts::{Phase, WorkloadFailure};
use model::fleet::queue::QueueSystem;
use model::fleet::run_hold::RunHold;
use model::fleet::seen::WorkloadSeen;
use model::fleet::siting::JobPodSet;

use super::{reasons, sets};

/// The inputs for a job's state.
pub(crate) struct JobFacts<'a> {
    /// The job's own object, where it is known.
    pub(crate) top: Option<&'a Arc<WorkloadSeen>>,
    /// All workloads of its chain.
    pub(crate) workloads: &'a [&'a Arc<WorkloadSeen>],
    /// Its pods that ask for devices.
    pub(crate) pods: &'a [&'a Arc<Pod>],
    /// Its state in its queueing system.
    pub(crate) admission: Option<&'a Admission>,
    pub(crate) gang: Option<Gang>,
    pub(crate) sets: &'a [JobPodSet],
    /// The system of the queue that it is in.
    pub(crate) queue_system: QueueSystem,
}

impl<'a> JobFacts<'a> {
    /// True when its object is suspended, by anyone.
    pub(crate) fn suspended(&self) -> bool {
        self.top.is_some_and(|top| top.suspended)
            || (self.top.is_none()
                && !self.workloads.is_empty()
                && self.workloads.iter().all(|workload| workload.suspended))
    }

    /// The hold that its object, or its Workload, states while it is suspended.
    pub(crate) fn run_hold(&self) -> Option<RunHold> {
        let own = self.top.filter(|top| top.suspended);
        let own = own.and_then(|top| RunHold::of(&top.annotations));
        let queued = self.admission.map(|admission| &admission.seen);
        let queued = queued.filter(|seen| !seen.active && seen.outcome.is_none());
        own.or_else(|| RunHold::of(&queued?.annotations))
    }

    /// True when one of its pods has started.
    pub(crate) fn has_run(&self) -> bool {
        self.top.is_some_and(|top| top.failed_pods > 0)
            || self.pods.iter().any(|pod| pod.seen.started.is_some())
    }

    /// The queueing system that has not admitted it, if any.
    fn held_back(&self) -> Option<&'a Admission> {
        self.admission.filter(|admission| {
            let seen = &admission.seen;
            seen.outcome.is_none()
                && (!seen.active || (seen.pending.is_some() && seen.admitted_at.is_none()))
        })
    }

    /// The worker cluster that runs it, while none of its pods has a node here.
    pub(crate) fn worker_cluster(&self) -> Option<&'a Name> {
        let is_here = |pod: &&Arc<Pod>| pod.seen.node.is_some() && !pod.seen.phase.is_over();
        let cluster = self.admission?.worker_cluster()?;
        (!self.pods.iter().any(is_here)).then_some(cluster)
    }

    /// True in a Kueue queue while Kueue has created no Workload for it.
    fn is_unseen(&self) -> bool {
        self.queue_system == QueueSystem::Kueue && self.admission.is_none()
    }

    /// True in a Kueue queue while its Workload has no condition: neither admitted nor a reason.
    fn is_undecided(&self) -> bool {
        let says_nothing = self.admission.is_none_or(|admission| {
            let seen = &admission.seen;
            seen.pending.is_none() && seen.admitted_at.is_none() && seen.reserved_at.is_none()
        });
        self.queue_system == QueueSystem::Kueue && says_nothing
    }

    /// Why a role that requests devices is not started yet, where another role comes first.
    fn blocked_role(&self) -> Option<Name> {
        let mut roles = self.sets.iter().filter(|set| set.follows_role());
        roles
            .find(|set| set.request.wants_devices())
            .and_then(JobPodSet::block_words)
    }

    /// True when a queueing system, rather than a user, suspends it.
    fn is_queued(&self) -> bool {
        const QUEUES: [&str; 2] = [KUEUE_QUEUE, QUEUE];
        if let Some(admission) = self.admission
            && admission.system() == QueueSystem::Kueue
        {
            return admission.seen.active;
        }
        let hold = |top: &Arc<WorkloadSeen>| is_hold(&top.annotations);
        if self.top.is_some_and(hold) {
            return false;
        }
        self.top
            .into_iter()
            .chain(self.workloads.iter().copied())
            .any(|workload| workload.labels.first(QUEUES).is_some())
    }
}

pub(crate) fn state(standing: &JobFacts<'_>) -> JobState {
    let JobFacts {
        top,
        workloads,
        pods,
        admission,
        gang,
        ..
    } = *standing;
    let live: Vec<&&Arc<Pod>> = pods
        .iter()
        .filter(|pod| !pod.seen.phase.is_over())
        .collect();
    let bound = live.iter().filter(|pod| pod.seen.node.is_some()).count();
    let running = live
        .iter()
        .filter(|pod| pod.seen.phase == Phase::Running && pod.seen.deleted.is_none())
        .count();
    let leaving = live.iter().filter(|pod| pod.seen.deleted.is_some()).count();
    // Without the job's own object, its queueing system may still report the outcome.
    let outcome = match top {
        Some(top) => top.outcome,
        None => admission.and_then(|admission| admission.seen.outcome),
    };
    match outcome {
        Some(true) if bound == 0 => return JobState::Done,
        Some(false) if bound == 0 => return JobState::Failed,
        Some(_) => return JobState::Finishing,
        None => {}
    }
    if top.is_some_and(|top| top.deleted.is_some()) {
        return JobState::Finishing;
    }
    if standing.worker_cluster().is_some() {
        return JobState::Running;
    }
    let inactive = standing
        .held_back()
        .is_some_and(|admission| !admission.seen.active);
    if standing.suspended() {
        return match (bound > 0, standing.is_queued()) {
            (true, _) => JobState::Finishing,
            // Suspended by a queueing system until admission: pending.
            (false, true) => JobState::Waiting,
            (false, false) => JobState::Suspended,
        };
    }
    if inactive && bound == 0 {
        return JobState::Suspended;
    }
    let state_is_in_pods =
        admission.is_none() || (!pods.is_empty() && standing.held_back().is_none());
    if top.is_none() && workloads.is_empty() && live.is_empty() && state_is_in_pods {
        let failed = pods.iter().any(|pod| pod.seen.phase == Phase::Failed);
        return if failed {
            JobState::Failed
        } else {
            JobState::Done
        };
    }
    if leaving > 0 && leaving == live.len() && top.is_none() {
        return JobState::Finishing;
    }
    // Launchers and heads without devices are not among the pods that are counted here.
    let needed = gang.map_or(1, |gang| sets::device_pods(standing.sets, gang.min).max(1)) as usize;
    if running >= needed {
        JobState::Running
    } else if bound > 0 {
        JobState::Starting
    } else if live.is_empty() && top.is_some_and(|top| top.pods == 0) {
        JobState::Suspended
    } else {
        JobState::Waiting
    }
}

/// How long after a job's start its first pods may be created: later pods are recreated ones.
const FIRST_PODS: Duration = Duration::from_secs(300);
/// A condition set within this time after the job's creation counts as set at creation.
const SAME_TIME: Duration = Duration::from_secs(10);

/// When the first pod of a job ran, if its pods are the first since its start at `stated`: they may have waited for nodes before.
/// `None` if earlier pods existed.
pub(crate) fn first_run(stated: Moment, pods: &[&Arc<Pod>]) -> Option<Moment> {
    let made = pods.iter().map(|pod| pod.seen.created).min()?;
    let ran = pods.iter().filter_map(|pod| pod.seen.started).min()?;
    (made <= stated.plus(FIRST_PODS) && ran > stated).then_some(ran)
}

/// Start of its wait: its creation, also after its admission; for a job that ran before, the moment when it lost its devices.
pub(crate) fn waiting_since(standing: &JobFacts<'_>, created: Moment) -> Moment {
    let seen = standing.admission.map(|admission| &admission.seen);
    let evictions = seen.into_iter().flat_map(|seen| {
        let counted = seen.evictions.iter().filter_map(|eviction| eviction.at);
        counted.chain(seen.queued_at)
    });
    let of_pods = standing.pods.iter().filter_map(|pod| {
        let failure = pod.seen.failure.as_ref();
        failure.and_then(|failure| failure.last_eviction)
    });
    // A job of Kueue is suspended at creation: its resumption proves no earlier run.
    let by_kueue = standing
        .admission
        .is_some_and(|admission| admission.system() == QueueSystem::Kueue);
    let suspended = standing.top.and_then(|top| {
        let mut conditions = top.conditions.iter();
        conditions
            .find(|condition| {
                let is_stated =
                    condition.status == Some(true) || condition.status == Some(false) && !by_kueue;
                condition.kind.as_str() == "Suspended" && is_stated
            })
            .and_then(|condition| condition.since)
    });
    let pending = standing
        .pods
        .iter()
        .filter(|pod| pod.seen.node.is_none() && !pod.seen.phase.is_over())
        .map(|pod| pod.seen.created)
        .min();
    let queued = standing.held_back().map(|held| held.seen.created);
    let admitted = seen.and_then(|seen| seen.admitted_at.max(seen.reserved_at));
    let begun = created
        .max(admitted.unwrap_or(created))
        .max(standing.top.and_then(|top| top.started).unwrap_or(created));
    // The first pods of a job are made as it begins: they reset no clock. Those made for what ran before do.
    let anew = pending
        .or(queued)
        .filter(|made| standing.has_run() || *made > begun.plus(FIRST_PODS));
    // A job created as suspended has the condition from its first seconds.
    let suspended = suspended.filter(|since| *since > created.plus(SAME_TIME));
    let lost = evictions.chain(of_pods).chain(suspended).chain(anew).max();
    lost.unwrap_or(created).max(created)
}

/// Reason why it waits or is suspended: code and sentence.
pub(crate) fn reason(
    standing: &JobFacts<'_>,
    state: JobState,
    queue: Option<&Name>,
) -> (Option<&'static str>, Name) {
    let JobFacts { top, pods, .. } = *standing;
    if let Some(admission) = standing.held_back() {
        if !admission.seen.active {
            let why = admission
                .seen
                .evictions
                .first()
                .map(|eviction| &eviction.message)
                .filter(|message| !message.is_empty());
            return (
                Some("deactivated"),
                why.cloned()
                    .unwrap_or_else(|| Name::new("deactivated: spec.active is false")),
            );
        }
        let sentence = match &admission.seen.pending {
            Some((_, sentence)) if !sentence.is_empty() => sentence.clone(),
            Some((word, _)) => word.clone(),
            None => Name::default(),
        };
        return (Some(reasons::code(&admission.seen)), sentence);
    }
    let refused = pods
        .iter()
        .filter(|pod| pod.seen.node.is_none() && !pod.seen.phase.is_over())
        .find_map(|pod| pod.seen.unschedulable.as_ref());
    if let Some((reason, message)) = refused {
        return if reason.as_str() == "SchedulingGated" {
            (Some("gated"), Name::new("its pods carry scheduling gates"))
        } else {
            (Some("unschedulable"), message.clone())
        };
    }
    if top.is_some_and(|top| top.suspended) {
        return match (state, queue) {
            (JobState::Waiting, Some(queue)) => (
                Some("queued"),
                match standing.is_unseen() {
                    true => Name::from(format!("no Kueue Workload in queue {queue} yet")),
                    false => Name::from(format!("not admitted by queue {queue} yet")),
                },
            ),
            _ => (Some("suspended"), Name::new("held by spec.suspend")),
        };
    }
    if state == JobState::Suspended {
        return (Some("scaled-to-zero"), Name::new("requests no pods"));
    }
    if let Some(reason) = standing.blocked_role() {
        return (Some("role-waits"), reason);
    }
    let pending = pods
        .iter()
        .any(|pod| pod.seen.node.is_none() && !pod.seen.phase.is_over());
    if pending {
        return (
            Some("pending"),
            Name::new("the scheduler has given no reason yet"),
        );
    }
    if pods
        .iter()
        .any(|pod| pod.seen.node.is_some() && pod.seen.phase == Phase::Pending)
    {
        return (
            Some("starting"),
            Name::new("its containers are being started"),
        );
    }
    if pods.iter().all(|pod| pod.seen.phase.is_over()) && standing.is_undecided() {
        return (Some("queued"), Name::new("Kueue has given no reason yet"));
    }
    if pods.iter().all(|pod| pod.seen.phase.is_over()) {
        let mut sets = standing.sets.iter();
        return (
            Some("no-pods"),
            sets.find(|set| !set.has_placement())
                .and_then(JobPodSet::block_words)
                .unwrap_or_else(|| Name::new("its controller has created no pods")),
        );
    }
    (
        Some("incomplete"),
        Name::new("not all pods of its gang are running"),
    )
}

/// The worst failure of its pods: a present one before a past one, then an exit code before a restart; else that of its own
/// object or its last eviction.
pub(crate) fn failure(standing: &JobFacts<'_>) -> Option<WorkloadFailure> {
    let JobFacts {
        top,
        pods,
        workloads,
        ..
    } = *standing;
    // The pods of a JobSet that was restarted as a whole know of nothing before them.
    let as_a_whole = workloads.iter().map(|workload| workload.restarts).max();
    let as_a_whole = as_a_whole.unwrap_or(0);
    let eviction = standing
        .admission
        .and_then(|admission| admission.seen.evictions.first());
    let mut failures: Vec<&WorkloadFailure> = pods
        .iter()
        .filter_map(|pod| pod.seen.failure.as_ref())
        .collect();
    let restarts = failures
        .iter()
        .map(|failure| failure.restarts)
        .fold(as_a_whole, u32::saturating_add);
    let last_eviction = failures
        .iter()
        .filter_map(|failure| failure.last_eviction)
        .chain(eviction.and_then(|eviction| eviction.at))
        .max();
    failures.sort_by_key(|failure| {
        (
            failure.restarted.is_some(),
            failure.exit_code.is_none(),
            failure.message.is_empty(),
            std::cmp::Reverse(failure.restarted),
        )
    });
    if let Some(worst) = failures.first() {
        return Some(WorkloadFailure {
            restarts,
            last_eviction,
            ..(*worst).clone()
        });
    }
    if let Some(top) = top.filter(|top| top.outcome == Some(false) || top.failed_pods > 0) {
        let condition = top.conditions.iter().find(|condition| {
            condition.kind.as_str() == "Failed" && condition.status == Some(true)
        });
        return Some(WorkloadFailure {
            message: condition.map_or_else(
                || Name::from(format!("{} of its pods failed", top.failed_pods)),
                |condition| condition.message.clone(),
            ),
            restarts,
            last_eviction,
            ..WorkloadFailure::default()
        });
    }
    if restarts > 0 && eviction.is_none() {
        let created = pods.iter().map(|pod| pod.seen.created);
        return Some(WorkloadFailure {
            message: Name::new("its controller recreated all of its pods"),
            restarts,
            restarted: created.min(),
            last_eviction,
            ..WorkloadFailure::default()
        });
    }
    eviction.map(|eviction| WorkloadFailure {
        restarts,
        message: match eviction.message.is_empty() {
            true => eviction.reason.clone(),
            false => Name::from(format!("{}: {}", eviction.reason, eviction.message)),
        },
        last_eviction,
        ..WorkloadFailure::default()
    })
}
