//! Model servers: a queueing model of one server with a repeating half-hour pattern, and the true figures of its requests.
//!
//! Requests arrive at random, faster during a surge. Each waits until a batch slot and cache space are free, then its prompt is
//! processed (the time to first token), then its tokens are generated at a rate that falls with the batch size. Each replica is
//! at another offset of the same half hour, and counts from when it became ready: a restart begins at zero.

use model::base::{Moment, ObjectKey};

use super::World;
use super::catalog::{CATALOG, ServerSpec};
use super::noise::{hash, mix, unit};
use super::pod::SimPod;
use super::work::Work;

/// The image of the servers that serve request metrics.
pub(super) const SERVER_IMAGE: &str = "registry.internal/mirror/vllm-openai:v0.11.0";

/// The port of their metrics page.
pub(super) const SERVER_PORT: u16 = 8000;

/// Period of the pattern in milliseconds.
const PERIOD_MS: i64 = 30 * 60_000;

/// The surge of the pattern, seconds.
const SURGE: std::ops::Range<f64> = 900.0..1080.0;

/// One request of a pattern, in seconds since the pattern began; negative if it began in the previous round.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServedRequest {
    pub arrived: f64,
    pub started: f64,
    /// When its first token was generated.
    pub first: f64,
    pub finished: f64,
    pub prompt: f64,
    /// Prompt tokens found in the cache.
    pub found: f64,
    /// Tokens of the answer.
    pub answer: f64,
    /// It was preempted once because the cache was full.
    pub preempted: bool,
}

impl ServedRequest {
    /// Seconds from its arrival to its first token.
    pub(super) fn ttft(&self) -> f64 {
        self.first - self.arrived
    }

    /// Mean seconds for each token after the first.
    pub(super) fn tpot(&self) -> f64 {
        (self.finished - self.first) / (self.answer - 1.0)
    }

    /// Its tokens in the cache at this second, while it runs.
    fn cached(&self, at: f64) -> f64 {
        let part = (at - self.first) / (self.finished - self.first);
        self.prompt + self.answer * part.clamp(0.0, 1.0)
    }
}

/// Half an hour of one server.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    requests: Vec<ServedRequest>,
    /// That of the first replica, where it is slower than the others.
    first: Option<Box<Pattern>>,
}

impl Pattern {
    fn of(plan: &ServerSpec, seed: u64) -> Self {
        let first = plan
            .first_prefill
            .map(|prefill| Self::draw(plan, prefill, seed));
        Self {
            first: first.map(Box::new),
            ..Self::draw(plan, plan.prefill, seed)
        }
    }

    /// Draws it: the second round of the same arrivals, so that it includes requests left over from the first.
    fn draw(plan: &ServerSpec, prefill: f64, seed: u64) -> Self {
        let period = PERIOD_MS as f64 / 1000.0;
        let seed = mix(seed, hash(plan.name));
        let mut draws = 0;
        let mut unit = || {
            draws += 1;
            unit(mix(seed, draws))
        };
        let mut arrivals: Vec<(f64, f64, f64, f64)> = Vec::new();
        let mut at = 0.0;
        loop {
            let load = if SURGE.contains(&at) { plan.surge } else { 1.0 };
            at -= (1.0 - unit()).ln() / (plan.per_second * load);
            if at >= period {
                break;
            }
            let length = |mean: f64, chance: f64| {
                (mean * -(1.0 - chance).ln()).clamp(8.0, 4.0 * mean).round()
            };
            let (prompt, answer) = (length(plan.prompt, unit()), length(plan.answer, unit()));
            arrivals.push((at, prompt, answer, unit()));
        }
        let mut requests: Vec<ServedRequest> = Vec::new();
        let mut running: Vec<ServedRequest> = Vec::new();
        let mut clock = f64::MIN;
        for round in [-period, 0.0] {
            for (after, prompt, answer, chance) in &arrivals {
                let arrived = round + after;
                clock = clock.max(arrived);
                // In the order of arrival, as soon as there is capacity.
                loop {
                    running.retain(|one| one.finished > clock);
                    let tokens: f64 = running.iter().map(|one| one.cached(clock)).sum();
                    if running.len() < plan.batch && tokens + prompt <= plan.cache {
                        break;
                    }
                    clock = running
                        .iter()
                        .map(|one| one.finished)
                        .fold(f64::MAX, f64::min);
                }
                let full: f64 = running.iter().map(|one| one.prompt + one.answer).sum();
                let preempted = full + prompt + answer > plan.cache && *chance < 0.2;
                let found = (prompt * chance * 0.8).round();
                let first = clock + 0.01 + (prompt - found) / prefill;
                let batch = running.len() as f64 / plan.batch as f64;
                let pace = plan.token * (1.0 + 0.8 * batch) * (0.9 + 0.2 * chance);
                let again = if preempted { prompt / prefill } else { 0.0 };
                let one = ServedRequest {
                    arrived,
                    started: clock,
                    first,
                    finished: first + pace * (answer - 1.0) + again,
                    prompt: *prompt,
                    found,
                    answer: *answer,
                    preempted,
                };
                running.push(one);
                requests.push(one);
            }
        }
        Self {
            requests,
            first: None,
        }
    }

    /// Requests with this event in the pattern's time `from..to` (excluded, included) in milliseconds, once per occurrence.
    fn happened(
        &self,
        when: fn(&ServedRequest) -> f64,
        from: i64,
        to: i64,
    ) -> impl Iterator<Item = (&ServedRequest, u64)> {
        self.requests.iter().filter_map(move |one| {
            let at = (when(one) * 1000.0).round() as i64;
            // A request that ends after the pattern's end does so in the next round; those of the previous round are included
            // here.
            if !(0..PERIOD_MS).contains(&at) {
                return None;
            }
            let until = |end: i64| (end - at).div_euclid(PERIOD_MS) + 1;
            let times = until(to) - until(from);
            (times > 0).then_some((one, times as u64))
        })
    }

    /// Requests at a time of the pattern: the running ones, and the number of waiting ones.
    fn present(&self, at: i64) -> (Vec<&ServedRequest>, usize) {
        let at = at.rem_euclid(PERIOD_MS) as f64 / 1000.0;
        let (mut running, mut waiting) = (Vec::new(), 0);
        for one in &self.requests {
            if (one.started..one.finished).contains(&at) {
                running.push(one);
            }
            waiting += usize::from((one.arrived..one.started).contains(&at));
        }
        (running, waiting)
    }
}

/// The patterns of all services, in the order of the catalog.
pub(super) fn patterns(seed: u64) -> Vec<Pattern> {
    CATALOG
        .servers
        .iter()
        .map(|plan| Pattern::of(plan, seed))
        .collect()
}

/// One server at a time.
pub(super) struct SimServer<'w> {
    pub plan: &'static ServerSpec,
    pattern: &'w Pattern,
    /// The pattern's time at which it became ready, and its current time, in milliseconds.
    from: i64,
    to: i64,
}

impl SimServer<'_> {
    /// Requests with this event since it became ready.
    pub(super) fn since_ready(
        &self,
        when: fn(&ServedRequest) -> f64,
    ) -> impl Iterator<Item = (&ServedRequest, u64)> {
        self.pattern.happened(when, self.from, self.to)
    }

    /// Running requests, waiting requests, and the share of the cache in use.
    pub(super) fn load(&self) -> (usize, usize, f64) {
        let (running, waiting) = self.pattern.present(self.to);
        let at = self.to.rem_euclid(PERIOD_MS) as f64 / 1000.0;
        let tokens: f64 = running.iter().map(|one| one.cached(at)).sum();
        (running.len(), waiting, (tokens / self.plan.cache).min(1.0))
    }
}

/// True figures of a service's requests.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ServingTruth {
    /// Pods that are ready.
    pub replicas: usize,
    /// Running and waiting requests at the end of the span.
    pub running: usize,
    /// Waiting requests at the end of the span.
    pub waiting: usize,
    /// Seconds to first token of each request whose first token was in the span.
    pub ttft: Vec<f64>,
    /// Mean seconds per later token of each request that ended in the span.
    pub tpot: Vec<f64>,
    /// Answer tokens of the requests that ended in the span.
    pub tokens: f64,
}

impl World {
    fn plan_of(&self, work: &Work) -> Option<(&'static ServerSpec, &Pattern)> {
        let found = CATALOG.servers.iter().zip(self.patterns.iter());
        let mut found = found.filter(|_| work.image == SERVER_IMAGE);
        found.find(|(plan, _)| *work.namespace == *plan.namespace && *work.name == *plan.name)
    }

    /// The server in a pod at a time; `None` for a pod without request metrics, or before it was ready.
    pub(super) fn server(&self, work: &Work, pod: &SimPod, at: Moment) -> Option<SimServer<'_>> {
        let (plan, pattern) = self.plan_of(work)?;
        let ready = pod.ready.filter(|ready| *ready <= at)?;
        let offset = (mix(pod.uid, 0x5e41) % 120_000) as i64;
        let first = pattern.first.as_deref().filter(|_| pod.index == 0);
        Some(SimServer {
            plan,
            pattern: first.unwrap_or(pattern),
            from: ready.millis() + offset,
            to: at.millis() + offset,
        })
    }

    /// Figures of a service's requests in `from..to`, from pods that were ready for the whole span.
    pub fn serving_truth(&self, service: &ObjectKey, from: Moment, to: Moment) -> ServingTruth {
        let mut truth = ServingTruth::default();
        for pod in self.pods.values().filter(|pod| pod.is_ready()) {
            let Some(work) = self.works.get(&pod.work) else {
                continue;
            };
            if work.namespace != service.namespace || work.name != service.name {
                continue;
            }
            let (Some(now), Some(then)) =
                (self.server(work, pod, to), self.server(work, pod, from))
            else {
                continue;
            };
            truth.replicas += 1;
            let (running, waiting, _) = now.load();
            truth.running += running;
            truth.waiting += waiting;
            let span = |when| now.pattern.happened(when, then.to, now.to);
            for (one, times) in span(|one| one.first) {
                truth.ttft.extend((0..times).map(|_| one.ttft()));
            }
            for (one, times) in span(|one| one.finished) {
                truth.tpot.extend((0..times).map(|_| one.tpot()));
                truth.tokens += one.answer * times as f64;
            }
        }
        truth
    }

    /// Mean waiting requests of a workload's ready servers; `None` without request metrics.
    pub(super) fn mean_waiting(&self, work: &Work) -> Option<f64> {
        let pods = work.groups.iter().flat_map(|group| group.live.values());
        let servers = pods.filter_map(|id| self.server(work, self.pods.get(id)?, self.now));
        let (sum, count) = servers.fold((0, 0_u32), |(sum, count), server| {
            (sum + server.load().1, count + 1)
        });
        (count > 0).then(|| sum as f64 / f64::from(count))
    }

    /// The services with request metrics.
    pub fn served(&self) -> Vec<ObjectKey> {
        let works = self
            .works
            .values()
            .filter(|work| self.plan_of(work).is_some());
        works
            .map(|work| ObjectKey::new(work.namespace.clone(), work.name.clone()))
            .collect()
    }
}

/// The image of a workload that serves models, by its name.
pub(super) fn image_of(name: &str) -> &'static str {
    match CATALOG.servers.iter().any(|plan| plan.name == name) {
        true => SERVER_IMAGE,
        false => "registry.internal/serving/llm-server:0.11.2",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_a_queue() {
        for (plan, pattern) in CATALOG.servers.iter().zip(patterns(7)) {
            let all = &pattern.requests;
            assert!(all.len() > 500, "{}: {}", plan.name, all.len());
            for one in all {
                assert!(
                    one.arrived <= one.started && one.started < one.first,
                    "{one:?}"
                );
                assert!(one.first < one.finished && one.tpot() > 0.0, "{one:?}");
            }
            // First come, first served, and never more than fit.
            assert!(all.windows(2).all(|two| two[0].started <= two[1].started));
            for second in 0..PERIOD_MS / 1000 {
                let (running, _) = pattern.present(second * 1000);
                assert!(running.len() <= plan.batch);
            }
        }
    }

    #[test]
    fn one_replica_of_one_service_is_far_slower_than_the_others() {
        let all = patterns(7);
        let p95 = |pattern: &Pattern| {
            let mut all: Vec<f64> = pattern.requests.iter().map(ServedRequest::ttft).collect();
            all.sort_by(f64::total_cmp);
            all[all.len() * 95 / 100]
        };
        let slow = |pattern: &Pattern| Some(p95(pattern.first.as_deref()?) / p95(pattern));
        let slow: Vec<f64> = all.iter().filter_map(slow).collect();
        assert!(slow.len() == 1 && slow[0] > 2.5, "{slow:?}");
    }

    #[test]
    fn counts_go_on_over_rounds_and_add_up() {
        let pattern = &patterns(7)[0];
        let count = |from, to| -> u64 {
            let happened = pattern.happened(|one| one.finished, from, to);
            happened.map(|(_, times)| times).sum()
        };
        let round = count(0, PERIOD_MS);
        assert!(round > 500);
        assert_eq!(count(-PERIOD_MS, 2 * PERIOD_MS), 3 * round);
        let (a, b, c) = (123_456, PERIOD_MS - 1_000, 2 * PERIOD_MS + 77_777);
        assert_eq!(count(a, b) + count(b, c), count(a, c));
        assert_eq!(count(a, a), 0);
    }

    #[test]
    fn the_small_chat_is_saturated_in_its_surge_alone() {
        let all = patterns(7);
        let waiting = |at: usize, second: i64| all[at].present(second * 1000).1;
        assert!((900..1080).any(|second| waiting(2, second) > 20));
        assert!((0..800).all(|second| waiting(2, second) < 20));
        assert!((0..1800).all(|second| waiting(0, second) < 5));
    }
}
