//! Request metrics of pods that serve models, and the figures of their job that follow from them.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use model::base::{Age, Moment, Name, ObjectKey};
use model::fleet::device::Pod;
use model::fleet::histogram::{Histogram, Latency};
use model::fleet::job::Serving;
use model::fleet::policy::Policy;
use model::fleet::reading::{Page, Reading, ReadingScope};
use model::fleet::served_model::{Objectives, ServedModel, ServedReplica};
use model::fleet::signal::{Signal, SignalType, Signals};

use crate::fold::Ledger;

/// Maximum number of unknown pods that pages may name; more are ignored.
const MOST_UNKNOWN: usize = 4096;

/// Words older than this many of their intervals are no longer the server's.
const HOLDS_INTERVALS: u32 = 10;

/// Two totals are kept, at least this far apart: figures cover this long to twice as long, once a server was read for that long.
const HALF_WINDOW: Duration = Duration::from_secs(150);

/// Number of readings over which a queue must grow.
const TREND: usize = 3;

/// The latest metrics of a pod's models in one dialect.
#[derive(Clone, Serialize, Deserialize)]
struct ServingReading {
    dialect: Name,
    at: Moment,
    interval: Duration,
    models: Vec<(Option<Name>, Signals)>,
    /// Kept totals of each of `models`, in their order.
    #[serde(default)]
    kept: Vec<ModelHistory>,
}

/// Kept totals of a model of one server.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct ModelHistory {
    /// Its latencies as last read.
    histograms: Vec<Histogram>,
    /// Earlier totals, the oldest first: where the window begins. At most two.
    marks: Vec<ServerTotals>,
    /// Requests that waited at the last readings, the newest last. At most [`TREND`].
    waiting: Vec<f64>,
}

/// Totals of a server at a moment.
#[derive(Clone, Serialize, Deserialize)]
struct ServerTotals {
    at: Moment,
    totals: Signals,
    histograms: Vec<Histogram>,
}

impl ServingReading {
    /// Keeps the marks of the previous page. After a restart a server begins again: its counts from before are in no window.
    fn remember(&mut self, before: &mut Self) {
        for ((model, now), kept) in self.models.iter().zip(&mut self.kept) {
            let place = before.models.iter().position(|(old, _)| old == model);
            let Some(at) = place else { continue };
            let (Some(old), (_, then)) = (before.kept.get_mut(at), &before.models[at]) else {
                continue;
            };
            let old = std::mem::take(old);
            if self.at <= before.at {
                // Nothing newer: the previous marks are kept.
                kept.marks = old.marks;
                kept.waiting = old.waiting;
                continue;
            }
            if restarted(then, now) || restarted_histograms(&old.histograms, &kept.histograms) {
                continue;
            }
            kept.marks = old.marks;
            let last = kept.marks.last().map(|mark| mark.at);
            if last.is_none_or(|last| before.at.since(last) >= Age::from(HALF_WINDOW)) {
                kept.marks.push(ServerTotals {
                    at: before.at,
                    totals: totals(then),
                    histograms: old.histograms,
                });
            }
            if kept.marks.len() > 2 {
                kept.marks.remove(0);
            }
            let newest = std::mem::take(&mut kept.waiting);
            kept.waiting = old.waiting;
            kept.waiting.extend(newest);
            let over = kept.waiting.len().saturating_sub(TREND);
            kept.waiting.drain(..over);
        }
    }
}

/// The running totals among signals.
fn totals(signals: &Signals) -> Signals {
    let all = signals.iter();
    all.filter(|(signal, _)| signal.kind() == SignalType::Counter)
        .collect()
}

/// True when a total fell.
fn restarted(then: &Signals, now: &Signals) -> bool {
    let fell = |(signal, before): (Signal, f64)| now.get(signal).is_some_and(|now| now < before);
    totals(then).iter().any(fell)
}

fn restarted_histograms(then: &[Histogram], now: &[Histogram]) -> bool {
    now.iter().any(|now| {
        let before = then.iter().find(|before| before.signal == now.signal);
        before.is_some_and(|before| now.since(before).is_none())
    })
}

/// The latest metrics of every serving pod.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct Servers(BTreeMap<ObjectKey, Vec<ServingReading>>);

impl Servers {
    /// Hands over the values of every model, always in the same order.
    pub(crate) fn visit(&mut self, take: &mut dyn FnMut(&mut Signals)) {
        for reading in self.0.values_mut().flatten() {
            for (_, signals) in &mut reading.models {
                take(signals);
            }
        }
        // Last, so that a reader that does not know them has all else.
        let kept = self.0.values_mut().flatten();
        for mark in kept
            .flat_map(|reading| &mut reading.kept)
            .flat_map(|kept| &mut kept.marks)
        {
            take(&mut mark.totals);
        }
    }

    pub(crate) fn forget(&mut self, pod: &ObjectKey) {
        self.0.remove(pod);
    }

    /// The merged metrics of a job's pods; `None` when no pod has recent ones.
    pub(crate) fn of<'p>(
        &self,
        policy: &Policy,
        job: &ObjectKey,
        pods: impl Iterator<Item = &'p Pod>,
        at: Moment,
    ) -> Option<Serving> {
        let mut all = Serving::default();
        let mut served: Vec<ServerMetrics<'_>> = Vec::new();
        let mut sums: BTreeMap<Signal, (f64, u32)> = BTreeMap::new();
        for pod in pods {
            let reading = self.0.get(pod.key()).into_iter().flatten();
            let fresh = reading.filter(|reading| {
                at.since(reading.at) <= Age::from(reading.interval * HOLDS_INTERVALS)
            });
            let mut own = ServerMetrics {
                model: None,
                parts: Vec::new(),
            };
            for reading in fresh {
                all.read_at = all.read_at.max(Some(reading.at));
                for (at, (model, signals)) in reading.models.iter().enumerate() {
                    let known = served.iter().position(|one| one.model == model.as_ref());
                    let place = known.unwrap_or_else(|| {
                        served.push(ServerMetrics {
                            model: model.as_ref(),
                            parts: Vec::new(),
                        });
                        served.len() - 1
                    });
                    served[place].parts.push((reading, at, signals));
                    own.parts.push((reading, at, signals));
                    all.models.extend(model.clone());
                    for (signal, value) in signals.iter() {
                        let (sum, count) = sums.entry(signal).or_default();
                        *sum += value;
                        *count += 1;
                    }
                }
            }
            if !own.parts.is_empty() {
                all.servers += 1;
                all.replicas.push(ServedReplica {
                    pod: pod.key().clone(),
                    figures: own.model(),
                });
            }
        }
        all.models.sort();
        all.models.dedup();
        served.sort_by_key(|one| one.model);
        let models = served.iter().map(ServerMetrics::model);
        let promised = models.map(|mut one| {
            let mut rules = policy.services.iter();
            let rule = rules.find(|rule| rule.covers(job, one.model.as_deref()));
            one.objectives = rule.map(|rule| rule.objectives).unwrap_or_default();
            one
        });
        all.served = promised.collect();
        all.signals = sums
            .into_iter()
            .map(|(signal, (sum, count))| {
                let adds_up = signal.kind() == SignalType::Counter
                    || matches!(signal, Signal::RequestsRunning | Signal::RequestsWaiting);
                let value = if adds_up { sum } else { sum / f64::from(count) };
                (signal, value)
            })
            .collect();
        (all.servers > 0).then_some(all)
    }
}

/// The metrics of the servers of one model, or of the models of one server.
struct ServerMetrics<'s> {
    model: Option<&'s Name>,
    parts: Vec<(&'s ServingReading, usize, &'s Signals)>,
}

impl ServerMetrics<'_> {
    fn sum(&self, signal: Signal) -> Option<f64> {
        let known = self.parts.iter();
        let known = known.filter_map(|(.., signals)| signals.get(signal));
        known.reduce(|sum, more| sum + more)
    }

    fn mean(&self, signal: Signal) -> Option<f64> {
        let known = self.parts.iter();
        let count = known
            .filter_map(|(.., signals)| signals.get(signal))
            .count();
        Some(self.sum(signal)? / count as f64)
    }

    /// Kept totals of each server, with the totals at the beginning of its window.
    fn windows(
        &self,
    ) -> impl Iterator<Item = (&ServingReading, &Signals, &ModelHistory, &ServerTotals)> {
        self.parts.iter().filter_map(|(reading, at, signals)| {
            let kept = reading.kept.get(*at)?;
            let from = kept.marks.first().filter(|mark| mark.at < reading.at)?;
            Some((*reading, *signals, kept, from))
        })
    }

    /// By how much a total grew over the windows, a second or in all.
    fn grown(&self, signal: Signal, a_second: bool) -> Option<f64> {
        let more = self.windows().filter_map(|(reading, now, _, from)| {
            let more = now.get(signal)? - from.totals.get(signal)?;
            let seconds = reading.at.since(from.at).millis() as f64 / 1000.0;
            Some(more / if a_second { seconds } else { 1.0 })
        });
        more.reduce(|sum, more| sum + more)
    }

    fn waiting_grows(&self) -> Option<bool> {
        let known = self.parts.iter().filter_map(|(reading, at, _)| {
            let waiting: &[f64; TREND] =
                reading.kept.get(*at)?.waiting.as_slice().try_into().ok()?;
            Some(*waiting)
        });
        let all =
            known.reduce(|sum, more| [sum[0] + more[0], sum[1] + more[1], sum[2] + more[2]])?;
        Some(all[0] < all[1] && all[1] < all[2])
    }

    /// A latency over the windows; unknown where no server was read twice.
    fn latency(&self, signal: Signal) -> Latency {
        let of = |all: &[Histogram]| all.iter().position(|one| one.signal == signal);
        let mut latency = Latency::default();
        for (_, _, kept, from) in self.windows() {
            if let (Some(now), Some(then)) = (of(&kept.histograms), of(&from.histograms)) {
                let more = kept.histograms[now].since(&from.histograms[then]);
                more.into_iter().for_each(|more| latency.add(more));
            }
        }
        latency
    }

    fn model(&self) -> ServedModel {
        let spans = self
            .windows()
            .map(|(reading, _, _, from)| reading.at.since(from.at).millis());
        let tpot = self.latency(Signal::Tpot);
        let tpot_of_requests = !tpot.is_unknown();
        let shares = self.parts.iter();
        let shares = shares.filter_map(|(.., signals)| signals.get(Signal::KvCache));
        let engine = self
            .parts
            .first()
            .map(|(reading, ..)| reading.dialect.clone());
        ServedModel {
            model: self.model.cloned(),
            engine: engine.unwrap_or_default(),
            replicas: self.parts.len() as u32,
            measured: self.windows().count() as u32,
            running: self.sum(Signal::RequestsRunning),
            waiting: self.sum(Signal::RequestsWaiting),
            kv_mean: self.mean(Signal::KvCache),
            kv_max: shares.reduce(f64::max),
            prefix_hit: self.mean(Signal::PrefixHit),
            window_seconds: spans.max().map(|millis| millis as f64 / 1000.0),
            tokens_per_second: self.grown(Signal::GeneratedTokens, true),
            prompt_tokens_per_second: self.grown(Signal::PromptTokens, true),
            requests_per_second: self.grown(Signal::RequestsDone, true),
            preemptions: self.grown(Signal::Preemptions, false),
            waiting_grows: self.waiting_grows(),
            ttft: self.latency(Signal::Ttft),
            tpot: if tpot_of_requests {
                tpot
            } else {
                self.latency(Signal::Itl)
            },
            tpot_of_requests,
            objectives: Objectives::default(),
        }
    }
}

impl Ledger {
    /// Takes the metrics of model servers from a page.
    pub(crate) fn read_servers(&mut self, page: &Page) {
        let served = page
            .readings
            .iter()
            .filter(|one| one.scope == ReadingScope::Serving);
        let mut by_pod: BTreeMap<(&ObjectKey, &Name), Vec<&Reading>> = BTreeMap::new();
        for reading in served {
            if let Some(pod) = &reading.pod {
                by_pod
                    .entry((pod, &reading.dialect))
                    .or_default()
                    .push(reading);
            }
        }
        for ((pod, dialect), readings) in by_pod {
            let servers = &mut self.serving.0;
            let bounded = servers.len() < MOST_UNKNOWN || servers.contains_key(pod);
            if !bounded && !self.pods.contains_key(pod) {
                continue;
            }
            let mut latest = ServingReading {
                dialect: dialect.clone(),
                at: page.at,
                interval: page.interval,
                models: readings
                    .iter()
                    .map(|one| (one.model.clone(), one.signals.clone()))
                    .collect(),
                kept: readings
                    .iter()
                    .map(|one| ModelHistory {
                        histograms: one.histograms.clone(),
                        marks: Vec::new(),
                        waiting: one
                            .signals
                            .get(Signal::RequestsWaiting)
                            .into_iter()
                            .collect(),
                    })
                    .collect(),
            };
            let known = servers.entry(pod.clone()).or_default();
            let mut old = known.iter_mut().find(|old| old.dialect == *dialect);
            if let Some(old) = &mut old {
                let ahead = old.at.since(latest.at);
                if ahead.millis() > 0 && ahead <= Age::from(latest.interval * HOLDS_INTERVALS) {
                    // A page read over another path, older than the known one.
                    continue;
                }
                if ahead.millis() == 0 {
                    latest.remember(old);
                }
                // (After a clock was set far back, its counts are in no window.)
            }
            match old {
                Some(old) => *old = latest,
                None => known.push(latest),
            }
            if let Some(joined) = self.joined.get(pod) {
                self.dirty_jobs.insert(joined.job.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests;
