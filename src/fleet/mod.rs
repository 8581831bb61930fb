//! The fleet model: what there is, who holds it, what it reads. The ledger is its only mutator.

pub mod observe;
pub mod reading;
pub mod signal;
