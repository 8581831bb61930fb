//! What a plan changes on the fleet: what starts earlier or later, and how sure that is.

pub(super) mod caused_changes;
pub(super) mod contention;
pub(super) mod effect;
pub(super) mod reserved;
