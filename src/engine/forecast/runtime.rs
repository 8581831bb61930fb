//! Runtime distributions: log-linear between the known percentiles of past runs. Beyond the last one, the time grows by a factor
//! each time the remaining share halves: as a log-normal distribution with this p50 and p90 does, at most doubling.

use crate::compiled::{CompiledFleet, WorkloadId};
use crate::snapshot::OwnerRuntimes;

/// The resolution of shares; they are drawn in thousandths.
const ONE: i128 = 1_000_000;

/// Units of [`ONE`] in a thousandth.
const FINE: i128 = ONE / 1_000;

/// Past runs of a workload's owner, if known.
pub(super) fn past(compiled: &CompiledFleet, work: WorkloadId) -> Option<&OwnerRuntimes> {
    let owner = &compiled.workload(work).owner;
    let runs = &compiled.snapshot.runs;
    let found = runs.binary_search_by(|runs| runs.owner.cmp(owner)).ok()?;
    Some(&runs[found]).filter(|runs| runs.count > 0 && runs.p90_ms > 0)
}

/// Total runtime of a workload at speed 1, in milliseconds: its own estimate, or the quantile `share` (in thousandths) of
/// its owner's past runs.
pub fn runtime(compiled: &CompiledFleet, work: WorkloadId, share: u32) -> Option<i64> {
    let estimate = compiled.workload(work).estimate_ms;
    estimate.or_else(|| {
        Some(quantile(
            past(compiled, work)?,
            i128::from(share.min(999)) * FINE,
        ))
    })
}

/// Remaining runtime of a workload of this age, in milliseconds: the quantile `share` (in thousandths) of the past runs
/// that reached the age.
pub fn remaining(compiled: &CompiledFleet, work: WorkloadId, age: i64, share: u32) -> Option<i64> {
    let runs = past(compiled, work)?;
    let share = i128::from(share.min(999)) * FINE;
    let (p90, age_wide) = (i128::from(runs.p90_ms), i128::from(age.max(0)));
    if age_wide >= p90 {
        // In the tail, the ages at which the remaining share has halved grow by this factor, whatever the age.
        let factor = tail_factor(runs).max(LEAST_FACTOR);
        let more = grown(age_wide, factor, ONE - share) - age_wide;
        return Some(narrow(more.max(1)));
    }
    let gone = rank(runs, age_wide);
    let at = gone + (ONE - gone) * share / ONE;
    let end = i128::from(quantile(runs, at.min(ONE - 1)));
    Some(narrow((end - age_wide).max(1)))
}

fn narrow(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Corners of the curve: share in units of [`ONE`], milliseconds; monotonic.
fn corners(runs: &OwnerRuntimes) -> [(i128, i128); 4] {
    let p10 = i128::from(runs.p10_ms.max(0));
    let p50 = i128::from(runs.p50_ms).max(p10);
    let p90 = i128::from(runs.p90_ms).max(p50);
    [
        // Extrapolated: p10 is to this as p50 is to p10.
        (0, p10 * p10 / p50.max(1)),
        (ONE / 10, p10),
        (ONE / 2, p50),
        (ONE / 10 * 9, p90),
    ]
}

/// Number of bisections between two corners.
const HALVINGS: usize = 10;

/// The segment between two corners on which a share, or a time, lies, short enough to be linear. Between corners the curve is
/// linear in the logarithm of time: runtimes spread over orders of magnitude, and most of those between 2 h and 20 h are
/// closer to 2 h.
fn piece(
    from: (i128, i128),
    to: (i128, i128),
    before: impl Fn(i128, i128) -> bool,
) -> [(i128, i128); 2] {
    let ((mut s0, mut t0), (mut s1, mut t1)) = (from, to);
    if t0 == 0 {
        return [from, to];
    }
    for _ in 0..HALVINGS {
        let (share, time) = ((s0 + s1) / 2, (t0 * t1).isqrt());
        if share == s0 || time == t0 {
            break;
        }
        if before(share, time) {
            (s1, t1) = (share, time);
        } else {
            (s0, t0) = (share, time);
        }
    }
    [(s0, t0), (s1, t1)]
}

/// Quantile of the runtime.
fn quantile(runs: &OwnerRuntimes, share: i128) -> i64 {
    let corners = corners(runs);
    for pair in corners.windows(2) {
        if share <= pair[1].0 {
            let [(s0, t0), (s1, t1)] = piece(pair[0], pair[1], |at, _| share <= at);
            return narrow((t0 + (t1 - t0) * (share - s0) / (s1 - s0)).max(1));
        }
    }
    let left = (ONE - share) * 10;
    narrow(grown(corners[3].1, tail_factor(runs), left).max(1))
}

/// By how much, in units of [`ONE`], a run that is longer than all that are known may grow each time: the fourth root of 2.
const LEAST_FACTOR: i128 = 1_189_207;

/// How much longer the time is, in units of [`ONE`], each time the remaining share halves beyond p90: the fourth root of
/// p90 / p50, at most 2. The quantiles of a normal distribution at 90, 95, 97.5 and 98.75 % are 1.28, 1.64, 1.96 and 2.24: steps
/// of about a quarter of the first.
fn tail_factor(runs: &OwnerRuntimes) -> i128 {
    let corners = corners(runs);
    let (p50, p90) = (corners[2].1.max(1), corners[3].1);
    let ratio = (p90 * ONE / p50).clamp(ONE, 16 * ONE);
    (ratio * ONE.pow(3)).isqrt().isqrt()
}

/// A time that grows by a factor each time the remaining share halves, linear in between; the share is of all that reach it.
fn grown(time: i128, factor: i128, share: i128) -> i128 {
    let (mut time, mut share) = (time, share.clamp(1, ONE));
    while share * 2 <= ONE {
        (time, share) = (time.saturating_mul(factor) / ONE, share * 2);
    }
    time + time * (factor - ONE) / ONE * (ONE - share) * 2 / ONE
}

/// Share of runs shorter than a time before the last corner.
fn rank(runs: &OwnerRuntimes, time: i128) -> i128 {
    let corners = corners(runs);
    if time <= corners[0].1 {
        return 0;
    }
    for pair in corners.windows(2) {
        if time < pair[1].1 {
            let [(s0, t0), (s1, t1)] = piece(pair[0], pair[1], |_, at| time < at);
            return s0 + (s1 - s0) * (time - t0) / (t1 - t0);
        }
    }
    ONE / 10 * 9
}
