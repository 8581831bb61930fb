//! Jobs, made from workloads, pods and the objects of queueing systems.

pub(super) mod groups;
pub(super) mod jobs;
pub(super) mod owners;
pub(super) mod parts;
pub(super) mod reasons;
pub(super) mod runs;
pub(super) mod serving;
pub(super) mod sets;
pub(super) mod state;
