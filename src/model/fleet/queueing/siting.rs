//! Scheduling constraints of pods besides the node selector: affinity, tolerations, gates; and pod sets.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::base::Name;

use crate::fleet::observed::object_parts::{Labels, Resources, Taint};

/// How an expression compares.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Operator {
    /// One of the values.
    In,
    /// None of the values; also when there is no such label.
    NotIn,
    Exists,
    DoesNotExist,
    /// A whole number above the only value.
    Gt,
    /// A whole number below the only value.
    Lt,
}

crate::words! {
    impl Operator {
        /// As in the API.
        pub fn name(self) {
            In => "In",
            NotIn => "NotIn",
            Exists => "Exists",
            DoesNotExist => "DoesNotExist",
            Gt => "Gt",
            Lt => "Lt",
        }
    }
}

impl Operator {
    pub const ALL: [Self; 6] = [
        Self::In,
        Self::NotIn,
        Self::Exists,
        Self::DoesNotExist,
        Self::Gt,
        Self::Lt,
    ];

    /// The operator of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|operator| operator.name() == name)
    }
}

/// A condition on one label.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Expression {
    pub key: Name,
    pub operator: Operator,
    /// Values to compare the key with.
    pub values: Box<[Name]>,
}

impl Expression {
    /// True when a label of this value (`None`: not there) satisfies it.
    ///
    /// Source: Kubernetes' documentation of node affinity and label selectors.
    pub fn holds(&self, value: Option<&str>) -> bool {
        let listed = |value: &str| self.values.iter().any(|known| known.as_str() == value);
        let number = |text: &str| text.parse::<i64>().ok();
        let bound = || match &*self.values {
            [one] => number(one),
            _ => None,
        };
        match self.operator {
            Operator::In => value.is_some_and(listed),
            Operator::NotIn => !value.is_some_and(listed),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::Gt => {
                matches!((value.and_then(number), bound()), (Some(a), Some(b)) if a > b)
            }
            Operator::Lt => {
                matches!((value.and_then(number), bound()), (Some(a), Some(b)) if a < b)
            }
        }
    }
}

/// Conditions on a node, all of which must hold.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeTerm {
    pub labels: Box<[Expression]>,
    /// On its fields; `metadata.name` is the only one there is.
    pub fields: Box<[Expression]>,
}

impl NodeTerm {
    /// True when a node of this name and these labels satisfies it. A term without conditions matches nothing.
    pub fn holds(&self, name: &str, labels: &Labels) -> bool {
        !(self.labels.is_empty() && self.fields.is_empty())
            && self
                .labels
                .iter()
                .all(|wanted| wanted.holds(labels.get(&wanted.key).map(Name::as_str)))
            && self.fields.iter().all(|wanted| {
                wanted.holds((wanted.key.as_str() == "metadata.name").then_some(name))
            })
    }
}

/// A toleration of a pod.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Toleration {
    /// Key; empty for any.
    pub key: Name,
    /// True to match any value.
    pub exists: bool,
    pub value: Name,
    /// Effect; empty for any.
    pub effect: Name,
    /// Time that a `NoExecute` taint is tolerated, seconds; `None` for no limit.
    pub seconds: Option<i64>,
}

impl Toleration {
    /// True when it covers this taint.
    ///
    /// Source: Kubernetes' documentation of taints and tolerations.
    pub fn covers(&self, taint: &Taint) -> bool {
        (self.effect.is_empty() || self.effect == taint.effect)
            && match self.key.is_empty() {
                true => self.exists,
                false => self.key == taint.key && (self.exists || self.value == taint.value),
            }
    }
}

/// The gang that a pod names.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Membership {
    /// Kind of the gang's object: `Workload` or `PodGroup`.
    pub kind: Name,
    /// Its name, in the pod's namespace.
    pub name: Name,
}

/// Scheduling constraints and gates of a pod. Shared by all pods with equal ones.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Siting {
    /// Required node affinity: one of these must hold; empty asks for nothing.
    pub required: Box<[NodeTerm]>,
    pub tolerations: Box<[Toleration]>,
    pub gates: Box<[Name]>,
    /// Its scheduler, where it is not the default one.
    pub scheduler: Option<Name>,
    /// The gang that it names.
    pub member_of: Option<Membership>,
}

impl Siting {
    /// True when it has no constraint.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// True when its affinity allows a node of this name and these labels.
    pub fn allows(&self, name: &str, labels: &Labels) -> bool {
        self.required.is_empty() || self.required.iter().any(|term| term.holds(name, labels))
    }
}

/// Strength of a topology request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum ConstraintMode {
    /// It must be met.
    Required,
    /// It is met where it can be.
    Preferred,
    /// Anywhere, but with places chosen by the queueing system.
    Unconstrained,
}

crate::words! {
    impl ConstraintMode {
        /// As in the fleet document.
        pub fn name(self) {
            Required => "required",
            Preferred => "preferred",
            Unconstrained => "unconstrained",
        }
    }
}

/// A request that pods are placed close to each other.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct TopologyConstraint {
    /// How much it weighs.
    pub mode: ConstraintMode,
    /// The level that must contain every pod: a node label, or a tier's name; empty when unconstrained.
    pub level: Name,
    /// Sizes of parts, each of which must be within a narrower level.
    pub slice: Option<(Name, u32)>,
}

/// What an object says of the start of its pods beside queues and the scheduler.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum StartBlock {
    /// Its pods are created after those of another role (a JobSet's `dependsOn` or `startupPolicy: InOrder`).
    Role {
        on: Name,
        /// Status that it has to reach: `Complete` or `Ready`.
        until: Name,
    },
    /// Another object says where its pods may run (a TrainJob's runtime), and that object was not read.
    NoPlacement,
}

/// Equal pods of a job.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct JobPodSet {
    /// Name within the job.
    pub name: Name,
    pub count: u32,
    /// Minimum number of pods for the job to run; `count` unless specified.
    pub min: u32,
    /// Requests of one pod.
    pub request: Resources,
    /// Labels that a node must have.
    pub node_selector: Labels,
    pub siting: Option<Arc<Siting>>,
    /// Topology request of its pods.
    pub topology: Option<Box<TopologyConstraint>>,
    /// Why neither queues nor the scheduler can start its pods; `None` where nothing is known to block them.
    pub blocked: Option<Box<StartBlock>>,
}

impl JobPodSet {
    /// Why neither queues nor the scheduler can start its pods, in words.
    pub fn block_words(&self) -> Option<Name> {
        Some(match self.blocked.as_deref()? {
            StartBlock::Role { on, until } => Name::from(format!(
                "its role {} waits until role {on} is {until}",
                self.name
            )),
            StartBlock::NoPlacement => Name::new("pod placement unknown: its JobSet was not found"),
        })
    }

    /// Whether its pods are created after those of another role.
    pub fn follows_role(&self) -> bool {
        matches!(self.blocked.as_deref(), Some(StartBlock::Role { .. }))
    }

    /// Whether its object says where its pods may run.
    pub fn has_placement(&self) -> bool {
        self.blocked.as_deref() != Some(&StartBlock::NoPlacement)
    }
}

/// Devices that these pod sets request in total.
pub fn devices(sets: &[JobPodSet]) -> u32 {
    sets.iter()
        .map(|set| set.request.device_count().saturating_mul(set.count))
        .fold(0, u32::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taint(key: &str, value: &str, effect: &str) -> Taint {
        Taint {
            key: Name::new(key),
            value: Name::new(value),
            effect: Name::new(effect),
            since: None,
        }
    }

    fn expression(key: &str, operator: &str, values: &[&str]) -> Expression {
        Expression {
            key: Name::new(key),
            operator: Operator::from_name(operator).expect("known"),
            values: values.iter().map(|value| Name::new(value)).collect(),
        }
    }

    #[test]
    fn tolerations_cover_what_the_api_says_they_do() {
        let gpu = taint("nvidia.com/gpu", "present", "NoSchedule");
        let covers = |key: &str, exists: bool, value: &str, effect: &str| {
            let toleration = Toleration {
                key: Name::new(key),
                exists,
                value: Name::new(value),
                effect: Name::new(effect),
                seconds: None,
            };
            toleration.covers(&gpu)
        };
        assert!(covers("nvidia.com/gpu", true, "", ""));
        assert!(covers("nvidia.com/gpu", true, "", "NoSchedule"));
        assert!(covers("nvidia.com/gpu", false, "present", "NoSchedule"));
        assert!(
            covers("", true, "", ""),
            "an empty key with Exists is for all"
        );
        assert!(!covers("", false, "", ""), "an empty key needs Exists");
        assert!(!covers("nvidia.com/gpu", false, "other", ""));
        assert!(!covers("nvidia.com/gpu", true, "", "NoExecute"));
        assert!(!covers("other", true, "", ""));
    }

    #[test]
    fn affinity_is_any_of_terms_that_hold_in_full() {
        let labels: Labels = [("zone", "a"), ("gpus", "8")]
            .into_iter()
            .map(|(key, value)| (Name::new(key), Name::new(value)))
            .collect();
        for (key, operator, values, holds) in [
            ("zone", "In", &["a", "b"][..], true),
            ("zone", "In", &["b"], false),
            ("zone", "NotIn", &["b"], true),
            ("rack", "NotIn", &["b"], true),
            ("rack", "Exists", &[], false),
            ("rack", "DoesNotExist", &[], true),
            ("gpus", "Gt", &["4"], true),
            ("gpus", "Lt", &["4"], false),
            ("zone", "Gt", &["4"], false),
            ("gpus", "Gt", &["4", "5"], false),
        ] {
            let term = NodeTerm {
                labels: Box::from([expression(key, operator, values)]),
                fields: Box::default(),
            };
            assert_eq!(
                term.holds("n", &labels),
                holds,
                "{key} {operator} {values:?}"
            );
        }
        let by_name = NodeTerm {
            labels: Box::default(),
            fields: Box::from([expression("metadata.name", "In", &["n"])]),
        };
        let impossible = NodeTerm {
            labels: Box::from([expression("zone", "In", &["b"])]),
            fields: Box::default(),
        };
        assert!(by_name.holds("n", &labels) && !by_name.holds("m", &labels));
        assert!(!NodeTerm::default().holds("n", &labels));
        let siting = Siting {
            required: Box::from([impossible.clone(), by_name]),
            ..Siting::default()
        };
        assert!(siting.allows("n", &labels) && !siting.allows("m", &labels));
        assert!(Siting::default().allows("m", &labels));
    }
}
