//! What clients write to the simulated cluster, and what follows from it.

pub(super) mod objects;
pub(super) mod patch;
pub(super) mod policies;
pub(super) mod requests;
