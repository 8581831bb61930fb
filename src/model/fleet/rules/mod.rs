//! By what a fleet is judged: the catalog of accelerators, policy, thresholds, XID codes.

pub mod accelerator;
pub mod judge;
pub mod policy;
pub mod thresholds;
pub mod xid;
