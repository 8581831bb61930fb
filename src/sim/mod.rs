//! The simulated cluster: a pure world, and the Kubernetes API that serves it.

pub mod change;
pub mod world;
