//! Checks of nodes and racks.

pub(super) mod allocatable_below_capacity;
pub(super) mod device_count;
pub(super) mod node_condition;
pub(super) mod node_not_ready;
pub(super) mod plugin_not_ready;
pub(super) mod rack_hot;
