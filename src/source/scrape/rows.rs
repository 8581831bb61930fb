//! Reports on targets: their rows under `sources`, and which of them need no scrapes.

use std::sync::Arc;
use std::time::Duration;

use crate::scrape_coverage::{ScrapeCoverage, ScrapedNodes};
use crate::serving::ServingPod;
use exporter::{Dialect, HostRule, PageReport, Rates};
use model::base::{Age, Moment, Name, ObjectKey};
use model::fleet::observe::{Observation, SourceHealth, SourceState};
use model::fleet::skipped_series::SkippedSeries;

use super::page::ScrapeRoute;
use super::target::KnownTarget;
use super::{ScrapeState, Scraper};

impl Scraper {
    /// Applies Prometheus' coverage: skips the exporters that it covers, and scrapes the others again.
    pub(super) fn take_cover(
        &self,
        state: &mut ScrapeState,
        cover: ScrapeCoverage,
    ) -> Vec<Observation> {
        state.cover = cover;
        self.sort_out(state)
    }

    /// Applies whose readings are needed.
    pub(super) fn take_reach(
        &self,
        state: &mut ScrapeState,
        reach: ScrapedNodes,
    ) -> Vec<Observation> {
        state.reach = reach;
        self.sort_out(state)
    }

    /// True when the exporter in this pod is not scraped.
    pub(super) fn spares(&self, state: &ScrapeState, pod: &ServingPod) -> bool {
        let speaks_of = |dialect: &Dialect| match dialect.host {
            HostRule::Target => pod.node.clone(),
            _ => None,
        };
        let node = self.dialects.get(&pod.dialect).and_then(speaks_of);
        !state.reach.includes(node.as_ref()) || state.cover.spares(pod)
    }

    /// Stops the scrapes that are not needed, and resumes those that are.
    fn sort_out(&self, state: &mut ScrapeState) -> Vec<Observation> {
        let now = self.stats.local();
        let mut observations = Vec::new();
        let ids: Vec<u64> = state.targets.keys().copied().collect();
        for id in ids {
            let Some(known) = state.targets.get(&id) else {
                continue;
            };
            let (spared, way) = match &known.pod {
                Some(pod) => (
                    self.spares(state, pod),
                    self.way(state, &pod.key.namespace, now),
                ),
                None => (
                    !state.reach.includes(known.node.as_ref()),
                    ScrapeRoute::Direct,
                ),
            };
            let Some(known) = state.targets.get_mut(&id) else {
                continue;
            };
            if spared == known.spared {
                continue;
            }
            known.spared = spared;
            if spared {
                // Its rates would span the time without scrapes.
                known.rates = Rates::default();
                observations.push(Observation::SourceGone(known.name.clone()));
                state.schedule.remove(id);
            } else {
                observations.push(Observation::Source(waiting(known)));
                let (node, interval) = (known.node.clone(), known.interval);
                state.schedule.add(id, node, interval, way, now);
            }
        }
        observations
    }
}

impl ScrapeState {
    /// Reports once that each scraped exporter has a row: as soon as the pods are listed, and it is known which of
    /// them Prometheus covers and whose readings are needed.
    pub(super) fn all_found(&mut self) -> Option<Observation> {
        let settled = self.found
            && self.cover != ScrapeCoverage::Pending
            && self.reach != ScrapedNodes::Undecided;
        (settled && !std::mem::replace(&mut self.found_reported, true))
            .then_some(Observation::ExportersFound)
    }

    /// The skipped series of a page. Most pages of a dialect skip the same: these share one list.
    pub(super) fn shared(
        &mut self,
        dialect: &Name,
        skipped: Vec<SkippedSeries>,
    ) -> Arc<[SkippedSeries]> {
        let last = self.skipped.entry(dialect.clone()).or_default();
        if **last != *skipped {
            *last = skipped.into();
        }
        Arc::clone(last)
    }
}

/// Removes the target of a pod; returns the end of its row.
pub(super) fn forget(state: &mut ScrapeState, key: &ObjectKey) -> Option<Observation> {
    let id = state.by_pod.remove(key)?;
    state.schedule.remove(id);
    let known = state.targets.remove(&id)?;
    Some(Observation::SourceGone(known.name))
}

/// Message of an exporter that has not answered yet, whether it was scraped or not.
const NO_ANSWER_YET: &str = "no answer yet";

/// The row of a target that has not answered yet.
pub(super) fn waiting(known: &KnownTarget) -> SourceHealth {
    let kind = known.dialect.clone();
    SourceHealth {
        node: known.node.clone(),
        failing_since: known.failing_since,
        last_outage: known.last_outage,
        message: NO_ANSWER_YET.to_owned(),
        ..SourceHealth::new(
            known.name.clone(),
            kind.unwrap_or_else(|| Name::new("exporter")),
            SourceState::Stale,
            known.interval.saturating_mul(3),
        )
    }
}

/// An exporter that has never answered is not lost while its pod is younger than this: it is still starting.
const STARTS: Age = Age::from_seconds(60);

/// True for an exporter in a new pod that has not answered yet.
fn is_starting(known: &KnownTarget, now: Moment) -> bool {
    let started = known.pod.as_ref().and_then(|pod| pod.started);
    known.last_ok.is_none() && started.is_some_and(|at| now.since(at) < STARTS)
}

/// The target's row under `sources`.
pub(super) fn row(
    known: &KnownTarget,
    latency_ms: u32,
    report: Option<&PageReport>,
    message: String,
    (round, now): (Duration, Moment),
) -> SourceHealth {
    let understood = report.is_some_and(|report| report.dialect.is_some() || report.starting);
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    SourceHealth {
        state: match understood {
            true => SourceState::Live,
            false if is_starting(known, now) => SourceState::Stale,
            false => SourceState::Lost,
        },
        last_ok: known.last_ok,
        // Two scrapes may be missed; a fleet larger than the request budget takes longer for each.
        patience: known
            .interval
            .max(round)
            .saturating_mul(3)
            .max(Duration::from_secs(90)),
        latency_ms: Some(latency_ms),
        errors: known.errors.count,
        last_errors: Arc::clone(&known.errors.last),
        series_used: report.map(|report| count(report.series_used)),
        series_skipped: report.map(|report| count(report.series_skipped + report.bad_lines)),
        calls_per_minute: Some(count(known.asked.len())),
        message,
        ..waiting(known)
    }
}
