//! Placement of pods: affinity, tolerations, scheduling gates, gang membership, and label selectors.

use std::sync::Arc;

use model::base::{Name, Names, SmallSort};
use model::fleet::budget::Selector;
use model::fleet::observe::Taint;
use model::fleet::siting::{
    ConstraintMode, Expression, Membership, NodeTerm, Operator, Siting, Toleration,
    TopologyConstraint,
};

use super::lenient_json::{List, Map, Maybe, Text, Whole, partial};
use super::meta::{Meta, labels};
use super::resources::PodShape;

partial! {
    /// `affinity` of a pod.
    Affinity {
        /// The part about nodes.
        node: NodeAffinity = "nodeAffinity",
    }
}

partial! {
    NodeAffinity {
        /// Required terms, checked when the pod is scheduled.
        required: NodeSelector = "requiredDuringSchedulingIgnoredDuringExecution",
    }
}

partial! {
    /// A node selector: any of its terms.
    NodeSelector {
        terms: List<RawTerm> = "nodeSelectorTerms",
    }
}

partial! {
    /// A term of a node selector: all of its expressions.
    RawTerm {
        labels: List<RawExpression> = "matchExpressions",
        fields: List<RawExpression> = "matchFields",
    }
}

partial! {
    /// A condition on a label or field.
    RawExpression {
        key: Text = "key",
        operator: Text = "operator",
        /// Values to compare with.
        values: List<Text> = "values",
    }
}

partial! {
    RawToleration {
        key: Text = "key",
        /// How the taint is compared: `Exists` or `Equal`.
        operator: Text = "operator",
        value: Text = "value",
        effect: Text = "effect",
        /// How long a `NoExecute` taint is borne.
        seconds: Whole = "tolerationSeconds",
    }
}

partial! {
    /// Something that has a name and nothing else of interest: a scheduling gate, a topology's level.
    Named {
        name: Text = "name",
    }
}

partial! {
    RawTaint {
        key: Text = "key",
        value: Text = "value",
        effect: Text = "effect",
        /// When it was added.
        since: Text = "timeAdded",
    }
}

partial! {
    /// `schedulingGroup` of a pod, from Kubernetes 1.36.
    SchedulingGroup {
        pod_group: Text = "podGroupName",
    }
}

partial! {
    RawSelector {
        /// Labels that must be there.
        labels: Map<Text> = "matchLabels",
        expressions: List<RawExpression> = "matchExpressions",
    }
}

/// Taints that Kubernetes adds a toleration for to every pod; not worth showing.
const ORDINARY: &[&str] = &[
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
];

/// A match expression; an unknown operator yields one that matches no node.
pub fn expression(raw: &RawExpression, names: &mut Names) -> Expression {
    match Operator::from_name(&raw.operator) {
        Some(operator) => Expression {
            key: names.intern(&raw.key),
            operator,
            values: raw.values.iter().map(|value| names.intern(value)).collect(),
        },
        None => Expression {
            key: names.intern(&raw.key),
            operator: Operator::In,
            values: Box::default(),
        },
    }
}

/// The terms of a selector, which are ORed.
pub fn node_terms(selector: &NodeSelector, names: &mut Names) -> Box<[NodeTerm]> {
    selector.terms.iter().map(|raw| term(raw, names)).collect()
}

fn term(raw: &RawTerm, names: &mut Names) -> NodeTerm {
    NodeTerm {
        labels: raw
            .labels
            .iter()
            .map(|raw| expression(raw, names))
            .collect(),
        fields: raw
            .fields
            .iter()
            .map(|raw| expression(raw, names))
            .collect(),
    }
}

/// Tolerations in the fleet's model.
pub fn tolerations(raw: &[RawToleration], names: &mut Names) -> Box<[Toleration]> {
    let mut all: Vec<Toleration> = raw
        .iter()
        .filter(|raw| !(ORDINARY.contains(&&*raw.key) && raw.seconds.0.is_some()))
        .map(|raw| Toleration {
            key: names.intern(&raw.key),
            exists: &*raw.operator == "Exists",
            value: names.intern(&raw.value),
            effect: names.intern(&raw.effect),
            seconds: raw.seconds.0,
        })
        .collect();
    all.small_sort();
    all.dedup();
    all.into_boxed_slice()
}

/// Taints that name their key.
pub fn taints(raw: &[RawTaint], names: &mut Names) -> Vec<Taint> {
    raw.iter()
        .filter(|taint| taint.key.get().is_some())
        .map(|taint| Taint {
            key: names.intern(&taint.key),
            value: names.intern(&taint.value),
            effect: names.intern(&taint.effect),
            since: taint.since.moment(),
        })
        .collect()
}

/// Placement rules of a pod of this shape; `None` when it has none.
pub fn siting(
    shape: &PodShape,
    member_of: Option<Membership>,
    names: &mut Names,
) -> Option<Arc<Siting>> {
    let siting = Siting {
        required: shape
            .affinity
            .node
            .required
            .terms
            .iter()
            .map(|raw| term(raw, names))
            .collect(),
        tolerations: tolerations(&shape.tolerations, names),
        gates: shape
            .gates
            .iter()
            .filter_map(|gate| gate.name.get())
            .map(|gate| names.intern(gate))
            .collect(),
        scheduler: shape
            .scheduler
            .get()
            .filter(|name| *name != "default-scheduler")
            .map(|name| names.intern(name)),
        member_of,
    };
    (!siting.is_empty()).then(|| Arc::new(siting))
}

/// The gang that a pod without a controller declares.
///
/// Sources: `spec.schedulingGroup` (Kubernetes 1.36 on), `spec.workloadRef` (1.35), Kueue's groups of plain
/// pods, the annotations of Volcano's and KAI's pod groups.
pub fn membership(meta: &Meta, shape: &PodShape, names: &mut Names) -> Option<Membership> {
    let annotated = |key: &str| meta.annotations.get(key).and_then(Text::get);
    let labelled = |key: &str| meta.labels.get(key).and_then(Text::get);
    let group = shape
        .scheduling_group
        .pod_group
        .get()
        .or_else(|| annotated("scheduling.k8s.io/group-name"))
        .or_else(|| annotated("scheduling.volcano.sh/group-name"))
        .or_else(|| annotated("pod-group-name"))
        .map(|name| ("PodGroup", name));
    let (kind, name) = labelled("kueue.x-k8s.io/pod-group-name")
        .or_else(|| shape.workload_ref.name.get())
        .map(|name| ("Workload", name))
        .or(group)?;
    Some(Membership {
        kind: names.intern(kind),
        name: names.intern(name),
    })
}

/// A label selector; `None` where there is none.
pub fn selector(raw: &Maybe<RawSelector>, names: &mut Names) -> Option<Selector> {
    raw.0.as_ref().map(|raw| Selector {
        labels: labels(&raw.labels, names),
        expressions: raw
            .expressions
            .iter()
            .map(|raw| expression(raw, names))
            .collect(),
    })
}

/// The topology request in Kueue's annotations of a pod template.
///
/// Source: Kueue's documentation of topology-aware scheduling.
pub fn topology_request(
    annotations: &Map<Text>,
    names: &mut Names,
) -> Option<Box<TopologyConstraint>> {
    let annotation = |key: &str| {
        annotations
            .get(&format!("kueue.x-k8s.io/podset-{key}"))
            .and_then(Text::get)
    };
    topology_constraint(
        annotation("required-topology"),
        annotation("preferred-topology"),
        annotation("unconstrained-topology") == Some("true"),
        annotation("slice-required-topology").map(|level| {
            let size = annotation("slice-size").and_then(|size| size.parse().ok());
            (level, size.unwrap_or(1))
        }),
        names,
    )
}

/// A topology request from its parts: a required level, a preferred one, unconstrained, a level for each slice.
pub fn topology_constraint(
    required: Option<&str>,
    preferred: Option<&str>,
    unconstrained: bool,
    slice: Option<(&str, u32)>,
    names: &mut Names,
) -> Option<Box<TopologyConstraint>> {
    let (mode, level) = match (required, preferred) {
        (Some(level), _) => (ConstraintMode::Required, level),
        (None, Some(level)) => (ConstraintMode::Preferred, level),
        (None, None) if unconstrained || slice.is_some() => (ConstraintMode::Unconstrained, ""),
        (None, None) => return None,
    };
    Some(Box::new(TopologyConstraint {
        mode,
        level: names.intern(level),
        slice: slice.map(|(level, size)| (Name::new(level), size)),
    }))
}
