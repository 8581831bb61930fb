//! How many pods a HorizontalPodAutoscaler wants by its metrics, and why it keeps the number that there is.
//!
//! Source: kubernetes.io, Horizontal Pod Autoscaling, algorithm details; `pkg/controller/podautoscaler/replica_calculator.go`.

use crate::base::quantities::quantity_milli;

use super::scaling::{Metric, PodScaler};

/// A metric this near to its target, as a share of it, changes nothing: the controller's default.
pub const TOLERANCE: f64 = 0.1;

/// What the controller would do by one metric.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Demand {
    /// Value and target are this far apart, as a share.
    Ratio(f64),
    /// The value is not known.
    Missing,
}

/// What a metric asks for.
pub fn demand(metric: &Metric) -> Demand {
    let number = |text: &str| match text.strip_suffix('%') {
        Some(percent) => percent.parse::<f64>().ok(),
        None => quantity_milli(text).map(|milli| milli as f64 / 1000.0),
    };
    let value = metric.current.as_deref().and_then(number);
    let target = number(&metric.target).filter(|target| *target > 0.0);
    match value.zip(target) {
        Some((value, target)) => Demand::Ratio(value / target),
        None => Demand::Missing,
    }
}

/// How many pods are wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// By the metrics alone.
    pub by_metrics: u32,
    /// Within the bounds.
    pub bounded: u32,
    /// A metric is missing, and without it fewer pods would be wanted: none is taken away.
    pub held: bool,
}

/// How many pods are wanted of `current` by these demands, between `min` and `max`. `None` where nothing can be said: scaling is off at
/// 0 pods, and without any metric.
pub fn wanted(current: u32, demands: &[Demand], min: u32, max: u32) -> Option<Wanted> {
    if current == 0 {
        return None;
    }
    let by_one = |demand: &Demand| match demand {
        Demand::Missing => None,
        // (In the controller's own words: the edges are within.)
        Demand::Ratio(ratio) if (1.0 - TOLERANCE..=1.0 + TOLERANCE).contains(ratio) => {
            Some(current)
        }
        Demand::Ratio(ratio) => {
            // A hair above a whole number by rounding is that number.
            let pods = (f64::from(current) * ratio - 1e-9).ceil().max(0.0);
            Some(pods.min(f64::from(u32::MAX)) as u32)
        }
    };
    let most = demands.iter().filter_map(by_one).max()?;
    let missing = demands.contains(&Demand::Missing);
    let held = missing && most < current;
    let by_metrics = if held { current } else { most };
    Some(Wanted {
        by_metrics,
        bounded: by_metrics.min(max).max(min.min(max)),
        held,
    })
}

/// Why a pod autoscaler does not change the number of pods.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Steady {
    /// Its metrics ask for more than it may have.
    AtMax,
    /// Its metrics ask for fewer than it must have.
    AtMin,
    /// A metric cannot be read.
    MetricMissing,
    /// Every metric is within a tenth of its target.
    WithinTolerance,
    /// Another number is wanted, and it waits until the want has lasted.
    Stabilizing,
    /// There are no pods: it is off.
    Off,
}

impl Steady {
    /// In words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::AtMax => "at max",
            Self::AtMin => "at min: its metrics ask for no more",
            Self::MetricMissing => "metric missing",
            Self::WithinTolerance => "within tolerance",
            Self::Stabilizing => "stabilizing",
            Self::Off => "off at 0 pods",
        }
    }
}

/// The metric that it goes by: the one that asks for the most pods, or the one that is missing where that holds it.
pub fn leading(scaler: &PodScaler) -> Option<&Metric> {
    let missing = |metric: &&Metric| demand(metric) == Demand::Missing;
    if why_steady(scaler) == Some(Steady::MetricMissing) {
        return scaler
            .metrics
            .iter()
            .find(missing)
            .or(scaler.metrics.first());
    }
    let ratio = |metric: &Metric| match demand(metric) {
        Demand::Ratio(ratio) => ratio,
        Demand::Missing => f64::NEG_INFINITY,
    };
    let mut all = scaler.metrics.iter();
    let first = all.next()?;
    Some(all.fold(first, |most, metric| {
        if ratio(metric) > ratio(most) {
            metric
        } else {
            most
        }
    }))
}

/// Why it keeps the number of pods that there is; `None` while it changes it, and where that number is not known.
pub fn why_steady(scaler: &PodScaler) -> Option<Steady> {
    let current = scaler.current?;
    if scaler.desired.is_some_and(|desired| desired != current) {
        return None;
    }
    if current == 0 {
        return Some(Steady::Off);
    }
    let demands: Vec<Demand> = scaler.metrics.iter().map(demand).collect();
    let max = scaler.max.unwrap_or(u32::MAX);
    let Some(wanted) = wanted(current, &demands, scaler.min, max) else {
        return Some(Steady::MetricMissing);
    };
    Some(match wanted {
        wanted if wanted.held => Steady::MetricMissing,
        wanted if wanted.by_metrics > max && current >= max => Steady::AtMax,
        wanted if wanted.by_metrics < scaler.min && current <= scaler.min => Steady::AtMin,
        wanted if wanted.bounded != current => Steady::Stabilizing,
        _ => Steady::WithinTolerance,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Name;

    fn ratio(value: f64, target: f64) -> Demand {
        Demand::Ratio(value / target)
    }

    #[test]
    fn the_wanted_number_is_the_controllers() {
        // Pods now, (value, target) of each metric (NaN: missing), least, most, wanted within the bounds.
        type Case = (u32, &'static [(f64, f64)], u32, u32, u32);
        const M: f64 = f64::NAN;
        let cases: &[Case] = &[
            // The documentation's own: 200m of 100m doubles, 50m of 100m halves.
            (1, &[(200.0, 100.0)], 1, 10, 2),
            (2, &[(50.0, 100.0)], 1, 10, 1),
            (4, &[(50.0, 100.0)], 1, 10, 2),
            // Rounded up.
            (3, &[(30.0, 50.0)], 1, 10, 2),
            (3, &[(60.0, 30.0)], 1, 10, 6),
            (3, &[(70.0, 60.0)], 1, 10, 4),
            (5, &[(33.0, 30.0)], 1, 10, 5),
            (5, &[(33.1, 30.0)], 1, 10, 6),
            (7, &[(100.0, 70.0)], 1, 20, 10),
            (10, &[(10.0, 100.0)], 1, 20, 1),
            // A tenth either way changes nothing; the edge is within.
            (10, &[(110.0, 100.0)], 1, 20, 10),
            (10, &[(90.0, 100.0)], 1, 20, 10),
            (10, &[(111.0, 100.0)], 1, 20, 12),
            (10, &[(89.0, 100.0)], 1, 20, 9),
            (1, &[(109.0, 100.0)], 1, 20, 1),
            (1, &[(111.0, 100.0)], 1, 20, 2),
            // The greatest of several.
            (4, &[(100.0, 50.0), (10.0, 100.0)], 1, 20, 8),
            (4, &[(10.0, 100.0), (100.0, 50.0)], 1, 20, 8),
            (4, &[(50.0, 100.0), (25.0, 100.0)], 1, 20, 2),
            (4, &[(100.0, 100.0), (10.0, 100.0)], 1, 20, 4),
            (4, &[(105.0, 100.0), (120.0, 100.0)], 1, 20, 5),
            // While one is missing no pod is taken away, and one may be added.
            (4, &[(50.0, 100.0), (M, 100.0)], 1, 20, 4),
            (4, &[(M, 100.0), (200.0, 100.0)], 1, 20, 8),
            (4, &[(M, 100.0), (100.0, 100.0)], 1, 20, 4),
            // Within the bounds.
            (4, &[(500.0, 100.0)], 1, 10, 10),
            (4, &[(1.0, 100.0)], 2, 10, 2),
            (12, &[(100.0, 100.0)], 1, 10, 10),
            (1, &[(100.0, 100.0)], 3, 10, 3),
            (8, &[(0.0, 100.0)], 1, 10, 1),
            (2, &[(1e9, 1.0)], 1, 100, 100),
            // A bound above another: the largest holds.
            (5, &[(100.0, 100.0)], 8, 4, 4),
            // Queue lengths: 30 requests of 10 a pod, by the mean over 3 pods.
            (3, &[(30.0, 10.0)], 1, 12, 9),
        ];
        assert!(cases.len() >= 30);
        for (current, metrics, min, max, expected) in cases {
            let demands: Vec<Demand> = metrics
                .iter()
                .map(|(value, target)| match value.is_nan() {
                    true => Demand::Missing,
                    false => ratio(*value, *target),
                })
                .collect();
            let found = wanted(*current, &demands, *min, *max).map(|wanted| wanted.bounded);
            assert_eq!(found, Some(*expected), "{current} {metrics:?} {min}..{max}");
        }
        assert_eq!(wanted(0, &[Demand::Ratio(2.0)], 1, 10), None);
        assert_eq!(wanted(3, &[], 1, 10), None);
        assert_eq!(wanted(3, &[Demand::Missing], 1, 10), None);
    }

    #[test]
    fn values_are_read_as_they_are_written() {
        let metric = |target: &str, current: Option<&str>| Metric {
            name: Name::new("m"),
            target: Name::new(target),
            current: current.map(Name::new),
        };
        assert_eq!(demand(&metric("80%", Some("120%"))), Demand::Ratio(1.5));
        assert_eq!(demand(&metric("500m", Some("1"))), Demand::Ratio(2.0));
        assert_eq!(demand(&metric("1k", Some("500"))), Demand::Ratio(0.5));
        for (target, current) in [
            ("80%", None),
            ("", Some("1")),
            ("0", Some("1")),
            ("x", Some("1")),
        ] {
            assert_eq!(
                demand(&metric(target, current)),
                Demand::Missing,
                "{target}"
            );
        }
    }

    #[test]
    fn why_it_stands_still_is_one_of_a_closed_list() {
        let scaler = |current: u32, desired: Option<u32>, value: Option<&str>| PodScaler {
            min: 2,
            max: Some(6),
            current: Some(current),
            desired,
            metrics: Box::from([Metric {
                name: Name::new("queue"),
                target: Name::new("10"),
                current: value.map(Name::new),
            }]),
            ..PodScaler::default()
        };
        let why = |current, desired, value| why_steady(&scaler(current, desired, value));
        assert_eq!(why(6, Some(6), Some("30")), Some(Steady::AtMax));
        assert_eq!(why(2, Some(2), Some("1")), Some(Steady::AtMin));
        assert_eq!(why(4, Some(4), None), Some(Steady::MetricMissing));
        assert_eq!(why(4, Some(4), Some("10.5")), Some(Steady::WithinTolerance));
        assert_eq!(why(4, Some(4), Some("5")), Some(Steady::Stabilizing));
        assert_eq!(why(0, Some(0), Some("5")), Some(Steady::Off));
        assert_eq!(why(0, Some(2), Some("5")), None, "it comes up");
        assert_eq!(why(3, Some(5), Some("20")), None);
    }
}
