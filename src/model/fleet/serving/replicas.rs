//! Desired replicas of a HorizontalPodAutoscaler from its metrics, and why it keeps the current number.
//!
//! Source: kubernetes.io, Horizontal Pod Autoscaling, algorithm details; `replica_calculator.go` and `horizontal.go` in
//! `pkg/controller/podautoscaler` of Kubernetes 1.36. Computed from what the controller reports, which does not say which pods had
//! no metric nor what it scaled within the period of a policy.

use crate::base::quantities::quantity_milli;

use crate::fleet::job::Job;
use crate::fleet::observed::object_parts::Phase;
use crate::fleet::scaling::{
    Metric, MetricOf, PodScaler, PolicySelect, ScalingPolicy, ScalingRules,
};

/// Tolerance of a metric around its target, as a ratio: the controller's default.
pub const TOLERANCE: f64 = 0.1;

/// Pods of a scale target.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pods {
    pub ready: u32,
    pub unready: u32,
    pub pending: u32,
}

impl Pods {
    /// The pods of a workload; those that are being deleted or have ended do not count.
    pub fn of(job: &Job) -> Self {
        let mut pods = Self::default();
        let there = job.pods.iter().map(|pod| &pod.seen);
        for pod in there.filter(|pod| pod.deleted.is_none()) {
            match (pod.phase, pod.ready) {
                (Phase::Pending, _) => pods.pending += 1,
                (Phase::Running, true) => pods.ready += 1,
                (Phase::Running, false) => pods.unready += 1,
                (Phase::Succeeded | Phase::Failed | Phase::Unknown, _) => {}
            }
        }
        pods
    }
}

/// A metric's value and target, in thousandths or in percent.
fn value_and_target(metric: &Metric) -> Option<(i64, i64)> {
    let number = |text: &str| match text.strip_suffix('%') {
        Some(percent) => percent.parse::<i64>().ok(),
        None => quantity_milli(text),
    };
    let value = number(metric.current.as_deref()?)?;
    let target = number(&metric.target).filter(|target| *target > 0)?;
    Some((value, target))
}

/// Value divided by target; `None` where one of them is not known.
pub fn ratio(metric: &Metric) -> Option<f64> {
    let (value, target) = value_and_target(metric)?;
    Some(value as f64 / target as f64)
}

/// Tolerances down and up, as ratios.
fn tolerances(scaler: &PodScaler) -> (f64, f64) {
    let own = |rules: &ScalingRules| rules.tolerance_milli.map(|milli| milli as f64 / 1000.0);
    let (up, down) = match &scaler.behavior {
        Some((up, down)) => (own(up), own(down)),
        None => (None, None),
    };
    (down.unwrap_or(TOLERANCE), up.unwrap_or(TOLERANCE))
}

/// A number of pods, rounded up as the controller does it: 25 times 1.12 is 29, by the error of the product.
fn whole(pods: f64) -> u32 {
    // A cast takes numbers out of range to the nearest.
    pods.ceil().min(f64::from(i32::MAX)) as u32
}

/// The sum of which this is the mean over so many pods, rounded up to a thousandth: of the sums that give it, the roundest.
fn sum(mean: i64, pods: u32) -> i64 {
    let most = mean.saturating_mul(i64::from(pods));
    let least = most - i64::from(pods) + 1;
    let round = |unit: i64| most - most.rem_euclid(unit);
    let mut sums = [1_000, 100, 10].into_iter().map(round);
    sums.find(|sum| *sum >= least).unwrap_or(most)
}

/// Replicas by one metric; `None` where it is missing.
fn by_metric(scaler: &PodScaler, metric: &Metric, current: u32, pods: Pods) -> Option<u32> {
    let (value, target) = value_and_target(metric)?;
    let target = target as f64;
    let (down, up) = tolerances(scaler);
    let within = |ratio: f64| 1.0 - down <= ratio && ratio <= 1.0 + up;
    let ratio = value as f64 / target;
    let (counted, uncounted) = match metric.of {
        MetricOf::TotalPerPod => {
            let sum = sum(value, current) as f64;
            return Some(match within(sum / (target * f64::from(current))) {
                true => current,
                false => whole(sum / target),
            });
        }
        MetricOf::Total => (pods.ready, 0),
        MetricOf::Cpu => (pods.ready, pods.unready + pods.pending),
        MetricOf::Pods => (pods.ready + pods.unready, pods.pending),
    };
    if uncounted == 0 || ratio <= 1.0 {
        return Some(match within(ratio) {
            true => current,
            false => whole(ratio * f64::from(counted)),
        });
    }
    // Before it scales up, pods that are not ready count as using nothing.
    let all = i64::from(counted) + i64::from(uncounted);
    let ratio = (value.saturating_mul(i64::from(counted)) / all) as f64 / target;
    let then = whole(ratio * all as f64);
    Some(match ratio < 1.0 || within(ratio) || then < current {
        true => current,
        false => then,
    })
}

/// The replicas that the scaling policies of one direction allow, with nothing scaled yet within their periods.
fn allowed(current: u32, rules: &ScalingRules, up: bool) -> u32 {
    if rules.select == PolicySelect::Disabled {
        return current;
    }
    let one = |policy: &ScalingPolicy| match (*policy, up) {
        (ScalingPolicy::Pods(pods), true) => current.saturating_add(pods),
        (ScalingPolicy::Pods(pods), false) => current.saturating_sub(pods),
        (ScalingPolicy::Percent(percent), true) => {
            whole(f64::from(current) * (1.0 + f64::from(percent) / 100.0))
        }
        (ScalingPolicy::Percent(percent), false) => {
            // Rounded down.
            (f64::from(current) * (1.0 - f64::from(percent) / 100.0)) as u32
        }
    };
    let all = rules.policies.iter().map(one);
    let allowed = match (rules.select == PolicySelect::Max, up) {
        (true, true) | (false, false) => all.max(),
        (true, false) | (false, true) => all.min(),
    };
    allowed.unwrap_or(current)
}

/// Replicas that the controller adds at least in one step where no behavior is set; otherwise it doubles them at most.
const LEAST_STEP: u32 = 4;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DesiredReplicas {
    /// From the metrics alone.
    pub by_metrics: u32,
    /// Within minimum and maximum, and as far as one step goes; a stabilization window may delay it.
    pub bounded: u32,
    /// True when a metric is missing and the others would scale down: the controller does not scale down then.
    pub held: bool,
}

/// Desired replicas of a pod autoscaler with these pods; without them, all replicas count as ready. `None` at 0 replicas, where
/// scaling is off, and without any metric.
pub fn desired(scaler: &PodScaler, pods: Option<Pods>) -> Option<DesiredReplicas> {
    let current = scaler.current.filter(|current| *current > 0)?;
    let (min, max) = (scaler.min, scaler.max.unwrap_or(u32::MAX));
    if current > max || current < min {
        // The bounds go first: no metric is read.
        let bounded = if current > max { max } else { min };
        return Some(DesiredReplicas {
            by_metrics: bounded,
            bounded,
            held: false,
        });
    }
    let pods = pods.unwrap_or(Pods {
        ready: current,
        ..Pods::default()
    });
    let metrics = scaler.metrics.iter();
    let each: Vec<_> = metrics
        .map(|metric| by_metric(scaler, metric, current, pods))
        .collect();
    let most = each.iter().copied().flatten().max()?;
    let held = most < current && each.contains(&None);
    let by_metrics = if held { current } else { most };
    let (least, most) = match &scaler.behavior {
        None => (0, current.saturating_mul(2).max(LEAST_STEP)),
        Some((up, down)) => (allowed(current, down, false), allowed(current, up, true)),
    };
    Some(DesiredReplicas {
        by_metrics,
        bounded: by_metrics.clamp(min.max(least.min(current)), max.min(most.max(current))),
        held,
    })
}

/// Why a pod autoscaler keeps the number of replicas.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Steady {
    /// The metrics ask for more than the maximum.
    AtMax,
    /// The metrics ask for fewer than the minimum.
    AtMin,
    /// A metric cannot be read.
    MetricMissing,
    /// Every metric is within its tolerance.
    WithinTolerance,
    /// Another number is desired, and the behavior disables scaling in that direction.
    Disabled,
    /// Another number is desired, and policies allow no more within their periods.
    RateLimited,
    /// Pods that are not ready or have no metric keep the controller from it.
    PodsMissing,
    /// Another number is desired, within the stabilization window.
    Stabilizing,
    /// Scaled to zero: the autoscaler is off.
    Off,
}

impl Steady {
    pub const fn words(self) -> &'static str {
        match self {
            Self::AtMax => "at max",
            Self::AtMin => "at min: its metrics ask for no more",
            Self::MetricMissing => "metric missing",
            Self::WithinTolerance => "within tolerance",
            Self::Disabled => "disabled by its behavior",
            Self::RateLimited => "limited by its scaling policies",
            Self::PodsMissing => "pods not ready or without metrics",
            Self::Stabilizing => "stabilizing",
            Self::Off => "off at 0 pods",
        }
    }
}

/// The leading metric: the one furthest above its target, or the missing one that prevents scaling down.
pub fn leading(scaler: &PodScaler, pods: Option<Pods>) -> Option<&Metric> {
    if why_steady(scaler, pods) == Some(Steady::MetricMissing) {
        let missing = scaler.metrics.iter().find(|metric| ratio(metric).is_none());
        return missing.or(scaler.metrics.first());
    }
    let ratio = |metric: &Metric| ratio(metric).unwrap_or(f64::NEG_INFINITY);
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

/// Why it keeps the number of replicas, with these pods as in [`wanted`]; `None` while it changes it, and where the number is not known.
pub fn why_steady(scaler: &PodScaler, pods: Option<Pods>) -> Option<Steady> {
    let current = scaler.current?;
    if scaler.desired.is_some_and(|desired| desired != current) {
        return None;
    }
    if current == 0 && scaler.min == 0 {
        // It scales to none itself, and goes on reading its metrics.
        let all: Option<Vec<f64>> = scaler.metrics.iter().map(ratio).collect();
        return match all {
            None => Some(Steady::MetricMissing),
            Some(all) if all.iter().all(|ratio| *ratio <= 0.0) => Some(Steady::AtMin),
            Some(_) => None,
        };
    }
    if current == 0 {
        return Some(Steady::Off);
    }
    let max = scaler.max.unwrap_or(u32::MAX);
    let Some(wanted) = desired(scaler, pods) else {
        return Some(Steady::MetricMissing);
    };
    Some(match wanted {
        wanted if wanted.held => Steady::MetricMissing,
        wanted if wanted.by_metrics > max && current >= max => Steady::AtMax,
        wanted if wanted.by_metrics < scaler.min && current <= scaler.min => Steady::AtMin,
        wanted if wanted.bounded != current => match &scaler.limited {
            Some((word, _)) if matches!(word.as_str(), "ScaleUpLimit" | "ScaleDownLimit") => {
                Steady::RateLimited
            }
            _ if scaler.stabilized == Some(false) => Steady::PodsMissing,
            _ => Steady::Stabilizing,
        },
        wanted if wanted.by_metrics != current => Steady::Disabled,
        _ => Steady::WithinTolerance,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Name;

    /// An autoscaler on metrics of the mean over pods: (value, target) of each, no value where it is missing.
    fn scaler(current: u32, metrics: &[(f64, f64)], min: u32, max: u32) -> PodScaler {
        let text = |number: f64| Name::from(format!("{}m", (number * 1000.0).round()));
        let metric = |(value, target): &(f64, f64)| Metric {
            name: Name::new("m"),
            of: MetricOf::Pods,
            target: text(*target),
            current: (!value.is_nan()).then(|| text(*value)),
        };
        PodScaler {
            min,
            max: Some(max),
            current: Some(current),
            metrics: metrics.iter().map(metric).collect(),
            ..PodScaler::default()
        }
    }

    fn rules(select: PolicySelect, policies: &[ScalingPolicy]) -> ScalingRules {
        ScalingRules {
            select,
            policies: policies.into(),
            tolerance_milli: None,
        }
    }

    #[test]
    fn the_wanted_number_is_the_controllers() {
        // Current replicas, (value, target) of each metric (NaN: missing), minimum, maximum, desired within the bounds.
        type Case = (u32, &'static [(f64, f64)], u32, u32, u32);
        const M: f64 = f64::NAN;
        let cases: &[Case] = &[
            // From the documentation: 200m of 100m doubles, 50m of 100m halves.
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
            // A tenth either way is within tolerance; the bounds are inclusive.
            (10, &[(110.0, 100.0)], 1, 20, 10),
            (10, &[(90.0, 100.0)], 1, 20, 10),
            (10, &[(111.0, 100.0)], 1, 20, 12),
            (10, &[(89.0, 100.0)], 1, 20, 9),
            (1, &[(109.0, 100.0)], 1, 20, 1),
            (1, &[(111.0, 100.0)], 1, 20, 2),
            // The largest of several.
            (4, &[(100.0, 50.0), (10.0, 100.0)], 1, 20, 8),
            (4, &[(10.0, 100.0), (100.0, 50.0)], 1, 20, 8),
            (4, &[(50.0, 100.0), (25.0, 100.0)], 1, 20, 2),
            (4, &[(100.0, 100.0), (10.0, 100.0)], 1, 20, 4),
            (4, &[(105.0, 100.0), (120.0, 100.0)], 1, 20, 5),
            // While one is missing, no scale-down; a scale-up is allowed.
            (4, &[(50.0, 100.0), (M, 100.0)], 1, 20, 4),
            (4, &[(M, 100.0), (200.0, 100.0)], 1, 20, 8),
            (4, &[(M, 100.0), (100.0, 100.0)], 1, 20, 4),
            // Within the bounds.
            (4, &[(500.0, 100.0)], 1, 6, 6),
            // One step doubles at most, or adds up to four.
            (4, &[(500.0, 100.0)], 1, 10, 8),
            (1, &[(900.0, 100.0)], 1, 10, 4),
            (4, &[(1.0, 100.0)], 2, 10, 2),
            (12, &[(100.0, 100.0)], 1, 10, 10),
            (1, &[(100.0, 100.0)], 3, 10, 3),
            (8, &[(0.0, 100.0)], 1, 10, 1),
            (60, &[(1e9, 1.0)], 1, 100, 100),
            // Outside the bounds, the bound applies and metrics are ignored.
            (12, &[(10.0, 100.0)], 1, 10, 10),
            (1, &[(500.0, 100.0)], 3, 10, 3),
            (1, &[(M, 100.0)], 3, 10, 3),
            // By the product in floating point, as in the controller.
            (25, &[(112.0, 100.0)], 1, 100, 29),
            (7, &[(100.0, 50.0)], 1, 100, 14),
            // Queue lengths: 30 requests of 10 a pod, by the mean over 3 pods.
            (3, &[(30.0, 10.0)], 1, 12, 6),
            (5, &[(30.0, 10.0)], 1, 12, 10),
        ];
        assert!(cases.len() >= 30);
        for (current, metrics, min, max, expected) in cases {
            let scaler = scaler(*current, metrics, *min, *max);
            let found = desired(&scaler, None).map(|wanted| wanted.bounded);
            assert_eq!(found, Some(*expected), "{current} {metrics:?} {min}..{max}");
        }
        for (current, metrics) in [(0, &[(2.0, 1.0)][..]), (3, &[]), (3, &[(M, 1.0)])] {
            assert_eq!(desired(&scaler(current, metrics, 1, 10), None), None);
        }
    }

    #[test]
    fn one_value_is_divided_by_the_replicas_or_not() {
        let found = |of: MetricOf, current: u32, value: f64, pods: Option<Pods>| {
            let mut scaler = scaler(current, &[(value, 10.0)], 1, 100);
            scaler.metrics[0].of = of;
            desired(&scaler, pods).map(|wanted| wanted.bounded)
        };
        // 20 requests over 3 pods are 6.667 a pod by the status: 2 pods of 10 each.
        assert_eq!(found(MetricOf::TotalPerPod, 3, 6.667, None), Some(2));
        assert_eq!(found(MetricOf::TotalPerPod, 3, 7.0, None), Some(3));
        assert_eq!(found(MetricOf::TotalPerPod, 3, 11.0, None), Some(3));
        assert_eq!(found(MetricOf::Total, 3, 20.0, None), Some(6));
        // Every ready pod has that value.
        let pods = Pods {
            ready: 2,
            unready: 1,
            pending: 0,
        };
        assert_eq!(found(MetricOf::Total, 3, 20.0, Some(pods)), Some(4));
        assert_eq!(
            found(MetricOf::TotalPerPod, 3, 10.0 + 5.0, Some(pods)),
            Some(5)
        );
    }

    #[test]
    fn pods_that_are_not_ready_use_nothing_where_it_scales_up() {
        let found = |of: MetricOf, value: f64, (ready, unready, pending): (u32, u32, u32)| {
            let mut scaler = scaler(4, &[(value, 100.0)], 1, 100);
            scaler.metrics[0].of = of;
            let pods = Pods {
                ready,
                unready,
                pending,
            };
            desired(&scaler, Some(pods)).map(|wanted| wanted.bounded)
        };
        assert_eq!(
            found(MetricOf::Cpu, 300.0, (3, 1, 0)),
            Some(8),
            "900 of 100"
        );
        assert_eq!(found(MetricOf::Cpu, 200.0, (3, 1, 0)), Some(6));
        assert_eq!(found(MetricOf::Cpu, 200.0, (2, 1, 1)), Some(4));
        assert_eq!(found(MetricOf::Cpu, 120.0, (2, 2, 0)), Some(4), "not down");
        assert_eq!(found(MetricOf::Cpu, 50.0, (3, 1, 0)), Some(2));
        // Other metrics ask for no readiness.
        assert_eq!(found(MetricOf::Pods, 200.0, (3, 1, 0)), Some(8));
        assert_eq!(found(MetricOf::Pods, 200.0, (3, 0, 1)), Some(6));
    }

    #[test]
    fn a_behavior_says_how_far_a_step_goes_and_what_is_within_tolerance() {
        let found = |current: u32, value: f64, up: ScalingRules, down: ScalingRules| {
            let mut scaler = scaler(current, &[(value, 100.0)], 1, 100);
            scaler.behavior = Some((up, down));
            desired(&scaler, None).map(|wanted| wanted.bounded)
        };
        let percent = |most: u32| ScalingPolicy::Percent(most);
        let both = [ScalingPolicy::Pods(2), percent(50)];
        let with = |select| rules(select, &both);
        for (current, value, select, expected) in [
            (10, 300.0, PolicySelect::Max, 15),
            (10, 300.0, PolicySelect::Min, 12),
            (10, 300.0, PolicySelect::Disabled, 10),
            (10, 10.0, PolicySelect::Max, 5),
            (10, 10.0, PolicySelect::Min, 8),
            (10, 10.0, PolicySelect::Disabled, 10),
            // Up is rounded up, down is rounded down.
            (3, 300.0, PolicySelect::Max, 5),
            (3, 10.0, PolicySelect::Max, 1),
        ] {
            let found = found(current, value, with(select), with(select));
            assert_eq!(found, Some(expected), "{current} {value} {select:?}");
        }
        let exact = |milli: i64| ScalingRules {
            tolerance_milli: Some(milli),
            ..rules(PolicySelect::Max, &[percent(100)])
        };
        assert_eq!(found(10, 105.0, exact(10), exact(200)), Some(11));
        assert_eq!(found(10, 105.0, exact(50), exact(200)), Some(10));
        assert_eq!(found(10, 81.0, exact(10), exact(200)), Some(10));
        assert_eq!(found(10, 79.0, exact(10), exact(200)), Some(8));
    }

    #[test]
    fn values_are_read_as_they_are_written() {
        let metric = |target: &str, current: Option<&str>| Metric {
            name: Name::new("m"),
            target: Name::new(target),
            current: current.map(Name::new),
            ..Metric::default()
        };
        assert_eq!(ratio(&metric("80%", Some("120%"))), Some(1.5));
        assert_eq!(ratio(&metric("500m", Some("1"))), Some(2.0));
        assert_eq!(ratio(&metric("1k", Some("500"))), Some(0.5));
        for (target, current) in [
            ("80%", None),
            ("", Some("1")),
            ("0", Some("1")),
            ("x", Some("1")),
        ] {
            assert_eq!(ratio(&metric(target, current)), None, "{target}");
        }
    }

    #[test]
    fn reasons_for_no_scaling_are_a_closed_list() {
        let scaler = |current: u32, desired: Option<u32>, value: Option<&str>| PodScaler {
            min: 2,
            max: Some(6),
            current: Some(current),
            desired,
            metrics: Box::from([Metric {
                name: Name::new("queue"),
                target: Name::new("10"),
                current: value.map(Name::new),
                ..Metric::default()
            }]),
            ..PodScaler::default()
        };
        let why = |current, desired, value| why_steady(&scaler(current, desired, value), None);
        assert_eq!(why(6, Some(6), Some("30")), Some(Steady::AtMax));
        assert_eq!(why(2, Some(2), Some("1")), Some(Steady::AtMin));
        assert_eq!(why(4, Some(4), None), Some(Steady::MetricMissing));
        assert_eq!(why(4, Some(4), Some("10.5")), Some(Steady::WithinTolerance));
        assert_eq!(why(4, Some(4), Some("5")), Some(Steady::Stabilizing));
        assert_eq!(why(0, Some(0), Some("5")), Some(Steady::Off));
        assert_eq!(why(0, Some(2), Some("5")), None, "it comes up");
        let to_none = |value: Option<&str>| {
            let zero = PodScaler {
                min: 0,
                ..scaler(0, Some(0), value)
            };
            why_steady(&zero, None)
        };
        assert_eq!(to_none(Some("0")), Some(Steady::AtMin));
        assert_eq!(to_none(Some("5")), None, "it is about to come up");
        assert_eq!(to_none(None), Some(Steady::MetricMissing));
        assert_eq!(why(3, Some(5), Some("20")), None);
        let off = rules(PolicySelect::Disabled, &[]);
        let never_down = PodScaler {
            behavior: Some((rules(PolicySelect::Max, &[]), off)),
            ..scaler(4, Some(4), Some("5"))
        };
        assert_eq!(why_steady(&never_down, None), Some(Steady::Disabled));
        let with = |stabilized: Option<bool>, limited: Option<&str>| {
            let scaler = PodScaler {
                stabilized,
                limited: limited.map(|word| (Name::new(word), Name::default())),
                ..scaler(4, Some(4), Some("5"))
            };
            why_steady(&scaler, None)
        };
        assert_eq!(with(Some(true), None), Some(Steady::Stabilizing));
        assert_eq!(with(Some(false), None), Some(Steady::PodsMissing));
        let limited = with(Some(false), Some("ScaleDownLimit"));
        assert_eq!(limited, Some(Steady::RateLimited));
    }
}
