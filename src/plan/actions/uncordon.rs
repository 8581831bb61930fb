//! `uncordon`: marks nodes schedulable again.

use clap::Args;
use model::base::Name;
use model::plan::{Intent, Plan, Refusal};

use super::{
    ActionName, ActionRequest, ActionSpec, NameResolver, ObjectKind, ParseError, PlannedFrom,
    PlannerInput, Selected, Values, always,
};

/// Mark nodes schedulable again
#[derive(Args, Clone, PartialEq, Eq, Debug)]
pub struct UncordonArguments {
    /// NODE, pool/NAME, rack/NAME, zone/NAME, or any level of the topology
    #[arg(required = true)]
    nodes: Vec<String>,
}

pub(super) const SPEC: ActionSpec = ActionSpec {
    verb: "uncordon",
    planned_from: PlannedFrom::Fleet,
    completes: &[("nodes", Values::Nodes)],
    command: "uncordon",
    key: None,
    done_by: Some(ActionName::Cordon),
    title: "uncordon",
    run_title: None,
    doc: "plan: uncordon the node, the marked nodes or the pool",
    fits: &[ObjectKind::Node, ObjectKind::Pool],
    rights: &[("patch", "", "nodes", "")],
    request,
    availability: always,
};

impl UncordonArguments {
    pub(super) fn intent(&self, names: &NameResolver<'_>) -> Result<Intent, ParseError> {
        let nodes = names.nodes(&self.nodes)?;
        Ok(Intent::Uncordon { nodes })
    }
}

fn request(selected: &Selected<'_>) -> Result<ActionRequest, String> {
    let nodes = selected.nodes()?;
    Ok(ActionRequest::Intent(Intent::Uncordon { nodes }))
}

pub(super) fn plan(on: &PlannerInput<'_>, nodes: &[Name]) -> Result<Plan, Refusal> {
    crate::cordon::uncordon(on.snapshot, nodes)
}
