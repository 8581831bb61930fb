//! Errors of a source: how many there were, and the last of them with their times.

use std::cmp::Reverse;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::base::Moment;

/// A failure of a source.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SourceError {
    /// When it failed, on the server's clock.
    pub at: Moment,
    /// What failed, and the repair where one is known.
    pub message: String,
}

impl SourceError {
    /// Errors that are kept of a source at most.
    pub const KEPT: usize = 5;
}

/// The failures of a source since the start.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SourceErrors {
    /// How many there were.
    pub count: u64,
    /// The last [`SourceError::KEPT`] of them, newest first.
    pub last: Arc<[SourceError]>,
}

impl SourceErrors {
    /// Counts a failure and keeps it as the newest.
    pub fn add(&mut self, at: Moment, message: impl Into<String>) {
        let message = message.into();
        self.count += 1;
        let new = std::iter::once(SourceError { at, message });
        let kept = new.chain(self.last.iter().cloned());
        self.last = kept.take(SourceError::KEPT).collect();
    }

    /// The errors of several sources as those of one; `name` puts before a message whose it is.
    pub fn sum<'a>(parts: impl Iterator<Item = (&'a str, u64, &'a [SourceError])>) -> Self {
        let mut sum = Self::default();
        let mut all: Vec<(&str, &SourceError)> = Vec::new();
        for (name, count, last) in parts {
            sum.count += count;
            all.extend(last.iter().map(|error| (name, error)));
        }
        all.sort_by_key(|(_, error)| Reverse(error.at));
        let named = |(name, error): (&str, &SourceError)| SourceError {
            at: error.at,
            message: format!("{name}: {}", error.message),
        };
        sum.last = all.into_iter().take(SourceError::KEPT).map(named).collect();
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Name;
    use crate::fleet::observed::observe::{SourceHealth, SourceState};

    fn told(errors: &SourceErrors) -> Vec<(i64, &str)> {
        let all = errors.last.iter();
        all.map(|one| (one.at.millis() / 1000, one.message.as_str()))
            .collect()
    }

    #[test]
    fn the_last_errors_are_kept_newest_first_and_five_at_most() {
        let mut errors = SourceErrors::default();
        for second in 1..=7 {
            errors.add(Moment::from_seconds(second), format!("error {second}"));
        }
        assert_eq!(errors.count, 7);
        let newest = [
            (7, "error 7"),
            (6, "error 6"),
            (5, "error 5"),
            (4, "error 4"),
            (3, "error 3"),
        ];
        assert_eq!(told(&errors), newest);
        let mut other = SourceErrors::default();
        other.add(Moment::from_seconds(6), "timeout");
        other.add(Moment::from_seconds(9), "refused");
        let parts = [("a", &errors), ("b", &other)];
        let sum = SourceErrors::sum(
            parts
                .map(|(name, one)| (name, one.count, &*one.last))
                .into_iter(),
        );
        assert_eq!(sum.count, 9);
        let newest = [
            (9, "b: refused"),
            (7, "a: error 7"),
            (6, "a: error 6"),
            (6, "b: timeout"),
            (5, "a: error 5"),
        ];
        assert_eq!(told(&sum), newest);
    }

    #[test]
    fn what_was_recorded_before_errors_and_skipped_series_were_kept_is_read() {
        let name = Name::new("dcgm");
        let wait = std::time::Duration::from_secs(90);
        let source = SourceHealth::new(name.clone(), name, SourceState::Live, wait);
        let recorded = serde_json::to_value(&source).expect("it is written");
        assert!(recorded.get("last_errors").is_none() && recorded.get("skipped").is_none());
        let read: SourceHealth = serde_json::from_value(recorded).expect("it is read");
        assert_eq!(read, source);
    }
}
