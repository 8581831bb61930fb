//! What `govern` goes by: its queues as their ConfigMap has them, and what a job that carries its label says of itself.

use serde::{Deserialize, Serialize};

use crate::base::{Moment, Name, ObjectKey};

use super::observe::{Labels, OwnerRef, Table, WorkloadSeen};
use super::queue::Queue;

/// The label that puts a job into a queue of `govern`.
pub const QUEUE: &str = "stokehold.dev/queue";
/// The label that puts a job into a queue of Kueue, which then decides.
pub const KUEUE_QUEUE: &str = "kueue.x-k8s.io/queue-name";
/// Annotation: when the job was admitted, RFC 3339. A governed job that is not suspended and has none was not admitted.
pub const ADMITTED: &str = "stokehold.dev/admitted-at";
/// Annotation: the flavors that it was admitted with; `h100`, or `head=a100,workers=h100` where its pod sets differ.
pub const FLAVOR: &str = "stokehold.dev/flavor";
/// Annotation: its place in its queue, from 1.
pub const POSITION: &str = "stokehold.dev/position";
/// Annotation: why it waits.
pub const REASON: &str = "stokehold.dev/reason";
/// Annotation: when it is expected to start.
pub const ETA: &str = "stokehold.dev/eta";
/// Annotation: how often it was preempted.
pub const EVICTIONS: &str = "stokehold.dev/evictions";
/// Annotation: it is not admitted again before, RFC 3339.
pub const REQUEUE_AT: &str = "stokehold.dev/requeue-at";
/// Annotation: since when it is to be preempted and a checkpoint is waited for, RFC 3339.
pub const PREEMPTING: &str = "stokehold.dev/preempting-since";
/// Annotation: asks the job for a checkpoint, RFC 3339; a drain asks by it too.
pub const CHECKPOINT_WANTED: &str = "stokehold.dev/checkpoint-wanted";
/// Annotation: `true` holds it: it is not admitted. [`SUSPENDED`] stands there where somebody suspended it once it was admitted.
pub const HOLD: &str = "stokehold.dev/hold";
/// The value of [`HOLD`] for a job that somebody suspended once it was admitted: who resumes it puts it into its queue again.
pub const SUSPENDED: &str = "suspended";

/// The tables whose objects can be suspended, and so governed.
pub const GOVERNED: &[Table] = &[
    Table::Jobs,
    Table::JobSets,
    Table::TrainJobs,
    Table::PyTorchJobs,
    Table::MpiJobs,
    Table::TfJobs,
    Table::RayJobs,
];

/// The queues of `govern` as one reading of their ConfigMap has them.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct GovernQueues {
    /// The ConfigMap.
    pub key: ObjectKey,
    /// When it was made: since then there are queues.
    #[serde(default)]
    pub created: Moment,
    /// The queues, or what is wrong with the document, with its line and the fix.
    pub queues: Result<Vec<Queue>, Name>,
}

/// How the queues of `govern` stand.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GovernState {
    /// The ConfigMap.
    pub key: ObjectKey,
    /// When it was made: since then there are queues.
    pub created: Moment,
    /// What is wrong with the document; the queues are then those of the last good one.
    pub fault: Option<Name>,
    /// A good document was read: its queues count.
    pub is_read: bool,
}

/// Why a job whose label names a parent of queues is not admitted.
pub fn parent_words(queue: &str) -> String {
    format!("{queue} is a parent of queues, which admits nothing: name one of its queues")
}

/// What a job that carries the label [`QUEUE`] says of itself.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Governed {
    /// The queue that the label names.
    pub queue: Name,
    /// Its kind can be suspended.
    pub suspends: bool,
    /// When it was made.
    pub created: Moment,
    /// It is suspended.
    pub suspended: bool,
    /// The controller that owns it: that one is to be governed in its place.
    pub owner: Option<OwnerRef>,
    /// The controller that manages it, where it names one.
    pub managed_by: Option<Name>,
    /// The scheduler of its pods, where it names one.
    pub scheduler: Option<Name>,
    /// It carries Kueue's label too.
    pub is_kueues: bool,
    /// Pods of it that succeeded and are not replaced.
    pub succeeded: u32,
    /// It has run, so its pod template may not be changed.
    pub has_started: bool,
    /// It is being deleted.
    pub is_deleted: bool,
    /// How often its spec was changed; 0 where it does not say.
    pub generation: i64,
    /// Our annotations.
    pub notes: Labels,
}

impl Governed {
    /// Of a workload; nothing for one without the label.
    pub fn of(seen: &WorkloadSeen) -> Option<Self> {
        Some(Self {
            queue: seen.labels.get(QUEUE)?.clone(),
            suspends: GOVERNED.contains(&seen.table),
            created: seen.created,
            succeeded: seen.succeeded_pods,
            suspended: seen.suspended,
            owner: seen.owner.clone(),
            managed_by: seen.managed_by.clone(),
            scheduler: seen.scheduler.clone(),
            is_kueues: seen.labels.get(KUEUE_QUEUE).is_some(),
            has_started: seen.started.is_some(),
            is_deleted: seen.deleted.is_some(),
            generation: seen.generation,
            notes: seen
                .annotations
                .iter()
                .filter(|(key, _)| key.starts_with("stokehold.dev/"))
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect(),
        })
    }

    /// A moment among the annotations.
    pub fn moment(&self, key: &str) -> Option<Moment> {
        self.notes.get(key).and_then(|text| Moment::parse(text))
    }

    /// True once it was admitted and not suspended since.
    pub fn is_admitted(&self) -> bool {
        !self.suspended && self.was_admitted()
    }

    /// True where its annotation says that it was admitted. A copy of a job may carry the annotation of the first.
    pub fn was_admitted(&self) -> bool {
        self.moment(ADMITTED).is_some_and(|at| at >= self.created)
    }

    /// True while somebody holds it.
    pub fn is_held(&self) -> bool {
        is_hold(&self.notes)
    }

    /// True where somebody suspended it once it was admitted, and `govern` has noted that.
    pub fn is_suspended_by_somebody(&self) -> bool {
        let hold = self.notes.get(HOLD);
        hold.is_some_and(|text| text.as_str() == SUSPENDED)
    }

    /// True where `govern` has written on it before: it was not there before it was governed.
    pub fn was_governed(&self) -> bool {
        let written = [REASON, POSITION, ETA, EVICTIONS, REQUEUE_AT];
        written.iter().any(|key| self.notes.get(key).is_some()) || self.is_held()
    }

    /// Why it is held, in words.
    pub fn hold_words(&self) -> &'static str {
        match self.is_suspended_by_somebody() {
            true => "held: somebody suspended it; resume it to put it into its queue again",
            false => "held by its annotation stokehold.dev/hold",
        }
    }

    /// How often it was preempted.
    pub fn evictions(&self) -> u32 {
        let told = self.notes.get(EVICTIONS);
        told.and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    /// The flavor that a pod set of it was admitted with.
    pub fn flavor(&self, set: &str) -> Option<Name> {
        let text = self.notes.get(FLAVOR)?;
        if !text.contains('=') {
            return (!text.is_empty()).then(|| text.clone());
        }
        let mut parts = text.split(',').filter_map(|part| part.split_once('='));
        parts
            .find(|(name, _)| *name == set)
            .map(|(_, flavor)| Name::new(flavor))
    }
}

/// True where annotations hold a job.
pub fn is_hold(notes: &Labels) -> bool {
    let hold = notes.get(HOLD);
    hold.is_some_and(|text| matches!(text.as_str(), "true" | SUSPENDED))
}

/// The flavors of an admission as the annotation [`FLAVOR`] has them.
pub fn flavors_word(sets: &[(Name, Name)]) -> String {
    match sets {
        [] => String::new(),
        [(_, first), rest @ ..] if rest.iter().all(|(_, other)| other == first) => {
            first.to_string()
        }
        all => {
            let parts: Vec<String> = all
                .iter()
                .map(|(set, flavor)| format!("{set}={flavor}"))
                .collect();
            parts.join(",")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flavors_are_read_as_they_are_written() {
        let pair = |set: &str, flavor: &str| (Name::new(set), Name::new(flavor));
        let of = |word: &str| Governed {
            notes: [(Name::new(FLAVOR), Name::new(word))].into_iter().collect(),
            ..Governed::default()
        };
        let same = flavors_word(&[pair("a", "h100"), pair("b", "h100")]);
        assert_eq!(same, "h100");
        assert_eq!(of(&same).flavor("b").as_deref(), Some("h100"));
        let both = flavors_word(&[pair("a", "h100"), pair("b", "a100")]);
        assert_eq!(of(&both).flavor("a").as_deref(), Some("h100"));
        assert_eq!(of(&both).flavor("b").as_deref(), Some("a100"));
        assert_eq!(of(&both).flavor("c"), None);
        assert_eq!(of("").flavor("a"), None);
    }
}
