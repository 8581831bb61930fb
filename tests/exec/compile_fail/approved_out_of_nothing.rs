//! error[E0451]: an approved plan cannot be made out of nothing, only by a grant.
use stokehold::model::plan::Plan;
use stokehold::plan::grant::{Approved, Consent, Grant};

pub fn approve(grant: &Grant, plan: Plan, consent: Consent) -> Option<Approved> {
    Some(Approved { plan, context: grant.context().clone(), reason: consent.reason })
    //~ grant.approve(plan, consent).ok()
}
