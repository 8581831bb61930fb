//! Disruption budgets: how many pods may be evicted at once.

use serde::{Deserialize, Serialize};

use crate::base::{Name, ObjectKey};

use super::siting::Expression;
use crate::fleet::observed::object_parts::Labels;

/// A choice of objects by their labels. Without any condition it chooses all.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Selector {
    /// Labels that must be there.
    pub labels: Labels,
    /// Conditions that must hold as well.
    pub expressions: Box<[Expression]>,
}

impl Selector {
    /// True when an object with these labels is chosen.
    pub fn matches(&self, labels: &Labels) -> bool {
        self.labels
            .iter()
            .all(|(key, value)| labels.get(key) == Some(value))
            && self
                .expressions
                .iter()
                .all(|wanted| wanted.holds(labels.get(&wanted.key).map(Name::as_str)))
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PodDisruptionBudget {
    pub key: ObjectKey,
    /// The pods it is about; `None` chooses none (a budget without a selector).
    pub selector: Option<Selector>,
    /// Pods that may be evicted now.
    pub allowed: u32,
    /// Pods that are well.
    pub healthy: u32,
    /// Pods that must stay well.
    pub wanted: u32,
    pub expected: u32,
    /// Pods that are not well may always be evicted (`unhealthyPodEvictionPolicy: AlwaysAllow`).
    pub spares_unhealthy: bool,
    /// The controller has not looked at its present spec yet: evictions are refused.
    pub unobserved: bool,
}

impl PodDisruptionBudget {
    /// True when it is about a pod of this namespace with these labels.
    pub fn covers(&self, namespace: &str, labels: &Labels) -> bool {
        self.key.namespace.as_str() == namespace
            && self
                .selector
                .as_ref()
                .is_some_and(|selector| selector.matches(labels))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::queueing::siting::Operator;

    #[test]
    fn a_selector_without_conditions_chooses_all_and_none_at_all_chooses_none() {
        let labels: Labels = [(Name::new("app"), Name::new("web"))].into_iter().collect();
        let budget = |selector| PodDisruptionBudget {
            key: ObjectKey::new("ns", "b"),
            selector,
            ..PodDisruptionBudget::default()
        };
        assert!(!budget(None).covers("ns", &labels));
        assert!(budget(Some(Selector::default())).covers("ns", &labels));
        assert!(!budget(Some(Selector::default())).covers("other", &labels));
        let tier = |operator| {
            budget(Some(Selector {
                labels: labels.clone(),
                expressions: Box::from([crate::fleet::queueing::siting::Expression {
                    key: Name::new("tier"),
                    operator,
                    values: Box::default(),
                }]),
            }))
        };
        assert!(tier(Operator::DoesNotExist).covers("ns", &labels));
        assert!(!tier(Operator::Exists).covers("ns", &labels));
    }
}
