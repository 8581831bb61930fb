//! One decision: which jobs are suspended, admitted and preempted now.

use std::collections::BTreeMap;
use std::time::Duration;

use cluster::mutations::{GovernSeen, GovernWrite};
use engine::compiled::{CompiledFleet, WorkloadId};
use engine::cycle::{self, Cycle, Options};
use engine::fit::Relaxation;
use engine::live::CLASS;
use engine::snapshot::{PodSet, Snapshot, Status};
use engine::state::{Allocation, State};
use model::base::{Moment, Name};
use model::fleet::govern::{
    ADMITTED, CHECKPOINT_WANTED, ETA, EVICTIONS, FLAVOR, HOLD, POSITION, PREEMPTING, REASON,
    REQUEUE_AT, SUSPENDED, flavors_word,
};
use model::fleet::job::JobKey;
use model::fleet::run_hold::HELD;

use super::class::{GovernClass, class_of};
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
    /// When the queues were created: an older job may have run before it was governed, and stays admitted whatever its queue's
    /// quota.
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
    /// It would be admitted once pods of other jobs have ended or are scheduled.
    WaitsForPods,
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
            Self::WaitsForPods | Self::Waiting(_) => "waiting",
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
    let pending = add_pending_pods(&mut snapshot, &classes);
    let compiled = CompiledFleet::new(snapshot);
    let mut actual = State::new(&compiled);
    // Admitted jobs keep the nodes that their pending pods will get. Those without such nodes come first in the cycle, so that
    // devices are reserved for them.
    let mut homeless: Vec<JobKey> = Vec::new();
    for (key, of) in &pending {
        let Some(work) = compiled.work(key) else {
            continue;
        };
        let count = compiled.workload(work).pod_count();
        let found = actual.start(work, &Relaxation::default());
        if found.map_or(0, |found| found.pods() as u64) < count && !homeless.contains(of) {
            homeless.push(of.clone());
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
    then.commit();
    let positions = positions(&then);
    let cycle = lasting_cycle(&then);
    let mut run = Run {
        compiled: &compiled,
        by_key: &by_key,
        rules,
        decision: Decision::default(),
    };
    run.set_states(&classes, &positions);
    run.enter(&classes);
    let pushed = run.preempt(&cycle);
    run.find_missing(&classes);
    run.requeue(&homeless, &pushed);
    run.keep_running(&classes, &pushed);
    run.admit(&mut actual, &cycle, &homeless);
    let mut decision = run.decision;
    decision.snapshot = compiled.snapshot.as_ref().clone();
    decision
        .snapshot
        .workloads
        .retain(|work| &*work.key.kind != PENDING);
    decision
}

/// Treats running jobs that were never admitted and are younger than the queues as new where they exceed their queue's quota.
/// They started while `govern` did not run or could not write.
fn refuse_adoptions(
    snapshot: &Snapshot,
    by_key: &BTreeMap<&JobKey, &GovernedJob>,
    classes: &mut BTreeMap<&JobKey, GovernClass>,
    rules: &GovernRules,
) {
    let mut late = Vec::new();
    for (&key, class) in classes.iter() {
        let job = by_key.get(key);
        let is_late = |job: &&&GovernedJob| job.governed.created > rules.since && !job.asks_nothing;
        if let Some(job) = job.filter(is_late)
            && *class == GovernClass::Adopted
        {
            late.push((job.running_since, key));
        }
    }
    if rules.observe || late.is_empty() {
        return;
    }
    let mut trial = snapshot.clone();
    prepare(&mut trial, by_key, classes);
    let compiled = CompiledFleet::new(trial);
    let mut state = State::new(&compiled);
    // The last to start is suspended first.
    late.sort_unstable();
    for (_, key) in late.into_iter().rev() {
        let Some(work) = compiled.work(key) else {
            continue;
        };
        let Some(queue) = compiled.workloads[work].queue else {
            continue;
        };
        let mut pairs = 0..state.tree().width(queue);
        if pairs.any(|pair| state.available(queue, pair) < 0) {
            state.evict(work);
            classes.insert(key, GovernClass::New);
        }
    }
}

/// How often a cycle is repeated without the jobs that it admits in vain.
const MOST_TRIES: usize = 4;

/// A cycle that admits no job that the next cycle would preempt. A cycle does not preempt what it has just admitted, so a
/// borrowing job could start, only to be preempted by a later job of the same cycle that has nominal quota.
fn lasting_cycle(state: &State<'_>) -> Cycle {
    let mut base = state.clone();
    let mut tries = 1;
    loop {
        let mut then = base.clone();
        let mut cycle = cycle::cycle(&mut then, Options::default());
        if cycle.admitted.is_empty() {
            return cycle;
        }
        then.commit();
        let next = cycle::cycle(&mut then, Options::default());
        let victims = next.preempted.iter().flat_map(|it| &it.victims.list);
        let victims: Vec<WorkloadId> = victims.map(|victim| victim.work).collect();
        let in_vain = |work: &WorkloadId| victims.contains(work);
        let vain: Vec<WorkloadId> = (cycle.admitted.iter())
            .map(|admission| admission.work)
            .filter(in_vain)
            .collect();
        if vain.is_empty() {
            return cycle;
        }
        if tries == MOST_TRIES {
            cycle
                .admitted
                .retain(|admission| !vain.contains(&admission.work));
            cycle
                .preempted
                .retain(|preempted| !vain.contains(&preempted.by));
            return cycle;
        }
        for work in vain {
            base.set_status(work, Status::Held);
        }
        base.commit();
        tries += 1;
    }
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

struct Run<'a> {
    compiled: &'a CompiledFleet,
    by_key: &'a BTreeMap<&'a JobKey, &'a GovernedJob>,
    rules: &'a GovernRules,
    decision: Decision,
}

impl Run<'_> {
    fn now(&self) -> Moment {
        self.compiled.snapshot.at
    }

    fn key(&self, work: WorkloadId) -> &JobKey {
        &self.compiled.workload(work).key
    }

    fn set_states(
        &mut self,
        classes: &BTreeMap<&JobKey, GovernClass>,
        positions: &BTreeMap<JobKey, usize>,
    ) {
        for (key, class) in classes {
            let standing = match class {
                GovernClass::Refused(why) => AdmissionState::Refused(why.clone()),
                GovernClass::Over | GovernClass::Leaving => AdmissionState::Ending,
                GovernClass::TakenBack => AdmissionState::Held("suspended by a user".to_owned()),
                GovernClass::New => AdmissionState::New,
                GovernClass::LeftSuspended(hold) => AdmissionState::Held(hold.words()),
                GovernClass::Adopted | GovernClass::Admitted => AdmissionState::Admitted,
                GovernClass::Held(why) => AdmissionState::Held(why.clone()),
                GovernClass::Waiting => {
                    AdmissionState::Waiting(positions.get(*key).copied().unwrap_or(1))
                }
            };
            self.decision.standings.insert((*key).clone(), standing);
        }
    }

    fn write(
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

    /// Suspends new jobs into their queues, and marks jobs that ran before as admitted.
    fn enter(&mut self, classes: &BTreeMap<&JobKey, GovernClass>) {
        let known = |(key, class)| Some((key, class, *self.by_key.get(key)?));
        let mut all: Vec<(&&JobKey, &GovernClass, &GovernedJob)> =
            classes.iter().filter_map(known).collect();
        // First those whose pods exist or may start at any moment, then the oldest.
        all.sort_by_key(|(_, _, job)| {
            let has_none = !job.has_pods && job.pending_since.is_none();
            (has_none, job.governed.created)
        });
        for (key, class, job) in all {
            match class {
                GovernClass::New => {
                    let words = format!("not admitted by queue {} yet", job.governed.queue);
                    let mut notes = vec![(REASON, Some(words.clone()))];
                    // Annotations copied from another job are removed; a resumed job is no longer on hold.
                    let stale = [ADMITTED, FLAVOR].into_iter();
                    let stale = stale.filter(|key| job.governed.notes.get(key).is_some());
                    notes.extend(stale.map(|key| (key, None)));
                    if job.governed.is_suspended_by_somebody() {
                        notes.push((HOLD, None));
                    }
                    self.write(key, Purpose::Suspend, Some(true), notes, words);
                }
                GovernClass::TakenBack => {
                    let words = "held: suspended by a user".to_owned();
                    let mut notes = vec![(ADMITTED, None), (FLAVOR, None)];
                    notes.push((HOLD, Some(SUSPENDED.to_owned())));
                    notes.push((REASON, Some(words.clone())));
                    self.write(key, Purpose::Hold, None, notes, words);
                }
                GovernClass::LeftSuspended(hold) => {
                    let words = format!("{}: it waits in its queue again", hold.late_words());
                    let mut notes = vec![(REASON, Some(words.clone()))];
                    notes.extend([HELD, ADMITTED, FLAVOR].map(|key| (key, None)));
                    self.write(key, Purpose::Requeue, None, notes, words);
                }
                GovernClass::Adopted => {
                    let since = job.running_since.unwrap_or_else(|| self.now());
                    let mut notes = vec![(ADMITTED, Some(since.rfc3339()))];
                    let flavor = self.flavor_in_use(key);
                    notes.extend(flavor.map(|flavor| (FLAVOR, Some(flavor))));
                    let words = "its pods ran before it was governed: it counts as admitted";
                    self.write(key, Purpose::Adopt, None, notes, words.to_owned());
                }
                _ => {}
            }
        }
    }

    /// The flavors of the nodes that a job's pods are on.
    fn flavor_in_use(&self, key: &JobKey) -> Option<String> {
        let snapshot = &self.compiled.snapshot;
        let work = self.compiled.workload(self.compiled.work(key)?);
        let mut pairs: Vec<(Name, Name)> = Vec::new();
        for set in &work.sets {
            let pod = set.placements.first()?;
            let node = snapshot.nodes.get(self.compiled.node(&pod.node)?)?;
            let class = node.labels.get(CLASS)?;
            let mut flavors = snapshot.flavors.iter();
            let flavor = flavors.find(|flavor| flavor.labels.get(CLASS) == Some(class))?;
            pairs.push((set.name.clone(), flavor.name.clone()));
        }
        Some(flavors_word(&pairs)).filter(|word| !word.is_empty())
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

    /// Finds admitted jobs whose pods are not all scheduled, whatever the reason: the scheduler, a ResourceQuota or a webhook may
    /// have one that the engine does not know.
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
    fn requeue(&mut self, homeless: &[JobKey], pushed: &[JobKey]) {
        let missing = self.decision.missing.clone();
        for key in missing.iter().filter(|key| !pushed.contains(key)) {
            let Some(job) = self.by_key.get(key).copied() else {
                continue;
            };
            // Independent pods keep working, unless the devices for the others do not exist.
            let works = job.has_pods && !job.is_gang;
            if works && !homeless.contains(key) {
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

    /// Admits jobs for which the devices are free now.
    fn admit(&mut self, actual: &mut State<'_>, cycle: &Cycle, homeless: &[JobKey]) {
        // What these jobs lack is reserved for them, even if another job would end in time.
        let kept: Vec<Option<Name>> = homeless
            .iter()
            .filter_map(|key| self.by_key.get(key))
            .map(|job| job.governed.notes.get(FLAVOR).cloned())
            .collect();
        for admission in &cycle.admitted {
            let key = self.key(admission.work).clone();
            let Some(job) = self.by_key.get(&key).copied() else {
                continue;
            };
            let pairs = self.flavors(admission.work, &admission.allocation);
            let needs = |kept: &Option<Name>| {
                let one = |(_, flavor): &(Name, Name)| {
                    kept.as_ref().is_none_or(|word| {
                        let mut parts = word.split(['=', ',']);
                        parts.any(|part| *part == **flavor)
                    })
                };
                pairs.is_empty() || pairs.iter().any(one)
            };
            if kept.iter().any(needs) || !actual.admit_again(admission.work, &admission.allocation)
            {
                self.decision
                    .standings
                    .insert(key, AdmissionState::WaitsForPods);
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
            self.write(&key, Purpose::Admit, Some(false), notes, words);
            let is_job = &*job.object.place.group == "batch";
            if let (Some(write), true, [(_, flavor)]) = (
                self.decision.writes.last_mut(),
                is_job && !job.governed.has_started,
                pairs.as_slice(),
            ) {
                write.write.nodes = node_rule(&self.compiled.snapshot, flavor);
            }
            self.decision.standings.insert(key, AdmissionState::Admits);
        }
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
