//! Packing: pods that ask for CPU, memory and parts of GPUs, put one by one on the nodes of a full cluster.
//!
//! Six policies as their authors published them, and ours, [`Policy::Stokehold`]. No policy refuses a pod
//! that fits somewhere. Units: CPU in thousandths of a core, memory in MiB, GPU in thousandths of a device.

mod arrivals;
mod demand;
mod node;
mod packer;
mod policy;
mod ranking;
mod replay;
mod trace;

#[cfg(test)]
mod laws;
#[cfg(test)]
mod tests;

pub(crate) use demand::Demand;
pub(crate) use node::Idle;
pub(crate) use packer::{Ask, cost, sharing};
pub use packer::{Class, Packer, Spot};
pub use policy::Policy;
pub use replay::{Arrival, Mark, Outcome, Replay, Setup};
pub use trace::{Node, Pod, nodes, pods};

/// One whole GPU.
pub const WHOLE: i32 = 1_000;
