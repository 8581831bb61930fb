//! Forecast of a period: the recorded amount, plus the recent average for the hours that are left.
//!
//! Expected value: an hour that is left, or was not observed, counts as the mean of the same hour of the week over the last 14
//! days; without one, as the mean of the last 24 hours. Interval: a thousand resamples of whole days, not of single hours, since
//! the hours of one day are correlated. Each resample also gets a level shift, as large as the errors of earlier forecasts on
//! the same record: days that are all too high do not average out.

use model::base::SmallSort;
use model::base::rng::Rng;

use super::{HOUR_MS, Span};

/// Hours of a week.
const WEEK: i64 = 168;
/// Lookback for typical hours, in hours.
const BACK: i64 = 2 * WEEK;
/// Minimum number of observed hours for a forecast.
const LEAST_HOURS: u32 = 24;
/// Minimum observed share of the elapsed period for a forecast.
const LEAST_SEEN: f64 = 0.5;
/// Minimum observed share of an hour, or of a span, for a comparison.
const MOST_OF: f64 = 0.8;
/// Number of resamples; the 10th and 90th percentile bound the interval.
const RESAMPLES: usize = 1_000;
/// Fixed seed: the same record gives the same interval.
const SEED: u64 = 0x570C_E401;
/// Earlier forecasts that are evaluated: horizon in days, then number of past days they are made on.
const HORIZON: usize = 28;
const ORIGINS: i64 = 42;
/// Hours before now that a forecast needs.
pub(super) const LOOKS_BACK: i64 = ORIGINS * 24 + BACK;
/// Defaults for a short record: deviation of one day from its typical day, and change of the level per day, as ratios (*ours*).
const DAY_NOISE: f64 = 0.10;
const DAY_DRIFT: f64 = 0.03;
/// Deviation from the mean of a day of the week that was never observed, as a ratio (*ours*).
const UNSEEN_DAY: f64 = 0.25;
/// A spread that is estimated from a few weeks is uncertain: Student's 90th percentile at 12 degrees of freedom over the normal one.
const STUDENT: f64 = 1.06;

/// One hour: the recorded amount (micro-USD or device-milliseconds) and how much of the hour was observed.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct HourAmount {
    pub amount: i64,
    /// Observed part of the hour, milliseconds.
    pub observed_ms: i64,
}

impl HourAmount {
    /// Observed share of the hour, 0 to 1.
    pub fn seen(self) -> f64 {
        (self.observed_ms as f64 / HOUR_MS as f64).clamp(0.0, 1.0)
    }

    /// The amount extrapolated to a full hour, where most of the hour was observed.
    fn whole(self) -> Option<f64> {
        let seen = self.seen();
        (seen >= MOST_OF).then(|| self.amount as f64 / seen)
    }
}

#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct HourAmounts {
    /// First hour, whole hours since the Unix epoch.
    pub from: i64,
    pub hours: Vec<HourAmount>,
}

impl HourAmounts {
    /// An hour; one outside of the range was not observed.
    pub fn at(&self, hour: i64) -> HourAmount {
        let at = usize::try_from(hour - self.from).ok();
        at.and_then(|at| self.hours.get(at))
            .copied()
            .unwrap_or_default()
    }

    /// The hour after the last one.
    pub fn end(&self) -> i64 {
        self.from + self.hours.len() as i64
    }

    /// Recorded amount of a span.
    pub fn sum(&self, span: Span) -> i64 {
        (span.from..span.to).map(|hour| self.at(hour).amount).sum()
    }

    /// Observed hours of a span.
    pub fn seen(&self, span: Span) -> f64 {
        (span.from..span.to).map(|hour| self.at(hour).seen()).sum()
    }
}

/// Error of forecasts made earlier on the same record.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ForecastError {
    /// Mean absolute error as a share of the actual amount.
    pub ratio: f64,
    /// Horizon of those forecasts, days ahead.
    pub days: usize,
    pub forecasts: usize,
}

/// Forecast of a period, in the unit of its hours.
#[derive(Clone, PartialEq, Debug)]
pub struct UsageForecast {
    /// 10th percentile of the resampled totals.
    pub low: i64,
    pub mid: i64,
    /// 90th percentile of the resampled totals.
    pub high: i64,
    /// Error of earlier forecasts, where the record is long enough.
    pub error: Option<ForecastError>,
    /// Expected cumulative amount at the end of each hour of the period.
    path: Vec<f64>,
    from: i64,
}

impl UsageForecast {
    /// Forecasts the end of `period` at the hour `now`; earlier hours and the observed part of `now` count as recorded. `None`
    /// where less than 24 hours were observed in the last 14 days, or less than half of the period so far.
    pub fn of(amounts: &HourAmounts, period: Span, now: i64) -> Option<Self> {
        let now = now.min(period.to);
        let past = Span {
            from: period.from,
            to: now,
        };
        if amounts.seen(past) < past.hours() as f64 * LEAST_SEEN {
            return None;
        }
        let like = WeekPattern::of(amounts, now)?;
        let mut path = Vec::new();
        let (mut sum, mut missing, mut unseen) = (0.0, 0.0, 0.0);
        for hour in period.from..period.to {
            let one = amounts.at(hour);
            let left = 1.0 - one.seen();
            sum += one.amount as f64 + left * like.at(hour);
            missing += left;
            if !like.knows(hour) {
                unseen += left;
            }
            path.push(sum);
        }
        let spent = amounts.sum(period);
        let (low, high, error) = match missing > 0.0 {
            true => {
                let earlier = Earlier::of(amounts, now);
                let share = unseen / missing;
                let (low, high) = earlier.band(missing / 24.0, share * UNSEEN_DAY);
                let day = like.mean * 24.0;
                let past_error = earlier.expected_error((missing / 24.0).ceil() as usize);
                (sum + low * day, sum + high * day, past_error)
            }
            false => (sum, sum, None),
        };
        Some(Self {
            low: (low.round() as i64).max(spent),
            mid: (sum.round() as i64).max(spent),
            high: (high.round() as i64).max(spent),
            error,
            path,
            from: period.from,
        })
    }

    /// Only the expected amount at the end of `period`, as of the start of the hour `now`: the middle of [`UsageForecast::of`].
    pub fn expected(amounts: &HourAmounts, period: Span, now: i64) -> Option<i64> {
        let past = Span {
            from: period.from,
            to: now,
        };
        if amounts.seen(past) < past.hours() as f64 * LEAST_SEEN {
            return None;
        }
        let like = WeekPattern::of(amounts, now)?;
        let ends = (period.from..period.to).map(|hour| match hour < now {
            true => {
                let one = amounts.at(hour);
                one.amount as f64 + (1.0 - one.seen()) * like.at(hour)
            }
            false => like.at(hour),
        });
        Some(ends.sum::<f64>().round() as i64)
    }

    /// The first hour of the period by whose end the expected amount reaches `limit`.
    pub fn reaches(&self, limit: i64) -> Option<i64> {
        let at = self.path.iter().position(|sum| *sum >= limit as f64)?;
        Some(self.from + at as i64)
    }
}

/// Typical recent amount by hour of the week.
struct WeekPattern {
    week: Vec<Option<f64>>,
    day: f64,
    /// Mean of an hour.
    mean: f64,
}

impl WeekPattern {
    /// The pattern of the hours before `now`.
    fn of(amounts: &HourAmounts, now: i64) -> Option<Self> {
        let mut week = vec![(0.0, 0); WEEK as usize];
        let (mut all, mut day) = ((0.0, 0), (0.0, 0));
        for hour in now - BACK..now {
            let Some(amount) = amounts.at(hour).whole() else {
                continue;
            };
            let of_day = if hour >= now - 24 { 1 } else { 0 };
            let like: &mut (f64, u32) = &mut week[hour.rem_euclid(WEEK) as usize];
            *like = (like.0 + amount, like.1 + 1);
            all = (all.0 + amount, all.1 + 1);
            day = (day.0 + amount * f64::from(of_day), day.1 + of_day);
        }
        if all.1 < LEAST_HOURS {
            return None;
        }
        let mean = |(sum, count): (f64, u32)| (count > 0).then(|| sum / f64::from(count));
        let whole = mean(all)?;
        Some(Self {
            week: week.into_iter().map(mean).collect(),
            day: mean(day).unwrap_or(whole),
            mean: whole,
        })
    }

    fn knows(&self, hour: i64) -> bool {
        self.week[hour.rem_euclid(WEEK) as usize].is_some()
    }

    fn at(&self, hour: i64) -> f64 {
        self.week[hour.rem_euclid(WEEK) as usize].unwrap_or(self.day)
    }
}

/// Errors of earlier forecasts: `actual - forecast` by days ahead, in mean days.
struct Earlier {
    /// By days ahead minus one: each error as a share of a mean day of the forecast, and of the actual amount.
    errors: Vec<Vec<(f64, f64)>>,
}

impl Earlier {
    fn of(amounts: &HourAmounts, now: i64) -> Self {
        let mut errors = vec![Vec::new(); HORIZON];
        for origin in (1..=ORIGINS).map(|days| now - days * 24) {
            // A pattern without all days of the week would be a different forecast.
            let like = WeekPattern::of(amounts, origin)
                .filter(|like| like.mean > 0.0 && (0..WEEK).all(|hour| like.knows(hour)));
            let Some(like) = like else { continue };
            let (mut off, mut came, mut seen) = (0.0, 0.0, 0.0);
            let most = ((now - origin) / 24).min(HORIZON as i64);
            for day in 0..most {
                let begin = origin + day * 24;
                for hour in begin..begin + 24 {
                    if let Some(amount) = amounts.at(hour).whole() {
                        off += amount - like.at(hour);
                        came += amount;
                        seen += 1.0;
                    }
                }
                let days = (day + 1) as f64;
                if seen >= days * 24.0 * MOST_OF {
                    let mean = off / seen / like.mean;
                    let share = if came > 0.0 { off / came } else { 0.0 };
                    errors[day as usize].push((mean, share));
                }
            }
        }
        Self { errors }
    }

    /// The error to report for this many days ahead, or for the longest horizon below with five measurements.
    fn expected_error(&self, days: usize) -> Option<ForecastError> {
        let days = (1..=days.min(HORIZON)).rev();
        let mut measured = days.map(|days| (days, &self.errors[days - 1]));
        let (days, errors) = measured.find(|(_, errors)| errors.len() >= 5)?;
        let sum: f64 = errors.iter().map(|(_, share)| share.abs()).sum();
        Some(ForecastError {
            ratio: sum / errors.len() as f64,
            days,
            forecasts: errors.len(),
        })
    }

    /// Variance of one day around its typical day, and growth of the level's variance per day, as shares of a mean day: the best
    /// fit to the errors of forecasts of one day to four weeks. A two-week mean is off by the level's movement since its middle,
    /// and by more with each day ahead; the noise of single days averages out.
    fn noise(&self) -> (f64, f64) {
        let mut seen: Vec<(f64, f64, f64)> = Vec::new();
        for days in [1, 2, 4, 7, 10, 14, 21, 28] {
            let errors = &self.errors[days - 1];
            if !errors.is_empty() {
                let count = errors.len() as f64;
                let square: f64 = errors.iter().map(|(error, _)| error * error).sum();
                // Overlapping forecasts are not independent.
                let weight = (count / days as f64).sqrt().max(0.3);
                seen.push((days as f64, square / count, weight));
            }
        }
        let before =
            |days: f64| DAY_NOISE.powi(2) * of_noise(days) + DAY_DRIFT.powi(2) * of_level(days);
        seen.extend([1.0, 7.0, 21.0].map(|days| (days, before(days), 0.5)));
        let weights: f64 = seen.iter().map(|(.., weight)| weight).sum();
        let mut best = (f64::INFINITY, 0.0, 0.0);
        for step in 0..24 {
            let level = 0.0005 * 1.5_f64.powi(step);
            let of = |days: f64| of_noise(days) + level * of_level(days);
            let ratio = |(days, square, weight): &(f64, f64, f64)| weight * square / of(*days);
            let scale = seen.iter().map(ratio).sum::<f64>() / weights;
            let apart = |(days, square, weight): &(f64, f64, f64)| {
                weight * (square / (scale * of(*days)) - 1.0).powi(2)
            };
            let apart: f64 = seen.iter().map(apart).sum();
            if apart < best.0 {
                best = (apart, scale, scale * level);
            }
        }
        (best.1, best.2)
    }

    /// The 10th and 90th percentile of the error of a sum over this many days, in mean days.
    fn band(&self, days: f64, unseen: f64) -> (f64, f64) {
        let (day, level) = self.noise();
        let own = &self.errors[0];
        let mean = own.iter().map(|(error, _)| error).sum::<f64>() / own.len().max(1) as f64;
        let square = own
            .iter()
            .map(|(error, _)| (error - mean).powi(2))
            .sum::<f64>();
        let spread = (square / own.len().max(1) as f64).sqrt();
        let blocks: Vec<f64> = match own.len() >= 7 && spread > 0.0 {
            true => own
                .iter()
                .map(|(error, _)| (error - mean) / spread)
                .collect(),
            false => Vec::new(),
        };
        let count = days.ceil().max(1.0);
        let one = day.sqrt() * (days / count).sqrt();
        let noise = of_noise(days.max(1.0)) - 1.0 / days.max(1.0);
        let level = (day * noise + level * of_level(days) + unseen * unseen).sqrt() * days;
        let mut rng = Rng::new(SEED);
        let mut ends: Vec<f64> = (0..RESAMPLES)
            .map(|_| {
                let blocks: f64 = (0..count as usize)
                    .map(|_| match blocks.is_empty() {
                        true => normal(&mut rng),
                        false => blocks[rng.below(blocks.len())],
                    })
                    .sum();
                one * blocks + level * normal(&mut rng)
            })
            .collect();
        ends.small_sort_by(f64::total_cmp);
        (
            ends[RESAMPLES / 10] * STUDENT,
            ends[RESAMPLES * 9 / 10] * STUDENT,
        )
    }
}

/// Variance of the mean of this many days against the mean of two weeks, where single days have variance 1.
fn of_noise(days: f64) -> f64 {
    // Each day of the week is a mean of two.
    1.0 / days + 0.5 / days.min(7.0)
}

/// The same where the level is a random walk with variance 1 per day: a third of the days before and ahead.
fn of_level(days: f64) -> f64 {
    (14.0 + days) / 3.0
}

/// An approximately normal number: six uniform ones minus their mean, with variance 1.
fn normal(rng: &mut Rng) -> f64 {
    let even = |_| rng.below(1 << 24) as f64 / f64::from(1 << 24);
    let sum: f64 = (0..6).map(even).sum();
    (sum - 3.0) * std::f64::consts::SQRT_2
}

#[cfg(test)]
#[path = "forecast_tests.rs"]
mod tests;
