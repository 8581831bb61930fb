//! error[E0308]: a plan that was not approved cannot be carried out.
use stokehold::model::plan::Plan;
use stokehold::exec::{RunEnd, RunContext, RunError};
use stokehold::plan::grant::Approved;

pub async fn run(context: RunContext<'_>, _plan: &Plan, _approved: &Approved) -> Result<RunEnd, RunError> {
    context.carry_out(_plan, "r").await
    //~ context.carry_out(_approved, "r").await
}
