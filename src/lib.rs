//! The engine-room console for GPU and TPU fleets on Kubernetes.

pub mod base;
pub mod console;
pub mod cost;
pub mod fleet;
pub mod report;
pub mod sim;
