//! Disruption budgets, counted from their pods.

use serde_json::Value;

use model::base::ObjectKey;

use super::super::work::{DisruptionBound, WorkKind};
use super::super::{SimBudget, World};
use super::template::texts;
use super::{filled, flag, identity, lay, values};

impl World {
    pub(super) fn render_budget(&self, key: &ObjectKey, budget: &SimBudget) -> Value {
        let mut object = self.render_budget_base(key, budget);
        budget.edit.apply(&mut object);
        object
    }

    /// A disruption budget without what clients wrote over it.
    pub(in super::super) fn render_budget_base(
        &self,
        key: &ObjectKey,
        budget: &SimBudget,
    ) -> Value {
        let (least, most) = match &budget.bound {
            DisruptionBound::MinAvailable(value) => (Some(value.clone()), None),
            DisruptionBound::MaxUnavailable(value) => (None, Some(value.clone())),
        };
        let mut object = match &budget.foreign {
            Some(written) => (**written).clone(),
            None => {
                let selector = texts(budget.selector.iter());
                filled(
                    "PodDisruptionBudget",
                    values!(minAvailable: least, maxUnavailable: most, selector: selector),
                )
            }
        };
        let (expected, healthy, needed) = self.budget_numbers(key, budget);
        let allowed = healthy.saturating_sub(needed).min(expected);
        let own = values!(
            identity: identity(&key.namespace, &key.name, budget.uid, budget.created),
            generation: budget.edit.generation(),
            expected: expected,
            healthy: healthy,
            needed: needed,
            allowed: allowed,
            status: flag(allowed > 0),
            reason: if allowed > 0 { "SufficientPods" } else { "InsufficientPods" },
            created: budget.created,
        );
        lay(&mut object, filled("PodDisruptionBudget-state", own));
        object
    }

    /// Pods that a budget expects, has healthy, and needs healthy.
    pub(in super::super) fn budget_numbers(
        &self,
        key: &ObjectKey,
        budget: &SimBudget,
    ) -> (u32, u32, u32) {
        let (mut expected, mut healthy) = (0u32, 0u32);
        for work in self.works.values() {
            if work.namespace != key.namespace || budget.selector.is_empty() {
                continue;
            }
            let labels = self.template_labels(work);
            let has =
                |key: &str, value: &str| labels.get(key).and_then(Value::as_str) == Some(value);
            if !budget.selector.iter().all(|(key, value)| has(key, value)) {
                continue;
            }
            let active: Vec<_> = self.pods_of(work).filter(|pod| pod.is_active()).collect();
            healthy += active.iter().filter(|pod| self.serves(pod)).count() as u32;
            // The disruption controller reads the owner's scale.
            expected += match work.kind {
                WorkKind::Pod => active.len() as u32,
                _ if work.is_over() || work.suspended => 0,
                _ => work.width(),
            };
        }
        // Shares are rounded up.
        let share = |value: &Value| match value {
            Value::String(text) => {
                let percent: u64 = text.trim_end_matches('%').parse().unwrap_or(0);
                (u64::from(expected) * percent).div_ceil(100) as u32
            }
            other => other.as_u64().unwrap_or(0) as u32,
        };
        let needed = match &budget.bound {
            DisruptionBound::MinAvailable(value) => share(value),
            DisruptionBound::MaxUnavailable(value) => expected.saturating_sub(share(value)),
        };
        (expected, healthy, needed)
    }
}
