//! Karpenter's NodePools and NodeClaims (`karpenter.sh/v1`; `v1beta1` has the same fields).

use model::base::{Name, Names, SmallSort};
use model::fleet::observe::{Observation, Table};
use model::fleet::scaling::{Limit, NODE_POOL, NodeClaim, Scaler, ScalerKind, ScalerState, Stage};

use crate::Projected;
use crate::lenient_json::{List, Text, Whole, partial};
use crate::meta::{Meta, RawCondition, find, labels};
use crate::pod_placement::{RawExpression, expression};
use crate::resources::{ResourceList, of_node};

partial! {
    NodePoolObject {
        meta: Meta = "metadata",
        spec: NodePoolSpec = "spec",
        status: NodePoolStatus = "status",
    }
}

partial! {
    NodePoolSpec {
        /// Limits on the total resources of its nodes.
        limits: ResourceList = "limits",
        /// The higher is tried first.
        weight: Whole = "weight",
        /// A fixed number of nodes, independent of pods.
        replicas: Whole = "replicas",
        /// Disruption policy: when nodes may be removed.
        disruption: Disruption = "disruption",
        /// What nodes are made from.
        template: ClaimTemplate = "template",
    }
}

partial! {
    Disruption {
        /// Nodes that may be consolidated: `WhenEmpty` or `WhenEmptyOrUnderutilized`.
        policy: Text = "consolidationPolicy",
        /// A duration, or `Never`.
        after: Text = "consolidateAfter",
        /// How many nodes at a time.
        budgets: List<DisruptionBudget> = "budgets",
    }
}

partial! {
    /// An entry of `budgets`.
    DisruptionBudget {
        /// A number or a share.
        nodes: Text = "nodes",
        /// Cron schedule during which the budget applies; always when absent.
        schedule: Text = "schedule",
        /// Disruption reasons that the budget applies to; all when absent.
        reasons: List<Text> = "reasons",
    }
}

partial! {
    ClaimTemplate {
        /// Labels of the nodes.
        meta: Meta = "metadata",
        spec: ClaimSpec = "spec",
    }
}

partial! {
    /// `spec` of a NodeClaim, or of its template.
    ClaimSpec {
        /// What the node fulfils.
        requirements: List<RawExpression> = "requirements",
        /// Resources that the node must offer.
        resources: ClaimResources = "resources",
    }
}

partial! {
    /// `resources` of a NodeClaim.
    ClaimResources {
        /// Total requests of the pods that the node is created for.
        requests: ResourceList = "requests",
    }
}

partial! {
    /// `status` of a NodePool.
    NodePoolStatus {
        /// Total resources of its nodes, including the resource `nodes`.
        resources: ResourceList = "resources",
        /// Its nodes, from Karpenter 1.7 on.
        nodes: Whole = "nodes",
        conditions: List<RawCondition> = "conditions",
    }
}

impl Disruption {
    /// The policy in words: `WhenEmpty after 5m, 10% at a time`.
    fn words(&self) -> String {
        let policy = self.policy.get().unwrap_or("WhenEmptyOrUnderutilized");
        let mut words = match self.after.get() {
            Some("Never") => String::from("never consolidated"),
            Some(after) => format!("{policy} after {after}"),
            None => policy.to_owned(),
        };
        let always = self
            .budgets
            .iter()
            .filter(|budget| budget.schedule.get().is_none() && budget.reasons.is_empty())
            .filter_map(|budget| budget.nodes.get());
        for nodes in always.take(2) {
            words.push_str(&format!(", {nodes} at a time"));
        }
        words
    }
}

impl NodePoolObject {
    /// The condition that stops the pool from working; more specific conditions take precedence.
    ///
    /// Source: Karpenter's `pkg/apis/v1/nodepool_status.go`.
    fn fault(&self) -> Option<&RawCondition> {
        [
            "ValidationSucceeded",
            "NodeClassReady",
            "NodeRegistrationHealthy",
            "Ready",
        ]
        .into_iter()
        .filter_map(|kind| find(&self.status.conditions, kind))
        .find(|condition| condition.status() == Some(false))
    }

    fn limits(&self, names: &mut Names) -> Box<[Limit]> {
        let mut limits: Vec<Limit> = self
            .spec
            .limits
            .iter()
            .filter_map(|(resource, most)| {
                Some(Limit {
                    resource: names.intern(resource),
                    most: most.0?.max(0),
                    used: self.status.resources.get(resource).and_then(|used| used.0),
                })
            })
            .collect();
        limits.small_sort();
        limits.dedup_by(|later, first| later.resource == first.resource);
        limits.into_boxed_slice()
    }
}

impl Projected for NodePoolObject {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn project(&self, _: Table, names: &mut Names) -> Option<Observation> {
        let limits = self.limits(names);
        let whole = |milli: i64| u32::try_from(milli.max(0) / 1000).unwrap_or(u32::MAX);
        let resource_count = self.status.resources.get("nodes").and_then(|nodes| nodes.0);
        let now = self.status.nodes.count().or(resource_count.map(whole));
        let most = limits
            .iter()
            .find(|limit| limit.resource.as_str() == "nodes")
            .map(|limit| whole(limit.most));
        let replicas = self.spec.replicas.count();
        let full = limits
            .iter()
            .find(|limit| limit.used.is_some_and(|used| used >= limit.most));
        let fault = self.fault();
        let (state, why) = match (fault, full) {
            _ if self.meta.deleted.get().is_some() => (
                ScalerState::Broken,
                (Name::new("Deleting"), Name::new("it is being deleted")),
            ),
            (Some(fault), _) => (ScalerState::Broken, fault.why(names)),
            (None, Some(limit)) if replicas.is_none() => {
                let sentence = format!("at its limit on {}", limit.resource);
                (
                    ScalerState::Full,
                    (names.intern("LimitReached"), Name::from(sentence)),
                )
            }
            _ => (ScalerState::Steady, Default::default()),
        };
        Some(Observation::NodePool(Box::new(Scaler {
            kind: ScalerKind::NodePool,
            name: names.intern(self.meta.name.get()?),
            now,
            target: replicas,
            // A node pool without `replicas` scales to zero when there is no demand.
            min: Some(replicas.unwrap_or(0)),
            max: replicas.or(most),
            fixed: replicas.is_some(),
            limits,
            weight: self.spec.weight.small(),
            disruption: match replicas {
                Some(_) => Name::default(),
                None => names.intern(&self.spec.disruption.words()),
            },
            state,
            why,
            since: fault.and_then(|fault| fault.since.moment()),
            labels: labels(&self.spec.template.meta.labels, names),
            requirements: self
                .spec
                .template
                .spec
                .requirements
                .iter()
                .map(|raw| expression(raw, names))
                .collect(),
            ..Scaler::default()
        })))
    }
}

partial! {
    NodeClaimObject {
        meta: Meta = "metadata",
        spec: ClaimSpec = "spec",
        status: NodeClaimStatus = "status",
    }
}

partial! {
    NodeClaimStatus {
        node: Text = "nodeName",
        /// Capacity of the machine.
        capacity: ResourceList = "capacity",
        conditions: List<RawCondition> = "conditions",
    }
}

/// Reasons of a launch that is merely not over.
const UNDER_WAY: [&str; 2] = ["AwaitingReconciliation", "CapacityEvidencePending"];

impl NodeClaimObject {
    /// Current stage, the condition that set it, and the condition that the next stage waits for.
    ///
    /// Source: Karpenter's `pkg/apis/v1/nodeclaim_status.go`: Launched, then Registered, then Initialized. A launch that failed
    /// and is retried is Unknown with a reason; a claim without capacity is deleted ([`crate::event`]).
    fn stage(&self) -> (Stage, Option<&RawCondition>, Option<&RawCondition>) {
        let condition = |kind| find(&self.status.conditions, kind);
        let steps = [
            ("Initialized", Stage::Ready),
            ("Registered", Stage::Registered),
            ("Launched", Stage::Launched),
        ];
        let mut next = None;
        for (kind, stage) in steps {
            let this = condition(kind);
            if this.is_some_and(|this| this.status() == Some(true)) {
                return (stage, this, next);
            }
            next = this;
        }
        (Stage::Launching, None, next)
    }
}

impl Projected for NodeClaimObject {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn project(&self, _: Table, names: &mut Names) -> Option<Observation> {
        let name = names.intern(self.meta.name.get()?);
        let created = self.meta.created();
        let (stage, reached, next) = self.stage();
        let failing = next.is_some_and(|next| match stage {
            Stage::Launching => {
                let reason = next.reason.get();
                next.message.get().is_some() && reason.is_some_and(|it| !UNDER_WAY.contains(&it))
            }
            _ => next.status() == Some(false),
        });
        let leaving = self.meta.deleted.moment();
        let capacity = of_node(&self.status.capacity, names);
        let owner = self
            .meta
            .owners
            .iter()
            .find(|owner| &*owner.kind == "NodePool")
            .and_then(|owner| owner.name.get());
        let node_pool = self
            .meta
            .labels
            .get(NODE_POOL)
            .and_then(Text::get)
            .or(owner);
        Some(Observation::NodeClaim(Box::new(NodeClaim {
            name,
            node_pool: node_pool.map(|pool| names.intern(pool)),
            node: self.status.node.get().map(|node| names.intern(node)),
            stage: if leaving.is_some() {
                Stage::Leaving
            } else {
                stage
            },
            failing: failing && leaving.is_none(),
            why: next.map_or_else(Default::default, |next| next.why(names)),
            since: leaving
                .or_else(|| reached.and_then(|reached| reached.since.moment()))
                .or_else(|| self.meta.created.moment()),
            created,
            resources: match capacity.device_count() {
                0 => of_node(&self.spec.resources.requests, names),
                _ => capacity,
            },
            labels: self.meta.labels(names),
            requirements: self
                .spec
                .requirements
                .iter()
                .map(|raw| expression(raw, names))
                .collect(),
        })))
    }
}
