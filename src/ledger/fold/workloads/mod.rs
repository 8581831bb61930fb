//! Jobs out of workloads, pods and what queueing systems keep of them.

pub(super) mod groups;
pub(super) mod jobs;
pub(super) mod owners;
pub(super) mod parts;
pub(super) mod reasons;
pub(super) mod runs;
pub(super) mod serving;
pub(super) mod sets;
pub(super) mod state;
