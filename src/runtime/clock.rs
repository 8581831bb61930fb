//! The only clock reads of the program. Everything else is handed the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use model::base::Moment;
use source::api_stats::ApiStats;

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

/// The clock of what is looked at. Ages are taken against it.
#[derive(Clone)]
pub enum SessionClock {
    /// The server's: this machine's, corrected by what the server's answers show, so that a laptop with a wrong clock shows
    /// right ages.
    Server(Arc<ApiStats>),
    /// A record's: it stands where the replay does.
    Past(Arc<AtomicI64>),
}

/// What moves the clock of a replay.
pub struct ClockHands(Arc<AtomicI64>);

impl ClockHands {
    /// Moves it.
    pub fn set(&self, at: Moment) {
        self.0.store(at.millis(), Ordering::Relaxed);
    }
}

impl SessionClock {
    /// A record's clock that stands at `at`, and what moves it.
    pub fn past(at: Moment) -> (Self, ClockHands) {
        let millis = Arc::new(AtomicI64::new(at.millis()));
        (Self::Past(Arc::clone(&millis)), ClockHands(millis))
    }

    /// The moment.
    pub fn now(&self) -> Moment {
        match self {
            Self::Server(stats) => stats.now(),
            Self::Past(millis) => Moment::from_millis(millis.load(Ordering::Relaxed)),
        }
    }
}
