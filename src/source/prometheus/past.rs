//! Loads history once: the few signals that history keeps, in parts, with lower priority than current readings.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use exporter::{Samples, Ups};
use model::base::{Moment, Name};
use model::fleet::history::ACTIVITY_SIGNALS;
use model::fleet::observe::{Observation, PastPages};
use model::fleet::profile::WINDOW;
use model::fleet::reading::{Page, ReadingScope};
use model::fleet::signal::Signal;

use super::prometheus_client::{PrometheusClient, RequestPriority};
use super::round::{ask, narrowed};
use super::{Feed, PastTarget, RoundState};

/// Device signals that history keeps.
const SIGNALS: &[Signal] = &[
    Signal::Util,
    Signal::MemUsed,
    Signal::MemTotal,
    Signal::MemUsedRatio,
    Signal::Temp,
    Signal::Power,
];

/// Longest history of devices.
const LONGEST: Duration = Duration::from_secs(3600);

/// History of the signals for profiles, with one step to spare.
const PROFILES: Duration = Duration::from_millis(WINDOW.millis() + 60_000);

/// Most series in one query.
const SERIES: usize = 2000;

/// Most samples of all queries together; a larger fleet gets longer steps.
const SAMPLES: u64 = 2_000_000;

const STEP: Duration = Duration::from_secs(60);

/// Pause between two queries.
const REST: Duration = Duration::from_millis(200);

struct PastQuery {
    dialect: Name,
    names: BTreeSet<String>,
    targets: Vec<PastTarget>,
    /// How far back it reaches.
    span: Duration,
    step: Duration,
}

impl Feed {
    /// The queries for these signals of these targets over this span.
    fn parts(
        &self,
        by_dialect: &BTreeMap<Name, Vec<PastTarget>>,
        state: &RoundState,
        signals: &[Signal],
        span: Duration,
    ) -> Vec<PastQuery> {
        let mut parts: Vec<PastQuery> = Vec::new();
        let mut series = 0usize;
        for (name, targets) in by_dialect {
            let (Some(dialect), Some(plan)) = (self.dialects.get(name), state.plan.get(name))
            else {
                continue;
            };
            let all: BTreeSet<&str> = plan.iter().flatten().map(String::as_str).collect();
            let needed: BTreeSet<String> = dialect
                .needed_for(signals, &all)
                .into_iter()
                .map(str::to_owned)
                .collect();
            if needed.is_empty() {
                continue;
            }
            let mut room = 0;
            for target in targets {
                // Roughly as many rows of each metric as of any other.
                let own = (target.series * needed.len()).div_ceil(all.len().max(1));
                series += own;
                if own > room || parts.last().is_none_or(|part| part.dialect != *name) {
                    room = SERIES;
                    parts.push(PastQuery {
                        dialect: name.clone(),
                        names: needed.clone(),
                        targets: Vec::new(),
                        span,
                        step: STEP,
                    });
                }
                room = room.saturating_sub(own);
                if let Some(part) = parts.last_mut() {
                    part.targets.push(target.clone());
                }
            }
        }
        let step = step(span, series);
        for part in &mut parts {
            part.step = step;
        }
        parts
    }

    /// Loads and reports the history of these targets. Gives up without an error: history is optional.
    pub(super) fn past(
        &self,
        asker: Arc<PrometheusClient>,
        targets: Vec<PastTarget>,
        state: &RoundState,
    ) -> impl Future<Output = ()> + Send + 'static {
        let mut by_dialect: BTreeMap<Name, Vec<PastTarget>> = BTreeMap::new();
        for target in targets {
            by_dialect
                .entry(target.dialect.clone())
                .or_default()
                .push(target);
        }
        let history = self.options.history.min(LONGEST);
        let mut parts = self.parts(&by_dialect, state, SIGNALS, history);
        let profiles = history.min(PROFILES);
        parts.extend(self.parts(&by_dialect, state, ACTIVITY_SIGNALS, profiles));
        let (stats, out) = (Arc::clone(&self.stats), self.out.clone());
        let (dialects, names) = (Arc::clone(&self.dialects), Arc::clone(&self.names));
        let matchers = self.options.matchers.clone();
        async move {
            let now = stats.now().millis() / 1000;
            let end = now.to_string();
            let count = parts.len();
            for (number, part) in parts.into_iter().enumerate() {
                let Some(dialect) = dialects.get(&part.dialect) else {
                    continue;
                };
                let step = part.step;
                let start = now - i64::try_from(part.span.as_secs()).unwrap_or(0);
                let (start, seconds) = (start.to_string(), step.as_secs().to_string());
                let wanted: BTreeSet<&str> = part.names.iter().map(String::as_str).collect();
                let targets: Vec<&PastTarget> = part.targets.iter().collect();
                let mut samples = Samples::default();
                for query in narrowed(dialect, &wanted, &matchers, &targets) {
                    let parameters = [
                        ("query", &*query),
                        ("start", &*start),
                        ("end", &*end),
                        ("step", &*seconds),
                    ];
                    let (kept, asked) = ask(
                        &asker,
                        "/api/v1/query_range",
                        &parameters,
                        RequestPriority::Later,
                        samples,
                    )
                    .await;
                    samples = kept;
                    if let Err(no) = asked {
                        tracing::info!(message = %no.message, "the past stays empty");
                        return;
                    }
                }
                let nodes: BTreeMap<String, Option<Name>> = part
                    .targets
                    .iter()
                    .map(|target| (target.id.clone(), target.node.clone()))
                    .collect();
                let (dialects, names) = (Arc::clone(&dialects), Arc::clone(&names));
                let name = part.dialect.clone();
                let last = number + 1 == count;
                let read = tokio::task::spawn_blocking(move || {
                    let dialect = dialects.get(&name)?;
                    let none = Ups::default();
                    let mut pages = Vec::new();
                    for scrape in samples.scrapes(&none) {
                        let node = nodes.get(&scrape.id()).cloned().flatten();
                        let mut names = names.lock().unwrap_or_else(PoisonError::into_inner);
                        let read = scrape.read(dialect, node.as_ref(), &mut names);
                        pages.extend(
                            read.into_iter()
                                .map(|(at, read)| page(at, node.clone(), step, read.readings)),
                        );
                    }
                    Some(PastPages { pages, step, last })
                });
                let Ok(Some(past)) = read.await else { return };
                if out
                    .send(vec![Observation::Past(Box::new(past))])
                    .await
                    .is_err()
                {
                    return;
                }
                tokio::time::sleep(REST).await;
            }
        }
    }
}

/// A page of history, with rows about devices only.
fn page(
    at: Moment,
    node: Option<Name>,
    step: Duration,
    mut readings: Vec<model::fleet::reading::Reading>,
) -> Page {
    readings.retain(|reading| reading.scope == ReadingScope::Device && !reading.signals.is_empty());
    Page {
        node,
        at,
        interval: step,
        readings,
    }
}

/// The step at which this many series over this span have no more than [`SAMPLES`] samples, in whole half minutes.
fn step(history: Duration, series: usize) -> Duration {
    let samples = history.as_secs().saturating_mul(series as u64);
    let seconds = samples.div_ceil(SAMPLES).div_ceil(30) * 30;
    Duration::from_secs(seconds).max(STEP)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_grow_with_the_fleet() {
        let hour = Duration::from_secs(3600);
        for (series, seconds) in [(100, 60), (32_000, 60), (100_000, 180), (320_000, 600)] {
            let step = step(hour, series);
            assert_eq!(step.as_secs(), seconds, "{series}");
            assert!(series as u64 * (3600 / step.as_secs()) <= SAMPLES);
        }
    }
}
