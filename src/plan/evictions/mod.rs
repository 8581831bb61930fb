//! Which jobs a plan evicts so that a waiting job starts.

pub(super) mod choice;
pub(super) mod competing_jobs;
pub(super) mod unanswered;
pub(super) mod victims;
