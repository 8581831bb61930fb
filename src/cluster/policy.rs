//! Disruption budgets and priority classes.

use model::base::Names;
use model::fleet::budget::PodDisruptionBudget;
use model::fleet::observe::{Observation, Table};
use model::fleet::queue::{PriorityClass, PriorityKind};

use super::Projected;
use super::lenient_json::{Maybe, OptionalBool, Text, Whole, partial};
use super::meta::Meta;
use super::pod_placement::{RawSelector, selector};

partial! {
    BudgetObject {
        meta: Meta = "metadata",
        spec: BudgetSpec = "spec",
        status: BudgetStatus = "status",
    }
}

partial! {
    BudgetSpec {
        /// The pods it is about.
        selector: Maybe<RawSelector> = "selector",
        /// When pods that are not ready may be evicted: `IfHealthyBudget` or `AlwaysAllow`.
        unhealthy: Text = "unhealthyPodEvictionPolicy",
    }
}

partial! {
    BudgetStatus {
        /// Evictions that the budget allows now.
        allowed: Whole = "disruptionsAllowed",
        /// Pods that are well.
        healthy: Whole = "currentHealthy",
        /// Pods that must stay well.
        wanted: Whole = "desiredHealthy",
        expected: Whole = "expectedPods",
        /// The version of the spec that this is about.
        observed: Whole = "observedGeneration",
    }
}

impl Projected for BudgetObject {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn project(&self, _: Table, names: &mut Names) -> Option<Observation> {
        let status = &self.status;
        let count = |number: Whole| number.count().unwrap_or(0);
        Some(Observation::Budget(Box::new(PodDisruptionBudget {
            key: self.meta.key(names)?,
            selector: selector(&self.spec.selector, names),
            allowed: count(status.allowed),
            healthy: count(status.healthy),
            wanted: count(status.wanted),
            expected: count(status.expected),
            spares_unhealthy: &*self.spec.unhealthy == "AlwaysAllow",
            unobserved: status.observed.0.unwrap_or(0) < self.meta.generation.0.unwrap_or(0),
        })))
    }
}

partial! {
    /// A PriorityClass, or Kueue's WorkloadPriorityClass.
    PriorityClassObject {
        meta: Meta = "metadata",
        value: Whole = "value",
        /// For pods that name no class.
        default: OptionalBool = "globalDefault",
        /// Whether its pods may preempt others: `PreemptLowerPriority` or `Never`.
        preemption: Text = "preemptionPolicy",
    }
}

impl Projected for PriorityClassObject {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn project(&self, table: Table, names: &mut Names) -> Option<Observation> {
        Some(Observation::Priority(Box::new(PriorityClass {
            kind: match table {
                Table::WorkloadPriorityClasses => PriorityKind::Workload,
                _ => PriorityKind::Pod,
            },
            name: names.intern(self.meta.name.get()?),
            value: self.value.small().unwrap_or(0),
            is_default: self.default.is_set(),
            never_preempts: &*self.preemption == "Never",
        })))
    }
}
