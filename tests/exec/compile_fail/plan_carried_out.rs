//! error[E0308]: a plan that was not approved cannot be carried out.
use stokehold::model::plan::Plan;
use stokehold::exec::{Broken, End, Hands};
use stokehold::plan::grant::Approved;

pub async fn run(hands: Hands<'_>, _plan: &Plan, _approved: &Approved) -> Result<End, Broken> {
    hands.carry_out(_plan, "r").await
    //~ hands.carry_out(_approved, "r").await
}
