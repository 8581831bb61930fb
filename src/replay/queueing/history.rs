//! Estimates from past runs how much longer a job of a given age will run.
//!
//! The rank of an age is the least expected time to a finish: over all later ages up to which the job could run, the mean
//! time spent, divided by the probability that the job finishes by then (the Gittins index, 1979). Serving the least rank
//! first minimizes the mean completion time on one server when durations are unknown but their distribution is known.

use std::collections::BTreeMap;

/// The first age at which a job's rank changes, in milliseconds.
const FIRST: i64 = 60_000;

/// Number of age levels; the last begins after four years.
const LEVELS: usize = 44;

/// Weight of one past run against the prior.
const WEIGHT: i64 = 16;

/// When the runs that reached a level have this weight, they are halved, so that recent runs count most.
const FULL: i64 = 64 * WEIGHT;

/// 1.0 as a fixed-point share.
const ONE: i64 = 1 << 20;

/// Age at which a level begins, in milliseconds: 0, then 60 s, then doubling every two levels.
pub(super) fn begins(level: usize) -> i64 {
    match level.checked_sub(1) {
        None => 0,
        Some(step) if step % 2 == 0 => FIRST << (step / 2),
        Some(step) => (FIRST << (step / 2)) / 2 * 3,
    }
}

/// Level of an age in milliseconds.
pub(super) fn level(age: i64) -> usize {
    (1..LEVELS)
        .take_while(|&level| begins(level) <= age)
        .count()
}

/// Past runs of one size. Running jobs count up to their current age: if only finished jobs counted, long jobs would be
/// missing for as long as they run.
#[derive(Clone, Debug)]
struct SizeRuns {
    /// Per level: jobs that reached it, weighted.
    reached: [i64; LEVELS],
    /// Per level: jobs that finished in it, weighted.
    finished: [i64; LEVELS],
    /// Per level: time that jobs spent in it, weighted.
    time: [i64; LEVELS],
    /// Jobs that reached a level since ranks were last computed.
    news: u32,
    ranks: [i64; LEVELS],
}

impl SizeRuns {
    /// A scale-free prior: of four jobs that reach a level, one finishes in it; in the first level, which is wide, two.
    fn new() -> Self {
        let mut runs = Self {
            reached: [4; LEVELS],
            finished: std::array::from_fn(|level| if level == 0 { 2 } else { 1 }),
            time: std::array::from_fn(|level| (begins(level + 1) - begins(level)) / 2),
            news: 0,
            ranks: [0; LEVELS],
        };
        runs.settle();
        runs
    }

    fn reach(&mut self, level: usize) {
        if self.reached[level] >= FULL {
            self.reached[level] /= 2;
            self.finished[level] = (self.finished[level] / 2).max(1);
            self.time[level] /= 2;
        }
        self.reached[level] += WEIGHT;
        self.news += 1;
        if self.news == 8 {
            self.news = 0;
            self.settle();
        }
    }

    fn finish(&mut self, duration: i64) {
        let level = level(duration);
        let width = begins(level + 1) - begins(level);
        self.finished[level] = (self.finished[level] + WEIGHT).min(self.reached[level]);
        self.time[level] += WEIGHT * (duration - begins(level)).min(width);
    }

    fn settle(&mut self) {
        // Probability of finishing in a level, and the mean time spent in it by a job that reaches it.
        let chance: [i64; LEVELS] =
            std::array::from_fn(|level| ONE * self.finished[level] / self.reached[level]);
        let spent: [i64; LEVELS] = std::array::from_fn(|level| {
            let on = self.reached[level] - self.finished[level];
            let width = begins(level + 1) - begins(level);
            (self.time[level] + on * width) / self.reached[level]
        });
        for age in 0..LEVELS {
            let (mut alive, mut gone, mut served) = (ONE, 0, 0);
            let mut least: Option<(i64, i64)> = None;
            for level in age..LEVELS {
                served += alive * spent[level] / ONE;
                let leave = alive * chance[level] / ONE;
                gone += leave;
                alive -= leave;
                // served / gone < least, without division.
                let less = least.is_none_or(|(time, share)| {
                    i128::from(served) * i128::from(share) < i128::from(time) * i128::from(gone)
                });
                if gone > 0 && less {
                    least = Some((served, gone));
                }
            }
            let (time, share) = least.unwrap_or((i64::MAX / ONE, 1));
            let rank = i128::from(time) * i128::from(ONE) / i128::from(share);
            self.ranks[age] = i64::try_from(rank).unwrap_or(i64::MAX);
        }
    }
}

/// Past runs of a queue, by size.
#[derive(Clone, Default, Debug)]
pub(super) struct PastRuns(BTreeMap<u32, SizeRuns>);

impl PastRuns {
    /// Records that a job of this size has reached an age level.
    pub(super) fn reach(&mut self, devices: u32, level: usize) {
        self.0
            .entry(devices)
            .or_insert_with(SizeRuns::new)
            .reach(level);
    }

    /// Records that a job of this size has finished.
    pub(super) fn finish(&mut self, devices: u32, duration: i64) {
        self.0
            .entry(devices)
            .or_insert_with(SizeRuns::new)
            .finish(duration);
    }

    /// Rank of a job of this size at an age level: the least is served first.
    pub(super) fn rank(&mut self, devices: u32, level: usize) -> i64 {
        self.0.entry(devices).or_insert_with(SizeRuns::new).ranks[level]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records a complete run of a job.
    fn run(history: &mut PastRuns, devices: u32, duration: i64) {
        for level in 0..=level(duration) {
            history.reach(devices, level);
        }
        history.finish(devices, duration);
    }

    #[test]
    fn levels_double_every_two() {
        assert_eq!(
            [0, 1, 2, 3, 4].map(begins),
            [0, 60_000, 90_000, 120_000, 180_000]
        );
        for at in 0..LEVELS {
            assert_eq!(level(begins(at)), at);
            assert_eq!(level(begins(at + 1) - 1), at);
        }
    }

    #[test]
    fn without_a_past_the_older_waits_behind_the_younger() {
        let mut history = PastRuns::default();
        let ranks: Vec<i64> = (0..40).map(|level| history.rank(1, level)).collect();
        assert!(ranks.is_sorted(), "{ranks:?}");
    }

    #[test]
    fn a_job_near_the_end_of_what_is_usual_goes_before_a_new_one() {
        let mut history = PastRuns::default();
        for _ in 0..400 {
            run(&mut history, 1, 3_600_000);
        }
        let (new, near) = (history.rank(1, 0), history.rank(1, level(3_000_000)));
        assert!((3_400_000..4_200_000).contains(&new), "{new}");
        assert!(near < new / 2, "{near} {new}");
        // Sizes are independent.
        assert!(history.rank(2, 0) < 1_000_000);
    }
}
