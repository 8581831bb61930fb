//! The only reads of the wall clock, and the clocks made from it. All other code receives the time of day as an argument.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

use model::base::Moment;
use source::api_stats::ApiStats;
use tokio::time::Instant;

/// The wall clock of this machine, to the millisecond; a clock before 1970 reads as 1970.
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

/// The wall clock as a function, for async code.
pub fn shared() -> Arc<dyn Fn() -> Moment + Send + Sync> {
    Arc::new(now)
}

/// Measures elapsed time on tokio's clock, which tests pause.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Time since the start.
    pub fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}

/// The clock that ages are computed from.
#[derive(Clone)]
pub enum SessionClock {
    /// The API server's clock: this machine's clock, corrected by the `Date` headers of the server, so that ages are right on a
    /// machine with a wrong clock.
    Server(Arc<ApiStats>),
    /// The position of a replay in its record, milliseconds since 1970.
    Past(Arc<AtomicI64>),
}

/// The handle that sets the clock of a replay.
pub struct ClockHands(Arc<AtomicI64>);

impl ClockHands {
    pub fn set(&self, at: Moment) {
        self.0.store(at.millis(), Ordering::Relaxed);
    }
}

impl SessionClock {
    /// The clock of a replay at position `at`, and the handle that sets it.
    pub fn past(at: Moment) -> (Self, ClockHands) {
        let millis = Arc::new(AtomicI64::new(at.millis()));
        (Self::Past(Arc::clone(&millis)), ClockHands(millis))
    }

    pub fn now(&self) -> Moment {
        match self {
            Self::Server(stats) => stats.now(),
            Self::Past(millis) => Moment::from_millis(millis.load(Ordering::Relaxed)),
        }
    }
}
