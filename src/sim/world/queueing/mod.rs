//! Queueing systems of the simulated cluster: Kueue, Volcano, KAI.

pub(super) mod admission;
pub(super) mod kai;
pub(super) mod kueue;
pub(super) mod volcano;
