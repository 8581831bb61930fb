//! error[E0451]: an approved plan cannot be made out of nothing, only by a grant.
use stokehold::model::plan::Plan;
use stokehold::plan::grant::{Approved, Confirmation, Grant};

pub fn approve(grant: &Grant, plan: Plan, confirmation: Confirmation) -> Option<Approved> {
    Some(Approved { plan, context: grant.context().clone(), reason: confirmation.reason })
    //~ grant.approve(plan, confirmation).ok()
}
