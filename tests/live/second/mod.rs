//! The second lane: beside the real controllers of KubeRay, KAI and Karpenter, on a plane of its own (`tests/live/up second`), which
//! has Kubernetes 1.37 where the first lane has 1.36.

mod kai;
mod karpenter;
mod ray;

use super::{acting, controllers, plane, terminal, truth};
