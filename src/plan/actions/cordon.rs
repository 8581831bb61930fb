//! `cordon`: marks nodes unschedulable.

use clap::Args;
use model::base::Name;
use model::plan::{Intent, Plan, Refusal};

use super::{
    ActionRequest, ActionSpec, NameResolver, ObjectKind, ParseError, PlannedFrom, PlannerInput,
    Selected, Values, always,
};

/// Mark nodes unschedulable, with user and reason
#[derive(Args, Clone, PartialEq, Eq, Debug)]
pub struct CordonArguments {
    /// NODE, pool/NAME, rack/NAME, zone/NAME, or any level of the topology
    #[arg(required = true)]
    nodes: Vec<String>,
}

pub(super) const SPEC: ActionSpec = ActionSpec {
    verb: "cordon",
    planned_from: PlannedFrom::Fleet,
    completes: &[("nodes", Values::Nodes)],
    command: "cordon",
    key: Some("C"),
    done_by: None,
    title: "cordon",
    run_title: None,
    doc: "plan: cordon the node, with user and reason; or uncordon it",
    fits: &[ObjectKind::Node, ObjectKind::Pool],
    rights: &[("patch", "", "nodes", "")],
    request,
    availability: always,
};

impl CordonArguments {
    pub(super) fn intent(&self, names: &NameResolver<'_>) -> Result<Intent, ParseError> {
        Ok(Intent::Cordon {
            nodes: names.nodes(&self.nodes)?,
            reason: String::new(),
        })
    }
}

/// Uncordons where all nodes are cordoned.
fn request(selected: &Selected<'_>) -> Result<ActionRequest, String> {
    let nodes = selected.nodes()?;
    let all_cordoned = nodes.iter().all(|name| {
        let node = selected.fleet.node(name);
        node.is_some_and(|node| node.cordon.is_some())
    });
    Ok(match all_cordoned {
        true => ActionRequest::Intent(Intent::Uncordon { nodes }),
        false => ActionRequest::Cordon(nodes),
    })
}

pub(super) fn plan(on: &PlannerInput<'_>, nodes: &[Name], reason: &str) -> Result<Plan, Refusal> {
    let why = match reason.is_empty() {
        true => &on.author.why,
        false => reason,
    };
    crate::cordon::cordon(on.snapshot, nodes, &on.author.by, why)
}
