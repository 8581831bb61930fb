//! The only clock reads of the program. Everything else is handed the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::SystemTime;

use crate::base::Moment;

/// This machine's clock.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place that reads the wall clock"
)]
pub fn now() -> Moment {
    let since = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    Moment::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// The server's clock as far as we know it: this machine's plus the skew that its answers showed. Ages on
/// screen are taken against it, so that a laptop with a wrong clock shows right ages.
#[derive(Clone, Default, Debug)]
pub struct ServerClock {
    skew_ms: Arc<AtomicI64>,
}

impl ServerClock {
    /// The server's moment.
    pub fn now(&self) -> Moment {
        Moment::from_millis(
            now()
                .millis()
                .saturating_add(self.skew_ms.load(Ordering::Relaxed)),
        )
    }

    /// Takes note of what the server's answers showed, milliseconds ahead of this machine.
    pub fn set_skew(&self, millis: i64) {
        self.skew_ms.store(millis, Ordering::Relaxed);
    }
}

/// This machine's clock as a value that async rooms are given.
pub fn shared() -> Arc<dyn Fn() -> Moment + Send + Sync> {
    Arc::new(now)
}
