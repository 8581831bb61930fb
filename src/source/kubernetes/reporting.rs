//! Reports of a table's task: losses, recoveries and its row under `sources`.

use std::sync::Arc;
use std::time::Duration;

use model::base::Name;
use model::fleet::observe::{Lost, LostKind, Observation, SourceHealth, SourceState};

use super::{TableFollower, WatchPhase};
use crate::api_error::{ApiError, ChannelClosed, What};
use crate::backoff::backoff;

/// A table whose watch has sent nothing for this long, not even a bookmark, is stale.
const PATIENCE: Duration = Duration::from_secs(240);

/// A health row is sent at least this often.
pub(super) const ROW_EVERY: Duration = Duration::from_secs(10);

/// A table that is not served is looked up again after this time.
const ABSENT_EVERY: Duration = Duration::from_secs(120);

/// A table that is forbidden is requested again after this time.
const REFUSED_EVERY: Duration = Duration::from_secs(60);

/// After this time without a failure, the back-off starts from the beginning.
const FORGIVEN: Duration = Duration::from_secs(60);

/// Where only one namespace may be listed, all of them are tried again after this time.
const WIDEN_EVERY: Duration = Duration::from_secs(300);

impl TableFollower<'_> {
    /// The wait before the next try; grows with each failure that follows soon after the last.
    pub(super) fn again(&mut self) -> Duration {
        let now = self.shared.stats.local();
        let forgiven = self
            .failed_at
            .is_none_or(|at| now.since(at) > FORGIVEN.into());
        if forgiven && self.lost.is_none() {
            self.attempt = 0;
        }
        self.hollow = 0;
        self.failed_at = Some(now);
        self.attempt = self.attempt.saturating_add(1);
        backoff(self.attempt, (self.table, now.millis()))
    }

    /// Counts a failure, reports it when due, and returns how long to wait.
    pub(super) async fn fail(&mut self, trouble: &ApiError) -> Result<Duration, ChannelClosed> {
        // A different failure than the last starts its own back-off.
        if self.met.replace(trouble.what) != Some(trouble.what) {
            self.attempt = 0;
        }
        let own = self.again();
        self.errors
            .add(self.shared.stats.now(), trouble.message.as_str());
        // A busy server mostly answers the second or third time: until then no loss is reported.
        let is_reported = trouble.what != What::Busy || self.attempt > 2;
        if is_reported {
            let since = self
                .lost
                .as_ref()
                .map_or_else(|| self.shared.stats.now(), |lost| lost.since);
            let mut message = trouble.message.clone();
            if let Some(only) = &self.narrowed {
                message = format!("{message} (in namespace {only}, as all namespaces are refused)");
            }
            let lost = Lost {
                kind: trouble.what.lost_kind(),
                since,
                message,
            };
            if self.lost.as_ref() != Some(&lost) {
                tracing::warn!(table = self.table.name(), message = %lost.message, "lost");
                self.lost = Some(lost.clone());
                self.batch.push(Observation::Lost(self.table, lost));
            }
        }
        self.row();
        self.flush().await?;
        let asked = self
            .shared
            .stats
            .asked_to_wait(self.class)
            .into_iter()
            .chain(trouble.retry_after)
            .max();
        self.awaits_return = trouble.what == What::Unreachable;
        let own = match trouble.what {
            // A server that has just started refuses everyone until it has loaded its roles.
            What::Forbidden if self.attempt > 5 => REFUSED_EVERY,
            _ => own,
        };
        Ok(asked.map_or(own, |asked| asked.max(own)))
    }

    /// The watch continued from its last revision: no event was missed.
    pub(super) fn back(&mut self) {
        self.lost = None;
        self.batch.push(Observation::Back(self.table));
        self.row();
    }

    pub(super) async fn absent(&mut self) -> Result<(), ChannelClosed> {
        self.lost = None;
        self.phase = WatchPhase::New;
        let absent = Observation::Absent(self.table);
        self.note(&absent);
        self.batch.push(absent);
        // Rows for the many kinds that a cluster does not serve would hide the rows of those that it serves.
        self.batch.push(Observation::SourceGone(self.row_name()));
        self.flush().await?;
        self.pause(ABSENT_EVERY).await
    }

    /// Waits; after no answer at all, only until the server answers any request again. Ends early when the receiver is closed.
    pub(super) async fn pause(&mut self, wait: Duration) -> Result<(), ChannelClosed> {
        let awaits = std::mem::take(&mut self.awaits_return);
        let returned = async {
            match awaits {
                true => self.shared.stats.returned().await,
                false => std::future::pending().await,
            }
        };
        tokio::select! {
            () = tokio::time::sleep(wait) => return Ok(()),
            () = returned => {}
            () = self.again.requested() => {
                self.attempt = 0;
                self.afresh = true;
                // Respects the server's Retry-After.
                if let Some(left) = self.shared.stats.asked_to_wait(self.class) {
                    tokio::time::sleep(left.min(wait)).await;
                }
                return Ok(());
            }
            () = self.shared.out.closed() => return Err(ChannelClosed),
        }
        // Spread the retries, and start a new back-off: the next failure is a different one.
        self.attempt = 0;
        let now = self.shared.stats.local().millis();
        tokio::time::sleep(backoff(2, (self.table, now))).await;
        Ok(())
    }

    pub(super) async fn flush(&mut self) -> Result<(), ChannelClosed> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let batch = std::mem::take(&mut self.batch);
        self.shared.out.send(batch).await.map_err(|_| ChannelClosed)
    }

    pub(super) async fn row_when_due(&mut self) -> Result<(), ChannelClosed> {
        let now = self.shared.stats.local();
        if self
            .row_at
            .is_none_or(|at| now.since(at) >= ROW_EVERY.into())
        {
            self.row();
            self.flush().await?;
        }
        Ok(())
    }

    /// Where only one namespace is listed: checks from time to time whether all may be listed now.
    pub(super) async fn may_widen(&mut self, all: &str) -> bool {
        let now = self.shared.stats.local();
        let due = self.narrowed.is_some() && self.widen_at.is_none_or(|at| now >= at);
        if !due {
            return false;
        }
        let first = self.widen_at.is_none();
        self.widen_at = Some(now.plus(WIDEN_EVERY));
        if first {
            return false;
        }
        let Ok(request) = http::Request::get(format!("{all}?limit=1")).body(Vec::new()) else {
            return false;
        };
        let asked = self.shared.client.request_text(request);
        matches!(
            tokio::time::timeout(Duration::from_secs(10), asked).await,
            Ok(Ok(_))
        )
    }

    /// The table's row under `sources`.
    pub(super) fn row(&mut self) {
        match self.lost.clone() {
            Some(lost) => {
                let refused = lost.kind == LostKind::Rights && !self.listed;
                let state = match refused {
                    true => SourceState::NotVisible,
                    false => SourceState::Lost,
                };
                self.row_with(state, lost.message);
            }
            None => {
                let mut words = Vec::new();
                words.extend(self.extent().limit());
                if self.skipped > 0 {
                    words.push(format!(
                        "{} objects could not be read and were passed over",
                        self.skipped
                    ));
                }
                let listed = self.phase == WatchPhase::Watching;
                let state = if listed {
                    SourceState::Live
                } else {
                    SourceState::Stale
                };
                self.row_with(state, words.join("; "));
            }
        }
    }

    fn row_name(&self) -> Name {
        Name::from(format!("api {}", self.table.name()))
    }

    pub(super) fn row_with(&mut self, state: SourceState, message: String) {
        self.row_at = Some(self.shared.stats.local());
        let figures = self.shared.stats.figures(self.class);
        self.batch.push(Observation::Source(SourceHealth {
            last_ok: figures.last_ok,
            latency_ms: figures.latency_ms,
            errors: self.errors.count,
            last_errors: Arc::clone(&self.errors.last),
            calls_per_minute: Some(figures.calls_per_minute),
            message,
            ..SourceHealth::new(self.row_name(), Name::new("kubernetes"), state, PATIENCE)
        }));
    }
}
