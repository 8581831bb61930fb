//! Checks of jobs, gangs and their pods.

pub(super) mod gang_stalled;
pub(super) mod gangs;
pub(super) mod pods_stuck;
pub(super) mod run_interrupted;
pub(super) mod straggler;
