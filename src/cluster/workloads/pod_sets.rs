//! Pod sets: groups of identical pods, from pod templates; and workloads made of several pod sets.

use std::sync::Arc;

use model::base::{Name, Names};
use model::fleet::observe::{Resources, Table, WorkloadSeen};
use model::fleet::siting::JobPodSet;

use super::workload::blank;
use crate::meta::{Meta, RawCondition, find, labels};
use crate::pod_placement::{siting, topology_request};
use crate::queues::kai::of_annotated_pod;
use crate::resources::{PodShape, Template, plus, times};

/// `count` pods of this template, of which `min` are needed.
pub fn pod_set(
    name: &str,
    count: u32,
    min: u32,
    template: &Template,
    names: &mut Names,
) -> JobPodSet {
    let shape = &template.spec;
    JobPodSet {
        name: names.intern(name),
        count,
        min: min.min(count),
        request: of_annotated_pod(shape, &template.meta.annotations, names),
        node_selector: labels(&shape.node_selector, names),
        siting: siting(shape, None, names),
        topology: topology_request(&template.meta.annotations, names),
        blocked: None,
    }
}

/// A workload of these pod sets. Where only one set can represent the workload, it is the one with the largest requests,
/// because it decides where a gang can run.
pub fn of_sets(
    table: Table,
    meta: &Meta,
    raw: &[RawCondition],
    sets: Vec<(JobPodSet, &PodShape)>,
    names: &mut Names,
) -> Option<WorkloadSeen> {
    let none = PodShape::default();
    let largest = sets
        .iter()
        .rev()
        .max_by_key(|(set, _)| (set.request.device_count(), set.request.cpu_milli));
    let shape = largest.map_or(&none, |(_, shape)| *shape);
    let mut seen = blank(table, meta, raw, shape, names)?;
    if seen.priority_class.is_none() {
        seen.priority_class = sets
            .iter()
            .find_map(|(_, shape)| shape.priority_class.get())
            .map(|class| names.intern(class));
    }
    seen.per_pod = largest
        .map(|(set, _)| set.request.clone())
        .unwrap_or_default();
    for (set, _) in &sets {
        seen.pods = seen.pods.saturating_add(set.count);
        seen.total = plus(&seen.total, &times(&set.request, set.count));
    }
    seen.pod_sets = sets.into_iter().map(|(set, _)| set).collect();
    Some(seen)
}

/// A single set of identical pods, from the workload's own fields.
pub fn only_set(seen: &WorkloadSeen, template: &Template, names: &mut Names) -> Arc<[JobPodSet]> {
    let min = seen.gang_min.unwrap_or(seen.pods.min(1));
    Arc::from([pod_set("main", seen.pods, min, template, names)])
}

/// The sum of the requests of these sets.
pub fn sum(sets: &[JobPodSet]) -> Resources {
    sets.iter().fold(Resources::default(), |sum, set| {
        plus(&sum, &times(&set.request, set.count))
    })
}

/// Writes the outcome into `seen`, from the first of these conditions that is true.
pub fn end(seen: &mut WorkloadSeen, raw: &[RawCondition], well: &str, badly: &str) {
    for (kind, outcome) in [(well, true), (badly, false)] {
        if let Some(condition) = find(raw, kind).filter(|found| found.status() == Some(true)) {
            seen.outcome = Some(outcome);
            seen.finished = condition.since.moment();
            return;
        }
    }
}

/// A system-specific condition, converted to the common form.
pub fn common_condition(
    kind: &str,
    reason: &str,
    message: &str,
) -> model::fleet::observe::Condition {
    model::fleet::observe::Condition {
        kind: Name::new(kind),
        status: Some(true),
        reason: Name::new(reason),
        message: Name::new(message),
        since: None,
    }
}
