//! Checks of single devices.

pub(super) mod busy_unallocated;
pub(super) mod device_unhealthy;
pub(super) mod device_vanished;
pub(super) mod ecc_uncorrected;
pub(super) mod heat;
pub(super) mod idle_allocated;
pub(super) mod memory_saturated;
pub(super) mod power_brake;
pub(super) mod power_capped;
pub(super) mod recovery_action;
pub(super) mod remap_failed;
pub(super) mod remap_pending;
pub(super) mod throttling;
pub(super) mod under_used;
pub(super) mod xid;
