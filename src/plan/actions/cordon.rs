//! `cordon`: marks nodes unschedulable.

use clap::Args;
use model::base::Name;
use model::plan::{Intent, Plan, Refusal};

use super::{ActionSpec, Names, ParseError, PlannedFrom, PlannerInput, Values};

/// Mark nodes unschedulable, with user and reason
#[derive(Args, Clone, PartialEq, Eq, Debug)]
pub struct Cordon {
    /// NODE, pool/NAME, rack/NAME, zone/NAME, or any level of the topology
    #[arg(required = true)]
    nodes: Vec<String>,
}

pub(super) const SPEC: ActionSpec = ActionSpec {
    verb: "cordon",
    planned_from: PlannedFrom::Fleet,
    completes: &[("nodes", Values::Nodes)],
};

impl Cordon {
    pub(super) fn intent(&self, names: &Names<'_>) -> Result<Intent, ParseError> {
        Ok(Intent::Cordon {
            nodes: names.nodes(&self.nodes)?,
            reason: String::new(),
        })
    }
}

pub(super) fn plan(on: &PlannerInput<'_>, nodes: &[Name], reason: &str) -> Result<Plan, Refusal> {
    let why = match reason.is_empty() {
        true => &on.author.why,
        false => reason,
    };
    crate::cordon::cordon(on.snapshot, nodes, &on.author.by, why)
}
