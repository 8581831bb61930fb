//! `uncordon`: marks nodes schedulable again.

use clap::Args;
use model::base::Name;
use model::plan::{Intent, Plan, Refusal};

use super::{ActionSpec, Names, ParseError, PlannedFrom, PlannerInput, Values};

/// Mark nodes schedulable again
#[derive(Args, Clone, PartialEq, Eq, Debug)]
pub struct Uncordon {
    /// NODE, pool/NAME, rack/NAME, zone/NAME, or any level of the topology
    #[arg(required = true)]
    nodes: Vec<String>,
}

pub(super) const SPEC: ActionSpec = ActionSpec {
    verb: "uncordon",
    planned_from: PlannedFrom::Fleet,
    completes: &[("nodes", Values::Nodes)],
};

impl Uncordon {
    pub(super) fn intent(&self, names: &Names<'_>) -> Result<Intent, ParseError> {
        let nodes = names.nodes(&self.nodes)?;
        Ok(Intent::Uncordon { nodes })
    }
}

pub(super) fn plan(on: &PlannerInput<'_>, nodes: &[Name]) -> Result<Plan, Refusal> {
    crate::cordon::uncordon(on.snapshot, nodes)
}
