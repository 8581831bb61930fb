//! Frame pacing: input is drawn at once, data is coalesced. Pure: time is an argument.

use std::time::Duration;

/// When the next frame may be drawn, in milliseconds of a monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct FramePacer {
    floor_ms: u64,
    last: Option<u64>,
    cost_ms: u64,
}

impl FramePacer {
    /// Data is drawn at most once per `floor`.
    pub fn new(floor: Duration) -> Self {
        Self {
            floor_ms: floor.as_millis() as u64,
            last: None,
            cost_ms: 0,
        }
    }

    /// Records a frame drawn at `at` that took `cost`.
    pub fn drawn(&mut self, at: u64, cost: Duration) {
        self.last = Some(at);
        self.cost_ms = cost.as_millis() as u64;
    }

    /// How long a frame for new data must wait at `now`: the floor, or twice the cost of the last frame, so that drawing takes at
    /// most a third of the time.
    pub fn wait(&self, now: u64) -> Duration {
        let Some(last) = self.last else {
            return Duration::ZERO;
        };
        let due = last.saturating_add(self.floor_ms.max(self.cost_ms.saturating_mul(2)));
        Duration::from_millis(due.saturating_sub(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_waits_and_a_costly_screen_waits_longer() {
        let mut pace = FramePacer::new(Duration::from_millis(100));
        assert_eq!(pace.wait(5), Duration::ZERO);
        pace.drawn(1000, Duration::from_millis(1));
        assert_eq!(pace.wait(1000), Duration::from_millis(100));
        assert_eq!(pace.wait(1100), Duration::ZERO);
        pace.drawn(2000, Duration::from_millis(90));
        assert_eq!(pace.wait(2100), Duration::from_millis(80));
    }
}
