//! Forecasts against months whose end is known.

use super::*;

/// A simulated fleet's spend: a weekly pattern, noise from day to day, a slow drift, and now and then a step.
struct World {
    rng: Rng,
    level: f64,
    drift: f64,
    day: f64,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let drift = normal(&mut rng) * 0.003;
        Self {
            rng,
            level: 1.0,
            drift,
            day: 0.0,
        }
    }

    fn hour(&mut self, hour: i64) -> i64 {
        if hour % 24 == 0 {
            // Days hang together: a busy one is followed by a busy one.
            self.day = 0.4 * self.day + 0.08 * normal(&mut self.rng);
            self.level *= 1.0 + self.drift;
            if self.rng.below(40) == 0 {
                self.level *= 1.0 + 0.15 * normal(&mut self.rng).clamp(-2.0, 2.0);
            }
        }
        let weekend = (hour / 24) % 7 >= 5;
        let of_day = (hour % 24 - 12) as f64 / 12.0;
        let shape = (1.2 - 0.4 * of_day * of_day) * if weekend { 0.7 } else { 1.0 };
        let noise = 1.0 + 0.05 * normal(&mut self.rng);
        ((shape * self.level * (1.0 + self.day) * noise * 4e8) as i64).max(0)
    }

    /// So many hours from 0 on.
    fn hours(mut self, count: i64) -> Vec<i64> {
        (0..count).map(|hour| self.hour(hour)).collect()
    }
}

fn seen(hours: &[i64]) -> HourAmounts {
    let hours = hours.iter().map(|amount| HourAmount {
        amount: *amount,
        observed_ms: HOUR_MS,
    });
    HourAmounts {
        from: 0,
        hours: hours.collect(),
    }
}

/// Of 200 months with so many days of record before them, the share whose end lies in the interval of a forecast on those days.
fn share_inside(before: i64, days: [i64; 3]) -> [f64; 3] {
    let begin = before * 24;
    let month = Span {
        from: begin,
        to: begin + 30 * 24,
    };
    let mut inside = [0; 3];
    for seed in 0..200 {
        let all = World::new(1 + seed * 7_919).hours(month.to);
        let end: i64 = all[begin as usize..].iter().sum();
        for (count, day) in inside.iter_mut().zip(days) {
            let now = begin + day * 24;
            let known = seen(&all[..now as usize]);
            let forecast = UsageForecast::of(&known, month, now).expect("is long enough");
            *count += i32::from((forecast.low..=forecast.high).contains(&end));
        }
    }
    inside.map(|count| f64::from(count) / 200.0)
}

/// Holds with so many days of record before the month.
fn eighty_in_a_hundred_hold(before: i64) {
    let days = [5, 12, 20];
    for (share, day) in share_inside(before, days).into_iter().zip(days) {
        assert!(
            (0.75..=0.90).contains(&share),
            "{share} with {before} days before, on day {day}"
        );
    }
}

#[test]
fn eighty_in_a_hundred_months_end_within_the_interval() {
    eighty_in_a_hundred_hold(60);
}

#[test]
fn so_they_do_with_a_month_before() {
    eighty_in_a_hundred_hold(28);
}

#[test]
fn so_they_do_with_nothing_before() {
    eighty_in_a_hundred_hold(0);
}

const MONTH: Span = Span {
    from: 14 * 24,
    to: 44 * 24,
};

#[test]
fn a_steady_spend_is_forecast_to_the_dollar_and_reaches_a_budget_in_its_hour() {
    let known = seen(&vec![1_000_000; 24 * 24]);
    let forecast = UsageForecast::of(&known, MONTH, 24 * 24).expect("is long enough");
    assert_eq!(forecast.mid, 720_000_000);
    let error = forecast.error.expect("two weeks are compared");
    assert!(error.ratio < 1e-9 && error.forecasts >= 5, "{error:?}");
    // A fleet that never wavered may yet.
    assert!(forecast.low < forecast.mid && forecast.mid < forecast.high);
    assert!(forecast.low >= 240_000_000, "what is spent is spent");
    assert_eq!(forecast.reaches(500_000_000), Some(14 * 24 + 499));
    assert_eq!(forecast.reaches(100_000_000), Some(14 * 24 + 99));
    assert_eq!(forecast.reaches(720_000_001), None);
    // Over, there is nothing left to say.
    let known = seen(&vec![1_000_000; 60 * 24]);
    let forecast = UsageForecast::of(&known, MONTH, 60 * 24).expect("is over");
    assert_eq!(
        (forecast.low, forecast.mid, forecast.high),
        (forecast.mid, 720_000_000, forecast.mid)
    );
}

#[test]
fn too_little_is_unknown_and_what_was_not_observed_is_filled_in_but_not_spent() {
    let begin = Span { from: 0, to: 720 };
    assert_eq!(UsageForecast::of(&seen(&[5; 23]), begin, 23), None);
    assert!(UsageForecast::of(&seen(&[5; 24]), begin, 24).is_some());
    // Most of the month so far was not observed.
    let mut known = seen(&vec![1_000_000; 24 * 24]);
    for hour in &mut known.hours[14 * 24..20 * 24] {
        *hour = HourAmount::default();
    }
    assert_eq!(UsageForecast::of(&known, MONTH, 24 * 24), None);
    // A third of the days, and half of one hour.
    for hour in &mut known.hours[14 * 24..17 * 24] {
        *hour = HourAmount {
            amount: 1_000_000,
            observed_ms: HOUR_MS,
        };
    }
    known.hours[14 * 24] = HourAmount {
        amount: 500_000,
        observed_ms: HOUR_MS / 2,
    };
    let forecast = UsageForecast::of(&known, MONTH, 24 * 24).expect("most is known");
    assert_eq!(forecast.mid, 720_000_000);
    assert_eq!(known.sum(MONTH), (7 * 24 - 1) * 1_000_000 + 500_000);
    assert!((known.seen(MONTH) - 167.5).abs() < 1e-9);
}

#[test]
fn the_same_hours_of_the_week_count() {
    // Weekends cost nothing: what is left of the month is five days of each week.
    let cost = |hour: i64| i64::from((hour / 24) % 7 < 5) * 1_000;
    let hours: Vec<i64> = (0..24 * 24).map(cost).collect();
    let forecast = UsageForecast::of(&seen(&hours), MONTH, 24 * 24).expect("is long enough");
    let end: i64 = (MONTH.from..MONTH.to).map(cost).sum();
    assert_eq!(forecast.mid, end);
    // The same record says the same.
    assert_eq!(
        UsageForecast::of(&seen(&hours), MONTH, 24 * 24),
        Some(forecast)
    );
}
