//! Controllers of the simulated cluster: they make, schedule, scale and end pods and work.

pub(super) mod child_objects;
pub(super) mod control;
pub(super) mod pod_lifecycle;
pub(super) mod scalers;
pub(super) mod scheduler;
pub(super) mod work_lifecycle;
