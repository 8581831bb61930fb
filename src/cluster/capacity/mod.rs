//! Kinds that add and remove nodes and pods: node groups, NodePools, requests for capacity, pod autoscalers.

pub mod groups;
pub mod karpenter;
pub mod keda;
pub mod scaling;
