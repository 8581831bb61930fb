//! Cordon: marks nodes as unschedulable, with author and reason as annotations; and uncordon.

use engine::snapshot::{Snapshot, SnapshotNode};
use model::base::{Moment, Name, SmallSort};
use model::plan::{
    Alternative, Intent, Mutation, Object, Plan, PlanEffect, Refusal, RefusalCode, Step, Undo, Verb,
};

use super::effects::effect::{Picture, compare, news};
use super::hold::already;
use super::planner_context::{fact, step};

pub(super) fn object(node: &SnapshotNode) -> Object {
    Object::new("", "v1", "nodes", "Node", &node.name).with_uid(&node.uid)
}

/// Indexes of the nodes of these names.
///
/// # Errors
/// A node does not exist, or no name is given.
pub(super) fn find(snapshot: &Snapshot, names: &[Name]) -> Result<Vec<usize>, Refusal> {
    if names.is_empty() {
        let sentence = "no node is named".to_owned();
        return Err(Refusal::new(RefusalCode::NotFound, sentence));
    }
    let mut all = Vec::with_capacity(names.len());
    for name in names {
        let found = snapshot
            .nodes
            .binary_search_by(|node| node.name.cmp(name))
            .map_err(|_| super::places::no_node(snapshot, name))?;
        if !all.contains(&found) {
            all.push(found);
        }
    }
    all.small_sort();
    Ok(all)
}

/// `a100-17`, or `12 nodes`.
pub(super) fn words(names: &[Name]) -> String {
    match names {
        [one] => one.to_string(),
        many => format!("{} nodes", many.len()),
    }
}

/// The step that cordons a node.
pub(super) fn close(node: &SnapshotNode, by: &str, why: &str) -> Result<Step, Refusal> {
    let object = object(node);
    let mutation = Mutation::Cordon {
        by: by.to_owned(),
        why: why.to_owned(),
    };
    let mut step = step(Verb::Cordon, &object, mutation)?;
    step.guards
        .push(fact(&object, "/spec/unschedulable", false));
    step.reason = why.to_owned();
    Ok(step)
}

/// The step that uncordons a node.
pub(super) fn open(node: &SnapshotNode) -> Result<Step, Refusal> {
    step(Verb::Uncordon, &object(node), Mutation::Uncordon)
}

fn frame(title: String, intent: Intent, at: Moment) -> Plan {
    let mut plan = Plan::new(title, intent, at);
    plan.undo = Undo {
        possible: true,
        notes: Vec::new(),
    };
    plan
}

fn finish(snapshot: &Snapshot, after: &Snapshot, plan: &mut Plan) {
    let (before, after) = (Picture::sure(snapshot, &[]), Picture::sure(after, &[]));
    let forecast = compare(snapshot, &before, &after, Vec::new());
    plan.reasons.extend(news(&forecast, snapshot.at));
    plan.effect = PlanEffect::Forecast(forecast);
}

/// The plan that cordons nodes.
///
/// # Errors
/// A node does not exist, or all are cordoned already.
pub(super) fn cordon(
    snapshot: &Snapshot,
    names: &[Name],
    by: &str,
    why: &str,
) -> Result<Plan, Refusal> {
    let nodes = find(snapshot, names)?;
    let mut plan = frame(
        format!("cordon {}", words(names)),
        Intent::Cordon {
            nodes: names.to_vec(),
            reason: why.to_owned(),
        },
        snapshot.at,
    );
    let mut after = snapshot.clone();
    for node in nodes {
        let model = &snapshot.nodes[node];
        if !model.cordoned {
            plan.steps.push(close(model, by, why)?);
            after.nodes[node].cordoned = true;
        }
    }
    if plan.steps.is_empty() {
        return Err(already(format!("{} is already cordoned", words(names))));
    }
    plan.reasons
        .push("running pods stay; no new pod is scheduled there".to_owned());
    finish(snapshot, &after, &mut plan);
    if let [one] = names {
        plan.alternatives.push(Alternative {
            sentence: "evict its jobs as well".to_owned(),
            command: Some(format!("plan drain {one}")),
        });
    }
    Ok(plan)
}

/// The plan that uncordons nodes.
///
/// # Errors
/// A node does not exist, or none is cordoned.
pub(super) fn uncordon(snapshot: &Snapshot, names: &[Name]) -> Result<Plan, Refusal> {
    let nodes = find(snapshot, names)?;
    let mut plan = frame(
        format!("uncordon {}", words(names)),
        Intent::Uncordon {
            nodes: names.to_vec(),
        },
        snapshot.at,
    );
    let mut after = snapshot.clone();
    for node in nodes {
        let model = &snapshot.nodes[node];
        if model.cordoned {
            let mut step = open(model)?;
            let object = object(model);
            step.guards.push(fact(&object, "/spec/unschedulable", true));
            step.reason = "requested".to_owned();
            let against = model.against_uncordon.iter();
            step.side_effects.notes = against.map(Name::to_string).collect();
            plan.steps.push(step);
            after.nodes[node].cordoned = false;
        }
        if !model.ready {
            plan.warnings.push(format!(
                "{} is not ready: no pod is scheduled there anyway",
                model.name
            ));
        }
    }
    if plan.steps.is_empty() {
        return Err(already(format!("{} is not cordoned", words(names))));
    }
    finish(snapshot, &after, &mut plan);
    Ok(plan)
}
