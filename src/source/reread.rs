//! An operator's request to read every source again: immediately, but within the limits of each source.

use std::time::Duration;

use tokio::sync::watch;

use model::base::Moment;

use super::api_stats::Clock;

/// Every source is read again at most once in this time: a list of a large cluster is dear to the API server.
pub const SPACING: Duration = Duration::from_secs(15);

/// Hears when everything is to be read again.
#[derive(Clone, Debug)]
pub(super) struct Again(watch::Receiver<u64>);

impl Again {
    /// Completes when there was a request since the last call; safe to cancel.
    pub(super) async fn requested(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending().await
        }
    }

    /// Marks all requests until now as done.
    pub(super) fn done(&mut self) {
        self.0.mark_unchanged();
    }
}

/// Requests a read of every source, at most once per interval.
pub(super) struct Bell {
    out: watch::Sender<u64>,
    clock: Clock,
    last: Option<Moment>,
}

impl Bell {
    /// No request was made yet.
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            out: watch::Sender::new(0),
            clock,
            last: None,
        }
    }

    /// One that hears of every time from now on.
    pub(super) fn listen(&self) -> Again {
        Again(self.out.subscribe())
    }

    /// Makes a request.
    ///
    /// # Errors
    /// The time until the next request is possible.
    pub(super) fn ring(&mut self) -> Result<(), Duration> {
        let now = (self.clock)();
        // A clock that was set back forbids nothing.
        if let Some(last) = self.last.filter(|last| *last <= now) {
            let past = Duration::from_millis(now.since(last).millis());
            if let Some(left) = SPACING.checked_sub(past).filter(|left| !left.is_zero()) {
                return Err(left);
            }
        }
        self.last = Some(now);
        self.out.send_modify(|count| *count += 1);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI64, Ordering};

    use super::*;

    #[test]
    fn it_is_asked_for_once_in_a_while() {
        let now = Arc::new(AtomicI64::new(50_000));
        let read = Arc::clone(&now);
        let mut bell = Bell::new(Arc::new(move || {
            Moment::from_millis(read.load(Ordering::SeqCst))
        }));
        let heard = bell.listen();
        assert_eq!(bell.ring(), Ok(()));
        assert!(heard.0.has_changed().expect("the bell is there"));
        now.store(54_000, Ordering::SeqCst);
        assert_eq!(bell.ring(), Err(Duration::from_secs(11)));
        now.store(65_000, Ordering::SeqCst);
        assert_eq!(bell.ring(), Ok(()));
        now.store(1_000, Ordering::SeqCst);
        assert_eq!(bell.ring(), Ok(()), "the clock was set back");
    }
}
