//! Packing: what placing a pod that requests CPU, memory and parts of GPUs costs on a node, for the pods that are typical of a cluster.
//!
//! Six policies as published, and Stokehold's, [`PackingPolicy::Stokehold`]. No policy rejects a pod
//! that fits somewhere. Units: CPU in thousandths of a core, memory in MiB, GPU in thousandths of a device.

mod demand;
mod node;
mod policy;
mod score;

#[cfg(test)]
mod tests;

pub use demand::{NodeKind, PackingDemand};
pub use node::Idle;
pub use policy::PackingPolicy;
pub use score::{NEVER, PlacementRequest, cost, sharing};

/// A whole device, in thousandths.
pub const WHOLE: i32 = 1_000;
