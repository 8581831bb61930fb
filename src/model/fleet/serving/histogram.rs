//! Latency histograms of model servers: observations between two pages, merged over replicas, and their quantiles.

use serde::{Deserialize, Serialize};

use crate::base::SmallSort;
use crate::fleet::signal::Signal;

/// Most buckets of one histogram that are kept; one with more is malformed.
pub const MOST_BUCKETS: usize = 64;

/// Counts up to here are exact as a float.
const MOST_COUNT: f64 = 9e15;

/// A histogram as a page has it: totals since the server started.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Histogram {
    /// The latency that it is of.
    pub signal: Signal,
    /// Finite upper bounds of the buckets, seconds, rising. The last bucket has none.
    pub bounds: Box<[f64]>,
    /// Observations up to each bound, then all: one more than bounds.
    pub counts: Box<[u64]>,
}

impl Histogram {
    /// Of the buckets of a page (upper bound in seconds, cumulative count), in any order; `None` when they are no histogram: no
    /// `+Inf` bucket, a bound twice, counts that fall or are no whole numbers, more than [`MOST_BUCKETS`].
    pub fn new(signal: Signal, mut buckets: Vec<(f64, f64)>) -> Option<Self> {
        buckets.small_sort_by(|a, b| a.0.total_cmp(&b.0));
        let (last, finite) = buckets.split_last()?;
        let whole = |count: f64| count.fract() == 0.0 && (0.0..=MOST_COUNT).contains(&count);
        let good = buckets.len() <= MOST_BUCKETS
            && last.0 == f64::INFINITY
            && finite.iter().all(|(bound, _)| bound.is_finite())
            && buckets.iter().all(|(_, count)| whole(*count))
            && buckets
                .windows(2)
                .all(|two| two[0].0 < two[1].0 && two[0].1 <= two[1].1);
        good.then(|| Self {
            signal,
            bounds: finite.iter().map(|(bound, _)| *bound).collect(),
            counts: buckets.iter().map(|(_, count)| *count as u64).collect(),
        })
    }

    /// Both together; `None` where their buckets differ.
    pub fn plus(&self, other: &Self) -> Option<Self> {
        let alike = self.signal == other.signal && self.bounds == other.bounds;
        let pairs = self.counts.iter().zip(&other.counts);
        alike.then(|| Self {
            counts: pairs.map(|(a, b)| a.saturating_add(*b)).collect(),
            ..self.clone()
        })
    }

    /// What came since `older`; `None` where the server was restarted between the two, or its buckets are others.
    pub fn since(&self, older: &Self) -> Option<Buckets> {
        if self.signal != older.signal || self.bounds != older.bounds {
            return None;
        }
        let pairs = self.counts.iter().zip(&older.counts);
        let more: Option<Vec<u64>> = pairs.map(|(now, then)| now.checked_sub(*then)).collect();
        let more = more?;
        let is_whole = more.windows(2).all(|two| two[0] <= two[1]);
        is_whole.then(|| Buckets::of(&self.bounds, &more))
    }

    /// All observations since the server started.
    pub fn whole(&self) -> Buckets {
        Buckets::of(&self.bounds, &self.counts)
    }
}

/// One latency of several servers: observations with the same buckets are kept together.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Latency(Vec<Buckets>);

impl Latency {
    /// Adds the observations of one server.
    pub fn add(&mut self, more: Buckets) {
        let same = self.0.iter_mut().find(|known| known.bounds == more.bounds);
        match same {
            Some(known) => {
                known.total += more.total;
                for (below, more) in known.below.iter_mut().zip(&more.below) {
                    *below += more;
                }
            }
            None => self.0.push(more),
        }
    }

    /// True when no server reported it.
    pub fn is_unknown(&self) -> bool {
        self.0.is_empty()
    }

    pub fn total(&self) -> f64 {
        self.0.iter().map(|part| part.total).sum()
    }

    /// The quantile `q`, 0 to 1, of all servers together; see [`Buckets::quantile`].
    pub fn quantile(&self, q: f64) -> Option<Quantile> {
        match self.0.as_slice() {
            [one] => one.quantile(q),
            many => Buckets::merged(many).quantile(q),
        }
    }

    /// The least and the greatest share of observations, 0 to 1, that can be within `limit` seconds: which of those in its bucket are
    /// is not known. `None` without observations.
    pub fn share_within(&self, limit: f64) -> Option<(f64, f64)> {
        let total = self.total();
        let counts = self.0.iter().map(|part| part.count_within(limit));
        let (low, high) = counts.fold((0.0, 0.0), |all, one| (all.0 + one.0, all.1 + one.1));
        (total > 0.0).then(|| (low / total, high / total))
    }
}

#[derive(Clone, PartialEq, Debug, Default)]
pub struct Buckets {
    /// Finite upper bounds, seconds, rising.
    bounds: Box<[f64]>,
    /// Observations up to each bound. Between the bounds of a server they are taken to lie evenly.
    below: Box<[f64]>,
    total: f64,
}

/// A quantile of [`Buckets`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Quantile {
    /// Its value, in seconds; a lower bound where `at_least` is true.
    pub seconds: f64,
    /// It is this or more: it lies above the last bound.
    pub at_least: bool,
}

impl Buckets {
    fn of(bounds: &[f64], counts: &[u64]) -> Self {
        // A file may contain anything: a histogram of another shape counts as empty.
        if counts.len() != bounds.len() + 1 {
            return Self::default();
        }
        Self {
            bounds: bounds.into(),
            below: counts
                .iter()
                .take(bounds.len())
                .map(|n| *n as f64)
                .collect(),
            total: counts.last().map_or(0.0, |n| *n as f64),
        }
    }

    /// Those of servers with different buckets together. Bounds above the last bound of a server that observed more than that are left
    /// out: where there its observations lie is not known.
    fn merged(parts: &[Self]) -> Self {
        let known = parts.iter().filter(|part| part.total > 0.0);
        let reach = known
            .clone()
            .filter(|part| part.below.last().is_none_or(|below| *below < part.total))
            .map(|part| part.bounds.last().copied().unwrap_or(f64::NEG_INFINITY))
            .fold(f64::INFINITY, f64::min);
        let mut bounds: Vec<f64> = known
            .clone()
            .flat_map(|part| part.bounds.iter().copied())
            .collect();
        bounds.small_sort_by(f64::total_cmp);
        bounds.dedup();
        bounds.retain(|bound| *bound <= reach);
        Self {
            below: bounds
                .iter()
                .map(|bound| known.clone().map(|part| part.up_to(*bound)).sum())
                .collect(),
            bounds: bounds.into(),
            total: known.map(|part| part.total).sum(),
        }
    }

    /// The edge below bucket `at`: no latency is below zero.
    fn floor(&self, at: usize) -> (f64, f64) {
        match at.checked_sub(1) {
            Some(before) => (self.bounds[before], self.below[before]),
            None => (self.bounds.first().map_or(0.0, |first| first.min(0.0)), 0.0),
        }
    }

    /// Observations up to `limit`, spread evenly within its bucket. Above the last bound it is all: none lies there, or
    /// [`Buckets::merged`] does not ask.
    fn up_to(&self, limit: f64) -> f64 {
        let at = self.bounds.partition_point(|bound| *bound < limit);
        let Some(bound) = self.bounds.get(at) else {
            return self.total;
        };
        let (from, before) = self.floor(at);
        if limit <= from {
            return before;
        }
        let part = ((limit - from) / (bound - from)).min(1.0);
        before + (self.below[at] - before) * part
    }

    /// The quantile `q`, 0 to 1, linear within its bucket; `None` without observations, or with no bound at all.
    pub fn quantile(&self, q: f64) -> Option<Quantile> {
        if self.total <= 0.0 {
            return None;
        }
        let rank = q.clamp(0.0, 1.0) * self.total;
        let at = self.below.partition_point(|below| *below < rank);
        let Some(bound) = self.bounds.get(at) else {
            let last = self.bounds.last()?;
            return Some(Quantile {
                seconds: *last,
                at_least: true,
            });
        };
        let (from, before) = self.floor(at);
        let within = self.below[at] - before;
        let part = if within > 0.0 {
            (rank - before) / within
        } else {
            1.0
        };
        Some(Quantile {
            seconds: from + (bound - from) * part,
            at_least: false,
        })
    }

    /// The fewest and the most observations that can be within `limit` seconds.
    fn count_within(&self, limit: f64) -> (f64, f64) {
        let above = self.bounds.partition_point(|bound| *bound < limit);
        let high = self.below.get(above).copied().unwrap_or(self.total);
        let low = match self.bounds.get(above) {
            Some(bound) if *bound == limit => high,
            _ => self.floor(above).1,
        };
        (low, high)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::base::rng::Rng;

    const BOUNDS: &[f64] = &[
        0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
    ];
    const OTHERS: &[f64] = &[0.015, 0.03, 0.1, 0.3, 1.0, 3.0, 8.0, 20.0];

    fn counted(bounds: &[f64], values: &[f64]) -> Histogram {
        let up_to = |bound: f64| values.iter().filter(|value| **value <= bound).count() as f64;
        let ends = bounds.iter().copied().chain([f64::INFINITY]);
        let buckets = ends.map(|bound| (bound, up_to(bound))).collect();
        Histogram::new(Signal::Ttft, buckets).expect("it is a histogram")
    }

    /// The bucket of `bounds` around a value.
    fn around(bounds: &[f64], value: f64) -> (f64, f64) {
        let at = bounds.partition_point(|bound| *bound < value);
        let low = at.checked_sub(1).map_or(0.0, |at| bounds[at]);
        (low, bounds.get(at).copied().unwrap_or(f64::INFINITY))
    }

    #[test]
    fn quantiles_of_a_hundred_thousand_requests_are_within_one_bucket_of_the_truth() {
        let mut rng = Rng::new(7);
        let mut unit = move || rng.next_u64() as f64 / 2f64.powi(64);
        let mut values: Vec<f64> = (0..100_000)
            .map(|_| 0.08 * (-(1.0 - unit()).ln()) + 0.01 + 4.0 * unit().powi(30))
            .collect();
        let half = counted(BOUNDS, &values[..50_000]);
        let all = counted(BOUNDS, &values);
        let since = all.since(&half).expect("it went on");
        let mut late = values.split_off(50_000);
        late.sort_by(f64::total_cmp);
        assert_eq!(since.total, 50_000.0);
        for q in [0.01, 0.5, 0.9, 0.95, 0.99, 0.999] {
            let truth = late[((q * 50_000.0) as usize).min(49_999)];
            let quantile = since.quantile(q).expect("there are some");
            let (low, high) = around(BOUNDS, truth);
            assert!(
                (low..=high).contains(&quantile.seconds) && !quantile.at_least,
                "{q}: {truth} is reported as {quantile:?}"
            );
        }
    }

    #[test]
    fn above_the_last_bound_a_quantile_is_at_least_that() {
        let slow = counted(&[0.1, 1.0], &[0.5, 3.0, 4.0, 5.0]).whole();
        let quantile = slow.quantile(0.5).expect("there are some");
        assert_eq!((quantile.seconds, quantile.at_least), (1.0, true));
        let fast = slow.quantile(0.25).expect("there are some");
        assert_eq!((fast.seconds, fast.at_least), (1.0, false));
        assert_eq!(counted(&[0.1], &[]).whole().quantile(0.5), None);
        assert_eq!(counted(&[], &[0.5]).whole().quantile(0.5), None);
    }

    #[test]
    fn a_restart_is_a_gap() {
        let before = counted(BOUNDS, &[0.01, 0.2, 0.3]);
        assert_eq!(counted(BOUNDS, &[0.2]).since(&before), None);
        // As many again since it started, but others: the fast ones fell.
        assert_eq!(counted(BOUNDS, &[0.2; 5]).since(&before), None);
        let other = counted(OTHERS, &[0.01, 0.2, 0.3, 0.4]);
        assert_eq!(other.since(&before), None);
    }

    #[test]
    fn what_is_no_histogram_is_refused() {
        let inf = f64::INFINITY;
        let refused =
            |buckets: &[(f64, f64)]| Histogram::new(Signal::Ttft, buckets.to_vec()).is_none();
        assert!(!refused(&[(1.0, 2.0), (inf, 3.0)]));
        assert!(!refused(&[(inf, 3.0), (1.0, 2.0)]));
        assert!(refused(&[]));
        assert!(refused(&[(1.0, 2.0), (2.0, 3.0)]), "no +Inf");
        assert!(refused(&[(1.0, 4.0), (inf, 3.0)]), "it falls");
        assert!(refused(&[(1.0, 2.5), (inf, 3.0)]), "half a request");
        assert!(refused(&[(1.0, -1.0), (inf, 3.0)]));
        assert!(refused(&[(1.0, 1.0), (1.0, 2.0), (inf, 3.0)]), "twice");
        assert!(refused(&[(f64::NAN, 1.0), (inf, 3.0)]));
        assert!(refused(&[(1.0, f64::NAN), (inf, 3.0)]));
        let many: Vec<(f64, f64)> = (0..70).map(|at| (f64::from(at), 1.0)).collect();
        assert!(refused(&[&many[..], &[(inf, 1.0)]].concat()));
    }

    proptest! {
        #[test]
        fn replicas_of_different_bounds_are_merged_to_within_a_bucket(
            one in proptest::collection::vec(0.0..30.0f64, 1..200),
            other in proptest::collection::vec(0.0..3.0f64, 0..200),
            q in 0.01..1.0f64,
        ) {
            let mut merged = Latency::default();
            // In two halves each, as of two replicas.
            for (bounds, values) in [(BOUNDS, &one), (OTHERS, &other)] {
                let (first, second) = values.split_at(values.len() / 2);
                merged.add(counted(bounds, first).whole());
                merged.add(counted(bounds, second).whole());
            }
            prop_assert_eq!(merged.total(), (one.len() + other.len()) as f64);
            let mut all: Vec<f64> = one.iter().chain(&other).copied().collect();
            all.sort_by(f64::total_cmp);
            let rank = ((q * all.len() as f64).ceil() as usize).clamp(1, all.len());
            let truth = all[rank - 1];
            let quantile = merged.quantile(q).expect("there are some");
            let (low, high) = [BOUNDS, OTHERS].iter().map(|bounds| around(bounds, truth))
                .fold((f64::INFINITY, 0.0f64), |wide, one| (wide.0.min(one.0), wide.1.max(one.1)));
            if quantile.at_least {
                prop_assert!(truth >= quantile.seconds);
            } else {
                prop_assert!(low <= quantile.seconds + 1e-9 && quantile.seconds <= high + 1e-9, "{} {:?}", truth, quantile);
            }
        }

        #[test]
        fn the_share_within_a_limit_holds_the_truth(
            values in proptest::collection::vec(0.0..30.0f64, 1..200), limit in 0.0..30.0f64, at in 0..OTHERS.len())
        {
            for limit in [limit, OTHERS[at]] {
                let mut latency = Latency::default();
                let (first, second) = values.split_at(values.len() / 2);
                latency.add(counted(OTHERS, first).whole());
                latency.add(counted(BOUNDS, second).whole());
                let (low, high) = latency.share_within(limit).expect("there are some");
                let truth = values.iter().filter(|value| **value <= limit).count() as f64 / values.len() as f64;
                prop_assert!(low <= truth + 1e-12 && truth <= high + 1e-12, "{} {} {}", low, truth, high);
            }
        }
    }
}
