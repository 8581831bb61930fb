//! One decision: who is suspended, admitted and preempted now.

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

use super::class::{Class, class_of};
use super::nodes::node_rule;
use super::prepare::{PENDING, add_pending_pods, is_stuck, prepare};
use super::{GovernedJob, PlannedWrite, Purpose};

/// An admitted job whose pods find no nodes for so long waits in its queue again.
pub(super) const PLACED_WITHIN: Duration = Duration::from_secs(300);

/// The longest that a preempted job waits before it may be admitted again.
const LONGEST_BACKOFF: Duration = Duration::from_secs(1800);

/// What the settings say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GovernRules {
    /// How long a job that saves checkpoints has for another one before it is preempted.
    pub checkpoint_grace: Duration,
    /// How long a job waits at least after its first preemption; twice as long after each further one.
    pub backoff: Duration,
    /// Since when there are queues: a job that was made before may have run before it was governed, and stays admitted whatever its
    /// queue has.
    pub since: Moment,
    /// Nothing is written: what is not suspended and has no pods is looked at as if it were, and what runs as if it were admitted.
    pub observe: bool,
}

/// Where a job with the label stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Standing {
    /// It is left alone, and why.
    Refused(String),
    /// It was made without being suspended, and is suspended now.
    New,
    /// Its quota is held, and its pods run or come.
    Admitted,
    /// It is admitted by this decision.
    Admits,
    /// It would be admitted; pods of others must have gone first, or found their nodes.
    WaitsForPods,
    /// It waits for its turn, at this place in its queue, from 1.
    Waiting(usize),
    /// It is not considered, and why.
    Held(String),
    /// It is being preempted.
    Preempted,
    /// It ends, or its pods go.
    Ending,
}

impl Standing {
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

/// What was decided.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Decision {
    /// What is written, in order.
    pub writes: Vec<PlannedWrite>,
    /// Where each job with the label stands.
    pub standings: BTreeMap<JobKey, Standing>,
    /// Those that are admitted and whose pods are not all on nodes.
    pub missing: Vec<JobKey>,
    /// The fleet that it was decided on: what is governed, and what others hold.
    pub snapshot: Snapshot,
}

/// Decides on a fleet as [`engine::live::snapshot`] shows it.
pub fn decide(mut snapshot: Snapshot, jobs: &[GovernedJob], rules: &GovernRules) -> Decision {
    let by_key: BTreeMap<&JobKey, &GovernedJob> = jobs.iter().map(|job| (&job.key, job)).collect();
    let mut classes: BTreeMap<&JobKey, Class> = jobs
        .iter()
        .map(|job| (&job.key, class_of(job, &snapshot, rules.observe)))
        .collect();
    refuse_adoptions(&snapshot, &by_key, &mut classes, rules);
    prepare(&mut snapshot, &by_key, &classes);
    let pending = add_pending_pods(&mut snapshot, &classes);
    let compiled = CompiledFleet::new(snapshot);
    let mut actual = State::new(&compiled);
    // Those that were admitted hold the nodes that their pods will have. Those that find none are first in the cycle, so that room is
    // kept for them.
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
    for work in 0..compiled.works.len() {
        if then.standing(work).status == Status::Ending && !is_stuck(&compiled, work) {
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
    run.stand(&classes, &positions);
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

/// Jobs that run, were not admitted, and were made after the queues: those beyond the quota of their queue count as new, and wait in it.
/// They started while `govern` did not run or could not write.
fn refuse_adoptions(
    snapshot: &Snapshot,
    by_key: &BTreeMap<&JobKey, &GovernedJob>,
    classes: &mut BTreeMap<&JobKey, Class>,
    rules: &GovernRules,
) {
    let mut late = Vec::new();
    for (&key, class) in classes.iter() {
        let job = by_key.get(key);
        let is_late = |job: &&&GovernedJob| job.governed.created > rules.since && !job.asks_nothing;
        if let Some(job) = job.filter(is_late)
            && *class == Class::Adopted
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
    // The last to start goes first.
    late.sort_unstable();
    for (_, key) in late.into_iter().rev() {
        let Some(work) = compiled.work(key) else {
            continue;
        };
        let Some(queue) = compiled.works[work].queue else {
            continue;
        };
        let mut pairs = 0..state.tree().width(queue);
        if pairs.any(|pair| state.available(queue, pair) < 0) {
            state.evict(work);
            classes.insert(key, Class::New);
        }
    }
}

/// How often a cycle is run again without those that it admits in vain.
const MOST_TRIES: usize = 4;

/// A cycle that admits nobody whom the next one would preempt: within one cycle nobody who has just been admitted is preempted, so one
/// that borrows might start, only to be pushed out by one that comes later in the same cycle and has the quota of its own.
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

/// The place of each that waits in its queue, from 1.
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

    fn stand(&mut self, classes: &BTreeMap<&JobKey, Class>, positions: &BTreeMap<JobKey, usize>) {
        for (key, class) in classes {
            let standing = match class {
                Class::Refused(why) => Standing::Refused(why.clone()),
                Class::Over | Class::Leaving => Standing::Ending,
                Class::TakenBack => Standing::Held("somebody suspended it".to_owned()),
                Class::New => Standing::New,
                Class::Adopted | Class::Admitted => Standing::Admitted,
                Class::Held(why) => Standing::Held(why.clone()),
                Class::Waiting => Standing::Waiting(positions.get(*key).copied().unwrap_or(1)),
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

    /// Those that are new wait in their queue from now on, and those that ran before count as admitted.
    fn enter(&mut self, classes: &BTreeMap<&JobKey, Class>) {
        let known = |(key, class)| Some((key, class, *self.by_key.get(key)?));
        let mut all: Vec<(&&JobKey, &Class, &GovernedJob)> =
            classes.iter().filter_map(known).collect();
        // Those whose pods may start at any moment, or have, first; then the oldest.
        all.sort_by_key(|(_, _, job)| {
            let has_none = !job.has_pods && job.pending_since.is_none();
            (has_none, job.governed.created)
        });
        for (key, class, job) in all {
            match class {
                Class::New => {
                    let words = format!("not admitted by queue {} yet", job.governed.queue);
                    let mut notes = vec![(REASON, Some(words.clone()))];
                    // What a copy carries of the first job is none of its own; who was resumed is held no more.
                    let stale = [ADMITTED, FLAVOR].into_iter();
                    let stale = stale.filter(|key| job.governed.notes.get(key).is_some());
                    notes.extend(stale.map(|key| (key, None)));
                    if job.governed.is_suspended_by_somebody() {
                        notes.push((HOLD, None));
                    }
                    self.write(key, Purpose::Suspend, Some(true), notes, words);
                }
                Class::TakenBack => {
                    let words = "held: somebody suspended it".to_owned();
                    let notes = vec![
                        (ADMITTED, None),
                        (FLAVOR, None),
                        (HOLD, Some(SUSPENDED.to_owned())),
                        (REASON, Some(words.clone())),
                    ];
                    self.write(key, Purpose::Hold, None, notes, words);
                }
                Class::Adopted => {
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

    /// Those that go so that others start; gives all that are on their way out.
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
            // It is being adopted; the next decision may push it out.
            return;
        }
        self.decision
            .standings
            .insert(key.clone(), Standing::Preempted);
        if self.awaits_checkpoint(job, || format!("it makes room for {by}")) {
            return;
        }
        let words = format!("preempted: {by} has priority for its devices");
        self.send_back(job, Purpose::Preempt, words);
    }

    /// Whether a job still has time to save a checkpoint before it is suspended. Asks it for one where that was not done yet.
    fn awaits_checkpoint(&mut self, job: &GovernedJob, why: impl Fn() -> String) -> bool {
        let now = self.now();
        let asked = job.governed.moment(PREEMPTING);
        let grace = self.rules.checkpoint_grace;
        let waits = match (asked, job.last_checkpoint) {
            // One that never saved anything loses no less by waiting.
            (_, None) => false,
            (None, Some(_)) => !grace.is_zero(),
            (Some(asked), Some(saved)) => saved <= asked && now.since(asked) < grace.into(),
        };
        if waits && asked.is_none() {
            let stamp = Some(now.rfc3339());
            let notes = vec![(PREEMPTING, stamp.clone()), (CHECKPOINT_WANTED, stamp)];
            let words = format!("a checkpoint is awaited before {}", why());
            self.write(&job.key, Purpose::AskCheckpoint, None, notes, words);
        }
        waits
    }

    /// Takes a job off its devices; it waits again once its back-off is over.
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

    /// Those that are admitted and whose pods are not all on nodes, whatever the reason: the scheduler, a quota of the namespace or a
    /// webhook may know one that the engine does not.
    fn find_missing(&mut self, classes: &BTreeMap<&JobKey, Class>) {
        for (key, class) in classes {
            let work = self
                .compiled
                .work(key)
                .map(|work| self.compiled.workload(work));
            let mut sets = work.into_iter().flat_map(|work| &work.sets);
            let lacks = |set: &PodSet| {
                !set.ask.devices.is_empty() && set.placements.len() < set.count as usize
            };
            if *class == Class::Admitted && sets.any(lacks) {
                self.decision.missing.push((*key).clone());
            }
        }
    }

    /// Those that were admitted and whose pods find no nodes.
    fn requeue(&mut self, homeless: &[JobKey], pushed: &[JobKey]) {
        let missing = self.decision.missing.clone();
        for key in missing.iter().filter(|key| !pushed.contains(key)) {
            let Some(job) = self.by_key.get(key).copied() else {
                continue;
            };
            // Pods that do their work alone go on with it, unless the devices that the others lack are not there.
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
                .insert(key.clone(), Standing::Preempted);
            let is_asked = job.has_pods
                && self.awaits_checkpoint(job, || {
                    "it waits again: not all of its pods have nodes".to_owned()
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

    /// Those that were asked for a checkpoint and need not go any more.
    fn keep_running(&mut self, classes: &BTreeMap<&JobKey, Class>, pushed: &[JobKey]) {
        for (key, class) in classes {
            let asked = self
                .by_key
                .get(key)
                .is_some_and(|job| job.governed.notes.get(PREEMPTING).is_some());
            let goes = self.decision.standings.get(*key) == Some(&Standing::Preempted);
            if *class == Class::Admitted && asked && !pushed.contains(key) && !goes {
                let notes = vec![(PREEMPTING, None), (CHECKPOINT_WANTED, None)];
                let words = "nobody needs its devices any more".to_owned();
                self.write(key, Purpose::KeepRunning, None, notes, words);
            }
        }
    }

    /// Those that start, as far as what others hold allows it now.
    fn admit(&mut self, actual: &mut State<'_>, cycle: &Cycle, homeless: &[JobKey]) {
        // What those lack nobody else gets, whether it would be back in time or not.
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
                self.decision.standings.insert(key, Standing::WaitsForPods);
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
            self.decision.standings.insert(key, Standing::Admits);
        }
    }

    /// The flavor of the devices of each pod set; none for sets without devices and queues without quotas.
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
