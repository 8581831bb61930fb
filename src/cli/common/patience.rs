//! Commands that wait: progress is printed on standard error at intervals, and no command waits for ever.

use std::future::Future;
use std::time::Duration;

use model::base::{Exit, Failure};

/// The interval of progress messages.
const EVERY: Duration = Duration::from_secs(10);

/// How long a command waits for the API server's answers in all: a person may have to log in meanwhile.
const LONGEST: Duration = Duration::from_secs(300);

/// Runs work that waits for the API server. Progress is printed every ten seconds, and after five minutes the work is given up.
///
/// # Errors
/// Those of the work; it took too long.
pub(crate) async fn patiently<T>(
    mut print: impl FnMut(&str),
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
                "the API server did not answer all requests within {} s",
                LONGEST.as_secs()
            );
            return Err(Failure::new(Exit::Unreachable, message));
        }
        print(&format!(
            "still waiting for the API server ({} s)",
            waited.as_secs()
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_wait_is_reported_and_ends() {
        let mut printed = Vec::new();
        let done = patiently(
            |line| printed.push(line.to_owned()),
            tokio::time::sleep(Duration::from_secs(25)),
        );
        done.await.expect("in time");
        assert_eq!(
            printed,
            [
                "still waiting for the API server (10 s)",
                "still waiting for the API server (20 s)"
            ]
        );
        let never = patiently(|_| {}, std::future::pending::<()>()).await;
        let failure = never.expect_err("is given up");
        assert_eq!(failure.exit, Exit::Unreachable);
    }
}
