//! The only clock reads of the program. All other code receives the time as an argument.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

use model::base::Moment;
use source::api_stats::ApiStats;
use tokio::time::Instant;

/// The wall clock of this machine.
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

/// A stopwatch on tokio's clock, which tests pause.
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
    /// The server's clock: this machine's, corrected by the dates of the server's answers, so that ages are right on a machine
    /// with a wrong clock.
    Server(Arc<ApiStats>),
    /// The clock of a record: the current position of the replay.
    Past(Arc<AtomicI64>),
}

/// Sets the clock of a replay.
pub struct ClockHands(Arc<AtomicI64>);

impl ClockHands {
    pub fn set(&self, at: Moment) {
        self.0.store(at.millis(), Ordering::Relaxed);
    }
}

impl SessionClock {
    /// A record's clock at `at`, and the handle that sets it.
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
