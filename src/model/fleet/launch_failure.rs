//! Nodes for which Karpenter found no capacity. It deletes such a NodeClaim at once; only an event remains, as long as the API
//! server keeps it.

use serde::{Deserialize, Serialize};

use crate::base::{Moment, Name, ObjectKey};

use super::job::Job;
use super::observed::object_parts::{Labels, Resources};
use super::scaling::{
    NODE_POOL, NodeClaim, Scaler, ScalerKind, ScalerState, Scaling, Stage, covers, waiting_pod,
};

/// The event of a NodeClaim that was deleted because there was no capacity for it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LaunchFailure {
    /// Namespace and name of the event.
    pub key: ObjectKey,
    pub claim: Name,
    /// Reason code and sentence.
    pub why: (Name, Name),
    /// When it was last seen.
    pub at: Option<Moment>,
}

/// Length that the API server cuts the beginning of a generated name to, and of the part that it adds.
///
/// Source: `SimpleNameGenerator` of `k8s.io/apiserver`.
const GENERATED: (usize, usize) = (58, 5);

impl LaunchFailure {
    /// True for a claim of this NodePool: Karpenter generates a claim's name from the NodePool's, and the event names only the claim.
    pub fn is_of(&self, node_pool: &str) -> bool {
        let (longest, added) = GENERATED;
        let whole = format!("{node_pool}-");
        let base = whole.get(..longest).unwrap_or(&whole);
        let rest = self.claim.strip_prefix(base);
        rest.is_some_and(|rest| rest.len() == added && !rest.contains('-'))
    }
}

impl Scaling {
    /// Why no autoscaler adds a node to a pool: the reason of the first of them. `None` if one may add a node, or if the pool
    /// has no known autoscaler.
    pub fn no_more_of(&self, pool: &Name) -> Option<String> {
        let mut own = self
            .scalers
            .iter()
            .filter(|scaler| scaler.pools.contains(pool))
            .map(|scaler| self.no_more(scaler));
        let first = own.next()??;
        own.all(|why| why.is_some()).then_some(first)
    }

    /// Why a scaler adds no node; `None` where it may add one.
    fn no_more(&self, scaler: &Scaler) -> Option<String> {
        let words = |why: &(Name, Name)| {
            let mut words = [&why.1, &why.0].into_iter();
            words.find(|words| !words.is_empty()).map(Name::to_string)
        };
        let lacking = match scaler.kind {
            ScalerKind::NodePool => self.launch_failure(&scaler.name),
            ScalerKind::NodeGroup => None,
        };
        let cause = match (scaler.state, lacking) {
            (ScalerState::Full | ScalerState::Backoff | ScalerState::Broken, _) => {
                words(&scaler.why).unwrap_or_else(|| scaler.state.name().to_owned())
            }
            (_, Some(failure)) => words(&failure.why)?,
            (ScalerState::Steady | ScalerState::Growing, None) if scaler.fixed => {
                "of a fixed size".to_owned()
            }
            (ScalerState::Steady | ScalerState::Growing, None) => return None,
        };
        Some(format!("{} {}: {cause}", scaler.kind.object(), scaler.name))
    }

    /// The last launch of this NodePool that failed for want of capacity; `None` where a node that it claimed later was launched.
    pub fn launch_failure(&self, node_pool: &str) -> Option<&LaunchFailure> {
        let own = self.failures.iter().filter(|it| it.is_of(node_pool));
        let last = own.max_by_key(|it| it.at)?;
        let launched = |claim: &NodeClaim| {
            let there = matches!(
                claim.stage,
                Stage::Launched | Stage::Registered | Stage::Ready
            );
            there
                && claim.node_pool.as_deref() == Some(node_pool)
                && last.at.is_some_and(|at| claim.created >= at)
        };
        (!self.claims.iter().any(|claim| launched(claim))).then_some(&**last)
    }

    /// The NodePools whose last launch failed for want of capacity and whose nodes could run a waiting pod of the job, as far as
    /// limits, other claims and labels say.
    pub fn launch_failures_for(&self, job: &Job) -> Vec<(&Scaler, &LaunchFailure)> {
        let Some((request, selector)) = waiting_pod(job) else {
            return Vec::new();
        };
        self.scalers
            .iter()
            .filter(|scaler| scaler.kind == ScalerKind::NodePool)
            .filter(|scaler| self.could_serve(scaler, request, selector))
            .filter_map(|scaler| Some((scaler, self.launch_failure(&scaler.name)?)))
            .collect()
    }

    /// True where nothing in the selector speaks against the NodePool, and something says that it has such nodes.
    fn could_serve(&self, scaler: &Scaler, request: &Resources, selector: &Labels) -> bool {
        // Labels that the NodePool does not set may come with the machine.
        let mut selects = false;
        for (key, value) in selector.iter() {
            let mut about = scaler.requirements.iter().filter(|it| it.key == *key);
            let holds = match scaler.labels.get(key) {
                _ if key.as_str() == NODE_POOL => Some(*value == scaler.name),
                Some(label) => Some(label == value),
                None if about.clone().next().is_some() => {
                    Some(about.all(|it| it.holds(Some(value))))
                }
                None => None,
            };
            if holds == Some(false) {
                return false;
            }
            selects |= holds == Some(true);
        }
        let wanted = || request.devices.iter().filter(|(_, count)| *count > 0);
        let limited =
            || wanted().all(|(name, _)| scaler.limits.iter().any(|limit| limit.resource == *name));
        let claimed = || {
            let mut own = self.claims.iter();
            own.any(|claim| {
                claim.node_pool.as_ref() == Some(&scaler.name) && covers(&claim.resources, request)
            })
        };
        request.device_count() > 0 && (selects || limited() || claimed())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn why_no_node_is_added_is_what_its_autoscalers_say() {
        let scaler = |name: &str, state: ScalerState, why: &str| Scaler {
            name: Name::new(name),
            pools: Box::from([Name::new("p")]),
            state,
            why: (Name::new("Reason"), Name::new(why)),
            ..Scaler::default()
        };
        let full = || scaler("a", ScalerState::Full, "at its limit on nodes");
        let steady = || scaler("b", ScalerState::Steady, "");
        let reason = |scalers: Vec<Scaler>, failures: &[&str]| {
            let failure = |claim: &&str| LaunchFailure {
                claim: Name::new(claim),
                why: (Name::new("NoCapacity"), Name::new("none in us-east-1a")),
                ..LaunchFailure::default()
            };
            let scaling = Scaling {
                scalers: Arc::from(scalers),
                failures: failures.iter().map(failure).map(Arc::new).collect(),
                ..Scaling::default()
            };
            scaling.no_more_of(&Name::new("p"))
        };
        assert_eq!(reason(vec![], &[]), None, "nothing is known");
        let limit = Some("NodePool a: at its limit on nodes".to_owned());
        assert_eq!(reason(vec![full()], &[]), limit);
        assert_eq!(reason(vec![full(), steady()], &[]), None, "b may add one");
        assert_eq!(reason(vec![steady()], &["other-x7k2p"]), None);
        let lacking = Some("NodePool b: none in us-east-1a".to_owned());
        assert_eq!(reason(vec![steady()], &["b-x7k2p"]), lacking);
        let mut fixed = steady();
        fixed.fixed = true;
        let fixed = reason(vec![fixed], &[]);
        assert_eq!(fixed.as_deref(), Some("NodePool b: of a fixed size"));
    }
}
