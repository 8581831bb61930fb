//! Rows of `scalers`: autoscalers of nodes and pods, and requests for capacity.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use model::base::quantities::{counted, plain_quantity};
use model::base::{Moment, Name, ObjectKey};
use model::fleet::finding::OBJECTIVE_MISSED;
use model::fleet::job::{Job, JobKey};
use model::fleet::launch_failure::LaunchFailure;
use model::fleet::pool::requested_words;
use model::fleet::replicas::{Pods, Steady, desired, leading, why_steady};
use model::fleet::scaling::{
    Limit, PodScaler, Provision, ProvisionState, ScaledObject, Scaler, ScalerKind, ScalerState,
    Scaling, Stage,
};
use model::schema::one_of;

use crate::column::Row;
use crate::text::age;
use crate::{Facts, non_empty};

/// Kind of the autoscalers of pods.
const POD_AUTOSCALER: &str = "HorizontalPodAutoscaler";
/// Kind of KEDA's objects.
const SCALED_OBJECT: &str = "ScaledObject";
/// Kind of requests for capacity.
const PROVISIONING_REQUEST: &str = "ProvisioningRequest";

/// Kinds of objects that rows are about.
struct AutoscalerKind;

model::written_as!(AutoscalerKind, {
    let pods = [POD_AUTOSCALER, SCALED_OBJECT, PROVISIONING_REQUEST];
    one_of(ScalerKind::WORDS.iter().copied().chain(pods))
});

/// What an autoscaler of pods does.
#[derive(Clone, Copy)]
enum PodScaling {
    Broken,
    Adding,
    Removing,
    Full,
    /// Another number is desired, within the stabilization window.
    Stabilizing,
    Steady,
    Paused,
    Pending,
}

model::words! {
    impl PodScaling {
        /// The state as it is shown.
        pub fn name(self) {
            Broken => "broken", Adding => "adding pods", Removing => "removing pods",
            Full => "at its limit", Stabilizing => "stabilizing", Steady => "steady", Paused => "paused", Pending => "pending",
        }
    }
}

/// States of autoscalers of nodes and of pods, and of requests.
struct AutoscalerState;

model::written_as!(AutoscalerState, {
    let all = [ScalerState::WORDS, PodScaling::WORDS, ProvisionState::WORDS];
    let words = all.into_iter().flatten().copied();
    one_of(words.chain([Provision::RETRIES]))
});

/// One autoscaler, or one ProvisioningRequest.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct ScalerRow<'a> {
    /// Kind of the object.
    #[schemars(with = "AutoscalerKind")]
    pub kind: &'static str,
    /// Namespace; null for a cluster-scoped object.
    pub namespace: Option<&'a str>,
    /// Name of the object.
    pub name: &'a str,
    /// Current number of nodes, or of pods for a HorizontalPodAutoscaler.
    pub now: Option<u32>,
    /// Desired number; for a ProvisioningRequest, the number of pods.
    pub wanted: Option<u32>,
    /// Minimum number of nodes or pods.
    pub min: Option<u32>,
    /// Maximum number of nodes or pods.
    pub max: Option<u32>,
    /// The metric that drives it, or the resource nearest to its limit.
    pub signal: Option<&'a str>,
    /// The value of that metric, formatted.
    pub value: Option<String>,
    /// The target value, or the limit.
    pub target: Option<String>,
    /// What it scales: pools, or a workload's kind and name.
    pub scales: Option<String>,
    /// What it does now; for a ProvisioningRequest its state.
    #[schemars(with = "AutoscalerState")]
    pub state: &'static str,
    /// Since when it has been in this state, RFC 3339; for pods, the last scaling.
    #[schemars(with = "Option<model::base::Moment>")]
    pub since: Option<String>,
    /// Why it does not scale, or its own message.
    pub why: Option<String>,
    /// True where it cannot scale.
    #[serde(skip)]
    pub stuck: bool,
    /// The moment of `since`.
    #[serde(skip)]
    pub at: Option<Moment>,
    /// The pool of its nodes, where it has exactly one.
    #[serde(skip)]
    pub pool: Option<&'a Name>,
}
impl ScalerRow<'_> {
    /// `NAMESPACE/NAME`, or the name of a cluster-scoped object.
    pub fn path(&self) -> String {
        match self.namespace {
            Some(namespace) => format!("{namespace}/{}", self.name),
            None => self.name.to_owned(),
        }
    }
}

/// A scaler, by its index among those of its type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScalerAt {
    /// A node pool or node group.
    Nodes(usize),
    Pods(usize),
    Scaled(usize),
    Request(usize),
}

impl ScalerAt {
    pub const fn of(row: Row) -> Self {
        match row {
            (0, at) => Self::Nodes(at as usize),
            (1, at) => Self::Pods(at as usize),
            (3, at) => Self::Scaled(at as usize),
            (_, at) => Self::Request(at as usize),
        }
    }

    pub const fn row(self) -> Row {
        match self {
            Self::Nodes(at) => (0, at as u32),
            Self::Pods(at) => (1, at as u32),
            Self::Request(at) => (2, at as u32),
            Self::Scaled(at) => (3, at as u32),
        }
    }
}

/// Node pools and node groups, then pod autoscalers, then ProvisioningRequests; in a scope, those that concern it.
pub fn places(facts: &Facts) -> Vec<ScalerAt> {
    let scaling = &facts.fleet.scaling;
    let own = |at: ScalerAt| {
        let Some(part) = &facts.part else { return true };
        match (at, job_of(facts, at)) {
            (ScalerAt::Nodes(at), _) => {
                let mut pools = scaling.scalers[at].pools.iter();
                pools.any(|pool| part.reach.has_pool(pool))
            }
            (_, Some(job)) => part.scope.has_job(job),
            (ScalerAt::Pods(at), None) => part
                .scope
                .has(Some(&scaling.pod_scalers[at].key.namespace), None),
            (ScalerAt::Scaled(at), None) => part
                .scope
                .has(Some(&scaling.scaled_objects[at].key.namespace), None),
            (ScalerAt::Request(at), None) => part
                .scope
                .has(Some(&scaling.provisions[at].key.namespace), None),
        }
    };
    let nodes = (0..scaling.scalers.len()).map(ScalerAt::Nodes);
    let pods = (0..scaling.pod_scalers.len()).map(ScalerAt::Pods);
    let requests = (0..scaling.provisions.len()).map(ScalerAt::Request);
    let scaled = (0..scaling.scaled_objects.len()).map(ScalerAt::Scaled);
    let all = nodes.chain(pods).chain(scaled).chain(requests);
    all.filter(|at| own(*at)).collect()
}

/// The row of a scaler; `None` when it no longer exists.
pub fn row(facts: &Facts, at: ScalerAt) -> Option<ScalerRow<'_>> {
    let scaling = &facts.fleet.scaling;
    match at {
        ScalerAt::Nodes(at) => {
            let scaler = scaling.scalers.get(at)?;
            let mut row = of_nodes(scaler, scaling, facts.now);
            // A Karpenter NodePool has no maximum of nodes: use what its limits allow its one pool.
            if let ([pool], None) = (&*scaler.pools, row.max) {
                row.max = facts.fleet.pool(pool).and_then(|pool| pool.nodes.max);
            }
            row.why = row.why.or_else(|| waiting_beside(facts, scaler));
            Some(row)
        }
        ScalerAt::Pods(at) => Some(of_pods(scaling.pod_scalers.get(at)?, facts)),
        ScalerAt::Scaled(at) => Some(of_scaled(scaling.scaled_objects.get(at)?, facts)),
        ScalerAt::Request(at) => Some(of_request(scaling.provisions.get(at)?)),
    }
}

/// What jobs wait for in the pools of an autoscaler that adds no nodes, and what it acts on. `None` where none wait.
pub fn waiting_beside(facts: &Facts, scaler: &Scaler) -> Option<String> {
    let pools = scaler.pools.iter();
    let pools = pools.filter_map(|pool| facts.fleet.pool(pool));
    let waiting = pools.map(|pool| (pool.waiting_devices, pool.waiting_slices));
    let (waiting, slices) = waiting.fold((0u64, 0u64), |(all, slices), own| {
        (all + u64::from(own.0), slices + u64::from(own.1))
    });
    let is_steady = scaler.state == ScalerState::Steady && !scaler.fixed;
    (waiting > 0 && is_steady).then(|| {
        let devices = requested_words(waiting, slices);
        format!("waiting jobs request {devices}; it adds nodes for unschedulable pods alone, not for jobs without quota")
    })
}

/// The job whose pods it scales, or that it provisions for.
pub fn job_of(facts: &Facts, at: ScalerAt) -> Option<&Job> {
    let scaling = &facts.fleet.scaling;
    let mut jobs = facts.fleet.jobs.iter().map(|job| &**job);
    match at {
        ScalerAt::Nodes(_) => None,
        ScalerAt::Pods(at) => {
            let key = &scaling.pod_scalers.get(at)?.key;
            jobs.find(|job| scaling.pod_scalers_of(job).any(|known| known.key == *key))
        }
        ScalerAt::Scaled(at) => {
            let object = scaling.scaled_objects.get(at)?;
            let (kind, name) = &object.target;
            jobs.find(|job| {
                job.namespace() == &object.key.namespace
                    && job.id.kind == *kind
                    && job.name() == name
            })
        }
        ScalerAt::Request(at) => {
            let key = &scaling.provisions.get(at)?.key;
            jobs.find(|job| {
                let mut known = scaling.provisions_of(job).into_iter();
                known.any(|known| known.key == *key)
            })
        }
    }
}

fn sentence(why: &(Name, Name)) -> Option<String> {
    match (why.0.as_str(), why.1.as_str()) {
        ("", "") => None,
        (one, "") | ("", one) => Some(one.to_owned()),
        (word, sentence) => Some(format!("{word}: {sentence}")),
    }
}

/// The limit closest to being reached.
fn nearest(limits: &[Limit]) -> Option<&Limit> {
    let share = |limit: &Limit| match limit.used {
        Some(used) if limit.most > 0 => used as f64 / limit.most as f64,
        Some(_) => f64::INFINITY,
        None => -1.0,
    };
    limits.iter().max_by(|a, b| share(a).total_cmp(&share(b)))
}

/// An amount of a resource, from thousandths of its unit.
pub fn amount(resource: &str, milli: i64) -> String {
    match resource {
        "memory" | "ephemeral-storage" => model::base::quantities::bytes(milli as f64 / 1000.0),
        _ => model::base::quantities::grouped(milli / 1000),
    }
}

fn of_nodes<'a>(scaler: &'a Scaler, scaling: &Scaling, now: Moment) -> ScalerRow<'a> {
    let limit = nearest(&scaler.limits);
    let full = limit.is_some_and(|limit| limit.used.is_some_and(|used| used >= limit.most));
    let reason = sentence(&scaler.why);
    let why = match scaler.silent_ms(now) {
        Some(silent) => Some(format!(
            "last report {} min ago: values are that old",
            silent / 60_000
        )),
        None => match scaler.state {
            ScalerState::Full if full => Some(format!(
                "{} limit{}",
                scaler.kind.name(),
                reason.map_or_else(String::new, |reason| format!(": {reason}"))
            )),
            ScalerState::Full => Some(match reason {
                Some(reason) => format!("at max: {reason}"),
                None => String::from("at max"),
            }),
            ScalerState::Backoff => Some(match reason {
                Some(reason) => format!("backoff: {reason}"),
                None => String::from("backoff"),
            }),
            _ if scaler.fixed => Some(String::from("static: fixed node count")),
            _ => {
                let mut coming = scaling.coming(&scaler.name);
                let failing = coming.find(|claim| claim.failing);
                let most = scaler.now.zip(scaler.max);
                let is_most = most.is_some_and(|(now, max)| now >= max);
                let lacking = scaling.launch_failure(&scaler.name);
                reason
                    .or_else(|| sentence(&failing?.why))
                    .or_else(|| lacking.and_then(|failure| launch_failure(failure, now)))
                    .or_else(|| coming_nodes(scaler, scaling))
                    .or_else(|| is_most.then(|| String::from("at max")))
            }
        },
    };
    ScalerRow {
        kind: scaler.kind.object(),
        namespace: None,
        name: &scaler.name,
        now: scaler.now,
        wanted: scaler.target,
        min: scaler.min,
        max: scaler.max,
        signal: limit.map(|limit| limit.resource.as_str()),
        value: limit.and_then(|limit| Some(amount(&limit.resource, limit.used?))),
        target: limit.map(|limit| amount(&limit.resource, limit.most)),
        scales: (!scaler.pools.is_empty()).then(|| {
            let pools: Vec<&str> = scaler.pools.iter().map(Name::as_str).collect();
            format!("pool {}", pools.join(", "))
        }),
        state: scaler.state.name(),
        since: scaler.since.map(|at| at.rfc3339()),
        why,
        stuck: matches!(
            scaler.state,
            ScalerState::Full | ScalerState::Backoff | ScalerState::Broken
        ),
        at: scaler.since,
        pool: scaler.pools.first(),
    }
}

/// The nodes that a pool adds now, by how far they are: `1 node booting, 2 nodes registered, not ready`.
fn coming_nodes(scaler: &Scaler, scaling: &Scaling) -> Option<String> {
    let mut stages: BTreeMap<Stage, u64> = BTreeMap::new();
    for claim in scaling.coming(&scaler.name) {
        *stages.entry(claim.stage).or_default() += 1;
    }
    let stages = stages.into_iter();
    let words = stages.map(|(stage, count)| format!("{} {}", counted(count, "node"), stage.name()));
    let words: Vec<String> = words.collect();
    (scaler.state == ScalerState::Growing && !words.is_empty()).then(|| words.join(", "))
}

/// Why the last launch failed, and how long ago.
fn launch_failure(failure: &LaunchFailure, now: Moment) -> Option<String> {
    let why = sentence(&failure.why)?;
    Some(match failure.at {
        Some(at) => format!("{why} ({} ago)", age(Some(now.since(at).seconds()))),
        None => why,
    })
}

/// Its scale target, where that is a job.
fn target_of<'a>(scaler: &PodScaler, facts: &'a Facts) -> Option<&'a Job> {
    let (kind, name) = &scaler.target;
    let job = JobKey {
        kind: kind.clone(),
        key: ObjectKey::new(scaler.key.namespace.clone(), name.clone()),
    };
    facts.fleet.job(&job).map(|job| &**job)
}

/// True where an alert says that its scale target misses an objective.
fn misses_objective(scaler: &PodScaler, facts: &Facts) -> bool {
    let Some(job) = target_of(scaler, facts) else {
        return false;
    };
    let mut all = facts.fleet.findings.iter();
    all.any(|own| *own.code == *OBJECTIVE_MISSED && own.subject.key == job.id.key)
}

fn of_pods<'a>(scaler: &'a PodScaler, facts: &Facts) -> ScalerRow<'a> {
    let pods = target_of(scaler, facts).map(Pods::of);
    let metric = leading(scaler, pods);
    let steady = why_steady(scaler, pods);
    // At 0 pods it is disabled by its owner; the minimum is then not a limit.
    let failing = scaler
        .failing
        .as_ref()
        .filter(|(word, _)| word.as_str() != "ScalingDisabled");
    let limited = scaler
        .limited
        .as_ref()
        .filter(|(word, _)| word.as_str() == "TooManyReplicas");
    let (state, stuck) = match (failing, scaler.current, scaler.desired) {
        (Some(_), ..) => (PodScaling::Broken, true),
        (None, Some(current), Some(desired)) if desired > current => (PodScaling::Adding, false),
        (None, Some(current), Some(desired)) if desired < current => (PodScaling::Removing, false),
        _ if limited.is_some() => (PodScaling::Full, true),
        _ if steady == Some(Steady::Stabilizing) => (PodScaling::Stabilizing, false),
        _ => (PodScaling::Steady, false),
    };
    let own = failing.or(limited);
    let reason = own.and_then(sentence);
    let why = match (failing, limited) {
        (Some(_), _) => reason,
        (None, Some(_)) => reason.map(|reason| format!("at max: {reason}")),
        (None, None) => steady.map(|steady| match (steady, desired(scaler, pods)) {
            (Steady::Stabilizing, Some(desired)) => format!(
                "its metrics ask for {}: waits for its stabilization window",
                counted(u64::from(desired.bounded), "pod")
            ),
            _ => steady.words().to_owned(),
        }),
    };
    let is_blind = matches!(state, PodScaling::Steady) && misses_objective(scaler, facts);
    let blind =
        is_blind.then(|| String::from("its metrics do not show that an objective is missed"));
    let why: Vec<String> = why.into_iter().chain(blind).collect();
    let why = (!why.is_empty()).then(|| why.join("; "));
    ScalerRow {
        kind: POD_AUTOSCALER,
        namespace: Some(&scaler.key.namespace),
        name: &scaler.key.name,
        now: scaler.current,
        wanted: scaler.desired,
        min: Some(scaler.min),
        max: scaler.max,
        signal: metric.map(|metric| metric.name.as_str()),
        value: metric.and_then(|metric| Some(plain_quantity(metric.current.as_ref()?))),
        target: metric.map(|metric| plain_quantity(&metric.target)),
        scales: Some(format!("{} {}", scaler.target.0, scaler.target.1)),
        state: state.name(),
        since: scaler.scaled.map(|at| at.rfc3339()),
        why,
        stuck,
        at: scaler.scaled,
        pool: None,
    }
}

/// A ScaledObject, with pod counts and metric from its HorizontalPodAutoscaler.
fn of_scaled<'a>(object: &'a ScaledObject, facts: &'a Facts) -> ScalerRow<'a> {
    let own = facts.fleet.scaling.autoscaler_of(object);
    let own = own.map(|scaler| of_pods(scaler, facts));
    let (state, stuck) = match (&object.failing, object.paused, object.active) {
        (Some(_), ..) => (PodScaling::Broken.name(), true),
        (None, true, _) => (PodScaling::Paused.name(), false),
        (None, false, _) => match &own {
            Some(own) => (own.state, own.stuck),
            // Whoever is to act on it has not looked at it.
            None if object.is_unseen() => (PodScaling::Pending.name(), true),
            None => (PodScaling::Steady.name(), false),
        },
    };
    let why = match (
        &object.failing,
        object.paused,
        object.fallback,
        object.active,
    ) {
        (Some(why), ..) => sentence(why),
        (None, true, ..) => Some(String::from("paused by its annotation")),
        (None, false, true, _) => Some(String::from("a trigger fails: scaled by its fallback")),
        (None, false, false, Some(false)) => Some(String::from("no trigger is active")),
        (None, false, false, None) if object.is_unseen() => Some(String::from(
            "no status: the KEDA operator has not reconciled it",
        )),
        (None, false, false, _) => own.as_ref().and_then(|own| own.why.clone()),
    };
    ScalerRow {
        kind: SCALED_OBJECT,
        namespace: Some(&object.key.namespace),
        name: &object.key.name,
        now: own.as_ref().and_then(|own| own.now),
        wanted: own.as_ref().and_then(|own| own.wanted),
        min: Some(object.min),
        max: Some(object.max),
        signal: object.triggers.first().and_then(|kind| non_empty(kind)),
        value: own.as_ref().and_then(|own| own.value.clone()),
        target: own.as_ref().and_then(|own| own.target.clone()),
        scales: Some(format!("{} {}", object.target.0, object.target.1)),
        state,
        since: object.since.map(|at| at.rfc3339()),
        why,
        stuck,
        at: object.since,
        pool: None,
    }
}

fn of_request(request: &Provision) -> ScalerRow<'_> {
    ScalerRow {
        kind: PROVISIONING_REQUEST,
        namespace: Some(&request.key.namespace),
        name: &request.key.name,
        now: None,
        wanted: Some(request.pods),
        min: None,
        max: None,
        signal: None,
        value: None,
        target: None,
        scales: request
            .owner
            .as_ref()
            .map(|owner| format!("{} {}", owner.kind, owner.name)),
        state: request.state_name(),
        since: request.since.map(|at| at.rfc3339()),
        why: sentence(&request.why),
        stuck: request.state.is_lost()
            || request.state == ProvisionState::Pending
            || request.is_retried(),
        at: request.since,
        pool: None,
    }
}

#[cfg(test)]
#[path = "tests_scalers.rs"]
mod tests;
