//! How long to wait after a failure: longer each time, never the same for all.

use std::hash::{Hash, Hasher};
use std::time::Duration;

const FIRST: Duration = Duration::from_millis(500);

const LONGEST: Duration = Duration::from_secs(30);

/// The wait before try number `attempt` (from 1): doubling from half a second to half a minute, of which `salt` removes up to
/// half, so that many clients of a restarted server do not all connect at once.
pub fn backoff(attempt: u32, salt: impl Hash) -> Duration {
    let full = FIRST
        .saturating_mul(1 << attempt.saturating_sub(1).min(10))
        .min(LONGEST);
    let mut hasher = rustc_hash::FxHasher::default();
    (attempt, salt).hash(&mut hasher);
    let share = (hasher.finish() >> 40) as f64 / f64::from(1u32 << 24);
    full.mul_f64(1.0 - share / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_half_a_minute_and_differ() {
        for attempt in 1..40 {
            for salt in 0..20 {
                let wait = backoff(attempt, salt);
                assert!(wait >= Duration::from_millis(250) && wait <= LONGEST);
                if attempt > 7 {
                    assert!(wait >= LONGEST / 2);
                }
            }
        }
        let waits: std::collections::BTreeSet<Duration> =
            (0..20).map(|salt| backoff(5, salt)).collect();
        assert!(waits.len() > 15, "{waits:?}");
    }
}
