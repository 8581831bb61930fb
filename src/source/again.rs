//! Reading every source again because an operator asked for it: at once, but within the limits of each source.

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
    /// Completes when it has been asked for since the last time; cancelled, it loses nothing.
    pub(super) async fn asked(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending().await
        }
    }

    /// What was asked for until now is done.
    pub(super) fn done(&mut self) {
        self.0.mark_unchanged();
    }
}

/// Asks for it, and keeps the distance between two times.
pub(super) struct Bell {
    out: watch::Sender<u64>,
    clock: Clock,
    last: Option<Moment>,
}

impl Bell {
    /// Nothing has been asked for yet.
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

    /// Asks for it.
    ///
    /// # Errors
    /// How long it takes until it may be asked for again.
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
