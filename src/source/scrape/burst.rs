//! The burst of the first look: a token bucket for the first scrape of each exporter. No clock, no socket.

use std::time::Duration;

use model::base::Moment;

/// Tokens refilled per second, as a share of the bucket's size: with the default of 400, a fleet of 5,000
/// exporters is scraped once within 20 seconds.
const REFILL: f64 = 5.0 / 8.0;

/// An answer that takes this long or longer is slow.
const SLOW: Duration = Duration::from_secs(1);

/// This many slow answers empty the bucket and halve its refill; each quick answer cancels one of them.
const TOO_SLOW: u32 = 4;

/// This many quick answers in a row double the refill, up to its full rate.
const QUICK: u32 = 32;

/// Lowest share of the refill ([`Burst::share`]).
const LEAST: f64 = 1.0 / 16.0;

/// The burst ends when no token was taken for longer than this: targets found later use the steady budget.
const LULL: Duration = Duration::from_secs(10);

/// A token bucket of requests beyond the steady budget.
#[derive(Clone, Debug)]
pub struct Burst {
    /// Most tokens; each is one request.
    size: f64,
    /// Tokens at the time `taken`, without the refill since.
    tokens: f64,
    /// When the last token was taken; `None` before the first.
    taken: Option<Moment>,
    /// Slow answers that no quick one has canceled.
    slow: u32,
    /// Quick answers since the last slow one.
    quick: u32,
    /// Factor of the refill: 1, down to a sixteenth while the server is slow.
    share: f64,
    /// True once the burst has ended for good.
    over: bool,
}

impl Burst {
    /// A full bucket of `size` requests; with 0, there is no burst.
    pub fn new(size: u32) -> Self {
        Self {
            size: f64::from(size),
            tokens: f64::from(size),
            taken: None,
            slow: 0,
            quick: 0,
            share: 1.0,
            over: size == 0,
        }
    }

    /// Tokens refilled per millisecond.
    fn per_ms(&self) -> f64 {
        self.size * REFILL * self.share / 1000.0
    }

    /// Tokens at `now`, at most `size`.
    fn tokens(&self, now: Moment) -> f64 {
        let idle = self.taken.map_or(0, |at| now.since(at).millis());
        (self.tokens + idle as f64 * self.per_ms()).min(self.size)
    }

    /// When the next request beyond the steady budget may be sent, at most a minute from now; `None` once the burst is over.
    pub fn opens(&self, now: Moment) -> Option<Moment> {
        let lull = self.taken.is_some_and(|at| now.since(at) > LULL.into());
        if self.over || lull {
            return None;
        }
        let lacking = 1.0 - self.tokens(now);
        if lacking <= 0.0 {
            return Some(now);
        }
        let wait = (lacking / self.per_ms()).ceil().clamp(1.0, 60_000.0);
        Some(now.plus(Duration::from_millis(wait as u64)))
    }

    /// Takes a token; false when none is available.
    pub fn take(&mut self, now: Moment) -> bool {
        if self.opens(now) != Some(now) {
            return false;
        }
        self.tokens = self.tokens(now) - 1.0;
        self.taken = Some(now);
        true
    }

    /// Records how long an answer took. While most are slow, the server or the network is overloaded: fewer requests are sent.
    pub fn answered(&mut self, took: Duration) {
        if took < SLOW {
            self.slow = self.slow.saturating_sub(1);
            self.quick += 1;
            if self.quick >= QUICK {
                self.quick = 0;
                self.share = (self.share * 2.0).min(1.0);
            }
            return;
        }
        self.quick = 0;
        self.slow += 1;
        if self.slow >= TOO_SLOW {
            self.slow = 0;
            self.tokens = 0.0;
            self.share = (self.share / 2.0).max(LEAST);
        }
    }

    /// Ends the burst for good: the server has throttled a request (429).
    pub fn end(&mut self) {
        self.over = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scrape::page::ScrapeRoute;
    use crate::scrape::schedule::{NextScrape, Schedule, ScrapeEnd};

    /// Milliseconds until each of this many exporters has answered once, with the default settings. `latency` is the time to
    /// answer, milliseconds, by exporter; 10,000 is a timeout.
    fn first_look(exporters: u64, latency: impl Fn(u64) -> i64) -> i64 {
        let mut schedule = Schedule::new(20.0, 32).with_burst(400);
        let interval = Duration::from_secs(3600);
        for id in 0..exporters {
            schedule.add(id, None, interval, ScrapeRoute::Proxy, at(0));
        }
        let mut ends = std::collections::BTreeSet::new();
        let (mut now, mut left) = (0, exporters);
        while left > 0 {
            while let Some((when, id)) = ends.first().copied().filter(|(when, _)| *when <= now) {
                ends.pop_first();
                let how = if latency(id) < 10_000 {
                    ScrapeEnd::Well
                } else {
                    ScrapeEnd::Badly
                };
                schedule.ended(id, how, at(when));
                left -= 1;
            }
            if left == 0 {
                break;
            }
            let end = ends.first().map_or(i64::MAX, |(when, _)| *when);
            match schedule.next(at(now)) {
                NextScrape::Ask(id) => {
                    ends.insert((now + latency(id), id));
                }
                NextScrape::Wait(until) => now = until.millis().min(end).max(now + 1),
                NextScrape::Rest => now = end.max(now + 1),
            }
            assert!(ends.len() <= 64, "{} under way", ends.len());
            assert!(now < 600_000, "{left} are never asked");
        }
        now
    }

    #[test]
    fn a_first_look_takes_seconds_and_at_most_25_seconds_while_one_exporter_in_ten_hangs() {
        let quick = first_look(500, |_| 100);
        assert!(quick < 3_000, "500 in {quick} ms");
        let large = first_look(5_000, |_| 100);
        assert!(large < 20_000, "5,000 in {large} ms");
        let steady = first_look(30, |_| 100);
        assert!(steady < 500, "30 in {steady} ms");
        // One in ten hangs for the whole timeout of 10 s; by then the others have answered.
        let hung = first_look(500, |id| if id % 10 == 0 { 10_000 } else { 100 });
        assert!(hung < 25_000, "{hung} ms");
    }

    fn at(millis: i64) -> Moment {
        Moment::from_millis(millis)
    }

    /// Takes tokens as soon as they are available; returns the time of each.
    fn take_all(burst: &mut Burst, from: i64, to: i64) -> Vec<i64> {
        let mut taken = Vec::new();
        let mut now = from;
        while now < to {
            match burst.opens(at(now)) {
                Some(open) if open == at(now) => {
                    assert!(burst.take(at(now)));
                    taken.push(now);
                }
                Some(open) => {
                    assert!(!burst.take(at(now)), "nothing is taken before it opens");
                    now = open.millis();
                }
                None => break,
            }
        }
        taken
    }

    #[test]
    fn a_bucket_is_full_at_first_and_refills_by_five_eighths_of_its_size_a_second() {
        let mut burst = Burst::new(400);
        let taken = take_all(&mut burst, 0, 20_000);
        assert_eq!(taken.iter().filter(|when| **when == 0).count(), 400);
        let first = taken.iter().filter(|when| **when < 1000).count();
        assert!((649..=650).contains(&first), "{first}");
        assert!(taken.len() >= 5000, "{} in 20 s", taken.len());
        // Never more than its size plus the refill, in any window.
        for start in (0..15_000).step_by(500) {
            let in_two = start..start + 2000;
            let count = taken.iter().filter(|when| in_two.contains(*when)).count();
            assert!(count <= 400 + 501, "{count} from {start}");
        }
    }

    #[test]
    fn a_size_of_zero_is_no_burst() {
        assert_eq!(Burst::new(0).opens(at(0)), None);
        assert!(!Burst::new(0).take(at(0)));
    }

    #[test]
    fn four_slow_answers_halve_the_refill_until_answers_are_quick_again() {
        let (quick, slow) = (Duration::from_millis(40), Duration::from_secs(2));
        let mut burst = Burst::new(10);
        for _ in 0..100 {
            burst.answered(slow);
            burst.answered(quick);
        }
        assert_eq!(
            burst.opens(at(0)),
            Some(at(0)),
            "only every other answer is slow"
        );
        let opens = |burst: &Burst| burst.opens(at(0)).map(Moment::millis);
        let mut waits = Vec::new();
        for _ in 0..6 {
            for _ in 0..4 {
                burst.answered(slow);
            }
            waits.push(opens(&burst).expect("it goes on"));
        }
        assert_eq!(
            waits,
            [320, 640, 1_280, 2_560, 2_560, 2_560],
            "the server is slow"
        );
        for _ in 0..4 * 32 {
            burst.answered(quick);
        }
        assert_eq!(opens(&burst), Some(160), "it has recovered");
    }

    #[test]
    fn a_direct_scrape_takes_nothing_of_the_burst_of_the_proxy() {
        let mut schedule = Schedule::new(1.0, 8).with_burst(1);
        let interval = Duration::from_secs(60);
        for (id, way) in [ScrapeRoute::Direct, ScrapeRoute::Proxy, ScrapeRoute::Proxy]
            .into_iter()
            .enumerate()
        {
            schedule.add(id as u64, None, interval, way, at(0));
        }
        // One of the burst, one of the steady budget.
        for _ in 0..3 {
            let next = schedule.next(at(0));
            assert!(matches!(next, NextScrape::Ask(_)), "{next:?}");
        }
    }

    #[test]
    fn the_burst_ends_on_request_and_after_ten_seconds_without_a_token_taken() {
        let mut burst = Burst::new(10);
        assert!(burst.take(at(0)));
        assert!(burst.take(at(9_000)), "the list of pods may come in parts");
        assert_eq!(burst.opens(at(19_001)), None, "the first look is over");
        let mut burst = Burst::new(10);
        burst.end();
        assert_eq!(burst.opens(at(0)), None);
    }
}
