//! What past runs say about how much longer a job will run that has run for a while.
//!
//! The rank of an age is the least expected time to a finish: over all further ages to which one might let the
//! job run, the time that would take on average, divided by the chance that the job finishes by then (the index
//! of Gittins, 1979). Serving the least rank first minimises the mean completion time on one server when
//! durations are unknown but their distribution is.

use std::collections::BTreeMap;

/// The first age at which a job is looked at again, in milliseconds.
const FIRST: i64 = 60_000;

/// Levels of age; the last begins after four years.
const LEVELS: usize = 44;

/// What one past run weighs against the prior.
const WEIGHT: i64 = 16;

/// When the runs that reached a level weigh this much, they are halved: the recent past counts most.
const FULL: i64 = 64 * WEIGHT;

/// The whole of a fixed-point share.
const ONE: i64 = 1 << 20;

/// The age at which a level begins: 0, then 60 s, and from there doubling every two levels.
pub(super) fn begins(level: usize) -> i64 {
    match level.checked_sub(1) {
        None => 0,
        Some(step) if step % 2 == 0 => FIRST << (step / 2),
        Some(step) => (FIRST << (step / 2)) / 2 * 3,
    }
}

/// The level of an age.
pub(super) fn level(age: i64) -> usize {
    (1..LEVELS)
        .take_while(|&level| begins(level) <= age)
        .count()
}

/// Past runs of one size. Jobs that still run count too, up to the age they have reached: were only finished
/// ones learnt from, long jobs would be forgotten for as long as they take.
#[derive(Clone, Debug)]
struct Runs {
    /// Per level: jobs that reached it, weighted.
    reached: [i64; LEVELS],
    /// Per level: those of them that finished in it.
    finished: [i64; LEVELS],
    /// Per level: the time that these spent in it.
    time: [i64; LEVELS],
    /// Jobs that reached a level since ranks were settled.
    news: u32,
    ranks: [i64; LEVELS],
}

impl Runs {
    /// A prior without a scale: of four that reach a level, one finishes in it; of the first, which is wide, two.
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
        // Chance to finish in a level, and the time spent in it by one that reaches it.
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
                // served / gone < least, without dividing.
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

/// The past runs of a queue, by size.
#[derive(Clone, Default, Debug)]
pub(super) struct History(BTreeMap<u32, Runs>);

impl History {
    /// A job of so many devices has reached a level of age.
    pub(super) fn reach(&mut self, devices: u32, level: usize) {
        self.0.entry(devices).or_insert_with(Runs::new).reach(level);
    }

    /// A job of so many devices has finished.
    pub(super) fn finish(&mut self, devices: u32, duration: i64) {
        self.0
            .entry(devices)
            .or_insert_with(Runs::new)
            .finish(duration);
    }

    /// The rank of a job of so many devices at a level of age: less runs first.
    pub(super) fn rank(&mut self, devices: u32, level: usize) -> i64 {
        self.0.entry(devices).or_insert_with(Runs::new).ranks[level]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A job runs from its start to its end.
    fn run(history: &mut History, devices: u32, duration: i64) {
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
        let mut history = History::default();
        let ranks: Vec<i64> = (0..40).map(|level| history.rank(1, level)).collect();
        assert!(ranks.is_sorted(), "{ranks:?}");
    }

    #[test]
    fn a_job_near_the_end_of_what_is_usual_goes_before_a_new_one() {
        let mut history = History::default();
        for _ in 0..400 {
            run(&mut history, 1, 3_600_000);
        }
        let (new, near) = (history.rank(1, 0), history.rank(1, level(3_000_000)));
        assert!((3_400_000..4_200_000).contains(&new), "{new}");
        assert!(near < new / 2, "{near} {new}");
        // Another size has another past.
        assert!(history.rank(2, 0) < 1_000_000);
    }
}
