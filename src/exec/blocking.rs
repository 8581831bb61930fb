//! Blocking work within async tasks.

use tokio::runtime::{Handle, RuntimeFlavor};

/// Runs blocking work without blocking other tasks. Outside of a runtime, and on a single-threaded one, as under paused time, it just runs.
pub fn blocking<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}
