//! Least attained service: the less device-time a job has had, the sooner it runs. Levels keep jobs that have had about as much
//! from preempting each other ("Tiresias", NSDI 2019).

/// Device-time at which each level but the first begins, in device-milliseconds: half an hour, then four times as much each.
const LEVELS: [i64; 5] = [1_800_000, 7_200_000, 28_800_000, 115_200_000, 460_800_000];

/// Distance between the ranks of two levels: more than a preemption costs, so that each level preempts the next.
const APART: i64 = 1_000_000_000;

fn level(devices: u32, age: i64) -> usize {
    LEVELS.partition_point(|begin| *begin <= age * i64::from(devices))
}

/// Rank of a job of this size that has run for `age` milliseconds: the least is served first.
pub(super) fn rank(devices: u32, age: i64) -> i64 {
    level(devices, age) as i64 * APART
}

/// The age at which the rank of such a job changes next, in milliseconds; none in the last level.
pub(super) fn next_age(devices: u32, age: i64) -> Option<i64> {
    let begin = LEVELS.get(level(devices, age))?;
    let devices = i64::from(devices);
    Some((begin + devices - 1) / devices)
}

#[cfg(test)]
mod tests {
    use super::super::RESUME;
    use super::*;

    #[test]
    fn a_level_is_reached_by_devices_times_time() {
        let hour = 3_600_000;
        assert_eq!(rank(1, hour / 2 - 1), 0);
        assert!(rank(1, hour / 2) > RESUME);
        assert_eq!(rank(8, hour / 4), rank(1, 2 * hour));
        assert_eq!(rank(1, 128 * hour), 5 * APART);
    }

    #[test]
    fn the_rank_changes_at_the_next_age_and_not_before() {
        for devices in [1, 3, 8, 128] {
            let mut age = 0;
            while let Some(next) = next_age(devices, age) {
                assert_eq!(rank(devices, next - 1), rank(devices, age));
                assert_eq!(rank(devices, next), rank(devices, age) + APART);
                age = next;
            }
            assert_eq!(rank(devices, age), 5 * APART);
        }
    }
}
