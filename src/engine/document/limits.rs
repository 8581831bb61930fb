//! Maximum values: far above any real fleet, and small enough that sums never overflow.

/// Thousandths of a core: a million cores.
pub(super) const CPU: i64 = 1_000_000_000;
/// Bytes of memory: at most a pebibyte.
pub(super) const MEMORY: i64 = 1 << 50;
pub(super) const DEVICES_OF_A_NODE: u32 = 256;
/// Largest index of a device.
pub(super) const INDEX: u32 = 65_535;
pub(super) const SLICES_OF_A_DEVICE: usize = 64;
pub(super) const DEVICES_OF_A_POD: u32 = 65_535;
pub(super) const PODS: u32 = 100_000;
/// Pods of all workloads.
pub(super) const ALL_PODS: u64 = 4_000_000;
pub(super) const SETS: usize = 64;
/// Levels of a topology.
pub(super) const LEVELS: usize = 16;
/// Ancestors of a queue.
pub(super) const QUEUE_DEPTH: usize = 32;
/// Quotas of all queues.
pub(super) const QUOTAS: usize = 100_000;
