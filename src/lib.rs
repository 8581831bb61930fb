//! The engine-room console for GPU and TPU fleets on Kubernetes.

pub mod base;
pub mod exporter;
pub mod fleet;
pub mod sim;
