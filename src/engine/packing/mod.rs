//! Packing: places pods that request CPU, memory and parts of GPUs one by one on the nodes of a full cluster.
//!
//! Six policies as published, and Stokehold's, [`Policy::Stokehold`]. No policy rejects a pod
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

pub(crate) use demand::PackingDemand;
pub(crate) use node::Idle;
pub use packer::{Packer, PodClass, Spot};
pub(crate) use packer::{PlacementRequest, cost, sharing};
pub use policy::Policy;
pub use replay::{Arrival, ArrivalPoint, Outcome, Replay, Setup};
pub use trace::{TraceNode, TracePod, nodes, pods};

pub const WHOLE: i32 = 1_000;
