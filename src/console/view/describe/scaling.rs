//! What makes the nodes of a pool and the pods of a job come and go, in words.

use crate::painter::Painter;
use crate::text::{UNKNOWN, counted};
use model::base::quantities::plain_quantity;
use model::base::{Name, SmallSort};
use model::fleet::job::{Job, JobState};
use model::fleet::launch_failure::LaunchFailure;
use model::fleet::pool::{Pool, PoolMode};
use model::fleet::scaling::{
    Limit, MetricOf, NodeClaim, PodScaler, Provision, Scaler, ScalerKind, ScalerState,
};
use table::Facts;
use table::role::Role;
use table::rows::scalers::{amount, waiting_beside};

use super::Description;

/// Starting nodes that are shown one by one.
const COMING: usize = 4;

/// Whether and how far a pool's size changes by itself, and what its autoscaler is at.
pub(super) fn pool(table: &mut Description, facts: &Facts, pool: &Pool, painter: &mut Painter<'_>) {
    let scaling = &facts.fleet.scaling;
    let end = |end: Option<u32>| end.map_or(String::from(UNKNOWN), |end| end.to_string());
    let nodes = counted(u64::from(pool.nodes.total), "node");
    match (pool.mode, pool.nodes.min, pool.nodes.max) {
        (Some(PoolMode::Static), None, None) => {
            table.words("autoscaler", "none: its size is fixed", Role::Text);
        }
        (_, None, None) if scaling.of_pool(&pool.name).next().is_none() => {
            table.words("autoscaler", UNKNOWN, Role::Muted);
        }
        (_, None, None) => table.words(
            "autoscaler",
            format!("{nodes}; minimum and maximum are unknown"),
            Role::Text,
        ),
        (Some(PoolMode::Static), min, max) if min == max => {
            let words = format!("{nodes}, fixed at {}", end(min));
            table.words("autoscaler", words, Role::Text);
        }
        (_, Some(min), None) => {
            let words = format!("{nodes}, minimum {min}, no maximum");
            table.words("autoscaler", words, Role::Text);
        }
        (_, min, max) => {
            let full = max.is_some_and(|max| pool.nodes.total >= max);
            let words = format!(
                "{nodes} of {} to {}{}",
                end(min),
                end(max),
                if full { ": at maximum" } else { "" }
            );
            let role = if full && pool.waiting_devices > 0 {
                Role::Warn
            } else {
                Role::Text
            };
            table.words("autoscaler", words, role);
        }
    }
    for scaler in scaling.of_pool(&pool.name) {
        one(table, facts, scaler, painter);
        if scaler.kind == ScalerKind::NodePool {
            coming(table, scaling.coming(&scaler.name).collect(), painter);
            if let Some(failure) = scaling.launch_failure(&scaler.name) {
                lacking(table, "no node launched", failure, painter);
            }
        }
    }
}

/// The state of one autoscaler.
fn one(table: &mut Description, facts: &Facts, scaler: &Scaler, painter: &mut Painter<'_>) {
    let mut words = format!("{} {}", scaler.kind.name(), scaler.name);
    let counts = [
        (scaler.now, "current"),
        (
            scaler.ready.filter(|ready| Some(*ready) != scaler.now),
            "ready",
        ),
        (
            scaler.target.filter(|target| Some(*target) != scaler.now),
            "desired",
        ),
    ];
    for (count, of) in counts {
        if let Some(count) = count {
            words.push_str(&format!(" · {count} {of}"));
        }
    }
    if let Some(weight) = scaler.weight {
        words.push_str(&format!(" · weight {weight}"));
    }
    table.words("", words, Role::Text);
    let age = scaler.since.map(|since| painter.age(since));
    let state = match (scaler.state, scaler.kind, &age) {
        (ScalerState::Steady, ScalerKind::NodeGroup, Some(age)) => format!("no scale-up for {age}"),
        (ScalerState::Steady, ..) => String::from("adds no nodes now"),
        (state, _, Some(age)) => format!("{} for {age}", state.name()),
        (state, _, None) => state.name().to_owned(),
    };
    let role = match scaler.state {
        ScalerState::Steady => Role::Muted,
        ScalerState::Growing => Role::Info,
        ScalerState::Full | ScalerState::Backoff => Role::Warn,
        ScalerState::Broken => Role::Crit,
    };
    table.words("", with_why(state, &scaler.why), role);
    table.words_if_any("", waiting_beside(facts, scaler));
    if let Some(silent) = scaler.silent_ms(facts.now) {
        let words = format!(
            "no report for {} min: values are that old; is the cluster autoscaler running?",
            silent / 60_000
        );
        table.words("", words, Role::Warn);
    }
    if scaler.resource_unready > 0 {
        let words = format!(
            "{} ready without allocatable devices; is the driver running?",
            counted(u64::from(scaler.resource_unready), "node")
        );
        table.words("", words, Role::Warn);
    }
    for limit in &scaler.limits {
        let role = match limit.used {
            Some(used) if used >= limit.most => Role::Warn,
            _ => Role::Text,
        };
        table.words("limit", limit_words(limit), role);
    }
    if let Some(candidates) = scaler.candidates.filter(|count| *count > 0) {
        let words = format!("would remove {}", counted(u64::from(candidates), "node"));
        table.words("scale-down", words, Role::IdleMoney);
    }
    if !scaler.disruption.is_empty() {
        table.words("scale-down", scaler.disruption.to_string(), Role::Muted);
    }
}

fn limit_words(limit: &Limit) -> String {
    let amount = |milli: i64| amount(&limit.resource, milli);
    match limit.used {
        Some(used) => format!(
            "{} of {} {}",
            amount(used),
            amount(limit.most),
            limit.resource
        ),
        None => format!("{} {}", amount(limit.most), limit.resource),
    }
}

/// A state with the word and the sentence that it is for.
fn with_why(mut words: String, why: &(Name, Name)) -> String {
    let (word, sentence) = why;
    for part in [word, sentence] {
        if !part.is_empty() {
            words.push_str(": ");
            words.push_str(part);
        }
    }
    words
}

/// Nodes on their way, those first that do not come.
fn coming(table: &mut Description, mut claims: Vec<&NodeClaim>, painter: &mut Painter<'_>) {
    claims.small_sort_by_key(|claim| (!claim.failing, claim.stage, claim.created));
    let mut label = "starting";
    for claim in claims.iter().take(COMING) {
        let words = claim_words(claim, painter);
        let role = if claim.failing {
            Role::Warn
        } else {
            Role::Info
        };
        table.words(label, words, role);
        label = "";
    }
    if claims.len() > COMING {
        let more = format!("and {} more", claims.len() - COMING);
        table.words("", more, Role::Muted);
    }
}

fn claim_words(claim: &NodeClaim, painter: &mut Painter<'_>) -> String {
    let name = claim.node.as_ref().unwrap_or(&claim.name);
    let since = claim.since.unwrap_or(claim.created);
    let state = format!("{name} {} for {}", claim.stage.name(), painter.age(since));
    // That an object has not been processed yet is not shown.
    match claim.why.0.as_str() {
        "AwaitingReconciliation" => state,
        _ => with_why(state, &claim.why),
    }
}

/// Capacity that Karpenter did not find.
fn lacking(
    table: &mut Description,
    what: &str,
    failure: &LaunchFailure,
    painter: &mut Painter<'_>,
) {
    let when = failure
        .at
        .map_or_else(String::new, |at| format!(" {} ago", painter.age(at)));
    let words = with_why(format!("{what}{when}"), &failure.why);
    table.words("no capacity", words, Role::Warn);
}

/// Capacity that a job waits for, nodes that are being made for it, and what scales its pods.
pub(super) fn job(table: &mut Description, facts: &Facts, job: &Job, painter: &mut Painter<'_>) {
    let scaling = &facts.fleet.scaling;
    let waits = matches!(job.state, JobState::Waiting | JobState::Starting);
    if waits {
        for provision in scaling.provisions_of(job).into_iter().take(2) {
            let role = match provision.state.is_lost() || provision.is_retried() {
                true => Role::Warn,
                false => Role::Info,
            };
            table.words("capacity", provision_words(provision, painter), role);
        }
        let claims = scaling.coming_for(job);
        if !claims.is_empty() {
            let pools: std::collections::BTreeSet<&str> = claims
                .iter()
                .filter_map(|claim| claim.node_pool.as_deref())
                .collect();
            let pools: Vec<&str> = pools.into_iter().collect();
            let words = format!(
                "{} starting in {} that could run it",
                counted(claims.len() as u64, "node"),
                pools.join(", ")
            );
            table.words("nodes", words, Role::Info);
            coming(table, claims, painter);
        }
        for (scaler, failure) in scaling.launch_failures_for(job) {
            let what = format!("{} launched no node", scaler.name);
            lacking(table, &what, failure, painter);
        }
    }
    for scaler in scaling.pod_scalers_of(job) {
        let role = match (&scaler.failing, &scaler.limited) {
            (None, None) => Role::Text,
            _ => Role::Warn,
        };
        table.words("scaled by", pod_scaler_words(scaler, painter), role);
    }
}

fn provision_words(provision: &Provision, painter: &mut Painter<'_>) -> String {
    let mut words = format!("{} {}", provision.key.name, provision.state_name());
    if let Some(since) = provision.since {
        words.push_str(&format!(" for {}", painter.age(since)));
    }
    words.push_str(&format!(
        " ({} by {})",
        counted(u64::from(provision.pods), "pod"),
        provision.class
    ));
    with_why(words, &provision.why)
}

fn pod_scaler_words(scaler: &PodScaler, painter: &mut Painter<'_>) -> String {
    let number = |count: Option<u32>| count.map_or(UNKNOWN.to_owned(), |count| count.to_string());
    let mut words = format!(
        "{}: {} of {} to {}",
        scaler.key.name,
        scaler.current.map_or_else(
            || UNKNOWN.to_owned(),
            |count| counted(u64::from(count), "pod")
        ),
        scaler.min,
        number(scaler.max)
    );
    if scaler.desired.is_some() && scaler.desired != scaler.current {
        words.push_str(&format!(", desired {}", number(scaler.desired)));
    }
    for metric in &scaler.metrics {
        let current = metric.current.as_deref();
        let current = current.map_or_else(|| UNKNOWN.to_owned(), plain_quantity);
        let each = match metric.of {
            MetricOf::Pods | MetricOf::TotalPerPod => " per pod",
            MetricOf::Cpu | MetricOf::Total => "",
        };
        words.push_str(&format!(
            " · {} {current} for {}{each}",
            metric.name,
            plain_quantity(&metric.target)
        ));
    }
    if let Some(at) = scaler.scaled {
        words.push_str(&format!(" · changed {} ago", painter.age(at)));
    }
    for (label, why) in [
        ("cannot scale", &scaler.failing),
        ("limited", &scaler.limited),
    ] {
        if let Some(why) = why {
            words.push_str(" · ");
            words.push_str(&with_why(label.to_owned(), why));
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::painter::unseen;
    use crate::view::describe::{Line, describe};
    use model::base::{Moment, ObjectKey};
    use model::fleet::observe::{Labels, OwnerRef, Resources};
    use model::fleet::scaling::{Metric, ProvisionState, Scaling, Stage};
    use table::navigation::Selection;
    use table::sample;

    fn page_text(facts: &Facts, selection: &Selection) -> String {
        let table = unseen(facts.now, |painter| describe(facts, selection, painter));
        let table = table.expect("it is there");
        let lines = table.lines.iter().filter_map(|line| match line {
            Line::Words(label, words, _) => Some(format!("{label}|{words}")),
            _ => None,
        });
        lines.collect::<Vec<String>>().join("\n")
    }

    fn ago(facts: &Facts, seconds: u64) -> Option<Moment> {
        Some(facts.now.minus(Duration::from_secs(seconds)))
    }

    fn names(word: &str, sentence: &str) -> (Name, Name) {
        (Name::new(word), Name::new(sentence))
    }

    #[test]
    fn a_pool_says_what_its_autoscaler_is_at() {
        let mut facts = sample::facts();
        let name = facts.fleet.pools[0].name.clone();
        let pools: Box<[Name]> = [name.clone()].into();
        let karpenter = Scaler {
            name: Name::new("k"),
            pools: pools.clone(),
            now: Some(6),
            target: Some(8),
            weight: Some(10),
            state: ScalerState::Growing,
            since: ago(&facts, 180),
            limits: [Limit {
                resource: Name::new("nvidia.com/gpu"),
                most: 64_000,
                used: Some(48_000),
            }]
            .into(),
            disruption: Name::new("WhenEmpty after 5m"),
            ..Scaler::default()
        };
        let group = Scaler {
            kind: ScalerKind::NodeGroup,
            name: Name::new("eks-k"),
            pools,
            state: ScalerState::Backoff,
            why: names("QUOTA_EXCEEDED", "no more\u{1b}[31m GPUS"),
            since: ago(&facts, 600),
            reported: ago(&facts, 420),
            candidates: Some(2),
            resource_unready: 1,
            ..Scaler::default()
        };
        let claim = NodeClaim {
            name: Name::new("k-x2"),
            node_pool: Some(Name::new("k")),
            failing: true,
            why: names("LaunchFailed", "creating instance, throttled"),
            since: ago(&facts, 60),
            ..NodeClaim::default()
        };
        let failure = LaunchFailure {
            claim: Name::new("k-x1abc"),
            why: names("InsufficientCapacityError", "none in us-east-1b"),
            at: ago(&facts, 240),
            ..LaunchFailure::default()
        };
        Arc::make_mut(&mut facts.fleet).scaling = Scaling {
            scalers: [karpenter, group].into(),
            claims: [Arc::new(claim)].into(),
            failures: [Arc::new(failure)].into(),
            ..Scaling::default()
        };
        let text = page_text(&facts, &Selection::Pool(name));
        for wanted in [
            "|Karpenter k · 6 current · 8 desired · weight 10",
            "|adding nodes for 3m",
            "limit|48 of 64 nvidia.com/gpu",
            "scale-down|WhenEmpty after 5m",
            "starting|k-x2 launching for 1m: LaunchFailed: creating instance, throttled",
            "no capacity|no node launched 4m ago: InsufficientCapacityError: none in us-east-1b",
            "|cluster autoscaler eks-k",
            "|backing off for 10m: QUOTA_EXCEEDED: no more",
            "|no report for 7 min: values are that old",
            "|1 node ready without allocatable devices",
            "scale-down|would remove 2 nodes",
        ] {
            assert!(text.contains(wanted), "{wanted}\n{text}");
        }
    }

    #[test]
    fn a_job_says_what_capacity_it_waits_for_and_what_scales_it() {
        let mut facts = sample::facts();
        let at = facts
            .fleet
            .jobs
            .iter()
            .position(|job| job.state == JobState::Waiting)
            .expect("one waits");
        let mut jobs = facts.fleet.jobs.to_vec();
        let job = Arc::make_mut(&mut jobs[at]);
        job.uid = Name::new("job-uid");
        let requested = Resources {
            devices: [(Name::new("nvidia.com/gpu"), 4)].into(),
            ..Resources::default()
        };
        job.pod_request = Some(Arc::new((requested.clone(), Labels::default())));
        job.pods = Box::default();
        let id = job.id.clone();
        Arc::make_mut(&mut facts.fleet).jobs = jobs.into();
        let provision = Provision {
            key: ObjectKey::new(id.key.namespace.clone(), "burst"),
            owner: Some(OwnerRef {
                kind: id.kind.clone(),
                name: id.key.name.clone(),
                uid: Name::new("job-uid"),
            }),
            class: Name::new("queued-provisioning.gke.io"),
            pods: 4,
            state: ProvisionState::Failed,
            why: names("CapacityIsNotFound", "no zone has it"),
            since: ago(&facts, 300),
            ..Provision::default()
        };
        let claim = NodeClaim {
            name: Name::new("k-1"),
            node_pool: Some(Name::new("k")),
            stage: Stage::Launched,
            why: names("NodeNotFound", "Node not registered with cluster"),
            since: ago(&facts, 120),
            resources: requested,
            ..NodeClaim::default()
        };
        let scaler = PodScaler {
            key: ObjectKey::new(id.key.namespace.clone(), "hpa"),
            target: (id.kind.clone(), id.key.name.clone()),
            min: 2,
            max: Some(8),
            current: Some(8),
            desired: Some(8),
            limited: Some(names("TooManyReplicas", "more than the most")),
            metrics: [Metric {
                name: Name::new("queue_depth"),
                target: Name::new("8"),
                ..Metric::default()
            }]
            .into(),
            ..PodScaler::default()
        };
        Arc::make_mut(&mut facts.fleet).scaling = Scaling {
            claims: [Arc::new(claim)].into(),
            provisions: [Arc::new(provision)].into(),
            pod_scalers: [Arc::new(scaler)].into(),
            ..Scaling::default()
        };
        let text = page_text(&facts, &Selection::Job(id));
        for wanted in [
            "capacity|burst failed for 5m (4 pods by queued-provisioning.gke.io): CapacityIsNotFound: no zone has it",
            "nodes|1 node starting in k that could run it",
            "starting|k-1 booting for 2m: NodeNotFound",
            "scaled by|hpa: 8 pods of 2 to 8 · queue_depth – for 8 per pod · limited: TooManyReplicas: more than the most",
        ] {
            assert!(text.contains(wanted), "{wanted}\n{text}");
        }
    }
}
