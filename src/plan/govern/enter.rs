//! How jobs enter: new ones are suspended into their queues, those that ran before count as admitted, and holds are recorded.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use engine::compiled::CompiledFleet;
use engine::live::CLASS;
use engine::snapshot::{Snapshot, Workload};
use engine::state::State;
use model::base::{Moment, Name};
use model::fleet::govern::{ADMITTED, FLAVOR, HOLD, REASON, SUSPENDED, flavors_word};
use model::fleet::job::JobKey;
use model::fleet::run_hold::HELD;

use super::class::{GovernClass, waiting_class};
use super::decide::{DecisionRun, GovernRules};
use super::prepare::prepare;
use super::{AdmissionState, GovernedJob, Purpose};

/// How soon a new job has to be suspended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum SuspendUrgency {
    /// Its pods have devices.
    HasDevices,
    /// kube-scheduler may bind its pods at any moment.
    Pending,
    /// It has no pods yet.
    NoPods,
    /// It would start next: if kube-scheduler binds its pods, it is admitted where they are.
    Head,
}

fn urgency(job: &GovernedJob, is_head: bool) -> SuspendUrgency {
    match (job.has_pods, is_head, job.pending_since) {
        (true, ..) => SuspendUrgency::HasDevices,
        (_, true, _) => SuspendUrgency::Head,
        (.., Some(_)) => SuspendUrgency::Pending,
        (.., None) => SuspendUrgency::NoPods,
    }
}

/// The order in which kube-scheduler binds pods: by their priority, then by age.
fn in_turn(job: &GovernedJob) -> (Reverse<i32>, Option<Moment>, Moment) {
    (
        Reverse(job.pod_priority),
        job.pending_since,
        job.governed.created,
    )
}

/// The new jobs that are considered for admission before they are suspended: `govern` never wrote to them, their queue may admit
/// them, and either none of their pods is bound or all are. Creation times have whole seconds: of jobs of the same second, those
/// whose pods have devices come first.
pub(super) fn candidates(
    snapshot: &mut Snapshot,
    by_key: &BTreeMap<&JobKey, &GovernedJob>,
    classes: &BTreeMap<&JobKey, GovernClass>,
) -> Vec<JobKey> {
    let mut works = std::mem::take(&mut snapshot.workloads);
    let mut found = Vec::new();
    for work in &mut works {
        let Some(job) = by_key.get(&work.key).copied() else {
            continue;
        };
        let is_new = classes.get(&work.key) == Some(&GovernClass::New);
        if !is_new
            || job.governed.was_governed()
            || job.has_pods && !is_whole(work)
            || waiting_class(job, snapshot) != GovernClass::Waiting
        {
            continue;
        }
        if job.has_pods {
            work.created = work.created.minus(Duration::from_millis(1));
        }
        found.push(work.key.clone());
    }
    snapshot.workloads = works;
    found
}

/// All pods with devices are bound, and none is terminating.
fn is_whole(work: &Workload) -> bool {
    work.sets.iter().all(|set| {
        let is_bound = set.placements.len() >= set.count as usize;
        let stays = set.placements.iter().all(|pod| pod.deleted.is_none());
        set.requests.devices.is_empty() || is_bound && stays
    })
}

/// Treats running jobs that were never admitted and are younger than the queues as new where they exceed their queue's quota.
/// They started while `govern` did not run or could not write.
pub(super) fn refuse_adoptions(
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

impl DecisionRun<'_> {
    /// Suspends new jobs into their queues, except those that this decision has admitted; marks jobs that ran before as admitted;
    /// records holds. `heads` are the new jobs that would start next if their devices were free.
    pub(super) fn enter(&mut self, classes: &BTreeMap<&JobKey, GovernClass>, heads: &[JobKey]) {
        let mut all: Vec<(&JobKey, &GovernClass, &GovernedJob)> = (classes.iter())
            .filter_map(|(key, class)| Some((*key, class, *self.by_key.get(key)?)))
            .collect();
        all.sort_by_key(|(key, _, job)| (urgency(job, heads.contains(key)), in_turn(job)));
        for (key, class, job) in all {
            match class {
                GovernClass::New => {
                    self.decision.entering.push(key.clone());
                    if self.decision.standings.get(key) == Some(&AdmissionState::Admits) {
                        continue;
                    }
                    let words = format!("not admitted by queue {} yet", job.governed.queue);
                    let mut notes = vec![(REASON, Some(words.clone()))];
                    // Annotations copied from another job are removed; a resumed job is no longer on hold.
                    let stale = [ADMITTED, FLAVOR].into_iter();
                    let stale = stale.filter(|key| job.governed.notes.get(key).is_some());
                    notes.extend(stale.map(|key| (key, None)));
                    if job.governed.is_suspended_by_other() {
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
                    let words = format!("{}; it is requeued", hold.late_words());
                    let mut notes = vec![(REASON, Some(words.clone()))];
                    notes.extend([HELD, ADMITTED, FLAVOR].map(|key| (key, None)));
                    self.write(key, Purpose::Requeue, None, notes, words);
                }
                GovernClass::Adopted => {
                    let since = job.running_since.unwrap_or_else(|| self.now());
                    let mut notes = vec![(ADMITTED, Some(since.rfc3339()))];
                    let flavor = self.flavor_in_use(key);
                    notes.extend(flavor.map(|flavor| (FLAVOR, Some(flavor))));
                    let words =
                        "its pods were running before govern managed it: treated as admitted";
                    self.write(key, Purpose::Adopt, None, notes, words.to_owned());
                }
                _ => {}
            }
        }
        // Jobs that have devices are stopped first, jobs without devices last.
        let by_key = self.by_key;
        self.decision.writes.sort_by_key(|write| {
            let has_devices = by_key.get(&write.job).is_some_and(|job| job.has_pods);
            match (&write.purpose, has_devices) {
                (Purpose::Suspend, true) => 0,
                (Purpose::Suspend, false) => 2,
                _ => 1,
            }
        });
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
}
