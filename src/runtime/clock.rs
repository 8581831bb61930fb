//! The only clock reads of the program. Everything else is handed the time.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use model::base::Moment;

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

/// This machine's clock as a value that async rooms are given.
pub fn shared() -> Arc<dyn Fn() -> Moment + Send + Sync> {
    Arc::new(now)
}

/// A stopwatch, for commands that report how long their work took.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts one.
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place that reads the monotonic clock for a command"
    )]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Time since its start.
    pub fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}
