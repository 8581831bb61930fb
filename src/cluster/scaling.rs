//! Requests for capacity (`autoscaling.x-k8s.io`) and horizontal pod autoscalers (`autoscaling/v2`).

use model::base::{Name, Names};
use model::fleet::observe::{Observation, Table};
use model::fleet::scaling::{Metric, PodScaler, Provision, ProvisionState};

use super::Projected;
use super::meta::{Meta, RawCondition, find};
use super::partial::{List, Text, Whole, partial};
use super::siting::Named;

partial! {
    /// A ProvisioningRequest.
    ProvisionObject {
        /// Metadata.
        meta: Meta = "metadata",
        /// Spec.
        spec: ProvisionSpec = "spec",
        /// Status.
        status: Conditions = "status",
    }
}

partial! {
    /// Its `spec`.
    ProvisionSpec {
        /// How it is to be met.
        class: Text = "provisioningClassName",
        /// Pods.
        sets: List<ProvisionSet> = "podSets",
    }
}

partial! {
    /// An entry of `podSets`.
    ProvisionSet {
        /// Pods.
        count: Whole = "count",
    }
}

partial! {
    /// A status of which the conditions are read.
    Conditions {
        /// Conditions.
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
        // What takes the capacity away comes after what gave it.
        let said = [
            ("Failed", ProvisionState::Failed),
            ("CapacityRevoked", ProvisionState::CapacityRevoked),
            ("BookingExpired", ProvisionState::BookingExpired),
            ("Provisioned", ProvisionState::Provisioned),
            ("Accepted", ProvisionState::Accepted),
        ]
        .into_iter()
        .find_map(|(kind, state)| Some((holds(kind)?, state)));
        // Not provisioned yet: the condition says why, and is tried again.
        let missing = find(raw, "Provisioned")
            .filter(|_| said.is_none_or(|(_, state)| state == ProvisionState::Accepted));
        let speaks = missing.or(said.map(|(condition, _)| condition));
        let since = said.map_or_else(
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
            state: said.map_or(ProvisionState::Pending, |(_, state)| state),
            why: speaks.map_or_else(Default::default, |condition| condition.why(names)),
            since,
            created: self.meta.created(),
        })))
    }
}

partial! {
    /// A HorizontalPodAutoscaler.
    PodScalerObject {
        /// Metadata.
        meta: Meta = "metadata",
        /// Spec.
        spec: PodScalerSpec = "spec",
        /// Status.
        status: PodScalerStatus = "status",
    }
}

partial! {
    /// Its `spec`.
    PodScalerSpec {
        /// What it scales.
        target: Target = "scaleTargetRef",
        /// Pods at least; one when it does not say.
        min: Whole = "minReplicas",
        /// Pods at most.
        max: Whole = "maxReplicas",
        /// What it goes by.
        metrics: List<RawMetric> = "metrics",
    }
}

partial! {
    /// What is scaled.
    Target {
        /// Kind.
        kind: Text = "kind",
        /// Name.
        name: Text = "name",
    }
}

partial! {
    /// A metric, as aimed at or as read.
    RawMetric {
        /// `cpu`, `memory`: of the whole pod.
        resource: Measured = "resource",
        /// The same of one container.
        container: Measured = "containerResource",
        /// Of each pod.
        pods: Measured = "pods",
        /// Of another object.
        object: Measured = "object",
        /// Of nothing in the cluster.
        external: Measured = "external",
    }
}

partial! {
    /// What is measured, and the value.
    Measured {
        /// Name of a resource.
        name: Text = "name",
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
        /// Share of what is requested, percent.
        utilization: Whole = "averageUtilization",
        /// Mean over pods.
        average: Text = "averageValue",
        /// In all.
        value: Text = "value",
    }
}

impl Amount {
    /// As it is written; `None` when nothing is said.
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
    fn measured(&self) -> Option<(&Measured, &str)> {
        [
            &self.resource,
            &self.container,
            &self.pods,
            &self.object,
            &self.external,
        ]
        .into_iter()
        .find_map(|one| {
            let name = one.name.get().or_else(|| one.metric.name.get())?;
            Some((one, name))
        })
    }
}

partial! {
    /// Its `status`.
    PodScalerStatus {
        /// Pods now.
        current: Whole = "currentReplicas",
        /// Pods that it wants.
        desired: Whole = "desiredReplicas",
        /// When it last changed the number.
        scaled: Text = "lastScaleTime",
        /// Values as last read.
        metrics: List<RawMetric> = "currentMetrics",
        /// Conditions.
        conditions: List<RawCondition> = "conditions",
    }
}

impl PodScalerObject {
    fn metrics(&self, names: &mut Names) -> Box<[Metric]> {
        let read = |wanted: &str| {
            self.status
                .metrics
                .iter()
                .filter_map(RawMetric::measured)
                .find(|(_, name)| *name == wanted)
                .and_then(|(one, _)| one.current.words())
        };
        self.spec
            .metrics
            .iter()
            .filter_map(RawMetric::measured)
            .map(|(one, name)| Metric {
                name: names.intern(name),
                target: names.intern(&one.target.words().unwrap_or_default()),
                current: read(name).map(Name::from),
            })
            .collect()
    }
}

impl Projected for PodScalerObject {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn project(&self, _: Table, names: &mut Names) -> Option<Observation> {
        let raw = &self.status.conditions;
        let mut said = |kind: &str, wanted: bool| {
            let condition = find(raw, kind).filter(|one| one.status() == Some(wanted))?;
            Some(condition.why(names))
        };
        let limited = said("ScalingLimited", true);
        let failing = said("AbleToScale", false).or_else(|| said("ScalingActive", false));
        let target = &self.spec.target;
        Some(Observation::PodScaler(Box::new(PodScaler {
            key: self.meta.key(names)?,
            target: (names.intern(&target.kind), names.intern(&target.name)),
            min: self.spec.min.count().unwrap_or(1),
            max: self.spec.max.count(),
            current: self.status.current.count(),
            desired: self.status.desired.count(),
            limited,
            failing,
            scaled: self.status.scaled.moment(),
            metrics: self.metrics(names),
        })))
    }
}
