//! Packing: places the pods of a trace one by one on the nodes of a cluster that fills up, by a policy of [`engine::packing`].

mod arrivals;
mod packer;
mod ranking;
mod replay;
mod trace;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

pub use packer::{Packer, PodClass, PodLocation};
pub use replay::{Arrival, ArrivalPoint, PackingReplay, PackingResult, PackingSetup};
pub use trace::{TraceNode, TracePod, nodes, pods};
