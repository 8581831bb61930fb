//! The engine-room console for GPU and TPU fleets on Kubernetes.

pub mod base;
pub mod cluster;
pub mod cost;
pub mod exporter;
pub mod fleet;
pub mod report;
pub mod runtime;
pub mod sim;
pub mod source;
