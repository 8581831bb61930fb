//! What is told of the targets: their rows under `sources`, and which of them Prometheus spares.

use std::time::Duration;

use crate::cover::Cover;
use exporter::{Rates, Report};
use model::base::{Name, ObjectKey};
use model::fleet::observe::{Observation, SourceHealth, SourceState};

use super::{Known, Scraper, State};

impl Scraper {
    /// Takes in what Prometheus covers now: spares those exporters, and asks the others again.
    pub(super) fn take_cover(&self, state: &mut State, cover: Cover) -> Vec<Observation> {
        let now = self.wire.local();
        let mut told = Vec::new();
        let ids: Vec<u64> = state.by_pod.values().copied().collect();
        for id in ids {
            let Some(known) = state.targets.get_mut(&id) else {
                continue;
            };
            let Some(pod) = known.pod.clone() else {
                continue;
            };
            let spared = cover.spares(&pod);
            if spared == known.spared {
                continue;
            }
            known.spared = spared;
            if spared {
                // Its rates would be over the time in which nobody looked.
                known.rates = Rates::default();
                told.push(Observation::SourceGone(known.name.clone()));
                state.schedule.remove(id);
            } else {
                told.push(Observation::Source(waiting(known)));
                let interval = known.interval;
                let way = self.way(state, &pod.key.namespace, now);
                state.schedule.add(id, pod.node, interval, way, now);
            }
        }
        state.cover = cover;
        told
    }
}

/// Forgets the target of a pod; gives the end of its row.
pub(super) fn forget(state: &mut State, key: &ObjectKey) -> Option<Observation> {
    let id = state.by_pod.remove(key)?;
    state.schedule.remove(id);
    let known = state.targets.remove(&id)?;
    Some(Observation::SourceGone(known.name))
}

/// The row of a target that has not been asked yet.
pub(super) fn waiting(known: &Known) -> SourceHealth {
    SourceHealth {
        name: known.name.clone(),
        kind: known
            .dialect
            .clone()
            .unwrap_or_else(|| Name::new("exporter")),
        state: SourceState::Stale,
        last_ok: None,
        node: known.node.clone(),
        failing_since: known.failing_since,
        patience: known.interval.saturating_mul(3),
        latency_ms: None,
        errors: 0,
        series_used: None,
        series_skipped: None,
        calls_per_minute: None,
        message: "not asked yet".to_owned(),
    }
}

/// The target's row under `sources`.
pub(super) fn row(
    known: &Known,
    latency_ms: u32,
    report: Option<&Report>,
    message: String,
    round: Duration,
) -> SourceHealth {
    let understood = report.is_some_and(|report| report.dialect.is_some() || report.starting);
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    SourceHealth {
        name: known.name.clone(),
        kind: known
            .dialect
            .clone()
            .unwrap_or_else(|| Name::new("exporter")),
        state: if understood {
            SourceState::Live
        } else {
            SourceState::Lost
        },
        last_ok: known.last_ok,
        node: known.node.clone(),
        failing_since: known.failing_since,
        // Two turns may be missed; a fleet larger than the budget takes longer for each.
        patience: known
            .interval
            .max(round)
            .saturating_mul(3)
            .max(Duration::from_secs(90)),
        latency_ms: Some(latency_ms),
        errors: known.errors,
        series_used: report.map(|report| count(report.series_used)),
        series_skipped: report.map(|report| count(report.series_skipped + report.bad_lines)),
        calls_per_minute: Some(count(known.asked.len())),
        message,
    }
}
