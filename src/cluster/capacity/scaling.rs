//! Requests for capacity (`autoscaling.x-k8s.io`) and horizontal pod autoscalers (`autoscaling/v2`).

use model::base::{Name, Names};
use model::fleet::observe::{Observation, Table};
use model::fleet::scaling::{
    Metric, MetricOf, PodScaler, PolicySelect, Provision, ProvisionState, ScalingPolicy,
    ScalingRules,
};

use crate::Projected;
use crate::lenient_json::{List, Quantity, Text, Whole, partial};
use crate::meta::{Meta, RawCondition, find};
use crate::pod_placement::Named;

partial! {
    ProvisionObject {
        meta: Meta = "metadata",
        spec: ProvisionSpec = "spec",
        status: Conditions = "status",
    }
}

partial! {
    ProvisionSpec {
        /// How it is to be met.
        class: Text = "provisioningClassName",
        sets: List<ProvisionSet> = "podSets",
    }
}

partial! {
    /// An entry of `podSets`.
    ProvisionSet {
        count: Whole = "count",
    }
}

partial! {
    /// A status of which the conditions are read.
    Conditions {
        conditions: List<RawCondition> = "conditions",
    }
}

impl Projected for ProvisionObject {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn project(&self, _: Table, names: &mut Names) -> Option<Observation> {
        let raw = &self.status.conditions;
        let holds = |kind| find(raw, kind).filter(|condition| condition.status() == Some(true));
        // Conditions that withdraw capacity take precedence over conditions that grant it.
        let reached = [
            ("Failed", ProvisionState::Failed),
            ("CapacityRevoked", ProvisionState::CapacityRevoked),
            ("BookingExpired", ProvisionState::BookingExpired),
            ("Provisioned", ProvisionState::Provisioned),
            ("Accepted", ProvisionState::Accepted),
        ]
        .into_iter()
        .find_map(|(kind, state)| Some((holds(kind)?, state)));
        // Not provisioned yet: the condition has the reason, and provisioning is retried.
        let missing = find(raw, "Provisioned")
            .filter(|_| reached.is_none_or(|(_, state)| state == ProvisionState::Accepted));
        let speaks = missing.or(reached.map(|(condition, _)| condition));
        let since = reached.map_or_else(
            || self.meta.created.moment(),
            |(condition, _)| condition.since.moment(),
        );
        Some(Observation::Provision(Box::new(Provision {
            key: self.meta.key(names)?,
            owner: self.meta.main_owner(names),
            class: names.intern(&self.spec.class),
            pods: self
                .spec
                .sets
                .iter()
                .filter_map(|set| set.count.count())
                .fold(0, u32::saturating_add),
            state: reached.map_or(ProvisionState::Pending, |(_, state)| state),
            why: speaks.map_or_else(Default::default, |condition| condition.why(names)),
            since,
            created: self.meta.created(),
        })))
    }
}

partial! {
    PodScalerObject {
        meta: Meta = "metadata",
        spec: PodScalerSpec = "spec",
        status: PodScalerStatus = "status",
    }
}

partial! {
    PodScalerSpec {
        target: Target = "scaleTargetRef",
        /// Minimum of pods; one when absent.
        min: Whole = "minReplicas",
        max: Whole = "maxReplicas",
        /// Metrics that it scales on.
        metrics: List<RawMetric> = "metrics",
        /// How fast it scales.
        behavior: Option<Behavior> = "behavior",
    }
}

partial! {
    Behavior {
        up: Rules = "scaleUp",
        down: Rules = "scaleDown",
    }
}

partial! {
    /// Scaling rules in one direction.
    Rules {
        /// Tolerance of the metric, as a ratio: within it nothing scales.
        tolerance: Quantity = "tolerance",
        /// Which policy applies: `Max`, `Min` or `Disabled`.
        select: Text = "selectPolicy",
        policies: List<Policy> = "policies",
    }
}

partial! {
    Policy {
        /// Unit of the value: `Pods` or `Percent`.
        kind: Text = "type",
        value: Whole = "value",
    }
}

impl Rules {
    fn read(&self) -> ScalingRules {
        let policy = |policy: &Policy| {
            let value = policy.value.count()?;
            match policy.kind.get()? {
                "Pods" => Some(ScalingPolicy::Pods(value)),
                "Percent" => Some(ScalingPolicy::Percent(value)),
                _ => None,
            }
        };
        ScalingRules {
            tolerance_milli: self.tolerance.0,
            select: match self.select.get() {
                Some("Min") => PolicySelect::Min,
                Some("Disabled") => PolicySelect::Disabled,
                _ => PolicySelect::Max,
            },
            policies: self.policies.iter().filter_map(policy).collect(),
        }
    }
}

partial! {
    Target {
        kind: Text = "kind",
        name: Text = "name",
    }
}

partial! {
    /// A metric, as aimed at or as read.
    RawMetric {
        /// `cpu`, `memory`: of the whole pod.
        resource: Measured = "resource",
        /// The same for one container.
        container: Measured = "containerResource",
        pods: Measured = "pods",
        object: Measured = "object",
        /// Of nothing in the cluster.
        external: Measured = "external",
    }
}

partial! {
    /// A metric and its value.
    Measured {
        /// Name of a resource.
        name: Text = "name",
        /// Its container, where it is of one.
        container: Text = "container",
        /// Name of any other metric.
        metric: Named = "metric",
        /// The value aimed at.
        target: Amount = "target",
        /// The value as read.
        current: Amount = "current",
    }
}

partial! {
    /// A value in one of three forms.
    Amount {
        /// Average utilization, percent of the request.
        utilization: Whole = "averageUtilization",
        average: Text = "averageValue",
        value: Text = "value",
    }
}

impl Amount {
    /// The value as text; `None` when none is set.
    fn words(&self) -> Option<String> {
        match self.utilization.0 {
            Some(percent) => Some(format!("{percent}%")),
            None => self
                .average
                .get()
                .or_else(|| self.value.get())
                .map(str::to_owned),
        }
    }
}

impl RawMetric {
    /// The measured metric by name: two containers of a pod have a `cpu` each.
    fn measured(&self) -> Option<(&Measured, String, MetricOf)> {
        [
            &self.resource,
            &self.container,
            &self.pods,
            &self.object,
            &self.external,
        ]
        .into_iter()
        .enumerate()
        .find_map(|(at, one)| {
            let name = one.name.get().or_else(|| one.metric.name.get())?;
            let of = match at {
                0 | 1 if name == "cpu" => MetricOf::Cpu,
                0..=2 => MetricOf::Pods,
                _ if one.target.average.get().is_some() => MetricOf::TotalPerPod,
                _ => MetricOf::Total,
            };
            let name = match one.container.get() {
                Some(container) => format!("{name} of container {container}"),
                None => name.to_owned(),
            };
            Some((one, name, of))
        })
    }
}

partial! {
    PodScalerStatus {
        current: Whole = "currentReplicas",
        /// Desired number of pods.
        desired: Whole = "desiredReplicas",
        /// When it last changed the number.
        scaled: Text = "lastScaleTime",
        /// Values as last read.
        metrics: List<RawMetric> = "currentMetrics",
        conditions: List<RawCondition> = "conditions",
    }
}

impl PodScalerObject {
    fn metrics(&self, names: &mut Names) -> Box<[Metric]> {
        // The controller writes the values in the order of the spec, with an empty entry for one that it could not read.
        let read = |at: usize, wanted: &str| {
            let (one, name, _) = self.status.metrics.get(at)?.measured()?;
            one.current.words().filter(|_| name == wanted)
        };
        self.spec
            .metrics
            .iter()
            .enumerate()
            .filter_map(|(at, raw)| Some((at, raw.measured()?)))
            .map(|(at, (one, name, of))| Metric {
                current: read(at, &name).map(Name::from),
                name: names.intern(&name),
                of,
                target: names.intern(&one.target.words().unwrap_or_default()),
            })
            .collect()
    }

    /// The desired replicas; `None` before any were computed, where the field is 0: a computed number is at least the minimum, and
    /// 0 where the target has been scaled to none.
    fn desired(&self) -> Option<u32> {
        let (desired, current) = (self.status.desired.count(), self.status.current.count());
        let least = self.spec.min.count().unwrap_or(1);
        desired.filter(|desired| *desired > 0 || least == 0 || current == Some(0))
    }
}

impl Projected for PodScalerObject {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn project(&self, _: Table, names: &mut Names) -> Option<Observation> {
        let raw = &self.status.conditions;
        let mut condition_with = |kind: &str, wanted: bool| {
            let condition = find(raw, kind).filter(|one| one.status() == Some(wanted))?;
            Some(condition.why(names))
        };
        let limited = condition_with("ScalingLimited", true);
        let failing =
            condition_with("AbleToScale", false).or_else(|| condition_with("ScalingActive", false));
        let stabilized = match condition_with("AbleToScale", true)
            .as_ref()
            .map(|(word, _)| &**word)
        {
            Some("ScaleDownStabilized" | "ScaleUpStabilized") => Some(true),
            Some("ReadyForNewScale") => Some(false),
            _ => None,
        };
        let target = &self.spec.target;
        Some(Observation::PodScaler(Box::new(PodScaler {
            key: self.meta.key(names)?,
            target: (names.intern(&target.kind), names.intern(&target.name)),
            min: self.spec.min.count().unwrap_or(1),
            max: self.spec.max.count(),
            current: self.status.current.count(),
            desired: self.desired(),
            limited,
            failing,
            stabilized,
            scaled: self.status.scaled.moment(),
            metrics: self.metrics(names),
            behavior: (self.spec.behavior.as_ref())
                .map(|behavior| (behavior.up.read(), behavior.down.read())),
        })))
    }
}
