//! Data of `govern`: its queues from their ConfigMap, and the labels and annotations of governed jobs.

use serde::{Deserialize, Serialize};

use crate::base::{Moment, Name, ObjectKey};

use super::queue::Queue;
use crate::fleet::observed::object_parts::{Labels, OwnerRef};
use crate::fleet::observed::seen::WorkloadSeen;

/// Label that assigns a job to a queue of `govern`.
pub const QUEUE: &str = "stokehold.dev/queue";
/// Label or annotation: priority in its queue, a whole number. The annotation counts where both are there.
pub const PRIORITY: &str = "stokehold.dev/priority";
/// Label that assigns a job to a Kueue queue; Kueue then decides.
pub const KUEUE_QUEUE: &str = "kueue.x-k8s.io/queue-name";
/// Annotation: admission time, RFC 3339. A governed job that is not suspended and has no such annotation was not admitted.
pub const ADMITTED: &str = "stokehold.dev/admitted-at";
/// Annotation: admitted flavors; `h100`, or `head=a100,workers=h100` where its pod sets differ.
pub const FLAVOR: &str = "stokehold.dev/flavor";
/// Annotation: position in its queue, from 1.
pub const POSITION: &str = "stokehold.dev/position";
/// Annotation: why it waits.
pub const REASON: &str = "stokehold.dev/reason";
pub const ETA: &str = "stokehold.dev/eta";
/// Annotation: number of preemptions.
pub const EVICTIONS: &str = "stokehold.dev/evictions";
/// Annotation: earliest next admission, RFC 3339.
pub const REQUEUE_AT: &str = "stokehold.dev/requeue-at";
/// Annotation: start of the wait for a checkpoint before preemption, RFC 3339.
pub const PREEMPTING: &str = "stokehold.dev/preempting-since";
/// Annotation: requests a checkpoint from the job, RFC 3339; a drain sets it too.
pub const CHECKPOINT_WANTED: &str = "stokehold.dev/checkpoint-wanted";
/// Annotation: `true` holds the job, so that it is not admitted. [`SUSPENDED`] is set when a user suspended it after admission.
pub const HOLD: &str = "stokehold.dev/hold";
/// Value of [`HOLD`] for a job that a user suspended after admission; resuming it requeues it.
pub const SUSPENDED: &str = "suspended";

/// The queues of `govern` from one read of their ConfigMap.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct GovernQueues {
    pub key: ObjectKey,
    /// Its UID; empty where none was read.
    #[serde(default)]
    pub uid: Name,
    #[serde(default)]
    pub created: Moment,
    /// The queues, or the error in the document, with line and fix.
    pub queues: Result<Vec<Queue>, Name>,
}

/// State of the queues of `govern`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GovernState {
    pub key: ObjectKey,
    /// Its UID; empty where none was read.
    pub uid: Name,
    pub created: Moment,
    /// Error in the document; the queues are then those of the last valid one.
    pub fault: Option<Name>,
    /// True once a valid document was read.
    pub is_read: bool,
}

impl GovernState {
    /// The fault of the document and its consequence; `None` while it is valid.
    pub fn fault_words(&self) -> Option<String> {
        let fault = self.fault.as_deref()?;
        let then = match self.is_read {
            true => "the queues of the last valid version stay in effect",
            false => {
                "no valid version was read here: a running `govern` keeps using the last valid one; one that starts now decides nothing"
            }
        };
        Some(format!("ConfigMap {}: {fault}; {then}", self.key))
    }
}

/// Reason why a job is not admitted when its label names a parent queue.
pub fn parent_words(queue: &str) -> String {
    format!("{queue} is a parent queue and admits no jobs: use one of its queues")
}

/// Data of a job with the label [`QUEUE`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Governed {
    /// The queue that the label names.
    pub queue: Name,
    /// True when its kind can be suspended.
    pub suspends: bool,
    pub created: Moment,
    pub suspended: bool,
    /// The controller that owns it, which should be governed instead.
    pub owner: Option<OwnerRef>,
    /// The controller that manages it, where it names one.
    pub managed_by: Option<Name>,
    /// The scheduler of its pods, where it names one.
    pub scheduler: Option<Name>,
    /// True when it has Kueue's label too.
    pub is_kueues: bool,
    /// Its pods that succeeded and are not replaced.
    pub succeeded: u32,
    /// True when it has started, so that its pod template is immutable.
    pub has_started: bool,
    /// True when it is being deleted.
    pub is_deleted: bool,
    /// `metadata.generation`; 0 where absent.
    pub generation: i64,
    pub priority_label: Option<Name>,
    pub notes: Labels,
}

impl Governed {
    /// The data of a workload; `None` without the label.
    pub fn of(seen: &WorkloadSeen) -> Option<Self> {
        Some(Self {
            queue: seen.labels.get(QUEUE)?.clone(),
            suspends: seen.table.api().governed,
            created: seen.created,
            succeeded: seen.succeeded_pods,
            suspended: seen.suspended,
            owner: seen.owner.clone(),
            managed_by: seen.managed_by.clone(),
            scheduler: seen.scheduler.clone(),
            is_kueues: seen.labels.get(KUEUE_QUEUE).is_some(),
            has_started: seen.started.is_some(),
            is_deleted: seen.deleted.is_some(),
            priority_label: seen.labels.get(PRIORITY).cloned(),
            generation: seen.generation,
            notes: seen
                .annotations
                .iter()
                .filter(|(key, _)| key.starts_with("stokehold.dev/"))
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect(),
        })
    }

    /// An annotation as a time.
    pub fn moment(&self, key: &str) -> Option<Moment> {
        self.notes.get(key).and_then(|text| Moment::parse(text))
    }

    /// True when it was admitted and is not suspended.
    pub fn is_admitted(&self) -> bool {
        !self.suspended && self.was_admitted()
    }

    /// True when its annotation gives an admission after its creation. A copy of a job may carry the annotation of the original.
    pub fn was_admitted(&self) -> bool {
        self.moment(ADMITTED).is_some_and(|at| at >= self.created)
    }

    /// True while it is held by annotation.
    pub fn is_held(&self) -> bool {
        is_hold(&self.notes)
    }

    /// True when a user suspended it after admission and `govern` has recorded that.
    pub fn is_suspended_by_other(&self) -> bool {
        let hold = self.notes.get(HOLD);
        hold.is_some_and(|text| text.as_str() == SUSPENDED)
    }

    /// True when `govern` wrote one of its annotations before.
    pub fn was_governed(&self) -> bool {
        let written = [REASON, POSITION, ETA, EVICTIONS, REQUEUE_AT];
        written.iter().any(|key| self.notes.get(key).is_some()) || self.is_held()
    }

    /// Reason for the hold.
    pub fn hold_words(&self) -> &'static str {
        match self.is_suspended_by_other() {
            true => "held: suspended by a user; resume it to requeue it",
            false => "held by its annotation stokehold.dev/hold",
        }
    }

    /// Which of two priorities counts, where label and annotation differ.
    pub fn priority_words(&self) -> Option<String> {
        let label = self.priority_label.as_ref()?;
        let note = self.notes.get(PRIORITY)?;
        let number: i32 = note.trim().parse().ok()?;
        (label.trim().parse() != Ok(number)).then(|| {
            format!("priority {number} is from its annotation, which overrides the label {PRIORITY}={label}")
        })
    }

    pub fn evictions(&self) -> u32 {
        let count = self.notes.get(EVICTIONS);
        count.and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    /// The admitted flavor of one of its pod sets.
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

/// True when the annotations hold a job.
pub fn is_hold(notes: &Labels) -> bool {
    let hold = notes.get(HOLD);
    hold.is_some_and(|text| matches!(text.as_str(), "true" | SUSPENDED))
}

/// The value of annotation [`FLAVOR`] for an admission.
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
    fn of_two_priorities_that_differ_the_one_that_counts_is_named() {
        let of = |label: Option<&str>, note: Option<&str>| {
            let notes = note.map(|note| (Name::new(PRIORITY), Name::new(note)));
            let job = Governed {
                priority_label: label.map(Name::new),
                notes: notes.into_iter().collect(),
                ..Governed::default()
            };
            job.priority_words()
        };
        let words = "priority 5 is from its annotation, which overrides the label stokehold.dev/priority=50";
        assert_eq!(of(Some("50"), Some("5")).as_deref(), Some(words));
        assert_eq!(of(Some("5"), Some(" 5")), None);
        assert_eq!(of(Some("50"), None), None);
        assert_eq!(of(None, Some("5")), None);
        // No number: the label counts.
        assert_eq!(of(Some("50"), Some("high")), None);
    }

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
