//! One model as a job's pods serve it: requests, cache and latencies of all replicas together, and what follows from them.

use super::histogram::{Latency, Quantile};
use crate::base::{Name, ObjectKey, SmallSort};

/// A cache as full as this preempts requests: from 92 to 99 % the time for a token quadruples (vllm-ascend #5859).
pub const FULL_CACHE: f64 = 0.95;

/// One model of one job. What is added up over a window is of the replicas that were read twice within it and were not restarted between:
/// these are `measured` of `replicas`.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ServedModel {
    /// Its name, if the servers report it.
    pub model: Option<Name>,
    /// Dialect of the servers' pages: `vllm`.
    pub engine: Name,
    /// Servers with recent readings for it.
    pub replicas: u32,
    /// Of these, with figures over the window.
    pub measured: u32,
    /// Requests in work, of all replicas.
    pub running: Option<f64>,
    /// Requests in servers' queues, of all replicas.
    pub waiting: Option<f64>,
    /// Key-value cache in use, 0 to 1: mean over replicas.
    pub kv_mean: Option<f64>,
    /// The same of the fullest replica.
    pub kv_max: Option<f64>,
    /// Share of prompt tokens found in the cache since the page before, 0 to 1: mean over replicas.
    pub prefix_hit: Option<f64>,
    /// Seconds that the figures below are of; the longest of the replicas. `None` where no replica was read twice: they are unknown then.
    pub window_seconds: Option<f64>,
    /// Tokens generated a second.
    pub tokens_per_second: Option<f64>,
    /// Tokens of prompts a second.
    pub prompt_tokens_per_second: Option<f64>,
    /// Requests answered a second.
    pub requests_per_second: Option<f64>,
    /// Requests preempted because the KV cache was full.
    pub preemptions: Option<f64>,
    /// More requests waited at each of the last three readings than at the one before.
    pub waiting_grows: Option<bool>,
    /// Time from a request to its first token.
    pub ttft: Latency,
    /// Time for each token after the first.
    pub tpot: Latency,
    /// `tpot` counts requests, each by its mean; else it counts tokens.
    pub tpot_of_requests: bool,
    pub objectives: Objectives,
}

/// Why a model's servers are saturated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Saturation {
    /// More and more requests wait.
    WaitingGrows,
    /// The cache of a replica is full.
    CacheFull,
    /// Requests were preempted because the KV cache was full.
    Preempts,
}

crate::words! {
    impl Saturation {
        /// A word for programs.
        pub fn name(self) {
            WaitingGrows => "waiting",
            CacheFull => "kv-cache",
            Preempts => "preemptions",
        }
    }
}

/// What a service promises: thresholds in seconds.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Objectives {
    /// Time to the first token.
    pub ttft: Option<f64>,
    /// Time for each token after the first, mean of a request.
    pub tpot: Option<f64>,
}

/// A replica is slow whose 95th percentile of a latency is this many times the median of the replicas, or more.
const SLOW: f64 = 2.0;

/// Fewest replicas that are compared, and fewest answers in the window by which one is judged.
const COMPARED: usize = 3;
const JUDGED_BY: f64 = 20.0;

/// What one pod of a service says of its requests.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ServedReplica {
    pub pod: ObjectKey,
    /// Figures of all models that it serves, together.
    pub figures: ServedModel,
}

/// The replica that answers far more slowly than the others of its service.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SlowReplica<'s> {
    pub replica: &'s ServedReplica,
    /// The latency in words: `TTFT`.
    pub name: &'static str,
    /// Its 95th percentile over the window.
    pub p95: Quantile,
    /// The median of the replicas' 95th percentiles, seconds.
    pub median: f64,
}

impl<'s> SlowReplica<'s> {
    /// The slowest of these, if it is [`SLOW`] times as slow as the median. `None` where too few are measured.
    pub fn of(replicas: &'s [ServedReplica]) -> Option<Self> {
        let slowest = |name, latency: fn(&ServedModel) -> &Latency| {
            let known = replicas.iter().filter_map(|replica| {
                let latency = latency(&replica.figures);
                let p95 = latency.quantile(0.95)?;
                (latency.total() >= JUDGED_BY).then_some((replica, p95))
            });
            let mut known: Vec<(&ServedReplica, Quantile)> = known.collect();
            known.small_sort_by(|one, other| one.1.seconds.total_cmp(&other.1.seconds));
            let (replica, p95) = known.last().copied()?;
            let median = known.get((known.len() - 1) / 2)?.1.seconds;
            let is_slow = known.len() >= COMPARED && p95.seconds >= SLOW * median;
            is_slow.then_some(Self {
                replica,
                name,
                p95,
                median,
            })
        };
        let all = [
            slowest("TTFT", |one| &one.ttft),
            slowest("TPOT", |one| &one.tpot),
        ];
        let times = |one: &Self| one.p95.seconds / one.median;
        let all = all.into_iter().flatten();
        all.max_by(|one, other| times(one).total_cmp(&times(other)))
    }
}

/// A latency with the objective of its 95th percentile.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PromisedLatency {
    /// The latency in words: `TTFT`.
    pub name: &'static str,
    /// Its 95th percentile over the window; `None` where that is unknown.
    pub p95: Option<Quantile>,
    /// Its objective in the settings, seconds.
    pub limit: f64,
}

impl PromisedLatency {
    /// The 95th percentile as a share of the objective: above 1 the objective is missed. `None` where that is not known.
    pub fn share(&self) -> Option<f64> {
        let p95 = self.p95?;
        // Above the last bucket it may be any number.
        (!p95.at_least || p95.seconds >= self.limit).then_some(p95.seconds / self.limit)
    }
}

impl ServedModel {
    /// What tells a model of a workload from its others: `Deployment org/llama`.
    pub fn of_kind(&self, kind: &str) -> Name {
        match &self.model {
            Some(model) => Name::from(format!("{kind} {model}")),
            None => Name::new(kind),
        }
    }

    /// The objective of `tpot`. Times between two tokens are not those that the objective of a request is about.
    pub fn tpot_objective(&self) -> Option<f64> {
        self.objectives.tpot.filter(|_| self.tpot_of_requests)
    }

    /// What `tpot` is in words: `TPOT`, or `ITL` where it is the time between two tokens.
    pub fn tpot_name(&self) -> &'static str {
        match self.tpot_of_requests {
            true => "TPOT",
            false => "ITL",
        }
    }

    /// The latencies that have an objective.
    pub fn promised(&self) -> impl Iterator<Item = PromisedLatency> {
        let of = |name, latency: &Latency, limit: Option<f64>| {
            limit.map(|limit| PromisedLatency {
                name,
                p95: latency.quantile(0.95),
                limit,
            })
        };
        let all = [
            of("TTFT", &self.ttft, self.objectives.ttft),
            of("TPOT", &self.tpot, self.tpot_objective()),
        ];
        all.into_iter().flatten()
    }

    /// What saturates it. A cache below [`FULL_CACHE`] is no sign alone: it is there to be filled.
    pub fn saturation(&self) -> impl Iterator<Item = Saturation> {
        let grows = self.waiting_grows == Some(true);
        let full = self.kv_max.is_some_and(|ratio| ratio >= FULL_CACHE);
        let preempts = self.preemptions.is_some_and(|count| count > 0.0);
        [
            grows.then_some(Saturation::WaitingGrows),
            full.then_some(Saturation::CacheFull),
            preempts.then_some(Saturation::Preempts),
        ]
        .into_iter()
        .flatten()
    }

    /// Whether it is saturated; unknown without a reason to say so while its queue was not read three times.
    pub fn is_saturated(&self) -> Option<bool> {
        match self.saturation().next() {
            Some(_) => Some(true),
            None => self.waiting_grows.map(|_| false),
        }
    }

    /// The fewest and the most requests a second that can meet all objectives. Histograms tell how many meet each, and not which: those
    /// that miss one may or may not be those that miss another (Fréchet's bounds). `None` where a latency is unknown, counts tokens
    /// instead of requests, or nothing is promised.
    pub fn goodput(&self) -> Option<(f64, f64)> {
        let objectives = self.objectives;
        let rate = self.requests_per_second?;
        let tpot = (&self.tpot, objectives.tpot);
        if tpot.1.is_some() && !self.tpot_of_requests {
            return None;
        }
        let all = [(&self.ttft, objectives.ttft), tpot];
        let promised = all
            .iter()
            .filter_map(|(latency, limit)| Some((*latency, (*limit)?)));
        let (mut missed, mut most, mut count) = (0.0, 1.0f64, 0);
        for (latency, limit) in promised {
            if latency.is_unknown() {
                return None;
            }
            count += 1;
            if rate == 0.0 {
                continue;
            }
            let (low, high) = latency.share_within(limit)?;
            missed += 1.0 - low;
            most = most.min(high);
        }
        (count > 0).then(|| ((1.0 - missed).max(0.0) * rate, most * rate))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fleet::serving::histogram::Histogram;
    use crate::fleet::signal::Signal;

    fn latency(bounds: &[f64], values: &[f64]) -> Latency {
        let up_to = |bound: f64| values.iter().filter(|value| **value <= bound).count() as f64;
        let ends = bounds.iter().copied().chain([f64::INFINITY]);
        let buckets = ends.map(|bound| (bound, up_to(bound))).collect();
        let mut latency = Latency::default();
        latency.add(
            Histogram::new(Signal::Ttft, buckets)
                .expect("it is one")
                .whole(),
        );
        latency
    }

    proptest! {
        #[test]
        fn goodput_holds_the_truth(
            requests in proptest::collection::vec((0.0..4.0f64, 0.0..0.2f64), 1..300),
            alike in any::<bool>(),
            ttft in proptest::option::of(prop_oneof![Just(1.0), 0.0..5.0f64]),
            tpot in proptest::option::of(prop_oneof![Just(0.05), 0.0..0.3f64]),
        ) {
            // Where slow requests are slow throughout, the bounds lie far from where chance would put them.
            let of = |(a, b): &(f64, f64)| (*a, if alike { a / 20.0 } else { *b });
            let all: Vec<(f64, f64)> = requests.iter().map(of).collect();
            let column = |take: fn(&(f64, f64)) -> f64| all.iter().map(take).collect::<Vec<f64>>();
            let seconds = 60.0;
            let model = ServedModel {
                requests_per_second: Some(all.len() as f64 / seconds),
                ttft: latency(&[0.1, 0.5, 1.0, 2.0], &column(|one| one.0)),
                tpot: latency(&[0.01, 0.05, 0.1], &column(|one| one.1)),
                tpot_of_requests: true,
                objectives: Objectives { ttft, tpot },
                ..ServedModel::default()
            };
            let goodput = model.goodput();
            if ttft.is_none() && tpot.is_none() {
                prop_assert_eq!(goodput, None);
                return Ok(());
            }
            let met = |limit: Option<f64>, value: f64| limit.is_none_or(|limit| value <= limit);
            let good = all.iter().filter(|(a, b)| met(ttft, *a) && met(tpot, *b)).count();
            let truth = good as f64 / seconds;
            let (low, high) = goodput.expect("all is known");
            prop_assert!(low <= truth + 1e-9 && truth <= high + 1e-9, "{} {} {}", low, truth, high);
        }
    }

    #[test]
    fn goodput_without_what_it_needs_is_unknown() {
        let promised = Objectives {
            ttft: Some(1.0),
            tpot: Some(0.05),
        };
        let mut model = ServedModel {
            requests_per_second: Some(2.0),
            ttft: latency(&[1.0], &[0.5]),
            tpot: latency(&[0.05], &[0.01]),
            tpot_of_requests: true,
            ..ServedModel::default()
        };
        assert_eq!(model.goodput(), None, "nothing is promised");
        model.objectives = promised;
        assert_eq!(model.goodput(), Some((2.0, 2.0)));
        model.tpot_of_requests = false;
        assert_eq!(model.goodput(), None, "tokens are no requests");
        model.tpot_of_requests = true;
        model.tpot = Latency::default();
        assert_eq!(model.goodput(), None);
        model.requests_per_second = None;
        assert_eq!(model.goodput(), None);
    }

    #[test]
    fn idle_servers_have_a_goodput_of_zero() {
        let model = ServedModel {
            requests_per_second: Some(0.0),
            ttft: latency(&[1.0], &[]),
            objectives: Objectives {
                ttft: Some(1.0),
                tpot: None,
            },
            ..ServedModel::default()
        };
        assert_eq!(model.goodput(), Some((0.0, 0.0)));
    }

    #[test]
    fn a_slow_replica_is_far_above_the_median_of_enough_others() {
        let replica = |name: &str, seconds: f64, answers: usize| ServedReplica {
            pod: ObjectKey::new("ns", name),
            figures: ServedModel {
                ttft: latency(&[0.1, 0.2, 0.3, 0.8, 1.6], &vec![seconds; answers]),
                ..ServedModel::default()
            },
        };
        let others = [
            replica("a", 0.15, 30),
            replica("b", 0.15, 30),
            replica("c", 0.15, 30),
        ];
        let with = |one: ServedReplica| {
            let all = [&others[..], &[one]].concat();
            SlowReplica::of(&all).map(|slow| (slow.replica.pod.name.to_string(), slow.name))
        };
        assert_eq!(SlowReplica::of(&others), None);
        let slow = Some((String::from("d"), "TTFT"));
        assert_eq!(with(replica("d", 1.0, 30)), slow);
        assert_eq!(with(replica("d", 0.25, 30)), None, "less than twice");
        assert_eq!(with(replica("d", 1.0, 19)), None, "too few answers");
        let two = [replica("a", 0.15, 30), replica("b", 1.0, 30)];
        assert_eq!(SlowReplica::of(&two), None, "which is usual is not known");
    }

    #[test]
    fn times_between_tokens_have_no_objective_of_requests() {
        let mut model = ServedModel {
            objectives: Objectives {
                ttft: None,
                tpot: Some(0.05),
            },
            ..ServedModel::default()
        };
        assert_eq!((model.tpot_objective(), model.tpot_name()), (None, "ITL"));
        model.tpot_of_requests = true;
        assert_eq!(model.tpot_objective(), Some(0.05));
        assert_eq!(model.tpot_name(), "TPOT");
    }

    #[test]
    fn saturated_is_a_growing_queue_a_full_cache_or_preemptions() {
        let model = |grows, kv_max, preemptions| ServedModel {
            waiting_grows: grows,
            kv_max,
            preemptions,
            ..ServedModel::default()
        };
        let why =
            |model: &ServedModel| model.saturation().map(Saturation::name).collect::<Vec<_>>();
        let calm = model(Some(false), Some(0.9499), Some(0.0));
        assert_eq!((calm.is_saturated(), why(&calm).len()), (Some(false), 0));
        let full = model(Some(false), Some(0.95), Some(0.0));
        assert_eq!(
            (full.is_saturated(), why(&full)),
            (Some(true), vec!["kv-cache"])
        );
        let all = model(Some(true), Some(1.0), Some(1.0));
        assert_eq!(why(&all), ["waiting", "kv-cache", "preemptions"]);
        // A cache that is not full says nothing alone.
        assert_eq!(model(None, Some(0.9), None).is_saturated(), None);
        assert_eq!(model(None, None, Some(1.0)).is_saturated(), Some(true));
    }
}
