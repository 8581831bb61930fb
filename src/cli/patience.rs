//! Commands that wait: what they wait for is said now and then on standard error, and none waits for ever.

use std::future::Future;
use std::time::Duration;

use crate::runtime::clock::Stopwatch;
use crate::runtime::session::readings;
use model::base::{Exit, Failure};
use model::fleet::Fleet;
use model::fleet::fleet::Known;

/// How often it is said.
const EVERY: Duration = Duration::from_secs(10);

/// How long a command waits for the API server's answers in all: a person may have to log in meanwhile.
const LONGEST: Duration = Duration::from_secs(300);

/// Tables named in one line; the others are counted.
const NAMED: usize = 4;

/// When something was last said.
pub(super) struct Patience {
    watch: Stopwatch,
    said: u32,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            watch: Stopwatch::start(),
            said: 0,
        }
    }
}

impl Patience {
    /// The line that is due, if one is.
    pub(super) fn due(&mut self, fleet: &Fleet) -> Option<String> {
        let elapsed = self.watch.elapsed();
        if elapsed < EVERY * (self.said + 1) {
            return None;
        }
        self.said = u32::try_from(elapsed.as_secs() / EVERY.as_secs()).unwrap_or(u32::MAX);
        let what = missing(fleet)?;
        Some(format!(
            "still waiting for {what} ({} s)",
            elapsed.as_secs()
        ))
    }
}

/// What has not answered yet, in words.
fn missing(fleet: &Fleet) -> Option<String> {
    let waiting = fleet.known.iter();
    let tables: Vec<&str> = waiting
        .filter(|(_, known)| matches!(known, Known::Waiting))
        .map(|(table, _)| table.name())
        .collect();
    let mut words: Vec<String> = tables
        .iter()
        .take(NAMED)
        .map(|name| (*name).to_owned())
        .collect();
    if tables.len() > NAMED {
        words.push(format!("{} more tables", tables.len() - NAMED));
    }
    let (answered, all) = readings(fleet);
    if answered < all {
        words.push(format!("{} of {all} exporters", all - answered));
    }
    (!words.is_empty()).then(|| words.join(", "))
}

/// Does work that waits for the API server. What it waits for is told every ten seconds, and after five minutes it is
/// given up.
///
/// # Errors
/// Those of the work; it took too long.
pub(super) async fn patiently<T>(
    mut tell: impl FnMut(&str),
    work: impl Future<Output = T>,
) -> Result<T, Failure> {
    let mut work = std::pin::pin!(work);
    let mut waited = Duration::ZERO;
    loop {
        match tokio::time::timeout(EVERY, &mut work).await {
            Ok(done) => return Ok(done),
            Err(_) => waited += EVERY,
        }
        if waited >= LONGEST {
            let message = format!(
                "the API server did not give all answers within {} s",
                LONGEST.as_secs()
            );
            return Err(Failure::new(Exit::Unreachable, message));
        }
        tell(&format!(
            "still waiting for the API server ({} s)",
            waited.as_secs()
        ));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use model::fleet::observe::Table;
    use model::fleet::policy::Policy;

    #[tokio::test(start_paused = true)]
    async fn a_wait_is_told_and_ends() {
        let mut told = Vec::new();
        let done = patiently(
            |line| told.push(line.to_owned()),
            tokio::time::sleep(Duration::from_secs(25)),
        );
        done.await.expect("in time");
        assert_eq!(
            told,
            [
                "still waiting for the API server (10 s)",
                "still waiting for the API server (20 s)"
            ]
        );
        let never = patiently(|_| {}, std::future::pending::<()>()).await;
        let failure = never.expect_err("is given up");
        assert_eq!(failure.exit, Exit::Unreachable);
    }

    #[test]
    fn what_is_waited_for_has_a_name() {
        let mut fleet = Fleet::unknown(Arc::new(Policy::default()));
        let said = missing(&fleet).expect("nothing has come yet");
        assert!(said.contains("more tables"), "{said}");
        let known = Table::ALL.iter().map(|table| match table {
            Table::Pods => (*table, Known::Waiting),
            _ => (*table, Known::Live),
        });
        fleet.known = Arc::new(known.collect());
        assert_eq!(missing(&fleet).as_deref(), Some("pods"));
        fleet.known = Arc::new(
            Table::ALL
                .iter()
                .map(|table| (*table, Known::Live))
                .collect(),
        );
        assert_eq!(missing(&fleet), None);
    }
}
