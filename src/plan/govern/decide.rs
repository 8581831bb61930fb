//! One decision: which jobs are suspended, admitted and preempted now.

use std::collections::BTreeMap;
use std::time::Duration;

use cluster::mutations::{GovernSeen, GovernWrite};
use engine::compiled::{CompiledFleet, WorkloadId};
use engine::cycle::{self, Cycle};
use engine::fit::Relaxation;
use engine::snapshot::{PodSet, Snapshot, Status};
use engine::state::{Allocation, State};
use model::base::{Moment, Name};
use model::fleet::govern::{
    ADMITTED, CHECKPOINT_WANTED, ETA, EVICTIONS, FLAVOR, POSITION, PREEMPTING, REASON, REQUEUE_AT,
    flavors_word,
};
use model::fleet::job::JobKey;

use super::class::{GovernClass, class_of};
use super::enter::{candidates, refuse_adoptions};
use super::lasting_cycle::{lasting_cycle, postpone_preemptions};
use super::nodes::node_rule;
use super::prepare::{PENDING, add_pending_pods, is_stuck, prepare};
use super::{GovernedJob, PlannedWrite, Purpose};

/// An admitted job whose pods are unschedulable for this long is requeued.
pub(super) const PLACED_WITHIN: Duration = Duration::from_secs(300);

/// Longest back-off of a preempted job.
const LONGEST_BACKOFF: Duration = Duration::from_secs(1800);

/// The rules of the settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GovernRules {
    /// How long a job that saves checkpoints has to save another one before it is preempted.
    pub checkpoint_grace: Duration,
    /// Back-off of a job after its first preemption; doubled for each further one.
    pub backoff: Duration,
    /// When the queues were created. Older jobs may have run before they were governed; they stay admitted regardless
    /// of their queue's quota.
    pub since: Moment,
    /// Nothing is written: unsuspended jobs without pods count as suspended, and running ones as admitted.
    pub observe: bool,
}

/// State of a job with the label.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AdmissionState {
    /// It is left alone, for this reason.
    Refused(String),
    /// It was created unsuspended, and is suspended now.
    New,
    /// Its quota is reserved, and its pods run or are being created.
    Admitted,
    /// This decision admits it.
    Admits,
    /// It is at this position in its queue, from 1, and is admitted once pods of other jobs have ended or are scheduled,
    /// or once a job may be preempted for it.
    WaitsForPods(usize),
    /// It is pending, at this position in its queue, from 1.
    Waiting(usize),
    /// It is not considered, for this reason.
    Held(String),
    /// It is being preempted.
    Preempted,
    /// It has ended, or its pods are ending.
    Ending,
}

impl AdmissionState {
    /// The word for metrics.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Refused(_) => "left-alone",
            Self::New => "new",
            Self::Admitted | Self::Admits => "admitted",
            Self::WaitsForPods(_) | Self::Waiting(_) => "waiting",
            Self::Held(_) => "held",
            Self::Preempted => "preempted",
            Self::Ending => "ending",
        }
    }
}

/// The result of a decision.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Decision {
    /// The writes, in order.
    pub writes: Vec<PlannedWrite>,
    /// State of each job with the label.
    pub standings: BTreeMap<JobKey, AdmissionState>,
    /// Admitted jobs whose pods are not all scheduled.
    pub missing: Vec<JobKey>,
    /// Jobs that were found unsuspended and new: they are suspended or admitted, however long that takes, and do not count as
    /// admitted only because their pods run meanwhile.
    pub entering: Vec<JobKey>,
    /// The fleet that it was decided on: governed jobs, and what others have allocated.
    pub snapshot: Snapshot,
}

/// Decides on a fleet snapshot of [`engine::live::snapshot`].
pub fn decide(mut snapshot: Snapshot, jobs: &[GovernedJob], rules: &GovernRules) -> Decision {
    let by_key: BTreeMap<&JobKey, &GovernedJob> = jobs.iter().map(|job| (&job.key, job)).collect();
    let mut classes: BTreeMap<&JobKey, GovernClass> = jobs
        .iter()
        .map(|job| (&job.key, class_of(job, &snapshot, rules.observe)))
        .collect();
    refuse_adoptions(&snapshot, &by_key, &mut classes, rules);
    prepare(&mut snapshot, &by_key, &classes);
    let entering = candidates(&mut snapshot, &by_key, &classes);
    let pending = add_pending_pods(&mut snapshot, &classes);
    let compiled = CompiledFleet::new(snapshot);
    let mut actual = State::new(&compiled);
    // Admitted jobs keep the nodes that their pending pods will get. Those without such nodes come first in the cycle, so that
    // devices are reserved for them.
    let mut without_nodes: Vec<JobKey> = Vec::new();
    for (key, of) in &pending {
        let Some(work) = compiled.work(key) else {
            continue;
        };
        let count = compiled.workload(work).pod_count();
        let found = actual.start(work, &Relaxation::default());
        if found.map_or(0, |found| found.pods() as u64) < count && !without_nodes.contains(of) {
            without_nodes.push(of.clone());
        }
    }
    actual.commit();
    let mut then = actual.clone();
    for work in 0..compiled.workloads.len() {
        if then.workload_state(work).status == Status::Ending && !is_stuck(&compiled, work) {
            then.evict(work);
            then.set_status(work, Status::Held);
        }
    }
    // New jobs are in their queues already, so that none is passed by one behind it only because its suspension comes later.
    let entering: Vec<WorkloadId> = (entering.iter())
        .filter_map(|key| compiled.work(key))
        .filter(|&work| then.workload_state(work).status == Status::Held)
        .collect();
    for &work in &entering {
        then.set_status(work, Status::Waiting);
    }
    then.commit();
    let mut cycle = lasting_cycle(&then);
    let postponed = postpone_preemptions(&mut cycle, &then, |work| entering.contains(&work));
    let mut run = DecisionRun {
        compiled: &compiled,
        by_key: &by_key,
        rules,
        decision: Decision::default(),
    };
    run.set_states(&classes);
    let pushed = run.preempt(&cycle);
    run.find_missing(&classes);
    run.requeue(&without_nodes, &pushed);
    run.keep_running(&classes, &pushed);
    for work in postponed
        .into_iter()
        .filter(|work| !entering.contains(work))
    {
        let key = run.key(work).clone();
        run.decision
            .standings
            .insert(key, AdmissionState::WaitsForPods(1));
    }
    let heads = run.admit(&mut actual, &mut then, &cycle, &without_nodes);
    run.enter(&classes, &heads);
    run.set_positions(&positions(&then));
    let mut decision = run.decision;
    decision.snapshot = compiled.snapshot.as_ref().clone();
    decision
        .snapshot
        .workloads
        .retain(|work| &*work.key.kind != PENDING);
    decision
}

/// The position of each pending job in its queue, from 1.
fn positions(state: &State<'_>) -> BTreeMap<JobKey, usize> {
    let compiled = state.compiled();
    let lines = cycle::pending(state).into_values();
    lines
        .flat_map(|line| line.into_iter().enumerate())
        .map(|(at, work)| (compiled.workload(work).key.clone(), at + 1))
        .collect()
}

pub(super) struct DecisionRun<'a> {
    pub(super) compiled: &'a CompiledFleet,
    pub(super) by_key: &'a BTreeMap<&'a JobKey, &'a GovernedJob>,
    rules: &'a GovernRules,
    pub(super) decision: Decision,
}

impl DecisionRun<'_> {
    pub(super) fn now(&self) -> Moment {
        self.compiled.snapshot.at
    }

    fn key(&self, work: WorkloadId) -> &JobKey {
        &self.compiled.workload(work).key
    }

    fn set_states(&mut self, classes: &BTreeMap<&JobKey, GovernClass>) {
        for (key, class) in classes {
            let standing = match class {
                GovernClass::Refused(why) => AdmissionState::Refused(why.clone()),
                GovernClass::Over | GovernClass::Leaving => AdmissionState::Ending,
                GovernClass::TakenBack => AdmissionState::Held("suspended by a user".to_owned()),
                GovernClass::New => AdmissionState::New,
                GovernClass::LeftSuspended(hold) => AdmissionState::Held(hold.words()),
                GovernClass::Adopted | GovernClass::Admitted => AdmissionState::Admitted,
                GovernClass::Held(why) => AdmissionState::Held(why.clone()),
                GovernClass::Waiting => AdmissionState::Waiting(1),
            };
            self.decision.standings.insert((*key).clone(), standing);
        }
    }

    /// Sets the positions of pending jobs, without those that are admitted now.
    fn set_positions(&mut self, positions: &BTreeMap<JobKey, usize>) {
        for (key, standing) in &mut self.decision.standings {
            if let AdmissionState::Waiting(at) | AdmissionState::WaitsForPods(at) = standing {
                *at = positions.get(key).copied().unwrap_or(1);
            }
        }
    }

    pub(super) fn write(
        &mut self,
        key: &JobKey,
        purpose: Purpose,
        suspend: Option<bool>,
        notes: Vec<(&'static str, Option<String>)>,
        reason: String,
    ) {
        let Some(job) = self.by_key.get(key) else {
            return;
        };
        let work = self.compiled.work(key);
        self.decision.writes.push(PlannedWrite {
            job: key.clone(),
            purpose,
            write: GovernWrite {
                object: job.object.clone(),
                seen: GovernSeen::of(&job.governed),
                suspend,
                notes,
                nodes: None,
            },
            queue: job.governed.queue.clone(),
            devices: work.map_or(0, |work| self.compiled.workload(work).device_count()),
            reason,
        });
    }

    /// Preempts jobs so that others start; returns all that are on their way out.
    fn preempt(&mut self, cycle: &Cycle) -> Vec<JobKey> {
        let mut pushed = Vec::new();
        for preempted in &cycle.preempted {
            let by = self.key(preempted.by).clone();
            for victim in &preempted.victims.list {
                let key = self.key(victim.work).clone();
                pushed.push(key.clone());
                self.push_out(&key, &by);
            }
        }
        pushed
    }

    fn push_out(&mut self, key: &JobKey, by: &JobKey) {
        let Some(job) = self.by_key.get(key).copied() else {
            return;
        };
        if !job.governed.is_admitted() {
            // It is being adopted; the next decision may preempt it.
            return;
        }
        self.decision
            .standings
            .insert(key.clone(), AdmissionState::Preempted);
        if self.awaits_checkpoint(job, || format!("it frees devices for {by}")) {
            return;
        }
        let words = format!("preempted: {by} has priority for its devices");
        self.send_back(job, Purpose::Preempt, words);
    }

    /// Whether a job still has time to save a checkpoint before it is suspended. Requests one where that was not done yet.
    fn awaits_checkpoint(&mut self, job: &GovernedJob, why: impl Fn() -> String) -> bool {
        let now = self.now();
        let asked = job.governed.moment(PREEMPTING);
        let grace = self.rules.checkpoint_grace;
        let waits = match (asked, job.last_checkpoint) {
            // A job without checkpoints loses no less by waiting.
            (_, None) => false,
            (None, Some(_)) => !grace.is_zero(),
            (Some(asked), Some(saved)) => saved <= asked && now.since(asked) < grace.into(),
        };
        if waits && asked.is_none() {
            let stamp = Some(now.rfc3339());
            let notes = vec![(PREEMPTING, stamp.clone()), (CHECKPOINT_WANTED, stamp)];
            let words = format!("waiting for a checkpoint before {}", why());
            self.write(&job.key, Purpose::AskCheckpoint, None, notes, words);
        }
        waits
    }

    /// Suspends a job; it is pending again after its back-off.
    fn send_back(&mut self, job: &GovernedJob, purpose: Purpose, words: String) {
        let governed = &job.governed;
        let evictions = governed.evictions().saturating_add(1);
        let doubled = 1_u32 << (evictions - 1).min(16);
        let backoff = self
            .rules
            .backoff
            .saturating_mul(doubled)
            .min(LONGEST_BACKOFF.max(self.rules.backoff));
        let mut notes = vec![
            (ADMITTED, None),
            (FLAVOR, None),
            (EVICTIONS, Some(evictions.to_string())),
            (REQUEUE_AT, Some(self.now().plus(backoff).rfc3339())),
            (REASON, Some(words.clone())),
        ];
        if governed.notes.get(PREEMPTING).is_some() {
            notes.extend([(PREEMPTING, None), (CHECKPOINT_WANTED, None)]);
        }
        self.write(&job.key, purpose, Some(true), notes, words);
    }

    /// Finds admitted jobs with unscheduled pods. The cause does not matter: the scheduler, a ResourceQuota or a webhook may have
    /// one that the engine does not know.
    fn find_missing(&mut self, classes: &BTreeMap<&JobKey, GovernClass>) {
        for (key, class) in classes {
            let work = self
                .compiled
                .work(key)
                .map(|work| self.compiled.workload(work));
            let mut sets = work.into_iter().flat_map(|work| &work.sets);
            let lacks = |set: &PodSet| {
                !set.requests.devices.is_empty() && set.placements.len() < set.count as usize
            };
            if *class == GovernClass::Admitted && sets.any(lacks) {
                self.decision.missing.push((*key).clone());
            }
        }
    }

    /// Requeues admitted jobs whose pods are unschedulable.
    fn requeue(&mut self, without_nodes: &[JobKey], pushed: &[JobKey]) {
        let missing = self.decision.missing.clone();
        for key in missing.iter().filter(|key| !pushed.contains(key)) {
            let Some(job) = self.by_key.get(key).copied() else {
                continue;
            };
            // Independent pods keep working, unless the devices for the others do not exist.
            let works = job.has_pods && !job.is_gang;
            if works && !without_nodes.contains(key) {
                continue;
            }
            let admitted = job.governed.moment(ADMITTED);
            let seen = job.missing_since.max(job.pending_since);
            let since = match job.has_pods {
                true => seen,
                false => seen.max(admitted),
            };
            if since.is_none_or(|since| self.now().since(since) < PLACED_WITHIN.into()) {
                continue;
            }
            self.decision
                .standings
                .insert(key.clone(), AdmissionState::Preempted);
            let is_asked = job.has_pods
                && self.awaits_checkpoint(job, || {
                    "to be requeued: not all of its pods have nodes".to_owned()
                });
            if !is_asked {
                let minutes = PLACED_WITHIN.as_secs() / 60;
                let mut words = format!("requeued: its pods found no nodes for {minutes} minutes");
                if !job.missing_reason.is_empty() {
                    words.push_str(&format!(": {}", job.missing_reason));
                }
                self.send_back(job, Purpose::Requeue, words);
            }
        }
    }

    /// Cancels the checkpoint requests of jobs that no longer need to be preempted.
    fn keep_running(&mut self, classes: &BTreeMap<&JobKey, GovernClass>, pushed: &[JobKey]) {
        for (key, class) in classes {
            let asked = self
                .by_key
                .get(key)
                .is_some_and(|job| job.governed.notes.get(PREEMPTING).is_some());
            let goes = self.decision.standings.get(*key) == Some(&AdmissionState::Preempted);
            if *class == GovernClass::Admitted && asked && !pushed.contains(key) && !goes {
                let notes = vec![(PREEMPTING, None), (CHECKPOINT_WANTED, None)];
                let words = "no job needs its devices any more".to_owned();
                self.write(key, Purpose::KeepRunning, None, notes, words);
            }
        }
    }

    /// Admits jobs for which the devices are free now, and new jobs whose pods have them. `counted` has the quota of admitted jobs
    /// alone. Returns the new jobs that start once pods of others have ended.
    fn admit(
        &mut self,
        actual: &mut State<'_>,
        counted: &mut State<'_>,
        cycle: &Cycle,
        without_nodes: &[JobKey],
    ) -> Vec<JobKey> {
        let mut heads = Vec::new();
        // What these jobs lack is reserved for them, even if another job would end in time.
        let kept: Vec<Option<Name>> = without_nodes
            .iter()
            .filter_map(|key| self.by_key.get(key))
            .map(|job| job.governed.notes.get(FLAVOR).cloned())
            .collect();
        for admission in &cycle.admitted {
            let key = self.key(admission.work).clone();
            let Some(job) = self.by_key.get(&key).copied() else {
                continue;
            };
            let work = admission.work;
            let is_new = self.decision.standings.get(&key) == Some(&AdmissionState::New);
            // Its pods stay on their nodes; the nodes that the cycle found are ignored.
            let own = actual.allocation(work).filter(|_| is_new).cloned();
            let allocation = own.as_ref().unwrap_or(&admission.allocation);
            let pairs = self.flavors(work, allocation);
            let needs = |kept: &Option<Name>| {
                let one = |(_, flavor): &(Name, Name)| {
                    kept.as_ref().is_none_or(|word| {
                        let mut parts = word.split(['=', ',']);
                        parts.any(|part| *part == **flavor)
                    })
                };
                pairs.is_empty() || pairs.iter().any(one)
            };
            let is_kept = kept.iter().any(needs);
            if own.is_some() && (is_kept || !counted.admit_again(work, allocation)) {
                continue;
            }
            if own.is_none() && (is_kept || !actual.admit_again(work, allocation)) {
                if is_new {
                    heads.push(key);
                    continue;
                }
                self.decision
                    .standings
                    .insert(key, AdmissionState::WaitsForPods(1));
                continue;
            }
            if own.is_none() {
                counted.admit_again(work, allocation);
            }
            if is_new && own.is_none() {
                // It is suspended first: by the next decision none of its pods is in the way.
                continue;
            }
            let word = flavors_word(&pairs);
            let notes = vec![
                (ADMITTED, Some(self.now().rfc3339())),
                (FLAVOR, (!word.is_empty()).then(|| word.clone())),
                (POSITION, None),
                (REASON, None),
                (ETA, None),
                (REQUEUE_AT, None),
            ];
            let on = match word.as_str() {
                "" => String::new(),
                word => format!(" on {word}"),
            };
            let words = format!("admitted by queue {}{on}", job.governed.queue);
            // A new job is admitted as it is: it is not suspended.
            let resumes = (!is_new).then_some(false);
            self.write(&key, Purpose::Admit, resumes, notes, words);
            let is_job = &*job.object.place.group == "batch" && !is_new;
            if let (Some(write), true, [(_, flavor)]) = (
                self.decision.writes.last_mut(),
                is_job && !job.governed.has_started,
                pairs.as_slice(),
            ) {
                write.write.nodes = node_rule(&self.compiled.snapshot, flavor);
            }
            self.decision.standings.insert(key, AdmissionState::Admits);
        }
        heads
    }

    /// The flavor of the devices of each pod set; none for pod sets without devices and queues without quotas.
    fn flavors(&self, work: WorkloadId, allocation: &Allocation) -> Vec<(Name, Name)> {
        let snapshot = &self.compiled.snapshot;
        let sets = self.compiled.workload(work).sets.iter();
        sets.zip(&allocation.sets)
            .filter_map(|(set, held)| {
                let flavor = snapshot.flavors.get(*held.flavors.first()?)?;
                Some((set.name.clone(), flavor.name.clone()))
            })
            .collect()
    }
}
