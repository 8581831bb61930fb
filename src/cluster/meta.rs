//! Metadata that every object has, and conditions that most have.

use model::base::{Moment, Name, Names, ObjectKey};
use model::fleet::kinds;
use model::fleet::observe::{Condition, Labels, OwnerRef};

use super::lenient_json::{List, Map, OptionalBool, Text, Whole, partial};

partial! {
    Meta {
        name: Text = "name",
        namespace: Text = "namespace",
        uid: Text = "uid",
        /// Version of this state of the object.
        resource_version: Text = "resourceVersion",
        labels: Map<Text> = "labels",
        annotations: Map<Text> = "annotations",
        /// Version of its spec.
        generation: Whole = "generation",
        /// When it was made.
        created: Text = "creationTimestamp",
        /// Time at which deletion was requested.
        deleted: Text = "deletionTimestamp",
        owners: List<Owner> = "ownerReferences",
    }
}

partial! {
    /// The part of an object that a watch resumes from.
    Versioned {
        meta: Version = "metadata",
    }
}

partial! {
    /// Of metadata just the version.
    Version {
        /// Version of this state of the object.
        resource_version: Text = "resourceVersion",
    }
}

partial! {
    /// An entry of `metadata.ownerReferences`.
    Owner {
        /// API group and version.
        api: Text = "apiVersion",
        kind: Text = "kind",
        name: Text = "name",
        uid: Text = "uid",
        /// True for the owner that is the managing controller.
        controller: OptionalBool = "controller",
    }
}

partial! {
    /// An entry of `status.conditions`.
    RawCondition {
        kind: Text = "type",
        /// `True`, `False` or `Unknown`.
        status: Text = "status",
        reason: Text = "reason",
        /// A sentence for people.
        message: Text = "message",
        /// When the status last changed.
        since: Text = "lastTransitionTime",
    }
}

/// Prefixes of the annotations that are read later. All others are dropped, because some contain whole manifests.
const KNOWN_ANNOTATIONS: &[&str] = &[
    "stokehold.dev/",
    "kueue.x-k8s.io/",
    "jobset.sigs.k8s.io/",
    "leaderworkerset.sigs.k8s.io/",
    "batch.kubernetes.io/job-completion-index",
    "scheduling.k8s.io/group-name",
    "gpu-fraction",
    "gpu-memory",
    "hami.io/",
    "volcano.sh/vgpu",
    "autoscaling.x-k8s.io/",
    "cluster-autoscaler.kubernetes.io/consume-provisioning-request",
];

impl Meta {
    /// Namespace and name; `None` for an object without a name.
    pub fn key(&self, names: &mut Names) -> Option<ObjectKey> {
        let name = self.name.get()?;
        Some(ObjectKey::new(
            names.intern(&self.namespace),
            names.intern(name),
        ))
    }

    pub fn labels(&self, names: &mut Names) -> Labels {
        labels(&self.labels, names)
    }

    /// The annotations with a known prefix.
    pub fn annotations(&self, names: &mut Names) -> Labels {
        self.annotations
            .iter()
            .filter(|(key, _)| KNOWN_ANNOTATIONS.iter().any(|start| key.starts_with(start)))
            .map(|(key, value)| (names.intern(key), names.intern(value)))
            .collect()
    }

    /// The controller: the owner that manages the object.
    pub fn owner(&self, names: &mut Names) -> Option<OwnerRef> {
        self.owners
            .iter()
            .find(|owner| owner.controller.is_set())
            .and_then(|owner| owner.read(names))
    }

    /// The controller, or the only owner that is no pod, or the only owner there is. Kueue makes the Workload of each group of a
    /// LeaderWorkerSet belong to that LeaderWorkerSet and to the group's pods, none of them as controller
    /// (`pkg/controller/jobs/leaderworkerset` and `pkg/controller/jobs/pod` of Kueue 0.19).
    pub fn main_owner(&self, names: &mut Names) -> Option<OwnerRef> {
        self.owner(names).or_else(|| {
            let mut makers = self.owners.iter().filter(|owner| &*owner.kind != "Pod");
            match (makers.next(), makers.next(), &*self.owners) {
                (Some(only), None, _) | (None, _, [only]) => only.read(names),
                _ => None,
            }
        })
    }

    /// Creation time; the epoch when absent.
    pub fn created(&self) -> Moment {
        self.created.moment().unwrap_or_default()
    }
}

impl Owner {
    fn read(&self, names: &mut Names) -> Option<OwnerRef> {
        self.name.get()?;
        let group = self.api.split_once('/').map_or("", |(group, _)| group);
        let kind = kinds::shown_name(group, &self.kind);
        Some(OwnerRef {
            kind: names.intern(kind),
            name: names.intern(&self.name),
            uid: names.intern(&self.uid),
        })
    }
}

/// A JSON object of texts as labels.
pub fn labels(map: &Map<Text>, names: &mut Names) -> Labels {
    map.iter()
        .map(|(key, value)| (names.intern(key), names.intern(value)))
        .collect()
}

/// Conditions that name their type.
pub fn conditions(raw: &[RawCondition], names: &mut Names) -> Vec<Condition> {
    raw.iter()
        .filter(|condition| condition.kind.get().is_some())
        .map(|condition| {
            let (reason, message) = condition.why(names);
            Condition {
                kind: names.intern(&condition.kind),
                status: condition.status(),
                reason,
                message,
                since: condition.since.moment(),
            }
        })
        .collect()
}

impl RawCondition {
    /// Reason and message; either may be empty.
    pub fn why(&self, names: &mut Names) -> (Name, Name) {
        // Messages are rarely equal: a place in the interner would only be lost.
        let message = self.message.get().map_or_else(Name::default, Name::new);
        (names.intern(&self.reason), message)
    }

    /// True, false, or `None` for unknown.
    pub fn status(&self) -> Option<bool> {
        match &*self.status {
            "True" => Some(true),
            "False" => Some(false),
            _ => None,
        }
    }
}

/// The condition of this type.
pub fn find<'a>(raw: &'a [RawCondition], kind: &str) -> Option<&'a RawCondition> {
    raw.iter().find(|condition| &*condition.kind == kind)
}
