//! ScaledObjects of KEDA (`keda.sh/v1alpha1`).
//!
//! Source: keda.sh, ScaledObject specification: the target's kind defaults to Deployment, minimum 0 and maximum 100 pods;
//! paused by the annotations `autoscaling.keda.sh/paused` and `autoscaling.keda.sh/paused-replicas`.

use model::base::Names;
use model::fleet::observe::{Observation, Table};
use model::fleet::scaling::ScaledObject;

use crate::Projected;
use crate::lenient_json::{List, Text, Whole, partial};
use crate::meta::{Meta, RawCondition, find};

/// Default maximum of pods.
const MOST: u32 = 100;

partial! {
    ScaledObjectObject {
        meta: Meta = "metadata",
        spec: ScaledObjectSpec = "spec",
        status: ScaledObjectStatus = "status",
    }
}

partial! {
    ScaledObjectSpec {
        target: ScaleTarget = "scaleTargetRef",
        min: Whole = "minReplicaCount",
        max: Whole = "maxReplicaCount",
        /// The triggers of the scaling.
        triggers: List<Trigger> = "triggers",
    }
}

partial! {
    ScaleTarget {
        kind: Text = "kind",
        name: Text = "name",
    }
}

partial! {
    /// An entry of `triggers`.
    Trigger {
        kind: Text = "type",
    }
}

partial! {
    ScaledObjectStatus {
        /// The autoscaler that it made.
        autoscaler: Text = "hpaName",
        conditions: List<RawCondition> = "conditions",
    }
}

impl Projected for ScaledObjectObject {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn project(&self, _: Table, names: &mut Names) -> Option<Observation> {
        let raw = &self.status.conditions;
        let is = |kind: &str| find(raw, kind).and_then(RawCondition::status);
        let annotation = |key: &str| self.meta.annotations.get(key).and_then(Text::get);
        // Paused at a number of pods, or at the current number; the annotation may also be `false`.
        let paused = annotation("autoscaling.keda.sh/paused").is_some_and(|word| word != "false")
            || annotation("autoscaling.keda.sh/paused-replicas").is_some();
        let not_ready = find(raw, "Ready").filter(|one| one.status() == Some(false));
        let speaks = not_ready.or_else(|| find(raw, "Active"));
        let target = &self.spec.target;
        Some(Observation::ScaledObject(Box::new(ScaledObject {
            key: self.meta.key(names)?,
            target: (
                names.intern(target.kind.get().unwrap_or("Deployment")),
                names.intern(&target.name),
            ),
            min: self.spec.min.count().unwrap_or(0),
            max: self.spec.max.count().unwrap_or(MOST),
            triggers: self
                .spec
                .triggers
                .iter()
                .filter_map(|trigger| Some(names.intern(trigger.kind.get()?)))
                .collect(),
            autoscaler: self.status.autoscaler.get().map(|name| names.intern(name)),
            paused,
            active: is("Active"),
            fallback: is("Fallback") == Some(true),
            failing: not_ready.map(|one| one.why(names)),
            since: speaks.and_then(|one| one.since.moment()),
        })))
    }
}
